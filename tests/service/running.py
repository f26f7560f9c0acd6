"""A service in a process of its own, spoken to over a real socket."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from index.kept import FOLDER, SUFFIX

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds: what a busy machine may take, never what a test waits for


def environment(**given: str) -> dict[str, str]:
    """This process's environment without settings of softdict but those given."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SOFTDICT_")}
    return {**kept, "PYTHONPATH": str(ROOT), **given}


def wait_for_vectors(home: Path) -> None:
    """Wait until a load into the store has encoded some of its texts."""
    deadline = time.monotonic() + PATIENCE
    while not any((home / FOLDER).glob(f"*{SUFFIX}")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """``python -m service serve`` on a free port, stopped at the end of the ``with`` block."""

    def __init__(
        self,
        home: Path,
        *,
        watch: Sequence[str] = (),
        only: Mapping[str, str] | None = None,
        **env: str,
    ) -> None:
        """Prepare to start it: under the command ``watch``, in no environment but ``only``."""
        self.home = home
        here = {"SOFTDICT_HOME": str(home), "SOFTDICT_PORT": "0", **env}
        self._env = environment(**here) if only is None else {**only, **here}
        self._watch = watch
        self._said: list[str] = []

    def __enter__(self) -> Service:
        self.process = subprocess.Popen(
            [*self._watch, sys.executable, "-m", "service", "serve"],
            cwd=ROOT,
            env=self._env,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(PATIENCE) and "listens on" in self.log, self.log
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop(signal.SIGTERM)

    def stop(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code

    @property
    def log(self) -> str:
        return "".join(self._said)

    @property
    def origin(self) -> str:
        found = re.search(r"listens on (http://\S+)", self.log)
        assert found, self.log
        return found[1]

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.origin)
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request with the path as it is, not a byte of it changed."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, body: object) -> Reply:
        return self._send("POST", path, body)

    def put(self, path: str, body: object) -> Reply:
        return self._send("PUT", path, body)

    def until(self, path: str, status: int = 200, saying: str = "") -> Reply:
        """Ask until the status is that, and the answer says so."""
        deadline = time.monotonic() + PATIENCE
        while (reply := self.get(path)).status != status or saying not in reply.text:
            assert time.monotonic() < deadline, reply.text + self.log
            time.sleep(0.05)
        return reply

    def _send(self, method: str, path: str, body: object) -> Reply:
        content = json.dumps(body).encode()
        return self.ask(method, path, content, {"Content-Type": "application/json"})

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line)
            if "listens on" in line:
                self._listening.set()
        self._listening.set()

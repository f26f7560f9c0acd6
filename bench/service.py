"""``/search`` from end to end, beside a trivial JSON route of the same server.

    python -m bench.service [--requests 400] [--rounds 7] [--rows 12000]

A real service on its bundled datasets is asked over loopback, on connections that stay open, by
1 client and by 16. In every round each kind of request is sent the same number of times, in turn:
``/healthz`` (the trivial route: what server, parsing and client cost by themselves), a question
that was asked before (its vector is remembered), and one that is new (the encoder runs), both of
the 949 colours; and a new key that is put, into a dataset of its own. A ratio is the median over
rounds of a kind's requests per second to the trivial route's in the same round, with the least and
the greatest. Client and server share the machine.

At last one client sends the same beside a load: names of colours in pairs are appended, as a job,
to the dataset that the keys are put into, and rounds of 20 requests follow until it is written.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from bench._common import machine, markdown
from bench.load import rows_of

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = (1, 16)
WORDS = ("tropical", "wet", "old", "bright", "pale", "deep"), ("sea", "sand", "wine", "moss", "sky")
Target = Callable[[], str]  # method, path and, on a line of its own, the body


class Client:
    """One connection that stays open."""

    def __init__(self, host: str, port: int, timeout: float = 60) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._head = f" HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: "

    def ask(self, target: str) -> float:
        """Send one request, read the whole answer, and return the seconds it took."""
        return self.send(target)[0]

    def send(self, target: str, kind: str = "application/json") -> tuple[float, bytes]:
        """Send one request; return the seconds it took, and the answer's body."""
        line, _, body = target.partition("\n")
        length = len(body.encode())
        start = time.perf_counter()
        self._socket.sendall(
            f"{line}{self._head}{kind}\r\nContent-Length: {length}\r\n\r\n{body}".encode()
        )
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        said = re.search(rb"Content-Length: (\d+)", received)
        if said is None or not received.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(received.decode())
        while len(received) < end + 4 + int(said[1]):
            received += self._more()
        return time.perf_counter() - start, bytes(received[end + 4 :])

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bytes:
        if not (block := self._socket.recv(65536)):
            raise ConnectionError("the service closed the connection")
        return block


def hammer(
    address: tuple[str, int], target: Target, clients: int, requests: int
) -> tuple[list[float], float]:
    """Send ``requests`` in all; return each one's seconds, and requests per second."""
    connections = [Client(*address) for _ in range(clients)]

    def work(client: Client) -> list[float]:
        return [client.ask(target()) for _ in range(requests // clients)]

    with ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        took = [each for times in pool.map(work, connections) for each in times]
        elapsed = time.perf_counter() - start
    for client in connections:
        client.close()
    return took, len(took) / elapsed


@contextmanager
def service() -> Iterator[tuple[str, int]]:
    """Run a service on its bundled datasets until the block ends."""
    with tempfile.TemporaryDirectory() as home, started(Path(home)) as (_, host, port):
        wait_until_ready(host, port)
        yield host, port


@contextmanager
def started(home: Path) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """Run a service on a folder until the block ends: from when it listens, ready or not."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SOFTDICT_")}
    env = {**kept, "SOFTDICT_HOME": str(home.resolve()), "SOFTDICT_PORT": "0"}
    env["SOFTDICT_THREADS"] = "16"
    command = [sys.executable, "-m", "service", "serve"]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        before: list[str] = []
        for told in lines:
            if "listens on" in told:
                break
            before.append(told)
        else:
            raise RuntimeError("the service did not start:\n" + "".join(before))
        drain = threading.Thread(target=lambda: list(lines))
        drain.start()
        address = urlsplit(told.split()[-1])
        assert address.hostname and address.port
        try:
            yield process, address.hostname, address.port
        finally:
            process.terminate()
            drain.join()


def wait_until_ready(host: str, port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            Client(host, port).ask("GET /readyz")
            return
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def kinds() -> dict[str, Target]:
    numbers = itertools.count()
    lock = threading.Lock()

    def text() -> str:
        with lock:
            number = next(numbers)
        first, second = (
            words[number // step % len(words)] for words, step in zip(WORDS, (1, 6), strict=True)
        )
        return quote(f"{first} {second} {number}")

    return {
        "/healthz": lambda: "GET /healthz",
        "/search, asked before": lambda: "GET /search?dataset=colores&q=tropical%20sea",
        "/search, new": lambda: f"GET /search?dataset=colores&q={text()}",
        "PUT of a new key": lambda: f'PUT /datasets/own/entries/{text()}\n{{"values": 1}}',
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400, help="of each kind in each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=12_000, help="of the load")
    given = parser.parse_args()
    print(machine())
    heads = ["request", "clients", "p50", "p99", "requests/s", "of the trivial route's"]
    print(markdown(heads))
    with service() as address:
        Client(*address).send("POST /datasets?name=own\nkey,value\nfirst,1\n", "text/csv")
        targets = kinds()  # once: what was asked before is new no more
        for clients in CLIENTS:
            rounds = range(given.rounds)
            compare(address, targets, str(clients), clients, given.requests, rounds)
        compare(address, targets, "1, beside a load", 1, 20, load(address, given.rows))


def load(address: tuple[str, int], rows: int) -> Iterator[object]:
    """Begin a load as a job; give something again and again until it has ended."""
    table = itertools.islice(rows_of(None), 1, rows + 1)
    lines = "".join(f'"{key}",{number}\n' for key, number, _ in table)
    client = Client(*address)
    target = f"POST /datasets?name=own&if_exists=append&wait=0\nkey,value\n{lines}"
    job = json.loads(client.send(target, "text/csv")[1])
    while job["state"] in ("queued", "running"):
        yield job
        job = json.loads(client.send(f"GET /jobs/{job['id']}")[1])
    assert job["state"] == "done", job


def compare(
    address: tuple[str, int],
    targets: dict[str, Target],
    title: str,
    clients: int,
    requests: int,
    rounds: Iterable[object],
) -> None:
    took: dict[str, list[float]] = {name: [] for name in targets}
    rates: dict[str, list[float]] = {name: [] for name in targets}
    for target in targets.values():
        hammer(address, target, clients, max(clients, 20))
    for _ in rounds:
        for name, target in targets.items():
            seconds, rate = hammer(address, target, clients, requests)
            took[name] += seconds
            rates[name].append(rate)
    for name in targets:
        cuts = statistics.quantiles(took[name], n=100)
        ratios = [rate / base for rate, base in zip(rates[name], rates["/healthz"], strict=True)]
        print(
            f"| {name} | {title} | {cuts[49] * 1e3:.2f} ms | {cuts[98] * 1e3:.2f} ms "
            f"| {statistics.median(rates[name]):,.0f} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}-{max(ratios):.2f}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()

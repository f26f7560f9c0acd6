"""What a running service holds: its settings, its catalog, its jobs, and whether it is ready.

The start is in two steps, so that the port answers at once: open the store, then, in a thread,
create the bundled datasets if the store is new, open the encoder and ask one question. Datasets
that another version of the built-in encoder wrote are then encoded anew, as jobs.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, cast

from flask import current_app

from index.answers import Progress
from index.catalog import Catalog
from index.encoders import open_encoder
from index.errors import Busy, DatasetExists, SoftDictError, UnknownDataset
from index.loading import LoadOptions
from index.pace import Report
from index.platform import files_at_a_time
from index.softdict import SoftDict
from index.turns import patience

from .errors import NoDatasets, NotReady, Stopping
from .settings import Settings
from .work import Jobs

BUNDLED = Path(__file__).resolve().parent.parent / "data"
# Stands in the store's folder while the bundled datasets are being created, so that a start
# that was killed is taken up again, and a dataset that was deleted later stays deleted.
MARK = "bundled-unfinished"
KEPT_FREE = 2  # threads that writes leave to questions
PLACE_WAIT = 1.0  # seconds since a place was last taken or left, for which a write waits for one
TURN_WAIT = 10.0  # seconds that it waits for its turn
START_WAIT = 30.0  # seconds after a start that failed, before it is tried again
INSIDE = "it failed inside; the log has the cause"
Result = TypeVar("Result")

log = logging.getLogger(__name__)


class Runtime:
    """The state of one service. Views reach it by ``runtime()``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.catalog = Catalog.open(settings.home)
        self._bundle = self._is_to_bundle()
        self._bundled: set[str] = set()  # datasets that were created by this process
        # Each that waits holds a file; were they all taken, no connection could be either.
        waiting = min(settings.max_jobs, max(1, files_at_a_time() // 4))
        self.jobs = Jobs(waiting=waiting, kept=settings.kept_jobs)
        self._closing = False
        self._places = threading.Condition()
        self._most = max(1, settings.threads - KEPT_FREE)  # threads that may wait for a turn
        self._free = self._most
        self._moved = time.monotonic()  # when a place was last taken or left
        self._warm = threading.Event()
        self._fault: SoftDictError | None = None  # for which the start failed
        self._failed = 0.0  # when it did
        self._starting = threading.Lock()  # for the look whether it is to be tried again
        self._mute: SoftDictError | None = None  # for which no dataset answers
        self._warming: threading.Thread | None = None

    def warm_up(self) -> None:
        """Get ready in a thread."""
        self._warming = threading.Thread(target=self._get_ready, name="warm-up", daemon=True)
        self._warming.start()

    def check_ready(self) -> None:
        """Raise NotReady, saying why, unless questions can be answered at once.

        What the start failed for may be mended by now, so it is tried again, now and then.
        """
        fault = self._fault
        if fault is not None:
            self._start_anew()
            raise NotReady(f"the start failed: {fault}")
        if not self._warm.is_set():
            raise NotReady(self._unready())
        if self._mute is not None:  # what kept them from it may be mended by now, or deleted
            self._ask_a_dataset()
        if self._mute is not None:
            raise NotReady(f"no dataset can answer: {self._mute}")

    def dataset(self, name: str | None = None) -> SoftDict:
        """Return a dataset by name, or the first; raise UnknownDataset, NoDatasets or NotReady."""
        try:
            return self.catalog[name] if name else self._first()
        except (UnknownDataset, NoDatasets):
            if self._bundle:  # it may be one of those that are being created
                raise NotReady(self._unready()) from None
            raise

    def read(self, name: str | None, ask: Callable[[SoftDict], Result]) -> Result:
        """Ask a dataset; if another takes its place before it was read, that one."""
        while True:
            dataset = self.dataset(name)
            try:
                return ask(dataset)
            except UnknownDataset:
                if self.dataset(name) is dataset:
                    raise

    def write(self, name: str, change: Callable[[SoftDict], Result]) -> Result:
        """Change a dataset; if another takes its place meanwhile, that one. It may be Busy."""
        with self._place(), patience(TURN_WAIT):
            return self.read(name, change)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Take one of the threads that may wait for a turn: others stay for who only asks.

        They are not held up by many writes that wait for a place, one after the other: where
        nothing moves, each is refused at once.
        """
        with self._places:
            left = self._moved + PLACE_WAIT - time.monotonic()
            if not self._places.wait_for(lambda: self._free, max(0.0, left)):
                raise Busy
            self._free, self._moved = self._free - 1, time.monotonic()
        try:
            yield
        finally:
            with self._places:
                self._free, self._moved = self._free + 1, time.monotonic()
                self._places.notify_all()  # ``close`` may wait too

    def stop_loads(self) -> None:
        """Let what is being loaded end at its next report. A signal's handler may call this."""
        self._closing = True

    @contextmanager
    def load_at_once(self) -> Iterator[Report]:
        """Hold the store open for a load that a request waits for; give what stops that load.

        As any other write over HTTP, it may be Busy.
        """
        with self._place(), patience(TURN_WAIT):
            yield self._stop_if_closing

    def close(self) -> None:
        """Cancel what runs, wait for it and for writes, and close the store."""
        self.stop_loads()
        self.jobs.close()
        with self._places:
            self._places.wait_for(lambda: self._free == self._most, 30)
        if self._warming is not None:
            self._warming.join(30)
        self.catalog.close()

    def _first(self) -> SoftDict:
        first = next(iter(self.catalog.values()), None)
        if first is None:
            raise NoDatasets
        return first

    def _start_anew(self) -> None:
        with self._starting:
            goes_on = self._warming is not None and self._warming.is_alive()
            waited = time.monotonic() - self._failed >= START_WAIT
            if waited and not goes_on and not self._closing:
                self._bundle = self._is_to_bundle()
                self.warm_up()

    def _is_to_bundle(self) -> bool:
        """Mark a store that never had a dataset; say whether the bundled ones are to be created."""
        if not self.settings.bundled:
            return False
        mark = self.settings.home / MARK
        if self.catalog.is_new:
            with suppress(OSError):  # a full disk: what is created there will say so
                mark.touch()
        return mark.exists()

    def _unready(self) -> str:
        what = "creating the bundled datasets" if self._bundle else "opening the encoder"
        return f"{what}; try again in a moment"

    def _get_ready(self) -> None:
        start = time.monotonic()
        try:
            if self._bundle:
                self._create_bundled()
            open_encoder(self.settings.encoder).encode(["warm up"])
            self._ask_a_dataset()
            self._warm.set()
            self._fault = None
            if self._mute is None:
                log.info("ready %.1f s after the start", time.monotonic() - start)
            self._reencode_outdated()
        except Stopping:
            log.info("the start was interrupted")
        except SoftDictError as fault:
            self._fail(fault)
            log.error("not ready: %s", fault)
        except Exception:
            self._fail(SoftDictError(INSIDE))
            log.exception("not ready")
        finally:
            self._bundle = False

    def _fail(self, fault: SoftDictError) -> None:
        self._fault, self._failed = fault, time.monotonic()

    def _ask_a_dataset(self) -> None:
        """Ask the first dataset that can answer; note what keeps them if none can, nor will."""
        faults: list[SoftDictError] = []
        for name in self.catalog:
            try:
                dataset = self.catalog[name]
                if dataset.outdated:
                    continue
                dataset.search("warm up", k=1)
                faults = []
                break
            except UnknownDataset:  # it was deleted meanwhile
                continue
            except SoftDictError as fault:  # its encoder may be gone from this machine
                log.warning("dataset %s cannot answer: %s", name, fault)
                faults.append(fault)
            except Exception:
                log.exception("dataset %s cannot answer", name)
                faults.append(SoftDictError(INSIDE))
        self._mute = faults[0] if len(faults) == len(self.catalog) > 0 else None

    def _create_bundled(self) -> None:
        for dataset in json.loads((BUNDLED / "datasets.json").read_text("utf-8")):
            if dataset["name"] in self._bundled:  # before the start failed, and deleted perhaps
                continue
            with suppress(DatasetExists):  # by now: requests are answered already
                self._create(dataset)
            self._bundled.add(dataset["name"])
        (self.settings.home / MARK).unlink(missing_ok=True)

    def _create(self, dataset: dict[str, Any]) -> None:
        options = {name: dataset[name] for name in dataset if name not in ("name", "file")}
        self.catalog.load(
            dataset["name"],
            BUNDLED / dataset["file"],
            LoadOptions(**options),
            encoder=self.settings.encoder,
            progress=self._stop_if_closing,
        )
        log.info("created the bundled dataset %s", dataset["name"])

    def _reencode_outdated(self) -> None:
        """Encode anew, the smallest first, what another version of the built-in encoder wrote."""
        outdated = []
        for name in self.catalog:
            with suppress(SoftDictError):  # deleted meanwhile, past reading, its encoder gone
                dataset = self.catalog[name]
                if dataset.outdated:  # of the others no entry is read
                    outdated.append((len(dataset), dataset))
        for _, dataset in sorted(outdated, key=itemgetter(0)):
            log.info("dataset %s is of another builtin; it is encoded anew", dataset.name)
            work = partial(_reencode, dataset)
            self.jobs.submit(dataset.name, work, lambda: None, kind="reencode")

    def _stop_if_closing(self, progress: Progress) -> None:
        if self._closing:
            raise Stopping


def runtime() -> Runtime:
    """Return the state of the service that answers this request."""
    return cast(Runtime, current_app.extensions["softdict"])


def _reencode(dataset: SoftDict, tell: Report) -> None:
    dataset.reencode(progress=tell)
    log.info("encoded the dataset %s anew", dataset.name)

"""What a dataset is, moment by moment: readers take the present one, writers make the next.

A moment is published whole, once the store has it for good. Writers of one dataset take turns;
readers never wait, but for the first of them, which reads the entries from the store. A large
dataset is sketched in the background, and the result laid on the moment that is present then.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from index import generation
from index.errors import UnknownDataset
from index.fitting import due, fit_snapshot
from index.reading import read_all, read_entries
from index.rebuilding import Go, Rebuilder, is_due, laid_on, sketched
from index.sketch import Cancelled
from index.snapshot import Place, Snapshot
from index.store import Fit, Record, Store, inside_another
from index.vectors import half_is_fast

log = logging.getLogger(__name__)


class Moment(NamedTuple):
    """What a dataset is at one moment. A question takes it once.

    Its encoder goes by its record: queries are never compared with the vectors of another.
    """

    record: Record
    snapshot: Snapshot


class Moments:
    """The moments of one dataset in a store.

    Locks are taken in this order: the turn and that of the first read, then the store's own, which
    all datasets share. So the entries are read before a transaction begins, never inside one.
    """

    def __init__(self, store: Store, record: Record) -> None:
        self.store = store
        self._turn = threading.RLock()
        self._reading = threading.RLock()  # a signal's handler may read, too
        self._first = record
        self._present: Moment | None = None
        # In a cycle a dataset that is gone would stay until Python looks for cycles, which it does
        # by the number of objects: a few arrays, of gigabytes perhaps, are few.
        self.rebuilder = Rebuilder(weakref.WeakMethod(self._rebuild))

    @property
    def present(self) -> Moment:
        """The settings and the entries, these read from the store on first use."""
        if self._present is None:
            with self._reading:
                if self._present is None:
                    read = self._read()
                    if self._present is None:  # no handler read meanwhile, and wrote perhaps
                        self._present = read
                        self._consider(read)
        return self._present

    @property
    def record(self) -> Record:
        """The settings alone, for which no entry need be read."""
        return self._first if self._present is None else self._present.record

    @property
    def was_read(self) -> bool:
        """Whether the entries have been read."""
        return self._present is not None

    def whole(self) -> Snapshot:
        """Read the entries anew with vectors in full, which only the store has of a half one."""
        return read_all(self.store, self.record)

    def _read(self) -> Moment:
        """Read the entries, and the settings with them where another process may write."""
        first = self._first
        if not self.store.read_only:
            read = Moment(first, self._entries(first))
            store = self.store.reader
            if not store.holds(first.id):
                raise UnknownDataset(first.name, [record.name for record in store.records()])
            return read  # it is still there now, so nothing was deleted while it was read
        with self.store.reader.reading() as store:
            records = {record.name: record for record in store.records()}
            if first.name not in records:
                raise UnknownDataset(first.name, list(records))
            return Moment(records[first.name], self._entries(records[first.name]))

    def _entries(self, record: Record) -> Snapshot:
        return read_entries(self.store, record, half=_half(record))

    # Writing

    @property
    def turn(self) -> AbstractContextManager[object]:
        """The turn of its writers, for who is not in the middle of a write already."""
        return self.store.outermost(self._turn)

    @contextmanager
    def change(self, since: int) -> Iterator[Store]:
        """Take a transaction, for who has the writers' turn, and count the change.

        Refuse it if the dataset was written to after the version ``since``, which was looked at
        in the same turn: by a signal's handler, say.
        """
        with self.store.transaction() as store:
            if self.record.version != since:
                raise inside_another()
            store.touch(self.record.id, self.record.name)
            yield store

    @staticmethod
    def fit(entries: Snapshot, setting: str) -> Fit:
        """Fit a dataset's temperature and margins to the entries that it is about to have.

        Not in a transaction: it may take seconds, and the writers of all datasets would wait.
        """
        return fit_snapshot(entries, setting)

    def fit_if_due(self, entries: Callable[[], Snapshot], moved: int) -> Fit | None:
        """Fit what is about to be written, for who has the turn, if so many moves make it due."""
        record = self.record
        return self.fit(entries(), record.temperature) if due(record, moved) else None

    def show(self, after: Snapshot, fit: Fit | None) -> None:
        """Keep a new fit, if there is one, and show readers the result once it is durable."""
        store, dataset = self.store, self.record.id
        if fit is not None:
            store.set_fit(dataset, fit)
        # Read now: after the commit nothing may fail.
        shown = Moment(store.record(dataset), after.tidied())
        store.after_commit(lambda: self._publish(shown))

    def _publish(self, shown: Moment) -> None:
        self._present = shown
        self._consider(shown)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Let go of the labels of a write that fails; where another one goes on, that will."""
        try:
            yield
        except BaseException:
            if self._turn.acquire(blocking=False):
                try:
                    record, snapshot = self.present
                    self._present = Moment(record, snapshot.tidied())
                finally:
                    self._turn.release()
            raise

    # The sketch

    def kept(self, places: Sequence[Place]) -> list[int] | None:
        """Give the ids of those entries that an index on disk may have, for who has the turn.

        None where there is no index, nor is one being made.
        """
        snapshot, all_of_them = self.present.snapshot, self.rebuilder.busy
        if self.store.home is None or (snapshot.sketch is None and not all_of_them):
            return None
        return [snapshot.id(place) for place in places if all_of_them or place.block == 0]

    def end(self) -> None:
        """Stop, and drop what is kept beside the store: the dataset is there no more.

        Who still reads it goes on: a file that is mapped outlives its name.
        """
        home, dataset = self.store.home, self.record.id
        self.rebuilder.end(lambda: None if home is None else generation.drop(home, dataset))

    def _consider(self, moment: Moment) -> None:
        """Begin to sketch the entries in the background, if that is due.

        A fault is only logged: the entries can be shown without a sketch.
        """
        try:
            if not self.store.read_only and self._is_due(moment):
                self.rebuilder.start()
        except Exception:
            log.exception("a sketch could not be begun: every key is scanned until it can")

    def _is_due(self, moment: Moment) -> bool:
        return is_due(moment.snapshot, half=_half(moment.record))

    def _rebuild(self, go_on: Go) -> None:
        """Sketch the entries of the moment, if that is due; keep it on disk, show it to readers.

        Raise Cancelled once ``go_on`` says no.
        """
        with self.turn:
            record, snapshot = self.present
            if not self._is_due(self.present):  # entries went since it was asked for
                return
        home = self.store.home if generation.can_be_kept() else None
        half = _half(record)
        with generation.unfinished(home, record.id):
            made = sketched(snapshot, home, record, go_on, half=half)
            if home is not None:
                generation.save(home, record, made)
        with self.turn:
            if not go_on():
                raise Cancelled
            now, changed = self.present
            if (now.encoder_identity, now.columns, _half(now)) != (
                record.encoder_identity, record.columns, half,
            ):  # fmt: skip
                return  # vectors were replaced meanwhile: it is never opened, and a new one due
            self._present = Moment(now, laid_on(made, changed))
            self.store.forget_deletions(record.id, until=record.version)


def _half(record: Record) -> bool:
    """Tell whether the vectors of a dataset's sketch are to be held in 16 bits."""
    return record.precision == "half" and half_is_fast()

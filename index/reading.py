"""From the store to a snapshot: how a dataset's entries come into memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from index import generation
from index.errors import SoftDictError, StoreCorrupt
from index.snapshot import BLOCK, Place, Snapshot
from index.store import Record, Store, StoredEntry
from index.vectors import VectorBlock


def read_entries(store: Store, record: Record, *, half: bool) -> Snapshot:
    """Read from the index kept on disk and what changed since, or all from the store.

    An index of vectors in 16 bits will do only where ``half`` precision is wanted.
    """
    home = store.home
    with _readable(store, record):
        kept = None if home is None else generation.load(home, record)
        if kept is not None and not (kept[1].rounding and not half):
            snapshot = _brought_up(store, record, *kept)
            ids = snapshot.ids[snapshot.alive]
            # The index may be of another copy of the database, which went its own way.
            if store.reader.tally(record.id) == (len(ids), int(ids.sum())):
                return snapshot
        if home is not None and not store.read_only:
            generation.drop(home, record.id)  # it could seem to fit later on
        return read_all(store, record)


def _brought_up(store: Store, record: Record, version: int, snapshot: Snapshot) -> Snapshot:
    """Lay what changed since a version on what was kept of it."""
    changed = list(_stored(store, record, since=version))
    gone = store.reader.deletions(record.id, since=version)
    rows = _rows_of([*(entry.id for entry in changed), *gone], snapshot.ids)
    snapshot = snapshot.with_values(
        {Place(0, rows[entry.id]): entry.values for entry in changed if entry.id in rows}
    )
    dropped = [Place(0, rows[id]) for id in gone if id in rows]
    snapshot.let_go(dropped)
    snapshot = snapshot.without(dropped)
    return _with_entries(snapshot, record, (e for e in changed if e.id not in rows))


def read_all(store: Store, record: Record) -> Snapshot:
    """Read every entry from the store, which has the vectors in full."""
    with _readable(store, record):
        empty = Snapshot.empty(record.columns)
        return _with_entries(empty, record, _stored(store, record, since=-1))


@contextmanager
def _readable(store: Store, record: Record) -> Iterator[None]:
    """Say so where what is stored is not what was written: no JSON, say, or half a number."""
    try:
        yield
    except SoftDictError:
        raise
    except (LookupError, OverflowError, RecursionError, TypeError, ValueError) as fault:
        raise StoreCorrupt(
            f"what {store.home or 'the store'} holds of dataset {record.name!r} cannot be read: "
            f"{fault}; delete the dataset, or put back a copy of the folder"
        ) from fault


def _stored(store: Store, record: Record, *, since: int) -> Iterator[StoredEntry]:
    """Read the entries that changed after a version, in order."""
    return itertools.chain.from_iterable(store.reader.entries(record.id, since=since))


def _rows_of(wanted: Sequence[int], ids: NDArray[np.int64]) -> dict[int, int]:
    """Find the rows of those wanted ids that are among ``ids``."""
    rows = np.flatnonzero(np.isin(ids, np.array(wanted, np.int64)))
    return {int(ids[row]): int(row) for row in rows}


def _with_entries(snapshot: Snapshot, record: Record, entries: Iterator[StoredEntry]) -> Snapshot:
    """Append stored entries, a block at a time."""
    # A handler of a signal may have written the first ones since the record was read.
    width = record.dimension or -1
    while batch := list(itertools.islice(entries, BLOCK)):
        vectors = np.stack([entry.vector for entry in batch]).reshape(len(batch), width)
        if not np.isfinite(vectors).all():
            raise ValueError("a vector is of other things than numbers")
        block = snapshot.block(
            [entry.id for entry in batch],
            [entry.key for entry in batch],
            [entry.arrived for entry in batch],
            VectorBlock(vectors),
            [entry.values for entry in batch],
        )
        snapshot = snapshot.with_blocks([block])
    return snapshot

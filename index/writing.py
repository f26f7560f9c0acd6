"""From rows to blocks: what a write does before its transaction begins.

Encoding takes nearly all of a write's time, so it is done first, with no lock on the
store held; the transaction that follows is short.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from index.answers import Progress, Value
from index.encoders import EncoderWorker
from index.snapshot import BLOCK, Block, Place, Snapshot
from index.vectors import VectorBlock

Report = Callable[[Progress], None]
Row = tuple[str, tuple[Value, ...]]


@dataclass
class Changes:
    """New entries in blocks, and other values for entries that exist."""

    fresh: list[Block] = field(default_factory=list)
    updates: dict[Place, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def added(self) -> int:
        return sum(len(block) for block in self.fresh)


def prepare(
    snapshot: Snapshot,
    rows: Iterable[Row],
    encoder: Callable[[], EncoderWorker],
    *,
    total: int,
    progress: Report | None = None,
) -> Changes:
    """Sort rows of distinct keys into new entries and updates, and encode the new keys.

    Only a block's worth of rows is held as Python objects at a time. ``encoder`` is
    called if there is something to encode: an update of values needs no model.
    """
    changes = Changes()
    pending = iter(rows)
    done = 0
    while batch := list(itertools.islice(pending, BLOCK)):
        new: list[Row] = []
        for key, values in batch:
            place = snapshot.find(key)
            if place is None:
                new.append((key, values))
            else:
                changes.updates[place] = values
        if new:
            tell = encoding_progress(progress, done, total)
            changes.fresh.append(_block(snapshot, new, encoder(), tell))
        done += len(batch)
    return changes


def _block(
    snapshot: Snapshot,
    rows: Sequence[Row],
    encoder: EncoderWorker,
    progress: Callable[[int], None] | None,
) -> Block:
    """Make a block of new entries; the transaction will fill in ids and arrival."""
    keys = [key for key, _ in rows]
    vectors = VectorBlock(encoder.encode(keys, progress=progress))
    blank = [0] * len(keys)
    return snapshot.block(blank, keys, blank, vectors, [values for _, values in rows])


def encoding_progress(
    progress: Report | None, done: int, total: int
) -> Callable[[int], None] | None:
    """Turn a batch's count of encoded texts into the whole work's progress."""
    if progress is None:
        return None
    return lambda count: progress(Progress("encoding", done + count, total))

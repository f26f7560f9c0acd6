"""From rows to blocks: what a write does before its transaction begins.

Encoding takes nearly all of a write's time, so it is done first, with no lock on the
store held; the transaction that follows is short.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from index.answers import Value
from index.embedding import Embedding
from index.encoders import EncoderWorker
from index.pace import Pace, Report
from index.snapshot import BLOCK, Block, Place, Snapshot
from index.vectors import VectorBlock

Row = tuple[str, tuple[Value, ...]]


@dataclass
class Changes:
    """New entries in blocks, and other values for entries that exist."""

    fresh: list[Block] = field(default_factory=list)
    updates: dict[Place, tuple[Value, ...]] = field(default_factory=dict)
    embedded: int = 0  # texts that were encoded
    reused: int = 0  # texts whose vectors were there

    @property
    def added(self) -> int:
        return sum(len(block) for block in self.fresh)


def prepare(
    snapshot: Snapshot,
    rows: Iterable[Row],
    encoder: Callable[[], EncoderWorker],
    *,
    embedding: Embedding,
    total: int,
    progress: Report | None = None,
) -> Changes:
    """Sort rows of distinct keys into new entries and updates, and encode the new keys.

    Only a block's worth of rows is held as Python objects at a time. ``encoder`` is
    called if there is something to encode: an update of values needs no model.
    """
    changes = Changes()
    pending = iter(rows)
    pace = Pace(progress, total)
    while batch := list(itertools.islice(pending, BLOCK)):
        new: list[Row] = []
        for key, values in batch:
            place = snapshot.find(key)
            if place is None:
                new.append((key, values))
            elif values != snapshot.values(place):
                changes.updates[place] = values
        pace.skip(len(batch) - len(new))
        if new:
            vectors = VectorBlock(embedding.encode([key for key, _ in new], encoder(), pace))
            changes.fresh.append(_block(snapshot, new, vectors))
    changes.embedded, changes.reused = embedding.embedded, embedding.reused
    return changes


def _block(snapshot: Snapshot, rows: Sequence[Row], vectors: VectorBlock) -> Block:
    """Make a block of new entries; the transaction will fill in ids and arrival."""
    blank = [0] * len(rows)
    keys = [key for key, _ in rows]
    return snapshot.block(blank, keys, blank, vectors, [values for _, values in rows])

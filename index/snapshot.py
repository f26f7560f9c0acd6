"""What readers see: an immutable view of a dataset's entries, made of immutable blocks.

A writer never changes a snapshot. It makes the next one, which shares all blocks that
did not change, and publishes it by one assignment; a reader keeps the one it took. So
readers need no lock, and an answer is never half old and half new.

New entries come as a small block at the end. Blocks of like size are merged, as in a
log-structured merge tree, so a row is copied O(log n) times and a scan meets few blocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from index.answers import Column, Entry, Value
from index.naming import composed
from index.sketch import Left, Sketch
from index.values import Array, LabelTable, Order, missing, order_of, pack, unpack
from index.vectors import Rows, VectorBlock

BLOCK = 65_536  # rows: a block of 384 components is 100 MB


@dataclass(frozen=True)
class Place:
    """Where an entry stands: which block, and which row of it."""

    block: int
    row: int


@dataclass(frozen=True)
class Block:
    """A run of entries. ``alive`` is false where one was deleted since."""

    ids: NDArray[np.int64]
    keys: tuple[str, ...]
    arrived: NDArray[np.float64]
    vectors: VectorBlock
    columns: tuple[Array, ...]
    alive: NDArray[np.bool_]
    rows: dict[str, int]  # row of each key
    apart: dict[str, int]  # of each that an earlier version held with its marks apart, composed
    sketch: Sketch | None = None  # of the vectors; then rows stand by cells, else in order

    @classmethod
    def of(
        cls,
        ids: NDArray[np.int64],
        keys: tuple[str, ...],
        arrived: NDArray[np.float64],
        vectors: VectorBlock,
        columns: tuple[Array, ...],
        sketch: Sketch | None = None,
    ) -> Block:
        """Make a block of entries that are all there."""
        rows = {key: row for row, key in enumerate(keys)}
        apart = {typed: row for key, row in rows.items() if (typed := composed(key)) != key}
        alive = np.ones(len(keys), bool)
        return cls(ids, keys, arrived, vectors, columns, alive, rows, apart, sketch)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def known(self) -> tuple[NDArray[np.bool_] | None, ...]:
        """Which rows have a value, by column; None where all have."""
        gaps = [missing(array) for array in self.columns]
        return tuple(~gap if gap.any() else None for gap in gaps)


class Snapshot:
    """A dataset's entries at one moment."""

    def __init__(
        self, columns: Sequence[Column], labels: Sequence[LabelTable], blocks: Sequence[Block] = ()
    ) -> None:
        self.columns = tuple(columns)
        self.labels = tuple(labels)
        self.blocks = tuple(blocks)
        self._starts = list(accumulate((len(block) for block in self.blocks), initial=0))
        self._left: dict[int, tuple[NDArray[np.bool_], Left]] = {}

    @classmethod
    def empty(cls, columns: Sequence[Column]) -> Snapshot:
        """A dataset with columns and no entries."""
        return cls(columns, [LabelTable() for _ in columns])

    # Reading

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(sum(np.count_nonzero(block.alive) for block in self.blocks))

    @property
    def rows(self) -> int:
        """Rows in all, the deleted ones included: the width of masks and scores."""
        return self._starts[-1]

    def find(self, key: str) -> Place | None:
        """Find a key as it is held, or else with its letters and marks apart or together."""
        typed = composed(key)
        for number in range(len(self.blocks) - 1, -1, -1):
            block = self.blocks[number]
            for row in (block.rows.get(key), block.rows.get(typed), block.apart.get(typed)):
                if row is not None and block.alive[row]:
                    return Place(number, row)
        return None

    def place(self, row: int) -> Place:
        """Find the block of a row of the whole."""
        number = bisect_right(self._starts, row) - 1
        return Place(number, row - self._starts[number])

    def row(self, place: Place) -> int:
        """Number a place among the rows of the whole."""
        return self._starts[place.block] + place.row

    def key(self, place: Place) -> str:
        return self.blocks[place.block].keys[place.row]

    def id(self, place: Place) -> int:
        return int(self.blocks[place.block].ids[place.row])

    def values(self, place: Place) -> tuple[Value, ...]:
        """Give an entry's values in the order of the columns."""
        return self._unpacked(self.blocks[place.block], place.row)

    def entry(self, place: Place) -> Entry:
        """Give an entry with what every column holds."""
        values = dict(zip((c.name for c in self.columns), self.values(place), strict=True))
        return Entry(self.key(place), values, float(self.blocks[place.block].arrived[place.row]))

    def parted(self, place: Place) -> tuple[dict[str, Value], dict[str, Value]]:
        """Give an entry's values and its attributes, by column."""
        values: dict[str, Value] = {}
        attributes: dict[str, Value] = {}
        for column, value in zip(self.columns, self.values(place), strict=True):
            (attributes if column.attribute else values)[column.name] = value
        return values, attributes

    def places(self, after: int = 0) -> Iterator[Place]:
        """Go through the entries in order, behind the first ``after``."""
        for number, block in enumerate(self.blocks):
            rows = np.flatnonzero(block.alive)
            for row in rows[np.argsort(block.ids[rows], kind="stable")][after:]:
                yield Place(number, int(row))
            after = max(0, after - len(rows))

    def scores(self, queries: Rows, *, first_block: int = 0) -> Rows:
        """Give the cosines of (q, d) unit queries and every row, deleted ones included."""
        first = self._starts[first_block]
        scores = np.empty((len(queries), self.rows - first), np.float32)
        # Touched by one thread first: where two meet in a new huge page, both of them clear it.
        scores.fill(0)
        for start, block in zip(
            self._starts[first_block:], self.blocks[first_block:], strict=False
        ):
            block.vectors.scores(queries, scores[:, start - first : start - first + len(block)])
        return scores

    def scores_at(self, queries: Rows, rows: NDArray[np.int64]) -> Rows:
        """Give the (q, m) cosines of unit queries and some rows, in their order."""
        scores = np.empty((len(queries), len(rows)), np.float32)
        for block, mine, own in self.by_block(rows):
            scores[:, mine] = block.vectors.scores_at(own, queries)
        return scores

    def vectors_at(self, rows: NDArray[np.int64]) -> Rows:
        """Give the (m, d) vectors of some rows, in their order."""
        found = np.empty((len(rows), self.blocks[0].vectors.shape[1]), np.float32)
        for block, mine, own in self.by_block(rows):
            found[mine] = block.vectors[own]
        return found

    @property
    def rounding(self) -> float:
        """Standard error of a score, where vectors are or were held in 16 bits; else 0."""
        return max((block.vectors.rounding for block in self.blocks), default=0.0)

    @property
    def sketch(self) -> Sketch | None:
        """The sketch of the first block, if it has one; the others are small."""
        return self.blocks[0].sketch if self.blocks else None

    def left(self, sketch: Sketch, allowed: NDArray[np.bool_]) -> Left:
        """Say what a mask leaves of the sketched block; of its own masks it is remembered."""
        remembered = self._left.get(id(allowed))
        if remembered is not None:
            return remembered[1]
        left = Left.of(sketch, allowed[: len(sketch)])
        if any(allowed is mask for mask in (self.alive, *self.having)):
            self._left[id(allowed)] = (allowed, left)  # as long as it is held, no other has its id
        return left

    def keys_at(self, rows: NDArray[np.int64]) -> tuple[str, ...]:
        """Give the keys of some rows."""
        keys = [key for block in self.blocks for key in block.keys]
        return tuple(keys[row] for row in rows.tolist())

    def by_block(
        self, rows: NDArray[np.int64]
    ) -> list[tuple[Block, NDArray[np.int64], NDArray[np.int64]]]:
        """Part rows by block: which of them each one holds, and where it has them."""
        of_block = np.searchsorted(self._starts, rows, side="right") - 1
        return [
            (block, mine, rows[mine] - start)
            for number, (block, start) in enumerate(zip(self.blocks, self._starts, strict=False))
            if len(mine := np.flatnonzero(of_block == number))
        ]

    def values_at(
        self, rows: NDArray[np.int64], numbers: Iterable[int] | None = None
    ) -> list[Array]:
        """Give the values of some rows in every column, or in those of some numbers.

        The blocks' arrays are not joined for it.
        """
        wanted = range(len(self.columns)) if numbers is None else numbers
        if len(self.blocks) == 1:
            return [self.blocks[0].columns[number].take(rows, axis=0) for number in wanted]
        parts = self.by_block(rows)
        found: list[Array] = []
        for number in wanted:
            empty = pack(self.columns[number], [], self.labels[number])
            values = np.empty((len(rows), *empty.shape[1:]), empty.dtype)
            for block, mine, own in parts:
                values[mine] = block.columns[number].take(own, axis=0)
            found.append(values)
        return found

    @cached_property
    def known(self) -> tuple[NDArray[np.bool_] | None, ...]:
        """Which rows have a value, by column; None where all have.

        Columns with the same gaps have the very same mask.
        """
        masks: list[NDArray[np.bool_] | None] = []
        for number in range(len(self.columns)):
            mask = self._known(number)
            alike = (m for m in masks if m is not None and mask is not None and (m == mask).all())
            masks.append(next(alike, mask))
        return tuple(masks)

    @cached_property
    def having(self) -> tuple[NDArray[np.bool_], ...]:
        """Which rows are there and have a value, by column; the same gaps, the very same mask."""
        masks: dict[int, NDArray[np.bool_]] = {}
        return tuple(
            self.alive if known is None else masks.setdefault(id(known), self.alive & known)
            for known in self.known
        )

    def _known(self, column: int) -> NDArray[np.bool_] | None:
        parts = [block.known[column] for block in self.blocks]
        if all(part is None for part in parts):
            return None
        there = [
            np.ones(len(block), bool) if part is None else part
            for block, part in zip(self.blocks, parts, strict=True)
        ]
        return _joined(there, np.empty(0, bool))

    @cached_property
    def alive(self) -> NDArray[np.bool_]:
        return _joined([block.alive for block in self.blocks], np.empty(0, bool))

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        return _joined([block.ids for block in self.blocks], np.empty(0, np.int64))

    @cached_property
    def arrived(self) -> NDArray[np.float64]:
        return _joined([block.arrived for block in self.blocks], np.empty(0))

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """Each column's values over all rows."""
        return tuple(
            _joined([block.columns[number] for block in self.blocks], pack(column, [], table))
            for number, (column, table) in enumerate(zip(self.columns, self.labels, strict=True))
        )

    @cached_property
    def orders(self) -> dict[str, Order]:
        """Rows by value of each number column that is blended, for quantiles."""
        return {
            column.name: order_of(np.asarray(array, float))
            for column, array in zip(self.columns, self.arrays, strict=True)
            if column.type == "number" and not column.attribute
        }

    # Writing: each gives the next snapshot

    def block(
        self,
        ids: Sequence[int],
        keys: Sequence[str],
        arrived: Sequence[float],
        vectors: VectorBlock,
        values: Sequence[Sequence[Value]],
    ) -> Block:
        """Make a block of new entries; the label tables take in new labels."""
        columns = tuple(
            pack(column, (row[number] for row in values), table)
            for number, (column, table) in enumerate(zip(self.columns, self.labels, strict=True))
        )
        return Block.of(
            np.array(ids, np.int64), tuple(keys), np.array(arrived, float), vectors, columns
        )

    def stored_rows(self, block: Block) -> Iterator[tuple[str, tuple[Value, ...], Rows]]:
        """Go through a new block's keys, values and vectors, as the store keeps them."""
        for row, (key, vector) in enumerate(zip(block.keys, block.vectors[:], strict=True)):
            yield key, self._unpacked(block, row), vector

    def _unpacked(self, block: Block, row: int) -> tuple[Value, ...]:
        return tuple(
            unpack(column, array, row, table)
            for column, array, table in zip(self.columns, block.columns, self.labels, strict=True)
        )

    def with_columns(self, columns: Sequence[Column]) -> Snapshot:
        """Give other columns; in those that were not there no entry has a value yet."""
        if self.columns == tuple(columns):
            return self
        at = {column: number for number, column in enumerate(self.columns)}
        tables = [self.labels[at[column]] if column in at else LabelTable() for column in columns]
        blocks = []
        for block in self.blocks:
            gaps = [None] * len(block)
            arrays = (
                block.columns[at[column]] if column in at else pack(column, gaps, table)
                for column, table in zip(columns, tables, strict=True)
            )
            blocks.append(replace(block, columns=tuple(arrays)))
        return Snapshot(columns, tables, blocks)

    def with_blocks(self, blocks: Iterable[Block]) -> Snapshot:
        """Append blocks and merge the small ones at the end."""
        grown = list(self.blocks)
        for block in blocks:
            grown.append(block)
            while len(grown) > 1 and _should_merge(grown[-2], grown[-1]):
                last = grown.pop()
                grown[-1] = merged([grown[-1], last])
        return Snapshot(self.columns, self.labels, [b for b in grown if len(b)])

    def with_values(self, changes: Mapping[Place, Sequence[Value]]) -> Snapshot:
        """Give entries other values."""
        blocks = list(self.blocks)
        for number in {place.block for place in changes}:
            block = blocks[number]
            rows = {place.row: new for place, new in changes.items() if place.block == number}
            columns = list(block.columns)
            for at, (column, table) in enumerate(zip(self.columns, self.labels, strict=True)):
                given = pack(column, (new[at] for new in rows.values()), table)
                if not np.array_equal(columns[at][list(rows)], given, equal_nan=True):
                    columns[at] = columns[at].copy()
                    columns[at][list(rows)] = given
            blocks[number] = replace(block, columns=tuple(columns))
        return Snapshot(self.columns, self.labels, blocks)

    def with_vectors(self, vectors: Sequence[VectorBlock]) -> Snapshot:
        """Give every block other vectors."""
        pairs = zip(self.blocks, vectors, strict=True)
        blocks = [replace(b, vectors=v, sketch=None) for b, v in pairs]
        return Snapshot(self.columns, self.labels, blocks)

    def without(self, places: Iterable[Place]) -> Snapshot:
        """Drop entries. A block that is mostly gaps is rewritten without them."""
        blocks = list(self.blocks)
        gone: dict[int, list[int]] = {}
        for place in places:
            gone.setdefault(place.block, []).append(place.row)
        for number, rows in gone.items():
            alive = blocks[number].alive.copy()
            alive[rows] = False
            blocks[number] = dense(replace(blocks[number], alive=alive))
        return Snapshot(self.columns, self.labels, [b for b in blocks if len(b)])

    def let_go(self, places: Sequence[Place]) -> None:
        """Count the labels of entries that are dropped as no more used by them."""
        rows = np.array([self.row(place) for place in places], np.int64)
        labelled = [n for n, c in enumerate(self.columns) if c.type in ("category", "text")]
        for number, codes in zip(labelled, self.values_at(rows, labelled), strict=True):
            self.labels[number].let_go(codes.tolist())

    def tidied(self) -> Snapshot:
        """Number labels anew where entries have less than half of what a table holds.

        Tables are looked through as they double, so a write pays for a look at what it added.
        """
        tables, blocks = list(self.labels), list(self.blocks)
        for at, table in enumerate(self.labels):
            if not table.is_loose(self.rows):
                continue
            held = np.zeros(len(table.labels) + 1, bool)  # the last stands for what is missing
            for block in blocks:
                held[block.columns[at][block.alive]] = True
            used = np.flatnonzero(held[:-1])
            labels = [table.labels[code] for code in used]
            table.used = sum(map(len, labels))
            if not table.is_loose(self.rows):
                continue
            tables[at] = LabelTable(labels)
            # Deleted rows let go of theirs too, and take one that stays, so as not to be gaps.
            codes = np.full(len(held), len(used) - 1, np.int32)
            codes[used] = np.arange(len(used))
            codes[-1] = -1
            for number, block in enumerate(blocks):
                columns = list(block.columns)
                columns[at] = codes[columns[at]]
                blocks[number] = replace(block, columns=tuple(columns))
        return self if tables == list(self.labels) else Snapshot(self.columns, tables, blocks)


Joined = TypeVar("Joined", bound=NDArray[Any])


def _joined(parts: Sequence[Joined], empty: Joined) -> Joined:
    """Join arrays; the only one is given as it is, for it may be large."""
    return parts[0] if len(parts) == 1 else cast(Joined, np.concatenate([empty, *parts]))


def _should_merge(older: Block, newer: Block) -> bool:
    small = older.sketch is None and len(older) + len(newer) <= BLOCK
    return small and len(older) < 2 * len(newer)


def dense(block: Block) -> Block:
    """Give a block as it is; or, if it is mostly gaps, one without them, and without a sketch."""
    return merged([block]) if 2 * np.count_nonzero(block.alive) < len(block) else block


def merged(blocks: Sequence[Block]) -> Block:
    """Join blocks, or make a single one anew, without the deleted rows."""
    pairs = [(block, np.flatnonzero(block.alive)) for block in blocks]
    vectors = np.concatenate([block.vectors[rows] for block, rows in pairs])
    return Block.of(
        np.concatenate([block.ids[rows] for block, rows in pairs]),
        tuple(block.keys[row] for block, rows in pairs for row in rows),
        np.concatenate([block.arrived[rows] for block, rows in pairs]),
        VectorBlock(vectors, rounded=any(block.vectors.rounded for block in blocks)),
        tuple(
            np.concatenate([block.columns[at][rows] for block, rows in pairs])
            for at in range(len(blocks[0].columns))
        ),
    )

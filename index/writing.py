"""From values to rows to blocks: what a write does before its transaction begins.

Encoding takes nearly all of a write's time, so it is done first, with no lock on the
store held; the transaction that follows is short.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from index.answers import Column, LoadReport, Value
from index.embedding import Embedding
from index.encoders import EncoderWorker
from index.errors import Fault, InvalidRequest, WrongValue
from index.loading import Table, cast_value, in_another_unit
from index.loading.options import LEAVE_OUT, LoadOptions
from index.naming import TWICE, column_name, repeated_names
from index.pace import Pace, Report
from index.snapshot import BLOCK, Block, Place, Snapshot
from index.store import Record
from index.vectors import VectorBlock
from index.wording import guesses, listed

Row = tuple[str, tuple[Value, ...]]


def as_entries(given: Any) -> dict[str, object]:
    """Take a mapping or pairs, as dict() does, but nothing that this would take for pairs."""
    if hasattr(given, "to_dict") and hasattr(given, "columns"):
        advice = "load(frame.to_parquet()), or take frame.to_dict('index')"
        raise _no_entries(f"of a data frame the names of columns would be the keys; {advice}")
    if not hasattr(given, "keys"):
        if not isinstance(given, Iterable):
            raise _no_entries(f"{type(given).__name__} holds no entries; write a mapping or pairs")
        given = list(given)
        if any(isinstance(pair, (str, Mapping)) for pair in given):
            advice = "write {key: values}, or pairs, or load a table"
            raise _no_entries(f"a list of texts or of objects has no pairs; {advice}")
        try:
            return dict(given)
        except (TypeError, ValueError) as error:  # dict's own words: which element, and how long
            raise _no_entries(str(error)) from None
    return dict(given)


def _no_entries(why: str) -> InvalidRequest:
    return InvalidRequest(Fault("entries", why))


def table_rows(table: Table, snapshot: Snapshot, expected: Sequence[Column]) -> Iterator[Row]:
    """Go through a table's rows, with its values in the columns that the snapshot has.

    ``expected`` are the columns that there were when the table was read.
    """
    held = {column.name: column for column in snapshot.columns}
    if others := [column.name for column in table.columns if column.name not in held]:
        said, guess = f"{_there_are(list(held))}; {LEAVE_OUT}", guesses(held)
        raise InvalidRequest.of(
            Fault(f"columns.{name}", f"the dataset has no such column; {guess(name)}{said}")
            for name in others
        )
    decided = {column.name for column in expected if column.type != "undecided"}
    for column in table.columns:  # the table may have been read before there were these columns
        known = held[column.name]
        if known.type != column.type and column.name not in decided:  # 3.50 is not 3.5 as a text
            said = f"it came to hold {known.type} while the file was read for {column.type}"
            raise InvalidRequest(Fault(f"columns.{column.name}", f"{said}; load the file again"))
        if column.unit and column.unit != known.unit:
            raise in_another_unit("the file", column.unit, known)
    names = [column.name for column in table.columns]
    return (
        (key, cast_row(dict(zip(names, row, strict=True)), snapshot, key)) for key, row in table
    )


def cast_rows(given: Mapping[str, object], snapshot: Snapshot) -> list[Row]:
    """Cast the values of keys; what is wrong with one of several says whose it is."""
    rows = []
    for key, value in given.items():
        try:
            rows.append((key, cast_row(value, snapshot, key)))
        except (InvalidRequest, WrongValue) as fault:
            raise fault.of_key(key) if len(given) > 1 else fault from None
    return rows


def cast_row(value: object, snapshot: Snapshot, key: str) -> tuple[Value, ...]:
    """Cast a key's value, bare or by column, to the columns' types.

    Raise WrongValue if one value will not do, and nothing else is wrong; else InvalidRequest with
    all that is.
    """
    columns = snapshot.columns
    given = by_column(value, columns)
    held: Mapping[str, object] = {}
    if any(column.attribute and column.name not in given for column in columns):
        place = snapshot.find(key)
        held = {} if place is None else snapshot.parted(place)[1]
    row: list[Value] = []
    wrong: list[WrongValue] = []
    for column in columns:
        try:
            row.append(cast_value(given.get(column.name, held.get(column.name)), column))
        except WrongValue as fault:
            wrong.append(fault.with_traceback(None))  # by this frame it would hold itself
    names = dict.fromkeys(column.name for column in columns)
    strange = [name for name in given if name not in names]
    if len(wrong) == 1 and not strange:
        raise wrong.pop()
    if wrong or strange:
        said = f"no such column; {_there_are(names)}"
        amiss = (Fault(f"values.{fault.column}", fault.message) for fault in wrong)
        unknown = (Fault(f"values.{name}", said) for name in strange)
        raise InvalidRequest.of(itertools.chain(amiss, unknown))
    return tuple(row)


def _there_are(names: Collection[str]) -> str:
    return f"there are: {listed(names)}"


def first_values(
    values: Collection[object], columns: Sequence[Column]
) -> Iterator[Mapping[str, object]]:
    """Give by column the values that say which columns there are, and of which types.

    Beside values that name their columns a bare one makes none of its own.
    """
    named = not columns and any(isinstance(value, Mapping) for value in values)
    return (
        by_column(value, columns) for value in values if isinstance(value, Mapping) or not named
    )


def by_column(value: object, columns: Sequence[Column]) -> Mapping[str, object]:
    """Give a value by column: a bare one is that of the one column of values, or makes one."""
    if isinstance(value, Mapping):
        given = {column_name(name): each for name, each in value.items()}
        if len(given) < len(value):
            twice = repeated_names(map(column_name, value))
            raise InvalidRequest(*(Fault(f"values.{name}", TWICE) for name in twice))
        return given
    blended = [column.name for column in columns if not column.attribute]
    if len(blended) == 1:
        return {blended[0]: value}
    if value is None:  # which says nothing of a type
        return {}
    if not columns:
        return {"value": value}
    names = _there_are([column.name for column in columns])
    raise InvalidRequest(Fault("values", f"write an object of column names and values; {names}"))


def losses(table: Table, snapshot: Snapshot, options: LoadOptions) -> tuple[str, ...]:
    """Say in which columns keys that are there lose a value, for the table has no such column."""
    given = {column.name for column in table.columns}
    columns = (column for column in snapshot.columns if not column.attribute)
    lacking = [column.name for column in columns if column.name not in given]
    lost: set[str] = set()
    for key, _ in table if lacking and len(snapshot) else ():
        if (place := snapshot.find(key)) is not None:
            values = snapshot.parted(place)[0]
            lost.update(name for name in lacking if values[name] is not None)
        if len(lost) == len(lacking):
            break
    told = []
    for name in filter(lost.__contains__, lacking):
        skipped = options.columns.get(name) == "skip"
        why = f"column {name!r} is left out" if skipped else f"the file has no column {name!r}"
        told.append(f"{why}: keys of the file that were there lose their value in it")
    return tuple(told)


def forgotten(old: Record, table: Table, settings: Mapping[str, object]) -> tuple[str, ...]:
    """Say what the dataset that a table replaces was told, and the new one is not."""
    defaults = {"temperature": "auto", "tolerance": None, "precision": "full", "encoder": None}
    told = [
        f"{name} {getattr(old, name)}"
        for name, default in defaults.items()
        if getattr(old, name) not in (default, settings[name])
    ]
    blended = {column.name for column in table.columns if not column.attribute}
    lost = [column.name for column in old.columns if column.attribute and column.name in blended]
    if lost:
        told.append(f"{listed(lost)} among its attributes")
    if not told:
        return ()
    return (f"the dataset that is replaced had {', '.join(told)}: what is to stay, say again",)


def newest_now(first: str) -> str:
    """Say what becomes of the order, which the dataset that a table replaces was the first of."""
    return f"it is the newest dataset now: questions that name none go to {first!r}"


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
    earlier: Changes | None = None,
) -> Changes:
    """Sort rows of distinct keys into new entries and updates, and encode the new keys.

    Only a block's worth of rows is held as Python objects at a time. ``encoder`` is
    called if there is something to encode: an update of values needs no model. ``earlier``
    is what was made of the same rows for another snapshot, and is used up: its vectors serve.
    """
    changes = Changes()
    made = [] if earlier is None else earlier.fresh
    made.reverse()
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
        before = None
        if made and any(key in made[-1].rows for key, _ in batch):
            before = made.pop()
        if new:
            vectors = _vectors([key for key, _ in new], before, encoder, embedding, pace)
            changes.fresh.append(_block(snapshot, new, vectors))
    changes.embedded, changes.reused = embedding.embedded, embedding.reused
    return changes


def _vectors(
    keys: Sequence[str],
    before: Block | None,
    encoder: Callable[[], EncoderWorker],
    embedding: Embedding,
    pace: Pace,
) -> VectorBlock:
    """Encode keys, but for those that a block has which was made before."""
    if before is None:
        return VectorBlock(embedding.encode(keys, encoder(), pace))
    if before.keys == tuple(keys):
        pace.skip(len(keys))
        return before.vectors
    rows = np.empty((len(keys), before.vectors.shape[1]), np.float32)
    places = np.array([before.rows.get(key, -1) for key in keys])
    new = np.flatnonzero(places < 0)
    rows[places >= 0] = before.vectors[places[places >= 0]]
    pace.skip(len(keys) - len(new))
    if len(new):
        rows[new] = embedding.encode([keys[row] for row in new.tolist()], encoder(), pace)
    return VectorBlock(rows)


def _block(snapshot: Snapshot, rows: Sequence[Row], vectors: VectorBlock) -> Block:
    """Make a block of new entries; the transaction will fill in ids and arrival."""
    blank = [0] * len(rows)
    keys = [key for key, _ in rows]
    return snapshot.block(blank, keys, blank, vectors, [values for _, values in rows])


def planned_load(dataset: str, table: Table, notes: Sequence[str] = ()) -> LoadReport:
    """Say what a load of a table would do; after the load the file may be another, or gone."""
    names = [column.name for column in table.columns]
    return LoadReport(
        dataset=dataset,
        format=table.format,
        key_column=table.key_column,
        columns=table.columns,
        rows=table.rows,
        loaded=0,
        duplicates=table.duplicates,
        bad_rows=tuple((row.line, row.reason) for row in table.bad_rows),
        bad_row_count=table.bad_row_count,
        preview=tuple(
            (key, dict(zip(names, values, strict=True)))
            for key, values in itertools.islice(table, 5)
        ),
        dry_run=True,
        detected=table.detected,
        notes=(*table.notes, *notes),
    )


def done_load(
    planned: LoadReport, entries: int, changes: Changes, *, created: bool = False
) -> LoadReport:
    """Say what a load of so many entries did."""
    return replace(
        planned,
        loaded=entries,
        dry_run=False,
        embedded=changes.embedded,
        reused=changes.reused,
        created=created,
    )

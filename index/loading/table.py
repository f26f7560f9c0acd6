"""A table read in passes: see what it is, check every row, give its entries.

Bad rows go first: a row that does not fit its columns is never the first appearance of a key.
Under ``duplicates="error"`` a repeated key is a bad row itself.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import BinaryIO

from index.answers import Column, Progress, Value
from index.errors import (
    BadRow,
    BadRows,
    Fault,
    InvalidKey,
    InvalidRequest,
    UnreadableSource,
    WrongValue,
)
from index.loading.cast import check_key
from index.loading.formats import find_format, open_reader
from index.loading.infer import NAMED, Inference
from index.loading.kinds import kind_in_json, kind_in_text
from index.loading.layout import gap_advice, lay_out
from index.loading.merge import Mean, Values
from index.loading.options import LEAVE_OUT, LoadOptions
from index.loading.rows import Row, check_width
from index.loading.sources import Source
from index.naming import composed
from index.pace import Report
from index.values import EXACT
from index.wording import counted, shown

BAD_ROWS_KEPT = 100
MOST_HELD = 1 << 24  # bytes of keys and values; of a short key and two numbers 100,000 rows
_SHORT_KEY = 64  # characters; of a longer key a digest is remembered

_DEFAULTS = LoadOptions()


class Table:
    """A checked table. Iterating gives its entries, as often as they are wanted.

    A small table's rows are held as they were checked; those of a larger one come each time from
    a fresh pass over the source.

    Attributes
    ----------
    rows, entries, duplicates, bad_row_count : int
        Every row that was read is an entry, a duplicate merged into one, or bad.
    bad_rows : tuple of BadRow
        The first hundred.
    text_bytes : int
        What the characters of the entries' keys and texts take in memory.
    detected : dict
        What was found out about a text format: delimiter, header, encoding, decimal.
    notes : tuple of str
        What its columns might have been, but for some cells.
    """

    def __init__(
        self,
        source: Source,
        options: LoadOptions,
        progress: Report | None,
        expected: Sequence[Column],
        expected_key: str | None,
    ) -> None:
        self._source, self._options = source, options
        self.format = options.format or find_format(source)
        self._reader = open_reader(self.format, source, options)
        self.rows = 0
        inference = self._inspect(_Ticker(progress, None))
        self._layout = lay_out(
            self._reader, inference, options, expected, expected_key, source.name
        )
        settled = {*options.columns, *(column.name for column in expected)}
        self._guessed = {column.name for column in self._layout.columns} - settled
        self._unfit: dict[str, None] = {}  # columns of numbers in which something is none
        self._strange: dict[str, None] = {}  # the first texts in them
        self._advised: set[str] = set()  # columns of which it was said what to do about nested JSON
        self._keyless = False  # some row has no key that can be held
        self.key_column = self._layout.key_column
        self.columns = self._layout.columns
        self.notes = self._layout.notes
        self.detected = dict(self._reader.detected)
        if self._layout.decimal:
            self.detected["decimal"] = self._layout.decimal
        self.entries = self.duplicates = self.bad_row_count = self.text_bytes = 0
        self.bad_rows: tuple[BadRow, ...] = ()
        self._repeated: set[str | bytes] = set()
        self._held: list[tuple[str, Values]] | None = []  # rows without a fault
        self._held_bytes = 0
        self._check(_Ticker(progress, self.rows))

    def _read(self) -> Iterator[Row]:
        """Read the rows, with nothing in the cells that are said to hold nothing."""
        missing = {composed(text.strip()) for text in self._options.missing}
        nothing = "" if self._reader.textual else None
        no_number = "nan" in map(str.casefold, missing)  # JSON of Python's and Parquet may have it

        def blank(cell: object) -> bool:
            if isinstance(cell, float):
                return no_number and math.isnan(cell)
            return isinstance(cell, str) and composed(cell.strip()) in missing

        for row in self._reader:
            if missing and any(map(blank, row.cells.values())):
                held = {name: nothing if blank(c) else c for name, c in row.cells.items()}
                row = row._replace(cells=held)
            yield row

    def _inspect(self, ticker: _Ticker) -> Inference:
        reader, most = self._reader, self._options.max_rows
        check_width(reader.names, self._source.name)
        kind = kind_in_text if reader.textual else kind_in_json
        inference = Inference(
            kind, names=reader.names, delimiter=reader.delimiter, decimal=self._options.decimal
        )
        for row in self._read():
            self.rows += 1
            if most is not None and self.rows > most:
                rows = counted(most, "row", "rows")
                raise UnreadableSource(
                    f"{self._source.name} has more than {rows}, as max_rows says"
                )
            check_width(row.cells, self._source.name)
            inference.add(row.cells, row.entry or row.line)
            check_width(inference.profiles, self._source.name)
            ticker.tick(self.rows)
        ticker.end(self.rows)
        if not self.rows and not reader.may_be_empty:
            what = "a header and no rows" if reader.names else "no rows"
            raise UnreadableSource(f"{self._source.name} holds {what}")
        return inference

    def _check(self, ticker: _Ticker) -> None:
        """Count entries, duplicates and bad rows; raise BadRows unless these may be skipped."""
        bad: list[BadRow] = []
        firsts: dict[str | bytes, int] = {}
        for done, (row, key, values, fault) in enumerate(self._typed(), 1):
            fault = fault or self._enter(row, key, values, firsts)
            if fault is None:
                self._hold(key, values)
            else:
                self.bad_row_count += 1
                if len(bad) < BAD_ROWS_KEPT:
                    entry = f"entry {row.entry}: " if row.entry else ""
                    bad.append(BadRow(row.line, entry + fault))
            ticker.tick(done)
        ticker.end(self.rows)
        self.entries, self.bad_rows = len(firsts), tuple(bad)
        if bad and self._options.on_error == "stop":
            repeated = self._options.duplicates == "error" and bool(self._repeated)
            guessed = self._layout.guessed_key
            raise BadRows(
                bad,
                self.bad_row_count,
                every=not firsts,
                repeated=repeated,
                keys=self._layout.key_source if guessed and (repeated or self._keyless) else None,
                numbers=list(self._unfit),
                gaps=gap_advice(self._strange),
            )
        if self.rows and not self.entries:
            raise UnreadableSource(
                f"{self._source.name}: none of its {self.rows:,} rows can be loaded; "
                f"line {bad[0].line}: {bad[0].reason}"
            )

    def _enter(
        self, row: Row, key: str, values: Values, firsts: dict[str | bytes, int]
    ) -> str | None:
        """Count a good row as an entry or a duplicate, or say that its key may not come again.

        ``firsts`` has the place of each key's first row.
        """
        identity = _identity(key)
        if identity in firsts:
            self._repeated.add(identity)
            if self._options.duplicates == "error":
                return f"the key {shown(key)} came {self._reader.place} {firsts[identity]} already"
            self.duplicates += 1
            return None
        firsts[identity] = row.entry or row.line
        self.text_bytes += _bytes(key)
        for column, value in zip(self.columns, values, strict=True):
            # Labels that somebody asked for may be as many as texts; inferred ones are few.
            wanted = column.type == "category" and column.name not in self._guessed
            if value is not None and (column.type == "text" or wanted):
                self.text_bytes += _bytes(str(value))
        return None

    def _hold(self, key: str, values: Values) -> None:
        """Keep a row for later passes, while all of them are few and short."""
        if self._held is not None:
            self._held.append((key, values))
            self._held_bytes += sum(map(_size, (key, *values)))
            if self._held_bytes > MOST_HELD:
                self._held = None

    def _good(self) -> Iterator[tuple[str, Values]]:
        """Give every row without a fault, repeated keys too."""
        if self._held is not None:
            yield from self._held
        else:
            yield from ((key, values) for _, key, values, fault in self._typed() if fault is None)

    def _typed(self) -> Iterator[tuple[Row, str, Values, str | None]]:
        """Give every row with its key and values, or its fault."""
        casts = self._layout.casts
        for row in self._read():
            key, fault = "", row.fault
            values: Values = ()
            if fault is None:
                try:
                    key, cells = self._key(row), row.cells
                    values = tuple([cast(cells.get(source)) for source, cast in casts])
                except (InvalidKey, WrongValue):
                    fault = self._faults(row)
            yield row, key, values, fault

    def _key(self, row: Row) -> str:
        source = self._layout.key_source
        key = row.cells.get(source)
        if self._options.missing and source in row.cells and key in (None, ""):
            raise InvalidKey("the key is empty, or what the option missing names")
        if key is None or (isinstance(key, float) and not math.isfinite(key)):  # a data frame's gap
            raise InvalidKey(f"there is no key in column {self.key_column!r}")
        if isinstance(key, str):
            key = key.strip() if self._reader.textual else key
        elif isinstance(key, (int, float, Decimal)) and not isinstance(key, bool):
            whole = isinstance(key, float) and key.is_integer() and abs(key) <= EXACT
            key = str(int(key) if whole else key)  # a gap makes 7 a 7.0
        elif isinstance(key, (datetime.date, datetime.time)):
            key = key.isoformat()
        return check_key(key, self._options.max_key_length)

    def _faults(self, row: Row) -> str:
        """All that is wrong with a row's cells."""
        faults = []
        try:
            self._key(row)
        except InvalidKey as error:
            self._keyless = True
            faults.append(error.faults[0].message)
        for column, (name, cast_cell) in zip(self.columns, self._layout.casts, strict=True):
            cell = row.cells.get(name)
            try:
                cast_cell(cell)
            except WrongValue as error:
                if column.type == "number" and column.name in self._guessed:
                    self._unfit[column.name] = None
                    if isinstance(cell, str) and len(self._strange) < NAMED:
                        self._strange[cell.strip()] = None
                advice = "" if column.name in self._advised else _advice(cell, column)
                if advice:  # once: the other rows of such a column have the same fault
                    self._advised.add(column.name)
                faults.append(f"{error}{advice}")
        return "; ".join(faults)

    def __iter__(self) -> Iterator[tuple[str, Values]]:
        repeated = self._repeated
        merged = self._merged if repeated else {}
        given: set[str | bytes] = set()
        for key, values in self._good():
            if repeated and (identity := _identity(key)) in repeated:
                if identity in given:
                    continue
                given.add(identity)
                values = merged.get(identity, values)
            yield key, values

    @cached_property
    def _merged(self) -> dict[str | bytes, Values]:
        """The values of repeated keys, where they are not those of the first row."""
        if self._options.duplicates in ("error", "first"):
            return {}
        merged: dict[str | bytes, Values] = {}
        means: dict[str | bytes, Mean] = {}
        for key, values in self._good():
            if (identity := _identity(key)) in self._repeated:
                merged[identity] = values  # the last, so far
                if self._options.duplicates == "mean":
                    means.setdefault(identity, Mean(self.columns)).add(values)
        return merged | {identity: mean.values() for identity, mean in means.items()}

    def close(self) -> None:
        """Remove temporary files; the table cannot be iterated afterwards."""
        self._source.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_table(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    options: LoadOptions = _DEFAULTS,
    *,
    filename: str | None = None,
    progress: Report | None = None,
    expected: Sequence[Column] = (),
    expected_key: str | None = None,
) -> Table:
    """Read and check a table; nothing of it is kept but what its entries need.

    Parameters
    ----------
    source : path, bytes or binary stream
        A path is opened anew for each pass; a stream is copied to a temporary file.
    options : LoadOptions
    filename : str, optional
        Of bytes or a stream: its ending tells the format, and messages name it.
    progress : callable, optional
        Told about every 1,000 rows or 0.1 s: first with an unknown total, then, while the rows
        are checked, with the known one.
    expected : sequence of Column
        Columns of the dataset that the rows are for. Columns of their names have their types and
        are not the key; columns without a name take theirs, where there are as many.
    expected_key : str, optional
        What that dataset calls its column of keys: where the file has one of that name, it is it.

    Raises
    ------
    InvalidRequest
        Options that cannot be, or that name columns which are not there: all of them at once.
    UnreadableSource
        Nothing that can be read as a table.
    BadRows
        Rows that cannot be loaded, under ``on_error="stop"``.
    """
    if not isinstance(options, LoadOptions):
        raise InvalidRequest(Fault("options", 'write LoadOptions(key="name", …)'))
    options.check()
    opened = Source(source, filename)
    try:
        return Table(opened, options, progress, expected, expected_key)
    except BaseException:
        opened.close()
        raise


class _Ticker:
    """Tells how many rows are done, about every 1,000 of them or 0.1 s."""

    def __init__(self, progress: Report | None, total: int | None) -> None:
        self._progress, self._total = progress, total
        self._last = time.monotonic()

    def tick(self, done: int) -> None:
        if self._progress is None:
            return
        now = time.monotonic()
        if done % 1_000 == 0 or now - self._last >= 0.1:
            self._last = now
            self._progress(Progress("reading", done, self._total))

    def end(self, done: int) -> None:
        if self._progress is not None:
            self._progress(Progress("reading", done, self._total))


def _advice(cell: object, column: Column) -> str:
    """Say what to do about NaN, and nested JSON: a list may be the table, inside an answer."""
    if isinstance(cell, float) and math.isnan(cell):
        return ", and so is NaN if you name it in the option missing"
    if column.type not in ("category", "text"):
        return ""
    if isinstance(cell, list) and cell and isinstance(cell[0], (dict, list)):
        return f"; if that is the table, load it by itself, or {LEAVE_OUT}"
    return f"; {LEAVE_OUT}" if isinstance(cell, (dict, list)) else ""


def _bytes(text: str) -> int:
    """Give what a text's characters take: each as much as the widest, from 1 byte to 4 (emoji)."""
    return sys.getsizeof(text) - sys.getsizeof("")


def _size(value: Value) -> int:
    """Give what a value takes in memory, about."""
    return 32 * len(value) if isinstance(value, tuple) else sys.getsizeof(value)


def _identity(key: str) -> str | bytes:
    """What is remembered of a key: itself, or 32 bytes that no other key has."""
    if len(key) <= _SHORT_KEY:
        return key
    return hashlib.blake2b(key.encode(), digest_size=32).digest()

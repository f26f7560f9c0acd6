"""Entries written as CSV, JSON Lines or Parquet, a block at a time.

What a reader of the file gets back: from Parquet everything, with integers as floats; from JSON
Lines everything, with types inferred anew; from CSV everything but the difference between a blank
text and a missing one, and blanks around keys and names. Where labels must keep their type (a text
"007", a category that hardly repeats), load with ``columns`` saying so; which columns are
attributes only Parquet says, so load the others with ``attributes``; a unit stands beside each
number of CSV and JSON Lines; where a column of values is named as keys are (``key``, ``name``), say
with ``key`` which one holds them; and where one of CSV has a number for a name, or ; | or a tab in
it, that there is a ``header``, and which ``delimiter``. That there is a ``header`` wants saying of
keys alone, too: under a name that is not known for keys it would be one of them.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from index.answers import Column, Entry, Value
from index.errors import Fault, InvalidRequest
from index.loading.kinds import kind_in_text
from index.loading.layout import key_name
from index.loading.numerals import Style
from index.loading.units import unit_apart, usual_unit

_THOUSAND = re.compile(r"-?[1-9]\d{0,2}\.\d{3}")

Writer = Callable[[str, Sequence[Column], Iterable[Entry]], Iterator[bytes]]

BLOCK = 1_000  # entries
ROW_GROUP = 16_384  # entries


def write_table(
    fmt: str,
    key_column: str,
    columns: Sequence[Column],
    rows: Iterable[Entry],
    *,
    decimal: Style = "point",
) -> Iterator[bytes]:
    """Give the bytes of a file that holds the entries, in order; values are never altered.

    Where a column of values has the name of the column of keys, the keys take another. With a
    decimal comma, CSV is as spreadsheets read it where that is usual: with ``;`` between cells,
    and a byte order mark. Raise InvalidRequest at once, not at the first block, if the format is
    none of csv, jsonl and parquet, or cannot be written so.
    """
    writers: dict[str, Writer] = {
        "csv": partial(_csv, decimal=decimal),
        "jsonl": _json_lines,
        "parquet": _parquet,
    }
    if fmt not in writers:
        raise InvalidRequest(Fault("format", f"{fmt!r} is none of: {', '.join(writers)}"))
    if decimal not in ("point", "comma") or (decimal == "comma" and fmt != "csv"):
        raise InvalidRequest(Fault("decimal", "write point, or comma for csv"))
    names = [column.name for column in columns]
    return writers[fmt](key_name(names) if key_column in names else key_column, columns, rows)


def _csv(
    key_column: str, columns: Sequence[Column], rows: Iterable[Entry], *, decimal: Style
) -> Iterator[bytes]:
    buffer = io.StringIO(newline="")
    comma = decimal == "comma"
    buffer.write("\ufeff" if comma else "")
    # RFC 4180; and only for a line end of both marks does the csv module quote cells with either.
    form: dict[str, Any] = {"lineterminator": "\r\n", "delimiter": ";" if comma else ","}
    writer = csv.writer(buffer, **form)
    quoting = csv.writer(buffer, quoting=csv.QUOTE_ALL, **form)
    writer.writerow([key_column, *(column.name for column in columns)])
    spellers = {column.name: _Speller(column, comma) for column in columns}
    for block in _blocks(rows, BLOCK):
        for entry in block:
            cells: list[object] = [entry.key]
            cells += [spelled(entry.values.get(name)) for name, spelled in spellers.items()]
            nul = any(isinstance(cell, str) and "\0" in cell for cell in cells)
            (quoting if nul else writer).writerow(cells)  # a NUL outside quotes is not read
        yield _taken(buffer)
    yield _taken(buffer)


def _unit(column: Column) -> str | None:
    """Give the unit to write beside a column's numbers, if a reader will part it from them."""
    unit = column.unit or ""
    return unit if unit and unit_apart(f"1 {unit}") == ("1", usual_unit(unit)) else None


def _with_unit(value: Value, unit: str | None) -> Value:
    return value if not unit or value is None else f"{_digits(value)} {unit}"


def _digits(number: Value) -> str:
    """Write a number: 1.459 may be read as a thousand and more, and 1.4590 is none."""
    digits = repr(number)
    return f"{digits}0" if _THOUSAND.fullmatch(digits) else digits


class _Speller:
    """Writes the values of one column so that no other column changes how they are read."""

    def __init__(self, column: Column, comma: bool) -> None:
        self._unit, self._comma = _unit(column), comma
        self._told = comma or self._unit is not None  # that points are no dates'

    def __call__(self, value: Value) -> Value:
        if isinstance(value, tuple):
            return json.dumps(value, allow_nan=False)
        if value is None or isinstance(value, str):
            return value
        digits = _digits(value)
        if not self._told and "." in digits:
            # 9.3 may be a date beside decimal commas, and 9.3000 is none; one tells of the others.
            digits += "000" if kind_in_text(digits).name == "moment" else ""
            self._told = True
        spelled = f"{digits} {self._unit}" if self._unit else digits
        return spelled.replace(".", ",", 1) if self._comma else spelled


def _taken(buffer: io.StringIO | io.BytesIO) -> bytes:
    """Give what was written, and empty the buffer."""
    written = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return written.encode("utf-8") if isinstance(written, str) else written


def _json_lines(
    key_column: str, columns: Sequence[Column], rows: Iterable[Entry]
) -> Iterator[bytes]:
    units = {column.name: _unit(column) for column in columns}
    for block in _blocks(rows, BLOCK):
        lines = []
        for entry in block:
            cells: dict[str, Value] = {key_column: entry.key}
            cells |= {n: _with_unit(entry.values.get(n), unit) for n, unit in units.items()}
            lines.append(json.dumps(cells, ensure_ascii=False, allow_nan=False) + "\n")
        yield "".join(lines).encode("utf-8")


def _parquet(key_column: str, columns: Sequence[Column], rows: Iterable[Entry]) -> Iterator[bytes]:
    import pyarrow as pa  # here: only Parquet needs it
    import pyarrow.parquet as pq

    from index.loading.parquet_rows import ATTRIBUTES_NOTE, KEY_NOTE, TYPES_NOTE, UNITS_NOTE

    types = {column.name: column.type for column in columns if column.type in ("category", "text")}
    schema = pa.schema(
        [pa.field(key_column, pa.string(), nullable=False)]
        + [pa.field(column.name, _arrow_type(column)) for column in columns],
        metadata={
            KEY_NOTE: key_column.encode(),
            TYPES_NOTE: json.dumps(types).encode(),
            ATTRIBUTES_NOTE: json.dumps([c.name for c in columns if c.attribute]).encode(),
            UNITS_NOTE: json.dumps({c.name: c.unit for c in columns if c.unit}).encode(),
        },
    )
    sink = io.BytesIO()  # Arrow counts by itself where in the file it is
    with pq.ParquetWriter(sink, schema) as writer:
        for block in _blocks(rows, ROW_GROUP):
            arrays = [pa.array([entry.key for entry in block], pa.string())]
            for column in columns:
                values = [entry.values.get(column.name) for entry in block]
                arrays.append(pa.array(values, _arrow_type(column)))
            writer.write_table(pa.table(arrays, schema=schema))
            yield _taken(sink)
    yield _taken(sink)


def _arrow_type(column: Column) -> Any:
    import pyarrow as pa

    if column.type == "number":
        return pa.float64()
    if column.type == "vector":
        return pa.list_(pa.float64(), column.width or -1)
    return pa.string()


def _blocks(rows: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    remaining = iter(rows)
    while block := list(itertools.islice(remaining, size)):
        yield block

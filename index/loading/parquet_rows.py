"""Parquet as rows, through pyarrow: import it late, for that takes a third of a second."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as is_a

from index.errors import NotEnoughMemory, UnreadableSource
from index.loading.options import LEAVE_OUT, LoadOptions
from index.loading.rows import Reader, Row
from index.loading.sources import Source
from index.memory import check_room
from index.naming import composed, is_unit

BATCH = 4_096  # rows
FEW = 16  # rows read at a time of lists, for one that takes a few bytes may have millions of zeros
# Bytes that Arrow takes, at most, for one of the texts of a group of rows, whose distinct ones it
# gathers; as measured.
GATHERED = 6
# What ``writers`` notes in the schema, so that columns come back as what they were.
KEY_NOTE, TYPES_NOTE = b"softdict.key", b"softdict.types"
ATTRIBUTES_NOTE, UNITS_NOTE = b"softdict.attributes", b"softdict.units"
PANDAS_NOTE = b"pandas"
_FEWER = "write the file in groups of fewer rows, or load where more is free"
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
_MICROSECONDS = re.compile(r"\.\d{6}")
_Noted = TypeVar("_Noted", dict[str, Any], list[Any])


class ParquetReader(Reader):
    """Columns of Parquet, row by row. ``line`` counts rows from 1."""

    def __init__(self, source: Source, options: LoadOptions) -> None:
        self._source, self._most = source, options.max_unpacked
        with self._open() as file:
            schema = file.schema_arrow
        skipped = {name for name, wanted in options.columns.items() if wanted == "skip"}
        skipped |= _row_numbers(schema) - {options.key, *options.columns}
        self._called = {composed(name): name for name in schema.names}  # what the file calls each
        self.names = [name for name in self._called if name not in skipped]
        self.left_out = [name for name in self._called if name not in self.names]
        if not self.names:
            what = "every column is left out" if self._called else "the file has no columns"
            raise UnreadableSource(f"{source.name}: {what}, and none holds keys")
        self._texts: list[str] = []
        self._lists: list[str] = []
        self.types: dict[str, str] = {}
        self.widths: dict[str, int] = {}
        self._take_schema(schema)
        self._take_notes(schema)

    def _take_schema(self, schema: Any) -> None:
        if len(self._called) < len(schema.names):
            raise UnreadableSource(f"{self._source.name} names a column twice")
        for name in self.names:
            kind = schema.field(self._called[name]).type
            if not _can_be_held(kind):
                raise UnreadableSource(
                    f"{self._source.name}: column {name!r} is {kind}, which no value column "
                    f"holds; {LEAVE_OUT}"
                )
            if is_a.is_dictionary(kind):
                self.types[name] = "category"
            if is_a.is_floating(kind):  # a column of gaps too
                self.types[name] = "number"
            if _is_text(kind):
                self._texts.append(name)
            if _is_list(kind):
                self._lists.append(name)
            if is_a.is_fixed_size_list(kind) and kind.list_size:
                self.types[name], self.widths[name] = "vector", kind.list_size

    def _take_notes(self, schema: Any) -> None:
        """Take what ``write_table`` noted of columns; a stranger's nonsense counts for nothing."""
        metadata = schema.metadata or {}
        called = self._called.items()
        types = _noted(metadata, TYPES_NOTE, {})
        self.types |= {n: types[c] for n, c in called if types.get(c) in ("category", "text")}
        units = _noted(metadata, UNITS_NOTE, {})
        self.units = {n: units[c] for n, c in called if is_unit(units.get(c))}
        attributes = _noted(metadata, ATTRIBUTES_NOTE, [])
        self.attributes = [n for n, c in called if n in self.names and c in attributes]
        indexes = _labels(schema)
        labels = [n for n, c in called if n in self.names and c in indexes]
        noted = composed(metadata.get(KEY_NOTE, b"").decode("utf-8", "replace"))
        self.key = noted or (labels[0] if len(labels) == 1 else None)
        self.may_be_empty = bool(noted) and noted in self.names
        self.unnamed = [name for name in labels if _UNNAMED_INDEX.fullmatch(name)]

    @contextmanager
    def _open(self, *, distinct: Sequence[str] = ()) -> Iterator[Any]:
        """Open the file; of the ``distinct`` columns a batch holds each text once.

        The file has a text in every row once: written out, a small file could fill us.
        """
        with self._source.open() as stream:
            try:
                yield pq.ParquetFile(stream, read_dictionary=[self._called[n] for n in distinct])
            except pa.ArrowMemoryError as error:
                raise NotEnoughMemory(None, None, _FEWER) from error
            except (pa.ArrowException, OSError, UnicodeError) as error:
                words = str(error).splitlines()[0].partition(". ")[0].rstrip(".")
                raise UnreadableSource(
                    f"{self._source.name} is damaged, cut short or not Parquet: {words}"
                ) from error

    def __iter__(self) -> Iterator[Row]:
        others = [name for name in self.names if name not in self._lists]
        parts = [(names, size) for names, size in ((others, BATCH), (self._lists, FEW)) if names]
        names = [*others, *self._lists]
        with self._open(distinct=self._texts) as file:
            self._check_fits(file)
        unpacked = self._unpacked_within()
        columns = (self._rows(*part, unpacked) for part in parts)
        for line, row in enumerate(zip(*columns, strict=True), 1):
            yield Row(line, dict(zip(names, chain.from_iterable(row), strict=True)))

    def _rows(
        self, names: Sequence[str], size: int, unpacked: Callable[[list[list[Any]]], None]
    ) -> Iterator[tuple[Any, ...]]:
        """Go through some of the columns, so many rows at a time."""
        called = [self._called[name] for name in names]
        with self._open(distinct=self._texts) as file:
            for batch in file.iter_batches(size, columns=called):
                # By name: with the column "s.x" comes the field x of a column s.
                columns = [self._cells(n, batch.column(n)) for n in called]
                unpacked(columns)
                yield from zip(*columns, strict=True)

    def _unpacked_within(self) -> Callable[[list[list[Any]]], None]:
        """Give what adds up the columns of one pass, and refuses more than may be unpacked."""
        total = 0

        def unpacked(columns: list[list[Any]]) -> None:
            nonlocal total
            if self._most is None:
                return
            for cell in chain.from_iterable(columns):
                total += len(cell) if isinstance(cell, str | list) else 1
            if total > self._most:
                raise UnreadableSource(
                    f"{self._source.name} unpacks to more than {self._most:,} characters and "
                    "numbers, as many as a file may have bytes"
                )

        return unpacked

    def _check_fits(self, file: Any) -> None:
        """Refuse a group of rows whose texts, which are read together, memory would not hold."""
        paths = [file.schema.column(place).path for place in range(file.metadata.num_columns)]
        texts = [place for place, path in enumerate(paths) if composed(path) in self._texts]
        sizes = [0]
        for place in range(file.num_row_groups if texts else 0):
            # Where the metadata of a column are damaged, asking for them ends the process: the C++
            # exception passes through pyarrow. Its reader looks at them, too, and raises; of no
            # rows it reads nothing else.
            for _ in file.reader.iter_batches(0, row_groups=[place], column_indices=texts):
                pass
            group = file.metadata.row_group(place)
            sizes.append(sum(group.column(text).total_uncompressed_size for text in texts))
        check_room(GATHERED * max(sizes), _FEWER)

    def _cells(self, name: str, column: Any) -> list[Any]:
        try:
            return _times(column) if _has_nanoseconds(column.type) else _listed(column)
        except (ValueError, OverflowError) as error:  # Python's calendar ends with the year 9999
            raise UnreadableSource(
                f"{self._source.name}: column {name!r} cannot be read: {error}; "
                f"write it as text, or {LEAVE_OUT}"
            ) from error


def _indexes(schema: Any) -> list[str]:
    """Name the columns that are the indexes of a data frame."""
    indexes = _noted(schema.metadata or {}, PANDAS_NOTE, {}).get("index_columns")
    return [name for name in schema.names if name in indexes] if isinstance(indexes, list) else []


def _row_numbers(schema: Any) -> set[str]:
    """Name the indexes of a data frame that nobody named: where its rows stood before a sort.

    One of labels is its keys; and where there is nothing else, it is what there is.
    """
    found = {name for name in _indexes(schema) if _UNNAMED_INDEX.fullmatch(name)} - _labels(schema)
    return found if len(found) < len(schema.names) else set()


def _labels(schema: Any) -> set[str]:
    """Name the indexes of a data frame that label its rows: of texts, or unnamed and of days."""
    held = {name: _held(schema.field(name).type) for name in _indexes(schema)}
    return {
        name
        for name, kind in held.items()
        if _is_text(kind) or (_UNNAMED_INDEX.fullmatch(name) and _is_time(kind))
    }


def _held(kind: Any) -> Any:
    """Give the type of an Arrow type's values: a dictionary's are those that it numbers."""
    return kind.value_type if is_a.is_dictionary(kind) else kind


def _can_be_held(kind: Any) -> bool:
    """Say whether a value column can hold an Arrow type."""
    if _is_list(kind):
        return _is_number(kind.value_type)
    held = _held(kind)
    plain = _is_text(held) or is_a.is_null(held) or is_a.is_boolean(held)
    return bool(plain or _is_time(held) or _is_number(held))


def _is_time(kind: Any) -> bool:
    return bool(is_a.is_timestamp(kind) or is_a.is_date(kind) or is_a.is_time(kind))


def _is_list(kind: Any) -> bool:
    return bool(is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind))


def _is_text(kind: Any) -> bool:
    return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind))


def _is_number(kind: Any) -> bool:
    return bool(is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind))


def _has_nanoseconds(kind: Any) -> bool:
    return bool((is_a.is_timestamp(kind) or is_a.is_time64(kind)) and kind.unit == "ns")


def _times(column: Any) -> list[Any]:
    """Give times in nanoseconds; Python's clock counts microseconds, so spell those with more."""
    kind = column.type
    wanted = pa.timestamp("us", kind.tz) if is_a.is_timestamp(kind) else pa.time64("us")
    counts = column.cast("int64").to_pylist()
    # Arrow's own cast rounds towards 1970, which puts what is before it in another microsecond.
    times = pa.array([None if n is None else n // 1_000 for n in counts], wanted).to_pylist()
    rest = [n and n % 1_000 for n in counts]
    return [
        _MICROSECONDS.sub(rf"\g<0>{n:03}", t.isoformat(timespec="microseconds")) if n else t
        for t, n in zip(times, rest, strict=True)
    ]


def _noted(metadata: Mapping[bytes, bytes], note: bytes, nothing: _Noted) -> _Noted:
    """Read a note of JSON that is of the same type as ``nothing``, else give that."""
    with suppress(ValueError, RecursionError):
        noted = json.loads(metadata.get(note, b""))
        if isinstance(noted, type(nothing)):
            return noted
    return nothing


def _listed(column: Any) -> list[Any]:
    """Give an Arrow column's values, each of a dictionary once, however many rows have it."""
    if not is_a.is_dictionary(column.type):
        return cast(list[Any], column.to_pylist())
    used, places = np.unique(column.indices.cast("int64").fill_null(-1), return_inverse=True)
    values = column.dictionary.take(used[used >= 0]).to_pylist()
    if used.size and used[0] < 0:
        values = [None, *values]
    return [values[place] for place in places]

"""Delimited text as rows. The csv module reads it, in the dialect of its first lines."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from index.errors import UnreadableSource
from index.loading.dialect import (
    NO_DELIMITER,
    SAMPLE_LINES,
    SAMPLE_SIZE,
    find_dialect,
)
from index.loading.header import header_below, is_header
from index.loading.options import LoadOptions
from index.loading.rows import Reader, Row, check_width
from index.loading.sources import Source
from index.loading.text import bounded_lines, find_encoding, open_text
from index.naming import composed
from index.wording import counted

_QUOTED = re.compile(r'"[^"]*"')  # of a doubled quote, two of them meet


class CsvReader(Reader):
    """Rows of delimited text, each with the line on which it begins."""

    textual = True

    def __init__(self, source: Source, options: LoadOptions, *, tabs: bool = False) -> None:
        self._source = source
        self._encoding = find_encoding(source, options)
        with self._lines() as lines:
            sample = _sample(lines)
            more = next(lines, None) is not None
        wanted = options.delimiter or ("\t" if tabs else None)
        self._dialect = find_dialect(sample, cut=more, wanted=wanted)
        self._has_header = False
        self.names: list[str] = []
        self._take_header(sample, options.header)
        delimiter = self._dialect.delimiter
        self.delimiter = None if delimiter == NO_DELIMITER else delimiter
        self.detected = {
            "delimiter": self.delimiter or "none",
            "header": "yes" if self._has_header else "no",
            "encoding": self._encoding,
        }

    def _take_header(self, sample: Sequence[str], wanted: bool | None) -> None:
        """Name the columns: as the first row does, if it is a header, else by their places."""
        rows = list(itertools.islice(self._rows(), SAMPLE_LINES))
        if not rows:
            return
        line, first, fault = rows[0]
        if fault:
            raise UnreadableSource(f"{self._source.name}: line {line}: {fault}")
        check_width(first, self._source.name)
        cells = [cells for _, cells, fault in rows if not fault]
        found = self._dialect.markdown or is_header(cells)
        self._has_header = found if wanted is None else wanted
        self._name_columns(first)
        if wanted is None and not self._has_header:
            self._refuse_titles(sample)

    def _name_columns(self, cells: Sequence[str]) -> None:
        places = [f"column {place}" for place in range(1, len(cells) + 1)]
        given = [_name(cell) if self._has_header else "" for cell in cells]
        self.names = [name or place for name, place in zip(given, places, strict=True)]
        self.unnamed = [place for name, place in zip(given, places, strict=True) if not name]

    def _refuse_titles(self, sample: Sequence[str]) -> None:
        """Refuse a file whose header is further below: its first lines are no entries."""
        if below := header_below(sample, self._dialect):
            raise UnreadableSource(
                f"{self._source.name}: line {below} seems to name the columns; delete the lines "
                "above it, or load with header=no if none does"
            )

    @contextmanager
    def _lines(self) -> Iterator[Iterator[str]]:
        with open_text(self._source, self._encoding) as text:
            yield bounded_lines(text, self._source.name)

    def _rows(self) -> Iterator[tuple[int, list[str], str | None]]:
        """Line, cells and fault of every row that is not blank, the header among them."""
        skipped = self._dialect.skipped
        spelled: list[str] = []  # the lines of the row that is being read
        with self._lines() as lines:
            rows = self._dialect.rows(_noted(itertools.islice(lines, skipped, None), spelled))
            while True:
                line = skipped + rows.line_num + 1
                spelled.clear()
                try:
                    cells = next(rows, None)
                except csv.Error as error:
                    yield line, [], self._csv_fault(error, line, skipped + rows.line_num)
                    continue
                if cells is None:
                    return
                if _holds_bare_nul(spelled):
                    yield line, [], "the line holds a NUL character outside quotes"
                elif any(map(str.strip, cells)):
                    padded = self._dialect.delimiter == "|"  # as in Markdown
                    yield line, [*map(str.strip, cells)] if padded else cells, None

    def _csv_fault(self, error: csv.Error, first: int, last: int) -> str:
        if "unexpected end" in str(error) or "field larger" in str(error):
            raise UnreadableSource(
                f"{self._source.name}: the quote that opens on line {first} is never closed; "
                "close it, or double it if it belongs to the text"
            )
        where = f" (the row goes on to line {last})" if last > first else ""
        return f'a quote " in the middle of a cell; double it if it belongs to the text{where}'

    def __iter__(self) -> Iterator[Row]:
        names = self.names
        width = least = len(names)
        while self._has_header and least and names[least - 1] in self.unnamed:
            least -= 1  # what has no name may be left out at the end of a row
        for line, cells, fault in itertools.islice(self._rows(), int(self._has_header), None):
            if fault:
                yield Row(line, {}, fault)
            elif least <= len(cells) and not any(cells[width:]):
                yield Row(line, dict(zip(names, cells, strict=False)))
            else:
                yield Row(line, {}, self._ragged(len(cells)))

    def _ragged(self, cells: int) -> str:
        first = "the header" if self._has_header else "the first row"
        between = f"delimiter {self.delimiter!r}" if self.delimiter else "no delimiter"
        count = counted(cells, "cell", "cells")
        return f"{count}, where {first} has {len(self.names)} ({between})"


def _name(cell: str) -> str:
    """Write a column's name as it would be typed: on one line, an accent in its letter."""
    lines = (line.strip() for line in cell.strip().splitlines())  # as spreadsheets break names
    return composed(" ".join(filter(None, lines)))


def _sample(lines: Iterator[str]) -> list[str]:
    sample, size = [], 0
    for line in itertools.islice(lines, SAMPLE_LINES):
        sample.append(line)
        size += len(line)
        if size > SAMPLE_SIZE:
            break
    return sample


def _noted(lines: Iterator[str], row: list[str]) -> Iterator[str]:
    """Give the lines, and note each in ``row``."""
    for line in lines:
        row.append(line)
        yield line


def _holds_bare_nul(lines: Iterable[str]) -> bool:
    """Find a NUL outside quotes, the sign of no text; in quotes ``writers`` may have written it."""
    row = "".join(lines)
    return "\0" in row and "\0" in _QUOTED.sub("", row)

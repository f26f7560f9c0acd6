"""Delimited text as rows. The csv module reads it, in the dialect of its first lines."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager

from index.errors import UnreadableSource
from index.loading.dialect import (
    NO_DELIMITER,
    SAMPLE_LINES,
    SAMPLE_SIZE,
    find_dialect,
    header_below,
    is_header,
)
from index.loading.options import LoadOptions
from index.loading.rows import Reader, Row
from index.loading.sources import Source
from index.loading.text import LONGEST_LINE, bounded_lines, find_encoding, open_text

_LINE_BREAK = re.compile(r"\s*[\r\n]\s*")  # as spreadsheets have them in names
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


class CsvReader(Reader):
    """Delimited text; the csv module reads it, in the dialect of its first lines."""

    textual = True

    def __init__(self, source: Source, options: LoadOptions, *, tabs: bool = False) -> None:
        self._source = source
        self._encoding = find_encoding(source, options)
        with self._lines() as lines:
            sample = _sample(lines)
            more = next(lines, None) is not None
        wanted = options.delimiter or ("\t" if tabs else None)
        self._dialect = find_dialect(sample, cut=more, wanted=wanted)
        self.names: list[str] = []
        self._header = False
        first = list(itertools.islice(self._rows(), 2))
        if first:
            line, cells, fault = first[0]
            if fault:
                raise UnreadableSource(f"{source.name}: line {line}: {fault}")
            second = first[1][1] if len(first) > 1 else None
            self._take_header(cells, second, options.header)
            unsure = options.header is None and not self._header
            if unsure and (below := header_below(sample, self._dialect)):
                raise UnreadableSource(
                    f"{source.name}: line {below} seems to name the columns; delete the lines "
                    "above it, or say that there is no header"
                )
        delimiter = self._dialect.delimiter
        self.delimiter = None if delimiter == NO_DELIMITER else delimiter
        self.detected = {
            "delimiter": self.delimiter or "none",
            "header": "yes" if self._header else "no",
            "encoding": self._encoding,
        }

    def _take_header(self, cells: list[str], second: list[str] | None, wanted: bool | None) -> None:
        self._header = is_header(cells, second) if wanted is None else wanted
        places = [f"column {place}" for place in range(1, len(cells) + 1)]
        given = [_LINE_BREAK.sub(" ", cell.strip()) if self._header else "" for cell in cells]
        self.names = [name or place for name, place in zip(given, places, strict=True)]
        self.unnamed = [place for name, place in zip(given, places, strict=True) if not name]

    @contextmanager
    def _lines(self) -> Iterator[Iterator[str]]:
        with open_text(self._source, self._encoding) as text:
            yield bounded_lines(text, self._source.name)

    def _rows(self) -> Iterator[tuple[int, list[str], str | None]]:
        """Line, cells and fault of every row that is not blank, the header among them."""
        # The limit is the process's; it is only ever raised, and a line is bounded already.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        with self._lines() as lines:
            skipped = self._dialect.skipped
            watched = _Watched(itertools.islice(lines, skipped, None))
            rows = self._dialect.rows(watched)
            while True:
                line = skipped + rows.line_num + 1
                watched.row.clear()
                try:
                    cells = next(rows, None)
                except csv.Error as error:
                    yield (line, [], self._csv_fault(error, line, skipped + rows.line_num))
                    continue
                if cells is None:
                    return
                if watched.has_bare_nul():
                    yield line, [], "the line holds a NUL character outside quotes"
                elif any(cells) and (len(cells) > 1 or not cells[0].isspace()):
                    yield line, cells, None

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
        width = len(names)
        for line, cells, fault in itertools.islice(self._rows(), int(self._header), None):
            if fault:
                yield Row(line, {}, fault)
            elif len(cells) == width or (len(cells) > width and not any(cells[width:])):
                yield Row(line, dict(zip(names, cells, strict=False)))
            else:
                yield Row(line, {}, self._ragged(len(cells)))

    def _ragged(self, cells: int) -> str:
        first = "the header" if self._header else "the first row"
        between = f"delimiter {self.delimiter!r}" if self.delimiter else "no delimiter"
        return f"{_count(cells, 'cell')}, where {first} has {len(self.names)} ({between})"


def _sample(lines: Iterator[str]) -> list[str]:
    sample, size = [], 0
    for line in itertools.islice(lines, SAMPLE_LINES):
        sample.append(line)
        size += len(line)
        if size > SAMPLE_SIZE:
            break
    return sample


class _Watched:
    """Lines as they come, with those of the row that is being read.

    A NUL in quotes is part of a text, and what ``writers`` makes of one; any other is a sign of a
    file that is no text.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.row: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.row.append(line)
        return line

    def has_bare_nul(self) -> bool:
        row = "".join(self.row)
        return "\0" in row and "\0" in _QUOTED.sub("", row)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

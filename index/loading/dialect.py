"""Delimiter, quoting and header of a CSV file, from its first lines.

A delimiter that cuts all of those lines into equally many cells, when it is the only one, needs
no guess. Where several do, or none, ``clevercsv`` decides (van den Burg, Nazábal and Sutton 2019,
"Wrangling messy CSV files by detecting row and type patterns"): it knows that a;1,5 is no pair
of a;1 and 5.
"""

from __future__ import annotations

import csv
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from index.loading.infer import Profile
from index.loading.units import unit_apart

# The rarer it is in prose and numbers, the earlier: so are ties broken.
DELIMITERS = ("\t", "|", ";", ",")
NO_DELIMITER = "\U0010ffff"  # no character: of a file of one column, whose cells may hold commas
SAMPLE_LINES, SAMPLE_SIZE = 100, 1 << 16  # lines, characters

# Columns that hold keys, the surest first; compared without case and accents.
KEY_NAMES = (
    *("key", "keys", "clave", "claves", "llave", "llaves"),
    *("palabra", "word", "termino", "term", "texto", "text", "nombre", "name"),
    *("pregunta", "question", "consulta", "query", "frase", "phrase", "utterance"),
    *("titulo", "title", "concepto", "concept", "producto", "product", "articulo", "item"),
)
ID_NAMES = ("id", "codigo", "code")  # keys only where no other column has text

_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t|])"?\s*', re.IGNORECASE)


class CsvRows(Protocol):
    """What csv.reader makes, whose class has no public name."""

    line_num: int  # lines read so far

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written; ``skipped`` lines stand before its first row."""

    delimiter: str = ","
    quoting: bool = True
    escape: str | None = None
    skip_blank: bool = False
    skipped: int = 0

    def rows(self, lines: Iterable[str]) -> CsvRows:
        """The csv module's reader, strict: a stray quote is a fault, not part of a cell."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quoting else csv.QUOTE_NONE,
            escapechar=self.escape,
            skipinitialspace=self.skip_blank,
            strict=True,
        )


def find_dialect(sample: Sequence[str], *, cut: bool, wanted: str | None) -> Dialect:
    """Find the dialect of a file's first lines; ``cut``: there are more after them."""
    separator = _SEPARATOR_LINE.fullmatch(sample[0]) if sample else None
    if separator:  # what spreadsheets write to tell each other
        wanted, sample = wanted or separator[1], sample[1:]
    delimiters = (wanted,) if wanted else DELIMITERS
    standard = Dialect(skipped=1 if separator else 0)
    variants = [standard]
    if any('\\"' in line for line in sample):
        variants.append(replace(standard, escape="\\"))
    if any("\t" in line for line in sample):  # files of tabs seldom know quotes
        variants.append(replace(standard, quoting=False))
    for variant in variants:
        tabs_only = [d for d in delimiters if variant.quoting or d == "\t"]
        fits = [_Fit(replace(variant, delimiter=d), sample, cut) for d in tabs_only]
        even = [fit for fit in fits if fit.even]
        if even:
            return _best(even, sample).settled()
    fits = [_Fit(replace(standard, delimiter=d), sample, cut) for d in delimiters]
    if wanted:
        return fits[0].settled()
    splitting = [fit for fit in fits if fit.splits]
    if not splitting:
        return replace(standard, delimiter=NO_DELIMITER)
    return _best(splitting, sample).settled()


class _Fit:
    """How a dialect reads the sample."""

    def __init__(self, dialect: Dialect, sample: Sequence[str], cut: bool) -> None:
        self.dialect = dialect
        self.rows: list[list[str]] = []
        faults = 0
        rows = dialect.rows(sample)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                faults += not (cut and "unexpected end" in str(error))
                continue
            if row is None:
                break
            if any(row):
                self.rows.append(row)
        self.splits = bool(self.rows) and len(self.rows[0]) > 1
        self.even = self.splits and not faults and len({len(row) for row in self.rows}) == 1

    def settled(self) -> Dialect:
        """The dialect, with blanks after delimiters dropped where all have one ("a, b")."""
        return replace(self.dialect, skip_blank=self.blanks == {True})

    @property
    def blanks(self) -> set[bool]:
        """Whether cells after the first begin with a blank: all, none, or some, as in prose."""
        return {cell.startswith(" ") for row in self.rows for cell in row[1:] if cell}


def _best(fits: Sequence[_Fit], sample: Sequence[str]) -> _Fit:
    fits = [fit for fit in fits if True not in fit.blanks] or fits  # not ", " in prose
    if len(fits) > 1:
        guess = _guess(sample, [fit.dialect.delimiter for fit in fits])
        return next((fit for fit in fits if fit.dialect.delimiter == guess), fits[0])
    return fits[0]


def _guess(sample: Sequence[str], delimiters: Sequence[str]) -> str | None:
    import clevercsv  # here: it costs time, and most files do without it

    text = "".join(itertools.islice(sample, 50))[: SAMPLE_SIZE // 4]
    try:
        found = clevercsv.Detector().detect(text, delimiters=list(delimiters))
    except Exception:  # a guess that fails is no guess: the first candidate is tried
        return None
    return found.delimiter if found and found.delimiter in delimiters else None


def is_header(first: Sequence[str], second: Sequence[str] | None) -> bool:
    """Say whether the first row names columns, by what it and the second one hold.

    One that names a known key column does. Else it does unless it holds a number, a vector, an
    empty or a repeated cell, has one cell only (a list of words) or is the only row. Years that
    follow one another are names, though. The first cell may be empty, as over the index of a data
    frame, and the last ones may, where they are in the second row too.
    """
    cells = [cell.strip() for cell in first]
    if _names_keys(cells):
        return True
    if second is None:
        return False
    while cells and not cells[-1] and not "".join(second[len(cells) - 1 :]).strip():
        cells.pop()
    if len(cells) < 2:
        return False
    if len(set(cells)) < len(cells):  # names even so, where one stands over a number
        return all(map(_is_name, cells)) and any(cell and not _is_name(cell) for cell in second)
    if not _is_name(cells[0]) and (cells[0] or not "".join(second[:1]).strip()):
        return False
    return all(map(_is_name, cells[1:])) or _are_years(cells[1:])


def header_below(sample: Sequence[str], dialect: Dialect) -> int | None:
    """Give the line that names columns below titles, which fill no more than their first cell.

    It is sure where all of its cells are names, and one of them stands over a number or is that of
    a column of keys. Below the table there may be notes, as there are titles above it.
    """
    own = dialect.delimiter
    for delimiter in DELIMITERS if own == NO_DELIMITER else (own,):
        rows = replace(dialect, delimiter=delimiter).rows(sample[dialect.skipped :])
        table: list[list[str]] = []
        line = titles = 0
        with suppress(csv.Error):  # goes by what it could read
            for row in rows:
                if table or any(map(str.strip, row[1:])):
                    line = line or dialect.skipped + rows.line_num
                    table += [row] if any(map(str.strip, row)) else []
                else:
                    titles += any(map(str.strip, row))
        while table and not any(map(str.strip, table[-1][1:])):
            table.pop()
        if not titles or len(table) < 2 or len({len(row) for row in table}) > 1:
            continue
        width = max(place for place, cell in enumerate(table[0], 1) if cell.strip())
        names, below = table[0][:width], table[1][:width]
        sure = any(cell.strip() and not _is_name(cell) for cell in below) or _names_keys(names)
        if sure and all(_is_name(cell) and cell[0] != " " for cell in names):
            return line
    return None


def _are_years(cells: Sequence[str]) -> bool:
    years = [unit_apart(cell)[0] for cell in cells]  # 2019 USD is one, too
    if len(years) < 2 or not all(map(_YEAR.fullmatch, years)):
        return False
    return {int(a) - int(b) for a, b in itertools.pairwise(years)} in ({1}, {-1})


def _names_keys(cells: Iterable[str]) -> bool:
    return any(fold(cell) in (*KEY_NAMES, *ID_NAMES) for cell in cells)


def _is_name(cell: str) -> bool:
    return Profile().spelling(cell) in ("label", "mark")


def fold(name: str) -> str:
    """Take case, accents and blanks around it off a name."""
    letters = unicodedata.normalize("NFKD", name.strip().casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))

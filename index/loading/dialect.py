"""Delimiter and quoting of a CSV file, from its first lines.

A delimiter that cuts all of those lines into equally many cells, when it is the only one, needs
no guess. Where several do, or none, ``clevercsv`` decides (van den Burg, Nazábal and Sutton 2019,
"Wrangling messy CSV files by detecting row and type patterns"): it knows that a;1,5 is no pair
of a;1 and 5.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from index.loading.text import LONGEST_LINE

if TYPE_CHECKING:
    from _csv import Reader  # what csv.reader makes, whose class has no public name

# The rarer it is in prose and numbers, the earlier: so are ties broken.
DELIMITERS = ("\t", "|", ";", ",")
NO_DELIMITER = "\U0010ffff"  # no character: of a file of one column, whose cells may hold commas
SAMPLE_LINES, SAMPLE_SIZE = 100, 1 << 16  # lines, characters

_RULE = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?")  # under Markdown's header
_BACKSLASH = re.compile(r"\\(?!\|)")
_LONG_WORD = re.compile(r"([\w.-]{100})[\w.-]+")
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t|])"?\s*', re.IGNORECASE)


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written; ``skipped`` lines stand before its first row."""

    delimiter: str = ","
    quoting: bool = True
    escape: str | None = None
    skip_blank: bool = False
    skipped: int = 0
    markdown: bool = False  # under the header it has a rule

    def rows(self, lines: Iterable[str]) -> Reader:
        """The csv module's reader, strict: a stray quote is a fault, not part of a cell."""
        # The limit is the process's; it is only ever raised, and a line is bounded already.
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
        return csv.reader(
            _unruled(lines) if self.markdown else lines,
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
    if "|" in delimiters and _is_markdown(sample):
        return replace(standard, delimiter="|", quoting=False, escape="\\", markdown=True)
    tries = (
        [_Fit(dialect, sample, cut) for dialect in dialects]
        for dialects in _candidates(standard, delimiters, sample)
    )
    plain = next(tries)
    for fits in itertools.chain([plain], tries):
        even = [fit for fit in fits if fit.even]
        if even and all(fit.splits_decimals for fit in even):
            even = [fit for fit in fits if fit.settles and not fit.splits] or even
        if even:
            return _best(even, sample)
    written = any(map(str.strip, sample))
    if empty := [fit for fit in plain if written and not fit.rows and not fit.faults]:
        return empty[0].dialect  # by which no cell holds anything
    if not (wanted or any(fit.splits or fit.is_below_titles for fit in plain)):
        return replace(standard, delimiter=NO_DELIMITER)
    return _best([fit for fit in plain if wanted or fit.splits or fit.settles], sample)


def ruled_line(sample: Iterable[str]) -> tuple[int, list[str]] | None:
    """Give the line over the first rule of a table of Markdown, and what is written above it."""
    filled = [(number, line.strip()) for number, line in enumerate(sample, 1) if line.strip()]
    for above, ((number, header), (_, rule)) in enumerate(itertools.pairwise(filled)):
        if "|" in header and "|" in rule and _RULE.fullmatch(rule):
            return number, [line for _, line in filled[:above]]
    return None


def _is_markdown(sample: Sequence[str]) -> bool:
    found = ruled_line(sample)
    return found is not None and not found[1]


def _unruled(lines: Iterable[str]) -> Iterator[str]:
    """Give what the lines of Markdown hold between their outer pipes, and none for the rule.

    A backslash of Markdown is itself but before a pipe, which is then a part of the cell.
    """
    filled = 0
    for line in lines:
        filled += bool(line.strip())
        inner = line.strip().removeprefix("|")
        inner = inner if inner.endswith("\\|") else inner.removesuffix("|")
        yield "\n" if filled == 2 else _BACKSLASH.sub(r"\\\\", inner) + "\n"


def _candidates(
    standard: Dialect, delimiters: Sequence[str], sample: Sequence[str]
) -> Iterator[list[Dialect]]:
    """Give the dialects to try, plain ones first; those alike but for the delimiter together."""
    yield [replace(standard, delimiter=d) for d in delimiters]
    if any('\\"' in line for line in sample):
        yield [replace(standard, delimiter=d, escape="\\") for d in delimiters]
    if "\t" in delimiters:  # files of tabs seldom know quotes
        yield [replace(standard, delimiter="\t", quoting=False)]


class _Fit:
    """How a dialect reads the sample."""

    def __init__(self, dialect: Dialect, sample: Sequence[str], cut: bool) -> None:
        self.dialect = dialect
        self.rows: list[list[str]] = []
        self.faults = 0
        rows = dialect.rows(sample)
        row: list[str] | None = []
        while row is not None:
            try:
                row = next(rows, None)
            except csv.Error as error:
                self.faults += not (cut and "unexpected end" in str(error))
            else:
                self.rows += [row] if row and any(row) else []

    @property
    def splits(self) -> bool:
        return bool(self.rows) and len(self.rows[0]) > 1

    @property
    def settles(self) -> bool:
        """Whether most rows have equally many cells, several, and the others one, as titles do."""
        several = [len(row) for row in self.rows if len(row) > 1]
        return not self.faults and len(set(several)) == 1 and 2 * len(several) > len(self.rows)

    @property
    def is_below_titles(self) -> bool:
        """Whether it settles on what hardly stands in phrases: tabs, or two ; or | and no blank."""
        several = max(map(len, self.rows), default=0) > 2 and True not in self.blanks
        found = self.dialect.delimiter
        indented = not any(row[0].strip() for row in self.rows if row[1:])  # under headings
        return self.settles and not indented and (found == "\t" or (several and found in "|;"))

    @property
    def even(self) -> bool:
        """Whether all rows can be read and have equally many cells, several of them."""
        return self.splits and not self.faults and len({len(row) for row in self.rows}) == 1

    @property
    def splits_decimals(self) -> bool:
        """Whether it splits a title in prose, and below it each row between two digits only."""
        title, *rows = self.rows
        pairs = [pair for row in rows for pair in itertools.pairwise(row)]
        prose = all(cell.startswith(" ") for cell in title[1:])
        return prose and all(a[-1:].isdigit() and b[:1].isdigit() for a, b in pairs)

    @property
    def blanks(self) -> set[bool]:
        """Whether cells after the first begin with a blank: all, none, or some, as in prose."""
        return {cell.startswith(" ") for row in self.rows for cell in row[1:] if cell}


def _best(fits: Sequence[_Fit], sample: Sequence[str]) -> Dialect:
    """Choose a dialect; it drops blanks after delimiters where all cells have one ("a, b")."""
    if all(fit.splits for fit in fits):  # not ", " in prose, which a title is as well as a header
        fits = [fit for fit in fits if True not in fit.blanks] or fits
    best = fits[0]
    if len(fits) > 1:
        guess = _guess(sample, [fit.dialect.delimiter for fit in fits])
        best = next((fit for fit in fits if fit.dialect.delimiter == guess), best)
    return replace(best.dialect, skip_blank=best.blanks == {True})


def _guess(sample: Sequence[str], delimiters: Sequence[str]) -> str | None:
    import clevercsv  # here: it costs time, and most files do without it

    text = "".join(itertools.islice(sample, 50))[: SAMPLE_SIZE // 4]
    text = _LONG_WORD.sub(r"\1", text)  # its patterns take seconds over a word of thousands
    try:
        found = clevercsv.Detector().detect(text, delimiters=list(delimiters))
    except Exception:  # a guess that fails is no guess: the first candidate is tried
        return None
    return found.delimiter if found and found.delimiter in delimiters else None

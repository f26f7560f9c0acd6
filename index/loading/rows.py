"""What every reader gives: rows of named cells, with the line on which each starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from index.errors import UnreadableSource

MOST_COLUMNS = 1_000

# Columns of what has no name, as in JSON's {key: value} and [key, value].
KEYED, BARE = "\0key", "\0value"


class Row(NamedTuple):
    """A row's cells by column, or what is wrong with it.

    ``line`` counts from 1, and so does ``entry``, in formats where a line may hold many.
    """

    line: int
    cells: Mapping[str, object]
    fault: str | None = None
    entry: int | None = None


class Reader(ABC):
    """Rows of a file, from its start each time it is iterated.

    A row that has no cells to give comes with its fault instead; what makes the whole file
    unreadable raises UnreadableSource.
    """

    textual = False  # cells are strings that spell values
    place = "on line"  # how a row's number is told
    names: Sequence[str] = ()  # columns that are known before any row is read
    unnamed: Collection[str] = ()  # columns whose names the file did not give
    left_out: Collection[str] = ()  # columns that are not read because they are to be skipped
    delimiter: str | None = None
    may_be_empty = False  # it says what every column is, as an export of no entries does
    key: str | None = None  # the key column and the types that the file itself declares
    types: Mapping[str, str] = {}
    attributes: Collection[str] = ()  # columns that the file declares to be some
    units: Mapping[str, str] = {}  # of numbers, that the file declares
    widths: Mapping[str, int] = {}  # of vectors, that it declares
    detected: Mapping[str, str] = {}

    @abstractmethod
    def __iter__(self) -> Iterator[Row]: ...


def check_width(columns: Collection[object], source: str) -> None:
    """Refuse more columns than are any use, before each of them is looked at."""
    if len(columns) > MOST_COLUMNS:
        raise UnreadableSource(
            f"{source} has more than {MOST_COLUMNS:,} columns; "
            "are its rows and columns the wrong way round?"
        )

"""What a caller may say about a file; everything left out is detected."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from index.errors import Fault, InvalidRequest
from index.loading.numerals import Style
from index.naming import LONGEST_KEY, TWICE, column_name, repeated_names

Format = Literal["csv", "tsv", "json", "jsonl", "parquet"]
OnError = Literal["stop", "skip"]
Duplicates = Literal["error", "first", "last", "mean"]
# What an option has to be, before it can be looked at.
KINDS: dict[str, tuple[Any, str]] = {
    "key": (str | None, "the name of a column"),
    "columns": (Mapping, 'types by column: {"price": "number"}'),
    "attributes": (list | tuple | set | frozenset, "a list of columns"),
    "missing": (list | tuple | set | frozenset, "a list of texts"),
    "delimiter": (str | None, "one character such as , or ;"),
    "header": (bool | None, "True or False"),
    "encoding": (str | None, "the name of one, such as utf-8"),
    "decimal": (str | None, "point or comma"),
    "max_rows": (int | None, "a whole number"),
    "max_unpacked": (int | None, "a whole number"),
    "max_key_length": (int, "a whole number"),
}
COLUMN_CHOICES = ("number", "vector", "category", "text", "skip")
# Said of a column that cannot be read.
LEAVE_OUT = "leave it out with the type 'skip' in the option columns"


@dataclass(frozen=True)
class LoadOptions:
    """How to read a table.

    Parameters
    ----------
    format : str, optional
        csv, tsv, json, jsonl or parquet; by file name and content, if left out.
    key : str, optional
        The column that holds the keys. In a file without header: ``column 1``, ``column 2``…
    columns : mapping of str to str
        Type of a column where the inferred one will not do: number, vector, category or text;
        ``skip`` leaves it out. Without a header ``column 2`` is one, as it is for ``key``.
    attributes : tuple of str
        Columns to filter by with ``where``: kept, and never blended.
    delimiter, header, encoding : optional
        Of text formats; detected if left out.
    decimal : "point" or "comma", optional
        What stands before the decimals of numbers that are spelled; by column, from how they
        look, if left out.
    missing : tuple of str
        Cells that say that there is no value, beside those known for it: ``consultar`` or ``n.v.``.
    on_error : "stop" or "skip"
        Whether a bad row stops the load or is left out and reported.
    duplicates : "error", "first", "last" or "mean"
        What becomes of a key that comes again: a bad row, or one entry at the place of its first
        appearance with its first values, its last values, or the means of its numbers and vectors
        and its most frequent labels.
    max_rows : int, optional
        Refuse a table of more rows.
    max_unpacked : int, optional
        Refuse a Parquet file that unpacks to more: the characters of its texts, and one for each
        other cell and for each component of a list. One of a few bytes may hold gigabytes.
    max_key_length : int
        In characters; 10,000 at most.
    """

    format: str | None = None
    key: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    encoding: str | None = None
    decimal: Style | None = None
    missing: tuple[str, ...] = ()
    on_error: OnError = "stop"
    duplicates: Duplicates = "error"
    max_rows: int | None = None
    max_unpacked: int | None = None
    max_key_length: int = LONGEST_KEY

    def __post_init__(self) -> None:
        """Name columns as they are typed; what is none is left for ``check``."""
        named: dict[str, object] = {"key": column_name(self.key)}
        if isinstance(self.columns, Mapping):
            columns = {column_name(name): type_ for name, type_ in self.columns.items()}
            named["columns"] = columns if len(columns) == len(self.columns) else self.columns
        if isinstance(self.attributes, KINDS["attributes"][0]):
            named["attributes"] = tuple(map(column_name, self.attributes))
        for option, given in named.items():
            object.__setattr__(self, option, given)

    def renamed(self, names: Mapping[str, str]) -> LoadOptions:
        """Speak of columns by the names that they were given here."""
        columns = {names.get(name, name): type_ for name, type_ in self.columns.items()}
        attributes = tuple(names.get(name, name) for name in self.attributes)
        return replace(self, columns=columns, attributes=attributes)

    def check(self) -> None:
        """Raise InvalidRequest with every option that cannot be."""
        faults = list(self._faults())
        if faults:
            raise InvalidRequest(*faults)

    def _faults(self) -> Iterator[Fault]:
        wrong = [name for name in KINDS if not isinstance(getattr(self, name), KINDS[name][0])]
        if wrong:
            yield from (Fault(name, f"write {KINDS[name][1]}") for name in wrong)
            return
        choices = {
            "format": (self.format, (None, *get_args(Format))),
            "decimal": (self.decimal, (None, *get_args(Style))),
            "on_error": (self.on_error, get_args(OnError)),
            "duplicates": (self.duplicates, get_args(Duplicates)),
        }
        for where, (given, allowed) in choices.items():
            if given not in allowed:
                names = ", ".join(name for name in allowed if name)
                yield Fault(where, f"{given!r} is none of: {names}")
        for name in repeated_names(map(column_name, self.columns)):
            yield Fault("columns", f"{name!r} is {TWICE}")
        types = ", ".join(COLUMN_CHOICES)
        for name, wanted in self.columns.items():
            if not isinstance(name, str):
                yield Fault("columns", f"{name!r} is no column's name")
            elif wanted not in COLUMN_CHOICES:
                yield Fault("columns", f"{name!r}: {wanted!r} is none of: {types}")
        for name in self.attributes:
            if not isinstance(name, str):
                yield Fault("attributes", f"write {KINDS['attributes'][1]}; {name!r} is none")
            elif self.columns.get(name) == "skip":
                yield Fault("attributes", f"{name!r} is to be skipped; it cannot be one")
        if not all(isinstance(text, str) for text in self.missing):
            yield Fault("missing", f"write {KINDS['missing'][1]}")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            yield Fault("delimiter", f"{self.delimiter!r} is not one character such as , or ;")
        if self.encoding is not None and not _is_text_encoding(self.encoding):
            yield Fault("encoding", f"{self.encoding!r} is no encoding; utf-8, cp1252… are")
        for where in ("max_rows", "max_unpacked", "max_key_length"):
            number = getattr(self, where)
            if isinstance(number, bool):
                yield Fault(where, f"write {KINDS[where][1]}")
            elif number is not None and number < 1:
                yield Fault(where, f"{number} is less than 1")
        if self.max_key_length > LONGEST_KEY:
            yield Fault("max_key_length", f"write {LONGEST_KEY} at most: no key is longer")


def _is_text_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)  # which knows no "locale", as io does
        io.TextIOWrapper(io.BytesIO(), encoding=name)
    except (LookupError, ValueError):
        return False
    return True

"""Which column holds the keys, and what the others are called and hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from index.answers import Column, ColumnType, Value
from index.errors import Fault, InvalidRequest, UnreadableSource
from index.loading.cast import caster
from index.loading.dialect import ID_NAMES, KEY_NAMES, fold
from index.loading.infer import Inference
from index.loading.numerals import Style
from index.loading.options import LoadOptions
from index.loading.rows import KEYED, Reader
from index.naming import is_column_name, repeated_names
from index.wording import shown


@dataclass(frozen=True)
class Layout:
    """Where the key and each value column come from, and how their cells are typed."""

    key_source: str
    key_column: str
    columns: tuple[Column, ...]
    casts: tuple[tuple[str, Callable[[object], Value]], ...]  # column of the source, cast
    decimal: Style | None  # the one style of the columns of numbers


def lay_out(
    reader: Reader,
    inference: Inference,
    options: LoadOptions,
    expected: Sequence[Column],
    source: str,
) -> Layout:
    """Settle the columns from what the caller wants, the file declares and its cells show."""
    for name in reader.names:  # those of a file without one good row
        inference.add({name: None})
    _check_names(reader, inference.profiles, source)
    if not inference.profiles:  # no row has a cell: what is wrong with each is told later
        return Layout(KEYED, "key", (), (), None)
    inferred = inference.columns()
    known = {column.name: column for column in expected}
    wanted = dict(options.columns)
    types: dict[str, str] = {name: column.type for name, (column, _) in inferred.items()}
    types |= {name: type_ for name, type_ in reader.types.items() if name in types}
    types |= {name: column.type for name, column in known.items() if name in types}
    types |= {name: type_ for name, type_ in wanted.items() if name in types}
    unused = [name for name in types if types[name] == "skip" or _is_blank(name, reader, inference)]
    present = {name: type_ for name, type_ in types.items() if name not in unused}
    key_source = _choose_key(present, reader, options, known)
    sources = [name for name in present if name != key_source]
    key_column, names = _name(key_source, sources, reader, expected)
    _check_wanted(wanted, [*names, *unused, *reader.left_out], key_column)
    attributes = _attributes(options, reader, names, key_column, known)

    columns, casts, styles = [], [], set()
    for source_name, name in zip(sources, names, strict=True):
        profile, style = inference.profiles[source_name], inferred[source_name][1]
        type_ = wanted.get(name) or (known[name].type if name in known else types[source_name])
        if type_ == "skip":  # by the name it was given here
            continue
        width = profile.width() if type_ == "vector" else None
        declared = reader.units.get(source_name)
        unit = declared or profile.unit() if type_ == "number" else None
        if name in known and known[name].type == type_:
            width, unit = known[name].width, known[name].unit
        column = Column(name, cast(ColumnType, type_), width, name in attributes, unit)
        columns.append(column)
        cast_cell = caster(column, style, textual=reader.textual, unit=declared)
        casts.append((source_name, cast_cell))
        if type_ == "number" and reader.textual:
            styles.add(style)
    decimal = styles.pop() if len(styles) == 1 else None
    return Layout(key_source, key_column, tuple(columns), tuple(casts), decimal)


def _check_names(reader: Reader, names: Iterable[str], source: str) -> None:
    if twice := repeated_names(reader.names):
        raise UnreadableSource(f"{source}: the header names {shown(twice[0])} twice; rename one")
    for name in names:
        if name not in reader.unnamed and not is_column_name(name):
            raise UnreadableSource(f"{source}: {shown(name)} cannot be the name of a column")


def _is_blank(name: str, reader: Reader, inference: Inference) -> bool:
    """Say whether a column has neither a name of its own nor a cell, as after a last comma."""
    return name in reader.unnamed and not inference.profiles[name].cells


def _choose_key(
    types: Mapping[str, str],
    reader: Reader,
    options: LoadOptions,
    known: Mapping[str, Column],
) -> str:
    """Choose the key column: the first there is of

    the one given; the one the file declares; the surest of the known names; the first of labels
    that is no id; an id; the first of all. A dataset's column or an attribute is none of them.
    """
    if KEYED in types:
        if options.key is not None:
            raise InvalidRequest(Fault("key", "the keys of this JSON stand outside its columns"))
        return KEYED
    if options.key is not None:
        if options.key not in types:
            message = f"there is no column {options.key!r}; there are: {_listed(types)}"
            raise InvalidRequest(Fault("key", message))
        return options.key
    free = [name for name in types if name not in known and name not in options.attributes]
    if not free:
        kinds = "a value, an attribute or left out"
        message = f"every column is {kinds}, and none holds keys: {_listed(types)}"
        raise InvalidRequest(Fault("key", message))
    if reader.key in free:
        return reader.key
    folded = {fold(name): name for name in reversed(free)}
    by_name = [folded[name] for name in KEY_NAMES if name in folded]
    labels = [name for name in free if types[name] in ("category", "text")]
    no_ids = [name for name in labels if fold(name) not in ID_NAMES]
    ids = [folded[name] for name in ID_NAMES if name in folded]
    return [*by_name, *no_ids, *ids, *free][0]


def _name(
    key_source: str, sources: Sequence[str], reader: Reader, expected: Sequence[Column]
) -> tuple[str, list[str]]:
    """Name the key column and the others: as the file or the dataset does, else key, value…"""
    anonymous = bool(sources) and all(name in reader.unnamed for name in sources)
    if anonymous and len(sources) == len(expected):
        names = [column.name for column in expected]
    elif anonymous and key_source in reader.unnamed:
        several = len(sources) > 1
        names = [f"value{place}" if several else "value" for place in range(1, len(sources) + 1)]
    else:
        names = list(sources)
    if key_source not in reader.unnamed:
        return key_source, names
    return key_name(names), names


def key_name(names: Sequence[str]) -> str:
    """Name a column of keys beside columns of these names: key, entry, key 2, key 3…"""
    numbered = (f"key {number}" for number in itertools.count(2))
    return next(n for n in itertools.chain(("key", "entry"), numbered) if n not in names)


def _check_wanted(wanted: Iterable[str], names: Sequence[str], key_column: str) -> None:
    faults = []
    for name in wanted:
        if name == key_column:
            faults.append(Fault("columns", f"{name!r} holds the keys, which are text"))
        elif name not in names:
            message = f"there is no column {name!r}; there are: {_listed(names)}"
            faults.append(Fault("columns", message))
    if faults:
        raise InvalidRequest(*faults)


def _attributes(
    options: LoadOptions,
    reader: Reader,
    names: Sequence[str],
    key_column: str,
    known: Mapping[str, Column],
) -> set[str]:
    """Say which columns are attributes: those given, and those a file of ours declares.

    The columns of a dataset stay what they are.
    """
    faults = []
    for name in options.attributes:
        if name == key_column:
            faults.append(Fault("attributes", f"{name!r} holds the keys, and cannot be one"))
        elif name not in names:
            message = f"there is no column {name!r}; there are: {_listed(names)}"
            faults.append(Fault("attributes", message))
        elif name in known and not known[name].attribute:
            faults.append(Fault("attributes", f"{name!r} is a value column of this dataset"))
    if faults:
        raise InvalidRequest(*faults)
    declared = {*options.attributes, *reader.attributes} - known.keys()
    return declared | {name for name, column in known.items() if column.attribute}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name for name in names if not name.startswith("\0")) or "none"

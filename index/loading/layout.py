"""Which column holds the keys, and what the others are called and hold.

A column's *source* is what the file calls it, or its place where the file does not name it; its
*name* is what the dataset calls it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from index.answers import Column, ColumnType, Value
from index.errors import Fault, InvalidRequest, UnreadableSource
from index.loading.cast import caster, shown_value
from index.loading.header import ID_NAMES, KEY_NAMES, fold
from index.loading.infer import Cell, Inference
from index.loading.numerals import Style, read_numeral
from index.loading.options import LoadOptions
from index.loading.rows import KEYED, Reader
from index.naming import is_column_name, not_a_name, repeated_names
from index.values import EXACT
from index.wording import counted, guesses, listed, shown

_HELD = {"number": "numbers", "vector": "vectors", "category": "labels", "text": "texts"}
_NAME_IT = "name the column of keys with the option key"
_CODED_KEYS = (
    "the keys, in {!r}, are dates or codes, whose meaning says little; to ask by another column, "
    f"{_NAME_IT}"
)


@dataclass(frozen=True)
class Layout:
    """Where the key and each value column come from, and how their cells are typed."""

    key_source: str
    key_column: str
    guessed_key: bool  # it holds the keys for all that is known, and has no name that says so
    columns: tuple[Column, ...]
    casts: tuple[tuple[str, Callable[[object], Value]], ...]  # source of each column, cast
    decimal: str | None  # the style of the columns of numbers, or "mixed"
    notes: tuple[str, ...]  # on columns that some cells kept from being numbers


def lay_out(
    reader: Reader,
    inference: Inference,
    options: LoadOptions,
    expected: Sequence[Column],
    expected_key: str | None,
    file: str,
) -> Layout:
    """Settle the columns from what the caller wants, the file declares and its cells show."""
    _check_names(reader, inference.profiles, file)
    if not inference.profiles:  # no row has a cell: what is wrong with each is told later
        return Layout(KEYED, "key", False, (), (), None, ())
    evidence = _Evidence(reader, inference, options, expected)
    types = {source: evidence.type(source, source) for source in inference.profiles}
    unused = [source for source in types if types[source] == "skip" or evidence.is_blank(source)]
    present = {source: type_ for source, type_ in types.items() if source not in unused}
    rest = [*unused, *reader.left_out]
    if options.key is not None and KEYED not in present and options.key not in present:
        gone = _no_column("key", present)(options.key)
        raise InvalidRequest(gone, *_wrong_options(options, None, present, rest, evidence.known))
    key_source = _choose_key(present, reader, options, evidence, expected_key)
    sources = [source for source in present if source != key_source]
    key_column, names = _name(key_source, sources, reader, expected)
    # A column without a name in the file may be spoken of by its place, as the key's may.
    options = options.renamed(dict(zip(sources, names, strict=True)))
    if faults := _wrong_options(options, key_column, names, rest, evidence.known):
        raise InvalidRequest(*faults)
    evidence.wish(options)
    return evidence.layout(key_source, key_column, zip(sources, names, strict=True))


def _check_names(reader: Reader, names: Iterable[str], file: str) -> None:
    if twice := repeated_names(reader.names):
        raise UnreadableSource(f"{file}: the header names {shown(twice[0])} twice; rename one")
    for name in names:
        if name not in reader.unnamed and not is_column_name(name):
            raise UnreadableSource(f"{file}: {not_a_name(name)}")


class _Evidence:
    """What there is to tell a column's type by: a wish, the dataset, the file, its cells."""

    def __init__(
        self,
        reader: Reader,
        inference: Inference,
        options: LoadOptions,
        expected: Sequence[Column],
    ) -> None:
        self.known = {column.name: column for column in expected}
        self._reader, self._profiles = reader, inference.profiles
        self._inferred = inference.columns()
        self.wish(options)

    def wish(self, options: LoadOptions) -> None:
        """Take what the caller wants."""
        known = self.known.values()
        decided = {column.name: column.type for column in known if column.type != "undecided"}
        self._key, self._wanted = options.key, options.columns
        self._settled = decided | dict(self._wanted)
        self._attributes = {*options.attributes, *self._reader.attributes}

    def type(self, source: str, name: str) -> str:
        return self._settled.get(name, self._shown_type(source))

    def _shown_type(self, source: str) -> str:
        return self._reader.types.get(source, self._inferred[source][0].type)

    def rivals(self, chosen: str) -> dict[str, str]:
        """Tell what the columns are by the file alone among which this one would hold the keys.

        The dataset's own are among them but where it stands before the values, as keys do.
        """
        sources = [source for source in self._profiles if not self.is_blank(source)]
        if chosen == next(iter(self._profiles)):
            sources = [source for source in sources if source not in self.known]
        types = {source: self._shown_type(source) for source in sources}
        return types | dict.fromkeys(self._reader.left_out, "skip")  # nobody looked at those

    def is_blank(self, source: str) -> bool:
        """Say whether a column has neither a name of its own nor a cell, as after a last comma."""
        filled = source == KEYED or self._profiles[source].cells  # pairs say that they have keys
        return source in self._reader.unnamed and not filled

    def column(self, source: str, name: str) -> Column:
        """Make the column; one of the dataset stays what it is, unless another type is wanted."""
        known, type_ = self.known.get(name), cast(ColumnType, self.type(source, name))
        if known and known.type == type_:
            return known
        column = self._profiles[source].column(name, type_)
        if type_ == "vector" and column.width is None:
            column = replace(column, width=self._reader.widths.get(source))
        unit = self._reader.units.get(source) if type_ == "number" else None
        attribute = known.attribute if known else name in self._attributes
        return replace(column, attribute=attribute, unit=unit or column.unit)

    def layout(
        self, key_source: str, key_column: str, sources: Iterable[tuple[str, str]]
    ) -> Layout:
        """Make the layout of the columns with these sources and names, but for those to skip."""
        columns, casts = [], []
        styles: set[Style] = set()
        notes: list[str] = []
        for source, name in sources:
            if self.type(source, name) == "skip":  # by the name that it was given here
                continue
            column, style = self.column(source, name), self._inferred[source][1]
            columns.append(column)
            unit, spoil = self._reader.units.get(source), name in self._wanted
            textual = self._reader.textual
            cast_cell = caster(column, style, textual=textual, unit=unit, spoil=spoil)
            casts.append((source, cast_cell))
            if style and column.type == "number" and (textual or self._profiles[source].is_spelled):
                styles.add(style)
            if name not in self._settled and source not in self._reader.types:
                notes += self._notes(source, column, style)
        if not self.known and all(column.attribute for column in columns):
            notes.append("no column holds values, so answers will name keys alone")
        decimal = "mixed" if len(styles) > 1 else next(iter(styles), None)
        said = key_source in (KEYED, self._key)
        guessed = bool(columns) and not said and fold(key_source) not in KEY_NAMES
        declared = key_source == self._reader.key and key_source not in self._reader.unnamed
        if guessed and not declared and not self.known and self._profiles[key_source].is_coded:
            pairs = zip(casts, columns, strict=True)
            labels = [source for (source, _), c in pairs if c.type in ("category", "text")]
            if not all(self._profiles[source].is_coded for source in labels):
                notes.append(_CODED_KEYS.format(key_source))
        return Layout(
            key_source, key_column, guessed, tuple(columns), tuple(casts), decimal, tuple(notes)
        )

    def _notes(self, source: str, column: Column, style: Style | None) -> Iterator[str]:
        """Say why a column is none of numbers, where it nearly is one."""
        if column.type not in ("category", "text"):
            return
        profile, place = self._profiles[source], self._reader.place
        beginning = f"{column.name!r} is {column.type}: "
        if style is None and profile.is_unclear:
            unclear = "whether its points or commas are of thousands or of decimals cannot be told"
            yield f"{beginning}{unclear}; say which with the option decimal"
        style = style or "comma"
        cells, more = profile.spoiled(style)
        if cells:
            told = _told(cells, more, place, "would be spoiled as a number", "as would")
            wanted = any(_is_exact(cell.value, style) for cell in cells)
            advice = (
                "; if numbers are wanted, name that type in the option columns" if wanted else ""
            )
            yield f"{beginning}{told}{advice}"
        cells, more = profile.strange(style)
        if cells:
            nor = "nor are" if len(cells) - 1 + more > 1 else "nor is"
            told = _told(cells, more, place, "is not a number like the others", nor)
            yield f"{beginning}{told}{self._advice(cells)}"

    def _advice(self, cells: Sequence[Cell]) -> str:
        """Say what to do about cells that are no numbers, where it is plain."""
        texts = [cell.value for cell in cells if isinstance(cell.value, str)]
        numerals = filter(None, map(read_numeral, texts))
        plain = (not numeral.unit and not numeral.is_code for numeral in numerals)
        if not self._reader.textual and any(plain):
            return "; write numbers without quotes"
        return gap_advice(texts, alone=len(cells) == 1)


def gap_advice(texts: Iterable[str], *, alone: bool = False) -> str:
    """Say what to do about texts among numbers that may say that there is none."""
    # A spreadsheet's fault may have a digit: #DIV/0!
    gaps = [shown(t) for t in texts if t.startswith("#") or not any(map(str.isdigit, t))]
    those = "it" if alone else " or ".join(gaps)
    return f"; if {those} says that there is none, name it in the option missing" if gaps else ""


def _told(cells: Sequence[Cell], more: int, place: str, words: str, nor: str) -> str:
    """Say the same of some cells, by where they stand, and of how many more."""
    first, *others = cells
    told = f"{place} {first.place}, {_spelled(first.value)} {words}"
    like = [f"{_spelled(cell.value)} {place} {cell.place}" for cell in others]
    like += [counted(more, "more cell", "more cells")] if more else []
    if not like:
        return told
    others_told = f"{', '.join(like[:-1])} and {like[-1]}" if like[1:] else like[0]
    return f"{told}, {nor} {others_told}"


def _spelled(cell: object) -> str:
    """Write a cell as the file has it."""
    return shown(cell) if isinstance(cell, str) else shown_value(cell)


def _is_exact(cell: object, style: Style) -> bool:
    """Say whether a text spells a number that can be held, if somebody wants one: 7 for 007."""
    numeral = read_numeral(cell) if isinstance(cell, str) else None
    return numeral is not None and abs(numeral.number(style)) <= EXACT


def _choose_key(
    types: Mapping[str, str],
    reader: Reader,
    options: LoadOptions,
    evidence: _Evidence,
    expected_key: str | None,
) -> str:
    """Choose the key column: the one given, the file's or the dataset's own, or the likeliest.

    A dataset's column or an attribute is no likely one.
    """
    if KEYED in types:
        if options.key is not None:
            raise InvalidRequest(Fault("key", "the keys of this JSON stand outside its columns"))
        return KEYED
    if options.key is not None:
        return options.key
    taken = {*evidence.known, *options.attributes}
    names = _own_names(list(types), taken)
    free = {n: types[n] for n, own in zip(types, names, strict=True) if own not in taken}
    if not free:
        kinds = "a value, an attribute or left out"
        message = f"every column is {kinds}, and none holds keys: {_listed(types)}"
        raise InvalidRequest(Fault("key", f"{message}{_lacking(expected_key)}"))
    alike = (name for name in free if expected_key is not None and fold(name) == fold(expected_key))
    own = (reader.key, expected_key, *alike)
    if (found := next((name for name in own if name in free), None)) is not None:
        return found
    guessed = _likeliest_key(free)
    _check_guess(guessed, evidence.rivals(guessed), options, expected_key)
    return guessed


def _lacking(expected_key: str | None) -> str:
    """Say that the file has no column of keys of the dataset's name."""
    own = f"; this dataset has them in {expected_key!r}, and the file has no such column"
    return "" if expected_key is None else own


def _check_guess(
    chosen: str, types: Mapping[str, str], options: LoadOptions, expected_key: str | None
) -> None:
    """Refuse keys that are numbers only because a likelier column is said to be something else."""
    likeliest = _likeliest_key(types)
    if likeliest == chosen or types[chosen] in ("category", "text"):
        return
    if fold(chosen) in (*KEY_NAMES, *ID_NAMES):
        return
    said = "left out" if options.columns.get(likeliest) == "skip" else "a column of values"
    said = "an attribute" if likeliest in options.attributes else said
    left = f"no column of text is left for the keys, only {chosen!r}"
    message = f"{likeliest!r} is {said}, and {left}{_lacking(expected_key)}; {_NAME_IT}"
    raise InvalidRequest(Fault("key", message))


def _likeliest_key(types: Mapping[str, str]) -> str:
    """Give the surest of the known names, else the first of labels that is no id, an id, any."""
    folded = {fold(name): name for name in reversed(list(types))}
    labels = [name for name in types if types[name] in ("category", "text")]
    candidates = itertools.chain(
        (folded[name] for name in KEY_NAMES if name in folded),
        (name for name in labels if fold(name) not in ID_NAMES),
        (folded[name] for name in ID_NAMES if name in folded),
        types,
    )
    return next(candidates)


def _name(
    key_source: str, sources: Sequence[str], reader: Reader, expected: Sequence[Column]
) -> tuple[str, list[str]]:
    """Name the key column and the others: as the file or the dataset does, else key, value…"""
    anonymous = bool(sources) and all(source in reader.unnamed for source in sources)
    if anonymous and len(sources) == len(expected):
        names = [column.name for column in expected]
    elif anonymous and key_source in reader.unnamed:
        several = len(sources) > 1
        names = [f"value{place}" if several else "value" for place in range(1, len(sources) + 1)]
    else:
        names = _own_names(sources, [column.name for column in expected])
    return key_name(names) if key_source in reader.unnamed else key_source, names


def _own_names(sources: Sequence[str], own: Collection[str]) -> list[str]:
    """Name columns as those of the dataset that are called so but for case and accents."""
    if not own:
        return list(sources)
    folded = list(map(fold, sources))
    rivals, alike = Counter(folded), Counter(map(fold, own))
    known = {fold(name): name for name in own}
    return [
        known[name] if rivals[name] == alike[name] == 1 else source
        for source, name in zip(sources, folded, strict=True)
    ]


def key_name(names: Collection[str]) -> str:
    """Name a column of keys beside columns of these names: key, entry, key 2, key 3…"""
    numbered = (f"key {number}" for number in itertools.count(2))
    return next(n for n in itertools.chain(("key", "entry"), numbered) if n not in names)


def _wrong_options(
    options: LoadOptions,
    key_column: str | None,
    names: Iterable[str],
    unused: Sequence[str],
    known: Mapping[str, Column],
) -> list[Fault]:
    """Name the options that speak of columns which are not there, or are something else."""
    faults = []
    own = dict.fromkeys(names)
    for where, given, there in (
        ("columns", options.columns, own | dict.fromkeys(unused)),
        ("attributes", options.attributes, own),
    ):
        no_column = _no_column(where, there)
        for name in given:
            if name == key_column:
                said = f"{name!r} holds the keys, which are text; if it does not, {_NAME_IT}"
                faults.append(Fault(where, said))
            elif name not in there:
                faults.append(no_column(name))
    for name in options.attributes:
        if name in known and not known[name].attribute:
            faults.append(Fault("attributes", f"{name!r} is a value column of this dataset"))
    for name, wanted in options.columns.items():
        if name in known and not _can_turn(wanted, known[name].type):
            held = f"the dataset holds {name!r} as {_HELD[known[name].type]}"
            faults.append(Fault("columns", f"{held}, and the option says {wanted}"))
    return faults


def _can_turn(wanted: str, held: str) -> bool:
    """Say whether a dataset's column takes what a file has of another type: labels take numbers."""
    if wanted in ("skip", held) or held == "undecided":
        return True
    return held in ("category", "text") and wanted != "vector"


def _no_column(where: str, names: Collection[str]) -> Callable[[str], Fault]:
    """Give what says of a name in an option that no column among these has it."""
    guess, there = guesses(names), f"there are: {_listed(names)}"
    return lambda name: Fault(where, f"there is no column {name!r}; {guess(name)}{there}")


def _listed(names: Iterable[str]) -> str:
    return listed([name for name in names if not name.startswith("\0")])

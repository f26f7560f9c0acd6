"""What type a column has, from all of its cells, and how its numbers are written.

The rules, in order; "enough" is all of the cells that hold something, or 95 % of 20 or more:

1. a column with a numeral that a number would spoil (007, +34600123456, or more than 2**53) holds
   labels;
2. enough numbers make a number column, enough lists of one width a vector column (of lists that
   JSON or Parquet gives, half are enough: what they are not is labels);
3. booleans alone make a category;
4. labels that repeat make a category: at most 1,000 distinct ones of at most 100 characters, half
   as many as there are cells or fewer; all else is text.

A column of which no cell holds anything is undecided, until one does.

Text files write numbers in one of two styles, and "1.234" fits both. A column whose other cells
fit only one is read so; next the file's other columns decide, those of numbers before those of half
numbers; then the separator: spreadsheets take ";" where a comma is in the numbers. With any other,
1.234 has a fraction, and 1,234 is text. A unit tells more where commas separate nothing: 1.234 %
and 1,234 % are fractions, for no share is in thousands, and 1,234 € is thousands but beside ";",
for no price has three decimals. So 1.234 € is text, and so is a rent of 1.234 €/month, unless
something else tells: a price of thousands, or of a litre. With 1,234 €/l, that has three decimals,
and so have measures, 1,234 kg. What else there is a price for, as for a kilogram, may have either.

What may be dates or times, 24.12 and 9.30, are numbers with a point only where nothing speaks for
the comma; and where the separator alone does, they make 1.234 of another column unclear: text. What
may be addresses of computers, 192.168.178.101, or numbers of telephones, 600.123.456, are numbers
only beside what can be nothing else.

A style that is wanted (``decimal``) is that of every column.

Where half of a column's numbers have a unit (12 €, 10 %), it is the column's: the others are read
as being in it, and what has another unit is no number. Of the texts of JSON and Parquet, those with
a unit are read as in text files: for the others, either has numbers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from index.answers import Column, ColumnType
from index.loading.kinds import QUOTED, Kind, kind_of
from index.loading.numerals import CODES, EITHER, FITTING, Style
from index.loading.units import is_measure

ENOUGH_SHARE, ENOUGH_CELLS = 0.95, 20
MOST_CATEGORIES, LONGEST_CATEGORY = 1_000, 100
_OF_FILES: Mapping[str | None, Style] = {",": "point", ";": "comma"}  # separated so
_SHARES = {"%", "‰"}  # units that are no measure of anything
_GAPS = ("missing", "mark")
_NO_LABELS = (*_GAPS, "list", "other")
# Kinds that a column of codes may have: beside 08001, 28001 is one.
_OF_CODES = {quoted + name for quoted in ("", QUOTED) for name in (*CODES, "int")}
NAMED = 3  # distinct cells of a kind, which notes may name
# A date or a time, and a code: 01/02/2024, 9:30, 2024-02-01T10:30Z, 2024/02/01 9:30:00 a. m. GMT+1,
# 50-00-0, +34 600 123 456, SI-100, REF00042, 12345678Z.
_TIME = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?:[ \xa0\u202f]?[AaPp]\.?[ \xa0]?[Mm]\b\.?)?"
_ZONE = r"(?: ?[A-Z]{1,4})?(?: ?[+\-]\d\d?(?::?\d\d)?)?"
_CODED = re.compile(
    rf"[+(]?\d+(?:[ ()/.\-]+\d+){{2,}}(?:[T ]{_TIME}{_ZONE})?"
    rf"|{_TIME}|(?:19|20)\d\d-\d\d|(?=.*[A-Z])(?=(?:[^\d]*\d){{2}})[A-Z\d][A-Z\d./_\-]*",
    re.ASCII,
)


@dataclass
class Cell:
    """What a cell holds, with the line or the entry where it stands first, and how many hold it."""

    place: int
    value: object
    cells: int = 1


class Profile:
    """What the cells of one column look like, counted one by one."""

    def __init__(self) -> None:
        self.kinds: Counter[Kind] = Counter()
        self._first: defaultdict[Kind, dict[Hashable, Cell]] = defaultdict(dict)  # distinct ones
        self._labels: set[str] | None = set()  # None where they are too many for a category
        self.is_coded = True  # all that cells hold are dates, times or codes

    def add(self, cell: object, kind: Kind, place: int) -> None:
        self.kinds[kind] += 1
        if isinstance(cell, str):
            cell = cell.strip()
        if self.is_coded and kind.name != "missing":
            coded = kind.name == "label" and isinstance(cell, str) and _is_coded(cell)
            self.is_coded = coded or kind.name in _OF_CODES
        self._remember(cell, kind, place)
        if self._labels is not None and kind.name not in _NO_LABELS:
            try:
                label = cell if isinstance(cell, str) else str(cell)
            except ValueError:  # more digits than Python spells: the cast will refuse it
                self._labels = None
                return
            self._labels.add(label)
            if len(self._labels) > MOST_CATEGORIES or len(label) > LONGEST_CATEGORY:
                self._labels = None

    def _remember(self, cell: object, kind: Kind, place: int) -> None:
        first = self._first[kind]
        if isinstance(cell, str):
            cell = cell[: LONGEST_CATEGORY + 1]  # of a long text its beginning
        hashed = isinstance(cell, (str, int, float))
        same: Hashable = cell if hashed else type(cell)  # a list has no hash
        if same in first:
            first[same].cells += 1
        elif len(first) < NAMED:
            first[same] = Cell(place, cell)

    def count(self, *names: str) -> int:
        """Count the cells of some kinds."""
        return sum(cells for kind, cells in self.kinds.items() if kind.name in names)

    @property
    def cells(self) -> int:
        """Cells that hold something; marks for missing ones are something in a label column."""
        return self.kinds.total() - self.count("missing")

    @property
    def written(self) -> int:
        """Cells that hold something, where marks for missing ones are nothing."""
        return self.cells - self.count("mark")

    @property
    def is_spelled(self) -> bool:
        """Whether it has numerals that say how their numbers are written, or might."""
        return self._spelled("point", "moment", "comma", "dot_either", "comma_either") > 0

    def _spelled(self, *names: str) -> int:
        """Count the cells of some kinds of numerals, between quotes too."""
        return self.count(*names, *(QUOTED + name for name in names))

    @property
    def may_be_dates(self) -> bool:
        """Whether all that it shows of a style is a point as in dates and times: 24.12, 9.30."""
        return self._spelled("moment") > 0 and not self._spelled("point", "code_point")

    def evidence(self, delimiter: str | None) -> Style | None:
        """The style that most cells which fit only one of them are written in."""
        point = self._spelled("point", "moment", "code_point")
        comma = self._spelled("comma", "code_comma")
        if point != comma:
            return "point" if point > comma else "comma"
        if delimiter in (",", ";") or self._spelled("dot_either") or not self._are_prices("/"):
            return None
        return "point"

    def share(self, delimiter: str | None) -> Style | None:
        """The style of shares that fit both: hardly one is in thousands.

        Whatever else tells goes before, and of other columns' prices 1.250 % says nothing.
        """
        units = self._units()
        dots, commas = self._spelled("dot_either"), self._spelled("comma_either")
        if delimiter == "," or not units or units - _SHARES or (dots and commas):
            return None
        return "point" if dots else "comma"

    def _either(self) -> list[Kind]:
        names = ("dot_either", "comma_either")
        return [kind for kind in self.kinds if kind.name.removeprefix(QUOTED) in names]

    def _units(self) -> set[str]:
        """Give the units of what fits both styles."""
        return {kind.unit for kind in self._either()} - {""}

    def _are_prices(self, per: str) -> bool:
        """Say whether what fits both styles is money, and ``per`` is in none of its units."""
        units = self._units() - _SHARES
        return bool(units) and not any(is_measure(u) or per in u.casefold() for u in units)

    def style(self, others: Shown, delimiter: str | None) -> Style | None:
        """The style to read the column's numbers in; None where 1,234 may be in either."""
        own, usual = self.evidence(delimiter), _OF_FILES.get(delimiter)
        if own and not (self.may_be_dates and others.surely == "comma"):
            return own
        if others.surely or not self._either():
            return others.surely or usual or "point"
        if share := self.share(delimiter):
            return share
        if usual == "comma":
            return None if others.perhaps == "point" else usual
        unclear = self._spelled("comma_either") > 0 and usual is None
        unclear = unclear or (self._spelled("dot_either") > 0 and self._are_prices("/l"))
        return None if unclear else "point"

    def numbers(self, style: Style) -> int:
        """Count the numbers of a style that have the column's unit, or none."""
        return sum(self.kinds[kind] for kind in self._fitting(style))

    def _fitting(self, style: Style) -> list[Kind]:
        names, units = {*EITHER, "plain", *FITTING[style]}, ("", self.unit())
        if not self.count(*names - {"address"}):
            names.discard("address")
        return [kind for kind in self.kinds if kind.name in names and kind.unit in units]

    def spoiled(self, style: Style) -> tuple[Sequence[Cell], int]:
        """The first cells that a number would spoil (007), if half of the column is numbers.

        With them, how many cells more there are like those. 01.10 counts as a number, too: it may
        have been meant as one.
        """
        codes = [kind for kind in self.kinds if kind.name in ("code", f"code_{style}")]
        decimals = sum(self.kinds[kind] for kind in codes if kind.name != "code")
        return self._in_the_way(codes, self.numbers(style) + decimals)

    def strange(self, style: Style) -> tuple[Sequence[Cell], int]:
        """The first cells that are no numbers of a style, if half of the column is, and the rest.

        Neither gaps nor what a number would spoil are among them.
        """
        fitting = self._fitting(style)
        none = (*_GAPS, "code", f"code_{style}")
        others = [kind for kind in self.kinds if kind.name not in none and kind not in fitting]
        return self._in_the_way(others, self.numbers(style))

    @property
    def is_unclear(self) -> bool:
        """Whether all would be numbers if one knew what their points or commas mean: 1,234."""
        return bool(self._either()) and self.numbers("comma") == self.written

    def _in_the_way(self, kinds: Collection[Kind], numbers: int) -> tuple[Sequence[Cell], int]:
        if 2 * numbers < self.written:
            return (), 0
        cells = [cell for kind in kinds for cell in self._first[kind].values()]
        first = sorted(cells, key=attrgetter("place"))[:NAMED]
        return first, sum(self.kinds[k] for k in kinds) - sum(cell.cells for cell in first)

    def unit(self) -> str | None:
        """The unit that half of the numbers have, at least."""
        units: Counter[str] = Counter()
        for kind, cells in self.kinds.items():
            units[kind.unit] += cells
        del units[""]
        numbers = self.count(*EITHER, "plain", *FITTING["point"], *FITTING["comma"])
        return next((unit for unit, n in units.most_common(1) if 2 * n >= numbers), None)

    def width(self) -> int | None:
        """The commonest width of the column's vectors."""
        widths: Counter[int] = Counter()
        for kind, cells in self.kinds.items():
            widths[kind.width] += cells
        del widths[0]
        return next((width for width, _ in widths.most_common(1)), None)

    def type(self, style: Style | None, share: float = ENOUGH_SHARE) -> ColumnType:
        """The type of a column whose numbers are in a style, or in none that is known."""
        if not self.cells:
            return "undecided"
        written = self.written
        if style and not self.count(*CODES) and _enough(self.numbers(style), written, share):
            return "number"
        width = self.width()
        alike = (Kind("vector", width=width or 0), Kind("list", width=width or 0))
        as_wide = sum(self.kinds[kind] for kind in alike)
        if _enough(as_wide, written, share) or 2 * self.count("list") >= max(written, 1):
            return "vector"
        if self.count("boolean") == self.cells:
            return "category"
        repeat = self._labels is not None and 0 < len(self._labels) * 2 <= self.cells
        return "category" if repeat else "text"

    def column(self, name: str, type: ColumnType) -> Column:
        """Make a column of a type that has what the cells show of it."""
        width = self.width() if type == "vector" else None
        return Column(name, type, width, unit=self.unit() if type == "number" else None)


class Shown(NamedTuple):
    """The one style that a file's columns show, None where they show none or disagree."""

    surely: Style | None
    perhaps: Style | None  # by what may be dates or times


class Inference:
    """Profiles of all columns, in the order in which they appear; ``kind`` tells a cell's."""

    def __init__(
        self,
        kind: Callable[[Any], Kind],
        *,
        names: Iterable[str] = (),
        delimiter: str | None = None,
        decimal: Style | None = None,
    ) -> None:
        self.profiles = {name: Profile() for name in names}
        self._kind, self._delimiter, self._decimal = kind, delimiter, decimal

    def add(self, record: Mapping[str, object], place: int = 0) -> None:
        for name, cell in record.items():
            profile = self.profiles.get(name)
            if profile is None:
                profile = self.profiles[name] = Profile()
            profile.add(cell, self._kind(cell), place)

    def _shown(self) -> Shown:
        profiles = self.profiles.values()
        surely = self._style_of([profile for profile in profiles if not profile.may_be_dates])
        perhaps = self._style_of([profile for profile in profiles if profile.may_be_dates])
        return Shown(surely, perhaps)

    def _style_of(self, profiles: Iterable[Profile]) -> Style | None:
        """The one style that columns of numbers show, None where they disagree.

        Without such a column, that of those which are half numbers: prices, and one on request.
        """
        styled = [(p, style) for p in profiles if (style := p.evidence(self._delimiter))]
        shown = {style for profile, style in styled if profile.type(style) == "number"}
        shown = shown or {s for profile, s in styled if 2 * profile.numbers(s) >= profile.cells}
        return shown.pop() if len(shown) == 1 else None

    def columns(self, *, share: float = ENOUGH_SHARE) -> dict[str, tuple[Column, Style | None]]:
        """Type every column, with the style in which its numbers are to be read, if it is clear."""
        shown = self._shown()
        typed = {}
        for name, profile in self.profiles.items():
            style = self._decimal or profile.style(shown, self._delimiter)
            typed[name] = profile.column(name, profile.type(style, share)), style
        return typed


def infer_columns(rows: Iterable[Mapping[str, object]]) -> tuple[Column, ...]:
    """Type the columns of Python values, such as a dict's or a JSON body's.

    Unlike in a file, every value counts: one text among numbers makes a column of labels.
    """
    inference = Inference(kind_of)
    for row in rows:
        inference.add(row)
    return tuple(column for column, _ in inference.columns(share=1.0).values())


def _is_coded(label: str) -> bool:
    return len(label) <= LONGEST_CATEGORY and _CODED.fullmatch(label) is not None


def _enough(count: int, of: int, share: float) -> bool:
    return 0 < count == of or (of >= ENOUGH_CELLS and count >= share * of)

"""What type a column has, from all of its cells, and how its numbers are written.

The rules, in order; "enough" is all of the cells that hold something, or 95 % of 20 or more:

1. a column with a numeral that a number would spoil (007, +34600123456, or more than 2**53) holds
   labels;
2. enough numbers make a number column, enough lists of one width a vector column (of lists that
   JSON or Parquet gives, half are enough: what they are not is labels);
3. booleans alone make a category;
4. labels that repeat make a category: at most 1,000 distinct ones of at most 100 characters, half
   as many as there are cells or fewer; all else is text.

Text files write numbers in one of two styles, and "1.234" fits both. A column whose other cells
fit only one is read so; next the file's other columns decide, those of numbers before those of half
numbers; then 1.234 has a fraction, and 1,234 is a thousand in a file separated by commas and text
in any other. In any other, 1.234 € and 1,234 € fit one style each: no price has three decimals.

Where half of a column's numbers have a unit (12 €, 10 %), it is the column's: the others are read
as being in it, and what has another unit is no number. Of the texts of JSON and Parquet, those with
a unit are read as in text files: for the others, either has numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real

from index.answers import Column, ColumnType
from index.loading.cast import is_boolean, is_missing, is_numbers, parse_vector
from index.loading.numerals import EITHER, Style, read_numeral
from index.values import is_inexact

ENOUGH_SHARE, ENOUGH_CELLS = 0.95, 20
MOST_CATEGORIES, LONGEST_CATEGORY = 1_000, 100
_FITTING = (*EITHER, "plain")  # kinds of numbers in either style: plain are those of JSON


class Profile:
    """What the cells of one column look like, counted one by one."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.widths: Counter[int] = Counter()
        self.units: Counter[tuple[str, str]] = Counter()  # with the kind of the numeral
        self.listed = 0  # vectors that came as lists, not spelled in text
        self._distinct: set[str] | None = set()

    def add(self, cell: object, textual: bool, quoted: bool) -> None:
        kind = self.spelling(cell, textual, quoted) if isinstance(cell, str) else self._kind(cell)
        self.kinds[kind] += 1
        if self._distinct is not None and kind not in ("missing", "mark", "vector", "other"):
            try:
                label = cell if isinstance(cell, str) else str(cell)
            except ValueError:  # more digits than Python spells: the cast will refuse it
                self._distinct = None
                return
            self._distinct.add(label)
            if len(self._distinct) > MOST_CATEGORIES or len(label) > LONGEST_CATEGORY:
                self._distinct = None

    def spelling(self, cell: str, textual: bool = True, quoted: bool = False) -> str:
        """Say what a text is, and count its width or unit."""
        spelled = cell.strip()
        numeral = read_numeral(spelled) if textual or quoted else None
        if numeral and (textual or numeral.unit):
            if numeral.unit:
                self.units[numeral.unit, numeral.kind] += 1
            return numeral.kind
        if not textual:
            return "label"
        if not spelled:
            return "missing"
        if is_missing(spelled):
            return "mark"
        if vector := parse_vector(spelled):
            self.widths[len(vector)] += 1
            return "vector"
        return "label"

    def _kind(self, cell: object) -> str:
        if cell is None:
            return "missing"
        if is_boolean(cell):
            return "boolean"
        if is_inexact(cell):
            return "code"
        if isinstance(cell, Integral):
            return "int"
        if isinstance(cell, (Real, Decimal)):  # NaN too: a bad number, not a label
            return "plain"
        items = cell.tolist() if hasattr(cell, "tolist") else cell
        if is_numbers(items):
            self.widths[len(items)] += 1
            self.listed += 1
            return "vector"
        return "other"

    @property
    def cells(self) -> int:
        """Cells that hold something; marks for missing ones are something in a label column."""
        return self.kinds.total() - self.kinds["missing"]

    def evidence(self, delimiter: str | None) -> Style | None:
        """The style that most cells which fit only one of them are written in."""
        point, comma = self.kinds["point"], self.kinds["comma"]
        if point != comma:
            return "point" if point > comma else "comma"
        either = [kind for kind in ("dot_either", "comma_either") if self.kinds[kind]]
        priced = any(kind in either and unit not in "%‰" for unit, kind in self.units)
        if delimiter == "," or not priced or len(either) > 1:
            return None
        return "comma" if either == ["dot_either"] else "point"

    def style(self, file_style: Style | None, delimiter: str | None) -> tuple[Style, bool]:
        """The style to read the column's numbers in, and whether it is sure enough to infer."""
        known = self.evidence(delimiter) or file_style
        if known:
            return known, True
        if self.kinds["comma_either"]:
            return ("point", True) if delimiter == "," else ("comma", False)
        return "point", True

    def unit(self) -> str | None:
        """The unit that half of the numbers have, at least."""
        units: Counter[str] = Counter()
        for (spelled, _), cells in self.units.items():
            units[spelled] += cells
        if not units:
            return None
        ((unit, count),) = units.most_common(1)
        numbers = sum(self.kinds[kind] for kind in (*_FITTING, "point", "comma"))
        return unit if 2 * count >= numbers else None

    def numbers(self, style: Style) -> int:
        kinds, own = (*_FITTING, style), self.unit()
        others = (n for (unit, kind), n in self.units.items() if unit != own and kind in kinds)
        return sum(self.kinds[kind] for kind in kinds) - sum(others)

    def type(self, style: Style, sure: bool, *, share: float = ENOUGH_SHARE) -> ColumnType:
        written = self.cells - self.kinds["mark"]
        if sure and not self.kinds["code"] and _enough(self.numbers(style), written, share):
            return "number"
        width = self.width()
        if width and _enough(self.widths[width], written, share):
            return "vector"
        if self.listed and self.listed * 2 >= written:
            return "vector"
        if self.kinds["boolean"] == self.cells > 0:
            return "category"
        if self._distinct is not None and 0 < len(self._distinct) * 2 <= self.cells:
            return "category"
        return "text"

    def width(self) -> int | None:
        """The commonest width of the column's lists."""
        return self.widths.most_common(1)[0][0] if self.widths else None


class Inference:
    """Profiles of all columns, in the order in which they appear."""

    def __init__(
        self, *, textual: bool, quoted: bool = False, delimiter: str | None = None
    ) -> None:
        self.profiles: dict[str, Profile] = {}
        self._textual, self._quoted, self._delimiter = textual, quoted, delimiter

    def add(self, record: Mapping[str, object]) -> None:
        for name, cell in record.items():
            profile = self.profiles.get(name)
            if profile is None:
                profile = self.profiles[name] = Profile()
            profile.add(cell, self._textual, self._quoted)

    def file_style(self) -> Style | None:
        """The one style that the columns of numbers show, None where they disagree.

        Without such a column, that of those which are half numbers: prices, and one on request.
        """
        styled = [
            (profile, style)
            for profile in self.profiles.values()
            if (style := profile.evidence(self._delimiter))
        ]
        shown = {style for profile, style in styled if profile.type(style, True) == "number"}
        shown = shown or {s for profile, s in styled if 2 * profile.numbers(s) >= profile.cells}
        return shown.pop() if len(shown) == 1 else None

    def columns(self, *, share: float = ENOUGH_SHARE) -> dict[str, tuple[Column, Style]]:
        """Type every column, with the style in which its numbers are written."""
        typed = {}
        file_style = self.file_style()
        for name, profile in self.profiles.items():
            style, sure = profile.style(file_style, self._delimiter)
            kind = profile.type(style, sure, share=share)
            width = profile.width() if kind == "vector" else None
            unit = profile.unit() if kind == "number" else None
            typed[name] = Column(name, kind, width, unit=unit), style
        return typed


def infer_columns(rows: Iterable[Mapping[str, object]]) -> tuple[Column, ...]:
    """Type the columns of Python values, such as a dict's or a JSON body's.

    Unlike in a file, every value counts: one text among numbers makes a column of labels.
    """
    inference = Inference(textual=False)
    for row in rows:
        inference.add(row)
    return tuple(column for column, _ in inference.columns(share=1.0).values())


def _enough(count: int, of: int, share: float) -> bool:
    return 0 < count == of or (of >= ENOUGH_CELLS and count >= share * of)

"""The values of one key that has several rows, where they are those of no single one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from index.answers import Column, Value

Values = tuple[Value, ...]


class Mean:
    """Means of numbers and vectors, the most frequent label; missing values do not count.

    Sums are exact, of numbers as they are written: the mean of 1.2 and 1.4 is 1.3.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._counts = [0] * len(columns)
        self._sums: list[list[Fraction]] = [[] for _ in columns]
        self._labels: list[Counter[str]] = [Counter() for _ in columns]

    def add(self, values: Values) -> None:
        for place, value in enumerate(values):
            if value is None:
                continue
            self._counts[place] += 1
            if isinstance(value, str):
                self._labels[place][value] += 1
                continue
            parts = value if isinstance(value, tuple) else (value,)
            sums = self._sums[place] or [Fraction()] * len(parts)
            self._sums[place] = [a + Fraction(str(b)) for a, b in zip(sums, parts, strict=True)]

    def values(self) -> Values:
        return tuple(self._value(place, column) for place, column in enumerate(self._columns))

    def _value(self, place: int, column: Column) -> Value:
        count = self._counts[place]
        if not count:
            return None
        if column.type in ("category", "text"):
            return self._labels[place].most_common(1)[0][0]  # of ties the first
        means = tuple(float(total / count) for total in self._sums[place])
        return means if column.type == "vector" else means[0]

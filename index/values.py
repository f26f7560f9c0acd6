"""Typed value columns: how they are held in memory, and how weights blend them.

A number column is a float64 array (NaN where missing), a vector column a matrix
(NaN rows), a category or text column an array of codes into a table of the distinct
labels (-1 where missing). A key whose value is missing takes no part in its column's
blend: the weights of the others are renormalised, and ``known`` says what they held.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from heapq import nsmallest
from numbers import Integral, Real
from typing import Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from index.answers import Blend, Column, ColumnType, LabelBlend, NumberBlend, Value, VectorBlend
from index.errors import Fault, InvalidRequest
from index.naming import (
    LONGEST_UNIT,
    column_name,
    composed,
    is_column_name,
    is_unit,
    not_a_name,
    repeated_names,
)

Array = NDArray[np.float64] | NDArray[np.int32]
LARGEST = 1e150  # number: sums of the squares of millions of them are finite
EXACT = 2**53  # the integers up to here are exact in a double
LEVEL = 0.9  # share of the weight inside a number's interval
PIECE = 2**13  # components worked on at a time
LEAST = 1e-280  # sum of squares: below, some may have been lost
ROUNDED = 1e-9  # of what a mean was off by: a lesser variance is that of rounding alone
SLACK = 1 - 1e-5  # 0.2 + 0.4 + 0.3 of 1 must reach 0.9 though weights come of float32 scores
RUN = 2**10  # numbers in a run of equal or neighbouring ones
RUNS = 2**8  # that fewer numbers, which nobody sorted yet, are parted into
SPARE = 2**20  # characters of labels that no entry has any more, and may stay


class LabelTable:
    """Distinct labels, numbered in order of appearance.

    It only grows, so a reader's codes stay valid while writers add labels, several at once: what
    they write is prepared before their turns. Labels that no entry has any more go as a snapshot
    takes another table (``Snapshot.tidied``).
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self.labels: list[str] = list(labels)
        self._codes: dict[str, int] = {label: code for code, label in enumerate(self.labels)}
        self.characters = sum(map(len, self.labels))
        self.used = self.characters  # of labels that entries have, when last looked through

    def is_loose(self, rows: int) -> bool:
        """Tell whether so many rows may have less than half of what the table holds."""
        return len(self.labels) > 2 * rows or self.characters > 2 * self.used + SPARE

    def let_go(self, codes: Iterable[int]) -> None:
        """Note that rows have these labels no more; others still may."""
        self.used -= sum(len(self.labels[code]) for code in codes if code >= 0)

    def find(self, label: str) -> int | None:
        """Return the label's code, if it has one as it is written or composed (readers too)."""
        code = self._codes.get(label)
        return self._codes.get(composed(label)) if code is None else code

    def code(self, label: str) -> int:
        """Return the label's code, a new one if need be.

        Without a lock: a signal's handler that writes would wait for ever at one.
        """
        while (code := self._codes.get(label)) is None:
            place = len(self.labels)
            self.labels.append(label)
            self.characters += len(label)
            if self.labels[place] == label:  # nobody else was faster
                self._codes.setdefault(label, place)
        return code


def check_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Give columns by the names that are typed; refuse what cannot be, naming every fault."""
    if not isinstance(columns, Iterable):
        raise InvalidRequest(Fault("columns", "write a list of Column(name, type)"))
    columns = tuple(columns)  # once: it may be a generator
    if others := [column for column in columns if not isinstance(column, Column)]:
        message = f"{others[0]!r} is none; write Column(name, type)"
        raise InvalidRequest(Fault("columns", message))
    columns = tuple(replace(column, name=column_name(column.name)) for column in columns)
    faults = [
        Fault("columns", f"two columns are named {name!r}")
        for name in repeated_names(c.name for c in columns if isinstance(c.name, str))
    ]
    for column in columns:
        if not isinstance(column.name, str):
            message = f"a column's name is text, and {column.name!r} is none"
            faults.append(Fault("columns", message))
        elif not is_column_name(column.name):
            faults.append(Fault("columns", not_a_name(column.name)))
        if column.type not in get_args(ColumnType):
            faults.append(Fault(f"columns.{column.name}", "write number, vector, category or text"))
        if column.type == "vector" and not column.width:
            message = (
                "a vector needs a width, and there is no vector to tell it: skip the column, "
                "or give it another type; in the library, its width: "
                f"Column({column.name!r}, 'vector', width=3)"
            )
            faults.append(Fault(f"columns.{column.name}", message))
        elif column.type == "vector" and not (type(column.width) is int and column.width > 0):
            faults.append(Fault(f"columns.{column.name}", "a width is a whole number above 0"))
        if column.type != "vector" and column.width is not None:
            faults.append(Fault(f"columns.{column.name}", "only a vector has a width"))
        if column.unit is not None and (column.type != "number" or not is_unit(column.unit)):
            message = (
                f"a unit is text of at most {LONGEST_UNIT} characters, and only numbers have one"
            )
            faults.append(Fault(f"columns.{column.name}", message))
        if not isinstance(column.attribute, bool):
            faults.append(Fault(f"columns.{column.name}", "attribute is True or False"))
    if faults:
        raise InvalidRequest(*faults)
    return columns


def pack(column: Column, values: Iterable[Value], table: LabelTable) -> Array:
    """Hold a column's values as an array; ``None`` is missing, and of numbers -0.0 is 0.0."""
    if column.type == "number":
        numbers = [math.nan if value is None else value for value in values]
        return np.array(numbers, dtype=float) + 0.0
    if column.type == "vector":
        gap = (math.nan,) * (column.width or 0)
        rows = [gap if value is None else value for value in values]
        return np.array(rows, dtype=float).reshape(len(rows), column.width or 0)
    texts = (None if value is None else str(value) for value in values)
    if column.type == "category":  # earlier versions stored labels with their marks apart
        texts = (None if text is None else composed(text) for text in texts)
    codes = [-1 if text is None else table.code(text) for text in texts]
    return np.array(codes, dtype=np.int32)


def unpack(column: Column, array: Array, row: int, table: LabelTable) -> Value:
    """Give back one value. Whole numbers come back as ints, as in JSON."""
    if column.type == "number":
        return _plain(float(array[row]))
    if column.type == "vector":
        if np.isnan(array[row]).all():  # as of no component
            return None
        return tuple(_plain(float(x)) or 0 for x in array[row])
    code = int(array[row])
    return None if code < 0 else table.labels[code]


def _plain(number: float) -> float | int | None:
    if math.isnan(number):
        return None
    return int(number) if number.is_integer() and abs(number) <= EXACT else number


def is_boolean(value: object) -> bool:
    """Say whether this is True or False, NumPy's own too."""
    return isinstance(value, (bool, np.bool_))


def as_label(value: object) -> object:
    """Spell truth, a day or a time as labels do; give anything else as it is."""
    if is_boolean(value):
        return "true" if value else "false"
    if isinstance(value, (datetime.date, datetime.time)) and value == value:  # unlike NaT
        return value.isoformat()
    return value


def is_number(value: object) -> TypeGuard[Real | Decimal]:
    """Tell a number; a span of time is none, though NumPy has it among its integers."""
    real = isinstance(value, (int, float, Decimal, Real)) and not is_boolean(value)
    return real and not isinstance(value, np.timedelta64)


def is_inexact(value: object) -> TypeGuard[Integral | Decimal]:
    """Tell an integer, of a decimal too, beyond those that are exact."""
    if isinstance(value, Decimal):  # int() would write out all its zeros
        return value.is_finite() and value.copy_abs() > EXACT and value == value.to_integral()
    return isinstance(value, Integral) and abs(int(value)) > EXACT


def missing(array: Array) -> NDArray[np.bool_]:
    """Tell which rows of a column have no value."""
    if array.ndim == 2 and not array.shape[1]:  # of a column that was made without a vector
        return np.ones(len(array), dtype=bool)
    first = array[:, 0] if array.ndim == 2 else array
    return np.asarray(np.isnan(first) if first.dtype.kind == "f" else first < 0)


def blend_column(
    column: Column,
    array: Array,
    weights: NDArray[np.floating],
    table: LabelTable,
    *,
    order: Order | None = None,
    listed: int = 10,
) -> Blend | None:
    """Blend one column under (n,) weights that sum to at most one.

    ``order`` is the ``order_of`` a number column, if the caller has it. Returns None
    where no weight has a value.
    """
    if column.type == "number":
        return blend_numbers(np.asarray(array, float), weights, order=order, unit=column.unit)
    if column.type == "vector":
        return blend_vectors(np.asarray(array, float), weights)
    return blend_labels(column, np.asarray(array, np.int32), weights, table, listed=listed)


def blend_numbers(
    values: NDArray[np.float64],
    weights: NDArray[np.floating],
    *,
    order: Order | None = None,
    unit: str | None = None,
) -> NumberBlend | None:
    """Mean, standard deviation, median and central interval of weighted numbers."""
    gaps = np.isnan(values)
    shares = weights.astype(np.float64, copy=False)
    if gaps.any():
        if order is None:
            shares, values = shares[~gaps], values[~gaps]
        else:  # rows keep their numbers
            shares, values = np.where(gaps, 0.0, shares), np.where(gaps, 0.0, values)
    known = float(shares.sum())
    if known <= 0.0:
        return None
    mean, deviation = _moments(values, shares, known)
    tail = (1 - LEVEL) / 2
    low, median, high = weighted_quantiles(values, shares, (tail, 0.5, 1 - tail), order=order)
    return NumberBlend(float(mean), deviation, median, (low, high), _share(known), LEVEL, unit)


@dataclass(frozen=True, eq=False)
class Order:
    """The rows of a number column by value, and the run of ``RUN`` of them that holds each row."""

    rows: NDArray[np.int32]
    runs: NDArray[np.int32]


def order_of(values: NDArray[np.float64]) -> Order:
    """Sort a number column; what is missing, and never weighs, comes last."""
    rows = np.argsort(values).astype(np.int32)
    runs = np.empty_like(rows)
    runs[rows] = np.arange(len(rows), dtype=np.int32) // RUN
    return Order(rows, runs)


def weighted_quantiles(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    probabilities: Sequence[float],
    *,
    order: Order | None = None,
) -> list[float]:
    """Smallest value with at least each probability of the weight at or below it.

    The inverse of the weighted distribution function, without interpolation, so that
    every quantile is a value some key really has.
    """
    # Run by run first, and row by row only where a quantile lies: nothing is sorted, or summed in
    # random access, that need not be.
    runs: NDArray[np.integer] = _runs_of(values) if order is None else order.runs
    reached = np.bincount(runs, weights=weights).cumsum()
    wanted = np.asarray(probabilities) * reached[-1] * SLACK
    quantiles = []
    for goal, run in zip(wanted, reached.searchsorted(wanted), strict=True):
        if order is None:
            within = np.flatnonzero(runs == run)
            rows: NDArray[np.integer] = within[values[within].argsort()]
        else:
            rows = order.rows[run * RUN : (run + 1) * RUN]
        before = reached[run - 1] if run else 0.0
        place = weights[rows].cumsum().searchsorted(goal - before)
        quantiles.append(float(values[rows[min(place, len(rows) - 1)]]))
    return quantiles


def _runs_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Part numbers into runs, each above the one before, by even steps from least to greatest."""
    least = values.min()
    width = float(values.max() - least) or 1.0
    return np.asarray((values - least) / width * RUNS, np.int64)


def blend_vectors(values: NDArray[np.float64], weights: NDArray[np.floating]) -> VectorBlend | None:
    """Weighted mean vector, and the root mean squared distance of the vectors to it."""
    gaps = missing(values)
    shares = weights.astype(np.float64, copy=False)
    if gaps.any():
        shares, values = shares[~gaps], values[~gaps]
    known = float(shares.sum())
    if known <= 0.0:
        return None
    mean, deviation = _moments(values, shares, known)
    return VectorBlend(tuple(mean.tolist()), deviation, _share(known))


def _moments(
    values: NDArray[np.float64], weights: NDArray[np.float64], total: float
) -> tuple[NDArray[np.float64], float]:
    """Weighted mean of (n,) or (n, v) values, and their root mean squared distance to it.

    The weights sum to ``total``.
    Of values that are all alike it is just theirs, to the last bit.
    In pieces that stay in the cache, and that are too small for threads to be worth waiting for.
    """
    n, shape = len(values), values.shape[1:]
    size = max(1, PIECE // math.prod(shape))
    pieces = [slice(start, start + size) for start in range(0, n, size)]
    mean = np.asarray(sum(weights[p] @ values[p] for p in pieces)) / total
    centre = np.tile(mean, (min(size, n), 1)) if shape else None
    left, squares = np.zeros(shape), 0.0
    for p in pieces:
        away = values[p] - (mean if centre is None else centre[: len(values[p])])
        left += weights[p] @ away  # what rounding left of the mean
        away *= away
        squares += float((weights[p] @ away).sum())
    largest = float(np.abs(values).max()) if squares < LEAST else 0.0
    left /= total
    mean = mean + left
    if 0 < largest < 1:  # squares that are too small for a double, or nearly
        return mean, largest * _moments(values / largest, weights, total)[1]
    lost = float((left * left).sum())
    variance = squares / total - lost
    return mean, math.sqrt(variance) if variance > ROUNDED * lost else 0.0


def blend_labels(
    column: Column,
    codes: NDArray[np.int32],
    weights: NDArray[np.floating],
    table: LabelTable,
    *,
    listed: int,
) -> LabelBlend | None:
    """Distribution of the weight over distinct labels, the ``listed`` greatest by name.

    Equal ones stand by name: by rows, or in the order of their codes, another start or a rebuild
    would move them.
    """
    there = codes >= 0
    if not there.all():
        codes, weights = codes[there], weights[there]
    labels: NDArray[np.integer] | None = None
    if 2 * len(codes) < len(table.labels):  # a few rows of a column of many labels
        labels, positions = np.unique(codes, return_inverse=True)
        codes = positions.astype(np.int32)
    masses = np.bincount(codes, weights=weights)
    known = float(masses.sum())
    if known <= 0.0:
        return None
    shares = masses / known
    listed = min(listed, len(shares))
    bar = np.partition(shares, -listed)[-listed]
    top = np.flatnonzero((shares >= bar) & (shares > 0.0))
    names = (table.labels[code] for code in (top if labels is None else labels[top]))
    falling = nsmallest(listed, zip((-shares[top]).tolist(), names, strict=True))
    distribution = tuple((name, -share) for share, name in falling)
    rest = max(0.0, 1.0 - sum(share for _, share in distribution))
    kind: Literal["category", "text"] = "category" if column.type == "category" else "text"
    return LabelBlend(distribution, rest if rest > 1e-12 else 0.0, _share(known), kind)


def _share(total: float) -> float:
    """Clip float noise: a share is in [0, 1]."""
    return 1.0 if total > 1.0 - 1e-6 else total

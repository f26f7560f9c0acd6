"""Conditions: values to compare by ``==``, and masks over a snapshot.

``And`` and ``Or`` hold no part of their own kind, so that one meaning has one shape however it was
written; ``join`` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from index.answers import Column
from index.snapshot import Snapshot
from index.values import Array, LabelTable, missing

Mask = NDArray[np.bool_]
Operator = Literal["=", "<", "<=", ">", ">="]
Held = Mapping[str, tuple[Column, Array, LabelTable]]


@dataclass(frozen=True)
class Compare:
    """The column's value compares so with one; false where it is missing."""

    column: str
    operator: Operator
    value: float | str


@dataclass(frozen=True)
class Among:
    """The column's value is one of these; false where it is missing."""

    column: str
    values: tuple[float | str, ...]


@dataclass(frozen=True)
class Missing:
    """The column has no value."""

    column: str


@dataclass(frozen=True)
class Not:
    """The condition does not hold."""

    part: Where


@dataclass(frozen=True)
class And:
    """All of two or more conditions hold."""

    parts: tuple[Where, ...]


@dataclass(frozen=True)
class Or:
    """At least one of two or more conditions holds."""

    parts: tuple[Where, ...]


Where = Compare | Among | Missing | Not | And | Or


def depth(where: Where) -> int:
    """Count the conditions that stand inside one another."""
    match where:
        case Not(part):
            return 1 + depth(part)
        case And(parts) | Or(parts):
            return 1 + max(map(depth, parts))
    return 1


def join(kind: type[And] | type[Or], parts: Sequence[Where]) -> Where:
    """Put one condition or more together; those of the same kind give up their parts."""
    flat = [each for part in parts for each in (part.parts if isinstance(part, kind) else (part,))]
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


# --- which rows -------------------------------------------------------------------------------


def where_mask(where: Where, snapshot: Snapshot) -> Mask:
    """Tell of which of the n rows, the deleted ones included, a condition holds.

    A label is looked up once and compared as a code, never as text row by row.
    """
    columns = zip(snapshot.columns, snapshot.arrays, snapshot.labels, strict=True)
    return _mask(where, {each[0].name: each for each in columns})


def _mask(where: Where, held: Held) -> Mask:
    match where:
        case Not(part):
            return np.logical_not(_mask(part, held))
        case And(parts):
            return reduce(np.logical_and, (_mask(part, held) for part in parts))
        case Or(parts):
            return reduce(np.logical_or, (_mask(part, held) for part in parts))
        case Missing(name):
            return missing(held[name][1])
        case Among(name, values):
            column, array, table = held[name]
            if column.type == "number":
                return np.isin(array, np.array(values, float))
            return _labels(array, values, table)
        case Compare(name, operator, value):
            column, array, table = held[name]
            if column.type == "number":  # a missing one is NaN, and compares as false
                return np.asarray(_COMPARE[operator](array, value), bool)
            return _labels(array, [value], table)


_COMPARE: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _labels(array: Array, wanted: Sequence[float | str], table: LabelTable) -> Mask:
    """Tell which codes are of a wanted label; one that is missing (-1) is the last of all."""
    codes = [code for label in wanted if (code := table.find(str(label))) is not None]
    if len(codes) < 2:
        return array == codes[0] if codes else np.zeros(len(array), bool)
    hits = np.zeros(len(table.labels) + 1, bool)
    hits[codes] = True
    return np.asarray(hits[array])

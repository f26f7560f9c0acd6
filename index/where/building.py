"""Conditions from their parts, checked against a dataset's columns; all faults at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from numbers import Real

from index.answers import Column
from index.errors import TOLD, Fault, InvalidRequest
from index.naming import LONGEST_COLUMN, plain_text
from index.values import as_label, is_inexact
from index.where.conditions import (
    Among,
    And,
    Compare,
    Missing,
    Not,
    Operator,
    Or,
    Where,
    depth,
    join,
)
from index.wording import guesses, listed, short, shown

DEEPEST = 32  # conditions inside one another
MOST = 256  # comparisons in one condition
MOST_VALUES = 10_000  # values after ``in``, in all
# A number as it is written in many countries, and one in groups of three digits: 8,5 and 1.234,50.
MARKED = re.compile(r"(?<![\w.,])[+-]?[0-9]+(?:[.,][0-9]{3})*[.,][0-9]+(?![\w.,])")
PLAIN = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
THOUSAND = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
_REFUSED = Missing("")  # stands for what has a fault, until all faults are raised


@dataclass(frozen=True)
class Spot:
    """A place in what was written: a path in JSON, a character in a text."""

    character: int | None = None  # from 1
    outer: Spot | None = None
    step: object = "where"

    def fault(self, message: str) -> Fault:
        """Say what is wrong here."""
        here = "" if self.character is None else f"character {self.character}: "
        return Fault(self.path, here + message)

    def inside(self, step: object) -> Spot:
        """Give the place one step further down."""
        return Spot(outer=self, step=step)

    @property
    def path(self) -> str:
        """Name the steps down to here. Written for faults alone: a stranger's steps may be long."""
        step = short(str(self.step), LONGEST_COLUMN)
        return f"{self.outer.path}.{step}" if self.outer else step


class Builder:
    """Makes conditions on columns, by their composed names; collects what is wrong with them."""

    def __init__(self, columns: Sequence[Column] | None, key_column: str | None) -> None:
        self._columns = None if columns is None else {column.name: column for column in columns}
        self._guess = guesses(self._columns or {})
        self._key_column = key_column
        self._conditions = self._values = 0
        self.faults: list[Fault] = []

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns' names, where they are known."""
        return None if self._columns is None else tuple(self._columns)

    def refuse(self, spot: Spot, message: str) -> Where:
        """Note a fault, and give a condition to go on with; of many the first ones say enough."""
        self.faults.append(spot.fault(message))
        if len(self.faults) == TOLD - 1:
            rest = Fault("where", "what follows was not looked at: mend these first")
            raise InvalidRequest(*self.faults, rest)
        return _REFUSED

    def compare(
        self, column: str, operator: Operator, value: object, at: Spot, value_at: Spot
    ) -> Where:
        """A comparison; ``at`` and ``value_at`` are where its column and its value stand."""
        found = self._column(column, at)
        if found is not None and found.type == "vector":
            return self._vector(found, at)
        if found is not None and found.type != "number" and operator != "=":
            return self.refuse(at, f"{column!r} holds labels, which have no order; use = or in")
        checked = self._value(found, value, value_at)
        return _REFUSED if checked is None else Compare(column, operator, checked)

    def among(
        self, column: str, values: Sequence[object], at: Spot, value_at: Callable[[int], Spot]
    ) -> Where:
        """A set of values; ``value_at`` gives the place of each, once they are counted."""
        found = self._column(column, at)
        if found is not None and found.type == "vector":
            return self._vector(found, at)
        self._values += len(values)
        if self._values > MOST_VALUES:
            return self.refuse(at, f"at most {MOST_VALUES:,} values after in, in one condition")
        checked = [self._value(found, each, value_at(n)) for n, each in enumerate(values)]
        return Among(column, tuple(value for value in checked if value is not None))

    def missing(self, column: str, at: Spot) -> Where:
        """Whether there is no value."""
        self._column(column, at)
        return Missing(column)

    def negated(self, part: Where) -> Where:
        """The opposite of a condition."""
        return _bounded(Not(part))

    def all_of(self, parts: Sequence[Where]) -> Where:
        """Conditions that must all hold."""
        return _bounded(join(And, parts))

    def any_of(self, parts: Sequence[Where]) -> Where:
        """Conditions of which one must hold."""
        return _bounded(join(Or, parts))

    def _column(self, name: str, at: Spot) -> Column | None:
        self._conditions += 1
        if self._conditions > MOST:
            raise InvalidRequest(Fault("where", f"at most {MOST} comparisons"))
        if self._columns is None:
            return None
        if name not in self._columns and name == self._key_column:
            self.refuse(at, f"{name!r} holds the keys; a condition is on the other columns")
            return None
        if name not in self._columns:
            hint, known = self._guess(name), listed(self._columns)
            self.refuse(at, f"there is no column {shown(name)}; {hint}there are: {known}")
            return None
        found = self._columns[name]
        return None if found.type == "undecided" else found  # nothing is known to compare with

    def _vector(self, column: Column, at: Spot) -> Where:
        return self.refuse(
            at, f"{column.name!r} holds vectors; only whether it is missing can be asked"
        )

    def _value(self, column: Column | None, value: object, at: Spot) -> float | str | None:
        """Check a value; None has a fault. Truth and days are words, as labels spell them."""
        value = as_label(value)
        if isinstance(value, str):
            if column is not None and column.type == "number":
                message = f"{column.name!r} holds numbers, and {shown(value)} is none"
                quoted = "; write it without quotes" if PLAIN.fullmatch(value) else ""
                self.refuse(at, message + (quoted or pointed(value)))
                return None
            return plain_text(value)
        if not isinstance(value, Real | Decimal):
            self.refuse(at, "write a number or text; null is only for {column: null}")
            return None
        try:
            number = float(value)
        except (OverflowError, ValueError):  # of a fraction, and of a signaling NaN
            number = math.inf
        if not math.isfinite(number):
            self.refuse(at, "write a finite number")
            return None
        if column is not None and column.type != "number":
            self.refuse(at, f"{column.name!r} holds labels; put the number in quotes")
            return None
        if column is not None and is_inexact(value) and number != int(value):
            message = "is not exact; load the column as text, and put it in quotes"
            self.refuse(at, f"in {column.name!r}, an integer beyond ±2^53 {message}")
            return None
        return number


def read_numeral(numeral: str) -> Decimal | float:
    """Read a number whole, or as the float that is spelled so with an exponent: 6.02e23."""
    near = float(numeral)
    try:
        whole = Decimal(numeral)
    except InvalidOperation:  # the exponent is beyond all that a decimal takes
        return near
    return near if "e" in numeral.lower() and Decimal(repr(near)) == whole else whole


def pointed(number: str) -> str:
    """Say how to write a number whose decimals follow a comma, or whose thousands are marked."""
    if not MARKED.fullmatch(number) or ("," not in number and number.count(".") == 1):
        return ""
    *groups, last = re.split("[.,]", number)
    mark = number[-len(last) - 1]
    written = "".join(groups) + ("" if number.count(mark) > 1 else ".") + last
    if THOUSAND.fullmatch(number):  # or it has three decimals
        written = f"{number.replace(',', '')} or {written}"
    return f"; write {written}, with a point before the decimals and no other mark"


def _bounded(where: Where) -> Where:
    if depth(where) > DEEPEST:
        raise InvalidRequest(too_deep())
    return where


def too_deep(spot: Spot | None = None) -> Fault:
    """Say that conditions stand too deep inside one another."""
    return (spot or Spot()).fault(f"conditions stand more than {DEEPEST} deep inside one another")

"""What one cell looks like: a numeral with its unit, a vector with its width, a label, a gap…

A text says most in a text file, where all cells are texts; less in JSON and Parquet, which have
numbers of their own; and nothing but itself among the values of a Python program.
"""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral
from typing import NamedTuple

from index.loading.cast import is_gap, is_missing, is_numbers, parse_vector
from index.loading.numerals import read_numeral
from index.values import EXACT, is_boolean, is_inexact, is_number


class Kind(NamedTuple):
    """The kind of a numeral (``numerals``) or plain, vector, list, boolean, label, mark…"""

    name: str
    unit: str = ""  # of a numeral
    width: int = 0  # of a vector, or of a list that is one


LABEL = Kind("label")
QUOTED = "quoted "  # before the kind of a numeral or vector that is a text of JSON or Parquet


def kind_in_text(cell: str) -> Kind:
    """Tell what a cell of a text file spells."""
    spelled = cell.strip()
    if numeral := read_numeral(spelled):
        return Kind(numeral.kind, unit=numeral.unit)
    if is_missing(spelled):
        return Kind("mark" if spelled else "missing")
    if vector := parse_vector(spelled):
        return Kind("vector", width=len(vector))
    return LABEL


def kind_in_json(cell: object) -> Kind:
    """Tell what a cell of JSON or Parquet is: a text is a label, but for a number with a unit.

    Among numbers a text may also say that there is none; and one that spells a plain number is a
    label that is ``QUOTED``, which tells how those are written, where somebody wants them read. So
    is one that spells a vector.
    """
    if not isinstance(cell, str):
        return kind_of(cell)
    spelled = cell.strip()
    if numeral := read_numeral(spelled):
        return Kind(numeral.kind if numeral.unit else QUOTED + numeral.kind, numeral.unit)
    if vector := parse_vector(spelled):
        return Kind(QUOTED + "vector", width=len(vector))
    return Kind("mark") if is_missing(spelled) else LABEL


def _has_cents_too_many(cell: object) -> bool:
    """Tell a decimal beyond the exact integers, whose fraction a float would drop."""
    return isinstance(cell, Decimal) and cell.is_finite() and cell.copy_abs() > EXACT


def kind_of(cell: object) -> Kind:
    """Tell what a value of Python is: a text is a label."""
    if isinstance(cell, str):
        return LABEL
    if cell is None or is_gap(cell):  # the cast refuses this, and it alone
        return Kind("missing")
    if is_boolean(cell):
        return Kind("boolean")
    if is_number(cell):  # NaN too: a bad number, not a label
        if is_inexact(cell) or _has_cents_too_many(cell):
            return Kind("code")
        return Kind("int" if isinstance(cell, Integral) else "plain")
    items = cell.tolist() if hasattr(cell, "tolist") else cell
    return Kind("list", width=len(items)) if is_numbers(items) else Kind("other")

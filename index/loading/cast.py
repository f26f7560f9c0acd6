"""One cell to one typed value.

``cast_value`` is strict and takes Python's own types, as JSON and Parquet give them. ``caster``
also reads the strings that text formats are made of: numerals (``numerals``), vectors as JSON
lists, and marks for what is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from typing import TypeGuard

from index.answers import Column, Value
from index.errors import InvalidKey, WrongValue
from index.loading.numerals import Style, read_numeral
from index.loading.units import is_dash, usual_unit
from index.naming import composed, is_text, plain_text
from index.values import EXACT, LARGEST, as_label, is_inexact, is_number

BEYOND = f"is beyond ±{LARGEST:.0e}"
NONE = "; None (null) is a missing value"
INEXACT = "an integer beyond ±2^53 is not exact; keep it as text"
# Missing in columns of numbers and vectors; in columns of labels only an empty cell is.
# English, French, Spanish and German ones.
_MISSING_MARKS = {
    *("", "na", "n/a", "n.a.", "n. a.", "nan", "null", "none", "-", "--", "–", "—", "<na>", "\\n"),
    *(".", "..", "...", "…", ":"),  # of statistical offices
    *("#n/a", "#n/d", "#nv", "n/d", "nd", "n.d.", "n. d.", "s/d", "s.d.", "s. d.", "k.a.", "k. a."),
}


def check_key(key: object, max_length: int) -> str:
    """Give the key as it is held, or raise InvalidKey if no dictionary can hold it."""
    if not isinstance(key, str):
        raise InvalidKey(f"a key is text, not {_kind(key)}: {shown_value(key)}")
    key = composed(plain_text(key))
    if not key or key.isspace():
        raise InvalidKey("the key is empty")
    if len(key) > max_length:
        begins = f"the key that begins {key[:20]!r} has {len(key)} characters"
        raise InvalidKey(f"{begins}; at most {max_length} are allowed")
    if not is_text(key):
        raise InvalidKey("the key holds half a surrogate pair, which is no character")
    return key


def cast_value(value: object, column: Column) -> Value:
    """Turn a Python value into one that the column holds.

    Numbers and booleans given to a category or text column become their JSON text, and dates
    their ISO text. Nothing else is converted: "7" is no number, and neither is true.

    Raises
    ------
    WrongValue
        If the column cannot hold it: another type, NaN or infinity, a number beyond ±1e150, an
        integer beyond ±2**53, a vector of another width.
    """
    if value is None:
        return None
    if column.type == "number":
        return _number(value, column)
    if column.type == "vector":
        return _vector(value, column)
    return _label(value, column)


def caster(
    column: Column,
    style: Style | None,
    *,
    textual: bool,
    unit: str | None,
    spoil: bool,
) -> Callable[[object], Value]:
    """Give the function that types a column's cells; ``textual`` formats spell all as strings.

    ``style`` is None where 1,234 may be in either, and is refused. ``unit`` is what a file declares
    its plain numbers to be in, and ``spoil`` says to read codes such as 007 as numbers.
    """
    if column.type == "number":
        column = replace(column, unit=column.unit and usual_unit(column.unit))
        foreign = unit if unit and usual_unit(unit) != column.unit else None
        return partial(_number_of_cell, column, style, foreign, spoil)
    if column.type == "vector":
        return partial(_vector_of_cell, column)
    return partial(_label_of_cell, column, textual)


def is_missing(spelled: str) -> bool:
    """Say whether a cell among numbers or vectors says that it holds none."""
    return spelled.casefold() in _MISSING_MARKS or is_dash(spelled)


def _number_of_cell(
    column: Column, style: Style | None, foreign: str | None, spoil: bool, cell: object
) -> Value:
    """Read a numeral in the column's style; without a unit it is in the column's."""
    if not isinstance(cell, str):
        if foreign and cell is not None:
            raise in_another_unit(shown_value(cell), foreign, column)
        return cast_value(cell, column)
    spelled = cell.strip()
    numeral = read_numeral(spelled)
    if numeral is None and is_missing(spelled):
        return None
    if style is None and numeral and not numeral.has_one_reading:
        unclear = "may have thousands or decimals; say which with the option decimal"
        raise WrongValue(column.name, f"{shown_value(spelled)} {unclear}")
    style = style or "point"
    if numeral is None or not numeral.fits(style):
        raise WrongValue(column.name, f"{shown_value(spelled)} is not a number")
    if numeral.unit and numeral.unit != column.unit:
        raise in_another_unit(shown_value(spelled), numeral.unit, column)
    number = _within_limits(numeral.number(style), column)
    if numeral.is_code and not spoil:
        wanted = "if that is meant, name its type, number, in the option columns"
        raise WrongValue(column.name, f"{shown_value(spelled)} would become {number}; {wanted}")
    return number


def _vector_of_cell(column: Column, cell: object) -> Value:
    if isinstance(cell, str):
        if is_missing(cell.strip()):
            return None
        cell = parse_vector(cell.strip()) or cell
    return cast_value(cell, column)


def _label_of_cell(column: Column, textual: bool, cell: object) -> Value:
    if textual and isinstance(cell, str):
        stripped = cell.strip()
        if not stripped:
            return None
        if column.type == "category":  # nobody sees that "fresh " is another label
            cell = stripped
    return cast_value(cell, column)


def in_another_unit(shown: str, unit: str, column: Column) -> WrongValue:
    """Make the error of what is in a unit that is not the column's."""
    others = f"the column in {column.unit}" if column.unit else "the column has no unit"
    return WrongValue(column.name, f"{shown} is in {unit}, and {others}")


def parse_vector(spelled: str) -> Sequence[object] | None:
    """Read "[1, 2.5]"; None for anything that is not such a list."""
    if not (spelled.startswith("[") and spelled.endswith("]")):
        return None
    try:
        items = json.loads(spelled)
    except (ValueError, RecursionError):
        return None
    return items if is_numbers(items) else None


def is_numbers(items: object) -> TypeGuard[Sequence[object]]:
    """Say whether this is a list of one number or more."""
    return isinstance(items, (list, tuple)) and len(items) > 0 and all(map(is_number, items))


def is_gap(value: object) -> bool:
    """Say whether this is pandas' own word for a missing value, NA or NaT."""
    return type(value).__name__ in ("NAType", "NaTType")


def _number(value: object, column: Column) -> float | int:
    if not is_number(value):
        spelled = isinstance(value, str) and read_numeral(value.strip())
        bare = "; write it without quotes and unit, with a point before decimals and no other mark"
        raise _unlike("a number", value, column, bare if spelled else "")
    if is_inexact(value):
        raise WrongValue(column.name, INEXACT)
    if isinstance(value, Decimal):
        number = math.nan if value.is_nan() else float(value)  # a signaling NaN makes no float
        return _within_limits(int(number) if number.is_integer() else number, column)
    try:
        number = int(value) if isinstance(value, Integral) else float(value)
    except OverflowError as fault:  # of a fraction; it is no infinity
        raise WrongValue(column.name, f"{shown_value(value)} {BEYOND}") from fault
    return _within_limits(number, column)


def _within_limits(number: float | int, column: Column) -> float | int:
    if isinstance(number, int):
        if abs(number) > EXACT:
            raise WrongValue(column.name, INEXACT)
        return number
    if not math.isfinite(number):
        advice = NONE if math.isnan(number) else ""
        raise WrongValue(column.name, f"{shown_value(number)} is not a finite number{advice}")
    if abs(number) > LARGEST:
        raise WrongValue(column.name, f"{shown_value(number)} {BEYOND}")
    return number


def _vector(value: object, column: Column) -> tuple[float, ...]:
    items = value.tolist() if hasattr(value, "tolist") else value  # a NumPy array
    if not isinstance(items, (list, tuple)):
        raise _unlike("a list of numbers", value, column)
    if column.width is None:  # as in datasets that an earlier version loaded without a vector
        raise WrongValue(column.name, "the column was made without a vector, and can hold none")
    if len(items) != column.width:
        raise WrongValue(column.name, f"the vector has {len(items)} numbers, not {column.width}")
    try:
        return tuple(float(_number(item, column)) for item in items)
    except WrongValue:
        gaps = (place for place, item in enumerate(items, 1) if item is None)
        if gap := next(gaps, None):
            message = f"number {gap} of the vector is missing"
            raise WrongValue(column.name, message) from None
        raise


def _label(value: object, column: Column) -> str:
    value = as_label(value)
    if isinstance(value, str):
        if not is_text(value):
            raise WrongValue(column.name, "the text holds half a surrogate pair")
        return composed(plain_text(value))
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    if is_number(value) and isinstance(value, Integral):
        return _numeral(int(value), column)
    with suppress(OverflowError, ValueError):  # of a fraction, of a signaling NaN
        if is_number(value) and math.isfinite(value):
            return repr(float(value))
    raise _unlike("a label or text", value, column)


def _unlike(wanted: str, value: object, column: Column, advice: str = "") -> WrongValue:
    """Make the error of what is of another kind than its column."""
    if is_gap(value) or (isinstance(value, Real) and value != value):
        advice = NONE
    given = f"{shown_value(value)} is {_kind(value)}"
    return WrongValue(column.name, f"{given}, not {wanted}{advice}")


def _numeral(value: int, column: Column) -> str:
    try:
        return str(value)
    except ValueError as fault:  # Python spells no more than some thousand digits
        raise WrongValue(column.name, "an integer of so many digits is no label") from fault


def shown_value(value: object) -> str:
    """Write a value for a message, its beginning if it is long."""
    try:
        if value is None or isinstance(value, (bool, list, tuple, dict)):
            shown = json.dumps(value, ensure_ascii=False, default=str)
        else:
            shown = repr(value) if isinstance(value, (str, int, float)) else str(value)
    except ValueError:  # of the digits, Python spells no more than some thousand
        return "a number of thousands of digits"
    except RecursionError:
        return "what is nested so deep"
    shown = shown.encode(errors="backslashreplace").decode()  # half a surrogate can be sent nowhere
    return shown if len(shown) <= 40 else f"{shown[:37]}…"


def _kind(value: object) -> str:
    if isinstance(value, dict):  # of json, or its like with more to say
        return "an object"
    kinds = {bool: "a boolean", str: "text", list: "a list", tuple: "a list"}
    kinds |= {bytes: "binary", type(None): "nothing", int: "a number", float: "a number"}
    return kinds.get(type(value), f"a {type(value).__name__}")

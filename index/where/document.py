"""The JSON form of ``where``: an object whose conditions must all hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from itertools import islice
from typing import Any

from index.errors import InvalidRequest
from index.naming import column_name, repeated_names
from index.values import is_boolean
from index.where.building import DEEPEST, MOST_VALUES, Builder, Spot, read_numeral, too_deep
from index.where.conditions import Operator, Where
from index.wording import shown

OPERATORS: dict[str, Operator] = {"eq": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
SIGNS = (*OPERATORS, "ne", "in", "missing")


def read_json(text: str, builder: Builder) -> Where:
    """Read the form from a text of JSON."""
    try:
        given = json.loads(
            text, object_pairs_hook=_no_twice, parse_int=read_numeral, parse_float=read_numeral
        )
        # Half a surrogate pair is no character.
        json.dumps(given, ensure_ascii=False, default=str).encode()
    except json.JSONDecodeError as error:
        spot = Spot(character=error.pos + 1)
        raise InvalidRequest(spot.fault(f"this is not JSON: {error.msg}")) from None
    except RecursionError:
        raise InvalidRequest(too_deep()) from None
    except UnicodeEncodeError:
        raise InvalidRequest(Spot().fault("an escape stands for half a character")) from None
    except ValueError as error:
        raise InvalidRequest(Spot().fault(str(error))) from None
    return read_document(given, builder)


def read_document(given: object, builder: Builder) -> Where:
    """Read the form from the objects that JSON is made of."""
    return _condition(given, Spot(), 1, builder)


def _condition(given: object, at: Spot, deep: int, builder: Builder) -> Where:
    if deep > DEEPEST:
        raise InvalidRequest(too_deep(at))
    if not isinstance(given, Mapping) or not given:
        return builder.refuse(at, 'write a condition: {"column": value}')
    named = ((column_name(name), part) for name, part in given.items())
    return builder.all_of(
        [_named(str(name), part, at.inside(name), deep, builder) for name, part in named]
    )


def _named(name: str, part: Any, at: Spot, deep: int, builder: Builder) -> Where:
    if name == "not":
        return builder.negated(_condition(part, at, deep + 1, builder))
    if name in ("and", "or"):
        if not isinstance(part, list | tuple) or not part:
            return builder.refuse(at, "write a list of conditions")
        parts = [
            _condition(each, at.inside(place), deep + 1, builder) for place, each in enumerate(part)
        ]
        return builder.all_of(parts) if name == "and" else builder.any_of(parts)
    if part is None:
        return builder.missing(name, at)
    if isinstance(part, list | tuple):
        return builder.refuse(at, 'write {"in": […]} for a set of values')
    if not isinstance(part, Mapping):
        return builder.compare(name, "=", part, at, at)
    if not part:
        return builder.refuse(at, f"write one of: {', '.join(SIGNS)}")
    return builder.all_of(
        [_compared(name, str(sign), value, at, builder) for sign, value in part.items()]
    )


def _compared(name: str, sign: str, value: Any, column_at: Spot, builder: Builder) -> Where:
    at = column_at.inside(sign)
    if sign in OPERATORS:
        return builder.compare(name, OPERATORS[sign], value, column_at, at)
    if sign == "ne":
        return builder.negated(builder.compare(name, "=", value, column_at, at))
    if sign == "in":
        values = value.tolist() if hasattr(value, "tolist") else value  # of NumPy or pandas
        if not isinstance(values, list | tuple | Set | range):
            return builder.refuse(at, "write a list of values")
        few = list(islice(values, MOST_VALUES + 1))  # a range may have any number
        return builder.among(name, few, column_at, at.inside)
    if sign == "missing":
        if not is_boolean(value):
            return builder.refuse(at, "write true or false")
        found = builder.missing(name, column_at)
        return found if value else builder.negated(found)
    return builder.refuse(at, f"{shown(sign)} is none of: {', '.join(SIGNS)}")


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that stands twice: Python's reader would keep the last and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = shown(repeated_names(name for name, _ in pairs)[0])
        raise ValueError(f"{twice} stands twice in an object; put both into an and")
    return found

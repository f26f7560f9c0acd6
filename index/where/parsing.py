"""A condition from whichever form it was written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from index.answers import Column
from index.errors import Fault, InvalidRequest
from index.where.building import Builder
from index.where.conditions import Where
from index.where.document import read_document, read_json

LONGEST = 10_000  # characters of a text


def parse_where(
    given: object, columns: Sequence[Column] | None = None, *, key_column: str | None = None
) -> Where | None:
    """Read ``where``: text, the JSON form as text (it starts with a brace), or as a mapping.

    Without ``columns`` only the form is checked, not what the columns are; ``key_column`` is that
    of the keys, which no condition can be on. Raise InvalidRequest with every fault, each with its
    place: the character in a text, the path in JSON.
    """
    if given is None:
        return None
    builder = Builder(columns, key_column)
    if isinstance(given, str):
        if len(given) > LONGEST:
            raise InvalidRequest(Fault("where", f"at most {LONGEST:,} characters"))
        if given.lstrip().startswith("{"):
            where = read_json(given, builder)
        else:
            from index.where.text import read_text  # only this form needs lark

            where = read_text(given, builder)
    elif isinstance(given, Mapping):
        where = read_document(given, builder)
    else:
        raise InvalidRequest(
            Fault("where", 'write a condition: price > 5 and tag = "a", or {"price": {"gt": 5}}')
        )
    if builder.faults:
        raise InvalidRequest(*builder.faults)
    return where

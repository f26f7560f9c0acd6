"""JSON as the standard has it: no NaN, no infinity, no name twice, no half of a surrogate pair.

Python's own reader lets all of these pass, and each would change or break what is stored.
"""

from __future__ import annotations

import json
from typing import Any

from index.naming import repeated_names

from .errors import MalformedRequest


def loads(text: str | bytes) -> Any:
    """Read JSON; raise MalformedRequest with what is wrong.

    Bytes are UTF-8: "JSON text exchanged between systems that are not part of a closed ecosystem
    MUST be encoded using UTF-8" (RFC 8259 §8.1), whose BOM a reader may pass over.
    """
    try:
        if isinstance(text, bytes):  # Python's reader would guess, and let half a pair pass
            text = text.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twice)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _no_json(str(error)) from None
    except RecursionError:
        raise _no_json("it is nested too deeply") from None
    except ValueError:  # of int(), which reads no more than some thousand
        raise MalformedRequest(
            "write a finite number: an integer has thousands of digits"
        ) from None
    if "\\u" in text:
        dumps(value)  # an escape is the one way to write a surrogate
    return value


def dumps(value: object) -> bytes:
    """Write JSON, in UTF-8; raise MalformedRequest where JSON cannot say it."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:  # the reader gets a little deeper
        raise _no_json("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise _no_json("an escape stands for half a character") from None
    except ValueError:
        raise MalformedRequest(
            "write finite numbers: one is beyond them all, as 1e999 is"
        ) from None


def _no_json(why: str) -> MalformedRequest:
    return MalformedRequest(f"this is not JSON: {why}")


def _no_constant(name: str) -> None:
    raise _no_json(f"{name} is not a JSON number")


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated_names(name for name, _ in pairs)[0]
        raise _no_json(
            f"{twice!r} stands twice in an object; a table of such keys can be sent as a list of "
            "[key, value] pairs, with what duplicates mean"
        )
    return found

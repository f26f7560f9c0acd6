"""What a dataset and a key may be called, and which names will not do."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from index.errors import Fault, InvalidRequest
from index.wording import shown

LONGEST_NAME = 100  # characters
LONGEST_KEY = 10_000  # characters
LONGEST_COLUMN = 200  # characters of a column's name
LONGEST_UNIT = 20  # characters
SHORT = 300  # characters, which are composed in no time whatever they are
TWICE = "named twice, in another spelling of its accents"
MOST_MARKS = 30  # on one letter, in any language (Unicode's UAX 15, stream-safe text)


def check_name(name: object) -> None:
    """Refuse a name that would not stand well in an address or a file name."""
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= LONGEST_NAME
        or not all(letter.isalnum() or letter in "-_." or _is_mark(letter) for letter in name)
        or name.startswith(".")
        or _is_mark(name[0])
    ):
        raise InvalidRequest(
            Fault(
                "name",
                f"write 1 to {LONGEST_NAME} letters, digits, hyphens, underscores or points, "
                "not starting with a point",
            )
        )
    if name != composed(name):
        written = f"write {composed(name)!r} with letter and mark as one character (Unicode's NFC)"
        raise InvalidRequest(Fault("name", written))


def _is_mark(letter: str) -> bool:
    """Tell what stands on a letter, as the vowels of Hindi do."""
    return unicodedata.category(letter).startswith("M")


def is_column_name(given: str) -> bool:
    """Tell what every format of a table can name a column, and read again."""
    controls = any(sign < " " for sign in given)
    return bool(given.strip()) and len(given) <= LONGEST_COLUMN and not controls and is_text(given)


def not_a_name(given: str) -> str:
    """Say what is wrong with the name of a column that can be none."""
    return (
        f"{shown(given)} cannot be the name of a column: write at most {LONGEST_COLUMN} characters"
        ", not blanks alone, and no tab, line break or other control character, nor half of a "
        "surrogate pair"
    )


def is_unit(given: object) -> bool:
    """Tell what can be the unit of numbers."""
    return isinstance(given, str) and len(given) <= LONGEST_UNIT and is_column_name(given)


def is_text(given: str) -> bool:
    """Tell text from what holds half a surrogate pair, which is no character."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_text(given: str) -> str:
    """Give a text as a str and nothing more: str() of a member of an Enum may give its name."""
    return str.__str__(given)


def composed(text: str) -> str:
    """Give letters and their marks as one character where there is one (Unicode's NFC).

    It is how keyboards write them; a file from a Mac may have them apart, which nobody sees.
    """
    if text.isascii() or (len(text) > SHORT and _most_marks(text) > MOST_MARKS):
        return text
    return unicodedata.normalize("NFC", text)


def column_name(given: Any) -> Any:
    """Write a column's name as it is typed; what is no text is left for who refuses it."""
    return composed(plain_text(given)) if isinstance(given, str) else given


def _most_marks(text: str) -> int:
    """Count the marks of the letter that has most: to compose them takes the square of that."""
    runs = groupby(map(unicodedata.combining, text), bool)
    return max((sum(1 for _ in run) for marked, run in runs if marked), default=0)


def repeated_names(names: Iterable[str]) -> list[str]:
    """Give the names that stand more than once. In one pass: a stranger may send many."""
    return [name for name, count in Counter(names).items() if count > 1]

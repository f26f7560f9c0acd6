"""Values in sentences: what is stored is written whole, what is reckoned from it rounded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import SequenceMatcher, get_close_matches
from heapq import nlargest
from itertools import islice

from index.answers import Value

SHOWN, LONGEST_SHOWN = 8, 60  # components of a vector, characters of a text
LISTED = 20  # names of what there is
GUESSED = 5  # wrong names for which a like one is looked for, which takes a while among many


def whole(value: Value, unit: str | None = None) -> str:
    """Write a stored value, every digit of it."""
    return _worded(value, _digits, unit)


def rounded(value: Value, unit: str | None = None) -> str:
    """Write a blended value: four digits of a number, and all that stand before its point."""
    return _worded(value, lambda x: f"{x:.0f}" if 1e3 <= abs(x) < 1e15 else f"{x:.4g}", unit)


def _digits(number: float) -> str:
    return str(number) if isinstance(number, int) else repr(float(number)).removesuffix(".0")


def _worded(value: Value, number: Callable[[float], str], unit: str | None) -> str:
    if isinstance(value, int | float):
        return f"{number(value)} {unit}" if unit else number(value)
    if isinstance(value, tuple):
        head = ", ".join(number(part) for part in value[:SHOWN])
        return f"[{head}{', …' if len(value) > SHOWN else ''}]"
    return "nothing" if value is None else value


def short(words: str, longest: int) -> str:
    """Cut words that are too long: a stranger's names may stand in them."""
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def shown(text: str) -> str:
    """Quote a text for a message, its beginning if it is long."""
    return repr(short(text, LONGEST_SHOWN))


def listed(names: Collection[str]) -> str:
    """Name what there is; of many the first, and how many more."""
    told = ", ".join(islice(names, LISTED)) or "none"
    return f"{told} and {len(names) - LISTED:,} more" if len(names) > LISTED else told


def guesses(names: Collection[str]) -> Callable[[str], str]:
    """Give what asks, of the first few wrong names, whether one that there is was meant."""
    left = iter(range(GUESSED))
    return lambda name: "" if next(left, None) is None else nearest(name, names)


def nearest(name: str, names: Collection[str]) -> str:
    """Ask whether one of the names there are was meant, if one is like it."""
    alike = SequenceMatcher()
    alike.set_seq2(name[:100])  # what it knows of this one serves for all others

    def letters(other: str) -> float:
        alike.set_seq1(other)
        return alike.quick_ratio()

    # By letters in any order first: in their order takes ten times as long, with Python's lock.
    near = get_close_matches(name[:100], nlargest(LISTED, names, key=letters), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def counted(number: int, one: str, many: str) -> str:
    """Say how many there are of something: 1 entry, 2,000 entries."""
    return f"{number:,} {one if number == 1 else many}"

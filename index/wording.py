"""Values in sentences: what is stored is written whole, what is reckoned from it rounded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

from index.answers import Value

SHOWN, LONGEST_SHOWN = 8, 60  # components of a vector, characters of a text
LISTED = 20  # names of what there is
GUESSED = 5  # wrong names for which a like one is looked for, which takes a while among many
LIKE = 0.6  # of difflib's ratio, from which a name is like another
COMPARED = 200  # names whose letters are compared in their order


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

    def at_most(other: str) -> tuple[float, str]:
        alike.set_seq1(other)
        return alike.quick_ratio(), other  # the letters in any order: ten times as fast

    best = (LIKE, "")
    for bound, other in nlargest(COMPARED, map(at_most, names)):
        if bound < best[0]:
            break
        alike.set_seq1(other)
        best = max(best, (alike.ratio(), other))
    return f"did you mean {best[1]!r}? " if best[1] else ""


def counted(number: int, one: str, many: str) -> str:
    """Say how many there are of something: 1 entry, 2,000 entries."""
    return f"{number:,} {one if number == 1 else many}"

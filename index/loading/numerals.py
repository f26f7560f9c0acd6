"""Numerals as text files write them: one grammar, for telling a column's type and for its values.

A numeral is written in one of two styles (``point``: 1,234.56 and ``comma``: 1.234,56), and many
fit both. Beside it may stand its unit (``units``).
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from index.loading.units import unit_apart
from index.values import EXACT

Style = Literal["point", "comma"]

LONGEST_NUMERAL = 64  # characters; anything longer is text
_LONGEST_SIGNED = 8  # characters; an integer that is longer and has a + is a telephone number

_DIGIT = re.compile(r"\d", re.ASCII)
# The first alternative that fits names the kind.
_KINDS = re.compile(
    r"""[+-]?(?:
        (?P<code>0\d+)
      | (?P<code_point>0\d+\.\d*)
      | (?P<code_comma>0\d+,\d*)
      | (?P<int>\d+)
      | (?P<power>\d+[eE][+-]?\d+)
      | (?P<dot_either>[1-9]\d{0,2}\.\d{3})
      | (?P<comma_either>[1-9]\d{0,2},\d{3})
      | (?P<point>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?
        |(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3})(?:\.\d*)?)  # 12,34,567.89 in India
      | (?P<comma>(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?)
    )""",
    re.ASCII | re.VERBOSE,
)
EITHER = ("int", "power", "dot_either", "comma_either")  # the kinds that fit both styles
CODES = ("code", "code_point", "code_comma")
_UNUSUAL = re.compile(r"[\s'’\u2212]|-\Z|\A\(")
# 1 234,56, 1'234.56 and 1 234; nine digits with plain spaces are a telephone number.
_GROUPED = re.compile(
    r"""[+-]?(?:
        [1-9]\d{0,2}(?:(?:[\u00a0\u2009\u202f'’]\d{3})+(?:[.,]\d*)?|(?:[ ]\d{3})+[.,]\d+|[ ]\d{3})
      | [1-9]\d?(?:[ ]\d{3}){2}
    )""",
    re.ASCII | re.VERBOSE,
)
# As SAP and bookkeepers write it; 2- is a mark, and (2) a note.
_OWED = re.compile(r"(\d.*[.,]\d{2,})-|\((\d.*[.,]\d{2,})\)")


class Numeral(NamedTuple):
    """A numeral without blanks in it; ``kind`` is a style, or one of ``EITHER`` or ``CODES``.

    A code is what a number would spoil: 007, 01.10, +34600123456, or an integer beyond 2**53.
    """

    kind: str
    digits: str
    unit: str  # "" if there is none

    def fits(self, style: Style) -> bool:
        """Say whether it can be read in a style: a code too, where somebody wants a number."""
        return self.kind in ("code", f"code_{style}", style, *EITHER)

    def number(self, style: Style) -> float | int:
        """Read it: an int where it has neither fraction nor exponent."""
        thousands = "," if style == "point" else "."
        plain = self.digits.replace(thousands, "").replace(",", ".")
        return float(plain) if any(mark in plain for mark in ".eE") else int(plain)


def read_numeral(spelled: str) -> Numeral | None:
    """Read a cell that has no blanks around it; None for what is no finite number."""
    if len(spelled) > LONGEST_NUMERAL or not _DIGIT.search(spelled):
        return None
    if numeral := _read(spelled, ""):
        return numeral
    apart, unit = unit_apart(spelled)
    return _read(apart, unit) if unit else None


def _read(spelled: str, unit: str) -> Numeral | None:
    digits = _plain(spelled)
    found = _KINDS.fullmatch(digits)
    if found is None:
        return None
    kind = found.lastgroup or ""
    if kind == "int" and _is_spoiled(digits):
        kind = "code"
    if unit or digits[0] in "+-":  # 05.50 € is no code, nor is -05.50
        kind = kind.removeprefix("code_")
    if "e" in digits.lower() and not math.isfinite(float(digits.replace(",", "."))):
        return None
    return Numeral(kind, digits, unit)


def _plain(spelled: str) -> str:
    """Take spaces and apostrophes between thousands off a numeral, and begin it with its minus."""
    if not _UNUSUAL.search(spelled):
        return spelled
    plain = spelled.replace("\u2212", "-")
    if owed := _OWED.fullmatch(plain):
        plain = f"-{owed[1] or owed[2]}"
    return _UNUSUAL.sub("", plain) if _GROUPED.fullmatch(plain) else plain


def _is_spoiled(digits: str) -> bool:
    """Say whether an integer loses its last digits as a number, or the sign of a telephone's."""
    return abs(int(digits)) > EXACT or (digits[0] == "+" and len(digits) > _LONGEST_SIGNED)

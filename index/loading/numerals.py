"""Numerals as text files write them: one grammar, for telling a column's type and for its values.

A numeral is written in one of two styles (``point``: 1,234.56 and ``comma``: 1.234,56), and many
fit both. Beside it may stand its unit (``units``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from index.loading.units import unit_apart
from index.naming import composed
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
      | (?P<power>\d[eE][+-]?\d+|\d+[eE][+-]\d+)
      | (?P<lot>\d+[eE]\d+)  # 12E4 counts no things, it names one
      | (?P<address>[1-9]\d{0,2}(?:\.\d{3}){3}|[1-9]\d\d(?:\.\d{3}){2})
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
# The kinds that fit one: a moment may be a date or a time, and an address that of a computer or
# the number of a telephone.
FITTING: Mapping[Style, tuple[str, ...]] = {
    "point": ("point", "moment"),
    "comma": ("comma", "address"),
}
_READ = {
    style: frozenset(("code", f"code_{style}", *kinds, *EITHER)) for style, kinds in FITTING.items()
}
_AS_AMOUNTS = {"code_point": "point", "code_comma": "comma", "lot": "power", "address": "comma"}
_MOMENT = re.compile(  # 24.12, 9.30 and 12.2025
    r"(?:[12]\d|3[01]|[1-9])\.(?:1[0-2]|0?[1-9])|(?:1\d|2[0-3]|[1-9])\.[0-5]\d"
    r"|(?:1[0-2]|[1-9])\.(?:19|20)\d\d",
    re.ASCII,
)
_UNUSUAL = re.compile(r"[\s'’\u2212]|-\Z|\A\(")
_SIGN_APART = re.compile(r"\A([+-])\s+(?=\d)")
# 1 234,56, 1'234.56 and 1 234; nine digits with plain spaces are a telephone number.
_GROUPED = re.compile(
    r"""[+-]?(?:
        [1-9]\d{0,2}(?:(?:[\u00a0\u2007\u2009\u202f'’]\d{3})+(?:[.,]\d*)?
        |(?:[ ]\d{3})+[.,]\d+|[ ]\d{3})
      | [1-9]\d?(?:[ ]\d{3}){2}
    )""",
    re.ASCII | re.VERBOSE,
)
# As SAP and bookkeepers write it; 2- is a mark, and (2) a note.
_OWED = re.compile(r"(\d.*[.,]\d{2,})-|\((\d.*[.,]\d{2,})\)")


class Numeral(NamedTuple):
    """A numeral without blanks in it; ``kind`` is one of ``FITTING``, ``EITHER`` or ``CODES``.

    A code is what a number would spoil: 007, 01.10, 12E4, +34600123456, or what is beyond 2**53.
    """

    kind: str
    digits: str
    unit: str  # "" if there is none

    def fits(self, style: Style) -> bool:
        """Say whether it can be read in a style; a code can, though that spoils it."""
        return self.kind in _READ[style]

    @property
    def is_code(self) -> bool:
        return self.kind in CODES

    @property
    def has_one_reading(self) -> bool:
        """Whether it is the same number in both styles."""
        return not any(mark in self.digits for mark in ".,")

    def number(self, style: Style) -> float | int:
        """Read it: an int where it has neither fraction nor exponent."""
        if self.kind == "int":
            return int(self.digits)
        plain = _in_python(self.digits, style)
        return float(plain) if any(mark in plain for mark in ".eE") else int(plain)


def read_numeral(spelled: str) -> Numeral | None:
    """Read a cell that has no blanks around it; None for what is no finite number."""
    if spelled.isascii() and spelled.isdecimal() and spelled[0] != "0" and len(spelled) < 16:
        return Numeral("int", spelled, "")  # as below, in a tenth of the time
    if len(spelled) > LONGEST_NUMERAL or not _DIGIT.search(spelled):
        return None
    spelled = composed(spelled)
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
    if unit or digits[0] in "+-":  # 05.50 € is no code, nor is -05.50
        kind = _AS_AMOUNTS.get(kind, kind)
    elif kind == "point" and _MOMENT.fullmatch(digits):
        kind = "moment"
    elif kind == "address" and digits.count(".") == 3 and max(map(int, digits.split("."))) > 255:
        kind = "comma"
    if kind == "lot" or (kind == "int" and _is_spoiled(digits)):
        kind = "code"
    elif kind in ("point", "comma") and len(digits) > 15 and _is_beyond(digits, kind):
        kind = f"code_{kind}"
    if "e" in digits.lower() and not math.isfinite(float(digits.replace(",", "."))):
        return None
    return Numeral(kind, digits, unit)


def _is_beyond(digits: str, style: str) -> bool:
    """Say whether a numeral is beyond the integers that numbers hold, and none of their others."""
    spelled = Decimal(_in_python(digits, style))
    return abs(spelled) > EXACT and "e" not in digits.lower() and spelled != Decimal(float(spelled))


def _in_python(digits: str, style: str) -> str:
    thousands = "," if style == "point" else "."
    return digits.replace(thousands, "").replace(",", ".")


def _plain(spelled: str) -> str:
    """Take spaces and apostrophes between thousands off a numeral, and begin it with its minus."""
    if not _UNUSUAL.search(spelled):
        return spelled
    plain = _SIGN_APART.sub(r"\1", spelled.replace("\u2212", "-"))
    if owed := _OWED.fullmatch(plain):
        plain = f"-{owed[1] or owed[2]}"
    return _UNUSUAL.sub("", plain) if _GROUPED.fullmatch(plain) else plain


def _is_spoiled(digits: str) -> bool:
    """Say whether an integer loses its last digits as a number, or the sign of a telephone's."""
    return abs(int(digits)) > EXACT or (digits[0] == "+" and len(digits) > _LONGEST_SIGNED)

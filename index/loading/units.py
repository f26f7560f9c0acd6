"""The unit of a numeral: the sign of a currency, or of parts in a hundred or a thousand.

It stands at either end, once: ``12,50 €``, ``-$12.50``, ``EUR 12.50``, ``R$ 1.234,50``, ``10 %``.
"""

from __future__ import annotations

import re

# Of ISO 4217; the others are rare, and some of them words (ALL, TOP).
_CODES = (
    *("ARS", "AUD", "BGN", "BOB", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CRC", "CZK", "DKK"),
    *("DOP", "EUR", "GBP", "GTQ", "HKD", "HNL", "HUF", "ILS", "INR", "ISK", "JPY", "KRW", "MXN"),
    *("NIO", "NOK", "NZD", "PEN", "PLN", "PYG", "RON", "RUB", "SEK", "SGD", "TRY", "UAH", "USD"),
    *("UYU", "VES", "ZAR"),
)
_SYMBOLS = "$\u00a2-\u00a5\u0e3f\u20a0-\u20c0\uffe0\uffe1\uffe5\uffe6"  # ¢ £ ¤ ¥ ฿ € ₹ … ￥ ￦
_MARK, _CODE = rf"[A-Z]{{0,2}}[{_SYMBOLS}]|S/|[%‰]", "|".join(_CODES)  # US$ and R$, too
_BEFORE = re.compile(rf"([+\-\u2212]?)\s?({_MARK}|(?:{_CODE})(?=\s))\s?(.+)")
_AFTER = re.compile(rf"(.*[\d.,])\s?({_MARK}|(?<=\s)(?:{_CODE}))")
_ENDS, _STARTS = frozenset("0123456789.,"), frozenset("0123456789.,+-\u2212")


def unit_apart(spelled: str) -> tuple[str, str]:
    """Part what may be a numeral from its unit; where there is none, that is "".

    Plain spaces in the numeral become such as do not break: no telephone number has a unit.
    """
    if spelled[-1:] in _ENDS:
        found = _BEFORE.fullmatch(spelled)
        numeral, unit = (found[1] + found[3], found[2]) if found else ("", "")
    else:
        found = _AFTER.fullmatch(spelled) if spelled[:1] in _STARTS else None
        numeral, unit = found.groups() if found else ("", "")
    return (numeral.replace(" ", "\u00a0"), unit) if unit else (spelled, "")

"""The unit of a numeral: the sign of a currency, of parts in a hundred or a thousand, a measure's.

It stands at either end, once: ``12,50 €``, ``-$12.50``, ``EUR 12.50``, ``12eur``, ``R$ 1.234,50``,
``499 kr``, ``25 euros``, ``10 %``. Money may be for a measure of something, ``12 €/kg``. A sum in
parentheses is negative, ``($5.00)``, and ``5,- €`` is a round one. A measure's stands behind:
``505 990 km²``.
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
_MARK = rf"[A-Z]{{0,2}}[{_SYMBOLS}]|S/\.?|[%‰]"  # US$ and R$, too
_WORDS = ("kr", "Kr", "zł", "Kč", "Ft", "Rs", "руб", "грн")
# After a number, as "12eur"; before one, "try 2", COP26 and "Euro 6" are labels.
_NAMES = {name: name for name in (*_CODES, *_WORDS)} | {code.lower(): code for code in _CODES}
_USUAL = {"EUR": "€", "GBP": "£", "US$": "USD"}  # of two names of one currency
# In any case. A pound may be a weight, and a peso may be of many countries.
_SPELLED_OUT = {"euro": "€", "euros": "€", "dollar": "$", "dollars": "$"}
_SPELLED_OUT |= dict.fromkeys(("dólar", "dólares", "dolar", "dolares"), "$")
_NAME = rf"(?:{'|'.join((*_CODES, *_WORDS))})"
# Of measures: mass, length, area, volume, time, speed, temperature, power, data, food.
_MEASURES = (
    *("mg", "g", "kg", "t", "lb", "oz", "mm", "cm", "m", "km", "mi", "ft", "in", "cm²", "m²"),
    *("km²", "ha", "ml", "cl", "l", "hl", "cm³", "m³", "ms", "s", "min", "h", "km/h", "m/s", "mph"),
    *("°", "°C", "°F", "W", "kW", "kWh", "MWh", "V", "Hz", "kHz", "MHz", "GHz", "kB", "MB"),
    *("GB", "TB", "kcal", "kJ", "mg/l", "g/l", "kg/m³", "g/km", "l/100km"),
)
_SPELLINGS = {name: name for name in _MEASURES}
_SPELLINGS |= {n.replace("²", "2").replace("³", "3"): n for n in _MEASURES if n[-1] in "²³"}
_SPELLINGS |= {"Kg": "kg", "KG": "kg", "gr": "g", "L": "l", "mL": "ml", "km/hr": "km/h"}
_SPELLINGS |= {"ºC": "°C", "ºF": "°F"}  # as keyboards in Spain write it; 3º is the third
# CHF-12.50 is Swiss, and COP-26 a conference.
_BEFORE = re.compile(
    rf"([+\-\u2212]?)\s?({_MARK}|{_NAME}\.?(?=\s|[\-\u2212]\d.*[.,]\d\d\Z))\s?(.+)"
)
_PER = r"/[^\W\d_]{1,10}[23]?"  # /kg, /m² and /m2
_AFTER = re.compile(rf"(.*(?:\d-?|[.,][-–—]?))\s?(?:({_MARK})|([^\W\d_]{{2,7}})\.?)({_PER}|)")
_MEASURED = re.compile(rf"(.*?\d)\s?({'|'.join(map(re.escape, _SPELLINGS))})")
_NEGATIVE = re.compile(rf"({_MARK}|)\s?\(([^()]+)\)\s?({_MARK}|)")
_ROUND = re.compile(r"(?<=\d)([.,])[-–—]\Z")
_DASH = re.compile(rf"[-–—]\s*(?:{_MARK}|{_NAME})|(?:{_MARK}|{_NAME})\s*[-–—]")
_DASHES = "-–—"
_DIGITS = "0123456789"
_ENDS, _STARTS = frozenset(f"{_DIGITS}.,{_DASHES}"), frozenset(f"{_DIGITS}.,+-\u2212")


def unit_apart(spelled: str) -> tuple[str, str]:
    """Part what may be a numeral from its unit; where there is none, that is "".

    Plain spaces in the numeral become such as do not break: no telephone number has a unit.
    """
    plain = spelled
    if "(" in spelled and (bracketed := _NEGATIVE.fullmatch(spelled)):
        plain = f"-{''.join(bracketed.groups())}"
    numeral = unit = ""
    if plain[-1:] in _ENDS and (found := _BEFORE.fullmatch(plain)):
        numeral, unit = found[1] + found[3], found[2]
    elif plain[:1] in _STARTS and (found := _AFTER.fullmatch(plain)):
        numeral, unit = found[1], found[2] or _money(found[3])
        unit += found[4] if unit not in "%‰" else ""
    if not unit and spelled[:1] in _STARTS and (found := _MEASURED.fullmatch(spelled)):
        numeral, unit = found[1], _SPELLINGS[found[2]]
    if not unit or (unit in "%‰" and plain is not spelled):  # (45 %) is a share in print
        return spelled, ""
    return _ROUND.sub(r"\g<1>0", numeral.replace(" ", "\u00a0")), usual_unit(unit.removesuffix("."))


def usual_unit(unit: str) -> str:
    """Give the name under which a unit is compared: EUR/kg is €/kg."""
    money, slash, measure = unit.partition("/")
    return f"{_USUAL.get(money, money)}{slash}{measure}"


def _money(name: str) -> str:
    """Give the unit that a currency's name stands for; none is ""."""
    return _NAMES.get(name) or _SPELLED_OUT.get(name.casefold(), "")


def is_measure(unit: str) -> bool:
    """Say whether it is the unit of a measure, and of no money or share."""
    return unit in _MEASURES


def is_dash(spelled: str) -> bool:
    """Say whether a unit has a dash for a number: "-   €" is how spreadsheets print no sum."""
    at_an_end = spelled[:1] in _DASHES or spelled[-1:] in _DASHES
    return at_an_end and _DASH.fullmatch(spelled) is not None

"""The readable form of ``where``, parsed by lark (LALR, so nesting takes no recursion)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any, cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError
from lark.visitors import Transformer_NonRecursive

from index.errors import InvalidRequest
from index.naming import LONGEST_COLUMN, composed
from index.where.building import MARKED, PLAIN, Builder, Spot, pointed, read_numeral
from index.where.conditions import Operator, Where
from index.wording import short, shown

KEYWORDS = ("and", "or", "not", "in", "is", "missing")
_END = r"(?![\w.\-])"  # a keyword is a whole word
# A word starts with a letter or _; combining marks count, as in a decomposed ñ.
WORD = rf"(?i:(?!(?:{'|'.join(KEYWORDS)}){_END})[^\W\d][\w.\-\u0300-\u036f]*)"
GRAMMAR = rf"""
?any : every (_OR every)*
?every : plain (_AND plain)*
?plain : _NOT plain                        -> negated
       | denied                            -> negated
       | "(" any ")"
       | name SAME value                   -> compare
       | name LESS value                   -> compare
       | name MORE value                   -> compare
       | literal LESS name                 -> turned
       | literal MORE name                 -> turned
       | literal LESS name LESS literal    -> between
       | literal MORE name MORE literal    -> between
       | name _IN values                   -> among
       | name _IS _MISSING                 -> missing
denied : name OTHER value                  -> compare
       | name _NOT _IN values              -> among
       | name _IS _NOT _MISSING            -> missing
values : "(" [value ("," value)*] ")"
name : WORD | BRACKETED
value : NUMBER | STRING | WORD
literal : NUMBER | STRING

SAME : "==" | "="
OTHER : "!=" | "<>" | "≠"
LESS : "<=" | "<" | "≤"
MORE : ">=" | ">" | "≥"
{"".join(f"_{word.upper()}.2 : /{word}{_END}/i" + chr(10) for word in KEYWORDS)}
WORD : /{WORD}/
BRACKETED : /\[(?:[^\]]|\]\])*\]/
STRING : /"(?:[^"]|"")*"/ | /'(?:[^']|'')*'/ | /“[^”]*”/ | /‘[^’]*’/ | /«[^»]*»/
NUMBER.1 : /[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?(?![\w.])/i
%ignore /\s+/
"""
LONGEST_TOLD = 60  # characters of a text in advice
OPENING = tuple("[\"'“‘«")  # of a bracket or a quote
# What stands where a column would, up to an operator, where nobody knows the columns.
_NO_NAME = "=<>!≠≤≥\\[\\]\"'“”‘’«»"
_NAMED = re.compile(
    r"(?:^|(?<!\w)(?:and|or)(?!\w))[\s(]*(?:not(?!\w)[\s(]*)*"
    # It ends with no blank: each one of many would be tried as its end, and all that follow read.
    rf"(?P<name>[^\s({_NO_NAME}](?:[^{_NO_NAME}]{{,{LONGEST_COLUMN - 1}}}?[^\s{_NO_NAME}])??)\s*"
    rf"(?:[=<>!≠≤≥]|(?<!\w)(?:in|is|not){_END})",
    re.IGNORECASE,
)
# What is unequal is compared for equality, and denied (``denied``).
OPERATORS: dict[str, Operator] = {"==": "=", "!=": "=", "<>": "=", "≠": "=", "≤": "<=", "≥": ">="}
BEGIN = {
    "a condition": {"BRACKETED", "STRING"},
    "a column": {"BRACKETED"},
    "a value, text in quotes": {"STRING"},
    "=, !=, <, <=, >, >=, in or is missing": {"SAME"},
}
GO_ON = {
    "in": "_IN",
    "< or <=": "LESS",
    "> or >=": "MORE",
    "missing": "_MISSING",
    "a list in ( )": "LPAR",
    "a comma": "COMMA",
    '"and" or "or"': "_AND",
    ")": "RPAR",
}
# A value before the fault, with no column or operator after it: a text of several words, a unit.
_TEXT_BEFORE = re.compile(rf"[=<>≠≤≥(,]\s*(?P<text>{WORD})\s+$")
_NUMBER_BEFORE = re.compile(r"[=<>≠≤≥(,]\s*[+-]?[0-9.]+\s*$")
_QUOTED_BEFORE = re.compile(
    r"(?:^|(?<!\w)(?:and|or|not)\s|\()\s*\"(?P<name>[^\"]+)\"\s*(?P<sign>[<>≤≥]=?\s*)?$", re.I
)
_LEFT_ALONE = re.compile(
    r"(?<!\w)(?P<word>and|or)\s+(?:\"[^\"]*\"|'[^']*'|[0-9.]+)\s*$", re.IGNORECASE
)
_IS_COLUMN = re.compile(rf"\s*[=<>≠≤≥!]|\s+(?:is|in|not){_END}", re.IGNORECASE)
_AND_OF_OTHERS = re.compile(r"(?:[yeou]|ed|od|et|ou|und|oder)(?!\w)", re.IGNORECASE)
_SIGNS = re.compile(r"[=<>≠≤≥!\"'\[\]]")
# From the first of many blanks alone: from each of them the others would be read.
_TEXT_ENDS = re.compile(rf"(?<!\s)\s+(?:and|or){_END}|[(),]", re.IGNORECASE)
# What begins with a number and is none, as 2025-12-31 and 09:30, or has spaces in it, as 1 000.
_RUN = re.compile(r"(?<![\w.])(?:[0-9]{1,3}(?: [0-9]{3})+(?![\w.])|[0-9][\w.:/+\-]*)")
TURNED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Literal = tuple[object, Spot]


def read_text(given: str, builder: Builder) -> Where:
    """Parse a condition; raise InvalidRequest at the first place where it is none."""
    try:
        tree = _parser().parse(given)
    except UnexpectedInput as error:
        place = _place(error, given)
        said = _words(error, given, place)
        if builder.names is None:
            said += _bracketed(_named(given), given, place, "a column of that name")
        else:
            said += _bracketed(builder.names, given, place, "the column")
        raise InvalidRequest(Spot(character=1 + place).fault(said)) from None
    try:
        return cast(Where, _Reader(builder).transform(tree))
    except VisitError as error:  # how lark wraps what a rule raises
        raise error.orig_exc from None


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", start="any", maybe_placeholders=False)


@v_args(inline=True)
class _Reader(Transformer_NonRecursive[Token, Any]):
    """Builds conditions from the leaves up."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self._builder = builder

    def name(self, token: Token) -> tuple[str, Spot]:
        bracketed = token.type == "BRACKETED"
        return composed(token[1:-1].replace("]]", "]") if bracketed else str(token)), _at(token)

    def value(self, token: Token) -> Literal:
        if token.type == "NUMBER":
            return read_numeral(token), _at(token)
        if token.type == "STRING":
            plain = token[0] == token[-1]  # of quotes that open and close unlike, none is doubled
            return token[1:-1].replace(token[0] * 2, token[0]) if plain else token[1:-1], _at(token)
        return str(token), _at(token)

    literal = value

    def values(self, *values: Literal) -> tuple[Literal, ...]:
        return values

    def compare(self, name: tuple[str, Spot], sign: Token, value: Literal) -> Where:
        return self._builder.compare(name[0], _operator(sign), value[0], name[1], value[1])

    def turned(self, value: Literal, sign: Token, name: tuple[str, Spot]) -> Where:
        turned = TURNED[_operator(sign)]
        return self._builder.compare(name[0], turned, value[0], name[1], value[1])

    def between(
        self, low: Literal, first: Token, name: tuple[str, Spot], second: Token, high: Literal
    ) -> Where:
        parts = [self.turned(low, first, name), self.compare(name, second, high)]
        return self._builder.all_of(parts)

    def among(self, name: tuple[str, Spot], values: tuple[Literal, ...]) -> Where:
        column, at = name
        return self._builder.among(column, [v for v, _ in values], at, lambda n: values[n][1])

    def missing(self, name: tuple[str, Spot]) -> Where:
        return self._builder.missing(*name)

    def negated(self, part: Where) -> Where:
        return self._builder.negated(part)

    def every(self, *parts: Where) -> Where:
        return self._builder.all_of(parts)

    def any(self, *parts: Where) -> Where:
        return self._builder.any_of(parts)


def _operator(sign: Token) -> Operator:
    return OPERATORS.get(sign, cast(Operator, str(sign)))


def _at(token: Token) -> Spot:
    return Spot(character=(token.start_pos or 0) + 1)


# --- what is wrong ----------------------------------------------------------------------------


def _place(error: UnexpectedInput, given: str) -> int:
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    return len(given.rstrip()) if ended else error.pos_in_stream or 0


def _words(error: UnexpectedInput, given: str, place: int) -> str:
    if isinstance(error, UnexpectedCharacters):
        if error.char in OPENING:
            closing = "bracket" if error.char == "[" else "quote"
            return f"the {closing} that opens here is never closed"
        if error.char == "]" and given[:place].endswith("]"):
            return "']' is not expected here; a ] inside a name is written twice"
        if error.char in "%‰€$£" and given[:place].rstrip()[-1:].isdigit():
            return f"{shown(error.char)} is not expected here; write the number without its unit"
        before = _parser().parse_interactive(given[:place])
        before.exhaust_lexer()
        expected = _expected(before.accepts(), given, place)  # type: ignore[no-untyped-call]
        return f"{shown(error.char)} is not expected here{expected}"
    token = cast(UnexpectedToken, error).token
    accepted = cast(UnexpectedToken, error).accepts or ()
    expected = _expected(accepted, given, place)
    if token.type == "$END":
        return f"the condition ends too early{expected}"
    quoted = _QUOTED_BEFORE.search(given[:place])
    others = (
        ("NUMBER", "STRING")
        if quoted and quoted["sign"]
        else ("SAME", "OTHER", "_IN", "_IS", "_NOT")
    )
    if quoted and token.type in others:
        name = quoted["name"]
        written = name if re.fullmatch(WORD, name) else _in_brackets(name)
        return (
            f"{shown(str(token))} is not expected here; a column stands without quotes: {written}"
        )
    took = not {"_AND", "COMMA"}.isdisjoint(accepted)  # a value before
    if took and token.type == "WORD" and not _IS_COLUMN.match(given, place + len(token)):
        expected = _apart(given, place) or expected
    return f"{shown(str(token))} is not expected here{expected}"


def _apart(given: str, place: int) -> str:
    """Say how to write a value whose second word is the fault."""
    before = given[:place]
    if _AND_OF_OTHERS.match(given, place):
        return ""
    if _NUMBER_BEFORE.search(before):
        return "; write the number without its unit"
    if text := _TEXT_BEFORE.search(before):
        end = _TEXT_ENDS.search(given, place)
        whole = given[text.start("text") : end.start() if end else None].strip()
        if not _SIGNS.search(whole):
            return f'; write the text in quotes: "{short(whole, LONGEST_TOLD)}"'
    return ""


def _named(given: str) -> list[str]:
    """Give what may be names of columns, of several words or with signs in them."""
    names = (match["name"] for match in _NAMED.finditer(given))
    return [
        name
        for name in names
        if re.search(r"[^\W\d]", name) and name.split()[0].casefold() not in KEYWORDS
    ]


def _bracketed(names: Collection[str], given: str, place: int, what: str) -> str:
    """Say how to write the column that stands at the fault as no simple word may."""
    simple = re.compile(WORD)
    for name in filter(None, names):
        start = given.find(name, max(0, place - len(name)))
        at_fault = 0 <= start <= place <= start + len(name)
        amiss = given[start - 1 : start] not in OPENING or "]" in name  # which is to be doubled
        if at_fault and amiss and not simple.fullmatch(name):
            return f"; {what} is written {_in_brackets(name)}"
    return ""


def _in_brackets(name: str) -> str:
    return f"[{name.replace(']', ']]')}]"


def _expected(terminals: Collection[str], given: str, place: int) -> str:
    """Say what might have stood there."""
    found = set(terminals)
    for number in MARKED.finditer(given):
        amiss = number.start() < place < number.end()
        amiss |= number.start() == place and "NUMBER" in found  # that is, not for where it stands
        if amiss and (written := pointed(number[0])):
            return written
    for run in _RUN.finditer(given):
        inside = run.start() < place < run.end()
        if inside or (run.start() == place and not PLAIN.fullmatch(run[0])):
            apart = run[0].replace(" ", "")
            written = apart if apart.isdigit() else f'text in quotes: "{run[0]}"'
            return f"; write {written}"
    if alone := _LEFT_ALONE.search(given[:place]):
        return f'; after "{alone["word"]}" a whole condition begins, with its column'
    for word, needed in BEGIN.items():  # the tables of LALR list more than can follow these
        if needed <= found:
            return f"; write {word}"
    words = [word for word, terminal in GO_ON.items() if terminal in found]
    return f"; write {' or '.join(words)}" if words else ""

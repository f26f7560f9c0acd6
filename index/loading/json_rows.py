"""JSON documents and JSON Lines as rows. The json module decodes each entry."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from index.errors import UnreadableSource
from index.loading.options import LoadOptions
from index.loading.rows import BARE, KEYED, Reader, Row
from index.loading.sources import BLOCK, Source
from index.loading.text import LONGEST_LINE, bounded_lines, find_encoding, open_text
from index.memory import check_room
from index.naming import composed, not_a_name, repeated_names

LARGEST_JSON = 1 << 28  # characters of one document, whose text is held while it is read
PART = 1 << 16  # characters of it, from which entries are decoded
HELD = 2.25  # times the text that reading it takes for a while, at most
LONGEST_WORD = 16  # characters of what is read otherwise where its end is cut off, as -Infinity


class _JsonReader(Reader):
    unnamed = (KEYED, BARE)

    def __init__(self, source: Source, options: LoadOptions) -> None:
        self._source = source
        self._encoding = find_encoding(source, options)
        self.detected = {"encoding": self._encoding}


class JsonLinesReader(_JsonReader):
    """One JSON value a line."""

    def __iter__(self) -> Iterator[Row]:
        shape = _Shape()
        with open_text(self._source, self._encoding) as text:
            for number, line in enumerate(bounded_lines(text, self._source.name), 1):
                if line.isspace():
                    continue
                try:
                    item = _DECODER.decode(line.rstrip("\r\n"))  # a fault at the end is in it
                except RecursionError:
                    yield Row(number, {}, "the JSON is nested too deep")
                except json.JSONDecodeError as error:
                    yield Row(number, {}, f"not JSON: {error.msg} at column {error.colno}")
                except ValueError:  # Python reads no integer of thousands of digits
                    yield Row(number, {}, "an integer of thousands of digits")
                else:
                    yield shape.row(number, item)


class JsonReader(_JsonReader):
    """One JSON document, read entry by entry: only its text is held, not its values.

    A document may be one long line, so a fault also names the entry, counted from 1.
    """

    place = "in entry"

    def __iter__(self) -> Iterator[Row]:
        check_room(self._held, "convert it to JSON Lines, or load where more is free")
        name = self._source.name
        with open_text(self._source, self._encoding) as opened:
            text = opened.read(LARGEST_JSON + 1)
        if len(text) > LARGEST_JSON:
            raise UnreadableSource(
                f"{name} is JSON of more than {LARGEST_JSON:,} characters; convert it to JSON Lines"
            )
        try:
            yield from self._entries(_Document(text, name))
        except RecursionError:
            raise UnreadableSource(f"{name}: the JSON is nested too deep") from None
        except json.JSONDecodeError as error:
            raise UnreadableSource(
                f"{name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from error
        except UnreadableSource:
            raise
        except ValueError:  # Python reads no integer of thousands of digits
            message = f"{name}: an integer of thousands of digits; write it as text"
            raise UnreadableSource(message) from None

    @cached_property
    def _held(self) -> int:
        """Bytes that reading takes for a while: a text is all as wide as its widest letter."""
        size, width = 0, 1
        with open_text(self._source, self._encoding) as text:
            for block in iter(lambda: text.read(BLOCK), ""):
                size += len(block)
                if size > LARGEST_JSON:
                    return 0  # it is refused for that
                if not block.isascii():
                    widest = max(block)
                    width = max(width, 4 if widest > "\uffff" else 2 if widest > "\xff" else 1)
        return round(HELD * size * width)

    def _entries(self, document: _Document) -> Iterator[Row]:
        shape = _Shape()
        line, counted = 1, 0
        for number, (at, key, item) in enumerate(_top_level(document), 1):
            line, counted = line + document.text.count("\n", counted, at), at
            row = shape.row(line, item) if key is None else shape.pair(line, key, item)
            yield row._replace(entry=number)


class _Document:
    """A text whose values are decoded from a part of it, as long as the longest so far needs.

    A call of the decoder holds all other threads up, so no value may be as long as the document.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self._name = name
        self._size = PART
        self._take(0)

    def value(self, at: int) -> tuple[Any, int]:
        """Decode the value that starts at a place, and say where it ends."""
        while True:
            try:
                value, after = _DECODER.raw_decode(self._part, at - self._start)
            except json.JSONDecodeError as error:
                unclosed = error.msg.startswith("Unterminated string") and self._sure < math.inf
                if not unclosed and error.pos < self._sure:
                    place = self._start + error.pos
                    raise json.JSONDecodeError(error.msg, self.text, place) from None
            else:
                if after < self._sure:
                    return value, self._start + after
            self._go_on(at)

    def _take(self, at: int) -> None:
        self._start, self._part = at, self.text[at : at + self._size]
        cut = at + self._size < len(self.text)
        # Where 1.5e+3 is cut after its e+, 1.5 is read.
        self._sure = len(self._part) - LONGEST_WORD if cut else math.inf

    def _go_on(self, at: int) -> None:
        """Take the part from a place on; a longer one, where that is what there is."""
        if at == self._start:
            if self._size == LONGEST_LINE:
                raise UnreadableSource(
                    f"{self._name}: the entry at character {at + 1:,} is longer than "
                    f"{LONGEST_LINE:,} characters; is it a table?"
                )
            self._size = min(8 * self._size, LONGEST_LINE)
        self._take(at)


def _top_level(document: _Document) -> Iterator[tuple[int, str | None, Any]]:
    """Give the entries of a document's outer list or object: where they start, key, value."""
    text = document.text
    at = _after_blanks(text, 0)
    keyed = text.startswith("{", at)
    if not keyed and not text.startswith("[", at):
        raise json.JSONDecodeError("Expecting a list or an object", text, at)
    closing = "}" if keyed else "]"
    at = _after_blanks(text, at + 1)
    done = text.startswith(closing, at)
    while not done:
        start, key = at, None
        if keyed:
            if not text.startswith('"', at):
                raise json.JSONDecodeError("Expecting a key in double quotes", text, at)
            key, at = document.value(at)
            at = _after_blanks(text, at)
            if not text.startswith(":", at):
                raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
            at = _after_blanks(text, at + 1)
        item, at = document.value(at)
        yield start, key, item
        at = _after_blanks(text, at)
        done = text.startswith(closing, at)
        if not done:
            if not text.startswith(",", at):
                raise json.JSONDecodeError(f"Expecting ',' or '{closing}'", text, at)
            at = _after_blanks(text, at + 1)
    end = _after_blanks(text, at + 1)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)


class _Object(dict[str, Any]):
    """A JSON object that remembers a name that it holds twice."""

    repeated: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object((composed(name), item) for name, item in pairs)
    if len(made) < len(pairs):
        made.repeated = repeated_names(composed(name) for name, _ in pairs)[0]
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
_BLANKS = re.compile(r"[ \t\r\n]*")


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


class _Shape:
    """Turns JSON values into rows; the first one says which shape all of them have."""

    def __init__(self) -> None:
        self._shape: str | None = None

    def row(self, line: int, item: Any) -> Row:
        """An object of cells, a pair of key and value, or a key alone."""
        if isinstance(item, list) and len(item) == 2:
            return self.pair(line, item[0], item[1])
        if isinstance(item, dict):
            return self._fitted("an object", item, Row(line, item))
        if isinstance(item, str):
            return self._fitted("text", item, Row(line, {KEYED: item}))
        kind = "a list that is no pair" if isinstance(item, list) else _json_kind(item)
        return Row(line, {}, f"{kind}, where an object, a pair or text is expected")

    def pair(self, line: int, key: Any, value: Any) -> Row:
        """A key with an object of cells or with a bare value; null may stand for either."""
        if isinstance(value, dict):
            return self._fitted("a key with an object", value, Row(line, {KEYED: key, **value}))
        if value is None and self._shape != "a key with a value":
            return Row(line, {KEYED: key})
        return self._fitted("a key with a value", value, Row(line, {KEYED: key, BARE: value}))

    def _fitted(self, shape: str, item: Any, row: Row) -> Row:
        self._shape = self._shape or shape
        if self._shape != shape:
            inside = shape == "a key with an object"  # {"base": "EUR", "rates": {"USD": 1.1}}
            advice = "; if that is the table, load it by itself" if inside else ""
            return Row(row.line, {}, f"{shape}, where the first entry is {self._shape}{advice}")
        if isinstance(item, _Object) and item.repeated is not None:
            return Row(row.line, {}, f"the object holds {item.repeated!r} twice")
        for name in (KEYED, BARE):
            if isinstance(item, dict) and name in item:  # it would be taken for what stands outside
                return Row(row.line, {}, not_a_name(name))
        return row


def _json_kind(item: object) -> str:
    if item is None:
        return "null"
    return "a boolean" if isinstance(item, bool) else "a number"

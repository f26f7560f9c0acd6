"""Whether the first row of delimited text names the columns, and which columns hold keys."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, zip_longest

from index.loading.dialect import DELIMITERS, NO_DELIMITER, Dialect, ruled_line
from index.loading.kinds import kind_in_text
from index.loading.units import is_measure, unit_apart

# Columns that hold keys, the surest first; compared without case and accents.
KEY_NAMES = (
    *("key", "keys", "clave", "claves", "llave", "llaves", "cle", "schlussel"),
    *("palabra", "word", "mot", "wort", "termino", "term", "terme", "begriff"),
    *("texto", "text", "texte", "nombre", "name", "nom"),
    *("pregunta", "question", "frage", "consulta", "query", "frase", "phrase", "utterance"),
    *("titulo", "title", "titre", "titel", "concepto", "concept", "designation", "bezeichnung"),
    *("producto", "product", "produit", "produkt", "articulo", "item", "article", "artikel"),
)
ID_NAMES = ("id", "codigo", "code")  # keys only where no other column has text

MANY_YEARS = 3  # in order are hardly prices
FEW_YEARS = 4  # times as many cells as are like years, and they are numbers
_COUNTED = re.compile(r"[1-9]\d{0,2}|0", re.ASCII)
_DATE = re.compile(r"\d{1,4}([/.\-])\d\d?\1\d{1,4}(?:[T ]\d\d?:\d\d.*)?", re.ASCII)
_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)


def is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Say whether the first of some rows names columns, by what it and the second one hold.

    One that names a known key column does. Else it does unless it holds a number, a vector, an
    empty or a repeated cell, a mark of a missing value (n.d.), a label that stands again in its
    column, a date over dates or a question over questions, has one cell only (a list of words) or
    is the only row. Numbers are names, though, where three stand in even steps over what do not; so
    are three years in order over what are hardly any, and measures (100 m) over what is none in
    their unit. Fewer years, and steps beside words, are where a word or an empty first cell stands
    over numbers alone; years that follow one another are without words beside them; and where two
    words stand so, a label may stand again. The first cell may be empty, as over the index of a
    data frame, and others where a name stands over a number. Columns in which no row has anything
    are not looked at.
    """
    every = ([cell.strip() for cell in cells] for cells in zip_longest(*rows, fillvalue=""))
    columns = [cells for cells in every if any(cells)]
    names = [cells[0] for cells in columns]
    if _names_keys(names):
        return True
    if len(rows) < 2 or len(names) < 2 or any(map(_is_gap, names[1:])):
        return False
    below = [cells[1] for cells in columns]
    if any(map(_are_measured, names, [_first_value(cells[1:]) for cells in columns])):
        return False
    # Of files that were put one behind the other, each has the header.
    comes_again = any(list(row) == list(rows[0]) for row in rows[1:])
    like_a_row = any(map(_is_a_value, columns[1:])) or any(map(_is_a_question, columns))
    if like_a_row and not comes_again and not _head_numbers(columns):
        return False
    named = [pair for pair in zip(names, below, strict=True) if pair[0]]
    if names[0] and (len(set(names)) < len(names) or len(named) < len(names)):
        are_names = len(named) > 1 and all(_is_name(name) for name, _ in named)
        return are_names and _stand_over_a_value(named)
    if not _is_name(names[0]) and (names[0] or not below[0]):
        return False
    return _name_values(columns)


def header_below(sample: Sequence[str], dialect: Dialect) -> int | None:
    """Give the line that names columns below titles, where there is no doubt of it."""
    ruled = ruled_line(sample)
    if ruled and ruled[1] and not any("|" in title for title in ruled[1]):
        return ruled[0]
    own = dialect.delimiter
    for delimiter in DELIMITERS if own == NO_DELIMITER else (own,):
        rows = list(_readable(sample, replace(dialect, delimiter=delimiter)))
        for nameless in (False, True):
            line, table = _below_titles(rows, nameless)
            if len(table) > 1 and _is_surely_header(table):
                return line
    return _fullest(_readable(sample, dialect))


def _readable(sample: Sequence[str], dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Give the rows of a sample, each with its line, as far as they can be read."""
    rows = dialect.rows(sample[dialect.skipped :])
    with suppress(csv.Error):
        for row in rows:
            yield dialect.skipped + rows.line_num, row


def _is_surely_header(rows: Sequence[Sequence[str]]) -> bool:
    """Say whether the first row of those below titles names columns: one over a value, or of keys.

    They are equally long.
    """
    keys, *others = zip(*rows, strict=True)
    columns = [keys, *(cells for cells in others if cells[0].strip())]
    if len(columns) < 2 or any(cells[0][:1] == " " for cells in columns):
        return False
    columns = [tuple(map(str.strip, cells)) for cells in columns]
    first = columns[0][0]
    if (first and not _is_name(first)) or not _name_values(columns):
        return False
    above = [cells[0] for cells in columns[1:]]
    are_names = _are_many_years(above) or any(map(_is_name, above))
    over_a_value = _stand_over_a_value([cells[:2] for cells in columns])
    return _names_keys(rows[0]) or (are_names and over_a_value)


def _fullest(rows: Iterable[tuple[int, Sequence[str]]]) -> int | None:
    """Give the line of headings that fill more columns than any row above it.

    What is above are titles of two cells, as "Customer: | ACME".
    """
    most = found = above = 0
    names: list[str] = []
    for line, row in rows:
        cells = [*map(str.strip, row)]
        filled = sum(map(bool, cells))
        if names and filled:
            if filled <= above:  # as these do
                return None
            pairs = zip_longest(names, cells, fillvalue="")  # years over years are no headings
            named = [pair for pair in pairs if pair[0] and not all(map(_is_year, pair))]
            return found if _stand_over_a_value(named) else None
        if 0 < most < filled and _are_headings(cells):
            found, names, above = line, cells, most
        most = max(most, filled)
    return None


def _are_headings(cells: Sequence[str]) -> bool:
    """Say whether words name a column of keys, or three years in order stand beside them."""
    others = [cell for cell in cells if cell and not _is_name(cell)]
    if not others:
        return _names_keys(cells)
    return _are_many_years(others) and _is_name(cells[0]) and _is_in_order(_between(others))


def _below_titles(
    rows: Iterable[tuple[int, list[str]]], nameless: bool
) -> tuple[int, list[list[str]]]:
    """Give the rows of a table, if they are even, and its line; none where no title is above it.

    Titles fill no more than the first cell of a row, and so do notes below the table; headings
    over several columns leave it empty. So may the names of ``nameless`` keys, and no others.
    """
    table: list[list[str]] = []
    begun = titles = 0
    for line, row in rows:
        filled = [bool(cell.strip()) for cell in row]
        begins = filled[:1] == [True] or (nameless and all(filled[1:]))
        if table or (begins and any(filled[1:])):
            begun = begun or line
            table += [row] if any(filled) else []
        else:
            titles += any(filled)
    while table and not any(map(str.strip, table[-1][1:])):
        table.pop()
    whole = [row for row in table if any(map(str.strip, row[1:]))]  # without notes between them
    table = whole if 2 * len(whole) > len(table) else []
    return begun, table if titles and len({len(row) for row in table}) == 1 else []


def _stand_over_a_value(named: Sequence[tuple[str, str]]) -> bool:
    """Say whether one of some cells stands over a number or a vector."""
    return any(cell.strip() and not _is_name(cell) for _, cell in named)


def _name_values(columns: Sequence[Sequence[str]]) -> bool:
    """Say whether the first cells of columns of values, which follow the first one, are names.

    They are words, years or steps. Fewer than three years, unless they stand alone and follow one
    another, and steps beside words count where one of these or the first cell heads numbers alone.
    """
    keys, *values = columns
    numbered = [cells for cells in values if not _is_name(cells[0])]
    if not numbered:
        return True
    above = [cells[0] for cells in numbered]
    alone = len(numbered) == len(values)
    headed = any(map(_holds_numbers, (keys, *_under_words(columns))))
    if not all(map(_is_year, above)):
        below = [cells[1] for cells in numbered]
        if not any("%" in cell for cell in below):
            above = [cell.removesuffix("%") for cell in above]  # quantiles
        return (alone or headed) and _name_steps(above, below)
    steps = _between(above)
    if alone and set(steps) in ({1}, {-1}):
        return True
    filled = [cell for cells in numbered for cell in cells[1:] if cell]  # 2,019 sold is no year
    few = FEW_YEARS * sum(map(_is_year, filled)) < max(len(filled), 1)
    return few and _is_in_order(steps) and (headed or len(above) >= MANY_YEARS)


def _under_words(columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Give the columns under words, but for remarks in small letters (sold out) beside others."""
    first = columns[0][0]
    words = [cells for cells in columns if kind_in_text(cells[0]).name == "label"]
    return [cells for cells in words if first.islower() or not (first and cells[0].islower())]


def _head_numbers(columns: Sequence[Sequence[str]]) -> bool:
    """Say whether two words stand over numbers alone, in a row without numbers and dates."""
    above = [cells[0] for cells in columns if cells[0]]
    heads = {cells[0] for cells in _under_words(columns) if _holds_numbers(cells)}
    return len(heads) > 1 and all(map(_is_name, above)) and not any(map(_DATE.fullmatch, above))


def _holds_numbers(cells: Sequence[str]) -> bool:
    """Say whether what is below the first cell are numbers, and there are some."""
    filled = [cell for cell in cells[1:] if cell]
    return bool(filled) and not any(map(_is_name, filled))


def _is_year(cell: str) -> bool:
    return _YEAR.fullmatch(unit_apart(cell)[0]) is not None  # 2019 USD is one, too


def _between(years: Iterable[str]) -> list[int]:
    """Give the steps from each year to the next."""
    return [int(b) - int(a) for a, b in pairwise(unit_apart(year)[0] for year in years)]


def _are_many_years(cells: Sequence[str]) -> bool:
    return len(cells) >= MANY_YEARS and all(map(_is_year, cells))


def _is_in_order(steps: Sequence[int]) -> bool:
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def _name_steps(above: Sequence[str], below: Sequence[str]) -> bool:
    """Say whether cells are three whole numbers or more in even steps, over what are not."""

    def steps(cells: Sequence[str]) -> set[int]:
        numbers = all(map(_COUNTED.fullmatch, cells))
        return {int(b) - int(a) for a, b in pairwise(cells)} if numbers else set()

    return len(above) > 2 and len(steps(above)) == 1 != len(steps(below)) and steps(above) != {0}


def _names_keys(cells: Iterable[str]) -> bool:
    return any(fold(cell) in (*KEY_NAMES, *ID_NAMES) for cell in cells)


def _is_name(cell: str) -> bool:
    kind = kind_in_text(cell)
    return kind.name in ("label", "mark") or is_measure(kind.unit)  # as 100 m over times


def _is_gap(cell: str) -> bool:
    """Say whether it says that there is no value, and is no word: Na is sodium, too."""
    return kind_in_text(cell).name == "mark" and not cell.isalpha()


def _first_value(cells: Iterable[str]) -> str:
    """Give the first cell that is no gap."""
    return next((cell for cell in cells if kind_in_text(cell).name not in ("missing", "mark")), "")


def _are_measured(above: str, below: str) -> bool:
    unit = kind_in_text(above).unit
    return is_measure(unit) and unit == kind_in_text(below).unit


def _is_a_value(cells: Sequence[str]) -> bool:
    """Say whether a first cell is one of its column's labels, which repeat, or of its dates."""
    first, *below = cells
    filled = list(filter(None, below))
    if not first or not filled:
        return False
    repeat = 3 * len({first, *filled}) <= 2 * (1 + len(filled))
    return (repeat and first in filled) or all(map(_DATE.fullmatch, (first, *filled)))


def _is_a_question(cells: Sequence[str]) -> bool:
    """Say whether a first cell is one of several words over nothing but questions."""
    filled = [cell for cell in cells if cell]
    return " " in cells[0] and len(filled) > 1 and all(cell.endswith("?") for cell in filled)


def fold(name: str) -> str:
    """Take case, accents and blanks around it off a name."""
    letters = unicodedata.normalize("NFKD", name.strip().casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))

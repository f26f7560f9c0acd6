"""where: a filter on columns, in text and as JSON, beside plain loops over the entries."""

from __future__ import annotations

import enum
import json
import math
import re
import tracemalloc
import unicodedata
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from index import Column, SoftDict, open_encoder
from index.errors import TOLD, InvalidRequest
from index.where import Among, And, Compare, Missing, Not, Or, parse_where
from index.where.building import DEEPEST, MOST, MOST_VALUES
from index.where.parsing import LONGEST
from index.wording import GUESSED
from tests import oracle

ROOT = Path(__file__).parents[1]
ENCODER = "random:1"
COLUMNS = (
    Column("price", "number"),
    Column("año", "number", attribute=True),
    Column("tag", "category"),
    Column("precio de venta]", "text", attribute=True),
    Column("rgb", "vector", 2),
)
NUMBERS, LABELS = ("price", "año"), ("tag", "precio de venta]")

# --- an oracle: the JSON form, read by plain loops --------------------------------------------


def holds(document, values) -> bool:
    return all(_holds(name, part, values) for name, part in document.items())


def _holds(name, part, values) -> bool:
    if name == "and":
        return all(holds(each, values) for each in part)
    if name == "or":
        return any(holds(each, values) for each in part)
    if name == "not":
        return not holds(part, values)
    value = values.get(name)
    if part is None:
        return value is None
    if not isinstance(part, dict):
        part = {"eq": part}
    compared = {
        "eq": lambda other: value is not None and value == other,
        "ne": lambda other: value is None or value != other,
        "lt": lambda other: value is not None and value < other,
        "lte": lambda other: value is not None and value <= other,
        "gt": lambda other: value is not None and value > other,
        "gte": lambda other: value is not None and value >= other,
        "in": lambda others: value is not None and value in others,
        "missing": lambda wanted: (value is None) == wanted,
    }
    return all(compared[sign](other) for sign, other in part.items())


numbers = st.integers(-3, 3) | st.floats(-3, 3).map(lambda x: round(x, 1))
labels = st.sampled_from(["a", "b", "and", "ES", 'say "so"', "it's", "", "true", "x]", "a\nb", "ñ"])
documents = st.recursive(
    st.one_of(
        st.dictionaries(st.sampled_from(NUMBERS), numbers | st.none(), min_size=1),
        st.dictionaries(st.sampled_from(LABELS), labels | st.none(), min_size=1),
        st.dictionaries(
            st.sampled_from(NUMBERS),
            st.dictionaries(
                st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte"]), numbers, min_size=1
            ),
            min_size=1,
        ),
        st.dictionaries(
            st.sampled_from(LABELS),
            st.fixed_dictionaries({"in": st.lists(labels, max_size=3)})
            | st.fixed_dictionaries({"ne": labels})
            | st.fixed_dictionaries({"missing": st.booleans()}),
            min_size=1,
        ),
        st.fixed_dictionaries({"price": st.fixed_dictionaries({"in": st.lists(numbers)})}),
        st.fixed_dictionaries({"rgb": st.none() | st.just({"missing": False})}),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=6,
)
entries = st.fixed_dictionaries(
    {
        "price": st.none() | numbers,
        "año": st.none() | numbers,
        "tag": st.none() | labels,
        "precio de venta]": st.none() | labels,
        "rgb": st.none() | st.just((1.0, 2.0)),
    }
)


# --- the two forms ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('country = "ES"', {"country": "ES"}),
        ("country = ES", {"country": {"eq": "ES"}}),
        ("country == 'ES'", {"country": "ES"}),
        ("tag != a", {"tag": {"ne": "a"}}),
        ("not tag = a", {"not": {"tag": "a"}}),
        ("1 <= price < 10", {"price": {"gte": 1, "lt": 10}}),
        ("10 ≥ price > 1", {"price": {"lte": 10, "gt": 1}}),
        ("5 > price", {"price": {"lt": 5}}),
        ("price > -1.5e2", {"price": {"gt": -150}}),
        ("tag in (a, 'b c', true)", {"tag": {"in": ["a", "b c", True]}}),
        ("price not in (1, 2)", {"not": {"price": {"in": [1, 2]}}}),
        ("price in (8,5)", {"price": {"in": [8, 5]}}),
        ("tag in ()", {"tag": {"in": []}}),
        ("tag is missing", {"tag": None}),
        ("tag is not missing", {"tag": {"missing": False}}),
        (
            "año >= 2020 AND [precio de venta] < 5",
            {"año": {"gte": 2020}, "precio de venta": {"lt": 5}},
        ),
        ("[a]]b] = 1", {"a]b": 1}),
        ("a = 1 or b = 2 and not c = 3", {"or": [{"a": 1}, {"b": 2, "not": {"c": 3}}]}),
        ("(a = 1 or b = 2) and c = 3", {"and": [{"or": [{"a": 1}, {"b": 2}]}, {"c": 3}]}),
        ("a = 1 and (b = 2 and c = 3)", {"a": 1, "b": 2, "c": 3}),
        ("android = notable and inn = islet", {"android": "notable", "inn": "islet"}),
    ],
)
def test_the_two_forms_say_the_same(text, document):
    assert parse_where(text) == parse_where(document)
    assert parse_where(json.dumps(document)) == parse_where(document)


@pytest.mark.parametrize("page", ["docs/questions.md", "docs/questions.es.md"])
def test_the_table_of_the_page_says_the_same_in_both_columns(page):
    rows = re.findall(r"^\| `(.+)` \| `(\{.+)` \|$", (ROOT / page).read_text("utf-8"), re.M)
    pairs = [
        (text, document)
        for texts, written in rows
        for text, document in zip(texts.split("`, `"), written.split("`, `"), strict=True)
    ]

    assert len(pairs) == 9
    for text, document in pairs:
        assert parse_where(text) == parse_where(document), text


def test_what_a_condition_is_made_of():
    where = parse_where('country = "ES" and (price >= 5 or not tag in (a, b)) and tag is missing')

    assert where == And(
        (
            Compare("country", "=", "ES"),
            Or((Compare("price", ">=", 5.0), Not(Among("tag", ("a", "b"))))),
            Missing("tag"),
        )
    )
    assert parse_where(None) is None
    # JSON has another use for such a column's name; the text form reaches it.
    assert parse_where("[and] = 'it''s \"so\"'") == Compare("and", "=", 'it\'s "so"')


def written(where) -> str:
    """Write a condition in the readable form, with brackets and quotes everywhere."""
    match where:
        case Compare(column, sign, value):
            return f"{_name(column)} {sign} {_literal(value)}"
        case Among(column, values):
            return f"{_name(column)} in ({', '.join(map(_literal, values))})"
        case Missing(column):
            return f"{_name(column)} is missing"
        case Not(part):
            return f"not ({written(part)})"
        case And(parts):
            return " and ".join(f"({written(part)})" for part in parts)
        case Or(parts):
            return " or ".join(f"({written(part)})" for part in parts)


def _name(column: str) -> str:
    return "[" + column.replace("]", "]]") + "]"


def _literal(value: float | str) -> str:
    return repr(value) if isinstance(value, float) else '"' + value.replace('"', '""') + '"'


@given(documents)
@settings(deadline=None)  # the first text makes the parser
def test_what_is_written_out_reads_back_as_the_same(document):
    where = parse_where(document, COLUMNS)

    assert parse_where(written(where), COLUMNS) == where


@given(st.text(max_size=40), st.text())
@example("\uf900", "\uf900")  # of Unicode's letters that are written as another
@settings(deadline=None)  # the first text makes the parser
def test_any_name_and_any_label_can_be_written(name, label):
    typed = unicodedata.normalize("NFC", name)  # as names of columns are held; labels stay
    parsed = parse_where(written(Compare(name, "=", label)))

    assert parsed == Compare(typed, "=", label)
    assert parse_where(written(Among(name, (label, label)))) == Among(typed, (label, label))


@given(st.text("()[]<>=!\"'ab1.,- ≤\nandorti", max_size=30))
@settings(deadline=None)  # the first text makes the parser
def test_no_text_breaks_the_parser(text):
    try:
        where = parse_where(text, COLUMNS)
    except InvalidRequest as refused:
        assert {fault.where.partition(".")[0] for fault in refused.faults} == {"where"}
    else:
        assert parse_where(written(where)) == where


# --- what is refused --------------------------------------------------------------------------


def faults(given, columns=COLUMNS):
    with pytest.raises(InvalidRequest) as refused:
        parse_where(given, columns)
    return [(fault.where, fault.message) for fault in refused.value.faults]


@pytest.mark.parametrize(
    ("text", "character", "words"),
    [
        ("", 1, "ends too early; write a condition"),
        ("price >", 8, "ends too early; write a value"),
        ("price > 5 tag = a", 11, '\'tag\' is not expected here; write "and" or "or"'),
        ("price between 1 and 5", 7, "'between' is not expected here; write =, !=, <"),
        ("price > 8,5", 10, "',' is not expected here; write 8.5, with a point"),
        ("price >   ", 8, "ends too early; write a value"),
        ("price = 5;", 10, '\';\' is not expected here; write "and" or "or"'),
        ("(price = 5;", 11, '\';\' is not expected here; write "and" or "or" or )'),
        ("price in (5;", 12, "';' is not expected here; write a comma or )"),
        ("price = 5‰", 10, "'‰' is not expected here; write the number without its unit"),
        ("price = 10%", 11, "'%' is not expected here; write the number without its unit"),
        ("price < 1.30 €", 14, "'€' is not expected here; write the number without its unit"),
        ("price < 5 and %", 15, "'%' is not expected here; write a condition"),
        ("[price] <= -8,50 and tag = a", 14, "',' is not expected here; write -8.50, with"),
        ("1,5 < price < 2", 2, "',' is not expected here; write 1.5, with"),
        ("price > 1.234,50", 14, "',' is not expected here; write 1234.50, with"),
        ("price > 1,234.50", 10, "',' is not expected here; write 1234.50, with"),
        ("price > 1.234.567", 9, "'1' is not expected here; write 1234567, with"),
        ("price > 1,234", 10, "',' is not expected here; write 1234 or 1.234, with"),
        ("price > 1,234,567", 10, "',' is not expected here; write 1234567, with"),
        ("price > '8,5'", 9, "'price' holds numbers, and '8,5' is none; write 8.5, with"),
        ("tag = 1 and price < 8.5 7.5", 25, "'7.5' is not expected here; write \"and\" or"),
        ("price in 8,5", 10, "'8' is not expected here; write a list in ( )"),
        ("price in (8,5", 14, "the condition ends too early; write "),
        ("price > 8, 5", 10, "',' is not expected here; write \"and\" or"),
        ("price in (8,5;9,5)", 14, "';' is not expected here; write a comma or"),
        ("price > 5 and and tag = a", 15, "'and' is not expected here; write a condition"),
        (
            "tag = 2025-12-31",
            11,
            "'-12' is not expected here; write text in quotes: \"2025-12-31\"",
        ),
        ("tag in (09:30, 10:30)", 11, 'write text in quotes: "09:30"'),
        ("tag = 5f2a", 7, 'write text in quotes: "5f2a"'),
        ("price > 1 000 and tag = a", 11, "'000' is not expected here; write 1000"),
        ("price in (1 000, 2 000)", 13, "'000' is not expected here; write 1000"),
        ("(price > 5", 11, "ends too early; write )"),
        ("price > 5)", 10, "')' is not expected"),
        ('tag = "a', 7, "the quote that opens here is never closed"),
        ("[price = 3", 1, "the bracket that opens here is never closed"),
        ("[cost [1-5]] > 3", 12, "']' is not expected here; a ] inside a name is written twice"),
        ("1 < price > 3", 11, "'>' is not expected here; write < or <="),
        ("tag is", 7, "write missing"),
        ("tag in a", 8, "write a list in ( )"),
        ("price > 1e999", 9, "write a finite number"),
        ("price = 9007199254740993", 9, "is not exact; load the column as text, and put it in quo"),
        ("-9007199254740993 < price", 1, "is not exact"),
        ("price in (1, 9007199254740993)", 14, "is not exact"),
        ("tag = 9007199254740993", 7, "'tag' holds labels; put the number in quotes"),
        ("price > " + "9" * 9_000, 9, "write a finite number"),
        ("price > NaN", 9, "'price' holds numbers, and 'NaN' is none"),
        ("price = true", 9, "'price' holds numbers, and 'true' is none"),
        ("tag = 5", 7, "'tag' holds labels; put the number in quotes"),
        ("tag < b", 1, "'tag' holds labels, which have no order; use = or in"),
        ("rgb = 5", 1, "'rgb' holds vectors; only whether it is missing can be asked"),
        ("rgb in (5)", 1, "'rgb' holds vectors"),
        (
            "prize > 5",
            1,
            "there is no column 'prize'; did you mean 'price'? there are: price, año,",
        ),
    ],
)
def test_a_fault_of_the_text_is_named_by_its_character(text, character, words):
    ((where, message),) = faults(text)

    assert where == "where"
    assert message.startswith(f"character {character}: ")
    assert words in message


def test_all_faults_that_are_not_of_the_grammar_come_at_once():
    said = faults("prize > 5 or tag < 3 and (rgb = 1 or price in (1, x, y))")

    assert [message.partition(":")[0] for _, message in said] == [
        f"character {place}" for place in (1, 14, 27, 51, 54)
    ]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({}, ["where"]),
        ({"price": {}}, ["where.price"]),
        ({"price": {"above": 5}}, ["where.price.above"]),
        ({"price": [1, 2]}, ["where.price"]),
        ({"price": True}, ["where.price"]),
        ({"price": {"gt": math.nan, "lt": math.inf}}, ["where.price.gt", "where.price.lt"]),
        ({"price": 10**400}, ["where.price"]),
        ({"price": {"eq": None}}, ["where.price.eq"]),
        ({"tag": {"in": "a"}}, ["where.tag.in"]),
        ({"tag": {"in": ["a", 3, None]}}, ["where.tag.in.1", "where.tag.in.2"]),
        ({"price": {"in": np.float64(3)}}, ["where.price.in"]),
        ({"price": {"in": range(10**30)}}, ["where.price"]),
        ({"price": date(2025, 12, 31)}, ["where.price"]),
        ({"tag": {"missing": 1}}, ["where.tag.missing"]),
        ({"and": []}, ["where.and"]),
        ({"or": {"price": 1}}, ["where.or"]),
        ({"not": 3}, ["where.not"]),
        (
            {"or": [{"prize": 1}, 7, {"tag": {"lt": "b"}}]},
            ["where.or.0.prize", "where.or.1", "where.or.2.tag"],
        ),
        (7, ["where"]),
        (["price"], ["where"]),
        ({"price": 2**53 + 1}, ["where.price"]),
        ({"price": {"in": [1, 2**53 + 1]}}, ["where.price.in.1"]),
        ({"price": np.int64(2**53 + 1)}, ["where.price"]),
        (True, ["where"]),
    ],
)
def test_a_fault_of_the_json_is_named_by_its_path(document, where):
    assert [place for place, _ in faults(document)] == where


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"price": }', "character 11: this is not JSON"),
        ('{"price": 1, "price": 2}', "'price' stands twice in an object"),
        ('{"price": NaN}', "write a finite number"),
        (f'{{"price": {"9" * 5_000}}}', "write a finite number"),
        ('{"price": 9007199254740993}', "is not exact"),
        ('{"price": 9007199254740993.0}', "is not exact"),
        ("price = 9007199254740993.0", "is not exact"),
        ("price = 9.007199254740993e15", "is not exact"),
        (f"price = 1e{'9' * 30}", "write a finite number"),
        (f'{{"price": -1e{"9" * 30}}}', "write a finite number"),
        ('{"\\ud800": 1}', "half a character"),
        ('{"not":' * 1_200 + "1" + "}" * 1_200, "deep"),
        ('{"not":' * 100 + "1" + "}" * 100, "deep"),
        ("not " * 100 + "price = 1", "deep"),
        ("x" * (LONGEST + 1), f"at most {LONGEST:,} characters"),
        (" or ".join(["price=1"] * (MOST + 1)), f"at most {MOST} comparisons"),
    ],
)
def test_json_as_text_and_what_is_too_much(text, words):
    ((_, message),) = faults(text)

    assert words in message


def test_of_very_many_faults_the_first_are_named():
    for document in ({"or": [{}] * 100_000}, {"tag": {"in": [1] * MOST_VALUES}}):
        *named, rest = faults(document)

        assert (len(named), rest[0]) == (TOLD - 1, "where")
        assert "what follows was not looked at" in rest[1]


def test_of_very_many_columns_the_first_are_listed():
    columns = [Column(f"column {number}", "number") for number in range(500)]
    for _, message in faults({f"other {number}": 1 for number in range(50)}, columns):
        assert message.endswith("column 19 and 480 more") and len(message) < 500


@pytest.mark.parametrize("many", [MOST_VALUES, 10 * MOST_VALUES])
def test_a_long_name_over_many_values_is_written_for_faults_alone(many):
    """A path for every value was made before they were counted: gigabytes for half a megabyte."""
    name = "A" * 300_000
    document = {"and": [{name: {"in": [1] * many}}]}
    tracemalloc.start()
    try:
        ((where, _), *_) = faults(document)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 20e6
    assert where.startswith("where.and.0.AAA") and len(where) < 300


@pytest.mark.parametrize(
    ("text", "character", "words"),
    [
        ("and " * 100, 1, "'and' is not expected here; write a condition"),
        ("a = b c", 7, "'c' is not expected here; write the text in quotes: \"b c\""),
    ],
)
def test_blanks_behind_a_fault_take_no_time(text, character, words, monkeypatch):
    monkeypatch.setattr("index.where.parsing.LONGEST", 10**6)

    found = faults(text + " " * 400_000, None)  # with a search from each blank on it took hours

    assert found == [("where", f"character {character}: {words}")]


def test_as_much_as_allowed_is_allowed():
    nested = {"price": 1}
    for _ in range(DEEPEST - 1):
        nested = {"not": nested}
    parse_where(nested, COLUMNS)
    parse_where("(" * 1_000 + "price = 1" + ")" * 1_000, COLUMNS)
    parse_where(" or ".join(["price=1"] * MOST), COLUMNS)
    parse_where({"price": {"in": list(range(MOST_VALUES))}}, COLUMNS)

    assert faults({"not": nested})
    assert faults({"price": {"in": list(range(MOST_VALUES + 1))}})
    assert faults({"or": [{"price": {"in": list(range(MOST_VALUES // 2 + 1))}}] * 2})


# --- the mask ---------------------------------------------------------------------------------

ROWS = st.lists(entries, min_size=1, max_size=12)
TAU = 0.1


@given(rows=ROWS, document=documents, data=st.data())
@settings(deadline=None, max_examples=60)
def test_weights_are_those_of_a_dictionary_that_holds_only_the_allowed_keys(rows, document, data):
    table = {f"key {number}": row for number, row in enumerate(rows)}
    d = SoftDict(table, columns=COLUMNS, encoder=ENCODER, temperature=TAU)
    gone = data.draw(st.sets(st.sampled_from(sorted(table))), label="deleted")
    for key in gone:
        del d[key]
    first = data.draw(st.none() | st.integers(0, 12), label="as_of")
    k = data.draw(st.integers(1, 14), label="k")
    there = [key for key in table if key not in gone][:first]
    allowed = [key for key in there if holds(document, table[key])]

    answer = d.search("question", k=k, where=document, as_of=first)

    encoder = open_encoder(ENCODER)
    query = encoder.encode(["question"])[0].tolist()
    vectors = {key: encoder.encode([key])[0].tolist() for key in allowed}
    scores = {key: oracle.cosine(query, vector) for key, vector in vectors.items()}
    weights = oracle.softmax(scores, TAU)
    assert answer.keys == len(allowed)
    assert len(answer.matches) == min(k, len(allowed))
    for match in answer.matches:
        assert match.weight == pytest.approx(weights[match.key], abs=1e-6)
    mean = oracle.mean(weights, {key: table[key]["price"] for key in allowed})
    blend = answer.blend["price"]
    assert (blend is None) == (mean is None)
    if mean is not None:
        assert blend.mean == pytest.approx(mean, abs=1e-5)
    for key in table:
        exactly = d.search(key, mode="exact", where=document, as_of=first)
        assert [match.key for match in exactly.matches] == ([key] if key in allowed else [])


@pytest.mark.parametrize("allowed", [0, 1, 10, 100, 5_000, 9_999, 10_000])
def test_any_selectivity_answers_as_the_allowed_keys_alone(large, allowed):
    d, rows = large
    kept = {key: value for key, value in rows.items() if value < allowed}
    alone = SoftDict(kept, columns=[Column("value", "number")], encoder="random", temperature=0.05)

    masked = d.search("question", where=f"value < {allowed}", k=20)

    other = alone.search("question", k=20)
    assert len(masked.matches) == min(20, allowed)
    assert [match.key for match in masked.matches] == [match.key for match in other.matches]
    for one, two in zip(masked.matches, other.matches, strict=True):
        assert one.weight == pytest.approx(two.weight, abs=1e-6)
    if allowed:
        assert masked.value == pytest.approx(other.value, rel=1e-5)
        assert masked.effective_keys == pytest.approx(other.effective_keys, rel=1e-4)
    else:
        assert masked.blend == {"value": None}


@pytest.fixture(scope="module")
def large():
    order = np.random.default_rng(0).permutation(10_000).tolist()
    rows = {f"key {number}": float(value) for number, value in enumerate(order)}
    return SoftDict(rows, encoder="random", temperature=0.05), rows


def test_a_comparison_with_a_missing_value_is_false_and_its_not_is_true():
    d = SoftDict(
        {"dear": {"price": 9, "tag": "a"}, "cheap": {"price": 1, "tag": "b"}, "none": None},
        columns=[Column("price", "number"), Column("tag", "category")],
        encoder="random",
    )

    def keys(where):
        return {match.key for match in d.search("x", where=where).matches}

    assert keys("price > 5") == {"dear"}
    assert keys("price <= 5") == {"cheap"}
    assert keys("not price > 5") == {"cheap", "none"}
    assert keys("tag != a") == {"cheap", "none"}
    assert keys("tag not in (a)") == {"cheap", "none"}
    assert keys("tag != a and tag is not missing") == {"cheap"}
    assert keys("price is missing") == {"none"}
    assert keys("price = 5 or not price = 5") == {"dear", "cheap", "none"}
    assert keys("tag = unheard-of") == set()


def test_an_integer_that_a_number_holds_can_be_asked_for_however_large():
    asked = SoftDict({"a": 2**53, "b": 10.0**20, "c": 1e16 + 2, "d": 1}, encoder=ENCODER)

    for value, keys in [(2**53, "a"), (10**20, "b"), (10**16 + 2, "c"), (9.1e15, "bc")]:
        sign = "=" if len(keys) == 1 else ">"
        for where in (f"value {sign} {value}", {"value": {"eq" if sign == "=" else "gt": value}}):
            answer = asked.search("a", where=where)
            assert sorted(match.key for match in answer.matches) == list(keys)


def test_a_number_with_an_exponent_is_as_near_as_in_a_table():
    masses = {"mol": 6.02e23, "earth": 5.97e24, "sun": 1.99e30, "moon": 7.35e22}
    asked = SoftDict(masses, encoder=ENCODER)

    for where in (
        "value >= 6.02e23 and not value = 1.99E+30",
        '{"value": {"gte": 6.02e23, "lt": 1.99e30}}',
        {"value": {"gte": 6.02e23, "lt": 1.99e30}},
    ):
        found = asked.search("a", where=where).matches
        assert sorted(match.key for match in found) == ["earth", "mol"]


class Kind(str, enum.Enum):  # noqa: UP042 (of a StrEnum, str() is the text; of this, its name)
    RED = "red"


def test_a_label_may_be_a_member_of_an_enum():
    d = SoftDict({"a": "red", "b": "blue"}, encoder=ENCODER)

    for where in ({"value": Kind.RED}, {"value": {"in": [Kind.RED, "green"]}}):
        assert [match.key for match in d.search("x", k=2, where=where).matches] == ["a"]


class Named(str, enum.Enum):  # noqa: UP042 (as above)
    PRICE = "price"


def test_a_column_may_be_named_by_a_member_of_an_enum():
    d = SoftDict({"a": {Named.PRICE: 5}, "b": {Named.PRICE: 7}}, encoder=ENCODER)

    for where in ({Named.PRICE: 5}, {"and": [{Named.PRICE: {"lt": 6}}]}):
        assert [match.key for match in d.search("x", k=2, where=where).matches] == ["a"]
    assert faults({Named.PRICE: "five"})[0][0] == "where.price"


def test_zeros_before_a_number_change_nothing_however_many_there_are():
    where = parse_where("price = " + "0" * 9_000 + "7", COLUMNS)

    assert where == Compare("price", "=", 7.0)
    assert parse_where("price = 1e-" + "9" * 30, COLUMNS) == Compare("price", "=", 0.0)


def test_faults_of_where_come_with_those_of_the_other_arguments():
    d = SoftDict({"a": 1}, encoder="random")

    with pytest.raises(InvalidRequest) as refused:
        d.search(" ", k=0, where="prize > 3", as_of="soon")
    assert [fault.where for fault in refused.value.faults] == ["query", "k", "as_of", "where"]
    with pytest.raises(InvalidRequest, match=r"where.prize: there is no column 'prize'"):
        d.compare("a", where={"prize": 3})


def test_compare_obeys_where_in_all_that_is_computed():
    d = SoftDict({"a": 1, "b": 2, "c": 3}, encoder="random", temperature=0.1)
    alone = SoftDict({"b": 2, "c": 3}, encoder="random", temperature=0.1)

    masked = d.compare("a", where="value > 1", weights={"b": 1, "c": 1})

    other = alone.compare("a", weights={"b": 1, "c": 1})
    assert not masked.exact.found
    assert masked.differences[1:] == other.differences[1:]
    assert masked.soft.keys == 2
    assert d.compare("a", where="value = 1").exact.found


def test_a_set_of_labels_takes_in_no_entry_without_one():
    tags = {"one": "a", "two": "b", "three": None, "four": "c"}
    d = SoftDict({key: {"tag": tag, "n": 1} for key, tag in tags.items()}, encoder=ENCODER)

    for wanted in ("ac", "bc", "abc"):
        found = d.search("x", where={"tag": {"in": list(wanted)}}).matches
        expected = {key for key, tag in tags.items() if tag is not None and tag in wanted}
        assert {match.key for match in found} == expected


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"fresh": np.True_}, ["a"]),
        ({"price": {"missing": np.True_}}, ["b"]),
        ({"price": {"missing": np.False_}}, ["a", "c"]),
        ({"day": date(2025, 12, 31)}, ["a"]),
        ({"day": {"ne": date(2025, 12, 31)}}, ["b", "c"]),
        ({"day": datetime(2026, 1, 2, 3)}, ["c"]),
        ({"day": {"in": {date(2025, 12, 31), time(8, 30)}}}, ["a", "b"]),
        ({"price": {"in": np.array([1, 2])}}, ["a"]),
        ({"fresh": {"in": np.array([True])}}, ["a"]),
        ({"price": {"in": {1, 3}}}, ["a", "c"]),
        ({"price": {"in": {1: "", 2: ""}.keys()}}, ["a"]),
        ({"price": {"in": range(2, 4)}}, ["c"]),
    ],
)
def test_what_is_stored_is_found_by_the_very_value_that_was_given(where, found):
    d = SoftDict(
        {
            "a": {"price": np.int64(1), "fresh": np.True_, "day": date(2025, 12, 31)},
            "b": {"price": None, "fresh": False, "day": time(8, 30)},
            "c": {"price": 3, "fresh": None, "day": datetime(2026, 1, 2, 3)},
        },
        encoder=ENCODER,
    )

    assert sorted(match.key for match in d.search("x", where=where).matches) == found


def test_a_decimal_is_compared_as_the_number_that_a_value_would_be_of_it():
    d = SoftDict({"a": {"n": Decimal("1.1")}, "b": {"n": Decimal(2)}}, encoder="random")

    def keys(where):
        return sorted(match.key for match in d.search("q", where=where).matches)

    assert keys({"n": Decimal("1.10")}) == ["a"]
    assert keys({"n": {"gt": Decimal("1.1")}}) == ["b"]
    assert keys({"n": {"in": [Decimal("1.1"), Decimal("2E0")]}}) == ["a", "b"]
    for refused in ("NaN", "sNaN", "Infinity", "1E+999999999"):
        with pytest.raises(InvalidRequest, match=r"where\.n: write a finite number"):
            keys({"n": Decimal(refused)})
    with pytest.raises(InvalidRequest, match="is not exact"):
        keys({"n": Decimal(2**53 + 1)})


@pytest.mark.parametrize("given", ["price = '5'", {"price": {"gt": "-7.5"}}])
def test_a_number_in_quotes_is_refused_with_how_to_write_it(given: object) -> None:
    d = SoftDict({"a": {"price": 5}}, encoder="random", columns=[Column("price", "number")])

    with pytest.raises(InvalidRequest, match=r"and '.*' is none; write it without quotes"):
        d.search("a", where=given)


@pytest.mark.parametrize("given", ["tag = “so it’s”", "tag = «so it’s»", 'tag = "so it’s"'])
def test_quotes_as_phones_and_books_write_them(given: str) -> None:
    assert parse_where(given) == Compare("tag", "=", "so it’s")
    assert parse_where("tag = “a““b”") == Compare("tag", "=", "a““b")
    assert parse_where("tag in (‘a\"b’, “c''d”)") == Among("tag", ('a"b', "c''d"))
    with pytest.raises(InvalidRequest, match="the quote that opens here is never closed"):
        parse_where("tag = «a")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tag = Papelería Sur", '; write the text in quotes: "Papelería Sur"'),
        ("tag = La Casa del Mar and n > 5", '; write the text in quotes: "La Casa del Mar"'),
        ("tag in (Luz, Agua Viva, Gas)", '; write the text in quotes: "Agua Viva"'),
        ("not (tag = Luz Sur)", '; write the text in quotes: "Luz Sur"'),
        ("tag = Luz n > 5", '; write "and" or "or"'),
        ("tag = Luz n is missing", '; write "and" or "or"'),
        ("n = 1 kg", "; write the number without its unit"),
        ("n ≤ -1.5 kg", "; write the number without its unit"),
        ("n in (2, 1 kg)", "; write the number without its unit"),
        ("n > 5 euros and n < 9", "; write the number without its unit"),
        ("n > 5 tag = a", '; write "and" or "or"'),
        *(
            (f"n > 5 {word} tag = sur", '; write "and" or "or"')
            for word in ("e", "o", "u", "y", "ed", "od", "et", "ou", "und", "oder", "ODER")
        ),
        ("tag = Luz o tag = Gas", '; write "and" or "or"'),
        ("tag = Luz Sur n > 5", '; write "and" or "or"'),
        ('tag = Luz Sur "x"', '; write "and" or "or"'),
        ("(tag de luz < 5)", "; write =, !=, <, <=, >, >=, in or is missing"),
        ("indoor plants", "; write =, !=, <, <=, >, >=, in or is missing"),
        ("tag = " + "luz " * 30, '; write the text in quotes: "' + "luz " * 14 + 'luz…"'),
        ('"tag" = luz', "; a column stands without quotes: tag"),
        ('"n" > 5', "; a column stands without quotes: n"),
        ('n = 5 or ("n" ≤ 5)', "; a column stands without quotes: n"),
        ('n = 5 or "tag" = luz', "; a column stands without quotes: tag"),
        ('n = 5 and not "p q" in (1)', "; a column stands without quotes: [p q]"),
        ('tag = "a b" or "c"', '; after "or" a whole condition begins, with its column'),
        ("tag = 'a b' or 'c'", '; after "or" a whole condition begins, with its column'),
        ("n = 5 and 6.5", '; after "and" a whole condition begins, with its column'),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_values_that_are_not_written_so_are_told_how(given: str, said: str, known: bool) -> None:
    columns = [Column("tag", "category"), Column("n", "number")]

    with pytest.raises(InvalidRequest) as refused:
        parse_where(given, columns if known else None)
    message = refused.value.faults[0].message
    assert message.partition("; a column of that name")[0].endswith(said)


@pytest.mark.parametrize("given", ["sale price < 5", "1st = 2 and sale price < 5", "5 < 1st"])
def test_a_column_at_the_fault_that_wants_brackets_is_shown_in_them(given: str) -> None:
    columns = [Column("price", "number"), Column("sale price", "number"), Column("1st", "number")]
    wanted = "[1st]" if "1st" in given else "[sale price]"

    with pytest.raises(InvalidRequest) as refused:
        parse_where(given, columns)
    assert refused.value.faults[0].message.endswith(f"; the column is written {wanted}")
    with pytest.raises(InvalidRequest, match=re.escape("; the column is written [a]]b]")):
        parse_where("[a]b] = 1", [Column("a]b", "number")])
    for other in (
        "[sale price] < and",
        'price = 5 or "sale price',
        "price < 5 5 and sale price < 3",
    ):
        for known in (columns, None):
            with pytest.raises(InvalidRequest) as refused:
                parse_where(other, known)
            assert "written" not in refused.value.faults[0].message


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("Precio de venta < 5", "[Precio de venta]"),
        ("¿Activo? = Sí", "[¿Activo?]"),
        ("not (Stock (uds.) > 5)", "[Stock (uds.)]"),
        ("a = 1 and código postal in (28013)", "[código postal]"),
        ("a is missing or not €/m² is missing", "[€/m²]"),
        ("a = 1 and and b = 2", ""),
        ("1 000 < b", ""),
        ("no quiero esto", ""),
        ("a and " * 1_500 + " " * 1_000 + "b c", ""),
    ],
)
def test_what_may_be_a_column_that_wants_brackets_is_shown_where_none_is_known(
    given: str, written: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_where(given)
    assert (
        refused.value.faults[0].message.partition("; a column of that name is written ")[2]
        == written
    )


def test_a_condition_on_the_keys_is_told_that_they_are_none_of_its_columns() -> None:
    d = SoftDict({"a": 1}, encoder="random")

    with pytest.raises(InvalidRequest) as refused:
        d.search("a", where="key = a and k = 1")
    assert [fault.message for fault in refused.value.faults] == [
        "character 1: 'key' holds the keys; a condition is on the other columns",
        "character 13: there is no column 'k'; there are: value",
    ]


def test_a_condition_of_ten_thousand_characters_is_read() -> None:
    assert parse_where("price > 5".ljust(LONGEST)) == Compare("price", ">", 5)


def test_of_many_wrong_names_the_first_few_are_guessed_at():
    """To look for a like name takes a while, and nobody else is answered meanwhile."""
    columns = [Column(f"columna de precio {number:04d}", "number") for number in range(990)]
    wrong = {"or": [{f"columna de precia {number:04d}": 1} for number in range(90)]}

    messages = [message for _, message in faults(wrong, columns)]
    meant = [re.search("did you mean '(.*?)'", message) for message in messages]

    assert len(messages) == 90
    assert [found[1] for found in meant if found] == [c.name for c in columns[:GUESSED]]

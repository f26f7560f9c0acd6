"""Blends of typed values, against plain loops."""

from __future__ import annotations

import math
import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import SoftDict
from index.answers import Column
from index.errors import InvalidRequest
from index.values import (
    LabelTable,
    blend_column,
    blend_numbers,
    blend_vectors,
    check_columns,
    missing,
    order_of,
    pack,
    unpack,
    weighted_quantiles,
)
from tests import oracle

NUMBER = Column("n", "number")
VECTOR = Column("v", "vector", 3)
CATEGORY = Column("c", "category")
TEXT = Column("t", "text")

weights_of = st.lists(st.integers(0, 100), min_size=1, max_size=12).filter(sum)


def blend(column, values, weights, **options):
    table = LabelTable()
    shares = np.array(weights, float) / sum(weights)
    return blend_column(column, pack(column, values, table), shares, table, **options)


def test_hand_weights_of_the_tutorial_give_eight():
    made = blend(NUMBER, [7, 10, 8, 5], [0.30, 0.30, 0.30, 0.10])

    assert made.mean == pytest.approx(8.0)
    assert made.sd == pytest.approx(math.sqrt(0.3 * 1 + 0.3 * 4 + 0.3 * 0 + 0.1 * 9))
    assert made.median == 8
    assert made.interval == (5, 10)
    assert made.known == 1.0


@given(weights=weights_of, data=st.data())
def test_numbers_agree_with_plain_loops(weights, data):
    numbers = st.one_of(st.none(), st.floats(-1e6, 1e6))
    values = data.draw(st.lists(numbers, min_size=len(weights), max_size=len(weights)))

    made = blend(NUMBER, values, weights)

    total = sum(weights)
    by_key = {str(i): w / total for i, w in enumerate(weights)}
    known = {str(i): v for i, v in enumerate(values) if v is not None}
    mass = math.fsum(by_key[key] for key in known)
    if mass == 0:
        assert made is None
        return
    mean = oracle.mean(by_key, known)
    square = math.fsum(by_key[key] * (v - mean) ** 2 for key, v in known.items()) / mass
    assert made.known == pytest.approx(mass)
    assert made.mean == pytest.approx(mean, rel=1e-9, abs=1e-6)
    assert made.sd == pytest.approx(math.sqrt(square), rel=1e-6, abs=1e-4)
    shares = {key: by_key[key] for key in known}
    assert made.median == oracle.quantile(shares, known, 0.5)
    assert made.interval == tuple(oracle.quantile(shares, known, p) for p in (0.05, 0.95))


@given(weights=weights_of, data=st.data())
def test_labels_agree_with_plain_loops(weights, data):
    labels = st.one_of(st.none(), st.sampled_from(["a", "b", "á", ""]))
    values = data.draw(st.lists(labels, min_size=len(weights), max_size=len(weights)))

    made = blend(CATEGORY, values, weights)

    shares: dict[str, float] = defaultdict(float)
    for value, weight in zip(values, weights, strict=True):
        if value is not None:
            shares[value] += weight
    known = sum(shares.values())
    if known == 0:
        assert made is None
        return
    assert made.known == pytest.approx(known / sum(weights))
    assert dict(made.distribution) == pytest.approx(
        {label: share / known for label, share in shares.items() if share}
    )
    assert made.probability == pytest.approx(max(shares.values()) / known)
    assert shares[made.value] == max(shares.values())
    assert made.rest == 0.0


def test_labels_beyond_those_listed_are_the_rest():
    made = blend(TEXT, ["a", "b", "c", "d"], [4, 3, 2, 1], listed=2)

    assert made.distribution == (("a", pytest.approx(0.4)), ("b", pytest.approx(0.3)))
    assert made.rest == pytest.approx(0.3)
    assert made.type == "text"


def test_labels_with_equal_weights_stand_by_name_however_they_came():
    """As where keys share a vector, and so weigh alike."""
    labels = [f"label {number:03}" for number in range(300)]
    shuffled = np.random.default_rng(3).permutation(labels).tolist()
    made = blend(TEXT, shuffled, [1] * 300)

    assert [label for label, _ in made.distribution] == labels[:10]


def test_another_start_moves_no_label_before_one_that_weighs_alike(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as animals:
        animals.update({"perro": "manso", "gato": "bravo"})
        animals.update({"perro": "bravo", "gato": "manso"})  # the labels' codes stay
        before = animals.compare("x", weights={"perro": 1, "gato": 1}).manual.blend["value"]
    with SoftDict.open(tmp_path) as animals:
        after = animals.compare("x", weights={"perro": 1, "gato": 1}).manual.blend["value"]

    assert before == after
    assert after.value == "bravo"


@given(
    st.floats(1e-290, 1e149) | st.floats(-1e149, -1e-290),
    st.lists(st.floats(1e-6, 1), min_size=1, max_size=40),
    st.lists(st.sampled_from([0, 1]), min_size=40, max_size=40),
)
def test_a_blend_of_values_all_alike_is_just_that_value(number, weights, weighed):
    """Rounded sums would be off by a last bit, and so outside the table's values."""
    given = np.array(weights) / sum(weights) * weighed[: len(weights)]
    known = given.sum() > 0
    plain = blend_numbers(np.full(len(given), number), given)
    vectors = blend_vectors(np.full((len(given), 3), number), given)

    assert (plain and (plain.mean, plain.sd)) == ((number, 0.0) if known else None)
    assert (vectors and (vectors.mean, vectors.sd)) == (((number,) * 3, 0.0) if known else None)


@pytest.mark.parametrize("listed", [1, 2, 10, 299, 300, 301])
def test_the_labels_that_are_listed_are_the_greatest_of_many(listed):
    shares = np.random.default_rng(3).permutation(300) + 1
    made = blend(TEXT, [f"label {share}" for share in shares], shares.tolist(), listed=listed)

    greatest = range(300, max(0, 300 - listed), -1)
    assert [label for label, _ in made.distribution] == [f"label {share}" for share in greatest]
    assert made.rest == pytest.approx(1 - sum(greatest) / sum(shares))


def test_a_vector_may_have_any_number_of_components():
    wide = Column("v", "vector", 10_000)
    made = blend(wide, [(0.0,) * 10_000, (4.0,) * 10_000], [1, 3])

    assert made.mean == (3.0,) * 10_000
    assert made.sd == pytest.approx(math.sqrt(3 * 10_000))


def test_vectors_blend_component_by_component():
    made = blend(VECTOR, [(0, 0, 255), None, (0, 255, 0)], [1, 2, 1])

    assert made.mean == pytest.approx((0, 127.5, 127.5))
    assert made.sd == pytest.approx(math.sqrt(2 * 127.5**2))
    assert made.known == pytest.approx(0.5)


@pytest.mark.parametrize(
    "name", ["", " ", "half \ud800", "two\nlines", "n\0l", "a" * 201, 1, None, ("a", 1)]
)
def test_a_column_that_an_entry_brings_needs_a_name_too(name):
    with pytest.raises(InvalidRequest, match="columns: "):
        SoftDict({"a": {name: 1, "size": 2}}, encoder="random")


@pytest.mark.parametrize(
    ("name", "at_fault"),
    [("a\tb", "no tab"), ("half \ud800", "surrogate"), ("a" * 201, "200"), (" ", "not blanks")],
)
def test_what_a_name_of_a_column_may_not_hold_is_said(name, at_fault):
    with pytest.raises(InvalidRequest, match=f"cannot be the name of a column: .*{at_fault}"):
        SoftDict({"a": {name: 1, "size": 2}}, encoder="random")


@pytest.mark.parametrize("column", [NUMBER, VECTOR, CATEGORY, TEXT])
def test_no_value_anywhere_blends_to_nothing(column):
    assert blend(column, [None, None], [1, 1]) is None
    table = LabelTable()
    assert blend_column(column, pack(column, [], table), np.zeros(0), table) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (NUMBER, 7),
        (NUMBER, 0.1),
        (NUMBER, -(2**53)),
        (NUMBER, 1e300),
        (NUMBER, None),
        (VECTOR, (1, 0.5, -3)),
        (VECTOR, (0, 0, 0)),
        (VECTOR, None),
        (CATEGORY, ""),
        (TEXT, "año"),
        (TEXT, None),
    ],
)
def test_a_value_comes_back_as_it_went_in(column, value):
    table = LabelTable()

    assert unpack(column, pack(column, ["x"] * 0 + [value], table), 0, table) == value


def test_whole_numbers_come_back_as_ints_as_far_as_floats_tell_them_apart():
    table = LabelTable()
    array = pack(NUMBER, [7.0, 7.5, 2.0**53, -(2.0**53), 2.0**53 + 2, 1e300], table)

    kinds = [type(unpack(NUMBER, array, row, table)) for row in range(len(array))]
    assert kinds == [int, float, int, int, float, float]


def test_a_negative_zero_is_a_zero_in_the_blend_too():
    """A column rounded elsewhere holds -0.0: its median would be written "-0", its entry 0."""
    number = blend(NUMBER, [-0.0, -0.0], [1, 1])
    vector = blend(VECTOR, [(-0.0, 1.0, 2.0)], [1])

    written = [number.mean, number.median, *number.interval, vector.mean[0]]
    assert [math.copysign(1.0, zero) for zero in written] == [1.0] * 5


def test_quantiles_need_no_interpolation():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    weights = np.array([0.25, 0.25, 0.25, 0.25])

    assert weighted_quantiles(values, weights, (0.25, 0.26, 0.75, 1.0)) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(6).lognormal(0, 6, 5_000),  # nearly all in one run
        np.array([1e150, -1e150, 5e-324, 0.0, -1e-300]),
        np.array([5e-324, 0.0, 1e-323]),
        np.full(300, 7.25),
    ],
    ids=["far apart", "greatest and least", "next to nothing", "all alike"],
)
def test_quantiles_are_right_however_unevenly_the_values_lie(values):
    weights = np.random.default_rng(7).exponential(size=len(values))
    levels = (0.001, 0.05, 0.5, 0.95, 1.0)

    found = weighted_quantiles(values, weights, levels)

    known = dict(enumerate(values.tolist()))
    shares = dict(enumerate((weights / weights.sum()).tolist()))
    assert found == [oracle.quantile(shares, known, level) for level in levels]


def test_many_keys_agree_with_plain_loops():
    rng = np.random.default_rng(5)
    n = 10_001  # several pieces and runs, the last ones cut short
    values = rng.integers(0, 3_000, n).astype(float)
    values[rng.random(n) < 0.2] = math.nan
    vectors = np.column_stack([values, 2 * values, values + 1e6])
    weights = rng.exponential(size=n).astype(np.float32) ** 2
    weights /= weights.sum()

    number = blend_column(NUMBER, values, weights, LabelTable())
    vector = blend_column(VECTOR, vectors, weights, LabelTable())

    known = {str(row): value for row, value in enumerate(values.tolist()) if value == value}
    shares = {key: float(weights[int(key)]) for key in known}
    mass, mean = math.fsum(shares.values()), oracle.mean(shares, known)
    square = math.fsum(shares[key] * (v - mean) ** 2 for key, v in known.items()) / mass
    assert number.known == vector.known == pytest.approx(mass)
    assert number.mean == pytest.approx(mean, rel=1e-12)
    assert number.sd == pytest.approx(math.sqrt(square), rel=1e-12)
    assert number.median == oracle.quantile(shares, known, 0.5)
    assert number.interval == tuple(oracle.quantile(shares, known, p) for p in (0.05, 0.95))
    assert vector.mean == pytest.approx((mean, 2 * mean, mean + 1e6), rel=1e-12)
    assert vector.sd == pytest.approx(math.sqrt(6 * square), rel=1e-9)


def test_a_vector_column_of_no_width_holds_nothing():
    column = Column("v", "vector")
    array = pack(column, [None, None], LabelTable())

    assert missing(array).tolist() == [True, True]
    assert [unpack(column, array, row, LabelTable()) for row in (0, 1)] == [None, None]
    assert blend_column(column, array, np.full(2, 0.5, dtype=np.float32), LabelTable()) is None


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ([Column("a", "number"), Column("a", "text")], "columns"),
        ([Column(" ", "number")], "columns"),
        ([Column("a", "colour")], "columns.a"),
        ([Column("a", "vector")], "columns.a"),
        ([Column("a", "number", 3)], "columns.a"),
        ([Column("a", "vector", 2.0)], "columns.a"),
        ([Column("a", "vector", True)], "columns.a"),
        ([Column("a", "vector", "2")], "columns.a"),
        ([Column("a", "vector", np.int64(2))], "columns.a"),
        ([Column("a", "number", attribute="yes")], "columns.a"),
        ([Column("a", "text", unit="€")], "columns.a"),
        ([Column("a", "number", unit="")], "columns.a"),
        ([Column("a", "number", unit="€" * 21)], "columns.a"),
        ([Column("a", "number", unit="\ud800")], "columns.a"),
        ([Column("a", "number", unit=5)], "columns.a"),
        (["a"], "columns"),
        ({"a": "number"}, "columns"),
        ([("a", "number")], "columns"),
    ],
)
def test_impossible_columns_are_refused(columns, where):
    with pytest.raises(InvalidRequest) as refused:
        check_columns(columns)

    assert [fault.where for fault in refused.value.faults] == [where]
    with pytest.raises(InvalidRequest):
        SoftDict(columns=columns, encoder="random")


def test_the_sum_that_is_written_out_for_a_column_with_gaps_is_the_blend():
    d = SoftDict({"a": {"x": 10}, "b": {"x": 20}, "c": {"x": None, "y": 1.0}}, encoder="random")
    answer = d.search("q", temperature=0.5, explain=True)

    written = answer.explanation["blend"]["x"]
    known = answer.blend["x"].known
    terms, value = re.fullmatch(rf"\((.+)\) / {known:.3f} = ([0-9.]+)", written).groups()
    total = sum(float(w) * float(x) for w, x in (term.split("·") for term in terms.split(" + ")))
    assert 0.1 < known < 0.9
    assert total / known == pytest.approx(float(value), abs=0.06)
    assert float(value) == pytest.approx(answer.blend["x"].mean, abs=0.005)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_quantile_that_binary_sums_miss_by_a_bit_is_reached(ordered):
    values, weights = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.2, 0.4, 0.3, 0.1])

    order = order_of(values) if ordered else None

    assert weights.cumsum()[2] < 0.9 * weights.cumsum()[3]  # in binary
    assert weighted_quantiles(values, weights, [0.2, 0.6, 0.9], order=order) == [1, 2, 3]


def test_the_point_value_of_an_answer_is_none_in_a_column_that_blends_to_nothing():
    d = SoftDict({"a": {"x": 1, "y": "z"}, "b": {"x": 1, "y": None}}, encoder="random")
    del d["a"]

    assert d.search("b").value == {"x": 1.0, "y": None}


def test_a_column_whose_name_is_no_text_is_refused_in_words() -> None:
    with pytest.raises(InvalidRequest, match="a column's name is text"):
        check_columns([Column(["x"], "number"), Column("y", "number")])  # type: ignore[arg-type]


def test_keys_of_one_vector_have_one_median_however_they_stand() -> None:
    spellings = ["milk", "Milk", "MILK", "MiLk", "mILK", "MILk"]  # one and the same to the encoder
    entries = {key: number for number, key in enumerate(spellings, 1)}

    for ordered in (entries, dict(reversed(entries.items()))):
        assert SoftDict(ordered).search("breakfast").blend["value"].median == 3


@pytest.mark.parametrize("size", [1e-170, 1e-162, 1e-150, 1.0, 1e140])
def test_the_deviation_of_values_of_any_size_is_theirs(size: float) -> None:
    values, weights = size * np.array([1.0, 3.0, 3.0, 1.0]), np.full(4, 0.25)

    assert blend_numbers(values, weights).sd == pytest.approx(size, rel=1e-9, abs=0)
    assert blend_vectors(values[:, np.newaxis], weights).sd == pytest.approx(size, rel=1e-9, abs=0)


def test_the_steps_agree_where_a_cosine_comes_out_above_one() -> None:
    words = ["méxico", "alemania", "inglaterra", "perro", "gato", "leche", "queso"]
    with SoftDict({word: 1 for word in words}) as d:
        for word in words:
            steps = d.search(word, k=2, temperature=0.001, explain=True).explanation
            first = steps["rows"][0]
            assert first["score"] <= 1 and first["logit"] == steps["max_logit"]
            assert first["weight"] == pytest.approx(first["exp"] / steps["normaliser"])


def test_a_sum_over_next_to_no_weight_is_written_out_with_its_power_of_ten() -> None:
    with SoftDict({"méxico": {"p": None}, "alemania": {"p": None}, "perro": {"p": 5}}) as d:
        steep = d.search("méxico", temperature=0.02, explain=True)
        listed = d.search("méxico", k=1, temperature=0.05, explain=True)

    known = f"{steep.blend['p'].known:.1e}"
    assert steep.explanation["blend"]["p"] == f"({known}·5) / {known} = 5"
    assert listed.explanation["blend"]["p"] == f"(…) / {listed.blend['p'].known:.1e} = 5"


def test_whole_numbers_of_a_vector_stay_whole() -> None:
    assert repr(SoftDict({"a": [10, 2.5]}, encoder="random")["a"]) == "(10, 2.5)"

"""Exact, soft and by hand, side by side."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import get_args, get_type_hints

import numpy as np
import pytest

import index
from index import SoftDict
from index.answers import Column
from index.comparing import blend_by_hand
from index.errors import InvalidRequest
from index.wording import rounded, whole

BY_HAND = {"méxico": 0.3, "alemania": 0.3, "inglaterra": 0.3, "perro": 0.1}


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("named", [4, 2])
def test_what_differs_is_the_total_variation_whatever_is_listed(k, named):
    d = SoftDict({"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}, encoder="random")
    given = dict(list(BY_HAND.items())[:named])

    said = d.compare("país", weights=given, k=k).differences[-1]

    soft = {match.key: match.weight for match in d.search("país", k=4).matches}
    total = sum(given.values())
    true = sum(abs(soft[key] - given.get(key, 0.0) / total) for key in soft) / 2
    assert float(re.search(r"[0-9.]+", said)[0]) == pytest.approx(true, abs=0.0051)


def test_the_tutorial_by_hand():
    d = SoftDict({"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}, encoder="random")

    comparison = d.compare("méxico", weights=BY_HAND)

    assert comparison.exact.values == {"value": 7}
    assert comparison.manual.blend["value"].mean == pytest.approx(8.0)
    with pytest.raises(InvalidRequest) as refused:
        d.compare("x", weights={"nadie": 1, "perro": -1})
    assert [fault.where for fault in refused.value.faults] == ["weights.nadie", "weights.perro"]


MIXED = {
    "a": {"price": 7, "place": [1, 2], "coin": "heads"},
    "b": {"price": 10, "place": [5, 2], "coin": "tails"},
    "c": {"price": None, "place": None, "coin": None},
    "d": {"price": 1, "place": [0, 0], "coin": "heads"},
}


def test_weights_by_hand_blend_values_of_every_type_and_leave_out_what_is_missing():
    d = SoftDict(MIXED, encoder="random")

    found = d.compare("a", weights={"c": 4, "b": 3, "a": 1, "d": 0}).manual.blend

    assert found["price"].mean == pytest.approx((3 * 10 + 7) / 4)
    assert found["price"].sd == pytest.approx((3 / 4 * 0.75**2 + 1 / 4 * 2.25**2) ** 0.5)
    assert (found["price"].median, found["price"].interval) == (10, (7, 10))
    assert found["place"].mean == pytest.approx((4, 2))
    assert dict(found["coin"].distribution) == pytest.approx({"tails": 3 / 4, "heads": 1 / 4})
    assert [blend.known for blend in found.values()] == pytest.approx([0.5] * 3)


def test_an_exact_lookup_blends_what_its_entry_holds_and_nothing_where_there_is_none():
    d = SoftDict(MIXED, encoder="random")

    blends = {key: d.search(key, mode="exact").blend for key in ("b", "c", "nobody")}

    assert {name: blend.value for name, blend in blends["b"].items()} == {
        "price": 10, "place": (5, 2), "coin": "tails"
    }  # fmt: skip
    assert blends["c"] == blends["nobody"] == {"price": None, "place": None, "coin": None}


def test_an_exact_lookup_and_weights_by_hand_sort_no_column(monkeypatch):
    """It takes longer than all else, after each write, and a few entries need none of it."""
    d = SoftDict(MIXED, encoder="random")
    monkeypatch.setattr("index.snapshot.order_of", lambda values: pytest.fail("sorted"))

    exact = d.search("a", mode="exact")
    by_hand = blend_by_hand("d", d._snapshot, {"a": 1, "b": 1})

    assert (exact.blend["price"].median, by_hand.blend["price"].mean) == (7, 8.5)


@pytest.mark.parametrize(
    "weight", [1e308, 10**400, float("inf"), float("nan"), True, "1", None, 1j, [1], Decimal(1)]
)
def test_a_weight_that_cannot_be_shared_out_is_refused(weight):
    d = SoftDict({"a": 1, "b": 2}, encoder="random")

    with pytest.raises(InvalidRequest, match="write a number from 0 to 1e"):
        d.compare("a", weights={"a": weight, "b": 1})
    assert d.compare("a", weights={"a": 1e150, "b": 1e150}).manual.blend["value"].mean == 1.5


@pytest.mark.parametrize("given", [["a"], [("a", 1)], "a", 5])
def test_weights_that_are_not_by_key_are_refused(given):
    d = SoftDict({"a": 1, "b": 2}, encoder="random")

    with pytest.raises(InvalidRequest, match=r"^weights: write weights by key"):
        d.compare("a", weights=given)


@pytest.mark.parametrize(
    "weight",
    [np.uint8(200), np.float16(60_000), np.float32(0.1), np.int64(3), Fraction(1, 3)],
)
def test_weights_of_any_kind_of_number_are_shared_out_alike(weight):
    d = SoftDict({"a": 1, "b": 2}, encoder="random")

    manual = d.compare("a", weights={"a": weight, "b": weight}).manual

    assert manual.weights == {"a": 0.5, "b": 0.5}
    assert manual.total == 2 * float(weight)
    assert manual.blend["value"].mean == 1.5
    with pytest.raises(InvalidRequest, match="at least one key a weight above zero"):
        d.compare("a", weights={"a": Fraction(1, 10**400)})


def test_what_an_entry_holds_is_said_whole_and_what_reads_alike_is_no_difference():
    prices = {"casa": 1234567.89, "coche": 12345.67, "moto": 126014024}
    table = {key: {"price": price, "vat": 0.21} for key, price in prices.items()}
    d = SoftDict(table, encoder="random")

    warm = d.compare("casa", temperature=1.0)
    sharp = d.compare("casa", temperature=0.001)

    (said,) = warm.differences
    blended = warm.soft.blend["price"].mean
    assert said == f"price: the exact entry holds 1234567.89, attention blends {blended:.0f}."
    assert sharp.differences == ()
    (steps,) = [d.search("moto", k=1, explain=True).explanation["blend"]["price"]]
    assert "·126014024" in steps


def test_figures_have_the_unit_of_their_column():
    d = SoftDict(columns=[Column("price", "number", unit="€")], encoder="random")
    d.update({"a": 1, "b": 2})

    held = d.compare("a", weights={"b": 2}, temperature=1.0)

    share = next(match.weight for match in held.soft.matches if match.key == "a")
    assert held.differences[:2] == (
        f"price: the exact entry holds 1 €, attention blends {2 - share:.4g} €.",
        f"price: weights by hand give 2 €, attention {2 - share:.4g} €.",
    )
    d["c"] = None
    gap = d.compare("c", weights={"b": 2}, where={"price": None})
    assert gap.differences[0] == "price: weights by hand give 2 €, attention nothing."


def test_a_missing_value_and_a_label_that_reads_like_none_differ():
    d = SoftDict({"a": {"x": None, "n": 1}, "b": {"x": "nothing", "n": 1}}, encoder="random")

    (said,) = d.compare("a").differences
    assert said == "x: the exact entry holds nothing, attention blends nothing."


def test_vectors_that_differ_far_behind_differ():
    d = SoftDict({"a": (0.0,) * 20, "b": (*(0.0,) * 19, 1.0)}, encoder="random")

    (said,) = d.compare("a", temperature=1.0).differences
    mean = d.search("a", temperature=1.0).value[19]
    apart = f"the exact entry holds 0, attention blends {mean:.4g}"
    assert said == f"value, component 20: {apart}."
    assert d.compare("a", temperature=0.001).differences == ()


def test_each_difference_is_a_sentence_with_its_figures():
    d = SoftDict({"a": {"x": 1, "kind": "red"}, "b": {"x": 2, "kind": "red"}}, encoder="random")

    held = d.compare("a", weights={"a": 0, "b": 2}, temperature=1.0)
    share = next(match.weight for match in held.soft.matches if match.key == "a")
    assert held.differences == (
        f"x: the exact entry holds 1, attention blends {2 - share:.4g}.",
        f"x: weights by hand give 2, attention {2 - share:.4g}.",
        "kind: weights by hand and attention give red.",
        f"The two sets of weights differ by {share:.2f} of all attention.",
    )
    assert d.compare("c").differences == ("An exact lookup finds no key 'c' and answers nothing.",)
    with pytest.raises(InvalidRequest, match="give at least one key a weight above zero"):
        d.compare("a", weights={"a": 0, "b": 0})


def test_a_vector_that_is_missing_differs_from_one_that_is_not():
    d = SoftDict({"a": {"v": None}, "b": {"v": (1.0, 2.5)}}, encoder="random")

    (said,) = d.compare("a").differences
    assert said == "v: the exact entry holds nothing, attention blends [1, 2.5]."


def test_of_a_vector_eight_components_are_said():
    assert whole((1, 2.5, 3, 4, 5, 6, 7, 8)) == "[1, 2.5, 3, 4, 5, 6, 7, 8]"
    assert rounded((1 / 3,) * 9) == "[" + "0.3333, " * 8 + "…]"


def kinds(hint: object) -> set[type]:
    """Give the classes of softdict that stand in a type."""
    inside = set().union(*map(kinds, get_args(hint)))
    ours = isinstance(hint, type) and hint.__module__.partition(".")[0] == "index"
    return inside | {hint} if ours else inside


def test_whatever_an_answer_holds_can_be_imported_to_be_named():
    public = {getattr(index, name) for name in index.__all__ if name not in ("Blend", "Value")}
    held = {kind for each in filter(is_dataclass, public)
            for hint in get_type_hints(each).values() for kind in kinds(hint)}  # fmt: skip

    assert {index.NumberBlend, index.Match} <= held <= public


def test_a_key_that_a_condition_leaves_out_is_not_said_to_be_nowhere() -> None:
    d = SoftDict({"café": 1, "té": 4}, encoder="random:1")
    nothing = "exact lookup finds no key 'café' and answers nothing."

    for narrow in ({"where": "value > 2"}, {"as_of": 0}):
        (said, *_) = d.compare("café", **narrow).differences
        assert said == f"Among the entries that may answer, an {nothing}"
    del d["café"]
    assert d.compare("café").differences[0] == f"An {nothing}"


def test_a_key_has_one_weight_in_whatever_spelling() -> None:
    d = SoftDict({"café": 1, "té": 4}, encoder="random:1")
    apart = "cafe\u0301"

    manual = d.compare("café", weights={apart: 1, "té": 2}).manual
    assert manual.blend["value"].mean == pytest.approx(3.0)
    with pytest.raises(InvalidRequest, match="in another spelling") as refused:
        d.compare("café", weights={"café": 1, apart: 1, "té": 2})
    assert [fault.where for fault in refused.value.faults] == ["weights.café", f"weights.{apart}"]
    with pytest.raises(InvalidRequest, match=r"weights.1: .* has no such key"):
        d.compare("café", weights={1: 2})


@pytest.mark.parametrize("where", ["value < 5", "value > 5"])
def test_a_key_that_a_condition_leaves_out_has_no_attention_to_differ_by(where: str) -> None:
    d = SoftDict({"a": 1, "b": 9, "c": 2}, encoder="random")

    found = d.compare("b", weights={"a": 1, "b": 1}, temperature=10, where=where)

    soft = {match.key: match.weight for match in found.soft.matches}
    apart = sum(abs(soft.get(k, 0) - w) for k, w in {"a": 0.5, "b": 0.5, "c": 0}.items()) / 2
    assert found.differences[-1].startswith(f"The two sets of weights differ by {apart:.2f} of")

"""Exact, soft and by hand, side by side."""

from __future__ import annotations

import re

import pytest

from index import SoftDict
from index.errors import InvalidRequest

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


@pytest.mark.parametrize("weight", [1e308, 10**400, float("inf"), float("nan"), True])
def test_a_weight_that_cannot_be_shared_out_is_refused(weight):
    d = SoftDict({"a": 1, "b": 2}, encoder="random")

    with pytest.raises(InvalidRequest, match="write a number from 0 to 1e"):
        d.compare("a", weights={"a": weight, "b": 1})
    assert d.compare("a", weights={"a": 1e150, "b": 1e150}).manual.blend["value"].mean == 1.5

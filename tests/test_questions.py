"""What a question may be, before anything is attended to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from index import SoftDict
from index.errors import InvalidRequest


@pytest.fixture(scope="module")
def d() -> SoftDict:
    return SoftDict({"a": 1, "b": 2, "c": 3}, encoder="random")


def test_the_numbers_of_numpy_are_numbers(d: SoftDict) -> None:
    said = {"k": 2, "as_of": 2, "temperature": 0.5, "tolerance": 0.25}
    of_numpy = {"k": np.int64(2), "as_of": np.uint8(2), "temperature": np.float32(0.5)}

    answer = d.search("a", **of_numpy, tolerance=np.float16(0.25))  # type: ignore[arg-type]

    assert answer == d.search("a", **said)  # type: ignore[arg-type]
    assert type(answer.temperature) is float
    with pytest.raises(InvalidRequest) as refused:
        d.search("a", k=np.True_, as_of=np.True_, temperature=np.True_, tolerance=np.True_)
    assert [fault.where for fault in refused.value.faults] == [
        "k", "temperature", "as_of", "tolerance",
    ]  # fmt: skip


def test_more_matches_than_there_are_entries_are_all_of_them(d: SoftDict) -> None:
    assert {match.key for match in d.search("a", k=10**15).matches} == {"a", "b", "c"}


@pytest.mark.parametrize("kind", [list, tuple, np.array, iter])
def test_questions_of_any_iterable_are_all_answered(d: SoftDict, kind: type) -> None:
    answers = d.search_many(kind(["a", "c"]))

    assert [answer.matches[0].key for answer in answers] == ["a", "c"]
    with pytest.raises(InvalidRequest, match="write something to ask for"):
        d.search_many(kind(["a", ""]))


def test_one_text_is_not_as_many_questions_as_it_has_letters(d: SoftDict) -> None:
    given: Any
    for given in ("abc", None, 5):
        with pytest.raises(InvalidRequest, match="write a list of questions"):
            d.search_many(given)


@pytest.mark.parametrize(("after", "limit", "wrong"), [(-1, 2, "after"), (0, -1, "limit")])
def test_a_page_is_of_what_there_is(d: SoftDict, after: int, limit: int, wrong: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{wrong}: write 0 or more"):
        d.page(after, limit)


def test_columns_that_are_no_list_are_refused() -> None:
    given: Any = None
    with pytest.raises(InvalidRequest, match="write a list of Column"):
        SoftDict(columns=given)


def test_each_of_several_questions_has_its_own_temperature() -> None:
    d = SoftDict({f"key {n}": n for n in range(50)}, encoder="random")

    together = d.search_many(["key 1", "país", "key 7"], temperature="effective_keys:5")

    assert [a.effective_keys for a in together] == pytest.approx([5] * 3, rel=1e-3)
    for answer in together:
        alone = d.search(answer.query, temperature="effective_keys:5")
        weights = [match.weight for match in alone.matches]
        assert [match.weight for match in answer.matches] == pytest.approx(weights, rel=1e-4)


def test_many_questions_are_answered_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    d = SoftDict({"a": 1, "b": 2, "c": 3}, encoder="random")
    queries = ["a", "b", "c", "país", "a"]
    together = d.search_many(queries, temperature=0.1)
    monkeypatch.setattr("index.answering.AT_ONCE", 6)  # two questions of three keys at a time
    some_at_a_time = d.search_many(queries, temperature=0.1)

    assert [answer.query for answer in some_at_a_time] == queries
    for some, whole in zip(some_at_a_time, together, strict=True):
        assert some.value == pytest.approx(whole.value)
        assert [match.key for match in some.matches] == [match.key for match in whole.matches]

"""What a question may be, before anything is attended to."""

from __future__ import annotations

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
    with pytest.raises(InvalidRequest, match="write a list of questions"):
        d.search_many("abc")

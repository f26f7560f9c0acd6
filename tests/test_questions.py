"""What a question may be, before anything is attended to."""

from __future__ import annotations

import numpy as np
import pytest

from index import SoftDict
from index.errors import InvalidRequest


@pytest.fixture(scope="module")
def d() -> SoftDict:
    return SoftDict({"a": 1, "b": 2, "c": 3}, encoder="random")


@pytest.mark.parametrize("kind", [list, tuple, np.array, iter])
def test_questions_of_any_iterable_are_all_answered(d: SoftDict, kind: type) -> None:
    answers = d.search_many(kind(["a", "c"]))

    assert [answer.matches[0].key for answer in answers] == ["a", "c"]
    with pytest.raises(InvalidRequest, match="write something to ask for"):
        d.search_many(kind(["a", ""]))


def test_one_text_is_not_as_many_questions_as_it_has_letters(d: SoftDict) -> None:
    with pytest.raises(InvalidRequest, match="write a list of questions"):
        d.search_many("abc")

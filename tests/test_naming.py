"""Names: what may be one, and which stand twice."""

from __future__ import annotations

import difflib
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from index.errors import InvalidRequest
from index.naming import check_name, repeated_names
from index.wording import nearest


class Looked(str):
    """A name that counts how often it is looked at."""

    looks = 0

    def __hash__(self) -> int:
        Looked.looks += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Looked.looks += 1
        return str.__eq__(self, other)


def test_names_that_stand_twice_are_found_with_a_few_looks_at_each() -> None:
    names = [Looked(number) for number in [*range(1000), 999, 3, 999]]

    assert repeated_names(iter(names)) == ["3", "999"]
    assert Looked.looks < 5 * len(names)  # a stranger may send many


def test_a_name_with_letters_and_marks_apart_is_refused_with_how_it_is_written() -> None:
    apart = unicodedata.normalize("NFD", "café")

    with pytest.raises(InvalidRequest, match=r"name: write 'café' with letter and mark as one"):
        check_name(apart)

    check_name("café")


@given(st.text("ab_12", min_size=1, max_size=9), st.lists(st.text("ab_12", max_size=9)))
@example("c_0030_003a", [f"c_{a:04}_{b:04}" for a in range(12) for b in range(30, 42)])
def test_the_name_that_was_meant_is_the_likest_of_all(name: str, names: list[str]) -> None:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)

    assert nearest(name, names) == (f"did you mean {near[0]!r}? " if near and near[0] else "")

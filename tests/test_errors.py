"""Faults are values too: they cross a process boundary whole."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from index import errors
from index.errors import BadRow, Fault, SoftDictError

RAISED = [
    errors.InvalidRequest(Fault("k", "too small"), Fault("mode", "unknown")),
    errors.InvalidKey("the key is empty"),
    errors.UnknownDataset("a", ["b", "c"]),
    errors.DatasetExists("a"),
    errors.UnknownEntry("key", "a"),
    errors.WrongValue("price", "not a number"),
    errors.UnreadableSource("holds no rows"),
    errors.BadRows([BadRow(2, "no key")], 7),
    errors.NotEnoughMemory(2**30, 2**20, "load less"),
    errors.EncoderUnavailable("install it"),
    errors.EncoderMismatch("a", "one", "other"),
    errors.StoreLocked(Path("shop")),
    errors.Busy(),
    errors.DiskFull(Path("shop"), sure=False),
    errors.ReadOnlyStore("read only"),
    errors.StoreClosed(),
    errors.StoreCorrupt("of version 9"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_an_error_reaches_another_process_with_all_that_it_says(error: SoftDictError) -> None:
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is type(error)
        assert str(same) == str(error)
        assert vars(same) == vars(error)


def test_of_many_datasets_the_first_are_named_and_the_others_counted() -> None:
    known = [f"d{n}" for n in range(30)]

    said = str(errors.UnknownDataset("x", known))

    assert said == f"there is no dataset 'x'; there are: {', '.join(known[:20])} and 10 more"


def test_every_error_is_among_them() -> None:
    public = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    kinds = {kind for kind in public if issubclass(kind, SoftDictError)}

    assert kinds == {type(error) for error in RAISED} | {SoftDictError}

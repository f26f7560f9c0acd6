"""Half precision: vectors in 16 bits, half as large, with an error that is stated and holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
import pytest

from index import Catalog, SoftDict, open_encoder
from index.errors import InvalidRequest
from index.moments import Moments
from index.vectors import MULTIPLIED, STEPS, TOGETHER, UNCACHED, VectorBlock, half_is_fast, halved
from tests import oracle
from tests.test_concurrency import begun, ended

ENCODER = "random:1"
SEEDS = {f"key {number}": float(number % 17) for number in range(300)}
TAU = 0.02


@pytest.fixture(autouse=True)
def _small_is_large_and_half_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder with the dictionary "dictionary" of 300 keys, sketched in half precision."""
    with SoftDict.open(tmp_path, encoder=ENCODER, temperature=TAU) as d:
        d.configure(precision="half")
        d.update(SEEDS)
        d.settle()
    yield tmp_path


def unit_rows(count: int, seed: int, *, width: int = 384) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def expected_weights(query: str) -> dict[str, float]:
    encoder = open_encoder(ENCODER)
    asked = encoder.encode([query])[0].tolist()
    rows = encoder.encode(list(SEEDS))
    scores = {key: oracle.cosine(asked, row.tolist()) for key, row in zip(SEEDS, rows, strict=True)}
    return oracle.softmax(scores, TAU)


def weights(d: SoftDict, query: str) -> tuple[dict[str, float], float]:
    answer = d.search(query, k=len(d), tolerance=0)
    return {match.key: match.weight for match in answer.matches}, answer.error


def apart(a: dict[str, float], b: dict[str, float]) -> float:
    return sum(abs(a[key] - b[key]) for key in SEEDS) / 2


def test_scores_of_halved_rows_are_off_by_as_much_as_is_said():
    rows, queries = unit_rows(20_000, 0), unit_rows(4, 1)
    block = VectorBlock(halved(rows))
    scanned = np.empty((4, 20_000), np.float32)
    block.scores(queries, scanned)
    one = np.empty((1, 20_000), np.float32)
    block.scores(queries[:1], one)

    true = queries.astype(float) @ rows.astype(float).T
    assert np.std(scanned - true) == pytest.approx(block.rounding, rel=0.05)
    np.testing.assert_allclose(one[0], scanned[0], atol=1e-6)
    assert VectorBlock(rows).rounding == 0


@pytest.mark.parametrize("count", [1, MULTIPLIED, MULTIPLIED + 1, 3 * MULTIPLIED - 1])
@pytest.mark.parametrize("queries", [1, 2, TOGETHER, TOGETHER + 1])
@pytest.mark.parametrize("half", [False, True])
def test_rows_have_the_same_scores_however_many_are_asked_for(count, queries, half):
    rows, asked = unit_rows(count, 0, width=20), unit_rows(queries, 1, width=20)
    block = VectorBlock(halved(rows) if half else rows)
    scores = np.full((queries, count + 2), 7, np.float32)

    block.scores(asked, scores[:, 1:-1])  # as where other blocks are before and behind

    true = asked.astype(float) @ block[:].astype(float).T
    np.testing.assert_allclose(scores[:, 1:-1], true, atol=1e-6)
    assert (scores[:, [0, -1]] == 7).all()


@pytest.mark.parametrize("count", [5000, UNCACHED])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("half", [False, True])
def test_rows_picked_in_any_order_and_twice_have_their_own_scores(count, queries, half):
    rows, asked = unit_rows(count, 0, width=20), unit_rows(queries, 1, width=20)
    block = VectorBlock(halved(rows) if half else rows)
    picked = np.random.default_rng(2).integers(count, size=4000)[::-1]
    threads = faiss.omp_get_max_threads()

    scores = block.scores_at(picked, asked)

    true = asked.astype(float) @ block[picked].astype(float).T
    np.testing.assert_allclose(scores, true, atol=1e-6)
    assert block.scores_at(picked[:0], asked).shape == (queries, 0)
    assert faiss.omp_get_max_threads() == threads  # of the caller's own FAISS


def test_halving_twice_is_halving_once_and_components_of_one_survive():
    held = halved(unit_rows(100, 2))
    edges = np.eye(4, dtype=np.float32) * [[1], [-1], [1], [-1]]

    assert (halved(VectorBlock(held)[:]) == held).all()
    assert (VectorBlock(halved(edges))[:] == edges).all() and halved(edges).max() == STEPS
    assert VectorBlock(held)[7].dtype == np.float32


def test_a_halved_dataset_answers_within_the_error_it_states(home):
    with SoftDict.open(home) as d:
        described = d.describe()
        assert (described.precision, described.precision_in_use) == ("half", "half")
        assert d._snapshot.blocks[0].vectors.held.dtype == np.int16

        within, told, true = [], [], []
        for number in range(60):
            found, error = weights(d, f"query {number}")
            off = apart(found, expected_weights(f"query {number}"))
            within.append(off <= error)
            told.append(error)
            true.append(off)

    assert np.mean(within) >= 0.95 and min(told) > 0
    assert np.median(told) < 6 * np.median(true)


def test_its_file_is_half_as_large_and_what_is_written_later_is_in_full(home):
    (vectors,) = home.glob("generations/*/vectors.npy")
    stored = np.load(vectors, mmap_mode="r")
    with SoftDict.open(home) as d:
        d["new"] = 3.0
        assert stored.dtype == np.int16 and stored.shape[0] == 300
        assert d._snapshot.blocks[-1].vectors.held.dtype == np.float32
        assert d["new"] == 3 and d.search("new", tolerance=0).matches[0].score == pytest.approx(1)


def test_full_again_is_as_if_it_had_never_been_halved(home):
    with SoftDict.open(home) as d:
        d.configure(precision="full")
        at_once = weights(d, "país")
        d.settle()
        sketched = weights(d, "país")
        assert d.describe().precision_in_use == "full" and d._snapshot.sketch is not None

    expected = expected_weights("país")
    for found, error in (at_once, sketched):
        assert error == 0 and found == pytest.approx(expected, rel=1e-4, abs=1e-9)
    with SoftDict.open(home) as d:
        assert weights(d, "país") == sketched


def test_others_write_to_the_folder_while_all_vectors_are_read_to_be_full_again(home, monkeypatch):
    whole, held_up = Moments.whole, []
    with Catalog.open(home) as catalog:
        other = catalog.create("other", encoder=ENCODER)

        def meanwhile(self):
            held_up.append(not ended(begun(lambda: other.put("a", 1))))
            return whole(self)

        monkeypatch.setattr(Moments, "whole", meanwhile)
        catalog["dictionary"].configure(precision="full")

        assert held_up == [False] and dict(other) == {"a": 1}
        assert weights(catalog["dictionary"], "país")[1] == 0


def test_to_be_full_again_is_refused_where_a_signal_s_handler_wrote_while_all_was_read(
    home, monkeypatch
):
    whole = Moments.whole
    with SoftDict.open(home) as d:

        def interrupted(self):
            found = whole(self)
            d["new"] = 3.0
            return found

        monkeypatch.setattr(Moments, "whole", interrupted)
        with pytest.raises(RuntimeError, match="inside another write"):
            d.configure(precision="full")

        assert d.describe().precision == "half" and dict(d) == {**SEEDS, "new": 3.0}


def test_rounding_is_stated_and_undone_after_most_keys_are_deleted(home):
    with SoftDict.open(home) as d:
        _, stated = weights(d, "key 7")
        for number in range(240):
            del d[f"key {number}"]
        d.settle()
        _, after = weights(d, "key 7")
        in_use = d.describe().precision_in_use
        d.configure(precision="full")
        _, full = weights(d, "key 7")
        scores = {match.key: match.score for match in d.search("key 7", k=60).matches}

    assert (after, in_use, full) == (stated, "half", 0.0)
    encoder = open_encoder(ENCODER)
    asked = encoder.encode(["key 7"])[0].tolist()
    for key in (f"key {number}" for number in range(240, 300)):
        true = oracle.cosine(asked, encoder.encode([key])[0].tolist())
        assert scores[key] == pytest.approx(true, abs=3e-7)


def test_halving_begins_with_a_sketch_made_at_once(tmp_path):
    with SoftDict.open(tmp_path, encoder=ENCODER, temperature=TAU) as d:
        d.update(SEEDS)
        d.settle()
        assert d.describe().precision_in_use == "full"
        d.configure(precision="half")
        d.settle()
        assert d.describe().precision_in_use == "half"


def test_where_it_is_slow_and_where_few_keys_are_vectors_stay_in_full(home, tmp_path, monkeypatch):
    monkeypatch.setattr("index.moments.half_is_fast", lambda: False)
    with SoftDict.open(home) as d:
        assert (d.describe().precision, d.describe().precision_in_use) == ("half", "full")
        assert weights(d, "país")[1] == 0
        d.settle()
        assert d._snapshot.blocks[0].vectors.held.dtype == np.float32
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)
    few = SoftDict({"a": 1.0, "b": 2.0}, encoder=ENCODER)
    few.configure(precision="half")
    few.settle()

    assert few.describe().precision_in_use == "full"


def test_how_fast_it_is_is_measured_once():
    half_is_fast.cache_clear()

    assert isinstance(half_is_fast(), bool) and half_is_fast() is half_is_fast()
    assert half_is_fast.cache_info().misses == 1


@pytest.mark.parametrize(("busy", "fast"), [(0, True), (6, True), (math.inf, False)])
def test_a_processor_that_others_have_for_a_while_is_not_taken_for_a_slow_one(
    busy: float, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a dataset takes twice the memory, and its index goes, where the machine is busy."""
    clock, scanned, real = [0.0], count(), VectorBlock.scores

    def scores(block: VectorBlock, *given: Any) -> None:
        real(block, *given)
        clock[0] += 10 if block.half and next(scanned) < busy else 1

    monkeypatch.setattr("index.vectors.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(VectorBlock, "scores", scores)

    assert half_is_fast.__wrapped__() is fast


def test_another_precision_is_refused():
    with pytest.raises(InvalidRequest, match="full or half"):
        SoftDict(encoder=ENCODER).configure(precision="quarter")

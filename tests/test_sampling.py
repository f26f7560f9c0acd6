"""Head and tail: a sample of the keys stands for all, and says how far off it may be."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from index import sketch as sketching
from index.sampling import Drawn, Outlook, Sample, _variance
from index.search import standard_errors
from index.sketch import Cancelled, Left, Sketch, build_sketch
from index.vectors import Codes, VectorBlock

N, D = 30_000, 32
CODED, TAKEN, DRAWN = 1024, 256, 1024


def draw_sample(
    sketch: Sketch,
    rows: np.ndarray,
    query: np.ndarray,
    temperature: float,
    allowed: np.ndarray | None = None,
    sizes: tuple[int, int, int] = (CODED, TAKEN, DRAWN),
) -> Sample:
    coded, taken, drawn = sizes
    left = None if allowed is None else Left.of(sketch, allowed)
    outlook = Outlook.of(
        sketch, VectorBlock(rows), query, temperature=temperature,
        taken=taken, coded=coded, left=left,
    )  # fmt: skip
    return outlook.sample(outlook.shares(drawn))


def gathered_rows(count: int, seed: int) -> np.ndarray:
    """Unit rows around 60 centres: keys are like one another in groups, as words are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((60, D))
    rows = centres[rng.integers(0, 60, count)] + 0.8 * rng.standard_normal((count, D))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def sketch_of(rows: np.ndarray) -> tuple[np.ndarray, Sketch]:
    """The rows as their sketch has them, and the sketch."""
    order, sketch = build_sketch(rows)
    return rows[order], sketch


@pytest.fixture(scope="module")
def built() -> tuple[np.ndarray, Sketch]:
    return build_sketch(gathered_rows(N, 0))


@pytest.fixture(scope="module")
def sketched(built) -> tuple[np.ndarray, Sketch]:
    order, sketch = built
    return gathered_rows(N, 0)[order], sketch


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    return gathered_rows(300, 1)


def truth(rows: np.ndarray, query: np.ndarray, tau: float) -> tuple[np.ndarray, float]:
    """exp((s - best) / τ) of every key in float64, and the best score."""
    scores = rows.astype(np.float64) @ query.astype(np.float64)
    return np.exp((scores - scores.max()) / tau), float(scores.max())


def estimate(sample: Sample, best: float, tau: float) -> tuple[float, float]:
    """The mass that a sample stands for and its standard error, over exp(best / τ)."""
    terms = sample.counts * np.exp((sample.scores.astype(float) - best) / tau)
    return terms.sum(), sample.standard_error(terms)


def effective(exps: np.ndarray) -> float:
    """Effective keys of weights in these proportions."""
    weights = exps / exps.sum()
    weights = weights[weights > 0]
    return float(np.exp(-(weights * np.log(weights)).sum()))


def stated_error(sketch: Sketch, exps: np.ndarray, spread: float, tau: float) -> float:
    """What an answer states of a mass: by what was drawn, and a key that may have been missed."""
    hidden = min(np.exp(-7 * sketch.deviation / tau), 0.003 * exps.sum())
    return float(np.hypot(standard_errors(effective(exps)) * spread, hidden))


def by_meaning(rows: np.ndarray, sketch: Sketch) -> np.ndarray:
    """A mask that goes with meaning: all rows of half of the cells, one in thirty of the others."""
    rng = np.random.default_rng(4)
    cell = np.repeat(np.arange(len(sketch.means)), np.diff(sketch.starts))
    return (cell % 2 == 0) | (rng.random(len(rows)) < 1 / 30)


def is_right_on_average(
    samples: list[Sample], rows: np.ndarray, queries: np.ndarray, tau: float
) -> None:
    """The samples stand for ``rows``: no bias, and two standard errors cover what they are off."""
    off, covered = [], 0
    for sample, query in zip(samples, queries, strict=True):
        exps, best = truth(rows, query, tau)
        mass, spread = estimate(sample, best, tau)
        off.append(mass / exps.sum() - 1)
        covered += abs(mass - exps.sum()) <= 2 * spread
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(len(off))
    assert covered / len(queries) > 0.91


def test_the_order_is_a_permutation_and_cells_are_runs_of_rows_near_their_mean(built):
    rows = gathered_rows(N, 0)
    order, sketch = built

    assert sorted(order.tolist()) == list(range(N))
    assert sketch.starts[0] == 0 and sketch.starts[-1] == N
    assert (np.diff(sketch.starts) > 0).all()
    spreads = []
    for cell in (0, len(sketch.means) // 2, len(sketch.means) - 1):
        members = rows[order[sketch.starts[cell] : sketch.starts[cell + 1]]].astype(float)
        np.testing.assert_allclose(sketch.means[cell], members.mean(axis=0), atol=1e-5)
        spreads.append(((members - members.mean(axis=0)) ** 2).sum(axis=1).mean())
    pooled = float(np.trace(sketch.scatter))
    picked = [0, len(sketch.means) // 2, len(sketch.means) - 1]
    np.testing.assert_allclose(sketch.strays[picked], np.array(spreads) / pooled, rtol=1e-3)


def test_scores_stray_from_those_of_the_cells_means_by_the_deviation(sketched):
    rows, sketch = sketched
    queries = np.random.default_rng(0).standard_normal((2_000, D))  # in any direction
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    cell = np.repeat(np.arange(len(sketch.means)), np.diff(sketch.starts))

    strays = (rows[::10] - sketch.means[cell[::10]]) @ queries.T

    assert sketch.deviation == pytest.approx(np.sqrt((strays**2).mean()), rel=0.02)


def test_rows_stand_at_random_inside_their_cells(built):
    """Else even steps might meet one kind alone of keys that came in turns."""
    order, sketch = built

    rising = [np.diff(order[first:end]) > 0 for first, end in pairwise(sketch.starts.tolist())]
    assert np.concatenate(rising).mean() == pytest.approx(0.5, abs=0.02)


def test_a_tally_says_how_many_of_some_rows_are_of_each_cell(sketched):
    _, sketch = sketched
    rows = np.random.default_rng(5).permutation(N)[: N // 3]

    tally = sketch.tally(rows)

    bounds = list(pairwise(sketch.starts.tolist()))
    assert tally.tolist() == [sum(first <= row < end for row in rows) for first, end in bounds]


def test_a_key_that_is_like_no_other_is_seldom_in_a_cell_of_many_that_are():
    """Of its cell it would be many deviations off: nothing would foretell its weight."""
    rng = np.random.default_rng(8)
    centres = rng.standard_normal((3, D))
    crowd = centres[rng.integers(0, 3, N - 3000)] + 0.25 * rng.standard_normal((N - 3000, D))
    rows = np.concatenate([crowd, rng.standard_normal((3000, D))]).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows, sketch = sketch_of(rows)
    rows, astray = rows.astype(float), 0

    for start, end in zip(sketch.starts[:-1], sketch.starts[1:], strict=True):
        squares = ((rows[start:end] - rows[start:end].mean(axis=0)) ** 2).sum(axis=1)
        astray += np.count_nonzero(squares > 10 * squares.mean())
    assert astray <= 10  # of 3,000


def test_the_same_rows_make_the_same_sketch(built):
    order, sketch = built
    again, twin = build_sketch(gathered_rows(N, 0))

    assert (order == again).all()
    np.testing.assert_array_equal(sketch.means, twin.means)


def test_a_build_that_is_called_off_ends_at_the_next_look():
    looks = iter([True, True, False])

    with pytest.raises(Cancelled):
        build_sketch(gathered_rows(2_000, 0), go_on=lambda: next(looks))


def test_a_stated_error_is_wider_the_fewer_keys_share_the_attention():
    """From 1.15 times a normal one of 1.96 standard errors, to that of many keys."""
    wanted = [2.254, 2.254, 2.205, 2.156, 2.107, 2.058, 2.009, 1.96, 1.96]
    given = [standard_errors(keys) for keys in (0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7)]
    np.testing.assert_allclose(given, wanted, atol=5e-4)


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.3])
def test_the_mass_is_right_on_average_and_the_stated_error_holds(sketched, queries, tau):
    rows, sketch = sketched
    off, stated = [], []
    for query in queries:
        sample = draw_sample(sketch, rows, query, tau)
        exps, best = truth(rows, query, tau)
        mass, spread = estimate(sample, best, tau)
        off.append(mass / exps.sum() - 1)
        stated.append(stated_error(sketch, exps, spread, tau) / mass)
    off, stated = np.array(off), np.array(stated)

    # No bias: the mean of 300 independent errors is as small as their spread allows.
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off))
    assert np.percentile(abs(off), 95) < 0.1
    # 95 % are wanted; three deviations of a count of 300 are 3.8 %.
    assert np.mean(abs(off) <= stated) > 0.91
    assert np.median(stated) < 5 * np.median(abs(off))


def test_scores_are_those_of_the_keys_and_no_key_stands_twice(sketched, queries):
    rows, sketch = sketched
    for query in queries[:20]:
        sample = draw_sample(sketch, rows, query, 0.1)

        expected = rows[sample.rows].astype(float) @ query.astype(float)
        np.testing.assert_allclose(sample.scores, expected, atol=1e-6)
        most = len(sketch.strange) + TAKEN + DRAWN
        assert len(set(sample.rows.tolist())) == len(sample.rows) <= most
        assert (sample.counts >= 1).all()


def test_the_best_keys_are_all_taken(sketched, queries):
    rows, sketch = sketched
    found = 0
    for query in queries:
        sample = draw_sample(sketch, rows, query, 0.05)
        best = np.argsort(-(rows @ query), kind="stable")[:10]
        taken = sample.rows[sample.counts == 1]
        found += len(set(best.tolist()) & set(taken.tolist()))

    assert found / (10 * len(queries)) > 0.99


def test_the_same_question_draws_the_same_keys(sketched, queries):
    rows, sketch = sketched
    first: Sample = draw_sample(sketch, rows, queries[0], 0.1)
    again: Sample = draw_sample(sketch, rows, queries[0].copy(), 0.1)

    assert (first.rows == again.rows).all() and (first.counts == again.counts).all()


def test_a_question_whose_last_bits_are_others_draws_nearly_the_same_keys(sketched, queries):
    """As of a text that is encoded among others: the answers may not differ by what is random."""
    rows, sketch = sketched
    shared = []
    for query in queries[:20]:
        noise = 2e-8 * np.random.default_rng(0).standard_normal(D).astype(np.float32)
        drawn = set(draw_sample(sketch, rows, query, 0.1).rows.tolist())
        again = set(draw_sample(sketch, rows, query + noise, 0.1).rows.tolist())

        shared.append(len(drawn & again) / len(drawn))

    assert np.mean(shared) > 0.99
    # Of two keys whose codes are as good, the other one may be taken, which moves the bar a little.
    assert min(shared) > 0.9


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("tau", [0.05, 0.1, 0.3])
def test_a_sample_that_is_added_to_stands_for_all_as_one_drawn_at_once(
    sketched, queries, tau, masked
):
    rows, sketch = sketched
    allowed = np.random.default_rng(2).random(N) < (0.7 if masked else 1.1)
    samples, sizes = [], []
    for query in queries:
        outlook = Outlook.of(
            sketch, VectorBlock(rows), query, temperature=tau, taken=TAKEN, coded=CODED,
            left=Left.of(sketch, allowed) if masked else None,
        )  # fmt: skip
        first = outlook.sample(outlook.shares(DRAWN // 4))
        once = outlook.sample(outlook.shares(DRAWN))
        some = outlook.sample(outlook.shares(DRAWN // 2), first)
        samples.append(outlook.sample(outlook.shares(DRAWN), some))
        sizes.append(len(samples[-1].rows) / len(once.rows))
        scored = dict(zip(samples[-1].rows.tolist(), samples[-1].scores.tolist(), strict=True))

        assert len(scored) == len(samples[-1].rows)
        assert first.rows.size < some.rows.size < samples[-1].rows.size
        assert set(first.rows.tolist()) <= set(some.rows.tolist()) <= scored.keys()
        expected = rows[list(scored)].astype(float) @ query.astype(float)
        np.testing.assert_allclose(list(scored.values()), expected, atol=1e-5)

    is_right_on_average(samples, rows[allowed], queries, tau)
    assert np.mean(sizes) == pytest.approx(1, abs=0.01)


def test_a_sample_that_lacks_nothing_is_left_as_it_is(sketched, queries):
    rows, sketch = sketched
    outlook = Outlook.of(
        sketch, VectorBlock(rows), queries[0], temperature=0.1, taken=TAKEN, coded=CODED
    )
    enough = outlook.sample(outlook.shares(DRAWN))
    again = outlook.sample(outlook.shares(DRAWN // 2), enough)

    np.testing.assert_array_equal(again.rows, enough.rows)
    np.testing.assert_array_equal(again.counts, enough.counts)
    assert again.standard_error(again.counts) == enough.standard_error(enough.counts)


@pytest.mark.parametrize("share", [0.9, 0.4])
def test_only_allowed_keys_are_drawn_and_they_stand_for_the_allowed(sketched, queries, share):
    rows, sketch = sketched
    allowed = np.random.default_rng(2).random(N) < share
    samples = [draw_sample(sketch, rows, query, 0.1, allowed) for query in queries]

    is_right_on_average(samples, rows[allowed], queries, 0.1)
    assert all(allowed[sample.rows].all() for sample in samples)


@pytest.mark.parametrize("tau", [0.1, 0.3])
def test_a_mask_that_goes_with_meaning_leaves_what_the_samples_stand_for(sketched, queries, tau):
    rows, sketch = sketched
    allowed = by_meaning(rows, sketch)
    samples = [draw_sample(sketch, rows, query, tau, allowed) for query in queries]

    is_right_on_average(samples, rows[allowed], queries, tau)
    for sample in samples:
        assert allowed[sample.rows].all()
        assert len(set(sample.rows.tolist())) == len(sample.rows)


def test_near_keys_are_found_where_a_mask_leaves_a_few_of_a_crowd_and_no_others_as_near():
    rng = np.random.default_rng(3)
    query = np.eye(16, dtype=np.float32)[0]
    crowd = query + 1e-3 * rng.standard_normal((N // 10, 16))
    given = np.concatenate([crowd, rng.standard_normal((N, 16))])
    given = (given / np.linalg.norm(given, axis=1, keepdims=True)).astype(np.float32)
    rows, sketch = sketch_of(given)
    scores = rows @ query
    allowed = scores < 0
    allowed[np.flatnonzero(scores > 0.9999)[:5]] = True

    outlook = Outlook.of(
        sketch, VectorBlock(rows), query, temperature=0.1,
        taken=512, coded=2048, left=Left.of(sketch, allowed),
    )  # fmt: skip

    assert np.count_nonzero(allowed) > N // 3
    assert len(outlook.near) >= 2048


def test_what_a_mask_hides_takes_no_place_among_the_near(sketched, queries):
    rows, sketch = sketched
    found = []
    for query in queries[:20]:
        scores = rows.astype(float) @ query.astype(float)
        allowed = scores < np.sort(scores)[-3 * CODED]  # all that is nearest is hidden
        outlook = Outlook.of(
            sketch, VectorBlock(rows), query, temperature=0.1,
            taken=TAKEN, coded=CODED, left=Left.of(sketch, allowed),
        )  # fmt: skip
        best = np.flatnonzero(allowed & (scores >= np.sort(scores[allowed])[-20]))

        assert allowed[outlook.near].all() and len(outlook.near) >= 0.75 * CODED
        found.append(np.isin(best, outlook.near).mean())
    assert np.mean(found) > 0.8  # codes are coarse


@pytest.mark.parametrize("mask", ["scattered", "by meaning"])
def test_an_outlook_narrowed_stands_for_the_fewer_that_are_allowed(sketched, queries, mask):
    rows, sketch = sketched
    wide = np.random.default_rng(5).random(N) < 0.9
    narrow = np.random.default_rng(6).random(N) < 0.4
    narrow = wide & (narrow if mask == "scattered" else by_meaning(rows, sketch))
    samples = []
    for query in queries:
        outlook = Outlook.of(
            sketch, VectorBlock(rows), query, temperature=0.2,
            taken=TAKEN, coded=CODED, left=Left.of(sketch, wide),
        )  # fmt: skip
        narrowed = outlook.under(Left.of(sketch, narrow))
        samples.append(narrowed.sample(narrowed.shares(2 * DRAWN)))
        assert narrow[samples[-1].rows].all()

    is_right_on_average(samples, rows[narrow], queries, 0.2)


@pytest.fixture(scope="module", params=[1, 40, 256])
def shared(request) -> tuple[np.ndarray, np.ndarray, Sketch]:
    """So many vectors, and many rows that are each one of them."""
    few = gathered_rows(request.param, 2)
    return few, *sketch_of(few[np.random.default_rng(8).integers(0, len(few), N)])


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_keys_that_share_a_vector_are_stood_for_as_well_as_others(shared, queries, tau):
    few, rows, sketch = shared
    asked = few[np.random.default_rng(9).integers(0, len(few), len(queries))] + queries
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    samples = [draw_sample(sketch, rows, query, tau) for query in asked]

    is_right_on_average(samples, rows, asked, tau)


def circle_rows(count: int, seed: int) -> np.ndarray:
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def circle() -> tuple[np.ndarray, Sketch]:
    return sketch_of(circle_rows(N, 8))


@pytest.mark.parametrize("tau", [0.02, 0.1, 1.0])
def test_keys_that_codes_hardly_tell_apart_are_stood_for_as_well_as_others(circle, tau):
    """On a circle a code is one of a few hundred: the last ones found are some of many alike."""
    rows, sketch = circle
    asked = circle_rows(300, 9)
    samples = [draw_sample(sketch, rows, query, tau) for query in asked]

    is_right_on_average(samples, rows, asked, tau)


def test_drawing_every_key_is_exact(sketched, queries):
    rows, sketch = sketched
    sample = draw_sample(sketch, rows, queries[0], 0.1, sizes=(N, N, N))

    assert sorted(sample.rows.tolist()) == list(range(N))
    assert (sample.counts == 1).all()
    assert sample.standard_error(sample.scores) == pytest.approx(0, abs=1e-12)


def test_extreme_temperatures_give_numbers(sketched, queries):
    rows, sketch = sketched
    for tau in (1e-3, 1e3):
        sample = draw_sample(sketch, rows, queries[0], tau)

        assert np.isfinite(sample.counts).all() and np.isfinite(sum(estimate(sample, 1.0, tau)))
        outlook = Outlook.of(
            sketch, VectorBlock(rows), queries[0], temperature=tau, taken=TAKEN, coded=CODED
        )
        assert np.isfinite(outlook.unevenness(outlook.shares(DRAWN)))
        if tau > 1:
            assert sample.counts.sum() == pytest.approx(N, rel=0.1)


def test_keys_that_share_a_vector_far_above_all_others_give_numbers_however_fine_the_choice():
    x, others = gathered_rows(1, 3), gathered_rows(N, 0)
    others -= np.maximum(others @ x.T, 0) * x  # at right angles to it, or farther away
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    rows = np.where(np.arange(N)[:, np.newaxis] < 2 * TAKEN, x, others)
    rows, sketch = sketch_of(rows)
    outlook = Outlook.of(
        sketch, VectorBlock(rows), x[0], temperature=1e-3, taken=TAKEN, coded=CODED
    )
    shares = outlook.shares(DRAWN)

    assert np.isfinite(outlook.unevenness(shares))
    sample = outlook.sample(shares)
    mass = sample.counts @ np.exp((sample.scores - 1) / 1e-3)
    assert mass == pytest.approx(2 * TAKEN, rel=0.01)


def test_a_few_keys_far_above_the_bar_are_each_drawn_once(sketched, queries):
    rows, sketch = sketched
    for query in rows[:20]:
        outlook = Outlook.of(sketch, VectorBlock(rows), query, temperature=0.002, taken=2, coded=64)
        chances, draws = outlook.shares(N)

        assert (chances == 1).all()
        assert (draws <= np.diff(sketch.starts)).all()


def test_a_width_that_four_does_not_divide_can_be_sketched():
    rows = np.random.default_rng(0).standard_normal((500, 7)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    order, sketch = build_sketch(rows)
    sample = draw_sample(sketch, rows[order], rows[0], 0.1, sizes=(64, 16, 64))

    assert 0 in order[sample.rows]
    assert len(rows) < sketching.SKETCHED_FROM


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_codes_give_all_of_their_cells_that_score_above_a_bar(sketched, queries, tmp_path, share):
    _, sketch = sketched
    sketch.codes.save(tmp_path / "codes.npy")
    again = Codes.load(tmp_path / "codes.npy")
    again.know(sketch.means)
    mask = np.random.default_rng(9).random(N) < share
    allowed = None if share == 1 else np.packbits(mask, bitorder="little")
    for query in queries[:50]:
        middles = sketch.means @ query
        cells = np.argsort(-middles)
        for some in (cells, cells[:40], cells[:1]):
            wide_scores, wide_rows = sketch.codes.above(query, -9, some, middles, allowed)
            of_cells = np.concatenate([np.arange(*sketch.starts[c : c + 2]) for c in some])
            inside = np.setdiff1d(of_cells[mask[of_cells]], sketch.strange)
            bar = float(np.quantile(wide_scores, 0.8))
            scores, rows = sketch.codes.above(query, bar, some, middles, allowed)

            assert set(wide_rows.tolist()) == set(inside)
            assert len(set(rows.tolist())) == len(rows)
            near = np.abs(wide_scores - bar) < 1e-3  # FAISS compares what it has rounded
            assert set(wide_rows[(wide_scores > bar) & ~near].tolist()) <= set(rows.tolist())
            assert set(rows.tolist()) <= set(wide_rows[(wide_scores > bar) | near].tolist())
            told = dict(zip(wide_rows.tolist(), wide_scores.tolist(), strict=True))
            np.testing.assert_allclose(scores, [told[row] for row in rows.tolist()], atol=1e-6)
            same = again.above(query, bar, some, middles, allowed)
            np.testing.assert_array_equal(same[1], rows)
            assert not len(sketch.codes.above(query, 9, some, middles, allowed)[1])


def test_codes_are_looked_at_again_where_too_few_score_above_the_bar(
    sketched, queries, monkeypatch
):
    rows, sketch = sketched
    for query in queries[:20]:
        found = []
        for bars in ((9.0, 8.0, -1.0), (-1.0, -5.0), (9.0, 8.0)):
            monkeypatch.setattr("index.sampling.BARS", bars)
            found.append(
                Outlook.of(
                    sketch, VectorBlock(rows), query, temperature=0.1, taken=TAKEN, coded=CODED
                )
            )
        again, once, never = found

        assert len(again.near) >= len(sketch.strange) + TAKEN
        assert len(never.near) < len(sketch.strange) + TAKEN
        np.testing.assert_array_equal(again.near, once.near)
        np.testing.assert_array_equal(again.edge, once.edge)


def test_codes_tell_the_scores_of_their_own_rows(sketched, queries):
    rows, sketch = sketched
    for query in queries[:50]:
        everywhere = np.arange(len(sketch.means))
        guesses, near = sketch.codes.above(query, -9, everywhere, sketch.means @ query)
        best = np.argsort(-guesses)[:1000]
        guesses, near = guesses[best], near[best]
        true = rows[near].astype(float) @ query.astype(float)
        others = np.delete(rows, near, axis=0).astype(float) @ query.astype(float)

        # Codes are coarse; dealt out to the wrong rows they would tell nothing.
        assert np.corrcoef(guesses, true)[0, 1] > 0.9
        assert true.mean() > np.percentile(others, 95)


def test_a_row_scores_with_its_own_code_what_it_does_with_itself():
    """A code reads less of a row than there is: of these two thirds, had they not been moved."""
    rows = np.random.default_rng(7).standard_normal((4_000, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows, sketch = sketch_of(rows)
    told = []
    for place in range(0, len(rows), 100):
        row, own = rows[place], np.searchsorted(sketch.starts, [place], side="right") - 1
        scores, near = sketch.codes.above(row, -9, own, sketch.means @ row)
        told.append(scores[near == place][0])

    assert np.mean(told) == pytest.approx(1, abs=0.04)
    assert np.std(told) < 0.04


@pytest.fixture(scope="module")
def strange() -> tuple[np.ndarray, Sketch]:
    """Rows of 40 narrow families, and 100 that are like no others; as wide as those of texts."""
    rng, count, width = np.random.default_rng(7), 8_000, 384
    centres = rng.standard_normal((40, width))
    rows = centres[rng.integers(0, 40, count)] + 0.15 * rng.standard_normal((count, width))
    rows[:100] = rng.standard_normal((100, width))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    order, sketch = build_sketch(rows)
    assert len(sketch.strange) > 80 and (order[sketch.strange] < 100).all()  # some are cells
    return rows[order], sketch


@pytest.mark.parametrize("tau", [0.01, 0.02, 0.05])
def test_what_is_stated_holds_where_some_keys_are_like_no_others(strange, tau):
    """Of these, codes tell nothing, and so they left no trace in what a sample said of itself."""
    rows, sketch = strange
    queries = np.random.default_rng(1).standard_normal((200, rows.shape[1])).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    within = 0
    for query in queries:
        sample = draw_sample(sketch, rows, query, tau)
        exps, best = truth(rows, query, tau)
        mass, spread = estimate(sample, best, tau)
        stated = stated_error(sketch, exps, spread, tau)
        within += abs(mass - exps.sum()) <= stated + 1e-5 * exps.sum()

    np.testing.assert_array_equal(rows[sketch.strange], sketch.strangers)
    assert within >= 0.95 * len(queries)


@pytest.fixture(scope="module", params=[0.04, 0.2, 0.6, 1.0])
def empty(request) -> tuple[np.ndarray, Sketch]:
    """Rows of which such a share is of length 0."""
    rows = gathered_rows(N, 0)
    rows[np.random.default_rng(5).random(N) < request.param] = 0
    return sketch_of(rows)


@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_length_0_are_keys_as_others_are(empty, masked, queries):
    """An encoder that knows nothing of a text gives one; many were neither strangers nor coded."""
    rows, sketch = empty
    allowed = np.random.default_rng(6).random(N) < 0.7 if masked else np.ones(N, bool)
    within = 0
    for query in queries[:100]:
        sample = draw_sample(sketch, rows, query, 0.1, allowed if masked else None)
        exps, best = truth(rows[allowed], query, 0.1)
        mass, spread = estimate(sample, best, 0.1)
        stated = stated_error(sketch, exps, spread, 0.1)
        within += abs(mass - exps.sum()) <= stated + 1e-5 * exps.sum()

        assert allowed[sample.rows].all()
        assert len(np.unique(sample.rows)) == len(sample.rows)
        np.testing.assert_allclose(sample.scores, rows[sample.rows] @ query, atol=1e-5)

    assert within >= 90  # of 100; 95 are wanted


@pytest.mark.parametrize(("noise", "lean"), [(0.1, 0.0), (0.4, 0.6)])
def test_a_crowd_of_nearly_the_same_keys_hides_no_better_one(noise, lean):
    """Asked is between a crowd and a key beside a small group, which has most of the weight."""
    rng = np.random.default_rng(3)

    def unit(rows: np.ndarray) -> np.ndarray:
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def directions(count: int) -> np.ndarray:
        return unit(rng.standard_normal((count, 96)))

    def around(centres: np.ndarray, count: int) -> np.ndarray:
        return unit(np.repeat(centres, count, axis=0) + noise * directions(len(centres) * count))

    crowds, groups = directions(2), directions(500)
    beside = groups[rng.integers(0, 500, 2500)] + directions(2500)
    lone = unit(beside / 2**0.5 + lean * crowds[rng.integers(0, 2, 2500)])
    rows, sketch = sketch_of(np.concatenate([around(crowds, 5000), around(groups, 35), lone]))
    aimed = rng.uniform(0.6, 0.8, (200, 1)) * crowds[rng.integers(0, 2, 200)]
    off = 0
    for query in unit(lone[rng.integers(0, 2500, 200)] + aimed):
        exps, best = truth(rows, query, 0.02)
        mass, _ = estimate(draw_sample(sketch, rows, query, 0.02), best, 0.02)
        off += abs(mass / exps.sum() - 1) > 0.03

    assert off <= 6


def test_strangers_are_masked_as_others_are_and_counted_once(strange):
    rows, sketch = strange
    mask = np.random.default_rng(3).random(len(rows)) < 0.5
    for query in rows[sketch.strange[:20]]:
        sample = draw_sample(sketch, rows, query, 0.05, mask)

        assert mask[sample.rows].all()
        assert len(set(sample.rows.tolist())) == len(sample.rows)
        allowed = sketch.strange[mask[sketch.strange]]
        assert set(allowed.tolist()) <= set(sample.rows[sample.counts == 1].tolist())
        true = rows[sample.rows].astype(float) @ query.astype(float)
        np.testing.assert_allclose(sample.scores, true, atol=1e-6)


def test_strangers_have_no_codes(strange):
    rows, sketch = strange
    everywhere = np.arange(len(sketch.means))
    for query in rows[sketch.strange[:5]]:
        _, near = sketch.codes.above(query, -9, everywhere, sketch.means @ query)

        assert not np.isin(sketch.strange, near).any()


def test_of_very_many_strangers_those_furthest_from_their_codes_stand_by(monkeypatch):
    monkeypatch.setattr(sketching, "MOST_STRANGERS", 100)
    everyone = np.array([0.3] * 1000 + [0.7] * 150 + [0.9] * 90)

    assert 0.7 <= sketching._farthest(everyone, len(everyone)) < 0.9  # or 240 would be strangers
    assert sketching._farthest(everyone[:1090], 1090) == pytest.approx(0.6)
    assert sketching._farthest(everyone / 100, len(everyone)) == 0.1


@pytest.mark.parametrize("taken", [2, TAKEN])
@pytest.mark.parametrize("tau", [0.02, 0.1, 1.0, 50.0])
def test_whatever_is_hoped_for_some_draws_go_everywhere(sketched, queries, tau, taken):
    rows, sketch = sketched
    for query in queries[:10]:
        outlook = Outlook.of(
            sketch, VectorBlock(rows), query, temperature=tau, taken=taken, coded=CODED
        )
        chances, draws = outlook.shares(300)

        assert chances.sum() + draws.sum() == pytest.approx(300)
        assert min(chances.sum(), draws.sum()) >= 0.149 * 300
        assert (draws >= 0.099 * draws.sum() * outlook.sizes / N).all()
        assert (draws <= outlook.sizes).all() and (chances <= 1).all()


def test_what_cells_hold_below_the_bar_is_foretold_of_tight_and_of_loose_ones():
    centres = np.random.default_rng(9).standard_normal((40, D))

    def rows_of(count: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        centre = rng.integers(0, 40, count)
        spread = np.where(centre % 2, 1.5, 0.3)[:, np.newaxis]
        rows = centres[centre] + spread * rng.standard_normal((count, D))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    rows, tau, ratios = rows_of(4000, 0), 0.05, []
    rows, sketch = sketch_of(rows)
    loose = sketch.strays > 0.7
    for query in rows_of(60, 1):
        outlook = Outlook.of(sketch, VectorBlock(rows), query, temperature=tau, taken=64, coded=256)
        exps = np.exp((rows.astype(float) @ query.astype(float) - outlook.bar) / tau)
        exps[exps > 1] = 0
        for power, foretold in ((1, outlook.means), (2, outlook.hopes**2)):
            held = np.add.reduceat(exps**power, sketch.starts[:-1])
            ratios.append([(outlook.sizes * foretold)[of].sum() / held[of].sum()
                           for of in (loose, ~loose)])  # fmt: skip

    assert 10 < loose.sum() < len(loose) - 10
    assert np.median(np.reshape(ratios, (-1, 2, 2)), axis=0) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("tau", [0.03, 0.1, 0.3])
def test_the_unevenness_is_foretold(sketched, queries, tau):
    rows, sketch = sketched
    ratio = []
    for query in queries[:100]:
        outlook = Outlook.of(
            sketch, VectorBlock(rows), query, temperature=tau, taken=TAKEN, coded=CODED
        )
        shares = outlook.shares(DRAWN)
        sample = outlook.sample(shares)
        exps = np.exp((sample.scores.astype(float) - sample.scores.max()) / tau)
        weights = sample.counts * exps / (sample.counts * exps).sum()
        found = np.sqrt(((1 - 1 / sample.counts) * weights**2).sum())
        ratio.append(outlook.unevenness(shares) / found)

    assert 0.7 < np.median(ratio) < 1.4


def test_variance_of_drawn_terms_is_that_of_plain_loops():
    counts = np.array([1.0, 4.0, 2.5, 10.0, 1.0, 3.0])
    terms = np.array([9.0, 2.0, 5.0, 1.0, 3.0, 4.0])

    rooms = [1 - 1 / count for count in counts]
    drawn = [place for place, room in enumerate(rooms) if room > 0]
    middle = sum(rooms[i] * terms[i] for i in drawn) / sum(rooms)
    expected = sum(
        len(drawn) / (len(drawn) - 1) * room * (term - middle) ** 2
        for room, term in zip(rooms, terms, strict=True)
    )
    assert _variance(counts, terms) == pytest.approx(expected + middle**2 / 4)
    assert _variance(counts[:2], terms[:2]) == pytest.approx(2.0**2 / 4)  # one was drawn
    assert _variance(counts[:1], terms[:1]) == 0 == _variance(counts[:0], terms[:0])


def test_the_error_of_a_sum_is_that_of_what_was_drawn_at_the_edge_and_of_cells_in_vain_too(alike):
    _, rows, sketch = alike
    outlook = Outlook.of(sketch, VectorBlock(rows), rows[0], temperature=0.05, taken=2, coded=5)
    assert len(outlook.head_scores) == 2
    none, unscored = np.empty(0, np.int64), np.empty(0, np.float32)
    drawn = Drawn(np.arange(3), unscored, none, none, unscored)
    counts = np.array([1.0, 1.0, 4.0, 2.5, 1.0, 10.0, 3.0])  # two of the head, three at the edge
    sample = Sample(np.arange(7), np.zeros(7, np.float32), counts, np.array([5.0, 8.0]),
                    (np.empty(0), np.empty(0)), drawn, outlook)  # fmt: skip
    terms = np.array([9.0, 7.0, 2.0, 5.0, 3.0, 1.0, 4.0])

    at_edge = _variance(np.array([4.0, 2.5, 1.0]), np.array([2.0, 5.0, 3.0]))
    of_cells = _variance(np.array([10.0, 3.0, 5.0, 8.0]), np.array([1.0, 4.0, 0.0, 0.0]))
    assert sample.standard_error(terms) == pytest.approx((at_edge + of_cells) ** 0.5)


@pytest.fixture(scope="module")
def alike() -> tuple[np.ndarray, np.ndarray, Sketch]:
    """A few vectors, and 900 rows of each."""
    rng = np.random.default_rng(1)
    kinds = rng.standard_normal((25, D)).astype(np.float32)
    kinds /= np.linalg.norm(kinds, axis=1, keepdims=True)
    return kinds, *sketch_of(np.repeat(kinds, 900, axis=0)[rng.permutation(25 * 900)])


@pytest.mark.parametrize("tau", [0.01, 0.02, 0.03, 0.05, 0.1])
def test_what_is_stated_holds_where_all_that_weigh_are_alike(alike, tau):
    """More keys share each of a few vectors than are taken: what is off is how many are drawn."""
    kinds, rows, sketch = alike
    rng, within, off = np.random.default_rng(2), 0, []

    for query in kinds[:20] + 0.1 * rng.standard_normal((20, D)).astype(np.float32):
        query = query / np.linalg.norm(query)
        sample = draw_sample(sketch, rows, query, tau, sizes=(2048, 256, 512))
        exps, best = truth(rows, query, tau)
        mass, spread = estimate(sample, best, tau)
        off.append(abs(mass / exps.sum() - 1))
        within += abs(mass - exps.sum()) <= 2 * spread + 1e-5 * mass

    assert max(off) > 2e-5  # or it would say nothing
    assert within >= 19


@pytest.mark.parametrize(("spread", "astray"), [(0.05, 0.03), (0.05, 0.015), (0.1, 0.02)])
def test_above_the_highest_missed_score_next_to_no_key_is_missed(sketched, spread, astray) -> None:
    """Beside worlds in which scores, and what codes tell of them, are normal, and all is known."""
    rows, sketch = sketched
    rng = np.random.default_rng(0)
    outlook = Outlook.of(
        sketch, VectorBlock(rows), rows[0], temperature=0.05, taken=TAKEN, coded=CODED
    )
    slope = spread**2 / (spread**2 + astray**2)
    missed, heights = [], []
    for _ in range(1_000):
        scores = spread * rng.standard_normal(N)
        told = scores + astray * rng.standard_normal(N)
        order = np.argsort(-told)[:CODED]
        least = told[order[-1]]
        world = replace(
            outlook,
            head_scores=scores[order[:TAKEN]].astype(np.float32),
            edge=slope * (told[order[TAKEN:]] - least),
            stray=astray * slope**0.5,
            least=float(least),
            slope=slope,
        )
        chances = np.clip(world.edge / world.edge[0] * 1.2, 0.05, 1)
        height = world.highest_missed(chances)
        found = order[TAKEN:][rng.random(len(chances)) < chances]
        left_out = np.ones(N, bool)
        left_out[order[:TAKEN]] = left_out[found] = False
        missed.append(np.count_nonzero(left_out & (scores > height)))
        heights.append(height)
        assert not world.are_found(height)
        surely = next(s for s in np.linspace(0, 1, 201) if world.are_found(float(s)))
        assert surely > height

    assert 0.005 < np.mean(missed) < 0.05  # RARELY is .02
    assert np.std(heights) < 0.2 * spread


def test_where_codes_show_all_there_is_no_key_is_thought_to_be_missed(sketched) -> None:
    rows, sketch = sketched
    outlook = Outlook.of(
        sketch, VectorBlock(rows), rows[0], temperature=0.05, taken=TAKEN, coded=CODED
    )
    chances = np.ones(len(outlook.edge))

    assert replace(outlook, stray=0.0, slope=1.0, least=-1.0).highest_missed(chances) == -np.inf
    empty = replace(outlook, head_scores=outlook.head_scores[:0], edge=outlook.edge[:0])
    assert empty.highest_missed(chances[:0]) == -np.inf
    few = replace(outlook, edge=outlook.edge[:3], stray=1.0)
    assert few.highest_missed(chances[:3]) == outlook.head_scores.max()

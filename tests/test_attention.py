"""The formula against printed figures, against plain loops in exact fractions, and its laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from index.attention import (
    MultiHeadAttention,
    State,
    attend,
    attention,
    attention_weights,
    blend,
    causal_mask,
    dropout,
    empty_state,
    merge,
    project,
    sqrt_d,
    stack,
)

Array = np.ndarray[Any, np.dtype[Any]]
unhurried = settings(deadline=None)  # another process may hold the machine

# ---------------------------------------------------------------- what is printed elsewhere


def agree(got: Array, printed: str, *, units: float = 0.5) -> None:
    """Compare with printed figures: by default to half a unit of the last place printed."""
    figures = printed.split()
    places = max(len(figure.partition(".")[2]) for figure in figures)
    np.testing.assert_allclose(
        got, np.array(figures, float), rtol=0, atol=1.0001 * units * 10**-places
    )


FOUR_WORDS = np.array(
    [
        [0.86379499, 0.93042748, 0.82149658],
        [0.11288872, 0.23407153, 0.26185969],
        [0.79451453, 0.63626262, 0.39415654],
        [0.59248056, 0.70135167, 0.51830873],
    ]
)
HOLA_BRILLANTE_SOL = np.array([[0.34, 0.22, 0.54], [0.53, 0.34, 0.98], [0.29, 0.54, 0.93]])
LAST_WORDS = np.array([[1, 1, 1], [1, 1, 1], [2, 2, 2], [2, 2, 0]])


def test_weights_by_hand_blend_to_eight() -> None:
    weights = [0.30, 0.30, 0.30, 0.10]  # méxico, alemania, inglaterra, perro

    agree(blend(weights, [7, 10, 8, 5]), "8.0000000000000")


def test_words_on_the_circle() -> None:
    words = ["EL", "PERRO", "TIENE", "EL", "PELO", "SUELTO"]
    words += ["THE", "DOG", "HAS", "LOOSE", "HAIR"]
    turn = 2 * math.pi / len(words)
    at = {word: [math.cos(i * turn), math.sin(i * turn)] for i, word in enumerate(words)}
    keys = np.array([at[word] for word in ("PERRO", "TIENE", "PELO")])
    values = np.array([at[word] for word in ("DOG", "HAS", "HAIR")])

    context, weights = attention([at["PERRO"]], keys, values, temperature=3)

    agree(weights[0], "0.37996893 0.3603854 0.25964567")
    by_hand = [
        sum(w * value[c] for w, value in zip(weights[0], values, strict=True)) for c in (0, 1)
    ]
    np.testing.assert_allclose(context[0], by_hand, atol=1e-12)


def test_the_second_of_four_words() -> None:
    context, weights = attention(FOUR_WORDS[1:2], FOUR_WORDS, FOUR_WORDS)

    agree(weights[0], "0.29838948 0.20115732 0.24710661 0.25334659")
    agree(context[0], "0.62688845 0.65962472 0.52651137", units=1)  # so are the inputs rounded


def test_four_contexts_at_once_by_matrix_product() -> None:
    context, weights = attention(FOUR_WORDS, FOUR_WORDS, FOUR_WORDS)

    agree(context[1], "0.62688845 0.65962472 0.52651137", units=1)  # so are the inputs rounded
    for query, word in enumerate(FOUR_WORDS):
        scores = [sum(a * b for a, b in zip(word, key, strict=True)) for key in FOUR_WORDS]
        expected = plain_weights(scores)
        np.testing.assert_allclose(weights[query], expected, atol=1e-12)
        np.testing.assert_allclose(context[query], plain_blend(expected, FOUR_WORDS), atol=1e-12)


def test_hola_brillante_sol() -> None:
    context, _ = attention(HOLA_BRILLANTE_SOL[1:2], HOLA_BRILLANTE_SOL, HOLA_BRILLANTE_SOL)

    agree(context[0], "0.39896 0.38542 0.86095")
    np.testing.assert_allclose(context[0], [0.3992, 0.3858, 0.8610], rtol=0, atol=5e-4)


def test_scores_over_root_three() -> None:
    weights = attention_weights([0, 0, 0, 2], temperature=sqrt_d(3))

    agree(weights, "0.16199 0.16199 0.16199 0.51402")
    agree(blend(weights, LAST_WORDS), "1.67601 1.67601 0.64798")


def test_scores_over_root_three_with_a_greater_one() -> None:
    weights = attention_weights([0, 0, 0, 4], temperature=sqrt_d(3))

    agree(blend(weights, LAST_WORDS), "1.84696 1.84696 0.30608")


def test_four_words_through_projections() -> None:
    words = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    queries = project(words, [[2, 0, 2], [2, 0, 0], [2, 1, 2]])
    keys = project(words, [[2, 2, 2], [0, 2, 1], [0, 1, 1]])
    values = project(words, [[1, 1, 0], [0, 1, 1], [0, 0, 0]])

    context, _ = attention(queries, keys, values, temperature=sqrt_d(3))

    agree(context[0], "0.98522 1.74174 0.75652")
    agree(context[1], "0.90965 1.40965 0.5")
    agree(context[2], "0.99851 1.75849 0.75998")
    agree(context[3], "0.99560 1.90407 0.90847")


# --------------------------------------------- the same in plain loops and exact fractions


def plain_exps(
    scores: Sequence[float], temperature: float = 1.0, allowed: Sequence[bool] | None = None
) -> list[tuple[float, float]]:
    """Give (exp(ℓ - m), ℓ - m) of each key; (0, 0) where it is not allowed or vanishes."""
    allowed = [True] * len(scores) if allowed is None else allowed
    rows = [Fraction(float(s)) for s, yes in zip(scores, allowed, strict=True) if yes]
    pairs = []
    for score, yes in zip(scores, allowed, strict=True):
        shifted = (Fraction(float(score)) - max(rows)) / Fraction(temperature) if yes else None
        if shifted is None or shifted < -700:
            pairs.append((0.0, 0.0))
        else:
            pairs.append((math.exp(shifted), float(shifted)))
    return pairs


def plain_weights(
    scores: Sequence[float], temperature: float = 1.0, allowed: Sequence[bool] | None = None
) -> list[float]:
    exps = [e for e, _ in plain_exps(scores, temperature, allowed)]
    total = math.fsum(exps)
    return [e / total if total else 0.0 for e in exps]


def plain_blend(weights: Sequence[float], values: Array) -> list[float]:
    return [
        math.fsum(w * float(value[c]) for w, value in zip(weights, values, strict=True))
        for c in range(values.shape[1])
    ]


def plain_top(scores: Sequence[float], allowed: Sequence[bool], k: int) -> list[int]:
    rows = sorted((-float(s), row) for row, s in enumerate(scores) if allowed[row])
    return ([row for _, row in rows] + [-1] * k)[:k]


# ------------------------------------------------------------------------------- strategies

cosines = st.floats(-1, 1, width=32, allow_subnormal=False)
tied = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0])
huge = st.floats(-(2.0**127), 2.0**127, width=32, allow_subnormal=False)
temperatures = st.floats(0.01, 10)


@st.composite
def blocks(
    draw: st.DrawFn, scores: st.SearchStrategy[float] = cosines | tied, least: int = 0
) -> tuple[Array, Array, Array]:
    """Draw (q, n) scores, (q, n) allowed and (n, v) values."""
    q, n, v = draw(st.integers(1, 3)), draw(st.integers(least, 12)), draw(st.integers(0, 3))
    return (
        draw(arrays(np.float32, (q, n), elements=scores)),
        draw(arrays(np.bool_, (q, n))),
        draw(arrays(np.float32, (n, v), elements=st.floats(-100, 100, width=32))),
    )


def assert_same_state(got: State, expected: State) -> None:
    np.testing.assert_array_equal(got.peak, expected.peak)
    np.testing.assert_allclose(got.mass, expected.mass, rtol=2e-5)
    np.testing.assert_allclose(got.logit_sum, expected.logit_sum, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(got.sums, expected.sums, rtol=2e-5, atol=2e-3)
    np.testing.assert_array_equal(got.top_logits, expected.top_logits)
    np.testing.assert_array_equal(got.top_rows, expected.top_rows)


# ---------------------------------------------------------------------------------- weights


@unhurried
@given(blocks(least=1), temperatures)
def test_weights_and_blend_agree_with_plain_loops(
    block: tuple[Array, Array, Array], temperature: float
) -> None:
    scores, allowed, values = block

    weights = attention_weights(scores, temperature=temperature, allowed=allowed)
    answer = blend(weights, values)

    for query, row in enumerate(scores):
        expected = plain_weights(row, temperature, allowed[query])
        np.testing.assert_allclose(weights[query], expected, rtol=5e-5, atol=1e-7)
        np.testing.assert_allclose(answer[query], plain_blend(expected, values), atol=2e-3)


@unhurried
@given(blocks(scores=huge, least=1), st.floats(1e-6, 1e6))
def test_extreme_scores_agree_with_exact_fractions(
    block: tuple[Array, Array, Array], temperature: float
) -> None:
    scores, allowed, _ = block

    weights = attention_weights(scores, temperature=temperature, allowed=allowed)

    for query, row in enumerate(scores):
        expected = plain_weights(row, temperature, allowed[query])
        np.testing.assert_allclose(weights[query], expected, rtol=5e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-6, 1.0, 1e30, 1e300])
def test_no_score_and_no_temperature_overflows(dtype: type, temperature: float) -> None:
    greatest = float(np.finfo(dtype).max)
    scores = np.array([[greatest, 1e30, 0, -greatest], [-1e30, -1e30, -1e30, -1e30]], dtype)

    weights = attention_weights(scores, temperature=temperature, allowed=[True, True, True, False])

    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(weights[1], [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
    if temperature <= 1.0:
        np.testing.assert_array_equal(weights[0], [1, 0, 0, 0])


def test_a_tiny_temperature_tells_neighbouring_floats_apart() -> None:
    near = np.nextafter(np.float32(1), np.float32(2))

    weights = attention_weights(np.array([1, near], np.float32), temperature=1e-8)

    expected = 1 / (1 + math.exp(-(2.0**-23) / 1e-8))
    np.testing.assert_allclose(weights[1], expected, rtol=1e-6)


@unhurried
@given(blocks(least=1), temperatures)
def test_weights_sum_to_one_over_the_allowed_keys(
    block: tuple[Array, Array, Array], temperature: float
) -> None:
    scores, allowed, _ = block

    weights = attention_weights(scores, temperature=temperature, allowed=allowed)

    assert ((weights >= 0) & (weights <= 1)).all()
    assert (weights[~allowed] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), allowed.any(axis=-1), atol=1e-6)


@unhurried
@given(
    blocks(least=1),
    temperatures,
    st.sampled_from([math.nan, math.inf, -math.inf, 3e38, -3e38]),
)
def test_a_mask_acts_as_if_its_keys_had_never_been_there(
    block: tuple[Array, Array, Array], temperature: float, masked_score: float
) -> None:
    scores, allowed, values = block
    keep = allowed[0]
    scores[:, ~keep] = masked_score

    masked = attention_weights(scores, temperature=temperature, allowed=keep)
    without = attention_weights(scores[:, keep], temperature=temperature)

    np.testing.assert_allclose(masked[:, keep], without, rtol=1e-6)
    np.testing.assert_allclose(blend(masked, values), blend(without, values[keep]), atol=1e-3)
    state = attend(scores, temperature=temperature, allowed=keep, values=values, k=3)
    fewer = attend(scores[:, keep], temperature=temperature, values=values[keep], k=3)
    rows = np.append(np.flatnonzero(keep), -1)  # the last is -1, and stays -1
    assert_same_state(state, State(**{**vars(fewer), "top_rows": rows[fewer.top_rows]}))


@unhurried
@given(blocks(least=1), st.integers(-64, 64))
def test_a_shift_of_every_score_changes_no_weight(
    block: tuple[Array, Array, Array], shift: int
) -> None:
    scores = np.round(block[0] * 256) / 256  # such scores add to the shift without rounding

    moved = attention_weights(scores + np.float32(shift), temperature=0.1)

    np.testing.assert_array_equal(moved, attention_weights(scores, temperature=0.1))


def test_minus_infinity_is_a_key_not_allowed() -> None:
    weights = attention_weights([[0.0, -math.inf], [-math.inf, -math.inf]])

    np.testing.assert_array_equal(weights, [[1, 0], [0, 0]])


def test_a_row_with_nothing_allowed_is_all_zeros() -> None:
    scores = np.array([[0.5, 0.1], [0.5, 0.1]], np.float32)
    allowed = np.array([[False, False], [True, True]])

    context, weights = attention(scores, np.eye(2), [[1.0], [2.0]], allowed=allowed)

    np.testing.assert_array_equal(weights[0], [0, 0])
    np.testing.assert_array_equal(context[0], [0])
    assert weights[1].sum() == pytest.approx(1)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 3)])
def test_no_keys_or_no_queries_give_no_weights(shape: tuple[int, ...]) -> None:
    assert attention_weights(np.zeros(shape, np.float32)).shape == shape


def test_a_temperature_that_is_left_out_is_one() -> None:
    scores = [0.0, math.log(3)]
    context, weights = attention([[1.0]], [[score] for score in scores], [[0.0], [4.0]])

    np.testing.assert_allclose(attention_weights(scores), [0.25, 0.75])
    np.testing.assert_allclose(weights, [[0.25, 0.75]])
    np.testing.assert_allclose(context, [[3.0]])


def test_a_temperature_per_query_applies_to_its_row() -> None:
    scores = np.array([[[0.9, 0.1], [0.9, 0.1]], [[0.2, 0.1], [0.3, 0.1]]])
    tau = np.array([0.1, 2.0])

    weights = attention_weights(scores, temperature=tau)

    for batch in range(2):
        for query in range(2):
            expected = plain_weights(scores[batch, query], float(tau[query]))
            np.testing.assert_allclose(weights[batch, query], expected)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf, [1.0, 0.0]])
def test_a_temperature_must_be_positive_and_finite(temperature: Any) -> None:
    with pytest.raises(ValueError, match="temperature must be positive and finite"):
        attention_weights(np.zeros((2, 3)), temperature=temperature)
    with pytest.raises(ValueError, match="temperature must be positive and finite"):
        attend(np.zeros((2, 3)), temperature=temperature)


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_an_allowed_score_must_be_a_number(score: float) -> None:
    scores = [[0.0, 1.0], [0.0, score]]

    with pytest.raises(ValueError, match="scores must be numbers"):
        attention_weights(scores)
    with pytest.raises(ValueError, match="scores must be numbers"):
        attend(scores, temperature=1.0)


@pytest.mark.parametrize("allowed", [[0, 1], [0.0, -1e9]])
def test_a_mask_must_be_of_booleans(allowed: list[float]) -> None:
    with pytest.raises(ValueError, match="allowed must be of booleans"):
        attention_weights([1.0, 2.0], allowed=allowed)


def test_a_mask_must_fit_the_scores() -> None:
    with pytest.raises(ValueError):
        attention_weights(np.zeros((2, 3)), allowed=np.ones((2, 2), bool))
    with pytest.raises(ValueError):
        attention_weights(np.zeros(3), allowed=np.ones((2, 3), bool))


def test_scores_are_left_as_they_were() -> None:
    scores = np.array([[0.5, 0.1, 0.3]], np.float32)
    before = scores.copy()

    attention_weights(scores, temperature=0.1)
    attend(scores, temperature=0.1, k=2)

    np.testing.assert_array_equal(scores, before)


# --------------------------------------------------------------------- masks, dropout, heads


@pytest.mark.parametrize(("q", "n"), [(3, None), (2, 4), (4, 2), (0, None), (2, 0)])
def test_a_query_sees_the_keys_up_to_its_own_place(q: int, n: int | None) -> None:
    mask = causal_mask(q, n)

    assert mask.dtype == np.bool_
    assert mask.shape == (q, q if n is None else n)
    assert mask.tolist() == [[key <= query for key in range(mask.shape[1])] for query in range(q)]


def test_dropout_keeps_the_mean_and_its_seed() -> None:
    weights = np.full((100, 1000), 0.01, np.float32)

    dropped = dropout(weights, 0.3, np.random.default_rng(7))

    np.testing.assert_array_equal(dropped, dropout(weights, 0.3, np.random.default_rng(7)))
    kept = dropped > 0
    np.testing.assert_allclose(dropped[kept], 0.01 / 0.7, rtol=1e-6)
    assert kept.mean() == pytest.approx(0.7, abs=0.01)
    assert dropped.mean() == pytest.approx(0.01, rel=0.01)


def test_dropout_of_nothing_changes_nothing() -> None:
    weights = np.array([0.0, 0.25, 0.75])

    np.testing.assert_array_equal(dropout(weights, 0, np.random.default_rng(7)), weights)


@pytest.mark.parametrize("rate", [1.0, -0.1, math.nan])
def test_a_dropout_rate_is_below_one(rate: float) -> None:
    with pytest.raises(ValueError, match="dropout rate"):
        dropout([1.0], rate, np.random.default_rng(7))


@unhurried
@given(array_shapes(min_dims=3, max_dims=5, max_side=4), st.integers(0, 2**32 - 1))
def test_leading_dimensions_are_so_many_attentions(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    *batch, q, n = shape
    queries, keys = rng.normal(size=(*batch, q, 3)), rng.normal(size=(*batch, n, 3))
    values, allowed = rng.normal(size=(*batch, n, 2)), rng.random((*batch, q, n)) < 0.7
    tau = rng.uniform(0.1, 2, (*batch, q))

    context, weights = attention(queries, keys, values, temperature=tau, allowed=allowed)

    for place in np.ndindex(*batch):
        alone = attention(
            queries[place],
            keys[place],
            values[place],
            temperature=tau[place],
            allowed=allowed[place],
        )
        np.testing.assert_allclose(context[place], alone[0], atol=1e-12)
        np.testing.assert_allclose(weights[place], alone[1], atol=1e-12)


def heads_of(rng: np.random.Generator, heads: int = 2, dtype: type = np.float64) -> Any:
    def w(*shape: int) -> Array:
        return rng.normal(size=shape).astype(dtype)

    return MultiHeadAttention(
        w(5, 4), w(3, 4), w(2, 6), w(6, 7), heads, b_q=w(4), b_k=w(4), b_v=w(6), b_o=w(7)
    )


def test_each_head_attends_with_its_own_columns() -> None:
    rng = np.random.default_rng(7)
    layer = heads_of(rng)
    queries, keys, values = (
        rng.normal(size=(4, 5)),
        rng.normal(size=(6, 3)),
        rng.normal(size=(6, 2)),
    )

    context, weights = layer(queries, keys, values, allowed=causal_mask(4, 6))

    answers = []
    for head in range(2):
        c, v = slice(2 * head, 2 * head + 2), slice(3 * head, 3 * head + 3)
        answer, by_head = attention(
            queries @ layer.w_q[:, c] + layer.b_q[c],
            keys @ layer.w_k[:, c] + layer.b_k[c],
            values @ layer.w_v[:, v] + layer.b_v[v],
            temperature=math.sqrt(2),
            allowed=causal_mask(4, 6),
        )
        np.testing.assert_allclose(weights[head], by_head)
        answers.append(answer)
    np.testing.assert_allclose(context, np.hstack(answers) @ layer.w_o + layer.b_o)


def test_heads_share_the_mask_of_their_batch() -> None:
    rng = np.random.default_rng(7)
    layer = heads_of(rng)
    queries, keys = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 6, 3))
    values, allowed = rng.normal(size=(2, 3, 6, 2)), rng.random((2, 3, 4, 6)) < 0.5

    context, weights = layer(queries, keys, values, allowed=allowed)

    assert weights.shape == (2, 3, 2, 4, 6)
    for place in np.ndindex(2, 3):
        alone = layer(queries[place], keys[place], values[place], allowed=allowed[place])
        np.testing.assert_allclose(context[place], alone[0])
        np.testing.assert_allclose(weights[place], alone[1])


def test_keys_left_out_are_the_queries_and_values_the_keys() -> None:
    rng = np.random.default_rng(7)
    layer = MultiHeadAttention(*(rng.normal(size=(4, 4)) for _ in range(4)), heads=2)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))

    np.testing.assert_array_equal(layer(x)[0], layer(x, x, x)[0])
    np.testing.assert_array_equal(layer(x, y)[0], layer(x, y, y)[0])


@pytest.mark.parametrize("heads", [0, 3, -2])
def test_columns_must_make_whole_heads(heads: int) -> None:
    with pytest.raises(ValueError, match="w_q has 4 columns"):
        heads_of(np.random.default_rng(7), heads=heads)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_keep_their_width(dtype: type) -> None:
    rng = np.random.default_rng(7)
    queries, keys, values = (rng.normal(size=(4, d)).astype(dtype) for d in (5, 3, 2))
    allowed = causal_mask(4)

    results = [
        attention_weights(queries, temperature=0.5),
        attention_weights(queries[:, :4], temperature=np.full(4, 0.5), allowed=allowed),
        blend(queries[:, :4], values),
        dropout(queries, 0.5, rng),
        project(queries, queries.T, queries[:, 0]),
        *attention(queries, queries, values, temperature=sqrt_d(5), allowed=allowed),
        *heads_of(rng, dtype=dtype)(queries, keys, values, allowed=allowed),
    ]

    assert [result.dtype for result in results] == [np.dtype(dtype)] * len(results)


# -------------------------------------------------------------------------------- the state


@unhurried
@given(blocks(), temperatures, st.integers(0, 5), st.integers(0, 1000))
def test_a_state_agrees_with_plain_loops(
    block: tuple[Array, Array, Array], temperature: float, k: int, first_row: int
) -> None:
    scores, allowed, values = block

    state = attend(
        scores, temperature=temperature, allowed=allowed, values=values, k=k, first_row=first_row
    )

    for query, row in enumerate(scores):
        exps = plain_exps(row, temperature, allowed[query])
        weights = plain_weights(row, temperature, allowed[query])
        top = plain_top(row, allowed[query], k)
        logits = [float(s) / temperature for s in row]
        entropy = -math.fsum(w * math.log(w) for w in weights if w > 0)
        some = bool(allowed[query].any())
        assert state.peak[query] == max(np.array(logits)[allowed[query]], default=-math.inf)
        assert state.mass[query] == pytest.approx(math.fsum(e for e, _ in exps), rel=2e-5)
        expected_sum = math.fsum(e * logit for e, logit in exps)
        assert state.logit_sum[query] == pytest.approx(expected_sum, rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(state.blend[query], plain_blend(weights, values), atol=2e-3)
        expected_keys = math.exp(entropy) if some else 0.0
        assert state.effective_keys[query] == pytest.approx(expected_keys, rel=1e-4)
        assert state.top_rows[query].tolist() == [r if r < 0 else r + first_row for r in top]
        assert state.top_logits[query].tolist() == [-math.inf if r < 0 else logits[r] for r in top]
        expected_weights = [0.0 if r < 0 else weights[r] for r in top]
        np.testing.assert_allclose(state.top_weights[query], expected_weights, rtol=1e-4, atol=1e-7)


@unhurried
@given(
    blocks(),
    st.floats(1e-3, 10),
    st.integers(0, 5),
    st.lists(st.integers(0, 12), max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_partition_in_any_order_equals_the_whole(
    block: tuple[Array, Array, Array], temperature: float, k: int, cuts: list[int], random: Any
) -> None:
    scores, allowed, values = block
    q, n = scores.shape
    edges = sorted({0, n, *(cut for cut in cuts if cut < n)})
    states = [
        attend(
            scores[:, a:b],
            temperature=temperature,
            allowed=allowed[:, a:b],
            values=values[a:b],
            k=k,
            first_row=a,
        )
        for a, b in pairwise(edges)
    ]
    states.append(empty_state(q, values.shape[1], k))

    random.shuffle(states)
    while len(states) > 1:  # a random tree of merges
        states.append(merge(states.pop(random.randrange(len(states))), states.pop()))

    whole = attend(scores, temperature=temperature, allowed=allowed, values=values, k=k)
    assert_same_state(states[0], whole)


@unhurried
@given(blocks(), st.data())
def test_keys_need_not_be_neighbours_to_be_merged(
    block: tuple[Array, Array, Array], data: st.DataObject
) -> None:
    scores, allowed, values = block
    part = data.draw(arrays(np.int8, scores.shape[1], elements=st.integers(0, 2)))

    states = [
        attend(scores, temperature=0.1, allowed=allowed & (part == p), values=values, k=3)
        for p in range(3)
    ]

    whole = attend(scores, temperature=0.1, allowed=allowed, values=values, k=3)
    assert_same_state(reduce(merge, states), whole)


@unhurried
@given(st.data(), st.integers(0, 4))
def test_merge_is_commutative_and_associative(data: st.DataObject, k: int) -> None:
    q, v = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 2))
    a, b, c = (
        attend(
            data.draw(arrays(np.float32, (q, n), elements=cosines | tied)),
            temperature=0.01,
            allowed=data.draw(arrays(np.bool_, (q, n))),
            values=np.arange(n * v, dtype=np.float32).reshape(n, v),
            k=k,
            first_row=10 * place,
        )
        for place, n in enumerate(data.draw(st.lists(st.integers(0, 5), min_size=3, max_size=3)))
    )

    for field, value in vars(merge(a, b)).items():
        np.testing.assert_array_equal(value, getattr(merge(b, a), field), err_msg=field)
    assert_same_state(merge(merge(a, b), c), merge(a, merge(b, c)))


@unhurried
@given(blocks(), st.integers(0, 4))
def test_the_empty_state_changes_nothing(block: tuple[Array, Array, Array], k: int) -> None:
    scores, allowed, values = block
    state = attend(scores, temperature=0.1, allowed=allowed, values=values, k=k)
    nothing = empty_state(len(scores), values.shape[1], k)

    for field, value in vars(state).items():
        np.testing.assert_array_equal(getattr(merge(state, nothing), field), value, err_msg=field)
        np.testing.assert_array_equal(getattr(merge(nothing, state), field), value, err_msg=field)


def test_states_of_different_queries_stack() -> None:
    scores = np.random.default_rng(3).uniform(-1, 1, (3, 9)).astype(np.float32)
    tau, values = np.array([0.1, 0.2, 0.3]), np.eye(9, 2)

    parts = [
        attend(scores[rows], temperature=tau[rows], values=values, k=2)
        for rows in (slice(0, 2), slice(2, 3))
    ]

    assert_same_state(stack(parts), attend(scores, temperature=tau, values=values, k=2))


def test_the_state_of_nothing_answers_zeros() -> None:
    masked = attend([[1.0, 2.0]], temperature=1.0, allowed=[False, False], values=np.eye(2), k=3)

    for state in (empty_state(1, 2, 3), masked, merge(masked, empty_state(1, 2, 3))):
        assert state.peak.tolist() == [-math.inf]
        assert state.mass.tolist() == [0]
        assert state.blend.tolist() == [[0, 0]]
        assert state.effective_keys.tolist() == [0]
        assert state.top_rows.tolist() == [[-1, -1, -1]]
        assert state.top_weights.tolist() == [[0, 0, 0]]


@unhurried
@given(blocks(least=1), temperatures)
def test_the_weight_of_a_row_does_not_depend_on_k(
    block: tuple[Array, Array, Array], temperature: float
) -> None:
    scores, allowed, _ = block
    n = scores.shape[1]
    weights = attention_weights(scores, temperature=temperature, allowed=allowed)

    states = [attend(scores, temperature=temperature, allowed=allowed, k=k) for k in range(n + 2)]

    every = states[-1]
    for k, state in enumerate(states):
        np.testing.assert_array_equal(state.top_rows, every.top_rows[:, :k])
        np.testing.assert_array_equal(state.top_weights, every.top_weights[:, :k])
    for query, rows in enumerate(every.top_rows):
        listed = rows[rows >= 0]
        assert sorted(listed) == np.flatnonzero(allowed[query]).tolist()
        shown = every.top_weights[query, : len(listed)]
        np.testing.assert_allclose(shown, weights[query, listed], rtol=5e-5, atol=1e-7)


def test_of_equal_scores_the_lower_row_comes_first() -> None:
    scores = np.array([[0.5, 0.9, 0.5, 0.5, 0.9]], np.float32)

    whole = attend(scores, temperature=0.1, k=3)
    late = attend(scores[:, 3:], temperature=0.1, k=3, first_row=3)
    early = attend(scores[:, :3], temperature=0.1, k=3)

    assert whole.top_rows.tolist() == [[1, 4, 0]]
    assert merge(late, early).top_rows.tolist() == [[1, 4, 0]]


@unhurried
@given(blocks(scores=huge, least=1), st.floats(1e-6, 1e6), st.integers(0, 12))
def test_extreme_scores_merge_without_overflow(
    block: tuple[Array, Array, Array], temperature: float, cut: int
) -> None:
    scores, allowed, values = block
    parts = [slice(None, cut), slice(cut, None)]

    state = reduce(
        merge,
        (
            attend(
                scores[:, part],
                temperature=temperature,
                allowed=allowed[:, part],
                values=values[part],
                k=2,
            )
            for part in parts
        ),
    )

    for query, row in enumerate(scores):
        expected = plain_weights(row, temperature, allowed[query])
        np.testing.assert_allclose(state.blend[query], plain_blend(expected, values), atol=2e-3)
    assert np.isfinite(state.mass).all()
    assert np.isfinite(state.logit_sum).all()


def test_logits_beyond_float64_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond float64"):
        attend([[1e300, 0.0]], temperature=1e-10)


def test_peaks_from_end_to_end_of_float64_merge() -> None:
    low, high = (attend([[s]], temperature=1.0, values=[[7.0]]) for s in (-1.7e308, 1.7e308))

    state = merge(low, high)

    assert (state.mass.tolist(), state.logit_sum.tolist()) == ([1], [0])
    assert state.blend.tolist() == [[7]]


@pytest.mark.parametrize(
    "other", [empty_state(2, 1, 1), empty_state(1, 2, 1), empty_state(1, 1, 2)]
)
def test_only_states_of_the_same_shapes_merge(other: State) -> None:
    with pytest.raises(ValueError, match="can be merged"):
        merge(empty_state(1, 1, 1), other)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("step", [65_536, 10**6])
def test_a_million_keys_keep_six_digits(order: Any, step: int) -> None:
    n, tenth = 10**6, float(np.float32(0.1))
    scores = np.full((2, n), 0.5, np.float32)
    scores[:, 0] = 1.0
    scores = np.asarray(scores, order=order)
    values = np.full((n, 3), 0.1, np.float32)

    state = reduce(
        merge,
        (
            attend(
                scores[:, a : a + step],
                temperature=0.25,
                values=values[a : a + step],
                first_row=a,
                k=1,
            )
            for a in range(0, n, step)
        ),
    )

    mass = 1 + (n - 1) * math.exp(-2)
    np.testing.assert_allclose(state.mass, mass, rtol=1e-6)
    np.testing.assert_allclose(state.logit_sum, -2 * (mass - 1), rtol=1e-6)
    np.testing.assert_allclose(state.sums, tenth * mass, rtol=1e-6)
    np.testing.assert_allclose(state.blend, tenth, rtol=1e-6)
    np.testing.assert_array_equal(state.top_rows, [[0], [0]])


def test_weights_of_a_million_keys_sum_to_one() -> None:
    scores = np.random.default_rng(7).uniform(-1, 1, (1, 10**6)).astype(np.float32)

    weights = attention_weights(scores, temperature=0.1)

    assert math.fsum(weights[0].tolist()) == pytest.approx(1, abs=1e-6)

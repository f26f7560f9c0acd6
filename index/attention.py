"""Attention, in pure NumPy: scores become weights, and weights blend values.

    weights = softmax(Q Kᵀ / τ + mask)        answer = weights V                        (1)

The temperature τ is √d in the Transformer; the mask is 0 where a key is allowed and -∞
where it is not (Vaswani et al. 2017, "Attention Is All You Need", arXiv:1706.03762).

Softmax does not change when every logit ℓ = q·k / τ of a row moves by the same amount.
Taking the largest, m, away leaves exponents that are at most zero: none overflows, and
one of them is exactly 1, so that the normaliser Z can be divided by. A row with nothing
allowed has Z = 0, and its weights are zeros.

What (1) says of a set of keys fits in a small state (Milakov & Gimelshein 2018, "Online
normalizer calculation for softmax", arXiv:1805.02867):

    m = max ℓ     Z = Σ exp(ℓ - m)     L = Σ exp(ℓ - m) (ℓ - m)     S = Σ exp(ℓ - m) v  (2)

    answer = S / Z                     entropy of the weights = log Z - L / Z

and the states of two disjoint sets A and B merge exactly, in any order (Shyam et al.
2024, "Tree Attention", arXiv:2408.04093). With m = max(m_A, m_B) and δ = m_A - m,

    Z = exp(δ) Z_A + …     L = exp(δ) (L_A + δ Z_A) + …     S = exp(δ) S_A + …          (3)

where … is the same of B.

Shapes: q queries, n keys, d components, v width of a value, k keys shown. A leading …
stands for any batch dimensions. float32 in, float32 out; sums over keys are kept in
float64 by ``State``, because they grow with every merge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

FAINTEST = -1000.0  # a logit whose exp is exactly 0 in float64 too, and that is still finite
CACHED = 2**18  # scores attended to at a time (1 MB): they stay in a core's cache meanwhile
RUN = 64  # keys summed in float32 before float64 takes over: rounding stays below 1e-6


# Equation (1)


def attention_weights(
    scores: ArrayLike, *, temperature: ArrayLike = 1.0, allowed: ArrayLike | None = None
) -> Floats:
    """Turn each row of scores into weights that sum to one.

    Parameters
    ----------
    scores : (…, n) array
        Cosines or products, of any finite size. -∞ is a key not allowed.
    temperature : float or (…) array
        τ in equation (1), in units of the scores: one for all rows, or one a row.
    allowed : bool array that broadcasts to the scores, optional
        Which keys may be attended to; all of them if left out. The score of a key that
        may not is never looked at.

    Returns
    -------
    (…, n) array
        Shares in [0, 1]. A row with nothing allowed is all zeros.

    Raises
    ------
    ValueError
        If an allowed score is NaN or +∞, a temperature is not positive and finite, or
        ``allowed`` is not of booleans or does not fit the scores.
    """
    scores = _masked(scores, allowed)
    weights = _shifted_logits(scores, _largest(scores), _per_row(temperature))
    np.exp(weights, out=weights)
    mass = weights.sum(axis=-1, keepdims=True)
    weights /= np.where(mass > 0, mass, 1)
    return weights


def blend(weights: ArrayLike, values: ArrayLike) -> Floats:
    """Average (…, n, v) values, all finite, by (…, q, n) weights into (…, q, v)."""
    return _floating(weights) @ _floating(values)


def attention(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    allowed: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Compute equation (1): the (…, q, v) context of each query, and its (…, q, n) weights.

    ``queries`` are (…, q, d), ``keys`` (…, n, d) and ``values`` (…, n, v); ``temperature``
    and ``allowed`` are those of ``attention_weights``.
    """
    scores = _floating(queries) @ _floating(keys).swapaxes(-1, -2)
    weights = attention_weights(scores, temperature=temperature, allowed=allowed)
    return blend(weights, values), weights


def sqrt_d(d: int) -> float:
    """Return √d: the spread of a product of two random vectors of d unit normals."""
    return math.sqrt(d)


def causal_mask(q: int, n: int | None = None) -> Mask:
    """Allow query i the keys 0 … i, of n (as many as queries if left out).

    True is allowed; in torch's ``MultiheadAttention`` True is not.
    """
    return np.tri(q, n, dtype=np.bool_)


def dropout(weights: ArrayLike, rate: float, rng: np.random.Generator) -> Floats:
    """Drop each weight with probability ``rate`` in [0, 1); what stays makes up for it.

    The kept weights are divided by 1 - rate, so that each keeps its value on average
    (Srivastava et al. 2014, "Dropout", JMLR 15). A rate outside is a ``ValueError``.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"the dropout rate must be at least 0 and below 1, not {rate}")
    weights = _floating(weights)
    return np.where(rng.random(weights.shape) >= rate, weights / (1 - rate), 0)


# Several heads


def project(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None) -> Floats:
    """Map (…, d) rows to x W + b; W is (d, e), as in the paper: torch holds its transpose."""
    projected = _floating(x) @ _floating(w)
    return projected if b is None else projected + _floating(b)


@dataclass(frozen=True, eq=False)
class MultiHeadAttention:
    """concat(head₁ … headₕ) W_O, where headᵢ = attention(Q W_Qⁱ, K W_Kⁱ, V W_Vⁱ) at τ = √c.

    The h heads stand side by side in the columns of W_Q, W_K and W_V, c columns each.
    """

    w_q: Floats  # (d_q, h·c)
    w_k: Floats  # (d_k, h·c)
    w_v: Floats  # (d_v, h·v)
    w_o: Floats  # (h·v, d_out)
    heads: int
    b_q: Floats | None = None
    b_k: Floats | None = None
    b_v: Floats | None = None
    b_o: Floats | None = None

    def __post_init__(self) -> None:
        for name in ("w_q", "w_k", "w_v"):
            width = getattr(self, name).shape[-1]
            if self.heads < 1 or width % self.heads:
                raise ValueError(f"{name} has {width} columns: they do not make {self.heads} heads")

    def __call__(
        self,
        queries: ArrayLike,
        keys: ArrayLike | None = None,
        values: ArrayLike | None = None,
        *,
        allowed: ArrayLike | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the (…, q, d_out) contexts and the (…, h, q, n) weights of each head.

        Keys left out are the queries (self-attention); values left out are the keys.
        ``allowed`` is (n,), (q, n) or (…, q, n), the same for every head.
        """
        keys = queries if keys is None else keys
        values = keys if values is None else values
        q = self._split(project(queries, self.w_q, self.b_q))
        k = self._split(project(keys, self.w_k, self.b_k))
        v = self._split(project(values, self.w_v, self.b_v))
        if allowed is not None and np.ndim(allowed) > 2:
            allowed = np.expand_dims(allowed, -3)
        context, weights = attention(q, k, v, temperature=sqrt_d(q.shape[-1]), allowed=allowed)
        return project(self._join(context), self.w_o, self.b_o), weights

    def _split(self, x: Floats) -> Floats:
        """(…, n, h·c) → (…, h, n, c)"""
        return x.reshape(*x.shape[:-1], self.heads, x.shape[-1] // self.heads).swapaxes(-2, -3)

    def _join(self, x: Floats) -> Floats:
        """(…, h, n, c) → (…, n, h·c)"""
        x = x.swapaxes(-2, -3)
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


# Equations (2) and (3)


@dataclass(frozen=True, eq=False)
class State:
    """What q queries have made of the keys seen so far: equation (2), and the k best keys."""

    peak: NDArray[np.float64]  # (q,) m, the largest allowed logit; -∞ with nothing allowed
    mass: NDArray[np.float64]  # (q,) Z
    logit_sum: NDArray[np.float64]  # (q,) L
    sums: NDArray[np.float64]  # (q, v) S
    top_logits: NDArray[np.float64]  # (q, k) largest first; -∞ where there are fewer
    top_rows: NDArray[np.int64]  # (q, k) their rows; -1 where there are fewer

    @property
    def blend(self) -> NDArray[np.float64]:
        """The (q, v) answers; zeros where nothing was allowed."""
        return self.sums / self._divisor[:, np.newaxis]

    @property
    def effective_keys(self) -> NDArray[np.float64]:
        """How many keys share the attention, exp(entropy); 0 where nothing was allowed."""
        entropy = np.log(self._divisor) - self.logit_sum / self._divisor
        return np.where(self.mass > 0, np.exp(entropy), 0)

    @property
    def top_weights(self) -> NDArray[np.float64]:
        """The (q, k) weights of ``top_rows``, over every allowed key; 0 where there are fewer.

        At most 1: of a sample a key may be listed that scores above all that were drawn.
        """
        peak = np.where(self.mass > 0, self.peak, 0)
        weights = np.exp(self.top_logits - peak[:, np.newaxis]) / self._divisor[:, np.newaxis]
        return np.minimum(weights, 1.0)

    @property
    def _divisor(self) -> NDArray[np.float64]:
        return np.where(self.mass > 0, self.mass, 1)


def empty_state(q: int, v: int = 0, k: int = 0) -> State:
    """Return the state of no keys at all: merging it changes nothing."""
    return State(
        peak=np.full(q, -np.inf),
        mass=np.zeros(q),
        logit_sum=np.zeros(q),
        sums=np.zeros((q, v)),
        top_logits=np.full((q, k), -np.inf),
        top_rows=np.full((q, k), -1, np.int64),
    )


def attend(
    scores: ArrayLike,
    *,
    temperature: ArrayLike,
    allowed: ArrayLike | None = None,
    values: ArrayLike | None = None,
    counts: ArrayLike | None = None,
    k: int = 0,
    first_row: int = 0,
) -> State:
    """Take in one block of keys.

    Parameters
    ----------
    scores, temperature, allowed
        As in ``attention_weights``, with (q, n) scores. States are worth merging only at
        the same temperatures.
    values : (n, v) array, optional
        All finite, those of masked keys too; no sums are made if left out.
    counts : (n,) array, optional
        How many keys each one stands for, where they are a sample; itself alone if left out.
    k : int
        How many of the best keys to keep by row number; of equal scores the lower row.
    first_row : int
        Row number of the block's first key.

    Raises
    ------
    ValueError
        As ``attention_weights``, and if one of the best scores / temperature is beyond float64.
    """
    scores, tau = _masked(scores, allowed), _per_row(temperature)
    largest = _largest(scores)
    logits = _shifted_logits(scores, largest, tau)
    exps = np.exp(logits)
    if counts is not None:
        exps = exps * np.asarray(counts, np.float64)
    mass = exps.sum(axis=-1)
    sums = np.zeros((len(exps), 0)) if values is None else _weighted_sums(exps, values)
    exps *= logits
    top_scores, top_rows = _best(scores, k)
    return State(
        peak=_finite_logits(largest, tau)[:, 0],
        mass=mass.astype(np.float64),
        logit_sum=exps.sum(axis=-1).astype(np.float64),
        sums=sums,
        top_logits=_finite_logits(top_scores, tau),
        top_rows=np.where(top_rows < 0, -1, top_rows + first_row),
    )


def merge(a: State, b: State) -> State:
    """Combine the states of two disjoint sets of keys into the state of their union.

    It is associative and commutative, and of equal logits the lower row comes first. Both
    states must be of the same queries, width and k, or it is a ``ValueError``.
    """
    if (a.sums.shape, a.top_rows.shape) != (b.sums.shape, b.top_rows.shape):
        raise ValueError("only states of the same queries, width of value and k can be merged")
    peak = np.maximum(a.peak, b.peak)
    parts = zip(_moved(a, peak), _moved(b, peak), strict=True)
    mass, logit_sum, sums = (of_a + of_b for of_a, of_b in parts)
    return State(peak, mass, logit_sum, sums, *_merged_top(a, b))


def stack(states: Sequence[State]) -> State:
    """Put the states of different queries, over the same keys, under one another."""
    if len(states) == 1:
        return states[0]
    return State(
        *map(np.concatenate, zip(*(vars(state).values() for state in states), strict=True))
    )


def _moved(state: State, peak: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Express Z, L and S from another peak, at least as high: one side of equation (3)."""
    delta = np.zeros_like(peak)  # 0 where the state holds nothing: -∞ - -∞ is no number
    with np.errstate(over="ignore", under="ignore"):
        np.subtract(state.peak, peak, out=delta, where=state.mass > 0)
        np.maximum(delta, FAINTEST, out=delta)
        scale = np.exp(delta)
        return (
            scale * state.mass,
            scale * (state.logit_sum + delta * state.mass),
            scale[:, np.newaxis] * state.sums,
        )


def _merged_top(a: State, b: State) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    logits = np.concatenate((a.top_logits, b.top_logits), axis=-1)
    rows = np.concatenate((a.top_rows, b.top_rows), axis=-1)
    best = np.lexsort((rows, -logits), axis=-1)[:, : a.top_rows.shape[-1]]
    return np.take_along_axis(logits, best, axis=-1), np.take_along_axis(rows, best, axis=-1)


# Parts


def _floating(x: ArrayLike) -> Floats:
    """Take float32 and float64 as they are, and anything else to the nearest of them."""
    array = np.asarray(x)
    return array.astype(np.result_type(array, np.float32), copy=False)


def _per_row(temperature: ArrayLike) -> NDArray[np.float64]:
    """Check τ, and stand one a row in a column that divides the rows of scores."""
    tau = np.asarray(temperature, np.float64)
    if not (np.isfinite(tau) & (tau > 0)).all():
        raise ValueError(f"temperature must be positive and finite, not {temperature!r}")
    return tau[..., np.newaxis] if tau.ndim else tau


def _masked(scores: ArrayLike, allowed: ArrayLike | None) -> Floats:
    """Put -∞ in the place of the scores that are not allowed."""
    scores = _floating(scores)
    if allowed is None:
        return scores
    mask = np.asarray(allowed)
    if mask.dtype != np.bool_:
        raise ValueError(f"allowed must be of booleans, not of {mask.dtype}")
    return np.where(np.broadcast_to(mask, scores.shape), scores, -np.inf)


def _largest(scores: Floats) -> Floats:
    """Find each row's largest score, (…, 1); -∞ where nothing is allowed."""
    largest: Floats = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if not (largest < np.inf).all():
        raise ValueError("scores must be numbers: there is a NaN or a +∞ among them")
    return largest


def _shifted_logits(scores: Floats, largest: Floats, tau: NDArray[np.float64]) -> Floats:
    """Compute ℓ - m in new memory, never below ``FAINTEST`` and so never -∞.

    The shift comes before the division: scores / τ may overflow, and when it does not it
    rounds away differences that matter where τ is small.
    """
    limits = np.finfo(scores.dtype)  # outside them τ itself would become 0 or ∞
    shift = np.maximum(largest, limits.min)  # a number where nothing is allowed, too
    with np.errstate(over="ignore", under="ignore"):
        logits = np.subtract(scores, shift, order="C")  # rows in one piece add up pairwise
        logits /= tau.clip(limits.tiny, limits.max).astype(scores.dtype)
        return logits.clip(FAINTEST, 0, out=logits)  # np.maximum would take as long as np.exp


def _finite_logits(scores: Floats, tau: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute ℓ itself, by which blocks are compared: unlike ℓ - m it may be too large."""
    with np.errstate(over="ignore"):
        logits = scores.astype(np.float64) / tau
    if (np.isinf(logits) & np.isfinite(scores)).any():
        raise ValueError("scores / temperature must be finite: one is beyond float64")
    return logits


def _weighted_sums(weights: Floats, values: ArrayLike) -> NDArray[np.float64]:
    """Sum (n, v) values by (q, n) weights, in runs: float32 drifts over many keys."""
    values = _floating(values)
    (q, n), v = weights.shape, values.shape[1]
    runs = n // RUN
    whole = runs * RUN
    with np.errstate(invalid="ignore"):  # OpenBLAS reckons with lanes beside a small product, too
        by_run = weights[:, :whole].reshape(q, runs, RUN).swapaxes(0, 1) @ (
            values[:whole].reshape(runs, RUN, v)
        )
        rest = weights[:, whole:] @ values[whole:]
    return np.asarray(by_run.sum(axis=0, dtype=np.float64) + rest)


def _best(scores: Floats, k: int) -> tuple[Floats, NDArray[np.int64]]:
    """Find each query's k best allowed keys, best first, of equals the lower: scores and rows."""
    q, n = scores.shape
    best, best_rows = np.full((q, k), -np.inf, scores.dtype), np.full((q, k), -1, np.int64)
    if min(k, n) > 0:
        for query, row in enumerate(scores):
            bar = max(_bar(row, k), np.finfo(row.dtype).min)  # what is not allowed stays below
            rows = np.flatnonzero(row >= bar)
            rows = rows[(-row[rows]).argsort(kind="stable")[:k]]
            best[query, : len(rows)], best_rows[query, : len(rows)] = row[rows], rows
    return best, best_rows


def _bar(row: Floats, k: int) -> Any:
    """Find a score that at least k of the row reach, and few more.

    The k-th best of the maxima of groups is one, since k groups hold a score as high; maxima
    are many times cheaper than partitioning the row itself.
    """
    if len(row) >= 4 * k * RUN:
        row = row[: len(row) // RUN * RUN].reshape(RUN, -1).max(axis=0)
    place = max(len(row) - k, 0)
    return np.partition(row, place)[place]

"""Head and tail: a few thousand keys that stand for a million.

The head are the keys that weigh, found through their codes (``index.sketch``) and scored one
by one. The tail is every other key, of which some are drawn and scored. A key drawn with
probability π stands for 1/π keys (Horvitz & Thompson 1952), so over the drawn keys D

    Z ≈ Σ_D exp(ℓ) / π        Σ exp(ℓ) v ≈ Σ_D exp(ℓ) v / π                            (1)

without bias, whatever π is; π only decides how far off (1) may be. It is best in proportion
to exp(ℓ) itself, so it is made from what is known of that beforehand:

- Of the keys whose codes score best, the first are all taken (π = 1), and the others with
  π in proportion to exp(code's score / τ).
- Of the rest, whose scores lie below a bar b, a cell with mean μ, where scores stray by σ,
  gets draws in proportion to n_c √E[exp(2 s / τ); s < b] of a normal s ~ (q·μ, σ²), shared
  evenly by its rows.

Draws are systematic (one random number, then even steps), so no key comes twice and like
keys are drawn in their proportions. The variance of (1) is estimated from the drawn keys
(Hájek 1964; Deville 1999):

    var Z ≈ Σ_D (1 - π) (exp(ℓ)/π - B)²,   B = Σ_D (1 - π) exp(ℓ)/π / Σ_D (1 - π)        (2)

taken for the keys near the bar and for the rest apart. Where few of the drawn keys carry the
sum, (2) is itself a poor estimate, and mostly too low; then it is drawn, in logarithms, towards
the variance that the cells' normal scores lead to expect:

    log var ← (1 - λ) log var + λ log Σ_c n_c² E[exp(2 s / τ); s < b] / draws_c,          (3)

    λ = ½ F / (F + (Σ_D t)² / Σ_D t²),   t = exp(ℓ) / π

Near the bar the sum may hang on keys whose codes tell them far too low, which are seldom drawn
and not missed when they are not; there λ = ½, and what is expected comes from the codes' scores
and how far those stray: Σ (1/π - 1) E[exp(2 s / τ)].

The random number comes from the query, so the same question gets the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from index.sketch import Sketch
from index.vectors import Rows

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

CODES_STRAY = 0.03  # how far a code's score is off, in units of cosine: no τ is sharper
LEAST_SHARE = 0.15  # of the draws go to the edge and to the cells alike, whatever is hoped for
BLIND_SHARE = 0.1  # of the draws from cells go by the number of keys alone
FEW = 50.0  # F in equation (3)
FARTHEST = 0.1  # of all codes are ranked, or a scan is as fast
AT_ONCE = 512  # rows scored at a time: they stay in the cache, and no thread is waited for
SLOPE = 1.702  # the logistic curve of this slope is within .01 of the normal one


@dataclass(frozen=True)
class Effort:
    """How many keys to look at: by their codes, all of the best, and drawn of the others."""

    coded: int = 4096
    taken: int = 1024
    drawn: int = 4096

    def times(self, factor: float) -> Effort:
        return Effort(*(int(factor * n) for n in (self.coded, self.taken, self.drawn)))

    @property
    def scored(self) -> int:
        """Keys that it scores one by one, at most."""
        return self.taken + self.drawn


@dataclass(frozen=True, eq=False)
class Sample:
    """m distinct keys that stand for all allowed keys of a block, as one query sees them."""

    rows: Numbers  # (m,)
    scores: Rows  # (m,) cosines, computed from the keys themselves
    counts: Floats  # (m,) how many keys each stands for: 1 / π
    mass_error: float  # standard error of Σ counts · exp((scores - the greatest score) / τ);
    #                    ∞ where the best of the keys may not be among them


def draw_sample(
    sketch: Sketch,
    rows: Rows,
    query: Rows,
    *,
    temperature: float,
    effort: Effort,
    allowed: NDArray[np.bool_] | None = None,
    standing: Numbers | None = None,
) -> Sample:
    """Draw the keys that stand for all ``rows`` of a sketch, or for the allowed ones.

    ``query`` is (d,). ``allowed`` is the (n,) mask of rows and ``standing`` the numbers of
    the allowed ones, in order; both or neither.
    """
    rng = np.random.default_rng(int.from_bytes(blake2b(query.tobytes(), digest_size=8).digest()))
    guesses, near = _near(sketch, query, effort, allowed)
    head, edge = near[: effort.taken], near[effort.taken :]
    head_scores = _scores(rows, head, query)
    plan = _plan(sketch, query, temperature, guesses, head_scores, standing, effort)
    edge_chances = plan.chances
    picked = _systematic(edge_chances, rng)
    drawn, counts = edge[picked], 1 / edge_chances[picked]
    far, far_counts = _draw_from_cells(sketch, plan, standing, rng)
    new = ~_among(far, near)  # what is near has its own draw: here it counts as nothing
    edge_scores, far_scores = _scores(rows, drawn, query), _scores(rows, far, query)
    scores = np.concatenate([head_scores, edge_scores, far_scores[new]])
    peak = float(scores.max(initial=-1.0))
    edge_terms = counts * np.exp((edge_scores.astype(np.float64) - peak) / temperature)
    far_terms = far_counts * np.exp((far_scores.astype(np.float64) - peak) / temperature) * new
    expected = plan.variance * np.exp(2 * (plan.bar - peak) / temperature)
    strays = np.minimum(
        2 * (plan.edge - peak) / temperature + 2 * (CODES_STRAY / temperature) ** 2, 0
    )
    expected_edge = float((1 / edge_chances.clip(1e-12) - 1) @ np.exp(strays))
    variance = _drawn_towards(expected_edge, _variance(counts, edge_terms), 0.5)
    variance += _drawn_towards(expected, _variance(far_counts, far_terms), _trust(far_terms))
    enough = min(effort.taken, int(plan.sizes.sum()))
    return Sample(
        np.concatenate([head, drawn, far[new]]),
        scores,
        np.concatenate([np.ones(len(head)), counts, far_counts[new]]),
        variance**0.5 if len(head) >= enough else np.inf,
    )


def _near(
    sketch: Sketch, query: Rows, effort: Effort, allowed: NDArray[np.bool_] | None
) -> tuple[Rows, Numbers]:
    """Find the allowed keys whose codes score best, best first: those scores and their rows.

    Where the keys near the query are not allowed, it looks farther, up to a share of all.
    """
    coded = effort.coded
    while True:
        guesses, near = (found[0] for found in sketch.codes.best(query[np.newaxis], coded))
        if allowed is None:
            return guesses, near
        known = allowed[near]
        if np.count_nonzero(known) >= effort.taken or coded >= FARTHEST * len(sketch):
            return guesses[known][: effort.coded], near[known][: effort.coded]
        coded *= 4


def _scores(rows: Rows, picked: Numbers, query: Rows) -> Rows:
    """Score some rows, as many at a time as stay in the cache (``take`` outruns an index)."""
    parts = (picked[start : start + AT_ONCE] for start in range(0, len(picked), AT_ONCE))
    scores = [rows.take(part, axis=0) @ query for part in parts]
    return np.concatenate(scores) if scores else np.empty(0, np.float32)


def _among(rows: Numbers, others: Numbers) -> NDArray[np.bool_]:
    """Tell which rows are among others; ``np.isin`` takes five times as long."""
    others = np.append(np.sort(others), -1)
    return np.asarray(others[np.searchsorted(others[:-1], rows)] == rows)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Where the draws go."""

    bar: float  # the score below which keys are left to the cells
    edge: Floats  # scores expected of the keys at the edge, from their codes
    chances: Floats  # π of each of them
    sizes: Numbers  # (c,) allowed rows of each cell
    draws: Floats  # (c,) draws expected of each cell
    variance: float  # of the draws from cells, in units of exp(bar / τ) squared: equation (3)


def _plan(
    sketch: Sketch,
    query: Rows,
    temperature: float,
    guesses: Rows,
    head_scores: Rows,
    standing: Numbers | None,
    effort: Effort,
) -> _Plan:
    bounds = sketch.starts if standing is None else np.searchsorted(standing, sketch.starts)
    sizes = np.diff(bounds)
    last = guesses[effort.taken // 2 : effort.taken]  # codes tell low of what is near
    lift = float(head_scores[effort.taken // 2 :].mean() - last.mean()) if len(last) else 0.0
    bar = float(guesses[-1]) + lift if len(guesses) else 1.0
    edge = guesses[effort.taken :].astype(np.float64) + lift - bar
    edge_hopes = np.exp(edge / max(temperature, CODES_STRAY))
    hopes = np.exp(_log_hopes(sketch, query, temperature, bar))
    cell_hopes = sizes * hopes
    near_part = float(np.exp(edge / temperature).sum())
    share = near_part / max(near_part + float(cell_hopes.sum()), 1e-300)
    at_edge = effort.drawn * min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
    by_size = (1 - BLIND_SHARE) * cell_hopes / max(float(cell_hopes.sum()), 1e-300)
    cell_weights = by_size + BLIND_SHARE * sizes / max(int(sizes.sum()), 1)
    chances = _shared(edge_hopes, at_edge, np.ones(len(edge)))
    draws = _shared(cell_weights, effort.drawn - float(chances.sum()), sizes.astype(np.float64))
    wanted = draws > 0
    variance = float(((sizes * hopes)[wanted] ** 2 / draws[wanted]).sum())
    return _Plan(bar, edge + bar, chances, sizes, draws, variance)


def _log_hopes(sketch: Sketch, query: Rows, temperature: float, bar: float) -> Floats:
    """Compute log √E[exp(2 (s - bar) / τ); s < bar] of a key of each cell."""
    middle = (sketch.means @ query).astype(np.float64) - bar
    spread = np.sqrt(np.maximum(query @ sketch.scatter @ query * sketch.strays, 1e-12))
    below = (-middle - 2 * spread**2 / temperature) / spread
    log_below = -np.logaddexp(0.0, -SLOPE * below)
    return np.asarray(middle / temperature + (spread / temperature) ** 2 + log_below / 2)


def _shared(sizes: Floats, draws: float, most: Floats) -> Floats:
    """Share draws out in proportion to sizes, but no more than ``most`` to each."""
    full = sizes <= 0
    given = np.where(full, 0.0, most)
    for _ in range(8):
        left = max(draws - float(given[full].sum()), 0.0)
        rate = left / max(float(sizes[~full].sum()), 1e-300)
        over = ~full & (rate * sizes >= most)
        if not over.any():
            return np.where(full, given, rate * sizes)
        full |= over
    return np.where(full, given, np.minimum(rate * sizes, most))


def _systematic(expected: Floats, rng: np.random.Generator) -> Numbers:
    """Draw places by even steps, each as often as expected, but for a fraction."""
    if not len(expected):
        return np.empty(0, np.int64)
    ends = np.cumsum(expected)
    steps = np.arange(rng.random(), ends[-1], 1.0)
    return np.minimum(np.searchsorted(ends, steps, side="right"), len(ends) - 1)


def _draw_from_cells(
    sketch: Sketch, plan: _Plan, standing: Numbers | None, rng: np.random.Generator
) -> tuple[Numbers, Floats]:
    """Draw rows of cells: a run from a random place on, for rows stand at random in a cell."""
    draws, sizes = plan.draws, plan.sizes
    cells = _systematic(draws, rng)
    cells = cells[sizes[cells] > 0]
    turn = np.arange(len(cells)) - np.searchsorted(cells, cells)
    offsets = (rng.random(len(sizes)) * sizes).astype(np.int64)
    inside = (offsets[cells] + turn) % sizes[cells]
    first = sketch.starts[:-1] if standing is None else np.cumsum(sizes) - sizes
    places = first[cells] + inside
    return (places if standing is None else standing[places]), sizes[cells] / draws[cells]


def _variance(counts: Floats, terms: Floats) -> float:
    """Equation (2) of one group of drawn keys."""
    room = 1 - 1 / counts
    total, drawn = float(room.sum()), int(np.count_nonzero(room))
    if total <= 0 or drawn < 2:
        return 0.0
    deviations = terms - room @ terms / total
    return float(room @ deviations**2) * drawn / (drawn - 1)


def _trust(terms: Floats) -> float:
    """λ of equation (3), from how many of the drawn keys carry the sum."""
    squares = float((terms**2).sum())
    carried = float(terms.sum()) ** 2 / squares if squares > 0 else 0.0
    return 0.5 * FEW / (FEW + carried)


def _drawn_towards(expected: float, variance: float, trust: float) -> float:
    """Equation (3)."""
    least = 1e-300
    return float(max(variance, least) ** (1 - trust) * max(expected, least) ** trust)

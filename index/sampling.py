"""Head and tail: a few thousand keys that stand for a million.

The head are the keys that weigh, found through their codes (``index.sketch``) and scored one
by one. The tail is every other key, of which some are drawn and scored. A key drawn with
probability π stands for 1/π keys (Horvitz & Thompson 1952), so over the drawn keys D

    Z ≈ Σ_D exp(ℓ) / π        Σ exp(ℓ) v ≈ Σ_D exp(ℓ) v / π                            (1)

without bias, whatever π is; π only decides how far off (1) may be. It is best in proportion
to exp(ℓ) itself, so it is made from what is known of that beforehand:

- Codes are looked at in the cells that may hold a key worth finding. Of the keys of which they lead
  to expect most, the first are all taken (π = 1), as strangers are, and the others with π in
  proportion to exp(what is expected / τ), or more evenly where τ is finer than codes are.
- Of the rest, whose scores lie below a bar b, a cell with mean μ, where scores stray by σ,
  gets draws in proportion to n_c √E[exp(2 s / τ); s < b] of a normal s ~ (q·μ, σ²), shared
  evenly by its rows. Where more of a cell is among the rest than that foretells, b is as high
  for it as it takes, up to q·μ: of keys whose codes are alike, some or all were left out.

Draws are systematic (from a random number on, by even steps), so no key comes twice and like
keys are drawn in their proportions. The variance of (1) is estimated from the drawn keys
(Hájek 1964; Deville 1999):

    var Z ≈ Σ_D (1 - π) (exp(ℓ)/π - B)² + B²/4,   B = Σ_D (1 - π) exp(ℓ)/π / Σ_D (1 - π) (2)

taken for the keys near the bar and for the rest apart. A quarter is the most that the number of
keys varies by: where Σ π is no whole number, it is one of the two beside it. Of keys that are all
alike, that is all that (1) is off by.

Where that error is too large, more keys are drawn beside those that are there. A key that was to
be drawn with probability π, and is now to be with π', is drawn again with (π' - π) / (1 - π), so
it is among either with π'.

The random numbers come from the query, so the same question gets the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.sketch import Left, Sketch
from index.vectors import Rows, VectorBlock

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

DEEP = 5.0  # standard deviations above its middle, a cell still holds a key or two
SURELY = 4.0  # standard deviations below what is expected of its code, a key scores no more
CROWDED = 0.35  # of the mean squared stray of all cells: those of one that has less are a crowd
LOGISTIC = 0.85  # over a standard deviation, how steep a logistic curve is for a normal one
LEAST_LOOKED_AT = 2.0  # times as many keys as are wanted
# Above the bar, in deviations of the nearest cell, codes are looked at; again if they are too few,
# at ``-DEEP`` in those of the widest: the nearest may be of a crowd, which lies in next to no room.
BARS = (0.5, -1.0, -DEEP)
HALVINGS = 8  # of the scores that a bar may lie at: to within a hundredth
LEAST_SHARE = 0.15  # of the draws go to the edge and to the cells alike, whatever is hoped for
BLIND_SHARE = 0.1  # of the draws from cells go by the number of keys alone
RARELY = 0.02  # keys above a score are expected to be missed: that is seldom enough
BANDS = 16  # of the edge, each with its mean π, to foretell what is missed
FORETOLD = np.linspace(0, 1, 32)  # for scores in such steps
LIKELIEST = 0.999  # to be missed: of a key that was found, that is hardly true
MOST_DOUBT = 2.0  # of what a code says of exp(score / τ): the variance of its logarithm
MOST_HOPED = 600.0  # the logarithm of a number that stays finite when many are added up
FAR_BELOW = -3.0  # standard deviations, where the normal curve's asymptote is near enough

Shares = tuple[Floats, Floats]  # (e,) π of each key at the edge; (c,) draws wanted of each cell


@dataclass(frozen=True, eq=False)
class Drawn:
    """Keys drawn beside the head: some at the edge, some of cells."""

    edge: Numbers  # places at the edge of those that were drawn there
    edge_scores: Rows
    far: Numbers  # rows that were drawn of the cells
    cells: Numbers  # their cells
    far_scores: Rows  # -∞ of those that are near: they have their own draw, and count as nothing

    def __add__(self, other: Drawn) -> Drawn:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Drawn(*map(np.concatenate, pairs))


@dataclass(frozen=True, eq=False)
class Sample:
    """m distinct keys that stand for all allowed keys of a block, as one query sees them.

    They are the head, then those drawn at the edge, then those of cells.
    """

    rows: Numbers  # (m,)
    scores: Rows  # (m,) cosines, computed from the keys themselves
    counts: Floats  # (m,) how many keys each stands for: 1 / π
    vain: Floats  # how many keys each draw from a cell stood for that met one that is near
    shares: Shares  # by which those beside the head were drawn
    drawn: Drawn
    outlook: Outlook  # from which they were

    def standard_error(self, terms: NDArray[np.floating]) -> float:
        """Say how far off a sum over all keys may be, of which the (m,) keys give these terms.

        Each is ``counts`` times what the key has of the sum.
        """
        taken = len(self.outlook.head_scores)
        last = taken + len(self.drawn.edge)
        edge = _variance(self.counts[taken:last], terms[taken:last])
        far_counts = np.concatenate([self.counts[last:], self.vain])
        far_terms = np.concatenate([terms[last:], np.zeros(len(self.vain))])
        return math.sqrt(edge + _variance(far_counts, far_terms))


@dataclass(frozen=True, eq=False)
class Outlook:
    """What one query can expect of a sketched block: its head, and where the rest may lie."""

    sketch: Sketch
    keys: VectorBlock  # of which the sketch is
    query: Rows  # (d,)
    temperature: float
    left: Left | None  # the allowed rows, where some are not
    near: Numbers  # allowed strangers, then rows whose codes lead to expect most, most first
    head_scores: Rows  # of the first of them, strangers and others: all of these are taken
    edge: Floats  # scores that the codes of the others lead to expect, from the bar up
    stray: float  # standard deviation of scores from what codes lead to expect
    bar: float  # the score below which keys are left to the cells
    least: float  # what codes tell at the bar
    slope: float  # how much more is expected for each bit more that codes tell
    firsts: Numbers  # (c,) where the allowed rows of each cell begin
    sizes: Numbers  # (c,) how many they are
    hopes: Floats  # (c,) √E[exp(2 (s - bar) / τ); s < bar] of each of them
    means: Floats  # (c,) E[exp((s - bar) / τ); s < bar]

    @classmethod
    def of(
        cls,
        sketch: Sketch,
        keys: VectorBlock,
        query: Rows,
        *,
        temperature: float,
        taken: int,
        coded: int,
        left: Left | None = None,
    ) -> Outlook:
        """Look at the keys of the nearest cells through their codes, and score the best of them.

        About ``coded`` allowed keys, and no more, are found by their codes, and the ``taken`` best
        of these are scored. ``left`` are the allowed rows, if not all are.
        """
        bounds, sizes = (sketch.starts, sketch.sizes) if left is None else (left.bounds, left.sizes)
        # Row by row: after a product this small NumPy's threads spin on the core that codes want.
        coarse = np.vecdot(sketch.means, query)
        middles = coarse.astype(np.float64)
        variance = np.vecdot(np.vecdot(sketch.scatter, query), query)
        spreads = np.sqrt(np.maximum(variance * sketch.strays, 1e-12))
        cells, bar = _cells_near(sizes, middles, spreads, coded)
        allowed = None if left is None else left.bits
        for higher in BARS:
            spread = spreads[cells[0]] if higher > -DEEP else spreads[cells].max()
            least = bar + higher * float(spread)
            told, near = sketch.codes.above(query, least, cells, coarse, allowed)
            if len(near) >= taken:
                break
        seen = _Seen.of(keys, query, told, near, least, taken=taken, coded=coded)
        strange, strangers = sketch.strange, sketch.strangers
        if left is not None:
            there = left.mask[strange]
            strange, strangers = strange[there], strangers[there]
        near = np.concatenate([strange, seen.rows])
        rest = np.clip(1 - sketch.tally(near) / np.maximum(sizes, 1), 1e-9, 0.5)  # of each cell
        middles -= seen.bar
        most = np.maximum(middles + spreads * np.log(rest / (1 - rest)) / 1.7, 0.0)
        powers = np.array([[2.0], [1.0]])
        return cls(
            sketch,
            keys,
            query,
            temperature,
            left,
            near,
            np.concatenate([np.vecdot(strangers, query), seen.scores]),
            seen.edge,
            seen.stray,
            seen.bar,
            seen.least,
            seen.slope,
            bounds[:-1],
            sizes,
            *np.exp(_log_mean_exp(middles, spreads, powers / temperature, most) / powers),
        )

    def under(self, left: Left) -> Outlook:
        """Look at fewer allowed rows, without looking for those that are near: the bar stays."""
        taken, kept = len(self.head_scores), left.mask[self.near]
        return replace(
            self,
            left=left,
            near=self.near[kept],
            head_scores=self.head_scores[kept[:taken]],
            edge=self.edge[kept[taken:]],
            firsts=left.bounds[:-1],
            sizes=left.sizes,
        )

    def rivals(self, last: float, listed: Numbers) -> Numbers:
        """Give the near rows that may score above ``last``: their codes lead to expect nearly as
        much, or as much as of one that is ``listed`` though it was only drawn.
        """
        taken = len(self.head_scores)
        likely = int(np.searchsorted(-self.edge, self.bar - last + SURELY * self.stray))
        drawn = -1
        if np.count_nonzero(self.head_scores >= last) < len(listed):  # not all of them were taken
            at_edge = (self.near[taken:] == listed[:, np.newaxis]).any(axis=0)
            drawn = int(np.flatnonzero(at_edge).max(initial=-1))
        return self.near[: taken + max(likely, drawn + 1)]

    def are_found(self, score: float) -> bool:
        """Tell, by little work, whether next to no key of a score or of more can have been missed.

        All are in the head of which codes tell more than of the first at the edge.
        """
        begin = float(self.edge[0]) if len(self.edge) else 0.0
        short = (score - self.least - begin / self.slope) / self._astray
        above = int(np.count_nonzero(self.head_scores >= score))
        return above * math.erfc(short / math.sqrt(2)) / 2 < RARELY / 2  # of p / (1 - p), p ≤ ½

    @property
    def _astray(self) -> float:
        """Standard deviation of what codes tell from what a key scores.

        Of normal scores and errors, where ``slope`` more is expected for each bit more that is
        told, scores stray by √slope of that from what is expected.
        """
        return max(self.stray, 1e-9) / math.sqrt(self.slope)

    def highest_missed(self, chances: Floats) -> float:
        """Give a score above which next to no key was missed, where π at the edge is ``chances``.

        A key of score s is told of too little to be found, and then not drawn at the edge either,
        with a probability p(s); and for each that was found p / (1 - p) are expected to have been
        missed (Horvitz & Thompson 1952). That is rough where codes tell less than half of what
        there is. -∞ where of all scores of the head it is less than ``RARELY``.
        """
        if not len(self.head_scores):
            return -math.inf
        scores = np.sort(self.head_scores)[::-1].astype(np.float64)
        step = len(self.edge) // BANDS
        told, left_out = np.zeros(BANDS + 1), np.ones(BANDS + 1)  # of the edge's bands, and below
        if step:
            told[:-1] = self.edge[: step * BANDS : step]
            left_out[:-1] -= chances[: step * BANDS].reshape(BANDS, step).mean(axis=1)
        left_out[1:] -= left_out[:-1].copy()  # from each band to the next
        some = scores[-1] + (scores[0] - scores[-1]) * FORETOLD
        told = self.least + told / self.slope
        below = np.exp(_log_normal_share((told[:, np.newaxis] - some) / self._astray))
        missed = np.minimum(np.interp(scores, some, left_out @ below), LIKELIEST)
        place = int(np.searchsorted(np.cumsum(missed / (1 - missed)), RARELY))
        return float(scores[place]) if place < len(scores) else -math.inf

    def sample(self, shares: Shares, before: Sample | None = None) -> Sample:
        """Draw by ``shares`` beside the head; the same keys whenever the same is asked.

        What a sample ``before`` has is kept, and only what it lacks of these shares is drawn.
        """
        taken = len(self.head_scores)
        if before is None:
            drawn = self._drawn(shares)
        else:
            had, sizes = before.shares, np.maximum(self.sizes, 1)
            shares = np.maximum(shares[0], had[0]), np.maximum(shares[1], had[1])
            lacking = sizes * _lacking(had[1] / sizes, shares[1] / sizes)
            more = self._drawn((_lacking(had[0], shares[0]), lacking), before.drawn)
            drawn = before.drawn + more
        far_counts = self.sizes[drawn.cells] / shares[1][drawn.cells]
        vain = np.isneginf(drawn.far_scores)
        far = np.flatnonzero(~vain)
        return Sample(
            np.concatenate([self.near[:taken], self.near[taken + drawn.edge], drawn.far[far]]),
            np.concatenate([self.head_scores, drawn.edge_scores, drawn.far_scores[far]]),
            np.concatenate([np.ones(taken), 1 / shares[0][drawn.edge], far_counts[far]]),
            far_counts[vain],
            shares,
            drawn,
            self,
        )

    def _drawn(self, shares: Shares, before: Drawn | None = None) -> Drawn:
        """Draw by these shares and score what was not drawn ``before``."""
        known = np.zeros(len(self.sketch), bool)
        at_edge, *from_cells = self._random(before)
        edge = np.flatnonzero(np.diff(np.ceil(_summed(shares[0]) - at_edge)))
        far, cells = self._from_cells(shares[1], *from_cells)
        if before is not None:
            edge = np.setdiff1d(edge, before.edge, assume_unique=True)
            known[before.far] = True
            fresh = np.flatnonzero(~known[far])
            far, cells = far[fresh], cells[fresh]
        known[self.near] = True
        new = np.flatnonzero(~known[far])
        rest = np.concatenate([self.near[len(self.head_scores) + edge], far[new]])
        scores = self.keys.scores_at(rest, self.query[np.newaxis])[0]
        far_scores = np.full(len(far), -np.inf, np.float32)
        far_scores[new] = scores[len(edge) :]
        return Drawn(edge, scores[: len(edge)], far, cells, far_scores)

    def _random(self, before: Drawn | None) -> list[float]:
        """Give four numbers from 0 to below 1, by the query and how much was drawn before."""
        drawn = 0 if before is None else len(before.edge) + len(before.far)
        # An encoder's last bits are others for a text among others: they must not count here.
        steps = np.rint(self.query * 2 * math.sqrt(len(self.query))).astype(np.int16)
        digest = blake2b(steps.tobytes() + drawn.to_bytes(8), digest_size=16).digest()
        return [int.from_bytes(digest[i : i + 4]) / 2**32 for i in range(0, 16, 4)]

    def unevenness(self, shares: Shares) -> float:
        """Foretell √Σ (1 - π) w² of the weights that draws by these ``shares`` will have."""
        chances, draws = shares
        tau, doubt = self.temperature, min((self.stray / self.temperature) ** 2, MOST_DOUBT)
        head, edge = (
            np.exp(np.minimum(over_bar / tau, MOST_HOPED / 2))  # they are squared
            for over_bar in (self.head_scores.astype(np.float64) - self.bar, self.edge)
        )
        far = float(self.sizes @ self.means)
        # In logarithms, what a key at the edge scores is a normal number.
        mass = max(float(head.sum() + edge.sum() * math.exp(doubt / 2)) + far, 1e-300)
        lost = float((1 / np.maximum(chances, 1e-300) - 1) @ edge**2) * math.exp(2 * doubt)
        return math.sqrt(lost + self._far_squares(draws)) / mass

    def shares(self, drawn: int) -> Shares:
        """Give π of each key at the edge, and the draws wanted of each cell."""
        hopes, share, weights = self._hoped
        chances = _shared(hopes, drawn * share, np.ones(len(hopes)))
        left = drawn - float(chances.sum())
        return chances, _shared(weights, left, self.sizes.astype(np.float64))

    @cached_property
    def _hoped(self) -> tuple[Floats, float, Floats]:
        """Give what draws go by: at the edge, the edge's share of them, and of each cell.

        At the edge that is exp((score - bar) / τ), or something more even: codes are coarse.
        """
        hopes = np.exp(np.minimum(self.edge / max(self.temperature, self.stray), MOST_HOPED))
        edge, cell_mass = float(hopes.sum()), self.sizes * self.hopes
        far = float(cell_mass.sum())
        share = min(max(edge / max(edge + far, 1e-300), LEAST_SHARE), 1 - LEAST_SHARE)
        by_hope = cell_mass / max(far, 1e-300)
        by_size = self.sizes / max(int(self.sizes.sum()), 1)
        return hopes, share, (1 - BLIND_SHARE) * by_hope + BLIND_SHARE * by_size

    def _from_cells(
        self, draws: Floats, start: float, first: float, apart: float
    ) -> tuple[Numbers, Numbers]:
        """Draw rows of cells, by even steps from a random place on; give them and their cells.

        Rows stand at random there, but near ones may not: of keys that share a vector, those
        that were found by their codes are neighbours, and a run would meet all of them or none.
        Two random numbers place the first step in every cell; of any two cells independently.
        """
        before = np.ceil(_summed(draws) - start).astype(np.int64)  # drawn of the cells up to each
        drawn, sizes = np.diff(before), self.sizes
        cells = np.repeat(np.arange(len(draws)), drawn)
        turn = np.arange(len(cells)) - before[cells]  # in its cell
        offsets = ((first + apart * np.arange(len(draws))) % 1 * sizes).astype(np.int64)
        steps = (offsets[cells] + turn * sizes[cells] // drawn[cells]) % sizes[cells]
        places = self.firsts[cells] + steps
        return (places if self.left is None else self.left.rows[places]), cells

    def _far_squares(self, draws: Floats) -> float:
        """Σ n_c² E[exp(2 (s - bar) / τ)] / draws_c over the cells that are drawn from."""
        wanted = draws > 0
        return float(((self.sizes * self.hopes)[wanted] ** 2 / draws[wanted]).sum())


class _Seen(NamedTuple):
    """What codes tell of the rows that score best by them, strangers left out."""

    rows: Numbers  # those first of which most is expected
    scores: Rows  # of the first of them
    edge: Floats  # what is expected of the others, less the bar
    stray: float  # standard deviation of scores from what is expected
    bar: float  # what is expected of a row whose code scores as the least of them
    least: float  # how that code scores
    slope: float  # how much more is expected for each bit more

    @classmethod
    def of(
        cls,
        keys: VectorBlock,
        query: Rows,
        told: Rows,
        rows: Numbers,
        least: float,
        *,
        taken: int,
        coded: int,
    ) -> _Seen:
        """Score the ``taken`` of which most is expected; the lesser half of these tell the rest.

        Of the ``rows``, all there are above ``least``, ``coded`` are kept at the most.
        """
        order = _falling(told)
        if len(order) > coded:
            least = float(told[order[coded]])
            order = order[:coded]
        rows, guesses = rows[order], told[order].astype(np.float64)
        scores = keys.scores_at(rows[:taken], query[np.newaxis])[0]
        slope = _slope(guesses[: len(scores)], scores)
        half = slice(taken // 2, len(scores))
        count = max(len(scores[half]), 1)
        off = scores[half] - slope * guesses[half]
        lift = float(off.sum()) / count
        off -= lift
        bar = slope * least + lift
        edge = slope * (guesses[taken:] - least)
        return cls(rows, scores, edge, math.sqrt(float(off @ off) / count), bar, least, slope)


def _falling(guesses: Rows) -> Numbers:
    """Sort guesses, the greatest first, to within a thousandth of what codes are off by.

    NumPy sorts 16 bits by radix, and in a seventh of the time that 32 take.
    """
    steps = np.clip(guesses, -2, 2) * np.float32(-16_000)
    return np.argsort(steps.astype(np.int16), kind="stable")


def _slope(guesses: Floats, scores: Rows) -> float:
    """Say how much more a row scores for each bit more that is guessed of it: half of it to all.

    Of rows that are like the query, codes tell just what is (they were moved to); of those that lie
    about at random, too much.
    """
    away = guesses - float(guesses.sum()) / max(len(guesses), 1)
    return min(max(float(away @ scores) / max(float(away @ away), 1e-12), 0.5), 1.0)


def _cells_near(
    sizes: Numbers, middles: Floats, spreads: Floats, count: int
) -> tuple[Numbers, float]:
    """Give the cells that may hold some of the ``count`` best keys, the likeliest first, and a bar.

    The bar is what so many keys should reach. Where most of these are of crowds, nearly the same
    keys, it says nothing of how high others reach, which one alone in its cell may far surpass: the
    cells that are looked at are then those which the others' own bar leads to.
    """
    many = sizes.astype(np.float64)
    bar = lower = _bar(many, middles, spreads, count)
    squares = spreads**2
    apart = np.where(squares * many.sum() < CROWDED * float(squares @ many), 0.0, many)
    if _reaching(bar, apart, middles, LOGISTIC / spreads) < count / 2:
        lower = _bar(apart, middles, spreads, count)
    places = np.where(sizes > 0, (middles - lower) / spreads, -np.inf)
    order = np.argsort(-places)[: np.count_nonzero(sizes)]
    enough = int(np.searchsorted(np.cumsum(sizes[order]), LEAST_LOOKED_AT * count)) + 1
    return order[: max(enough, np.count_nonzero(places > -DEEP))], bar


def _bar(many: Floats, middles: Floats, spreads: Floats, count: int) -> float:
    """Find, by halving, the score that ``count`` keys reach, of so ``many`` in each cell."""
    low, high = float(middles.min()), float((middles + DEEP * spreads).max())
    steep = LOGISTIC / spreads
    for _ in range(HALVINGS):
        bar = (low + high) / 2
        low, high = (bar, high) if _reaching(bar, many, middles, steep) > count else (low, bar)
    return low


def _reaching(bar: float, many: Floats, middles: Floats, steep: Floats) -> float:
    """Foretell how many keys reach a bar: those of a cell score normally about its middle.

    Cells have more keys far above their middles than that foretells: one to three times as many
    reach it, but fewer where a mask hides the nearest.
    """
    return float(many @ (1 + np.tanh(steep * (middles - bar)))) / 2


def _log_mean_exp(middles: Floats, spreads: Floats, rate: Floats, most: Floats) -> Floats:
    """Compute log E[exp(rate x); x < most] of normal x with these means and deviations."""
    tilted = middles + rate * spreads**2
    below = _log_normal_share((most - tilted) / spreads)
    return np.minimum(rate * (middles + tilted) / 2 + below, np.minimum(rate * most, MOST_HOPED))


def _log_normal_share(x: Floats) -> Floats:
    """Compute log P(a standard normal number is below x), within a tenth.

    A logistic curve of a cubic in the middle (Page 1977), the asymptote far below.
    """
    middle = np.clip(x, FAR_BELOW, -FAR_BELOW)
    far = np.minimum(x, FAR_BELOW)
    return np.where(
        x > FAR_BELOW,
        -np.log(1 + np.exp(-middle * (1.5976 + 0.07056 * middle * middle))),
        -far * far / 2 - np.log(-far) - 0.5 * math.log(2 * math.pi),
    )


def _shared(sizes: Floats, draws: float, most: Floats) -> Floats:
    """Share draws out in proportion to sizes, but no more than ``most`` to each."""
    rate, left, rest = 0.0, draws, float(sizes.sum())
    for _ in range(8):
        if rest < 1e-300 or left <= rate * rest:
            break
        rate = left / rest
        full = rate * sizes >= most
        left, rest = draws - float(full @ most), float(~full @ sizes)
    return np.minimum(rate * sizes, most)


def _summed(expected: Floats) -> Floats:
    """Add up from 0 on: between the n + 1 sums n places are drawn by even steps."""
    sums = np.zeros(len(expected) + 1)
    np.cumsum(expected, out=sums[1:])
    return sums


def _lacking(before: Floats, wanted: Floats) -> Floats:
    """Give the probability to draw again with, for one of ``before`` to become the ``wanted``."""
    return (wanted - before) / np.maximum(1 - before, 1e-12)


def _variance(counts: Floats, terms: NDArray[np.floating]) -> float:
    """Compute equation (2) of one group of drawn keys."""
    room = 1 - 1 / counts
    drawn = int(np.count_nonzero(room))
    if not drawn:
        return 0.0
    middle = float((room * terms).sum() / room.sum())
    # No product: beyond 10,000 numbers NumPy's threads take part, and spin on afterwards.
    squares = float((room * (terms - middle) ** 2).sum()) * drawn / max(drawn - 1, 1)
    return squares + middle**2 / 4

"""Intervals for values that a dataset lacks, checked by leaving out values that it has.

The middle of the weight describes the values that answer. Where attention is sharp these are few,
and a value that nobody stored lies outside of them more often than not. So each probed key is
asked for with itself masked, as for the fit of τ, and the interval is made to reach as far from the
median, on either side, as it takes to hold as many of their own values as it says: a conformal
prediction (as in Romano, Patterson & Candès 2019, arXiv:1905.03222), by leave-one-out. Narrow
intervals are off more often than wide ones, so each third of them has a reach of its own.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from index.answers import Blend, NumberBlend
from index.attention import CACHED
from index.temperature import FLAT, GRID, MASKED, SMALLEST, Scores, leave_out, shares_at
from index.values import LEVEL, SLACK

# The τ that margins are of, beside a dataset's own: from attention to one key to all keys alike.
TRIED = (SMALLEST, *GRID[::2].tolist(), FLAT)
PARTS, PART = 3, 100  # of the intervals by width at most, and intervals in one at least
RUNS = 128  # of keys in the order of their values, by which weights are summed at first


@dataclass(frozen=True)
class Margins:
    """How far from the median an interval of numbers reaches, in their units, at some τ.

    Between these it is interpolated. At each, intervals of the weight that are no wider than the
    first of ``widths`` have the first of ``reaches``, and so on, and all others the last. It goes
    no further than from the ``least`` to the ``greatest`` value there was at the fit.
    """

    temperatures: Sequence[float]
    widths: Sequence[Sequence[float]]
    reaches: Sequence[Sequence[float]]
    least: float
    greatest: float

    def widened(self, blend: NumberBlend, temperature: float) -> tuple[float, float]:
        """Give the interval in which a value lies that the dataset lacks."""
        low, high = blend.interval
        reaches = [
            of[bisect_left(widths, high - low)]
            for widths, of in zip(self.widths, self.reaches, strict=True)
        ]
        reach = float(np.interp(math.log(temperature), np.log(self.temperatures), reaches))
        return (
            min(low, max(blend.median - reach, self.least)),
            max(high, min(blend.median + reach, self.greatest)),
        )


def fit_margins(
    values: NDArray[np.float64],
    scores: Scores,
    probes: NDArray[np.int64],
    *,
    temperature: float | None = None,
    enough: int | None = None,
) -> Margins | None:
    """Find the margins of a column, or None where too few probed keys have a value.

    Parameters
    ----------
    values : (n,) float64 array
        NaN where missing.
    scores : (q, n) float32 array
        Cosines of the probed keys with all keys.
    probes : (q,) int64 array
        Which keys were probed.
    temperature : float, optional
        The dataset's own τ, if it has one.
    enough : int, optional
        How many of the probes that have a value to ask for, at most; all of them if left out.
    """
    tried = sorted({*TRIED, *(() if temperature is None else (temperature,))})
    there = np.flatnonzero(~np.isnan(values))
    order = there[np.argsort(values[there])]
    ascending = values[order]
    asked = np.flatnonzero(~np.isnan(values[probes]))
    asked = asked[:: max(1, -(-len(asked) // (enough or len(probes))))]
    tail = (1 - LEVEL) / 2
    # By τ, the width of each probe's interval, and how far from its median it had to reach.
    found: list[list[NDArray[np.float64]]] = [[] for _ in tried]
    some = max(1, CACHED // max(scores.shape[1], 1))
    for start in range(0, len(asked), some):
        part = asked[start : start + some]
        others = leave_out(scores[part], probes[part]).take(order, axis=1)  # row by row in memory
        best = others.max(axis=1, keepdims=True)
        answered = best[:, 0] > MASKED  # by a key with a value, other than its own
        others, truth = (others - best)[answered], values[probes[part]][answered]
        for at, shares in zip(found, shares_at(others, tried), strict=True):
            low, median, high = ascending[_places(shares, (tail, 0.5, 1 - tail))]
            outside = (truth < low) | (truth > high)
            at.append(np.array([high - low, np.where(outside, np.abs(truth - median), 0.0)]))
    fitted = [_reaches(*np.concatenate(at, axis=1)) for at in found if at]
    if not fitted or math.inf in fitted[0][1]:
        return None
    widths, reaches = zip(*fitted, strict=True)
    return Margins(tried, widths, reaches, float(ascending[0]), float(ascending[-1]))


def _places(shares: Scores, probabilities: Sequence[float]) -> NDArray[np.int64]:
    """Say at which of (m, n) shares each row's sum first has reached each probability."""
    size = -(-shares.shape[1] // RUNS)
    starts = np.arange(0, shares.shape[1], size)
    reached = np.add.reduceat(shares, starts, axis=1).cumsum(axis=1, dtype=np.float64)
    rows = np.arange(len(shares))
    found = []
    for probability in probabilities:
        goals = probability * SLACK * reached[:, -1]
        runs = (reached < goals[:, np.newaxis]).sum(axis=1)
        before = np.where(runs > 0, reached[rows, runs - 1], 0.0)
        within = np.minimum(starts[runs, np.newaxis] + np.arange(size), shares.shape[1] - 1)
        sums = np.take_along_axis(shares, within, axis=1).cumsum(axis=1, dtype=np.float64)
        places = (sums < (goals - before)[:, np.newaxis]).sum(axis=1)
        found.append(within[rows, np.minimum(places, size - 1)])
    return np.array(found)


def _reaches(
    widths: NDArray[np.float64], away: NDArray[np.float64]
) -> tuple[list[float], list[float]]:
    """Part intervals by width, evenly if that goes; give the bounds, and each part's reach."""
    parts = max(1, min(PARTS, len(widths) // PART))
    bounds = np.unique(np.quantile(widths, np.arange(1, parts) / parts)) if len(widths) else widths
    bounds = bounds[bounds < widths.max(initial=-math.inf)]
    part = np.searchsorted(bounds, widths)
    reaches = [_level(away[part == number]) for number in range(len(bounds) + 1)]
    if math.inf in reaches:  # many are as wide as each other, and a part of few is left
        return [], [_level(away)]
    return bounds.tolist(), reaches


def _level(away: NDArray[np.float64]) -> float:
    """Give the least reach that holds a new value with a probability of ``LEVEL``, or infinity."""
    enough = math.ceil((len(away) + 1) * LEVEL)
    return float(np.partition(away, enough - 1)[enough - 1]) if enough <= len(away) else math.inf


def write_margins(margins: Mapping[str, Margins]) -> str:
    """Write the margins of columns as a store keeps them."""
    return json.dumps({name: vars(of) for name, of in margins.items()}, ensure_ascii=False)


@lru_cache(maxsize=64)  # a dataset's settings are read far more often than its margins asked for
def _read_margins(written: str) -> dict[str, Margins]:
    # What an earlier commit wrote (2026-11-28) has no widths, and is of no use until the next fit.
    return {name: Margins(**of) for name, of in json.loads(written).items() if "widths" in of}


def with_predictions(
    blends: Mapping[str, Blend | None], written: str, temperature: float
) -> dict[str, Blend | None]:
    """Say of each number, where margins were written, in which interval an unseen one lies."""
    margins = _read_margins(written)
    return {
        name: replace(blend, prediction_interval=margins[name].widened(blend, temperature))
        if isinstance(blend, NumberBlend) and name in margins
        else blend
        for name, blend in blends.items()
    }

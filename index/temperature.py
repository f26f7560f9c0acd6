"""Temperature: how sharply attention prefers the better score.

τ is in units of cosine: two keys whose scores differ by τ differ e-fold in weight. It
can be given as a number, as ``sqrt_d`` (the √d of scaled dot-product attention), as a
wanted number of effective keys (solved for each query), or as ``auto``: fitted to the
dataset's own values, or the encoder's default where they say too little.

The fit is maximum likelihood, leave-one-out: each key is asked for with itself masked,
and τ is the one under which the others' values predict its own best (for kernel
regression this is the bandwidth choice of Härdle & Marron 1985). Columns that no τ
predicts have no say, nor have the few numbers that lie far beyond all others: slips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from index.attention import CACHED
from index.errors import Fault, InvalidRequest
from index.wording import whole

Scores = NDArray[np.float32]
Terms = NDArray[np.floating[Any]]

SMALLEST, GREATEST = 1e-3, 1e3
# From a sharper choice than any embedding justifies to one that is flat for cosines.
GRID = np.geomspace(0.01, 1.0, 17)
FLAT = 100.0  # at which all cosines weigh alike
ALIKE = 0.9999  # cosine of keys that differ in capitals, say: such a key foretells the other
FENCE = 10.0  # interquartile ranges beyond the quartiles: what lies farther is a slip
SLIPS = 0.01  # of a column's values at most, or one; more are a part of it
MASKED = -1e5  # of a key that is not to weigh, at FLAT neither
FIT_AT_LEAST = 50  # keys with a value: fewer say too little about τ
FIT_GAIN = 2.0  # nats by which attention must beat taking every key alike
FEW = 6  # columns of which no product is made
LEAST_MASS = float(np.finfo(np.float32).tiny)  # keys with a value may score far below the others


@dataclass(frozen=True)
class Temperature:
    """A setting; ``amount`` is τ for ``number`` and the wanted n for ``effective_keys``."""

    kind: Literal["number", "sqrt_d", "auto", "effective_keys"]
    amount: float | None = None

    def __str__(self) -> str:
        if self.amount is None:
            return self.kind
        amount = whole(float(self.amount))
        return amount if self.kind == "number" else f"{self.kind}:{amount}"


def parse_temperature(value: object) -> Temperature:
    """Read 0.1, ``"0.1"``, ``"sqrt_d"``, ``"auto"`` or ``"effective_keys:5"``.

    Raise InvalidRequest if it is none of these, or a number not from ``SMALLEST`` to ``GREATEST``.
    """
    if isinstance(value, Temperature):
        value = str(value)
    if isinstance(value, str):
        text = value.strip()
        if text in ("sqrt_d", "auto"):
            return Temperature("sqrt_d" if text == "sqrt_d" else "auto")
        kind, colon, amount = text.partition(":")
        if colon and kind == "effective_keys":
            wanted = read_number(amount)
            if wanted is not None and 1 <= wanted < math.inf:
                return Temperature("effective_keys", wanted)
            raise _fault("effective_keys takes a number of keys, at least 1: effective_keys:5")
        value = read_number(text)
    if isinstance(value, Real) and not isinstance(value, bool):
        tau = read_number(value)
        if tau is not None and SMALLEST <= tau <= GREATEST:
            return Temperature("number", tau)
        raise _fault(f"a number must lie between {SMALLEST:g} and {GREATEST:g}, in units of cosine")
    raise _fault("write a positive number such as 0.1, auto, sqrt_d or effective_keys:5")


def read_number(given: str | Real) -> float | None:
    """Read a number as JSON or the address of a request has it; None where it is none."""
    # Python's own may have some _, and the digits of any script.
    if isinstance(given, str) and ("_" in given or not given.isascii()):
        return None
    try:
        return float(given)
    except (ValueError, OverflowError):
        return None


def _fault(message: str) -> InvalidRequest:
    return InvalidRequest(Fault("temperature", message))


def effective_keys_temperature(scores: Scores, wanted: float) -> float:
    """Find the τ at which attention over (n,) cosines has ``wanted`` effective keys, at least 1.

    More than n is answered by the flattest τ, also where n is 0, less than the number of keys that
    tie for the best by the sharpest. Entropy grows with τ, so bisection on log τ cannot miss.
    """
    if not len(scores):
        return GREATEST
    shifted = (scores - scores.max()).astype(np.float64)
    low, high = math.log(SMALLEST), math.log(GREATEST)
    for _ in range(40):
        middle = (low + high) / 2
        logits = shifted / math.exp(middle)
        terms = np.exp(logits)
        mass = terms.sum()
        # No product of BLAS, which may start threads for it and take a hundred times as long.
        entropy = math.log(mass) - float((terms * logits).sum()) / mass
        if entropy < math.log(wanted):
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log likelihood of the probed keys' values, by the weights of the other keys, in two steps."""

    # (m, n) weights of some probes, each row times anything from 1 to n → terms
    of_some: Callable[[slice], Callable[[Scores], Terms]]
    of_all: Callable[[Terms], float]  # terms of all probes, in order → the logarithm


def fit_temperature(
    scores: Scores, probes: NDArray[np.int64], likelihoods: Sequence[Likelihood]
) -> float | None:
    """Fit τ by leave-one-out likelihood, or return None where the values say too little.

    Parameters
    ----------
    scores : (q, n) float32 array
        Cosines of the probed keys with all keys.
    probes : (q,) int64 array
        Which keys were probed; each is masked from its own prediction, with those ``ALIKE``.
    likelihoods : sequence
        One a column to predict: ``number_likelihood`` and ``label_likelihood`` make them.

    Returns
    -------
    float or None
        τ, refined between grid points by a parabola; None where in no column it beats
        taking all keys alike by ``FIT_GAIN`` nats, or the flattest of the grid does it best.
    """
    tried = [FLAT, *map(float, GRID)]
    some = max(1, CACHED // max(scores.shape[1], 1))

    def terms(part: slice) -> list[list[Terms]]:
        others = leave_out(scores[part], probes[part])
        terms_of = [each.of_some(part) for each in likelihoods]
        # What sums of weights divide by cancels out, in every term.
        return [[of(shares) for of in terms_of] for shares in shares_at(others, tried)]

    starts = range(0, len(probes), some)
    parts = [terms(slice(start, start + some)) for start in starts]
    baseline, *found = (
        np.array(
            [
                each.of_all(np.concatenate([part[at][number] for part in parts]))
                for number, each in enumerate(likelihoods)
            ]
        )
        for at in range(len(tried))
    )
    of_columns = np.array(found) - baseline
    told = of_columns.max(axis=0) >= FIT_GAIN
    # Nor has a column a say in how sharp τ may be for the others.
    gains = np.maximum(of_columns[:, told], 0.0).sum(axis=1)
    best = int(np.argmax(gains))
    if not told.any() or best == len(GRID) - 1:
        return None
    if best == 0:
        return float(GRID[0])
    return _peak(np.log(GRID[best - 1 : best + 2]), gains[best - 1 : best + 2])


def leave_out(scores: Scores, probes: NDArray[np.int64]) -> Scores:
    """Give (m, n) scores less the best of each row, with each probe ``MASKED``, and those alike."""
    others = scores.copy()
    others[np.arange(len(others)), probes] = np.inf
    alike = others > ALIKE
    others[alike] = -np.inf
    others -= others.max(axis=1, keepdims=True, initial=-1.0)
    others[alike] = MASKED
    return others


def shares_at(scores: Scores, temperatures: Iterable[float]) -> Iterator[Scores]:
    """Give exp(score / τ) at each τ in turn, all in the same memory: new memory costs more."""
    shares = np.empty_like(scores)
    for temperature in temperatures:
        np.multiply(scores, np.float32(1 / temperature), out=shares)
        yield np.exp(shares, out=shares)


def number_likelihood(numbers: NDArray[np.float64], probes: NDArray[np.int64]) -> Likelihood:
    """Score (n, w) numbers, NaN where missing, by a Gaussian of one variance for all probes."""
    there = np.asarray(~np.isnan(numbers).any(axis=1))
    if there.any():
        there &= ~_slips(numbers, there)
        numbers = np.where(there[:, np.newaxis], numbers, np.nan)
    asked = there[probes]
    # One value for all says nothing of τ, and its mean may be off by a bit.
    if not asked.any() or (numbers[there] == numbers[there][0]).all():
        return Likelihood(lambda _: lambda _: np.empty(0), lambda _: 0.0)
    # Centred and scaled, which moves no maximum: float32 would drown dates in their rounding.
    # By the greatest first, for the squares of the smallest and of the largest are no numbers.
    scaled = numbers / np.abs(numbers[there]).max()
    centred = scaled - scaled[there].mean(axis=0)
    centred /= max(float(centred[there].std()), 1e-300)
    known = np.vstack([there, np.where(there, centred.T, 0.0)]).astype(np.float32)
    truth = centred[probes]

    def of_some(part: slice) -> Callable[[Scores], Terms]:
        mine = asked[part]

        def squared_errors(weights: Scores) -> Terms:
            weights = weights if mine.all() else weights[mine]
            # Few columns one by one: of those OpenBLAS makes a product in four times the time.
            few = len(known) <= FEW
            sums = np.stack([weights @ of for of in known], axis=1) if few else weights @ known.T
            predicted = sums[:, 1:] / np.maximum(sums[:, :1], LEAST_MASS)
            errors: Terms = (truth[part][mine] - predicted) ** 2
            return errors

        return squared_errors

    def of_all(errors: Terms) -> float:
        return -0.5 * errors.size * math.log(max(float(errors.mean()), 1e-12))

    return Likelihood(of_some, of_all)


def _slips(numbers: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say which of (n, w) numbers lie so far beyond the others that they are taken for slips."""
    low, high = np.percentile(numbers[there], (25, 75), axis=0)
    reach = np.where(high > low, FENCE * (high - low), np.inf)
    beyond = np.asarray(((numbers < low - reach) | (numbers > high + reach)).any(axis=1))
    few = np.count_nonzero(beyond) <= max(1.0, SLIPS * np.count_nonzero(there))
    return beyond if few else np.zeros_like(beyond)


def label_likelihood(codes: NDArray[np.int32], probes: NDArray[np.int64]) -> Likelihood:
    """Score (n,) label codes, -1 where missing, by their probability.

    It is mixed with 1 % of the base rates, so that a label no neighbour has costs a
    bounded amount.
    """
    there = np.asarray(codes >= 0)
    labelled = np.count_nonzero(there)
    counted = there.astype(np.float32)

    def of_some(part: slice) -> Callable[[Scores], Terms]:
        wanted = codes[probes[part]]
        asked = wanted >= 0
        wanted = wanted[asked]
        alike = (codes == wanted[:, np.newaxis]).astype(np.float32)
        base = alike.sum(axis=1, dtype=np.float64) / labelled

        def logarithms(weights: Scores) -> Terms:
            weights = weights if asked.all() else weights[asked]
            mass = np.maximum(weights @ counted, LEAST_MASS)
            agreed = np.einsum("ij,ij->i", weights, alike) / mass
            logs: Terms = np.log(0.99 * agreed + 0.01 * base)
            return logs

        return logarithms

    return Likelihood(of_some, lambda terms: float(terms.sum()))


def _peak(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Vertex of the parabola through three evenly spaced points, as exp(x)."""
    bend = y[0] - 2 * y[1] + y[2]
    shift = 0.5 * (y[0] - y[2]) / bend if bend < 0 else 0.0
    return math.exp(float(x[1] + shift * (x[1] - x[0])))

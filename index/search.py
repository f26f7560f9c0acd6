"""Attention of queries over a snapshot's keys: the one place where keys are searched.

Every allowed key is scored, and the states of some scores at a time are merged by the
formula's one merge. Where a block has a sketch and some error is tolerated, a sample of its
keys stands for all of them (``index.sampling``): a state like any other, whose mass has a
standard error. So an answer says how much of the mass was computed key by key (``coverage``)
and how far its weights may be from exact attention (``error``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from index.attention import CACHED, State, attend, attention_weights, merge, stack
from index.cores import cores, side_by_side
from index.sampling import Outlook, Sample
from index.sketch import Left, Sketch
from index.snapshot import Snapshot

Rows = NDArray[np.float32]
Mask = NDArray[np.bool_]
Tau = float | Callable[[Rows], float]  # of one query, from the scores of its allowed keys

PIECE = 2**19  # scores that a core takes in at a time, of as many questions as that may be
AT_ONCE = 2**25  # scores held at a time (128 MB)

TOLERANCE = 0.03  # wanted total variation error, where a dataset has no other
NORMAL = 1.96  # standard errors within which a normal error stays in 95 %, as a blend's does
WIDEST = 1.15  # times a normal error is that of a mass where one key has all the attention
SHARED_BY = 1_000_000  # effective keys, and it is a normal one
HIDDEN = 7.0  # deviations of the sketch: a key that scores so far below the best may be missed
MOST_HIDDEN = 0.003  # of the mass: that more is missing draws would show, or codes foretell
ROUNDING = 5e-8  # of a float32 cosine, five standard errors: by 1 / τ of it a weight may be off
RANDOM_ACCESS = 4.0  # times longer a scattered key takes than one in a scan
FINEST = 0.01  # τ: below, a key may weigh a lot whose code does not show it, and none is drawn
SHARE_DRAWN_FROM = 0.05  # of a sketched block must be allowed, or scoring these is as fast
FEWEST_DRAWN_FROM = 30_000  # of its keys must be, or scoring them is as fast
CODED, TAKEN, DRAWN = 8192, 1024, 7168  # keys seen by codes, scored, and first thought to draw
EACH_LISTED = 16  # keys are scored for each that is listed
FARTHEST = 0.4  # of a block's codes are ranked, or scanning is as fast
LEAST_DRAWN = 0.5  # of these, however few would do: fewer cannot tell their own error
HEADROOM = 1.4  # more draws than a tolerance asks for: the next estimate may be unluckier
AFRESH = 20_000  # draws take as long as to look at the keys anew, and to draw by that
GREATEST_STEP = 16.0  # times as many draws as before, at most


@dataclass(frozen=True, eq=False)
class Attention:
    """What one query pays attention to, in a snapshot of n rows."""

    temperature: float  # τ, in units of cosine
    keys: int  # that are allowed
    scores: Rows  # (m,) cosines of the keys looked at
    state: State  # of this one query
    allowed: Mask | None = None  # (m,) where some of them are masked
    rows: NDArray[np.int64] | None = None  # (m,) their numbers; None: all n, in order
    counts: NDArray[np.float64] | None = None  # (m,) how many keys each stands for; None: itself
    rounding: float = 0.0  # standard error of a score
    sample: Sample | None = None  # the first of these keys, if they were drawn

    @cached_property
    def weights(self) -> NDArray[np.floating]:
        """The (m,) shares of all attention that the keys stand for; they sum to one."""
        if self.counts is not None:
            return self.counts * self.weight_of(self.scores)
        return np.asarray(
            attention_weights(self.scores, temperature=self.temperature, allowed=self.allowed)
        )

    @cached_property
    def coverage(self) -> float:
        """Share of the mass that was computed key by key."""
        return 1.0 if self.counts is None else min(float((self.weights / self.counts).sum()), 1.0)

    @cached_property
    def doubt(self) -> float:
        """How far off the mass may be, over the mass, at 95 %."""
        rounded = self.rounding / self.temperature
        if self.sample is None:
            return rounded
        spread = self.sample.standard_error(self.weights[: len(self.sample.rows)])
        drawn = standard_errors(float(self.state.effective_keys[0])) * spread
        # The three have nothing to do with each other.
        return math.hypot(drawn, self.hidden, rounded)

    @cached_property
    def hidden(self) -> float:
        """What a key would weigh that codes or cells hid: of it, draws leave no trace.

        By what codes tell, where that comes to more than is stated anyway.
        """
        if self.sample is None:
            return 0.0
        outlook, tau = self.sample.outlook, self.temperature
        mass, peak = float(self.state.mass[0]), float(self.state.peak[0])
        of_cells = min(math.exp(-HIDDEN * outlook.sketch.deviation / tau) / mass, MOST_HIDDEN)
        if outlook.are_found(tau * (peak + math.log(MOST_HIDDEN * mass))):
            return of_cells
        missed = outlook.highest_missed(self.sample.shares[0]) / tau - peak
        of_codes = min(math.exp(min(missed, 0.0)) / mass, 1.0)
        return of_codes if of_codes > MOST_HIDDEN else of_cells

    @property
    def error(self) -> float:
        """Total variation from exact attention, at 95 %: all that was computed is off alike."""
        return self.doubt * self.coverage

    def weight_of(self, scores: Rows) -> NDArray[np.float64]:
        """Give the weights of single allowed keys by their scores."""
        logits = scores.astype(np.float64) / self.temperature
        weights = np.exp(logits - self.state.peak[0]) / self.state.mass[0]
        # At most 1: a key that was not drawn may score above all that were.
        return np.asarray(np.minimum(weights, 1.0))

    def unevenness(self, known: NDArray[np.int64] | slice = slice(None)) -> float:
        """Standard error of a blended number over its column's deviation: √Σ (1 - π) w².

        It holds where the numbers of the drawn keys that weigh lie as far apart as the column's.
        The error is less where they lie nearer, as they mostly do, and greater where farther.
        ``known`` are the places of those that have the number; ∞ where none of them weighs.
        """
        total = float(self.weights[known].sum())
        return math.sqrt(float(self._variances[known].sum())) / total if total > 0 else math.inf

    @cached_property
    def _variances(self) -> NDArray[np.floating]:
        """Give (1 - π) w² of the (m,) keys."""
        return self.weights**2 * (0 if self.counts is None else 1 - 1 / self.counts)

    @property
    def scored(self) -> int:
        """How many keys the weights come from; those scored to be listed alone are no part."""
        return self.keys if self.rows is None else len(self.scores)

    @property
    def best(self) -> float:
        """The greatest score of an allowed key; -∞ with none."""
        known = (self.state.peak[0], *self.state.top_logits[0, :1])  # some are scored to be listed
        return float(max(known)) * self.temperature


def attend_keys(
    snapshot: Snapshot,
    queries: Rows,
    *,
    temperature: Tau,
    allowed: Mask,
    k: int,
    tolerance: float = 0.0,
    seen: Outlook | None = None,
) -> list[Attention]:
    """Attend from (q, d) unit queries to the allowed rows of a snapshot.

    Parameters
    ----------
    temperature : float or callable
        τ, or what gives it for one query from the (m,) scores of its allowed keys; then
        every key is scored.
    allowed : (n,) bool array
        Which rows may be attended to.
    k : int
        How many of the best to list, if any. They change no weight.
    tolerance : float
        Wanted total variation error of the weights, and wanted error of a blended number over
        the standard deviation of its column, both at 95 %. At 0, at a τ below ``FINEST`` and
        where it is as cheap, every key is scored, and the error is that of the precision which
        vectors are held in: 0 in full.
    seen : Outlook, optional
        What one query saw at this τ, where more rows were allowed.
    """
    k = min(k, snapshot.rows)
    keys = len(snapshot) if allowed is snapshot.alive else int(np.count_nonzero(allowed))
    part = _Part.of(snapshot, allowed, keys) if tolerance else None
    if part is None or callable(temperature) or temperature < FINEST:
        return _attend_to_each(snapshot, queries, temperature, allowed, keys, k)
    found = [_attend_some(snapshot, part, q, temperature, k, tolerance, seen) for q in queries]
    left = [number for number, attention in enumerate(found) if attention is None]
    exact = _attend_to_each(snapshot, queries[left], temperature, allowed, keys, k) if left else []
    return [exact.pop(0) if attention is None else attention for attention in found]


# Every allowed key


def _attend_to_each(
    snapshot: Snapshot, queries: Rows, temperature: Tau, allowed: Mask, keys: int, k: int
) -> list[Attention]:
    """Score every allowed key: by a scan of all rows, or where they are few, these alone."""
    rows = np.flatnonzero(allowed) if keys * RANDOM_ACCESS < len(allowed) else None
    scores = snapshot.scores(queries) if rows is None else snapshot.scores_at(queries, rows)
    masked = allowed if rows is None and keys < len(allowed) else None
    known = scores[:, masked] if masked is not None and callable(temperature) else scores
    taus = _temperatures(temperature, known)
    state = _state(scores, taus, masked, k)
    if rows is not None:
        state = _numbered(state, rows)
    return [
        Attention(
            float(tau),
            keys,
            scores[i],
            _row(state, i),
            allowed=masked,
            rows=rows,
            rounding=snapshot.rounding,
        )
        for i, tau in enumerate(taus)
    ]


def _temperatures(temperature: Tau, known: Rows) -> NDArray[np.float64]:
    """Give τ of each query, from the scores of its allowed keys if need be."""
    if callable(temperature):
        return np.array([temperature(row) for row in known])
    return np.full(len(known), temperature)


def _state(scores: Rows, taus: NDArray[np.float64], allowed: Mask | None, k: int) -> State:
    """Take in (q, n) scores, some at a time."""
    q, n = scores.shape
    pieces = max(1, -(-q * min(n, CACHED) // PIECE))
    if pieces > 1:
        pieces = -(-pieces // cores()) * cores()  # for all to have as much to do
    some = max(1, -(-q // pieces))
    parts = [slice(start, start + some) for start in range(0, q, some)]
    firsts = range(0, max(n, 1), CACHED)

    def taken_in(piece: tuple[int, slice]) -> State:
        first, part = piece
        keys = slice(first, first + CACHED)
        return attend(
            scores[part, keys],
            temperature=taus[part],
            allowed=None if allowed is None else allowed[keys],
            k=k,
            first_row=first,
        )

    states = side_by_side(taken_in, [(first, part) for first in firsts for part in parts])
    width = len(parts)
    return reduce(merge, (stack(states[i : i + width]) for i in range(0, len(states), width)))


def _row(state: State, query: int) -> State:
    return State(*(part[query : query + 1] for part in vars(state).values()))


# Head and tail


def is_drawn_from(allowed: int, rows: int) -> bool:
    """Tell whether a sample is drawn where so many rows of a sketched block are allowed."""
    return allowed >= max(SHARE_DRAWN_FROM * rows, FEWEST_DRAWN_FROM)


@dataclass(frozen=True, eq=False)
class _Part:
    """The sketched block of a snapshot, as a mask leaves it, and what came after it."""

    sketch: Sketch
    allowed: Mask  # (n,) of the whole snapshot
    left: Left | None  # the allowed rows of the block, where some are not
    keys: int  # allowed, in all
    of_block: int  # allowed, in the block
    rounding: float  # what a score may be off by, from its arithmetic or the steps it is held in

    @classmethod
    def of(cls, snapshot: Snapshot, allowed: Mask, keys: int) -> _Part | None:
        """Look at a mask; None where there is no sketch, or a sample is no faster."""
        sketch = snapshot.sketch
        if sketch is None:
            return None
        mask, rounding = allowed[: len(sketch)], max(ROUNDING, snapshot.rounding)
        count = len(mask) if keys == len(allowed) else int(np.count_nonzero(mask))
        if not is_drawn_from(count, len(mask)):
            return None
        left = None if count == len(mask) else snapshot.left(sketch, allowed)
        return cls(sketch, allowed, left, keys, count, rounding)


@dataclass(frozen=True, eq=False)
class _Fresh:
    """What one query finds in the allowed rows that came after the sketch."""

    state: State
    scores: Rows
    rows: NDArray[np.int64]


def _attend_some(
    snapshot: Snapshot,
    part: _Part,
    query: Rows,
    tau: float,
    k: int,
    tolerance: float,
    seen: Outlook | None,
) -> Attention | None:
    """Attend to a sample, as large as the tolerance asks for; None where a scan is cheaper."""
    fresh = _attend_fresh(snapshot, part, query, tau, k)
    most = part.of_block / RANDOM_ACCESS - TAKEN

    def drawn_from(outlook: Outlook, limit: float) -> Attention | None:
        drawn, sample = _foreseen(outlook, tolerance), None
        while drawn < limit:
            sample = outlook.sample(outlook.shares(drawn), sample)
            attention = _joined(part, sample, fresh, tau, k)
            short = max(attention.error, NORMAL * attention.unevenness()) / tolerance
            if short <= 1:
                return _with_list(snapshot, part, query, attention, k)
            if attention.hidden * attention.coverage > tolerance:
                return None  # it would take nearly all to find it
            step = min(short, GREATEST_STEP) ** 2 * HEADROOM
            drawn = round(drawn * min(step, GREATEST_STEP))
        return None

    if seen is not None and part.left is not None:
        found = drawn_from(seen.under(part.left), min(most, AFRESH))
        if found is not None:
            return found  # it showed enough
    outlook = _outlook(snapshot, part, query, tau, TAKEN)
    return None if outlook is None else drawn_from(outlook, most)


def _foreseen(outlook: Outlook, tolerance: float) -> int:
    """Say how many draws a blend within the tolerance is thought to take."""
    unevenness = outlook.unevenness(outlook.shares(DRAWN))
    wanted = min(NORMAL * unevenness / tolerance, GREATEST_STEP) ** 2 * HEADROOM
    return round(DRAWN * min(max(wanted, LEAST_DRAWN), GREATEST_STEP))


def _outlook(
    snapshot: Snapshot, part: _Part, query: Rows, tau: float, taken: int
) -> Outlook | None:
    """Find the ``taken`` best allowed keys of the block; None where a scan is as fast."""
    coded = max(CODED, 4 * taken)
    if coded > FARTHEST * len(part.sketch):
        return None
    return Outlook.of(
        part.sketch,
        snapshot.blocks[0].vectors,
        query,
        temperature=tau,
        taken=taken,
        coded=coded,
        left=part.left,
    )


def _with_list(
    snapshot: Snapshot, part: _Part, query: Rows, attention: Attention, k: int
) -> Attention:
    """List the best keys: more that may be among them are scored, and no weight changes."""
    sample, rows = attention.sample, attention.rows
    if k == 0 or sample is None or rows is None:
        return attention
    taken, tau, asked = EACH_LISTED * k, attention.temperature, query[np.newaxis]
    last = float(attention.state.top_logits[0, -1]) * tau
    outlook: Outlook | None = sample.outlook
    if taken > TAKEN:
        outlook = _outlook(snapshot, part, query, tau, taken)
        if outlook is not None and len(outlook.head_scores) < k:
            outlook = None  # of keys that are all alike codes may find none
        last = last if outlook is None else max(last, float(np.sort(outlook.head_scores)[-k]))
    if outlook is None:
        more = np.flatnonzero(_unscored(part, rows))
    else:
        rivals = outlook.rivals(last, attention.state.top_rows[0])
        if outlook is sample.outlook and len(rivals) == len(outlook.head_scores):
            return attention
        more = rivals[_unscored(part, rows)[rivals]]
    others = attend(snapshot.scores_at(asked, more), temperature=tau, k=k)
    best = merge(attention.state, _numbered(others, more))
    state = replace(attention.state, top_logits=best.top_logits, top_rows=best.top_rows)
    return replace(attention, state=state)


def _unscored(part: _Part, rows: NDArray[np.int64]) -> Mask:
    """Give the (n,) mask of allowed rows that are not among these."""
    mask = part.allowed.copy()
    mask[rows] = False
    return mask


def _attend_fresh(
    snapshot: Snapshot, part: _Part, query: Rows, tau: float, k: int
) -> _Fresh | None:
    """Score every allowed row that came after the sketch, if any did."""
    first = len(part.sketch)
    if snapshot.rows == first:
        return None
    after = np.flatnonzero(part.allowed[first:])
    scores, rows = snapshot.scores(query[np.newaxis], first_block=1)[:, after], first + after
    state = _state(scores, np.array([tau]), None, k)
    return _Fresh(_numbered(state, rows), scores[0], rows)


def _joined(part: _Part, sample: Sample, fresh: _Fresh | None, tau: float, k: int) -> Attention:
    """Merge the sample's state and that of the fresh rows."""
    scores, rows, counts = sample.scores, sample.rows, sample.counts
    state = _numbered(attend(scores[np.newaxis], temperature=tau, counts=counts, k=k), rows)
    if fresh is not None:
        state = merge(state, fresh.state)
        scores = np.concatenate([scores, fresh.scores])
        rows = np.concatenate([rows, fresh.rows])
        counts = np.concatenate([counts, np.ones(len(fresh.scores))])
    return Attention(
        tau,
        part.keys,
        scores,
        state,
        rows=rows,
        counts=counts,
        rounding=part.rounding,
        sample=sample,
    )


def standard_errors(effective_keys: float) -> float:
    """Say within how many of its standard errors a mass stays in 95 %.

    The fewer keys share the attention, the more one of those weighs that were not drawn.
    """
    shared = math.log(max(effective_keys, 1.0)) / math.log(SHARED_BY)
    return NORMAL * (WIDEST - (WIDEST - 1) * min(shared, 1.0))


def _numbered(state: State, rows: NDArray[np.int64]) -> State:
    """Number the best among some rows by the rows' own numbers; -1 stays -1."""
    return replace(state, top_rows=np.append(rows, -1)[state.top_rows])

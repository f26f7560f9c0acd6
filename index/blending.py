"""Blending the columns of a snapshot by the weights that a question gave its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.answers import Blend
from index.attention import attention_weights
from index.search import (
    NORMAL,
    RANDOM_ACCESS,
    Attention,
    Mask,
    Rows,
    attend_keys,
    is_drawn_from,
)
from index.snapshot import Place, Snapshot
from index.values import blend_column

Weights = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]

# Above so many times the tolerance, a blend's foreseen error sends its keys to be searched alone.
# It may exceed 1: on real keys a blend is off by only .6 of what is foreseen.
SCARCE = 1.5
ALONE = 1.15  # times the tolerance, for the same reason, for keys that are searched alone
FAINT = 1e-6  # of the weight: with less on the keys that have a value, float32 may round it away
FEWEST_DRAWN = 30  # keys with a value: with fewer, the sample may have missed those that weigh
SEEN = 4.0  # times SCARCE: beyond, the first look does not show where keys with a value are
# Keys that a scan scores in the time of one more sample: 42,000 to 45,000 in a dataset of 100,000,
# and 72,000 to 87,000 in one of a million (``bench/RESULTS.md``, Growth).
LOOK = 50_000


@dataclass(frozen=True, eq=False)
class _Scarce:
    """Columns with the same gaps, of whose values a sample of all keys tells too little."""

    numbers: list[int]
    having: Mask  # (n,) rows that are allowed and have a value
    there: Numbers  # places in the sample of the keys that have one
    unevenness: float  # of the sample, among these

    @property
    def cost(self) -> float:
        """Keys that a scan scores while the rows that have a value are searched alone."""
        rows = int(np.count_nonzero(self.having))
        each = RANDOM_ACCESS * rows
        return min(each, LOOK) if is_drawn_from(rows, len(self.having)) else each


def blend_attention(
    snapshot: Snapshot,
    query: Rows,
    attention: Attention,
    *,
    allowed: NDArray[np.bool_],
    tolerance: float,
) -> dict[str, Blend | None]:
    """Blend every column of values under what a (d,) query pays attention to.

    A blend is over the keys that have a value. Where few of those that weigh have one, a sample
    of all keys tells little of them. So they are attended to alone: among themselves their
    weights stay in proportion, whatever else there is. Where columns have so many different gaps
    that scoring every key once is cheaper, all blends come from that.
    """
    rows, counts, sample = attention.rows, attention.counts, attention.sample
    weights = attention.weights
    if rows is None or counts is None or sample is None:
        exact = blend_all(snapshot, weights, rows)
        return exact | _faint_blends(snapshot, attention, exact)
    limit = SCARCE * tolerance / NORMAL
    alike: dict[int, tuple[Mask | None, list[int]]] = {}  # columns, by number, with the same gaps
    for number, known in enumerate(snapshot.known):
        if not snapshot.columns[number].attribute:
            alike.setdefault(id(known), (known, []))[1].append(number)
    plenty: list[tuple[list[int], Numbers | slice]] = []  # and the places of keys that have a value
    scarce = []
    for known, numbers in alike.values():
        if known is None:
            plenty.append((numbers, slice(None)))
            continue
        there = np.flatnonzero(known[rows])
        unevenness = attention.unevenness(there)
        drawn = np.count_nonzero(counts[there] > 1)
        if unevenness <= limit and drawn >= FEWEST_DRAWN:
            plenty.append((numbers, there))
        else:
            all_are = allowed is snapshot.alive
            having = snapshot.having[numbers[0]] if all_are else allowed & known
            scarce.append(_Scarce(numbers, having, there, unevenness))
    if sum(each.cost for each in scarce) > min(RANDOM_ACCESS * attention.keys, snapshot.rows):
        (found,) = attend_keys(
            snapshot, query[np.newaxis], temperature=attention.temperature, allowed=allowed, k=0
        )
        return blend_attention(snapshot, query, found, allowed=allowed, tolerance=tolerance)
    blends: dict[str, Blend | None] = {}
    for numbers, some in plenty:
        blends |= blend_all(snapshot, weights[some], rows[some], numbers=numbers)
    for each in scarce:
        (found,) = attend_keys(
            snapshot,
            query[np.newaxis],
            temperature=attention.temperature,
            allowed=each.having,
            k=0,
            tolerance=ALONE * tolerance,
            seen=sample.outlook if each.unevenness < SEEN * limit else None,
        )
        share = float(weights[each.there].sum())
        alone = blend_all(snapshot, found.weights, found.rows, numbers=each.numbers)
        for name, blend in alone.items():
            blends[name] = None if blend is None else replace(blend, known=share)
    return {column.name: blends[column.name] for column in snapshot.columns if not column.attribute}


def _faint_blends(
    snapshot: Snapshot, attention: Attention, blends: Mapping[str, Blend | None]
) -> dict[str, Blend | None]:
    """Blend anew the columns in which next to no weight has a value, by the weights among those."""
    anew: dict[str, Blend | None] = {}
    for number, column in enumerate(snapshot.columns):
        known = snapshot.known[number]
        if known is None or column.attribute:
            continue
        blend = blends[column.name]
        share = 0.0 if blend is None else blend.known
        if share >= FAINT:
            continue
        there = known if attention.rows is None else known[attention.rows]
        if attention.allowed is not None:
            there = there & attention.allowed
        share = float(attention.weight_of(attention.scores[there]).sum())  # float32 may lose it
        weights = attention_weights(
            attention.scores, temperature=attention.temperature, allowed=there
        )
        found = blend_all(snapshot, weights, attention.rows, numbers=[number])[column.name]
        anew[column.name] = found and replace(found, known=share)
    return anew


def blend_all(
    snapshot: Snapshot,
    weights: Weights,
    rows: Numbers | None = None,
    *,
    numbers: Sequence[int] | None = None,
) -> dict[str, Blend | None]:
    """Blend every column of values, or those of some numbers, under weights of rows, or of all."""
    columns = range(len(snapshot.columns)) if numbers is None else numbers
    wanted = [number for number in columns if not snapshot.columns[number].attribute]
    if rows is None:
        arrays = [snapshot.arrays[number] for number in wanted]
    else:
        arrays = snapshot.values_at(rows, wanted)
    orders = snapshot.orders if rows is None else {}
    weights = weights.astype(np.float64, copy=False)  # once for all columns
    blends = {}
    for number, array in zip(wanted, arrays, strict=True):
        column, table = snapshot.columns[number], snapshot.labels[number]
        order = orders.get(column.name)
        blends[column.name] = blend_column(column, array, weights, table, order=order)
    return blends


def blend_given(snapshot: Snapshot, given: Mapping[Place, float]) -> dict[str, Blend | None]:
    """Blend every column of values under the weights of some entries; no other is looked at."""
    rows = np.array([snapshot.row(place) for place in given], np.int64)
    return blend_all(snapshot, np.array(list(given.values()), float), rows)

"""Attention of queries over a snapshot's keys: the one place where keys are searched.

Today every allowed key is scored, block by block, and the blocks' states are merged by
the formula's one merge. Approximate search for large datasets (a head found by an index,
a tail estimated) belongs here: it yields the same ``Attention``, with a coverage below
one and an error above zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from index.attention import State, attend, attention_weights, merge, stack
from index.snapshot import Snapshot

Rows = NDArray[np.float32]
AT_ONCE = 2**25  # scores held at a time (128 MB)
CACHED = 2**17  # scores attended to at a time (512 KB): they stay in the cache from exp to sums


@dataclass(frozen=True)
class Attention:
    """What some queries pay attention to, in a snapshot of n rows."""

    scores: Rows  # (q, n) cosines
    temperatures: NDArray[np.float64]  # (q,) τ, in units of cosine
    allowed: NDArray[np.bool_]  # (n,)
    state: State  # of all q queries
    coverage: float = 1.0  # share of the mass computed key by key
    error: float = 0.0  # total variation from exact attention

    def known(self, query: int) -> Rows:
        """Give the (m,) scores of one query with its allowed keys."""
        row: Rows = self.scores[query]
        return row if self.allowed.all() else np.asarray(row[self.allowed])

    def weights(self, query: int) -> NDArray[np.float32]:
        """Give the (n,) weights of one query: they sum to one over the allowed keys."""
        return np.asarray(
            attention_weights(
                self.scores[query],
                temperature=self.temperatures[query],
                allowed=None if self.allowed.all() else self.allowed,
            )
        )


def attend_keys(
    snapshot: Snapshot,
    queries: Rows,
    *,
    temperature: Callable[[Rows], float],
    allowed: NDArray[np.bool_],
    k: int,
) -> Attention:
    """Attend from (q, d) unit queries to the allowed rows of a snapshot.

    ``temperature`` gives τ for one query from the (m,) scores of its allowed keys.
    """
    scores = snapshot.scores(queries)
    everything = bool(allowed.all())
    known = scores if everything else scores[:, allowed]
    temperatures = np.array([temperature(row) for row in known])
    some = max(1, CACHED // max(snapshot.rows, 1))
    parts = [slice(start, start + some) for start in range(0, max(len(queries), 1), some)]
    states = []
    for start in range(0, max(snapshot.rows, 1), CACHED):
        keys = slice(start, start + CACHED)
        states.append(
            stack(
                [
                    attend(
                        scores[part, keys],
                        temperature=temperatures[part],
                        allowed=None if everything else allowed[keys],
                        k=k,
                        first_row=start,
                    )
                    for part in parts
                ]
            )
        )
    return Attention(scores, temperatures, allowed, reduce(merge, states))

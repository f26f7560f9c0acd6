"""Vectors and what FAISS makes of them: the only place that imports FAISS.

A block's rows never change once made. A writer makes new blocks, so a view that a reader is
scanning can neither move nor be freed under it. Every score of a block is one NumPy product,
which is faster than FAISS's own flat search and gives all of them (``bench/RESULTS.md``);
FAISS has the codes through which a large block is looked at first, and the k-means of its
cells (``index.sketch``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from index.platform import one_openmp

Rows = NDArray[np.float32]
FETCHED = 512  # scattered rows scored at a time
LONGEST_PART = 4  # components behind each code of 4 bits
LEAST_PARTS = 96  # codes of a row, where its components are enough
FITTING_ROUNDS = 12  # of the k-means behind the codes


def _faiss() -> Any:
    one_openmp()
    import faiss

    return faiss


def one_thread() -> None:
    """Keep FAISS, where the calling thread uses it, to that thread.

    Its threads wait for each other by spinning. On 2 cores that others kept busy (a load of 9),
    fitting the codes to 20,000 rows took 112 s on two threads and 3 s on one.
    """
    _faiss().omp_set_num_threads(1)


class VectorBlock:
    """An immutable run of unit rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows: Rows = np.ascontiguousarray(rows, dtype=np.float32).view()
        self.rows.flags.writeable = False

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, queries: Rows, out: Rows) -> None:
        """Write the (q, n) cosines of unit ``queries`` and this block's keys to ``out``."""
        if len(queries) == 1:
            np.matmul(self.rows, queries[0], out=out[0])  # one pass over memory, no transpose
        else:
            np.matmul(queries, self.rows.T, out=out)


def scattered_scores(rows: Rows, picked: NDArray[np.int64], queries: Rows) -> Rows:
    """Give the (q, m) cosines of unit queries and some rows, in the order they are picked in.

    They are fetched in order of memory, a cacheful at a time, with no thread to wait for.
    """
    order = np.argsort(picked)
    scores = np.empty((len(queries), len(picked)), np.float32)
    for start in range(0, len(picked), FETCHED):
        part = order[start : start + FETCHED]
        scores[:, part] = np.vecdot(rows.take(picked[part], axis=0), queries[:, np.newaxis])
    return scores


class Codes:
    """Rows in 4 bits for every few components, by which all can be looked at in no time."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def fitted(cls, rows: Rows) -> Self:
        """Fit the code books to (n, d) rows; none of them is added yet."""
        faiss = _faiss()
        d = rows.shape[1]
        part = min(LONGEST_PART, max(1, d // LEAST_PARTS))
        parts = -(-d // part)
        padded = parts * part
        index = faiss.IndexPQFastScan(padded, parts, 4, faiss.METRIC_INNER_PRODUCT)
        index.pq.cp.niter = FITTING_ROUNDS
        index.pq.cp.min_points_per_centroid = 1  # it would write a warning
        index.train(_padded(rows, padded))
        return cls(index)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, rows: Rows) -> None:
        """Append rows."""
        self._index.add(_padded(rows, self._index.d))

    def best(self, queries: Rows, count: int) -> tuple[Rows, NDArray[np.int64]]:
        """Give the (q, count) best scores as the codes tell them, best first, and their rows."""
        scores, rows = self._index.search(_padded(queries, self._index.d), min(count, len(self)))
        return scores, rows

    def save(self, path: Path) -> None:
        _faiss().write_index(self._index, str(path))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read codes that ``save`` wrote: never a file from elsewhere."""
        return cls(_faiss().read_index(str(path)))


def _padded(rows: Rows, width: int) -> Rows:
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    lack = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, lack))) if lack else rows


def spherical_means(
    rows: Rows, count: int, *, rounds: int, seed: int, look: Callable[[], None]
) -> Rows:
    """Find ``count`` directions near which unit rows gather (k-means on the sphere).

    ``look`` is called before each round, and may raise.
    """
    faiss = _faiss()
    means = None
    for _ in range(rounds):
        look()
        kmeans = faiss.Kmeans(
            rows.shape[1], count, niter=1, spherical=True, seed=seed,
            min_points_per_centroid=1, max_points_per_centroid=len(rows),
        )  # fmt: skip
        kmeans.train(rows, init_centroids=means)
        means = kmeans.centroids
    return np.asarray(means)


def nearest(rows: Rows, means: Rows) -> NDArray[np.int64]:
    """Give the number of the mean with the greatest product, for each row."""
    index = _faiss().IndexFlatIP(means.shape[1])
    index.add(means)
    return np.asarray(index.search(np.ascontiguousarray(rows), 1)[1][:, 0])

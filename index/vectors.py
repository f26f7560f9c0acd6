"""Vectors and what FAISS makes of them: the only place that imports FAISS.

A block's rows never change once made. A writer makes new blocks, so a view that a reader is
scanning can neither move nor be freed under it. All scores of a block are a product of matrices,
which is faster than FAISS's own flat search and gives all of them (``bench/RESULTS.md``);
FAISS has the codes through which a large block is looked at first, and the k-means of its
cells (``index.sketch``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from index.cores import cores, side_by_side
from index.platform import one_openmp
from index.products import products

Rows = NDArray[np.float32]
Held = NDArray[Any]  # float32, or int16 in steps of 1 / STEPS
FETCHED = 512  # scattered rows scored at a time: they stay in the cache
SIDES = 2  # of the cells that are looked through side by side: memory is no faster with more
STEPS = 32_767  # of a component held in 16 bits, between 0 and 1
UNCACHED = 65_536  # rows: more than a cache holds
SLOW = 3.0  # times longer is too slow
LEAST_LOOKS, MOST_LOOKS = 5, 25  # with a load of 16 on 2 cores, 5 alone misled 3 times in 25
WIDENED = 512  # rows made float32 at a time: they stay in the cache
HANDED_OVER = 16 * WIDENED  # of them that a core scans in one go
MULTIPLIED = 4096  # rows that a core multiplies in one go; NumPy is as fast with no more
TOGETHER = 64  # questions of one product: what it makes stays in the cache
LONGEST_PART = 4  # components behind each code of 4 bits
LEAST_PARTS = 96  # codes of a row, where its components are enough
FITTING_ROUNDS = 12  # of the k-means behind the codes
MOVES = 2  # of rows, before they are coded: more change little


def _faiss() -> Any:
    one_openmp()
    import faiss

    return faiss


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep FAISS, where the calling thread uses it, to that thread.

    Its threads wait for each other by spinning. On 2 cores that others kept busy (a load of 9),
    fitting the codes to 20,000 rows took 112 s on two threads and 3 s on one.
    """
    faiss = _faiss()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


class VectorBlock:
    """An immutable run of unit rows, as float32 or in 16 bits a component (``halved``).

    ``rounded`` are float32 rows that were held in 16 bits before.
    """

    def __init__(self, rows: Held, *, rounded: bool = False) -> None:
        held = rows if rows.dtype == np.int16 else np.asarray(rows, np.float32)
        self.held: Held = np.ascontiguousarray(held).view()
        self.held.flags.writeable = False
        self.rounded = rounded or self.half

    def __len__(self) -> int:
        return len(self.held)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.held.shape

    @property
    def half(self) -> bool:
        return self.held.dtype == np.int16

    @property
    def rounding(self) -> float:
        """Standard error of a score, from the steps that components are held in."""
        return 1 / STEPS / 12**0.5 if self.rounded else 0.0

    def __getitem__(self, picked: int | slice | NDArray[np.int64]) -> Rows:
        """Give a row or some rows as float32; not copies, where they need not be."""
        rows = self.held[picked]
        return np.divide(rows, np.float32(STEPS), dtype=np.float32) if self.half else rows

    def scores(self, queries: Rows, out: Rows) -> None:
        """Write the (q, n) cosines of unit ``queries`` and this block's keys to ``out``."""
        asked = queries / np.float32(STEPS) if self.half else queries
        if len(asked) > 1:
            self._products(asked, out)
        elif self.half:
            self._widened_scores(asked[0], out[0])
        else:
            np.matmul(self.held, asked[0], out=out[0])  # one pass over memory, no transpose

    def _products(self, asked: Rows, out: Rows) -> None:
        """Score some keys at a time: what is made of them is to stay in the cache."""
        if len(self) <= MULTIPLIED:
            np.matmul(asked, self.held.astype(np.float32, copy=False).T, out=out)
            return
        firsts = range(0, len(asked), TOGETHER)
        queries = [np.ascontiguousarray(asked[first : first + TOGETHER].T) for first in firsts]

        def multiply(first: int) -> None:
            part = slice(first, first + MULTIPLIED)
            keys = self.held[part].astype(np.float32, copy=False)
            for start, some in zip(firsts, queries, strict=True):
                out[start : start + TOGETHER, part] = products(keys, some).T

        side_by_side(multiply, range(0, len(self), MULTIPLIED))

    def _widened_scores(self, asked: Rows, out: Rows) -> None:
        def scan(first: int) -> None:
            # Row by row: a product this small would wait for its threads longer than it takes.
            for start in range(first, min(first + HANDED_OVER, len(self)), WIDENED):
                part = slice(start, start + WIDENED)
                np.vecdot(self.held[part].astype(np.float32), asked, out=out[part])

        side_by_side(scan, range(0, len(self), HANDED_OVER))

    def scores_at(self, picked: NDArray[np.int64], queries: Rows) -> Rows:
        """Give the (q, m) cosines of unit queries and some rows, in the order they are picked."""
        scores = np.empty((len(queries), len(picked)), np.float32)
        picked = np.ascontiguousarray(picked, dtype=np.int64)
        asked = queries / np.float32(STEPS) if self.half else queries
        asked = np.ascontiguousarray(asked, dtype=np.float32)
        in_place = len(asked) == 1 and len(self) >= UNCACHED and not self.half
        by_one = max(FETCHED, -(-len(picked) // cores()))  # rows that a core scores in one go

        def score(first: int) -> None:
            last = min(first + by_one, len(picked))
            if in_place:
                self._score_in_place(picked[first:last], asked[0], scores[0, first:last])
                return
            for start in range(first, last, FETCHED):
                part = slice(start, min(start + FETCHED, last))
                rows = self.held.take(picked[part], axis=0).astype(np.float32, copy=False)
                scores[:, part] = np.vecdot(rows, asked[:, np.newaxis])

        side_by_side(score, range(0, len(picked), by_one))
        return scores

    def _score_in_place(self, picked: NDArray[np.int64], query: Rows, out: Rows) -> None:
        """Score float32 rows where they lie: NumPy copies them first, and takes half as long again.

        FAISS does one query after the other; with several, copies in the cache are faster.
        """
        faiss = _faiss()
        arrays = map(faiss.swig_ptr, (out, query, self.held, picked))
        with one_thread():
            faiss.fvec_inner_products_by_idx(*arrays, len(query), 1, len(picked))


def held_type(half: bool) -> type[np.float32] | type[np.int16]:
    """Give the type that components are held in."""
    return np.int16 if half else np.float32


@cache
def half_is_fast() -> bool:
    """Measure, once, whether this processor scans rows in 16 bits about as fast as in 32.

    While it seems slow it is looked at again: other programs may have taken the processor.
    """
    rows = np.full((UNCACHED, 384), 0.05, np.float32)
    out = np.empty((1, UNCACHED), np.float32)
    blocks = VectorBlock(rows), VectorBlock(halved(rows))
    took = [math.inf, math.inf]
    for look in range(1, MOST_LOOKS + 1):
        for number, block in enumerate(blocks):
            start = time.perf_counter()
            block.scores(rows[:1], out)
            took[number] = min(took[number], time.perf_counter() - start)
        if look >= LEAST_LOOKS and took[1] < SLOW * took[0]:
            return True
    return False


def halved(rows: Rows) -> NDArray[np.int16]:
    """Round the components of unit rows to 16 bits, in even steps from -1 to 1.

    For components as small as theirs that is as near as float16, which NumPy widens far more
    slowly.
    """
    steps: NDArray[np.int16] = np.rint(rows * np.float32(STEPS)).astype(np.int16)
    return steps


class Codes:
    """Rows in 4 bits for every few components, by which many can be looked at in no time.

    They stand in a FAISS index with a list for each cell of like rows, so that the cells far from
    a query are passed over. Codes are of rows less their cell's mean, and ``moved``.
    """

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def fitted(cls, rows: Rows, middles: Rows, cells: int) -> Self:
        """Fit the code books to (n, d) rows of cells with these (n, d) means; make empty cells."""
        faiss = _faiss()
        d = rows.shape[1]
        part = min(LONGEST_PART, max(1, d // LEAST_PARTS))
        parts = -(-d // part)
        padded = parts * part
        means = faiss.IndexFlatIP(padded)
        index = faiss.IndexIVFPQFastScan(means, padded, cells, parts, 4, faiss.METRIC_INNER_PRODUCT)
        means.this.disown()
        index.own_fields = True
        index.by_residual = True
        index.is_trained = True
        codes = cls(index)
        codes._fit(rows - middles)
        codes._fit(codes.moved(rows, middles)[0])  # which are longer than those
        return codes

    def _fit(self, coded: Rows) -> None:
        faiss, index = _faiss(), self._index
        flat = faiss.IndexPQFastScan(index.d, index.M, 4, index.metric_type)
        flat.pq.cp.niter = FITTING_ROUNDS
        flat.pq.cp.min_points_per_centroid = 1  # it would write a warning
        flat.train(_padded(coded, index.d))
        index.pq = flat.pq

    def moved(self, rows: Rows, middles: Rows) -> tuple[Rows, Rows]:
        """Move (n, d) rows until each scores with what its code reads what it does with itself.

        A code reads less of a row than there is, so a row is moved along itself (Guo et al. 2020,
        arXiv:1908.10396). Give the (n, d) rows to be coded, less their cells' (n, d) means, and
        the (n,) distances from rows to what their codes read.
        """
        squares, residuals = np.vecdot(rows, rows), rows - middles
        coded = residuals.copy()
        for _ in range(MOVES):
            lack = squares - np.vecdot(rows, middles + self._read(coded))
            coded += lack[:, np.newaxis] * rows
        return coded, np.linalg.norm(residuals - self._read(coded), axis=1)

    def _read(self, coded: Rows) -> Rows:
        """Give what is left of (n, d) rows in codes."""
        index = self._index
        read = index.pq.decode(index.pq.compute_codes(_padded(coded, index.d)))
        return np.asarray(read[:, : coded.shape[1]])

    def add(self, cell: int, numbers: NDArray[np.int64], coded: Rows) -> None:
        """Give an empty cell its ``moved`` rows, and their numbers."""
        if not len(coded):  # FAISS would read what is not there
            return
        faiss, index = _faiss(), self._index
        packed = faiss.IndexPQFastScan(index.d, index.M, 4, index.metric_type)
        packed.pq = index.pq
        packed.is_trained = True
        packed.add(_padded(coded, index.d))
        lists = faiss.downcast_InvertedLists(index.invlists)
        lists.add_entries(cell, len(coded), faiss.swig_ptr(numbers), packed.codes.get())
        index.ntotal += len(coded)

    def know(self, means: Rows) -> None:
        """Learn the (c, d) means of the cells, which codes are to be looked at by."""
        index = self._index
        index.quantizer.reset()
        index.quantizer.add(_padded(means, index.d))

    def above(
        self,
        query: Rows,
        bar: float,
        cells: NDArray[np.int64],
        middles: Rows,
        allowed: NDArray[np.uint8] | None = None,
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Give all scores above a bar that the codes of some cells tell, and their rows.

        The nearest of the cells come first; ``middles`` are the scores of all cells' means. The
        rows are ``allowed``, a bit a row, where not all are, and in no order: to sort them FAISS
        takes as long as to look at the codes.
        """
        faiss, index = _faiss(), self._index
        query = _padded(query[np.newaxis], index.d)
        selector = None if allowed is None else faiss.IDSelectorBitmap(allowed)
        table = np.empty((index.M, index.ksub), np.float32)  # what each part can say of a residual
        index.pq.compute_inner_prod_table(*map(faiss.swig_ptr, (query, table)))
        least, most = float(table.min(axis=1).sum()), float(table.max(axis=1).sum())

        def look(side: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
            chosen = np.zeros(index.nlist, bool)
            chosen[side] = True
            bits = faiss.IDSelectorBitmap(np.packbits(chosen, bitorder="little"))
            these = faiss.SearchParameters(sel=bits)
            given = faiss.SearchParametersIVF(
                nprobe=len(side), sel=selector, quantizer_params=these
            )
            of_side = middles[side]
            # Beyond what codes can say FAISS's numbers run over.
            within = min(max(bar, float(of_side.min()) + least), float(of_side.max()) + most)
            _, scores, rows = index.range_search(query, within, params=given)
            return scores, rows

        turn = np.arange(len(cells))
        turn = (turn + turn // SIDES) % SIDES  # the nearest cells hold most of what is found
        sides = [cells[turn == side] for side in range(SIDES)]
        scores, rows = zip(*side_by_side(look, [side for side in sides if len(side)]), strict=True)
        return np.concatenate(scores), np.concatenate(rows)

    def save(self, path: Path) -> None:
        with path.open("wb") as stream:
            np.save(stream, _faiss().serialize_index(self._index), allow_pickle=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read codes that ``save`` wrote: never a file from elsewhere."""
        return cls(_faiss().deserialize_index(np.load(path, allow_pickle=False)))


def _padded(rows: Rows, width: int) -> Rows:
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    lack = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, lack))) if lack else rows


def k_means(rows: Rows, count: int, *, rounds: int, look: Callable[[], None]) -> Rows:
    """Find ``count`` points near which rows gather.

    ``look`` is called before each round, and may raise.
    """
    faiss = _faiss()
    means = None
    for _ in range(rounds):
        look()
        kmeans = faiss.Kmeans(
            rows.shape[1], count, niter=1, seed=0,
            min_points_per_centroid=1, max_points_per_centroid=len(rows),
        )  # fmt: skip
        kmeans.train(rows, init_centroids=means)
        means = kmeans.centroids
    return np.asarray(means)


def nearest(rows: Rows, means: Rows) -> NDArray[np.int64]:
    """Give the number of the nearest mean, for each row."""
    index = _faiss().IndexFlatL2(means.shape[1])
    index.add(means)
    return np.asarray(index.search(np.ascontiguousarray(rows), 1)[1][:, 0])

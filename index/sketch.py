"""A sketch of many keys: enough to say which of them matter, and how much the others may.

Two views of the same rows, small beside them:

- **Codes** of 4 bits for every 4 components of a row less its cell's mean (a product quantiser,
  Jégou et al. 2011, scanned in registers: André et al. 2015, "Cache locality is not enough"), by
  which the keys of a good part of the cells are looked at. What is coded is chosen so that a
  query like the row scores with its code what it does with the row. A few rows are unlike any
  others, and their codes tell next to nothing: these **strangers** have none and stand by in full.
- **Cells** of like keys (k-means), each with its mean and how far its members stray. They say
  where the nearest keys can be, and the mass of those beyond, which is where to sample.

Rows stand in order of their cells and at random inside each one, so rows of a cell that are
picked by their places are a simple random sample of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from index.vectors import Codes, Rows, k_means, nearest

SKETCHED_FROM = 100_000  # rows: with fewer, looking at each is as fast
SAMPLE_PER_CELL = 64  # rows that k-means sees for each mean
ROUNDS = 8  # of k-means
CODED_SAMPLE = 65_536  # rows that the codes are fitted to
CHUNK = 65_536  # rows between two looks at whether to go on

STRANGE = 2.0  # times the distance from most rows to what their codes read: it is not believed
BELIEVED = 0.1  # distances that are no stranger's: of unit rows
MOST_STRANGERS = 4096  # about so many, as a sample tells
# Arrays of a sketch, beside its codes.
PARTS = ("starts", "means", "strays", "scatter", "strange", "strangers")


class ManyRows(Protocol):
    """Rows that need not all be in memory at once: an array is one, too."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, places: slice | NDArray[np.int64], /) -> Rows: ...


class Cancelled(Exception):
    """The work was asked to stop; nothing came of it."""


@dataclass(frozen=True, eq=False)
class Sketch:
    """What is known of n rows in c cells without reading them."""

    codes: Codes
    starts: NDArray[np.int64]  # (c + 1,) first row of each cell, and n
    means: Rows  # (c, d) mean of each cell's rows
    strays: NDArray[np.float32]  # (c,) mean squared distance from it, over that of all cells
    scatter: Rows  # (d, d) mean of r rᵀ over residuals r, of all cells together
    strange: NDArray[np.int64]  # (s,) numbers of the rows without codes, in order
    strangers: Rows  # (s, d) these rows

    def __post_init__(self) -> None:
        self.codes.know(self.means)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def tally(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count how many of some rows are of each cell."""
        return np.bincount(self._cells[rows], minlength=len(self.strays))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each cell has."""
        return np.diff(self.starts)

    @cached_property
    def deviation(self) -> float:
        """How far a row's score strays from its cell's mean's: of all rows, in any direction."""
        return math.sqrt(float(np.trace(self.scatter)) / len(self.scatter))

    @cached_property
    def _cells(self) -> NDArray[np.unsignedinteger]:
        """The cell of each row, mostly in 16 bits: there are √n cells."""
        cells = len(self.sizes)
        return np.repeat(np.arange(cells, dtype=np.min_scalar_type(cells)), self.sizes)


@dataclass(frozen=True, eq=False)
class Left:
    """The rows of a sketch that a mask leaves."""

    mask: NDArray[np.bool_]  # (n,)
    rows: NDArray[np.int64]  # their numbers, in order
    bounds: NDArray[np.int64]  # (c + 1,) where among them those of each cell begin

    @classmethod
    def of(cls, sketch: Sketch, mask: NDArray[np.bool_]) -> Left:
        rows = np.flatnonzero(mask)
        return cls(mask, rows, np.searchsorted(rows, sketch.starts))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many of them are of each cell."""
        return np.diff(self.bounds)

    @cached_property
    def bits(self) -> NDArray[np.uint8]:
        """The mask, a bit for each row."""
        return np.packbits(self.mask, bitorder="little")


def build_sketch(
    rows: ManyRows, *, go_on: Callable[[], bool] = lambda: True
) -> tuple[NDArray[np.int64], Sketch]:
    """Sketch (n, d) unit rows, at least as many as a code has values: 16.

    Give the (n,) order in which the rows must stand, and the sketch, which is of ``rows[order]``.
    Raise Cancelled as soon as ``go_on`` says no; it is asked every second or so.
    """

    def look() -> None:
        if not go_on():
            raise Cancelled

    n = len(rows)
    rng = np.random.default_rng(0)
    count = max(1, round(n**0.5))
    chosen = np.sort(rng.choice(n, min(n, SAMPLE_PER_CELL * count), replace=False))
    means = k_means(rows[chosen], count, rounds=ROUNDS, look=look)
    cell = np.empty(n, np.int64)
    for start in range(0, n, CHUNK):
        look()
        cell[start : start + CHUNK] = nearest(rows[start : start + CHUNK], means)
    order = np.lexsort((rng.random(n), cell))
    starts = np.searchsorted(cell[order], np.arange(count + 1))
    kept = np.flatnonzero(np.diff(starts))  # k-means may leave a cell empty
    starts = starts[np.append(kept, count)]
    sample = rows[np.sort(rng.choice(n, min(n, CODED_SAMPLE), replace=False))]
    middles = means[nearest(sample, means)]
    codes = Codes.fitted(sample, middles, len(kept))
    farthest = _farthest(codes.moved(sample, middles)[1], n)
    return order, _sketched(rows, order, starts, codes, farthest, look)


def _farthest(distances: Rows, n: int) -> float:
    """Say how far what is read may be from a row, by a sample of n, or the row is a stranger."""
    so_many = float(np.quantile(distances, max(1 - MOST_STRANGERS / n, 0)))
    return max(STRANGE * float(np.median(distances)), BELIEVED, so_many)


def _sketched(
    rows: ManyRows,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    codes: Codes,
    farthest: float,
    look: Callable[[], None],
) -> Sketch:
    """Read the rows once, cell by cell: codes, each cell's mean and stray, the scatter of all."""
    count, d = len(starts) - 1, rows.shape[1]
    means = np.empty((count, d), np.float32)
    squares = np.empty(count)
    scatter = np.zeros((d, d))
    strange, strangers = [np.empty(0, np.int64)], [np.empty((0, d), np.float32)]
    for cell in range(count):
        look()
        members = rows[order[starts[cell] : starts[cell + 1]]]
        means[cell] = members.mean(axis=0, dtype=np.float64)
        residuals = members - means[cell]
        squares[cell] = np.einsum("ij,ij->", residuals, residuals) / len(members)
        scatter += residuals.T @ residuals
        moved, distances = codes.moved(members, means[cell])
        numbers, far = np.arange(*starts[cell : cell + 2]), distances > farthest
        codes.add(cell, numbers[~far], moved[~far])
        strange.append(numbers[far])
        strangers.append(members[far])
    pooled = max(float(np.trace(scatter)) / len(rows), 1e-12)
    return Sketch(
        codes=codes,
        starts=starts,
        means=means,
        strays=(squares / pooled).astype(np.float32),
        scatter=np.asarray(scatter / len(rows), np.float32),
        strange=np.concatenate(strange),
        strangers=np.concatenate(strangers),
    )

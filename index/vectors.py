"""The FAISS index: the only place that imports FAISS.

FAISS owns the memory of the keys' vectors and NumPy reads it in place, without a copy:
a plain matrix product over that view is faster than FAISS's own flat search (figures:
``bench/RESULTS.md``), and it gives every score, which is what attention needs.

A block never changes once made. A writer makes new blocks, so a view that a reader is
scanning can neither move nor be freed under it. Approximate search for large datasets
will stand here too, behind the same two calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.platform import one_openmp

Rows = NDArray[np.float32]


class VectorBlock:
    """An immutable run of unit rows."""

    def __init__(self, rows: Rows) -> None:
        one_openmp()
        import faiss

        count, dimension = rows.shape
        # Kept as long as the view: the view points into the index's memory.
        self._index: Any = faiss.IndexFlatIP(dimension)
        self._index.add(np.ascontiguousarray(rows, dtype=np.float32))
        if count:
            view = faiss.rev_swig_ptr(self._index.get_xb(), count * dimension)
            self.rows: Rows = view.reshape(count, dimension)
        else:
            self.rows = np.empty((0, dimension), np.float32)
        self.rows.flags.writeable = False

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, queries: Rows, out: Rows) -> None:
        """Write the (q, n) cosines of unit ``queries`` and this block's keys to ``out``."""
        if len(queries) == 1:
            np.matmul(self.rows, queries[0], out=out[0])  # one pass over memory, no transpose
        else:
            np.matmul(queries, self.rows.T, out=out)

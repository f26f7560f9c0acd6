"""Scores of many keys for several questions at once, by ONNX Runtime's product of matrices.

It multiplies keys where they lie. NumPy's product (OpenBLAS) first copies all of them into an order
of its own, which takes longer than to multiply them with a few questions (``bench/RESULTS.md``).
"""

from __future__ import annotations

import platform
import sys
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.platform import no_telemetry

Rows = NDArray[np.float32]

# scores (n, q) = keys (n, d) @ queries (d, q), as onnx.helper writes it: a test makes it anew
GRAPH = bytes.fromhex(
    "08083a7e0a1f0a046b6579730a0771756572696573120673636f72657322064d61744d756c120870726f6475637473"
    "5a180a046b65797312100a0e0801120a0a0312016e0a031201645a1b0a077175657269657312100a0e0801120a0a03"
    "1201640a03120171621a0a0673636f72657312100a0e0801120a0a0312016e0a0312017142040a00100d"
)


def products(keys: Rows, queries: Rows) -> Rows:
    """Give the (n, q) products of (n, d) keys and (d, q) queries, on the thread that asks."""
    if _has_a_matrix_unit():
        return keys @ queries
    scores: Rows = _session().run(None, {"keys": keys, "queries": queries})[0]
    return scores


def _has_a_matrix_unit() -> bool:
    """Tell a Mac whose NumPy multiplies on a unit that ONNX Runtime does not use."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


@cache
def _session() -> Any:
    no_telemetry()
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # whoever has many keys asks from several threads
    return onnxruntime.InferenceSession(GRAPH, options, providers=["CPUExecutionProvider"])

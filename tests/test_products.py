"""Products of keys and several questions, by ONNX Runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper

from index import products
from index.vectors import MULTIPLIED, VectorBlock


def rows(count: int, seed: int, width: int = 33) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


def test_the_graph_is_what_onnx_makes_of_one_product() -> None:
    shapes = {"keys": ["n", "d"], "queries": ["d", "q"], "scores": ["n", "q"]}
    keys, queries, scores = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    node = helper.make_node("MatMul", ["keys", "queries"], ["scores"])
    graph = helper.make_graph([node], "products", [keys, queries], [scores])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    assert made.SerializeToString() == products.GRAPH


@pytest.mark.parametrize("count", [0, 1, 7, 4096])
@pytest.mark.parametrize("queries", [1, 2, 64])
def test_products_are_those_of_float64(count: int, queries: int) -> None:
    keys, asked = rows(count, 0), np.ascontiguousarray(rows(queries, 1).T)
    keys.flags.writeable = False

    made = products.products(keys, asked)

    assert (made.dtype, made.shape) == (np.float32, (count, queries))
    np.testing.assert_allclose(made, keys.astype(float) @ asked.astype(float), atol=2e-5)


def test_many_threads_at_once_have_their_own_products() -> None:
    block = VectorBlock(rows(3 * MULTIPLIED + 5, 0))
    asked = [rows(3, seed) for seed in range(1, 33)]

    def scored(queries: np.ndarray) -> np.ndarray:
        scores = np.empty((len(queries), len(block)), np.float32)
        block.scores(queries, scores)
        return scores

    with ThreadPoolExecutor(8) as threads:
        for queries, scores in zip(asked, threads.map(scored, asked), strict=True):
            true = queries.astype(float) @ block[:].astype(float).T
            np.testing.assert_allclose(scores, true, atol=2e-5)


def test_on_a_mac_numpy_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr(products, "_session", lambda: pytest.fail("ONNX Runtime was asked"))
    keys, asked = rows(5, 0), np.ascontiguousarray(rows(2, 1).T)

    np.testing.assert_array_equal(products.products(keys, asked), keys @ asked)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_forked_process_multiplies_too() -> None:
    script = """if 1:
        import os
        import numpy as np
        from index.vectors import MULTIPLIED, VectorBlock

        block = VectorBlock(np.ones((4 * MULTIPLIED, 4), np.float32))
        asked, scores = np.ones((2, 4), np.float32), np.empty((2, len(block)), np.float32)
        block.scores(asked, scores)
        child = os.fork()
        if not child:
            scores[:] = 0
            block.scores(asked, scores)
            os._exit(int(not (scores == 4).all()))
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)

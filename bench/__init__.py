"""Benchmarks: figures against peers, never part of the tests."""

import index  # noqa: F401 (before NumPy, as in softdict itself)

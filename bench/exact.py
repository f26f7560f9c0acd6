"""The exact search beside FAISS flat and a plain NumPy product, on random unit vectors.

    python -m bench.exact [--sizes 10000 100000 1000000] [--rounds 15]

Three peers answer the same queries in turn, round after round: the plain product
``K @ q`` (the scores alone), FAISS flat's ten best, and softdict's whole attention
(scores, weights over every key, effective keys, ten best). A figure is the median over
rounds of a peer's time over the product's in the same round, with the 10th and 90th
percentiles; milliseconds are the medians on the machine named in the head.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable

import faiss
import numpy as np

from index.search import attend_keys
from index.snapshot import BLOCK, Snapshot
from index.vectors import VectorBlock

DIMENSION, TEMPERATURE, SHOWN = 384, 0.05, 10


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def snapshot_of(rows: np.ndarray) -> Snapshot:
    snapshot = Snapshot.empty([])
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        ids = range(start, start + len(part))
        block = snapshot.block(ids, [str(i) for i in ids], ids, VectorBlock(part), [()] * len(part))
        snapshot = snapshot.with_blocks([block])
    return snapshot


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(ratios: list[float]) -> str:
    low, middle, high = np.percentile(ratios, [10, 50, 90])
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def measure(count: int, queries: int, rounds: int) -> str:
    rows, asked = unit_rows(count, 0), unit_rows(queries, 1)
    snapshot, flat = snapshot_of(rows), faiss.IndexFlatIP(DIMENSION)
    flat.add(rows)
    allowed = snapshot.alive
    work: dict[str, Callable[[], object]] = {
        "product": (lambda: rows @ asked[0]) if queries == 1 else (lambda: asked @ rows.T),
        "softdict": lambda: attend_keys(
            snapshot, asked, temperature=TEMPERATURE, allowed=allowed, k=SHOWN
        ),
        "faiss": lambda: flat.search(asked, SHOWN),
    }
    for peer in work.values():
        peer()
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, peer in work.items():
            repeats = max(1, round(2e7 / (count * queries) / 20))
            times[name].append(min(seconds(peer) for _ in range(repeats)))
    against = {
        name: [t / base for t, base in zip(times[name], times["product"], strict=True)]
        for name in ("softdict", "faiss")
    }
    middle = {name: np.median(values) * 1e3 for name, values in times.items()}
    return (
        f"| {count:,} | {queries} | {middle['product']:.2f} ms | {middle['softdict']:.2f} ms "
        f"| {middle['faiss']:.2f} ms | {spread(against['softdict'])} | {spread(against['faiss'])} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {faiss.omp_get_max_threads()} threads")
    print("| keys | queries | product | softdict | FAISS flat | softdict/product | FAISS/product |")
    print("|---|---|---|---|---|---|---|")
    for count in given.sizes:
        for queries in (1, 64):
            print(measure(count, queries, given.rounds), flush=True)


if __name__ == "__main__":
    main()

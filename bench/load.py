"""A load beside the encoder alone: how much of a load is embedding, and what it takes in memory.

    python -m bench.load [TABLE] [--rows 6000] [--rounds 3]

In each round the first rows of TABLE (a CSV file with the keys in its first column; by default
the names of colours that ship, and pairs of them) are loaded into a new folder, and then the
encoder alone encodes their keys in one call, sorted as a whole. Times are those of the
processor, all threads together, for a busy machine changes the others: ``embedding`` is the
share of the load's time that the encoder took, and ``load/encoder`` compares the load with the
encoder alone in the same round (median over rounds, 10th and 90th percentiles). Rows a second
are by the clock. Memory is what the first load added to the process at its peak, beside the
estimate on which a load is refused.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench._common import machine, markdown, spread
from index import Catalog
from index.encoders import open_encoder
from index.memory import load_memory

ROOT = Path(__file__).resolve().parents[1]


def rows_of(table: Path | None) -> Iterator[list[str]]:
    """Give the header and the rows."""
    if table is not None:
        with table.open(encoding="utf-8", newline="") as stream:
            yield from csv.reader(stream)
        return
    with (ROOT / "data/colores.csv").open(encoding="utf-8", newline="") as stream:
        names = [row[0] for row in csv.reader(stream)][1:]
    yield ["key", "number", "label"]
    for number, (one, other) in enumerate(itertools.permutations(names, 2)):
        yield [f"{one}, {other}", str(number), one]


class Clock:
    """Processor and wall time since it was made, in seconds."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.process_time() - self._cpu, time.perf_counter() - self._wall


def timed_encoder() -> list[float]:
    """Open the built-in encoder so that every step of it adds its processor time to the list.

    Nothing else of a load runs meanwhile: it waits for its batch.
    """
    worker, spent = open_encoder("builtin"), [0.0]
    worker.encode(["warm up"])
    steps = worker._encoder.steps  # type: ignore[attr-defined]

    def timed(*args: object, **kwargs: object) -> Iterator[object]:
        going = steps(*args, **kwargs)
        while True:
            clock = Clock()
            step = next(going, None)
            spent[0] += clock.read()[0]
            if step is None:
                return
            yield step

    worker._encoder.steps = timed  # type: ignore[attr-defined]
    return spent


def peak() -> float:
    """Give the greatest resident memory so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = list(itertools.islice(rows_of(given.table), given.rows + 1))
    keys = [row[0] for row in rows[1:]]
    encoder, spent = open_encoder("builtin"), timed_encoder()
    shares, against, rates, alone = [], [], [], []
    with tempfile.TemporaryDirectory(prefix="softdict-bench-") as folder:
        table = Path(folder) / "table.csv"
        with table.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows(rows)
        del rows
        before = peak()
        for number in range(given.rounds):
            spent[0] = 0.0
            with Catalog.open(Path(folder) / str(number)) as catalog:
                clock = Clock()
                report = catalog.load("table", table)
                cpu, wall = clock.read()
            if number == 0:
                grown, entries = peak() - before, report.loaded
                each, beside = load_memory(
                    entries, encoder.dimension, report.columns, sum(map(len, keys))
                )
            shares.append(spent[0] / cpu)
            rates.append(entries / wall)
            clock = Clock()
            encoder._encoder.encode(keys)
            alone_cpu, alone_wall = clock.read()
            alone.append(len(keys) / alone_wall)
            against.append(cpu / alone_cpu)
            print(
                f"round {number + 1}: load {cpu:.1f} s of processor ({wall:.1f} by the clock), "
                f"encoder alone {alone_cpu:.1f} s ({alone_wall:.1f})",
                flush=True,
            )
    print(f"{machine()}, {entries:,} rows")
    figures = {
        "embedding": spread(shares, 3),
        "load/encoder": spread(against, 3),
        "rows/s": f"{np.median(rates):,.0f}",
        "encoder's texts/s": f"{np.median(alone):,.0f}",
        "memory MB": f"{grown:,.0f}",
        "estimated MB": f"{(entries * each + beside) / 1e6:,.0f}",
    }
    print(markdown(list(figures), [list(figures.values())]))


if __name__ == "__main__":
    main()

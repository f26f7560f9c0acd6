"""A large dataset through its life: written, sketched, started again and again, changed, closed.

    python -m bench.large [--keys 1000000] [--writes 10000] [--keep] [--out large.json]

Real keys (``bench.real_keys``) under the built-in encoder, their vectors made beforehand, with
five columns. Three steps, each beside the figure that is wanted of it:

1. The store: written in one transaction, then sketched.
2. The restart: the real service on that folder, from its start to the first answer of a new
   question; once more with the folder's files out of the page cache (Linux), and with the sketch
   thrown away. Its memory, less that of a service with a hundred keys, over the bytes of the
   vectors.
3. The storm: 10,000 single writes (half new keys, a quarter other values, a quarter deletions)
   while two threads search and the dataset is sketched anew; they search on until that is in.
   Every 500 writes the writer stops, and answers are compared with an oracle of plain NumPy in
   float64 that was told of the same writes. In the end all is closed in the middle of another.

Vectors of the storm's new keys are made before it (by the real encoder) and queries' are
remembered, so its figures are those of the dictionary. About 15 minutes for a million keys on
2 cores, 4 for 150,000; work/ needs 4 KB a key, twice that while it is written.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from bench._common import disk_bytes, machine, seconds, status_bytes
from bench._large import scores_of
from bench.real_keys import COLUMNS, RealKeys, first, real_keys
from bench.service import Client, started
from index import Catalog, SoftDict, encoders, open_encoder, rebuilding

NAME = "keys"
CHECKED_EVERY = 500  # writes
EXACT_CHECKS, SAMPLED_CHECKS, LISTED = 3, 125, 100  # queries of each at a check, matches compared
AT_ONCE = 64  # queries that the oracle attends from at a time
EXACT_EVERY = 40  # searches of a reader
QUIET = 15.0  # seconds of searches before the storm
MADE = 1_000_000  # keys that bench.real_keys makes once; fewer are the first of them
PATIENCE = 900  # seconds for a start without its sketch

Figures = dict[str, Any]


class Given:
    """The built-in encoder, by its identity, of texts whose vectors are there."""

    def __init__(self, real: Any) -> None:
        self.identity, self.dimension = real.identity, real.dimension
        self.default_temperature, self.calibration = real.default_temperature, real.calibration
        self._known: list[tuple[dict[str, int], np.ndarray]] = []

    def know(self, texts: Sequence[str], rows: np.ndarray) -> None:
        self._known.append(({text: row for row, text in enumerate(texts)}, rows))

    def forget(self) -> None:
        self._known.clear()

    def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
        for places, rows in self._known:
            if texts[0] in places:
                return np.asarray(rows[[places[text] for text in texts]], np.float32)
        raise KeyError(texts[0])

    def tokens(self, text: str) -> list[str]:
        return text.split()


@contextmanager
def given_vectors() -> Iterator[Given]:
    """Have datasets of the built-in encoder take vectors that are there already."""
    real = open_encoder("builtin")
    given = Given(real)
    encoders._open["builtin"] = encoders.EncoderWorker(given)
    try:
        yield given
    finally:
        encoders._open["builtin"] = real


def table_line(what: str, figure: str, wanted: str = "") -> None:
    print(f"| {what} | {figure} | {wanted} |", flush=True)


def table_head(title: str) -> None:
    print(f"\n{title}\n\n| what | figure | wanted |\n|---|---|---|", flush=True)


def cuts(took: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds."""
    if not len(took):
        return float("nan"), float("nan")
    p50, p99 = np.percentile(took, [50, 99]) * 1e3
    return float(p50), float(p99)


# 1. The store


def values_of(keys: RealKeys) -> Iterator[tuple[str, dict[str, Any]]]:
    columns = (keys.label.tolist(), keys.length.tolist(), keys.latitude.tolist(),
               keys.longitude.tolist(), keys.globe.tolist())  # fmt: skip
    for key, label, length, latitude, longitude, globe in zip(keys.keys, *columns, strict=True):
        place = latitude == latitude
        yield (
            key,
            {
                "label": label,
                "length": length,
                "latitude": latitude if place else None,
                "longitude": longitude if place else None,
                "globe": globe if place else None,
            },
        )


def write_store(home: Path, keys: RealKeys) -> Figures:
    with given_vectors() as given, Catalog.open(home) as catalog:
        given.know(keys.keys, keys.vectors)
        dataset = catalog.create(NAME, columns=COLUMNS)
        written, _ = seconds(lambda: dataset.update(values_of(keys)))
        sketched, _ = seconds(dataset.settle)
    generations = disk_bytes(home / "generations")
    figures = {
        "write_s": written,
        "sketch_s": sketched,
        "generation_bytes": generations,
        "database_bytes": disk_bytes(home) - generations,
    }
    count = len(keys.keys)
    vectors = keys.vectors.nbytes
    table_head(f"The store, {count:,} keys")
    table_line("written, vectors given", f"{written:.0f} s ({count / written:,.0f} keys/s)")
    table_line("sketched", f"{sketched:.0f} s")
    for what in ("database", "generation"):
        size = figures[f"{what}_bytes"]
        table_line(f"{what} on disk", f"{size / 1e9:.2f} GB ({size / vectors:.2f} of the vectors)")
    return figures


# 2. The restart


def search(question: str, **more: object) -> str:
    asked = "".join(f"&{name}={value}" for name, value in more.items())
    return f"GET /search?dataset={NAME}&q={quote(question)}{asked}"


@dataclass
class Start:
    """A start of the service."""

    first: float  # seconds to the first answer
    ready: int  # bytes of memory when it came
    searched: int = 0  # after 200 searches
    scanned: int = 0  # after an exact one
    greatest: int = 0  # that it ever was
    took: tuple[float, float] = (0.0, 0.0)  # p50 and p99 of the searches, milliseconds
    listing: float = 0.0  # seconds of GET /datasets
    exact: float = 0.0  # seconds of the exact search


def start_service(home: Path, queries: Sequence[str], searches: int = 200) -> Start:
    begun = time.perf_counter()
    with started(home) as (process, host, port):
        memory = partial(status_bytes, process=process.pid)
        client = Client(host, port, timeout=PATIENCE)
        client.ask(search(queries[0]))
        start = Start(time.perf_counter() - begun, memory("VmRSS"))
        start.listing = client.ask("GET /datasets")
        start.took = cuts([client.ask(search(query)) for query in queries[1 : 1 + searches]])
        start.searched = memory("VmRSS")
        start.exact = client.ask(search(queries[1], tolerance=0))
        start.scanned, start.greatest = memory("VmRSS"), memory("VmHWM")
        client.close()
    return start


def forget(folder: Path) -> None:
    """Have the system drop a folder's files from its page cache, as after a boot (Linux)."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def restart(home: Path, work: Path, keys: RealKeys) -> Figures:
    small = work / "small"
    with Catalog.open(small) as catalog:
        catalog.create(NAME).update({key: 1 for key in keys.keys[:100]})
    base = start_service(small, keys.queries)
    shutil.rmtree(small)
    starts = [start_service(home, keys.queries[at:]) for at in (0, 250, 500)]
    forget(home)
    cold = start_service(home, keys.queries[750:], searches=20)
    vectors = keys.vectors.nbytes
    table_head(f"The restart; a service with 100 keys holds {base.searched / 1e6:.0f} MB")
    firsts = " ".join(f"{start.first:.1f}" for start in starts)
    table_line("first answer", f"{firsts} s", "≤ 10 s")
    table_line("first answer, files not in the page cache", f"{cold.first:.1f} s", "≤ 10 s")
    table_line("20 new questions then, p50 and p99", "{:.0f} ms, {:.0f} ms".format(*cold.took))
    ratios: dict[str, list[float]] = {}
    for what, name in (
        ("memory when it came", "ready"),
        ("memory after 200 searches", "searched"),
        ("memory after an exact one", "scanned"),
        ("the most memory ever", "greatest"),
    ):
        used, idle = [getattr(start, name) for start in starts], getattr(base, name)
        ratios[name] = [(size - idle) / vectors for size in used]
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios[name])
        wanted = "≤ 1.3" if name != "greatest" else ""
        table_line(f"{what}, over the vectors", f"{shown} ({max(used) / 1e9:.2f} GB)", wanted)
    p50, p99 = starts[-1].took
    table_line("200 new questions, p50 and p99", f"{p50:.1f} ms, {p99:.1f} ms")
    table_line("an exact one", f"{starts[-1].exact:.2f} s")
    table_line("GET /datasets", f"{starts[-1].listing * 1e3:.0f} ms")
    return {
        "first_answer_s": [start.first for start in starts],
        "cold_first_answer_s": cold.first,
        "cold_search_ms": cold.took,
        "memory_ratio": ratios,
        "encoder_bytes": base.searched,
        "search_ms": [p50, p99],
        "exact_s": starts[-1].exact,
        "datasets_s": starts[-1].listing,
    }


def slow_start(home: Path, keys: RealKeys) -> Figures:
    """Start without the sketch, which comes back while searches go on."""
    (folder,) = (home / "generations").iterdir()
    aside = home / "aside"
    folder.rename(aside)
    try:
        slow = start_service(home, keys.queries, searches=20)
    finally:
        shutil.rmtree(home / "generations", ignore_errors=True)
        folder.parent.mkdir()
        aside.rename(folder)
    p50, p99 = slow.took
    table_line("first answer, no sketch", f"{slow.first:.1f} s")
    table_line("20 new questions then, p50 and p99", f"{p50:.0f} ms, {p99:.0f} ms", "all answered")
    return {"first_answer_s": slow.first, "search_ms": [p50, p99]}


# 3. The storm


class Oracle:
    """The same keys and values in plain arrays: every weight by definition, in float64."""

    def __init__(self, dataset: SoftDict, keys: RealKeys, fresh: Sequence[str], rows: Any) -> None:
        self.vectors = (keys.vectors, rows)
        self.keys = [*keys.keys, *fresh]
        self.row = {key: row for row, key in enumerate(self.keys)}
        self.there = np.zeros(len(self.keys), bool)
        self.length = np.zeros(len(self.keys))
        for entry in dataset.entries():  # a kept store has seen a storm before
            self.there[self.row[entry.key]] = True
            self.length[self.row[entry.key]] = entry.values["length"]

    def weights(self, queries: np.ndarray, temperature: float) -> Iterator[np.ndarray]:
        """Give the (n,) weights of each query."""
        for start in range(0, len(queries), AT_ONCE):
            some = queries[start : start + AT_ONCE]
            parts = [scores_of(rows, some) for rows in self.vectors]
            for scores in np.concatenate(parts, axis=1):
                allowed = np.where(self.there, scores, -np.inf)
                weights = np.exp((allowed - allowed.max()) / temperature)
                yield weights / weights.sum()


class Storm:
    def __init__(self, dataset: SoftDict, keys: RealKeys, oracle: Oracle, fresh: list[str]) -> None:
        self.dataset, self.keys, self.oracle, self.fresh = dataset, keys, oracle, list(fresh)
        self.rng = np.random.default_rng(3)
        self.phase = "quiet"
        self.over = threading.Event()
        self.searches: list[tuple[str, bool, float]] = []  # phase, exact, seconds
        self.writes: dict[str, list[float]] = {"new": [], "changed": [], "deleted": []}
        self.off: list[float] = []  # of an exact weight, relative
        self.within: list[bool] = []  # a sampled answer off by no more than it says
        self.faults: list[str] = []

    def read(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        number = seed
        while not self.over.is_set():
            number += 1
            exact = number % EXACT_EVERY == 0
            query = self.keys.queries[rng.integers(len(self.keys.queries))]
            before = self._now()
            start = time.perf_counter()
            try:
                self.dataset.search(query, tolerance=0 if exact else None)
            except Exception as fault:
                self.faults.append(repr(fault))
                return
            took = time.perf_counter() - start
            self.searches.append((before if before == self._now() else "between", exact, took))

    def _now(self) -> str:
        busy = self.dataset.settling
        return "during the sketch" if busy and self.phase == "writes" else self.phase

    def write(self) -> None:
        kind = self.rng.choice(["new", "new", "changed", "deleted"])
        if kind == "new":
            key = self.fresh.pop()
            length = float(self.rng.integers(1, 100))
            values = {"length": length, "label": "new"}
        else:
            row = int(self.rng.integers(len(self.oracle.keys)))
            while not self.oracle.there[row]:
                row = int(self.rng.integers(len(self.oracle.keys)))
            key, length = self.oracle.keys[row], float(self.rng.integers(1, 100))
            values = {"length": length, "label": "changed"}
        start = time.perf_counter()
        if kind == "deleted":
            del self.dataset[key]
        else:
            self.dataset.put(key, values)
        self.writes[kind].append(time.perf_counter() - start)
        row = self.oracle.row[key]
        self.oracle.there[row] = kind != "deleted"
        if kind != "deleted":
            self.oracle.length[row] = length

    def check(self) -> None:
        """Compare answers with the oracle's; the writer waits, readers and sketch go on."""
        picked = self.rng.choice(len(self.keys.queries), EXACT_CHECKS + SAMPLED_CHECKS, False)
        vectors = self.keys.query_vectors[picked]
        tau = self.dataset.describe().temperature_in_use
        weights = self.oracle.weights(
            vectors, float(tau or self.dataset.encoder.default_temperature)
        )
        for place, (at, true) in enumerate(zip(picked, weights, strict=True)):
            exact = place < EXACT_CHECKS
            answer = self.dataset.search(
                self.keys.queries[at], k=LISTED, tolerance=0 if exact else None
            )
            rows = [self.oracle.row[match.key] for match in answer.matches]
            told = np.array([match.weight for match in answer.matches])
            if not all(self.oracle.there[rows]) or answer.keys != self.oracle.there.sum():
                self.faults.append(f"{answer.query!r} was answered by other keys")
            elif any(m.values["length"] != self.oracle.length[self.oracle.row[m.key]]
                     for m in answer.matches):  # fmt: skip
                self.faults.append(f"{answer.query!r} was answered by other values")
            elif exact:
                mean = answer.blend["length"].mean
                expected = float(true @ self.oracle.length)
                best = np.sort(true)[-LISTED:][::-1]
                self.off += [
                    float(np.abs(told / np.maximum(true[rows], 1e-300) - 1).max()),
                    float(np.abs(told / best - 1).max()),
                    abs(mean / expected - 1),
                ]
            elif answer.error:
                # All computed weights are off alike, so the listed ones tell by how much. Added
                # up: what float32 does to each of them cancels out, and is not the mass's error.
                off = answer.coverage * abs(1 - true[rows].sum() / told.sum())
                self.within.append(off <= answer.error)

    def run(self, count: int) -> float:
        """Write ``count`` times, and search on until the sketch is in; give the writes' seconds."""
        readers = [threading.Thread(target=self.read, args=[seed]) for seed in (0, 20)]
        for reader in readers:
            reader.start()
        time.sleep(QUIET)
        writing = 0.0
        try:
            for _ in range(0, count, CHECKED_EVERY):
                self.phase = "writes"
                begun = time.perf_counter()
                for _ in range(CHECKED_EVERY):
                    self.write()
                writing += time.perf_counter() - begun
                self.phase = "check"
                self.check()
            self.phase = "end"
            self.dataset.settle()
            self.check()
        finally:
            self.over.set()
            for reader in readers:
                reader.join()
        return writing


def storm(home: Path, keys: RealKeys, count: int) -> Figures:
    fresh = [
        f"{first} {second}"[:200]
        for first, second in zip(keys.keys[:count], reversed(keys.keys), strict=False)
    ]
    fresh = list(dict.fromkeys(fresh))
    rows = open_encoder("builtin").encode(fresh)
    rebuilding.UNSKETCHED = 0.1 * count / len(keys.keys)  # due after a fifth of the new keys
    with given_vectors() as given, Catalog.open(home) as catalog:
        given.know(keys.queries, keys.query_vectors)
        given.know(fresh, rows)
        dataset = catalog[NAME]
        dataset.encoder.encode_queries(keys.queries)
        len(dataset)  # it may be due for a sketch already, if it has seen a storm
        dataset.settle()
        oracle = Oracle(dataset, keys, fresh, rows)
        left = [key for key in fresh if not oracle.there[oracle.row[key]]]
        storm = Storm(dataset, keys, oracle, left)
        sketches = count_sketches(dataset)
        writing = storm.run(count)
        during = list(sketches)
        closing, left_behind = close_in_the_middle(catalog, dataset)
    with given_vectors() as given, Catalog.open(home) as catalog:  # what was written is there
        given.know(keys.queries, keys.query_vectors)
        storm.dataset = catalog[NAME]
        opening, _ = seconds(lambda: len(storm.dataset))
        storm.check()
    return storm_figures(storm, writing, during, closing, left_behind, opening)


def count_sketches(dataset: SoftDict) -> list[float]:
    """Note the seconds of each sketch from now on."""
    took: list[float] = []
    build = dataset._moments.rebuilder._build()

    def timed(go_on: Callable[[], bool]) -> None:
        start = time.perf_counter()
        build(go_on)
        took.append(time.perf_counter() - start)

    dataset._moments.rebuilder._build = lambda: timed
    return took


def close_in_the_middle(catalog: Catalog, dataset: SoftDict) -> tuple[float, bool]:
    """Close while a sketch is made: the seconds that takes, and whether a thread is left."""
    usual, rebuilding.UNSKETCHED = rebuilding.UNSKETCHED, -1.0  # due, if the last one has all, too
    dataset._moments.rebuilder.start()
    time.sleep(3e-6 * len(dataset))  # 3 s for a million
    assert dataset.settling
    took, _ = seconds(catalog.close)
    rebuilding.UNSKETCHED = usual
    return took, any(thread.name == "softdict-sketch" for thread in threading.enumerate())


def storm_figures(
    storm: Storm, writing: float, sketches: list[float], closing: float, left: bool, opening: float
) -> Figures:
    count = sum(map(len, storm.writes.values()))
    searches: dict[str, Figures] = {}
    table_head(f"The storm, {count:,} writes beside two searching threads")
    shown = ", ".join(f"{took:.0f} s" for took in sketches)
    table_line("sketches made meanwhile", f"{len(sketches)} ({shown})", "≥ 1")
    table_line("writes/s", f"{count / writing:.0f}")
    for kind, took in storm.writes.items():
        p50, p99 = cuts(took)
        table_line(f"a key {kind}, p50 and p99", f"{p50:.1f} ms, {p99:.1f} ms", "p50 ≤ 20 ms")
    for phase in ("quiet", "writes", "during the sketch"):
        for exact in (False, True):
            took = [t for p, e, t in storm.searches if p == phase and e == exact]
            p50, p99 = cuts(took)
            named = f"{'exact ' if exact else ''}searches, {phase}"
            searches[named] = {"n": len(took), "p50_ms": p50, "p99_ms": p99}
            table_line(f"{named}, p50 and p99 ({len(took):,})", f"{p50:.1f} ms, {p99:.1f} ms")
    table_line("exact weights and blends, furthest from the oracle's, relative",
               f"{max(storm.off):.1e} ({len(storm.off) // 3} answers)", "≤ 1e-4")  # fmt: skip
    within = float(np.mean(storm.within)) if storm.within else float("nan")
    table_line("sampled answers within their stated error",
               f"{within:.3f} of {len(storm.within)}", "0.95")  # fmt: skip
    table_line("wrong keys or values, faults", str(len(storm.faults)), "0")
    for fault in storm.faults[:5]:
        table_line("a fault", fault)
    table_line("closed in the middle of a sketch", f"{closing:.2f} s; thread left: {left}", "no")
    table_line("opened again, changes laid on", f"{opening:.1f} s")
    return {
        "writes": count,
        "writes_per_s": count / writing,
        "write_ms": {kind: cuts(took) for kind, took in storm.writes.items()},
        "sketches_s": sketches,
        "searches": searches,
        "exact_off": max(storm.off),
        "within_stated": within,
        "sampled": len(storm.within),
        "faults": storm.faults,
        "close_s": closing,
        "open_s": opening,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--work", type=Path, default=Path("work/large"))
    parser.add_argument("--keep", action="store_true", help="keep the store, and use a kept one")
    parser.add_argument("--steps", nargs="*", default=["restart", "slow", "storm"])
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    asked = parser.parse_args()
    keys = first(real_keys(asked.corpus, MADE), asked.keys)
    home = asked.work / f"home-{asked.keys}"
    load = os.getloadavg()
    print(f"{machine()}, load {load[0]:.1f} at the start")
    figures: Figures = {"keys": asked.keys, "load": load}
    try:
        if not (home / "written").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            figures["store"] = write_store(home, keys)
            (home / "written").touch()
        if "restart" in asked.steps:
            figures["restart"] = restart(home, asked.work, keys)
        if "slow" in asked.steps:
            figures["slow"] = slow_start(home, keys)
        if "storm" in asked.steps:
            figures["storm"] = storm(home, keys, asked.writes)
    finally:
        if not asked.keep:
            shutil.rmtree(home, ignore_errors=True)
    if asked.out is not None:
        asked.out.write_text(json.dumps(figures, indent=1), "utf-8")


if __name__ == "__main__":
    main()

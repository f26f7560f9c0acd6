"""The exact search beside FAISS flat and a plain NumPy product, on random unit vectors.

    python -m bench.exact [--sizes 10000 100000 1000000] [--rounds 15]

Five peers answer the same queries in turn, round after round: the plain product
``K @ q`` (the scores alone), FAISS flat's ten best, and softdict's whole attention
(scores, weights over every key, effective keys, ten best), of keys in full and, as *half*, of
the same keys in 16 bits a component; *answer* is all that a search does once
its queries are encoded, over keys with a number, a vector of three and one of twenty labels: the
blends, their quantiles, the matches. A figure is the median over rounds of a peer's time over
another's in the same round, with the 10th and 90th percentiles; milliseconds are the medians
on the machine named in the head.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import faiss
import numpy as np

from bench._common import SHOWN, machine, markdown, seconds, spread
from index.answering import answer_softly, parse_question
from index.answers import Column
from index.encoders import EncoderWorker
from index.search import attend_keys
from index.snapshot import BLOCK, Snapshot
from index.store import Record
from index.vectors import VectorBlock, halved

DIMENSION, TEMPERATURE = 384, 0.05
COLUMNS = (Column("n", "number"), Column("v", "vector", 3), Column("c", "category"))


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def snapshot_of(rows: np.ndarray) -> Snapshot:
    snapshot, rng = Snapshot.empty(COLUMNS), np.random.default_rng(2)
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        ids = range(start, start + len(part))
        numbers, vectors = rng.standard_normal(len(part)), rng.random((len(part), 3))
        labels = rng.integers(0, 20, len(part))
        values = [
            (n, tuple(v), f"label {c}")
            for n, v, c in zip(numbers.tolist(), vectors.tolist(), labels.tolist(), strict=True)
        ]
        block = snapshot.block(ids, [str(i) for i in ids], ids, VectorBlock(part), values)
        snapshot = snapshot.with_blocks([block])
    return snapshot


class Given:
    """An encoder to which the text "7" is the seventh of the rows it was given."""

    identity, dimension, default_temperature = "given", DIMENSION, TEMPERATURE
    calibration: dict[str, float] | None = None

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
        return self._rows[[int(text) for text in texts]]

    def tokens(self, text: str) -> list[str]:
        return [text]


def answering(snapshot: Snapshot, asked: np.ndarray) -> Callable[[], object]:
    record = Record(
        id=1,
        name="bench",
        key_column="key",
        columns=COLUMNS,
        encoder="given",
        encoder_identity="given",
        dimension=DIMENSION,
        temperature=str(TEMPERATURE),
        fitted=None,
        margins="{}",
        fitted_entries=0,
        moved=0,
        tolerance=None,
        precision="full",
        forgotten=0,
        version=1,
        created=0.0,
        modified=0.0,
    )
    worker = EncoderWorker(Given(asked))
    question = parse_question([str(number) for number in range(len(asked))], k=SHOWN)
    return lambda: answer_softly(question, record, snapshot, worker)


def measure(count: int, queries: int, rounds: int) -> str:
    rows, asked = unit_rows(count, 0), unit_rows(queries, 1)
    snapshot, flat = snapshot_of(rows), faiss.IndexFlatIP(DIMENSION)
    flat.add(rows)
    allowed = snapshot.alive
    half = snapshot.with_vectors([VectorBlock(halved(b.vectors[:])) for b in snapshot.blocks])
    work: dict[str, Callable[[], object]] = {
        "product": (lambda: rows @ asked[0]) if queries == 1 else (lambda: asked @ rows.T),
        "softdict": lambda: attend_keys(
            snapshot, asked, temperature=TEMPERATURE, allowed=allowed, k=SHOWN
        ),
        "half": lambda: attend_keys(
            half, asked, temperature=TEMPERATURE, allowed=half.alive, k=SHOWN
        ),
        "answer": answering(snapshot, asked),
        "faiss": lambda: flat.search(asked, SHOWN),
    }
    for peer in work.values():
        peer()
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, peer in work.items():
            repeats = max(1, round(2e7 / (count * queries) / 20))
            times[name].append(min(seconds(peer)[0] for _ in range(repeats)))
    ratios = [(name, "product") for name in ("softdict", "half", "answer", "faiss")]
    ratios.append(("faiss", "softdict"))
    middle = {name: np.median(values) * 1e3 for name, values in times.items()}
    shown = [f"{middle[name]:.2f} ms" for name in work]
    for name, base in ratios:
        against = [t / b for t, b in zip(times[name], times[base], strict=True)]
        shown.append(spread(against, 2))
    return f"| {' | '.join([f'{count:,}', str(queries), *shown])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"{machine()}, {faiss.omp_get_max_threads()} threads")
    peers = ["product", "softdict", "half", "answer", "FAISS flat"]
    ratios = [*(f"{peer}/product" for peer in peers[1:]), "FAISS flat/softdict"]
    print(markdown(["keys", "queries", *peers, *ratios]))
    for count in given.sizes:
        for queries in (1, 8, 64):
            print(measure(count, queries, given.rounds), flush=True)


if __name__ == "__main__":
    main()

"""What the benchmarks at scale share: real keys as a sketched snapshot, and exact attention.

Exact attention is computed in float64 throughout (products, exponentials and sums), by code that
shares nothing with softdict's.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import faiss
import numpy as np

import index.sketch
import index.vectors
from bench._common import SHOWN, machine
from bench.real_keys import COLUMNS, RealKeys, first, real_keys, vectors_of_others
from index.answers import Blend, LabelBlend, NumberBlend, VectorBlend
from index.search import Attention
from index.sketch import PARTS, Sketch, build_sketch
from index.snapshot import Block, Snapshot
from index.values import Array, LabelTable, pack
from index.vectors import Codes, VectorBlock

AT_ONCE = 16_384  # keys scored at a time
ROUNDING = 1e-6  # total variation that float32 scores alone may cause: no error


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Give a parser with what every benchmark at scale takes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--embedded", type=int, default=1_000_000, help="keys of real_keys")
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--work", type=Path, default=Path("work/bench"), help="real_keys' vectors")
    parser.add_argument(
        "--sketches", type=Path, default=Path("work/sketches"), help="kept sketches"
    )
    parser.add_argument("--out", type=Path, help="raw figures, JSON")
    return parser


def ask(parser: argparse.ArgumentParser, queries: int) -> None:
    """Let the parser take which queries are asked, and how many of them, for ``sketched``."""
    parser.add_argument("--queries", type=int, default=queries)
    parser.add_argument("--others", action="store_true", help="others: to choose constants by")


def head(what: str) -> str:
    """Say what was measured, on which machine and when."""
    threads = f"{faiss.omp_get_max_threads()} threads, NumPy {np.__version__}"
    return f"{what}\n{machine()}, {threads}, {datetime.date.today()}\n"


def write(out: Path | None, figures: dict[str, Any]) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        about = {"machine": machine(), "date": str(datetime.date.today())}
        out.write_text(json.dumps(about | figures, indent=1))


# Keys


def some_keys(given: argparse.Namespace) -> RealKeys:
    """Give the first ``--keys`` of the real keys, and all queries."""
    return first(real_keys(given.corpus, given.embedded, given.work), given.keys)


def kept_sketch(rows: np.ndarray, folder: Path) -> tuple[np.ndarray, Sketch]:
    """Build the sketch of rows, or read the one that the same code built of as many before."""
    code = b"".join(Path(m.__file__).read_bytes() for m in (index.sketch, index.vectors))
    same = blake2b(code + rows[:: max(1, len(rows) // 100)].tobytes(), digest_size=6).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    arrays, codes = folder / f"{len(rows)}-{same}.npz", folder / f"{len(rows)}-{same}.codes"
    if not arrays.exists():
        order, sketch = build_sketch(rows)
        sketch.codes.save(codes)
        parts = {name: getattr(sketch, name) for name in PARTS}
        with arrays.with_suffix(".part").open("wb") as stream:
            np.savez(stream, order=order, **parts)
        arrays.with_suffix(".part").rename(arrays)
    with np.load(arrays) as read:
        return read["order"], Sketch(Codes.load(codes), **{name: read[name] for name in PARTS})


def snapshot_of(real: RealKeys, order: np.ndarray, sketch: Sketch | None) -> Snapshot:
    """Stand keys and values in the order of their sketch, in one block."""
    tables = [LabelTable() for _ in COLUMNS]
    label = pack(COLUMNS[0], real.label.tolist(), tables[0])
    columns: list[Array] = [label, real.length, real.latitude, real.longitude, real.globe]
    block = Block.of(
        ids=order.astype(np.int64),
        keys=tuple(real.keys[row] for row in order),
        arrived=order.astype(float),
        vectors=VectorBlock(real.vectors[order]),
        columns=tuple(column[order] for column in columns),
        sketch=sketch,
    )
    return Snapshot(COLUMNS, tables, [block])


def vectors_alone(rows: np.ndarray, sketch: Sketch) -> Snapshot:
    """Give vectors in the order of their sketch as a snapshot whose keys hold nothing more."""
    none, alive = np.empty(0), np.ones(len(rows), bool)
    block = Block(none, range(len(rows)), none, VectorBlock(rows), (), alive, {}, {}, sketch=sketch)
    return Snapshot([], [], [block])


def sketched(given: argparse.Namespace) -> tuple[Snapshot, np.ndarray]:
    """Give the keys as a sketched snapshot, and (q, d) queries of both kinds alike."""
    real = some_keys(given)
    order, sketch = kept_sketch(real.vectors, given.sketches)
    asked = vectors_of_others(real, given.work) if given.others else real.query_vectors
    places = np.linspace(0, len(asked) - 1, given.queries).astype(int)
    return snapshot_of(real, order, sketch), asked[places]


# Exact attention


@dataclass(frozen=True)
class Truth:
    """Exact attention of q queries over all keys, at one τ."""

    temperature: float
    mass: np.ndarray  # (q,) Σ exp(score / τ): no shift, for float64 holds exp(1 / .01)
    means: dict[str, np.ndarray]  # (q, v) of each column of numbers, over the keys that have it
    known: dict[str, np.ndarray]  # (q,) share of the weight whose keys have it
    labels: np.ndarray  # (q, labels) shares
    spread: dict[str, float]  # root mean squared distance of each column's values to their mean


@dataclass(frozen=True)
class Best:
    """The exact best keys of q queries, best first."""

    rows: np.ndarray  # (q, k)
    scores: np.ndarray  # (q, k)


def scores_of(rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Compute (q, n) cosines in float64, some keys at a time; a (d,) query gives (n,)."""
    queries = queries.astype(np.float64)
    parts = [
        queries @ rows[start : start + AT_ONCE].astype(np.float64).T
        for start in range(0, len(rows), AT_ONCE)
    ]
    return np.concatenate(parts, axis=-1) if parts else np.empty((*queries.shape[:-1], 0))


def exact_attention(
    snapshot: Snapshot, queries: np.ndarray, temperatures: Sequence[float], *, best: int = SHOWN
) -> tuple[dict[float, Truth], Best]:
    """Attend to every key in float64: one pass over the keys for all queries."""
    rows, columns = snapshot.blocks[0].vectors[:], snapshot.blocks[0].columns
    codes = columns[0]
    numbers = {c.name: _two(columns[at]) for at, c in enumerate(COLUMNS) if c.type != "category"}
    beside = np.column_stack([_known(values) for values in numbers.values()])  # (n, all v)
    q, asked = len(queries), queries.astype(np.float64)
    sums = {tau: np.zeros((q, beside.shape[1])) for tau in temperatures}
    mass = {tau: np.zeros(q) for tau in temperatures}
    labels = {tau: np.zeros((q, len(snapshot.labels[0].labels))) for tau in temperatures}
    top = Best(np.full((q, best), -1), np.full((q, best), -np.inf))
    for start in range(0, len(rows), AT_ONCE):
        part = np.arange(start, min(start + AT_ONCE, len(rows)))
        part = part[np.argsort(codes[part], kind="stable")]  # labels in runs
        runs = np.flatnonzero(np.diff(codes[part], prepend=-1))
        scores = asked @ rows[part].astype(np.float64).T
        top = _better(top, part, scores)
        for tau in temperatures:
            exps = np.exp(scores / tau)
            mass[tau] += exps.sum(axis=1)
            sums[tau] += exps @ beside[part]
            labels[tau][:, codes[part][runs]] += np.add.reduceat(exps, runs, axis=1)
    spread = {}
    for name, values in numbers.items():
        there = values[~np.isnan(values[:, 0])]
        spread[name] = float(np.sqrt(((there - there.mean(axis=0)) ** 2).sum(axis=1).mean()))
    truths = {}
    for tau in temperatures:
        means, known, at = {}, {}, 0
        for name, values in numbers.items():
            width = values.shape[1]
            held = sums[tau][:, at + width]
            means[name] = sums[tau][:, at : at + width] / held[:, np.newaxis]
            known[name] = held / mass[tau]
            at += width + 1
        shares = labels[tau] / mass[tau][:, np.newaxis]
        truths[tau] = Truth(tau, mass[tau], means, known, shares, spread)
    return truths, top


def _two(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 2 else values[:, np.newaxis]


def _known(values: np.ndarray) -> np.ndarray:
    """Put 0 where a value is missing, and beside the values a 1 where it is not."""
    there = ~np.isnan(values[:, :1])
    return np.hstack([np.where(there, values, 0.0), there])


def _better(top: Best, rows: np.ndarray, scores: np.ndarray) -> Best:
    k = top.rows.shape[1]
    if scores.shape[1] > k:
        some = np.argpartition(-scores, k, axis=1)[:, :k]
        rows, scores = rows[some], np.take_along_axis(scores, some, axis=1)
    else:
        rows = np.broadcast_to(rows, scores.shape)
    rows, scores = np.hstack([top.rows, rows]), np.hstack([top.scores, scores])
    order = np.argsort(-scores, axis=1)[:, :k]
    return Best(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))


# How far off


def total_variation(claimed: np.ndarray, true: np.ndarray) -> float:
    """½ Σ |difference| over keys (or labels), with whatever is not among them as one part."""
    return float(np.abs(claimed - true).sum() + abs(claimed.sum() - true.sum())) / 2


def computed(attention: Attention) -> tuple[np.ndarray, np.ndarray]:
    """Give the rows whose weights an attention states one by one, and those weights."""
    rows, scores = attention.rows, attention.scores
    if rows is None:
        everything = np.arange(len(scores))
        rows = everything if attention.allowed is None else everything[attention.allowed]
        scores = scores[rows]
    return rows, attention.weight_of(scores)


def error_of(attention: Attention, keys: np.ndarray, query: np.ndarray, mass: float) -> float:
    """Give the true total variation error of the weights that an attention states."""
    rows, claimed = computed(attention)
    whole = len(rows) == len(keys)
    scores = scores_of(keys if whole else keys[rows], query)
    return total_variation(claimed, np.exp(scores / attention.temperature) / mass)


def error_of_listed(attention: Attention, best: np.ndarray, mass: float) -> float:
    """The same of the listed keys alone; ``best`` are their (k,) true scores."""
    claimed = attention.state.top_weights[0][: len(best)]
    return total_variation(claimed, np.exp(best / attention.temperature) / mass)


def blend_errors(
    blends: dict[str, Blend | None], truth: Truth, query: int, labels: LabelTable
) -> Iterator[tuple[str, float]]:
    """Give each column's error: in standard deviations of its value, or in total variation."""
    for name, blend in blends.items():
        if isinstance(blend, NumberBlend | VectorBlend):
            away = np.atleast_1d(blend.mean) - truth.means[name][query]
            yield name, float(np.linalg.norm(away)) / truth.spread[name]
        elif isinstance(blend, LabelBlend):
            listed = [labels.find(label) for label, _ in blend.distribution]
            claimed = np.array([share for _, share in blend.distribution])
            yield name, total_variation(claimed, truth.labels[query][listed])
        else:
            yield name, 1.0

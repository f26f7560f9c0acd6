"""Real keys at scale, embedded by the built-in encoder: what the other benchmarks attend to.

    python -m bench.real_keys [--corpus ../shared/corpus] [--keys 1000000]

Half of the keys are sentences (values: language, length), half are places (country,
latitude, longitude, place on the globe as a unit vector). 500 of each kind are held out as
queries, and 600 others for whoever chooses a constant: figures are reported of the first alone.
Everything lands in ``work/bench``, is kept by the encoder's identity, and is made shard by
shard: a stopped run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from index import Column
from index.encoders import open_encoder
from index.naming import composed

SHARD = 50_000  # keys
HELD_OUT = 500  # queries of each kind
OTHERS = 600  # of each kind, to choose constants by
COLUMNS = (
    Column("label", "category"),  # language or country
    Column("length", "number"),  # characters
    Column("latitude", "number"),  # degrees; a sentence has none
    Column("longitude", "number"),
    Column("globe", "vector", 3),
)


@dataclass(frozen=True)
class RealKeys:
    """Keys with vectors and values, and queries with vectors that are not among them."""

    keys: list[str]
    vectors: np.ndarray  # (n, d) float32, unit rows; mapped from disk
    label: np.ndarray  # (n,) language or country
    length: np.ndarray  # (n,) characters
    latitude: np.ndarray  # (n,) degrees, NaN for a sentence
    longitude: np.ndarray
    globe: np.ndarray  # (n, 3) unit vector of the place, NaN for a sentence
    queries: list[str]
    query_vectors: np.ndarray  # (q, d); the first half are sentences
    others: list[str]  # queries too, that are to choose constants by


def first(real: RealKeys, count: int) -> RealKeys:
    """Leave all but the first keys out; they stand in random order."""
    per_key = ("keys", "vectors", "label", "length", "latitude", "longitude", "globe")
    return replace(real, **{name: getattr(real, name)[:count] for name in per_key})


def _rows(corpus: Path, name: str) -> Iterator[list[str]]:
    with gzip.open(corpus / name, "rt", encoding="utf-8", newline="") as stream:
        yield from csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)


def _chosen(corpus: Path, count: int) -> tuple[list[tuple], list[str], list[str]]:
    """Choose ``count`` distinct keys with their values, in random order, queries, and others."""
    rng = np.random.default_rng(0)
    sentences = {row[1]: (row[0], np.nan, np.nan) for row in _rows(corpus, "sentences.tsv.gz")}
    places = {}
    for place, country, latitude, longitude in _rows(corpus, "places.tsv.gz"):
        if place not in sentences and latitude != "latitude":
            places[place] = (country, float(latitude), float(longitude))
    keys, queries, others = [], [], []
    for table in (sentences, places):
        names = list(table)
        order = rng.permutation(len(names))
        queries += [names[i] for i in order[:HELD_OUT]]
        keys += [(names[i], *table[names[i]]) for i in order[HELD_OUT:][: count // 2]]
        others += [names[i] for i in order[-OTHERS:]]
    return [keys[i] for i in rng.permutation(len(keys))], queries, others


def _encoded(texts: list[str], work: Path) -> np.ndarray:
    """Embed texts shard by shard into one matrix, mapped from disk."""
    encoder = open_encoder("builtin")
    folder = work / encoder.identity.replace(":", "-")
    folder.mkdir(parents=True, exist_ok=True)
    same = blake2b("\n".join(texts).encode(), digest_size=6).hexdigest()
    path = folder / f"{len(texts)}-{same}.npy"
    if not path.exists():
        part = path.with_suffix(".part")
        done = path.with_suffix(".done")
        shape = (len(texts), encoder.dimension)
        fresh = not (part.exists() and done.exists())
        matrix = np.lib.format.open_memmap(
            part, mode="w+" if fresh else "r+", dtype=np.float32, shape=shape
        )
        start = 0 if fresh else int(done.read_text())
        for first in range(start, len(texts), SHARD):
            matrix[first : first + SHARD] = encoder.encode(texts[first : first + SHARD])
            matrix.flush()
            done.write_text(str(first + SHARD))
            print(f"{min(first + SHARD, len(texts)):,} of {len(texts):,} embedded", flush=True)
        part.rename(path)
        done.unlink()
    return np.load(path, mmap_mode="r")


def real_keys(corpus: Path, count: int, work: Path = Path("work/bench")) -> RealKeys:
    """Give ``count`` real keys, embedding them on first use."""
    rows, queries, others = _chosen(corpus, count)
    keys, labels, latitude, longitude = zip(*rows, strict=True)
    vectors = _encoded([*keys, *queries], work)
    phi, lam = np.radians(latitude), np.radians(longitude)
    globe = np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    return RealKeys(
        list(map(composed, keys)), vectors[: len(keys)], np.array(labels),
        np.array([len(key) for key in keys], float), np.array(latitude), np.array(longitude),
        globe, queries, np.asarray(vectors[len(keys) :]), others,
    )  # fmt: skip


def vectors_of_others(real: RealKeys, work: Path = Path("work/bench")) -> np.ndarray:
    """Embed the queries that are to choose constants by, on first use."""
    return np.asarray(_encoded(real.others, work))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    arguments = parser.parse_args()
    made = real_keys(arguments.corpus, arguments.keys)
    print(json.dumps({"keys": len(made.keys), "queries": len(made.queries)}))

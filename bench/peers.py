"""softdict beside vector databases and indexes, on the same keys, vectors and queries.

    python -m venv peers-venv
    peers-venv/bin/pip install -r bench/requirements.txt
    peers-venv/bin/python -m bench.peers [--keys 200000] [--corpus ../shared/corpus]
        [--out work/peers.json] [--only softdict Chroma]

Keys are the first of ``bench.real_keys`` (half sentences, half places), queries its 1,000
held-out texts. Nobody embeds anything: a query costs what the library does with a vector
(softdict and txtai, which take text, look the vector up). Every peer lives in a process of its
own; one that cannot be imported, fails or takes too long is named and the others go on. Nothing
is fetched and no telemetry is sent.

load        from vectors in memory to the first answer, with country or language and length of
            each key, on disk; with all cores
memory      growth of the process over the imported library, after the load and after the
            queries (RSS; for PostgreSQL with its server's PSS); the page cache is not in it
disk        what then lies in its folder, write-ahead logs included
latency     one query after another, one client, everything on one core: thread pools are
            limited to one and the process is bound to that core where the system can
ratio       a peer's time for a query over softdict's for the same query moments later or
            earlier: median, and 10th to 90th percentile
recall      share of the ten hits that score as high as the exact tenth
claim       softmax at τ over a peer's own ten scores: the weight of its first hit, were the ten
            all there is; against that key's true weight over all keys (in float64). softdict's
            is the weight it states. claimed/true is the median over queries; the error is
            the 90th percentile of |claimed − true|
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench._common import SHOWN, TIE, disk_bytes, machine, markdown, percentiles
from bench._stores import PEERS, Softdict, Table, emptied

TEMPERATURES = (0.02, 0.03, 0.05, 0.1)
ROUNDS = 10  # softdict answers some of a round's queries, then the peer all of them
SHARE = 5  # every fifth query of a round also goes to softdict
WARM_UP = 20  # queries
LOAD_LIMIT, ASK_LIMIT = 240, 60  # seconds of a peer
QUIET = {
    "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1", "TRANSFORMERS_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


class PeerFailed(Exception):
    """A peer that could not be imported, raised, died or took too long."""

    def __init__(self, peer: str, what: str) -> None:
        super().__init__(what)
        self.peer = peer


# In a peer's process


def serve(name: str, folder: Path, home: Path, pipe: Connection) -> None:
    """Load a peer, then answer the queries asked for, until told to stop."""
    os.dup2(2, 1)  # what libraries print is no part of the table
    try:
        _serve(name, folder, home, pipe)
    except BaseException as fault:
        pipe.send(("failed", " ".join(f"{type(fault).__name__}: {fault}".split())[:300]))


def _serve(name: str, folder: Path, home: Path, pipe: Connection) -> None:
    peer = PEERS[name]()
    before = memory()
    table = Table.read(folder)
    start = time.perf_counter()
    peer.load(table, home)
    peer.ask(table.queries[0], table.query_vectors[0])
    took = time.perf_counter() - start
    queries, vectors = table.queries, table.query_vectors
    del table
    loaded = memory()
    pipe.send(
        {
            "setting": peer.setting,
            "versions": peer.versions(),
            "load_s": took,
            "rss_imported": before,
            "rss_loaded": loaded,
            "disk_bytes": disk_bytes(home),
        }
    )
    with one_core():
        while (asked := pipe.recv()) is not None:
            times, hits = [], []
            for row in asked:
                start = time.perf_counter()
                found = peer.ask(queries[row], vectors[row])
                times.append(time.perf_counter() - start)
                hits.append([(hit.key, hit.score) for hit in found])
            pipe.send((times, hits))
    after = memory()
    stated = {}
    if isinstance(peer, Softdict):
        stated = {tau: peer.first_weights(queries, tau) for tau in TEMPERATURES}
    pipe.send({"rss_asked": after, "stated": stated})
    peer.close()


def memory() -> int:
    """Bytes resident in this process, and its share of what its children hold."""
    import psutil

    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    here = psutil.Process()
    below = (child.memory_full_info() for child in here.children(recursive=True))
    return here.memory_info().rss + sum(getattr(info, "pss", info.rss) for info in below)


@contextmanager
def one_core() -> Iterator[None]:
    """Bind this process and its children to a core, and its thread pools to one thread."""
    import psutil
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        if not hasattr(os, "sched_setaffinity"):
            yield
            return
        cores = os.sched_getaffinity(0)
        here = psutil.Process()
        for process in (here, *here.children(recursive=True)):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, {max(cores)})
        yield
        for thread in here.threads():
            os.sched_setaffinity(thread.id, cores)


# In the process that asks


@dataclass
class Run:
    """A peer's process, and what it told."""

    name: str
    folder: Path
    home: Path
    told: dict[str, Any] = field(default_factory=dict)
    times: dict[int, list[float]] = field(default_factory=dict)  # seconds, by query
    hits: dict[int, list[tuple[str, float]]] = field(default_factory=dict)

    def start(self, limit: float) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=serve, args=(self.name, self.folder, emptied(self.home), theirs), daemon=True
        )
        self.process.start()
        theirs.close()
        self.told = self._receive(limit)

    def ask(self, rows: list[int], *, limit: float = ASK_LIMIT) -> list[float]:
        times, hits = self._exchange(rows, limit)
        for row, seconds, found in zip(rows, times, hits, strict=True):
            self.times.setdefault(row, []).append(seconds)
            self.hits[row] = found
        return times

    def warm_up(self) -> None:
        self.ask(list(range(WARM_UP)))
        self.times.clear()

    def finish(self) -> None:
        self.told |= self._exchange(None, LOAD_LIMIT)
        self.process.join(20)

    def stop(self) -> None:
        import psutil

        if self.process.is_alive():
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
            self.process.kill()
            self.process.join()
        emptied(self.home)

    def _exchange(self, message: Any, limit: float) -> Any:
        try:
            self.pipe.send(message)
        except OSError:
            raise self._ended() from None
        return self._receive(limit)

    def _receive(self, limit: float) -> Any:
        try:
            if not self.pipe.poll(limit):
                raise PeerFailed(self.name, f"took longer than {limit:.0f} s")
            told = self.pipe.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(told, tuple) and told[0] == "failed":
            raise PeerFailed(self.name, told[1])
        return told

    def _ended(self) -> PeerFailed:
        self.process.join(5)
        return PeerFailed(self.name, f"its process ended with code {self.process.exitcode}")


def interleave(run: Run, ours: Run, queries: int, turn: int) -> list[float]:
    """Ask both in rounds; give the ratios of their times, query by query."""
    run.warm_up()
    ratios, start = [], time.perf_counter()
    for chosen in np.array_split(np.arange(queries), ROUNDS):
        shared = chosen[turn % SHARE :: SHARE].tolist()
        base = dict(zip(shared, ours.ask(shared), strict=True))
        rows = chosen.tolist()
        took = dict(zip(rows, run.ask(rows), strict=True))
        ratios += [took[row] / base[row] for row in shared]
        if time.perf_counter() - start > ASK_LIMIT:
            break  # a slow peer is measured on the rounds it got through
    return ratios


@dataclass
class Truth:
    """Exact attention in float64: scores of keys, and log Z for each query and τ."""

    table: Table
    tenth: np.ndarray  # (q,) score of the exact tenth
    log_z: dict[float, np.ndarray]  # τ: (q,)

    @classmethod
    def of(cls, table: Table) -> Truth:
        queries = table.query_vectors.astype(np.float64)
        tenth = np.empty(len(queries))
        log_z = {tau: np.empty(len(queries)) for tau in TEMPERATURES}
        for start in range(0, len(queries), 50):
            part = slice(start, start + 50)
            scores = np.concatenate(
                [
                    queries[part] @ table.vectors[b].astype(np.float64).T
                    for b in table.batches(20_000)
                ],
                axis=1,
            )
            tenth[part] = np.partition(scores, -SHOWN, axis=1)[:, -SHOWN]
            most = scores.max(axis=1)
            for tau in TEMPERATURES:
                shifted = np.exp((scores - most[:, None]) / tau)
                log_z[tau][part] = most / tau + np.log(shifted.sum(axis=1))
        return cls(table, tenth, log_z)

    def judge(self, run: Run) -> dict[str, Any]:
        """Give a run's recall, and its claims for the first hit against the truth."""
        row_of = {key: row for row, key in enumerate(self.table.keys)}
        asked = sorted(run.hits)
        recalls, firsts = [], []
        for query in asked:
            rows = [row_of[key] for key, _ in run.hits[query]]
            vector = self.table.query_vectors[query].astype(np.float64)
            scores = self.table.vectors[rows].astype(np.float64) @ vector
            recalls.append(np.count_nonzero(scores >= self.tenth[query] - TIE) / SHOWN)
            firsts.append(scores[0])
        claims = {}
        for tau in TEMPERATURES:
            true = np.exp(np.array(firsts) / tau - self.log_z[tau][asked])
            if run.told["stated"]:
                claimed = np.array(run.told["stated"][tau])[asked]
            else:
                claimed = np.array([claim(run.hits[query], tau) for query in asked])
            ratio = percentiles(claimed / true, 10, 50, 90)
            claims[str(tau)] = {
                "true_median": float(np.median(true)),
                "claimed_median": float(np.median(claimed)),
                "ratio": ratio,
                "error_p90": float(np.percentile(np.abs(claimed - true), 90)),
            }
        return {"recall": float(np.mean(recalls)), "claims": claims}


def claim(hits: list[tuple[str, float]], temperature: float) -> float:
    """Softmax over the scores of the hits alone: the first one's share."""
    scores = np.array([score for _, score in hits])
    return float(1 / np.exp((scores - scores[0]) / temperature).sum())


def figures(run: Run, ratios: list[float], truth: Truth) -> dict[str, Any]:
    took = np.array([seconds for times in run.times.values() for seconds in times]) * 1e3
    told = {name: value for name, value in run.told.items() if name != "stated"}
    return {
        **told,
        "queries": len(run.hits),
        "p50_ms": float(np.percentile(took, 50)),
        "p99_ms": float(np.percentile(took, 99)),
        "ratio": percentiles(ratios, 10, 50, 90) if ratios else [1.0, 1.0, 1.0],
        **truth.judge(run),
    }


def compare(names: list[str], table: Table, minutes: float, work: Path) -> dict[str, Any]:
    """Run softdict, then each peer beside it."""
    deadline = time.monotonic() + 60 * minutes
    inputs = emptied(work / "inputs")
    table.write(inputs)
    truth = Truth.of(table)
    queries, found = len(table.queries), {}
    ours = Run("softdict", inputs, work / "softdict")
    try:
        ours.start(2 * LOAD_LIMIT)
        ours.warm_up()
        ours.ask(list(range(queries)), limit=5 * ASK_LIMIT)
        for turn, name in enumerate(name for name in names if name != "softdict"):
            run = Run(name, inputs, work / "peer")
            left = deadline - time.monotonic()
            print(f"{name}: {left / 60:.1f} minutes left", file=sys.stderr, flush=True)
            if left < 0:
                found[name] = {"failed": f"not run: {minutes:g} minutes were over"}
                continue
            try:
                run.start(min(LOAD_LIMIT, left))
                ratios = interleave(run, ours, queries, turn)
                run.finish()
                found[name] = figures(run, ratios, truth)
            except PeerFailed as fault:
                if fault.peer == ours.name:
                    raise
                found[name] = {"failed": str(fault)}
            finally:
                run.stop()
        ours.finish()
    except PeerFailed as fault:
        return {"softdict": {"failed": str(fault)}, **found}
    finally:
        ours.stop()
    return {"softdict": figures(ours, [], truth), **found}


# What is printed


def tables(found: dict[str, Any]) -> str:
    good = {name: figure for name, figure in found.items() if "failed" not in figure}
    costs, claims = [], []
    for name, f in good.items():
        low, middle, high = f["ratio"]
        sizes = [f[moment] - f["rss_imported"] for moment in ("rss_loaded", "rss_asked")]
        costs.append([
            name, f"{f['load_s']:.1f} s",
            *(f"{size / 1e6:,.0f} MB" for size in (*sizes, f["disk_bytes"])),
            f"{f['p50_ms']:.2f} ms", f"{f['p99_ms']:.2f} ms",
            f"{middle:.2f} ({low:.2f}-{high:.2f})", f"{f['recall']:.3f}",
        ])  # fmt: skip
        claims.append([name])
        for c in f["claims"].values():
            low, middle, high = c["ratio"]
            claims[-1] += [f"{middle:,.4g} ({low:,.3g}-{high:,.3g})", f"{c['error_p90']:.2g}"]
    of_taus = [head for tau in TEMPERATURES for head in (f"τ = {tau}: claimed/true", "error")]
    lines = [
        markdown(["peer", "load", "memory, loaded", "after queries", "disk", "p50", "p99",
                  "ratio", "recall"], costs),
        "", markdown(["first hit's weight", *of_taus], claims), "",
    ]  # fmt: skip
    for name, f in found.items():
        if "failed" in f:
            lines.append(f"- {name}: **no figures**. {f['failed']}")
            continue
        versions = ", ".join(f"{what} {number}" for what, number in f["versions"].items())
        short = f" Answered {f['queries']} queries in the time it had." * (f["queries"] < 1000)
        lines.append(f"- {name}: {versions}. {f['setting']}.{short}")
    return "\n".join(lines)


def real_table(corpus: Path, embedded: int, count: int, work: Path) -> Table:
    from bench.real_keys import real_keys

    real = real_keys(corpus, embedded, work)
    part = slice(0, count)
    return Table(
        real.keys[part], real.label[part].tolist(), real.length[part].tolist(),
        real.vectors[part], real.queries, real.query_vectors,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--embedded", type=int, default=1_000_000, help="keys of real_keys")
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--work", type=Path, default=Path("work/bench"), help="real_keys' vectors")
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS), metavar="PEER")
    parser.add_argument("--minutes", type=float, default=13, help="no peer starts after these")
    parser.add_argument("--out", type=Path, help="raw figures, JSON")
    given = parser.parse_args()
    os.environ.update(QUIET)
    if importlib.util.find_spec("psutil") is None:
        print("Its peers are missing: pip install -r bench/requirements.txt", file=sys.stderr)
        return
    table = real_table(given.corpus, given.embedded, given.keys, given.work)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="softdict-peers-") as work:
        os.chmod(work, 0o711)  # PostgreSQL may have to run as another user
        found = compare(given.only, table, given.minutes, Path(work))
    asked = f"{len(table):,} keys, {len(table.queries):,} queries"
    head = f"{machine()}. {asked}, queries on one core; {time.perf_counter() - start:.0f} s in all."
    print(f"{head}\n\n{tables(found)}")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        raw = {"machine": machine(), "keys": len(table), "temperatures": TEMPERATURES}
        given.out.write_text(json.dumps({**raw, "peers": found}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()

"""Error against time: softdict, top-k of FAISS IVF and HNSW renormalised, a uniform sample, a scan.

    python -m bench.real_keys          # embeds a million keys, once: 10 to 60 minutes
    python -m bench.curves [--keys 1000000] [--out work/curves.json] [--svg bench/curves.svg]

Everyone answers the same held-out queries, one at a time, with as many threads as it likes. A
point is the median time of a query, from its vector to weights, and the 95th percentile of the
error.

error        total variation between the weights that a method states for the keys it lists, a
             hundred or k, and exact attention in float64; the hundred truly best keys stand by
             themselves, too (with no weight if they are not listed), all others are one part
softdict     ``attend_keys`` at tolerances of .3 to .005; where it scans, it is left out
top k        softmax over the k hits alone, k = 10 and 100, of IVF with √n cells (nprobe 1 to 256)
             and HNSW (M = 16, efConstruction = 64; ef 16 to 1,024)
uniform      m keys drawn evenly, which stand for n/m keys each, and the best of them; drawing
             them is not timed
scan         ``attend_keys`` at tolerance 0

Methods do not take turns over one another, which would need all indexes in memory at once; the
time of the plain product ``K @ q``, measured during each, says whether the machine changed.

It takes about 8 minutes at a million keys on two cores, up to 5 of them for HNSW's graph, and
2 more where the sketch is not kept yet.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from bench import _large
from bench._common import markdown, percentiles
from bench._large import Best, Truth
from index.search import attend_keys
from index.snapshot import Snapshot

TEMPERATURES = (0.05, 0.1)
LISTED = 100  # keys, and as many that are truly best
TOLERANCES = (0.3, 0.1, 0.03, 0.02, 0.01, 0.005)
DRAWN = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
NPROBE = (1, 2, 4, 8, 16, 32, 64, 128, 256)
EF = (16, 32, 64, 128, 256, 512, 1024)
PRODUCT_EVERY = 10  # queries

Listed = tuple[np.ndarray, np.ndarray]  # rows and their weights
Method = Callable[[np.ndarray, float], Listed | None]  # of a query at τ; None: it scans instead


def softmax(scores: np.ndarray, tau: float) -> np.ndarray:
    exps = np.exp((scores.astype(np.float64) - scores.max(initial=-1.0)) / tau)
    return exps / exps.sum()


def softdicts(snapshot: Snapshot) -> Iterator[tuple[str, float, Method]]:
    def attend(query: np.ndarray, tau: float, tolerance: float) -> Listed | None:
        (found,) = attend_keys(
            snapshot,
            query[np.newaxis],
            temperature=tau,
            allowed=snapshot.alive,
            k=LISTED,
            tolerance=tolerance,
        )
        if tolerance and found.rows is None:
            return None
        return found.state.top_rows[0], found.state.top_weights[0]

    for tolerance in TOLERANCES:

        def sampled(query: np.ndarray, tau: float, tolerance: float = tolerance) -> Listed | None:
            return attend(query, tau, tolerance)

        yield "softdict", tolerance, sampled
    yield "scan", 0, lambda query, tau: attend(query, tau, 0.0)


def uniforms(keys: np.ndarray) -> Iterator[tuple[str, float, Method]]:
    rng = np.random.default_rng(0)
    for count in DRAWN:
        if count <= len(keys) / 2:
            rows = [rng.choice(len(keys), count, replace=False) for _ in range(20)]

            def drawn(
                query: np.ndarray, tau: float, rows: list[np.ndarray] = rows
            ) -> Listed | None:
                some = rows[hash(query[0].item()) % len(rows)]
                weights = softmax(keys.take(some, axis=0) @ query, tau) * len(some) / len(keys)
                best = np.argpartition(-weights, LISTED)[:LISTED]
                return some[best], weights[best]

            yield "uniform", count, drawn


def top_k(
    name: str, settings: tuple[int, ...], ask: Callable[[np.ndarray, int, int], Any]
) -> Iterator[tuple[str, float, Method]]:
    for shown in (10, 100):
        for setting in settings:

            def found(
                query: np.ndarray, tau: float, setting: int = setting, shown: int = shown
            ) -> Listed | None:
                scores, rows = ask(query[np.newaxis], shown, setting)
                there = rows[0] >= 0
                return rows[0][there], softmax(scores[0][there], tau)

            yield f"{name}, top {shown}", setting, found


def ivf(keys: np.ndarray) -> Iterator[tuple[str, float, Method]]:
    cells = round(len(keys) ** 0.5)
    index: Any = faiss.index_factory(keys.shape[1], f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
    some = np.sort(np.random.default_rng(0).choice(len(keys), min(len(keys), 64 * cells), False))
    index.train(keys[some])
    index.add(keys)
    index.parallel_mode = 1  # threads share the cells of one query

    def ask(query: np.ndarray, k: int, nprobe: int) -> Any:
        params = faiss.SearchParametersIVF(nprobe=nprobe)  # type: ignore[call-arg]
        return index.search(query, k, params=params)

    return top_k("IVF", tuple(n for n in NPROBE if n <= cells), ask)


def hnsw(keys: np.ndarray) -> Iterator[tuple[str, float, Method]]:
    index = faiss.IndexHNSWFlat(keys.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 64
    index.add(keys)

    def ask(query: np.ndarray, k: int, ef: int) -> Any:
        params = faiss.SearchParametersHNSW(efSearch=max(ef, k))  # type: ignore[attr-defined]
        return index.search(query, k, params=params)

    return top_k("HNSW", EF, ask)


# Measuring


def error_of(
    listed: Listed,
    best: np.ndarray,
    keys: np.ndarray,
    query: np.ndarray,
    truth: tuple[float, float],
) -> float:
    """Give the total variation over what is listed and what is best, all others as one."""
    tau, mass = truth
    rows, weights = listed
    missed = np.setdiff1d(best, rows)
    true = np.exp(_large.scores_of(keys[np.append(rows, missed)], query) / tau) / mass
    return _large.total_variation(np.append(weights, np.zeros(len(missed))), true)


def measure(
    method: Method, keys: np.ndarray, queries: np.ndarray, truths: dict[float, Truth], best: Best
) -> dict[str, Any] | None:
    """Time a method query by query, and compare it with the truth; None where it scans."""
    found: dict[str, Any] = {}
    products = []
    for tau, truth in truths.items():
        times, errors = [], []
        method(queries[0], tau)
        for at, query in enumerate(queries):
            start = time.perf_counter()
            listed = method(query, tau)
            times.append(1e3 * (time.perf_counter() - start))
            if listed is None:
                return None
            mass = float(truth.mass[at])
            errors.append(error_of(listed, best.rows[at], keys, query, (tau, mass)))
            if at % PRODUCT_EVERY == 0:
                start = time.perf_counter()
                keys @ query
                products.append(1e3 * (time.perf_counter() - start))
        found[str(tau)] = {"ms": percentiles(times, 10, 50, 90, 99),
                           "error": percentiles(errors, 50, 95)}  # fmt: skip
    return found | {"product_ms": percentiles(products, 50)[0]}


def curves(
    snapshot: Snapshot, queries: np.ndarray, truths: dict[float, Truth], best: Best
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    keys = snapshot.blocks[0].vectors[:]
    points, builds = [], {}
    for make in (lambda: softdicts(snapshot), lambda: uniforms(keys),
                 lambda: ivf(keys), lambda: hnsw(keys)):  # fmt: skip
        start = time.perf_counter()
        methods = make()
        built = time.perf_counter() - start
        for name, setting, method in methods:
            builds[name.partition(",")[0]] = built
            measured = measure(method, keys, queries, truths, best)
            if measured is not None:
                points.append({"method": name, "setting": setting} | measured)
        del methods, method  # and the index with them
    return points, builds


# What is shown


def table(points: list[dict[str, Any]]) -> str:
    return markdown(
        ["method", "setting", "product then",
         *(f"τ = {tau:g}: {what}" for tau in TEMPERATURES
           for what in ("time p50", "error p50", "error p95"))],
        [[p["method"], f"{p['setting']:g}", f"{p['product_ms']:.1f} ms",
          *(cell for tau in TEMPERATURES for cell in (
              f"{p[str(tau)]['ms'][1]:.2f} ms", f"{p[str(tau)]['error'][0]:.2g}",
              f"{p[str(tau)]['error'][1]:.2g}"))] for p in points],
    )  # fmt: skip


LINES = {
    "softdict": ("#c2255c", "o-", 2.2),
    "uniform": ("#868e96", "v--", 1.2),
    "IVF, top 10": ("#74a9cf", "s:", 1.2),
    "IVF, top 100": ("#0570b0", "s-", 1.2),
    "HNSW, top 10": ("#a1d99b", "^:", 1.2),
    "HNSW, top 100": ("#238b45", "^-", 1.2),
}


def draw(points: list[dict[str, Any]], what: str, path: Path) -> None:
    """Draw a panel for each τ, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "softdict", "font.size": 9,
                            "font.family": "sans-serif"}  # fmt: skip
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 4.4), sharey=True, layout="constrained")
    for panel, tau in zip(panels, map(str, TEMPERATURES), strict=True):
        for name, (colour, style, width) in LINES.items():
            mine = [p[tau] for p in points if p["method"] == name]
            panel.plot(
                [p["ms"][1] for p in mine], [p["error"][1] for p in mine],
                style, color=colour, linewidth=width, markersize=4, label=name,
            )  # fmt: skip
        for p in points:
            if p["method"] == "scan":
                panel.axvline(p[tau]["ms"][1], color="black", linewidth=1, label="scan (no error)")
        panel.set(xscale="log", yscale="log", title=f"τ = {tau}", xlabel="time of a query, ms")
        panel.grid(alpha=0.25, which="both", linewidth=0.5)
    panels[0].set_ylabel("total variation error, 95th percentile")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(what, fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    parser = _large.arguments(__doc__)
    _large.ask(parser, 200)
    parser.add_argument("--svg", type=Path, default=Path("bench/curves.svg"))
    given = parser.parse_args()
    drawn = importlib.util.find_spec("matplotlib") is not None
    if not drawn:
        print("No picture will be drawn: pip install the matplotlib of bench/requirements.txt")
    started = time.perf_counter()
    snapshot, queries = _large.sketched(given)
    truths, best = _large.exact_attention(snapshot, queries, TEMPERATURES, best=LISTED)
    points, builds = curves(snapshot, queries, truths, best)
    what = f"{len(snapshot):,} real keys, {len(queries):,} queries"
    print(_large.head(what))
    print(table(points))
    print("\nBuilt in: " + ", ".join(f"{n} {s:.0f} s" for n, s in builds.items() if s > 1))
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes")
    _large.write(given.out, {"what": what, "points": points, "built_s": builds})
    if drawn:
        draw(points, what, given.svg)


if __name__ == "__main__":
    main()

"""Head and tail beside exact attention, on real keys: how far off, how well told, how much faster.

    python -m bench.real_keys          # embeds a million keys, once: 10 to 60 minutes
    python -m bench.scale [--keys 1000000] [--out work/scale.json]

A million sentences and places, 1,000 held-out queries of both kinds, one at a time. Values:
language or country, length, latitude, longitude and the place on the globe as a vector; a
sentence has no place, so blends of places are over the keys that have one. Exact attention is
computed in float64: products, exponentials and sums.

error        total variation between the weights softdict states and exact ones, over every key
             that it computed one by one and all others as one part; of the ten listed alike
told         the error that softdict states, with the share of queries in which it is at least
             the true one (what float32 scores alone cause, 1e-6, counts as none), and how many
             times the true one it is in the middle query
blend        distance of the blended number from the exact one, in standard deviations of the
             value over the keys that have it (for the vector: root mean squared distance).
             Where less than half of the weight has a value, softdict may have to attend to the
             keys that have one alone, which takes longer: those queries are shown apart, too
labels       total variation of the listed labels' shares, the unlisted as one
recall       share of the ten listed keys that score as high as the exact tenth
time         a whole ``attend_keys`` and ``blend_attention``, from the query's vector on; the peers
             are the same at tolerance 0, and the plain product ``K @ q``. They take turns:
             five sampled queries, then the scan and the product of one of them. A ratio is
             that of the medians and of the 99th percentiles; in brackets the 10th to 90th
             percentile of the ratio query by query

It takes about 8 minutes at a million keys on two cores, 2 of them for the sketch, which is kept.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench import _large
from bench._common import SHOWN, TIE, markdown, percentiles, seconds
from bench._large import Truth
from index.answers import Blend
from index.blending import blend_attention
from index.search import TOLERANCE, Attention, attend_keys
from index.snapshot import Snapshot

TEMPERATURES = (0.01, 0.02, 0.03, 0.05, 0.1)  # a dataset of these keys fits itself the first
TURN = 5  # sampled queries, of which one is also scanned
PLACE = ("latitude", "longitude", "globe")
NUMBERS = ("length", *PLACE)
MOSTLY = 0.5  # of the weight has a place
ERROR, BLEND, COVERED, VACUOUS, RECALL = 0.03, 0.03, 0.95, 4.0, 0.98  # wanted
FASTER = {0.01: 15, 0.02: 15, 0.03: 15, 0.05: 15, 0.1: 8}

Found = tuple[Attention, dict[str, Blend | None]]


def answer(
    snapshot: Snapshot,
    query: np.ndarray,
    tau: float,
    tolerance: float,
    allowed: np.ndarray | None = None,
) -> Found:
    allowed = snapshot.alive if allowed is None else allowed
    (found,) = attend_keys(
        snapshot,
        query[np.newaxis],
        temperature=tau,
        allowed=allowed,
        k=SHOWN,
        tolerance=tolerance,
    )
    blends = blend_attention(snapshot, query, found, allowed=allowed, tolerance=tolerance)
    return found, blends


def measure(
    snapshot: Snapshot, queries: np.ndarray, tau: float
) -> tuple[list[Found], dict[str, dict[int, float]]]:
    """Answer every query from a sample, and some by a scan: answers, and seconds by query."""
    rows = snapshot.blocks[0].vectors[:]
    times: dict[str, dict[int, float]] = {"sampled": {}, "exact": {}, "product": {}}
    found: list[Found] = []
    for tolerance in (0.0, TOLERANCE):
        answer(snapshot, queries[0], tau, tolerance)
    for at, query in enumerate(queries):
        times["sampled"][at], made = seconds(lambda q=query: answer(snapshot, q, tau, TOLERANCE))
        found.append(made)
        if at % TURN == TURN - 1:
            # Not the query just before: a scan leaves nothing of it in the cache for the next.
            scanned = at - TURN // 2
            asked = queries[scanned]
            times["exact"][scanned], _ = seconds(lambda q=asked: answer(snapshot, q, tau, 0.0))
            times["product"][scanned], _ = seconds(lambda q=asked: rows @ q)
    return found, times


def judge(
    snapshot: Snapshot, queries: np.ndarray, found: list[Found], truth: Truth, tenth: np.ndarray
) -> dict[str, list[float]]:
    """Compare every answer with exact attention: figures by query."""
    keys = snapshot.blocks[0].vectors[:]
    names = ("error", "error_listed", "told", "recall", "scored", "effective_keys", "coverage",
             "known")  # fmt: skip
    by: dict[str, list[float]] = {name: [] for name in (*names, "label", *NUMBERS)}
    for at, (attention, blends) in enumerate(found):
        mass = float(truth.mass[at])
        listed = _large.scores_of(keys[attention.state.top_rows[0]], queries[at])
        by["error"].append(_large.error_of(attention, keys, queries[at], mass))
        by["error_listed"].append(_large.error_of_listed(attention, listed, mass))
        by["told"].append(attention.error)
        by["recall"].append(float(np.mean(listed >= tenth[at] - TIE)))
        by["scored"].append(attention.scored)
        by["effective_keys"].append(float(attention.state.effective_keys[0]))
        by["coverage"].append(attention.coverage)
        by["known"].append(float(truth.known["globe"][at]))
        for name, off in _large.blend_errors(blends, truth, at, snapshot.labels[0]):
            by[name].append(off)
    return by


def figures(
    by: dict[str, list[float]], times: dict[str, dict[int, float]], keys: int
) -> dict[str, Any]:
    error, told = np.array(by["error"]), np.array(by["told"])
    mostly = np.array(by["known"]) >= MOSTLY
    made: dict[str, Any] = {
        "error": percentiles(error, 50, 95, 99),
        "error_listed": percentiles(by["error_listed"], 50, 95, 99),
        "told": percentiles(told, 50, 95, 99),
        "covered": float(np.mean(told + _large.ROUNDING >= error)),
        "told_over_true": percentiles(told / np.maximum(error, 1e-12), 50)[0],
        "recall": float(np.mean(by["recall"])),
        "scored": percentiles(by["scored"], 50, 99),
        "scanned": float(np.mean(np.array(by["scored"]) == keys)),
        "effective_keys": percentiles(by["effective_keys"], 50)[0],
        "coverage": percentiles(by["coverage"], 50)[0],
    }
    parts = {"all": np.ones(len(error), bool), "known": mostly, "little known": ~mostly}
    made["queries"] = {part: int(mask.sum()) for part, mask in parts.items()}
    for name in ("label", *NUMBERS):
        off = np.array(by[name])
        made[name] = {part: percentiles(off[mask], 50, 95) if mask.any() else [0.0, 0.0]
                      for part, mask in parts.items()}  # fmt: skip
    sampled = np.array([times["sampled"][at] for at in range(len(error))])
    made["sampled_ms_by_part"] = {
        part: [1e3 * t for t in percentiles(sampled[mask], 50, 99)] if mask.any() else [0.0, 0.0]
        for part, mask in parts.items()
    }
    for peer, of_query in times.items():
        made[f"{peer}_ms"] = [1e3 * t for t in percentiles(list(of_query.values()), 50, 99)]
    for peer in ("exact", "product"):
        each = [t / times["sampled"][at] for at, t in times[peer].items()]
        made[f"{peer}_ratio"] = [
            *(a / b for a, b in zip(made[f"{peer}_ms"], made["sampled_ms"], strict=True)),
            *percentiles(each, 10, 90),
        ]
    return made


def wanted(tau: float, f: dict[str, Any]) -> dict[str, tuple[str, str, bool]]:
    """Say what was wanted, what was found, and whether that is as wanted."""
    worst = max(f[name]["all"][1] for name in NUMBERS)
    known = max(f["length"]["all"][1], *(f[name]["known"][1] for name in PLACE))
    vacuous = f["told"][0] / max(f["error"][0], 1e-12)
    p50, p99 = f["exact_ratio"][:2]
    return {
        "error, p95": (f"≤ {ERROR}", f"{f['error'][1]:.4f}", f["error"][1] <= ERROR),
        "worst blend, p95": (f"≤ {BLEND} sd", f"{worst:.4f}", worst <= BLEND),
        "the same, mostly known": (f"≤ {BLEND} sd", f"{known:.4f}", known <= BLEND),
        "told ≥ true": (f"≥ {COVERED:.0%}", f"{f['covered']:.1%}", f["covered"] >= COVERED),
        "told / true, medians": (f"≤ {VACUOUS:g}", f"{vacuous:.2f}", vacuous <= VACUOUS),
        "recall@10": (f"≥ {RECALL}", f"{f['recall']:.4f}", f["recall"] >= RECALL),
        "faster, p50": (f"≥ {FASTER[tau]}", f"{p50:.1f}", p50 >= FASTER[tau]),
        "faster, p99": (f"≥ {FASTER[tau]}", f"{p99:.1f}", p99 >= FASTER[tau]),
    }


def tables(found: dict[float, dict[str, Any]]) -> str:
    errors = markdown(
        ["τ", "error p50", "error p95", "listed p95", "told p50", "told ≥ true", "told/true p50",
         *(f"{name} p95" for name in NUMBERS), "labels p95", "recall@10", "effective keys",
         "coverage", "scored p50", "scanned"],
        [[f"{tau:g}", f"{f['error'][0]:.2g}", f"{f['error'][1]:.4f}", f"{f['error_listed'][1]:.4f}",
          f"{f['told'][0]:.2g}", f"{f['covered']:.1%}", f"{f['told_over_true']:.2f}",
          *(f"{f[name]['all'][1]:.4f}" for name in NUMBERS), f"{f['label']['all'][1]:.4f}",
          f"{f['recall']:.4f}", f"{f['effective_keys']:,.0f}", f"{f['coverage']:.2f}",
          f"{f['scored'][0]:,.0f}", f"{f['scanned']:.1%}"] for tau, f in found.items()],
    )  # fmt: skip
    parts = {"known": f"≥ {MOSTLY:.0%}", "little known": f"< {MOSTLY:.0%}"}
    known = markdown(
        ["τ", "weight with a place", "queries", *(f"{name} p50 / p95" for name in PLACE),
         "sampled p50", "p99", "exact/sampled p50", "p99"],
        [[f"{tau:g}", says, f"{f['queries'][part]}",
          *(f"{f[name][part][0]:.4f} / {f[name][part][1]:.4f}" for name in PLACE),
          *(f"{ms:.2f} ms" for ms in f["sampled_ms_by_part"][part]),
          *(f"{a / b:.1f}" for a, b in
            zip(f["exact_ms"], f["sampled_ms_by_part"][part], strict=True))]
         for tau, f in found.items() for part, says in parts.items() if f["queries"][part]],
    )  # fmt: skip
    times = markdown(
        ["τ", "sampled p50", "p99", "exact p50", "p99", "product p50", "p99",
         "exact/sampled p50", "p99", "query by query", "product/sampled p50", "p99"],
        [[f"{tau:g}", *(f"{ms:.2f} ms" for peer in ("sampled", "exact", "product")
                        for ms in f[f"{peer}_ms"]),
          *(f"{r:.1f}" for r in f["exact_ratio"][:2]),
          f"{f['exact_ratio'][2]:.1f}-{f['exact_ratio'][3]:.1f}",
          *(f"{r:.1f}" for r in f["product_ratio"][:2])] for tau, f in found.items()],
    )  # fmt: skip
    judged = {tau: wanted(tau, f) for tau, f in found.items()}
    verdicts = markdown(
        ["figure", *(f"τ = {tau:g}" for tau in judged)],
        [[what, *(f"{asked[what][1]} ({asked[what][0]}) {'PASS' if asked[what][2] else '**short**'}"
                  for asked in judged.values())] for what in next(iter(judged.values()))],
    )  # fmt: skip
    return "\n\n".join([errors, known, times, verdicts])


def main() -> None:
    parser = _large.arguments(__doc__)
    _large.ask(parser, 1000)
    given = parser.parse_args()
    started = time.perf_counter()
    snapshot, queries = _large.sketched(given)
    truths, best = _large.exact_attention(snapshot, queries, TEMPERATURES)
    found = {}
    for tau in TEMPERATURES:
        answers, times = measure(snapshot, queries, tau)
        by = judge(snapshot, queries, answers, truths[tau], best.scores[:, -1])
        found[tau] = figures(by, times, len(snapshot))
    what = f"{len(snapshot):,} real keys, {len(queries):,} queries, tolerance {TOLERANCE}"
    print(_large.head(what))
    print(tables(found))
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes")
    by_tau = {str(tau): f for tau, f in found.items()}
    judged = {str(tau): wanted(tau, f) for tau, f in found.items()}
    _large.write(given.out, {"what": what, "by_temperature": by_tau, "wanted": judged})


if __name__ == "__main__":
    main()

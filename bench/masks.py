"""Attention under a mask: .01 % to 100 % of the keys allowed, at random or all of a kind.

    python -m bench.real_keys          # embeds a million keys, once: 10 to 60 minutes
    python -m bench.masks [--keys 1000000] [--out work/masks.json]

*random* allows each key by chance. *clustered* allows all keys of some languages and countries:
the one whose share is nearest, or several in random order until the share is reached.
*sentences* and *places* allow one kind of key. Queries of both kinds ask under every mask, so
many of them look for what is not allowed.

time         a whole ``attend_keys`` and ``blend_attention``, at the default tolerance; in turns
             with the same at tolerance 0 (*scan*) and a plain product with the allowed keys alone,
             gathered beforehand (*allowed only*: what nothing can beat that looks at each). Where
             they are more than 100,000, it is of the first 100,000, times their number over that
exact        share of queries in which every allowed key was scored, and nothing estimated
error        total variation between the weights that softdict states and exact attention, in
             float64, over the allowed keys alone: as if the others had never been there; over
             every key that it computed one by one and all others as one
told ≥ true  share of the other queries in which the stated error is at least the true one (what
             float32 scores alone cause, 1e-6, counts as none); empty where all are exact
recall       share of the ten listed keys (or of all, where fewer are allowed) that score as high
             as the exact tenth of the allowed ones; *rows* is the least number listed of them

It takes about 9 minutes at a million keys on two cores, and 2 more where the sketch is not
kept yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import _large
from bench._common import SHOWN, TIE, markdown, percentiles, seconds
from bench.scale import answer
from index.search import TOLERANCE
from index.snapshot import Snapshot

SHARES = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.15, 0.25, 0.5, 0.9, 1.0)
TEMPERATURES = (0.05, 0.1)


def random_mask(snapshot: Snapshot, share: float) -> np.ndarray:
    chosen = np.random.default_rng(1).random(snapshot.rows) < share
    return chosen if chosen.any() else np.arange(snapshot.rows) == 0


def clustered_mask(snapshot: Snapshot, share: float) -> np.ndarray:
    """Allow all keys of one label, or of several: about as many as the share asks for."""
    codes = snapshot.blocks[0].columns[0]
    counts, wanted = np.bincount(codes), share * len(codes)
    if wanted <= counts.max():
        return codes == np.abs(counts - wanted).argmin()
    order = np.random.default_rng(1).permutation(len(counts))
    enough = np.searchsorted(counts[order].cumsum(), wanted * (1 - 1e-9)) + 1
    return np.isin(codes, order[:enough])


def masks(snapshot: Snapshot) -> Iterator[tuple[str, np.ndarray]]:
    for share in SHARES:
        yield "random", random_mask(snapshot, share)
    for share in SHARES:
        yield "clustered", clustered_mask(snapshot, share)
    sentences = np.isnan(snapshot.blocks[0].columns[2])  # they have no latitude
    yield "sentences", sentences
    yield "places", ~sentences


def measure(
    snapshot: Snapshot, queries: np.ndarray, exact: np.ndarray, allowed: np.ndarray, tau: float
) -> dict[str, Any]:
    """Ask under one mask; ``exact`` are the (q, n) float64 scores of all keys."""
    keys = snapshot.blocks[0].vectors[:]
    # The product's time is one of gathered keys; a few chunks of them stand for many.
    alone = keys[np.flatnonzero(allowed)[:100_000]]
    times: dict[str, list[float]] = {"sampled": [], "scan": [], "allowed only": []}
    figures: dict[str, list[float]] = {n: [] for n in ("error", "told", "recall", "rows", "exact")}
    for tolerance in (TOLERANCE, 0.0):
        answer(snapshot, queries[0], tau, tolerance, allowed)
    for at, query in enumerate(queries):
        took, (found, _) = seconds(lambda q=query: answer(snapshot, q, tau, TOLERANCE, allowed))
        times["sampled"].append(took)
        if at % 5 == 0:
            asked = queries[at - 2]
            took, _ = seconds(lambda q=asked: answer(snapshot, q, tau, 0.0, allowed))
            times["scan"].append(took)
            took, _ = seconds(lambda q=asked: alone @ q)
            times["allowed only"].append(took * np.count_nonzero(allowed) / len(alone))
        masked = exact[at][allowed]
        mass = float(np.exp(masked / tau).sum())
        rows, claimed = _large.computed(found)
        figures["error"].append(
            _large.total_variation(claimed, np.exp(exact[at][rows] / tau) / mass)
        )
        figures["told"].append(found.error)
        figures["exact"].append(found.counts is None)
        top = found.state.top_rows[0]
        top = top[top >= 0]
        wanted = min(SHOWN, len(masked))
        bar = np.partition(masked, -wanted)[-wanted]
        right = allowed[top] & (exact[at][top] >= bar - TIE)
        figures["recall"].append(np.count_nonzero(right) / wanted)
        figures["rows"].append(len(np.unique(top[allowed[top]])) / wanted)
    told, error = np.array(figures["told"]), np.array(figures["error"])
    within = (told + _large.ROUNDING >= error)[~np.array(figures["exact"], bool)]
    return {
        "allowed": int(np.count_nonzero(allowed)),
        "error": percentiles(error, 50, 95),
        "told": percentiles(told, 50, 95),
        "covered": float(np.mean(within)) if len(within) else None,
        "recall": float(np.mean(figures["recall"])),
        "recall_p5": percentiles(figures["recall"], 5)[0],
        "rows": min(figures["rows"]),
        "exact": float(np.mean(figures["exact"])),
        **{f"{name}_ms": [1e3 * t for t in percentiles(took, 50, 99)]
           for name, took in times.items()},
    }  # fmt: skip


def table(found: list[dict[str, Any]]) -> str:
    return markdown(
        ["mask", "allowed", "τ", "time p50", "p99", "scan p50", "allowed only", "exact",
         "error p95", "told p50", "told ≥ true", "recall@10", "worst 5 %", "rows"],
        [[f["mask"], f"{f['allowed']:,} ({f['allowed'] / f['keys']:.2%})", f"{f['temperature']:g}",
          *(f"{ms:.2f} ms" for ms in f["sampled_ms"]), f"{f['scan_ms'][0]:.2f} ms",
          f"{f['allowed only_ms'][0]:.2f} ms", f"{f['exact']:.0%}", f"{f['error'][1]:.2g}",
          f"{f['told'][0]:.2g}", "" if f["covered"] is None else f"{f['covered']:.1%}",
          f"{f['recall']:.3f}", f"{f['recall_p5']:.2f}", f"{f['rows'] * SHOWN:g} of {SHOWN}"]
         for f in found],
    )  # fmt: skip


def main() -> None:
    parser = _large.arguments(__doc__)
    _large.ask(parser, 100)
    given = parser.parse_args()
    started = time.perf_counter()
    snapshot, queries = _large.sketched(given)
    exact = _large.scores_of(snapshot.blocks[0].vectors[:], queries)
    found = []
    for name, allowed in masks(snapshot):
        for tau in TEMPERATURES:
            measured = measure(snapshot, queries, exact, allowed, tau)
            about = {"mask": name, "keys": len(snapshot), "temperature": tau}
            found.append(about | measured)
    what = f"{len(snapshot):,} real keys, {len(queries):,} queries, tolerance {TOLERANCE}"
    print(_large.head(what))
    print(table(found))
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes")
    _large.write(given.out, {"what": what, "masks": found})


if __name__ == "__main__":
    main()

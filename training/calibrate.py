"""Fit what the encoder's cosines mean: its default temperature, and its confidence.

Temperature. Small dictionaries (4–50 keys) are drawn in which the right keys are known: the
translation of a word, the members of a category, the label of a question. τ is the one under
which attention is nearest to sharing itself evenly among the right keys:

    τ = argmin_τ mean over sources of E[ −(1/m) Σ_{right i} log softmax(scores/τ)_i ]

Confidence. P(the dictionary holds an answer) from the scores of all n allowed keys of one query:

    P = 1 / (1 + exp(−(intercept + a·top + b·log_keys)))
    top = max score      log_keys = ln n

fitted by logistic regression to queries over 1–4,096 keys that hold an answer half of the time,
on one half of the words, categories, intents and sentences, and checked on the other half. The
lift of the best score over their mean was tried beside the two and adds nothing. For more keys,
see ``crowds``.
"""

import itertools
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from index.confidence import confidence
from training import arguments, crowds, evaluate, in_words, student

GRID = np.geomspace(0.02, 0.4, 61)
TRIALS = 3000  # a source and a half
LEAST = 4  # right answers that differ, of a source: each half wants some, and wrong ones besides
# CLINC150 intents that Banking77 also knows: not evidence of an absent answer.
SHARED = ("bal", "bill", "pay", "transaction", "card", "credit", "account", "transfer", "pin",
          "fraud", "bank", "apr", "interest", "exchange", "check", "spend", "routing", "rewards",
          "limit", "freeze", "income", "direct_deposit", "international_fees", "rollover",
          "insurance", "taxes", "w2", "order", "report", "lost", "damaged", "expiration",
          "application", "travel_notification", "min_payment")  # fmt: skip


@dataclass
class Source:
    """Queries over a pool of keys: ``group`` says which keys answer a query (−1: none does)."""

    name: str
    scores: np.ndarray  # (q, n)
    query_group: np.ndarray
    key_group: np.ndarray
    fit: np.ndarray  # (q,) bool: the half that is fitted on


def halves(groups: np.ndarray, seed: int) -> np.ndarray:
    names, where = np.unique(groups, return_inverse=True)
    return np.random.default_rng(seed).permutation(len(names))[where] % 2 == 0


def sources(encode, prepared: Path, folder: Path, seed: int) -> list[Source]:
    rng = random.Random(seed)
    dev = json.loads((prepared / "dev.json").read_text(encoding="utf-8"))
    found = []

    def add(name, queries, keys, query_group, key_group) -> None:
        query_group, key_group = np.array(query_group), np.array(key_group)
        if len(np.intersect1d(query_group, key_group)) < LEAST:
            print(f"{name}: too few to tell, left out")
            return
        alone = 10**6 + np.arange(len(query_group))  # each query that no key answers
        fit = halves(np.where(query_group < 0, alone, query_group), seed)
        scores = encode(list(queries)) @ encode(list(keys)).T
        found.append(Source(name, scores, query_group, key_group, fit))

    for part in ("words", "sentences"):
        for language in sorted({row[0] for row in dev[part]}):
            pairs = {en: text for lang, text, en in dev[part] if lang == language}
            rows = list(pairs.items())[:500]
            numbers = range(len(rows))
            add(f"{part} {language}→en", [f for _, f in rows], [e for e, _ in rows],
                numbers, numbers)  # fmt: skip
    for language in evaluate.languages(dev):
        kept = [c for c in dev["categories"] if language in c["category"]]
        members = [(m[language][0], i) for i, c in enumerate(kept)
                   for m in c["members"] if language in m]  # fmt: skip
        heads = [(head, i) for i, c in enumerate(kept) for head in c["category"][language][:2]]
        add(f"category {language}", [h for h, _ in heads], [m for m, _ in members],
            [i for _, i in heads], [i for _, i in members])  # fmt: skip
    banking, _ = evaluate.banking(folder)
    intents, _ = evaluate.clinc(folder)
    rng.shuffle(banking)
    labels = sorted({label for _, label in banking})
    keys = [(text, labels.index(label)) for text, label in banking[:3000]]
    own = [(text, labels.index(label)) for text, label in banking[3000:4000]]
    other = [(text, -1) for text, label in intents["val"]
             if not any(word in label for word in SHARED)]  # fmt: skip
    queries = own + rng.sample(other, min(600, len(other)))
    add("banking, CLINC queries", [q for q, _ in queries], [k for k, _ in keys],
        [g for _, g in queries], [g for _, g in keys])  # fmt: skip
    place = {name: i for i, name in enumerate(sorted({label for _, label in intents["train"]}))}
    keys = [(text, place[label]) for text, label in intents["train"]]
    asked = rng.sample(intents["val"], min(1000, len(intents["val"])))
    queries = [(text, place.get(label, -1)) for text, label in asked]
    outside = intents.get("oos_val", []) + intents.get("oos_train", [])
    queries += [(text, -1) for text, _ in outside]
    add("CLINC150, out of scope", [q for q, _ in queries], [k for k, _ in keys],
        [g for _, g in queries], [g for _, g in keys])  # fmt: skip
    return found


def size(source: Source, rng) -> int:
    """Draw how many keys a dictionary has, 1 to ``crowds.MANY_KEYS``, in equal ratios."""
    most = min(crowds.MANY_KEYS, source.scores.shape[1])
    return round(math.exp(rng.uniform(0, math.log(most))))


def draw(
    source: Source, q: int, n: int, answered: bool, rng, as_tables: bool = False
) -> tuple[np.ndarray, int]:
    """Return n key places, the right ones (m of them) first; none is right unless answered.

    They are any share of up to a third, or ``as_tables``: as large a one as of the pool, or one.
    """
    right = np.flatnonzero(source.key_group == source.query_group[q])
    wrong = np.flatnonzero(source.key_group != source.query_group[q])
    if as_tables:
        wanted = max(1, rng.binomial(n, len(right) / len(source.key_group)))
    else:
        wanted = rng.integers(1, max(2, n // 3 + 1))
    m = min(len(right), wanted, n) if answered else 0
    wrong = rng.choice(wrong, min(n - m, len(wrong)), replace=False)
    return np.concatenate([rng.choice(right, m, replace=False), wrong]).astype(int), m


def temperature(found: list[Source], seed: int) -> tuple[float, dict[str, float]]:
    """Return the τ of all sources together, and the best one of each."""
    rng = np.random.default_rng(seed)
    curves = {}
    for source in found:
        usable = np.flatnonzero(np.isin(source.query_group, source.key_group))
        losses = np.zeros(len(GRID))
        for _ in range(400):
            q = rng.choice(usable)
            n = round(math.exp(rng.uniform(math.log(4), math.log(50))))
            places, m = draw(source, q, n, True, rng)
            logits = source.scores[q, places] / GRID[:, None]
            top = logits.max(1, keepdims=True)
            normaliser = top + np.log(np.exp(logits - top).sum(1, keepdims=True))
            losses -= (logits - normaliser)[:, :m].mean(1) / 400
        curves[source.name] = losses
    together = GRID[np.mean(list(curves.values()), axis=0).argmin()]
    return float(together), {name: float(GRID[c.argmin()]) for name, c in curves.items()}


USED = ("top", "log_keys")
FEATURES = (*USED, "lift")  # all that were tried


def features(scores: np.ndarray) -> dict[str, float]:
    """Return what the confidence reads from the (n,) scores of all allowed keys, n ≥ 1."""
    top = float(scores.max())
    return {"top": top, "lift": top - float(scores.mean()), "log_keys": math.log(len(scores))}


def examples(source: Source, fit: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw dictionaries of 1 to ``crowds.MANY_KEYS`` keys, half of them with an answer."""
    rng = np.random.default_rng(seed)
    queries = np.flatnonzero(source.fit == fit)
    rows, answers = [], []
    for _ in range(TRIALS):
        q = rng.choice(queries)
        answered = bool(rng.random() < 0.5) and source.query_group[q] in source.key_group
        places, _ = draw(source, q, size(source, rng), answered, rng)
        found = features(source.scores[q, places])
        rows.append([found[name] for name in FEATURES])
        answers.append(answered)
    return np.array(rows), np.array(answers)


def calibration_error(p: np.ndarray, answered: np.ndarray, bins: int = 10) -> float:
    """Return the mean gap between confidence and frequency, over bins of equal width."""
    which = np.minimum((p * bins).astype(int), bins - 1)
    gaps = [abs((p - answered)[which == b].sum()) for b in range(bins)]
    return float(sum(gaps) / len(p))


def fit_confidence(found: list[Source], seed: int) -> tuple[dict[str, float], dict]:
    train = [examples(source, True, seed) for source in found]
    x, y = (np.concatenate(part) for part in zip(*train, strict=True))
    held = [examples(source, False, seed + 1) for source in found]
    report: dict = {"choices": {}}
    for names in (("top",), ("lift", "log_keys"), FEATURES, USED):  # what is used comes last
        columns = [FEATURES.index(name) for name in names]
        model = LogisticRegression(C=100).fit(x[:, columns], y)
        p = [model.predict_proba(a[:, columns])[:, 1] for a, _ in held]
        flat, truth = np.concatenate(p), np.concatenate([b for _, b in held])
        loss = -np.where(truth, np.log(flat), np.log1p(-flat)).mean()
        report["choices"][" ".join(names)] = round(float(loss), 4)
    report["held-out half"] = {"ECE": calibration_error(flat, truth),
                               "Brier": float(((flat - truth) ** 2).mean())}  # fmt: skip
    edges = np.linspace(0, 1, 6)
    report["reliability"] = [
        [round(float(flat[inside].mean()), 3), round(float(truth[inside].mean()), 3),
         int(inside.sum())]
        for low, high in itertools.pairwise(edges)
        if (inside := (flat >= low) & (flat < high)).any()
    ]  # fmt: skip
    report["sources"] = {
        source.name: {
            "answered": round(float(b.mean()), 2), "ECE": round(calibration_error(q, b), 3),
            "Brier": round(float(((q - b) ** 2).mean()), 3),
        }
        for source, q, (_, b) in zip(found, p, held, strict=True)
    }  # fmt: skip
    weights = dict(zip(USED, model.coef_[0].tolist(), strict=True))
    return {"intercept": float(model.intercept_[0]), **weights}, report


def of_tables(found: list[Source], coefficients: dict[str, float], seed: int) -> dict:
    """Say what is said of the other half where right keys are as many as tables have.

    Of queries with an answer, of those whose right keys were left out, and of those that none in
    the pool answers.
    """
    rng = np.random.default_rng(seed)
    report = {}
    for source in found:
        inside = np.isin(source.query_group, source.key_group)
        figures = {}
        for name, answered, usable in (
            ("held", True, inside), ("left out", False, inside), ("outside", False, ~inside),
        ):  # fmt: skip
            queries = np.flatnonzero(usable & ~source.fit)
            said = []
            for q in rng.choice(queries, TRIALS) if len(queries) else ():
                places, _ = draw(source, q, size(source, rng), answered, rng, as_tables=True)
                top = float(source.scores[q, places].max())
                said.append(confidence(top, len(places), coefficients))
            if said:
                above = float(np.mean(np.array(said) >= 0.5))
                figures[name] = {"said": round(float(np.mean(said)), 2), "above": round(above, 2)}
        report[source.name] = figures
    return report


def cosines(found: list[Source]) -> dict[str, list[float]]:
    """Return the 5th, 50th and 95th percentile of cosines of related and unrelated texts."""
    out = {}
    for source in found:
        related = source.query_group[:, None] == source.key_group
        for name, mask in (("related", related), ("unrelated", ~related)):
            spread = np.percentile(source.scores[mask], [5, 50, 95])
            out[f"{source.name}: {name}"] = [round(float(x), 2) for x in spread]
    return out


def calibrate(name: str, prepared: Path, texts: Path, folder: Path, out: Path, seed: int) -> None:
    encode = evaluate.open_encoder(name)
    found = sources(encode, prepared, folder, seed)
    best, each = temperature(found, seed)
    few, report = fit_confidence(found, seed)
    many = crowds.crowds(encode, prepared, texts, folder, seed)
    coefficients = crowds.fitted(few, many)
    report["many keys"] = crowds.judged(coefficients, many, calibration_error)
    still = {**few, "most_keys": crowds.MANY_KEYS}
    report["as tables have them"] = of_tables(found, coefficients, seed)
    report["many keys, as of few"] = crowds.judged(still, many, calibration_error)
    logs: dict[str, list[float]] = {}
    for source, t in each.items():
        kind, language, *_ = source.replace("→", " ").split()
        if kind in ("words", "category"):
            logs.setdefault(language, []).append(math.log(t))
    languages = {
        language: round(math.exp(float(np.mean(of_each))), 3)
        for language, of_each in sorted(logs.items())
    }
    student.write_json(out, {
        "temperature": round(best, 2), "temperature_by_language": languages,
        "confidence": {name: round(value, 4) for name, value in coefficients.items()},
    })  # fmt: skip
    student.write_json(out.with_name(out.stem + "-report.json"), {
        "temperature": best, "temperature_by_source": each, "cosines": cosines(found),
        "confidence": report,
    })  # fmt: skip
    print(out.read_text(), out.with_name(out.stem + "-report.json").read_text())


if __name__ == "__main__":
    parser = arguments(__doc__, prepared="work/encoder/prepared", corpus="../shared/corpus",
                       eval="../shared/eval", out="work/encoder/calibration.json")  # fmt: skip
    parser.add_argument("--encoder", default="fast:work/encoder/shipping", help="as of evaluate")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    args = parser.parse_args()
    with in_words():
        calibrate(args.encoder, args.prepared, args.corpus, args.eval, args.out, args.seed)

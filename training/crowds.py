"""Confidence among many keys, where dictionaries of held-out texts alone do not reach.

A crowd is a set of queries, with the score of the best key that answers each, and the best score
among the first 4,096, 16,384 … of many keys that do not: without the word and its synonyms, without
the sentence. A dictionary of n of those holds no answer; with the key that answers it holds one.
Beyond the keys that ``calibrate`` fits, the confidence goes on at another slope,

    logit(n) = logit(4,096) + b·ln(n / 4,096)

which is fitted on one half of the queries and checked on the other.
"""

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar

from index.confidence import confidence
from training import corpus, evaluate, lessons

MANY_KEYS, MOST_KEYS = 4096, 100_000
SIZES = (MANY_KEYS, 16_384, 65_536, MOST_KEYS)
QUERIES = 1500  # of a crowd
AT_ONCE = 250  # of them, scored with all keys


@dataclass
class Crowd:
    """What q queries score best among many keys."""

    name: str
    right: np.ndarray  # (q,) of the keys that answer
    wrong: np.ndarray  # (q, sizes) of as many keys that do not

    def examples(self, size: int, fit: bool) -> tuple[np.ndarray, np.ndarray]:
        """Give the best scores of half of the queries, and whether an answer is held: once each."""
        half = slice(0 if fit else 1, None, 2)
        wrong = self.wrong[half, size]
        best = np.concatenate([np.maximum(self.right[half], wrong), wrong])
        return best, np.arange(len(best)) < len(wrong)


def crowd(
    name: str,
    encode: evaluate.Encode,
    asked: list[str],
    answers: list[set[str]],
    pool: list[str],
) -> Crowd:
    """Score queries with the texts that answer each, and with the others of a pool."""
    texts = list(dict.fromkeys([*pool, *(text for found in answers for text in sorted(found))]))
    place = {text: number for number, text in enumerate(texts)}
    rows, queries = encode(texts), encode(asked)
    sizes = [size for size in SIZES if size <= len(pool)]
    right, wrong = np.empty(len(asked)), np.empty((len(asked), len(sizes)))
    for start in range(0, len(asked), AT_ONCE):
        for number, scores in enumerate(queries[start : start + AT_ONCE] @ rows.T, start):
            own = [place[text] for text in answers[number]]
            right[number] = scores[own].max()
            scores[own] = -1
            wrong[number] = [scores[:size].max() for size in sizes]
    return Crowd(name, right, wrong)


def crowds(
    encode: evaluate.Encode, prepared: Path, folder: Path, labelled: Path, seed: int
) -> list[Crowd]:
    """Ask held-out words, sentences and questions, and misspelt places, among as many others."""
    rng = random.Random(seed)
    dev = json.loads((prepared / "dev.json").read_text(encoding="utf-8"))
    found = []

    def add(name: str, pairs: list, answering: Callable, pool: Iterable[str]) -> None:
        keys = list(dict.fromkeys(pool))[:MOST_KEYS]
        chosen = rng.sample(pairs, min(QUERIES, len(pairs)))
        if chosen and len(keys) > MANY_KEYS:
            answers = [answering(answer) for _, answer in chosen]
            found.append(crowd(name, encode, [text for text, _ in chosen], answers, keys))

    def shuffled(texts: Iterable[str]) -> list[str]:
        return rng.sample(ordered := sorted(set(texts)), len(ordered))

    alike = defaultdict(set)  # of each English word, all of its synonyms
    for synset in corpus.concepts(folder):
        lemmas = {lemma.lower() for lemma in synset["en"]}
        for lemma in lemmas:
            alike[lemma] |= lemmas
    words = [(text, english.lower()) for _, text, english in dev["words"]]
    add("words", words, lambda word: {word} | alike.get(word, set()), shuffled(alike))

    english = {text for language in corpus.languages(folder)
               for text, _, _ in corpus.sentences(folder, language)}  # fmt: skip
    sentences = [(text, english) for _, text, english in dev["sentences"]]
    others = shuffled(english.difference(text for _, text in sentences))
    add("sentences", sentences, lambda sentence: {sentence}, others)

    intents, _ = evaluate.clinc(labelled)
    keys = defaultdict(set)
    for text, label in intents["train"]:
        keys[label].add(text)
    questions = [(text, label) for text, label in intents["val"] if label in keys]
    known = shuffled(text for text, _ in intents["train"])
    add("questions", questions, keys.__getitem__, [*known, *others])

    places = defaultdict(set)
    named = folder / "places.tsv.gz"
    if not named.exists():
        print(f"{named} is not there: the confidence among many keys is fitted without places")
    for line in corpus.lines(named):
        name = line.partition("\t")[0]
        places[lessons.strip_accents(name.lower())].add(name)
    misspelt = [
        (_slipped(name, rng), name)
        for name in rng.sample(sorted(places), min(QUERIES, len(places)))
    ]
    add(
        "places",
        misspelt,
        places.__getitem__,
        shuffled(n for names in places.values() for n in names),
    )
    return found


def _slipped(text: str, rng: random.Random) -> str:
    """Leave a letter out, or swap two."""
    at = rng.randrange(max(1, len(text) - 1))
    first, second = text[at : at + 1], text[at + 1 : at + 2]
    return text[:at] + second + (first if rng.random() < 0.5 else "") + text[at + 2 :]


def fitted(few: Mapping[str, float], found: list[Crowd]) -> dict[str, float]:
    """Give the coefficients that go on from those of ``few`` keys; these alone without a crowd."""
    parts = []
    for one in found:
        for number, size in enumerate(SIZES[: one.wrong.shape[1]]):
            if size > MANY_KEYS:
                parts.append((size, *one.examples(number, True)))
    if not parts:
        return {**few, "most_keys": MANY_KEYS}
    beyond = np.concatenate(
        [np.full(len(best), math.log(size / MANY_KEYS)) for size, best, _ in parts]
    )
    scores, held = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
    logits = few["intercept"] + few["top"] * scores + few["log_keys"] * math.log(MANY_KEYS)

    def loss(slope: float) -> float:
        signs = np.where(held, -1, 1)
        return float(np.logaddexp(0, signs * (logits + slope * beyond)).mean())

    # Among more keys a good score says less, never more.
    slope = float(minimize_scalar(loss, bounds=(-1, 0), method="bounded").x)
    return {**few, "log_many_keys": slope, "many_keys": MANY_KEYS,
            "most_keys": max(size for size, _, _ in parts)}  # fmt: skip


def judged(coefficients: Mapping[str, float], found: list[Crowd], error: Callable) -> dict:
    """Say how the other half is judged: what is said, and how wrong it is, where .5 are held."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for number, size in enumerate(SIZES):
        reached = [one for one in found if one.wrong.shape[1] > number]
        parts = {one.name: one.examples(number, False) for one in reached}
        if parts:
            parts["all"] = tuple(map(np.concatenate, zip(*parts.values(), strict=True)))
        for name, (best, held) in parts.items():
            said = np.array([confidence(float(score), size, coefficients) for score in best])
            figures.setdefault(name, {})[f"{size}"] = {
                "said": round(float(said.mean()), 3), "ECE": round(error(said, held), 3),
                "Brier": round(float(((said - held) ** 2).mean()), 3),
            }  # fmt: skip
    return figures

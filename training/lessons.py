"""Draw what a student is trained on: texts by MIX, categories and members, what people scored."""

import itertools
import json
import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from torch.utils.data import IterableDataset, get_worker_info

from training import student
from training.evaluate import human_scores

# Share of texts for each (kind, language); None is any language that is not named.
MIX = {
    ("sentence", "es"): 0.38, ("sentence", None): 0.20, ("sentence", "de"): 0.27,
    ("sentence", "fr"): 0.24, ("sentence", "en"): 0.80,
    ("word", "es"): 0.08, ("word", None): 0.06, ("word", "en"): 0.05,
    ("paragraph", None): 0.03, ("gloss", "en"): 0.08, ("form", "en"): 0.20,
    ("question", "en"): 0.30, ("phrase", None): 0.05, ("phrase", "en"): 0.05,
    ("clause", "es"): 0.20, ("clause", None): 0.06, ("clause", "de"): 0.15, ("clause", "fr"): 0.15,
    ("clause", "en"): 0.20,
}  # fmt: skip
TWICE = ("en", "es")  # languages drawn twice as often for human scores, Spanish for categories too
NO_ACCENTS, TYPOS, PLURALS = 0.12, 0.05, 0.06  # shares of texts
NO_POINT = 0.2  # share of sentences
POOL = 16_000  # texts tokenised and sorted at a time
TOKENS = 2_600  # of a step's texts
PAIRS = 72  # category–member pairs in a step
HUMAN_PAIRS = 64  # pairs with human scores in a step
PLURAL = {
    "es": [("z", "ces"), ("ón", "ones"), ("", "s")],
    "pt": [("ão", "ões"), ("m", "ns"), ("", "s")],
    "fr": [("al", "aux"), ("eau", "eaux"), ("", "s")],
    "en": [("y", "ies"), ("s", "ses"), ("", "s")],
    "it": [("o", "i"), ("a", "e"), ("e", "i")],
}  # fmt: skip


def strip_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def typo(text: str, rng: random.Random) -> str:
    i = rng.randrange(1, len(text) - 1)
    swapped = text[:i] + text[i + 1] + text[i] + text[i + 2 :]
    return rng.choice([swapped, text[:i] + text[i + 1 :], text[:i] + text[i] + text[i:]])


def disturb(text: str, language: str, kind: str, rng: random.Random) -> str:
    """Write a text as people type it: no point, no accents, a slip of the finger, the plural."""
    if kind == "sentence" and text.endswith(".") and rng.random() < NO_POINT:
        text = text[:-1]
    if kind == "word" and language in PLURAL and rng.random() < PLURALS and " " not in text:
        for end, plural in PLURAL[language]:
            if text.endswith(end):
                text = text[: len(text) - len(end)] + plural
                break
    if len(text) >= 6 and rng.random() < TYPOS:
        text = typo(text, rng)
    if rng.random() < NO_ACCENTS:
        text = strip_accents(text)
    return text


def wanted(language: str, languages: Collection[str]) -> bool:
    """Say whether a language is among those that are asked for: without any, all are."""
    return not languages or language in languages


def often(languages: Iterable[str]) -> list[str]:
    return [language for language in languages for _ in range(2 if language in TWICE else 1)]


class Texts:
    """Rows of every kind and language, each with its teacher row, drawn by MIX."""

    def __init__(
        self, prepared: Path, teacher: np.ndarray, words: float, languages: Collection[str]
    ) -> None:
        table = pq.read_table(prepared / "rows.parquet")
        self.english = pq.read_table(prepared / "english.parquet")["text"].to_pylist()
        self.teacher = teacher
        self.text = table["text"].to_pylist()
        self.targets = [np.array(row) for row in table["targets"].to_pylist()]
        self.weights = [np.array(row, np.float32) for row in table["weights"].to_pylist()]
        self.rng = random.Random()
        keys = list(zip(table["kind"].to_pylist(), table["language"].to_pylist(), strict=True))
        self.groups = grouped(keys, [int(row[0]) for row in self.targets])
        shares = {
            (kind, language): share(kind, language, words)
            for kind, language in self.groups if wanted(language, languages)
        }  # fmt: skip
        self.shares = {key: found for key, found in shares.items() if found}
        if not self.shares:
            named = ", ".join(languages) or "any language"
            raise SystemExit(f"{prepared} holds no text of {named}")
        self.queues: dict[tuple[str, str], list[int]] = {key: [] for key in self.shares}

    def draw(self, n: int) -> tuple[list[str], np.ndarray]:
        """Return about n texts as people type them, and their teacher rows."""
        texts, rows = [], []
        total = sum(self.shares.values())
        for (kind, language), found in self.shares.items():
            for _ in range(round(n * found / total)):
                i = self.next(kind, language)
                text = self.english[-1 - i] if i < 0 else self.text[i]
                texts.append(disturb(text, language, kind, self.rng))
                rows.append(self.target(i))
        return texts, np.stack(rows)

    def next(self, kind: str, language: str) -> int:
        """Return a row that was not drawn since all of its group were."""
        queue = self.queues[kind, language]
        if not queue:
            group = self.groups[kind, language]
            queue += self.rng.sample(group, len(group))
        return queue.pop()

    def target(self, i: int) -> np.ndarray:
        """Blend a word's senses around its most probable one; unrelated senses drop out."""
        if i < 0:
            return self.teacher[-1 - i].astype(np.float32)
        found = self.teacher[self.targets[i]].astype(np.float32)
        near = np.clip(found @ found[0], 0, None) ** 2
        blend = (self.weights[i] * near) @ found
        return blend / np.linalg.norm(blend)


def grouped(keys: list[tuple[str, str]], english: list[int]) -> dict[tuple[str, str], list[int]]:
    """Return the rows of each (kind, language), from these of all rows and their English texts."""
    # A word comes as often as there are languages with a word for the same thing: rare ones
    # outnumber those that people ask for.
    rows = list(zip(keys, english, strict=True))
    named = {(en, lang) for (kind, lang), en in rows if kind == "word" and lang != "en"}
    times = Counter(en for en, _ in named)
    groups = defaultdict(list)
    for i, (key, en) in enumerate(rows):
        groups[key] += [i] * max(1, times[en] if key[0] == "word" else 1)
    # An English sentence is what some sentence translates: a negative number stands for it.
    translated = {en for (kind, _), en in rows if kind in ("sentence", "paragraph")}
    groups["sentence", "en"] = [-1 - en for en in sorted(translated)]
    return groups


def share(kind: str, language: str, words: float) -> float:
    """Return the part of MIX that falls to a group, with ``words`` times as many words."""
    others = 0.0 if language == "en" else MIX.get((kind, None), 0.0)
    return MIX.get((kind, language), others) * (words if kind == "word" else 1)


class Hypernyms:
    """Category–member pairs in mixed languages."""

    def __init__(self, prepared: Path, languages: Collection[str]) -> None:
        content = json.loads((prepared / "hypernyms.json").read_text())
        self.names, pairs = content["names"], content["pairs"]
        self.languages = languages
        self.rng = random.Random()
        self.pairs = [(p["category"], p["member"]) for p in pairs]
        self.related = set(self.pairs)
        size = Counter(category for category, _ in self.pairs)
        self.weights = np.cumsum([
            len(self.names[p["member"]]) ** 2 * 0.6 ** p["depth"] / size[p["category"]] ** 0.6
            for p in pairs
        ]).tolist()  # fmt: skip

    def name(self, identity: str) -> str:
        names = self.names[identity]
        foreign = often(
            language for language in names
            if language != "en" and wanted(language, self.languages)
        )  # fmt: skip
        language = "en" if not foreign or self.rng.random() < 0.25 else self.rng.choice(foreign)
        return disturb(self.rng.choice(names[language][:2]), language, "word", self.rng)

    def draw(self, n: int):
        """Return category texts, member texts and the (n, n) mask of pairs known to be related."""
        chosen = {}
        for category, member in self.rng.choices(self.pairs, cum_weights=self.weights, k=2 * n):
            chosen.setdefault(category, member)
        pairs = list(chosen.items())[:n]
        mask = np.array([[(c, m) in self.related for _, m in pairs] for c, _ in pairs])
        np.fill_diagonal(mask, val=False)
        return [self.name(c) for c, _ in pairs], [self.name(m) for _, m in pairs], mask


class Human:
    """STSb train: pairs of sentences with human scores, in mixed languages; ``least`` or more."""

    def __init__(self, folder: Path, least: int, languages: Collection[str]) -> None:
        self.rng = random.Random()
        tables = human_scores(folder, "train")
        chosen = often(language for language in tables if wanted(language, languages))
        self.tables = [tables[language] for language in chosen]
        if not self.tables or len(self.tables[0]) < least:
            raise SystemExit(f"{folder} wants tables stsb-xx-train.csv of {least} pairs or more")

    def draw(self, n: int) -> tuple[list[str], list[str], np.ndarray]:
        a, b, scores = [], [], []
        for i in self.rng.sample(range(len(self.tables[0])), n):
            first = self.rng.choice(self.tables)[i]
            second = first if self.rng.random() < 0.5 else self.rng.choice(self.tables)[i]
            a.append(first[0])
            b.append(second[1])
            scores.append(first[2])
        return a, b, np.array(scores, np.float32)


Ids = list[list[int]]


class Lesson(NamedTuple):
    """What a step learns from: texts, and by turns (of each process) categories or human scores."""

    texts: tuple[np.ndarray, np.ndarray]  # padded ids and mask (n, t) of texts of like length
    teacher: np.ndarray  # their teacher rows (n, d)
    link: tuple[Ids, np.ndarray] | None  # categories and then their members, and who is related
    opinion: tuple[Ids, np.ndarray] | None  # sentences, then those beside them, and scores to 1


class Lessons(IterableDataset):
    """Lessons for ever, each of ``times`` as many texts as a step on two cores has.

    Of categories and human scores it has the root of that times as many.
    """

    def __init__(
        self, tokenizer, prepared: Path, teacher: np.ndarray, stsb: Path, *,
        words: float, languages: Collection[str], times: float, seed: int,
    ) -> None:  # fmt: skip
        self.tokenizer, self.seed = tokenizer, seed
        self.tokens = round(TOKENS * times)
        self.pool, self.n_pairs, self.n_scored = (
            round(n * times**0.5) for n in (POOL, PAIRS, HUMAN_PAIRS)
        )  # fmt: skip
        self.texts = Texts(prepared, teacher, words, languages)
        self.hypernyms = Hypernyms(prepared, languages)
        self.human = Human(stsb, self.n_scored, languages)

    def __iter__(self) -> Iterator[Lesson]:
        worker = get_worker_info()
        name = f"{self.seed} {worker.id}" if worker else str(self.seed)
        for part in (self.texts, self.hypernyms, self.human):
            part.rng = random.Random(f"{type(part).__name__} {name}")
        for number, (batch, teacher) in enumerate(itertools.chain.from_iterable(self.pools())):
            link, opinion = (None, self.opinion()) if number % 2 else (self.link(), None)
            yield Lesson(batch, teacher, link, opinion)

    def pools(self) -> Iterator[Iterator[tuple]]:
        while True:
            pool, teacher = self.texts.draw(self.pool)
            ids = student.token_ids(self.tokenizer, pool)
            order = list(student.batches([len(row) for row in ids], self.tokens))
            self.texts.rng.shuffle(order)
            teacher = teacher.astype(np.float16)  # half as much for a worker to send
            yield ((student.padded([ids[i] for i in rows]), teacher[rows]) for rows in order)

    def link(self) -> tuple[Ids, np.ndarray] | None:
        if not self.hypernyms.pairs:
            return None
        categories, members, related = self.hypernyms.draw(self.n_pairs)
        return student.token_ids(self.tokenizer, categories + members), related

    def opinion(self) -> tuple[Ids, np.ndarray]:
        first, second, scores = self.human.draw(self.n_scored)
        return student.token_ids(self.tokenizer, first + second), scores / 5

"""Draw what a student is trained on: texts by MIX, categories and members, what people scored."""

import itertools
import json
import random
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
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
    """Texts to learn from, the English ones and then those of rows.parquet, drawn by MIX."""

    def __init__(
        self, tokenizer, prepared: Path, words: float, languages: Collection[str], *, ahead: bool
    ) -> None:
        english, table = (pq.read_table(prepared / f"{n}.parquet") for n in ("english", "rows"))
        self.text = english["text"].to_pylist() + table["text"].to_pylist()
        self.tokenizer = tokenizer
        self.known = joined(tokenizer, self.text) if ahead else None
        self.rng = random.Random()
        self.groups = grouped(english.num_rows, table)
        shares = {
            (kind, language): share(kind, language, words)
            for kind, language in self.groups if wanted(language, languages)
        }  # fmt: skip
        self.shares = {key: found for key, found in shares.items() if found > 0}
        if not self.shares:
            named = ", ".join(languages) or "any language"
            raise SystemExit(f"{prepared} holds no text of {named}")
        self.queues = {key: self.groups[key][:0] for key in self.shares}

    def draw(self, n: int) -> tuple[list[Sequence[int]], np.ndarray]:
        """Return the ids of about n texts as people type them, and which ones they are."""
        total = sum(self.shares.values())
        typed, drawn = [], []
        for (kind, language), found in self.shares.items():
            drawn.append(self.next(kind, language, round(n * found / total)))
            typed += [disturb(self.text[i], language, kind, self.rng) for i in drawn[-1]]
        rows = np.concatenate(drawn)
        return self.ids(typed, rows), rows

    def next(self, kind: str, language: str, n: int) -> np.ndarray:
        """Return n texts of a group, of which none comes again before all others have come."""
        found = [self.queues[kind, language][:0]]
        while n > 0:
            queue = self.queues[kind, language]
            if not len(queue):
                shuffled = np.random.default_rng(self.rng.getrandbits(64))
                queue = shuffled.permutation(self.groups[kind, language])
            found.append(queue[:n])
            self.queues[kind, language] = queue[n:]
            n -= len(found[-1])
        return np.concatenate(found)

    def ids(self, typed: list[str], rows: np.ndarray) -> list[Sequence[int]]:
        """Return the ids of texts as they are typed; as they stand these may be known ahead."""
        if self.known is None:
            return student.token_ids(self.tokenizer, typed)
        flat, ends = self.known
        found: list[Sequence[int]] = [flat[ends[row] : ends[row + 1]] for row in rows]
        other = [i for i, row in enumerate(rows) if typed[i] != self.text[row]]
        anew = student.token_ids(self.tokenizer, [typed[i] for i in other])
        for i, ids in zip(other, anew, strict=True):
            found[i] = ids
        return found


def joined(tokenizer, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of all texts in one array, which processes can share, and where each ends."""
    parts, lengths = [], [0]
    for start in range(0, len(texts), POOL):
        ids = student.token_ids(tokenizer, texts[start : start + POOL])
        lengths += map(len, ids)
        parts.append(np.fromiter(itertools.chain.from_iterable(ids), np.int32))
    return np.concatenate(parts), np.cumsum(lengths)


def lists(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements of a column of lists, and (n + 1,) where each list ends."""
    found = column.combine_chunks()
    return found.values.to_numpy(), found.offsets.to_numpy()


def targets(prepared: Path, teacher: torch.Tensor) -> torch.Tensor:
    """Return (n, d): what each of the n texts of ``Texts`` should be like.

    That is its own row of ``teacher`` (e, d), or that of its English; a word's senses are blended
    around its most probable one, and unrelated senses drop out.
    """
    table = pq.read_table(prepared / "rows.parquet", columns=["targets", "weights"])
    english, ends = lists(table["targets"])
    weights, _ = lists(table["weights"])
    senses = np.diff(ends)
    found = teacher.new_empty((len(teacher) + len(senses), teacher.shape[1]))
    found[: len(teacher)] = teacher
    for n in np.unique(senses):  # rows of as many senses are blended together
        rows = np.flatnonzero(senses == n)
        for part in np.array_split(rows, 1 + len(rows) // POOL):
            each = ends[part, None] + np.arange(n)
            share, which, place = (
                torch.from_numpy(of).to(teacher.device)
                for of in (weights[each], english[each], len(teacher) + part)
            )
            row = teacher[which].float()
            near = (row @ row[:, 0, :, None]).clamp(min=0) ** 2
            blend = (share.float()[:, :, None] * near * row).sum(1)
            found[place] = torch.nn.functional.normalize(blend).to(found.dtype)
    return found


def grouped(n: int, table: pa.Table) -> dict[tuple[str, str], np.ndarray]:
    """Return the texts of each (kind, language): of n English ones, and of a table of rows."""
    english, ends = lists(table["targets"])
    first = english[ends[:-1]]
    (kinds, kind), (languages, language) = (coded(table[name]) for name in ("kind", "language"))
    # A word comes as often as there are languages with a word for the same thing: rare ones
    # outnumber those that people ask for.
    foreign = (kinds[kind] == "word") & (languages[language] != "en")
    named = np.unique(first[foreign] * len(languages) + language[foreign])
    times = np.maximum(1, np.bincount(named // len(languages), minlength=n))
    groups = {}
    for i, j in np.unique(np.stack([kind, language], 1), axis=0):
        rows = np.flatnonzero((kind == i) & (language == j))
        if kinds[i] == "word":
            rows = np.repeat(rows, times[first[rows]])
        groups[str(kinds[i]), str(languages[j])] = n + rows
    # An English sentence is what some sentence translates.
    said = np.isin(kinds[kind], ("sentence", "paragraph"))
    if said.any():
        groups["sentence", "en"] = np.unique(first[said])
    return groups


def coded(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct texts of a column, and which of them each row has."""
    found = column.combine_chunks().dictionary_encode()
    return np.array(found.dictionary.to_pylist()), found.indices.to_numpy()


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
    rows: np.ndarray  # (n,) of ``targets``, what they should be like
    link: tuple[Ids, np.ndarray] | None  # categories and then their members, and who is related
    opinion: tuple[Ids, np.ndarray] | None  # sentences, then those beside them, and scores to 1


class Lessons(IterableDataset):
    """Lessons for ever, each of ``times`` as many texts as a step on two cores has.

    Of categories and human scores it has the root of that times as many. ``ahead``: all texts are
    tokenised first, which takes long, and then only what is typed in another way.
    """

    def __init__(
        self, tokenizer, prepared: Path, stsb: Path, *, words: float, languages: Collection[str],
        times: float, ahead: bool, seed: int,
    ) -> None:  # fmt: skip
        self.tokenizer, self.seed = tokenizer, seed
        self.tokens = round(TOKENS * times)
        self.pool, self.n_pairs, self.n_scored = (
            round(n * times**0.5) for n in (POOL, PAIRS, HUMAN_PAIRS)
        )  # fmt: skip
        self.texts = Texts(tokenizer, prepared, words, languages, ahead=ahead)
        self.hypernyms = Hypernyms(prepared, languages)
        self.human = Human(stsb, self.n_scored, languages)

    def __iter__(self) -> Iterator[Lesson]:
        worker = get_worker_info()
        name = f"{self.seed} {worker.id}" if worker else str(self.seed)
        for part in (self.texts, self.hypernyms, self.human):
            part.rng = random.Random(f"{type(part).__name__} {name}")
        for number, (batch, rows) in enumerate(itertools.chain.from_iterable(self.pools())):
            link, opinion = (None, self.opinion()) if number % 2 else (self.link(), None)
            yield Lesson(batch, rows, link, opinion)

    def pools(self) -> Iterator[Iterator[tuple]]:
        while True:
            ids, rows = self.texts.draw(self.pool)
            order = list(student.batches([len(row) for row in ids], self.tokens))
            self.texts.rng.shuffle(order)
            yield ((student.padded([ids[i] for i in part]), rows[part]) for part in order)

    def link(self) -> tuple[Ids, np.ndarray] | None:
        if not self.hypernyms.pairs:
            return None
        categories, members, related = self.hypernyms.draw(self.n_pairs)
        return student.token_ids(self.tokenizer, categories + members), related

    def opinion(self) -> tuple[Ids, np.ndarray]:
        first, second, scores = self.human.draw(self.n_scored)
        return student.token_ids(self.tokenizer, first + second), scores / 5

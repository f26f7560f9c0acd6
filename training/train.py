"""Distil the teacher into the widened student; resumable, for a given number of minutes.

    loss = 4·(1 − cos(s, t)) + 0.1·InfoNCE(s, t)
         + 0.15·InfoNCE(category, member)             each second step
         + (cos(a, b) − human score)² + 0.5·(1 − r)   each second step of the last part

s is the student's row of a text in any language, t the teacher's row of its English (Reimers &
Gurevych 2020). The second line brings *país* near *méxico*. The third has pairs of sentences as
near as people find them, on a scale from 0 to 1: STSb train, half of the pairs in two languages;
r is the correlation of cosines and scores within the step.
"""

import argparse
import json
import random
import signal
import time
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch.nn.functional import cross_entropy

from training import corpus, in_words, minutes, student
from training.evaluate import human_scores
from training.teach import MARK, load_teacher, taught

# Share of texts for each (kind, language); None shares evenly among languages not named.
MIX = {
    ("sentence", "es"): 0.38, ("sentence", None): 0.20, ("sentence", "de"): 0.27,
    ("sentence", "fr"): 0.24, ("sentence", "en"): 0.80,
    ("word", "es"): 0.08, ("word", None): 0.06, ("word", "en"): 0.05,
    ("paragraph", None): 0.012, ("gloss", "en"): 0.02, ("form", "en"): 0.20,
    ("question", "en"): 0.30, ("phrase", None): 0.05, ("phrase", "en"): 0.05,
}  # fmt: skip
# Most rows are of a rare piece, seen a few times in a run. Adagrad's first steps are its longest,
# so such a row learns from each sight; under Adam at 1.2e-3 it moved a hundredth of its length.
# A row begins as if it had been seen some five times: else its first sight throws it by half its
# length, whatever the gradient.
ROWS_LR, BODY_LR = 0.03, 1.4e-4
SEEN_BEFORE = 1e-7  # squared gradients of a component, of which a sight adds 2e-8 in the middle
SCALE = 20.0
POOL = 16_000  # texts tokenised and sorted at a time
TOKENS = 2_600  # per batch
PART = 800  # tokens of texts of like length, where a batch has texts of all lengths
PAIRS = 72  # category–member pairs in a step
HUMAN_PAIRS = 64  # pairs with human scores in a step
TWICE = ("en", "es")  # languages drawn twice as often for them, Spanish for categories too
WARM_UP = 100  # steps
CHECKPOINT = 240  # seconds
LONGEST_STEP = 10.0  # seconds that count: where the process was stopped meanwhile, none did
NO_ACCENTS, TYPOS, PLURALS = 0.12, 0.05, 0.06  # shares of texts
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
    """Write a text as people type it: accents missing, a slip of the finger, the plural."""
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


class Texts:
    """Rows of every kind and language, each with its teacher row, drawn by MIX."""

    def __init__(self, prepared: Path, teacher: np.ndarray, words: float, seed: int) -> None:
        self.words = words
        table = pq.read_table(prepared / "rows.parquet")
        self.english = pq.read_table(prepared / "english.parquet")["text"].to_pylist()
        self.teacher = teacher
        self.text = table["text"].to_pylist()
        self.targets = [np.array(row) for row in table["targets"].to_pylist()]
        self.weights = [np.array(row, np.float32) for row in table["weights"].to_pylist()]
        self.rng = random.Random(seed)
        groups: dict[tuple[str, str], list[int]] = {}
        keys = zip(table["kind"].to_pylist(), table["language"].to_pylist(), strict=True)
        for i, key in enumerate(keys):
            groups.setdefault(key, []).append(i)
        # A word comes as often as there are languages with a word for the same thing: rare ones
        # outnumber those that people ask for.
        found: dict[int, set[str]] = {}
        for (kind, language), rows in groups.items():
            if kind == "word" and language != "en":
                for i in rows:
                    found.setdefault(self.targets[i][0], set()).add(language)
        for (kind, _), rows in groups.items():
            if kind == "word":
                rows[:] = [
                    i for i in rows for _ in range(max(1, len(found.get(self.targets[i][0], ()))))
                ]
        # An English sentence is what some sentence translates: a negative number stands for it.
        english = {
            int(self.targets[i][0])
            for (kind, _), rows in groups.items() if kind in ("sentence", "paragraph")
            for i in rows
        }  # fmt: skip
        groups["sentence", "en"] = [-1 - i for i in sorted(english)]
        self.groups = {key: rows for key, rows in groups.items() if self._share(key)}
        self.queues: dict[tuple[str, str], list[int]] = {key: [] for key in self.groups}

    def _share(self, key: tuple[str, str]) -> float:
        share = MIX.get(key, MIX.get((key[0], None), 0.0) if key[1] != "en" else 0.0)
        return share * self.words if key[0] == "word" else share

    def draw(self, n: int) -> tuple[list[str], np.ndarray]:
        texts, rows = [], []
        shares = {key: self._share(key) for key in self.groups}
        total = sum(shares.values())
        for key, share in shares.items():
            kind, language = key
            for _ in range(round(n * share / total)):
                if not self.queues[key]:
                    self.queues[key] = self.rng.sample(self.groups[key], len(self.groups[key]))
                i = self.queues[key].pop()
                text = self.english[-1 - i] if i < 0 else self.text[i]
                texts.append(disturb(text, language, kind, self.rng))
                rows.append(self.target(i))
        return texts, np.stack(rows)

    def target(self, i: int) -> np.ndarray:
        """Blend a word's senses around its most probable one; unrelated senses drop out."""
        if i < 0:
            return self.teacher[-1 - i].astype(np.float32)
        found = self.teacher[self.targets[i]].astype(np.float32)
        near = np.clip(found @ found[0], 0, None) ** 2
        blend = (self.weights[i] * near) @ found
        return blend / np.linalg.norm(blend)


class Hypernyms:
    """Category–member pairs in mixed languages."""

    def __init__(self, prepared: Path, seed: int) -> None:
        content = json.loads((prepared / "hypernyms.json").read_text())
        self.names, pairs = content["names"], content["pairs"]
        self.rng = random.Random(seed)
        self.pairs = [(p["category"], p["member"]) for p in pairs]
        self.related = set(self.pairs)
        size: dict[str, int] = {}
        for category, _ in self.pairs:
            size[category] = size.get(category, 0) + 1
        self.weights = np.cumsum([
            len(self.names[p["member"]]) ** 2 * 0.6 ** p["depth"] / size[p["category"]] ** 0.6
            for p in pairs
        ]).tolist()  # fmt: skip

    def name(self, identity: str) -> str:
        names = self.names[identity]
        foreign = [
            language for language in names if language != "en"
            for _ in range(2 if language in TWICE else 1)
        ]  # fmt: skip
        language = "en" if not foreign or self.rng.random() < 0.25 else self.rng.choice(foreign)
        return disturb(self.rng.choice(names[language][:2]), language, "word", self.rng)

    def draw(self, n: int):
        """Return category texts, member texts and the (n, n) mask of pairs known to be related."""
        chosen = {}
        for category, member in self.rng.choices(self.pairs, cum_weights=self.weights, k=2 * n):
            chosen.setdefault(category, member)
        pairs = list(chosen.items())[:n]
        mask = torch.tensor([[(c, m) in self.related for _, m in pairs] for c, _ in pairs])
        mask.fill_diagonal_(False)
        return [self.name(c) for c, _ in pairs], [self.name(m) for _, m in pairs], mask


class Human:
    """STSb train: pairs of sentences with human scores, in mixed languages."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tables = [
            table for language, table in human_scores(folder, "train").items()
            for _ in range(2 if language in TWICE else 1)
        ]  # fmt: skip
        if not self.tables or len(self.tables[0]) < HUMAN_PAIRS:
            raise SystemExit(f"{folder} wants tables stsb-xx-train.csv of {HUMAN_PAIRS} pairs "
                             "or more")  # fmt: skip

    def draw(self, n: int) -> tuple[list[str], list[str], torch.Tensor]:
        a, b, scores = [], [], []
        for i in self.rng.sample(range(len(self.tables[0])), n):
            first = self.rng.choice(self.tables)[i]
            second = first if self.rng.random() < 0.5 else self.rng.choice(self.tables)[i]
            a.append(first[0])
            b.append(second[1])
            scores.append(first[2])
        return a, b, torch.tensor(scores)


def contrast(a: torch.Tensor, b: torch.Tensor, ignored: torch.Tensor) -> torch.Tensor:
    scores = (SCALE * a @ b.T).masked_fill(ignored, -torch.inf)
    labels = torch.arange(len(a))
    return (cross_entropy(scores, labels) + cross_entropy(scores.T, labels)) / 2


def distillation(s: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of student rows against teacher rows, and their mean cosine."""
    cosine = (s * t).sum(-1).mean()
    twins = (t @ t.T > 0.9).fill_diagonal_(False)
    return 4 * (1 - cosine) + 0.1 * contrast(s, t, twins), cosine


def disagreement(near: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Return the loss of cosines against human scores from 0 to 1."""
    correlation = torch.corrcoef(torch.stack([near, scores]))[0, 1]
    return ((near - scores) ** 2).mean() + 0.5 * (1 - correlation)


def optimisers(body) -> list[torch.optim.Optimizer]:
    embedding = body.get_input_embeddings()
    embedding.sparse = True
    rest = [p for p in body.parameters() if p is not embedding.weight]
    return [
        torch.optim.Adagrad([embedding.weight], lr=ROWS_LR, initial_accumulator_value=SEEN_BEFORE),
        torch.optim.AdamW(rest, lr=BODY_LR, weight_decay=0.01, fused=True),
    ]


def set_rates(optims: list[torch.optim.Optimizer], rows: float, body: float) -> None:
    for optim, rate in zip(optims, (rows, body), strict=True):
        for group in optim.param_groups:
            group["lr"] = rate


def train(
    prepared: Path, taught_in: Path, stsb: Path, start: Path, out: Path, *,
    minutes: float, words: float, rows_rate: float, body_rate: float, teacher_share: float,
    human_from: float, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    elapsed, step, seen, limit = 0.0, 0, 0, 60 * minutes
    origin = corpus.fingerprint(
        start / "tokenizer.json", start / "model.safetensors", taught_in / MARK
    )
    state = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else None
    if state:
        if state.get("start") != origin:
            raise SystemExit(f"{out} was trained from another start: remove it")
        elapsed, step, seen = state["elapsed"], state["step"], state["seen"]
        if elapsed >= limit:
            print(f"{out} is already trained for {elapsed / 60:.1f} minutes")
            return
    tokenizer, body = student.load(start)  # eval mode: distillation needs no dropout
    optims = optimisers(body)
    if state:
        body.load_state_dict(state["body"])
        for optim, content in zip(optims, state["optims"], strict=True):
            optim.load_state_dict(content)
    elif teacher_share:
        student.approach_teacher(tokenizer, body, load_teacher(), teacher_share)
    texts = Texts(prepared, taught(prepared, taught_in), words, seed + step)
    hypernyms, human = Hypernyms(prepared, seed + step), Human(stsb, seed + step)
    saved = elapsed
    clock = time.monotonic()
    totals = np.zeros(4)
    stop: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stop.append(number))  # save, then leave
    while elapsed < limit:
        pool, targets = texts.draw(POOL)
        ids = student.token_ids(tokenizer, pool)
        order = list(student.batches([len(row) for row in ids], TOKENS))
        texts.rng.shuffle(order)
        for rows in order:
            now = time.monotonic()
            elapsed, clock = elapsed + min(now - clock, LONGEST_STEP), now
            warm = min(1, (step + 1) / WARM_UP)
            factor = warm * max(0, 1 - elapsed / limit)
            set_rates(optims, ROWS_LR * rows_rate * factor, BODY_LR * body_rate * factor)
            s = student.forward(body, [ids[i] for i in rows])
            loss, cosine = distillation(s, torch.from_numpy(targets[rows]))
            if step % 2 == 0 and hypernyms.pairs:
                categories, members, related = hypernyms.draw(PAIRS)
                both = student.unit_rows(
                    body, student.token_ids(tokenizer, categories + members), PART
                )
                link = contrast(both[: len(categories)], both[len(categories) :], related)
                loss = loss + 0.15 * link
                totals[2:] += link.item(), 1
            if step % 2 and elapsed > human_from * limit:
                a, b, scores = human.draw(HUMAN_PAIRS)
                both = student.unit_rows(body, student.token_ids(tokenizer, a + b), PART)
                near = (both[: len(a)] * both[len(a) :]).sum(-1)
                loss = loss + disagreement(near, scores / 5)
            loss.backward()
            for optim in optims:
                optim.step()
                optim.zero_grad()
            step += 1
            seen += len(rows)
            totals[:2] += cosine.item(), 1
            stopping = stop or elapsed >= limit
            if stopping or elapsed - saved > CHECKPOINT:
                saved = elapsed
                # The student first: a checkpoint at the limit says that it is whole.
                student.save(out / "student", tokenizer, body, torch.float32)
                state = {
                    "body": body.state_dict(),
                    "optims": [o.state_dict() for o in optims],
                    "elapsed": elapsed,
                    "step": step,
                    "seen": seen,
                    "start": origin,
                }
                torch.save(state, checkpoint.with_suffix(".part"))
                checkpoint.with_suffix(".part").rename(checkpoint)
                clock = time.monotonic()  # saving does not count as training
            if stopping or step % 50 == 0:
                line = json.dumps({
                    "step": step, "minutes": round(elapsed / 60, 2), "texts": seen,
                    "per_second": round(seen / elapsed), "cosine": round(totals[0] / totals[1], 4),
                    "link": round(totals[2] / totals[3], 3) if totals[3] else None,
                })  # fmt: skip
                with open(out / "log.jsonl", "a", encoding="utf-8") as log:
                    log.write(line + "\n")
                totals[:] = 0
            if stop and elapsed < limit:
                raise SystemExit(128 + stop[0])  # half-trained: no step after this one may go on
            if stopping:
                return


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepared", type=Path, default=Path("work/encoder/prepared"))
    parser.add_argument("--taught", type=Path, default=Path("work/encoder/taught"))
    parser.add_argument("--stsb", type=Path, default=Path("../shared/eval/stsb"))
    parser.add_argument("--start", type=Path, default=Path("work/encoder/start"))
    parser.add_argument("--out", type=Path, default=Path("work/encoder/trained"))
    parser.add_argument("--minutes", type=minutes, default=50)
    parser.add_argument("--words", type=float, default=1, help="how many times as many words")
    parser.add_argument("--rows-rate", type=float, default=1,
                        help="factor on the learning rate of the vocabulary's rows")  # fmt: skip
    parser.add_argument("--body-rate", type=float, default=1,
                        help="factor on the learning rate of the layers")  # fmt: skip
    parser.add_argument("--teacher-share", type=float, default=0,
                        help="of the teacher's weights in those that it begins with")  # fmt: skip
    parser.add_argument("--human-from", type=float, default=0.55,
                        help="share of the time before human scores count")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with in_words():
        train(
            args.prepared, args.taught, args.stsb, args.start, args.out, minutes=args.minutes,
            words=args.words, rows_rate=args.rows_rate, body_rate=args.body_rate,
            teacher_share=args.teacher_share, human_from=args.human_from, seed=args.seed,
        )  # fmt: skip

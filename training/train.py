"""Distil the teacher into the widened student; resumable, for a given number of minutes.

    loss = 4·(1 − cos(s, t)) + 0.1·InfoNCE(s, t)
         + 0.15·InfoNCE(category, member)             each second step
         + (cos(a, b) − human score)² + 0.5·(1 − r)   each second step of the last part

s is the student's row of a text in any language, t the teacher's row of its English (Reimers &
Gurevych 2020). The second line brings *país* near *méxico*. The third has pairs of sentences as
near as people find them, on a scale from 0 to 1: STSb train, half of the pairs in two languages;
r is the correlation of cosines and scores within the step. ``lessons`` draws all of these.
"""

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from training import arguments, corpus, in_words, minutes, student, teach
from training.lessons import Human, Hypernyms, Texts

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
WARM_UP = 100  # steps
CHECKPOINT = 240  # seconds
LOGGED = 50  # steps
LONGEST_STEP = 10.0  # seconds that count: where the process was stopped meanwhile, none did


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


class Training:
    """A student that learns: its weights, its optimisers, and how far it has come."""

    def __init__(self, start: Path, out: Path, origin: str) -> None:
        self.tokenizer, self.body = student.load(start)  # eval mode: it needs no dropout
        self.optims = optimisers(self.body)
        self.out, self.origin = out, origin
        self.elapsed, self.step, self.seen = 0.0, 0, 0
        self.cosines: list[float] = []  # since the last line of the log, as the links
        self.links: list[float] = []

    def go_on(self, checkpoint: dict) -> None:
        self.body.load_state_dict(checkpoint["body"])
        for optim, state in zip(self.optims, checkpoint["optims"], strict=True):
            optim.load_state_dict(state)
        self.elapsed, self.step, self.seen = (checkpoint[n] for n in ("elapsed", "step", "seen"))

    def save(self) -> None:
        # The student first: a checkpoint at the limit says that it is whole.
        student.save(self.out / "student", self.tokenizer, self.body, torch.float32)
        part = self.out / "checkpoint.part"
        optims = [optim.state_dict() for optim in self.optims]
        state = {"body": self.body.state_dict(), "optims": optims, "elapsed": self.elapsed,
                 "step": self.step, "seen": self.seen, "start": self.origin}  # fmt: skip
        with part.open("wb") as stream:  # of a path a full disk would be no OSError
            torch.save(state, stream)
        part.rename(self.out / "checkpoint.pt")

    def log(self) -> None:
        line = json.dumps({
            "step": self.step, "minutes": round(self.elapsed / 60, 2), "texts": self.seen,
            "per_second": round(self.seen / self.elapsed),
            "cosine": round(sum(self.cosines) / len(self.cosines), 4),
            "link": round(sum(self.links) / len(self.links), 3) if self.links else None,
        })  # fmt: skip
        with open(self.out / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(line + "\n")
        self.cosines, self.links = [], []

    def halves(self, texts: list[str]) -> tuple[torch.Tensor, ...]:
        """Return the unit rows of the first half of the texts, and of the second."""
        ids = student.token_ids(self.tokenizer, texts)
        return student.unit_rows(self.body, ids, PART).chunk(2)

    def link(self, hypernyms: Hypernyms) -> torch.Tensor:
        categories, members, related = hypernyms.draw(PAIRS)
        above, below = self.halves(categories + members)
        loss = contrast(above, below, related)
        self.links.append(loss.item())
        return loss

    def opinion(self, human: Human) -> torch.Tensor:
        first, second, scores = human.draw(HUMAN_PAIRS)
        a, b = self.halves(first + second)
        return disagreement((a * b).sum(-1), scores / 5)

    def learn(self, loss: torch.Tensor, *rates: float) -> None:
        """Make one step down this loss."""
        loss.backward()
        for optim, rate in zip(self.optims, rates, strict=True):
            for group in optim.param_groups:
                group["lr"] = rate
            optim.step()
            optim.zero_grad()
        self.step += 1


def batches(texts: Texts, tokenizer) -> Iterator[tuple[list[list[int]], torch.Tensor]]:
    """Yield tokens of texts of like length and their teacher rows, for ever."""
    while True:
        pool, teacher = texts.draw(POOL)
        ids = student.token_ids(tokenizer, pool)
        order = list(student.batches([len(row) for row in ids], TOKENS))
        texts.rng.shuffle(order)
        for rows in order:
            yield [ids[i] for i in rows], torch.from_numpy(teacher[rows])


@contextlib.contextmanager
def stops() -> Iterator[list[int]]:
    """Collect the signals that ask to stop: save, then leave."""
    asked: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: asked.append(number)) for number in numbers]
    try:
        yield asked
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def checkpoint_of(out: Path, origin: str) -> dict | None:
    """Return what ``out`` goes on from, where there is anything."""
    path = out / "checkpoint.pt"
    found = torch.load(path, weights_only=True) if path.exists() else None
    if found and found.get("start") != origin:
        raise SystemExit(f"{out} was trained from another start: remove it")
    return found


def train(
    prepared: Path, taught: Path, stsb: Path, start: Path, out: Path, *,
    minutes: float, words: float, rows_rate: float, body_rate: float, teacher_share: float,
    human_from: float, seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    limit = 60 * minutes
    origin = corpus.fingerprint(
        start / "tokenizer.json", start / "model.safetensors", taught / teach.MARK
    )
    checkpoint = checkpoint_of(out, origin)
    if checkpoint and checkpoint["elapsed"] >= limit:
        print(f"{out} is already trained for {checkpoint['elapsed'] / 60:.1f} minutes")
        return
    run = Training(start, out, origin)
    if checkpoint:
        run.go_on(checkpoint)
    elif teacher_share:
        student.approach_teacher(run.tokenizer, run.body, teach.load_teacher(), teacher_share)
    seed += run.step  # gone on with, it draws other texts
    texts = Texts(prepared, teach.taught(prepared, taught), words, seed)
    hypernyms, human = Hypernyms(prepared, seed), Human(stsb, HUMAN_PAIRS, seed)
    saved, clock = run.elapsed, time.monotonic()
    with stops() as asked:
        for ids, teacher in batches(texts, run.tokenizer):
            now = time.monotonic()
            run.elapsed, clock = run.elapsed + min(now - clock, LONGEST_STEP), now
            loss, cosine = distillation(student.forward(run.body, ids), teacher)
            run.cosines.append(cosine.item())
            if run.step % 2 == 0 and hypernyms.pairs:
                loss = loss + 0.15 * run.link(hypernyms)
            if run.step % 2 and run.elapsed > human_from * limit:
                loss = loss + run.opinion(human)
            rate = min(1, (run.step + 1) / WARM_UP) * max(0, 1 - run.elapsed / limit)
            run.learn(loss, ROWS_LR * rows_rate * rate, BODY_LR * body_rate * rate)
            run.seen += len(ids)
            last = asked or run.elapsed >= limit
            if last or run.elapsed - saved > CHECKPOINT:
                run.save()
                saved, clock = run.elapsed, time.monotonic()  # saving does not count as training
            if last or run.step % LOGGED == 0:
                run.log()
            if last:
                break
    if run.elapsed < limit:  # half-trained: no step after this one may go on
        done = f"{run.elapsed / 60:.1f} of {minutes:g} minutes"
        print(f"{out} is trained for {done}: the same command goes on", file=sys.stderr)
        raise SystemExit(128 + asked[0])


if __name__ == "__main__":
    parser = arguments(
        __doc__, prepared="work/encoder/prepared", taught="work/encoder/taught",
        stsb="../shared/eval/stsb", start="work/encoder/start", out="work/encoder/trained",
    )  # fmt: skip
    parser.add_argument("--minutes", type=minutes, default=50, help="how long to train")
    parser.add_argument("--words", type=float, default=1, help="how many times as many words")
    parser.add_argument("--rows-rate", type=float, default=1,
                        help="factor on the learning rate of the vocabulary's rows")  # fmt: skip
    parser.add_argument("--body-rate", type=float, default=1,
                        help="factor on the learning rate of the layers")  # fmt: skip
    parser.add_argument("--teacher-share", type=float, default=0,
                        help="of the teacher's weights in those that it begins with")  # fmt: skip
    parser.add_argument("--human-from", type=float, default=0.55,
                        help="share of the time before human scores count")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    with in_words():
        train(**vars(parser.parse_args()))

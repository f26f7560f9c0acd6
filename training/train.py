"""Distil the teacher into the widened student; resumable, for some minutes or some steps.

    loss = 4·(1 − cos(s, t)) + 0.1·InfoNCE(s, t)
         + 0.15·InfoNCE(category, member)             each second step
         + (cos(a, b) − human score)² + 0.5·(1 − r)   each second step of the last part

s is the student's row of a text in any language, t the teacher's row of its English (Reimers &
Gurevych 2020). The second line brings *país* near *méxico*. The third has pairs of sentences as
near as people find them, on a scale from 0 to 1: STSb train, half of the pairs in two languages;
r is the correlation of cosines and scores within the step. ``lessons`` draws all of these.
"""

import contextlib
import ctypes
import json
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from training import arguments, corpus, in_words, minutes, steps, student, teach
from training.lessons import Ids, Lessons, targets

# Most rows are of a rare piece, seen a few times in a run. Adagrad's first steps are its longest,
# so such a row learns from each sight; under Adam at 1.2e-3 it moved a hundredth of its length.
# A row begins as if it had been seen some five times: else its first sight throws it by half its
# length, whatever the gradient.
ROWS_LR, BODY_LR = 0.03, 1.4e-4
SEEN_BEFORE = 1e-7  # squared gradients of a component, of which a sight adds 2e-8 in the middle
SCALE = 20.0
PART = 800  # tokens of texts of like length, where a batch has texts of all lengths
WARM_UP = 100  # steps
CHECKPOINT = 240  # seconds
LOGGED = 50  # steps
PREFETCHED = 16  # lessons by each worker, which has them a pool at a time
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)
LONGEST_STEP = 10.0  # seconds that count: where the process was stopped meanwhile, none did


def contrast(a: torch.Tensor, b: torch.Tensor, ignored: torch.Tensor) -> torch.Tensor:
    scores = (SCALE * a @ b.T).masked_fill(ignored, -torch.inf)
    labels = torch.arange(len(a), device=a.device)
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


def optimisers(body, times: float) -> list[torch.optim.Optimizer]:
    """Return those of the rows and of the layers, for steps of ``times`` as many texts.

    A step's gradient is of their mean, so what one sight adds to a row's is less by as much.
    """
    embedding = body.get_input_embeddings()
    embedding.sparse = True
    rest = [p for p in body.parameters() if p is not embedding.weight]
    return [
        torch.optim.Adagrad([embedding.weight], lr=ROWS_LR,
                            initial_accumulator_value=SEEN_BEFORE / times**2),
        torch.optim.AdamW(rest, lr=BODY_LR, weight_decay=0.01, fused=True),
    ]  # fmt: skip


class Training:
    """A student that learns: its weights, its optimisers, and how far it has come."""

    def __init__(self, start: Path, out: Path, origin: str, times: float) -> None:
        self.tokenizer, self.body = student.at_work(start)  # eval mode: it needs no dropout
        self.optims = optimisers(self.body, times)
        self.part = round(PART * times)
        self.out, self.origin = out, origin
        self.elapsed, self.step, self.seen = 0.0, 0, 0
        self.curves: dict[str, list[torch.Tensor]] = {}  # since the last line of the log

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
            **{name: round(float(torch.stack(found).mean()), 4)
               for name, found in self.curves.items()},
        })  # fmt: skip
        with open(self.out / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(line + "\n")
        self.curves = {}

    def noted(self, name: str, figure: torch.Tensor) -> torch.Tensor:
        """Keep a figure for the log, without waiting for it."""
        self.curves.setdefault(name, []).append(figure.detach())
        return figure

    def halves(self, ids: Ids) -> tuple[torch.Tensor, ...]:
        """Return the unit rows of the first half of some texts, and of the second."""
        return student.unit_rows(self.body, ids, self.part).chunk(2)

    def distil(self, texts: tuple[np.ndarray, np.ndarray], wanted: torch.Tensor) -> torch.Tensor:
        rows = student.forward(self.body, *texts)
        loss, cosine = distillation(rows, wanted.float())
        self.noted("cosine", cosine)
        return loss

    def link(self, ids: Ids, related: np.ndarray) -> torch.Tensor:
        above, below = self.halves(ids)
        return self.noted("link", contrast(above, below, student.beside(self.body, related)))

    def opinion(self, ids: Ids, scores: np.ndarray) -> torch.Tensor:
        a, b = self.halves(ids)
        scored = student.beside(self.body, scores)
        return self.noted("human", disagreement((a * b).sum(-1), scored))

    def learn(self, loss: torch.Tensor, *rates: float) -> None:
        """Make one step down this loss."""
        loss.backward()
        for optim, rate in zip(self.optims, rates, strict=True):
            for group in optim.param_groups:
                group["lr"] = rate
            optim.step()
            optim.zero_grad()
        self.step += 1


class Length(NamedTuple):
    """How long a training is: some minutes, or some steps, which the same seed repeats."""

    whole: float
    unit: Literal["minutes", "steps"]

    def behind(self, run: Training) -> float:
        return run.step if self.unit == "steps" else run.elapsed / 60

    def share(self, run: Training) -> float:
        """Return how much of it is behind, from 0 on."""
        return self.behind(run) / self.whole


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


def deaf(_: int) -> None:
    """Leave what asks to stop to the first process, and end with it, even where it is killed.

    Without that a worker waits for ever for others to take what it has drawn.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)


def checkpoint_of(out: Path, origin: str) -> dict | None:
    """Return what ``out`` goes on from, where there is anything."""
    path = out / "checkpoint.pt"
    found = torch.load(path, "cpu", weights_only=True) if path.exists() else None
    if found and found.get("start") != origin:
        raise SystemExit(f"{out} was trained from another start: remove it")
    return found


def train(
    prepared: Path, taught: Path, stsb: Path, start: Path, out: Path, *,
    minutes: float, steps: int | None, words: float, languages: Collection[str], rows_rate: float,
    body_rate: float, teacher_share: float, human_from: float, times: float, workers: int,
    seed: int,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    start = teach.folder_of(start)
    origin = corpus.fingerprint(
        start / "tokenizer.json",
        start / "model.safetensors",
        taught / teach.MARK,
        prepared / "rows.parquet",
    )
    checkpoint = checkpoint_of(out, origin)
    run = Training(start, out, origin, times)
    length = Length(minutes, "minutes") if steps is None else Length(steps, "steps")
    if checkpoint:
        run.go_on(checkpoint)
        if length.share(run) >= 1:
            print(f"{out} is already trained for {round(length.behind(run), 1)} {length.unit}")
            return
    elif teacher_share:
        student.approach_teacher(run.tokenizer, run.body, teach.load_teacher(), teacher_share)
    lessons = Lessons(
        run.tokenizer, prepared, stsb, words=words, languages=languages, times=times,
        ahead=workers > 0, seed=seed + run.step,  # gone on with, it draws others
    )  # fmt: skip
    wanted = targets(prepared, student.beside(run.body, teach.taught(prepared, taught)))
    loader = DataLoader(
        lessons, batch_size=None, collate_fn=lambda lesson: lesson, num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None, worker_init_fn=deaf,
    )  # fmt: skip
    saved, clock = run.elapsed, time.monotonic()
    with stops() as asked:
        for lesson in loader:
            now = time.monotonic()
            run.elapsed, clock = run.elapsed + min(now - clock, LONGEST_STEP), now
            loss = run.distil(lesson.texts, wanted[student.beside(run.body, lesson.rows)])
            if lesson.link:
                loss = loss + 0.15 * run.link(*lesson.link)
            if lesson.opinion and length.share(run) > human_from:
                loss = loss + run.opinion(*lesson.opinion)
            rate = min(1, (run.step + 1) / WARM_UP) * max(0, 1 - length.share(run))
            run.learn(loss, ROWS_LR * rows_rate * rate, BODY_LR * body_rate * rate)
            run.seen += len(lesson.rows)
            last = asked or length.share(run) >= 1
            if last or run.elapsed - saved > CHECKPOINT:
                run.save()
                saved, clock = run.elapsed, time.monotonic()  # saving does not count as training
            if last or run.step % LOGGED == 0:
                run.log()
            if last:
                break
    if length.share(run) < 1:  # half-trained: no step after this one may go on
        so_far = f"{round(length.behind(run), 1)} of {length.whole:.15g} {length.unit}"
        print(f"{out} is trained for {so_far}: the same command goes on", file=sys.stderr)
        raise SystemExit(128 + asked[0])


if __name__ == "__main__":
    parser = arguments(
        __doc__, prepared="work/encoder/prepared", taught="work/encoder/taught",
        stsb="../shared/eval/stsb", start="work/encoder/start", out="work/encoder/trained",
    )  # fmt: skip
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=minutes, default=50, help="how long to train")
    length.add_argument("--steps", type=steps,
                        help="how long, by no clock: the same seed repeats it")  # fmt: skip
    parser.add_argument("--words", type=float, default=1, help="how many times as many words")
    parser.add_argument("--languages", nargs="*", default=[], help="without any, all")
    parser.add_argument("--rows-rate", type=float, default=1,
                        help="factor on the learning rate of the vocabulary's rows")  # fmt: skip
    parser.add_argument("--body-rate", type=float, default=1,
                        help="factor on the learning rate of the layers")  # fmt: skip
    parser.add_argument("--teacher-share", type=float, default=0,
                        help="of the teacher's weights in those that it begins with")  # fmt: skip
    parser.add_argument("--human-from", type=float, default=0.55,
                        help="share of the time before human scores count")  # fmt: skip
    parser.add_argument("--times", type=float, default=1,
                        help="as many texts in a step; a GPU wants 32")  # fmt: skip
    parser.add_argument("--workers", type=int, default=0, help="processes that draw texts")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    with in_words():
        train(**vars(parser.parse_args()))

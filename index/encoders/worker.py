"""One thread runs the model for all: it batches what arrives together.

Queries, and the keys of a small write, go before bulk work, which comes in small batches: a search
waits for one batch of a running load at most. An encoder that works in steps may be used by several
threads: bulk work takes its steps on the thread that asks for it, and no search waits for them. A
small cache remembers recent queries. The thread ends when there is nothing to do for a while, and
begins again when there is: a process may have many encoders.

A signal's handler may ask in the middle of a question of the thread that it came into, or end it.
So who asks holds no lock that the worker's thread waits for: one step of C hands over a job, and
another one the answer.
"""

from __future__ import annotations

import atexit
import os
import random
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from index.encoders.batching import alike
from index.encoders.protocol import Encoder, Kind, Rows, Stepwise
from index.errors import EncoderUnavailable, Fault, InvalidRequest

BATCH = 64  # texts in one run of the model: some tens of milliseconds
BATCH_CHARACTERS = 4096  # padded ones, in a batch of bulk work: long texts take as long as short
STEPPED, STEPPED_CHARACTERS = 1024, 40_000  # the same where there are steps, which these fill
REMEMBERED = 4096  # queries
ROUNDING = 1e-6  # of a row in single precision; others are brought to unit length
UNEVEN = 0.01  # what the length of a row may be off by; 0 is that of a text without meaning
IDLE = 10.0  # seconds without work after which the thread ends


@dataclass
class _Job:
    texts: Sequence[str]
    kind: Kind | None  # None asks for the pieces of the texts
    answer: SimpleQueue[Any] = field(default_factory=SimpleQueue)  # or the fault


class EncoderWorker:
    """An encoder that any number of threads may share."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._urgent: deque[_Job] = deque()  # queries, and a few texts
        self._bulk: deque[_Job] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._recent: OrderedDict[str, Rows] = OrderedDict()
        # One step at a time, however many load, and were it from a signal's handler.
        self._step = threading.RLock()
        self._closed = False
        self._serving = threading.Lock()  # of the one thread that runs the model
        self._thread: threading.Thread | None = None  # the last one that did
        self._process = os.getpid()

    def close(self, timeout: float = 30.0) -> None:
        """End the thread, and wait, ``timeout`` seconds at most each, for it and a running step.

        Who waits for rows, or asks for some later, gets EncoderUnavailable.
        """
        self._closed = True
        self._wake.put(None)
        if self._thread is not None:
            self._thread.join(timeout)
        if self._step.acquire(timeout=timeout):
            self._step.release()
        atexit.unregister(self.close)

    @property
    def identity(self) -> str:
        return self._encoder.identity

    @property
    def dimension(self) -> int:
        return int(self._encoder.dimension)  # of NumPy, perhaps, which SQLite takes for bytes

    @property
    def default_temperature(self) -> float:
        return self._encoder.default_temperature

    @property
    def calibration(self) -> Mapping[str, float] | None:
        return self._encoder.calibration

    def tokens(self, text: str) -> list[str]:
        """Give the pieces the text is read in."""
        pieces: list[str] = self._ask(self._urgent, [text], None)[0]
        return pieces

    def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Give the (n, d) unit rows of n texts, in their order."""
        rows = np.empty((len(texts), self.dimension), np.float32)
        for batch, made in self.batches(texts, kind=kind):
            rows[batch] = made
        return rows

    def batches(
        self, texts: Sequence[str], *, kind: Kind = "passage"
    ) -> Iterator[tuple[list[int], Rows]]:
        """Encode as bulk work, part by part: give the places of its texts and their rows.

        What fits in one small batch goes ahead, as queries do. Texts of like length share a
        batch, so that little of it is padding. The batches come in a mixed order, so that the
        rate of the first ones says what the rest will take.
        """
        few = len(texts) <= BATCH and len(_mixed(texts, BATCH, BATCH_CHARACTERS)) == 1
        encoder = self._encoder
        if few or not (isinstance(encoder, Stepwise) and callable(encoder.steps)):
            for batch in _mixed(texts, BATCH, BATCH_CHARACTERS):
                jobs = self._urgent if few else self._bulk
                yield batch, self._ask(jobs, [texts[place] for place in batch], kind)
            return
        for batch in _mixed(texts, STEPPED, STEPPED_CHARACTERS):
            for places, rows in self._steps(encoder, [texts[place] for place in batch], kind):
                yield [batch[place] for place in places], rows

    def encode_queries(self, texts: Sequence[str]) -> Rows:
        """Give the (q, d) rows of queries, ahead of bulk work, from memory where recent."""
        known = {text: row for text in texts if (row := self._recent.get(text)) is not None}
        unknown = list(dict.fromkeys(text for text in texts if text not in known))
        for start in range(0, len(unknown), BATCH):
            batch = unknown[start : start + BATCH]
            rows = self._ask(self._urgent, batch, "query")
            # Copies: one that is remembered would keep all of its batch.
            known.update((text, row.copy()) for text, row in zip(batch, rows, strict=True))
        for text in texts:
            self._recent.pop(text, None)  # so that it is the last one
            self._recent[text] = known[text]
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return np.array([known[text] for text in texts]).reshape(-1, self.dimension)

    def _steps(
        self, encoder: Stepwise, texts: Sequence[str], kind: Kind
    ) -> Iterator[tuple[list[int], Rows]]:
        """Take the steps of some bulk work: give places of its texts and their rows."""
        self._check_process()
        steps = iter(encoder.steps([_readable(text) for text in texts], kind=kind))
        # In case that the caller's is a daemon thread, too; a partial is equal to no other one.
        ending = partial(self.close)
        atexit.register(ending)
        given = 0
        try:
            while True:
                with self._step:
                    self._check_open()
                    step = next(steps, None)
                if step is None:
                    break
                places, made = step
                given += len(places)
                yield places, self._checked(made, len(places))
        finally:
            atexit.unregister(ending)
        if given != len(texts):
            raise self._spoiled(f"rows of {given} texts, asked for {len(texts)}")

    def _ask(self, jobs: deque[_Job], texts: Sequence[str], kind: Kind | None) -> Any:
        """Give what the thread makes of texts, or raise its fault."""
        self._check_process()
        self._check_open()
        job = _Job([_readable(text) for text in texts], kind)
        jobs.append(job)
        self._wake.put(None)
        # Two may begin one here: the second thread ends at once.
        if not self._serving.locked():
            threading.Thread(target=self._run, name="encoder", daemon=True).start()
        answer = job.answer.get()
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                del answer  # by this frame it would hold itself, and what was to be encoded
        return answer

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise EncoderUnavailable(
                "this process was forked from the one that opened the encoder, where its threads "
                "stayed: start processes by spawn, or open it only after the fork"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise EncoderUnavailable("the encoder was closed")

    def _run(self) -> None:
        """Serve until nothing comes for a while; who asks once that is over begins a thread."""
        while (self._urgent or self._bulk) and self._serving.acquire(blocking=False):
            self._thread = threading.current_thread()
            # A process that ends while a daemon thread is in native code is aborted.
            atexit.register(self.close)
            try:
                while (first := self._next()) is not None:
                    self._serve(self._gather(first))
            finally:
                atexit.unregister(self.close)  # which holds on to this encoder
                self._serving.release()

    def _next(self) -> _Job | None:
        """Give the next job; or None where none comes for a while."""
        while not self._wake.empty():  # under load they would pile up
            self._wake.get()
        while not (jobs := self._urgent or self._bulk):
            try:
                self._wake.get(timeout=0 if self._closed else IDLE)
            except Empty:
                return None
        return jobs.popleft()

    def _serve(self, jobs: list[_Job]) -> None:
        try:
            self._check_open()
            texts = [text for job in jobs for text in job.texts]
            made = self._made(texts, jobs[0].kind)
        except BaseException as fault:  # whatever it is belongs to those who wait
            if len(jobs) > 1 and isinstance(fault, Exception):  # or to one of them alone
                for job in jobs:
                    self._serve([job])
                return
            for job in jobs:
                job.answer.put(fault)
            return
        start = 0
        for job in jobs:
            job.answer.put(made[start : start + len(job.texts)].copy())
            start += len(job.texts)

    def _made(self, texts: list[str], kind: Kind | None) -> Rows | list[list[str]]:
        if kind is None:
            return [self._encoder.tokens(text) for text in texts]
        return self._checked(self._encoder.encode(texts, kind=kind), len(texts))

    def _checked(self, made: object, texts: int) -> Rows:
        """Give the (n, d) rows of n texts; refuse others, for products of them are no cosines."""
        try:
            rows = np.asarray(made, np.float32)
        except (TypeError, ValueError) as fault:  # as of rows of several lengths
            raise self._spoiled(f"a {type(made).__name__} that makes no array ({fault})") from fault
        if rows.shape != (texts, self.dimension):
            raise self._spoiled(f"an array of shape {rows.shape}")
        lengths = np.linalg.norm(rows, axis=1)
        off = np.where(lengths == 0, 0, np.abs(lengths - 1))
        spoiled = lengths[~(off < UNEVEN)]
        if len(spoiled):
            raise self._spoiled(f"rows of length {spoiled[0]:.4g}")
        rough = off > ROUNDING
        if rough.any():  # as of an encoder in half precision
            rows = np.array(rows)
            rows[rough] /= lengths[rough, None]
        return rows

    def _spoiled(self, what: str) -> InvalidRequest:
        message = f"{self.identity!r} gave {what}, where (n, {self.dimension}) unit rows are needed"
        return InvalidRequest(Fault("encoder", message))

    def _gather(self, first: _Job) -> list[_Job]:
        """Take with a job the urgent ones of its kind that are waiting already."""
        jobs, count = [first], len(first.texts)
        while self._urgent and self._urgent[0].kind == first.kind and count < BATCH:
            jobs.append(self._urgent.popleft())
            count += len(jobs[-1].texts)
        return jobs


def _readable(text: str) -> str:
    """Put a question mark for each half of a surrogate pair, which no encoder can read."""
    return text.encode(errors="replace").decode()


def _mixed(texts: Sequence[str], most: int, characters: int) -> list[list[int]]:
    """Split places into batches of texts of like length, and mix these."""
    batches = list(alike([len(text) for text in texts], characters, most))
    random.Random(0).shuffle(batches)
    return batches

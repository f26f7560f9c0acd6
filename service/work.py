"""Loads and the like that run by themselves: one worker thread, a bounded queue.

    queued ──> running ──> done | failed | cancelled
       └─────────────────────────────────> cancelled

One worker, because loads take turns at the encoder and at the store's one write lock. A cancel is a
flag that the load's own progress reports look at: the load raises, its transaction rolls back, and
nothing of it remains. One that comes after the last report, while the transaction is committed, is
too late: the job ends as done. Jobs live as long as the process; what they loaded lives in the
store.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from index.answers import LoadReport, Progress
from index.errors import SoftDictError
from index.pace import Report

from .errors import JobCancelled, JobFinished, ServiceError, Stopping, TooManyJobs, UnknownJob

State = Literal["queued", "running", "done", "failed", "cancelled"]
JobKind = Literal["load", "reencode"]
Work = Callable[[Report], LoadReport | None]

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """One of them: what it is, how far it is, and how it ended. Times are seconds since 1970."""

    dataset: str
    kind: JobKind
    work: Work = field(repr=False)
    discard: Callable[[], object] = field(repr=False)  # run once, however the job ends
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State = "queued"
    created: float = field(default_factory=time.time)
    started: float | None = None
    finished: float | None = None
    progress: Progress | None = None
    report: LoadReport | None = None
    fault: SoftDictError | None = None
    stop: threading.Event = field(default_factory=threading.Event, repr=False)
    ended: threading.Event = field(default_factory=threading.Event, repr=False)

    def report_progress(self, progress: Progress) -> None:
        """Note how far it is; end it here if that was asked for."""
        self.progress = progress
        if self.stop.is_set():
            raise JobCancelled


class Jobs:
    """The queue and its worker."""

    def __init__(self, *, waiting: int, kept: int) -> None:
        self._waiting, self._kept = waiting, kept
        self._jobs: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._ended: deque[str] = deque()  # in the order in which they did: clocks are set back
        self._changed = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._worker.start()

    def submit(
        self, dataset: str, work: Work, discard: Callable[[], object], *, kind: JobKind = "load"
    ) -> Job:
        """Put a job at the end of the queue.

        Raises TooManyJobs for a load if as many wait as may, and Stopping once the queue is closed.
        """
        with self._changed:
            if self._closed:
                raise Stopping
            if kind == "load" and sum(job.kind == kind for job in self._queue) >= self._waiting:
                raise TooManyJobs(self._waiting)
            job = Job(dataset, kind, work, discard)
            self._jobs[job.id] = job
            self._queue.append(job)
            self._changed.notify()
        return job

    def get(self, job: str) -> Job:
        """Return a job by id; raise UnknownJob."""
        with self._changed:
            if job not in self._jobs:
                raise UnknownJob(job)
            return self._jobs[job]

    def remembered(self) -> list[Job]:
        """Return the jobs that are remembered, newest first."""
        with self._changed:
            return list(reversed(self._jobs.values()))

    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop; raise UnknownJob, or JobFinished if it is too late."""
        job = self.get(job_id)
        with self._changed:
            if job.finished is not None:
                raise JobFinished(job.id, job.state)
            job.stop.set()
            if job in self._queue:
                self._queue.remove(job)
                self._end(job, "cancelled", JobCancelled())
        return job

    def close(self, timeout: float = 30.0) -> None:
        """Cancel every job and wait, ``timeout`` seconds at most, for the worker to end."""
        with self._changed:
            self._closed = True
            for job in self._queue:
                self._end(job, "cancelled", JobCancelled())
            self._queue.clear()
            for job in self._jobs.values():
                job.stop.set()
            self._changed.notify()
        self._worker.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                job = self._queue.popleft()
                job.started, job.state = time.time(), "running"  # in the order that JobOut wants
            self._do(job)

    def _do(self, job: Job) -> None:
        try:
            job.report = job.work(job.report_progress)
        except JobCancelled as fault:
            self._finish(job, "cancelled", fault)
        except SoftDictError as fault:
            kind = type(fault).__name__  # what it says may hold what somebody loads
            log.warning("job %s (%s of %s) failed: %s", job.id, job.kind, job.dataset, kind)
            self._finish(job, "failed", fault)
        except Exception:
            log.exception("job %s failed", job.id)
            cause = ServiceError(f"it failed inside; the log has the cause, under job {job.id}")
            self._finish(job, "failed", cause)
        else:
            self._finish(job, "done", None)

    def _finish(self, job: Job, state: State, fault: SoftDictError | None) -> None:
        with self._changed:
            self._end(job, state, fault)

    def _end(self, job: Job, state: State, fault: SoftDictError | None) -> None:
        job.discard()
        job.work = job.discard = _nothing  # and what they hold on to
        if fault is not None:  # so would the frames that it came through
            fault.__traceback__ = fault.__cause__ = fault.__context__ = None
        job.fault, job.state, job.finished = fault, state, time.time()  # finished last: see JobOut
        job.ended.set()
        self._ended.append(job.id)
        while len(self._ended) > self._kept:
            del self._jobs[self._ended.popleft()]


def _nothing(*_: object) -> None:
    """What is left to do of a job that has ended."""

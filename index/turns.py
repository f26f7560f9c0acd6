"""Writers take turns, and whoever cannot wait for one says so.

A large load is written in one transaction of a minute or two. Whoever calls the library waits for
that; a service, whose threads are few, does not:

    with patience(10):          # seconds, for all the turns that are waited for inside
        d["méxico"] = 7         # Busy if another write takes longer; then nothing was changed

Only waiting counts: a load that encoded for an hour is as patient as one that begins.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from index.errors import Busy

_waited: ContextVar[float] = ContextVar("waited", default=0.0)  # seconds, for all turns so far
_most: ContextVar[float] = ContextVar("most", default=math.inf)  # what that may come to


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Wait so long at most, in this thread, for turns at writing; raise Busy after that.

    Inside another one, the shorter of the two holds.
    """
    token = _most.set(min(_waited.get() + seconds, _most.get()))
    try:
        yield
    finally:
        _most.reset(token)


def left() -> float:
    """Say for how many seconds patience lasts."""
    return max(0.0, _most.get() - _waited.get())


def count_waiting(seconds: float) -> None:
    """Take what was waited off what patience there is."""
    _waited.set(_waited.get() + seconds)


def in_turn(lock: threading.RLock) -> AbstractContextManager[object]:
    """Give what a ``with`` statement takes a lock by, to wait for it no longer than patience lasts.

    Where that is for ever it is the lock itself: Python handles a signal between any two of its own
    calls, so one of Ctrl-C could come before what is written here lets go of a lock.
    """
    return lock if _most.get() == math.inf else _Patiently(lock)


class _Patiently:
    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        began = time.monotonic()
        taken = self._lock.acquire(timeout=min(left(), threading.TIMEOUT_MAX))
        count_waiting(time.monotonic() - began)
        if not taken:
            raise Busy

    def __exit__(self, *_: object) -> None:
        self._lock.release()

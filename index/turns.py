"""Writers take turns, and whoever cannot wait for one says so.

A large load is written in one transaction of a minute or two. Whoever calls the library waits for
that; a service, whose threads are few, does not:

    with patience(10):          # seconds, for all the turns that are waited for inside
        d["méxico"] = 7         # Busy if another write takes longer; then nothing was changed
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from index.errors import Busy

_until: ContextVar[float] = ContextVar("until", default=math.inf)  # of time.monotonic


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Wait so long at most, in this thread, for turns at writing; raise Busy after that.

    Inside another one, the shorter of the two holds.
    """
    token = _until.set(min(time.monotonic() + seconds, _until.get()))
    try:
        yield
    finally:
        _until.reset(token)


class Turn:
    """A lock that who has it may take again, and that nobody waits for beyond their patience."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        wait = max(0.0, _until.get() - time.monotonic())
        if not self._lock.acquire(timeout=min(wait, threading.TIMEOUT_MAX)):
            raise Busy

    def __exit__(self, *_: object) -> None:
        self._lock.release()

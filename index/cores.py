"""The processor's cores: parts of one question's work, side by side.

NumPy and FAISS let go of Python's lock while they work, so threads do for what one core is too
slow for. The threads are few and shared by all questions. Whoever asks for parts also works on
them, and takes back what no thread has begun, so nobody waits in a queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

MOST = 4  # threads on one question: memory is no faster with more

Part = TypeVar("Part")
Made = TypeVar("Made")


def cores() -> int:
    """How many cores this process may use, and will for one question."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(usable or 1, MOST))


def side_by_side(work: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
    """Do the same work on every part, on as many cores as there are; results in order."""
    if len(parts) < 2 or cores() < 2:
        return [work(part) for part in parts]
    try:
        begun = [_pool().submit(work, part) for part in parts[1:]]
    except RuntimeError:  # no thread begins any more: there are too many, or Python is ending
        return [work(part) for part in parts]
    try:
        made = [work(parts[0])]
        for part, future in zip(reversed(parts[1:]), reversed(begun), strict=True):
            made.insert(1, work(part) if future.cancel() else future.result())
        return made
    finally:
        for future in begun:
            future.cancel()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores() - 1, thread_name_prefix="softdict-core")


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads are in the other process

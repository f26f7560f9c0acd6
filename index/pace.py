"""How far a work of encoding is, at what rate, and how long it still takes.

The rate is that of the last half minute: a machine that gets busy shows in it soon, and a batch
of long texts does not. Batches come in a mixed order of lengths (``index.encoders.worker``), so
what was fast so far goes on as fast.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from index.answers import Progress

# It may raise, to give the work up. In the phase "writing" it may not write to the same folder.
Report = Callable[[Progress], None]
WINDOW = 30.0  # seconds that the rate looks back
FIRST = 1.0  # seconds before a rate is worth saying
STEP = 0.25  # seconds between what it remembers


class Pace:
    """Counts rows that are done, and tells ``report`` about each batch of them."""

    def __init__(
        self, report: Report | None, total: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._total, self._clock = report, total, clock
        self._done = self._encoded = self._here = self._skipped = 0
        self._later = 0.0
        self._seen: deque[tuple[float, int]] = deque()  # moment, texts encoded by then

    def skip(self, rows: int) -> None:
        """Count rows of the block that begins as done: nothing of them is encoded."""
        self._done += rows
        self._skipped += rows

    def begin(self, texts: int) -> None:
        """Begin to encode a block's texts.

        The rows after the block are taken to be like it: in a load that goes on where another
        was killed, the first blocks need nothing and the last ones everything.
        """
        self._here = texts
        rows = max(self._skipped + texts, 1)
        self._later = (self._total - self._done - texts) * texts / rows
        self._skipped = 0
        self._tell()

    def encoded(self, texts: int) -> None:
        """Count texts of the block as encoded."""
        self._done += texts
        self._encoded += texts
        self._here -= texts
        self._tell()

    def _tell(self) -> None:
        if self._report is None:
            return
        rate = self._rate()
        left = None if not rate else (self._here + self._later) / rate
        self._report(Progress("encoding", self._done, self._total, rate, left))

    def _rate(self) -> float | None:
        now, seen = self._clock(), self._seen
        if not seen or now - seen[-1][0] >= STEP:
            seen.append((now, self._encoded))
        while len(seen) > 2 and now - seen[1][0] >= WINDOW:
            seen.popleft()
        since, before = seen[0]
        if now - since < FIRST or self._encoded == before:
            return None
        return (self._encoded - before) / (now - since)

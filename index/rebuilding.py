"""Sketching a dataset in the background, while it is searched and written.

A build takes a snapshot, makes one sketched block of its rows, and hands that over. Whatever
was written meanwhile is laid on top: entries gone are masked, changed values are taken over,
new entries stay in their own blocks, which are scanned. So weights are right at every moment,
and a build that is stopped, or fails, changes nothing.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from atexit import register
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index import generation
from index.sketch import CHUNK, SKETCHED_FROM, Cancelled, build_sketch
from index.snapshot import Block, Snapshot, dense, merged
from index.store import Record
from index.values import Array
from index.vectors import Held, Rows, VectorBlock, halved, held_type, one_thread

UNSKETCHED = 1 / 24  # of the rows may be new since the sketch: each costs as much as a scan
GONE = 1 / 4  # of the sketched rows may be deleted

REST = 600.0  # seconds after a build that failed, on a full disk perhaps: no write begins another

FAILED = (
    "a sketch could not be made, and every key is scanned until it can: "
    f"in {REST / 60:.0f} minutes or more"
)
Go = Callable[[], bool]  # whether to go on

log = logging.getLogger(__name__)


def is_due(snapshot: Snapshot, *, half: bool = False) -> bool:
    """Tell whether a snapshot is large, and its sketch missing, out of date or not yet in half."""
    if len(snapshot) < SKETCHED_FROM:
        return False
    if snapshot.sketch is None or (half and not snapshot.rounding):
        return True
    sketched = len(snapshot.sketch)
    present = int(np.count_nonzero(snapshot.blocks[0].alive))
    return snapshot.rows - sketched > UNSKETCHED * sketched or present < (1 - GONE) * sketched


class StackedRows:
    """The vectors of the entries that are there, fetched from their blocks as asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows = np.flatnonzero(snapshot.alive)
        self.shape = (len(self._rows), snapshot.blocks[0].vectors.shape[1])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, places: slice | NDArray[np.int64]) -> Rows:
        return self._snapshot.vectors_at(self._rows[places])


def sketched(
    snapshot: Snapshot, home: Path | None, record: Record, go_on: Go, *, half: bool
) -> Snapshot:
    """Make one sketched block of a snapshot's entries, its vectors on disk if there is a home.

    With ``half`` these are held in 16 bits a component. Labels are numbered anew, so that those
    which no entry has any more are gone. Raise Cancelled once ``go_on`` says no.
    """
    rows = StackedRows(snapshot)
    made: Held = (  # first of all: where the disk has no room, no sketch is made for nothing
        np.empty(rows.shape, held_type(half))
        if home is None
        else generation.empty_vectors(home, record.id, rows.shape, half=half)
    )
    order, sketch = build_sketch(rows, go_on=go_on)
    for start in range(0, len(rows), CHUNK):
        if not go_on():
            raise Cancelled
        part = rows[order[start : start + CHUNK]]
        made[start : start + CHUNK] = halved(part) if half else part
    present = np.flatnonzero(snapshot.alive)[order]
    empty = Snapshot.empty(snapshot.columns)
    block = Block.of(
        ids=snapshot.ids[present],
        keys=snapshot.keys_at(present),
        arrived=snapshot.arrived[present],
        vectors=VectorBlock(made),
        columns=_relabelled(snapshot, snapshot.values_at(present), empty),
        sketch=sketch,
    )
    return empty.with_blocks([block])


def _relabelled(snapshot: Snapshot, arrays: Sequence[Array], to: Snapshot) -> tuple[Array, ...]:
    """Give values of a snapshot with the labels' numbers in another, which takes in new ones."""
    found: list[Array] = []
    for column, array, old, new in zip(
        snapshot.columns, arrays, snapshot.labels, to.labels, strict=True
    ):
        if column.type in ("category", "text"):
            used, places = np.unique(array, return_inverse=True)
            codes = [-1 if code < 0 else new.code(old.labels[code]) for code in used.tolist()]
            array = np.array(codes, np.int32)[places]
        found.append(array)
    return tuple(found)


def laid_on(made: Snapshot, now: Snapshot) -> Snapshot:
    """Lay what ``now`` holds on what was ``sketched`` of an earlier snapshot of the dataset."""
    (block,) = made.blocks
    by_id = np.argsort(block.ids)
    sorted_ids = block.ids[by_id]
    alive = np.zeros(len(block), bool)
    columns = tuple(array.copy() for array in block.columns)
    fresh = []
    for held in now.blocks:
        places = np.minimum(np.searchsorted(sorted_ids, held.ids), len(sorted_ids) - 1)
        known = sorted_ids[places] == held.ids
        taken = np.flatnonzero(known & held.alive)
        rows = by_id[places[taken]]
        alive[rows] = True
        given = _relabelled(now, [array[taken] for array in held.columns], made)
        for mine, theirs in zip(columns, given, strict=True):
            mine[rows] = theirs
        if not known.all():
            left = replace(held, alive=held.alive & ~known, sketch=None)
            left = left if left.alive.all() else merged([left])
            fresh.append(replace(left, columns=_relabelled(now, left.columns, made)))
    parts = [dense(replace(block, alive=alive, columns=columns)), *fresh]
    return Snapshot(now.columns, made.labels, [part for part in parts if len(part)])


class Rebuilder:
    """Builds one dataset's sketch in a thread of its own, one build at a time.

    ``build`` finds out for itself whether what was asked for is still to be done. Once it is gone,
    nothing is.
    """

    def __init__(self, build: weakref.WeakMethod[Callable[[Go], None]]) -> None:
        self._build = build
        # For what follows. While it is held no function of Python is called but the thread's start,
        # so a signal's handler comes nowhere else, and finds it busy there.
        self._turn = threading.RLock()
        self._stopping = False
        self._asked = False  # for a build, since the last look
        self.busy = False  # a build goes on
        self._rests_until = -math.inf  # by the monotonic clock
        self._thread: threading.Thread | None = None
        self._at_last: Callable[[], None] | None = None  # done by the thread as it ends
        _running.add(self)

    def start(self) -> None:
        """Begin a build, or see to it that the one that goes on is followed by another look."""
        thread = threading.Thread(target=self._run, name="softdict-sketch", daemon=True)
        with self._turn:
            self._asked = True
            if self.busy or not self._may_build():
                return
            self.busy = True
            try:
                thread.start()
                self._thread = thread
            except BaseException:
                self.busy = False
                raise

    def wait(self) -> None:
        """Wait for the build that goes on, if one does."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def stop(self, *, wait: bool = True) -> None:
        """Cancel the build that goes on, and begin no other."""
        with self._turn:
            self._stopping = True
        if wait:
            self.wait()

    def end(self, action: Callable[[], None]) -> None:
        """Cancel the build that goes on, and begin no other; once none goes on, do something."""
        with self._turn:
            self._stopping = True
            if self.busy:
                self._at_last = action
                return
        action()

    def leave_behind(self) -> None:
        """In a forked process: forget the build that went on, and begin no other after it.

        Its thread is not here, and may have left a lock of BLAS held, at which another would wait.
        """
        self._turn = threading.RLock()
        if self.busy:
            self._stopping = True
            self._thread, self.busy = None, False

    def _run(self) -> None:
        while self._goes_on():
            try:
                with one_thread():
                    if (build := self._build()) is not None:
                        build(lambda: not self._stopping)
            except Cancelled:
                log.info("a sketch was not finished")
            except OSError as fault:
                self._rests_until = time.monotonic() + REST
                log.error("%s: %s", FAILED, fault)
            except Exception:
                self._rests_until = time.monotonic() + REST
                log.exception(FAILED)
        if self._at_last is not None:
            self._at_last()

    def _may_build(self) -> bool:
        return not self._stopping and time.monotonic() >= self._rests_until

    def _goes_on(self) -> bool:
        """Tell whether somebody asked since the last look; if not, this was the last."""
        with self._turn:
            if self._thread is not threading.current_thread():
                return False  # Ctrl-C came into its start, and another one may have begun
            self.busy = self._asked and self._may_build()
            self._asked = False
            return self.busy


_running: weakref.WeakSet[Rebuilder] = weakref.WeakSet()


@register
def _stop_all() -> None:
    """No thread may be inside FAISS when the interpreter goes."""
    for rebuilder in list(_running):
        rebuilder.stop()


def _leave_behind() -> None:
    for rebuilder in list(_running):
        rebuilder.leave_behind()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_behind)

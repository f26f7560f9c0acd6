"""Whether a load fits in memory, known before anything is encoded.

What a load will hold is estimated from what reading the table found out; what there is, is the
least of what the system and its control groups say. Where neither says anything, nothing is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from index.answers import Column
from index.errors import NotEnoughMemory
from index.snapshot import BLOCK

# Bytes of one entry beside its vector, its key's characters and its columns: the key's object,
# its place in the tuple and the dictionary of keys, id, arrival, and the whole table's copies.
ENTRY = 250
# A label: a code in two arrays, and what fitting τ takes. A text: the object, its place in the list
# and in the dictionary.
LABEL, TEXT = 24, 180
# A component of a vector: held, joined, and kept for fitting τ; and, of one column at a time, the
# copies that are made for that.
COMPONENT, COPIES = 20, 32
# A cell while its row waits as Python objects: a number, a label or a text, and its place.
CELL = {"number": 36, "category": 60, "text": 60}
ALWAYS = 160 * 10**6  # bytes of the encoder's buffers and of fitting τ, as bench/load measured
SMALL = 2**28  # bytes: a load below this is not worth asking the system
GB = 10**9


def load_memory(
    entries: int, dimension: int, columns: Sequence[Column], text_bytes: int
) -> tuple[float, int]:
    """Estimate the bytes of one new entry of a load, and those it holds for a while beside.

    ``text_bytes`` are of the characters of all keys and texts together.
    """
    each = ENTRY + 4 * dimension + text_bytes / max(entries, 1)
    row = 600 + 8 * dimension  # a waiting row, and its vector twice
    for column in columns:
        row += CELL.get(column.type) or 32 * (column.width or 0)
        if column.type == "number":
            each += 24  # held, joined, and in order
        elif column.type == "vector":
            each += COMPONENT * (column.width or 0)
        else:
            each += LABEL if column.type == "category" else TEXT
    each += COPIES * max((column.width or 0 for column in columns), default=0)
    block = min(entries, BLOCK)
    return each, ALWAYS + block * row


def check_fits(
    entries: int,
    dimension: int,
    columns: Sequence[Column],
    text_bytes: int,
    *,
    available: Callable[[], int | None] | None = None,
) -> None:
    """Refuse a load that memory would not hold.

    Raise NotEnoughMemory with the bytes it needs, those there are, and what would fit.
    """
    each, beside = load_memory(entries, dimension, columns, text_bytes)
    needed = round(entries * each) + beside
    if needed < SMALL:
        return
    there = (available or available_memory)()
    if there is not None and needed > there:
        rows = int((there - beside) / each)
        raise NotEnoughMemory(needed, there, advice(needed, rows))


def check_room(needed: int, advice: str) -> None:
    """Refuse what takes so many bytes for a while, where they are not there."""
    there = available_memory() if needed > SMALL else None
    if there is not None and needed > there:
        raise NotEnoughMemory(needed, there, advice)


def advice(needed: int, rows: int) -> str:
    """Say what would fit."""
    fewer = f"load at most {_rounded(rows):,} rows, or " if rows >= 1000 else ""
    return f"{fewer}load where {needed / GB:.1f} GB are free"


def available_memory(root: Path = Path("/")) -> int | None:
    """Give the bytes this process may still take, or None where nobody says."""
    figures = [*_of_the_system(root), *_of_control_groups(root)]
    return max(0, min(figures)) if figures else None


def _of_the_system(root: Path) -> Iterator[int]:
    """Linux says what is available; elsewhere half of what is built in is a fair guess."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024 * int(line.split()[1])
                return
    with suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _of_control_groups(root: Path) -> Iterator[int]:
    """The limit of each group this process is in, less what is used of it.

    Pages of files that nobody used for a while count as used, and are given back on demand.
    """
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2
                names = ("memory.max", "memory.current", "inactive_file")
                top = root / "sys/fs/cgroup"
            elif "memory" in controllers.split(","):  # version 1
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                top = root / "sys/fs/cgroup/memory"
            else:
                continue
            group = top / path.lstrip("/")
            for folder in (group, *group.parents):
                if folder == top or top in folder.parents:
                    yield from _left(folder, *names)


def _left(group: Path, limit: str, used: str, inactive: str) -> Iterator[int]:
    with suppress(OSError, ValueError):  # "max" is no number, and no limit
        most = int((group / limit).read_text())
        taken = int((group / used).read_text())
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, figure = line.partition(" ")
            if name == inactive:
                taken -= int(figure)
        yield most - taken


def _rounded(rows: int) -> int:
    """Two figures say enough of an estimate, and the lower ones are safe."""
    step: int = 10 ** (len(str(rows)) - 2)
    return rows // step * step

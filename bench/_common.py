"""What the benchmarks share, whatever they measure."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SHOWN = 10
TIE = 1e-6  # cosine


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Do some work; give its seconds, and what it made."""
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made


def percentiles(values: Any, *wanted: float) -> list[float]:
    return [float(value) for value in np.percentile(values, wanted)]


def spread(values: Any, digits: int) -> str:
    """Show a median, and the 10th and 90th percentile."""
    low, middle, high = percentiles(values, 10, 50, 90)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def status_bytes(name: str, process: int | str = "self") -> int:
    """Give a figure that Linux keeps of a process's memory, such as VmRSS; elsewhere 0."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]] = ()) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def machine() -> str:
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(": ")[1] for line in lines if "model name" in line), model)
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {ram:.0f} GB, Python {platform.python_version()}"

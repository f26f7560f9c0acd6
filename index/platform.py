"""What the machine underneath asks for."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

ARENA_MAX = -8  # the number that glibc's mallopt knows it by
ARENAS = 2


def one_openmp() -> None:
    """Let FAISS and torch live in one macOS process.

    Each brings an OpenMP of its own there, and loading the second aborts the process
    unless it is told to go on. Elsewhere nothing is done.
    """
    if sys.platform == "darwin":
        os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")


def brief_waits() -> None:
    """Let NumPy's threads sleep soon after a product; call it before NumPy is imported.

    OpenBLAS keeps them spinning for long after a scan, on the core that the next question
    wants. 2^20 ticks are half a millisecond.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")


def few_arenas() -> None:
    """Have glibc keep freed memory in two places, not in eight for each core.

    Threads take turns over these places, and each keeps as much as was ever used of it: 45 MB
    after 200 searches by the service's eight. Call it before there are threads. Elsewhere than
    under glibc nothing is done.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # musl has no such function
            ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)


def files_at_a_time() -> int:
    """Say how many files and sockets this process may have open; very many where nobody says."""
    try:
        import resource
    except ImportError:  # Windows, where a server waits by select(), which takes no more there
        return 512
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if most == resource.RLIM_INFINITY else most


def no_telemetry() -> None:
    """Keep libraries from reporting to their makers; call it before they are imported.

    ONNX Runtime does so on Linux too since 1.29, by default and in native code, and leaves
    a number for the machine in the home folder. It is silent where ``CI`` is set, so a test
    of this must run without.
    """
    for name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        os.environ[name] = "1"

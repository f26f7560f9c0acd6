"""What the machine underneath asks for."""

from __future__ import annotations

import os
import sys


def one_openmp() -> None:
    """Let FAISS and torch live in one macOS process.

    Each brings an OpenMP of its own there, and loading the second aborts the process
    unless it is told to go on. Elsewhere nothing is done.
    """
    if sys.platform == "darwin":
        os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")

"""Programs beside Python that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def program(name: str, package: str = "") -> str:
    """Give the path of a program, or skip the test without it; in CI, where none may be, fail.

    ``package`` is the one that brings it, if that has another name.
    """
    path = shutil.which(name)
    if path is None:
        missing = f"{name} is needed: apt-get install {package or name}"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return path

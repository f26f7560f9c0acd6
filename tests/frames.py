"""What outlives a call: frames, and by them all that their variables held."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import CodeType, FrameType


def kept_frames(call: Callable[[], object], folder: str) -> list[CodeType]:
    """Say of which code in a folder frames outlive a call, before Python looks for cycles."""

    def frames() -> list[FrameType]:
        # Not isinstance: that asks what is lazy, as torch is of what it calls deprecated.
        found = (each for each in gc.get_objects() if type(each) is FrameType)
        return [each for each in found if folder in each.f_code.co_filename]

    gc.collect()
    gc.disable()
    try:
        before = frames()
        call()
        after = frames()
    finally:
        gc.enable()
    return [each.f_code for each in after if each not in before]

"""Many threads, one dictionary: nobody waits for ever, and no answer is half old and half new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from index import Catalog, SoftDict
from tests.service.running import PATIENCE


def begun(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> bool:
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)


def test_a_change_of_settings_during_the_first_question_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder="random")["x"] = 1
    reading, go_on = threading.Event(), threading.Event()
    read = SoftDict._read

    def slowly(self: SoftDict) -> object:
        reading.set()
        go_on.wait()
        return read(self)

    catalog = Catalog.open(tmp_path)
    len(catalog["b"])
    monkeypatch.setattr(SoftDict, "_read", slowly)
    asking = begun(lambda: catalog["a"].search("x"))
    assert reading.wait(PATIENCE)
    changing = begun(lambda: catalog["a"].configure(temperature=0.1))
    while catalog["a"]._writing.acquire(blocking=False):  # until the change has begun
        catalog["a"]._writing.release()
    held_up = not ended(begun(lambda: [catalog["b"].put("y", number) for number in range(20)]))
    go_on.set()

    assert not held_up and ended(asking, changing)
    assert catalog["a"].describe().temperature == "0.1"
    catalog.close()

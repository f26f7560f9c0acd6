"""Parts of one question's work, side by side."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from index import cores
from index.cores import side_by_side


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with three cores, whatever the machine has."""
    pool = ThreadPoolExecutor(2)
    monkeypatch.setattr(cores, "cores", lambda: 3)
    monkeypatch.setattr(cores, "_pool", lambda: pool)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_forked_process_has_threads_of_its_own() -> None:
    script = """if 1:
        import os
        from index import cores

        cores.cores = lambda: 2
        assert cores._pool().submit(os.getpid).result(30) == os.getpid()
        child = os.fork()
        if not child:
            os._exit(cores._pool().submit(os.getpid).result(30) != os.getpid())
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_what_is_asked_as_the_interpreter_ends_is_answered() -> None:
    script = """if 1:
        import atexit
        from index import cores

        cores.cores = lambda: 2
        atexit.register(lambda: print(cores.side_by_side(abs, [-1, -2, -3])))
    """
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)

    assert (ended.stdout.strip(), ended.stderr) == (b"[1, 2, 3]", b"")


def test_results_come_in_the_order_of_the_parts() -> None:
    def slowly(part: int) -> int:
        time.sleep(0.01 * (part % 3))
        return part * part

    for count in (0, 1, 2, 3, 20):
        assert side_by_side(slowly, range(count)) == [part * part for part in range(count)]


@pytest.mark.parametrize(("usable", "used"), [(1, 1), (2, 2), (4, 4), (64, 4)])
def test_a_question_takes_as_many_cores_as_there_are_up_to_four(
    usable: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(usable)}, raising=False)
    cores._pool.cache_clear()
    together = threading.Barrier(used)

    assert cores.cores() == used
    assert side_by_side(lambda _: together.wait(30) >= 0, range(4 * used)) == [True] * 4 * used
    cores._pool.cache_clear()


def test_parts_are_worked_on_at_the_same_time() -> None:
    together = threading.Barrier(3)

    assert side_by_side(lambda _: together.wait(30) >= 0, range(3)) == [True] * 3


def test_who_asks_takes_over_what_no_thread_has_begun() -> None:
    busy = threading.Event()
    for _ in range(2):
        cores._pool().submit(busy.wait, 30)

    workers = side_by_side(lambda _: threading.get_ident(), range(4))
    busy.set()

    assert workers == [threading.get_ident()] * 4


@pytest.mark.parametrize("broken", [0, 1, 3])
def test_an_exception_of_any_part_is_raised(broken: int) -> None:
    def work(part: int) -> int:
        if part == broken:
            raise ArithmeticError(part)
        return part

    with pytest.raises(ArithmeticError, match=str(broken)):
        side_by_side(work, range(4))

"""What the machine underneath is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from index.platform import files_at_a_time

# Threads that hold memory at the same time; then what glibc says of the places that it came from.
COUNT_ARENAS = """
import ctypes, re, sys, tempfile, threading
from index.platform import few_arenas

if sys.argv[1] == "few":
    few_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
all_there = threading.Barrier(8)

def work():
    all_there.wait()
    libc.malloc(50_000)
    all_there.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with tempfile.NamedTemporaryFile() as said:
    stream = libc.fopen(said.name.encode(), b"w")
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(len(re.findall("<heap nr=", said.read().decode())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc alone has arenas")
def test_threads_share_two_arenas() -> None:
    counted = {
        how: int(subprocess.check_output([sys.executable, "-c", COUNT_ARENAS, how], text=True))
        for how in ("few", "many")
    }

    assert counted["few"] <= 2 < counted["many"]


def test_where_nobody_says_how_many_files_may_be_open_select_takes_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows

    assert 0 < files_at_a_time() <= 512

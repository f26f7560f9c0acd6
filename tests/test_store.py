"""Durability: what was acknowledged survives, and what failed leaves nothing."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from index import Catalog, Column, LoadOptions, SoftDict, moments
from index.encoders.teaching import RandomEncoder
from index.errors import (
    BadRows,
    Busy,
    DatasetExists,
    DiskFull,
    InvalidRequest,
    ReadOnlyStore,
    StoreClosed,
    StoreCorrupt,
    StoreLocked,
    UnknownDataset,
    UnreadableSource,
    WrongValue,
)
from index.store import UNWRITTEN, Store, _damaged, _full
from index.turns import left, patience
from tests.programs import program
from tests.test_concurrency import begun, ended

ROOT = Path(__file__).parents[1]
OPTIONS = LoadOptions(format="csv")
# For a script, once it has imported what it needs: root may read and write anywhere. What Python
# itself imports late (urllib, for a path's URI) may lie where nobody may read.
AS_NOBODY = """
import urllib.parse
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_database_is_in_wal_mode_with_full_synchronisation(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        connection = d._moments.store._connection

        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        assert connection.execute("PRAGMA fullfsync").fetchone()[0] == 1  # on macOS, too
        assert connection.execute("PRAGMA journal_size_limit").fetchone()[0] == 64 * 2**20


def test_every_acknowledged_put_survives_kill_9(tmp_path):
    with python(
        "import sys\n"
        "from index import SoftDict\n"
        "d = SoftDict.open(sys.argv[1], encoder='random')\n"
        "for i in range(10**6):\n"
        "    d[f'key {i % 50}'] = i\n"
        "    print(i, flush=True)\n",
        tmp_path,
    ) as writer:
        acknowledged = -1
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged == 120:
                os.kill(writer.pid, signal.SIGKILL)

    with SoftDict.open(tmp_path) as d:
        stored = dict(d)
    assert acknowledged >= 120
    # One more may have been committed and not yet printed.
    assert max(stored.values()) in (acknowledged, acknowledged + 1)
    for key, value in stored.items():
        number = int(key.split()[1])
        assert value % 50 == number
        assert value > acknowledged - 50


@pytest.mark.parametrize("attempt", range(6))
def test_a_load_killed_at_any_moment_is_whole_or_not_there(tmp_path, attempt):
    rows = "\n".join(f"key {i},{i}" for i in range(20_000))
    (tmp_path / "table.csv").write_text("key,value\n" + rows)
    with Catalog.open(tmp_path / "home") as catalog:
        catalog.load("before", b"key,value\na,1\n", OPTIONS, encoder="random")
    stop = [("ready", 0.05), ("reading", 0.0), ("encoding", 0.1), ("encoding", 0.9),
            ("writing", 0.0), ("done", 0.0)][attempt]  # fmt: skip
    phases = []
    with python(
        "import sys\n"
        "from index import Catalog\n"
        "catalog = Catalog.open(sys.argv[1] + '/home')\n"
        "print('ready', flush=True)\n"
        "say = lambda p: print(p.phase, flush=True)\n"
        "catalog.load('big', sys.argv[1] + '/table.csv', encoder='random', progress=say)\n"
        "print('done', flush=True)\n",
        tmp_path,
    ) as writer:
        for line in writer.stdout:
            phases.append(line.strip())
            if phases[-1] == stop[0]:
                time.sleep(stop[1] * random.random())
                os.kill(writer.pid, signal.SIGKILL)
                phases += writer.stdout.read().split()

    with Catalog.open(tmp_path / "home") as catalog:
        assert dict(catalog["before"]) == {"a": 1}
        if "done" in phases:
            assert "big" in catalog
        if "big" in catalog:
            assert len(catalog["big"]) == 20_000
            assert catalog["big"]["key 19999"] == 19_999
            assert catalog["big"].search("key 7").matches[0].value == 7
    left = {path.name for path in (tmp_path / "home").iterdir()}
    database = {"softdict.db", "softdict.db-wal", "softdict.db-shm", "softdict.lock"}
    assert left <= database | {"encoded"}  # what the load encoded, for when it is repeated


def test_a_failed_load_leaves_nothing(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        with pytest.raises(BadRows, match="line 3"):
            catalog.load("t", b"key,value\na,1\na,2\n", OPTIONS, encoder="random")

        def stop(progress: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            catalog.load("t", b"key,value\na,1\n", OPTIONS, encoder="random", progress=stop)
        assert list(catalog) == []
        assert catalog._store.records() == []


@pytest.mark.parametrize("work", ["load", "append", "reencode"])
def test_what_is_stopped_while_the_temperature_is_fitted_leaves_nothing(
    tmp_path, monkeypatch, work
):
    fitted = []
    fit = moments.fit_snapshot
    monkeypatch.setattr(moments, "fit_snapshot", lambda *given: fitted.append(1) or fit(*given))

    def stop(progress: object) -> None:
        if fitted:
            raise KeyboardInterrupt

    rows = "key,value\n" + "".join(f"key {number},{number}\n" for number in range(50))
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", encoder="random:1")["a"] = 1
        before = catalog["t"].describe()
        fitted.clear()
        with pytest.raises(KeyboardInterrupt):
            if work == "load":
                catalog.load("new", rows.encode(), OPTIONS, encoder="random", progress=stop)
            elif work == "append":
                catalog["t"].load(rows.encode(), OPTIONS, progress=stop)
            else:
                catalog["t"].reencode("random:2", progress=stop)
        assert list(catalog) == ["t"]
        assert catalog["t"].describe() == before
    with Catalog.open(tmp_path) as catalog:
        assert list(catalog) == ["t"]
        assert catalog["t"].describe() == before


def test_a_full_disk_is_said_and_leaves_everything_as_it_was(tmp_path):
    rows = "key,value\n" + "".join(f"key {number},{number}\n" for number in range(500))
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", encoder="random")["a"] = 1
        connection = catalog._store._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        for name, if_exists in [("new", "error"), ("t", "append"), ("t", "replace")]:
            with pytest.raises(DiskFull, match="is full") as refused:
                catalog.load(name, rows.encode(), OPTIONS, if_exists=if_exists, encoder="random")
            assert refused.value.folder == tmp_path
        assert {name: dict(d) for name, d in catalog.items()} == {"t": {"a": 1}}

        connection.execute(f"PRAGMA max_page_count = {pages + 10**6}")
        catalog.load("new", rows.encode(), OPTIONS, encoder="random")
    with Catalog.open(tmp_path) as catalog:
        assert (dict(catalog["t"]), len(catalog["new"])) == ({"a": 1}, 500)


@pytest.mark.parametrize(
    ("code", "sure"),
    [
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR_WRITE, False),  # as a quota is told
        (sqlite3.SQLITE_IOERR_FSYNC, False),  # and a full disk of another machine
        (sqlite3.SQLITE_IOERR_READ, None),
    ],
)
def test_what_a_disk_that_takes_no_more_is_told_by(tmp_path, code, sure):
    fault = sqlite3.OperationalError("disk I/O error")
    fault.sqlite_errorcode = code

    said = _full(tmp_path, fault)

    assert (said and said.sure) is sure
    if said is None:
        assert "its disk may be failing" in str(_damaged(tmp_path, fault))


ROWS = ("key,value\n" + "".join(f"key {number},{number}\n" for number in range(3_000))).encode()


def test_the_log_of_a_load_that_the_disk_had_no_room_for_is_given_back(tmp_path):
    """It kept the disk full, so that in the end not even a deletion could be written."""
    with Catalog.open(tmp_path) as catalog:
        catalog.load("t", b"key,value\na,1\n", OPTIONS, encoder="random")
        catalog._store._connection.execute("PRAGMA max_page_count = 1000")
        for if_exists in ("append", "replace"):
            with pytest.raises(DiskFull):
                catalog.load("t", ROWS, OPTIONS, if_exists=if_exists, encoder="random")
            assert (tmp_path / "softdict.db-wal").stat().st_size == 0
        (waits,) = catalog._store._connection.execute("PRAGMA busy_timeout").fetchone()

        assert (dict(catalog["t"]), waits) == ({"a": 1}, 30_000)


def test_a_load_that_could_not_leave_the_log_is_refused(tmp_path, monkeypatch):
    """What the disk takes into the log and not into the database would stay in its way for good."""
    with Catalog.open(tmp_path) as catalog:
        catalog.load("t", b"key,value\na,1\n", OPTIONS, encoder="random")
        usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        for name, if_exists in [("new", "error"), ("t", "append")]:
            with pytest.raises(DiskFull):
                catalog.load(name, ROWS, OPTIONS, if_exists=if_exists, encoder="random")
        catalog["t"]["b"] = 2  # what is small may always be written

        assert {name: dict(d) for name, d in catalog.items()} == {"t": {"a": 1, "b": 2}}
        monkeypatch.undo()
        catalog.load("new", ROWS, OPTIONS, encoder="random")
        usage = usage._replace(free=0)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        catalog.delete("new")


def nearly_full(monkeypatch, home, *, free):
    """Have a disk say that it has so much room, less what the database takes from now on."""
    file, usage = home / "softdict.db", shutil.disk_usage(home)
    budget = file.stat().st_size + free

    def told(_):
        return usage._replace(free=budget - file.stat().st_size)

    monkeypatch.setattr(shutil, "disk_usage", told)


def test_where_the_disk_is_nearly_full_the_database_takes_its_room_at_once(tmp_path, monkeypatch):
    """Changes that it need not grow for could fill that room, and no log would be brought in."""
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["first"] = "x"
        nearly_full(monkeypatch, tmp_path, free=UNWRITTEN + 10**6)
        for number in range(20):
            d[f"key {number}"] = "x" * 10_000
            with closing(sqlite3.connect(tmp_path / "softdict.db")) as other:
                (pages,), (size,) = (
                    other.execute(f"PRAGMA {name}").fetchone()
                    for name in ("page_count", "page_size")
                )
            assert (tmp_path / "softdict.db").stat().st_size == pages * size


def test_many_small_writes_leave_room_for_a_deletion(tmp_path, monkeypatch):
    with Catalog.open(tmp_path) as catalog:
        catalog.load("big", ROWS, OPTIONS, encoder="random")
        small = catalog.create("small", encoder="random")
        catalog._store.checkpoint()
        nearly_full(monkeypatch, tmp_path, free=UNWRITTEN + 50_000)
        with pytest.raises(DiskFull):
            for number in range(100):  # a page holds two of them
                small[f"key {number}"] = number
        held = dict(small)
        assert small.pop("key 0") == held.pop("key 0")
        catalog.delete("big")
        small["another"] = 1  # in the room that was made

        assert len(held) < 99
        assert dict(small) == {**held, "another": 1}


def test_a_disk_that_refuses_a_write_is_said_and_keeps_what_was_acknowledged(tmp_path):
    with python(
        "import resource, sys\n"
        "from index import SoftDict\n"
        "from index.errors import DiskFull\n"
        "d = SoftDict.open(sys.argv[1], encoder='random')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))\n"
        "try:\n"
        "    for number in range(1000):\n"
        "        d[f'key {number}'] = 'x' * 10_000\n"
        "except DiskFull as fault:\n"
        "    print(len(d), fault)\n",
        tmp_path,
    ) as writer:
        said, _ = writer.communicate()

    acknowledged, _, words = said.partition(" ")
    assert f"the disk that holds {tmp_path} refused a write" in words
    with SoftDict.open(tmp_path) as d:
        assert dict(d) == {f"key {number}": "x" * 10_000 for number in range(int(acknowledged))}
        assert int(acknowledged) > 10


def test_a_disk_that_has_no_room_for_a_new_store_is_said_to_be_that(tmp_path):
    with python(
        "import resource, sys\n"
        "from index import SoftDict\n"
        "from index.errors import DiskFull\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    SoftDict.open(sys.argv[1], encoder='random')\n"
        "except DiskFull as fault:\n"
        "    print(fault)\n",
        tmp_path,
    ) as writer:
        said, _ = writer.communicate()

    assert said.startswith(f"the disk that holds {tmp_path} refused a write")


def test_a_copy_that_sqlite_makes_while_somebody_writes_is_a_whole_store(tmp_path):
    (tmp_path / "copy").mkdir()
    with SoftDict.open(tmp_path / "store", encoder="random") as d:
        d.update({"a": 1, "b": 2})
        with (
            closing(sqlite3.connect(tmp_path / "store" / "softdict.db")) as one,
            closing(sqlite3.connect(tmp_path / "copy" / "softdict.db")) as other,
        ):
            one.backup(other)  # what .backup is in the shell
        d["c"] = 3
        asked = [match.score for match in d.search("a", as_of=2).matches]

    with SoftDict.open(tmp_path / "copy") as copied:
        assert dict(copied) == {"a": 1, "b": 2}
        assert [match.score for match in copied.search("a").matches] == asked


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
        with python(
            "import sys\n"
            "from index import Catalog\n"
            "from index.errors import StoreLocked\n"
            "try:\n"
            "    Catalog.open(sys.argv[1])\n"
            "except StoreLocked as fault:\n"
            "    print(fault)\n"
            "print(dict(Catalog.open(sys.argv[1], read_only=True)['dictionary']))\n",
            tmp_path,
        ) as second:
            said, _ = second.communicate()

        assert "is open for writing in another process" in said
        assert "{'a': 1}" in said
        with pytest.raises(StoreLocked):  # the same process twice would be as bad
            SoftDict.open(tmp_path)
    with SoftDict.open(tmp_path) as d:
        assert d["a"] == 1


def test_a_forked_process_reads_what_was_there_and_writes_nothing(tmp_path):
    with python(
        "import os, sys\n"
        "from index import SoftDict\n"
        "from index.errors import ReadOnlyStore\n"
        "with SoftDict.open(sys.argv[1], encoder='random') as d:\n"
        "    d['a'] = 1\n"
        "    private = SoftDict({'x': 1}, encoder='random')\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        private['y'] = 2\n"
        "        try:\n"
        "            d['b'] = 2\n"
        "        except ReadOnlyStore as fault:\n"
        "            print(dict(d), dict(private), fault, flush=True)\n"
        "        d.close()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    d['b'] = 3\n",
        tmp_path,
    ) as forking:
        said, _ = forking.communicate(timeout=60)

    assert said.startswith("{'a': 1} {'x': 1, 'y': 2} ")
    assert "it is open for writing in the process that this one was forked from" in said
    with SoftDict.open(tmp_path) as d:
        assert dict(d) == {"a": 1, "b": 3}


def test_a_forked_process_never_sees_half_of_a_change(tmp_path):
    with python(
        "import os, sys\n"
        "from index import Catalog\n"
        "from index.store import Store\n"
        "keys = [f'key {number}' for number in range(9000)]\n"
        "entries = Store.entries\n"
        "(read, tell), (wait, go_on) = os.pipe(), os.pipe()\n"
        "def slowly(self, *arguments, **named):\n"
        "    for batch in entries(self, *arguments, **named):\n"
        "        yield batch\n"
        "        os.write(tell, b'.')\n"
        "        os.read(wait, 1)\n"
        "with Catalog.open(sys.argv[1]) as catalog:\n"
        "    catalog.create('d', encoder='random').update(dict.fromkeys(keys, 1))\n"
        "catalog = Catalog.open(sys.argv[1])\n"
        "if not os.fork():\n"
        "    Store.entries = slowly\n"
        "    print(set(catalog['d'].values()), flush=True)\n"
        "    os.write(tell, b'!')\n"
        "    os._exit(0)\n"
        "os.close(tell)\n"
        "while os.read(read, 1) == b'.':\n"
        "    catalog['d'].update(dict.fromkeys(keys, 2))\n"
        "    os.write(go_on, b'.')\n"
        "catalog.close()\n",
        tmp_path,
    ) as forking:
        said, _ = forking.communicate(timeout=60)

    assert said == "{1}\n"


def test_what_was_closed_says_so_and_goes_on_showing_what_it_had_read(tmp_path):
    with SoftDict({"a": 1}, encoder="random") as private:
        pass
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
    with Catalog.open(tmp_path) as catalog:
        unread = catalog["dictionary"]

    for read in (private, d):
        assert (dict(read), read.search("a").value) == ({"a": 1}, 1)
        assert repr(read) == "<SoftDict 'dictionary': 1 entry>"
    assert repr(unread) == "<SoftDict 'dictionary'>"  # which is to be printed, and reads nothing
    for asked in (
        lambda: private.put("b", 2),
        lambda: d.pop("a"),
        lambda: d.configure(temperature=0.1),
        lambda: unread["a"],
        lambda: catalog.delete("dictionary"),
        lambda: catalog.create("b", encoder="random"),
    ):
        with pytest.raises(StoreClosed, match="was closed"):
            asked()
    catalog.close()  # again


def test_a_folder_that_another_thread_closed_can_be_opened_again(tmp_path):
    catalog = Catalog.open(tmp_path)
    with pytest.raises(StoreLocked, match="or elsewhere in this one"):
        Catalog.open(tmp_path)
    closing = threading.Thread(target=catalog.close)
    closing.start()
    closing.join()

    with Catalog.open(tmp_path) as again:
        again.create("d", encoder="random")["a"] = 1


def test_a_read_only_catalog_writes_nothing(tmp_path):
    with pytest.raises(StoreCorrupt, match="there is no store"):
        Catalog.open(tmp_path / "nowhere", read_only=True)
    assert not (tmp_path / "nowhere").exists()
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
    with Catalog.open(tmp_path, read_only=True) as catalog:
        d = catalog["dictionary"]
        for change in (
            lambda: d.put("b", 2),
            lambda: d.put("a", 2),
            lambda: d.clear(),
            lambda: d.set_temperature(0.2),
            lambda: catalog.delete("dictionary"),
            lambda: catalog.create("other"),
            lambda: d.load(b"key,v\nb,1\nc,2\n"),
            lambda: d.reencode("random:3"),
            lambda: catalog.load("other", b"key,v\nb,1\nc,2\n", encoder="random"),
        ):
            with pytest.raises(ReadOnlyStore):
                change()
        assert dict(d) == {"a": 1}


def test_what_may_only_be_read_is_refused_before_anything_is_encoded(tmp_path, monkeypatch):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
    encoded = []
    encode = RandomEncoder.encode
    monkeypatch.setattr(
        RandomEncoder, "encode", lambda self, texts: encoded.extend(texts) or encode(self, texts)
    )
    with Catalog.open(tmp_path, read_only=True) as catalog:
        for write in (
            lambda: catalog["dictionary"].load(b"key,v\nb,1\nc,2\n"),
            lambda: catalog["dictionary"].reencode("random:3"),
            lambda: catalog.load("other", b"key,v\nb,1\nc,2\n", encoder="random"),
        ):
            with pytest.raises(ReadOnlyStore):
                write()

    assert encoded == []


@pytest.mark.parametrize("given", [None, 5, "", " ", "a\nb", "a\0b", "\ud800", "x" * 201])
def test_what_can_name_no_column_names_no_column_of_keys(tmp_path, given):
    with Catalog.open(tmp_path) as catalog:
        with pytest.raises(InvalidRequest) as refused:
            catalog.create("d", key_column=given)
        assert [fault.where for fault in refused.value.faults] == ["key_column"]
        assert list(catalog) == []


def test_a_reader_leaves_the_files_of_a_writer_that_was_killed_as_they_are(tmp_path):
    files = [tmp_path / name for name in ("softdict.db", "softdict.db-wal")]
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
        as_killed = [file.read_bytes() for file in files]
    for file, content in zip(files, as_killed, strict=True):
        file.write_bytes(content)

    with Catalog.open(tmp_path, read_only=True) as catalog:
        assert dict(catalog["dictionary"]) == {"a": 1}
    assert [file.read_bytes() for file in files] == as_killed


def test_a_folder_whose_name_means_something_in_an_address_is_read_as_any_other(tmp_path):
    home = tmp_path / "50%20 of #1?mode=rwc"
    with SoftDict.open(home, encoder="random") as d:
        d["a"] = 1
        with Catalog.open(home, read_only=True) as catalog:
            assert dict(catalog["dictionary"]) == {"a": 1}


def test_a_read_only_catalog_shows_settings_and_entries_of_one_moment(tmp_path):
    with Catalog.open(tmp_path) as writer:
        writer.create("d", encoder="random:1")
        writer.create("replaced", encoder="random:1")["old"] = 1
        writer.create("deleted", encoder="random:1")["a"] = 1
        with Catalog.open(tmp_path, read_only=True) as reader:
            writer["d"].update({"a": {"price": 1, "colour": "red"}, "b": {"price": 2}})
            writer["d"].reencode("random:2")
            writer["d"].configure(temperature=0.25)
            table = b"key,other\nnew,x\n"
            writer.load("replaced", table, OPTIONS, encoder="random:3", if_exists="replace")
            writer.delete("deleted")

            best = reader["d"].search("b", k=1, tolerance=0).matches[0]
            assert (best.key, best.values) == ("b", {"price": 2, "colour": None})
            assert best.score == pytest.approx(1, abs=1e-5)
            assert reader["d"].describe() == writer["d"].describe()
            assert dict(reader["replaced"]) == {"new": "x"}
            assert reader["replaced"].describe() == writer["replaced"].describe()
            with pytest.raises(UnknownDataset, match="there are: d, replaced"):
                len(reader["deleted"])

            writer["d"].reencode("random:3")
            writer["d"]["a"] = {"price": 9}
            assert reader["d"]["a"] == {"price": 1, "colour": "red"}
            assert reader["d"].search("b", k=1, tolerance=0).matches[0].score == best.score


def test_a_read_only_catalog_never_sees_half_of_a_change(tmp_path, monkeypatch):
    keys = [f"key {number}" for number in range(9000)]
    entries = Store.entries

    def slowly(self, *arguments, **named):
        for batch in entries(self, *arguments, **named):
            yield batch
            if self.read_only:
                writer["d"].update(dict.fromkeys(keys, 2))

    with Catalog.open(tmp_path) as writer:
        writer.create("d", encoder="random")
        writer["d"].update(dict.fromkeys(keys, 1))
        monkeypatch.setattr(Store, "entries", slowly)
        with Catalog.open(tmp_path, read_only=True) as reader:
            assert set(reader["d"].values()) == {1}
        with Catalog.open(tmp_path, read_only=True) as reader:
            assert set(reader["d"].values()) == {2}


def test_a_stranger_s_file_is_refused(tmp_path):
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "softdict.db").write_bytes(b"not a database at all" * 100)
    (tmp_path / "other").mkdir()
    other = sqlite3.connect(tmp_path / "other" / "softdict.db")
    other.execute("CREATE TABLE t (x)")
    other.commit()
    for version in (0, 4, 5):  # numbers that ours may have, too
        other.execute(f"PRAGMA user_version = {version}")
        for folder in ("garbage", "other"):
            for _ in range(2):  # refused again: the lock was let go
                with pytest.raises(StoreCorrupt):
                    Catalog.open(tmp_path / folder)
        with pytest.raises(StoreCorrupt, match=r"softdict\.db is a database of another program"):
            Store(tmp_path / "other", read_only=True)
        assert other.execute("PRAGMA user_version").fetchone() == (version,)
    other.close()


@pytest.mark.parametrize("killed", ["before it wrote", "before the tables"])
def test_a_store_whose_making_was_cut_short_reads_as_empty_and_can_be_written(tmp_path, killed):
    (tmp_path / "softdict.db").touch()
    if killed == "before the tables":
        with closing(sqlite3.connect(tmp_path / "softdict.db")) as begun:
            begun.execute("PRAGMA journal_mode = WAL")
        assert (tmp_path / "softdict.db").stat().st_size > 0

    with pytest.raises(StoreCorrupt, match="still empty: load something first"):
        Catalog.open(tmp_path, read_only=True)
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
        assert dict(d) == {"a": 1}


def test_a_folder_in_the_database_s_place_is_refused(tmp_path):
    (tmp_path / "softdict.db").mkdir()

    for _ in range(2):  # refused again: the lock was let go
        with pytest.raises(StoreCorrupt, match=r"softdict\.db is a folder, where"):
            Catalog.open(tmp_path)
    with pytest.raises(StoreCorrupt, match="there is no store"):
        Catalog.open(tmp_path, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_pipe_in_the_place_of_a_file_of_the_database_is_not_waited_for(
    tmp_path, ending, read_only
):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
    os.mkfifo(tmp_path / f"softdict.db{ending}")
    said = []

    def opened():
        with pytest.raises(StoreCorrupt, match=rf"softdict\.db{ending} is a pipe or a device"):
            Catalog.open(tmp_path, read_only=read_only)
        said.append(True)

    assert ended(begun(opened))
    assert said


@pytest.mark.parametrize("killed", [False, True])
def test_a_reader_who_may_not_write_to_the_folder_is_told_so(killed):
    with tempfile.TemporaryDirectory() as home, closing(SoftDict.open(home, encoder="random")) as d:
        d["a"] = 1
        log = Path(home, "softdict.db-wal").read_bytes()
        d.close()
        if killed:
            Path(home, "softdict.db-wal").write_bytes(log)
        os.chmod(home, 0o555)
        with python(
            "import os, sys\n"
            "from index import Catalog\n"
            "from index.errors import StoreCorrupt\n"
            f"{AS_NOBODY}"
            "try:\n"
            "    Catalog.open(sys.argv[1], read_only=True)\n"
            "except StoreCorrupt as fault:\n"
            "    print(fault)\n",
            home,
        ) as reader:
            said, _ = reader.communicate()
        os.chmod(home, 0o755)

        assert f"{home}/softdict.db can only be read by who may write to its folder" in said
        with Catalog.open(home, read_only=True) as catalog:
            assert dict(catalog["dictionary"]) == {"a": 1}


def test_a_database_that_cannot_be_written_is_refused_before_anything_is_written():
    with tempfile.TemporaryDirectory() as home:
        with SoftDict.open(home, encoder="random") as d:
            d["a"] = 1
        for path, mode in {"": 0o777, "softdict.lock": 0o666, "softdict.db": 0o444}.items():
            Path(home, path).chmod(mode)
        with python(
            "import os, sys\n"
            "from index import Catalog\n"
            "from index.errors import ReadOnlyStore\n"
            f"{AS_NOBODY}"
            "for _ in range(2):\n"  # refused again: the lock was let go
            "    try:\n"
            "        Catalog.open(sys.argv[1])\n"
            "    except ReadOnlyStore as fault:\n"
            "        print(fault)\n",
            home,
        ) as writer:
            said, _ = writer.communicate()

    refused = f"{home}/softdict.db can be read here, and not written: grant that, or only ask"
    assert said.splitlines() == [refused, refused]


@pytest.mark.parametrize("place", ["", "/store", "/store/inside"])
def test_a_folder_that_may_not_be_written_to_is_refused_and_says_what_to_do(place):
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o555)
        with python(
            "import os, sys\n"
            "from index import Catalog, SoftDict\n"
            "from index.errors import ReadOnlyStore\n"
            f"{AS_NOBODY}"
            "for make in (SoftDict.open, Catalog.open):\n"
            "    try:\n"
            "        make(sys.argv[1])\n"
            "    except ReadOnlyStore as fault:\n"
            "        print(fault)\n",
            f"{home}{place}",
        ) as writer:
            said, _ = writer.communicate()

    (words,) = {*said.splitlines()}
    assert words.startswith(f"cannot write to {home}{place}: ")
    assert words.endswith("denied; make it a folder that may be written to, or name another")


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_in_the_folder_s_place_is_refused_and_left_as_it_is(tmp_path, inside):
    file = tmp_path / "table.csv"
    file.write_text("key,value")

    with pytest.raises(ReadOnlyStore, match=r"table\.csv.*; make it a folder"):
        Catalog.open(file / "store" if inside else file)
    assert file.read_text() == "key,value"


def test_the_connection_is_closed_and_the_folder_let_go_where_there_is_none_to_read_by(
    tmp_path, monkeypatch
):
    connect, made = sqlite3.connect, []

    def once(*arguments, **named):
        if made:
            raise sqlite3.OperationalError("unable to open database file")
        made.append(connect(*arguments, **named))
        return made[0]

    monkeypatch.setattr(sqlite3, "connect", once)
    with pytest.raises(StoreCorrupt, match="unable to open"):
        Store(tmp_path)
    monkeypatch.undo()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")
    Store(tmp_path).close()


def damage(home, first_page):
    """Fill a database with rubbish from a page on, as a disk that fails may."""
    with (home / "softdict.db").open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096 * (first_page - 1))
        file.write(b"\xa5" * (size - file.tell()))


def test_damaged_entries_are_said_to_be_so_to_who_reads_and_to_who_writes(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d.update({f"key {number}": number for number in range(300)})
    damage(tmp_path, 20)

    for read_only in (False, True):
        with Catalog.open(tmp_path, read_only=read_only) as catalog:
            with pytest.raises(StoreCorrupt, match=r"softdict\.db is damaged: .*malformed"):
                dict(catalog["dictionary"])
            with pytest.raises(StoreCorrupt, match=r"softdict\.db is damaged"):
                catalog["dictionary"]["new"] = 1


def test_an_index_of_the_database_that_is_damaged_is_said_to_be_so(tmp_path):
    """SQLite tells it by an extended code: the rows are there, and what finds them is not."""
    with SoftDict.open(tmp_path, encoder="random") as d:
        d.update({"a": 1, "b": 2})
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'changed)', 'arrived)')"
            " WHERE name = 'entries_changed'"
        )

    with SoftDict.open(tmp_path) as d, pytest.raises(StoreCorrupt, match="is damaged"):
        del d["a"]


def test_a_constraint_that_only_a_damaged_database_meets_is_said_to_be_damage(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d.update({"a": 1, "b": 2})
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
        connection.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'entries'")

    with SoftDict.open(tmp_path) as d:
        with pytest.raises(StoreCorrupt, match="is damaged: UNIQUE constraint failed"):
            d["c"] = 3
        assert dict(d) == {"a": 1, "b": 2}


def test_a_write_waits_for_another_program_that_has_the_database(tmp_path):
    """As a backup, or the shell of SQLite."""
    with (
        SoftDict.open(tmp_path, encoder="random") as d,
        closing(sqlite3.connect(tmp_path / "softdict.db", check_same_thread=False)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        let_go = threading.Timer(0.2, other.rollback)
        let_go.start()
        d["a"] = 1
        let_go.join()

        assert dict(d) == {"a": 1}


def test_a_write_that_another_program_keeps_from_the_database_is_busy_and_changes_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("index.store.PATIENCE", 0.01)
    with (
        SoftDict.open(tmp_path, encoder="random") as d,
        closing(sqlite3.connect(tmp_path / "softdict.db")) as other,
    ):
        d["a"] = 1
        other.execute("BEGIN IMMEDIATE")

        for write in (lambda: d.put("b", 2), d.clear, lambda: d.configure(temperature=0.1)):
            with pytest.raises(Busy, match="nothing was changed"):
                write()
        other.rollback()
        assert dict(d) == {"a": 1} and d.describe().temperature == "auto"
        d["b"] = 2
        assert dict(d) == {"a": 1, "b": 2}


def test_another_program_is_waited_for_no_longer_than_patience_lasts(tmp_path, monkeypatch):
    monkeypatch.setattr("index.store.PATIENCE", 600)
    with (
        SoftDict.open(tmp_path, encoder="random") as d,
        closing(sqlite3.connect(tmp_path / "softdict.db", check_same_thread=False)) as other,
    ):
        d["a"] = 1
        other.execute("BEGIN IMMEDIATE")

        def write() -> None:
            with patience(0.05):
                for _ in range(2):  # what was waited the first time is waited
                    with pytest.raises(Busy, match="nothing was changed"):
                        d["b"] = 2
                assert left() == 0

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        writer.join(60)
        assert not writer.is_alive()
        threading.Timer(0.2, other.rollback).start()
        d["b"] = 3  # whoever has more of it waits, as before

        assert dict(d) == {"a": 1, "b": 3}


def test_a_database_that_was_in_another_mode_takes_writes_at_once(tmp_path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    copy.mkdir()
    with SoftDict.open(home, encoder="random") as d:
        d["a"] = 1
    with closing(sqlite3.connect(home / "softdict.db", isolation_level=None)) as database:
        database.execute(f"VACUUM INTO '{copy / 'softdict.db'}'")

    with SoftDict.open(copy) as d:
        d["b"] = 2
        assert dict(d) == {"a": 1, "b": 2}


class FailingOnceCommitted:
    """A connection that reads and writes no more after a commit, as where a disk fails."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._committed = connection, False

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, sql, *given):
        if self._committed:
            raise sqlite3.OperationalError("disk I/O error")
        self._committed = sql == "COMMIT"
        return self._connection.execute(sql, *given)


@pytest.mark.parametrize(
    ("write", "then"),
    [
        (lambda d: d.put("b", 2), {"a": 1, "b": 2}),
        (lambda d: d.put("a", 2), {"a": 2}),
        (lambda d: d.pop("a"), {}),
    ],
)
def test_what_is_committed_is_shown_though_the_database_cannot_be_read_any_more(
    tmp_path, write, then
):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
        store = d._moments.store
        connection = store._connection
        store._connection = FailingOnceCommitted(connection)
        write(d)
        store._connection = connection

        assert dict(d) == then
        d["b"] = 3
    with SoftDict.open(tmp_path) as d:
        assert dict(d) == {**then, "b": 3}


VALUES = (
    *("'[1'", "'5'", "'[]'", "'[\"x\"]'", "'[{}]'", "CAST(x'5b22a3225d' AS TEXT)"),
    "'[1' || hex(zeroblob(200)) || ']'",  # 10^400
    "replace(hex(zeroblob(50000)), '0', '[')",
)
VECTORS = ("00", "00000000", "0000c07f" * 384)  # the last is of NaNs


@pytest.mark.parametrize(
    "change",
    [*(f"value = {text}" for text in VALUES), *(f"vector = x'{bytes}'" for bytes in VECTORS)],
)
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("table", [b"key,v\na,1\nb,2\n", b"key,v\nb,2\n"])
def test_a_dataset_that_cannot_be_read_leaves_the_others_listed(
    tmp_path, change, table, read_only, caplog
):
    with Catalog.open(tmp_path) as catalog:
        for name in ("first", "spoilt", "last"):
            catalog.load(name, table, OPTIONS, encoder="random")
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
        connection.execute(f"UPDATE entries SET {change} WHERE dataset = 2 AND key = 'b'")
        connection.commit()

    with Catalog.open(tmp_path, read_only=read_only) as catalog:
        assert [each.name for each in catalog.descriptions()] == ["first", "last"]
        assert "dataset spoilt is not listed: what" in caplog.text
        with pytest.raises(StoreCorrupt, match="holds of dataset 'spoilt' cannot be read"):
            catalog["spoilt"].search("a")
        if not read_only:
            catalog.load("new", b"key,v\nb,1\nc,2\n", OPTIONS, encoder="random")
            catalog.delete("spoilt")
            assert list(catalog) == ["first", "last", "new"]


def test_a_damaged_list_of_datasets_is_said_to_be_so_and_the_folder_let_go(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'datasets'"
        (page,) = database.execute(query).fetchone()
    damage(tmp_path, page)

    with pytest.raises(StoreCorrupt, match="is damaged") as first:
        Catalog.open(tmp_path)
    with pytest.raises(StoreCorrupt, match="is damaged"):  # not StoreLocked
        Catalog.open(tmp_path)
    assert first.tb is not None  # it holds on to the first attempt


def test_a_damaged_schema_is_refused(tmp_path):
    SoftDict.open(tmp_path, encoder="random").close()
    file = tmp_path / "softdict.db"
    file.write_bytes(file.read_bytes().replace(b"TABLE columns", b"\xa5" * 13))

    for read_only in (False, True):
        with pytest.raises(StoreCorrupt, match=r"softdict\.db is not a database"):
            Catalog.open(tmp_path, read_only=read_only)


def test_a_write_to_a_database_that_was_removed_is_not_acknowledged(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random")["a"] = 1
        (tmp_path / "softdict.db").rename(tmp_path / "elsewhere")

        with pytest.raises(StoreCorrupt, match=r"softdict\.db is not there any more"):
            catalog["d"]["b"] = 2
        with pytest.raises(StoreCorrupt, match=r"softdict\.db is not there any more"):
            catalog.delete("d")
        assert dict(catalog["d"]) == {"a": 1}
        (tmp_path / "elsewhere").rename(tmp_path / "softdict.db")
        catalog["d"]["b"] = 2
    with Catalog.open(tmp_path) as catalog:
        assert dict(catalog["d"]) == {"a": 1, "b": 2}


def test_a_write_to_a_database_that_was_replaced_is_not_acknowledged(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random")["a"] = 1
        shutil.copy(tmp_path / "softdict.db", tmp_path / "copy")
        (tmp_path / "copy").replace(tmp_path / "softdict.db")

        with pytest.raises(StoreCorrupt, match=r"softdict\.db is another file now"):
            catalog["d"]["b"] = 2
        assert dict(catalog["d"]) == {"a": 1}


def test_nothing_is_written_once_the_log_was_removed_and_what_was_is_kept(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        d["a"] = 1
        (tmp_path / "softdict.db-wal").unlink()

        with pytest.raises(StoreCorrupt, match=r"db-wal is not there any more: nothing written"):
            d["b"] = 2
        assert dict(d) == {"a": 1}
    with SoftDict.open(tmp_path) as d:
        assert dict(d) == {"a": 1}


def test_a_folder_stays_the_same_one_where_the_process_goes_elsewhere(tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with SoftDict.open("shop", encoder="random") as d:
        d["a"] = 1
        monkeypatch.chdir(tmp_path / "there")
        d["b"] = 2

    assert not (tmp_path / "there" / "shop").exists()
    with SoftDict.open(tmp_path / "here" / "shop") as d:
        assert dict(d) == {"a": 1, "b": 2}


@pytest.mark.parametrize("mode", [0o444, 0])  # made under a umask of 077, it cannot be read either
def test_a_lock_of_another_user_is_named(mode):
    with tempfile.TemporaryDirectory() as home:
        SoftDict.open(home, encoder="random").close()
        for path, given in {"": 0o777, "softdict.db": 0o666, "softdict.lock": mode}.items():
            Path(home, path).chmod(given)
        with python(
            "import os, sys\n"
            "from index import Catalog\n"
            "from index.errors import ReadOnlyStore\n"
            f"{AS_NOBODY}"
            "try:\n"
            "    Catalog.open(sys.argv[1])\n"
            "except ReadOnlyStore as fault:\n"
            "    print(fault)\n",
            home,
        ) as writer:
            said, _ = writer.communicate()

    refused = (
        f"cannot write to {home}/softdict.lock: Permission denied; it is another user's, perhaps"
    )
    assert said.splitlines() == [refused]


def test_a_database_that_another_program_has_for_itself_is_locked(tmp_path, monkeypatch):
    monkeypatch.setattr("index.store.PATIENCE", 0.1)
    SoftDict.open(tmp_path, encoder="random").close()
    with closing(sqlite3.connect(tmp_path / "softdict.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreLocked):
            SoftDict.open(tmp_path)
        other.execute("ROLLBACK")


def test_nothing_is_written_once_the_lock_was_removed_or_is_another(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random")["a"] = 1
        (tmp_path / "softdict.lock").unlink()
        with pytest.raises(StoreCorrupt, match=r"softdict\.lock is not there any more: another"):
            catalog["d"]["b"] = 2

        with Catalog.open(tmp_path) as second:
            second["d"]["b"] = 2
            with pytest.raises(StoreCorrupt, match=r"softdict\.lock is another file now: another"):
                catalog["d"]["b"] = 3
            with pytest.raises(StoreLocked):
                Catalog.open(tmp_path)
        assert dict(catalog["d"]) == {"a": 1}
    with Catalog.open(tmp_path) as catalog:
        assert dict(catalog["d"]) == {"a": 1, "b": 2}


def test_what_a_database_that_was_removed_held_can_be_read_for_the_first_time(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        d = catalog.create("d", encoder="random")
        d.update({"a": 1, "b": 2})
        del d["a"]
    with Catalog.open(tmp_path) as catalog:
        (tmp_path / "softdict.db").rename(tmp_path / "elsewhere")

        assert b"".join(catalog["d"].export("csv")) == b"key,value\r\nb,2\r\n"
        (tmp_path / "elsewhere").rename(tmp_path / "softdict.db")


def test_datasets_of_one_folder(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        catalog.load("uno", b"clave,valor\na,1\nb,2\n", OPTIONS, encoder="random")
        catalog.create("dos", encoder="random")["x"] = "y"
        with pytest.raises(DatasetExists):
            catalog.load("uno", b"key,value\na,1\n", OPTIONS)
        with pytest.raises(DatasetExists):
            catalog.create("dos")
        with pytest.raises(InvalidRequest, match="write error, replace or append"):
            catalog.load("tres", b"clave,valor\na,1\n", if_exists="merge")
        report = catalog.load("uno", b"clave,valor\nb,5\nc,3\n", OPTIONS, if_exists="append")
        assert report.loaded == 2
        assert list(catalog) == ["uno", "dos"]
    with Catalog.open(tmp_path) as catalog:
        assert list(catalog) == ["uno", "dos"]
        assert dict(catalog["uno"]) == {"a": 1, "b": 5, "c": 3}
        assert catalog["uno"].key_column == "clave"
        assert [column.name for column in catalog["uno"].columns] == ["valor"]

        old = catalog["uno"]
        catalog.load(
            "uno", b"k,v\nz,9\n", LoadOptions(format="csv", key="k"), if_exists="replace",
            encoder="random",
        )  # fmt: skip
        assert dict(catalog["uno"]) == {"z": 9}
        for change in (lambda: old.put("w", 1), lambda: catalog.drop(old)):
            with pytest.raises(UnknownDataset, match="'uno' was replaced by another: take it from"):
                change()
        catalog.delete("dos")
        with pytest.raises(UnknownDataset, match="there are: uno"):
            catalog["dos"]
        assert list(catalog) == ["uno"]
    with Catalog.open(tmp_path) as catalog:
        assert {name: dict(d) for name, d in catalog.items()} == {"uno": {"z": 9}}


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_two_dictionaries_over_one_store_are_not_made_by_a_copy(tmp_path, duplicate):
    with Catalog.open(tmp_path) as catalog:
        d = catalog.create("a", encoder="random")

        with pytest.raises(TypeError, match="a SoftDict is not copied or pickled"):
            duplicate(d)
        with pytest.raises(TypeError, match="a Catalog is not copied or pickled"):
            duplicate(catalog)


def test_a_catalog_gives_what_is_there_or_the_default(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        made = catalog.create("a", encoder="random")

        assert catalog.get("a") is catalog.get("a", None) is made
        assert catalog.get("b") is None
        assert catalog.get("b", "none") == "none"


def test_columns_that_come_from_a_generator_are_all_there(tmp_path):
    wanted = (Column("t", "category", attribute=True), Column("n", "number"))

    with Catalog.open(tmp_path) as catalog:
        made = catalog.create("a", columns=(each for each in wanted), encoder="random")
        assert made.columns == wanted
    assert SoftDict(columns=iter(wanted), encoder="random").columns == wanted


def test_a_dry_run_types_everything_and_writes_nothing(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        report = catalog.load("t", b"key;price\na;1,5\nb;2,5\n", OPTIONS, dry_run=True)

        assert report.dry_run and report.loaded == 0 and report.rows == 2
        assert report.preview == (("a", {"price": 1.5}), ("b", {"price": 2.5}))
        assert [column.type for column in report.columns] == ["number"]
        assert "t" not in catalog


@pytest.mark.parametrize(("kind", "held"), [("text", "one"), ("number", 1)])
def test_a_dry_run_of_an_append_says_what_the_append_will_do(tmp_path, kind, held):
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", columns=[Column("v", kind)], encoder="random")["a"] = held
        rows = b"key,v\nc,3\n"
        dry = catalog.load("t", rows, OPTIONS, if_exists="append", dry_run=True)
        assert dry.dry_run and list(catalog["t"]) == ["a"]

        wet = catalog.load("t", rows, OPTIONS, if_exists="append")

        assert (dry.columns, dry.preview) == (wet.columns, wet.preview)
        assert [column.type for column in dry.columns] == [kind]
        assert dry.preview == (("c", {"v": catalog["t"]["c"]}),)


@pytest.mark.parametrize("rows", [b"key,v\nc,x\n", b"key,w,u\nc,3,4\n"])
def test_a_dry_run_of_an_append_has_the_faults_that_the_append_would_have(tmp_path, rows):
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", columns=[Column("v", "number")], encoder="random")["a"] = 1
        faults = []
        for dry_run in (True, False):
            with pytest.raises((BadRows, InvalidRequest)) as refused:
                catalog.load("t", rows, OPTIONS, if_exists="append", dry_run=dry_run)
            faults.append((refused.type, str(refused.value)))

        assert faults[0] == faults[1] and dict(catalog["t"]) == {"a": 1}


def test_a_file_with_columns_that_the_dataset_has_not_says_what_to_do_with_them(tmp_path):
    rows = b"key,v,w,us\nb,2,3,4\n"
    with Catalog.open(tmp_path) as catalog:
        columns = [Column("v", "number"), Column("use", "number")]
        catalog.create("t", columns=columns, encoder="random")["a"] = {"v": 1}
        with pytest.raises(InvalidRequest) as refused:
            catalog.load("t", rows, OPTIONS, if_exists="append")
        skipped = LoadOptions(format="csv", columns={"w": "skip", "us": "skip"})
        catalog.load("t", rows, skipped, if_exists="append")

        skip = "leave it out with the type 'skip' in the option columns"
        faults = {fault.where: fault.message for fault in refused.value.faults}
        there, none = f"there are: v, use; {skip}", "the dataset has no such column; "
        meant = "did you mean 'use'? "
        assert faults == {"columns.w": none + there, "columns.us": none + meant + there}
        assert dict(catalog["t"]) == {"a": {"v": 1, "use": None}, "b": {"v": 2, "use": None}}


@pytest.mark.parametrize(
    "name", ["", "a/b", "../x", ".hidden", "x" * 101, "a b", "a\u0301", "\u0301a", 3, None]
)
def test_names_that_would_not_stand_well_in_an_address(tmp_path, name):
    with Catalog.open(tmp_path) as catalog:
        for make in (catalog.create, lambda name: SoftDict(name=name)):
            with pytest.raises(InvalidRequest) as refused:
                make(name)
            assert [fault.where for fault in refused.value.faults] == ["name"]


def test_a_database_of_the_first_schema_is_brought_to_this_one(tmp_path: Path) -> None:
    first_schema = """
    CREATE TABLE datasets (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
        key_column TEXT NOT NULL, encoder TEXT NOT NULL, encoder_identity TEXT, dimension INTEGER,
        temperature TEXT NOT NULL, fitted REAL, fitted_entries INTEGER NOT NULL DEFAULT 0,
        version INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, modified REAL NOT NULL) STRICT;
    CREATE TABLE columns (dataset INTEGER NOT NULL REFERENCES datasets(id) ON DELETE CASCADE,
        position INTEGER NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, width INTEGER,
        PRIMARY KEY (dataset, position)) STRICT;
    CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT,
        dataset INTEGER NOT NULL REFERENCES datasets(id) ON DELETE CASCADE, key TEXT NOT NULL,
        arrived REAL NOT NULL, value TEXT NOT NULL, vector BLOB NOT NULL,
        UNIQUE (dataset, key)) STRICT;
    CREATE INDEX entries_in_order ON entries (dataset, id);
    INSERT INTO datasets VALUES (3, 'old', 'key', 'random', 'random:1', 2, '0.5', NULL, 0, 7, 1, 2);
    INSERT INTO columns VALUES (3, 0, 'price', 'number', NULL);
    INSERT INTO entries VALUES (9, 3, 'a', 1.5, '[4]', x'0000803f00000000');
    PRAGMA application_id = 1936680548; PRAGMA user_version = 1;
    """
    if sqlite3.sqlite_version_info < (3, 37):
        first_schema = first_schema.replace(" STRICT", "")
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
        connection.executescript(first_schema)

    with pytest.raises(StoreCorrupt, match="schema 1: start the service once, or open it for wr"):
        Store(tmp_path, read_only=True)
    with closing(Store(tmp_path)) as store:
        (record,) = store.records()
        ((entry,),) = store.entries(3)

    assert (record.version, record.tolerance, record.precision, record.columns) == (
        7,
        None,
        "full",
        (Column("price", "number"),),
    )
    assert (entry.key, entry.values, entry.vector.tolist()) == ("a", (4,), [1.0, 0.0])


def test_a_sqlite_of_before_strict_tables_makes_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "sqlite_version_info", (3, 36, 99))
        with closing(SoftDict.open(tmp_path, encoder="random")) as d:
            d["a"] = 1

    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
        made = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall()
    assert len(made) == 5 and not any("STRICT" in sql for (sql,) in made)
    with closing(SoftDict.open(tmp_path)) as d:
        assert dict(d) == {"a": 1}


def test_a_database_that_this_sqlite_is_too_old_for_is_said_to_be_that(tmp_path: Path) -> None:
    with closing(SoftDict.open(tmp_path, encoder="random")) as d:
        d["a"] = 1
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = sql || ' STRICTER' WHERE name = 'datasets'"
        )

    with pytest.raises(
        StoreCorrupt, match=f"made by a newer SQLite than the {re.escape(sqlite3.sqlite_version)} "
    ):
        SoftDict.open(tmp_path)


def test_a_file_system_that_sqlite_cannot_use_is_said_to_be_that(tmp_path: Path) -> None:
    """As one that a virtual machine shares with its host: it maps no file for several programs."""
    shared = tmp_path / "softdict.db-shm"
    faulty = f"-f -qq -o /dev/null -P {shared} -e trace=mmap -e inject=mmap:error=ENODEV"
    opening = "import sys; from index import SoftDict; SoftDict.open(sys.argv[1])"
    opened = subprocess.run(
        [program("strace"), *faulty.split(), sys.executable, "-c", opening, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    said = opened.stderr.splitlines()[-1]
    assert f"{tmp_path} is on a file system that cannot share memory between programs" in said


def test_of_columns_that_differ_in_how_accents_are_stored_none_is_lost(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        columns = [Column("e", "number"), Column("caf\u00e9", "number")]
        catalog.create("d", columns=columns, encoder="random")["a"] = {"e": 1, "caf\u00e9": 2}
    for name, names in (("e\u0301", {"\u00e9": 1, "caf\u00e9": 2}), ("cafe\u0301", None)):
        with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
            connection.execute("UPDATE columns SET name = ? WHERE position = 0", (name,))
        with Catalog.open(tmp_path, read_only=True) as catalog:
            assert catalog["d"]["a"] == (names or {name: 1, "caf\u00e9": 2})


def test_the_unit_of_numbers_is_kept(tmp_path: Path) -> None:
    table = "key;precio\nsilla;12,50 €\nmesa;30,00 €\n".encode()
    with Catalog.open(tmp_path) as catalog:
        catalog.load("precios", table, encoder="random")
    with Catalog.open(tmp_path) as catalog:
        prices = catalog["precios"]
        prices["sofá"] = 400
        answer = prices.search("silla", temperature=0.001)

        assert prices.columns == (Column("precio", "number", unit="€"),)
        assert (answer.blend["precio"].unit, answer.value) == ("€", 12.5)
        with pytest.raises(BadRows, match="'5 \\$' is in \\$, and the column in €"):
            catalog.load("precios", b"key;precio\nbanco;5 $\n", if_exists="append")


def test_no_unit_is_lost_where_the_column_is_not_what_the_file_was_read_for() -> None:
    dollars, euros = b"key;v\nx;50 $\ny;70 $\n", "key;v\na;5 €\nb;7 €\n".encode()
    d = SoftDict(encoder="random")

    class WhileOthersLoad(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if not d.columns:
                d.load(euros)
            return super().read(size)

    with pytest.raises(WrongValue, match=r"'v': the file is in \$, and the column in €"):
        d.load(WhileOthersLoad(dollars))
    assert dict(d) == {"a": 5, "b": 7}

    d = SoftDict({"a": {"v": "some euros"}}, encoder="random")
    with pytest.raises(WrongValue, match=r"'v': the file is in \$, and the column has no unit"):
        d.load(dollars, LoadOptions(columns={"v": "number"}))
    assert dict(d) == {"a": "some euros"}


@pytest.mark.parametrize("first", [{}, {"a": {"v": None}}])
def test_what_a_column_came_to_hold_while_a_file_was_read_is_not_taken_for_another(first) -> None:
    d = SoftDict(first, encoder="random")

    class WhileOthersWrite(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if "x" not in d:
                d["x"] = {"v": "a text"}
            return super().read(size)

    with pytest.raises(InvalidRequest, match="it came to hold text while the file was read for nu"):
        d.load(WhileOthersWrite(b"key,v\ny,3.50\n"))
    d.load(b"key,v\ny,3.50\n")

    assert {key: d[key] for key in "xy"} == {"x": "a text", "y": "3.50"}


def made(store: Store, name: str) -> int:
    return store.create(
        name,
        key_column="key",
        columns=(),
        encoder="random",
        temperature="1",
        tolerance=None,
        precision="full",
    ).id


def test_what_changed_since_a_version_can_be_asked_for(tmp_path: Path) -> None:
    with closing(Store(tmp_path)) as store:
        dataset = made(store, "d")
        row = np.zeros(2, np.float32)
        with store.transaction():
            store.touch(dataset, "d")
            ids, _ = store.insert(dataset, [(key, (), row) for key in "abc"])
        with store.transaction():
            store.touch(dataset, "d")
            store.update_values(dataset, [(ids[0], ())])
            store.delete_entries(dataset, [ids[1]], listed=[ids[1]])

        with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
            changed = connection.execute("SELECT key, changed FROM entries ORDER BY id").fetchall()
            dropped = connection.execute("SELECT entry, dataset, changed FROM deletions").fetchall()

    assert changed == [("a", 2), ("c", 1)]
    assert dropped == [(ids[1], dataset, 2)]


def test_deletions_are_forgotten_up_to_a_version_and_of_one_dataset_alone() -> None:
    row = np.zeros(2, np.float32)
    ids = {}
    with closing(Store(None)) as store:
        for name in ("one", "other"):
            dataset = made(store, name)
            ids[dataset], _ = store.insert(dataset, [(key, (), row) for key in "abc"])
            for entry in ids[dataset][:2]:
                store.touch(dataset, name)
                store.delete_entries(dataset, [entry], listed=[entry])
        one, other = ids

        store.forget_deletions(one, until=1)

        assert store.deletions(one, since=0) == ids[one][1:2]
        assert store.deletions(other, since=0) == ids[other][:2]
        assert store.deletions(other, since=1) == ids[other][1:2]
        assert (store.record(one).forgotten, store.record(other).forgotten) == (1, 0)


def test_nothing_of_a_dataset_stays_in_the_file_once_it_is_deleted(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random").update({"a": 1, "b": 2})
        del catalog["d"]["a"]
        catalog.delete("d")
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
        tables = ("datasets", "columns", "entries", "deletions")
        left = [connection.execute(f"SELECT count(*) FROM {each}").fetchone() for each in tables]

    assert left == [(0,)] * 4


def test_the_id_of_an_entry_is_never_given_again() -> None:
    row = np.zeros(2, np.float32)
    with closing(Store(None)) as store:
        dataset = made(store, "d")
        first, _ = store.insert(dataset, [(key, (), row) for key in "abc"])
        store.delete_entries(dataset, first, listed=first)
        second, _ = store.insert(dataset, [("a", (), row)])

    assert second[0] > first[-1]


def test_what_a_rollback_undid_is_not_shown_by_the_next_commit() -> None:
    shown = []
    with closing(Store(None)) as store:
        with pytest.raises(KeyboardInterrupt), store.transaction():
            store.after_commit(lambda: shown.append("undone"))
            raise KeyboardInterrupt
        with store.transaction():
            store.after_commit(lambda: shown.append("done"))
            assert shown == []

    assert shown == ["done"]


def test_keys_that_an_earlier_version_held_with_accents_apart_are_found_and_changed(tmp_path):
    apart = unicodedata.normalize("NFD", "café")
    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random").update({"té": 1, "xxxxx": 2})
    connection = sqlite3.connect(tmp_path / "softdict.db")
    connection.execute("UPDATE entries SET key = ? WHERE key = 'xxxxx'", (apart,))
    connection.commit()
    connection.close()

    with Catalog.open(tmp_path) as catalog:
        d = catalog["d"]
        assert d["café"] == d[apart] == 2
        d["café"] = 3
        d.load(f"key,value\n{apart},4\n".encode())
        assert dict(d) == {"té": 1, apart: 4}
        del d["café"]
        assert list(d) == ["té"]


def test_keys_of_both_spellings_that_an_earlier_version_held_are_two(tmp_path):
    apart = unicodedata.normalize("NFD", "café")
    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random").update({"café": 1, "xxxxx": 2})
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
        connection.execute("UPDATE entries SET key = ? WHERE key = 'xxxxx'", (apart,))
        connection.commit()

    with Catalog.open(tmp_path) as catalog:
        d = catalog["d"]
        assert (d["café"], d[apart], len(d)) == (1, 2, 2)
        del d["café"]
        assert dict(d) == {apart: 2} and d["café"] == 2
        assert d.popitem() == (apart, 2) and len(d) == 0


def test_labels_that_an_earlier_version_held_with_accents_apart_are_those_that_are_typed(tmp_path):
    apart = unicodedata.normalize("NFD", "año")
    with Catalog.open(tmp_path) as catalog:
        columns = [Column("l", "category")]
        catalog.create("d", encoder="random", columns=columns).update({"a": "xx", "b": "año"})
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection:
        connection.execute("UPDATE entries SET value = ? WHERE key = 'a'", (json.dumps([apart]),))
        connection.commit()

    with Catalog.open(tmp_path) as catalog:
        d = catalog["d"]
        d["c"] = apart
        assert dict(d) == {"a": "año", "b": "año", "c": "año"}
        for label in ("año", apart):
            assert len(d.search("x", k=9, where={"l": label}).matches) == 3


@pytest.mark.parametrize("given", ["", None, b"shop", "a\0b"])
@pytest.mark.parametrize("opened", [Catalog.open, SoftDict.open])
def test_no_name_is_not_the_folder_that_one_stands_in(opened, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidRequest, match="path: write the name of a folder"):
        opened(given)

    assert not list(tmp_path.iterdir())


def test_what_stands_for_a_path_names_a_folder_and_a_file_as_a_path_does(tmp_path: Path) -> None:
    """As os.DirEntry does, and the ``tmpdir`` of pytest."""

    class Named:
        def __init__(self, path: Path) -> None:
            self.path = path

        def __fspath__(self) -> str:
            return str(self.path)

    home, file = tmp_path / "home", tmp_path / "prices.json"
    file.write_text('[{"key": "a", "price": 1}]')
    with SoftDict.open(Named(home), encoder="random") as d:
        assert d.load(Named(file)).format == "json"
    with Catalog.open(Named(home)) as catalog:
        catalog.load("dictionary", Named(file), if_exists="append")
        assert Catalog.exists(Named(home))
    with SoftDict.open(home) as d:
        assert dict(d) == {"a": 1}
    with pytest.raises(UnreadableSource, match=f"^there is no file {tmp_path / 'none.csv'}$"):
        SoftDict().load(Named(tmp_path / "none.csv"))


def test_a_dataset_that_is_replaced_is_the_newest_now_and_at_the_next_start(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in ("a", "b", "a"):
            catalog.load(name, b"key,v\nx,1\n", encoder="random", if_exists="replace")
        now = list(catalog)
    with Catalog.open(tmp_path) as catalog:
        assert now == list(catalog) == ["b", "a"]


def test_a_load_that_replaces_the_first_dataset_says_which_is_the_first_now(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        said = [
            catalog.load(name, b"key,v\nx,1\n", encoder="random", if_exists="replace").notes
            for name in ("a", "a", "b", "b", "a")
        ]

    assert said[:-1] == [()] * 4
    assert said[-1] == ("it is the newest dataset now: questions that name none go to 'b'",)


def test_a_catalog_s_dataset_closes_nothing(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder="random")
        with catalog["a"] as a:
            a["x"] = 1
        catalog["a"]["y"] = catalog["b"]["y"] = 2

        assert (dict(a), dict(catalog["b"])) == ({"x": 1, "y": 2}, {"y": 2})
    with pytest.raises(StoreClosed):
        a["z"] = 3


def test_a_column_of_keys_has_its_name_composed(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        made = catalog.create("d", key_column="cle\u0301", encoder="random")

        assert made.key_column == "cl\u00e9"


def test_an_entry_that_is_gone_lacks_no_value() -> None:
    rows = {"a": {"x": 1}, "b": {"x": None}, "c": {"x": None}, "d": {"x": 2}}
    d = SoftDict(rows, encoder="random")
    del d["b"]

    assert d.describe().missing == {"x": 1}

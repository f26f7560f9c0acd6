"""A load that was killed goes on where it was; what is kept for that never gives a wrong vector."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index import Catalog, LoadOptions, SoftDict
from index.encoders.teaching import RandomEncoder
from index.kept import CHUNK, FOLDER, SUFFIX, KeptVectors, prune
from index.store import Store
from tests.service.running import PATIENCE, ROOT, Service, environment
from tests.test_concurrency import begun, ended

CSV = LoadOptions(format="csv")
KEYS = 3000
SLACK = 0.02  # the built-in encoder's int8 products move by that with a text's batch


def table(keys: Sequence[str]) -> bytes:
    return ("key,value\n" + "".join(f"{key},{len(key)}\n" for key in keys)).encode()


def vectors(home: Path, name: str) -> dict[str, np.ndarray]:
    with closing(Store(home, read_only=True)) as store:
        (dataset,) = [record.id for record in store.records() if record.name == name]
        return {entry.key: entry.vector for batch in store.entries(dataset) for entry in batch}


def kept_bytes(home: Path) -> int:
    folder = home / FOLDER
    return sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0


# -- killed ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A table of keys, and the vectors that a load without interruption gives them."""
    folder = tmp_path_factory.mktemp("words")
    numbers = random.Random(4).sample(range(10**6), KEYS)
    parts = ["casa", "un perro grande", "the road to the sea", "Haus", "l'école"]
    keys = [f"{parts[number % 5]} {number}" for number in numbers]
    (folder / "table.csv").write_bytes(table(keys))
    with Catalog.open(folder / "home") as catalog:
        report = catalog.load("words", folder / "table.csv")
    assert (report.embedded, report.reused) == (KEYS, 0)
    yield folder / "table.csv", vectors(folder / "home", "words")


def wait_for_some(home: Path) -> None:
    """Wait until two chunks' worth is on disk, and as much that may just be written."""
    deadline = time.monotonic() + PATIENCE
    while kept_bytes(home) < 4 * CHUNK * (4 * 384 + 16) + 100:  # and their heads
        assert time.monotonic() < deadline
        time.sleep(0.01)


def check_resumed(home: Path, report: dict[str, Any], expected: dict[str, Any]) -> None:
    assert report["embedded"] + report["reused"] == report["loaded"] == KEYS
    assert 2 * CHUNK <= report["reused"] < KEYS
    found = vectors(home, "words")
    assert found.keys() == expected.keys()
    for key, vector in found.items():
        assert vector @ expected[key] > 1 - SLACK, key
    assert not (home / FOLDER).exists()


def test_a_load_that_was_killed_is_repeated_without_encoding_again(
    words: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "service", "load", str(words[0]), "--name", "words", "--json"]
    settings = environment(SOFTDICT_HOME=str(tmp_path))
    with subprocess.Popen(command, cwd=ROOT, env=settings, stderr=subprocess.DEVNULL) as first:
        wait_for_some(tmp_path)
        first.kill()
    assert first.returncode == -signal.SIGKILL
    with Catalog.open(tmp_path, read_only=True) as catalog:
        assert list(catalog) == []

    again = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)

    assert again.returncode == 0, again.stderr
    check_resumed(tmp_path, json.loads(again.stdout), words[1])


def test_an_encoding_anew_that_was_killed_changes_nothing_and_goes_on_when_repeated(
    words: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.load("words", words[0], encoder="random:1")
        dropped = next(iter(catalog["words"]))
        del catalog["words"][dropped]
    before = vectors(tmp_path, "words")
    command = [sys.executable, "-m", "service", "reencode", "words", "--encoder", "builtin"]
    settings = environment(SOFTDICT_HOME=str(tmp_path))
    with subprocess.Popen(command, cwd=ROOT, env=settings, stderr=subprocess.DEVNULL) as first:
        wait_for_some(tmp_path)
        first.kill()
    after = vectors(tmp_path, "words")
    assert all((after[key] == vector).all() for key, vector in before.items())

    encoded = []
    with Catalog.open(tmp_path) as catalog:
        catalog["words"].reencode("builtin", progress=lambda now: encoded.append(now.done))

    assert encoded[0] >= 2 * CHUNK and encoded[-1] == KEYS - 1
    found = vectors(tmp_path, "words")
    assert found.keys() == words[1].keys() - {dropped}
    assert all(vector @ words[1][key] > 1 - SLACK for key, vector in found.items())
    assert not (tmp_path / FOLDER).exists()


def test_an_upload_to_a_service_that_was_killed_is_repeated_without_encoding_again(
    words: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    settings = {"SOFTDICT_BUNDLED": "0", "SOFTDICT_AT_ONCE": "0"}
    upload = ("POST", "/datasets?name=words", words[0].read_bytes(), {"Content-Type": "text/csv"})
    with Service(tmp_path, **settings) as service:
        assert service.ask(*upload).status == 202
        wait_for_some(tmp_path)
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL

    with Service(tmp_path, **settings) as service:
        job = service.ask(*upload).json
        progress = []
        while job["finished"] is None:
            time.sleep(0.05)
            job = service.get(f"/jobs/{job['id']}").json
            progress.append(job["progress"])

    assert job["state"] == "done", job
    check_resumed(tmp_path, job["result"], words[1])
    rates = [each["rate"] for each in progress if each and each["rate"] is not None]
    assert all(rate > 0 for rate in rates)


# -- known texts -------------------------------------------------------------------------------


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often the encoder ``random`` is given each text."""
    given: Counter[str] = Counter()
    encode = RandomEncoder.encode

    def counted(self: RandomEncoder, texts: Sequence[str], **kind: Any) -> np.ndarray:
        given.update(texts)
        return encode(self, texts, **kind)

    monkeypatch.setattr(RandomEncoder, "encode", counted)
    return given


def test_a_text_that_some_dataset_holds_is_not_encoded_again(
    tmp_path: Path, encoded: Counter[str]
) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.load("one", table("abc"), CSV, encoder="random:11")
        other = catalog.load("other", table("bcd"), CSV, encoder="random:11")
        replaced = catalog.load("one", table("abe"), CSV, encoder="random:11", if_exists="replace")
        appended = catalog.load("one", table("abcf"), CSV, if_exists="append")
        foreign = catalog.load("foreign", table("ab"), CSV, encoder="random:12")

    assert [(r.embedded, r.reused) for r in (other, replaced, appended, foreign)] == [
        (1, 2),
        (1, 2),
        (1, 1),
        (2, 0),
    ]
    assert encoded == Counter({**dict.fromkeys("ab", 2), **dict.fromkeys("cdef", 1)})
    assert vectors(tmp_path, "one")["b"].tolist() == vectors(tmp_path, "other")["b"].tolist()
    for key, vector in vectors(tmp_path, "one").items():
        assert vector.tolist() == RandomEncoder(11).encode([key])[0].tolist()


def test_a_spoilt_vector_is_not_used_again(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.load("one", table("abc"), CSV, encoder="random:11")
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
        for key, left in (("b", 8), ("c", 5)):  # bytes: two components, and a part of one
            change = "UPDATE entries SET vector = substr(vector, 1, ?) WHERE key = ?"
            connection.execute(change, (left, key))
    with Catalog.open(tmp_path) as catalog:
        other = catalog.load("other", table("abc"), CSV, encoder="random:11")

    assert (other.embedded, other.reused) == (2, 1)
    for key, vector in vectors(tmp_path, "other").items():
        assert vector.tolist() == RandomEncoder(11).encode([key])[0].tolist()


def test_of_many_texts_none_that_a_dataset_holds_is_encoded_again(tmp_path: Path) -> None:
    keys = [f"key {number}" for number in range(5000)]
    with Catalog.open(tmp_path) as catalog:
        catalog.load("one", table(keys), CSV, encoder="random:11")
        other = catalog.load("other", table(keys), CSV, encoder="random:11")

    assert (other.embedded, other.reused) == (0, 5000)


def test_of_many_datasets_those_that_changed_last_are_looked_through(
    tmp_path: Path, encoded: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.store.LOOKED_THROUGH", 1)
    with Catalog.open(tmp_path) as catalog:
        for name, keys in {"one": "a", "two": "b", "three": "c"}.items():
            catalog.load(name, table(keys), CSV, encoder="random:11")
        catalog["two"]["b"] = 7
        report = catalog.load("four", table("abc"), CSV, encoder="random:11")

    assert (report.embedded, report.reused) == (2, 1)
    assert encoded == Counter({"a": 2, "b": 1, "c": 2})


def test_a_key_that_stands_twice_is_encoded_once(tmp_path: Path, encoded: Counter[str]) -> None:
    options = LoadOptions(format="csv", duplicates="first")
    with Catalog.open(tmp_path) as catalog:
        report = catalog.load("d", table("aabab"), options, encoder="random:13")

    assert (report.rows, report.embedded, encoded) == (5, 2, Counter("ab"))


def test_a_load_that_stopped_leaves_its_vectors_and_one_that_ends_none(
    tmp_path: Path, encoded: Counter[str]
) -> None:
    keys = [f"key {number}" for number in range(4 * CHUNK)]

    def stop(progress: Any) -> None:
        if progress.phase == "encoding" and progress.done >= 2 * CHUNK:
            raise KeyboardInterrupt

    with Catalog.open(tmp_path) as catalog:
        with pytest.raises(KeyboardInterrupt):
            catalog.load("d", table(keys), CSV, encoder="random:14", progress=stop)
        assert list(catalog) == []
        catalog.load("small", table("ab"), CSV, encoder="random:14")
        assert kept_bytes(tmp_path) > 0  # of no use to that one, and not its to delete
        report = catalog.load("d", table(keys), CSV, encoder="random:14")

    assert (report.embedded, report.reused) == (2 * CHUNK, 2 * CHUNK)
    assert set(encoded[key] for key in keys) == {1}
    assert not (tmp_path / FOLDER).exists()
    for key, vector in vectors(tmp_path, "d").items():
        assert vector.tolist() == RandomEncoder(14).encode([key])[0].tolist()


@pytest.mark.parametrize(("count", "kept"), [(200, 100), (31, 0)])
def test_of_a_slow_load_of_few_keys_what_was_encoded_serves_too(
    tmp_path: Path,
    encoded: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    kept: int,
) -> None:
    monkeypatch.setattr("index.kept.SECONDS", 0.0)  # as if each batch took long
    keys = [f"key {number}" for number in range(count)]

    def stop(progress: Any) -> None:
        if progress.phase == "encoding" and progress.done >= min(count, 100):
            raise KeyboardInterrupt

    with Catalog.open(tmp_path) as catalog:
        with pytest.raises(KeyboardInterrupt):
            catalog.load("d", table(keys), CSV, encoder="random:18", progress=stop)
        assert (tmp_path / FOLDER).exists() == (kept > 0)
        report = catalog.load("d", table(keys), CSV, encoder="random:18")

    assert report.reused >= kept and report.embedded + report.reused == count
    assert kept == 0 or set(encoded[key] for key in keys) == {1}
    assert not (tmp_path / FOLDER).exists()


def test_what_another_load_takes_away_meanwhile_is_no_end_of_keeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = [], Path.mkdir

    def mkdir(self: Path, *given: Any, **named: Any) -> None:
        real(self, *given, **named)
        made.append(self)
        if len(made) == 1:
            self.rmdir()  # as a load does that is done

    monkeypatch.setattr(Path, "mkdir", mkdir)
    keep(tmp_path)

    assert len(made) == 2
    assert sorted(found(tmp_path)) == list(range(len(TEXTS)))


@pytest.mark.parametrize("other", ["random:16", "circle"])  # the last has other dimensions
def test_what_a_load_that_stopped_left_is_not_for_an_encoder_that_comes_meanwhile(
    tmp_path: Path, other: str
) -> None:
    keys = [f"key {number}" for number in range(2 * CHUNK)]

    def stop(progress: Any) -> None:
        if progress.phase == "writing":
            raise KeyboardInterrupt

    def meanwhile(progress: Any) -> None:
        if progress.phase == "encoding" and catalog["d"].encoder.identity == "random:15":
            catalog["d"].reencode(other)

    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random:15")["a"] = 1
        with pytest.raises(KeyboardInterrupt):
            catalog["d"].load(table(keys), CSV, progress=stop)
        assert kept_bytes(tmp_path) > 0
        catalog["d"].load(table(keys), CSV, progress=meanwhile)
        expected = catalog["d"].encoder.encode(keys)

    found = vectors(tmp_path, "d")
    assert all(found[key].tolist() == row.tolist() for key, row in zip(keys, expected, strict=True))


# -- the files ---------------------------------------------------------------------------------

WIDTH = 8
TEXTS = [f"text {number}" for number in range(5 * CHUNK)]
ROWS = np.random.default_rng(0).standard_normal((len(TEXTS), WIDTH)).astype(np.float32)


def keep(home: Path, identity: str = "e:1") -> Path:
    before = set((home / FOLDER).glob("*"))
    kept = KeptVectors(home, identity, WIDTH)
    for start in range(0, len(TEXTS), 64):
        kept.add(TEXTS[start : start + 64], ROWS[start : start + 64])
    kept.close()
    (path,) = set((home / FOLDER).iterdir()) - before
    return path


def found(home: Path, identity: str = "e:1", width: int = WIDTH) -> dict[int, list[float]]:
    kept = KeptVectors(home, identity, width)
    rows = {place: row.tolist() for place, row in kept.find(TEXTS)}
    kept.close()
    return rows


def all_true(rows: dict[int, list[float]]) -> bool:
    return all(row == ROWS[place].tolist() for place, row in rows.items())


def test_what_is_kept_is_found_under_its_own_encoder_alone(tmp_path: Path) -> None:
    keep(tmp_path)

    rows = found(tmp_path)
    assert len(rows) == len(TEXTS) and all_true(rows)
    assert found(tmp_path, "e:2") == found(tmp_path, width=4) == {}


def test_a_second_s_work_is_kept_however_few_texts_it_was(tmp_path: Path) -> None:
    clock = [0.0]
    kept = KeptVectors(tmp_path, "e:1", WIDTH, clock=lambda: clock[-1])
    for place, (second, count) in enumerate([(0.0, 0), (0.9, 0), (1.0, 3), (1.9, 3), (2.0, 5)]):
        clock.append(second)
        kept.add(TEXTS[place : place + 1], ROWS[place : place + 1])
        assert len(found(tmp_path)) == count
    kept.close()


def test_a_torn_file_gives_the_chunks_that_are_whole(tmp_path: Path) -> None:
    path = keep(tmp_path)
    content = path.read_bytes()
    chunk = len(content) // 5

    for length in (0, 3, 44, chunk - 1, chunk, chunk + 30, 3 * chunk + 1, len(content) - 1):
        path.write_bytes(content[:length])
        rows = found(tmp_path)
        assert len(rows) == length // chunk * CHUNK
        assert all_true(rows)


def test_a_pipe_among_what_is_kept_is_not_waited_for(tmp_path: Path) -> None:
    keep(tmp_path)
    os.mkfifo(tmp_path / FOLDER / f"pipe{SUFFIX}")
    rows: list[dict[int, list[float]]] = []

    assert ended(begun(lambda: rows.append(found(tmp_path))))
    assert len(rows[0]) == len(TEXTS) and all_true(rows[0])


def test_a_damaged_file_never_gives_a_wrong_vector(tmp_path: Path) -> None:
    path = keep(tmp_path)
    content = path.read_bytes()
    chance = random.Random(0)
    places = [*range(44), *(chance.randrange(len(content)) for _ in range(150))]

    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        rows = found(tmp_path)
        assert len(rows) < len(TEXTS)
        assert all_true(rows)


@pytest.mark.parametrize(("used", "stays"), [(len(TEXTS) // 2, True), (len(TEXTS) // 2 + 1, False)])
def test_a_file_goes_once_a_load_that_took_most_of_it_is_committed(
    tmp_path: Path, used: int, stays: bool
) -> None:
    path = keep(tmp_path)
    of_another = keep(tmp_path, "e:2")
    load = KeptVectors(tmp_path, "e:1", WIDTH)
    took = sum(1 for _ in load.find([*TEXTS[:used], *map(str, range(used))]))
    load.add(["new"] * CHUNK, ROWS[:CHUNK])
    load.done()
    load.close()

    assert took == used
    assert set((tmp_path / FOLDER).iterdir()) == {of_another, *([path] if stays else [])}


def test_a_load_goes_on_beside_a_file_that_is_no_such_thing(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "stranger.rows").write_bytes(os.urandom(5000))
    (tmp_path / FOLDER / "folder.rows").mkdir()
    os.utime(tmp_path / FOLDER / "folder.rows", (0, 0))  # old enough to be deleted
    keys = [f"key {number}" for number in range(2 * CHUNK)]
    with Catalog.open(tmp_path) as catalog:
        report = catalog.load("d", table(keys), CSV, encoder="random:15")

    assert (report.embedded, report.reused) == (len(keys), 0)


def test_a_disk_that_is_nearly_full_ends_the_keeping_and_not_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 9 * 10**8, 10**8))
    keys = [f"key {number}" for number in range(3 * CHUNK)]
    with Catalog.open(tmp_path) as catalog:
        report = catalog.load("d", table(keys), CSV, encoder="random:16")

        assert (report.loaded, kept_bytes(tmp_path)) == (len(keys), 0)


@pytest.mark.parametrize(("lacking", "chunks"), [(0, [1, 2, 3]), (1, [1, 2, 0])])
def test_room_is_left_for_the_log_and_the_database_and_256_mb_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: int, chunks: list[int]
) -> None:
    """Three times what is kept, that is: where a byte of it lacks, no chunk stays."""
    size = 44 + CHUNK * (16 + 4 * WIDTH)
    usage = type(shutil.disk_usage(tmp_path))
    free = 3 * 3 * size + 2**28 - lacking
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - free, free))
    kept = KeptVectors(tmp_path, "e:1", WIDTH)
    sizes = []
    for start in (0, CHUNK, 2 * CHUNK):
        kept.add(TEXTS[start : start + CHUNK], ROWS[start : start + CHUNK])
        sizes.append(kept_bytes(tmp_path))
    kept.close()

    assert sizes == [size * each for each in chunks]


def test_what_was_kept_makes_room_when_the_disk_fills_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage(tmp_path))
    kept = KeptVectors(tmp_path, "e:1", WIDTH)
    kept.add(TEXTS[:CHUNK], ROWS[:CHUNK])
    assert kept_bytes(tmp_path) > 0

    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    for start in (CHUNK, 2 * CHUNK):
        kept.add(TEXTS[start : start + CHUNK], ROWS[start : start + CHUNK])
        assert list((tmp_path / FOLDER).iterdir()) == []
    kept.close()


def test_what_is_old_or_too_much_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    days = {"new": 0, "newer": 1, "less": 3, "old": 8}
    for name, age in days.items():
        (folder / f"{name}.rows").write_bytes(bytes(1000))
        os.utime(folder / f"{name}.rows", (0, time.time() - age * 86_400))

    monkeypatch.setattr("index.kept.MOST_BYTES", 2500)
    assert [path.stem for path in prune(tmp_path)] == ["new", "newer"]
    assert sorted(path.stem for path in folder.iterdir()) == ["new", "newer"]


@pytest.mark.parametrize("open_folder", [Catalog.open, SoftDict.open])
def test_what_a_killed_load_left_is_deleted_after_a_week_by_who_opens_the_folder(
    tmp_path: Path, open_folder: Callable[[Path], Catalog | SoftDict]
) -> None:
    open_folder(tmp_path).close()
    old, young = keep(tmp_path), keep(tmp_path)
    for path, days in ((old, 8), (young, 6)):
        os.utime(path, (0, time.time() - days * 86_400))

    open_folder(tmp_path).close()

    assert list((tmp_path / FOLDER).iterdir()) == [young]


def test_what_was_reused_is_counted_over_all_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "key,v\n" + "".join(f"key {n},1\n" for n in range(10))
    monkeypatch.setattr("index.writing.BLOCK", 4)
    with Catalog.open(tmp_path) as catalog:
        for name, told in (("a", (10, 0)), ("b", (0, 10))):
            report = catalog.load(name, content.encode(), encoder="random")
            assert (report.embedded, report.reused) == told

"""A load that would not fit is refused, with the figures and what would fit."""

from __future__ import annotations

import gc
import io
import json
import os
import random
import re
import tracemalloc
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from index import Catalog, Column, LoadOptions, SoftDict
from index.answers import LabelBlend, Progress
from index.errors import (
    EncoderUnavailable,
    InvalidRequest,
    NotEnoughMemory,
    UnreadableSource,
    WrongValue,
)
from index.loading import read_table
from index.loading.table import Table
from index.memory import available_memory, check_fits, load_memory
from index.values import LabelTable
from tests.around import Around
from tests.frames import kept_frames

GIB, GB = 2**30, 10**9
NUMBER = (Column("value", "number"),)
MANY = "v" * 200_000


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_a_million_keys_need_their_vectors_and_about_half_as_much_again() -> None:
    with pytest.raises(NotEnoughMemory) as refused:
        check_fits(10**6, 384, NUMBER, 3 * 10**7, available=lambda: GB)

    vectors = 10**6 * 384 * 4
    assert 1.1 * vectors < refused.value.needed < 1.6 * vectors
    assert refused.value.available == GB


CATEGORIES = tuple(Column(f"c{number}", "category") for number in range(20))
NUMBERS = tuple(Column(f"c{number}", "number") for number in range(30))
NOTE = (Column("v", "text"),)
VECTORS = {width: (Column("v", "vector", width),) for width in (50, 150)}


@pytest.mark.parametrize(
    ("columns", "text", "peak"),
    [
        (NUMBER, "", 418),
        (CATEGORIES, "", 651),
        (NUMBERS, "", 582),
        (NOTE, "漢字" * 300, 621),
        (NOTE, "😀" * 600, 738),
        (VECTORS[50], "", 707),
        (VECTORS[150], "", 1330),
    ],
    ids=["a number", "20 categories", "30 numbers", "han", "emoji", "vectors", "wide vectors"],
)
def test_the_figure_bounds_what_loads_of_90_000_rows_took(
    columns: tuple[Column, ...], text: str, peak: int
) -> None:
    row = json.dumps([{"key": "k12345", "v": text}])
    with read_table(row.encode(), LoadOptions(key="key", columns={"v": "text"})) as table:
        each, beside = load_memory(90_000, 384, columns, 90_000 * table.text_bytes)

    assert peak < (90_000 * each + beside) / 1e6 < 1.4 * peak  # MB, as /proc/self/status grew


def test_the_rows_it_says_would_fit_do_and_a_few_more_do_not() -> None:
    with pytest.raises(NotEnoughMemory, match="needs about 2") as refused:
        check_fits(10**6, 384, NUMBER, 3 * 10**7, available=lambda: GB)
    said = re.search(
        r"load at most ([\d,]+) rows, or load where ([\d.]+) GB are free", str(refused.value)
    )
    assert said
    rows = int(said[1].replace(",", ""))

    check_fits(rows, 384, NUMBER, 30 * rows, available=lambda: GB)
    with pytest.raises(NotEnoughMemory):
        check_fits(round(1.05 * rows), 384, NUMBER, round(31.5 * rows), available=lambda: GB)
    enough = round((float(said[2]) + 0.05) * GB)
    check_fits(10**6, 384, NUMBER, 3 * 10**7, available=lambda: enough)


def test_labels_that_are_wanted_take_the_memory_of_texts_and_few_that_are_found_none() -> None:
    def size(label: str, columns: dict[str, str]) -> int:
        rows = [{"key": f"k{n}", "v": label.format(n)} for n in range(200)]
        with read_table(json.dumps(rows).encode(), LoadOptions(columns=columns)) as table:
            return table.text_bytes

    different = "{} " + "x" * 200
    assert size(different, {"v": "category"}) == size(different, {"v": "text"}) > 40_000
    assert size("x" * 90, {}) < 1_000 < size("x" * 90, {"v": "text"})


def test_keys_are_not_encoded_anew_where_their_vectors_would_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = SoftDict({"a": 1, "b": 2}, encoder="random:1")
    monkeypatch.setattr("index.memory.SMALL", 0)
    monkeypatch.setattr("index.memory.available_memory", lambda: 2 * 384 * 4 - 1)

    with pytest.raises(NotEnoughMemory, match="encode it anew where more is free"):
        d.reencode("random:2")
    assert d.describe().encoder == "random:1"
    monkeypatch.setattr("index.memory.available_memory", lambda: 2 * 384 * 4)
    d.reencode("random:2")
    assert d.describe().encoder == "random:2"


@pytest.mark.parametrize("available", [10**6, 404 * 10**6])  # for none, and for some hundreds
def test_where_not_even_a_thousand_rows_would_fit_none_are_advised(available: int) -> None:
    with pytest.raises(NotEnoughMemory, match=r"0\.\d GB are free; load where 2\.\d GB are free$"):
        check_fits(10**6, 384, NUMBER, 3 * 10**7, available=lambda: available)


def test_a_small_load_asks_nobody_and_an_unknown_memory_refuses_nothing() -> None:
    check_fits(1000, 384, NUMBER, 30_000, available=lambda: pytest.fail("asked"))
    check_fits(10**9, 384, NUMBER, 10**10, available=lambda: None)


def test_a_refused_load_encodes_nothing_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = []
    with Catalog.open(tmp_path) as catalog:
        catalog.load("d", b"key,value\na,1\n", LoadOptions(format="csv"), encoder="random")
        monkeypatch.setattr("index.memory.SMALL", 0)
        monkeypatch.setattr("index.memory.available_memory", lambda: 10**6)
        for name, if_exists in (("d", "replace"), ("d", "append"), ("e", "error")):
            with pytest.raises(NotEnoughMemory):
                catalog.load(
                    name,
                    b"key,value\nb,1\n",
                    LoadOptions(format="csv"),
                    encoder="random",
                    if_exists=if_exists,  # type: ignore[arg-type]
                    progress=lambda progress: phases.append(progress.phase),
                )

        assert {name: dict(each) for name, each in catalog.items()} == {"d": {"a": 1}}
        assert set(phases) == {"reading"}


def test_other_values_for_keys_that_are_there_take_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LoadOptions(format="csv")
    keys = [f"key {number}" for number in range(500)]
    old, new = ("key,value\n" + "".join(f"{key},{v}\n" for key in keys) for v in (1, 2))
    with Catalog.open(tmp_path) as catalog:
        catalog.load("d", old.encode(), options, encoder="random")
        monkeypatch.setattr("index.memory.SMALL", 0)
        monkeypatch.setattr("index.memory.ALWAYS", 0)
        monkeypatch.setattr("index.memory.available_memory", lambda: 100_000)
        catalog.load("d", new.encode(), options, if_exists="append")

        assert set(catalog["d"].values()) == {2}
        with pytest.raises(NotEnoughMemory):
            catalog.load("e", old.encode(), options, encoder="random")


MEMINFO = f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable: {8 * GIB // 1024} kB\n"


@pytest.mark.parametrize(
    ("files", "bytes_"),
    [
        ({}, 8 * GIB),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "5\n",
                "sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/a/memory.current": f"{3 * GIB}\n",
                "sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            },
            2 * GIB,
        ),
        (  # in a container the path is the host's, and the group stands at the top
            {
                "proc/self/cgroup": "0::/docker/0123\n",
                "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory.current": f"{GIB}\n",
                "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
            },
            GIB,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu:/x\n4:hugetlb,memory:/x\n0::/\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": f"{3 * GIB}\n",
                "sys/fs/cgroup/memory/x/memory.usage_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/x/memory.stat": f"total_inactive_file {GIB // 2}\n",
            },
            3 * GIB - GIB // 2,
        ),
        (  # the limit was lowered while more was in use
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": f"{GIB}\n",
                "sys/fs/cgroup/memory.current": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
            },
            0,
        ),
    ],
    ids=["no groups", "version 2", "container", "version 1", "over the limit"],
)
def test_what_is_free_is_the_least_of_what_the_system_says(
    tmp_path: Path, files: dict[str, str], bytes_: int
) -> None:
    root = write(tmp_path, {"proc/meminfo": MEMINFO, **files})

    assert available_memory(root) == bytes_


def test_where_there_is_no_proc_half_of_what_is_built_in_is_free(tmp_path: Path) -> None:
    built_in = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    assert available_memory(tmp_path) == built_in // 2 > 2**26


def give_up(progress: Progress) -> None:
    if progress.phase == "writing":
        raise InterruptedError


@pytest.mark.parametrize(
    "work", ["put", "put and delete", "update of half", "delete", "load that fails"]
)
def test_texts_that_no_entry_has_any_more_are_let_go(work: str) -> None:
    d = SoftDict(encoder="random", temperature=0.1)
    d.update({f"key {number}": f"text {number}" for number in range(60)})
    model = dict(d)
    half = list(model)[:30]
    if work == "delete":
        d["large"] = MANY * 40
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        if work == "delete":
            del d["large"]
        for turn in range(120 if work != "delete" else 0):
            if work == "update of half":
                model |= {key: f"{turn} {key} {MANY[:7000]}" for key in half}
                d.update(model)
            elif work == "load that fails":
                with pytest.raises(InterruptedError):
                    d.load(f"key,value\nnew,{turn} {MANY}\n".encode(), progress=give_up)
            else:
                d["key 7" if work == "put" else "new"] = f"{turn} {MANY}"
            if work == "put and delete":
                del d["new"]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    held = sum(len(label) for label in d._snapshot.labels[0].labels)

    assert after - before < 6e6  # a fourth of what was written
    assert held < 4e6
    assert dict(d) == model | ({"key 7": f"119 {MANY}"} if work == "put" else {})


def test_a_row_without_a_label_lets_go_of_none() -> None:
    """Else a column of gaps would be looked through at every deletion."""
    table = LabelTable(["a", "bcd"])
    table.let_go([-1, 0, -1])

    assert table.used == len("bcd")


def test_labels_numbered_anew_answer_as_before() -> None:
    draw = random.Random(7)
    columns = (Column("kind", "category"), Column("note", "text"))
    d = SoftDict(columns=columns, encoder="random", temperature=0.1)
    model: dict[str, dict[str, str | None]] = {}
    kept = []  # what a reader took at some moment, and what it held then
    for turn in range(300):
        key = f"key {draw.randrange(8)}"
        if key in model and turn % 3 == 0:
            del d[key], model[key]
        else:
            kind, note = (
                draw.choice(["a", "b", "c", None]),
                draw.choice([f"note {turn}", "x", None]),
            )
            d[key] = model[key] = {"kind": kind, "note": note}
        kept.append((d._snapshot, dict(model)))

        assert dict(d) == model
        assert all(len(t.labels) <= 2 * d._snapshot.rows for t in d._snapshot.labels)
        answer = d.search("key 3", where='kind = "a" or note = "x"')
        allowed = {k for k, v in model.items() if v["kind"] == "a" or v["note"] == "x"}
        assert {match.key for match in answer.matches} == allowed
        answer = d.search("key 3")
        for column in ("kind", "note"):
            masses: dict[str, float] = defaultdict(float)
            for match in answer.matches:
                if (label := model[match.key][column]) is not None:
                    masses[label] += match.weight
            blend = answer.blend[column]
            assert (blend is None) == (not masses)
            if blend is not None:
                assert isinstance(blend, LabelBlend)
                total = sum(masses.values())
                expected = {label: mass / total for label, mass in masses.items()}
                assert dict(blend.distribution) == pytest.approx(expected, rel=1e-3)
    for snapshot, held in kept:
        found = {snapshot.key(place): snapshot.values(place) for place in snapshot.places()}
        assert found == {key: (value["kind"], value["note"]) for key, value in held.items()}


def test_where_all_keys_must_be_new_a_load_is_refused_without_another_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, rows = Table.__iter__, []
    monkeypatch.setattr(Table, "__iter__", lambda table: (rows.append(1) or r for r in read(table)))
    monkeypatch.setattr("index.memory.SMALL", 0)
    monkeypatch.setattr("index.memory.available_memory", lambda: 10**6)
    d = SoftDict(encoder="random")

    with pytest.raises(NotEnoughMemory):
        d.load(("key,value\n" + "".join(f"key {n},1\n" for n in range(100))).encode())
    assert len(rows) <= 5  # to show a few


def test_a_load_of_a_few_known_keys_and_too_many_new_ones_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = ("key,value\n" + "".join(f"key {n},1\n" for n in range(m)) for m in (10, 500))
    with Catalog.open(tmp_path) as catalog:
        catalog.load("d", old.encode(), encoder="random")
        monkeypatch.setattr("index.memory.SMALL", 0)
        monkeypatch.setattr("index.memory.ALWAYS", 0)
        monkeypatch.setattr("index.memory.available_memory", lambda: 100_000)
        with pytest.raises(NotEnoughMemory):
            catalog.load("d", new.encode(), if_exists="append")

        assert len(catalog["d"]) == 10


@pytest.mark.parametrize("sketched", [False, True])
@pytest.mark.parametrize("way", ["del", "delete", "replace", "close"])
def test_what_a_dataset_held_is_free_at_once_when_it_is_gone(
    way: str, sketched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when Python looks for cycles, as it does by the number of objects."""
    if sketched:
        monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)
    entries = {f"key {number}": number for number in range(300)}
    gc.collect()
    gc.disable()
    try:
        with Catalog.open(tmp_path) as catalog:
            dataset = catalog.create("d", encoder="random", temperature=0.1)
            dataset.update(entries)
            if way == "del":
                dataset = SoftDict(entries, encoder="random", temperature=0.1)
            dataset.settle()
            dataset.search("key 7")
            assert (dataset._snapshot.sketch is not None) == sketched
            held = weakref.ref(dataset._snapshot.blocks[0].vectors)
            store = weakref.ref(dataset._moments.store)  # in memory, the database too
            assert held() is not None
            del dataset
            if way == "delete":
                catalog.delete("d")
            elif way == "replace":
                catalog.load("d", b"key,value\na,1\n", if_exists="replace", encoder="random")
            assert (held() is None) == (way != "close")
            assert (store() is None) == (way == "del")
        del catalog
        assert held() is store() is None
    finally:
        gc.enable()


class Refusing(Around):
    def encode(self, texts: Any, *, kind: str = "passage") -> NoReturn:
        raise EncoderUnavailable("not now")


def closed() -> io.BytesIO:
    stream = io.BytesIO()
    stream.close()
    return stream


def spoiled() -> bytes:
    """Give a Parquet file whose head and end are whole, and whose rows are not."""
    written = io.BytesIO()
    keys = [f"key {number}" for number in range(300)]
    pq.write_table(pa.table({"key": keys, "value": list(range(300))}), written)
    content = written.getvalue()
    return content[:20] + b"\xff" * 30 + content[50:]


@pytest.mark.parametrize(
    ("refused", "write"),
    [
        (WrongValue, lambda d: d.put("a", {"value": "much"})),
        (InvalidRequest, lambda d: d.put("a", {"value": "much", "other": 1})),
        (UnreadableSource, lambda d: d.load(closed())),
        (UnreadableSource, lambda d: d.load(spoiled())),
        (EncoderUnavailable, lambda d: d.put("b", 1)),
    ],
)
def test_nothing_is_kept_of_what_is_refused(
    refused: type[Exception], write: Callable[[SoftDict], object]
) -> None:
    """Not even until Python looks for cycles: it may be large."""
    d = SoftDict(columns=[Column("value", "number")], encoder=Refusing())

    def refuse() -> None:
        with pytest.raises(refused):
            write(d)

    assert kept_frames(refuse, "/index/") == []

"""Many threads, one dictionary: nobody waits for ever, and no answer is half old and half new."""

from __future__ import annotations

import io
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from index import Catalog, LoadOptions, Progress, SoftDict, moments, softdict
from index import catalog as catalog_module
from index.encoders import EncoderWorker
from index.encoders.teaching import RandomEncoder
from index.errors import Busy, StoreCorrupt, UnknownDataset, UnknownEntry
from index.moments import Moments
from index.snapshot import Snapshot
from index.store import Store
from index.turns import patience
from index.values import LabelTable
from tests.service.running import PATIENCE

CSV = LoadOptions(format="csv")
MODULES = ("index.", "contextlib")
ROWS = ("key,value\n" + "".join(f"row {n},{n}\n" for n in range(60))).encode()


def begun(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> bool:
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize(
    "change",
    [
        lambda catalog: catalog["a"].update({f"more {n}": n for n in range(50)}),
        lambda catalog: [catalog["a"].pop(f"key {n}") for n in range(20)],
        lambda catalog: catalog["a"].configure(temperature=0.2),
        lambda catalog: catalog["a"].reencode("random:2"),
        lambda catalog: catalog.load("new", ROWS, CSV, encoder="random"),
        lambda catalog: catalog.load("a", ROWS, CSV, if_exists="replace", encoder="random"),
    ],
)
def test_others_write_while_a_dataset_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Catalog], object]
) -> None:
    """It takes seconds where keys are many."""
    written: list[int] = []
    real = moments.fit_snapshot
    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder="random")
        catalog["a"].update({f"key {n}": n for n in range(60)})

        def fit(*given: Any) -> object:
            monkeypatch.setattr(moments, "fit_snapshot", real)
            assert ended(begun(lambda: written.append(catalog["b"].put("z", 1))))
            return real(*given)

        monkeypatch.setattr(moments, "fit_snapshot", fit)
        change(catalog)

        assert len(written) == 1 and dict(catalog["b"]) == {"z": 1}


def test_a_change_of_settings_during_the_first_question_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder="random")["x"] = 1
    reading, go_on = threading.Event(), threading.Event()
    read = Moments._read

    def slowly(self: Moments) -> object:
        reading.set()
        go_on.wait()
        return read(self)

    catalog = Catalog.open(tmp_path)
    len(catalog["b"])
    monkeypatch.setattr(Moments, "_read", slowly)
    asking = begun(lambda: catalog["a"].search("x"))
    assert reading.wait(PATIENCE)
    changing = begun(lambda: catalog["a"].configure(temperature=0.1))
    with suppress(Busy), patience(0):
        while True:  # until the change has begun
            with catalog["a"]._moments.turn:
                pass
    held_up = not ended(begun(lambda: [catalog["b"].put("y", number) for number in range(20)]))
    go_on.set()

    assert not held_up and ended(asking, changing)
    assert catalog["a"].describe().temperature == "0.1"
    catalog.close()


class Held:
    """A load that another thread is in the middle of, until the ``with`` block ends."""

    def __init__(self, load: Callable[[Callable[[Progress], None]], object]) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread = begun(lambda: load(self._stop_here))

    def _stop_here(self, progress: Progress) -> None:
        if progress.phase == "writing":
            self._reached.set()
            assert self._go_on.wait(PATIENCE)

    def __enter__(self) -> None:
        assert self._reached.wait(PATIENCE)

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        assert ended(self._thread)


WRITES: list[Callable[[Catalog, str], object]] = [
    lambda catalog, name: catalog[name].put("x", 9),
    lambda catalog, name: catalog[name].pop("x"),
    lambda catalog, name: catalog[name].clear(),
    lambda catalog, name: catalog[name].configure(temperature=0.2),
    lambda catalog, name: catalog[name].load(b"key,value\nx,9\n", CSV),
    lambda catalog, name: catalog[name].reencode("random:2"),
    lambda catalog, name: catalog.delete(name),
    lambda catalog, name: catalog.create("c", encoder="random"),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_write_waits_no_longer_than_its_patience_and_then_changes_nothing(
    tmp_path: Path, write: Callable[[Catalog, str], object], name: str
) -> None:
    with Catalog.open(tmp_path) as catalog:
        for each in "ab":
            catalog.create(each, encoder="random", temperature=0.1).update({"x": 1, "y": 2})
        before = [dict(catalog[each].items()) for each in "ab"], catalog["b"].describe()
        load = partial(catalog["a"].load, b"key,value\nz,3\n", CSV)

        with Held(lambda tell: load(progress=tell)):
            with pytest.raises(Busy, match="another write"), patience(0.01):
                write(catalog, name)
            assert catalog["a"].search("z", k=1).matches[0].key != "z"  # reading waits for nobody
            after = [dict(catalog[each].items()) for each in "ab"], catalog["b"].describe()
        with patience(PATIENCE):
            write(catalog, name)  # there is time now

        assert after == before


def test_entries_that_nobody_has_read_yet_are_read_while_a_load_is_written(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        for each in "ab":
            catalog.create(each, encoder="random").update({"x": 1, "y": 2})
    with Catalog.open(tmp_path) as catalog:
        load = partial(catalog["a"].load, b"key,value\nz,3\n", CSV)
        found: list[object] = []
        with Held(lambda tell: load(progress=tell)):
            asking = begun(lambda: found.append(dict(catalog["b"].items())))
            listing = begun(lambda: found.append(len(catalog.descriptions())))
            assert ended(asking, listing)

        assert {"x": 1, "y": 2} in found and 2 in found


@pytest.mark.parametrize("read_only", [False, True])
def test_who_waits_for_another_to_have_read_waits_for_no_write_and_is_not_busy(
    tmp_path: Path, read_only: bool
) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.create("a", encoder="random")["x"] = 1
    found: list[object] = []

    def hastily() -> None:
        with patience(0):
            found.append(catalog["a"]["x"])

    with Catalog.open(tmp_path, read_only=read_only) as catalog:
        with catalog._store.reader.reading():
            asking = begun(hastily)
            while asking.is_alive() and catalog["a"]._moments._reading.acquire(blocking=False):
                catalog["a"]._moments._reading.release()  # until it has begun

        assert ended(asking) and found == [1]


@pytest.mark.parametrize("others", [math.inf, 1e12, PATIENCE])  # seconds
def test_of_two_patiences_the_shorter_holds_and_one_may_be_endless(others: float) -> None:
    d = SoftDict({"a": 1}, encoder="random")
    load = partial(d.load, b"key,value\nz,3\n", CSV)

    with Held(lambda tell: load(progress=tell)):
        with pytest.raises(Busy), patience(0), patience(others):
            d["a"] = 2
        with pytest.raises(Busy), patience(others), patience(0):
            d["a"] = 3
    with patience(others):
        d["a"] = 4

    assert d["a"] == 4


def test_a_patience_is_for_turns_alone_however_long_the_keys_took_to_encode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = SoftDict({"a": 1}, encoder="random")
    clock = [0.0]  # seconds
    monkeypatch.setattr("index.turns.time", SimpleNamespace(monotonic=lambda: clock[0]))
    held = threading.Event()

    def write() -> None:
        with d._moments.turn:
            held.set()
            time.sleep(0.1)  # in which the load comes to wait

    def encoding() -> None:
        clock[0] += 3600
        begun(write)
        assert held.wait(PATIENCE)

    with patience(PATIENCE):
        d.load(b"key,value\nz,3\n", CSV, progress=once("encoding", encoding))

    assert dict(d) == {"a": 1, "z": 3}


def in_eight_threads(work: Callable[[int], object]) -> list[BaseException]:
    """Do work in threads that begin at once, and give what they raised."""
    together, raised = threading.Barrier(8), []

    def one(number: int) -> None:
        together.wait(PATIENCE)
        try:
            work(number)
        except Exception as fault:
            raised.append(fault)

    assert ended(*(begun(partial(one, number)) for number in range(8)))
    return raised


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads take over from each other as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_an_entry_that_many_threads_pop_goes_to_one_of_them() -> None:
    d = SoftDict({str(number): number for number in range(100)}, encoder="random")
    taken: list[int] = []

    def take(_: int) -> None:
        for number in range(50):
            taken.append(d.pop(str(number), -1))
        with suppress(KeyError):
            while True:
                taken.append(d.popitem()[1])
        assert not len(d)  # so it was right to say that there is none

    assert in_eight_threads(take) == []
    assert sorted(number for number in taken if number >= 0) == list(range(100))
    assert taken.count(-1) == 7 * 50
    with pytest.raises(UnknownEntry):
        d.pop("0")


def test_a_default_that_many_threads_set_is_that_of_one_of_them() -> None:
    d = SoftDict({"a": 0}, encoder="random")
    given: dict[str, set[object]] = {str(number): set() for number in range(50)}

    def give(mine: int) -> None:
        for key, seen in given.items():
            seen.add(d.setdefault(key, mine))

    assert in_eight_threads(give) == []
    assert {key: {d[key]} for key in given} == given


def test_a_key_that_many_threads_put_is_new_to_one_of_them_and_every_put_is_kept() -> None:
    d = SoftDict({"a": 0}, encoder="random")
    new: list[str] = []

    def put(mine: int) -> None:
        for number in range(20):
            d.put(f"{mine} {number}", number)
            if d.put(str(number), mine):
                new.append(str(number))

    assert in_eight_threads(put) == []
    assert sorted(new, key=int) == [str(number) for number in range(20)]
    assert {f"{mine} {number}" for mine in range(8) for number in range(20)} <= set(d)
    assert len(d) == 1 + 20 + 160 and all(finds_itself(d, key) for key in d)


def test_who_looks_and_writes_in_one_turn_overwrites_nobody(switching: None) -> None:
    d = SoftDict({"counted": 0}, encoder="random")

    def count(_: int) -> None:
        for _ in range(20):
            with d.turn:
                d["counted"] = d["counted"] + 1

    assert in_eight_threads(count) == []
    assert d["counted"] == 160


class Label(str):
    """Other threads may come in wherever a label is looked for."""

    def __hash__(self) -> int:
        return str.__hash__(self)


def test_a_label_that_many_threads_add_has_one_code_and_no_other_has_it(switching: None) -> None:
    for _ in range(20):
        table, given = LabelTable(), set()

        def add(mine: int, table: LabelTable = table, given: set[tuple[str, int]] = given) -> None:
            for label in (*map(Label, range(200)), Label(f"of {mine}")):
                given.add((label, table.code(label)))

        assert in_eight_threads(add) == []
        assert len(given) == 200 + 8
        assert all(
            table.labels[code] == label == table.labels[table.code(label)] for label, code in given
        )


def test_items_and_values_are_those_of_one_moment_whatever_is_written_meanwhile() -> None:
    d = SoftDict({"a": 1, "b": 2, "c": 3}, encoder="random")
    items, values = iter(d.items()), iter(d.values())

    seen = [next(items), next(values)]
    d.update({"a": 10, "c": 30, "d": 40})
    del d["b"]

    assert seen == [("a", 1), 1]
    assert (list(items), list(values)) == ([("b", 2), ("c", 3)], [2, 3])
    assert (list(d.items())[-1], list(d.values())) == (("d", 40), [10, 30, 40])
    assert ("c", 30) in d.items() and ("b", 2) not in d.items() and 30 in d.values()
    assert (len(d.items()), d.items() & {("a", 10)}) == (3, {("a", 10)})


@pytest.mark.parametrize(
    "meddle", [lambda d: d.put("z", 1), lambda d: d.pop("a"), lambda d: d.clear()]
)
def test_a_write_from_inside_a_transaction_of_the_same_dictionary_fails_it_and_nothing_is_lost(
    tmp_path: Path, meddle: Callable[[SoftDict], object]
) -> None:
    with SoftDict.open(tmp_path, encoder="random") as d:
        d.update({"a": 1, "b": 2})
        with pytest.raises(RuntimeError, match="inside another write"):
            d.load(b"key,value\nc,3\n", CSV, progress=once("writing", lambda: meddle(d)))
        shown = dict(d)
    with SoftDict.open(tmp_path) as d:
        assert dict(d) == shown == {"a": 1, "b": 2}
        d.update({"a": 5, "c": 6, "z": 7})
        assert (d["a"], d["c"], d["z"]) == (5, 6, 7)


@pytest.mark.parametrize(
    "meddle",
    [
        lambda catalog: catalog["b"].put("z", 1),
        lambda catalog: catalog["b"].configure(temperature=0.1),
        lambda catalog: catalog.create("c", encoder="random"),
        lambda catalog: catalog.delete("b"),
        lambda catalog: catalog.load("c", b"key,value\na,1\n", CSV, encoder="random"),
    ],
)
@pytest.mark.parametrize("new", [False, True])
def test_a_write_from_inside_a_transaction_of_another_dictionary_is_refused_and_neither_is_kept(
    tmp_path: Path, meddle: Callable[[Catalog], object], new: bool
) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder="random")["x"] = 1
        load = partial(catalog.load, "new", encoder="random") if new else catalog["a"].load
        with pytest.raises(RuntimeError, match="inside another write"):
            load(b"key,value\nc,3\n", CSV, progress=once("writing", lambda: meddle(catalog)))

        assert {name: dict(d) for name, d in catalog.items()} == {"a": {"x": 1}, "b": {"x": 1}}
        assert catalog["b"].describe().temperature == "auto"


def test_two_loads_that_would_write_to_each_other_s_dictionary_do_not_wait_for_each_other(
    tmp_path: Path,
) -> None:
    both = threading.Barrier(2)
    refused: list[str] = []

    def load(name: str, other: str) -> None:
        def tell(progress: Progress) -> None:
            if progress.phase == "writing":
                catalog[other].put("z", 1)

        both.wait(PATIENCE)
        with pytest.raises(RuntimeError, match="inside another write"):
            catalog[name].load(b"key,value\nc,3\n", CSV, progress=tell)
        refused.append(name)

    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder="random")["x"] = 1
        for _ in range(10):
            assert ended(begun(partial(load, "a", "b")), begun(partial(load, "b", "a")))
        assert sorted(refused) == ["a"] * 10 + ["b"] * 10
        assert [dict(d) for d in catalog.values()] == [{"x": 1}] * 2


def test_a_write_from_a_signal_s_handler_is_not_lost_under_the_one_that_it_came_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = SoftDict({"a": 1}, encoder="random")
    real = Snapshot.with_values

    def interrupted(self: Snapshot, changes: object) -> Snapshot:
        monkeypatch.setattr(Snapshot, "with_values", real)
        d["z"] = 1
        return real(self, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(Snapshot, "with_values", interrupted)
    with pytest.raises(RuntimeError, match="inside another write"):
        d["a"] = 2

    assert dict(d) == {"a": 1}


@pytest.mark.parametrize(
    "write",
    [
        lambda d: d.update({"a": 2}),
        lambda d: d.pop("a"),
        lambda d: d.clear(),
        lambda d: d.configure(temperature=0.2),
    ],
)
def test_a_write_that_a_signal_s_handler_came_before_is_refused_and_the_handler_s_is_kept(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[SoftDict], object]
) -> None:
    d = SoftDict({"a": 1}, encoder="random")
    real = Moments.change

    def interrupted(self: Moments, since: int) -> object:
        monkeypatch.setattr(Moments, "change", real)
        d["z"] = 1  # between the look at the entries and the transaction
        return real(self, since)

    monkeypatch.setattr(Moments, "change", interrupted)
    with pytest.raises(RuntimeError, match="inside another write"):
        write(d)

    assert dict(d) == {"a": 1, "z": 1} and d.describe().temperature == "auto"


def stop() -> None:
    raise KeyboardInterrupt


@contextmanager
def interrupted(
    step: int,
    handle: Callable[[], object] = stop,
    modules: tuple[str, ...] = MODULES,
) -> Iterator[list[str]]:
    """Handle a signal at a step of this thread in modules, and say where, if it gets so far.

    Python handles them where a function begins and where one of C has returned.
    """
    steps, where = count(1), []

    def at(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event in ("call", "c_return") and name.startswith(modules) and next(steps) == step:
            sys.setprofile(None)
            where.append(f"{name}:{frame.f_lineno}")
            handle()

    sys.setprofile(at)
    try:
        yield where
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    "write",
    [
        lambda catalog, n: catalog["a"].put("x", n),
        lambda catalog, n: catalog["a"].put(str(n), n),
        lambda catalog, n: catalog["a"].pop("x", None) or catalog["a"].put("x", n),
        lambda catalog, n: catalog["a"].configure(temperature=1 + n),
        lambda catalog, n: catalog.create(str(n), encoder="random"),
        lambda catalog, n: catalog.delete("b") if "b" in catalog else catalog.create("b"),
    ],
)
def test_wherever_ctrl_c_comes_what_is_shown_is_what_is_stored_and_others_may_write(
    write: Callable[[Catalog, int], object],
) -> None:
    store = Store(None)
    catalog = Catalog(store)
    d = catalog.create("a", encoder="random", temperature=1)
    d["x"] = 0

    def take_turns() -> None:
        with patience(0), catalog._changing, d.turn, store.transaction():
            taken.append(n)

    for n in count(1):
        with suppress(KeyboardInterrupt), interrupted(n) as where:
            write(catalog, n)
        record = store.record(d.id)
        entries = [entry for some in store.entries(d.id) for entry in some]
        assert dict(d) == {entry.key: entry.values[0] for entry in entries}, where
        assert d.describe().temperature == record.temperature, where
        assert list(catalog) == [each.name for each in store.records()], where
        taken: list[int] = []
        assert ended(begun(take_turns)) and taken, where
        if not where:
            break
    assert n > 100  # or it was no write


@pytest.mark.parametrize("read_only", [False, True])
def test_a_signal_s_handler_may_read_wherever_it_comes_into_the_first_read(
    tmp_path: Path, read_only: bool
) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.create("a", encoder="random").update({"x": 1, "y": 2})

    def ask(catalog: Catalog, n: int) -> None:
        with interrupted(n, lambda: handled.append(dict(catalog["a"]))):
            read.append(len(catalog["a"]))

    for n in count(1):
        handled: list[dict[str, object]] = []
        read: list[int] = []
        with Catalog.open(tmp_path, read_only=read_only) as catalog:
            assert ended(begun(partial(ask, catalog, n)))
        assert read == [2]
        if not handled:
            break
        assert handled == [{"x": 1, "y": 2}]
    assert n > 50  # or nothing was read


ASKED: list[Callable[[EncoderWorker], object]] = [
    lambda worker: worker.encode_queries(["a"]),
    lambda worker: worker.encode(["a", "b"]),
    lambda worker: worker.tokens("a b"),
]


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("handle", [*ASKED, lambda _: stop()])
def test_wherever_a_signal_s_handler_asks_an_encoder_or_ctrl_c_comes_nobody_waits_for_ever(
    ask: Callable[[EncoderWorker], object], handle: Callable[[EncoderWorker], object]
) -> None:
    def asked(n: int) -> None:
        # Python's own start of a thread may turn Ctrl-C into "release unlocked lock".
        with (
            suppress(KeyboardInterrupt, RuntimeError),
            interrupted(n, partial(handle, worker), (*MODULES, "queue", "threading")) as where,
        ):
            places.append(where)
            ask(worker)

    for n in count(1):
        worker, places = EncoderWorker(RandomEncoder()), list[list[str]]()
        assert ended(begun(partial(asked, n))), places
        assert ended(begun(partial(ask, worker))), places
        worker.close()
        if not places[0]:
            break
    assert n > 20  # or nothing was asked


@pytest.mark.parametrize("write", [lambda d: d.put("z", 3), lambda d: d.pop("x")])
def test_what_a_signal_s_handler_writes_during_the_first_read_is_shown(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[SoftDict], object]
) -> None:
    store = Store(None)
    record = Catalog(store).create("a", encoder="random")
    record.update({"x": 1, "y": 2})
    d = SoftDict.stored(store, store.record(record.id))
    read = Moments._read

    def interrupted(self: Moments) -> object:
        monkeypatch.setattr(Moments, "_read", read)
        found = read(self)
        write(d)
        return found

    monkeypatch.setattr(Moments, "_read", interrupted)
    shown = dict(d)

    assert shown == {e.key: e.values[0] for some in store.entries(d.id) for e in some}
    assert shown != {"x": 1, "y": 2}


def test_a_write_to_an_entry_that_the_store_has_not_is_refused() -> None:
    d = SoftDict({"a": 1}, encoder="random")
    store, snapshot = d._moments.store, d._snapshot
    ids = list(map(snapshot.id, snapshot.places()))
    store.delete_entries(d.id, ids, listed=ids)

    for write in (lambda: d.put("a", 2), lambda: d.pop("a"), d.clear):
        with pytest.raises(StoreCorrupt, match="open it anew"):
            write()
    assert dict(d) == {"a": 1}


def once(phase: str, work: Callable[[], object]) -> Callable[[Progress], None]:
    """Do work in a load's first report from a phase."""
    left = [work]

    def tell(progress: Progress) -> None:
        if progress.phase == phase and left:
            left.pop()()

    return tell


def more(d: SoftDict) -> None:
    d.load(b"key,value\nb,30\ne,30\nf,30\n", CSV)


@pytest.mark.parametrize(
    ("meanwhile", "then", "encoded"),  # at most: what others wrote need not be
    [
        (lambda d: None, {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3}, 3),
        (lambda d: d.put("z", 1), {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3, "z": 1}, 3),
        (lambda d: d.put("d", 1), {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3}, 3),
        (lambda d: d.pop("b"), {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3}, 4),
        (lambda d: d.clear(), {"b": 2, "c": 3, "d": 3, "e": 3}, 4),
        (lambda d: d.reencode("random:2"), {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3}, 6),
        (more, {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3, "f": 30}, 3),
    ],
)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("block", [2, 65_536])
def test_others_write_to_a_dictionary_while_a_load_of_it_encodes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[SoftDict], object],
    then: dict[str, int],
    encoded: int,
    durable: bool,
    block: int,
) -> None:
    monkeypatch.setattr("index.writing.BLOCK", block)
    d = SoftDict.open(tmp_path, encoder="random:1") if durable else SoftDict(encoder="random:1")
    with d:
        d.update({"a": 1, "b": 20})
        write = once("encoding", lambda: ended(begun(lambda: meanwhile(d))))
        report = d.load(b"key,value\nb,2\nc,3\nd,3\ne,3\n", CSV, progress=write)

        assert dict(d) == then
        assert report.loaded == 4 and report.embedded <= encoded
        assert all(finds_itself(d, key) for key in then)


def test_a_load_during_which_the_encoder_changes_and_changes_back_meets_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("index.writing.BLOCK", 2)
    d = SoftDict({"a": 1}, encoder="random:1")

    def change(progress: Progress) -> None:
        if progress.phase == "encoding" and progress.done in (0, progress.total):
            d.reencode("random:1" if progress.done else "random:2")

    d.load(b"key,value\nb,2\nc,3\nd,4\ne,5\n", CSV, progress=change)

    assert d.encoder.identity == "random:1" and all(finds_itself(d, key) for key in "abcde")


def test_keys_are_not_encoded_anew_where_the_callback_that_is_told_of_it_writes_each_time() -> None:
    d = SoftDict({"a": 1, "b": 2}, encoder="random:1")

    with pytest.raises(RuntimeError, match="inside another write"):
        d.reencode("random:2", progress=lambda told: d.put("log", told.done))

    assert d.describe().encoder == "random:1"
    assert set(d) == {"a", "b", "log"} and all(finds_itself(d, key) for key in d)


def append(catalog: Catalog, source: object) -> int:
    options = {"if_exists": "append", "encoder": "random"}
    return catalog.load("d", source, CSV, **options).loaded  # type: ignore[arg-type]


def test_two_appends_to_a_name_that_is_new_both_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)
    prepare = catalog_module.prepare

    def together(*given: object, **named: object) -> object:
        both.wait(PATIENCE)  # neither has seen the other's dataset
        return prepare(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog_module, "prepare", together)
    loaded: list[int] = []
    with Catalog.open(tmp_path) as catalog:
        sources = [io.BytesIO(f"key,value\n{key},1\nboth,2\n".encode()) for key in "ab"]
        threads = [
            begun(lambda source=source: loaded.append(append(catalog, source)))  # type: ignore[misc]
            for source in sources
        ]

        assert ended(*threads) and loaded == [2, 2]
        assert dict(catalog["d"]) == {"a": 1, "b": 1, "both": 2}


class Once(io.BytesIO):
    """A stream that cannot be read again."""

    def seekable(self) -> bool:
        return False


ROWS = b"key,value\na,1\n"


@pytest.mark.parametrize("kind", ["bytes", "path", "stream", "pipe"])
def test_an_append_to_a_dataset_that_is_replaced_meanwhile_goes_to_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "rows.csv").write_bytes(ROWS)
    stream = io.BytesIO(b"before,5\n" + ROWS)
    stream.seek(9)
    sources = {"bytes": ROWS, "path": tmp_path / "rows.csv", "stream": stream, "pipe": Once(ROWS)}
    prepare = softdict.prepare

    def meanwhile(*given: object, **named: object) -> object:
        monkeypatch.setattr(softdict, "prepare", prepare)
        new = b"key,value\nnew,2\n"
        catalog.load("d", new, CSV, if_exists="replace", encoder="random:1")
        return prepare(*given, **named)  # type: ignore[arg-type]

    with Catalog.open(tmp_path / "home") as catalog:
        catalog.create("d", encoder="random")["old"] = 0
        monkeypatch.setattr(softdict, "prepare", meanwhile)
        if kind == "pipe":
            with pytest.raises(UnknownDataset):
                append(catalog, sources[kind])
            assert dict(catalog["d"]) == {"new": 2}
        else:
            assert append(catalog, sources[kind]) == 1
            assert dict(catalog["d"]) == {"new": 2, "a": 1}


def test_an_append_to_a_dataset_that_is_deleted_meanwhile_makes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = softdict.prepare

    def meanwhile(*given: object, **named: object) -> object:
        catalog.delete("d")
        return prepare(*given, **named)  # type: ignore[arg-type]

    with Catalog.open(tmp_path) as catalog:
        catalog.create("d", encoder="random")["old"] = 0
        monkeypatch.setattr(softdict, "prepare", meanwhile)
        with pytest.raises(UnknownDataset):
            append(catalog, ROWS)
        assert list(catalog) == []


def test_a_load_that_was_committed_reads_its_file_no_more(tmp_path: Path) -> None:
    table = tmp_path / "long.csv"
    long = "x" * 8_000  # more than is held in memory
    table.write_text("key,text\n" + "".join(f"{n},{n}{long}\n" for n in range(2_500)), "utf-8")
    d = SoftDict(encoder="random")

    def then_gone(progress: Progress) -> None:
        if progress.phase == "writing":
            table.write_text("key,text\n", "utf-8")

    report = d.load(table, progress=then_gone)

    assert (len(d), report.loaded, len(report.preview)) == (2_500, 2_500, 5)
    assert table.stat().st_size == 9


KEYS = {f"key {number}": number for number in range(8)}


def finds_itself(d: SoftDict, key: str) -> bool:
    best = d.search(key, k=1, tolerance=0).matches[0]
    return best.key == key and best.score == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("ask", "step"),
    [
        ("search", "parse_question"),
        ("search", "answer_softly"),
        ("compare", "parse_question"),
        ("compare", "answer_naming"),
    ],
)
def test_a_question_keeps_the_encoder_it_began_with(
    monkeypatch: pytest.MonkeyPatch, step: str, ask: str
) -> None:
    d = SoftDict(KEYS, encoder="random:1")
    real = getattr(softdict, step)

    def meanwhile(*given: object, **named: object) -> object:
        d.reencode("circle")
        return real(*given, **named)

    monkeypatch.setattr(softdict, step, meanwhile)
    if ask == "search":
        answer = d.search("key 3", k=1)
    else:
        answer = d.compare("key 3", k=1, weights={"key 3": 1.0}).soft

    assert answer.matches[0].key == "key 3"
    assert answer.matches[0].score == pytest.approx(1, abs=1e-5)
    assert d.describe().encoder.startswith("circle")


def test_a_question_before_new_vectors_are_shown_is_answered_from_the_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d = SoftDict(KEYS, encoder="random:1")
    show, found = Moments._publish, []

    def late(self: Moments, *given: object) -> None:
        found.append(finds_itself(d, "key 3"))
        show(self, *given)  # type: ignore[arg-type]
        found.append(finds_itself(d, "key 3"))

    monkeypatch.setattr(Moments, "_publish", late)
    d.reencode("random:2")

    assert found == [True, True]


def test_questions_while_keys_are_encoded_anew_never_meet_two_encoders() -> None:
    d = SoftDict(KEYS, encoder="random:1")
    done, wrong = threading.Event(), []

    def ask() -> None:
        try:
            while not done.is_set():
                wrong.extend(key for key in KEYS if not finds_itself(d, key))
        except Exception as fault:
            wrong.append(repr(fault))

    asking = [begun(ask) for _ in range(3)]
    for number in range(60):
        d.reencode(f"random:{number % 3}")
    done.set()

    assert ended(*asking) and wrong == []

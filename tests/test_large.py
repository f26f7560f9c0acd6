"""Large datasets: sketched in the background, kept on disk, right at every moment.

The threshold from which a dataset is sketched is lowered here, so that the real machinery (threads,
files, SQLite) runs on some hundred keys.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import logging
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from index import Catalog, LoadOptions, SoftDict, generation, moments, open_encoder, rebuilding
from index.errors import UnknownDataset
from index.kept import SPARE
from index.rebuilding import StackedRows, is_due
from index.sketch import PARTS
from index.snapshot import Snapshot
from index.store import Store
from tests import oracle
from tests.test_concurrency import begun, ended, interrupted
from tests.test_softdict_machine import Machine

ROOT = Path(__file__).parents[1]
ENCODER = "random:1"
SEEDS = {f"key {number}": float(number % 17) for number in range(300)}


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)


@pytest.fixture
def _sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few keys, and never think a scan cheaper."""
    few = {"CODED": 96, "TAKEN": 32, "DRAWN": 200, "FARTHEST": 1, "EACH_LISTED": 1,
           "FEWEST_DRAWN_FROM": 1}  # fmt: skip
    for name, number in few.items():
        monkeypatch.setattr(f"index.search.{name}", number)
    monkeypatch.setattr("index.search.RANDOM_ACCESS", 2.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("index.rebuilding.SKETCHED_FROM", 200)
        with SoftDict.open(folder, encoder=ENCODER, temperature=0.1) as d:
            d.update(SEEDS)
            d.settle()
    return folder


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A folder with the dictionary "dictionary" of 300 keys, sketched and closed."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def held_up(monkeypatch: pytest.MonkeyPatch, step: str) -> tuple[threading.Event, threading.Event]:
    """Have a step of a build wait; give what tells that it was reached, and what lets it go."""
    reached, let_go = threading.Event(), threading.Event()
    module, name = step.split(".")
    real = getattr({"generation": generation, "rebuilding": rebuilding}[module], name)

    def slowly(*arguments, **named):
        reached.set()
        assert let_go.wait(30)
        return real(*arguments, **named)

    monkeypatch.setattr(f"index.{step}", slowly)
    return reached, let_go


def snapshot_of(d: SoftDict) -> Snapshot:
    return d._snapshot


@cache
def unit_row(text: str) -> np.ndarray:
    row = open_encoder(ENCODER).encode([text])[0].astype(float)
    return row / np.linalg.norm(row)


def expected_weights(model: dict[str, float], query: str, tau: float) -> dict[str, float]:
    asked = unit_row(query)
    return oracle.softmax({key: float(unit_row(key) @ asked) for key in model}, tau)


def agrees(d: SoftDict, model: dict[str, float]) -> None:
    """Everything an exact answer says, beside plain loops."""
    answer = d.search("país", temperature=0.1, k=len(model) + 1, tolerance=0)
    weights = expected_weights(model, "país", 0.1)
    assert {m.key: m.weight for m in answer.matches} == pytest.approx(weights, rel=1e-4, abs=1e-9)
    assert answer.blend["value"].mean == pytest.approx(oracle.mean(weights, model), rel=1e-4)
    assert dict(d) == model and list(d) == list(model)


def test_a_sketched_table_of_keys_alone_takes_the_columns_of_the_first_values(tmp_path):
    keys = json.dumps(list(SEEDS)).encode()
    with SoftDict.open(tmp_path, encoder=ENCODER, temperature=0.1) as d:
        d.load(keys, LoadOptions(format="json"))
        d.settle()
        assert snapshot_of(d).sketch is not None and d.columns == ()
    with SoftDict.open(tmp_path) as d:
        d["key 7"] = SEEDS["key 7"]
        model = {**dict.fromkeys(SEEDS), "key 7": SEEDS["key 7"]}
        assert dict(d) == model
        d.update(SEEDS)
        agrees(d, SEEDS)
    with SoftDict.open(tmp_path) as d:
        agrees(d, SEEDS)


def test_a_sketched_dictionary_is_the_same_dictionary(home):
    with SoftDict.open(home) as d:
        assert snapshot_of(d).sketch is not None
        agrees(d, SEEDS)
        assert d.search("x", as_of=3, tolerance=0).keys == 3
        assert {m.key for m in d.search("x", as_of=3).matches} == {"key 0", "key 1", "key 2"}


@pytest.mark.usefixtures("_sampled")
def test_an_answer_from_a_sample_says_how_far_off_it_may_be_and_is_not_further(home):
    with SoftDict.open(home) as d:
        off, stated = [], []
        for number in range(100):
            query = f"query {number}"
            answer = d.search(query, temperature=0.3, tolerance=0.9, k=5)
            weights = expected_weights(SEEDS, query, 0.3)
            assert 0 < answer.scored < 200 and 0 < answer.coverage < 1 and answer.error > 0
            assert len(answer.matches) == 5
            ratio = [m.weight / weights[m.key] for m in answer.matches]
            assert max(ratio) - min(ratio) < 1e-4  # all are off by the one estimated mass
            off.append(answer.coverage * abs(1 - 1 / np.mean(ratio)))
            stated.append(answer.error)

        assert np.mean(np.array(off) <= np.array(stated)) >= 0.9
        assert d.search("query 1", temperature=0.3, tolerance=0.9) == d.search(
            "query 1", temperature=0.3, tolerance=0.9
        )
        assert d.search("query 1", temperature=0.3, tolerance=0).error == 0


@pytest.mark.usefixtures("_sampled")
def test_a_stated_error_counts_the_rounding_of_scores_where_nothing_else_is_off(home):
    with SoftDict.open(home) as d:
        answer = d.search("key 5", temperature=0.01, tolerance=0.9)

    assert answer.scored < answer.keys and answer.coverage > 0.999
    assert answer.error == pytest.approx(5e-8 / 0.01, rel=0.01)  # float32 has as many digits


@pytest.mark.usefixtures("_sampled")
def test_no_more_keys_share_the_attention_than_there_are(home):
    with SoftDict.open(home) as d:
        answers = [d.search(f"query {n}", temperature=100, tolerance=0.9) for n in range(20)]

        assert all(answer.scored < 300 for answer in answers)
        assert all(200 < answer.effective_keys <= 300 for answer in answers)


@pytest.mark.usefixtures("_sampled")
def test_a_tolerance_that_a_sample_cannot_keep_is_answered_by_a_scan(home):
    with SoftDict.open(home) as d:
        answer = d.search("país", temperature=0.3, tolerance=1e-6)

        assert (answer.scored, answer.coverage, answer.error) == (300, 1.0, 0.0)


@pytest.mark.usefixtures("_sampled")
def test_a_temperature_too_fine_for_codes_is_answered_by_a_scan(home):
    with SoftDict.open(home) as d:
        answers = [d.search("país", temperature=tau, tolerance=0.9) for tau in (0.0099, 0.01)]

        assert [answer.scored for answer in answers if answer.error < 1e-4] == [300]


@pytest.mark.usefixtures("_sampled")
def test_where_few_keys_are_allowed_each_of_them_is_scored(monkeypatch):
    d = SoftDict({f"key {number}": 1.0 for number in range(2400)}, encoder=ENCODER)
    d.settle()

    def scored(allowed: int, fewest: int) -> tuple[int, bool]:
        monkeypatch.setattr("index.search.FEWEST_DRAWN_FROM", fewest)
        answer = d.search("país", temperature=0.3, tolerance=0.9, as_of=allowed)
        assert answer.keys == allowed
        return answer.scored, answer.error == 0

    monkeypatch.setattr("index.search.RANDOM_ACCESS", 0.5)
    assert scored(119, 1) == (119, True)  # one less than a twentieth
    assert scored(120, 121) == (120, True)
    assert scored(120, 120)[0] < 120 and not scored(120, 120)[1]
    assert scored(2400, 2401) == (2400, True)


@pytest.mark.usefixtures("_sampled")
def test_a_column_that_few_keys_have_is_blended_over_all_that_have_it():
    held = {f"key {number}": float(number) for number in range(0, 2400, 40)}
    keys = [f"key {number}" for number in range(2400)]
    d = SoftDict({key: {"all": 1.0, "few": held.get(key)} for key in keys}, encoder=ENCODER)
    d.settle()
    for key in [*held][::4]:  # after the sketch
        del d[key], held[key]
    d["late"] = {"all": None, "few": 5.0}
    held["late"] = 5.0
    for query in held:  # near itself alone: what else has a value is hardly drawn
        answer = d.search(query, temperature=0.2, tolerance=0.3)
        expected = oracle.mean(expected_weights(held, query, 0.2), held)
        assert answer.scored < 2300
        assert answer.blend["few"].mean == pytest.approx(expected, rel=1e-4)
        assert answer.blend["all"].mean == pytest.approx(1)


@pytest.mark.usefixtures("_sampled")
def test_what_is_written_after_the_sketch_counts_at_once(home):
    with SoftDict.open(home) as d:
        model = dict(SEEDS)
        d["key 5"] = model["key 5"] = 99.0
        d["país"] = model["país"] = 7.0
        del d["key 0"], model["key 0"]

        agrees(d, model)
        answer = d.search("país", temperature=0.3, tolerance=0.9, k=20)
        assert answer.scored < 300 and answer.keys == 300
        assert answer.matches[0].key == "país"
        assert "key 0" not in {m.key for m in answer.matches}
        found = {m.key: m.value for m in answer.matches}
        assert found.get("key 5", 99.0) == 99.0


def test_changes_after_the_sketch_are_there_at_the_next_start(home):
    model = dict(SEEDS)
    with SoftDict.open(home) as d:
        d["key 5"] = model["key 5"] = 99.0
        d["new"] = model["new"] = 1.0
        del d["key 0"], model["key 0"]
        d["gone"] = 1
        del d["gone"]

    with SoftDict.open(home) as d:
        assert snapshot_of(d).sketch is not None
        agrees(d, model)


def test_many_changes_bring_a_new_sketch(home):
    model = dict(SEEDS)
    with SoftDict.open(home) as d:
        before = snapshot_of(d).sketch
        more = {f"more {number}": 1.0 for number in range(40)}
        d.update(more)
        model.update(more)
        d.settle()

        assert snapshot_of(d).sketch is not before
        assert len(snapshot_of(d).blocks) == 1
        assert not is_due(snapshot_of(d))
        agrees(d, model)


@pytest.mark.parametrize(
    ("new", "gone", "due"),
    [(0, 0, False), (12, 0, False), (13, 0, True), (0, 75, False), (0, 76, True), (0, 101, False)],
)
def test_a_sketch_is_due_again_once_a_24th_is_new_or_a_quarter_gone(home, new, gone, due):
    with SoftDict.open(home) as d:
        d.stop()  # before it makes one
        d.update({f"more {number}": 1.0 for number in range(new)})
        for number in range(gone):
            del d[f"key {number}"]

        assert is_due(snapshot_of(d)) == due


@pytest.mark.parametrize("handle", [lambda d: d.put("z", 1), lambda d: d.stop()])
def test_wherever_a_signal_s_handler_writes_while_a_sketch_is_begun_one_is_made_and_nobody_waits(
    monkeypatch, handle
):
    store = Store(None)
    first = Catalog(store).create("d", encoder=ENCODER)
    first.update(SEEDS)
    first.settle()
    building, overlapped, made = threading.Lock(), [], moments.sketched

    def alone(*given, **named):
        overlapped.append(not building.acquire(blocking=False))
        try:
            return made(*given, **named)
        finally:
            building.release()

    def read(n):
        with interrupted(n, partial(handle, d), ("index.rebuilding", "threading")) as at:
            where.append(at)
            len(d)

    monkeypatch.setattr("index.moments.sketched", alone)
    for n in count(1):
        d, where = SoftDict.stored(store, store.record(first.id)), []
        assert ended(begun(partial(read, n))), where
        d["key 1"] = float(n)
        d.settle()
        assert snapshot_of(d).sketch is not None or d._moments.rebuilder._stopping, where
        assert not d.settling and not any(overlapped), where
        if not where[0]:
            break
    assert n > 20  # or none was begun


@pytest.mark.parametrize("started", [False, True])
def test_a_sketch_that_ctrl_c_keeps_from_being_begun_is_begun_with_the_next_write(
    monkeypatch, started
):
    real, held = threading.Thread.start, []

    def stopped(thread):
        if thread.name != "softdict-sketch":
            return real(thread)
        monkeypatch.setattr(threading.Thread, "start", real)
        if started:
            held.append(thread)
            real(thread)
        raise KeyboardInterrupt

    store = Store(None)
    first = Catalog(store).create("d", encoder=ENCODER)
    first.update(SEEDS)
    first.settle()
    d = SoftDict.stored(store, store.record(first.id))
    monkeypatch.setattr(threading.Thread, "start", stopped)
    with pytest.raises(KeyboardInterrupt):
        len(d)
    for thread in held:  # whoever started it knows nothing of it
        thread.join(30)
    assert not d.settling and snapshot_of(d).sketch is None
    d["key 1"] = 5.0
    d.settle()

    assert snapshot_of(d).sketch is not None and d["key 1"] == 5


FORKED = """
import os, sys, threading
from index import SoftDict, rebuilding
rebuilding.SKETCHED_FROM = 200
reached, let_go = threading.Event(), threading.Event()
def held(rows, **named):
    reached.set()
    let_go.wait()
    raise rebuilding.Cancelled
rebuilding.build_sketch = held
d = SoftDict({f"k{i}": i for i in range(300)}, encoder="random:1")
assert reached.wait(30)
child = os.fork()
if not child:
    d["fresh"] = 1
    d.settle()
    print(d.settling, len(d), d.search("k5", k=1, tolerance=0.3).scored, flush=True)
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(d.settling, len(d), flush=True)
let_go.set()
sys.exit(code)
"""


def test_a_process_forked_during_a_sketch_is_at_rest_and_scores_every_key() -> None:
    forked = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]

    done = subprocess.run(forked, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout.split("\n")[:2] == ["False 301 301", "True 300"], done.stderr
    assert done.returncode == 0


def test_writes_during_a_build_are_laid_on_top(home, monkeypatch):
    model = dict(SEEDS)
    reached, let_go = threading.Event(), threading.Event()
    real = generation.save

    def slow_save(*arguments):
        reached.set()
        assert let_go.wait(30)
        real(*arguments)

    monkeypatch.setattr("index.generation.save", slow_save)
    with SoftDict.open(home) as d:
        d.update({f"more {number}": 1.0 for number in range(40)})
        model.update({f"more {number}": 1.0 for number in range(40)})
        assert reached.wait(30)
        d["key 7"] = model["key 7"] = -5.0
        d["late"] = model["late"] = 3.0
        del d["more 3"], model["more 3"]
        agrees(d, model)
        let_go.set()
        d.settle()

        assert len(snapshot_of(d).sketch) == 340
        agrees(d, model)

    monkeypatch.undo()
    with SoftDict.open(home) as d:
        assert dict(d) == model and list(d) == list(model)


OVERTAKING = {
    "many new entries": lambda d: d.update({f"more {number}": 1.0 for number in range(120)}),
    "another precision": lambda d: d.configure(precision="half"),
    "another encoder": lambda d: d.reencode("random:2"),
}


@pytest.mark.parametrize("change", OVERTAKING.values(), ids=OVERTAKING)
@pytest.mark.parametrize("durable", [True, False])
def test_a_build_that_a_change_overtakes_is_followed_by_another(
    tmp_path, monkeypatch, change, durable
):
    reached, let_go = held_up(monkeypatch, "rebuilding.build_sketch")
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)
    d = SoftDict.open(tmp_path, encoder=ENCODER) if durable else SoftDict(encoder=ENCODER)
    with d:
        d.update(SEEDS)
        assert reached.wait(30)
        change(d)
        let_go.set()
        d.settle()

        assert snapshot_of(d).sketch is not None
        assert len(snapshot_of(d).sketch) == len(d)
        assert d.describe().precision_in_use == d.describe().precision


def test_a_build_that_a_small_change_overtakes_is_the_only_one(home, monkeypatch):
    builds = []
    real = generation.save

    def slowly(*arguments):
        builds.append(threading.get_ident())
        d["late"] = 3.0
        real(*arguments)

    monkeypatch.setattr("index.generation.save", slowly)
    with SoftDict.open(home) as d:
        d.update({f"more {number}": 1.0 for number in range(40)})
        d.settle()

        assert len(builds) == 1 and d["late"] == 3


def test_a_sketch_of_entries_that_went_before_it_began_is_not_made(tmp_path, caplog):
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        with d.turn:
            d.update(SEEDS)
            d.clear()
        d.settle()

        assert snapshot_of(d).sketch is None and caplog.text == ""
        d.update(SEEDS)
        d.settle()
        assert len(snapshot_of(d).sketch) == len(SEEDS)


@pytest.mark.parametrize("left", [0, 20])
@pytest.mark.parametrize("durable", [True, False])
def test_entries_that_go_while_they_are_sketched_are_let_go_and_few_are_not_sketched_again(
    tmp_path, monkeypatch, caplog, durable, left
):
    reached, let_go = held_up(monkeypatch, "rebuilding.build_sketch")
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)
    d = SoftDict.open(tmp_path, encoder=ENCODER) if durable else SoftDict(encoder=ENCODER)
    with d:
        d.update(SEEDS)
        assert reached.wait(30)
        for key in list(SEEDS)[left:]:
            del d[key]
        let_go.set()
        d.settle()
        assert snapshot_of(d).rows == left
        d.configure(precision="half")  # which is for many
        d.settle()

        assert caplog.text == "" and d.describe().precision_in_use == "full"
        d.update(SEEDS)
        d.settle()
        assert dict(d) == SEEDS and list(d) == list(SEEDS)
        assert d.describe().precision_in_use == "half"
    if durable:
        with SoftDict.open(tmp_path) as d:
            assert dict(d) == SEEDS and list(d) == list(SEEDS)


def test_a_sketch_that_cannot_be_begun_is_a_line_in_the_log_and_fails_no_load(
    tmp_path, monkeypatch, caplog
):
    real = threading.Thread.start

    def refused(thread):
        if thread.name == "softdict-sketch":
            raise RuntimeError("can't start new thread")
        real(thread)

    with Catalog.open(tmp_path) as catalog:
        monkeypatch.setattr(threading.Thread, "start", refused)
        assert large(catalog)["key 3"] == 3
        assert "can't start new thread" in caplog.text
        large(catalog, if_exists="replace")
        assert catalog["d"].id == 2
        assert not catalog["d"].settling
        catalog["d"].settle()
        rebuilding._stop_all()

    monkeypatch.undo()
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)
    with Catalog.open(tmp_path) as catalog:
        agrees(catalog["d"], SEEDS)
        catalog["d"].settle()
        assert snapshot_of(catalog["d"]).sketch is not None


def test_the_entries_from_before_a_sketch_are_let_go_of(monkeypatch):
    _, let_go = held_up(monkeypatch, "rebuilding.build_sketch")
    d = SoftDict(SEEDS, encoder=ENCODER)
    before = weakref.ref(snapshot_of(d))
    let_go.set()
    d.settle()
    gc.collect()

    assert snapshot_of(d).sketch is not None and before() is None


@pytest.mark.parametrize("kind", ["category", "text"])
def test_labels_that_no_entry_has_any_more_go_with_the_next_sketch(tmp_path, monkeypatch, kind):
    model = {f"key {number}": f"text {number}" for number in range(300)}
    table = "key,value\n" + "".join(f"{key},{label}\n" for key, label in model.items())
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d.load(table.encode(), LoadOptions(columns={"value": kind}))
        d.settle()
        assert dict(d) == model
        changed = {f"key {number}": "another text" for number in range(50)}
        d.update(changed)
        model |= changed
        del d["key 299"], model["key 299"]
        reached, let_go = held_up(monkeypatch, "generation.save")
        more = {f"more {number}": "text 7" for number in range(40)}
        d.update(more)
        assert reached.wait(30)
        late = {"key 60": "late", "key 61": None, "new": "late", "other": "text 0"}
        d.update(late)
        d["gone"] = "of an entry that is gone"
        del d["gone"]
        let_go.set()
        d.settle()
        model |= more | late

        assert sorted(snapshot_of(d).labels[0].labels) == sorted(
            {*model.values(), "text 60", "text 61"} - {None}  # these until the next sketch
        )
        assert dict(d) == model
        assert d.search("new", k=1, tolerance=0).matches[0].value == "late"
    (texts,) = (tmp_path / "generations").glob(f"*/{generation.TEXTS}")
    (labels,) = json.loads(texts.read_text("utf-8"))["labels"]
    kept = {"another text", *(f"text {number}" for number in range(50, 299)), "text 7"}
    assert sorted(labels) == sorted(kept)
    with SoftDict.open(tmp_path) as d:
        assert dict(d) == model


FILES = [generation.VECTORS, generation.CODES, generation.ARRAYS, generation.TEXTS]


@pytest.mark.parametrize("name", [*FILES, generation.NOTE])
@pytest.mark.parametrize("fault", ["flipped", "cut", "missing"])
def test_a_damaged_index_is_never_served_and_is_made_anew(home, name, fault):
    (folder,) = (home / "generations").iterdir()
    with closing(Store(home, read_only=True)) as store:
        (record,) = store.records()
    assert generation.load(home, record) is not None
    path = folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if fault == "flipped":
        path.write_bytes(bytes(content))
    elif fault == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()

    assert generation.load(home, record) is None
    with SoftDict.open(home) as d:
        agrees(d, SEEDS)
        d.settle()
        assert snapshot_of(d).sketch is not None
        agrees(d, SEEDS)


@pytest.mark.parametrize("name", [*FILES, generation.NOTE])
def test_a_pipe_in_the_place_of_a_file_of_an_index_is_not_waited_for(home, name):
    (folder,) = (home / "generations").iterdir()
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with closing(Store(home, read_only=True)) as store:
        (record,) = store.records()
    found = []

    assert ended(begun(lambda: found.append(generation.load(home, record))))
    assert found == [None]


def test_a_note_that_no_memory_holds_is_damage_as_any_other(home):
    (folder,) = (home / "generations").iterdir()
    os.truncate(folder / generation.NOTE, 2**40)
    with closing(Store(home, read_only=True)) as store:
        (record,) = store.records()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**39, limits[1]))
    try:
        assert generation.load(home, record) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def sealed(note):
    """Write a note as the one who made it would have: with a checksum of what it says."""
    said = {name: of for name, of in note.items() if name != "seal"}
    seal = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    return json.dumps({**said, "seal": seal})


@pytest.mark.parametrize("wrong", [1, -1, 0.5, None])
def test_a_note_of_another_version_than_was_written_is_never_believed(home, wrong):
    """One bit of a digit, and values that were changed meanwhile would be those of before."""
    (folder,) = (home / "generations").iterdir()
    with SoftDict.open(home) as d:
        changed = dict.fromkeys(list(SEEDS)[:3], 77.0)
        for key, value in changed.items():
            d[key] = value
    note = json.loads((folder / generation.NOTE).read_text())
    note["version"] += wrong or 0
    said = "null" if wrong is None else json.dumps(note)
    (folder / generation.NOTE).write_text(said)
    with closing(Store(home, read_only=True)) as store:
        (record,) = store.records()

    assert generation.load(home, record) is None
    with SoftDict.open(home) as d:
        agrees(d, {**SEEDS, **changed})


@pytest.mark.parametrize(
    "change",
    [
        *({"version": 10**6}, {"encoder": "other"}, {"format": 0}, {"dataset": 9}, {"files": {}}),
        *({"created": 0.0}, {"columns": []}),
        *({"version": "1"}, {"files": 5}),  # of other types
    ],
)
def test_an_index_of_something_else_is_never_served(home, change):
    (folder,) = (home / "generations").iterdir()
    note = json.loads((folder / generation.NOTE).read_text())
    (folder / generation.NOTE).write_text(sealed({**note, **change}))

    with SoftDict.open(home) as d:
        assert snapshot_of(d).blocks[0].sketch is None
        agrees(d, SEEDS)


def test_codes_that_faiss_does_not_read_are_made_anew(home):
    """As those that another release of it wrote may be: they are what their checksum says."""
    (folder,) = (home / "generations").iterdir()
    np.save(folder / generation.CODES, np.zeros(64, np.uint8))
    note = json.loads((folder / generation.NOTE).read_text())
    content = (folder / generation.CODES).read_bytes()
    note["files"][generation.CODES] = hashlib.sha256(content).hexdigest()
    (folder / generation.NOTE).write_text(sealed(note))

    with SoftDict.open(home) as d:
        assert snapshot_of(d).blocks[0].sketch is None
        agrees(d, SEEDS)


def test_an_older_index_than_the_oldest_kept_deletion_cannot_be_slipped_in(home, tmp_path):
    """A copy of an index from before a deletion, put back, must not bring the entry back."""
    (folder,) = (home / "generations").iterdir()
    shutil.copytree(folder, tmp_path / "copy")
    model = dict(SEEDS)
    with SoftDict.open(home) as d:
        del d["key 3"], model["key 3"]
        d.update({f"more {number}": 1.0 for number in range(40)})
        model.update({f"more {number}": 1.0 for number in range(40)})
        d.settle()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)

    with SoftDict.open(home) as d:
        assert dict(d) == model


def test_deletions_are_listed_only_for_an_index_and_without_one_an_older_one_is_of_no_use(
    home, tmp_path, monkeypatch
):
    def listed() -> list[int]:
        store = d._moments.store
        return store.deletions(d.id, since=0)

    (folder,) = (home / "generations").iterdir()
    with SoftDict.open(home) as d:
        del d["key 3"]
        assert listed() == [4]  # ids are counted from 1
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 1_000)
    with SoftDict.open(home) as d:
        del d["key 7"]
        d["key 7"] = 7.0
        del d["key 9"]
        model = dict(d)
        assert listed() == []
    shutil.copytree(tmp_path / "copy", folder)

    with SoftDict.open(home) as d:
        assert snapshot_of(d).sketch is None and dict(d) == model
    assert model.keys() == SEEDS.keys() - {"key 3", "key 9"}


def test_a_deletion_during_the_first_build_holds_at_the_next_start(tmp_path, monkeypatch):
    reached, let_go = held_up(monkeypatch, "generation.save")
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d.update(SEEDS)
        assert reached.wait(30)
        del d["key 3"]
        let_go.set()
        d.settle()

    with SoftDict.open(tmp_path) as d:
        assert snapshot_of(d).sketch is not None
        assert dict(d) == {key: value for key, value in SEEDS.items() if key != "key 3"}


def test_a_key_that_goes_while_the_next_index_is_kept_is_gone_at_the_next_start(home, monkeypatch):
    reached, let_go = held_up(monkeypatch, "generation.save")
    more = {f"more {number}": 1.0 for number in range(200)}
    model = {**SEEDS, **more}
    with SoftDict.open(home) as d:
        d.update(more)
        assert reached.wait(30)
        for key in ("key 3", "more 7"):  # of the old index, and of the new one alone
            del d[key], model[key]
        let_go.set()
        d.settle()

    with SoftDict.open(home) as d:
        assert len(snapshot_of(d).sketch) == 500
        agrees(d, model)


@pytest.mark.parametrize("durable", [True, False])
def test_a_small_dictionary_that_comes_and_goes_leaves_no_list_of_what_went(tmp_path, durable):
    d = SoftDict.open(tmp_path, encoder=ENCODER) if durable else SoftDict(encoder=ENCODER)
    with d:
        for number in range(20):
            d["x"] = number
            del d["x"]

        assert d._moments.store.deletions(d.id, since=0) == []


def test_keys_that_come_and_go_beside_a_sketch_are_not_listed_and_those_of_the_sketch_are(home):
    with SoftDict.open(home) as d:
        for number in range(20):
            d["x"] = number
            del d["x"]
        sketched = d._snapshot.id(d._snapshot.find("key 3"))
        d["x"] = 1.0
        d.pop("key 3")
        del d["x"]

        assert d._moments.store.deletions(d.id, since=0) == [sketched]
    with SoftDict.open(home) as d:
        agrees(d, {key: value for key, value in SEEDS.items() if key != "key 3"})


def test_the_format_of_an_index_is_numbered_anew_when_what_it_holds_changes(home):
    """FAISS writes down how codes are to be looked at, and a later version may not look so."""
    with SoftDict.open(home) as d:
        folder = generation.folder_of(home, d.id)
        codes = d._snapshot.sketch.codes._index
        held = (type(codes).__name__, codes.implem, codes.by_residual, codes.M, codes.pq.nbits)
        names = {path.name for path in folder.iterdir()}
        with np.load(folder / generation.ARRAYS) as arrays:
            parts = set(arrays.files)

        note = json.loads((folder / generation.NOTE).read_text())

    assert generation.FORMAT == 8, "write what the next one holds below"
    assert held == ("IndexIVFPQFastScan", 0, True, 96, 4)
    assert names == {"generation.json", "vectors.npy", "codes.npy", "arrays.npz", "texts.json"}
    assert parts >= set(PARTS)
    assert json.dumps(note) == sealed(note)


def grow(writer):
    writer.update({f"more {number}": 1.0 for number in range(200)})
    del writer["key 3"]


def test_an_index_made_after_deletions_is_opened_at_the_next_start(home):
    with SoftDict.open(home) as d:
        for number in range(80):
            del d[f"key {number}"]
        d.settle()
    (folder,) = (home / "generations").iterdir()  # that of the one before is gone
    with closing(Store(home, read_only=True)) as store:
        (record,) = store.records()

    assert folder.name == str(record.id)
    assert record.forgotten > 0, "the index needs them no more"
    assert generation.load(home, record) is not None


@pytest.mark.parametrize("change", [grow, lambda writer: writer.reencode("random:2")])
def test_an_index_that_is_changed_while_it_is_opened_is_not_served(home, monkeypatch, change):
    opened = generation._opened

    def overtaken(*arguments):
        monkeypatch.setattr("index.generation._opened", opened)
        with SoftDict.open(home) as writer:
            change(writer)
            writer.settle()
        return opened(*arguments)

    with Catalog.open(home, read_only=True) as reader:
        monkeypatch.setattr("index.generation._opened", overtaken)
        d = reader["dictionary"]
        agrees(d, SEEDS)  # as it stood when it was opened
        assert generation._opened is opened, "the index was opened, and overtaken"


def test_who_only_reads_begins_no_sketch(home, caplog):
    shutil.rmtree(home / "generations")
    with Catalog.open(home, read_only=True) as reader:
        agrees(reader["dictionary"], SEEDS)
        reader["dictionary"].settle()

        assert snapshot_of(reader["dictionary"]).sketch is None
    assert not (home / "generations").exists() and caplog.text == ""


def test_who_only_reads_drops_no_index_that_does_not_fit(home):
    """It may fit what the one who writes has by now, or be put in its place this moment."""
    (folder,) = (home / "generations").iterdir()
    note = json.loads((folder / generation.NOTE).read_text())
    (folder / generation.NOTE).write_text(sealed({**note, "version": note["version"] + 1}))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with Catalog.open(home, read_only=True) as reader:
        agrees(reader["dictionary"], SEEDS)
        assert snapshot_of(reader["dictionary"]).sketch is None

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_index_of_another_history_is_dropped_before_it_could_seem_to_fit(home):
    """The database is put back from a copy, and then changed until its version is as high."""
    copy = (home / "softdict.db").read_bytes()
    with SoftDict.open(home) as d:
        for number in range(6):
            d[f"key {number}"] = -1.0
        d.update({f"more {number}": 1.0 for number in range(200)})
        d.settle()
        ahead = d.version
    (home / "softdict.db").write_bytes(copy)
    model = dict(SEEDS)

    with SoftDict.open(home) as d:
        d.stop()  # before it can make a sketch of its own
        while d.version <= ahead:
            d["key 9"] = model["key 9"] = float(d.version)
    with SoftDict.open(home) as d:
        agrees(d, model)


def test_entries_are_read_while_another_program_keeps_the_database_from_being_written(
    home, monkeypatch
):
    with SoftDict.open(home) as d:
        del d["key 3"]  # which is listed, for the index
    shutil.rmtree(home / "generations")
    monkeypatch.setattr("index.store.PATIENCE", 0.01)
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 1_000)
    with (
        SoftDict.open(home) as d,
        closing(sqlite3.connect(home / "softdict.db")) as other,
    ):
        other.execute("BEGIN IMMEDIATE")

        assert dict(d) == {key: value for key, value in SEEDS.items() if key != "key 3"}


@pytest.mark.parametrize("if_exists", [None, "replace"])
def test_a_dataset_that_goes_while_it_is_first_read_is_not_there_in_part(
    tmp_path, monkeypatch, if_exists
):
    with Catalog.open(tmp_path) as catalog:
        large(catalog).settle()
    shutil.rmtree(tmp_path / "generations")
    monkeypatch.setattr("index.store.READ", 1)
    with Catalog.open(tmp_path) as catalog:
        d, entries = catalog["d"], Store.entries
        named = {} if if_exists is None else {"if_exists": if_exists}

        def interrupted(self, dataset, *, since):
            batches = entries(self, dataset, since=since)
            yield next(batches)
            monkeypatch.setattr(Store, "entries", entries)
            gone = (catalog.delete, "d") if if_exists is None else (large, catalog)
            other = threading.Thread(target=partial(*gone, **named))
            other.start()
            other.join()
            yield from batches

        monkeypatch.setattr(Store, "entries", interrupted)
        with pytest.raises(UnknownDataset):
            len(d)


def test_a_list_passes_over_what_is_deleted_before_its_turn_comes(tmp_path, monkeypatch):
    with Catalog.open(tmp_path) as catalog:
        catalog.create("gone", encoder=ENCODER)["a"] = 1
        catalog.create("kept", encoder=ENCODER)["b"] = 2
    with Catalog.open(tmp_path) as catalog:
        describe = SoftDict.describe

        def late(self):
            if self.name == "gone" and "gone" in catalog:
                catalog.delete("gone")
            return describe(self)

        monkeypatch.setattr(SoftDict, "describe", late)
        assert [each.name for each in catalog.descriptions()] == ["kept"]


def test_a_list_shows_what_replaces_a_dataset_before_its_turn_comes(tmp_path, monkeypatch):
    with Catalog.open(tmp_path) as catalog:
        for name in "ab":
            catalog.create(name, encoder=ENCODER)["x"] = 1
        describe = SoftDict.describe

        def and_replace(self):
            monkeypatch.undo()
            catalog.load("b", b"key,value\ny,1\nz,2\n", if_exists="replace", encoder=ENCODER)
            return describe(self)

    with Catalog.open(tmp_path) as catalog:
        monkeypatch.setattr(SoftDict, "describe", and_replace)
        assert [(each.name, each.entries) for each in catalog.descriptions()] == [
            ("a", 1),
            ("b", 2),
        ]


def test_reencoding_drops_the_sketch_and_makes_another(home):
    with SoftDict.open(home) as d:
        d.reencode("random:2")
        assert snapshot_of(d).sketch is None
        d.settle()
        assert snapshot_of(d).sketch is not None
    with SoftDict.open(home) as d:
        assert d.search("x").keys == 300
        encoder = open_encoder("random:2")
        score = float(encoder.encode(["x"])[0] @ encoder.encode(["key 1"])[0])
        assert {m.key: m.score for m in d.search("x", k=300).matches}["key 1"] == pytest.approx(
            score, abs=1e-6
        )


def test_closing_in_the_middle_of_a_build_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("index.sketch.CHUNK", 8)
    started = threading.Event()
    real = generation.empty_vectors

    def told(*arguments, **named):
        started.set()
        time.sleep(0.2)
        return real(*arguments, **named)

    monkeypatch.setattr("index.generation.empty_vectors", told)
    d = SoftDict.open(tmp_path, encoder=ENCODER)
    d.update(SEEDS)
    assert started.wait(30)
    d.close()

    assert not [t for t in threading.enumerate() if t.name == "softdict-sketch"]
    assert not list((tmp_path / "generations").iterdir())
    with SoftDict.open(tmp_path) as d:
        agrees(d, SEEDS)
        d.settle()
        assert snapshot_of(d).sketch is not None


def test_all_files_of_an_index_are_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    sync, synced = os.fsync, set()

    def told(descriptor):
        assert not generation.folder_of(tmp_path, 1).exists()
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr("os.fsync", told)
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d.update(SEEDS)
        d.settle()
        files = list(generation.folder_of(tmp_path, d.id).iterdir())

    assert len(files) == 5 and synced == {path.stat().st_ino for path in files}


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system has no such call")
def test_room_for_the_vectors_is_taken_before_they_are_written(tmp_path):
    rows = generation.empty_vectors(tmp_path, 1, (4000, 384), half=False)
    (path,) = tmp_path.glob("generations/*/*")

    assert rows.shape == (4000, 384)
    assert path.stat().st_blocks * 512 >= path.stat().st_size > rows.nbytes


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system has no such call")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_the_file_system_takes_no_room_beforehand_a_sketch_is_made_all_the_same(
    tmp_path, monkeypatch, number
):
    def refuses(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.posix_fallocate", refuses)
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d.update(SEEDS)
        d.settle()
        assert snapshot_of(d).sketch is not None


@pytest.mark.parametrize("step", ["Codes.save", "os.posix_fallocate", "_to_disk"])
def test_a_full_disk_ends_a_build_with_a_line_in_the_log_and_leaves_nothing(
    tmp_path, monkeypatch, caplog, step
):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"index.generation.{step}", full, raising=False)
    if step == "os.posix_fallocate":  # then nothing is made that has no room
        monkeypatch.setattr("index.rebuilding.build_sketch", lambda *_, **__: pytest.fail("made"))
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d.update(SEEDS)
        d.settle()
        assert snapshot_of(d).sketch is None
        agrees(d, SEEDS)

        assert "a sketch could not be made" in caplog.text
        assert os.strerror(errno.ENOSPC) in caplog.text and "Traceback" not in caplog.text
        assert list((tmp_path / "generations").iterdir()) == []


def test_where_what_is_mapped_cannot_be_moved_a_sketch_is_made_and_not_kept(
    tmp_path, monkeypatch, caplog
):
    def refuses(self, target):
        raise PermissionError(errno.EACCES, "used by another process", str(self), None, str(target))

    with SoftDict.open(tmp_path, encoder=ENCODER) as d, monkeypatch.context() as windows:
        windows.setattr("sys.platform", "win32")
        windows.setattr(Path, "rename", refuses)
        d.update(SEEDS)
        d.settle()
        assert snapshot_of(d).sketch is not None
        del d["key 3"]
        agrees(d, {key: value for key, value in SEEDS.items() if key != "key 3"})

    assert not caplog.records and not (tmp_path / "generations").exists()
    with SoftDict.open(tmp_path) as d:
        assert len(d) == len(SEEDS) - 1


@pytest.mark.parametrize(("more", "made"), [(300 * 384 * 4, False), (300 * 384 * 4 + 128, True)])
def test_a_sketch_does_not_take_the_last_of_a_disk(tmp_path, monkeypatch, caplog, more, made):
    usage = shutil.disk_usage(tmp_path)._replace(free=SPARE + more)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d.update(SEEDS)
        d.settle()
        assert (snapshot_of(d).sketch is not None) == made
        assert (os.strerror(errno.ENOSPC) in caplog.text) == (not made)
        assert len(list((tmp_path / "generations").iterdir())) == made
        agrees(d, SEEDS)


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "no room"), MemoryError()])
def test_after_a_build_that_failed_writes_begin_none_for_a_while(tmp_path, monkeypatch, fault):
    tried = []

    def fails(*_):
        tried.append(time.monotonic())
        raise fault

    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        with monkeypatch.context() as patch:
            patch.setattr("index.generation.Codes.save", fails)
            d.update(SEEDS)
            for number in range(3):
                d.settle()
                d[f"more {number}"] = 1.0
            d.settle()
            assert len(tried) == 1
        d["another"] = 1.0
        assert not d.settling
        now = time.monotonic
        monkeypatch.setattr("index.rebuilding.time.monotonic", lambda: now() + 601)
        d["and another"] = 1.0
        d.settle()

        assert snapshot_of(d).sketch is not None


@pytest.mark.parametrize("stray", ["1.old", "1.part", "1"])
@pytest.mark.parametrize("kind", ["a file", "a link", "a pipe"])
def test_what_has_the_name_of_a_generation_is_in_no_sketch_s_way(tmp_path, stray, kind):
    with SoftDict.open(tmp_path, encoder=ENCODER) as d:
        d["first"] = 1.0
        (tmp_path / "generations").mkdir(exist_ok=True)
        place = tmp_path / "generations" / stray
        (tmp_path / "elsewhere").mkdir()
        if kind == "a file":
            place.write_text("?")
        elif kind == "a link":
            place.symlink_to(tmp_path / "elsewhere")
        else:
            os.mkfifo(place)
        for round in range(2):
            d.update({f"{round} {key}": value for key, value in SEEDS.items()})
            d.settle()

            assert snapshot_of(d).sketch is not None
            assert [each.name for each in (tmp_path / "generations").iterdir()] == ["1"]
        assert (tmp_path / "generations" / "1").is_dir()
        assert not (tmp_path / "generations" / "1").is_symlink()


def test_an_index_of_another_copy_of_the_database_is_not_served(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with SoftDict.open(first, encoder=ENCODER) as d:
        d.update(SEEDS)
        d.settle()
    shutil.copytree(first, second, ignore=shutil.ignore_patterns("generations"))
    with SoftDict.open(second) as d:  # the copy sees more changes, and others
        for number in range(5):
            d[f"key {number}"] = -1.0
        d["only there"] = 1.0
        held = dict(d)
    with SoftDict.open(first) as d:
        d.update({f"new {number}": 1.0 for number in range(100)})
        d.settle()
    shutil.copy(second / "softdict.db", first / "softdict.db")

    with SoftDict.open(first) as d:
        agrees(d, held)


@pytest.mark.parametrize("durable", [True, False])
def test_a_build_that_is_stopped_leaves_nothing(tmp_path, monkeypatch, caplog, durable):
    caplog.set_level(logging.WARNING)  # that it was not finished is a note
    d = SoftDict.open(tmp_path, encoder=ENCODER) if durable else SoftDict(encoder=ENCODER)
    real = rebuilding.build_sketch

    def stopped(*arguments, **named):
        assert not durable or list((tmp_path / "generations").iterdir()) != []
        d.stop(wait=False)
        return real(*arguments, **named)

    monkeypatch.setattr("index.rebuilding.build_sketch", stopped)
    d.update(SEEDS)
    d.settle()
    assert snapshot_of(d).sketch is None
    d.close()

    assert not durable or list((tmp_path / "generations").iterdir()) == []
    assert caplog.text == ""


def test_killing_a_build_leaves_a_store_that_opens(tmp_path):
    code = """
import sys, index.rebuilding, index.generation, time
from index import SoftDict
index.rebuilding.SKETCHED_FROM = 200
real = index.generation._checksum
def slow(path):
    print("saving", flush=True)
    time.sleep(30)
    return real(path)
index.generation._checksum = slow
d = SoftDict.open(sys.argv[1], encoder="random:1")
d.update({f"key {n}": float(n % 17) for n in range(300)})
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()

    with SoftDict.open(tmp_path) as d:
        agrees(d, SEEDS)
        d.settle()
        agrees(d, SEEDS)
    assert [folder.suffix for folder in (tmp_path / "generations").iterdir()] == [""]


def test_a_deleted_or_replaced_dataset_takes_its_index_along(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        first = catalog.create("first", encoder=ENCODER)
        first.update(SEEDS)
        first.settle()
        second = catalog.create("second", encoder=ENCODER)
        second.update(SEEDS)
        second.settle()
        catalog.delete("first")
        number = second.id
    with Catalog.open(tmp_path) as catalog:
        assert [folder.name for folder in (tmp_path / "generations").iterdir()] == [str(number)]
        agrees(catalog["second"], SEEDS)


def large(catalog: Catalog, *, if_exists: str = "error") -> SoftDict:
    rows = "".join(f"{key},{value}\n" for key, value in SEEDS.items())
    table = f"key,value\n{rows}".encode()
    csv = LoadOptions(format="csv")
    catalog.load("d", table, csv, if_exists=if_exists, encoder=ENCODER, temperature=0.1)
    return catalog["d"]


def test_an_index_goes_with_its_dataset_at_once_and_who_still_reads_it_goes_on(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        large(catalog).settle()
    with Catalog.open(tmp_path) as catalog:
        old = catalog["d"]
        agrees(old, SEEDS)
        new = large(catalog, if_exists="replace")
        new.settle()
        assert [folder.name for folder in (tmp_path / "generations").iterdir()] == [str(new.id)]
        agrees(old, SEEDS)
        agrees(new, SEEDS)

        catalog.delete("d")

        assert list((tmp_path / "generations").iterdir()) == []
        agrees(new, SEEDS)


@pytest.mark.parametrize("moment", ["empty_vectors", "save"])
def test_an_index_that_is_being_made_goes_with_its_dataset(tmp_path, monkeypatch, moment):
    reached, let_go = held_up(monkeypatch, f"generation.{moment}")
    with Catalog.open(tmp_path) as catalog:
        dataset = large(catalog)
        assert reached.wait(30)
        catalog.delete("d")
        let_go.set()
        dataset.settle()

        assert list((tmp_path / "generations").iterdir()) == []


def test_blocks_of_single_entries_are_few_and_each_at_least_twice_the_next():
    d = SoftDict(encoder=ENCODER)
    for number in range(103):
        d[f"key {number}"] = 1.0

    assert [len(block) for block in snapshot_of(d).blocks] == [64, 32, 4, 2, 1]
    d["one more"] = 1.0  # no entry of the 64 or the 32 is copied for it
    assert [len(block) for block in snapshot_of(d).blocks] == [64, 32, 8]


def test_rows_stacked_from_blocks_are_those_of_the_entries_that_are_there():
    d = SoftDict(SEEDS, encoder=ENCODER)
    d.settle()
    d.update({"one more": 1.0, "another": 2.0})
    del d["key 4"]
    snapshot = snapshot_of(d)
    rows = StackedRows(snapshot)

    present = [snapshot.keys_at(np.flatnonzero(snapshot.alive))][0]
    expected = open_encoder(ENCODER).encode(list(present))
    assert len(rows) == 301
    np.testing.assert_allclose(rows[np.arange(301)], expected, atol=1e-6)
    np.testing.assert_allclose(rows[10:20], expected[10:20], atol=1e-6)


class SketchedMachine(Machine):
    """The machine of every dictionary, on one that is sketched from sixteen keys on."""

    def open(self) -> None:
        super().open()
        more = {f"seed {number}": number for number in range(24)}
        if not self.model and not hasattr(self, "seeded"):
            self.seeded = True
            self.d.update(more)
            self.model.update(more)

    @rule()
    def settle(self) -> None:
        self.d.settle()

    @rule(numbers=st.sets(st.integers(0, 40), max_size=12))
    def update_many(self, numbers: set[int]) -> None:
        entries = {f"seed {number}": float(number) for number in sorted(numbers)}
        self.d.update(entries)
        self.model.update(entries)


@pytest.fixture(autouse=True)
def _machine_threshold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.cls is not None:
        monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 16)


TestSketchedMachine = SketchedMachine.TestCase
TestSketchedMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def test_a_start_removes_no_folder_that_is_not_its_own(tmp_path):
    """And all that is: of no dataset, or left by a process that was killed."""
    with SoftDict.open(tmp_path, encoder="random") as d:
        own = f"{d.id}.part", f"{d.id}.old"
    for name in (*own, "7", "7.part", "8.old", "photos", "7.bak", "x.old"):
        (tmp_path / "generations" / name).mkdir(parents=True)

    Catalog.open(tmp_path).close()

    left = {folder.name for folder in (tmp_path / "generations").iterdir()}
    assert left == {"photos", "7.bak", "x.old"}


def test_a_generation_of_another_database_with_as_many_writes_is_not_served(tmp_path):
    homes = tmp_path / "one", tmp_path / "other"
    with SoftDict.open(homes[0], encoder=ENCODER) as d:
        d.update(SEEDS)
        d.settle()
    shutil.copytree(*homes)
    for number, home in enumerate(homes):
        with SoftDict.open(home) as d:
            d.update({f"{number} and {key}": number for key in SEEDS})
            d.settle()

    shutil.copy(homes[1] / "softdict.db", homes[0])

    with SoftDict.open(homes[0]) as d:
        agrees(d, SEEDS | {f"1 and {key}": 1 for key in SEEDS})


@pytest.mark.usefixtures("_sampled")
def test_a_column_that_few_keys_have_is_blended_over_those_that_a_condition_leaves() -> None:
    rows = {f"key {n}": {"all": float(n), "few": None if n % 40 else float(n)} for n in range(2400)}
    left = {f"key {n}": float(n) for n in range(0, 1800, 40)}
    d = SoftDict(rows, encoder=ENCODER)
    d.settle()

    for query in left:
        answer = d.search(query, temperature=0.2, tolerance=0.3, where="all < 1800")
        assert answer.scored < 1700
        expected = oracle.mean(expected_weights(left, query, 0.2), left)
        assert answer.blend["few"].mean == pytest.approx(expected, rel=1e-4)  # type: ignore[union-attr]


@pytest.mark.usefixtures("_sampled")
def test_blends_stand_in_the_order_of_the_columns_however_they_came_about() -> None:
    rows = {f"key {n}": {"few": None if n % 40 else float(n), "all": 1.0} for n in range(2400)}
    d = SoftDict(rows, encoder=ENCODER)
    d.settle()

    answer = d.search("key 0", temperature=0.2, tolerance=0.3)

    assert answer.scored < 2300
    assert list(answer.blend) == ["few", "all"]


def test_a_moment_counts_by_each_entry_s_own_arrival_after_a_sketch_too() -> None:
    keys = [f"key {number}" for number in range(300)]
    d = SoftDict(dict.fromkeys(keys[:150], 1), encoder=ENCODER)
    between = time.time()
    time.sleep(0.01)
    d.update(dict.fromkeys(keys[150:], 2))
    d.settle()

    assert snapshot_of(d).sketch is not None
    answer = d.search("x", as_of=datetime.fromtimestamp(between, UTC), k=300, tolerance=0)
    assert {match.key for match in answer.matches} == set(keys[:150])


def test_precision_that_is_full_again_during_the_build_of_halves_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)
    reached, let_go = held_up(monkeypatch, "rebuilding.build_sketch")
    with SoftDict.open(tmp_path, encoder=ENCODER, precision="half") as d:
        d.update(SEEDS)
        assert reached.wait(30)
        d.configure(precision="full")
        let_go.set()
        d.settle()

        assert d.describe().precision_in_use == "full"
        assert d.search("x", tolerance=0).error == 0


def test_a_catalog_that_is_closed_in_the_middle_of_a_build_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, let_go = held_up(monkeypatch, "rebuilding.build_sketch")
    catalog = Catalog.open(tmp_path)
    catalog.create("d", encoder=ENCODER).update(SEEDS)
    assert reached.wait(30)
    threading.Timer(0.2, let_go.set).start()
    catalog.close()

    assert not [each for each in threading.enumerate() if each.name == "softdict-sketch"]


def test_the_first_values_of_keys_alone_may_come_during_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reached, let_go = held_up(monkeypatch, "rebuilding.build_sketch")
    with SoftDict.open(tmp_path, encoder=ENCODER, temperature=0.1) as d:
        d.load(json.dumps(list(SEEDS)).encode(), LoadOptions(format="json"))
        assert reached.wait(30)
        d.update(SEEDS)
        let_go.set()
        d.settle()

        assert "could not be made" not in caplog.text
        agrees(d, SEEDS)

"""Encoders for teaching, the worker that serves all threads, and choosing one by name."""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from index import Catalog, SoftDict, encoders, open_encoder
from index.encoders import EncoderWorker
from index.encoders.teaching import TUTORIAL, CircleEncoder, RandomEncoder
from index.errors import EncoderMismatch, EncoderUnavailable, InvalidRequest
from tests.service.running import PATIENCE

ROOT = Path(__file__).parents[1]


class Recorder:
    """An encoder that notes its batches, and fails if two threads are in it at once."""

    identity = "recorder"
    dimension = 2
    default_temperature = 0.1
    calibration = None

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.inside = threading.Lock()

    def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
        assert self.inside.acquire(blocking=False), "two threads in the encoder"
        try:
            time.sleep(0.002)
            self.batches.append(list(texts))
            if "poison" in texts:
                raise RuntimeError("poison")
            angles = [len(text) for text in texts]
            return np.array([(math.cos(a), math.sin(a)) for a in angles], np.float32)
        finally:
            self.inside.release()

    def tokens(self, text: str) -> list[str]:
        assert self.inside.acquire(blocking=False), "two threads in the tokenizer"
        time.sleep(0.001)
        self.inside.release()
        return text.split()


def expected(text: str) -> tuple[float, float]:
    return (math.cos(len(text)), math.sin(len(text)))


def encode_all(worker: EncoderWorker, texts: Sequence[str], started: threading.Event) -> None:
    for _ in worker.batches(texts):
        started.set()


def test_many_threads_share_one_encoder_and_their_queries_share_batches():
    recorder = Recorder()
    worker = EncoderWorker(recorder)
    texts = ["x" * n for n in range(1, 200)]

    def ask(text: str) -> bool:
        worker.tokens(text)
        return np.allclose(worker.encode_queries([text]), expected(text), atol=1e-6)

    with ThreadPoolExecutor(16) as pool:
        right = list(pool.map(ask, texts))

    assert all(right)
    assert sum(map(len, recorder.batches)) == len(texts)
    assert len(recorder.batches) < len(texts)  # some of them arrived together


def test_rows_come_back_in_the_order_of_the_texts():
    texts = ["x" * (1 + n * 37 % 101) for n in range(300)]

    rows = EncoderWorker(Recorder()).encode(texts)

    assert np.allclose(rows, [expected(text) for text in texts], atol=1e-6)


def test_recent_queries_are_remembered():
    recorder = Recorder()
    worker = EncoderWorker(recorder)

    (first,) = worker.encode_queries(["again"])
    second = worker.encode_queries(["again", "new", "again"])

    assert np.array_equal(first, second[0]) and np.array_equal(first, second[2])
    assert recorder.batches == [["again"], ["new"]]


ASKED = [
    lambda worker: worker.encode_queries(["urgent"]),
    lambda worker: worker.encode(["a few", "keys"]),  # of a small write
]


@pytest.mark.parametrize("ask", ASKED)
def test_a_query_and_a_small_write_overtake_a_bulk_load(ask):
    recorder = Recorder()
    worker = EncoderWorker(recorder)
    started = threading.Event()
    bulk = threading.Thread(target=encode_all, args=(worker, ["x" * 5] * 6400, started))
    bulk.start()
    started.wait(10)

    ask(worker)

    behind = len(recorder.batches)
    bulk.join()
    assert behind < len(recorder.batches)  # the load was still running
    assert len(recorder.batches) == 101


def test_a_fault_reaches_the_one_who_asked_and_the_worker_goes_on():
    worker = EncoderWorker(Recorder())

    with pytest.raises(RuntimeError, match="poison"):
        worker.encode_queries(["poison"])

    assert np.allclose(worker.encode_queries(["fine"]), expected("fine"), atol=1e-6)


def poisoned(texts: Sequence[str]) -> None:
    raise RuntimeError("poison")


@pytest.mark.parametrize("spoil", [poisoned, lambda texts: np.zeros((len(texts), 5))])
def test_a_fault_of_one_text_reaches_none_of_those_whose_texts_came_with_it(spoil):
    class Spoiled(Recorder):
        def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
            if texts == ["first"]:
                begun.set()
                assert go_on.wait(PATIENCE)
            rows = super().encode([text.strip("!") for text in texts], kind=kind)
            return spoil(texts) if "bad!" in texts else rows

    recorder, begun, go_on = Spoiled(), threading.Event(), threading.Event()
    worker = EncoderWorker(recorder)
    texts = [*map(str, range(6)), "bad!", *map(str, range(6, 12))]
    with ThreadPoolExecutor(14) as pool:
        first = pool.submit(worker.encode_queries, ["first"])
        assert begun.wait(PATIENCE)
        asked = [pool.submit(worker.encode_queries, [text]) for text in texts]
        while len(worker._urgent) < len(texts):
            time.sleep(0.001)
        go_on.set()

    assert len(recorder.batches[1]) == len(texts)  # they came together
    faults = [text for text, row in zip(texts, asked, strict=True) if row.exception()]
    assert faults == ["bad!"] and first.exception() is None
    for text, row in zip(texts, asked, strict=True):
        if text != "bad!":
            assert np.allclose(row.result(), expected(text), atol=1e-6)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows * 5, "rows of length 5,"),
        (lambda rows: rows * np.nan, "rows of length nan,"),
        (lambda rows: rows[:1], r"an array of shape \(1, 2\)"),
        (lambda rows: np.hstack([rows, rows]), r"an array of shape \(3, 4\)"),
        (lambda rows: rows[:, :1], r"an array of shape \(3, 1\)"),
        (lambda rows: None, r"an array of shape \(\)"),
        (lambda rows: [rows[0], rows[1][:1], rows[2]], "a list that makes no array"),
        (lambda rows: {"embeddings": rows}, "a dict that makes no array"),
    ],
)
def test_rows_that_are_no_unit_rows_of_the_texts_are_refused(spoil, words):
    class Spoiled(Recorder):
        def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
            return spoil(super().encode(texts, kind=kind))

    with pytest.raises(InvalidRequest, match=f"^encoder: .recorder. gave {words}"):
        SoftDict({"a": 1, "bb": 2, "ccc": 3}, encoder=Spoiled())


def test_rows_of_any_kind_of_float_and_without_direction_are_taken():
    class Rounded(Recorder):
        def encode(self, texts: Sequence[str], *, kind: str = "passage") -> list[list[float]]:
            rows = super().encode(texts, kind=kind).astype(np.float16)
            rows[[text == "0" for text in texts]] = 0  # as where no word of a text is known
            return rows.tolist()

    d = SoftDict({"a": 1, "bb": 2, "ccc": 3}, encoder=Rounded())

    assert d.search("bb").matches[0].key == "bb"
    assert [match.score for match in d.search("0").matches] == [0, 0, 0]


def test_rows_off_by_a_little_are_brought_to_unit_length():
    class Uneven(Recorder):
        def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
            lengths = np.array([{"a": 1.009, "b": 0.991}.get(text, 1.0) for text in texts])
            rows = np.tile(np.array([0.6, 0.8], np.float32), (len(texts), 1))
            return rows * lengths[:, None].astype(np.float32)

    d = SoftDict({"a": 1, "b": 2}, encoder=Uneven(), temperature=0.01)

    matches = d.search("q").matches
    assert [match.score for match in matches] == pytest.approx([1, 1], abs=1e-6)
    assert [match.weight for match in matches] == pytest.approx([0.5, 0.5], abs=1e-4)


def test_closing_ends_the_thread_and_refuses_what_waits_and_what_comes():
    before = set(threading.enumerate())
    worker = EncoderWorker(Recorder())
    started = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        bulk = pool.submit(encode_all, worker, ["x"] * 64_000, started)
        assert started.wait(10)
        worker.close()

        assert isinstance(bulk.exception(10), EncoderUnavailable)
    assert set(threading.enumerate()) <= before  # of these, other tests' may end
    with pytest.raises(EncoderUnavailable, match="closed"):
        worker.encode_queries(["late"])
    worker.close()  # once more is nothing


def test_closing_waits_for_one_step_and_for_no_further_one():
    class Stepping(Recorder):
        def steps(self, texts: Sequence[str], *, kind: str = "passage"):
            for place, text in enumerate(texts):
                yield [place], self.encode([text])

    recorder = Stepping()
    worker = EncoderWorker(recorder)
    with ThreadPoolExecutor(1) as pool:
        bulk = pool.submit(worker.encode, ["x"] * 1_000)
        while not recorder.batches:
            time.sleep(0.001)
        worker.close()

        assert isinstance(bulk.exception(10), EncoderUnavailable)
    assert 0 < len(recorder.batches) < 1_000


def test_steps_that_leave_texts_out_are_a_fault_of_the_encoder():
    class Forgetful(Recorder):
        def steps(self, texts: Sequence[str], *, kind: str = "passage"):
            yield [0], self.encode(texts[:1])

    texts = [f"text {number}" for number in range(900)]
    with pytest.raises(InvalidRequest, match="gave rows of 1 texts, asked for "):
        EncoderWorker(Forgetful()).encode(texts)


def test_what_an_encoder_calls_steps_may_be_something_else():
    recorder = Recorder()
    recorder.steps = ["tokenize", "embed"]
    texts = [f"text {number}" for number in range(900)]

    made = EncoderWorker(recorder).encode(texts)

    assert np.allclose(made, [expected(text) for text in texts], atol=1e-6)


@pytest.mark.parametrize("spec", ["builtin", "random", "circle"])
def test_half_a_surrogate_pair_is_read_as_a_question_mark(spec):
    worker = open_encoder(spec)

    halves, marks = (worker.encode([f"perro {sign}", sign]) for sign in ("\ud83d", "?"))

    assert np.allclose(halves, marks, atol=1e-5)
    assert np.allclose(worker.encode_queries(["\udc15"]), marks[1], atol=1e-5)
    assert worker.tokens("perro \ud83d") == worker.tokens("perro ?")
    assert SoftDict({"a": 1}, encoder=spec).search("\ud83d").value == 1


def test_nothing_to_encode_gives_no_rows():
    assert EncoderWorker(Recorder()).encode([]).shape == (0, 2)
    assert EncoderWorker(Recorder()).encode_queries([]).shape == (0, 2)


def test_random_rows_are_unit_fixed_and_almost_orthogonal():
    rows = RandomEncoder(3).encode(["a", "b", "a"])

    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.array_equal(rows[0], rows[2])
    assert abs(float(rows[0] @ rows[1])) < 0.25
    assert not np.array_equal(rows[0], RandomEncoder(4).encode(["a"])[0])


def test_the_circle_keeps_the_last_place_of_a_repeated_word():
    rows = CircleEncoder().encode(["EL", "perro"])

    last = len(TUTORIAL) - 1 - TUTORIAL[::-1].index("EL")
    for row, place in zip(rows, (last, 1), strict=True):
        angle = 2 * math.pi * place / 11
        assert row.tolist() == pytest.approx([math.cos(angle), math.sin(angle)], abs=1e-6)


def test_the_tutorials_weights_come_out_of_the_whole_product():
    """Query PERRO over PERRO, TIENE, PELO, scores divided by 3."""
    d = SoftDict({"PERRO": "DOG", "TIENE": "HAS", "PELO": "HAIR"}, encoder="circle", temperature=3)

    answer = d.search("PERRO")

    weights = {match.value: match.weight for match in answer.matches}
    assert weights == pytest.approx(
        {"DOG": 0.37996893, "HAS": 0.3603854, "HAIR": 0.25964567}, abs=1e-6
    )
    assert answer.value == "DOG"


@pytest.mark.parametrize(
    "spec", ["nothing", "st:", "builtin:", "builtin:x", "random:x", "random:" + "9" * 5000, ""]
)
def test_an_unknown_encoder_is_refused_by_name(spec):
    with pytest.raises(InvalidRequest) as refused:
        open_encoder(spec)

    assert repr(spec) in str(refused.value) or "seed" in str(refused.value)


def test_what_is_no_encoder_is_refused_before_anything_is_written(tmp_path):
    class Halfway:
        identity, dimension, default_temperature = "", 2.5, math.nan
        calibration = None
        encode = tokens = RandomEncoder.tokens

    with pytest.raises(InvalidRequest, match=r"^encoder: 5 is none: it lacks identity, dimension"):
        SoftDict(encoder=5)
    with pytest.raises(InvalidRequest) as refused:
        SoftDict(encoder=Halfway())
    assert [fault.message.split(" is ")[0] for fault in refused.value.faults] == [
        "its identity", "its dimension", "its default_temperature",
        'its encode takes texts and their kind, as encode(["a"], kind="query")',
    ]  # fmt: skip
    with pytest.raises(InvalidRequest, match="is a class: give an object of it"):
        SoftDict(encoder=RandomEncoder)
    wrong = RandomEncoder()
    for given in ({"bias": 1.0}, 0.5, {"top": "9"}, {"top": math.nan}, {"top": 9, "many_keys": 0}):
        wrong.calibration = given
        with pytest.raises(InvalidRequest, match="its calibration is None, or numbers of interc"):
            SoftDict(encoder=wrong)
    wrong.calibration = {"top": 9, "most_keys": 1}
    assert SoftDict({"a": 1, "b": 2}, encoder=wrong).search("a").confidence > 0.5

    own = RandomEncoder(7)
    with pytest.raises(InvalidRequest, match="an encoder of yours is for a SoftDict in memory"):
        SoftDict.open(tmp_path / "new", encoder=own)
    assert not (tmp_path / "new").exists()
    with Catalog.open(tmp_path) as catalog, pytest.raises(InvalidRequest, match="by name"):
        catalog.create("a", encoder=own)
    with SoftDict({"a": 1}, encoder=own) as d:
        with pytest.raises(InvalidRequest, match="by name"):
            d.reencode(own)
        d.reencode("random:8")
        d.reencode("random:7")  # its own goes by its identity
        assert d.encoder.identity == own.identity


def test_a_model_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(EncoderUnavailable, match="there is no folder"):
        open_encoder(f"st:{tmp_path}/no-such-model")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100_000])


def garbage(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\n")


@pytest.mark.parametrize("harm", [Path.unlink, cut, garbage])
@pytest.mark.parametrize("name", ["model.safetensors", "body.onnx", "tokenizer.json"])
def test_a_built_in_encoder_that_is_not_whole_is_unavailable(tmp_path, monkeypatch, name, harm):
    for path in encoders.BUILTIN.iterdir():
        if path.is_file() and path.name != name:
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(encoders.BUILTIN / name, tmp_path)
    harm(tmp_path / name)
    monkeypatch.setattr(encoders, "BUILTIN", tmp_path)
    monkeypatch.setattr(encoders, "_open", {})

    with pytest.raises(EncoderUnavailable, match="copy data/encoder anew") as refused:
        open_encoder("builtin")

    assert str(tmp_path) in str(refused.value)
    assert harm is not Path.unlink or name in str(refused.value)


@pytest.mark.parametrize("card", ["", "[]", "{}", '{"sha256": 5}'])
def test_a_built_in_encoder_whose_card_cannot_be_read_is_unavailable(tmp_path, monkeypatch, card):
    shutil.copytree(encoders.BUILTIN, tmp_path, dirs_exist_ok=True, copy_function=os.symlink)
    (tmp_path / "softdict.json").unlink()
    (tmp_path / "softdict.json").write_text(card)
    monkeypatch.setattr(encoders, "BUILTIN", tmp_path)
    monkeypatch.setattr(encoders, "_open", {})

    with pytest.raises(EncoderUnavailable, match="copy data/encoder anew"):
        open_encoder("builtin")


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension": 383},
        {"dimension": "wide"},
        {"temperature": None},
        {"confidence": {"many_keys": 0}},
    ],
)
def test_a_built_in_encoder_that_is_not_what_its_card_says_is_unavailable(
    tmp_path, monkeypatch, wrong
):
    shutil.copytree(encoders.BUILTIN, tmp_path, dirs_exist_ok=True, copy_function=os.symlink)
    card = json.loads((tmp_path / "softdict.json").read_text("utf-8"))
    (tmp_path / "softdict.json").unlink()
    (tmp_path / "softdict.json").write_text(json.dumps({**card, **wrong}))
    monkeypatch.setattr(encoders, "BUILTIN", tmp_path)
    monkeypatch.setattr(encoders, "_open", {})

    with pytest.raises(EncoderUnavailable, match="copy data/encoder anew"):
        open_encoder("builtin")


def test_one_encoder_per_name_and_process():
    assert open_encoder("random:9") is open_encoder("random:9")


def test_an_encoder_that_is_open_is_given_while_another_is_being_opened():
    worker = open_encoder("random:9")

    with ThreadPoolExecutor(1) as pool, encoders._opening:  # as while a model is loaded
        assert pool.submit(open_encoder, "random:9").result(10) is worker


def test_a_signal_s_handler_may_open_an_encoder_while_that_is_being_opened(monkeypatch):
    handled, load = [], encoders._load

    def interrupted(spec):
        monkeypatch.setattr(encoders, "_load", load)
        handled.append(open_encoder(spec))
        return load(spec)

    monkeypatch.setattr(encoders, "_load", interrupted)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(open_encoder, "random:1109").result(10) is handled[0]


def test_encoders_of_many_seeds_leave_neither_threads_nor_memory_behind(monkeypatch):
    monkeypatch.setattr("index.encoders.worker.IDLE", 0.01)
    before, workers = threading.active_count(), []
    for seed in range(30):
        d = SoftDict({"a": 1, "b": 2}, encoder=f"random:{1000 + seed}", temperature=0.01)
        assert d.search("b", k=1).matches[0].key == "b"
        workers.append(weakref.ref(d.encoder))
    del d
    deadline = time.monotonic() + 60

    while threading.active_count() > before or any(worker() for worker in workers):
        assert time.monotonic() < deadline
        gc.collect()


def test_an_encoder_whose_thread_ended_for_want_of_work_goes_on_when_asked(monkeypatch):
    monkeypatch.setattr("index.encoders.worker.IDLE", 0.0)
    worker = EncoderWorker(Recorder())
    with ThreadPoolExecutor(4) as pool:  # between an end and a start, no text may be lost
        texts = ["x" * (1 + number % 7) for number in range(200)]
        rows = list(pool.map(lambda text: worker.encode([text])[0], texts, timeout=60))

    assert np.allclose(rows, [expected(text) for text in texts], atol=1e-6)
    worker.close()


def test_a_dictionary_may_bring_its_own_encoder():
    d = SoftDict({"aa": 1, "bbb": 2}, encoder=Recorder(), temperature=0.01)

    assert d.search("zzz").matches[0].key == "bbb"


def test_a_dimension_of_numpy_is_taken_as_one_of_python():
    class Wide(Recorder):
        dimension = np.int64(2)

    d = SoftDict({"aa": 1, "bbb": 2}, encoder=Wide(), temperature=0.01)

    assert d.search("zzz").matches[0].key == "bbb"


def test_vectors_of_another_encoder_are_refused_with_the_command_that_helps(tmp_path):
    with SoftDict.open(tmp_path, encoder="random:1") as d:
        d["a"] = 1
        d._moments.store.set_encoder(d.id, "random:2", "random:1", 384)
    with SoftDict.open(tmp_path) as d:
        with pytest.raises(EncoderMismatch, match="reencode dictionary") as refused:
            d.search("a")
        assert (refused.value.stored, refused.value.opened) == ("random:1", "random:2")
        with pytest.raises(EncoderMismatch):
            d["b"] = 2
        assert dict(d) == {"a": 1}  # exact lookups need no encoder

        d.reencode()

        assert d.search("a").matches[0].score == pytest.approx(1, abs=1e-6)
    with SoftDict.open(tmp_path) as d:
        assert d.search("a").matches[0].score == pytest.approx(1, abs=1e-6)
        assert d.describe().encoder == "random:2"


def test_what_is_written_while_keys_are_encoded_anew_does_not_wait_and_is_not_lost(tmp_path):
    with SoftDict.open(tmp_path, encoder="random:1") as d:
        d.update({"a": 1, "b": 2, "c": 3})
        calls = []

        def tell(progress):
            calls.append(progress)
            if len(calls) == 1:
                for write in (lambda: d.put("new", 4), lambda: d.pop("b")):
                    writer = threading.Thread(target=write)
                    writer.start()
                    writer.join(30)
                    assert not writer.is_alive()

        d.reencode("random:2", progress=tell)

        assert dict(d) == {"a": 1, "c": 3, "new": 4}
    with SoftDict.open(tmp_path) as d:
        for key in d:  # the vectors are those of random:2: a key finds itself
            assert d.search(key).matches[0].key == key
            assert d.search(key).matches[0].score == pytest.approx(1, abs=1e-6)


def test_only_other_weights_of_the_built_in_encoder_make_a_dataset_outdated(tmp_path):
    with SoftDict.open(tmp_path) as d:
        assert not d.outdated  # it holds nothing yet
        d["a"] = 1
        assert not d.outdated
        d._moments.store.set_encoder(d.id, "builtin", "builtin:000000000000", 384)
    with SoftDict.open(tmp_path) as d:
        assert d.outdated
        d.reencode()
        assert not d.outdated
        d._moments.store.set_encoder(d.id, "random:2", "random:1", 384)
    with SoftDict.open(tmp_path) as d:
        assert not d.outdated


class Stepper(Recorder):
    """A recorder that works in steps of ten texts, for bulk work and a query at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = threading.Semaphore(2)  # no third thread
        self.stepping, self.go_on = threading.Event(), threading.Event()

    def steps(self, texts, *, kind="passage"):
        for start in range(0, len(texts), 10):
            places = list(range(start, min(start + 10, len(texts))))
            self.stepping.set()
            assert self.go_on.wait(PATIENCE)
            yield places, self.encode([texts[place] for place in places], kind=kind)


@pytest.mark.parametrize("ask", ASKED)
def test_nobody_waits_for_a_step_of_bulk_work(ask):
    stepper = Stepper()
    worker = EncoderWorker(stepper)
    texts = [f"text {number}" for number in range(900)]
    with ThreadPoolExecutor(2) as pool:
        bulk = pool.submit(worker.encode, texts)
        assert stepper.stepping.wait(PATIENCE)

        try:
            pool.submit(ask, worker).result(PATIENCE)
            assert not bulk.done()
        finally:
            stepper.go_on.set()

        assert np.allclose(bulk.result(PATIENCE), [expected(text) for text in texts], atol=1e-6)
    worker.close()


class Prompted:
    """Reads a number as an angle in degrees; a question, as one beyond it by 90."""

    identity, dimension, default_temperature, calibration = "prompted", 2, 0.1, None

    def encode(self, texts: Sequence[str], *, kind: str = "passage") -> np.ndarray:
        turned = {"passage": 0, "query": 90}[kind]
        angles = np.radians([float(text) + turned for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def tokens(self, text: str) -> list[str]:
        return [text]


class PromptedStepper(Prompted):
    def steps(self, texts, *, kind="passage"):
        for place, text in enumerate(texts):
            yield [place], self.encode([text], kind=kind)


@pytest.mark.parametrize("encoder", [Prompted, PromptedStepper])
@pytest.mark.parametrize("count", [1, 500])  # what goes ahead, and bulk work
@pytest.mark.parametrize(("named", "turned"), [({}, 0), ({"kind": "query"}, 90)])
def test_the_kind_that_is_asked_for_is_that_of_every_row(encoder, count, named, turned):
    worker = EncoderWorker(encoder())
    texts = [str(number) for number in range(count)]
    angles = [math.radians(number + turned) for number in range(count)]

    assert worker.encode(texts, **named) == pytest.approx(
        np.array([(math.cos(a), math.sin(a)) for a in angles]), abs=1e-6
    )
    worker.close()


@pytest.mark.parametrize("encoder", [Prompted, PromptedStepper])
def test_keys_and_questions_are_told_apart_however_they_come(encoder):
    d = SoftDict({"0": 1}, encoder=encoder())
    d["30"] = 2
    d.update({"60": 3})
    d.load(("key,value\n" + "".join(f"{100 + n / 2},4\n" for n in range(500))).encode())
    queries = ["0", "-45", "60", "10", "0"]

    answers = [d.search(queries[0], k=600), *d.search_many(queries[1:], k=600)]
    answers.append(d.compare("0", k=600).soft)
    for query, answer in zip([*queries, "0"], answers, strict=True):
        expected = {key: math.cos(math.radians(float(query) + 90 - float(key))) for key in d}
        assert len(answer.matches) == 503
        found = {match.key: match.score for match in answer.matches}
        assert found == pytest.approx(expected, abs=1e-6)


def test_bulk_work_comes_step_by_step_and_may_be_left_after_any():
    stepper = Stepper()
    stepper.go_on.set()
    worker = EncoderWorker(stepper)
    texts = [f"text {number}" for number in range(900)]

    for places, rows in worker.batches(texts):
        assert np.allclose(rows, [expected(texts[place]) for place in places], atol=1e-6)
        break

    assert len(places) == 10 and len(stepper.batches) == 1
    worker.close()


ENDED = """
import threading
from index import open_encoder
encoder, begun = open_encoder(), threading.Event()
def load():
    for _ in encoder.batches([f"number {each} of many" for each in range(9_000)]):
        begun.set()
threading.Thread(target=load, daemon=True).start()
begun.wait()
"""


def test_a_process_ends_in_order_while_a_daemon_of_its_own_takes_steps():
    """Native code that Python has left aborts the process, now and then: so three times."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", ENDED],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

        assert done.returncode == 0, done.stderr


def test_a_fault_in_a_step_reaches_the_one_who_asked():
    stepper = Stepper()
    stepper.go_on.set()
    worker = EncoderWorker(stepper)
    with pytest.raises(RuntimeError, match="poison"):
        worker.encode(["poison", *["b"] * 100])

    assert np.allclose(worker.encode(["fine"])[0], expected("fine"), atol=1e-6)


def test_a_dictionary_ends_the_thread_of_an_encoder_of_ones_own_and_no_others():
    shared = EncoderWorker(RandomEncoder(3))
    earlier = set(threading.enumerate())
    shared.encode(["a"])  # begins its thread
    before = set(threading.enumerate())
    (serving,) = before - earlier

    for given in (RandomEncoder(4), shared):
        with SoftDict({"a": 1}, encoder=given) as d:
            assert d.search("a").matches[0].key == "a"

    assert set(threading.enumerate()) <= before  # of these, other tests' may end
    assert serving.is_alive()
    assert len(shared.encode_queries(["a"])) == 1
    shared.close()


FORKED = """
import os, sys
from index import SoftDict, encoders
from index.encoders.teaching import RandomEncoder
from index.errors import EncoderUnavailable
spec = sys.argv[1]
d = SoftDict({"a": 1, "b": 2}, encoder=RandomEncoder(7) if spec == "own" else spec)
d.search("a")  # the encoder's thread waits for more
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    print(d["b"], d.search("b", k=1).matches[0].key, flush=True)
except EncoderUnavailable as fault:
    print(fault, flush=True)
os._exit(0)
"""


FORKED_TO_THE_END = """
import os, sys
from index import open_encoder
encoder = open_encoder("builtin")
encoder.encode([f"a text {i}" for i in range(300)])  # its session has threads that wait for more
if sys.argv[1] == "let go":
    del encoder
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(open_encoder("builtin").encode_queries(["a"]).shape, flush=True)
sys.exit(7)  # so that all that it has is freed
"""


@pytest.mark.parametrize("encoder", ["held", "let go"])
def test_a_forked_process_ends_though_the_encoders_threads_stayed_in_the_other(encoder):
    forked = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED_TO_THE_END, encoder]

    done = subprocess.run(forked, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)

    assert (done.returncode, done.stdout) == (7, "(1, 384)\n"), done.stderr


@pytest.mark.parametrize(
    ("spec", "said"),
    [("random:7", "2 b"), ("builtin", "2 b"), ("own", "this process was forked from the one")],
)
def test_a_forked_process_opens_an_encoder_anew_or_says_why_it_cannot(spec, said):
    forked = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, spec]

    done = subprocess.run(forked, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)

    assert done.stdout.startswith(said), done.stderr
    assert done.returncode == 0

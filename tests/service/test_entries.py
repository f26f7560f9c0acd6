"""Entries: a page of them, and one by its exact key."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from operator import delitem
from typing import TypeVar

import pytest

from index import SoftDict
from index.answers import Entry
from index.moments import Moments
from index.snapshot import Place, Snapshot
from service.runtime import Runtime
from tests.service.checked import CheckedClient
from tests.service.conftest import COUNTRIES, Make
from tests.service.running import PATIENCE

Result = TypeVar("Result")


def test_get_looks_up_exactly(client: CheckedClient) -> None:
    entry = client.get("/datasets/paises/entries/méxico").get_json()

    assert (entry["key"], entry["values"]) == ("méxico", {"value": 7})
    catalog = client.application.extensions["softdict"].catalog
    assert entry["arrived"] == catalog["paises"].entry("méxico").arrived > 1.7e9


def test_put_answers_201_for_a_new_key_and_200_for_an_old_one(client: CheckedClient) -> None:
    path = "/datasets/paises/entries/chile"
    new = client.put(path, json={"values": {"value": 6}})
    old = client.put(path, json={"values": {"value": 6.5}})

    assert (new.status_code, new.get_json()["values"]) == (201, {"value": 6})
    assert (old.status_code, old.get_json()["values"]) == (200, {"value": 6.5})
    assert client.get(path).get_json()["values"] == {"value": 6.5}
    assert client.get("/datasets/paises").get_json()["entries"] == len(COUNTRIES) + 1


@pytest.mark.parametrize("body", [6, None, {"values": 6}, {"values": None}])
def test_put_takes_a_bare_value_where_there_is_one_column(
    client: CheckedClient, body: object
) -> None:
    sent = {"data": json.dumps(body), "content_type": "application/json"}
    values = client.put("/datasets/paises/entries/chile", **sent).get_json()["values"]

    assert values == {"value": body["values"] if isinstance(body, dict) else body}


def test_put_takes_a_vector(client: CheckedClient) -> None:
    reply = client.put("/datasets/colores/entries/gris", json=[128, 128, 128])

    assert reply.get_json()["values"] == {"value": [128, 128, 128]}


def test_put_refuses_a_value_of_another_type(client: CheckedClient) -> None:
    reply = client.put("/datasets/paises/entries/chile", json="seis")

    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/wrong-value")
    (fault,) = reply.get_json()["errors"]
    assert reply.get_json()["detail"] == f"column 'value': {fault['message']}"
    assert (fault["where"], fault["message"]) == ("values.value", "'seis' is text, not a number")
    assert client.get("/datasets/paises/entries/chile").status_code == 404


@pytest.mark.parametrize("value", [True, [1, True], {"deep": {"er": 1}}, [[1]]])
@pytest.mark.parametrize("dataset", ["paises", "colores"])
def test_put_refuses_what_the_column_cannot_hold(
    client: CheckedClient, dataset: str, value: object
) -> None:
    body = {"values": {"value": value}}

    assert list(client.faults("PUT", f"/datasets/{dataset}/entries/x", json=body)) == [
        "values.value"
    ]


def test_put_names_every_unknown_column(client: CheckedClient) -> None:
    body = {"values": {"value": 1, "valor": 2, "precio": 3}}

    assert set(client.faults("PUT", "/datasets/paises/entries/x", json=body)) == {
        "values.valor",
        "values.precio",
    }


@pytest.mark.parametrize("spelled", ["7", "5,20 €", " 1.5 kg", "293.642"])
def test_put_says_how_to_write_a_number_that_is_spelled(
    client: CheckedClient, spelled: str
) -> None:
    faults = client.faults("PUT", "/datasets/paises/entries/chile", json=spelled)

    assert faults == {
        "values.value": (
            f"{spelled!r} is text, not a number; write it without quotes and unit, "
            "with a point before decimals and no other mark"
        )
    }


def test_a_value_is_not_given_twice_in_two_spellings_of_its_column(make: Make) -> None:
    client = make()
    client.post("/datasets", json={"name": "d", "entries": [{"key": "a", "ñ": 1}]})
    twice = {"values": {"\u00f1": 2, "n\u0303": 3}}

    said = "named twice, in another spelling of its accents"
    assert client.faults("PUT", "/datasets/d/entries/a", json=twice) == {"values.ñ": said}
    assert client.get("/datasets/d/entries/a").get_json()["values"] == {"ñ": 1}
    columns = {"\u00f1": "text", "n\u0303": "number"}
    again = {"name": "e", "entries": [{"key": "a", "ñ": 1}], "columns": columns}
    assert client.faults("POST", "/datasets", json=again) == {"columns": f"'ñ' is {said}"}


def test_the_length_of_a_key_is_that_of_its_letters_composed(make: Make) -> None:
    client = make(max_key=5)
    client.post("/datasets", json={"name": "d", "entries": {"a": 1}})
    there, beyond = ("e\u0301" * count for count in (5, 6))

    assert client.put(f"/datasets/d/entries/{there}", json=2).get_json()["key"] == "é" * 5
    assert client.delete(f"/datasets/d/entries/{there}").status_code == 204
    assert list(client.faults("PUT", f"/datasets/d/entries/{beyond}", json=2)) == ["key"]


def test_put_names_every_fault_of_its_values(make: Make) -> None:
    client = make()
    table = {"a": {"price": 1, "tax": 2, "tag": True}, "c": {"tag": True}}
    client.post("/datasets", json={"name": "d", "entries": table})

    sent = {"values": {"price": True, "tax": {"a": 1}, "tags": 3}}
    reply = client.put("/datasets/d/entries/b", json=sent)

    assert reply.status_code == 422
    assert [fault["where"] for fault in reply.get_json()["errors"]] == [
        "values.price", "values.tax", "values.tags",
    ]  # fmt: skip
    taken = client.put("/datasets/d/entries/b", json={"values": {"tag": False}})
    assert taken.get_json()["values"]["tag"] == "false"  # as a load takes it


def test_delete_removes_one_key(client: CheckedClient) -> None:
    deleted = client.delete("/datasets/paises/entries/perro")

    assert (deleted.status_code, deleted.data) == (204, b"")
    assert client.get("/datasets/paises/entries/perro").status_code == 404
    assert client.get("/search?q=perro").get_json()["attention"]["keys"] == len(COUNTRIES) - 1


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_key_that_is_not_there_is_a_problem(client: CheckedClient, method: str) -> None:
    reply = client.open("/datasets/paises/entries/nadie", method=method)

    assert (reply.status_code, reply.get_json()["type"]) == (404, "/problems/unknown-entry")


def test_a_blank_key_cannot_be_put(client: CheckedClient) -> None:
    for path in ("/datasets/paises/entries/", "/datasets/paises/entries/%20"):
        reply = client.put(path, json=1)
        assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/invalid-key")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/datasets/paises/entries/chile", {"values": 6}, 201),
        ("DELETE", "/datasets/paises/entries/perro", None, 204),
        ("PATCH", "/datasets/paises", {"temperature": 0.5}, 200),
        ("DELETE", "/datasets/paises", None, 204),
    ],
)
def test_a_write_goes_to_the_dataset_that_takes_the_place_of_another_meanwhile(
    client: CheckedClient,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    body: object,
    status: int,
) -> None:
    found = Runtime.dataset

    def other_request(self: Runtime, name: str | None = None) -> SoftDict:
        monkeypatch.setattr(Runtime, "dataset", found)
        dataset = found(self, name)
        table = {"name": "paises", "entries": {"perro": 1}, "if_exists": "replace"}
        assert client.post("/datasets", json=table).status_code == 201
        return dataset

    monkeypatch.setattr(Runtime, "dataset", other_request)
    written = client.open(path, method=method, json=body)

    assert written.status_code == status, written.text
    assert client.get(path).status_code == (404 if method == "DELETE" else 200)


@pytest.mark.parametrize(
    "path",
    [
        "/datasets/paises",
        "/datasets/paises/entries",
        "/datasets/paises/entries/chile",
        "/datasets/paises/export?format=jsonl",
        "/search?dataset=paises&q=chile",
        "/compare?dataset=paises&q=chile",
    ],
)
def test_a_dataset_that_is_replaced_before_it_was_read_is_answered_for_by_the_new_one(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    catalog = client.application.extensions["softdict"].catalog
    unread = SoftDict.stored(catalog._store, catalog._store.record(catalog["paises"].id))
    monkeypatch.setattr(catalog, "_datasets", {"paises": unread})  # as after a start
    read = Moments._read

    def other_request(self: Moments) -> object:
        monkeypatch.setattr(Moments, "_read", read)
        table = {"name": "paises", "entries": {"chile": 1}, "if_exists": "replace"}
        assert client.post("/datasets", json=table).status_code == 201
        return read(self)

    monkeypatch.setattr(Moments, "_read", other_request)
    reply = client.get(path)

    assert reply.status_code == 200, reply.text
    assert ("chile" in reply.text) == (path != "/datasets/paises")
    assert "perro" not in reply.text


def test_a_put_answers_with_what_it_wrote_whatever_happens_meanwhile(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = SoftDict._put

    def then_deleted(self: SoftDict, given: Mapping[str, object]) -> object:
        done = put(self, given)
        for key in given:
            in_thread(lambda key=key: delitem(self, key))  # type: ignore[misc]
        return done

    monkeypatch.setattr(SoftDict, "_put", then_deleted)
    reply = client.put("/datasets/paises/entries/chile", json=6)

    assert reply.status_code == 201, reply.text
    assert reply.get_json()["values"] == {"value": 6}
    assert client.get("/datasets/paises/entries/chile").status_code == 404


def test_entries_come_in_pages_and_in_order(client: CheckedClient) -> None:
    first = client.get("/datasets/paises/entries?limit=3").get_json()
    rest = client.get(f"/datasets/paises/entries?limit=3&after={first['next']}").get_json()
    whole = client.get("/datasets/paises/entries?limit=4").get_json()

    keys = [entry["key"] for entry in first["entries"] + rest["entries"]]
    assert keys == list(COUNTRIES)
    assert (first["total"], first["next"], rest["next"], whole["next"]) == (4, 3, None, None)


def test_pages_go_on_where_the_last_one_ended_whatever_came_and_went(make: Make) -> None:
    client = make()
    entries = {f"key {number}": number for number in range(20)}
    client.post("/datasets", json={"name": "d", "entries": entries})
    for number in (2, 19):
        client.delete(f"/datasets/d/entries/key {number}")
        del entries[f"key {number}"]
    for key in ("new", "newer", "newest"):
        client.put(f"/datasets/d/entries/{key}", json=7)
        entries[key] = 7
    held = client.application.extensions["softdict"].catalog["d"]._snapshot
    found, after = [], 0
    while after is not None:
        page = client.get(f"/datasets/d/entries?limit=4&after={after}").get_json()
        found += [(entry["key"], entry["values"]["value"]) for entry in page["entries"]]
        after = page["next"]

    assert found == [*entries.items()]
    assert len(held.blocks) > 1


def test_a_page_and_its_total_are_of_one_moment(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Snapshot.__len__

    def then_written(self: Snapshot) -> int:
        monkeypatch.setattr(Snapshot, "__len__", count)
        client.put("/datasets/paises/entries/chile", json=6)
        return count(self)

    client.get("/datasets/paises/entries/perro")  # so that none is read for the first time
    monkeypatch.setattr(Snapshot, "__len__", then_written)
    page = client.get("/datasets/paises/entries").get_json()

    assert len(page["entries"]) == page["total"]


def test_the_entries_before_a_page_are_not_read(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    entry = Snapshot.entry

    def noted(self: Snapshot, place: Place) -> Entry:
        found = entry(self, place)
        read.append(found.key)
        return found

    monkeypatch.setattr(Snapshot, "entry", noted)
    client.get("/datasets/paises/entries?after=2&limit=1")

    assert read == ["inglaterra"]


def test_a_page_beyond_the_end_is_empty(client: CheckedClient) -> None:
    page = client.get("/datasets/paises/entries?after=9").get_json()

    assert (page["entries"], page["total"], page["next"]) == ([], 4, None)


@pytest.mark.parametrize("after", [-1, 10**12 + 1, 10**20])
def test_a_page_begins_within_reason(client: CheckedClient, after: int) -> None:
    assert list(client.faults("GET", f"/datasets/paises/entries?after={after}")) == ["after"]


def test_writes_that_wait_leave_threads_to_questions_and_end_as_busy(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.PLACE_WAIT", 0.01)
    monkeypatch.setattr("service.runtime.TURN_WAIT", 0.01)
    client = make(threads=4)  # of which two may wait for a turn
    client.post("/datasets", json={"name": "paises", "entries": COUNTRIES})
    state = client.application.extensions["softdict"]
    waiting, go_on = threading.Barrier(3), threading.Event()

    def long_write(_: SoftDict) -> None:
        waiting.wait(PATIENCE)
        assert go_on.wait(PATIENCE)

    with state.catalog["paises"]._moments.turn:
        late = in_thread(lambda: client.put("/datasets/paises/entries/x", json=1))
    writes = [threading.Thread(target=state.write, args=("paises", long_write)) for _ in "ab"]
    for write in writes:
        write.start()
    waiting.wait(PATIENCE)
    refused = [
        client.put("/datasets/paises/entries/x", json=1),
        client.delete("/datasets/paises"),
        client.post("/datasets", json={"name": "more", "entries": {"a": 1}}),
    ]
    asked = client.get("/search?q=perro&dataset=paises")
    go_on.set()
    for write in writes:
        write.join(PATIENCE)

    for reply in (late, *refused):
        assert (reply.status_code, reply.get_json()["type"]) == (503, "/problems/busy")
        assert reply.headers["Retry-After"] == "5"
    assert asked.status_code == 200 and asked.get_json()["attention"]["keys"] == len(COUNTRIES)
    assert client.put("/datasets/paises/entries/x", json=1).status_code == 201
    assert [each["name"] for each in client.get("/datasets").get_json()["datasets"]] == ["paises"]


def test_the_store_is_closed_once_writes_have_ended(make: Make) -> None:
    client = make()
    client.post("/datasets", json={"name": "paises", "entries": COUNTRIES})
    state = client.application.extensions["softdict"]
    dataset = state.catalog["paises"]
    begun, go_on = threading.Event(), threading.Event()

    def write(found: SoftDict) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        found["late"] = 1

    with ThreadPoolExecutor(2) as pool:
        written = pool.submit(state.write, "paises", write)
        assert begun.wait(PATIENCE)
        closed = pool.submit(state.close)
        assert not wait([closed], 0.2).done
        go_on.set()
        assert written.exception(PATIENCE) is closed.exception(PATIENCE) is None

    assert dataset["late"] == 1


def test_a_write_waits_for_a_thread_s_place_while_others_come_and_go_and_else_is_refused_at_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.PLACE_WAIT", 2 * PATIENCE)
    client = make(threads=3)  # of which one may wait for a turn
    client.post("/datasets", json={"name": "paises", "entries": COUNTRIES})
    state = client.application.extensions["softdict"]
    begun, go_on = threading.Event(), threading.Event()

    def long_write(_: SoftDict) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    with ThreadPoolExecutor(2) as pool:
        pool.submit(state.write, "paises", long_write)
        assert begun.wait(PATIENCE)
        state._moved -= 2 * PATIENCE  # since when nothing moved
        refused = in_thread(lambda: client.put("/datasets/paises/entries/x", json=1))
        state._moved += 2 * PATIENCE
        waits = pool.submit(client.put, "/datasets/paises/entries/y", json=1)
        go_on.set()

        assert refused.status_code == 503
        assert waits.result(PATIENCE).status_code == 201


@pytest.mark.parametrize("name", ["paises", "new"])
def test_a_load_answered_at_once_that_waits_for_its_turn_ends_as_busy(
    make: Make, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("service.runtime.TURN_WAIT", 0.01)
    client = make()
    client.post("/datasets", json={"name": "paises", "entries": COUNTRIES})
    catalog = client.application.extensions["softdict"].catalog
    load = partial(
        client.post,
        f"/datasets?name={name}&if_exists=append&wait=1",
        data=b"key,value\nchile,6\n",
        content_type="text/csv",
    )
    with catalog["paises"]._moments.turn, catalog._changing:
        refused = in_thread(load)

    assert (refused.status_code, refused.get_json()["type"]) == (503, "/problems/busy")
    assert refused.headers["Retry-After"] == "5"
    assert {name: dict(d) for name, d in catalog.items()} == {"paises": COUNTRIES}
    assert load().get_json()["loaded"] == 1


def in_thread(work: Callable[[], Result]) -> Result:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE)


def test_a_stop_waits_for_writes(make: Make) -> None:
    client = make()
    client.post("/datasets", json={"name": "paises", "entries": COUNTRIES})
    state = client.application.extensions["softdict"]
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow(dataset: SoftDict) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        dataset["x"] = 1
        done.set()

    write = threading.Thread(target=state.write, args=("paises", slow))
    write.start()
    assert begun.wait(PATIENCE)
    end = threading.Thread(target=state.close)
    end.start()
    end.join(0.2)
    go_on.set()
    write.join(PATIENCE)
    end.join(PATIENCE)

    assert done.is_set()


@pytest.mark.parametrize("threads", [1, 2])
def test_however_few_threads_there_are_one_may_write(make: Make, threads: int) -> None:
    client = make(threads=threads)

    assert client.post("/datasets", json={"name": "a", "entries": COUNTRIES}).status_code == 201
    assert client.put("/datasets/a/entries/x", json=1).status_code == 201

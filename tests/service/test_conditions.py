"""ETags, and writes that are made only if nobody else wrote meanwhile (RFC 9110 §13)."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.runtime import Runtime
from tests.service.checked import CheckedClient
from tests.service.conftest import Make
from tests.service.running import PATIENCE, Service

ENTRY, DATASET = "/datasets/paises/entries/perro", "/datasets/paises"
CLIENTS, EACH = 6, 8


def etag(client: CheckedClient, path: str) -> str:
    return client.get(path).headers["ETag"]


def test_an_etag_is_of_what_is_answered_and_goes_with_it(client: CheckedClient) -> None:
    first = etag(client, ENTRY)
    client.put("/datasets/paises/entries/chile", json=6)

    assert etag(client, ENTRY) == first and first.startswith('"')
    assert etag(client, "/datasets/paises/entries/chile") != first
    client.put(ENTRY, json=6)
    assert etag(client, ENTRY) != first
    client.put(ENTRY, json=5)
    assert etag(client, ENTRY) == first


@pytest.mark.parametrize("path", [ENTRY, DATASET])
def test_what_a_client_has_is_not_sent_again(client: CheckedClient, path: str) -> None:
    tag = etag(client, path)
    for had in (tag, f'"other", W/{tag}', "*"):
        reply = client.get(path, headers={"If-None-Match": had})
        assert (reply.status_code, reply.data, reply.headers["ETag"]) == (304, b"", tag)

    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    for seen in (tag, f'"other", {tag}', "*"):
        assert client.get(path, headers={"If-Match": seen}).status_code == 200
    refused = client.get(path, headers={"If-Match": '"other"'})
    assert (refused.status_code, refused.get_json()["type"]) == (412, "/problems/condition-failed")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", ENTRY, 6, 200),
        ("DELETE", ENTRY, None, 204),
        ("PATCH", DATASET, {"temperature": 0.5}, 200),
        ("DELETE", DATASET, None, 204),
    ],
)
def test_a_write_is_made_of_what_was_seen_alone(
    client: CheckedClient, method: str, path: str, body: object, status: int
) -> None:
    seen = etag(client, path)
    client.put(ENTRY, json=7)  # somebody else's
    now = client.get(path)
    for stale in (seen, '"other"', f"W/{now.headers['ETag']}", "", '""', ","):
        refused = client.open(path, method=method, json=body, headers={"If-Match": stale})
        assert refused.status_code == 412, refused.text
        assert refused.get_json()["type"] == "/problems/condition-failed"
        assert "one with W/" in refused.get_json()["detail"]
        assert client.get(path).data == now.data

    headers = {"If-Match": f'"other", {now.headers["ETag"]}'}
    assert client.open(path, method=method, json=body, headers=headers).status_code == status
    gone = client.open(path, method=method, json=body, headers={"If-Match": seen})
    assert gone.status_code == (404 if (method, path) == ("DELETE", DATASET) else 412)


def test_if_match_any_is_of_what_is_there_and_if_none_match_any_of_what_is_not(
    client: CheckedClient,
) -> None:
    new = "/datasets/paises/entries/chile"
    there, absent = {"If-Match": "*"}, {"If-None-Match": "*"}

    refused = client.put(new, json=1, headers=there)
    assert refused.status_code == 412
    assert "does not hold: there is none, or no more" in refused.get_json()["detail"]
    assert client.delete(new, headers=there).status_code == 412
    assert client.put(new, json=2, headers=absent).status_code == 201
    assert client.put(new, json=3, headers=absent).status_code == 412
    assert client.get(new).get_json()["values"] == {"value": 2}
    assert client.put(new, json=4, headers=there).status_code == 200


def test_a_write_answers_with_the_etag_for_the_next_one(client: CheckedClient) -> None:
    first = client.put(ENTRY, json=1)
    assert first.headers["ETag"] == client.get(ENTRY).headers["ETag"]
    second = client.put(ENTRY, json=2, headers={"If-Match": first.headers["ETag"]})
    assert second.status_code == 200 and second.headers["ETag"] != first.headers["ETag"]

    changed = client.patch(DATASET, json={"temperature": 0.2})
    assert changed.headers["ETag"] == client.get(DATASET).headers["ETag"]


def test_vectors_that_were_halved_meanwhile_are_nobodys_change(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)
    client = make()
    client.post("/datasets", json={"name": "d", "entries": {f"key {i}": i for i in range(300)}})
    dataset = client.application.extensions["softdict"].catalog["d"]
    dataset.settle()
    wide = client.patch("/datasets/d", json={"precision": "half"})
    dataset.settle()

    half = client.get("/datasets/d", headers={"If-None-Match": wide.headers["ETag"]})
    in_use = [reply.get_json()["precision_in_use"] for reply in (wide, half)]
    assert (half.status_code, in_use) == (200, ["full", "half"])
    seen = {"If-Match": wide.headers["ETag"]}
    changed = client.patch("/datasets/d", json={"tolerance": 0.02}, headers=seen)
    assert changed.status_code == 200
    assert client.delete("/datasets/d", headers=seen).status_code == 412


@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
def test_a_load_takes_no_condition_and_does_not_pass_it_over(
    client: CheckedClient, name: str
) -> None:
    before = client.get(DATASET).data
    table = {"name": "paises", "entries": {"perro": 1}, "if_exists": "replace"}

    refused = client.post("/datasets", json=table, headers={name: "*"})

    assert refused.status_code == 422
    said = "a load takes no such condition; if_exists says what becomes of what is there"
    assert refused.get_json()["errors"] == [{"where": name, "message": said}]
    assert client.get(DATASET).data == before


def test_a_dataset_in_the_place_of_the_one_that_was_seen_is_not_deleted(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = etag(client, DATASET)
    found = Runtime.dataset

    def then_replaced(self: Runtime, name: str | None = None) -> object:
        monkeypatch.setattr(Runtime, "dataset", found)
        dataset = found(self, name)
        table = {"name": "paises", "entries": {"perro": 1}, "if_exists": "replace"}
        assert client.post("/datasets", json=table).status_code == 201
        return dataset

    monkeypatch.setattr(Runtime, "dataset", then_replaced)

    assert client.delete(DATASET, headers={"If-Match": seen}).status_code == 412
    assert client.get(ENTRY).get_json()["values"] == {"value": 1}


def test_of_many_who_count_at_once_nobody_overwrites_another(service: Service) -> None:
    path = "/datasets/paises/entries/counted"
    service.put(path, 0)
    begin = threading.Barrier(CLIENTS)

    def count(_: int) -> int:
        begin.wait(PATIENCE)
        done = refused = 0
        while done < EACH:
            seen = service.get(path)  # waitress writes Etag
            body = json.dumps(seen.json["values"]["value"] + 1).encode()
            headers = {"Content-Type": "application/json", "If-Match": seen.headers["Etag"]}
            status = service.ask("PUT", path, body, headers).status
            assert status in (200, 412)
            done, refused = done + (status == 200), refused + (status == 412)
        return refused

    with ThreadPoolExecutor(CLIENTS) as pool:
        refused = sum(pool.map(count, range(CLIENTS)))

    assert service.get(path).json["values"] == {"value": CLIENTS * EACH}
    assert refused > 0
    service.ask("DELETE", path)


def test_of_many_who_make_the_same_key_one_does(service: Service) -> None:
    path = "/datasets/paises/entries/made"
    begin = threading.Barrier(CLIENTS)

    def make(number: int) -> int:
        begin.wait(PATIENCE)
        headers = {"Content-Type": "application/json", "If-None-Match": "*"}
        return service.ask("PUT", path, str(number).encode(), headers).status

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = list(pool.map(make, range(CLIENTS)))

    assert sorted(statuses) == [201] + [412] * (CLIENTS - 1)
    assert service.get(path).json["values"] == {"value": statuses.index(201)}
    service.ask("DELETE", path)

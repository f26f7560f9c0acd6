"""Errors as problems: one table, complete, and telling nothing that it should not."""

from __future__ import annotations

import errno
import inspect
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from index import Catalog, SoftDict, __version__
from index import errors as library
from index.answers import Answer
from index.errors import EncoderMismatch, EncoderUnavailable, SoftDictError
from service import errors as own
from service.problems import TABLE, ProblemType, describe, problem_type
from service.runtime import Runtime
from service.settings import Settings
from tests.service.checked import CheckedClient


def descendants(kind: type[Exception]) -> Iterator[type[Exception]]:
    for each in kind.__subclasses__():
        yield each
        yield from descendants(each)


def test_every_domain_error_has_a_row_of_its_own() -> None:
    raised = {row.raised for row in TABLE}

    assert set(descendants(SoftDictError)) - raised == {own.ServiceError}
    assert len({row.slug for row in TABLE}) == len(TABLE) == len(raised)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.slug)
def test_every_type_leads_to_what_it_means(client: CheckedClient, row: ProblemType) -> None:
    said = client.get(f"/problems/{row.slug}").get_json()

    ours = "A fault of the service itself: its log has the cause."
    assert said == {
        "type": f"/problems/{row.slug}",
        "title": row.title,
        "status": row.status,
        "meaning": ours if row.slug == "internal" else inspect.getdoc(row.raised),
    }
    assert said in client.get("/problems").get_json()["problems"]


def test_a_type_that_is_none_is_not_found(client: CheckedClient) -> None:
    assert client.get("/problems/none").status_code == 404


def test_a_subclass_goes_by_its_nearest_ancestor() -> None:
    class Rarer(library.InvalidKey):
        pass

    assert problem_type(Rarer("too rare")).slug == "invalid-key"


ERRORS = [
    (library.EncoderUnavailable("install it"), 503, "install it"),
    (library.EncoderMismatch("d", "a", "b"), 409, "reencode d"),
    (library.StoreLocked(Path("var")), 503, "open for writing"),
    (library.Busy(), 503, "another write goes on"),
    (library.DiskFull(Path("var")), 507, "var is full"),
    (library.ReadOnlyStore("read only"), 403, "read only"),
    (library.StoreClosed(), 503, "was closed"),
    (library.StoreCorrupt("of version 9"), 500, "of version 9"),
    (own.JobCancelled(), 409, "nothing of it was loaded"),
]


@pytest.mark.parametrize(("error", "status", "words"), ERRORS, ids=lambda e: type(e).__name__)
def test_what_the_library_raises_is_said(
    client: CheckedClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: SoftDictError,
    status: int,
    words: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(client.application.extensions["softdict"], "check_ready", fail)
    monkeypatch.setitem(client.application.api_doc["paths"], "/readyz", {})  # type: ignore[attr-defined]
    reply = client.get("/readyz")

    assert (reply.status_code, reply.mimetype) == (status, "application/problem+json")
    assert reply.get_json() == describe(error).model_dump(exclude_unset=True)
    assert words in reply.get_json()["detail"]
    wait = "5" if isinstance(error, library.StoreLocked | library.Busy) else None  # seconds
    assert reply.headers.get("Retry-After") == wait
    assert (words in caplog.text) == (status >= 500 and wait is None)  # what passes is not logged


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, f"the disk that holds {tempfile.gettempdir()} is full"),
        (errno.EDQUOT, f"the disk that holds {tempfile.gettempdir()} refused a write"),
        (errno.EIO, "the log of the service has the cause"),
    ],
)
def test_a_disk_that_takes_no_more_of_a_request_is_said_and_no_other_fault_of_the_system(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail() -> None:
        raise OSError(number, "of the system")

    monkeypatch.setattr(client.application.extensions["softdict"], "check_ready", fail)
    monkeypatch.setitem(client.application.api_doc["paths"], "/readyz", {})  # type: ignore[attr-defined]
    reply = client.get("/readyz")

    assert reply.status_code == (500 if number == errno.EIO else 507)
    assert reply.get_json()["detail"].startswith(words)


def test_an_internal_error_tells_nothing_but_where_to_look(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fall() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(client.application.extensions["softdict"], "check_ready", fall)
    reply = client.get("/readyz")

    assert (reply.status_code, reply.mimetype) == (500, "application/problem+json")
    assert reply.get_json()["type"] == "/problems/internal"
    assert "secret" not in reply.text and "Traceback" not in reply.text
    reference = reply.get_json()["detail"].rpartition(" ")[2]
    assert any(reference in record.getMessage() for record in caplog.records)
    assert "secret" in caplog.text


def test_not_ready_says_when_to_come_back(client: CheckedClient) -> None:
    reply = client.get("/readyz")

    assert (reply.status_code, reply.get_json()["type"]) == (503, "/problems/not-ready")
    assert reply.headers["Retry-After"] == "1"


def test_a_dataset_that_is_deleted_during_the_start_does_not_keep_it_from_being_ready(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = SoftDict.search

    def other_request(self: SoftDict, *given: Any, **named: Any) -> Answer:
        monkeypatch.setattr(SoftDict, "search", search)
        client.delete("/datasets/palabras")
        raise EncoderMismatch(self.name, "another", "this one")  # so that the next is asked

    monkeypatch.setattr(SoftDict, "search", other_request)
    client.application.extensions["softdict"]._get_ready()
    reply = client.get("/readyz")

    assert reply.status_code == 200, reply.text


def test_a_dataset_that_fails_inside_keeps_no_other_from_answering(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = SoftDict.search
    broken = {"paises", "palabras", "colores"}

    def asked(self: SoftDict, *given: Any, **named: Any) -> Answer:
        return 1 // 0 if self.name in broken else search(self, *given, **named)

    monkeypatch.setattr(SoftDict, "search", asked)
    client.application.extensions["softdict"]._get_ready()
    none = client.get("/readyz")
    broken.remove("colores")
    one = client.get("/readyz")

    assert (none.status_code, one.status_code) == (503, 200)
    assert none.get_json()["detail"].startswith("no dataset can answer: it failed inside")


def test_a_bundled_name_that_is_taken_during_the_start_does_not_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Runtime(Settings(home=tmp_path / "store", encoder="random"))
    create = Runtime._create

    def other_request(self: Runtime, bundled: dict[str, Any]) -> None:
        monkeypatch.setattr(Runtime, "_create", create)
        self.catalog.create(bundled["name"], encoder="random")["own"] = 1
        create(self, bundled)

    monkeypatch.setattr(Runtime, "_create", other_request)
    state._get_ready()
    kept = {name: len(dataset) for name, dataset in state.catalog.items()}
    state.close()

    state.check_ready()
    assert kept["paises"] == 1 and len(kept) == 3


def test_an_old_dataset_whose_built_in_encoder_is_gone_does_not_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in ("new", "old"):
            catalog.create(name, encoder="random")["a"] = 1
        old = catalog["old"]
        old._moments.store.set_encoder(old.id, "builtin", "builtin:000000000000", 384)
    monkeypatch.setattr("index.encoders.BUILTIN", tmp_path)  # where there is none
    monkeypatch.setattr("index.encoders._open", {})

    state = Runtime(Settings(home=tmp_path, encoder="random", bundled=False))
    state._get_ready()
    try:
        state.check_ready()
        with pytest.raises(EncoderUnavailable, match="the built-in encoder is not whole"):
            state.catalog["old"].search("a")
    finally:
        state.close()


def test_a_start_whose_encoder_is_gone_is_not_ready_though_no_dataset_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.encoders.BUILTIN", tmp_path)  # where there is none
    monkeypatch.setattr("index.encoders._open", {})
    state = Runtime(Settings(home=tmp_path / "store", encoder="builtin", bundled=False))

    state._get_ready()
    try:
        fault = "the start failed: the built-in encoder is not whole"
        with pytest.raises(own.NotReady, match=fault):
            state.check_ready()
    finally:
        state.close()


def test_healthz_asks_for_nothing(client: CheckedClient) -> None:
    assert client.get("/healthz").get_json() == {"status": "ok", "version": __version__}


def test_the_front_page_is_for_browsers_and_its_links_for_other_clients(
    client: CheckedClient,
) -> None:
    browsers = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    got = [client.get("/", headers={"Accept": accept}) for accept in (browsers, "*/*")]

    assert [reply.mimetype for reply in got] == ["text/html", "application/json"]
    said = got[1].get_json()
    assert (said["name"], said["version"]) == ("softdict", __version__)
    assert [reply.headers["Vary"] for reply in got] == ["Accept", "Accept"]  # for caches


def test_the_links_of_the_front_page_stay_below_the_prefix_that_a_proxy_has_it_under(
    client: CheckedClient,
) -> None:
    links = client.get("/", headers={"Accept": "application/json"}).get_json()["links"]

    assert set(links) == {"search", "compare", "datasets", "jobs", "api", "docs"}
    for link in links.values():
        path = urljoin("http://dict.example/softdict/", link)
        assert path.startswith("http://dict.example/softdict/")
        asked = path.removeprefix("http://dict.example/softdict")
        assert client.get(asked + ("perro" if "?" in asked else "")).status_code == 200

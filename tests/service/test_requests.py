"""What is refused, and in which words: every fault of a request at once, by name."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel, ValidationError

from index.errors import InvalidRequest
from service import requests, strict_json
from service.errors import MalformedRequest
from tests.frames import kept_frames
from tests.service.checked import CheckedClient
from tests.service.conftest import Make


def test_all_faults_of_a_query_are_named_at_once(client: CheckedClient) -> None:
    faults = client.faults(
        "GET", "/search?k=0&mode=hard&temperature=-1&as_of=soon&explain=maybe&tempreature=2"
    )

    assert faults == {
        "q": "required, and not given",
        "k": "write 1 or more",
        "mode": "write 'soft' or 'exact'",
        "temperature": faults["temperature"],
        "as_of": faults["as_of"],
        "explain": "write 1 or 0",
        "tempreature": "there is no such parameter; did you mean temperature?",
    }


@pytest.mark.parametrize(
    ("name", "hint"), [("temp", "; did you mean temperature?"), ("queries", "; there are: q, ")]
)
def test_a_parameter_is_suggested_only_where_one_is_near(
    name: str, hint: str, client: CheckedClient
) -> None:
    faults = client.faults("POST", "/search", json={name: ["país"]})

    assert faults[name].startswith(f"there is no such parameter{hint}")


def test_faults_of_the_path_the_query_and_the_body_come_together(client: CheckedClient) -> None:
    faults = client.faults("PUT", "/datasets/.bad/entries/x?colour=1", json={"valeus": 1})

    assert set(faults) == {"name", "colour", "values", "valeus"}
    assert faults["valeus"] == "there is no such parameter; did you mean values?"


@pytest.mark.parametrize(
    "path", ["/datasets", "/jobs", "/healthz", "/readyz", "/problems", "/datasets/paises"]
)
def test_a_route_without_parameters_refuses_every_one(client: CheckedClient, path: str) -> None:
    assert client.faults("GET", f"{path}?verbose=1") == {
        "verbose": "there is no such parameter; this route takes none"
    }


def test_a_parameter_given_twice_is_refused(client: CheckedClient) -> None:
    assert client.faults("GET", "/search?q=a&q=b") == {"q": "given more than once"}


def test_a_parameter_without_a_name_is_none_of_the_body(client: CheckedClient) -> None:
    assert list(client.faults("GET", "/search?q=a&=b")) == [""]


def test_a_parameter_given_twice_hides_no_other_fault(client: CheckedClient) -> None:
    faults = client.faults("GET", "/search?q=a&q=b&k=0&temprature=1")

    assert faults["q"] == "given more than once"
    assert set(faults) == {"q", "k", "temprature"}
    errors = client.get("/search?q=a&k=0&k=5").get_json()["errors"]
    assert [fault["message"] for fault in errors] == ["given more than once", "write 1 or more"]


@pytest.mark.parametrize("query", ["", "%20%20"])
def test_an_empty_question_is_refused(client: CheckedClient, query: str) -> None:
    assert client.faults("GET", f"/search?q={query}") == {"q": "write something to ask"}


@pytest.mark.parametrize("k", ["true", "2.5", "ten", "", "1_0", "%D9%A3"])
def test_k_is_a_whole_number(client: CheckedClient, k: str) -> None:
    assert client.faults("GET", f"/search?q=a&k={k}") == {"k": "write a whole number"}
    page = {"limit": "write a whole number", "after": "write a whole number"}
    assert client.faults("GET", f"/datasets/paises/entries?limit={k}&after={k}") == page


@pytest.mark.parametrize("number", ["0_1", "%D9%A0.%D9%A1", "0.1%C2%BD"])  # of Arabic digits
def test_a_number_is_written_as_json_has_it(client: CheckedClient, number: str) -> None:
    faults = client.faults("GET", f"/search?q=a&temperature={number}&tolerance={number}")

    assert set(faults) == {"temperature", "tolerance"}


def test_an_answer_of_nothing_is_of_no_type_and_any_other_of_its_own(client: CheckedClient) -> None:
    gone = client.delete("/datasets/paises/entries/perro")
    allowed = client.open("/search", method="OPTIONS")
    absent = client.open("/nope", method="OPTIONS")

    assert (absent.status_code, absent.mimetype) == (404, "application/problem+json")
    assert [(reply.data, reply.headers.get("Content-Type")) for reply in (gone, allowed)] == [
        (b"", None)
    ] * 2


@pytest.mark.parametrize("k", [True, "3", 2.5, None])
def test_in_json_k_is_a_number_and_nothing_like_one(client: CheckedClient, k: object) -> None:
    assert client.faults("POST", "/compare", json={"q": "a", "k": k}) == {
        "k": "write a whole number"
    }


@pytest.mark.parametrize(
    ("path", "body", "faults"),
    [
        ("/compare", [], {"body": "write a JSON object"}),
        ("/search", {"q": "a", "explain": "yes"}, {"explain": "write true or false"}),
        ("/datasets", {"name": "d"}, {"entries": "required, and not given"}),
        (
            "/datasets",
            {"name": "d", "entries": 3},
            {"entries": "write {key: value}, a list of objects, or of [key, value] pairs"},
        ),
        (
            "/datasets",
            {"name": "d", "entries": {"a": 1}, "columns": 7, "delimiter": ""},
            {"columns": "write a JSON object", "delimiter": "write something"},
        ),
    ],
)
def test_what_is_wrong_with_a_body_is_said_in_our_words(
    client: CheckedClient, path: str, body: object, faults: dict[str, str]
) -> None:
    assert client.faults("POST", path, json=body) == faults


@pytest.mark.parametrize("path", ["/search", "/compare"])
@pytest.mark.parametrize("two", ["2.0", "2e0", "20.0e-1"])
def test_in_json_two_is_two_however_it_is_written(
    client: CheckedClient, path: str, two: str
) -> None:
    """ "When a floating-point number has no fractional part, it is an integer" (JSON Schema)."""
    body = f'{{"q": "a", "k": {two}, "as_of": {two}}}'
    reply = client.post(path, data=body, content_type="application/json").get_json()
    answer = reply if path == "/search" else reply["soft"]

    assert [match["key"] for match in answer["matches"]] == [
        match["key"] for match in client.get("/search?q=a&k=2&as_of=2").get_json()["matches"]
    ]
    assert (len(answer["matches"]), answer["attention"]["keys"]) == (2, 2)


def test_a_page_is_of_a_thousand_entries_at_most(client: CheckedClient) -> None:
    path = "/datasets/paises/entries?limit="

    assert client.faults("GET", f"{path}1001&size=9") == {
        "limit": "write 1000 or less",
        "size": "there is no such parameter; there are: limit, after",
    }
    assert len(client.get(f"{path}1000").get_json()["entries"]) == 4


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_that_is_not_finite_is_taken(client: CheckedClient, number: str) -> None:
    sent = {
        ("POST", "/compare"): f'{{"q": "a", "weights": {{"perro": {number}}}}}',
        ("PUT", "/datasets/paises/entries/x"): f'{{"values": {{"value": {number}}}}}',
        ("POST", "/datasets"): f'{{"name": "new", "entries": {{"a": {number}}}}}',
    }
    for (method, path), body in sent.items():
        reply = client.open(path, method=method, data=body, content_type="application/json")
        assert reply.status_code in (400, 422), reply.text
    assert client.get(f"/search?q=a&temperature={number}").status_code == 422
    assert client.get("/datasets/paises/entries/x").status_code == 404


def test_a_name_twice_in_an_object_is_refused(client: CheckedClient) -> None:
    body = '{"q": "a", "weights": {"perro": 1, "perro": 2}}'
    reply = client.post("/compare", data=body, content_type="application/json")

    assert (reply.status_code, reply.get_json()["type"]) == (400, "/problems/malformed-request")
    assert "'perro' stands twice" in reply.get_json()["detail"]


def test_the_name_that_stands_twice_among_many_is_found(client: CheckedClient) -> None:
    weights = ", ".join(f'"{number}": 1' for number in [*range(60_000), 59_999])
    body = '{"q": "a", "weights": {' + weights + "}}"
    reply = client.post("/compare", data=body, content_type="application/json")

    assert (reply.status_code, "'59999' stands twice" in reply.get_json()["detail"]) == (400, True)


@pytest.mark.parametrize("weight", [True, "1", None, -0.5])
def test_a_weight_is_a_number_of_zero_or_more(client: CheckedClient, weight: object) -> None:
    body = {"q": "a", "weights": {"perro": weight}}

    assert list(client.faults("POST", "/compare", json=body)) == ["weights.perro"]


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("/compare", {"weights": [1]}, {"weights": "write a JSON object"}),
        ("/compare", {"weights": {"a": -1}}, {"weights.a": "write a number from 0 to 1e+150"}),
        ("/compare", {"weights": {"a": "1"}}, {"weights.a": "write a number from 0 to 1e+150"}),
        ("/datasets", {"columns": 5}, {"columns": "write a JSON object"}),
        ("/datasets", {"attributes": 5}, {"attributes": "write a list"}),
        ("/datasets", {"delimiter": "::"}, {"delimiter": "write 1 character at most"}),
    ],
)
def test_a_fault_of_a_body_is_said_in_the_words_of_json(
    client: CheckedClient, path: str, body: dict[str, Any], fault: dict[str, str]
) -> None:
    asked = {"q": "a"} if path == "/compare" else {"name": "new", "entries": {"a": 1}}

    assert client.faults("POST", path, json=asked | body) == fault


@pytest.mark.parametrize("weight", ["1e999", "1e151", "1" * 400])
def test_the_greatest_weight_by_hand_is_named_where_one_is_greater(
    client: CheckedClient, weight: str
) -> None:
    body = '{"q": "a", "weights": {"perro": ' + weight + "}}"

    assert client.faults("POST", "/compare", data=body, content_type="application/json") == {
        "weights.perro": "write a number from 0 to 1e+150"
    }


def test_pydantic_gathers_no_fault_of_weights_that_are_too_great(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million it would make as many errors, in a gigabyte."""
    gathered: list[int] = []
    faults = requests._faults

    def counted(error: ValidationError, model: type[BaseModel]) -> Iterator[InvalidRequest]:
        gathered.append(error.error_count())
        return faults(error, model)

    monkeypatch.setattr(requests, "_faults", counted)
    weights = ", ".join(f'"{number}": 1e999' for number in range(MANY))
    body = '{"q": "a", "weights": {' + weights + "}}"
    client.faults("POST", "/compare", data=body, content_type="application/json")

    assert gathered == [1]


MANY = 20_000
NAMES = dict.fromkeys(map(str, range(MANY)), "x")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/search?q=a&" + "&".join(f"q{number}" for number in range(MANY)), None),
        ("POST", "/search", {"q": "a", **NAMES}),
        ("POST", "/compare", {"q": "a", "weights": dict.fromkeys(map(str, range(MANY)), 1)}),
        ("POST", "/compare", {"q": "a", "weights": NAMES}),
        ("POST", "/compare", {"q": "a", "weights": dict.fromkeys(NAMES, math.inf)}),
        ("PUT", "/datasets/paises/entries/x", {"values": NAMES}),
    ],
)
def test_of_very_many_faults_the_first_are_told_and_the_others_counted(
    client: CheckedClient, method: str, path: str, body: object
) -> None:
    text = None if body is None else json.dumps(body).replace("Infinity", "1e999")
    sent = {"data": text, "content_type": "application/json"}
    problem = client.open(path, method=method, **sent).get_json()

    assert (problem["status"], len(problem["errors"])) == (422, 100)
    assert len(problem["detail"]) < 3_000
    found = re.fullmatch(r"(.*); and ([\d,]+) more", problem["detail"], re.DOTALL)
    assert found
    named, more = found.groups()
    first = [f"{each['where']}: {each['message']}" for each in problem["errors"]]
    told = next(n for n in range(100) if "; ".join(first[:n]) == named)
    assert told + int(more.replace(",", "")) == MANY


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/search", {"q": "a", "k": 0}),
        ("POST", "/search", {"q": "a", "temperature": "x"}),
        ("POST", "/search", {"q": "a", "where": "valor >", "as_of": "x", "dataset": ".."}),
        ("POST", "/compare", {"q": "a", "weights": {"perro": -1}}),
        ("POST", "/compare", {"q": "a", "weights": {"nadie": 1}}),
        ("POST", "/datasets", {"name": "new", "entries": {}, "header": 1, "temperature": []}),
        ("PUT", "/datasets/paises/entries/perro", {"values": {"value": "many"}}),
    ],
)
def test_nothing_of_a_request_that_is_refused_is_kept(
    client: CheckedClient, method: str, path: str, body: dict[str, object]
) -> None:
    """Not even until the garbage collector comes: it may be large."""
    client.faults(method, path, json=body)  # of what is made once, none counts

    refused = partial(client.faults, method, path, json=body)
    assert kept_frames(refused, "/service/") == []


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("/search", {"q": [1] * MANY}, {"q": "at most 256 of them, the setting max_queries"}),
        (
            "/datasets",
            {"columns": NAMES},
            {"columns": "at most 10,000 of them"},
        ),
        ("/datasets", {"attributes": [""] * MANY}, {"attributes": "at most 10,000 of them"}),
        ("/datasets", {"missing": [1] * MANY}, {"missing": "at most 10,000 of them"}),
    ],
)
def test_what_is_too_long_is_refused_before_its_parts(
    client: CheckedClient, path: str, body: dict[str, Any], fault: dict[str, str]
) -> None:
    asked = {} if path == "/search" else {"name": "new", "entries": {"a": 1}}

    assert client.faults("POST", path, json=asked | body) == fault


def test_a_long_name_is_cut_in_an_answer(client: CheckedClient) -> None:
    reply = client.post("/search", json={"q": "a", "x" * 100_000: 1})

    assert reply.get_json()["errors"][0]["where"].startswith("xxx")
    assert len(reply.data) < 5_000


def test_limits_are_settings_and_named(make: Make) -> None:
    assert make(max_query=1).faults("GET", "/search?q=12") == {
        "q": "at most 1 character, the setting max_query"
    }
    client = make(max_k=5, max_query=10, max_key=4)
    client.post("/datasets", json={"name": "paises", "entries": {"a": 1}})

    assert client.faults("GET", "/search?q=12345678901&k=6") == {
        "q": "at most 10 characters, the setting max_query",
        "k": "at most 5, the setting max_k",
    }
    assert client.faults("PUT", "/datasets/paises/entries/12345", json=1) == {
        "key": "at most 4 characters, the setting max_key"
    }
    assert client.get("/search?q=1234567890&k=5").status_code == 200
    assert client.put("/datasets/paises/entries/1234", json=1).status_code == 201


def test_where_k_is_left_out_it_is_ten_or_the_most_there_may_be(make: Make) -> None:
    entries = {f"key {number}": number for number in range(20)}
    for max_k, shown in {2: 2, 10: 10, 15: 10}.items():
        client = make(max_k=max_k)
        client.post("/datasets", json={"name": "d", "entries": entries})
        described = client.get("/openapi.json").get_json()["paths"]["/search"]["get"]
        (k,) = (each for each in described["parameters"] if each["name"] == "k")

        assert len(client.get("/search?q=a").get_json()["matches"]) == shown
        assert len(client.post("/search", json={"q": "a"}).get_json()["matches"]) == shown
        assert len(client.get("/compare?q=a").get_json()["soft"]["matches"]) == shown
        assert "default" not in k["schema"] and k["required"] is False
        assert "10 or the setting max_k, whichever is less, if left out" in k["description"]


def test_a_json_body_has_its_own_limit(make: Make) -> None:
    client = make(max_json=100)

    reply = client.post("/compare", json={"q": "a" * 200})
    assert (reply.status_code, reply.get_json()["type"]) == (413, "/problems/too-large")
    assert "100 bytes, the setting max_json" in reply.get_json()["detail"]
    body = b'{"q": "' + b"a" * 91 + b'"}'
    assert len(body) == 100
    read = client.post("/compare", data=body, content_type="application/json")
    assert read.get_json()["type"] == "/problems/no-datasets"


def test_a_body_that_is_not_json_is_malformed(client: CheckedClient) -> None:
    for body in (b'{"q": "a"', b"", b'{"q": "\xff"}', b'{"q": "\\ud800"}', b"[" * 100_000):
        reply = client.post("/compare", data=body, content_type="application/json")
        assert (reply.status_code, reply.get_json()["type"]) == (400, "/problems/malformed-request")
        assert reply.get_json()["detail"].startswith("this is not JSON: ")


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/search", '{"q": "a", "k": %s}' % ("1" * 5_000), "an integer has thousands"),
        ("PUT", "/datasets/paises/entries/x", "[%s]" % ("1" * 5_000), "an integer has thousands"),
        ("POST", "/datasets", '{"name": "n", "entries": {"a": 1e999}}', "write finite numbers"),
        ("POST", "/datasets", '{"name": "n", "entries": {"a": "\\ud800"}}', "half a character"),
        ("POST", "/search", "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_python_s_own_reader_cannot_hold_is_said_in_our_words(
    client: CheckedClient, method: str, path: str, body: str, words: str
) -> None:
    reply = client.open(path, method=method, data=body, content_type="application/json")

    assert (reply.status_code, reply.get_json()["type"]) == (400, "/problems/malformed-request")
    assert words in reply.get_json()["detail"]


def test_json_nested_to_any_depth_is_read_or_refused() -> None:
    """Python's writer gives up a little before its reader does."""
    for depth in range(1100):
        with suppress(MalformedRequest):
            assert strict_json.loads("[" * depth + '"\\u0041"' + "]" * depth)


HALF = b"\xed\xa0\x80"  # of a surrogate pair, as UTF-8 would write it


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/search", b'{"q": "' + HALF + b'"}'),
        ("POST", "/search", b'{"q": "a", "where": {"' + HALF + b'": 1}}'),
        ("POST", "/compare", b'{"q": "a", "weights": {"' + HALF + b'": 1}}'),
        ("PUT", "/datasets/paises/entries/x", b'{"values": {"' + HALF + b'": 1}}'),
        ("POST", "/datasets", b'{"name": "new", "entries": {"' + HALF + b'": 1}}'),
        ("POST", "/search", '{"q": "\\ud800"}'.encode("utf-16")),
        ("POST", "/search", '{"q": "país"}'.encode("utf-16-le")),
    ],
)
def test_json_is_utf8_and_nothing_like_it(
    client: CheckedClient, method: str, path: str, body: bytes
) -> None:
    reply = client.open(path, method=method, data=body, content_type="application/json")

    assert (reply.status_code, reply.get_json()["type"]) == (400, "/problems/malformed-request")


def test_json_may_begin_with_a_byte_order_mark(client: CheckedClient) -> None:
    body = '{"q": "país"}'.encode("utf-8-sig")
    reply = client.post("/search", data=body, content_type="application/json")

    assert (reply.status_code, reply.get_json()["query"]) == (200, "país")


@pytest.mark.parametrize("body", ["[]", "null", '"país"', "7"])
def test_a_json_body_is_an_object(client: CheckedClient, body: str) -> None:
    faults = client.faults("POST", "/compare", data=body, content_type="application/json")

    assert list(faults) == ["body"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_of_another_type_is_refused(client: CheckedClient, kind: str) -> None:
    reply = client.post("/compare", data=json.dumps({"q": "a"}), content_type=kind)

    assert (reply.status_code, reply.get_json()["type"]) == (415, "/problems/unsupported-content")


@pytest.mark.parametrize("coding", ["gzip", "X-GZIP", "identity, br"])
def test_a_packed_json_body_is_refused_in_words(client: CheckedClient, coding: str) -> None:
    packed = gzip.compress(b'{"q": "a"}')
    headers = {"Content-Encoding": coding}
    reply = client.post("/compare", data=packed, content_type="application/json", headers=headers)

    name = coding.lower().removeprefix("identity, ")
    assert (reply.status_code, reply.get_json()["type"]) == (415, "/problems/unsupported-content")
    assert reply.get_json()["detail"] == f"cannot read a body packed with {name}; send it as it is"


def test_a_coding_that_packs_nothing_is_let_pass(client: CheckedClient) -> None:
    for coding in ("identity", "utf-8"):  # as some send the charset
        reply = client.post("/compare", json={"q": "a"}, headers={"Content-Encoding": coding})
        assert reply.status_code == 200


def test_a_route_that_is_not_there_is_answered_with_the_nearest(client: CheckedClient) -> None:
    reply = client.get("/serach?q=a")

    assert (reply.status_code, reply.mimetype) == (404, "application/problem+json")
    assert reply.get_json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing at /serach; did you mean /search?",
    }


@pytest.mark.parametrize(
    "path", ["/datasets/paises", "/datasets/paises/entries/perro", "/search", "/datasets"]
)
def test_a_slash_too_many_is_the_fault_that_is_named(client: CheckedClient, path: str) -> None:
    detail = f"there is nothing at {path}/; did you mean {path}?"
    if "/entries/" not in path:  # there it is part of the key
        assert client.get(f"{path}/").get_json()["detail"] == detail


@pytest.mark.parametrize("path", ["/datasets/paises/entris", "/" + "x" * 200])
def test_where_no_route_is_near_it_is_said_where_they_are_listed(
    client: CheckedClient, path: str
) -> None:
    said = client.get(path).get_json()["detail"]

    assert said == f"there is nothing at {path[:100]}; /docs lists what there is"


def test_a_wrong_method_is_answered_with_the_right_ones(client: CheckedClient) -> None:
    reply = client.delete("/search?q=a")

    assert (reply.status_code, reply.mimetype) == (405, "application/problem+json")
    assert set(reply.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}
    allowed = "allowed: GET, HEAD, OPTIONS, POST"
    assert reply.get_json()["detail"] == f"DELETE is not allowed at /search; {allowed}"
    long = client.delete(f"/docs/{'x' * 200}").get_json()["detail"]
    assert f"not allowed at /docs/{'x' * 94}; " in long


@pytest.mark.parametrize("name", ["a/b", ".hidden", "with space", "x" * 101, "a\nb"])
def test_a_dataset_name_is_conservative(client: CheckedClient, name: str) -> None:
    made = client.faults("POST", "/datasets", json={"name": name, "entries": {"a": 1}})
    asked = client.faults("GET", f"/search?q=a&dataset={quote(name)}")

    assert list(made) == ["name"]
    assert asked == {"dataset": made["name"]}


@pytest.mark.parametrize("name", ["países", "a.b-c_d", "x" * 100, "2026", "हिन्दी", "น้ำ"])
def test_a_dataset_name_may_be_of_any_script(client: CheckedClient, name: str) -> None:
    created = client.post("/datasets", json={"name": name, "entries": {"a": 1}})

    assert (created.status_code, created.headers["Location"]) == (201, f"/datasets/{quote(name)}")
    assert client.get(created.headers["Location"]).get_json()["name"] == name

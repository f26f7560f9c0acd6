"""Datasets over HTTP: created from every kind of body, described, changed, exported, deleted."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from werkzeug.test import TestResponse

import index.catalog
import index.softdict
from index import Catalog, SoftDict
from index.answers import Column
from service.runtime import Runtime
from tests.service.checked import CheckedClient
from tests.service.conftest import COUNTRIES, Make
from tests.service.running import PATIENCE

CSV = "clave;valor\nméxico;7\nalemania;10\n".encode()
ROWS = [{"key": "méxico", "valor": 7}, {"key": "alemania", "valor": 10}]


def parquet(table: pa.Table) -> bytes:
    written = io.BytesIO()
    pa.parquet.write_table(table, written)
    return written.getvalue()


BODIES = {
    "text/csv": b"key,valor\nm\xc3\xa9xico,7\nalemania,10\n",
    "text/tab-separated-values": b"key\tvalor\nm\xc3\xa9xico\t7\nalemania\t10\n",
    "application/json": json.dumps(ROWS).encode(),
    "application/x-ndjson": "\n".join(json.dumps(row) for row in ROWS).encode(),
    "application/vnd.apache.parquet": parquet(pa.Table.from_pylist(ROWS)),
}


def values(client: CheckedClient, name: str) -> dict[str, Any]:
    page = client.get(f"/datasets/{name}/entries").get_json()
    return {entry["key"]: entry["values"] for entry in page["entries"]}


def form(content: bytes, filename: str = "precios.csv", **fields: str) -> dict[str, Any]:
    return {"data": {"file": (io.BytesIO(content), filename), **fields}}


@pytest.mark.parametrize("kind", BODIES)
def test_a_raw_body_is_loaded_by_its_content_type(make: Make, kind: str) -> None:
    client = make()
    reply = client.post("/datasets?name=precios", data=BODIES[kind], content_type=kind)

    assert reply.status_code == 201, reply.text
    assert reply.headers["Location"] == "/datasets/precios"
    assert (reply.get_json()["rows"], reply.get_json()["loaded"]) == (2, 2)
    assert values(client, "precios") == {"méxico": {"valor": 7}, "alemania": {"valor": 10}}


def test_a_form_s_file_is_loaded_with_what_was_detected(make: Make) -> None:
    client = make()
    reply = client.post("/datasets", **form(CSV, name="precios"))

    assert reply.status_code == 201, reply.text
    report = reply.get_json()
    assert (report["key_column"], report["format"]) == ("clave", "csv")
    assert report["columns"] == [{"name": "valor", "type": "number"}]
    assert report["detected"]["delimiter"] == ";"
    assert report["preview"][0] == {"key": "méxico", "values": {"valor": 7}}


def test_who_knows_better_says_how_numbers_are_written_and_what_holds_none(make: Make) -> None:
    client = make()
    table = b"pieza;alto;ancho\nsilla;1.250;n.v.\nmesa;2.500;7\n"

    guessed = client.post("/datasets", **form(table, name="a")).get_json()
    said = {"decimal": "point", "missing": "n.v., agotado"}
    told = client.post("/datasets", **form(table, name="b", **said)).get_json()

    assert [column["type"] for column in guessed["columns"]] == ["number", "text"]
    assert guessed["preview"][0]["values"] == {"alto": 1250, "ancho": "n.v."}
    assert [note[:35] for note in guessed["notes"]] == ["'ancho' is text: on line 2, 'n.v.' "]
    assert told["preview"][0]["values"] == {"alto": 1.25, "ancho": None}
    assert (told["detected"]["decimal"], told["notes"]) == ("point", [])
    client.post("/datasets", **form(table, name="d", delimiter=","))
    assert [*values(client, "d")] == table.decode().splitlines()
    wrong = client.post("/datasets", **form(table, name="c", decimal="dot"))
    assert [fault["where"] for fault in wrong.get_json()["errors"]] == ["decimal"]


def test_the_unit_of_numbers_is_said_with_them(make: Make) -> None:
    client = make()
    table = "pieza;precio;nota\nsilla;12,50 €;7\nmesa;30,00 €;9\n".encode()
    told = [
        {"name": "precio", "type": "number", "unit": "€"},
        {"name": "nota", "type": "number"},
    ]

    assert client.post("/datasets", **form(table, name="precios")).get_json()["columns"] == told
    assert client.get("/datasets/precios").get_json()["columns"] == told
    answer = client.get("/search?q=silla&dataset=precios").get_json()
    assert answer["blend"]["precio"]["unit"] == "€"
    assert "unit" not in answer["blend"]["nota"]
    assert answer["units"] == {"precio": "€"}
    made = client.post("/datasets", **form(table, name="filtros", attributes="precio")).get_json()
    assert made["columns"][0] == told[0] | {"attribute": True}
    answer = client.get("/search?q=silla&dataset=filtros&mode=exact").get_json()
    assert answer["matches"][0]["attributes"] == {"precio": 12.5}
    assert answer["units"] == {"precio": "€"}
    assert values(client, "precios")["mesa"] == {"precio": 30, "nota": 9}


@pytest.mark.parametrize("columns", ['{"price": "number", "x": "skip"}', "price = number,x=skip,"])
def test_a_form_s_fields_are_the_options(make: Make, columns: str) -> None:
    client = make()
    csv = b"x|word|price\n1|a|7\n2|a|9\n3|b|zero\n"
    fields = {
        "name": "precios",
        "key": "word",
        "delimiter": "|",
        "columns": columns,
        "on_error": "skip",
        "duplicates": "mean",
        "temperature": "0.25",
        "encoder": "random:7",
    }
    report = client.post("/datasets", **form(csv, **fields)).get_json()

    assert report["columns"] == [{"name": "price", "type": "number"}]
    assert [row["line"] for row in report["bad_rows"]] == [4]
    assert values(client, "precios") == {"a": {"price": 8}}
    described = client.get("/datasets/precios").get_json()
    assert (described["temperature"], described["temperature_in_use"]) == ("0.25", 0.25)
    assert described["encoder"].startswith("random:7")


@pytest.mark.parametrize("how", ["raw", "form"])
def test_a_table_is_read_in_the_charset_that_it_is_declared_in(make: Make, how: str) -> None:
    client = make()
    csv = "key,valor\nżółw,7\n"

    def post(name: str, written_in: str, charset: str, **options: str) -> TestResponse:
        content, kind = csv.encode(written_in), f"text/csv; charset={charset}"
        if how == "form":
            file = (io.BytesIO(content), "a.csv", kind)
            return client.post("/datasets", data={"file": file, "name": name, **options})
        url = "/datasets?" + urlencode({"name": name, **options})
        return client.post(url, data=content, content_type=kind)

    declared = post("declared", "iso-8859-2", "iso-8859-2")
    chosen = post("chosen", "cp1250", "iso-8859-2", encoding="cp1250")
    unknown = post("unknown", "utf-8", "klingon")

    assert declared.get_json()["detected"]["encoding"] == "iso-8859-2"
    assert values(client, "declared") == {"żółw": {"valor": 7}}
    assert chosen.get_json()["detected"]["encoding"] == "cp1250"
    assert values(client, "chosen") == {"żółw": {"valor": 7}}
    assert [fault["where"] for fault in unknown.get_json()["errors"]] == ["encoding"]


@pytest.mark.parametrize("written_in", ["utf-8", "utf-8-sig"])
def test_a_mark_at_the_beginning_is_said_to_be_there_where_it_is(
    make: Make, written_in: str
) -> None:
    sent = {"data": "key,v\naño,1\n".encode(written_in), "content_type": "text/csv; charset=UTF-8"}
    report = make().post("/datasets?name=a", **sent).get_json()

    assert report["detected"]["encoding"] == written_in
    assert report["preview"] == [{"key": "año", "values": {"v": 1}}]


@pytest.mark.parametrize("kind", ["application/vnd.apache.parquet", "application/octet-stream"])
def test_the_charset_of_what_is_no_text_counts_for_nothing(make: Make, kind: str) -> None:
    client = make()
    table, declared = parquet(pa.Table.from_pylist(ROWS)), f"{kind}; charset=binary"
    file = (io.BytesIO(table), "a.parquet", declared)
    replies = [client.post("/datasets", data={"file": file, "name": "form"})]
    if kind != "application/octet-stream":
        replies.append(client.post("/datasets?name=raw", data=table, content_type=declared))

    assert [reply.status_code for reply in replies] == [201] * len(replies), replies[0].text


def test_a_document_is_read_in_its_own_encoding_whatever_it_asks_for(client: CheckedClient) -> None:
    body = {"name": "niños", "entries": {"niño": "año"}, "encoding": "latin-1"}

    assert client.post("/datasets", json=body).status_code == 201
    exported = client.get("/datasets/niños/export?format=jsonl").text
    assert json.loads(exported) == {"key": "niño", "value": "año"}


@pytest.mark.parametrize(
    "entries",
    [
        {"méxico": 7, "perro": 5},
        [["méxico", 7], ["perro", 5]],
        [{"key": "méxico", "value": 7}, {"key": "perro", "value": 5}],
        {"méxico": {"value": 7}, "perro": {"value": 5}},
    ],
)
def test_a_json_document_holds_a_name_and_entries(make: Make, entries: object) -> None:
    client = make()
    reply = client.post("/datasets", json={"name": "precios", "entries": entries})

    assert reply.status_code == 201, reply.text
    assert values(client, "precios") == {"méxico": {"value": 7}, "perro": {"value": 5}}


def test_a_json_document_holds_options_too(make: Make) -> None:
    client = make()
    entries = [{"word": "a", "price": 7}, {"word": "a", "price": 9}]
    body = {"name": "p", "entries": entries, "key": "word", "duplicates": "last"}

    assert client.post("/datasets", json=body).get_json()["duplicates"] == 1
    assert values(client, "p") == {"a": {"price": 9}}
    spelled = {"dry_run": "1", "wait": "yes", "tolerance": "0.1"}  # as an address has them
    assert client.faults("POST", "/datasets", json={**body, **spelled}).keys() == {*spelled}


def test_an_option_in_the_address_and_in_the_document_is_given_twice(client: CheckedClient) -> None:
    body = {"name": "p", "entries": {"a": 1}, "dry_run": False, "key": "key"}

    assert client.faults("POST", "/datasets?dry_run=1&key=key&wait=1", json=body) == {
        "dry_run": "given more than once",
        "key": "given more than once",
    }
    assert client.get("/datasets/p").status_code == 404


@pytest.mark.parametrize("entries", [{"a": 1}, {"a": {"v": 1}}, [["a", 1]], [{"key": "a"}]])
def test_a_document_with_its_name_in_the_address_is_no_table_of_one_key(
    make: Make, entries: object
) -> None:
    client = make()

    def spaced(body: bytes) -> bytes:
        return codecs.BOM_UTF8 + b"\n" + body.replace(b'":', b'" :')

    for packed in (bytes, gzip.compress, spaced):
        for options in ({}, {"name": "p", "temperature": 0.1, "header": None}):
            body = packed(json.dumps({**options, "entries": entries}, indent=1).encode())
            sent = {"data": body, "content_type": "application/json"}
            faults = client.faults("POST", "/datasets?name=p", **sent)

            assert '{"name": "p", "entries": …}' in faults["name"]
    assert client.get("/datasets/p").status_code == 404


@pytest.mark.parametrize(
    "table",
    [{"entries": 3, "exits": 4}, {"exits": {"v": 4}, "entries": {"v": 3}}, [["entries", 3]]],
)
def test_a_table_may_have_a_key_that_is_called_entries(make: Make, table: object) -> None:
    client = make()
    reply = client.post("/datasets?name=p", json=table)

    assert reply.status_code == 201, reply.text
    assert client.get("/datasets/p/entries/entries").status_code == 200


def test_a_name_twice_in_a_json_object_is_refused(client: CheckedClient) -> None:
    body = '{"name": "p", "entries": {"a": 1, "a": 2}}'
    reply = client.post("/datasets", data=body, content_type="application/json")

    assert (reply.status_code, "'a' stands twice" in reply.get_json()["detail"]) == (400, True)


@pytest.mark.parametrize("text", ['"\\ud800"', "NaN", "1e999", "[" * 100_000])
def test_what_json_cannot_say_is_refused_in_a_document(client: CheckedClient, text: str) -> None:
    body = '{"name": "p", "entries": [["a", ' + text + "]]}"
    reply = client.post("/datasets", data=body, content_type="application/json")

    assert (reply.status_code, reply.get_json()["type"]) == (400, "/problems/malformed-request")


def test_what_json_cannot_say_inside_a_cell_of_a_file_is_named_as_it_is_written(make: Make) -> None:
    body = b'[{"key": "a", "v": ["\\ud800"]}, {"key": "b", "v": ["x"]}]'
    client = make()
    reply = client.post("/datasets?name=p", data=body, content_type="application/json")
    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/bad-rows")
    assert r'["\ud800"] is a list' in reply.get_json()["errors"][0]["message"]

    job = client.post("/datasets?name=p&wait=0", data=body, content_type="application/json")
    while (ended := client.get(job.headers["Location"]).get_json())["finished"] is None:
        time.sleep(0.01)
    assert ended["problem"]["type"] == "/problems/bad-rows"
    assert client.get("/jobs").status_code == 200


def test_what_a_dataset_was_told_is_said_when_it_is_replaced(make: Make) -> None:
    client = make()
    told = {"temperature": "0.05", "tolerance": "0.01", "attributes": "g"}
    table = b"key,v,g\na,1,x\nb,2,x\nc,3,y\n"

    def notes(**options: str) -> list[str]:
        reply = client.post("/datasets", **form(table, name="p", if_exists="replace", **options))
        assert reply.status_code in (200, 201), reply.text
        return list(reply.get_json()["notes"])

    def had(what: str) -> list[str]:
        return [f"the dataset that is replaced had {what}: what is to stay, say again"]

    assert notes(**told) == []  # it replaces nothing
    assert notes(**told) == []
    assert notes(dry_run="1") == had("temperature 0.05, tolerance 0.01, g among its attributes")
    assert notes(tolerance="0.01", attributes="g") == had("temperature 0.05")
    assert notes(encoder="circle:a,b,c") == had(
        "tolerance 0.01, encoder random, g among its attributes"
    )
    assert notes(temperature="0.2", precision="half") == had("encoder circle:a,b,c")
    assert notes(temperature="0.1", tolerance="0.1") == had("temperature 0.2, precision half")


def test_a_dry_run_writes_nothing(make: Make) -> None:
    client = make()
    reply = client.post("/datasets", **form(CSV, name="precios", dry_run="1"))

    assert (reply.status_code, reply.get_json()["dry_run"]) == (200, True)
    assert (reply.get_json()["rows"], reply.get_json()["loaded"]) == (2, 0)
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_a_form_s_file_is_of_the_format_that_its_name_says(make: Make) -> None:
    """One column of one line looks like no format in particular."""
    reply = make().post("/datasets", **form(b"key\na b\n", "p.tsv", name="p"))

    assert (reply.status_code, reply.get_json()["format"]) == (201, "tsv")


def test_if_exists_says_what_becomes_of_the_old_one(client: CheckedClient) -> None:
    body = {"name": "paises", "entries": {"chile": 6}}
    refused = client.post("/datasets", json=body)
    appended = client.post("/datasets", json={**body, "if_exists": "append"})
    kept = set(values(client, "paises"))
    replaced = client.post("/datasets", json={**body, "if_exists": "replace"})

    assert (refused.status_code, refused.get_json()["type"]) == (409, "/problems/dataset-exists")
    assert (appended.status_code, kept) == (200, {*COUNTRIES, "chile"})
    assert (replaced.status_code, set(values(client, "paises"))) == (201, {"chile"})


@pytest.mark.parametrize("meanwhile", ["deleted", "created"])
def test_an_append_goes_to_a_dataset_made_meanwhile_and_to_none_that_was_deleted(
    make: Make, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    client = make()
    module = index.softdict if meanwhile == "deleted" else index.catalog
    prepare = module.prepare

    def other_request(*given: object, **named: object) -> object:
        monkeypatch.setattr(module, "prepare", prepare)
        if meanwhile == "deleted":
            client.delete("/datasets/d")
        else:
            client.post("/datasets", json={"name": "d", "entries": {"new": 2}})
        return prepare(*given, **named)

    if meanwhile == "deleted":
        client.post("/datasets", json={"name": "d", "entries": {"old": 0}})
    monkeypatch.setattr(module, "prepare", other_request)
    body = {"name": "d", "entries": {"a": 1}, "if_exists": "append"}
    reply = client.post("/datasets", json=body)

    assert "Location" not in reply.headers  # of what is created
    if meanwhile == "deleted":
        assert (reply.status_code, reply.get_json()["type"]) == (404, "/problems/unknown-dataset")
        assert client.get("/datasets/d").status_code == 404
    else:
        assert (reply.status_code, set(values(client, "d"))) == (200, {"new", "a"})


@pytest.mark.parametrize("how", ["form", "document"])
def test_a_load_takes_the_settings_of_the_dataset_it_makes(make: Make, how: str) -> None:
    client = make()
    settings: dict[str, Any] = {"temperature": 0.5, "tolerance": 0.2, "precision": "half"}
    if how == "form":
        reply = client.post("/datasets", **form(CSV, name="p", **settings))
    else:
        reply = client.post("/datasets", json={"name": "p", "entries": {"a": 1}, **settings})
    found = client.get("/datasets/p").get_json()

    assert reply.status_code == 201, reply.text
    assert {name: found[name] for name in settings} == {**settings, "temperature": "0.5"}


def test_bad_rows_are_named_by_line_and_leave_nothing_behind(make: Make) -> None:
    client = make()
    csv = b"key,price\na,7\nb,cheap\nc,8\nd,dear\n"
    reply = client.post("/datasets", **form(csv, name="p", columns='{"price": "number"}'))

    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/bad-rows")
    assert [fault["where"] for fault in reply.get_json()["errors"]] == ["line 3", "line 5"]
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_what_is_no_table_is_unreadable(make: Make) -> None:
    reply = make().post(
        "/datasets?name=p", data=b"PAR1 no", content_type="application/vnd.apache.parquet"
    )

    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/unreadable-source")


def test_a_table_without_a_name_is_refused(make: Make) -> None:
    client = make()
    raw = {"data": b"key,v\na,1\n", "content_type": "text/csv"}

    for sent in (raw, form(CSV)):
        assert client.faults("POST", "/datasets", **sent) == {"name": "required, and not given"}
    assert "name" in client.faults("POST", "/datasets", json={"entries": {"a": 1}})
    assert "name" in client.faults("POST", "/datasets", json=[{"key": "a", "value": 1}])


PART = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nkey,v\na,1\r\n'
END = b"--B--\r\n"


def test_a_form_holds_exactly_one_file_and_no_unknown_field(make: Make) -> None:
    client = make()
    nothing = {"data": {"name": "p"}, "content_type": "multipart/form-data"}
    none = client.faults("POST", "/datasets", **nothing)
    two = client.faults(
        "POST",
        "/datasets",
        data={"name": "p", "file": (io.BytesIO(CSV), "a.csv"), "also": (io.BytesIO(CSV), "b.csv")},
    )
    unknown = client.faults("POST", "/datasets", **form(CSV, name="p", delimitre=";"))

    assert (list(none), list(two)) == (["file"], ["file"])
    assert unknown == {"delimitre": "there is no such parameter; did you mean delimiter?"}


def test_a_form_of_nothing_or_of_parts_without_a_name_is_refused(make: Make) -> None:
    client = make()

    def faults(body: bytes) -> dict[str, str]:
        kind = "multipart/form-data; boundary=B"
        return client.faults("POST", "/datasets?name=a", data=body, content_type=kind)

    part = b"--B\r\nContent-Disposition: form-data%b\r\n\r\nkey,v\r\n"
    nameless, file = part % b"", part % b'; filename="a.csv"'
    assert faults(b"")["file"].endswith("got none")
    assert faults(nameless + END)[""].startswith("there is no such parameter")
    assert "" in faults(nameless + nameless + END)
    assert faults(file + END)["file"].endswith("got one without a name")


def test_a_field_of_a_form_that_is_not_utf8_is_no_other_text(make: Make) -> None:
    field = b'--B\r\nContent-Disposition: form-data; name="missing"\r\n\r\n\xf1\r\n'
    kind = "multipart/form-data; boundary=B"
    reply = make().post("/datasets?name=a", data=PART + field + END, content_type=kind)

    assert reply.status_code == 400
    assert reply.get_json()["detail"] == "a field of the form is not UTF-8"


def test_a_file_that_is_text_is_told_how_it_is_sent(make: Make) -> None:
    sent = {"data": {"name": "p", "file": "precios.csv"}, "content_type": "multipart/form-data"}
    fault = make().faults("POST", "/datasets", **sent)["file"]

    assert fault.startswith("send exactly one file, as the field file; got text")
    both = {"name": "p", "file": [(io.BytesIO(CSV), "precios.csv"), "precios.csv"]}
    fault = make().faults("POST", "/datasets", **sent | {"data": both})["file"]
    assert fault.startswith("send exactly one file, as the field file; got file, text")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", PART + END),
        ("multipart/form-data; boundary=C", PART + END),
        ("multipart/form-data; boundary=B", PART[:50]),
        ("multipart/form-data; boundary=B", PART.replace(b"a.csv", b"a\xf1o.csv") + END),
        ("multipart/form-data; boundary=B", b"--B\r\n\r\nkey,v\na,1\r\n--B--\r\n"),
    ],
    ids=["no boundary", "another boundary", "cut short", "a name not in UTF-8", "a part of none"],
)
def test_a_form_that_cannot_be_read_is_no_empty_one(make: Make, kind: str, body: bytes) -> None:
    reply = make().post("/datasets?name=a", data=body, content_type=kind)

    assert (reply.status_code, reply.get_json()["type"]) == (400, "/problems/malformed-request")
    assert reply.get_json()["detail"].startswith("the form cannot be read: ")


def test_every_wrong_option_is_named_at_once(make: Make) -> None:
    wrong = {
        "name": "p",
        "columns": '{"price": "money"}',
        "on_error": "ignore",
        "duplicates": "max",
        "if_exists": "merge",
        "format": "xlsx",
        "temperature": "hot",
        "tolerance": "1",
        "precision": "quarter",
        "delimiter": '"',
        "header": "perhaps",
        "encoding": "klingon",
    }
    url = "/datasets?" + urlencode(wrong)
    faults = make().faults("POST", url, data=CSV, content_type="text/csv")

    assert faults["delimiter"] == "'\"' is not one character such as , or ;"
    assert faults["encoding"] == "'klingon' is no encoding; utf-8, cp1252… are"
    assert "encoding" in make().faults("POST", "/datasets?name=p&encoding=locale", data=CSV)
    assert set(faults) == {*wrong, "columns.price"} - {"name", "columns"}


def test_what_is_not_json_is_one_fault_among_the_others(make: Make) -> None:
    wrong = {"columns": "{", "attributes": "[", "header": "maybe", "foo": "1", "format": "xml"}
    url = "/datasets?" + urlencode({"name": "p", **wrong})
    faults = make().faults("POST", url, data=CSV, content_type="text/csv")

    assert set(faults) == set(wrong)
    assert faults["columns"].startswith("this is not JSON: ")
    assert faults["attributes"].startswith("this is not JSON: ")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("price", "'price' is no name=type; write price=number, note=skip, or JSON"),
        ("a=text, =number", "'=number' is no name=type; write"),
        ("a=text, a=number", "'a' is named twice; write"),
        ("a=money", "write number, vector, category, text or skip"),
        ("a=", "write number, vector, category, text or skip"),
        ('{"a": {}}', "write number, vector, category, text or skip"),
    ],
)
def test_types_are_pairs_of_names_and_types(make: Make, columns: str, said: str) -> None:
    faults = make().faults("POST", "/datasets", **form(CSV, name="p", columns=columns))

    assert said in next(iter(faults.values()))


@pytest.mark.parametrize(("header", "keys"), [("1", ["5", "7"]), ("0", ["gato", "5", "7"])])
def test_whether_the_first_line_names_the_columns_can_be_said(
    make: Make, header: str, keys: list[str]
) -> None:
    client = make()
    table = {"data": b"gato,2\n5,6\n7,8\n", "content_type": "text/csv"}

    assert client.post(f"/datasets?name=t&header={header}", **table).status_code == 201
    page = client.get("/datasets/t/entries").get_json()
    assert [entry["key"] for entry in page["entries"]] == keys


NO_VECTOR = {
    "text/csv": b"key,a,n\nx,,1\ny,,2\n",
    "application/json": b'[{"key": "x", "a": null, "n": 1}]',
    "application/vnd.apache.parquet": parquet(
        pa.table({"key": ["x"], "a": pa.array([None], pa.list_(pa.float64())), "n": [1]})
    ),
}


@pytest.mark.parametrize("kind", NO_VECTOR)
def test_a_column_of_vectors_without_any_is_refused(make: Make, kind: str) -> None:
    client = make()
    table = {"data": NO_VECTOR[kind], "content_type": kind}
    url = "/datasets?name=p&columns=" + quote('{"a": "vector"}')
    loaded = client.faults("POST", url, **table)
    dry = client.faults("POST", url + "&dry_run=1", **table)

    assert list(loaded) == ["columns.a"]
    assert "skip the column" in loaded["columns.a"]
    assert dry == loaded
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_a_store_with_a_column_of_vectors_without_any_answers(make: Make, tmp_path: Path) -> None:
    entries = {"x": {"a": "", "n": 1}, "y": {"a": "", "n": 2}}
    with Catalog.open(tmp_path / "store-0") as catalog:  # as earlier versions made one
        dataset = catalog.create("d", encoder="random")
        dataset.update(entries)
        dataset.update({key: {"a": None, "n": held["n"]} for key, held in entries.items()})
        dataset._moments.store.set_columns(
            dataset.id, [Column("a", "vector"), Column("n", "number")]
        )
    client = make()
    found = client.get("/search?q=x&explain=1").get_json()
    exported = client.get("/datasets/d/export").text
    missing = client.get("/search?q=x&where=" + quote("a is missing")).get_json()
    refused = client.put("/datasets/d/entries/x", json={"values": {"a": [1, 2]}})

    assert client.get("/datasets").get_json()["datasets"][0]["missing"] == {"a": 2, "n": 0}
    assert found["blend"]["a"] is None
    assert values(client, "d") == {"x": {"a": None, "n": 1}, "y": {"a": None, "n": 2}}
    assert exported.splitlines() == ["key,a,n", "x,,1", "y,,2"]
    assert missing["attention"]["keys"] == 2
    assert (refused.status_code, refused.get_json()["type"]) == (422, "/problems/wrong-value")


def test_a_document_may_be_larger_than_a_file_where_the_settings_say_so(make: Make) -> None:
    client = make(max_upload=1000, max_json=2**21)
    document = {"name": "d", "entries": {"a": "x" * 2**20 + "y" * 2**18}}

    assert client.post("/datasets", json=document).status_code == 202
    table = client.post(
        "/datasets?name=t", data=b"key,v\n" + b"a,1\n" * 500, content_type="text/csv"
    )
    assert (table.status_code, table.get_json()["type"]) == (413, "/problems/too-large")
    assert "1,000 bytes, the setting max_upload" in table.get_json()["detail"]


def test_an_encoder_that_is_none_is_refused(make: Make) -> None:
    faults = make().faults("POST", "/datasets", **form(CSV, name="p", encoder="psychic", key=""))

    assert faults == {"encoder": faults["encoder"], "key": "write something"}
    assert faults["encoder"].startswith("there is no encoder 'psychic'")


def test_an_encoder_s_name_is_no_longer_than_a_list_of_datasets_takes(make: Make) -> None:
    client = make()
    body = {"name": "p", "entries": {"a": 1}}
    longest = {"encoder": "circle:" + 9_993 * "a"}
    longer = {"encoder": "circle:" + 9_994 * "a"}

    assert client.faults("POST", "/datasets", json=body | longer) == {
        "encoder": "at most 10,000 characters"
    }
    assert client.post("/datasets", json=body | longest).status_code == 201


@pytest.mark.parametrize("encoder", ["st:some/model", "st:/etc"])
def test_nobody_makes_the_service_fetch_or_open_a_model(make: Make, encoder: str) -> None:
    faults = make().faults("POST", "/datasets", **form(CSV, name="p", encoder=encoder))

    assert faults == {"encoder": faults["encoder"]}
    assert "only the service's own sentence-transformers model" in faults["encoder"]


@pytest.mark.parametrize("multipart", [False, True])
def test_an_upload_above_the_limit_is_refused_and_the_limit_named(
    make: Make, multipart: bool
) -> None:
    client = make(max_upload=1000)
    csv = b"key,v\n" + b"".join(b"%d,1\n" % i for i in range(500))
    if multipart:
        reply = client.post("/datasets", **form(csv, name="p"))
    else:
        reply = client.post("/datasets?name=p", data=csv, content_type="text/csv")

    assert (reply.status_code, reply.get_json()["type"]) == (413, "/problems/too-large")
    assert "1,000 bytes, the setting max_upload" in reply.get_json()["detail"]
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_parquet_that_unpacks_beyond_the_limit_is_refused(make: Make) -> None:
    client = make(max_upload=10_000)
    sink = io.BytesIO()
    table = pa.table({"key": ["a", "b"], "text": ["x" * 9_000] * 2})
    pyarrow.parquet.write_table(table, sink, compression="zstd")
    assert len(sink.getvalue()) < 5_000
    reply = client.post("/datasets?name=p&format=parquet", data=sink.getvalue())

    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/unreadable-source")
    assert "unpacks to more than 10,000 characters" in reply.get_json()["detail"]
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_rows_above_the_limit_are_refused(make: Make) -> None:
    client = make(max_rows=2)
    reply = client.post("/datasets", json={"name": "p", "entries": {"a": 1, "b": 2, "c": 3}})

    assert reply.status_code == 422
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_a_load_takes_no_longer_key_than_a_request_does(make: Make) -> None:
    """It could be neither read nor deleted by its address."""
    client = make(max_key=5)
    post = {"query_string": {"name": "p", "on_error": "skip"}, "content_type": "text/csv"}
    report = client.post("/datasets", data=b"key,v\nabcde,1\nabcdef,2\n", **post).get_json()

    assert (report["loaded"], report["bad_row_count"]) == (1, 1)
    assert set(values(client, "p")) == {"abcde"}


def test_the_list_is_in_order_of_creation_and_names_columns(client: CheckedClient) -> None:
    found = client.get("/datasets").get_json()["datasets"]

    assert [each["name"] for each in found] == ["paises", "palabras", "colores"]
    assert found[2]["columns"] == [{"name": "value", "type": "vector", "width": 3}]
    assert [each["entries"] for each in found] == [4, 3, 3]


def test_the_version_counts_changes(client: CheckedClient) -> None:
    before = client.get("/datasets/paises").get_json()
    asked = time.time()
    client.put("/datasets/paises/entries/chile", json=6)
    after = client.get("/datasets/paises").get_json()

    assert after["version"] > before["version"]
    assert after["modified"] >= asked >= before["modified"]
    assert after["created"] == before["created"] <= before["modified"]


def test_the_temperature_can_be_set_and_is_used(client: CheckedClient) -> None:
    changed = client.patch("/datasets/paises", json={"temperature": 0.5})

    assert (changed.status_code, changed.get_json()["temperature"]) == (200, "0.5")
    attention = client.get("/search?q=país").get_json()["attention"]
    assert attention["temperature"] == pytest.approx(0.5)


def test_a_patch_answers_with_what_it_wrote_whatever_happens_meanwhile(
    client: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.TURN_WAIT", 0.01)
    configure = SoftDict.configure

    def then_others(self: SoftDict, **settings: object) -> None:
        configure(self, **settings)
        monkeypatch.setattr(SoftDict, "configure", configure)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(client.patch, "/datasets/paises", json={"temperature": 0.9}).result()

    monkeypatch.setattr(SoftDict, "configure", then_others)
    reply = client.patch("/datasets/paises", json={"temperature": 0.5})

    assert (reply.status_code, reply.get_json()["temperature"]) == (200, "0.5"), reply.text


@pytest.mark.parametrize("temperature", ["hot", -1, 0, True, [0.1]])
def test_a_temperature_that_is_none_is_refused(client: CheckedClient, temperature: object) -> None:
    faults = client.faults("PATCH", "/datasets/paises", json={"temperature": temperature})

    assert {where.partition(".")[0] for where in faults} == {"temperature"}


def test_the_tolerance_can_be_set_and_null_is_the_default_one(client: CheckedClient) -> None:
    def settings(**given: object) -> tuple[object, ...]:
        changed = client.patch("/datasets/paises", json=given)
        assert changed.status_code == 200, changed.text
        assert client.get("/datasets/paises").get_json() == changed.get_json()
        names = ("temperature", "tolerance", "tolerance_in_use")
        return tuple(changed.get_json()[name] for name in names)

    assert settings(tolerance=0.1) == ("auto", 0.1, 0.1)
    assert settings(temperature=0.5) == ("0.5", 0.1, 0.1)
    assert settings(tolerance=None) == ("0.5", None, 0.03)
    assert settings(tolerance=0, temperature="auto") == ("auto", 0.0, 0.0)


def test_a_temperature_of_null_is_the_default_one(client: CheckedClient) -> None:
    client.patch("/datasets/paises", json={"temperature": 0.5})
    changed = client.patch("/datasets/paises", json={"temperature": None})
    loaded = client.post("/datasets", json={"name": "d", "entries": {"a": 1}, "temperature": None})

    assert (changed.status_code, loaded.status_code) == (200, 201), loaded.text
    assert changed.get_json()["temperature"] == "auto"
    assert client.get("/datasets/d").get_json()["temperature"] == "auto"


def test_the_precision_can_be_set(client: CheckedClient) -> None:
    changed = client.patch("/datasets/paises", json={"precision": "half"})
    refused = client.faults("PATCH", "/datasets/paises", json={"precision": "quarter"})

    assert changed.get_json()["precision"] == "half"
    assert changed.get_json()["precision_in_use"] == "full"  # it is small
    assert list(refused) == ["precision"]


def test_settings_change_together_or_not_at_all(client: CheckedClient) -> None:
    body = {"temperature": "hot", "tolerance": 1, "colour": "red"}
    both = client.faults("PATCH", "/datasets/paises", json=body)
    one = client.faults("PATCH", "/datasets/paises", json={"temperature": 1, "tolerance": "low"})
    none = client.faults("PATCH", "/datasets/paises", json={})

    assert {where.partition(".")[0] for where in both} == {"temperature", "tolerance", "colour"}
    assert list(one) == ["tolerance"]
    assert none == {"body": "write temperature, tolerance or precision"}
    described = client.get("/datasets/paises").get_json()
    assert (described["temperature"], described["tolerance"]) == ("auto", None)


def test_delete_removes_the_dataset(client: CheckedClient) -> None:
    assert client.delete("/datasets/paises").status_code == 204

    gone = client.get("/datasets/paises")
    assert (gone.status_code, gone.get_json()["type"]) == (404, "/problems/unknown-dataset")
    assert client.get("/search?q=GATO").get_json()["dataset"] == "palabras"


def test_an_empty_catalog_says_so(make: Make) -> None:
    client = make()
    for path in ("/search?q=a", "/compare?q=a"):
        reply = client.get(path)
        assert (reply.status_code, reply.get_json()["type"]) == (404, "/problems/no-datasets")
    assert client.get("/readyz").status_code == 503  # nothing has been opened in this process yet


def test_until_what_is_bundled_is_there_nothing_is_said_to_be_unknown(make: Make) -> None:
    client = make(bundled=True)  # whose start nobody begins

    for path in ("/search?q=a", "/datasets/paises"):
        reply = client.get(path)
        assert (reply.status_code, reply.get_json()["type"]) == (503, "/problems/not-ready")
        assert reply.get_json()["detail"].startswith("creating the bundled datasets; try again")


def without_datasets(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[CheckedClient, Runtime]:
    """Have a service whose datasets are to come from a folder, where nothing is yet."""
    monkeypatch.setattr("service.runtime.BUNDLED", folder)
    client = make(bundled=True)
    return client, client.application.extensions["softdict"]


def test_a_start_that_failed_a_moment_ago_is_not_tried_again(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.START_WAIT", 2 * PATIENCE)
    client, state = without_datasets(make, tmp_path, monkeypatch)
    state.warm_up()
    first = state._warming
    first.join(60)

    assert client.get("/readyz").get_json()["detail"].startswith("the start failed: ")
    assert state._warming is first


def test_a_start_that_goes_on_is_not_begun_once_more(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.START_WAIT", 0.0)
    client, state = without_datasets(make, tmp_path, monkeypatch)
    state.warm_up()
    state._warming.join(60)
    listed = tmp_path / "datasets.json"
    os.mkfifo(listed)  # at which a start waits

    client.get("/readyz")
    second = state._warming
    client.get("/readyz")
    third = state._warming
    listed.write_text("[]")
    second.join(60)

    assert third is second
    assert client.get("/readyz").status_code == 200


def test_a_start_that_failed_is_tried_again_until_it_does_not(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.runtime.START_WAIT", 0.0)
    client, state = without_datasets(make, tmp_path, monkeypatch)

    def started() -> TestResponse:
        state._warming.join(60)
        return client.get("/readyz")

    state.warm_up()
    failed = started()
    both = [{"name": name, "file": f"{name}.csv"} for name in "ab"]
    (tmp_path / "datasets.json").write_text(json.dumps(both))
    (tmp_path / "a.csv").write_text("key,value\none,1\n")
    started()  # it may have failed once more, a moment ago
    again = started()
    assert client.delete("/datasets/a").status_code == 204
    (tmp_path / "b.csv").write_text("key,value\ntwo,2\n")
    started()
    ready = started()

    assert (failed.status_code, again.status_code, ready.status_code) == (503, 503, 200)
    assert failed.get_json()["detail"].startswith("the start failed: ")
    assert client.get("/search?q=one").get_json()["dataset"] == "b"
    assert client.get("/datasets/a").status_code == 404
    assert [each["name"] for each in client.get("/datasets").get_json()["datasets"]] == ["b"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
def test_a_dataset_that_is_not_there_is_a_problem(client: CheckedClient, method: str) -> None:
    body = {"json": {"temperature": 1}} if method == "PATCH" else {}
    reply = client.open("/datasets/nada", method=method, **body)

    assert (reply.status_code, reply.get_json()["type"]) == (404, "/problems/unknown-dataset")
    assert "paises, palabras, colores" in reply.get_json()["detail"]


def test_exports_come_back_as_the_same_table(client: CheckedClient) -> None:
    csv = client.get("/datasets/paises/export")
    lines = client.get("/datasets/paises/export?format=jsonl")
    table = client.get("/datasets/paises/export?format=parquet")

    assert (csv.mimetype, csv.headers["Content-Disposition"]) == (
        "text/csv",
        "attachment; filename=paises.csv; filename*=UTF-8''paises.csv",
    )
    rows = pyarrow.csv.read_csv(io.BytesIO(csv.data)).to_pylist()
    assert {row["key"]: row["value"] for row in rows} == COUNTRIES
    read = [json.loads(line) for line in lines.data.splitlines()]
    assert {row["key"]: row["value"] for row in read} == COUNTRIES
    assert lines.mimetype == "application/x-ndjson"
    written = pa.parquet.read_table(io.BytesIO(table.data)).to_pylist()
    assert {row["key"]: row["value"] for row in written} == COUNTRIES


def test_an_export_has_the_decimal_mark_that_is_asked_for(client: CheckedClient) -> None:
    client.put("/datasets/paises/entries/perro", json=5.5)
    exported = client.get("/datasets/paises/export?decimal=comma").data

    assert exported.startswith(codecs.BOM_UTF8)
    table = pyarrow.csv.read_csv(
        io.BytesIO(exported.removeprefix(codecs.BOM_UTF8)),
        parse_options=pyarrow.csv.ParseOptions(delimiter=";"),
        convert_options=pyarrow.csv.ConvertOptions(decimal_point=","),
    )
    read = {row["key"]: row["value"] for row in table.to_pylist()}
    assert read == COUNTRIES | {"perro": 5.5}


@pytest.mark.parametrize("format_", ["csv", "jsonl", "parquet"])
def test_an_export_loads_again_as_it_was(client: CheckedClient, format_: str) -> None:
    exported = client.get(f"/datasets/colores/export?format={format_}")
    kind = exported.mimetype
    reply = client.post("/datasets?name=otra", data=exported.data, content_type=kind)

    assert reply.status_code == 201, reply.text
    assert values(client, "otra") == values(client, "colores")


def test_a_table_of_markdown_is_read_by_its_content_type(make: Make) -> None:
    client = make()
    table = "| fruit | price |\n|---|---:|\n| pear | 1.5 |\n| fig | 4 |\n"
    reply = client.post("/datasets?name=m", data=table, content_type="text/markdown")

    assert reply.status_code == 201, reply.text
    assert values(client, "m") == {"pear": {"price": 1.5}, "fig": {"price": 4.0}}


def test_an_export_in_another_format_is_refused(client: CheckedClient) -> None:
    assert client.faults("GET", "/datasets/paises/export?format=xlsx") == {
        "format": "write 'csv', 'jsonl' or 'parquet'"
    }


def test_a_gzipped_file_is_unpacked(make: Make) -> None:
    client = make()
    reply = client.post("/datasets", **form(gzip.compress(CSV), "precios.csv.gz", name="p"))

    assert (reply.status_code, reply.get_json()["loaded"]) == (201, 2)


def test_a_table_may_be_packed_with_gzip_and_nothing_else(make: Make) -> None:
    client = make()
    query, kind = "/datasets?if_exists=replace&name=p", "text/csv"
    packed, coded = gzip.compress(CSV), {"Content-Encoding": "gzip"}
    whole = form(CSV, "p.csv", name="p")

    assert client.post(query, data=packed, content_type=kind, headers=coded).status_code == 201
    for refused in (
        client.post(query, data=CSV, content_type=kind, headers={"Content-Encoding": "br"}),
        client.post("/datasets", **whole, headers=coded),
        client.post("/datasets", json={"name": "p", "entries": {"a": 1}}, headers=coded),
    ):
        assert refused.status_code == 415
        assert "packed with" in refused.get_json()["detail"]


def test_the_limit_is_on_what_a_gzipped_file_unpacks_to(make: Make) -> None:
    client = make(max_upload=10_000)
    bomb = gzip.compress(b"key,v\n" + b"0" * 10_000)
    reply = client.post("/datasets", **form(bomb, "p.csv.gz", name="p"))

    assert len(bomb) < 1000
    assert (reply.status_code, reply.get_json()["type"]) == (413, "/problems/too-large")
    assert "the table, unpacked, is larger than 10,000 bytes" in reply.get_json()["detail"]


def test_what_is_gzipped_twice_is_refused_and_not_unpacked_beyond_the_limit(make: Make) -> None:
    client = make(max_upload=10_000)
    bomb = gzip.compress(gzip.compress(b"key,v\n" + b"a,1\n" * 100_000))
    reply = client.post("/datasets", **form(bomb, "p.csv.gz", name="p"))

    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/unreadable-source")
    assert reply.get_json()["detail"] == "it is gzipped twice; send it gzipped once"


PACKED = gzip.compress(CSV)


@pytest.mark.parametrize(
    "damaged",
    [PACKED[:-9], PACKED[:10] + b"\xff" + PACKED[11:], PACKED[:-8] + bytes(4) + PACKED[-4:]],
    ids=["cut short", "no deflated data", "another checksum"],
)
def test_a_damaged_gzipped_file_is_unreadable(make: Make, damaged: bytes) -> None:
    reply = make().post("/datasets", **form(damaged, "p.csv.gz", name="p"))

    assert (reply.status_code, reply.get_json()["type"]) == (422, "/problems/unreadable-source")


def test_a_form_with_an_enormous_field_is_refused(make: Make) -> None:
    # Above Werkzeug's limit, and below the size from which it leaves a temporary file unclosed.
    reply = make().post("/datasets", **form(CSV, name="p", columns="{" + " " * 505_000 + "}"))

    assert (reply.status_code, reply.get_json()["type"]) == (413, "/problems/too-large")
    assert "fields beside the file" in reply.get_json()["detail"]


def test_a_form_of_very_many_fields_is_refused_and_their_limit_named(make: Make) -> None:
    fields = {f"field{number}": "1" for number in range(1_100)}
    reply = make().post("/datasets", **form(CSV, name="p", **fields))

    assert (reply.status_code, reply.get_json()["type"]) == (413, "/problems/too-large")
    assert reply.get_json()["detail"] == (
        "the form has more than 1,000 parts, or one of its fields beside the file "
        "is larger than 500,000 bytes, the most that is read"
    )


ATTRIBUTES = "key,price,country\nwine,9,ES\nbeer,2,DE\n"


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": "country"},
        {"attributes": " country ,"},
        {"attributes": '["country"]'},
        {"attributes": ' ["country"]'},
        {"columns": '{"country": {"attribute": true}}'},
        {"columns": '{"country": {"type": "text", "attribute": true}, "price": "number"}'},
    ],
)
def test_a_column_is_loaded_as_an_attribute(make: Make, fields: dict[str, str]) -> None:
    client = make()
    dry = client.post("/datasets", **form(ATTRIBUTES.encode(), name="bar", dry_run="1", **fields))
    made = client.post("/datasets", **form(ATTRIBUTES.encode(), name="bar", **fields))

    columns = [
        {"name": "price", "type": "number"},
        {"name": "country", "type": "text", "attribute": True},
    ]
    assert dry.get_json()["columns"] == made.get_json()["columns"] == columns
    assert made.get_json()["preview"][0]["values"] == {"price": 9, "country": "ES"}
    exported = client.get("/datasets/bar/export").text
    assert exported.splitlines() == ATTRIBUTES.splitlines()


def test_an_attribute_that_is_none_is_refused(make: Make) -> None:
    table = form(ATTRIBUTES.encode(), name="bar", attributes="land")

    assert make().faults("POST", "/datasets", **table) == {
        "attributes": "there is no column 'land'; there are: price, country"
    }


def test_a_load_that_would_not_fit_in_memory_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make()
    monkeypatch.setattr("index.memory.SMALL", 0)
    monkeypatch.setattr("index.memory.available_memory", lambda: 10**6)
    reply = client.post("/datasets", json={"name": "d", "entries": {"a": 1}})

    assert (reply.status_code, reply.get_json()["type"]) == (507, "/problems/not-enough-memory")
    assert "GB are free" in reply.get_json()["detail"]
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_a_load_that_the_disk_has_no_room_for_is_refused(make: Make) -> None:
    client = make()
    connection = client.application.extensions["softdict"].catalog._store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    entries = {f"key {number}": number for number in range(50)}
    reply = client.post("/datasets", json={"name": "d", "entries": entries})

    assert (reply.status_code, reply.get_json()["type"]) == (507, "/problems/disk-full")
    assert "make room there" in reply.get_json()["detail"]
    assert client.get("/datasets").get_json() == {"datasets": []}


@pytest.mark.parametrize(
    "kind", ["application/octet-stream", "text/plain", "application/x-www-form-urlencoded", ""]
)
def test_a_body_whose_content_type_says_nothing_may_have_its_format_named(
    client: CheckedClient, kind: str
) -> None:
    table = b"key,price\nleche,0.95\n"

    refused = client.post("/datasets?name=milk", data=table, content_type=kind)
    assert refused.status_code == 415
    assert "its format in the address" in refused.get_json()["detail"]
    made = client.post("/datasets?name=milk&format=csv", data=table, content_type=kind)
    assert (made.status_code, made.get_json()["loaded"]) == (201, 1)


def test_a_name_in_the_address_and_in_the_form_is_given_twice(make: Make) -> None:
    file = (io.BytesIO(b"key,v\na,1\n"), "a.csv")
    faults = make().faults("POST", "/datasets?name=one", data={"file": file, "name": "two"})

    assert faults == {"name": "given more than once"}


def test_the_format_that_is_asked_for_wins_over_the_content_type(make: Make) -> None:
    made = make().post(
        "/datasets?name=a&format=jsonl", data=b'{"key": "a", "v": 1}\n', content_type="text/csv"
    )

    assert (made.status_code, made.get_json()["format"]) == (201, "jsonl")

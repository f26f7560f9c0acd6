"""The description is valid OpenAPI 3.1, complete, and its page needs nothing from elsewhere.

That responses conform to it is checked on every request of every test: see ``CheckedClient``.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.service.checked import ANYWHERE, CheckedClient, _braces

# Pages for people, and their files.
PAGES = {
    "/",
    "/docs",
    "/docs/{path:name}",
    "/favicon.ico",
    "/openapi.json",
    "/page/{path:filename}",
}


@pytest.fixture
def document(client: CheckedClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").get_json()
    return found


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_every_route_and_method_is_described(
    client: CheckedClient, document: dict[str, Any]
) -> None:
    routes = {
        (_braces(rule.rule), method.lower())
        for rule in client.application.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
        if _braces(rule.rule) not in PAGES
    }

    described = {(path, method) for path, item in document["paths"].items() for method in item}
    assert routes == described
    assert len(routes) == 21


def test_every_schema_is_of_something_that_comes_or_goes(document: dict[str, Any]) -> None:
    used = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document))

    assert set(used) == set(document["components"]["schemas"])


def test_every_operation_says_what_it_does_and_has_a_name(document: dict[str, Any]) -> None:
    operations = [each for item in document["paths"].values() for each in item.values()]

    assert all(each["summary"].endswith(".") for each in operations)
    names = [each["operationId"] for each in operations]
    assert len(set(names)) == len(names)


def test_every_parameter_is_told_and_is_sent_as_one_text(document: dict[str, Any]) -> None:
    """An address holds an object or a list as one text: parted, it would be other parameters."""
    for path, item in document["paths"].items():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                kinds = re.findall(r'"type": "(\w+)"', json.dumps(parameter["schema"]))
                assert not {"object", "array"} & set(kinds), (path, parameter["name"])
                assert parameter.get("description"), (path, parameter["name"])


def test_the_description_says_what_any_route_may_answer_with(document: dict[str, Any]) -> None:
    told = re.findall(r"\b[45]\d\d\b", document["info"]["description"])

    assert {int(status) for status in told} == ANYWHERE
    assert "<br" not in json.dumps(document)


def test_problems_are_described_as_problems(document: dict[str, Any]) -> None:
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]


def test_what_is_a_choice_holds_no_nameless_objects_in_another(document: dict[str, Any]) -> None:
    """Of these openapi-python-client makes no class, and its module for the route is broken."""
    for name, schema in document["components"]["schemas"].items():
        for choice in schema.get("anyOf", []):
            assert '"type": "object"' not in json.dumps(choice.get("properties", {})), name


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        *((each, True) for each in (6, None, {"values": 6}, {"values": {"value": 6}})),
        *((each, False) for each in ([[6]], {"value": 6}, {"values": 6, "more": 1})),
    ],
)
def test_what_a_put_takes_is_what_is_described(
    client: CheckedClient, document: dict[str, Any], body: object, taken: bool
) -> None:
    described = document["paths"]["/datasets/{name}/entries/{key}"]["put"]["requestBody"]
    schema = described["content"]["application/json"]["schema"]
    sent = {"data": json.dumps(body), "content_type": "application/json"}
    reply = client.put("/datasets/paises/entries/chile", **sent)

    assert reply.status_code == (201 if taken else 422), reply.text
    whole = schema | {"components": document["components"]}
    assert Draft202012Validator(whole).is_valid(body) == taken


@pytest.mark.parametrize(
    ("part", "taken"),
    [
        *((each, True) for each in ({}, {"k": 1}, {"temperature": 1000}, {"as_of": 0})),
        *((each, True) for each in ({"q": [" país"]}, {"temperature": "auto"}, {"tolerance": 0})),
        *((each, False) for each in ({"q": ""}, {"q": " "}, {"q": ["país", ""]}, {"q": []})),
        *((each, False) for each in ({"k": 0}, {"k": 1.5}, {"as_of": -1}, {"tolerance": 1})),
        *((each, False) for each in ({"temperature": 0}, {"temperature": 1001})),
        ({"as_of": 9_999_999}, True),
        ({"as_of": 10_000_000}, False),
        *((each, False) for each in ({"dataset": ""}, {"dataset": 101 * "a"}, {"more": 1})),
    ],
)
def test_what_a_question_takes_is_what_is_described(
    client: CheckedClient, document: dict[str, Any], part: dict[str, object], taken: bool
) -> None:
    body = {"q": "país"} | part
    reply = client.post("/search", json=body)

    assert reply.status_code == (200 if taken else 422), reply.text
    whole = document["components"]["schemas"]["SearchBody"]
    assert Draft202012Validator(whole).is_valid(body) == taken


def test_the_rendered_page_loads_files_of_this_machine_alone(client: CheckedClient) -> None:
    page = client.get("/docs").text
    files = re.findall(r'(?:src|href)="([^"]+)"', page)

    assert len(files) >= 4
    for file in files:  # beside /docs, under whatever prefix a proxy has it
        assert client.get(f"/{file}").status_code == 200, file
    assert "validatorUrl: null" in client.get("/page/docs.js").text
    assert client.get("/docs/../app.py").status_code == 404

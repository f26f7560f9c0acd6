"""A test client that holds every response against the service's own OpenAPI document."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from werkzeug.test import TestResponse

# These may come from any route, before it is known which one: no route lists them.
ANYWHERE = {403, 405, 431, 500, 501}


class CheckedClient(FlaskClient):
    """Fails the test that gets an undocumented status, content type or shape."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        kwargs.setdefault("buffered", True)  # reads files whole, and closes them
        response = super().open(*args, **kwargs)
        check(self.application.api_doc, response, self.template_of(response))  # type: ignore[attr-defined]
        return response

    def template_of(self, response: TestResponse) -> str | None:
        """Return the path template that answered, as the document spells it."""
        request = response.request
        with self.application.test_request_context(request.path, method=request.method) as context:
            rule = context.request.url_rule
        return None if rule is None else _braces(rule.rule)

    def faults(self, method: str, path: str, **kwargs: Any) -> dict[str, str]:
        """Ask, expect a 422, and return its faults by where they stand."""
        response = self.open(path, method=method, **kwargs)
        assert response.status_code == 422, response.text
        return {fault["where"]: fault["message"] for fault in response.get_json()["errors"]}


def check(document: dict[str, Any], response: TestResponse, template: str | None) -> None:
    """Assert that a response is one that the document announces."""
    operation = document["paths"].get(template, {}).get(response.request.method.lower())
    if operation is None or response.status_code in ANYWHERE:
        return
    documented = operation["responses"].get(str(response.status_code))
    assert documented, f"{template} does not document {response.status_code}: {response.text}"
    headers = {name for name in ("ETag", "Location", "Retry-After") if name in response.headers}
    assert headers == set(documented.get("headers", ())), (template, response.status_code, headers)
    content = documented.get("content")
    if content is None:
        assert response.data == b""
        return
    assert response.mimetype in {kind.partition(";")[0] for kind in content}
    if response.mimetype.endswith("json") and "ndjson" not in response.mimetype:
        schema = content[response.mimetype]["schema"] | {"components": document["components"]}
        Draft202012Validator(schema).validate(response.get_json())


def _braces(rule: str) -> str:
    return rule.replace("<key:", "{").replace("<", "{").replace(">", "}")

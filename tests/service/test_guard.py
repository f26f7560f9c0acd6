"""What no request passes, and what every response carries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.service.checked import CheckedClient
from tests.service.conftest import Make
from tests.service.running import ROOT


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "192.168.1.7", "a.localhost"],
)
def test_an_address_and_localhost_are_ours(client: CheckedClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "[", "[::1"]
)
def test_a_name_that_is_not_ours_is_refused(client: CheckedClient, host: str) -> None:
    reply = client.get("/datasets", headers={"Host": host})

    assert (reply.status_code, reply.get_json()["type"]) == (421, "/problems/untrusted-host")
    assert "SOFTDICT_ALLOWED_HOSTS" in reply.get_json()["detail"]


@pytest.mark.parametrize(
    "allowed", ["*", "other.example, Dict.Example", "dict.example:8000", "[::1], dict.example."]
)
def test_a_name_can_be_allowed(make: Make, allowed: str) -> None:
    client = make(allowed_hosts=allowed)

    assert client.get("/healthz", headers={"Host": "dict.example:8000"}).status_code == 200


def test_a_name_that_is_none_is_not_allowed_by_one_that_is_none(make: Make) -> None:
    client = make(allowed_hosts=":8000")

    assert client.get("/healthz", headers={"Host": ":80"}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/datasets"),
        ("DELETE", "/datasets/paises"),
        ("PATCH", "/datasets/paises"),
        ("PUT", "/datasets/paises/entries/x"),
        ("POST", "/compare"),
        ("DELETE", "/jobs/x"),
    ],
)
def test_a_page_elsewhere_cannot_write(
    client: CheckedClient, method: str, path: str, headers: dict[str, str]
) -> None:
    reply = client.open(path, method=method, json={}, headers=headers)

    assert (reply.status_code, reply.get_json()["type"]) == (403, "/problems/cross-origin")
    (asked_by,) = headers.values()
    assert f"pages of {asked_by!r} may not change anything" in reply.get_json()["detail"]
    assert "has to hand on the Host header" in reply.get_json()["detail"]
    assert client.get("/datasets/paises").get_json()["entries"] == 4


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_our_own_page_and_no_page_can(client: CheckedClient, headers: dict[str, str]) -> None:
    assert client.delete("/datasets/paises", headers=headers).status_code == 204


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_page_elsewhere_may_link_to_ours(client: CheckedClient, method: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "http://other.example"}
    reply = client.open("/datasets/paises", method=method, headers=headers)

    assert reply.status_code == 200
    assert not [name for name in dict(reply.headers) if name.startswith("Access-Control")]


def test_nothing_is_of_no_type(client: CheckedClient) -> None:
    """A checker of headers wonders at a page of HTML that has no letter."""
    listed = client.options("/datasets")
    gone = client.delete("/datasets/paises/entries/perro")

    assert (listed.status_code, gone.status_code) == (200, 204)
    assert "DELETE" in client.options("/datasets/paises").headers["Allow"]
    for reply in (listed, gone):
        assert (reply.data, "Content-Type" in reply.headers) == (b"", False)


@pytest.mark.parametrize("name", ["If-Modified-Since", "If-Unmodified-Since", "If-Range"])
@pytest.mark.parametrize("held", ["Mon, 01 Jan 99999999999 00:00:00 GMT", "nonsense"])
def test_a_part_is_not_sent_to_who_holds_another_version_by_a_date_that_is_none(
    client: CheckedClient, name: str, held: str
) -> None:
    with client.get("/page/page.js", headers={name: held, "Range": "bytes=0-9"}) as reply:
        # "A recipient of an If-Range header field MUST ignore the Range header field if the
        # If-Range condition evaluates as false" (RFC 9110 §13.1.5); the others are ignored.
        assert reply.status_code == (200 if name == "If-Range" else 206)
        assert (len(reply.data) == 10) == (name != "If-Range")


def test_what_the_system_takes_a_script_for_is_nothing_to_the_page() -> None:
    code = """
import mimetypes
for ending in (".js", ".css", ".svg"):  # as a registry of Windows may say
    mimetypes.add_type("text/plain", ending)
import service.pages
print(*(mimetypes.guess_type(name)[0] for name in ("page.js", "page.css", "icon.svg")))
"""
    said = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)

    assert said.split() == ["text/javascript", "text/css", "image/svg+xml"]


@pytest.mark.parametrize("path", ["/", "/search?q=a", "/nowhere", "/page/page.js", "/docs"])
def test_every_response_is_hardened(client: CheckedClient, path: str) -> None:
    headers = client.get(path, headers={"Accept": "text/html"}).headers

    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe-inline" not in policy or path == "/docs"
    assert "unsafe-eval" not in policy and "http" not in policy
    said = dict(each.split(" ", 1) for each in policy.split("; "))
    # What default-src says nothing of: who may frame the page, and where it may send a visitor.
    assert {name: said[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Permissions-Policy"] == "camera=(), geolocation=(), microphone=()"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == (
        "no-store" if path in ("/search?q=a", "/nowhere") else "no-cache"
    )
    assert "Set-Cookie" not in headers
    assert not [name for name in dict(headers) if name.startswith("Access-Control")]

"""What every request must pass before a view sees it, and what every response carries.

A page of another site must not be able to use a visitor's browser against a service on the
visitor's own machine. Two doors are closed. A write that a page of another origin asks for is
refused: browsers say so in ``Origin`` and ``Sec-Fetch-Site`` (https://www.w3.org/TR/fetch-metadata).
And a request whose ``Host`` is a name that is not ours is refused, because a name can be made to
point at 127.0.0.1 (DNS rebinding), and then the page's origin is "ours". An address cannot.
"""

from __future__ import annotations

import ipaddress
from http import HTTPStatus
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from flask import Flask, Response, request
from werkzeug.http import parse_date

from .errors import CrossOrigin, MalformedRequest, UntrustedHost
from .settings import Settings

SAFE = {"GET", "HEAD", "OPTIONS"}
HEADERS = {
    # Nothing from elsewhere, nothing inline; nobody may frame the page, and it sends to us alone.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",  # where nothing else is said, as it is of the page's files
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def install(app: Flask, settings: Settings) -> None:
    """Guard every request of ``app``."""

    @app.before_request
    def _check() -> None:
        _check_host(settings.allowed_hosts)
        if request.method not in SAFE:
            _check_origin()
        _check_text()
        _drop_odd_dates()

    @app.after_request
    def _harden(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        listed = request.method == "OPTIONS" and response.status_code == HTTPStatus.OK
        if listed or response.content_length == 0:  # nothing is no HTML
            response.headers.pop("Content-Type", None)
        return response


def _check_host(allowed: tuple[str, ...]) -> None:
    host = request.environ.get("HTTP_HOST")
    if host is None or "*" in allowed:  # HTTP/1.0 has none; browsers do not speak it
        return
    name = _name(host)
    local = name == "localhost" or name.endswith(".localhost")
    if not (local or _is_address(name) or (name and name in map(_name, allowed))):
        raise UntrustedHost(host)


def _name(host: str) -> str:
    """Give the name alone: whoever is told of ``dict.example:8000`` may allow just that."""
    return (_split(f"//{host}").hostname or "").rstrip(".")


def _split(address: str) -> SplitResult:
    """Take an address apart; one that is none, such as http://[, has no parts."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_origin() -> None:
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site", "none")
    if origin is not None and _split(origin).netloc != request.environ.get("HTTP_HOST"):
        raise CrossOrigin(origin)
    if site not in ("same-origin", "none"):
        raise CrossOrigin(origin or site)


def _drop_odd_dates() -> None:
    """Drop a date that no calendar has: a condition with one is ignored (RFC 9110 §13.1.3).

    If-Range does not hold with one, and then it is Range that is ignored (§13.1.5).
    """
    for name in ("HTTP_IF_MODIFIED_SINCE", "HTTP_IF_UNMODIFIED_SINCE", "HTTP_IF_RANGE"):
        try:
            parse_date(request.environ.get(name))
        except OverflowError:
            del request.environ[name]
            if name == "HTTP_IF_RANGE":
                request.environ.pop("HTTP_RANGE", None)


def _check_text() -> None:
    """Refuse an address that is not UTF-8: read leniently, it would name another key."""
    path = request.environ["PATH_INFO"].encode("latin-1")
    query = unquote_to_bytes(request.query_string)
    try:
        path.decode()
        query.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"the address is not UTF-8: {error.reason}") from None

"""The application: one factory that puts settings, catalog, guard, problems and views together."""

from __future__ import annotations

from typing import Any

from flask_openapi3 import Info, Server
from werkzeug.routing import BaseConverter

from . import __version__, answers, datasets, entries, guard, jobs, pages, problems, refusals
from .requests import Api
from .runtime import Runtime
from .settings import Settings

GROUPS = (answers.routes, datasets.routes, entries.routes, jobs.routes, pages.routes)
ABOUT = """A dictionary that answers by meaning: every key counts in proportion to how well it fits.

Errors are problems (RFC 9457), with every fault of the request in `errors`, or the first 100.
Besides the statuses it lists, any route may answer 403 (a page of another site asks for a write, or
the store can only be read), 405 (it has no such method), 431 (the address and headers are too
large), 500 (the service failed; its log says why) or 501 (the body comes in a coding of transfer
other than chunked). Numbers are finite.
"""
HEADERS = {
    "ETag": "what If-Match and If-None-Match go by",
    "Location": "where the dataset is, or the job",
    "Retry-After": "seconds after which to ask again",
}
FORM_OVERHEAD = 2**20  # bytes: what a form adds around its file


class KeyConverter(BaseConverter):
    """Any key at all as the rest of a path: slashes, even leading ones, line ends, nothing."""

    regex = r"[\s\S]*"
    part_isolating = False


def create_app(settings: Settings) -> Api:
    """Make the application, on the store in ``settings.home``.

    Raise StoreLocked, StoreCorrupt or ReadOnlyStore if it cannot be opened for writing.
    """
    app = Api(
        "service",
        info=Info(title="softdict", version=__version__, description=ABOUT),
        servers=[Server(url=".")],  # where the description is: a proxy may have it under a prefix
        doc_ui=False,
        static_folder=pages.PAGE,
        static_url_path="/page",
        validation_error_model=problems.ProblemOut,
    )
    app.extensions["softdict"] = Runtime(settings)
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.config["MAX_CONTENT_LENGTH"] = settings.largest_body + FORM_OVERHEAD
    app.url_map.converters["key"] = KeyConverter
    app.url_map.merge_slashes = False
    guard.install(app, settings)
    refusals.install(app)
    for group in GROUPS:
        app.register_api(group)
    app.register_blueprint(pages.pages)
    app.api_doc["components"].pop("securitySchemes")  # there are none, which null does not say
    for path, methods in app.api_doc["paths"].items():
        for method, operation in methods.items():
            _describe_headers(path, method, operation)
    return app


def _describe_headers(path: str, method: str, operation: dict[str, Any]) -> None:
    """Describe the headers of an operation's responses, for which flask-openapi3 has no place."""
    tagged = any(each["name"] == "If-Match" for each in operation.get("parameters", ()))
    for status, response in operation["responses"].items():
        said = {
            "ETag": tagged and method != "delete" and status in ("200", "201", "304"),
            "Location": (path, method) == ("/datasets", "post") and status in ("201", "202"),
            "Retry-After": status == "503",
        }
        if names := [name for name, has in said.items() if has]:
            response["headers"] = {
                name: {"description": HEADERS[name], "schema": {"type": "string"}} for name in names
            }

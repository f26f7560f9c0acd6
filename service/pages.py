"""The front page, the rendered API page, and what probes and curious clients ask for."""

from __future__ import annotations

import mimetypes
from importlib.resources import files
from pathlib import Path

import flask_openapi3_swagger
from flask import Blueprint, Response, abort, current_app, jsonify, request, send_from_directory

from . import __version__
from .incoming import ProblemTypePath
from .outgoing import HealthOut, ProblemTypeOut, ProblemTypesOut
from .problems import TABLE, said
from .requests import Routes
from .runtime import runtime

PAGE = Path(__file__).with_name("page")
SWAGGER = Path(str(files(flask_openapi3_swagger))) / "templates" / "swagger"
# Swagger UI sets styles from its script and draws its icons from data: addresses.
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
LINKS = {  # relative to the front page: a proxy may have it under a prefix
    "search": "search?q=",
    "compare": "compare?q=",
    "datasets": "datasets",
    "jobs": "jobs",
    "api": "openapi.json",
    "docs": "docs",
}

# Windows tells types by its registry, where some programs make a script plain text: no browser runs
# it then (nosniff, see ``guard``).
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("text/css", ".css")
mimetypes.add_type("image/svg+xml", ".svg")

routes = Routes("service", "Service")
pages = Blueprint("pages", __name__)


@routes.get("/healthz", responses={200: HealthOut, **said()})
def healthz() -> HealthOut:
    """Say that the process answers. It asks nothing of the store or the encoder."""
    return HealthOut(status="ok", version=__version__)


@routes.get("/readyz", responses={200: HealthOut, **said(503)})
def readyz() -> HealthOut:
    """Say whether questions can be answered at once: store open, encoder loaded."""
    runtime().check_ready()
    return HealthOut(status="ready", version=__version__)


@routes.get("/problems", responses={200: ProblemTypesOut, **said()})
def problems() -> ProblemTypesOut:
    """List the types of problem that this service answers with."""
    return ProblemTypesOut(problems=[ProblemTypeOut.of(row) for row in TABLE])


@routes.get("/problems/<slug>", responses={200: ProblemTypeOut, **said(404)})
def problem(path: ProblemTypePath) -> ProblemTypeOut:
    """Say what a type of problem means: its member `type` leads here."""
    row = next((row for row in TABLE if row.slug == path.slug), None)
    return ProblemTypeOut.of(row) if row else abort(404)


@pages.get("/")
def front() -> Response:
    """Show browsers the page, and other clients where to go."""
    best = request.accept_mimetypes.best_match(["application/json", "text/html"])
    if best == "text/html":
        response = send_from_directory(PAGE, "index.html")
    else:
        response = jsonify(name="softdict", version=__version__, links=LINKS)
    response.vary.add("Accept")
    return response


@pages.get("/favicon.ico")
def icon() -> Response:
    """Show the icon where a browser asks without having read the page."""
    return send_from_directory(PAGE, "icon.svg")


@pages.get("/openapi.json")
def openapi() -> Response:
    """Describe every route (OpenAPI 3.1)."""
    return jsonify(current_app.api_doc)  # type: ignore[attr-defined]


@pages.get("/docs")
def docs() -> Response:
    """Render the description, from files of this machine alone."""
    response = send_from_directory(PAGE, "docs.html")
    response.headers["Content-Security-Policy"] = DOCS_POLICY
    return response


@pages.get("/docs/<path:name>")
def docs_file(name: str) -> Response:
    """Serve Swagger UI's own files."""
    return send_from_directory(SWAGGER, name)

"""Every error of the application answered as a problem (``problems`` has the table)."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from difflib import get_close_matches
from http import HTTPStatus

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from index.errors import DiskFull, SoftDictError

from .errors import TooLarge
from .problems import MEDIA_TYPE, ProblemOut, describe, plain_problem, problem, problem_type
from .requests import as_json
from .runtime import runtime

LARGEST = "the greater of the settings max_upload and max_json"

log = logging.getLogger(__name__)


def install(app: Flask) -> None:
    """Answer every error of ``app`` as a problem."""
    app.register_error_handler(SoftDictError, _domain)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(OSError, _system)
    app.register_error_handler(Exception, _internal)


def _response(said: ProblemOut) -> Response:
    return Response(as_json(said), said.status, content_type=MEDIA_TYPE)


def _domain(error: SoftDictError) -> Response:
    row = problem_type(error)
    if row.status >= 500 and row.retry_after is None:  # a start or a full queue passes
        log.warning("%s: %s", row.slug, error)
    response = _response(describe(error))
    if row.retry_after is not None:
        response.headers["Retry-After"] = str(row.retry_after)
    return response


def _http(error: HTTPException) -> Response:
    if isinstance(error, RequestEntityTooLarge):
        return _domain(_too_large())
    if isinstance(error, NotFound):
        return _response(plain_problem(HTTPStatus.NOT_FOUND, _nearest_route()))
    status = HTTPStatus(error.code or 500)
    detail = error.description or status.phrase
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        detail = f"{request.method} is not allowed at {request.path[:100]}; allowed: {allowed}"
    response = _response(plain_problem(status, detail))
    for name, value in error.get_headers():
        if name.lower() in ("allow", "content-range", "retry-after"):
            response.headers[name] = value
    return response


def _too_large() -> TooLarge:
    if (request.content_length or 0) > (request.max_content_length or 0):
        return TooLarge(runtime().settings.largest_body, LARGEST)
    parts, size = request.max_form_parts or 0, request.max_form_memory_size or 0
    # Werkzeug does not tell which of the two it was.
    what = f"the form has more than {parts:,} parts, or one of its fields beside the file"
    return TooLarge(size, "the most that is read", what)


def _nearest_route() -> str:
    routes = [rule.rule for rule in current_app.url_map.iter_rules() if "<" not in rule.rule]
    near = get_close_matches(request.path[:100], routes, n=1)
    path = request.path.rstrip("/")
    adapter = current_app.create_url_adapter(request)
    with suppress(HTTPException):  # with a name in it, it is none of those
        if adapter is not None and path != request.path and adapter.match(path):
            near = [path[:100]]
    hint = f"; did you mean {near[0]}?" if near else "; /docs lists what there is"
    return f"there is nothing at {request.path[:100]}{hint}"


def _system(error: OSError) -> Response:
    """Say that there is no room for a request, which is received into files without a name."""
    full = DiskFull.of_temporary(error)
    return _internal(error) if full is None else _domain(full)


def _internal(error: Exception) -> Response:
    """Say nothing of what failed: the log has it, under the same reference."""
    reference = secrets.token_hex(4)
    log.error("internal error %s", reference, exc_info=error)
    detail = f"the log of the service has the cause, under {reference}"
    return _response(problem(problem_type(error), detail))

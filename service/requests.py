"""Parse at the edge: one model per part of a request, all faults of all parts at once.

flask-openapi3 writes the OpenAPI document from the same models. Its own parsing stops at the
first part with a fault (a bad path hides a bad body), reads JSON leniently and derives a schema
on every request, so ``create_view_func``, its one seam for that, is replaced here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from flask import Request, Response, make_response, request
from flask_openapi3 import APIBlueprint, OpenAPI, Tag
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from werkzeug.formparser import FormDataParser

from index.errors import TOLD, Fault, InvalidRequest

from . import strict_json
from .errors import MalformedRequest, TooLarge, UnsupportedContent
from .incoming import ONE, SEVERAL
from .runtime import runtime

WORDS = {
    "missing": "required, and not given",
    "bool_parsing": "write 1 or 0",
    "bool_type": "write true or false",
    "dict_type": "write a JSON object",
    "float_parsing": "write a number",
    "float_type": "write a number",
    "greater_than_equal": "write {ge:g} or more",
    "int_parsing": "write a whole number",
    "int_parsing_size": "write a whole number of fewer digits",
    "int_type": "write a whole number",
    "less_than_equal": "write {le} or less",
    "list_type": "write a list",
    "literal_error": "write {expected}",
    "model_type": "write a JSON object",
    "string_too_long": "write {max_length} character at most",  # a delimiter alone has such a bound
    "string_too_short": "write something",
    "too_short": "write at least one",
    "string_type": "write text",
}
GZIP = ("gzip", "x-gzip")
PACKED = {*GZIP, "br", "compress", "deflate", "zstd"}  # content codings; some send utf-8 as one
FILE = "file"  # the field of a form that holds the table
Model = TypeVar("Model", bound=BaseModel)


class _Parsed:
    """Views get parsed models by name: ``path``, ``query``, ``header``, ``body``."""

    @staticmethod
    def create_view_func(*parts: Any, **_: Any) -> Callable[..., Response]:
        view, header, _cookie, path, query, _form, body, _raw = parts

        @wraps(view)
        def answer(**url: str) -> Response:
            return shaped(view(**parsed(url, path=path, query=query, header=header, body=body)))

        return answer


class _Request(Request):
    """A request whose form raises ValueError where it cannot be read, and is not empty."""

    def make_form_data_parser(self) -> FormDataParser:
        parser = super().make_form_data_parser()
        parser.silent = not self.content_length
        return parser


class Api(_Parsed, OpenAPI):
    """The application: Flask, with requests parsed as above."""

    request_class = _Request


class Routes(_Parsed, APIBlueprint):
    """A group of routes, with requests parsed as above."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(
            name, __name__, abp_tags=[Tag(name=title)], operation_id_callback=_operation_id
        )


def _operation_id(*, bp_name: str, name: str, path: str, method: str) -> str:
    return f"{bp_name}_{name}"


def parsed(
    url: Mapping[str, str],
    *,
    path: type[BaseModel] | None,
    query: type[BaseModel] | None,
    header: type[BaseModel] | None,
    body: type[BaseModel] | None,
) -> dict[str, BaseModel]:
    """Parse each part that the view asks for; raise InvalidRequest with the faults of them all."""
    found: list[InvalidRequest] = []
    parts: dict[str, BaseModel] = {}
    if path:
        parts |= _part("path", path, found, lambda: url)
    parts |= _part("query", query or NoParameters, found, lambda: _query_fields(found))
    if header:
        parts |= _part("header", header, found, lambda: dict(request.headers))
    if body:
        parts |= _part("body", body, found, json_body, strict=True)
    if found:
        raise InvalidRequest.joined(found)
    return parts if query else {name: part for name, part in parts.items() if name != "query"}


class NoParameters(BaseModel, extra="forbid"):
    """A route without query parameters."""


def validated(model: type[Model], values: object, *, strict: bool | None = None) -> Model:
    """Validate ``values``; raise InvalidRequest with each fault in words."""
    values, more = _with_few_unknown(model, values)
    try:
        return model.model_validate(values, strict=strict, context=runtime().settings)
    except ValidationError as error:
        found = [*_faults(error, model), InvalidRequest(more=more)]
    # Out here: as its context, pydantic's error would keep every frame of this request for good. It
    # holds what a validator raised, and lets no garbage collector see that.
    raise InvalidRequest.joined(found)


def _with_few_unknown(model: type[BaseModel], values: object) -> tuple[object, int]:
    """Leave out names that the model refuses, but for the first; say how many were left out."""
    if not isinstance(values, Mapping) or len(values) <= TOLD:
        return values, 0
    known = model.model_fields  # once: it is found anew each time
    unknown = [name for name in values if name not in known]
    spare = set(unknown[TOLD:]) if model.model_config.get("extra") == "forbid" else set()
    return {name: values[name] for name in values if name not in spare}, len(spare)


def json_body() -> Any:
    """Read a JSON body: of that type, at most ``max_json`` bytes, and strict JSON."""
    if request.mimetype != "application/json":
        raise UnsupportedContent(request.mimetype, ["application/json"])
    check_coding()
    limit = runtime().settings.max_json
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise TooLarge(limit, "the setting max_json")
    return strict_json.loads(body)


def check_coding(*read: str) -> None:
    """Refuse a body that is packed (RFC 9110 §8.4), but for the codings that are read there."""
    codings = {
        each.strip().lower() for each in request.headers.get("Content-Encoding", "").split(",")
    }
    if packed := sorted(codings & PACKED - {*read}):
        plain = "it as it is, or packed with gzip" if read else "it as it is"
        raise UnsupportedContent(f"a body packed with {', '.join(packed)}", [plain])


def shaped(result: Any) -> Response:
    """Turn what a view returned into a response: models become JSON, in UTF-8."""
    result, *rest = result if isinstance(result, tuple) else (result,)
    if isinstance(result, BaseModel):
        result = Response(as_json(result), content_type="application/json")
    return make_response(result, *rest)


def as_json(shown: BaseModel) -> bytes:
    """Write a model as responses have it."""
    return shown.model_dump_json(exclude_unset=True).encode()


def _part(
    name: str,
    model: type[BaseModel],
    found: list[InvalidRequest],
    read: Callable[[], object],
    *,
    strict: bool | None = None,
) -> dict[str, BaseModel]:
    try:
        return {name: validated(model, read(), strict=strict)}
    except InvalidRequest as error:
        found.append(error.with_traceback(None))  # by its frames it would hold itself, and the body
        return {}


def _query_fields(found: list[InvalidRequest]) -> dict[str, str]:
    """Read the query parameters; a form's fields stand beside them as if they were some.

    Of one that is given twice, which is a fault, the first is looked at beside the others.
    """
    fields = [*request.args.lists(), *_form_fields()]
    given: dict[str, list[str]] = {}
    for name, values in fields:
        given.setdefault(name, []).extend(values)
    twice = [Fault(name, "given more than once") for name, all_ in given.items() if len(all_) > 1]
    if twice:
        found.append(InvalidRequest(*twice))
    return {name: values[0] for name, values in given.items()}


def _form_fields() -> Iterator[tuple[str, list[str]]]:
    if request.mimetype == "multipart/form-data" and request.content_length:
        check_coding()
        try:
            fields = {name or "": texts for name, texts in request.form.lists() if name != FILE}
        except ValueError as error:
            raise MalformedRequest(
                "the form cannot be read: its content type must name its boundary, the heads of "
                f"its parts be UTF-8, and its end be there ({error})"
            ) from None
        if any("\ufffd" in text for name, texts in fields.items() for text in (name, *texts)):
            raise MalformedRequest("a field of the form is not UTF-8")  # werkzeug reads on
        yield from fields.items()  # but the file, which uploads reads


def _faults(error: ValidationError, model: type[BaseModel]) -> Iterator[InvalidRequest]:
    for fault in error.errors(include_url=False):
        where = ".".join(str(step) for step in fault["loc"] if step not in (ONE, SEVERAL))
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, InvalidRequest):  # the library's own words, when it found the fault
            inner = (Fault(_inner(where, each.where), each.message) for each in cause.faults)
            yield InvalidRequest(*inner, more=cause.more)
        else:
            yield InvalidRequest(
                Fault(where if fault["loc"] else "body", _words(fault, where, model))
            )


def _inner(where: str, inside: str) -> str:
    """Say where a fault stands: the field, or the place inside of it that the library named."""
    return inside if not where or inside.startswith(f"{where}.") else where


def _words(fault: ErrorDetails, where: str, model: type[BaseModel]) -> str:
    kind, bounds = fault["type"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return f"there is no such parameter{_nearest(where, model)}"
    if kind in WORDS:
        return WORDS[kind].format(**bounds)
    words = fault["msg"].removeprefix("Value error, ")
    return words[:1].lower() + words[1:]


def _nearest(name: str, model: type[BaseModel]) -> str:
    known = list(model.model_fields)
    if not known:
        return "; this route takes none"
    # "temp" is near, and "queries" is not.
    close = get_close_matches(name[:100], known, n=1, cutoff=0.52)
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"

"""Tables that arrive over HTTP: received into a temporary file, then loaded at once or as a job.

A table comes as a form's file, as a raw body whose content type says its format, or inside a
JSON document. Whatever its size, only a block of it is in memory at a time (a JSON document is
parsed, and has its own, lower limit).
"""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from flask import request
from werkzeug.datastructures import FileStorage

from index.answers import LoadReport
from index.errors import DatasetExists, Fault, InvalidRequest, UnreadableSource
from index.loading import LoadOptions
from index.loading.sources import GZIP_MAGIC
from index.pace import Report

from . import strict_json
from .errors import TooLarge, UnsupportedContent
from .incoming import DatasetBody, LoadQuery
from .requests import FILE, GZIP, check_coding, json_body, validated
from .runtime import Runtime
from .work import Job

FORMATS = {
    "text/csv": "csv",
    "text/markdown": "csv",
    "text/tab-separated-values": "tsv",
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/vnd.apache.parquet": "parquet",
}
NO_TEXT = ("application/vnd.apache.parquet", "application/octet-stream")
READ = ["multipart/form-data", *FORMATS]
BLOCK = 2**20  # bytes
DOCUMENT = re.compile(  # options, and then entries: as a table it would be one of other keys
    rb"(?:\xef\xbb\xbf)?"  # a byte order mark, which the readers pass over
    rb'\s*\{(\s*"\w+"\s*:\s*("[^"]*"|[^\s"{}[\],]+)\s*,){0,20}\s*"entries"\s*:\s*[{[]'
)


BODY = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"file": {"type": "string", "format": "binary"}},
                "required": ["file"],
                "description": "the file; further fields mean what the query parameters do",
            }
        },
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "entries": {"anyOf": [{"type": "object"}, {"type": "array", "items": {}}]},
                },
                "description": "{name, entries, options…}; with ?name=, a bare table",
                "example": {"name": "prices", "entries": {"méxico": 7, "alemania": 10}},
            }
        },
        **{kind: {"schema": {"type": "string"}} for kind in FORMATS if kind != "application/json"},
    },
}


@dataclass(frozen=True)
class Order:
    """A table that has been received, and what to do with it. The load closes ``table``."""

    name: str  # of the dataset
    table: BinaryIO
    size: int  # bytes
    filename: str | None
    format: str | None
    encoding: str | None
    query: LoadQuery


def received(query: LoadQuery, limit: int) -> Order:
    """Take in the request's table, ``limit`` bytes of it at most."""
    kind = request.mimetype
    if refused := [name for name in ("If-Match", "If-None-Match") if name in request.headers]:
        said = "a load takes no such condition; if_exists says what becomes of what is there"
        raise InvalidRequest(*(Fault(name, said) for name in refused))
    if kind == "application/json" and query.name is None:
        return _document(query)
    if kind != "multipart/form-data" and kind not in FORMATS and query.format is None:
        raise UnsupportedContent(kind, [*READ, "or another with its format in the address"])
    if query.name is None:
        raise InvalidRequest(Fault("name", "required, and not given"))
    if kind == "multipart/form-data":
        part = _file_part()
        source, filename, format_ = part.stream, part.filename, None
        charset = _charset(part.mimetype, part.mimetype_params)
    else:
        check_coding(*GZIP)
        source, filename, format_ = request.stream, None, FORMATS.get(kind)
        charset = _charset(kind, request.mimetype_params)
    table, size = _unpacked(*_spooled(source, limit), limit)
    if kind == "application/json":
        _check_bare(table, query.name)
    format_, encoding = query.format or format_, query.encoding or charset
    return Order(query.name, table, size, filename, format_, encoding, query)


def load(order: Order, state: Runtime) -> LoadReport | Job:
    """Load a table at once where it is small, else as a job; either way close it."""
    query = order.query
    with ExitStack() as stack:
        stack.enter_context(order.table)
        if query.if_exists == "error" and order.name in state.catalog:
            raise DatasetExists(order.name)  # before a job that could only fail
        if order.size <= state.settings.at_once if query.wait is None else query.wait:
            with state.load_at_once() as progress:
                return _work(order, state)(progress)
        job = state.jobs.submit(order.name, _work(order, state), order.table.close)
        stack.pop_all()  # the job closes the table now
        return job


def _work(order: Order, state: Runtime) -> Callable[[Report], LoadReport]:
    query, settings = order.query, state.settings
    options = LoadOptions(
        format=order.format,
        key=query.key,
        columns=query.types,
        attributes=query.attribute_names,
        delimiter=query.delimiter,
        header=query.header,
        encoding=order.encoding,
        decimal=query.decimal,
        missing=tuple(query.missing or ()),
        on_error=query.on_error,
        duplicates=query.duplicates,
        max_rows=settings.max_rows,
        max_unpacked=settings.max_upload,
        max_key_length=settings.max_key,
    )
    return lambda progress: state.catalog.load(
        order.name,
        order.table,
        options,
        filename=order.filename,
        if_exists=query.if_exists,
        encoder=query.encoder or settings.encoder,
        temperature=query.temperature,
        tolerance=query.tolerance,
        precision=query.precision,
        dry_run=query.dry_run,
        progress=progress,
    )


def _document(query: LoadQuery) -> Order:
    document = json_body()
    if not isinstance(document, dict):
        raise InvalidRequest(
            Fault("name", "a bare table has no name: give it as ?name=, or send {name, entries}")
        )
    options = query.model_dump(exclude_unset=True)
    if twice := [Fault(name, "given more than once") for name in options if name in document]:
        raise InvalidRequest(*twice)
    body = validated(DatasetBody, {**options, **document}, strict=True)
    content = strict_json.dumps(body.entries)
    table, size = _spooled(io.BytesIO(content), len(content))
    rest = body.model_copy(update={"entries": {}})  # a job that waits holds them in a file alone
    return Order(body.name, table, size, None, "json", "utf-8", rest)  # as it is written above


def _check_bare(table: BinaryIO, name: str) -> None:
    """Refuse a document that has its name in the address: what is named there is a bare table."""
    if DOCUMENT.match(table.read(BLOCK)):
        table.close()
        message = (
            "with ?name= the body is a table alone; without it, send "
            f'{{"name": "{name}", "entries": …}}; where "entries" is a key of the table, send a '
            "list of [key, value] pairs"
        )
        raise InvalidRequest(Fault("name", message))
    table.seek(0)


def _charset(kind: str, parameters: Mapping[str, str]) -> str | None:
    """Give the charset that a text is declared in: some say ``binary`` of what is none."""
    return None if kind in NO_TEXT else parameters.get("charset")


def _file_part() -> FileStorage:
    parts = list(request.files.items(multi=True))
    if [name for name, _ in parts] != [FILE] or FILE in request.form:
        text = ["text (curl wants -F file=@NAME)"] if FILE in request.form else []
        got = ", ".join([*(name or "one without a name" for name, _ in parts), *text]) or "none"
        raise InvalidRequest(Fault(FILE, f"send exactly one file, as the field file; got {got}"))
    return parts[0][1]


def _spooled(source: IO[bytes], limit: int, what: str = "the body") -> tuple[BinaryIO, int]:
    """Copy to a file without a name, which the system removes even if this process is killed."""
    table = cast(BinaryIO, tempfile.TemporaryFile(prefix="softdict-"))  # noqa: SIM115 (load does)
    size = 0
    try:
        while block := source.read(BLOCK):
            size += len(block)
            if size > limit:
                raise TooLarge(limit, "the setting max_upload", what)
            table.write(block)
    except BaseException:
        table.close()
        raise
    table.seek(0)
    return table, size


def _unpacked(table: BinaryIO, size: int, limit: int) -> tuple[BinaryIO, int]:
    """Unpack a gzipped table: the limit is on what it unpacks to, or a small file could fill us."""
    if not _is_gzipped(table):
        return table, size
    with table, gzip.GzipFile(fileobj=table) as packed:
        try:
            unpacked, size = _spooled(cast(IO[bytes], packed), limit, "the table, unpacked,")
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise UnreadableSource("its gzip data is damaged or cut short") from None
    if _is_gzipped(unpacked):  # the reader would unpack it once more, without a limit
        unpacked.close()
        raise UnreadableSource("it is gzipped twice; send it gzipped once")
    return unpacked, size


def _is_gzipped(table: BinaryIO) -> bool:
    magic = table.read(2)
    table.seek(0)
    return magic == GZIP_MAGIC

"""Entries: page through them, and get, put and delete one by its exact key."""

from __future__ import annotations

from operator import delitem

from flask import Response

from index.softdict import SoftDict

from .conditions import Conditions, etag_header
from .incoming import DatasetPath, EntryBody, EntryPath, PageQuery
from .outgoing import EntriesOut, EntryOut
from .problems import said
from .requests import Routes
from .runtime import runtime

routes = Routes("entries", "Entries")
ENTRY = "/datasets/<name>/entries/<key:key>"


@routes.get("/datasets/<name>/entries", responses={200: EntriesOut, **said(404, 503)})
def entries(path: DatasetPath, query: PageQuery) -> EntriesOut:
    """Page through the entries of a dataset, in order."""
    page, total = runtime().read(path.name, lambda d: d.page(query.after, query.limit))
    end = query.after + query.limit
    shown = [EntryOut.of(entry) for entry in page]
    return EntriesOut(entries=shown, total=total, next=end if end < total else None)


@routes.get(ENTRY, responses={200: EntryOut, 304: None, **said(404, 412, 503)})
def get(path: EntryPath, header: Conditions) -> Response:
    """Look a key up exactly, as a plain dictionary does; its ETag is for If-Match."""
    return header.tagged(runtime().read(path.name, lambda d: _shown(d, path.key)))


@routes.put(
    ENTRY,
    responses={200: EntryOut, 201: EntryOut, **said(404, 409, 412, 415, 503, 507)},
    description="A column that you leave out then has no value; an attribute stays as it was.",
)
def put(
    path: EntryPath, header: Conditions, body: EntryBody
) -> tuple[EntryOut, int, dict[str, str]]:
    """Set the values of a key, new or not; its ETag then is for the next If-Match."""
    change = header.on(
        lambda found: _shown(found, path.key),
        lambda found: found.put_entry(path.key, body.values.root),
    )
    entry, new = runtime().write(path.name, change)
    shown = EntryOut.of(entry)
    return shown, 201 if new else 200, etag_header(shown)


@routes.delete(ENTRY, responses={204: None, **said(404, 412, 503, 507)})
def delete(path: EntryPath, header: Conditions) -> tuple[str, int]:
    """Delete a key."""
    change = header.on(
        lambda found: _shown(found, path.key), lambda found: delitem(found, path.key)
    )
    runtime().write(path.name, change)
    return "", 204


def _shown(dataset: SoftDict, key: str) -> EntryOut:
    return EntryOut.of(dataset.entry(key))

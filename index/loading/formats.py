"""Which format a source has, and its reader."""

from __future__ import annotations

import json

from index.loading.csv_rows import CsvReader
from index.loading.json_rows import JsonLinesReader, JsonReader
from index.loading.options import LoadOptions
from index.loading.parquet_rows import ParquetReader
from index.loading.rows import Reader
from index.loading.sources import Source

HEAD = 1 << 16  # bytes


def open_reader(format: str, source: Source, options: LoadOptions) -> Reader:
    """Open the reader of a format."""
    if format in ("csv", "tsv"):
        return CsvReader(source, options, tabs=format == "tsv")
    if format == "jsonl":
        return JsonLinesReader(source, options)
    if format == "json":
        return JsonReader(source, options)
    return ParquetReader(source, options)


SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def find_format(source: Source, filename: str | None) -> str:
    """Name the format by the file's name, else by how its content begins.

    JSON is looked at even then: many a .json holds JSON Lines.
    """
    name = (filename or "").lower().removesuffix(".gz")
    named = next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)
    if named is not None and named != "json":
        return named
    head = source.head(HEAD)
    if head.startswith(b"PAR1") and not named:
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"").lstrip(b"\xff\xfe \t\r\n")
    if text[:1] not in (b"[", b"{"):
        return named or "csv"
    return "jsonl" if _is_json_lines(text) else "json"


def _is_json_lines(text: bytes) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or lines[1].lstrip()[:1] not in (b"[", b"{"):
        return False
    try:
        json.loads(lines[0].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True

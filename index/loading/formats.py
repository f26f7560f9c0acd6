"""Which format a source has, and its reader."""

from __future__ import annotations

import json
import re

from index.errors import UnreadableSource
from index.loading.csv_rows import CsvReader
from index.loading.json_rows import JsonLinesReader, JsonReader
from index.loading.options import LoadOptions
from index.loading.rows import Reader
from index.loading.sources import Source

HEAD = 1 << 16  # bytes
# How files begin that are often taken for a table and are none; no table of text begins so.
_NO_TABLE = (
    (
        rb"PK\x03\x04",
        "a spreadsheet or a zip archive; save the sheet as CSV, or unpack the archive",
    ),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Word file; save the sheet as CSV"),
    (rb"%PDF-\d", "a PDF; save the table in it as CSV"),
    (
        rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|(?s:RIFF....WEBP)|\0\0\0.ftyp(?:hei|mif1|avif)",
        "an image; write the table in it as CSV",
    ),
    (rb"SQLite format 3\0", "an SQLite database; export the table as CSV"),
    (rb"PAR1[\0-\x08\x0e-\x1f]", "Parquet; load it with format=parquet"),
    (
        rb"(?i)(?:\xef\xbb\xbf)?\s*<(?:!doctype\s|\?xml\s|(?:html|table)(?:\s|>\s*<))",
        "a page of HTML, or XML; save the table in it as CSV",
    ),
    (rb"\x1f\x8b", "gzipped twice; gzip it once"),
    (
        rb"BZh\d1AY&SY|\xfd7zXZ\0|\x28\xb5\x2f\xfd|7z\xbc\xaf",
        "compressed, and not by gzip; unpack it, or use gzip",
    ),
)


def open_reader(format: str, source: Source, options: LoadOptions) -> Reader:
    """Open the reader of a format."""
    if format != "parquet":
        _check_is_table(source)
    if format in ("csv", "tsv"):
        return CsvReader(source, options, tabs=format == "tsv")
    if format == "jsonl":
        return JsonLinesReader(source, options)
    if format == "json":
        return JsonReader(source, options)
    from index.loading.parquet_rows import ParquetReader  # here: it imports pyarrow

    return ParquetReader(source, options)


def _check_is_table(source: Source) -> None:
    head = source.head(16)
    for beginning, words in _NO_TABLE:
        if re.match(beginning, head):
            raise UnreadableSource(f"{source.name} is {words}")


SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def find_format(source: Source) -> str:
    """Name the format by the file's name, else by how its content begins.

    JSON is known by its content whatever the name: many a .json holds JSON Lines.
    """
    name = source.name.lower().removesuffix(".gz")
    named = next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)
    if named == "parquet":
        return named
    head = source.head(HEAD)
    if head.startswith(b"PAR1") and not named:
        return "parquet"
    text = head.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"").lstrip(b"\xff\xfe \t\r\n")
    if text[:1] not in (b"[", b"{"):
        if name.endswith((".yaml", ".yml", ".toml")):
            raise UnreadableSource(f"{source.name} is YAML or TOML; write the table as CSV or JSON")
        return named or "csv"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[0] in (b"[", b"{"):  # a document on several lines
        return "json"
    long = len(lines) == 1 and len(head) == HEAD  # no table has such a line
    if named == "jsonl" or (named in ("csv", "tsv") and not long and not _is_json(lines[0])):
        return named
    several = len(lines) > 1 and lines[1][:1] in (b"[", b"{")
    return "jsonl" if several and _is_json(lines[0]) else "json"


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True

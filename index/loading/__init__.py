"""Tables in and out: CSV, TSV, JSON, JSON Lines and Parquet to typed entries, and back.

A table is read in passes: once to see what it is (``infer``), once to check every row and find keys
that repeat, and once more each time its entries are asked for, unless it is small and its rows were
held. What stays in memory of a large one are the keys while they are compared, the values of keys
that repeat, and the text of a JSON document while it is read.

    options   what a caller may say about a file
    sources   a path, bytes or stream that can be opened again and again
    text      which encoding a text is in
    dialect   delimiter and quoting of a CSV file; whether it has a ``header``
    formats   each format as ``rows`` of named cells with their lines: ``csv_rows``, ``json_rows``…
    numerals  the numbers of text files, with their ``units``
    kinds     what one cell looks like
    infer     what type a column has, and how its numbers are written
    layout    which column holds the keys, what the others are called
    cast      one cell to one typed value
    table     the passes, bad rows, keys that repeat (``merge``)
    writers   the same formats, written
"""

from __future__ import annotations

from index.loading.cast import cast_value, check_key, in_another_unit
from index.loading.infer import infer_columns
from index.loading.options import LoadOptions
from index.loading.table import Table, read_table
from index.loading.writers import write_table

__all__ = [
    "LoadOptions",
    "Table",
    "cast_value",
    "check_key",
    "in_another_unit",
    "infer_columns",
    "read_table",
    "write_table",
]

"""softdict over HTTP and on the command line. Knows no FAISS and no SQL.

    server, cli ──> app ──> views (answers, datasets, entries, jobs, pages) ──> index
                              │ parse: requests, incoming, uploads, conditions
                              │ shape: outgoing
                              └ raise: errors ──> problems (one table: error → status, type, title)

``python -m service --help`` lists the commands.
"""

from __future__ import annotations

__version__ = "0.2.0.dev0"  # of index too, which commands that only print do not import

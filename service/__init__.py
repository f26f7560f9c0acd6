"""softdict over HTTP and on the command line. Knows no FAISS and no SQL.

    server ──> app ──> guard ──> views (answers, datasets, entries, jobs, pages) ──> index
                                   │ parse: requests, incoming, uploads, conditions
                                   │ ask: runtime (the catalog, and ``work`` in the background)
                                   │ shape: outgoing
                                   └ raise: errors ──> refusals, by problems (one table: error →
                                                       status, title)
    cli ──> server, or index with the shapes of outgoing, printed

``python -m service --help`` lists the commands.
"""

from __future__ import annotations

__version__ = "0.2.0.dev0"  # of index too, which commands that only print do not import

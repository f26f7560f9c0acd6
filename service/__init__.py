"""softdict over HTTP and on the command line. Knows no FAISS and no SQL.

    server, cli ──> app ──> views (answers, datasets, entries, jobs, pages) ──> index
                              │ parse: requests, incoming, uploads
                              │ shape: outgoing
                              └ raise: errors ──> problems (one table: error → status, type, title)

``python -m service --help`` lists the commands.
"""

from __future__ import annotations

from index import __version__ as __version__

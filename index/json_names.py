"""Names that stand twice in a JSON object: Python's reader keeps the last and says nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def repeated_name(pairs: Iterable[tuple[str, object]]) -> str:
    """Return the first name that comes again; one must. In one pass: a stranger sends the pairs."""
    counts = Counter(name for name, _ in pairs)
    return next(name for name, count in counts.items() if count > 1)

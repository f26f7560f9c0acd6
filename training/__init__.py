"""What every step of a training has in common."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """End with one line where a file is missing, or cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None

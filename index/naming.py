"""What a dataset and a key may be called."""

from __future__ import annotations

import unicodedata

from index.errors import Fault, InvalidRequest

LONGEST_NAME = 100  # characters
LONGEST_KEY = 10_000  # characters


def check_name(name: object) -> None:
    """Refuse a name that would not stand well in an address or a file name."""
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= LONGEST_NAME
        or not all(letter.isalnum() or letter in "-_." for letter in name)
        or name.startswith(".")
        or name != unicodedata.normalize("NFC", name)
    ):
        raise InvalidRequest(
            Fault(
                "name",
                f"write 1 to {LONGEST_NAME} letters, digits, hyphens, underscores or points, "
                "not starting with a point",
            )
        )

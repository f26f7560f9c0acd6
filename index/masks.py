"""Masks: which keys may be attended to.

A mask is applied before softmax, so the weights are exactly those of a dataset in
which the masked keys had never been.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from index.errors import Fault, InvalidRequest

Mask = NDArray[np.bool_]

DAY = 86_400.0  # seconds
LONGEST = 100  # characters of a position or a moment
WEEK = re.compile("[0-9]{4}-?[Ww][0-9]{2}")
# Where the + before a zone was read as a blank.
IN_AN_ADDRESS = re.compile(r"(?<=[T ])([\d:.,]+) (?=\d\d(?::?\d\d)?$)", re.ASCII)
MOST = 10_000_000  # entries: beyond, digits are a date without its hyphens, or seconds since 1970


@dataclass(frozen=True)
class AsOf:
    """The causal mask: the first ``position`` entries, or those arrived by ``moment``."""

    position: int | None = None
    moment: float | None = None  # seconds since 1970, UTC

    def mask(self, alive: Mask, ids: NDArray[np.int64], arrived: NDArray[np.float64]) -> Mask:
        """Narrow the (n,) mask of present entries; ids grow in the order of entry."""
        if self.moment is not None:
            return np.asarray(alive & (arrived <= self.moment))
        position, present = self.position or 0, ids[alive]
        if position >= len(present):
            return alive
        return np.asarray(alive & (ids < np.partition(present, position)[position]))


def parse_as_of(value: object) -> AsOf | None:
    """Read ``as_of``: a count of entries, or an ISO 8601 date or time.

    Digits alone, up to seven, are a position (``3`` or ``"3"``: the first three entries). A time
    without a zone is UTC. A date without a time takes in the whole day. Raise InvalidRequest if it
    is none of these.
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
        value = _parse_text(text) if len(text) <= LONGEST else None
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < MOST:
        return AsOf(position=int(value))
    if isinstance(value, date) and value != value:  # pandas' NaT is one
        value = None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return AsOf(moment=aware.timestamp())
    if isinstance(value, date):
        start = datetime.combine(value, time(), UTC)
        return AsOf(moment=np.nextafter(start.timestamp() + DAY, 0.0))
    raise InvalidRequest(
        Fault(
            "as_of",
            "write a number of entries (3), at most seven digits, or an ISO 8601 date or time with "
            "its hyphens, and a zone behind the time alone (2026-01-31, 2026-01-31T18:00+01:00)",
        )
    )


def _parse_text(text: str) -> object:
    if text.isascii() and text.isdigit():
        return int(text)
    text = IN_AN_ADDRESS.sub(r"\1+", text)
    if WEEK.fullmatch(text):  # Python takes its Monday
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    if not set("Tt ") & set(text):  # else Python takes the zone behind a date for a time of day
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None

"""Conditional requests (RFC 9110 §13), so that nobody overwrites what they have not seen.

The ETag of an entry, or of a dataset, is a digest of what a GET answers with. A write that names
one in ``If-Match`` is made only if that is still the answer, and one with ``If-None-Match: *`` only
if there is none. The look and the write are in one turn of the dataset's writers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar, get_args

from flask import Response
from pydantic import BaseModel, Field
from werkzeug.http import generate_etag, parse_etags, quote_etag

from index.answers import Precision
from index.errors import UnknownEntry
from index.softdict import SoftDict

from .errors import ConditionFailed
from .outgoing import DatasetOut
from .requests import as_json, shaped

Result = TypeVar("Result")


class Conditions(BaseModel):
    """What the client has seen."""

    if_match: str | None = Field(
        default=None,
        alias="If-Match",
        description="the ETag that a GET gave: the request is refused (412) if it is another by "
        "now; * is any",
    )
    if_none_match: str | None = Field(
        default=None,
        alias="If-None-Match",
        description="an ETag that is not to be met: of a GET, it is answered with 304; "
        "* lets a write make only what is new",
    )

    def on(
        self, look: Callable[[SoftDict], BaseModel], change: Callable[[SoftDict], Result]
    ) -> Callable[[SoftDict], Result]:
        """Make a change only where what is there before it meets the conditions."""
        if self.if_match is None and self.if_none_match is None:
            return change  # a new key is encoded before the turn

        def checked(dataset: SoftDict) -> Result:
            with dataset.turn:
                try:
                    tags = [etag(shown) for shown in _of_one_version(look(dataset))]
                except UnknownEntry:
                    tags = []
                self._check_match(*tags)
                if any(map(self._is_met, tags)):
                    raise ConditionFailed("If-None-Match")
                return change(dataset)

        return checked

    def tagged(self, shown: BaseModel) -> Response:
        """Answer a GET with an ETag, and with nothing else where the client has that already."""
        tag, response = etag(shown), shaped(shown)
        self._check_match(tag)
        response.set_etag(tag)
        if self._is_met(tag):
            response.status_code = 304
        return response

    def _check_match(self, *tags: str) -> None:
        """Raise ConditionFailed; by "the strong comparison function" (§13.1.1)."""
        if self.if_match is not None and not any(map(parse_etags(self.if_match).contains, tags)):
            raise ConditionFailed("If-Match", there=bool(tags))

    def _is_met(self, tag: str) -> bool:
        """Compare with If-None-Match, by "the weak comparison function" (§13.1.2)."""
        return parse_etags(self.if_none_match).contains_weak(tag)


def etag_header(shown: BaseModel) -> dict[str, str]:
    """Give the header of what a write answers with: it is what a GET would give."""
    return {"ETag": quote_etag(etag(shown))}


def _of_one_version(shown: BaseModel) -> Iterator[BaseModel]:
    """Give all that a GET may have answered with since the last write."""
    yield shown
    if isinstance(shown, DatasetOut):  # a sketch that was finished meanwhile is nobody's change
        for precision in set(get_args(Precision)) - {shown.precision_in_use}:
            yield shown.model_copy(update={"precision_in_use": precision})


def etag(shown: BaseModel) -> str:
    """Give the ETag of what a GET answers with."""
    return generate_etag(as_json(shown))

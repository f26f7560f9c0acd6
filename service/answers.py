"""Asking: search and compare."""

from __future__ import annotations

from .incoming import CompareBody, CompareQuery, SearchBody, SearchQuery
from .outgoing import AnswerOut, AnswersOut, ComparisonOut, FoundOut
from .problems import said
from .requests import Routes
from .runtime import runtime

routes = Routes("answers", "Ask")


@routes.get("/search", responses={200: AnswerOut, **said(404, 409, 503)})
def search(query: SearchQuery) -> AnswerOut:
    """Ask a dataset by meaning: every key answers in proportion to how well it fits."""
    (answer,) = _answered(query, [query.q])
    return answer


@routes.post("/search", responses={200: FoundOut, **said(404, 409, 415, 503)})
def search_by_body(body: SearchBody) -> AnswerOut | AnswersOut:
    """Ask a dataset by meaning, with a condition as JSON; several questions at once too."""
    if isinstance(body.q, list):
        return AnswersOut(answers=_answered(body, body.q))
    (answer,) = _answered(body, [body.q])
    return answer


@routes.get("/compare", responses={200: ComparisonOut, **said(404, 409, 503)})
def compare(query: CompareQuery) -> ComparisonOut:
    """Put the same question to an exact dictionary and to attention."""
    return _compared(query)


@routes.post("/compare", responses={200: ComparisonOut, **said(404, 409, 415, 503)})
def compare_by_hand(body: CompareBody) -> ComparisonOut:
    """Put the same question to an exact dictionary, to attention and to weights by hand."""
    return _compared(body)


def _answered(asked: SearchQuery, queries: list[str]) -> list[AnswerOut]:
    answers = runtime().read(asked.dataset, lambda d: d.search_many(queries, **asked.options))
    return [AnswerOut.of(answer) for answer in answers]


def _compared(asked: CompareQuery) -> ComparisonOut:
    found = runtime().read(asked.dataset, lambda d: d.compare(asked.q, **asked.options))
    return ComparisonOut.of(found)

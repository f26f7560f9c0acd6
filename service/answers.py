"""Asking: search and compare."""

from __future__ import annotations

from .incoming import CompareBody, CompareQuery, SearchBody, SearchQuery
from .outgoing import AnswerOut, ComparisonOut
from .problems import said
from .requests import Routes
from .runtime import runtime

routes = Routes("answers", "Ask")


@routes.get("/search", responses={200: AnswerOut, **said(404, 409, 503)})
def search(query: SearchQuery) -> AnswerOut:
    """Ask a dataset by meaning: every key answers in proportion to how well it fits."""
    return _answered(query)


@routes.post("/search", responses={200: AnswerOut, **said(404, 409, 413, 415, 503)})
def search_by_body(body: SearchBody) -> AnswerOut:
    """Ask a dataset by meaning, with a condition as JSON."""
    return _answered(body)


@routes.get("/compare", responses={200: ComparisonOut, **said(404, 409, 503)})
def compare(query: CompareQuery) -> ComparisonOut:
    """Put the same question to an exact dictionary and to attention."""
    return _compared(query)


@routes.post("/compare", responses={200: ComparisonOut, **said(404, 409, 413, 415, 503)})
def compare_by_hand(body: CompareBody) -> ComparisonOut:
    """Put the same question to an exact dictionary, to attention and to weights by hand."""
    return _compared(body, body.weights)


def _answered(query: SearchQuery) -> AnswerOut:
    answer = (
        runtime()
        .dataset(query.dataset)
        .search(
            query.q,
            k=query.k,
            temperature=query.temperature,
            tolerance=query.tolerance,
            mode=query.mode,
            as_of=query.as_of,
            where=query.where,
            explain=query.explain,
        )
    )
    return AnswerOut.of(answer)


def _compared(query: CompareQuery, weights: dict[str, float] | None = None) -> ComparisonOut:
    comparison = (
        runtime()
        .dataset(query.dataset)
        .compare(
            query.q,
            weights=weights,
            k=query.k,
            temperature=query.temperature,
            tolerance=query.tolerance,
            as_of=query.as_of,
            where=query.where,
        )
    )
    return ComparisonOut.of(comparison)

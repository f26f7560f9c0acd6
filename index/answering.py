"""Answering: from a checked question to an ``Answer``, over one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from index.answers import Answer, Blend, Column, Match, Mode, bare
from index.blending import blend_attention, blend_given
from index.confidence import confidence, is_unread
from index.encoders import EncoderWorker
from index.errors import Fault, InvalidRequest
from index.explaining import explained
from index.masks import AsOf, parse_as_of
from index.naming import composed
from index.prediction import with_predictions
from index.search import AT_ONCE, Attention, Rows, Tau, attend_keys
from index.settings import parse_tolerance, standing_temperature, standing_tolerance
from index.snapshot import Place, Snapshot
from index.store import Record
from index.temperature import Temperature, effective_keys_temperature, parse_temperature
from index.where import Where, parse_where, where_mask


@dataclass(frozen=True)
class Question:
    """What was asked, checked and parsed."""

    queries: tuple[str, ...]
    k: int
    temperature: Temperature | None  # None: the dataset's own setting
    as_of: AsOf | None
    where: Where | None
    tolerance: float | None  # None: the dataset's own
    explain: bool

    def allowed(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Give the (n,) mask of rows that may be attended to.

        ``as_of`` counts the entries that are there, whether ``where`` holds of them or not.
        """
        allowed = snapshot.alive
        if self.as_of is not None:
            allowed = self.as_of.mask(allowed, snapshot.ids, snapshot.arrived)
        if self.where is not None:
            allowed = allowed & where_mask(self.where, snapshot)
        return allowed


def parse_question(
    queries: Iterable[str],
    *,
    k: int = 1,
    temperature: object = None,
    mode: str = "soft",
    as_of: object = None,
    where: object = None,
    tolerance: object = None,
    columns: Sequence[Column] = (),
    key_column: str | None = None,
    explain: bool = False,
) -> Question:
    """Check the arguments of a search of a dataset with these columns.

    Raise InvalidRequest with every fault of them at once.
    """
    faults: list[Fault] = []

    def parsed(parse: Callable[[object], Any], value: object) -> Any:
        try:
            return None if value is None else parse(value)
        except InvalidRequest as fault:
            faults.extend(fault.faults)

    listed = isinstance(queries, Iterable) and not isinstance(queries, str)
    asked = tuple(queries) if listed else ()  # once: it may be a generator
    if not listed:
        faults.append(Fault("query", "write a list of questions, not one text"))
    elif not all(isinstance(query, str) for query in asked):
        faults.append(Fault("query", "a question is text"))
    elif not all(query.strip() for query in asked):
        faults.append(Fault("query", "write something to ask for"))
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        faults.append(Fault("k", "write a whole number of matches, at least 1"))
    if mode not in get_args(Mode):
        faults.append(Fault("mode", "write soft or exact"))
    question = Question(
        asked,
        int(k) if isinstance(k, Integral) else 1,
        parsed(parse_temperature, temperature),
        parsed(parse_as_of, as_of),
        parsed(lambda given: parse_where(given, columns, key_column=key_column), where),
        parsed(parse_tolerance, tolerance),
        explain,
    )
    if faults:
        raise InvalidRequest(*faults)
    return question


def _temperature(question: Question, record: Record, encoder: EncoderWorker) -> tuple[Tau, str]:
    """Give τ, or what makes it of a query's allowed scores, and where it came from."""
    given = question.temperature
    setting = parse_temperature(record.temperature) if given is None else given
    amount = setting.amount
    if setting.kind == "effective_keys" and amount is not None:
        return lambda scores: effective_keys_temperature(scores, amount), setting.kind
    tau, source = standing_temperature(setting, record.fitted, encoder.dimension)
    if tau is None:
        return encoder.default_temperature, source
    return tau, "given" if given is not None and source == "setting" else source


def answer_softly(
    question: Question, record: Record, snapshot: Snapshot, encoder: EncoderWorker
) -> list[Answer]:
    """Attend from every query to the allowed keys, some queries at a time."""
    allowed = question.allowed(snapshot)
    return [answer for answer, _, _ in _answers(question, record, snapshot, encoder, allowed)]


def answer_naming(
    question: Question,
    record: Record,
    snapshot: Snapshot,
    encoder: EncoderWorker,
    keys: Iterable[str],
) -> tuple[Answer, dict[str, float]]:
    """Answer the question's one query; with it the weights that some keys get, listed or not."""
    allowed = question.allowed(snapshot)
    ((answer, attention, query),) = _answers(question, record, snapshot, encoder, allowed)
    weights = {}
    for key in keys:
        place = snapshot.find(key)
        if place is not None:
            score = snapshot.blocks[place.block].vectors[place.row] @ query
            may_be = allowed[snapshot.row(place)]
            weights[key] = float(attention.weight_of(score)) if may_be else 0.0
    return answer, weights


def _answers(
    question: Question,
    record: Record,
    snapshot: Snapshot,
    encoder: EncoderWorker,
    allowed: NDArray[np.bool_],
) -> Iterator[tuple[Answer, Attention, Rows]]:
    """Answer query by query, with what each attended to and its (d,) vector."""
    # As keys are held: some encoders know a letter with its mark as one character alone.
    rows = encoder.encode_queries([composed(query) for query in question.queries])
    tau, source = _temperature(question, record, encoder)
    given = question.tolerance
    tolerance = standing_tolerance(record) if given is None else given
    together = max(1, AT_ONCE // max(snapshot.rows, 1))
    for start in range(0, len(rows), together):
        found = attend_keys(
            snapshot,
            rows[start : start + together],
            temperature=tau,
            allowed=allowed,
            k=question.k,
            tolerance=tolerance,
        )
        for number, attention in enumerate(found, start):
            query, row = question.queries[number], rows[number]
            blend = blend_attention(snapshot, row, attention, allowed=allowed, tolerance=tolerance)
            blend = with_predictions(blend, record.margins, attention.temperature)
            trust = confidence(attention.best, attention.keys, encoder.calibration)
            if trust is not None:
                trust = _trust(trust, query, snapshot, encoder, allowed)
            answer = _answer(query, record, snapshot, attention, blend, source, trust)
            if question.explain:
                answer = explained(answer, attention, len(snapshot), encoder)
            yield answer, attention, row


def _trust(
    trust: float,
    query: str,
    snapshot: Snapshot,
    encoder: EncoderWorker,
    allowed: NDArray[np.bool_],
) -> float:
    """Mend a confidence, which goes by the best score, where the question itself says more."""
    if _entry(query, snapshot, allowed) is not None:
        return 1.0
    # A picture of an apple is no answer to that of a car, nor to a word in Korean.
    return 0.0 if is_unread(query, encoder.tokens) else trust


def _answer(
    query: str,
    record: Record,
    snapshot: Snapshot,
    attention: Attention,
    blend: dict[str, Blend | None],
    source: str,
    trust: float | None,
) -> Answer:
    state = attention.state
    top = zip(state.top_rows[0], state.top_logits[0], state.top_weights[0], strict=True)
    return Answer(
        query=query,
        dataset=record.name,
        mode="soft",
        blend=blend,
        matches=tuple(
            _match(
                snapshot,
                snapshot.place(int(row)),
                float(logit * attention.temperature),
                float(weight),
            )
            for row, logit, weight in top
            if row >= 0
        ),
        temperature=attention.temperature,
        temperature_source=source,
        effective_keys=min(float(state.effective_keys[0]), attention.keys),  # a sample's may exceed
        keys=attention.keys,
        coverage=attention.coverage,
        error=attention.error,
        scored=attention.scored,
        confidence=trust,
        units=_units(snapshot),
    )


def answer_exactly(question: Question, record: Record, snapshot: Snapshot) -> list[Answer]:
    """Answer as a plain dict does: only a key that reads the same answers, or none."""
    allowed = question.allowed(snapshot)
    answers = []
    for query in question.queries:
        place = _entry(query, snapshot, allowed)
        found = place is not None
        answers.append(
            Answer(
                query=query,
                dataset=record.name,
                mode="exact",
                blend=blend_given(snapshot, {place: 1.0} if place else {}),
                matches=(_match(snapshot, place, 1.0, 1.0),) if place else (),
                temperature=0.0,
                temperature_source="exact",
                effective_keys=float(found),
                keys=int(np.count_nonzero(allowed)),
                coverage=1.0,
                error=0.0,
                scored=0,
                confidence=float(found),
                units=_units(snapshot),
            )
        )
    return answers


def _entry(query: str, snapshot: Snapshot, allowed: NDArray[np.bool_]) -> Place | None:
    """Find the entry whose key is written as the query is, if it may answer."""
    place = snapshot.find(query)
    return place if place is not None and allowed[snapshot.row(place)] else None


def _units(snapshot: Snapshot) -> dict[str, str]:
    return {column.name: column.unit for column in snapshot.columns if column.unit}


def _match(snapshot: Snapshot, place: Place, score: float, weight: float) -> Match:
    values, attributes = snapshot.parted(place)
    score = min(1.0, max(-1.0, score))  # a cosine, but for the last bit of float32
    return Match(snapshot.key(place), bare(values), values, score, weight, attributes)

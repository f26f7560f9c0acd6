"""Answering: from a checked question to an ``Answer``, over one snapshot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from index.answers import Answer, Blend, Column, Match, Precision, bare
from index.attention import attention_weights, sqrt_d
from index.confidence import confidence
from index.encoders import EncoderWorker
from index.errors import Fault, InvalidRequest
from index.explaining import explained
from index.masks import AsOf, parse_as_of
from index.search import AT_ONCE, NORMAL, TOLERANCE, Attention, Rows, Tau, attend_keys
from index.snapshot import Place, Snapshot
from index.store import Record
from index.temperature import Temperature, effective_keys_temperature, parse_temperature
from index.values import blend_column
from index.where import Where, parse_where, where_mask

Weights = NDArray[np.floating[Any]]

# Above so many times the tolerance, a blend's foreseen error sends its keys to be searched alone.
# It may exceed 1: on real keys a blend is off by only .6 of what is foreseen.
SCARCE = 1.5
ALONE = 1.15  # times the tolerance, for the same reason, for keys that are searched alone
FAINT = 1e-6  # of the weight: with less on the keys that have a value, float32 may round it away
FEWEST_DRAWN = 30  # keys with a value: with fewer, the sample may have missed those that weigh
SEEN = 4.0  # times SCARCE: beyond, the first look does not show where keys with a value are


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
    queries: Sequence[str],
    *,
    k: int = 1,
    temperature: object = None,
    mode: str = "soft",
    as_of: object = None,
    where: object = None,
    tolerance: object = None,
    columns: Sequence[Column] = (),
    explain: bool = False,
) -> Question:
    """Check the arguments of a search of a dataset with these columns.

    Raises
    ------
    InvalidRequest
        With every fault of them at once.
    """
    faults: list[Fault] = []

    def parsed(parse: Callable[[object], Any], value: object) -> Any:
        try:
            return None if value is None else parse(value)
        except InvalidRequest as fault:
            faults.extend(fault.faults)

    if not all(isinstance(query, str) and query.strip() for query in queries):
        faults.append(Fault("query", "write something to ask for"))
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        faults.append(Fault("k", "write a whole number of matches, at least 1"))
    if mode not in ("soft", "exact"):
        faults.append(Fault("mode", "write soft or exact"))
    question = Question(
        tuple(queries),
        k,
        parsed(parse_temperature, temperature),
        parsed(parse_as_of, as_of),
        parsed(lambda given: parse_where(given, columns), where),
        parsed(parse_tolerance, tolerance),
        explain,
    )
    if faults:
        raise InvalidRequest(*faults)
    return question


def parse_tolerance(value: object) -> float:
    """Read a wanted total variation error: a number from 0 (exact) to below 1.

    Raises
    ------
    InvalidRequest
        If it is anything else.
    """
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number < 1:
        message = "write a number from 0 (every key is scored) to below 1, such as 0.03"
        raise InvalidRequest(Fault("tolerance", message))
    return number


def new_settings(temperature: object, tolerance: object, precision: object) -> dict[str, Any]:
    """Read all settings of a new dataset, as ``parse_settings`` does."""
    return parse_settings(
        {"temperature": temperature, "tolerance": tolerance, "precision": precision}
    )


def parse_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Read a dataset's settings by name, as the store keeps them; a tolerance of None too.

    Raises
    ------
    InvalidRequest
        With every fault of them at once.
    """
    parsed: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, value in given.items():
        try:
            if name == "temperature":
                parsed[name] = str(parse_temperature(value))
            elif name == "tolerance":
                parsed[name] = None if value is None else parse_tolerance(value)
            elif name == "precision":
                parsed[name] = _parse_precision(value)
            else:
                message = "no such setting; there are: temperature, tolerance, precision"
                faults.append(Fault(name, message))
        except InvalidRequest as fault:
            faults.extend(fault.faults)
    if faults:
        raise InvalidRequest(*faults)
    return parsed


def _parse_precision(value: object) -> object:
    if value not in get_args(Precision):
        raise InvalidRequest(Fault("precision", "write full or half"))
    return value


def standing_tolerance(record: Record) -> float:
    """Say what error a dataset's questions may be answered with, where they do not say."""
    return TOLERANCE if record.tolerance is None else record.tolerance


def standing_temperature(record: Record) -> tuple[float | None, str]:
    """Say which τ a dataset's setting stands for, where neither query nor encoder is needed."""
    setting = parse_temperature(record.temperature)
    if setting.kind == "number":
        return setting.amount, "setting"
    if setting.kind == "auto":
        return record.fitted, "encoder" if record.fitted is None else "fitted"
    if setting.kind == "sqrt_d" and record.dimension:
        return sqrt_d(record.dimension), "sqrt_d"
    return None, setting.kind


def _temperature(question: Question, record: Record, encoder: EncoderWorker) -> tuple[Tau, str]:
    """Give τ, or what makes it of a query's allowed scores, and where it came from."""
    given = question.temperature
    setting = parse_temperature(record.temperature) if given is None else given
    amount = setting.amount or 1.0
    if setting.kind == "effective_keys":
        return lambda scores: effective_keys_temperature(scores, amount), "effective_keys"
    if setting.kind == "number":
        return amount, "setting" if given is None else "given"
    if setting.kind == "sqrt_d":
        return sqrt_d(encoder.dimension), "sqrt_d"
    fitted = record.fitted
    if fitted is not None:
        return fitted, "fitted"
    return encoder.default_temperature, "encoder"


def answer_softly(
    question: Question, record: Record, snapshot: Snapshot, encoder: EncoderWorker
) -> list[Answer]:
    """Attend from every query to the allowed keys, some queries at a time."""
    rows = encoder.encode_queries(question.queries)
    allowed = question.allowed(snapshot)
    tau, source = _temperature(question, record, encoder)
    tolerance = wanted_tolerance(question, record)
    together = max(1, AT_ONCE // max(snapshot.rows, 1))
    answers = []
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
            blend = blend_attention(
                snapshot, rows[number], attention, allowed=allowed, tolerance=tolerance
            )
            query = question.queries[number]
            answer = _answer(query, record, snapshot, attention, blend, source, encoder)
            if question.explain:
                answer = explained(answer, attention, len(snapshot), encoder)
            answers.append(answer)
    return answers


def wanted_tolerance(question: Question, record: Record) -> float:
    """Say what error a question may be answered with."""
    given = question.tolerance
    return standing_tolerance(record) if given is None else given


def attended_weights(
    question: Question,
    record: Record,
    snapshot: Snapshot,
    encoder: EncoderWorker,
    keys: Iterable[str],
) -> dict[str, float]:
    """Give the weights that some keys get from the question's one query, listed or not."""
    tau, _ = _temperature(question, record, encoder)
    queries = encoder.encode_queries(question.queries)
    allowed = question.allowed(snapshot)
    (attention,) = attend_keys(
        snapshot,
        queries,
        temperature=tau,
        allowed=allowed,
        k=1,
        tolerance=wanted_tolerance(question, record),
    )
    weights = {}
    for key in keys:
        place = snapshot.find(key)
        if place is not None:
            score = snapshot.blocks[place.block].vectors[place.row] @ queries[0]
            may_be = allowed[snapshot.row(place)]
            weights[key] = float(attention.weight_of(score)) if may_be else 0.0
    return weights


def _answer(
    query: str,
    record: Record,
    snapshot: Snapshot,
    attention: Attention,
    blend: dict[str, Blend | None],
    source: str,
    encoder: EncoderWorker,
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
        effective_keys=float(state.effective_keys[0]),
        keys=attention.keys,
        coverage=attention.coverage,
        error=attention.error,
        scored=attention.scored,
        confidence=confidence(attention.best, attention.keys, encoder.calibration),
    )


def answer_exactly(question: Question, record: Record, snapshot: Snapshot) -> list[Answer]:
    """Answer as a plain dict does: only a key that reads the same answers, or none."""
    allowed = question.allowed(snapshot)
    answers = []
    for query in question.queries:
        place = snapshot.find(query)
        if place is not None and not allowed[snapshot.row(place)]:
            place = None
        found = place is not None
        answers.append(
            Answer(
                query=query,
                dataset=record.name,
                mode="exact",
                blend=blend_all(snapshot, weights_of(snapshot, {place: 1.0} if place else {})),
                matches=(_match(snapshot, place, 1.0, 1.0),) if place else (),
                temperature=0.0,
                temperature_source="exact",
                effective_keys=float(found),
                keys=int(np.count_nonzero(allowed)),
                coverage=1.0,
                error=0.0,
                scored=0,
                confidence=float(found),
            )
        )
    return answers


def blend_attention(
    snapshot: Snapshot,
    query: Rows,
    attention: Attention,
    *,
    allowed: NDArray[np.bool_],
    tolerance: float,
) -> dict[str, Blend | None]:
    """Blend every column of values under what a (d,) query pays attention to.

    A blend is over the keys that have a value. Where few of those that weigh have one, a sample
    of all keys tells little of them. So they are attended to alone: among themselves their
    weights stay in proportion, whatever else there is.
    """
    if attention.counts is None:
        blends = blend_all(snapshot, attention.weights, attention.rows)
        return blends | _faint_blends(snapshot, attention, blends)
    limit = SCARCE * tolerance / NORMAL
    plenty: list[int] = []  # columns, by number
    alike: dict[int, tuple[NDArray[np.bool_], list[int]]] = {}  # those with one mask of gaps
    for number, known in enumerate(snapshot.known):
        if known is None:
            plenty.append(number)
        elif not snapshot.columns[number].attribute:
            alike.setdefault(id(known), (known, []))[1].append(number)
    blends = {}
    for known, numbers in alike.values():
        there = known[attention.rows]
        unevenness = attention.unevenness(there)
        drawn = np.count_nonzero(attention.counts[there] > 1)
        if unevenness <= limit and drawn >= FEWEST_DRAWN:
            plenty += numbers
            continue
        (found,) = attend_keys(
            snapshot,
            query[np.newaxis],
            temperature=attention.temperature,
            allowed=snapshot.having[numbers[0]] if allowed is snapshot.alive else allowed & known,
            k=1,
            tolerance=ALONE * tolerance,
            seen=attention.outlook if unevenness < SEEN * limit else None,
        )
        share = float(attention.weights[there].sum())
        for name, blend in blend_all(snapshot, found.weights, found.rows, numbers=numbers).items():
            blends[name] = None if blend is None else replace(blend, known=share)
    blends |= blend_all(snapshot, attention.weights, attention.rows, numbers=plenty)
    return {column.name: blends[column.name] for column in snapshot.columns if not column.attribute}


def _faint_blends(
    snapshot: Snapshot, attention: Attention, blends: Mapping[str, Blend | None]
) -> dict[str, Blend | None]:
    """Blend anew the columns in which next to no weight has a value, by the weights among those."""
    anew: dict[str, Blend | None] = {}
    for number, column in enumerate(snapshot.columns):
        known = snapshot.known[number]
        if known is None or column.attribute:
            continue
        blend = blends[column.name]
        share = 0.0 if blend is None else blend.known
        if share >= FAINT:
            continue
        there = known if attention.rows is None else known[attention.rows]
        if attention.allowed is not None:
            there = there & attention.allowed
        weights = attention_weights(
            attention.scores, temperature=attention.temperature, allowed=there
        )
        found = blend_all(snapshot, weights, attention.rows, numbers=[number])[column.name]
        anew[column.name] = found and replace(found, known=share)
    return anew


def blend_all(
    snapshot: Snapshot,
    weights: Weights,
    rows: NDArray[np.int64] | None = None,
    *,
    numbers: Sequence[int] | None = None,
) -> dict[str, Blend | None]:
    """Blend every column of values, or those of some numbers, under weights of rows, or of all."""
    columns = range(len(snapshot.columns)) if numbers is None else numbers
    wanted = [number for number in columns if not snapshot.columns[number].attribute]
    if rows is None:
        arrays = [snapshot.arrays[number] for number in wanted]
    else:
        arrays = snapshot.values_at(rows, wanted)
    orders = snapshot.orders if rows is None else {}
    weights = weights.astype(np.float64, copy=False)  # once for all columns
    blends = {}
    for number, array in zip(wanted, arrays, strict=True):
        column, table = snapshot.columns[number], snapshot.labels[number]
        order = orders.get(column.name)
        blends[column.name] = blend_column(column, array, weights, table, order=order)
    return blends


def weights_of(snapshot: Snapshot, given: Mapping[Place, float]) -> NDArray[np.float64]:
    """Lay the weights of some entries out over all rows."""
    weights = np.zeros(snapshot.rows)
    for place, weight in given.items():
        weights[snapshot.row(place)] = weight
    return weights


def _match(snapshot: Snapshot, place: Place, score: float, weight: float) -> Match:
    values, attributes = snapshot.parted(place)
    score = min(1.0, max(-1.0, score))  # a cosine, but for the last bit of float32
    return Match(snapshot.key(place), bare(values), values, score, weight, attributes)

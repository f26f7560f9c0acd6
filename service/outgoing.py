"""What goes out, as pydantic models: each is made from a plain value of the library by ``of``.

JSON cannot say NaN or infinity, and neither can these: one of them would be a fault of ours.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from operator import not_
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from index.answers import Answer, ColumnType, Mode, Precision

from .problems import ProblemOut, ProblemType, describe
from .work import Job, JobKind, State


class Out(BaseModel):
    """A part of a response: its fields are those of a value, or the members of a tuple."""

    model_config = ConfigDict(allow_inf_nan=False, from_attributes=True)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        if isinstance(given, tuple):
            return dict(zip(cls.model_fields, given, strict=True))
        return given

    @classmethod
    def of(cls, given: Any) -> Self:
        """Shape a value."""
        return cls.model_validate(given)


OutValue = int | float | str | list[int | float] | None
Values = dict[str, OutValue]


class ColumnOut(Out):
    """A column of values, or an attribute."""

    name: str
    type: ColumnType = Field(description="undecided until the first value, which decides it")
    width: int | None = Field(default=None, exclude_if=not_, description="components of a vector")
    attribute: bool = Field(
        default=False,
        exclude_if=not_,
        description="to filter by, never blended; left out where it is false",
    )
    unit: str | None = Field(
        default=None, exclude_if=not_, description="unit of its numbers, such as €, USD or %"
    )


class NumberBlendOut(Out):
    """Weighted mean of numbers, and the interval that holds ``level`` of the weight."""

    type: Literal["number"]
    mean: float
    sd: float
    median: float
    interval: tuple[float, float]
    prediction_interval: tuple[float, float] | None = Field(
        default=None,
        exclude_if=not_,
        description="where a value lies that the dataset lacks, with a probability of level, if "
        "its key is one such as the dataset's; left out where too few values tell",
    )
    level: float
    known: float = Field(description="share of the weight whose keys have a value")
    unit: str | None = Field(
        default=None, exclude_if=not_, description="of the column; left out where it has none"
    )


class VectorBlendOut(Out):
    """Weighted mean of vectors, and the root mean squared distance to it."""

    type: Literal["vector"]
    mean: list[float]
    sd: float
    known: float


class ShareOut(Out):
    """A distinct value and its share of the weight."""

    value: str
    probability: float


class LabelBlendOut(Out):
    """Distribution over distinct labels or texts, greatest first."""

    type: Literal["category", "text"]
    value: str
    probability: float
    distribution: list[ShareOut]
    rest: float = Field(description="weight of the values that are not listed")
    known: float


BlendOut = NumberBlendOut | VectorBlendOut | LabelBlendOut


class MatchOut(Out):
    """An entry with its score (cosine) and its weight (share of all attention)."""

    key: str
    values: Values
    score: float
    weight: float
    attributes: Values = Field(
        default={}, exclude_if=not_, description="left out where there are none"
    )


class AttentionOut(Out):
    """How the attention was spread, and how much of it was computed."""

    temperature: float
    temperature_source: str
    effective_keys: float
    keys: int = Field(description="keys that may answer: the weights sum to 1 over them")
    coverage: float = Field(description="share of the weight that was computed key by key")
    error: float = Field(
        description="how far the weight of any scored key, of any set of them and of all others "
        "together can be from exact attention: total variation, at 95 %"
    )
    scored: int = Field(description="keys scored one by one, from which the weights come")


class AnswerOut(Out):
    """What a query got."""

    query: str
    dataset: str
    mode: Mode
    blend: dict[str, BlendOut | None]
    matches: list[MatchOut]
    attention: AttentionOut
    confidence: float | None
    units: dict[str, str] = Field(
        default={},
        exclude_if=not_,
        description="units by column, attributes too; left out if no column has one",
    )
    explanation: dict[str, Any] | None = Field(
        default=None, exclude_if=not_, description="with explain=1 only"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_attention(cls, given: Any) -> Any:
        return {**vars(given), "attention": given} if isinstance(given, Answer) else given


class AnswersOut(Out):
    """What several queries got, in their order."""

    answers: list[AnswerOut]


class FoundOut(RootModel[AnswerOut | AnswersOut]):
    """An answer; answers where the question was a list."""


class ExactOut(Out):
    """What a plain dictionary would have said."""

    found: bool
    values: Values | None


class ManualOut(Out):
    """The blend under weights chosen by hand."""

    weights: dict[str, float]
    total: float = Field(description="what the weights summed to as given")
    blend: dict[str, BlendOut | None]


class ComparisonOut(Out):
    """One question put to an exact dictionary, to attention and to weights by hand."""

    query: str
    dataset: str
    exact: ExactOut
    soft: AnswerOut
    manual: ManualOut | None
    differences: list[str]


class DatasetOut(Out):
    """A dataset at a glance."""

    name: str
    entries: int
    key_column: str
    columns: list[ColumnOut]
    missing: dict[str, int] = Field(description="entries without a value, by column")
    encoder: str
    dimension: int
    temperature: str = Field(description="the setting")
    temperature_in_use: float | None = Field(
        description="null if each query has its own, or if it is that of the encoder"
    )
    temperature_source: str
    tolerance: float | None = Field(description="the setting; null is the default one")
    tolerance_in_use: float
    precision: Precision = Field(description="the setting: full or half")
    precision_in_use: Precision = Field(
        description="full while a dataset is small, and until its next sketch is made"
    )
    version: int
    created: float = Field(description="seconds since 1970, UTC")
    modified: float


class DatasetsOut(Out):
    """Every dataset, in order of creation."""

    datasets: list[DatasetOut]


class EntryOut(Out):
    """An entry; ``values`` holds all its columns, attributes too."""

    key: str
    values: Values
    arrived: float = Field(description="seconds since 1970, UTC")


class EntriesOut(Out):
    """A page of entries; ``next`` is the ``after`` of the page that follows, if any."""

    entries: list[EntryOut]
    total: int
    next: int | None


class BadRowOut(Out):
    """A row that was not loaded."""

    line: int
    reason: str


class PreviewOut(Out):
    """An entry as it would be loaded."""

    key: str
    values: Values


class LoadOut(Out):
    """What a load did, or, for a dry run, what it would do."""

    dataset: str
    format: str
    key_column: str
    columns: list[ColumnOut]
    rows: int
    loaded: int = Field(description="entries that were written: none in a dry run")
    duplicates: int
    bad_rows: list[BadRowOut] = Field(description="the first hundred")
    bad_row_count: int
    preview: list[PreviewOut]
    dry_run: bool
    detected: dict[str, str] | None
    notes: list[str] = Field(
        description="on columns that a few cells kept from being numbers, and on lost values"
    )
    embedded: int = Field(description="texts that were encoded")
    reused: int = Field(
        description="texts whose vectors were there, from a dataset or a load that was cut short"
    )


class ProgressOut(Out):
    """How far a job is; what is unknown is null."""

    phase: Literal["reading", "encoding", "writing"]
    done: int
    total: int | None
    rate: float | None = Field(description="texts encoded a second, over the last half minute")
    seconds_left: float | None = Field(description="until the phase is done")


class JobOut(Out):
    """A load that runs by itself, or the encoding anew of a dataset."""

    id: str
    kind: JobKind
    dataset: str
    state: State
    created: float = Field(description="seconds since 1970, UTC")
    started: float | None
    finished: float | None
    progress: ProgressOut | None
    result: LoadOut | None = Field(description="of a load that is done")
    problem: ProblemOut | None

    @classmethod
    def of(cls, job: Job) -> JobOut:
        """Shape a job."""
        finished, progress = job.finished, job.progress  # finished first: then all else is final
        if progress is not None and finished is not None:  # it has no rate any more
            progress = replace(progress, rate=None, seconds_left=None)
        return cls(
            id=job.id,
            kind=job.kind,
            dataset=job.dataset,
            state=job.state,
            created=job.created,
            started=job.started,
            finished=finished,
            progress=None if progress is None else ProgressOut.of(progress),
            result=None if job.report is None else LoadOut.of(job.report),
            problem=None if job.fault is None else describe(job.fault),
        )


class JobsOut(Out):
    """The jobs that are remembered, newest first."""

    jobs: list[JobOut]


class HealthOut(Out):
    """The process answers."""

    status: Literal["ok", "ready"]
    version: str


# Python's words for it are of no use here.
OWN_FAULT = "A fault of the service itself: its log has the cause."


class ProblemTypeOut(Out):
    """A type of problem: which status it comes with, and what it means."""

    type: str
    title: str
    status: int
    meaning: str

    @classmethod
    def of(cls, row: ProblemType) -> ProblemTypeOut:
        """Shape a row of the table of problems."""
        return cls(
            type=f"/problems/{row.slug}",
            title=row.title,
            status=row.status,
            meaning=OWN_FAULT if row.raised is Exception else inspect.getdoc(row.raised) or "",
        )


class ProblemTypesOut(Out):
    """Every type of problem."""

    problems: list[ProblemTypeOut]

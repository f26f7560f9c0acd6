"""What a dictionary answers: blends, matches, answers and comparisons, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Of an undecided one nothing is known yet: its first value says which of the others it is.
ColumnType = Literal["number", "vector", "category", "text", "undecided"]
Mode = Literal["soft", "exact"]
Precision = Literal["full", "half"]  # 32 or 16 bits a component of a vector
# A number, a vector of numbers, a label or text; None where the value is missing.
Value = float | int | str | tuple[float, ...] | None


@dataclass(frozen=True)
class Column:
    """One typed column: of values to blend, or an attribute, which ``where`` filters by.

    An attribute is stored, typed, exported and shown as a value is; it is never blended, it has
    no say in the temperature, and the bare value of an entry is without it. ``width`` is a
    vector's number of components, ``unit`` what a file wrote beside every number: €, USD or %.
    """

    name: str
    type: ColumnType
    width: int | None = None
    attribute: bool = False
    unit: str | None = None


@dataclass(frozen=True)
class NumberBlend:
    """Weighted mean and standard deviation; ``level`` of the weight lies in ``interval``.

    They describe the table, over the ``known`` share of the weight whose keys have a value. A value
    that is not in the table lies in ``prediction_interval`` with a probability of ``level``, if its
    key is one such as the table's: it held as many of those that were left out. None where there
    are too few to tell.
    """

    mean: float
    sd: float
    median: float
    interval: tuple[float, float]
    known: float
    level: float = 0.9
    unit: str | None = None
    prediction_interval: tuple[float, float] | None = None
    type: Literal["number"] = "number"

    @property
    def value(self) -> float:
        return self.mean


@dataclass(frozen=True)
class VectorBlend:
    """Weighted mean, component by component, and the root mean squared distance to it."""

    mean: tuple[float, ...]
    sd: float
    known: float
    type: Literal["vector"] = "vector"

    @property
    def value(self) -> tuple[float, ...]:
        return self.mean


@dataclass(frozen=True)
class LabelBlend:
    """Share of the weight of each distinct value, greatest first; ``rest`` holds the unlisted."""

    distribution: tuple[tuple[str, float], ...]
    rest: float
    known: float
    type: Literal["category", "text"]

    @property
    def value(self) -> str:
        return self.distribution[0][0]

    @property
    def probability(self) -> float:
        return self.distribution[0][1]


Blend = NumberBlend | VectorBlend | LabelBlend


@dataclass(frozen=True)
class Match:
    """An entry with its score (cosine) and its weight (share of all attention)."""

    key: str
    value: Any  # bare with one value column, else by column: who asks knows which
    values: dict[str, Value]
    score: float
    weight: float
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a query got.

    Attributes
    ----------
    blend : dict of Blend or None by column
        None where no weight has a value.
    temperature_source : str
        given, setting, sqrt_d, effective_keys, fitted, encoder or exact.
    effective_keys : float
        exp(entropy of the weights): how many keys really answer.
    keys, scored : int
        Allowed keys, over which the weights sum to one; those scored one by one.
    coverage : float
        Share of the attention mass that was computed key by key.
    error : float
        How far any reported weight mass can be off: total variation, at 95 %.
    confidence : float or None
        P(the dictionary really holds an answer): 1 where a key is written as the query is, 0 where
        the encoder read nothing of the query. None where the encoder has no calibration.
    units : dict
        Of the columns that have one, attributes too.
    """

    query: str
    dataset: str
    mode: Mode
    blend: dict[str, Blend | None]
    matches: tuple[Match, ...]
    temperature: float
    temperature_source: str
    effective_keys: float
    keys: int
    coverage: float
    error: float
    scored: int
    confidence: float | None
    units: dict[str, str]
    explanation: dict[str, Any] | None = None

    @property
    def value(self) -> Any:
        """The blend's point value: bare with one value column, else by column."""
        return bare(
            {name: None if blend is None else blend.value for name, blend in self.blend.items()}
        )


def bare(values: dict[str, Value]) -> Value | dict[str, Value]:
    """Take the one value out of its column; several stay by column, and of no column it is None."""
    return next(iter(values.values()), None) if len(values) < 2 else values


@dataclass(frozen=True)
class ExactAnswer:
    """What a plain dict would have said: the entry's values, or that there is none."""

    found: bool
    values: dict[str, Value] | None


@dataclass(frozen=True)
class ManualAnswer:
    """The blend under weights chosen by hand; ``total`` is what they summed to as given."""

    weights: dict[str, float]  # normalised to sum to one
    total: float
    blend: dict[str, Blend | None]


@dataclass(frozen=True)
class Comparison:
    """The same question put to an exact dict, to attention and to weights chosen by hand."""

    query: str
    dataset: str
    exact: ExactAnswer
    soft: Answer
    manual: ManualAnswer | None
    differences: tuple[str, ...]  # sentences: what differs, with the figures


@dataclass(frozen=True)
class Entry:
    """One key with what every column holds, attributes too, and its time of arrival.

    ``arrived`` is in seconds since 1970, UTC.
    """

    key: str
    values: Mapping[str, Value]
    arrived: float


@dataclass(frozen=True)
class Description:
    """A dataset at a glance."""

    name: str
    entries: int
    key_column: str
    columns: tuple[Column, ...]
    missing: dict[str, int]  # entries without a value, by column
    encoder: str
    dimension: int
    temperature: str  # the setting: auto, sqrt_d, a number or effective_keys:N
    temperature_in_use: float | None  # None: solved for each query, or the encoder's
    temperature_source: str
    tolerance: float | None  # the setting; None: the default
    tolerance_in_use: float
    precision: Precision  # the setting
    precision_in_use: Precision
    version: int
    created: float
    modified: float


@dataclass(frozen=True)
class Progress:
    """How far a long work is; ``total``, rate and time are None while they are unknown."""

    phase: Literal["reading", "encoding", "writing"]
    done: int
    total: int | None
    rate: float | None = None  # texts encoded a second
    seconds_left: float | None = None  # of this phase


@dataclass(frozen=True)
class LoadReport:
    """What a load did, or, for a dry run, what it would do."""

    dataset: str
    format: str
    key_column: str
    columns: tuple[Column, ...]
    rows: int  # rows read
    loaded: int  # entries written (0 in a dry run)
    duplicates: int  # rows merged or dropped because their key had come before
    bad_rows: tuple[tuple[int, str], ...]  # (line, reason), the first hundred
    bad_row_count: int
    preview: tuple[tuple[str, dict[str, Value]], ...]  # the first five entries, as typed
    dry_run: bool = False
    detected: dict[str, str] | None = None  # delimiter, header, encoding, decimal of text
    notes: tuple[str, ...] = ()  # on columns that are no numbers for a few cells, and on losses
    embedded: int = 0  # texts that were encoded
    reused: int = 0  # texts whose vectors were there, from a dataset or a load that was cut short
    created: bool = False  # whether it made the dataset, and did not append to one

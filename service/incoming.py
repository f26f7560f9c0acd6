"""What comes in, as pydantic models: the OpenAPI document is made of them.

They refuse what they do not know, and what is not of the type asked for: in JSON, ``true`` is no
number, and neither are NaN and infinity. Limits are settings, which come as the context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from index.answers import Mode, Precision
from index.catalog import IfExists
from index.comparing import no_weight, weight_of
from index.encoders import check_spec
from index.errors import InvalidRequest
from index.loading.numerals import Style
from index.loading.options import COLUMN_CHOICES, Duplicates, Format, LoadOptions, OnError
from index.masks import MOST, parse_as_of
from index.naming import LONGEST_NAME, check_name, composed
from index.settings import parse_tolerance
from index.temperature import GREATEST, SMALLEST, parse_temperature
from index.values import LARGEST
from index.where import parse_where
from index.wording import counted, shown

from . import strict_json
from .errors import MalformedRequest
from .settings import Settings


def _at_most(
    setting: str, *, validator: type[AfterValidator] | type[BeforeValidator] = AfterValidator
) -> AfterValidator | BeforeValidator:
    """Bound a number, or the length of a text or list, by a setting."""

    def check(value: Any, info: ValidationInfo) -> Any:
        limit = getattr(info.context, setting)
        if isinstance(value, str) and len(value) > limit:
            characters = counted(limit, "character", "characters")
            raise ValueError(f"at most {characters}, the setting {setting}")
        if isinstance(value, list) and len(value) > limit:
            raise ValueError(f"at most {limit:,} of them, the setting {setting}")
        if isinstance(value, int) and value > limit:
            raise ValueError(f"at most {limit:,}, the setting {setting}")
        return value

    return validator(check)


def _checked(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Let the library say what is wrong with a value, beside the request's other faults."""

    def checked(value: Any) -> Any:
        if value is not None:
            check(value)
        return value

    return checked


def _whole(value: object) -> object:
    """Take 3.0 for 3: JSON has one kind of number. 1_0 is one of Python's alone."""
    if isinstance(value, str) and "_" in value:
        raise ValueError("write a whole number")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _entries(given: object) -> object:
    if not isinstance(given, dict | list):
        raise ValueError("write {key: value}, a list of objects, or of [key, value] pairs")
    return given


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("write something to ask")
    return value


Name = Annotated[
    str,
    AfterValidator(_checked(check_name)),
    Field(
        description="name of a dataset: letters, digits, -, _ and ., not starting with a point",
        json_schema_extra={"minLength": 1, "maxLength": LONGEST_NAME},
    ),
]
Key = Annotated[
    str,
    AfterValidator(composed),
    _at_most("max_key"),
    Field(
        description="the key, percent-encoded; slashes need not be, but for those beside . or .., "
        "or clients make another key of it"
    ),
]
MOST_NAMED = 10_000  # columns, or marks, in an option of a load
LONGEST_ENCODER = 10_000  # characters: those of a circle's words stand in each description
ONE, SEVERAL = "(one)", "(several)"  # what a question is, in pydantic's account of its faults
VALUE = {
    "anyOf": [
        {"type": "number"},
        {"type": "string"},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "number"}},
        {"type": "null"},
    ]
}
Query = Annotated[
    str,
    AfterValidator(_not_blank),
    _at_most("max_query"),
    Field(description="what to look for, in any words", json_schema_extra={"pattern": r"\S"}),
]
Queries = Annotated[
    Annotated[Query, Tag(ONE)]
    | Annotated[
        Annotated[list[Query], Field(min_length=1)],
        _at_most("max_queries", validator=BeforeValidator),  # each that is none is a fault
        Tag(SEVERAL),
    ],
    Discriminator(lambda given: SEVERAL if isinstance(given, list) else ONE),
    Field(description="what to look for, in any words, or several such texts"),
]
DatasetName = Annotated[
    Name | None,
    Field(default=None, description="which dataset to ask; the first one loaded if left out"),
]
K = Annotated[
    int,
    Field(ge=1),
    BeforeValidator(_whole),
    Field(
        description="how many matches to show; the weights do not depend on it; "
        "10 or the setting max_k, whichever is less, if left out",
        json_schema_extra=lambda schema: schema.pop("default"),
    ),
    _at_most("max_k"),
]
TEMPERATURE = [{"type": "number", "minimum": SMALLEST, "maximum": GREATEST}, {"type": "string"}]
TemperatureText = Annotated[
    float | str,
    BeforeValidator(_checked(parse_temperature)),
    WithJsonSchema({"anyOf": TEMPERATURE}),
]
Temperature = Annotated[
    TemperatureText | None,
    Field(
        description="a number in units of cosine (from 0.001 to 1000), auto, sqrt_d, or "
        "effective_keys:N; the dataset's own setting if left out"
    ),
]
Tolerance = Annotated[
    Annotated[float, Field(ge=0, lt=1)] | None,
    BeforeValidator(_checked(parse_tolerance)),
    Field(
        description="how far the weights may be from exact attention (total variation, 95 %), "
        "so that a large dataset need not score every key; 0 scores them all; "
        "the dataset's own setting if left out",
    ),
]
StandingTemperature = Annotated[
    TemperatureText,
    BeforeValidator(lambda value: "auto" if value is None else value),
    WithJsonSchema({"anyOf": [*TEMPERATURE, {"type": "null"}]}),
    Field(description="as in a question; null is the default one, auto"),
]
StandingTolerance = Annotated[
    Tolerance, Field(description="as in a question; null is the default one")
]
StandingPrecision = Annotated[
    Precision,
    Field(
        description="bits per component of a large dataset's vectors in memory: 32 (full) or 16 "
        "(half); every answer's error includes what half costs"
    ),
]
AsOf = Annotated[
    Annotated[int, Field(ge=0, lt=MOST)] | str | None,
    BeforeValidator(_checked(parse_as_of)),
    BeforeValidator(_whole),  # first: pydantic goes from the last to the first
    Field(
        description="only the first N entries (3), or those stored by a time (2026-01-31, the "
        "whole day; 2026-01-31T12:00:00Z), in UTC if it names no zone"
    ),
]

WHERE = (
    'only entries that meet this condition, such as price >= 5 and country = "ES", '
    'or as JSON: {"price": {"gte": 5}, "country": "ES"}'
)
TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}
Condition = Annotated[
    Any,
    BeforeValidator(_checked(parse_where)),  # what the columns are, the dataset says
    Field(default=None, description=WHERE),
]
WhereText = Annotated[Condition, WithJsonSchema(TEXT)]
Where = Annotated[
    Condition,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "null"}]}),
]


class In(BaseModel):
    """A part of a request."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class DatasetPath(In):
    """A dataset by name."""

    name: Name


class EntryPath(In):
    """An entry by dataset and key."""

    name: Name
    key: Key


class JobPath(In):
    """A job by id."""

    id: str = Field(description="id of a job")


class CompareQuery(In):
    """A question for the exact dictionary and for attention."""

    q: Query
    dataset: DatasetName = None
    k: K = 10
    temperature: Temperature = None
    tolerance: Tolerance = None
    as_of: AsOf = None
    where: WhereText = None

    @model_validator(mode="after")
    def _as_many_as_may_be(self, info: ValidationInfo) -> CompareQuery:
        if "k" not in self.model_fields_set:
            self.k = min(self.k, cast(Settings, info.context).max_k)
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What the library is asked with, beside the question itself."""
        return self.model_dump(exclude={"q", "dataset"})


class SearchQuery(CompareQuery):
    """A question."""

    mode: Mode = Field(
        default="soft",
        description="soft attends to every key; exact answers as a plain dictionary would",
    )
    explain: bool = Field(
        default=False, description="show every step of the computation with its numbers"
    )


class SearchBody(SearchQuery):
    """A question, or several that are asked alike."""

    q: Queries  # type: ignore[assignment]  # a list besides
    where: Where = None


def _weights(given: dict[str, Any]) -> dict[str, Any]:
    """Name what is no weight, or the first of very many: pydantic would gather them all."""
    if any(weight_of(weight) is None for weight in given.values()):
        raise InvalidRequest.of(
            no_weight(name) for name, weight in given.items() if weight_of(weight) is None
        )
    return given


WEIGHT = {"type": "number", "minimum": 0, "maximum": LARGEST}
Weights = Annotated[
    dict[str, Any],
    AfterValidator(_weights),
    WithJsonSchema({"type": "object", "additionalProperties": WEIGHT}),
]


class CompareBody(CompareQuery):
    """A question, with weights chosen by hand."""

    where: Where = None

    weights: Weights | None = Field(
        default=None,
        description="weight of each key, by hand; they are normalised to sum to 1, "
        "and where and as_of leave them alone",
    )


def _nothing_by_default(schema: dict[str, Any]) -> None:
    """Describe a body whose fields stay as they are where they are left out."""
    schema["minProperties"] = 1
    for each in schema["properties"].values():
        del each["default"]


class SettingsBody(In):
    """The settings of a dataset that are to change: at least one."""

    model_config = ConfigDict(json_schema_extra=_nothing_by_default)

    temperature: StandingTemperature = "auto"
    tolerance: StandingTolerance = None
    precision: StandingPrecision = "full"

    @model_validator(mode="after")
    def _some(self) -> SettingsBody:
        if not self.model_fields_set:
            raise ValueError("write temperature, tolerance or precision")
        return self


def _or_bare(schema: dict[str, Any]) -> None:
    """Describe a body that may be its one field's value, bare."""
    named = dict(schema)
    schema.clear()
    schema.update(description=named.pop("description"), anyOf=[named, VALUE])


class EntryValues(
    RootModel[
        Annotated[
            Any,
            WithJsonSchema({"anyOf": [{"type": "object", "additionalProperties": VALUE}, VALUE]}),
        ]
    ]
):
    """Values by column, or the value of the only one."""


class EntryBody(In):
    """The values of an entry: {"values": {column: value}}, or a bare value for one column."""

    model_config = ConfigDict(json_schema_extra=_or_bare)

    values: EntryValues  # by name: of nested descriptions, openapi-python-client makes no class

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, given: Any) -> Any:
        return given if isinstance(given, dict) else {"values": given}


class PageQuery(In):
    """A page of entries."""

    limit: Annotated[
        int, Field(ge=1, le=1000, description="entries in a page"), BeforeValidator(_whole)
    ] = 100
    after: Annotated[
        int,
        Field(
            ge=0,
            le=10**12,
            description="entries to skip: `next` of the page before. Where entries are deleted "
            "meanwhile those that follow move up, and some are in no page; an export is of one "
            "moment",
        ),
        BeforeValidator(_whole),
    ] = 0


class ExportQuery(In):
    """The format of an export."""

    format: Literal["csv", "jsonl", "parquet"] = Field(
        default="csv", description="format of the file"
    )
    decimal: Style = Field(
        default="point",
        description="decimal mark of CSV; comma is for spreadsheets in languages that write 1,5, "
        "and has ; between cells and a byte order mark",
    )


class ProblemTypePath(In):
    """A type of problem."""

    slug: str = Field(description="last part of a problem's type, such as bad-rows")


def _json(text: str) -> Any:
    """Read JSON; what is none is one fault among the others of the request."""
    try:
        return strict_json.loads(text)
    except MalformedRequest as error:
        raise ValueError(str(error)) from None


def _encoder(value: str, info: ValidationInfo) -> str:
    """Let nobody make the service fetch a model, read one from a folder, or fill every list."""
    if len(value) > LONGEST_ENCODER:
        raise ValueError(f"at most {LONGEST_ENCODER:,} characters")
    check_spec(value)
    if value.startswith("st:") and value != cast(Settings, info.context).encoder:
        raise ValueError(
            "over HTTP only the service's own sentence-transformers model can be named, "
            "the setting encoder"
        )
    return value


def _load_option(name: str) -> AfterValidator:
    return AfterValidator(_checked(lambda value: LoadOptions(**{name: value}).check()))


def _names(value: object) -> object:
    """Take names from a list, from a JSON list, or separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return _json(value)
    return [name.strip() for name in value.split(",") if name.strip()]


def _types(value: object) -> object:
    """Take types from a JSON object, or from name=type separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        return _json(value)
    types: dict[str, str] = {}
    for pair in filter(None, map(str.strip, value.split(","))):
        name, _, kind = (part.strip() for part in pair.rpartition("="))
        if not name or name in types:
            wrong = f"{shown(name)} is named twice" if name else f"{shown(pair)} is no name=type"
            raise ValueError(f"{wrong}; write price=number, note=skip, or JSON")
        types[name] = kind
    return types


def _not_too_many(given: object) -> object:
    if isinstance(given, list | dict) and len(given) > MOST_NAMED:
        raise ValueError(f"at most {MOST_NAMED:,} of them")
    return given


@dataclass(frozen=True)
class ColumnIn:
    """What a column is to be; without a type, that is inferred."""

    type: str | None
    attribute: bool


def _column(value: object) -> ColumnIn:
    given = {"type": value} if isinstance(value, str) else value
    if isinstance(given, dict) and given.keys() <= {"type", "attribute"} and given:
        type_, attribute = given.get("type"), given.get("attribute", False)
        if (type_ is None or type_ in COLUMN_CHOICES) and isinstance(attribute, bool):
            return ColumnIn(type_, attribute)
    raise ValueError(
        'write number, vector, category, text or skip, or {"type": "text", "attribute": true}'
    )


class LoadQuery(In):
    """How to read a table, and under which name; a form's fields mean the same."""

    name: Name | None = Field(default=None, description="name of the dataset; required")
    key: str | None = Field(default=None, min_length=1, description="column that holds the keys")
    columns: Annotated[
        dict[str, Annotated[Any, AfterValidator(_column)]] | None,
        BeforeValidator(_not_too_many),
        BeforeValidator(_types),
        WithJsonSchema(TEXT),
    ] = Field(
        default=None,
        description="types of columns, where not inferred: price=number, note=skip; or as JSON, "
        "with which are attributes: "
        '{"price": "number", "country": {"type": "category", "attribute": true}}',
    )
    attributes: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None,
        BeforeValidator(_not_too_many),
        BeforeValidator(_names),
        WithJsonSchema(TEXT),
    ] = Field(
        default=None,
        description="columns to filter by with where, never blended: names separated by commas, "
        "or a JSON list",
    )
    format: Format | None = Field(
        default=None,
        description="format of the table, if the content type or file name does not say",
    )
    delimiter: (
        Annotated[str, Field(min_length=1, max_length=1), _load_option("delimiter")] | None
    ) = Field(default=None, description="delimiter of CSV")
    header: bool | None = Field(
        default=None, description="whether the first line names the columns"
    )
    encoding: Annotated[str, Field(min_length=1), _load_option("encoding")] | None = Field(
        default=None, description="encoding of the text, such as utf-8"
    )
    decimal: Style | None = Field(
        default=None, description="decimal mark of numbers; found from the file if left out"
    )
    missing: Annotated[
        list[str] | None,
        BeforeValidator(_not_too_many),
        BeforeValidator(_names),
        WithJsonSchema(TEXT),
    ] = Field(
        default=None,
        description="texts that mark a cell as having no value, such as consultar: separated by "
        "commas, or a JSON list",
    )
    on_error: OnError = Field(
        default="stop",
        description="whether a row that cannot be read stops the load or is left out",
    )
    duplicates: Duplicates = Field(
        default="error", description="which values a repeated key gets; error stops the load"
    )
    if_exists: IfExists = Field(default="error", description="what to do if the dataset exists")
    encoder: (
        Annotated[
            str, AfterValidator(_encoder), Field(json_schema_extra={"maxLength": LONGEST_ENCODER})
        ]
        | None
    ) = Field(
        default=None,
        description="encoder of the keys: builtin, random:SEED, circle, or the service's own",
    )
    temperature: StandingTemperature = "auto"
    tolerance: StandingTolerance = None
    precision: StandingPrecision = "full"
    dry_run: bool = Field(default=False, description="read and infer everything, and write nothing")
    wait: bool | None = Field(
        default=None,
        description="1 answers when the load is done, 0 at once with a job; by size if left out",
    )

    @property
    def types(self) -> dict[str, str]:
        """The types that are given."""
        return {name: each.type for name, each in (self.columns or {}).items() if each.type}

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The attributes, however they are given, each once."""
        marked = [name for name, each in (self.columns or {}).items() if each.attribute]
        return tuple(dict.fromkeys([*(self.attributes or []), *marked]))


class DatasetBody(LoadQuery):
    """A table inside a JSON document, beside its options."""

    name: Name
    entries: Annotated[dict[str, Any] | list[Any], BeforeValidator(_entries)] = Field(
        description="{key: value or {column: value}}, a list of objects, or of [key, value] pairs"
    )

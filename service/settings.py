"""Every setting, once: its name, default, bounds and help text.

A setting ``max_rows`` is the variable ``SOFTDICT_MAX_ROWS`` and the flag ``--max-rows``. Flags
win over variables, variables over defaults. A variable with the prefix that names no setting
stops the start: a limit that is silently not in force is worse than no start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

PREFIX = "SOFTDICT_"


class SettingsError(Exception):
    """One or more settings are wrong; the message has a line for each."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _host_name(value: str) -> str:
    if value != "*" and re.search(r"[*/;\s]", value):  # it would never be met
        raise ValueError("write names alone, with commas between them: dict.example, or *")
    return value


def _named(value: object) -> object:
    if value == "":  # which pathlib takes for the folder one happens to stand in
        raise ValueError("write a folder")
    return value


def _encoder(value: str) -> str:
    from index.encoders import check_spec  # takes NumPy along, which --help does without
    from index.errors import InvalidRequest

    try:
        check_spec(value)
    except InvalidRequest as error:
        raise ValueError(error.faults[0].message) from None
    return value


class Settings(BaseModel):
    """The settings of one process. Frozen: nothing changes them after the start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Annotated[Path, BeforeValidator(_named)] = Field(
        Path("var"), description="folder where everything is kept"
    )
    host: str = Field("127.0.0.1", min_length=1, description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    allowed_hosts: Annotated[
        tuple[Annotated[str, AfterValidator(_host_name)], ...], BeforeValidator(_split)
    ] = Field(
        (),
        description="names, separated by commas, under which browsers may reach this service, "
        "besides localhost and IP addresses; * allows any",
    )
    threads: int = Field(8, ge=1, le=256, description="requests answered at the same time")
    encoder: Annotated[str, AfterValidator(_encoder)] = Field(
        "builtin", description="encoder of new datasets"
    )
    bundled: bool = Field(True, description="create the bundled datasets in a new store")
    max_upload: int = Field(256 * 2**20, ge=1, description="largest file, in bytes")
    max_json: int = Field(
        16 * 2**20,
        ge=1,
        le=2**40,
        description="largest JSON request, in bytes; a table sent with ?name= counts as a file",
    )
    max_rows: int = Field(1_000_000, ge=1, description="most rows in one load")
    max_key: int = Field(10_000, ge=1, le=10_000, description="longest key, in characters")
    max_query: int = Field(4_000, ge=1, le=100_000, description="longest query, in characters")
    max_queries: int = Field(256, ge=1, le=10_000, description="most questions in one request")
    max_k: int = Field(1_000, ge=1, le=100_000, description="most matches in one answer")
    at_once: int = Field(
        256 * 2**10,
        ge=0,
        description="largest load answered at once, in bytes; a larger one is a job",
    )
    max_jobs: int = Field(
        16,
        ge=1,
        le=10_000,
        description="most loads waiting their turn, up to a quarter of the files that may be open",
    )
    kept_jobs: int = Field(100, ge=1, le=10_000, description="finished jobs remembered")
    idle_timeout: int = Field(120, ge=1, description="seconds before an idle connection is closed")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged: debug, info, warning or error"
    )

    @property
    def largest_body(self) -> int:
        """The largest body of any request, in bytes, without what a form adds."""
        return max(self.max_upload, self.max_json)


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def load_settings(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
) -> Settings:
    """Read the settings: flags, then variables, then defaults.

    Raise SettingsError with a line for each variable that names no setting and each value out of
    bounds.
    """
    known = {variable(name): name for name in Settings.model_fields}
    given = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    faults = [_misspelt(name, known) for name in given if name not in known]
    values: dict[str, Any] = {known[name]: text for name, text in given.items() if name in known}
    chosen = {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        settings = Settings(**{**values, **chosen})
    except ValidationError as error:
        for fault in error.errors():
            place, words = str(fault["loc"][0]), fault["msg"].removeprefix("Value error, ")
            spelled = flag(place) if place in chosen else variable(place)
            faults.append(f"{spelled}: {words} (got {fault['input']!r})")
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def source(name: str, flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> str:
    """Say where a setting's value came from: flag, environment or default."""
    if flags.get(name) is not None:
        return "flag"
    return "environment" if variable(name) in environ else "default"


def flag(name: str) -> str:
    """Name the command line flag of a setting."""
    return f"--{name.replace('_', '-')}"


def _misspelt(name: str, known: Mapping[str, str]) -> str:
    nearest = get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return f"{name}: there is no such setting; the nearest is {nearest}"

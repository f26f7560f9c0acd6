"""A dataset's settings, and what each stands for where a question does not say."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, get_args

from index.answers import Precision
from index.attention import sqrt_d
from index.errors import Fault, InvalidRequest
from index.search import TOLERANCE
from index.store import Record
from index.temperature import Temperature, parse_temperature, read_number


def new_settings(temperature: object, tolerance: object, precision: object) -> dict[str, Any]:
    """Read all settings of a new dataset, as ``parse_settings`` does."""
    return parse_settings(
        {"temperature": temperature, "tolerance": tolerance, "precision": precision}
    )


def parse_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Read a dataset's settings by name, as the store keeps them.

    None is the default temperature and the default tolerance. Raise InvalidRequest with every fault
    of them at once.
    """
    parsed: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, value in given.items():
        try:
            if name == "temperature":
                parsed[name] = str(parse_temperature("auto" if value is None else value))
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


def parse_tolerance(value: object) -> float:
    """Read a total variation error from 0 (exact) to below 1; raise InvalidRequest otherwise."""
    number = read_number(value) if isinstance(value, Real | str) else None
    if isinstance(value, bool) or number is None or not 0 <= number < 1:
        message = "write a number from 0 (every key is scored) to below 1, such as 0.03"
        raise InvalidRequest(Fault("tolerance", message))
    return number


def _parse_precision(value: object) -> object:
    if value not in get_args(Precision):
        raise InvalidRequest(Fault("precision", "write full or half"))
    return value


def standing_tolerance(record: Record) -> float:
    """Say what error a dataset's questions may be answered with, where they do not say."""
    return TOLERANCE if record.tolerance is None else record.tolerance


def standing_temperature(
    setting: str | Temperature, fitted: float | None, dimension: int | None
) -> tuple[float | None, str]:
    """Say which τ a setting stands for, where neither query nor encoder is needed; and its source.

    None where it is solved for each query, or that of the encoder.
    """
    parsed = parse_temperature(setting)
    if parsed.kind == "number":
        return parsed.amount, "setting"
    if parsed.kind == "auto":
        return fitted, "encoder" if fitted is None else "fitted"
    if parsed.kind == "sqrt_d" and dimension:
        return sqrt_d(dimension), "sqrt_d"
    return None, parsed.kind

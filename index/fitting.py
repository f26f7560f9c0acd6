"""When and on what τ and margins are fitted to a dataset's values.

How: ``index.temperature`` and ``index.prediction``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.answers import Column
from index.prediction import fit_margins, write_margins
from index.settings import standing_temperature
from index.snapshot import Snapshot
from index.store import Fit, Record
from index.temperature import (
    FIT_AT_LEAST,
    Likelihood,
    fit_temperature,
    label_likelihood,
    number_likelihood,
)
from index.values import Array

REFIT = 0.2  # share of the entries come, gone or given other values since the last fit
# Bounds on the keys asked for, on their scores, and on those of all number columns for margins.
PROBES, PROBED_SCORES, SORTED_SCORES = 512, 2 * 10**7, 10**8
FEWEST_PROBES = 64


def due(record: Record) -> bool:
    """Tell whether the dataset has changed enough for another fit."""
    return record.moved > REFIT * record.fitted_entries


def _until_enough(values: int) -> int:
    return int((FIT_AT_LEAST - values - 1) / REFIT)


def fit_snapshot(snapshot: Snapshot, record: Record) -> Fit:
    """Fit τ, if that is ``auto``, and the margins of numbers, where enough keys have a value."""
    entries, auto = len(snapshot), record.temperature == "auto"
    if entries < FIT_AT_LEAST:
        return Fit(None, write_margins({}), _until_enough(entries))
    values = {
        number: int(np.count_nonzero(snapshot.having[number]))
        for number, column in enumerate(snapshot.columns)
        if not column.attribute and (auto or column.type == "number")
    }
    most = max(values.values(), default=0)
    if most < FIT_AT_LEAST:
        return Fit(None, write_margins({}), _until_enough(most))
    rows = np.flatnonzero(snapshot.alive)
    count = min(entries, PROBES, max(FEWEST_PROBES, PROBED_SCORES // entries))
    probes = np.sort(np.random.default_rng(0).choice(entries, count, replace=False))
    scores = snapshot.scores(snapshot.vectors_at(rows[probes]))
    if entries < snapshot.rows:
        scores = scores[:, rows]
    fitted = [number for number, known in values.items() if known >= FIT_AT_LEAST]
    arrays = snapshot.values_at(rows, fitted)
    columns = [snapshot.columns[number] for number in fitted]
    if auto:
        likelihoods = [_likelihood(*of, probes) for of in zip(columns, arrays, strict=True)]
        own = fit_temperature(scores, probes, likelihoods)
    else:
        own, _ = standing_temperature(record)
    numbers = {
        column.name: np.asarray(array, float)
        for column, array in zip(columns, arrays, strict=True)
        if column.type == "number"
    }
    enough = max(FEWEST_PROBES, SORTED_SCORES // (entries * max(len(numbers), 1)))
    some = slice(None, None, -(-count // enough))
    margins = {
        name: found
        for name, array in numbers.items()
        if (found := fit_margins(array, scores[some], probes[some], temperature=own))
    }
    return Fit(own if auto else None, write_margins(margins), entries)


def _likelihood(column: Column, array: Array, probes: NDArray[np.int64]) -> Likelihood:
    if column.type in ("number", "vector"):
        return number_likelihood(np.asarray(array, float).reshape(len(array), -1), probes)
    return label_likelihood(np.asarray(array, np.int32), probes)

"""When and on what τ and margins are fitted to a dataset's values.

How: ``index.temperature`` and ``index.prediction``.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from index.answers import Column
from index.prediction import Margins, fit_margins, write_margins
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
FEWEST_ASKED = 16  # probes that have a value in a column, for it to have a say


def due(record: Record, moved: int) -> bool:
    """Tell whether a dataset, with so many more entries moved, has changed enough for a fit."""
    return record.moved + moved > REFIT * record.fitted_entries


def fit_snapshot(snapshot: Snapshot, setting: str) -> Fit:
    """Fit τ, if the temperature ``setting`` is ``auto``, and the margins of numbers.

    Where enough keys have a value; margins are also of the τ that the setting stands for.
    """
    entries, auto = len(snapshot), setting == "auto"
    values = {
        number: int(np.count_nonzero(snapshot.having[number]))
        for number, column in enumerate(snapshot.columns)
        if not column.attribute and (auto or column.type == "number")
    }
    most = max(values.values(), default=0)
    if most < FIT_AT_LEAST:
        until_enough = int((FIT_AT_LEAST - most - 1) / REFIT)
        return Fit(None, write_margins({}), until_enough)
    rows = np.flatnonzero(snapshot.alive)
    there = {
        number: snapshot.having[number][rows]
        for number, known in values.items()
        if known >= FIT_AT_LEAST
    }
    probes = _probes(there.values(), min(PROBES, max(FEWEST_PROBES, PROBED_SCORES // entries)))
    fitted = [n for n, known in there.items() if np.count_nonzero(known[probes]) >= FEWEST_ASKED]
    columns = [snapshot.columns[number] for number in fitted]
    arrays = snapshot.values_at(rows, fitted)
    scores = snapshot.scores(snapshot.vectors_at(rows[probes]))
    if entries < snapshot.rows:
        scores = scores[:, rows]
    found = None
    if auto:
        likelihoods = [_likelihood(*of, probes) for of in zip(columns, arrays, strict=True)]
        found = fit_temperature(scores, probes, likelihoods)
    dimension = snapshot.blocks[0].vectors.shape[1]
    own, _ = standing_temperature(setting, found, dimension)
    numbers = [number for number, column in enumerate(columns) if column.type == "number"]
    enough = max(FEWEST_PROBES, SORTED_SCORES // (entries * max(len(numbers), 1)))
    margins: dict[str, Margins] = {}
    for number in numbers:
        array = np.asarray(arrays[number], float)
        if made := fit_margins(array, scores, probes, temperature=own, enough=enough):
            margins[columns[number].name] = made
    return Fit(found, write_margins(margins), entries)


def _probes(there: Collection[NDArray[np.bool_]], count: int) -> NDArray[np.int64]:
    """Choose keys to ask for, by which of them have a value in each column.

    Each column has its share of probes that have one, however few of its keys do, as far as twice
    the count goes: else one with 60 values among 20,000 keys would be judged by one or two.
    """
    rng = np.random.default_rng(0)
    anywhere = np.flatnonzero(np.logical_or.reduce(list(there)))
    probes = rng.choice(anywhere, min(count, len(anywhere)), replace=False)
    for known in there:
        share = min(max(count // len(there), FEWEST_ASKED), int(np.count_nonzero(known)))
        lacking = share - int(np.count_nonzero(known[probes]))
        if 0 < lacking <= 2 * count - len(probes):
            others = np.setdiff1d(np.flatnonzero(known), probes, assume_unique=True)
            probes = np.append(probes, rng.choice(others, lacking, replace=False))
    return np.sort(probes)


def _likelihood(column: Column, array: Array, probes: NDArray[np.int64]) -> Likelihood:
    if column.type in ("number", "vector"):
        return number_likelihood(np.asarray(array, float).reshape(len(array), -1), probes)
    return label_likelihood(np.asarray(array, np.int32), probes)

"""When and on what a dataset's temperature is fitted (how: ``index.temperature``)."""

from __future__ import annotations

import numpy as np

from index.snapshot import Snapshot
from index.store import Record
from index.temperature import (
    FIT_AT_LEAST,
    fit_temperature,
    label_likelihood,
    number_likelihood,
)

REFIT = 0.2  # share of the entries come, gone or given other values since the last fit
PROBES, PROBED_SCORES = 512, 2 * 10**7  # bounds on the keys asked for, and on their scores


def due(record: Record) -> bool:
    """Tell whether the dataset has changed enough for another fit."""
    return record.temperature == "auto" and record.moved > REFIT * record.fitted_entries


def _until_enough(values: int) -> int:
    return int((FIT_AT_LEAST - values - 1) / REFIT)


def fit_snapshot(snapshot: Snapshot, record: Record) -> tuple[float | None, int]:
    """Fit τ to a dataset's values; give it, if they say enough, and the entries it saw.

    Where too few have a value, give as many entries that another fit is ``due`` once there may be
    enough.
    """
    entries = len(snapshot)
    if record.temperature != "auto":
        return None, entries
    if entries < FIT_AT_LEAST:
        return None, _until_enough(entries)
    values = {
        number: int(np.count_nonzero(snapshot.having[number]))
        for number, column in enumerate(snapshot.columns)
        if not column.attribute
    }
    most = max(values.values(), default=0)
    if most < FIT_AT_LEAST:
        return None, _until_enough(most)
    rows = np.flatnonzero(snapshot.alive)
    count = min(entries, PROBES, max(64, PROBED_SCORES // entries))
    probes = np.sort(np.random.default_rng(0).choice(entries, count, replace=False))
    fitted = [number for number, known in values.items() if known >= FIT_AT_LEAST]
    likelihoods = []
    for number, array in zip(fitted, snapshot.values_at(rows, fitted), strict=True):
        if snapshot.columns[number].type in ("number", "vector"):
            numbers = np.asarray(array, float).reshape(entries, -1)
            likelihoods.append(number_likelihood(numbers, probes))
        else:
            likelihoods.append(label_likelihood(np.asarray(array, np.int32), probes))
    scores = snapshot.scores(snapshot.vectors_at(rows[probes]))
    if entries < snapshot.rows:
        scores = scores[:, rows]
    return fit_temperature(scores, probes, likelihoods), entries

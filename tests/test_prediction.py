"""Intervals for values that a dataset lacks: by an oracle, and against held-out values."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index import Catalog, Column, SoftDict
from index.prediction import fit_margins
from tests import oracle
from tests.around import Around

GRID = [0.001, *(10 ** (-2 + step / 4) for step in range(9)), 100.0]  # the τ it is fitted at


def noisy_sines(count: int, seed: int, noise: float = 0.5) -> dict[str, float]:
    """Give values at random angles that an angle foretells but for a noise."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, 360, count)
    values = np.sin(np.radians(angles)) + noise * rng.standard_normal(count)
    return dict(zip(map(str, angles.tolist()), values.tolist(), strict=True))


def reach(values: dict[str, float | None], tau: float) -> float:
    """How far from its median an interval must go to hold nine in ten of the values left out."""
    known = {key: value for key, value in values.items() if value is not None}
    rows = dict(zip(values, Around().encode(values).tolist(), strict=True))
    away = []
    for key, value in known.items():
        scores = {k: oracle.cosine(rows[key], rows[k]) for k in known}
        scores = {k: score for k, score in scores.items() if k != key and score <= 0.9999}
        if not scores:
            continue
        weights = oracle.softmax(scores, tau)
        others = {k: known[k] for k in scores}
        low, median, high = (oracle.quantile(weights, others, p) for p in (0.05, 0.5, 0.95))
        away.append(0.0 if low <= value <= high else abs(value - median))
    return sorted(away)[math.ceil(0.9 * (len(away) + 1)) - 1]


@pytest.mark.parametrize("gaps", [0, 15])
@pytest.mark.parametrize("tau", [0.001, *GRID[1:6], 100.0])
def test_it_reaches_as_far_from_the_median_as_nine_in_ten_values_left_out(tau, gaps):
    values: dict[str, float | None] = {**noisy_sines(75, seed=1)}
    values |= {str(360 * gap / 15 + 0.5): None for gap in range(gaps)}
    d = SoftDict({key: {"v": value} for key, value in values.items()}, encoder=Around())
    known = [value for value in values.values() if value is not None]
    far = reach(values, tau)

    for query in ("10", "100", "222"):
        blend = d.search(query, temperature=tau).blend["v"]
        low = min(blend.interval[0], max(blend.median - far, min(known)))
        high = max(blend.interval[1], min(blend.median + far, max(known)))
        assert blend.prediction_interval == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_between_the_temperatures_that_were_tried_it_is_between_theirs():
    values = noisy_sines(60, seed=2)
    d = SoftDict(values, encoder=Around())
    low, high = GRID[2:4]
    middle = math.sqrt(low * high)
    far = (reach({**values}, low) + reach({**values}, high)) / 2
    blend = d.search("45", temperature=middle).blend["value"]
    expected = max(blend.interval[1], min(blend.median + far, max(values.values())))

    assert blend.prediction_interval[1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("setting", "tau"), [(0.07, 0.07), ("auto", None), ("sqrt_d", math.sqrt(2))]
)
def test_at_the_temperature_of_the_dataset_it_is_no_mean_of_those_beside_it(setting, tau):
    values = {key: value**3 for key, value in noisy_sines(75, seed=7).items()}
    d = SoftDict(values, encoder=Around(), temperature=setting)
    tau = tau or d.describe().temperature_in_use
    far = reach(values, tau)
    between = np.interp(math.log(tau), np.log(GRID), [reach(values, other) for other in GRID])
    told = 0
    for query in map(str, range(0, 360, 30)):
        blend = d.search(query).blend["value"]
        expected, mean = (
            (
                min(blend.interval[0], max(blend.median - each, min(values.values()))),
                max(blend.interval[1], min(blend.median + each, max(values.values()))),
            )
            for each in (far, float(between))
        )
        assert blend.prediction_interval == pytest.approx(expected, rel=1e-5)
        told += mean != pytest.approx(expected, rel=1e-2)

    assert told > 5, "where it is neither the interval of the weight nor ends at a value"


@pytest.mark.parametrize("tau", ["auto", 0.001, 0.02, 0.1, "effective_keys:3", "sqrt_d"])
def test_nine_in_ten_values_that_were_held_out_lie_within(tau):
    inside, narrow, asked = 0, 0, 0
    for seed in range(3):
        unseen = noisy_sines(500, seed=seed + 100)
        d = SoftDict(noisy_sines(500, seed=seed), encoder=Around())
        answers = d.search_many(list(unseen), temperature=None if tau == "auto" else tau)
        for answer, truth in zip(answers, unseen.values(), strict=True):
            blend = answer.blend["value"]
            low, high = blend.prediction_interval
            inside += low <= truth <= high
            narrow += blend.interval[0] <= truth <= blend.interval[1]
            asked += 1

    assert 0.88 <= inside / asked <= 0.95
    if tau in (0.001, "effective_keys:3"):
        assert narrow / asked < 0.8  # what answers is narrower than what is uncertain


@pytest.mark.parametrize(("probed", "parts"), [(199, 1), (200, 2), (350, 3), (450, 3)])
def test_of_many_values_narrow_and_wide_intervals_reach_as_far_as_each_must(probed, parts):
    rng = np.random.default_rng(3)
    values = np.exp(rng.standard_normal(3000))
    rows = rng.standard_normal((3000, 8))
    rows[:, 0] += np.log(values)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    probes = np.sort(rng.choice(3000, probed, replace=False))
    scores = (rows[probes] @ rows.T).astype(np.float32)
    found = fit_margins(values, scores, probes)
    assert found is not None

    order = np.argsort(values)
    for tau, bounds, told in zip(found.temperatures, found.widths, found.reaches, strict=True):
        away, widths = [], []
        for probe, row in zip(probes, scores.astype(float), strict=True):
            row[probe] = -np.inf
            weights = np.exp((row - row.max()) / tau)[order]
            reached = np.cumsum(weights) / weights.sum()
            low, median, high = (
                values[order][np.argmax(reached >= p - 1e-9)] for p in (0.05, 0.5, 0.95)
            )
            truth = values[probe]
            away.append(0.0 if low <= truth <= high else abs(truth - median))
            widths.append(high - low)
        wanted = np.quantile(widths, np.arange(1, parts) / parts)
        # In float32 a quantile may be the value beside its own.
        near = sorted({bound for bound in wanted if bound < max(widths)})
        assert bounds == pytest.approx(near, rel=0.02)
        for number, far in enumerate(told):
            mine = [
                each
                for each, width in zip(away, widths, strict=True)
                if sum(bound < width for bound in bounds) == number
            ]
            exact = sorted(mine)[math.ceil(0.9 * (len(mine) + 1)) - 1]
            assert far == pytest.approx(exact, rel=0.02)


def test_where_a_part_would_be_of_too_few_intervals_there_is_one():
    pairs = [(0, 0)] * 220 + [(0, 1)] * 5 + [(0, 2)] * 110  # keys that each probe is like
    values = np.array([0.0, 0.001, 1.0, *np.linspace(-5, 5, len(pairs))])
    scores = np.full((len(pairs), len(values)), -1.0, np.float32)
    for row, pair in zip(scores, pairs, strict=True):
        row[list(pair)] = 0.5
    found = fit_margins(values, scores, np.arange(3, len(values)))

    assert found is not None
    assert found.widths[0] == []
    assert all(map(math.isfinite, found.reaches[0]))


def test_where_most_intervals_are_as_narrow_as_the_least_they_are_one_part():
    values = {f"k{n}": float(n % 2) for n in range(400)}
    d = SoftDict(values, encoder="random")
    sharp, flat = (d.search("k", temperature=tau).blend["value"] for tau in (0.001, 100.0))

    assert sharp.interval[0] == sharp.interval[1]
    assert sharp.prediction_interval == flat.prediction_interval == (0.0, 1.0)


def test_of_fewer_than_fifty_values_nothing_is_foretold():
    values = noisy_sines(50, seed=4)
    known = dict(list(values.items())[:49])
    d = SoftDict({**{key: {"v": value} for key, value in known.items()}}, encoder=Around())
    assert d.search("10").blend["v"].prediction_interval is None
    d["0.5"] = {"v": None}
    assert d.search("10").blend["v"].prediction_interval is None
    d["1.5"] = {"v": 0.1}
    assert d.search("10").blend["v"].prediction_interval is not None


@pytest.mark.parametrize("beside", [None, 1.0])
def test_a_column_that_few_keys_have_is_foretold_as_if_there_were_no_others(beside):
    sines = {str(angle): math.sin(math.radians(angle)) for angle in range(0, 360, 6)}
    known = {key: {"v": sine, "w": beside} for key, sine in sines.items()}
    none = {str(1_000 + angle / 100): {"v": None, "w": beside} for angle in range(20_000)}
    columns = [Column("v", "number"), Column("w", "number")]
    alone = SoftDict(known, columns=columns, encoder=Around()).search("10")
    among = SoftDict({**none, **known}, columns=columns, encoder=Around()).search("10")

    assert (among.temperature, among.temperature_source) == (alone.temperature, "fitted")
    assert among.blend["v"].prediction_interval == alone.blend["v"].prediction_interval is not None


def test_of_too_few_that_are_asked_for_nothing_is_foretold():
    rows = Around().encode([str(angle) for angle in range(0, 360, 6)])
    values = np.full(60, np.nan)
    for known, probed in ((8, None), (9, 9)):  # nine in ten of eight are more than eight
        values[:known] = range(known)
        made = fit_margins(values, rows[:known] @ rows.T, np.arange(known))
        assert (made is None) == (probed is None)


def test_a_column_of_too_few_probes_has_no_say_and_no_interval(monkeypatch):
    """By a single one any column would seem foretold."""
    monkeypatch.setattr("index.fitting._probes", lambda there, count: np.arange(0, 360, 4))
    values = {
        str(angle): {"few": angle % 7.0 if angle % 4 or angle < 60 else None, "v": angle % 11.0}
        for angle in range(360)
    }
    few, most = ({key: {name: row[name]} for key, row in values.items()} for name in ("few", "v"))
    both = SoftDict(values, encoder=Around()).search("7")
    alone = SoftDict(most, encoder=Around()).search("7")
    lone = SoftDict(few, encoder=Around()).search("7")

    assert (both.temperature, both.temperature_source) == (
        alone.temperature, alone.temperature_source
    )  # fmt: skip
    assert both.blend["few"].prediction_interval is None is lone.blend["few"].prediction_interval
    assert both.blend["v"].prediction_interval == alone.blend["v"].prediction_interval is not None


def test_where_nothing_is_to_be_fitted_no_key_is_asked_for(monkeypatch):
    monkeypatch.setattr("index.snapshot.Snapshot.scores", lambda *_: pytest.fail("one was"))
    words = {f"key {number}": "ab"[number % 2] for number in range(100)}

    d = SoftDict(words, encoder="random", temperature=0.1)
    d.set_temperature(0.2)


def test_a_column_of_one_value_foretells_that_one():
    d = SoftDict({str(angle): 3.5 for angle in range(0, 360, 5)}, encoder=Around())

    assert d.search("17").blend["value"].prediction_interval == (3.5, 3.5)


def test_keys_that_are_alike_foretell_each_other_no_more_than_themselves():
    values = noisy_sines(100, seed=5)
    twins = {key + "0": value for key, value in values.items()}  # the same angle, written otherwise
    alone = SoftDict(values, encoder=Around()).search("10", temperature=0.01)
    both = SoftDict(values | twins, encoder=Around()).search("10", temperature=0.01)

    widths = [np.ptp(answer.blend["value"].prediction_interval) for answer in (alone, both)]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)


def test_one_slip_does_not_stretch_it():
    values = noisy_sines(200, seed=6)
    far = max(values, key=lambda angle: abs(float(angle) - 200))
    wrong = {**values, far: 1e9}
    widths = [
        np.ptp(SoftDict(table, encoder=Around()).search("200", temperature=0.02)
               .blend["value"].prediction_interval)
        for table in (values, wrong)
    ]  # fmt: skip

    assert widths[1] == pytest.approx(widths[0], rel=0.2)


def test_it_is_of_attention_and_neither_of_an_exact_lookup_nor_of_weights_by_hand():
    values = noisy_sines(60, seed=7)
    key = next(iter(values))
    d = SoftDict(values, encoder=Around())

    compared = d.compare(key, weights={key: 1.0})
    assert compared.soft.blend["value"].prediction_interval is not None
    assert d.search(key, mode="exact").blend["value"].prediction_interval is None
    assert compared.manual.blend["value"].prediction_interval is None


def test_it_is_kept_and_fitted_anew_when_a_fifth_has_changed(tmp_path: Path) -> None:
    values = noisy_sines(100, seed=8)

    def asked(catalog: Catalog) -> Any:
        answer = catalog["t"].search("a", temperature=0.1)
        return answer.blend["value"].prediction_interval

    with Catalog.open(tmp_path) as catalog:
        d = catalog.create("t", encoder="random", temperature=0.2)
        d.update(values)
        first = asked(catalog)
    with Catalog.open(tmp_path) as catalog:
        assert first is not None
        assert asked(catalog) == first
        catalog["t"].update({key: 100 + value for key, value in list(values.items())[:19]})
        few = asked(catalog)
        catalog["t"].update({key: 100 + value for key, value in values.items()})
        all_of_them = asked(catalog)
    with Catalog.open(tmp_path, read_only=True) as catalog:
        assert asked(catalog) == all_of_them
    assert few[1] > 90  # a value that weighs lies there, whatever there was at the fit
    assert 90 < all_of_them[0] < all_of_them[1] < 110


def test_margins_of_an_earlier_shape_are_none_until_the_next_fit(tmp_path: Path) -> None:
    values = noisy_sines(100, seed=9)
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", encoder="random").update(values)
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
        (written,) = connection.execute("SELECT margins FROM datasets").fetchone()
        margins = json.loads(written)
        assert margins["value"].pop("widths")
        connection.execute("UPDATE datasets SET margins = ?", (json.dumps(margins),))

    with Catalog.open(tmp_path) as catalog:
        d = catalog["t"]
        assert d.search("a").blend["value"].prediction_interval is None
        d.update({f"more {key}": value for key, value in values.items()})
        assert d.search("a").blend["value"].prediction_interval is not None


@pytest.mark.skipif(
    sqlite3.sqlite_version_info < (3, 35), reason="this SQLite cannot take a column out of a table"
)
def test_a_store_of_before_has_it_from_its_next_change_on(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", encoder="random").update(noisy_sines(100, seed=9))
    with closing(sqlite3.connect(tmp_path / "softdict.db")) as connection, connection:
        connection.execute("ALTER TABLE datasets DROP COLUMN margins")
        connection.execute("PRAGMA user_version = 5")

    with Catalog.open(tmp_path) as catalog:
        d = catalog["t"]
        assert d.search("a").blend["value"].prediction_interval is None
        d["one more"] = 0.5
        assert d.search("a").blend["value"].prediction_interval is not None

"""A durable SoftDict beside a plain dict, and its answers beside plain loops."""

from __future__ import annotations

import csv
import io
import math
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from index import Column, LoadOptions, SoftDict, open_encoder
from index.errors import BadRows, WrongValue
from tests import oracle

ENCODER = "random:1"
KEYS = st.sampled_from(["a", "b", "ñandú", "año", "ano", "a/b", "🦙", "x" * 300, "0", "None"])
NUMBERS = st.one_of(
    st.none(), st.integers(-50, 50), st.floats(-1e6, 1e6, allow_nan=False, width=32)
)
QUERIES = st.sampled_from(["a", "país", "zz", "año"])
TEMPERATURES = st.sampled_from([0.02, 0.1, 1.0])


class Machine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.home = Path(tempfile.mkdtemp())
        self.model: dict[str, float | None] = {}
        self.vectors: dict[str, list[float]] = {}
        self.open()
        self.put("none", None)
        self.put("first", 1)  # which says what the column holds

    def open(self) -> None:
        self.d = SoftDict.open(self.home, encoder=ENCODER, temperature=0.1)

    def teardown(self) -> None:
        if hasattr(self, "d"):
            self.d.close()
            shutil.rmtree(self.home)

    @rule(key=KEYS, value=NUMBERS)
    def put(self, key: str, value: float | None) -> None:
        new = self.d.put(key, value)

        assert new == (key not in self.model)
        self.model[key] = value

    @rule(entries=st.dictionaries(KEYS, NUMBERS, max_size=5))
    def update(self, entries: dict[str, float | None]) -> None:
        self.d.update(entries)

        self.model.update(entries)

    @rule(entries=st.dictionaries(KEYS, NUMBERS, min_size=1, max_size=4))
    def refused_update(self, entries: dict[str, float | None]) -> None:
        with pytest.raises(WrongValue):
            self.d.update({**entries, "new": 3, "bad": "not a number"})

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))

        del self.d[key]

        del self.model[key]

    @rule(key=KEYS)
    def delete_missing(self, key: str) -> None:
        if key not in self.model:
            with pytest.raises(KeyError):
                del self.d[key]

    @rule()
    def clear(self) -> None:
        self.d.clear()

        self.model.clear()

    @rule(rows=st.lists(st.tuples(KEYS, st.integers(-9, 9)), min_size=1, max_size=6))
    def load(self, rows: list[tuple[str, int]]) -> None:
        self.d.load(table(rows), LoadOptions(format="csv", duplicates="last"))

        self.model.update(rows)

    @rule(rows=st.lists(st.tuples(KEYS, st.integers(-9, 9)), min_size=1, max_size=3))
    def failed_load(self, rows: list[tuple[str, int]]) -> None:
        with pytest.raises(BadRows):
            self.d.load(table([*rows, ("fresh", "no number")]), LoadOptions(format="csv"))

    @rule()
    def reopen(self) -> None:
        self.d.close()
        self.open()

    @rule(query=QUERIES, temperature=TEMPERATURES, k=st.integers(1, 12))
    def search(self, query: str, temperature: float, k: int) -> None:
        answer = self.d.search(query, k=k, temperature=temperature)

        self.agrees(answer, self.model, temperature, k)

    @rule(query=QUERIES, position=st.integers(0, 12))
    def search_as_of(self, query: str, position: int) -> None:
        answer = self.d.search(query, as_of=position, temperature=0.1)

        first = dict(list(self.model.items())[:position])
        self.agrees(answer, first, 0.1, 10)

    @rule(query=QUERIES, least=st.integers(-60, 60), k=st.integers(1, 12))
    def search_where(self, query: str, least: int, k: int) -> None:
        answer = self.d.search(query, where=f"value >= {least}", temperature=0.1, k=k)

        kept = {key: v for key, v in self.model.items() if v is not None and v >= least}
        self.agrees(answer, kept, 0.1, k)

    def agrees(self, answer, model, temperature: float, k: int) -> None:
        encoder = open_encoder(ENCODER)
        query = encoder.encode([answer.query])[0].tolist()
        scores = {}
        for key in model:
            if key not in self.vectors:
                self.vectors[key] = encoder.encode([key])[0].tolist()
            scores[key] = oracle.cosine(query, self.vectors[key])
        weights = oracle.softmax(scores, temperature)

        assert answer.keys == len(model)
        assert len(answer.matches) == min(k, len(model))
        ranked = sorted(weights.values(), reverse=True)
        for match, weight in zip(answer.matches, ranked, strict=False):
            assert match.weight == pytest.approx(weight, rel=1e-4, abs=1e-9)
            assert weights[match.key] == pytest.approx(match.weight, rel=1e-4, abs=1e-9)
            assert match.score == pytest.approx(scores[match.key], abs=1e-6)
            assert match.value == model[match.key]
        if weights:
            n = math.exp(oracle.entropy(weights))
            assert answer.effective_keys == pytest.approx(n, rel=1e-4)
        mean = oracle.mean(weights, model)
        blend = answer.blend.get("value")
        if mean is None:
            assert blend is None
        else:
            assert blend.mean == pytest.approx(mean, rel=1e-4, abs=1e-4)
            known = math.fsum(w for key, w in weights.items() if model[key] is not None)
            assert blend.known == pytest.approx(known, rel=1e-5)

    @invariant()
    def reads_as_a_dict(self) -> None:
        if hasattr(self, "d"):
            assert dict(self.d) == self.model
            assert list(self.d) == list(self.model)
            assert len(self.d) == len(self.model)
            assert "missing" not in self.d


def table(rows: list[tuple[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["key", "value"])
    writer.writerows(rows)
    return text.getvalue().encode()


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_columns_stay_when_every_entry_is_gone():
    d = SoftDict(columns=[Column("value", "number")], encoder=ENCODER)
    d["a"] = 1
    d.clear()

    assert d.columns == (Column("value", "number"),)
    with pytest.raises(WrongValue):
        d["a"] = "text"

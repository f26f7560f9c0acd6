"""as_of: a causal mask over a dataset."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import pytest

from index import SoftDict
from index.errors import InvalidRequest
from index.masks import AsOf, parse_as_of

DAY = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (None, None),
        (3, AsOf(position=3)),
        ("3", AsOf(position=3)),
        ("9999999", AsOf(position=9_999_999)),
        (0, AsOf(position=0)),
        ("2026-03-01T00:00:00", AsOf(moment=DAY)),
        ("2026-03-01T00:00:00Z", AsOf(moment=DAY)),
        ("2026-03-01T01:00:00+01:00", AsOf(moment=DAY)),
        ("2026-03-01 01:00+01:00", AsOf(moment=DAY)),
        ("2026-W09-7t00:00", AsOf(moment=DAY)),
        ("2026-03-01T01:00 01:00", AsOf(moment=DAY)),  # as an address reads a plus
        ("2026-03-01T01:00:00.000000 0100", AsOf(moment=DAY)),
        ("20260301T010000 01", AsOf(moment=DAY)),
        ("2026-03-01 01:00 01:00", AsOf(moment=DAY)),
        ("2026-03-01 00:00", AsOf(moment=DAY)),
        (datetime(2026, 3, 1, tzinfo=UTC), AsOf(moment=DAY)),
        (datetime(2026, 3, 1), AsOf(moment=DAY)),  # a naive time is UTC
    ],
)
def test_spellings(given, parsed):
    assert parse_as_of(given) == parsed


@pytest.mark.parametrize("given", ["2026-03-01", date(2026, 3, 1)])
def test_a_date_takes_in_the_whole_day(given):
    moment = parse_as_of(given).moment

    assert DAY + 86_399.9 < moment < DAY + 86_400


def test_the_last_day_there_is_hides_nothing():
    d = SoftDict({"a": 1, "b": 2}, encoder="random")

    assert d.search("a", as_of="9999-12-31") == d.search("a")


class NoTime(datetime):
    """Is a point in time to Python, and none, as the NaT of pandas."""

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    def timestamp(self) -> float:
        raise ValueError("NoTime does not support timestamp")

    __hash__ = datetime.__hash__


@pytest.mark.parametrize(
    "given",
    [
        *("", "tomorrow", -1, True, 1.5, "2026-13-01", [], "-3", "1" * 5_000, NoTime(1, 1, 1)),
        # A date without its hyphens, and seconds since 1970, as the service gives them.
        *("20261126", 20_261_126, 1_795_657_211, "1" * 19),
        *(
            "2026-W09",
            "2026W09",
            "2026-03-01+05:00",
            "2026-03-01-05:00",
            "2026-W09-7+05:00",
        ),  # zones of no time
    ],
)
def test_refused_spellings(given):
    with pytest.raises(InvalidRequest) as refused:
        parse_as_of(given)

    assert [fault.where for fault in refused.value.faults] == ["as_of"]


def same_answer(masked, alone) -> None:
    """The same to float32's precision: sums are taken in another order."""
    assert [match.key for match in masked.matches] == [match.key for match in alone.matches]
    for one, other in zip(masked.matches, alone.matches, strict=True):
        assert one.weight == pytest.approx(other.weight, rel=1e-5)
    assert masked.blend["value"].mean == pytest.approx(alone.blend["value"].mean, rel=1e-5)
    assert masked.blend["value"].interval == alone.blend["value"].interval
    assert masked.keys == alone.keys
    assert masked.effective_keys == pytest.approx(alone.effective_keys, rel=1e-5)


@pytest.mark.parametrize("temperature", [0.05, "effective_keys:4"])
def test_a_mask_changes_weights_as_if_the_masked_keys_had_never_been_there(temperature):
    everything = {f"key {i}": i for i in range(20)}
    first = dict(list(everything.items())[:7])
    d = SoftDict(everything, encoder="random", temperature=temperature)
    alone = SoftDict(first, encoder="random", temperature=temperature)

    same_answer(d.search("question", as_of=7), alone.search("question"))


@pytest.mark.parametrize("temperature", [0.001, 0.01, 0.1])
def test_a_blend_is_over_the_keys_that_have_a_value_however_little_they_weigh(temperature):
    words = {f"word {i}": {"size": i, "kind": f"kind {i % 7}", "place": [i, 1]} for i in range(40)}
    gap = dict.fromkeys(("size", "kind", "place"))
    d = SoftDict({"país": gap, **words}, encoder="random", temperature=temperature)

    whole = d.search("país")
    alone = d.search("país", where="size is not missing")

    assert whole.matches[0].key == "país"
    shares = [blend.known for blend in whole.blend.values()]
    assert shares == pytest.approx([1 - whole.matches[0].weight] * 3, abs=1e-6)
    for name in ("size", "place"):
        assert whole.blend[name].mean == pytest.approx(alone.blend[name].mean, rel=1e-4)
    shown = dict(alone.blend["kind"].distribution)
    assert dict(whole.blend["kind"].distribution) == pytest.approx(shown, rel=1e-4)


def test_a_share_that_float32_cannot_hold_is_said():
    d = SoftDict({"país": None, "perro": 3}, encoder="random", temperature=0.003)

    answer = d.search("país", k=2, explain=True)
    faint = answer.matches[1].weight
    assert 0 < faint < 1e-60
    assert answer.blend["value"].known == faint
    assert answer.explanation["blend"]["value"] == f"({faint:.1e}·3) / {faint:.1e} = 3"
    nothing = d.search("país", where="value = 4", explain=True)
    assert nothing.explanation["blend"]["value"] == "nothing"


def test_position_counts_the_entries_that_are_there():
    d = SoftDict({f"key {i}": i for i in range(6)}, encoder="random")
    del d["key 1"]

    answer = d.search("question", as_of=3)

    assert {match.key for match in answer.matches} == {"key 0", "key 2", "key 3"}
    assert [d.search("question", as_of=n).keys for n in (4, 5, 6)] == [4, 5, 5]


def test_a_moment_hides_what_arrived_later_and_an_update_keeps_its_arrival():
    d = SoftDict({"old": 1}, encoder="random")
    between = datetime.fromtimestamp(d.entry("old").arrived, UTC) + timedelta(milliseconds=1)
    time.sleep(0.005)
    d["new"] = 2
    d["old"] = 3

    answer = d.search("question", as_of=between)

    assert [(match.key, match.value) for match in answer.matches] == [("old", 3)]
    assert d.search("new", as_of=between, mode="exact").matches == ()
    assert d.search("question", as_of=0).matches == ()
    assert d.search("question", as_of=0).blend == {"value": None}
    assert d.search("question", as_of=0, explain=True).explanation["max_logit"] is None


def test_an_entry_is_there_by_its_own_time_of_arrival():
    d = SoftDict(encoder="random")
    for number in range(40):
        d[f"key {number}"] = number

    for number in range(40):
        arrived = datetime.fromtimestamp(d.entry(f"key {number}").arrived, UTC)
        for moment in (arrived, arrived.isoformat()):
            assert f"key {number}" in {m.key for m in d.search("a", k=40, as_of=moment).matches}


def test_columns_with_the_same_gaps_have_the_very_same_mask():
    gap = {"w": 0, "x": None, "y": None, "z": 1}
    d = SoftDict({"a": dict.fromkeys("wxyz", 1), "b": gap, "c": {**gap, "z": None}, "d": gap},
                 encoder="random")  # fmt: skip
    del d["d"]
    snapshot = d._snapshot

    w, x, y, z = snapshot.known
    assert w is None and x is y
    assert (x.tolist(), z.tolist()) == ([True, False, False, False], [True, True, False, True])
    w, x, y, z = snapshot.having
    assert w is snapshot.alive and x is y
    assert (x.tolist(), z.tolist()) == ([True, False, False, False], [True, True, False, False])


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has no tzset")
def test_a_time_without_a_zone_is_utc_wherever_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    noon = AsOf(moment=datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp())
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "America/Mexico_City")
        time.tzset()
        assert parse_as_of("2026-01-31T12:00") == parse_as_of(datetime(2026, 1, 31, 12)) == noon
    time.tzset()


def test_eight_digits_are_no_position() -> None:
    assert parse_as_of("9999999") == AsOf(position=9_999_999)
    for given in (10**7, "10000000"):
        with pytest.raises(InvalidRequest):
            parse_as_of(given)


def test_a_position_counts_entries_whether_a_condition_holds_of_them_or_not() -> None:
    d = SoftDict({"a": 1, "b": 9, "c": 2, "d": 9}, encoder="random")

    answer = d.search("a", as_of=2, where="value < 5")

    assert ([match.key for match in answer.matches], answer.keys) == (["a"], 1)

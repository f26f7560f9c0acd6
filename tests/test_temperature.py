"""Temperature: its spellings, the solved one and the fitted one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Column, SoftDict
from index.errors import InvalidRequest
from index.fitting import fit_snapshot
from index.temperature import (
    Likelihood,
    Temperature,
    effective_keys_temperature,
    fit_temperature,
    label_likelihood,
    number_likelihood,
    parse_temperature,
)
from tests import oracle
from tests.around import Around


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        (0.1, "0.1"),
        ("0.1", "0.1"),
        (1, "1"),
        (" .25 ", "0.25"),
        ("sqrt_d", "sqrt_d"),
        ("auto", "auto"),
        ("effective_keys:5", "effective_keys:5"),
        ("effective_keys:2.5", "effective_keys:2.5"),
        (0.0912345678901, "0.0912345678901"),
        ("effective_keys:1234567", "effective_keys:1234567"),
        ("effective_keys:1", "effective_keys:1"),
        (0.001, "0.001"),
        (1000, "1000"),
    ],
)
def test_spellings(given, spelled):
    assert str(parse_temperature(given)) == spelled
    assert parse_temperature(spelled) == parse_temperature(given)


@pytest.mark.parametrize(
    "given",
    [0, -1, True, "", "hot", "nan", "inf", math.nan, math.inf, 1e-9, None, [], "effective_keys:0",
     "effective_keys:", "effective_keys:x", "effective_keys:nan", "effective_keys:inf",
     "effective_keys:0.99", "keys:5", "1_0", "effective_keys:1_0", 0.00099, 1000.1,
     Temperature("number"), Temperature("number", -1), Temperature("effective_keys", 0.5),
     Temperature("effective_keys"), Temperature("auto", 1)],
)  # fmt: skip
def test_refused_spellings(given):
    with pytest.raises(InvalidRequest) as refused:
        parse_temperature(given)

    assert [fault.where for fault in refused.value.faults] == ["temperature"]


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=40, unique=True),
    st.floats(0.05, 0.95),
)
def test_solved_temperature_gives_the_wanted_effective_keys(scores, share):
    ranked = sorted(scores, reverse=True)
    if ranked[0] - ranked[1] < 0.01:  # ties for the best leave less than they count unreachable
        scores.append(ranked[0] + 0.02)
    wanted = 1.01 + share * (len(scores) - 1.02)

    tau = effective_keys_temperature(np.array(scores, np.float32), wanted)

    weights = oracle.softmax({str(i): float(s) for i, s in enumerate(scores)}, tau)
    assert math.exp(oracle.entropy(weights)) == pytest.approx(wanted, rel=1e-2)


def test_more_effective_keys_than_keys_is_the_flattest():
    tau = effective_keys_temperature(np.array([0.1, 0.9], np.float32), 50)

    assert tau == pytest.approx(1e3, rel=1e-3)


@pytest.mark.parametrize("given", [{"temperature": "effective_keys:2"}, {}])
def test_where_nothing_is_allowed_nothing_answers_at_any_temperature(given):
    d = SoftDict({"a": 1, "b": 2}, encoder="random", temperature="effective_keys:3")

    for asked in (d, SoftDict(encoder="random", temperature="effective_keys:3")):
        answer = asked.search("x", as_of=0, **given)
        assert (answer.keys, answer.matches, answer.effective_keys) == (0, (), 0)


EVERY = np.arange(300)  # all points of ``kernel_data`` are probed


def kernel_data(bandwidth: float, noise: float, seed: int = 0):
    """Points on a line whose value varies smoothly; scores fall off as a Gaussian kernel.

    With score = -(x - y)²/2 weights at temperature τ are a Gaussian kernel of variance τ.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, 300))
    values = np.sin(2 * math.pi * x / bandwidth) + noise * rng.standard_normal(300)
    scores = -((x[:, None] - x[None, :]) ** 2) / 2 * 100
    return scores.astype(np.float32), values[:, None]


def loo_error(scores, values, tau) -> float:
    """Leave-one-out squared error by plain loops."""
    total = 0.0
    for i in range(len(values)):
        weights = oracle.softmax(
            {str(j): float(scores[i, j]) for j in range(len(values)) if j != i}, tau
        )
        predicted = oracle.mean(
            weights, {str(j): float(values[j, 0]) for j in range(len(values)) if j != i}
        )
        total += (predicted - float(values[i, 0])) ** 2
    return total


def test_fit_finds_the_least_leave_one_out_error_of_numbers():
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)

    tau = fit_temperature(scores, EVERY, [number_likelihood(values, EVERY)])

    assert tau is not None
    best = loo_error(scores, values, tau)
    assert best <= loo_error(scores, values, tau * 1.6)
    assert best <= loo_error(scores, values, tau / 1.6)


def fit_of_a_parabola(best: float, rise: float) -> float | None:
    """Fit to values whose log likelihood is a parabola in log τ, ``rise`` nats above flat."""

    def logarithm(weights):
        ratio = weights[:, 1].astype(float) / weights[:, 2].astype(float)
        tau = 0.1 / np.log(ratio)  # of two keys whose scores differ by 0.1
        return -rise * (np.log(tau / best) / math.log(100 / best)) ** 2

    likelihood = Likelihood(lambda probes: logarithm, lambda logarithms: logarithms.sum())
    return fit_temperature(np.array([[1.0, 0.1, 0.0]], np.float32), np.array([0]), [likelihood])


@pytest.mark.parametrize("best", [0.012, 0.031, 0.0777, 0.1, 0.2, 0.5, 0.8])
def test_the_best_temperature_is_found_between_those_that_are_tried(best):
    assert fit_of_a_parabola(best, rise=30) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("best", [1.0, 3.0])
def test_where_the_flattest_temperature_that_is_tried_is_the_best_none_is_fitted(best):
    assert fit_of_a_parabola(best, rise=30) is None


def test_attention_must_foretell_values_better_than_their_mean_by_two_nats():
    assert fit_of_a_parabola(0.1, rise=2.01) == pytest.approx(0.1, rel=1e-2)
    assert fit_of_a_parabola(0.1, rise=1.99) is None


def test_fit_of_labels_prefers_the_temperature_that_predicts_them():
    scores, values = kernel_data(bandwidth=0.7, noise=0.6)
    codes = (values[:, 0] > 0).astype(np.int32)

    tau = fit_temperature(scores, EVERY, [label_likelihood(codes, EVERY)])

    assert tau is not None

    def likelihood(t: float) -> float:
        total = 0.0
        for i in range(300):
            weights = oracle.softmax({j: float(scores[i, j]) for j in range(300) if j != i}, t)
            agreed = math.fsum(w for j, w in weights.items() if codes[j] == codes[i])
            total += math.log(0.99 * agreed + 0.01 * float((codes == codes[i]).mean()))
        return total

    assert likelihood(tau) > likelihood(tau * 2)
    assert likelihood(tau) > likelihood(tau / 2)


def test_the_likelihood_of_labels_is_that_of_plain_loops():
    codes = [0, 1, -1, 0, 1, 0, 2]  # one has no label, and one a label that no other has
    weights = np.random.default_rng(4).random((7, 7), np.float32) + 0.5
    np.fill_diagonal(weights, 0)

    likelihood = label_likelihood(np.array(codes, np.int32), np.arange(7))
    found = likelihood.of_some(slice(0, 7))(weights)

    expected = []
    for wanted, row in zip(codes, weights.tolist(), strict=True):
        if wanted >= 0:
            mass = sum(w for w, code in zip(row, codes, strict=True) if code >= 0)
            agreed = sum(w for w, code in zip(row, codes, strict=True) if code == wanted)
            base = codes.count(wanted) / 6  # of those that have a label
            expected.append(math.log(0.99 * agreed / mass + 0.01 * base))
    assert found == pytest.approx(expected, rel=1e-5)
    assert likelihood.of_all(found) == pytest.approx(sum(expected), rel=1e-5)


def test_labels_that_the_nearest_key_always_knows_want_the_sharpest_temperature():
    scores, values = kernel_data(bandwidth=1.0, noise=0.0)
    codes = (values[:, 0] > 0).astype(np.int32)

    tau = fit_temperature(scores, EVERY, [label_likelihood(codes, EVERY)])

    assert tau == pytest.approx(0.01)


def test_a_label_that_no_other_key_has_costs_a_bounded_amount():
    scores, values = kernel_data(bandwidth=0.7, noise=0.3)
    codes = (values[:, 0] > 0).astype(np.int32)
    alone = codes.copy()
    alone[150] = 2

    tau = fit_temperature(scores, EVERY, [label_likelihood(alone, EVERY)])

    assert tau == pytest.approx(
        fit_temperature(scores, EVERY, [label_likelihood(codes, EVERY)]), rel=0.1
    )


def test_values_that_say_nothing_about_the_keys_are_not_fitted():
    scores, _ = kernel_data(bandwidth=1.0, noise=0.0)
    noise = np.random.default_rng(5).standard_normal((300, 1))

    assert fit_temperature(scores, EVERY, [number_likelihood(noise, EVERY)]) is None


def test_a_key_has_no_say_in_what_is_foretold_of_it():
    scores, _ = kernel_data(bandwidth=1.0, noise=0.0)
    rng = np.random.default_rng(5)
    noise, codes = rng.standard_normal((300, 1)), rng.integers(0, 9, 300).astype(np.int32)
    probes = rng.permutation(300)[:200]

    # Each of them would foretell itself best at the sharpest temperature.
    for likelihood in (number_likelihood(noise, probes), label_likelihood(codes, probes)):
        assert fit_temperature(scores[probes], probes, [likelihood]) is None


def test_large_numbers_are_fitted_as_small_ones_are():
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)

    tau = fit_temperature(scores, EVERY, [number_likelihood(values, EVERY)])
    dates = fit_temperature(scores, EVERY, [number_likelihood(1.7e9 + 3 * values, EVERY)])

    assert dates == pytest.approx(tau, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-300, 1e-250, 1e-170, 1e160, 1e307])
def test_a_column_of_the_smallest_or_largest_numbers_is_fitted_as_any_other(scale):
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    values[:3] = np.nan
    others = number_likelihood(values, EVERY)

    tau = fit_temperature(scores, EVERY, [others, others])
    scaled = fit_temperature(scores, EVERY, [others, number_likelihood(scale * values, EVERY)])

    assert scaled == pytest.approx(tau, rel=1e-6)


@pytest.mark.parametrize("constant", [0.1, 0.3, 1.1, 2.7, 19.99, 21.0, 1 / 3])
@pytest.mark.parametrize("width", [1, 3])
def test_a_column_that_always_holds_the_same_has_no_say_in_a_fit(constant, width):
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    same = np.full((300, width), constant)
    of_values, of_same = number_likelihood(values, EVERY), number_likelihood(same, EVERY)

    assert fit_temperature(scores, EVERY, [of_same]) is None
    both = fit_temperature(scores, EVERY, [of_values, of_same])
    assert both == fit_temperature(scores, EVERY, [of_values])


@pytest.mark.parametrize("width", [2, 5, 6, 12])
def test_a_vector_of_one_number_over_and_over_is_fitted_as_the_number_is(width):
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    values[:3] = np.nan
    alike = np.repeat(values, width, axis=1)

    tau = fit_temperature(scores, EVERY, [number_likelihood(values, EVERY)])
    fitted = fit_temperature(scores, EVERY, [number_likelihood(alike, EVERY)])

    assert fitted == pytest.approx(tau, rel=1e-4)


def test_missing_values_take_no_part_in_a_fit():
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    gaps = values.copy()
    gaps[1::3] = np.nan
    kept = np.flatnonzero(~np.isnan(gaps[:, 0]))
    few = np.arange(len(kept))

    some = fit_temperature(scores, EVERY, [number_likelihood(gaps, EVERY)])
    alone = fit_temperature(scores[np.ix_(kept, kept)], few, [number_likelihood(gaps[kept], few)])

    assert some == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("place", [7, 150])
@pytest.mark.parametrize("slip", [1e3, -1e3, 1e9])
def test_a_number_that_slipped_moves_no_fit(place, slip):
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    slipped = values.copy()
    slipped[place] *= slip

    tau = fit_temperature(scores, EVERY, [number_likelihood(slipped, EVERY)])

    right = fit_temperature(scores, EVERY, [number_likelihood(values, EVERY)])
    assert tau == pytest.approx(right, rel=0.05)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("slip", [-6.0, 6.0])
def test_a_vector_one_of_whose_numbers_slipped_moves_no_fit(part, slip):
    """Each of its numbers is judged by its own column: 6 is no slip among hundreds."""
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    vectors = values * [0.01, 1.0] + [5.0, 0.0]
    slipped = vectors.copy()
    slipped[150, part] += slip * [1.0, 100.0][part]

    tau = fit_temperature(scores, EVERY, [number_likelihood(slipped, EVERY)])

    right = fit_temperature(scores, EVERY, [number_likelihood(vectors, EVERY)])
    assert tau == pytest.approx(right, rel=0.05)


def test_a_rare_value_beside_many_that_are_the_same_counts_in_a_fit():
    scores, values = kernel_data(bandwidth=1.0, noise=0.0)
    rare = np.where(values > 0.95, 1.0, 0.0)  # in fewer than one of four: both quartiles are 0

    assert 0.05 < rare.mean() < 0.25
    assert fit_temperature(scores, EVERY, [number_likelihood(rare, EVERY)]) is not None


def test_keys_that_are_alike_do_not_foretell_each_other():
    scores, values = kernel_data(bandwidth=1.0, noise=0.2)
    codes = (values[:, 0] > 0).astype(np.int32)
    twice = np.tile(scores, (2, 2))
    both = np.arange(600)
    twice[both, np.roll(both, 300)] = 0.99995

    for once, again in (
        (number_likelihood(values, EVERY), number_likelihood(np.tile(values, (2, 1)), both)),
        (label_likelihood(codes, EVERY), label_likelihood(np.tile(codes, 2), both)),
    ):
        tau = fit_temperature(scores, EVERY, [once])
        assert fit_temperature(twice, both, [again]) == pytest.approx(tau, rel=0.05)


def test_where_all_keys_are_alike_none_is_fitted():
    same, values = np.ones((300, 300), np.float32), np.random.default_rng(0).random((300, 1))
    codes = np.arange(300, dtype=np.int32) % 3

    for likelihood in (number_likelihood(values, EVERY), label_likelihood(codes, EVERY)):
        assert fit_temperature(same, EVERY, [likelihood]) is None


def test_columns_that_keys_do_not_tell_have_no_say_in_a_fit():
    scores, values = kernel_data(bandwidth=0.7, noise=0.6)
    codes = (values[:, 0] > 0).astype(np.int32)
    rng = np.random.default_rng(3)
    others = [
        number_likelihood(rng.standard_normal((300, width)), EVERY) for width in [1] * 9 + [64]
    ]
    others += [label_likelihood(rng.integers(0, 5, 300, np.int32), EVERY) for _ in range(3)]

    tau = fit_temperature(scores, EVERY, [label_likelihood(codes, EVERY), *others])

    alone = fit_temperature(scores, EVERY, [label_likelihood(codes, EVERY)])
    assert tau == pytest.approx(alone, rel=0.05)


def beside_nearer_ones_without(held, missing):
    """Pairs that hold the same, at .55 of each other and .5 of the rest, each beside a twin
    without a value, at .99: the scores of the 60 with all 120, and what they hold."""
    scores = np.full((60, 120), 0.5, np.float32)
    for i in range(60):
        scores[i, i ^ 1], scores[i, i + 60] = 0.55, 0.99
    return scores, np.concatenate([np.repeat(held, 2, axis=0), np.repeat(missing, 60, axis=0)])


def test_nearer_keys_without_a_number_take_no_part_in_a_fit():
    held = np.random.default_rng(0).standard_normal((30, 1))
    scores, values = beside_nearer_ones_without(held, [[np.nan]])
    some = np.arange(60)

    fit = fit_temperature(scores, some, [number_likelihood(values, some)])
    alone = fit_temperature(scores[:, :60], some, [number_likelihood(values[:60], some)])

    assert fit == pytest.approx(alone, rel=1e-3)


def test_nearer_keys_without_a_label_take_no_part_in_a_fit():
    scores, codes = beside_nearer_ones_without(np.arange(30, dtype=np.int32), np.int32([-1]))
    some = np.arange(60)

    fit = fit_temperature(scores, some, [label_likelihood(codes, some)])
    alone = fit_temperature(scores[:, :60], some, [label_likelihood(codes[:60], some)])

    assert fit == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("at_once", [1, 7 * 300, 2**18])
def test_a_fit_is_the_same_however_many_keys_are_probed_at_a_time(at_once, monkeypatch):
    monkeypatch.setattr("index.temperature.CACHED", at_once)
    scores, values = kernel_data(bandwidth=0.7, noise=0.6)
    gaps, codes = values.copy(), (values[:, 0] > 0).astype(np.int32)
    gaps[1::3], codes[::5] = np.nan, -1
    probes = np.random.default_rng(5).permutation(300)[:200]

    tau = fit_temperature(
        scores[probes], probes, [number_likelihood(gaps, probes), label_likelihood(codes, probes)]
    )

    def likelihood(t: float) -> float:
        squares, logarithms = [], []
        shares = {c: (codes == c).sum() / (codes >= 0).sum() for c in (0, 1)}
        for i in probes.tolist():
            others = [j for j in range(300) if j != i]
            if not math.isnan(gaps[i, 0]):
                known = {j: float(scores[i, j]) for j in others if not math.isnan(gaps[j, 0])}
                mean = oracle.mean(oracle.softmax(known, t), {j: float(gaps[j, 0]) for j in known})
                squares.append((mean - float(gaps[i, 0])) ** 2)
            if codes[i] >= 0:
                known = {j: float(scores[i, j]) for j in others if codes[j] >= 0}
                weights = oracle.softmax(known, t)
                agreed = math.fsum(w for j, w in weights.items() if codes[j] == codes[i])
                logarithms.append(math.log(0.99 * agreed + 0.01 * shares[codes[i]]))
        mean = math.fsum(squares) / len(squares)
        return math.fsum(logarithms) - 0.5 * len(squares) * math.log(mean)

    assert tau is not None
    assert likelihood(tau) > likelihood(tau * 1.2)
    assert likelihood(tau) > likelihood(tau / 1.2)


def test_auto_is_fitted_where_there_is_enough_data_and_says_so():
    rng = np.random.default_rng(0)
    words = [f"word {i}" for i in range(80)]
    d = SoftDict({word: float(rng.standard_normal()) for word in words}, encoder="random")

    assert d.describe().temperature_source == "encoder"  # random keys say nothing of values
    assert d.search("word 3").temperature == pytest.approx(0.1)
    d.set_temperature(0.3)
    assert d.search("word 3").temperature_source == "setting"
    assert d.search("word 3", temperature=0.2).temperature_source == "given"
    assert d.search("word 3", temperature="sqrt_d").temperature == pytest.approx(math.sqrt(384))
    solved = d.search("word 3", temperature="effective_keys:7")
    assert solved.effective_keys == pytest.approx(7, rel=1e-3)
    assert solved.temperature_source == "effective_keys"


@pytest.mark.parametrize(
    ("setting", "empty", "some"),
    [
        ("sqrt_d", (None, "sqrt_d"), (math.sqrt(2), "sqrt_d")),  # of a vector, and there is none
        ("effective_keys:3", (None, "effective_keys"), (None, "effective_keys")),  # of a question
        ("auto", (None, "encoder"), (None, "encoder")),
        (0.3, (0.3, "setting"), (0.3, "setting")),
    ],
)
def test_a_description_says_which_temperature_is_in_use_where_that_is_known(setting, empty, some):
    d = SoftDict(encoder=Around(), temperature=setting)

    for told in (empty, some):
        said = d.describe()
        assert (said.temperature_in_use, said.temperature_source) == told
        d["10"] = 1.0


def test_auto_is_fitted_where_values_follow_the_keys():
    sines = {str(angle): math.sin(math.radians(angle)) for angle in range(0, 360, 3)}
    answer = SoftDict(sines, encoder=Around()).search("90")

    scores = Around().encode(list(sines)) @ Around().encode(list(sines)).T
    np.fill_diagonal(scores, -np.inf)

    def error(tau):  # of each value foretold by the others
        weights = np.exp((scores - 1) / tau)
        return np.mean((weights @ list(sines.values()) / weights.sum(1) - [*sines.values()]) ** 2)

    least = min(map(error, np.geomspace(0.01, 1, 200)))
    assert error(answer.temperature) == pytest.approx(least, rel=0.1)
    assert answer.temperature_source == "fitted"
    assert answer.value == pytest.approx(1, abs=0.05)


def test_among_more_keys_than_are_probed_and_some_deleted_none_has_a_say_in_its_own_value():
    angles = np.linspace(0, 360, 700, endpoint=False).tolist()
    noise = np.random.default_rng(1).standard_normal((700, 2)).tolist()
    d = SoftDict(dict(zip(map(str, angles), noise, strict=True)), encoder=Around())

    for angle in angles[:40]:
        del d[str(angle)]
    d.set_temperature("auto")

    assert d.describe().temperature_source == "encoder"  # each key but itself says nothing of it
    d.update({str(a): [math.sin(math.radians(a)), math.cos(math.radians(a))] for a in angles[40:]})
    assert d.describe().temperature_source == "fitted"


@pytest.mark.parametrize("first", [0, 1, 45, 49])
@pytest.mark.parametrize("empty", [0, 60])
def test_a_temperature_is_fitted_with_the_fiftieth_value(first: int, empty: int) -> None:
    values = {str(a): math.sin(math.radians(a)) for a in range(50)}
    gaps = {str(100 + a): {"v": None} for a in range(empty)}
    columns = [Column("v", "number")]
    known = dict(list(values.items())[:first])
    d = SoftDict({**gaps, **known}, columns=columns, encoder=Around())
    for key in list(values)[first:]:
        assert d.describe().temperature_source == "encoder"
        d[key] = values[key]

    assert d.describe().temperature_source == "fitted"


@pytest.mark.parametrize(("keys", "source"), [(49, "encoder"), (50, "fitted")])
@pytest.mark.parametrize("gaps", [0, 30])
def test_a_fit_takes_fifty_keys_with_a_value(keys, source, gaps):
    angles = {str(a): math.sin(math.radians(a)) for a in np.linspace(0, 360, keys, endpoint=False)}
    d = SoftDict(angles | {str(angle + 0.5): None for angle in range(gaps)}, encoder=Around())

    assert d.describe().temperature_source == source


def test_values_that_are_corrected_are_fitted_anew():
    sines = {str(angle): math.sin(math.radians(angle)) for angle in range(0, 360, 3)}
    fresh = SoftDict(sines, encoder=Around()).search("90")
    noise = np.random.default_rng(1).standard_normal(len(sines)).tolist()
    d = SoftDict(dict(zip(sines, noise, strict=True)), encoder=Around())
    before = d.describe()

    for key, value in sines.items():  # one at a time: it is the sum that counts
        d[key] = value

    assert before.temperature_source == "encoder"
    assert d.describe().temperature_source == "fitted"
    d.set_temperature("auto")
    assert d.search("90").temperature == fresh.temperature


def test_what_comes_counts_beside_what_goes_and_what_stays_as_it_was_does_not(monkeypatch):
    fits = []
    monkeypatch.setattr(
        "index.moments.fit_snapshot",
        lambda snapshot, record: fits.append(len(snapshot)) or fit_snapshot(snapshot, record),
    )
    d = SoftDict({str(angle): 1.0 for angle in range(100)}, encoder=Around())
    fits.clear()

    for _ in range(50):
        d["7"] = 1.0
    assert fits == []
    for angle in range(10):
        del d[str(angle)]
        d[str(angle + 100)] = 2.0
    assert fits == []
    d["200"] = 2.0
    assert fits == [101]


def test_a_setting_that_would_not_be_read_again_is_not_kept():
    d = SoftDict({"a": 1}, encoder="random", temperature=Temperature("effective_keys", 2))

    for wrong in (Temperature("number", 0), Temperature("effective_keys", 0.5)):
        with pytest.raises(InvalidRequest):
            d.configure(temperature=wrong)
        with pytest.raises(InvalidRequest):
            d.search("a", temperature=wrong)

    assert d.describe().temperature == "effective_keys:2"


def test_a_setting_made_of_a_numpy_number_is_read_again():
    for setting in (Temperature("number", np.float64(0.05)), Temperature("number", np.int64(2))):
        assert parse_temperature(str(setting)) == setting


def test_a_new_encoder_has_a_temperature_of_its_own() -> None:
    sines = {str(angle): math.sin(math.radians(angle)) for angle in range(0, 360, 3)}
    d = SoftDict(sines, encoder=Around())
    before = d.describe()
    d.reencode("random")
    after, fresh = d.describe(), SoftDict(sines, encoder="random").describe()

    assert before.temperature_source == "fitted"
    assert after.temperature_source == fresh.temperature_source
    assert after.temperature_in_use == fresh.temperature_in_use

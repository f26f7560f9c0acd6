"""Confidence: the probability that an answer is held, from the scores alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from index import SoftDict, open_encoder
from index.confidence import confidence

CALIBRATION = {"intercept": -6.0, "top": 12.0, "log_keys": -0.5}


def test_it_is_the_logistic_regression_of_the_card():
    made = confidence(0.7, 3, CALIBRATION)

    logit = -6.0 + 12.0 * 0.7 - 0.5 * math.log(3)
    assert made == pytest.approx(1 / (1 + math.exp(-logit)), rel=1e-6)


@pytest.mark.parametrize("keys", [4096, 4097, 100_000, 1_000_000])
def test_beyond_the_keys_it_was_fitted_on_it_is_that_of_the_greatest_number(keys):
    fitted = {**CALIBRATION, "most_keys": 4096}
    logit = -6.0 + 12.0 * 0.7 - 0.5 * math.log(4096)

    assert confidence(0.7, keys, fitted) == pytest.approx(1 / (1 + math.exp(-logit)), rel=1e-6)
    assert confidence(0.7, 4095, fitted) == confidence(0.7, 4095, CALIBRATION)


@pytest.mark.parametrize(("keys", "beyond"), [(4096, 0.0), (16_384, 4.0), (65_536, 16.0)])
def test_from_many_keys_on_the_line_has_another_slope(keys, beyond):
    fitted = {**CALIBRATION, "log_many_keys": -0.2, "many_keys": 4096, "most_keys": 65_536}
    logit = -6.0 + 12.0 * 0.7 - 0.5 * math.log(4096) - (0.2 * math.log(beyond) if beyond else 0)

    assert confidence(0.7, keys, fitted) == pytest.approx(1 / (1 + math.exp(-logit)), rel=1e-6)
    assert confidence(0.7, 4095, fitted) == confidence(0.7, 4095, CALIBRATION)
    assert confidence(0.7, 10**6, fitted) == confidence(0.7, 65_536, fitted)


def test_a_question_that_is_a_key_is_held_more_likely_than_not_among_any_number():
    shipped = open_encoder("builtin").calibration

    for keys in (1, 4096, 100_000, 100_000_000):
        assert confidence(1.0, keys, shipped) > 0.9


def test_without_a_key_nothing_is_held_and_without_a_calibration_nothing_is_said():
    assert confidence(-math.inf, 0, CALIBRATION) == 0.0
    assert confidence(1.0, 3, None) is None


@pytest.mark.parametrize(("logit", "probability"), [(-1e4, 0.0), (0.0, 0.5), (1e4, 1.0)])
def test_extreme_scores_stay_probabilities(logit, probability):
    made = confidence(1.0, 1, {"intercept": logit})  # what a calibration leaves out counts nothing

    assert made == pytest.approx(probability)


def test_an_answer_carries_it_and_an_exact_one_is_sure():
    d = SoftDict({"méxico": 7, "alemania": 10, "perro": 5})

    held = d.search("country").confidence
    absent = d.search("the square root of minus one").confidence

    assert 0.5 < held <= 1.0
    assert 0.0 <= absent < 0.2
    assert d.search("méxico").confidence == 1.0
    assert d.search("méxico", as_of=0).confidence == 0.0
    assert d.search("méxico", where="value > 7").confidence < 1.0
    assert d.search("méxico", mode="exact").confidence == 1.0
    assert d.search("country", mode="exact").confidence == 0.0
    assert d.search("country", as_of=0).confidence == 0.0


@pytest.mark.parametrize(
    "query", ["🚗", "자동차", "汽车", "รถยนต์", "☎️", "🚗 🚗 🚗 🚗 🚗 🚗", "汽车 汽车 汽车 汽车"]
)
@pytest.mark.parametrize("more", [{}, {"🍎": 3, "🍎 🍐": 4}])
def test_of_a_question_that_the_encoder_cannot_read_nothing_is_held(query, more):
    """It has the vector of every other such text: an apple would answer to a car, for sure."""
    d = SoftDict({"perro": 1, "casa": 2, **more})

    assert d.search(query).confidence == 0.0
    assert all(d.search(key).confidence == 1.0 for key in more)


@pytest.mark.parametrize(
    "query",
    [
        "\ufeff",
        "\u200d",
        "\u200b\u200e",
        "\x07",
        "\x00 \x1b",
        "\u0301",
        "\ufe0f \u20e3",
        "\ufffd\ue000",
    ],
)
@pytest.mark.parametrize("more", [{}, {"\u2060": 3}])
def test_of_a_question_of_nothing_but_marks_that_are_not_seen_nothing_is_held(query, more):
    d = SoftDict({"perro": 1, "casa": 2, **more})

    assert d.search(query).confidence == 0.0
    assert all(d.search(key).confidence == 1.0 for key in more)


class Calibrated:
    """Has one direction for all texts, and says of some which pieces it reads them in."""

    identity, dimension, default_temperature, calibration = "one", 2, 0.1, CALIBRATION

    def __init__(self, pieces: dict[str, list[str]]) -> None:
        self.pieces = pieces

    def encode(self, texts: list[str], *, kind: str = "passage") -> np.ndarray:
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))

    def tokens(self, text: str) -> list[str]:
        return self.pieces.get(text, [])


@pytest.mark.parametrize(
    ("pieces", "is_read"),
    [
        ({}, True),  # it never says
        ({"a": ["a"]}, False),
        ({"a": ["a"], "рыба": ["ры", "##ба"]}, True),
        ({"a": ["a"], "рыба": ["[UNK]", "##ба"]}, True),
        ({"a": ["a"], "рыба": ["[UNK]", "[UNK]"]}, False),
        ({"рыба": ["<unk>"]}, False),
    ],
)
def test_an_encoder_of_ones_own_reads_a_question_as_its_pieces_say_or_may_never_say(
    pieces, is_read
):
    d = SoftDict({"perro": 1, "casa": 2}, encoder=Calibrated(pieces))
    logit = -6.0 + 12.0 * 1.0 - 0.5 * math.log(2)

    said = 1 / (1 + math.exp(-logit)) if is_read else 0.0
    assert d.search("рыба").confidence == pytest.approx(said, rel=1e-6)


@pytest.mark.parametrize("query", ["perros", "PERRO", "🐕 perro", "7", "ñ", "рыба"])
def test_of_what_the_encoder_reads_a_part_of_its_score_tells(query):
    d = SoftDict({"perro": 1, "casa": 2, "🍎": 3})
    answer = d.search(query)
    calibration = open_encoder("builtin").calibration

    said = confidence(answer.matches[0].score, 3, calibration)
    assert answer.confidence == pytest.approx(said, rel=1e-6) and said > 0.05

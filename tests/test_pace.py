"""The rate and the time left of a load, against sums by hand."""

from __future__ import annotations

import pytest

from index.answers import Progress
from index.encoders import EncoderWorker
from index.encoders.teaching import RandomEncoder
from index.encoders.worker import BATCH, BATCH_CHARACTERS
from index.pace import Pace
from service.printed import duration, progress_line


class Told:
    """What a pace reports, by a clock that the test winds on."""

    def __init__(self, total: int) -> None:
        self.now = 100.0
        self.last = Progress("encoding", 0, None)
        self.pace = Pace(self._take, total, clock=lambda: self.now)

    def _take(self, progress: Progress) -> None:
        self.last = progress

    def work(self, texts: int, seconds: float) -> Progress:
        for _ in range(texts // 10):
            self.now += seconds * 10 / texts
            self.pace.encoded(10)
        return self.last


def test_the_rate_is_unknown_for_a_second_and_then_texts_over_time() -> None:
    told = Told(1000)
    told.pace.begin(1000)

    assert told.work(100, 0.5) == Progress("encoding", 100, 1000, None, None)
    later = told.work(100, 1.5)
    assert (later.done, later.rate) == (200, pytest.approx(100))
    assert later.seconds_left == pytest.approx(800 / 100)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    told = Told(100_000)
    told.pace.begin(100_000)
    told.work(10_000, 100)
    slower = told.work(1000, 40)

    assert slower.rate == pytest.approx(25, rel=0.05)
    assert slower.seconds_left == pytest.approx(89_000 / 25, rel=0.05)


def test_rows_to_come_are_taken_to_be_like_those_of_the_block() -> None:
    told = Told(3000)
    told.pace.skip(400)  # 100 of the first 500 have to be encoded: a fifth
    told.pace.begin(100)

    last = told.work(50, 5)
    assert (last.done, last.rate) == (450, pytest.approx(10))
    assert last.seconds_left == pytest.approx((50 + 2500 / 5) / 10)


def test_a_load_that_goes_on_begins_with_what_is_done() -> None:
    told = Told(1000)
    told.pace.skip(600)
    told.pace.begin(0)

    assert told.last == Progress("encoding", 600, 1000, None, None)


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress("reading", 1234, None), "reading 1,234"),
        (
            Progress("encoding", 123_456, 1_000_000, 2410.4, 355.0),
            "encoding 123,456 of 1,000,000 · 2,410/s · 6 min left",
        ),
        (Progress("encoding", 9, 10, 0.25, 4.0), "encoding 9 of 10 · 0.2/s · 4 s left"),
        (Progress("encoding", 1, 9, 12.0, 9000.0), "encoding 1 of 9 · 12/s · 2 h 30 min left"),
        (Progress("encoding", 9, 9, 12.0, 0.0), "encoding 9 of 9 · 12/s"),
        (Progress("encoding", 1, 9, 10.0), "encoding 1 of 9 · 10/s"),
    ],
)
def test_the_command_line_says_it_in_a_line(progress: Progress, line: str) -> None:
    assert progress_line(progress) == line


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (59, "59 s"), (60, "1 min"), (61, "2 min"), (5340, "89 min"),
     (5341, "1 h 30 min"), (10_800, "3 h 0 min")],
)  # fmt: skip
def test_a_time_is_rounded_up_in_the_unit_that_fits_it(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_batches_are_of_like_lengths_small_and_in_a_mixed_order() -> None:
    texts = ["x" * (1 + number * 7 % 900) for number in range(3000)]
    worker = EncoderWorker(RandomEncoder())

    batches = [[len(texts[place]) for place in places] for places, _ in worker.batches(texts)]

    assert sorted(n for batch in batches for n in batch) == sorted(map(len, texts))
    assert all(len(b) <= BATCH and len(b) * max(b) <= BATCH_CHARACTERS for b in batches)
    assert sum(len(b) * max(b) for b in batches) < 1.02 * sum(map(len, texts))
    half = len(batches) // 2
    first, second = (sum(map(sum, part)) / half for part in (batches[:half], batches[half:]))
    assert first == pytest.approx(second, rel=0.15)

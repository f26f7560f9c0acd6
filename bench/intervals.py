"""Do nine in ten values that a dataset lacks lie in the interval that it gives for them?

    python -m bench.intervals [TABLE ...] [--keys 60 600 6000] [--held 1000] [--rounds 10]

Of each TABLE (a file as softdict loads it; by default the colours that ship, by their red, green
and blue) rows are held out by chance, a third at most, and asked for in datasets of some of the
others, at the temperature that is fitted to them; each round holds out others. Of each number
column, the mean over the rounds, and the least and the greatest:

weight      held-out values within ``interval``, the middle nine tenths of the weight
prediction  those within ``prediction_interval``
few, many   the same of the third of the questions with the fewest and the most effective keys
ridge       those within a ridge regression on the same vectors, give or take what holds nine in
            ten of its own residuals, each left out; its penalty is the best for these
width       the median, over that of the middle nine tenths of the values of the dataset
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench._common import markdown
from index import SoftDict
from index.encoders import open_encoder
from index.values import LEVEL

Numbers = NDArray[np.float64]
COLOURS = Path(__file__).resolve().parents[1] / "data/colores.csv"
PENALTIES = np.geomspace(0.01, 100, 13)


def colours() -> tuple[list[str], dict[str, Numbers]]:
    with COLOURS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    channels = np.array([json.loads(row["rgb"]) for row in rows], float)
    return [row["key"] for row in rows], dict(
        zip(("red", "green", "blue"), channels.T, strict=True)
    )


def read(path: Path) -> tuple[list[str], dict[str, Numbers]]:
    """Give the keys and the number columns of a table's rows that lack none of these."""
    d = SoftDict(encoder="random")
    d.load(path)
    names = [column.name for column in d.columns if column.type == "number"]
    rows = [row for row in d.entries() if None not in (row.values[name] for name in names)]
    values = {name: np.array([row.values[name] for row in rows], float) for name in names}
    return [row.key for row in rows], values


def ridge(rows: Numbers, values: Numbers, asked: Numbers) -> tuple[Numbers, float]:
    """Foretell the values of the rows asked for; with it, what holds nine in ten residuals."""
    centre, mean = rows.mean(axis=0), values.mean()
    left, sizes, right = np.linalg.svd(rows - centre, full_matrices=False)
    told = left.T @ (values - mean)
    tried = []
    for penalty in PENALTIES:
        kept = sizes**2 / (sizes**2 + penalty)
        leverage = 1 / len(rows) + (left**2) @ kept
        away = np.abs((values - mean - left @ (kept * told)) / (1 - leverage))
        tried.append((float((away**2).mean()), penalty, away))
    _, penalty, away = min(tried, key=lambda each: each[0])
    slopes = right.T @ (sizes / (sizes**2 + penalty) * told)
    return mean + (asked - centre) @ slopes, float(np.quantile(away, LEVEL))


def within(ends: Numbers, truth: Numbers) -> NDArray[np.bool_]:
    return (ends[:, 0] <= truth) & (truth <= ends[:, 1])


def measured(
    keys: Sequence[str], values: dict[str, Numbers], asked: Sequence[str], truth: dict[str, Numbers]
) -> tuple[float, list[list[float]]]:
    """Make a dataset, and give its τ and the figures of each of its columns."""
    table = zip(keys, *values.values(), strict=True)
    d = SoftDict({key: dict(zip(values, map(float, row), strict=True)) for key, *row in table})
    answers = d.search_many(asked)
    encoder = open_encoder("builtin")
    rows, queries = (encoder.encode(texts).astype(float) for texts in (keys, asked))
    effective = np.argsort(np.argsort([answer.effective_keys for answer in answers]))
    few, many = effective < len(asked) // 3, effective >= len(asked) - len(asked) // 3
    made = []
    for name, column in values.items():
        blends = [answer.blend[name] for answer in answers]
        low, high = np.quantile(column, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        middle, away = ridge(rows, column, queries)
        figures = []
        for ends in (
            np.array([blend.interval for blend in blends]),
            np.array([blend.prediction_interval for blend in blends]),
            np.column_stack([middle - away, middle + away]),
        ):
            held = (ends[:, 0] <= truth[name]) & (truth[name] <= ends[:, 1])
            width = np.median(np.diff(ends)) / (high - low)
            figures += [held.mean(), held[few].mean(), held[many].mean(), width]
        made.append(list(map(float, figures)))
    return answers[0].temperature, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--keys", nargs="+", type=int, default=[60, 600, 6000])
    parser.add_argument("--held", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    kinds = ("weight", "prediction", "ridge")
    parts = [f"{kind}{part}" for kind in kinds for part in ("", ": few, many", ": width")]
    print(markdown(["table", "keys", "column", "τ", *parts]))
    for path in given.tables or [COLOURS]:
        keys, values = read(path) if given.tables else colours()
        held = min(given.held, len(keys) // 3)
        for size in (size for size in given.keys if size <= len(keys) - held):
            found, taus = [], []
            for number in range(given.rounds):
                order = np.random.default_rng(number).permutation(len(keys))
                asked, some = order[:held], order[held : held + size]
                tau, figures = measured(
                    [keys[row] for row in some],
                    {name: column[some] for name, column in values.items()},
                    [keys[row] for row in asked],
                    {name: column[asked] for name, column in values.items()},
                )
                taus.append(tau)
                found.append(figures)
            for name, of_rounds in zip(values, np.array(found).transpose(1, 2, 0), strict=True):
                cells = [path.stem, f"{size:,}", name, f"{np.mean(taus):.3f}"]
                for held_in, few, many, width in of_rounds.reshape(len(kinds), 4, -1):
                    least, mean, most = (of(held_in) for of in (np.min, np.mean, np.max))
                    cells += [f"{mean:.1%} ({least:.0%}-{most:.0%})"]
                    cells += [f"{few.mean():.0%}, {many.mean():.0%}", f"{width.mean():.2f}"]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""Do the figures that an answer gives with a value hold for values that the dataset lacks?

    python -m bench.held_out [TABLE ...] [--keys 60 600 6000] [--held 1000] [--rounds 10]
                             [--temperature auto] [--wrong 0]

Of each TABLE (a file as softdict loads it; by default the colours that ship, by their red, green
and blue) rows are held out by chance, a third at most, and asked for in datasets of some of the
others, at the temperature that is fitted to them, or at a given one; each round holds out others.
Means over the rounds, in brackets the least and the greatest. Of each number column:

weight      held-out values within ``interval``, the middle nine tenths of the weight
prediction  those within ``prediction_interval``
few, many   the same of the third of the questions with the fewest and the most effective keys
ridge       those within a ridge regression on the same vectors, give or take what holds nine in
            ten of its own residuals, each left out; its penalty is the best for these
width       the median, over that of the middle nine tenths of the values of the dataset

Of each column of labels:

right       held-out labels that are the likeliest of the answer
stated      the ``probability`` of that label, in the mean
off         the expected calibration error: how far, in the mean over ten bins of what is stated,
            the share that is right is from what is stated
softmax, votes  the same of what a search for the ten nearest would claim: the label's share of a
            softmax over the ten at the same temperature, or of their number

With ``--wrong`` that share of all rows, held out or not, has the labels of one another.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench._common import markdown
from index import LoadOptions, SoftDict
from index.answers import Answer, Column, NumberBlend, Value
from index.encoders import open_encoder
from index.values import LEVEL

Numbers = NDArray[np.float64]
Row = tuple[str, Mapping[str, Value]]
COLOURS = Path(__file__).resolve().parents[1] / "data/colores.csv"
PENALTIES = np.geomspace(0.01, 100, 13)


def colours() -> tuple[Sequence[Column], list[Row]]:
    with COLOURS.open(encoding="utf-8", newline="") as stream:
        rows = [(row["key"], json.loads(row["rgb"])) for row in csv.DictReader(stream)]
    names = ("red", "green", "blue")
    return [Column(name, "number") for name in names], [
        (key, dict(zip(names, rgb, strict=True))) for key, rgb in rows
    ]


def read(path: Path) -> tuple[Sequence[Column], list[Row]]:
    """Give a table's columns of numbers and labels, and the rows that lack none of these."""
    d = SoftDict(encoder="random")
    d.load(path, LoadOptions(duplicates="first"))
    columns = [column for column in d.columns if column.type in ("number", "category")]
    names = {column.name for column in columns}
    rows = [(row.key, {name: row.values[name] for name in names}) for row in d.entries()]
    return columns, [(key, values) for key, values in rows if None not in values.values()]


def with_wrong_labels(
    columns: Sequence[Column], table: Sequence[Row], share: float
) -> Sequence[Row]:
    """Exchange the labels of a share of the rows, drawn by chance, among themselves."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(table), round(share * len(table)), replace=False)
    names = [column.name for column in columns if column.type == "category"]
    made = list(table)
    for row, other in zip(drawn, rng.permutation(drawn), strict=True):
        key, values = table[row]
        made[row] = key, {**values, **{name: table[other][1][name] for name in names}}
    return made


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


@dataclass(frozen=True)
class Round:
    """Rows of a dataset, those that were held out, and what it answered when asked for these."""

    rows: Sequence[Row]
    asked: Sequence[Row]
    answers: Sequence[Answer]

    @cached_property
    def vectors(self) -> tuple[Numbers, Numbers]:
        encoder = open_encoder("builtin")
        return (
            encoder.encode([key for key, _ in self.rows]).astype(float),
            encoder.encode([key for key, _ in self.asked]).astype(float),
        )


def of_numbers(name: str, held_out: Round) -> list[float]:
    """Give the share within, that of few and of many effective keys, and the width, by kind."""
    asked, answers = held_out.asked, held_out.answers
    values, truth = (np.array([row[name] for _, row in of], float) for of in (held_out.rows, asked))
    of_rows, of_asked = held_out.vectors
    middle, away = ridge(of_rows, values, of_asked)
    blends = [answer.blend[name] for answer in answers]
    effective = np.argsort(np.argsort([answer.effective_keys for answer in answers]))
    third = len(asked) // 3
    low, high = np.quantile(values, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    figures: list[float] = []
    for ends in (
        np.array([b.interval for b in blends if isinstance(b, NumberBlend)]),
        np.array([b.prediction_interval for b in blends if isinstance(b, NumberBlend)]),
        np.column_stack([middle - away, middle + away]),
    ):
        held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        few, many = held[effective < third].mean(), held[effective >= len(asked) - third].mean()
        figures += [held.mean(), few, many, float(np.median(np.diff(ends))) / (high - low)]
    return figures


def of_labels(name: str, held_out: Round) -> list[float]:
    """Give the share that is right, what is stated and how far that is off, by kind."""
    stated: list[list[tuple[Value, float]]] = [[], [], []]
    for answer in held_out.answers:
        found: tuple[dict[Value, float], ...] = ({}, {})
        for match in answer.matches:
            label = match.values[name]
            for shares, share in zip(found, (match.weight, 1.0), strict=True):
                shares[label] = shares.get(label, 0.0) + share
        blend = answer.blend[name]
        assert blend is not None and blend.type == "category"
        stated[0].append((blend.value, blend.probability))
        for shares, kind in zip(found, stated[1:], strict=True):
            best = max(shares, key=lambda label: shares[label])
            kind.append((best, shares[best] / sum(shares.values())))
    figures: list[float] = []
    for kind in stated:
        right = np.array(
            [label == row[name] for (label, _), (_, row) in zip(kind, held_out.asked, strict=True)]
        )
        claimed = np.array([share for _, share in kind])
        bins = np.minimum((10 * claimed).astype(int), 9)
        off = np.abs(np.bincount(bins, weights=right - claimed)).sum() / len(kind)
        figures += [float(right.mean()), float(claimed.mean()), float(off)]
    return figures


def measure(
    columns: Sequence[Column],
    table: Sequence[Row],
    *,
    held: int,
    size: int,
    rounds: int,
    temperature: str,
) -> tuple[float, dict[str, Numbers]]:
    """Give the mean τ, and by column its figures in each round, by kind: (3, figures, rounds)."""
    found: dict[str, list[list[float]]] = {column.name: [] for column in columns}
    taus = []
    for number in range(rounds):
        order = np.random.default_rng(number).permutation(len(table))
        asked = [table[row] for row in order[:held]]
        rows = [table[row] for row in order[held : held + size]]
        d = SoftDict(rows, columns=columns, temperature=temperature)
        answers = d.search_many([key for key, _ in asked])
        held_out = Round(rows, asked, answers)
        taus.append(np.mean([answer.temperature for answer in answers]))
        for column in columns:
            of = of_numbers if column.type == "number" else of_labels
            found[column.name].append(of(column.name, held_out))
    return float(np.mean(taus)), {
        name: np.array(figures).T.reshape(3, -1, rounds) for name, figures in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--keys", nargs="+", type=int, default=[60, 600, 6000])
    parser.add_argument("--held", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--temperature", default="auto")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of rows of wrong labels")
    given = parser.parse_args()
    numbers, labels = [], []
    for path in given.tables or [COLOURS]:
        columns, read_rows = read(path) if given.tables else colours()
        table = with_wrong_labels(columns, read_rows, given.wrong)
        held = min(given.held, len(table) // 3)
        for size in (size for size in given.keys if size <= len(table) - held):
            tau, found = measure(
                columns,
                table,
                held=held,
                size=size,
                rounds=given.rounds,
                temperature=given.temperature,
            )
            for column in columns:
                cells = [path.stem, f"{size:,}", column.name, f"{tau:.3f}"]
                for share, *others in found[column.name]:
                    cells.append(f"{share.mean():.1%} ({share.min():.0%}-{share.max():.0%})")
                    if column.type == "number":
                        few, many, width = np.mean(others, axis=1)
                        cells += [f"{few:.0%}, {many:.0%}", f"{width:.2f}"]
                    else:
                        cells += [f"{figure:.1%}" for figure in np.mean(others, axis=1)]
                (numbers if column.type == "number" else labels).append(cells)
    heads = ["table", "keys", "column", "τ"]
    kinds = ("weight", "prediction", "ridge")
    parts = [f"{kind}{part}" for kind in kinds for part in ("", ": few, many", ": width")]
    if numbers:
        print(markdown([*heads, *parts], numbers))
    kinds = ("attention", "softmax of ten", "votes of ten")
    parts = [f"{kind}: {part}" for kind in kinds for part in ("right", "stated", "off")]
    if labels:
        print(markdown([*heads, *parts], labels))


if __name__ == "__main__":
    main()

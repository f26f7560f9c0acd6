"""The datasets that ship hold what their page says, and load as the types they claim."""

from __future__ import annotations

import csv
import json
from dataclasses import fields
from pathlib import Path

import pytest

from index.answers import Column
from index.loading import LoadOptions, read_table

DATA = Path(__file__).parents[1] / "data"
BUNDLED = json.loads((DATA / "datasets.json").read_text("utf-8"))


def rows(name: str) -> dict[str, str]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        table = csv.reader(file)
        next(table)
        return {key: value for key, value in table}


def test_paises_blends_to_eight_under_the_weights_of_the_tutorial() -> None:
    values = {key: float(value) for key, value in rows("paises.csv").items()}
    by_hand = {"méxico": 0.30, "alemania": 0.30, "inglaterra": 0.30, "perro": 0.10}

    assert values == {"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}
    assert sum(by_hand[key] * value for key, value in values.items()) == pytest.approx(8.0)


def test_traduccion_holds_the_five_words() -> None:
    assert rows("traduccion.csv") == {
        "EL": "THE",
        "PERRO": "DOG",
        "TIENE": "HAS",
        "PELO": "HAIR",
        "SUELTO": "LOOSE",
    }


def test_colores_holds_the_survey() -> None:
    colours = {name: json.loads(rgb) for name, rgb in rows("colores.csv").items()}

    assert len(colours) == 949
    assert all(len(rgb) == 3 for rgb in colours.values())
    assert all(isinstance(part, int) and 0 <= part <= 255 for c in colours.values() for part in c)


@pytest.mark.parametrize(
    ("name", "code"),  # from the survey's published list
    [
        ("cloudy blue", "acc2d9"),
        ("robin's egg", "6dedfd"),
        ("yellow/green", "c8fd3d"),
        ("sea blue", "047495"),
        ("pink", "ff81c0"),
        ("blue", "0343df"),
        ("green", "15b01a"),
        ("purple", "7e1e9c"),
    ],
)
def test_a_colour_is_the_survey_s(name: str, code: str) -> None:
    assert json.loads(rows("colores.csv")[name]) == list(bytes.fromhex(code))


def test_the_bundled_datasets_come_in_order_with_options_that_exist() -> None:
    options = {field.name for field in fields(LoadOptions)}

    assert [dataset["name"] for dataset in BUNDLED] == ["paises", "traduccion", "colores"]
    for dataset in BUNDLED:
        assert set(dataset) - {"name", "file", "encoder", "temperature"} <= options


@pytest.mark.parametrize(
    ("name", "column", "first"),
    [
        ("paises", Column("valor", "number"), ("méxico", (7,))),
        ("traduccion", Column("valor", "text"), ("EL", ("THE",))),
        ("colores", Column("rgb", "vector", 3), ("cloudy blue", ((172, 194, 217),))),
    ],
)
def test_a_bundled_file_loads_as_its_type(
    name: str, column: Column, first: tuple[str, tuple[object, ...]]
) -> None:
    (dataset,) = (dataset for dataset in BUNDLED if dataset["name"] == name)
    options = LoadOptions(**{k: v for k, v in dataset.items() if k not in ("name", "file")})

    with read_table(DATA / dataset["file"], options) as table:
        assert (table.key_column, table.columns) == ("key", (column,))
        assert table.entries == len(rows(dataset["file"]))
        assert next(iter(table)) == first


def test_every_file_has_its_origin_and_licence() -> None:
    lines = (DATA / "README.md").read_text("utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    described = {cells[0].strip("`"): cells[1:] for cells in table[2:]}

    assert set(described) == {dataset["file"] for dataset in BUNDLED} | {"encoder/"}
    assert all(len(cells) == 3 and all(cells) for cells in described.values())
    assert (DATA / "encoder" / "README.md").is_file()

"""Attributes: columns to filter by, kept and shown, never blended."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from index import Catalog, Column, LoadOptions, SoftDict
from index.errors import InvalidRequest
from index.loading import read_table

COLUMNS = [
    Column("price", "number"),
    Column("country", "category", attribute=True),
    Column("year", "number", attribute=True),
]
TABLE = "key,price,country,year\nwine,9,ES,2019\nbeer,2,DE,2024\ncava,7,ES,\n"


@pytest.fixture
def shop():
    d = SoftDict(columns=COLUMNS, encoder="random", temperature=0.1)
    d["wine"] = {"price": 9, "country": "ES", "year": 2019}
    d["beer"] = {"price": 2, "country": "DE", "year": 2024}
    d["cava"] = {"price": 7, "country": "ES"}
    return d


def test_an_attribute_is_filtered_by_and_shown_and_never_blended(shop):
    answer = shop.search("drink", where="country = ES and not year > 2019")

    assert {match.key for match in answer.matches} == {"wine", "cava"}
    assert list(answer.blend) == ["price"]
    assert answer.value == answer.blend["price"].mean
    wine = next(match for match in answer.matches if match.key == "wine")
    assert (wine.value, wine.values) == (9, {"price": 9})
    assert wine.attributes == {"country": "ES", "year": 2019}
    compared = shop.compare("wine", weights={"wine": 1})
    assert compared.exact.values == {"price": 9}
    assert list(compared.manual.blend) == ["price"]


def test_the_bare_value_is_without_attributes_and_the_entry_is_with_them(shop):
    assert dict(shop) == {"wine": 9, "beer": 2, "cava": 7}
    assert shop.entry("wine").values == {"price": 9, "country": "ES", "year": 2019}
    assert shop.describe().missing == {"price": 0, "country": 0, "year": 1}


def test_an_attribute_that_a_write_leaves_out_stays_and_a_value_does_not(shop):
    shop["wine"] += 1
    assert shop.entry("wine").values == {"price": 10, "country": "ES", "year": 2019}

    shop["wine"] = {"year": None}
    assert shop.entry("wine").values == {"price": None, "country": "ES", "year": None}

    shop.load(b"key,price\nbeer,3\nmead,4\n")
    assert shop.entry("beer").values == {"price": 3, "country": "DE", "year": 2024}
    assert shop.entry("mead").values == {"price": 4, "country": None, "year": None}


def test_columns_of_attributes_alone_answer_with_weights_and_no_blend():
    d = SoftDict(columns=[Column("tag", "category", attribute=True)], encoder="random")
    d.update({"a": {"tag": "x"}, "b": {"tag": "y"}})

    answer = d.search("a", where="tag = y")

    assert ([match.key for match in answer.matches], answer.blend) == (["b"], {})
    assert d["a"] is None


def test_an_attribute_has_no_say_in_the_temperature():
    rng = np.random.default_rng(0)
    rows = {f"key {i}": float(v) for i, v in enumerate(rng.normal(size=80))}
    columns = [Column("value", "number"), Column("group", "category", attribute=True)]
    with_it = SoftDict(columns=columns, encoder="random")
    with_it.update({k: {"value": v, "group": "ab"[v > 0]} for k, v in rows.items()})
    without = SoftDict(columns=columns[:1], encoder="random")
    without.update(rows)

    one, other = with_it.describe(), without.describe()

    assert one.temperature_source == other.temperature_source
    assert one.temperature_in_use == other.temperature_in_use


def test_attributes_outlive_the_process(tmp_path):
    with SoftDict.open(tmp_path, encoder="random") as d:
        options = LoadOptions(columns={"country": "category"}, attributes=("country", "year"))
        d.load(TABLE.encode(), options)
    with SoftDict.open(tmp_path) as d:
        assert d.columns == tuple(COLUMNS)
        assert [m.key for m in d.search("x", where="country = DE").matches] == ["beer"]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_an_export_holds_the_attributes_and_parquet_says_that_they_are_some(shop, format):
    content = b"".join(shop.export(format))
    other = SoftDict(encoder="random")

    declared = () if format == "parquet" else ("country", "year")
    other.load(content, LoadOptions(format=format, attributes=declared))

    assert [(c.name, c.attribute) for c in other.columns] == [
        ("price", False),
        ("country", True),
        ("year", True),
    ]
    kept = {entry.key: entry.values for entry in other.entries()}
    assert kept == {entry.key: entry.values for entry in shop.entries()}


def test_rows_for_a_dataset_take_its_attributes(shop):
    shop.load(b"key,price,country\nsake,8,JP\n")

    assert shop.columns == tuple(COLUMNS)
    assert [m.key for m in shop.search("x", where="country = JP").matches] == ["sake"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attributes": ("land", "kind")}, ["no column 'land'", "no column 'kind'"]),
        ({"attributes": ("key",), "key": "key"}, ["'key' holds the keys"]),
        ({"attributes": ("price",), "columns": {"price": "skip"}}, ["'price' is to be skipped"]),
    ],
)
def test_what_cannot_be_an_attribute_is_refused(options, words):
    with pytest.raises(InvalidRequest) as refused:
        read_table(TABLE.encode(), LoadOptions(**options))

    assert [fault.where for fault in refused.value.faults] == ["attributes"] * len(words)
    assert all(w in f.message for w, f in zip(words, refused.value.faults, strict=True))


def test_an_attribute_is_not_taken_for_the_keys():
    with read_table(b"land,word\nES,a\nDE,b\n", LoadOptions(attributes=("land",))) as table:
        assert (table.key_column, table.columns[0].name) == ("word", "land")


def test_a_value_column_of_a_dataset_cannot_become_an_attribute(shop):
    with pytest.raises(InvalidRequest, match="'price' is a value column of this dataset"):
        shop.load(TABLE.encode(), LoadOptions(attributes=("price",)))
    report = shop.load(TABLE.encode(), LoadOptions(attributes=("country",)))  # which it is
    assert [column.attribute for column in report.columns] == [False, True, True]


def test_a_column_of_a_dataset_that_is_an_attribute_is_reported_as_one() -> None:
    columns = (Column("price", "number"), Column("note", "text", attribute=True))
    d = SoftDict(columns=columns, encoder="random")

    report = d.load(b"key,price,note\na,1,7\n", LoadOptions(columns={"note": "number"}))

    assert [column.attribute for column in report.columns] == [False, True]


def test_an_attribute_that_was_empty_at_the_load_is_one_after_its_first_value(
    tmp_path: Path,
) -> None:
    with Catalog.open(tmp_path) as catalog:
        options = LoadOptions(attributes=("note",))
        catalog.load("d", b"key,price,note\na,1,\n", options, encoder="random")
        catalog["d"]["b"] = {"price": 2, "note": "x"}

        assert [column.attribute for column in catalog["d"].columns] == [False, True]
        assert list(catalog["d"].search("a").blend) == ["price"]

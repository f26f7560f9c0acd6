"""The mapping face: what is asked of a SoftDict and of a plain dict is answered alike."""

from __future__ import annotations

import gc
import json
import math
import sqlite3
import unicodedata
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from index import Answer, Catalog, Column, LoadOptions, Match, SoftDict
from index.answers import ColumnType
from index.errors import InvalidRequest, UnknownDataset, WrongValue
from index.store import Store

HELD = {"a": 1, "b": 2, "c": None}
Mapping = MutableMapping[str, Any]


@pytest.mark.parametrize(
    "ask",
    [
        lambda d: ("a", 1) in d.items(),
        lambda d: ("a", 2) in d.items(),
        lambda d: ("z", 1) in d.items(),
        lambda d: ["a", 1] in d.items(),
        lambda d: 5 in d.items(),
        lambda d: "a" in d.items(),
        lambda d: ("a", 1, 2) in d.items(),
        lambda d: d.items().isdisjoint({5}),
        lambda d: d.items() & {("a", 1), "b"},
        lambda d: {5} <= d.items(),
        lambda d: d.items() == {("a", 1), ("b", 2), ("c", None)},
        lambda d: (2 in d.values(), None in d.values(), 7 in d.values()),
        lambda d: (5 in d, "a" in d, None in d),
        lambda d: d.keys() - {"a"} | {"z"},
        lambda d: (d == HELD, d == {}, d == 5, dict(HELD) == d, d != HELD),
        lambda d: (d.get("a"), d.get("c", 5), d.get("z"), d.get("z", 5), d.get(5)),
        lambda d: (d.pop("a"), d.pop("z", 5), d.pop(5, None), dict(d)),
        lambda d: (d.setdefault("a", 5), d.setdefault("c", 5), d.setdefault("z", 5), dict(d)),
        lambda d: (d.update([("x", 7)], a=8), d.update(), d.update(b=9, self=3), dict(d)),
        lambda d: (d.__ior__({"x": 7}) is d, d.__ior__([("a", 8)]) is d, dict(d)),
        lambda d: {**d} == dict(d.items()) == dict(zip(d.keys(), d.values(), strict=True)),
    ],
)
def test_it_answers_as_a_dict_does(ask: Callable[[Mapping], object]) -> None:
    assert ask(SoftDict(HELD, encoder="random:1")) == ask(dict(HELD))


def test_a_key_is_found_with_its_accents_apart_and_together() -> None:
    apart, together = unicodedata.normalize("NFD", "café"), "café"
    # This encoder draws a vector for each text, whatever it may mean.
    drawn = SoftDict({together: 1, "mesa": 2}, encoder="random", temperature=0.05)
    assert drawn.search(apart).matches[0].score == pytest.approx(1)
    assert apart != together
    d = SoftDict({apart: "salón", "té": "cocina"}, encoder="random:1")

    assert list(d) == [together, "té"]
    assert d[apart] == d[together] == "salón"
    d[apart] = "bazar"
    assert dict(d) == {together: "bazar", "té": "cocina"}
    d.update({together: "salón", apart: "patio"})
    assert d[together] == "patio" and len(d) == 2
    assert d.search(apart, mode="exact").value == "patio"
    assert apart in d and d.pop(apart) == "patio" and together not in d


def test_a_column_is_found_with_its_accents_apart_and_together(tmp_path: Path) -> None:
    apart, together = unicodedata.normalize("NFD", "año"), "año"
    assert apart != together
    with Catalog.open(tmp_path) as catalog:
        given = [Column(apart, "number"), Column("n", "number")]
        d = catalog.create("d", columns=given, encoder="random:1")
        d.update({"a": {apart: 5}, "b": {together: 7}})
        d.load(json.dumps([{"key": "c", apart: 9}]).encode())

        assert [column.name for column in d.columns] == [together, "n"]
        assert [value[together] for value in d.values()] == [5, 7, 9]
        for name in (apart, together):
            for where in (f"{name} > 5", {name: {"gt": 5}}, f"{name} in (7, 9)"):
                assert {m.key for m in d.search("a", where=where).matches} == {"b", "c"}
            assert d.search("a", where=f"{name} is missing").keys == 0
    assert SoftDict({"a": {apart: 5}}, encoder="random:1").columns == (Column(together, "number"),)
    with pytest.raises(InvalidRequest, match="two columns are named 'año'"):
        SoftDict(columns=[Column(apart, "number"), Column(together, "number")])


def test_a_dictionary_in_memory_is_closed_with_whoever_had_it() -> None:
    """From Python 3.13 on, SQLite warns of a database that was left open."""
    d = SoftDict({"a": 1}, encoder="random:1")
    database = d._moments.store._connection
    assert database.execute("SELECT key FROM entries").fetchone()["key"] == "a"
    del d
    gc.collect()

    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        database.execute("SELECT key FROM entries")


def test_a_column_that_an_older_store_holds_with_its_accents_apart_is_found() -> None:
    apart = unicodedata.normalize("NFD", "año")
    store = Store(None)
    made = Catalog(store).create("d", columns=[Column("año", "number")], encoder="random:1")
    made["a"] = 5
    store.set_columns(made.id, [Column(apart, "number")])

    d = SoftDict.stored(store, store.record(made.id))

    assert d.columns == (Column("año", "number"),)
    assert d.search("a", where={apart: 5}).matches[0].value == 5


@pytest.mark.parametrize("type", ["category", "text"])
def test_a_condition_on_a_label_holds_with_its_accents_apart_and_together(type: ColumnType) -> None:
    apart, together = unicodedata.normalize("NFD", "salón"), "salón"
    columns = [Column("sitio", type)]
    d = SoftDict({"a": apart, "b": together, "c": "patio"}, encoder="random:1", columns=columns)

    assert dict(d) == {"a": together, "b": together, "c": "patio"}
    for label in (apart, together):
        found = d.search("a", k=3, temperature=1, where={"sitio": label})
        assert {match.key for match in found.matches} == {"a", "b"}
        assert [label for label, _ in found.blend["sitio"].distribution] == [together]


@pytest.mark.parametrize(
    "ask",
    [
        lambda d: d["z"],
        lambda d: d.pop("z"),
        lambda d: d.__delitem__("z"),
        lambda d: (d.clear(), d.popitem()),
    ],
)
def test_it_refuses_with_a_key_error_what_a_dict_does(ask: Callable[[Mapping], object]) -> None:
    for d in (SoftDict(HELD, encoder="random:1"), dict(HELD)):
        with pytest.raises(KeyError):
            ask(d)


def test_a_type_checker_takes_a_value_for_what_its_user_knows_it_to_be() -> None:
    """Of a union it would refuse ``round(answer.value, 2)`` and ``prices["méxico"] + 1``."""
    value: property = vars(Answer)["value"]

    for reading in (SoftDict.__getitem__, SoftDict.get, SoftDict.pop, value.fget):
        assert get_type_hints(reading)["return"] is Any
    assert get_type_hints(Match)["value"] is Any


def test_a_default_is_given_back_as_it_is_held() -> None:
    d = SoftDict({"x": {"p": 1, "q": "t"}}, encoder="random:1")
    given = {"p": 2}

    assert d.setdefault("k", given) == d["k"] == {"p": 2, "q": None}
    assert SoftDict(encoder="random:1").setdefault("k", True) == "true"
    assert SoftDict({"x": [0, 0]}, encoder="random:1").setdefault("k", [1, 2]) == (1, 2)


MANY = {f"k{n}": 1.0 for n in range(300)}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "key 'odd', column 'value': nan is not a finite number"),
        ("x", "key 'odd', column 'value': 'x' is text, not a number"),
        ({"pp": 1}, "values.pp: key 'odd': no such column; there are: value"),
    ],
)
def test_what_is_wrong_with_one_of_many_keys_says_whose_it_is(value: Any, message: str) -> None:
    d = SoftDict(MANY, encoder="random:1")

    with pytest.raises((WrongValue, InvalidRequest)) as caught:
        d.update({"fine": 2, "odd": value})
    assert str(caught.value).startswith(message)
    assert dict(d) == MANY
    with pytest.raises((WrongValue, InvalidRequest)) as caught:
        d["odd"] = value
    assert "odd" not in str(caught.value)  # there is but one


def test_a_bare_value_among_some_by_column_is_the_fault_and_makes_no_column() -> None:
    with pytest.raises(InvalidRequest) as caught:
        SoftDict({"a": {"p": 1, "q": 2}, "b": 5}, encoder="random:1")

    assert [(fault.where, fault.message) for fault in caught.value.faults] == [
        ("values", "key 'b': write an object of column names and values; there are: p, q")
    ]
    d = SoftDict({"a": {"p": 1, "q": 2}, "b": None}, encoder="random:1")
    assert dict(d) == {"a": {"p": 1, "q": 2}, "b": {"p": None, "q": None}}


def test_all_that_is_wrong_with_an_entry_is_said_at_once() -> None:
    d = SoftDict({"a": {"p": 1, "q": 2, "t": "x"}}, encoder="random:1")

    said = {
        "p": ("values.p", "'dear' is text, not a number"),
        "q": ("values.q", "inf is not a finite number"),
        "s": ("values.s", "no such column; there are: p, q, t"),
    }
    given = {"p": "dear", "q": math.inf, "s": 1, "t": "y"}
    for wrong in ("pqs", "pq", "qs"):
        with pytest.raises(InvalidRequest) as caught:
            d["b"] = {name: given[name] for name in (*wrong, "t")}
        faults = [(fault.where, fault.message) for fault in caught.value.faults]
        assert faults == [said[name] for name in wrong]
    with pytest.raises(WrongValue) as one:
        d["b"] = {"p": "dear", "q": 2}
    assert (one.value.column, one.value.key) == ("p", None)


def test_a_dataset_that_is_not_there_is_a_key_error_too(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        d = catalog.create("d", encoder="random:1")

        assert ChainMap(catalog, {"e": 5})["e"] == 5  # type: ignore[arg-type]
        assert (catalog.get("d"), catalog.get("e"), catalog.get("e", 5)) == (d, None, 5)
        with pytest.raises(KeyError, match=r"^there is no dataset 'e'; there are: d$"):
            catalog["e"]
    with Catalog.open(tmp_path) as catalog:
        gone = catalog["d"]  # of which nothing was read yet
        catalog.delete("d")
        with pytest.raises(UnknownDataset):
            gone.get("a")  # nobody can say whether it has that key


def test_values_are_looked_through_as_they_were_when_others_delete_meanwhile() -> None:
    d = SoftDict({"a": 1, "b": 2, "c": 3}, encoder="random:1")

    class Deleting:
        def __eq__(self, other: object) -> bool:
            d.pop("b", None)
            return other == 3

        __hash__ = None  # type: ignore[assignment]

    assert Deleting() in d.values()
    assert dict(d) == {"a": 1, "c": 3}


def test_the_views_of_a_catalog_answer_as_those_of_a_dict(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        one, two = (catalog.create(name, encoder="random:1") for name in ("one", "two"))
        one["a"] = 1

        assert ("one", one) in catalog.items()
        assert ("one", two) not in catalog.items()
        assert ("other", one) not in catalog.items()
        assert 5 not in catalog.items()
        assert list(catalog.items()) == [("one", one), ("two", two)]
        seen = []
        for dataset in catalog.values():
            seen.append(dataset.name)
            catalog.delete(dataset.name)
        assert (seen, list(catalog)) == (["one", "two"], [])


@pytest.mark.parametrize(
    ("first", "later", "column"),
    [
        ({"a": None}, 7, Column("value", "number")),
        ({"a": None, "b": None}, [1.0, 2.0], Column("value", "vector", 2)),
        ({"a": {}}, "red", Column("value", "text")),
    ],
)
def test_the_first_real_value_says_what_a_column_holds(
    tmp_path: Path, first: dict[str, Any], later: Any, column: Column
) -> None:
    with SoftDict.open(tmp_path, encoder="random:1") as d:
        for key in first:
            d[key] = first[key]
        assert (d.columns, d["a"], d.search("a").value) == ((), None, None)
        d["z"] = later
        d["a"] = later
        d["a2"] = None

    held = tuple(later) if isinstance(later, list) else later
    with SoftDict.open(tmp_path) as d:
        assert d.columns == (column,)
        assert dict(d) == {**dict.fromkeys(first), "z": held, "a": held, "a2": None}
        assert d.describe().missing == {"value": len(first)}


@pytest.mark.parametrize(
    ("first", "later", "column"),
    [
        ({"price": None, "tag": "x"}, {"price": 5, "tag": "y"}, Column("price", "number")),
        ({"price": None, "tag": "x"}, {"price": [1.0, 2.0]}, Column("price", "vector", 2)),
        ({"price": None, "tag": "x"}, {"tag": "y", "price": "dear"}, Column("price", "text")),
        ({"price": None}, 5, Column("price", "number")),
    ],
)
def test_the_first_real_value_says_what_a_column_that_was_named_holds(
    tmp_path: Path, first: dict[str, Any], later: Any, column: Column
) -> None:
    given = later if isinstance(later, dict) else {"price": later}
    price = tuple(given["price"]) if isinstance(given["price"], list) else given["price"]
    with SoftDict.open(tmp_path, encoder="random:1") as d:
        d["a"] = first
        d["a2"] = first
        assert d.columns[0] == Column("price", "undecided")
        assert d.search("a").blend["price"] is None
    with SoftDict.open(tmp_path) as d:
        d["b"] = later
        d["a2"] = later
        after = dict(d.items())
    with SoftDict.open(tmp_path) as d:
        assert dict(d.items()) == after
        assert d.columns == (column, *(Column(name, "text") for name in list(first)[1:]))
        assert {key: entry["price"] if len(first) > 1 else entry for key, entry in d.items()} == {
            "a": None, "a2": price, "b": price,
        }  # fmt: skip
        assert d.describe().missing["price"] == 1
        assert d.search("b", where="price is not missing").keys == 2


def test_a_column_that_stays_without_a_value_is_one_of_any_type(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        d = catalog.create("d", encoder="random:1")
        d.load(b"key,price,tag\na,,x\nb,,x\n", LoadOptions(format="csv", attributes=("price",)))
        undecided = Column("price", "undecided", attribute=True)
        assert d.columns == (undecided, Column("tag", "category"))
        d["c"] = "y"
        assert d.columns[0] == undecided
        for where in ("price > 3", "price = 3", 'price in (3, "x")'):
            assert d.search("a", where=where).keys == 0
            assert d.search("a", where=f"not {where}").keys == 3
        assert b"".join(d.export("csv")).split() == [b"key,price,tag", b"a,,x", b"b,,x", b"c,,y"]
        for format in ("csv", "jsonl", "parquet"):
            again = b"".join(d.export(format))
            catalog.load("again", again, if_exists="replace", encoder="random:1")
            assert catalog["again"].columns[0].type == "undecided"
            assert dict(catalog["again"]).keys() == dict(d).keys()

        more = LoadOptions(format="csv")
        assert d.load(b"key,price\nb,2.5\nd,4\n", more, dry_run=True).columns[0].type == "number"
        d.load(b"key,price\nb,2.5\nd,4\n", more)

        assert d.columns[0] == Column("price", "number", attribute=True)
        assert d.search("a", where="price > 3").matches[0].key == "d"


def test_a_column_that_is_said_to_be_of_text_stays_so_whatever_comes_first() -> None:
    d = SoftDict(columns=[Column("code", "text"), Column("any", "undecided")], encoder="random:1")

    d["a"] = {"code": None, "any": None}
    d["b"] = {"code": 7, "any": 7}

    assert d["b"] == {"code": "7", "any": 7}


def test_a_table_of_keys_alone_takes_the_columns_of_the_first_values(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.load("d", b'["a", "b", "c"]', encoder="random:1")
        d = catalog["d"]
        assert (list(d), d.columns) == (["a", "b", "c"], ())
        d.load(b"key,price,aisle\nb,2.5,fresh\nd,4,dairy\n", LoadOptions(format="csv"))

        columns = (Column("price", "number"), Column("aisle", "text"))
        none = {"price": None, "aisle": None}
        expected = {"a": none, "b": {"price": 2.5, "aisle": "fresh"}, "c": none}
        assert (d.columns, dict(d)) == (
            columns,
            {**expected, "d": {"price": 4, "aisle": "dairy"}},
        )
        with Catalog.open(tmp_path, read_only=True) as reader:
            assert dict(reader["d"]) == dict(d)
        assert d.search("a", where="price > 3").keys == 1


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"product": "apple", "price": 1.2}], "a list of texts or of objects has no pairs"),
        (["ab", "cd"], "a list of texts or of objects has no pairs"),
        (["a"], "a list of texts or of objects has no pairs"),
        ([("a", 1), ("b",)], "has length 1; 2 is required"),
        ([1, 2], "sequence|iterable"),
        (5, "int holds no entries; write a mapping or pairs"),
        (None, "NoneType holds no entries"),
    ],
)
def test_what_holds_no_entries_is_refused_in_words(entries: Any, said: str) -> None:
    d = SoftDict({"a": 1}, encoder="random")

    for put in (lambda: SoftDict(entries, encoder="random"), lambda: d.update(entries)):
        with pytest.raises(InvalidRequest, match=said):
            put()
    assert dict(d) == {"a": 1}


def test_the_columns_of_a_data_frame_are_not_taken_for_keys() -> None:
    class Frame(dict[str, Any]):  # as pandas' is one, to dict()
        columns = ("price",)

        def to_dict(self) -> dict[str, Any]:
            return dict(self)

    with pytest.raises(
        InvalidRequest, match=r"load\(frame.to_parquet\(\)\), or take frame.to_dict"
    ):
        SoftDict(Frame(price=[1, 2]), encoder="random")

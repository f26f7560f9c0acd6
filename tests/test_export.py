"""Export: what is written reads back as the same entries, but for what the module says is lost."""

from __future__ import annotations

import codecs
import csv
import io
import json
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from index import Catalog, SoftDict
from index.answers import Column, Entry, Value
from index.errors import BadRows, InvalidRequest, UnreadableSource
from index.loading import LoadOptions, read_table, write_table
from index.loading.numerals import Style
from index.loading.units import usual_unit

COLUMNS = (
    Column("número", "number"),
    Column("vector", "vector", 2),
    Column("clase", "category"),
    Column("nota", "text"),
)
TYPES = {column.name: column.type for column in COLUMNS}

texts = st.text(st.characters(codec="utf-8"))
typed = texts.map(lambda text: unicodedata.normalize("NFC", text))  # as it is held
trimmed = typed.map(str.strip).filter(bool)
finite = st.floats(-1e150, 1e150)
entries = st.builds(
    Entry,
    key=typed.filter(lambda text: bool(text) and not text.isspace()),
    values=st.fixed_dictionaries(
        {
            "número": st.none() | finite | st.integers(-(2**53), 2**53),
            "vector": st.none() | st.tuples(finite, finite),
            "clase": st.none() | typed,
            "nota": st.none() | typed,
        }
    ),
    arrived=st.just(0.0),
)
tables = st.lists(entries, min_size=1, unique_by=lambda entry: entry.key)


def written(fmt: str, rows: Sequence[Entry], columns: Sequence[Column] = COLUMNS) -> bytes:
    return b"".join(write_table(fmt, "palabra", columns, rows))


def read(fmt: str, content: bytes, **columns: str) -> tuple[tuple[Column, ...], list[Entry]]:
    with read_table(content, LoadOptions(columns=columns), filename=f"x.{fmt}") as table:
        names = [column.name for column in table.columns]
        rows = [Entry(key, dict(zip(names, values, strict=True)), 0.0) for key, values in table]
        assert table.key_column == "palabra"
        return table.columns, rows


def left_by_csv(name: str, value: Value) -> Value:
    """A blank text and a missing one are the same empty cell; labels have no blanks around them."""
    if not isinstance(value, str) or not value.strip():
        return None if isinstance(value, str) else value
    return value.strip() if TYPES[name] == "category" else value


@given(tables)
def test_json_lines_read_back_the_same(rows: list[Entry]) -> None:
    columns, got = read("jsonl", written("jsonl", rows), **TYPES)

    assert got == rows
    assert [(c.name, c.type) for c in columns] == list(TYPES.items())


@given(tables)
def test_parquet_reads_back_the_same_with_its_types_by_itself(rows: list[Entry]) -> None:
    columns, got = read("parquet", written("parquet", rows))

    assert got == rows
    some = {name for row in rows for name, value in row.values.items() if value is not None}
    told = some | {"número", "clase", "nota"}  # of vectors, what is missing has no width
    assert {c for c in columns if c.name in told} == {c for c in COLUMNS if c.name in told}


@given(st.lists(entries, min_size=1, unique_by=lambda entry: entry.key.strip()))
def test_csv_reads_back_the_same_but_for_blanks(rows: list[Entry]) -> None:
    content = written("csv", rows)
    _, got = read("csv", content, **TYPES)

    expected = [
        Entry(row.key.strip(), {n: left_by_csv(n, v) for n, v in row.values.items()}, 0.0)
        for row in rows
    ]
    assert got == expected


@given(st.lists(entries, min_size=1, unique_by=lambda entry: entry.key.strip()))
def test_csv_with_decimal_commas_reads_back_the_same_but_for_blanks(rows: list[Entry]) -> None:
    content = b"".join(write_table("csv", "palabra", COLUMNS, rows, decimal="comma"))
    _, got = read("csv", content, **TYPES)

    expected = [
        Entry(row.key.strip(), {n: left_by_csv(n, v) for n, v in row.values.items()}, 0.0)
        for row in rows
    ]
    assert got == expected


PRICED = (Column("precio", "text"), Column("peso", "number"), Column("coste", "number", unit="€"))
spelled = st.one_of(
    st.from_regex(r"[1-9][0-9]{0,2}(\.[0-9]{3}){0,3}(,[0-9]{0,3})?( €)?", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{0,2}(,[0-9]{3}){0,3}(\.[0-9]{0,3})?( kg)?", fullmatch=True),
    st.sampled_from(["consultar", "600.123.456", "24.12", "9.30", "007"]),
)
weights = st.builds(
    lambda n, places: n / 10**places, st.integers(-40_000, 40_000), st.integers(0, 4)
)


@given(
    st.dictionaries(
        spelled,
        st.tuples(st.none() | spelled, st.none() | weights, st.none() | weights),
        min_size=1,
    ),
    st.sampled_from([("csv", "point"), ("csv", "comma"), ("jsonl", "point")]),
)
@example({"piña": ("2,95 €", 1.375, None), "té": ("consultar", 2.125, None)}, ("csv", "point"))
@example({"600.123.456": (None, 1.375, None)}, ("csv", "point"))
@example({"té": ("1,20 €", 7.25, None), "piña": ("2,95 €", 1.5, None)}, ("csv", "point"))
@example({"té": ("1.20", 1.375, None)}, ("csv", "comma"))
def test_numbers_read_back_the_same_beside_texts_that_look_like_other_numbers(
    table: dict[str, tuple[str | None, float | None, float | None]], form: tuple[str, Style]
) -> None:
    fmt, decimal = form
    names = [column.name for column in PRICED]
    rows = [Entry(k, dict(zip(names, values, strict=True)), 0.0) for k, values in table.items()]
    content = b"".join(write_table(fmt, "palabra", PRICED, rows, decimal=decimal))

    with read_table(
        content, LoadOptions(columns={"precio": "text"}), filename=f"x.{fmt}"
    ) as loaded:
        assert list(loaded) == list(table.items())
    with read_table(content, filename=f"x.{fmt}", expected=PRICED) as appended:
        assert list(appended) == list(table.items())


def test_csv_with_decimal_commas_is_what_spreadsheets_write() -> None:
    euros = [Column("precio", "number", unit="€"), Column("nota", "text")]
    rows = [
        Entry("pan; leche", {"precio": 1.459, "nota": "1.5"}, 0.0),
        Entry("té", {"precio": 1e-7, "nota": None}, 0.0),
        Entry("café", {"precio": 1234, "nota": None}, 0.0),
    ]

    content = b"".join(write_table("csv", "palabra", euros, rows, decimal="comma"))

    lines = ["palabra;precio;nota", '"pan; leche";1,4590 €;1.5', "té;1e-07 €;", "café;1234 €;"]
    assert content.decode("utf-8-sig").splitlines() == lines
    assert content.startswith(codecs.BOM_UTF8)
    for fmt in ("jsonl", "parquet"):
        with pytest.raises(InvalidRequest, match="decimal: write point, or comma for csv"):
            write_table(fmt, "palabra", euros, rows, decimal="comma")


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("unit", ["€", "kg", "€/l", "%"])
@pytest.mark.parametrize("number", [1.459, -935.809, 12.5, 1000, 0.125, 100.0])
def test_one_number_with_a_unit_reads_back_as_it_was(fmt: str, unit: str, number: float) -> None:
    columns = [Column("precio", "number", unit=unit)]

    content = b"".join(
        write_table(fmt, "palabra", columns, [Entry("pan", {"precio": number}, 0.0)])
    )

    read_columns, got = read(fmt, content)
    assert (read_columns[0].unit, got[0].values) == (unit, {"precio": number})


@given(tables)
def test_csv_is_what_the_csv_module_reads(rows: list[Entry]) -> None:
    content = written("csv", rows).decode()

    header, *cells = csv.reader(io.StringIO(content, newline=""), strict=True)

    assert header == ["palabra", *TYPES]
    assert [row[0] for row in cells] == [row.key for row in rows]
    assert [row[4] for row in cells] == [row.values["nota"] or "" for row in rows]
    assert [json.loads(row[2] or "null") for row in cells] == [
        list(row.values["vector"]) if row.values["vector"] else None  # type: ignore[arg-type]
        for row in rows
    ]


ROW = Entry("niño, el", {"número": 7, "vector": (1.0, 0.5), "clase": "=1+1", "nota": None}, 0.0)


def test_a_nul_that_csv_holds_stands_in_quotes() -> None:
    row = Entry("a\0b", {"número": 7, "vector": None, "clase": "c", "nota": "\0"}, 0.0)

    content = written("csv", [row])

    assert content == 'palabra,número,vector,clase,nota\r\n"a\0b","7","","c","\0"\r\n'.encode()
    assert read("csv", content, vector="skip")[1] == [
        Entry("a\0b", {"número": 7, "clase": "c", "nota": "\0"}, 0.0)
    ]


def test_csv_has_one_number_more_plainly_where_all_may_be_dates() -> None:
    rows = [Entry(key, {"número": n}, 0.0) for key, n in (("a", 7), ("b", 9.3), ("c", 24.12))]

    content = written("csv", rows, (Column("número", "number"),))

    assert content.decode().split() == ["palabra,número", "a,7", "b,9.3000", "c,24.12"]


def test_csv_looks_as_it_should() -> None:
    expected = 'palabra,número,vector,clase,nota\r\n"niño, el",7,"[1.0, 0.5]",=1+1,\r\n'

    assert written("csv", [ROW]).decode() == expected


@given(
    st.lists(st.none() | finite | st.integers(-(2**53), 2**53), min_size=1),
    st.sampled_from(["€", "R$", "S/", "%", "USD", "kr"]),
)
def test_the_unit_of_numbers_is_read_back(numbers: list[Value], unit: str) -> None:
    priced = (Column("precio", "number", unit=unit), Column("nota", "number"))
    rows = [Entry("silla", {"precio": 12.5, "nota": 7.0}, 0.0)]
    rows += [Entry(f"k{n}", {"precio": of, "nota": 1}, 0.0) for n, of in enumerate(numbers)]

    assert read("parquet", written("parquet", rows, priced)) == (priced, rows)
    for fmt in ("csv", "jsonl"):
        assert repr(read(fmt, written(fmt, rows, priced))) == repr((priced, rows))  # 5 is no 5.0


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.integers(-9, 9), min_size=1),
    st.sampled_from(["€", "R$", "‰", "zł", None]),
)
def test_a_dictionary_with_prices_comes_back_from_every_format(
    prices: dict[str, int | None], unit: str | None
) -> None:
    columns = (Column("precio", "number", unit=unit), Column("nota", "number"))
    d = SoftDict(columns=columns, encoder="random:1")
    d.update({key: {"precio": price, "nota": 1.5} for key, price in prices.items()})
    d["z"] = {"precio": 0.1, "nota": None}  # of gaps alone, no file but Parquet says what they are

    for fmt in ("csv", "jsonl", "parquet"):
        back = SoftDict(encoder="random:1")
        back.load(b"".join(d.export(fmt)), LoadOptions(format=fmt))
        assert (back.columns, dict(back)) == (d.columns, dict(d)), fmt


def test_the_unit_stands_beside_the_number_where_it_can_be_told_from_it() -> None:
    priced = (Column("precio", "number", unit="€"), Column("peso", "number", unit="arroba"))
    row = Entry("silla", {"precio": 12.5, "peso": 7}, 0.0)

    assert written("csv", [row], priced).decode() == "palabra,precio,peso\r\nsilla,12.5 €,7\r\n"
    assert written("jsonl", [row], priced).decode() == (
        '{"palabra": "silla", "precio": "12.5 €", "peso": 7}\n'
    )


def test_a_vector_that_no_row_has_keeps_its_width_in_parquet() -> None:
    columns = (Column("v", "vector", width=3), Column("n", "number"))
    rows = [Entry("a", {"v": None, "n": 1}, 0.0)]

    assert read("parquet", written("parquet", rows, columns)) == (columns, rows)


@pytest.mark.parametrize("note", ["units", "types", "attributes"])
def test_nonsense_for_a_note_in_parquet_counts_for_nothing(note: str) -> None:
    plain = (Column("precio", "number"), Column("nota", "number"))
    row = Entry("silla", {"precio": 12.5, "nota": 7.0}, 0.0)
    noted = pq.read_table(io.BytesIO(written("parquet", [row], plain)))
    strange = b'{"precio": 5, "nota": "", "otra": "x"}', b'[["precio"], "otra", 5]'
    for nonsense in (b"[", b"[]", b"{}", b"\xff", b"[" * 100_000, b"1" * 5_000, *strange):
        content = io.BytesIO()
        metadata = noted.schema.metadata | {f"softdict.{note}".encode(): nonsense}
        pq.write_table(noted.replace_schema_metadata(metadata), content)
        assert read("parquet", content.getvalue()) == (plain, [row])


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("unit", ["EUR", "US$", "EUR/kg"])
def test_numbers_keep_their_unit_whichever_name_it_has(fmt: str, unit: str) -> None:
    priced, row = Column("precio", "number", unit=unit), Entry("silla", {"precio": 12.5}, 0.0)

    content = written(fmt, [row], [priced])
    with read_table(content, filename=f"x.{fmt}", expected=[priced]) as table:
        assert list(table) == [("silla", (12.5,))]
    assert read(fmt, content)[0][0].unit in (unit, usual_unit(unit))


def test_numbers_of_parquet_in_another_unit_are_not_read_as_if_in_the_columns() -> None:
    dollars = (Column("precio", "number", unit="$"),)
    rows = [Entry("chair", {"precio": 10.0}, 0.0), Entry("sofa", {"precio": None}, 0.0)]
    content = written("parquet", rows, dollars)

    for unit, others in (("€", "the column in €"), (None, "the column has no unit")):
        euros = [Column("precio", "number", unit=unit)]
        with pytest.raises(BadRows, match=rf"'precio': 10.0 is in \$, and {others}"):
            read_table(content, expected=euros)
        with read_table(content, LoadOptions(on_error="skip"), expected=euros) as table:
            assert list(table) == [("sofa", (None,))]
    with read_table(content, expected=dollars) as table:
        assert [values for _, values in table] == [(10.0,), (None,)]
    bare = written("parquet", rows, (Column("precio", "number"),))
    with read_table(bare, expected=dollars) as table:
        assert (table.columns, [values for _, values in table]) == (dollars, [(10.0,), (None,)])


def test_json_lines_look_as_they_should() -> None:
    expected = (
        '{"palabra": "niño, el", "número": 7, "vector": [1.0, 0.5], "clase": "=1+1", "nota": null}'
    )

    assert written("jsonl", [ROW]).decode() == expected + "\n"


def test_parquet_looks_as_it_should() -> None:
    table = pq.read_table(io.BytesIO(written("parquet", [ROW])))

    assert [str(field.type) for field in table.schema] == [
        "string",
        "double",
        "fixed_size_list<element: double>[2]",
        "string",
        "string",
    ]
    assert table.to_pylist() == [
        {"palabra": "niño, el", "número": 7.0, "vector": [1.0, 0.5], "clase": "=1+1", "nota": None}
    ]


@pytest.mark.parametrize(
    ("names", "keys"), [(["palabra"], "key"), (["palabra", "key", "entry", "key 2"], "key 3")]
)
@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
def test_no_column_of_values_takes_the_place_of_the_keys(
    fmt: str, names: list[str], keys: str
) -> None:
    columns = tuple(Column(name, "number") for name in names)
    entry = Entry("méxico", {name: float(i) for i, name in enumerate(names)}, 0.0)

    content = written(fmt, [entry], columns)

    with read_table(content, LoadOptions(key=keys), filename=f"x.{fmt}") as table:
        assert table.key_column == keys
        assert list(table) == [("méxico", tuple(range(len(names))))]


def many() -> Iterator[Entry]:
    for number in range(40_000):
        yield Entry(f"clave {number}", {"número": number / 7}, 0.0)


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
def test_entries_are_written_in_blocks_and_in_order(fmt: str) -> None:
    columns = (Column("número", "number"),)

    blocks = list(write_table(fmt, "palabra", columns, many()))

    assert len([block for block in blocks if block]) >= 3
    _, got = read(fmt, b"".join(blocks))
    assert got == list(many())


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
def test_no_value_columns_and_no_entries_can_be_written(fmt: str) -> None:
    assert read(fmt, written(fmt, [Entry("a b", {}, 0.0)], ())) == ((), [Entry("a b", {}, 0.0)])
    empty = written(fmt, [])
    if fmt == "csv":
        assert empty == "palabra,número,vector,clase,nota\r\n".encode()
    elif fmt == "jsonl":
        assert empty == b""
    else:
        assert pq.read_table(io.BytesIO(empty)).num_rows == 0


def test_parquet_of_no_entries_comes_back_with_its_columns(tmp_path: Path) -> None:
    columns = [
        *COLUMNS,
        Column("precio", "number", unit="€"),
        Column("zona", "category", attribute=True),
        Column("nada", "undecided"),
    ]
    content = b"".join(write_table("parquet", "palabra", columns, []))
    with Catalog.open(tmp_path / "store") as catalog:
        d = catalog.create("t", encoder="random", columns=columns, key_column="palabra")
        before = d.describe().columns
        report = catalog.load("u", content, LoadOptions(format="parquet"), encoder="random")
        assert (report.rows, report.loaded, len(catalog["u"])) == (0, 0, 0)
        again = catalog["u"].describe()
        assert (again.key_column, again.columns) == ("palabra", before)
        catalog["u"]["pan"] = {"precio": 2.5}
        assert d.load(content, LoadOptions(format="parquet")).loaded == 0  # beside what is there
    with pytest.raises(UnreadableSource, match="holds a header and no rows"):
        read_table(strangers(), filename="x.parquet")


def strangers() -> bytes:
    """Parquet without rows that softdict did not write."""
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"word": pa.array([], pa.string()), "n": pa.array([], pa.int64())}), sink
    )
    return sink.getvalue()


@given(st.lists(trimmed.filter(lambda text: "\U0010ffff" not in text), min_size=1, unique=True))
@example(["a\x1fb", "c;d", "e|f", "g\th"])
@example(["|-"])
def test_a_column_of_keys_alone_is_never_cut(keys: list[str]) -> None:
    rows = [Entry(key, {}, 0.0) for key in keys]

    assert read("csv", written("csv", rows, ())) == ((), rows)


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
def test_keys_alone_come_back_where_csv_is_said_to_have_a_header(fmt: str) -> None:
    entries = [Entry(key, {}, 0.0) for key in ("Lima", "Roma")]
    content = b"".join(write_table(fmt, "ciudad", (), entries))

    with read_table(content, LoadOptions(format=fmt, header=True if fmt == "csv" else None)) as t:
        assert (t.key_column, list(t)) == ("ciudad", [("Lima", ()), ("Roma", ())])


def test_an_unknown_format_is_refused_at_once() -> None:
    with pytest.raises(InvalidRequest, match="format: 'xls' is none of: csv, jsonl, parquet"):
        write_table("xls", "palabra", COLUMNS, [])

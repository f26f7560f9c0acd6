"""Loading: what a file says is what the entries hold, and what is wrong is told by its line."""

from __future__ import annotations

import bz2
import csv
import datetime
import decimal
import enum
import gzip
import io
import itertools
import json
import lzma
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from index import Catalog, SoftDict
from index.answers import Column, Entry, Progress, Value
from index.errors import (
    BadRow,
    BadRows,
    DiskFull,
    InvalidKey,
    InvalidRequest,
    NotEnoughMemory,
    UnreadableSource,
    WrongValue,
)
from index.loading import (
    LoadOptions,
    cast_value,
    check_key,
    infer_columns,
    json_rows,
    read_table,
    write_table,
)
from index.loading.parquet_rows import ParquetReader
from index.loading.sources import Source
from index.loading.text import LONGEST_LINE
from index.store import Store

Rows = list[tuple[str, tuple[Value, ...]]]


def load(content: bytes | str, filename: str | None = None, **options: Any) -> Rows:
    """All entries, as they were checked and read twice over: each pass must give the same."""
    source = content.encode() if isinstance(content, str) else content
    with read_table(source, LoadOptions(**options), filename=filename) as table:
        held = list(table)
    with (
        mock.patch("index.loading.table.MOST_HELD", 0),
        read_table(source, LoadOptions(**options), filename=filename) as table,
    ):
        first, second = list(table), list(table)
        assert held == first == second
        assert table.rows == table.entries + table.duplicates + table.bad_row_count
        assert len(first) == table.entries
        return first


def columns(content: bytes | str, filename: str | None = None, **options: Any) -> dict[str, str]:
    source = content.encode() if isinstance(content, str) else content
    with read_table(source, LoadOptions(**options), filename=filename) as table:
        return {column.name: column.type for column in table.columns}


def units(content: bytes | str, **options: Any) -> dict[str, str | None]:
    source = content.encode() if isinstance(content, str) else content
    with read_table(source, LoadOptions(**options)) as table:
        return {column.name: column.unit for column in table.columns}


def detected(content: bytes | str, **options: Any) -> dict[str, str]:
    source = content.encode() if isinstance(content, str) else content
    with read_table(source, LoadOptions(**options)) as table:
        return table.detected


def bad_rows(content: str | bytes, filename: str | None = None, **options: Any) -> Sequence[BadRow]:
    source = content.encode() if isinstance(content, str) else content
    with pytest.raises(BadRows) as caught:
        read_table(source, LoadOptions(**options), filename=filename)
    return caught.value.rows


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


# Every format, every kind of source

PETS: Rows = [("gato", (4, "CAT")), ("perro, el", (5.5, "DOG")), ("ñandú", (None, "RHEA"))]
PET_FILES = {
    "pets.csv": 'clave,valor,nombre en\ngato,4,CAT\n"perro, el",5.5,DOG\nñandú,,RHEA\n'.encode(),
    "pets.tsv": (
        "clave\tvalor\tnombre en\ngato\t4\tCAT\nperro, el\t5.5\tDOG\nñandú\t\tRHEA\n"
    ).encode(),
    "pets.json": json.dumps(
        [
            {"clave": "gato", "valor": 4, "nombre en": "CAT"},
            {"clave": "perro, el", "valor": 5.5, "nombre en": "DOG"},
            {"clave": "ñandú", "valor": None, "nombre en": "RHEA"},
        ]
    ).encode(),
    "pets.jsonl": (
        '{"clave": "gato", "valor": 4, "nombre en": "CAT"}\n\n'
        '{"clave": "perro, el", "valor": 5.5, "nombre en": "DOG"}\n'
        '{"clave": "ñandú", "nombre en": "RHEA"}'
    ).encode(),
    "pets.parquet": parquet(
        pa.table(
            {
                "clave": ["gato", "perro, el", "ñandú"],
                "valor": [4.0, 5.5, None],
                "nombre en": ["CAT", "DOG", "RHEA"],
            }
        )
    ),
}
PET_FILES["pets.json.gz"] = gzip.compress(PET_FILES["pets.json"])
PET_FILES["pets.csv.gz"] = gzip.compress(PET_FILES["pets.csv"])


class Trickle(io.RawIOBase):
    """A stream that cannot be rewound and gives a little at a time, as a socket does."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._content.readinto(memoryview(buffer)[:7])


def test_a_stream_that_is_closed_cannot_be_read() -> None:
    stream = io.BytesIO(b"key,v\na,1\n")
    stream.close()

    with pytest.raises(UnreadableSource, match="the stream cannot be copied: I/O operation on cl"):
        SoftDict(encoder="random").load(stream)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is of Linux")
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_stream_that_the_disk_has_no_room_to_copy_is_no_unreadable_one(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    full = partial(open, "/dev/full", "w+b")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)

    with pytest.raises(DiskFull, match="is full"):
        SoftDict(encoder="random").load(io.BytesIO(b"key,v\na,1\n" + size * b"\n"))


def test_a_column_of_options_that_is_no_text_is_a_fault_of_theirs() -> None:
    with pytest.raises(InvalidRequest, match="columns: 1 is no column's name"):
        SoftDict(encoder="random").load(b"key,v\na,1\n", LoadOptions(columns={1: "number"}))


@pytest.mark.parametrize("filename", PET_FILES)
@pytest.mark.parametrize("kind", ["path", "str", "bytes", "stream", "nameless"])
def test_every_format_reads_alike_from_every_source(
    filename: str, kind: str, tmp_path: Path
) -> None:
    content = PET_FILES[filename]
    path = tmp_path / filename
    path.write_bytes(content)
    sources: dict[str, Any] = {"path": path, "str": str(path), "bytes": content}
    sources |= {"stream": Trickle(content), "nameless": content}
    name = filename if kind in ("bytes", "stream") else None

    with read_table(sources[kind], filename=name) as table:
        assert list(table) == list(table) == PETS
        assert table.key_column == "clave"
        assert table.columns == (Column("valor", "number"), Column("nombre en", "text"))
        assert (table.rows, table.entries, table.duplicates) == (3, 3, 0)
        expected = filename.removesuffix(".gz").rpartition(".")[2]
        assert table.format == ("csv" if (kind, expected) == ("nameless", "tsv") else expected)


def test_two_passes_over_one_stream_do_not_disturb_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("index.loading.table.MOST_HELD", 0)
    content = "".join(f"key {n},{n}\n" for n in range(5_000)).encode()

    with read_table(Trickle(content)) as table:  # type: ignore[arg-type]
        pairs = list(zip(table, table, strict=True))

    assert len(pairs) == 5_000
    assert all(one == other for one, other in pairs)


def test_a_pipe_is_read_though_it_cannot_be_opened_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"key,v\na,1\n",))
    writer.start()

    with read_table(pipe) as table:
        assert list(table) == list(table) == [("a", (1,))]
    writer.join()


def test_a_file_that_changes_between_passes_is_refused_where_its_rows_are_not_held(
    tmp_path: Path,
) -> None:
    long = "x" * 10_000
    small, large = [("a", (1, long))], [(f"k{n}", (1, long)) for n in range(3_000)]
    for rows in small, large:
        path = tmp_path / "changing.csv"
        path.write_text("key,v,t\n" + "".join(f"{key},1,{long}\n" for key, _ in rows))
        with read_table(path) as table:
            assert list(table) == rows
            path.write_text("key,v,t\na,1,y\nb,x,z\n")
            if rows is small:
                assert list(table) == rows  # as they were checked
            else:
                with pytest.raises(UnreadableSource, match="changed while it was being read"):
                    list(table)


def test_repeated_rows_count_among_those_held(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"key,t\n" + b"a,%s\n" % (b"x" * 1_000) * 50

    with read_table(content, LoadOptions(duplicates="last")) as table:
        assert table._held is not None
    monkeypatch.setattr("index.loading.table.MOST_HELD", 20_000)
    with read_table(content, LoadOptions(duplicates="last")) as table:
        assert table._held is None  # a key that is repeated could fill us
        assert list(table) == [("a", ("x" * 1_000,))]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ('[{"k": "a", "v": 1}]', "json"),
        (' \n {"a": 1}', "json"),
        ('{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n', "jsonl"),
        ('["a", 1]\n["b", 2]\n', "jsonl"),
        ('[["a", 1],\n["b", 2]]\n', "json"),
        ("a,1\nb,2\n", "csv"),
    ],
)
def test_content_tells_the_format_where_no_name_does(content: str, kind: str) -> None:
    with read_table(content.encode()) as table:
        assert table.format == kind


def test_json_lines_named_json_are_read_as_what_they_are() -> None:
    assert load('{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n', "x.json") == [("a", (1,)), ("b", (2,))]


@pytest.mark.parametrize("filename", ["x.csv", "x.tsv", "x.txt", "x.json"])
@pytest.mark.parametrize(
    "content",
    [
        '[{"k": "a", "v": 1}, {"k": "b", "v": 2}]',
        '[\n {"k": "a", "v": 1},\n {"k": "b", "v": 2}\n]',
        '{\n "a": 1,\n "b": 2\n}',
        '{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n',
        '["a", 1]\n["b", 2]\n',
    ],
)
def test_json_is_read_whatever_its_name(content: str, filename: str) -> None:
    assert load(content, filename) == [("a", (1,)), ("b", (2,))]


@pytest.mark.parametrize("filename", ["x.csv", "x.tsv", "x.json"])
def test_json_on_one_line_is_read_whatever_its_name_and_length(filename: str) -> None:
    entries = [{"k": f"key {number}", "v": number} for number in range(5000)]

    assert load(json.dumps(entries), filename) == [(e["k"], (e["v"],)) for e in entries]


def test_a_document_named_json_lines_is_read_and_what_only_begins_like_json_is_text() -> None:
    assert load('{\n "a": 1,\n "b": 2\n}', "x.jsonl") == [("a", (1,)), ("b", (2,))]
    assert load("[a],1\n{b},2\n", "x.csv") == [("[a]", (1,)), ("{b}", (2,))]
    assert load('{"a": 1}\t5\n{"b"}\t6\n', "x.tsv") == [('{"a": 1}', (5,)), ('{"b"}', (6,))]


def test_the_format_option_wins_over_the_name() -> None:
    assert load("a\t1\nb\t2\n", "x.json", format="tsv") == [("a", (1,)), ("b", (2,))]


# Messy files of real life


def test_excel_in_spanish_reads_right() -> None:
    content = "Artículo;Precio;Ventas\r\nJamón ibérico;59,9;1.234\r\nPiña;2,35;12\r\n;;\r\n"

    with read_table(content.encode("cp1252"), filename="ventas.csv") as table:
        assert table.key_column == "Artículo"
        assert list(table) == [("Jamón ibérico", (59.9, 1234)), ("Piña", (2.35, 12))]
        assert table.detected == {
            "delimiter": ";",
            "header": "yes",
            "encoding": "cp1252",
            "decimal": "comma",
        }


SPANISH = (
    "clave;valor\nespaña;1\n",
    "ñ;1\n",
    "año;1\nniño;2\n",
    "Ñandú;1\n",
    "¿Cuánto cuesta el envío?;5 €\n«corazón»;1\n",
    "El pingüino bebió vino añejo en Córdoba: ¡qué alegría!;1\n",
    "COMUNIÓN;1\nAÑO;2\n",
    "Agonía;16\nAcompañamiento;75\n",
)
FRENCH = (
    "Désignation;Prix\nPoire;2\nŒuf;1\n",
    "désignation;qté\nélève;2\nnœud;3\n",
    "CŒUR;1\nÉTÉ;2\n",
    "intégrés;1\nmêle;17\n",
    "sûr;1\naoût;2\nflûte;3\n",
    "hors-d’œuvre;1\nbœuf à la crème brûlée;3\n",
)


ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be")
BEYOND_LATIN_1 = "€œŒ’"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (text, encoding)
        for text, encoding in itertools.product(SPANISH + FRENCH, ENCODINGS)
        if encoding != "latin-1" or not set(BEYOND_LATIN_1) & set(text)
    ],
)
def test_spanish_and_french_are_never_mojibake(text: str, encoding: str) -> None:
    key = next(line for line in reversed(text.splitlines())).partition(";")[0]

    assert load(text.encode(encoding))[-1][0] == key


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("palabra;valor\nespaña;1\nniño;2\ncamión;3\n", "mac-roman"),
        ("palabra;valor\nespaña;1\nniño;2\ncamión;3\n", "cp850"),
        ("palabra;valor\n5 ñus;1\nñ;2\ncamión;3\n", "cp850"),
        ("слово;значение\nсобака;5\nкошка;6\n", "cp1251"),
        ("żółw;1\npies;2\nkoń;3\ngęś;4\n", "cp1250"),
        ("név;1\nőszibarack;1\nszilva;2\ntűzijáték;3\n", "cp1250"),  # õ and û in cp1252
        ("gyümölcs;1\nbetű;5\ngyűrű;7\nmező;3\n", "cp1250"),
        ("káva;1\nčaj;2\nvěc;3\nkůň;4\nchléb;5\n", "cp1250"),
        ("navn;pris\nSmørrebrød på;1\nÆble;2\nånd;3\n", "mac-roman"),
        *((text, "mac-roman") for text in ("mot;v\nœuf;1\nété;2\nbœuf;3\n", "på;1\nåre;2\n")),
        ("犬,3\n猫,4\n日本語のテキスト,5\n", "cp932"),
    ],
)
def test_other_old_encodings_are_told_apart(text: str, encoding: str) -> None:
    lines = [line for line in text.splitlines() if line[-1].isdigit()]

    assert [key for key, _ in load(text.encode(encoding))] == [line[:-2] for line in lines]


@pytest.mark.parametrize(
    ("keys", "encoding"),
    [
        ("PÃO|LIMÃO|FEIJÃO|MAÇÃ", "cp1252"),
        ("HÊTRE|CHÊNE|MÉLÈZE|CYPRÈS", "cp1252"),
        ("PIÙ|TRIBÙ|PERCHÉ|CITTÀ", "cp1252"),
        ("SMØRREBRØD|ÆBLE|ÅL", "cp1252"),
        ("25 µm", "cp1252"),
        ("10 × 12|±0,5|25 m²", "cp1252"),
        ("Größe|Filter 25 µm", "cp1252"),
        ("Ø12|Ø16", "cp1252"),
        ("m²|m³", "cp1252"),
        ("LÄNGE|BREITE|HÖHE", "cp850"),
        ("JAMÓN|PIÑA|MELÓN", "cp850"),
        ("GRÖSSE|LÄNGE|ÜBER", "mac-roman"),
        ("LIBERTÀ|PUBBLICITÀ", "mac-roman"),
        ("VĚC|KŮŇ|CHLÉB", "cp1250"),
        ("stół|wydział|dział", "cp1250"),  # stó³ in cp1252
        ("ČEVAPI|ŽUPA|VOĆE", "cp1250"),
        ("ΓΑΤΑ", "cp1253"),
    ],
)
def test_capitals_and_signs_are_not_chinese_nor_polish(keys: str, encoding: str) -> None:
    content = "".join(f"{key};1\n" for key in keys.split("|"))

    assert [key for key, _ in load(content.encode(encoding), header=False)] == keys.split("|")


@pytest.mark.parametrize(
    ("keys", "encoding"),
    [
        ("BELGIË|ITALIË", "cp1252"),  # Mac's À
        ("SOCIéTé|QUALITé", "cp1252"),  # Mac's È
        ("PÂTES|GARÇON|NOËL", "cp1252"),  # P┬TES and NO╦L in cp850
        ("FORÊT|GARÇON|BŒUF", "cp1252"),
        ("bœuf|pâté|noël", "iso8859-15"),  # b˝uf in cp1250
        ("BŒUF|PÂTÉ", "iso8859-15"),
        ("½kg harina|café", "cp1252"),
        ("ĽUDOVÍT|KRÁĽ|ĽÚBIŤ", "cp1250"),  # Œ in Latin-9
        ("učiti|omogućiti|ćup", "cp1250"),  # æ and è in cp1252
        ("ДОМ|САД", "cp1251"),  # ÄÎÌ and ÑÀÄ, all of Western Europe
        ("狗", "gb18030"),  # ¹·
    ],
)
def test_what_looks_like_another_encoding_is_none(keys: str, encoding: str) -> None:
    content = "".join(f"{key};1\n" for key in keys.split("|"))

    assert [key for key, _ in load(content.encode(encoding), header=False)] == keys.split("|")


@pytest.mark.parametrize("prices", ["1,20 €|2 €", "€1,20|€2", "1,20€|2€", "€ 1,20|€ 2"])
def test_the_euro_of_latin_9_is_one(prices: str) -> None:
    cells = zip(("ñora", "café", "¿a 5 ñus?"), [*prices.split("|"), ""], strict=True)
    content = "palabra;precio\n" + "".join(f"{key};{cell}\n" for key, cell in cells)

    assert load(content.encode("iso-8859-15")) == [
        ("ñora", (1.2,)),
        ("café", (2,)),
        ("¿a 5 ñus?", (None,)),
    ]
    assert detected(content.encode("iso-8859-15"))["encoding"] == "iso8859-15"


@pytest.mark.parametrize("price", [" 49,50 € ", "49,50 €", "€49,50", "49,50€", "€ 49,50"])
def test_a_euro_beside_a_digit_is_no_letter_of_a_mac(price: str) -> None:
    keys = ("Lámpara", "Camión", "Café", "Sofá", "Móvil")
    content = "Producto; Precio ; Coste \r\n" + "".join(f"{k};{price};{price}\r\n" for k in keys)

    assert load(content.encode("cp1252")) == [(key, (49.5, 49.5)) for key in keys]


@pytest.mark.parametrize("keys", ["Muñoz|Nómina|Móvil", "PEÑA|JAMÓN|MUÑOZ|AÑO"])
def test_what_is_dos_s_spanish_is_not_chinese(keys: str) -> None:
    content = "".join(f"{key};1\n" for key in keys.split("|"))

    assert [key for key, _ in load(content.encode("cp850"))] == keys.split("|")


def test_dos_s_euro_is_one() -> None:
    rows = [("Melón piel de sapo", 1.2), ("Piña", 2.35), ("Azúcar", 0.95), ("Ñoras", 12.5)]
    content = "producto;precio;nota\n"
    content += "".join(f"{key};{price} €;día\n".replace(".", ",") for key, price in rows)

    assert load(content.encode("cp858")) == [(key, (price, "día")) for key, price in rows]
    assert units(content.encode("cp858"))["precio"] == "€"
    assert detected(content.replace(" €", "").encode("cp850"))["encoding"] == "cp850"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("Výrobok;Cena\nŠunka;4,50 €\nHruška;1,20 €\nCibuľa;0,90 €\nŽemľa;0,30 €\n", "cp1250"),
        ("Artículo; Precio\nJamón; 49,50 € \nPiña; 3,20 € \nLimón; 1,20 € \n", "mac-roman"),
        ("ψωμί;5 €\nγάλα;3 €\n", "cp1253"),
        ("хлеб;5 €\nмолоко;3 €\n", "cp1251"),
        ("血液型;人数\nA型;38\nB型;22\nO型;31\nAB型;9\n", "cp932"),
        ("5 Äpfel;3\nBüro;4\nGröße;5\n", "mac-roman"),
        ("10 €;3\n12 €;4\n", "mac-roman"),
        ("1,動物園\n2,水族館\n3,美術館\n", "cp932"),  # 園 ends with the byte of €
        ("番号;保存\n1;冷凍\n2;冷蔵\n3;常温\n", "cp932"),
        ("名前;住所\n田中;東京都港区芝公園4-2-8\n", "cp932"),
        ("名前,泊数\nSmith様,2\nJones様,3\nBrown様,1\nLee様,4\n", "cp932"),
        ("名称,价格\nLED灯,25\nUSB线,12\nSIM卡,9\nDVD机,199\n", "gb18030"),
        ("부서,인원\nIT팀,5\nHR팀,3\nPR팀,4\nQA팀,2\n", "cp949"),
    ],
)
def test_euros_and_signs_of_others_are_read(content: str, encoding: str) -> None:
    assert detected(content.encode(encoding))["encoding"] == encoding


def test_a_fault_in_a_table_with_quotes_is_told_on_its_line() -> None:
    assert bad_rows('"Name","CPU"\n"proc","1"\n"idle","2","x"\n')[0].line == 3
    assert load('"Total:";"45"\n"Pan";"3"\n"Sal";"4";""\n') == [
        ("Total:", (45,)), ("Pan", (3,)), ("Sal", (4,)),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["latin1", "ISO-8859-1", "l1"])
def test_what_is_called_latin_1_has_the_euro_of_windows(name: str) -> None:
    content = "clave;precio\nñora;1,20 €\n".encode("cp1252")

    assert load(content, encoding=name) == [("ñora", (1.2,))]
    assert detected(content, encoding=name)["encoding"] == "cp1252"
    assert load(b"M\x81;1\n", encoding=name) == [("M\x81", (1,))]  # which cp1252 has not


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sixteen_bits_need_no_mark_in_any_script(encoding: str, end: str) -> None:
    lines = ["слово;значение", "собака;5", "犬;6", "Њ;7", "ਕੁੱਤਾ;8", ""]  # Њ and ਕ have a byte of 10

    assert load(end.join(lines).encode(encoding)) == [
        ("собака", (5,)),
        ("犬", (6,)),
        ("Њ", (7,)),
        ("ਕੁੱਤਾ", (8,)),
    ]


def test_an_encoding_can_be_given() -> None:
    assert load("ł;1\n".encode("cp1250"), encoding="cp1250") == [("ł", (1,))]
    assert load("\ufeffñ;1\n".encode(), encoding="utf-8") == [("ñ", (1,))]


@pytest.mark.parametrize(
    ("name", "written_in"),
    [
        *((name, "utf-8") for name in ("UTF8", "u8", "cp65001", "utf_8_sig")),
        *((name, "utf-16-le") for name in ("UTF-16LE", "unicodelittleunmarked", "U16")),
        *(("utf-16-be", "utf-16-be"), ("utf-32-le", "utf-32-le"), ("UTF_32BE", "utf-32-be")),
    ],
)
@pytest.mark.parametrize(
    ("content", "filename"),
    [
        ("gato,4\nñandú,5\n", "a.csv"),
        ('"gato","4"\n"ñandú","5"\n', "a.csv"),
        ("sep=;\nclave;valor\ngato;4\nñandú;5\n", "a.csv"),
        ('{"gato": 4, "ñandú": 5}', "a.json"),
        ('["gato", 4]\n["ñandú", 5]\n', "a.jsonl"),
    ],
)
def test_a_mark_of_byte_order_is_no_letter_whatever_the_encoding_is_called(
    name: str, written_in: str, content: str, filename: str
) -> None:
    expected = [("gato", (4,)), ("ñandú", (5,))]

    assert load(f"\ufeff{content}".encode(written_in), filename, encoding=name) == expected
    if name != "U16":  # which leaves the order to the mark
        assert load(content.encode(written_in), filename, encoding=name) == expected


def test_a_file_half_utf8_and_half_latin1_is_refused_with_both_lines() -> None:
    many = "".join(f"camión {n};1\n" for n in range(200_000)).encode()
    assert len(many) > 3_000_000

    with pytest.raises(UnreadableSource, match=r"line 1 is UTF-8 and line 200001 is not"):
        read_table(many + "niño;1\n".encode("latin-1"))


def test_late_latin1_after_plain_ascii_is_read() -> None:
    content = b"".join(b"perro %d;1\n" % n for n in range(60_000)) + "niño;1\n".encode("cp1252")

    with read_table(content) as table:
        assert table.detected["encoding"] == "cp1252"
        assert list(table)[-1] == ("niño", (1,))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("key,value\na,1\n", [("a", (1,))]),
        ("a;1,5\nb;2,25\n", [("a", (1.5,)), ("b", (2.25,))]),
        ("a;b,1,2\nc;d,3,4\ne;f,5,6\n", [("a;b", (1, 2)), ("c;d", (3, 4)), ("e;f", (5, 6))]),
        ("key|v\nb|z; w\nc|3, 4\n", [("b", ("z; w",)), ("c", ("3, 4",))]),
        ("a\tx, y\nb\tz, w\n", [("b", ("z, w",))]),
        ("hola, tú;1,5\nadiós, yo;2,5\n", [("hola, tú", (1.5,)), ("adiós, yo", (2.5,))]),
        ("hola, tú, él;5\n", [("hola, tú, él", (5,))]),
        ("perro\ngato\n", [("perro", ()), ("gato", ())]),
        ("perro\n", [("perro", ())]),
        ("perro,5\n", [("perro", (5,))]),
        (
            'key\nperro\n"gato, el"\nde la, casa\n',
            [("perro", ()), ("gato, el", ()), ("de la, casa", ())],
        ),
        ("sep=;\nkey;value\na;1\n", [("a", (1,))]),
        ('"sep=|"\nkey|value\na;b|1\n', [("a;b", (1,))]),
        ("sep=\t\nkey\tvalue\na;b\t1\n", [("a;b", (1,))]),
        ("key,value,\na,1,\nb,2,\n", [("a", (1,)), ("b", (2,))]),
        ("key, value\na, x\nb, y\n", [("a", ("x",)), ("b", ("y",))]),
        ('key, value\n"a, b", "x"\n"c", "y"\n', [("a, b", ("x",)), ("c", ("y",))]),
        ("key,value\r\ra,1\r\rb,2\r", [("a", (1,)), ("b", (2,))]),
        ("\n\nkey,value\n\n,\na,1\n\n", [("a", (1,))]),
        ('key,value\n"a ""quoted"" one",1\n', [('a "quoted" one', (1,))]),
        ('key,value\n"a \\"quoted\\" one",1\nb,2\n', [('a "quoted" one', (1,)), ("b", (2,))]),
        (
            'key\tvalue\n"hola" dijo\t1\n5" de tubo\t2\n',
            [('"hola" dijo', (1,)), ('5" de tubo', (2,))],
        ),
        ('key,value\n"a\nb; c","x\r\ny"\n', [("a\nb; c", ("x\r\ny",))]),
        ("  a  ,1\n\tb,2\n", [("a", (1,)), ("b", (2,))]),
    ],
)
def test_the_shape_of_delimited_text_is_found(content: str, expected: Rows) -> None:
    assert load(content) == expected


def test_the_line_that_names_the_separator_settles_it_unless_one_is_given() -> None:
    content = "sep=,\na;1,5\nb;2,6\n"

    assert load(content) == [("a;1", (5,)), ("b;2", (6,))]
    assert load(content, delimiter=";") == [("a", (1.5,)), ("b", (2.6,))]
    assert [detected(content)["delimiter"], detected("perro\n")["delimiter"]] == [",", "none"]


@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0"))] * 2),
        min_size=1,
    ),
    dialect=st.sampled_from(["excel", "excel-tab", "unix"]),
)
def test_delimited_text_is_what_the_csv_module_wrote(
    rows: list[tuple[str, str]], dialect: str
) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written, dialect)
    writer.writerows(
        [["key", "note"], *[(f"k{n}", note + other) for n, (note, other) in enumerate(rows)]]
    )
    options = LoadOptions(columns={"note": "text"}, delimiter=csv.get_dialect(dialect).delimiter)

    with read_table(written.getvalue().encode(), options) as table:
        got = list(table)

    texts = [unicodedata.normalize("NFC", note + other) for note, other in rows]
    assert got == [(f"k{n}", (text if text.strip() else None,)) for n, text in enumerate(texts)]


# Header, names and keys


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("word,meaning\nperro,DOG\n", "yes"),  # word is a known name
        ("2019,CLAVE\n1,a\n", "yes"),  # though there is a number
        ("animal,sound\nperro,guau\n", "yes"),  # nothing speaks against it
        ("perro,5\ngato,6\n", "no"),  # a number
        ("perro,\ngato,6\n", "no"),  # an empty cell
        ("perro,perro\ngato,cat\n", "no"),  # a repeated cell
        ("perro,perro,5\ngato,cat,6\n", "no"),
        ('perro,"[1, 2]"\ngato,"[3, 4]"\n', "no"),  # a vector
        ("perro,DOG\n", "no"),  # nothing below it
        ("perro\ngato\n", "no"),  # a list of words
        (",ciudad,habitantes\n0,Madrid,3\n1,Soria,4\n", "yes"),  # the index that pandas writes
        ('"","habitantes"\n"Madrid",3\n"Soria",4\n', "yes"),  # the names of rows that R writes
        ("perro,,x\ngato,,y\npez,a,z\n", "no"),  # an empty cell over one that is not
        ("ciudad;habitantes;\nMadrid;3;\nSoria;4;\n", "yes"),  # an empty column
        ("Stadt;;Einwohner;;\nBern;;5;;\n;;;;\nGenf;;7;;\n", "yes"),
        (";Ciudad;Habitantes\n;Madrid;3\n;Soria;4\n", "yes"),
        ("ciudad,2021,2022,2023\nMadrid,3,4,5\n", "yes"),  # years that follow one another
        ("ciudad;2021 %;2022 %\nMadrid;3 %;4 %\n", "yes"),  # of what is counted in a unit, too
        ("ciudad,2021 USD,2022 USD\nMadrid,3,4\n", "yes"),
        ("ciudad,2023,2022\nMadrid,3,4\n", "yes"),
        ("Madrid,2021,2023\nSoria,2022,2023\n", "no"),
        ("Madrid,3,4\nSoria,5,6\n", "no"),
        ("2020,2021,2022\n3,4,5\n", "no"),
        ("Modell;36;38;40\nAdria;12;5;9\nBella;3;4;1\n", "yes"),  # sizes, in even steps
        ("Modell;36;38;40\nAdria;1;2;3\n", "no"),  # over what has even steps, too
        ("Modell;36;38;41\nAdria;12;5;9\n", "no"),
        ("Modell;36;38\nAdria;12;5\n", "no"),
        ("Modell;5;5;5\nAdria;12;5;9\n", "no"),
        ("Provincia;2022;2023;Var.\nMadrid;1200;1300;5\n", "yes"),  # years beside other names
        ("Proyecto A;2022;2023;activo\nProyecto B;2019;2021;cerrado\n", "no"),
        ("Jahr;2022;2023;Rest\nBayern;1950;5;1\nHessen;3;4;1\nSaar;7;8;2\n", "yes"),
        ("Land;2023;Anteil\nBayern;1234,5;1,15\nHessen;884,2;3,5\n", "yes"),
        ("Modelo;36;38;40;Total\nAda;1;2;5;8\nBea;4;2;3;9\n", "yes"),
        ("city,count,min,25%,50%,75%,max\nUlm,2,3.0,3.25,3.5,3.75,4\n", "yes"),  # quantiles
        (",count,min,25%,50%,75%,max\npay,2,3.0,3.25,3.5,3.75,4\n", "yes"),
        ("Ana,2,lista,25%,50%,75%\nEva,3,4,20%,30%,50%\n", "no"),  # shares over shares
        ("Proyecto A;2022;2023;activo\nProyecto B;;;pendiente\n", "no"),
        ("Silla;1999;2000;azul\nMesa;350;400;roja\n", "no"),
        ("Laptop,1999,n/a\nMouse,25,4.5\nKeyboard,45,4.2\n", "no"),
        ("Sofá;1999;agotado\nMesa;350;3\nSilla;40;12\n", "no"),
        ("producto;2023;total\npan;350;3\nsal;40;12\n", "yes"),
        ("Ana;1999;2001;lista\nLuis;3;4;5\nEva;1998;4;5\n", "no"),  # a year stands below
        ("Country,ISO,1960,1961,1962\nAruba,ABW,54,55,56\nChad,TCD,30,31,32\n", "yes"),
        ("Proyecto A;2021;2022;2023;activo\nProyecto B;2019;2021;2022;cerrado\n", "no"),
        ("Nr;Filiale;2022;2023\n1;Bonn;5;3\n2;Ulm;4;1\n", "yes"),  # a word over numbers
        ("Edad;2019;2022\n0;5;3\n1;4;1\n", "yes"),  # without others, too
        ("País;1990;2000;2010\nPerú;1995;30;40\nChad;5;31;41\n", "yes"),  # one year in six
        (",país,1999,2000\n0,Cuba,745,2666\n1,Perú,37,80\n", "yes"),  # and a blank
        ("Perú;..\nCuba;5.3\nChad;4.1\n", "no"),  # a value that is missing
        ("pan;blanco;n.d.\nsal;fina;3\nvino;tinto;4\n", "no"),
        ("Na;K\n3;4\n5;6\n", "yes"),  # sodium
        ("Konto;Betrag;\nErloese;1.234,56;ok\nBank;2.000,00;\n", "yes"),  # a remark
        ("Cognome,,Stipendio\nRossi,a,1200\nVerdi,b,1300\n", "yes"),
        ("Cognome,,\nRossi,a,1200\nVerdi,b,1300\n", "no"),
        ('animal,sound\n"perro"x,guau\ngato,miau\n', "yes"),  # the second row cannot be read
        ("where is it?,shipping\nI want it back,refund\ntrack it,shipping\n", "no"),  # a label
        ("What is open?,We are.\nMay I pay by card?,Yes.\n", "no"),  # a question over questions
        ("¿Qué falta?;¿Dónde?\nMás luz.;Ulm\n¿Hay sitio?;Bonn\n", "yes"),
        ("Question?,Answer\nMay I pay by card?,Yes.\n", "yes"),  # one word
        ("perro;animal\ngato;animal\nmesa;mueble\nsilla;mueble\n", "no"),
        ("perro;animal;1\ngato;animal;2\nmesa;mueble;3\nsilla;mueble;4\n", "no"),
        ("animal;sonido\nperro;guau\ngato;sonido\npez;nada\n", "yes"),  # labels do not repeat
        # Words over numbers are names, though one of them is a label, too.
        ("age,sex,married,pay\n31,f,married,5\n32,m,single,6\n40,f,married,7\n", "yes"),
        (",Crime,city,Poverty\nOhio,9,city,3\nIowa,4,state,2\nUtah,7,city,1\n", "yes"),
        ("Luis;Casado;Agotado\nEva;Casado;3\nAna;Soltero;5\n", "no"),  # one word may be a remark
        ("Luis;casado;agotado;pedir\nEva;casado;3;4\nAna;soltero;5;6\n", "no"),  # remarks
        ("pan;2/4/2024;Agotado;Pedir\nsal;3/4/2024;3;4\nvino;4/4/2024;5;6\n", "no"),
        ("animal;tipo\nperro;a\ngato;a\nanimal;tipo\npez;b\nave;b\n", "yes"),  # of two files
        ("animal;tipo\nperro;a\ngato;a\nanimal;tipo de\npez;b\nave;b\n", "yes"),
        ("perro;20/04/2024\ngato;06/01/2024\nsol;01/02/2024\n", "no"),  # a date over dates
        ("perro;2024-04-20 10:30\ngato;\nsol;2024-02-01\n", "no"),
        ("Hund;20.4.2024\nKatze;6.1.2024\nMaus;2024-02-01T10:30\n", "no"),
        ("linea;09:30;10:30\nL1;09:35;10:35\nL2;09:40;10:40\n", "yes"),  # times may be names
        ("pan;20/04/2024;21/04/2024\nsal;4;5\n", "yes"),  # dates over numbers
        ("perro;7 kg\ngato;\ncasa;5 kg\n", "no"),  # a measure over one below a gap
        ("perro;7 kg\ngato;n.d.\ncasa;5 kg\n", "no"),
    ],
)
def test_a_header_is_told_from_a_row(content: str, header: str) -> None:
    assert detected(content, on_error="skip")["header"] == header


def test_a_line_break_in_a_name_is_a_blank() -> None:
    assert columns('Producto;"Precio\n(EUR)";"IVA \r\n %"\nPan;1,5;4\nSal;2;4\n') == {
        "Precio (EUR)": "number",
        "IVA %": "number",
    }


def test_a_column_without_a_name_can_hold_the_keys() -> None:
    with read_table(b",price,stock\nmilk,1.2,5\nbread,0.8,7\n") as table:
        assert table.key_column == "key"
        assert [column.name for column in table.columns] == ["price", "stock"]
        assert list(table) == [("milk", (1.2, 5)), ("bread", (0.8, 7))]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("Ventas 2026;;\n31/01/2026;;\n;;\nProducto;Precio;Ventas\nLeche;1,20;100\n", 4),
        ("Sales 2026\n\nProduct,Price,Sales\nMilk,1.20,100\nBread,0.80,200\n", 3),
        ("# of 2026-01-31\nciudad,habitantes\nMadrid,3\nSoria,4\n", 2),
        ('"Ventas, 2026"\nciudad;habitantes;\nMadrid;3;\nSoria;4;\n', 2),
        ("Ventas\n\nCiudad,Ventas\nMadrid,3\nSoria,4\n\nFuente: INE\n", 3),
        ("Ayuda\nPregunta;Respuesta\n¿Qué?;Nada\n¿Cómo?;Así\n", 2),
        (";Enero;;Febrero\nCiudad;Uds.;Total;Uds. 2\nSoria;1;12,50;2\n", 2),  # merged headings
        ("Ventas;;;\n;;;\n;Enero;;Febrero\nProducto;Uds.;Total;Uds. 2\nPan;1;12,50;2\n", 4),
        ("Umsatz 2025;;;\nKonto;Betrag;;Menge\nBar;1.234,56;;5\nBank;2.000,00;;7\n", 2),
        ("Ventas por provincia;;;\nProvincia;2022;2023;2024\nMadrid;1.200;1.340;1\n", 2),
        (";;Ventas;;\nCódigo;Artículo;2022;2023;Var.\nA1;Silla;120;130;5\n", 2),
        ("Cliente:;ACME SL;\nFecha:;01/03/2024;\nArtículo;Precio;Zona\nPan;1,50;sur\n", 3),
        ("Tarifa 2024;Revisión 3\nArtículo;Precio;Stock\nPan;1,50;6\nSal;2;4\n", 2),
        ("Umsatz 2025;;;\nKonto;Betrag;;Menge\nBar;1.234,56;ok;5\nBank;2.000,00;;7\n", 2),
        ("# of 2024\nciudad,habitantes\nMadrid,3\n# north\nSoria,4\nLugo,5\n", 2),
        ("Ventas\nCiudad;Uds.\nPan;1,50\nSal;2,10\nNota 1\nNota 2\nNota 3\n", 2),
        ("Tarifa, al 1 de enero\nArtículo;Precio\nPan;1,50\nSal;2,10\nVino;5,75\n", 2),
        ("Ventas,2024\nCiudad\tUds.\tTotal\nSoria\t1\t12\nLugo\t2\t13\nVigo\t4\t15\n", 2),
        ("Source,WB,\n\nUpdated,1/6/2024,\n\nPaís,ISO,1960,1961,1962\nPerú,PER,5,6,7\n", 5),
        ("Einwohner am 31.12.\n;2019;2020;2021\nBerlin;3669491;3664088;3677472\n", 2),
        ("Einwohner\nTabelle 12411\n;Männer;Frauen\nBerlin;1803;1866\nBremen;337;344\n", 3),
        ("Einwohner\n;Männer;Frauen\nLand;Anfang;Ende\nBerlin;1803;1866\n", 3),
    ],
)
def test_a_title_above_the_header_is_no_key(content: str, line: int) -> None:
    with pytest.raises(UnreadableSource, match=f"line {line} seems to name the columns; delete"):
        read_table(content.encode(), filename="x.csv")
    assert load("".join(content.splitlines(keepends=True)[line - 1 :]), on_error="skip")
    assert load(content, header=False, on_error="skip")


@pytest.mark.parametrize(
    "content",
    [
        "perro;;\ngato;felino;casa\npez;acuario;mar\n",  # values that are missing
        "perro;;\ngato;5;6\n",
        "perro;5;\ngato;6;x\nnombre;7;y\npez;8;z\n",  # a key that is called as columns are
        "Ana;;;\nLuis;5;6;7\nEva;8;6;9\n",
        "Modelo;X1;\nNombre;Ana;López\nEdad;33;\nPeso;70;\n",  # a form
        "Mesa;;\nSofá;1999;2000\nSilla;40;12\n",
        "Alien;1979;;\nTerminator;1984;1991;2003\nRocky;1976;1979;1982\n",
        "perro;5;\nnombre;verbo;y\npez;mar;z\n",
        "ciudad\nMadrid,España\nRoma,Italia\n",  # a list
        "Fruta\n\tpera\n\tuva\nVerdura\n\tajo\n\tcol\n\tapio\n",  # a list with headings
        "precio\n1,5\n2,5\n",
        "Notas\nCiudad;Uds.\nuno\ndos\ntres\nPan;1,50\nfin\n",  # a list, too
        "Mesa;1999;;\nSofá;2021;2019;2022\nSilla;350;400;120\n",  # no years in order
    ],
)
def test_what_stands_above_no_header_is_no_title(content: str) -> None:
    assert len(load(content)) == len(content.splitlines())


@pytest.mark.parametrize(
    "content",
    [
        "Turnos\nZona;Encargado;Tel\nNorte;Ana;600 111 222\nSur;Luis;600 333 444\n",
        "Turnos\n\nZona\tEncargado\nNorte\tAna\nSur\tLuis\n",
    ],
)
def test_lines_of_cells_below_a_title_are_no_list_of_phrases(content: str) -> None:
    with pytest.raises(BadRows, match="cells, where the first row has 1"):
        load(content)
    for phrases in (
        "hola\nbuenos días; qué tal\nrojo, verde, azul\nadiós; hasta luego\n",
        "Inicio\nZapatos | Botas | Tienda\nZapatos | Rojos | Tienda\n",
        "Inicio\nZapatos|Botas|Tienda\nZapatos|Rojos\nBotas|Negras|De piel\n",
    ):
        assert [key for key, _ in load(phrases)] == phrases.splitlines()


def test_a_comma_of_a_title_makes_no_delimiter_of_decimal_commas() -> None:
    for content in (
        "Tarifa, al 1 de enero\nPan;1,50\nSal;2,10\n",
        "Precios, en euros\nPan\tfresco\t1,50\nSal\tseca\t2,10\n",
    ):
        with pytest.raises(BadRows, match="cells, where the first row has 1"):
            load(content)
    assert load("x, y\n1,2\n3,4\n") == [("1", (2,)), ("3", (4,))]
    assert load("x, y\na;1,2\nb;c,4\n") == [("a;1", (2,)), ("b;c", (4,))]


def test_a_column_without_a_name_is_called_by_its_place() -> None:
    content = "Konto;Betrag;\nErloese;1.234,56;ok\nBank;2.000,00;\n"

    assert columns(content) == {"Betrag": "number", "column 3": "text"}
    assert load(content) == [("Erloese", (1234.56, "ok")), ("Bank", (2000, None))]


def test_the_header_option_wins() -> None:
    assert load("key,word\nb,c\n", header=False) == [("key", ("word",)), ("b", ("c",))]
    assert load("1,2\nb,3\n", header=True) == [("b", (3,))]


@pytest.mark.parametrize(
    ("header", "row", "key"),
    [
        ("precio,Clave", "1,a", "Clave"),
        ("nombre,key", "x,y", "key"),  # the surest name wins, wherever it stands
        ("título,x", "a,b", "título"),
        ("TERMINO,x", "a,b", "TERMINO"),
        ("Kategorie,Artikel,Preis", "a,b,1", "Artikel"),
        ("catégorie,désignation,prix", "a,b,1", "désignation"),
        ("n,animal,sonido", "1,a,b", "animal"),  # the first of text
        ("id,animal", "a7,b", "animal"),  # an id only where there is nothing better
        ("fecha,detalle", "01/02/2024,Luz", "fecha"),
        ("id,n", "a7,1", "id"),
        ("n,m", "1,2", "n"),
    ],
)
def test_the_key_column_is_found(header: str, row: str, key: str) -> None:
    with read_table(f"{header}\n{row}\n".encode(), LoadOptions(header=True)) as table:
        assert table.key_column == key
        assert (
            next(iter(table))[0] == dict(zip(header.split(","), row.split(","), strict=True))[key]
        )


def test_columns_without_names_are_called_key_and_value() -> None:
    content = "1,a,2\n2,b,3\n"

    assert columns("a,1\nb,2\n") == {"value": "number"}
    assert columns(content) == {"value1": "number", "value2": "number"}
    assert load(content) == [("a", (1, 2)), ("b", (2, 3))]
    assert load(content, key="column 3", columns={"value1": "skip"}) == [
        ("2", ("a",)),
        ("3", ("b",)),
    ]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("key,v\na,1\nb,2\n", {"attributes": ["key"]}, "'key' is an attribute"),
        ("city,v\na,1\nb,2\n", {"attributes": ["city"]}, "'city' is an attribute"),
        ("year,v\n7,1\n8,2\n", {"attributes": ["year"]}, "'year' is an attribute"),
        ("key,v\na,1\nb,2\n", {"columns": {"key": "skip"}}, "'key' is left out"),
        ('[{"key": "a", "v": 1}]', {"attributes": ["key"]}, "'key' is an attribute"),
        ('[{"key": "a", "v": [1, 2]}]', {"attributes": ["key"]}, "'key' is an attribute"),
    ],
)
def test_numbers_are_no_keys_only_because_a_likelier_column_is_something_else(
    content: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load(content, **options)
    (fault,) = caught.value.faults
    assert (fault.where, fault.message) == (
        "key",
        f"{said}, and no column of text is left for the keys, only 'v'; "
        "name the column of keys with the option key",
    )
    if "[" not in content:
        assert len(load(content, key="v", **options)) == 2  # who says so may have them


def test_a_column_of_parquet_that_is_left_out_for_its_name_leaves_no_numbers_for_keys() -> None:
    content = parquet(pa.table({"name": ["a"], "v": [1]}))

    with pytest.raises(InvalidRequest, match="'name' is left out, and no column of text is left"):
        load(content, columns={"name": "skip"})


def test_other_keys_are_taken_where_the_likeliest_is_an_attribute() -> None:
    text, id_ = "key,city,v\na,x,1\nb,y,2\n", "name,id,v\na,7,1\nb,8,2\n"

    assert load(text, attributes=["key"]) == [("x", ("a", 1)), ("y", ("b", 2))]
    assert load(id_, attributes=["name"]) == [("7", ("a", 1)), ("8", ("b", 2))]
    assert load("sku,year,v\n1,7,1\n2,8,2\n", attributes=["year"])[0] == ("1", (7, 1))
    with pytest.raises(InvalidRequest, match="'v' holds the keys, which are text; if it does not"):
        load("key,v\na,1\n", key="v", columns={"v": "number"})


def test_keys_of_other_types_become_their_text() -> None:
    when = datetime.date(2024, 2, 29)

    assert load('[{"key": 7, "v": 1}, {"key": 1.5, "v": 2}]') == [("7", (1,)), ("1.5", (2,))]
    assert load(parquet(pa.table({"key": [when], "v": [1]}))) == [("2024-02-29", (1,))]


def test_a_key_that_is_a_date_may_be_no_longer_than_others() -> None:
    content = parquet(pa.table({"key": [datetime.date(2024, 2, 29)], "v": [1]}))
    message = "the key that begins '2024-02-29' has 10 characters; at most 5 are allowed"

    assert list(bad_rows(content, max_key_length=5)) == [BadRow(1, message)]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("key,v\n ,1\n", [BadRow(2, "the key is empty")]),
        (
            '[{"key": NaN, "v": 1},\n{"key": Infinity, "v": 1}]',
            [
                BadRow(1, "entry 1: there is no key in column 'key'"),
                BadRow(2, "entry 2: there is no key in column 'key'"),
            ],
        ),
        (
            "key,v\naaaa,1\n",
            [BadRow(2, "the key that begins 'aaaa' has 4 characters; at most 3 are allowed")],
        ),
        ('[{"key": true, "v": 1}]', [BadRow(1, "entry 1: a key is text, not a boolean: true")]),
        ('[{"key": ["a"], "v": 1}]', [BadRow(1, 'entry 1: a key is text, not a list: ["a"]')]),
        (
            '[{"key": "a", "v": 1},\n{"v": 2}]',
            [BadRow(2, "entry 2: there is no key in column 'key'")],
        ),
        (
            "[[null, 1],\n[null, 2]]",
            [
                BadRow(1, "entry 1: there is no key in column 'key'"),
                BadRow(2, "entry 2: there is no key in column 'key'"),
            ],
        ),
        ("[[null, null]]", [BadRow(1, "entry 1: there is no key in column 'key'")]),
        (
            '{"\\ud800": 1}',
            [BadRow(1, "entry 1: the key holds half a surrogate pair, which is no character")],
        ),
    ],
)
def test_a_key_that_cannot_be_is_a_bad_row(content: str, rows: list[BadRow]) -> None:
    assert list(bad_rows(content, max_key_length=3)) == rows


def test_an_object_of_json_is_called_one() -> None:
    value = bad_rows('[{"key": "a", "v": {"x": 1}}]', "a.json")
    key = bad_rows('[[{"x": 1}, 1]]', "a.json")

    assert value[0].reason == (
        "entry 1: column 'v': {\"x\": 1} is an object, not a label or text; "
        "leave it out with the type 'skip' in the option columns"
    )
    assert key[0].reason == 'entry 1: a key is text, not an object: {"x": 1}'
    half = bad_rows(r'[{"key": "a", "v": "\ud800"}]', "a.json")  # of which no advice is said
    assert half[0].reason == "entry 1: column 'v': the text holds half a surrogate pair"


def test_what_to_do_about_nested_json_is_said_once_of_each_column() -> None:
    rows = [{"key": key, "user": {"login": "ana"}, "labels": ["bug"]} for key in "abc"]

    reasons = [row.reason for row in bad_rows("".join(f"{json.dumps(row)}\n" for row in rows))]

    advice = "leave it out with the type 'skip' in the option columns"
    assert [reason.count(advice) for reason in reasons] == [2, 0, 0]
    assert (
        reasons[1]
        == reasons[2]
        == (
            'column \'user\': {"login": "ana"} is an object, not a label or text; '
            "column 'labels': [\"bug\"] is a list, not a label or text"
        )
    )


@pytest.mark.parametrize(
    "content",
    [
        '[{"key": "a", "v": 1, "tags": ["x"]}]',
        '[{"key": "a", "v": 1, "tags": []}]',
        '{"a": {"v": 1, "tags": {"x": 1}}}',
    ],
)
def test_a_column_of_nested_json_can_be_left_out_as_is_said(content: str) -> None:
    assert "leave it out with the type 'skip' in the option columns" in bad_rows(content)[0].reason
    assert load(content, columns={"tags": "skip"}) == [("a", (1,))]


def test_an_object_that_is_the_table_inside_a_document_is_to_be_taken_out_of_it() -> None:
    (row,) = bad_rows('{"base": "EUR", "rates": {"USD": 1.1, "GBP": 0.85}}')

    said = "a key with an object, where the first entry is a key with a value"
    assert row.reason == f"entry 2: {said}; if that is the table, load it by itself"
    (row,) = bad_rows('{"USD": {"v": 1.1}, "date": "today"}')
    assert row.reason.endswith("a key with a value, where the first entry is a key with an object")


@pytest.mark.parametrize("rows", [[{"word": "a", "v": 1}], [["a", 1], ["b", 2]]])
def test_a_table_inside_a_document_is_to_be_taken_out_of_it(rows: list[Any]) -> None:
    (row,) = bad_rows(json.dumps({"count": 2, "next": None, "results": rows}), "x.json")

    assert row.reason.startswith("entry 3: column 'value': [")
    assert "is a list, not a label or text; if that is the table, load it by itself" in row.reason
    assert load(json.dumps(rows), "x.json")[0] == ("a", (1,))


def test_the_key_check_of_puts_is_the_one_of_loads() -> None:
    assert check_key(" a/ñ🙂 ", 6) == " a/ñ🙂 "
    for key in ("", " \t", "a" * 6 + "b", "\udc00", 7, True, None):
        with pytest.raises(InvalidKey):
            check_key(key, 6)


# JSON


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1, "b": 2.5}', [("a", (1,)), ("b", (2.5,))]),
        ('{"a": {"x": 1, "y": "u"}, "b": {"y": "v"}}', [("a", (1, "u")), ("b", (None, "v"))]),
        ('[["a", 1], ["b", null]]', [("a", (1,)), ("b", (None,))]),
        ('[["a", {"x": 1}], ["b", null]]', [("a", (1,)), ("b", (None,))]),
        ('{"a": [1, 2], "b": [3.5, 4]}', [("a", ((1.0, 2.0),)), ("b", ((3.5, 4.0),))]),
        ('["a", "b"]', [("a", ()), ("b", ())]),
        ('{"a": null, "b": 1}', [("a", (None,)), ("b", (1,))]),
        ('{"a": ""}', [("a", ("",))]),
        ('{" a ": 1}', [(" a ", (1,))]),
        ('{"a": "12"}', [("a", ("12",))]),
        (
            '[{"word": "a", "v": 1, "w": 2}, {"w": 4, "word": "b"}]',
            [("a", (1, 2)), ("b", (None, 4))],
        ),
    ],
)
def test_each_shape_of_json_is_read(content: str, expected: Rows) -> None:
    assert load(content) == expected


def test_a_value_called_key_beside_the_real_one_is_kept() -> None:
    with read_table(b'{"a": {"key": "x"}}') as table:
        assert (table.key_column, table.columns) == ("entry", (Column("key", "text"),))
        assert list(table) == [("a", ("x",))]


json_values = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(-1e150, 1e150),
    st.none(),
)
keys = (
    st.text(st.characters(codec="utf-8"), min_size=1)
    .map(lambda key: unicodedata.normalize("NFC", key))
    .filter(lambda key: not key.isspace())
)


@given(st.dictionaries(keys, json_values, min_size=1), st.sampled_from([None, 2]), st.booleans())
def test_json_is_what_the_json_module_wrote(
    entries: dict[str, Any], indent: int | None, escaped: bool
) -> None:
    content = json.dumps(entries, indent=indent, ensure_ascii=escaped).encode()

    with read_table(
        content,
        LoadOptions(
            columns={"value": "number"}
            if any(value is not None for value in entries.values())
            else {}
        ),
    ) as table:
        got = {key: values[0] if values else None for key, values in table}

    assert got == entries
    assert list(got) == list(entries)
    assert [type(value) for value in got.values()] == [type(value) for value in entries.values()]


@pytest.mark.parametrize("part", [*range(1, 40, 3), 100, 300])
def test_json_is_read_alike_in_parts(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = "[1.5e+3, -12.25, 3, -0, 100E-2, 2e2]"
    pairs = [
        f'"a{number} \\ud83d\\ude00 \\" ñ" : {{"v": {numbers}, "n": {number}.5e+1, "t": "x"}}'
        for number in range(9)
    ]
    content = "{ " + " ,\n".join(pairs) + " }"
    monkeypatch.setattr(json_rows, "PART", part)

    assert load(content, "x.json")[8] == ('a8 😀 " ñ', ((1500, -12.25, 3, 0, 1, 200), 85, "x"))
    for cut in range(1, len(content), 7):
        told = set()
        for size in (part, 1 << 16):
            monkeypatch.setattr(json_rows, "PART", size)
            with pytest.raises(UnreadableSource) as caught:
                read_table(content[:cut].encode(), filename="x.json")
            told.add(str(caught.value))
        assert len(told) == 1


@pytest.mark.parametrize(
    ("content", "place"),
    [('{"a": 1, "b": [%s]}', 15), ('["a", [%s]]', 7), ('["a", "%s"]', 7), ('{"%s": 1}', 2)],
)
def test_an_entry_of_json_is_no_longer_than_a_line(
    content: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of the decoder holds all threads up: 20 million lists, for 13 seconds."""
    monkeypatch.setattr(json_rows, "PART", 64)
    monkeypatch.setattr(json_rows, "LONGEST_LINE", 4_096)
    load('[["a", "' + 4_000 * "x" + '"]]', "x.json")
    message = f"x.json: the entry at character {place} is longer than 4,096 characters"

    with pytest.raises(UnreadableSource, match=message):
        read_table((content % ",".join(3_000 * "1")).encode(), filename="x.json")


def test_the_name_that_an_object_of_many_holds_twice_is_found() -> None:
    names = ", ".join(f'"{number}": 1' for number in [*range(60_000), 59_999])

    assert list(bad_rows('{"k": "a"}\n{' + names + "}\n", "x.jsonl")) == [
        BadRow(2, "the object holds '59999' twice")
    ]


def test_faults_of_json_lines_are_told_by_line() -> None:
    content = '{"k":"a","v":1}\n\nnope\n{"k":"b","v":}\n{"k":"c","k":"d"}\n[1,2,3]\n7\n"x"\nnull\n'

    assert list(bad_rows(content + "[" * 100_000 + "\n" + "1" * 5_000, "x.jsonl")) == [
        BadRow(3, "not JSON: Expecting value at column 1"),
        BadRow(4, "not JSON: Expecting value at column 14"),
        BadRow(5, "the object holds 'k' twice"),
        BadRow(6, "a list that is no pair, where an object, a pair or text is expected"),
        BadRow(7, "a number, where an object, a pair or text is expected"),
        BadRow(8, "text, where the first entry is an object"),
        BadRow(9, "null, where an object, a pair or text is expected"),
        BadRow(10, "the JSON is nested too deep"),
        BadRow(11, "an integer of thousands of digits"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_line_of_json_that_is_cut_short_is_told_where_it_ends(end: str) -> None:
    content = f'{{"k":"a","v":1}}\n{{"k":"b"{end}'

    assert list(bad_rows(content, "x.jsonl")) == [
        BadRow(2, "not JSON: Expecting ',' delimiter at column 9")
    ]


# Types


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "+3.5", "1e3", ".5", "5."], "number"),
        (["1", "", "NA", "n/a", "NaN", "null", "None", "-"], "number"),
        (["1", "#N/A", "#N/D", "#NV", "<NA>"], "number"),  # of spreadsheets and of pandas
        (["1", r"\N"], "number"),  # of MySQL and PostgreSQL
        (["1", "–", "—", "n.d.", "s/d", "k.A.", "n. a."], "number"),  # of statistics, in print
        (["1", ".", "..", "...", "…", ":"], "number"),  # and of their offices
        (["1", "ND", "s. d.", "--"], "number"),
        (["1", "#REF!"], "text"),  # no gap, but a fault
        (["1", "#¡REF!"], "text"),
        (["1"] * 19 + ["x"], "number"),  # 95 % of 20
        (["1"] * 18 + ["x"], "category"),  # 95 %, but of 19
        (["1"] * 15 + ["x"], "category"),
        (["1"] * 18 + ["x", "y"], "category"),  # 90 %
        (["007", "1", "2"], "text"),  # a code would lose its zeros
        (["9007199254740993", "1", "2"], "text"),  # and this one its last digit
        (["1_000", "2"], "text"),
        (["+34600123456", "+1"], "text"),  # a telephone number would lose its sign
        (["+12345678", "+1"], "text"),
        (["+1234567", "+1"], "number"),
        (["1." + "0" * 62, "2"], "number"),
        (["1." + "0" * 63, "2"], "text"),
        (["912 345 678", "600 123 456"], "text"),  # likewise its spaces
        (["1 234,5", "12 34,5"], "text"),
        (["600.123.456", "611.222.333"], "text"),  # or its points
        (["600.123.456", "611222333"], "text"),
        (["600.123.456", "1.234.567"], "number"),
        (["600.123.456 €", "611.222.333 €"], "number"),
        (["12 500", "1 234", "7"], "number"),  # not as many digits as a telephone number has
        (["2 161 000", "342 669"], "number"),
        (["+34 600 123", "7"], "text"),
        (["12 34", "1 2345"], "text"),
        (["12,50-", "7,10"], "number"),  # of SAP
        (["2-", "3-"], "text"),  # a German mark
        (["(12,50)", "7,10", "(1.234,50)"], "number"),  # of bookkeepers
        (["(2)", "(3)", "(1) 5,00", "((5,00))"], "text"),  # notes
        (["١", "٢"], "text"),
        (["inf", "1e999"], "text"),
        (["5e1234"], "text"),  # a code that no number is as great as
        (["9007199254740992", "1"], "number"),
        (["[1, 2]", "[3, 4]"], "vector"),
        (["[1, 2]", "[3]"], "text"),
        (["[1, true]", "[]"], "text"),
        (["a", "b", "a", "b"], "category"),
        (["a", "b", "a"], "text"),
        (["a", "a"], "category"),
        (["a" * 101] * 10, "text"),
        (["NA", "NA", "x", "x"], "category"),
        (["", ""], "undecided"),
    ],
)
def test_a_column_of_text_cells_has_its_type(cells: list[str], kind: str) -> None:
    written = io.StringIO()
    csv.writer(written).writerows(
        [["key", "v"], *[(f"k{n}", cell) for n, cell in enumerate(cells)]]
    )

    assert columns(written.getvalue(), on_error="skip") == {"v": kind}


class NaTType(datetime.datetime):
    """Is a point in time to Python, and none, as the NaT of pandas."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = datetime.datetime.__hash__


class NAType:
    """Is equal to nothing, not even unequal to anything, as the NA of pandas."""

    def __eq__(self, other: object) -> object:  # type: ignore[override]
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "<NA>"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5, None], "number"),
        ([True, False, None], "category"),
        ([True], "category"),
        (["1", "2"], "text"),
        ([1, "a"], "text"),
        ([2**60, 1], "text"),
        ([[1, 2], [3, 4], None], "vector"),
        ([[1, 2], "a"], "vector"),  # half of them: the other is a wrong value
        ([[1, 2], "a", "b"], "text"),
        (["a", "a", "b", "b"], "category"),
        ([list(np.array([1, 2])), [np.float32(0.5), Fraction(1, 2)]], "vector"),
        ([np.True_, np.False_], "category"),
        ([np.timedelta64(3, "ns")], "text"),
        ([1, float("nan"), 2], "number"),
        ([1, NAType()], "number"),
        ([NaTType(1, 1, 1), [1, 2]], "vector"),
        ([None], "undecided"),
    ],
)
def test_a_column_of_python_values_has_its_type(values: list[Any], kind: str) -> None:
    width = 2 if kind == "vector" else None

    assert infer_columns([{"v": value} for value in values]) == (Column("v", kind, width),)  # type: ignore[arg-type]


def test_infer_columns_takes_numpy_and_keeps_the_order_of_appearance() -> None:
    rows: list[dict[str, Any]] = [
        {"b": np.float32(1.5), "a": np.array([1, 2])},
        {"c": decimal.Decimal("1.5"), "b": np.int64(3)},
    ]

    assert infer_columns(rows) == (
        Column("b", "number"),
        Column("a", "vector", 2),
        Column("c", "number"),
    )


def test_one_text_among_many_numbers_makes_labels_in_python_and_a_bad_row_in_a_file() -> None:
    rows: list[dict[str, Any]] = [{"v": n} for n in range(99)] + [{"v": "x"}]
    content = "".join(f"k{n},{row['v']}\n" for n, row in enumerate(rows))

    assert infer_columns(rows) == (Column("v", "text"),)
    assert list(bad_rows(content)) == [BadRow(100, "column 'value': 'x' is not a number")]


@pytest.mark.parametrize(
    ("delimiter", "cells", "numbers"),
    [
        (";", ["1,5", "2", "-0,25"], [1.5, 2, -0.25]),
        (";", ["1.234,56", "7"], [1234.56, 7]),
        (";", ["1.234.567", "7"], [1234567, 7]),
        (",", ["1,234.56", "7"], [1234.56, 7]),
        (",", ["1,234", "300"], [1234, 300]),
        (";", ["1.234", "300"], [1234, 300]),
        (";", ["1,234", "2,345"], [1.234, 2.345]),
        ("|", ["1.234", "300"], [1.234, 300]),
        (";", ["1.234", "0.5"], [1.234, 0.5]),
        (";", ["1.234", "0,5"], [1234, 0.5]),
        (";", ["0,125", "1,234"], [0.125, 1.234]),
        (";", ["1\xa0234,56", "7"], [1234.56, 7]),  # French, with the spaces of spreadsheets
        (";", ["1\u202f234\u202f567", "-1\u202f000", "7"], [1234567, -1000, 7]),
        (";", ["1 234,56", "-12 000,00", "7,5"], [1234.56, -12000.0, 7.5]),
        (";", ["1\u2009234\u2009567", "1 200", "7"], [1234567, 1200, 7]),
        (";", ["1'234.50", "2’000.00", "7"], [1234.5, 2000.0, 7]),  # Swiss
        (";", ["1.234,50-", "12,00", "1 000,25-"], [-1234.5, 12.0, -1000.25]),  # of SAP
        (",", ["\u22125.5", "3"], [-5.5, 3]),  # a minus in print
        (",", ["12,34,567.5", "-1,00,000", "7"], [1_234_567.5, -100_000, 7]),  # Indian
        (",", ["255,00,00", "1,2,345"], None),
        ("|", ["1,234", "2,345"], None),  # thousands or thousandths? It stays text
        (";", ["1,5", "1.5"], None),
        (";", ["1,5", "1e5", "2E+03"], [1.5, 1e5, 2e3]),  # which both styles write so
        (";", [",5", "-,25", "1E5", "12e-5"], [0.5, -0.25, 1e5, 12e-5]),
        (";", ["1,234e5", "1.234e5"], None),
    ],
)
def test_the_style_of_numbers_is_that_of_the_column(
    delimiter: str, cells: list[str], numbers: list[float] | None
) -> None:
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter)
    writer.writerows([["key", "v"], *[(f"k{n}", cell) for n, cell in enumerate(cells)]])

    got = [values[0] for _, values in load(written.getvalue())]

    assert got == (numbers or cells)
    assert [type(value) for value in got] == [type(value) for value in numbers or cells]


@pytest.mark.parametrize(
    ("number", "other"),
    [("1,5", "0.500"), ("1.5", "0,500"), ("1,5", "-0.125.000"), ("1,5", "1.234e5")],
)
def test_a_number_of_the_other_style_is_a_bad_row_and_not_a_thousand_times_as_much(
    number: str, other: str
) -> None:
    content = "".join(f"k{n};{number}\n" for n in range(24)) + f"other;{other}\n"

    assert columns(content, on_error="skip") == {"value": "number"}
    assert list(bad_rows(content)) == [BadRow(25, f"column 'value': {other!r} is not a number")]


UNITS = [
    *("12,50 €|1.230,00 €|45 €", "€12.50|€1,230.00|€ 45", "EUR 12,50|EUR 1.230|EUR 45"),
    *("12.50 USD|1,230 USD|45 USD", "R$ 12,50|R$ 1.230|R$ 45", "12,5\u00a0%|1\u00a0230\u202f%|45%"),
    *("12,5 €|1 230 €|45 €", "S/ 12.50|S/ 1,230|S/45"),
    *("12.5‰|1230‰|45‰", "12,50€|1230,0€|45€", "US$12.50|US$1,230|US$45", "¥12.5|¥1,230|¥45"),
    *("12,50EUR|1.230,00EUR|45EUR", "12,50 zł|1 230,00 zł|45zł", "kr 12,50|kr 1.230|kr 45"),
    *("12,5 Kč|1 230 Kč|45Kč", "Rs 12.50|Rs 1,230|Rs 45", "₹12.50|₹1,230|₹45", "£12.50|£1,230|£45"),
]


@pytest.mark.parametrize("cells", UNITS)
def test_numbers_with_one_unit_are_numbers_in_that_unit(cells: str) -> None:
    content = "k|v\n" + "".join(
        f"{key}|{cell}\n" for key, cell in zip("abc", cells.split("|"), strict=True)
    )
    (unit,) = {"".join(c for c in cell if c not in "0123456789., \u00a0\u202f")
               for cell in cells.split("|")}  # fmt: skip

    assert load(content, key="k") == [("a", (12.5,)), ("b", (1230,)), ("c", (45,))]
    assert units(content, key="k") == {"v": {"EUR": "€", "US$": "USD"}.get(unit, unit)}


def test_a_column_in_a_currency_takes_it_by_its_other_name() -> None:
    for unit, cell in (("EUR", "7 €"), ("€", "EUR 7"), ("US$", "7 USD"), ("EUR/kg", "7 euros/kg")):
        column = Column("v", "number", unit=unit)
        with read_table(f"k,v\na,{cell}\n".encode(), expected=[column]) as table:
            assert (table.columns, list(table)) == ((column,), [("a", (7,))])


@given(
    st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1),
    st.sampled_from(["{} €", "€{}", "{}%", "USD {}", "{} CHF", "{}\u00a0$"]),
    st.booleans(),
)
def test_what_is_spelled_with_a_unit_is_read_as_it_is_without(
    numbers: list[decimal.Decimal], spelling: str, comma: bool
) -> None:
    spelled = [f"{number:,.2f}" for number in numbers]
    if comma:
        spelled = [each.translate(str.maketrans(",.", ".,")) for each in spelled]
    content = "k|v\n" + "".join(f"k{n}|{spelling.format(s)}\n" for n, s in enumerate(spelled))

    assert [value for _, (value,) in load(content)] == [float(number) for number in numbers]
    assert units(content) == {"v": spelling.replace("{}", "").strip()}


@pytest.mark.parametrize(
    ("cells", "kind", "unit"),
    [
        (["$5", "7", "$9"], "number", "$"),  # what has none is in that of the others
        (["$5", "7", "8"], "text", None),  # few have it
        (["$5", "7", "8", "$9"], "number", "$"),
        (["$5", "€7", "$9"], "text", None),
        (["$5", "US$7"], "text", None),
        (["$5"] * 19 + ["€7"], "number", "$"),
        (["5,50 €"] * 19 + ["$7.50"], "number", "€"),  # written in another style, too
        (["5 kg", "7kg", "8"], "number", "kg"),
        (["5 Kg", "7 KG"], "number", "kg"),
        (["5 kg", "7 g"], "text", None),
        (["505 990 km²", "357.022 km2", "-5 km²"], "number", "km²"),
        (["-3,5 °C", "21 °C", "20 ºC"], "number", "°C"),
        (["3º", "4º"], "text", None),
        (["120 km/h", "90km/h"], "number", "km/h"),
        (["5 m", "7 M"], "text", None),  # what they are millions of, nobody knows
        (["5 kg.", "7 kg/m"], "text", None),
        (["kg 5", "kg 7"], "text", None),
        (["A4", "A5"], "text", None),
        (["(5 kg)", "(7 kg)"], "text", None),
        (["5 euros", "18,90 Euro", "1 EURO", "7 €"], "number", "€"),
        (["3 dólares", "5 dollars", "1 Dollar", "$7", "2 dolares"], "number", "$"),
        (["2 euros/kg", "1,20 €/kg"], "number", "€/kg"),
        (["5 euros", "7 dollars"], "text", None),
        (["Euro 5", "Euro 6"], "text", None),  # of exhausts
        (["5 pounds", "7 libras"], "text", None),  # of money, or of apples
        (["5 pesos", "7 eurosas", "2 euro s"], "text", None),
        (["1,20 €/kg", "2 €/kg"], "number", "€/kg"),
        (["$5/h", "$7/h"], "text", None),
        (["5 EUR/m²", "7eur/m²"], "number", "€/m²"),
        (["5 €/kg", "7 €/l"], "text", None),
        (["5 €/kg", "7 €"], "text", None),
        (["5 €/2 kg", "5 %/kg", "5 /kg"], "text", None),
        (["CHF-12.50", "CHF 3.20"], "number", "CHF"),
        (["COP-26", "COP-27"], "text", None),
        (["TOP 10", "TOP 50"], "text", None),
        (["COP26", "COP27"], "text", None),
        (["5€ o 6€", "7€"], "text", None),
        (["€5€", "€7€"], "text", None),
        (["007 €", "008 €"], "text", None),
        (["€", "%"], "text", None),
        (["-", "5 %"], "number", "%"),
        (["-   €", "5 €"], "number", "€"),  # as spreadsheets print the zeros of bookkeepers
        (["$ -", "USD –", "$5"], "number", "$"),
        (["- kg", "5 €"], "text", None),
        (["−5 %", "+7 %"], "number", "%"),
        (["-$5", "$-7", "$ 8"], "number", "$"),
        (["10 %", "10 %", "20 %", "20 %"], "number", "%"),
        (["12 eur", "7eur", "5 EUR", "EUR 1", "EUR. 2", "3 €", "€4", "5 Euros"], "number", "€"),
        (["12 USD", "US$7", "5 usd"], "number", "USD"),
        (["12 GBP", "£7"], "number", "£"),
        (["12 EUR/kg", "7 €/kg"], "number", "€/kg"),
        (["12 JPY", "¥7"], "text", None),  # or Chinese
        (["kr. 5", "7 kr.", "9 kr"], "number", "kr"),
        (["5 zł", "7 kr"], "text", None),
        (["try 1", "try 2"], "text", None),  # no money before a number
        (["12 pers", "5 l"], "text", None),
        (["($5.00)", "$5"], "number", "$"),
        (["(5)", "(7)"], "text", None),
        (["(45 %)", "(7%)"], "text", None),
        (["5,-", "7,-"], "text", None),
    ],
)
def test_a_column_has_the_unit_of_most_of_its_numbers(
    cells: list[str], kind: str, unit: str | None
) -> None:
    content = "k|v\n" + "".join(f"k{n}|{cell}\n" for n, cell in enumerate(cells))

    assert columns(content, on_error="skip") == {"v": kind}
    assert units(content, on_error="skip") == {"v": unit}


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("(5 €)", -5),  # as bookkeepers write what is owed
        ("(€5.25)", -5.25),
        ("€(5.25)", -5.25),
        ("€ (5)", -5),
        ("(1,234.50) €", -1234.5),
        ("€ -5", -5),
        ("5.25- €", -5.25),
        ("€ 5.25-", -5.25),
        ("-5.25- €", None),
        ("5- €", None),
        ("5.- €", 5),
        ("€ 5.–", 5),
        ("(-5 €)", None),
        ("((5 €))", None),
        ("€ 5 (€)", None),
        ("1,-5 €", None),
        (".- €", None),
        ("5 - €", None),
    ],
)
def test_a_sum_of_money_is_read_as_people_write_it(cell: str, number: float | None) -> None:
    content = "".join(f"k{n}|{n}.50 €\n" for n in range(19)) + f"sum|{cell}\n"

    got = dict(load(content, on_error="skip"))

    assert units(content, on_error="skip") == {"value": "€"}
    assert got.get("sum") == (None if number is None else (number,))


def test_a_minus_may_stand_behind_the_code_of_a_currency_as_in_switzerland() -> None:
    content = "Käse;CHF 3.20\nGutschrift;CHF-12.50\nWein;CHF-1'234.50\nBrot;CHF 45.–\n"

    assert load(content) == [
        ("Käse", (3.2,)),
        ("Gutschrift", (-12.5,)),
        ("Wein", (-1234.5,)),
        ("Brot", (45,)),
    ]


@pytest.mark.parametrize(
    ("content", "guessed", "wanted", "numbers"),
    [
        ("Madrid;40.416\nPozo;-3.703\n", [40416, -3703], "point", [40.416, -3.703]),
        ("Brot\t1.100\nWein\t2.500\n", [1.1, 2.5], "comma", [1100, 2500]),
        ("Brot|1,100\nWein|2,500\n", ["1,100", "2,500"], "comma", [1.1, 2.5]),
        ("Brot,1.100\nWein,2.5\n", [1.1, 2.5], "point", [1.1, 2.5]),
    ],
)
def test_who_knows_it_says_what_stands_before_decimals(
    content: str, guessed: list[Any], wanted: Any, numbers: list[float]
) -> None:
    assert [value for _, (value,) in load(content)] == guessed
    assert [value for _, (value,) in load(content, decimal=wanted)] == numbers
    assert detected(content, decimal=wanted)["decimal"] == wanted


def test_measures_may_name_columns() -> None:
    content = "atleta,100 m,200 m\nAna,11.5,23.1\nEva,11.9,24.0\n"

    assert columns(content) == {"100 m": "number", "200 m": "number"}
    assert load("pieza,3 kg\ntuerca,5 kg\n") == [("pieza", (3,)), ("tuerca", (5,))]


@pytest.mark.parametrize("named", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "content",
    [
        "clavé,precío,año\nsofá,7,5\n",
        '[{"clavé": "sofá", "precío": 7, "año": 5}]',
        '{"clavé": "sofá", "precío": 7, "año": 5}\n' * 2,
        [{"clavé": "sofá", "precío": 7, "año": 5}],
    ],
)
def test_a_column_is_named_with_the_accents_that_are_typed(content: Any, named: str) -> None:
    def spelled(text: str, form: str = named) -> str:
        return unicodedata.normalize(form, text)

    if isinstance(content, str):
        source = spelled(content, "NFD").encode()
    else:
        rows = [{spelled(name, "NFD"): cell for name, cell in row.items()} for row in content]
        source = parquet(pa.Table.from_pylist(rows))
    options = LoadOptions(
        key=spelled("clavé"),
        columns={spelled("precío"): "text"},
        attributes=(spelled("año"),),
        duplicates="last",
    )

    with read_table(source, options) as table:
        assert table.columns == (Column("precío", "text"), Column("año", "number", attribute=True))
        assert (table.key_column, list(table)) == ("clavé", [("sofá", ("7", 5))])


def test_an_old_export_whose_names_have_their_accents_apart_comes_back_as_it_was() -> None:
    apart = unicodedata.normalize("NFD", "año")
    held = (Column(apart, "category"), Column("n", "number", attribute=True, unit="€"))
    entry = Entry("a", {apart: "7", "n": 5}, 0.0)
    content = b"".join(write_table("parquet", "k", held, [entry]))

    with read_table(content) as table:
        assert table.columns == (replace(held[0], name="año"), held[1])


@pytest.mark.parametrize("text", ['[{"k": "a", "ñ": 1, "n\u0303": 2}]', "k,ñ,n\u0303\na,1,2\n"])
def test_two_columns_whose_names_look_alike_are_one_column_named_twice(text: str) -> None:
    with pytest.raises((BadRows, UnreadableSource), match=r"'ñ'.*twice"):
        load(text)


def test_letters_and_marks_apart_are_the_ones_that_are_typed() -> None:
    content = "k,pasillo,nota\nsofá,salón,mañana\ncafé,salón,pronto\n"
    apart = unicodedata.normalize("NFD", content)
    assert apart != content

    assert load(apart, columns={"pasillo": "category", "nota": "text"}) == [
        ("sofá", ("salón", "mañana")),
        ("café", ("salón", "pronto")),
    ]


def test_a_unit_with_its_accent_apart_is_the_one_that_is_typed() -> None:
    content = unicodedata.normalize("NFD", "k;v;w\na;5 Kč;3 dólares\nb;7 Kč;4 dólares\n")

    with read_table(content.encode()) as table:
        assert table.columns == (Column("v", "number", unit="Kč"), Column("w", "number", unit="$"))
        assert list(table) == [("a", (5, 3)), ("b", (7, 4))]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_gap_with_its_accent_apart_is_the_one_that_is_typed(form: Any) -> None:
    content = unicodedata.normalize("NFD", "k;a\nx;1\ny;véase\n")

    missing = (unicodedata.normalize(form, "véase"),)
    assert load(content, missing=missing) == [("x", (1,)), ("y", (None,))]


def test_a_key_with_its_accent_apart_stands_twice_where_it_stands_together_too() -> None:
    with pytest.raises(BadRows, match="line 3: the key 'café' came on line 2 already"):
        load(f"k,n\ncafé,1\n{unicodedata.normalize('NFD', 'café')},2\n")


def test_columns_in_two_styles_are_mixed() -> None:
    content = "k|a|b\nx|1,5|1.75\ny|2,5|7\n"

    assert load(content) == [("x", (1.5, 1.75)), ("y", (2.5, 7))]
    assert detected(content)["decimal"] == "mixed"
    assert columns(content, decimal="comma") == {"a": "number", "b": "text"}
    assert "decimal" not in detected("k|a\nx|hola\n")


LIKE = "is not a number like the others"
GAP = "; if it says that there is none, name it in the option missing"
SPOILED = "would be spoiled as a number"
WANTED = "; if numbers are wanted, name that type in the option columns"
UNCLEAR = (
    "whether its points or commas are of thousands or of decimals cannot be told; say which with "
    "the option decimal"
)
PRICES = "".join(f"k{n};{n},50 €\n" for n in range(9))


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        (
            "k;a;b\nx;0,95 €;y\ny;consultar;n\nz; gratis ;y\nw;2 €;n\n",
            [
                f"'a' is text: on line 3, 'consultar' {LIKE}, nor is 'gratis' on line 4; if "
                "'consultar' or 'gratis' says that there is none, name it in the option missing"
            ],
        ),
        (
            "k;a\nx;5 €\ny;gratis\nz;gratis\nw;7 €\n",
            [f"'a' is text: on line 3, 'gratis' {LIKE}{GAP}"],
        ),
        (
            f"k;a\n{PRICES}x;gratis\ny;5 $\nz;45,00 €/mes\nw; gratis\nv;no\nu;sí\nt;no\n",
            [
                f"'a' is text: on line 11, 'gratis' {LIKE}, nor are '5 $' on line 12, "
                "'45,00 €/mes' on line 13 and 3 more cells"
                "; if 'gratis' says that there is none, name it in the option missing"
            ],
        ),
        (
            "k;a\nx;5 €\ny;18,90 pesetas antiguas\n",  # a price, and none that is missing
            [f"'a' is text: on line 3, '18,90 pesetas antiguas' {LIKE}"],
        ),
        ("k;a\nx;1.250,00\ny;1.20\n", [f"'a' is text: on line 3, '1.20' {LIKE}"]),
        ("k;a\nx;5 €\ny;5 $\nz;7 €\n", [f"'a' is text: on line 3, '5 $' {LIKE}"]),
        (
            "k;a\nx;28001\ny;08001\nz;28002\n",
            [f"'a' is text: on line 3, '08001' {SPOILED}{WANTED}"],
        ),
        (
            "k,a\nx,007\ny,8\nz,9\nw,10\nv,+34600123456\nu,no\n",
            [
                f"'a' is text: on line 2, '007' {SPOILED}, as would '+34600123456' on line 6"
                f"{WANTED}",
                f"'a' is text: on line 7, 'no' {LIKE}{GAP}",
            ],
        ),
        (
            "k,a\nx,1\ny,2\nz,9007199254740993\n",  # which no number holds, wanted or not
            [f"'a' is text: on line 4, '9007199254740993' {SPOILED}"],
        ),
        ("k;a\nx;08001\ny;08002\nz;28002\n", []),  # most are codes
        ("k;a\nx;5\ny;no\nz;nunca\n", []),  # most are labels
        ("k;a\nx;5\ny;\nz;-\n", []),
    ],
)
def test_it_says_which_cell_kept_a_column_from_being_numbers(
    content: str, notes: list[str]
) -> None:
    with read_table(content.encode()) as table:
        assert list(table.notes) == notes
    with read_table(content.encode(), LoadOptions(columns={"a": "text"})) as table:
        assert table.notes == ()  # who asked for it need not be told


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        ('["x", 1]\n["y", 2]\n["z", "x"]\n', [f"on line 3, 'x' {LIKE}{GAP}"]),
        ('["x", 1]\n["y", 2]\n["z", true]\n', [f"on line 3, true {LIKE}"]),
        ('[["x", 1], ["y", 2], ["z", "no"]]', [f"in entry 3, 'no' {LIKE}{GAP}"]),
        ('{"x": 1, "y": 2, "z": "7"}', [f"in entry 3, '7' {LIKE}; write numbers without quotes"]),
        ('{"x": 1, "y": 2, "z": 9007199254740993}', [f"in entry 3, 9007199254740993 {SPOILED}"]),
        ('{"x": "5 €", "y": "7 €", "z": "5 $"}', [f"in entry 3, '5 $' {LIKE}"]),
        ('{"x": "a", "y": "b", "z": 5}', []),
        ('{"x": "7", "y": "8"}', []),  # texts, as JSON says itself
        ('{"x": true, "y": false}', []),
    ],
)
def test_it_says_which_value_of_json_kept_a_column_from_being_numbers(
    content: str, notes: list[str]
) -> None:
    with read_table(content.encode()) as table:
        assert table.columns[0].type in ("category", "text")
        assert list(table.notes) == [f"'value' is {table.columns[0].type}: {n}" for n in notes]


def test_a_column_of_parquet_that_says_its_type_is_not_taken_for_numbers() -> None:
    keys, prices = list("abc"), ["5 €", "7 €", "gratis"]
    told = pa.table({"key": keys, "v": pa.array(prices).dictionary_encode()})

    with read_table(parquet(pa.table({"key": keys, "v": prices}))) as table:
        assert table.notes == (f"'v' is text: on line 3, 'gratis' {LIKE}{GAP}",)
    with read_table(parquet(told)) as table:
        assert table.notes == ()


def test_a_list_in_the_way_of_numbers_is_named_however_deep_it_is() -> None:
    deep = "[" * 900 + "]" * 900
    rows = ["1", "2", "[1, 2]", "[[3]]", deep, "3", "4", "5"]
    content = "".join(f'["k{number}", {row}]\n' for number, row in enumerate(rows))

    with read_table(content.encode(), LoadOptions(on_error="skip")) as table:
        (note,) = table.notes
        assert (table.bad_row_count, table.columns[0].type) == (3, "text")
    assert note.startswith(f"'value' is text: on line 3, [1, 2] {LIKE}, nor is [[3]] on line 4")


def test_who_loads_says_which_marks_are_gaps() -> None:
    content = "k;a;t\nx;0,95 €;uno\ny; consultar;consultar\nz;agotado;dos\n"

    given = ("consultar", "agotado")
    assert columns(content) == {"a": "text", "t": "text"}
    assert columns(content, missing=given) == {"a": "number", "t": "text"}
    assert load(content, missing=given) == [
        ("x", (0.95, "uno")), ("y", (None, None)), ("z", (None, "dos")),
    ]  # fmt: skip
    with pytest.raises(
        BadRows, match=r"line 3: the key is empty, or what the option missing names"
    ):
        read_table(content.encode(), LoadOptions(missing=("y",)))
    rows = b'[{"k": "x", "a": 1}, {"k": "y", "a": "consultar"}]'
    assert load(rows, missing=["consultar"]) == [("x", (1,)), ("y", (None,))]
    texts = b'{"x": "call", "y": "n.n.", "z": ""}'  # and a text of nothing is one
    assert load(texts, missing=["n.n."]) == [("x", ("call",)), ("y", (None,)), ("z", ("",))]
    with pytest.raises(InvalidRequest, match="missing: write a list of texts"):
        read_table(rows, LoadOptions(missing="consultar"))  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="missing: write a list of texts"):
        read_table(rows, LoadOptions(missing=(5,)))  # type: ignore[arg-type]


def test_labels_have_no_blanks_around_them_and_texts_keep_theirs() -> None:
    content = "k;tipo;nota\na; fresco;uno \nb;fresco;dos\nc;fresco\u00a0; tres\nd;seco;\n"

    assert columns(content) == {"tipo": "category", "nota": "text"}
    assert load(content) == [
        ("a", ("fresco", "uno ")),
        ("b", ("fresco", "dos")),
        ("c", ("fresco", " tres")),
        ("d", ("seco", None)),
    ]


def test_a_table_of_markdown_is_read_without_the_rule_under_its_header() -> None:
    content = "| Artículo | Precio | Nota |\n|---|---:|:---:|\n| leche | 1,20 € | a  b |\n"
    content += "| pan | 2 € |  |\n"

    assert load(content) == [("leche", (1.2, "a  b")), ("pan", (2, None))]
    assert load("k|v\n---|---\na|1\n") == [("a", (1,))]
    assert load("k;v\n---;5\na;1\n") == [("---", (5,)), ("a", (1,))]  # where nothing draws rules
    assert load("k|v\na|1\n-|-\nb|2\n") == [("a", (1,)), ("-", (None,)), ("b", (2,))]


@pytest.mark.parametrize("rule", ["|-|-|", "|--|--|", "| :-: | -: |", ":-|-", "| --- | --- |"])
def test_a_rule_of_markdown_may_be_short(rule: str) -> None:
    assert load(f"\n| sopa | n |\n{rule}\n| fideos | 1 |\n", filename="x.md") == [("fideos", (1,))]


def test_a_cell_of_markdown_may_hold_pipes_quotes_and_backslashes() -> None:
    content = '| k | nota |\n|---|---|\n| Arroz \\| pollo | "a" b |\n| C:\\dir | \\| |\n'

    assert load(content) == [("Arroz | pollo", ('"a" b',)), ("C:\\dir", ("|",))]


def test_a_table_of_markdown_has_a_header_though_it_has_one_column() -> None:
    assert load("| cosa |\n|---|\n| pan |\n| sal |\n") == [("pan", ()), ("sal", ())]


@pytest.mark.parametrize("pipes", ["| {} |", "{}", "| {}", "{} |"])
def test_a_row_of_markdown_with_too_many_cells_or_too_few_is_none_of_its_table(pipes: str) -> None:
    rows = [
        "key | price",
        "--- | ---",
        "leche | 0.95",
        "pan | blanco | 1.20",
        "sal",
        "té \\| x | 2",
    ]
    content = "".join(pipes.format(row) + "\n" for row in rows)

    wrong = bad_rows(content, "x.md")
    assert [row.line for row in wrong] == [4, 5]
    assert wrong[0].reason.startswith("3 cells, where the header has 2")
    assert load(content, on_error="skip") == [("leche", (0.95,)), ("té | x", (2,))]


def test_a_table_of_markdown_below_a_title_is_refused_with_its_line() -> None:
    table = "| key | price |\n|---|---|\n| leche | 0.95 |\n"

    with pytest.raises(UnreadableSource, match="line 3 seems to name the columns; delete the li"):
        load(f"# Prices\n\n{table}\nUpdated in May, again.\n", filename="x.md")
    assert load("a|1\nb|2\n-|-\nc|3\n") == [
        ("a", (1,)), ("b", (2,)), ("-", (None,)), ("c", (3,)),
    ]  # fmt: skip


@pytest.mark.parametrize("brackets", ["[{}]", "({})"])
def test_texts_that_are_all_different_are_no_category_though_most_are_lists(brackets: str) -> None:
    lists = (brackets.format(", ".join(map(str, range(n)))) for n in range(1, 10))
    rows = "".join(f'k{n};"{cell}"\n' for n, cell in enumerate([*lists, "none of them"]))

    with read_table(f"key;v\n{rows}".encode(), LoadOptions()) as table:
        assert [column.type for column in table.columns] == ["text"]


def test_a_round_sum_says_how_the_others_are_written() -> None:
    assert load("silla|1.234 €\nmesa|1.250,- €\n") == [("silla", (1234,)), ("mesa", (1250,))]


@pytest.mark.parametrize(
    ("content", "prices"),
    [
        ("piso;250.000 €\ncasa;180.000 €\n", [250_000, 180_000]),
        ("piso\t€250,000\ncasa\t€900\n", [250_000, 900]),
        ("piso;250.000 €\ncasa;180.5 €\n", [250, 180.5]),  # another shows what the points are
        ("piso,1.4590 €\ncasa,1.3890 €\n", [1.459, 1.389]),  # as an export has them
        ("piso;25.125 %\ncasa;18.125 %\n", [25.125, 18.125]),
        ("piso\t25,125 %\ncasa\t18,125 %\n", [25.125, 18.125]),
    ],
)
def test_money_has_no_three_decimals_where_commas_separate_nothing(
    content: str, prices: list[float]
) -> None:
    assert load(content) == [("piso", (prices[0],)), ("casa", (prices[1],))]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("pan;12,50 €;1.250 %\nvino;3,20 €;2.100 %\n", [(12.5, 1250), (3.2, 2100)]),
        ("pan;811 €;1.250 %\nvino;9.235 €;2.100 %\n", [(811, 1.25), (9235, 2.1)]),
        ("pan;1.250;1.250 %\nvino;2.100;980 %\n", [(1250, 1.25), (2100, 980)]),
        ("pan\t1250.50\t1,250%\nvino\t980.25\t980%\n", [(1250.5, 1250), (980.25, 980)]),
        ("pan;12,50 €;25.125 %\nvino;3,20 €;18.5 %\n", [(12.5, 25.125), (3.2, 18.5)]),
    ],
)
def test_shares_spoil_no_prices_and_are_read_as_these_where_they_tell(
    content: str, rows: list[tuple[float, float]]
) -> None:
    assert load(content) == [("pan", rows[0]), ("vino", rows[1])]


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("unit", ["€", "$", "kg", "€/l", "€/mes", "%"])
def test_numbers_of_three_decimals_come_back_from_every_export(fmt: str, unit: str) -> None:
    columns = [Column("v", "number", unit=unit), Column("w", "number", unit="€")]
    entries = [
        Entry("a", {"v": 1.459, "w": 2.125}, 0.0),
        Entry("b", {"v": 1.539, "w": 10.375}, 0.0),
    ]
    content = b"".join(write_table(fmt, "key", columns, entries))

    with read_table(content, filename=f"x.{fmt}") as table:
        assert list(table.columns) == columns
        assert list(table) == [("a", (1.459, 2.125)), ("b", (1.539, 10.375))]


@pytest.mark.parametrize(
    "content", ['{"b": "1.459 €"}', "key,v\nb,1.459 €\n", "key\tv\nb\t1.459 €\n"]
)
def test_a_price_that_may_be_of_thousands_is_added_once_that_is_known(content: str) -> None:
    d = SoftDict({"a": 1.5}, columns=[Column("v", "number", unit="€")], encoder="random")

    with pytest.raises(BadRows, match=r"'1\.459 €' may have thousands or decimals; say which"):
        d.load(content.encode())
    assert dict(d) == {"a": 1.5}
    d.load(content.encode(), LoadOptions(decimal="point"))
    assert d["b"] == 1.459
    d.load(content.encode(), LoadOptions(decimal="comma"))
    assert d["b"] == 1459


def test_json_says_how_its_texts_with_a_unit_were_read() -> None:
    assert detected('{"a": "1.459 kg", "b": 7}')["decimal"] == "point"
    assert detected('{"a": "1.459 €", "b": "7,50 €"}')["decimal"] == "comma"
    assert detected('{"a": "1.459 €"}', decimal="comma")["decimal"] == "comma"
    assert load('{"a": "1.459 €"}', decimal="comma") == [("a", (1459,))]
    assert detected('[["a", {"x": "1.45 €", "y": "7,5 %"}]]')["decimal"] == "mixed"
    assert "decimal" not in detected(
        '{"a": "5 €", "b": 1.5}'
    )  # where nothing tells one or the other


def test_what_money_shows_holds_for_the_file() -> None:
    content = "piso;250.000 €;1.250\ncasa;180.000 €;90\n"

    assert load(content) == [("piso", (250_000, 1250)), ("casa", (180_000, 90))]
    assert detected(content)["decimal"] == "comma"


def test_the_point_of_soles_is_no_decimal_one() -> None:
    content = "key,v\na,S/.12\nb,S/. 12.50\nc,S/ 7\n"

    assert load(content) == [("a", (12,)), ("b", (12.5,)), ("c", (7,))]
    assert units(content) == {"v": "S/"}


def test_another_unit_than_the_columns_is_no_number_of_it() -> None:
    euros = "".join(f"k{n};{n} €\n" for n in range(20))

    assert list(bad_rows(f"key;v\n{euros}x;5 $\n")) == [
        BadRow(22, "column 'v': '5 $' is in $, and the column in €")
    ]
    assert list(bad_rows("key;v\na;1\nb;2\nx;5 $\n", columns={"v": "number"})) == [
        BadRow(4, "column 'v': '5 $' is in $, and the column has no unit")
    ]
    for expected, cell in [("€", "5"), ("€", "5 €"), (None, "5")]:
        column = Column("v", "number", unit=expected)
        with read_table(f"key,v\na,{cell}\n".encode(), expected=[column]) as table:
            assert (table.columns, list(table)) == ((column,), [("a", (5,))])
    with pytest.raises(BadRows, match=r"'5 %' is in %, and the column has no unit"):
        read_table(b"key,v\na,5 %\n", expected=[Column("v", "number")])


@pytest.mark.parametrize(
    ("cells", "kind", "unit", "values"),
    [
        (["$12.50", "$1,230", 7], "number", "$", [12.5, 1230, 7]),
        (["12,50 €", "1.230 €", 7.5], "number", "€", [12.5, 1230, 7.5]),
        (["1.4590 €", "1.5390 €"], "number", "€", [1.459, 1.539]),  # as an export has them
        (["1.459 €", "1.539 €"], "text", None, ["1.459 €", "1.539 €"]),  # thousands, or of a litre
        (["1.459 €/l", "1.539 €/l"], "number", "€/l", [1.459, 1.539]),
        (["1.459 €/L", "1.539 €/L"], "number", "€/L", [1.459, 1.539]),
        (["1.250 €/m²", "950 €/m²"], "text", None, ["1.250 €/m²", "950 €/m²"]),
        (["1.230 €", "1.250,00 €"], "number", "€", [1230, 1250]),
        (["$1.459", "$7.5"], "number", "$", [1.459, 7.5]),
        (["1.459 kg"], "number", "kg", [1.459]),
        (["18,90 euros", "1 euro", "5 €"], "number", "€", [18.9, 1, 5]),
        (["$1,230", "$2,500"], "number", "$", [1230, 2500]),
        (["10 %", None], "number", "%", [10, None]),
        (["0,5 %", "1.234 %"], "number", "%", [0.5, 1234]),
        (["12.50", "7"], "text", None, ["12.50", "7"]),  # JSON has numbers for these
        (["5 €", "7"], "text", None, ["5 €", "7"]),
        (["5 €", "5 $"], "text", None, ["5 €", "5 $"]),
        (["5 €", "cheap"], "text", None, ["5 €", "cheap"]),
        (["007 €", "5 €"], "text", None, ["007 €", "5 €"]),
    ],
)
def test_texts_of_json_are_numbers_where_they_have_a_unit(
    cells: list[object], kind: str, unit: str | None, values: list[object]
) -> None:
    content = json.dumps({str(number): cell for number, cell in enumerate(cells)})

    assert (columns(content), units(content)) == ({"value": kind}, {"value": unit})
    assert [row[1] for row in load(content)] == [(value,) for value in values]


def test_a_text_given_to_a_dictionary_is_never_a_number() -> None:
    d = SoftDict({"a": "5 €"}, encoder="random:1")

    assert (d.columns, d["a"]) == ((Column("value", "text"),), "5 €")


def test_a_row_with_a_price_is_no_header() -> None:
    assert load("silla;12,50 €\nmesa;30,00 €\n") == [("silla", (12.5,)), ("mesa", (30,))]


def test_another_column_settles_what_one_leaves_open() -> None:
    assert load("k;v;w\na;1.234;0,5\nb;2.345;1,5\n", key="k") == [
        ("a", (1234, 0.5)),
        ("b", (2345, 1.5)),
    ]


@pytest.mark.parametrize("odd", ["consultar", "5 $"])
def test_a_column_that_is_numbers_but_for_a_word_settles_another(odd: str) -> None:
    content = f"k;price;stock\na;0,35 €;1.200\nb;18,90 €;35\nc;{odd};12\n"

    assert dict(load(content)) == {
        "a": ("0,35 €", 1200),
        "b": ("18,90 €", 35),
        "c": (odd, 12),
    }
    given = {"columns": {"price": "number"}, "on_error": "skip"}
    assert dict(load(content, **given)) == {"a": (0.35, 1200), "b": (18.9, 35)}
    # Where columns of numbers speak, one that is half of words has no say.
    versions = "k;v;price;stock\na;2.5;1,5;1.200\nb;beta;2,5;35\n"
    assert dict(load(versions)) == {"a": ("2.5", 1.5, 1200), "b": ("beta", 2.5, 35)}


def test_a_type_that_is_given_wins_and_what_it_cannot_hold_is_bad() -> None:
    content = "key,n,m\na,007,1\nb,x,2\n"

    assert columns("key,n\na,1\n", columns={"n": "text"}) == {"n": "text"}
    assert load("key,n\na,1\n", columns={"n": "text"}) == [("a", ("1",))]
    assert load(content, columns={"n": "number", "m": "skip"}, on_error="skip") == [("a", (7,))]
    assert list(bad_rows(content, columns={"n": "number", "m": "vector"})) == [
        BadRow(2, "column 'm': '1' is text, not a list of numbers"),
        BadRow(
            3, "column 'n': 'x' is not a number; column 'm': '2' is text, not a list of numbers"
        ),
    ]
    assert load('{"a": "1.5", "b": ""}', columns={"value": "number"}) == [
        ("a", (1.5,)),
        ("b", (None,)),
    ]


def test_texts_that_spell_vectors_are_some_where_they_are_said_to_be() -> None:
    spelled = ["[1, 2]", "[3.5, 4]", "n/a"]
    lines = "\n".join(json.dumps({"key": f"k{n}", "v": v}) for n, v in enumerate(spelled))
    of_parquet = parquet(pa.table({"key": ["k0", "k1", "k2"], "v": spelled}))

    for content, filename in ((lines, "x.jsonl"), (of_parquet, "x.parquet")):
        assert columns(content, filename) == {"v": "text"}
        assert columns(content, filename, columns={"v": "vector"}) == {"v": "vector"}
        assert load(content, filename, columns={"v": "vector"}) == [
            ("k0", ((1, 2),)),
            ("k1", ((3.5, 4),)),
            ("k2", (None,)),
        ]


def test_vectors_of_the_rarer_width_are_bad_rows() -> None:
    assert list(bad_rows('{"a": [1, 2],\n"b": [3, 4],\n"c": [5],\n"d": [1, "x"]}')) == [
        BadRow(3, "entry 3: column 'value': the vector has 1 numbers, not 2"),
        BadRow(4, "entry 4: column 'value': 'x' is text, not a number"),
    ]


NUMBER, PAIR, TEXT = Column("v", "number"), Column("v", "vector", 2), Column("v", "text")


class Colour(str, enum.Enum):  # noqa: UP042 (of a StrEnum, str() is the text; of this, its name)
    RED = "red"
    ROT = "rot"


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        (7, NUMBER, 7),
        (7.0, NUMBER, 7.0),
        (np.int64(7), NUMBER, 7),
        (np.float32(0.5), NUMBER, 0.5),
        (decimal.Decimal("7"), NUMBER, 7),
        (decimal.Decimal("7.5"), NUMBER, 7.5),
        (2**53, NUMBER, 2**53),
        ([1, 2.5], PAIR, (1.0, 2.5)),
        (np.array([1, 2]), PAIR, (1.0, 2.0)),
        ("x", TEXT, "x"),
        (Colour.RED, TEXT, "red"),
        (np.str_("x"), TEXT, "x"),
        ("", TEXT, ""),
        (True, TEXT, "true"),
        (np.bool_(False), TEXT, "false"),
        (7, TEXT, "7"),
        (1.5, TEXT, "1.5"),
        (np.float64(1.5), TEXT, "1.5"),
        (datetime.datetime(2024, 1, 2, 3, 4), TEXT, "2024-01-02T03:04:00"),
        (None, NUMBER, None),
        (None, PAIR, None),
        (None, TEXT, None),
    ],
)
def test_a_value_is_cast_to_its_column(value: object, column: Column, expected: Value) -> None:
    got = cast_value(value, column)

    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("value", "column", "message"),
    [
        (True, NUMBER, "true is a boolean, not a number"),
        ("7", NUMBER, "'7' is text, not a number"),
        (float("nan"), NUMBER, "nan is not a finite number; None (null) is a missing value"),
        (float("-inf"), NUMBER, "-inf is not a finite number"),
        (decimal.Decimal("NaN"), NUMBER, "nan is not a finite number"),
        (decimal.Decimal("sNaN"), NUMBER, "nan is not a finite number"),
        (1.1e150, NUMBER, "1.1e+150 is beyond ±1e+150"),
        ([0, -1e200], PAIR, "-1e+200 is beyond ±1e+150"),
        (10**400, NUMBER, "an integer beyond ±2^53 is not exact"),
        (decimal.Decimal(2**53 + 1), NUMBER, "an integer beyond ±2^53 is not exact"),
        (decimal.Decimal("-1E+999999999"), NUMBER, "an integer beyond ±2^53 is not exact"),
        (Fraction(10**400), NUMBER, "is beyond ±1e+150"),
        (Fraction(10**400), TEXT, "is a Fraction, not a label or text"),
        (1j, NUMBER, "is a complex, not a number"),
        ([1], NUMBER, "is a list, not a number"),
        ([1], PAIR, "the vector has 1 numbers, not 2"),
        ([], PAIR, "the vector has 0 numbers, not 2"),
        ([1], Column("v", "vector"), "the column was made without a vector, and can hold none"),
        ([1, True], PAIR, "true is a boolean"),
        ([1, float("inf")], PAIR, "inf is not a finite number"),
        ("12", PAIR, "'12' is text, not a list of numbers"),
        (7, PAIR, "7 is a number, not a list of numbers"),
        ({"x": 1}, TEXT, "is an object, not a label or text"),
        (["a"], TEXT, "is a list, not a label or text"),
        (b"a", TEXT, "is binary, not a label or text"),
        (b"a" * 37, TEXT, "column 'v': b'" + "a" * 37 + "' is binary, not a label or text"),
        (b"a" * 38, TEXT, "column 'v': b'" + "a" * 35 + "… is binary, not a label or text"),
        (float("nan"), TEXT, "nan is a number, not a label or text; None (null) is a missing"),
        (decimal.Decimal("sNaN"), TEXT, "sNaN is a Decimal, not a label or text"),
        ("\ud800", TEXT, "half a surrogate pair"),
        (NaTType(1, 1, 1), TEXT, "is a NaTType, not a label or text; None (null) is a missing"),
        (NAType(), TEXT, "<NA> is a NAType, not a label or text; None (null) is a missing value"),
        (NAType(), NUMBER, "<NA> is a NAType, not a number; None (null) is a missing value"),
        (NAType(), PAIR, "<NA> is a NAType, not a list of numbers; None (null) is a missing value"),
        (np.timedelta64(3, "D"), TEXT, "3 days is a timedelta64, not a label or text"),
        (np.timedelta64(3, "ns"), NUMBER, "3 nanoseconds is a timedelta64, not a number"),
        (np.timedelta64("NaT", "s"), NUMBER, "NaT is a timedelta64, not a number; None (null) is"),
        ([np.timedelta64(3, "D"), 1], PAIR, "3 days is a timedelta64, not a number"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_refused(
    value: object, column: Column, message: str
) -> None:
    with pytest.raises(WrongValue) as caught:
        cast_value(value, column)
    assert str(caught.value).startswith("column 'v': ")
    assert message in str(caught.value)


def test_a_text_that_is_a_member_of_an_enum_is_its_text_and_not_its_name(tmp_path: Path) -> None:
    red, rot = Colour.RED, Colour.ROT

    with SoftDict.open(tmp_path, encoder="random") as d:
        d.update({rot: red, "grün": "green"})
        kept = [dict(d), dict(SoftDict({rot: red, "grün": "green"}, encoder="random"))]
        found = d.search("x", where={"value": red}), d.search("x", where={"value": {"in": [red]}})
    with SoftDict.open(tmp_path) as d:
        kept.append(dict(d))
    for entries in kept:
        assert entries == {"rot": "red", "grün": "green"}
        assert {type(text) for entry in entries.items() for text in entry} == {str}
    assert [[match.key for match in answer.matches] for answer in found] == [["rot"], ["rot"]]


# Keys that repeat

REPEATED = (
    'key,n,label,v\na,1,x,"[1, 2]"\nb,5,w,"[0, 0]"\na,2,y,"[3, 4]"\na,,y,"[5, 9]"\nc,,,\nc,,,\n'
)


@pytest.mark.parametrize(
    ("policy", "first", "last"),
    [
        ("first", (1, "x", (1.0, 2.0)), (None, None, None)),
        ("last", (None, "y", (5.0, 9.0)), (None, None, None)),
        ("mean", (1.5, "y", (3.0, 5.0)), (None, None, None)),
    ],
)
def test_repeated_keys_become_one_entry_at_their_first_place(
    policy: Any, first: tuple[Value, ...], last: tuple[Value, ...]
) -> None:
    expected = [("a", first), ("b", (5, "w", (0.0, 0.0))), ("c", last)]
    with read_table(REPEATED.encode(), LoadOptions(duplicates=policy)) as table:
        assert (table.rows, table.entries, table.duplicates) == (6, 3, 3)
        assert list(table) == list(table) == expected


@given(st.lists(st.floats(-1e150, 1e150), min_size=2))
@example([0.1, 0.1, 0.1])
@example([1e16, 1.0, -1e16])
@example([1.2, 1.4])
def test_a_mean_is_the_exact_one_of_what_is_written_rounded_once(numbers: list[float]) -> None:
    exact = float(sum(Fraction(repr(number)) for number in numbers) / len(numbers))
    rows = json.dumps([["a", {"n": x, "v": [x]}] for x in numbers])
    options = LoadOptions(duplicates="mean", columns={"n": "number", "v": "vector"})

    with read_table(rows.encode(), options) as table:
        assert list(table) == [("a", (exact, (exact,)))]


def test_a_mean_has_no_digits_that_nobody_wrote() -> None:
    assert load("k;n\na;1,2\na;1,4\n", duplicates="mean") == [("a", (1.3,))]


def test_of_labels_that_are_as_frequent_the_first_wins() -> None:
    assert load("key,l\na,x\na,y\nb,z\n", duplicates="mean") == [("a", ("x",)), ("b", ("z",))]


def test_repeated_keys_are_bad_rows_where_they_are_errors() -> None:
    assert list(bad_rows("key,v\na,1\nb,2\n a ,3\n")) == [
        BadRow(4, "the key 'a' came on line 2 already")
    ]
    assert load("key,v\na,1\nb,2\na,3\n", on_error="skip") == [("a", (1,)), ("b", (2,))]
    assert list(bad_rows('{"a": 1, "b": 2, "a": 3}')) == [
        BadRow(1, "entry 3: the key 'a' came in entry 1 already")
    ]


def test_who_has_a_key_twice_is_told_of_the_option_for_it() -> None:
    correct = "Correct them, or load with on_error=skip"
    counts = ", or with duplicates=first, last or mean to say which one counts"

    with pytest.raises(BadRows) as caught:
        load("key,v\na,1\na,2\n")
    assert str(caught.value) == f"line 3: the key 'a' came on line 2 already. {correct}{counts}"
    with pytest.raises(BadRows) as caught:
        load("key,v\na,1\na,2\nb\n", duplicates="last")
    assert str(caught.value).endswith(f"(delimiter ','). {correct}")


def test_long_keys_that_differ_at_the_end_are_two() -> None:
    long = "a" * 9_000

    assert load(f"{long}x,1\n{long}y,2\n{long}x,3\n", duplicates="last") == [
        (long + "x", (3,)),
        (long + "y", (2,)),
    ]


def test_a_bad_row_is_never_the_first_appearance_of_its_key() -> None:
    content = "key,v\na,x\na,1\na,2\n"

    assert load(content, columns={"v": "number"}, on_error="skip", duplicates="first") == [
        ("a", (1,))
    ]


def test_an_integer_that_python_does_not_spell_is_a_wrong_value_and_no_surprise() -> None:
    assert [column.type for column in infer_columns([{"v": 10**5000}, {"v": 1}])] == ["text"]
    with pytest.raises(WrongValue, match="an integer of so many digits"):
        SoftDict({"a": 10**5000, "b": 1}, encoder="random")
    with pytest.raises(WrongValue, match="a number of thousands of digits is a number, not a list"):
        cast_value(10**5000, PAIR)
    with pytest.raises(WrongValue, match="a number of thousands of digits is beyond ±1e"):
        cast_value(Fraction(10**5000), NUMBER)


def test_what_is_nested_deeper_than_python_spells_is_a_wrong_value_too() -> None:
    nested: list[object] = []
    for _ in range(10**5):
        nested = [nested]

    with pytest.raises(WrongValue, match="what is nested so deep is a list, not a label or text"):
        cast_value(nested, Column("v", "text"))


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-9, 9)), min_size=1),
    st.sampled_from(["first", "last", "mean"]),
)
def test_policies_agree_with_a_plain_dict(rows: list[tuple[str, int]], policy: Any) -> None:
    seen: dict[str, list[int]] = {}
    for key, value in rows:
        seen.setdefault(key, []).append(value)
    merge: dict[str, Callable[[list[int]], float]] = {
        "first": lambda v: v[0],
        "last": lambda v: v[-1],
        "mean": lambda v: sum(v) / len(v),
    }

    with read_table(json.dumps(rows).encode(), LoadOptions(duplicates=policy)) as table:
        got = list(table)

    assert [key for key, _ in got] == list(seen)
    assert [value for _, (value,) in got] == pytest.approx(
        [merge[policy](v) for v in seen.values()]
    )


# Bad rows


MULTILINE = 'key,v\n"a\nb\nc",1\nd\n\n"e\nf",x,y\n"g"h,1\ni,2\n'


def test_lines_are_right_after_cells_of_several_lines() -> None:
    assert list(bad_rows(MULTILINE)) == [
        BadRow(5, "1 cell, where the header has 2 (delimiter ',')"),
        BadRow(7, "3 cells, where the header has 2 (delimiter ',')"),
        BadRow(9, 'a quote " in the middle of a cell; double it if it belongs to the text'),
    ]
    stray = 'a quote " in the middle of a cell; double it if it belongs to the text'
    assert list(bad_rows('key,v\na,1\n"b\nc"d,2\ne,3\n')) == [
        BadRow(3, f"{stray} (the row goes on to line 4)")
    ]
    with read_table(MULTILINE.encode(), LoadOptions(on_error="skip")) as table:
        assert list(table) == [("a\nb\nc", (1,)), ("i", (2,))]
        assert (table.rows, table.entries, table.bad_row_count) == (5, 2, 3)
        assert [row.line for row in table.bad_rows] == [5, 7, 9]


def test_lines_count_the_one_that_names_the_separator() -> None:
    assert list(bad_rows("sep=;\nkey;v\na;1\nb\n")) == [
        BadRow(4, "1 cell, where the header has 2 (delimiter ';')")
    ]


def test_a_row_may_end_before_the_columns_that_have_no_name() -> None:
    content = "key,v,,\na,1\nb,2,,\nc,3,\nd\n"

    assert load(content, on_error="skip") == [("a", (1,)), ("b", (2,)), ("c", (3,))]
    assert list(bad_rows(content)) == [BadRow(5, "1 cell, where the header has 4 (delimiter ',')")]
    assert list(bad_rows("a,1,,\nb,2\n", header=False)) == [
        BadRow(2, "2 cells, where the first row has 4 (delimiter ',')")
    ]


def test_a_hundred_bad_rows_are_kept_and_all_are_counted() -> None:
    content = "key,v\n" + "".join(f"k{n},{'x' if n % 2 else n}\n" for n in range(500))

    with pytest.raises(BadRows) as caught:
        read_table(content.encode(), LoadOptions(columns={"v": "number"}))

    assert (caught.value.total, len(caught.value.rows)) == (250, 100)
    assert [row.line for row in caught.value.rows] == list(range(3, 203, 2))


def test_a_quote_that_never_closes_is_refused_even_where_bad_rows_are_skipped() -> None:
    content = 'key,v\na,1\n"b,2\n' + "".join(f"k{n},{n}\n" for n in range(1_000))

    with pytest.raises(UnreadableSource, match="the quote that opens on line 3 is never closed"):
        read_table(content.encode(), LoadOptions(on_error="skip"))


def test_a_cell_longer_than_the_csv_module_allows_is_read_in_a_new_process_too() -> None:
    content = 'key,text\nc,"he said \\"hi\\""\nb,"' + 140_000 * "x" + '"\n'

    csv.field_size_limit(131_072)  # as a process begins; a load raises it

    assert load(content) == [("c", ('he said "hi"',)), ("b", (140_000 * "x",))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'\n"k"x,v\na,1\n', 'line 2: a quote " in the middle of a cell; double it'),
        (b"a\0b,1\nc,2\n", "line 1: the line holds a NUL character outside quotes"),
    ],
)
def test_a_fault_in_the_line_that_says_how_wide_rows_are_is_refused_though_rows_are_skipped(
    content: bytes, message: str
) -> None:
    with pytest.raises(UnreadableSource, match=f"^the table: {message}"):
        read_table(content, LoadOptions(on_error="skip"))


def test_a_nul_is_a_bad_row_outside_quotes_alone() -> None:
    content = b'key,v\n"a\n\0",1\nb\0,2\n"c""\0",3\n"d",\0\n'

    assert list(bad_rows(content)) == [
        BadRow(4, "the line holds a NUL character outside quotes"),
        BadRow(6, "the line holds a NUL character outside quotes"),
    ]
    assert load(content, on_error="skip") == [("a\n\0", (1,)), ('c"\0', (3,))]


# Files and requests that will not do


@pytest.mark.parametrize(
    ("content", "filename", "message"),
    [
        (b"", "x.csv", "x.csv holds no rows"),
        (b"\n \n", "x.csv", "x.csv holds no rows"),
        (b" , \n , \n", "x.csv", "x.csv holds no rows"),
        (b"", "x.jsonl", "x.jsonl holds no rows"),
        (b"[]", "x.json", "x.json holds no rows"),
        (b"", "x.json", "not JSON: Expecting a list or an object at line 1, column 1"),
        (b"key,value\n", "x.csv", "x.csv holds a header and no rows"),
        (b"key,a,a\nx,1,2\n", "x.csv", "the header names 'a' twice"),
        (b"city,a,a\nx,1,2\n", "x.csv", "the header names 'a' twice"),
        (b'{"a": 1,\n "b" 2}', "x.json", "Expecting ':' delimiter at line 2, column 6"),
        (b'{"a": 1,}', "x.json", "Expecting a key in double quotes at line 1, column 9"),
        (b'{"a": 1 "b": 2}', "x.json", "Expecting ',' or '}' at line 1, column 9"),
        (b'[["a", 1]', "x.json", "Expecting ',' or ']' at line 1, column 10"),
        (b'[["a", 1]] x', "x.json", "Extra data at line 1, column 12"),
        (b'[["a", 1],]', "x.json", "Expecting value at line 1, column 11"),
        (b"7", "x.json", "Expecting a list or an object"),
        (b"[" * 100_000, "x.json", "nested too deep"),
        (b'{"a":' * 100_000, "x.json", "nested too deep"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "x.json", "an integer of thousands of digits"),
        (b'[{"": 1}]', "x.json", "'' cannot be the name of a column"),
        (b'[{"a\\n": 1}]', "x.json", "cannot be the name of a column"),
        (
            gzip.compress(b"a,1\n" * 999, mtime=0)[:-9],  # it names the test: of no second
            "x.csv.gz",
            "gzip data is damaged or cut short",
        ),
        (b"\x1f\x8bnonsense", "x.csv.gz", "gzip data is damaged or cut short"),
        (b"PAR1nonsense", "x.parquet", "damaged, cut short or not Parquet"),
        (PET_FILES["pets.parquet"][:-20], "x.parquet", "damaged, cut short or not Parquet"),
        (PET_FILES["pets.csv"], "x.parquet", "damaged, cut short or not Parquet"),
        (
            PET_FILES["pets.parquet"].replace(b"clave", b"cl\xffve"),
            "x.parquet",
            "damaged, cut short or not Parquet",
        ),
        (b"a" * (1 << 24), "x.csv", "line 1 is longer than 16,777,216 characters"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(content: bytes, filename: str, message: str) -> None:
    with pytest.raises(UnreadableSource) as caught:
        read_table(content, filename=filename)
    assert not isinstance(caught.value, BadRows)
    assert message in str(caught.value)


def test_parquet_that_names_a_column_twice_is_refused() -> None:
    table = pa.table([pa.array(["a"]), pa.array([1.0]), pa.array([2.0])], ["key", "v", "v"])
    with pytest.raises(UnreadableSource, match="names a column twice"):
        read_table(parquet(table))


def test_a_column_with_two_types_in_two_spellings_is_refused() -> None:
    options = LoadOptions(columns={"caf\u00e9": "text", "cafe\u0301": "number"})
    with pytest.raises(InvalidRequest, match="columns: 'café' is named twice"):
        read_table(b"key,caf\xc3\xa9\na,1\n", options)


def test_parquet_whose_columns_are_not_as_its_schema_says_ends_no_process(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    content = parquet(pa.table({"key": ["a", "b"], "n": [1, 2]}))
    optional, required = b"\x25\x02\x18\x03key", b"\x25\x00\x18\x03key"  # with the name, in Thrift
    assert content.count(optional) == 1
    file.write_bytes(content.replace(optional, required))  # but gaps of the column are counted

    read = (
        "import sys\n"
        "from index.errors import UnreadableSource\n"
        "from index.loading import read_table\n"
        "try:\n"
        "    read_table(sys.argv[1])\n"
        "except UnreadableSource as fault:\n"
        "    print(fault)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", read, file],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr  # it was killed by SIGABRT
    assert "damaged, cut short or not Parquet: Definition level histogram" in done.stdout


OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def zipped(name: str, content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return sink.getvalue()


def database(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE a (key)")
    return path.read_bytes()


@pytest.mark.parametrize("name", ["x.yaml", "X.YML", "x.toml", "x.yaml.gz"])
def test_yaml_and_toml_are_refused_by_name_but_as_json_or_where_a_format_is_said(name: str) -> None:
    with pytest.raises(UnreadableSource, match=f"{name} is YAML or TOML; write the table as CSV"):
        read_table(b"milk: 0.95\nbread: 1.20\n", filename=name)

    assert load('{"milk": 0.95}', name) == [("milk", (0.95,))]
    assert load("key,price\nmilk,0.95\n", name, format="csv") == [("milk", (0.95,))]


@pytest.mark.parametrize("filename", ["x.csv", "x.tsv", "x.json", "x.jsonl", "x.xlsx", None])
def test_what_is_no_text_is_called_what_it_is_and_what_to_do(
    filename: str | None, tmp_path: Path
) -> None:
    sheet = b"<worksheet>" + bytes(range(256)) * 40
    others = [
        ("a spreadsheet or a zip archive; save the sheet as CSV", zipped("xl/sheet1.xml", sheet)),
        ("an old Excel or Word file; save the sheet as CSV", OLD_EXCEL + sheet),
        ("a PDF; save the table in it as CSV", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"),
        ("an image; write the table in it as CSV", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("an image; write the table in it as CSV", b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01"),
        ("an image; write the table in it as CSV", b"GIF89a\x01\0\x01\0"),
        ("an image; write the table in it as CSV", b"RIFF\n\x0a\0\0WEBPVP8 "),
        ("an image; write the table in it as CSV", b"\0\0\0\x18ftypheic\0\0\0\0"),
        ("an SQLite database; export the table as CSV", database(tmp_path / "a.db")),
        *(
            ("a page of HTML, or XML; save the table in it as CSV", page)
            for page in (
                b"<html><body><table>\n<tr><td>a</td><td>1</td></tr>\n</table></body></html>\n",
                b'<table border="1">\n<tr><td>a</td></tr>\n</table>\n',  # what some call .xls
                b"<table><tr><td>a</td><td>1</td></tr></table>",
                b"\xef\xbb\xbf\r\n<!DOCTYPE html>\n<html>\n<title>404</title>\n</html>\n",
                b'<?xml version="1.0"?>\n<Workbook>\n</Workbook>\n',  # older Excel's
            )
        ),
        ("gzipped twice; gzip it once", gzip.compress(gzip.compress(b"a,1\nb,2\n"))),
        ("compressed, and not by gzip; unpack it", bz2.compress(b"a,1\nb,2\n")),
        ("compressed, and not by gzip; unpack it", lzma.compress(b"a,1\nb,2\n")),
    ]
    if filename not in (None, "x.xlsx"):  # else it is read
        others.append(("Parquet; load it with format=parquet", PET_FILES["pets.parquet"]))

    for words, content in others:
        with pytest.raises(UnreadableSource) as caught:
            read_table(content, filename=filename)
        assert f"{filename or 'the table'} is {words}" in str(caught.value)


def test_a_text_that_begins_as_another_kind_of_file_does_is_text() -> None:
    words = (
        "PAR1",
        "PK",
        "BZh9",
        "%PDF",
        "GIF",
        "RIFF",
        "SQLite format 3",
        "<html>",
        "<table>",
        "<!DOCTYPE>",
    )
    for word in words:
        assert load(f"{word},1\nb,2\n", "x.csv") == [(word, (1,)), ("b", (2,))]


def test_a_path_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match=r"there is no file .*nope\.csv"):
        read_table(tmp_path / "nope.csv")
    with pytest.raises(UnreadableSource, match="is a folder; name a file in it"):
        read_table(tmp_path)
    with pytest.raises(UnreadableSource, match="cannot be read: "):
        read_table("a\0b.csv")


def test_a_path_that_is_no_file_and_cannot_be_opened_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a.sock")
        with pytest.raises(UnreadableSource, match=r"a\.sock cannot be read: "):
            read_table("a.sock")


def test_a_wrong_encoding_says_what_is_wrong() -> None:
    with pytest.raises(UnreadableSource, match="byte 0xf1 is not ascii; give its encoding"):
        read_table("ñ;1\n".encode("latin-1"), LoadOptions(encoding="ascii"))
    with pytest.raises(UnreadableSource, match="byte 0x81 is not cp1252; give its encoding"):
        read_table(b"\x81;1\n", LoadOptions(encoding="cp1252"))
    with pytest.raises(UnreadableSource, match="byte 0x81 is not cp1252; give its encoding"):
        read_table(b"\x81")  # the half of a character, in some


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8", "gb18030"])
def test_a_text_that_was_cut_in_a_character_is_said_to_be(encoding: str) -> None:
    content = "动物,1\n园".encode(encoding)[:-1]

    with pytest.raises(
        UnreadableSource, match="in the middle of a character: it was cut short, or is"
    ):
        read_table(content, LoadOptions(encoding=encoding))


def test_more_rows_than_allowed_are_refused_and_as_many_are_not() -> None:
    assert len(load("a,1\nb,2\n", max_rows=2)) == 2
    with pytest.raises(UnreadableSource, match=r"more than 1 row, as max_rows says$"):
        read_table(b"a,1\nb,2\n", LoadOptions(max_rows=1))


def test_a_json_document_too_large_to_hold_is_sent_to_json_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("index.loading.json_rows.LARGEST_JSON", 20)

    assert load('{"a": 1, "bbbbb": 2}') == [("a", (1,)), ("bbbbb", (2,))]
    with pytest.raises(UnreadableSource, match="more than 20 characters; convert it to JSON Lines"):
        read_table(b'{"a": 1, "bbbbb": 2} ')


def test_more_columns_than_any_table_has_are_refused() -> None:
    with pytest.raises(UnreadableSource, match="more than 1,000 columns"):
        read_table(json.dumps([{f"c{n}": 1 for n in range(1_001)}]).encode())
    rows = b"".join(b'{"key": "%d", "c%d": 1}\n' % (n, n) for n in range(1_001))
    with pytest.raises(UnreadableSource, match="more than 1,000 columns"):
        read_table(rows, LoadOptions(format="jsonl"))


@pytest.mark.parametrize(
    ("fmt", "content"),
    [
        ("csv", b"," * 1_001 + b"\n" + b"1," * 1_001 + b"1\n"),
        ("csv", b"a;b,c|" * 10_000 + b"\n"),
        ("json", json.dumps([{f"c{n}": 1 for n in range(1_001)}]).encode()),
    ],
    ids=["empty names", "any delimiter", "json"],
)
def test_more_columns_than_any_table_has_are_not_looked_at(
    fmt: Any, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million of them took a minute and three gigabytes."""
    for looked_at in ("index.loading.csv_rows.is_header", "index.loading.table.Inference.add"):
        monkeypatch.setattr(looked_at, lambda *_: pytest.fail("they were looked at"))

    with pytest.raises(UnreadableSource, match="more than 1,000 columns"):
        read_table(content, LoadOptions(format=fmt))


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    ("column", "most"),
    [
        (pa.array(["x" * 100_000] * 50), 50 * 100_000),
        (pa.array([[0.0] * 1_000] * 50), 50 * 1_000),
        (pa.array([0] * 50), 50),
    ],
    ids=["text", "list", "number"],
)
def test_parquet_is_read_up_to_what_it_may_unpack_to(
    column: pa.Array, most: int, plain: bool
) -> None:
    table = pa.table({"key": [f"{n:03}" for n in range(50)], "v": column})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=not plain)
    most += 50 * 3

    for allowed in (None, most):
        options = LoadOptions(format="parquet", max_unpacked=allowed)
        assert read_table(sink.getvalue(), options).entries == 50
    with pytest.raises(UnreadableSource, match=f"unpacks to more than {most - 1:,} characters"):
        read_table(sink.getvalue(), replace(options, max_unpacked=most - 1))


def test_skipping_every_row_is_no_load() -> None:
    options = LoadOptions(columns={"value": "number"}, on_error="skip", header=False)

    with pytest.raises(UnreadableSource, match=r"none of its 2 rows can be loaded; line 1: "):
        read_table(b"a,x\nb,y\n", options)
    with pytest.raises(BadRows, match=r"'y' is not a number\. Correct them$"):  # so none is advised
        read_table(b"a,x\nb,y\n", replace(options, on_error="stop"))


@pytest.mark.parametrize(
    ("content", "filename", "lines", "reason"),
    [
        ("{'key': 'a'}\n{'key': 'b'}\n", "a.jsonl", [1, 2], "not JSON: "),
        ("[1,\n2]", "a.json", [1, 2], "entry 2: a number, where an object, a pair or text"),
        ('[{"key": "a", "v": 1, "v": 2}]', "a.json", [1], "entry 1: the object holds 'v' twice"),
        ("[{}]", "a.json", [1], "entry 1: there is no key in column 'key'"),
        (r'{"a": {"\u0000key": "b", "v": 1}}', "a.json", [1], r"entry 1: '\x00key' cannot be the"),
        (r'{"a": {"\u0000value": 1}}', "a.json", [1], r"entry 1: '\x00value' cannot be the name"),
        (r'[{"\u0000key": "b"}]', "a.json", [1], r"entry 1: '\x00key' cannot be the name of a"),
    ],
)
def test_a_file_without_one_row_that_can_be_read_names_them_all(
    content: str, filename: str, lines: list[int], reason: str
) -> None:
    wanted: list[dict[str, Any]] = [{}, {"key": "key"}, {"columns": {"v": "number"}}]
    for options in wanted:
        rows = bad_rows(content, filename, **options)

        assert [row.line for row in rows] == lines
        assert rows[-1].reason.startswith(reason)
    with pytest.raises(UnreadableSource, match=r"none of its \d rows can be loaded; line 1: "):
        read_table(content.encode(), LoadOptions(on_error="skip"), filename=filename)


def test_every_wrong_option_is_named_at_once() -> None:
    options: Any = {
        "format": "xls",
        "on_error": "ignore",
        "duplicates": "all",
        "columns": {"v": "float"},
        "delimiter": ";;",
        "encoding": "klingon",
        "max_rows": 0,
        "max_unpacked": -1,
    }
    with pytest.raises(InvalidRequest) as caught:
        read_table(b"a,1\n", LoadOptions(**options))
    assert Counter(fault.where for fault in caught.value.faults) == Counter([*options])
    with pytest.raises(InvalidRequest, match=r"encoding: 'utf-8\\x00' is no encoding"):
        read_table(b"a,1\n", LoadOptions(encoding="utf-8\0"))


def test_the_column_that_was_meant_perhaps_is_named() -> None:
    said = "there is no column 'Comentarios'; did you mean 'comentario'? there are: comentario"

    with pytest.raises(InvalidRequest, match=said.replace("?", "[?]")):
        load("k,comentario\na,b\n", columns={"Comentarios": "text"})


def test_every_option_of_a_wrong_kind_is_named_at_once() -> None:
    options: Any = {
        "key": 0,
        "columns": ["v"],
        "attributes": "v",  # each letter would be one
        "delimiter": 59,
        "header": "yes",
        "encoding": 8,
        "max_rows": "10",
        "max_unpacked": 1.5,
        "max_key_length": None,
    }
    with pytest.raises(InvalidRequest) as caught:
        read_table(b"key,v\na,1\n", LoadOptions(**options))
    no_numbers: Any = {"attributes": [["v"]], "max_rows": True, "max_key_length": 10_001}
    with pytest.raises(InvalidRequest) as more:
        read_table(b"key,v\na,1\n", LoadOptions(**no_numbers))
    assert {fault.where for fault in more.value.faults} == {*no_numbers}
    assert Counter(fault.where for fault in caught.value.faults) == Counter([*options])
    assert read_table(b"key,v\na,1\n", LoadOptions(attributes=["v"])).entries == 1  # type: ignore[arg-type]


def test_columns_that_are_not_there_are_named_with_those_that_are() -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_table(b"key,v\na,1\n", LoadOptions(columns={"w": "text", "x": "skip", "key": "text"}))
    assert [fault.message for fault in caught.value.faults] == [
        "there is no column 'w'; there are: v",
        "there is no column 'x'; there are: v",
        "'key' holds the keys, which are text; if it does not, "
        "name the column of keys with the option key",
    ]
    with pytest.raises(InvalidRequest) as caught:
        read_table(b"key,v\na,1\n", LoadOptions(columns={"w": "text"}, attributes=("x",)))
    assert [fault.where for fault in caught.value.faults] == ["columns", "attributes"]
    with pytest.raises(InvalidRequest, match="there is no column 'k'; there are: key, v") as caught:
        read_table(
            b"key,v\na,1\n", LoadOptions(key="k", columns={"w": "text"}, attributes=("x", "v"))
        )
    assert [fault.where for fault in caught.value.faults] == ["key", "columns", "attributes"]
    with pytest.raises(InvalidRequest, match="the keys of this JSON stand outside its columns"):
        read_table(b'{"a": 1}', LoadOptions(key="value"))


@pytest.mark.parametrize("source", [7, None, io.StringIO("a,1\n")])
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(InvalidRequest, match="source: "):
        read_table(source)


# For a dataset that exists


def test_an_existing_datasets_columns_keep_their_types_and_names() -> None:
    label, vector = Column("valor", "category"), Column("rgb", "vector", 3)

    with read_table(b"key,valor\na,1\nb,2\n", expected=[label]) as table:
        assert (table.columns, list(table)) == ((label,), [("a", ("1",)), ("b", ("2",))])
    for content in (b"a,1\nb,2\n", b'{"a": 1, "b": 2}'):
        with read_table(content, expected=[label]) as table:
            assert table.columns == (label,)
    with read_table(b"texto,x\na,b\n", expected=[Column("texto", "text")]) as table:
        assert table.key_column == "x"
    with pytest.raises(BadRows, match="the vector has 2 numbers, not 3"):
        read_table(b'[{"key": "a", "rgb": [1, 2]}]', expected=[vector])


@pytest.mark.parametrize(
    ("content", "noted"),
    [
        ("Fecha;Detalle;Importe\n01/02/2024;Luz;5\n2024-02-02;Gas;6\n", True),
        ("Hora;Actividad\n9:00;Yoga\n10:30:00;Zumba\n", True),
        ("sku,what\nSI-100,blue chair\nREF00042,table\n12345678Z,lamp\n", True),
        ("Timestamp,What\n2024/02/01 9:12:33 AM GMT+2,Food\n2/1/2024 1:05 pm,Noise\n", True),
        ("Cuándo;Qué\n2024/02/01 9:12:33 a. m. CET;Luz\n1/2/2024 1:05 p.m.;Gas\n", True),
        ("Cuándo;Qué\n2024-02-01T10:30:00Z;a\n1999-02;b\n", True),
        ("sku,what\nAB/12,blue chair\nX_10.5,table\n", True),
        ("CAS\tChemical\n50-00-0\tformaldehyde\n7732-18-5\twater\n", True),
        ("tel,who\n+34 600 123 456,Ana\n(91) 234-56.78,Luis\n", True),
        ("from,who\n1990-1995,Ana\n1995 - 2001,Luis\n", False),
        ("CP;Municipio\n08001;Barcelona\n28001;Madrid\n", True),
        ('[{"CP": "08001", "M": "Barcelona"}, {"CP": "28001", "M": "Madrid"}]', True),
        ("Fecha;Importe\n01/02/2024;5\n02/02/2024;6\n", False),  # nothing else to ask for
        ("Fecha;Otra\n01/02/2024;02/02/2024\n02/02/2024;03/02/2024\n", False),
        ("Fecha;Otra\n01/02/2024;02/02/2024\n02/02/2024;\n", False),
        ("Fecha;Detalle\n01/02/2024;Luz\ncuando sea;Gas\n", False),
        ("Fecha;Detalle\ncuando sea;Gas\n01/02/2024;Luz\n", False),
        ("age,network\n18-24,TikTok\n25-34,Instagram\n", False),
        ("term,meaning\n5G,fast net\n2FA,two factor\n", False),
        ("address,city\n12 Oak St,Austin\n3 Elm St,Waco\n", False),
        ("clave;Detalle\n01/02/2024;Luz\n", False),  # said to be the keys
    ],
)
def test_keys_that_are_dates_or_codes_are_told_of(content: str, noted: bool) -> None:
    with read_table(content.encode()) as table:
        assert [", are dates or codes, whose" in note for note in table.notes] == [True] * noted
        key = table.key_column
    with read_table(content.encode(), LoadOptions(key=key)) as table:
        assert table.notes == ()


def test_an_append_knows_columns_by_their_names_but_for_case_and_accents() -> None:
    columns = [Column("Precio", "number"), Column("Zona", "text"), Column("año", "number")]
    for header, names in (
        ("clave;precio;ZONA;ano", ["Precio", "Zona", "año"]),
        ("clave;Precio;precio;zona", ["Precio", "precio", "Zona"]),  # two may be it
    ):
        content = f"{header}\nPan;1,50;2;7\n".encode()
        with read_table(content, expected=columns, expected_key="clave") as table:
            assert [column.name for column in table.columns] == names
    with read_table(b"PRECIO;otra\n1,50;Pan\n", expected=columns) as table:
        assert table.key_column == "otra"
    named = [Column("name", "text")]  # its keys are in Name
    with read_table(b"Name;name\nx;y\n", expected=named, expected_key="Name") as table:
        assert (table.key_column, table.columns) == ("Name", tuple(named))
    with read_table(b"Zona;zona\nx;y\n", LoadOptions(attributes=("zona",))) as table:
        assert (table.key_column, table.columns[0].attribute) == ("Zona", True)
    twins = [Column("a", "number"), Column("A", "number")]
    with read_table(b"k;A;a\nx;1;2\n", expected=twins) as table:
        assert [column.name for column in table.columns] == ["A", "a"]


@pytest.mark.parametrize("content", [";;\n;;\n", ",\n,\n", "\t\t\r\n", '"",""\n"",""\n'])
def test_separators_alone_are_no_rows(content: str) -> None:
    with pytest.raises(UnreadableSource, match="the table holds no rows"):
        read_table(content.encode(), filename="the table")


@pytest.mark.parametrize(("key", "width"), [("a", 1), ("ñ", 1), ("ł", 2), ("😀", 4)])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_json_that_memory_would_not_hold_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, key: str, width: int, encoding: str
) -> None:
    content = json.dumps([[key, 1], ["x" * 10**6, 2]], ensure_ascii=False).encode(encoding)
    monkeypatch.setattr("index.memory.SMALL", 10**6)
    monkeypatch.setattr("index.memory.available_memory", lambda: int(2.2 * width * 10**6))

    with pytest.raises(NotEnoughMemory, match="convert it to JSON Lines, or load where more"):
        read_table(content)
    monkeypatch.setattr("index.memory.available_memory", lambda: int(2.3 * width * 10**6))
    with pytest.raises(BadRows, match="entry 2"):  # a key of a million characters
        read_table(content)


def priced(*attributes: Column, **entries: Any) -> SoftDict:
    """A dictionary keyed by ``sku`` that holds prices in euros and names."""
    catalog = Catalog(Store(None))
    columns = (Column("price", "number", unit="€"), Column("name", "text"), *attributes)
    d = catalog.create("d", columns=columns, key_column="sku", encoder="random")
    d.update(entries)
    return d


def test_a_file_without_a_column_of_values_is_said_to_be_one() -> None:
    alone = "no column holds values, so answers will name keys alone"
    shop = LoadOptions(attributes=("shop",))

    for content, options, notes in (
        (b"<svg>\n<path>\n", None, (alone,)),
        (b"sku,shop\na,north\nb,south\n", shop, (alone,)),
        (b"sku,shop\na,north\nb,south\n", None, ()),
    ):
        with read_table(content, options or LoadOptions(), filename="x.csv") as table:
            assert table.notes == notes
    held = priced(a={"price": 1.5})
    assert alone not in held.load(b"sku\na\nb\n", LoadOptions(header=True), dry_run=True).notes


def test_who_adds_a_file_without_a_column_is_told_which_values_are_lost() -> None:
    d = priced(
        Column("shop", "category", attribute=True),
        a={"price": 1.5, "name": "uno", "shop": "north"},
        b={"price": 2},
    )
    lost = "the file has no column 'name': keys of the file that were there lose their value in it"
    skipped = "column 'name' is left out: keys of the file that were there lose their value in it"
    skip = LoadOptions(columns={"name": "skip"})

    assert d.load(b"sku,price\nb,3\nc,4\n", dry_run=True).notes == ()  # b has no name to lose
    assert d.load(b"sku,price,name\na,3,tres\n", skip, dry_run=True).notes == (skipped,)
    assert d.load(b"sku,price\nb,3\na,4\n", dry_run=True).notes == (lost,)
    assert d["a"] == {"price": 1.5, "name": "uno"}
    assert d.load(b"sku,price\nb,3\na,4\n").notes == (lost,)
    assert d.entry("a").values == {"price": 4, "name": None, "shop": "north"}
    assert d.load(b"sku,price\nb,3\na,4\n").notes == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"name,price\nuno,1\n",
            "every column is a value, an attribute or left out, and none holds keys: name, price; "
            "this dataset has them in 'sku', and the file has no such column",
        ),
        (
            b"name,price,stock\nuno,1,2\n",
            "'name' is a column of values, and no column of text is left for the keys, only "
            "'stock'; this dataset has them in 'sku', and the file has no such column; "
            "name the column of keys with the option key",
        ),
    ],
)
def test_a_file_without_the_datasets_column_of_keys_is_told_its_name(
    content: bytes, message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        priced().load(content)
    assert [(fault.where, fault.message) for fault in caught.value.faults] == [("key", message)]


def test_the_datasets_column_of_keys_holds_those_of_the_file() -> None:
    d = priced()

    d.load(b"price,name,sku\n1,uno,7\n")
    d.load(b'[{"title": "x", "sku": "8", "price": 2}]', LoadOptions(columns={"title": "skip"}))

    assert dict(d) == {"7": {"price": 1, "name": "uno"}, "8": {"price": 2, "name": None}}


def test_another_type_than_the_datasets_is_refused_by_name() -> None:
    d = SoftDict(
        {"a": {"price": 3.5, "rgb": [1, 2], "tag": "x"}},
        columns=[Column("price", "number"), Column("rgb", "vector", 2), Column("tag", "category")],
        encoder="random",
    )
    content = b'key;price;rgb;tag\nb;3,5;"[1, 2]";7\n'

    for name, wanted, held in [
        ("price", "category", "numbers"),
        ("price", "vector", "numbers"),
        ("rgb", "text", "vectors"),
        ("tag", "vector", "labels"),
    ]:
        with pytest.raises(InvalidRequest) as caught:
            d.load(content, LoadOptions(columns={name: wanted}), dry_run=True)
        (fault,) = caught.value.faults
        assert (fault.where, fault.message) == (
            "columns",
            f"the dataset holds {name!r} as {held}, and the option says {wanted}",
        )
    d.load(content, LoadOptions(columns={"price": "number", "tag": "number"}))
    assert d["b"] == {"price": 3.5, "rgb": (1.0, 2.0), "tag": "7"}


# Parquet


def test_a_decimal_of_parquet_whose_cents_a_number_would_drop_is_text() -> None:
    large, small = decimal.Decimal("9007199254740993.25"), decimal.Decimal("2.20")
    table = pa.table({"key": ["a", "b"], "v": pa.array([large, small], pa.decimal128(38, 2))})

    assert load(parquet(table)) == [("a", (str(large),)), ("b", (str(small),))]


def test_decimals_of_parquet_are_keys_and_parts_of_vectors_too() -> None:
    one, two = decimal.Decimal("1.50"), decimal.Decimal("-2.00")
    kind = pa.decimal128(5, 2)
    table = pa.table(
        {
            "key": pa.array([one, two], kind),
            "v": pa.array([[one, two], [two, two]], pa.list_(kind)),
        }
    )

    assert load(parquet(table)) == [("1.50", ((1.5, -2.0),)), ("-2.00", ((-2.0, -2.0),))]


def test_codes_that_databases_give_as_decimals_stay_codes() -> None:
    account = decimal.Decimal("12345678901234567890")  # NUMBER(38) of Oracle, of Snowflake…
    kind = pa.decimal128(38, 0)
    table = pa.table({"key": ["a", "b"], "v": pa.array([account, decimal.Decimal(7)], kind)})

    assert load(parquet(table)) == [("a", ("12345678901234567890",)), ("b", ("7",))]
    assert infer_columns([{"v": decimal.Decimal("1E+999999999")}]) == (Column("v", "text"),)


def test_long_lists_of_parquet_are_read_a_few_rows_at_a_time() -> None:
    """2,000 rows of 20,000 zeros, 6 KB of file, took 2 GB."""
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(200 * 20_000)), 20_000)
    content = parquet(pa.table({"v": zeros, "key": [f"k{n}" for n in range(200)]}))
    tracemalloc.start()
    try:
        rows = sum(1 for _ in ParquetReader(Source(content), LoadOptions()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (rows, peak < 40e6) == (200, True)


def test_lists_of_parquet_stay_beside_the_other_cells_of_their_rows() -> None:
    many = range(10_000)
    content = parquet(
        pa.table(
            {"v": [[n, -n] for n in many], "key": [f"k{n}" for n in many], "w": list(many)},
        )
    )

    assert load(content) == [(f"k{n}", ((n, -n), n)) for n in many]
    assert columns(content) == {"v": "vector", "w": "number"}
    assert list(columns(content)) == ["v", "w"]


def test_a_group_of_rows_in_parquet_that_memory_would_not_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = parquet(pa.table({"key": ["a", "b"], "t": ["x" * 1_000_000, "y" * 1_000_000]}))
    monkeypatch.setattr("index.memory.SMALL", 10**6)
    monkeypatch.setattr("index.memory.available_memory", lambda: 10**7)

    with pytest.raises(NotEnoughMemory, match="write the file in groups of fewer rows"):
        read_table(content, filename="x.parquet")
    monkeypatch.setattr("index.memory.available_memory", lambda: 10**8)
    assert len(load(content, "x.parquet")) == 2


def test_parquet_for_which_memory_runs_out_is_not_called_damaged() -> None:
    raised = pa.ArrowMemoryError("malloc of size 1099511627776 failed")
    content = parquet(pa.table({"key": ["a"], "v": [1]}))
    with (
        mock.patch.object(pq.ParquetFile, "iter_batches", side_effect=raised),
        pytest.raises(NotEnoughMemory, match="needs more memory than there is"),
    ):
        read_table(content, filename="x.parquet")


def test_a_text_in_many_rows_of_parquet_is_read_once() -> None:
    rows, long = 4_096, "x" * 100_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([long]))
    keys = [f"key {number}" for number in range(rows)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"key": keys, "v": texts}), sink, store_schema=False)  # plain text
    assert len(sink.getvalue()) < 2 * len(long)

    before = pa.total_allocated_bytes()
    with read_table(sink.getvalue(), LoadOptions(), filename="t.parquet") as table:
        assert table.columns == (Column("v", "text"),)
        entries = iter(table)
        _, (first,) = next(entries)
        held = pa.total_allocated_bytes() - before  # the batch that is being read is there
        _, (second,) = next(entries)

    assert first == long
    assert first is second
    assert held < rows * len(long) / 10


@pytest.mark.parametrize("places", [pa.int8(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_categories_are_read_whatever_numbers_stand_for_them(places: pa.DataType) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 2], places), ["x", "y", "z"])

    rows = load(parquet(pa.table({"key": list("abcd"), "v": coded})))

    assert rows == [("a", ("z",)), ("b", (None,)), ("c", ("x",)), ("d", ("z",))]


def test_arrow_types_become_values() -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5)
    content = parquet(
        pa.table(
            {
                "key": ["a", "b"],
                "int": pa.array([1, None], pa.int8()),
                "decimal": pa.array([decimal.Decimal("1.50"), None]),
                "half": pa.array([np.float16(0.5), None], pa.float16()),
                "flag": [True, None],
                "when": pa.array([moment, None], pa.timestamp("ns")),
                "day": [moment.date(), None],
                "time": pa.array([1_001, None], pa.time64("ns")),
                "label": pa.array(["x", None]).dictionary_encode(),
                "view": pa.array(["y", None], pa.string_view()),
                "list": pa.array([[1, 2], None], pa.list_(pa.int32())),
                "fixed": pa.array([[1.5, 2], None], pa.list_(pa.float32(), 2)),
                "nothing": pa.nulls(2),
                "no number": pa.nulls(2, pa.float64()),
            }
        )
    )

    assert columns(content) == {
        "int": "number",
        "decimal": "number",
        "half": "number",
        "flag": "category",
        "when": "text",
        "day": "text",
        "time": "text",
        "label": "category",
        "view": "text",
        "list": "vector",
        "fixed": "vector",
        "nothing": "undecided",
        "no number": "number",
    }
    first, second = load(content)
    clock = (moment.isoformat(), "2024-01-02", "00:00:00.000001001")
    assert first == ("a", (1, 1.5, 0.5, "true", *clock, "x", "y", (1, 2), (1.5, 2), None, None))
    assert second == ("b", (None,) * 13)


@pytest.mark.parametrize(
    "array", [pa.array([{"x": 1}]), pa.array([b"x"]), pa.array([["a"]]), pa.array([[[1]]])]
)
def test_arrow_types_that_no_column_holds_are_refused_unless_skipped(array: pa.Array) -> None:
    content = parquet(pa.table({"key": ["a"], "v": array}))

    with pytest.raises(UnreadableSource, match=r"column 'v' is .*the type 'skip'"):
        read_table(content)
    assert load(content, columns={"v": "skip"}) == [("a", ())]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([4_000_000], pa.date32()),
        pa.array([400_000_000_000_000], pa.date64()),
        pa.array([2**60], pa.timestamp("us")),
        pa.array([2**60], pa.timestamp("ms")),
        pa.array([-62_135_596_800_000_000], pa.timestamp("us", "America/New_York")),
    ],
)
def test_times_that_python_cannot_tell_are_refused_unless_skipped(array: pa.Array) -> None:
    content = parquet(pa.table({"key": ["a"], "v": array}))

    with pytest.raises(UnreadableSource, match=r"column 'v' cannot be .*the type 'skip'"):
        read_table(content)
    assert load(content, columns={"v": "skip"}) == [("a", ())]


def as_pandas_writes(columns: dict[str, list[Any]], *index: str) -> bytes:
    notes = {b"pandas": json.dumps({"index_columns": list(index)}).encode()}
    return parquet(pa.table(columns).replace_schema_metadata(notes))


def test_row_labels_of_a_data_frame_are_no_values_but_where_they_are_keys() -> None:
    label = "__index_level_0__"
    sorted_ = as_pandas_writes(
        {"fruit": ["plum", "pear"], "price": [1.5, 2.0], label: [7, 3]}, label
    )
    named = as_pandas_writes({"price": [1.5, 2.0], label: ["plum", "pear"]}, label)
    numbered = as_pandas_writes({"price": [1.5, 2.0], "shop": [7, 3]}, "shop")
    alone = as_pandas_writes({label: [7, 3]}, label)
    own = parquet(pa.table({"fruit": ["plum"], label: [7]}))  # no pandas wrote this

    assert load(sorted_) == [("plum", (1.5,)), ("pear", (2,))]
    assert load(sorted_, key=label) == [("7", ("plum", 1.5)), ("3", ("pear", 2))]
    assert columns(sorted_, columns={label: "number"}) == {"price": "number", label: "number"}
    assert columns(sorted_, columns={label: "skip"}) == {"price": "number"}
    assert load(named) == [("plum", (1.5,)), ("pear", (2,))]
    assert columns(numbered, key="price") == {"shop": "number"}
    assert load(alone) == [("7", ()), ("3", ())]
    assert load(own) == [("plum", (7,))]
    for nonsense in ("5", "{", '{"index_columns": 5}', '{"index_columns": [5, ["x"]]}'):
        noted = pa.table({"fruit": ["plum"], label: [7]}).replace_schema_metadata(
            {b"pandas": nonsense.encode()}
        )
        assert load(parquet(noted)) == [("plum", (7,))]


@pytest.mark.parametrize("label", ["__index_level_0__", "sort"])
def test_labels_of_a_data_frame_that_are_texts_are_its_keys(label: str) -> None:
    cells = {"aisle": ["fresh", "fresh"], "price": [1.2, 0.95], label: ["manzana", "leche"]}
    content = as_pandas_writes(cells, label)

    assert load(content) == [("manzana", ("fresh", 1.2)), ("leche", ("fresh", 0.95))]
    assert load(content, key="aisle", duplicates="first") == [("fresh", (1.2, "manzana"))]
    with read_table(content, LoadOptions()) as table:
        assert table.key_column == ("key" if label[0] == "_" else "sort")
    with pytest.raises(BadRows, match="does not hold the keys, name the column that does"):
        load(as_pandas_writes(cells | {label: ["x", "x"]}, label))


def test_codes_are_not_told_of_where_the_file_says_that_they_are_keys() -> None:
    def notes(label: str, *index: str) -> tuple[str, ...]:
        cells = {label: ["SI-100", "SI-200"], "what": ["chair", "table"]}
        with read_table(as_pandas_writes(cells, *index)) as table:
            return table.notes

    rows = [Entry("SI-100", {"what": "chair"}, 0.0)]
    exported = b"".join(write_table("parquet", "sku", [Column("what", "text")], rows))
    with read_table(exported) as table:
        assert (table.key_column, table.notes) == ("sku", ())
    assert notes("sku", "sku") == ()
    assert len(notes("sku")) == len(notes("__index_level_0__", "__index_level_0__")) == 1


@pytest.mark.parametrize("label", ["__index_level_0__", "sort"])
def test_an_index_of_categories_is_of_texts_or_of_numbers_as_they_are(label: str) -> None:
    texts = pa.array(["manzana", "leche"]).dictionary_encode()
    numbers = pa.array([7, 3]).dictionary_encode()
    cells = {"aisle": ["fresh", "dairy"], "price": [1.2, 0.95]}

    assert load(as_pandas_writes(cells | {label: texts}, label))[0] == ("manzana", ("fresh", 1.2))
    kept = () if label[0] == "_" else (7,)
    assert load(as_pandas_writes(cells | {label: numbers}, label))[0] == ("fresh", (1.2, *kept))


def test_an_unnamed_index_of_dates_is_the_keys_and_one_of_truths_is_left_out() -> None:
    label = "__index_level_0__"
    days = pa.array([0, 1], pa.date32())

    assert load(as_pandas_writes({"temp": [20.5, 21.0], label: days}, label)) == [
        ("1970-01-01", (20.5,)),
        ("1970-01-02", (21,)),
    ]
    truths = as_pandas_writes({"fruit": ["plum", "pear"], label: [True, False]}, label)
    assert load(truths) == [("plum", ()), ("pear", ())]


def test_times_keep_their_nanoseconds() -> None:
    times = pa.array([1_735_689_599_123_456_789, None, 1_735_689_599_000_000_000])
    content = parquet(
        pa.table(
            {
                "key": ["a", "b", "c"],
                "t": times.cast(pa.timestamp("ns")),
                "zoned": times.cast(pa.timestamp("ns", "UTC")),
            }
        )
    )

    assert load(content) == [
        ("a", ("2024-12-31T23:59:59.123456789", "2024-12-31T23:59:59.123456789+00:00")),
        ("b", (None, None)),
        ("c", ("2024-12-31T23:59:59", "2024-12-31T23:59:59+00:00")),
    ]


@example(-1)
@given(st.integers(1 - 2**63, 2**63 - 1).filter(lambda count: count % 1_000))
def test_nanoseconds_before_1970_are_of_the_moment_they_follow(count: int) -> None:
    content = parquet(pa.table({"key": ["a"], "t": pa.array([count], pa.timestamp("ns"))}))

    assert load(content) == [("a", (str(np.datetime64(count, "ns")),))]


def test_nan_in_parquet_and_json_is_a_bad_row_unless_it_is_said_to_be_no_value() -> None:
    content = parquet(pa.table({"key": ["a", "b"], "v": [1.5, float("nan")]}))
    message = (
        "column 'v': nan is not a finite number; None (null) is a missing value, and so is NaN "
        "if you name it in the option missing"
    )

    assert list(bad_rows(content)) == [BadRow(2, message)]
    assert load(content, missing=("NaN",)) == [("a", (1.5,)), ("b", (None,))]
    lines = b'{"key": "a", "v": 1.5}\n{"key": "b", "v": NaN}\n{"key": "nan", "v": null}\n'
    assert list(bad_rows(lines)) == [BadRow(2, message)]
    entries = [("a", (1.5,)), ("b", (None,))]
    assert load(lines, missing=("nan",), on_error="skip") == entries, "a key may not be one"


# Progress and size


def test_progress_tells_rows_first_without_and_then_with_the_total() -> None:
    told: list[Progress] = []
    content = "".join(f"k{n},{n}\n" for n in range(2_500)).encode()

    with read_table(content, progress=told.append) as table:
        assert table.rows == 2_500

    reading = [progress.done for progress in told if progress.total is None]
    checking = [progress.done for progress in told if progress.total == 2_500]
    assert len(reading) + len(checking) == len(told)
    assert {progress.phase for progress in told} == {"reading"}
    for done in (reading, checking):
        assert done == sorted(done)
        assert {1_000, 2_000, 2_500} <= set(done)
        assert done[-1] == 2_500


def test_a_callback_that_raises_ends_the_load() -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_table(Trickle(b"a,1\nb,2\n"), progress=stop)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        ("k;v\na;1,250 kg\nb;2,500 kg\n", [1.25, 2.5]),
        ("k;v\na;1.250 kg\nb;2.500 kg\n", [1250, 2500]),
        ("k;v\na;1,459 €/l\nb;1,539 €/l\n", [1.459, 1.539]),
        ("k;v\na;1,459 €\nb;1,539 €\n", [1.459, 1.539]),
        ("k;v\na;1.459 €\nb;1.539 €\n", [1459, 1539]),
        ("k;v\na;1.459 %\nb;1.539 %\n", [1.459, 1.539]),
        ("k\tv\na\t1,459 €\nb\t1,539 €\n", [1459, 1539]),
        ("k\tv\na\t1,250 kg\nb\t2,500 kg\n", ["1,250 kg", "2,500 kg"]),  # who knows
    ],
)
def test_measures_and_prices_of_a_litre_have_three_decimals(
    content: str, numbers: list[float]
) -> None:
    assert [value for _, (value,) in load(content)] == numbers


@pytest.mark.parametrize(
    ("content", "entries"),
    [
        ("país,1990,2000,2010\nes,1,2,3\n", [("es", (1, 2, 3))]),
        ("país,2020,2010,2005\nes,1,2,3\n", [("es", (1, 2, 3))]),
        ("país,2019,2020\nes,1,2\n", [("es", (1, 2))]),
        ("laptop,1999\nmouse,25\n", [("laptop", (1999,)), ("mouse", (25,))]),
        ("laptop,1999,2050\nmouse,25,30\n", [("laptop", (1999, 2050)), ("mouse", (25, 30))]),
        ("Ana,1990,2015,2020\nE,7,8,2011\n", [("Ana", (1990, 2015, 2020)), ("E", (7, 8, 2011))]),
        ("Ana,1990,1970,1980\nEva,7,8,9\n", [("Ana", (1990, 1970, 1980)), ("Eva", (7, 8, 9))]),
    ],
)
def test_three_years_in_order_name_columns_over_what_are_no_years(
    content: str, entries: Any
) -> None:
    assert load(content) == entries


def test_a_line_break_in_a_name_is_a_blank_and_many_blanks_take_no_time() -> None:
    assert columns('k,"precio\r\n de \n\nventa "\nx,1\n') == {"precio de venta": "number"}
    with pytest.raises(UnreadableSource, match="cannot be the name of a column"):
        load(f'k,"a{" " * 1_000_000}b"\nx,1\n')  # with a search from each blank on it took hours


@pytest.mark.parametrize("word", ["a" * 400_000 + "\1", "a." * 200_000])
def test_a_word_of_thousands_of_letters_does_not_hold_up_the_search_for_a_delimiter(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.loading.dialect.SAMPLE_SIZE", 1 << 22)  # all of it
    rows = "".join(f"k{n};{n},5;x\n" for n in range(9))

    loaded = load(f"k;v,w;t\n{rows}z;9,5;{word}\n")  # with the word as it is it took hours

    assert loaded[-1] == ("z", (9.5, word))


def test_a_line_without_end_in_another_encoding_is_refused_before_it_is_held() -> None:
    with pytest.raises(UnreadableSource, match="line 1 is longer than"):
        load(b"\xff\xe9" * (LONGEST_LINE // 2 + 1))


def test_a_column_of_parquet_is_not_taken_for_a_field_of_another() -> None:
    table = pa.table({"key": ["a", "b"], "s": [{"x": 1}, {"x": 2}], "s.x": [5.0, 6.0]})
    written = io.BytesIO()
    pq.write_table(table, written)

    assert load(written.getvalue(), columns={"s": "skip"}) == [("a", (5,)), ("b", (6,))]


def test_codes_with_a_point_keep_their_zeros() -> None:
    nace = "k,cnae\ncereales,01.11\nhortalizas,01.10\nfruta,1.2\n"

    assert load(nace) == [("cereales", ("01.11",)), ("hortalizas", ("01.10",)), ("fruta", ("1.2",))]
    assert load("k;sale\na;09,30\nb;14,45\n") == [("a", ("09,30",)), ("b", ("14,45",))]
    with read_table(f"{nace}pan,10.71\nvino,11.02\n".encode(), LoadOptions()) as table:
        assert table.notes[0].startswith("'cnae' is text: on line 2, '01.11' would be spoiled")
    for content in (nace, nace.replace(".", ",").replace("k,", "k\t").replace("s,", "s\t")):
        assert [value for _, (value,) in load(content.replace("a,", "a\t") if "\t" in content
                else content, columns={"cnae": "number"})] == [1.11, 1.1, 1.2]  # fmt: skip
    assert load("k;v\na;05,50 €\nb;12,00 €\n") == [("a", (5.5,)), ("b", (12,))]
    assert load("k,v\na,0.5\nb,-05.25\n") == [("a", (0.5,)), ("b", (-5.25,))]


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        ("k,p\na,05.50\nb,02.75\nc,03.25\n", ["'p' is text: on line 2, '05.50' would be spoiled"
         " as a number, as would '02.75' on line 3 and '03.25' on line 4; if numbers are wanted, "
         "name that type in the option columns"]),
        ('k,p\na,"01,10"\nb,2.20\nc,3.30\nd,4.40\n', ["'p' is text: on line 2, '01,10' is not a "
         "number like the others"]),
        ("k\tp\na\t1,250 kg\nb\t2,300 kg\n", [f"'p' is text: {UNCLEAR}"]),
        ("k,p\na,€ 45.000\nb,€ 38.500\n", [f"'p' is text: {UNCLEAR}"]),
        ("k,p\na,850 €/mes\nb,1.100 €/mes\n", [f"'p' is text: {UNCLEAR}"]),
        ("k\tp\na\t28.000 €/año\nb\t35.500 €/año\n", [f"'p' is text: {UNCLEAR}"]),
        ("k;t;v\na;24.12;1.234\nb;9.30;2.500\n", [f"'v' is text: {UNCLEAR}"]),
        ("k;v\na;12345678901234567,89\nb;1,5\n", [f"'v' is text: on line 2, "
         f"'12345678901234567,89' {SPOILED}"]),
        ("k|v\na|12,345,678,901,234,567\nb|1.5\nc|2.5\n", ["'v' is text: on line 2, "
         f"'12,345,678,901,234,567' {SPOILED}"]),
        ("k;v\na;12.345.678.901.234.567\nb;1,5\n", ["'v' is text: on line 2, "
         f"'12.345.678.901.234.567' {SPOILED}"]),
        ("k,v\na,12E4\nb,1045\n", [f"'v' is text: on line 2, '12E4' {SPOILED}{WANTED}"]),
        ("k,v\na,1\nb,2\nc,#DIV/0!\n", [f"'v' is text: on line 4, '#DIV/0!' {LIKE}{GAP}"]),
        ("k,v\na,1\nb,2\nc,#¡DIV/0!\n", [f"'v' is text: on line 4, '#¡DIV/0!' {LIKE}{GAP}"]),
        ("k,zip\na,08001\nb,08002\nc,28001\n", []),
    ],
)  # fmt: skip
def test_numbers_that_are_none_for_how_they_are_written_are_told(
    content: str, notes: list[str]
) -> None:
    with read_table(content.encode(), LoadOptions()) as table:
        assert list(table.notes) == notes


@pytest.mark.parametrize(
    ("content", "values"),
    [
        # What may be dates or times has a point where nothing speaks for the comma.
        ("k;t;v\na;24.12;12,50\nb;9.30;1.200,00\n", [("24.12", 12.5), ("9.30", 1200)]),
        ("k;t;v\na;24.12;12,50\nb;99.95;1.200,00\n", [(24.12, 12.5), (99.95, 1200)]),
        ("k;t;v\na;10.2025;0,5\nb;11.2025;7\n", [("10.2025", 0.5), ("11.2025", 7)]),
        ("k;t;v\na;30.12;0,5\nb;21.45;7\n", [("30.12", 0.5), ("21.45", 7)]),
        ("k;t;v\na;31.01;0,5\nb;5.1999;7\n", [("31.01", 0.5), ("5.1999", 7)]),
        ("k;t\na;1.20\nb;12.10\n", [(1.2,), (12.1,)]),
        # What 1,234 is, columns of numbers say first, and then those of which half are.
        ("k|p|t|v\na|1,50|3.75|1,234\nb|2|x|2,345\n", [(1.5, "3.75", 1.234), (2, "x", 2.345)]),
        ("k|p|v\na|1,50|1,234\nb|call|2,345\n", [("1,50", 1.234), ("call", 2.345)]),
        ("k;n;t\na;5;9.30\nb;7;10.45\n", [(5, 9.3), (7, 10.45)]),  # 5 has neither mark
        ("k;t;v\na;1.20;1.5\nb;9.75;2.234\n", [(1.2, 1.5), (9.75, 2.234)]),
        # Addresses are no billions, but beside other numbers they may be.
        (
            "k,ip,v\na,192.168.178.101,1.234\nb,192.168.178.102,3.500\n",
            [("192.168.178.101", 1.234), ("192.168.178.102", 3.5)],
        ),
        ("k;v\na;192.168.178.101\nb;1.234\n", [(192_168_178_101,), (1234,)]),
        ("k;v\na;300.168.178.101\nb;1.234.567.890\n", [(300_168_178_101,), (1_234_567_890,)]),
        ("k,v\na,1e5\nb,12E+04\n", [(1e5,), (12e4,)]),
        ("k;v\na;- 5,00 €\nb;-   1.234,56 €\n", [(-5,), (-1234.56,)]),
        ("k;v\na;1\u2007234,5\nb;7,0\n", [(1234.5,), (7,)]),
        ("k\tv\na\t6,5 l/100km\nb\t7,1 l/100km\n", [(6.5,), (7.1,)]),
    ],
)
def test_what_looks_like_a_number_is_one_where_it_means_one(
    content: str, values: list[tuple[object, ...]]
) -> None:
    assert [entry for _, entry in load(content)] == values


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("key,v\nb,01234\n", "'01234' would become 1234; if that is meant, name its type"),
        ("key,v\nb,+4915112347\n", r"'\+4915112347' would become 4915112347"),
        ('[{"key": "b", "v": "01067"}]', "'01067' would become 1067"),
        ('[{"key": "b", "v": "1,299"}]', "'1,299' may have thousands or decimals"),
        ("key\tv\nb\t25,900\n", "'25,900' may have thousands or decimals"),
    ],
)
def test_an_append_spoils_nothing_and_guesses_nothing(content: str, says: str) -> None:
    d = SoftDict({"a": 1.5}, encoder="random", columns=[Column("v", "number")])

    with pytest.raises(BadRows, match=says):
        d.load(content.encode())
    assert dict(d) == {"a": 1.5}
    d.load(content.encode(), LoadOptions(columns={"v": "number"}, decimal="point"))
    assert isinstance(d["b"], int)


def test_a_number_without_marks_is_read_where_those_of_others_are_unclear() -> None:
    d = SoftDict({"a": 1.5}, encoder="random", columns=[Column("v", "number")])

    report = d.load(b"key\tv\nb\t25,900\nc\t12\n", LoadOptions(on_error="skip"))

    assert dict(d) == {"a": 1.5, "c": 12}
    assert [line for line, _ in report.bad_rows] == [2]


def test_texts_of_json_are_read_as_the_numbers_that_are_wanted() -> None:
    content = '{"a": "2,50", "b": "1.200,00", "c": "", "d": "n.d.", "e": 7.5}'
    wanted = {"value": "number"}

    assert load(content, columns=wanted) == [
        ("a", (2.5,)), ("b", (1200,)), ("c", (None,)), ("d", (None,)), ("e", (7.5,)),
    ]  # fmt: skip
    assert detected(content, columns=wanted)["decimal"] == "comma"
    assert columns(content) == {"value": "text"}


def test_an_empty_text_among_the_numbers_of_json_is_a_gap() -> None:
    content = (
        '[{"k": "a", "p": 1.5, "t": "x"}, {"k": "b", "p": "", "t": ""}, {"k": "c", "p": "NA"}]'
    )

    assert load(content) == [("a", (1.5, "x")), ("b", (None, "")), ("c", (None, None))]


def test_keys_that_a_gap_made_fractions_are_whole() -> None:
    content = '[{"id": 1001.0, "n": 1}, {"id": 1002, "n": 2}, {"id": 7.5, "n": 3}]'

    assert load(content, key="id") == [("1001", (1,)), ("1002", (2,)), ("7.5", (3,))]


def test_what_is_wrong_with_a_guess_is_advised() -> None:
    houses = "k,house\n" + "".join(f"n{n},{n}\n" for n in range(1, 41)) + "z,12a\n"
    with pytest.raises(
        BadRows, match=r"; if 'house' holds no numbers, name its type in the option columns$"
    ):
        load(houses)
    assert load(houses, columns={"house": "text"})[-1] == ("z", ("12a",))
    with pytest.raises(BadRows, match="columns; if 'nil' says that there is none, name it in the"):
        load(houses.replace("12a", "nil"))
    assert load(houses.replace("12a", "nil"), missing=["nil"])[-1] == ("z", (None,))
    twice = "aisle,price\nx,1\nx,2\n"
    with pytest.raises(BadRows, match="; if 'aisle' does not hold the keys, name the column that"):
        load(twice)
    with pytest.raises(BadRows, match=r"to say which one counts$"):
        load(twice, key="aisle")
    gaps = "sku,remark,price\n1,new,2\n2,,3\n"
    with pytest.raises(BadRows, match="skip; if 'remark' does not hold the keys, name the column"):
        load(gaps)
    with pytest.raises(BadRows, match=r"on_error=skip$"):
        load(gaps, key="remark")
    with pytest.raises(
        BadRows, match="; if 'column 1' does not hold the keys, name the column that"
    ):
        load("x,a,2\n,b,3\n")
    assert load("x,a,2\n,b,3\n", key="column 2")[0][0] == "a"


def test_what_a_note_advises_works() -> None:
    padded = "k,p\na,05.50\nb,02.75\n"
    assert load(padded, columns={"p": "number"}) == [("a", (5.5,)), ("b", (2.75,))]
    unclear = "k\tp\na\t1,250 kg\nb\t2,300 kg\n"
    assert load(unclear, decimal="comma") == [("a", (1.25,)), ("b", (2.3,))]
    assert load(unclear, decimal="point") == [("a", (1250,)), ("b", (2300,))]
    with read_table(b'{"a": "007", "b": 2, "c": 3}', LoadOptions()) as table:
        assert "without quotes" not in "".join(table.notes)


def test_a_long_document_of_one_line_in_another_encoding_is_read() -> None:
    rows = [{"k": f"ñ{number}", "v": "x" * 1_000_000 + str(number)} for number in range(18)]
    content = json.dumps(rows, ensure_ascii=False).encode("cp1252")
    assert len(content) > LONGEST_LINE and b"\n" not in content

    assert [key for key, _ in load(content, filename="x.json")] == [row["k"] for row in rows]


def test_a_key_or_label_of_ten_thousand_marks_is_read_as_fast_as_any() -> None:
    marks = "\u0301\u0323" * 20_000  # put in order, they took the square of their number
    with pytest.raises(InvalidKey, match="at most 10000 are allowed"):
        check_key(f"a{marks}", 10_000)
    label = f"a{marks * 20}"
    assert cast_value(label, Column("c", "category")) == label
    assert cast_value("a" + "\u0301" * 30 + "b" * 300, Column("c", "category"))[0] == "á"


def test_an_append_finds_its_keys_whatever_its_values_are_called() -> None:
    d = SoftDict(encoder="random")
    d["1001"] = {"color": "rojo", "price": 1}

    d.load(b"sku,color,price\n1001,azul,3\n")
    assert dict(d) == {"1001": {"color": "azul", "price": 3}}
    other = SoftDict(encoder="random")
    other.load(b"sku,n\na1,1\n")
    other.load(b"name,SKU,n\nx,a1,2\n", LoadOptions(columns={"name": "skip"}))
    assert dict(other) == {"a1": 2}


def test_the_datasets_column_of_keys_is_known_in_capitals_too(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        first = LoadOptions(format="csv", key="sku")
        catalog.load("d", b"sku,color,n\n1001,rojo,1\n", first, encoder="random")
        catalog["d"].load(b"color,SKU,n\nazul,1001,2\n")

        assert dict(catalog["d"]) == {"1001": {"color": "azul", "n": 2}}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"columns": {"column 2": "text"}}, ("value1", "value2")),
        ({"columns": {"column 2": "skip"}}, ("value",)),
        ({"columns": {"column 2": "skip", "column 3": "text"}}, ("value",)),
        ({"columns": {"value2": "text"}}, ("value1", "value2")),
        ({"attributes": ("column 3",)}, ("value1", "value2")),
        ({"key": "column 1", "columns": {"column 2": "text"}}, ("value1", "value2")),
    ],
)
def test_without_a_header_every_option_names_columns_by_their_place(
    options: dict[str, Any], names: tuple[str, ...]
) -> None:
    with read_table(b"a;5;1\nb;6;2\n", LoadOptions(**options), filename="x.csv") as table:
        found = {column.name: column for column in table.columns}
        values = [values for _, values in table]

    assert tuple(found) == names
    wanted = {"column 2": names[0], "column 3": names[-1], "value2": "value2"}
    for name, type_ in options.get("columns", {}).items():
        if type_ == "text":
            assert found[wanted[name]].type == "text"
            assert all(isinstance(row[names.index(wanted[name])], str) for row in values)
    for name in options.get("attributes", ()):
        assert found[wanted[name]].attribute


def test_a_place_that_no_column_has_is_refused() -> None:
    options = LoadOptions(columns={"column 4": "text"})

    with pytest.raises(InvalidRequest, match="no column 'column 4'; there are: value1, value2"):
        read_table(b"a;5;1\nb;6;2\n", options, filename="x.csv")


@pytest.mark.parametrize(
    ("columns", "said"),
    [({}, "the file has no columns"), ({"s": "skip", "key": "skip"}, "every column is left out")],
)
def test_parquet_without_a_column_that_is_left_is_refused(
    columns: dict[str, str], said: str
) -> None:
    table = pa.table({"s": [1, 2], "key": ["a", "b"]} if columns else {})
    stream = io.BytesIO()
    pq.write_table(table, stream)

    with pytest.raises(UnreadableSource, match=f"x.parquet: {said}, and none holds keys"):
        read_table(stream.getvalue(), LoadOptions(columns=columns), filename="x.parquet")


def test_a_gap_in_a_vector_is_told_with_its_place() -> None:
    column = Column("v", "vector", 3)

    with pytest.raises(WrongValue, match="number 2 of the vector is missing"):
        cast_value([1, None, 3], column)


def test_cells_without_anything_may_stand_behind_the_last_column() -> None:
    assert load("key,price\na,1,\nb,2\nc,3,,\n") == [("a", (1,)), ("b", (2,)), ("c", (3,))]


def test_a_large_number_is_a_key_as_it_is_written() -> None:
    content = '[{"key": 3.0, "v": 1}, {"key": 1e+22, "v": 2}]'

    assert load(content, key="key") == [("3", (1,)), ("1e+22", (2,))]


def test_a_key_of_json_that_comes_again_is_told_with_the_entry_it_came_in() -> None:
    rows = bad_rows('[{"key": "b", "v": 1}, {"key": "a", "v": 1}, {"key": "a", "v": 2}]')

    assert rows[0].reason == "entry 3: the key 'a' came in entry 2 already"


def test_blanks_around_a_mark_of_nothing_count_for_nothing() -> None:
    assert load("key,v\na,1\nb,n.v.\n", missing=(" n.v. ",)) == [("a", (1,)), ("b", (None,))]


@pytest.mark.parametrize("filename", ["A.TSV", "a.tab"])
def test_the_ending_of_a_name_tells_the_format_in_capitals_too(filename: str) -> None:
    with read_table(b"key\tv\na\t1,5\n", filename=filename) as table:
        assert table.format == "tsv"


def test_as_many_columns_and_as_long_labels_as_may_be_are_taken() -> None:
    names = [f"c{n}" for n in range(999)]
    rows = "".join(f"k{n},{'x' * 100}\n" for n in range(4))

    assert len(columns(f"key,{','.join(names)}\na,{','.join('1' for _ in names)}\n")) == 999
    assert columns(f"key,v\n{rows}") == {"v": "category"}


def test_an_utterance_is_a_key() -> None:
    assert list(columns("intent,utterance\nbuy,get me one\nsell,take it\n")) == ["intent"]


def test_degrees_are_a_unit_with_either_sign() -> None:
    assert units("key,v\na,70 ºF\nb,71 ºF\n") == {"v": "°F"}

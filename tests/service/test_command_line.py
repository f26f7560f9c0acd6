"""The command line: what it prints, on which stream, and with which code it ends."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import click
import pytest
from click.testing import CliRunner

from index import Column, SoftDict
from index.answers import Progress
from service.cli import main
from service.printed import ProgressLine, answer_lines, blend_lines, dumped
from service.settings import Settings
from tests.programs import program
from tests.service.conftest import COUNTRIES
from tests.service.running import PATIENCE, ROOT, Service, environment, wait_for_vectors

HEAVY = ("torch", "faiss", "onnxruntime", "pyarrow", "sentence_transformers", "flask", "numpy")
COMMANDS = (
    "serve",
    "load",
    "search",
    "compare",
    "datasets",
    "export",
    "reencode",
    "delete",
    "configure",
    "settings",
)


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command inside this process, which saves the second that a new one takes."""
    for name in os.environ:
        if name.startswith("SOFTDICT_"):
            monkeypatch.delenv(name)
    defaults = {"SOFTDICT_HOME": str(tmp_path / "store"), "SOFTDICT_ENCODER": "random"}

    def call(*args: str, **env: str) -> Ran:
        ended = CliRunner().invoke(
            main, args, prog_name="python -m service", env={**defaults, **env}
        )
        return Ran(ended.exit_code, ended.stdout, ended.stderr)

    return call


@pytest.mark.parametrize(
    "command", [("delete", "x"), ("reencode", "x"), ("configure", "x", "--tolerance", "0")]
)
def test_what_changes_a_dataset_makes_no_store_where_there_is_none(
    run: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    ended = run(*command)

    assert ended.returncode == 1
    assert "there is no store" in ended.stderr
    assert not (tmp_path / "store").exists()  # a service that starts there brings its datasets


def process(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a person does."""
    command = [sys.executable, "-m", "service", *args]
    return subprocess.run(
        command, cwd=ROOT, env=environment(**env), capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "precios.csv"
    path.write_text("key,valor\n" + "".join(f"{k},{v}\n" for k, v in COUNTRIES.items()), "utf-8")
    return str(path)


def test_what_is_loaded_is_listed_found_compared_exported_and_deleted(
    run: Run, table: str, tmp_path: Path
) -> None:
    loaded = run("load", table, "--name", "paises", "--json")
    assert (loaded.returncode, json.loads(loaded.stdout)["loaded"]) == (0, 4), loaded.stderr

    listed = json.loads(run("datasets", "--json").stdout)["datasets"]
    assert [(each["name"], each["entries"]) for each in listed] == [("paises", 4)]

    found = json.loads(run("search", "perro", "-k", "2", "--temperature", "0.01", "--json").stdout)
    assert (len(found["matches"]), found["matches"][0]["key"]) == (2, "perro")
    assert found["blend"]["valor"]["mean"] == pytest.approx(5.0, abs=1e-6)

    hand = {"méxico": 0.3, "alemania": 0.3, "inglaterra": 0.3, "perro": 0.1}
    by_hand = [f"--weight={key}={weight}" for key, weight in hand.items()]
    compared = json.loads(run("compare", "país", *by_hand, "--json").stdout)
    assert compared["exact"]["found"] is False
    assert compared["manual"]["blend"]["valor"]["mean"] == pytest.approx(8.0)

    assert run("export", "paises").stdout.splitlines()[0] == "key,valor"
    out = tmp_path / "out.jsonl"
    assert run("export", "paises", "--format", "jsonl", "-o", str(out)).returncode == 0
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {row["key"]: row["valor"] for row in rows} == COUNTRIES
    assert list(tmp_path.glob("*.part")) == []
    for name in ("out2.jsonl", "out2.parquet", "out2.csv", "out2"):  # as the name says
        assert run("export", "paises", "-o", str(tmp_path / name)).returncode == 0
    assert (tmp_path / "out2.jsonl").read_bytes() == out.read_bytes()
    assert (tmp_path / "out2.parquet").read_bytes().startswith(b"PAR1")
    assert (tmp_path / "out2").read_bytes() == (tmp_path / "out2.csv").read_bytes()
    assert (tmp_path / "out2").read_text().startswith("key,valor\n")
    for name in ("out2.jsonl", "out2.parquet", "out2.csv"):  # --json shapes what is printed
        again = tmp_path / f"again.{name}"
        assert run("export", "paises", "-o", str(again), "--json").returncode == 0
        assert again.read_bytes() == (tmp_path / name).read_bytes()
    assert run("export", "paises", "--json").stdout.encode() == out.read_bytes()
    assert run("export", "paises", "--json", "--format", "csv").stdout.startswith("key,valor\n")
    refused = run("export", "paises", "-o", str(tmp_path / "out2.xlsx"))
    assert (refused.returncode, (tmp_path / "out2.xlsx").exists()) == (2, False)
    assert "name it .csv, .jsonl or .parquet, or say --format" in refused.stderr
    sheet = ("export", "paises", "--format", "csv", "-o", str(tmp_path / "out2.xlsx"))
    assert run(*sheet).returncode == 0

    assert run("delete", "paises").stdout == "deleted paises\n"
    assert json.loads(run("datasets", "--json").stdout) == {"datasets": []}


EXPORTED = "key,valor\n" + "".join(f"{key},{value}\n" for key, value in COUNTRIES.items())


def test_an_export_replaces_what_a_link_points_to_and_keeps_its_mode(
    run: Run, table: str, tmp_path: Path
) -> None:
    run("load", table, "--name", "paises")
    folder, link, other = tmp_path / "out", tmp_path / "link.csv", tmp_path / "link.csv.part"
    folder.mkdir()
    file = folder / "paises.csv"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    other.write_text("another's")
    exported = run("export", "paises", "-o", str(link))

    assert exported.returncode == 0, exported.stderr
    assert (link.is_symlink(), file.read_text("utf-8")) == (True, EXPORTED)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (other.read_text(), list(folder.iterdir())) == ("another's", [file])


def test_an_export_over_a_private_file_is_private_from_the_first_byte(
    run: Run, table: str, tmp_path: Path
) -> None:
    run("load", table, "--name", "paises")
    folder = tmp_path / "out"
    folder.mkdir()
    file, calls = folder / "paises.csv", tmp_path / "calls"
    file.write_text("old")
    file.chmod(0o600)
    watch = [program("strace"), "-f", "-qq", "-e", "trace=openat,fsync,rename", "-o", str(calls)]
    command = [sys.executable, "-m", "service", "export", "paises", "-o", str(file)]
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"))
    subprocess.run([*watch, *command], cwd=ROOT, env=env, check=True)

    made = re.search(r"openat\([^\n]*\.part\", [^\n]*, (0\d+)\) = (\d+)", calls.read_text())
    assert made is not None and made[1] == "0600"
    after = calls.read_text()[made.end() :]
    assert 0 < after.find(f"fsync({made[2]})") < after.find("rename(")  # on the disk, then shown
    assert (file.read_text("utf-8"), stat.S_IMODE(file.stat().st_mode)) == (EXPORTED, 0o600)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True])
def test_an_export_that_a_signal_ends_leaves_nothing(
    run: Run, table: str, tmp_path: Path, number: signal.Signals, ignored: bool
) -> None:
    run("load", table, "--name", "paises")
    folder = tmp_path / "out"
    folder.mkdir()
    file = folder / "paises.csv"
    file.write_text("old")
    sent = f"inject=fsync:signal={number.name}:when=1"  # all is written, and has no name yet
    watch = [program("strace"), "-f", "-qq", "-e", "trace=fsync", "-e", sent]
    command = [sys.executable, "-m", "service", "export", "paises", "-o", str(file)]
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"))
    # Under nohup a signal is ignored that nobody had ignored here.
    begun = ["env", f"--{'ignore' if ignored else 'default'}-signal={number.name[3:]}"]
    ran = subprocess.run([*watch, *begun, *command], cwd=ROOT, env=env, stderr=subprocess.DEVNULL)

    assert ran.returncode == (0 if ignored else 128 + number)
    assert file.read_text("utf-8") == (EXPORTED if ignored else "old")
    assert list(folder.iterdir()) == [file]


def test_a_dry_run_that_a_signal_ends_leaves_nothing(table: str, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    sent = "inject=pwrite64:signal=SIGTERM:when=1"  # to the store that it tries in
    watch = [program("strace"), "-f", "-qq", "-e", "trace=pwrite64", "-e", sent]
    command = [sys.executable, "-m", "service", "load", "--dry-run", "--name", "a", table]
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"), TMPDIR=str(temporary))
    ran = subprocess.run([*watch, *command], cwd=ROOT, env=env, stderr=subprocess.DEVNULL)

    assert ran.returncode == 128 + signal.SIGTERM
    assert list(temporary.iterdir()) == []


def test_an_export_into_a_pipe_goes_through_it(run: Run, table: str, tmp_path: Path) -> None:
    run("load", table, "--name", "paises")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    exported = run("export", "paises", "-o", str(pipe))
    read = os.read(reader, 10_000).decode().replace("\r\n", "\n")
    os.close(reader)

    assert (exported.returncode, read, pipe.is_fifo()) == (0, EXPORTED, True)


def test_an_export_to_the_standard_output_by_its_path_stands_behind_what_is_there(
    run: Run, table: str, tmp_path: Path
) -> None:
    run("load", table, "--name", "paises")
    log = tmp_path / "log"
    log.write_text("before\n")
    command = [sys.executable, "-m", "service", "export", "paises", "-o", "/dev/fd/1"]
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"))
    with log.open("ab") as stream:
        subprocess.run(command, cwd=ROOT, env=env, stdout=stream, check=True)

    assert log.read_text("utf-8") == "before\n" + EXPORTED


def test_an_export_that_cannot_be_written_says_so_and_leaves_nothing(
    run: Run, table: str, tmp_path: Path
) -> None:
    run("load", table, "--name", "paises")
    before = sorted(tmp_path.iterdir())
    exported = run("export", "paises", "-o", f"{table}/paises.csv")
    as_json = run("export", "paises", "-o", f"{table}/paises.csv", "--json")

    said = f"cannot write {table}/paises.csv: Not a directory"
    assert (exported.returncode, exported.stderr) == (1, f"softdict: {said}\n")
    assert (as_json.returncode, json.loads(as_json.stderr)["detail"]) == (1, said)
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_printed_is_for_people(run: Run, table: str) -> None:
    loaded = run("load", table, "--name", "paises")
    found = run("search", "perro", "--temperature", "0.01").stdout
    compared = run("compare", "país").stdout

    assert "paises: loaded 4 entries (csv)" in loaded.stdout
    assert "valor: 5 (90% of the weight at 5)" in found
    assert "perro       100.0%  " + "█" * 30 in found
    assert found.splitlines()[-1] == (
        "confidence unknown (best score 1.00), temperature 0.01 (given), 1.0 effective keys of 4"
    )
    assert run("search", "perro", "--mode", "exact").stdout == "valor 5\n"
    assert run("search", "gato", "--mode", "exact").stdout == "no key reads exactly 'gato'\n"
    assert compared.startswith("exact: nothing\n")
    assert run("compare", "méxico").stdout.startswith("exact: valor 7\n")
    assert "paises  4 entries  valor (number)" in run("datasets").stdout
    unshown = run("search", "perro", "--explain")
    assert unshown.returncode == 2 and "the steps are shown with --json" in unshown.stderr
    assert "explanation" in json.loads(run("search", "perro", "--explain", "--json").stdout)


def test_numbers_are_printed_with_their_unit(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "precios.csv"
    table.write_text("pieza;precio;aforo\nsilla;12,50 €;5 %\nmesa;30,00 €;\n", "utf-8")

    loaded = run("load", str(table), "--name", "precios", "--attribute", "aforo").stdout
    found = run("search", "silla", "--temperature", "0.001").stdout

    assert "  pieza → precio (number, €), aforo (number, attribute, %)\n" in loaded
    assert "  silla: 12.5 €, 5 %\n  mesa: 30 €, nothing\n" in loaded
    assert found.startswith("precio: 12.5 € (90% of the weight at 12.5 €)\n")
    assert "  precio 12.5 €, aforo 5 %\n" in found
    compared = run("compare", "mesa", "--temperature", "0.001").stdout
    assert compared.startswith("exact: precio 30 €\nby meaning: precio: 30 € (")


def test_a_blend_says_how_much_of_the_weight_has_a_value_and_its_median() -> None:
    d = SoftDict(
        {"a": {"n": 1, "c": "x"}, "b": {"n": 2, "c": "x"}, "d": {"n": 9, "c": "y"}, "e": {}},
        encoder="random",
        columns=[Column("n", "number"), Column("c", "category")],
    )
    evenly = d.search("z", temperature=1000).blend

    assert list(blend_lines(evenly)) == [
        "n: 4, median 2 (75.0% of the weight has a value; 90% of that between 1 and 9)",
        "c: x (67%; 75.0% of the weight has a value)",
    ]
    for unseen, said in {
        (0.51234, 12.0): "the weight between 1 and 9; 90% of unseen values between 0.5123 and 12",
        (1.0, 9.0): "the weight and of unseen values between 1 and 9",
    }.items():
        told = {"n": replace(evenly["n"], known=1.0, prediction_interval=unseen)}
        assert list(blend_lines(told)) == [f"n: 4, median 2 (90% of {said})"]
    nearly = {"n": replace(evenly["n"], known=0.9994)}
    assert list(blend_lines(nearly)) == [
        "n: 4, median 2 (99.9% of the weight has a value; 90% of that between 1 and 9)"
    ]
    whole = d.search("z", temperature=1000, where="n is not missing").blend
    assert list(blend_lines(whole)) == [
        "n: 4, median 2 (90% of the weight between 1 and 9)", "c: x (67%)",
    ]  # fmt: skip
    vectors = SoftDict({"a": [1, 2], "b": [3, 4]}, encoder="random")
    assert list(blend_lines(vectors.search("z", temperature=1000).blend)) == ["value: [2, 3]"]


def test_a_line_of_an_answer_names_its_values_where_there_are_several() -> None:
    several = SoftDict(
        {"a": {"n": 7, "c": None}},
        encoder="random",
        columns=[Column("n", "number"), Column("c", "category")],
    ).search("a")
    alone = replace(SoftDict({"a": 7}, encoder="random").search("a"), confidence=0.8734)

    full = f"a  100.0%  {'█' * 30}"
    blend, line, last = answer_lines(alone)
    assert (blend, line) == ("value: 7 (90% of the weight at 7)", f"{full}  7")
    assert last.startswith("confidence 87.3%, temperature 0.1 (encoder), 1.0 effective keys of 1")
    assert list(answer_lines(several))[1:3] == ["c: nothing", f"{full}  n 7, c nothing"]


def test_vectors_that_were_there_already_are_told_of(run: Run, tmp_path: Path) -> None:
    few, more = tmp_path / "few.csv", tmp_path / "more.csv"
    few.write_text("key,v\na,1\nb,2\n")
    more.write_text("key,v\na,1\nb,2\nc,3\n")

    assert "there already" not in run("load", str(few), "--name", "few").stdout
    assert "\n  2 of 3 vectors were there already\n" in run("load", str(more), "--name", "m").stdout


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-8", '"é"'), ("UTF-8", '"é"'), ("cp1252", r'"\u00e9"'), (None, '"é"')],
)
def test_json_has_escapes_where_an_output_may_lack_a_character(
    monkeypatch: pytest.MonkeyPatch, encoding: str | None, said: str
) -> None:
    output = encoding and io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # None where closed
    monkeypatch.setattr(sys, "stdout", output)

    assert dumped("é") == said


def test_a_type_of_a_column_that_is_none_is_a_wrong_use(run: Run, table: str) -> None:
    for given in ("valor=money", "number"):
        wrong = run("load", table, "--name", "a", "--column", given)
        assert wrong.returncode == 2
        assert f"--column {given}: write NAME=TYPE, a type being number," in wrong.stderr


def test_a_long_key_is_cut_where_its_weight_would_be_pushed_out_of_the_line() -> None:
    d = SoftDict({"a" * 40: 1, "b" * 41: 2, "c": 3}, encoder="random")

    starts = {line[:42] for line in answer_lines(d.search("a", k=3))}
    assert starts >= {"a" * 40 + "  ", "b" * 39 + "…  ", "c" + " " * 41}


def test_stored_numbers_are_printed_whole_and_texts_cannot_move_the_cursor(
    run: Run, tmp_path: Path
) -> None:
    table, long = tmp_path / "casas.csv", "x" * 3000
    table.write_text(f'key,precio,nota\ncasa,1234567.89,"a\x1b[2J\nb"\n{long},5,c\n', "utf-8")
    loaded = run("load", str(table), "--name", "casas")
    found = run("search", "casa", "--temperature", "0.001").stdout

    assert "  casa: 1234567.89, a\\x1b[2J\\nb\n" in loaded.stdout
    assert "precio: 1234568 (90% of the weight at 1234567.89)\n" in found
    assert "  precio 1234567.89, nota a\\x1b[2J\\nb\n" in found
    assert [len(line) < 120 for line in found.splitlines()] == [True] * 5
    assert "x" * 39 + "…" in found
    assert run("compare", "casa").stdout.startswith("exact: precio 1234567.89, ")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_an_output_of_few_characters_stops_nothing(
    run: Run, table: str, tmp_path: Path, encoding: str
) -> None:
    few = {"SOFTDICT_HOME": str(tmp_path / "store"), "PYTHONIOENCODING": encoding}

    def ended(*args: str) -> bytes:
        command, env = [sys.executable, "-m", "service", *args], environment(**few)
        ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "key ? valor (number)" in ended("load", table, "--name", "paises").decode(encoding)
    assert "100.0%  " + "?" * 30 in ended("search", "perro", "--temperature", "0.01").decode(
        encoding
    )
    found = json.loads(ended("search", "méxico", "--json").decode(encoding))
    assert found["query"] == found["matches"][0]["key"] == "méxico"


def test_streams_may_be_closed(run: Run, table: str, tmp_path: Path) -> None:
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"))
    line = f"{sys.executable} -m service load {table} --name paises 2>&-"
    loaded = subprocess.run(["bash", "-c", line], cwd=ROOT, env=env, stdout=subprocess.PIPE)
    line = f"{sys.executable} -m service export paises 1>&-"
    exported = subprocess.run(["bash", "-c", line], cwd=ROOT, env=env, stderr=subprocess.PIPE)

    out = tmp_path / "out.csv"
    for _ in range(2):  # the second time the file is there
        line = f"{sys.executable} -m service export paises -o {out} 1>&-"
        assert subprocess.run(["bash", "-c", line], cwd=ROOT, env=env).returncode == 0
    assert out.read_text("utf-8").startswith("key,valor\n")

    assert (loaded.returncode, b"loaded 4 entries" in loaded.stdout) == (0, True)
    assert exported.returncode == 1
    assert exported.stderr == b"softdict: there is no standard output; write -o FILE\n"


@pytest.mark.parametrize("option", ["--temperature", "--precision"])
def test_a_setting_that_is_empty_is_none(run: Run, table: str, option: str) -> None:
    refused = run("load", table, "--name", "paises", option, "")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert option.removeprefix("--") in refused.stderr


def test_a_key_without_values_is_said_to_have_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text("key\nperro\ngato\n", "utf-8")
    loaded = run("load", str(tmp_path / "keys.csv"), "--name", "claves").stdout.splitlines()
    assert {"  key → no other column", "  perro", "  gato"} < {*loaded}

    assert run("compare", "perro", "--dataset", "claves").stdout.startswith("exact: no values\n")


def test_a_load_shows_its_progress_on_stderr(run: Run, table: str) -> None:
    loaded = run("load", table, "--name", "paises", "--json")

    assert "encoding" in loaded.stderr
    json.loads(loaded.stdout)


def test_a_large_load_waits_for_its_sketch(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)
    monkeypatch.setattr("index.moments.half_is_fast", lambda: True)
    table = tmp_path / "many.csv"
    table.write_text("key,valor\n" + "".join(f"key {n},{n % 7}\n" for n in range(300)), "utf-8")

    loaded = run("load", str(table), "--name", "many", "--json")

    assert "sketching (Ctrl-C leaves it to the next start)" in loaded.stderr
    assert json.loads(loaded.stdout)["loaded"] == 300
    (generation,) = (tmp_path / "store" / "generations").iterdir()
    assert (generation / "generation.json").is_file()

    vectors = generation / "vectors.npy"
    full = vectors.stat().st_size
    assert run("configure", "many", "--precision", "half").returncode == 0
    assert vectors.stat().st_size < 0.55 * full  # it waited for that sketch, too


def test_a_sketch_that_is_interrupted_is_left_to_the_next_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.rebuilding.SKETCHED_FROM", 200)
    monkeypatch.setattr("index.softdict.SoftDict.settle", _interrupted)
    table = tmp_path / "many.csv"
    table.write_text("key,valor\n" + "".join(f"key {n},{n % 7}\n" for n in range(300)), "utf-8")

    loaded = run("load", str(table), "--name", "many")

    assert loaded.returncode == 0
    assert "300 entries" in run("datasets").stdout


def _interrupted(_: object) -> None:
    raise KeyboardInterrupt


def test_a_dry_run_says_what_would_be_loaded(run: Run, table: str) -> None:
    dry = run("load", table, "--name", "paises", "--dry-run", "--column", "valor=text")

    assert "paises: would load 4 entries (csv)" in dry.stdout
    assert "valor (text)" in dry.stdout
    assert not Path(table).with_name("store").exists()

    run("load", table, "--name", "paises")
    listed = run("datasets", "--json").stdout
    again = run("load", table, "--name", "paises", "--dry-run")
    assert again.returncode == 1 and "'paises' exists" in again.stderr
    for how in ("append", "replace"):
        dry = run("load", table, "--name", "paises", "--dry-run", "--if-exists", how)
        assert dry.stdout.startswith("paises: would load 4 entries (csv)\n"), dry.stderr
    assert run("datasets", "--json").stdout == listed


def test_a_dry_run_counts_the_entries_that_the_load_then_has(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("key,valor\na,1\na,2\nb,3\nc,much\n")
    flags = ("--duplicates", "first", "--on-error", "skip", "--column", "valor=number")
    dry = run("load", str(table), "--name", "a", *flags, "--dry-run")
    done = run("load", str(table), "--name", "a", *flags)

    assert dry.stdout.startswith("a: would load 2 entries (csv)\n")
    assert done.stdout.startswith("a: loaded 2 entries (csv)\n")


def test_one_entry_is_said_as_one(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("key,valor\na,1\n")

    assert run("load", str(table), "--name", "a").stdout.startswith("a: loaded 1 entry (csv)\n")
    assert run("datasets").stdout.startswith("a  1 entry  ")


def test_rows_that_were_left_out_are_all_counted(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    rows = [f"k{n},{n}" for n in range(5_000)] + [f"bad{n},x" for n in range(103)]
    table.write_text("\n".join(["key,v", *rows]))

    lines = run("load", str(table), "--name", "a", "--on-error", "skip").stdout.splitlines()

    assert lines[0] == "a: loaded 5,000 entries (csv)"
    assert lines[-2:] == [
        "  line 5101: column 'v': 'x' is not a number",
        "  and 3 rows more that cannot be read",
    ]


def test_a_refusal_is_code_1_and_one_line_on_stderr(run: Run, table: str) -> None:
    run("load", table, "--name", "paises")
    again = run("load", table, "--name", "paises")
    absent = run("search", "a", "--dataset", "nada")

    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.splitlines()[-1].startswith("softdict: a dataset 'paises' exists")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert absent.stderr == "softdict: there is no dataset 'nada'; there are: paises\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("load FILE --name d", "a dataset 'd' exists; delete it, or load with --if-exists replace"),
        ("load BAD --name e", "--on-error skip"),
        ("load TITLE --name e", "delete the lines above it, or load with --no-header if none does"),
        (
            "load FILE --name e --column v=vector",
            "'1' is text, not a list of numbers. Correct them",
        ),
        ("load BAD --name e --format csv --attribute q", "--attribute: there is no column 'q'"),
        ("load FILE --name e --column q=text", "--column: there is no column 'q'; there are: v"),
        ("load FILE --name e --key q", "--key: there is no column 'q'; there are: k, v"),
        ("load FILE --name .e", "--name: write 1 to 100 letters"),
        ("search a -k 0 --as-of x", "-k: write a whole number of matches, at least 1; --as-of: "),
        ("compare a --weight b.c=1", "--weight b.c: 'd' has no such key"),
        ("reencode d --encoder x", "--encoder: there is no encoder 'x'"),
    ],
)
def test_a_refusal_names_options_as_they_are_typed(
    run: Run, tmp_path: Path, args: str, said: str
) -> None:
    (tmp_path / "file.csv").write_text("k,v\na,1\n")
    (tmp_path / "bad").write_text("k,v\na,1\na,2\n")
    (tmp_path / "title.csv").write_text("Prices of May;;\n;;\nk;v;w\na;1;2\nb;3;4\n")
    run("load", str(tmp_path / "file.csv"), "--name", "d")

    files = {"FILE": "file.csv", "BAD": "bad", "TITLE": "title.csv"}
    places = {word: str(tmp_path / name) for word, name in files.items()}
    refused = run(*(places.get(word, word) for word in args.split()))

    assert refused.returncode == 1
    assert said in refused.stderr.splitlines()[-1]


def test_the_notes_of_a_load_name_options_as_they_are_typed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,code,v\na,01234,5\nb,28013,n. a. yet\nc,3,6\n")

    said = run("load", str(tmp_path / "a.csv"), "--name", "a").stdout

    assert said.count("name that type in --column") == 1
    assert "name it in --missing" in said
    assert "option" not in said
    (tmp_path / "b.csv").write_text("k,v\na,1\nnone,2\n")
    options = ("--name", "b", "--on-error", "skip", "--missing", "none")
    skipped = run("load", str(tmp_path / "b.csv"), *options).stdout
    assert "  line 3: the key is empty, or what --missing names" in skipped


def test_an_empty_name_is_not_the_first_dataset(run: Run, table: str) -> None:
    run("load", table, "--name", "paises")

    for command in ("search", "compare"):
        asked = run(command, "a", "--dataset", "")  # as of a variable of a script that is not set
        assert (asked.returncode, asked.stdout) == (1, "")
        assert asked.stderr == "softdict: there is no dataset ''; there are: paises\n"


def test_with_json_a_refusal_is_a_problem(run: Run, table: str) -> None:
    run("load", table, "--name", "paises")
    refused = run("search", "a", "--temperature", "hot", "--json")

    problem = json.loads(refused.stderr)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert problem["type"] == "/problems/invalid-request"
    assert [fault["where"] for fault in problem["errors"]] == ["temperature"]


def test_with_json_a_file_whose_name_is_no_text_is_a_problem_too(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/br\xed.json"
    with open(file, "w") as table:
        table.write("x")
    command = [sys.executable, "-m", "service", "load", file, "--name", "b", "--json"]
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"), SOFTDICT_ENCODER="random")
    refused = subprocess.run(command, cwd=ROOT, env=env, capture_output=True)

    assert refused.returncode == 1
    assert json.loads(refused.stderr)["detail"].startswith(f"{os.fsdecode(file)} is not JSON")


@pytest.mark.parametrize("command", ["load", "serve"])
def test_a_store_that_cannot_be_a_folder_is_a_refusal(
    run: Run, table: str, tmp_path: Path, command: str
) -> None:
    args = {"load": ("load", table, "--name", "a"), "serve": ("serve",)}
    for home in (table, f"{table}/store"):
        refused = run(*args[command], "--home", home)
        assert (refused.returncode, refused.stdout) == (1, "")
        words = "(it is no folder|Not a directory); make it a folder that may be written to"
        assert re.match(f"softdict: cannot write to {home}.*: {words}", refused.stderr)
        assert refused.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has a full device")
def test_an_output_that_takes_no_more_is_a_refusal(run: Run, table: str, tmp_path: Path) -> None:
    run("load", table, "--name", "paises")
    env = environment(SOFTDICT_HOME=str(tmp_path / "store"))

    def ended(*args: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "service", *args]
        with open("/dev/full", "w") as full:
            ran = subprocess.run(
                command, cwd=ROOT, env=env, stdout=full, stderr=subprocess.PIPE, text=True
            )
        return ran.returncode, ran.stderr

    words = "No space left on device"
    for args in (("export", "paises"), ("search", "perro"), ("settings",), ("--help",)):
        assert ended(*args) == (1, f"softdict: {words}\n")
    code, problem = ended("search", "perro", "--json")
    assert (code, json.loads(problem)["detail"]) == (1, words)
    written = run("export", "paises", "-o", "/dev/full")
    assert (written.returncode, written.stderr) == (
        1,
        f"softdict: cannot write /dev/full: {words}\n",
    )


def test_an_empty_store_is_a_refusal(run: Run) -> None:
    asked = run("search", "a")

    assert (asked.returncode, "Traceback" in asked.stderr) == (1, False)


def test_a_store_without_datasets_says_how_to_load_one_here(run: Run, table: str) -> None:
    run("load", table, "--name", "a")
    run("delete", "a")

    said = "there are no datasets yet; load a table, with POST /datasets or the command load"
    assert run("search", "perro").stderr == f"softdict: {said}\n"


@pytest.mark.parametrize(
    "args",
    [
        ("load", "nowhere.csv", "--name", "a"),
        ("search",),
        ("search", "a", "--mode", "hard"),
        ("compare", "a", "--weight", "perro=much"),
        ("compare", "a", "--weight", "perro"),
        ("compare", "a", "--weight", "perro=1", "--weight", "perro=2"),
        ("load", __file__, "--name", "a", "--column", "a=text", "--column", "a=number"),
        ("configure", "paises"),
        ("settings", "--port", "-5"),
        ("datasets", "--home", ""),  # which pathlib takes for the folder one stands in
        ("fly",),
        ("search", "caf\udce9", "--json"),  # a byte that is not UTF-8, as Python passes it on
        ("search", "a", "--where", "tag = \udce9"),
        ("compare", "a", "--weight", "caf\udce9=1"),
        ("load", __file__, "--name", "a", "--column", "a\udce9=text"),
    ],
)
def test_a_wrong_command_is_code_2(run: Run, args: tuple[str, ...]) -> None:
    wrong = run(*args)

    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Error" in wrong.stderr and "Traceback" not in wrong.stderr


def test_a_path_may_be_of_any_bytes_and_a_text_may_not(tmp_path: Path) -> None:
    table, home = os.fsencode(tmp_path) + b"/a\xe9.csv", os.fsencode(tmp_path) + b"/caf\xe9"
    Path(os.fsdecode(table)).write_text("key,valor\na,1\n")

    def ended(*args: bytes) -> tuple[int, bytes]:
        command = [sys.executable, "-m", "service", *args, b"--home", home]
        ran = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True)
        return ran.returncode, ran.stderr

    code, _ = ended(b"load", table, b"--name", b"a", b"--encoder", b"random")
    wrong, said = ended(b"search", b"caf\xe9", b"--json")
    assert (code, ended(b"search", b"a")[0], wrong) == (0, 0, 2)
    assert b"Invalid value for 'QUERY': 'caf\\udce9' is not utf-8." in said


def test_asking_works_beside_a_running_service_and_writing_is_refused(
    run: Run, table: str, service: Service
) -> None:
    home = {"SOFTDICT_HOME": str(service.home)}
    found = run("search", "perro", "--json", **home)
    listed = run("datasets", "--json", **home)
    exported = run("export", "paises", **home)
    loaded = run("load", table, "--name", "other", **home)
    dry = run("load", table, "--name", "other", "--dry-run", **home)
    deleted = run("delete", "paises", "--json", **home)

    assert json.loads(found.stdout)["matches"][0]["key"] == "perro", found.stderr
    assert json.loads(listed.stdout)["datasets"][0]["name"] == "paises"
    assert len(exported.stdout.splitlines()) >= 5
    assert (loaded.returncode, "open for writing in another process" in loaded.stderr) == (1, True)
    assert dry.stdout.startswith("other: would load 4 entries (csv)\n"), dry.stderr
    assert json.loads(deleted.stderr)["type"] == "/problems/store-locked"
    assert service.get("/datasets/paises").status == 200


def test_columns_are_loaded_as_attributes_and_filtered_by(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "bar.csv"
    table.write_text("key,price,country,año\nwine,9,ES,2019\nbeer,2,DE,2024\n", "utf-8")
    flags = ("--attribute", "country", "--attribute", "año")
    dry = run("load", str(table), "--name", "bar", "--dry-run", *flags)
    run("load", str(table), "--name", "bar", *flags)
    found = run("search", "drink", "--where", "country = ES and año < 2020")
    compared = run("compare", "beer", "--where", '{"country": "ES"}', "--json")
    refused = run("search", "drink", "--where", "price >> 3", "--json")
    none = run("search", "drink", "--where", "price > 99")
    never = run("search", "drink", "--as-of", "0", "--mode", "exact")

    assert none.stdout == never.stdout
    assert none.stdout.startswith("no entry may answer: ") and none.stdout.count("\n") == 1
    assert "key → price (number), country (text, attribute), año (number, attribute)" in dry.stdout
    assert "country (text, attribute)" in run("datasets").stdout
    assert found.stdout.splitlines()[0].startswith("price: 9"), found.stderr
    assert "beer" not in found.stdout and "price 9, country ES, año 2019" in found.stdout
    assert json.loads(compared.stdout)["exact"]["found"] is False
    assert refused.returncode == 1
    assert json.loads(refused.stderr)["errors"] == [
        {
            "where": "where",
            "message": "character 8: '>' is not expected here; write a value, text in quotes",
        }
    ]


def test_a_load_says_what_spoiled_a_column_and_is_told_better(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "piezas.csv"
    table.write_text("pieza;alto;ancho\nsilla;1.250;n.v.\nmesa;2.500;7\n", "utf-8")
    guessed = run("load", str(table), "--name", "a", "--dry-run")
    told = run("load", str(table), "--name", "a", "--decimal", "point", "--missing", "n.v.")

    assert "  'ancho' is text: on line 2, 'n.v.' is not a number like the others" in guessed.stdout
    assert "  silla: 1250, n.v." in guessed.stdout
    assert "  decimal: point" in told.stdout and "  silla: 1.25, nothing" in told.stdout
    assert "'ancho'" not in told.stdout


def test_reencode_gives_a_dataset_another_encoder(run: Run, table: str) -> None:
    run("load", table, "--name", "paises")
    before = json.loads(run("datasets", "--json").stdout)["datasets"][0]
    done = run("reencode", "paises", "--encoder", "random:5", "--json")

    assert (before["encoder"], json.loads(done.stdout)["encoder"]) == ("random:0", "random:5")
    assert json.loads(run("search", "perro", "--json").stdout)["matches"][0]["key"] == "perro"


def test_a_tolerance_is_asked_with_and_set(run: Run, table: str) -> None:
    run("load", table, "--name", "paises")
    plain = run("search", "país").stdout
    asked = run("search", "país", "--tolerance", "0.1").stdout
    compared = json.loads(run("compare", "país", "--tolerance", "0", "--json").stdout)
    refused = run("search", "a", "-k", "0", "--tolerance", "1", "--json")

    assert asked == plain and "effective keys of 4" in plain.splitlines()[-1]
    assert compared["soft"]["attention"]["scored"] == 4
    assert [fault["where"] for fault in json.loads(refused.stderr)["errors"]] == ["k", "tolerance"]

    changed = run("configure", "paises", "--tolerance", "0.1", "--temperature", "0.5")
    assert changed.stdout == "paises: temperature 0.5, tolerance 0.1\n"
    assert "  temperature 0.5, tolerance 0.1\n" in run("datasets").stdout
    back = json.loads(run("configure", "paises", "--tolerance", "default", "--json").stdout)
    assert (back["temperature"], back["tolerance"], back["tolerance_in_use"]) == ("0.5", None, 0.03)
    assert "temperature 0.5, tolerance 0.03 (default)" in run("datasets").stdout
    halved = run("configure", "paises", "--precision", "half")
    assert halved.stdout == "paises: temperature 0.5, tolerance 0.03 (default), half precision\n"

    made = ("--if-exists", "replace", "--tolerance", "0", "--precision", "half")
    run("load", table, "--name", "paises", *made)
    assert "  temperature auto, tolerance 0, half precision\n" in run("datasets").stdout

    wrong = run("configure", "paises", "--tolerance", "low", "--temperature", "hot", "--json")
    faults = json.loads(wrong.stderr)["errors"]
    assert (wrong.returncode, {fault["where"] for fault in faults}) == (
        1,
        {"temperature", "tolerance"},
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    helped = run(command, "--help")

    assert helped.returncode == 0
    assert helped.stdout.startswith(f"Usage: python -m service {command}")
    assert command == "serve" or "--json" in helped.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    options = [each for each in main.commands[command].params if isinstance(each, click.Option)]

    assert options and [each.opts[0] for each in options if not each.help] == []


def test_help_and_settings_import_nothing_heavy() -> None:
    script = (
        "import sys\nfrom service.cli import main\n"
        "for args in (['--help'], ['load', '--help'], ['settings']):\n"
        "    main(args, standalone_mode=False)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )

    assert run.stderr.strip() == "[]"


def test_settings_prints_every_setting_and_where_it_came_from(run: Run) -> None:
    rows = json.loads(run("settings", "--threads", "3", "--json", SOFTDICT_PORT="9000").stdout)

    assert [row["name"] for row in rows] == list(Settings.model_fields)
    found = {row["name"]: (row["value"], row["source"]) for row in rows}
    assert found["port"] == (9000, "environment")
    assert found["threads"] == (3, "flag")
    assert found["max_k"] == (1000, "default")
    text = run("settings").stdout
    assert all(row["variable"] in text and row["help"] in text for row in rows)


def test_a_misspelt_variable_stops_every_command(run: Run, table: str) -> None:
    for args in (("serve",), ("settings",), ("load", table, "--name", "a"), ("datasets",)):
        stopped = run(*args, SOFTDICT_PROT="9000")
        assert stopped.returncode == 2
        assert "the nearest is SOFTDICT_PORT" in stopped.stderr


def test_a_port_that_is_taken_is_said_so(tmp_path: Path, service: Service) -> None:
    stopped = process("serve", "--port", str(service.address[1]), SOFTDICT_HOME=str(tmp_path))

    assert (stopped.returncode, "Traceback" in stopped.stderr) == (1, False)
    assert f"cannot listen on 127.0.0.1:{service.address[1]}" in stopped.stderr
    assert "name another with --port or --host" in stopped.stderr


@pytest.mark.parametrize("place", ["--encoder", "SOFTDICT_ENCODER"])
def test_an_encoder_that_is_none_stops_the_start(tmp_path: Path, place: str) -> None:
    flags, named = (["--encoder", "bert"], {}) if place == "--encoder" else ([], {place: "bert"})
    stopped = process("serve", "--port", "0", *flags, SOFTDICT_HOME=str(tmp_path), **named)

    assert (stopped.returncode, "listens" in stopped.stderr) == (2, False)
    assert f"{place}: there is no encoder 'bert'; write builtin" in stopped.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_second_service_on_the_same_store_is_refused(service: Service) -> None:
    stopped = process("serve", "--port", "0", SOFTDICT_HOME=str(service.home))

    assert (stopped.returncode, "Traceback" in stopped.stderr) == (1, False)
    assert "open for writing in another process" in stopped.stderr


def test_ctrl_c_ends_a_load_that_encodes_in_order(tmp_path: Path) -> None:
    table, home = tmp_path / "many.csv", tmp_path / "store"
    keys = (f"the {number}th of many keys" for number in range(60_000))
    table.write_text("key,valor\n" + "".join(f"{key},1\n" for key in keys))
    command = [sys.executable, "-m", "service", "load", str(table), "--name", "many"]
    env = environment(SOFTDICT_HOME=str(home))
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE) as loading:
        wait_for_vectors(home)
        loading.send_signal(signal.SIGINT)
        _, said = loading.communicate(timeout=PATIENCE)

    assert (loading.returncode, said.splitlines()[-1]) == (1, b"Aborted!")


def test_it_runs_as_a_process(tmp_path: Path, table: str) -> None:
    home = {"SOFTDICT_HOME": str(tmp_path / "store"), "SOFTDICT_ENCODER": "random"}
    loaded = process("load", table, "--name", "paises", **home)
    refused = process("search", "país", "--dataset", "nada", "--json", **home)
    found = process("search", "méxico", "--json", **home)

    assert (loaded.returncode, refused.returncode, found.returncode) == (0, 1, 0), loaded.stderr
    assert json.loads(refused.stderr)["type"] == "/problems/unknown-dataset"
    assert json.loads(found.stdout)["matches"][0]["values"] == {"valor": 7}


def test_a_reader_that_stops_reading_is_no_error(tmp_path: Path) -> None:
    home = {"SOFTDICT_HOME": str(tmp_path / "store"), "SOFTDICT_ENCODER": "random"}
    table = tmp_path / "many.csv"
    table.write_text("key,valor\n" + "".join(f"{i} {'x' * 400},{i}\n" for i in range(1000)))
    process("load", str(table), "--name", "many", **home)
    command = f"{sys.executable} -m service export many | head -n 1"
    shell = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment(**home), capture_output=True, text=True
    )

    assert (shell.stdout, shell.stderr) == ("key,valor\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_log_that_takes_no_more_does_not_stop_the_service(tmp_path: Path) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    settings = {"SOFTDICT_HOME": str(tmp_path), "SOFTDICT_PORT": port, "SOFTDICT_BUNDLED": "0"}
    with Path("/dev/full").open("w") as full:
        serving = subprocess.Popen(
            [sys.executable, "-m", "service", "serve"], cwd=ROOT, env=environment(**settings),
            stderr=full,
        )  # fmt: skip
    try:
        deadline, answered = time.monotonic() + PATIENCE, False
        while not answered:
            assert serving.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/healthz") as reply:
                answered = reply.status == 200
    finally:
        serving.terminate()

    assert serving.wait(PATIENCE) == 0


class Screen(io.StringIO):
    """A standard error that is a terminal, or is none."""

    def __init__(self, live: bool) -> None:
        super().__init__()
        self.isatty = lambda: live  # type: ignore[method-assign]


@pytest.mark.parametrize("live", [True, False])
def test_progress_fits_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    screen = Screen(live)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "30")
    with ProgressLine(clock=lambda: 9.0) as line:
        line(Progress("encoding", 2010, 5000, 100.0, 30))

    whole = "encoding 2,010 of 5,000 · 100/s · 30 s left"
    assert screen.getvalue() == (f"\r{whole[:29]}\x1b[K\n" if live else f"{whole}\n")


@pytest.mark.parametrize("live", [True, False])
def test_progress_is_one_line_on_a_terminal_and_few_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    screen, now = Screen(live), 0.0
    monkeypatch.setattr(sys, "stderr", screen)
    with ProgressLine(clock=lambda: now) as line:
        line(Progress("reading", 5000, 5000))
        for done in range(0, 5001, 10):
            now = done / 100  # 50 s in all
            line(Progress("encoding", done, 5000, 100.0, (5000 - done) / 100))

    said = screen.getvalue()
    assert "encoding 5,000 of 5,000 · 100/s" in said
    if live:
        assert said.count("\n") == 2  # one for each phase
        assert 300 < said.count("\rencoding ") < 510
        assert "\rencoding 2,010 of 5,000 · 100/s · 30 s left\x1b[K" in said
    else:
        assert said.splitlines() == [
            "reading 5,000 of 5,000",
            "encoding 1,000 of 5,000 · 100/s · 40 s left",
            "encoding 2,000 of 5,000 · 100/s · 30 s left",
            "encoding 3,000 of 5,000 · 100/s · 20 s left",
            "encoding 4,000 of 5,000 · 100/s · 10 s left",
            "encoding 5,000 of 5,000 · 100/s",
        ]


def test_the_format_that_a_file_s_name_says_may_be_in_capitals(
    run: Run, table: str, tmp_path: Path
) -> None:
    run("load", table, "--name", "paises")
    done = run("export", "paises", "-o", str(tmp_path / "P.JSONL"))

    assert done.returncode == 0
    assert json.loads((tmp_path / "P.JSONL").read_text("utf-8").splitlines()[0])["key"]


def test_an_export_that_is_cut_short_leaves_nothing(run: Run, tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_text("key,v\n" + "".join(f"key {n},{n}\n" for n in range(5_000)), "utf-8")
    assert run("load", str(many), "--name", "many").returncode == 0
    before = sorted(tmp_path.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))  # SQLite maps a file of 32 KiB
    try:
        cut = run("export", "many", "-o", str(tmp_path / "out.csv"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert cut.returncode == 1 and "out.csv: File too large" in cut.stderr, cut.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("flag", "most", "said"),
    [("--max-key", "5", "at most 5 are allowed"), ("--max-rows", "3", "has more than 3 rows")],
)
def test_a_load_takes_no_more_than_is_set(
    run: Run, table: str, flag: str, most: str, said: str
) -> None:
    refused = run("load", table, "--name", "paises", flag, most)

    assert refused.returncode == 1 and said in refused.stderr


def test_reencoding_shows_its_progress(run: Run, table: str) -> None:
    run("load", table, "--name", "paises")

    assert "encoding" in run("reencode", "paises", "--encoder", "random:5").stderr

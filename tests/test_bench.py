"""The scripts of bench/ that need nothing but softdict: each runs, small, and prints its tables.

Times are not looked at, but that they are there and none is nonsense.
"""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"bench.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(printed: str, head: str) -> list[list[str]]:
    """Give the cells of the rows below the table's head that begins so."""
    lines = printed.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |"))
    width = lines[start].count("|")
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        assert line.count("|") == width, line
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def of_real_keys(corpus: Path, work: Path) -> list[str]:
    """Ask for few keys of the corpus, and keep what is made of them in a folder of one's own."""
    return [
        "--keys", "1000", "--embedded", "1000", "--queries", "20", "--corpus", str(corpus),
        "--work", str(work / "work"), "--sketches", str(work / "sketches"),
    ]  # fmt: skip


def milliseconds(cell: str) -> float:
    return float(cell.removesuffix(" ms"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many sentences and places as 1,000 keys and the queries held out take."""
    folder = tmp_path_factory.mktemp("corpus")
    with gzip.open(folder / "sentences.tsv.gz", "wt", encoding="utf-8") as stream:
        for number in range(1_100):
            stream.write(f"{'es' if number % 2 else 'en'}\tsentence {number}\n")
    with gzip.open(folder / "places.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.write("place\tcountry\tlatitude\tlongitude\n")
        for number in range(1_100):
            stream.write(f"place {number}\tc{number % 5}\t{number / 20}\t{-number / 10}\n")
    return folder


def test_the_exact_search_beside_a_product_and_faiss() -> None:
    rows = table(run("exact", "--sizes", "5000", "--rounds", "1"), "keys")

    assert [row[:2] for row in rows] == [["5,000", "1"], ["5,000", "8"], ["5,000", "64"]]
    assert all(milliseconds(cell) > 0 for row in rows for cell in row[2:7])


def test_values_that_are_held_out_lie_in_the_intervals_as_often_as_they_say() -> None:
    rows = table(run("held_out", "--keys", "60", "600", "--rounds", "2"), "table")

    assert [row[1:3] for row in rows] == [
        [keys, column] for keys in ("60", "600") for column in ("red", "green", "blue")
    ]
    weight, prediction = ([float(row[cell].split("%")[0]) for row in rows[3:]] for cell in (4, 7))
    assert 86 < sum(prediction) / 3 < 94
    assert sum(weight) < sum(prediction)


def test_labels_that_are_held_out_are_as_often_wrong_as_was_asked(tmp_path: Path) -> None:
    rows = [(f"the {what} of the year {n}", what) for n in range(100) for what in ("dog", "tax")]
    (tmp_path / "t.csv").write_text("key,what\n" + "".join(f"{a},{b}\n" for a, b in rows))
    given = (str(tmp_path / "t.csv"), "--keys", "100", "--rounds", "2", "--wrong")
    (row,) = table(run("held_out", *given, "0.5"), "table")

    assert row[1:3] == ["100", "what"]
    assert 60 < float(row[4].split("%")[0]) < 90  # of a half two in four have another's label


def test_search_beside_a_trivial_route() -> None:
    rows = table(run("service", "--requests", "32", "--rounds", "1", "--rows", "1000"), "request")

    kinds = ["/healthz", "/search, asked before", "/search, new", "PUT of a new key"]
    clients = ["1", "16", "1, beside a load"]
    assert [row[:2] for row in rows] == [[kind, n] for n in clients for kind in kinds]
    assert all(0 < milliseconds(row[2]) <= milliseconds(row[3]) for row in rows)


def test_a_load_beside_the_encoder() -> None:
    ((share, against, *_),) = table(run("load", "--rows", "60", "--rounds", "1"), "embedding")

    assert 0 < float(share.split()[0]) < 1
    assert float(against.split()[0]) > 0


def test_a_sample_of_real_keys(corpus: Path, tmp_path: Path) -> None:
    rows = table(run("scale", *of_real_keys(corpus, tmp_path)), "τ")

    assert [row[0] for row in rows] == ["0.01", "0.02", "0.03", "0.05", "0.1"]
    for row in rows:
        assert float(row[2]) < 1e-5 and row[-1] == "100.0%"  # so few keys are scanned


def test_masks_of_real_keys_that_are_too_few_to_sample_are_all_exact(
    corpus: Path, tmp_path: Path
) -> None:
    rows = table(run("masks", *of_real_keys(corpus, tmp_path)), "mask")

    assert len(rows) == 44
    for row in rows:
        assert row[7] == "100%" and float(row[8]) < 1e-5
        assert row[10] == ""  # nothing is estimated, so nothing is stated of an error

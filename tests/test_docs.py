"""The pages' commands run, their examples are what comes out, and their Spanish twins keep step.

The pages are README.md and those of docs/, read in that order. A block of ``bash`` is run, and the
block of ``json`` or ``text`` after it is its output; a block of ``sh`` sets something up and is not
run here; a block of ``python`` is a session. Figures may differ by what a processor does to them.
After a change of the encoder, ``.venv/bin/python -m tests.test_docs`` writes all outputs anew.
"""

from __future__ import annotations

import doctest
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.settings import Settings, variable
from tests.programs import program
from tests.service.running import Service, environment

ROOT = Path(__file__).parents[1]
ENGLISH = [ROOT / "README.md", *(ROOT / "docs" / f"{page}.md" for page in
                                 ("questions", "files", "large", "running"))]  # fmt: skip
SPANISH = [page.with_suffix(".es.md") for page in ENGLISH]
SETTINGS, AJUSTES = ROOT / "docs" / "running.md", ROOT / "docs" / "running.es.md"
every_page = pytest.mark.parametrize("page", [*ENGLISH, *SPANISH], ids=lambda path: path.name)
DECIMALS = 3  # of figures in the examples
# Another processor rounds the encoder's int8 products its own way, and moves a cosine by 0.001.
ABSOLUTE, RELATIVE = 0.01, 0.02
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")
WIDTH = 96  # of a line of JSON in the pages


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and where the text stands in the page."""

    language: str
    text: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    found = FENCE.finditer(page)
    return [Block(m.group(1), m.group(2), m.start(2), m.end(2)) for m in found]


def examples(page: str) -> list[tuple[Block, Block | None]]:
    """Pair each command that is run with its output, if the page shows one."""
    all_blocks = blocks(page)
    return [
        (block, after if after and after.language in ("json", "text") else None)
        for block, after in zip(all_blocks, [*all_blocks[1:], None], strict=True)
        if block.language == "bash"
    ]


# --- running what the page says ---------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Someone who follows the page in a clone of their own, beside a running service."""

    folder: Path
    port: int

    def run(self, commands: str) -> str:
        """Run a block as it stands, but for the port, and return what it prints."""
        run = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands.replace(":8000", f":{self.port}")],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, f"{commands}\n{run.stdout}{run.stderr}"
        return run.stdout


@contextmanager
def following(folder: Path) -> Iterator[Reader]:
    """Lay out a folder with the page's Python in it, and serve beside it."""
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    with Service(folder / "var") as service:
        service.until("/readyz")
        yield Reader(folder, service.address[1])


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    program("curl")  # which the page's commands use
    with following(tmp_path_factory.mktemp("clone")) as someone:
        yield someone


# --- comparing --------------------------------------------------------------------------------


def differences(shown: Any, real: Any, path: str = "$") -> list[str]:
    """Say where a JSON value differs from what is shown, beyond the tolerance of figures."""
    match shown, real:
        case dict(), dict() if shown.keys() == real.keys():
            pairs = ((shown[name], real[name], f"{path}.{name}") for name in shown)
        case list(), list() if len(shown) == len(real):
            real = _as_shown(shown, real)
            pairs = (
                (a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(shown, real, strict=True))
            )
        case bool(), bool() if shown is real:
            return []
        case ((float() | int()), (float() | int())) if not isinstance(shown, bool):
            near = math.isclose(shown, real, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
            return [] if near else [f"{path}: the page says {shown}, the answer is {real}"]
        case str(), str():
            same = same_text(shown, real)
            return [] if same else [f"{path}: the page says {shown!r}, the answer is {real!r}"]
        case _:
            same = type(shown) is type(real) and shown == real
            return [] if same else [f"{path}: the page says {shown}, the answer is {real}"]
    return [fault for a, b, where in pairs for fault in differences(a, b, where)]


def _as_shown(shown: list[Any], real: list[Any]) -> list[Any]:
    """Stand matches in the order of the page: processors differ in who comes first of equals.

    Both must be in order of their scores, and each score is compared with the one on the page.
    """
    ranked = [all(isinstance(m, dict) and {"key", "score"} <= m.keys() for m in x) and
              x == sorted(x, key=lambda m: -m["score"]) for x in (shown, real)]  # fmt: skip
    by_key = {m["key"]: m for m in real} if all(ranked) else {}
    order = [m["key"] for m in shown] if by_key else []
    return [by_key[key] for key in order] if by_key.keys() == {*order} and order else real


def same_text(shown: str, real: str) -> bool:
    """Tell whether two texts agree, with figures compared as figures and spaces as one."""
    words = [NUMBER.sub("#", text).split() for text in (shown, real)]
    return words[0] == words[1] and all(
        math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=_last_place(a))
        for a, b in zip(NUMBER.findall(shown), NUMBER.findall(real), strict=True)
    )


def _last_place(figure: str) -> float:
    """Allow a small figure of a text one and a half units of its last decimal."""
    decimals = len(figure.partition(".")[2])
    return 1.5 * 10**-decimals if decimals else 0.0


def outputs_differ(shown: Block, real: str) -> list[str]:
    if shown.language == "json":
        return differences(json.loads(shown.text), json.loads(real))
    return [] if same_text(shown.text, real) else [f"the page says\n{shown.text}\nnot\n{real}"]


class Checker(doctest.OutputChecker):
    """Accept figures within the tolerance."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or same_text(want, got)


# --- the tests --------------------------------------------------------------------------------


def english_blocks() -> list[Block]:
    return [block for page in ENGLISH for block in blocks(page.read_text("utf-8"))]


def test_every_command_gives_what_the_page_shows(reader: Reader) -> None:
    faults = []
    for page in ENGLISH:
        for command, shown in examples(page.read_text("utf-8")):
            real = reader.run(command.text)
            if shown is not None:
                faults += [f"{command.text}{fault}" for fault in outputs_differ(shown, real)]

    assert faults == []


def test_the_python_session_gives_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [b.text for b in english_blocks() if b.language == "python"]
    session = "\n".join(parts)
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(session, {}, "the pages", None, 0)
    report: list[str] = []
    result = doctest.DocTestRunner(Checker(), verbose=False).run(test, out=report.append)

    assert all(part.startswith(">>> ") for part in parts)  # else it is not run
    assert result.failed == 0, "".join(report)


def test_every_make_target_of_the_page_exists() -> None:
    named = set(re.findall(r"\bmake (\w+)", "".join(b.text for b in english_blocks())))
    targets = set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert {"run", "test"} <= named <= targets


def test_every_page_of_the_folder_is_read() -> None:
    assert {*ENGLISH, *SPANISH} == {*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*")}


@every_page
def test_every_file_the_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))

    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


@every_page
def test_every_place_the_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]*)\)", page.read_text("utf-8"))
    missing = [
        (path, place)
        for path, place in links
        if place not in places((page.parent / path if path else page).read_text("utf-8"))
    ]

    assert missing == []


def places(page: str) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [SETTINGS, AJUSTES], ids=lambda path: path.name)
def test_the_table_of_settings_is_the_real_one(page: Path) -> None:
    rows = re.findall(r"^\| `(SOFTDICT_\w+)` \| (.*?) \| (.*?) \|$", page.read_text("utf-8"), re.M)
    thousands = " " if page == AJUSTES else ","
    defaults = {
        variable(name): shown_default(field.default).replace(",", thousands)
        for name, field in Settings.model_fields.items()
    }

    assert {name: default for name, default, _ in rows} == defaults
    assert [name for name, _, _ in rows] == list(defaults)


def test_the_table_of_settings_says_what_the_service_says() -> None:
    rows = re.findall(
        r"^\| `(SOFTDICT_\w+)` \| .*? \| (.*?) \|$", SETTINGS.read_text("utf-8"), re.M
    )

    assert dict(rows) == {variable(n): f.description for n, f in Settings.model_fields.items()}


def shown_default(default: object) -> str:
    """Write a default as the tables do."""
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case int():
            return f"{default:,}" if default >= 10_000 else str(default)
        case ():
            return "–"
        case _:
            return f"`{default}`"


@pytest.mark.parametrize(("english_page", "spanish_page"), [*zip(ENGLISH, SPANISH, strict=True)])
def test_the_spanish_page_keeps_step(english_page: Path, spanish_page: Path) -> None:
    english, spanish = english_page.read_text("utf-8"), spanish_page.read_text("utf-8")

    def headings(page: str) -> list[int]:
        return [len(marks) for marks in re.findall(r"^(#+) ", FENCE.sub("", page), re.MULTILINE)]

    def table_rows(page: str) -> int:
        return len(re.findall(r"^\|", page, re.MULTILINE))

    def named(page: str) -> set[str]:
        """Addresses, and what is typed as it stands: paths, options and settings."""
        prose = FENCE.sub("", page)
        typed = re.findall(r"`((?:/|--|SOFTDICT_|\.venv)[^` ]*)", prose)
        return {*re.findall(r"<(http[^>]+)>", prose), *typed}

    assert named(spanish) == named(english)
    assert headings(spanish) == headings(english)
    assert [(b.language, b.text) for b in blocks(spanish)] == [
        (b.language, b.text) for b in blocks(english)
    ]
    assert table_rows(spanish) == table_rows(english)


@pytest.mark.parametrize(
    ("shown", "real", "faults"),
    [
        ({"a": [1, 0.5]}, {"a": [1, 0.5009]}, 0),
        ({"a": [1, 0.5]}, {"a": [1, 0.53]}, 1),
        ({"a": 1}, {"b": 1}, 1),
        ({"a": True}, {"a": 1}, 1),
        ("8.21 of 4 keys", "8.2104 of 4 keys", 0),
        ("8.21 of 4 keys", "8.51 of 4 keys", 1),
        ("8.21 of 4 keys", "8.21 of 4 rows", 1),
    ],
)
def test_the_check_sees_a_difference(shown: object, real: object, faults: int) -> None:
    assert len(differences(shown, real)) == faults


# --- writing the outputs anew -----------------------------------------------------------------


def refreshed(page: str, someone: Reader) -> str:
    """Put the real outputs in place of those that a page shows."""
    names: dict[str, Any] = {}
    with chdir(someone.folder):
        changes = [(b, replayed(b.text, names)) for b in blocks(page) if b.language == "python"]
    for command, shown in examples(page):
        real = someone.run(command.text)
        if shown is not None:
            text = shown_json(json.loads(real)) + "\n" if shown.language == "json" else real
            changes.append((shown, text))
    for shown, text in sorted(changes, key=lambda change: change[0].start, reverse=True):
        page = page[: shown.start] + text + page[shown.end :]
    return page


class Transcript(doctest.DocTestRunner):
    """Run a session and write it down with its real outputs."""

    def __init__(self) -> None:
        super().__init__(Checker(), verbose=False)
        self.lines: list[str] = []

    def report_start(self, out: Any, test: doctest.DocTest, example: doctest.Example) -> None:
        first, *more = example.source.splitlines()
        self.lines += [f">>> {first}", *(f"... {line}" for line in more)]

    def report_success(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str
    ) -> None:
        self.lines += got.splitlines()

    report_failure = report_success


def replayed(session: str, names: dict[str, Any]) -> str:
    """Run a session's lines and return them with what they print now; ``names`` gains theirs."""
    transcript = Transcript()
    test = doctest.DocTestParser().get_doctest(session, names, "session", None, 0)
    transcript.run(test, clear_globs=False)
    names |= test.globs
    return "\n".join(transcript.lines) + "\n"


def shown_json(value: Any, indent: str = "") -> str:
    """Write JSON as the pages do: figures rounded, and one line for what fits."""
    line = json.dumps(_rounded(value), ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(line) <= WIDTH:
        return line
    inner = indent + "  "
    if isinstance(value, list):
        parts = [inner + shown_json(part, inner) for part in value]
        return "[\n" + ",\n".join(parts) + f"\n{indent}]"
    parts = [f'{inner}"{name}": {shown_json(part, inner)}' for name, part in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, DECIMALS)
        case dict():
            return {name: _rounded(part) for name, part in value.items()}
        case list():
            return [_rounded(part) for part in value]
        case _:
            return value


def copied(page: str, model: str) -> str:
    """Put the blocks of one page in place of those of its twin."""
    pairs = list(zip(blocks(page), blocks(model), strict=True))
    for old, new in reversed(pairs):
        page = page[: old.start] + new.text + page[old.end :]
    return page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, following(Path(scratch)) as visitor:
        for page in ENGLISH:
            page.write_text(refreshed(page.read_text("utf-8"), visitor), "utf-8")
    for page, twin in zip(ENGLISH, SPANISH, strict=True):
        twin.write_text(copied(twin.read_text("utf-8"), page.read_text("utf-8")), "utf-8")

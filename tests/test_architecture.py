"""Imports point one way: service ──> index ──> numpy, faiss, encoders. Nothing is unpickled."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from index import Catalog

ROOT = Path(__file__).parents[1]
HEAVY = {
    "faiss",
    "lark",
    "onnxruntime",
    "pyarrow",
    "sentence_transformers",
    "torch",
    "transformers",
}
UNPICKLERS = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Yield the top-level package of every import, lazy ones and import_module("…") included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case ast.Call(
                func=ast.Attribute(attr="import_module")
                | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module.partition(".")[0]


def unpickling_calls(tree: ast.AST) -> Iterator[int]:
    """Yield the line of every call that would unpickle: allow_pickle and torch.load."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=False)):
                continue
            case ast.keyword(arg="allow_pickle", value=value):
                yield value.lineno
            case ast.Attribute(value=ast.Name(id="torch"), attr="load"):
                yield node.lineno


def sources(*folders: str) -> list[Path]:
    """Return the Python files under these folders, of which there must be some."""
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert found, f"no Python files under {folders}"
    return found


def imports_of(path: Path) -> set[str]:
    return set(imported_modules(ast.parse(path.read_text("utf-8"))))


def importers(folder: str, module: str) -> list[str]:
    """Name the files under a folder that import a module."""
    return [str(path.relative_to(ROOT)) for path in sources(folder) if module in imports_of(path)]


@pytest.mark.parametrize("web", ["service", "flask", "flask_openapi3", "pydantic", "waitress"])
def test_the_library_knows_no_http(web: str) -> None:
    assert importers("index", web) == []


@pytest.mark.parametrize("engine", ["faiss", "sqlite3"])
def test_the_service_knows_no_faiss_and_no_sql(engine: str) -> None:
    assert importers("service", engine) == []


@pytest.mark.parametrize("engine", ["faiss", "sqlite3"])
def test_one_module_of_the_library_knows_each_engine(engine: str) -> None:
    assert len(importers("index", engine)) == 1


def test_the_formula_needs_numpy_alone() -> None:
    outside = imports_of(ROOT / "index" / "attention.py") - sys.stdlib_module_names

    assert outside == {"numpy"}


@pytest.mark.parametrize(
    "path", sources("index", "service"), ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_nothing_is_unpickled(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))

    assert set(imported_modules(tree)) & UNPICKLERS == set()
    assert list(unpickling_calls(tree)) == []


@pytest.mark.parametrize("module", ["index", "service"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    script = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert HEAVY & set(json.loads(run.stdout)) == set()


def test_a_command_that_asks_waits_for_no_web_framework(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        catalog.create("t", encoder="random")["a"] = 1
    script = (
        "import sys; from service.cli import main\n"
        "main(['search', 'x', '--home', sys.argv[1]], standalone_mode=False)\n"
        "assert not {'flask', 'werkzeug', 'waitress'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True)


@pytest.mark.parametrize("path", sources("index", "service"), ids=lambda p: p.name)
def test_a_logger_is_named_as_its_module(path: Path) -> None:
    """By those names their levels are set."""
    named = re.findall(r"getLogger\((.*?)\)", path.read_text("utf-8"))

    assert path.name == "cli.py" or set(named) <= {"__name__"}


def test_encoding_leaves_nothing_in_the_home_folder(tmp_path: Path) -> None:
    """onnxruntime numbers the machine there, and reports to its maker, unless told not to."""
    script = "from index import open_encoder; open_encoder('builtin').encode(['país'])"
    subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},  # in CI it would keep still
        check=True,
    )

    assert [path.name for path in tmp_path.rglob("*")] == []


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import faiss", "faiss"),
        ("import faiss.contrib.ondisk as x", "faiss"),
        ("from faiss import IndexFlatIP", "faiss"),
        ("def late():\n    from faiss.contrib import ondisk", "faiss"),
        ("import importlib\nimportlib.import_module('faiss.contrib')", "faiss"),
        ("x = __import__('pickle')", "pickle"),
    ],
)
def test_the_check_sees_an_import_however_it_is_written(source: str, module: str) -> None:
    assert module in set(imported_modules(ast.parse(source)))


def test_the_check_takes_a_relative_import_for_one_of_our_own() -> None:
    assert (
        set(imported_modules(ast.parse("from .flask import view\nfrom . import pickle"))) == set()
    )


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("np.load(f, allow_pickle=True)", [1]),
        ("np.load(f, allow_pickle=wanted)", [1]),
        ("x = 1\ntorch.load(f)", [2]),
        ("np.load(f, allow_pickle=False)", []),
        ("json.load(f)", []),
    ],
)
def test_the_check_sees_a_call_that_unpickles(source: str, lines: list[int]) -> None:
    assert list(unpickling_calls(ast.parse(source))) == lines

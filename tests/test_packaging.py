"""The files around the code do what they say: requirements, Makefile, Dockerfile, compose, CI."""

from __future__ import annotations

import ast
import fnmatch
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import index
import service
from tests.programs import program

ROOT = Path(__file__).parents[1]
OURS = {"index", "service", "tests", "training", "bench"}
# Ships for few platforms only; where its maker has no wheel, an exact pin would forbid the install.
UNPINNED = {"hf-xet"}
# sentence-transformers imports it; pinned to choose the build without CUDA.
CHOSEN = {"torch"}
# Comes with Python in some environments and from torch in others.
TOOLS = {"setuptools", "pip"}


def pins(name: str) -> dict[str, str]:
    """Read one requirements file: package → version, in order, references to others left out."""
    lines = (ROOT / name).read_text("utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith(("#", "-"))]
    parts = [line.partition("==") for line in wanted]
    return {canonicalize_name(package): version for package, _, version in parts}


def packages_imported_by(*folders: str) -> set[str]:
    """Name the distributions that provide what the code under these folders imports."""
    owners = metadata.packages_distributions()
    modules = {
        name
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in _roots(node)
    }
    foreign = modules - set(sys.stdlib_module_names) - OURS
    return {
        canonicalize_name(owner) for module in foreign for owner in owners.get(module, [module])
    }


def _roots(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.name.partition(".")[0] for name in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]


# --- requirements -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "constraints.txt"])
def test_every_requirement_is_pinned(name: str) -> None:
    versions = pins(name)

    assert versions
    assert [p for p, version in versions.items() if not re.fullmatch(r"\d[\w.]*", version)] == []


def test_torch_comes_first_so_that_nothing_chooses_another_build() -> None:
    assert next(iter(pins("requirements.txt"))) == "torch"


def test_every_runtime_import_is_a_runtime_requirement() -> None:
    assert packages_imported_by("index", "service") - set(pins("requirements.txt")) == set()


def test_every_runtime_requirement_is_imported() -> None:
    assert set(pins("requirements.txt")) - packages_imported_by("index", "service") == CHOSEN


@pytest.mark.parametrize(
    ("folder", "more"),
    [("tests", ()), ("bench", ("bench/requirements.txt", "training/requirements.txt"))],
)
def test_every_import_beside_the_product_is_a_requirement(
    folder: str, more: tuple[str, ...]
) -> None:
    files = ("requirements.txt", "requirements-dev.txt", *more)
    allowed = {package for name in files for package in pins(name)}

    assert packages_imported_by(folder) - allowed == set()


def test_training_needs_what_its_own_page_lists() -> None:
    assert packages_imported_by("training") - set(pins("training/requirements.txt")) == set()


def test_files_that_pin_a_package_pin_the_same_version() -> None:
    files = [path for folder in ("", "bench", "training")
             for path in sorted((ROOT / folder).glob("*requirements*.txt"))]  # fmt: skip
    pinned = defaultdict(set)
    for path in [*files, ROOT / "constraints.txt"]:
        for package, version in pins(str(path.relative_to(ROOT))).items():
            pinned[package].add(version.split()[0])  # a comment may follow

    assert {package: found for package, found in pinned.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "constraints.txt"])
def test_the_tests_run_on_the_pinned_versions(name: str) -> None:
    installed: dict[str, str] = {
        canonicalize_name(dist.metadata["Name"]): dist.version.partition("+")[0]
        for dist in metadata.distributions()
    }
    wanted = pins(name)

    # What a constraint names need not be installed; what is installed must be of that version.
    assert {p: installed[p] for p in wanted if p in installed} == {
        p: version for p, version in wanted.items() if p in installed
    }


def test_everything_that_comes_along_is_held_still() -> None:
    direct = {**pins("requirements.txt"), **pins("requirements-dev.txt")}
    held = set(direct) | set(pins("constraints.txt")) | UNPINNED | TOOLS
    pending, seen = list(direct), set()
    while pending:
        package = pending.pop()
        if package not in seen:
            seen.add(package)
            pending += [name for name in _needs(package) if name not in TOOLS]

    assert {name for name in seen if not name.startswith(("nvidia-", "triton", "cuda-"))} <= held


def _needs(package: str) -> Iterator[str]:
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:  # for another platform, or an extra nobody asked for
        return
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


# --- Makefile ---------------------------------------------------------------------------------

FAKE_PYTHON = """#!/bin/sh
echo "$@" >> "$LOG"
case "$*" in
  *'import pip'*) echo True ;;
  '-m venv --clear .venv') mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
"""
BROKEN_PYTHON = "#!/bin/sh\nexit 1\n"
# Asked whether it fits, it answers as a Python would of which this is so.
PYTHON_OF_WHICH = """#!/bin/sh
echo "$0 $@" >> "$LOG"
case "$1" in
  -c) exec "{python}" -c 'import sys; {so}; exec(sys.argv[1])' "$2" ;;
esac
"""


class Checkout:
    """A copy of the Makefile in a folder with a space, on a machine with stub programs."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder / "con espacio"
        self.log = folder / "log"
        self.programs = folder / "programs"
        self.folder.mkdir()
        self.programs.mkdir()
        for name in ("Makefile", "requirements.txt", "requirements-dev.txt", "constraints.txt"):
            shutil.copy(ROOT / name, self.folder)
        for name in (
            "make",
            "sh",
            "echo",
            "awk",
            "grep",
            "uname",
            "mkdir",
            "cp",
            "touch",
            "rm",
            "find",
        ):
            (self.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} here"))
        self.write(self.programs / "python3", python)

    def write(self, path: Path, script: str) -> None:
        path.write_text(script, "utf-8")
        path.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env={"PATH": str(self.programs), "LOG": str(self.log), **environment},
            capture_output=True,
            text=True,
        )

    @property
    def installs(self) -> list[str]:
        calls = self.log.read_text().splitlines()
        return [call.rpartition(" ")[2] for call in calls if "pip install" in call]


def test_make_alone_lists_every_target(tmp_path: Path) -> None:
    run = Checkout(tmp_path, FAKE_PYTHON).make()

    targets = [line.split()[1] for line in run.stdout.splitlines()]
    assert targets == ["help", "run", "test", "lint", "format", "bench", "clean"]


def test_make_run_sets_up_once_and_then_only_serves(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, FAKE_PYTHON)

    first = checkout.make("run")
    assert (first.returncode, checkout.installs[-1:]) == (0, ["requirements.txt"])
    assert checkout.log.read_text().splitlines()[-1] == "-m service serve"
    second = checkout.make("run")
    assert (second.returncode, checkout.installs) == (0, [])
    assert checkout.log.read_text().splitlines()[-1] == "-m service serve"


def test_make_run_takes_no_packages_from_elsewhere(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, FAKE_PYTHON.replace('"$@"', '"$PYTHONPATH$PYTHONHOME$@"', 1))

    checkout.make("run", PYTHONPATH="elsewhere", PYTHONHOME="elsewhere")
    called = checkout.log.read_text()
    assert called.endswith("-m service serve\n") and "elsewhere" not in called


def test_make_run_installs_again_when_a_requirement_changes(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, FAKE_PYTHON)
    checkout.make("run")
    stamp = (checkout.folder / ".venv" / "runtime.stamp").stat().st_mtime

    os.utime(checkout.folder / "requirements.txt", (stamp + 1, stamp + 1))
    checkout.make("run")
    assert checkout.installs[-1:] == ["requirements.txt"]


def test_make_run_repairs_a_half_made_environment(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, FAKE_PYTHON)
    checkout.make("run")
    checkout.write(checkout.folder / ".venv" / "bin" / "python", BROKEN_PYTHON)

    run = checkout.make("run")
    assert (run.returncode, checkout.installs[-1:]) == (0, ["requirements.txt"])


def test_make_run_keeps_an_environment_that_works(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, FAKE_PYTHON)
    (checkout.folder / ".venv" / "bin").mkdir(parents=True)
    checkout.write(checkout.folder / ".venv" / "bin" / "python", FAKE_PYTHON)

    checkout.make("run")
    assert not any("venv --clear" in call for call in checkout.log.read_text().splitlines())
    assert checkout.installs[-1:] == ["requirements.txt"]


def test_make_run_says_what_to_do_without_a_new_enough_python(tmp_path: Path) -> None:
    run = Checkout(tmp_path, BROKEN_PYTHON).make("run")

    assert run.returncode == 2
    assert "softdict needs Python 3.11, 3.12, 3.13 or 3.14 (with sqlite3" in run.stderr
    assert "make run PYTHON=/path/to/python3" in run.stderr


@pytest.mark.parametrize(
    ("so", "fits"),
    [
        ("sys.version_info = (3, 10, 99)", False),
        ("sys.version_info = (3, 11, 0)", True),
        ("sys.version_info = (3, 14, 99)", True),
        ("sys.version_info = (3, 15, 0)", False),
        ('sys.modules["sqlite3"] = None', False),
    ],
)
def test_make_run_takes_another_python_where_the_first_does_not_fit(
    tmp_path: Path, so: str, fits: bool
) -> None:
    checkout = Checkout(tmp_path, PYTHON_OF_WHICH.format(python=sys.executable, so=so))
    another = PYTHON_OF_WHICH.format(python=sys.executable, so="sys.version_info = (3, 13, 0)")
    checkout.write(checkout.programs / "python3.13", another)

    checkout.make("run")
    (made,) = [
        call.split(" -m ")[0]
        for call in checkout.log.read_text().splitlines()
        if call.endswith("-m venv --clear .venv")
    ]
    assert made == str(checkout.programs / ("python3" if fits else "python3.13"))


def test_make_run_says_which_package_debian_leaves_out(tmp_path: Path) -> None:
    without_venv = '#!/bin/sh\ncase "$*" in "-m venv"*) exit 1 ;; esac\n'
    run = Checkout(tmp_path, without_venv).make("run")

    assert run.returncode == 2
    assert "apt-get install python3-venv" in run.stderr


def test_a_git_that_changes_line_ends_leaves_ours(tmp_path: Path) -> None:
    git = program("git")
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    script = tmp_path / "run"
    script.write_bytes(b"#!/bin/sh\nexit 0\n")
    for command in ("init --quiet", "add run"):
        subprocess.run([git, *command.split()], cwd=tmp_path, check=True)
    script.unlink()

    changing = [git, "-c", "core.autocrlf=true", "checkout", "--quiet", "run"]
    subprocess.run(changing, cwd=tmp_path, check=True)
    assert script.read_bytes() == b"#!/bin/sh\nexit 0\n"


def test_make_clean_never_touches_the_store(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, FAKE_PYTHON)
    checkout.make("run")
    (checkout.folder / "var").mkdir()

    run = checkout.make("clean")
    assert run.returncode == 0
    assert not (checkout.folder / ".venv").exists()
    assert (checkout.folder / "var").is_dir()


# --- CI ---------------------------------------------------------------------------------------


def ci_calls(tmp_path: Path, *stubs: str, apt_fails: int = 0) -> list[str]:
    """Run .ci/run on a machine of stub programs; return what it called, in order."""
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    for name in ("bash", "dirname", "cat", "wc", "grep"):
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} here"))
    script = f'#!/bin/bash\necho "${{0##*/}} $@${{CI:+ CI=$CI}}" >> "{log}"\n'
    flaky = f'test "$(grep -c "^apt-get update" "{log}")" -gt {apt_fails}\n'
    for name in ("python3", "make", "git", "apt-get", "sleep", *stubs):
        (programs / name).write_text(script + (flaky if name == "apt-get" else ""))
        (programs / name).chmod(0o755)
    (programs / "id").write_text("#!/bin/bash\necho 0\n")
    (programs / "id").chmod(0o755)
    run = [str(ROOT / ".ci" / "run")]
    subprocess.run(run, env={"PATH": str(programs)}, check=True, capture_output=True)
    called = log.read_text().splitlines()
    return [call for call in called if not call.startswith("python3 ")]


def test_ci_installs_a_browser_and_ends_with_the_tests(tmp_path: Path) -> None:
    assert ci_calls(tmp_path) == [
        "apt-get update -qq CI=true",
        "apt-get install -qq --yes --no-install-recommends "
        "curl chromium strace chromium-driver CI=true",
        "make --no-print-directory lint CI=true",
        "make --no-print-directory test CI=true",
    ]


def test_ci_installs_nothing_that_is_there(tmp_path: Path) -> None:
    assert ci_calls(tmp_path, "curl", "chromium", "strace", "chromedriver") == [
        "make --no-print-directory lint CI=true",
        "make --no-print-directory test CI=true",
    ]


def test_ci_tries_a_failing_mirror_again(tmp_path: Path) -> None:
    calls = ci_calls(tmp_path, apt_fails=2)

    assert [call for call in calls if call.startswith("apt-get update")] == [
        "apt-get update -qq CI=true"
    ] * 3
    assert calls[-1] == "make --no-print-directory test CI=true"


# --- containers -------------------------------------------------------------------------------


def dockerfile() -> list[tuple[str, str]]:
    """Split the Dockerfile into (instruction, argument)."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest.strip()) for word, _, rest in (x.partition(" ") for x in lines) if word]


def arguments(instruction: str) -> list[str]:
    return [rest for word, rest in dockerfile() if word == instruction]


def copies() -> list[tuple[list[str], str]]:
    """Give what each COPY takes, and where to."""
    plain = [[word for word in rest.split() if word[:2] != "--"] for rest in arguments("COPY")]
    return [(names, target) for *names, target in plain]


def environment() -> dict[str, str]:
    pairs = " ".join(arguments("ENV")).split()
    return dict(pair.split("=", 1) for pair in pairs)


def healthcheck() -> list[str]:
    (check,) = arguments("HEALTHCHECK")
    command: list[str] = json.loads(check.partition("CMD ")[2])
    return command


def ignored(path: str) -> bool:
    """Tell whether .dockerignore keeps a path from the builder: the last pattern rules."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.lstrip("!").rstrip("/").removeprefix("**/")
        parts = [path, *map(str, Path(path).parents), *Path(path).parts]
        if line and not line.startswith("#") and any(fnmatch.fnmatch(p, pattern) for p in parts):
            verdict = not line.startswith("!")
    return verdict


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    assert set(parsed) == {"services", "volumes"}
    service: dict[str, Any] = parsed["services"]["softdict"]
    return service


def test_the_image_runs_as_an_ordinary_user_without_the_tools_for_tests() -> None:
    (user,) = arguments("USER")
    instructions = [word for word, _ in dockerfile()]
    install = next(rest for rest in arguments("RUN") if "pip install" in rest)

    assert user == "softdict"
    assert any(
        f"useradd --system --uid 10001 --user-group --home-dir /nonexistent {user}" in rest
        for rest in arguments("RUN")
    )
    assert instructions.index("USER") < instructions.index("CMD")
    assert install.endswith("-r requirements.txt")
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in install


def test_the_image_copies_what_exists_and_is_sent_to_the_builder() -> None:
    copied = [name for names, _ in copies() for name in names]

    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert [source for source in copied if ignored(source.rstrip("/"))] == []


def test_the_image_s_files_can_be_read_by_its_user() -> None:
    assert {rest.split()[0] for rest in arguments("COPY")} == {"--chmod=755"}


@pytest.mark.parametrize(
    "path",
    [".git/config", ".venv/bin/python", "var/x", "tests/test_data.py", "index/__pycache__/x"],
)
def test_the_builder_is_spared_what_the_image_does_not_need(path: str) -> None:
    assert ignored(path)


def test_compose_runs_what_the_image_says(compose: dict[str, Any]) -> None:
    assert compose["build"] == "."
    assert compose["image"] == f"softdict:{service.__version__}"
    assert "command" not in compose
    assert compose["healthcheck"]["test"] == ["CMD", *healthcheck()]
    assert compose["user"] == arguments("USER")[0]


def test_compose_keeps_the_store_in_a_volume(compose: dict[str, Any]) -> None:
    (mount,) = compose["volumes"]
    name, _, folder = mount.partition(":")

    assert name in yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["volumes"]
    assert [folder] == arguments("VOLUME")
    assert folder == environment()["SOFTDICT_HOME"]


def test_compose_gives_the_service_no_more_than_it_needs(compose: dict[str, Any]) -> None:
    assert compose["ports"] == [f"127.0.0.1:8000:{environment()['SOFTDICT_PORT']}"]
    assert compose["read_only"] is True
    assert compose["tmpfs"] == ["/tmp"]
    assert compose["cap_drop"] == ["ALL"]
    assert compose["security_opt"] == ["no-new-privileges:true"]
    assert compose["restart"] == "unless-stopped"


def test_the_image_s_commands_serve_and_report_health(tmp_path: Path) -> None:
    """Run by hand what the image runs: only the copied files, its ENV, its CMD, its HEALTHCHECK."""
    image = tmp_path / "app"
    for names, target in copies():
        for name in names:
            _copy(ROOT / name, image / target / ("" if Path(name).is_dir() else name))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("SOFTDICT_")},
        **environment(),
        "SOFTDICT_PORT": port,
        "SOFTDICT_HOME": str(tmp_path / "store"),
    }
    (command,) = arguments("CMD")
    serve = [sys.executable, *json.loads(command)[1:]]
    check = [sys.executable, *(part.replace("8000", port) for part in healthcheck()[1:])]

    def healthy() -> bool:
        return subprocess.run(check, capture_output=True, cwd=image).returncode == 0

    assert not healthy()
    log = (tmp_path / "log").open("w+")
    with log, subprocess.Popen(serve, cwd=image, env=env, stdout=log, stderr=log) as service:
        try:
            deadline = time.monotonic() + 60
            while not healthy():
                assert service.poll() is None and time.monotonic() < deadline, _text(log)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/search?q=pa%C3%ADs") as reply:
                answer = json.load(reply)
        finally:
            service.terminate()
    assert [match["key"] for match in answer["matches"]][-1] == "perro"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _text(log: Any) -> str:
    log.seek(0)
    return str(log.read())


def test_the_library_and_the_service_are_of_one_version() -> None:
    assert index.__version__ == service.__version__

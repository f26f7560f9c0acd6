"""The command line. What asks opens the store read-only, beside a running service or not.

Exit codes: 0 done, 1 softdict or the system refused (the message is on stderr, with ``--json`` as
a problem), 2 the command itself is wrong. Nothing heavy is imported until a command needs it.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import secrets
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import click

from . import __version__
from .printed import (
    ProgressLine,
    answer_lines,
    blend_lines,
    column_text,
    dumped,
    load_lines,
    settings_text,
    show,
    values_line,
)
from .settings import Settings, SettingsError, flag, load_settings, source, variable

if TYPE_CHECKING:
    from index.catalog import Catalog
    from index.errors import SoftDictError
    from index.softdict import SoftDict

Given = TypeVar("Given")

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
dataset_option = click.option("--dataset", help="Dataset to ask; the first one if left out.")
temperature_option = click.option(
    "--temperature", help="A number, auto, sqrt_d or effective_keys:N."
)
tolerance_option = click.option(
    "--tolerance", help="How far weights may be from exact, such as 0.03; 0 scores every key."
)
precision_option = click.option(
    "--precision", help="full, or half: 16 bits per component, in large datasets only."
)
as_of_option = click.option("--as-of", help="Only the first N entries, or those stored by a time.")
where_option = click.option(
    "--where", metavar="CONDITION", help='Only entries that meet it: price >= 5 and tag = "a".'
)
k_option = click.option("-k", default=10, show_default=True, help="Matches to show.")


class _Folder(click.Path):
    """A folder: pathlib takes no name at all for the one that one stands in."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value == "":
            self.fail("write a folder", param, ctx)
        return super().convert(value, param, ctx)


def _flags(*names: str) -> Callable[[Any], Any]:
    """Make command line flags of settings."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            field = Settings.model_fields[name]
            default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
            command = click.option(
                flag(name),
                name,
                type=_Folder(path_type=Path) if isinstance(default, Path) else None,
                default=None,
                metavar=type(default).__name__.upper() if isinstance(default, int) else "TEXT",
                help=f"{field.description}  [{variable(name)}={default}]",
            )(command)
        return command

    return decorate


home_option = _flags("home")


class _Command(click.Command):
    """Takes text only: Python passes on other bytes as halves of surrogate pairs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for param in self.params:
            given = ctx.params[param.name]
            for text in given if isinstance(given, tuple) else (given,):
                # index.naming, which can tell too, would bring NumPy.
                if isinstance(text, str) and text != text.encode(errors="replace").decode():
                    words = f"{text!r} is not {sys.getfilesystemencoding()}."
                    raise click.BadParameter(words, ctx, param)
        return rest


class _Commands(click.Group):
    command_class = _Command

    def main(self, *args: Any, **options: Any) -> Any:
        """Say in one line what the system refuses a command that only prints.

        What the output's encoding cannot hold is a question mark, and no reason to stop.
        """
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        try:
            return super().main(*args, **options)
        except OSError as error:  # a full disk
            _forget_output()
            click.echo(f"softdict: {_refusal(error)}", err=True)
            sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="softdict")
def main() -> None:
    """softdict: a dictionary that answers by meaning."""


@main.command()
@_flags(*Settings.model_fields)
def serve(**flags: Any) -> None:
    """Serve the store over HTTP, with its page at /."""
    settings = _settings(flags)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for ours in ("index", "service"):
        logging.getLogger(ours).setLevel(settings.log_level.upper())
    logging.getLogger("waitress.queue").setLevel("ERROR")  # a line for each request that waits
    with _refusals(False):
        from .server import serve as run

        def announce(address: str) -> None:
            with suppress(OSError):  # a log that takes no more is no reason not to serve
                click.echo(f"softdict listens on {address}", err=True)

        run(settings, announce)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="Name of the dataset.")
@click.option("--key", help="Column that holds the keys.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=TYPE",
    help="Type of a column: number, vector, category, text or skip.",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME",
    help="A column to filter by with --where, never blended.",
)
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "json", "jsonl", "parquet"]),
    help="Format of the file, if its name does not say.",
)
@click.option("--delimiter", help="Delimiter of CSV.")
@click.option("--header/--no-header", default=None, help="Whether the first line names columns.")
@click.option("--encoding", help="Encoding of the text, such as utf-8 or latin-1.")
@click.option(
    "--decimal",
    type=click.Choice(["point", "comma"]),
    help="Decimal mark of the file's numbers, if they were read wrong.",
)
@click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="A text that marks a cell as having no value, such as 'consultar'.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="What to do about a row that cannot be read: stop the load, or leave the row out.",
)
@click.option(
    "--duplicates",
    type=click.Choice(["error", "first", "last", "mean"]),
    default="error",
    show_default=True,
    help="Which values a repeated key gets; error stops the load.",
)
@click.option(
    "--if-exists",
    type=click.Choice(["error", "replace", "append"]),
    default="error",
    show_default=True,
    help="What to do if the dataset is there already.",
)
@temperature_option
@tolerance_option
@precision_option
@click.option("--dry-run", is_flag=True, help="Say what would be loaded, and write nothing.")
@_flags("home", "encoder", "max_rows", "max_key")
@as_json
def load(
    file: Path,
    name: str,
    columns: tuple[str, ...],
    temperature: str | None,
    tolerance: Any,
    precision: Any,
    if_exists: Any,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Load FILE (CSV, TSV, Markdown, JSON, JSON Lines, Parquet; gzipped or not) as a dataset."""
    flags = {flag: given.pop(flag) for flag in ("home", "encoder", "max_rows", "max_key")}
    settings = _settings(flags)
    types = _by_name("--column", map(_column, columns))
    with _opened(settings.home, as_json, to="try" if dry_run else "make") as catalog:
        from index.loading import LoadOptions

        from .outgoing import LoadOut

        options = LoadOptions(
            columns=types, max_rows=settings.max_rows, max_key_length=settings.max_key, **given
        )
        with ProgressLine() as line:
            report = catalog.load(
                name,
                file,
                options,
                if_exists=if_exists,
                encoder=settings.encoder,
                temperature="auto" if temperature is None else temperature,
                tolerance=tolerance,
                precision="full" if precision is None else precision,
                dry_run=dry_run,
                progress=line,
            )
        show(LoadOut.of(report), as_json, lambda loaded: load_lines(loaded, _typed))
        if not dry_run:
            _settle(catalog[name])


@main.command()
@click.argument("query")
@dataset_option
@k_option
@temperature_option
@tolerance_option
@click.option(
    "--mode",
    type=click.Choice(["soft", "exact"]),
    default="soft",
    show_default=True,
    help="soft attends to every key; exact answers as a plain dictionary would.",
)
@as_of_option
@where_option
@click.option("--explain", is_flag=True, help="Add every step, with its numbers: with --json.")
@home_option
@as_json
def search(
    query: str, dataset: str | None, home: Path | None, as_json: bool, mode: Any, **asked: Any
) -> None:
    """Ask a dataset by meaning."""
    if asked["explain"] and not as_json:
        raise click.UsageError("--explain: the steps are shown with --json")
    with _opened(home, as_json) as catalog:
        from .outgoing import AnswerOut

        answer = _chosen(catalog, dataset).search(query, mode=mode, **asked)
        show(AnswerOut.of(answer), as_json, lambda _: answer_lines(answer))


@main.command()
@click.argument("query")
@dataset_option
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="KEY=WEIGHT",
    help="A weight chosen by hand; give one for each key that counts.",
)
@k_option
@temperature_option
@tolerance_option
@as_of_option
@where_option
@home_option
@as_json
def compare(
    query: str,
    dataset: str | None,
    weights: tuple[str, ...],
    home: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Ask an exact dictionary and attention the same question."""
    by_hand = _by_name("--weight", map(_weight, weights)) or None
    with _opened(home, as_json) as catalog:
        from .outgoing import ComparisonOut

        found = _chosen(catalog, dataset).compare(query, weights=by_hand, **asked)

        def lines(_: Any) -> Iterator[str]:
            yield f"exact: {values_line(found.exact.values, found.soft.units)}"
            yield from answer_lines(found.soft, "by meaning: ")
            if found.manual is not None:
                yield from (f"by hand: {line}" for line in blend_lines(found.manual.blend))
            yield from found.differences

        show(ComparisonOut.of(found), as_json, lines)


@main.command()
@home_option
@as_json
def datasets(home: Path | None, as_json: bool) -> None:
    """List the datasets."""
    with _opened(home, as_json) as catalog:
        from index.wording import counted

        from .outgoing import DatasetOut, DatasetsOut

        def lines(shown: DatasetsOut) -> Iterator[str]:
            for each in shown.datasets:
                types = ", ".join(map(column_text, each.columns)) or "keys alone"
                entries = counted(each.entries, "entry", "entries")
                yield f"{each.name}  {entries}  {types}  {each.encoder}"
                yield f"  {settings_text(each)}"

        found = [DatasetOut.of(each) for each in catalog.descriptions()]
        show(DatasetsOut(datasets=found), as_json, lines)


@main.command()
@click.argument("name")
@click.option(
    "--format",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    help="Format to write; by the name of the output, if left out.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; the standard output if left out.",
)
@click.option(
    "--decimal",
    type=click.Choice(["point", "comma"]),
    default="point",
    help="Decimal mark of CSV; comma is for spreadsheets in languages that write 1,5.",
)
@home_option
@as_json
def export(
    name: str, format: Any, output: Path | None, decimal: Any, home: Path | None, as_json: bool
) -> None:
    """Write a dataset as CSV, JSON Lines or Parquet.

    The format is that of --format or of the file's name; else JSON Lines with --json, or CSV.
    """
    with _opened(home, as_json) as catalog:
        from .errors import ServiceError

        format = format or _format_of(output) or ("jsonl" if as_json else "csv")
        blocks = catalog[name].export(format, decimal=decimal)
        if sys.stdout is None and output is None:
            raise ServiceError("there is no standard output; write -o FILE")
        if output is None or _is_stdout(output):
            for block in blocks:
                sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()
        else:
            _write(output, blocks)


@main.command()
@click.argument("name")
@click.option("--encoder", help="Encoder to change to; the dataset's own if left out.")
@home_option
@as_json
def reencode(name: str, encoder: str | None, home: Path | None, as_json: bool) -> None:
    """Compute a dataset's vectors anew."""
    with _opened(home, as_json, to="change") as catalog:
        from .outgoing import DatasetOut

        with ProgressLine() as line:
            catalog[name].reencode(encoder, progress=line)
        found = DatasetOut.of(catalog[name].describe())
        show(found, as_json, lambda _: iter([f"{name} is encoded by {found.encoder}"]))
        _settle(catalog[name])


@main.command()
@click.argument("name")
@temperature_option
@click.option("--tolerance", help="A number from 0 to below 1, or default.")
@precision_option
@home_option
@as_json
def configure(name: str, home: Path | None, as_json: bool, **given: str | None) -> None:
    """Set a dataset's temperature, tolerance or precision, for every question."""
    settings: dict[str, str | None] = {k: v for k, v in given.items() if v is not None}
    if not settings:
        raise click.UsageError("write --temperature, --tolerance or --precision")
    if settings.get("tolerance") == "default":
        settings["tolerance"] = None
    with _opened(home, as_json, to="change") as catalog:
        from .outgoing import DatasetOut

        catalog[name].configure(**settings)
        found = DatasetOut.of(catalog[name].describe())
        show(found, as_json, lambda _: iter([f"{name}: {settings_text(found)}"]))
        _settle(catalog[name])


@main.command()
@click.argument("name")
@home_option
@as_json
def delete(name: str, home: Path | None, as_json: bool) -> None:
    """Delete a dataset with everything in it."""
    with _opened(home, as_json, to="change") as catalog:
        catalog.delete(name)
        click.echo(dumped({"deleted": name}) if as_json else f"deleted {name}")


@main.command(name="settings")
@_flags(*Settings.model_fields)
@as_json
def settings_(as_json: bool, **flags: Any) -> None:
    """Print every setting: its value, where it came from, and what it does."""
    values = _settings(flags).model_dump(mode="json")
    rows = [
        {
            "name": name,
            "value": values[name],
            "source": source(name, flags),
            "variable": variable(name),
            "flag": flag(name),
            "help": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    if as_json:
        click.echo(dumped(rows))
        return
    for row in rows:
        value = ",".join(row["value"]) if isinstance(row["value"], list) else row["value"]
        click.echo(f"{row['variable']}={value}  ({row['source']})\n    {row['help']}")


# -- around the commands -----------------------------------------------------------------------


def _settings(flags: dict[str, Any]) -> Settings:
    try:
        return load_settings(flags)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def _refusals(as_json: bool) -> Iterator[None]:
    """End with code 1 and the message where softdict or the system refuses.

    Say nothing of a closed pipe: who reads it has read enough.
    """
    from index.errors import SoftDictError

    try:
        yield
    except SoftDictError as error:
        _refuse(error, as_json)
    except BrokenPipeError:
        _forget_output()
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that is a file
        from .errors import ServiceError

        _forget_output()
        _refuse(ServiceError(_refusal(error)), as_json)


def _refusal(error: OSError) -> str:
    words = error.strerror or str(error)
    return f"{error.filename}: {words}" if error.filename else words


def _refuse(error: SoftDictError, as_json: bool) -> NoReturn:
    if as_json:
        from .problems import describe

        problem = describe(error).model_dump(mode="json", exclude_unset=True)
        click.echo(json.dumps(problem), err=True)
    else:
        click.echo(f"softdict: {_refused(error)}", err=True)
    sys.exit(1)


def _refused(error: SoftDictError) -> str:
    """Say a refusal, with options as they are typed."""
    from index.errors import InvalidRequest

    if not isinstance(error, InvalidRequest):
        return _typed(str(error))
    named = [(_flagged(r"^(\w+)(\.?)", each.where), _typed(each.message)) for each in error.faults]
    return "; ".join(f"{where}: {message}" for where, message in named)


def _typed(words: str) -> str:
    """Name options as they are typed: on_error=skip is --on-error skip, header=no --no-header."""
    given = _flagged(r"(?<=\bwith )(\w+=no\b|\w+(?==))(=?)", words)
    return _flagged(r"\bthe option (\w+)()", given)


def _flagged(pattern: str, words: str) -> str:
    """Put its flag for each option of the command, and a space for what stands behind it."""
    command = click.get_current_context().command
    options = [each for each in command.params if isinstance(each, click.Option)]
    flags = {each.name: each.opts[0] for each in options}
    flags |= {f"{each.name}=no": each.secondary_opts[0] for each in options if each.secondary_opts}

    def flagged(found: re.Match[str]) -> str:
        flag = flags.get(found[1])
        return found[0] if flag is None else f"{flag} " if found[2] else flag

    return re.sub(pattern, flagged, words)


def _forget_output() -> None:
    """Keep Python from failing once more as it flushes on its way out."""
    with suppress(OSError, AttributeError):  # a standard output that is no file, or none
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _opened(
    home: Path | None,
    as_json: bool,
    *,
    to: Literal["read", "try", "change", "make"] = "read",
) -> Iterator[Catalog]:
    """Open the store in ``home``, by default that of the settings; a new one only to ``make``.

    To ``try`` what would be written there, none need be: it is then one without datasets.
    """
    settings = _settings({"home": home})
    with _refusals(as_json), ExitStack() as stack:
        from index.catalog import Catalog

        folder = settings.home
        writes = to == "make" or (to == "change" and Catalog.exists(folder))
        if to == "try" and not Catalog.exists(folder):
            stack.enter_context(_tidied_up())
            folder, writes = Path(stack.enter_context(TemporaryDirectory(prefix="softdict-"))), True
        yield stack.enter_context(Catalog.open(folder, read_only=not writes))


def _settle(dataset: SoftDict) -> None:
    """Wait for a large dataset's sketch, so that the next start finds it made."""
    if dataset.settling:
        click.echo("sketching (Ctrl-C leaves it to the next start) ...", err=True)
        with suppress(KeyboardInterrupt):
            dataset.settle()


def _chosen(catalog: Catalog, name: str | None) -> Any:
    from .errors import NoDatasets

    chosen = next(iter(catalog), None) if name is None else name
    if chosen is None:
        raise NoDatasets
    return catalog[chosen]


def _by_name(flag: str, pairs: Iterable[tuple[str, Given]]) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for name, given in pairs:
        if name in found:
            raise click.UsageError(f"{flag}: {name!r} is given more than once")
        found[name] = given
    return found


def _column(given: str) -> tuple[str, str]:
    name, equals, kind = given.rpartition("=")
    if not equals or kind not in ("number", "vector", "category", "text", "skip"):
        raise click.UsageError(
            f"--column {given}: write NAME=TYPE, a type being number, vector, category, text, skip"
        )
    return name, kind


def _weight(given: str) -> tuple[str, float]:
    key, equals, weight = given.rpartition("=")
    with suppress(ValueError):
        if equals:
            return key, float(weight)
    raise click.UsageError(f"--weight {given}: write KEY=WEIGHT with a point, as in perro=0.1")


def _format_of(output: Path | None) -> str:
    """Give the format that a file's name promises, if it does."""
    ending = "" if output is None else output.suffix.lower()
    if ending not in ("", ".csv", ".jsonl", ".parquet"):
        raise click.UsageError(
            f"-o {output}: no format is written in {ending} files; name it .csv, .jsonl or "
            ".parquet, or say --format"
        )
    return ending.removeprefix(".")


def _is_stdout(output: Path) -> bool:
    """Tell /dev/stdout, which may lead to a file that others have written into."""
    if sys.stdout is None or not output.exists():  # it may be closed
        return False
    return os.path.samestat(output.stat(), os.fstat(1))


def _write(output: Path, blocks: Iterator[bytes]) -> None:
    """Write a whole file or none: a half-written export must not pass for one.

    A pipe or a device is written into: it cannot be replaced.
    """
    try:
        if output.exists() and not output.is_file():
            with output.open("wb") as stream:
                stream.writelines(blocks)
        else:
            file = Path(os.path.realpath(output))  # where a link points, not the link
            with _tidied_up():
                _replace(file, blocks)
    except OSError as error:
        from .errors import ServiceError

        raise ServiceError(f"cannot write {output}: {error.strerror}") from None


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a second one would end what is tidied up, too
    sys.exit(128 + number)


@contextmanager
def _tidied_up() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is under way as an error does: it removes what is its own.

    Who ignores one of them (nohup) goes on to.
    """
    numbers = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _replace(file: Path, blocks: Iterator[bytes]) -> None:
    part = file.with_name(f".{secrets.token_hex(8)}.part")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o666
    try:
        # Never open to more than the file was, and at once: a private one may be replaced.
        with open(os.open(part, flags, mode), "wb") as stream:
            stream.writelines(blocks)
            stream.flush()
            os.fsync(stream.fileno())  # or the new name may hold nothing after a power cut
        if file.exists():
            shutil.copymode(file, part)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)

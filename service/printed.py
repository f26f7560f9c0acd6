"""What the command line prints: lines for people, JSON for programs, bars for long work."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

    from index.answers import Answer, Blend, Progress, Value

BAR = 30  # characters


class Bars:
    """A progress bar on stderr for each phase of a long work."""

    def __init__(self) -> None:
        self._phase: str | None = None
        self._bar: Any = None

    def __enter__(self) -> Bars:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, progress: Progress) -> None:
        if progress.phase != self._phase:
            self._end()
            self._phase = progress.phase
            self._bar = click.progressbar(
                length=progress.total or 0,
                label=f"{progress.phase:9}",
                file=sys.stderr,
                show_pos=True,
            )
            self._bar.__enter__()
        self._bar.length = progress.total or progress.done
        self._bar.update(progress.done - self._bar.pos)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


def show(shown: BaseModel, as_json: bool, lines: Callable[[Any], Iterator[str]]) -> None:
    if as_json:
        click.echo(shown.model_dump_json(exclude_unset=True, indent=2))
    else:
        for line in lines(shown):
            click.echo(line)


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def load_lines(report: Any) -> Iterator[str]:
    done = "would load" if report.dry_run else "loaded"
    yield f"{report.dataset}: {done} {report.loaded or report.rows:,} entries ({report.format})"
    yield f"  {report.key_column} → " + ", ".join(map(column_text, report.columns))
    for name, value in (report.detected or {}).items():
        yield f"  {name}: {value}"
    for entry in report.preview:
        yield f"  {entry.key}: " + ", ".join(_text(value) for value in entry.values.values())
    for row in report.bad_rows:
        yield f"  line {row.line}: {row.reason}"


def column_text(column: Any) -> str:
    """Say what a column is."""
    kind = f"{column.type}, attribute" if column.attribute else column.type
    return f"{column.name} ({kind})"


def answer_lines(answer: Answer) -> Iterator[str]:
    yield from blend_lines(answer.blend)
    width = max((len(match.key) for match in answer.matches), default=0)
    for match in answer.matches:
        bar = "█" * round(BAR * match.weight)
        held = [*match.values.values(), *match.attributes.values()]
        values = ", ".join(_text(value) for value in held)
        yield f"{match.key:{width}}  {match.weight:6.1%}  {bar:{BAR}}  {values}"
    yield (
        f"temperature {answer.temperature:.3g} ({answer.temperature_source}), "
        f"{answer.effective_keys:.1f} effective keys of {answer.keys:,}"
    )
    if answer.error:
        error = math.ceil(answer.error * 1000) / 1000  # upwards: it stays a bound
        yield (
            f"{answer.scored:,} of {answer.keys:,} keys scored, {answer.coverage:.1%} of the "
            f"weight; weights within {error:g} of exact"
        )


def settings_text(dataset: Any) -> str:
    """Say a dataset's own settings."""
    default = " (default)" if dataset.tolerance is None else ""
    return f"temperature {dataset.temperature}, tolerance {dataset.tolerance_in_use:g}{default}"


def blend_lines(blends: dict[str, Blend | None]) -> Iterator[str]:
    for name, blend in blends.items():
        match blend:
            case None:
                yield f"{name}: nothing"
            case _ if blend.type == "number":
                low, high = blend.interval
                yield f"{name}: {blend.mean:.4g} (90 % between {low:.4g} and {high:.4g})"
            case _ if blend.type == "vector":
                yield f"{name}: {_text(blend.mean)}"
            case _:
                yield f"{name}: {blend.value} ({blend.probability:.0%})"


def values_line(values: Mapping[str, Value] | None) -> str:
    """Say an entry's values, or that there is no entry."""
    if values is None:
        return "nothing"
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items())


def _text(value: Value | list[float]) -> str:
    match value:
        case None:
            return "nothing"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return "[" + ", ".join(f"{part:.4g}" for part in value) + "]"
        case _:
            return str(value)

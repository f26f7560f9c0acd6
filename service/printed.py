"""What the command line prints: lines for people, JSON for programs, a line for long work."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

    from index.answers import Answer, Blend, Progress, Value

BAR = 30  # characters
LONGEST_KEY = 40  # likewise
REDRAWN, REPEATED = 0.1, 10.0  # seconds between two states of a line, and between two lines


class ProgressLine:
    """How far a long work is, on stderr: one line on a terminal, elsewhere a line now and then."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._last: Progress | None = None
        self._drawn: Progress | None = None
        self._shown = clock()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, progress: Progress) -> None:
        if self._last is not None and progress.phase != self._last.phase:
            self._end()
        self._last = progress
        if self._clock() - self._shown >= (REDRAWN if self._live else REPEATED):
            self._show()

    def _end(self) -> None:
        """Leave the last line of a phase standing."""
        if self._last is not None:
            if self._drawn is not self._last:
                self._show()
            if self._live:
                click.echo(err=True)
            self._last = None

    def _show(self) -> None:
        assert self._last is not None
        line = progress_line(self._last)
        if self._live:  # what runs into a second row is never overwritten
            line = line[: shutil.get_terminal_size().columns - 1]
        click.echo(f"\r{line}\x1b[K" if self._live else line, err=True, nl=not self._live)
        self._drawn, self._shown = self._last, self._clock()


def progress_line(progress: Progress) -> str:
    """Say how far a work is: encoding 123,456 of 1,000,000 · 2,410/s · 6 min left."""
    line = f"{progress.phase} {progress.done:,}"
    if progress.total is not None:
        line += f" of {progress.total:,}"
    if progress.rate is not None:
        line += f" · {_rate(progress.rate)}/s"
    if progress.seconds_left is not None and progress.done != progress.total:
        line += f" · {duration(progress.seconds_left)} left"
    return line


def duration(seconds: float) -> str:
    """Say a time in the unit that fits it."""
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def show(shown: BaseModel, as_json: bool, lines: Callable[[Any], Iterator[str]]) -> None:
    if as_json:
        click.echo(dumped(shown.model_dump(mode="json", exclude_unset=True)))
    else:
        for line in lines(shown):
            click.echo(_harmless(line))


def dumped(value: object) -> str:
    """Write JSON, with escapes where the output cannot hold every character."""
    unicode = sys.stdout is None or sys.stdout.encoding.lower().startswith("utf")
    return json.dumps(value, ensure_ascii=not unicode, indent=2)


def _harmless(line: str) -> str:
    """Show the control characters of texts, which would move a terminal's cursor, as escapes."""
    return "".join(repr(c)[1:-1] if unicodedata.category(c) == "Cc" else c for c in line)


def load_lines(report: Any, typed: Callable[[str], str]) -> Iterator[str]:
    """Say what was loaded; ``typed`` names the options in what is advised as they are typed."""
    from index.wording import counted

    done = "would load" if report.dry_run else "loaded"
    number = report.rows - report.duplicates - report.bad_row_count  # a dry run loads none
    entries = counted(number, "entry", "entries")
    yield f"{report.dataset}: {done} {entries} ({report.format})"
    columns = ", ".join(map(column_text, report.columns)) or "no other column"
    yield f"  {report.key_column} → {columns}"
    if report.reused:
        texts = report.reused + report.embedded
        yield f"  {report.reused:,} of {texts:,} vectors were there already"
    for name, value in (report.detected or {}).items():
        yield f"  {name}: {value}"
    yield from (f"  {typed(note)}" for note in report.notes)
    for entry in report.preview:
        held = zip(entry.values.values(), report.columns, strict=True)
        values = ", ".join(_text(value, column.unit) for value, column in held)
        yield f"  {entry.key}: {values}" if values else f"  {entry.key}"
    for row in report.bad_rows:
        yield f"  line {row.line}: {typed(row.reason)}"
    if more := report.bad_row_count - len(report.bad_rows):
        yield f"  and {counted(more, 'row', 'rows')} more that cannot be read"


def column_text(column: Any) -> str:
    """Say what a column is."""
    kind = f"{column.type}, attribute" if column.attribute else column.type
    return f"{column.name} ({kind}{f', {column.unit}' if column.unit else ''})"


def answer_lines(answer: Answer, before: str = "") -> Iterator[str]:
    """Say a blend, with something before each column of it, and what it was made of."""
    from index.wording import short

    if not answer.keys:
        yield "no entry may answer: there is none, or the condition or the moment allows none"
        return
    if answer.mode == "exact":
        if not answer.matches:
            yield f"no key reads exactly {answer.query!r}"
        for match in answer.matches:
            yield values_line({**match.values, **match.attributes}, answer.units)
        return
    yield from (before + line for line in blend_lines(answer.blend))
    keys = [short(match.key, LONGEST_KEY) for match in answer.matches]
    width = max(map(len, keys), default=0)
    for key, match in zip(keys, answer.matches, strict=True):
        bar = "█" * round(BAR * match.weight)
        held = {**match.values, **match.attributes}
        values = values_line(held, answer.units, named=len(held) > 1) if held else ""
        yield f"{key:{width}}  {match.weight:6.1%}  {bar:{BAR}}  {values}"
    yield (
        f"confidence {_confidence(answer)}, "
        f"temperature {answer.temperature:.3g} ({answer.temperature_source}), "
        f"{answer.effective_keys:.1f} effective keys of {answer.keys:,}"
    )
    if answer.error:
        error = math.ceil(answer.error * 1000) / 1000  # upwards: it stays a bound
        yield (
            f"{answer.scored:,} of {answer.keys:,} keys scored, {answer.coverage:.1%} of the "
            f"weight; weights within {error:g} of exact"
        )


def _confidence(answer: Answer) -> str:
    if answer.confidence is None:  # so something was scored
        return f"unknown (best score {answer.matches[0].score:.2f})"
    return f"{answer.confidence:.1%}"


def settings_text(dataset: Any) -> str:
    """Say a dataset's own settings."""
    default = " (default)" if dataset.tolerance is None else ""
    half = ", half precision" if dataset.precision == "half" else ""
    return (
        f"temperature {dataset.temperature}, tolerance {dataset.tolerance_in_use:g}{default}{half}"
    )


def blend_lines(blends: dict[str, Blend | None]) -> Iterator[str]:
    from index.wording import rounded, whole

    for name, blend in blends.items():
        if blend is None:
            yield f"{name}: nothing"
            continue
        all_known = blend.known > 0.9995
        said = [] if all_known else [f"{blend.known:.1%} of the weight has a value"]
        if blend.type == "number":
            mean, median = (rounded(number, blend.unit) for number in (blend.mean, blend.median))
            low, high = (whole(end, blend.unit) for end in blend.interval)  # they are values
            lies = f"at {low}" if low == high else f"between {low} and {high}"
            unseen = blend.prediction_interval
            weight = "the weight" if all_known else "that"
            if unseen == blend.interval:
                weight += " and of unseen values"
            said.append(f"90% of {weight} {lies}")
            if unseen and unseen != blend.interval:
                low, high = (rounded(end, blend.unit) for end in unseen)
                said.append(f"90% of unseen values between {low} and {high}")
            shown = mean if mean == median else f"{mean}, median {median}"
        elif blend.type == "vector":
            shown = rounded(blend.mean)
        else:
            shown = str(blend.value)
            said.insert(0, f"{blend.probability:.0%}")
        yield f"{name}: {shown}" + (f" ({'; '.join(said)})" if said else "")


def values_line(
    values: Mapping[str, Value] | None, units: Mapping[str, str], *, named: bool = True
) -> str:
    """Say an entry's values with their units, or that it has none, or that there is no entry."""
    if values is None:
        return "nothing"
    if not values:
        return "no values"
    said = ((name, _text(value, units.get(name))) for name, value in values.items())
    return ", ".join(f"{name} {text}" if named else text for name, text in said)


def _text(value: Value | list[float], unit: str | None) -> str:
    from index.wording import whole

    return whole(tuple(value) if isinstance(value, list) else value, unit)

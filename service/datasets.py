"""Datasets: list, create, describe, change, delete and export."""

from __future__ import annotations

from urllib.parse import quote

from flask import Response

from index.answers import LoadReport
from index.softdict import SoftDict

from .conditions import Conditions, etag_header
from .incoming import DatasetPath, ExportQuery, LoadQuery, SettingsBody
from .outgoing import DatasetOut, DatasetsOut, JobOut, LoadOut
from .problems import said
from .requests import Routes
from .runtime import runtime
from .uploads import BODY, load, received
from .work import Job

routes = Routes("datasets", "Datasets")
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


@routes.get("/datasets", responses={200: DatasetsOut, **said()})
def datasets() -> DatasetsOut:
    """List the datasets, in order of creation: the first answers where none is named."""
    return DatasetsOut(datasets=[DatasetOut.of(each) for each in runtime().catalog.descriptions()])


@routes.post(
    "/datasets",
    responses={200: LoadOut, 201: LoadOut, 202: JobOut, **said(404, 409, 415, 503, 507)},
    description="A small table is loaded before the answer; a larger one becomes a job, whose "
    "progress is at /jobs/{id}. While others write, a small one may be refused as busy (503), and "
    "a job waits its turn. A dry run says what would be loaded, and writes nothing.",
    openapi_extensions={"requestBody": BODY},
)
def create(query: LoadQuery) -> tuple[LoadOut | JobOut, int, dict[str, str]]:
    """Load a table: as a form's file, as a raw body, or in a JSON document with its options."""
    state = runtime()
    outcome = load(received(query, state.settings.max_upload), state)
    return _job(outcome) if isinstance(outcome, Job) else _loaded(outcome)


@routes.get("/datasets/<name>", responses={200: DatasetOut, 304: None, **said(404, 412, 503)})
def describe(path: DatasetPath, header: Conditions) -> Response:
    """Describe a dataset: columns, counts, encoder, temperature, version."""
    return header.tagged(runtime().read(path.name, _shown))


@routes.patch("/datasets/<name>", responses={200: DatasetOut, **said(404, 412, 415, 503, 507)})
def change(
    path: DatasetPath, header: Conditions, body: SettingsBody
) -> tuple[DatasetOut, int, dict[str, str]]:
    """Set a dataset's temperature, tolerance or precision."""

    def changed(dataset: SoftDict) -> DatasetOut:
        with dataset.turn:  # what is answered with is what was written
            dataset.configure(**body.model_dump(exclude_unset=True))
            return _shown(dataset)

    shown = runtime().write(path.name, header.on(_shown, changed))
    return shown, 200, etag_header(shown)


@routes.delete("/datasets/<name>", responses={204: None, **said(404, 412, 503, 507)})
def delete(path: DatasetPath, header: Conditions) -> tuple[str, int]:
    """Delete a dataset with everything in it."""
    state = runtime()
    state.write(path.name, header.on(_shown, state.catalog.drop))
    return "", 204


@routes.get(
    "/datasets/<name>/export",
    responses={
        200: {
            "description": "the table",
            "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
        },
        **said(404, 503),
    },
)
def export(path: DatasetPath, query: ExportQuery) -> Response:
    """Download a dataset as CSV, JSON Lines or Parquet."""
    blocks = runtime().read(path.name, lambda d: d.export(query.format, decimal=query.decimal))
    name = quote(f"{path.name}.{query.format}")
    return Response(
        blocks,
        content_type=MEDIA_TYPES[query.format],
        # curl knows only the first of the two.
        headers={"Content-Disposition": f"attachment; filename={name}; filename*=UTF-8''{name}"},
    )


def _shown(dataset: SoftDict) -> DatasetOut:
    return DatasetOut.of(dataset.describe())


def _job(job: Job) -> tuple[JobOut, int, dict[str, str]]:
    return JobOut.of(job), 202, {"Location": f"/jobs/{job.id}"}


def _loaded(report: LoadReport) -> tuple[LoadOut, int, dict[str, str]]:
    if report.created:
        return LoadOut.of(report), 201, {"Location": f"/datasets/{quote(report.dataset)}"}
    return LoadOut.of(report), 200, {}

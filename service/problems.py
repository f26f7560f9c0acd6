"""Errors as RFC 9457 problems: one table from what was raised to what is said.

"The 'type' member is a JSON string containing a URI reference that identifies the problem
type" (RFC 9457 §3.1.1): here ``/problems/<slug>``, which answers with what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field

from index import errors as core
from index.errors import LONGEST_SAID, SoftDictError
from index.wording import short

from . import errors

MEDIA_TYPE = "application/problem+json"
LONGEST_PLACE = 300  # characters: a column's name has 200 at most

# An address that is not UTF-8, a body that is too large, a host that is not ours, a parameter that
# is none.
EVERYWHERE = (400, 413, 421, 422)
# How flask-openapi3 spells what a response is: a model, the OpenAPI object itself, or nothing.
Documented = type[BaseModel] | dict[Any, Any] | None


class FaultOut(BaseModel):
    """One thing wrong: where it stands, and what to do about it."""

    where: str
    message: str


class ProblemOut(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FaultOut] | None = Field(default=None, description="every fault, or the first 100")


@dataclass(frozen=True)
class ProblemType:
    """A row of the table: what is raised, and how it is said over HTTP."""

    raised: type[Exception]
    status: int
    slug: str
    title: str
    retry_after: int | None = None  # seconds


TABLE = (
    ProblemType(core.InvalidRequest, 422, "invalid-request", "The request has faults"),
    ProblemType(core.InvalidKey, 422, "invalid-key", "No dictionary can hold this key"),
    ProblemType(core.UnknownDataset, 404, "unknown-dataset", "No dataset has this name"),
    ProblemType(core.DatasetExists, 409, "dataset-exists", "The name is taken"),
    ProblemType(core.UnknownEntry, 404, "unknown-entry", "No entry has this key"),
    ProblemType(core.WrongValue, 422, "wrong-value", "The column cannot hold this value"),
    ProblemType(core.UnreadableSource, 422, "unreadable-source", "This cannot be read as a table"),
    ProblemType(core.BadRows, 422, "bad-rows", "Some rows cannot be loaded"),
    ProblemType(core.NotEnoughMemory, 507, "not-enough-memory", "The load would not fit in memory"),
    ProblemType(
        core.EncoderUnavailable, 503, "encoder-unavailable", "The encoder cannot be opened"
    ),
    ProblemType(core.EncoderMismatch, 409, "encoder-mismatch", "Written by another encoder"),
    ProblemType(core.StoreLocked, 503, "store-locked", "The store is in use", 5),
    ProblemType(core.Busy, 503, "busy", "Another write goes on", 5),
    ProblemType(core.DiskFull, 507, "disk-full", "The disk takes no more"),
    ProblemType(core.StoreClosed, 503, "store-closed", "The store was closed"),
    ProblemType(core.ReadOnlyStore, 403, "read-only-store", "The store is read-only"),
    ProblemType(core.StoreCorrupt, 500, "store-corrupt", "The store cannot be read"),
    ProblemType(errors.MalformedRequest, 400, "malformed-request", "The request cannot be read"),
    ProblemType(
        errors.UnsupportedContent, 415, "unsupported-content", "This content is not read here"
    ),
    ProblemType(errors.TooLarge, 413, "too-large", "The body is too large"),
    ProblemType(errors.NoDatasets, 404, "no-datasets", "There is nothing to ask yet"),
    ProblemType(errors.ConditionFailed, 412, "condition-failed", "A condition does not hold"),
    ProblemType(errors.UnknownJob, 404, "unknown-job", "No job has this id"),
    ProblemType(errors.JobFinished, 409, "job-finished", "The job has ended"),
    ProblemType(errors.JobCancelled, 409, "job-cancelled", "The job was cancelled"),
    ProblemType(errors.TooManyJobs, 503, "too-many-jobs", "Too many jobs wait", 10),
    ProblemType(errors.NotReady, 503, "not-ready", "The service is not ready", 1),
    ProblemType(errors.Stopping, 503, "stopping", "The service is stopping", 5),
    ProblemType(errors.UntrustedHost, 421, "untrusted-host", "Not a name of this service"),
    ProblemType(errors.CrossOrigin, 403, "cross-origin", "Refused: asked by another site"),
    ProblemType(errors.CannotListen, 500, "cannot-listen", "The address cannot be listened on"),
    ProblemType(Exception, 500, "internal", "Something failed inside"),
)
_BY_ERROR = {row.raised: row for row in TABLE}


def problem_type(error: BaseException) -> ProblemType:
    """Return the nearest row of the table: that of the class, else of its ancestors."""
    return next(_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR)


def describe(error: SoftDictError) -> ProblemOut:
    """Say a domain error as a problem."""
    return problem(problem_type(error), str(error), faults(error))


def said(*statuses: int) -> dict[str | int, Documented]:
    """Document the problems that a route may answer with: those of every route, and these."""
    schema = {"$ref": "#/components/schemas/ProblemOut"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in sorted({*EVERYWHERE, *statuses})
    }


def faults(error: SoftDictError) -> list[FaultOut]:
    """List every single fault that a domain error carries."""
    match error:
        case core.InvalidRequest():
            return [_fault(each) for each in error.faults]
        case core.BadRows():
            return [FaultOut(where=f"line {row.line}", message=row.reason) for row in error.rows]
        case core.WrongValue():
            return [FaultOut(where=f"values.{error.column}", message=error.message)]
        case _:
            return []


def _fault(fault: core.Fault) -> FaultOut:
    where = short(fault.where, LONGEST_PLACE)
    return FaultOut(where=where, message=short(fault.message, LONGEST_SAID))


def plain_problem(status: HTTPStatus, detail: str) -> ProblemOut:
    """Say one of HTTP's own errors, which needs no type: its status says it all (§4.2.1)."""
    return ProblemOut(type="about:blank", title=status.phrase, status=status, detail=detail)


def problem(row: ProblemType, detail: str, errors: list[FaultOut] | None = None) -> ProblemOut:
    given = {"errors": errors} if errors else {}
    kind = f"/problems/{row.slug}"
    return ProblemOut(type=kind, title=row.title, status=row.status, detail=detail, **given)

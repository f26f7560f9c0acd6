"""Jobs over HTTP: see how far a load is, and cancel it."""

from __future__ import annotations

from .incoming import JobPath
from .outgoing import JobOut, JobsOut
from .problems import said
from .requests import Routes
from .runtime import runtime

routes = Routes("jobs", "Jobs")


@routes.get("/jobs", responses={200: JobsOut, **said()})
def jobs() -> JobsOut:
    """List the jobs that are remembered, newest first."""
    return JobsOut(jobs=[JobOut.of(job) for job in runtime().jobs.remembered()])


@routes.get("/jobs/<id>", responses={200: JobOut, **said(404)})
def job(path: JobPath) -> JobOut:
    """Say how far a job is, and how it ended."""
    return JobOut.of(runtime().jobs.get(path.id))


@routes.delete("/jobs/<id>", responses={202: JobOut, **said(404, 409)})
def cancel(path: JobPath) -> tuple[JobOut, int]:
    """Ask a job to stop; it ends as cancelled, with nothing loaded, unless it is done first."""
    return JobOut.of(runtime().jobs.cancel(path.id)), 202

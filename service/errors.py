"""Faults of the service itself, beside the library's own (``index.errors``).

SoftDictError
└── ServiceError
    ├── MalformedRequest      bytes that are not what their content type says
    ├── UnsupportedContent    a content type or coding that this route does not read
    ├── TooLarge              a body above its limit
    ├── NoDatasets            the store is empty
    ├── UnknownJob            no job of that id
    ├── ConditionFailed       If-Match or If-None-Match does not hold
    ├── JobFinished           a job that can no longer be cancelled
    ├── JobCancelled          a job that was asked to stop
    ├── TooManyJobs           the queue is full
    ├── NotReady              the service cannot answer yet
    ├── Stopping              the service ends, and a load with it
    ├── UntrustedHost         a Host header that is not ours
    ├── CrossOrigin           a write asked for by a page of another origin
    └── CannotListen          an address or port that cannot be listened on
"""

from __future__ import annotations

from collections.abc import Sequence

from index.errors import SoftDictError
from index.wording import counted


class ServiceError(SoftDictError):
    """The root of the service's own faults."""


class MalformedRequest(ServiceError):
    """Bytes that are not what their content type says."""


class UnsupportedContent(ServiceError):
    """A content type or coding that this route does not read."""

    def __init__(self, got: str, known: Sequence[str]) -> None:
        super().__init__(f"cannot read {got or 'a body without a type'}; send {', '.join(known)}")


class TooLarge(ServiceError):
    """Something above its limit, which is named."""

    def __init__(self, limit: int, bound: str, what: str = "the body") -> None:
        super().__init__(f"{what} is larger than {limit:,} bytes, {bound}")


class NoDatasets(ServiceError):
    """The store is empty, so there is nothing to ask."""

    def __init__(self) -> None:
        super().__init__(
            "there are no datasets yet; load a table, with POST /datasets or the command load"
        )


class ConditionFailed(ServiceError):
    """A condition of the request, If-Match or If-None-Match, does not hold; nothing was changed."""

    def __init__(self, header: str, *, there: bool = True) -> None:
        why = {
            "If-Match": "it was changed since it had the ETag that was sent; get it again, and "
            "send the ETag that it has now; one with W/, as a proxy makes it that compresses, "
            "never holds",
            "If-None-Match": "it is there already; get it, and send its ETag as If-Match",
        }
        gone = "there is none, or no more; If-None-Match: * is for what is new"
        super().__init__(f"{header} does not hold: {why[header] if there else gone}")


class UnknownJob(ServiceError):
    """No job has that id: it never was, or is no longer remembered."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"there is no job {job!r}; jobs are forgotten a while after they end, and when "
            "the service stops"
        )


class JobFinished(ServiceError):
    """The job ended before it could be cancelled."""

    def __init__(self, job: str, state: str) -> None:
        super().__init__(f"job {job} is {state}, so it cannot be cancelled")


class JobCancelled(ServiceError):
    """The job was asked to stop, and stopped; nothing of it was loaded."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled; nothing of it was loaded")


class TooManyJobs(ServiceError):
    """As many loads wait as may."""

    def __init__(self, limit: int) -> None:
        loads = counted(limit, "load", "loads")
        super().__init__(
            f"at most {loads} may wait, by the setting max_jobs and the files that the service may "
            "have open (ulimit -n); try again later"
        )


class NotReady(ServiceError):
    """The service is still starting, or cannot answer: the message says why."""


class Stopping(ServiceError):
    """The service is ending, and loads nothing any more; the next start does."""

    def __init__(self) -> None:
        super().__init__("the service is stopping, and nothing was loaded; send it again later")


class UntrustedHost(ServiceError):
    """A Host header that is neither a plain address, localhost nor an allowed name."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host!r} is not a name of this service; add it to SOFTDICT_ALLOWED_HOSTS if it is"
        )


class CrossOrigin(ServiceError):
    """A write that a page of another origin asked a browser for."""

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"pages of {origin!r} may not change anything here; if that is this service, the proxy "
            "in front of it has to hand on the Host header as it came"
        )


class CannotListen(ServiceError):
    """An address or port that cannot be listened on; a start ends with it."""

    def __init__(self, host: str, port: int, cause: Exception) -> None:
        advice = "name another with --port or --host (SOFTDICT_PORT, SOFTDICT_HOST)"
        super().__init__(f"cannot listen on {host}:{port}: {cause}; {advice}")

"""Loads that run by themselves: their states, their progress, their end."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from index.answers import LoadReport, Progress
from index.errors import UnreadableSource
from service.errors import JobCancelled, JobFinished, Stopping, TooManyJobs, UnknownJob
from service.outgoing import JobOut
from service.work import Job, Jobs
from tests.service.checked import CheckedClient
from tests.service.conftest import Make
from tests.service.running import PATIENCE

REPORT = LoadReport("d", "csv", "key", (), 1, 1, 0, (), 0, ())
Tell = Callable[[Progress], None]


class Gate:
    """A load that stops at a gate until the test lets it through."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.discarded = 0

    def __call__(self, tell: Tell) -> LoadReport:
        tell(Progress("encoding", 1, 4))
        self.entered.set()
        assert self.opened.wait(PATIENCE)
        tell(Progress("writing", 4, 4))
        return REPORT

    def discard(self) -> None:
        self.discarded += 1


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs(waiting=2, kept=3)
    yield made
    made.close()


def started(jobs: Jobs) -> tuple[Gate, Job]:
    gate = Gate()
    job = jobs.submit("d", gate, gate.discard)
    assert gate.entered.wait(PATIENCE)
    return gate, job


def finished(job: Job) -> Job:
    assert job.ended.wait(PATIENCE)
    return job


def test_a_job_runs_reports_and_is_done(jobs: Jobs) -> None:
    gate, job = started(jobs)

    assert (job.state, job.progress) == ("running", Progress("encoding", 1, 4))
    gate.opened.set()
    finished(job)
    assert (job.state, job.report, job.fault) == ("done", REPORT, None)
    assert job.created <= (job.started or 0) <= (job.finished or 0)
    assert gate.discarded == 1


def test_the_job_that_ended_last_is_known_though_it_was_sent_first() -> None:
    jobs = Jobs(waiting=2, kept=1)
    try:
        gate, first = started(jobs)
        waiting = jobs.submit("d", Gate(), list)
        jobs.cancel(waiting.id)
        gate.opened.set()
        finished(first)

        assert jobs.get(first.id) is first
        with pytest.raises(UnknownJob):
            jobs.get(waiting.id)
    finally:
        jobs.close()


def test_every_part_of_a_job_stands_under_its_own_name() -> None:
    progress = Progress("encoding", 3, 8, 2.0, 2.5)
    job = Job(
        dataset="d",
        kind="reencode",
        work=lambda tell: None,
        discard=list,
        id="0f",
        state="failed",
        created=1.0,
        started=2.0,
        finished=4.0,
        progress=progress,
        fault=Stopping(),
    )

    assert JobOut.of(job).model_dump(exclude_unset=True) == {
        "id": "0f",
        "kind": "reencode",
        "dataset": "d",
        "state": "failed",
        "created": 1.0,
        "started": 2.0,
        "finished": 4.0,
        "progress": {
            "phase": "encoding", "done": 3, "total": 8, "rate": None, "seconds_left": None,
        },
        "result": None,
        "problem": {
            "type": "/problems/stopping",
            "title": "The service is stopping",
            "status": 503,
            "detail": "the service is stopping, and nothing was loaded; send it again later",
        },
    }  # fmt: skip


def is_whole(shown: JobOut) -> bool:
    if shown.finished is not None:
        return shown.state == "done" and shown.result is not None
    return shown.state == "queued" or shown.started is not None


def test_a_job_is_shown_whole_between_any_two_of_its_changes(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _ = started(jobs)
    job = jobs.submit("d", lambda tell: REPORT, lambda: None)
    shown: list[JobOut] = []

    def then_shown(self: Job, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if self is job:
            shown.append(JobOut.of(self))

    monkeypatch.setattr(Job, "__setattr__", then_shown)
    gate.opened.set()
    finished(job)

    assert {each.state for each in shown} == {"queued", "running", "done"}
    assert all(map(is_whole, shown))


@pytest.mark.parametrize("looks", range(1, 11))
def test_a_job_that_ends_while_it_is_shown_is_shown_whole(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    gate, job = started(jobs)
    seen: list[str] = []

    def then_ended(self: Job, name: str) -> object:
        found = object.__getattribute__(self, name)
        if threading.current_thread() is threading.main_thread():
            seen.append(name)
            if len(seen) == looks:
                gate.opened.set()
                finished(job)
        return found

    monkeypatch.setattr(Job, "__getattribute__", then_ended)
    shown = JobOut.of(job)

    assert job.ended.is_set()  # it was looked at as often as that
    assert is_whole(shown), shown


def test_a_job_that_runs_is_cancelled_at_its_next_report(jobs: Jobs) -> None:
    gate, job = started(jobs)
    jobs.cancel(job.id)
    gate.opened.set()

    finished(job)
    assert (job.state, job.report, gate.discarded) == ("cancelled", None, 1)
    assert isinstance(job.fault, JobCancelled)


def test_a_job_that_waits_is_cancelled_at_once_and_never_runs(jobs: Jobs) -> None:
    gate, _ = started(jobs)
    waiting = Gate()
    job = jobs.submit("d", waiting, waiting.discard)
    jobs.cancel(job.id)

    assert (job.state, job.ended.is_set(), waiting.discarded) == ("cancelled", True, 1)
    gate.opened.set()
    last_gate, _ = started(jobs)
    last_gate.opened.set()
    assert not waiting.entered.is_set()


def test_a_job_that_ended_cannot_be_cancelled(jobs: Jobs) -> None:
    gate, job = started(jobs)
    gate.opened.set()
    finished(job)

    with pytest.raises(JobFinished, match="is done"):
        jobs.cancel(job.id)


def test_jobs_run_one_at_a_time_and_in_order(jobs: Jobs) -> None:
    gate, _ = started(jobs)
    order: list[str] = []

    def work(name: str) -> Callable[[Tell], LoadReport]:
        return lambda tell: order.append(name) or REPORT  # type: ignore[func-returns-value]

    second = jobs.submit("b", work("b"), lambda: None)
    third = jobs.submit("c", work("c"), lambda: None)
    assert [second.state, third.state] == ["queued", "queued"]
    gate.opened.set()
    finished(third)
    assert order == ["b", "c"]


def test_a_full_queue_refuses(jobs: Jobs) -> None:
    gate, _ = started(jobs)
    for _ in range(2):
        jobs.submit("d", lambda tell: REPORT, lambda: None)

    with pytest.raises(TooManyJobs, match="at most 2 loads may wait"):
        jobs.submit("d", Gate(), lambda: None)
    anew = jobs.submit("d", lambda tell: None, lambda: None, kind="reencode")  # brings no upload
    gate.opened.set()
    assert (finished(anew).state, anew.report) == ("done", None)


def test_a_refusal_fails_the_job_and_stays_with_it(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(tell: Tell) -> LoadReport:
        raise UnreadableSource("no table")

    job = finished(jobs.submit("d", refuse, lambda: None))
    assert (job.state, str(job.fault)) == ("failed", "no table")
    assert f"job {job.id} (load of d) failed: UnreadableSource" in caplog.text
    assert "no table" not in caplog.text  # what a fault says may be of the table


def test_a_bug_fails_the_job_and_is_told_to_the_log_alone(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    def fall(tell: Tell) -> LoadReport:
        raise RuntimeError("secret")

    job = finished(jobs.submit("d", fall, lambda: None))
    assert (job.state, "secret" in str(job.fault), job.id in str(job.fault)) == (
        "failed",
        False,
        True,
    )
    assert f"job {job.id} failed" in caplog.text and "secret" in caplog.text


def test_only_so_many_finished_jobs_are_remembered(jobs: Jobs) -> None:
    ids = [finished(jobs.submit("d", lambda tell: REPORT, lambda: None)).id for _ in range(5)]

    assert [job.id for job in jobs.remembered()] == ids[:1:-1]
    with pytest.raises(UnknownJob):
        jobs.get(ids[0])


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
def test_a_job_that_ended_holds_on_to_nothing_of_what_it_loaded(jobs: Jobs, end: str) -> None:
    class Table(dict[str, int]):
        """What a load reads: it can be megabytes."""

    def load(table: Table, tell: Tell) -> LoadReport:
        rows = Table(table)
        seen.extend([weakref.ref(table), weakref.ref(rows)])
        try:
            rows["a"]
        except KeyError as fault:
            if end == "cancelled":
                jobs.cancel(job.id)
            elif end == "failed":
                raise UnreadableSource("no table") from fault
            tell(Progress("writing", 1, 1))
        return REPORT

    seen: list[weakref.ref[Table]] = []
    gate, _ = started(jobs)
    table = Table()
    job = jobs.submit("d", partial(load, table), table.clear)
    del table
    gate.opened.set()
    deadline = time.monotonic() + PATIENCE

    assert finished(job).state == end
    while any(each() is not None for each in seen):
        assert time.monotonic() < deadline
        gc.collect()


def test_closing_cancels_what_runs_and_what_waits() -> None:
    jobs = Jobs(waiting=2, kept=3)
    gate, running = started(jobs)
    waiting = jobs.submit("d", Gate(), lambda: None)
    closing = threading.Thread(target=jobs.close)
    closing.start()
    assert waiting.ended.wait(PATIENCE)
    gate.opened.set()
    closing.join(PATIENCE)

    assert (running.state, waiting.state) == ("cancelled", "cancelled")
    with pytest.raises(Stopping):
        jobs.submit("d", Gate(), lambda: None)


# -- over HTTP ---------------------------------------------------------------------------------

ROWS = 600
CSV = b"key,v\n" + b"".join(b"row %d,%d\n" % (i, i) for i in range(ROWS))


def loaded(client: CheckedClient, location: str) -> dict[str, object]:
    job = client.application.extensions["softdict"].jobs.get(location.rpartition("/")[2])
    finished(job)
    found: dict[str, object] = client.get(location).get_json()
    return found


def test_a_large_load_is_a_job_and_a_small_one_is_not(make: Make) -> None:
    client = make(at_once=len(CSV) - 1)
    large = client.post("/datasets?name=large", data=CSV, content_type="text/csv")
    few = CSV[:-1]  # just as large as may be
    small = client.post("/datasets?name=small", data=few, content_type="text/csv")

    assert (large.status_code, small.status_code) == (202, 201)
    assert large.headers["Location"] == f"/jobs/{large.get_json()['id']}"
    ended = loaded(client, large.headers["Location"])
    assert (ended["state"], ended["problem"]) == ("done", None)
    assert ended["result"]["loaded"] == ROWS  # type: ignore[index]
    assert client.get("/datasets/large").get_json()["entries"] == ROWS
    assert [job["id"] for job in client.get("/jobs").get_json()["jobs"]] == [ended["id"]]


@pytest.mark.parametrize(("wait", "status"), [("1", 201), ("0", 202)])
def test_wait_chooses(make: Make, wait: str, status: int) -> None:
    client = make(at_once=0 if wait == "1" else 2**20)
    reply = client.post(f"/datasets?name=p&wait={wait}", data=CSV, content_type="text/csv")

    assert reply.status_code == status
    if status == 202:
        assert loaded(client, reply.headers["Location"])["state"] == "done"
    assert client.get("/datasets/p").get_json()["entries"] == ROWS


@pytest.mark.parametrize("wait", ["0", "1"])
def test_a_load_that_a_stop_cuts_short_is_to_be_sent_again(make: Make, wait: str) -> None:
    client = make()
    state = client.application.extensions["softdict"]
    state.stop_loads()
    state.jobs.close()
    reply = client.post(f"/datasets?name=a&wait={wait}", data=CSV, content_type="text/csv")

    assert (reply.status_code, reply.get_json()["type"]) == (503, "/problems/stopping")
    assert reply.headers["Retry-After"]
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_a_failed_job_carries_the_problem_and_leaves_nothing(make: Make) -> None:
    client = make(at_once=0)
    csv = b"key,v\na,1\nb,x\n"
    url = '/datasets?name=p&columns={"v":"number"}'
    ended = loaded(client, client.post(url, data=csv, content_type="text/csv").headers["Location"])

    assert (ended["state"], ended["result"]) == ("failed", None)
    problem = ended["problem"]
    assert problem["type"] == "/problems/bad-rows"  # type: ignore[index]
    assert problem["errors"][0]["where"] == "line 3"  # type: ignore[index]
    assert client.get("/datasets/p").status_code == 404


def test_a_job_that_waits_holds_its_document_in_a_file_alone(make: Make) -> None:
    client = make(max_jobs=4)
    jobs = client.application.extensions["softdict"].jobs
    gate, _ = started(jobs)
    entries = b",".join(b'"a key of a document, %d": {"v": 1}' % number for number in range(9))
    document = b'{"name": "d", "wait": false, "entries": {%s}}' % entries
    reply = client.post("/datasets", data=document, content_type="application/json")
    gc.collect()
    tables = [each for each in gc.get_objects() if type(each) is dict]  # asks no lazy object
    held = [each for each in tables if "a key of a document, 8" in each]
    gate.opened.set()

    assert (reply.status_code, held) == (202, [])
    assert loaded(client, reply.headers["Location"])["state"] == "done"


def test_a_name_that_is_taken_is_refused_before_there_is_a_job(make: Make) -> None:
    client = make(at_once=0)
    post = {"data": b"key,v\na,1\n", "content_type": "text/csv"}
    loaded(client, client.post("/datasets?name=p", **post).headers["Location"])

    assert client.post("/datasets?name=p", **post).status_code == 409


def test_a_cancelled_load_leaves_nothing(make: Make) -> None:
    client = make(at_once=0)
    jobs = client.application.extensions["softdict"].jobs
    gate, first = started(jobs)
    waiting = client.post("/datasets?name=p", data=CSV, content_type="text/csv").get_json()
    cancelled = client.delete(f"/jobs/{waiting['id']}")
    gate.opened.set()

    assert (waiting["state"], cancelled.status_code) == ("queued", 202)
    assert cancelled.get_json()["state"] == "cancelled"
    again = client.delete(f"/jobs/{waiting['id']}")
    assert (again.status_code, again.get_json()["type"]) == (409, "/problems/job-finished")
    finished(first)
    assert client.get("/datasets").get_json() == {"datasets": []}


def test_a_load_cancelled_midway_leaves_nothing(make: Make) -> None:
    client = make(at_once=0)
    state = client.application.extensions["softdict"]
    catalog_load, seen = state.catalog.load, threading.Event()

    def watched(*args: object, progress: Tell, **kwargs: object) -> LoadReport:
        def tell(progress_: Progress) -> None:
            if progress_.phase == "encoding":
                seen.set()
                assert job.stop.wait(PATIENCE)
            progress(progress_)

        report: LoadReport = catalog_load(*args, progress=tell, **kwargs)
        return report

    state.catalog.load = watched
    reply = client.post("/datasets?name=p", data=CSV, content_type="text/csv")
    job = state.jobs.get(reply.get_json()["id"])
    assert seen.wait(PATIENCE)
    assert client.delete(f"/jobs/{job.id}").get_json()["state"] in ("running", "cancelled")

    assert finished(job).state == "cancelled"
    assert client.get("/datasets").get_json() == {"datasets": []}


@pytest.mark.parametrize(("max_jobs", "files"), [(1, 1024), (1000, 7)])
def test_jobs_above_the_limit_are_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, max_jobs: int, files: int
) -> None:
    monkeypatch.setattr("service.runtime.files_at_a_time", lambda: files)
    client = make(at_once=0, max_jobs=max_jobs)
    jobs = client.application.extensions["softdict"].jobs
    gate, _ = started(jobs)
    for name in ("old", "older"):  # nobody asked for these: they take no place
        jobs.submit(name, lambda tell: REPORT, lambda: None, kind="reencode")
    assert client.post("/datasets?name=a", data=CSV, content_type="text/csv").status_code == 202
    reply = client.post("/datasets?name=b", data=CSV, content_type="text/csv")
    gate.opened.set()

    assert (reply.status_code, reply.get_json()["type"]) == (503, "/problems/too-many-jobs")
    assert reply.get_json()["detail"].startswith("at most 1 load may wait")
    assert int(reply.headers["Retry-After"]) > 0


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_job_that_is_not_there_is_a_problem(client: CheckedClient, method: str) -> None:
    reply = client.open("/jobs/none", method=method)

    assert (reply.status_code, reply.get_json()["type"]) == (404, "/problems/unknown-job")


def test_the_last_jobs_are_remembered_though_the_clock_is_set_back(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 2_000_000_000.0
    monkeypatch.setattr("service.work.time.time", lambda: clock)
    done = []
    for number in range(5):
        clock -= 3_600 * number
        done.append(finished(jobs.submit("d", lambda _: REPORT, lambda: None)))

    assert jobs.remembered() == done[:-4:-1]
    with pytest.raises(UnknownJob):
        jobs.get(done[1].id)

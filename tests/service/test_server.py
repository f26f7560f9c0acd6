"""The service as it runs: a process, a socket, signals, a first start, and no word to outside."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from operator import itemgetter
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask

from index import Catalog, SoftDict
from service.server import _Channel, _listening
from service.settings import Settings
from tests.programs import program
from tests.service.running import PATIENCE, ROOT, Reply, Service, environment, wait_for_vectors

KEYS = {
    "a slash": "a/b",
    "a leading slash": "/a",
    "two leading slashes": "//a",
    "only slashes": "///",
    "a trailing slash": "a/",
    "dots": "..",
    "dots and slashes": "../../etc/passwd",
    "one dot": "./.",
    "a per cent sign": "100%",
    "an encoded slash, twice": "a%2Fb",
    "a plus and a space": "a+b c",
    "a question mark and a hash": "¿qué? #1",
    "emoji": "👩‍👩‍👧‍👦 🇪🇸",
    "a line end": "a\nb\tc",
    "a zero byte": "a\0b",
    "combining marks": "n\u0303 and \u00f1",
    "right to left": "שלום",
    "ten thousand characters": "x" * 10_000,
    "ten thousand emoji": "🦜" * 10_000,
}


def raw(service: Service, request: bytes) -> Reply:
    """Send bytes as they are, and read until the service closes."""
    with socket.create_connection(service.address, timeout=PATIENCE) as connection:
        connection.sendall(request)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(status.split()[1]), headers, body)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_any_key_is_put_got_found_and_deleted(service: Service, key: str) -> None:
    path = "/datasets/paises/entries/" + quote(key, safe="")
    put = service.put(path, 42)
    got = service.get(path)
    found = service.get("/search?mode=exact&q=" + quote(key, safe="")) if len(key) < 4000 else None
    deleted = service.ask("DELETE", path)

    held = unicodedata.normalize("NFC", key)
    assert (put.status, put.json["key"]) == (201, held), put.text
    assert (got.status, got.json["key"], got.json["values"]) == (200, held, {"value": 42})
    assert found is None or [match["key"] for match in found.json["matches"]] == [held]
    assert (deleted.status, service.get(path).status) == (204, 404)


@pytest.mark.parametrize("key", ["a/b", "//a", "a/../b", "a//b/"])
def test_slashes_may_stand_as_they_are(service: Service, key: str) -> None:
    path = "/datasets/paises/entries/" + key
    put = service.put(path, 42)
    got = service.get("/datasets/paises/entries/" + quote(key, safe=""))
    deleted = service.ask("DELETE", path)

    assert (put.json["key"], got.status, deleted.status) == (key, 200, 204)


def test_a_key_too_long_is_a_problem_and_not_a_broken_line(service: Service) -> None:
    longer = service.put("/datasets/paises/entries/" + "x" * 10_001, 1)
    enormous = service.put("/datasets/paises/entries/" + "x" * 300_000, 1)

    assert (longer.status, longer.json["errors"][0]["where"]) == (422, "key")
    assert (enormous.status, enormous.json["title"]) == (431, "Request Header Fields Too Large")
    assert enormous.headers["Content-Type"] == "application/problem+json"


def test_who_still_sends_what_is_refused_reads_why(service: Service) -> None:
    """A connection with something unread is reset when it is closed, and what it said is lost."""
    with socket.create_connection(service.address, timeout=PATIENCE) as connection:
        connection.sendall(b"GET /search?q=" + b"x" * 300_000)
        time.sleep(0.5)  # it is refused by now
        for _ in range(5):
            connection.sendall(b"x" * 100_000)
            time.sleep(0.05)
        received = b"".join(iter(lambda: connection.recv(65536), b""))

    assert received.split()[1] == b"431"
    assert received.endswith(b"}")


def test_who_never_stops_sending_is_cut_off(service: Service) -> None:
    with (
        socket.create_connection(service.address, timeout=PATIENCE) as connection,
        pytest.raises(ConnectionError),
    ):
        connection.sendall(b"GET /search?q=" + b"x" * 300_000)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            connection.sendall(b"x")
            time.sleep(0.1)


def test_curl_s_bare_utf8_is_understood(service: Service) -> None:
    request = "GET /search?q=paísÑ€🦜 HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"

    assert raw(service, request.encode()).json["query"] == "paísÑ€🦜"


@pytest.mark.parametrize("line", [b"GET /search?q=pa%EDs", b"GET /search?q=pa\xeds", b"GET /%ff"])
def test_an_address_that_is_not_utf8_is_malformed(service: Service, line: bytes) -> None:
    reply = raw(service, line + b" HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")

    assert (reply.status, reply.json["type"]) == (400, "/problems/malformed-request")


@pytest.mark.parametrize(
    "request_", [b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_http_is_a_problem(service: Service, request_: bytes) -> None:
    reply = raw(service, request_)

    assert (reply.status, reply.headers["Content-Type"]) == (400, "application/problem+json")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET a://" + b"1" * 20_000 + b" x\r\n\r\n", 400),
        (b"GET a://" + b"a" * 20_000 + b" x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX:" + b" \t" * 50_000 + b"x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX:\r\n" + b"\t\r\n" * 50_000 + b"\ta\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 12_000 + b"\r\n", 431),
    ],
    ids=["digits", "letters", "blanks", "folded lines", "many headers"],
)
def test_what_waitress_would_take_minutes_to_refuse_is_refused_before(
    service: Service, request_: bytes, status: int
) -> None:
    """The others, whom one thread reads and writes for, would wait as long: a minute here."""
    reply = raw(service, request_)

    assert (reply.status, reply.headers["Content-Type"]) == (status, "application/problem+json")
    said = {400: "HTTP/1.1", 431: "the headers are larger than 65,536 bytes"}
    assert said[status] in reply.json["detail"]


@pytest.mark.parametrize("rest", [b"8;" + b"a" * 40_000, b"0\r\n" + b"a: b\r\n" * 5_000])
def test_the_size_of_a_chunk_and_a_trailer_end(service: Service, rest: bytes) -> None:
    head = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    reply = raw(service, head + rest)

    assert (reply.status, reply.headers["Connection"]) == (400, "close")
    assert "does not end" in reply.json["detail"]


@pytest.mark.parametrize("name", ["If-Modified-Since", "If-Unmodified-Since", "If-Range"])
@pytest.mark.parametrize(
    "date", ["Mon, 01 Jan 99999999999 00:00:00 GMT", "1 Jan 2020 00:00:00 +99999999999999999"]
)
def test_a_date_that_no_calendar_has_is_no_condition(
    service: Service, name: str, date: str
) -> None:
    headers = {name: date, **({"Range": "bytes=0-9"} if name == "If-Range" else {})}
    reply = service.ask("GET", "/page/page.js", headers=headers)

    assert (reply.status, reply.body) == (200, service.get("/page/page.js").body)
    assert "Traceback" not in service.log


@pytest.mark.parametrize(
    "head",
    [
        b"POST /search HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4",
        b"POST /search HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked",
    ],
    ids=["chunks and a length", "chunks over HTTP/1.0"],
)
def test_a_body_whose_end_a_proxy_may_see_elsewhere_ends_the_connection(
    service: Service, head: bytes
) -> None:
    another = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    reply = raw(service, head + b"\r\nHost: 127.0.0.1\r\n\r\n0\r\n\r\n" + another)

    assert (reply.status, reply.json["title"]) == (400, "Bad Request")


@pytest.mark.parametrize("asked", [b"", b"Expect: 100-continue\r\n"], ids=["", "as curl asks"])
def test_a_body_above_the_limit_is_refused_before_it_is_sent(
    service: Service, asked: bytes
) -> None:
    request = b"POST /datasets?name=p HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\n"
    reply = raw(service, request + asked + b"Content-Length: 99999999999\r\n\r\n")

    assert (reply.status, reply.headers["Content-Type"]) == (413, "application/problem+json")
    said = "268,435,456 bytes, the greater of the settings max_upload and max_json"
    assert said in reply.json["detail"]
    assert reply.json["type"] == "/problems/too-large", "as of one that is just above the limit"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example", 400),
        (b"HTTP/1.0\r\nHost: 127.0.0.1\r\nhost: 127.0.0.1", 400),
        (b"HTTP/1.1\r\nConnection: close", 400),
        (b"HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close", 200),
        (b"HTTP/1.0\r\nAccept: */*", 200),
    ],
)
def test_there_is_one_host_header(service: Service, head: bytes, status: int) -> None:
    # "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message
    # that lacks a Host header field and to any request message that contains more than one"
    # (RFC 9112 §3.2).
    assert raw(service, b"GET /healthz " + head + b"\r\n\r\n").status == status


def test_a_chunked_upload_is_loaded(service: Service) -> None:
    parts = [b"key,value\n", b"uno,1\n", b"dos,2\n"]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])
    head = (
        b"POST /datasets?name=chunked HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        b"Content-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    assert raw(service, head + chunks).status == 201
    assert service.get("/datasets/chunked/entries/dos").json["values"] == {"value": 2}


def test_an_upload_that_the_disk_has_no_room_for_is_said_to_be_that(tmp_path: Path) -> None:
    table = b"key,v\n" + b"the same key,1\n" * 100_000
    packed = gzip.compress(table)  # far below the limit, and what it unpacks to far above
    limited = ["bash", "-c", 'ulimit -f 1000; exec "$@"', "-"]  # KiB
    env = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0"}
    with Service(tmp_path, watch=limited, **env) as service:
        post = ("POST", "/datasets?name=d")
        replies = [
            service.ask(*post, body, {"Content-Type": "text/csv"}) for body in (packed, table)
        ]
        health = service.get("/healthz")

    assert len(packed) < 100_000 < 1_024_000 < len(table)
    for reply in replies:
        assert (reply.status, reply.json["type"]) == (507, "/problems/disk-full"), reply.text
        where = f"the disk that holds {tempfile.gettempdir()} refused a write"
        assert where in reply.json["detail"]
    assert (health.status, "Traceback" in service.log) == (200, False), service.log


def test_a_head_is_a_get_without_its_body(service: Service) -> None:
    head = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    replies = [raw(service, b"HEAD /datasets" + path + head) for path in (b"", b"/paises/export")]

    assert [(reply.status, reply.body) for reply in replies] == [(200, b"")] * 2
    assert int(replies[0].headers["Content-Length"]) > 100


def reader(service: Service, stack: ExitStack, request: bytes) -> socket.socket:
    """Ask, with room for little of the answer until it is read."""
    connection = stack.enter_context(socket.create_connection(service.address, PATIENCE))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
    connection.sendall(request)
    return connection


def test_readers_who_stop_reading_hold_up_nobody(tmp_path: Path) -> None:
    lines = [f"key {number},{number}{'x' * 10_000}" for number in range(3_100)]
    table = "\r\n".join(["key,text", *lines, ""]).encode()  # more than sockets hold
    export = b"GET /datasets/fat/export HTTP/1.0\r\nHost: localhost\r\n\r\n"
    env = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0", "SOFTDICT_THREADS": "2"}
    with Service(tmp_path, **env) as service, ExitStack() as stack:
        post = ("POST", "/datasets?name=fat&wait=1", table, {"Content-Type": "text/csv"})
        assert service.ask(*post).status == 201
        readers = []
        for _ in range(3):
            readers.append(reader(service, stack, export))
            if len(readers) < 3:
                assert readers[-1].recv(1) == b"H"  # a thread is at it
        health = service.get("/healthz")
        received = b"".join(iter(lambda: readers[-1].recv(2**20), b""))

    assert health.status == 200
    assert received.partition(b"\r\n\r\n")[2] == table


def test_who_asks_on_without_reading_gets_no_more_than_an_answer_or_two(tmp_path: Path) -> None:
    """Each of a megabyte or more may take a file, and room on the disk, until it is read."""
    one = b"GET /datasets/fat/entries/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        Service(tmp_path, SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as service,
        ExitStack() as stack,
    ):
        entries = {"a": "x" * 5_000_000}
        assert (
            service.post("/datasets", {"name": "fat", "wait": True, "entries": entries}).status
            == 201
        )
        slow = reader(service, stack, one * 60)
        time.sleep(2)  # in which it reads nothing
        received = b"".join(iter(lambda: slow.recv(2**20), b""))

    assert 1 <= received.count(b"HTTP/1.1 200 OK") <= 3
    assert received.count(b"Connection: close") == 1
    assert received.endswith(b"}"), "and the last is whole"


def test_an_answer_that_there_is_no_room_for_breaks_the_connection(tmp_path: Path) -> None:
    """What is not read yet is in a file: behind a hole in it, the rest would look whole."""
    table = b"".join(b'{"key": "%d", "v": "%s"}\n' % (n, b"x" * 10_000) for n in range(3_100))
    export = b"GET /datasets/fat/export?format=jsonl HTTP/1.0\r\nHost: localhost\r\n\r\n"
    kind = {"Content-Type": "application/x-ndjson"}
    with (
        Service(tmp_path, SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as service,
        ExitStack() as stack,
    ):
        assert service.ask("POST", "/datasets?name=fat&wait=1", table, kind).status == 201
        _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (2**21, hard))
        slow = reader(service, stack, export)
        with pytest.raises(ConnectionResetError):
            while slow.recv(2**16):
                time.sleep(0.01)
        health = service.get("/healthz")

    assert health.status == 200
    assert "an answer is cut off: no room in" in service.log
    assert "Traceback" not in service.log, service.log


# A second service asks for the port of a first one.
TWO_ON_A_PORT = """
import socket
socket.SO_EXCLUSIVEADDRUSE = -5
socket.SO_REUSEADDR = socket.SO_REUSEPORT  # which gives two one port, as SO_REUSEADDR on Windows
from service.errors import CannotListen
from service.server import _listening
from service.settings import Settings

def listening(port):
    return _listening(lambda *_: [], Settings(port=port), {})

first = listening(0)
try:
    listening(int(first.effective_port))
except CannotListen:
    print("taken")
"""


def test_two_services_never_have_one_port() -> None:
    said = subprocess.check_output([sys.executable, "-c", TWO_ON_A_PORT], cwd=ROOT, text=True)

    assert said.split() == ["taken"]


def test_a_connection_that_takes_no_option_any_more_is_broken_off_as_others_are() -> None:
    class Ended:
        def setsockopt(self, *_: object) -> None:  # as macOS says of one that the client has ended
            raise OSError(errno.EINVAL, "Invalid argument")

    channel = object.__new__(_Channel)
    channel.socket = Ended()
    channel.lose_the_rest()

    assert channel._broken


def test_a_stop_sends_what_is_answered_or_breaks_the_connection(tmp_path: Path) -> None:
    """To HTTP/1.0, an export that merely ended would look whole."""
    table = b"".join(b'{"key": "%d", "v": "%s"}\n' % (n, b"x" * 10_000) for n in range(3_100))
    export = b"GET /datasets/fat/export?format=jsonl HTTP/1.0\r\nHost: localhost\r\n\r\n"
    with (
        Service(tmp_path, SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as service,
        ExitStack() as stack,
    ):
        post = (
            "POST",
            "/datasets?name=fat&wait=1",
            table,
            {"Content-Type": "application/x-ndjson"},
        )
        assert service.ask(*post).status == 201
        readers = [reader(service, stack, export) for _ in range(2)]
        assert [each.recv(1) for each in readers] == [b"H", b"H"]
        service.process.send_signal(signal.SIGTERM)
        received = b"".join(iter(lambda: readers[0].recv(2**20), b""))
        assert service.process.wait(PATIENCE) == 0
        with pytest.raises(ConnectionResetError):
            while readers[1].recv(2**20):
                pass

    assert received.partition(b"\r\n\r\n")[2] == table


def test_more_connections_than_files_may_be_open_wait_and_fill_no_log(tmp_path: Path) -> None:
    few = ["bash", "-c", 'ulimit -n 64; exec "$@"', "-"]
    with Service(tmp_path, watch=few, SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as service:
        with ExitStack() as stack:
            first = stack.enter_context(closing(HTTPConnection(*service.address, PATIENCE)))
            first.connect()
            for _ in range(90):
                stack.enter_context(socket.create_connection(service.address, PATIENCE))
            for _ in range(20):
                first.request("GET", "/healthz")
                assert first.getresponse().read().startswith(b'{"status":"ok"')
        assert service.put("/datasets/d/entries/a", 1).status == 404  # it has room again

    # As each one goes, another may come in: a line for each at most, not one for each look.
    assert len(service.log.splitlines()) < 100, service.log[-2000:]


def test_connections_are_watched_whatever_their_number_is(tmp_path: Path) -> None:
    """Of files that are open, select() watches none beyond 1023; a thousand requests have more."""
    taken = 'ulimit -Sn 2048; for n in {3..1030}; do eval "exec $n<&2"; done; exec "$@"'
    many = ["bash", "-c", taken, "-"]
    with Service(tmp_path, watch=many, SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as service:
        assert service.get("/healthz").status == 200


def test_many_ask_and_write_at_once(service: Service) -> None:
    replies: list[Reply] = []

    def work(number: int) -> None:
        replies.append(service.put(f"/datasets/paises/entries/at%20once%20{number}", number))
        replies.append(service.get("/search?q=perro&k=1"))
        replies.append(service.ask("DELETE", f"/datasets/paises/entries/at%20once%20{number}"))

    threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert sorted(reply.status for reply in replies) == [200] * 16 + [201] * 16 + [204] * 16


def test_requests_that_wait_their_turn_are_no_lines_in_the_log(tmp_path: Path) -> None:
    env = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0", "SOFTDICT_THREADS": "1"}
    with Service(tmp_path, **env) as service:
        service.post("/datasets", {"name": "d", "entries": {"a": 1}})
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(service.get, ["/search?q=a"] * 200))

    assert {reply.status for reply in replies} == {200}
    assert len(service.log.splitlines()) < 10, service.log


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    env = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0"}
    with Service(tmp_path / "store", **env) as service:
        service.post("/datasets", {"name": "d", "entries": {"a": 1}})
        assert service.put("/datasets/d/entries/b", 2).status == 201
        assert service.ask("DELETE", "/datasets/d/entries/a").status == 204
        service.stop(signal.SIGKILL)
    with Service(tmp_path / "store", **env) as service:
        page = service.get("/datasets/d/entries").json

    assert [(entry["key"], entry["values"]["value"]) for entry in page["entries"]] == [("b", 2)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_while_a_load_runs(
    tmp_path: Path, number: signal.Signals
) -> None:
    env = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0"}
    csv = b"key,v\n" + b"".join(b"row %d,%d\n" % (i, i) for i in range(50_000))
    with Service(tmp_path / "store", **env) as service:
        started = service.ask("POST", "/datasets?name=d", csv, {"Content-Type": "text/csv"})
        assert started.status == 202
        assert service.stop(number) == 0, service.log
        assert "Traceback" not in service.log
    with Service(tmp_path / "store", **env) as service:
        assert service.get("/datasets").json == {"datasets": []}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_is_repeated_does_not_disturb_the_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Service(tmp_path, SOFTDICT_ENCODER="random", SOFTDICT_BUNDLED="0") as service:
        service.until("/readyz")
        service.process.send_signal(number)
        while "stopping" not in service.log and service.process.poll() is None:
            time.sleep(0.001)
        while service.process.poll() is None:  # as timeout(1), and people, do
            service.process.send_signal(number)
            time.sleep(0.001)

        assert service.stop(number) == 0, service.log
        assert "Traceback" not in service.log, service.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_while_a_load_is_answered_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    csv = b"key,v\n" + b"".join(b"the %dth of many keys,%d\n" % (i, i) for i in range(60_000))
    head = b"POST /datasets?name=d&wait=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
    with Service(tmp_path / "store", SOFTDICT_BUNDLED="0") as service:
        with socket.create_connection(service.address, timeout=PATIENCE) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(csv) + csv)
            wait_for_vectors(tmp_path / "store")
            assert service.stop(number) == 0, service.log
        assert "Traceback" not in service.log
    with Service(tmp_path / "store", SOFTDICT_BUNDLED="0") as service:
        assert service.get("/datasets").json == {"datasets": []}


def test_the_first_start_creates_what_is_bundled_and_a_deleted_one_stays_so(
    tmp_path: Path,
) -> None:
    with Service(tmp_path / "store") as service:
        assert service.get("/healthz").status == 200
        service.until("/readyz")
        names = [each["name"] for each in service.get("/datasets").json["datasets"]]
        answer = service.get("/search?q=" + quote("país")).json
        assert service.ask("DELETE", "/datasets/colores").status == 204
        service.stop(signal.SIGTERM)
    with Service(tmp_path / "store") as service:
        service.until("/readyz")
        later = [each["name"] for each in service.get("/datasets").json["datasets"]]

    assert names == ["paises", "traduccion", "colores"]
    assert [match["key"] for match in answer["matches"]][-1] == "perro"
    assert 7.7 <= answer["blend"]["valor"]["mean"] <= 8.7
    assert later == ["paises", "traduccion"]


def test_a_start_creates_what_is_bundled_where_a_first_load_failed(tmp_path: Path) -> None:
    home = tmp_path / "store"
    (tmp_path / "bad.csv").write_text("key,value\na\n")
    command = [sys.executable, "-m", "service", "load", str(tmp_path / "bad.csv"), "--name", "bad"]
    set_up = environment(SOFTDICT_HOME=str(home), SOFTDICT_ENCODER="random")
    ended = subprocess.run(command, cwd=ROOT, env=set_up, capture_output=True, timeout=PATIENCE)
    assert ended.returncode == 1 and home.exists(), ended.stderr
    with Service(home, SOFTDICT_ENCODER="random") as service:
        service.until("/readyz")
        names = [each["name"] for each in service.get("/datasets").json["datasets"]]
        for name in names:
            assert service.ask("DELETE", f"/datasets/{name}").status == 204
    with Service(home, SOFTDICT_ENCODER="random") as service:
        service.until("/readyz")
        later = service.get("/datasets").json

    assert names == ["paises", "traduccion", "colores"]
    assert later == {"datasets": []}, "who deleted all of them wants none"


def test_a_start_encodes_anew_what_other_weights_of_the_built_in_encoder_wrote(
    tmp_path: Path,
) -> None:
    entries = {"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}
    expected = SoftDict(entries, temperature=0.1).search("país", k=4)
    with Catalog.open(tmp_path) as catalog:
        encoders = {"other": "random", "large": "random", "old": "random", "new": "builtin"}
        for name, encoder in encoders.items():
            catalog.create(name, encoder=encoder, temperature=0.1).update(entries)
        catalog["large"]["more"] = 1
        for name in ("large", "old"):  # their vectors are of another encoder than they go by
            outdated = catalog[name]
            outdated._moments.store.set_encoder(outdated.id, "builtin", "builtin:000000000000", 384)
        other = catalog["other"]
        other._moments.store.set_encoder(other.id, "random:1", "random:0", 384)
    with Service(tmp_path, SOFTDICT_BUNDLED="0") as service:
        service.until("/readyz")
        deadline = time.monotonic() + PATIENCE
        while [job["state"] for job in service.get("/jobs").json["jobs"]] != ["done"] * 2:
            assert time.monotonic() < deadline, service.get("/jobs").text
        jobs = service.get("/jobs").json["jobs"]
        answer = service.get("/search?dataset=old&k=4&q=" + quote("país")).json
        refused = service.get("/search?dataset=other&q=a")
    with Service(tmp_path, SOFTDICT_BUNDLED="0") as service:
        service.until("/readyz")
        later = service.get("/jobs").json["jobs"]
        again = service.get("/search?dataset=old&k=4&q=" + quote("país")).json

    jobs.sort(key=itemgetter("started"))
    assert [(job["kind"], job["dataset"], job["result"]) for job in jobs] == [
        ("reencode", "old", None),  # the smallest first
        ("reencode", "large", None),
    ]
    assert answer["blend"]["value"]["mean"] == pytest.approx(expected.value, abs=0.02)
    assert [match["key"] for match in answer["matches"]] == [m.key for m in expected.matches]
    assert (again["matches"], later) == (answer["matches"], [])
    # The owner chose that encoder, and may bring back the model that it was.
    assert (refused.status, refused.json["type"].rpartition("/")[2]) == (409, "encoder-mismatch")


def test_a_service_none_of_whose_datasets_can_answer_says_why_it_is_not_ready(
    tmp_path: Path,
) -> None:
    with Catalog.open(tmp_path) as catalog:
        for name in ("one", "two"):
            dataset = catalog.create(name, encoder="random", temperature=0.1)
            dataset["a"] = 1
            dataset._moments.store.set_encoder(dataset.id, "random:1", "random:0", 384)
    with Service(tmp_path, SOFTDICT_BUNDLED="0") as service:
        unready = service.until("/readyz", 503, saying="no dataset can answer")
        for name in ("one", "two"):
            assert service.ask("DELETE", f"/datasets/{name}").status == 204
        ready = service.get("/readyz")

    assert (unready.status, unready.json["title"]) == (503, "The service is not ready")
    assert "dataset 'one' was written by encoder random:0" in unready.json["detail"]
    assert ready.status == 200


def test_no_route_of_the_default_service_speaks_to_another_machine(tmp_path: Path) -> None:
    """The kernel's own list of addresses: native libraries report home past Python's hooks."""
    calls = tmp_path / "calls"
    strace = program("strace")
    watch = [strace, "-D", "-f", "-qq", "-e", "trace=%network", "-o", str(calls)]
    # Libraries that report to their makers keep still where CI is set: here it is not.
    user = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "user")}
    with Service(tmp_path / "store", watch=watch, only=user) as service:
        service.until("/readyz")
        ask_every_route(service)

    spoken = calls.read_text()
    addresses = set(re.findall(r'inet_(?:addr|pton)\((?:AF_INET6, )?"([^"]+)"', spoken))
    assert addresses == {"127.0.0.1"}
    assert not (tmp_path / "user").exists()  # nor is anything left in the home folder


def ask_every_route(service: Service) -> None:
    """Ask each route of the description, and the pages, and see that the list is whole."""
    value, csv = quote("méxico"), b"key,value\na,1\n"
    asked = {
        ("get", "/search"): service.get("/search?q=animal&explain=1"),
        ("post", "/search"): service.post("/search", {"q": "país", "where": "valor > 5"}),
        ("get", "/compare"): service.get("/compare?q=animal"),
        ("post", "/compare"): service.post("/compare", {"q": "país", "weights": {"perro": 1}}),
        ("get", "/datasets"): service.get("/datasets"),
        ("post", "/datasets"): service.ask(
            "POST", "/datasets?name=own&wait=0", csv, {"Content-Type": "text/csv"}
        ),
        ("get", "/datasets/{name}"): service.get("/datasets/colores"),
        ("patch", "/datasets/{name}"): service.ask(
            "PATCH",
            "/datasets/traduccion",
            json.dumps({"temperature": 0.2}).encode(),
            {"Content-Type": "application/json"},
        ),
        ("get", "/datasets/{name}/export"): service.get("/datasets/colores/export?format=parquet"),
        ("get", "/datasets/{name}/entries"): service.get("/datasets/colores/entries"),
        ("get", "/datasets/{name}/entries/{key}"): service.get(f"/datasets/paises/entries/{value}"),
        ("put", "/datasets/{name}/entries/{key}"): service.put(
            "/datasets/traduccion/entries/X", "Y"
        ),
        ("delete", "/datasets/{name}/entries/{key}"): service.ask(
            "DELETE", "/datasets/traduccion/entries/X"
        ),
        ("get", "/jobs"): service.get("/jobs"),
        ("get", "/healthz"): service.get("/healthz"),
        ("get", "/readyz"): service.get("/readyz"),
        ("get", "/problems"): service.get("/problems"),
        ("get", "/problems/{slug}"): service.get("/problems/not-ready"),
    }
    job = asked["get", "/jobs"].json["jobs"][0]["id"]
    asked["get", "/jobs/{id}"] = service.get(f"/jobs/{job}")
    asked["delete", "/jobs/{id}"] = service.ask("DELETE", f"/jobs/{job}")
    deadline = time.monotonic() + PATIENCE
    while service.get(f"/jobs/{job}").json["finished"] is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    asked["delete", "/datasets/{name}"] = service.ask("DELETE", "/datasets/own")
    pages = [service.get(path) for path in ("/", "/docs", "/openapi.json", "/page/page.js")]

    described = service.get("/openapi.json").json["paths"]
    assert set(asked) == {(method, path) for path, item in described.items() for method in item}
    failed = {each: reply.text for each, reply in asked.items() if reply.status >= 500}
    assert failed == {}
    assert [page.status for page in pages] == [200] * 4


def test_as_many_threads_answer_as_the_setting_says() -> None:
    server = _listening(Flask(__name__), Settings(port=0, threads=3), {})
    try:
        assert len(server.task_dispatcher.threads) == 3
    finally:
        server.task_dispatcher.shutdown()
        server.close()


def test_the_longest_question_that_a_setting_allows_fits_into_an_address(tmp_path: Path) -> None:
    env = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0", "SOFTDICT_MAX_QUERY": "100000"}
    question = "🦜" * 100_000
    with Service(tmp_path, **env) as service:
        service.post("/datasets", {"name": "d", "entries": {"a": 1}})
        answer = service.get("/search?q=" + quote(question))

    assert answer.json["query"] == question


def test_an_idle_connection_is_closed_when_its_time_is_up(tmp_path: Path) -> None:
    limits = {"SOFTDICT_BUNDLED": "0", "SOFTDICT_ENCODER": "random", "SOFTDICT_IDLE_TIMEOUT": "1"}
    patience = 20  # seconds, fewer than the 30 after which waitress would look by itself
    with (
        Service(tmp_path / "store", **limits) as service,
        socket.create_connection(service.address, patience) as idle,
    ):
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b"".join(iter(lambda: idle.recv(2**16), b""))  # until the service closes it

    assert received.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("level", ["info", "error"])
def test_the_level_of_the_log_is_that_of_the_setting(tmp_path: Path, level: str) -> None:
    set_up = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0", "SOFTDICT_LOG_LEVEL": level}
    with Service(tmp_path, **set_up) as service:
        service.until("/readyz")

    assert (" INFO " in service.log) == (level == "info")


def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET6) as free:
        try:
            free.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6, as in many containers")
    set_up = {"SOFTDICT_ENCODER": "random", "SOFTDICT_BUNDLED": "0", "SOFTDICT_HOST": "::1"}
    with Service(tmp_path, **set_up) as service:
        assert service.origin.startswith("http://[::1]:")
        assert service.get("/healthz").status == 200


def test_what_was_bundled_and_is_deleted_is_not_found(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        service.until("/readyz")
        assert service.ask("DELETE", "/datasets/colores").status == 204
        assert service.get("/datasets/colores").status == 404


def test_what_is_encoded_anew_anyway_is_not_asked_at_the_start(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        old = catalog.create("old", encoder="random", temperature=0.1)
        old["a"] = 1
        old._moments.store.set_encoder(old.id, "builtin", "builtin:000000000000", 384)
    with Service(tmp_path, SOFTDICT_BUNDLED="0") as service:
        service.until("/readyz")

    assert "cannot answer" not in service.log

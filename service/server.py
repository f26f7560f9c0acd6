"""The server: waitress, one process, many threads. It never forks.

Waitress takes a request in whole, in a temporary file beyond half a megabyte, before a thread
sees it, and an answer from the thread in whole, in one beyond a megabyte, however slowly it is
read. What waitress refuses itself (too large, not HTTP) is said as a problem too.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from flask import Flask
from waitress import wasyncore
from waitress.buffers import OverflowableBuffer
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import BadRequest, Error, RequestHeaderFieldsTooLarge

from index.errors import NO_ROOM, DiskFull
from index.platform import few_arenas, files_at_a_time

from . import __version__
from .app import FORM_OVERHEAD, create_app
from .errors import CannotListen, TooLarge
from .problems import MEDIA_TYPE, ProblemOut, describe, plain_problem
from .refusals import LARGEST
from .requests import as_json
from .runtime import Runtime
from .settings import Settings

SENDING = 5.0  # seconds in which what was answered is sent on after a stop
LINGERING = 10.0  # seconds in which a client may end what it sends, once it has its last answer
UNREAD = 2**20  # bytes of answers, and no other is made on a connection whose client sends ahead
MOST_HEADERS = 2**16  # bytes
MOST_CONTROL = 2**14  # bytes of a chunk's size and what is said with it, and of a trailer
BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^ ]+( HTTP/[0-9]\.[0-9])?")
BLANKS = re.compile(rb"[ \t]{100}|\n[ \t]")

log = logging.getLogger(__name__)

if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows: SO_REUSEADDR there gives one port to two
    BaseWSGIServer.set_reuse_addr = lambda self: None  # type: ignore[method-assign]


class _Task(WSGITask):
    def build_response_header(self) -> bytes:
        """End the connection with this answer if others wait to be read, and the client asks on.

        Each of them may take a file of its own.
        """
        channel = self.channel
        if len(channel.requests) > 1 and channel.total_outbufs_len > UNREAD:
            self.set_close_on_finish()
        header: bytes = super().build_response_header()
        command = self.request.command  # type: ignore[attr-defined]
        if command == "HEAD":  # no body, and so no last chunk of one
            self.chunked_response = False
        return header


class _ProblemTask(ErrorTask):
    """Says waitress's own refusals as RFC 9457 problems."""

    def execute(self) -> None:
        error = self.request.error  # type: ignore[attr-defined]
        status = HTTPStatus(error.code)
        body = as_json(_said(status, error.body, self.channel.server.adj))
        self.status = f"{status} {status.phrase}"
        self.response_headers = [("Content-Type", MEDIA_TYPE), ("Connection", "close")]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _NoRoom(Error):
    code = HTTPStatus.INSUFFICIENT_STORAGE.value
    reason = HTTPStatus.INSUFFICIENT_STORAGE.phrase


class _Parser(HTTPRequestParser):
    """Takes addresses as people type them: ``curl '…/search?q=país'`` sends the bare bytes.

    Of a body whose end a proxy in front may see elsewhere, the rest would be taken for a request of
    its own: the server "MUST close the connection after responding" (RFC 9112 §6.1).
    """

    def received(self, data: bytes) -> int:
        """Ask for no body of a request that is refused by its head: curl would send all of it.

        A large body is received into a file, for which there may be no room.
        """
        try:
            consumed: int = super().received(data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            with suppress(OSError):  # it would write what it still holds
                self.close()
            self.body_rcv, self.completed, consumed = None, True, len(data)
            self.error = _NoRoom(str(error))
        body = self.body_rcv
        if (
            isinstance(body, ChunkedReceiver)
            and not self.completed
            and len(body.control_line) + len(body.trailer) > MOST_CONTROL
        ):
            self.error = BadRequest("the size of a chunk, or the trailer, does not end")
            self.completed = True
        if self.error is not None:
            self.expect_continue = False
        return consumed

    def parse_header(self, header_plus: bytes) -> None:
        line, end, headers = header_plus.partition(b"\r\n")
        # Waitress's own patterns can take minutes to find out, and all others wait meanwhile.
        if not REQUEST_LINE.fullmatch(line) or BLANKS.search(headers):
            raise ParsingError("this is no request of HTTP/1.1")
        if len(headers) > MOST_HEADERS:
            self.error = RequestHeaderFieldsTooLarge("")
            return
        try:
            super().parse_header(BEYOND_ASCII.sub(_percent, line) + end + headers)
        except ValueError as error:  # of an address such as http://[
            raise ParsingError(str(error)) from None
        host = self.headers.get("HOST", None if self.version == "1.1" else "")
        if host is None or ", " in host:  # of two, waitress makes one (RFC 9112 §3.2)
            raise ParsingError("HTTP/1.1 wants a Host header, and one alone")
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding exclude each other")
        if "TRANSFER_ENCODING" in self.headers:  # waitress takes it from HTTP/1.1 alone
            raise ParsingError("Transfer-Encoding is of HTTP/1.1")


def _percent(byte: re.Match[bytes]) -> bytes:
    return b"%%%02X" % ord(byte[0])


class _Channel(HTTPChannel):
    """Ends a connection once the client has sent all, or had time to (RFC 9112 §9.6).

    What comes to a socket that is closed is answered by a reset, which takes along what the client
    has not read: why its request is refused, say, while it still sends that.
    """

    task_class = _Task
    error_task_class = _ProblemTask
    parser_class = _Parser
    _until: float | None = None  # what comes is read, and dropped, since all was said
    _broken = False  # some of an answer is lost

    def writable(self) -> bool:
        if self._until is not None:  # writing what is left, nothing, closes the connection
            return time.monotonic() > self._until
        return bool(super().writable())

    def readable(self) -> bool:
        return self._until is not None or bool(super().readable())

    def write_soon(self, data: Any) -> int:
        """Hold what is not sent yet; where there is no room for it, break the connection.

        Waitress would go on behind what is missing.
        """
        with self.outbuf_lock:  # which others send by: what was half written is never sent
            try:
                written: int = super().write_soon(data)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._break_off()
                said = error
            else:
                return written
        log.error("an answer is cut off: no room in %s (%s)", tempfile.gettempdir(), said)
        raise ClientDisconnected

    def lose_the_rest(self) -> None:
        """Let the client see that its answer is not whole, which to HTTP/1.0 an end would be."""
        self._broken = True
        if self.socket is not None:
            linger = struct.pack("ii", 1, 0)
            with suppress(OSError):  # macOS takes no option for one that the client has ended
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _break_off(self) -> None:
        self.lose_the_rest()
        for each in self.outbufs:
            with suppress(OSError):  # it would write what it still holds
                each.close()
        self.outbufs, self.total_outbufs_len = [OverflowableBuffer(0)], 0

    def handle_close(self) -> None:
        all_said = self.will_close and not self.total_outbufs_len and not self._broken
        if all_said and self._until is None and self.socket is not None:
            with suppress(OSError):  # the client is gone
                self.socket.shutdown(socket.SHUT_WR)
                self._until = time.monotonic() + LINGERING
                return
        super().handle_close()


def _said(code: HTTPStatus, said: str, limits: Any) -> ProblemOut:
    if code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return describe(TooLarge(limits.max_request_body_size - FORM_OVERHEAD - 1, LARGEST))
    if code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        whole = f"the address and headers are larger than {limits.max_request_header_size:,} bytes"
        said = f"{whole}, or the headers are larger than {MOST_HEADERS:,} bytes"
    if code == HTTPStatus.INSUFFICIENT_STORAGE:
        return describe(DiskFull(Path(tempfile.gettempdir()), sure=False))
    if code == HTTPStatus.INTERNAL_SERVER_ERROR:
        said = "the log of the service has the cause"
    return plain_problem(code, said)


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then stop loads, finish other answers and close the store.

    ``announce`` is told the address as soon as the port answers.
    """
    few_arenas()
    app = create_app(settings)
    state = app.extensions["softdict"]
    try:
        sockets: dict[Any, Any] = {}
        server = _listening(app, settings, sockets)
        for each in sockets.values():
            if isinstance(each, BaseWSGIServer):
                each.channel_class = _Channel
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, partial(_stop, state))
        state.warm_up()
        announce(_address(server))
        with suppress(SystemExit):  # of a second signal
            _run(server, sockets)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # once is enough: what ends, ends in peace
            signal.signal(number, signal.SIG_IGN)
        log.info("stopping")
        state.close()
    if server.task_dispatcher.threads:
        # Python ends threads that are at something by unwinding them: out of C++, that aborts.
        logging.shutdown()
        os._exit(0)


def _run(server: Any, sockets: dict[Any, Any]) -> None:
    """Serve until SystemExit, which ``_stop`` raises; then send what is answered and not read yet.

    Waitress's own ``run`` would drop it, and to HTTP/1.0 the end of a connection is that of a body:
    half a backup would look whole. Whoever reads too slowly learns that the rest is missing.
    """
    # select() cannot watch a file descriptor above 1023.
    turn = partial(wasyncore.loop, use_poll=True, map=sockets)
    with suppress(SystemExit):
        turn(timeout=server.adj.asyncore_loop_timeout)
    server.task_dispatcher.shutdown()
    for each in list(sockets.values()):
        if isinstance(each, BaseWSGIServer):
            wasyncore.dispatcher.close(each)
    until = time.monotonic() + SENDING
    while any(getattr(each, "total_outbufs_len", 0) for each in sockets.values()):
        if time.monotonic() > until:
            break
        turn(timeout=0.1, count=1)
    for each in list(sockets.values()):
        if isinstance(each, _Channel) and (each.total_outbufs_len or each.requests):
            each.lose_the_rest()
            each.handle_close()


def _listening(app: Flask, settings: Settings, sockets: dict[Any, Any]) -> Any:
    try:
        return create_server(
            app,
            map=sockets,
            host=settings.host,
            port=settings.port,
            threads=settings.threads,
            ident=f"softdict/{__version__}",
            # A character of a key or query may take 12 bytes: four of UTF-8, each as %XX.
            max_request_header_size=12 * (settings.max_key + settings.max_query) + 2**16,
            max_request_body_size=settings.largest_body + FORM_OVERHEAD + 1,
            channel_timeout=settings.idle_timeout,
            cleanup_interval=min(30, settings.idle_timeout),  # seconds between looks for idle ones
            # Where files run out, waitress writes a line of the log each time it turns round. A
            # request may have a file beside its socket.
            connection_limit=min(1000, files_at_a_time() // 2),
            # A thread never waits for a reader: eight who stop reading would stop the service.
            outbuf_high_watermark=2**62,
            clear_untrusted_proxy_headers=True,
        )
    except (OSError, ValueError) as error:
        raise CannotListen(settings.host, settings.port, error) from None


def _stop(state: Runtime, number: int, _: FrameType | None) -> NoReturn:
    log.info("got %s", signal.Signals(number).name)
    state.stop_loads()  # now: waitress waits five seconds for what is being answered
    sys.exit(0)


def _address(server: Any) -> str:
    listening = getattr(server, "effective_listen", None) or [
        (server.effective_host, server.effective_port)
    ]
    host, port = listening[0]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"

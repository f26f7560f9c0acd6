"""A path, bytes or stream that can be opened again and again, from its start, gunzipped."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, cast

from index.errors import DiskFull, Fault, InvalidRequest, UnreadableSource

GZIP_MAGIC = b"\x1f\x8b"
BLOCK = 1 << 20  # bytes


class Source:
    """Something to read, which ``open`` gives from its start each time, gunzipped."""

    def __init__(
        self, source: str | os.PathLike[str] | bytes | BinaryIO, filename: str | None = None
    ) -> None:
        self.name = filename or "the table"
        self._path: Path | None = None
        self._held: IO[bytes] = io.BytesIO()  # where there is no path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._held = io.BytesIO(bytes(source))
        elif isinstance(source, (str, os.PathLike)):
            self.name = filename or os.fspath(source)
            self._take_path(Path(source))
        elif hasattr(source, "read"):
            self._held = _spooled(source)
        else:
            message = f"{type(source).__name__} is neither a path, bytes nor a binary stream"
            raise InvalidRequest(Fault("source", message))

    def _take_path(self, path: Path) -> None:
        try:
            status = path.stat()
        except FileNotFoundError:
            raise UnreadableSource(f"there is no file {path}") from None
        except (OSError, ValueError) as error:
            raise UnreadableSource(f"{path} cannot be read: {_words(error)}") from error
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableSource(f"{path} is a folder; name a file in it")
        if stat.S_ISREG(status.st_mode):
            self._path, self._stamp = path, _stamp(status)
            return
        try:
            with path.open("rb") as stream:  # a pipe cannot be opened twice
                self._held = _spooled(stream)
        except OSError as error:
            raise UnreadableSource(f"{path} cannot be read: {_words(error)}") from error

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Give the bytes from the start; whatever cannot be read raises UnreadableSource."""
        with ExitStack() as stack:
            try:
                stream = stack.enter_context(self._raw())
                if stream.peek(2)[:2] == GZIP_MAGIC:
                    stream = stack.enter_context(
                        io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream)))
                    )
                yield cast(BinaryIO, stream)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise UnreadableSource(
                    f"{self.name}: its gzip data is damaged or cut short; compress it again"
                ) from error
            except OSError as error:
                raise UnreadableSource(f"{self.name} cannot be read: {_words(error)}") from error

    def _raw(self) -> io.BufferedReader:
        if self._path is None:
            return io.BufferedReader(_Shared(self._held, self._lock))
        stream = self._path.open("rb")
        if _stamp(os.fstat(stream.fileno())) != self._stamp:
            stream.close()
            raise UnreadableSource(f"{self.name} changed while it was being read; try again")
        return stream

    def head(self, size: int) -> bytes:
        with self.open() as stream:
            return stream.read(size)

    def close(self) -> None:
        """Remove the temporary copy, where there is one."""
        self._held.close()


class _Shared(io.RawIOBase):
    """A reader with its own place in a file that other readers share."""

    def __init__(self, file: IO[bytes], lock: threading.Lock) -> None:
        self._file, self._lock, self._at = file, lock, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._lock:
            self._file.seek(self._at)
            self._at = self._file.seek(offset, whence)
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        with self._lock:
            self._file.seek(self._at)
            block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        self._at += len(block)
        return len(block)


def _spooled(stream: BinaryIO) -> IO[bytes]:
    """Copy a stream to a file without a name, which even kill -9 leaves nothing of."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (Source.close does)
    try:
        _copied(stream, copy)
    except BaseException:
        with suppress(OSError):  # it would write what it still holds
            copy.close()
        raise
    return copy


def _copied(stream: BinaryIO, copy: IO[bytes]) -> None:
    try:
        shutil.copyfileobj(stream, copy, BLOCK)
        copy.flush()
    except TypeError:
        fault = Fault("source", "the stream gives text; open it as binary")
        raise InvalidRequest(fault) from None
    except (OSError, ValueError) as error:  # a ValueError: it is closed
        unread = f"the stream cannot be copied: {_words(error)}"
        raise DiskFull.of_temporary(error) or UnreadableSource(unread) from error


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)

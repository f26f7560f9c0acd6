"""Vectors of loads that have not been committed, so that one that is killed loses little.

A load encodes for minutes or hours and commits once, at its end. What it encodes meanwhile is
appended to a file of its own in the store's folder, and the same load, repeated, finds it there:

    file  = chunk*
    chunk = "sdk1"  u32 texts n  u32 components d  seal  seal  n × name  n × d float32

all little-endian. A name is the BLAKE2b (16 bytes) of a text under its encoder's identity; the
seals are those of the numbers and names, and of the rows. The file is a cache and no more:
nothing waits for the disk, nothing is believed whose seal is broken, and a fault of the disk ends
the keeping, never the load.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Names = NDArray[np.uint64]  # (n, 2): the halves of each name

FOLDER, SUFFIX = "encoded", ".rows"
MAGIC = b"sdk1"
HEAD = struct.Struct("<4sII16s16s")
NAME = 16  # bytes
CHUNK, SECONDS = 256, 1.0  # texts, or time, after which a chunk is written
FEW = 32  # texts: with fewer to encode none is kept, or looked for
MOST_BYTES = 4 * 2**30  # of all files: 2.7 million texts of 384 components
OLDEST = 7 * 24 * 3600.0  # seconds: a load that nobody repeated for a week
SPARE = 2**28  # bytes of the disk that are never taken


@dataclass
class _File:
    path: Path
    texts: int = 0
    taken: int = 0  # texts that this load found here


@dataclass(frozen=True)
class _Chunk:
    file: _File
    start: int  # of the rows, in the file
    names: Names
    seal: bytes  # of the rows


class KeptVectors:
    """What earlier loads kept, to look up, and what this one keeps.

    ``home`` is the store's folder; with None nothing is kept. Close it in any case, and call
    ``done`` before if the load was committed: then what it has no more use for is deleted.
    """

    def __init__(
        self,
        home: Path | None,
        identity: str,
        dimension: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = None if home is None else home / FOLDER
        self._person = hashlib.blake2b(identity.encode(), digest_size=NAME).digest()
        self._dimension = dimension
        self._clock = clock
        self._files: list[_File] = []
        self._chunks: list[_Chunk] = []
        self._known: tuple[Names, NDArray[np.int64]] | None = None  # sorted; (chunk, row) of each
        self._own: BinaryIO | None = None
        self._waiting: list[tuple[Sequence[str], Rows]] = []
        self._last = clock()

    def find(self, texts: Sequence[str]) -> Iterator[tuple[int, Rows]]:
        """Give the place and the (d,) row of each text that an earlier load encoded."""
        if self._folder is None:
            return
        if self._known is None:
            if len(texts) < FEW:
                return
            self._known = self._read(self._folder)
        names, places = self._known
        if not len(names):
            return
        asked = self._names(texts)
        at = np.minimum(np.searchsorted(names[:, 0], asked[:, 0]), len(names) - 1)
        hits = np.flatnonzero((names[at] == asked).all(axis=1))
        wanted: dict[int, list[tuple[int, int]]] = {}
        for place in hits.tolist():
            chunk, row = places[at[place]].tolist()
            wanted.setdefault(chunk, []).append((place, row))
        for chunk in sorted(wanted):
            rows = self._rows(self._chunks[chunk])
            if rows is not None:
                self._chunks[chunk].file.taken += len(wanted[chunk])
                yield from ((place, rows[row]) for place, row in wanted[chunk])

    def add(self, texts: Sequence[str], rows: Rows) -> None:
        """Keep the rows of texts that were just encoded."""
        if self._folder is None:
            return
        self._waiting.append((texts, rows))
        count = sum(len(each) for each, _ in self._waiting)
        if count >= CHUNK or self._clock() - self._last >= SECONDS:
            self._write()

    def flush(self) -> None:
        """Keep the last ones too, of a load that was large enough to keep any."""
        if self._own is not None and self._waiting:
            self._write()

    def done(self) -> None:
        """Drop what this load kept, and the files that it took most of: all is in the store now."""
        self._drop()
        for file in self._files:
            if 2 * file.taken > file.texts:
                _delete(file.path)
        if self._folder is not None:
            with suppress(OSError):  # it may hold what another load kept
                self._folder.rmdir()

    def close(self) -> None:
        """Let go of the file; what is in it stays for another time unless ``done`` was called."""
        self.flush()
        if self._own is not None:
            self._own.close()
            self._own = None

    def _names(self, texts: Sequence[str]) -> Names:
        named = b"".join(
            hashlib.blake2b(text.encode(), digest_size=NAME, person=self._person).digest()
            for text in texts
        )
        return np.frombuffer(named, "<u8").reshape(-1, 2)

    def _read(self, folder: Path) -> tuple[Names, NDArray[np.int64]]:
        """Sort the names of every chunk whose first seal is whole."""
        names, places = [np.empty((0, 2), np.uint64)], [np.empty((0, 2), np.int64)]
        for path in prune(folder.parent):
            file = _File(path)
            for chunk in _chunks(file):
                rows = np.arange(len(chunk.names))
                names.append(chunk.names)
                places.append(np.stack([np.full_like(rows, len(self._chunks)), rows], 1))
                file.texts += len(rows)
                self._chunks.append(chunk)
            self._files.append(file)
        joined = np.concatenate(names)
        order = np.argsort(joined[:, 0], kind="stable")
        return joined[order], np.concatenate(places)[order]

    def _rows(self, chunk: _Chunk) -> Rows | None:
        count, width = len(chunk.names), self._dimension
        with suppress(OSError), chunk.file.path.open("rb") as stream:
            stream.seek(chunk.start)
            content = stream.read(4 * count * width)
            if _seal(content) == chunk.seal:
                return np.frombuffer(content, "<f4").reshape(count, width)
        return None

    def _write(self) -> None:
        texts = [text for each, _ in self._waiting for text in each]
        rows = np.concatenate([each for _, each in self._waiting]).astype("<f4")
        self._waiting.clear()
        try:
            for start in range(0, len(texts), CHUNK):  # a kill in the middle costs one chunk
                if self._folder is not None:
                    chunk = self._chunk(texts[start : start + CHUNK], rows[start:][:CHUNK])
                    self._append(chunk, self._folder)
        except OSError:
            self._stop()
        self._last = self._clock()

    def _chunk(self, texts: Sequence[str], rows: Rows) -> bytes:
        names, content = self._names(texts).tobytes(), rows.tobytes()
        seals = _seal(_numbers(len(texts), self._dimension), names), _seal(content)
        return HEAD.pack(MAGIC, len(texts), self._dimension, *seals) + names + content

    def _append(self, chunk: bytes, folder: Path) -> None:
        while self._own is None:
            folder.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # another load was done, and took the folder away
                self._own = (folder / f"{secrets.token_hex(8)}{SUFFIX}").open("xb", buffering=0)
        size = self._own.tell() + len(chunk)
        # The transaction will need room for as much again, in its log and in the database.
        if (
            size > MOST_BYTES
            or shutil.disk_usage(folder).free < 3 * size + SPARE
            or self._own.write(chunk) != len(chunk)
        ):
            self._stop()

    def _stop(self) -> None:
        """Keep no more, and make room: a disk that is full or failing is the load's alone."""
        self._drop()
        self._folder = None

    def _drop(self) -> None:
        self._waiting.clear()
        if self._own is not None:
            self._own.close()
            _delete(Path(self._own.name))
            self._own = None


def prune(home: Path) -> list[Path]:
    """Delete what is too old or too much; give the files that stay, the newest first."""
    found = []
    with suppress(OSError), os.scandir(home / FOLDER) as entries:
        for entry in entries:
            with suppress(OSError):  # another load was done, and took it away
                if entry.name.endswith(SUFFIX) and entry.is_file():  # to open a pipe waits for ever
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, Path(entry.path)))
    stay, total = [], 0
    for modified, size, path in sorted(found, reverse=True):
        total += size
        if total > MOST_BYTES or time.time() - modified > OLDEST:
            _delete(path)
        else:
            stay.append(path)
    return stay


def _chunks(file: _File) -> Iterator[_Chunk]:
    """Give the chunks up to the first that is not whole."""
    with suppress(OSError), file.path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        while len(head := stream.read(HEAD.size)) == HEAD.size:
            magic, texts, width, seal, rows_seal = HEAD.unpack(head)
            start = stream.tell() + NAME * texts
            end = start + 4 * texts * width
            if magic != MAGIC or end > size:
                return
            names = stream.read(NAME * texts)
            if _seal(_numbers(texts, width), names) != seal:
                return
            named = np.frombuffer(names, "<u8").reshape(-1, 2)
            yield _Chunk(file, start, named, rows_seal)
            stream.seek(end)


def _numbers(texts: int, width: int) -> bytes:
    return struct.pack("<II", texts, width)


def _seal(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def _delete(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)

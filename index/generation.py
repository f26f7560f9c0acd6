"""A sketched block kept on disk, so that a large dataset need not be sketched at every start.

A generation is a folder beside the database: the block's vectors, mapped into memory when it is
opened; its keys and values; the sketch. It holds what the store held at one version of the
dataset. What changed since is read from the store and laid on top.

It is a view, never the truth. Its ``generation.json`` names the dataset, the version, the
encoder, the columns, and every file with its SHA-256, and has one of itself. If anything differs
from what the store or the disk says, there is no generation: the dataset is read from the store,
and a new one is made. Arrays are read without pickle.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from index.kept import SPARE
from index.sketch import PARTS, Sketch
from index.snapshot import Block, Snapshot
from index.store import Record
from index.values import LabelTable
from index.vectors import Codes, Held, VectorBlock, held_type

FORMAT = 8  # of what the files hold, the state of FAISS's index in them too
NOTE = "generation.json"
FILES = VECTORS, CODES, ARRAYS, TEXTS = "vectors.npy", "codes.npy", "arrays.npz", "texts.json"
PART, OLD = ".part", ".old"  # of a folder's name: not finished, and about to go


def can_be_kept() -> bool:
    """Tell whether a generation can take its place while its vectors are mapped.

    Windows gives no folder another name while a file in it is open, and a mapped one is.
    """
    return sys.platform != "win32"


def folder_of(home: Path, dataset: int) -> Path:
    """Say where a dataset's generation lies."""
    return home / "generations" / str(dataset)


def empty_vectors(home: Path, dataset: int, shape: tuple[int, int], *, half: bool) -> Held:
    """Make room on disk for the vectors of a generation that is being built."""
    part = _part(home, dataset)
    _remove(part)
    part.mkdir(parents=True)
    path = part / VECTORS
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=held_type(half), shape=shape)
    _take_room(path)
    return rows


@contextmanager
def unfinished(home: Path | None, dataset: int) -> Iterator[None]:
    """Remove what there is of a generation whose making is cut short."""
    try:
        yield
    except BaseException:
        if home is not None:
            _remove(_part(home, dataset))
        raise


def save(home: Path, record: Record, made: Snapshot) -> None:
    """Write a sketched block whose vectors lie in ``empty_vectors`` already; all or nothing."""
    part, folder = _part(home, record.id), folder_of(home, record.id)
    (block,) = made.blocks
    sketch = block.sketch
    if sketch is None:
        raise ValueError("only a sketched block is worth keeping")
    sketch.codes.save(part / CODES)
    arrays: dict[str, Any] = {
        "ids": block.ids,
        "arrived": block.arrived,
        **{name: getattr(sketch, name) for name in PARTS},
        **{f"column{number}": array for number, array in enumerate(block.columns)},
    }
    np.savez(part / ARRAYS, **arrays)
    texts = {"keys": block.keys, "labels": [table.labels for table in made.labels]}
    with (part / TEXTS).open("w", encoding="utf-8") as stream:
        json.dump(texts, stream, ensure_ascii=False)  # dumps would hold up other threads till done
    note = {
        **_identity(record),
        "version": record.version,
        "modified": record.modified,
        "files": {name: _checksum(part / name) for name in FILES},
    }
    note["seal"] = _seal(note)
    (part / NOTE).write_text(json.dumps(note), encoding="utf-8")
    for path in part.iterdir():
        _to_disk(path)
    gone = folder.with_suffix(OLD)
    _remove(gone)
    if folder.exists():
        folder.rename(gone)
    part.rename(folder)
    _remove(gone)


def load(home: Path, record: Record) -> tuple[int, Snapshot] | None:
    """Open a dataset's generation, if there is one that holds: its version and its entries.

    Another process may put a new one in its place meanwhile: then files of both were read, and
    neither is served.
    """
    folder = folder_of(home, record.id)
    # A pipe or a device in the place of a file could be read without end.
    if not all((folder / name).is_file() for name in (NOTE, *FILES)):
        return None
    try:
        said = (folder / NOTE).read_bytes()
        note = json.loads(said)
        if note.pop("seal") != _seal(note):
            return None
        files = dict(note["files"])
        if any(note.get(name) != value for name, value in _identity(record).items()):
            return None
        known = record.forgotten <= note["version"] <= record.version
        # Two copies of a database may have seen as many changes, and other ones.
        known &= note["version"] != record.version or note["modified"] == record.modified
        if not known or set(files) != set(FILES):
            return None
        if any(_checksum(folder / name) != checksum for name, checksum in files.items()):
            return None
        opened = _opened(folder, record)
        return (note["version"], opened) if (folder / NOTE).read_bytes() == said else None
    # A RuntimeError is FAISS's; a MemoryError, of a damaged file as large as none ever is.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, MemoryError):
        return None


def tidy(home: Path, datasets: Collection[int]) -> None:
    """Remove what belongs to no dataset any more, and what a killed process left behind."""
    root = home / "generations"
    own = re.compile(rf"[0-9]+({re.escape(PART)}|{re.escape(OLD)})?")  # it may hold other folders
    for folder in root.iterdir() if root.is_dir() else ():
        if own.fullmatch(folder.name) and folder.name not in map(str, datasets):
            _remove(folder)


def drop(home: Path, dataset: int) -> None:
    """Remove what there is of a dataset's generation; what cannot be, ``tidy`` will."""
    folder = folder_of(home, dataset)
    for each in (folder, *(folder.with_suffix(suffix) for suffix in (PART, OLD))):
        _remove(each)


def _opened(folder: Path, record: Record) -> Snapshot:
    texts = json.loads((folder / TEXTS).read_text(encoding="utf-8"))
    with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
        sketch = Sketch(Codes.load(folder / CODES), **{name: arrays[name] for name in PARTS})
        block = Block.of(
            ids=arrays["ids"],
            keys=tuple(texts["keys"]),
            arrived=arrays["arrived"],
            vectors=VectorBlock(np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)),
            columns=tuple(arrays[f"column{n}"] for n in range(len(record.columns))),
            sketch=sketch,
        )
    return Snapshot(record.columns, [LabelTable(labels) for labels in texts["labels"]], [block])


def _part(home: Path, dataset: int) -> Path:
    return folder_of(home, dataset).with_suffix(PART)


def _remove(folder: Path) -> None:
    """Remove a folder with what it holds, or whatever else has its name, if that can be."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with suppress(OSError):
            folder.unlink()


def _identity(record: Record) -> dict[str, Any]:
    """What must be the same for a generation to be of this dataset."""
    return {
        "format": FORMAT,
        "dataset": record.id,
        "created": record.created,
        "encoder": record.encoder_identity,
        "columns": [asdict(column) for column in record.columns],
    }


def _seal(note: dict[str, Any]) -> str:
    """Give the checksum of what the note itself says: its version is as good as its files."""
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _take_room(path: Path) -> None:
    """Have the disk set a file's whole length aside; raise OSError if less than SPARE is left then.

    A mapped file has no other way to say so: the first write to a page that the disk has no room
    for ends the process (SIGBUS). macOS has no such call, and some file systems do not heed it.
    """
    if shutil.disk_usage(path.parent).free < path.stat().st_size + SPARE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

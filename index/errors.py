"""Every fault that softdict raises on purpose. They carry data; no HTTP lives here.

SoftDictError
├── InvalidRequest            an argument is wrong; ``faults`` names each one, or the first of many
│   └── InvalidKey            a key no dictionary can hold
├── UnknownDataset            no dataset of that name, or no more (also a KeyError)
├── DatasetExists             the name is taken
├── UnknownEntry              no such key (also a KeyError)
├── WrongValue                a value that its column's type cannot hold
├── UnreadableSource          a file that cannot be read as a table
│   └── BadRows               rows that cannot be loaded, with their lines
├── NotEnoughMemory           a load that would not fit in memory
├── EncoderUnavailable        an encoder that cannot be opened here
├── EncoderMismatch           the dataset's vectors came from another encoder
├── StoreLocked               somebody else has the folder open for writing
├── Busy                      another write goes on, for longer than was to be waited
├── DiskFull                  the disk takes no more; nothing of the change was kept
├── StoreClosed               a closed dictionary or catalog is written to, or first read
├── ReadOnlyStore             the folder is not written to here, or cannot be
└── StoreCorrupt              the folder holds something this version cannot read
"""

from __future__ import annotations

import copyreg
import errno
import itertools
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from index.wording import listed, short

TOLD = 100  # faults of one request, which are kept; of more it is said how many
LONGEST_SAID = 2_000  # characters of a sentence that names them
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SoftDictError(Exception):
    """The root: catch this to catch every fault softdict raises on purpose."""

    __str__ = Exception.__str__  # KeyError's own would quote the sentence

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross to another process: by default ``__init__`` would be given the whole sentence."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a request: where it stands, and what to do about it."""

    where: str
    message: str


class InvalidRequest(SoftDictError, ValueError):
    """One or more arguments are wrong; all are listed, or the first hundred and how many more."""

    def __init__(self, *faults: Fault, more: int = 0) -> None:
        self.faults = faults[:TOLD]
        self.more = more + len(faults[TOLD:])
        super().__init__(_sentence(self.faults, self.more))

    @classmethod
    def of(cls, faults: Iterable[Fault]) -> InvalidRequest:
        """Make one of faults that may be very many: only those that are told are kept."""
        each = iter(faults)
        told = tuple(itertools.islice(each, TOLD))
        return InvalidRequest(*told, more=sum(1 for _ in each))

    @classmethod
    def joined(cls, errors: Iterable[InvalidRequest]) -> InvalidRequest:
        """Put the faults of several together."""
        found = list(errors)
        faults = (fault for error in found for fault in error.faults)
        return InvalidRequest(*faults, more=sum(error.more for error in found))

    def of_key(self, key: str) -> InvalidRequest:
        """Say the same of one key among others."""
        told = (Fault(fault.where, f"key {key!r}: {fault.message}") for fault in self.faults)
        return InvalidRequest(*told, more=self.more)


def _sentence(faults: Sequence[Fault], more: int) -> str:
    """Say as many faults as a sentence takes, and count the others."""
    said: list[str] = []
    for fault in faults:
        words = short(f"{fault.where}: {fault.message}", LONGEST_SAID)
        if said and sum(map(len, said)) + len(words) > LONGEST_SAID:
            break
        said.append(words)
    if left := len(faults) - len(said) + more:
        said.append(f"and {left:,} more")
    return "; ".join(said)


class InvalidKey(InvalidRequest):
    """A key no dictionary can hold: empty, too long or not text."""

    def __init__(self, message: str) -> None:
        super().__init__(Fault("key", message))


class UnknownDataset(SoftDictError, KeyError):
    """No dataset has that name, or another one took it."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        if name in self.known:
            message = f"dataset {name!r} was replaced by another: take it from the catalog again"
        else:
            message = f"there is no dataset {name!r}; there are: {listed(self.known)}"
        super().__init__(message)


class DatasetExists(SoftDictError):
    """The name is taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"a dataset {name!r} exists; delete it, or load with if_exists=replace or append"
        )


class UnknownEntry(SoftDictError, KeyError):
    """No entry has exactly that key."""

    def __init__(self, key: object, dataset: str) -> None:
        self.key, self.dataset = key, dataset
        super().__init__(f"{dataset!r} has no key {key!r}")


class WrongValue(SoftDictError, ValueError):
    """A value that its column's type cannot hold; among those of several keys, whose it is."""

    def __init__(self, column: str, message: str, key: str | None = None) -> None:
        self.column, self.message, self.key = column, message, key
        whose = "" if key is None else f"key {key!r}, "
        super().__init__(f"{whose}column {column!r}: {message}")

    def of_key(self, key: str) -> WrongValue:
        """Say the same of one key among others."""
        return WrongValue(self.column, self.message, key)


class UnreadableSource(SoftDictError, ValueError):
    """A file or stream that cannot be read as a table of keys and values."""


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be loaded. ``line`` counts from 1, the header included."""

    line: int
    reason: str


class BadRows(UnreadableSource):
    """Rows that cannot be loaded; the first of them, and how many there are."""

    def __init__(
        self,
        rows: Sequence[BadRow],
        total: int,
        *,
        every: bool = False,
        repeated: bool = False,
        keys: str | None = None,
        numbers: Sequence[str] = (),
        gaps: str = "",
    ) -> None:
        """Say what to do about them, too.

        ``every``: none would be left; ``repeated``: a key stood twice; ``keys`` is the column that
        was taken for theirs and holds something else, and ``numbers`` those taken for numbers: by
        their cells alone. ``gaps`` says what to do about what may be missing values.
        """
        self.rows, self.total = tuple(rows), total
        shown = "; ".join(f"line {row.line}: {row.reason}" for row in self.rows[:5])
        more = f" (and {total - 5} more)" if total > 5 else ""
        counts = ", or with duplicates=first, last or mean to say which one counts"
        skip = "" if every else ", or load with on_error=skip"
        advice = f"Correct them{skip}{counts if repeated else ''}"
        if keys is not None:
            other = "name the column that does with the option key"
            advice += f"; if {keys!r} does not hold the keys, {other}"
        if numbers:
            they = (
                "holds no numbers, name its type" if len(numbers) == 1 else "hold none, name theirs"
            )
            advice += f"; if {' and '.join(map(repr, numbers))} {they} in the option columns"
        super().__init__(f"{shown}{more}. {advice}{gaps}")


class NotEnoughMemory(SoftDictError):
    """A load that would not fit in memory. Nothing was encoded; the message says what would fit."""

    def __init__(self, needed: int | None, available: int | None, advice: str) -> None:
        self.needed, self.available, self.advice = needed, available, advice  # bytes, what to do
        figures = "more memory than there is"
        if needed is not None and available is not None:
            about, free = f"{needed / 1e9:.1f} GB", f"{available / 1e9:.1f} GB"
            figures = f"about {about} of memory, and {free} are free"
        super().__init__(f"this load needs {figures}; {advice}")


class EncoderUnavailable(SoftDictError):
    """An encoder that cannot be opened here; the message says what would help."""


class EncoderMismatch(SoftDictError):
    """The dataset's vectors were made by another encoder than the one opened now."""

    def __init__(self, dataset: str, stored: str, opened: str) -> None:
        self.dataset, self.stored, self.opened = dataset, stored, opened
        super().__init__(
            f"dataset {dataset!r} was written by encoder {stored}, and this is {opened}; "
            f"run: python -m service reencode {dataset} (a service does that by itself, as a job, "
            "where both are the built-in encoder)"
        )


class StoreLocked(SoftDictError):
    """Another process, or another part of this one, has the folder open for writing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} is open for writing in another process, or elsewhere in this one; "
            "close it there, or send the change to the service that runs on it"
        )


class Busy(SoftDictError):
    """Another write goes on for longer than this one was to wait."""

    def __init__(self) -> None:
        super().__init__(
            "another write goes on, a load perhaps, and this one waited as long as it may; "
            "nothing was changed: try again later"
        )


class DiskFull(SoftDictError):
    """The disk takes no more. Nothing of the change was kept.

    Where the message does not say that it is full, it may be a quota, a limit on the size of a
    file, or a disk that fails.
    """

    def __init__(self, folder: Path, *, sure: bool = True) -> None:
        self.folder, self.sure = folder, sure
        refused = "refused a write: it is full, a quota or a limit is reached, or it fails"
        super().__init__(
            f"the disk that holds {folder} {'is full' if sure else refused}; nothing of this was "
            "kept; make room there, and try again"
        )

    @classmethod
    def of_temporary(cls, fault: Exception) -> Self | None:
        """Give what a fault says of the disk of files without a name, if it takes no more."""
        if not (isinstance(fault, OSError) and fault.errno in NO_ROOM):
            return None
        return cls(Path(tempfile.gettempdir()), sure=fault.errno == errno.ENOSPC)


class StoreClosed(SoftDictError):
    """A dictionary or a catalog was closed: only what it had read already can still be asked."""

    def __init__(self) -> None:
        super().__init__("this dictionary, or the catalog it is of, was closed: open it again")


class ReadOnlyStore(SoftDictError):
    """The folder was opened for reading only, or cannot be written to; the message says why."""


class StoreCorrupt(SoftDictError):
    """The folder holds something that this version of softdict cannot read."""

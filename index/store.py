"""The store: SQLite holds the truth, and this module is the only SQL.

Everything else (vectors and values in memory, the sketch) is a view that is rebuilt from
here. WAL with ``synchronous=FULL``: what a commit acknowledged survives ``kill -9`` and
power loss. A folder has one writing process at a time, held by a lock on a file that
the kernel lets go of when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from index.answers import Column, Precision, Value
from index.errors import (
    Busy,
    DatasetExists,
    DiskFull,
    Fault,
    InvalidRequest,
    ReadOnlyStore,
    SoftDictError,
    StoreClosed,
    StoreCorrupt,
    StoreLocked,
    UnknownDataset,
)
from index.naming import composed
from index.turns import count_waiting, in_turn, left

Rows = NDArray[np.float32]
FILE, LOG, LOCK = "softdict.db", "softdict.db-wal", "softdict.lock"
APPLICATION = 0x736F6664  # "sofd", in the file's header: this database is ours
SCHEMA_VERSION = 6
LOOKED_THROUGH = 16  # datasets that are searched for vectors to use again
MISSED = {  # of what has gone while it was open: what that means, and what to do
    FILE: "nothing written now would stay; put back the one that was opened, or start anew",
    LOG: "nothing written now would stay, but what was is kept if this process ends in peace (no "
    "kill -9): end it, and start anew",
    LOCK: "another process may write here, too; end both, and start one",
}
JOURNAL = 2**26  # bytes that the write-ahead log may keep after a large load
PATIENCE = 30  # seconds to wait for another program that has the database, at most
UNWRITTEN = 2**21  # bytes of pages that SQLite holds until it commits (its cache_size)

SCHEMA = """
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    key_column TEXT NOT NULL,
    encoder TEXT NOT NULL,          -- how to open it: builtin, st:NAME, ...
    encoder_identity TEXT,          -- what made the vectors; NULL before the first
    dimension INTEGER,              -- components of a vector
    temperature TEXT NOT NULL,      -- the setting
    fitted REAL,                    -- what auto was fitted to, in units of cosine
    margins TEXT NOT NULL DEFAULT '{}',         -- those of its numbers, as index.prediction writes
    fitted_entries INTEGER NOT NULL DEFAULT 0,  -- entries at that fit, or until one can be
    moved INTEGER NOT NULL DEFAULT 0,           -- entries come, gone or changed since
    tolerance REAL,                 -- wanted total variation error; NULL is the default
    precision TEXT NOT NULL DEFAULT 'full',     -- of vectors in memory: full or half
    forgotten INTEGER NOT NULL DEFAULT 0,       -- deletions up to this version are not listed
    version INTEGER NOT NULL DEFAULT 0,         -- grows with every change
    created REAL NOT NULL,          -- seconds since 1970, UTC
    modified REAL NOT NULL
) STRICT;
CREATE TABLE columns (
    dataset INTEGER NOT NULL REFERENCES datasets(id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    width INTEGER,
    attribute INTEGER NOT NULL DEFAULT 0,       -- 1: to filter by, never blended
    unit TEXT,                      -- of a number
    PRIMARY KEY (dataset, position)
) STRICT;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,       -- order of entry: ids are never used again
    dataset INTEGER NOT NULL REFERENCES datasets(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    arrived REAL NOT NULL,          -- seconds since 1970, UTC
    value TEXT NOT NULL,            -- JSON list in the order of the columns
    vector BLOB NOT NULL,           -- float32, little-endian
    changed INTEGER NOT NULL DEFAULT 0,         -- the dataset's version of its last change
    UNIQUE (dataset, key)
) STRICT;
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX entries_changed ON entries (dataset, changed);
CREATE TABLE deletions (            -- what an index kept on disk may still hold
    entry INTEGER PRIMARY KEY,      -- id of an entry that is no more
    dataset INTEGER NOT NULL REFERENCES datasets(id) ON DELETE CASCADE,
    changed INTEGER NOT NULL        -- the dataset's version that dropped it
) STRICT;
CREATE INDEX deletions_changed ON deletions (dataset, changed);
"""

# What brings a database of an older schema to the next one.
MIGRATIONS = {
    1: """
ALTER TABLE datasets ADD COLUMN tolerance REAL;
ALTER TABLE datasets ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
ALTER TABLE columns ADD COLUMN attribute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entries ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entries_changed ON entries (dataset, changed);
CREATE TABLE deletions (
    entry INTEGER PRIMARY KEY,
    dataset INTEGER NOT NULL REFERENCES datasets(id) ON DELETE CASCADE,
    changed INTEGER NOT NULL
) STRICT;
CREATE INDEX deletions_changed ON deletions (dataset, changed);
""",
    2: "ALTER TABLE datasets ADD COLUMN precision TEXT NOT NULL DEFAULT 'full';",
    3: "ALTER TABLE datasets ADD COLUMN moved INTEGER NOT NULL DEFAULT 0;",
    4: "ALTER TABLE columns ADD COLUMN unit TEXT;",
    5: """
ALTER TABLE datasets ADD COLUMN margins TEXT NOT NULL DEFAULT '{}';
UPDATE datasets SET moved = moved + fitted_entries + 1;  -- so the next change fits them
""",
}


# Made once: json.dumps with options makes an encoder at each call, and a load calls it by the row.
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
READ = 4096  # entries at a time
CHANGED = "changed = (SELECT version FROM datasets WHERE id = dataset)"


@dataclass(frozen=True)
class Record:
    """A dataset's row: its settings, but not its entries."""

    id: int
    name: str
    key_column: str
    columns: tuple[Column, ...]
    encoder: str
    encoder_identity: str | None
    dimension: int | None
    temperature: str
    fitted: float | None
    margins: str
    fitted_entries: int
    moved: int
    tolerance: float | None
    precision: Precision
    forgotten: int
    version: int
    created: float
    modified: float


class Fit(NamedTuple):
    """What was fitted to a dataset's values: τ, if that is ``auto``, and margins, as written.

    ``entries`` is how many there were; where too few have a value, as many that another fit is due
    once there may be enough.
    """

    temperature: float | None
    margins: str
    entries: int


@dataclass(frozen=True)
class StoredEntry:
    """An entry as stored."""

    id: int
    key: str
    arrived: float
    values: tuple[Value, ...]
    vector: Rows


def named_folder(given: str | os.PathLike[str]) -> Path:
    """Give the folder of this name, which is never the one that somebody happens to stand in.

    It stays the same one where the process goes elsewhere.
    """
    name = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(name, str) or name == "" or "\0" in name:
        raise InvalidRequest(Fault("path", "write the name of a folder"))
    return Path(name).absolute()


class Store:
    """One folder's database, or a private one in memory where ``home`` is None."""

    def __init__(self, home: Path | None, *, read_only: bool = False) -> None:
        self.home = home
        self._opened_read_only = read_only
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._writer: int | None = None  # thread in a transaction
        self._afterwards: list[Callable[[], None]] = []
        self._file_lock = None if home is None or read_only else _hold(home)
        with ExitStack() as undo:
            undo.callback(self._release)
            self._connection = self._connect()
            undo.callback(self._connection.close)
            if home is None:  # who made it of a dict closes it no more than that
                weakref.finalize(self, self._connection.close).atexit = False
            files = () if home is None else [home / name for name in MISSED]
            self._files = {path: _identity(path) for path in files}
            self._reader = None if home is None or read_only else Store(home, read_only=True)
            undo.pop_all()

    @property
    def reader(self) -> Store:
        """Where what is committed can be read without waiting for a write that goes on."""
        return self._reader or self  # which, held by itself, would outlast whoever made it

    @property
    def read_only(self) -> bool:
        """Whether it may not be written here: it was opened so, or this process is a fork."""
        return self._opened_read_only or self._is_forked

    @property
    def _is_forked(self) -> bool:
        """Whether another process opened the folder; a store in memory is each one's own."""
        return self.home is not None and self._process != os.getpid()

    @staticmethod
    def exists(home: Path) -> bool:
        """Tell whether the folder holds a store already."""
        return (home / FILE).is_file()

    @property
    def is_new(self) -> bool:
        """Whether it has never had a dataset: not one that was deleted, either."""
        query = "SELECT 1 FROM sqlite_sequence WHERE name = 'datasets'"
        with self._turn():
            return self._connection.execute(query).fetchone() is None

    def close(self) -> None:
        """Close the database and let another process write."""
        with self._lock:
            self._closed = True
            if self._reader is not None:
                self._reader.close()
            self._connection.close()
            self._release()

    def _release(self) -> None:
        if self._file_lock is not None:
            self._file_lock.release()

    def _connect(self) -> sqlite3.Connection:
        target = ":memory:" if self.home is None else str(self.home / FILE)
        if self.home and not self.read_only and _only_readable(self.home / FILE):
            raise ReadOnlyStore(
                f"{target} can be read here, and not written: grant that, or only ask"
            )
        if self.read_only:
            if self.home is None or not self.exists(self.home):
                raise StoreCorrupt(f"there is no store in {self.home}: load something first")
            target = f"{(self.home / FILE).resolve().as_uri()}?mode=ro"
        if self.home:
            _check_kinds(self.home)
        try:
            connection = sqlite3.connect(
                target,
                uri=self.read_only,
                check_same_thread=False,
                isolation_level=None,
                timeout=PATIENCE,
            )
            try:
                _prepare(connection, read_only=self.read_only)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:  # of what a schema is not
            raise _unopened(self.home or Path(target), fault) from fault
        return connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take a turn at the connection; what it refuses is said in our words."""
        # Nobody writes by a read-only one: who waits there waits for no write, and is not Busy.
        with self._lock if self._opened_read_only else in_turn(self._lock):
            if self._closed:
                raise StoreClosed
            try:
                yield
            except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:
                code = getattr(fault, "sqlite_errorcode", 0) & 0xFF
                if code == sqlite3.SQLITE_BUSY:
                    raise Busy from fault  # another program writes, for longer than PATIENCE
                if code == sqlite3.SQLITE_READONLY and self.home:
                    raise ReadOnlyStore(
                        f"cannot write to {self.home / FILE}: {fault}; what is beside it may be "
                        "another user's"
                    ) from fault
                if self.home and (refusal := _full(self.home, fault) or _damaged(self.home, fault)):
                    raise refusal from fault
                raise

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """See the folder as it is at one moment, whatever another process writes meanwhile."""
        with self._turn():
            if self._connection.in_transaction:  # a signal's handler reads inside this thread's
                yield self
                return
            try:
                self._connection.execute("BEGIN")
                yield self
            finally:
                self._roll_back()  # nothing was written

    def records(self) -> list[Record]:
        """List the datasets in order of creation."""
        with self._turn():
            rows = self._connection.execute("SELECT * FROM datasets ORDER BY id").fetchall()
            return [self._record(row) for row in rows]

    def holds(self, dataset: int) -> bool:
        """Tell whether a dataset is still there."""
        with self._turn():
            query = "SELECT 1 FROM datasets WHERE id = ?"
            return self._connection.execute(query, (dataset,)).fetchone() is not None

    def record(self, dataset: int) -> Record:
        """Read the settings of a dataset that is there."""
        with self._turn():
            query = "SELECT * FROM datasets WHERE id = ?"
            return self._record(self._connection.execute(query, (dataset,)).fetchone())

    def _record(self, row: sqlite3.Row) -> Record:
        columns = self._connection.execute(
            "SELECT name, type, width, attribute, unit FROM columns"
            " WHERE dataset = ? ORDER BY position",
            (row["id"],),
        )
        rows = columns.fetchall()
        names = [composed(name) for name, *_ in rows]  # older ones may have accents apart
        if len(set(names)) < len(names):
            names = [name for name, *_ in rows]
        listed = tuple(
            Column(name, kind, width, bool(attribute), unit)
            for name, (_, kind, width, attribute, unit) in zip(names, rows, strict=True)
        )
        return Record(**{**dict(row), "columns": listed})

    def entries(self, dataset: int, *, since: int = -1) -> Iterator[list[StoredEntry]]:
        """Read the entries changed after a version, by default all, in order, some at a time."""
        last = 0
        by = "entries_in_order" if since < 0 else "entries_changed"
        while True:
            with self._turn():
                try:
                    rows = self._connection.execute(
                        f"SELECT id, key, arrived, value, vector FROM entries INDEXED BY {by}"
                        " WHERE dataset = ? AND id > ? AND changed > ? ORDER BY id LIMIT ?",
                        (dataset, last, since, READ),
                    ).fetchall()
                except sqlite3.OperationalError as fault:
                    if _no_text(fault):  # it is this dataset that is damaged, not the database
                        raise ValueError(str(fault)) from fault
                    raise
            if not rows:
                return
            last = rows[-1]["id"]
            yield [
                StoredEntry(
                    row["id"],
                    row["key"],
                    row["arrived"],
                    _values(row["value"]),
                    np.frombuffer(row["vector"], dtype="<f4"),
                )
                for row in rows
            ]

    def deletions(self, dataset: int, *, since: int) -> list[int]:
        """List the ids of the entries that were dropped after a version."""
        with self._turn():
            rows = self._connection.execute(
                "SELECT entry FROM deletions WHERE dataset = ? AND changed > ?", (dataset, since)
            )
            return [entry for (entry,) in rows]

    def tally(self, dataset: int) -> tuple[int, int]:
        """Count the entries of a dataset, and add up their ids."""
        with self._turn():
            query = "SELECT count(*), coalesce(sum(id), 0) FROM entries WHERE dataset = ?"
            entries, ids = self._connection.execute(query, (dataset,)).fetchone()
            return entries, ids

    def vectors(self, identity: str, texts: Sequence[str]) -> Iterator[tuple[str, Rows]]:
        """Give the vectors that entries of these texts have under an encoder.

        The datasets that changed last are asked, up to ``LOOKED_THROUGH`` of them: a look costs
        microseconds a text, which is little beside encoding it.
        """
        with self._turn():
            datasets = self._connection.execute(
                "SELECT id, 4 * dimension FROM datasets WHERE encoder_identity = ?"
                " ORDER BY modified DESC LIMIT ?",
                (identity, LOOKED_THROUGH),
            ).fetchall()
        for dataset, size in datasets:
            for start in range(0, len(texts), 4096):
                asked = json.dumps(texts[start : start + 4096])
                with self._turn():
                    found = self._connection.execute(
                        "SELECT key, vector FROM entries WHERE dataset = ?"
                        " AND key IN (SELECT value FROM json_each(?)) AND length(vector) = ?",
                        (dataset, asked, size),  # others were spoilt
                    ).fetchall()
                for key, vector in found:
                    yield key, np.frombuffer(vector, "<f4")

    # Writing

    def check_writable(self) -> None:
        """Refuse to write what was opened for reading, or in another process."""
        if self._opened_read_only:
            raise ReadOnlyStore("this store is open for reading only")
        if self._is_forked:
            raise ReadOnlyStore(
                "this store can only be read here: it is open for writing in the process that this "
                "one was forked from"
            )

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """All or nothing. Writers take turns; a nested transaction joins the outer one."""
        self.check_writable()
        with self._turn():
            if self._writer == threading.get_ident():
                yield self
                return
            self._check_files()
            self._writer = threading.get_ident()  # until all is shown: a signal may come anywhere
            committing = False
            try:
                self._begin()
                before = self._pages()
                yield self
                self._check_room(before)
                committing = True
                self._connection.execute("COMMIT")
                self._show()
                self._take_room()
            except BaseException as fault:
                refused = isinstance(fault, sqlite3.Error)
                if committing and not refused and not self._connection.in_transaction:
                    self._show()  # a signal came, as of Ctrl-C, when it was durable already
                    raise
                self._roll_back()
                if self.home and (isinstance(fault, DiskFull) or _full(self.home, fault)):
                    self._give_back()
                raise
            finally:
                self._writer, self._afterwards = None, []  # these hold on to what they show

    def _begin(self) -> None:
        """Begin to write; for another program that does, wait no longer than patience lasts."""
        if left() >= PATIENCE:
            self._connection.execute("BEGIN IMMEDIATE")
            return
        began = time.monotonic()
        try:
            self._wait_at_most(left())
            self._connection.execute("BEGIN IMMEDIATE")
        finally:
            self._wait_at_most(PATIENCE)
            count_waiting(time.monotonic() - began)

    def _wait_at_most(self, seconds: float) -> None:
        """Say how long a statement waits for another program that has the database."""
        self._connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def _show(self) -> None:
        for action in self._afterwards:
            action()

    def _check_files(self) -> None:
        """Refuse to write where SQLite would write into nothing, or another process may, too."""
        for path, opened in self._files.items():
            if opened != _identity(path):
                other = "another file now" if path.exists() else "not there any more"
                raise StoreCorrupt(f"{path} is {other}: {MISSED[path.name]}")

    def outermost(self, lock: threading.RLock) -> AbstractContextManager[object]:
        """Give a turn that is taken before a transaction; refuse it inside one of this thread.

        What it would write, from a progress callback or a signal's handler, would be undone with
        the outer write; and two threads that do so could wait for each other for ever.
        """
        if self._writer == threading.get_ident():
            raise inside_another()
        return in_turn(lock)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # some faults end the transaction themselves
            self._connection.execute("ROLLBACK")

    def checkpoint(self) -> None:
        """Bring the log into the database before a large change, as far as readers let it be."""
        with self._turn(), suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _give_back(self) -> None:
        """Give the disk back the log of what was rolled back, where nobody reads from it."""
        with suppress(sqlite3.OperationalError):
            self._wait_at_most(0)
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._wait_at_most(PATIENCE)

    def _pages(self) -> int:
        """Count the pages of the database, with those that a transaction adds."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        return int(pages)

    def _check_room(self, before: int) -> None:
        """Refuse to grow by what the disk takes into the log, and not from there any further.

        The log could then never begin anew: in the end it would take nothing, no deletion either,
        were it by many small changes.
        """
        if self.home is None or self._pages() <= before:
            return
        if self._promised(self.home) + UNWRITTEN > shutil.disk_usage(self.home).free:
            raise DiskFull(self.home)

    def _promised(self, home: Path) -> int:
        """Say how many bytes the database will grow by, of what is in the log."""
        (size,) = self._connection.execute("PRAGMA page_size").fetchone()
        return self._pages() * int(size) - (home / FILE).stat().st_size

    def _take_room(self) -> None:
        """Let the database grow at once where the disk is nearly full.

        Later changes, which it need not grow for, could take that room into the log.
        """
        if self.home is None:
            return
        with suppress(OSError, sqlite3.Error):  # what was written is durable, and shown
            promised = self._promised(self.home)
            if promised > 0 and shutil.disk_usage(self.home).free < promised + JOURNAL:
                self.checkpoint()

    def after_commit(self, action: Callable[[], None]) -> None:
        """Do something once this is durable; a rollback forgets it.

        It may not fail, and one that a signal interrupts is done again from its beginning.
        """
        self._afterwards.append(action)

    def create(
        self,
        name: str,
        *,
        key_column: str,
        columns: Sequence[Column],
        encoder: str,
        temperature: str,
        tolerance: float | None,
        precision: Precision,
    ) -> Record:
        """Add an empty dataset."""
        now = time.time()
        with self.transaction():
            try:
                cursor = self._connection.execute(
                    "INSERT INTO datasets (name, key_column, encoder, temperature, tolerance,"
                    " precision, created, modified) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (name, key_column, encoder, temperature, tolerance, precision, now, now),
                )
            except sqlite3.IntegrityError as fault:
                raise DatasetExists(name) from fault
            dataset = int(cursor.lastrowid or 0)
            self.set_columns(dataset, columns)
            return self.record(dataset)

    def set_columns(self, dataset: int, columns: Sequence[Column]) -> None:
        """Replace the description of a dataset's columns."""
        with self.transaction():
            self._connection.execute("DELETE FROM columns WHERE dataset = ?", (dataset,))
            self._connection.executemany(
                "INSERT INTO columns (dataset, position, name, type, width, attribute, unit)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(dataset, place, *astuple(column)) for place, column in enumerate(columns)],
            )

    def set_encoder(self, dataset: int, spec: str, identity: str, dimension: int) -> None:
        """Note what made the dataset's vectors."""
        with self.transaction():
            self._connection.execute(
                "UPDATE datasets SET encoder = ?, encoder_identity = ?, dimension = ? WHERE id = ?",
                (spec, identity, dimension, dataset),
            )

    def set_settings(self, dataset: int, settings: Mapping[str, object]) -> None:
        """Keep those of temperature, tolerance and precision that are given."""
        with self.transaction():
            self._connection.execute(
                "UPDATE datasets SET temperature = :temperature, tolerance = :tolerance,"
                " precision = :precision WHERE id = :id",
                {**vars(self.record(dataset)), **settings},
            )

    def set_fit(self, dataset: int, fit: Fit) -> None:
        """Keep what was fitted to a dataset's values."""
        with self.transaction():
            self._connection.execute(
                "UPDATE datasets SET fitted = ?, margins = ?, fitted_entries = ?, moved = 0"
                " WHERE id = ?",
                (fit.temperature, fit.margins, fit.entries, dataset),
            )

    def insert(
        self,
        dataset: int,
        entries: Iterable[tuple[str, Sequence[Value], Rows]],
    ) -> tuple[list[int], float]:
        """Add new entries in order; give their ids and their time of arrival."""
        arrived = round(time.time(), 6)  # no finer than a datetime or ISO 8601 can say back
        with self.transaction():
            version = self.record(dataset).version
            first = self._next_entry()
            cursor = self._connection.executemany(
                "INSERT INTO entries (id, dataset, key, arrived, value, vector, changed)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (first + place, dataset, key, arrived, _json(values), _blob(vector), version)
                    for place, (key, values, vector) in enumerate(entries)
                ),
            )
            self._count_moved(dataset, cursor.rowcount)
            return list(range(first, first + cursor.rowcount)), arrived

    def _next_entry(self) -> int:
        """Give the id that AUTOINCREMENT would: in a transaction, nobody else takes it."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'entries'"
        last = self._connection.execute(query).fetchone()
        return 1 if last is None else int(last[0]) + 1

    def update_values(self, dataset: int, changes: Iterable[tuple[int, Sequence[Value]]]) -> None:
        """Give entries of a dataset other values."""
        with self.transaction():
            asked = count()
            cursor = self._connection.executemany(
                f"UPDATE entries SET value = ?, {CHANGED} WHERE id = ?",
                (
                    (_json(values), entry)
                    for (entry, values), _ in zip(changes, asked, strict=False)
                ),
            )
            self._count_moved(dataset, _all(cursor.rowcount, of=next(asked)))

    def update_vectors(self, changes: Iterable[tuple[int, Rows]]) -> None:
        """Give entries other vectors."""
        with self.transaction():
            self._connection.executemany(
                f"UPDATE entries SET vector = ?, {CHANGED} WHERE id = ?",
                ((_blob(vector), entry) for entry, vector in changes),
            )

    def delete_entries(
        self, dataset: int, entries: Sequence[int], *, listed: Sequence[int] | None
    ) -> None:
        """Remove entries of a dataset, and list those that an index on disk may have.

        With None no older index is of use then.
        """
        with self.transaction():
            ids = [(entry,) for entry in entries]
            if listed is not None:
                self._connection.executemany(
                    "INSERT INTO deletions SELECT entries.id, dataset, version FROM entries"
                    " JOIN datasets ON datasets.id = dataset WHERE entries.id = ?",
                    [(entry,) for entry in listed],
                )
            else:
                self._forget(dataset, until=self.record(dataset).version)
            cursor = self._connection.executemany("DELETE FROM entries WHERE id = ?", ids)
            self._count_moved(dataset, _all(cursor.rowcount, of=len(ids)))

    def _count_moved(self, dataset: int, entries: int) -> None:
        self._connection.execute(
            "UPDATE datasets SET moved = moved + ? WHERE id = ?", (max(entries, 0), dataset)
        )

    def forget_deletions(self, dataset: int, *, until: int) -> None:
        """Forget the deletions up to a version: an older index on disk is of no use then.

        Nothing is written where there are none.
        """
        query = "SELECT 1 FROM deletions WHERE dataset = ? AND changed <= ? LIMIT 1"
        with self._turn():
            if self._connection.execute(query, (dataset, until)).fetchone() is None:
                return
        with self.transaction():
            self._forget(dataset, until=until)

    def _forget(self, dataset: int, *, until: int) -> None:
        self._connection.execute(
            "UPDATE datasets SET forgotten = max(forgotten, ?) WHERE id = ?", (until, dataset)
        )
        self._connection.execute(
            "DELETE FROM deletions WHERE dataset = ? AND changed <= ?", (dataset, until)
        )

    def delete_dataset(self, dataset: int) -> None:
        """Remove a dataset with all it holds."""
        with self.transaction():
            self._connection.execute("DELETE FROM datasets WHERE id = ?", (dataset,))

    def touch(self, dataset: int, name: str) -> None:
        """Count one more change of a dataset, and refuse it if the dataset is gone."""
        with self.transaction():
            cursor = self._connection.execute(
                "UPDATE datasets SET version = version + 1, modified = ? WHERE id = ?",
                (time.time(), dataset),
            )
            if cursor.rowcount == 0:
                raise UnknownDataset(name, [record.name for record in self.records()])


def _all(found: int, *, of: int) -> int:
    """Give how many entries a statement found; refuse it where those in memory are not there."""
    if max(found, 0) != of:
        raise StoreCorrupt("the database has not the entries that are shown of it: open it anew")
    return found


def inside_another() -> RuntimeError:
    """Make the error of a write in the middle of another one by the same thread."""
    return RuntimeError(
        "a progress callback or a signal handler wrote inside another write of the same "
        "dictionary or folder: one of the two was given up"
    )


def _hold(home: Path) -> FileLock:
    """Make the folder if need be, and take its lock."""
    lock = FileLock(home / LOCK, thread_local=False)  # any thread may close the store
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as fault:
        raise StoreLocked(home) from fault
    except OSError as fault:  # a folder that may only be read, or a file in its place
        if os.path.exists(home / LOCK) and not os.access(home / LOCK, os.W_OK):
            barred = fault.errno in (errno.EACCES, errno.EPERM)
            perhaps = "; it is another user's, perhaps" if barred else ""
            raise ReadOnlyStore(
                f"cannot write to {home / LOCK}: {fault.strerror}{perhaps}"
            ) from fault
        why = "it is no folder" if isinstance(fault, FileExistsError) else fault.strerror or fault
        raise ReadOnlyStore(
            f"cannot write to {home}: {why}; "
            "make it a folder that may be written to, or name another"
        ) from fault
    return lock


def _check_kinds(home: Path) -> None:
    """Refuse what is no file in the place of one of SQLite's, which waits for a pipe for ever."""
    for path in (home / f"{FILE}{ending}" for ending in ("", "-journal", "-wal", "-shm")):
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "a pipe or a device"
            raise StoreCorrupt(f"{path} is {what}, where a file of the database should be")


def _only_readable(file: Path) -> bool:
    """SQLite opens such a file all the same, and refuses the first write."""
    return os.access(file, os.R_OK) and not os.access(file, os.W_OK)


def _damaged(home: Path, fault: Exception) -> StoreCorrupt | None:
    """Give what a fault says of a database that is not what was written."""
    # Of what is whole, nothing that is written here meets a constraint.
    known = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)
    code = getattr(fault, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_IOERR:
        return StoreCorrupt(f"{home / FILE} cannot be used: {fault}; its disk may be failing")
    if not _no_text(fault) and code not in known:
        return None
    return StoreCorrupt(
        f"{home / FILE} is damaged: {fault}; end whatever has it open, delete {LOG}, "
        f"{FILE}-shm and generations, and put a copy in its place"
    )


def _no_text(fault: Exception) -> bool:
    """Tell the fault of a text that is not UTF-8: Python's own, without a code of SQLite's."""
    return isinstance(fault, UnicodeDecodeError) or str(fault).startswith("Could not decode")


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell a file from any other that takes its name; None if there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def _full(home: Path, fault: BaseException) -> DiskFull | None:
    """Give what a fault says of a disk that takes no more.

    SQLite tells a full one; a quota, or a limit on a file's size, looks like a disk that fails.
    """
    code = getattr(fault, "sqlite_errorcode", None)
    sure = code == sqlite3.SQLITE_FULL
    refused = code in (
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,  # where a network's file system tells of a full disk
        sqlite3.SQLITE_IOERR_SHMSIZE,
    )
    return DiskFull(home, sure=sure) if sure or refused else None


def _unopened(home: Path, fault: Exception) -> SoftDictError:
    """Say why a database could not be opened.

    One that another process may write is never opened as ``immutable``, which would need no file
    beside it: SQLite would then see neither that process's locks nor its log.
    """
    file = home / FILE
    code = getattr(fault, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:  # another program has it for itself, for longer than PATIENCE
        return StoreLocked(home)
    barred = code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    if barred and os.access(file, os.R_OK) and file.is_file() and not os.access(home, os.W_OK):
        return StoreCorrupt(
            f"{file} can only be read by who may write to its folder, for SQLite keeps files "
            "beside a database that is read: grant that, or read a copy of the folder"
        )
    if barred and file.exists() and not os.access(file, os.R_OK):
        return StoreCorrupt(f"{file} may not be read by this user; grant that")
    if getattr(fault, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHMMAP:
        return StoreCorrupt(
            f"{home} is on a file system that cannot share memory between programs, which SQLite "
            "needs (a network's, or one that a virtual machine or a container has from its host): "
            "name a folder on a disk of this machine"
        )
    if "STRICT" in str(fault):  # of a table: the word that no SQLite of before 3.37 knows
        return StoreCorrupt(
            f"{file} was made by a newer SQLite than the {sqlite3.sqlite_version} of this Python, "
            "which cannot read it: use a Python that has 3.37 or newer"
        )
    return _full(home, fault) or StoreCorrupt(
        f"{file} is not a database this version reads: {fault}"
    )


def _prepare(connection: sqlite3.Connection, *, read_only: bool) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if read_only and not tables:  # whoever began it was killed at once
        raise StoreCorrupt("the database is still empty: load something first")
    if read_only and application == APPLICATION and version in MIGRATIONS:
        raise StoreCorrupt(
            f"the database is of schema {version}: start the service once, or open it for writing, "
            f"which brings it to schema {SCHEMA_VERSION}"
        )
    if tables and application != APPLICATION:
        raise StoreCorrupt(f"{FILE} is a database of another program; name another folder")
    if tables and version not in {*MIGRATIONS, SCHEMA_VERSION}:
        raise StoreCorrupt(
            f"the database is of schema {version} and this version of softdict reads "
            f"{SCHEMA_VERSION}; export with the version that wrote it, and load again"
        )
    if read_only:
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # else macOS leaves what is written in the drive
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL}")
    if not tables:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_spoken(SCHEMA)} PRAGMA application_id = {APPLICATION};"
            f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
        return
    for older in range(version, SCHEMA_VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE; {_spoken(MIGRATIONS[older])} PRAGMA user_version = {older + 1};"
            " COMMIT;"
        )
    # So that the log is there: a database that was in another mode gets it with its first use.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _spoken(script: str) -> str:
    """Write a script as the SQLite of this Python reads it, which may be one of before 3.37."""
    strict = sqlite3.sqlite_version_info >= (3, 37)
    return script if strict else script.replace(") STRICT;", ");")


def _blob(vector: Rows) -> bytes:
    return vector.astype("<f4").tobytes()


def _values(text: str) -> tuple[Value, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in json.loads(text))

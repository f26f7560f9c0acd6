"""The facade: a mapping whose values are also found by meaning.

It composes the store (the truth), the moments of the dataset in it (what readers see, and whose
turn it is to write), the encoder and the formula.
"""

from __future__ import annotations

import os
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, NoReturn, Self

import numpy as np

from index import generation
from index.answering import answer_exactly, answer_naming, answer_softly, parse_question
from index.answers import (
    Answer,
    Column,
    Comparison,
    Description,
    Entry,
    LoadReport,
    Mode,
    Precision,
    Progress,
    bare,
)
from index.comparing import blend_by_hand, compared
from index.embedding import Embedding
from index.encoders import Encoder, EncoderWorker, check_own, check_spec, open_encoder
from index.errors import (
    EncoderMismatch,
    EncoderUnavailable,
    Fault,
    InvalidRequest,
    NotEnoughMemory,
    UnknownEntry,
)
from index.kept import prune
from index.loading import (
    LoadOptions,
    Table,
    check_key,
    infer_columns,
    read_table,
    write_table,
)
from index.memory import check_fits, check_room
from index.moments import Moments
from index.naming import LONGEST_KEY, check_name
from index.pace import Pace, Report
from index.settings import (
    new_settings,
    parse_settings,
    standing_temperature,
    standing_tolerance,
)
from index.snapshot import Place, Snapshot
from index.store import Fit, Record, Store, inside_another, named_folder
from index.temperature import Temperature
from index.values import check_columns
from index.vectors import VectorBlock
from index.wording import counted
from index.writing import (
    Changes,
    Row,
    as_entries,
    cast_rows,
    done_load,
    first_values,
    losses,
    planned_load,
    prepare,
    table_rows,
)

_RAISE: Any = object()  # no default was given


class _Items(ItemsView[str, Any]):
    """Keys with their values; going through them shows those of one moment."""

    _mapping: SoftDict

    def __contains__(self, item: object) -> bool:  # what is no pair is in no dict
        return isinstance(item, tuple) and len(item) == 2 and super().__contains__(item)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._mapping._held()


class _Values(ValuesView[Any]):
    """Values in the order of the keys; going through them shows those of one moment."""

    _mapping: SoftDict

    def __contains__(self, value: object) -> bool:
        return any(held is value or held == value for held in self)

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._held())


class SoftDict(MutableMapping[str, Any]):
    """A dictionary that answers by meaning.

    ``d[key]`` is exact, as in a dict; ``d.search(query)`` attends to every key. A value
    is a number, a string, a list of numbers, or a mapping of column names to these.
    One text among the first numbers of a column makes it a column of texts, which holds
    the numbers as theirs ("7"), as it does True ("true"); ``columns`` says otherwise.
    What is read is what is held: the bare value where there is one column, however it was
    given, and else a dict; a vector as a tuple, a whole number as an int, and truth, a day
    or a time as text ("true", "2026-01-31"). It is a copy: to change a value, set the key.
    This constructor keeps everything in memory; ``SoftDict.open`` is the durable one.

    Parameters
    ----------
    entries : mapping or iterable of pairs, optional
        The first entries; the value columns' types are inferred from them. A column that is
        named with no value but None is undecided until it gets one.
    columns : iterable of Column, optional
        The value columns, where inference is not wanted.
    encoder : str or Encoder
        ``builtin``, ``st:NAME``, ``random``, ``circle``, or an encoder of yours.
    temperature : float or str
        A number in units of cosine, ``auto``, ``sqrt_d`` or ``effective_keys:N``.
    tolerance, precision
        As for ``configure``.
    name : str
        What answers and errors call it.

    Raises
    ------
    InvalidRequest
        With what is wrong with the name, the columns, the encoder or a setting.
    InvalidKey, WrongValue
        If an entry will not do.
    EncoderUnavailable
        If there are entries and the encoder cannot be opened here.
    """

    def __init__(
        self,
        entries: Mapping[str, object] | Iterable[tuple[str, object]] = (),
        *,
        columns: Iterable[Column] = (),
        encoder: str | Encoder = "builtin",
        temperature: float | str | Temperature = "auto",
        tolerance: float | None = None,
        precision: Precision = "full",
        name: str = "dictionary",
    ) -> None:
        check_name(name)
        if isinstance(encoder, str):
            check_spec(encoder)
            spec, given = encoder, None
        else:
            check_own(encoder)
            spec, given = encoder.identity, encoder
        settings = new_settings(temperature, tolerance, precision)
        columns = check_columns(columns)
        store = Store(None)
        record = store.create(name, key_column="key", columns=columns, encoder=spec, **settings)
        self._attach(store, record, given)
        self.update(entries)

    @classmethod
    def stored(cls, store: Store, record: Record, *, of_catalog: bool = True) -> SoftDict:
        """Stand for a dataset in a store; its entries are read when first needed."""
        made = cls.__new__(cls)
        made._attach(store, record, of_catalog=of_catalog)
        return made

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str = "dictionary",
        encoder: str = "builtin",
        temperature: float | str | Temperature = "auto",
        tolerance: float | None = None,
        precision: Precision = "full",
    ) -> SoftDict:
        """Open the durable dictionary ``name`` in the folder ``path``, new if need be.

        ``encoder`` and the settings are for a new one. Close it, or use it in a
        ``with`` statement: a folder has one writer at a time.

        Raises
        ------
        InvalidRequest
            If the folder, the name, the encoder or a setting will not do.
        StoreLocked
            If somebody else has the folder open for writing.
        StoreCorrupt
            If the folder holds something this version cannot read.
        ReadOnlyStore
            If it cannot be written to: it may only be read, or is a file.
        """
        check_name(name)
        check_spec(encoder)
        settings = new_settings(temperature, tolerance, precision)
        folder = named_folder(path)
        store = Store(folder)
        try:
            records = {record.name: record for record in store.records()}
            prune(folder)
            generation.tidy(folder, [record.id for record in records.values()])
            record = records.get(name) or store.create(
                name, key_column="key", columns=(), encoder=encoder, **settings
            )
        except BaseException:
            store.close()
            raise
        return cls.stored(store, record, of_catalog=False)

    def _attach(
        self,
        store: Store,
        record: Record,
        given: Encoder | None = None,
        *,
        of_catalog: bool = False,
    ) -> None:
        self._moments = Moments(store, record)
        self._of_catalog = of_catalog
        self._given = None if given is None else open_encoder(given)
        self._own = None if self._given is given else self._given  # it ends with this dictionary

    def close(self) -> None:
        """Close the folder this dictionary was opened from, or the encoder it was given.

        A catalog's dataset has nothing of its own to close: it ends with the catalog.
        """
        if self._of_catalog:
            return
        self.stop()
        if self._own is not None:
            self._own.close()
        self._moments.store.close()

    def stop(self, *, wait: bool = True) -> None:
        """Cancel what goes on in the background, for good; an unfinished sketch leaves nothing."""
        self._moments.rebuilder.stop(wait=wait)

    def retire(self) -> None:
        """Stop, and drop what is kept beside the store: the dataset is there no more."""
        self._moments.end()

    @property
    def turn(self) -> AbstractContextManager[object]:
        """The writers' turn: ``with d.turn`` looks and then writes, with nobody in between."""
        return self._moments.turn

    @property
    def settling(self) -> bool:
        """Whether something goes on in the background that ``settle`` would wait for."""
        return self._moments.rebuilder.busy

    def settle(self) -> None:
        """Wait for what goes on in the background: a large dataset's sketch (see ``search``).

        Do so before a fork: a child of a dictionary that is being sketched scores every key from
        then on, and may wait for ever at a lock that NumPy's BLAS held.
        """
        self._moments.rebuilder.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse: of two over one store, neither would see what the other writes."""
        raise TypeError(
            "a SoftDict is not copied or pickled: take dict(d.items()), or open its folder in the "
            "other process, with Catalog.open(folder, read_only=True) if this one has it open"
        )

    def __repr__(self) -> str:
        if not self._moments.was_read:
            return f"<SoftDict {self.name!r}>"
        return f"<SoftDict {self.name!r}: {counted(len(self), 'entry', 'entries')}>"

    # What it is

    @property
    def id(self) -> int:
        """Its number in the store."""
        return self._record.id

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._record.columns

    @property
    def key_column(self) -> str:
        return self._record.key_column

    @property
    def version(self) -> int:
        """How many changes it has seen."""
        return self._record.version

    @property
    def encoder(self) -> EncoderWorker:
        """The encoder, opened on first use.

        Raises
        ------
        EncoderMismatch
            If the stored vectors came from another one.
        EncoderUnavailable
            If it cannot be opened in this process.
        """
        return self._encoder_of(self._record)

    def _encoder_of(self, record: Record) -> EncoderWorker:
        spec, stored = record.encoder, record.encoder_identity
        try:
            worker = self._worker(spec)
        except InvalidRequest as fault:
            raise EncoderUnavailable(
                f"dataset {self.name!r} was written by {spec!r}, which this process lacks"
            ) from fault
        if stored is not None and stored != worker.identity:
            raise EncoderMismatch(self.name, stored, worker.identity)
        return worker

    def _worker(self, spec: str) -> EncoderWorker:
        """Open an encoder by name; the one that was given goes by its identity."""
        if self._given is not None and spec == self._given.identity:
            return self._given
        check_spec(spec)
        return open_encoder(spec)

    @property
    def outdated(self) -> bool:
        """Whether another version of ``builtin`` made its vectors: ``reencode`` helps."""
        record = self._record
        stored = record.encoder_identity
        if record.encoder != "builtin" or stored is None:
            return False
        return stored != open_encoder("builtin").identity

    def describe(self) -> Description:
        """Tell what it holds, without opening the encoder."""
        record, snapshot = self._moments.present
        in_use, source = standing_temperature(record.temperature, record.fitted, record.dimension)
        return Description(
            name=record.name,
            entries=len(snapshot),
            key_column=record.key_column,
            columns=record.columns,
            missing={
                column.name: len(snapshot) - int(np.count_nonzero(having))
                for column, having in zip(snapshot.columns, snapshot.having, strict=True)
            },
            encoder=record.encoder_identity or record.encoder,
            dimension=record.dimension or 0,
            temperature=record.temperature,
            temperature_in_use=in_use,
            temperature_source=source,
            tolerance=record.tolerance,
            tolerance_in_use=standing_tolerance(record),
            precision=record.precision,
            precision_in_use="half" if snapshot.rounding else "full",
            version=record.version,
            created=record.created,
            modified=record.modified,
        )

    # The mapping

    def __len__(self) -> int:
        return len(self._snapshot)

    def __iter__(self) -> Iterator[str]:
        snapshot = self._snapshot
        return (snapshot.key(place) for place in snapshot.places())

    def items(self) -> ItemsView[str, Any]:
        """Give keys with their values; going through them shows those of one moment.

        So ``dict(d.items())`` is whole where others write, and ``dict(d)``, which asks key by key,
        raises KeyError if one of them goes meanwhile.
        """
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        return _Values(self)

    def _held(self) -> Iterator[tuple[str, Any]]:
        snapshot = self._snapshot
        return ((snapshot.key(p), bare(snapshot.parted(p)[0])) for p in snapshot.places())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._snapshot.find(key) is not None

    def __getitem__(self, key: str) -> Any:
        snapshot = self._snapshot
        values, _ = snapshot.parted(self._find(snapshot, key))
        return bare(values)

    def get(self, key: str, default: Any = None) -> Any:
        """Give what a key holds, or the default.

        ``Mapping``'s own would take a dataset that was deleted for a key that is not there.
        """
        try:
            return self[key]
        except UnknownEntry:
            return default

    def __setitem__(self, key: str, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: str) -> None:
        self._remove(lambda snapshot: [self._find(snapshot, key)])

    def pop(self, key: str, default: Any = _RAISE) -> Any:
        """Remove a key and give what it held; without it the default, or UnknownEntry."""
        with self._moments.turn:  # of several threads, one gets it
            if key not in self and default is not _RAISE:
                return default
            value = self[key]
            del self[key]
            return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the first entry and give it; KeyError where there is none."""
        with self._moments.turn:
            return super().popitem()

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Give what a key holds; where it is not there, put the default first."""
        with self._moments.turn:
            if key not in self:
                self[key] = default
            return self[key]

    def clear(self) -> None:
        """Remove every entry in one transaction; the columns stay, with their types."""
        self._remove(lambda snapshot: list(snapshot.places()))

    def entry(self, key: str) -> Entry:
        """Give what a key's columns hold, attributes too, and its time of arrival, in seconds
        since 1970: ``datetime.fromtimestamp(entry.arrived, UTC)`` is one for ``as_of``.

        Raises
        ------
        UnknownEntry
            If no entry has exactly that key (it is a KeyError too).
        """
        snapshot = self._snapshot
        return snapshot.entry(self._find(snapshot, key))

    def _find(self, snapshot: Snapshot, key: object) -> Place:
        place = snapshot.find(key) if isinstance(key, str) else None
        if place is None:
            raise UnknownEntry(key, self.name)
        return place

    def entries(self) -> Iterator[Entry]:
        """Go through the entries in order, as they are now."""
        snapshot = self._snapshot
        return map(snapshot.entry, snapshot.places())

    def page(self, after: int, limit: int) -> tuple[list[Entry], int]:
        """Give ``limit`` entries in order, behind the first ``after``, and how many there are."""
        wrong = [name for name, n in (("after", after), ("limit", limit)) if n < 0]
        if wrong:
            raise InvalidRequest(*(Fault(name, "write 0 or more") for name in wrong))
        snapshot = self._snapshot
        places = islice(snapshot.places(after), limit)
        return [snapshot.entry(place) for place in places], len(snapshot)

    def put(self, key: str, value: object) -> bool:
        """Set a key's values, and tell whether the key is new.

        ``value`` is a mapping of column names, or the bare value where there is one
        column of values; values left out are missing. A key that exists keeps its place
        in the order, its time of arrival, and the attributes that are left out: so
        ``d[key] = d[key]`` changes no value.

        Raises
        ------
        InvalidKey, InvalidRequest, WrongValue
            If the key, a column's name or a value will not do.
        """
        return self._put({key: value})[0] == 1

    def put_entry(self, key: str, value: object) -> tuple[Entry, bool]:
        """Put as ``put`` does, and give the entry as it is then, and whether the key is new."""
        new, after = self._put({key: value})
        return after.entry(self._find(after, key)), new == 1

    def update(self, entries: Any = (), /, **named: object) -> None:
        """Set many keys in one transaction: all of them or none; see ``put``."""
        # Of another SoftDict, what it holds at one moment: others may write to it.
        given = entries.items() if isinstance(entries, SoftDict) else entries
        self._put({**as_entries(given), **named})

    def __ior__(self, entries: Any) -> Self:
        self.update(entries)
        return self

    def load(
        self,
        source: Any,
        options: LoadOptions | None = None,
        *,
        filename: str | None = None,
        dry_run: bool = False,
        progress: Report | None = None,
    ) -> LoadReport:
        """Put every row of a file (a path, bytes or a stream) in one transaction.

        A dry run reads and types everything, for these columns, and writes nothing.

        Raises
        ------
        UnreadableSource, BadRows, InvalidRequest
            If the file will not do; then nothing is changed.
        NotEnoughMemory
            If its new entries would not fit, before anything is encoded.
        """
        options, expected = options or LoadOptions(), self.columns
        with read_table(
            source,
            options,
            filename=filename,
            progress=progress,
            expected=expected,
            expected_key=self.key_column,
        ) as table:
            into = _ready(self._snapshot, lambda _: table.columns)
            planned = planned_load(self.name, table, losses(table, into, options))
            if dry_run:
                for _ in table_rows(table, into, expected):
                    pass  # it is the casting that finds faults
                return planned
            self._check_fits(table)
            changes, _ = self._take_in(
                lambda _: table.columns,
                lambda into: table_rows(table, into, expected),
                total=table.entries,
                progress=progress,
            )
            return done_load(planned, table.entries, changes)

    def export(
        self, format: str, *, decimal: Literal["point", "comma"] = "point"
    ) -> Iterator[bytes]:
        """Write the entries as ``csv``, ``jsonl`` or ``parquet``, piece by piece.

        With a decimal comma, CSV is as spreadsheets read it where that is usual: with ``;``
        between cells, and a byte order mark.
        """
        record, snapshot = self._moments.present
        entries = map(snapshot.entry, snapshot.places())
        return write_table(format, record.key_column, record.columns, entries, decimal=decimal)

    # Asking

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        temperature: float | str | Temperature | None = None,
        mode: Mode = "soft",
        as_of: object = None,
        where: str | Mapping[str, Any] | None = None,
        tolerance: float | None = None,
        explain: bool = False,
    ) -> Answer:
        """Attend from a query to every allowed key and blend their values.

        Parameters
        ----------
        query : str
            What to ask for.
        k : int
            How many matches to list. It changes no weight.
        temperature : float or str, optional
            As for the constructor; the dictionary's own setting if left out.
        mode : {"soft", "exact"}
            ``exact`` answers as a plain dict would.
        as_of : int, str or datetime, optional
            Attend only to the first entries, or to those arrived up to a moment.
        where : str or mapping, optional
            Attend only to entries of which a condition on columns holds, such as
            ``price >= 5 and country = "ES"``; see ``index.where``.
        tolerance : float, optional
            How far the weights may be from exact attention (total variation, at 95 %), so
            that a large dataset can be answered from a sample of its keys; 0 scores every
            key. The dictionary's own setting if left out.
        explain : bool
            Add every step of the calculation, with its numbers.

        Raises
        ------
        InvalidRequest
            With all that is wrong with the arguments.
        EncoderMismatch, EncoderUnavailable
            If the query cannot be encoded as the keys were.
        """
        return self.search_many(
            [query],
            k=k,
            temperature=temperature,
            mode=mode,
            as_of=as_of,
            where=where,
            tolerance=tolerance,
            explain=explain,
        )[0]

    def search_many(
        self,
        queries: Iterable[str],
        *,
        k: int = 10,
        temperature: float | str | Temperature | None = None,
        mode: Mode = "soft",
        as_of: object = None,
        where: str | Mapping[str, Any] | None = None,
        tolerance: float | None = None,
        explain: bool = False,
    ) -> list[Answer]:
        """Answer many queries, by one matrix product; see ``search``."""
        record, snapshot = self._moments.present
        question = parse_question(
            queries,
            k=k,
            temperature=temperature,
            mode=mode,
            as_of=as_of,
            where=where,
            tolerance=tolerance,
            columns=snapshot.columns,
            key_column=record.key_column,
            explain=explain,
        )
        if mode == "exact":
            return answer_exactly(question, record, snapshot)
        return answer_softly(question, record, snapshot, self._encoder_of(record))

    def compare(
        self,
        query: str,
        *,
        weights: Mapping[str, float] | None = None,
        k: int = 10,
        temperature: float | str | Temperature | None = None,
        as_of: object = None,
        where: str | Mapping[str, Any] | None = None,
        tolerance: float | None = None,
    ) -> Comparison:
        """Put a query to an exact dict, to attention, and to weights chosen by hand.

        ``as_of`` and ``where`` leave the weights by hand alone.

        Raises
        ------
        InvalidRequest
            As for ``search``; or if weights name unknown keys, are negative, or are all
            zero.
        """
        record, snapshot = self._moments.present
        question = parse_question(
            [query],
            k=k,
            temperature=temperature,
            as_of=as_of,
            where=where,
            tolerance=tolerance,
            columns=snapshot.columns,
            key_column=record.key_column,
        )
        manual = None if weights is None else blend_by_hand(self.name, snapshot, weights)
        encoder = self._encoder_of(record)
        soft, named = answer_naming(question, record, snapshot, encoder, weights or ())
        (exactly,) = answer_exactly(question, record, snapshot)
        narrowed = not (question.where is None and question.as_of is None)
        return compared(soft, exactly, manual, named, narrowed=narrowed)

    # Settings

    def set_temperature(self, temperature: float | str | Temperature | None) -> None:
        """Keep another temperature setting; ``auto``, or None, is fitted anew."""
        self.configure(temperature=temperature)

    def set_tolerance(self, tolerance: float | None) -> None:
        """Keep another tolerance (see ``search``); None is the default one."""
        self.configure(tolerance=tolerance)

    def configure(self, **settings: object) -> None:
        """Keep other settings, in one transaction.

        Parameters
        ----------
        temperature, tolerance
            As for ``set_temperature`` and ``set_tolerance``.
        precision : {"full", "half"}
            ``half`` holds the vectors of a large dataset in 16 bits a component: half the
            memory, and weights that are off by up to 9e-6 / τ, which every answer's ``error``
            counts in. It begins with the next sketch, made in the background; where this
            processor is slow at it, and below 100,000 keys, vectors stay in full.

        Raises
        ------
        InvalidRequest
            With every fault of them; then none is changed.
        """
        parsed = parse_settings(settings)
        with self._moments.turn:
            now, after = self._moments.present
            if parsed.get("precision") == "full" and after.rounding:
                after = self._moments.whole()  # only the store has them in full
            fit = (
                self._moments.fit(after, parsed["temperature"]) if "temperature" in parsed else None
            )
            with self._moments.change(now.version) as store:
                store.set_settings(self.id, parsed)
                self._moments.show(after, fit)

    def reencode(self, encoder: str | None = None, *, progress: Report | None = None) -> None:
        """Give every key the vector of another encoder, or of the present version of its own.

        Cut short, it changes nothing; repeated, it goes on where it was. Writers wait for it only
        where they wrote, or a sketch was finished, meanwhile: then it looks at every key once more.
        """
        spec = self._record.encoder if encoder is None else encoder
        worker = self._worker(spec)
        if not self._encode_anew(spec, worker, progress):
            with self._moments.turn:
                if not self._encode_anew(spec, worker, progress):
                    raise inside_another()

    def _encode_anew(self, spec: str, worker: EncoderWorker, progress: Report | None) -> bool:
        """Encode every key and change to the new vectors; give False if others wrote meanwhile."""
        snapshot = self._snapshot
        check_room(4 * worker.dimension * snapshot.rows, "encode it anew where more is free")
        pace = Pace(progress, len(snapshot))
        vectors: list[VectorBlock] = []
        with Embedding(self._moments.store) as embedding:
            for block in snapshot.blocks:
                there = np.flatnonzero(block.alive)
                rows = np.zeros((len(block), worker.dimension), np.float32)
                rows[there] = embedding.encode([block.keys[row] for row in there], worker, pace)
                vectors.append(VectorBlock(rows))
            with self._moments.turn:
                now, present = self._moments.present
                if present is not snapshot:
                    return False
                after = snapshot.with_vectors(vectors)
                fit = self._moments.fit(after, now.temperature)
                with self._moments.change(now.version) as store:
                    for block, made in zip(snapshot.blocks, vectors, strict=True):
                        store.update_vectors(zip(block.ids.tolist(), made[:], strict=True))
                    store.set_encoder(self.id, spec, worker.identity, worker.dimension)
                    self._moments.show(after, fit)
                    _tell_written(progress, len(snapshot), len(snapshot))
            embedding.done()
        return True

    # Inside

    @property
    def _snapshot(self) -> Snapshot:
        return self._moments.present.snapshot

    @property
    def _record(self) -> Record:
        """The settings alone, for which no entry need be read."""
        return self._moments.record

    # Writing, inside: one path for put, update and load

    def _put(self, given: Mapping[str, object]) -> tuple[int, Snapshot]:
        """Put values by key; give how many keys are new, and the entries as they are then."""
        given = {check_key(key, LONGEST_KEY): value for key, value in given.items()}
        if not given:
            return 0, self._snapshot
        changes, after = self._take_in(
            lambda held: infer_columns(first_values(given.values(), held)),
            lambda into: cast_rows(given, into),
            total=len(given),
        )
        return changes.added, after

    def _take_in(
        self,
        columns: Callable[[Sequence[Column]], Sequence[Column]],
        rows: Callable[[Snapshot], Iterable[Row]],
        *,
        total: int,
        progress: Report | None = None,
    ) -> tuple[Changes, Snapshot]:
        """Put rows of distinct keys, all or none; give what changed, and the entries after it.

        New keys are encoded while others write. If they did, each row is looked at once more, and
        what was encoded serves. ``columns`` are those that the values would make; ``rows`` are
        for the columns and the attributes that a snapshot has.
        """
        record, seen = self._moments.present
        with self._moments.attempt(), Embedding(self._moments.store) as embedding:

            def prepared(
                record: Record, snapshot: Snapshot, earlier: Changes | None = None
            ) -> Changes:
                return prepare(
                    snapshot,
                    rows(snapshot),
                    lambda: self._encoder_of(record),
                    embedding=embedding,
                    total=total,
                    progress=progress,
                    earlier=earlier,
                )

            ready = _ready(seen, columns)
            changes = prepared(record, ready)
            if changes.added > 1_000:  # several megabytes
                self._moments.store.checkpoint()
            with self._moments.turn:
                now, snapshot = self._moments.present
                if snapshot is not seen:
                    ready = _ready(snapshot, columns)
                    changes = prepared(
                        now, ready, changes if now.encoder == record.encoder else None
                    )
                self.apply(ready, changes, since=now.version, progress=progress)
                after = self._snapshot
            embedding.done()
        return changes, after

    def _check_fits(self, table: Table) -> None:
        snapshot = self._snapshot
        dimension = self._record.dimension or self.encoder.dimension
        size = (dimension, table.columns, table.text_bytes)
        try:
            check_fits(table.entries, *size)
        except NotEnoughMemory:  # unless most keys are there: finding that out takes a pass
            if not len(snapshot):
                raise
            check_fits(sum(snapshot.find(key) is None for key, _ in table), *size)

    def apply(
        self,
        snapshot: Snapshot,
        changes: Changes,
        *,
        since: int,
        fit: Fit | None = None,
        progress: Report | None = None,
    ) -> None:
        """Store changes prepared for the version ``since`` in one transaction, and show them.

        ``fit`` is what was fitted to the entries that there will be, if that was done already.
        """
        done, total = len(changes.updates), len(changes.updates) + changes.added
        remade = snapshot.columns != self.columns
        if fit is None:
            fit = self._moments.fit_if_due(
                lambda: snapshot.with_values(changes.updates).with_blocks(changes.fresh),
                len(snapshot) + changes.added if remade else total,
            )
        with self._moments.change(since) as store:
            after = snapshot.with_values(changes.updates)
            places: Iterable[Place] = changes.updates
            if remade:
                store.set_columns(self.id, after.columns)
                places = after.places()  # of entries, too, that came when there were fewer columns
            store.update_values(self.id, ((after.id(p), after.values(p)) for p in places))
            if changes.fresh:
                encoder = self.encoder
                spec = self._record.encoder
                store.set_encoder(self.id, spec, encoder.identity, encoder.dimension)
            for block in changes.fresh:
                block.ids[:], block.arrived[:] = store.insert(self.id, after.stored_rows(block))
                done += len(block)
                _tell_written(progress, done, total)
            self._moments.show(after.with_blocks(changes.fresh), fit)
            _tell_written(progress, total, total)

    def _remove(self, find: Callable[[Snapshot], Sequence[Place]]) -> None:
        """Remove the entries that are found."""
        with self._moments.turn:
            now, snapshot = self._moments.present
            places = find(snapshot)
            after = snapshot.without(places)
            fit = self._moments.fit_if_due(lambda: after, len(places))
            with self._moments.change(now.version) as store:
                ids = [snapshot.id(place) for place in places]
                store.delete_entries(self.id, ids, listed=self._moments.kept(places))
                snapshot.let_go(places)
                self._moments.show(after, fit)


def _ready(snapshot: Snapshot, columns: Callable[[Sequence[Column]], Sequence[Column]]) -> Snapshot:
    """Give the snapshot to write to: a column's first values say what it holds."""
    held = snapshot.columns
    if held and all(column.type != "undecided" for column in held):
        return snapshot
    found = columns(held)
    check_columns(found)
    by_name = {column.name: column for column in found}
    return snapshot.with_columns(
        [
            replace(by_name.get(column.name, column), attribute=column.attribute)
            if column.type == "undecided"
            else column
            for column in held or found
        ]
    )


def _tell_written(progress: Report | None, done: int, total: int) -> None:
    if progress is not None:
        progress(Progress("writing", done, total))

"""A folder of datasets: the durable home of many dictionaries."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from index import generation
from index.answers import Column, Description, LoadReport, Precision
from index.embedding import Embedding
from index.encoders import check_spec, open_encoder
from index.errors import DatasetExists, Fault, InvalidRequest, StoreCorrupt, UnknownDataset
from index.kept import prune
from index.loading import LoadOptions, Table, read_table
from index.memory import check_fits
from index.moments import Moments
from index.naming import check_name, column_name, is_column_name, not_a_name
from index.pace import Report
from index.settings import new_settings
from index.snapshot import Snapshot
from index.softdict import SoftDict
from index.store import Store, named_folder
from index.temperature import Temperature
from index.values import check_columns
from index.writing import Changes, done_load, forgotten, newest_now, planned_load, prepare

log = logging.getLogger(__name__)
IfExists = Literal["error", "replace", "append"]


class Catalog(Mapping[str, SoftDict]):
    """Datasets by name, in order of creation. One process at a time may write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = threading.RLock()
        self._datasets = {record.name: SoftDict.stored(store, record) for record in store.records()}

    @classmethod
    def open(cls, home: str | os.PathLike[str], *, read_only: bool = False) -> Catalog:
        """Open a folder's datasets; to be written, it is made if need be.

        Nothing but the list of datasets is read yet, and no encoder is loaded. What a
        read-only catalog shows of a dataset is how it stood, whole, when first asked for.

        Raises
        ------
        InvalidRequest
            If no folder is named.
        StoreLocked
            If somebody else has the folder open for writing.
        StoreCorrupt
            If the folder holds something this version cannot read, or, to be read only, nothing.
        ReadOnlyStore
            If it is to be written, and that cannot be: it may only be read, or is a file.
        """
        folder = named_folder(home)
        store = Store(folder, read_only=read_only)
        try:
            if not read_only:
                prune(folder)
                generation.tidy(folder, [record.id for record in store.records()])
            return cls(store)
        except BaseException:
            store.close()
            raise

    @staticmethod
    def exists(home: str | os.PathLike[str]) -> bool:
        """Tell whether the folder holds datasets, or did once."""
        return Store.exists(Path(home))

    @property
    def is_new(self) -> bool:
        """Whether it has never had a dataset."""
        return self._store.is_new

    def close(self) -> None:
        """Close the folder, once nothing goes on in the background."""
        for dataset in self._datasets.values():
            dataset.stop()
        self._store.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse: of two over one store, neither would see what the other writes."""
        raise TypeError(
            "a Catalog is not copied or pickled: open its folder in the other process, with "
            "Catalog.open(folder, read_only=True) if this one has it open"
        )

    def __getitem__(self, name: str) -> SoftDict:
        try:
            return self._datasets[name]
        except KeyError:
            raise UnknownDataset(name, list(self._datasets)) from None

    def items(self) -> ItemsView[str, SoftDict]:
        """Give the datasets by name, those that are there now."""
        return self._datasets.items()

    def values(self) -> ValuesView[SoftDict]:
        """Give the datasets that are there now."""
        return self._datasets.values()

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)

    @property
    def _changing(self) -> AbstractContextManager[object]:
        """The turn of who makes or deletes datasets."""
        return self._store.outermost(self._turn)

    def descriptions(self) -> list[Description]:
        """Describe the datasets, but for those that are deleted before their turn comes.

        One that cannot be read is left out, too, and named in the log.
        """
        found = []
        for name in self:
            try:
                found.append(self[name].describe())
            except UnknownDataset:
                continue
            except StoreCorrupt as fault:
                log.warning("dataset %s is not listed: %s", name, fault)
        return found

    def create(
        self,
        name: str,
        *,
        columns: Iterable[Column] = (),
        key_column: str = "key",
        encoder: str = "builtin",
        temperature: float | str | Temperature = "auto",
        tolerance: float | None = None,
        precision: Precision = "full",
    ) -> SoftDict:
        """Add an empty dataset. Without columns it takes them from its first values.

        The settings are those of ``SoftDict.configure``.

        Raises
        ------
        DatasetExists
            If the name is taken.
        InvalidRequest
            If the name, the columns, the encoder or a setting will not do.
        """
        check_name(name)
        key_column = column_name(key_column)
        if not (isinstance(key_column, str) and is_column_name(key_column)):
            raise InvalidRequest(Fault("key_column", not_a_name(str(key_column))))
        check_spec(encoder)
        columns = check_columns(columns)
        settings = new_settings(temperature, tolerance, precision)
        with self._changing, self._store.transaction() as store:
            record = store.create(
                name,
                key_column=key_column,
                columns=columns,
                encoder=encoder,
                **settings,
            )
            dataset = SoftDict.stored(store, record)
            store.after_commit(lambda: self._show(name, dataset))
        return dataset

    def load(
        self,
        name: str,
        source: Any,
        options: LoadOptions | None = None,
        *,
        filename: str | None = None,
        if_exists: IfExists = "error",
        encoder: str = "builtin",
        temperature: float | str | Temperature = "auto",
        tolerance: float | None = None,
        precision: Precision = "full",
        dry_run: bool = False,
        progress: Report | None = None,
    ) -> LoadReport:
        """Make a dataset of a file (a path, bytes or a stream): all of it, or nothing.

        ``if_exists="append"`` puts the rows into the dataset of that name instead, with the
        encoder and the settings it has, and ``"replace"`` changes the old dataset for the new
        one at once. The settings are those of ``SoftDict.configure``. A dry run reads and types
        everything and writes nothing.

        Raises
        ------
        UnreadableSource, BadRows, WrongValue, InvalidRequest
            If the file will not do.
        DatasetExists
            If the name is taken, under ``if_exists="error"``.
        NotEnoughMemory
            If it would not fit in memory, before anything is encoded.
        """
        check_name(name)
        check_spec(encoder)
        settings = new_settings(temperature, tolerance, precision)
        if if_exists not in get_args(IfExists):
            raise InvalidRequest(Fault("if_exists", "write error, replace or append"))
        if if_exists == "error" and name in self:
            raise DatasetExists(name)
        rewound = _rewinder(source)
        while True:
            try:
                if if_exists == "append" and name in self:
                    return self[name].load(
                        source, options, filename=filename, dry_run=dry_run, progress=progress
                    )
                with read_table(
                    source, options or LoadOptions(), filename=filename, progress=progress
                ) as table:
                    check_columns(table.columns)  # a wanted type may find nothing in the file
                    replaces = if_exists == "replace"
                    records = self._store.reader.records() if replaces else []
                    old = next((record for record in records if record.name == name), None)
                    notes = forgotten(old, table, {**settings, "encoder": encoder}) if old else ()
                    if old and records[0] is old and len(records) > 1:
                        notes += (newest_now(records[1].name),)
                    planned = planned_load(name, table, notes)
                    if dry_run:
                        return planned
                    changes = self._make(name, table, encoder, settings, replaces, progress)
                    return done_load(planned, table.entries, changes, created=True)
            except (DatasetExists, UnknownDataset) as fault:
                # Somebody made or replaced the dataset meanwhile: begin anew. Who deleted it did
                # not want another one, without its entries and settings.
                deleted = isinstance(fault, UnknownDataset) and name not in self
                if if_exists != "append" or deleted or not rewound():
                    raise

    def _make(
        self,
        name: str,
        table: Table,
        encoder: str,
        settings: dict[str, Any],
        replaces: bool,
        progress: Report | None,
    ) -> Changes:
        """Make a new dataset of a table, in the place of one of that name if it ``replaces``."""
        worker = open_encoder(encoder)
        check_fits(table.entries, worker.dimension, table.columns, table.text_bytes)
        empty = Snapshot.empty(table.columns)
        with Embedding(self._store) as embedding:
            changes = prepare(
                empty,
                table,
                lambda: worker,
                embedding=embedding,
                total=table.entries,
                progress=progress,
            )
            self._store.checkpoint()
            fit = Moments.fit(empty.with_blocks(changes.fresh), settings["temperature"])
            with self._changing, self._store.transaction() as store:
                if replaces and name in self:
                    store.delete_dataset(self[name].id)
                record = store.create(
                    name,
                    key_column=table.key_column,
                    columns=table.columns,
                    encoder=encoder,
                    **settings,
                )
                dataset = SoftDict.stored(store, record)
                dataset.apply(empty, changes, since=record.version, fit=fit, progress=progress)
                store.after_commit(lambda: self._show(name, dataset))
            embedding.done()
        return changes

    def delete(self, name: str) -> None:
        """Remove a dataset with all it holds."""
        with self._changing:
            self.drop(self[name])

    def drop(self, dataset: SoftDict) -> None:
        """Remove this very dataset, and none that took its place; raise UnknownDataset then."""
        with self._changing:
            if self[dataset.name] is not dataset:
                raise UnknownDataset(dataset.name, list(self._datasets))
            self._store.checkpoint()
            with self._store.transaction() as store:
                store.delete_dataset(dataset.id)
                store.after_commit(lambda: self._show(dataset.name, None))

    def _show(self, name: str, dataset: SoftDict | None) -> None:
        """Show readers a dataset, or none, in the place of the one that had its name."""
        old = self._datasets.get(name)
        if old is not None and old is not dataset:
            old.retire()
        kept = {each: known for each, known in self._datasets.items() if each != name}
        self._datasets = kept if dataset is None else {**kept, name: dataset}


def _rewinder(source: Any) -> Callable[[], bool]:
    """Give what takes a source back to where it stands now, and tells whether that can be."""
    if isinstance(source, (str, os.PathLike)):
        return lambda: Path(source).is_file()  # a pipe is read once
    if not hasattr(source, "read"):
        return lambda: True
    if not (hasattr(source, "seekable") and source.seekable()):
        return lambda: False
    start = source.tell()
    return lambda: bool(source.seek(start) == start)

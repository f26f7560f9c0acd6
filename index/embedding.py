"""Texts to vectors for one write: what is known is looked up, and only the rest is encoded.

A text is known if the store holds its vector under the same encoder, in whichever dataset, or if
a load that was not committed encoded it (``index.kept``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from index.encoders import EncoderWorker, Rows
from index.kept import FEW, KeptVectors
from index.pace import Pace
from index.store import Store


class Embedding:
    """The vectors of one write. Call ``done`` once it is committed.

    It counts texts that were encoded (``embedded``), and those whose vectors were there
    (``reused``).
    """

    def __init__(self, store: Store) -> None:
        store.check_writable()  # before hours of encoding
        self._store = store
        self._kept: dict[str, KeptVectors] = {}  # by encoder, which may change during a write
        self.embedded = self.reused = 0

    def encode(self, texts: Sequence[str], encoder: EncoderWorker, pace: Pace) -> Rows:
        """Give the (n, d) rows of n distinct texts, in their order."""
        kept = self._kept_of(encoder)
        rows = np.empty((len(texts), encoder.dimension), np.float32)
        unknown = self._look_up(texts, encoder, kept, rows)
        self.reused += len(texts) - len(unknown)
        pace.skip(len(texts) - len(unknown))
        pace.begin(len(unknown))
        for batch, made in encoder.batches([texts[place] for place in unknown]):
            places = [unknown[at] for at in batch]
            rows[places] = made
            if len(unknown) >= FEW:
                kept.add([texts[place] for place in places], made)
            self.embedded += len(places)
            pace.encoded(len(places))
        kept.flush()
        return rows

    def _kept_of(self, encoder: EncoderWorker) -> KeptVectors:
        if encoder.identity not in self._kept:
            self._kept[encoder.identity] = KeptVectors(
                self._store.home, encoder.identity, encoder.dimension
            )
        return self._kept[encoder.identity]

    def _look_up(
        self, texts: Sequence[str], encoder: EncoderWorker, kept: KeptVectors, rows: Rows
    ) -> list[int]:
        """Fill in the rows that are known, and give the places of the others."""
        places = {text: place for place, text in enumerate(texts)}
        for text, row in self._store.reader.vectors(encoder.identity, texts):
            if text in places:
                rows[places.pop(text)] = row
        asked = list(places)
        for at, row in kept.find(asked):
            rows[places.pop(asked[at])] = row
        return list(places.values())

    def done(self) -> None:
        """Drop what was kept for the case that this write is not committed."""
        for kept in self._kept.values():
            kept.done()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kept in self._kept.values():
            kept.close()

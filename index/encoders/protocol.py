"""What every encoder offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Kind = Literal["query", "passage"]  # some models put another prompt before each


@runtime_checkable
class Stepwise(Protocol):
    """An encoder that several threads may use at once, and that may be stopped between steps."""

    def steps(
        self, texts: Sequence[str], *, kind: Kind = "passage"
    ) -> Iterator[tuple[list[int], Rows]]:
        """Give places of texts and their rows, until there are all n."""
        ...


class Encoder(Protocol):
    """Turns texts into unit rows.

    ``identity`` is a text that changes whenever the rows would: vectors of two identities are
    never compared. ``default_temperature`` is τ in units of cosine for a dataset whose own
    values say too little. ``calibration`` is None, or holds the coefficients of
    ``index.confidence`` for its scores: ``intercept``, ``top``, ``log_keys``, ``log_many_keys``,
    under ``many_keys`` how many keys they are of before the line has another slope, and under
    ``most_keys`` the greatest number they were fitted on. ``kind`` is ``"passage"`` of keys, and
    ``"query"`` of what is asked: some models put another prompt before each.
    """

    @property
    def identity(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def default_temperature(self) -> float: ...

    @property
    def calibration(self) -> Mapping[str, float] | None: ...

    def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Give the (n, d) unit rows of n texts."""
        ...

    def tokens(self, text: str) -> list[str]:
        """Give the pieces the text is read in: none, or ``[UNK]`` alone, where nothing of it is."""
        ...

"""Batches of texts of like length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def alike(lengths: Sequence[int], total: int, most: int | None = None) -> Iterator[list[int]]:
    """Split places by their lengths, the shortest first.

    Padded to its longest, a batch of several is ``total`` long at most. It has at most ``most``.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == most or (len(batch) + 1) * lengths[place] > total):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch

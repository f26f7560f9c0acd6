"""Encoders without meaning, to see attention itself at work."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from index.encoders.protocol import Kind, Rows

TUTORIAL = ["EL", "PERRO", "TIENE", "EL", "PELO", "SUELTO", "THE", "DOG", "HAS", "LOOSE", "HAIR"]


class RandomEncoder:
    """A fixed random direction for each text: distinct texts are almost orthogonal."""

    dimension = 384
    default_temperature = 0.1
    calibration = None

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.identity = f"random:{seed}"

    def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Draw each text's row from a generator seeded by the text."""
        rows = np.empty((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            seed = hashlib.blake2b(f"{self.seed}:{text}".encode(), digest_size=8).digest()
            direction = np.random.default_rng(int.from_bytes(seed)).standard_normal(self.dimension)
            row[:] = direction / np.linalg.norm(direction)
        return rows

    def tokens(self, text: str) -> list[str]:
        """Give the words."""
        return text.split()


class CircleEncoder:
    """Words at equal angles on the unit circle; a repeated word keeps its last place.

    A word that is not on the circle stands at an angle drawn from its letters.
    """

    dimension = 2
    default_temperature = 1.0
    calibration = None

    def __init__(self, words: Sequence[str] = TUTORIAL) -> None:
        self._angles = {
            word.upper(): 2 * math.pi * place / len(words) for place, word in enumerate(words)
        }
        self.identity = "circle:" + " ".join(words)

    def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Give (cos, sin) of each text's angle."""
        angles = [self._angle(text.upper()) for text in texts]
        return np.array([(math.cos(a), math.sin(a)) for a in angles], np.float32).reshape(-1, 2)

    def _angle(self, word: str) -> float:
        if word in self._angles:
            return self._angles[word]
        digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
        return 2 * math.pi * int.from_bytes(digest) / 2**64

    def tokens(self, text: str) -> list[str]:
        """Give the text whole: it is one point."""
        return [text.upper()]

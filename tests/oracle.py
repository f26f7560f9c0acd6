"""Attention by plain loops over Python floats: an oracle that shares no code with softdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def softmax(scores: Mapping[str, float], temperature: float) -> dict[str, float]:
    if not scores:
        return {}
    top = max(scores.values())
    exps = {key: math.exp((score - top) / temperature) for key, score in scores.items()}
    total = math.fsum(exps.values())
    return {key: value / total for key, value in exps.items()}


def mean(weights: Mapping[str, float], values: Mapping[str, float | None]) -> float | None:
    """Weighted mean over the keys that have a value."""
    known = {key: value for key, value in values.items() if value is not None}
    mass = math.fsum(weights[key] for key in known)
    if mass == 0:
        return None
    return math.fsum(weights[key] * value for key, value in known.items()) / mass


def quantile(weights: Mapping[str, float], values: Mapping[str, float], p: float) -> float:
    """Smallest value with at least p of the weight at or below it."""
    total = math.fsum(weights.values())
    sofar = 0.0
    for key in sorted(values, key=lambda key: values[key]):
        sofar += weights[key] / total
        if sofar >= p * (1 - 1e-9):
            return values[key]
    return max(values.values())


def entropy(weights: Mapping[str, float]) -> float:
    return -math.fsum(w * math.log(w) for w in weights.values() if w > 0)

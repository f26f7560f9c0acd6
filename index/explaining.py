"""Every step of an answer's calculation, with its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from index.answers import Answer, LabelBlend
from index.encoders import EncoderWorker
from index.search import Attention
from index.wording import rounded, whole


def explained(answer: Answer, attention: Attention, entries: int, encoder: EncoderWorker) -> Answer:
    """Add the steps of the calculation, with their numbers."""
    peak = float(attention.state.peak[0])
    mass = float(attention.state.mass[0])
    tau = answer.temperature
    logits = attention.state.top_logits[0, : len(answer.matches)]
    rows = [
        {
            "key": match.key,
            "score": match.score,
            "logit": float(logit),  # of the cosine as it came out, a last bit above 1 too
            "allowed": True,
            "exp": float(np.exp(logit - peak)),
            "weight": match.weight,
            "values": match.values,
        }
        for match, logit in zip(answer.matches, logits, strict=True)
    ]
    sampled = {}
    if attention.counts is not None:  # Z and the others are then estimates; the rows are exact
        sampled = {"scored": answer.scored, "coverage": answer.coverage, "error": answer.error}
    others = answer.keys - len(rows)
    unlisted = max(0.0, 1.0 - sum(match.weight for match in answer.matches)) if others else 0.0
    steps = {
        "tokens": encoder.tokens(answer.query),
        "temperature": tau,
        "max_logit": peak if answer.keys else None,
        "normaliser": mass,
        "keys": answer.keys,
        "masked": entries - answer.keys,
        **sampled,
        "rows": rows,
        "others": {
            "keys": others,
            "exp": mass * unlisted,
            "weight": unlisted,
        },
        "blend": {name: _sum(answer, name) for name in answer.blend},
    }
    return replace(answer, explanation=steps)


def _sum(answer: Answer, column: str) -> str:
    """Write a column's blend out as the sum it is, for the rows that are listed."""
    blend = answer.blend[column]
    terms = [
        f"{_spelled(match.weight)}·{whole(match.values[column])}"
        for match in answer.matches
        if match.values[column] is not None
    ]
    summed = " + ".join([*terms, "…"] if len(answer.matches) < answer.keys else terms)
    if not summed:
        return rounded(None)
    known = "1.000" if blend is None else _spelled(blend.known)
    if known != "1.000":  # the weights of the keys that have a value add up to this
        summed = f"({summed}) / {known}"
    # A label is what weighs most, and no sum.
    equals = "→" if isinstance(blend, LabelBlend) else "≈" if answer.error else "="
    return f"{summed} {equals} {rounded(None if blend is None else blend.value)}"


def _spelled(share: float) -> str:
    """Write a share, with the power of ten where three decimals would make it none."""
    return f"{share:.3f}" if share >= 0.0005 or share == 0 else f"{share:.1e}"

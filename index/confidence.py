"""Confidence: the probability that the dictionary really holds an answer.

Softmax always sums to one, so weights alone cannot say that nothing fits. The scores
can: a logistic regression over them, fitted and checked on labelled queries that do and
do not have an answer (figures: ``data/encoder/README.md``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def confidence(best: float, keys: int, calibration: Mapping[str, float] | None) -> float | None:
    """Give P(an answer is held) from the best score of so many allowed keys.

    None where the encoder has no calibration; 0 where no key is allowed.
    """
    if keys == 0:
        return 0.0
    if not calibration:
        return None
    features = {"intercept": 1.0, "top": best, "log_keys": math.log(keys)}
    logit = sum(weight * features[name] for name, weight in calibration.items())
    return 0.5 * (1.0 + math.tanh(0.5 * logit))  # 1 / (1 + exp(-logit)), without overflow

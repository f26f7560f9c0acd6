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

    None where the encoder has no calibration; 0 where no key is allowed. Beyond ``most_keys`` of
    the calibration, the greatest number it was fitted on, it is that of so many.
    """
    if keys == 0:
        return 0.0
    if not calibration:
        return None
    # Out there nothing was fitted, and neither way is right. Followed on, the line comes to say of
    # a question that is a key itself that it is more likely absent (.45 among a million), which is
    # false for sure. Held still, it says too much: over words of WordNet, half of them with an
    # answer, .52 on average among 16,384 keys and .68 among 99,000, where the line said .38 and
    # .33. The errors are alike (Brier .230 and .240, .287 and .278), so what is sure decides.
    fitted = min(keys, calibration.get("most_keys", keys))
    features = {"intercept": 1.0, "top": best, "log_keys": math.log(fitted)}
    logit = sum(calibration.get(name, 0.0) * value for name, value in features.items())
    return 0.5 * (1.0 + math.tanh(0.5 * logit))  # 1 / (1 + exp(-logit)), without overflow

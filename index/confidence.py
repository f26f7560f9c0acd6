"""Confidence: the probability that the dictionary really holds an answer.

Softmax always sums to one, so weights alone cannot say that nothing fits. The scores
can: a logistic regression over them, fitted and checked on labelled queries that do and
do not have an answer (figures: ``data/encoder/README.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

# What a calibration may hold: a coefficient of each feature, and two numbers of keys.
CALIBRATED = ("intercept", "top", "log_keys", "log_many_keys", "many_keys", "most_keys")
UNKNOWN = frozenset({"[UNK]", "<unk>"})  # what a vocabulary reads what it has no piece for as


def is_unread(text: str, tokens: Callable[[str], Sequence[str]]) -> bool:
    """Tell a text of which an encoder read nothing: it has the vector of every other such text.

    In one with a plain letter or digit something is: nobody need look at its pieces.
    """
    if any(letter.isascii() and letter.isalnum() for letter in text):
        return False
    pieces = tokens(text)
    # Of marks that are not seen there are none. An encoder of one's own may never give any.
    return UNKNOWN.issuperset(pieces) and bool(pieces or tokens("a"))


def confidence(best: float, keys: int, calibration: Mapping[str, float] | None) -> float | None:
    """Give P(an answer is held) from the best score of so many allowed keys.

    None where the encoder has no calibration; 0 where no key is allowed. From ``many_keys`` on the
    line may have another slope. Beyond ``most_keys``, the greatest number it was fitted on, it is
    that of so many: followed on for ever, it would come to say of a question that is a key itself
    that it is more likely absent.
    """
    if keys == 0:
        return 0.0
    if not calibration:
        return None
    fitted = min(keys, calibration.get("most_keys", keys))
    few = min(fitted, calibration.get("many_keys", fitted))
    features = {
        "intercept": 1.0,
        "top": best,
        "log_keys": math.log(few),
        "log_many_keys": math.log(fitted / few),
    }
    logit = sum(calibration.get(name, 0.0) * value for name, value in features.items())
    return 0.5 * (1.0 + math.tanh(0.5 * logit))  # 1 / (1 + exp(-logit)), without overflow

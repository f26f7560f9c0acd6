"""The same question put to an exact dict, to attention and to weights chosen by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from numbers import Real

from index.answers import Answer, Comparison, ExactAnswer, ManualAnswer, Value
from index.blending import blend_given
from index.errors import Fault, InvalidRequest
from index.snapshot import Place, Snapshot
from index.values import LARGEST
from index.wording import SHOWN, rounded, whole


def blend_by_hand(dataset: str, snapshot: Snapshot, given: Mapping[str, float]) -> ManualAnswer:
    """Blend under weights that a person chose; they are scaled to sum to one.

    Raise InvalidRequest, naming every key that is unknown and every weight that is not one.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequest(Fault("weights", 'write weights by key: {"a": 3, "b": 1}'))
    places = {key: snapshot.find(key) if isinstance(key, str) else None for key in given}
    weights = {key: weight for key in given if (weight := weight_of(given[key])) is not None}
    if any(_faults(dataset, given, places, weights)):
        raise InvalidRequest.of(_faults(dataset, given, places, weights))
    total = sum(weights.values())
    if not total > 0:
        raise InvalidRequest(Fault("weights", "give at least one key a weight above zero"))
    shares = {key: weight / total for key, weight in weights.items()}
    by_place = {place: shares[key] for key, place in places.items() if place is not None}
    return ManualAnswer(shares, total, blend_given(snapshot, by_place))


def _faults(
    dataset: str,
    given: Mapping[str, float],
    places: Mapping[str, Place | None],
    weights: Mapping[str, float],
) -> Iterator[Fault]:
    """Say what is wrong with weights: their keys' places, and those that are weights, are given."""
    for key, place in places.items():
        if place is None:
            yield Fault(f"weights.{key}", f"{dataset!r} has no such key")
    for key in given:
        if key not in weights:
            yield no_weight(key)
    spelled = Counter(place for place in places.values() if place is not None)
    twice = "this key has a weight already, in another spelling of its accents"
    for key, place in places.items():
        if place is not None and spelled[place] > 1:
            yield Fault(f"weights.{key}", twice)


def no_weight(key: str) -> Fault:
    """Say that what is given for a key is no weight."""
    return Fault(f"weights.{key}", f"write a number from 0 to {LARGEST:.0e}")


def weight_of(given: object) -> float | None:
    """Give a weight as Python's own number, None for what is none: short ones overflow in a sum."""
    if isinstance(given, bool) or not isinstance(given, Real):
        return None
    try:
        weight = float(given)
    except OverflowError:
        return None
    return weight if 0 <= weight <= LARGEST else None


def compared(
    soft: Answer,
    exactly: Answer,
    manual: ManualAnswer | None,
    attended: Mapping[str, float],
    *,
    narrowed: bool = False,
) -> Comparison:
    """Put the three answers side by side and say what differs.

    ``attended`` holds the soft weights of the keys that were given one by hand. ``narrowed`` says
    that a condition or a moment left only some entries to answer.
    """
    found = exactly.matches
    exact = ExactAnswer(bool(found), found[0].values if found else None)
    said = _differences(exact, soft, manual, narrowed)
    if manual is not None:
        said.append(_apart(attended, manual))
    return Comparison(soft.query, soft.dataset, exact, soft, manual, tuple(said))


def _differences(
    exact: ExactAnswer, soft: Answer, manual: ManualAnswer | None, narrowed: bool
) -> list[str]:
    said = []
    if not exact.found:
        among = "Among the entries that may answer, an" if narrowed else "An"
        said.append(f"{among} exact lookup finds no key {soft.query!r} and answers nothing.")
    for name, blend in soft.blend.items():
        attended, unit = None if blend is None else blend.value, soft.units.get(name)
        if exact.values is not None and not _read_alike(exact.values[name], attended):
            part, held, read = _apart_where_shown(exact.values[name], attended)
            said.append(
                f"{name}{part}: the exact entry holds {whole(held, unit)}, "
                f"attention blends {rounded(read, unit)}."
            )
        if manual is not None:
            blended = manual.blend[name]
            by_hand = None if blended is None else blended.value
            gives = f"give {rounded(by_hand, unit)}, attention {rounded(attended, unit)}"
            if _read_alike(by_hand, attended):
                gives = f"and attention give {rounded(attended, unit)}"
            said.append(f"{name}: weights by hand {gives}.")
    return said


def _apart_where_shown(held: Value, blended: Value) -> tuple[str, Value, Value]:
    """Take two vectors' first component that reads otherwise, where it is not among those shown."""
    if isinstance(held, tuple) and isinstance(blended, tuple):
        parts = enumerate(zip(held, blended, strict=True))
        place = next(place for place, (a, b) in parts if not _read_alike(a, b))
        if place >= SHOWN:
            return f", component {place + 1}", held[place], blended[place]
    return "", held, blended


def _read_alike(held: Value, blended: Value) -> bool:
    if isinstance(held, tuple) and isinstance(blended, tuple):
        return all(map(_read_alike, held, blended))
    if not isinstance(held, int | float):  # a label, or none: "nothing" is one too
        return held == blended
    return rounded(held) == rounded(blended)


def _apart(attended: Mapping[str, float], manual: ManualAnswer) -> str:
    """Say the total variation between two sets of weights; by hand, keys not named have 0."""
    gaps = sum(abs(attended[key] - weight) for key, weight in manual.weights.items())
    elsewhere = max(0.0, 1.0 - sum(attended.values()))
    return f"The two sets of weights differ by {(gaps + elsewhere) / 2:.2f} of all attention."

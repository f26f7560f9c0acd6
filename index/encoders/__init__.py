"""Encoders: text in, unit rows out, behind one small protocol.

    builtin            the multilingual encoder that ships in data/encoder (the default)
    st:NAME            any sentence-transformers model, by hub name or folder
    random[:SEED]      a fixed random direction for each text, for teaching
    circle[:WORDS]     words at equal angles on a circle, for teaching

``open_encoder`` gives an encoder that many threads may share: a worker thread batches what
arrives together, and runs a model that only one thread may use (``worker`` says more).
"""

from __future__ import annotations

import ctypes
import inspect
import math
import os
import threading
from collections.abc import Callable, Mapping, MutableMapping
from numbers import Integral, Real
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from index.confidence import CALIBRATED
from index.encoders.protocol import Encoder, Kind, Rows
from index.encoders.worker import EncoderWorker
from index.errors import EncoderUnavailable, Fault, InvalidRequest

__all__ = [
    "Encoder",
    "EncoderWorker",
    "Kind",
    "Rows",
    "check_own",
    "check_spec",
    "open_encoder",
]

SEED_DIGITS = 100  # int() refuses 4,300
BUILTIN: Final = Path(__file__).resolve().parents[2] / "data" / "encoder"
OFFERED: Final = (
    "identity", "dimension", "default_temperature", "calibration", "encode", "tokens",
)  # fmt: skip
NEEDED: Final = ("model.safetensors", "tokenizer.json", "softdict.json")  # on either path

_open: dict[str, EncoderWorker] = {}  # models, which take seconds to open, stay open
# One for each seed or circle that somebody names, so none stays: it is held by who uses it, and by
# its thread until that has had nothing to do for a while. Another is made in no time.
_teaching: WeakValueDictionary[str, EncoderWorker] = WeakValueDictionary()
_opening = threading.RLock()  # a signal's handler may open one, too


def open_encoder(spec: str | Encoder = "builtin") -> EncoderWorker:
    """Open an encoder by name, once while it is in use; an ``Encoder`` of yours is wrapped.

    Raises
    ------
    InvalidRequest
        If no encoder goes by that name.
    EncoderUnavailable
        If it cannot be loaded here; the message says what would help.
    """
    if isinstance(spec, EncoderWorker):
        return spec
    if not isinstance(spec, str):
        check_own(spec)
        return EncoderWorker(spec)
    is_model = spec == "builtin" or spec.startswith("st:")
    known: MutableMapping[str, EncoderWorker] = _open if is_model else _teaching
    worker = known.get(spec)  # while another is being opened, nobody waits for this one
    if worker is not None:
        return worker
    check_spec(spec)
    with _opening:
        worker = known.get(spec)
        if worker is None:
            worker = known.setdefault(spec, EncoderWorker(_load(spec)))
        return worker


def _begin_anew() -> None:
    """Let a forked process open encoders of its own: the threads of these stayed in the other.

    Not those of torch, which waits there for threads of its own, without end. So would ONNX Runtime
    at its end, and it gets none here: a reference too many keeps the session past the interpreter.
    """
    global _opening
    _opening = threading.RLock()
    _teaching.clear()
    if left := _open.pop("builtin", None):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_begin_anew)


def check_spec(spec: str) -> None:
    """Refuse a name that no encoder has, without loading anything."""
    if not isinstance(spec, str):
        message = "give it by name; an encoder of yours is for a SoftDict in memory"
        raise InvalidRequest(Fault("encoder", message))
    name, _, rest = spec.partition(":")
    known = {"builtin": spec == "builtin", "st": bool(rest), "random": True, "circle": True}
    if not known.get(name, False):
        raise InvalidRequest(
            Fault(
                "encoder", f"there is no encoder {spec!r}; write builtin, st:NAME, random or circle"
            )
        )
    if name == "random" and rest and not (rest.isdecimal() and len(rest) <= SEED_DIGITS):
        fault = f"random takes a seed of at most {SEED_DIGITS} digits: random:7"
        raise InvalidRequest(Fault("encoder", fault))


def check_own(given: Encoder) -> None:
    """Refuse what cannot be asked as an encoder is, naming every fault."""
    if isinstance(given, type):
        raise InvalidRequest(Fault("encoder", f"{given!r} is a class: give an object of it"))
    if lacking := [name for name in OFFERED if not hasattr(given, name)]:
        message = f"{given!r} is none: it lacks {', '.join(lacking)} (see index.Encoder)"
        raise InvalidRequest(Fault("encoder", message))
    identity, dimension, temperature = given.identity, given.dimension, given.default_temperature
    promised = {
        "identity is text": isinstance(identity, str) and identity != "",
        "dimension is a whole number above 0": isinstance(dimension, Integral) and dimension > 0,
        "default_temperature is a number above 0": isinstance(temperature, Real)
        and 0 < float(temperature) < math.inf,
        'encode takes texts and their kind, as encode(["a"], kind="query")': _takes_kind(
            given.encode
        ),
        f"calibration is None, or numbers of {', '.join(CALIBRATED)}, those of keys 1 or more": (
            given.calibration is None or _is_calibration(given.calibration)
        ),
    }
    if faults := [Fault("encoder", f"its {what}") for what, kept in promised.items() if not kept]:
        raise InvalidRequest(*faults)


def _is_calibration(given: object) -> bool:
    return isinstance(given, Mapping) and all(
        name in CALIBRATED
        and isinstance(number, Real)
        and math.isfinite(number)
        and (float(number) >= 1 or name not in ("many_keys", "most_keys"))
        for name, number in given.items()
    )


def _takes_kind(encode: Callable[..., object]) -> bool:
    try:
        inspect.signature(encode).bind([], kind="query")
    except TypeError:
        return False
    except ValueError:  # of what is not written in Python there may be no signature
        pass
    return True


def _load(spec: str) -> Encoder:
    name, _, rest = spec.partition(":")
    if name == "builtin":
        return _load_builtin()
    if name == "st":
        from index.encoders.transformer import TransformerEncoder

        return TransformerEncoder(rest)
    from index.encoders.teaching import CircleEncoder, RandomEncoder

    if name == "circle":
        return CircleEncoder(rest.split()) if rest else CircleEncoder()
    return RandomEncoder(int(rest or 0))


def _load_builtin() -> Encoder:
    """Open the encoder in ``BUILTIN``; say which folder to copy anew where it cannot be."""
    helps = "copy data/encoder anew, with all its files"
    if lacking := [name for name in NEEDED if not (BUILTIN / name).is_file()]:
        raise EncoderUnavailable(
            f"the built-in encoder is not whole: {BUILTIN} lacks {', '.join(lacking)}; {helps}"
        )
    try:
        encoder = _onnx_or_torch()
        check_own(encoder)  # what its card says, which may not fit the weights either
        encoder.encode(["a"])
        return encoder
    except EncoderUnavailable:
        raise
    except Exception as fault:  # each library that reads one of the files has errors of its own
        raise EncoderUnavailable(
            f"the built-in encoder in {BUILTIN} cannot be read; {helps} "
            f"({type(fault).__name__}: {fault})"
        ) from fault


def _onnx_or_torch() -> Encoder:
    """Run the built-in weights on ONNX Runtime, or on torch where that is missing."""
    from index.encoders.builtin import BuiltinEncoder

    try:
        return BuiltinEncoder(BUILTIN)
    except ImportError:
        from index.encoders.transformer import TransformerEncoder

        return TransformerEncoder.builtin(BUILTIN)

"""Any sentence-transformers model, by hub name or folder. Importing torch costs seconds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from index.encoders.protocol import Kind, Rows
from index.errors import EncoderUnavailable
from index.platform import no_telemetry, one_openmp

READ = frozenset({".safetensors", ".bin", ".json", ".txt", ".model"})  # what a model is made of


class TransformerEncoder:
    """A sentence-transformers model with its own query and passage prompts."""

    # Published models differ widely in how their cosines spread, so this is a start:
    # set a dataset's temperature, or leave it on auto, which fits it to the values.
    default_temperature = 0.05
    calibration: Mapping[str, float] | None = None

    def __init__(self, name: str) -> None:
        self._model = _open(name)
        # The library looks for these names too, but finds an empty "document" of its own first.
        names = ("document", "passage", "corpus")
        self._passage = next((name for name in names if self._model.prompts.get(name)), None)
        self.dimension = int(self._model.encode(["a"]).shape[1])
        self.identity = f"st:{name}@{_version(name)}"

    @classmethod
    def builtin(cls, folder: Path) -> TransformerEncoder:
        """Run the built-in encoder's own weights on torch, under its own identity."""
        from index.encoders.builtin import read_card

        encoder = cls(str(folder))
        card = read_card(folder)
        encoder.identity = card.identity
        encoder.default_temperature = card.temperature
        encoder.calibration = card.calibration
        return encoder

    def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Give the (n, d) unit rows of n texts, under the prompt for their kind."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        if kind == "query":
            encode = self._model.encode_query
        else:
            encode = partial(self._model.encode_document, prompt_name=self._passage)
        rows = encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float32)

    def tokens(self, text: str) -> list[str]:
        """Give the model's pieces of the text, without its special tokens."""
        return list(self._model.tokenizer.tokenize(text))


def _open(name: str) -> Any:
    if Path(name).is_absolute() and not Path(name).is_dir():
        raise EncoderUnavailable(f"there is no folder {name}")
    one_openmp()
    no_telemetry()
    try:
        import sentence_transformers
    except ImportError as fault:
        raise EncoderUnavailable(
            "this encoder needs sentence-transformers: pip install sentence-transformers"
        ) from fault
    load = partial(sentence_transformers.SentenceTransformer, name, device="cpu")
    try:
        # Half precision is a hundred times slower on processors without instructions for it.
        return _from_here_or_the_hub(name, load).float()
    except Exception as fault:  # a broken file gives errors of the library that reads it
        raise EncoderUnavailable(
            f"the model {name!r} cannot be loaded: it is neither a folder with a "
            f"sentence-transformers model nor reachable on the model hub ({fault})"
        ) from fault


def _from_here_or_the_hub(name: str, load: Callable[..., Any]) -> Any:
    """Load a model; of one that was downloaded before, the hub is asked nothing.

    It may be out of reach, or have another version by now than the one that datasets are of.
    """
    if Path(name).is_dir() or name.count("/") > 1:  # a folder, if it is there
        return load()
    if _is_downloaded(name):
        with suppress(Exception):  # not all of it
            return load(local_files_only=True)
    from huggingface_hub import resolve_revision
    from huggingface_hub.errors import HfHubHTTPError

    with suppress(HfHubHTTPError):  # the hub answers
        # It fails at once where the hub is out of reach: loading tries again for a minute or more.
        resolve_revision(_repository(name), cache_dir=_cache())
    return load()


def _version(name: str) -> str:
    """Tell two versions of a model apart: by what its folder holds, or by its commit on the hub."""
    if Path(name).is_dir():
        return _content(Path(name))
    return _commit(name) or "unversioned"


def _content(folder: Path) -> str:
    """Hash all files that rows may come from: any shard, layer, prompt or piece changes them."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in READ and path.is_file():
            with path.open("rb") as file:
                own = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{own} {path.relative_to(folder).as_posix()}\n".encode())
    return digest.hexdigest()[:12]


def _commit(name: str) -> str | None:
    """Find the commit that a model was loaded at: its snapshot in the hub's cache goes by it."""
    for file in ("modules.json", "config.json"):
        found = _cached(name, file)
        if isinstance(found, str):
            return Path(found).parent.name[:12]
    return None


def _is_downloaded(name: str) -> bool:
    """Tell whether the cache knows of the files that a model begins with: others come after."""
    first = ("modules.json", "config_sentence_transformers.json")
    return all(_cached(name, file) is not None for file in first)


def _cached(name: str, file: str) -> object:
    """Find a model's file in the hub's cache: a path, or what says it has none; None: unknown."""
    from huggingface_hub import try_to_load_from_cache

    return try_to_load_from_cache(_repository(name), file, cache_dir=_cache())


def _cache() -> str | None:
    return os.environ.get("SENTENCE_TRANSFORMERS_HOME")


def _repository(name: str) -> str:
    """Say where on the hub the library looks for a model."""
    from sentence_transformers.util.misc import ORIGINAL_TRANSFORMER_MODELS

    own = "/" in name or name.lower() in ORIGINAL_TRANSFORMER_MODELS
    return name if own else f"sentence-transformers/{name}"

"""The built-in encoder on ONNX Runtime: text → pieces → word rows → body → unit rows.

``model.safetensors`` owns the weights. Its vocabulary table is mapped into memory and only the
rows that a text needs are read; the rest of the network is ``body.onnx``, whose matrices are int8,
one scale a column. What activations are rounded to is the same for all texts, so a text's vector
does not depend on the texts beside it in a batch (beyond 2e-4). torch is never imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.encoders.batching import alike
from index.encoders.protocol import Kind, Rows
from index.platform import no_telemetry

WORD_ROWS = "embeddings.word_embeddings.weight"
BATCH_TOKENS = 1024  # padded tokens in one run of the body: more falls out of the cache
SLOW_FUSIONS = ["SkipLayerNormFusion"]  # takes four times as long as the two operations it joins
PIECE_CHARACTERS = 100  # longest word that WordPiece reads; a longer one is [UNK]


@dataclass(frozen=True)
class Card:
    """What ``softdict.json`` says of the weights beside it."""

    identity: str  # changes with the weights and with how a text is cut into pieces
    dimension: int
    max_tokens: int
    temperature: float  # τ, in units of cosine
    calibration: Mapping[str, float] | None  # of the confidence, see Encoder


def read_card(folder: Path) -> Card:
    """Read the card without opening the weights; the tests check the hash it records."""
    card: dict[str, Any] = json.loads((folder / "softdict.json").read_text(encoding="utf-8"))
    tokenizer = (folder / "tokenizer.json").read_bytes()
    return Card(
        identity="builtin:" + hashlib.sha256(card["sha256"].encode() + tokenizer).hexdigest()[:12],
        dimension=card["dimension"],
        max_tokens=card["max_tokens"],
        temperature=card["temperature"],
        calibration=card.get("confidence"),
    )


class BuiltinEncoder:
    """The encoder in ``folder``; no prompts, no network. For any number of threads at once.

    A tokenizer is safe across threads as long as nobody sets its truncation or padding anew.
    """

    def __init__(self, folder: Path) -> None:
        no_telemetry()
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        card = read_card(folder)
        self.identity: str = card.identity
        self.dimension: int = card.dimension
        self.max_tokens: int = card.max_tokens
        self.default_temperature: float = card.temperature
        self.calibration: Mapping[str, float] | None = card.calibration
        self._word_rows = _mapped(folder / "model.safetensors", WORD_ROWS)
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(self.max_tokens)
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._body: Any = onnxruntime.InferenceSession(
            str(folder / "body.onnx"),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=SLOW_FUSIONS,
        )

    def encode(self, texts: Sequence[str], *, kind: Kind = "passage") -> Rows:
        """Give the (n, d) unit rows of n texts; ``kind`` changes nothing here."""
        rows = np.empty((len(texts), self.dimension), np.float32)
        for batch, made in self.steps(texts, kind=kind):
            rows[batch] = made
        return rows

    def steps(
        self, texts: Sequence[str], *, kind: Kind = "passage"
    ) -> Iterator[tuple[list[int], Rows]]:
        """Encode run by run of the body: give the places of each run's texts and their rows."""
        ids = self._ids(texts)
        for batch in alike([len(each) for each in ids], BATCH_TOKENS):
            yield batch, self._run([ids[place] for place in batch])

    def tokens(self, text: str) -> list[str]:
        """Give the pieces the text is read in, without the marks around it."""
        pieces: list[str] = self._tokenizer.encode(self._beginning(text)).tokens
        return pieces[1:-1]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._tokenizer.encode_batch_fast([self._beginning(text) for text in texts])
        return [each.ids for each in found]

    def _beginning(self, text: str) -> str:
        """Cut what is not read anyway."""
        return text[: self.max_tokens * PIECE_CHARACTERS]

    def _run(self, ids: list[list[int]]) -> Rows:
        lengths = np.array([len(each) for each in ids])
        mask = np.arange(lengths.max()) < lengths[:, None]
        words = np.zeros((*mask.shape, self.dimension), np.float32)
        words[mask] = self._word_rows[np.concatenate(ids)]
        out: Rows = self._body.run(None, {"words": words, "mask": mask.astype(np.float32)})[0]
        return out


def _mapped(path: Path, name: str) -> NDArray[np.float16]:
    """Map one fp16 tensor of a safetensors file: u64 header size, JSON header, raw tensors."""
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        tensor = json.loads(stream.read(size))[name]
    if tensor["dtype"] != "F16":
        raise ValueError(f"{path}: {name} is {tensor['dtype']}, not F16")
    offset = 8 + size + tensor["data_offsets"][0]
    return np.memmap(path, np.float16, "r", offset, tuple(tensor["shape"]))

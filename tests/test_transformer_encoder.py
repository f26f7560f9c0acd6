"""A model of one's own under sentence-transformers: what it is known by, and what it reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from index.encoders import EncoderWorker, open_encoder
from index.encoders.transformer import TransformerEncoder, _version
from index.errors import EncoderUnavailable
from training import student, vocabulary

SHIPPED = Path("data/encoder/tokenizer.json")
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "perro", "gato", "query", "passage", ":"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model of one layer and ten pieces."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = vocabulary.with_vocabulary(Tokenizer.from_file(str(SHIPPED)), PIECES)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=16,
    )  # fmt: skip
    student.save(folder, tokenizer, BertModel(config, add_pooling_layer=False), torch.float32)
    return folder


@pytest.fixture
def model(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "model"))


def add_prompts(folder: Path, **prompts: str) -> None:
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "prompts": prompts}))


def test_prompts_that_a_model_is_given_make_it_another(model: Path) -> None:
    before = TransformerEncoder(str(model))
    add_prompts(model, query="query: ", document="passage: ")
    after = TransformerEncoder(str(model))

    assert before.identity != after.identity
    old = before.encode(["perro", "passage: perro", "query: perro"])
    assert np.allclose(after.encode(["perro"]), old[1], atol=1e-6)
    assert np.allclose(after.encode(["perro"], kind="query"), old[2], atol=1e-6)
    assert np.abs(old[0] - old[1]).max() > 0.01


@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_keys_are_read_under_the_prompt_for_them_by_any_of_its_names(
    model: Path, name: str
) -> None:
    bare = TransformerEncoder(str(model)).encode(["passage: perro"])
    add_prompts(model, query="query: ", **{name: "passage: "})

    assert np.allclose(TransformerEncoder(str(model)).encode(["perro"]), bare, atol=1e-6)


def test_half_a_surrogate_pair_is_read_here_as_anywhere(model: Path) -> None:
    worker = EncoderWorker(TransformerEncoder(str(model)))

    assert np.allclose(worker.encode_queries(["perro \ud83d"]), worker.encode_queries(["perro ?"]))
    assert worker.tokens("perro \ud83d") == worker.tokens("perro ?")
    worker.close()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "1_Pooling/config.json"])
def test_a_folder_with_a_broken_file_is_unavailable(model: Path, name: str) -> None:
    (model / name).write_text("version https://git-lfs.github.com/spec/v1\n")

    with pytest.raises(EncoderUnavailable, match="cannot be loaded") as refused:
        open_encoder(f"st:{model}")

    assert str(model) in str(refused.value)


def written(name: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"other")

    return write


@pytest.mark.parametrize(
    "change",
    [
        written("model-00002-of-00002.safetensors"),
        written("2_Dense/model.safetensors"),
        written("pytorch_model.bin"),
        written("tokenizer.json"),
        written("vocab.txt"),
        written("spiece.model"),
        lambda folder: (folder / "model.safetensors").rename(folder / "weights.safetensors"),
        lambda folder: (folder / "modules.json").unlink(),
    ],
)
def test_any_file_that_rows_come_from_makes_a_model_another(
    model: Path, change: Callable[[Path], object]
) -> None:
    before = _version(str(model))
    change(model)

    assert _version(str(model)) != before


def test_a_model_is_the_same_in_another_place_and_beside_another_text(
    model: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(model, tmp_path / "moved")
    (moved / "README.md").write_text("what it is")

    assert _version(str(moved)) == _version(str(model))


@pytest.mark.parametrize("name", ["me/mine", "mine"])
def test_a_model_of_the_hub_is_known_by_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    owner = "me" if "/" in name else "sentence-transformers"
    cached = tmp_path / f"models--{owner}--mine"
    (cached / "snapshots" / ("abc0" * 10)).mkdir(parents=True)
    (cached / "snapshots" / ("abc0" * 10) / "modules.json").write_text("[]")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc0" * 10)
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))

    assert _version(name) == "abc0abc0abc0"
    assert _version("me/other") == "unversioned"

"""A model of one's own under sentence-transformers: what it is known by, and what it reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from index import Catalog, SoftDict
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


@pytest.mark.parametrize("way", ["create", "put", "load", "append", "replace", "reencode", "open"])
def test_each_way_of_writing_reads_keys_under_their_prompt_and_questions_under_theirs(
    model: Path, tmp_path: Path, way: str
) -> None:
    words = ["perro", "gato", "perro gato", "gato gato perro"]
    bare = TransformerEncoder(str(model))
    keys = bare.encode([f"passage: {word}" for word in words])
    questions = bare.encode([f"query: {word}" for word in words])
    add_prompts(model, query="query: ", document="passage: ")
    spec, table = f"st:{model}", "key,value\n" + "".join(f"{word},1\n" for word in words)

    with Catalog.open(tmp_path / "home") as catalog:
        if way == "create":
            catalog.create("d", encoder=spec).update(dict.fromkeys(words, 1))
        elif way == "put":
            d = catalog.create("d", encoder=spec)
            for word in words:
                d[word] = 1
        elif way in ("reencode", "replace"):
            catalog.load("d", table.encode(), encoder="random")
        elif way in ("load", "open"):
            catalog.load("d", table.encode(), encoder=spec)
        else:
            catalog.create("d", encoder=spec)
            catalog.load("d", table.encode(), if_exists="append")
        if way == "reencode":
            catalog["d"].reencode(spec)
        if way == "replace":
            catalog.load("d", table.encode(), encoder=spec, if_exists="replace")
        if way != "open":
            scores = asked(catalog["d"], words)
    if way == "open":
        with Catalog.open(tmp_path / "home") as catalog:
            scores = asked(catalog["d"], words)

    assert scores == pytest.approx(questions @ keys.T, abs=1e-5)
    assert np.abs(scores - questions @ questions.T).max() > 0.01  # as if keys were asked for


def asked(d: SoftDict, words: list[str]) -> np.ndarray:
    """Give the scores of some keys by each of these words, asked for alone or with others."""
    answers = [d.search(words[0], k=9), *d.search_many(words[1:], k=9)]
    found = [{match.key: match.score for match in answer.matches} for answer in answers]
    return np.array([[of[word] for word in words] for of in found])


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


class Hub(BaseHTTPRequestHandler):
    """A model hub that answers, and has nothing."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_error(404)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked = []  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def opened(name: str, cache: Path, endpoint: str) -> str:
    """Open a model in a process of its own: the library reads where the hub is but once."""
    code = f"""
from index.encoders.transformer import TransformerEncoder
encoder = TransformerEncoder({name!r})
print(encoder.identity, *encoder.encode(["perro"])[0])
"""
    env = {**os.environ, "SENTENCE_TRANSFORMERS_HOME": str(cache), "HF_ENDPOINT": endpoint}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    return ran.stdout or ran.stderr


@pytest.fixture
def cached(model: Path, tmp_path: Path) -> Path:
    """A model as the hub's cache has it, by an older library, which did not ask for all files."""
    commit = "abc0" * 10
    folder = tmp_path / "cache" / "models--me--mine"
    shutil.copytree(model, folder / "snapshots" / commit)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(commit)
    return folder


def test_of_a_model_that_was_downloaded_the_hub_is_asked_nothing(
    model: Path, cached: Path, hub: ThreadingHTTPServer
) -> None:
    said = opened("me/mine", cached.parent, f"http://127.0.0.1:{hub.server_port}")

    identity, *row = said.split()
    assert identity == "st:me/mine@abc0abc0abc0"
    assert np.allclose([float(x) for x in row], TransformerEncoder(str(model)).encode(["perro"]))
    assert hub.asked == []  # type: ignore[attr-defined]


def test_names_that_the_library_reads_as_they_stand_are_found_so(
    cached: Path, hub: ThreadingHTTPServer
) -> None:
    cached.rename(cached.parent / "models--bert-base-uncased")

    said = opened("bert-base-uncased", cached.parent, f"http://127.0.0.1:{hub.server_port}")

    assert said.startswith("st:bert-base-uncased@abc0abc0abc0 ")
    assert hub.asked == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("lost", ["modules.json", "1_Pooling/config.json"])
def test_what_a_download_left_out_is_asked_for(
    cached: Path, hub: ThreadingHTTPServer, lost: str
) -> None:
    (cached / "snapshots" / ("abc0" * 10) / lost).unlink()

    opened("me/mine", cached.parent, f"http://127.0.0.1:{hub.server_port}")

    assert any(lost in path for path in hub.asked)  # type: ignore[attr-defined]


def test_a_hub_out_of_reach_is_given_up_at_once(tmp_path: Path) -> None:
    said = opened("me/mine", tmp_path, "http://127.0.0.1:9")  # where nobody listens

    assert "the model 'me/mine' cannot be loaded" in said
    assert "could not be reached" in said
    assert "Retrying" not in said  # it waits for a second, then two, then four

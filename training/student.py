"""The student: a BERT body with mean pooling, kept on disk in sentence-transformers' format."""

import copy
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from transformers import BertModel

MAX_TOKENS = 256
ENCODED = {"cpu": 6_000, "cuda": 120_000}  # tokens at a time
SYMBOLS = ("Sc", "Sk", "Sm", "So", "No", "Nl", "Me")  # Unicode's categories
DRAWN = r"[\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}\x{20e3}]+"  # how the sign before is drawn
MARKS = r"\x{300}-\x{36f}\x{653}-\x{655}"  # above and below Latin, Greek, Cyrillic, Arabic letters
DENSE = "2_Dense/model.safetensors"


def load(folder: Path) -> tuple[Tokenizer, BertModel]:
    tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
    # Plain attention: over short texts the fused one takes longer than the rest, on a GPU too.
    body = BertModel.from_pretrained(
        folder, dtype=torch.float32, add_pooling_layer=False, attn_implementation="eager"
    )
    return tokenizer, body.eval()


def at_work(folder: Path):
    """Load a student to where it computes: a GPU where there is one."""
    tokenizer, body = load(folder)
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        body.to("cuda")
    return tokenizer, body


@torch.no_grad()
def set_rows(body: BertModel, found: torch.Tensor) -> None:
    """Give a body another vocabulary's (n, d) rows, in place."""
    body.resize_token_embeddings(len(found), mean_resizing=False)
    body.get_input_embeddings().weight.copy_(found)


@torch.no_grad()
def approach_teacher(tokenizer: Tokenizer, body: BertModel, teacher, share: float) -> None:
    """Mix the teacher's weights into a student's, in place (Wortsman et al. 2022).

    The student has come from them, so what lies between is of use too.
    """
    teacher_tokenizer, teacher_body = teacher[0], teacher[1].to(body.device)
    theirs = teacher_body.state_dict()
    for name, weight in body.state_dict().items():
        if "word_embeddings" not in name and weight.is_floating_point():
            weight.lerp_(theirs[name], share)
    rows = body.get_input_embeddings().weight
    teacher_rows = teacher_body.get_input_embeddings().weight
    known = teacher_tokenizer.get_vocab()
    for piece, i in tokenizer.get_vocab().items():
        if piece in known:
            rows[i] = torch.lerp(rows[i], teacher_rows[known[piece]], share)


def keep_accents(tokenizer: Tokenizer) -> Tokenizer:
    """Lower-case and compose (n + tilde is ñ), but never strip an accent: año is not ano."""
    tokenizer.normalizer = _lower_case_without(DRAWN)
    return tokenizer


def spare_words(tokenizer: Tokenizer) -> Tokenizer:
    """Keep accents, and lose no word for a mark or a symbol in it that its vocabulary lacks.

    A mark is left out where a letter with it is no piece, at the beginning and inside of words:
    ţ is t, and ễ is ê. A symbol is a word of its own, so perro🐕 is perro and [UNK], as it is
    with a space. What is a piece inside of a word too, as ® is, stays with its word. A run of
    symbols is one word, which it was where it stood alone.
    """
    vocabulary = tokenizer.get_vocab()
    pieces = [p for p in sorted(vocabulary) if len(p) == 1 and f"##{p}" in vocabulary]
    parts = (unicodedata.normalize("NFD", piece) for piece in pieces)
    # The space is for a vocabulary without such letters, as in the class below: [^] is none.
    marked = "|".join([" ", *(letter for letter in parts if len(letter) > 1)])
    tokenizer.normalizer = _lower_case_without(rf"{DRAWN}|[{MARKS}](?<!{marked})")
    inside = "".join(piece for piece in pieces if unicodedata.category(piece) in SYMBOLS)
    # The range is of emoji, some younger than the library's tables.
    found = rf"[\p{{S}}\p{{No}}\p{{Nl}}\p{{Me}}\x{{1f000}}-\x{{1faff}}&&[^ {inside}]]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(found), "isolated"),
        pre_tokenizers.BertPreTokenizer(),
    ])  # fmt: skip
    return tokenizer


def _lower_case_without(signs: str) -> normalizers.Normalizer:
    return normalizers.Sequence([
        normalizers.BertNormalizer(clean_text=True, strip_accents=False, lowercase=True),
        normalizers.NFD(),
        normalizers.Replace(Regex(signs), ""),
        normalizers.NFC(),
    ])  # fmt: skip


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def save(
    folder: Path, tokenizer: Tokenizer, body: BertModel, dtype: torch.dtype,
    dense: torch.Tensor | None = None,
) -> None:  # fmt: skip
    """Write the folder that ``SentenceTransformer(folder)`` opens.

    With ``dense`` (d, d), dense r takes the place of a pooled row r.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").unlink(missing_ok=True)  # half saved, it is no student to load
    copy.deepcopy(body).to("cpu", dtype).save_pretrained(folder)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    special = {f"{n}_token": f"[{n.upper()}]" for n in ("cls", "mask", "pad", "sep", "unk")}
    write_json(folder / "tokenizer_config.json", {
        "backend": "tokenizers", "tokenizer_class": "TokenizersBackend",
        "model_max_length": MAX_TOKENS, **special,
    })  # fmt: skip
    write_json(folder / "sentence_bert_config.json", {
        "transformer_task": "feature-extraction",
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
        "module_output_name": "token_embeddings",
    })  # fmt: skip
    write_json(folder / "config_sentence_transformers.json", {
        "model_type": "SentenceTransformer", "prompts": {"query": "", "document": ""},
        "default_prompt_name": None, "similarity_fn_name": "cosine",
    })  # fmt: skip
    modules = [("", "sentence_transformers.base.modules.transformer.Transformer")]
    for name, kind, settings in _after_the_body(body.config.hidden_size, dense is not None):
        modules.append((f"{len(modules)}_{name}", kind))
        (folder / modules[-1][0]).mkdir(exist_ok=True)
        write_json(folder / modules[-1][0] / "config.json", settings)
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": kind}
        for i, (path, kind) in enumerate(modules)
    ])  # fmt: skip
    if dense is not None:
        save_file({"linear.weight": dense.to(dtype)}, folder / DENSE, {"format": "pt"})


def _after_the_body(size: int, dense: bool) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Yield the name, the class and the settings of each of sentence-transformers' modules."""
    modules = "sentence_transformers.sentence_transformer.modules"
    yield "Pooling", f"{modules}.pooling.Pooling", {
        "embedding_dimension": size, "pooling_mode": "mean", "include_prompt": True,
    }  # fmt: skip
    if dense:
        yield "Dense", "sentence_transformers.base.modules.dense.Dense", {
            "in_features": size, "out_features": size, "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity",
        }  # fmt: skip
    yield "Normalize", f"{modules}.normalize.Normalize", {
        "module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding",
    }  # fmt: skip


def token_ids(tokenizer: Tokenizer, texts: list[str], max_tokens: int = MAX_TOKENS):
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]


def padded(ids: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return ids and mask, both (b, t) int64; id 0 pads."""
    lengths = np.array([len(row) for row in ids])
    out = np.zeros((len(ids), lengths.max()), np.int64)
    mask = np.arange(out.shape[1]) < lengths[:, None]
    out[mask] = np.concatenate(ids)
    return out, mask.astype(np.int64)


def batches(lengths: list[int], tokens: int):
    """Yield index lists of texts of like length, at most ``tokens`` padded tokens each."""
    batch: list[int] = []
    for i in np.argsort(lengths, kind="stable"):
        if batch and (len(batch) + 1) * lengths[i] > tokens:
            yield batch
            batch = []
        batch.append(int(i))
    if batch:
        yield batch


def autocast(device: torch.device) -> torch.autocast:
    """Compute in bfloat16 where the device does; elsewhere it is imitated, 4 to 20 times slower.

    oneDNN counts every processor with AVX-512 as one that does.
    """
    does = device.type != "cpu" or torch.cpu.get_capabilities().get("avx512_bf16", False)
    return torch.autocast(device.type, torch.bfloat16, does)


def pooled(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Average the tokens of each text and bring the mean to unit length. (b, t, d) → (b, d)"""
    weights = mask.unsqueeze(-1).to(torch.float32)
    mean = (hidden.float() * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1)


def beside(body, given: np.ndarray) -> torch.Tensor:
    """Bring an array to where a body computes."""
    return torch.from_numpy(given).to(body.device)


def forward(body, inputs: np.ndarray, mask: np.ndarray) -> torch.Tensor:
    """Return unit rows (n, d) of texts of like length, from their padded ids and mask (n, t)."""
    shown = beside(body, mask)
    with autocast(body.device):
        hidden = body(input_ids=beside(body, inputs), attention_mask=shown).last_hidden_state
    return pooled(hidden, shown)


def unit_rows(body, ids: list[list[int]], tokens: int | None = None) -> torch.Tensor:
    """Return unit rows (n, d) of texts of any lengths, ``tokens`` padded ones at a time."""
    tokens = tokens or ENCODED[body.device.type]
    parts = list(batches([len(row) for row in ids], tokens))
    found = torch.cat([forward(body, *padded([ids[i] for i in part])) for part in parts])
    return found[torch.from_numpy(np.argsort(np.concatenate(parts))).to(found.device)]


@torch.inference_mode()
def encode(tokenizer: Tokenizer, body: BertModel, texts: list[str]) -> np.ndarray:
    """Return unit rows (n, d)."""
    return unit_rows(body, token_ids(tokenizer, texts)).cpu().numpy()

"""Write the folder the product ships: fp16 weights, int8 body for ONNX Runtime, softdict.json.

The new folder is built beside the old one and takes its place by a rename, so that nobody ever
reads half of it. The card (README.md) and the licence are written by hand and carried over.
"""

import copy
import hashlib
import json
import random
import shutil
import tempfile
from functools import reduce
from pathlib import Path

import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

from training import arguments, in_words, quantise, student

SAMPLE = 16_000  # training texts whose mean is taken
WATCHED = 8_000  # of them, by which the body's maps are rounded
BY_HAND = {"README.md", "LICENSE"}
TAKEN = 0.3  # of the mean's direction; chosen on the development data, as the card says
LANGUAGES = ["es", "en", "pt", "fr", "de", "it"]


class Body(torch.nn.Module):
    """Everything after the look-up of the word rows, in plain matrix products."""

    def __init__(self, bert, common: torch.Tensor) -> None:
        super().__init__()
        self.bert = bert
        self.heads = bert.config.num_attention_heads
        self.maps = torch.nn.ModuleList(
            in_one(layer.attention.self) for layer in bert.encoder.layer
        )
        positions = bert.embeddings.position_embeddings.weight.detach()
        self.register_buffer("positions", positions[: student.MAX_TOKENS].clone())
        self.register_buffer("common", common)

    def attend(self, maps: torch.nn.Linear, hidden: torch.Tensor, bias: torch.Tensor):
        """(b, t, d) → (b, t, d) contexts."""
        q, k, v = (
            x.reshape(*hidden.shape[:2], self.heads, -1).permute(0, 2, 1, 3)
            for x in maps(hidden).chunk(3, dim=-1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias, -1)
        return (weights @ v).permute(0, 2, 1, 3).reshape(hidden.shape)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(b, t, d) word rows and (b, t) mask of ones and zeros → (b, d) unit rows."""
        first = self.bert.embeddings
        here = self.positions[: words.shape[1]] + first.token_type_embeddings.weight[0]
        hidden = first.LayerNorm(words + here)
        bias = (1 - mask)[:, None, None, :] * -1e4
        for layer, maps in zip(self.bert.encoder.layer, self.maps, strict=True):
            after = layer.attention.output
            hidden = after.LayerNorm(after.dense(self.attend(maps, hidden, bias)) + hidden)
            wide = torch.nn.functional.gelu(layer.intermediate.dense(hidden))
            hidden = layer.output.LayerNorm(layer.output.dense(wide) + hidden)
        mean = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        own = mean - (mean * self.common).sum(-1, keepdim=True) * self.common
        return own / own.norm(dim=-1, keepdim=True)


def in_one(part) -> torch.nn.Linear:
    """Join the maps to queries, keys and values: their input is quantised once, not thrice."""
    maps = (part.query, part.key, part.value)
    joined = torch.nn.Linear(part.query.in_features, sum(each.out_features for each in maps))
    for name in ("weight", "bias"):
        getattr(joined, name).data = torch.cat([getattr(each, name).data for each in maps])
    return joined


def write_body(bert, common: torch.Tensor, ids: list[list[int]], path: Path) -> None:
    """Trace the body with its maps in int8, rounded by what texts of these ids give them."""
    import onnx

    dynamic = torch.export.Dim.DYNAMIC
    example = (torch.randn(2, 7, bert.config.hidden_size), torch.ones(2, 7))
    with tempfile.TemporaryDirectory() as folder:
        traced = Path(folder) / "body.onnx"
        torch.onnx.export(
            in_int8(bert, common, ids), example, traced, input_names=["words", "mask"],
            output_names=["rows"], dynamo=True, opset_version=20, external_data=False,
            dynamic_shapes=({0: dynamic, 1: dynamic}, {0: dynamic, 1: dynamic}), verbose=False,
        )  # fmt: skip
        model = onnx.load(traced)
    for node in model.graph.node:  # traces carry paths of the machine that made them
        del node.metadata_props[:]
        node.doc_string = ""
    del model.metadata_props[:], model.graph.metadata_props[:]
    onnx.save(model, path)


def in_int8(bert, common: torch.Tensor, ids: list[list[int]]) -> Body:
    """Return the body with its maps in int8; they exist as ONNX operations alone."""
    body = Body(copy.deepcopy(bert), common).eval()
    words = bert.get_input_embeddings().weight.detach()
    batches = student.batches([len(row) for row in ids], student.ENCODED["cpu"])
    padded = (map(torch.from_numpy, student.padded([ids[i] for i in b])) for b in batches)
    seen = quantise.watch(body, ((words[pieces], mask.float()) for pieces, mask in padded))
    narrow = {layer.output.dense: layer.intermediate.dense for layer in body.bert.encoder.layer}
    for dense, wide in narrow.items():
        quantise.brightest_first(wide, dense, seen[dense])
    for name, linear in list(body.named_modules()):
        if linear in seen:
            made = quantise.Int8Linear(linear, seen[linear], behind_gelu=linear in narrow)
            body.set_submodule(name, made)
    return body


def mean_of(sources: list[Path]):
    """Return the tokenizer of the first student and the mean of all their weights."""
    students = [student.load(source) for source in sources]
    tokenizer, body = students[0]
    for source, (own, _) in zip(sources, students, strict=True):
        if own.get_vocab() != tokenizer.get_vocab():  # a row would be the mean of two pieces
            raise SystemExit(f"{source} has other pieces than {sources[0]}")
    states = [each.state_dict() for _, each in students]
    body.load_state_dict({
        name: reduce(torch.add, (state[name] for state in states)) / len(states)
        if value.is_floating_point() else value
        for name, value in states[0].items()
    })  # fmt: skip
    return tokenizer, body


def sample(prepared: Path) -> list[str]:
    """Return some training texts, the same ones each time."""
    texts = pq.read_table(prepared / "rows.parquet", columns=["text"])["text"].to_pylist()
    return random.Random(0).sample(texts, min(SAMPLE, len(texts)))


def less_in_common(sources: list[Path], tokenizer, body, texts: list[str]) -> torch.Tensor:
    """Return the (d, d) matrix I − c cᵀ that leaves rows less of what all texts' rows share.

    Any two rows lie near each other by it, words above all, and it says nothing of either. c is
    along the mean of the rows of these texts (Arora et al. 2017; Mu & Viswanath 2018). A
    folder that was exported keeps its matrix, so that the same weights give the same rows.
    """
    if len(sources) == 1 and (sources[0] / student.DENSE).exists():
        return load_file(sources[0] / student.DENSE)["linear.weight"]
    mean = torch.from_numpy(student.encode(tokenizer, body, texts).mean(0))
    common = torch.nn.functional.normalize(mean, dim=0) * TAKEN**0.5
    return torch.eye(len(common)) - torch.outer(common, common)


def taken_away(dense: torch.Tensor) -> torch.Tensor:
    """Return c (d,) of I − c cᵀ, but for its sign."""
    squares, directions = torch.linalg.eigh(torch.eye(len(dense)) - dense.double())
    return (directions[:, -1] * squares[-1].sqrt()).float()


def write(
    fresh: Path, tokenizer, body, texts: list[str], dense: torch.Tensor, measured: dict, out: Path
) -> None:
    """Fill a new folder with all that ships."""
    body.config.name_or_path = ""
    student.save(fresh, tokenizer, body, torch.float16, dense)
    weights = fresh / "model.safetensors"
    save_file(load_file(weights), weights, metadata={"format": "pt"})
    ids = student.token_ids(tokenizer, texts[:WATCHED])
    write_body(body, taken_away(dense), ids, fresh / "body.onnx")
    shipped = weights.read_bytes() + (fresh / student.DENSE).read_bytes()
    student.write_json(fresh / "softdict.json", {
        "sha256": hashlib.sha256(shipped).hexdigest(),
        "dimension": body.config.hidden_size, "max_tokens": student.MAX_TOKENS,
        "languages": LANGUAGES, **measured,
    })  # fmt: skip
    for path in (out / name for name in BY_HAND):
        if path.exists():
            shutil.copy(path, fresh)
    fresh.chmod(0o755)
    for path in fresh.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def export(sources: list[Path], prepared: Path, calibration: Path | None, out: Path) -> None:
    fresh, replaced = (out.with_name(out.name + end) for end in (".new", ".old"))
    if replaced.exists() and not out.exists():  # an export was killed between the two renames
        replaced.rename(out)
    if (
        out.exists()
        and not (out / "softdict.json").exists()
        and {path.name for path in out.iterdir()} - BY_HAND
    ):
        raise SystemExit(f"{out} is no exported encoder: remove it, or name another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    measured = json.loads(calibration.read_text()) if calibration else {"temperature": 0.1}
    tokenizer, body = mean_of(sources)
    student.spare_words(tokenizer)
    body = body.half().float()  # all that ships is made of the fp16 values that ship
    texts = sample(prepared)
    dense = less_in_common(sources, tokenizer, body, texts)
    shutil.rmtree(fresh, ignore_errors=True)  # an export was killed before it was whole
    fresh.mkdir()
    try:
        write(fresh, tokenizer, body, texts, dense, measured, out)
        if out.exists():
            if replaced.exists():  # an export was killed before it had removed it
                shutil.rmtree(replaced)
            out.rename(replaced)
        fresh.rename(out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(replaced, ignore_errors=True)
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {total / 1e6:.1f} MB")


if __name__ == "__main__":
    parser = arguments(__doc__, prepared="work/encoder/prepared", out="data/encoder")
    parser.add_argument("--source", type=Path, nargs="+", help="students; more than one: the mean",
                        default=[Path("work/encoder/trained/student"),
                                 Path("work/encoder/last/student")])  # fmt: skip
    parser.add_argument("--calibration", type=Path, help="what calibrate measured")
    args = parser.parse_args()
    with in_words():
        export(args.source, args.prepared, args.calibration, args.out)

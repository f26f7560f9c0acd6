"""Measure encoders side by side on development data; never on the held-out test sets.

An encoder is a folder in sentence-transformers' format, ``teacher``, or ``fast:FOLDER`` for the
ONNX path of the product. Results are kept, so that a table can be printed again at no cost.
"""

import contextlib
import csv
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, sem, spearmanr

from training import arguments, corpus, in_words

Encode = Callable[[list[str]], np.ndarray]
# A list has 100 for each question that is answered rightly, else 0; its mean is the figure.
Figures = dict[str, float | list[float]]
CROSS = [("en", "es"), ("en", "de"), ("es", "fr"), ("pt", "it")]
BANKING_SEEN = 5500  # rows of Banking77 that development looks at; the rest are trained on
RATED = 5000  # words of known concreteness that are looked at
LOOKUP_TEMPERATURE = 0.05  # the same for all encoders
ACCEPTED = {"méxico": 7, "alemania": 10, "inglaterra": 8, "perro": 5}
COUNTRY_QUERIES = ("país", "pais", "country", "nación")
DOG_QUERIES = ("animal", "mascota")
LEAST = 4  # categories from which there is a figure


def languages(dev: dict) -> list[str]:
    """Return English and the languages that words or sentences are held out of."""
    return sorted({"en", *(row[0] for part in ("sentences", "words") for row in dev[part])})


def open_encoder(name: str) -> Encode:
    if name.startswith("fast:"):
        from index.encoders.builtin import BuiltinEncoder

        return BuiltinEncoder(Path(name[5:])).encode
    if name == "teacher":
        from training import student, teach

        tokenizer, body = student.at_work(teach.folder_of(teach.PACKAGED))
        return lambda texts: student.encode(tokenizer, body, list(texts))
    from index.encoders.transformer import TransformerEncoder

    return TransformerEncoder(str(Path(name).absolute())).encode


@contextlib.contextmanager
def labelled(path: Path, wanted: str) -> Iterator[None]:
    """End with one line where a file of labelled data is not what is wanted."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, csv.Error) as error:
        raise SystemExit(f"{path} cannot be read, it wants {wanted}: {error}") from None


def table_rows(path: Path) -> list[list[str]]:
    """Return the rows of a table, all as wide as its first."""
    with path.open(encoding="utf-8", newline="") as stream:
        found: list[list[str]] = []
        for row in filter(None, lines := csv.reader(stream, strict=True)):
            if found and len(row) != len(found[0]):
                raise ValueError(f"line {lines.line_num} has {len(row)} cells")
            found.append(row)
    return found


def columns(path: Path, *names: str) -> list[tuple[str, ...]]:
    """Return these columns of a table with a heading."""
    with labelled(path, f"rows under a heading with {' and '.join(names)}"):
        heading, first, *rest = table_rows(path)
        places = [heading.index(name) for name in names]
        return [tuple(row[i] for i in places) for row in (first, *rest)]


def human_scores(folder: Path, part: str) -> dict[str, list[tuple[str, str, float]]]:
    """Return the same pairs of sentences with human scores, in each language that has them."""
    tables = {}
    for path in sorted(folder.glob(f"stsb-??-{part}.csv")):
        with labelled(path, "rows of sentence, sentence, score"):
            tables[path.name[5:7]] = [(a, b, float(score)) for a, b, score in table_rows(path)]
    if len({len(rows) for rows in tables.values()}) > 1:
        raise SystemExit(f"{folder} wants as many pairs in each stsb-xx-{part}.csv")
    return tables


def stsb(encode: Encode, folder: Path) -> dict[str, float]:
    """Spearman ×100 of cosine and human score; across languages the second text is foreign."""
    out, sides = {}, {}
    for language, rows in human_scores(folder, "dev").items():
        a, b = encode([row[0] for row in rows]), encode([row[1] for row in rows])
        human = [score for *_, score in rows]
        sides[language] = (a, b, human)
        out[f"STSb {language}"] = 100 * spearmanr((a * b).sum(1), human).statistic
    for first, second in CROSS:
        if {first, second} <= sides.keys():
            a, b = sides[first][0], sides[second][1]
            human = sides[first][2]
            out[f"STSb {first}–{second}"] = 100 * spearmanr((a * b).sum(1), human).statistic
    return out


def nearest(encode: Encode, pairs: list[tuple[str, str]]) -> list[float]:
    """Say whether each text's English is found among the distinct English of all."""
    english = sorted({en for _, en in pairs})
    scores = encode([text for text, _ in pairs]) @ encode(english).T
    return [100.0 * (english[i] == en) for i, (_, en) in zip(scores.argmax(1), pairs, strict=True)]


def translations(encode: Encode, dev: dict) -> Figures:
    out: Figures = {}
    parts = {"sentences": 700, "clauses": 700, "words": 600, "known words": 600, "phrases": 700}
    for part, most in parts.items():
        for language in sorted({row[0] for row in dev[part]}):
            rows = {en: (text, en) for lang, text, en in dev[part] if lang == language}
            out[f"{part[:-1]} {language}→en"] = nearest(encode, list(rows.values())[:most])
    return out


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    hits = relevant[np.argsort(-scores, kind="stable")]
    return float((np.cumsum(hits) / (1 + np.arange(len(hits))))[hits].mean())


def categories(encode: Encode, dev: dict) -> dict[str, float]:
    """Mean average precision ×100 of held-out categories over all members of all of them."""
    out = {}
    for language in languages(dev):
        found = [
            c for c in dev["categories"]
            if language in c["category"] and any(language in m for m in c["members"])
        ]  # fmt: skip
        members = [
            (m[language][0], i)
            for i, c in enumerate(found) for m in c["members"] if language in m
        ]  # fmt: skip
        if len(found) < LEAST:
            continue
        rows = encode([name for name, _ in members])
        heads = encode([c["category"][language][0] for c in found])
        owner = np.array([i for _, i in members])
        precision = [average_precision(rows @ head, owner == i) for i, head in enumerate(heads)]
        out[f"category {language}"] = 100 * float(np.mean(precision))
    return out


def attention(
    queries: np.ndarray, keys: np.ndarray, temperature: float, *, to_others: bool = False
) -> np.ndarray:
    """Return (q, n) weights; ``to_others``: of n rows to all but themselves."""
    logits = queries @ keys.T / temperature
    if to_others:
        np.fill_diagonal(logits, -np.inf)
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def label_lookup(encode: Encode, keys: list, queries: list | None = None) -> list[float]:
    """Say whether each query gets its label; without queries each key is asked of all others."""
    asked = queries or keys
    labels = sorted({label for _, label in keys})
    values = np.eye(len(labels))[[labels.index(label) for _, label in keys]]
    rows = encode([text for text, _ in keys])
    weights = attention(
        encode([text for text, _ in queries]) if queries else rows, rows,
        LOOKUP_TEMPERATURE, to_others=not queries,
    )  # fmt: skip
    best = (weights @ values).argmax(1)
    return [100.0 * (labels[b] == label) for b, (_, label) in zip(best, asked, strict=True)]


def banking(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the (question, intent) rows to look at and those to train on."""
    table = columns(folder / "banking77/train.csv", "text", "category")
    rows = [(text, label) for text, label in table]
    random.Random(0).shuffle(rows)
    return rows[:BANKING_SEEN], rows[BANKING_SEEN:]


def clinc(folder: Path) -> tuple[dict[str, list[tuple[str, str]]], list[tuple[str, str]]]:
    """Return the (question, intent) rows of each part to look at, and those to train on."""
    path = folder / "clinc150/train_val.json"
    with labelled(path, '{"train": [[question, intent], …], "val": …}'):
        content = json.loads(path.read_text(encoding="utf-8"))
        parts = {part: [(text, label) for text, label in rows] for part, rows in content.items()}
        train, val = parts["train"], parts["val"]
    return {**parts, "train": train[::4], "val": val}, [row for i, row in enumerate(train) if i % 4]


def questions(folder: Path) -> list[str]:
    """Return English questions that no table looks at: the teacher's rows of them train us."""
    (seen, rest), (parts, more) = banking(folder), clinc(folder)
    known = {_plain(text) for rows in (seen, *parts.values()) for text, _ in rows}
    return [text for text, _ in rest + more if _plain(text) not in known]


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def lookups(encode: Encode, folder: Path, seed: int = 0) -> Figures:
    rows, _ = banking(folder)
    out: Figures = {"Banking77": label_lookup(encode, rows)}
    intents, _ = clinc(folder)
    out["CLINC150"] = label_lookup(encode, intents["train"], intents["val"])
    path = folder / "concreteness_train.csv"
    with labelled(path, "numbers under concreteness"):
        words = [(word, float(n)) for word, n in columns(path, "word", "concreteness")]
    random.Random(seed).shuffle(words)
    names, ratings = zip(*words[:RATED], strict=True)
    found = encode(list(names))
    guess = attention(found, found, LOOKUP_TEMPERATURE, to_others=True) @ np.array(ratings)
    out["concreteness r ×100"] = 100 * pearsonr(guess, ratings).statistic
    return out


def acceptance(encode: Encode, temperature: float) -> list[tuple[str, np.ndarray, float, bool]]:
    """Return (query, weights, blend, passes) over the four countries-and-a-dog keys."""
    keys, values = encode(list(ACCEPTED)), np.array(list(ACCEPTED.values()))
    rows = []
    for query in (*COUNTRY_QUERIES, *DOG_QUERIES):
        weights = attention(encode([query]), keys, temperature)[0]
        blend = float(weights @ values)
        if query in DOG_QUERIES:
            passes = weights.argmax() == 3
        else:
            passes = weights[3] <= 0.15 <= weights[:3].min() and 7.7 <= blend <= 8.7
            passes &= weights[3] < weights[:3].min()
        rows.append((query, weights, blend, bool(passes)))
    return rows


def evaluate(name: str, prepared: Path, folder: Path) -> Figures:
    dev = json.loads((prepared / "dev.json").read_text(encoding="utf-8"))
    encode = open_encoder(name)
    return {
        **stsb(encode, folder / "stsb"), **translations(encode, dev), **categories(encode, dev),
        **lookups(encode, folder),
    }  # fmt: skip


def remembered(name: str, prepared: Path, folder: Path, kept: Path) -> Figures:
    """Return the figures of these weights on these data, measured once by this code."""
    from index.encoders import builtin

    encoder = Path(name.removeprefix("fast:"))
    names = ("tokenizer.json", "*.safetensors", "*.onnx")
    weights = [path for name in names for path in sorted(encoder.rglob(name))]
    tables = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    code = (Path(__file__), Path(builtin.__file__))
    version = corpus.fingerprint(*code, *weights, prepared / "dev.json", *tables)[:12]
    memory = kept / f"{name.replace('/', '_').replace(':', '_')}-{version}.json"
    if not memory.exists():
        kept.mkdir(parents=True, exist_ok=True)
        part = memory.with_suffix(".part")
        part.write_text(json.dumps(evaluate(name, prepared, folder)))
        part.rename(memory)
    return json.loads(memory.read_text())


def cell(figure: float | list[float], first: float | list[float]) -> str:
    shown = f"{np.mean(figure):.1f}"
    if figure is first or min(np.size(figure), np.size(first)) < 2:
        return shown
    return f"{shown} ± {sem(np.subtract(figure, first)):.1f}"


def table(figures: dict[str, Figures]) -> Iterator[str]:
    """Yield the lines of a table: a row for each that any encoder has, a column an encoder."""
    yield "| development data | " + " | ".join(figures) + " |"
    yield "|---" * (1 + len(figures)) + "|"
    first = next(iter(figures.values()))
    for row in dict.fromkeys(row for found in figures.values() for row in found):
        cells = [cell(found.get(row, np.nan), first.get(row, np.nan)) for found in figures.values()]
        yield "| " + " | ".join([row, *cells]) + " |"
    if len(figures) > 1:
        yield "\n±: one standard error of the difference from the first column, pair by pair"


if __name__ == "__main__":
    parser = arguments(__doc__, eval="../shared/eval", prepared="work/encoder/prepared",
                       kept="work/encoder/evaluation")  # fmt: skip
    parser.add_argument("encoders", nargs="*", default=["teacher", "fast:data/encoder"],
                        help="columns of the table")  # fmt: skip
    parser.add_argument("--temperature", type=float, default=0.1, help="of the acceptance table")
    args = parser.parse_args()
    with in_words():
        print(*table({
            name: remembered(name, args.prepared, args.eval, args.kept) for name in args.encoders
        }), sep="\n")  # fmt: skip
        for name in args.encoders:
            print(f"\n{name} at τ = {args.temperature}: " + " ".join(ACCEPTED))
            for query, weights, blend, passes in acceptance(open_encoder(name), args.temperature):
                shown = " ".join(f"{weight:.2f}" for weight in weights)
                print(f"  {query:8} {shown}  blend {blend:.2f}  {'passes' if passes else 'FAILS'}")

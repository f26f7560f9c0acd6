"""Turn the corpus into (foreign text → weighted English texts) rows, and set the dev data aside.

The words that dev.json calls known are trained on: beside the others they tell what is not learnt
yet from what does not carry over.

A word's candidates come from Wiktionary and WordNet with weights; ``teach`` blends them around the
most probable sense, so that *banco* is not half way between a bench and a bank's building.
"""

import collections
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from training import arguments, corpus, in_words
from training.clauses import clause
from training.evaluate import questions

# English lemma of each category whose hypernym links are kept for development.
HELD_OUT = ("bird", "garment", "tree", "vehicle", "relative", "metal", "fish")
Row = tuple[str, str, str, Sequence[int], Sequence[float]]
COLUMNS = ("language", "kind", "text", "targets", "weights")  # of a row
LETTERS = re.compile(r"\w+")
WRITTEN = ("rows.parquet", "english.parquet", "hypernyms.json", "dev.json")
SOURCE_LIMITS = {"python-docs": 25_000}  # their English is of one kind
DOCUMENTS = ("wmt", "ntrex")  # sources whose consecutive lines are of one piece of news
PARAGRAPH_EACH = 3  # lines
MAX_CHARACTERS = 420
FORM_USES = 2  # of a form of an English word in the English texts, from which it is a row too
CANDIDATES = 6  # English texts blended into one word's target
PHRASES = 30_000  # pairs of things, each joined in every language that has a name for both
THING_USES = 12  # of the name of a thing in the English texts, from which it is joined
NAMED_IN = 4  # languages beside English, or all where they are fewer, from which so is it
THINGS = ("artifact", "food", "animal", "plant", "person", "substance", "body")
JOINTS = {
    "en": ("{b} {a}", "{a} for {b}", "{a} and {b}"),
    "es": ("{a} de {b}", "{a} para {b}", "{a} y {b}"),
    "pt": ("{a} de {b}", "{a} para {b}", "{a} e {b}"),
    "fr": ("{a} de {b}", "{a} pour {b}", "{a} et {b}"),
    "it": ("{a} di {b}", "{a} per {b}", "{a} e {b}"),
    "de": ("{b}{a}", "{a} für {b}", "{a} und {b}"),
}


class English:
    """Distinct English texts, numbered in order of first use."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids))

    def row(self, language: str, kind: str, text: str, english: str) -> Row:
        """Return the row of a text with one target, this English."""
        return language, kind, text, [self[english]], [1.0]


def limited(pairs: list[tuple[str, str]], source: str, english: English, rng) -> list:
    """Draw as many pairs as a source may have, each English text twice at most."""
    most = next((n for name, n in SOURCE_LIMITS.items() if source.startswith(name)), 10**9)
    if len(pairs) <= most:
        return pairs
    rng.shuffle(pairs)
    # Texts that other languages translate too come first: one teacher row serves them all.
    pairs.sort(key=lambda pair: pair[0] not in english.ids)
    variants: collections.Counter = collections.Counter()
    kept = []
    for en, foreign in pairs:
        variants[en] += 1
        if variants[en] <= 2:
            kept.append((en, foreign))
    return kept[:most]


def sentence_rows(folder, language, english, rng, dev) -> Iterator[Row]:
    by_source = collections.defaultdict(list)
    for en, foreign, source in corpus.sentences(folder, language):
        if len(en) > MAX_CHARACTERS or len(foreign) > MAX_CHARACTERS:
            continue
        if not corpus.one_in(150, en):
            by_source[source].append((en, foreign))
        elif len(en.split()) >= 5 and not source.startswith("python"):
            dev["sentences"].append((language, foreign, en))
    for source, pairs in by_source.items():
        if source.startswith(DOCUMENTS):
            for start in range(0, len(pairs) - 5, PARAGRAPH_EACH):
                part = pairs[start : start + rng.randint(3, 5)]
                en, foreign = (" ".join(side) for side in zip(*part, strict=True))
                yield english.row(language, "paragraph", foreign, en)
        for en, foreign in limited(pairs, source, english, rng):
            yield english.row(language, "sentence", foreign, en)


def clause_rows(rows, english, dev) -> Iterator[Row]:
    """Leave the subject out of sentences, of those that are held out for ``dev``."""
    lines = list(english.ids)
    for language, text, line in dev["sentences"]:
        if found := clause(language, text, line):
            dev["clauses"].append((language, *found))
    held = {line for *_, line in dev["clauses"]}
    left: dict[tuple[str, str, str], None] = {}  # of some it is the same, as of Él and Ella
    for language, kind, text, (target, *_), _ in rows:
        found = clause(language, text, lines[target]) if kind == "sentence" else None
        if found and found[1] not in held:
            left[language, *found] = left["en", found[1], found[1]] = None
    for language, text, line in left:
        yield english.row(language, "clause", text, line)


def lexicon(folder, language, synsets):
    """Map each foreign word to its English candidates {(lemma, context): weight}."""
    words: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for word, lemma, context, weight in corpus.wiktionary(folder, language):
        words[word][lemma, context] += weight
    translations = {word: {lemma.lower() for lemma, _ in found} for word, found in words.items()}
    for synset in synsets:
        for word in synset.get(language, ()):
            known = translations.get(word, set())
            for rank, lemma in enumerate(synset["en"][:3]):
                agrees = lemma.lower() in known
                words[word][lemma, synset["def"]] += (1.0 if agrees else 0.35) / (1 + rank)
    return words


def put_in_order(folder, language, synsets) -> None:
    """Put a synset's words in order, those first that Wiktionary has for it, then the most used.

    The file has them by the alphabet, and some are wrong: *pois*, a pea, before *poisson*.
    """
    known: dict[str, set] = collections.defaultdict(set)
    for word, lemma, *_ in corpus.wiktionary(folder, language):
        known[word.lower()].add(lemma.lower())
    used: collections.Counter = collections.Counter()
    for _, foreign, _ in corpus.sentences(folder, language):
        used.update(LETTERS.findall(foreign.lower()))
    for synset in synsets:
        english = {lemma.lower() for lemma in synset["en"]}
        synset.get(language, []).sort(
            key=lambda word: (known[word.lower()].isdisjoint(english), -used[word.lower()])
        )


def word_rows(folder, language, english, synsets, ambiguous, dev) -> Iterator[Row]:
    for word, candidates in lexicon(folder, language, synsets).items():
        if len(word) > 80 or not any(c.isalpha() for c in word) or word == "GAP!":
            continue
        lemmas: collections.Counter = collections.Counter()
        contexts: dict[str, tuple[str, float]] = {}  # of each lemma the one of most weight
        for (lemma, context), weight in candidates.items():
            lemmas[lemma] += weight
            if weight >= contexts.get(lemma, ("", 0.0))[1]:
                contexts[lemma] = (context, weight)
        best = lemmas.most_common(CANDIDATES)
        lemma, most = best[0]
        if corpus.one_in(120, language + word):
            dev["words"].append((language, word, lemma))
            continue
        if corpus.one_in(120, f"known {language}{word}"):
            dev["known words"].append((language, word, lemma))
        context, _ = contexts[lemma]
        if context and lemma.lower() in ambiguous:
            best.append((f"{lemma} ({context[:120]})", 0.4 * most))
        yield language, "word", word, [english[text] for text, _ in best], [w for _, w in best]


def things(synsets, uses) -> set[str]:
    """Return the English names that are of things more often than of anything else."""
    senses: collections.Counter = collections.Counter()
    for synset in synsets:
        thing = synset["lex"].removeprefix("noun.") in THINGS
        senses.update(dict.fromkeys(synset["en"], 1 if thing else -1))
    return {lemma for lemma, n in senses.items() if n > 0 and uses[lemma] >= THING_USES}


def names_of(wanted: set[str], rows: list[Row], english) -> dict[str, dict[str, str]]:
    """Return the foreign names of these English ones, the best in each language, by name."""
    lemmas = list(english.ids)
    found: dict[str, dict] = collections.defaultdict(dict)
    for language, kind, word, targets, weights in rows:
        lemma = lemmas[targets[0]]
        joinable = kind == "word" and language in JOINTS and language != "en"
        if joinable and lemma in wanted and weights[0] >= sum(weights) / 2:
            found[lemma][language] = max(found[lemma].get(language, (0.0, "")), (weights[0], word))
    return {
        lemma: {language: word for language, (_, word) in found[lemma].items()}
        for lemma in sorted(found)
    }  # fmt: skip


def phrase_rows(rows, english, synsets, uses, rng, dev) -> Iterator[Row]:
    """Join the names of two things as labels do: *funda de guitarra*, *guitar case*."""
    names = names_of(things(synsets, uses), rows, english)
    enough = min(NAMED_IN, len({language for named in names.values() for language in named}))
    nouns = [lemma for lemma, named in names.items() if len(named) >= enough]
    for _ in range(PHRASES if len(nouns) > 1 else 0):
        a, b = rng.sample(nouns, 2)
        joint = rng.randrange(len(JOINTS["en"]))
        label = JOINTS["en"][joint].format(a=a, b=b)
        joined = [
            (language, JOINTS[language][joint].format(a=name, b=names[b][language]))
            for language, name in names[a].items() if language in names[b]
        ]  # fmt: skip
        if corpus.one_in(30, label):
            dev["phrases"] += [(language, text, label) for language, text in joined]
            continue
        for language, text in [("en", label), *joined]:
            yield english.row(language, "phrase", text, label)


def parents(synset: dict) -> list[str]:
    return [each for name in corpus.UPWARDS for each in synset.get(name, [])]


def below(category: str, children: dict[str, list[str]]) -> set[str]:
    stack, found = [category], set()
    while stack:
        fresh = set(children[stack.pop()]) - found
        found |= fresh
        stack += fresh
    return found


def hold_out(known, children, languages, dev) -> set[str]:
    """Put the categories that are held out into ``dev``; return them and all below them."""
    held, enough = set(), min(NAMED_IN, len(languages))
    for name in HELD_OUT:
        senses = [i for i, s in known.items() if s["lex"].startswith("noun") and name in s["en"]]
        if senses:
            category = max(senses, key=lambda i: len(below(i, children)))
            members = below(category, children)
            held |= {category, *members}
            common = [m for m in members if sum(lang in known[m] for lang in languages) >= enough]
            dev["categories"].append({
                "category": known[category], "members": [known[m] for m in sorted(common)[:60]],
            })  # fmt: skip
    return held


def hypernyms(synsets, languages, dev) -> list[dict]:
    """Return (category, member) index pairs over named synsets, and hold some categories out."""
    known = {synset["identity"]: synset for synset in synsets}
    children = collections.defaultdict(list)
    for identity, synset in known.items():
        for parent in parents(synset):
            children[parent].append(identity)
    held = hold_out(known, children, languages, dev)
    named = {identity for identity, s in known.items() if any(lang in s for lang in languages)}
    rows = []
    for identity, synset in known.items():
        if identity in held or identity not in named or not synset["lex"].startswith("noun"):
            continue
        level, seen = parents(synset), set()
        for depth in range(4):
            for parent in level:
                if parent in known and parent not in seen and len(children[parent]) >= 3:
                    seen.add(parent)
                    if parent in named:
                        rows.append({"category": parent, "member": identity, "depth": depth})
            level = [p for parent in level for p in parents(known.get(parent, {}))]
    return rows


def named_in(synset: dict, languages: list[str], held: set[tuple[str, str]]) -> dict:
    """Return the first names of a synset by language, but for words that are held out."""
    names = {
        language: [
            word for word in synset.get(language, []) if (language, word.lower()) not in held
        ]
        for language in languages
    }
    return {language: found[:4] for language, found in names.items() if found}


def keep_apart(dev: dict, rows: list[Row]) -> None:
    """Hold out no text that is trained on in other capitals, or beside another English text."""
    trained = {(language, text.lower()) for language, _, text, *_ in rows}
    for part in ("sentences", "clauses", "words", "phrases"):
        dev[part] = [row for row in dev[part] if (row[0], row[1].lower()) not in trained]


def wordnet_rows(synsets, languages, english) -> Iterator[Row]:
    """Yield English words and glosses, which must stay where the teacher has them."""
    for synset in synsets:
        if sum(language in synset for language in languages) >= min(2, len(languages)):
            for word in synset["en"][:3]:
                yield english.row("en", "word", word, word)
        yield english.row("en", "gloss", synset["def"], synset["def"])


def write(out: Path, rows: list[Row], english: English, lineage: dict, dev: dict) -> None:
    out.mkdir(parents=True, exist_ok=True)
    parts = [out / f"{name}.part" for name in WRITTEN]  # rows are of the English beside them
    columns = zip(*rows, strict=True)
    pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), parts[0])
    pq.write_table(pa.table({"text": list(english.ids)}), parts[1])
    parts[2].write_text(json.dumps(lineage))
    parts[3].write_text(json.dumps(dev, ensure_ascii=False), encoding="utf-8")
    written = [part.with_suffix("") for part in parts]
    for path in written:  # killed between two of these, none is left beside what it is not of
        path.unlink(missing_ok=True)
    for part, path in zip(parts, written, strict=True):
        part.replace(path)


def prepare(folder: Path, labelled: Path, out: Path, seed: int = 0) -> None:
    for name in ("en-??.tsv.gz", "concepts.jsonl.gz"):
        if not any(folder.glob(name)):
            raise SystemExit(f"{folder} holds no {name.replace('?', 'x')}")
    try:
        asked = questions(labelled)
    except FileNotFoundError as error:
        raise SystemExit(f"{error.filename} is missing: see --eval") from None
    rng, english = random.Random(seed), English()
    parts = ("sentences", "clauses", "words", "known words", "phrases", "categories")
    dev: dict[str, list] = {part: [] for part in parts}
    synsets = list(corpus.concepts(folder))
    senses = collections.Counter(lemma.lower() for synset in synsets for lemma in synset["en"])
    ambiguous = {lemma for lemma, n in senses.items() if n > 1}
    languages = corpus.languages(folder)
    rows: list[Row] = []
    for language in sorted(languages, key=lambda name: (name not in ("it", "pt", "es"), name)):
        put_in_order(folder, language, synsets)
        rows += sentence_rows(folder, language, english, rng, dev)
        rows += word_rows(folder, language, english, synsets, ambiguous, dev)
    worded = [language for language in languages if any(language in s for s in synsets)]
    rows += wordnet_rows(synsets, worded, english)
    uses = corpus.uses(english.ids)
    rows += [english.row("en", "form", word, word) for word, n in uses.items() if n >= FORM_USES]
    rows += [english.row("en", "question", question, question) for question in asked]
    rows += phrase_rows(rows, english, synsets, uses, rng, dev)
    rows += clause_rows(rows, english, dev)
    keep_apart(dev, rows)
    pairs = hypernyms(synsets, worded, dev)
    needed = {p for pair in pairs for p in (pair["category"], pair["member"])}
    held = {(language, word.lower()) for language, word, _ in dev["words"]}
    names = {
        s["identity"]: named_in(s, ["en", *languages], held)
        for s in synsets if s["identity"] in needed
    }  # fmt: skip
    write(out, rows, english, {"names": names, "pairs": pairs}, dev)
    for (language, kind), n in sorted(collections.Counter(row[:2] for row in rows).items()):
        print(f"{language} {kind:10} {n:8,}")
    print(f"{len(english.ids):,} distinct English texts, {len(pairs):,} hypernym pairs")
    print({name: len(part) for name, part in dev.items()})


if __name__ == "__main__":
    parser = arguments(
        __doc__, corpus="../shared/corpus", eval="../shared/eval", out="work/encoder/prepared"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    args = parser.parse_args()
    with in_words():
        prepare(args.corpus, args.eval, args.out, args.seed)

"""Turn the corpus into (foreign text → weighted English texts) rows, and set the dev data aside.

The words that dev.json calls known are trained on: beside the others they tell what is not learnt
yet from what does not carry over.

A word's candidates come from Wiktionary and WordNet with weights; ``teach`` blends them around the
most probable sense, so that *banco* is not half way between a bench and a bank's building.
"""

import argparse
import collections
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from training import corpus, in_words
from training.evaluate import questions

# English lemma of each category whose hypernym links are kept for development.
HELD_OUT = ("bird", "garment", "tree", "vehicle", "relative", "metal", "fish")
WRITTEN = ("rows.parquet", "english.parquet", "hypernyms.json", "dev.json")
SOURCE_LIMITS = {"manythings": 62_000, "python-docs": 14_000, "multi30k": 14_000, "wmt": 24_000}
DOCUMENTS = ("wmt", "ntrex")  # sources whose consecutive lines are of one piece of news
PARAGRAPH_EACH = 9  # lines
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


def limit(source: str) -> int:
    return next((n for name, n in SOURCE_LIMITS.items() if source.startswith(name)), 10**9)


def sentence_rows(folder, language, english, rng, dev):
    by_source = collections.defaultdict(list)
    for en, foreign, source in corpus.sentences(folder, language):
        if len(en) > MAX_CHARACTERS or len(foreign) > MAX_CHARACTERS:
            continue
        if corpus.one_in(150, en):
            if len(en.split()) >= 5 and not source.startswith("python"):
                dev["sentences"].append((language, foreign, en))
            continue
        by_source[source].append((en, foreign))
    for source, pairs in by_source.items():
        if source.startswith(DOCUMENTS):
            for start in range(0, len(pairs) - 5, PARAGRAPH_EACH):
                part = pairs[start : start + rng.randint(3, 5)]
                yield (
                    language, "paragraph", " ".join(foreign for _, foreign in part),
                    [english[" ".join(en for en, _ in part)]], [1.0],
                )  # fmt: skip
        # Texts that other languages translate too come first: one teacher row serves them all.
        if len(pairs) > limit(source):
            rng.shuffle(pairs)
            pairs.sort(key=lambda pair: pair[0] not in english.ids)
            variants: collections.Counter = collections.Counter()
            kept = []
            for en, foreign in pairs:
                variants[en] += 1
                if variants[en] <= 2:
                    kept.append((en, foreign))
            pairs = kept[: limit(source)]
        for en, foreign in pairs:
            yield language, "sentence", foreign, [english[en]], [1.0]


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


def word_rows(folder, language, english, synsets, ambiguous, dev):
    for word, candidates in lexicon(folder, language, synsets).items():
        if len(word) > 80 or not any(c.isalpha() for c in word) or word == "GAP!":
            continue
        lemmas = collections.Counter()
        contexts = {}
        for (lemma, context), weight in candidates.items():
            lemmas[lemma] += weight
            if weight >= contexts.get(lemma, ("", 0.0))[1]:
                contexts[lemma] = (context, weight)
        best = lemmas.most_common(CANDIDATES)
        if corpus.one_in(120, language + word):
            dev["words"].append((language, word, best[0][0]))
            continue
        if corpus.one_in(120, f"known {language}{word}"):
            dev["known words"].append((language, word, best[0][0]))
        targets, weights = [], []
        for lemma, weight in best:
            targets.append(english[lemma])
            weights.append(weight)
        lemma = best[0][0]
        context = contexts[lemma][0]
        if context and lemma.lower() in ambiguous:
            targets.append(english[f"{lemma} ({context[:120]})"])
            weights.append(0.4 * best[0][1])
        yield language, "word", word, targets, weights


def phrase_rows(rows, english, synsets, uses, rng, dev):
    """Join the names of two things as labels do: *funda de guitarra*, *guitar case*."""
    senses: collections.Counter = collections.Counter()  # those that are things, less the others
    for synset in synsets:
        thing = synset["lex"].removeprefix("noun.") in THINGS
        senses.update(dict.fromkeys(synset["en"], 1 if thing else -1))
    things = {lemma for lemma, n in senses.items() if n > 0 and uses[lemma] >= THING_USES}
    lemmas = list(english.ids)
    names: dict[str, dict[str, tuple[float, str]]] = collections.defaultdict(dict)
    for language, kind, word, targets, weights in rows:
        lemma = lemmas[targets[0]]
        joinable = kind == "word" and language in JOINTS and language != "en"
        if joinable and lemma in things and weights[0] >= sum(weights) / 2:
            names[lemma][language] = max(names[lemma].get(language, (0.0, "")), (weights[0], word))
    enough = min(NAMED_IN, len({language for named in names.values() for language in named}))
    nouns = sorted(lemma for lemma, named in names.items() if len(named) >= enough)
    if len(nouns) < 2:
        return
    for _ in range(PHRASES):
        a, b = rng.sample(nouns, 2)
        joint = rng.randrange(len(JOINTS["en"]))
        label = JOINTS["en"][joint].format(a=a, b=b)
        joined = [
            (language, JOINTS[language][joint].format(a=name, b=names[b][language][1]))
            for language, (_, name) in names[a].items() if language in names[b]
        ]  # fmt: skip
        if corpus.one_in(30, label):
            dev["phrases"] += [(language, text, label) for language, text in joined]
            continue
        for language, text in [("en", label), *joined]:
            yield language, "phrase", text, [english[label]], [1.0]


def hypernyms(synsets, language_list, dev):
    """Return (category, member) index pairs over named synsets, and hold some categories out."""
    known = {synset["identity"]: synset for synset in synsets}
    first = {}
    for synset in synsets:
        if synset["lex"].startswith("noun"):
            for lemma in synset["en"]:
                first.setdefault(lemma, []).append(synset["identity"])

    def parents(identity):
        synset = known.get(identity, {})
        return synset.get("hypernym", []) + synset.get("instance_hypernym", [])

    children = collections.defaultdict(list)
    for identity in known:
        for parent in parents(identity):
            children[parent].append(identity)

    def descendants(identity):
        stack, found = [identity], set()
        while stack:
            for child in children[stack.pop()]:
                if child not in found:
                    found.add(child)
                    stack.append(child)
        return found

    held, enough = set(), min(NAMED_IN, len(language_list))
    for name in HELD_OUT:
        category = max(first.get(name, []), key=lambda i: len(descendants(i)), default=None)
        if category is None:
            continue
        below = descendants(category)
        held.add(category)
        held |= below
        common = [m for m in below if sum(lang in known[m] for lang in language_list) >= enough]
        dev["categories"].append({
            "category": known[category], "members": [known[m] for m in sorted(common)[:60]],
        })  # fmt: skip
    rows = []
    for identity, synset in known.items():
        if not synset["lex"].startswith("noun") or identity in held:
            continue
        if not any(lang in synset for lang in language_list):
            continue
        level, seen = parents(identity), set()
        for depth in range(4):
            for parent in level:
                if parent in known and parent not in seen and len(children[parent]) >= 3:
                    seen.add(parent)
                    if any(lang in known[parent] for lang in language_list):
                        rows.append({"category": parent, "member": identity, "depth": depth})
            level = [p for parent in level for p in parents(parent)]
    return rows


def prepare(folder: Path, labelled: Path, out: Path, seed: int = 0) -> None:
    for name in ("en-??.tsv.gz", "concepts.jsonl.gz"):
        if not any(folder.glob(name)):
            raise SystemExit(f"{folder} holds no {name.replace('?', 'x')}")
    try:
        asked = questions(labelled)
    except FileNotFoundError as error:
        raise SystemExit(f"{error.filename} is missing: see --eval") from None
    rng = random.Random(seed)
    english = English()
    dev = {"sentences": [], "words": [], "known words": [], "phrases": [], "categories": []}
    synsets = list(corpus.concepts(folder))
    senses = collections.Counter(lemma.lower() for synset in synsets for lemma in synset["en"])
    ambiguous = {lemma for lemma, n in senses.items() if n > 1}
    found = corpus.languages(folder)
    rows = []
    for language in sorted(found, key=lambda name: (name not in ("it", "pt", "es"), name)):
        rows += sentence_rows(folder, language, english, rng, dev)
        rows += word_rows(folder, language, english, synsets, ambiguous, dev)
    for synset in synsets:  # English words must stay where the teacher has them
        if sum(language in synset for language in found) >= min(2, len(found)):
            rows += [("en", "word", w, [english[w]], [1.0]) for w in synset["en"][:3]]
            if corpus.one_in(3, synset["identity"]):
                rows.append(("en", "gloss", synset["def"], [english[synset["def"]]], [1.0]))
    uses = corpus.uses(english.ids)
    for form, used in uses.items():
        if used >= FORM_USES:
            rows.append(("en", "form", form, [english[form]], [1.0]))
    for question in asked:
        rows.append(("en", "question", question, [english[question]], [1.0]))
    rows += phrase_rows(rows, english, synsets, uses, rng, dev)
    pairs = hypernyms(synsets, found, dev)
    out.mkdir(parents=True, exist_ok=True)
    language, kind, text, targets, weights = zip(*rows, strict=True)
    table = {"language": language, "kind": kind, "text": text, "targets": targets,
             "weights": weights}  # fmt: skip
    parts = [out / f"{name}.part" for name in WRITTEN]  # rows are of the English beside them
    pq.write_table(pa.table(table), parts[0])
    pq.write_table(pa.table({"text": list(english.ids)}), parts[1])
    needed = {p for pair in pairs for p in (pair["category"], pair["member"])}
    names = {
        s["identity"]: {lang: s[lang][:4] for lang in ["en", *found] if lang in s}
        for s in synsets if s["identity"] in needed
    }  # fmt: skip
    parts[2].write_text(json.dumps({"names": names, "pairs": pairs}))
    parts[3].write_text(json.dumps(dev, ensure_ascii=False), encoding="utf-8")
    for part in parts:
        part.replace(part.with_suffix(""))
    counts = collections.Counter(zip(language, kind, strict=True))
    for (lang, what), n in sorted(counts.items()):
        print(f"{lang} {what:10} {n:8,}")
    print(f"{len(english.ids):,} distinct English texts, {len(pairs):,} hypernym pairs")
    print({name: len(part) for name, part in dev.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--eval", type=Path, default=Path("../shared/eval"))
    parser.add_argument("--out", type=Path, default=Path("work/encoder/prepared"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with in_words():
        prepare(args.corpus, args.eval, args.out, args.seed)

"""Read the public text: sentence pairs, Wiktionary, WordNet.

A language is a file: ``en-xx.tsv.gz`` in the corpus folder brings sentences of language ``xx``,
``wiktionary-xx.tsv.gz`` its words, and the key ``xx`` in ``concepts.jsonl.gz`` its WordNet.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

WORD = re.compile("[a-z]{2,}")
MARKS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|/[^/]*/")
ASIDE = re.compile(r"\(([^)]*)\)")
FORM_OF = re.compile(
    r"\b(form|plural|singular|gerund|participle|spelling|inflection|feminine|masculine|diminutive"
    r"|augmentative|abbreviation|synonym|superlative|comparative|person|letter|initialism|name)\b.*\bof\b"
    r"|given name|surname",
    re.I,
)


def languages(folder: Path) -> list[str]:
    """Return the languages that have sentences; a file that is named nearly so is an error."""
    found = set()
    for path in sorted([*folder.glob("en-*"), *folder.glob("wiktionary-*")]):
        named = re.fullmatch(r"(en|wiktionary)-([a-z]{2})\.tsv\.gz", path.name)
        if named is None:
            kind = path.name.partition("-")[0]
            raise SystemExit(f"{path} would not be read: name it like {kind}-nl.tsv.gz, compressed")
        if named[1] == "en":
            found.add(named[2])
        elif not (folder / f"en-{named[2]}.tsv.gz").exists():
            raise SystemExit(f"{path} would not be read: there is no en-{named[2]}.tsv.gz")
    return sorted(found)


def lines(path: Path) -> Iterator[str]:
    if path.exists():
        try:
            with gzip.open(path, "rt", encoding="utf-8") as stream:
                yield from (line.rstrip("\n") for line in stream)
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise SystemExit(f"{path} cannot be read: {error}") from None


def columns(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line and its three columns."""
    for number, line in enumerate(lines(path), 1):
        parts = line.split("\t")
        if len(parts) != 3:
            raise SystemExit(f"{path}, line {number}: 3 columns are wanted, not {len(parts)}")
        yield number, parts


def fingerprint(*paths: Path) -> str:
    """Return one SHA-256 of the names and the content of these files."""
    each = (path.name.encode() + hashlib.sha256(path.read_bytes()).digest() for path in paths)
    return hashlib.sha256(b"".join(each)).hexdigest()


def one_in(n: int, text: str) -> bool:
    """Say, the same way on every machine, whether ``text`` belongs to a held-out share of 1/n."""
    return zlib.crc32(text.encode()) % n == 0


def sentences(folder: Path, language: str) -> Iterator[tuple[str, str, str]]:
    """Yield (English, foreign, source)."""
    path, found = folder / f"en-{language}.tsv.gz", False
    for _, (english, foreign, source) in columns(path):
        if english.strip() and foreign.strip():
            found = True
            yield english.strip(), foreign.strip(), source
    if not found:
        raise SystemExit(f"{path} holds no sentence")


def plain(text: str) -> str:
    return " ".join(ASIDE.sub(" ", MARKS.sub(" ", text)).split())


def wiktionary(folder: Path, language: str) -> Iterator[tuple[str, str, str, float]]:
    """Yield (foreign word, English, context or "", weight): earlier senses weigh more."""
    seen: dict[str, int] = {}
    path = folder / f"wiktionary-{language}.tsv.gz"
    into, out_of = f"en-{language}", f"{language}-en"
    number = 0
    for number, (direction, head, tail) in columns(path):
        if direction not in (into, out_of):
            raise SystemExit(f"{path}, line {number}: {direction} is neither {into} nor {out_of}")
        name = plain(head)
        order = seen[direction + name] = seen.get(direction + name, -1) + 1
        sense = 1 / (1 + order)
        if direction == into:
            context = " ".join(ASIDE.findall(MARKS.sub(" ", head)))
            english = re.sub(r"^(to|the) ", "", name) if len(name.split()) > 1 else name
            for rank, word in enumerate(re.split(r"[,;]", plain(tail))):
                if word.strip():
                    yield word.strip(), english, context, 0.7 * sense / (1 + rank)
        elif not FORM_OF.search(tail):
            for rank, gloss in enumerate(re.split(r"[;,](?![^(]*\))", MARKS.sub(" ", tail))):
                english = re.sub(r"^(to|the|a|an) ", "", plain(gloss))
                context = " ".join(ASIDE.findall(gloss))
                if english and len(english.split()) <= 8:
                    yield name, english, context, sense / (1 + rank)
    if path.exists() and not number:
        raise SystemExit(f"{path} holds no word")


def uses(texts: Iterable[str]) -> Counter[str]:
    """Count the words of English texts, each form by itself."""
    return Counter(word for text in texts for word in WORD.findall(text.lower()))


UPWARDS = ("hypernym", "instance_hypernym")  # identities of what a synset is a kind of


def concepts(folder: Path) -> Iterator[dict]:
    """Yield WordNet synsets: identity, en, def, hypernym, and lemmas by language.

    What the file calls ``id`` is ``identity``: ``id`` is Indonesian, as every key of two letters
    is a language.
    """
    path, number = folder / "concepts.jsonl.gz", 0
    for number, line in enumerate(lines(path), 1):
        try:
            # An empty list is of a language that has no word for it.
            synset = {name: value for name, value in json.loads(line).items() if value != []}
        except (ValueError, AttributeError) as error:
            raise SystemExit(f"{path}, line {number}: {error}") from None
        if lacking := {"id", "lex", "en", "def"}.difference(synset):
            raise SystemExit(f"{path}, line {number} lacks {', '.join(sorted(lacking))}")
        for name in ("id", "lex", "def"):
            if not isinstance(synset[name], str):
                raise SystemExit(f"{path}, line {number}: {name} is no text")
        synset["identity"] = synset.pop("id")
        for name, given in synset.items():
            words = isinstance(given, list) and all(isinstance(each, str) for each in given)
            if (len(name) == 2 or name in UPWARDS) and not words:
                raise SystemExit(f"{path}, line {number}: {name} is no list of words")
        yield synset
    if not number:
        raise SystemExit(f"{path} holds no synset")

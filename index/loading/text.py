"""Text out of bytes: which encoding they are in, and lines of bounded length.

``charset_normalizer`` and chardet read short tables as the letters of other countries: the ñ of a
Spanish one in cp1252 as Polish ń, the ÃO of MELÃO as Chinese. So where all but a few letters are
those of Western Europe, another Latin encoding has to be far likelier: Hungarian in cp1250 may have
no others (õ is its ő). Elsewhere the likeliest of those that spreadsheets write is taken. chardet
says how likely each is, asked about it alone, for its models know words in small letters: the words
in capitals are put in small ones as that encoding reads them.
"""

from __future__ import annotations

import codecs
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from index.errors import UnreadableSource
from index.loading.options import LoadOptions
from index.loading.sources import BLOCK, Source

LONGEST_LINE = 1 << 24  # characters; a cell of CSV too
FAR_LIKELIER = 2.25  # times; at 2, the list of the French words intégrés and mêle is Polish
FEW = 0.03  # of the foreign letters may be strange ones: a name from elsewhere
SAMPLE = 1 << 16  # bytes of non-ASCII lines, from which an encoding is guessed
SCORED = 1 << 14  # characters of them that chardet scores

# Longest first: the BOM of UTF-16 LE begins that of UTF-32 LE.
BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What decoders say of an end in the middle of a character.
CUT_SHORT = ("truncated data", "unexpected end of data", "incomplete multibyte sequence")
LATIN_ENCODINGS = ("cp1252", "cp1250", "cp850", "mac-roman")
EAST_ASIAN_ENCODINGS = ("cp932", "gb18030", "big5hkscs", "cp949")
LEGACY_ENCODINGS = (*LATIN_ENCODINGS, "cp1251", "cp1253", *EAST_ASIAN_ENCODINGS)
EURO_ENCODINGS = ("cp1252", "cp1250", "cp1253")  # they have it in one place
_LETTERS = "áéíóúüñçàèìòùâêîôûäöïëãõßœåøæ"
_WESTERN = frozenset(_LETTERS + _LETTERS.upper() + "¿¡«»ºª·€…–—‘’“”°£©®™´\xa0½¼¾²³¹µ×÷±§¢¥¬¦")
_LATIN_9_EURO = re.compile(r"\d\s?¤(?!\w)|(?<!\w)¤\s?\d")  # beside a letter, cp850's ñ
_LATIN_9_OE = re.compile(r"(?<!\d)½(?=[ui])|(?<=[BCMNSV])¼(?=U)")  # bœuf, œil and BŒUF
# Beside a letter, the Ä of Macs and cp850's Ç, and beside any foreign sign half of a kanji.
_EURO = re.compile(r"\d[ \xa0]?€(?![\w\x80-\uffff])|(?<![\w\x80-\x9f\xa1-\uffff])€[ \xa0]?\d")
_DOS_EURO = re.compile(rb"\d ?\xd5(?=[\s;,|\"']|$)")  # of cp858, where cp850 has an ı
_MAC_EURO = re.compile(r"\d\s?Û(?=[\s;,|\"']|$)")  # as cp1252 reads it
_SPANISH = re.compile(r"(?<![A-Z])ñ|Ñ")  # PERñ is PERÒ in mac-roman
_UNITS = re.compile(r"(?<=[\dnN])[ªº]|µ|Ø(?![^\W\d_])")  # 2ª, nº, µm, Ø 12: letters to Python alone
# Runs of other letters, and of one behind Latin ones; cp850's ño is read so in Big5: Mu某z.
_RUN = re.compile(r"[^\x00-\x7f]+")
_WORD = re.compile(r"(?<![A-Za-z\x80-\uffff])[^\x00-\x7f]{2}")  # of other letters alone
# No word has a box of cp850 in it, nor an accent by itself: P┬TES, b˝uf.
_NO_WORD = re.compile(r"[^\W\d_][ˇ-˝─-▟]|[ˇ-˝─-▟][^\W\d_]")
_LONE = re.compile(r"(?<=[A-Za-z]{2})[^\x00-\x7f](?=[\x00-\x7f])")
# What Western Europe does not write, though each letter is one of its own.
_MISREAD = re.compile(
    r"""
    [^\W\d_] [\xa0-©«-®°-´¶¸¹»-¿–—“”…€™] [^\W\d_]  # A sign between letters: – is Mac's ñ.
    | (?<!\w) [^\x00-\x7f«»¿¡“”‘’…–—€\xa0]{2,} (?!\w)  # Russian and East Asian words.
    | [œŒ] (?![uiUI])  # Mac's ú; in French, œuf and œil.
    | TË (?!\w)  # Mac's CITTÀ.
    | [aeiouAEIOU] [æÆ]  # Croatian ić, Polish ać.
    | [^\W\d_]{3} [¹³]  # Polish ą and ł; before m³ there are no three.
    """,
    re.VERBOSE,
)


def find_encoding(source: Source, options: LoadOptions) -> str:
    """Name the encoding that is wanted, in the variant that reads a BOM as none of the text.

    Where none is wanted, it is detected. What is called Latin-1 is read as cp1252 if that can be,
    as on the web: what it has beside it, the euro among them, are signs of control there.
    """
    if options.encoding is None:
        return detect_encoding(source)
    wanted = codecs.lookup(options.encoding).name  # U8 and cp65001 are utf-8
    if wanted == "iso8859-1":
        with source.open() as stream:
            windows = _decodes(iter(lambda: stream.read(BLOCK), b""), "cp1252")
        return "cp1252" if windows else options.encoding
    if wanted in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        head = source.head(4)
        marks = [name for bom, name in BOMS if head.startswith(bom)]
        marked = (name for name in marks if wanted.startswith(name.removesuffix("-sig")))
        return next(marked, wanted)
    return options.encoding


@contextmanager
def open_text(source: Source, encoding: str) -> Iterator[TextIO]:
    """Give the text from the start; bytes that are none raise UnreadableSource."""
    with source.open() as stream, io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:
            raise UnreadableSource(f"{source.name}: {_undecodable(error, encoding)}") from error


def _undecodable(error: UnicodeError, encoding: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        name = encoding.removesuffix("-sig")
        if error.reason in CUT_SHORT:
            return (
                f"it ends in the middle of a character: it was cut short, or is not {name}; "
                "then give its encoding"
            )
        byte = error.object[error.start]
        return f"byte 0x{byte:02x} is not {name}; give its encoding"
    return f"{error}; give its encoding"


def bounded_lines(text: TextIO, name: str) -> Iterator[str]:
    for number, line in enumerate(iter(lambda: text.readline(LONGEST_LINE), ""), 1):
        if len(line) == LONGEST_LINE:
            raise UnreadableSource(
                f"{name}: line {number} is longer than {LONGEST_LINE:,} characters; "
                "is it a table of text?"
            )
        yield line


def detect_encoding(source: Source) -> str:
    """Name the encoding of the whole text: a BOM's, UTF-8 if all of it is, else a likely one.

    Raise UnreadableSource where one part is UTF-8 and another is not: either reading would spoil
    one of them.
    """
    with source.open() as stream:
        head = stream.read(BLOCK)
        known = next((name for bom, name in BOMS if head.startswith(bom)), None) or _wide(head)
        if known:
            return known
        if _decodes(itertools.chain([head], iter(lambda: stream.read(BLOCK), b"")), "utf-8"):
            return "utf-8"
    sample = _foreign_lines(source)
    found = _legacy_encoding(sample)
    return "cp858" if found == "cp850" and _DOS_EURO.search(sample) else found


def _decodes(blocks: Iterable[bytes], encoding: str) -> bool:
    try:
        for _ in codecs.iterdecode(blocks, encoding):  # to the end, where half a character may be
            pass
    except UnicodeDecodeError:
        return False
    return True


def _wide(head: bytes) -> str | None:
    """Name UTF-16 without a BOM: every second byte of Western text is then zero.

    In other scripts one byte of each line's end is.
    """
    even, odd = head[0:4096:2], head[1:4096:2]
    few, many = 0.05 * len(odd), 0.4 * len(odd)
    if odd and odd.count(0) > many and even.count(0) <= few:
        return "utf-16-le"
    if odd and even.count(0) > many and odd.count(0) <= few:
        return "utf-16-be"
    for name, low in (("utf-16-le", head[0::2]), ("utf-16-be", head[1::2])):
        if b"\0" in head and 2 * head.decode(name, "ignore").count("\n") > low.count(b"\n") > 0:
            return name
    return None


def _foreign_lines(source: Source) -> bytes:
    """Give the first lines that are not ASCII; none of the text may be in UTF-8."""
    sample = bytearray()
    first: dict[bool, int] = {}  # the number of the first line that is UTF-8, and that is not
    with source.open() as stream:
        pieces = iter(lambda: stream.readline(LONGEST_LINE), b"")  # JSON may have one line
        for number, line in enumerate(pieces, 1):
            if line.isascii():
                continue
            first.setdefault(_decodes([line], "utf-8"), number)
            if len(sample) < SAMPLE:
                sample += line[:SAMPLE]
    if True in first:
        raise UnreadableSource(
            f"{source.name}: line {first[True]} is UTF-8 and line {first[False]} is not; "
            "correct one of them, or give the encoding of both"
        )
    return bytes(sample)


def _legacy_encoding(sample: bytes) -> str:
    """Name the likeliest one-byte or East Asian encoding of lines that are not UTF-8."""
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    western = "cp1252"
    if _LATIN_9_EURO.search(text) or _LATIN_9_OE.search(text):
        western = "iso8859-15"
        text = sample.decode(western)
    prices = sample.decode("cp1252", "replace")
    rivals = EURO_ENCODINGS if _EURO.search(prices) else LEGACY_ENCODINGS
    if rivals is LEGACY_ENCODINGS and _MAC_EURO.search(prices):
        return "mac-roman"
    foreign = [letter for letter in text if letter > "\x7f"]
    strange = sum(letter not in _WESTERN for letter in foreign) + len(_MISREAD.findall(text))
    if not text or strange > FEW * len(foreign):
        return max(rivals, key=lambda name: _likelihood(sample, name))
    worded = any(letter > "\x7f" and letter.isalpha() for letter in _UNITS.sub("", text))
    if _SPANISH.search(text) or not worded:
        return western
    likely = {name: _likelihood(sample, name) for name in rivals if name in LATIN_ENCODINGS}
    best = max(likely, key=lambda name: likely[name])
    return best if likely[best] > FAR_LIKELIER * likely["cp1252"] else western


def _likelihood(sample: bytes, encoding: str) -> float:
    """Score what the encoding reads, as far as chardet knows its letters; 0 if that is no text."""
    import chardet  # here: most files are UTF-8 and never need it

    try:  # a sample may end within a character
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    if encoding in LATIN_ENCODINGS and _NO_WORD.search(text):
        return 0.0
    if encoding in EAST_ASIAN_ENCODINGS:
        with_a_letter = sum(c.encode(encoding)[-1:].isalpha() for c in _LONE.findall(text))
        if 2 * with_a_letter > len(_RUN.findall(text)) and not _WORD.search(text):
            return 0.0
    small = re.sub(r"\w+", _in_small_letters, text[:SCORED])
    found = chardet.detect_all(
        small.encode(encoding, "ignore"),
        ignore_threshold=True,
        include_encodings=(encoding, "ascii"),
        no_match_encoding="ascii",
        empty_input_encoding="ascii",  # the decoder waits for the rest of a character
    )[0]
    return 0.0 if found["encoding"] in ("ascii", None) else found["confidence"]


def _in_small_letters(word: re.Match[str]) -> str:
    """Leave pÃo, which no one writes, as it is; SOCIéTé is French without the keys for É."""
    letters = word[0]
    titled = letters.istitle()
    return letters.lower() if titled or not re.search("[a-z]", letters) else letters

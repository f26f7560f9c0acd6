"""Clauses: a sentence without its subject, which is how people ask (*hace pan*, bakes bread).

What is left of a sentence and of its English, where both begin with a subject, or with a verb that
wants an infinitive (*quiero hacer pan*, I want to bake bread), says the same as far as it goes.
"""

import re

# A wish, of which an infinitive is left, or else a subject.
BEGINNINGS = {
    "en": (
        r"I(?: (?:want|need|have|like|would like) to|'d like to|'m going to|'ll| will| can| must"
        r"| should) ",
        r"(?:I|You|He|She|We|They|Tom|Mary) ",
    ),
    "es": (
        r"(?:Yo )?(?i:quiero|quisiera|me gusta(?:ría)?|tengo que|deb(?:o|ería)|necesito|puedo"
        r"|voy a) (?=\w+[aeií]r(?:[mts]e|l[aeo]s?)?\b)",
        r"(?:Yo|Tú|Él|Ella|Nosotr[oa]s|Ell[oa]s|Ustede?s?|Tom|Mary|María) ",
    ),
    "fr": (
        r"(?:Je (?:veux|voudrais|dois|devrais|peux|vais)|J'aim(?:e|erais)) "
        r"(?=(?:\w+ |\w')?\w+(?:[eio]i?r|re)\b)",
        r"(?:Je|Tu|Il|Elle|Nous|Vous|Ils|Elles|On|Tom|Marie|Mary) ",
    ),
    "de": (
        r"Ich (?:will|möchte|muss|kann|werde|soll|sollte) (?=.*n\.$)",
        r"(?:Ich|Du|Er|Sie|Wir|Ihr|Tom|Maria) ",
    ),
    "it": (
        r"(?:Io )?(?i:voglio|vorrei|devo|posso|mi piace|ho bisogno di) "
        r"(?=\w+r(?:e|[mst]i|l[aeio])\b)",
        r"(?:Io|Tu|Lui|Lei|Noi|Voi|Loro|Tom|Mary|Maria) ",
    ),
    "pt": (
        r"(?:Eu )?(?i:quero|gostaria de|tenho (?:que|de)|devo|preciso|posso|vou|gosto de) "
        r"(?=\w+[aeio]r\b)",
        r"(?:Eu|Tu|Você|Ele|Ela|Nós|Vocês|Eles|Elas|(?:O )?Tom|(?:A )?Mary|Maria) ",
    ),
}
LONGEST = 90  # characters of a sentence: people ask in few words


def clause(language: str, text: str, english: str) -> tuple[str, str] | None:
    """Return what is left of a sentence and of its English; None without such beginnings.

    Both are of two words or more, and without their points.
    """
    if language not in BEGINNINGS or len(text) > LONGEST:
        return None
    if text.endswith(".") and english.endswith("."):
        for foreign, known in zip(BEGINNINGS[language], BEGINNINGS["en"], strict=True):
            own, theirs = re.match(foreign, text), re.match(known, english)
            if own and theirs:
                left = text[own.end() : -1], english[theirs.end() : -1]
                return left if all(" " in each for each in left) else None
    return None

"""Words of a text: what the keyword index stores, and what a query looks up. Knows no database."""

import hashlib
import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts written without spaces between words."""
_MARKS = "".join(chr(code) for code in range(0x300, 0xE00) if unicodedata.category(chr(code)).startswith("M"))
"""Accents and vowel signs, which belong to the letter before them, as in Hindi."""
_TOKEN = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|[^\\W_{_UNSPACED}](?:[^\\W_{_UNSPACED}]|[{_MARKS}])*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_AROUND_WORDS = ".,;:!?\"'`()[]{}<>…“”‘’«»。，；：！？、"
"""Punctuation that may come and go around a word; what is part of it stays, as in C++ or v1.2."""

MAX_QUERY_TERMS = 48

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being between both but by can could did do
    does doing done during each for from further had has have having he her here hers him his how i if in into is it its
    just let me might more most much must my no nor not now of off on once only or other our out over own please she
    should so some such than that the their them then there these they this those through to too under until up us very
    was we were what when where which while who whom whose why will with would you your""".split()
)


def split_words(text: str) -> list[str]:
    """Words in order. Identifiers and paths come apart (`parseConfig` gives parseConfig, parse, Config)."""
    words: list[str] = []
    for match in _TOKEN.finditer(unicodedata.normalize("NFC", text)):
        run = match.group()
        if match.group("unspaced"):
            words.extend(run)
            words.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            words.append(run)
            parts = _CAMEL.split(run)
            words.extend(parts if len(parts) > 1 else ())
    return words


def index_terms(text: str) -> str:
    """The text as the keyword index stores it: words separated by spaces, characters and pairs for unspaced scripts."""
    return " ".join(split_words(text))


def query_terms(text: str, limit: int | None = MAX_QUERY_TERMS) -> list[str]:
    """Distinct lower-case words of a query in order, stop words removed unless nothing else is there."""
    words: dict[str, None] = {}
    for match in _TOKEN.finditer(unicodedata.normalize("NFC", text)):
        run = match.group()
        if match.group("unspaced") and len(run) > 1:
            words.update(dict.fromkeys(run[i : i + 2] for i in range(len(run) - 1)))
        else:
            words.update(dict.fromkeys(part.lower() for part in {run: None} | dict.fromkeys(_CAMEL.split(run))))
    content = [word for word in words if word not in STOP_WORDS]
    return (content or list(words))[:limit]


def content_hash(text: str) -> str:
    """Digest of the exact text, apart from Unicode form and surrounding space."""
    return _digest(unicodedata.normalize("NFC", text).strip())


def normal_hash(text: str) -> str:
    """Digest after normalising case, space and punctuation: equal digests make near-duplicates."""
    words = (word.strip(_AROUND_WORDS) for word in unicodedata.normalize("NFKC", text).casefold().split())
    return _digest(" ".join(word for word in words if word) or text.strip())


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

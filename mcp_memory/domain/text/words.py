"""Splits a text into words: those that the keyword index stores, and those that a query looks up."""

import hashlib
import re
import struct
import threading
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Literal

from mcp_memory.domain.text.lexicon import FOREIGN_BY_LANGUAGE, STOP_CHARACTERS, STOP_WORDS, UNSPACED

_COMBINING = "".join(chr(code) for code in range(0x300, 0xE00) if unicodedata.category(chr(code)).startswith("M"))
"""Accents and vowel signs, which attach to the preceding letter, as in Hindi."""
_SIGNS = "\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
"""Symbols and emoji, each a word; no arrows, and no lines of tables."""
# e.g. "parseConfig", "naïve", "数据库", "🔴"
_TOKEN = re.compile(f"(?P<unspaced>[{UNSPACED}]+)|[{_SIGNS}]|[^\\W_{UNSPACED}](?:[^\\W_{UNSPACED}]|[{_COMBINING}])*")
# e.g. "parse|Config", "HTTP|Server"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# "[REDACTED API key]"
REDACTED = re.compile(r"\[REDACTED[^\]\n]{0,80}\]")
AROUND_WORDS = ".,;:!?\"'`()[]{}<>…“”‘’«»。，；：！？、"
"""Punctuation that may surround a word; signs inside a word stay, as in C++ or v1.2."""

MAX_MARKS = 30
"""Accents on one letter: as many as the Stream-Safe Text Format allows (Unicode Standard Annex 15)."""
_JOINER = "\u034f"
_ALSO_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"
"""Characters that decompose into accents, as the voicing marks of half-width kana do."""
# e.g. 30 accents in a row
_MAYBE_MARKS = re.compile(rf"(?:[^\w\s\x00-\x7f]|[{_ALSO_MARKS}]){{{MAX_MARKS}}}")
# e.g. the accent of a decomposed "é"
_LATIN_ACCENTS = re.compile("(?<=[a-z])[\u0300-\u036f]+")
_STRAY_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents without a composed letter: stress marks, as dictionaries print them."""

LEAST_IN_COMMON, INFLECTED_LETTERS = 4, 2
"""Letters at the beginning that inflections of a word have in common, at least, and that differ at its end, at most."""
MAX_QUERY_TERMS = 48
MAX_COUNT = 255
"""A word that occurs more often in one text adds only so much to its length."""
ENGLISH = "en"
LANGUAGES = (ENGLISH, *FOREIGN_BY_LANGUAGE)
"""Languages in Latin letters whose inflections the index knows (ISO 639-1)."""
# A letter of a script, and the language whose rules its words get: "порт", "ميناء", "λιμάνι", "बंदरगाह", "துறை", "նավ"
_SCRIPT = re.compile(
    "(?P<ru>[\u0400-\u052f])|(?P<ar>[\u0600-\u06ff])|(?P<el>[\u0370-\u03ff])|(?P<hi>[\u0900-\u097f])"
    "|(?P<ta>[\u0b80-\u0bff])|(?P<hy>[\u0530-\u058f])"
)
LEAST_FUNCTION_WORDS = 2
"""So many different function words of a language, at least, tell that a text in Latin letters is in it."""
_TERM_FORMAT = struct.Struct("<IB")
_stemming = threading.Lock()


def normalized(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return the text in a Unicode form, in linear time.

    Python sorts the accents of a letter in quadratic time: 16 minutes for a million of them. Invisible joiners break
    up a row of more than MAX_MARKS.
    """
    if not text.isascii() and _MAYBE_MARKS.search(text):
        text = "".join(_stream_safe(text))
    return unicodedata.normalize(form, text)


def entity_key(name: str) -> str:
    """Return the key that two spellings of one entity share: Unicode form, case and space do not count."""
    return " ".join(normalized("NFKC", name).casefold().split())


def _stream_safe(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) or character in _ALSO_MARKS else 0
        if marks > MAX_MARKS:
            yield _JOINER
            marks = 1
        yield character


def split_words(text: str) -> list[str]:
    """Return the words in order. Identifiers and paths are split (`parseConfig` gives parseConfig, parse, Config)."""
    words: list[str] = []
    for match in _TOKEN.finditer(normalized("NFC", text)):
        run = match.group()
        if match.group("unspaced"):
            words.extend(run)
            words.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            words += _with_parts(run)
    return words


def _with_parts(word: str) -> Sequence[str]:
    """Return the word, and the parts that capitals inside it begin: parseConfig, parse, Config."""
    tail = word[1:]
    parts = () if tail == tail.lower() else _CAMEL.split(word)  # Most words have none.
    return (word, *parts) if len(parts) > 1 else (word,)


def stems(words: Sequence[str], language: str = ENGLISH) -> list[str]:
    """Return each word's stem, shared by inflections and spellings: lower case, no accents, endings cut.

    A word in Latin letters gets the rules of the language (ISO 639-1), one in another script those of the script.
    """
    bare = [folded(word) for word in words]
    scripts: dict[str, Sequence[int]] = {language: range(len(bare))}
    if not all(map(str.isascii, bare)):
        by_script: dict[str, list[int]] = {}
        for place, word in enumerate(bare):
            by_script.setdefault(_language_of_script(word) or language, []).append(place)
        scripts = {**by_script}
    with _stemming:  # A stemmer has its own word buffers, so it is not thread-safe.
        for each, places in scripts.items():
            for place, stem in zip(places, _snowball(each)([bare[place] for place in places]), strict=True):
                bare[place] = stem
    return bare


def text_stems(text: str) -> list[str]:
    """Return the stems of a text's words in order, repeats included, alike for texts in any language."""
    return stems(split_words(text))


def has_name(text: str, name: str) -> bool:
    """Return True where a text has a name as it is written, not as a part of a longer one: "ntp-brae"."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(name) : at + len(name) + 1]
        if not _goes_on(before) and not _goes_on(after):
            return True
        at = text.find(name, at + 1)
    return False


def _goes_on(sign: str) -> bool:
    return sign.isalnum() or sign in ("_", "-")


def index_terms(text: str) -> list[str]:
    """Return the terms that the keyword index keeps of a text, one for each word in order, repeats included.

    They are the words' stems by the rules of the text's language. Those of Latin letters name the language unless it
    is English, so that a stem is found by the rules that made it: "de haf" of "Häfen".
    """
    words = split_words(text)
    return _terms(words, latin_language(words))


def asked_terms(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return for each word of a query the terms that say it in the index: by each language's rules, English first."""
    return [tuple(dict.fromkeys(terms)) for terms in zip(*(_terms(words, each) for each in LANGUAGES), strict=True)]


def latin_language(words: Iterable[str]) -> str:
    """Return the language of LANGUAGES that a text's words in Latin letters are in, English where they do not tell.

    They tell by its function words: at least LEAST_FUNCTION_WORDS different ones, and more than of any other language.
    """
    distinct = {word.lower() for word in words}
    counts = {language: len(distinct & known) for language, known in FOREIGN_BY_LANGUAGE.items()}
    best = max(counts, key=counts.__getitem__)
    others = [len(distinct & STOP_WORDS), *(count for language, count in counts.items() if language != best)]
    return best if counts[best] >= max(LEAST_FUNCTION_WORDS, max(others) + 1) else ENGLISH


def _language_of_script(word: str) -> str | None:
    """Return the language whose rules a word gets by its script; None for Latin letters, and without known rules."""
    found = None if word.isascii() else _SCRIPT.search(word)
    return found.lastgroup if found else None


def _terms(words: Sequence[str], language: str) -> list[str]:
    found = stems(words, language)
    if language == ENGLISH:
        return found
    return [
        stem if _language_of_script(word) else f"{language} {stem}" for word, stem in zip(words, found, strict=True)
    ]


def term_number(stem: str) -> int:
    """Return a stem's number in [0, 2^32), the same in every process. Two stems rarely share one."""
    return zlib.crc32(stem.encode("utf-8"))


def packed_terms(text: str) -> bytes:
    """Pack a text for the keyword index, in 5 bytes per distinct term and without the text's order.

    Ascending term numbers (uint32), each with its count in the text (uint8, at most MAX_COUNT); little-endian.
    """
    counts = Counter(term_number(stem) for stem in index_terms(text))
    return b"".join(_TERM_FORMAT.pack(number, min(count, MAX_COUNT)) for number, count in sorted(counts.items()))


def query_terms(text: str, limit: int | None = MAX_QUERY_TERMS) -> list[str]:
    """Return a query's distinct lower-case words in order, without stop words unless nothing else remains."""
    words: dict[str, None] = {}
    for match in _TOKEN.finditer(normalized("NFC", text)):
        run = match.group()
        if match.group("unspaced") and len(run) > 1:
            words.update(dict.fromkeys(run[i : i + 2] for i in range(len(run) - 1)))
        else:
            words.update(dict.fromkeys(part.lower() for part in _with_parts(run)))
    content = [word for word in words if word not in STOP_WORDS and STOP_CHARACTERS.isdisjoint(word)]
    return (content or list(words))[:limit]


def letters_in_common(length: int) -> int:
    """Return how many letters a word of that length shares with its inflections: all but two, at least four.

    "deploying" and "deployed" share "deploy"; of four letters none may differ.
    """
    return max(LEAST_IN_COMMON, length - INFLECTED_LETTERS)


def folded(word: str) -> str:
    """Return the word in lower case, without the accents that people omit when they type."""
    if word.isascii():
        return word.lower()
    bare = _LATIN_ACCENTS.sub("", normalized("NFD", word.casefold()))
    return _STRAY_ACCENTS.sub("", normalized("NFC", bare))


@cache
def _snowball(language: str) -> Callable[[list[str]], list[str]]:
    import Stemmer  # Only the first text pays for the import.

    # The word cache is off: it would outlive an erased text.
    return Stemmer.Stemmer(language, 0).stemWords


def content_hash(text: str) -> str:
    """Return a digest of the exact text, apart from Unicode form and surrounding space."""
    return _digest(normalized("NFC", text).strip())


def normal_hash(text: str) -> str:
    """Return a digest after normalising case, space and punctuation: equal digests make near-duplicates."""
    words = (word.strip(AROUND_WORDS) for word in normalized("NFKC", text).casefold().split())
    return _digest(" ".join(word for word in words if word) or text.strip())


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

"""Reads a query's language, and the names in it: what a store either holds or does not know."""

import re

from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.entity_extraction import find_names
from mcp_memory.domain.text.words import split_words

MOST_WORDS = 24
"""A longer query is a pasted text, which names much that nobody asks about."""

# e.g. "Kafka-Version", "datasette.io", "C++"
_WORD = re.compile(r"[^\W_](?:[\w.+#/-]*[\w+#])?")
# e.g. "SAML", "parseConfig", "log4j", "max_rows"; not "20th", "5min"
_TECHNICAL = re.compile(r"[A-Z]{2,}s?|(?=\w*[a-z][A-Z]|[^\W\d_]\w*\d|\w+_\w)\w+")
# e.g. "the `vault` role", "„Kranich“"
_QUOTED = re.compile(r"(?<!\w)[\"“”„«`'‘]([^\W_][\w .+-]{1,38}[\w+])[\"“”»`'’](?!\w)")
# e.g. "--max-rows"
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*\w")
# e.g. "Kafka-Version", where German puts a name before a noun
_COMPOUND = re.compile(r"(?<![\w-])([A-Z][\w.]{1,60})-[A-ZÄÖÜ]\w+")
# e.g. "Redis" in Chinese or Russian
_LATIN = re.compile(r"(?<![\w-])[A-Za-z][A-Za-z0-9+#]{2,}")
_UNSPACED = re.compile(f"[{lexicon.UNSPACED}]")


def is_english(text: str) -> bool:
    """Return False where more words are another Latin-script language's function words than are English ones."""
    words = [word.lower() for word in split_words(text[:1_000])]
    return sum(word in lexicon.FOREIGN for word in words) <= sum(word in lexicon.STOP_WORDS for word in words)


def is_unspaced(word: str) -> bool:
    """Return True for a word in a script without spaces between words, such as Chinese."""
    return bool(_UNSPACED.match(word))


def is_german(text: str) -> bool:
    """Return True for German, which writes every noun with a capital."""
    return not is_english(text) and any(word in lexicon.GERMAN for word in text.lower().split())


def names_in(query: str) -> list[str]:
    """Return what looks like a name, an identifier or a quotation in a query, each once, in order.

    In English and other languages that write nouns small, that is a capitalised word, also the first of "Terraform
    module staging"; in German, which does not, only a technical word or the first part of "Kafka-Version"; in other
    scripts every Latin word.
    """
    found = dict.fromkeys(match.group(1) for match in _QUOTED.finditer(query))
    if not query.isascii() and _is_other_script(query):
        found |= dict.fromkeys(match.group() for match in _LATIN.finditer(query))
        return [*found]
    found |= dict.fromkeys(_FLAG.findall(query))
    found |= dict.fromkeys(word for word in _WORD.findall(query) if _is_technical(word))
    if is_german(query):
        found |= dict.fromkeys(match.group(1) for match in _COMPOUND.finditer(query))
    else:
        first, *others = _WORD.findall(query) or [""]
        found |= dict.fromkeys(name for _, name in find_names(query) if name != first and _is_name(name))
        is_opener = first.lower() in lexicon.OPENERS | lexicon.FOREIGN
        if others and first.istitle() and not is_opener and not _is_sentence([first, *others]):
            found |= {first: None}
    return [name for name in found if not any(name != other and name in other.split() for other in found)]


def _is_technical(word: str) -> bool:
    is_shouted = word.rstrip("s").lower() in lexicon.SHOUTED or word.lower() in lexicon.NEVER_NAMES
    return bool(_TECHNICAL.fullmatch(word)) and not is_shouted


def _is_name(name: str) -> bool:
    """Return False for what begins with a question word, as in "Welcher Port": a noun with a capital is no name."""
    return name.split(maxsplit=1)[0].lower() not in lexicon.FOREIGN


def _is_sentence(words: list[str]) -> bool:
    """Return False for words to search, as in "Terraform module staging", of which only a name has a capital."""
    return any(word.lower() in lexicon.NEVER_NAMES for word in words) or words[1:] != [*map(str.lower, words[1:])]


def _is_other_script(query: str) -> bool:
    letters = [letter for letter in query if letter.isalpha()]
    return sum(ord(letter) > 0x36F for letter in letters) * 2 > len(letters)

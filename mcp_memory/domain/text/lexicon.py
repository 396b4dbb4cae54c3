"""Gives the words and signs used to read texts: data by kind and language, in `lexicon.toml`.

Strings are alternatives for a pattern: `(?:{HEDGES})|{HEDGES_UNSPACED}`; the second kind needs no edges of words. Each
reading module decides which of them matter, and where in a sentence.
"""

import tomllib
from pathlib import Path

_UNSPACED_LANGUAGES = ("zh", "ja")
_KINDS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text("utf-8"))


def word_set(kind: str) -> frozenset[str]:
    """Return the words of a kind, of all languages with spaces between words."""
    languages = _KINDS[kind].items()
    return frozenset(word for name, text in languages if name not in _UNSPACED_LANGUAGES for word in text.split())


def word_sets(kind: str) -> dict[str, frozenset[str]]:
    """Return the words of a kind by language, as ISO 639-1 names it."""
    return {name: frozenset(text.split()) for name, text in _KINDS[kind].items()}


def spaced(kind: str) -> str:
    """Return the alternatives of a kind in all languages with spaces between words."""
    languages = _KINDS[kind].items()
    return "|".join(text.replace("\n", "") for name, text in languages if name not in _UNSPACED_LANGUAGES)


def unspaced(kind: str) -> str:
    """Return the alternatives of a kind in Chinese and Japanese."""
    return "|".join(_KINDS[kind][name].replace("\n", "") for name in _UNSPACED_LANGUAGES if name in _KINDS[kind])


def section_titles() -> dict[str, list[str]]:
    """Return the titles of each section of a summary: ours, then those of other writers."""
    return {section: titles.replace("\n", "").split("|") for section, titles in _KINDS["section_titles"].items()}


UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: scripts written without spaces between words."""
QUESTION_SIGNS = ("?", "？")
COLONS = (":", "：")
"""Ends of a heading, a label, or "Next steps:"."""
STOP_WORDS = word_set("stop_words")
STOP_CHARACTERS = frozenset("".join(_KINDS["stop_characters"].values()))
HEDGES, HEDGES_UNSPACED = spaced("hedges"), unspaced("hedges")
DENIALS, DENIALS_UNSPACED = spaced("denials"), unspaced("denials")
ABSENCES = spaced("absences")
CONDITIONS, CONDITIONS_UNSPACED = spaced("conditions"), unspaced("conditions")
EXCEPTIONS = spaced("exceptions")
LIMITS_UNSPACED = unspaced("limits")
MONTHS = spaced("months")
ABBREVIATIONS = spaced("abbreviations")
NAME_CONNECTORS = word_set("name_connectors")
PERSONAL_TITLES = word_set("personal_titles")
NEVER_NAMES = STOP_WORDS | PERSONAL_TITLES | word_set("dates_and_values")
SHOUTED = word_set("shouted")
OPENERS = word_set("openers")
VERBS_BEHIND_NAMES = word_set("verbs_behind_names")
GERMAN = word_set("function_words")
FOREIGN = word_set("foreign_function_words")
"""Function words of the Latin-script languages that are not English."""
FUNCTION_WORDS = STOP_WORDS | FOREIGN
FOREIGN_BY_LANGUAGE = word_sets("foreign_function_words")

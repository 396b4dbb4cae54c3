"""Reads what a query asks for, and names what it names and no record does: what the gate needs beside the hits."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from math import log

from mcp_memory.domain.retrieval.fusion import PRIOR_RECORDS, Background, Fused
from mcp_memory.domain.retrieval.gate import BEST_HITS, FEW_WORDS, UNDERSTOOD, AskedQuery, is_known
from mcp_memory.domain.retrieval.queries import Query, coverage
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.domain.text.lexicon import FOREIGN
from mcp_memory.domain.text.query_names import MOST_WORDS, is_english, is_unspaced, names_in
from mcp_memory.domain.text.words import latin_language, letters_in_common, normalized, query_terms, split_words

BEST_READ = 10
"""Records read where their words matter: for a language that the embedder hardly knows, or a name that is nowhere."""
BEST_ALIKE = 5
READ_CHARACTERS = 5_000
"""Characters read of each."""
MOST_NAMED = 3
RARE_NAME = 3
"""A name that at most so many records hold is what the question is after: then silence would hide them."""
LEAST_SHARED = 5
"""Letters at the beginning that two forms of a name share at least: "Redis" is no form of "redirect"."""


LANGUAGE_READ = 500
"""Characters that tell a text's language."""


def asked_about(
    query: Query,
    hits: Sequence[Fused],
    background: Background,
    best: Callable[[], Mapping[str, str]],
    share_known: Callable[[str], float],
    *,
    is_goal: bool,
) -> tuple[AskedQuery, tuple[str, ...]]:
    """Return the query as the gate sees it, and the names in it that nothing visible holds, at most three.

    `best` reads the texts of the best hits by id, best first, `share_known` is the embedder's.
    """
    asked = AskedQuery(
        records=background.records,
        words=len(query.terms),
        information=background.information,
        understood=query.known,
        is_goal=is_goal,
        is_past=query.is_past,
    )
    texts: list[str] = []
    if asked.is_foreign:
        texts = [text[:READ_CHARACTERS] for text in best().values()]
        asked = replace(asked, alike=_alike(query.terms, texts[:BEST_ALIKE], background))
    if is_goal or not background.records or len(query.terms) > MOST_WORDS:
        return asked, ()
    names = names_in(query.text)
    unknown = [name for name in names if is_absent(name, background.absent)]
    if (
        len(query.terms) <= FEW_WORDS
        and len(unknown) == len(names)
        and any(hit.raw.get("graph") for hit in hits[:BEST_HITS])
    ):
        unknown = []  # An entity's alias: "k8s" where the texts say Kubernetes.
    asked = replace(asked, names_rare=any(_is_rare(name, background) for name in names if name not in unknown))
    if unknown:
        texts = texts or [text[:READ_CHARACTERS] for text in best().values()]
        said = _words_like(unknown, texts)
        unknown = [name for name in unknown if not _is_said(name, said)]
    strictest = replace(asked, seeks_fact=True, names_unknown=bool(unknown))
    if not asked.is_foreign and not is_known(hits, strictest):  # Most are: then the kind of question does not matter.
        seeks_fact = pick_strategy(query.text).strategy == "question"
        asked = replace(strictest, seeks_fact=seeks_fact)
        if hits and not is_known(hits, asked):
            asked = replace(asked, is_across=_is_across(query.text, hits, best(), share_known))
    return asked, tuple(unknown[:MOST_NAMED])


def _is_across(
    query: str, hits: Sequence[Fused], texts: Mapping[str, str], share_known: Callable[[str], float]
) -> bool:
    """Return True where the nearest record is in another language, which the embedder knows as well."""
    nearest = max(hits[:BEST_HITS], key=lambda hit: hit.raw.get("vector", 0.0))
    text = texts.get(nearest.id, "")[:LANGUAGE_READ]
    return bool(text) and language_of(text) != language_of(query) and share_known(text) >= UNDERSTOOD


def language_of(text: str) -> str:
    """Return the language of a text in Latin letters (ISO 639-1), as far as its function words tell, or its script.

    The script is that of most of its words; each character of Chinese counts as one.
    """
    words = [part for word in re.findall(r"[^\W\d_]+", text) for part in (word if is_unspaced(word) else [word])]
    scripts = Counter(unicodedata.name(word[0], "").partition(" ")[0] for word in words)
    script = max(scripts, key=scripts.__getitem__, default="LATIN")
    if script == "LATIN":
        return "en" if is_english(text) else latin_language(split_words(text))
    return "ja" if {"HIRAGANA", "KATAKANA"} & scripts.keys() else script


def _alike(terms: Sequence[str], texts: Sequence[str], background: Background) -> float:
    """Return the share of the query's words, function words aside, in the text that has most of them.

    In scripts without spaces, pairs of characters are a word's parts, so the mean of their share and the characters'.
    """
    told = [term for term in terms if term not in FOREIGN]
    characters = [*dict.fromkeys(sign for term in told if is_unspaced(term) for sign in term)]
    shares = [coverage(told, text, background.nats) for text in texts]
    if characters:
        shares = [
            (share + sum(sign in text for sign in characters) / len(characters)) / 2
            for share, text in zip(shares, texts, strict=True)
        ]
    return max(shares, default=0.0)


def _is_rare(name: str, background: Background) -> bool:
    """Return True where hardly any record has a word of the name, and all of its words are somewhere."""
    least = -log((RARE_NAME + 0.5) / (background.records + PRIOR_RECORDS + 1))
    told = [background.nats.get(term, 0.0) for term in query_terms(name)]
    return max(told, default=0.0) >= least and background.absent.isdisjoint(query_terms(name))


def _words_like(names: Sequence[str], texts: Sequence[str]) -> Set[str]:
    """Return the words of the texts that begin like a word of a name, and others."""
    begins = {word[:LEAST_SHARED] for name in names for word in _parts(name)}
    # Most texts have no such word, and to split one into words takes long.
    near = (text for text in texts if any(map(normalized("NFC", text).lower().__contains__, begins)))
    return {word for text in near for word in query_terms(text, limit=None)}


def _is_said(name: str, said: Set[str]) -> bool:
    """Return True where all words of the name are said in another form: "Postgres" for PostgreSQL.

    Of an identifier these are all its parts.
    """
    return all(any(_is_form(word, other) for other in said) for word in _parts(name))


def _parts(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.lower())


def _is_form(name: str, word: str) -> bool:
    if name.removesuffix("s") == word.removesuffix("s"):
        return True
    shared = max(LEAST_SHARED, letters_in_common(min(len(name), len(word))))
    return name[:shared] == word[:shared]


def is_absent(name: str, absent: Set[str]) -> bool:
    """Return True where a word of the name is absent: both "PostgreSQL" and a part of it. `absent` are query terms."""
    return any(_is_word_absent(word, absent) for word in re.findall(r"\w+", name))


def _is_word_absent(word: str, absent: Set[str]) -> bool:
    terms = query_terms(word)
    if terms[:1] == [word.lower()]:  # The word itself, and then its parts: "postgresql", "postgre", "sql".
        return terms[0] in absent and (len(terms) == 1 or not absent.isdisjoint(terms[1:]))
    return not absent.isdisjoint(terms)

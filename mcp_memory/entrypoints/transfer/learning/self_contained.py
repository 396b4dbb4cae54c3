"""Says by form whether a text can be understood alone, cuts it at a sentence's end, and finds the names in it."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

MOST_CHARACTERS: Final = 600
"""Characters of a text; what is longer ends with a sentence before."""
LEAST_WORDS: Final = 4
# behind "… in one file. ", before "Nothing else runs"; not behind "e.g. "
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)\s+(?=[^\sa-z])")
# "a blend between options 2 and 3", "as option A", "the Context section", "as shown above", "two folders: - a - b"
_ELSEWHERE = re.compile(
    r"\boptions? (?:\d|[A-Z]\b)|\bthe (?:[\w\"'*-]+ ){0,3}sections?\b|\b(?i:above|below)\b|\bthis ADR\b|: [-*] |…$"
)
_URL = re.compile(r"https?://\S+")
_CODE_NAME = re.compile(r"`([^`\n]{2,80})`")
# "setupContext.emit()", "max_size", "--fast", "getTextMode"
_CODE_LIKE = re.compile(r"`[^`\n]{1,200}`|\b\w{1,80}(?:\(\)|[._]\w)|(?<!\S)--?\w[\w-]|\b[a-z]{1,80}[A-Z]")
_SECOND_CLAUSE = re.compile(r"[;,:]\s")
_REASON = re.compile(
    r"\b(?:use|instead|because|since|so that|in order to|due to|favou?r of|replac(?:e[ds]?|ing|ement)|superseded"
    r"|move[ds]?|merged into)\b",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|must|will|should|can|cannot|may|does|do|no longer)\b")
# "Concourse" of "Use Concourse CI", "adr-config", "GraphQL"
_TITLE_NAME = re.compile(r"\b[A-Z][\w.+#]{2,80}|\b\w{1,80}-\w[\w-]*")
_CALLED = re.compile(r"[(=\s\[]")  # behind the name in "Response(on_close=...)"
_DOTTED = re.compile(r"\w+(?:\.\w+)+")
_NUMBER = re.compile(r"\d[\w.]*")
_REFERENCES = re.compile(r"\([^()]{0,60}#\d{1,9}[^()]{0,60}\)")  # "(#2813)", "(Pull #12, #15)"


def shortened(text: str) -> str:
    """Return the whole sentences that fit at the beginning of a text; "" where none does or the first leans on others.

    A later sentence that ends with a colon announces what is not there, and is left out.
    """
    told = joined(sentences(text))
    told = joined(sentences(told)[:-1]) if told.endswith(":") else told
    return "" if told.endswith(":") else told


def joined(units: Iterable[str]) -> str:
    """Return the first units that fit, up to one that refers to another part."""
    said = ""
    for unit in units:
        if _ELSEWHERE.search(unit) or len(said) + len(unit) > MOST_CHARACTERS:
            break
        said += f"{unit} "
    return said.strip(" ;")


def sentences(text: str) -> Sequence[str]:
    """Return a text's sentences."""
    return _SENTENCE_END.split(text)


def is_sentence(text: str) -> bool:
    """Return True for a text with a verb of its own: "Files must be opened in binary mode"."""
    return _VERB.search(sentences(text)[0]) is not None


def has_second_clause(text: str) -> bool:
    """Return True for a text with more than a clause, as with a reason or a replacement; links are none."""
    return is_explained(text) or any(map(_SECOND_CLAUSE.search, _own_sentences(text)))


def is_explained(text: str) -> bool:
    """Return True for a text with a second sentence, or with a word for a reason or a replacement; links are none."""
    told = _own_sentences(text)
    return len(told) > 1 or any(map(_REASON.search, told))


def _own_sentences(text: str) -> Sequence[str]:
    return [each for each in sentences(_REFERENCES.sub("", text)) if not _URL.search(each)]


def names_new_state(text: str) -> bool:
    """Return True where a code name stands behind the first words: "`<portal>` is renamed to `<teleport>`"."""
    text = _URL.sub("", text)
    return any(len(text[: found.start()].split()) >= 2 for found in _CODE_LIKE.finditer(text))


def code_names(text: str) -> Sequence[str]:
    """Return the names in backticks, without what a call or a default adds to them."""
    return [name for each in _CODE_NAME.findall(text) if (name := _CALLED.split(each, maxsplit=1)[0])]


def is_distinctive(name: str) -> bool:
    """Return True for a name that no other thing has: "Response.ext", "max_size", "getTextMode"; not "None"."""
    return len(name) > 4 and (not name.isalpha() or not name[1:].islower())


def title_names(title: str) -> Sequence[str]:
    """Return what a title names by capitals or hyphens; the first word only where capitals stand inside it."""
    first, _, rest = title.partition(" ")
    own = _TITLE_NAME.findall(first) if not first[1:].islower() else []
    return [each.strip(".") for each in (*own, *_TITLE_NAME.findall(rest))]


def in_code(name: str) -> str:
    """Return the part of a name that code holds: "NetRCAuth" of "httpx.NetRCAuth", "fast" of "--fast"."""
    last = name.rpartition(".")[2] if _DOTTED.fullmatch(name) else ""
    return (last if len(last) > 2 else name).strip("-.<>/")  # "GOV.UK" is no attribute.


def without_numbers(text: str) -> str:
    """Return the words of a text that are the same in "Drop Python 3.7. (#12)" and "Drop Python 3.8"."""
    return _NUMBER.sub("0", _REFERENCES.sub("", text.casefold()).strip(" ."))

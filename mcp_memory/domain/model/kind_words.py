"""The kinds of records in words for people, and the words by which people name them.

The database, exports, agents' tools and JSON have the stored words.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mcp_memory.domain.model.counted_nouns import in_number
from mcp_memory.domain.model.records import KINDS, KNOWN_DETAILS, TEXT, Kind
from mcp_memory.errors import InvalidRequest

_WORDS: Final[Mapping[str, str]] = {
    "censor": "guardrail",
    "identity": "preference",
    "episode": "event",
    "event": "log event",
    "tool_call": "tool call",
    "tool_result": "tool result",
}
"""The word for people, by the stored one; every other kind has the same for both."""
_ALSO: Final[Mapping[str, Sequence[Kind]]] = {
    "profile": ("identity",),
    "event": ("episode", "event"),  # The one is the word for people, the other the stored word.
}


def kind_in_words(kind: str) -> str:
    """Return the word for people of a kind: "guardrail" for "censor"; another word as it is."""
    return _WORDS.get(kind, kind)


def counted_in_words(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return counts of kinds under the words for people, in their number: {"facts": 2, "guardrail": 1}."""
    return {in_number(count, kind_in_words(kind)): count for kind, count in counts.items()}


def kinds_named(word: str) -> Sequence[Kind]:
    """Return the kinds that a person may mean by a word, the likeliest first. Raises InvalidRequest.

    Both words of a kind are taken, and "log event" also as "log-event".
    """
    meant = word.strip().lower().replace("-", " ").replace("_", " ")
    stored: Sequence[Kind] = [kind for kind in KINDS if meant in (kind.replace("_", " "), kind_in_words(kind))]
    if found := _ALSO.get(meant) or stored:
        return found
    raise InvalidRequest(f"There is no kind {word!r}; the kinds are {', '.join(map(kind_in_words, KINDS))}.")


def details_in_words() -> str:
    """Return the details with a fixed meaning, by kind: "a decision takes reasons (a list of texts), …; a …"."""

    def told(name: str, wanted: str) -> str:
        return name if wanted == TEXT else f"{name} ({wanted})"

    return "; ".join(
        f"a {kind_in_words(kind)} takes {', '.join(told(*each) for each in known.items())}"
        for kind, known in KNOWN_DETAILS.items()
    )

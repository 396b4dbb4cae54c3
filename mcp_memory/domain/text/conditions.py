"""Reads from a standing instruction when it applies: "Always name the version when I ask about libraries"."""

import re

from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.words import query_terms

MOST_READ = 2_000
"""Characters of a text that are read: an instruction is short."""

# "Always", "Please", "From now on", "make sure", "don't": what makes a sentence a standing instruction
_STANDING = re.compile(
    r"\b(?:always|never|please|from now on|make sure|be sure|ensure|remember to|do not|don['’]t|must|should"
    r"|i (?:want|need|would like|expect) you to|i['’]d like you to)\b",
    re.IGNORECASE,
)
# "when I ask about | software libraries", "whenever I request | a diagram", "if I'm asking for | a recipe"
_ASKED = re.compile(
    r"\b(?:when(?:ever)?|if|(?:any|every|each) ?time) (?:i|we|i['’]m|i am|we['’]re|we are)"
    r" (?:ask(?:s|ed|ing)?|inquir(?:e|es|ing)|request(?:s|ed|ing)?|talk(?:s|ed|ing)?|discuss(?:es|ed|ing)?"
    r"|mention(?:s|ed|ing)?)\b(?: you)?(?: (?:about|for|regarding|on|of|to))?+ (?P<subject>[^.,;:!?\n]{3,150})",
    re.IGNORECASE,
)


def asked_subject(text: str) -> str:
    """Return what a user has to ask about for a standing instruction in the text to apply; "" where none says so.

    Only the first MOST_READ characters are read, and only in English.
    """
    if not _ASKED.search(text[:MOST_READ]):  # Most texts are told so, without being split.
        return ""
    for sentence in sentences_of(text[:MOST_READ]):
        condition = None if sentence.endswith("?") else _ASKED.search(sentence)
        if condition and _STANDING.search(sentence) and query_terms(condition["subject"]):
            return condition["subject"].strip()
    return ""

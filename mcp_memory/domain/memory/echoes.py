"""Recognises text that this server itself returned, so that an echo is not stored as new knowledge."""

import re

_FENCE_START = re.compile(r'<memory-context id="c[0-9a-f]+">\n')
_FENCE_END = "\n</memory-context>"
_BLOCK = re.compile(r'<memory-context id="c[0-9a-f]+">.*?(?:</memory-context>|\Z)', re.DOTALL)
# e.g. "- [r000017 fact 2026-11-20 by bob] ", "[r000017 11-20]", "[r000017 10:42]"
# A bare id must look like one: "[research] x" is user text.
_LABEL = re.compile(
    r"\s*(?:- )?\[(?:(r[0-9a-z]{6,})(?: [a-z_]+)? (?:(?:\d{4}-)?\d\d-\d\d|\d\d:\d\d)[^\]\n]{0,60}"
    r"|(r0[0-9a-z]{5})(?: [a-z_]+)?(?: by [^\]\n]{1,40})?)\]\s*"
)
# e.g. "[r000017 ", "[r000017]"
_ID = re.compile(r"\[(r[0-9a-z]{6,})[ \]]")


def without_blocks(text: str) -> str:
    """Replace each context block in the text by a placeholder: the log keeps the conversation, not the shown memory.

    A pattern for whole blocks would search for an end behind every beginning: minutes for many.
    """
    parts: list[str] = []
    rest = 0
    for opening in _FENCE_START.finditer(text):
        if opening.start() < rest:
            continue
        closing = text.find(_FENCE_END, opening.end())
        if closing < 0:
            break
        parts += (text[rest : opening.start()], "[recalled context]")
        rest = closing + len(_FENCE_END)
    return "".join([*parts, text[rest:]])


def strip_recalled(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without context blocks and item labels, and the record ids that those named, in order."""
    ids: dict[str, None] = {}
    for block in _BLOCK.findall(text):
        ids.update(dict.fromkeys(_ID.findall(block)))
    rest = _BLOCK.sub("", text).strip() if ids else text
    label = _LABEL.match(rest)
    if label:
        ids[label[1] or label[2]] = None
        rest = rest[label.end() :]
    return rest, tuple(ids)

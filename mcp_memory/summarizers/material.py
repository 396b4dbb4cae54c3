"""A span as a model reads it: one line on who says or does what, then the text, in parts that fit its window.

Knows no model. What entries say is fenced with a digest of the whole, so that nothing inside can close the fence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.ports.text import TokenCounter

LONG_OUTPUT = 200
"""Tokens: where a span does not fit, a longer output gives way to its short form."""
HEAD_SHARE = 0.7
"""Of a text that must be cut, this share of what is shown is its beginning, the rest its end."""
LINE_TOKENS = 12
"""What the line before each text takes, about."""


def fitting_parts(entries: Sequence[Entry], max_tokens: int, counter: TokenCounter) -> list[tuple[Entry, ...]]:
    """The span in its order, in as few parts of at most `max_tokens` as may be, each with at least one entry.

    Where it is not one part as it stands, long outputs give way to their short forms, and what is longer than half a
    part loses its middle.
    """
    if sum(entry.tokens + LINE_TOKENS for entry in entries) <= max_tokens:
        return [tuple(entries)] if entries else []
    return list(_parts([_cut(entry, max_tokens // 2, counter) for entry in entries], max_tokens))


def shown(entry: Entry) -> str:
    """One entry as a model reads it."""
    return f"[{_who(entry)}]\n{entry.text}\n"


def fenced(title: str, text: str) -> str:
    """Text between two lines that it cannot hold, since they name its digest."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"<<<{title} {digest}\n{text}\n{title} {digest}>>>"


def _parts(entries: Sequence[Entry], max_tokens: int) -> Iterator[tuple[Entry, ...]]:
    part: list[Entry] = []
    tokens = 0
    for entry in entries:
        if part and tokens + entry.tokens + LINE_TOKENS > max_tokens:
            yield tuple(part)
            part, tokens = [], 0
        part.append(entry)
        tokens += entry.tokens + LINE_TOKENS
    yield tuple(part)


def _cut(entry: Entry, max_tokens: int, counter: TokenCounter) -> Entry:
    """The entry in at most about `max_tokens`, or in its short form where it is a long output or a long input."""
    text = entry.text
    if entry.kind != "message" and entry.tokens > LONG_OUTPUT:
        text = entry.summary or entry.micro or _without_middle(entry, LONG_OUTPUT, counter)
    elif entry.tokens > max_tokens:
        text = _without_middle(entry, max_tokens, counter)
    return entry if text is entry.text else replace(entry, text=text, tokens=counter.count(text))


def _without_middle(entry: Entry, max_tokens: int, counter: TokenCounter) -> str:
    head = counter.truncate(entry.text, int(max_tokens * HEAD_SHARE))
    tail = int(len(entry.text) * max_tokens * (1 - HEAD_SHARE) / entry.tokens)
    rest = entry.text[max(len(entry.text) - tail, len(head)) :]
    return f"{head}\n[… about {entry.tokens - max_tokens:,} tokens left out …]\n{rest}"


def _who(entry: Entry) -> str:
    tool = one_line(entry.tool or "a tool")
    if entry.kind == "tool_call":
        return f"assistant calls {tool}"
    if entry.kind == "tool_result":
        return f"{tool} {'failed' if entry.failed else 'answers'}"
    return entry.role if entry.form == "original" else f"{entry.role}, compacted earlier"

"""Renders a span for a model: one line on the speaker or the action, then the text, in parts that fit its window.

Independent of the model. The entries are fenced with a digest of the whole, so that no text inside can close the
fence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.ports.text import TokenCounter

LONG_OUTPUT = 200
"""Tokens: where a span does not fit, a longer output is replaced by its short form."""
HEAD_SHARE = 0.7
"""The share of a cut text's shown part that is its beginning; the rest is its end."""
LINE_TOKENS = 12
"""Approximate tokens of the line before each text."""


def fitting_parts(entries: Sequence[Entry], max_tokens: int, counter: TokenCounter) -> list[tuple[Entry, ...]]:
    """Return the span in order, in as few parts of at most `max_tokens` as possible, each with at least one entry.

    Where it does not fit in one part, long outputs are replaced by their short forms, and a text longer than half a
    part loses its middle.
    """
    if sum(entry.tokens + LINE_TOKENS for entry in entries) <= max_tokens:
        return [tuple(entries)] if entries else []
    return list(_parts([_cut(entry, max_tokens // 2, counter) for entry in entries], max_tokens))


def shown(entry: Entry) -> str:
    """Return one entry as a model reads it."""
    return f"[{_who(entry)}]\n{entry.text}\n"


def fenced(title: str, text: str) -> str:
    """Return the text between two lines that it cannot contain, since they name its digest."""
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
    """Return the entry in about `max_tokens` at most, or in its short form if it is a long output or a long input."""
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

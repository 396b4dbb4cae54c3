"""Reads the text of a message's part, and names the parts that hold another's words. Knows no record."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from mcp_memory.domain.model.session_log import Role
from mcp_memory.entrypoints.conversations.message_forms import PLACE, ClientMessage

_APART: Final[Mapping[str, Role]] = {
    "mcp_approval_response": "user",
    "mid_conv_system": "system",
    "compaction": "assistant",
    "document": "tool",
    "search_result": "tool",
}
"""Parts that hold the words of another than their message's role: by their type, the role of their author.

A person's reason for allowing or refusing a call stands among the assistant's parts, a document that somebody else
wrote, or a system's instruction, among the user's. An interface's own summary is a message by itself.
"""
_MEDIA: Final = ("image", "audio", "video", "document", "file")
_BLOBS: Final = frozenset({"data", "encrypted_content", "encrypted_index", "signature", "file_data", "b64_json"})
"""Fields that hold bytes written as text."""
_STREAMS: Final = ("stdout", "stderr", "logs")
"""Fields of the results of code that was run."""
_HEADS: Final = ("title", "url", "source", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsApart:
    """Words that a part says by itself, and the role of their author."""

    role: Role
    text: str


def words_apart(part: ClientMessage) -> WordsApart | None:
    """Return the words of a part that are not those of its message's role; None where it holds none."""
    kind = part.get("type")
    role = _APART.get(kind) if isinstance(kind, str) else None
    if role is None:
        return None
    if kind in ("document", "search_result"):
        text = _held(part)
    else:
        text = output(part.get("reason" if role == "user" else "content"))
    return WordsApart(role=role, text=text) if text.strip() else None


def output(content: JsonValue) -> str:
    """Return the text of a tool's output."""
    if isinstance(content, list):
        return "\n".join(output(part) for part in content)
    if isinstance(content, dict):
        return shown(content)
    return "" if content is None else content if isinstance(content, str) else compact(content)


def shown(part: ClientMessage) -> str:
    """Return the text of a part; the name of an image or a document; else its fields, but for bytes."""
    for name in ("text", "refusal"):
        if isinstance(text := part.get(name), str):
            return text
    kind = str(part.get("type", ""))
    if (held := _held(part)) or (kind and not part.keys().isdisjoint(_STREAMS)):
        return held
    for medium in _MEDIA:
        if medium in kind or (medium == "file" and first_text(part, "file_id")):
            name = first_text(part, "title", "filename", "file_id")
            return f"[{medium}: {name}]" if name else f"[{medium}]"
    return compact(_without_blobs(part))


def _held(part: ClientMessage) -> str:
    """Return what a document, a page, a search's result or code that was run holds as text; "" for all else."""
    kind, source = str(part.get("type", "")), part.get("source")
    streams = [text for name in _STREAMS if kind and (text := first_text(part, name).strip("\n"))]
    inside: JsonValue = part.get("content") if kind.endswith("_result") else None
    if kind == "document" and isinstance(source, dict):
        inside = source.get("data") if source.get("type") == "text" else source.get("content")
    lines = [*streams, output(inside).strip("\n")]
    text = "\n".join(line for line in lines if line)
    if not text or streams:
        return text
    title, *heads = [first_text(part, name) for name in _HEADS]
    if kind == "document":
        title = f"[document: {title}]" if title else "[document]"
    return "\n".join(line for line in (title, *heads, text) if line)


def _without_blobs(value: JsonValue | ClientMessage) -> JsonValue:
    if isinstance(value, Mapping):
        return {
            name: _without_blobs(part)
            for name, part in value.items()
            if name not in _BLOBS and name != PLACE and not (isinstance(part, str) and part.startswith("data:"))
        }
    return [_without_blobs(part) for part in value] if isinstance(value, list) else value


def has_failed(part: ClientMessage) -> bool:
    """Return True for a tool's result that says that the call failed."""
    content = part.get("content")
    inside = content if isinstance(content, dict) else {}
    return (
        part.get("is_error") is True
        or part.get("isError") is True  # as the Model Context Protocol has it
        or part.get("error") is not None
        or part.get("status") == "failed"
        or str(inside.get("type", "")).endswith("_error")
        or inside.get("return_code") not in (0, None)  # of code that was run
    )


def first_text(part: ClientMessage, *names: str) -> str:
    """Return the first of these fields that is a text, and not blank; "" for none."""
    return next((text for name in names if isinstance(text := part.get(name), str) and text.strip()), "")


def compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

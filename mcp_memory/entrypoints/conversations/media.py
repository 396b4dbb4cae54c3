"""Images and documents in clients' formats: taken out of messages, and put into messages again. Fetches no address."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import JsonValue

from mcp_memory.domain.model.limits import MAX_TEXT_CHARS
from mcp_memory.domain.model.message_files import Attachment, OpenedFiles, attached
from mcp_memory.domain.text.control_characters import without_controls

Interface = Literal["anthropic", "openai"]
Part: TypeAlias = "dict[str, Any]"

_HOLDERS: Final = frozenset({"content", "output", "outputs"})
"""Fields of messages and results with parts; a call's arguments are its own."""
_WITHIN: Final = ("source", "file", "image_url", "resource")
"""Fields of a part that may hold the bytes in an object of their own."""
_BYTES: Final = ("data", "base64", "file_data", "image_url", "image", "url", "value", "blob")
_TYPES: Final = ("media_type", "mediaType", "mimeType", "mime_type", "contentType")
_PDF, _PLAIN = "application/pdf", "text/plain"
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Types that both interfaces take."""
_SIGNS: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", _PDF),
)
"""Beginnings of files in base64, and the type that each shows."""


def taken_apart(message: Mapping[str, JsonValue]) -> tuple[Mapping[str, JsonValue], tuple[Attachment, ...]]:
    """Return the message with a mark for each image and document that it holds the bytes of, and these, each once.

    A file of text is no attachment, but a document with that text as its source: what it says is read like all else.
    """
    found: dict[str, Attachment] = {}

    def walked(value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [walked(each) for each in value]
        if not isinstance(value, dict):
            return value
        if attachment := _attachment(value):
            if (text := _text_in(attachment)) is not None:
                named = {"title": attachment.name} if attachment.name else {}
                return {**value, "type": "document", **named, "source": {"type": "text", "data": text}}
            found[attachment.mark] = attachment
            return {"type": "text", "text": attachment.mark}
        if value.get("type") == "image_generation_call" and isinstance(value.get("result"), str):
            value = {**value, "output": [{"type": "image", "data": value["result"]}]}
        return {
            name: walked(inner) if name in _HOLDERS or (name == "source" and _has_parts(inner)) else inner
            for name, inner in value.items()
        }

    return cast("Mapping[str, JsonValue]", walked(dict(message))), tuple(found.values())


def _has_parts(source: JsonValue) -> bool:
    """Return True for the source of a document that is given as parts."""
    return isinstance(source, dict) and "content" in source


def _attachment(part: Mapping[str, JsonValue]) -> Attachment | None:
    """Return what an image's or a document's part holds, in any form; None for other parts and mere references."""
    kind = _text(part.get("type"))
    held = next((inner for name in _WITHIN if isinstance(inner := part.get(name), dict)), part)
    data, name = _first(held, *_BYTES), _first(part, "title", "filename", "name") or _first(held, "filename")
    if kind in ("", "text") or not data:
        return None
    media_type = _first(held, *_TYPES) or _first(part, *_TYPES)
    if kind == "document" and held.get("type") == "text":
        # A longer one is a file: no text of the log has room for it.
        content = data.encode("utf-8", "replace") if len(data) > MAX_TEXT_CHARS else None
        return _made(media_type or _PLAIN, content, name, is_image=False)
    # e.g. "data:image/png;base64,iVBO…"
    head, _, inside = data.partition(",")
    if head.startswith("data:"):
        is_base64 = head.endswith(";base64")
        media_type, data = head.removeprefix("data:").removesuffix(";base64"), inside if is_base64 else ""
    if not media_type or media_type.endswith("*"):
        media_type = next((known for sign, known in _SIGNS if data.startswith(sign)), media_type)
    return _made(media_type, _bytes(data), name, is_image=media_type.startswith("image/"))


def _made(media_type: str, content: bytes | None, name: str, *, is_image: bool) -> Attachment | None:
    if not content or not media_type or media_type.startswith(("audio/", "video/")):
        return None
    media_type, name = (without_controls(text)[0] for text in (media_type.partition(";")[0].strip(), name))
    return attached("image" if is_image else "document", media_type, content, name)


def _text_in(file: Attachment) -> str | None:
    """Return what a file of text says; None for any other, and for one that no text of the log has room for."""
    if not file.type.startswith("text/") or file.size > MAX_TEXT_CHARS:
        return None
    try:
        return file.content.decode()
    except UnicodeDecodeError:
        return None


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _first(part: Mapping[str, JsonValue], *names: str) -> str:
    return next((found for name in names if (found := _text(part.get(name)))), "")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def parts(text: str, files: OpenedFiles, interface: Interface) -> list[Part]:
    """Return a text as parts, with each file where its mark is, or before the rest where that is gone.

    A file of a type that this interface does not take stays a mark.
    """
    return [part for part in _parts(text, files, interface) if part.get("text", "…").strip()]


def _parts(text: str, files: OpenedFiles, interface: Interface) -> Iterator[Part]:
    for file, content in files:
        block = _block(file, content, interface)
        if block is None:
            continue
        before, mark, after = text.partition(file.mark)
        if mark:
            yield {"type": "text", "text": before.strip("\n")}
            text = after
        yield block
    yield {"type": "text", "text": text.strip("\n")}


def _block(file: Attachment, content: bytes, interface: Interface) -> Part | None:
    data = base64.b64encode(content).decode()
    is_image = file.medium == "image" and file.type in _IMAGES
    if interface == "openai":
        url = f"data:{file.type};base64,{data}"
        if is_image:
            return {"type": "image_url", "image_url": {"url": url}}
        held = {"filename": file.name or f"{file.digest[:12]}.pdf", "file_data": url}
        return {"type": "file", "file": held} if file.type == _PDF else None
    source = {"type": "base64", "media_type": file.type, "data": data}
    if is_image:
        return {"type": "image", "source": source}
    if file.type == _PLAIN:
        source = {"type": "text", "media_type": _PLAIN, "data": content.decode("utf-8", "replace")}
    elif file.type != _PDF:
        return None
    return {"type": "document", "source": source} | ({"title": file.name} if file.name else {})


def listed(files: OpenedFiles) -> Sequence[Part]:
    """Return the files with their bytes, for JSON."""
    return [{**file.detail(), "data": base64.b64encode(content).decode()} for file, content in files]

"""Images and documents in clients' formats: taken out of messages, and put into messages again. Fetches no address."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import JsonValue

from mcp_memory.domain.model.attachments import Attachment, OpenedFiles, attached
from mcp_memory.domain.text.control_characters import without_controls

Interface = Literal["anthropic", "openai"]
Part: TypeAlias = "dict[str, Any]"

_HOLDERS: Final = frozenset({"content", "output"})
"""Fields of messages and results with parts; a call's arguments are its own."""
_PDF, _PLAIN = "application/pdf", "text/plain"
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Types that both interfaces take."""


def taken_apart(message: Mapping[str, JsonValue]) -> tuple[Mapping[str, JsonValue], tuple[Attachment, ...]]:
    """Return the message with a mark for each image and document that it holds the bytes of, and these, each once."""
    found: dict[str, Attachment] = {}

    def walked(value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [walked(each) for each in value]
        if not isinstance(value, dict):
            return value
        if attachment := _attachment(value):
            found[attachment.mark] = attachment
            return {"type": "text", "text": attachment.mark}
        return {name: walked(inner) if name in _HOLDERS else inner for name, inner in value.items()}

    return cast("Mapping[str, JsonValue]", walked(dict(message))), tuple(found.values())


def _attachment(part: Mapping[str, JsonValue]) -> Attachment | None:
    """Return what an image's or a document's part holds; None for other parts, and for what is only referred to."""
    kind, source = part.get("type"), part.get("source")
    if kind in ("image", "document") and isinstance(source, dict):
        name, data = _text(part.get("title")), _text(source.get("data"))
        is_plain = source.get("type") == "text"
        if not is_plain and source.get("type") != "base64":
            return None
        content = data.encode("utf-8", "replace") if is_plain else _bytes(data)
        media_type = _text(source.get("media_type")) or (_PLAIN if is_plain else "")
        return _made(media_type, content, name, is_image=kind == "image")
    if kind in ("image_url", "input_image"):
        held = part.get("image_url")
        return _of_url(_text(held.get("url") if isinstance(held, dict) else held), "", is_image=True)
    if kind in ("file", "input_file"):
        held = part.get("file") if kind == "file" else part
        if isinstance(held, dict):
            return _of_url(_text(held.get("file_data")), _text(held.get("filename")), is_image=False)
    return None


def _of_url(url: str, name: str, *, is_image: bool) -> Attachment | None:
    """Return what a data URL holds, e.g. "data:image/png;base64,iVBO…"; None for any other address."""
    head, _, data = url.partition(",")
    if not (head.startswith("data:") and head.endswith(";base64")):
        return None
    return _made(head[len("data:") : -len(";base64")], _bytes(data), name, is_image=is_image)


def _made(media_type: str, content: bytes | None, name: str, *, is_image: bool) -> Attachment | None:
    if not content or not media_type:
        return None
    media_type, name = (without_controls(text)[0] for text in (media_type.partition(";")[0].strip(), name))
    return attached("image" if is_image else "document", media_type, content, name)


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


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

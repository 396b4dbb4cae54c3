"""Images and documents of a conversation, which are kept as files by the digest of their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

Medium = Literal["image", "document"]
FILES = "files"
"""The detail of a record that names its files. No caller gives it: it opens what it names."""
_SHOWN_DIGITS = 12
OpenedFiles: TypeAlias = "Sequence[tuple[Attachment, bytes]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One file: `digest` is the SHA-256 of its bytes in 64 hexadecimal digits, `type` its media type.

    `content` is there on the way into the memory alone; what is not to be kept has none.
    """

    medium: Medium
    type: str
    digest: str
    size: int
    name: str = ""
    content: bytes = field(default=b"", repr=False, compare=False)

    @property
    def mark(self) -> str:
        """It has this mark in the log's text: "[image sha256:3f5a12bc9d0e… 34 kB image/png]"."""
        name = f": {self.name}" if self.name else ""
        size = f"{max(round(self.size / 1_000), 1):,} kB"
        return f"[{self.medium}{name} sha256:{self.digest[:_SHOWN_DIGITS]}… {size} {self.type}]"

    def detail(self) -> dict[str, str | int]:
        """Return what the record's details hold of it."""
        return {
            "medium": self.medium, "type": self.type, "digest": self.digest, "size": self.size, "name": self.name
        }  # fmt: skip


def attached(medium: Medium, media_type: str, content: bytes, name: str = "") -> Attachment:
    """Return the bytes as an attachment."""
    digest = hashlib.sha256(content).hexdigest()
    return Attachment(medium=medium, type=media_type, digest=digest, size=len(content), name=name, content=content)


def attachments_of(details: Mapping[str, object]) -> Sequence[Attachment]:
    """Return the files that a record's details name, in their order."""
    named = cast("Sequence[dict[str, str]]", details.get(FILES, ()))
    return [
        Attachment(
            medium="image" if each["medium"] == "image" else "document",
            type=each["type"],
            digest=each["digest"],
            size=int(each["size"]),
            name=each["name"],
        )
        for each in named
    ]

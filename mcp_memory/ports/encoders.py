"""What models and tokenizers make of a text: vectors, and a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mcp_memory.domain.retrieval.queries import Vector

if TYPE_CHECKING:  # numpy takes a tenth of a second to import, and the handshake needs none of it.
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"
"""Shape [windows, dimensions], one unit row per window of a text, windows >= 1."""


class Embedder(Protocol):
    """Turns text into unit vectors. A text's vectors depend on nothing but the text and `id`."""

    @property
    def id(self) -> str:
        """Names model, weights and windowing; vectors of different ids are never compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, text: str) -> Vectors:
        """Vectors of a text to be stored, one per window. Raises StoreUnavailable where the model cannot run."""
        ...

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        """`embed` for each of the texts, in as few requests as a service takes; all or none."""
        ...

    def embed_query(self, text: str) -> Vector:
        """One vector for a whole query, however long. Raises StoreUnavailable where the model cannot run."""
        ...


class TokenCounter(Protocol):
    """Counts tokens of one public encoding."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Tokens of the text; 0 for "". Text that looks like a special token counts as plain text."""
        ...

    def truncate(self, text: str, max_tokens: int) -> str:
        """The longest prefix of at most `max_tokens`, never ending inside a character."""
        ...

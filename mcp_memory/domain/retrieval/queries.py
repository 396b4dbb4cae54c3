"""What a query says: its words, its meaning as a vector, and the time it speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mcp_memory.domain.model.records import Instant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""Shape [dimensions], unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Signals of one query.

    `vector` is None where no embedder could be asked; `span` is [start, end) or None; `is_only_time` is True where the
    query asks for nothing but that span.
    """

    text: str
    terms: tuple[str, ...]
    vector: Vector | None = None
    span: tuple[Instant, Instant] | None = None
    is_only_time: bool = False

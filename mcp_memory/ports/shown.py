"""The memory of answers: contexts that may be continued, texts that may come back, versions that sessions saw.

Where one process owns the memory, it keeps them itself. Servers that share a memory share them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.scopes import Caller

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """An item as a client was shown it, without its words. `texts` are digests of its forms, where those tell it.

    `content` is that of the item: it changes with whatever a record can show, and is 0 for other items.
    """

    kind: str
    source: str
    section: str
    share: str
    content: int
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownContext:
    """A client's view under a context's id: all items by their ids, also of the blocks that it continues.

    `report` is that of the latest block, and `text` that block, "" where only its account is known. `tokens` are those
    of all blocks. `asked` and `filters` are digests of the question and of its filter. `vector` is the question's, of
    the embedder's dimensions, None without an embedder. `revision` is the one that the client has seen.
    """

    report: ContextReport
    text: str
    items: Mapping[str, ShownItem]
    tokens: int
    asked: str
    vector: Vector | None
    filters: str
    strategy: str
    revision: int


class ShownContexts(Protocol):
    """Keeps the latest contexts that sessions were shown, for a while. Thread-safe."""

    def keep(self, shown: ShownContext, caller: Caller) -> None:
        """Keep a context of the caller's session; it may be lost, and then is built again."""
        ...

    def shown(self, context_id: str, caller: Caller) -> ShownContext | None:
        """Return the context of the caller's session; None where it is not known any more."""
        ...

    def forget(self) -> None:
        """Drop all of them, because a record in them was erased."""
        ...


class ShownTexts(Protocol):
    """Keeps the latest texts and versions of records that agents were shown, for a while. Thread-safe.

    Texts belong to the agent: one read in one session and stored in another is an echo too. What was seen belongs to
    the session, of which another window of the agent knows nothing.
    """

    def note(self, caller: Caller, texts: Iterable[tuple[str, str]], revision: int) -> None:
        """Keep (record id, text as shown), with or without its label, as of a revision."""
        ...

    def see(self, caller: Caller, record_ids: Iterable[str], revision: int) -> None:
        """Note that the caller's session knows these records as of a revision."""
        ...

    def seen(self, caller: Caller, record_ids: Collection[str]) -> Mapping[str, int]:
        """Return the latest revision at which the caller's session was shown each record, where that is known."""
        ...

    def begun(self, caller: Caller) -> int:
        """Return the revision that counts for records which were never shown: when the caller's session began."""
        ...

    def find(self, caller: Caller, texts: Collection[str]) -> Mapping[str, str]:
        """Return the ids of the records that were shown with these texts, by text."""
        ...

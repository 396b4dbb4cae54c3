"""Which keys the index holds for which record, and what has to change in it. Pure bookkeeping: asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_memory.stores.vectors.chroma.location import key_of

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.text import Vectors
    from mcp_memory.stores.vectors.exact import LastChange


@dataclass(slots=True)
class Step:
    """Changes to collections, by name. What is put goes first: a record that moves is never nowhere."""

    put: dict[str, dict[str, Vector]] = field(default_factory=dict[str, "dict[str, Vector]"])
    delete: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def touched(self) -> set[str]:
        return self.put.keys() | self.delete.keys()


class Ledger:
    """Not thread-safe. Collections are named by `collection`, given a scope."""

    def __init__(self, collection: Callable[[str], str]) -> None:
        self._collection = collection
        self._held: dict[str, tuple[str, tuple[str, ...]]] = {}

    def __len__(self) -> int:
        """How many records the index holds."""
        return len(self._held)

    def note(self, name: str, record_id: str, vectors: Vectors) -> dict[str, Vector]:
        """Hold a record in that collection; what it holds there, by key."""
        keyed = {key_of(record_id, vector): vector for vector in vectors}
        self._held[record_id] = (name, tuple(keyed))
        return keyed

    def step(self, changes: Iterable[LastChange]) -> Step:
        """What brings the index from what it holds to what became of these records; held from now on."""
        step = Step()
        for change in changes:
            old_name, old_keys = self._held.pop(change.id, ("", ()))
            new: Mapping[str, Vector] = {}
            name = ""
            if change.scope is not None and change.vectors is not None:
                name = self._collection(change.scope)
                new = self.note(name, change.id, change.vectors)
            known = old_keys if name == old_name else ()
            if added := {key: vector for key, vector in new.items() if key not in known}:
                step.put.setdefault(name, {}).update(added)
            if gone := [key for key in old_keys if name != old_name or key not in new]:
                step.delete.setdefault(old_name, []).extend(gone)
        return step

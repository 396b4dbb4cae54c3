"""Brings an open index up to date with the truth: compares its keys once, then applies changes. No threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mcp_memory.ports.indexes import IndexDifference
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.location import IndexPlace, key_of, record_of
from mcp_memory.stores.vectors.exact import ExactVectorStore

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.text import Vectors
    from mcp_memory.stores.vectors.exact import LastChange


class HeldKeys:
    """The keys that the index holds, per record. Not thread-safe. `collection` names a scope's collection."""

    def __init__(self, collection: Callable[[str], str]) -> None:
        self._collection = collection
        self._held: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.counts: Counter[str] = Counter()
        """The number of keys by collection."""

    def __len__(self) -> int:
        """Return the number of records in the index."""
        return len(self._held)

    def note(self, name: str, record_id: str, vectors: Vectors) -> dict[str, Vector]:
        """Note that the collection holds a record; return its vectors by key."""
        keyed = {key_of(record_id, vector): vector for vector in vectors}
        self._held[record_id] = (name, tuple(keyed))
        self.counts[name] += len(keyed)
        return keyed

    def step(self, changes: Iterable[LastChange]) -> tuple[dict[str, dict[str, Vector]], dict[str, list[str]]]:
        """Count these changes as applied; return the vectors to put and the keys to delete, by collection."""
        put: dict[str, dict[str, Vector]] = {}
        delete: dict[str, list[str]] = {}
        for change in changes:
            old_name, old_keys = self._held.pop(change.id, ("", ()))
            self.counts[old_name] -= len(old_keys)
            name = ""
            new: Mapping[str, Vector] = {}
            if change.scope is not None and change.vectors is not None:
                name = self._collection(change.scope)
                new = self.note(name, change.id, change.vectors)
            kept = new.keys() & old_keys if name == old_name else set[str]()
            if added := {key: vector for key, vector in new.items() if key not in kept}:
                put.setdefault(name, {}).update(added)
            if gone := [key for key in old_keys if key not in kept]:
                delete.setdefault(old_name, []).extend(gone)
        return put, delete


BATCH = 300
"""Records per write: Chroma Cloud's limit where each has one vector. An erasure waits for one write to end."""


class Filler:
    """Fills one index from its opening to its end. Methods that ask it raise IndexFailure. Not thread-safe.

    `is_interrupted` is called between writes; they stop once it is true.
    """

    def __init__(
        self, exact: ExactVectorStore, place: IndexPlace, index: IndexClient, is_interrupted: Callable[[], bool]
    ) -> None:
        self._exact = exact
        self._place = place
        self._index = index
        self._is_interrupted = is_interrupted
        self._held_keys: HeldKeys | None = None
        self._counts: Mapping[str, int] = {}
        self.applied = 0
        """Everything up to this change is in the index."""
        self.standing = index.standing()

    @property
    def records(self) -> int:
        """The number of records in the index; 0 until it was compared."""
        return 0 if self._held_keys is None else len(self._held_keys)

    def vectors(self, scopes: Sequence[str]) -> int:
        """Return the number of vectors that this process has put into the index, or found there, in these scopes."""
        return sum(self._counts.get(self._place.collection(scope), 0) for scope in dict.fromkeys(scopes))

    @property
    def must_clear(self) -> bool:
        """True where a directory may still hold erased data, as deleting leaves the bytes, or a server is in doubt.

        A directory that knows a later erasure than the truth belongs to another history, from before a restored backup.
        """
        if self._place.is_shared:
            return self.standing.is_doubtful
        return self._exact.newest_erasure != self.standing.erased

    def clear(self) -> None:
        """Empty the index of a server."""
        self._index.clear()
        self._held_keys = None
        self.standing = self._index.standing()

    def erase(self, record_ids: Collection[str]) -> None:
        """Delete everything of these records from a server's index. Thread-safe."""
        self._index.erase(record_ids)

    def catch_up(self) -> bool:
        """Bring the index up to date. False where that was interrupted, or the index has to be cleared first."""
        self.standing = self._index.standing()
        revision = self._exact.catch_up()
        if self.must_clear:
            return False
        return self._compare(revision) if self._held_keys is None else self._apply(self._held_keys, revision)

    def differences(self) -> Mapping[str, IndexDifference]:
        """By scope, how the index differs from the truth; scopes without a difference are left out."""
        names = {scope: self._place.collection(scope) for scope in self._exact.live_ids()}
        held = {name: set(self._index.keys(name)) for name in names.values()}
        found = differences(self._exact, self._place, held)
        return {scope: found[name] for scope, name in names.items() if name in found}

    def _compare(self, revision: int) -> bool:
        """Compare every key: an index that was written at another time is not trusted."""
        ledger = HeldKeys(self._place.collection)
        self._counts = ledger.counts
        scopes = {self._place.collection(scope): (scope, ids) for scope, ids in self._exact.live_ids().items() if ids}
        if foreign := set(self._index.names()) - scopes.keys():
            self._index.drop(foreign)
        for name, (scope, record_ids) in scopes.items():
            if not self._fill(ledger, name, scope, record_ids):
                return False
        self._rest(revision, scopes.keys())
        self._held_keys = ledger
        return True

    def _fill(self, ledger: HeldKeys, name: str, scope: str, record_ids: Sequence[str]) -> bool:
        """Add to a collection the keys it lacks, and delete surplus ones. False where interrupted."""
        extra = set(self._index.keys(name))
        for start in range(0, len(record_ids), BATCH):
            wanted: dict[str, Vector] = {}
            for record_id, vectors in self._exact.live_vectors(scope, record_ids[start : start + BATCH]).items():
                wanted |= ledger.note(name, record_id, vectors)
            if missing := {key: vector for key, vector in wanted.items() if key not in extra}:
                self._index.put(name, missing)
            extra -= wanted.keys()
            if self._must_stop():
                return False
        if extra:
            self._index.delete(name, extra)
        return True

    def _apply(self, ledger: HeldKeys, revision: int) -> bool:
        """Apply what changed, oldest first. False where interrupted."""
        touched: set[str] = set()
        while changes := self._exact.changes(self.applied, BATCH):
            put, delete = ledger.step(changes)
            for name, vectors in put.items():  # First, so that a record that moves never disappears.
                self._index.put(name, vectors)
            for name, keys in delete.items():
                self._index.delete(name, keys)
            touched |= put.keys() | delete.keys()
            self.applied = changes[-1].change
            if self._must_stop():
                return False
        self.applied = max(self.applied, revision)
        if touched or not self.standing.clean:  # As after `erase`.
            self._rest(self.applied, touched)
        return True

    def _rest(self, applied: int, touched: Collection[str]) -> None:
        self._index.rest(applied, touched)
        self.applied = applied
        self.standing = self._index.standing()

    def _must_stop(self) -> bool:
        self._exact.catch_up()
        return self.must_clear or self._is_interrupted()


def differences(
    exact: ExactVectorStore, place: IndexPlace, held: Mapping[str, Collection[str]], ignored: Collection[str] = ()
) -> Mapping[str, IndexDifference]:
    """Compare the keys that collections hold with the truth, without those of the records `ignored`.

    Collections without a difference are left out.
    """
    wanted = {
        place.collection(scope): {
            key_of(record_id, vector)
            for record_id, vectors in exact.live_vectors(scope, set(record_ids).difference(ignored)).items()
            for vector in vectors
        }
        for scope, record_ids in exact.live_ids().items()
    }
    found: dict[str, IndexDifference] = {}
    for name in held.keys() | wanted.keys():
        there = {key for key in held.get(name, ()) if record_of(key) not in ignored}
        needed = wanted.get(name, set[str]())
        if there != needed:
            found[name] = IndexDifference(missing=len(needed - there), extra=len(there - needed))
    return found

"""Brings an open index up to date with the truth: compares its keys once, then applies changes. No threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.ports.indexes import IndexDifference
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.location import IndexPlace, key_of, record_of
from mcp_memory.stores.vectors.exact import ExactVectorStore

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
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
        old_name, old_keys = self._held.pop(record_id, ("", ()))
        self.counts[old_name] -= len(old_keys)
        keyed = {key_of(record_id, vector): vector for vector in vectors}
        self._held[record_id] = (name, tuple(keyed))
        self.counts[name] += len(keyed)
        return keyed

    def elsewhere(self, name: str, record_ids: Iterable[str]) -> dict[str, list[str]]:
        """Return the keys of records that other collections hold, by collection."""
        found: dict[str, list[str]] = {}
        for record_id in record_ids:
            old_name, old_keys = self._held.get(record_id, (name, ()))
            if old_name != name:
                found.setdefault(old_name, []).extend(old_keys)
        return found

    def step(
        self, changes: Iterable[LastChange], scopes: Collection[str]
    ) -> tuple[dict[str, dict[str, Vector]], dict[str, list[str]]]:
        """Count these changes as applied; return the vectors to put and the keys to delete, by collection.

        The scopes are those of the changes' partition that have a collection.
        """
        put: dict[str, dict[str, Vector]] = {}
        delete: dict[str, list[str]] = {}
        own = {*map(self._collection, scopes)}
        for change in changes:
            is_held = change.scope in scopes and change.vectors is not None
            if not is_held and self._held.get(change.id, ("",))[0] not in own:
                continue  # It has gone from here, and what it went to may have been applied before.
            old_name, old_keys = self._held.pop(change.id, ("", ()))
            self.counts[old_name] -= len(old_keys)
            name = ""
            new: Mapping[str, Vector] = {}
            if is_held and change.scope is not None and change.vectors is not None:
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

    It fills collections of large scopes, and of those that `wanted` returns: a small one answers exactly.
    `is_interrupted` is called between writes; they stop once it is true.
    """

    def __init__(
        self,
        exact: ExactVectorStore,
        place: IndexPlace,
        index: IndexClient,
        wanted: Callable[[], Collection[str]],
        is_interrupted: Callable[[], bool],
    ) -> None:
        self._exact = exact
        self._place = place
        self._index = index
        self._wanted = wanted
        self._is_interrupted = is_interrupted
        self._held_keys: HeldKeys | None = None
        self._counts: Mapping[str, int] = {}
        self._large: tuple[int, Collection[str]] = (0, ())
        """The revision of the memory and its large scopes then."""
        self.applied = 0
        """The memory's revision at which the index was brought up to date last."""
        self.reached: dict[str, int] = {}
        """By scope, the newest change of its partition that is in the index."""
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
        return self._exact.newest_erasure() != self.standing.erased

    def clear(self) -> None:
        """Empty the index of a server."""
        self._index.clear()
        self._held_keys = None
        self.reached = {}
        self.standing = self._index.standing()

    def erase(self, record_ids: Collection[str]) -> None:
        """Delete everything of these records from a server's index. Thread-safe."""
        self._index.erase(record_ids)

    def catch_up(self) -> bool:
        """Bring the index up to date. False where that was interrupted, or the index has to be cleared first."""
        self.standing = self._index.standing()
        revision = self._exact.revision()
        if self.must_clear:
            return False
        if revision != self._large[0] or not revision:
            self._large = (revision, self._exact.large_scopes(self._place.least_vectors))
        scopes = {*self._large[1], *self._wanted(), *self.reached}
        touched = set[str]()
        if self._held_keys is None:
            self._held_keys = HeldKeys(self._place.collection)
            self._counts = self._held_keys.counts
            self._drop_others(scopes)
        is_done = self._compare(self._held_keys, scopes - self.reached.keys(), touched)
        if not (is_done and self._apply(self._held_keys, touched)):
            return False
        if touched or not self.standing.clean or not self.applied:  # As after `erase`.
            self._index.rest(revision, touched, self.reached)
            self.standing = self._index.standing()
        self.applied = revision
        return True

    def differences(self) -> Mapping[str, IndexDifference]:
        """By scope, how the index differs from the truth; scopes without a difference are left out."""
        names = {scope: self._place.collection(scope) for scope in self.reached}
        held = {name: set(self._index.keys(name)) for name in names.values()}
        found = differences(self._exact, self._place, held, self.reached)
        return {scope: found[name] for scope, name in names.items() if name in found}

    def _drop_others(self, scopes: Collection[str]) -> None:
        """Drop what no scope of these has: it is gone, or small, or an earlier version's."""
        if foreign := set(self._index.names()) - {*map(self._place.collection, scopes)}:
            self._index.drop(foreign)

    def _compare(self, ledger: HeldKeys, scopes: Collection[str], touched: set[str]) -> bool:
        """Compare every key of scopes: what was written at another time is not trusted. False where interrupted."""
        names = set(self._index.names()) if scopes else set[str]()
        for scope in sorted(scopes):
            change, name = self._exact.places((scope,))[scope], self._place.collection(scope)
            if record_ids := self._exact.live_ids(scope):
                touched.add(name)
                if not self._fill(ledger, scope, record_ids, touched):
                    return False
            elif name in names:
                self._index.drop([name])
            self.reached[scope] = change
        return True

    def _fill(self, ledger: HeldKeys, scope: str, record_ids: Sequence[str], touched: set[str]) -> bool:
        """Add to a collection the keys it lacks, and delete surplus ones. False where interrupted."""
        name = self._place.collection(scope)
        extra = set(self._index.keys(name))
        for start in range(0, len(record_ids), BATCH):
            wanted: dict[str, Vector] = {}
            live = self._exact.live_vectors(scope, record_ids[start : start + BATCH])
            moved = ledger.elsewhere(name, live)  # Since the scope that they came from was read.
            for record_id, vectors in live.items():
                wanted |= ledger.note(name, record_id, vectors)
            if missing := {key: vector for key, vector in wanted.items() if key not in extra}:
                self._index.put(name, missing)
            for old_name in {*self._index.names()}.intersection(moved) if moved else ():
                self._index.delete(old_name, moved[old_name])
                touched.add(old_name)
            extra -= wanted.keys()
            if self._must_stop():
                return False
        if extra:
            self._index.delete(name, extra)
        return True

    def _apply(self, ledger: HeldKeys, touched: set[str]) -> bool:
        """Apply what changed in each partition, oldest first. False where interrupted."""
        places = self._exact.places(self.reached)
        for _, some in groupby(sorted(self.reached, key=partition_of), partition_of):
            scopes = [*some]
            since = min(self.reached[scope] for scope in scopes)
            while since < places[scopes[0]] and (changes := self._exact.changes(scopes[0], since, BATCH)):
                put, delete = ledger.step(changes, scopes)
                for name, vectors in put.items():  # First, so that a record that moves never disappears.
                    self._index.put(name, vectors)
                for name, keys in delete.items():
                    self._index.delete(name, keys)
                touched |= put.keys() | delete.keys()
                since = changes[-1].change
                self.reached.update(dict.fromkeys(scopes, since))
                if self._must_stop():
                    return False
            self.reached.update(dict.fromkeys(scopes, max(since, places[scopes[0]])))
        return True

    def _must_stop(self) -> bool:
        return self.must_clear or self._is_interrupted()


def differences(
    exact: ExactVectorStore,
    place: IndexPlace,
    held: Mapping[str, Collection[str]],
    scopes: Collection[str],
    ignored: Collection[str] = (),
) -> Mapping[str, IndexDifference]:
    """Compare the keys that collections hold with the truth of scopes, without those of the records `ignored`.

    Collections without a difference are left out.
    """
    found: dict[str, IndexDifference] = {}
    names = {place.collection(scope): scope for scope in scopes}
    for name in held.keys() | names.keys():
        there = {key for key in held.get(name, ()) if record_of(key) not in ignored}
        scope = names.get(name, "")
        wanted = set(exact.live_ids(scope)).difference(ignored) if scope else set[str]()
        vectors = exact.live_vectors(scope, wanted) if wanted else dict[str, Vectors]()
        needed = {key_of(record_id, vector) for record_id, some in vectors.items() for vector in some}
        if there != needed:
            found[name] = IndexDifference(missing=len(needed - there), extra=len(there - needed))
    return found

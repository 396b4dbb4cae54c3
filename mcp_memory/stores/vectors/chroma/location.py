"""The place of an index, the names of its collections, its state and failure. Knows neither Chroma nor the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class IndexFailure(StoreUnavailable):
    """The index cannot be used at present: it is broken, gone, or does not answer.

    With `keep`, its content is not in doubt: for example, another process has it, or a server could not be reached.
    """

    def __init__(self, reason: str, *, keep: bool = False) -> None:
        super().__init__(reason)
        self.keep = keep


Mode = Literal["off", "embedded", "http", "cloud", "pgvector"]
FORMAT = 2
"""Increase it with any change that makes earlier indexes useless: names, keys, parameters of the collections."""
LEAST_VECTORS = 20_000
"""From so many vectors of a scope on Chroma answers by default. Below, the exact search takes less than half its CPU
(decision 86)."""
SERVER_BATCH = 300
"""Chroma Cloud's limit for the vectors of one write, and for the results of one question."""
_DIGEST_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The state of an open index: the newest applied change, and the newest followed erasure.

    `clean`: nothing was changed since it was last at rest. `is_doubtful`: it was left in the middle of a change, and
    may answer wrongly though its keys look right.
    """

    applied: int
    erased: int
    clean: bool
    directory: str | None
    is_doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlace:
    """The place of an index: none, a directory, a server, or the database that holds the memory.

    `root` holds the directory and its lock. Where no tenant or database is named, Chroma's own defaults hold.
    """

    mode: Mode
    root: str
    embedder: str
    prefix: str = "memory-"
    """The prefix of all our collections' names; on a server it distinguishes memories."""
    url: str = ""
    tenant: str | None = None
    database: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    api_key: str = field(default="", repr=False)
    sync_threshold: int = 1000
    """The number of writes after which Chroma saves its graph to disk."""
    least_vectors: int = 0
    """The live vectors of a scope from which Chroma answers; 0 from the first record."""
    lacks_chroma: bool = False
    """True where Chroma is not installed, so that nothing but the exact search can answer."""

    @classmethod
    def named(cls, store: str, **where: Any) -> IndexPlace:
        """Return the place that the setting `semantic_store` names; `where` are the other fields.

        What is named answers from the first record, `auto` and `pgvector` by the scope's size, a number says that size.
        Where Chroma is not installed, `auto` and a number mean the exact search.
        """
        if store.startswith("pgvector"):
            return cls(mode="pgvector", least_vectors=int(store.partition(":")[2] or LEAST_VECTORS), **where)
        if "://" in store:
            return cls(mode="http", url=store, **where)
        if store == "cloud":
            return cls(mode="cloud", **where)
        if store in ("chroma", "exact"):
            return cls(mode="embedded" if store == "chroma" else "off", **where)
        if where.get("lacks_chroma"):
            return cls(mode="off", **where)
        return cls(mode="embedded", least_vectors=LEAST_VECTORS if store == "auto" else int(store), **where)

    @property
    def is_shared(self) -> bool:
        """True for a server, which other memories use too."""
        return self.mode in ("http", "cloud")

    def of_memory(self, identity: Callable[[], str]) -> IndexPlace:
        """Return the place with this memory's own prefix on a server, which may hold several; else unchanged."""
        return replace(self, prefix=f"{self.prefix}{identity()}-") if self.is_shared else self

    def collection(self, scope: str) -> str:
        """Return the collection that holds a scope's vectors by this embedder: a hash, as scopes are free text."""
        content = "\0".join((str(FORMAT), self.embedder, scope))
        return self.prefix + hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def key_of(record_id: str, vector: NDArray[np.float32]) -> str:
    """Return the key of one vector of a record; it changes with the vector, so that stale or missing ones show."""
    return f"{record_id}#{hashlib.blake2b(vector.tobytes(), digest_size=_DIGEST_BYTES).hexdigest()}"


def record_of(key: str) -> str:
    return key.rpartition("#")[0]

"""Chroma itself: collections of keys and vectors over one of its clients. Knows no record, and no directory's state.

Collections are made without an embedding function and hold no texts; without a server they hold only keys and vectors.
Every error that Chroma raises becomes an IndexFailure.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp_memory.shielded_chroma import import_chromadb
from mcp_memory.stores.vectors.chroma.location import SERVER_BATCH, IndexFailure, IndexPlace, record_of

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from chromadb.api.models.Collection import Collection

    from mcp_memory.ports.text import Vectors

LOCAL_PAGE = 5_000
_ERASE_BATCH = 100
_NEIGHBOURS, _EF_CONSTRUCTION, _EF_SEARCH = 16, 200, 500
"""Parameters of the HNSW graph (Malkov & Yashunin 2018). With over-fetching, 99 % of the 60 nearest real vectors
are named, also for questions about something else; with 200, 95 % of those (decision 86)."""


class ChromaCollections:
    """The collections whose names begin with the place's prefix. Not thread-safe."""

    def __init__(self, place: IndexPlace, directory: str) -> None:
        """Open the store. Raises IndexFailure where it cannot be opened or reached."""
        self._place = place
        self._known: dict[str, Collection] = {}
        self._page = SERVER_BATCH if place.is_shared else LOCAL_PAGE
        with _translated(place):
            self._client = _client(place, directory)

    def names(self) -> Sequence[str]:
        found: list[str] = []
        with _translated(self._place):
            while page := self._client.list_collections(limit=self._page, offset=len(found)):
                found += [collection.name for collection in page]
        return [name for name in found if name.startswith(self._place.prefix)]

    def keys(self, name: str) -> Sequence[str]:
        """Return every key of a collection; none where it does not exist."""
        if name not in self.names():
            return []
        found: list[str] = []
        with _translated(self._place):
            collection = self._existing(name)
            while page := collection.get(include=[], limit=self._page, offset=len(found))["ids"]:
                found += page
        return found

    def put(self, name: str, keys: Sequence[str], vectors: Vectors) -> None:
        """Add vectors under their keys, making the collection where it does not exist."""
        with _translated(self._place):
            collection = self._made(name)
            for start in range(0, len(keys), self._page):
                batch = slice(start, start + self._page)
                # On a server, an erased record has to be found without its keys.
                owners = [{"record": record_of(key)} for key in keys[batch]] if self._place.is_shared else None
                collection.upsert(ids=list(keys[batch]), embeddings=vectors[batch], metadatas=owners)  # pyrefly: ignore[bad-argument-type] - its lists are invariant

    def delete(self, name: str, keys: Sequence[str]) -> None:
        with _translated(self._place):
            collection = self._existing(name)
            for start in range(0, len(keys), self._page):
                collection.delete(ids=list(keys[start : start + self._page]))

    def query(self, name: str, vector: Vectors, limit: int) -> Sequence[str]:
        """Return the keys of about the nearest vectors, nearest first; none where there is no such collection."""
        from chromadb.errors import NotFoundError

        with _translated(self._place):
            try:
                found = self._existing(name).query(query_embeddings=vector, n_results=limit, include=[])
            except NotFoundError:
                self._known.pop(name, None)
                return []
            return found["ids"][0]

    def drop(self, names: Sequence[str]) -> None:
        """Delete whole collections."""
        with _translated(self._place):
            for name in names:
                self._known.pop(name, None)
                self._client.delete_collection(name)

    def erase(self, record_ids: Sequence[str]) -> None:
        """Delete everything that belongs to these records, from every collection."""
        names = self.names()
        with _translated(self._place):
            for name in names:
                for start in range(0, len(record_ids), _ERASE_BATCH):
                    batch = list(record_ids[start : start + _ERASE_BATCH])
                    self._existing(name).delete(where={"record": {"$in": batch}})  # pyrefly: ignore[bad-assignment] - its type lacks $in

    def settle(self, names: Sequence[str]) -> None:
        """Wait until writes are in the graph and on disk: Chroma does both in the background."""
        with _translated(self._place):
            for name in names:
                self._existing(name).get(limit=1, include=["embeddings"])

    def close(self) -> None:
        with _translated(self._place):
            self._client.close()

    def _existing(self, name: str) -> Collection:
        if name not in self._known:
            self._known[name] = self._client.get_collection(name, embedding_function=None)
        return self._known[name]

    def _made(self, name: str) -> Collection:
        if name not in self._known:
            self._known[name] = self._client.get_or_create_collection(
                name, configuration=_configuration(self._place), embedding_function=None
            )
        return self._known[name]


def _client(place: IndexPlace, directory: str) -> Client:
    chromadb = import_chromadb()
    settings: Any = chromadb.Settings()
    if place.mode == "embedded":
        return chromadb.PersistentClient(directory, settings=settings)
    named = {"tenant": place.tenant, "database": place.database}
    scope = {name: value for name, value in named.items() if value is not None}
    if place.mode == "cloud":
        return chromadb.CloudClient(**scope, api_key=place.api_key, settings=settings)
    url = urlsplit(place.url)
    is_secure = url.scheme == "https"
    port = url.port or (443 if is_secure else 8000)
    headers = dict(place.headers)
    return chromadb.HttpClient(url.hostname or "", port, is_secure, headers, settings, **scope)


def _configuration(place: IndexPlace) -> CreateCollectionConfiguration:
    if place.mode == "cloud":
        return {"spann": {"space": "cosine"}}
    return {
        "hnsw": {
            "space": "cosine",
            "max_neighbors": _NEIGHBOURS,
            "ef_construction": _EF_CONSTRUCTION,
            "ef_search": _EF_SEARCH,
            "sync_threshold": place.sync_threshold,
        }
    }


@contextmanager
def _translated(place: IndexPlace) -> Generator[None]:
    """Turn whatever Chroma raises into IndexFailure.

    Chroma raises its own errors, its HTTP client's, the system's, plain ValueErrors, and a BaseException when its Rust
    part panics: there is no shorter list than everything.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, IndexFailure):
        raise
    except BaseException as error:
        if place.is_shared:  # What is raised over a network may repeat the headers, and the key among them.
            raise IndexFailure(f"Chroma failed: {_kind(error)}", keep=True) from None
        raise IndexFailure(f"Chroma failed: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """Return the error's type and first line, short."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def _kind(error: BaseException) -> str:
    """Return the error's type, and the HTTP status of it or of a cause."""
    behind: BaseException | None = error
    while behind is not None:
        status = getattr(getattr(behind, "response", None), "status_code", None)
        if isinstance(status, int):
            return f"{type(error).__name__} (HTTP {status})"
        behind = behind.__cause__ or behind.__context__
    return type(error).__name__

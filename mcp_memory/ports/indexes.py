"""The index behind vector search: maintains it and checks it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """State of the index behind vector search, as this process sees it.

    `applied` is the newest change it certainly holds, `pending` the number of records changed since, `answered` the
    number of searches it took part in. `reason` explains `failed`; exact search answers then. `says` tells people which
    store answers and how far it is, by counts of the scopes asked about alone.
    """

    mode: Literal["off", "embedded", "http", "cloud", "pgvector"]
    state: Literal["off", "not needed", "building", "ready", "failed"]
    applied: int = 0
    pending: int = 0
    records: int = 0
    answered: int = 0
    directory: str | None = None
    bytes: int = 0
    reason: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDifference:
    """Counts of vectors of a scope: those the index lacks, and those it should not hold."""

    missing: int
    extra: int


class VectorIndex(Protocol):
    """The disposable index behind a `VectorStore`. It makes searches faster and never changes their answers."""

    def start(self) -> None:
        """Begin to build and maintain the index in the background. Call it once, and not before the index is needed."""
        ...

    def settle(self, seconds: float) -> bool:
        """Wait until the index holds everything committed before the call.

        Return False on timeout, or where none is kept.
        """
        ...

    def state(self, scopes: Sequence[str] = ()) -> IndexState:
        """Return the state; what it `says` is about these scopes, and "" where there are none."""
        ...

    def check(self) -> Mapping[str, IndexDifference]:
        """Return each scope's difference from the truth now; {} where there is none, or the index is not open."""
        ...

    def rebuild(self) -> None:
        """Empty it and refill it from the truth, in the background. Nothing is embedded again."""
        ...

    def erase(self, record_ids: Collection[str]) -> None:
        """Remove every trace of erased records from the files of the index, whichever process has it.

        A server's copies are deleted as soon as the server is reachable.
        """
        ...

    def close(self) -> None:
        """Stop maintaining the index. A process that ends without this call loses nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check's result for one part of the memory.

    `says` holds a few words, with ids and counts alone. `remedy` is your next move, empty where you need none.
    """

    part: str
    state: Literal["ok", "wrong", "repaired"]
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDirectory:
    """The index directory as it describes itself. Without `clean` it is being written, or was left half-written."""

    clean: bool
    applied: int
    bytes: int


class IndexExaminer(Protocol):
    """Examines the index of this memory, while no process uses it."""

    def directory(self) -> IndexDirectory | None:
        """Return the index directory, examined from outside; None where there is none."""
        ...

    def examine(self, *, repair: bool) -> Iterator[Finding]:
        """Compare the index with the truth; with `repair` drop it where it is wrong. Nothing else changes.

        The next server rebuilds what is dropped, without embedding. Raises StoreUnavailable where the comparison is
        impossible, EmbedderMismatch where the truth's vectors are another embedder's.
        """
        ...

"""The index behind vector search: keeping it, and examining what is kept of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """How the index behind vector search stands, as this process sees it.

    `applied` is the newest change it holds for certain, `pending` how many records changed since, `answered` how many
    searches it has had a part in. `reason` says why it `failed` or is `not needed`; the exact search answers then.
    """

    mode: Literal["off", "embedded", "http", "cloud"]
    state: Literal["off", "not needed", "building", "ready", "failed"]
    applied: int = 0
    pending: int = 0
    records: int = 0
    answered: int = 0
    directory: str | None = None
    bytes: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDifference:
    """How many vectors of a scope the index lacks, and how many it holds that it should not."""

    missing: int
    extra: int


class VectorIndex(Protocol):
    """The disposable index behind a `VectorStore`, which it makes faster and whose answers it never changes."""

    def start(self) -> None:
        """Begin to build it and to keep it current, in the background; once, and not before it is needed."""
        ...

    def settle(self, seconds: float) -> bool:
        """Wait until it holds everything committed before the call. False where that took longer, or it is not kept."""
        ...

    def state(self) -> IndexState: ...

    def check(self) -> Mapping[str, IndexDifference]:
        """By scope, how it differs from the truth at present; {} where it does not, or where it is not open."""
        ...

    def rebuild(self) -> None:
        """Empty it and fill it from the truth, in the background. Nothing is embedded anew."""
        ...

    def erase(self, record_ids: Collection[str]) -> None:
        """Leave nothing of records that the truth has erased in any file of any index, of whichever process.

        What a server holds of them is deleted as soon as it can be reached.
        """
        ...

    def close(self) -> None:
        """Stop keeping it. Also when the process ends without this, nothing is lost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check-up says of one part of the memory.

    `says` holds a few words, of ids and counts alone; `remedy` is the reader's next move, empty where none is needed.
    """

    part: str
    state: Literal["ok", "wrong", "mended"]
    says: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDirectory:
    """An index directory by its own account. One that is not `clean` is being written, or was left half-written."""

    name: str
    clean: bool
    applied: int
    bytes: int


class IndexExaminer(Protocol):
    """Looks at what all processes of this memory keep of indexes, where none of them is using it at present."""

    def directories(self) -> Sequence[IndexDirectory]:
        """Every index directory there is, looked at from outside."""
        ...

    def examine(self, *, mend: bool) -> Iterator[Finding]:
        """Compare every index with the truth; with `mend` drop what is wrong. Nothing else changes.

        What is dropped is made anew by the next server, without embedding. Raises StoreUnavailable where that cannot
        be told, EmbedderMismatch where the truth's vectors are another embedder's.
        """
        ...

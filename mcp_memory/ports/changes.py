"""The changes of the truth, as those read them who follow it: the indexes derived from it, and reviews."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from mcp_memory.ports.text import Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChange:
    """One record as it is now; only id and scope where it `is_erased`.

    `vectors` are None where it has none by the requested embedder. `noted_in` is the one session (`session_key`) that
    sees it.
    """

    change: int
    id: str
    scope: str
    is_live: bool
    is_erased: bool = False
    kind: str | None = None
    task_id: str | None = None
    branch_id: str | None = None
    superseded_by: str | None = None
    noted_in: str | None = None
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLink:
    """A task, the scope that sees it, and its parent task."""

    id: str
    scope: str
    parent_id: str | None


IndexPart = Literal["scopes", "vectors", "terms", "columns", "places", "mentions", "aliases", "relations", "erasures"]
"""The parts of the truth that indexes are made of, each with its own statement (stores/records/sql/indexes.sql)."""
Columns = Mapping[str, Sequence[Any]]
"""Some rows as columns: the values of each name, row by row."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a history of changes: the newest change, and the mark of the write that made it.

    Where a standby took over without that write, others may have its number by now; the mark is "" where no other
    history can take this one's place.
    """

    revision: int
    last_write: str = ""


def newest_of(places: Mapping[str, Place]) -> int:
    """Return the highest of these numbers: a reader at these places saw no later change."""
    return max((place.revision for place in places.values()), default=0)


class Snapshot(Protocol):
    """The truth as of one moment, for one request and the threads that work for it."""

    @property
    def revision(self) -> int: ...

    @property
    def last_write(self) -> str:
        """The mark of the write that made the revision; "" where no other history can take this one's place."""
        ...

    def reading(self) -> AbstractContextManager[int]:
        """Make every read in this context, and in copies of it, see the snapshot.

        Raises StoreUnavailable at the end where the files were not sound: discard what you read.
        """
        ...

    def close(self, *, at_once: bool = True) -> None:
        """Release the snapshot, once nothing reads it any more.

        Unless `at_once`, it may keep its connection for what this thread notes `together`: both are one journey then.
        """
        ...


class Snapshots(Protocol):
    """Gives each request one revision of the truth and of every index derived from it."""

    def snapshot(self, scopes: Collection[str] = ()) -> AbstractContextManager[int]:
        """Read truth and indexes as of the newest revision in this context, and in copies of it; yields the revision.

        Name the scopes that the indexes are to be asked for: while others read one of these as it was before, this
        waits. One that is not named may be loaded for this request alone. Inside another snapshot it is that one. Write
        nothing inside. Raises StoreUnavailable, at the end too.
        """
        ...


class ChangeFeed(Protocol):
    """Reads the truth as of one moment, and the changes since another."""

    def pin(self, partitions: Collection[str] = ()) -> Snapshot:
        """Return the truth as it is now, readable until you close it. Raises StoreUnavailable.

        Name the partitions whose revisions you ask for next.
        """
        ...

    def snapshot(self) -> AbstractContextManager[int]:
        """Read the truth as of one moment in this context, and in copies of it; yields its revision.

        Inside another snapshot it is that one. Write nothing inside. Raises StoreUnavailable, also at the end where the
        files were not sound: discard what you read.
        """
        ...

    def revision(self) -> int:
        """Return the newest change number. Counters and other telemetry do not advance it.

        With several partitions a lower number may be committed later: to follow changes, ask `revisions`.
        """
        ...

    def progress(self) -> int:
        """Return a number that is another one after each change, in whatever partition."""
        ...

    def revisions(self, partitions: Collection[str]) -> Mapping[str, Place]:
        """Return the newest change of each partition, see `partition_of`; one without changes is absent.

        Within a partition numbers grow in the order of commits. Compare no numbers of two partitions.
        """
        ...

    def index_rows(self, part: IndexPart, since: int, embedder: str = "", partition: str = "") -> Iterator[Columns]:
        """Yield what changed after `since`, in order of change, or all for 0, in any order; some thousand rows at once.

        "" means all partitions. A changed record without vectors by the embedder, or one without words, has None there;
        words are as `domain.text.words.packed_terms` has them. Erased records are in "erasures" alone, and there, for a
        partition, is what went to another one. "scopes" are counts of all records, whatever changed. What
        belongs to records or counts them, as "vectors" and "mentions", may be of others too, where a partition is most
        of the memory and all of it is asked for.
        """
        ...

    def settled(self) -> int:
        """Return a change number after which alone further changes come, in any partition. Not in a snapshot."""
        ...

    def has_write(self, mark: str) -> bool:
        """Return False where the write of that mark was lost, as by a standby that took over without it.

        What was read since may be gone, and its change numbers may have been given again.
        """
        ...

    def changes_ahead(self, since: Place, partition: str, *, rows: bool) -> None:
        """Make one journey of what a follower at that place asks next, where the truth is far, within a snapshot.

        That is whether its write is there, how many records changed, and with `rows`, which are then all in memory
        at once, what `index_rows` and `task_links` yield of them.
        """
        ...

    def count_changed(self, since: int, partition: str = "") -> int:
        """Count the records that changed after `since`; "" means all partitions."""
        ...

    def changes(self, since: int, embedder: str = "") -> Iterator[RecordChange]:
        """Yield every record that changed after `since`, in order of change, with its vectors by the embedder."""
        ...

    def task_links(self, since: int, partition: str = "") -> Sequence[TaskLink]:
        """Return the tasks that changed after `since`, in the order they were made; "" means of all partitions."""
        ...

    def partitions(self, least: int) -> Sequence[str]:
        """Return the partitions that hold so many records at least."""
        ...

    def newest_erasure(self) -> int:
        """Return the change number of the newest erasure; 0 where nothing was ever erased."""
        ...

    def embedder_id(self) -> str | None:
        """Return the id of the embedder whose vectors the store holds; None before the first vector."""
        ...

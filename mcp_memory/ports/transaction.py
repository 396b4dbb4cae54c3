"""Writing the truth: what may be changed in one atomic write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from mcp_memory.domain.model.records import Entity, Instant, Record, Relation, Visibility
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import PassName, Replacement
from mcp_memory.domain.model.tasks import Task
from mcp_memory.ports.session_logs import SaidEntry, Trigger, Undone
from mcp_memory.ports.text import Vectors


class TaskReader(Protocol):
    """Reads tasks."""

    def tasks(self, namespace: str) -> Sequence[Task]:
        """The namespace's tasks in the order they were made."""
        ...

    def open_branches(self) -> frozenset[str]:
        """Branches of any namespace that hide their records from the trunk: they, or one they lie in, are open."""
        ...

    def places(self, caller: Caller) -> Mapping[str, str]:
        """Where the caller's agent stands: session name ('' for the agent's own) to task id."""
        ...


class DuplicateFinder(Protocol):
    """Finds the records that say a thing already, said it once, or have the words of others."""

    def find_text(self, scope: str, digest: str) -> Record | None:
        """The record of this scope, outside the log, that has exactly this text now."""
        ...

    def find_corrected(self, scope: str, digest: str) -> Record | None:
        """The record, outside the log, that said this until it was replaced, proven wrong or changed.

        The digest is that of the normalised text. None where a record that holds says the same.
        """
        ...

    def find_alike(self, scope: str, digest: str) -> Sequence[str]:
        """Ids of live records equal after normalising case, space and punctuation."""
        ...

    def find_learnt(self, said: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Collection[str | None]]:
        """As `RecordStore.find_learnt`."""
        ...

    def replaced_by(self, record_id: str) -> Sequence[Record]:
        """The records that this one superseded directly."""
        ...

    def reach(self, record_ids: Collection[str]) -> Collection[tuple[Visibility, str | None]]:
        """How far these are seen: each visibility that one of them has, with its branch, None for the trunk."""
        ...

    def extracted_from(self, record_ids: Sequence[str]) -> Sequence[str]:
        """Ids of the records whose words are those of these: what has to be erased with them.

        They are what maintenance extracted from an episode and still has the words it was extracted with, and summaries
        of what any of these says, also of compactions undone since.
        """
        ...


class RecordWriter(Protocol):
    """Writes records and tasks."""

    def next_id(self, prefix: str) -> str:
        """A new id: short, never used again, and sorting after every earlier one of that prefix."""
        ...

    def get(self, record_id: str) -> Record | None: ...

    def insert(
        self,
        record: Record,
        vectors: Vectors | None,
        entities: Iterable[Entity],
        relations: Iterable[Relation],
        *,
        in_session: bool = True,
    ) -> None:
        """Add a record. `vectors` is None where the embedder could not be asked; `add_vectors` brings them later.

        Not `in_session`, its session is named for where the record comes from, and was not at work.
        """
        ...

    def update(self, record: Record, vectors: Vectors | None = None, found: Iterable[Entity] = ()) -> None:
        """Replace a record's fields. With `vectors` its text changed: the old version is kept and indexes follow.

        `found` are the entities found in the new text, in the place of those found in the old one.
        """
        ...

    def index_anew(self, record: Record) -> None:
        """Note that its details say something else to search: words follow at once, `add_vectors` brings the rest."""
        ...

    def confirm(self, record: Record, session_id: str) -> bool:
        """Note that this session met the record again. False where the session had already been counted."""
        ...

    def erase(self, record_ids: Sequence[str]) -> None:
        """Remove records and all that was derived from them, leaving tombstones without text.

        What was extracted from one and corrected since stays, without the words that it was extracted with. Of the
        replacements in session logs those that say anything of one go; what they had replaced stands again. Summaries
        that are records go where `extracted_from` of these is erased with them.
        """
        ...

    def add_task(self, task: Task) -> None: ...

    def update_task(self, task: Task) -> None: ...

    def set_place(self, caller: Caller, task_id: str | None) -> None:
        """Move the caller to a task, or out of the tree."""
        ...


class LogWriter(Protocol):
    """Writes the logs of sessions."""

    def said_since(self, entry_id: str | None, caller: Caller) -> Sequence[SaidEntry]:
        """The originals of the caller's log that were stored after that one, in their order; after None all of them.

        Where that one is not there any more, nothing: what came after it is not known.
        """
        ...

    def begin_compaction(self, caller: Caller, trigger: Trigger, at: Instant, before: int) -> int:
        """Open the next compaction of the caller's session, whose log has so many tokens; its number there, from 1.

        What replaces what may be committed by this and by later transactions, under this number.
        """
        ...

    def replace_entries(
        self,
        replacements: Sequence[Replacement],
        compaction: int,
        pass_name: PassName,
        caller: Caller,
        at: Instant,
        record_ids: Mapping[str, str],
    ) -> None:
        """Put each replacement in the place of the live entries that it replaces, in the caller's log.

        `record_ids` names, by the ids of replacements, records stored already that say the same.

        Raises:
            Conflict: an entry is no longer live there, or the compaction is undone or no longer the latest.
        """
        ...

    def undo_compaction(self, caller: Caller, at: Instant) -> Undone:
        """Take the latest compaction of the caller's session back that is not undone: what it replaced stands again.

        The records that said the same stay, and are named. What was said since stays where it is.

        Raises:
            Conflict: there is none.
        """
        ...


class Transaction(RecordWriter, DuplicateFinder, LogWriter, TaskReader, Protocol):
    """One atomic write: each change takes the next number of the sequence, and nothing is visible before the exit."""

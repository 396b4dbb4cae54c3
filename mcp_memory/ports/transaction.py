"""Writing the truth: the changes that one atomic write can make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, Protocol

from mcp_memory.domain.memory.erased_text import ErasedMarks, Words
from mcp_memory.domain.model.contexts import Exclusion
from mcp_memory.domain.model.records import Entity, Instant, Record, Relation, Visibility
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import PassName, Replacement, Trigger
from mcp_memory.domain.model.tasks import Task, TaskChange
from mcp_memory.domain.model.versions import Version
from mcp_memory.ports.reviews import ReviewWriter
from mcp_memory.ports.session_logs import MessageLine, SaidEntry, Undone
from mcp_memory.ports.text import Vectors

TaskExtent = Literal["above", "open", "trees"]


class TaskReader(Protocol):
    """Reads tasks: of a tree of many, those that a call touches."""

    def tasks_near(self, namespace: str, task_ids: Collection[str], extent: TaskExtent = "above") -> Sequence[Task]:
        """Return these tasks and all above them, in the order they were made; unknown ids are left out.

        With `open` every task of the namespace that has not ended, and all above those, are among them; with `trees`
        everything below the same roots.
        """
        ...

    def tree_at(self, caller: Caller) -> Sequence[Task]:
        """Return the trees of the task that the caller's place names, see `Caller.place`; empty where it names none."""
        ...

    def open_branches(self) -> frozenset[str]:
        """Return branches of any namespace that hide their records from the trunk: they or a parent branch are open."""
        ...

    def places(self, caller: Caller) -> Mapping[str, str]:
        """Map each place of the caller's agent, by its key, to its task's id; '' is the agent's own."""
        ...

    def last_moves(self, caller: Caller) -> Mapping[str, Instant]:
        """Map each place of the caller's agent, by its key, to the time of its last move."""
        ...

    def news(self, caller: Caller) -> Sequence[TaskChange]:
        """Return others' changes of the agent's tasks since the last move at the caller's place, oldest first.

        Changes from another place of the same agent are among them. A place that never moved has the news that no place
        of its agent was told.
        """
        ...


class VersionReader(Protocol):
    """Reads what changes of records replaced."""

    def versions(self, record_ids: Collection[str]) -> Mapping[str, Sequence[Version]]:
        """Return the changes of each of these records, oldest first; records that never changed are left out.

        It checks no scope: ask for records that the caller reads.
        """
        ...

    def written(self, write: int) -> Mapping[str, Sequence[Version]]:
        """Return the changes that one write made, by record, oldest first; none for an unknown one. No scope."""
        ...


class ExclusionReader(Protocol):
    """Reads which records contexts give no more."""

    def excluded(self, namespace: str, task_ids: Collection[str], agent: str) -> frozenset[str]:
        """Return the ids of the records that contexts of one of these tasks, or of the agent, do not give."""
        ...

    def exclusions(self, record_id: str, namespace: str) -> Sequence[Exclusion]:
        """Return the exclusions of a record in a namespace, the first one first. It checks no scope."""
        ...


class ExclusionWriter(Protocol):
    """Writes which records contexts give no more."""

    def exclude(self, exclusion: Exclusion) -> bool:
        """Note an exclusion, which has this write's number; return False where there is one."""
        ...

    def include(self, exclusion: Exclusion) -> bool:
        """Take an exclusion back; return False where there is none."""
        ...

    def excluded_in(self, write: int) -> Sequence[str]:
        """Return the ids of the records of which the write made exclusions that stand, or took some back."""
        ...


class DuplicateFinder(Protocol):
    """Finds records that say the same now or said it before, and records derived from others' words."""

    def find_text(self, scope: str, digest: str) -> Record | None:
        """Return the record of this scope, outside the log, that has exactly this text now."""
        ...

    def find_noted(self, scope: str, digest: str) -> Record | None:
        """Return the newest noted record of this scope by the digest of its normalised text."""
        ...

    def find_corrected(self, scope: str, digest: str) -> Record | None:
        """Return the record, outside the log, that said this until it was replaced, proven wrong or changed.

        The digest is of the normalised text. Returns None where a valid record says the same.
        """
        ...

    def find_alike(self, scope: str, digest: str) -> Sequence[str]:
        """Return ids of live records equal after normalising case, space and punctuation."""
        ...

    def branches_that_say(self, scope: str, digest: str) -> Collection[str | None]:
        """Return the branches with a record outside log and episodes of this normalised digest; None is the trunk.

        Records of any status but noted count.
        """
        ...

    def replaced_by(self, record_id: str) -> Sequence[Record]:
        """Return the records that this one superseded directly."""
        ...

    def reach(self, record_ids: Collection[str]) -> Collection[tuple[Visibility, str | None]]:
        """Return each (visibility, branch) pair that one of these records has; the branch is None for the trunk."""
        ...

    def extracted_from(self, record_ids: Sequence[str]) -> Sequence[str]:
        """Return ids of the records derived from these records' words: erase them together.

        They are records that were extracted and that still have the extracted words, and
        summaries of any of these records, including those of undone compactions.
        """
        ...


class RecordWriter(Protocol):
    """Writes records."""

    @property
    def number(self) -> int:
        """The number of this write, which its versions carry."""
        ...

    @property
    def undoable(self) -> int:
        """The same once it has replaced something; until then 0: the number may be the next write's."""
        ...

    def let_undo_retire(self) -> None:
        """Let an undo of this write retire the records that it made, as if they had been retired until now."""
        ...

    def mark_undone(self, write: int) -> None:
        """Note that this write took that one back: the two are left out of an export. Its exclusions are no more."""
        ...

    def next_id(self, prefix: str) -> str:
        """Return a new id: short, never reused, and sorting after every earlier one with that prefix."""
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
        """Add a record. `vectors` is None where the embedder was unreachable; `add_vectors` supplies them later.

        With `in_session` false the session only names the record's origin, and does not count as active.
        """
        ...

    def update(
        self, record: Record, vectors: Vectors | None = None, found: Iterable[Entity] = (), *, reason: str = ""
    ) -> Record:
        """Replace a record's fields, and keep the old values of all but counters and access times as a version.

        With `vectors` its text changed, and indexes follow. `found` are the entities found in the new text; they
        replace those found in the old one. `reason` replaces that of the whole write. A line that gets another
        scope leaves the logs of other agents. Return the record as stored, with its author and the number of its
        version.
        """
        ...

    def index_anew(self, record: Record) -> None:
        """Index a record again after its details changed.

        Words follow at once, `add_vectors` supplies vectors later.
        """
        ...

    def mention(self, record: Record, entities: Iterable[Entity], relations: Iterable[Relation]) -> bool:
        """Add entities and relations that a caller gave to a record; those found in its text are left out.

        Return True where the record did not mention one of the entities before.
        """
        ...

    def confirm(self, record: Record, session_id: str) -> bool:
        """Note that this session met the record again. Return False where the session was counted already."""
        ...

    def erase(self, record_ids: Sequence[str]) -> None:
        """Remove records and everything derived from them, leaving tombstones without text.

        A corrected extraction stays, without the words it was extracted with. Replacements in session logs that repeat
        any of these records are removed, and the entries they replaced are live again. A summary record is removed
        where `extracted_from` of these is erased with them.
        """
        ...


class GroundWriter(Protocol):
    """Writes what records stand on."""

    def depend(self, record_id: str, ground_ids: Iterable[str], *, found: bool = False, changed: bool = False) -> None:
        """Note that a record stands on others, or on tasks; `found` by rule where nobody said so.

        One that is superseded, retired or wrong already counts as changed at once, and so do all if they `changed`
        what the record is about; an unknown one is left out.
        """
        ...

    def grounds(self, record_id: str) -> Mapping[str, bool]:
        """Map the ids of what a record stands on to True where a rule found it."""
        ...

    def drop_ground(self, record_id: str, ground_id: str) -> None: ...

    def vouch(self, record_id: str) -> None:
        """Note that somebody stated the record again: earlier changes of what it stands on raise no doubt any more.

        It stands on the successors of its superseded grounds from now on.
        """
        ...


class TaskWriter(Protocol):
    """Writes tasks, and who stands in them."""

    def add_task(self, task: Task) -> None: ...

    def update_task(self, task: Task) -> None: ...

    def set_place(self, caller: Caller, task_id: str | None) -> None:
        """Move the caller to a task, or out of the tree."""
        ...

    def concerned(self, task_id: str, caller: Caller) -> frozenset[str]:
        """Return the agents that stand in the task, and those that an earlier change of it concerned.

        The caller's own is one of them where another place of it stands there; "" where another agent changed it once.
        """
        ...

    def add_task_change(self, change: TaskChange) -> None: ...

    def note_move(self, caller: Caller) -> None:
        """Note a move at the caller's place, whose answer tells the `news` so far."""
        ...


class LogWriter(Protocol):
    """Writes the logs of sessions."""

    def said_since(self, entry_id: str | None, caller: Caller) -> Sequence[SaidEntry]:
        """Return the originals stored in the caller's log after that entry, in order; after None all of them.

        Returns nothing where that entry no longer exists: its successors are unknown.
        """
        ...

    def told_before(self, line: MessageLine, caller: Caller) -> str | None:
        """Return the id of the original that is this line, in whichever session it was told first.

        It may have another text since a correction, and the caller's own agent may have hidden it. None where the
        caller's log has a line that was stored later: ids, by which a log is ordered, sort by time.
        """
        ...

    def share_line(self, record_id: str, caller: Caller) -> None:
        """Make an original that another session stored a line of the caller's log as well, in its old place."""
        ...

    def lines_named(self, message_ids: Collection[str], caller: Caller) -> Sequence[str]:
        """Return the originals of the caller's log that belong to messages with these ids of the client, in order."""
        ...

    def take_back(self, record_ids: Sequence[str], caller: Caller) -> Sequence[str]:
        """Mark originals of the caller's log that its user took back: the log as it stands has them no more.

        Return those that were marked now and that no other session's log has either.
        """
        ...

    def stand_again(self, record_ids: Sequence[str], caller: Caller) -> Sequence[str]:
        """Remove the marks of `take_back`, where the user went back to these originals; return those that had one."""
        ...

    def begin_compaction(self, caller: Caller, trigger: Trigger, at: Instant, before: int) -> int:
        """Open the next compaction of the caller's session, whose log has `before` tokens; return its number, from 1.

        This and later transactions may commit replacements under that number.
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
        """Replace live entries of the caller's log with these replacements.

        `record_ids` maps ids of replacements to stored records that say the same.

        Raises:
            Conflict: an entry is no longer live there, or the compaction is undone or no longer the latest.
        """
        ...

    def undo_compaction(self, caller: Caller, at: Instant, number: int | None = None) -> Undone:
        """Undo the latest compaction of the caller's session that is not undone yet.

        The entries it replaced are live again. The records that say the same stay, and are named. Entries stored since
        keep their place.

        Raises:
            Conflict: there is none, or it is not the one of the `number` given.
        """
        ...


class ErasureWriter(Protocol):
    """Erases traces, and leaves what erased text is recognised by."""

    def erased(self, scopes: Iterable[str]) -> ErasedMarks:
        """Return the marks of what was erased in these scopes; false where nothing was."""
        ...

    def note_erased(self, records: Iterable[Record], common: Collection[Words], at: Instant) -> None:
        """Keep the marks of records that are erased, each in its scope, but none of the `common` pieces."""
        ...

    def allow_again(self, digests: Iterable[tuple[int, bytes]], scopes: Iterable[str]) -> None:
        """Drop marks by their widths and digests: their text may be stored again."""
        ...

    def accounts_of(self, record_ids: Collection[str], tags: Collection[str], scopes: Iterable[str]) -> Sequence[str]:
        """Return ids of events and summaries with one of the tags, of sessions that have one of these log's lines.

        They are in these scopes.

        They were stored after it, in the sessions that have it by resuming or forking, too.
        """
        ...

    def quoting(self, pieces: Collection[Words], scopes: Iterable[str]) -> Sequence[Record]:
        """Return the records of these scopes that quote one of the pieces, in the order they were stored."""
        ...

    def quoting_tasks(self, pieces: Collection[Words], namespace: str) -> Sequence[Task]:
        """Return the tasks that quote one of the pieces."""
        ...

    def strip_quotations(self, pieces: Collection[Words], scopes: Iterable[str], namespace: str) -> Sequence[str]:
        """Take quotations out of the records' earlier versions, and drop replacements in logs that have one.

        The entries that such a replacement stood for are live again. Entities, their properties and relations that
        have one go as well; return the ids of the records that stated them.
        """
        ...

    def rewrite_task(self, task: Task) -> None:
        """Replace a task whose words quoted what is erased."""
        ...

    def rewrite(self, record: Record, found: Iterable[Entity]) -> None:
        """Replace a record's fields without a version, strip the versions that it has, and index it again.

        Nobody finds its former words any more. `found` are the entities found in the new ones.
        """
        ...


class Transaction(
    RecordWriter,
    GroundWriter,
    TaskWriter,
    DuplicateFinder,
    LogWriter,
    ErasureWriter,
    ReviewWriter,
    ExclusionWriter,
    TaskReader,
    VersionReader,
    Protocol,
):
    """One atomic write: each change takes the next number of the sequence, and none is visible before the exit."""

    def ahead(self, *reads: Callable[[], object], afresh: bool = False) -> None:
        """Make one journey of what these read, where the truth is far: it is known until the write changes anything.

        No read may depend on what another one finds; calling them has no effect but that. Through an `insert` it stays
        known: before you insert what one of the reads would find, or something that it found, read it `afresh`.
        """
        ...

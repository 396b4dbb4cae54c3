"""Moving: takes memory out, and adds another one's knowledge to this one, by content. It knows no format."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from mcp_memory.domain.memory.erased_text import ErasedMarks, strings_in, texts_of
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import (
    IMPORTED_AT,
    IMPORTED_BY,
    LOG_KINDS,
    Details,
    Entity,
    Instant,
    Record,
    Relation,
)
from mcp_memory.domain.model.scopes import scope_key
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.text.times import iso_exact
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import Transaction
from mcp_memory.ports.transfer import Origin, Piece, WholeGround, WholeRecord

_SOURCE = "source"
"""The detail that names the record from which this one was extracted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Counts of another memory's records and tasks by outcome.

    `known` were stored or corrected here already. Not taken are `logged` records, which belong to session logs, those
    `hidden` in open branches, and all `tasks`: this memory has its own tree.
    """

    stored: int
    known: int
    logged: int
    hidden: int
    tasks: int
    erased: int = 0


class Merger:
    """Adds the records of another memory to this one, under new ids; existing records stay unchanged.

    A record keeps its statements, counters, status and successor. It loses its earlier texts, the sessions that
    confirmed it and its task. Its details say when it was imported, and by which agent: its dates are those of the
    other memory. A second run stores nothing.
    """

    def __init__(self, records: RecordStore, clock: Clock, agent: str, present: Callable[[str], str] = str) -> None:
        """`present` returns the name that a namespace of the other memory has in this one."""
        self._records = records
        self._clock = clock
        self._agent = agent
        self._present = present

    def __call__(self, pieces: Iterable[Piece]) -> Merged:
        """Add all of it in one atomic write, or nothing where the pieces raise.

        Raises:
            InvalidRequest: a record is there twice.
            StoreUnavailable: nothing was changed.
        """
        with self._records.write() as transaction:
            now = self._clock()
            told = {IMPORTED_AT: iso_exact(now), IMPORTED_BY: self._agent}
            merge = _Merge(transaction, now, told, cache(self._present))
            for piece in pieces:
                if isinstance(piece, Task):
                    merge.note(piece)
                elif isinstance(piece, WholeRecord):
                    merge.bring(piece)
            merge.link()
        return merge.outcome()


class Moving:
    """Takes memory out of a store, and takes in what another one held. Thread-safe."""

    def __init__(self, records: RecordStore, clock: Clock, present: Callable[[str], str]) -> None:
        """`present` is that of `Merger`."""
        self._records = records
        self._clock = clock
        self._present = present

    def leave(self, namespace: str | None = None) -> Iterator[Origin | Piece]:
        """Yield the whole memory, or what belongs to one namespace, as `Transfer.leave` does."""
        return self._records.transfer().leave(namespace)

    def select(self, record_ids: Sequence[str]) -> Iterator[Origin | Piece]:
        """Yield these records, as `Transfer.select` does: you check whether the caller may see them."""
        return self._records.transfer().select(record_ids)

    def enter(self, pieces: Iterable[Piece], agent: Callable[[], str]) -> Merged | None:
        """Store all of the pieces as they are where nothing was ever stored, else merge them; return what came of that.

        `agent` names who imports; it is asked where they are merged. Raises as `Transfer.enter` and `Merger` do.
        """
        if not self._records.transfer().is_empty():
            return Merger(self._records, self._clock, agent(), self._present)(pieces)
        self._records.transfer().enter(pieces)
        return None


class _Merge:
    """One merge in progress. It keeps two ids of every record, and whole only those that name another."""

    def __init__(self, transaction: Transaction, now: Instant, told: Details, present: Callable[[str], str]) -> None:
        """With `told` say of each record how it came here."""
        self._transaction = transaction
        self._present = present
        self._now = now
        self._told = told
        self._ids_here: dict[str, str] = {}
        self._naming: list[tuple[Record, str, str]] = []
        """Records stored here that named others there: their successors, or their sources of extraction."""
        self._standing: list[tuple[str, WholeGround]] = []
        """Ids of records stored here, and what each stood on there."""
        self._hiding: set[str] = set()
        self._stored = self._logged = self._hidden = self._tasks = self._erased = 0
        self._marks: dict[str, ErasedMarks] = {}

    def note(self, task: Task) -> None:
        """Note an open branch. Tasks come before their subtasks, which an open branch hides too."""
        self._tasks += 1
        if (task.branch and not task.is_finished) or task.parent_id in self._hiding:
            self._hiding.add(task.id)

    def bring(self, whole: WholeRecord) -> None:
        whole = replace(whole, record=self._placed(whole.record))
        record = whole.record
        if record.id in self._ids_here:
            raise InvalidRequest("It is there twice.")
        if record.kind in LOG_KINDS:
            self._logged += 1
        elif record.branch_id in self._hiding:
            self._hidden += 1
        elif self._is_erased(whole):
            self._erased += 1
        elif known := self._known(record):
            self._ids_here[record.id] = known.id
        else:
            self._store(whole)

    def _placed(self, record: Record) -> Record:
        """Return the record in the project that has its namespace's name now."""
        namespace = self._present(record.namespace)
        if namespace == record.namespace:
            return record
        is_personal = record.visibility == "user"
        scope = record.scope if is_personal else scope_key(record.visibility, namespace, record.agent)
        return replace(record, namespace=namespace, scope=scope)

    def link(self) -> None:
        """Restore the references between records, by their ids here."""
        for record, successor, source in self._naming:
            origin = self._ids_here.get(source)
            details = {**record.details, _SOURCE: origin} if origin else record.details
            self._transaction.update(replace(record, superseded_by=self._ids_here.get(successor), details=details))
        for record_id, ground in self._standing:
            if here := self._ids_here.get(ground.ground_id):
                self._transaction.depend(record_id, [here], found=ground.found)

    def outcome(self) -> Merged:
        return Merged(
            stored=self._stored,
            known=len(self._ids_here) - self._stored,
            logged=self._logged,
            hidden=self._hidden,
            tasks=self._tasks,
            erased=self._erased,
        )

    def _is_erased(self, whole: WholeRecord) -> bool:
        record = whole.record
        if record.scope not in self._marks:  # Read once: a merge erases nothing.
            self._marks[record.scope] = self._transaction.erased([record.scope])
        marks = self._marks[record.scope]
        is_whole = marks.has(record.kind, record.session_id, record.text)
        return is_whole or any(marks.are_in(text) for text in _words_of(whole))

    def _known(self, record: Record) -> Record | None:
        """Return the record here that says the same, or said it until it was corrected."""
        same = self._transaction.find_text(record.scope, content_hash(record.text))
        return same or self._transaction.find_corrected(record.scope, normal_hash(record.text))

    def _store(self, whole: WholeRecord) -> None:
        old = whole.record
        record_id = self._transaction.next_id(RECORD)
        foreign = {_SOURCE, "task"} if old.kind == "result" else {_SOURCE}
        details = {name: value for name, value in old.details.items() if name not in foreign}
        details |= self._told
        bare = replace(old, id=record_id, task_id=None, branch_id=None, superseded_by=None, details=details, changed=0)
        bare = replace(bare, accessed_at=max(old.accessed_at, self._now))  # It is as old here as it is here.
        mentioned = [
            Entity(name=each.name, type=each.type, properties=each.properties, found=each.found)
            for each in whole.mentions
        ]
        said = [
            Relation(source=each.source, type=each.type, target=each.target, weight=each.weight)
            for each in whole.relations
        ]
        self._transaction.insert(bare, None, mentioned, said, in_session=False)
        self._ids_here[old.id] = record_id
        self._standing += [(record_id, ground) for ground in whole.grounds]
        self._stored += 1
        if old.superseded_by or _SOURCE in old.details:
            self._naming.append((bare, old.superseded_by or "", str(old.details.get(_SOURCE))))


def _words_of(whole: WholeRecord) -> Iterator[str]:
    """Yield every text that the record's author gave, in the record or about its entities."""
    yield from (*texts_of(whole.record), *whole.record.tags)
    for mention in whole.mentions:
        yield from (mention.name, mention.type, *strings_in(mention.properties))
    yield from (relation.type for relation in whole.relations)

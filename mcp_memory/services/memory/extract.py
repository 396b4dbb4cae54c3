"""Extraction: turns a text's statements into records of their own before the text leaves view.

It does not know why or when the text leaves: maintenance and compaction call it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.lifecycle import NOTED, first_status, promoted
from mcp_memory.domain.model.records import DEFAULT_IMPORTANCE, Counters, Instant, Outcome, Record, searchable_text
from mcp_memory.domain.model.scopes import scope_key
from mcp_memory.domain.model.session_log import ENTRY_KINDS, Pause, entry_of, in_order
from mcp_memory.domain.model.tasks import DEAD_ENDS, branches_beside, path_to
from mcp_memory.domain.model.versions import CONFIRMED
from mcp_memory.domain.sessions.slots import as_statement, learnt_from, slots_of
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import MeasuredText, measured
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.statements import Statement, statements
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.text import Embedder, TokenCounter, Vectors
from mcp_memory.ports.transaction import TaskReader, Transaction
from mcp_memory.services.memory.embedding import embedded_each

Said = tuple[str, str]
"""A scope, and the digest of a normalised text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDraft:
    """A statement of a source, prepared outside the transaction.

    `vectors` is None where the embedder was unused or unreachable; a reindex adds them.
    """

    source: Record
    statement: Statement
    text: MeasuredText
    vectors: Vectors | None


class Extractor:
    """Makes records of what episodes and sessions state, with the source in `details.source`. Thread-safe.

    An episode gives facts and decisions; the slots of a session's log also dead ends, as failed episodes. Other records
    give nothing, nor do retired or disproved ones. A failed source, or one in a dead-end task, gives only dead ends.
    What comes from a log is noted, not confirmed: only its session sees it until something confirms it.
    """

    def __init__(
        self,
        records: MemoryReader,
        embedder: Embedder,
        counter: TokenCounter,
        pause: Pause = bool,
        person_of: Callable[[str], str] = lambda agent: "",
    ) -> None:
        """`person_of` names an agent's person: one person's own corrections do not bind another."""
        self._records = records
        self._person_of = person_of
        self._embedder = embedder
        self._counter = counter
        self._pause = pause

    def unknown(self, source: Record, learnt: Sequence[Statement] = ()) -> Mapping[Said, Statement]:
        """Return the source's statements that its readers do not know yet.

        `learnt` is what an entry of a session's log states; an episode is read here.
        """
        stated = _stated(source, self._records, learnt)
        if not stated:
            return {}
        known = _known(stated, _hidden(source, self._records), self._records)
        return {key: each for key, each in stated.items() if key not in known}

    def drafts(self, sources: Sequence[Record], *, embedded: bool) -> Sequence[StatementDraft]:
        """Do the slow part: reading, short forms, counts and, where `embedded`, the vectors.

        Episodes are read one by one, records of a session's log together: their slots are what they state. Drafts are
        in the order of the sources; of equal statements in one scope and branch the first counts. Raises
        StoreUnavailable, but not for the embedder: its vectors are left out.
        """
        learnt = _learnt([source for source in sources if source.kind in ENTRY_KINDS])
        new: dict[tuple[str | None, Said], tuple[Record, Statement]] = {}
        for source in sources:
            self._pause()
            for key, statement in self.unknown(source, learnt.get(source.id, ())).items():
                new.setdefault((source.branch_id, key), (source, statement))
        made = self._vectors([*new.values()]) if embedded else [None] * len(new)
        count, truncate = self._counter.count, self._counter.truncate
        return [
            StatementDraft(
                source=source,
                statement=each,
                text=measured(each.text, count, truncate, kind=each.kind, outcome=_outcome(each)),
                vectors=vectors,
            )
            for (source, each), vectors in zip(new.values(), made, strict=True)
        ]

    def store(self, draft: StatementDraft, at: Instant, transaction: Transaction) -> str | None:
        """Store the statement for all readers of the source; return its record's id.

        Returns None where it stored nothing: the readers know it, it or a sentence of it was corrected for them, or
        the source was erased, retired, changed or failed since it was read. A statement that only a branch knew leaves
        that branch instead of being stored twice. A noted one is promoted where the user or another session repeats it.

        Raises:
            EmbedderMismatch: another embedder made the store's vectors; store the draft without its own.
            StoreUnavailable: the message names the remedy.
        """
        source = transaction.get(draft.source.id)
        if source is None or source.text != draft.source.text or not source.is_live:
            return None
        is_dead_end = draft.statement.kind == "episode"
        if not is_dead_end and _led_nowhere(source, transaction):
            return None
        said, hidden = draft.statement.text, _hidden(source, transaction)
        if self._is_settled(said, source, hidden, transaction):
            return None
        noted = transaction.find_noted(source.scope, normal_hash(said))
        stored = noted or transaction.find_text(source.scope, content_hash(said))
        if stored and (is_dead_end or stored.kind != "episode"):
            place = None if stored.branch_id in hidden else stored.branch_id
            told = replace(promoted(stored) if _repeats(source, stored) else stored, branch_id=place)
            if told == stored:
                return None
            transaction.update(replace(told, updated_at=at), reason=CONFIRMED)
            return stored.id
        record = _record(draft, source, transaction.next_id(RECORD), at)
        transaction.insert(record, draft.vectors, found_entities(said, source.speaker), (), in_session=False)
        return record.id

    def _is_settled(self, said: str, source: Record, hidden: frozenset[str | None], transaction: Transaction) -> bool:
        """Return True where the source's readers know it, or it was corrected for them."""
        # "Refused: Shall we move? → No, keep it." may hold a corrected sentence between others.
        sentences = sentences_of(said.removeprefix("Refused: ").replace(" → ", "\n"))
        digests = {normal_hash(each) for each in (said, *sentences)}
        persons = scope_key("user", source.namespace, source.agent, self._person_of(source.agent))
        readable = dict.fromkeys((source.scope, scope_key("shared", source.namespace, ""), persons))
        is_known = bool(_known([(source.scope, normal_hash(said))], hidden, transaction))
        return is_known or any(transaction.find_corrected(scope, each) for scope in readable for each in digests)

    def _vectors(self, stated: Sequence[tuple[Record, Statement]]) -> Sequence[Vectors | None]:
        texts = [searchable_text(each.text, source.speaker, {}) for source, each in stated]
        made = embedded_each(self._embedder, texts) if texts else []
        return [None if isinstance(each, StoreUnavailable) else each for each in made]


def _learnt(log: Sequence[Record]) -> Mapping[str, Sequence[Statement]]:
    """Return what entries of one session's log state, by the record that states it."""
    found: dict[str, list[Statement]] = {}
    for slot in learnt_from(slots_of(in_order(entry_of(record) for record in log).entries)):
        found.setdefault(slot.source, []).append(as_statement(slot))
    return found


def _stated(source: Record, reader: TaskReader, learnt: Sequence[Statement]) -> Mapping[Said, Statement]:
    """Return a source's statements by key, only the dead ends of one that led nowhere."""
    if not source.is_live:
        return {}
    said = statements(source.text) if source.kind == "episode" else learnt
    if said and _led_nowhere(source, reader):
        said = [each for each in said if each.kind == "episode"]
    return {(source.scope, normal_hash(each.text)): each for each in said}


def _led_nowhere(source: Record, reader: TaskReader) -> bool:
    """Return True for a failed source, and for one in a dead-end task."""
    if source.outcome == "failure" or source.task_id is None:
        return source.outcome == "failure"
    return any(task.status in DEAD_ENDS for task in reader.tasks_near(source.namespace, [source.task_id]))


def _hidden(source: Record, reader: TaskReader) -> frozenset[str | None]:
    """Return the branches whose records the source's readers do not see."""
    branches = reader.open_branches()
    tasks = reader.tasks_near(source.namespace, {*branches, *filter(None, [source.branch_id])})
    beside = branches_beside(tasks, path_to(source.branch_id, tasks))
    return (branches - {task.id for task in tasks}) | beside


def _known(
    stated: Collection[Said], hidden: frozenset[str | None], reader: MemoryReader | Transaction
) -> Collection[Said]:
    """Return the statements known outside the hidden branches."""
    return [key for key, branches in reader.find_learnt(stated).items() if not hidden.issuperset(branches)]


def _repeats(source: Record, noted: Record) -> bool:
    """Return True where an episode says what was noted, or an entry later: the user's, or another session's.

    An agent that repeats itself confirms nothing, nor does a log that is stored again under another session's name.
    """
    if source.kind not in ENTRY_KINDS:
        return True
    is_elsewhere = (source.agent, source.session_id) != (noted.agent, noted.session_id)
    return source.occurred_at > noted.occurred_at and (is_elsewhere or entry_of(source).is_users)


def _outcome(statement: Statement) -> Outcome | None:
    return "failure" if statement.kind == "episode" else None


def _record(draft: StatementDraft, source: Record, record_id: str, at: Instant) -> Record:
    """Make a new record with the source's place and time, without its own judgements."""
    kind, text = draft.statement.kind, draft.text
    return replace(
        source, id=record_id, kind=kind, text=draft.statement.text, summary=text.summary, micro=text.micro,
        text_tokens=text.text_tokens, summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=DEFAULT_IMPORTANCE, confidence=None,
        status=NOTED if source.kind in ENTRY_KINDS else first_status(kind),
        outcome=_outcome(draft.statement),
        pinned=False, details={"source": source.id}, changed=0, role=None, tool=None, call_id=None, superseded_by=None,
        created_at=at, updated_at=at, accessed_at=source.occurred_at, counters=Counters(),
    )  # fmt: skip

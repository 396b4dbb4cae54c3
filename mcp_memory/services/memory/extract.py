"""Extracting: what a text states becomes records of its own before the text leaves view.

Knows neither why it leaves nor when: maintenance and compaction ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.lifecycle import first_status
from mcp_memory.domain.model.records import DEFAULT_IMPORTANCE, Counters, Instant, Outcome, Record, searchable_text
from mcp_memory.domain.model.scopes import scope_key
from mcp_memory.domain.model.session_log import Pause
from mcp_memory.domain.model.tasks import DEAD_ENDS, Task, branches_beside, path_to
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.short_forms import MeasuredText, measured
from mcp_memory.domain.text.statements import Statement, dead_ends, statements
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.text import Embedder, TokenCounter, Vectors
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.embedding import embedded_each

_NOBODYS = frozenset({"system", "developer", "tool", "function"})
"""Roles of messages that neither the user nor the assistant wrote: they brief or quote, and vouch for nothing."""

Said = tuple[str, str]
"""A scope, and the digest of a normalised text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementDraft:
    """A statement of a source, made ready outside the transaction.

    `vectors` is None where the embedder was not or could not be asked; a reindex brings them.
    """

    source: Record
    statement: Statement
    text: MeasuredText
    vectors: Vectors | None


class Extracting:
    """Makes records of what episodes and messages state, which name their source as `details.source`. Thread-safe.

    An episode gives facts and decisions; a message of the user's or the assistant's gives dead ends as well, as failed
    episodes. Any other record gives nothing, nor does one that was retired or proven wrong. From what failed, or lies
    in a task that was a dead end, only dead ends are taken.
    """

    def __init__(
        self,
        records: MemoryReader,
        embedder: Embedder,
        counter: TokenCounter,
        pause: Pause = bool,
        person_of: Callable[[str], str] = lambda agent: "",
    ) -> None:
        """`person_of` tells whom an agent works for: what one person corrected for themselves binds no other."""
        self._records = records
        self._person_of = person_of
        self._embedder = embedder
        self._counter = counter
        self._pause = pause

    def unknown(self, source: Record, tasks: Sequence[Task]) -> Mapping[Said, Statement]:
        """What the source states, and who sees it does not know; the tasks are those of its namespace."""
        stated = _stated(source, tasks)
        if not stated:
            return {}
        known = _known(stated, _hidden(source, self._records), self._records)
        return {key: each for key, each in stated.items() if key not in known}

    def drafts(self, sources: Sequence[Record], *, embedded: bool) -> Sequence[StatementDraft]:
        """What takes time: reading, the short forms, the counts and, where `embedded`, the vectors.

        In the order of the sources; what several of one scope and branch say, from the first alone. Raises
        StoreUnavailable; not for the embedder, whose vectors are left out.
        """
        tree = cache(self._records.tasks)
        new: dict[tuple[str | None, Said], tuple[Record, Statement]] = {}
        for source in sources:
            self._pause()
            for key, statement in self.unknown(source, tree(source.namespace)).items():
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
        """The id of the record that says so from now on, for whoever sees the source.

        None where nothing was stored: they know it, it was corrected for them, or the source was erased, retired,
        changed or failed since it was read. What only a branch knew is stored once, and comes out of it.

        Raises:
            EmbedderMismatch: another embedder made the store's vectors; store the draft without its own.
            StoreUnavailable: the message names the remedy.
        """
        source = transaction.get(draft.source.id)
        if source is None or source.text != draft.source.text or not source.is_live:
            return None
        is_dead_end = draft.statement.kind == "episode"
        if not is_dead_end and _led_nowhere(source, transaction.tasks(source.namespace)):
            return None
        said, hidden = draft.statement.text, _hidden(source, transaction)
        if self._is_settled(said, source, hidden, transaction):
            return None
        stored = transaction.find_text(source.scope, content_hash(said))
        if stored and (is_dead_end or stored.kind != "episode"):
            if stored.branch_id not in hidden:
                return None
            transaction.update(replace(stored, branch_id=None, updated_at=at))
            return stored.id
        record = _record(draft, source, transaction.next_id(RECORD), at)
        transaction.insert(record, draft.vectors, found_entities(said, source.speaker), (), in_session=False)
        return record.id

    def _is_settled(self, said: str, source: Record, hidden: frozenset[str | None], transaction: Transaction) -> bool:
        """True where who sees the source knows it, or it was corrected for them."""
        digest = normal_hash(said)
        persons = scope_key("user", source.namespace, source.agent, self._person_of(source.agent))
        readable = dict.fromkeys((source.scope, scope_key("shared", source.namespace, ""), persons))
        is_known = bool(_known([(source.scope, digest)], hidden, transaction))
        return is_known or any(transaction.find_corrected(scope, digest) for scope in readable)

    def _vectors(self, stated: Sequence[tuple[Record, Statement]]) -> Sequence[Vectors | None]:
        texts = [searchable_text(each.text, source.speaker, {}) for source, each in stated]
        made = embedded_each(self._embedder, texts) if texts else []
        return [None if isinstance(each, StoreUnavailable) else each for each in made]


def _stated(source: Record, tasks: Sequence[Task]) -> Mapping[Said, Statement]:
    """A decision that gives a dead end as its reason is a decision; a state that is a dead end is a dead end."""
    is_message = source.kind == "message" and (source.role or "").lower() not in _NOBODYS
    if not source.is_live or not (is_message or source.kind == "episode"):
        return {}
    said = statements(source.text)
    holds = [] if said and _led_nowhere(source, tasks) else said
    decisions = [each for each in holds if each.kind == "decision"]
    found = [*holds, *(dead_ends(source.text) if is_message else []), *decisions]
    return {(source.scope, normal_hash(each.text)): each for each in found}


def _led_nowhere(source: Record, tasks: Sequence[Task]) -> bool:
    """True for what failed, and for what happened on a way that led nowhere."""
    return source.outcome == "failure" or any(task.status in DEAD_ENDS for task in path_to(source.task_id, tasks))


def _hidden(source: Record, reader: MemoryReader | Transaction) -> frozenset[str | None]:
    """Branches whose records are not seen by who sees the source."""
    tasks = reader.tasks(source.namespace)
    beside = branches_beside(tasks, path_to(source.branch_id, tasks))
    return (reader.open_branches() - {task.id for task in tasks}) | beside


def _known(
    stated: Collection[Said], hidden: frozenset[str | None], reader: MemoryReader | Transaction
) -> Collection[Said]:
    """What of it is known, not only in branches that are hidden."""
    return [key for key, branches in reader.find_learnt(stated).items() if not hidden.issuperset(branches)]


def _outcome(statement: Statement) -> Outcome | None:
    return "failure" if statement.kind == "episode" else None


def _record(draft: StatementDraft, source: Record, record_id: str, at: Instant) -> Record:
    """A new record of the source's place and time, without what was said of the source as such."""
    kind, text = draft.statement.kind, draft.text
    return replace(
        source, id=record_id, kind=kind, text=draft.statement.text, summary=text.summary, micro=text.micro,
        text_tokens=text.text_tokens, summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=DEFAULT_IMPORTANCE, confidence=None, status=first_status(kind), outcome=_outcome(draft.statement),
        pinned=False, details={"source": source.id}, role=None, tool=None, call_id=None, superseded_by=None,
        created_at=at, updated_at=at, accessed_at=source.occurred_at, counters=Counters(),
    )  # fmt: skip

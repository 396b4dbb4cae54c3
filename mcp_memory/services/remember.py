"""Remember: store what an agent learnt, once, without secrets, and tell what it is like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mcp_memory.domain.detail import MeasuredText, measured, remeasured
from mcp_memory.domain.details import checked_details
from mcp_memory.domain.echoes import strip_recalled, without_blocks
from mcp_memory.domain.ids import RECORD
from mcp_memory.domain.lifecycle import after_confirmation, first_status, restored, with_more_said
from mcp_memory.domain.mentions import found_entities
from mcp_memory.domain.records import LOG_KINDS, Instant, NewRecord, Record, searchable_text
from mcp_memory.domain.redaction import redacted_record
from mcp_memory.domain.scopes import Caller, RecordFilter, scope_key
from mcp_memory.domain.tasks import innermost_branch, path_to
from mcp_memory.domain.text import content_hash, normal_hash
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.ports import Clock, Embedder, RecordStore, Redactor, TokenCounter, Transaction, Vectors, VectorStore
from mcp_memory.services.embedding import embedded_each
from mcp_memory.services.given_out import GivenOut
from mcp_memory.services.standing import hidden_branches, require_task, storing_place
from mcp_memory.services.succession import successors, supersede

SIMILAR_COSINE = 0.95
SIMILAR_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What became of one item. `similar` lists near-duplicates; `superseded_by` the newer record that holds instead.

    `degraded` says why a stored record is not found by meaning yet.
    """

    id: str
    status: Literal["stored", "confirmed", "superseded"]
    similar: tuple[str, ...] = ()
    redacted: int = 0
    superseded_by: str | None = None
    degraded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """`vectors` is None where the embedder could not be asked, and `failure` says why."""

    vectors: Vectors | None
    text: MeasuredText
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """An item made ready outside the transaction. `made` is None where the text is known already."""

    item: NewRecord
    scope: str
    redacted: int
    recalled: tuple[str, ...]
    made: _Made | None


class Remember:
    """Stores records. Everything slow (redaction, embedding) happens before the write lock is taken."""

    def __init__(
        self,
        records: RecordStore,
        vectors: VectorStore,
        embedder: Embedder,
        counter: TokenCounter,
        redactor: Redactor,
        given_out: GivenOut,
        clock: Clock,
    ) -> None:
        self._records = records
        self._vectors = vectors
        self._embedder = embedder
        self._counter = counter
        self._redactor = redactor
        self._given_out = given_out
        self._clock = clock

    def __call__(self, items: Sequence[NewRecord], caller: Caller) -> list[Remembered]:
        """Store 1 to 500 items, all or none, and answer in their order.

        The same text in the same scope is stored once (`confirmed`), except in the log; a text that was corrected is
        not brought back (`superseded`) unless the item says `reassert`. Without an embedder a record is stored all the
        same, to be embedded later.

        Raises:
            InvalidRequest: an item is empty.
            NotFound: a task or a record to supersede does not exist here.
            StoreUnavailable: nothing was stored; the message names the remedy.
        """
        drafts = self._prepare(items, caller)
        with self._records.write() as transaction:
            outcomes = [self._store(draft, caller.in_session(draft.item.session_id), transaction) for draft in drafts]
        return [self._with_similar(draft, outcome, caller) for draft, outcome in zip(drafts, outcomes, strict=True)]

    def _prepare(self, items: Sequence[NewRecord], caller: Caller) -> list[_Draft]:
        cleaned = [self._clean(item, caller) for item in items]
        texts = {(draft.scope, content_hash(draft.item.text)) for draft in cleaned if draft.item.kind not in LOG_KINDS}
        known = self._records.find_texts(texts) if texts else set[tuple[str, str]]()
        new = [
            draft.item.kind in LOG_KINDS or (draft.scope, content_hash(draft.item.text)) not in known
            for draft in cleaned
        ]
        made = iter(self._make([draft.item for draft, is_new in zip(cleaned, new, strict=True) if is_new]))
        return [
            replace(draft, made=next(made)) if is_new else draft for draft, is_new in zip(cleaned, new, strict=True)
        ]

    def _clean(self, item: NewRecord, caller: Caller) -> _Draft:
        """Cut out secrets and what this server itself handed back, and find what the rest mentions."""
        text, recalled = strip_recalled(item.text)
        if item.kind in LOG_KINDS:  # The log says what was said: nothing in it is an echo, only blocks are left out.
            text, recalled = without_blocks(item.text), ()
        if not text.strip() and not recalled:
            raise InvalidRequest("text is empty; say what to remember in one or more words.")
        item, redacted = redacted_record(replace(item, text=text.strip()), self._redactor.redact)
        item = replace(item, details=checked_details(item.kind, item.details))
        found = found_entities(item.text, item.speaker, item.details, item.entities)
        item = replace(item, entities=(*item.entities, *found))
        scope = scope_key(item.visibility, caller.namespace, caller.agent)
        return _Draft(item=item, scope=scope, redacted=redacted, recalled=recalled, made=None)

    def _make(self, items: Sequence[NewRecord]) -> list[_Made]:
        """What takes time: the vectors, the short forms and the counts."""
        texts = [self._measured(item) for item in items]
        outcomes = embedded_each(self._embedder, [searchable_text(i.text, i.speaker, i.details) for i in items])
        return [
            _Made(vectors=None, text=text, failure=f"vector: {outcome}")
            if isinstance(outcome, StoreUnavailable)
            else _Made(vectors=outcome, text=text)
            for outcome, text in zip(outcomes, texts, strict=True)
        ]

    def _measured(self, item: NewRecord) -> MeasuredText:
        return measured(item.text, self._counter.count, self._counter.truncate, kind=item.kind, outcome=item.outcome)

    def _store(self, draft: _Draft, caller: Caller, transaction: Transaction) -> Remembered:
        item, redacted = draft.item, draft.redacted
        labelled = _visible(draft.recalled, caller, transaction)
        if labelled and item.text in ("", labelled[0].text, labelled[0].summary, labelled[0].micro):
            return _echo(labelled, redacted)
        if not item.text:
            raise InvalidRequest("text holds only recalled context of unknown records; send what is new in it.")
        if item.kind not in LOG_KINDS:
            if existing := transaction.find_text(draft.scope, content_hash(item.text)):
                existing = self._shared_with(caller, existing, transaction)
                if item.reassert and (existing.superseded_by or not existing.is_live):
                    return self._revive(existing, item, caller, redacted, transaction)
                return self._meet_again(existing, item, caller, redacted, transaction)
            shown = self._given_out.find(caller, item.text)
            if shown and (known := _visible([shown], caller, transaction)):
                return _echo(known, redacted)
            if not item.reassert and (corrected := _corrected(item.text, draft.scope, caller, transaction)):
                return self._superseded(corrected, redacted, transaction)
        return self._insert(draft, caller, transaction)

    def _shared_with(self, caller: Caller, existing: Record, transaction: Transaction) -> Record:
        """What a branch hid is no longer the branch's own once it is stored outside of it as well."""
        if existing.branch_id is None or existing.branch_id not in hidden_branches(transaction, caller):
            return existing
        surfaced = replace(existing, branch_id=None, updated_at=self._clock())
        transaction.update(surfaced)
        return surfaced

    def _meet_again(
        self, existing: Record, item: NewRecord, caller: Caller, redacted: int, transaction: Transaction
    ) -> Remembered:
        """The same text again: confirmed once a session, revived if it had been forgotten, refused if corrected."""
        now = self._clock()
        if existing.status == "inactive" or (existing.superseded_by and self._holding(existing, transaction)):
            return self._superseded(existing, redacted, transaction)
        if existing.status in ("retired", "superseded"):
            return self._revive(existing, item, caller, redacted, transaction)
        supersede(item.supersedes, existing, caller, now, transaction)
        merged = with_more_said(existing, item)
        if merged.outcome != existing.outcome:
            merged = remeasured(merged, self._counter.count, self._counter.truncate)
        is_echo = caller.session_id == existing.session_id or self._given_out.find(caller, item.text) == existing.id
        if not is_echo and transaction.confirm(existing, caller.session_id):
            merged = after_confirmation(merged, now)
        if merged != existing:
            transaction.update(replace(merged, updated_at=now))
        return Remembered(id=existing.id, status="confirmed", redacted=redacted)

    def _holding(self, old: Record, transaction: Transaction) -> str | None:
        """The newest record in the old one's place that has not been forgotten; itself where its text was corrected."""
        chain = [transaction.get(record_id) for record_id in reversed(successors(old, transaction))]
        live = [record.id for record in chain if record and record.is_live]
        return live[0] if live else old.id if old.is_live and not old.superseded_by else None

    def _superseded(self, old: Record, redacted: int, transaction: Transaction) -> Remembered:
        """What does not come back; with the newest record that holds instead, which may be the same one, corrected."""
        newer = self._holding(old, transaction)
        similar = (newer,) if newer else ()
        return Remembered(id=old.id, status="superseded", similar=similar, redacted=redacted, superseded_by=newer)

    def _revive(
        self, existing: Record, item: NewRecord, caller: Caller, redacted: int, transaction: Transaction
    ) -> Remembered:
        """What was forgotten is said again, or the caller insists: it holds again, with all that is said of it now."""
        now = self._clock()
        revived = with_more_said(restored(existing), item)
        details = {**revived.details, **item.details}
        revived = replace(revived, details=details, updated_at=now, accessed_at=now)
        if revived.outcome != existing.outcome:
            revived = remeasured(revived, self._counter.count, self._counter.truncate)
        transaction.update(revived)
        if revived.searchable_text != existing.searchable_text:
            transaction.index_anew(revived)
        supersede(item.supersedes, revived, caller, now, transaction)
        return Remembered(id=existing.id, status="stored", redacted=redacted)

    def _insert(self, draft: _Draft, caller: Caller, transaction: Transaction) -> Remembered:
        item, now = draft.item, self._clock()
        tasks = transaction.tasks(caller.namespace)
        task_id = item.task_id or storing_place(transaction.places(caller), caller, tasks)
        if item.task_id:
            require_task(item.task_id, tasks)
        branch_id = innermost_branch(path_to(task_id, tasks))
        record_id = transaction.next_id(RECORD)
        # Known when it was looked up, gone by now: rare enough to wait for.
        made = draft.made or self._make([item])[0]
        record = _record(record_id, draft, made.text, caller, now, task_id, branch_id)
        alike = transaction.find_alike(draft.scope, normal_hash(item.text)) if item.kind not in LOG_KINDS else ()
        transaction.insert(record, made.vectors, item.entities, item.relations)
        supersede(item.supersedes, record, caller, now, transaction)
        return Remembered(
            id=record_id,
            status="stored",
            similar=tuple(alike)[:SIMILAR_SHOWN],
            redacted=draft.redacted,
            degraded=made.failure,
        )

    def _with_similar(self, draft: _Draft, outcome: Remembered, caller: Caller) -> Remembered:
        """Add near-duplicates by meaning. They are advice: a search that fails does not undo an acknowledged write."""
        vectors = draft.made.vectors if draft.made else None
        if outcome.status != "stored" or vectors is None or draft.item.kind in LOG_KINDS:
            return outcome
        hidden = hidden_branches(self._records, caller)
        exclude = (outcome.id, *outcome.similar, *draft.item.supersedes)
        try:
            near = self._vectors.search(vectors[0], (draft.scope,), SIMILAR_SHOWN, exclude=exclude)
        except StoreUnavailable:
            return outcome
        alike = tuple(record_id for record_id, cosine in near.items() if cosine >= SIMILAR_COSINE)
        similar = (*outcome.similar, *alike)
        if hidden:
            where = RecordFilter(scopes=(draft.scope,), hidden_branches=hidden, only=frozenset(similar))
            visible = self._records.matching_ids(where)
            similar = tuple(record_id for record_id in similar if record_id in visible)
        return replace(outcome, similar=similar[:SIMILAR_SHOWN])


def _visible(record_ids: Sequence[str], caller: Caller, transaction: Transaction) -> list[Record]:
    found = (transaction.get(record_id) for record_id in record_ids)
    return [record for record in found if record and record.scope in caller.scopes]


def _echo(records: Sequence[Record], redacted: int) -> Remembered:
    """What this server showed comes back: it is known, and nothing is confirmed by it."""
    others = tuple(record.id for record in records[1:])
    return Remembered(id=records[0].id, status="confirmed", similar=others, redacted=redacted)


def _corrected(text: str, scope: str, caller: Caller, transaction: Transaction) -> Record | None:
    """Who said this before it was corrected, in any scope the caller reads: nobody brings it back unawares."""
    digest = normal_hash(text)
    scopes = dict.fromkeys((scope, *caller.scopes))
    return next((found for each in scopes if (found := transaction.find_corrected(each, digest))), None)


def _record(
    record_id: str,
    draft: _Draft,
    text: MeasuredText,
    caller: Caller,
    now: Instant,
    task_id: str | None,
    branch_id: str | None,
) -> Record:
    item = draft.item
    occurred = item.occurred_at if item.occurred_at is not None else now
    return Record(
        id=record_id, scope=draft.scope, namespace=caller.namespace, visibility=item.visibility,
        agent=caller.agent, session_id=caller.session_id, task_id=task_id, branch_id=branch_id,
        kind=item.kind, text=item.text, summary=text.summary, micro=text.micro, text_tokens=text.text_tokens,
        summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=item.importance, confidence=item.confidence,
        status=first_status(item.kind, item.outcome),
        outcome=item.outcome, pinned=item.pinned, tags=item.tags, details=item.details, speaker=item.speaker,
        role=item.role, tool=item.tool, call_id=item.call_id, superseded_by=None, created_at=now,
        updated_at=now, accessed_at=min(occurred, now), occurred_at=occurred,
    )  # fmt: skip

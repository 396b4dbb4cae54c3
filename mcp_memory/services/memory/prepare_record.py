"""Prepares an item for storage: removes control characters, secrets and echoes, measures and embeds it.

All of it is slow, and runs before any lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from mcp_memory.domain.context.rendering import event_text
from mcp_memory.domain.memory.echoes import strip_recalled, without_blocks
from mcp_memory.domain.memory.erased_text import ErasedMarks, details_without, fields_without, is_all_erased
from mcp_memory.domain.memory.harness import is_users, without_harness
from mcp_memory.domain.memory.private import is_private, without_private
from mcp_memory.domain.memory.redaction import clean_record
from mcp_memory.domain.model.field_marks import together
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.lifecycle import first_status
from mcp_memory.domain.model.message_files import FILES
from mcp_memory.domain.model.records import (
    IMPORTED_AT,
    IMPORTED_BY,
    LOG_KINDS,
    Instant,
    NewRecord,
    Record,
    checked_details,
    refuse_no_time,
    searchable_text,
)
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import innermost_branch, path_to
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import MeasuredText, measured
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.ports.text import Embedder, Redactor, TokenCounter, Vectors
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.review.embedding import embedded_each
from mcp_memory.services.tasks.branch_visibility import require_task, storing_path

_OURS = frozenset({FILES, IMPORTED_AT, IMPORTED_BY})
"""Details that no caller sets."""
_PLACED = frozenset({"session_id", "task_id", "occurred_at"})
"""Fields of a record that an item may give, and that follow from the caller and the time where it does not."""
_SAID = frozenset(each.name for each in fields(NewRecord)) & {each.name for each in fields(Record)} - _PLACED
"""Fields of a record that are as the item gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """`vectors` is None where the embedder was unused or unreachable; `failure` explains the latter."""

    vectors: Vectors | None
    text: MeasuredText
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDraft:
    """An item prepared outside the transaction. `made` is None where the text is known already.

    `shown` is the id of the record that its agent was shown with this text, "" for none.
    """

    item: NewRecord
    scope: str
    redacted: int
    cleaned: int
    recalled: tuple[str, ...]
    made: Made | None
    shown: str = ""


class RecordPreparer:
    """Cleans and measures items for storage. Thread-safe, and changes nothing."""

    def __init__(self, embedder: Embedder, counter: TokenCounter, redactor: Redactor) -> None:
        self._embedder = embedder
        self._counter = counter
        self._redactor = redactor

    def clean(self, item: NewRecord, caller: Caller) -> RecordDraft:
        """Remove control characters, secrets and this server's own output; find the entities in the rest.

        An event without a text gets the one that its details make. Raises InvalidRequest for an empty text, and for a
        validity that ends before it begins.
        """
        plain, cleaned = without_controls(item.text)
        is_log = item.kind in LOG_KINDS
        # What a tool or a model writes may speak of the tag without closing it; a user who opens it means it.
        plain = without_private(plain, to_the_end=not is_log or (item.kind == "message" and is_users(item.role)))
        if not is_log and is_private(plain):
            raise InvalidRequest("text is private as a whole, so nothing of it is stored.")
        text, recalled = strip_recalled(plain)
        if (
            is_log
        ):  # The log says what was said: nothing in it is an echo; blocks and the client's own text are left out.
            item = without_harness(replace(item, text=without_blocks(plain)))
            text, recalled = item.text, ()
        makes_text = item.kind == "event" and not text.strip() and bool(event_text(item.details))
        if not text.strip() and not recalled and not makes_text:
            raise InvalidRequest("text is empty; say what to remember in one or more words.")
        details = {name: value for name, value in item.details.items() if name not in _OURS}
        if files := [each.detail() for each in item.files if each.content]:
            details[FILES] = files
        given = replace(item, text=text if is_log else text.strip(), details=details, cleaned=item.cleaned + cleaned)
        item, redacted, cleaned = clean_record(given, self._redactor.redact)
        item = replace(item, details=checked_details(item.kind, item.details), **_once(item))
        if makes_text:  # Of the cleaned details: a secret that is cut short would pass for none.
            item = replace(item, text=event_text(item.details))
        refuse_no_time(item.valid_from, item.valid_until)
        found = found_entities(item.text, item.speaker, item.details, item.entities)
        item = replace(item, entities=(*item.entities, *found))
        scope = caller.scope(item.visibility)
        return RecordDraft(item=item, scope=scope, redacted=redacted, cleaned=cleaned, recalled=recalled, made=None)

    def make(self, items: Sequence[NewRecord], *, embedded: bool = True) -> list[Made]:
        """Do the slow part: short forms, counts and, where `embedded`, the vectors."""
        texts = [self._measured(item) for item in items]
        if not embedded:
            return [Made(vectors=None, text=text) for text in texts]
        outcomes = embedded_each(self._embedder, [searchable_text(i.text, i.speaker, i.details) for i in items])
        return [
            Made(vectors=None, text=text, failure=f"vector: {outcome}")
            if isinstance(outcome, StoreUnavailable)
            else Made(vectors=outcome, text=text)
            for outcome, text in zip(outcomes, texts, strict=True)
        ]

    def _measured(self, item: NewRecord) -> MeasuredText:
        return measured(item.text, self._counter.count, self._counter.truncate, kind=item.kind, outcome=item.outcome)


def _once(item: NewRecord) -> dict[str, Any]:
    """Return the lists of an item without what they name twice."""
    ids = {name: tuple(dict.fromkeys(getattr(item, name))) for name in ("supersedes", "depends_on")}
    return {**ids, "tags": together(item.tags, ())}


def unerased(draft: RecordDraft, marks: ErasedMarks, caller: Caller) -> RecordDraft | None:
    """Return the draft without what was erased, the same one where it has none; None where it was erased itself."""
    item = draft.item
    if not marks:
        return draft
    session = item.session_id or caller.session_id
    if marks.has(item.kind, session, item.text, item.details.get("message_id"), item.occurred_at):
        return None
    text, details = marks.without(item.text), details_without(item.details, marks.without)
    tags = tuple(tag for tag in item.tags if not marks.are_in(tag))
    named = tuple(
        replace(each, properties=fields_without(each.properties, marks.are_in))
        for each in item.entities
        if not any(map(marks.are_in, (each.name, each.type)))
    )
    relations = tuple(
        each for each in item.relations if not any(map(marks.are_in, (each.source, each.type, each.target)))
    )
    rest = replace(item, text=text, details=details, tags=tags, entities=named, relations=relations)
    if rest == item:
        return draft
    if is_all_erased(text):
        return None
    given = tuple(entity for entity in named if not entity.found)
    found = found_entities(text, item.speaker, details, given)
    return replace(draft, item=replace(rest, entities=(*given, *found)))


def record_of(draft: RecordDraft, text: MeasuredText, caller: Caller, now: Instant, transaction: Transaction) -> Record:
    """Make the new record of a draft, in the task it names or the caller's current task.

    Raises NotFound for a task that does not exist.
    """
    item = draft.item
    if item.task_id:
        tasks = transaction.tasks_near(caller.namespace, [item.task_id])
        path = path_to(require_task(item.task_id, tasks).id, tasks)
    else:
        path = storing_path(transaction, caller)
    occurred = item.occurred_at if item.occurred_at is not None else now
    said: dict[str, Any] = {name: getattr(item, name) for name in _SAID}
    return Record(
        **said,
        id=transaction.next_id(RECORD), scope=draft.scope, namespace=caller.namespace,
        agent=caller.agent, client=caller.client, session_id=caller.session_id, task_id=path[-1].id if path else None,
        branch_id=innermost_branch(path), status=first_status(item.kind, item.outcome),
        summary=text.summary, micro=text.micro, text_tokens=text.text_tokens,
        summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens, superseded_by=None,
        created_at=now, updated_at=now, accessed_at=min(occurred, now), occurred_at=occurred,
    )  # fmt: skip

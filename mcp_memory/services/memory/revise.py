"""Revise: corrects, judges, pins, promotes or retires one record. A change of text keeps the old version."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcp_memory.domain.memory.erased_text import texts_of
from mcp_memory.domain.memory.redaction import clean_text, cleaned_words
from mcp_memory.domain.model.field_marks import CallerWords, Replaces, marked, together
from mcp_memory.domain.model.lifecycle import Feedback, after_feedback, after_outcome, moved_by_hand, promoted
from mcp_memory.domain.model.records import (
    Details,
    Entity,
    Record,
    checked_details,
    rewritten,
    searchable_text,
    with_validity,
)
from mcp_memory.domain.model.requests import Revision
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.versions import CONFIRMED, replaced_values
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import remeasured
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.words import content_hash
from mcp_memory.errors import Conflict, InvalidRequest, StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.shown import ShownTexts
from mcp_memory.ports.text import Clock, Embedder, Redactor, TokenCounter, Vectors
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.unseen_changes import refuse_unseen
from mcp_memory.services.review.dependence import drop_outdated
from mcp_memory.services.review.embedding import embedded
from mcp_memory.services.review.reviews import ConflictingRecord, Reviews, group_of
from mcp_memory.services.review.supersede import reinstate, supersede
from mcp_memory.services.tasks.branch_visibility import require_own

if TYPE_CHECKING:  # Its patterns take a tenth of a start.
    from mcp_memory.services.review.near_records import NearRecords

_REPLACING = tuple(marked(Revision, Replaces))
_WORDS = frozenset(marked(Record, CallerWords))
VOUCHING: frozenset[Feedback] = frozenset({"used", "helpful", "succeeded"})
"""Feedback on a record that proved right, whatever it stands on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """A record as it is now, and the number of the write, for an undo.

    `conflicts` are records that it may contradict, or that may still say what it corrects; `review` is the group that
    waits with them, offered once a session.
    """

    record: Record
    change: int
    conflicts: tuple[ConflictingRecord, ...] = ()
    review: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewText:
    """The text and the details of a record whose words change, with vectors and entities.

    They are made before the write lock is taken.
    """

    text: str
    details: Details
    vectors: Vectors
    found: tuple[Entity, ...]


class Revise:
    """Changes records. Thread-safe; redaction and embedding happen before the write lock is taken."""

    def __init__(
        self,
        records: RecordStore,
        embedder: Embedder,
        counter: TokenCounter,
        redactor: Redactor,
        shown_texts: ShownTexts,
        clock: Clock,
        near: NearRecords,
        reviews: Reviews,
    ) -> None:
        self._records = records
        self._shown_texts = shown_texts
        self._embedder = embedder
        self._counter = counter
        self._redactor = redactor
        self._clock = clock
        self._near = near
        self._reviews = reviews

    def __call__(self, revision: Revision, caller: Caller) -> Record:
        """Behave as `advised`, and return the record alone."""
        return self.advised(revision, caller).record

    def advised(self, revision: Revision, caller: Caller) -> Revised:
        """Apply the change; let the record wait for a review with what its new text, or what it replaces, concerns.

        Raises:
            NotFound: no such record for this caller.
            InvalidRequest: the new text is empty, nothing is to change, or its validity would end before it begins.
            Conflict: somebody changed the record since the caller saw it, the status is not to be had by hand, another
                record has this text already, it was erased, or the record is another's and would be hidden from them.
        """
        if revision.changes == Revision(id=revision.id):
            raise InvalidRequest("Nothing to change; give text, outcome, feedback or another field beside id.")
        new = self._new_text(revision, caller)
        with self._records.write(caller, self._clean(revision.reason)) as transaction:
            revised, corrected = self._change(revision, new, caller, transaction)
            change = transaction.undoable
        self._shown_texts.see(caller, [revised.id], revised.version)
        outcome = Revised(record=revised, change=change)
        if corrected:
            with suppress(StoreUnavailable):  # Advice: the record is revised.
                return self._with_conflicts(outcome, corrected, caller)
        return outcome

    def together(self, revisions: Sequence[Revision], caller: Caller, reason: str = "") -> int:
        """Apply changes in one write, or none; return its number for an undo, 0 for no difference.

        The reason is kept with each new version. Raises as `advised` does.
        """
        words = [self._new_text(revision, caller) for revision in revisions]
        with self._records.write(caller, reason) as transaction:
            for revision, new in zip(revisions, words, strict=True):
                self._change(revision, new, caller, transaction)
            return transaction.undoable

    def _change(
        self, revision: Revision, new: _NewText | None, caller: Caller, transaction: Transaction
    ) -> tuple[Record, list[str]]:
        """Change the record; return it as it is then, with the texts that it takes the place of."""
        record = require_own(revision.id, caller, transaction)
        replaced = [require_own(each, caller, transaction) for each in revision.supersedes]
        if not revision.is_evidence:
            refuse_unseen([record], revision.version, caller, self._shown_texts, transaction)
            refuse_unseen(replaced, None, caller, self._shown_texts, transaction)
        if new and (new.text, new.details) == (record.text, record.details):
            new = None
        is_said_anew = new is not None and new.text != record.text
        if new and self._says_erased(replace(record, text=new.text, details=new.details), caller, transaction):
            raise Conflict("The text says what was erased here, for good; `remember` stores it with reassert=true.")
        revised = self._revised(record, revision, new, caller)
        if not replaced_values(record, revised):  # It only takes another one's place: an undo finds nothing changed.
            revised = replace(revised, updated_at=record.updated_at)
        _refuse_taking(record, revised, caller)
        if new or revised.scope != record.scope:
            self._refuse_twin(revised, transaction)
        supersede(revision.supersedes, revised, caller, self._clock(), transaction)
        reason = CONFIRMED if revision.is_evidence and not revision.reason else ""
        revised = transaction.update(revised, new.vectors if new else None, new.found if new else (), reason=reason)
        if revised.holds and _vouches(revision):
            if is_said_anew:
                drop_outdated(revised, transaction)
            transaction.vouch(revised.id)
        if revised.scope != record.scope and _narrows(revised, caller):
            self._hide_its_words(revised, caller, transaction)
        if revised.status == "inactive" and record.is_live and not record.superseded_by:
            reinstate(record.id, self._clock(), transaction)
        return revised, [each.text for each in replaced] + ([record.text] if is_said_anew else [])

    def _with_conflicts(self, outcome: Revised, corrected: Sequence[str], caller: Caller) -> Revised:
        conflicts = self._near.conflicts(outcome.record, corrected, caller)
        if not conflicts:
            return outcome
        (review,) = self._reviews.queue([group_of(outcome.record.id, conflicts)], caller)
        return replace(outcome, conflicts=conflicts, review=review)

    def _new_text(self, revision: Revision, caller: Caller) -> _NewText | None:
        if revision.text is None and revision.details is None:
            return None
        given = None if revision.text is None else self._clean(revision.text).strip()
        if given == "":
            raise InvalidRequest("text is empty; use forget to remove a record.")
        record = self._records.get([revision.id], caller.scopes).get(revision.id)
        if record is None:  # Nobody may change it, as `_change` says.
            return None
        text = record.text if given is None else given
        said: Details = cleaned_words(revision.details or {}, self._clean)
        details = checked_details(record.kind, {**record.details, **said}) if said else record.details
        vectors = embedded(self._embedder, searchable_text(text, record.speaker, details))
        found = found_entities(text, record.speaker, details)
        return _NewText(text=text, details=details, vectors=vectors, found=found)

    def _says_erased(self, record: Record, caller: Caller, transaction: Transaction) -> bool:
        marks = transaction.erased(dict.fromkeys((record.scope, *caller.scopes)))
        return any(marks.are_in(text) for text in texts_of(record))

    def _clean(self, text: str) -> str:
        return clean_text(text, self._redactor.redact).text

    def _revised(self, record: Record, revision: Revision, new: _NewText | None, caller: Caller) -> Record:
        now = self._clock()
        changed = replace(record, updated_at=now, accessed_at=now)
        if new:
            changed = replace(changed, details=new.details)
        if new and new.text != record.text:
            changed = rewritten(promoted(changed), new.text, caller.agent)  # Who corrects it vouches for the new text.
        if revision.feedback:
            changed = after_feedback(changed, revision.feedback)
        changed = after_outcome(changed, revision.outcome)
        if new or revision.outcome:
            changed = remeasured(changed, self._counter.count, self._counter.truncate)
        if revision.status:
            changed = moved_by_hand(changed, revision.status)
        if revision.visibility and revision.visibility != record.visibility:
            scope = replace(caller, agent=record.agent).scope(revision.visibility)  # An administrator takes nothing.
            changed = replace(changed, visibility=revision.visibility, scope=scope, namespace=caller.namespace)
        return replace(with_validity(changed, revision), **self._replacing(revision))

    def _replacing(self, revision: Revision) -> dict[str, Any]:
        """Return what takes the place of the record's values as it is given, its words cleaned."""
        said = {name: value for name in _REPLACING if (value := getattr(revision, name)) is not None}
        words = {name: cleaned_words(said[name], self._clean) for name in _WORDS & said.keys()}
        return said | words | ({"tags": together(words["tags"], ())} if "tags" in words else {})

    def _hide_its_words(self, record: Record, caller: Caller, transaction: Transaction) -> None:
        """Hide extractions and summaries of a record that fewer callers see from now on: they are its words still."""
        for other_id in transaction.extracted_from([record.id]):
            other = transaction.get(other_id)
            if other and other.visibility != "private":
                scope = replace(caller, namespace=other.namespace).scope("private")
                transaction.update(replace(other, visibility="private", scope=scope, updated_at=self._clock()))

    def _refuse_twin(self, record: Record, transaction: Transaction) -> None:
        twin = transaction.find_text(record.scope, content_hash(record.text))
        if twin is not None and twin.id != record.id:
            raise Conflict(f"Record {twin.id} has this text already; revise that one with supersedes=['{record.id}'].")


def _vouches(revision: Revision) -> bool:
    """Return True where the agent says by its revision that the record is right as it then is."""
    return bool(revision.text or revision.status) or revision.feedback in VOUCHING


def _refuse_taking(record: Record, moved: Record, caller: Caller) -> None:
    """Raise Conflict where an agent without the right `admin` would hide a shared record that another one stored."""
    is_hidden = record.visibility == "shared" and _narrows(moved, caller)
    if is_hidden and record.agent != caller.agent and not caller.is_admin:
        raise Conflict(
            f"Record {record.id} was stored by {author(record.agent, caller)!r}; only that agent, or an administrator,"
            " may hide it from others. Store your own copy, or retire the record."
        )


def _narrows(moved: Record, caller: Caller) -> bool:
    """Return True where fewer callers see it: one person instead of several, or one agent."""
    return moved.visibility == "private" or (moved.visibility == "user" and bool(caller.person))

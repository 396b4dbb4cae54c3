"""File copies: the records of a project as files that people keep and edit. It knows no format of theirs.

A copy names its record and the digest of what it said when it was written. So an edit is told from a copy that is
only old, and one that meets a change in the memory is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import floor
from typing import Any, Final, Literal

from mcp_memory.domain.memory.erased_text import ErasedMarks
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import (
    IMPORTED_AT,
    IMPORTED_BY,
    LASTING_KINDS,
    Details,
    Entity,
    Json,
    NewRecord,
    Record,
    Relation,
)
from mcp_memory.domain.model.requests import Revision
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.versions import before
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.transfer import WholeRecord
from mcp_memory.services.memory.follow_files import FROM_FILE
from mcp_memory.services.memory.forget import Forget
from mcp_memory.services.memory.learn import Learn
from mcp_memory.services.memory.prepare_record import RecordPreparer, unerased
from mcp_memory.services.memory.revise import Revise

COPY_ID: Final = "copy_id"
"""The detail that names the copy from which a record was stored: another memory wrote it, under its own id."""
_SESSION: Final = "import-markdown"
_REASON: Final = "read from its copy"
_ID = re.compile(r"r[0-9a-hjkmnp-tv-z]{6,12}-[0-9a-f]{6}")  # e.g. "r00003m-4f2a1c"
_OWN_DETAILS = frozenset({COPY_ID, IMPORTED_AT, IMPORTED_BY, "files", "message_id", "noted_first"})
"""Details by which one memory keeps its own books."""
_REFERENCES = frozenset({"source", "task"})
"""Details that are such where they name a record or a task by its id; "source: RFC 9728" is somebody's own."""
_REVISED = ("text", "importance", "confidence", "tags", "outcome", "pinned", "valid_from", "valid_until")
_FIXED = ("kind", "occurred_at", "speaker")
_LINKS = ("entities", "relations")
_ALL_RECORDS = 1_000_000

State = Literal["same", "older", "gone", "edited", "new", "refused"]
"""A copy says what its record says, or said before; its record holds no more; it says something else; it has no record
here; or it cannot be taken."""


def is_copy_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))


def digest_of(item: NewRecord) -> str:
    """Return 12 hexadecimal digits that differ where copies say something different."""
    said = {name: getattr(item, name) for name in (*_REVISED, *_FIXED)}
    links = {name: [asdict(each) for each in getattr(item, name)] for name in _LINKS}
    content = json.dumps({**said, **links, "details": item.details}, sort_keys=True, ensure_ascii=False, default=list)
    return hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """Holds what a file says. `name` is the file's; `id` and `base` are "" in one that a person wrote.

    `base` is the digest of what the file said when it was written.
    """

    name: str
    id: str
    base: str
    item: NewRecord

    @property
    def is_edited(self) -> bool:
        return self.base != digest_of(self.item)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCopy:
    """A record as its copy says it, under the copy's id."""

    id: str
    record_id: str
    item: NewRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A copy against the memory. `record_id` is "" for none; `why` is a sentence where the copy is refused.

    `item` is the copy's without secrets, `revision` what makes the record say it.
    """

    copy: FileCopy
    state: State
    record_id: str = ""
    item: NewRecord
    revision: Revision | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A project's shared records that hold, in the order in which they were stored, and copies compared with them.

    Not held are unconfirmed notes of sessions, what an open branch hides, and what follows a file anyway.
    """

    held: tuple[HeldCopy, ...]
    compared: tuple[Compared, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The ids of the records that were stored, revised and retired, and the numbers of the writes, for an undo."""

    stored: tuple[str, ...] = ()
    revised: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    changes: tuple[int, ...] = ()


@dataclass(slots=True)
class _Known:
    """The shared records of a project by what a copy may name, and the marks of what was erased."""

    marks: ErasedMarks
    by_id: dict[str, WholeRecord] = field(default_factory=dict[str, WholeRecord])
    by_digest: dict[str, WholeRecord] = field(default_factory=dict[str, WholeRecord])
    by_text: dict[str, WholeRecord] = field(default_factory=dict[str, WholeRecord])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of records by their texts, also of those that hold no more."""
    held: dict[str, HeldCopy] = field(default_factory=dict[str, HeldCopy])
    """By the ids of the records."""


class FileCopies:
    """Tells what copies of a project should say, and takes in what people made of them. Thread-safe."""

    def __init__(
        self, records: RecordStore, drafting: RecordPreparer, learn: Learn, revise: Revise, forget: Forget
    ) -> None:
        self._records = records
        self._drafting = drafting
        self._learn = learn
        self._revise = revise
        self._forget = forget

    def compare(self, copies: Sequence[FileCopy], caller: Caller) -> Comparison:
        """Compare each copy with its record: of its id, else the one that said the same, else the same text."""
        known = self._known(caller)
        compared = [self._compared(copy, known, caller) for copy in copies]
        return Comparison(held=tuple(known.held.values()), compared=tuple(compared))

    def news(self, compared: Sequence[Compared], caller: Caller) -> set[str]:
        """Return the texts that `take` would store: those that are not known, and were not given up here."""
        return {item.text for item in self._learn.propose(_new(compared), caller).items}

    def take(self, compared: Sequence[Compared], retired: Sequence[str], caller: Caller) -> Taken:
        """Revise the records of edited copies in one write, store new ones in another, and retire those by their ids.

        Raises:
            Conflict: a record changed since it was compared. Nothing was done, or what came before it in this order.
            StoreUnavailable: likewise.
        """
        caller = caller.in_session(_SESSION)
        revisions = [each.revision for each in compared if each.revision]
        changes = [self._revise.together(revisions, caller, _REASON)] if revisions else []
        learned = self._learn(_new(compared), caller)
        forgotten = self._forget(retired, "retire", caller) if retired else None
        changes += [learned.change, forgotten.change if forgotten else 0]
        return Taken(
            stored=learned.ids,
            revised=tuple(each.id for each in revisions),
            retired=forgotten.done if forgotten else (),
            changes=tuple(filter(None, changes)),
        )

    def _known(self, caller: Caller) -> _Known:
        where = RecordFilter(scopes=(caller.scope("shared"),), kinds=LASTING_KINDS, include_inactive=True)
        ids = self._records.list_ids(where, "created", _ALL_RECORDS)
        hidden = self._records.ids_in_branches(self._records.open_branches())
        pieces = self._records.transfer().select(ids)
        wholes = sorted((each for each in pieces if isinstance(each, WholeRecord)), key=lambda each: each.record.id)
        with self._records.write(caller) as transaction:
            known = _Known(marks=transaction.erased(caller.scopes))
        for whole in sorted(wholes, key=lambda each: not each.record.holds):
            record, item = whole.record, _said(whole.record, whole)
            copy_id = _copy_id(record)
            copy_id = _own_id(record) if copy_id in known.by_id else copy_id
            known.by_id[copy_id] = whole
            known.texts.setdefault(item.text, record.id)
            is_left_out = record.status == NOTED or record.id in hidden or FROM_FILE in record.tags
            if record.holds and not is_left_out:
                known.held[record.id] = HeldCopy(id=copy_id, record_id=record.id, item=item)
                known.by_digest.setdefault(digest_of(item), whole)
                known.by_text.setdefault(item.text, whole)
        return known

    def _compared(self, copy: FileCopy, known: _Known, caller: Caller) -> Compared:
        named, same = known.by_id.get(copy.id), known.by_digest.get(digest_of(copy.item))
        if same and named in (None, same):  # Nearly all of them: nothing in it needs to be cleaned.
            return Compared(copy=copy, state="same", item=copy.item, record_id=same.record.id)
        try:
            draft = self._drafting.clean(copy.item, caller)
        except InvalidRequest as error:
            return Compared(copy=copy, state="refused", item=copy.item, why=str(error))
        entities = tuple(each for each in draft.item.entities if not each.found)
        item = replace(draft.item, entities=entities, details=_carried(draft.item.details), cleaned=0, harness=0)
        whole = named or known.by_digest.get(copy.base) or known.by_digest.get(digest_of(item))
        if whole is None and not copy.id:
            whole = known.by_text.get(item.text)
        rest = unerased(draft, known.marks, caller)
        if rest is None and whole is None:
            return Compared(copy=copy, state="gone", item=item)
        if rest is not draft:
            why = "It says what was erased here; take that out of the file."
            return Compared(copy=copy, state="refused", item=item, record_id=whole.record.id if whole else "", why=why)
        return self._against(copy, item, whole, known) if whole else Compared(copy=copy, state="new", item=item)

    def _against(self, copy: FileCopy, item: NewRecord, whole: WholeRecord, known: _Known) -> Compared:
        record, told = whole.record, Compared(copy=copy, state="same", item=item, record_id=whole.record.id)
        held = known.held.get(record.id)
        if held is None:
            return replace(told, state="gone")
        now = digest_of(held.item)
        is_by_hand = not copy.id and not copy.base
        is_dated = not is_by_hand or item.occurred_at is not None
        if now == digest_of(item if is_dated else replace(item, occurred_at=held.item.occurred_at)):
            return told
        if is_by_hand:
            why = f"Record {record.id} says this already; change its own file, and delete this one."
            return Compared(copy=copy, state="refused", item=item, why=why)
        if not copy.is_edited and _told(item) in map(_told, self._earlier(whole)):
            return replace(told, state="older")
        if copy.base != now and not self._is_only_read(record):
            return replace(told, state="refused", why=_conflict(record.id))
        twin = known.texts.get(item.text)
        if twin and item.text != held.item.text:
            why = f"Record {twin} has this text already (`mcp-memory show {twin}`); put the former text back."
            return replace(told, state="refused", why=why)
        changes, untaken = _difference(held.item, item)
        if untaken or not changes:
            return replace(told, state="refused", why=_untaken(untaken or _LINKS, record.id))
        revision = Revision(id=record.id, version=record.version, **changes)
        return replace(told, state="edited", revision=revision)

    def _earlier(self, whole: WholeRecord) -> Iterator[NewRecord]:
        """Yield what the record says and said, the newest first; its entities and relations are the present ones."""
        record = whole.record
        yield _said(record, whole)
        for version in reversed(self._records.versions([record.id]).get(record.id, ())):
            record = before(record, version)
            yield _said(record, whole)

    def _is_only_read(self, record: Record) -> bool:
        """Return True for a record of another memory's copy that nobody changed here: the copy may have moved on."""
        history = self._records.versions([record.id]).get(record.id, ())
        return COPY_ID in record.details and all(each.reason == _REASON for each in history if each.takes_back)


def _new(compared: Sequence[Compared]) -> list[NewRecord]:
    items: list[NewRecord] = []
    for each in compared:
        if each.state == "new":
            named = {COPY_ID: each.copy.id} if each.copy.id else {}
            items.append(replace(each.item, details={**each.item.details, **named}, session_id=_SESSION))
    return items


def _copy_id(record: Record) -> str:
    given = record.details.get(COPY_ID)
    return given if isinstance(given, str) and is_copy_id(given) else _own_id(record)


def _own_id(record: Record) -> str:
    """Return an id that no other memory's record has: "r00003m-4f2a1c"."""
    made = f"{record.created_at!r} {record.agent}"
    return f"{record.id}-{hashlib.blake2b(made.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"


def _said(record: Record, whole: WholeRecord) -> NewRecord:
    """Return what a copy of the record says: times in whole seconds, names in order, no books of this memory."""
    entities = (Entity(name=e.name, type=e.type, properties=e.properties) for e in whole.mentions if not e.found)
    relations = (Relation(source=r.source, type=r.type, target=r.target, weight=r.weight) for r in whole.relations)
    return in_order(
        NewRecord(
            text=record.text,
            kind=record.kind,
            importance=record.importance,
            confidence=record.confidence,
            tags=record.tags,
            entities=tuple(entities),
            relations=tuple(relations),
            outcome=record.outcome,
            details=_carried(record.details),
            occurred_at=floor(record.occurred_at),
            valid_from=None if record.valid_from is None else floor(record.valid_from),
            valid_until=None if record.valid_until is None else floor(record.valid_until),
            pinned=record.pinned,
            speaker=record.speaker,
        )
    )


def _carried(details: Details) -> dict[str, Json]:
    """Return the details without those of one memory's own books."""
    references = {name for name in _REFERENCES & details.keys() if number_of(str(details[name]))}
    return {name: value for name, value in details.items() if name not in _OWN_DETAILS | references}


def in_order(item: NewRecord) -> NewRecord:
    """Return the item with its entities and relations by name, and numbers of one type."""
    times = {name: None if (at := getattr(item, name)) is None else float(at) for name in _TIMES}
    numbers = {"importance": float(item.importance)}
    numbers |= {} if item.confidence is None else {"confidence": float(item.confidence)}
    entities = tuple(sorted(item.entities, key=lambda each: (each.name, each.type)))
    relations = sorted(item.relations, key=lambda each: (each.source, each.type, each.target))
    relations = tuple(replace(each, weight=float(each.weight)) for each in relations)
    values: dict[str, Any] = {**times, **numbers}
    return replace(item, entities=entities, relations=relations, **values)


_TIMES = ("occurred_at", "valid_from", "valid_until")


def _told(item: NewRecord) -> str:
    return digest_of(replace(item, entities=(), relations=()))


def _difference(old: NewRecord, new: NewRecord) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a revision that makes the one the other, and the names of what no revision changes."""
    differing = [name for name in (*_REVISED, *_FIXED) if getattr(old, name) != getattr(new, name)]
    removed = [name for name in old.details if name not in new.details]
    untaken = [name for name in differing if name in _FIXED or getattr(new, name) is None]
    changes: dict[str, Any] = {name: getattr(new, name) for name in differing}
    said: Details = {name: value for name, value in new.details.items() if old.details.get(name) != value}
    return changes | ({"details": said} if said else {}), [*untaken, *(f"details.{name}" for name in removed)]


def _conflict(record_id: str) -> str:
    return (
        f"Record {record_id} changed in the memory as well; nothing was taken. `mcp-memory show {record_id}` shows what"
        f" it says. To let the file hold, run `mcp-memory edit {record_id} --text` with its text; to let the memory"
        " hold, take your change out of the file. Then export again."
    )


def _untaken(names: Sequence[str], record_id: str) -> str:
    return (
        f"No file changes {', '.join(names)} of a record, here {record_id}: put it back. `mcp-memory add` with the same"
        " text gives it another kind or time."
    )

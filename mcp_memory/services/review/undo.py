"""Undo: lists the latest writes, and takes one back, by its number, where nothing has changed its records since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.model.ids import RECORD, make_id, number_of
from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.model.reviews import Review
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.versions import CONFIRMED, Version, before
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso_day
from mcp_memory.domain.text.words import content_hash
from mcp_memory.errors import Conflict, NotFound
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Embedder, Vectors
from mcp_memory.ports.transaction import Transaction, VersionReader
from mcp_memory.services.review.embedding import embedded
from mcp_memory.services.review.enqueue import changed_in
from mcp_memory.services.review.reviews import Reviews
from mcp_memory.services.review.settle import Settled
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible, require_own

SETTLED_LOOKED_AT = 50
"""Settled groups among which one is looked for that the caller's agent settled last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """The number of the write that was taken back, its records as they are again, and the groups that wait again."""

    change: int
    records: tuple[Record, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """A write by somebody: its number, when and by whom it was made, and the write that took it back, 0 for none.

    `records` are the changed ones that the caller sees, each as it was before and after. `settled` is the group that
    the write settled.
    """

    change: int
    at: Instant
    agent: str
    client: str = ""
    undone: int = 0
    records: tuple[tuple[Record, Record], ...] = ()
    settled: Settled | None = None


class Undo:
    """Thread-safe; texts are embedded before the write lock is taken."""

    def __init__(self, records: RecordStore, reviews: Reviews, embedder: Embedder) -> None:
        self._records = records
        self._reviews = reviews
        self._embedder = embedder

    def latest(self, caller: Caller, limit: int) -> list[PastChange]:
        """Return the latest changes that somebody made of what the caller may change, newest first.

        Undos are none of them, and neither is what an agent stored: records of a person's command alone
        (`Remember(undoable=…)`) are.
        """
        with self._records.snapshot():
            where = replace(self._reviews.changeable(caller), include_inactive=True)
            settled = {each.change: each for each in self._reviews.settled(caller, limit)}
            numbers = sorted({*self._records.latest_writes(where, limit), *settled}, reverse=True)[:limit]
            return self._past(numbers, settled, caller)

    def last_own(self, caller: Caller) -> PastChange:
        """Return the latest change that stands, and that the caller's agent made with its client.

        Raises:
            NotFound: there is none.
            Conflict: since then the agent settled a group, and no record says with which client.
        """
        with self._records.snapshot():
            where = replace(self._reviews.changeable(caller), include_inactive=True)
            own = self._records.latest_writes(where, 1, caller)
            for each in self._reviews.settled(caller, SETTLED_LOOKED_AT):
                is_later = each.review.agent == caller.agent and each.change > max(own, default=0)
                if is_later and not self._records.written(each.change):
                    raise Conflict(
                        f"{caller.agent} has settled group {each.review.id} since (change {each.change}), and which"
                        " client did so is not known; name the change to undo. Nothing was changed."
                    )
            if not own:
                raise NotFound(
                    f"No change that {caller.agent} made with this client is left to undo; `mcp-memory undo` lists all."
                )
            return self._past(own, {}, caller)[0]

    def __call__(self, change: int, caller: Caller) -> TakenBack:
        """Give the records of a write the values that it replaced; let the group that it settled wait again.

        Contexts give again what the write excluded, and exclude again what it included.

        What a write added stays: records, confirmations, counts; but not a group that waits because of its words, nor
        the records of a write that lets an undo retire them (`RecordWriter.let_undo_retire`).
        Both writes stay in the history of this memory, and neither is exported.

        Raises:
            NotFound: no such write, it replaced nothing, or the caller does not see all of it.
            Conflict: it was undone, something changed a record since, or a record is only read here.
        """
        vectors = self._vectors(change, caller)
        with self._records.write(caller, f"undo of change {change}") as transaction:
            written = transaction.written(change)
            groups, excluded = transaction.reviews_of_write(change), transaction.excluded_in(change)
            if not written and not groups and not excluded:
                raise _unknown(change, _stored(change, caller, transaction))
            records = _require(change, [*written, *excluded], groups, caller, transaction)
            restored = [_restored(records[each], written[each], caller, transaction) for each in written]
            for old in restored:
                _refuse_twin(old, transaction)
                found = found_entities(old.text, old.speaker, old.details) if old.id in vectors else ()
                transaction.update(old, vectors.get(old.id), found)
            for review in groups:
                transaction.put_review(_waiting(review, change))
            _drop_occasioned(change, written, transaction)
            transaction.mark_undone(change)
        return TakenBack(change=change, records=tuple(restored), groups=tuple(each.id for each in groups))

    def refusal(self, change: int, caller: Caller) -> str:
        """Say why this write cannot be taken back as things are, "" where it may be. It changes nothing.

        A text that another record says since is noticed by the undo alone.
        """
        written = self._records.written(change)
        if self._records.get([*written], caller.scopes).keys() != written.keys():
            return "It changed a record that you do not see."
        for record_id, versions in written.items():
            if why := _refusal(record_id, versions, caller, self._records):
                return why
        return ""

    def beside(self, record_id: str, change: int, caller: Caller) -> int:
        """Count the other records of the write that the caller sees: an undo takes all of them back."""
        return len(self._records.get([*self._records.written(change)], caller.scopes).keys() - {record_id})

    def _past(self, numbers: Sequence[int], settled: Mapping[int, Settled], caller: Caller) -> list[PastChange]:
        """Return these writes, some of which settled a group."""
        written = {each: self._records.written(each) for each in numbers}
        ids = {record_id for versions in written.values() for record_id in versions}
        hidden = hidden_branches(self._records, caller)
        found = self._records.get(ids, caller.scopes).values()
        seen = {each.id: each for each in found if is_visible(each, caller, hidden)}
        history = self._records.versions([*seen])
        return [_past(each, written[each], settled.get(each), seen, history) for each in numbers]

    def _vectors(self, change: int, caller: Caller) -> Mapping[str, Vectors]:
        """Embed the texts that the write replaced."""
        texts = {
            record_id: old
            for record_id, versions in self._records.written(change).items()
            if (record := self._records.get([record_id], caller.scopes).get(record_id))
            and (old := _before(record, versions)).text != record.text
        }
        return {record_id: embedded(self._embedder, old.searchable_text) for record_id, old in texts.items()}


def _past(
    change: int,
    written: Mapping[str, Sequence[Version]],
    settled: Settled | None,
    seen: Mapping[str, Record],
    history: Mapping[str, Sequence[Version]],
) -> PastChange:
    """Return a write, given the records that are seen, as they are now, and all of their changes."""
    around = tuple(_around(seen[each], written[each], history[each]) for each in written if each in seen)
    if first := next((versions[0] for versions in written.values()), None):
        return PastChange(
            change=change, at=first.at, agent=first.agent, client=first.client, undone=first.undone, records=around,
            settled=settled,
        )  # fmt: skip
    assert settled is not None, "A write without versions is known by the group that it settled."
    review = settled.review
    return PastChange(change=change, at=review.settled_at or review.made_at, agent=review.agent, settled=settled)


def _around(record: Record, versions: Sequence[Version], history: Sequence[Version]) -> tuple[Record, Record]:
    """Return a record as it was before and after these of its changes."""
    after = _before(record, [each for each in history if each.change > versions[-1].change])
    return _before(after, versions), after


def _require(
    change: int, written: Collection[str], groups: Sequence[Review], caller: Caller, transaction: Transaction
) -> Mapping[str, Record]:
    """Return the records of the write and its groups, which the caller may all change."""
    record_ids = [*written, *(each for review in groups for each in review.record_ids)]
    try:
        return {each: require_own(each, caller, transaction) for each in record_ids}
    except NotFound:
        raise _unknown(change) from None


def _unknown(change: int, stored: str = "") -> NotFound:
    next_step = f" It stored {stored}; `mcp-memory forget {stored}` takes that out." if stored else ""
    return NotFound(f"Change {change} replaced nothing that you may restore.{next_step} Nothing was changed.")


def _stored(change: int, caller: Caller, transaction: Transaction) -> str:
    """Return the id of the caller's own record that a write without versions begins with; "" for none."""
    try:
        return require_own(make_id(RECORD, change), caller, transaction).id
    except (NotFound, Conflict):
        return ""


def _restored(record: Record, versions: Sequence[Version], caller: Caller, transaction: Transaction) -> Record:
    if why := _refusal(record.id, versions, caller, transaction):
        raise Conflict(f"{why} Nothing was changed.")
    old = _before(record, versions)
    return replace(old, updated_at=record.updated_at) if _later(record.id, versions, transaction) else old


def _refusal(record_id: str, versions: Sequence[Version], caller: Caller, reader: VersionReader) -> str:
    """Say why a record cannot be given the values that these changes replaced, "" where it can."""
    write, undone = versions[0].write, versions[0].undone
    if undone:
        done = "is an undo itself; make the change again" if undone == write else f"was undone by change {undone}"
        return f"Change {write} {done}."
    if any("normal_hash" in each.before and "text" not in each.before for each in versions):
        return f"The earlier words of record {record_id} are gone: it has moved to other readers since."
    touched = {name for each in versions for name in each.before} - {"updated_at"}
    # What an undo retires, it retires at whichever stage it is by now; only what somebody said of it since counts.
    retires = touched == {"status"} and versions[0].before["status"] == "retired"
    for each in _later(record_id, versions, reader):
        if each.takes_back if retires else each.reason != CONFIRMED or touched & each.before.keys():
            by = author(each.agent, caller) or "you"
            since = f"by {by} on {iso_day(each.at)} (change {each.write})"
            return f"Record {record_id} was changed since, {since}; undo that first."
    return ""


def _later(record_id: str, versions: Sequence[Version], reader: VersionReader) -> Sequence[Version]:
    """Return the changes of a record after these, but for those that were undone."""
    known = reader.versions([record_id])[record_id]
    return [each for each in known if each.change > versions[-1].change and not each.undone]


def _before(record: Record, versions: Sequence[Version]) -> Record:
    for each in reversed(versions):
        record = before(record, each)
    return record


def _drop_occasioned(change: int, record_ids: Collection[str], transaction: Transaction) -> None:
    """Drop the groups that waited because of what a write said, e.g. "8081 there, 8082 here"."""
    for review in transaction.reviews_of(list(record_ids)):
        is_later = number_of(review.id) > change and review.way is None and not review.question
        if is_later and changed_in(review, transaction):
            transaction.drop_review(review.id)


def _refuse_twin(old: Record, transaction: Transaction) -> None:
    twin = transaction.find_text(old.scope, content_hash(old.text))
    if twin is not None and twin.id != old.id and twin.holds and old.holds:
        raise Conflict(f"Record {twin.id} says since what {old.id} said; supersede one of them first.")


def _waiting(review: Review, change: int) -> Review:
    """Return the group as it was before that write; put to the user where it was then."""
    if review.settled_in not in (0, change):
        raise Conflict(f"Group {review.id} was settled since (change {review.settled_in}); undo that first.")
    if review.asked_in == change:
        return replace(review, question="", asked_in=0, asked_by="")
    return replace(review, way=None, settled_in=0, settled_at=None, agent="", reason="")

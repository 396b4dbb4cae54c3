"""Follow-ups: keeps built contexts for repeated requests, and continues those that the client still shows."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Literal

from mcp_memory.domain.context.budget import REST, Item, Placed
from mcp_memory.domain.context.items import Measure, record_item
from mcp_memory.domain.context.rendering import is_error
from mcp_memory.domain.context.scoring import Candidate, Scored
from mcp_memory.domain.model.context_sections import section_of
from mcp_memory.domain.model.contexts import Omission
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import KINDS, LOG_KINDS, Instant, Json, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.errors import BudgetTooSmall
from mcp_memory.ports.changes import Place
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.shown import ShownContext, ShownContexts, ShownItem
from mcp_memory.ports.text import Clock
from mcp_memory.services.context.fit_to_budget import UNLIKELY, WITHOUT_ROOM, Block, BlockDraft, compose, unchanged
from mcp_memory.services.context.question import RAW_CALL
from mcp_memory.services.tasks.branch_visibility import is_visible

CACHED_SECONDS = 30.0
CACHED = 32
"""Blocks kept whole for repeated requests, by this process."""
_Places = Mapping[str, Place]
SIMILAR_QUERY = 0.5
"""Cosine below which a query is a new question, which gets a new block."""
OF_OURS = frozenset({"task", "text", "strategy", "entity", "relation", "note"})
"""Kinds of items that are not records."""
MOVING = frozenset({"task", "text", "strategy", "note"})
"""Kinds of such items whose change makes nothing false: the new line is simply new."""
PRESSURE = "token pressure"
UNKNOWN = "the earlier context is not known here"
CROWDED = WITHOUT_ROOM | {UNLIKELY, RAW_CALL}
"""Reasons for which a block leaves out what bears on its question."""
TRAFFIC = LOG_KINDS - {"event"}
"""Kinds that the client's own window shows."""
LOOKED_AT, ERRORS_SAID = 50, 3
"""So many of the newest records are read, and so many errors among them are said."""
CAREFUL = "decision"
"""The strategy for which every follow-up rebuilds the whole block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A whole block and its origins: its draft, question, filter, strategy, and the memory's revision."""

    draft: BlockDraft
    block: Block
    metadata: Mapping[str, Json]
    asked: str
    vector: Vector | None
    where: RecordFilter
    strategy: str
    revision: int
    weighs_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The block to answer with, and how it follows from the one that the client still shows; "" where there is none.

    `reason` is that of a rebuilt one, `previous` what an added one continues, `errors` the ids of new errors that an
    unchanged one names. `is_short` is True where it says that it is unchanged, instead of its text. `shown` is what
    the client shows then, where that is to be kept.
    """

    block: Block
    follow_up: Literal["", "unchanged", "added", "rebuilt"] = ""
    reason: str = ""
    previous: str = ""
    errors: Sequence[str] = ()
    is_short: bool = False
    shown: ShownContext | None = None

    def told(self) -> dict[str, Json]:
        """Return what the report of the block keeps of this."""
        told = {"unchanged": self.is_short, "follow_up": self.follow_up, "reason": self.reason}
        told |= {"previous": self.previous, "errors": list(self.errors)}
        return {name: value for name, value in told.items() if value}


class FollowUps:
    """Keeps blocks for a while in this process, and continues those that clients were shown. Thread-safe."""

    def __init__(self, records: RecordReader, shown: ShownContexts, clock: Clock) -> None:
        self._records = records
        self._shown = shown
        self._clock = clock
        self._cached: OrderedDict[Hashable, tuple[float, _Places, Built]] = OrderedDict()
        self._lock = threading.Lock()

    def keeps(self, key: Hashable) -> bool:
        """Return True where a block is kept under this key, of whatever places."""
        with self._lock:
            return key in self._cached

    def built(self, key: Hashable, places: _Places) -> Built | None:
        """Return the block kept under this key within the last half minute, where the caller's partitions are there."""
        with self._lock:
            at, kept_at, built = self._cached.get(key, (0.0, None, None))
            is_fresh = kept_at == places and 0 <= self._clock() - at <= CACHED_SECONDS
            return built if is_fresh else None

    def keep(self, key: Hashable, places: _Places, built: Built) -> None:
        with self._lock:
            self._cached[key] = (self._clock(), places, built)
            self._cached.move_to_end(key)
            while len(self._cached) > CACHED:
                self._cached.popitem(last=False)

    def kept(self, followed: Followed, caller: Caller) -> None:
        """Keep what the client shows now. Not within a snapshot, whose end others wait for."""
        if followed.shown:
            self._shown.keep(followed.shown, caller)

    def forget(self) -> None:
        with self._lock:
            self._cached.clear()
        self._shown.forget()

    def follow(self, previous: str | None, built: Built, caller: Caller, measure: Measure) -> Followed:
        """Return the block to answer with, and how it follows from the one that the client still shows.

        The shown block stays (`unchanged`, with a line for each new error that it does not show), is extended with what
        is new (`added`), or is replaced by the whole (`rebuilt`), with the reason. Those two hold such lines as well.
        """
        if previous is None:
            return _whole(built, built.block)
        earlier = self._shown.shown(previous, caller)
        if previous == built.block.report.id:
            return self._unchanged(earlier, built, built.block, caller, measure)
        if earlier is None:
            return _whole(built, built.block, UNKNOWN)
        if reason := self._outdated(earlier, built, caller, measure):
            return self._rebuilt(earlier, built, previous, reason, caller, measure)
        new = _new(earlier, built)
        if not new:
            block = Block(text=earlier.text, report=earlier.report, placed=())
            return self._unchanged(earlier, built, block, caller, measure)
        errors = [_error_item(each, caller, measure, self._clock()) for each in self._errors_since(earlier, built)]
        added = _added(earlier, built, new, errors, previous, measure)
        if added is None:
            return self._rebuilt(earlier, built, previous, PRESSURE, caller, measure)
        items = {**earlier.items, **{each.item.id: _shown_item(each.item) for each in added.placed}}
        tokens = earlier.tokens + added.report.token_count
        shown = _shown_context(built, added, items, tokens)
        return Followed(block=added, follow_up="added", previous=previous, shown=shown)

    def _unchanged(
        self, earlier: ShownContext | None, built: Built, block: Block, caller: Caller, measure: Measure
    ) -> Followed:
        """Say that the client still shows the block instead of repeating it, where that is shorter."""
        records = self._errors_since(earlier, built) if earlier else []
        errors = [_error_item(each, caller, measure, self._clock()) for each in records]
        text, tokens = unchanged(block.report.id, measure, [each.forms[0].text for each in errors])
        shown: ShownContext | None = None
        if earlier and errors and tokens <= built.draft.budget:
            shown = replace(earlier, revision=built.revision)
        elif block.text and tokens > block.report.token_count:  # Another server's words are not known here.
            return Followed(block=block, follow_up="unchanged")
        else:
            text, tokens = unchanged(block.report.id, measure)
            errors = []
        short = replace(block, text=text, report=replace(block.report, token_count=tokens))
        ids = [each.id for each in errors]
        return Followed(block=short, follow_up="unchanged", errors=ids, is_short=True, shown=shown)

    def _errors_since(self, earlier: ShownContext, built: Built) -> list[Record]:
        """Return the newest errors since then that neither the client nor the block shows.

        One that the block left out for another reason than its room does not bear on the question.
        """
        aside = {each.id for each in built.block.report.omitted if each.reason not in CROWDED} | earlier.items.keys()
        aside |= {each.item.id for each in built.block.placed}
        where = replace(built.where, kinds=(built.where.kinds or frozenset(KINDS)) - TRAFFIC, passing=None)
        newest = self._records.list(where, "created", LOOKED_AT) if where.kinds else ()
        since = [each for each in newest if number_of(each.id) > earlier.revision and each.id not in aside]
        return [each for each in since if is_error(each)][:ERRORS_SAID]

    def _outdated(self, earlier: ShownContext, built: Built, caller: Caller, measure: Measure) -> str:
        """Return the reason why the shown block cannot be continued; empty where it can."""
        if built.strategy != earlier.strategy:
            return "another strategy"
        if built.strategy == CAREFUL:
            return "a decision is about to be made"
        if _filters_of(built) != earlier.filters:
            return "other filters"
        if _similarity(earlier, built) < SIMILAR_QUERY:
            return "another question"
        if earlier.tokens > built.draft.budget:
            return PRESSURE
        return "what was shown has changed" if self._has_changed(earlier, built, caller, measure) else ""

    def _has_changed(self, earlier: ShownContext, built: Built, caller: Caller, measure: Measure) -> bool:
        """Return True where any shown item is no longer so. Tasks move on: their new lines are added."""
        now = {item.id: item for item in built.draft.items}
        gone: dict[str, ShownItem] = {}
        for item_id, item in earlier.items.items():
            if item_id not in now:
                gone[item_id] = item
            elif item.kind not in MOVING and not _is_same(item, now[item_id]):
                return True
        return bool(self._false(gone, built.where, caller, measure))

    def _false(
        self, items: Mapping[str, ShownItem], where: RecordFilter, caller: Caller, measure: Measure
    ) -> frozenset[str]:
        """Return ids of items that are no longer valid, or no longer visible.

        Entity facts are gathered again each time, so that a missing one is no longer valid.
        """
        held = {each: item for each, item in items.items() if item.kind not in ("text", "strategy", "note")}
        records = [each for each, item in held.items() if item.kind not in OF_OURS]
        there = self._records.get(records, caller.scopes) if records else dict[str, Record]()
        return frozenset(
            each for each, item in held.items()
            if each not in there or not _still(there[each], item, where, caller, measure)
        )  # fmt: skip

    def _rebuilt(
        self, earlier: ShownContext, built: Built, previous: str, reason: str, caller: Caller, measure: Measure
    ) -> Followed:
        block = built.block
        draft = replace(built.draft, link=f' replaces="{previous}"', is_cut=block.report.truncated)
        errors = [_error_item(each, caller, measure, self._clock()) for each in self._errors_since(earlier, built)]
        with suppress(BudgetTooSmall):  # Without room for the link, it is the plain block.
            block = compose(draft, measure)
            block = compose(_with_errors(draft, errors), measure) if errors else block
        return _whole(built, block, reason)


def _whole(built: Built, block: Block, reason: str = "") -> Followed:
    """Answer with the block as all that the client shows; with a reason, it takes the place of another.

    What it had to leave out of the whole for an error or its link is known too: it would be new next time.
    """
    items = {each.item.id: _shown_item(each.item) for each in (*built.block.placed, *block.placed)}
    shown = _shown_context(built, block, items, block.report.token_count)
    return Followed(block=block, follow_up="rebuilt" if reason else "", reason=reason, shown=shown)


def _shown_context(built: Built, block: Block, items: Mapping[str, ShownItem], tokens: int) -> ShownContext:
    return ShownContext(
        report=block.report,
        text=block.text,
        items=items,
        tokens=tokens,
        asked=_digest(built.asked),
        vector=built.vector,
        filters=_filters_of(built),
        strategy=built.strategy,
        revision=built.revision,
    )


def _shown_item(item: Item) -> ShownItem:
    """Return the item without its words; a record's `content` changes with them, so its forms need not be made."""
    texts = _texts(item) if item.kind in MOVING or not item.content else ()
    return ShownItem(
        kind=item.kind, source=item.source, section=item.section, share=item.share, content=item.content, texts=texts
    )


def _filters_of(built: Built) -> str:
    """Return a digest of the filter, the same in any process: sets have no order of their own."""
    return _digest(json.dumps(asdict(built.where), default=sorted, sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _error_item(record: Record, caller: Caller, measure: Measure, now: Instant) -> Item:
    """Return an item of the record's shortest line, as a block has it, which never drops out."""
    each = Scored(candidate=Candidate(record=record, source="recent"), score=0.0, parts={})
    name, section = author(record.author, caller), section_of(record).title
    item = record_item(each, measure, section=section, share=REST, author=name, now=now)
    return replace(item, forms=item.forms[-1:], required=True)


def _with_errors(draft: BlockDraft, errors: Sequence[Item]) -> BlockDraft:
    """Return the draft with these errors instead of what it knows of them."""
    ids = {each.id for each in errors}
    return replace(
        draft,
        items=[*errors, *(each for each in draft.items if each.id not in ids)],
        omitted=[each for each in draft.omitted if each.id not in ids],
        crowded_out=[each for each in draft.crowded_out if each.id not in ids],
    )


def _still(record: Record, item: ShownItem, where: RecordFilter, caller: Caller, measure: Measure) -> bool:
    """Return True where the record may be shown, and in the same words."""
    if not record.holds or not is_visible(record, caller, where.hidden_branches):
        return False
    each = Scored(candidate=Candidate(record=record, source=item.source), score=0.0, parts={})
    name = author(record.author, caller)
    now = record_item(each, measure, section=item.section, share=item.share, author=name)
    return _is_same(item, now)


def _is_same(shown: ShownItem, now: Item) -> bool:
    """Return True where an item shows nothing but what it can show now; passages of one text vary with the query."""
    return shown.content == now.content and (bool(now.content) or set(shown.texts) <= set(_texts(now)))


def _texts(item: Item) -> tuple[str, ...]:
    """Return digests of the item's forms."""
    return tuple(_digest(form.text) for form in item.forms)


def _new(earlier: ShownContext, built: Built) -> list[Placed]:
    """Return the items that the client does not show yet; a task's line is new when the task has moved on."""
    return [
        each
        for each in built.block.placed
        if each.item.id not in earlier.items
        or (each.item.kind in MOVING and _texts(each.item) != earlier.items[each.item.id].texts)
    ]


def _added(
    earlier: ShownContext, built: Built, new: Sequence[Placed], errors: Sequence[Item], previous: str, measure: Measure
) -> Block | None:
    """Return a block of the new items and the errors; None where it does not fit beside the shown ones."""
    fresh = {each.item.id for each in new}
    known = [each.item.id for each in built.block.placed if each.item.id not in fresh]
    items = [replace(each.item, forms=(each.form,), required=False, share="rest") for each in new]
    draft = replace(
        built.draft,
        items=items,
        omitted=[*built.block.report.omitted, *(Omission(id=each, reason="shown already") for each in known)],
        crowded_out=(),
        is_cut=False,
        budget=built.draft.budget - earlier.tokens,
        link=f' adds-to="{previous}"',
        shares={},
        flexible=None,
    )
    for explain in dict.fromkeys((built.draft.explain, False)):
        with suppress(BudgetTooSmall):
            block = compose(_with_errors(replace(draft, explain=explain), errors), measure)
            if not block.report.truncated:
                return replace(block, report=replace(block.report, truncated=built.block.report.truncated))
    return None


def _similarity(earlier: ShownContext, built: Built) -> float:
    """Return the cosine of two questions; without an embedding only equal texts are alike."""
    if earlier.vector is None or built.vector is None:
        return float(earlier.asked == _digest(built.asked))
    return float(earlier.vector @ built.vector)

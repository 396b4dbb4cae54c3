"""What is kept of built contexts: for a repeated request, for one that goes on from what the client still shows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mcp_memory.domain.budget import Form, Item, Placed
from mcp_memory.domain.items import Measure
from mcp_memory.domain.queries import Vector
from mcp_memory.domain.records import Json, Record
from mcp_memory.domain.scopes import Caller
from mcp_memory.errors import BudgetTooSmall
from mcp_memory.ports import Clock, RecordStore
from mcp_memory.services.composing import FLAT_SECTION, Block, Draft, compose, unchanged

CACHED_SECONDS = 30.0
CACHED, SHOWN = 32, 256
"""Blocks kept whole for repeated requests, and blocks known well enough to go on from; per process."""
SIMILAR_QUERY = 0.5
"""Below this cosine a query is another question, and its answer another block."""
OF_OURS = frozenset({"task", "text", "strategy", "entity", "relation", "note"})
"""Kinds of items that are no records: where one has changed, its new line is simply new."""
CAREFUL = "decision"
"""Before a decision the whole is looked at anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A whole block with what it was made of: its draft, its question and the strategy it was made by."""

    draft: Draft
    block: Block
    metadata: Mapping[str, Json]
    asked: str
    vector: Vector | None
    strategy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What a client sees under a context's id, the blocks that it goes on from included."""

    built: Built
    forms: Mapping[str, tuple[Form, ...]]
    tokens: int


class FollowingUp:
    """Remembers blocks for a while, in this process alone. Thread-safe."""

    def __init__(self, records: RecordStore, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._cached: OrderedDict[Hashable, tuple[float, Built]] = OrderedDict()
        self._shown: OrderedDict[tuple[str, str, str], _Shown] = OrderedDict()
        self._lock = threading.Lock()

    def built(self, key: Hashable) -> Built | None:
        """What was kept under this key half a minute ago or less."""
        with self._lock:
            at, built = self._cached.get(key, (0.0, None))
            return built if built and 0 <= self._clock() - at <= CACHED_SECONDS else None

    def keep(self, key: Hashable, built: Built) -> None:
        with self._lock:
            self._cached[key] = (self._clock(), built)
            while len(self._cached) > CACHED:
                self._cached.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._cached.clear()
            self._shown.clear()

    def follow(
        self, previous: str | None, built: Built, caller: Caller, measure: Measure
    ) -> tuple[Block, Mapping[str, Json]]:
        """The block to answer with, and what to say of how it follows from the one that the client still shows.

        That one stands as it is (`unchanged`), is gone on from with what is new (`added`), or gives way to the whole
        (`rebuilt`), with the reason.
        """
        if previous is None:
            self._note(caller, built.block, _Shown(built=built, forms=_forms(built), tokens=_tokens(built.block)))
            return built.block, {}
        if previous == built.block.report.id:
            return _unchanged(built.block, built, measure)
        earlier = self._known(caller, previous)
        if earlier is None:
            return self._rebuilt(built, "", "the earlier context is not known here", caller, measure)
        if reason := self._outdated(earlier, built, caller):
            return self._rebuilt(built, previous, reason, caller, measure)
        new = _new(earlier, built)
        if not new:
            return _unchanged(earlier.built.block, built, measure, previous)
        added = _added(earlier, built, new, previous, measure)
        if added is None:
            return self._rebuilt(built, previous, "token pressure", caller, measure)
        forms = {**earlier.forms, **{each.item.id: each.item.forms for each in new}}
        self._note(caller, added, _Shown(built=built, forms=forms, tokens=earlier.tokens + _tokens(added)))
        return added, {"follow_up": "added", "previous": previous}

    def with_first(self, context_id: str, item: Item, caller: Caller, measure: Measure) -> Block | None:
        """A block made earlier with this item before all others, the least wanted dropped until it fits.

        None where the context is not known here, or has been gone on from.
        """
        shown = self._known(caller, context_id)
        if shown is None or shown.built.block.report.id != context_id:
            return None
        placed = [each for each in shown.built.block.placed if each.item.id != item.id]
        if any(each.item.section == FLAT_SECTION for each in placed):
            item = replace(item, section=FLAT_SECTION)
        kept = sorted(placed, key=lambda each: (not each.item.required, each.item.share == "rest", -each.item.score))
        items = [replace(item, required=True, position=-1, group=""), *(replace(e.item, forms=(e.form,)) for e in kept)]
        before = shown.built.block.report
        omitted = [omission for omission in before.omitted if omission.id != item.id]
        draft = replace(shown.built.draft, items=items, omitted=omitted, crowded_out=(), shares={}, flexible=None)
        block = compose(draft, measure)
        is_cut = block.report.truncated or before.truncated
        report = replace(block.report, strategy=before.strategy, truncated=is_cut, metadata={"added": item.id})
        block = replace(block, report=report)
        built = replace(shown.built, draft=draft, block=block)
        self._note(caller, block, _Shown(built=built, forms=_forms(built), tokens=_tokens(block)))
        return block

    def _outdated(self, earlier: _Shown, built: Built, caller: Caller) -> str:
        """Why what is shown cannot be gone on from; empty where it can."""
        before = earlier.built
        if built.strategy != before.strategy:
            return "another strategy"
        if built.strategy == CAREFUL:
            return "a decision is about to be made"
        if _similarity(before, built) < SIMILAR_QUERY:
            return "another question"
        return "what was shown has changed" if self._has_changed(earlier, built, caller) else ""

    def _has_changed(self, earlier: _Shown, built: Built, caller: Caller) -> bool:
        """Whether something that the client shows is not so any more. Tasks move on: their new lines are added."""
        now = {item.id: item for item in built.draft.items}
        records = {item.id for item in earlier.built.draft.items if item.kind not in OF_OURS}
        shown = {record_id: forms for record_id, forms in earlier.forms.items() if record_id in records}
        if any(record_id in now and now[record_id].forms != forms for record_id, forms in shown.items()):
            return True
        gone = shown.keys() - now.keys()
        there = self._records.get(gone, caller.scopes) if gone else dict[str, Record]()
        return any(i not in there or not there[i].is_live or there[i].status == "superseded" for i in gone)

    def _rebuilt(
        self, built: Built, previous: str, reason: str, caller: Caller, measure: Measure
    ) -> tuple[Block, Mapping[str, Json]]:
        block = built.block
        if previous:
            with suppress(BudgetTooSmall):  # With no room to say what it replaces, it is the plain block.
                whole = compose(replace(built.draft, link=f' replaces="{previous}"'), measure)
                report = replace(whole.report, strategy=block.report.strategy, truncated=block.report.truncated)
                block = replace(whole, report=report)
        self._note(caller, block, _Shown(built=built, forms=_forms(built), tokens=_tokens(block)))
        return block, {"follow_up": "rebuilt", "reason": reason}

    def _known(self, caller: Caller, context_id: str) -> _Shown | None:
        with self._lock:
            return self._shown.get((caller.namespace, caller.agent, context_id))

    def _note(self, caller: Caller, block: Block, shown: _Shown) -> None:
        with self._lock:
            key = (caller.namespace, caller.agent, block.report.id)
            self._shown[key] = shown
            self._shown.move_to_end(key)
            while len(self._shown) > SHOWN:
                self._shown.popitem(last=False)


def _unchanged(block: Block, built: Built, measure: Measure, context_id: str = "") -> tuple[Block, Mapping[str, Json]]:
    """The client still shows it: say so instead of repeating it, where that is shorter."""
    text, tokens = unchanged(context_id or block.report.id, measure)
    if tokens > block.report.token_count:
        return built.block, {"follow_up": "unchanged"}
    report = replace(block.report, id=context_id or block.report.id, token_count=tokens)
    return replace(block, text=text, report=report), {"unchanged": True, "follow_up": "unchanged"}


def _new(earlier: _Shown, built: Built) -> list[Placed]:
    """What the client does not show yet; a task's line is new when the task has moved on."""
    return [
        each
        for each in built.block.placed
        if each.item.id not in earlier.forms
        or (each.item.kind in OF_OURS and each.item.forms != earlier.forms[each.item.id])
    ]


def _added(earlier: _Shown, built: Built, new: Sequence[Placed], previous: str, measure: Measure) -> Block | None:
    """A block of what is new; None where it does not fit beside what is shown."""
    items = [replace(each.item, forms=(each.form,), required=False, share="rest") for each in new]
    draft = replace(
        built.draft,
        items=items,
        omitted=built.block.report.omitted,
        crowded_out=(),
        budget=built.draft.budget - earlier.tokens,
        link=f' adds-to="{previous}"',
        shares={},
        flexible=None,
        explain=False,
    )
    try:
        block = compose(draft, measure)
    except BudgetTooSmall:
        return None
    if block.report.truncated:
        return None
    whole = built.block.report
    return replace(block, report=replace(block.report, strategy=whole.strategy, truncated=whole.truncated))


def _similarity(one: Built, other: Built) -> float:
    """The cosine of two questions; of one that was not embedded only the same words are alike."""
    if one.vector is None or other.vector is None:
        return float(one.asked == other.asked)
    return float(one.vector @ other.vector)


def _forms(built: Built) -> dict[str, tuple[Form, ...]]:
    return {each.item.id: each.item.forms for each in built.block.placed}


def _tokens(block: Block) -> int:
    return block.report.token_count

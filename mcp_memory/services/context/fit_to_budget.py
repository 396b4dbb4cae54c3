"""Fits items to the budget: chooses by estimates, renders, counts the whole text, and drops items until it fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcp_memory.domain.context.budget import CHOSEN, KNOWN, LEARNT, PINNED, REST, Item, Placed, arranged, place
from mcp_memory.domain.context.filling import ANSWERS, fill, least_chance
from mcp_memory.domain.context.items import Measure
from mcp_memory.domain.context.rendering import Line, parts_of, render
from mcp_memory.domain.model.contexts import BlockPart, Component, ContextReport, Omission
from mcp_memory.domain.model.records import LOG_KINDS
from mcp_memory.domain.model.requests import Order
from mcp_memory.domain.model.strategy import SECTION_SHARES
from mcp_memory.errors import BudgetTooSmall

FLAT_SECTION = "Relevant Content"
"""The section of strategies that keep one order across kinds."""
PARTS_OF_LEARNT = SECTION_SHARES | {KNOWN, LEARNT}
EXPLAINED = 5  # ids named for each reason
NO_ROOM = "no room in the budget"
NO_SHARE = "no room in its part of the budget"
"""It would fit into what stayed free, but its section had as much as it may have."""
NO_ROOM_PINNED = "pinned, but no room in the budget"
UNLIKELY = "less likely to help than so small a block asks for"
WITHOUT_ROOM = frozenset({NO_ROOM, NO_SHARE, NO_ROOM_PINNED})
NOTE_TOKENS = 80  # reserved for the note that explains omissions
SPARE_SHARE = 0.015
"""Estimates err on the safe side; where they leave more than this share unused, one more try aims higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDraft:
    """All items that compete for a block, best first within each share, and the layout.

    `crowded_out` are candidates behind more items than could ever fit; `is_cut` marks earlier omissions. `digest` tells
    requests apart in the block's id; `link` is in the fence and names the block that this one continues. `answers` is
    True where a question fills the block.
    """

    items: Sequence[Item]
    omitted: Sequence[Omission]
    budget: int
    digest: str
    strategy: str
    link: str = ""
    crowded_out: Sequence[Omission] = ()
    is_cut: bool = False
    answers: bool = False
    order: Order = "best_first"
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    flexible: int | None = None
    cheapest_first: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The text, its report, and the placed items, best first, for follow-ups."""

    text: str
    report: ContextReport
    placed: Sequence[Placed]


def compose(draft: BlockDraft, measure: Measure) -> Block:
    """Return a block whose tokens never exceed the budget.

    Raises:
        BudgetTooSmall: not even the fence and the required lines fit; the message names the least that works.
    """
    _require_least(draft, measure)
    tried = _tried(draft, measure, draft.budget)
    can_gain = any(item.share != KNOWN for item in tried.left_out)  # Of what nobody asked for there is half at most.
    if can_gain and tried.estimated - tried.most >= draft.budget * SPARE_SHARE:
        again = _tried(draft, measure, draft.budget + tried.estimated - tried.most)
        there = _answers(tried)  # None of them gives way to what their leftover was for.
        tried = max(tried, again, key=lambda each: (there <= _answers(each), each.most))
    omitted = _omitted(draft, tried.left_out, draft.budget - tried.estimated)
    report = ContextReport(
        id=tried.id, token_count=tried.tokens, strategy=draft.strategy,
        truncated=draft.is_cut or any(each.reason in WITHOUT_ROOM for each in omitted),
        components=tuple(_component(each) for each in tried.placed), omitted=tuple(omitted),
        block=tried.parts,
    )  # fmt: skip
    return Block(text=tried.text, report=report, placed=tried.placed)


def unchanged(context_id: str, measure: Measure, besides: Sequence[str] = ()) -> tuple[str, int]:
    """Return the replacement of a block that the client still shows, with lines that it has no room for; its tokens."""
    said = "\n".join(["unchanged, and since then:", *besides]) if besides else "unchanged"
    text = f'<memory-context id="{context_id}">\n{said}\n</memory-context>'
    return text, measure.count(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One block that fits; it costs `most` tokens at most, and was `estimated` to cost as many."""

    text: str
    parts: tuple[BlockPart, ...]
    id: str
    tokens: int
    most: int
    estimated: int
    placed: Sequence[Placed]
    left_out: Sequence[Item]


def _tried(draft: BlockDraft, measure: Measure, aimed: int) -> _Tried:
    """Place by estimates for that many tokens, render, count the whole text, and drop items until it fits."""
    explain = draft.explain
    placed, left_out = _place(draft, measure, aimed, explain=explain)
    while True:
        note = _note(_omitted(draft, left_out, draft.budget - _estimated(placed, draft, measure))) if explain else ""
        lines = _lines(arranged(placed, draft.order), note)
        text, context_id = render(lines, draft.digest, draft.link)
        raw = measure.count_raw(text)
        most = measure.scaled(raw + _margin(context_id, measure))
        if most <= draft.budget:
            return _Tried(
                text=text, parts=parts_of(text, lines), id=context_id, tokens=measure.scaled(raw), most=most,
                estimated=_estimated(placed, draft, measure), placed=placed, left_out=left_out,
            )  # fmt: skip
        if explain and all(each.item.required for each in placed):
            explain = False  # Not even the note alone fits: give its room to the items.
            placed, left_out = _place(draft, measure, aimed, explain=False)
            continue
        placed, dropped = _give_way(placed, most - draft.budget)
        left_out = [*left_out, *dropped]


def _answers(tried: _Tried) -> frozenset[str]:
    return frozenset(each.item.id for each in tried.placed if each.item.share == ANSWERS)


def _place(draft: BlockDraft, measure: Measure, aimed: int, *, explain: bool) -> tuple[list[Placed], list[Item]]:
    titles = _title_tokens(draft.items, measure)
    fence = _most(render([], "", draft.link), measure)
    note = measure.scaled(NOTE_TOKENS) if explain else 0
    if draft.answers and not draft.cheapest_first:
        return fill(draft.items, aimed - fence - note, titles, flexible=draft.flexible)
    return place(
        draft.items,
        aimed - fence - note,
        titles,
        shares=draft.shares,
        flexible=draft.flexible,
        cheapest_first=draft.cheapest_first,
    )


def _title_tokens(items: Sequence[Item], measure: Measure) -> dict[str, int]:
    return {section: measure.count(f"## {section}\n") for section in {item.section for item in items}}


def _estimated(placed: Sequence[Placed], draft: BlockDraft, measure: Measure) -> int:
    """Return the estimate of a block of these items."""
    titles = _title_tokens([each.item for each in placed], measure)
    return sum(each.form.tokens for each in placed) + sum(titles.values()) + _most(render([], "", draft.link), measure)


def no_room(source: str) -> str:
    """Return the reason why a candidate of that source is left out of a full block."""
    return NO_ROOM_PINNED if source == PINNED else NO_ROOM


def _omitted(draft: BlockDraft, left_out: Sequence[Item], free: int) -> list[Omission]:
    """Return what is not in the block, with reasons, where about so many tokens stayed free."""
    least = least_chance(draft.budget) if draft.answers else 0.0
    omitted = [*draft.omitted]
    for item in left_out:
        is_bounded = (
            draft.answers and item.share not in (ANSWERS, CHOSEN) and (item.least or item.forms[-1].tokens) < free
        )
        room = NO_SHARE if is_bounded else no_room(item.source)
        if item.chance < least:
            omitted.append(Omission(id=item.id, reason=UNLIKELY, score=round(item.chance, 2), needed=round(least, 2)))
        else:
            omitted.append(Omission(id=item.id, reason=room))
    return [*omitted, *draft.crowded_out]


def _require_least(draft: BlockDraft, measure: Measure) -> None:
    """Raise BudgetTooSmall where the fence and the required lines, at their shortest, do not fit."""
    required = [Line(section=item.section, text=item.forms[-1].text) for item in draft.items if item.required]
    least = _most(render(required, "", draft.link), measure)
    if least > draft.budget:
        raise BudgetTooSmall(least)


def _most(rendered: tuple[str, str], measure: Measure) -> int:
    """Return a block's tokens for any id."""
    text, context_id = rendered
    return measure.scaled(measure.count_raw(text) + _margin(context_id, measure))


def _margin(context_id: str, measure: Measure) -> int:
    """Return the most that another id could cost: one token per character, so that no digest exceeds the budget."""
    return len(context_id) - measure.count_raw(context_id)


def _lines(placed: Sequence[Placed], note: str) -> list[Line]:
    """Return lines in reading order within each section: by position where items have one, else as arranged."""
    lines = [
        Line(
            section=each.item.section,
            text=each.form.text,
            id=each.item.id,
            group=each.item.group,
            short=each.form.short,
            time=each.item.time,
        )
        for each in sorted(placed, key=lambda each: each.item.position)
    ]
    return [*lines, Line(section="Note", text=note)] if note else lines


def _note(omitted: Sequence[Omission]) -> str:
    """Count the omitted candidates by reason, with the first few ids."""
    if not omitted:
        return "- Nothing was left out."
    reasons: dict[str, list[str]] = {}
    for omission in omitted:
        reasons.setdefault(_in_general(omission.reason), []).append(omission.id)
    parts = [f"{len(ids)} {reason} ({', '.join(ids[:EXPLAINED])})" for reason, ids in sorted(reasons.items())]
    return f"- Left out: {'; '.join(parts)}. `recall` with an id opens it."


def _in_general(reason: str) -> str:
    """Return the reason without the record it names."""
    return next((general for general in ("superseded", "says the same") if reason.startswith(general)), reason)


def _give_way(placed: Sequence[Placed], excess: int) -> tuple[list[Placed], list[Item]]:
    """Drop the lowest-ranked items until their estimates cover the excess; then shorten the required ones."""
    dropped: dict[str, Item] = {}
    for each in _least_wanted(placed):
        if excess > 0 and not each.item.required:
            dropped[each.item.id] = each.item
            excess -= each.form.tokens
    kept = [each for each in placed if each.item.id not in dropped]
    if all(each.item.required for each in kept):
        kept = [Placed(item=each.item, form=each.item.forms[-1]) for each in kept]
    return kept, list(dropped.values())


def _least_wanted(placed: Sequence[Placed]) -> Sequence[Placed]:
    """Return items from the last to the first; where lasting records have a share, the log goes first."""
    has_part = any(each.item.share in PARTS_OF_LEARNT for each in placed)
    from_last = placed[::-1]
    return sorted(from_last, key=lambda each: not (has_part and _is_log(each.item)))


def _is_log(item: Item) -> bool:
    return item.share == REST and item.kind in LOG_KINDS


def _component(placed: Placed) -> Component:
    item = placed.item
    return Component(
        source=item.source, kind=item.kind, id=item.id, tokens=placed.form.tokens, score=item.score,
        detail=placed.form.detail, agent=item.author, section=item.section, text=placed.form.text, parts=item.parts,
    )  # fmt: skip

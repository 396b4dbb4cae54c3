"""The screen of reviews: groups of records side by side, settled as agents do, and what was settled lately."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from mcp_memory.domain.model.ids import REVIEW, number_of
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff
from mcp_memory.entrypoints.page.versions import LOOKED_AT
from mcp_memory.entrypoints.page.visits import TEXT_BYTES, ReviewMark, Screen, Visit, checked_id
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.wire import ReviseArguments
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.review.settle import Settled, Settling

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Record
    from mcp_memory.domain.model.reviews import Review, ReviewKind
    from mcp_memory.services.review.reviews import Waiting

NAME: Final = "Review"
GROUPS_SHOWN: Final = 10
GROUP_CHARACTERS: Final = 4_000
"""Characters of each text of a group that are shown."""
SETTLED_SHOWN: Final = 20
TITLES: Final[Mapping[ReviewKind, str]] = {
    "contradictions": "These may contradict each other",
    "dependents": "What this depends on has changed",
    "guidance": "This names something that is gone",
    "duplicates": "These may say the same",
    "noted": "This was only noted, and has been used since",
}
HAS_CHANGED: Final = "Is what depends on this still right?"
NAMED_CHARACTERS: Final = 60
"""Characters of a record's text by which a notice names it."""
_PLACE: Final = re.compile(r"([0-2])(g[0-9a-z]{4,12})")  # "0g00001a"
_STAYS: Final[Mapping[ReviewKind, str]] = {"noted": "stays only noted"}
"""The words for a single record that was left alone, by kind; any other "stays as it is"."""
_BOTH_TRUE: Final[Mapping[ReviewKind, str]] = {
    "dependents": "It is still right", "guidance": "It is still right", "noted": "Keep it"
}  # fmt: skip


_MARKS: Final[Mapping[ReviewKind, str]] = {
    "contradictions": "contradiction?", "dependents": "still right?", "guidance": "still right?",
    "duplicates": "duplicate?", "noted": "keep?",
}  # fmt: skip
"""The mark of a record that waits for a verdict, by what waits first: the kinds stand in order of urgency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """A group for a person: its title, the button that lets all of it hold, and the difference of two records.

    `records` are those to judge, and `changed` is the one that they depend on, of which the difference is told then.
    """

    waiting: Waiting
    title: str
    both_true: str
    records: Sequence[Record]
    diff: Sequence[DiffPart]
    changed: Record | None = None
    following: str = ""
    """The id of the group after it, the next to be read once it is settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSettlement:
    """A settled group for a person: what was done to which records, and why it cannot be undone, "" where it can."""

    settled: Settled
    title: str
    says: str
    refusal: str


def show_reviews(visit: Visit) -> Response:
    """Show groups from a place on: those of the latest contradiction of two first, as they are settled at a glance."""
    groups = visit.app.reviews.waiting(visit.caller)
    settled = [_settlement(visit, each) for each in visit.app.reviews.settled(visit.caller, SETTLED_SHOWN)]
    asked = [each for each in groups if each.review.question]
    first, after = visit.asked("group"), _after(visit)
    known = [*(each.review for each in groups), *(each.settled.review for each in settled)]
    begin = next((_place(each) for each in known if each.id == first), None)
    in_order = sorted(asked if visit.asked("asked") else groups, key=lambda each: _place(each.review))
    ahead = [
        each
        for each in in_order
        if (begin is None or _place(each.review) >= begin) and (after is None or _place(each.review) > after)
    ]
    notices = [_notice(each.settled) for each in settled if str(each.settled.change) == visit.asked("change")]
    told: dict[str, Any] = {"notice": notices[0]} if notices and visit.asked("done") == "settled" else {}
    shown = _shown(visit, ahead)
    visit.reading.close()
    last = shown[-1].waiting.review if len(ahead) > GROUPS_SHOWN else None
    return visit.page(
        "review.html",
        here=NAME,
        groups=shown,
        waiting=len(groups),
        asked=len(asked),
        next_page=visit.with_fields(after=f"{_place(last)[0]}{last.id}", group="") if last else "",
        is_part=bool(after or first),
        is_gone=bool(number_of(first)) and not told and all(each.review.id != first for each in groups),
        group_characters=GROUP_CHARACTERS,
        settled=settled,
        **told,
    )


def _place(review: Review) -> tuple[int, int]:
    """Return the place of a group: contradictions of two records, then other small groups, then those of many.

    Of each sort the newest comes first.
    """
    few = len(review.record_ids) <= 2
    sort = 0 if few and review.kind == "contradictions" else 1 if few else 2
    return sort, -number_of(review.id)


def _after(visit: Visit) -> tuple[int, int] | None:
    """Return the place after which the page begins: that of a group which may wait no more."""
    found = _PLACE.fullmatch(visit.asked("after"))
    return (int(found[1]), -number_of(found[2])) if found else None


def _shown(visit: Visit, ahead: Sequence[Waiting]) -> Sequence[ShownGroup]:
    """Return the groups of one page, each with the one that follows it."""
    compare = WordDiff()
    following = [*(each.review.id for each in ahead[1 : GROUPS_SHOWN + 1]), ""]
    shown = [_shown_group(visit, each, compare) for each in ahead[:GROUPS_SHOWN]]
    return [replace(each, following=then) for each, then in zip(shown, following, strict=False)]


def _shown_group(visit: Visit, waiting: Waiting, compare: WordDiff) -> ShownGroup:
    kind, records = waiting.review.kind, waiting.records
    changed, others = _judged(waiting)
    earlier, later = (_earlier(visit, changed, others), changed) if changed else (records[-1].text, records[0])
    diff = compare(earlier, later.text) if changed or (len(records) == 2 and kind != "dependents") else []
    has_common = any(part.kind == "same" and part.text.strip() for part in diff)
    return ShownGroup(
        waiting=waiting,
        title=TITLES[kind],
        both_true=_BOTH_TRUE.get(kind, "Both are right" if len(records) == 2 else "All of them are right"),
        records=others,
        diff=diff if has_common or (changed and earlier != changed.text) else [],
        changed=changed,
    )


def _judged(waiting: Waiting) -> tuple[Record | None, Sequence[Record]]:
    """Return the record of a group that has changed, None where the group is of no change, and those to judge."""
    first, *others = waiting.records
    is_ground = waiting.review.kind == "dependents" and not first.check
    return (first, others) if is_ground else (None, waiting.records)


def marks_of(groups: Sequence[Waiting]) -> Mapping[str, ReviewMark]:
    """Return the marks of the records that wait for a verdict, by their ids: the most urgent of several groups."""
    marks: dict[str, ReviewMark] = {}
    for kind, says in _MARKS.items():
        for each in groups:
            if each.review.kind == kind:
                mark = ReviewMark(id=each.review.id, says=says, title=TITLES[kind])
                for record in _judged(each)[1]:
                    marks.setdefault(record.id, mark)
    return marks


def title_of(review: Review, record: Record) -> str:
    """Return the title of a group beside one of its records: what changed has another than what depends on it."""
    return HAS_CHANGED if review.kind == "dependents" and not record.check else TITLES[review.kind]


def _earlier(visit: Visit, changed: Record, dependents: Sequence[Record]) -> str:
    """Return what a record said before it changed, or what was in its place, else what it says; "" is out of sight."""
    grounds = [ground.id for each in dependents for ground in each.check if ground.id != changed.id]
    for record in visit.app.inspect.seen_of(grounds, visit.caller).values():
        if record.superseded_by == changed.id:
            return record.text
    texts = (
        each.before["text"]
        for each in islice(visit.app.inspect.versions(changed.id), LOOKED_AT)
        if "text" in each.before
    )
    return str(next(texts, changed.text))


def _settlement(visit: Visit, settled: Settled) -> ShownSettlement:
    refusal = visit.app.undo.refusal(settled.change, visit.caller)
    return ShownSettlement(settled=settled, title=TITLES[settled.review.kind], says=in_words(settled), refusal=refusal)


def _notice(settled: Settled) -> str:
    """Say what a settlement did by the records' words: "“The port is 1” (r00001a) now ranks below …"."""
    return in_words(settled, {each.id: f"“{_named(each)}” ({each.id})" for each in settled.records})


def _named(record: Record) -> str:
    text = " ".join(record.text[: 4 * NAMED_CHARACTERS].split())
    return text if len(text) <= NAMED_CHARACTERS else f"{text[: NAMED_CHARACTERS - 1].rstrip()}…"


def in_words(settled: Settled, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Say what a settlement did to which records: "r00001a now ranks below r00001b."; by their names where given."""
    review, ids = settled.review, settled.review.record_ids
    those, is_one = _listed([names.get(each, each) for each in ids]), len(ids) == 1
    if review.way == "unrelated":
        left = f"{those} {_STAYS.get(review.kind, 'stays as it is')}"
        return f"{left}." if is_one else f"{those} are unrelated."
    if review.way == "both-true":
        if review.kind == "noted":
            return f"{those} {'is' if is_one else 'are'} kept."
        if review.kind in ("dependents", "guidance"):
            return f"{those} {'is' if is_one else 'are'} still right."
        return f"{those} are {'both' if len(ids) == 2 else 'all'} right."
    below = [each for each in settled.records if each.superseded_by in ids]
    if not below:  # Somebody restored them since.
        return f"{those} were settled."
    kept = names.get(str(below[0].superseded_by), below[0].superseded_by)
    lower, is_one = _listed([names.get(each.id, each.id) for each in below]), len(below) == 1
    if review.way == "merge":
        return f"{lower} {'is' if is_one else 'are'} merged into {kept}, and {'ranks' if is_one else 'rank'} below it."
    return f"{lower} now {'ranks' if is_one else 'rank'} below {kept}."


def _listed(ids: Sequence[str]) -> str:
    """Return ids as a person lists them: "r00001a, r00001b and r00001c"."""
    return " and ".join([", ".join(ids[:-1]), ids[-1]] if len(ids) > 1 else ids)


def settle(visit: Visit) -> Response:
    """Settle a group: by the record that holds, or in the way that a button names. Raises InvalidRequest."""
    fields = {name: (visit.given(name) or "").strip() for name in ("way", "keep", "text", "when", "reason", "holds")}
    holds = fields.pop("holds")
    way = "supersedes" if holds else fields.pop("way")
    if not way:
        raise InvalidRequest("Choose how to settle the group, by one of its buttons. Nothing was changed.")
    asked = {"id": checked_id(visit.parts["id"], REVIEW), "settle": way, "reason": fields["reason"]}
    if way in ("merge", "supersedes"):
        asked["keep"] = checked_id(holds or fields["keep"], "r")
    asked |= {"text": fields["text"]} if way == "merge" else {}
    asked |= {"when": fields["when"]} if way != "unrelated" else {}
    given = {name: value for name, value in asked.items() if value}
    settled = visit.app.settle(request_of(Settling, read_arguments(ReviseArguments, given)), visit.caller)
    return visit.see(visit.back(), done="settled", change=settled.change)


SCREENS: Final = (
    Screen(path="/review", answer=show_reviews, title=NAME),
    Screen(path="/review/{id}", answer=settle, changes=True, most_bytes=TEXT_BYTES),
)

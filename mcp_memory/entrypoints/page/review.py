"""The screen of reviews: groups of records side by side, settled with the checks and the undo that agents have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from mcp_memory.domain.model.ids import REVIEW, number_of
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff
from mcp_memory.entrypoints.page.visits import TEXT_BYTES, Screen, Visit, checked_id
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.wire import ReviseArguments, request_of
from mcp_memory.services.review.settle import Settling

if TYPE_CHECKING:
    from mcp_memory.domain.model.reviews import ReviewKind
    from mcp_memory.services.review.reviews import Waiting

NAME: Final = "Review"
GROUPS_SHOWN: Final = 10
GROUP_CHARACTERS: Final = 4_000
"""Characters of each text of a group that are shown."""
_TITLES: Final[Mapping[ReviewKind, str]] = {
    "contradictions": "These may contradict each other",
    "dependents": "What this stands on has changed",
    "guidance": "This names something that is gone",
    "duplicates": "These may say the same",
    "noted": "This was only noted, and used since",
}
_BOTH_TRUE: Final[Mapping[ReviewKind, str]] = {
    "dependents": "It is still right", "guidance": "It is still right", "noted": "Keep it"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """A group for a person: its title, the button that lets all of it hold, and the difference of two records."""

    waiting: Waiting
    title: str
    both_true: str
    diff: Sequence[DiffPart]


def show_reviews(visit: Visit) -> Response:
    groups = visit.app.reviews.waiting(visit.caller)
    asked = [each for each in groups if each.review.question]
    after, of_these = number_of(visit.asked("after")), asked if visit.asked("asked") else groups
    by_number = sorted(of_these, key=lambda each: number_of(each.review.id))
    ahead = [each for each in by_number if number_of(each.review.id) > after]
    compare = WordDiff()
    shown = [_shown(each, compare) for each in ahead[:GROUPS_SHOWN]]
    return visit.page(
        "review.html",
        here=NAME,
        groups=shown,
        waiting=len(groups),
        asked=len(asked),
        next_page=visit.with_fields(after=shown[-1].waiting.review.id) if len(ahead) > GROUPS_SHOWN else "",
        group_characters=GROUP_CHARACTERS,
    )


def _shown(waiting: Waiting, compare: WordDiff) -> ShownGroup:
    kind, records = waiting.review.kind, waiting.records
    diff = compare(records[1].text, records[0].text) if len(records) == 2 else []
    has_common = any(part.kind == "same" and part.text.strip() for part in diff)
    return ShownGroup(
        waiting=waiting,
        title=_TITLES[kind],
        both_true=_BOTH_TRUE.get(kind, "Both hold" if len(records) == 2 else "All of them hold"),
        diff=diff if has_common else [],
    )


def settle(visit: Visit) -> Response:
    """Settle a group: by the record that holds, or in the way that a button names."""
    fields = {name: (visit.given(name) or "").strip() for name in ("way", "keep", "text", "when", "reason", "holds")}
    holds = fields.pop("holds")
    way = "supersedes" if holds else fields.pop("way")
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

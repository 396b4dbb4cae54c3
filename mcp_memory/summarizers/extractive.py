"""Makes summaries without a model: renders the slots of a span, the most valuable first, as many as fit.

Nothing is reworded, at most cut short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS
from mcp_memory.domain.sessions.filled_slots import FilledSlot
from mcp_memory.domain.sessions.sentence_sections import changes_direction
from mcp_memory.domain.sessions.slots import opens_work, slots_of
from mcp_memory.domain.sessions.summary import fitted, structured
from mcp_memory.domain.text.cut_to_tokens import Room
from mcp_memory.domain.text.words import text_stems
from mcp_memory.ports.text import Summarized, SummaryRequest, TokenCounter

if TYPE_CHECKING:
    from mcp_memory.domain.text.summary_sections import Section

LINE_TOKENS, STATE_TOKENS, GOAL_TOKENS = 80, 150, INSTRUCTION_TOKENS
TITLES_TOKENS, BULLET_TOKENS = 30, 3  # of all section titles, and of each "- "
MOST_RANKED = 2_000
"""Most slots to choose from."""
SAME = 0.85
"""The share of common words from which on one slot repeats another."""

_WEIGHT: Mapping[Section, float] = {
    "goal": 9.0, "state": 8.0, "constraints": 4.0, "decisions": 3.0, "dead_ends": 2.5, "changes": 2.5,
    "next_steps": 2.5, "open_items": 2.5, "in_progress": 2.5, "completed": 1.2, "facts": 1.0,
}  # fmt: skip
"""The priority of a slot by its section."""
_SHARE: Mapping[Section, float] = {
    "constraints": 0.2, "decisions": 0.4, "dead_ends": 0.25, "changes": 0.2, "next_steps": 0.2,
    "open_items": 0.2, "in_progress": 0.1, "completed": 0.4, "facts": 0.35,
}  # fmt: skip
"""The largest share of the tokens for each section."""


class ExtractiveSummarizer:
    """Chooses slots. Deterministic, and thread-safe as far as the counter is."""

    name = "extractive"

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    def summarize(self, request: SummaryRequest) -> Summarized:
        """See `Summarizer`. Never raises."""
        decided = request.earlier.of("decisions") if request.earlier else ()
        slots = slots_of(request.originals or request.entries, request.following, decided)
        taken = self._taken(slots, request.max_tokens)
        lines: dict[Section, list[str]] = {}
        for slot, line in taken:
            lines.setdefault(slot.section, []).append(line)
        earlier = request.earlier.of("goal") if request.earlier else ()
        if earlier and not any(changes_direction(goal) for goal in lines.get("goal", ())):
            is_over = opens_work((*(request.originals or request.entries), *request.following))
            lines["goal"] = [] if is_over else [earlier[-1]]
        summary = fitted(structured(lines), request.max_tokens, self._counter.count)
        return Summarized(summary=summary, by=self.name)

    def _taken(self, slots: Iterable[FilledSlot], tokens: int) -> list[tuple[FilledSlot, str]]:
        """Return the best slots that fit, in order, each with its line."""
        ranked = sorted(slots, key=lambda slot: (-_promise(slot), -slot.place))[:MOST_RANKED]
        left, spent = tokens - TITLES_TOKENS, Counter[str]()
        taken: list[tuple[FilledSlot, str]] = []
        known: dict[Section, list[frozenset[str]]] = {}
        for slot in ranked:
            words = frozenset(text_stems(slot.text))
            # Two files may share nearly all their words: "app/ticker.go: edited", "app/ticker_test.go: edited".
            if slot.section != "changes" and _is_repeated(words, known.get(slot.section, ())):
                continue
            line = self._line(slot.text, min(_most(slot.section), max(tokens // 5 - BULLET_TOKENS, 1)))
            cost = self._counter.count(line) + BULLET_TOKENS
            if cost > left or spent[slot.section] + cost > _SHARE.get(slot.section, 1.0) * tokens:
                continue
            known.setdefault(slot.section, []).append(words)
            taken.append((slot, line))
            left -= cost
            spent[slot.section] += cost
        return sorted(taken, key=lambda each: each[0].place)

    def _line(self, text: str, most: int) -> str:
        return Room(self._counter.count, self._counter.truncate).cut(text, most)


def _is_repeated(words: frozenset[str], known: Iterable[frozenset[str]]) -> bool:
    """Return True where one of the known slots has nearly all of these words, and each of them with a number."""
    numbers = {word for word in words if any(sign.isdigit() for sign in word)}
    return any(numbers <= other and len(words & other) >= SAME * len(words) for other in known)


def _promise(slot: FilledSlot) -> float:
    return _WEIGHT[slot.section] * slot.worth


def _most(section: Section) -> int:
    return {"state": STATE_TOKENS, "goal": GOAL_TOKENS}.get(section, LINE_TOKENS)

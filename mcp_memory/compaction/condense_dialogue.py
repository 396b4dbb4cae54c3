"""Implements the dialogue pass: of old talk without tools, the messages that tell most stay, by time and person.

A message stays as it was said; a long one is shown by the sentences that carry its point. Needs no model; independent
of stores.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise

from mcp_memory.domain.model.session_log import (
    LABELS,
    CompactionOptions,
    Count,
    PassKind,
    PassName,
    PassPlan,
    Pause,
    Places,
    Replacement,
    SessionLog,
    old,
    replacing,
)
from mcp_memory.domain.sessions.dialogue import SPOKEN_TOKENS, Spoken, spoken
from mcp_memory.domain.text.summary_sections import quote
from mcp_memory.domain.text.times import iso_minute

FEWEST, MOST = 20, 120
"""Messages of a block."""
LEFT, LEAST, LARGEST = 0.57, 0.3, 0.5
"""The share of its tokens that the log comes down to; the least and the largest share of the talk that may stay."""
LONG_MESSAGE = 100
"""Tokens: a longer message is shown by its short form."""
SHORT_ANSWER = 12
"""Tokens: a shorter answer is shown with its question."""
PAUSE_SECONDS = 3_600.0
"""A longer pause begins a stretch of its own."""


@dataclass(frozen=True, slots=True)
class CondenseDialogue:
    """Makes blocks of every long run of old messages without a call between them."""

    name: PassName = field(default="dialogue", init=False)
    kind: PassKind = field(default="summarising", init=False)
    count: Count
    pause: Pause = bool

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        """Plan a block for each part of each run, where it is shorter; what the user asked for is quoted."""
        runs = [log.at(run) for run in _runs(log, options)]
        if not runs:
            return PassPlan(reason=f"no {FEWEST} neighbouring messages without tools that are old and not preserved")
        said = [spoken(run, self.pause) for run in runs]
        tokens = sum(entry.tokens for run in runs for entry in run)
        share = min(max(1 - (1 - LEFT) * log.tokens / tokens, LEAST), LARGEST)
        kept = self._kept(chain.from_iterable(said), int(share * tokens))
        parts = [part for run in said for part in _parts(run)]
        made = [block for part in parts if (block := self._block(part, kept)) is not None]
        if not made:
            return PassPlan(reason="no talk that a block would make shorter")
        before, after = sum(one.entry.original_tokens for one in made), sum(one.entry.tokens for one in made)
        many = sum(len(one.replaces) for one in made)
        return PassPlan(reason=f"{many:,} messages of {before:,} tokens, {after:,} left", replacements=tuple(made))

    def _kept(self, said: Iterable[Spoken], room: int) -> frozenset[str]:
        """Return the ids of the messages that a block shows: all that the user asked for, then the most telling."""
        kept: set[str] = set()
        for one in sorted(said, key=lambda one: (not one.is_asked, -one.worth)):
            cost = self.count(_shown(one)) + SPOKEN_TOKENS
            if one.is_asked or cost <= room:
                kept.add(one.entry.id)
                room -= cost
        return frozenset(kept)

    def _block(self, part: Sequence[Spoken], kept: frozenset[str]) -> Replacement | None:
        entries = tuple(one.entry for one in part)
        span = f"{iso_minute(entries[0].at)} to {iso_minute(max(entry.at for entry in entries))}"
        body = "\n".join(_told(part, kept)).strip()

        def text(entry_id: str) -> str:
            head = (
                f"[{LABELS['dialogue']} {entry_id}] {len(part)} messages, {span}, the most telling as they were said;"
            )
            return f'{head} recall(ids=["{entry_id}"]) opens all.\n\n{body}'

        made = replacing(entries, "dialogue", text, self.count, role="user")
        return made if made.entry.tokens < sum(entry.tokens for entry in entries) else None


def _runs(log: SessionLog, options: CompactionOptions) -> Iterator[Places]:
    """Yield the long runs of neighbours that are old originals, said by users and assistants."""
    free = old(log, options)

    def is_old_talk(place: int) -> bool:
        entry = log.entries[place]
        is_said = entry.kind == "message" and entry.form == "original" and entry.role in ("user", "assistant")
        return is_said and place in free

    for is_talk, run in groupby(range(len(log.entries)), key=is_old_talk):
        places = tuple(run)
        if is_talk and len(places) >= FEWEST:
            yield places


def _parts(run: Sequence[Spoken]) -> Iterator[Sequence[Spoken]]:
    """Yield a run in parts of about one size, each few enough for a block."""
    parts = -(-len(run) // MOST)
    bounds = [len(run) * number // parts for number in range(parts + 1)]
    yield from (run[begin:end] for begin, end in pairwise(bounds))


def _told(part: Sequence[Spoken], kept: frozenset[str]) -> Iterator[str]:
    """Yield the lines of a block: when each stretch began, and who said what; a speaker who continues is named once."""
    line, who, before, until = "", "", "", float("-inf")
    for one in part:
        if one.entry.id in kept:
            if one.entry.at - until > PAUSE_SECONDS:
                yield from filter(None, (line, f"\n{iso_minute(one.entry.at)}"))
                line = who = ""
            told, until = _shown(one, before in kept), one.entry.at
            if one.is_asked:
                yield from filter(None, (line, f"{one.who}:", quote(one.entry.text)))
                line = who = ""
            elif one.who == who:
                line = f"{line} {told}"
            else:
                yield from filter(None, (line,))
                line, who = f"{one.who}: {told}", one.who
        before = one.entry.id
    yield line


def _shown(one: Spoken, after_question: bool = False) -> str:
    """Return a message on one line: a short answer behind its question, of a long one the short form."""
    if one.is_asked:
        return one.entry.text
    text = one.entry.summary if one.entry.tokens > LONG_MESSAGE and one.entry.summary else one.text
    is_answer = one.question and not after_question and one.entry.tokens < SHORT_ANSWER
    return " ".join((f"({one.question}) {text}" if is_answer else text).split())

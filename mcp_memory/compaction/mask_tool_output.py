"""Archives tool outputs: one line says which call they answered and how to reopen them, two more show their content.

Calls and their arguments stay unchanged. Independent of stores.
"""

from dataclasses import dataclass, field

from mcp_memory.domain.model.session_log import (
    LABELS,
    CompactionOptions,
    Count,
    Entry,
    PassKind,
    PassName,
    PassPlan,
    Replacement,
    SessionLog,
    preserved,
    replacing,
)
from mcp_memory.domain.sessions.tool_lines import TOOL_CHARACTERS, arguments_line, line_count, one_line
from mcp_memory.domain.sessions.tool_outputs import FIRST, KEPT, Remains, first_line, kept_line, remains_of
from mcp_memory.domain.text.times import iso

ARGUMENT_CHARACTERS, FIRST_LINE_CHARACTERS = 100, 120
KEPT_TOKENS = 60
"""Most tokens of exact values; where that is too much, a tenth of the output."""
SHORT_OUTPUT = 150
"""Tokens: a shorter output is archived only if a full mask of it is short enough."""
FAILED_FACTOR = 2
"""A failed output is archived when it is this many times longer than others: it holds the cause."""


@dataclass(frozen=True, slots=True)
class MaskToolOutput:
    """Masks every output that is long enough and outside the preserved part."""

    name: PassName = field(default="mask", init=False)
    kind: PassKind = field(default="masking", init=False)
    count: Count

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        """Plan a mask for each output that it makes at least a third shorter."""
        stays = preserved(log, options)
        long = [
            place for place in range(len(log.entries)) if place not in stays and _is_long(log.entries[place], options)
        ]
        if not long:
            return PassPlan(reason=f"no output of {options.least_output:,} tokens or more outside the preserved part")
        masks = [made for place in long if (made := self._mask(log, place)) is not None]
        if not masks:
            return PassPlan(reason="no output outside the preserved part that a mask would make a third shorter")
        before, after = sum(one.entry.original_tokens for one in masks), sum(one.entry.tokens for one in masks)
        outputs = "1 output" if len(masks) == 1 else f"{len(masks):,} outputs"
        return PassPlan(reason=f"{outputs} of {before:,} tokens archived, {after:,} left", replacements=tuple(masks))

    def _mask(self, log: SessionLog, place: int) -> Replacement | None:
        tokens = log.entries[place].tokens
        return mask(log, place, self.count, at_most=2 * tokens // 3, full=tokens < SHORT_OUTPUT)


def mask(log: SessionLog, place: int, count: Count, *, at_most: int, full: bool = False) -> Replacement | None:
    """Return the replacement of the output at this place: the fullest mask of at most `at_most` tokens, or None.

    Every mask has the errors; the point and exact values only where there is room, or always in a `full` one.
    """
    output = log.entries[place]
    answers = log.exchange_of.get(place)
    call = log.entries[answers[0]] if answers else None
    remains = remains_of(output)
    sizes = ((KEPT_TOKENS, False), (output.tokens // 10, False), (0, True))
    for room, terse in sizes[:1] if full else sizes:
        text = _mask_text(output, call, remains, room, count, terse=terse)
        if count(text) <= at_most:
            return replacing((output,), "mask", lambda _, text=text: text, count)
    return None


def _mask_text(output: Entry, call: Entry | None, remains: Remains, room: int, count: Count, *, terse: bool) -> str:
    """Return `[TOOL OUTPUT ARCHIVED id=… tool=… args=… tokens=… lines=… at=…]`, the first line, and the kept parts."""
    shorter = 2 if terse else 1
    first = first_line(output, FIRST_LINE_CHARACTERS // shorter)
    kept = kept_line(remains, min(room, KEPT_TOKENS), count, said=first, terse=terse)
    said = [
        f"id={output.covers[0]}",
        f"tool={one_line(output.tool or (call.tool if call else None) or 'unknown', TOOL_CHARACTERS)}",
        *([f"args={arguments_line(call, ARGUMENT_CHARACTERS // shorter)}"] if call else []),
        f"tokens={output.tokens:,}",
        f"lines={line_count(output.text):,}",
        *(["outcome=failure"] if output.failed else []),
        f"at={iso(output.at)}",
    ]
    return "\n".join([f"[{LABELS['mask']} {' '.join(said)}]", FIRST + first, *([KEPT + kept] if kept else [])])


def _is_long(entry: Entry, options: CompactionOptions) -> bool:
    least = options.least_output * (FAILED_FACTOR if entry.failed else 1)
    return entry.kind == "tool_result" and entry.form == "original" and entry.tokens >= least

"""Makes micro and summary, the short forms that every record has from the moment it is stored, without a model.

Both are the beginning of the text, on one line, followed by the outcome. The short forms of a session's summary put
first what its reader needs first. Of a text that was replaced, what differs is its short form. A record's details are
shown by rendering, not here.
"""

from dataclasses import asdict, dataclass, replace
from itertools import takewhile

from mcp_memory.domain.model.records import Kind, Outcome, Record
from mcp_memory.domain.text.cut_to_tokens import Count, Room, Truncate
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.domain.text.summary_sections import Section, says_none, stated
from mcp_memory.domain.text.words import AROUND_WORDS

MICRO_TOKENS = 20
SUMMARY_TOKENS = 100
FEW_WORDS = 8
"""Words of a difference that is shown alone; a longer one says little without its text."""
EARLIER_CHARACTERS = 80
COMPARED_CHARACTERS = 2_000
"""Longer texts are not compared, only cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForms:
    """Texts of at most 20 and 100 tokens, by the counter they were made with."""

    micro: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredText(ShortForms):
    """A text's short forms, and the tokens of all three by the counter they were made with."""

    text_tokens: int
    summary_tokens: int
    micro_tokens: int


def measured(
    text: str, count: Count, truncate: Truncate, *, kind: Kind = "fact", outcome: Outcome | None = None
) -> MeasuredText:
    """Measure all that a record keeps about a text's length; a form equal to the text is not counted again."""
    forms = short_forms(text, count, truncate, kind=kind, outcome=outcome)
    text_tokens = count(text)
    return MeasuredText(
        micro=forms.micro,
        summary=forms.summary,
        text_tokens=text_tokens,
        summary_tokens=text_tokens if forms.summary == text else count(forms.summary),
        micro_tokens=text_tokens if forms.micro == text else count(forms.micro),
    )


def remeasured(record: Record, count: Count, truncate: Truncate) -> Record:
    """Return the record with the short forms that its text, kind and outcome make now."""
    return replace(record, **asdict(measured(record.text, count, truncate, kind=record.kind, outcome=record.outcome)))


def short_forms(
    text: str, count: Count, truncate: Truncate, *, kind: Kind = "fact", outcome: Outcome | None = None
) -> ShortForms:
    """Return the micro and the summary of a text; a text that fits is its own summary, and on one line its own micro.

    The outcome follows both, unless it is still pending: ` → failure`.
    """
    room = Room(count, truncate)
    whole = text.strip()
    ending = f" → {outcome}" if outcome and outcome != "pending" else ""
    fits_summary = room.holds(whole + ending, SUMMARY_TOKENS)
    # An arrow after a space begins a token of its own, so that the sum is what the whole counts.
    taken = count(ending)
    if kind == "summary" and not fits_summary and (told := standing_line(whole, SUMMARY_TOKENS - taken, room)):
        return ShortForms(micro=standing_line(whole, MICRO_TOKENS - taken, room) + ending, summary=told + ending)
    line = " ".join(whole.split())
    summary = whole if fits_summary else room.cut(line, SUMMARY_TOKENS - taken)
    return ShortForms(micro=room.cut(line, MICRO_TOKENS - taken) + ending, summary=summary + ending)


LEAST_TOKENS = 18
"""Least tokens for another section: a few words of a sentence mislead as often as they inform."""
_FIRST, _LAST = slice(0, 1), slice(-1, None)
_TOLD: tuple[tuple[Section, str, slice, float], ...] = (
    ("goal", "Goal", _LAST, 0.4),
    ("state", "State", _LAST, 0.4),
    ("next_steps", "Next", _FIRST, 0.3),
    ("decisions", "Decided", _LAST, 1.0),
    ("dead_ends", "Failed", _LAST, 1.0),
)
"""Sections, their short titles, the line to show of each, and the largest share of the limit that it may take."""
_NEEDED: frozenset[Section] = frozenset({"goal", "state"})


def standing_line(text: str, limit: int, room: Room) -> str:
    """Return `Goal: … State: … Next: …` of a summary with sections, at most `limit` tokens; "" for other texts."""
    sections = stated(text)
    if not _NEEDED & sections.keys():
        return ""
    line = ""
    for section, name, place, share in _TOLD:
        for said in [each for each in sections.get(section, ()) if not says_none(each)][place]:
            left = limit - room.count(line) - 1 if line else limit
            if line and left < LEAST_TOKENS:
                break
            most = min(max(int(share * limit), LEAST_TOKENS), left)
            part = room.cut(f"{name}: {said}", most)
            longer = f"{line} {part}".strip()
            line = longer if room.holds(longer, limit) else line
    return line


def earlier_value(now: str, before: str) -> str:
    """Return what `before` has and `now` has not: a few words in the same frame, else the text's beginning.

    "30 days" of "Retention is 30 days." beside "Retention is 90 days.": a bare number takes the word behind it along.
    Empty where `now` only adds to it.
    """
    if max(len(now), len(before)) > COMPARED_CHARACTERS:
        return one_line(before, EARLIER_CHARACTERS)
    old, new = before.split(), now.split()
    first = _in_common(old, new)
    last = _in_common(old[first:][::-1], new[first:][::-1])
    end = len(old) - last
    if first == end:
        return ""
    if end - first > FEW_WORDS or 3 * (first + last) < len(old):
        return one_line(before, EARLIER_CHARACTERS)
    if not any(letter.isalpha() for word in old[first:end] for letter in word):
        end += 1
    return one_line(" ".join(old[first:end]).strip(AROUND_WORDS), EARLIER_CHARACTERS)


def _in_common(one: list[str], other: list[str]) -> int:
    """Return how many words two lists begin with alike, apart from case and the punctuation around them."""
    bare = ([word.casefold().strip(AROUND_WORDS) for word in words] for words in (one, other))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*bare, strict=False)))

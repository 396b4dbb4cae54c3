"""Where a session stood, in a line: what whoever works on needs first of its summary. Knows no record."""

from mcp_memory.domain.text.excerpts import Room
from mcp_memory.domain.text.segments import Segment
from mcp_memory.domain.text.summary_sections import Section, says_none, stated

LEAST_TOKENS = 18
"""For less, nothing more is told: a few words of a sentence say the wrong thing as often as the right one."""
_FIRST, _LAST = slice(0, 1), slice(-1, None)
_TOLD: tuple[tuple[Section, str, slice, float], ...] = (
    ("goal", "Goal", _LAST, 0.4),
    ("state", "State", _LAST, 0.4),
    ("next_steps", "Next", _FIRST, 0.3),
    ("decisions", "Decided", _LAST, 1.0),
    ("dead_ends", "Failed", _LAST, 1.0),
)
"""Sections, what they are called here, which of their lines is told, and the most of the line that it may take."""
_NEEDED: frozenset[Section] = frozenset({"goal", "state"})


def standing_line(text: str, limit: int, room: Room) -> str:
    """`Goal: … State: … Next: …` of a summary with sections, in at most `limit` tokens; "" for any other text."""
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
            part = f"{name}: {said}"
            part = part if room.holds(part, most) else room.shortened(Segment(text=part), most)
            longer = f"{line} {part}".strip()
            line = longer if room.holds(longer, limit) else line
    return line

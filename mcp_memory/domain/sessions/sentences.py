"""Reads a span sentence by sentence, with the speaker of each.

Tool output is no speech; where no agent speaks, the last result of each tool is described. Independent of sections
and models.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from mcp_memory.domain.model.session_log import Entry, EntryKind
from mcp_memory.domain.sessions.tool_outputs import kept_line, remains_of
from mcp_memory.domain.text.lexicon import COLONS
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.domain.text.segments import segments_of

Speaker = Literal["user", "assistant", "block"]
"""The source of a sentence. A block reports calls that nobody mentions."""

LAST_MESSAGES = 3
"""The assistant's messages at the end of a span that state the current work and the next steps."""
MOST_CHARACTERS = 500
"""Longest readable sentence, in characters: longer text is minified code or encoded data."""
_READABLE = frozenset({"sentence", "item"})
# e.g. "[SUMMARIZED] ", "[GOAL BATCH x00002k] "
_OURS = re.compile(r"\A\s*\[[A-Z][A-Z ]{3,40}\b[^\]\n]{0,300}\]\s*")
"""The opening label of compaction's own texts."""
OUTCOME = "→ "
"""The prefix of the lines of a batch that say what a turn came to (compaction/goal_batch.py)."""
_DEED: tuple[EntryKind, EntryKind] = ("tool_call", "tool_result")
# e.g. the "3" in "retry 3"
_DIGITS = re.compile(r"\d+")
_SHOWN_AS_IS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One sentence. `entry` is the place of its entry; `is_last` is True in the assistant's last messages.

    `is_item` is True in a list.
    """

    text: str
    speaker: Speaker
    entry: int
    is_last: bool = False
    is_item: bool = False


def said_in(entries: Sequence[Entry]) -> list[Utterance]:
    """Return every spoken sentence of the span, in order; of a repeated one only the last."""
    spoken = [n for n, entry in enumerate(entries) if _speaker(entry) == "assistant" and entry.text.strip()]
    last = frozenset(spoken[-LAST_MESSAGES:])
    found = list(chain.from_iterable(_of_entry(entry, n, n in last) for n, entry in enumerate(entries)))
    if all(said.speaker != "assistant" for said in found):
        found += _deeds(entries)
    return _once_each(found)


def speech(entry: Entry) -> str:
    """Return an entry's text without the label line of compaction's own texts."""
    return entry.text if entry.form == "original" else _OURS.sub("", entry.text, count=1)


def _speaker(entry: Entry) -> Speaker | None:
    if entry.kind == "message" and entry.role in ("user", "assistant") and entry.form in ("original", "external"):
        return "user" if entry.role == "user" else "assistant"
    return None


def _of_entry(entry: Entry, number: int, is_last: bool) -> Iterable[Utterance]:
    speaker = _speaker(entry)
    if entry.form == "batch":
        return _turns(entry, number)
    return _sentences(speech(entry), speaker, number, is_last) if speaker else ()


def _deeds(entries: Sequence[Entry]) -> Iterator[Utterance]:
    """Yield a description of each tool whose calls nobody mentions: the number of calls, and the last result."""
    times = Counter(entry.tool for entry in entries if entry.kind == "tool_call")
    call, result = ({entry.tool: n for n, entry in enumerate(entries) if entry.kind == kind} for kind in _DEED)
    for tool, count in times.items():
        often = f"{count:,} times, last" if count > 1 else "once,"
        text = f"{one_line(tool or 'a tool')} called {often} with {_shown(entries[call[tool]])}"
        if tool in result:
            text += f"; gave: {_shown(entries[result[tool]])}"
        yield Utterance(text=text, speaker="block", entry=call[tool])


def _shown(entry: Entry) -> str:
    """Return a call's arguments, or the best line of a result."""
    text = entry.text if entry.kind == "tool_call" else kept_line(remains_of(entry), 0, len)
    return one_line(text, _SHOWN_AS_IS)


def _turns(batch: Entry, number: int) -> Iterator[Utterance]:
    """Yield the results of a batch's turns as the assistant's words; users are quoted elsewhere."""
    for line in speech(batch).split("\n"):
        if line.startswith(OUTCOME):
            yield from _sentences(line.removeprefix(OUTCOME), "assistant", number, False)


def _sentences(text: str, speaker: Speaker, number: int, is_last: bool) -> Iterator[Utterance]:
    """Yield sentences and items, without labels such as "Next steps:"."""
    for segment in segments_of(text):
        if segment.role in _READABLE and _is_readable(segment.text):
            is_item = segment.role == "item"
            yield Utterance(text=segment.text, speaker=speaker, entry=number, is_last=is_last, is_item=is_item)


def _is_readable(text: str) -> bool:
    return len(text) <= MOST_CHARACTERS and (" " in text or not text.isascii()) and not text.endswith(COLONS)


def shape(text: str) -> str:
    """Return the text without case and numbers: equal for steps that repeat."""
    return _DIGITS.sub("0", text.casefold())


def _once_each(found: Sequence[Utterance]) -> list[Utterance]:
    """Return the last of each repetition."""
    seen: set[str] = set()
    kept: list[Utterance] = []
    for said in reversed(found):
        shown = said.text.casefold()
        if shown not in seen:
            seen.add(shown)
            kept.append(said)
    return kept[::-1]

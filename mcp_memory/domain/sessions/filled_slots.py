"""The type of a slot, and the words that fill it: what a message concludes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

from mcp_memory.domain.sessions.sentence_sections import is_narration
from mcp_memory.domain.sessions.sentences import Utterance
from mcp_memory.domain.text.lexicon import QUESTION_SIGNS
from mcp_memory.domain.text.summary_sections import Section

SlotState: TypeAlias = Literal["open", "done", "superseded", "doubtful"]

CONCLUSION_CHARACTERS, FIX_CHARACTERS = 320, 280


class Provenance(IntEnum):
    """Ranks where a slot comes from, the weakest first."""

    OTHER, CONCLUDED, SAID, DONE = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledSlot:
    """One thing to know of a session. `source` is the id of the entry it comes from, `place` that entry's place."""

    section: Section
    text: str
    source: str
    place: int
    provenance: Provenance
    worth: float = 1.0
    state: SlotState = "open"


def conclusion(own: Sequence[Utterance]) -> str:
    """Return what a message concludes: its sentences without questions and talk about the next step, as many as fit."""
    spoken = [each for each in own if each.speaker in ("user", "assistant")]
    kept = [each.text for each in spoken if not is_narration(each.text) and not each.text.endswith(QUESTION_SIGNS)]
    return joined(kept)


def joined(sentences: Iterable[str]) -> str:
    text = ""
    for sentence in sentences:
        longer = f"{text} {sentence}".strip()
        if len(longer) > CONCLUSION_CHARACTERS and text:
            break
        text = longer
    return text

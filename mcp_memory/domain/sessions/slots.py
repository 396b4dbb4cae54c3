"""Fills the slots of a session: what it is for, what was demanded, decided, done, changed and left open.

What the agent did counts before what the user said, and that before what the agent says under a label. Later events
change earlier slots. Pure; independent of stores, tokens and models.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise

from mcp_memory.domain.memory.harness import CLIENTS_NOTE, OWN_CALL, is_own_tool
from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS, Entry
from mcp_memory.domain.sessions.agent_actions import AgentActions
from mcp_memory.domain.sessions.calls_in_text import told_apart
from mcp_memory.domain.sessions.chosen_options import taken_of
from mcp_memory.domain.sessions.deed_slots import DeedSlots
from mcp_memory.domain.sessions.filled_slots import FilledSlot, Provenance, conclusion, joined
from mcp_memory.domain.sessions.sentence_sections import (
    TO_CLIENT,
    asks_of_material,
    changes_direction,
    is_labelled_open,
    is_short_wish,
    is_standing_order,
    section_of,
    takes_back,
    without_commands,
)
from mcp_memory.domain.sessions.sentences import Utterance, said_in
from mcp_memory.domain.sessions.standing_decisions import FORMER, standing
from mcp_memory.domain.sessions.summary import instructions_in, is_assent
from mcp_memory.domain.text.lexicon import FOREIGN, QUESTION_SIGNS, STOP_WORDS
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.statements import CONDITION, decides
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.domain.text.words import normal_hash, text_stems

STATE_CHARACTERS = 500
LEAST_WORDS = 3
_STILL_OPEN: frozenset[Section] = frozenset({"open_items", "next_steps", "in_progress"})
LEAST_GOAL, MATERIAL_CHARACTERS = 12, 2_000
ASKED_CHARACTERS = 1_000
"""Characters read of the end of a message that may ask something."""
LEAST_REPORT, REPORTED = 200, "The agent's last report: "
"""The characters of a report, and what opens its end."""
LATEST, SUBSTANCE = 12, 30
"""The agent's last messages that tell the state, and the characters of one that is no mere remark."""
IS_DONE = 0.7
"""The share of an open item's words that something done must contain to close it."""

_DIGIT = re.compile(r"\d")
# "111 | // We only allow", "const values = [", "port = \"5433\"": lines of a file, not words
_CODE = re.compile(r"^\d+ \||//|[{};]\s*$|\w = [\"'\[{(\d]")


def slots_of(
    own: Sequence[Entry], following: Sequence[Entry] = (), decided: Sequence[str] = ()
) -> tuple[FilledSlot, ...]:
    """Return the slots of a log's `own` entries in their order, each once; superseded ones are left out.

    Those `following` close what is open, and say themselves how things stand. `decided` are earlier decisions.
    """
    entries = told_apart([entry for entry in (*own, *following) if is_of_work(entry)])
    live = {entry.id for entry in following}
    deeds = AgentActions(entries)
    places = {entry.id: place for place, entry in enumerate(entries)}
    said = {number: [*own] for number, own in groupby(said_in(entries), lambda each: each.entry)}
    end = next((place for place, entry in enumerate(entries) if entry.id in live), len(entries))
    did = DeedSlots(entries=entries, deeds=deeds, said=said, places=places, end=end)
    found = [*did.all(), *_told(entries, said, deeds, end)]
    settled = _settled(sorted(found, key=lambda slot: slot.place), decided)
    return tuple(slot for slot in settled if slot.source not in live)


def standing_in(said: Sequence[Entry], entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the user's messages in what was `said` that still hold after all `entries`, without commands to clients.

    One that only gives a value is served where a commit follows: "Bump the version to 1.0.2".
    """
    entries = told_apart(entries)
    places = {entry.id: place for place, entry in enumerate(entries)}
    last = max((places[source] for _, source in AgentActions(entries).commits), default=-1)
    return tuple(
        without_commands(text)
        for entry in said
        for text in instructions_in((entry,))
        if is_standing_order(text, is_served=places.get(entry.covers[-1], last) < last)
    )


def wishes_in(own: Sequence[Entry], following: Sequence[Entry]) -> frozenset[str]:
    """Return the user's short messages in a log's `own` entries that were worked for, and the first wish.

    Worked for is what the agent changed a file or committed for, before the user's next message.
    """
    entries = told_apart((*own, *following))
    deeds = AgentActions(entries)
    places = {entry.id: place for place, entry in enumerate(entries)}
    done = (*deeds.edits, *(places[source] for _, source in deeds.commits))
    users = [place for place, entry in enumerate(entries) if entry.is_users]
    served = {max((place for place in users if place < did), default=-1) for did in done}
    first = goal_in(own)
    return frozenset(
        entry.text
        for place, entry in enumerate(entries[: len(own)])
        if entry.is_users and (place in served or (first and first.source == entry.id)) and is_short_wish(entry.text)
    )


def answered_in(own: Sequence[Entry], following: Sequence[Entry]) -> frozenset[str]:
    """Return the user's messages in a log's `own` entries that the agent only answered, where it calls tools at all.

    Messages in a row are answered together.
    """
    entries = told_apart((*own, *following))
    if not any(entry.kind == "tool_call" for entry in entries):
        return frozenset()
    runs = [[*run] for _, run in groupby(entries, lambda entry: entry.is_users)]
    return frozenset(
        entry.text
        for said, behind in pairwise(runs)
        if not any(each.kind == "tool_call" for each in behind)
        for entry in said
        if entry.is_users
    )


def is_of_work(entry: Entry) -> bool:
    """Return False for what is the client's, and for calls of this memory's own tools."""
    arguments = entry.text if entry.kind == "tool_call" else None
    return entry.text not in (CLIENTS_NOTE, OWN_CALL) and not is_own_tool(entry.tool, arguments)


def _told(
    entries: Sequence[Entry], by_entry: Mapping[int, Sequence[Utterance]], deeds: AgentActions, end: int
) -> Iterator[FilledSlot]:
    goal = goal_in(entries[:end])
    if goal and not opens_work(entries[goal.place + 1 :]):
        yield goal
    users = [n for n in by_entry if by_entry[n][0].speaker == "user"]
    agents = [n for n in by_entry if by_entry[n][0].speaker == "assistant"]
    if end == len(entries):  # What follows tells it better.
        yield from _state(agents, by_entry, entries)
    else:
        yield from _report(entries, deeds, end)
    yield from _taken(entries)
    for number, own in by_entry.items():
        if own[0].speaker == "user":
            yield from _of_user(
                own, entries[number],
                is_first=users[0] == number,
                is_open=users[-1] == number and end == len(entries) and _is_unanswered(number, by_entry, entries),
            )  # fmt: skip
        else:
            yield from _labelled(own, entries[number])


def opens_work(entries: Sequence[Entry]) -> bool:
    """Return True where the user asks for more, and the agent changes something for it.

    What was asked for before is then no longer what all of it is for. Before anything is done, an answer to a question
    belongs to the same wish.
    """
    deeds = AgentActions(entries)
    done = {did.place for did in deeds.done if did.acts or did.intervenes} | {*deeds.edits}
    is_asked, is_wish, is_begun = True, False, False
    for place, entry in enumerate(entries):
        if entry.is_users:
            is_answer = is_asked and not is_begun
            is_wish = not is_answer and not is_assent(entry.text) and not TO_CLIENT.match(entry.text)
        elif entry.kind == "message":
            said = sentences_of(entry.text[-ASKED_CHARACTERS:])
            is_asked = any(sentence.endswith(QUESTION_SIGNS) for sentence in said)
        elif place in done:
            is_begun = True
            if is_wish:
                return True
    return False


def _taken(entries: Sequence[Entry]) -> Iterator[FilledSlot]:
    """Yield what the user's answers take of what the message before offers; one word may do."""
    offer = ""
    for place, entry in enumerate(entries):
        if entry.kind != "message":
            continue
        if offer and entry.is_users and entry.tokens <= INSTRUCTION_TOKENS and (taken := taken_of(offer, entry.text)):
            yield FilledSlot(
                section="decisions", text=taken, source=entry.id, place=place, provenance=Provenance.SAID, worth=1.5
            )
        offer = entry.text if entry.role == "assistant" else ""


def goal_in(entries: Sequence[Entry]) -> FilledSlot | None:
    """Return the user's first wish, or the last that changed the direction.

    A greeting is none, nor is a command to the client.
    """
    said = [(place, wish) for place, entry in enumerate(entries) for wish in _wishes(entry)]
    wishes = [each for each in said if not TO_CLIENT.match(each[1])]
    turned = [each for each in wishes if changes_direction(each[1])][-1:]
    stated = [each for each in wishes if len(each[1]) >= LEAST_GOAL]
    for place, wish in (turned or stated or wishes)[:1]:
        text = " ".join(wish[:MATERIAL_CHARACTERS].split())
        source = entries[place].id
        return FilledSlot(section="goal", text=text, source=source, place=place, provenance=Provenance.SAID, worth=3.0)
    return None


def _wishes(entry: Entry) -> tuple[str, ...]:
    """Return the user's requests in an entry, including those in a block of turns."""
    is_long = entry.is_users and entry.tokens > INSTRUCTION_TOKENS
    return (entry.summary or entry.text,) if is_long else instructions_in((entry,))


def _state(
    agents: Sequence[int], by_entry: Mapping[int, Sequence[Utterance]], entries: Sequence[Entry]
) -> Iterator[FilledSlot]:
    """Yield what the agent's last messages of substance say of how things stand, in their order."""
    told = ""
    for number in reversed(agents[-LATEST:]):
        concluded = conclusion([each for each in by_entry[number] if _tells(each.text)])
        if len(told) + len(concluded) > STATE_CHARACTERS and told:
            break
        if (not told or _DIGIT.search(concluded)) and len(concluded) * (1 if concluded.isascii() else 2) >= SUBSTANCE:
            told = f"{concluded} {told}".strip()
    if told:  # pyrefly: ignore[redundant-condition] - the loop sets it
        last = agents[-1]
        yield FilledSlot(
            section="state", text=told, source=entries[last].id, place=last, provenance=Provenance.CONCLUDED
        )


def _report(entries: Sequence[Entry], deeds: AgentActions, end: int) -> Iterator[FilledSlot]:
    """Yield the end of the agent's last long message that ends a turn, as it stands: there is what it leaves open.

    What was changed before the place `end` makes an earlier report stale.
    """
    start = max((place for place in deeds.edits if place < end), default=-1)
    for place in range(len(entries) - 2, start, -1):
        entry = entries[place]
        is_said = entry.kind == "message" and entry.role == "assistant" and entries[place + 1].is_users
        if is_said and len(entry.text) >= LEAST_REPORT:
            kept = _end_of(entry.text.split("\n\n")) or _end_of(sentences_of(entry.text))
            yield FilledSlot(
                section="state", text=f"{REPORTED}{kept}", source=entry.id, place=place, provenance=Provenance.CONCLUDED
            )
            return


def _end_of(parts: Iterable[str]) -> str:
    """Return as many of the last parts of a text as fit, in one line, behind an ellipsis for the others."""
    shown = [" ".join(part.split()) for part in parts]
    sizes = accumulate(len(part) + 1 for part in reversed(shown))
    kept = sum(size <= STATE_CHARACTERS for size in sizes)
    told = " ".join(shown[len(shown) - kept :])
    return f"… {told}" if 0 < kept < len(shown) else told


def _tells(sentence: str) -> bool:
    """Return False for a civility: "You're welcome!", "If there's anything else, feel free to ask."."""
    is_more = len(_content(sentence)) >= LEAST_WORDS or not sentence.isascii() or bool(_DIGIT.search(sentence))
    return is_more and not CONDITION.match(sentence)


def _of_user(own: Sequence[Utterance], entry: Entry, *, is_first: bool, is_open: bool) -> Iterator[FilledSlot]:
    """Yield what the user asks for last, demands and chooses."""
    if is_assent(entry.text):
        return
    if is_open and not is_first and (asked := joined(said.text for said in own if _tells(said.text))):
        yield _of(replace(own[0], text=asked), "next_steps", entry, Provenance.SAID, 3.0)  # Nothing is more urgent.
    for said in own:
        is_shown = _CODE.search(said.text) or asks_of_material(entry.text)
        if section_of(said) == "constraints" and not is_shown:
            yield _of(said, "constraints", entry, Provenance.SAID, 1.5)
    answer = conclusion(own)
    if not is_first and (decides(answer) or takes_back(answer)):
        said = _of(replace(own[0], text=answer), "decisions", entry, Provenance.SAID, 1.5)
        # Only an earlier decision that it takes back makes what says no more one.
        yield said if decides(answer) else replace(said, state="doubtful")


def _is_unanswered(place: int, by_entry: Mapping[int, Sequence[Utterance]], entries: Sequence[Entry]) -> bool:
    """Return True where the agent is still at work on a message: no conclusion of the agent's ends the entries."""
    last = len(entries) - 1
    return place == last or entries[last].kind != "message" or not conclusion(by_entry.get(last, ()))


def _labelled(own: Sequence[Utterance], entry: Entry) -> Iterator[FilledSlot]:
    """Yield what others say under a label: "Decision: …", "Next step: …"; and calls that nobody mentions."""
    for said in own:
        stated = section_of(said)
        if not stated and is_labelled_open(said.text):
            stated = "next_steps" if said.is_last else "open_items"
        if stated:
            yield _of(
                said, stated, entry, Provenance.CONCLUDED if said.speaker == "assistant" else Provenance.OTHER, 1.0
            )


def _of(said: Utterance, section: Section, entry: Entry, provenance: Provenance, share: float) -> FilledSlot:
    return FilledSlot(
        section=section,
        text=said.text,
        source=entry.id,
        place=said.entry,
        provenance=provenance,
        worth=share,
    )


def _settled(found: Sequence[FilledSlot], decided: Sequence[str]) -> tuple[FilledSlot, ...]:
    """Return each slot once, the last of a repetition, without items that later events closed or replaced."""
    done = [(slot.place, _content(slot.text)) for slot in found if slot.section in ("completed", "changes")]
    kept: dict[tuple[Section, str], FilledSlot] = {}
    for slot in found:
        if slot.section in _STILL_OPEN and _is_done(slot, done):
            continue
        key = (slot.section, normal_hash(slot.text))
        kept.pop(key, None)
        kept[key] = slot
    return tuple(_standing(kept.values(), decided))


def _standing(slots: Iterable[FilledSlot], decided: Sequence[str]) -> Iterator[FilledSlot]:
    """Yield the slots, and of the decisions only those that hold; a doubtful one where it takes another back."""
    slots = tuple(slots)
    said = [slot.text for slot in slots if slot.section == "decisions"]
    held = {text.partition(FORMER)[0]: text for text in standing(said, decided)}
    for slot in slots:
        if slot.section != "decisions":
            yield slot
        elif slot.text in held and (slot.state == "open" or FORMER in held[slot.text]):
            yield replace(slot, text=held[slot.text])


def _is_done(slot: FilledSlot, done: Iterable[tuple[int, frozenset[str]]]) -> bool:
    return _is_among(_content(slot.text), (other for place, other in done if place > slot.place))


def _is_among(words: frozenset[str], done: Iterable[frozenset[str]]) -> bool:
    return bool(words) and any(len(words & other) >= IS_DONE * len(words) for other in done)


def _content(text: str) -> frozenset[str]:
    return frozenset(text_stems(text)) - STOP_WORDS - FOREIGN

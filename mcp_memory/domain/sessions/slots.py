"""Fills the slots of a session: what it is for, what was demanded, decided, done, changed, fixed and left open.

What the agent did counts before what the user said, that before what the agent concluded, other sentences last. Later
events change earlier slots. Pure; independent of stores, tokens and models.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from mcp_memory.domain.memory.harness import CLIENTS_NOTE, OWN_CALL, is_own_tool
from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS, Entry
from mcp_memory.domain.sessions.agent_actions import AgentActions
from mcp_memory.domain.sessions.calls_in_text import told_apart
from mcp_memory.domain.sessions.deed_slots import DeedSlots
from mcp_memory.domain.sessions.filled_slots import FIX_CHARACTERS, FilledSlot, Provenance, conclusion, joined
from mcp_memory.domain.sessions.offers import taken_of
from mcp_memory.domain.sessions.sentence_sections import (
    changes_direction,
    is_narration,
    is_put_off,
    section_of,
    takes_back,
)
from mcp_memory.domain.sessions.sentences import LAST_MESSAGES, Utterance, said_in
from mcp_memory.domain.sessions.standing_decisions import FORMER, standing
from mcp_memory.domain.sessions.summary import instructions_in, is_assent
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text.exact_values import exact_in
from mcp_memory.domain.text.lexicon import FOREIGN, QUESTION_SIGNS, STOP_WORDS
from mcp_memory.domain.text.statements import CONDITION, decides, finds_out, tells_of_trouble
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.domain.text.words import normal_hash, text_stems

STATE_CHARACTERS = 500
LEAST_WORDS = 3
_STILL_OPEN: frozenset[Section] = frozenset({"open_items", "next_steps", "in_progress"})
LEAST_GOAL, MATERIAL_CHARACTERS = 12, 2_000
LATEST, SUBSTANCE = 12, 30
"""The agent's last messages that tell the state, and the characters of one that is no mere remark."""
IS_DONE = 0.7
"""The share of an open item's words that something done must contain to close it."""

CLAIM = "The agent says: "
"""Opens what no deed confirms: an agent may be wrong about why something does not work."""
_DIGIT = re.compile(r"\d")
# "/add app.py", "/compact"; not "/srv/app is full"
_TO_CLIENT = re.compile(r"/[a-z][\w:-]{0,40}(?=\s|\Z)")
# "lease_seconds=240", also where it begins a written line, "\\nlease_seconds=240"
_SETTING = re.compile(r"(?:(?<=\\[nt])|\b)[A-Za-z]\w{1,60}=[\w./:-]*\w")


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
    found = [*did.all(), *_told(entries, deeds, said, end)]
    settled = _settled(sorted(found, key=lambda slot: slot.place), decided)
    told = (*settled, *_not_changed(settled, entries, deeds))
    return tuple(slot for slot in told if slot.source not in live)


def given_in(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return what acts and commands were given, and those settings written to files that somebody mentions."""
    entries = told_apart([entry for entry in entries if is_of_work(entry)])
    done = [did for did in AgentActions(entries).done if did.went_well]
    acted = [did.entry.text for did in done if did.acts or did.intervenes]
    spoken = "\n".join(entry.text for entry in entries if entry.kind == "message")
    written = (did.entry.text for did in done if did.line.act in ("edited", "wrote"))
    return (*acted, *(each for text in written for each in _SETTING.findall(text) if each in spoken))


def _not_changed(slots: Sequence[FilledSlot], entries: Sequence[Entry], deeds: AgentActions) -> Iterator[FilledSlot]:
    """Yield the files that are still to be changed, and those that the user named and the agent worked with."""
    known = " ".join(change.path for change in deeds.changes)
    for slot in slots:
        if slot.section in _STILL_OPEN and slot.state == "open" and slot.provenance >= Provenance.SAID:
            for path in _files_in(slot.text, known):
                text = f"{path}: not changed yet: {one_line(slot.text, FIX_CHARACTERS)}"
                yield replace(slot, section="changes", text=text, worth=1.0)
                known = f"{known} {path}"
    calls = "\n".join(did.entry.text for did in deeds.done if did.went_well)
    for place, entry in enumerate(entries):
        for path in _files_in(entry.text, known) if entry.is_users and entry.tokens <= INSTRUCTION_TOKENS else ():
            if path in calls:
                yield FilledSlot(
                    section="changes", text=f"{path}: used, not changed", source=entry.id, place=place,
                    provenance=Provenance.SAID, worth=0.5,
                )  # fmt: skip
                known = f"{known} {path}"


def _files_in(text: str, known: str) -> list[str]:
    """Return the files that a text names and that are not known, each once."""
    found = dict.fromkeys(each.text for each in exact_in(text) if each.sort == "files")
    return [path for path in found if path not in known]


def is_of_work(entry: Entry) -> bool:
    """Return False for what is the client's, and for calls of this memory's own tools."""
    arguments = entry.text if entry.kind == "tool_call" else None
    return entry.text not in (CLIENTS_NOTE, OWN_CALL) and not is_own_tool(entry.tool, arguments)


def _told(
    entries: Sequence[Entry], deeds: AgentActions, by_entry: Mapping[int, Sequence[Utterance]], end: int
) -> Iterator[FilledSlot]:
    if goal := goal_in(entries[:end], [_content(title) for title, _ in deeds.commits]):
        yield goal
    users = [n for n in by_entry if by_entry[n][0].speaker == "user"]
    agents = [n for n in by_entry if by_entry[n][0].speaker == "assistant"]
    yield from _state(agents, by_entry, entries)
    yield from _taken(entries)
    for number, own in by_entry.items():
        if entries[number].id in deeds.repaired | deeds.stopped:
            continue
        if own[0].speaker == "user":
            yield from _of_user(
                own, entries[number], deeds,
                is_first=users[0] == number, is_last=number in users[-LAST_MESSAGES:],
                is_open=users[-1] == number and _is_unanswered(number, by_entry, entries),
            )  # fmt: skip
        else:
            yield from _of_agent(own, entries[number], deeds, is_announced=_calls(entries, number + 1))


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


def goal_in(entries: Sequence[Entry], done: Sequence[frozenset[str]] = ()) -> FilledSlot | None:
    """Return the user's first wish that nothing `done` tells, or the last that changed the direction.

    A greeting is none, nor is a command to the client. `done` holds the words of each deed.
    """
    said = [(place, wish) for place, entry in enumerate(entries) for wish in _wishes(entry)]
    wishes = [each for each in said if not _TO_CLIENT.match(each[1])] or said
    turned = [each for each in wishes if changes_direction(each[1])][-1:]
    stated = [each for each in wishes if len(each[1]) >= LEAST_GOAL]
    waiting = [each for each in stated if not _is_among(_content(each[1]), done)] or stated[-1:]
    for place, wish in (turned or waiting or wishes)[:1]:
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
    if told:
        last = agents[-1]
        yield FilledSlot(
            section="state", text=told, source=entries[last].id, place=last, provenance=Provenance.CONCLUDED
        )


def _tells(sentence: str) -> bool:
    """Return False for a civility: "You're welcome!", "If there's anything else, feel free to ask."."""
    is_more = len(_content(sentence)) >= LEAST_WORDS or not sentence.isascii() or bool(_DIGIT.search(sentence))
    return is_more and not CONDITION.match(sentence)


def _of_user(
    own: Sequence[Utterance],
    entry: Entry,
    deeds: AgentActions,
    *,
    is_first: bool,
    is_last: bool,
    is_open: bool,
) -> Iterator[FilledSlot]:
    """Yield what the user demands, puts off, finds out and chooses."""
    if is_assent(entry.text):
        return
    if is_open and not is_first and (asked := joined(said.text for said in own if _tells(said.text))):
        yield _of(replace(own[0], text=asked), "next_steps", entry, Provenance.SAID, 3.0)  # Nothing is more urgent.
    for said in own:
        if not _asks(said):
            put_off = "next_steps" if is_last else "open_items"
            yield from _demanded(said, entry, None if is_first or is_open else put_off, is_first=is_first)
    answer = conclusion(own)
    if is_first:
        return
    if finds_out(answer) and deeds.edited_after(own[0].entry):
        yield _of(replace(own[0], text=answer), "fixes", entry, Provenance.SAID, 1.5)
    elif decides(answer) or takes_back(answer):
        said = _of(replace(own[0], text=answer), "decisions", entry, Provenance.SAID, 1.5)
        # Only an earlier decision that it takes back makes what says no more one.
        yield said if decides(answer) else replace(said, state="doubtful")


def _demanded(said: Utterance, entry: Entry, put_off: Section | None, *, is_first: bool) -> Iterator[FilledSlot]:
    if put_off and is_put_off(said.text):
        yield _of(said, put_off, entry, Provenance.SAID, 1.5)
    section = section_of(said)
    # A choice stands with its reasons; the first message has nothing before it that came to nothing.
    if section and section != ("dead_ends" if is_first else "decisions"):
        yield _of(said, section, entry, Provenance.SAID, 1.5)


def _is_unanswered(place: int, by_entry: Mapping[int, Sequence[Utterance]], entries: Sequence[Entry]) -> bool:
    """Return True where the agent is still at work on a message: no conclusion of the agent's ends the entries."""
    last = len(entries) - 1
    return place == last or entries[last].kind != "message" or not conclusion(by_entry.get(last, ()))


def _says_something(text: str) -> bool:
    return len(text.split()) > LEAST_WORDS or (not text.isascii() and len(text) > 8)


def _calls(entries: Sequence[Entry], place: int) -> bool:
    return place < len(entries) and entries[place].kind == "tool_call"


def _of_agent(
    own: Sequence[Utterance], entry: Entry, deeds: AgentActions, *, is_announced: bool
) -> Iterator[FilledSlot]:
    """Yield what the agent concluded: an error before it and a change behind it make it a fix; and what it put off.

    What a message announces before a call is done at once, not put off.
    """
    place, concluded = own[0].entry, conclusion(own)
    section = _concluded_section(own[0], concluded, deeds)
    is_finding = finds_out(concluded) or tells_of_trouble(concluded)
    if not section and is_finding and deeds.bears_out(place, concluded):
        section, concluded = "fixes", f"{CLAIM}{concluded}"
    if section:
        yield FilledSlot(
            section=section, text=concluded, source=entry.id, place=place,
            provenance=Provenance.CONCLUDED, worth=1.5,
        )  # fmt: skip
    for said in own:
        stated = section_of(said)
        # What is said before a call goes on: only its beginning says what came of what was tried before.
        is_tried = said.speaker != "assistant" or not is_announced or said in own[:2]
        if stated and (is_tried or stated != "dead_ends") and (stated != section or said.text not in concluded):
            is_own = said.speaker == "assistant"
            yield _of(said, stated, entry, Provenance.CONCLUDED if is_own else Provenance.OTHER, 1.0)
        elif stated or is_announced:
            continue
        elif is_put_off(said.text) and not (is_narration(said.text) or _asks(said)):
            yield _of(said, "next_steps" if said.is_last else "open_items", entry, Provenance.CONCLUDED, 1.2)


def _asks(said: Utterance) -> bool:
    return said.text.endswith(QUESTION_SIGNS)


def _is_done_about(first: Utterance, deeds: AgentActions) -> bool:
    """Return True where an error came before a message and a change of files or of a system behind it."""
    is_done = bool(deeds.edited_after(first.entry)) or deeds.intervened_after(first.entry)
    return is_done and deeds.follows_error(first.entry)


def _concluded_section(first: Utterance, concluded: str, deeds: AgentActions) -> Section | None:
    if first.speaker != "assistant" or not _says_something(concluded):
        return None
    edits = deeds.edited_after(first.entry)
    if edits and deeds.vain.issuperset(edits):
        return None  # A dead end says it.
    return "fixes" if _is_done_about(first, deeds) else None


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

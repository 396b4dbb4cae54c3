"""Carries a session over a client's compaction: the user's words, what was chosen and why, what sub-agents found.

The user's messages are cheap and stay whole: which of their sentences holds for the rest of the session, no rule can
tell. What there is no room for is cut, and names the id that opens it. Pure; independent of stores and models.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_memory.domain.model.session_log import INSTRUCTION_TOKENS, Count, Entry
from mcp_memory.domain.sessions.sentence_sections import demands
from mcp_memory.domain.sessions.subagents import findings_in
from mcp_memory.domain.sessions.summary import instructions_in, is_assent
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.exact_values import exact_in
from mcp_memory.domain.text.segments import sentences_of, unquoted
from mcp_memory.domain.text.statements import decides, finds_out, tells_of_trouble
from mcp_memory.domain.text.words import normal_hash

LEAST_TOKENS: Final = 20
"""The tokens of a line that is cut: a shorter one says too little."""
FRAME_TOKENS, ID_TOKENS = 3, 12
"""Tokens of a line's mark and indent, and of these with the id behind what was cut."""
MOST_OF_ONE: Final = 4
"""The largest part of the room for one message that is longer than an instruction, as a divisor."""
ANSWER_CHARACTERS: Final = 80
"""A longer answer to a proposal says by itself what was chosen."""
PROPOSED: Final = 3
"""The last sentences of a message that an answer agrees to."""
MOST_READ: Final = 20_000
"""Characters read of a message or a finding."""
_ELLIPSIS = "…"
# "We have decided to use SQLite", "wir haben beschlossen, …", "我们决定…"
_DECIDED = re.compile(rf"\b(?:{lexicon.spaced('we_decided')})\b|(?:{lexicon.unspaced('we_decided')})", re.IGNORECASE)
# "I'm going with Redis", "wir nehmen SQLite", "采用"
_CHOSEN = re.compile(rf"\b(?:{lexicon.spaced('chosen')})\b|(?:{lexicon.unspaced('chosen')})", re.IGNORECASE)
# "because the broker is there", "weil es ohne Server läuft", "因为"
_REASON = re.compile(rf"\b(?:{lexicon.spaced('reasons')})(?!\w)|(?:{lexicon.unspaced('reasons')})", re.IGNORECASE)

# "I'd store it on the server", "schlage ich SQLite vor", "建议"
_PROPOSAL = re.compile(rf"\b(?:{lexicon.spaced('proposals')})\b|(?:{lexicon.unspaced('proposals')})", re.IGNORECASE)
# "Yes, | SQLite.", "ok - round once"
_CLAUSE_END = re.compile(r"[,.;:!，。；：！]|\s[–—-]\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedLine:
    """A line to carry over: its text of so many tokens, the id that opens it, and its rank; the lowest goes first."""

    text: str
    source: str
    tokens: int
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedLines:
    """The lines of a session to carry over, each kind in the order of time."""

    said: tuple[CarriedLine, ...]
    chosen: tuple[CarriedLine, ...]
    found: tuple[CarriedLine, ...]


def carried_over(entries: Sequence[Entry], count: Count) -> CarriedLines:
    """Read what to carry over from a log's messages and the calls of sub-agents with their results, in order."""
    return CarriedLines(
        said=_once(_said(entries)), chosen=_once(_chosen(entries, count)), found=_once(_found(entries, count))
    )


def room_for(lines: Sequence[CarriedLine]) -> int:
    """Return the tokens of the lines, all whole."""
    return sum(line.tokens + FRAME_TOKENS for line in lines)


def shared_out(wanted: Mapping[str, int], shares: Mapping[str, float], room: int) -> dict[str, int]:
    """Return the tokens for each kind: what it wants where that fits its share of the room, and what others leave.

    The order of the shares is that in which kinds take what is left.
    """
    given = {kind: min(wanted[kind], int(share * room)) for kind, share in shares.items()}
    left = room - sum(given.values())
    for kind in shares:
        more = min(left, wanted[kind] - given[kind])
        given[kind] += more
        left -= more
    return given


def fitted(lines: Sequence[CarriedLine], room: int, count: Count) -> list[str]:
    """Return the lines in their order, whole where all fit; else those of the first ranks, the longest cut.

    Of equal rank the shorter goes first: so most are there.
    """
    kept: dict[int, str] = {}
    left, behind = room, room_for(lines)
    for place, line in sorted(enumerate(lines), key=lambda each: (each[1].rank, each[1].tokens, -each[0])):
        text = "\n".join(each.rstrip() for each in line.text.splitlines() if each.strip())
        cost = line.tokens + FRAME_TOKENS
        behind -= cost
        most = min(left, max(room // MOST_OF_ONE, LEAST_TOKENS, left - behind))
        is_short = line.tokens <= INSTRUCTION_TOKENS and cost <= min(left, room // 2)
        if cost > most and not is_short and most >= LEAST_TOKENS:
            text = f"{_cut(line.text, most - ID_TOKENS, count)} {_ELLIPSIS} ({line.source})"
            cost = count(text) + FRAME_TOKENS
        if cost <= left:
            kept[place] = text
            left -= cost
    return [kept[place] for place in sorted(kept)]


def _cut(text: str, room: int, count: Count) -> str:
    """Return the first and the last line of a text and the sentences that tell most, in order, in so many tokens.

    An end is read as it stands: before and behind pasted lines, which look like nothing that is said, stands the order.
    """
    parts = _parts(text, room // 3, count)
    ends = (len(parts) - 1, 0)
    kept: dict[int, str] = {}
    for place in sorted(range(len(parts)), key=lambda each: (each not in ends, -_worth(parts[each]), each)):
        part = _shortened(parts[place], room // 2, count) if place in ends else parts[place]
        tokens = count(part) + 1
        if tokens <= room:
            kept[place] = part
            room -= tokens
    return " ".join(kept[place] for place in sorted(kept))


def _parts(text: str, most: int, count: Count) -> list[str]:
    """Return the sentences of a text between its first and its last line, and these; whole up to so many tokens."""
    first, _, rest = text.strip().partition("\n")
    between, _, last = rest.rpartition("\n")
    ends = [[line] if count(line) <= most else [*sentences_of(line)] or [line] for line in (first, last) if line]
    return [*ends[0], *sentences_of(_read(between)), *(part for end in ends[1:] for part in end)]


def _read(text: str) -> str:
    """Return the beginning and the end of a text that is longer than what is read of one."""
    half = MOST_READ // 2
    return text if len(text) <= MOST_READ else f"{text[:half]}\n\n{text[-half:]}"


def _shortened(text: str, room: int, count: Count) -> str:
    """Return the beginning of a text, up to a blank where it has one, in so many tokens."""
    short = text
    while len(short) > 1 and count(short) > room:
        short = short[: len(short) * 3 // 4]
    return short if short == text else short.rpartition(" ")[0] or short


def _worth(sentence: str) -> float:
    states = demands(sentence) or finds_out(sentence) or decides(sentence)
    return 2.0 * states + 1.0 * bool(exact_in(sentence)) + 0.5 * tells_of_trouble(sentence)


def _said(entries: Sequence[Entry]) -> Iterator[CarriedLine]:
    """Yield the user's messages but mere assent: the first and the last before rules, those before questions."""
    own = [
        entry
        for entry in entries
        if entry.is_users and (entry.tokens > INSTRUCTION_TOKENS or instructions_in((entry,)))
    ]
    for number, entry in enumerate(own):
        text = entry.text.strip()
        if number in (0, len(own) - 1):
            rank = 0
        elif text.endswith(lexicon.QUESTION_SIGNS):
            rank = 4
        elif any(map(demands, sentences_of(text[:MOST_READ]))):
            rank = 1
        else:
            rank = 2 if entry.tokens <= INSTRUCTION_TOKENS else 3
        yield CarriedLine(text=text, source=entry.id, tokens=entry.tokens, rank=rank)


def _chosen(entries: Sequence[Entry], count: Count) -> Iterator[CarriedLine]:
    """Yield what the agent says was chosen, with the reason, and what it proposed with a reason and the user took."""
    spoken = [entry for entry in entries if entry.kind == "message" and entry.role in ("user", "assistant")]
    for place, entry in enumerate(spoken):
        before = spoken[place - 1] if place else entry
        if entry.role == "user":
            texts = [*_agreed(before, entry)] if before.role == "assistant" else []
        else:
            texts = [*choices_in(entry.text)]
        for text in texts:
            rank = 1 if gives_reason(text) else 2
            yield CarriedLine(text=text, source=entry.id, tokens=count(text), rank=rank)


def choices_in(text: str) -> Iterator[str]:
    """Yield the sentences of a text that state a choice, each with its reason where the next one gives it."""
    sentences = [*sentences_of(text[:MOST_READ])]
    for sentence, following in zip(sentences, [*sentences[1:], ""], strict=True):
        own = unquoted(sentence)
        reason = following if not _REASON.search(own) and _REASON.match(following) else ""
        is_reasoned = bool(reason or _REASON.search(own))
        states = decides(sentence) or _DECIDED.search(own) or (is_reasoned and _CHOSEN.search(own))
        if states and not sentence.endswith(lexicon.QUESTION_SIGNS):
            yield f"{sentence} {reason}".strip()


def gives_reason(text: str) -> bool:
    """Return True where a text gives a reason for what it states."""
    return bool(_REASON.search(text))


def _agreed(proposal: Entry, answer: Entry) -> Iterator[str]:
    """Yield the end of a proposal that gives a reason, with the short answer that takes it.

    Where it asks nothing, its own words must propose, and the answer agree: "I'd use SQLite, because …" → "ok, SQLite".
    """
    last = [*sentences_of(proposal.text[-MOST_READ:])][-PROPOSED:]
    said = " ".join(answer.text.split())
    if not last or len(said) > ANSWER_CHARACTERS or not any(map(_REASON.search, last)):
        return
    if last[-1].endswith(lexicon.QUESTION_SIGNS):
        yield f"{' '.join(last)} → {said}"
    elif is_assent(_CLAUSE_END.split(said, maxsplit=1)[0]):
        begins = next((place for place, sentence in enumerate(last) if _proposes(sentence)), len(last))
        proposed = last[begins:]
        if any(map(_REASON.search, proposed)):
            yield f"{' '.join(proposed)} → {said}"


def _proposes(sentence: str) -> bool:
    return bool(_PROPOSAL.search(unquoted(sentence)))


def _found(entries: Sequence[Entry], count: Count) -> Iterator[CarriedLine]:
    """Yield what each sub-agent reported, behind what it was asked; of a crowd the latest go first."""
    for finding in findings_in(entries):
        asked = f"{finding.asked}: " if finding.asked else ""
        text = f"{asked}{finding.text} ({finding.source})"
        yield CarriedLine(text=text, source=finding.source, tokens=count(text), rank=0)


def _once(lines: Iterator[CarriedLine]) -> tuple[CarriedLine, ...]:
    """Return each text once, at its last place."""
    kept: dict[str, CarriedLine] = {}
    for line in lines:
        key = normal_hash(line.text)
        kept.pop(key, None)
        kept[key] = line
    return tuple(kept.values())

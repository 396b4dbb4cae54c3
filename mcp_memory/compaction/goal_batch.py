"""Implements the goal-batch pass: three to six finished turns become one block that quotes the user's requests.

Requests are kept to the byte. Each turn shows its request, its result, the decisions and findings on the way, and
its failures; the exact values of all turns follow at the end. Many batches become one of a higher level. Needs no
model; independent of stores.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias, TypeVar

from mcp_memory.domain.model.session_log import (
    INSTRUCTION_TOKENS,
    LABELS,
    CompactionOptions,
    Count,
    Entry,
    PassKind,
    PassName,
    PassPlan,
    Pause,
    Replacement,
    SessionLog,
    is_long,
    old,
    preserved,
    replacing,
)
from mcp_memory.domain.sessions.ledger import Ledger, fitted, ledger_of, on_one_line
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.sessions.tool_outputs import errors_of, is_said
from mcp_memory.domain.text.statements import Telling, telling
from mcp_memory.domain.text.summary_sections import quote
from mcp_memory.domain.text.times import iso_minute

FEWEST, MOST = 3, 6
MANY_BATCHES = 6
"""Batches that may be neighbours; of more, the oldest become one of a higher level."""
VALUE_TOKENS, VALUE_SHARE = 40, 0.08
"""Room for exact values: tokens for each turn, or this share of the originals' tokens, whichever is more."""
NOTED_TOKENS, NOTED_SHARE = 80, 0.05
"""Room for the way to a turn's outcome: tokens, or this share of its originals' tokens, whichever is more."""
ROOMS = (1.0, 0.4, 0.0)
"""Shares of that room to try until a block is shorter than the entries it replaces."""
OUTCOME_CHARACTERS, LEAST_OUTCOME = 240, 40
"""Characters of a turn's outcome. A batch merged into another halves its outcomes, down to the least."""
ERROR_CHARACTERS, BLOCK_CHARACTERS, MAX_ERRORS = 200, 400, 8
STRETCH = 20
"""Entries from which a part of a long turn counts as a turn of its own."""
MATERIAL, STEPS, OUTCOME, FAILED, VALUES = "At length: ", "Steps from: ", "→ ", "Failed: ", "Values: "
"""Prefixes of the lines that are no quotation."""
NO_ANSWER = "no answer"

_Group: TypeAlias = Sequence[Sequence[Entry]]
"""Turns, each as its entries; or batches, each by itself."""
# e.g. "[SUMMARIZED] ", " Why: check the port.", " (open x00002k)"

_BLOCK_FRAME = re.compile(
    rf"\A\[{LABELS['tools']}\]\s|\sWhy: [^\n]{{0,140}}?(?=\s(?:Failed|Showed an error|Done|Gave)\b)|\s\(open x\w+\)\Z"
)
"""Parts of a block for calls that a batch does not repeat: its label, its id, and the reason for the calls."""
_SHOWED = "howed an error"


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchTurn:
    """A turn in a batch: the user's words, quoted; the result and the failures, a line each.

    `noted` are sentences about the way there, shown in at most `room` tokens.
    """

    asked: str
    outcome: str
    failed: str = ""
    noted: tuple[Telling, ...] = ()
    room: int = 0


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class GoalBatch:
    """Groups finished turns by their age and number, however full the log is."""

    name: PassName = field(default="goal_batch", init=False)
    kind: PassKind = field(default="summarising", init=False)
    count: Count
    pause: Pause = bool

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        """Plan a batch for each group that one makes shorter; groups of turns and of batches never share an entry."""
        groups = [*_turn_groups(log, options), *_batch_groups(log, options)]
        if not groups:
            return PassPlan(
                reason=f"no {FEWEST} neighbouring turns that are finished and {options.old_turns} or more back"
            )
        made = [(group, block) for group in groups if (block := self._block(group)) is not None]
        if not made:
            return PassPlan(reason="no finished turns that a batch would make shorter")
        return PassPlan(reason=_reason([group for group, _ in made]), replacements=tuple(block for _, block in made))

    def _block(self, group: _Group) -> Replacement | None:
        """Return the fullest block for these turns or batches that is shorter than they are; None where none is."""
        entries = tuple(chain.from_iterable(group))
        told = _merged(group) if group[0][0].form == "batch" else [_told(turn) for turn in self._gently(group)]
        ledger = ledger_of(self._gently(entries))
        span = f"{iso_minute(entries[0].at)} to {iso_minute(max(entry.at for entry in entries))}"
        for share in ROOMS:
            body = "\n\n".join(_shown(one, share, self.count) for one in told)
            values = self._values(ledger, entries, len(told), share, body)

            def text(entry_id: str, said: str = body + values) -> str:
                head = f"[{LABELS['batch']} {entry_id}] {len(told)} turns, {span}"
                return f'{head}; recall(ids=["{entry_id}"]) opens them.\n\n{said}'

            made = replacing(entries, "batch", text, self.count, role="user")
            if made.entry.tokens < sum(entry.tokens for entry in entries):
                return made
        return None

    def _gently(self, many: Iterable[_T]) -> Iterator[_T]:
        """Yield each of them after a pause: reading one takes milliseconds."""
        for one in many:
            self.pause()
            yield one

    def _values(self, ledger: Ledger, entries: Iterable[Entry], turns: int, share: float, said: str) -> str:
        """Return a last paragraph with as many of the exact values not in `said` as fit; "" without any."""
        room = max(turns * VALUE_TOKENS, int(sum(entry.original_tokens for entry in entries) * VALUE_SHARE))
        line = on_one_line(fitted(_unsaid(ledger, said), int(room * share), self.count))
        return f"\n\n{VALUES}{line}" if line else ""


def _turn_groups(log: SessionLog, options: CompactionOptions) -> Iterator[_Group]:
    """Yield neighbouring turns, oldest first, three to six at a time; fewer wait for more."""
    run: list[Sequence[Entry]] = []
    for turn, ends_here in _old_turns(log, options):
        if turn:
            run.append(turn)
        if len(run) == MOST or ends_here:
            if len(run) >= FEWEST:
                yield run
            run = []


def _old_turns(log: SessionLog, options: CompactionOptions) -> Iterator[tuple[Sequence[Entry], bool]]:
    """Yield each turn's own entries, none where it must stay, and True where the next turn is not its neighbour.

    A turn stays whole where part of it is preserved, or part of an exchange is in another turn; only a long one is
    taken in stretches. Other blocks and the summary appear among the entries of a turn, but do not belong to it.
    """
    free = old(log, options)
    for number, turn in enumerate(log.turns):
        own = [place for place in turn if log.entries[place].form not in ("dialogue", "batch", "summary")]
        goes = (
            bool(own)
            and log.entries[own[0]].is_users
            and log.turns_since[own[0]] >= max(options.old_turns, 1)
            and free.issuperset(own)
            and log.closed(own) == frozenset(own)
        )
        if not goes and is_long(log, turn, options):
            yield from _stretches(log, log.within(free.intersection(own)))
            continue
        is_last = number == len(log.turns) - 1
        yield log.at(own) if goes else (), not goes or is_last or len(own) < len(turn)


def _stretches(log: SessionLog, free: frozenset[int]) -> Iterator[tuple[Sequence[Entry], bool]]:
    """Yield the free neighbours of a long turn in stretches, none of which parts an exchange."""
    yield (), True
    stretch: list[int] = []
    open_until = -1
    for place in sorted(free):
        stretch.append(place)
        open_until = max(open_until, log.exchange_of.get(place, (place,))[-1])
        ends_here = place + 1 not in free
        if ends_here or (len(stretch) >= STRETCH and place >= open_until):
            yield log.at(stretch), ends_here
            stretch = []


def _batch_groups(log: SessionLog, options: CompactionOptions) -> Iterator[_Group]:
    """Yield, from each long run of neighbouring batches, the oldest ones of about one level."""
    stays = preserved(log, options)
    run: list[Entry] = []
    for place, entry in enumerate(log.entries):
        if entry.form == "batch" and place not in stays:
            run.append(entry)
        elif run:
            yield from _of_one_level(run)
            run = []
    yield from _of_one_level(run)


def _of_one_level(run: Sequence[Entry]) -> Iterator[_Group]:
    """Yield the first three to six of a run whose levels differ by one at most; a batch of batches waits for others."""
    start = 0
    while len(run) > MANY_BATCHES and start < len(run):
        end = start + 1
        while end < min(len(run), start + MOST) and _is_about_level(run[start : end + 1]):
            end += 1
        if end - start >= FEWEST:
            yield [(batch,) for batch in run[start:end]]
            return
        start += 1


def _is_about_level(batches: Sequence[Entry]) -> bool:
    levels = [batch.level for batch in batches]
    return max(levels) - min(levels) <= 1


def _told(turn: Sequence[Entry]) -> _BatchTurn:
    """Return a turn in the form of its batch."""
    asked = turn[0]
    rest = turn[1:] if asked.is_users else turn
    answers = [entry for entry in rest if _is_answer(entry)]
    tellings = [telling(entry.text) for entry in answers]
    said = [*chain.from_iterable(tellings)]
    errors = [error for entry in rest for error in _errors(entry)]
    failed = dict.fromkeys([*errors, *(one_line(each.text, ERROR_CHARACTERS) for each in said if each.is_dead_end)])
    if not asked.is_users:
        opening = STEPS + _short(next(iter(answers), asked))
    else:
        opening = quote(asked.text) if asked.tokens <= INSTRUCTION_TOKENS else MATERIAL + _short(asked)
    return _BatchTurn(
        asked=opening,
        outcome=_outcome(answers[-1], tellings[-1]) if answers else NO_ANSWER,
        failed="; ".join(list(failed)[-MAX_ERRORS:]),
        noted=tuple(each for each in said if not each.is_dead_end),
        room=max(NOTED_TOKENS, int(sum(entry.original_tokens for entry in rest) * NOTED_SHARE)),
    )


def _is_answer(entry: Entry) -> bool:
    return entry.kind == "message" and entry.role == "assistant" and entry.form != "tools"


def _outcome(answer: Entry, said: Sequence[Telling]) -> str:
    """Return the result that an answer states: its informative sentences, else its short form."""
    return " ".join(_best(said, OUTCOME_CHARACTERS, len)) or _short(answer)


def _short(entry: Entry) -> str:
    return one_line(entry.summary or entry.text, OUTCOME_CHARACTERS)


def _errors(entry: Entry) -> Iterator[str]:
    """Yield the failures, in the words of the output or of the block that reports them."""
    if entry.form == "tools" and (entry.failed or _SHOWED in entry.text):
        yield one_line(_BLOCK_FRAME.sub("", entry.text), BLOCK_CHARACTERS)
    elif entry.kind == "tool_result" and entry.form in ("original", "mask"):
        yield from (one_line(error, ERROR_CHARACTERS) for error in errors_of(entry))


def _unsaid(ledger: Ledger, said: str) -> Ledger:
    """Return the part of a ledger that is not in `said`, and fits on one line."""

    def left(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(text for text in texts if "\n" not in text and not is_said(text, [said]))

    return Ledger(**{sort: left(texts) for sort, texts in ledger.lists.items()}, weights=ledger.weights)


def _shown(told: _BatchTurn, share: float, count: Count) -> str:
    new = [each for each in told.noted if each.text not in told.outcome]
    outcome = " ".join([told.outcome, *_best(new, int(told.room * share), count)])
    return "\n".join([told.asked, OUTCOME + outcome, *([FAILED + told.failed] if told.failed else [])])


def _best(said: Sequence[Telling], room: int, size: Callable[[str], int]) -> list[str]:
    """Return the most informative sentences, each once, as many as fit, in order."""
    left = room
    chosen: dict[str, int] = {}
    for place, each in sorted(enumerate(said), key=lambda one: -one[1].worth):
        text = " ".join(each.text.split())
        if text not in chosen and size(text) <= left:
            left -= size(text)
            chosen[text] = place
    return sorted(chosen, key=chosen.__getitem__)


def _merged(group: _Group) -> list[_BatchTurn]:
    """Return the turns of several batches, their outcomes halved."""
    return [replace(one, outcome=_halved(one.outcome)) for (batch,) in group for one in _parsed(batch.text)]


def _halved(outcome: str) -> str:
    most = max(len(outcome) // 2, LEAST_OUTCOME)
    return " ".join(_best(telling(outcome), most, len)) or one_line(outcome, most)


def _parsed(text: str) -> Iterator[_BatchTurn]:
    """Yield the turns in a batch. Quoted lines begin with a mark of their own, so no other line looks like one."""
    for paragraph in text.split("\n\n")[1:]:
        asked, arrow, rest = paragraph.partition(f"\n{OUTCOME}")
        outcome, _, failed = rest.partition(f"\n{FAILED}")
        if arrow:
            yield _BatchTurn(asked=asked, outcome=outcome, failed=failed)


def _reason(groups: Sequence[_Group]) -> str:
    """Return the reason: the numbers of turns and batches, before and after."""
    said: list[str] = []
    for what, are_batches in (("finished turns", False), ("batches", True)):
        of_these = [group for group in groups if (group[0][0].form == "batch") == are_batches]
        if of_these:
            said.append(f"{sum(map(len, of_these))} {what} into {len(of_these)} batch{'es' * (len(of_these) > 1)}")
    return "; ".join(said)

"""The goal-batch pass: three to six finished turns become one block that keeps what the user asked for, to the byte.

A turn is told by what was asked, what came of it, and what failed. Many batches become one of a higher level. Needs no
model; knows no store.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from mcp_memory.domain.compaction import (
    INSTRUCTION_TOKENS,
    Count,
    Options,
    PassName,
    Plan,
    Replacement,
    preserved,
    replacing,
)
from mcp_memory.domain.extraction import dead_ends
from mcp_memory.domain.ledger import SEPARATOR, fitted, ledger_of
from mcp_memory.domain.session_log import Entry, SessionLog
from mcp_memory.domain.structured_summary import quote
from mcp_memory.domain.times import iso_minute
from mcp_memory.domain.tool_lines import one_line
from mcp_memory.domain.tool_outputs import remains_of

MARK = "[GOAL BATCH"
FEWEST, MOST = 3, 6
MANY_BATCHES = 6
"""Of more neighbouring batches than these, the oldest become one of a higher level."""
VALUE_TOKENS = 40
"""What exact values may take for each turn."""
OUTCOME_CHARACTERS, LEAST_OUTCOME = 240, 40
"""Of what came of a turn; half of it each time that its batch becomes part of another, down to the least."""
ERROR_CHARACTERS, BLOCK_CHARACTERS, MAX_ERRORS = 200, 300, 5
MATERIAL, OUTCOME, FAILED, VALUES = "At length: ", "→ ", "Failed: ", "Values: "
"""How the lines begin that are no quotation."""
NO_ANSWER = "no answer"

_Group: TypeAlias = Sequence[Sequence[Entry]]
"""Turns, each its entries; or batches, each by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A turn in a batch: the user's words, quoted; what came of them and what failed, a line each."""

    asked: str
    outcome: str
    failed: str = ""


@dataclass(frozen=True, slots=True)
class GoalBatch:
    """Groups finished turns by their age and number, however full the log is."""

    count: Count

    @property
    def name(self) -> PassName:
        return "goal_batch"

    def plan(self, log: SessionLog, options: Options) -> Plan:
        """A batch for each group that one makes shorter; groups of turns and of batches never share an entry."""
        groups = [*_turn_groups(log, options), *_batch_groups(log, options)]
        if not groups:
            return Plan(reason=f"no {FEWEST} neighbouring turns that are finished and {options.old_turns} or more back")
        made = [(group, block) for group in groups if (block := self._block(group)) is not None]
        if not made:
            return Plan(reason="no finished turns that a batch would make shorter")
        return Plan(reason=_reason([group for group, _ in made]), replacements=tuple(block for _, block in made))

    def _block(self, group: _Group) -> Replacement | None:
        """The block for these turns or batches, None where it is no shorter."""
        entries = tuple(chain.from_iterable(group))
        told = _merged(group) if group[0][0].form == "batch" else [_told(turn) for turn in group]
        body = "\n\n".join(_shown(one) for one in told)
        values = self._values(entries, len(told), body)
        span = f"{iso_minute(entries[0].at)} to {iso_minute(max(entry.at for entry in entries))}"

        def text(entry_id: str) -> str:
            head = f'{MARK} {entry_id}] {len(told)} turns, {span}; recall(ids=["{entry_id}"]) opens them.'
            return "\n\n".join([head, body, *([VALUES + values] if values else [])])

        made = replacing(entries, "batch", text, self.count, role="user")
        return made if made.entry.tokens < sum(entry.tokens for entry in entries) else None

    def _values(self, entries: Iterable[Entry], turns: int, said: str) -> str:
        """The exact values of these entries that are not said already."""
        ledger = fitted(ledger_of(entries), turns * VALUE_TOKENS, self.count)
        return SEPARATOR.join(value for value in ledger.all if value not in said and "\n" not in value)


def _turn_groups(log: SessionLog, options: Options) -> Iterator[_Group]:
    """Neighbouring turns, oldest first, three to six at a time; fewer wait for more."""
    run: list[Sequence[Entry]] = []
    for turn, ends_here in _old_turns(log, options):
        if turn:
            run.append(turn)
        if len(run) == MOST or ends_here:
            if len(run) >= FEWEST:
                yield run
            run = []


def _old_turns(log: SessionLog, options: Options) -> Iterator[tuple[Sequence[Entry], bool]]:
    """Each turn's own entries, none where it may not go, and whether the next turn is not its neighbour.

    A turn stays whole where part of it is preserved, or part of an exchange is in another turn. Batches and the summary
    stand among the entries of a turn, but are none of it.
    """
    stays = preserved(log, options)
    for number, turn in enumerate(log.turns):
        own = [place for place in turn if log.entries[place].form not in ("batch", "summary")]
        goes = (
            bool(own)
            and log.entries[own[0]].is_users
            and log.turns_since[own[0]] >= max(options.old_turns, 1)
            and stays.isdisjoint(own)
            and log.closed(own) == frozenset(own)
        )
        is_last = number == len(log.turns) - 1
        yield log.at(own) if goes else (), not goes or is_last or len(own) < len(turn)


def _batch_groups(log: SessionLog, options: Options) -> Iterator[_Group]:
    """Of each long run of neighbouring batches the oldest that are of about one level."""
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
    """The first three to six of a run whose levels differ by one at most: a batch of batches waits for its like."""
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


def _told(turn: Sequence[Entry]) -> _Told:
    """A turn as its batch tells it."""
    asked, *rest = turn
    last = next((entry for entry in reversed(rest) if _is_answer(entry)), None)
    errors = dict.fromkeys(chain.from_iterable(_errors(entry) for entry in rest))
    return _Told(
        asked=quote(asked.text) if asked.tokens <= INSTRUCTION_TOKENS else MATERIAL + _short(asked),
        outcome=_short(last) if last else NO_ANSWER,
        failed="; ".join(list(errors)[-MAX_ERRORS:]),
    )


def _is_answer(entry: Entry) -> bool:
    return entry.kind == "message" and entry.role == "assistant" and entry.form != "tools"


def _short(entry: Entry) -> str:
    return one_line(entry.summary or entry.text, OUTCOME_CHARACTERS)


def _errors(entry: Entry) -> Iterator[str]:
    """What failed or led nowhere, in the words of the output, of the block that tells it, or of the assistant."""
    if entry.form == "tools" and entry.failed:
        yield one_line(entry.text, BLOCK_CHARACTERS)
    elif entry.kind == "tool_result" and entry.form in ("original", "mask"):
        yield from (one_line(error, ERROR_CHARACTERS) for error in remains_of(entry).errors)
    elif _is_answer(entry):
        yield from (one_line(each.text, ERROR_CHARACTERS) for each in dead_ends(entry.text))


def _shown(told: _Told) -> str:
    return "\n".join([told.asked, OUTCOME + told.outcome, *([FAILED + told.failed] if told.failed else [])])


def _merged(group: _Group) -> list[_Told]:
    """The turns of several batches, what came of them said in half as much."""
    told = [one for (batch,) in group for one in _parsed(batch.text)]
    most = max(max((len(one.outcome) for one in told), default=0) // 2, LEAST_OUTCOME)
    return [replace(one, outcome=one_line(one.outcome, most)) for one in told]


def _parsed(text: str) -> Iterator[_Told]:
    """The turns that a batch tells. Quoted lines begin with a mark of their own, so none is taken for another's."""
    for paragraph in text.split("\n\n")[1:]:
        asked, arrow, rest = paragraph.partition(f"\n{OUTCOME}")
        outcome, _, failed = rest.partition(f"\n{FAILED}")
        if arrow:
            yield _Told(asked=asked, outcome=outcome, failed=failed)


def _reason(groups: Sequence[_Group]) -> str:
    """How many turns and batches became how many."""
    said: list[str] = []
    for what, are_batches in (("finished turns", False), ("batches", True)):
        of_these = [group for group in groups if (group[0][0].form == "batch") == are_batches]
        if of_these:
            said.append(f"{sum(map(len, of_these))} {what} into {len(of_these)} batch{'es' * (len(of_these) > 1)}")
    return "; ".join(said)

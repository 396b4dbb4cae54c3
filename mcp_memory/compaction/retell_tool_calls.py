"""Describes old tool calls and their results in a few sentences: the action, its purpose, and the result.

Consecutive attempts at the same thing share one description. Needs no model; independent of stores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, TypeAlias

from mcp_memory.domain.model.session_log import (
    LABELS,
    CompactionOptions,
    Count,
    PassKind,
    PassName,
    PassPlan,
    Places,
    Replacement,
    SessionLog,
    old,
    replacing,
)
from mcp_memory.domain.sessions.ledger import values_in
from mcp_memory.domain.sessions.tool_lines import CallLine, announced, call_line
from mcp_memory.domain.sessions.tool_outputs import Remains, kept_line, remains_of

VALUE_TOKENS = 60
"""Most tokens of exact values for each attempt."""
MAX_WRITTEN = 6
"""Most exact values of text written to a file."""
MAX_FAILURES, MAX_SUCCESSES = 6, 3
"""Most different endings to show of attempts that ended alike: the first errors, the last results."""

_Ending: TypeAlias = Literal["failed", "showed an error", "succeeded"]
_Run: TypeAlias = Sequence[tuple[Places, CallLine]]
"""Exchanges at one thing, each with its call in words."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One exchange: its ending, and its result."""

    ending: _Ending
    came: str


@dataclass(frozen=True, slots=True)
class RetellToolCalls:
    """Replaces each old exchange, or run of attempts, by one block."""

    name: PassName = field(default="tool_calls", init=False)
    kind: PassKind = field(default="rewording", init=False)
    count: Count

    def plan(self, log: SessionLog, options: CompactionOptions) -> PassPlan:
        """Plan a block for each run outside the preserved part, where the block is shorter."""
        runs = _runs(log, options)
        if not runs:
            return PassPlan(
                reason=f"no call {options.old_turns} or more turns back with a result outside the preserved part"
            )
        blocks = [block for run in runs if (block := self._block(log, run)) is not None]
        if not blocks:
            return PassPlan(reason=f"no call {options.old_turns} or more turns back is longer than what would say it")
        tokens = {entry.id: entry.tokens for entry in log.entries}
        before = sum(tokens[entry_id] for block in blocks for entry_id in block.replaces)
        after = sum(block.entry.tokens for block in blocks)
        made = "1 block" if len(blocks) == 1 else f"{len(blocks):,} blocks"
        reason = f"calls {options.old_turns} or more turns back, {before:,} tokens, told in {made} of {after:,}"
        return PassPlan(reason=reason, replacements=tuple(blocks))

    def _block(self, log: SessionLog, run: _Run) -> Replacement | None:
        entries = log.at(place for exchange, _ in run for place in exchange)
        most = sum(entry.tokens for entry in entries)
        attempts = [self._attempt(log, exchange, call) for exchange, call in run]
        why = next((said for exchange, call in run if (said := call.purpose or announced(log, exchange[0]))), "")
        for reasons, inputs in ((why, run[0][1].inputs), ("", ())):
            said = _sentences(run[0][1], attempts, reasons, inputs if len(run) == 1 else ())
            told = f"[{LABELS['tools']}] {said}"
            block = replacing(entries, "tools", lambda own, told=told: f"{told} (open {own})", self.count)
            if block.entry.tokens < most:
                return block
        return None

    def _attempt(self, log: SessionLog, exchange: Places, call: CallLine) -> _Attempt:
        results = log.at(exchange[1:])
        remains = [remains_of(result) for result in results]
        failed = any(result.failed for result in results)
        errors = tuple(dict.fromkeys(error for each in remains for error in each.errors))
        ending: _Ending = "failed" if failed else "showed an error" if errors else "succeeded"
        if ending == "succeeded" and call.act in ("edited", "wrote"):
            # A tool's answer about a file that it wrote only confirms the write.
            kept = Remains(errors=(), point="", values=values_in(call.written, MAX_WRITTEN))
        else:
            kept = Remains(errors=errors, point=remains[-1].point, values=remains[-1].values)
        return _Attempt(ending, kept_line(kept, VALUE_TOKENS, self.count, said=call.done))


def _runs(log: SessionLog, options: CompactionOptions) -> list[_Run]:
    """Return the old exchanges that may go, in order; those at the same thing in the same turn together."""
    free, turns = old(log, options), log.turns_since
    told = [
        (exchange, call_line(log.entries[exchange[0]]) if free.issuperset(exchange) else None)
        for exchange in log.exchanges
    ]
    runs: list[_Run] = []
    for _, run in groupby(told, key=lambda each: (turns[each[0][0]], each[1].key if each[1] else None)):
        if together := [(exchange, call) for exchange, call in run if call is not None]:
            runs.append(together)
    return runs


def _sentences(call: CallLine, attempts: Sequence[_Attempt], why: str, inputs: Sequence[str]) -> str:
    """Return the action with its inputs, its purpose where stated, and its result."""
    times = "" if len(attempts) == 1 else f" {_times(len(attempts))}"
    by = "" if call.act == "called" else f" with {call.tool}"
    beside = f" ({', '.join(inputs)})" if inputs else ""
    ended = _ended(call, attempts[0]) if len(attempts) == 1 else _ended_in_turn(attempts)
    return " ".join([f"{call.done}{times}{by}{beside}.", *([_closed(f"Why: {why}")] if why else []), _closed(ended)])


def _ended(call: CallLine, attempt: _Attempt) -> str:
    if attempt.ending == "succeeded":
        is_write = call.act in ("edited", "wrote")
        began = "Done" if is_write else "Gave" if attempt.came else "Gave nothing more"
    else:
        began = attempt.ending.capitalize()
    return f"{began}: {attempt.came}" if attempt.came else began


def _ended_in_turn(attempts: Sequence[_Attempt]) -> str:
    """Return `Failed 3 times (KeyError: 'port'; timed out · port 5433), then succeeded (33 passed)`."""
    parts: list[str] = []
    for ending, alike in groupby(attempts, key=lambda attempt: attempt.ending):
        each = [attempt.came for attempt in alike]
        came = list(dict.fromkeys(text for text in each if text))
        told = came[-MAX_SUCCESSES:] if ending == "succeeded" else came[:MAX_FAILURES]
        more = [f"{len(came) - len(told)} more"] if ending != "succeeded" and len(came) > len(told) else []
        often = "" if len(each) == 1 else f" {_times(len(each))}"
        parts.append(ending + often + (f" ({'; '.join([*told, *more])})" if told else ""))
    ended = ", then ".join(parts)
    return ended[0].upper() + ended[1:]


def _times(number: int) -> str:
    return "twice" if number == 2 else f"{number:,} times"


def _closed(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…", "。", "！", "？")) else f"{sentence}."

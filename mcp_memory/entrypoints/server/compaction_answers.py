"""Answers of the `compact` tool, and its progress on the way. Knows no tool and no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.server.answers import unless_empty
from mcp_memory.services.retrieval.result_rendering import stand_in_result, tokens_of

if TYPE_CHECKING:
    from mcp_memory.domain.model.session_log import Entry
    from mcp_memory.domain.sessions.pressure import Pressure
    from mcp_memory.ports.session_logs import Compaction, PassRun
    from mcp_memory.ports.text import TokenCounter
    from mcp_memory.services.sessions.compact import Compacted
    from mcp_memory.services.sessions.run_pass import PassStep
    from mcp_memory.services.sessions.summarize_span import Asked

EXTRACTED_SHOWN = 50
MEANWHILE_SHOWN = 5
LEAST_SPAN_TOKENS = 500
"""Tokens of a span's text that an answer holds at least; where it would not, a larger one is asked for."""
REST_TOKENS = 100
"""Kept for what differs between the answers of a call and of its repetition."""
_CUT = "\n… [cut: max_tokens holds no more; recall opens the rest]"


class _BudgetedAnswer:
    """An answer that is added to as long as it keeps its budget, counted as the JSON that is sent."""

    def __init__(self, shown: dict[str, Json], max_tokens: int, kept: int, counter: TokenCounter) -> None:
        """`kept` are tokens for what is added last, whatever it takes."""
        self.shown = shown
        self.max_tokens = max_tokens
        self.counter = counter
        self.left = max_tokens - kept - tokens_of(shown, counter)

    def add(self, name: str, value: Json) -> bool:
        """Add a value; False where the budget does not hold it."""
        if not value:
            return True
        tokens = tokens_of({name: value}, self.counter)
        if tokens > self.left:
            return False
        self.shown[name] = value
        self.left -= tokens
        return True


def show_step(step: PassStep, factor: float) -> tuple[float, float, str]:
    """Describe how far a compaction is: passes done of all, half of one that has begun, and what is happening.

    Tokens are the client's, `factor` times as many as counted.
    """
    done = step.number - (0.5 if step.event == "start" else 0)
    full = f"{_theirs(step.tokens, factor):,} of {round(step.total * factor):,} tokens"
    if step.event == "start":
        said = f"{step.name}: start, {full}"
    elif step.run and step.run.error:
        said = f"{step.name}: error, {step.run.error}; the log is as it was"
    elif step.run and step.run.ran:
        saved = _theirs(step.run.tokens_before - step.run.tokens_after, factor)
        said = f"{step.name}: complete, {saved:,} tokens saved, {full}, {step.run.milliseconds:.0f} ms"
    else:
        said = f"{step.name}: not needed, {step.run.reason if step.run else ''}"
    return done, step.passes, f"{said} ({iso(step.at)})"


def nothing_to_do(done: Compacted) -> str:
    """Return one line for a compaction that had nothing to do; empty where it did or has to tell anything."""
    is_told = any(run.ran or run.error for run in done.runs)
    if is_told or done.made or done.asked or done.undone or done.warnings or done.written or done.meanwhile:
        return ""
    return f"Nothing was to be done: the log takes {done.after.share:.0%} of its window."


def show_compacted(
    done: Compacted, beside: Mapping[str, Json], max_tokens: int, counter: TokenCounter
) -> dict[str, Json]:
    """The account of a compaction, with what is said `beside` it, in at most `max_tokens` as counted.

    Other tokens are the client's. Replacements come oldest first, each whole; what is left out is counted or named.
    """
    left_out = _left_out(len(done.made), done.session_id, ["extracted", "warnings", "adapted", "passes"])
    answer = _BudgetedAnswer({**beside, **_show_outcome(done)}, max_tokens, tokens_of(left_out, counter), counter)
    asked = done.asked if done.asked and _add_asked(answer, done.asked, done.factor) else None
    parts: tuple[tuple[str, Json], ...] = (
        ("warnings", list(done.warnings)),
        ("adapted", done.adapted),
        ("passes", [_show_run(run, done.factor) for run in done.runs]),
    )
    omitted = [name for name, value in parts if not answer.add(name, value)]
    made = _add_made(answer, done, answer.left // 2 if asked else answer.left)
    if asked:
        _add_text(answer, asked.text)
    if not answer.add("extracted", list(done.extracted[:EXTRACTED_SHOWN])):
        omitted.append("extracted")
    return answer.shown | _left_out(len(done.made) - made, done.session_id, omitted)


def _show_outcome(done: Compacted) -> dict[str, Json]:
    """Return the fields of every answer, however small."""
    shown: dict[str, Json] = {
        "session_id": done.session_id,
        "log": _show_pressure(done.after, done.factor) | {"entries": done.entries},
        "saved": _theirs(done.before.tokens - done.after.tokens, done.factor),
        "preset": done.preset,
        "compactions": done.compactions,
    }
    shown |= unless_empty(
        compaction=done.number,
        undone=done.undone,
        redacted=done.redacted,
        cleaned=done.cleaned,
        extracted_count=len(done.extracted),
    )
    shown |= unless_empty(meanwhile=[_show_meanwhile(each, done.factor) for each in done.meanwhile[-MEANWHILE_SHOWN:]])
    if written := done.written:
        shown |= unless_empty(summarized_by=written.by, note=written.note, spent=written.spent)
    return shown


def _show_meanwhile(one: Compaction, factor: float) -> Json:
    before, after = _theirs(one.before, factor), _theirs(one.after, factor)
    return {"number": one.number, "trigger": one.trigger, "at": iso(one.at), "before": before, "after": after}


def _left_out(replacements: int, session_id: str, omitted: Sequence[str]) -> dict[str, Json]:
    """Name the parts that the answer does not hold, and where all of the replacements are."""
    shown: dict[str, Json] = {"omitted": list(omitted)} if omitted else {}
    if not replacements:
        return shown
    return shown | {
        "replacements_omitted": replacements,
        "all_replacements": f"memory://session/{quote(session_id, safe='')}",
    }


def _add_asked(answer: _BudgetedAnswer, asked: Asked, factor: float) -> bool:
    """Add what the client is to summarise, but for the text; else what it takes to be told."""
    shown: dict[str, Json] = {"span": asked.span, "entries": asked.entries, "tokens": _theirs(asked.tokens, factor)}
    whole = shown | {"prompt": asked.prompt, "text": ""}
    text_tokens = min(answer.counter.count(asked.text), LEAST_SPAN_TOKENS)
    lacking = tokens_of({"summarize": whole}, answer.counter) + text_tokens + REST_TOKENS - answer.left
    if lacking <= 0:
        return answer.add("summarize", whole)
    least = _theirs(answer.max_tokens + lacking, factor)
    answer.add("summarize", shown | {"note": f"Call again with max_tokens of {least} or more for prompt and text."})
    return False


def _add_made(answer: _BudgetedAnswer, done: Compacted, budget: int) -> int:
    """Add what the budget holds of the replacements, and say how many."""
    made: list[Json] = []
    left = budget - tokens_of({"replacements": []}, answer.counter)
    for entry in done.made:
        if entry.tokens < left:  # Else it is not worth counting.
            shown = _show_made(entry, done)
            tokens = tokens_of(shown, answer.counter) + 1
            if tokens <= left:
                made.append(shown)
                left -= tokens
    while not answer.add("replacements", made):
        made.pop()
    return len(made)


def _add_text(answer: _BudgetedAnswer, text: str) -> None:
    """Give what is left of the answer to the span's text, in the place kept for it."""
    asked = answer.shown["summarize"]
    assert isinstance(asked, dict)
    shown = text
    room = answer.left - tokens_of(_CUT, answer.counter)
    if tokens_of(text, answer.counter) > answer.left:
        shown = answer.counter.truncate(text, max(room, 0))
        # Escapes make the JSON longer than the text.
        while shown and tokens_of(shown, answer.counter) > room:
            shown = shown[: int(len(shown) * 0.9)]
        shown += _CUT
    answer.shown["summarize"] = asked | {"text": shown}
    answer.left -= tokens_of(shown, answer.counter)


def _show_pressure(at: Pressure, factor: float) -> dict[str, Json]:
    return {
        "tokens": _theirs(at.tokens, factor),
        "window": round(at.window * factor),
        "share": round(at.share, 3),
        "level": at.level,
    }


def _show_run(run: PassRun, factor: float) -> dict[str, Json]:
    shown: dict[str, Json] = {"name": run.name, "ran": run.ran, "reason": run.reason}
    if run.ran:
        shown |= {
            "before": _theirs(run.tokens_before, factor),
            "after": _theirs(run.tokens_after, factor),
            "replacements": run.replaced,
        }
    shown["ms"] = round(run.milliseconds)
    return shown | unless_empty(spent=run.spent, error=run.error)


def _show_made(entry: Entry, done: Compacted) -> dict[str, Json]:
    shown = stand_in_result(entry, done.log)
    shown["original_token_count"] = _theirs(entry.original_tokens, done.factor)
    shown["summary_token_count"] = _theirs(entry.tokens, done.factor)
    return shown


def _theirs(tokens: int, factor: float) -> int:
    return ceil(tokens * factor)

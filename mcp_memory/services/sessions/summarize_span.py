"""Summaries of a span of a session's log: in sections, by any author, with exact values added."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

from mcp_memory.compaction.threshold import body_of, span_of, span_over, summary_replacement
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import (
    CompactionOptions,
    Entry,
    PassPlan,
    SessionLog,
    Span,
    entry_of,
    in_order,
    preserved,
    saved,
)
from mcp_memory.domain.sessions import ledger as ledgers
from mcp_memory.domain.sessions.calls_in_text import outputs_in
from mcp_memory.domain.sessions.chosen_options import TAKEN
from mcp_memory.domain.sessions.sentence_sections import (
    is_short_wish,
    is_standing_order,
    only_asks,
    unread,
    without_commands,
)
from mcp_memory.domain.sessions.slots import answered_in, slots_of, standing_in, wishes_in
from mcp_memory.domain.sessions.standing_decisions import FORMER, REFUSED, words_of
from mcp_memory.domain.sessions.summary import (
    StructuredSummary,
    fitted,
    instructions_in,
    is_assent,
    ledger_in,
    left_out,
    merged,
    parsed,
    problems,
    rendered,
    structured,
    summary_prompt,
    with_ledger,
    without_beginnings,
)
from mcp_memory.domain.text.summary_sections import LISTED, Section, quote
from mcp_memory.domain.text.words import text_stems
from mcp_memory.errors import Conflict, InvalidRequest, SummaryIncomplete
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.text import Summarizer, SummaryRequest, TokenCounter

ASKED_TOKENS = 6_000
"""Tokens of a span shown to the caller that summarises it: it has seen the span, and opens the rest by id."""
SPANS_REMEMBERED = 100
"""Spans of which a summary was refused once for what it leaves out; a process that starts again checks again."""
WHOLE_ENTRY_TOKENS = 200  # a longer entry is shown by its summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The author of the summary, the reason for a change of author, and the tokens a model used for it."""

    by: str
    note: str
    spent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A span for a caller to summarise: `span` names it when the summary arrives; `text` shows it, perhaps in part."""

    span: str
    prompt: str
    text: str
    entries: int
    tokens: int


class SummingUp:
    """Writes, requests and checks summaries of spans. Thread-safe, and changes nothing."""

    def __init__(self, records: RecordReader, summarizers: Mapping[str, Summarizer], counter: TokenCounter) -> None:
        """Take `summarizers` by "extractive" and, where one is configured, "model", which is then the default."""
        self._records = records
        self._summarizers = summarizers
        self._usual = "model" if "model" in summarizers else "extractive"
        self._counter = counter
        self._checked: tuple[str, ...] = ()

    def writer(self, who: str | None, prompt: str, instructions: str, caller: Caller) -> Writer:
        """Return the writer of one compaction's summaries. Raises InvalidRequest where no model is configured."""
        name = self._usual if who in (None, "caller") else who
        if name not in self._summarizers:
            raise InvalidRequest("No model is configured to summarise; set MCP_MEMORY_SUMMARIZER, or leave it out.")
        return Writer(
            self._summarizers[name], prompt, instructions, self._counter, lambda span: self._originals(span, caller)
        )

    def ask(
        self, log: SessionLog, options: CompactionOptions, at: float, prompt: str, instructions: str
    ) -> Asked | None:
        """Return the span for the caller to summarise; None without one."""
        span = span_of(log, options, at)
        if isinstance(span, str):
            return None
        return Asked(
            span=_name(span.entries),
            prompt=summary_prompt(instructions, prompt, body_of(span.anchor.text) if span.anchor else ""),
            text=self._shown(span),
            entries=len(span.entries),
            tokens=sum(entry.tokens for entry in span.entries),
        )

    def plan(self, log: SessionLog, options: CompactionOptions, named: str, text: str, caller: Caller) -> PassPlan:
        """Replace the span by the caller's summary.

        Raises:
            Conflict: the span is no longer what it was.
            InvalidRequest: the summary is not good enough; says what is missing.
        """
        span = self._span(log, options, named)
        longest = sum(entry.tokens for entry in span.entries) // 2
        wrong = problems(text, self._sources(span, caller), longest, self._counter.count)
        if wrong:
            raise InvalidRequest(
                f"The summary was not taken. {' '.join(wrong)} Send it again with the same span; it knows its `window`."
            )
        body = body_over(span, self._originals(span, caller), parsed(text), self._counter)
        made = summary_replacement(span, body, self._counter.count)
        if saved(log, [made]) <= 0:
            raise InvalidRequest("The summary was not taken: it is not shorter than its span. Shorten it.")
        self._check_once(span, named, text, caller)
        return PassPlan(reason="the caller's own summary", replacements=(made,))

    def _check_once(self, span: Span, named: str, text: str, caller: Caller) -> None:
        """Raise SummaryIncomplete for what the slots have and the summary has not, once for each span."""
        if named in self._checked:
            return
        missed = left_out(text, self._slots(span, caller))
        if missed:
            self._checked = (*self._checked, named)[-SPANS_REMEMBERED:]
            raise SummaryIncomplete(
                f"The summary was not taken yet. {'; '.join(missed)}. Mend it where that matters, and send it again"
                " with the same span: the next one is taken."
            )

    def _slots(self, span: Span, caller: Caller) -> StructuredSummary:
        lines: dict[Section, list[str]] = {}
        for slot in slots_of(self._originals(span, caller), span.following):
            lines.setdefault(slot.section, []).append(slot.text)
        return structured(lines)

    def _span(self, log: SessionLog, options: CompactionOptions, named: str) -> Span:
        first, last, digest = ([*named.split("-"), "", ""])[:3]
        free = set(range(len(log.entries))) - preserved(log, options)
        names = [entry.id for entry in log.entries]
        if first in names and last in names:
            within = range(names.index(first), names.index(last) + 1)
            entries = tuple(entry for entry in log.at(log.within(free & set(within))) if entry is not log.anchor)
            if _digest(entries) == digest:
                return span_over(entries, log, options.summary_tokens, options)
        raise Conflict("The log changed since, or span is none that was asked for; call compact again for a new one.")

    def _originals(self, span: Span, caller: Caller) -> tuple[Entry, ...]:
        """Return what the span's entries cover, as it was said; a block without originals stays."""
        covered = {record_id for entry in span.entries if entry.form != "original" for record_id in entry.covers}
        records = self._records.get(covered, caller.scopes)
        found: list[Entry] = []
        for entry in span.entries:
            own = [entry_of(records[each]) for each in entry.covers if each in records]
            found += own or [entry]
        return in_order(found).entries

    def _sources(self, span: Span, caller: Caller) -> list[str]:
        """Return the text of the span, and of the originals it replaced: the summary's author has seen both."""
        covered = {record_id for entry in span.replaced if entry.form != "original" for record_id in entry.covers}
        originals = self._records.get(covered, caller.scopes).values() if covered else ()
        return [entry.text for entry in span.replaced] + [record.text for record in originals]

    def _shown(self, span: Span) -> str:
        """Show the span's entries, a line or two each; the caller opens the rest by id."""
        lines: list[str] = []
        left = ASKED_TOKENS
        for place, entry in enumerate(span.entries):
            said = entry.text if entry.tokens <= WHOLE_ENTRY_TOKENS else entry.summary or entry.micro
            said = self._counter.truncate(said or entry.text, WHOLE_ENTRY_TOKENS)
            line = f"[{entry.id} {entry.role}] {said}"
            left -= self._counter.count(line)
            if left < 0:
                lines.append(f"… and {len(span.entries) - place} more, from {entry.id} on: open them with recall.")
                break
            lines.append(line)
        return "\n".join(lines)


class Writer:
    """Writes the summaries of one compaction, and remembers their author."""

    def __init__(
        self,
        summarizer: Summarizer,
        prompt: str,
        instructions: str,
        counter: TokenCounter,
        originals: Callable[[Span], tuple[Entry, ...]],
    ) -> None:
        self._summarizer = summarizer
        self._prompt = prompt
        self._instructions = instructions
        self._counter = counter
        self._originals = originals
        self._written: Written | None = None

    def write(self, span: Span) -> str:
        """Write the body of a span's summary, merged into its anchor's. Raises SummaryFailed."""
        originals = self._originals(span)
        request = SummaryRequest(
            entries=span.entries,
            originals=originals,
            earlier=_earlier(span),
            following=span.following,
            max_tokens=span.max_tokens,
            prompt=summary_prompt(self._instructions, self._prompt),
        )
        made = self._summarizer.summarize(request)
        self._written = Written(by=made.by, note=made.note, spent=self.spent + made.spent)
        return body_over(span, originals, made.summary, self._counter)

    @property
    def spent(self) -> int:
        """Tokens that a model used so far."""
        return self._written.spent if self._written else 0

    def outcome(self) -> Written | None:
        """Return the author and cost; None where nothing had to be written."""
        return self._written


def body_over(span: Span, originals: tuple[Entry, ...], summary: StructuredSummary, counter: TokenCounter) -> str:
    """Merge the summary and the span's user instructions into the earlier summary.

    Words, instructions and the values that its author lists have separate budgets. What the earlier summary knew
    keeps its room.
    """
    outputs = outputs_in(originals)
    said = [entry for entry in span.entries if entry.id not in outputs]
    if span.prompt and not is_assent(span.prompt.text):  # It stays in the log, and says what the work is for.
        summary = structured({**summary.lines, "goal": ()})
    standing = standing_in(said, (*originals, *span.following))
    earlier = _earlier(span, has_goal=bool(summary.of("goal")))
    spoken = (entry.text for entry in span.following if entry.is_users)
    heard = [*without_beginnings(map(without_commands, instructions_in(said)), spoken)]
    before = earlier.of("instructions") if earlier else ()
    foreign = unread((*heard, *before))
    if foreign:  # In English a wish may stand before the question.
        answered = answered_in(originals, span.following)
        heard = [text for text in heard if _may_hold(text, answered)] or heard
    short = foreign or {*wishes_in(originals, span.following), *filter(is_short_wish, before)}
    quoted = [text for text in heard if text in short or text in standing]
    whole = merged(summary, structured({"instructions": quoted}))
    ledger = ledger_in(summary)
    room = span.max_tokens
    if earlier:
        room = min(room + counter.count(rendered(_words(earlier))), span.most_tokens)
        whole, ledger = merged(earlier, whole), ledgers.merged(ledger_in(earlier), ledger)
    own = fitted(structured({**_words(whole).lines, **_not_quoted(whole)}), room, counter.count)
    goals, before = own.of("goal"), earlier.of("goal") if earlier else ()
    former = [goal for goal in before if goal not in goals and is_standing_order(goal)]
    orders = [*former, *(text for text in whole.of("instructions") if " ".join(text.split()) not in goals)]
    told = structured({**own.lines, "instructions": orders})
    kept = ledgers.fitted(ledgers.without(ledger, rendered(told)), span.ledger_tokens, counter.count)
    told = with_ledger(told, kept)
    asides = [text for text in orders if text in short and text not in standing]
    asides = [text for text in asides if text in heard or not is_standing_order(text)]
    ranked = asides[::-1] if foreign else [*asides[:1], *asides[:0:-1]]
    left = span.target_tokens - counter.count(rendered(told)) + sum(counter.count(quote(text)) for text in asides)
    left = max(left, span.quote_tokens) if foreign else min(left, span.quote_tokens)
    return rendered(_with_first(told, ranked, left, counter))


def _may_hold(text: str, answered: Collection[str]) -> bool:
    """Return False for what only asks, and for what was `answered` and sets no rule."""
    return not only_asks(text) and (text not in answered or is_standing_order(text, is_served=True))


def _with_first(
    summary: StructuredSummary, asides: Sequence[str], left: int, counter: TokenCounter
) -> StructuredSummary:
    """Return the summary with only the first of the quotations that may go, as many as fit in so many tokens."""
    spent = accumulate(counter.count(quote(text)) for text in asides)
    gone = asides[sum(each <= left for each in spent) :]
    quoted = [text for text in summary.of("instructions") if text not in gone]
    return structured({**summary.lines, "instructions": quoted})


def _words(summary: StructuredSummary) -> StructuredSummary:
    """Return the summary without instructions and exact values."""
    aside = ("instructions", *LISTED)
    return structured({section: lines for section, lines in summary.lines.items() if section not in aside})


def _not_quoted(summary: StructuredSummary) -> Mapping[Section, tuple[str, ...]]:
    """Return the user's words in other sections without those that the goal or a quoted instruction says.

    What a decision replaces is not quoted with it.
    """
    quoted = [frozenset(text_stems(text)) for text in (*summary.of("instructions"), *summary.of("goal"))]
    sections: tuple[Section, ...] = ("constraints", "decisions", "dead_ends")
    return {
        section: tuple(line for line in summary.of(section) if FORMER in line or not _is_said(line, quoted))
        for section in sections
    }


def _is_said(line: str, quoted: Iterable[frozenset[str]]) -> bool:
    """Return True where a quotation says a line, or the reason for which a call was refused."""
    reason = line.partition(TAKEN)[2].rstrip("…") if line.startswith(REFUSED) else ""
    own = frozenset(text_stems(reason or words_of(line)))
    return any(own <= words for words in quoted)


def _earlier(span: Span, *, has_goal: bool = True) -> StructuredSummary | None:
    """Return the earlier summary; its goal is over where the newer one has none."""
    earlier = parsed(body_of(span.anchor.text)) if span.anchor else None
    return earlier if not earlier or has_goal else structured({**earlier.lines, "goal": ()})


def _name(entries: tuple[Entry, ...]) -> str:
    return f"{entries[0].id}-{entries[-1].id}-{_digest(entries)}"


def _digest(entries: tuple[Entry, ...]) -> str:
    return blake2b(" ".join(entry.id for entry in entries).encode(), digest_size=4).hexdigest()

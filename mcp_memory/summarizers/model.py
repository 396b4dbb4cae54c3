"""Makes summaries by a language model and checks them; without a good one another summarizer takes over.

Independent of client libraries. The texts were redacted when they were stored; none is logged or put into an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.summary import (
    StructuredSummary,
    fitted,
    merged,
    parsed,
    problems,
    rendered,
    structured,
)
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.domain.text.summary_sections import LISTED, TITLES, Section
from mcp_memory.errors import SummaryFailed
from mcp_memory.ports.text import Summarized, Summarizer, SummaryRequest, TokenCounter
from mcp_memory.summarizers.chat_models import ChatMessage, ChatModel

LEAST_INPUT = 1_000
"""Least tokens of a span in one request, however long the prompt and the earlier summary are."""
THINKING_TOKENS = 2_000
"""Room for a model's thinking before its answer, beyond twice the summary's own."""
TAKEN_FROM_THE_LOG: frozenset[Section] = frozenset({"instructions", *LISTED})
_THOUGHT = "</think>"
"""The tag that ends a local model's thinking."""

LONG_OUTPUT = 200
"""Tokens: where a span does not fit, a longer output is replaced by its short form."""
HEAD_SHARE = 0.7
"""The share of a cut text's shown part that is its beginning; the rest is its end."""
ENTRY_HEAD_TOKENS = 12
"""Approximate tokens of the line before each text."""


class ModelSummarizer:
    """Asks a model, at most twice for each part of the span. Thread-safe as far as model and fallback are."""

    def __init__(self, model: ChatModel, fallback: Summarizer, counter: TokenCounter, *, max_input_tokens: int) -> None:
        """`max_input_tokens` limits one request, as counted, prompt and earlier summary included."""
        self._model = model
        self._fallback = fallback
        self._counter = counter
        self._max_input_tokens = max_input_tokens

    @property
    def name(self) -> str:
        return self._model.name

    def summarize(self, request: SummaryRequest) -> Summarized:
        """See `Summarizer`. Raises only what the fallback raises."""
        asking = _Asking(model=self._model, request=request, counter=self._counter)
        try:
            summary = self._of_parts(asking)
        except SummaryFailed as failure:
            made = self._fallback.summarize(request)
            note = f"{self.name}: {failure}; {made.by} instead"
            return replace(made, spent=made.spent + asking.spent, note=f"{note} ({made.note})" if made.note else note)
        return Summarized(summary=summary, spent=asking.spent, by=self.name)

    def _of_parts(self, asking: "_Asking") -> StructuredSummary:
        request, count = asking.request, self._counter.count
        overhead = count(request.prompt) + 2 * request.max_tokens
        room = max(self._max_input_tokens - overhead, LEAST_INPUT)
        summary = structured({})
        known = request.earlier
        for part in fitting_parts(request.entries, room, self._counter):
            newer = asking.summary_of(part, known)
            summary = merged(summary, newer)
            known = newer if known is None else merged(known, newer)
        return fitted(summary, request.max_tokens, count)


@dataclass(slots=True, kw_only=True)
class _Asking:
    """The requests to the model for one summary, and the tokens spent so far."""

    model: ChatModel
    request: SummaryRequest
    counter: TokenCounter
    spent: int = 0

    def summary_of(self, entries: Sequence[Entry], earlier: StructuredSummary | None) -> StructuredSummary:
        """Return the model's summary of these entries. Raises SummaryFailed where two answers in a row have faults."""
        written = "" if earlier is None else rendered(earlier)
        said = [ChatMessage(role="user", text=self._question(entries, written))]
        answer = self._answer(said)
        faults = self._faults(answer, written)
        if faults:
            listed = "\n".join(f"- {fault}" for fault in faults)
            again = f"That summary cannot be used:\n{listed}\nWrite the whole summary again without these faults."
            said += [ChatMessage(role="assistant", text=answer), ChatMessage(role="user", text=again)]
            answer = self._answer(said)
            faults = self._faults(answer, written)
        if faults:
            # Report only their number: a fault quotes the model's words.
            raise SummaryFailed(f"wrote a summary with {len(faults)} fault{'s'[: len(faults) != 1]}, twice")
        return _own_words(parsed(answer))

    def _question(self, entries: Sequence[Entry], earlier: str) -> str:
        log = fenced("LOG", "\n".join(shown(entry) for entry in entries))
        left_out = ", ".join(title for section, title in TITLES.items() if section in TAKEN_FROM_THE_LOG)
        task = (
            f"Summarise the text between the LOG lines, in at most {self.request.max_tokens} tokens."
            f" Leave these sections out, whose lines are taken from the log itself: {left_out}."
        )
        if not earlier:
            return f"{log}\n\n{task}"
        task += (
            " The text between the EARLIER lines is kept as it is: say only what the log adds to it or changes,"
            " and copy its goal unless the user has another one now."
        )
        return f"{fenced('EARLIER', earlier)}\n\n{log}\n\n{task}"

    def _answer(self, said: Sequence[ChatMessage]) -> str:
        answer = self.model.answer(self.request.prompt, said, 2 * self.request.max_tokens + THINKING_TOKENS)
        self.spent += answer.spent
        return answer.text.rpartition(_THOUGHT)[2].strip() or "."

    def _faults(self, answer: str, earlier: str) -> tuple[str, ...]:
        # The summary may name anything in the whole span, also texts that this request shortens or omits.
        sources = [earlier, *(shown(entry) for entry in self.request.entries)]
        return problems(answer, sources, self.request.max_tokens, self.counter.count)


def _own_words(summary: StructuredSummary) -> StructuredSummary:
    """Return the summary without the sections taken from the log itself, word for word."""
    kept: dict[Section, tuple[str, ...]] = {
        section: lines for section, lines in summary.lines.items() if section not in TAKEN_FROM_THE_LOG
    }
    return structured(kept)


def fitting_parts(entries: Sequence[Entry], max_tokens: int, counter: TokenCounter) -> list[tuple[Entry, ...]]:
    """Return the span in order, in as few parts of at most `max_tokens` as possible, each with at least one entry.

    Where it does not fit in one part, long outputs are replaced by their short forms, and a text longer than half a
    part loses its middle.
    """
    if sum(entry.tokens + ENTRY_HEAD_TOKENS for entry in entries) <= max_tokens:
        return [tuple(entries)] if entries else []
    return list(_parts([_cut(entry, max_tokens // 2, counter) for entry in entries], max_tokens))


def shown(entry: Entry) -> str:
    """Return one entry as a model reads it."""
    return f"[{_who(entry)}]\n{entry.text}\n"


def fenced(title: str, text: str) -> str:
    """Return the text between two lines that it cannot contain, since they name its digest."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"<<<{title} {digest}\n{text}\n{title} {digest}>>>"


def _parts(entries: Sequence[Entry], max_tokens: int) -> Iterator[tuple[Entry, ...]]:
    part: list[Entry] = []
    tokens = 0
    for entry in entries:
        if part and tokens + entry.tokens + ENTRY_HEAD_TOKENS > max_tokens:
            yield tuple(part)
            part, tokens = [], 0
        part.append(entry)
        tokens += entry.tokens + ENTRY_HEAD_TOKENS
    yield tuple(part)


def _cut(entry: Entry, max_tokens: int, counter: TokenCounter) -> Entry:
    """Return the entry in about `max_tokens` at most, or in its short form if it is a long output or a long input."""
    text = entry.text
    if entry.kind != "message" and entry.tokens > LONG_OUTPUT:
        text = entry.summary or entry.micro or _without_middle(entry, LONG_OUTPUT, counter)
    elif entry.tokens > max_tokens:
        text = _without_middle(entry, max_tokens, counter)
    return entry if text is entry.text else replace(entry, text=text, tokens=counter.count(text))


def _without_middle(entry: Entry, max_tokens: int, counter: TokenCounter) -> str:
    head = counter.truncate(entry.text, int(max_tokens * HEAD_SHARE))
    tail = int(len(entry.text) * max_tokens * (1 - HEAD_SHARE) / entry.tokens)
    rest = entry.text[max(len(entry.text) - tail, len(head)) :]
    return f"{head}\n[… about {entry.tokens - max_tokens:,} tokens left out …]\n{rest}"


def _who(entry: Entry) -> str:
    tool = one_line(entry.tool or "a tool")
    if entry.kind == "tool_call":
        return f"assistant calls {tool}"
    if entry.kind == "tool_result":
        return f"{tool} {'failed' if entry.failed else 'answers'}"
    return entry.role if entry.form == "original" else f"{entry.role}, compacted earlier"

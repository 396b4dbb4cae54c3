"""Finds what a session taught that may be trusted without being read: by who says it, or by what was done.

That is an error with its fix in the client's own summary, what the user says in so many words, and an outcome: a
commit, a step of a plan that was done, a check that failed and passed. No other sentence counts. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from mcp_memory.domain.memory.harness import heard
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.agent_actions import AgentActions, Failure
from mcp_memory.domain.sessions.deed_slots import what_failed
from mcp_memory.domain.sessions.filled_slots import FIX_CHARACTERS, FilledSlot, Provenance, conclusion
from mcp_memory.domain.sessions.sentences import said_in
from mcp_memory.domain.sessions.slots import is_of_work
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.exact_values import exact_in
from mcp_memory.domain.text.segments import sentences_of, unquoted
from mcp_memory.domain.text.summary_sections import Section, whole_items

MOST_TYPED = 1_000
"""Characters of a user's message: a longer one was mostly pasted."""
MOST_ITEMS = 30
"""Items of a summary that are read: a client lists a dozen at most."""
LEAST_WORDS, LEAST_UNSPACED, MOST_CHARACTERS = 5, 10, 600
"""Words or, in scripts without spaces, characters of what makes sense alone; and the characters of one item."""
_OPENERS = rf"(?:(?:{lexicon.spaced('lead_ins')})[,:]?\s+|{lexicon.unspaced('lead_ins')}[，,]?){{0,2}}"
_NOW = rf"(?:(?:{lexicon.spaced('from_now_on')})\b|{lexicon.unspaced('from_now_on')})"
# "From now on, use pnpm", "Please remember that staging is db2", "我们决定使用 SQLite"
_SAID: Mapping[Section, re.Pattern[str]] = {
    "decisions": re.compile(
        rf"{_OPENERS}(?:(?:{lexicon.spaced('we_decided')})\b|{lexicon.unspaced('we_decided')})", re.IGNORECASE
    ),
    "instructions": re.compile(rf"{_OPENERS}{_NOW}", re.IGNORECASE),
    "facts": re.compile(
        rf"{_OPENERS}(?:(?:{lexicon.spaced('remember_that')})|{lexicon.unspaced('remember_that')})", re.IGNORECASE
    ),
}
# "Use tabs from now on."
_NOW_LAST = re.compile(rf"(?:^|[\s,，、]){_NOW}[.!。！]{{0,3}}$", re.IGNORECASE)
# "From now on, do it like this."
_VAGUE_END = re.compile(
    rf"(?:\b(?:{lexicon.spaced('vague_ends')})|{lexicon.unspaced('vague_ends')})[.!。！]{{0,3}}$", re.IGNORECASE
)
# "**`countLines` redeclared**: renamed", "Compiler error in app.py: a missing import"; "Fix: …" is half an item
_LABELLED = re.compile(
    r"(?!\W{0,3}(?:errors?|fix|fixed|cause|root cause|solution|user feedback)\s?\W{0,2}:)"
    r"(?:\*\*[^*]{3,200}\*\*\s{0,3}\S|[^:.→]{3,160}(?::\s|\s→\s)\S)",
    re.IGNORECASE,
)


def learnt_from(entries: Sequence[Entry]) -> Iterator[FilledSlot]:
    """Yield what the user said outright, and the outcomes, of these entries of one log."""
    entries = [entry for entry in entries if is_of_work(entry)]
    yield from _said_outright(entries)
    yield from _outcomes(entries)


def learnt_from_summary(text: str, source: str) -> Iterator[FilledSlot]:
    """Yield the errors with their fixes that a client's summary lists; `source` is its record.

    What it calls pending was done a minute later in nearly all cases, and decisions no client lists by themselves.
    """
    for item in islice(whole_items(text, "fixes"), MOST_ITEMS):
        if _LABELLED.match(item) and len(item) <= MOST_CHARACTERS:  # "No errors so far, only planning" has no label.
            yield FilledSlot(section="fixes", text=item, source=source, place=0, provenance=Provenance.CONCLUDED)


def _said_outright(entries: Sequence[Entry]) -> Iterator[FilledSlot]:
    for place, entry in enumerate(entries):
        words = heard(entry.text).words if entry.is_users and len(entry.text) <= MOST_TYPED else ""
        for sentence in sentences_of(words):
            if section := _section(sentence):
                yield FilledSlot(
                    section=section, text=sentence, source=entry.id, place=place, provenance=Provenance.SAID
                )


def _section(sentence: str) -> Section | None:
    """Return the section of what is said in so many words; None for any other sentence, and for a quoted one."""
    is_short = len(sentence.split()) < LEAST_WORDS and (sentence.isascii() or len(sentence) < LEAST_UNSPACED)
    is_open = sentence.endswith(lexicon.QUESTION_SIGNS + lexicon.COLONS)
    if is_short or is_open or len(sentence) > MOST_CHARACTERS or _VAGUE_END.search(sentence):
        return None
    own = unquoted(sentence)
    for section, pattern in _SAID.items():
        if pattern.match(own):
            return section
    return "instructions" if _NOW_LAST.search(own) else None


def _outcomes(entries: Sequence[Entry]) -> Iterator[FilledSlot]:
    deeds = AgentActions(entries)
    places = {entry.id: place for place, entry in enumerate(entries)}
    for section, text, source in (*_done(deeds), *_repaired(deeds, entries)):
        yield FilledSlot(
            section=section, text=text, source=source, place=places[source], provenance=Provenance.DONE, state="done"
        )


def _done(deeds: AgentActions) -> Iterator[tuple[Section, str, str]]:
    """Yield commits, and the closed steps of the plan, each with its section and the call's id."""
    commits = {text.partition(": ")[2]: (text, source) for text, source in deeds.commits if _is_commit(text)}
    for text, source in commits.values():  # Of an amended one the last.
        yield "completed", text, source
    for step in deeds.plan:
        # A step that names nothing tells no other session anything: "Run the tests".
        if step.state == "done" and _names(step.text):
            yield "completed", f"Done: {step.text}", step.source


def _repaired(deeds: AgentActions, entries: Sequence[Entry]) -> Iterator[tuple[Section, str, str]]:
    for failure in deeds.failures:
        text = _red_then_green(failure, deeds, entries) if failure.did.checks and failure.fixed_at is not None else ""
        if text:
            yield "fixes", text, failure.did.entry.id


def _is_commit(title: str) -> bool:
    """Return True for a commit with words of its own, not a push or a merge."""
    return title.startswith("Committed ") and not title.partition(": ")[2].startswith("Merge ")


def _names(text: str) -> bool:
    return bool(exact_in(text))


def _red_then_green(failure: Failure, deeds: AgentActions, entries: Sequence[Entry]) -> str:
    """Return a failed check with what was wrong, as said directly behind it, and the files that were changed for it.

    "" where nobody said what was wrong, by a name: which files were changed for it tells no other session anything.
    """
    files = ", ".join(each.path for each in deeds.changes if set(each.edits) & set(failure.edits))
    behind = next((n for n, entry in enumerate(entries) if entry.id == failure.did.output.id), len(entries)) + 1
    why = conclusion(said_in(entries[behind : behind + 1]))
    if not files or not _names(why):
        return ""
    return f"{what_failed(failure.did)} → {one_line(why, FIX_CHARACTERS)}; edited {files}"

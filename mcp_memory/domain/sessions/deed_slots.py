"""Fills the slots of what the agent did: its plan, changed files, commits, failing checks, what came to nothing.

Words count here only where a deed gave them weight: what was said before changes that did not help, or a refusal.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.agent_actions import (
    AgentAction,
    AgentActions,
    Failure,
    FileChange,
)
from mcp_memory.domain.sessions.filled_slots import FIX_CHARACTERS, FilledSlot, Provenance, SlotState, conclusion
from mcp_memory.domain.sessions.sentence_sections import is_standing_order
from mcp_memory.domain.sessions.sentences import Utterance
from mcp_memory.domain.sessions.shell_commands import programs
from mcp_memory.domain.sessions.standing_decisions import REFUSED
from mcp_memory.domain.sessions.tool_lines import call_fields, one_line
from mcp_memory.domain.text.statements import CONDITION
from mcp_memory.domain.text.summary_sections import Section

COMMAND_CHARACTERS, WHY_CHARACTERS, MOST_NAMED = 80, 160, 12
PURSUED_TURNS = 10
"""The user's messages after which a failure that nobody took up is over."""
COMMIT_WORTH = 6.0
"""The worth of a commit: what is done for good is dropped last."""
# "To tell you how to proceed, the user said:\nuse fgetcsv"
_REASON = re.compile(r"\bthe user said:\s{0,5}(?P<said>[^\n]{1,500})")
# "User has answered your questions: "Which port?"="8443""
_ANSWERED = re.compile(r'"(?P<asked>[^"\n]{3,300})"="(?P<answer>[^"\n]{1,300})"')
_PLANNED: Mapping[str, Section] = {"open": "next_steps", "going on": "in_progress", "done": "completed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeedSlots:
    """Reads the slots of deeds. `said` holds each entry's sentences by its place, `places` the place of each id.

    The entries from the place `end` on stay in the log.
    """

    entries: Sequence[Entry]
    deeds: AgentActions
    said: Mapping[int, Sequence[Utterance]]
    places: Mapping[str, int]
    end: int

    def all(self) -> Iterator[FilledSlot]:
        """Yield the slots of every deed, in no order."""
        for step in self.deeds.plan:
            # What a file or a commit tells, no step tells besides.
            if step.state != "done" or not (self.deeds.changes or self.deeds.commits):
                yield self._slot(
                    _PLANNED[step.state], step.text, step.source, "done" if step.state == "done" else "open"
                )
        for change in self.deeds.changes:
            told = [place for place in (*change.edits, self.places[change.source]) if place < self.end]
            for place in told[-1:]:  # What follows is told with it.
                yield self._slot("changes", _changed(change), self.entries[place].id)
        for title, source in self.deeds.commits:
            yield self._slot("completed", title, source, "done", worth=COMMIT_WORTH)
        yield from self._uncommitted()
        yield from self._failing()
        for failure in self.deeds.attempts:
            yield self._attempt(failure)
        yield from self._acted()
        yield from self._refused()
        yield from self._answered()

    def _acted(self) -> Iterator[FilledSlot]:
        """Yield the calls that did something, a line for each tool and its arguments: "cancel: id=59XX6W, XEHM4B"."""
        forms: dict[tuple[str, ...], list[AgentAction]] = {}
        told = self.deeds.about_commits
        for did in self.deeds.done:
            if did.acts and did.output.id not in told:
                given = call_fields(did.entry.text) or {}
                forms.setdefault((did.line.tool, *sorted(given)), []).append(did)
        for (tool, *_), acted in forms.items():
            if shown := "; ".join(_inputs_of(acted)):
                yield self._slot("completed", f"{tool}: {shown}", acted[-1].entry.id, "done")

    def _failing(self) -> Iterator[FilledSlot]:
        """Yield the checks that fail, and what those behind an edit found, with what was edited for it since.

        What was committed since was repaired, or does not matter; nor does what the user went on without.
        """
        users = [place for place, entry in enumerate(self.entries) if entry.is_users]
        pursued = users[-PURSUED_TURNS - 1] if len(users) > PURSUED_TURNS else -1
        committed = max((self.places[source] for _, source in self.deeds.commits), default=-1)
        for failure in self.deeds.failures:
            did = failure.did
            is_checked = bool(did.checks and programs(did.command)) or bool(did.reported)
            if failure.fixed_at is None and is_checked and did.place > max(committed, pursued):
                files = self._files(failure)
                text = what_failed(did) + (f"; edited {files} since, not run again" if files else "")
                yield self._slot("open_items", text, did.entry.id, "doubtful", worth=1.0)

    def _attempt(self, failure: Failure) -> FilledSlot:
        """Return changes that did not help: what was said before the last of them, and the error that stayed."""
        said = self._concluded(failure.did.place, failure.edits[-1])[-1:]
        why = "; ".join([*(one_line(text, FIX_CHARACTERS) for text in said), f"edited {self._files(failure)}"])
        return self._slot("dead_ends", f"{why} → still {what_failed(failure.did)}", failure.did.entry.id)

    def _files(self, failure: Failure) -> str:
        return ", ".join(each.path for each in self.deeds.changes if set(each.edits) & set(failure.edits))

    def _uncommitted(self) -> Iterator[FilledSlot]:
        """Yield each commit that was taken back, with the first words of the user behind it."""
        for source, made in groupby(self.deeds.undone_commits, lambda each: each.source):
            undone = [*made]
            end = max(each.undone_at or each.place for each in undone)
            spoken = (self.said.get(number, ()) for number in range(undone[0].place, end))
            why = next((text for own in spoken if own and own[0].speaker == "user" and (text := conclusion(own))), "")
            if why:
                text = f"{'; '.join(each.text for each in undone)}; taken back again: {one_line(why, WHY_CHARACTERS)}"
                yield self._slot("dead_ends", text, source)

    def _refused(self) -> Iterator[FilledSlot]:
        """Yield each call that the user refused for a reason, said in the refusal or directly behind it.

        A condition is no reason, and what went well later was refused for the time being.
        """
        for place, did in enumerate(self.deeds.done):
            later = (each.command for each in self.deeds.done[place:] if each.went_well)
            if did.is_refused and (not did.command or did.command not in later):
                told = _REASON.search(did.output.text)
                why = told["said"].strip() if told else self._reason_behind(self.places[did.output.id])
                if why:
                    yield self._slot("dead_ends", f"{REFUSED}{did.line.done} → {why}", did.entry.id)

    def _answered(self) -> Iterator[FilledSlot]:
        """Yield what the user chose where a tool of the client's asked."""
        for did in self.deeds.done:
            if did.line.act == "called" and "ask" in did.line.tool.casefold():
                for each in _ANSWERED.finditer(did.output.text):
                    chosen = self._slot("decisions", f"{each['asked']} → {each['answer']}", did.entry.id)
                    yield replace(chosen, provenance=Provenance.SAID)

    def _reason_behind(self, place: int) -> str:
        """Return the user's message directly behind a refusal, where it sets, denies or corrects something."""
        behind = self.said.get(place + 1, ())
        text = self.entries[place + 1].text if behind and behind[0].speaker == "user" else ""
        is_reason = is_standing_order(text) and not any(CONDITION.match(each.text) for each in behind)
        return one_line(text, FIX_CHARACTERS) if is_reason else ""

    def _concluded(self, start: int, end: int) -> list[str]:
        """Return the conclusions of the agent's messages between two places: a user's words are no cause of a deed."""
        spoken = (self.said.get(number, ()) for number in range(start, end))
        return [text for own in spoken if own and own[0].speaker == "assistant" and (text := conclusion(own))]

    def _slot(
        self, section: Section, text: str, source: str, state: SlotState = "open", worth: float = 2.0
    ) -> FilledSlot:
        return FilledSlot(
            section=section,
            text=text,
            source=source,
            place=self.places[source],
            provenance=Provenance.DONE,
            worth=worth,
            state=state,
        )


def _inputs_of(acted: Sequence[AgentAction]) -> Iterator[str]:
    """Yield the short inputs of like calls, as "name=value": those that are always the same, and the first that is not.

    A list names one thing in each place, and which belong together a reader cannot tell: of several calls one list.
    """
    fields = [call_fields(did.entry.text) or {} for did in acted]
    has_varied = False
    for name in fields[0]:
        values = [*dict.fromkeys(str(given[name]) for given in fields if isinstance(given[name], str | int | float))]
        is_short = bool(values) and max(map(len, values)) <= COMMAND_CHARACTERS
        if not is_short or (len(values) > 1 and has_varied):
            continue
        has_varied |= len(values) > 1
        more = f" and {len(values) - MOST_NAMED} more" if len(values) > MOST_NAMED else ""
        yield f"{name}={one_line(', '.join(values[:MOST_NAMED]), FIX_CHARACTERS)}{more}"


def what_failed(did: AgentAction) -> str:
    """Describe a failed call: "`pytest -q` failed: 1 failed"; or what an edit broke."""
    shown = one_line(did.command or did.line.done, COMMAND_CHARACTERS)
    return f"`{shown}` failed: {did.error}" if did.error else f"{shown} brought {did.reported}"


def _changed(change: FileChange) -> str:
    """Describe what was done to a file: "app.py: edited 3 times, last `x = 1`; tests passed since"."""
    often = f"edited {len(change.edits)} times" if len(change.edits) > 1 else "written" if change.is_new else "edited"
    is_whole = change.is_new and len(change.edits) == 1  # One line of a whole file says little.
    last = f", last `{change.last}`" if change.last and not is_whole else ""
    checked = {True: "; a check passed since", False: f"; a check fails since: {change.error}", None: ""}[change.works]
    return f"{change.path}: {'removed again' if change.is_gone else often + last + checked}"

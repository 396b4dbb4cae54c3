"""Checkpoints: the state of a session's work, written down by rules before the client drops its window."""

from __future__ import annotations

from dataclasses import replace

from mcp_memory.domain.model.records import Kind, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import CHECKPOINT_TAG, CLIENT_SUMMARY_TAG, SessionLog
from mcp_memory.domain.model.tasks import Stack, Task
from mcp_memory.domain.sessions import ledger as ledgers
from mcp_memory.domain.sessions.slots import slots_of
from mcp_memory.domain.sessions.summary import instructions_in, rendered, structured, with_ledger
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.session_logs import SessionLogStore
from mcp_memory.ports.text import TokenCounter
from mcp_memory.services.tasks.branch_visibility import stack_of, visible_to

IMPORTANCE = 3.0
LATEST_ENTRIES = 300
"""The latest entries that a checkpoint reads; earlier ones are summarised already, or not the current work."""
LATEST_INSTRUCTIONS, INSTRUCTION_CHARACTERS = 5, 400  # a longer instruction is cut
LEDGER_TOKENS = 250  # for exact values
TASKS_SHOWN = 8
SLOTS_SHOWN: frozenset[Section] = frozenset(
    {
        "goal",
        "constraints",
        "state",
        "in_progress",
        "next_steps",
        "open_items",
        "decisions",
        "dead_ends",
        "fixes",
        "changes",
    }
)
LATEST_SLOTS = 8  # of each section


class CheckpointWriter:
    """Thread-safe. Mechanical, like the ledger: it rewords nothing and asks no model."""

    def __init__(self, records: MemoryReader, logs: SessionLogStore, counter: TokenCounter) -> None:
        self._records = records
        self._logs = logs
        self._counter = counter

    def draft(self, caller: Caller) -> NewRecord | None:
        """Return the state of the caller's session as an event that replaces its checkpoint; None if it is empty.

        Raises StoreUnavailable.
        """
        with self._records.snapshot():
            stack, log, former = stack_of(self._records, caller), self._logs.log(caller), self.latest(caller)
        text = self._text(stack, log)
        if not text:
            return None
        return NewRecord(
            text=text,
            kind="event",
            importance=IMPORTANCE,
            tags=(CHECKPOINT_TAG,),
            supersedes=(former.id,) if former else (),
        )

    def latest(self, caller: Caller) -> Record | None:
        """Return the checkpoint of the caller's session; None where it has none. Raises StoreUnavailable."""
        return self._latest("event", CHECKPOINT_TAG, caller)

    def client_summary(self, caller: Caller) -> Record | None:
        """Return the client's latest summary of the caller's session, as `latest` does."""
        return self._latest("summary", CLIENT_SUMMARY_TAG, caller)

    def _latest(self, kind: Kind, tag: str, caller: Caller) -> Record | None:
        where = replace(
            visible_to(self._records, caller),
            kinds=frozenset({kind}),
            tags=frozenset({tag}),
            session_id=caller.session_id,
        )
        return next((record for record in self._records.list(where, "created", 2) if record.holds), None)

    def _text(self, stack: Stack, log: SessionLog) -> str:
        entries = log.entries[-LATEST_ENTRIES:]
        said = [one for one in instructions_in(entries) if one.strip()][-LATEST_INSTRUCTIONS:]
        lines: dict[Section, list[str]] = {}
        quoted = " ".join(" ".join(said).split())
        for slot in slots_of(entries):
            # What is quoted above need not be repeated; the goal says what all of it is for.
            if slot.section in SLOTS_SHOWN and (slot.section == "goal" or slot.text not in quoted):
                lines.setdefault(slot.section, []).append(_cut(slot.text))
        lines = {section: own[-LATEST_SLOTS:] for section, own in lines.items()}
        stack_lines: dict[Section, list[str]] = {
            "goal": [" > ".join(task.goal for task in stack.path)] if stack.path else [],
            "instructions": [_cut(one) for one in said],
            "completed": [_ended(task) for task in stack.done[-TASKS_SHOWN:]],
            "next_steps": [task.goal for task in stack.planned[:TASKS_SHOWN]],
            "dead_ends": [_ended(task) for task in stack.dead_ends[-TASKS_SHOWN:]],
        }
        for section, own in stack_lines.items():
            lines[section] = own if section == "goal" and own else [*lines.get(section, ()), *own]
        ledger = ledgers.fitted(ledgers.ledger_of(entries), LEDGER_TOKENS, self._counter.count)
        return rendered(with_ledger(structured(lines), ledger))


def _ended(task: Task) -> str:
    return f"{task.goal}: {task.result}" if task.result else task.goal


def _cut(text: str) -> str:
    return text if len(text) <= INSTRUCTION_CHARACTERS else f"{text[: INSTRUCTION_CHARACTERS - 1]}…"

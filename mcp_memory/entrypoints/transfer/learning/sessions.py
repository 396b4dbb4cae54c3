"""Makes records of earlier sessions, by the rules that logs are read by: what the user said to hold, and outcomes.

`domain/sessions/learnt.py` has these rules. A transcript is read as hooks feed it: without the client's own text,
private passages, and what the user took back.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, cast

from mcp_memory.bounded_files import MB
from mcp_memory.domain.memory.harness import is_users, without_harness
from mcp_memory.domain.memory.private import without_private
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.domain.model.session_log import Entry, EntryKind, role_of
from mcp_memory.domain.sessions.filled_slots import FilledSlot
from mcp_memory.domain.sessions.learnt import learnt_from
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.entrypoints.conversations.rewound import branches_in
from mcp_memory.entrypoints.conversations.transcripts import Transcript
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.learn import LEARNED

MOST_SESSIONS: Final = 500
MOST_ENTRIES: Final = 50_000
"""Sessions that are read, the newest, and the first entries of each."""
MOST_BYTES: Final = 256 * MB
_TRANSCRIPT: Final = ".jsonl"
_KINDS: Final[Mapping[Section, Kind]] = {"decisions": "decision", "completed": "episode"}
_TAGS: Final[Mapping[Section, str]] = {
    "instructions": "standing-instruction", "decisions": "stated-decision", "facts": "stated-fact",
    "completed": "outcome", "fixes": "fix",
}  # fmt: skip
_COMMITTED: Final = "Committed "
"""Opens the outcome that git tells better."""


def read_sessions(folders: Sequence[Path], left_out: Counter[str]) -> Iterator[NewRecord]:
    """Yield the records of the transcripts in these folders, or of these files.

    Raises InvalidRequest where one is not there, or a folder holds no transcript.
    """
    for file in _newest([file for folder in folders for file in _transcripts(folder)]):
        if file.stat().st_size > MOST_BYTES:
            left_out[f"sessions of more than {MOST_BYTES // MB} MB"] += 1
            continue
        try:
            entries, times = _entries(file)
        except InvalidRequest:
            left_out["transcripts that cannot be read"] += 1
            continue
        for learnt in learnt_from(entries):
            if not learnt.text.startswith(_COMMITTED):
                yield _record(learnt, file.stem, times[learnt.place])


def _transcripts(folder: Path) -> Sequence[Path]:
    if folder.is_file():
        return [folder]
    found = [file for file in folder.glob(f"*{_TRANSCRIPT}") if file.is_file()] if folder.is_dir() else []
    if not found:
        raise InvalidRequest(
            f"{folder} holds no transcript (*{_TRANSCRIPT}); Claude Code keeps those of a project in a folder of"
            " ~/.claude/projects."
        )
    return found


def _newest(files: Sequence[Path]) -> Sequence[Path]:
    return sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)[:MOST_SESSIONS]


def _entries(file: Path) -> tuple[list[Entry], list[float | None]]:
    """Return the entries of a session as its log would hold them, and when each was. Raises InvalidRequest."""
    left = frozenset(branches_in(file).left)
    entries: list[Entry] = []
    times: list[float | None] = []
    for told in islice(Transcript(file).records, MOST_ENTRIES):
        if str(told.details.get("message_id", "")).partition("/")[0] in left:
            continue
        item = _of_log(told)
        entry_id = f"m{len(entries) + 1}"
        entries.append(
            Entry(
                id=entry_id, kind=cast("EntryKind", item.kind), role=role_of(item.kind, item.role), text=item.text,
                tokens=0, at=item.occurred_at or 0.0, covers=(entry_id,), original_tokens=0, tool=item.tool,
                call_id=item.call_id, speaker=item.speaker, failed=item.outcome == "failure",
            )
        )  # fmt: skip
        times.append(item.occurred_at)
    return entries, times


def _of_log(told: NewRecord) -> NewRecord:
    is_typed = told.kind == "message" and is_users(told.role)
    return without_harness(
        NewRecord(
            text=without_private(told.text, to_the_end=is_typed), kind=told.kind, role=told.role, tool=told.tool,
            call_id=told.call_id, speaker=told.speaker, outcome=told.outcome, occurred_at=told.occurred_at,
        )
    )  # fmt: skip


def _record(learnt: FilledSlot, session: str, at: float | None) -> NewRecord:
    is_done = learnt.section == "completed"
    return NewRecord(
        text=learnt.text,
        kind=_KINDS.get(learnt.section, "fact"),
        tags=(LEARNED, _TAGS.get(learnt.section, "stated")),
        details={"session": session},
        outcome="success" if is_done else None,
        occurred_at=at,
        session_id="learn-sessions",
    )

"""A client's transcript of a session as records of its log. Knows lines and files; `formats` knows what they say.

A transcript has one JSON object a line and grows with the session, or is one JSON value as a whole. Unknown entries are
skipped and counted.
"""

import errno
import json
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import JsonValue

from mcp_memory.bounded_files import MB, bounded_lines, open_regular
from mcp_memory.domain.memory.harness import CLIENTS_NOTE, NO_OUTPUT, OWN_CALL
from mcp_memory.domain.model.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.text.control_characters import whole_characters
from mcp_memory.entrypoints.conversations.formats import FileEntry, Said, entries_of, read_entry
from mcp_memory.entrypoints.conversations.messages import MessageReader
from mcp_memory.entrypoints.conversations.rewound import step_of
from mcp_memory.errors import InvalidRequest

MAX_TRANSCRIPT_LINE_BYTES: Final = 64 * MB
"""A line may hold several images; longer ones are skipped."""
PART_BYTES: Final = 128 * 1024
"""About a second of storing: a process that is ended loses no more."""
CALLS_BYTES: Final = 64 * 1024
"""The distance within which a result's call is expected."""
MAX_KINDS: Final = 50
CUT: Final = "… [cut]"
_INSTEAD: Final = "Give another path, or the conversation itself as `messages`."
_LEFT_OUT: Final = {CLIENTS_NOTE: "client's note", OWN_CALL: "memory's own call"}
"""Entries that hold nothing else: a file has no numbers to keep."""
STATE: Final = "earlier state of an answer"
SUBAGENTS: Final = "subagents"
"""The folder, in that of a session, of its subagents' transcripts."""
LOOKED_AT_LINES, LOOKED_AT_BYTES = 50, MB  # to tell whose a file is
MAX_MOVED_BYTES: Final = 4 * MAX_TEXT_CHARS
# "<persisted-output>\nOutput too large (52.3KB). Full output saved to: /…/tool-results/toolu_1.txt\n\nPreview …"
_MOVED = re.compile(
    r"\s{0,9}<persisted-output>\s{0,9}(?:Output too large[^\n]{0,60}\. )?(?:Full output|Tool result) saved to: "
    r"(?P<path>[^\n]{1,2000}?)(?:</persisted-output>|\s{0,9}(?:\n|\Z))"
)
_WHOLE: Final = (b"{", b"[")
"""First lines of a file that is one JSON value, written over many lines."""


def read_transcript(path: Path) -> "Transcript":
    """The transcript in this file ("~" is home), which is read up to its first record.

    Every entry is kept in the file's order, also of branches that were left by going back: `rewound` finds those. Left
    out and counted are subagents' entries in a session's file, the client's own notes and summaries, calls of this
    memory, entries met before, earlier states of an answer, and what cannot be read. In a subagent's own file nothing
    is the user's. An output that the client moved into the session's folder is read from there. A text too long is cut
    and says so; characters that cannot be kept are left out.
    """
    transcript = Transcript(path)
    first = next(transcript.records, None)
    if first is None:
        raise InvalidRequest(f"This file holds no message of a session that is known here. {_INSTEAD}")
    transcript.records = chain([first], transcript.records)
    return transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptPart:
    """The records of some whole lines of a transcript, and the byte at which the next piece begins.

    `goes_back` is True where a prompt follows another line than the one before it: the user may have taken back what
    stands between.
    """

    records: tuple[NewRecord, ...]
    end: int
    goes_back: bool = False


def read_part(path: Path, start: int = 0, most_bytes: int = PART_BYTES, *, is_growing: bool = False) -> TranscriptPart:
    """Read the finished lines from the byte `start` on: about `most_bytes`, and the rest of an answer.

    A file shorter than that is another one, and is read from its beginning. Where nothing was added, the piece is empty
    and ends where it began. With `is_growing` the piece ends before an answer of which another state may follow.

    Raises:
        InvalidRequest: there is no such file, or it cannot be read.
    """
    return Transcript(path).part(start, most_bytes, is_growing=is_growing)


def read_lines(before: bytes, lines: bytes) -> tuple[NewRecord, ...]:
    """Read finished lines of a transcript that lies elsewhere; `before` are some that precede them, already known."""
    transcript = Transcript(Path())
    transcript.meet(before)
    read = (record for raw in lines.splitlines(keepends=True) for record in transcript.read(raw))
    return (*read, *transcript.settled())


class Transcript:
    """A transcript. `records` reads the file as it goes, once; `skipped_kinds` counts lines passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._messages = MessageReader()
        self._seen: set[int] = set()
        self._answer = ""
        self._open: list[NewRecord] = []
        self._settled: list[NewRecord] = []
        self._is_subagents = False
        self._last: str | None = None
        self.goes_back = False
        self.records: Iterator[NewRecord] = self._all_records()
        self.skipped_kinds: Counter[str] = Counter()

    @property
    def skipped(self) -> int:
        """Lines passed over so far; their final number once `records` is exhausted."""
        return self.skipped_kinds.total()

    def _all_records(self) -> Iterator[NewRecord]:
        with _opened(self._path) as file:
            self._look_whose(file)
            for raw in self._lines(file):
                yield from self.read(raw)
            yield from self.settled()

    def part(self, start: int, most_bytes: int, *, is_growing: bool = False) -> TranscriptPart:
        records: list[NewRecord] = []
        with _opened(self._path) as file:
            size = file.seek(0, os.SEEK_END)
            end = settled_end = start = start if start <= size else 0
            self._look_whose(file)
            self._meet_calls(file, start)
            self.goes_back = False
            for raw in self._lines(file):
                if not raw.endswith(b"\n"):
                    break
                answer = self._answer if self._open else ""
                records += self.read(raw)
                settled_end = end if self._open and self._answer != answer else settled_end
                end = file.tell()
                settled_end = settled_end if self._open else end
                if settled_end - start >= most_bytes:
                    return TranscriptPart(records=tuple(records), end=settled_end, goes_back=self.goes_back)
        if is_growing:
            return TranscriptPart(records=tuple(records), end=settled_end, goes_back=self.goes_back)
        return TranscriptPart(records=(*records, *self.settled()), end=end, goes_back=self.goes_back)

    def _look_whose(self, file: BinaryIO) -> None:
        """Look whether the file is a subagent's own: none of its first entries is the session's."""
        file.seek(0)
        marks: list[JsonValue] = []
        for raw in islice(bounded_lines(file, LOOKED_AT_BYTES), LOOKED_AT_LINES):
            with suppress(ValueError, RecursionError):
                entry: JsonValue = json.loads((raw or b"").decode("utf-8", "replace"))
                if not isinstance(entry, dict):
                    continue
                # A session's own messages need no mark: some clients write none.
                is_told = not entry.keys().isdisjoint(("isSidechain", "message"))
                marks += [entry.get("isSidechain")] if is_told else []
        self._is_subagents = bool(marks) and all(mark is True for mark in marks)
        file.seek(0)

    def _meet_calls(self, file: BinaryIO, start: int) -> None:
        """Read the preceding lines, so that results get their tool's name; end at `start`."""
        file.seek(max(start - CALLS_BYTES, 0))
        self.meet(file.read(start - file.tell()))

    def meet(self, before: bytes) -> None:
        """Read lines for the calls in them alone."""
        for raw in before.splitlines(keepends=True):
            self.read(raw)
        self.settled()

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        for raw in bounded_lines(file, MAX_TRANSCRIPT_LINE_BYTES):
            if raw is None:
                self._skip("too long")
            elif raw.strip() in _WHOLE and file.tell() == len(raw):
                yield raw + file.read(MAX_TRANSCRIPT_LINE_BYTES)
            else:
                yield raw

    def read(self, raw: bytes) -> list[NewRecord]:
        """Return the records of a line; those it repeats, and what is left out, not."""
        if not raw.strip():
            return []
        try:
            entries = entries_of(json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff")))
        except (ValueError, RecursionError):
            return self._skip("unreadable" if raw.endswith(b"\n") else "unfinished")
        return [record for entry in entries for record in self._read(entry)] if entries else self._skip("unreadable")

    def _read(self, entry: FileEntry) -> list[NewRecord]:
        if step := step_of(entry):
            self.goes_back |= step.goes_back(self._last)
            self._last = step.id
        said = read_entry({**entry, "isSidechain": False} if self._is_subagents else entry)
        if isinstance(said, str):
            return self._skip(said)
        return [record for each in said for record in self._in_order(each)]

    def _in_order(self, said: Said) -> list[NewRecord]:
        """Return what a message settles: an answer that is written again as it grows counts at its last state."""
        is_same = bool(said.answer) and said.answer == self._answer
        is_again = self._is_met_again(said.message.get("uuid"))
        if is_again and not is_same:
            return self._skip("met before")
        found = self._said(said)
        if is_same:
            for record in found:
                self._take(record)
            return []
        before = self.settled()
        if not said.answer:
            return [*before, *found]  # Results come between the calls of one answer, which stays the same.
        self._answer, self._open, self._settled = said.answer, found, []
        return before

    def _take(self, record: NewRecord) -> None:
        """Add a record to the open answer, instead of an earlier state of it."""
        if any(_is_state_of(record, each) and len(record.text) <= len(each.text) for each in self._settled):
            self._skip(STATE)
            return
        for place, each in enumerate(self._open):
            if _is_state_of(each, record):
                self._open[place] = max(each, record, key=lambda one: len(one.text))
                self._skip(STATE)
                return
        self._open.append(record)

    def settled(self) -> list[NewRecord]:
        """Return the records of the answer that was open, which no other state follows."""
        records, self._open = self._open, []
        self._settled += records
        return records

    def _said(self, said: Said) -> list[NewRecord]:
        is_users = said.is_users and not self._is_subagents
        try:
            read = self._messages.read(said.message, "The line")
            found = [_fit(self._whole(record), is_users=is_users) for record in read]
        except InvalidRequest:
            return self._skip("unreadable")
        kept = [record for record in found if record.text.strip()]
        for name in (record.text for record in kept if record.harness and record.text in _LEFT_OUT):
            self._skip(_LEFT_OUT[name])
        return (
            [each for each in kept if not (each.harness and each.text in _LEFT_OUT)] if kept else self._skip("no text")
        )

    def _whole(self, record: NewRecord) -> NewRecord:
        """Return an output as it was before the client moved it to a file, where that is in the session's folder."""
        moved = _MOVED.match(record.text) if record.kind == "tool_result" else None
        if not moved:
            return record
        try:
            own = self._path.expanduser()
            folder = own.parent.parent if own.parent.name == SUBAGENTS else own.with_suffix("")
            # Resolved, so that neither ".." nor a link leads out of it: an output may be anybody's words.
            file = Path(moved["path"].strip()).expanduser().resolve(strict=True)
            if not file.is_relative_to(folder.resolve(strict=True)):
                return record
            with open_regular(file, follow_link=False) as opened:
                text = opened.read(MAX_MOVED_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError, RuntimeError):
            return record
        return replace(record, text=text) if text.strip() else record

    def _is_met_again(self, uuid: JsonValue) -> bool:
        """True for a line that was copied, as happens when a session is resumed. Digests keep long sessions small."""
        if not isinstance(uuid, str):
            return False
        count = len(self._seen)
        self._seen.add(hash(uuid))
        return len(self._seen) == count

    def _skip(self, kind: str) -> list[NewRecord]:
        known = self.skipped_kinds
        known[kind if kind in known or len(known) < MAX_KINDS else "other"] += 1
        return []


def _is_state_of(one: NewRecord, other: NewRecord) -> bool:
    """Return True for two states of one part of an answer: a call of one id, or a text that begins as the other."""
    if one.kind != other.kind or one.call_id != other.call_id:
        return False
    if one.kind == "tool_call":
        return one.call_id is not None
    return one.text.startswith(other.text) or other.text.startswith(one.text)


def fit_text(text: str) -> str:
    """The text without characters that cannot be kept, and no longer than a record's may be."""
    text = whole_characters(text)
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - len(CUT)] + CUT


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    """Open a transcript. Raises InvalidRequest where there is no ordinary file, or it cannot be read."""
    try:
        file = open_regular(path.expanduser())
    except FileNotFoundError:
        raise InvalidRequest(f"There is no file at this path. {_INSTEAD}") from None
    except (OSError, RuntimeError) as error:  # A home of no such user is a RuntimeError.
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EISDIR):
            raise _unreadable(error) from error
        raise InvalidRequest(f"The path names no ordinary file. {_INSTEAD}") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise _unreadable(error) from error


def _unreadable(error: OSError) -> InvalidRequest:
    return InvalidRequest(f"The transcript cannot be read ({error.strerror}). {_INSTEAD}")


def _fit(record: NewRecord, *, is_users: bool) -> NewRecord:
    """The record with texts that can be kept, and in the role of who said it."""
    text = fit_text(record.text)
    if record.kind == "tool_result" and not text.strip():
        text = NO_OUTPUT
    return replace(
        record,
        text=text,
        role="tool" if record.role == "user" and not is_users else record.role,
        tool=_name(record.tool),
        call_id=_name(record.call_id),
        details={name: _name(str(value)) for name, value in record.details.items()},
    )


def _name(name: str | None) -> str | None:
    return whole_characters(name)[:MAX_NAME_CHARS] or None if name else None

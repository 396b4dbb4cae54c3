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
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import JsonValue

from mcp_memory.bounded_files import MB, bounded_lines, open_regular
from mcp_memory.domain.memory.harness import CLIENTS_NOTE, NO_OUTPUT, OWN_CALL
from mcp_memory.domain.model.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS
from mcp_memory.domain.model.records import NewRecord
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
_NO_CHARACTER = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""Halves of pairs and noncharacters, which no text of ours may hold."""
_LEFT_OUT: Final = {CLIENTS_NOTE: "client's note", OWN_CALL: "memory's own call"}
"""Entries that hold nothing else: a file has no numbers to keep."""
_WHOLE: Final = (b"{", b"[")
"""First lines of a file that is one JSON value, written over many lines."""


def read_transcript(path: Path) -> "Transcript":
    """The transcript in this file ("~" is home), which is read up to its first record.

    Every entry is kept in the file's order, also of branches that were left by going back: `rewound` finds those. Left
    out and counted are subagents' entries, the client's own notes and summaries, calls of this memory, entries met
    before, and what cannot be read. A text too long is cut and says so; characters that cannot be kept are left out.

    Raises:
        InvalidRequest: there is no such file, it cannot be read, or it holds no message. Reading on may raise it too.
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


def read_part(path: Path, start: int = 0, most_bytes: int = PART_BYTES) -> TranscriptPart:
    """Read the finished lines from the byte `start` on: `most_bytes` and a line at the most.

    A file shorter than that is another one, and is read from its beginning. Where nothing was added, the piece is empty
    and ends where it began.

    Raises:
        InvalidRequest: there is no such file, or it cannot be read.
    """
    return Transcript(path).part(start, most_bytes)


def read_lines(before: bytes, lines: bytes) -> tuple[NewRecord, ...]:
    """Read finished lines of a transcript that lies elsewhere; `before` are some that precede them, already known."""
    transcript = Transcript(Path())
    transcript.meet(before)
    return tuple(record for raw in lines.splitlines(keepends=True) for record in transcript.read(raw))


class Transcript:
    """A transcript. `records` reads the file as it goes, once; `skipped_kinds` counts lines passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._messages = MessageReader()
        self._seen: set[int] = set()
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
            for raw in self._lines(file):
                yield from self.read(raw)

    def part(self, start: int, most_bytes: int) -> TranscriptPart:
        records: list[NewRecord] = []
        with _opened(self._path) as file:
            size = file.seek(0, os.SEEK_END)
            end = start = start if start <= size else 0
            self._meet_calls(file, start)
            self.goes_back = False
            for raw in self._lines(file):
                if not raw.endswith(b"\n"):
                    break
                records += self.read(raw)
                end = file.tell()
                if end - start >= most_bytes:
                    break
        return TranscriptPart(records=tuple(records), end=end, goes_back=self.goes_back)

    def _meet_calls(self, file: BinaryIO, start: int) -> None:
        """Read the preceding lines, so that results get their tool's name; end at `start`."""
        file.seek(max(start - CALLS_BYTES, 0))
        self.meet(file.read(start - file.tell()))

    def meet(self, before: bytes) -> None:
        """Read lines for the calls in them alone."""
        for raw in before.splitlines(keepends=True):
            self.read(raw)

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
            self.goes_back |= step.is_prompt and self._last is not None and step.parent != self._last
            self._last = step.id
        said = read_entry(entry)
        if isinstance(said, str):
            return self._skip(said)
        return [record for each in said for record in self._said(each)]

    def _said(self, said: Said) -> list[NewRecord]:
        if self._is_met_again(said.message.get("uuid")):
            return self._skip("met before")
        try:
            found = [_fit(record, is_users=said.is_users) for record in self._messages.read(said.message, "The line")]
        except InvalidRequest:
            return self._skip("unreadable")
        kept = [record for record in found if record.text.strip()]
        for name in (record.text for record in kept if record.harness and record.text in _LEFT_OUT):
            self._skip(_LEFT_OUT[name])
        return (
            [each for each in kept if not (each.harness and each.text in _LEFT_OUT)] if kept else self._skip("no text")
        )

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


def fit_text(text: str) -> str:
    """The text without characters that cannot be kept, and no longer than a record's may be."""
    text = _mended(text)
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


def _mended(text: str) -> str:
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def _name(name: str | None) -> str | None:
    return _mended(name)[:MAX_NAME_CHARS] or None if name else None

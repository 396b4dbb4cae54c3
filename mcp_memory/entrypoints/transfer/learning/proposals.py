"""Reads records that an agent proposes: a file of JSON lines, all of it or nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, cast

from pydantic import AfterValidator

from mcp_memory.bounded_files import MB, read_regular
from mcp_memory.domain.model.limits import MAX_ITEMS, OptionalName, Tags, Text
from mcp_memory.domain.model.records import Json
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import arguments_of, request_of
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.learn import LEARNED

MOST_BYTES: Final = 4 * MB
"""Five hundred records of a few sentences take a tenth of it."""
_SESSION: Final = "learn-proposals"
EXAMPLE: Final = '{"kind": "decision", "text": "…", "source": "commit 1a2b3c4", "day": "2026-03-01"}'


def _day(text: str) -> str:
    try:
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if text and not is_day:
        raise ValueError("must be a day such as 2026-03-01")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRecord:
    """A line of the file. `source` is the commit or file that tells it, `day` its day; "" for none."""

    text: Text
    kind: Literal["fact", "decision", "procedure", "censor"] = "fact"
    source: OptionalName = ""
    day: Annotated[str, AfterValidator(_day)] = ""
    tags: Tags = ()

    def as_item(self) -> dict[str, Json]:
        """Return the fields of its record as JSON; the time is the day."""
        return {
            "text": self.text,
            "kind": self.kind,
            "tags": [LEARNED, *self.tags],
            "details": {"source": self.source} if self.source else {},
            "occurred_at": self.day or None,
            "session_id": _SESSION,
        }


_ProposalLine = arguments_of("ProposalLine", ProposedRecord)


def read_proposals(source: Path | BinaryIO) -> Sequence[ProposedRecord]:
    """Return the records of a file, or of standard input.

    Raises:
        InvalidRequest: it cannot be read, a line is no such record, or there are none or too many; names the line and
            what to write.
    """
    name = str(source) if isinstance(source, Path) else "Standard input"
    try:
        content = read_regular(source, MOST_BYTES) if isinstance(source, Path) else source.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read ({error.strerror}); name a file of JSON lines.") from error
    if len(content) > MOST_BYTES:
        raise InvalidRequest(f"{name} holds more than {MOST_BYTES // MB} MB; split it.")
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is not UTF-8 text; write it as such.") from error
    proposed = [_read(line, f"{name}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not proposed:
        raise InvalidRequest(f"{name} holds no record; write one a line: {EXAMPLE}")
    if len(proposed) > MAX_ITEMS:
        raise InvalidRequest(f"{name} holds {len(proposed)} records, and {MAX_ITEMS} are the most; split it.")
    return proposed


def _read(line: str, place: str) -> ProposedRecord:
    try:
        given: object = json.loads(line)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InvalidRequest(f"{place} is no JSON object; write one record a line: {EXAMPLE}")
    try:
        return request_of(ProposedRecord, read_arguments(_ProposalLine, cast("Mapping[str, Any]", given)))
    except InvalidRequest as error:
        raise InvalidRequest(f"{place}: {error}") from error

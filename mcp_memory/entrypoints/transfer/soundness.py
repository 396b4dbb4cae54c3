"""Whether a piece is one that a memory could have written: of the right shape, it may still be nonsense.

Checked is what a wrong line would make later calls fail on, or show to somebody whom it is not meant for.
"""

from dataclasses import fields
from typing import Any, Final, cast

from mcp_memory.domain.model.ids import RECORD, TASK
from mcp_memory.domain.model.records import MAX_IMPORTANCE, Record
from mcp_memory.domain.model.scopes import USER_SCOPE, scope_key
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.text.times import is_datable
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.transfer import ErasedRecord, Piece, WholeRecord

MAX_TEXT_CHARS: Final = 4_000_000
"""Four times what a call may store: cleaning may have made a text longer, by what stands in the place of secrets."""


def check_piece(piece: Piece) -> None:
    """Raises InvalidRequest for what no memory holds; the message names the field."""
    _check_times(piece)
    if isinstance(piece, WholeRecord):
        _check_record(piece)
    elif isinstance(piece, Task):
        _check_id(piece.id, TASK)
    elif isinstance(piece, ErasedRecord):
        _check_id(piece.id, RECORD)


def _check_record(whole: WholeRecord) -> None:
    record = whole.record
    _check_times(record)
    _check_length(record.text, record.summary, record.micro)
    for earlier in whole.earlier:
        _check_times(earlier)
        _check_length(earlier.text)
    _check_id(record.id, RECORD)
    _check_scope(record)
    if not 0 <= record.importance <= MAX_IMPORTANCE or not 0 <= (record.confidence or 0) <= 1:
        raise InvalidRequest(f"`importance` must be 0 to {MAX_IMPORTANCE:g}, and `confidence` 0 to 1.")
    counts = (getattr(record.counters, each.name) for each in fields(record.counters))
    if min(*counts, record.text_tokens, record.summary_tokens, record.micro_tokens) < 0:
        raise InvalidRequest("Counters and token counts must not be negative.")


def _check_length(*texts: str) -> None:
    if max(map(len, texts)) > MAX_TEXT_CHARS:
        raise InvalidRequest(f"A text of a record holds at most {MAX_TEXT_CHARS:,} characters.")


def _check_scope(record: Record) -> None:
    """Else what is called private would be kept, and found, where others read."""
    if "/" in record.agent:
        raise InvalidRequest("`record.agent` must not hold a slash, which separates the parts of a scope.")
    person = record.scope.removeprefix(f"{USER_SCOPE}/") if record.scope != USER_SCOPE else ""
    if record.scope != scope_key(record.visibility, record.namespace, record.agent, person):
        raise InvalidRequest("`record.scope` does not fit the record's visibility, namespace and agent.")


def _check_id(made_id: str, prefix: str) -> None:
    if not made_id.startswith(prefix):
        raise InvalidRequest(f"An id of this kind begins with {prefix!r}, and {made_id[:40]!r} does not.")


def _check_times(shaped: object) -> None:
    for each in fields(cast("Any", shaped)):
        if each.name == "at" or each.name.endswith("_at"):
            instant: float | None = getattr(shaped, each.name)
            if instant is not None and not is_datable(instant):
                raise InvalidRequest(f"`{each.name}` must be seconds since 1970, within the years 1 to 9999.")

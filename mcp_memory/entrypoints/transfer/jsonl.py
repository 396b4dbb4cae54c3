"""One line of an exported memory: an object with one field, named after what the piece is. Knows no file."""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from mcp_memory.domain.model.records import Json, Record
from mcp_memory.domain.model.tasks import Task
from mcp_memory.entrypoints.transfer.shapes import as_json, as_shape
from mcp_memory.entrypoints.transfer.soundness import check_piece
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.transfer import (
    ErasedRecord,
    KnownPlace,
    KnownSession,
    Origin,
    Piece,
    UndoneSummary,
    WholeCompaction,
    WholeEntity,
    WholeRecord,
    WholeReplacement,
)

FORMAT = 1
"""Raised whenever a reader of the earlier form would misread a line."""
_MEMORY = "memory"
_SHAPES: Mapping[str, type[Piece]] = {
    "task": Task,
    "session": KnownSession,
    "place": KnownPlace,
    "entity": WholeEntity,
    "record": WholeRecord,
    "erased": ErasedRecord,
    "compaction": WholeCompaction,
    "replacement": WholeReplacement,
    "undone_summary": UndoneSummary,
}
_NAMES: Mapping[type, str] = {shape: name for name, shape in _SHAPES.items()}
_OF_RECORD = frozenset(Record.__dataclass_fields__)


def origin_line(origin: Origin) -> bytes:
    """The first line, which says what follows."""
    return _line({_MEMORY: {"format": FORMAT, **as_json(origin)}})


def piece_line(piece: Piece) -> bytes:
    """A piece; what is kept of a record beside its own fields stands among them."""
    shown = as_json(piece)
    if isinstance(piece, WholeRecord):
        shown = {**cast("Mapping[str, Json]", shown.pop("record")), **shown}
    return _line({_NAMES[type(piece)]: shown})


def read_origin(line: bytes) -> Origin:
    """Raises InvalidRequest where the line is not the first one of a memory that this version can read."""
    given = _object(line).get(_MEMORY)
    if not isinstance(given, dict) or "format" not in given:
        raise InvalidRequest('This is no exported memory: its first line must begin with `{"memory": {"format": `.')
    told = dict(cast("dict[str, object]", given))
    if (number := told.pop("format")) != FORMAT:
        raise InvalidRequest(f"It is of format {number}, and this version reads format {FORMAT}; update mcp-memory.")
    return as_shape(Origin, told, _MEMORY)


def read_piece(line: bytes) -> Piece:
    """Raises InvalidRequest where the line is no piece of a memory; the message says why."""
    given = _object(line)
    name = next(iter(given), "")
    if len(given) != 1 or name not in _SHAPES:
        raise InvalidRequest(f"A line must be an object with one field, which is one of {', '.join(_SHAPES)}.")
    told = given[name]
    if name == "record" and isinstance(told, dict):
        told = _apart(cast("dict[str, object]", told))
    piece = as_shape(_SHAPES[name], told, name)
    check_piece(piece)
    return piece


def _apart(told: Mapping[str, object]) -> dict[str, object]:
    """The record's own fields apart from what is kept beside it."""
    own = {name: value for name, value in told.items() if name in _OF_RECORD}
    return {"record": own, **{name: value for name, value in told.items() if name not in _OF_RECORD}}


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode()
        given: object = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\ud" in text.lower():  # An escape may be half of a surrogate pair, which no store can hold.
            json.dumps(given, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"It is no JSON in UTF-8 ({str(error)[:100]}).") from error
    if not isinstance(given, dict):
        raise InvalidRequest("It is no JSON object.")
    return cast("dict[str, Any]", given)


def _finite(number: str) -> float:
    """JSON has no infinity, but numbers that are read as one."""
    return read if math.isfinite(read := float(number)) else _refuse(number)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant[:40]} is no number that can be kept")

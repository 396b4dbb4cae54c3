"""Writes and reads an exported memory, a piece a line: an object with one field, named after its kind of piece.

An error names the line in which something is wrong. Knows no store.
"""

import json
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from functools import cache, partial
from typing import Annotated, Any, BinaryIO, Final, NoReturn, NotRequired, cast, get_args, get_origin

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from mcp_memory.bounded_files import MB, bounded_lines
from mcp_memory.domain.model.field_marks import unmarked
from mcp_memory.domain.model.ids import RECORD, REVIEW, TASK
from mcp_memory.domain.model.records import MAX_IMPORTANCE, Details, Instant, Record
from mcp_memory.domain.model.reviews import MOST_RECORDS, Review
from mcp_memory.domain.model.scopes import USER_SCOPE, scope_key
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.model.versions import Version
from mcp_memory.domain.text.times import is_datable
from mcp_memory.entrypoints.server.arguments import path_of, problem_of
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
from mcp_memory.services.memory.reindex import Progress

FORMAT = 3
"""Raised in each version that adds a field or a kind of line: a reader of the earlier form says to update, not that it
does not know a field.

Earlier formats are read as well: the fields that they lack have defaults, and in format 1 a record's `earlier` texts
become versions.
"""
MAX_KEPT_CHARS = 4_000_000
"""Four times the limit of a call: the marks that replace secrets may have made a text longer."""
MAX_PIECE_BYTES: Final = 64 * MB
"""A record of the largest kind, with a dozen earlier texts as large, stays below it."""
_FIRST_FIELD = "memory"
_DERIVED = ("check", "changed")
"""Fields of a record that follow from others' changes, and from its versions."""
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
    "review": Review,
}
_OF_NEWER = ("extra_forbidden", "literal_error")
"""Types of errors that a newer version's field, or value of a field, causes."""
_NAMES: Mapping[type, str] = {shape: name for name, shape in _SHAPES.items()}
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_StoredInt = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
"""SQLite keeps integers of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _EarlierText:
    """A record's text before a correction, in format 1; "" where only its hash was kept."""

    text: str
    normal_hash: str
    replaced_at: Instant


def write_memory(pieces: Iterable[Origin | Piece], target: BinaryIO, progress: Progress) -> int:
    """Write what leaves a memory (`Transfer.leave`); return the number of pieces. Raises StoreUnavailable."""
    written = total = 0
    for piece in pieces:
        if isinstance(piece, Origin):
            total = piece.pieces
            target.write(origin_line(piece))
            continue
        target.write(piece_line(piece))
        written += 1
        progress(written, total)
    return written


class MemoryFile:
    """An exported memory, read once. `name` is what people call it."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read the first line. Raises InvalidRequest where it is not one that this version can read."""
        self._lines = bounded_lines(file, MAX_PIECE_BYTES)
        self._name = name
        self._number = 1
        with self.located():
            self.origin = read_origin(_bounded(next(self._lines, b"")))

    def pieces(self, progress: Progress) -> Iterator[Piece]:
        """All that follows. Raises InvalidRequest at a line that is wrong, and where lines are missing at the end."""
        for line in self._lines:
            self._number += 1
            if self._number - 1 > self.origin.pieces:
                raise InvalidRequest(f"Only {self.origin.pieces} lines should follow the first.")
            yield read_piece(_bounded(line))
            progress(self._number - 1, self.origin.pieces)
        if self._number - 1 != self.origin.pieces:
            self._number += 1
            raise InvalidRequest(f"The file ends here, but {self.origin.pieces} lines should follow the first.")

    @contextmanager
    def located(self) -> Generator[None]:
        """Say of whatever is wrong with a piece in which line it stands, and that nothing was kept."""
        try:
            yield
        except InvalidRequest as error:
            raise InvalidRequest(f"{self._name}, line {self._number}: {error} Nothing was imported.") from error
        except RecursionError as error:
            raise InvalidRequest(
                f"{self._name}, line {self._number}: It is nested too deeply. Nothing was imported."
            ) from error


def _bounded(line: bytes | None) -> bytes:
    """Raises InvalidRequest for a line that is too long."""
    if line is None:
        raise InvalidRequest(f"It is longer than {MAX_PIECE_BYTES // MB} MB, the most that a line may hold.")
    return line


def origin_line(origin: Origin) -> bytes:
    """Return the first line, which says what follows."""
    return _line({_FIRST_FIELD: {"format": FORMAT, **asdict(origin)}})


def piece_line(piece: Piece) -> bytes:
    """Return the line of a piece; a record's own fields stand beside what is kept with it."""
    shown = asdict(piece)
    record = {name: value for name, value in shown.pop("record", {}).items() if name not in _DERIVED}
    return _line({_NAMES[type(piece)]: {**record, **shown}})


def read_origin(line: bytes) -> Origin:
    """Read the first line. Raises InvalidRequest where this version cannot read the memory that it begins."""
    given = _object(line).get(_FIRST_FIELD)
    if not isinstance(given, dict) or "format" not in given:
        raise InvalidRequest('This is not an exported memory: its first line must begin with `{"memory": {"format": `.')
    told = dict(cast("dict[str, object]", given))
    number = told.pop("format")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= FORMAT:
        raise InvalidRequest(
            f"It is of format {str(number)[:40]}, made by a newer version, and this one reads formats 1 to {FORMAT};"
            " update mcp-memory."
        )
    return cast("Origin", _read(Origin, _FIRST_FIELD, told))


def read_piece(line: bytes) -> Piece:
    """Read a line. Raises InvalidRequest where it holds no piece of a memory; the message says why."""
    given = _object(line)
    name = next(iter(given), "")
    if len(given) != 1 or name not in _SHAPES:
        raise InvalidRequest(
            f"A line must be an object with one field, which is one of {', '.join(_SHAPES)}."
            " If a newer version made the file, update mcp-memory."
        )
    if name == "record":
        given = {name: _with_versions(given[name])}
    piece = cast("Piece", _read(_SHAPES[name], name, given[name]))
    _check_piece(piece)
    return piece


def _with_versions(given: object) -> object:
    """Return a record of format 1 with its earlier texts as versions, whose numbers and authors are not known."""
    if not isinstance(given, dict) or "earlier" not in given:
        return given
    told = dict(cast("dict[str, object]", given))
    earlier = cast("Sequence[_EarlierText]", _read(tuple[_EarlierText, ...], "earlier", told.pop("earlier")))
    versions = [
        Version(
            change=0, write=0, at=each.replaced_at, agent="",
            before={"normal_hash": each.normal_hash} | ({"text": each.text} if each.text else {}),
        )
        for each in earlier
    ]  # fmt: skip
    return {**told, "versions": [asdict(each) for each in versions]}


def _read(shape: Any, name: str, told: object) -> object:
    """Read a JSON object as the dataclass: no field missing, unknown or converted. Raises InvalidRequest."""
    try:
        return _adapter(shape).validate_python(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    newer = "; if a newer version made the file, update mcp-memory" if first["type"] in _OF_NEWER else ""
    raise InvalidRequest(f"`{path_of((name, *first['loc']))}` {problem_of(first)}{newer}.")


@cache
def _some_of_a_record() -> Any:
    types = {
        each.name: _on_a_line(each.type) for each in fields(Record) if each.name not in ("id", "counters", *_DERIVED)
    }
    types["normal_hash"] = str
    return with_config(_STRICT)(cast("Any", TypedDict)("Before", types, total=False))


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_on_a_line(shape))


def _on_a_line(wanted: Any) -> Any:
    """Return the type of a value on a line: a dataclass is an object there that names each field, a tuple a list."""
    wanted = unmarked(wanted)
    if wanted == Details:
        return dict[str, Any]
    if wanted is int:
        return _StoredInt
    if get_origin(wanted) is tuple:
        item: Any = _on_a_line(get_args(wanted)[0])
        return Annotated[(list[item], AfterValidator(tuple))]
    return _object_like(wanted) if is_dataclass(wanted) else wanted


def _object_like(shape: Any) -> Any:
    beside = [each for each in fields(Record) if each.name not in _DERIVED] if shape is WholeRecord else ()
    types = {each.name: _field_on_a_line(each) for each in (*beside, *fields(shape)) if each.name != "record"}
    named = with_config(_STRICT)(cast("Any", TypedDict)(shape.__name__, types))
    return Annotated[named, AfterValidator(partial(_made, shape))]


def _field_on_a_line(field: DataclassField[Any]) -> Any:
    """Return the type of a field; one with a default may be missing, as it is from memories of earlier versions."""
    wanted = _on_a_line(field.type)
    return wanted if field.default is field.default_factory is MISSING else NotRequired[wanted]


def _made(shape: type, told: Mapping[str, Any]) -> object:
    if shape is not WholeRecord:
        return shape(**told)
    own = {name: told[name] for name in Record.__dataclass_fields__ if name in told}
    return WholeRecord(record=Record(**own), **{name: value for name, value in told.items() if name not in own})


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode()
        given: object = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\ud" in text.lower():  # An escape may be half of a surrogate pair, which no store can hold.
            json.dumps(given, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"It is not JSON in UTF-8 ({str(error)[:100]}).") from error
    if not isinstance(given, dict):
        raise InvalidRequest("It is not a JSON object.")
    return cast("dict[str, Any]", given)


def _finite(number: str) -> float:
    """Refuse what JSON reads as infinite, such as 1e999: JSON itself has no infinity."""
    return read if math.isfinite(read := float(number)) else _refuse(number)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant[:40]} is not a number that can be kept")


def _check_piece(piece: Piece) -> None:
    """Refuse what no memory holds, though its types are right: later calls would fail on it, or show it to others.

    Raises InvalidRequest; the message names the field.
    """
    _check_times(piece)
    if isinstance(piece, WholeRecord):
        _check_record(piece)
    elif isinstance(piece, Task):
        _check_id(piece.id, TASK)
    elif isinstance(piece, ErasedRecord):
        _check_id(piece.id, RECORD)
    elif isinstance(piece, Review):
        _check_id(piece.id, REVIEW)
        if not 0 < len(piece.record_ids) == len(piece.hashes) <= MOST_RECORDS:
            raise InvalidRequest(f"A group names 1 to {MOST_RECORDS} records, and a digest for each.")


def _check_record(whole: WholeRecord) -> None:
    record = whole.record
    _check_times(record)
    _check_length(record.text, record.summary, record.micro)
    for version in whole.versions:
        _check_times(version)
        _check_before(version)
    _check_id(record.id, RECORD)
    _check_scope(record)
    if not 0 <= record.importance <= MAX_IMPORTANCE or not 0 <= (record.confidence or 0) <= 1:
        raise InvalidRequest(f"`importance` must be 0 to {MAX_IMPORTANCE:g}, and `confidence` 0 to 1.")
    counts = (getattr(record.counters, each.name) for each in fields(record.counters))
    if min(*counts, record.text_tokens, record.summary_tokens, record.micro_tokens) < 0:
        raise InvalidRequest("Counters and token counts must not be negative.")


def _check_before(version: Version) -> None:
    values = cast("Mapping[str, Any]", _read(_some_of_a_record(), "before", version.before))
    _check_length(*(value for value in values.values() if isinstance(value, str)))
    for name, value in values.items():
        _check_time(name, value)


def _check_length(*texts: str) -> None:
    if max(map(len, texts), default=0) > MAX_KEPT_CHARS:
        raise InvalidRequest(f"A text of a record holds at most {MAX_KEPT_CHARS:,} characters.")


def _check_scope(record: Record) -> None:
    """Refuse a scope that does not follow from the record: what is called private would be found where others read."""
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
        _check_time(each.name, getattr(shaped, each.name))


def _check_time(name: str, instant: float | None) -> None:
    if (name == "at" or name.endswith("_at")) and instant is not None and not is_datable(instant):
        raise InvalidRequest(f"`{name}` must be seconds since 1970, within the years 1 to 9999.")

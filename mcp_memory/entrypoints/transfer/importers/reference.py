"""The reference memory server's file: a JSON object a line, each an entity with observations or a relation."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from mcp_memory.bounded_files import MB, bounded_lines, open_regular
from mcp_memory.domain.model.records import Entity, Json, NewRecord, Relation, map_strings
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.transfer.importers.fitting import short_name
from mcp_memory.errors import InvalidRequest

MAX_FILE_BYTES = 4096 * MB
MAX_ENTITY_BYTES = 16 * MB
"""An entity stands in one line, with all that was ever observed of it."""
_UNKNOWN_LINE = "lines that are neither an entity nor a relation"
_LONG_LINE = f"lines of more than {MAX_ENTITY_BYTES // MB} MB"


def read_reference(path: Path, project: str | None, left_out: Counter[str]) -> Iterator[NewRecord]:
    """A fact for each observation and each relation. Raises InvalidRequest where the path is no file of it."""
    if not path.exists():
        raise InvalidRequest(f"There is no file {path}.")
    if project is not None or not path.is_file():
        raise InvalidRequest("The reference server keeps one project in one file; name its memory.jsonl alone.")
    uncounted = Counter[str]()  # The second reading counts.
    types = {_name(line, "name", uncounted): _name(line, "entityType", uncounted) for line in _lines(path, uncounted)}
    for line in _lines(path, left_out):
        if line.get("type") == "entity" and _text(line, "name"):
            yield from _entity_facts(line, left_out)
        elif line.get("type") == "relation" and all(_text(line, end) for end in ("from", "to", "relationType")):
            yield _relation_fact(line, types, left_out)
        else:
            left_out[_UNKNOWN_LINE] += 1


def _entity_facts(line: Mapping[str, Json], left_out: Counter[str]) -> Iterator[NewRecord]:
    """An observation says nothing without the name of what it is about."""
    name, kind = (_name(line, key, left_out) for key in ("name", "entityType"))
    given = line.get("observations")
    told = given if isinstance(given, list) else []
    observations = [each for each in told if isinstance(each, str) and each.strip()]
    entity = Entity(name=name, type=kind or "thing")
    for text in observations or [f"is known as {kind or 'a thing'}"]:
        whole = text if name.casefold() in text.casefold() else f"{name}: {text}"
        yield NewRecord(text=whole, entities=(entity,))


def _relation_fact(line: Mapping[str, Json], types: Mapping[str, str], left_out: Counter[str]) -> NewRecord:
    source, target, kind = (_name(line, key, left_out) for key in ("from", "to", "relationType"))
    return NewRecord(
        text=f"{source} {kind.replace('_', ' ')} {target}",
        entities=tuple(Entity(name=end, type=types.get(end) or "thing") for end in dict.fromkeys((source, target))),
        relations=(Relation(source=source, type=kind, target=target),),
    )


def _lines(path: Path, left_out: Counter[str]) -> Iterator[Mapping[str, Json]]:
    """The objects in the file; a line that is none is counted. Raises InvalidRequest where it cannot be read."""
    try:
        with open_regular(path, MAX_FILE_BYTES) as file:
            for line in bounded_lines(file, MAX_ENTITY_BYTES):
                if line is None:
                    left_out[_LONG_LINE] += 1
                elif not line.strip():
                    continue
                elif given := _object(line):
                    yield given
                elif given is None:
                    left_out[_UNKNOWN_LINE] += 1
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read ({error.strerror}); name another file.") from error


def _object(line: bytes) -> Mapping[str, Json] | None:
    """The object in a line, with texts that can be kept; None for what is none, or is nested beyond reason."""
    try:
        given: object = json.loads(line)
        return map_strings(cast("Mapping[str, Json]", given), visible) if isinstance(given, dict) else None
    except (ValueError, RecursionError):
        return None


def _text(line: Mapping[str, Json], name: str) -> str:
    value = line.get(name)
    return value.strip() if isinstance(value, str) else ""


def _name(line: Mapping[str, Json], key: str, left_out: Counter[str]) -> str:
    return short_name(_text(line, key), left_out)

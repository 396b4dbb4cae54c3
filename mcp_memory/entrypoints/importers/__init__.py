"""What other memory servers keep, as items to remember: one server per file. What has no place here is counted.

Nothing is ever written to what is read, and no link leads out of it. Each item names its importer as its session, so
that a second run finds every text known and confirms none. To add one: a module with a function of this shape that
bounds what it reads (`bounded_files`), and a line below.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mcp_memory.domain.records import Json, NewRecord
from mcp_memory.entrypoints.importers.basic_memory import read_basic_memory
from mcp_memory.entrypoints.importers.claude_mem import read_claude_mem
from mcp_memory.entrypoints.importers.reference import read_reference
from mcp_memory.entrypoints.wire import MAX_TAGS, MAX_TEXT_CHARS

Importer = Callable[[Path, str | None, Counter[str]], Iterator[NewRecord]]
"""Called with the file or folder, the one project in it that is meant, and what to count things in that are left out.

Raises InvalidRequest where it is not what that server keeps; the message says what to name instead.
"""

IMPORTERS: Mapping[str, Importer] = {
    "reference": read_reference,
    "basic-memory": read_basic_memory,
    "claude-mem": read_claude_mem,
}

MAX_LINKS = 100
MAX_NAME_CHARS = 200
MAX_TAG_CHARS = 100
CUT = "… [cut]"
SHORTENED = "ends of records that were too long"


def fitted(items: Iterator[NewRecord], left_out: Counter[str]) -> Iterator[NewRecord]:
    """The items, none of them holding more than a call could store; those that were shortened are counted."""
    for item in items:
        fit = _fit(item)
        left_out.update([SHORTENED] if fit != item else [])
        yield fit


def _fit(item: NewRecord) -> NewRecord:
    text = item.text
    return replace(
        item,
        text=text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - len(CUT)] + CUT,
        tags=tuple(dict.fromkeys(tag[:MAX_TAG_CHARS] for tag in item.tags[:MAX_TAGS])),
        entities=tuple(
            replace(each, name=each.name[:MAX_NAME_CHARS], type=each.type[:MAX_NAME_CHARS])
            for each in item.entities[:MAX_LINKS]
        ),
        relations=tuple(
            replace(
                each,
                source=each.source[:MAX_NAME_CHARS],
                type=each.type[:MAX_NAME_CHARS],
                target=each.target[:MAX_NAME_CHARS],
            )
            for each in item.relations[:MAX_LINKS]
        ),
        details={name: _short(value) for name, value in item.details.items()},
    )


def _short(value: Json) -> Json:
    """A detail of an importer's: a text, or a list of texts."""
    if isinstance(value, list):
        return [_short(each) for each in value[:MAX_LINKS]]
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else value


__all__ = ["IMPORTERS", "SHORTENED", "Importer", "fitted"]

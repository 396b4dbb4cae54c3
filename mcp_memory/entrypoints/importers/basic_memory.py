"""basic-memory's notes: Markdown with frontmatter, whose list items are observations, relations or neither."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from mcp_memory.domain.records import Entity, NewRecord, Relation
from mcp_memory.domain.times import is_datable
from mcp_memory.entrypoints.plain_text import visible
from mcp_memory.errors import InvalidRequest

SESSION = "import-basic-memory"
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"([\w-]+):[ \t]*(.*)")
_HEADING = re.compile(r"#{1,6}\s+(.+)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_ITEM = re.compile(r"\s*[-*+]\s+(.+)")
_CATEGORY = re.compile(r"\[([^\[\]()]+)\]\s+(.+)")
_NO_CATEGORY = re.compile(r"\W?|[xX]|\d{1,3}:\d{2}.*")
"""A task's box, or the time in a transcript."""
_TAG = re.compile(r"(?:^|(?<=\s))#([^\s#]+)")
_LAST_TAG = re.compile(r"\s+#[^\s#]+\s*\Z")
_CONTEXT = re.compile(r"(.*\S)\s*\(([^()]+)\)")
_RELATION = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s\[]+))\s*\[\[([^\[\]]+)\]\]\s*(?:\((.*)\))?""")
_LINK = re.compile(r"\[\[([^\[\]]+)\]\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What all records of one file have in common."""

    title: str
    type: str
    tags: tuple[str, ...]
    occurred_at: float
    file: str


@dataclass(slots=True)
class _Section:
    """The prose below a heading, while it is read."""

    heading: str = ""
    lines: list[str] = field(default_factory=list[str])


def read_basic_memory(path: Path, project: str | None, left_out: Counter[str]) -> Iterator[NewRecord]:
    """A record for each observation, each relation, and the prose below each heading.

    Raises InvalidRequest where the path is no folder.
    """
    if project is not None or not path.is_dir():
        raise InvalidRequest("basic-memory keeps a project in a folder of Markdown files; name that folder alone.")
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if not file.is_file() or any(part.startswith(".") for part in inside.parts):
            continue
        if file.suffix.lower() != ".md":
            left_out["files that are no Markdown"] += 1
            continue
        try:
            text = visible(file.read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError):
            left_out["files that cannot be read as text in UTF-8"] += 1
            continue
        yield from _read_note(text, file, inside)


def _read_note(text: str, file: Path, inside: Path) -> Iterator[NewRecord]:
    front = _FRONT.match(text)
    told = _front_matter(front[1].splitlines()) if front else {}
    tags = [part.strip().lstrip("#") for each in told.get("tags", ()) for part in each.split(",")]
    note = _Note(
        title=" ".join(told.get("title", ())) or file.stem,
        type=" ".join(told.get("type", ())) or "note",
        tags=tuple(tag for tag in tags if tag),
        occurred_at=_instant(told.get("created", ()), file),
        file=inside.as_posix(),
    )
    yield from _records(text[front.end() :] if front else text, note)


def _front_matter(lines: Iterable[str]) -> dict[str, list[str]]:
    """The fields of the frontmatter, as lists of texts; of nested ones only their lists."""
    told: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if found := _FIELD.fullmatch(line):
            name, value = found[1], found[2].strip()
            inner = value[1:-1].split(",") if value.startswith("[") and value.endswith("]") else [value]
            told[name] = [part for each in inner if (part := each.strip().strip("'\""))]
        elif name and (item := _ITEM.fullmatch(line)):
            told[name].append(item[1].strip().strip("'\""))
    return told


def _instant(created: Iterable[str], file: Path) -> float:
    """When the note says that it was made, by this machine's clock where it names no zone; else its file's time."""
    try:
        instant = datetime.fromisoformat("".join(created)).timestamp()
    except (ValueError, OverflowError, OSError):
        return file.stat().st_mtime
    return instant if is_datable(instant) else file.stat().st_mtime


def _records(body: str, note: _Note) -> Iterator[NewRecord]:
    section, in_code = _Section(), False
    for line in body.splitlines():
        in_code ^= bool(_FENCE.match(line))
        heading = None if in_code else _HEADING.fullmatch(line.strip())
        if heading:
            yield from _prose(section, note)
            section = _Section(heading=heading[1].strip())
        elif (item := None if in_code else _ITEM.fullmatch(line)) and (found := _item(item[1].strip(), note)):
            yield found
        else:
            section.lines.append(line)
    yield from _prose(section, note)


def _item(text: str, note: _Note) -> NewRecord | None:
    """What a list item says, where it is an observation or a relation."""
    if found := _RELATION.fullmatch(text):
        kind = found[1] or found[2] or found[3]
        said = f"{note.title} {kind.replace('_', ' ')} {_target(found[4])}"
        return _record(f"{said} ({found[5]})" if found[5] else said, note, ((kind, found[4]),))
    category = _CATEGORY.fullmatch(text)
    if category and not _NO_CATEGORY.fullmatch(category[1].strip()):
        return _observation(category[2], category[1].strip(), note)
    return _observation(text, "", note) if not category and _TAG.search(text) else None


def _observation(text: str, category: str, note: _Note) -> NewRecord:
    """`- [category] text #tag (context)`; a tag inside the sentence is one of its words as well."""
    context = _CONTEXT.fullmatch(text)
    said = context[1] if context else text
    tags = _TAG.findall(said)
    while ended := _LAST_TAG.search(said):
        said = said[: ended.start()]
    kind = "decision" if category.casefold() == "decision" else "fact"
    found = _record(f"{note.title}: {said}", note, tags=[category, *tags] if category else tags)
    details = {**found.details, "context": context[2]} if context else found.details
    return replace(found, kind=kind, details=details)


def _prose(section: _Section, note: _Note) -> Iterator[NewRecord]:
    text = "\n".join(section.lines).strip()
    if text:
        heading = f" — {section.heading}" if section.heading not in ("", note.title) else ""
        yield _record(f"{note.title}{heading}\n{text}", note, [("links_to", name) for name in _LINK.findall(text)])


def _record(text: str, note: _Note, links: Iterable[tuple[str, str]] = (), tags: Iterable[str] = ()) -> NewRecord:
    related = [Relation(source=note.title, type=kind, target=name) for kind, link in links if (name := _target(link))]
    return NewRecord(
        text=text,
        tags=tuple(dict.fromkeys((*tags, *note.tags))),
        entities=(Entity(name=note.title, type=note.type),),
        relations=tuple(dict.fromkeys(related)),
        details={"file": note.file},
        occurred_at=note.occurred_at,
        session_id=SESSION,
    )


def _target(link: str) -> str:
    """The note that a link names, without its heading and the words it is shown as."""
    return re.split(r"[|#]", link)[0].strip()

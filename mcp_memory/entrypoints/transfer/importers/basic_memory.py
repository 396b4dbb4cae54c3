"""basic-memory's notes: Markdown with frontmatter, whose list items are observations, relations or neither.

The folder is somebody else's: no link in it is followed, and a note is read up to a limit.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path

from mcp_memory.bounded_files import MB, read_regular
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import is_datable
from mcp_memory.entrypoints.transfer.importers.fitting import few_tags, short_name
from mcp_memory.errors import InvalidRequest

MAX_NOTE_BYTES = 16 * MB
_FRONT = re.compile(r"\s*---[ \t]*\n((?:[^\n]*\n)*?)---[ \t]*(?:\n|\Z)")
_FURTHER_FRONT = re.compile(r"[ \t]*(?:#.*)?|[\w-]+:(?:[ \t].*)?|[ \t]*-[ \t].*|[ \t]+\S.*")
"""A line of a block behind the frontmatter that is more of it: `title: Tide Gauge`, `  - sensors`, `# made by a sync`.

A block with any other line, such as a quotation between two rules, is the note's own text.
"""
_FIELD = re.compile(r"([\w-]+):[ \t]*(.*)")
_HEADING = re.compile(r"#{1,6}\s+(.+)")
_CODE_FENCE = re.compile(r"\s*(?:```|~~~)")
_LIST_ITEM = re.compile(r"\s*[-*+]\s+(.+)")
_CATEGORY = re.compile(r"\[([^\[\]()]+)\]\s+(.+)")
_NO_CATEGORY = re.compile(r"\W?|[xX]|\d{1,3}:\d{2}.*")
"""A task's box, or the time in a transcript."""
_TAG = re.compile(r"(?:^|(?<=\s))#([^\s#]+)")
_SPACES = re.compile(r"(\s+)")
_ONLY_TAG = re.compile(r"#[^\s#]+")
_CONTEXT = re.compile(r"(.*\S)\s*\(([^()]+)\)")
_RELATION = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s\[]+))\s*\[\[([^\[\]]+)\]\]\s*(?:\((.*)\))?""")
_WIKI_LINK = re.compile(r"\[\[([^\[\]]+)\]\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """Fields that all records of one file have in common."""

    title: str
    type: str
    tags: tuple[str, ...]
    occurred_at: float
    file: str


def read_basic_memory(path: Path, project: str | None, left_out: Counter[str]) -> Iterator[NewRecord]:
    """A record for each observation, each relation, and the prose below each heading.

    Raises InvalidRequest where the path is no folder.
    """
    if project is not None or not path.is_dir():
        raise InvalidRequest("basic-memory keeps a project in a folder of Markdown files; name that folder alone.")
    root = path.resolve()
    for file in files_below(root, left_out):
        if file.suffix.lower() != ".md":
            left_out["files that are not Markdown"] += 1
            continue
        try:
            text = read_regular(file, MAX_NOTE_BYTES, follow_link=False).decode("utf-8-sig")
        except UnicodeDecodeError:
            left_out["files that cannot be read as text in UTF-8"] += 1
        except OSError as error:
            left_out[f"files that cannot be read: {error.strerror}"] += 1
        else:
            plain = visible(text.replace("\r\n", "\n").replace("\r", "\n"))
            yield from _read_note(plain, file, file.relative_to(root), left_out)


def files_below(root: Path, left_out: Counter[str]) -> Iterator[Path]:
    """The files below a folder in the order of their paths, without hidden ones. Links are counted, never followed.

    Folders wait on a list instead of the interpreter's stack, so that they may lie as deep as the system lets them.
    """
    waiting = [(root, True)]
    while waiting:
        here, is_folder = waiting.pop()
        if not is_folder:
            yield here
            continue
        for entry in reversed(_entries(here, left_out)):
            if entry.is_symlink():
                left_out["links, which are never followed"] += 1
            else:
                waiting.append((here / entry.name, entry.is_dir(follow_symlinks=False)))


def _entries(folder: Path, left_out: Counter[str]) -> list[os.DirEntry[str]]:
    """List what is in a folder and not hidden, by name."""
    try:
        with os.scandir(folder) as found:
            return sorted((entry for entry in found if not entry.name.startswith(".")), key=attrgetter("name"))
    except OSError as error:
        left_out[f"folders that cannot be read: {error.strerror}"] += 1
        return []


def _read_note(text: str, file: Path, inside: Path, left_out: Counter[str]) -> Iterator[NewRecord]:
    told, body = _parted(text)
    tags = [part.strip().lstrip("#") for each in told.get("tags", ()) for part in each.split(",")]
    note = _Note(
        title=short_name(" ".join(told.get("title", ())) or file.stem, left_out),
        type=short_name(" ".join(told.get("type", ())) or "note", left_out),
        tags=few_tags(dict.fromkeys(tag for tag in tags if tag), left_out),
        occurred_at=_instant(told.get("created", ()), file),
        file=inside.as_posix(),
    )
    yield from _records(body, note)


def _parted(text: str) -> tuple[Mapping[str, Sequence[str]], str]:
    """Return the fields of a note's frontmatter, and its body. A note that was synced may have several blocks of it.

    A later block's field is the one that holds; tags are those of all blocks.
    """
    told: dict[str, list[str]] = {}
    end = 0
    while front := _FRONT.match(text, end):
        lines = front[1].splitlines()
        if end == 0 and not text.startswith("---"):
            break
        if end and not (lines and all(map(_FURTHER_FRONT.fullmatch, lines))):
            break
        found = _front_matter(lines)
        told |= found | {"tags": [*told.get("tags", ()), *found.get("tags", ())]}
        end = front.end()
    return told, text[end:]


def _front_matter(lines: Iterable[str]) -> dict[str, list[str]]:
    """The fields of the frontmatter, as lists of texts; of nested ones only their lists."""
    told: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if found := _FIELD.fullmatch(line):
            name, value = found[1], found[2].strip()
            inner = value[1:-1].split(",") if value.startswith("[") and value.endswith("]") else [value]
            told[name] = [part for each in inner if (part := each.strip().strip("'\""))]
        elif name and (item := _LIST_ITEM.fullmatch(line)):
            told[name].append(item[1].strip().strip("'\""))
    return told


def _instant(created: Iterable[str], file: Path) -> float:
    """Return the time the note names, by this machine's clock where it names no zone; else its file's time."""
    try:
        instant = datetime.fromisoformat("".join(created)).timestamp()
    except (ValueError, OverflowError, OSError):
        return file.stat().st_mtime
    return instant if is_datable(instant) else file.stat().st_mtime


def _records(body: str, note: _Note) -> Iterator[NewRecord]:
    section, lines, in_code = "", list[str](), False
    for line in body.splitlines():
        in_code ^= bool(_CODE_FENCE.match(line))
        heading = None if in_code else _HEADING.fullmatch(line.strip())
        if heading:
            yield from _prose(section, lines, note)
            section, lines = heading[1].strip(), []
        elif (item := None if in_code else _LIST_ITEM.fullmatch(line)) and (found := _item(item[1].strip(), note)):
            yield found
        else:
            lines.append(line)
    yield from _prose(section, lines, note)


def _item(text: str, note: _Note) -> NewRecord | None:
    """Read a list item that is an observation or a relation."""
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
    said = _without_last_tags(said)
    kind = "decision" if category.casefold() == "decision" else "fact"
    found = _record(f"{note.title}: {said}", note, tags=[category, *tags] if category else tags)
    details = {**found.details, "context": context[2]} if context else found.details
    return replace(found, kind=kind, details=details)


def _without_last_tags(said: str) -> str:
    """Cut off the tags at the end: "Reads #well in storms #weather #sea" keeps its first tag alone."""
    words = _SPACES.split(said)  # words, and between them what parts them
    while len(words) > 2 and (not words[-1] or _ONLY_TAG.fullmatch(words[-1])):
        del words[-2:]
    return "".join(words)


def _prose(section: str, lines: Iterable[str], note: _Note) -> Iterator[NewRecord]:
    """A record of the prose below a heading, if there is any."""
    if text := "\n".join(lines).strip():
        heading = f" — {section}" if section not in ("", note.title) else ""
        yield _record(f"{note.title}{heading}\n{text}", note, [("links_to", name) for name in _WIKI_LINK.findall(text)])


def _record(text: str, note: _Note, links: Iterable[tuple[str, str]] = (), tags: Iterable[str] = ()) -> NewRecord:
    related = [Relation(source=note.title, type=kind, target=name) for kind, link in links if (name := _target(link))]
    return NewRecord(
        text=text,
        tags=tuple(dict.fromkeys((*tags, *note.tags))),
        entities=(Entity(name=note.title, type=note.type),),
        relations=tuple(dict.fromkeys(related)),
        details={"file": note.file},
        occurred_at=note.occurred_at,
    )


def _target(link: str) -> str:
    """The note that a link names, without its heading and the words it is shown as."""
    return re.split(r"[|#]", link)[0].strip()

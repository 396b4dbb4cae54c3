"""The form of a record's file: YAML front matter with what is said about the record, then its text.

---
id: r00003m-4f2a1c
base: 9c3e0d1f7a42
kind: decision
occurred_at: 2026-03-03T10:15:00Z
tags: [cargo]
---

Cells that begin with = get an apostrophe.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, Final, cast

import yaml

from mcp_memory.domain.model.kind_words import kind_in_words
from mcp_memory.domain.model.records import LASTING_KINDS, Entity, NewRecord, Relation
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import given, request_of
from mcp_memory.entrypoints.server.wire import ItemArgument
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.file_copies import FileCopy, digest_of, in_order, is_copy_id

MAX_FRONT_CHARS: Final = 200_000
"""Reading YAML takes up to 25 microseconds a character."""
SLUG_CHARS: Final = 48
LINE_CHARS: Final = 100
"""Characters of a list of texts that is written on one line."""
_TIMES = ("occurred_at", "valid_from", "valid_until")
_FRONT = (
    "kind", *_TIMES, "importance", "confidence", "outcome", "pinned", "speaker", "tags", "entities", "relations",
    "details",
)  # fmt: skip
"""Fields of the front matter, in their order, behind `id` and `base`."""
_DEFAULTS: Final = {each.name: each.default for each in fields(NewRecord)}
_MARK_OF_GIT = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_ID_LINE = re.compile(r"^id:[ \t]*[\"']?([a-z0-9-]{1,40})[\"']?[ \t]*$", re.MULTILINE)
_OURS = re.compile(r"^(?:id|kind):", re.MULTILINE)
_BREAK = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""Characters that YAML takes for the end of a line, or for none."""
# e.g. "Cells, that begin" → "cells", "that", "begin"
_WORD = re.compile(r"[^\W_]+")


class _Loader(yaml.SafeLoader):
    """Reads YAML as JSON's values; without aliases, of which nine lines can make a thousand million values."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - the library's own attribute

    def compose_node(self, parent: Any, index: Any) -> Any:
        if cast("Any", self).check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias; write the value itself")
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Writes times plainly, since `_Loader` reads them as texts, texts of several lines as such, short lists in one."""

    yaml_implicit_resolvers: Any = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in some if not tag.endswith(":timestamp")]
        for first, some in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> yaml.ScalarNode:
        style = '"' if _BREAK.search(data) else "|" if "\n" in data else None
        return cast("Any", self).represent_scalar("tag:yaml.org,2002:str", data, style)

    def represent_texts(self, data: list[Any]) -> yaml.SequenceNode:
        is_short = all(isinstance(each, str) and "\n" not in each for each in data) and sum(map(len, data)) < LINE_CHARS
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_short)


_Dumper.add_representer(str, _Dumper.represent_text)
_Dumper.add_representer(list, _Dumper.represent_texts)
for _tag, _pattern, _first in (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]*)", [*"-0123456789"]),
    ("float", r"-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{1,400})?(?:e[-+]?[0-9]{1,3})?", [*"-0123456789"]),
):
    for _form in (_Loader, _Dumper):  # The writer quotes a text that the reader would take for another value.
        cast("Any", _form).add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def file_name(copy_id: str, item: NewRecord) -> str:
    """Return the path in a folder, "decisions/cells-that-begin-r00003m-4f2a1c.md", that every system takes.

    The id at its end makes it the only one of its name, also where case does not count.
    """
    words = _WORD.findall(unicodedata.normalize("NFC", item.text[: 4 * SLUG_CHARS].partition("\n")[0]).casefold())
    slug = ""
    for word in words:
        if slug and len(slug) + len(word) > SLUG_CHARS:
            break
        slug += f"{word[:SLUG_CHARS]}-"
    return f"{kind_in_words(item.kind)}s/{slug}{copy_id}.md"


def file_bytes(copy_id: str, item: NewRecord) -> bytes | None:
    """Return the file of a record; None where its front matter would be longer than one may be."""
    front: dict[str, Any] = {"id": copy_id, "base": digest_of(item)}
    for name in _FRONT:
        value = getattr(item, name)
        if name == "kind" or (value != _DEFAULTS[name] and value not in ((), {})):
            front[name] = _written(name, value)
    body = item.text
    if _stripped(body) != body or _MARK_OF_GIT.search(body):  # An editor, or git, would not give it back.
        front["text"], body = body, ""
    head = yaml.dump(front, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1 << 30)
    if len(head) > MAX_FRONT_CHARS:
        return None
    return f"---\n{head}---\n\n{body}\n".encode() if body else f"---\n{head}---\n".encode()


def _written(name: str, value: Any) -> Any:
    if name in _TIMES:  # An end in the form of a date would be read as its last day.
        return iso(value) if name == "valid_until" else iso(value).removesuffix("T00:00:00Z")
    if name == "entities":
        return [
            {key: each for key, each in asdict(entity).items() if key != "found" and each != {}} for entity in value
        ]
    if name == "relations":
        return [{key: each for key, each in asdict(said).items() if each != 1.0} for said in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value


def _stripped(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def is_record_file(text: str) -> bool:
    """Return True for a file with front matter that names an id, or a kind: any other one is somebody else's."""
    return bool(_OURS.search(_front_of(text)))


def id_in(text: str) -> str:
    """Return the id of a copy in a file whose front matter may be damaged; "" for none."""
    found = _ID_LINE.search(_front_of(text))
    return found[1] if found and is_copy_id(found[1]) else ""


def _front_of(text: str) -> str:
    return text[: text.find("\n---", 3) + 1][:MAX_FRONT_CHARS] if text.startswith("---\n") else ""


def read_file(name: str, text: str) -> FileCopy:
    """Read a file, whose lines end in LF. Raises InvalidRequest; the message says what is wrong."""
    if _MARK_OF_GIT.search(text):
        raise InvalidRequest("It has git's marks of a conflict; settle that first.")
    head, found, body = text.removeprefix("---\n").partition("\n---\n")
    if not found and text.endswith("\n---"):
        head, body = text[4:-4], ""
    elif not found:
        raise InvalidRequest("Its front matter does not end; put a line `---` in front of the text.")
    front = _front(f"{head}\n")
    copy_id, base = (str(front.pop(each, None) or "") for each in ("id", "base"))
    if copy_id and not is_copy_id(copy_id):
        raise InvalidRequest("`id` is none that an export writes; leave it out in a new record's file.")
    front.setdefault("text", _stripped(body))
    return FileCopy(name=name, id=copy_id, base=base, item=_item(front))


def _front(head: str) -> dict[Any, Any]:
    if len(head) > MAX_FRONT_CHARS:
        raise InvalidRequest(f"Its front matter is longer than {MAX_FRONT_CHARS:,} characters; shorten it.")
    try:
        front = yaml.load(head, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise InvalidRequest(f"Its front matter is no YAML ({error.problem}{line}); mend it.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"Its front matter cannot be read ({str(error)[:100]}); mend it.") from error
    if not isinstance(front, dict):
        raise InvalidRequest("Its front matter is no list of fields, such as `kind: decision`.")
    return cast("dict[Any, Any]", front)


def _item(front: Mapping[Any, Any]) -> NewRecord:
    known = {"text", *_FRONT}
    if other := [str(name)[:40] for name in front if name not in known]:
        raise InvalidRequest(f"There is no field `{other[0]}`; known are id, base, {', '.join(_FRONT)}, text.")
    kind = front.get("kind", "fact")
    if kind not in LASTING_KINDS:
        raise InvalidRequest(f"`kind` must be one of {', '.join(sorted(LASTING_KINDS))}.")
    if not isinstance(front["text"], str) or not front["text"].strip():
        raise InvalidRequest("It has no text; delete the file, or say below the front matter what to remember.")
    timed = {name: _instant(name, front[name]) for name in _TIMES if front.get(name) is not None}
    asked = {name: value for name, value in front.items() if name not in ("kind", *_TIMES)}
    said: dict[str, Any] = given(read_arguments(ItemArgument, asked)) | timed | {"kind": kind}
    for links, shape in (("entities", Entity), ("relations", Relation)):
        said[links] = tuple(request_of(shape, each) for each in said.get(links, ()))
    return in_order(NewRecord(**said))


def _instant(name: str, value: Any) -> float:
    """Read a date or a time; one without a zone is in UTC."""
    try:
        read = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"`{name}` must be a date or a time, such as 2026-03-03T10:15:00Z.") from error
    return float((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() // 1)

"""JSON as people write it, edited in place: order, spacing and comments stay. Knows no client.

Python's own decoder reads the text; beside it the positions of an object's members are found, so that an edit touches
one entry's characters and its comma. No library does this: those that keep comments rewrite the whole file. An entry is
added only if it can be removed again.
"""

import json
import re
from dataclasses import dataclass
from typing import cast

from mcp_memory.entrypoints.clients.config_format import NotEditable, Table, as_table, check_edit, servers_in

_END_OF_LINE = re.compile(r"[ \t]*\r?\n")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<gone>//[^\n]*|/\*.*?\*/)|/\*.*', re.DOTALL)
"""Strings match first, so the slashes in "https://example.org" are no comment. An unclosed one ends with the text."""
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<gone>,)(?=\s*[\]}])', re.DOTALL)
"""The comma in `[1, 2, ]`, not the one in `", ]"`."""
_NAME = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)  # `"command" : ` before a value
_COMMA = re.compile(r"\s*(,?)")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A name, which begins at `start`, with its value, from `value` to before `end`; `comma`: the one behind it."""

    name: str
    start: int
    value: int
    end: int
    comma: int | None
    plain: object


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """An object and the characters it takes, from `start` to before `end`."""

    start: int
    end: int
    members: tuple[_Member, ...]

    def member(self, name: str) -> _Member | None:
        """The member of that name. Raises NotEditable where there are several: the client may take either."""
        named = [member for member in self.members if member.name == name]
        if len(named) > 1:
            raise NotEditable(f"`{name}` occurs {len(named)} times in the same place; leave one")
        return named[0] if named else None

    def __getitem__(self, name: str) -> _Member:
        if (member := self.member(name)) is None:
            raise NotEditable(f"there is no {name!r} in it")
        return member


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonNotation:
    """JSON; with `comments` also the kind that editors read, with comments and commas before a closing bracket."""

    comments: bool = False

    def read(self, text: str) -> Table:
        plain = self._plain(text)
        try:
            document: object = json.loads(plain) if plain.strip(" \t\r\n") else {}
        except RecursionError as error:
            raise NotEditable("it is nested too deeply") from error
        except json.JSONDecodeError as error:
            raise NotEditable(f"it is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from error
        except ValueError as error:  # a number of thousands of digits
            raise NotEditable("it holds a number that is too long to be read") from error
        if (table := as_table(document)) is None:
            raise NotEditable("it holds no JSON object")
        return table

    def put(self, text: str, key: str, name: str, entry: object) -> str:
        after = check_edit(self.read, text, self._put(text, key, name, entry), key, name, entry)
        self.drop(after, key, name)  # Raises where the entry could not be taken out again.
        return after

    def drop(self, text: str, key: str, name: str) -> str:
        servers_in(self.read(text), key)
        servers = self._object(text, key)
        member = servers[name]
        after = _cut(text, servers, member)
        if _comments(after) != _comments(text[: member.start] + text[member.end :]):
            raise NotEditable("it has comments where an edit would lose them")
        emptied = self._object(after)
        left = emptied[key]
        if after[left.value : left.end] == "{}":
            without = _cut(after, emptied, left)
            if _comments(without) == _comments(after):  # One between the name and its list keeps the list.
                after = without
        return check_edit(self.read, text, after, key, name, None)

    def snippet(self, key: str, name: str, entry: object) -> str:
        return json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False)

    def _put(self, text: str, key: str, name: str, entry: object) -> str:
        servers_in(self.read(text), key)
        if not self._plain(text).strip():
            return f"{text.rstrip()}\n{self.snippet(key, name, entry)}\n".lstrip("\n")
        root = self._object(text)
        if root.member(key) is None:
            return _insert(text, root, key, {name: entry})
        servers = self._object(text, key)
        if servers.member(name) is None:
            return _insert(text, servers, name, entry)
        return self._change(text, (key, name), entry)

    def _change(self, text: str, path: tuple[str, ...], wanted: object) -> str:
        """The text with `wanted` at the path, by edits as small as can be: comments between unchanged fields stay."""
        member = self._object(text, *path[:-1])[path[-1]]
        former, table = as_table(member.plain), as_table(wanted)
        if member.plain == wanted:
            return text
        if former is None or table is None:
            is_long = "\n" in text[member.value : member.end]
            is_long = is_long or (table is not None and _own_line(text, member.start))
            written = _written(text, wanted, _indent(text, member.start)) if is_long else _in_one_line(wanted)
            return text[: member.value] + written + text[member.end :]
        for gone in (name for name in former if name not in table):
            holder = self._object(text, *path)
            text = _cut(text, holder, holder[gone])
        for name, value in table.items():
            if name in former:
                text = self._change(text, (*path, name), value)
            else:
                text = _insert(text, self._object(text, *path), name, value)
        return text

    def _plain(self, text: str) -> str:
        """The text with spaces for its comments, and for commas before closing brackets, where it may have them."""
        return _STRING_OR_LAST_COMMA.sub(_blank, _STRING_OR_COMMENT.sub(_blank, text)) if self.comments else text

    def _object(self, text: str, *path: str) -> _Object:
        """The object at a path that is there. Raises NotEditable where a name on it stands there twice."""
        self.read(text)
        bare, plain = _STRING_OR_COMMENT.sub(_blank, text) if self.comments else text, self._plain(text)
        found = _scanned(bare, plain, bare.index("{"))
        for name in path:
            found = _scanned(bare, plain, found[name].value)
        return found


def _scanned(bare: str, plain: str, start: int) -> _Object:
    """The object that begins at a place of a text that was read; `plain` lacks its last commas."""
    members: list[_Member] = []
    at = start + 1
    while named := _NAME.match(bare, at):
        value, end = json.JSONDecoder().raw_decode(plain, named.end())
        behind = cast("re.Match[str]", _COMMA.match(bare, end))
        comma = behind.start(1) if behind[1] else None
        name = json.loads(named[1])
        members.append(_Member(name=name, start=named.start(1), value=named.end(), end=end, comma=comma, plain=value))
        at = behind.end()
    return _Object(start=start, end=bare.index("}", at) + 1, members=tuple(members))


def _blank(found: re.Match[str]) -> str:
    """Spaces for what is found as `gone`; lines and positions stay."""
    return re.sub(r"[^\n]", " ", found[0]) if found["gone"] else found[0]


def _insert(text: str, holder: _Object, name: str, value: object) -> str:
    """A new member at the end of an object, written as those before it are."""
    close, newline = holder.end - 1, _newline(text)
    label = f"{json.dumps(name, ensure_ascii=False)}: "
    if not holder.members:
        indent = _indent(text, holder.start)
        deeper = indent + _unit(text)
        inside = text[holder.start + 1 : close].rstrip()
        member = label + _written(text, value, deeper)
        return f"{text[: holder.start + 1]}{inside}{newline}{deeper}{member}{newline}{indent}{text[close:]}"
    last = holder.members[-1]
    behind = text[last.end : close]
    kept = behind.rstrip()
    commas = ("", ",") if last.comma is not None else (",", "")
    first = holder.members[0].start
    if _own_line(text, first):
        indent = _indent(text, first)
        member = newline + indent + label + _written(text, value, indent)
    else:
        member = (newline if "\n" in behind else " ") + label + _in_one_line(value)
    return text[: last.end] + commas[0] + kept + member + commas[1] + behind[len(kept) :] + text[close:]


def _cut(text: str, holder: _Object, member: _Member) -> str:
    """The text without a member and one comma; of a line of its own nothing stays."""
    members = holder.members
    end = member.end if member.comma is None else member.comma + 1
    between = text[member.end : end].rstrip(",")
    kept = between if between.strip() else ""  # a comment before the comma
    start = _widened(text, member.start, end)
    if len(members) == 1 and not (text[holder.start + 1 : start] + kept + text[end : holder.end - 1]).strip():
        return text[: holder.start] + "{}" + text[holder.end :]
    before = text[:start]
    position = members.index(member)
    if member.comma is None and position > 0:
        comma = members[position - 1].comma or 0
        before = text[:comma] + text[comma + 1 : start]
    return before + kept + text[end:]


def _widened(text: str, start: int, end: int) -> int:
    """Return where to cut from: the end of the line before, if nothing else stands on the line."""
    left = start
    while text[left - 1] in " \t":
        left -= 1
    if text[left - 1] != "\n":
        return left
    if not _END_OF_LINE.match(text, end):
        return start
    return left - 2 if text[left - 2] == "\r" else left - 1


def _own_line(text: str, at: int) -> bool:
    return "\n" in text[:at] and not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _indent(text: str, at: int) -> str:
    """Return the space that the line of this position begins with."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    match = _FIRST_INDENT.search(text)
    return match[1] if match else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _written(text: str, value: object, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (_newline(text) + indent).join(lines)


def _in_one_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comments(text: str) -> list[str]:
    return [found["gone"].rstrip() for found in _STRING_OR_COMMENT.finditer(text) if found["gone"]]

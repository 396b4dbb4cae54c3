"""JSON as people write it, edited in place: order, spacing and comments stay. Knows no client.

A scanner keeps the position of each value, so that an edit touches one entry's characters and its comma. No library
does this: those that keep comments rewrite the whole file. An entry is added only if it can be removed again.
"""

import json
import re
from dataclasses import dataclass

from mcp_memory.entrypoints.clients.config_format import NotEditable, Table, as_table, check_edit

_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_JSON_SPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_END_OF_LINE = re.compile(r"[ \t]*\r?\n")
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))', re.DOTALL)
"""Strings match first, so the slashes in "https://example.org" are no comment. An unclosed one ends with the text."""
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """A value and the characters it takes, from `start` to before `end`; `members` of an object."""

    start: int
    end: int
    plain: object
    members: "tuple[_Member, ...] | None" = None

    def member(self, name: str) -> "_Member | None":
        """The member of that name. Raises NotEditable where there are several: the client may take either."""
        named = [member for member in self.members or () if member.name == name]
        if len(named) > 1:
            raise NotEditable(f"`{name}` stands in it {len(named)} times in the same place; leave one")
        return named[0] if named else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A name with its value; `comma`: where the one behind it stands."""

    name: str
    start: int
    value: _Value
    comma: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonNotation:
    """JSON; with `comments` also the kind that editors read, with comments and commas before a closing bracket."""

    comments: bool = False

    def read(self, text: str) -> Table:
        if self._skip(text, 0) == len(text):
            return {}
        return as_table(self._scan(text).plain) or {}

    def put(self, text: str, key: str, name: str, entry: Table) -> str:
        after = check_edit(self.read, text, self._put(text, key, name, entry), key, name, entry)
        self.drop(after, key, name)  # Raises where the entry could not be taken out again.
        return after

    def drop(self, text: str, key: str, name: str) -> str:
        root = self._scan(text)
        servers = root.member(key)
        member = servers.value.member(name) if servers else None
        if servers is None or member is None:
            raise NotEditable(f"there is no {name!r} under `{key}`")
        after = _cut(text, servers.value, member)
        if _comments(after) != _comments(text[: member.start] + text[member.value.end :]):
            raise NotEditable("it has comments where an edit would lose them")
        emptied = self._scan(after)
        left = emptied.member(key)
        if left is not None and after[left.value.start : left.value.end] == "{}":
            without = _cut(after, emptied, left)
            if _comments(without) == _comments(after):  # One between the name and its list keeps the list.
                after = without
        return check_edit(self.read, text, after, key, name, None)

    def snippet(self, key: str, name: str, entry: Table) -> str:
        return json.dumps({key: {name: entry}}, indent=2, ensure_ascii=False)

    def _put(self, text: str, key: str, name: str, entry: Table) -> str:
        if self._skip(text, 0) == len(text):
            above = text.rstrip()
            return f"{above}\n{self.snippet(key, name, entry)}\n".lstrip("\n")
        root = self._scan(text)
        servers = root.member(key)
        if servers is None:
            return _insert(text, root, key, {name: entry})
        if servers.value.members is None:
            raise NotEditable(f"`{key}` holds something else than servers")
        if servers.value.member(name) is None:
            return _insert(text, servers.value, name, entry)
        return self._change(text, (key, name), entry)

    def _change(self, text: str, path: tuple[str, ...], wanted: object) -> str:
        """The text with `wanted` at the path, by edits as small as can be: comments between unchanged fields stay."""
        member = self._at(text, path)
        fields, table = member.value.members, as_table(wanted)
        if member.value.plain == wanted:
            return text
        if fields is None or table is None:
            is_long = "\n" in text[member.value.start : member.value.end]
            is_long = is_long or (table is not None and _own_line(text, member.start))
            written = _written(text, wanted, _indent(text, member.start)) if is_long else _in_one_line(wanted)
            return text[: member.value.start] + written + text[member.value.end :]
        for gone in (field.name for field in fields if field.name not in table):
            text = _cut(text, self._at(text, path).value, self._at(text, (*path, gone)))
        for name, value in table.items():
            holder = self._at(text, path).value
            is_new = holder.member(name) is None
            text = _insert(text, holder, name, value) if is_new else self._change(text, (*path, name), value)
        return text

    def _at(self, text: str, path: tuple[str, ...]) -> _Member:
        """The member at a path that is there. Raises NotEditable where a name on it stands there twice."""
        value, member = self._scan(text), None
        for name in path:
            member = value.member(name)
            if member is None:
                raise NotEditable(f"there is no {name!r} in it")
            value = member.value
        assert member is not None
        return member

    def _skip(self, text: str, at: int) -> int:
        match = (_JSON_SPACE_AND_COMMENTS if self.comments else _JSON_SPACE).match(text, at)
        return match.end() if match else at

    def _scan(self, text: str) -> _Value:
        """The document's object. Raises NotEditable."""
        try:
            root = self._value(text, self._skip(text, 0))
        except RecursionError as error:
            raise NotEditable("it is nested too deeply") from error
        except json.JSONDecodeError as error:
            raise NotEditable(f"it is no JSON (line {error.lineno}, column {error.colno}: {error.msg})") from error
        except ValueError as error:  # a number of thousands of digits
            raise NotEditable("it holds a number that is too long to be read") from error
        if (end := self._skip(text, root.end)) != len(text):
            raise NotEditable(
                f"it is no JSON (line {text.count(chr(10), 0, end) + 1}: something stands behind its end)"
            )
        if root.members is None:
            raise NotEditable("it holds no JSON object")
        return root

    def _value(self, text: str, at: int) -> _Value:
        opening = text[at : at + 1]
        if opening == "{":
            return self._object(text, at)
        if opening == "[":
            return self._array(text, at)
        plain, end = json.JSONDecoder().raw_decode(text, at)
        return _Value(start=at, end=end, plain=plain)

    def _object(self, text: str, start: int) -> _Value:
        members: list[_Member] = []
        at = self._skip(text, start + 1)
        while text[at : at + 1] != "}":
            if text[at : at + 1] != '"':
                raise json.JSONDecodeError("Expecting a name in double quotes", text, at)
            name, end = json.JSONDecoder().raw_decode(text, at)
            colon = self._skip(text, end)
            if text[colon : colon + 1] != ":":
                raise json.JSONDecodeError("Expecting ':'", text, colon)
            value = self._value(text, self._skip(text, colon + 1))
            comma, behind = self._comma(text, value.end, "}")
            members.append(_Member(name=name, start=at, value=value, comma=comma))
            at = behind
        plain = {member.name: member.value.plain for member in members}
        return _Value(start=start, end=at + 1, plain=plain, members=tuple(members))

    def _array(self, text: str, start: int) -> _Value:
        plain: list[object] = []
        at = self._skip(text, start + 1)
        while text[at : at + 1] != "]":
            value = self._value(text, at)
            plain.append(value.plain)
            _, at = self._comma(text, value.end, "]")
        return _Value(start=start, end=at + 1, plain=plain)

    def _comma(self, text: str, end: int, closing: str) -> tuple[int | None, int]:
        """Find the comma behind a value, if there is one, and the beginning of the next thing."""
        at = self._skip(text, end)
        if text[at : at + 1] == closing:
            return None, at
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError(f"Expecting ',' or '{closing}'", text, at)
        behind = self._skip(text, at + 1)
        if text[behind : behind + 1] == closing and not self.comments:
            raise json.JSONDecodeError("A comma before the closing bracket", text, at)
        return at, behind


def _insert(text: str, holder: _Value, name: str, value: object) -> str:
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
    behind = text[last.value.end : close]
    kept = behind.rstrip()
    commas = ("", ",") if last.comma is not None else (",", "")
    first = holder.members[0].start
    if _own_line(text, first):
        indent = _indent(text, first)
        member = newline + indent + label + _written(text, value, indent)
    else:
        member = (newline if "\n" in behind else " ") + label + _in_one_line(value)
    return text[: last.value.end] + commas[0] + kept + member + commas[1] + behind[len(kept) :] + text[close:]


def _cut(text: str, holder: _Value, member: _Member) -> str:
    """The text without a member and one comma; of a line of its own nothing stays."""
    members = holder.members or ()
    end = member.value.end if member.comma is None else member.comma + 1
    between = text[member.value.end : end].rstrip(",")
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
    return [found["comment"].rstrip() for found in _STRING_OR_COMMENT.finditer(text) if found["comment"]]

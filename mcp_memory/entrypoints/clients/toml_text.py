"""TOML edited in place: one server's tables are written at the end or cut out, the rest stays. Knows no client.

tomlkit (0.15) keeps comments too, but puts our table between the next one and the comment above it, takes that comment
out with ours, and moves empty lines. So statements are cut here, as they stand.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import cast

from mcp_memory.entrypoints.clients.config_format import NotEditable, Table, as_table, check_edit, servers_in

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOML_TOKEN = re.compile(
    r"""(?P<quoted>"{3}(?:[^\\]|\\.)*?"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
    r"|(?P<comment>\#[^\n]*)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<end>\n)|(?P<other>[^\"'\#\[\]{}\n]+)",
    re.DOTALL,
)
"""Tokens of a text already read as TOML. A line that begins with `[` inside a string or an array is no header."""
_EMPTY_OR_COMMENT = re.compile(r"\s*(#.*)?$")


class TomlNotation:
    """TOML 1.0, each server in a table of its own."""

    def read(self, text: str) -> Table:
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError
            raise NotEditable(f"it is not TOML ({str(error)[:200]})") from error

    def put(self, text: str, key: str, name: str, entry: Table) -> str:
        is_there = name in servers_in(self.read(text), key)
        kept, gone = _cut(text, key, name) if is_there else (text, [])
        newline = "\r\n" if "\r\n" in text else "\n"
        between = "" if not kept.strip() else newline if kept.endswith("\n") else newline * 2
        header, *fields = self.snippet(key, name, entry).split("\n")
        comments = [comment for statement in gone for comment in _comments(statement)]
        after = kept + between + newline.join((header, *comments, *fields, ""))
        self.drop(check_edit(self.read, text, after, key, name, entry), key, name)
        return after  # It can be taken out again, or drop would have raised.

    def drop(self, text: str, key: str, name: str) -> str:
        return check_edit(self.read, text, _cut(text, key, name)[0], key, name, None)

    def snippet(self, key: str, name: str, entry: Table) -> str:
        lines = (f"{_name(field)} = {_written(value)}" for field, value in entry.items())
        return "\n".join([f"[{_name(key)}.{_name(name)}]", *lines])


def _cut(text: str, key: str, name: str) -> tuple[str, list[str]]:
    """The text without the tables of this server and the empty line before each, and the statements that went.

    Comments behind them belong to what follows.
    """
    kept: list[str] = []
    held: list[str] = []
    gone: list[str] = []
    is_ours = False
    for statement in _statements(text):
        if statement.lstrip().startswith("["):
            was_ours, is_ours = is_ours, _is_table_of(statement, key, name)
            kept += held
            held = []
            if is_ours and not was_ours and kept and not kept[-1].strip():
                kept.pop()
        if not is_ours:
            kept.append(statement)
        elif _EMPTY_OR_COMMENT.match(statement):
            held.append(statement)
        else:
            gone += [*held, statement]
            held = []
    return "".join(kept + held), gone


def _statements(text: str) -> Iterator[str]:
    """The text in parts that join to it: a header, a field with its whole value, or a line that says nothing."""
    start = depth = 0
    for token in _TOML_TOKEN.finditer(text):
        depth += bool(token["open"]) - bool(token["close"])
        if token["end"] and not depth:
            yield text[start : token.end()]
            start = token.end()
    if start < len(text):
        yield text[start:]


def _is_table_of(header: str, key: str, name: str) -> bool:
    """Return True for the header `[mcp_servers.memory]` or of a table inside it, however the names are quoted."""
    servers = as_table(tomllib.loads(header).get(key))
    return servers is not None and name in servers


def _comments(text: str) -> list[str]:
    return [token["comment"].rstrip() for token in _TOML_TOKEN.finditer(text) if token["comment"]]


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's, but for one character that only TOML demands."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _written(value: object) -> str:
    """A value in one line. Raises NotEditable for dates, which no entry of ours holds."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if (table := as_table(value)) is not None:
        return "{ " + ", ".join(f"{_name(field)} = {_written(inner)}" for field, inner in table.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, cast(list[object], value))) + "]"
    raise NotEditable(f"its entry holds {value!r}, which is not rewritten")

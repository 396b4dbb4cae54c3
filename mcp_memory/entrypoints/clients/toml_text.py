"""TOML edited in place: one server's tables are written at the end or cut out, the rest stays. Knows no client."""

import json
import re
import tomllib
from typing import cast

from mcp_memory.entrypoints.clients.notation import NotEditable, Table, as_table, check_edit, servers_in

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER = re.compile(r"\s*\[")
_SAYS_NOTHING = re.compile(r"\s*(#.*)?$")


class TomlNotation:
    """TOML 1.0, each server in a table of its own."""

    def read(self, text: str) -> Table:
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise NotEditable(f"it is no TOML ({error})") from error

    def put(self, text: str, key: str, name: str, entry: Table) -> str:
        is_there = name in servers_in(self.read(text), key)
        kept = _cut(text, key, name) if is_there else text
        newline = "\r\n" if "\r\n" in text else "\n"
        between = "" if not kept.strip() else newline if kept.endswith("\n") else newline * 2
        after = kept + between + self.snippet(key, name, entry).replace("\n", newline) + newline
        return check_edit(self.read, text, after, key, name, entry)

    def drop(self, text: str, key: str, name: str) -> str:
        return check_edit(self.read, text, _cut(text, key, name), key, name, None)

    def snippet(self, key: str, name: str, entry: Table) -> str:
        lines = (f"{_name(field)} = {_written(value)}" for field, value in entry.items())
        return "\n".join([f"[{_name(key)}.{_name(name)}]", *lines])


def _cut(text: str, key: str, name: str) -> str:
    """Without the tables of this server and the empty line before each; comments behind them belong to what follows."""
    names = "|".join(re.escape(spelt) for spelt in {name, _quoted(name), f"'{name}'"})
    ours = re.compile(rf"\s*\[\s*{re.escape(key)}\s*\.\s*(?:{names})\s*(?:\.[^\]]*)?\]")
    kept: list[str] = []
    held: list[str] = []
    is_ours = False
    for line in _LINE.findall(text):
        if _HEADER.match(line):
            was_ours, is_ours = is_ours, bool(ours.match(line))
            kept += held
            held = []
            if is_ours and not was_ours and kept and not kept[-1].strip():
                kept.pop()
        if not is_ours:
            kept.append(line)
        elif _SAYS_NOTHING.match(line):
            held.append(line)
        else:
            held = []
    return "".join(kept + held)


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

"""Editing TOML: our tables go in and out, and no other line moves."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.entrypoints.clients.config_format import NotEditable
from mcp_memory.entrypoints.clients.toml_text import TomlNotation

TOML = TomlNotation()
KEY = "mcp_servers"
ENTRY = {"command": r"C:\bin\mcp-memory.exe", "args": ["-x", 'a "b"'], "env": {"A": "1", "b c": "\x7f"}}
SETTINGS = """\
model = "o"  # the usual
[mcp_servers.docs]
command = "docs"
args = [
  "[mcp_servers.memory]",
]

# Profiles
[profiles.fast]
model = "m"
"""


def test_the_entry_stands_at_the_end_and_nothing_else_changes() -> None:
    """S7.1: comments and order stay."""
    put = TOML.put(SETTINGS, KEY, "memory", ENTRY)
    assert put.startswith(SETTINGS + "\n[mcp_servers.memory]\n")
    assert tomllib.loads(put)[KEY]["memory"] == ENTRY
    assert TOML.drop(put, KEY, "memory") == SETTINGS
    assert TOML.put(SETTINGS.rstrip(), KEY, "memory", ENTRY) == put
    assert TOML.put("", KEY, "memory", {"command": "x"}) == '[mcp_servers.memory]\ncommand = "x"\n'


def test_an_entry_is_replaced_with_the_tables_inside_it() -> None:
    """S7.1: however its name is written; a comment above the next table stays with that, and none is lost."""
    text = """\
[ mcp_servers . "memory" ]
command = "old"  # goes too
[mcp_servers.memory.env]
A = "1"

# Next
[next]
a = 1
[mcp_servers.memory.tools.recall]
approval = "never"
"""
    put = TOML.put(text, KEY, "memory", {"command": "new", "enabled": True, "startup_timeout_sec": 1.5, "n": 3})
    assert put == (
        "\n# Next\n[next]\na = 1\n\n"
        '[mcp_servers.memory]\n# goes too\ncommand = "new"\nenabled = true\nstartup_timeout_sec = 1.5\nn = 3\n'
    )


@pytest.mark.parametrize(
    ("text", "entry", "why"),
    [
        ("a = ", ENTRY, "it is not TOML"),
        ("mcp_servers = 1", ENTRY, "holds something other than servers"),
        ("mcp_servers = { a = { command = 'x' } }", ENTRY, "cannot be edited safely"),
        ("[mcp_servers]\nmemory = { command = 'mcp-memory' }", ENTRY, "cannot be edited safely"),
        ("n = " + "1" * 5000, ENTRY, "it is not TOML"),
        ("", {"since": tomllib.loads("a = 2026-01-01")["a"]}, "is not rewritten"),
    ],
)
def test_what_cannot_be_edited_safely_is_left_alone(text: str, entry: Any, why: str) -> None:
    """S7.1."""
    with pytest.raises(NotEditable, match=why):
        TOML.put(text, KEY, "memory", entry)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_line_inside_a_string_is_no_header(quotes: str) -> None:
    """S7.1: neither where it names our table nor where it ends it."""
    text = f"text = {quotes}\n[mcp_servers.memory]\n{quotes}\n"
    put = TOML.put(text, KEY, "memory", ENTRY)
    assert TOML.drop(put, KEY, "memory") == text
    inside = f"[mcp_servers.memory]\ncommand = {quotes}\n[mcp_servers.other]\n{quotes}\n[next]\n"
    assert TOML.drop(inside, KEY, "memory") == "[next]\n"
    assert TOML.drop(f"[mcp_servers.memory]\nargs = [\n[1],\n[2]]\n{text}", KEY, "memory") == ""


def test_line_ends_of_windows_stay() -> None:
    """S7.1."""
    put = TOML.put('a = "b"\r\n', KEY, "memory", {"command": "x"})
    assert put == 'a = "b"\r\n\r\n[mcp_servers.memory]\r\ncommand = "x"\r\n'
    assert TOML.drop(put, KEY, "memory") == 'a = "b"\r\n'


@given(
    others=st.lists(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), unique=True, max_size=4),
    name=st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True),
    values=st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3),
)
def test_in_and_out_again_leaves_every_byte(others: list[str], name: str, values: list[str]) -> None:
    """S7.1: whatever the entry holds."""
    text = "".join(f"[mcp_servers.{other}]\ncommand = 'x'\n\n" for other in others if other != name)
    entry = {"command": "c", "args": values, "env": {f"V {value}": value for value in values}}
    put = TOML.put(text, KEY, name, entry)
    assert tomllib.loads(put)[KEY][name] == entry
    assert TOML.drop(put, KEY, name) == text

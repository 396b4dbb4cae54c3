"""Editing JSON as people write it: the entry goes in and out, and no other character moves."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.entrypoints.clients.config_format import NotEditable
from mcp_memory.entrypoints.clients.json_text import JsonNotation

PLAIN, EDITORS = JsonNotation(), JsonNotation(comments=True)
ENTRY = {"command": "/bin/mcp-memory", "args": ["-x"]}
KEY = "mcpServers"

SETTINGS = """\
// Settings
{
    "theme": "One", // dark, with a comma, and a "quote"
    /* the servers:
       { not this one } */
    "mcpServers": {
        "other": { "command": "x", "args": ["// no comment", 1.0], },
        // the last
    },
    "url": "https://example.org/*",
}
"""
EDITED = """\
// Settings
{
    "theme": "One", // dark, with a comma, and a "quote"
    /* the servers:
       { not this one } */
    "mcpServers": {
        "other": { "command": "x", "args": ["// no comment", 1.0], },
        // the last
        "memory": {
            "command": "/bin/mcp-memory",
            "args": [
                "-x"
            ]
        },
    },
    "url": "https://example.org/*",
}
"""


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    """S7.1: of the editors' kind of JSON."""
    assert EDITORS.put(SETTINGS, KEY, "memory", ENTRY) == EDITED
    assert EDITORS.drop(EDITED, KEY, "memory") == SETTINGS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', '{"a": 1, "mcpServers": {"memory": {}}}'),
        ('{"mcpServers": {"o": {}}}', '{"mcpServers": {"o": {}, "memory": {}}}'),
        ('{\n\t"a": 1\n}\n', '{\n\t"a": 1,\n\t"mcpServers": {\n\t\t"memory": {}\n\t}\n}\n'),
        ('{\r\n  "a": 1\r\n}', '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "memory": {}\r\n  }\r\n}'),
        ('{"a": 1,\n "b": 2}', '{"a": 1,\n "b": 2, "mcpServers": {"memory": {}}}'),
        ('{\n  "mcpServers": {}\n}', '{\n  "mcpServers": {\n    "memory": {}\n  }\n}'),
        ("", '{\n  "mcpServers": {\n    "memory": {}\n  }\n}\n'),
        (" \n", '{\n  "mcpServers": {\n    "memory": {}\n  }\n}\n'),
        ("{}", '{\n  "mcpServers": {\n    "memory": {}\n  }\n}'),
        ('{"mcpServers": {"memory": {"old": 1}, "o": 2}}', '{"mcpServers": {"memory": {}, "o": 2}}'),
    ],
)
def test_what_is_written_looks_like_what_is_there(before: str, after: str) -> None:
    """S7.1: its indentation, its line ends, one line where all is in one line."""
    assert PLAIN.put(before, KEY, "memory", {}) == after.replace('"memory": {}', '"memory": {}')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"mcpServers": {"memory": {}}}', "{}"),
        ('{"mcpServers": {"memory": {}}, "a": 1}', '{"a": 1}'),
        ('{"mcpServers": {"memory": {}, "o": {}}}', '{"mcpServers": {"o": {}}}'),
        ('{"mcpServers": {"o": {}, "memory": {}}}', '{"mcpServers": {"o": {}}}'),
        ('{\n  "mcpServers": {\n    "memory": {},\n    "o": 1\n  }\n}', '{\n  "mcpServers": {\n    "o": 1\n  }\n}'),
    ],
)
def test_with_the_entry_its_comma_goes_and_an_emptied_list(before: str, after: str) -> None:
    """S7.1."""
    dropped = PLAIN.drop(before, KEY, "memory")
    assert json.loads(dropped) == json.loads(after)
    assert "memory" not in dropped


def test_comments_beside_the_entry_keep_the_file_readable() -> None:
    """S7.1: a line comment swallows nothing that moved up behind it."""
    text = '{ // one\n "mcpServers": { "o": 1, // two\n "memory": {} // three\n } // four\n}'
    dropped = EDITORS.drop(text, KEY, "memory")
    assert EDITORS.read(dropped) == {"mcpServers": {"o": 1}}
    assert all(word in dropped for word in ("one", "two", "three", "four"))
    tight = '{"mcpServers": {"o": 1, // two\n"memory": {}}}'
    assert EDITORS.read(EDITORS.drop(tight, KEY, "memory")) == {"mcpServers": {"o": 1}}
    assert EDITORS.put("// nothing yet\n", KEY, "memory", {}).startswith("// nothing yet\n{")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1,}', "it is not JSON (line 1, column "),
        ("{} // no", "it is not JSON (line 1, column 4: Extra data"),
        ('{"a" 1}', "Expecting ':' delimiter"),
        ("{a: 1}", "Expecting property name enclosed in double quotes"),
        ('{"a": 1', "Expecting ',' delimiter"),
        ('{"a": [1 2]}', "Expecting ',' delimiter"),
        ('{"a": }', "Expecting value"),
        ('{"a": "', "Unterminated string"),
        ("[1]", "it holds no JSON object"),
        ('{"mcpServers": []}', "`mcpServers` holds something other than servers"),
        ('{"mcpServers": null}', "`mcpServers` holds something other than servers"),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_not_edited_and_the_reason_is_told(text: str, why: str) -> None:
    """S7.1."""
    with pytest.raises(NotEditable, match=why.replace("(", r"\(")):
        PLAIN.put(text, KEY, "memory", ENTRY)


def test_nothing_is_taken_from_where_it_is_not() -> None:
    """S7.1."""
    with pytest.raises(NotEditable, match="there is no 'memory'"):
        PLAIN.drop('{"mcpServers": {}}', KEY, "memory")


@pytest.mark.parametrize(
    "text",
    ['{"mcpServers": {"memory": 1, "memory": 2}}', '{"mcpServers": {"memory": 1}, "mcpServers": {"memory": 2}}'],
)
def test_where_a_name_stands_twice_nothing_is_edited(text: str) -> None:
    """S7.1: neither in nor out, since the client may take either of the two."""
    with pytest.raises(NotEditable, match="occurs 2 times in the same place; leave one"):
        PLAIN.put(text, KEY, "memory", {})
    with pytest.raises(NotEditable, match="occurs 2 times in the same place; leave one"):
        PLAIN.drop(text, KEY, "memory")


def test_an_entry_brought_up_to_date_keeps_what_stands_between_its_fields() -> None:
    """S7.1: comments, order and the form of what did not change; a field that goes takes its own line along."""
    text = """{
  "mcpServers": {
    "memory": {
      // where it is
      "command": "old", // not for long
      "args": ["-x"],   /* as it was */
      "gone": 1,
      "env": {"A": "1" /* one */}
    }
  }
}
"""
    entry = {"command": "new", "args": ["-x"], "env": {"A": "1", "B": "2"}, "disabled": False}
    assert EDITORS.put(text, KEY, "memory", entry) == text.replace('"old"', '"new"').replace(
        '      "gone": 1,\n', ""
    ).replace('"1" /* one */}', '"1", /* one */ "B": "2"},\n      "disabled": false')


def test_a_comment_between_the_list_and_its_name_keeps_the_list() -> None:
    """S7.1."""
    text = '{"a": 1, "mcpServers" /* ours */ : {\n}}'
    dropped = EDITORS.drop(EDITORS.put(text, KEY, "memory", ENTRY), KEY, "memory")
    assert dropped == '{"a": 1, "mcpServers" /* ours */ : {}}'


def test_a_number_too_long_to_be_read_is_no_defect() -> None:
    """S7.1, S3.1."""
    with pytest.raises(NotEditable, match="a number that is too long"):
        PLAIN.read('{"a": ' + "1" * 5000 + "}")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(st.text(max_size=6), VALUES, max_size=4)
SERVERS = st.dictionaries(st.text(max_size=6).filter(lambda name: name != "memory"), VALUES, max_size=3)
WIDTHS = st.none() | st.integers(0, 4) | st.just("\t")


@given(document=DOCUMENTS, servers=st.none() | SERVERS, width=WIDTHS, tail=st.sampled_from(["", "\n", "\n\n"]))
def test_in_and_out_again_leaves_every_byte(document: Any, servers: Any, width: Any, tail: str) -> None:
    """S7.1: whatever is in the file and however it is written; an empty list of servers may go with the entry."""
    document.pop(KEY, None)
    full = document if servers is None else {**document, KEY: servers}
    text = json.dumps(full, indent=width, ensure_ascii=False) + tail
    for notation in (PLAIN, EDITORS):
        put = notation.put(text, KEY, "memory", ENTRY)
        assert json.loads(put) == {**full, KEY: {**(servers or {}), "memory": ENTRY}}
        assert list(json.loads(put)) == list({**full, KEY: 0})
        dropped = notation.drop(put, KEY, "memory")
        if servers == {}:
            assert json.loads(dropped) == document
        else:
            assert dropped == text

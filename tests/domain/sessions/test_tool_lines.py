"""What is said of a tool call: what it did to what, with which inputs, and why."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.tool_lines import announced, arguments_line, call_line, line_count, one_line
from tests.compaction.conftest import a_log, an_entry


def a_call(tool: str | None, arguments: object) -> Entry:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return an_entry(1, text, kind="tool_call", tool=tool)


@pytest.mark.parametrize(
    ("tool", "arguments", "done"),
    [
        ("Read", {"file_path": "a.py"}, "Read a.py"),
        ("read_file", "a.py", "Read a.py"),
        ("readFile", {"path": "a.py"}, "Read a.py"),
        ("write_to_file", {"absolutePath": "/app/a.py"}, "Wrote /app/a.py"),
        ("read_file", {"absolute_path": "/app/a.py"}, "Read /app/a.py"),
        ("mcp__files__list_directory", {"path": "src"}, "Listed src"),
        ("LS", {"path": "src"}, "Listed src"),
        ("Bash", {"command": "pytest -q\n  tests"}, "Ran `pytest -q tests`"),
        ("shell", {"command": ["bash", "-lc", "ls -la"]}, "Ran `ls -la`"),
        ("execute_sql", {"sql": "select 1"}, "Ran `select 1`"),
        ("Grep", {"pattern": "def f", "path": "src"}, "Searched for `def f`"),
        ("web_search", {"query": "port in use"}, "Searched for `port in use`"),
        ("WebFetch", {"url": "https://example.com", "prompt": "The port?"}, "Fetched https://example.com"),
        ("MultiEdit", {"file_path": "a.py", "edits": [1, 2]}, "Edited a.py"),
        ("apply_patch", "*** Begin Patch\n*** Update File: a.py\n+x\n*** Add File: b.py\n", "Edited a.py, b.py"),
        ("apply_patch", {"input": "--- a/a.py\n+++ b/a.py\n+x\n"}, "Edited a.py"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, "Read a.py"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a.py"}, "Wrote a.py"),
        ("TodoWrite", {"todos": [{"content": "a"}]}, "Called TodoWrite"),
        ("create_page", {"query": "a page"}, "Called create_page on a page"),
        ("apply_patch", {"changes": {"a.py": "x"}}, "Called apply_patch"),
        ("think", "about it", "Called think with `about it`"),
        ("run_tests", "{}", "Called run_tests"),
        ("run_tests", "", "Called run_tests"),
        (None, {"n": 1}, "Called a tool"),
        ("Bash", "{not json", "Ran `{not json`"),
        ("Bash", '{"a":' * 100_000, "Ran `" + '{"a":' * 23 + '{"a"…`'),
    ],
)
def test_a_call_is_told_by_the_words_of_its_tool_and_its_telling_field(
    tool: str | None, arguments: object, done: str
) -> None:
    """E2.1: tool and key input."""
    assert call_line(a_call(tool, arguments)).done == done


@pytest.mark.parametrize(
    ("arguments", "inputs"),
    [
        ({"path": "a.py", "offset": 10, "all": True, "ratio": None, "deep": {"x": 1}}, ("offset=10", "all=true")),
        ({"path": "a.py", "a": 1, "b": 2, "c": 3, "d": 4}, ("a=1", "b=2", "c=3")),
        ({"path": "a.py", "note": "long " * 20, "description": "why"}, ()),
        ({"path": "a.py", "old_str": "a\nb\n", "new_str": "c"}, ("2 lines into 1 line",)),
        ({"path": "a.py", "old_str": "a\nb\n", "new_str": ""}, ("2 lines into 0 lines",)),
        ({"path": "a.py", "content": "a\nb"}, ("2 lines",)),
        ({"path": "a.py", "edits": [1, 2]}, ("2 edits",)),
        ("a.py", ()),
    ],
)
def test_other_inputs_are_told_where_they_are_short(arguments: object, inputs: tuple[str, ...]) -> None:
    """E2.1: and how much was written, in place of what."""
    assert call_line(a_call("edit", arguments)).inputs == inputs


def test_what_was_written_and_what_for_is_known() -> None:
    """E2.1: why."""
    line = call_line(a_call("Edit", {"path": "a.py", "new_str": "port = 1", "description": "mend\nit"}))
    assert (line.written, line.purpose) == ("port = 1", "mend it")
    assert call_line(a_call("Read", {"path": "a.py", "content": "x"})).written == ""


def test_attempts_at_one_thing_have_one_key() -> None:
    """E4.1: a file or a command is one thing; a question is one with all that was asked."""

    def key(tool: str, **arguments: Any) -> str:
        return call_line(a_call(tool, arguments)).key

    assert key("Read", path="a.py", offset=1) == key("Read", path="a.py", offset=9)
    assert key("Read", path="a.py") != key("Edit", path="a.py")
    assert key("Grep", pattern="x", path="a") != key("Grep", pattern="x", path="b")
    assert key("ask", title="x") != key("ask", title="y")


def test_arguments_are_shown_as_given_or_with_what_tells_most_first() -> None:
    """D5.1: in one line, cut."""
    short = '{"b": [1, "ü"], "path": "a.py"}'
    assert arguments_line(a_call("x", short), 100) == short
    long = {"old": "line\n" * 100, "n": 1, "none": [], "parts": {"a": 1}, "path": "src/app.py", "cmd": ["ls", "-l"]}
    shown = arguments_line(a_call("x", long), 200)
    assert shown.startswith('{"path":"src/app.py","cmd":"ls -l","old":"line\\nline\\n')
    assert shown.endswith('line…","n":1,"none":"","parts":"…"}')
    assert len(arguments_line(a_call("x", long), 60)) == 60
    assert arguments_line(a_call("x", "one\ntwo"), 60) == "one two"


@pytest.mark.parametrize("depth", [10, 900, 1_000, 10_000, 100_000])
def test_arguments_of_any_depth_are_shown(depth: int) -> None:
    call = a_call("x", '{"path":"a.py","a":' + "[" * depth + "]" * depth + "}")
    assert "a.py" in arguments_line(call, 60)
    assert call_line(call).done.startswith("Called x")


def test_lines_are_counted_as_an_editor_does() -> None:
    assert [line_count(text) for text in ("", "a", "a\n", "a\nb", "\n\n")] == [0, 1, 1, 2, 2]


def test_half_a_character_is_shown_as_one_that_can_be_stored() -> None:
    assert call_line(a_call("Read", '{"path": "a\\ud800b"}')).done == "Read a?b"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("I see. Let me run the tests:", "Let me run the tests"),
        ("The port is wrong. It is 5432. Done so far.", ""),
        ("Looking at the configuration.", "Looking at the configuration."),
        ("让我看看这个文件。", "让我看看这个文件。"),
        ("好的。", ""),
        ("", ""),
    ],
)
def test_what_the_assistant_announced_is_why(said: str, why: str) -> None:
    """E2.1: its words just before the call, in any language."""
    log = a_log(("user", "Go."), ("assistant", said), ("call", "a"), ("call", "b"))
    assert [announced(log, 2), announced(log, 3)] == [why, why]


def test_nothing_else_before_a_call_is_why() -> None:
    """E2.1: no user's words, no other turn's, no result."""
    words = "Let me run the tests."
    assert announced(a_log(("call", "a")), 0) == ""
    assert announced(a_log(("user", words), ("call", "a")), 1) == ""
    assert announced(a_log(("user", "Go."), ("result", words), ("call", "a")), 2) == ""
    assert announced(a_log(("assistant", words), ("user", "Go."), ("call", "a")), 2) == ""
    assert announced(a_log(("assistant", words, {"form": "tools"}), ("call", "a")), 1) == ""


@given(st.text(), st.integers(1, 50))
def test_a_line_is_one_line_of_bounded_length(text: str, most: int) -> None:
    line = one_line(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    ),
    st.text(),
)
def test_any_call_is_told_in_one_line(arguments: object, tool: str) -> None:
    line = call_line(a_call(tool, arguments))
    for said in (line.done, line.tool, line.purpose, *line.inputs):
        assert len(said) <= 200
        assert len(said.splitlines()) <= 1

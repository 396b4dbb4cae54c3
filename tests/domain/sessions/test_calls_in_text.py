"""Calls that an agent writes in its text, and what comes back in the user's role."""

import pytest

from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.calls_in_text import outputs_in, told_apart
from tests.domain.sessions.made_sessions import run, session, told

PROMPT = "(Open file: n/a)\n(Current directory: /srv)\nbash-$"


def shells(*outputs: str) -> list[tuple[str, str]]:
    found = [("user", "Find the leak in the archive service, and never restart it.")]
    for number, output in enumerate(outputs):
        found += [("assistant", f"I look at part {number}.\n```\ncat part{number}.log\n```"), ("user", output)]
    return found


def kinds(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.kind for entry in entries]


def test_results_in_the_users_role_are_no_words_of_the_user() -> None:
    """P1.2: by their common frame; what the user says in between stays the user's."""
    lines = shells(*(f"part {n} holds {n} rows\n{PROMPT}" for n in range(4)))
    lines += [("assistant", "```\nls\n```"), ("user", f"a.log\n{PROMPT}")]
    lines += [("assistant", "Which one?\n```\nls\n```"), ("user", "Take the last part.")]
    entries = session(*lines, ("assistant", "I end it.\n```\nsubmit\n```"))
    parts = told_apart(entries)
    assert kinds(parts)[:4] == ["message", "message", "tool_call", "tool_result"]
    assert [entry.text for entry in parts[1:4]] == ["I look at part 0.", "cat part0.log", "part 0 holds 0 rows"]
    assert (parts[-1].kind, parts[-1].text, parts[-1].id) == ("tool_call", "submit", entries[-1].id)
    assert [entry.text for entry in parts if entry.is_users] == [lines[0][1], "Take the last part."]
    assert outputs_in(entries) == {entries[n].id for n in (2, 4, 6, 8, 10)}


@pytest.mark.parametrize(
    ("call", "tool", "text"),
    [
        ("<list_files><path>src</path></list_files>", "list_files", "<path>src</path>"),
        ("Action: search[ports]", "shell", "search[ports]"),
    ],
)
@pytest.mark.parametrize(
    "result",
    ["Observation: {}", "[list_files for 'src'] Result:\n{}", "<returncode>0</returncode>\n{}", "{}\ndev@host:~/app$"],
)
def test_tags_and_actions_are_calls(call: str, tool: str, text: str, result: str) -> None:
    lines = [line for n in range(3) for line in (("assistant", f"I look.\n{call}"), ("user", result.format(n)))]
    parts = told_apart(session(("user", "Go."), *lines))
    assert (parts[2].tool, parts[2].text, parts[3].kind, parts[3].tool) == (tool, text, "tool_result", tool)


@pytest.mark.parametrize(
    "lines",
    [
        [("user", "How?"), *[("assistant", "So:\n```\nls\n```"), ("user", "And then?")] * 2],
        [*[("assistant", "So:\n```\nls\n```")] * 3, ("user", "Thanks, and how do I sort it?")],
        [line for n in "abcd" for line in (("assistant", "So:\n```\nls\n```"), ("user", f"And what of {n * 3}?"))],
        [("assistant", "a </b>"), ("assistant", "c </d>"), ("assistant", "e </f>")],
        [("user", "Go."), run("ls", "a.py"), *[("assistant", "So:\n```\nls\n```"), ("user", "x\n$")] * 4],
    ],
)
def test_talk_about_code_stays_talk(lines: list[tuple[str, str]]) -> None:
    entries = session(*lines)
    assert told_apart(entries) == entries
    assert outputs_in(entries) == frozenset()


@pytest.mark.parametrize(
    "message",
    [
        "Rule: module m{} stays private",
        "【规则】端口{}",
        "¿Puedes usar f{}?",
        "Use m{}.\nDanke!",
        "👍 m{}",
        "<p>{}</p>",
        "In m{}:\n{} %",
    ],
)
def test_a_users_messages_that_look_alike_stay_the_users(message: str) -> None:
    """P1.2: a machine alone writes a label of results, their tag, or a prompt."""
    lines = [line for n in range(5) for line in (("user", message.format(n, n)), ("assistant", "So:\n```\nls\n```"))]
    entries = session(*lines)
    assert told_apart(entries) == entries


def test_a_shells_prompt_is_no_output() -> None:
    lines = [run(f"cat {n}.log", f"{n} rows\n{PROMPT}") for n in range(3)]
    parts = told_apart(session(("user", "Go."), *lines, run("true", "done")))
    assert [entry.text for entry in parts if entry.kind == "tool_result"] == ["0 rows", "1 rows", "2 rows", "done"]
    bare = told_apart(session(("user", "Go."), *[run("true", "$")] * 3))
    assert {entry.text for entry in bare if entry.kind == "tool_result"} == {""}


def test_an_edit_of_the_open_file_is_one_of_the_file_that_its_result_names() -> None:
    """P1.2: the form of an agent whose editor has one open file."""
    new, code = "edit 1:1\nprint('probe me')\nend_of_edit", "edit 4:5\n    total = sum(rows)\nend_of_edit"
    shown = "[File: /srv/{} (9 lines total)]\n1:x\nFile updated."
    refused = f"Your changes have NOT been applied.\n- E999 SyntaxError: unmatched ')'\n{shown.format('totals.py')}"
    lines = [
        ("ls", "totals.py"), (new, shown.format("probe.py")), (code, refused), (code, shown.format("totals.py")),
        ("python probe.py", "probe me"), ("rm probe.py", "done"), (code, "No file is open."),
    ]  # fmt: skip
    said = [
        line
        for call, output in lines
        for line in (("assistant", f"I go on.\n```\n{call}\n```"), ("user", f"{output}\n{PROMPT}"))
    ]
    entries = session(("user", "Mend the totals."), *said)
    tools = [entry.tool for entry in told_apart(entries) if entry.kind == "tool_call"]
    assert tools == ["shell", "write", "edit", "edit", "shell", "shell", "shell"]
    assert told(entries, "changes") == [
        "/srv/totals.py: edited, last `total = sum(rows)`", "/srv/probe.py: removed again"
    ]  # fmt: skip

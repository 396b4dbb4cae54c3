"""D8.1: sessions of each client, as it writes them to a file, become the records of a log."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.memory.harness import NO_OUTPUT
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.conversations.transcripts import read_part, read_transcript
from mcp_memory.errors import InvalidRequest

Row = tuple[str, str | None, str, str | None]


def read(path: Path, *lines: Any) -> tuple[list[NewRecord], dict[str, int]]:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), "utf-8")
    transcript = read_transcript(path)
    records = list(transcript.records)
    return records, dict(transcript.skipped_kinds)


def rows(records: list[NewRecord]) -> list[Row]:
    return [(each.kind, each.role, each.text, each.tool) for each in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session"


def item(**payload: Any) -> dict[str, Any]:
    """An item of a Codex rollout in its envelope."""
    return {"timestamp": "2026-11-20T12:00:00.250Z", "type": "response_item", "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}])


def output(text: str) -> dict[str, Any]:
    return item(type="function_call_output", call_id="c1", output=text)


def test_a_rollout_of_codex(path: Path) -> None:
    records, skipped = read(
        path,
        {"timestamp": "2026-11-20T12:00:00Z", "type": "session_meta", "payload": {"id": "s", "instructions": "No."}},
        said("developer", "<permissions instructions>\nAsk.\n</permissions instructions>"),
        said("user", "<user_instructions>\n\nNever push.\n\n</user_instructions>"),
        said("user", "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"),
        said("user", "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nWhich port?"),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Which port?"}},
        {"type": "turn_context", "payload": {"cwd": "/work"}},
        item(type="reasoning", summary=[], encrypted_content="gAAA"),
        item(type="function_call", name="exec_command", arguments='{"cmd":"ss"}', call_id="c1"),
        output(
            "Chunk ID: 1a\nWall time: 0.5 seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\n8123\n"
        ),
        item(type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2", status="completed"),
        item(
            type="custom_tool_call_output",
            call_id="c2",
            output=json.dumps({"output": "Success.", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}),
        ),
        said("assistant", "8123."),
        {"type": "compacted", "payload": {"message": "We looked for the port."}},
    )
    assert rows(records) == [
        ("message", "user", "Which port?", None),
        ("tool_call", "assistant", '{"cmd":"ss"}', "exec_command"),
        ("tool_result", "tool", "8123\n", "exec_command"),
        ("tool_call", "assistant", "*** Begin Patch", "apply_patch"),
        ("tool_result", "tool", "Success.", "apply_patch"),
        ("message", "assistant", "8123.", None),
    ]
    assert {each.occurred_at for each in records} == {1_795_176_000.25}
    assert {each.outcome for each in records} == {None}
    assert skipped == {
        "session_meta": 1,
        "client's note": 3,
        "event_msg": 1,
        "turn_context": 1,
        "no text": 1,
        "client's summary": 1,
    }


@pytest.mark.parametrize(
    ("told", "text", "outcome"),
    [
        ("Exit code: 2\nWall time: 0.7 seconds\nOutput:\nno such file", "no such file", "failure"),
        ("Chunk ID: 1a\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\n", NO_OUTPUT, None),
        (json.dumps({"output": "bad", "metadata": {"exit_code": 1}}), "bad", "failure"),
        ('{"output": 5}', '{"output": 5}', None),
        ('{"output": broken', '{"output": broken', None),
        ("Chunk ID: only a heading", "Chunk ID: only a heading", None),
    ],
)
def test_what_codex_writes_around_an_output_is_cut(path: Path, told: str, text: str, outcome: str | None) -> None:
    records, _ = read(path, said("user", "Go."), output(told))
    assert (records[1].text, records[1].outcome) == (text, outcome)


def test_calls_of_this_memory_are_left_out_and_counted(path: Path) -> None:
    records, skipped = read(
        path,
        said("user", "Which port?"),
        item(
            type="function_call", namespace="mcp__mcp-memory__", name="recall", arguments='{"query":"p"}', call_id="c1"
        ),
        output("[r000001 fact 2026-11-20] The port is 8123."),
        item(type="function_call", name="recall", arguments='{"query":"p"}', call_id="c2"),
        item(type="function_call_output", call_id="c2", output="[r000001 fact 2026-11-20] The port is 8123."),
        item(type="function_call", name="recall", arguments='{"question":"p"}', call_id="c3"),
        item(type="function_call_output", call_id="c3", output="Another memory's answer."),
        item(type="ghost_snapshot"),
    )
    assert [each.text for each in records] == ["Which port?", '{"question":"p"}', "Another memory's answer."]
    assert skipped == {"memory's own call": 4, "ghost_snapshot": 1}


CALL = {"id": "c1", "name": "run_shell_command", "args": {"command": "ss"}, "status": "executing"}
GEMINI = {
    "id": "g1",
    "timestamp": "2026-11-20T12:00:00Z",
    "type": "gemini",
    "content": "I look.",
    "thoughts": [{"subject": "Ports", "description": "Look."}],
    "toolCalls": [CALL],
}
ANSWER = [{"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "8123"}}}]


def answered(result: Any = ANSWER, status: str = "success") -> dict[str, Any]:
    return {**GEMINI, "toolCalls": [{**CALL, "result": result, "status": status}]}


def test_a_session_of_gemini_cli_as_lines_that_are_written_again(path: Path) -> None:
    records, skipped = read(
        path,
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-11-20T12:00:00Z", "messages": []},
        {"id": "u0", "type": "user", "content": [{"text": "<session_context>\nToday is Friday.\n</session_context>"}]},
        {"id": "u1", "type": "user", "content": [{"text": "Which port?"}]},
        {**GEMINI, "content": "", "toolCalls": []},
        GEMINI,
        answered(),
        {"$set": {"lastUpdated": "2026-11-20T12:01:00Z"}},
        {"id": "i1", "type": "info", "content": "Update successful!"},
        {"$set": {"messages": [{"id": "u1", "type": "user", "content": [{"text": "Which port?"}]}]}},
        {"$rewindTo": "u1"},
        {"id": "u2", "type": "user", "content": "/quit"},
    )
    assert rows(records) == [
        ("message", "user", "Which port?", None),
        ("message", "assistant", "I look.", None),
        ("tool_call", "assistant", '{"command":"ss"}', "run_shell_command"),
        ("tool_result", "tool", "8123", "run_shell_command"),
    ]
    assert [each.details["message_id"] for each in records] == ["u1", "g1", "c1", "c1/result"]
    assert skipped["met before"] == 3
    assert skipped["client's note"] == 2
    assert skipped["info"] == 1


@pytest.mark.parametrize("indent", [None, 2])
def test_a_session_of_gemini_cli_as_one_value(path: Path, indent: int | None) -> None:
    whole = {"sessionId": "s", "messages": [{"id": "u1", "type": "user", "content": "Which port?"}, answered()]}
    path.write_text(json.dumps(whole, indent=indent), "utf-8")
    assert [each.text for each in read_transcript(path).records] == [
        "Which port?",
        "I look.",
        '{"command":"ss"}',
        "8123",
    ]


@pytest.mark.parametrize(
    ("result", "status", "text", "outcome"),
    [
        ([{"functionResponse": {"response": {"error": "denied"}}}], "error", "denied", "failure"),
        ({"functionResponse": {"response": {"rows": 2}}}, "success", '{"rows": 2}', None),
        ([{"text": "plain"}, 5], "success", "plain\n5", None),
        (ANSWER, "cancelled", "8123", "failure"),
    ],
)
def test_answers_of_geminis_functions(path: Path, result: Any, status: str, text: str, outcome: str | None) -> None:
    records, _ = read(path, answered(result, status))
    assert (records[-1].kind, records[-1].text, records[-1].outcome) == ("tool_result", text, outcome)


def test_a_list_of_contents_of_the_gemini_interface(path: Path) -> None:
    records, _ = read(
        path,
        {
            "history": [
                {
                    "role": "user",
                    "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat."}],
                },
                {"role": "user", "parts": [{"text": "Which port?"}]},
                {
                    "role": "model",
                    "parts": [{"text": "Hm.", "thought": True}, {"functionCall": {"name": "ss", "args": {}}}],
                },
                {"role": "user", "parts": [{"functionResponse": {"name": "ss", "response": {"output": "8123"}}}]},
                {"role": "model", "parts": {"text": "8123."}},
            ]
        },
    )
    assert rows(records) == [
        ("message", "user", "Which port?", None),
        ("tool_call", "assistant", "{}", "ss"),
        ("tool_result", "tool", "8123", "ss"),
        ("message", "assistant", "8123.", None),
    ]


def test_a_transcript_of_cursors_agent(path: Path) -> None:
    query = "<user_info>\nOS: linux\n</user_info>\n<user_query>\nWhich port?\n</user_query>"
    call = {"type": "tool_use", "name": "Shell", "input": {"command": "ss"}}
    records, skipped = read(
        path,
        {"role": "user", "message": {"content": [{"type": "text", "text": query}]}},
        {"role": "assistant", "message": {"content": [{"type": "text", "text": "I look."}, call]}},
        {"role": "user", "message": {"content": [{"type": "tool_result", "content": "8123"}]}},
        {"type": "turn_ended", "status": "success"},
    )
    assert rows(records) == [
        ("message", "user", "Which port?", None),
        ("message", "assistant", "I look.", None),
        ("tool_call", "assistant", '{"command":"ss"}', "Shell"),
        ("tool_result", "tool", "8123", None),
    ]
    assert skipped == {"turn_ended": 1}


def test_a_file_of_messages(path: Path) -> None:
    messages = [
        {"role": "user", "content": "Which port?"},
        {"type": "function_call", "name": "ss", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "8123"},
        {"role": "assistant", "content": "8123."},
    ]
    whole, _ = read(path, messages)
    lines, _ = read(path, *messages)
    assert rows(whole) == rows(lines)
    assert [each.text for each in whole] == ["Which port?", "{}", "8123", "8123."]


def test_control_characters_are_cleaned_in_every_format(path: Path) -> None:
    """D8.2."""
    red, bell = "\x1b[31mred\x1b[0m", "bell\x07"
    for lines in (
        [said("user", red), output(bell)],
        [
            {"id": "u1", "type": "user", "content": red},
            answered([{"functionResponse": {"response": {"output": bell}}}]),
        ],
        [{"role": "user", "parts": [{"text": red}]}, {"role": "model", "parts": [{"text": bell}]}],
        [{"role": "user", "message": {"content": red}}, {"role": "assistant", "message": {"content": bell}}],
        [{"role": "user", "content": red}, {"role": "assistant", "content": bell}],
    ):
        records, skipped = read(path, *lines)
        assert (records[0].text, records[-1].text, skipped) == ("red", "bell", {})
        assert sum(each.cleaned for each in records) == 3


def test_a_part_of_a_file_in_any_format_gets_the_names_of_earlier_calls(path: Path) -> None:
    lines = [said("user", "Go."), item(type="function_call", name="ss", arguments="{}", call_id="c1"), output("8123")]
    read(path, *lines)
    first = read_part(path, 0, 1)
    rest = read_part(path, first.end)
    assert rows([*first.records, *rest.records]) == [
        ("message", "user", "Go.", None),
        ("tool_call", "assistant", "{}", "ss"),
        ("tool_result", "tool", "8123", "ss"),
    ]


@pytest.mark.parametrize("text", ["5", "[]", "[5]", "{", '{"messages": []}', '{"messages": [5]}', '{\n"messages": \n'])
def test_a_file_without_a_message_is_refused(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    with pytest.raises(InvalidRequest, match="holds no message"):
        read_transcript(path)

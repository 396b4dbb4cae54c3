import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from mcp_memory.domain.memory.harness import CLIENTS_NOTE, NO_OUTPUT
from mcp_memory.domain.model.limits import MAX_NAME_CHARS, MAX_TEXT_CHARS
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.conversations.messages import read_messages
from mcp_memory.errors import InvalidRequest

PNG = "iVBORw0KGgo" * 50


def shown(records: list[NewRecord]) -> list[tuple[str, str | None, str]]:
    return [(record.kind, record.role, record.text) for record in records]


def refusal(message: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read_messages([{"role": "user", "content": "fine"}, message])
    return str(caught.value)


def test_plain_messages_become_records_in_their_order() -> None:
    records = read_messages(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "text": "Which port?\n", "pinned": True, "name": "Ann"},
            {"role": "Assistant", "content": "8123"},
        ]
    )
    assert shown(records) == [
        ("message", "system", "Be brief."),
        ("message", "user", "Which port?\n"),
        ("message", "assistant", "8123"),
    ]
    assert [record.pinned for record in records] == [False, True, False]
    assert [record.speaker for record in records] == [None, "Ann", None]


def test_calls_and_results_of_anthropic_messages_keep_their_ids_and_tools() -> None:
    records = read_messages(
        [
            {
                "role": "assistant",
                "id": "msg_1",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "abc"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a/ü.py", "n": 1}},
                    {"type": "tool_use", "id": "toolu_2", "name": "Stop", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x = 1"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "is_error": True,
                        "content": [
                            {"type": "text", "text": "Denied."},
                            {"type": "image", "source": {"type": "base64", "data": PNG}},
                        ],
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
        ]
    )
    assert shown(records) == [
        ("message", "assistant", "Let me look."),
        ("tool_call", "assistant", '{"path":"a/ü.py","n":1}'),
        ("tool_call", "assistant", "{}"),
        ("tool_result", "tool", "x = 1"),
        ("tool_result", "tool", "Denied.\n[image]"),
        ("message", "user", "Go on."),
    ]
    assert [(record.tool, record.call_id, record.outcome) for record in records[1:5]] == [
        ("Read", "toolu_1", None),
        ("Stop", "toolu_2", None),
        ("Read", "toolu_1", None),
        ("Stop", "toolu_2", "failure"),
    ]
    assert [record.details.get("message_id") for record in records[:4]] == ["msg_1", "msg_1/2", "msg_1/3", None]


def test_calls_and_results_of_openai_chat_keep_their_ids_and_tools() -> None:
    records = read_messages(
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url", "image_url": PNG}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"at": "Rome"}'},
                    },
                    {"id": "call_2", "function": {"name": "clock", "arguments": {"zone": 1}}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "noon"}], "id": "m7"},
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
            {"role": "assistant", "content": "", "function_call": {"name": "weather", "arguments": ""}},
            {"role": "function", "name": "weather", "content": "sun"},
            {"role": "assistant", "refusal": "I will not."},
        ]
    )
    assert shown(records) == [
        ("message", "user", "Weather?\n[image]"),
        ("tool_call", "assistant", '{"at": "Rome"}'),
        ("tool_call", "assistant", '{"zone":1}'),
        ("tool_result", "tool", "noon"),
        ("tool_result", "tool", NO_OUTPUT),
        ("tool_call", "assistant", "{}"),
        ("tool_result", "tool", "sun"),
        ("message", "assistant", "I will not."),
    ]
    assert [(record.tool, record.call_id) for record in records[1:7]] == [
        ("weather", "call_1"),
        ("clock", "call_2"),
        ("clock", "call_2"),
        ("weather", "call_1"),
        ("weather", None),
        ("weather", None),
    ]
    assert records[3].details == {"message_id": "m7"}


def test_examples_in_front_of_the_task_are_no_work() -> None:
    records = read_messages(
        [
            {"role": "user", "content": "Mend a.py.", "is_demo": True},
            {"role": "system", "name": "example_assistant", "content": "Mended."},
            {"role": "user", "name": "eva", "content": "Mend b.py."},
        ]
    )
    assert shown(records) == [
        ("message", "tool", CLIENTS_NOTE),
        ("message", "tool", CLIENTS_NOTE),
        ("message", "user", "Mend b.py."),
    ]


def test_the_body_of_a_skill_behind_its_result_is_the_clients() -> None:
    call: JsonValue = {"type": "tool_use", "id": "t1", "name": "Skill", "input": {"skill": "deploy"}}
    result: JsonValue = {"type": "tool_result", "tool_use_id": "t1", "content": "Launching skill: deploy"}
    body: JsonValue = {"type": "text", "text": "Base directory for this skill: /x\n\nNever deploy on a Friday."}
    own: JsonValue = {"type": "text", "text": "Only on Mondays."}
    records = read_messages(
        [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, body]},
            {"role": "user", "content": [result, body, own]},
            {"role": "user", "content": [result, own]},
        ]
    )
    assert [each for each in shown(records) if each[0] == "message"] == [
        ("message", "tool", CLIENTS_NOTE),
        ("message", "user", "Only on Mondays."),
        ("message", "user", "Only on Mondays."),
    ]


def test_items_of_openai_responses_are_read_as_well() -> None:
    records = read_messages(
        [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Run it."}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "run", "arguments": '{"n":1}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "done"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "ports"}},
            {"type": "mcp_call", "id": "mcp_1", "name": "ask", "arguments": "{}", "output": None, "error": "gone"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Done."}, {"type": "refusal", "refusal": "No more."}],
            },
        ]
    )
    assert shown(records) == [
        ("message", "user", "Run it."),
        ("tool_call", "assistant", '{"n":1}'),
        ("tool_result", "tool", "done"),
        ("tool_call", "assistant", '{"query":"ports"}'),
        ("tool_call", "assistant", "{}"),
        ("tool_result", "tool", "gone"),
        ("message", "assistant", "Done.\nNo more."),
    ]
    assert [(record.tool, record.call_id, record.outcome) for record in records[1:6]] == [
        ("run", "call_1", None),
        ("run", "call_1", None),
        ("web_search", "ws_1", None),
        ("ask", "mcp_1", None),
        ("ask", "mcp_1", "failure"),
    ]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"type": "file_search_call", "queries": ["ports"], "results": [{"text": "8123"}]}, ['["ports"]', "8123"]),
        ({"type": "code_interpreter_call", "code": "1 + 1", "outputs": None}, ["1 + 1"]),
        ({"type": "apply_patch_call", "operation": {"path": "a.py"}}, ['{"path":"a.py"}']),
        ({"type": "advisor_tool_result", "tool_use_id": "s1", "content": "Wait."}, ["Wait."]),
        ({"type": "reasoning", "summary": []}, []),
    ],
)
def test_an_item_of_a_known_type_is_kept_with_what_was_asked_and_answered(item: Any, said: list[str]) -> None:
    """P3.1."""
    assert [record.text for record in read_messages([item])] == said


def test_bytes_are_named_and_never_kept() -> None:
    parts: list[Any] = [
        {"type": "document", "title": "Plan.pdf", "source": {"type": "base64", "data": PNG}},
        {"type": "input_audio", "input_audio": {"data": PNG}},
        {"type": "file", "filename": "a.txt", "file": {"file_data": PNG}},
        {
            "type": "search_result",
            "source": "https://example.org",
            "content": [{"text": "found"}],
            "preview": f"data:{PNG}",
        },
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": {"type": "web_search_tool_result_error"}},
        {
            "type": "tool_result",
            "tool_use_id": "s2",
            "content": [{"type": "odd", "encrypted_content": PNG, "n": [1.5]}],
        },
        {"type": "tool_result", "tool_use_id": "s3", "content": 7},
    ]
    records = read_messages([{"role": "user", "content": parts}])
    assert [record.text for record in records] == [  # what answers calls comes first
        '{"type":"odd","n":[1.5]}',
        "7",
        "[document: Plan.pdf]\n[audio]\n[file: a.txt]",
        "https://example.org\nfound",
        '{"type":"web_search_tool_result_error"}',
    ]
    assert records[4].outcome == "failure"


def test_what_is_empty_is_left_out() -> None:
    empty: list[Any] = [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": [{"type": "text", "text": " \n"}, {"type": "redacted_thinking", "data": "x"}]},
        {"role": "user", "content": []},
        {"role": "user"},
    ]
    assert read_messages(empty) == []


@pytest.mark.parametrize(
    "given_time",
    [
        "2026-11-20T12:00:00Z",
        "2026-11-20T13:00:00.000+01:00",
        "2026-11-20 12:00",
        1_795_176_000,
        1_795_176_000.0,
        1_795_176_000_000,
    ],
)
def test_a_time_is_read_from_a_text_or_from_seconds_or_milliseconds(given_time: str | float) -> None:
    for name in ("timestamp", "created_at"):
        [record] = read_messages([{"role": "user", "content": "now", name: given_time}])
        assert record.occurred_at == 1_795_176_000


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"content": "x"}, "messages[1] has no role. Each message is {role: system|user|assistant|tool, content:"),
        ({"type": "message", "content": "x"}, "messages[1] has no role."),
        ({"role": "secret", "content": "x"}, "messages[1] has an unknown role."),
        ({"role": 5, "content": "x"}, "messages[1] has an unknown role."),
        (
            {"type": "telepathy_call", "call_id": "c", "thought": "secret"},
            "messages[1] has no role, and 'telepathy_call' is no known type of item. Each message is",
        ),
        ({"type": "telepathy_call_output", "output": "secret"}, "messages[1] has no role, and 'telepathy_call_output'"),
        ({"type": "telepathy_tool_result", "seen": "secret"}, "messages[1] has no role, and 'telepathy_tool_result'"),
        ({"type": "t" * 90, "say": "secret"}, f"messages[1] has no role, and {'t' * 40!r} is no known type of item."),
        (
            {"role": "assistant", "content": ["x", {"type": "telepathy_tool_use", "thought": "secret"}]},
            "messages[1].content[1] is of the unknown type 'telepathy_tool_use'.",
        ),
        ({"role": "user", "content": 5}, "messages[1] has a content that is neither a text nor a list of parts."),
        ({"role": "user", "content": ["x", 5]}, "messages[1].content[1] must be a text or an object with a type."),
        ({"role": "assistant", "tool_calls": "secret"}, "messages[1].tool_calls must be a list of {id, function:"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[1].tool_calls[0] must be {id, function:"),
        ({"role": "assistant", "tool_calls": [5]}, "messages[1].tool_calls[0] must be {id, function:"),
        (
            {"role": "user", "content": "x", "timestamp": "secret"},
            "messages[1] has a time that is neither an ISO 8601 text",
        ),
        ({"role": "user", "content": "x", "timestamp": True}, "messages[1] has a time"),
        ({"role": "user", "content": "x", "created_at": "0001-01-01T00:00+14:00"}, "messages[1] has a time"),
        ({"role": "user", "content": "x", "created_at": 10**400}, "messages[1] has a time"),
        (
            {"role": "user", "content": "x" * (MAX_TEXT_CHARS + 1)},
            "messages[1] is too long: at most 1000000 characters",
        ),
        ({"role": "user", "content": "x", "id": "x" * (MAX_NAME_CHARS + 1)}, "messages[1] has a name or an id of more"),
    ],
)
def test_a_message_that_cannot_be_read_is_named_with_what_is_expected(message: Any, says: str) -> None:
    """S3.1."""
    said = refusal(message)
    assert said.startswith(says)
    assert "secret" not in said
    assert len(said) <= 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FIELDS = [
    *("type", "role", "content", "text", "tool_calls", "function_call", "id", "uuid", "name", "input", "arguments"),
    *("output", "error", "is_error", "tool_use_id", "call_id", "timestamp", "function", "refusal", "pinned"),
]
VALUES = st.sampled_from(
    ["user", "assistant", "tool", "text", "tool_use", "tool_result", "function_call", "function_call_output", "image"]
)
JUNK = st.recursive(
    JSON | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JUNK | VALUES, max_size=8), max_size=3))
def test_whatever_is_sent_is_read_or_refused_in_a_sentence(messages: list[Any]) -> None:
    """S3.1."""
    try:
        records = read_messages(messages)
    except InvalidRequest as error:
        records, said = [], str(error)
    else:
        said = "messages["
    assert said.startswith("messages[")
    assert all(record.text.strip() for record in records)
    assert {record.kind for record in records} <= {"message", "tool_call", "tool_result"}


IDS = st.text(min_size=1, max_size=9, alphabet="abc_1")


@given(st.dictionaries(IDS, st.tuples(IDS, JSON, st.text(max_size=20)), max_size=5), st.booleans())
def test_every_result_carries_the_id_and_the_tool_of_its_call(
    calls: dict[str, tuple[str, Any, str]], is_openai: bool
) -> None:
    messages: list[Any] = []
    for call_id, (tool, arguments, output) in calls.items():
        if is_openai:
            call = {"id": call_id, "function": {"name": tool, "arguments": json.dumps(arguments)}}
            messages.append({"role": "assistant", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
        else:
            call = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
            messages.append({"role": "assistant", "content": [call]})
            messages.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": output}]}
            )
    pairs = [(record.kind, record.call_id, record.tool) for record in read_messages(messages)]
    expected = [(kind, call_id, calls[call_id][0]) for call_id in calls for kind in ("tool_call", "tool_result")]
    assert pairs == expected

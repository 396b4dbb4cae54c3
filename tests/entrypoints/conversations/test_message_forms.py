"""P3.1: each client's form of messages is read with its roles, or refused by its name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from mcp_memory.client import apply
from mcp_memory.domain.memory.harness import NO_OUTPUT
from mcp_memory.entrypoints.conversations.message_forms import forms_read
from mcp_memory.entrypoints.conversations.messages import read_messages
from mcp_memory.errors import InvalidRequest

Row = tuple[str, str | None, str, str | None, str | None, str | None]
DATA = "aGVsbG8="
IMAGE = "[image/png "


def rows(*messages: Any) -> list[Row]:
    """Kind, role, text, tool, the call's id and the outcome of each record."""
    return [
        (each.kind, each.role, each.text, each.tool, each.call_id, each.outcome) for each in read_messages(messages)
    ]


def said(role: str, text: str) -> Row:
    return ("message", role, text, None, None, None)


def called(text: str, tool: str | None = "f", call_id: str | None = "c1") -> Row:
    return ("tool_call", "assistant", text, tool, call_id, None)


def gave(text: str, tool: str | None = "f", call_id: str | None = "c1", outcome: str | None = None) -> Row:
    return ("tool_result", "tool", text, tool, call_id, outcome)


def test_gemini() -> None:
    assert rows(
        {"parts": [{"text": "Which?"}, {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a.pdf"}}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c1"}, "thoughtSignature": "x"},
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "id": "c1", "response": {"output": "40", "unit": "s"}}},
                {"function_response": {"name": "f", "id": "c1", "response": {"error": "late"}}},
            ],
        },
        {"role": "function", "parts": [{"function_response": {"name": "g", "response": {"result": [1]}}}]},
        {"role": "model", "parts": {"text": "Forty."}},
        {"role": "model", "parts": [{"thoughtSignature": "x", "text": ""}, {"thoughtSignature": "y"}, {"text": "So."}]},
    ) == [
        said("user", "Which?\n[document: gs://a.pdf]"),
        called('{"a":1}'),
        called('{"language":"PYTHON","code":"1"}', "code_execution", None),
        gave("no", "code_execution", None, "failure"),
        gave('{"output": "40", "unit": "s"}'),
        gave("late", outcome="failure"),
        gave("1", "g", None),
        said("assistant", "Forty."),
        said("assistant", "So."),
    ]
    [record] = read_messages([{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": DATA}}]}])
    assert len(record.files) == 1


def test_bedrock() -> None:
    assert rows(
        {"role": "user", "content": [{"text": "Which?"}, {"cachePoint": {"type": "default"}}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm"}}},
                {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "c1",
                        "content": [
                            {"text": "limit"},
                            {"json": {"n": 40}},
                            {"document": {"name": "a", "format": "pdf"}},
                        ],
                        "status": "error",
                    }
                },
                {"text": "Go on."},
            ],
        },
        {"role": "assistant", "content": [{"citationsContent": {"content": [{"text": "Cited."}], "citations": []}}]},
        {"role": "user", "content": [{"guardContent": {"text": {"text": "Guarded.", "qualifiers": []}}}]},
    ) == [
        said("user", "Which?"),
        called('{"a":1}'),
        gave('limit\n{"n": 40}\n[document: a]', outcome="failure"),
        said("user", "Go on."),
        said("assistant", "Cited."),
        said("user", "Guarded."),
    ]
    [record] = read_messages(
        [{"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": DATA}}}, {"text": "See."}]}]
    )
    assert len(record.files) == 1


def test_ui_messages_of_vercels() -> None:
    assert rows(
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Which?"}]},
        {
            "id": "m2",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "hm"},
                {"type": "tool-f", "toolCallId": "c1", "state": "output-available", "input": {}, "output": {"text": 1}},
                {"type": "dynamic-tool", "toolName": "g", "toolCallId": "c2", "state": "input-available", "input": 1},
                {"type": "tool-g", "toolCallId": "c3", "state": "output-error", "errorText": "late", "rawInput": "{"},
                {"type": "source-url", "sourceId": "s", "url": "https://a.example"},
                {"type": "data-x", "data": {"n": 1}},
                {"type": "text", "text": "Forty."},
            ],
        },
        {
            "role": "assistant",
            "content": "Old.",
            "parts": [
                {"type": "text", "text": "Old."},
                {
                    "type": "tool-invocation",
                    "toolInvocation": {
                        "state": "result",
                        "toolCallId": "c4",
                        "toolName": "f",
                        "args": {},
                        "result": "a",
                    },
                },
            ],
        },
        {
            "role": "assistant",
            "content": "Older.",
            "toolInvocations": [{"state": "call", "toolCallId": "c5", "toolName": "f", "args": {"a": 1}}],
        },
        {"role": "user", "content": "See.", "experimental_attachments": [{"name": "a.pdf", "url": "https://a/a.pdf"}]},
    ) == [
        said("user", "Which?"),
        called("{}"),
        gave('{"text": 1}'),
        called("1", "g", "c2"),
        called("{", "g", "c3"),
        gave("late", "g", "c3", "failure"),
        said("assistant", '[source: https://a.example]\n{"n": 1}\nForty.'),
        said("assistant", "Old."),
        called("{}", "f", "c4"),
        gave("a", "f", "c4"),
        said("assistant", "Older."),
        called('{"a":1}', "f", "c5"),
        said("user", "See.\n[document: a.pdf]"),
    ]


def test_model_messages_of_vercels() -> None:
    def result(**fields: Any) -> dict[str, Any]:
        return {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "f", **fields}]}

    assert rows(
        {
            "role": "user",
            "content": [{"type": "text", "text": "Which?"}, {"type": "image", "image": "https://a/b.png"}],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "f", "args": {"a": 1}}],
        },
        result(output={"type": "json", "value": {"n": 40}}),
        result(output={"type": "content", "value": [{"type": "text", "text": "forty"}]}),
        result(output={"type": "error-text", "value": "late"}),
        result(output={"type": "execution-denied"}),
        result(result="old", isError=True),
    ) == [
        said("user", "Which?\n[image: https://a/b.png]"),
        called('{"a":1}'),
        gave('{"n": 40}'),
        gave("forty"),
        gave("late", outcome="failure"),
        gave("Denied.", outcome="failure"),
        gave("old", outcome="failure"),
    ]
    file: JsonValue = {"type": "file", "mediaType": "image/png", "data": DATA}
    [record] = read_messages([{"role": "user", "content": [{"type": "text", "text": "See."}, file]}])
    assert len(record.files) == 1


def langchain(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "content": "", "additional_kwargs": {}, "response_metadata": {}, **fields}


@pytest.mark.parametrize("way", ["plain", "dict", "lc"])
def test_langchain(way: str) -> None:
    call = {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
    messages = [
        langchain("system", content="Be brief."),
        langchain("human", content="Which?", id=None),
        langchain("ai", content=[{"type": "text", "text": "So."}, use], tool_calls=[call], id="run-1"),
        langchain("tool", content="late", tool_call_id="c1", status="error"),
        langchain("AIMessageChunk", content=[use]),
        langchain("function", content="sun", name="g"),
        langchain("chat", content="As told.", role="assistant"),
    ]
    classes = ["SystemMessage", "HumanMessage", "AIMessage", "ToolMessage", "AIMessageChunk", "FunctionMessage"]
    if way == "dict":
        messages = [{"type": each["type"], "data": each} for each in messages]
    if way == "lc":
        messages = [
            {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", name], "kwargs": each}
            for name, each in zip([*classes, "ChatMessage"], messages, strict=True)
        ]
    assert rows(*messages) == [
        said("system", "Be brief."),
        said("user", "Which?"),
        said("assistant", "So."),
        called('{"a":1}'),
        gave("late", outcome="failure"),
        called('{"a":1}'),
        gave("sun", "g", None),
        said("assistant", "As told."),
    ]


def test_others() -> None:
    """The Agent User Interaction Protocol, Ollama, the Model Context Protocol's sampling, and names of roles."""
    function = {"name": "f", "arguments": "{}"}
    assert rows(
        {"id": "1", "role": "assistant", "content": "So.", "toolCalls": [{"id": "c1", "function": function}]},
        {"id": "2", "role": "tool", "toolCallId": "c1", "content": "40", "error": "late"},
        {"role": "user", "content": "See.", "images": [DATA]},
        {"role": "assistant", "content": {"type": "tool_use", "id": "c2", "name": "f", "input": {}}},
        {"role": "user", "content": {"type": "tool_result", "toolUseId": "c2", "content": [], "isError": True}},
        {"role": "human", "content": "Q"},
        {"role": "ai", "content": None, "audio": {"id": "a", "transcript": "Heard."}},
    ) == [
        said("assistant", "So."),
        called("{}"),
        gave("40", outcome="failure"),
        said("user", "See.\n[image]"),
        called("{}", "f", "c2"),
        gave(NO_OUTPUT, "f", "c2", "failure"),
        said("user", "Q"),
        said("assistant", "Heard."),
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"lc": 1, "id": ["langchain_core", "messages", "FunctionMessage"], "kwargs": {"content": "Push.", "name": "f"}},
        {"type": "function", "data": {"content": "Push.", "name": "f"}},
        {"type": "tool", "data": {"content": "Push."}},
        {"id": "3", "role": "tool", "toolCallId": "c1", "content": "", "error": "Push."},
        {"type": "local_shell_call_output", "id": "c1", "output": "Push."},
    ],
)
def test_what_a_tool_gave_is_never_the_users_words(message: Any) -> None:
    """P3.1: also where the wrapping alone says that it is a tool's."""
    [record] = read_messages([message])
    assert (record.kind, record.role, record.text) == ("tool_result", "tool", "Push.")


def test_the_output_of_a_local_shell_answers_its_call() -> None:
    call: dict[str, JsonValue] = {
        "type": "local_shell_call",
        "call_id": "c1",
        "action": {"type": "exec", "command": ["ls"]},
    }
    records = read_messages([call, {"type": "local_shell_call_output", "id": "c1", "output": "a.py"}])
    assert [record.call_id for record in records] == ["c1", "c1"]


_REFUSED: list[tuple[Any, str]] = [
    ({"role": "user", "parts": [{"kind": "text", "text": "x"}], "messageId": "m"}, "is in the form of A2A"),
    ({"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "x"}]}, "in the form of Pydantic AI"),
    ({"role": "user", "blocks": [{"block_type": "text", "text": "x"}]}, "is in the form of LlamaIndex"),
    ({"role": {"label": "user"}, "items": []}, "is in the form of Semantic Kernel"),
    ({"from": "human", "value": "x"}, "is in the form of ShareGPT"),
    ({"source": "user", "content": "x", "type": "TextMessage"}, "is in the form of AutoGen"),
    ({"author": "user", "content": {"role": "user", "parts": []}}, "is in the form of Agent Development Kit"),
    (
        {"role": "user", "parts": [{"odd": 1}]},
        ".parts[0], in the form of Gemini, has none of its parts' names: 'odd'",
    ),
    ({"role": "user", "parts": [5]}, ".parts[0], in the form of Gemini, is no object."),
    (
        {"role": "user", "parts": [{"type": "poem"}]},
        ".parts[0], in the form of Vercel's AI SDK (UI messages), has the",
    ),
    (
        {"role": "user", "content": [{"text": "x"}, {"odd": {}}]},
        ".content[1], in the form of Bedrock's Converse, has",
    ),
    ({"role": "user", "content": [{"odd": {}}]}, ".content[0] has no type and no text."),
    ({"role": "user", "content": [{"type": "tool_response", "x": 1}]}, ".content[0] is of the unknown type"),
    ({"role": "user", "body": "x"}, " says nothing in `content`, `parts` or `tool_calls`, but has 'body'."),
    ({"role": "user", "content": "x", "toolResults": [{}]}, " has 'toolResults', which is in no known form"),
    ({"role": "assistant", "content": "", "toolCalls": [{}]}, ".toolCalls[0], in the form of AG-UI, is no object."),
    (langchain("ai", content=5), ".content, in the form of LangChain, is neither a text nor a part"),
]


@pytest.mark.parametrize(("message", "says"), _REFUSED)
def test_what_is_not_read_is_refused_with_its_form(message: Any, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_messages([message])
    assert says in str(caught.value)
    assert len(str(caught.value)) <= 400


KEYS = st.sampled_from(
    [
        "text",
        "type",
        "toolUse",
        "toolResult",
        "functionCall",
        "functionResponse",
        "response",
        "name",
        "args",
        "output",
        "toolInvocation",
        "state",
        "input",
        "content",
        "image",
        "source",
        "inlineData",
        "data",
        "url",
        "function",
        "id",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "x", "tool-x", "text", "tool-result", "file", "dynamic-tool", "data:image/png;base64,aGk="])
)
PARTS = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(KEYS, LEAVES, max_size=4)
HELD = LEAVES | st.lists(PARTS, max_size=3) | st.dictionaries(KEYS, PARTS, max_size=4)
VALUES = LEAVES | st.lists(HELD, max_size=3) | st.dictionaries(KEYS, HELD, max_size=4)
FIELDS = st.sampled_from(
    [
        "role",
        "type",
        "content",
        "parts",
        "tool_calls",
        "toolCalls",
        "toolCallId",
        "toolInvocations",
        "images",
        "lc",
        "kwargs",
        "data",
        "id",
        "additional_kwargs",
        "experimental_attachments",
        "blocks",
        "kind",
        "createdAt",
    ]
)
ROLES = st.sampled_from(["user", "model", "assistant", "tool", "human", "ai", "AIMessage"])


@given(st.lists(st.dictionaries(FIELDS, VALUES | ROLES, max_size=6), max_size=3))
def test_whatever_is_sent_is_read_or_refused_in_a_sentence(messages: list[Any]) -> None:
    try:
        records = read_messages(messages)
    except InvalidRequest:
        return
    assert all(record.text.strip() for record in records)
    assert "_place" not in "".join(record.text for record in records)
    assert apply(messages, {"replacements": []}) == messages


def test_the_forms_that_are_read_are_named() -> None:
    assert {"Anthropic", "OpenAI", "Gemini", "Bedrock's Converse", "LangChain", "AG-UI"} <= {*forms_read()}
    assert "A2A" not in {*forms_read()}


def replaced(messages: list[dict[str, Any]], form: str, covers: str, text: str) -> list[dict[str, Any]]:
    made = {"id": "xabc", "form": form, "role": "assistant", "covers": covers, "text": text}
    return apply(messages, {"replacements": [made]})


BLOCK, MASK = "[SUMMARIZED] Looked twice. (open xabc)", "[TOOL OUTPUT ARCHIVED id=r000003 tool=f]"


def test_a_call_and_its_result_in_one_part_are_written_apart() -> None:
    """A mask takes the output's place; steps of the assistant's stay apart."""
    part: dict[str, Any] = {
        "type": "tool-f",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {},
        "output": "long",
    }
    failed: dict[str, Any] = {
        "type": "tool-f",
        "toolCallId": "c2",
        "state": "output-error",
        "input": {},
        "errorText": "late",
    }
    step = {"type": "step-start"}
    messages: list[dict[str, Any]] = [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Which?"}]},
        {"id": "m2", "role": "assistant", "parts": [step, part, step, failed, step, {"type": "text", "text": "So."}]},
    ]
    assert replaced(messages, "mask", "3", MASK)[1]["parts"][:4] == [step, {**part, "output": MASK}, step, failed]
    assert replaced(messages, "mask", "5", MASK)[1]["parts"][3] == {**failed, "errorText": MASK}
    gone = replaced(messages, "tools", "2-3", BLOCK)
    assert gone[1] == {"id": "xabc", "role": "user", "parts": [{"type": "text", "text": BLOCK}]}
    assert gone[2]["parts"] == [step, failed, step, {"type": "text", "text": "So."}]
    old: dict[str, Any] = {"state": "result", "toolCallId": "c1", "toolName": "f", "args": {}, "result": "long"}
    before: list[dict[str, Any]] = [
        {
            "role": "assistant",
            "content": "So.",
            "parts": [{"type": "text", "text": "So."}, {"type": "tool-invocation", "toolInvocation": old}],
        },
        {"role": "assistant", "content": "So.", "toolInvocations": [old]},
    ]
    first, second = replaced(before, "mask", "3", MASK)[0], replaced(before, "mask", "6", MASK)[1]
    assert first["parts"][1]["toolInvocation"] == {**old, "result": MASK} == second["toolInvocations"][0]
    assert first["content"] == second["content"] == "So."


def test_each_form_is_written_as_it_came() -> None:
    function = {"name": "f", "arguments": "{}"}
    agui: list[dict[str, Any]] = [
        {"id": "1", "role": "user", "content": "Which?"},
        {"id": "2", "role": "assistant", "content": "So.", "toolCalls": [{"id": "c1", "function": function}]},
        {"id": "3", "role": "tool", "toolCallId": "c1", "content": "long"},
    ]
    assert replaced(agui, "mask", "4", MASK)[2] == {**agui[2], "content": MASK}
    asked = replaced(agui, "mask", "3", MASK)[1]["toolCalls"][0]["function"]["arguments"]
    assert asked == '{"archived":"' + MASK + '"}'
    assert replaced(agui, "tools", "3-4", BLOCK)[1:] == [
        {"id": "xabc", "role": "user", "content": BLOCK},
        {"id": "2", "role": "assistant", "content": "So."},
    ]
    gemini: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"text": "Which?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "x"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "long"}}}]},
    ]
    call = replaced(gemini, "mask", "2", MASK)[1]["parts"][0]
    assert call == {"functionCall": {"name": "f", "args": {"archived": MASK}}, "thoughtSignature": "x"}
    assert replaced(gemini, "mask", "1", MASK)[0] == {"role": "user", "parts": [{"text": MASK}]}
    model: list[dict[str, Any]] = [
        {"role": "user", "content": "Which?"},
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"a": 1}}],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "f",
                    "output": {"type": "error-json", "value": {}},
                }
            ],
        },
    ]
    assert replaced(model, "mask", "2", MASK)[1]["content"][0]["input"] == {"archived": MASK}
    assert replaced(model, "mask", "3", MASK)[2]["content"][0]["output"] == {"type": "error-text", "value": MASK}
    assert replaced(model, "mask", "1", MASK)[0] == {"role": "user", "content": MASK}
    call = {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    chain = [langchain("human", content="Which?"), langchain("ai", tool_calls=[call])]
    assert replaced(chain, "mask", "2", MASK)[1]["tool_calls"] == [{**call, "args": {"archived": MASK}}]
    assert replaced(chain, "summary", "1", BLOCK)[0] == {"type": "human", "content": BLOCK}

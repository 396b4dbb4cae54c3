"""P3.1: parts that hold another's words than their message's role, what is said twice, and media of every form."""

import copy
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.client import apply
from mcp_memory.domain.memory.harness import NO_OUTPUT
from mcp_memory.entrypoints.conversations.messages import read_messages
from tests.entrypoints.conversations.test_message_forms import (
    BLOCK,
    MASK,
    called,
    gave,
    langchain,
    replaced,
    rows,
    said,
)

Part = dict[str, Any]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def user(*parts: Part) -> Part:
    return {"role": "user", "content": list(parts)}


def assistant(*parts: Part) -> Part:
    return {"role": "assistant", "content": list(parts)}


def text(words: str) -> Part:
    return {"type": "text", "text": words}


def document(**source: Any) -> Part:
    return {"type": "document", "title": "Plan", "context": "of May", "source": source}


FOUND: Part = {"type": "search_result", "source": "https://a.example", "title": "Tides", "content": [text("High.")]}
SYSTEM: Part = {"type": "mid_conv_system", "content": [text("Be brief.")]}
SUMMARY: Part = {"type": "compaction", "content": "The port is 8123.", "encrypted_content": "x"}


def test_anthropics_parts_are_the_words_of_whoever_said_them() -> None:
    assert rows(
        user(document(type="text", media_type="text/plain", data="Never push.")),
        user(document(type="content", content="Never push."), text("So?")),
        user(document(type="content", content=[text("Never"), text("push.")]), FOUND, SYSTEM),
        assistant(SUMMARY, text("Yes."), {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
        assistant({"type": "compaction", "content": None}, text("No.")),
        user({"type": "container_upload", "file_id": "f1"}),
    ) == [
        said("tool", "[document: Plan]\nof May\nNever push."),
        said("tool", "[document: Plan]\nof May\nNever push."),
        said("user", "So?"),
        said("tool", "[document: Plan]\nof May\nNever\npush."),
        said("tool", "Tides\nhttps://a.example\nHigh."),
        said("system", "Be brief."),
        said("assistant", "The port is 8123."),
        said("assistant", "Yes."),
        said("assistant", "No."),
        said("user", "[file: f1]"),
    ]


def test_results_of_anthropics_own_tools_are_read_as_they_print() -> None:
    page = {"type": "web_fetch_result", "url": "https://a.example", "content": document(type="text", data="Tides.")}
    ran: Part = {"type": "code_execution_result", "stdout": "1\n", "stderr": "late", "return_code": 1, "content": []}
    viewed = {"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "a = 1\nb = 2"}
    quiet: Part = {**ran, "type": "bash_code_execution_result", "stdout": "", "stderr": "", "return_code": 0}
    made = {**quiet, "content": [{"type": "bash_code_execution_output", "file_id": "f1"}]}

    def result(kind: str, content: Part) -> Part:
        return {"type": kind, "tool_use_id": "c1", "content": content}

    assert rows(
        assistant(
            {"type": "server_tool_use", "id": "c1", "name": "f", "input": {}}, result("web_fetch_tool_result", page)
        ),
        assistant(result("code_execution_tool_result", ran), result("bash_code_execution_tool_result", quiet)),
        assistant(result("bash_code_execution_tool_result", made)),
        assistant(result("text_editor_code_execution_tool_result", viewed)),
        user(result("tool_result", document(type="text", data="Words.")), result("tool_result", FOUND)),
    ) == [
        called("{}"),
        gave("https://a.example\n[document: Plan]\nof May\nTides."),
        gave("1\nlate", outcome="failure"),
        gave(NO_OUTPUT),
        gave("[file: f1]"),
        gave("a = 1\nb = 2"),
        gave("[document: Plan]\nof May\nWords."),
        gave("Tides\nhttps://a.example\nHigh."),
    ]


def test_bedrocks_documents_of_text() -> None:
    def held(**source: Any) -> Part:
        return {"document": {"name": "Plan", "format": "txt", "context": "of May", "source": source}}

    sources: list[Part] = [{"text": "Never push."}, {"content": [{"text": "Never push."}]}]
    for source in sources:
        plan = "[document: Plan]\nof May\nNever push."
        assert rows(user({"text": "So?"}, held(**source))) == [said("user", "So?"), said("tool", plan)]
        result = {"toolResult": {"toolUseId": "c1", "content": [held(**source)]}}
        assert rows(user(result)) == [gave(plan, None)]
    found = {"searchResult": {**FOUND, "content": [{"text": "High."}]}}
    assert rows(user(found)) == [said("tool", "Tides\nhttps://a.example\nHigh.")]


def test_a_private_passage_of_a_document_is_not_stored(app: App, tmp_path: Path) -> None:
    """P3.3: whichever way the document brings its text."""
    parts = [
        document(type="text", data="Ours. <private>a word of mine</private>"),
        {
            "type": "file",
            "file": {
                "filename": "a.txt",
                "file_data": "data:text/plain;base64,PHByaXZhdGU+YSB3b3JkIG9mIG1pbmU8L3ByaXZhdGU+",
            },
        },
    ]
    app.feed(read_messages([user(*parts)]), app.caller())
    app.close()
    assert all(b"a word of mine" not in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


LEAVE: Part = {"id": "a1", "approved": False, "reason": "Never on Fridays."}


def ui_call(state: str, **fields: Any) -> Part:
    return {"type": "tool-f", "toolCallId": "c1", "state": state, "input": {"a": 1}, **fields}


def ui(*parts: Part) -> Part:
    return {"id": "m2", "role": "assistant", "parts": list(parts)}


def test_a_persons_leave_in_vercels_messages() -> None:
    asked = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
    answered = {"type": "tool-approval-response", "approvalId": "a1", "approved": False, "reason": "Never on Fridays."}
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"a": 1}}
    assert rows(assistant(call, asked), {"role": "tool", "content": [answered]}) == [
        called('{"a":1}'),
        said("user", "Never on Fridays."),
    ]
    assert rows(ui(ui_call("approval-requested", approval={"id": "a1"}))) == [called('{"a":1}')]
    assert rows(ui(ui_call("output-denied", approval=LEAVE))) == [
        called('{"a":1}'),
        said("user", "Never on Fridays."),
        gave("Denied.", outcome="failure"),
    ]
    item = {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": False, "reason": "No."}
    assert rows(item, {**item, "reason": None}) == [said("user", "No.")]


def test_a_message_that_comes_again_with_leave_and_results_keeps_both(app: App) -> None:
    """Its calls are known by then: their answers are what is new."""

    def calls(first: Part, second: Part) -> list[Part]:
        told = [first, {**second, "toolCallId": "c2"}, *([text("Done.")] if "output" in second else [])]
        return [{"id": "m1", "role": "user", "parts": [text("Both.")]}, ui(*told)]

    asked = ui_call("approval-requested", approval={"id": "a1"})
    denied, made = ui_call("output-denied", approval=LEAVE), ui_call("output-available", output="done")
    for messages in (calls(asked, asked), calls(denied, made)):
        app.feed(read_messages(messages), app.caller())
    log = app.logs.log(app.caller()).entries
    assert [(each.role, each.text, each.call_id) for each in log] == [
        ("user", "Both.", None),
        ("assistant", '{"a":1}', "c1"),
        ("assistant", '{"a":1}', "c2"),
        ("user", "Never on Fridays.", None),
        ("tool", "Denied.", "c1"),
        ("tool", "done", "c2"),
        ("assistant", "Done.", None),
    ]


def test_a_message_that_comes_again_without_some_of_its_parts_is_known(app: App) -> None:
    """As a compacted list has it."""
    made = ui_call("output-available", output="done")
    for parts in ([text("So."), made, text("Done.")], [made, text("Done.")], [made]):
        app.feed(read_messages([ui(*parts)]), app.caller())
    log = app.logs.log(app.caller()).entries
    assert [each.text for each in log] == ["So.", '{"a":1}', "done", "Done."]


def test_leave_is_written_where_it_stood() -> None:
    before = [ui(text("So."), ui_call("output-denied", approval=LEAVE))]
    masked = replaced(before, "mask", "3", MASK)
    assert masked[0]["parts"][1] == {**before[0]["parts"][1], "approval": {**LEAVE, "reason": MASK}}
    # What the person said stays in the log: so does the call that it is in.
    apart = {"replacements": [{"id": "xabc", "form": "tools", "covers": "2 4", "text": BLOCK}]}
    assert apply(before, apart) == before
    assert apply(before, {"replacements": [{"id": "xabc", "form": "batch", "covers": "2-4", "text": BLOCK}]})[1] == ui(
        text("So.")
    )
    call: Part = {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {}}
    asked = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
    answered = {"type": "tool-approval-response", "approvalId": "a1", "approved": True, "reason": "Long."}
    model = [assistant(text("Long."), call, asked), {"role": "tool", "content": [answered]}]
    assert replaced(model, "mask", "1", MASK)[0] == assistant(text(MASK), call, asked)
    assert replaced(model, "mask", "3", MASK)[1]["content"] == [{**answered, "reason": MASK}]


@pytest.mark.parametrize("part", [SYSTEM, SUMMARY, FOUND, document(type="text", data="Words.")])
def test_words_of_others_are_entries_by_themselves_in_what_is_given_back(part: Part) -> None:
    before = [user(text("Before."), part, text("Behind."))]
    kept = copy.deepcopy(before)
    assert replaced(before, "mask", "1", MASK) == [user(text(MASK), part, text("Behind."))]
    assert replaced(before, "mask", "3", MASK) == [user(text("Before."), part, text(MASK))]
    own = {**SYSTEM, "content": [text(MASK)]} if part is SYSTEM else text(MASK)
    assert replaced(before, "mask", "2", MASK) == [user(text("Before."), own, text("Behind."))]
    assert before == kept


def test_calls_that_vercels_fourth_version_says_twice() -> None:
    def held(number: int, **fields: Any) -> Part:
        return {"state": "result", "toolCallId": f"c{number}", "toolName": "f", "args": {}, "result": "long", **fields}

    parts = [text("So."), {"type": "tool-invocation", "toolInvocation": held(1)}]
    before = [{"id": "m", "role": "assistant", "content": "So.", "parts": parts, "toolInvocations": [held(1), held(2)]}]
    assert rows(*before) == [
        said("assistant", "So."),
        *(row for number in ("c1", "c2") for row in (called("{}", "f", number), gave("long", "f", number))),
    ]
    assert replaced(before, "mask", "3", MASK)[0] == {
        **before[0],
        "parts": [text("So."), {"type": "tool-invocation", "toolInvocation": held(1, result=MASK)}],
        "toolInvocations": [held(1, result=MASK), held(2)],
    }
    gone = replaced(before, "tools", "2-3", BLOCK)[1]
    assert (gone["parts"], gone["toolInvocations"], gone["content"]) == ([text("So.")], [held(2)], "So.")


@pytest.mark.parametrize("content", ["So.\n\nNow.", "So.Now."])
def test_what_stands_beside_several_texts_of_vercels_keeps_its_separators(content: str) -> None:
    """It became "So.Now.", also of "So. Now."."""
    call: Part = {"state": "result", "toolCallId": "c", "toolName": "f", "args": {}, "result": "long"}
    parts: list[Part] = [text("So."), text("Now."), {"type": "tool-invocation", "toolInvocation": call}]
    before: Part = {"id": "m", "role": "assistant", "content": content, "parts": parts}
    assert replaced([before], "mask", "3", MASK)[0]["content"] == content
    before = {**before, "parts": [text("So."), parts[2], text("Now.")]}
    assert replaced([before], "external", "1", "[MESSAGE ARCHIVED]")[0]["content"] == "[MESSAGE ARCHIVED]\nNow."


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"role": "user", "content": "Which?", "parts": [{"text": "Which?"}]}, "Which?"),
        ({"role": "user", "content": "Which?", "parts": [{"text": "This one."}]}, "Which?\nThis one."),
        ({"id": "m", "role": "user", "content": "Which one?", "parts": [text("Which"), text("one?")]}, "Which\none?"),
        ({"id": "m", "role": "user", "content": "Which?", "parts": [{"type": "step-start"}]}, "Which?"),
    ],
)
def test_a_content_beside_parts_is_read_where_they_do_not_say_it(message: Part, told: str) -> None:
    assert rows(message) == [said("user", told)]
    assert apply([message], {"replacements": []}) == [message]


FUNCTION: Part = {"name": "f", "arguments": '{"a":1}'}


def test_langchains_calls_of_servers_and_beside_the_message() -> None:
    call = {"type": "server_tool_call", "id": "c1", "name": "f", "args": {"a": 1}}
    result = {"type": "server_tool_result", "tool_call_id": "c1", "status": "error", "output": {"n": 1}}
    script = [
        {**call, "id": None, "callId": "c1"},
        {"type": "server_tool_call_result", "toolCallId": "c1", "output": "40"},
    ]
    openai = {"id": "c1", "type": "function", "function": FUNCTION}
    own = {"type": "tool_call", "id": "c1", "name": "f", "args": {"a": 1}}
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", **FUNCTION}
    plain = {"type": "text-plain", "text": "Never push.", "title": "Plan", "mime_type": "text/plain"}
    kwargs = {"additional_kwargs": {"tool_calls": [openai]}}
    asked = called('{"a":1}')
    for message, told in [
        (
            langchain("ai", content=[text("So."), call, result]),
            [said("assistant", "So."), asked, gave('{"n": 1}', outcome="failure")],
        ),
        (langchain("ai", content=script), [asked, gave("40")]),
        (langchain("ai", content=[{"type": "non_standard", "value": call}]), [asked]),
        (langchain("ai", **kwargs), [asked]),
        (langchain("ai", tool_calls=[own], **kwargs), [asked]),
        (langchain("ai", content=[item], tool_calls=[own]), [asked]),
        (langchain("ai", additional_kwargs={"function_call": FUNCTION}), [called('{"a":1}', call_id=None)]),
        (langchain("ai", tool_calls=[own], additional_kwargs={"function_call": FUNCTION}), [asked]),
        (langchain("human", content=[plain]), [said("tool", "[document: Plan]\nNever push.")]),
    ]:
        assert rows(message) == told


def test_langchains_calls_beside_the_message_are_written_there() -> None:
    openai = {"id": "c1", "type": "function", "function": FUNCTION}
    other = {"id": "c2", "type": "function", "function": FUNCTION}
    beside = [langchain("ai", content="So.", additional_kwargs={"tool_calls": [openai, other], "refusal": None})]
    archived = {"name": "f", "arguments": '{"archived":"' + MASK + '"}'}
    assert replaced(beside, "mask", "3", MASK)[0]["additional_kwargs"] == {
        "tool_calls": [openai, {**other, "function": archived}],
        "refusal": None,
    }
    assert replaced(beside, "tools", "2-3", BLOCK)[1] == langchain(
        "ai", content="So.", additional_kwargs={"refusal": None}
    )
    single = [langchain("ai", content="So.", additional_kwargs={"function_call": FUNCTION})]
    assert replaced(single, "mask", "2", MASK)[0]["additional_kwargs"] == {"function_call": archived}
    assert replaced(single, "tools", "2", BLOCK)[1] == langchain("ai", content="So.")


def test_geminis_answers_with_files_and_its_servers_tools() -> None:
    shown = {"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "a.png"}}
    answer = {"name": "f", "id": "c1", "response": {"output": "See."}, "parts": [shown]}
    call = {"toolCall": {"id": "c1", "toolType": "f", "args": {"a": 1}}}
    gave_back = {"tool_response": {"id": "c1", "tool_type": "f", "response": {"output": "long"}}}
    code, ran = {"executableCode": {"code": "1", "language": "PYTHON"}}, {"codeExecutionResult": {"output": "long"}}
    before: list[Part] = [
        {"role": "user", "parts": [{"functionResponse": answer}]},
        {"role": "model", "parts": [call, gave_back, code, ran]},
    ]
    [record, *others] = read_messages(before)
    assert record.text.startswith("See.\n[image: a.png sha256:")
    assert len(record.files) == 1
    assert [each.text for each in others] == ['{"a":1}', "long", '{"code":"1","language":"PYTHON"}', "long"]
    without = {name: value for name, value in answer.items() if name != "parts"} | {"response": {"output": MASK}}
    assert replaced(before, "mask", "1", MASK)[0]["parts"] == [{"functionResponse": without}]
    assert replaced(before, "mask", "2", MASK)[1]["parts"][0]["toolCall"]["args"] == {"archived": MASK}
    assert replaced(before, "mask", "3", MASK)[1]["parts"][1]["tool_response"]["response"] == {"output": MASK}
    assert (
        replaced(before, "mask", "4", MASK)[1]["parts"][2]["executableCode"]["code"] == '{"archived": "' + MASK + '"}'
    )
    assert replaced(before, "mask", "5", MASK)[1]["parts"][3] == {"codeExecutionResult": {"output": MASK}}


_IMAGES: list[Part] = [
    langchain("human", content=[{"type": "image", "base64": PNG, "mime_type": "image/png"}]),
    langchain("human", content=[{"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}]),
    langchain("human", content=[{"type": "image", "data": PNG, "mimeType": "image/png"}]),
    {"role": "user", "content": "", "images": [PNG]},
    {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
    user({"type": "resource", "resource": {"uri": "a://b", "mimeType": "image/png", "blob": PNG}}),
    user({"type": "binary", "mimeType": "image/png", "data": PNG}),
    user({"type": "image", "source": {"type": "data", "value": PNG, "mimeType": "image/png"}}),
    user({"type": "image", "image": PNG}),
    {"type": "image_generation_call", "id": "c1", "result": PNG},
    {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"},
    },
    *(
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "f",
                    "output": {"type": "content", "value": [{"type": kind, "data": PNG, "mediaType": "image/png"}]},
                }
            ],
        }
        for kind in ("media", "image-data", "file-data")
    ),
]


@pytest.mark.parametrize("message", _IMAGES)
def test_the_bytes_of_an_image_are_kept_in_every_form(message: Part) -> None:
    """D11.1."""
    files = [file for record in read_messages([message]) for file in record.files]
    assert [(file.medium, file.type) for file in files] == [("image", "image/png")]


def test_a_file_that_an_output_refers_to_is_named() -> None:
    value = [{"type": "image-url", "url": "https://a.example/b.png"}, {"type": "file-id", "fileId": {"openai": "f1"}}]
    part = {"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": {"type": "content", "value": value}}
    assert rows({"role": "tool", "content": [part]}) == [
        gave('[image: https://a.example/b.png]\n[file: {"openai": "f1"}]')
    ]


def test_bytes_that_name_no_file_are_none() -> None:
    """Words that could be base64 stay words."""
    source = {"type": "text", "media_type": "text/plain", "data": "abcd"}
    assert rows(user({"type": "document", "source": source})) == [said("tool", "[document]\nabcd")]
    assert rows(user({"type": "redacted_thinking", "data": "abcd"}, text("So."))) == [said("user", "So.")]


def test_what_is_not_text_stays_the_part_that_it_was() -> None:
    """A text that takes a file's place is a part of its own."""
    image = {"image": {"format": "png", "source": {"bytes": PNG}}}
    assert replaced([user(image)], "mask", "1", MASK) == [user({"text": MASK})]

"""D11.1: what compact answers can be put into the messages, which stay valid for their interface."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from uuid import NAMESPACE_URL, uuid5

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client

from mcp_memory.client import apply
from mcp_memory.domain.sessions.log_dedup import replaced_by
from mcp_memory.entrypoints.conversations.messages import read_messages
from mcp_memory.entrypoints.conversations.rendering import rendered
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.revise import Revision
from tests.entrypoints.conversations.made_conversations import TURNS, anthropic, openai
from tests.entrypoints.conversations.message_rules import of_anthropic, of_openai
from tests.entrypoints.conversations.other_forms import OTHER_FORMS

if TYPE_CHECKING:
    from mcp_memory.app import App

_sessions = iter(range(1_000_000))
OPTIONS = st.sampled_from(
    [{}, {"force": True}, {"passes": ["mask"]}, {"passes": ["tool_calls", "goal_batch"]}, {"preset": "aggressive"}]
)


def shown(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What the log should hold of these messages: kind and text of each, but the separators of merged texts."""
    read = [(each.kind, each.text) for each in read_messages(messages)]
    return sorted(each for each in read if not each[1].startswith("[SUMMARIZED] (open "))


@settings(max_examples=6)
@given(
    turns=TURNS,
    window=st.sampled_from([1_000, 2_500]),
    options=OPTIONS,
    data=st.data(),
    way=st.sampled_from(["whole", "compacted"]),
)
@pytest.mark.parametrize("interface", ["anthropic", "openai"])
def test_what_is_applied_is_the_log_and_valid(
    app: "App", interface: str, turns: Any, window: int, options: dict[str, Any], data: st.DataObject, way: str
) -> None:
    """However the log was told: whole each time or as it was compacted, in one or two rounds."""
    make = anthropic if interface == "anthropic" else openai
    cut = data.draw(st.integers(1, len(turns)))
    first, rest = make(turns[:cut]), make(turns[cut:], cut) if cut < len(turns) else []
    session_id = f"{interface}{next(_sessions)}"

    def check(given: list[dict[str, Any]], answer: dict[str, Any]) -> list[dict[str, Any]]:
        before = copy.deepcopy(given)
        applied = apply(given, answer)
        assert given == before
        assert (of_anthropic(applied, given) if interface == "anthropic" else of_openai(applied)) == []
        log = app.live_log(session_id, app.caller())
        assert shown(applied) == sorted((entry.kind, entry.text) for entry in log.entries)
        assert of_anthropic(rendered(log, "anthropic", {})["messages"]) == []
        assert of_openai(rendered(log, "openai", {})["messages"]) == []
        return applied

    async def rounds() -> None:
        async with Client(build_server(app)) as client:

            async def compacted(messages: list[dict[str, Any]]) -> dict[str, Any]:
                arguments = {"session_id": session_id, "window": window, "max_tokens": 1_000_000, **options}
                result = await client.call_tool("compact", {**arguments, "messages": messages})
                assert not result.is_error
                answer = result.structured_content or (result.meta or {})["compact"]
                return dict(answer)

            applied = check(first, await compacted(first))
            again = [*(first if way == "whole" else applied), *rest]
            check(again, await compacted(again))

    anyio.run(rounds)


def test_a_message_that_was_corrected_is_left_out_for_the_block_that_covers_it(app: "App") -> None:
    """D11.1: by its id, as the client has the former text."""
    given = [
        {
            "id": str(uuid5(NAMESPACE_URL, str(n))),
            "role": ("user", "assistant")[n % 2],
            "content": f"{n} {'pear ' * 90}",
        }
        for n in range(24)
    ]
    app.feed(read_messages(given), app.caller("corrected"))
    app.revise(Revision(id=app.logs.said(app.caller("corrected"))[0].id, text="No pears."), app.caller())

    async def compacted() -> dict[str, Any]:
        async with Client(build_server(app)) as client:
            asked = {"session_id": "corrected", "window": 1_500, "max_tokens": 1_000_000, "force": True}
            result = await client.call_tool("compact", {**asked, "messages": given})
            return dict(result.structured_content or (result.meta or {})["compact"])

    applied = apply(given, anyio.run(compacted))
    log = app.live_log("corrected", app.caller())
    assert shown(applied) == sorted((entry.kind, entry.text) for entry in log.entries)


@settings(max_examples=3)
@given(turns=TURNS, window=st.sampled_from([1_000, 2_500]), options=OPTIONS, data=st.data())
@pytest.mark.parametrize("name", OTHER_FORMS)
def test_what_is_applied_is_the_log_and_valid_in_the_form_that_came(
    app: "App", name: str, turns: Any, window: int, options: dict[str, Any], data: st.DataObject
) -> None:
    """P3.1: in two rounds, the second with what the first one gave back."""
    form, cut = OTHER_FORMS[name], data.draw(st.integers(1, len(turns)))
    whole = form.write(anthropic(turns))
    first = form.write(anthropic(turns[:cut]))
    session_id = f"{name}{next(_sessions)}"

    async def rounds() -> None:
        async with Client(build_server(app)) as client:

            async def applied(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
                arguments = {"session_id": session_id, "window": window, "max_tokens": 1_000_000, **options}
                result = await client.call_tool("compact", {**arguments, "messages": messages})
                assert not result.is_error, result.content
                answer = dict(result.structured_content or (result.meta or {})["compact"])
                before = copy.deepcopy(messages)
                made = apply(messages, answer)
                assert messages == before
                assert form.broken(made) == []
                log = app.live_log(session_id, app.caller())
                assert shown(made) == sorted((entry.kind, entry.text) for entry in log.entries)
                return made

            assert form.broken(whole) == []
            await applied([*await applied(first), *whole[len(first) :]])

    anyio.run(rounds)


BLOCK, MASK = "[SUMMARIZED] Looked twice. (open xabc)", "[TOOL OUTPUT ARCHIVED id=r000003 tool=bash]"


def made(form: str, covers: str, text: str) -> dict[str, Any]:
    return {"id": "xabc", "form": form, "role": "assistant", "covers": covers, "text": text}


def used(*names: str) -> dict[str, Any]:
    calls: list[dict[str, Any]] = [{"type": "tool_use", "id": name, "name": "bash", "input": {}} for name in names]
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": "…", "signature": "s"}, *calls]}


def gave(*names: str) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": name, "content": "out"} for name in names],
    }


def kinds(message: dict[str, Any]) -> list[str]:
    return [part["type"] for part in message["content"]]


def test_of_calls_made_together_one_may_go() -> None:
    """A message that loses a part loses its thinking; what stays is what was given."""
    messages = [
        {"role": "user", "content": "Look."},
        used("a", "b"),
        gave("a", "b"),
        {"role": "assistant", "content": "So."},
    ]
    applied = apply(messages, {"replacements": [made("tools", "2 4", BLOCK)]})
    assert of_anthropic(applied, messages) == []
    assert applied[0]["content"] == [{"type": "text", "text": "Look."}, {"type": "text", "text": BLOCK}]
    assert applied[1:] == [{"role": "assistant", "content": used("b")["content"][1:]}, gave("b"), messages[3]]


def test_thinking_stays_where_nothing_before_it_changed_and_while_a_tool_loop_runs() -> None:
    turn = [{"role": "user", "content": "Look."}, used("a"), gave("a")]
    done = [{"role": "assistant", "content": [*used()["content"], {"type": "text", "text": "Done."}]}]
    messages = [*turn, *done, {"role": "user", "content": "Again."}, used("b"), gave("b"), used("c"), gave("c")]
    answer = {"replacements": [made("mask", "3", MASK)]}
    applied = apply(messages, answer)
    assert applied[2]["content"][0]["content"] == MASK
    assert [kinds(applied[place])[0] for place in (1, 3, 5, 7)] == ["thinking", "text", "thinking", "thinking"]
    assert applied[5] is messages[5]
    assert "thinking" not in kinds(apply([*messages, {"role": "assistant", "content": "All."}], answer)[5])


def test_words_that_come_together_stay_apart_for_the_log() -> None:
    """The block stands where its first part was; where its others were, a short text names it."""
    said = ["Look.", "I look.", "Wait.", "Why?", "Go on."]
    messages = [{"role": "assistant" if text in said[1::2] else "user", "content": text} for text in said]
    applied = apply(messages, {"replacements": [made("tools", "2 4", BLOCK)]})
    texts = [part["text"] for part in applied[0]["content"]]
    assert texts == ["Look.", BLOCK, "Wait.", "[SUMMARIZED] (open xabc)", "Go on."]
    assert [record.text for record in read_messages(applied)] == texts


def test_an_image_stays_as_it_was_until_its_message_is_archived() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": f"See {name}"}, image]} for name in "ab"]
    archived = "[MESSAGE ARCHIVED id=r000001 role=user tokens=8] See a"
    applied = apply(messages, {"replacements": [made("external", "1", archived)]})
    assert applied == [{"role": "user", "content": [{"type": "text", "text": archived}]}, messages[1]]


def test_items_of_responses_go_with_their_reasoning() -> None:
    def item(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, **fields}

    messages = [
        item("message", role="user", content=[item("input_text", text="Look.")]),
        item("reasoning", id="rs1", summary=[]),
        item("function_call", call_id="a", name="bash", arguments="{}"),
        item("function_call_output", call_id="a", output="out"),
        item("reasoning", id="rs2", summary=[]),
        item("custom_tool_call", call_id="b", name="patch", input="+1"),
        item("custom_tool_call_output", call_id="b", output="out"),
    ]
    applied = apply(messages, {"replacements": [made("tools", "2-3", BLOCK), made("mask", "5", MASK)]})
    assert applied == [messages[0], {"role": "user", "content": BLOCK}, *messages[4:6], {**messages[6], "output": MASK}]


def test_an_archived_call_keeps_a_form_that_its_interface_takes() -> None:
    archived = "[MESSAGE ARCHIVED id=r000002 role=assistant tokens=90]"
    call = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    chat = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "out"},
    ]
    answer = {"replacements": [made("external", "2", archived)]}
    for messages, rules in ((chat, of_openai), ([chat[0], used("a"), gave("a")], of_anthropic)):
        applied = apply(messages, answer)
        assert rules(applied) == []
        assert replaced_by(read_messages(applied)[1].text) == "r000002"


def test_what_only_the_interface_may_write_stays() -> None:
    search: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found: dict[str, Any] = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result"}],
    }
    messages = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": [search, found]}]
    assert apply(messages, {"replacements": [made("mask", "3", MASK)]}) == messages


def test_messages_that_the_answer_is_not_about_are_refused() -> None:
    messages = [{"role": "user", "content": "Look."}]
    with pytest.raises(InvalidRequest, match="not the messages"):
        apply(messages, {"replacements": [made("tools", "1-3", BLOCK)]})
    with pytest.raises(InvalidRequest, match="not the messages"):
        apply([{"role": "user", "content": BLOCK}], {"replacements": [made("tools", "1", BLOCK)]})
    assert apply(messages, {"replacements": []}) == messages
    assert apply(messages, {}) == messages


def _anthropic(*, results_first: bool) -> list[dict[str, Any]]:
    """A turn of many calls; beside the last results stands what the user said meanwhile."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Work until it is done."}]
    for number in range(16):
        call = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"command": f"cat {number}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"line {number} of the file\n" * 40}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    said = {"type": "text", "text": "And look at the columns, too."}
    last = cast("list[Any]", messages[-1]["content"])
    messages[-1]["content"] = [*last, said] if results_first else [said, *last]
    return messages


def _openai(*, results_first: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Work until it is done."}]
    for number in range(16):
        function = {"name": "bash", "arguments": f'{{"command":"cat {number}.py"}}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} of the file\n" * 40},
        ]
    said = {"role": "user", "content": "And look at the columns, too."}
    return [*messages, said] if results_first else [*messages[:-1], said, messages[-1]]


def _responses(*, results_first: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Work until it is done."}]
    for number in range(16):
        call = {"call_id": f"c{number}", "name": "bash", "arguments": f'{{"command":"cat {number}.py"}}'}
        output = {"call_id": f"c{number}", "output": f"line {number} of the file\n" * 40}
        messages += [{"type": "function_call", **call}, {"type": "function_call_output", **output}]
    said = {"role": "user", "content": [{"type": "input_text", "text": "And look at the columns, too."}]}
    return [*messages, said] if results_first else [*messages[:-1], said, messages[-1]]


def _of_responses(messages: list[dict[str, Any]]) -> list[str]:
    """The rules that are broken: an item that answers needs the call before it, and a call an item that answers."""
    calls = [each["call_id"] for each in messages if each.get("type") == "function_call"]
    outputs = [each["call_id"] for each in messages if each.get("type") == "function_call_output"]
    return [] if calls == outputs else [f"calls {calls} are answered by {outputs}"]


Messages: TypeAlias = list[dict[str, Any]]
FORMS: dict[str, tuple[Callable[..., Messages], Callable[[Messages, Messages], list[str]]]] = {
    "anthropic": (_anthropic, of_anthropic),
    "openai": (_openai, lambda applied, given: of_openai(applied)),
    "responses": (_responses, lambda applied, given: _of_responses(applied)),
}
"""Each form that `apply` gives back: how a conversation is written in it, and the rules that one breaks."""


@pytest.mark.parametrize("results_first", [True, False])
@pytest.mark.parametrize("options", [{"force": True}, {"passes": ["tool_calls"]}, {"passes": ["mask"]}, {}])
@pytest.mark.parametrize("form", FORMS)
async def test_a_text_beside_the_last_results_leaves_a_valid_list(
    app: "App", form: str, options: dict[str, Any], results_first: bool
) -> None:
    """E2.5, D11.1, P1.1: in every form, wherever the text stood; what comes back is known when it is sent again."""
    make, broken = FORMS[form]
    given = make(results_first=results_first)
    arguments = {"session_id": f"{form}{next(_sessions)}", "window": 1_600, "max_tokens": 1_000_000, **options}
    answer: dict[str, Any] = {}
    async with Client(build_server(app)) as client:
        for _ in range(2):
            result = await client.call_tool("compact", {**arguments, "messages": given})
            assert not result.is_error
            answer = dict(result.structured_content or (result.meta or {})["compact"])
            applied = apply(given, answer)
            assert broken(applied, given) == []
            given = applied
        assert answer["fed"]["stored"] == 0


def test_a_block_amid_a_users_message_stays_between_his_words() -> None:
    """P3.1: one of many entries, which a later round archives, between two texts of one message."""
    given = [
        {
            "role": "user",
            "content": [{"type": "text", "text": each} for each in ("Rename the exports.", BLOCK, "Never touch main.")],
        },
        {"role": "assistant", "content": "Done."},
    ]
    archived = {**made("external", "2-4", "[MESSAGE ARCHIVED id=xabc role=assistant tokens=9]"), "id": "xdef"}
    applied = apply(given, {"told": "1 (2-4) 5-6", "replacements": [archived]})
    assert [part["text"] for part in applied[0]["content"]] == [
        "Rename the exports.",
        "[MESSAGE ARCHIVED id=xabc role=assistant tokens=9]",
        "Never touch main.",
    ]

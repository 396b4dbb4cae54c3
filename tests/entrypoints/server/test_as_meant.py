"""P3.2: what clients send otherwise than the schema says is understood, once, and said in the answer."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.types import CallToolResult, TextContent

from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.as_meant import KIND_NAMES, as_meant
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.entrypoints.server.wire import (
    CompactArguments,
    ContextArguments,
    ForgetArguments,
    RecallArguments,
    RememberArguments,
    ReviseArguments,
)
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App

Call = Callable[..., Awaitable[CallToolResult]]


@pytest.fixture
def call(app: "App") -> Call:
    async def called(tool: str, **arguments: Any) -> CallToolResult:
        async with Client(build_server(app)) as client:
            return await client.call_tool(tool, arguments)

    return called


@pytest.mark.parametrize(
    ("model", "sent", "meant", "note"),
    [
        (RecallArguments, {"limit": "3"}, {"limit": 3}, "Understood: `limit` as 3."),
        (RecallArguments, {"limit": 3.0}, {"limit": 3}, "Understood: `limit` as 3."),
        (RecallArguments, {"limit": " 3.0 "}, {"limit": 3}, "Understood: `limit` as 3."),
        (RecallArguments, {"explain": "True"}, {"explain": True}, "Understood: `explain` as true."),
        (RememberArguments, {"importance": "7"}, {"importance": 7.0}, "Understood: `importance` as 7.0."),
        (RememberArguments, {"importance": "1e0"}, {"importance": 1.0}, "Understood: `importance` as 1.0."),
        (RememberArguments, {"pinned": "false"}, {"pinned": False}, "Understood: `pinned` as false."),
        (RememberArguments, {"tags": "ops"}, {"tags": ["ops"]}, "Understood: `tags` as a list."),
        (RememberArguments, {"tags": ""}, {"tags": []}, ""),
        (RememberArguments, {"tags": " [wip] exports"}, {"tags": [" [wip] exports"]}, "Understood: `tags` as a list."),
        (RememberArguments, {"entities": ["[wip] exports"]}, {"entities": [{"name": "[wip] exports"}]}, None),
        (RememberArguments, {"tags": '["a", "b"]'}, {"tags": ["a", "b"]}, ""),
        (RememberArguments, {"details": '{"a": 1}'}, {"details": {"a": 1}}, ""),
        (RememberArguments, {"entities": '{"name": "x"}'}, {"entities": [{"name": "x"}]}, None),
        (RememberArguments, {"entities": ['{"name": "x"}']}, {"entities": [{"name": "x"}]}, ""),
        (
            RememberArguments,
            {"entities": "Ann"},
            {"entities": [{"name": "Ann"}]},
            "Understood: `entities` as a list, a text in `entities` as `name`.",
        ),
        (
            RememberArguments,
            {"entities": ["Ann, Bo", {"name": "Cy"}]},
            {"entities": [{"name": "Ann, Bo"}, {"name": "Cy"}]},
            "Understood: a text in `entities` as `name`.",
        ),
        (
            RememberArguments,
            {"relations": [{"source": "a", "type": "b", "target": "c", "weight": "0.5"}]},
            {"relations": [{"source": "a", "type": "b", "target": "c", "weight": 0.5}]},
            "Understood: `weight` as 0.5.",
        ),
        (
            RememberArguments,
            {"memories": [{"content": "a", "kind": "rule"}, {"content": "b", "kind": "Rules"}]},
            {"items": [{"text": "a", "kind": "censor"}, {"text": "b", "kind": "censor"}]},
            "Understood: `memories` as `items`, `content` as `text`, `kind` rule as censor, `kind` Rules as censor.",
        ),
        (RememberArguments, {"records": '[{"memory": "a"}]'}, {"items": [{"text": "a"}]}, None),
        (RememberArguments, {"note": "a"}, {"text": "a"}, "Understood: `note` as `text`."),
        (RememberArguments, {"text": "", "note": "a"}, {"text": "a"}, "Understood: `note` as `text`."),
        (RememberArguments, {"text": "a", "content": "a"}, {"text": "a"}, ""),
        (RememberArguments, {"text": "a", "sessionId": "s"}, {"text": "a", "session_id": "s"}, None),
        (RecallArguments, {"kind": "fact", "topK": "2"}, {"kinds": ["fact"], "limit": 2}, None),
        (RecallArguments, {"kinds": "facts, how-to"}, {"kinds": ["fact", "procedure"]}, None),
        (
            RecallArguments,
            {"kinds": ["preference"]},
            {"kinds": ["identity"]},
            "Understood: `kinds` preference as identity.",
        ),
        (RecallArguments, {"k": 2, "tag": "a"}, {"limit": 2, "tags": ["a"]}, None),
        (RecallArguments, {"detail": "FULL"}, {"detail": "full"}, "Understood: `detail` FULL as full."),
        (ContextArguments, {"budget": "900"}, {"max_tokens": 900}, None),
        (ContextArguments, {"token_budget": 900}, {"max_tokens": 900}, "Understood: `token_budget` as `max_tokens`."),
        (ContextArguments, {"strategy": '{"name": "recent"}'}, {"strategy": {"name": "recent"}}, ""),
        (ContextArguments, {"budget": "900", "max_tokens": 900}, {"max_tokens": 900}, None),
        (ForgetArguments, {"ids": "r000001, r00001x"}, {"ids": ["r000001", "r00001x"]}, "Understood: `ids` as a list."),
        (RememberArguments, {"tags": "exports,billing"}, {"tags": ["exports,billing"]}, None),
        (ForgetArguments, {"id": "r1"}, {"ids": ["r1"]}, "Understood: `id` as `ids`, `ids` as a list."),
        (ReviseArguments, {"id": "r1", "version": "2"}, {"id": "r1", "version": 2}, "Understood: `version` as 2."),
        (CompactArguments, {"messages": '[{"role": "user"}]'}, {"messages": [{"role": "user"}]}, ""),
    ],
)
def test_it_is_understood(model: Any, sent: dict[str, Any], meant: dict[str, Any], note: str | None) -> None:
    understood, told = as_meant(model, sent)
    assert understood == meant
    assert note is None or told == note


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (RememberArguments, {"text": "12", "tags": ["true"]}),
        (RememberArguments, {"text": '{"a": 1}', "details": {"n": "3", "content": "x"}}),
        (RememberArguments, {"tags": "[a"}),
        (RememberArguments, {"tags": "[a]"}),
        (RememberArguments, {"tags": "[a], [b"}),
        (RecallArguments, {"limit": 1e300}),
        (RememberArguments, {"pinned": "yes", "importance": "high", "confidence": "1" * 400, "kind": "poem"}),
        (RememberArguments, {"tags": ["a", 1], "entities": [5], "relations": "x", "details": "x"}),
        (RememberArguments, {"entities": ["[x"], "relations": ["x"]}),
        (RememberArguments, {"entities": '{"name": "x'}),
        (RecallArguments, {"limit": True, "offset": 2.5, "query": 7, "kinds": 3}),
        (RecallArguments, {"limit": float("inf"), "offset": float("nan")}),
        (ContextArguments, {"strategy": "recent", "content": "x"}),
    ],
)
def test_the_rest_stays_as_it_came(model: Any, sent: dict[str, Any]) -> None:
    understood, told = as_meant(model, sent)
    assert str(understood) == str(sent)
    assert told == ""


@pytest.mark.parametrize(
    ("model", "sent", "says"),
    [
        (
            RememberArguments,
            {"text": "a", "content": "b"},
            "`content` means `text` here, and says something else than `text`. Give one.",
        ),
        (RememberArguments, {"note": "b", "content": "a"}, "`note` means `text` here, and says something else than"),
        (RecallArguments, {"kinds": ["fact"], "kind": "decision"}, "`kind` means `kinds` here"),
        (RememberArguments, {"kind": "todo"}, "`kind` todo: push_task (plan) keeps what is to be done."),
        (RememberArguments, {"items": [{"kind": "To-Do"}]}, "`kind` To-Do: push_task (plan) keeps what is to be done."),
        (RecallArguments, {"kinds": "todos"}, "`kinds` todos: push_task (plan) keeps what is to be done."),
    ],
)
def test_what_could_mean_two_things_is_refused(model: Any, sent: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        as_meant(model, sent)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(("name", "kind"), KIND_NAMES.items())
def test_every_other_name_of_a_kind_is_one(name: str, kind: str) -> None:
    assert (
        read_arguments(RememberArguments, as_meant(RememberArguments, {"kind": name})[0]).model_dump()["kind"] == kind
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just('[{"kind": "rule"}]'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "content", "name"]), inner),
    max_leaves=6,
)
NAMES = st.sampled_from([*RememberArguments.model_fields, "content", "memories", "todo", "sessionId"])


@given(st.dictionaries(NAMES, JSON, max_size=5))
def test_whatever_is_sent_is_understood_or_refused_in_a_sentence(sent: dict[str, Any]) -> None:
    said = ""
    try:
        read_arguments(RememberArguments, as_meant(RememberArguments, sent)[0])
    except InvalidRequest as error:
        said = str(error)
    assert len(said) <= 300


async def test_the_answer_says_how_the_call_was_understood(call: Call) -> None:
    """As data, or behind a text that stands by itself; a call as the schema has it is told nothing."""
    stored = await call("remember", content="The staging port is 8081.", kind="lesson", pinned="true")
    told = "Understood: `content` as `text`, `kind` lesson as fact, `pinned` as true."
    assert stored.structured_content is not None
    assert stored.structured_content["understood"] == told
    assert isinstance(stored.content[0], TextContent)
    assert stored.content[0].text.count("Understood") == 1
    found = await call("recall", query="staging port", top_k="1")
    assert isinstance(found.content[-1], TextContent)
    assert found.content[-1].text == "Understood: `top_k` as `limit`, `limit` as 1."
    assert (found.structured_content or {})["understood"] == found.content[-1].text
    block = await call("assemble_context", query="staging port", budget=500)
    assert [isinstance(each, TextContent) and each.text.startswith(("<memory", "Under")) for each in block.content] == [
        True,
        True,
    ]
    assert len((await call("assemble_context", query="staging port", max_tokens=500)).content) == 1
    assert (await call("recall", query="x", limit="none")).is_error


async def test_an_unknown_field_is_refused_with_the_nearest(call: Call) -> None:
    refused = await call("recall", query="x", limits=3)
    assert isinstance(refused.content[0], TextContent)
    assert refused.content[0].text.startswith("There is no field `limits`; the nearest is `limit`. Known: query, ids,")

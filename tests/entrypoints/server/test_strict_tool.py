import json
import logging
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent
from pydantic import Field, JsonValue

from mcp_memory.entrypoints.server.arguments import MAX_ERROR_CHARS, Arguments
from mcp_memory.entrypoints.server.strict_tool import ClientSide, annotations, make_tool
from mcp_memory.errors import Conflict

Call = Callable[..., Awaitable[CallToolResult]]


class Part(Arguments):
    name: str
    weight: Annotated[float, Field(gt=0, le=1)] = 1.0


class Everything(Arguments):
    """One field of each sort."""

    text: Annotated[str, Field(max_length=100)] = ""
    count: Annotated[int, Field(ge=1, le=100)] = 10
    flag: bool = False
    colour: Literal["red", "green"] | None = None
    tags: Annotated[tuple[str, ...], Field(strict=False, max_length=3)] = ()
    parts: Annotated[tuple[Part, ...], Field(strict=False)] = ()
    details: dict[str, JsonValue] = Field(default_factory=dict)


def echo(arguments: Everything, client: ClientSide) -> dict[str, Any]:
    if arguments.text == "conflict":
        raise Conflict("That is taken; choose another.")
    if arguments.text == "crash":
        raise RuntimeError("the remembered secret")
    return {"given": sorted(arguments.model_fields_set), **arguments.model_dump(mode="json"), "client": client.name}


@pytest.fixture
async def call() -> Call:
    tool = make_tool("echo", "Echo", "Use to test.", Everything, echo, annotations())
    server = MCPServer("test", tools=[tool])

    async def call_echo(**arguments: Any) -> CallToolResult:
        async with Client(server) as client:
            return await client.call_tool("echo", arguments)

    return call_echo


def text_of(result: CallToolResult) -> str:
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def refusal(call: Call, **arguments: Any) -> str:
    result = await call(**arguments)
    assert result.is_error
    assert result.structured_content is None
    assert len(text_of(result)) <= MAX_ERROR_CHARS
    return text_of(result)


async def answer(call: Call, **arguments: Any) -> dict[str, Any]:
    result = await call(**arguments)
    assert not result.is_error, text_of(result)
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content or {}


@pytest.mark.parametrize(
    "text", ['{"a":1}', "null", "[1]", "true", "12", '"quoted"', r"\ud800", "tab\tline\r\nend", "😀"]
)
async def test_a_text_arrives_exactly_as_it_was_sent(call: Call, text: str) -> None:
    assert (await answer(call, text=text))["text"] == text


async def test_data_that_hold_half_of_a_surrogate_pair_are_said_in_characters() -> None:
    """X3.1: the name of a folder may be no text."""

    def named(_given: Everything, _client: ClientSide) -> dict[str, Any]:
        return {"folder": "gar\udce7on"}

    tool = make_tool("name", "Name", "Use to test.", Everything, named, annotations())
    async with Client(MCPServer("test", tools=[tool])) as client:
        assert text_of(await client.call_tool("name", {})) == '{"folder":"gar\ufffdon"}'


async def test_null_counts_as_not_given(call: Call) -> None:
    shown = await answer(call, count=None, colour=None, parts=[{"name": "a", "weight": None}])
    assert shown["given"] == ["parts"]
    assert shown["parts"] == [{"name": "a", "weight": 1.0}]


async def test_lists_and_objects_may_come_as_strings_of_json(call: Call) -> None:
    shown = await answer(call, tags='["a", "b"]', parts='[{"name": "c"}]', details=' {"d": [1, null]}')
    assert shown["tags"] == ["a", "b"]
    assert shown["parts"] == [{"name": "c", "weight": 1.0}]
    assert shown["details"] == {"d": [1, None]}


async def test_the_client_is_known_by_the_name_it_gave(call: Call) -> None:
    assert (await answer(call))["client"] == "mcp"


async def test_an_unknown_field_is_refused_with_the_known_ones(call: Call) -> None:
    """S3.1."""
    assert await refusal(call, text="x", colours="red", count=-1) == (
        "There is no field `colours`; the nearest is `colour`. "
        "Known: text, count, flag, colour, tags, parts, details. (1 more after that.)"
    )
    assert "`zip` in `parts[0]`. Known: name, weight." in await refusal(call, parts=[{"name": "a", "zip": 1}])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"text": 5}, "`text` must be a string."),
    ({"text": ["a"]}, "`text` must be a string."),
    ({"text": "x" * 101}, "`text` is too long: at most 100 characters"),
    ({"count": "ten"}, "`count` must be a whole number."),
    ({"count": True}, "`count` must be a whole number."),
    ({"count": 0}, "`count` must be at least 1."),
    ({"count": 10**30}, "`count` must be at most 100."),
    ({"flag": "yes"}, "`flag` must be true or false."),
    ({"colour": "blue"}, "`colour` must be one of 'red' or 'green', not 'blue'."),
    ({"colour": " b\x1b[1m\nlue" + "e" * 90}, f"`colour` must be one of 'red' or 'green', not 'b lue{'e' * 35}'."),
    ({"colour": 5}, "`colour` must be one of 'red' or 'green'."),
    ({"tags": "[a"}, "`tags` must be a list."),
    ({"tags": ["a", 1]}, "`tags[1]` must be a string."),
    ({"tags": ["a"] * 1000}, "`tags` has too many items: at most 3"),
    ({"parts": [{}]}, "`parts[0].name` is required."),
    ({"parts": [5]}, "`parts[0]` must be an object."),
    ({"parts": [{"name": "a", "weight": 0}]}, "`parts[0].weight` must be more than 0."),
    ({"details": []}, "`details` must be an object."),
    ({"details": '{"a": NaN}'}, "`details.a` must be a finite number."),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG)
async def test_a_wrong_argument_is_named_with_what_is_wrong(call: Call, arguments: dict[str, Any], says: str) -> None:
    """S3.1."""
    assert (await refusal(call, **arguments)).startswith(says)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ({"a": [{"b": "\ufffe"}]}, {"a": [{"b": "\ufffd"}]}),
        ({"\ufffe": 1}, {"\ufffd": 1}),
        ('{"a": "x\\ud800"}', {"a": "x\ufffd"}),
        ({"a": "x\uffff"}, {"a": "x\ufffd"}),
    ],
)
async def test_what_is_no_character_is_kept_as_a_replacement_character(call: Call, sent: Any, kept: Any) -> None:
    """P3.2: a call is not refused for a character that was cut in two."""
    assert (await answer(call, details=sent))["details"] == kept


async def test_an_unreadable_value_is_refused(call: Call) -> None:
    said = "`details.a` is nested too deep, or holds a number of too many digits."
    assert (await refusal(call, details={"a": "\uffff"})).startswith(said)


async def test_deep_nesting_is_refused(call: Call) -> None:
    """S3.1."""
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": deep}
    assert await refusal(call, details=deep) == "details is nested too deep. Flatten it."


async def test_an_error_stays_short_and_repeats_nothing(call: Call) -> None:
    """S3.1."""
    said = await refusal(
        call, **{f"private{i}" * 20: "secret" for i in range(200)}, details={"secret" * 100: {"x" * 1000: "\0"}}
    )
    assert "secret" not in said
    said = await refusal(call, **{"the secret is 42 " * 20: "secret"}, count="secret", tags=["secret"] * 9)
    assert "secret" not in said


async def test_an_error_of_ours_is_shown_as_it_stands(call: Call) -> None:
    assert await refusal(call, text="conflict") == "That is taken; choose another."


async def test_a_defect_is_logged_without_its_words(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    """S3.1."""
    with caplog.at_level(logging.ERROR):
        said = await refusal(call, text="crash")
    assert said.startswith("Internal error; it was logged.")
    assert "Tool echo failed: RuntimeError at" in caplog.text
    assert "test_strict_tool.py" in caplog.text
    assert "remembered secret" not in caplog.text + said


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """How a client of the SDK connects: by discovery (2026-07-28), or by the handshake (2025-11-25)."""
    return str(request.param)


Report = tuple[float, float | None, str | None]


class Listener:
    """Keeps what a client is told of a call's progress."""

    def __init__(self) -> None:
        self.told: list[Report] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))


def long_server(answer: Callable[[Everything, ClientSide], dict[str, Any]]) -> MCPServer:
    return MCPServer("test", tools=[make_tool("work", "Work", "Use to test.", Everything, answer, annotations())])


def work(arguments: Everything, side: ClientSide) -> dict[str, Any]:
    """Takes as many steps as it is asked to."""
    for step in range(arguments.count):
        side.progress(step, arguments.count, f"step {step}")
    side.progress(arguments.count)
    return {"client": side.name}


async def test_progress_arrives_in_order_and_before_the_result(era: str) -> None:
    """E5.1."""
    hear = Listener()
    async with Client(long_server(work), mode=era) as client:
        result = await client.call_tool("work", {"count": 50}, progress_callback=hear)
        told = list(hear.told)
    assert result.structured_content == {"client": "mcp"}
    assert told == [*((step, 50, f"step {step}") for step in range(50)), (50, None, None)]


async def test_a_client_that_asked_for_no_progress_gets_the_result_alone(era: str) -> None:
    """E5.1."""
    async with Client(long_server(work), mode=era) as client:
        result = await client.call_tool("work", {"count": 3})
    assert not result.is_error


async def test_progress_that_cannot_be_told_fails_nothing() -> None:
    """E5.1."""
    side = ClientSide(Context())  # of no call, so there is nobody to tell
    await anyio.to_thread.run_sync(side.progress, 1)


async def test_a_call_given_up_ends_its_work_and_leaves_the_server_answering(era: str) -> None:
    began, ended, gone = threading.Event(), threading.Event(), threading.Event()

    def slow(arguments: Everything, side: ClientSide) -> dict[str, Any]:
        if arguments.count == 1:
            began.set()
            gone.wait(60)
            work(arguments, side)
            ended.set()
        return {"count": arguments.count}

    async with Client(long_server(slow), mode=era) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(client.call_tool, "work", {"count": 1}, progress_callback=Listener()))
            assert await anyio.to_thread.run_sync(began.wait, 60)
            group.cancel_scope.cancel()
            gone.set()
        assert await anyio.to_thread.run_sync(ended.wait, 60)
        result = await client.call_tool("work", {"count": 2})
    assert result.structured_content == {"count": 2}

from typing import Any

import pytest
from mcp import Client
from mcp.client.session import SamplingFnT
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ErrorData,
    ImageContent,
    TextContent,
)

from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.sampling import MAX_ASKED
from mcp_memory.entrypoints.server.strict_tool import ClientSide, annotations, make_tool

Answer = CreateMessageResult | CreateMessageResultWithTools | ErrorData
IMAGE = ImageContent(type="image", data="AAAA", mime_type="image/png")
LEGACY, MODERN = "legacy", "auto"


class Prompts(Arguments):
    """What is to be asked."""

    prompts: list[str]


def ask(arguments: Prompts, side: ClientSide) -> dict[str, Any]:
    return {"answers": [side.sample(prompt, max_tokens=50) for prompt in arguments.prompts]}


@pytest.fixture
def server() -> MCPServer:
    return MCPServer("test", tools=[make_tool("ask", "Ask", "Use to test.", Prompts, ask, annotations())])


@pytest.fixture(params=[MODERN, LEGACY])
def era(request: pytest.FixtureRequest) -> str:
    """How a client of the SDK connects: by discovery (2026-07-28), or by the handshake (2025-11-25)."""
    return str(request.param)


class Model:
    """A client's model that answers with the prompt in capitals, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, context: Any, params: Any) -> Answer:
        text = params.messages[0].content.text
        self.asked.append((text, params.max_tokens))
        return said(text.upper())


def said(text: str) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text=text), model="some-model")


def sampler(answer: Answer) -> SamplingFnT:
    """A client that gives this answer to whatever it is asked."""

    async def sample(context: Any, params: Any) -> Answer:
        return answer

    return sample


async def call(server: MCPServer, era: str, sample: SamplingFnT | None, *prompts: str) -> CallToolResult:
    async with Client(server, mode=era, sampling_callback=sample) as client:
        return await client.call_tool("ask", {"prompts": list(prompts)})


def refusal(result: CallToolResult) -> str:
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def test_the_clients_model_answers_where_it_is_offered(server: MCPServer, era: str) -> None:
    """D7.1."""
    model = Model()
    result = await call(server, era, model, "summarise this", "and that")
    assert result.structured_content == {"answers": ["SUMMARISE THIS", "AND THAT"]}
    assert model.asked == [("summarise this", 50), ("and that", 50)]


async def test_an_answer_in_several_parts_is_one_text(server: MCPServer, era: str) -> None:
    parts = [TextContent(type="text", text="The port "), IMAGE, TextContent(type="text", text="is 8123.")]
    answer = CreateMessageResultWithTools(role="assistant", content=[*parts], model="some-model")
    assert (await call(server, era, sampler(answer), "x")).structured_content == {"answers": ["The port is 8123."]}


async def test_the_same_prompt_is_asked_once_a_call_in_the_newer_era(server: MCPServer) -> None:
    model = Model()
    result = await call(server, MODERN, model, "again", "again")
    assert result.structured_content == {"answers": ["AGAIN", "AGAIN"]}
    assert len(model.asked) == 1


async def test_a_client_that_offers_no_sampling_is_told_what_to_do(server: MCPServer, era: str) -> None:
    """D7.1."""
    assert refusal(await call(server, era, None, "x")) == (
        "This client offers no sampling. Call again without asking for the client's model."
    )


async def test_a_client_that_denies_is_told_what_to_do_in_the_era_of_the_handshake(server: MCPServer) -> None:
    """D7.1."""
    denied = sampler(ErrorData(code=-1, message="User rejected the request"))
    assert refusal(await call(server, LEGACY, denied, "x")) == (
        "The client's model gave no answer. Call again without asking for the client's model."
    )


async def test_a_client_that_denies_in_the_newer_era_ends_the_call_itself(server: MCPServer) -> None:
    """D7.1."""
    denied = sampler(ErrorData(code=-1, message="User rejected the request"))
    async with Client(server, mode=MODERN, sampling_callback=denied) as client:
        with pytest.raises(MCPError, match="User rejected"):
            await client.call_tool("ask", {"prompts": ["x"]})


@pytest.mark.parametrize(
    "answer",
    [
        said(" \n"),
        CreateMessageResult(role="assistant", content=IMAGE, model="some-model"),
        CreateMessageResultWithTools(role="assistant", content=[], model="some-model"),
    ],
)
async def test_an_answer_without_a_text_is_refused(server: MCPServer, era: str, answer: Answer) -> None:
    assert refusal(await call(server, era, sampler(answer), "x")) == (
        "The client's model answered without text. Call again without asking for the client's model."
    )


async def test_the_newer_era_asks_for_so_many_texts_a_call_and_no_more(server: MCPServer) -> None:
    model = Model()
    result = await call(server, MODERN, model, *(str(number) for number in range(MAX_ASKED + 1)))
    assert refusal(result).startswith(f"One call may ask the client's model for {MAX_ASKED} texts, no more.")
    assert len(model.asked) == MAX_ASKED


async def test_no_two_questions_have_one_id() -> None:
    """P2.2: not those of another server either, whose late answer would be taken for this one's."""
    ids: list[str | int] = []

    async def sample(context: Any, params: Any) -> Answer:
        ids.append(context.request_id)
        return said("Yes.")

    for _ in range(2):
        server = MCPServer("test", tools=[make_tool("ask", "Ask", "Use to test.", Prompts, ask, annotations())])
        await call(server, LEGACY, sample, "x", "y")
    assert len(set(ids)) == 4
    assert all(str(each).startswith("ask-") for each in ids)


async def test_an_answer_that_no_open_question_asked_for_is_refused(server: MCPServer) -> None:
    """P2.2."""
    async with Client(server, mode=MODERN, sampling_callback=Model()) as client:
        result = await client.session.call_tool(
            "ask", {"prompts": ["x"]}, input_responses={"late": said("Of another session.")}
        )
    assert "no open question of this call asked for" in refusal(result)

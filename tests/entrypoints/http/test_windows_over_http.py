"""Two people, two agents, two windows over HTTP: sessions of the protocol, and calls without one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.entrypoints.http.conftest import ERAS, HttpServer, connected, headers_of, make_token, post, text_of


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def answered(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None, text_of(result)
    return result.structured_content


async def said(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a refusal, or of a block."""
    return text_of(await client.call_tool(tool, arguments))


@pytest.mark.parametrize("era", ERAS)
async def test_what_one_person_does_to_anothers_goal_is_asked_for_and_told(
    data_dir: Path, start_http: Callable[..., HttpServer], era: str
) -> None:
    """N5.1, N5.2: with and without sessions."""
    tokens = [make_token(data_dir, name, person=f"person of {name}") for name in ("ann", "bob")]
    url = start_http(data_dir).url
    async with connected(url, tokens[0], era) as ann, connected(url, tokens[1], era) as bob:
        pushed = await answered(ann, "push_task", goal="Ship the importer", plan=["Build it"])
        task = pushed["task"]["id"]
        assert f"- [{task} open, ann since " in await said(bob, "assemble_context", max_tokens=600)
        assert "ann is in" in await said(bob, "push_task", task_id=task)
        await answered(bob, "push_task", task_id=task, takeover=True)
        assert "bob took over" in await said(ann, "pop_task", result="shipped", cascade=True)
        ended = await answered(bob, "pop_task", result="shipped", cascade=True)
        assert [step["goal"] for step in ended["left_open"]] == ["Build it"]
        assert f"bob ended {task} (Ship the importer)" in await said(ann, "assemble_context", max_tokens=600)
        entered = await answered(ann, "push_task", task_id=pushed["planned"][0]["id"])
        assert len(entered["meanwhile"]) == 2


async def test_two_sessions_of_one_token_are_two_windows(data_dir: Path, start_http: Callable[..., HttpServer]) -> None:
    """N5.3: and the next goes on where an ended one was, also at a server that was started anew."""
    token = make_token(data_dir, "ann")
    server = start_http(data_dir)
    async with connected(server.url, token, "legacy") as two:
        async with connected(server.url, token, "legacy") as one:
            await answered(one, "push_task", goal="Ship the importer")
            assert len((await answered(two, "push_task", goal="Draw the chart"))["path"]) == 1
            assert (await answered(two, "pop_task", result="drawn"))["popped"]["goal"] == "Draw the chart"
        async with connected(server.url, token, "legacy") as three:
            assert (await answered(three, "push_task", goal="Build it"))["path"][0]["goal"] == "Ship the importer"
    server.kill()
    async with connected(start_http(data_dir).url, token, "legacy") as four:
        assert (await answered(four, "pop_task", result="built"))["current"]["goal"] == "Ship the importer"


async def test_calls_without_a_session_share_their_agents_place(
    data_dir: Path, start_http: Callable[..., HttpServer]
) -> None:
    """N5.3: unless they name one."""
    token = make_token(data_dir, "ann")
    url = start_http(data_dir).url
    async with connected(url, token) as one, connected(url, token) as two:
        await answered(one, "push_task", goal="Ship the importer")
        assert len((await answered(two, "push_task", goal="Build it"))["path"]) == 2
        assert len((await answered(two, "push_task", goal="Draw", session_id="mine"))["path"]) == 1


def test_a_session_that_the_server_never_gave_is_no_window(
    data_dir: Path, start_http: Callable[..., HttpServer]
) -> None:
    """N5.3: the era without sessions checks no such header, and each window takes a lock."""
    token = make_token(data_dir, "ann")
    url = start_http(data_dir).url
    meta: dict[str, Any] = {PROTOCOL_VERSION_META_KEY: "2026-07-28", CLIENT_CAPABILITIES_META_KEY: {}}
    own = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "push_task"}
    depths: list[int] = []
    for number in range(2):
        call = {"name": "push_task", "arguments": {"goal": f"goal {number}"}, "_meta": meta}
        answer = post(url, "tools/call", call, {**own, **headers_of(token), "mcp-session-id": f"made up {number}"})
        depths.append(len(answer.json()["result"]["structuredContent"]["path"]))
    assert depths == [1, 2]

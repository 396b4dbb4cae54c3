"""Plays the demo against the real server: a child process over stdio, killed half-way, on a memory that is thrown away.

Knows neither the story (demo_script) nor how it is shown (demo_screen).
"""

import json
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TextIO, cast

import psutil
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, Implementation, TextContent, TextResourceContents

from mcp_memory import __version__
from mcp_memory.entrypoints.cli.demo_script import ASSISTANT, Said, Script, Subtask
from mcp_memory.errors import McpMemoryError
from mcp_memory.isolated_python import isolated_command

NAMESPACE = "demo"
PATIENCE_SECONDS = 60.0
Answer = dict[str, Any]
"""What the server answered, as it came."""


class DemoFailed(McpMemoryError):
    """The server did not do what the demo shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One scene: what was done, how long the server took, and what it answered."""

    name: str
    seconds: float
    result: Mapping[str, Any]


async def play(script: Script, now: datetime, count: Callable[[str], int], show: Callable[[Step], None]) -> list[Step]:
    """Play all scenes, handing each to `show` as soon as it is over. Leaves neither file nor process behind.

    Raises:
        DemoFailed: the server refused a call or went away; the message says why.
    """
    with tempfile.TemporaryDirectory(prefix="mcp-memory-demo-", ignore_cleanup_errors=True) as folder:
        try:
            return await _Play(script, now, count, show, Path(folder)).all_scenes()
        except (DemoFailed, MCPError, OSError, BaseExceptionGroup) as error:
            raise _failure(error, Path(folder) / "server.log") from error


class _Play:
    def __init__(
        self, script: Script, now: datetime, count: Callable[[str], int], show: Callable[[Step], None], folder: Path
    ) -> None:
        self._script = script
        self._now = now
        self._count = count
        self._show = show
        self._folder = folder
        self._steps: list[Step] = []

    async def all_scenes(self) -> list[Step]:
        script = self._script
        with (self._folder / "server.log").open("w", encoding="utf-8") as log:
            others = set(psutil.Process().children(recursive=True))
            started = time.perf_counter()
            async with _server(self._folder, log) as client:
                await self._scene("start", _greeting(client), since=started)
                stored = await self._scene("remember", self._remember(client))
                await self._scene("correct", self._correct(client, stored))
                for question in script.questions:
                    await self._scene("recall", _ask(client, question.shows, question.query))
                await self._scene("work", self._work(client))
                context = await self._scene("context", self._assemble(client))
                before = await _read(client, "memory://status")
                await self._scene("kill", _kill(others))
            started = time.perf_counter()
            async with _server(self._folder, log) as client:
                await self._scene("restart", _greeting(client), since=started)
                await self._scene("resume", self._resume(client, before, context))
        return self._steps

    async def _scene(self, name: str, doing: Awaitable[Answer], since: float | None = None) -> Answer:
        since = time.perf_counter() if since is None else since
        result = await doing
        step = Step(name=name, seconds=round(time.perf_counter() - since, 3), result=result)
        self._steps.append(step)
        self._show(step)
        return result

    async def _remember(self, client: Client) -> Answer:
        """Store the conversation in one call; look at the message that held a secret."""
        said = self._script.conversation
        answer = await _call(client, "remember", items=[self._item(each) for each in said])
        secret = next(record for record in answer["records"] if record["redacted"])
        opened = await _call(client, "recall", ids=[secret["id"]], detail="full")
        kinds: dict[str, int] = {}
        for each in said:
            kinds[each.kind] = kinds.get(each.kind, 0) + 1
        return {"records": answer["records"], "kinds": kinds, "redacted": opened["results"][0]}

    async def _correct(self, client: Client, stored: Answer) -> Answer:
        texts = [each.text for each in self._script.conversation]
        old = stored["records"][texts.index(self._script.corrects)]
        item = self._item(self._script.correction)
        answer = await _call(client, "remember", **item, supersedes=[old["id"]])
        return {**answer, "old": {"id": old["id"], "text": self._script.corrects}, "text": item["text"]}

    async def _work(self, client: Client) -> Answer:
        """Push the goal with its plan, and go through the plan until the step that is not finished."""
        script = self._script
        pushed = await _call(
            client,
            "push_task",
            goal=script.goal,
            success_criteria=script.success_criteria,
            plan=[subtask.goal for subtask in script.plan],
        )
        moves = [pushed]
        for planned, subtask in zip(pushed["planned"], script.plan, strict=True):
            moves.append(await _call(client, "push_task", task_id=planned["id"]))
            if subtask.result:
                moves.append(await _call(client, "pop_task", **_ending(subtask)))
        return {"moves": moves, **await _read(client, "memory://tasks")}

    async def _assemble(self, client: Client) -> Answer:
        """A context for what comes next, its tokens counted here too."""
        script = self._script
        result = await _checked(
            client, "assemble_context", {"query": script.request, "max_tokens": script.max_tokens, "explain": True}
        )
        text = _text_of(result)
        account = (result.meta or {})["context"]
        counted = {"max_tokens": script.max_tokens, "counted_tokens": self._count(text)}
        return {"query": script.request, "text": text, **counted, "context": account}

    async def _resume(self, client: Client, before: Answer, context: Answer) -> Answer:
        """What the second server finds."""
        after = await _read(client, "memory://status")
        again = await self._assemble(client)
        counted = ("records", "statuses", "tasks")
        return {
            "before": {name: before[name] for name in counted},
            "after": {name: after[name] for name in counted},
            "same_context": again["text"] == context["text"],
            **await _read(client, "memory://tasks"),
        }

    def _item(self, said: Said) -> Answer:
        day = (self._now - timedelta(days=said.days_ago)).date().isoformat()
        item: Answer = {
            "text": said.text,
            "kind": said.kind,
            "importance": said.importance,
            "session_id": said.session,
            "occurred_at": f"{day}T{said.at}:00Z",
            "tags": list(said.tags),
            "details": dict(said.details),
        }
        if said.speaker:
            item |= {"speaker": said.speaker, "role": "assistant" if said.speaker == ASSISTANT else "user"}
        return item


@asynccontextmanager
async def _server(folder: Path, log: TextIO) -> AsyncGenerator[Client]:
    """A server of its own process over the demo's memory, deaf to the settings of this person."""
    settings = {
        "MCP_MEMORY_DATA_DIR": str(folder / "data"),
        "MCP_MEMORY_NAMESPACE": NAMESPACE,
        "MCP_MEMORY_CONFIG": str(folder / "none.toml"),
    }
    program, *arguments = isolated_command("mcp_memory.__main__")
    command = StdioServerParameters(command=program, args=arguments, env=settings, cwd=folder)
    me = Implementation(name="mcp-memory-demo", version=__version__)
    transport = stdio_client(command, errlog=log)
    async with Client(transport, client_info=me, read_timeout_seconds=PATIENCE_SECONDS, cache=None) as client:
        yield client


async def _greeting(client: Client) -> Answer:
    tools = [tool.name for tool in (await client.list_tools()).tools]
    info = client.server_info
    name, version = (info.name, info.version) if info else ("mcp-memory", __version__)
    return {"server": name, "version": version, "protocol": client.protocol_version, "tools": tools}


async def _ask(client: Client, shows: str, query: str) -> Answer:
    return {"shows": shows, "query": query, **await _call(client, "recall", query=query, limit=3, explain=True)}


async def _kill(others: set[psutil.Process]) -> Answer:
    """End the server as a power cut would: SIGKILL, or TerminateProcess. The transport reaps it."""
    servers = [process for process in psutil.Process().children(recursive=True) if process not in others]
    for process in servers:
        process.kill()
    return {"killed": [process.pid for process in servers]}


async def _call(client: Client, tool: str, **arguments: Any) -> Answer:
    return (await _checked(client, tool, arguments)).structured_content or {}


async def _checked(client: Client, tool: str, arguments: Answer) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise DemoFailed(f"{tool} was refused: {_text_of(result)}")
    return result


async def _read(client: Client, uri: str) -> Answer:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return json.loads(content.text)


def _text_of(result: CallToolResult) -> str:
    return "".join(content.text for content in result.content if isinstance(content, TextContent))


def _ending(subtask: Subtask) -> Answer:
    return {"result": subtask.result, "status": subtask.status, "artifacts": list(subtask.artifacts)}


def _failure(error: BaseException, log: Path) -> BaseException:
    """What went wrong, out of the groups in which the client's tasks wrap it; a server that went away left a log."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if not isinstance(error, MCPError | OSError):
        return error
    lines = log.read_text("utf-8", "replace").splitlines() or [str(error)]
    return DemoFailed(f"The demo's server went away: {lines[-1]}")

"""Plays the demo against the real server: a child process over stdio, killed half-way, with a temporary memory.

Its story is data, in demo.toml.
"""

import json
import re
import shlex
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TextIO, TypeAlias, cast

import psutil
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, Implementation, TextContent, TextResourceContents
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from mcp_memory import __version__
from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.kind_words import counted_in_words
from mcp_memory.entrypoints.clients.entries import running_command
from mcp_memory.entrypoints.commands.console import visible
from mcp_memory.entrypoints.commands.screens import STATUS_STYLES, listed, record_lines, task_screen
from mcp_memory.errors import McpMemoryError
from mcp_memory.isolated_python import isolated_command

# Amazon's own example of a key, in two parts so that no scanner takes this file for a leak.
_STORY = Path(__file__).with_name("demo.toml").read_text("utf-8").replace("{key}", "AKIA" + "IOSFODNN7QZKWMTR")
STORY: Mapping[str, Any] = tomllib.loads(_STORY)
NEXT: Mapping[str, str] = {
    "Add it to Claude Code": "install claude-code",
    "Any other client": "install --list",
    "Look at your own memory": "ui",
}
"""Commands of the program that plays the demo."""
INSTALLING = '.venv/bin/uv tool install ./stack && export PATH="$HOME/.local/bin:$PATH"'
"""Installs the command from a clone."""
_CLONE = Path(__file__).parents[3] / "stack" / "pyproject.toml"
"""It is there in a clone alone."""
ANSWER_SECONDS = 60.0
SHORT_CHARS = 180
_SUPERSEDED = re.compile("^superseded by .*")  # "superseded by r000012" → "superseded"
Answer: TypeAlias = dict[str, Any]
Shown: TypeAlias = tuple[Answer, Sequence[RenderableType]]
"""The result of a scene, for programs and for people."""


class DemoFailed(McpMemoryError):
    """The server did not do what the demo shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scene: the action, the server's time, the result, and its screen."""

    name: str
    title: str
    seconds: float
    result: Answer
    screen: Sequence[RenderableType]

    def parts(self) -> Sequence[RenderableType]:
        """Return the heading with its time, and the scene's screen."""
        return ["", Text.assemble((self.title, "bold"), (f"  {self.seconds:.2f} s", "dim")), *self.screen]


def next_steps(seconds: float) -> Sequence[Text]:
    """Return the last lines: how long the demo took, and what to do next."""
    steps, program = dict[str, str](), "mcp-memory"
    if _CLONE.exists():  # What runs here belongs to the clone: a client needs one that stays.
        steps["Install the command"] = INSTALLING
    elif not _is_on_path():
        program = shlex.join(running_command())
    steps |= {what: f"{program} {command}" for what, command in NEXT.items()}
    heading = Text(f"\nAll of it took {seconds:.1f} s; the demo's memory has been deleted. Next:", "bold")
    return [heading, *(Text.assemble(f"  {what}: ", (command, "cyan")) for what, command in steps.items())]


def _is_on_path() -> bool:
    """Return True where `mcp-memory` starts this program, other than from the folder of its environment's programs."""
    found = shutil.which("mcp-memory")
    programs = Path(sys.executable).parent  # First on the PATH only while the environment is activated.
    return found is not None and Path(found).parent != programs and Path(found).resolve().parent == programs.resolve()


async def play(
    story: Mapping[str, Any], now: datetime, count: Callable[[str], int], show: Callable[[Scene], None]
) -> list[Scene]:
    """Play all scenes, handing each to `show` as soon as it is over. Leaves neither file nor process behind.

    Raises:
        DemoFailed: the server refused a call or went away; the message says why.
    """
    with tempfile.TemporaryDirectory(prefix="mcp-memory-demo-", ignore_cleanup_errors=True) as folder:
        try:
            return await _Play(story=story, now=now, count=count, show=show).all_scenes(Path(folder))
        except (DemoFailed, MCPError, OSError, BaseExceptionGroup) as error:
            raise _failure(error, Path(folder) / "server.log") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Play:
    story: Mapping[str, Any]
    now: datetime
    count: Callable[[str], int]
    show: Callable[[Scene], None]
    scenes: list[Scene] = field(default_factory=list[Scene])

    async def all_scenes(self, folder: Path) -> list[Scene]:
        with (folder / "server.log").open("w", encoding="utf-8") as log:
            others = set(psutil.Process().children(recursive=True))
            began = time.perf_counter()
            async with _server(folder, log) as client:
                title = "A memory server starts, as a child process over stdio"
                await self._scene("start", title, _greeting(client), began)
                title = "Nine days of a small project are remembered"
                stored = await self._scene("remember", title, self._remember(client))
                await self._scene("correct", "Something has changed since", self._correct(client, stored))
                for question in self.story["questions"]:
                    await self._scene("recall", f"Recall {question['shows']}", _ask(client, question))
                title = "A goal, its plan, and what came of the first steps"
                await self._scene("work", title, self._work(client))
                title = "The context for the next step, inside a hard budget"
                context = await self._scene("context", title, self._assemble(client))
                before = await _read(client, "memory://status")
                await self._scene("kill", "The server is killed, without a chance to save anything", _kill(others))
            began = time.perf_counter()
            async with _server(folder, log) as client:
                await self._scene("restart", "A new server starts on the same memory", _greeting(client), began)
                title = "Everything is still there, and so is where the work stands"
                await self._scene("resume", title, self._resume(client, before, context))
        return self.scenes

    async def _scene(self, name: str, title: str, doing: Awaitable[Shown], began: float | None = None) -> Answer:
        began = time.perf_counter() if began is None else began
        result, screen = await doing
        seconds = round(time.perf_counter() - began, 3)
        scene = Scene(name=name, title=title, seconds=seconds, result=result, screen=screen)
        self.scenes.append(scene)
        self.show(scene)
        return result

    async def _remember(self, client: Client) -> Shown:
        """Store the conversation in one call; look at the message that held a secret."""
        answer = await _call(client, "remember", items=[self._item(each) for each in self.story["items"]])
        records = answer["records"]
        secrets = [record["id"] for record in records if record["redacted"]]
        [opened] = (await _call(client, "recall", ids=secrets, detail="full"))["results"]
        kinds = Counter(each["kind"] for each in self.story["items"])
        return {"records": records, "kinds": kinds, "redacted": opened}, [
            Text(f"{counted(len(records), 'record')} in one call, all or none: {listed(counted_in_words(kinds))}."),
            Text(f"Cut out before anything was stored: {counted(len(secrets), 'secret')}."),
            Text(f"  {_short(opened['speaker'] + ': ' + opened['text'])}", "italic"),
        ]

    async def _correct(self, client: Client, stored: Answer) -> Shown:
        texts = [each["text"] for each in self.story["items"]]
        corrected: str = self.story["corrects"]
        old = stored["records"][texts.index(corrected)]["id"]
        item = self._item(self.story["correction"])
        answer = await _call(client, "remember", **item, supersedes=[old])
        return {**answer, "old": {"id": old, "text": corrected}, "text": item["text"]}, [
            Text.assemble(("was  ", "dim"), (_short(corrected), "strike dim")),
            Text.assemble(("now  ", "dim"), _short(item["text"])),
        ]

    async def _work(self, client: Client) -> Shown:
        """Push the goal with its plan, and go through the plan until the step that is not finished."""
        plan: Sequence[Answer] = self.story["plan"]
        goal = {name: self.story[name] for name in ("goal", "success_criteria")}
        moves = [await _call(client, "push_task", **goal, plan=[subtask["goal"] for subtask in plan])]
        for planned, subtask in zip(moves[0]["planned"], plan, strict=True):
            moves.append(await _call(client, "push_task", task_id=planned["id"]))
            if "result" in subtask:
                ending = {name: value for name, value in subtask.items() if name != "goal"}
                moves.append(await _call(client, "pop_task", **ending))
        tasks = await _read(client, "memory://tasks")
        return {"moves": moves, **tasks}, [task_screen(tasks["tasks"])]

    async def _assemble(self, client: Client) -> Shown:
        """Ask for a context for what comes next, and count its tokens here too."""
        query, budget = self.story["request"], self.story["max_tokens"]
        result = await _checked(client, "assemble_context", query=query, max_tokens=budget, explain=True)
        text, account = _text_of(result), (result.meta or {})["context"]
        counted = self.count(text)
        omitted = Counter(_SUPERSEDED.sub("superseded", each["reason"]) for each in account["omitted"])
        left_out = "; ".join(f"{number} {reason}" for reason, number in omitted.most_common()) or "nothing"
        used = f"{counted} of {budget} tokens, counted again here (the server said {account['token_count']})"
        shown = {"query": query, "text": text, "max_tokens": budget, "counted_tokens": counted, "context": account}
        return shown, [
            _asked(query),
            Panel(Text(visible(text)), title=f"what the agent reads, {counted} of {budget} tokens", expand=False),
            Text(f"{used}. Left out: {left_out}.", "green" if counted <= budget else STATUS_STYLES["failed"]),
        ]

    async def _resume(self, client: Client, before: Answer, context: Answer) -> Shown:
        """Read the counts, the context and the tasks from the second server."""
        after = await _read(client, "memory://status")
        again, _ = await self._assemble(client)
        tasks = await _read(client, "memory://tasks")
        is_same = again["text"] == context["text"]
        was, now = ({name: each[name] for name in ("records", "statuses", "tasks")} for each in (before, after))
        counts = f"{sum(now['records'].values())} of {counted(sum(was['records'].values()), 'record')}"
        return {"before": was, "after": now, "same_context": is_same, **tasks}, [
            Text(f"{counts}, and {'the same context again, to the byte' if is_same else 'a context again'}."),
            task_screen(tasks["tasks"]),
        ]

    def _item(self, told: Mapping[str, Any]) -> Answer:
        """Return an item of the story with its time: `days_ago` becomes a date."""
        day = (self.now - timedelta(days=told["days_ago"])).date()
        item = {name: value for name, value in told.items() if name not in ("days_ago", "at")}
        return {**item, "occurred_at": f"{day.isoformat()}T{told['at']}:00Z"}


@asynccontextmanager
async def _server(folder: Path, log: TextIO) -> AsyncGenerator[Client]:
    """Run a server in its own process over the demo's memory; this user's settings do not reach it."""
    settings = {
        "MCP_MEMORY_DATA_DIR": str(folder / "data"),
        "MCP_MEMORY_NAMESPACE": "demo",
        "MCP_MEMORY_IDLE_MINUTES": "0",
        "MCP_MEMORY_CONFIG": str(folder / "none.toml"),
    }
    program, *arguments = isolated_command("mcp_memory.__main__")
    command = StdioServerParameters(command=program, args=arguments, env=settings, cwd=folder)
    me = Implementation(name="mcp-memory-demo", version=__version__)
    transport = stdio_client(command, errlog=log)
    async with Client(transport, client_info=me, read_timeout_seconds=ANSWER_SECONDS, cache=None) as client:
        yield client


async def _greeting(client: Client) -> Shown:
    tools = [tool.name for tool in (await client.list_tools()).tools]
    info = client.server_info
    name, version = (info.name, info.version) if info else ("mcp-memory", __version__)
    shown = {"server": name, "version": version, "protocol": client.protocol_version, "tools": tools}
    return shown, [Text(f"{name} {version}, protocol {client.protocol_version}. Tools: {', '.join(tools)}.")]


async def _ask(client: Client, question: Mapping[str, Any]) -> Shown:
    answer = await _call(client, "recall", query=question["query"], limit=3, explain=True)
    found = [part for record in answer["results"] for part in record_lines(record)]
    return {**question, **answer}, [_asked(question["query"]), *found]


async def _kill(others: set[psutil.Process]) -> Shown:
    """End the server as a power cut would: SIGKILL, or TerminateProcess. The transport reaps it."""
    servers = [process for process in psutil.Process().children(recursive=True) if process not in others]
    for process in servers:
        process.kill()
    killed = [process.pid for process in servers]
    pids = ", ".join(map(str, killed))
    return {"killed": killed}, [Text(f"Processes {pids} are gone." if len(killed) > 1 else f"Process {pids} is gone.")]


async def _call(client: Client, tool: str, **arguments: Any) -> Answer:
    return (await _checked(client, tool, **arguments)).structured_content or {}


async def _checked(client: Client, tool: str, **arguments: Any) -> CallToolResult:
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


def _asked(query: str) -> Text:
    return Text.assemble(("? ", "dim"), (query, "cyan"))


def _short(text: str) -> str:
    text = visible(" ".join(text.split()))
    return text if len(text) <= SHORT_CHARS else f"{text[: SHORT_CHARS - 3]}..."


def _failure(error: BaseException, log: Path) -> BaseException:
    """Unwrap the error from the groups of the client's tasks; where the server went away, quote its log."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if not isinstance(error, MCPError | OSError):
        return error
    lines = log.read_text("utf-8", "replace").splitlines() or [str(error)]
    return DemoFailed(f"The demo's server went away: {lines[-1]}")

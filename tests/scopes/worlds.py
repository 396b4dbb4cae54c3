"""Two memories that differ in nothing but what the asker may not see, and the asker's way to ask both.

What is not there takes up no numbers: after each thing that is stored where the asker does not look, the other memory's
change sequence is set to the same number. Ids, revisions and hence whole answers can then be compared to the byte. How
often anybody wrote is all that a number says; it is nobody's secret.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.scopes import Caller, Grant
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.entrypoints.page.new import KeptAttention
from mcp_memory.entrypoints.server.identity import RequestSender, visited_by
from mcp_memory.entrypoints.server.identity import asking as caller_of_message
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.ports.walls import beyond, within
from mcp_memory.settings import load_settings
from mcp_memory.stores.records import FILE_NAME
from tests.postgres import walled_database

FIGURES_OF_ALL = frozenset({"path", "bytes", "directory", "index_directory", "unembedded", "says"})
"""Of the file, and of this process and machine."""

Ask = tuple[str, Mapping[str, Any]]
"""A tool and its arguments, or "read" and the address of a resource."""


@dataclass(frozen=True, kw_only=True)
class Who:
    """The asker: an agent's own process, or the holder of a token at a process that serves many."""

    name: str
    settings: Mapping[str, Any]
    visitor: RequestSender | None = None
    has_walls: bool = False
    """True where the memories are in PostgreSQL, which holds each message to its scopes as well."""

    @property
    def person(self) -> str:
        return self.visitor.grant.person if self.visitor and self.visitor.grant else ""

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Messages of this block come from the asker."""
        with visited_by(self.visitor) if self.visitor else nullcontext():
            yield


LOCAL = Who(name="local", settings={"namespace": "here", "agent": "ann", "session": "day", "inherit": ["library"]})
WITH_TOKEN = Who(
    name="with a token",
    settings={"namespace": "there", "agent": "host", "inherit": ["library", "there"]},
    visitor=RequestSender(
        grant=Grant(agent="ann", person="ann", namespaces=("here", "library"), right="write"),
        namespace="here",
        session="day",
    ),
)
BEHIND_WALLS = replace(WITH_TOKEN, name=f"{WITH_TOKEN.name}, behind walls", has_walls=True)
"""Who has the address of the database stands beyond them."""


@dataclass(kw_only=True)
class Clock:
    """Stands still until it is set."""

    now: float = 1_795_176_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(kw_only=True)
class World:
    """A memory, as one process has it."""

    folder: Path
    app: App
    clock: Clock
    who: Who
    attention: KeptAttention = field(default_factory=KeptAttention)

    @property
    def me(self) -> Caller:
        """The asker, as tools see it."""
        with self.who.at_work():
            return copy_context().run(caller_of_message, self.app)

    def rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        if self.who.has_walls:
            with psycopg.connect(address_in(self.folder)["owner_url"]) as connection:
                return connection.execute(sql.encode(), values or None).fetchall()
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as connection:
            return connection.execute(sql, values).fetchall()

    def number(self) -> int:
        return self.app.records.revision()

    def taken(self) -> int:
        """The last number that a write has taken; PostgreSQL gives several at once."""
        return int(str(self.rows("SELECT last_value FROM changes")[0][0])) if self.who.has_walls else self.number()

    def skip_to(self, number: int, taken: int) -> None:
        if self.who.has_walls:
            with psycopg.connect(address_in(self.folder)["owner_url"]) as connection:
                connection.execute("SELECT setval('changes', %s)", (taken,))
                connection.execute(
                    "INSERT INTO partitions VALUES ('namespace/elsewhere', %s, '', 0, 0)"
                    " ON CONFLICT (name) DO UPDATE SET newest = excluded.newest",
                    (number,),
                )
            return
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as connection, connection:
            connection.execute("UPDATE sequence SET value = ?", (number,))

    def level(self, number: int) -> None:
        """Give each namespace the number of the whole: it counts what other agents store there for themselves."""
        if self.who.has_walls:
            with psycopg.connect(address_in(self.folder)["owner_url"]) as connection:
                connection.execute("UPDATE partitions SET newest = %s", (number,))
            return
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as connection, connection:
            connection.execute("UPDATE partitions SET newest = ?", (number,))


@dataclass(kw_only=True)
class Pair:
    """The memory with what is foreign, and the one without."""

    full: World
    bare: World

    def __iter__(self) -> Iterator[World]:
        return iter((self.full, self.bare))

    def in_both(self, do: Callable[[World], object]) -> None:
        for world in self:
            do(world)
        self.align()

    def elsewhere(self, do: Callable[[World], object]) -> None:
        """Do it where what is foreign is."""
        do(self.full)
        self.align()

    def align(self) -> None:
        number, taken = (max(each) for each in zip(*((world.number(), world.taken()) for world in self), strict=True))
        for world in self:
            if (world.number(), world.taken()) != (number, taken):
                world.skip_to(number, taken)
            world.level(number)

    def later(self, seconds: float) -> None:
        for world in self:
            world.clock.now += seconds


def address_in(folder: Path) -> dict[str, str]:
    """The settings of the database that a folder stands for."""
    file = folder / "address.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(walled_database()))
    return json.loads(file.read_text())


@contextmanager
def taking_no_time() -> Generator[None]:
    """How long the machine took is no difference; of blocks that take half a second the page says so."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("context.assemble", "sessions.run_pass"):
            patch.setattr(f"mcp_memory.services.{module}.time", SimpleNamespace(perf_counter=lambda: 0.0))
        yield


@contextmanager
def opened(folder: Path, embedder: MiniLMEmbedder, now: float, who: Who, **chosen: object) -> Generator[Pair]:
    """Both memories, in `folder/full` and `folder/bare`, as one process has them."""
    with ExitStack() as stack, beyond(), taking_no_time():  # What tests do here by themselves is no message.
        worlds: list[World] = []
        for name in ("full", "bare"):
            clock = Clock(now=now)
            there = address_in(folder / name) if who.has_walls else {}
            given = {**who.settings, **{key: there[key] for key in there if key != "owner_url"}, **chosen}
            settings = load_settings(data_dir=folder / name, semantic_store="exact", **given)
            app = open_app(settings, clock, embedder)
            stack.callback(app.close)
            worlds.append(World(folder=folder / name, app=app, clock=clock, who=who))
        yield Pair(full=worlds[0], bare=worlds[1])


def copied(template: Path, folder: Path) -> Path:
    """Both memories once more, to be changed."""
    for name in ("full", "bare"):
        shutil.copytree(template / name, folder / name)
        if (file := folder / name / "address.json").exists():
            file.write_text(json.dumps(walled_database(of=address_in(folder / name))))
    return folder


class Asker:
    """A client of one memory. Everything that is sent to it is in the answers."""

    def __init__(self, client: Client, portal: BlockingPortal) -> None:
        self._client = client
        self._portal = portal

    def ask(self, ask: Ask) -> str:
        """The whole answer as JSON; an error is one as well."""
        return told(self._portal.call(self._answer, ask))

    def everything_listed(self) -> str:
        return told([self._portal.call(each) for each in (self._client.list_tools, self._client.list_resources)])

    async def _answer(self, ask: Ask) -> object:
        name, arguments = ask
        sent: list[object] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            sent.append([progress, total, message])

        try:
            if name == "read":
                return await self._client.read_resource(arguments["uri"])
            return [await self._client.call_tool(name, dict(arguments), progress_callback=hear), sent]
        except MCPError as error:
            return ["error", error.error]


@contextmanager
def asking(world: World) -> Generator[Asker]:
    """A client of the SDK, in memory. What fails in the block is raised as it is, not in a group of the client's."""
    failure: BaseException | None = None
    client = Client(build_server(world.app))
    with ExitStack() as stack:
        stack.enter_context(world.who.at_work())
        with within(None):  # A message says by itself whose it is.
            portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(portal.wrap_async_context_manager(client))
        try:
            yield Asker(client, portal)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failure = error
    if failure is not None:
        raise failure


def told(answer: object) -> str:
    """An answer without the figures of the file."""

    def plain(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return plain(value.model_dump(mode="json", by_alias=True))
        if isinstance(value, dict):
            inside = cast("dict[str, Any]", value)
            return {name: plain(inner) for name, inner in inside.items() if name not in FIGURES_OF_ALL}
        if isinstance(value, list):
            return [plain(inner) for inner in cast("list[Any]", value)]
        return plain(json.loads(value)) if isinstance(value, str) and value.startswith("{") else value

    return json.dumps(plain(answer), ensure_ascii=False)

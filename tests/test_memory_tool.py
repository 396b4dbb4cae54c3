"""Anthropic's memory tool over this memory: the commands, and the texts that Anthropic's page names for them."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest
from mcp import Client

from mcp_memory.client import MemoryTool
from mcp_memory.domain.model.requests import Revision
from mcp_memory.entrypoints.server.mcp_server import build_server

if TYPE_CHECKING:
    from mcp_memory.app import App

pytestmark = pytest.mark.anyio
PATH = "/memories/plans/export.md"
TEXT = "# Export\n- first\n- second\n- first"


class Do(Protocol):
    async def __call__(self, command: str, path: str | None = PATH, **arguments: Any) -> str: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def do(app: "App") -> AsyncIterator[Do]:
    """Do a command; the text for the model, "!" before that of an error."""
    async with Client(build_server(app)) as client:
        tool = MemoryTool(client=client)

        async def one(command: str, path: str | None = PATH, **arguments: Any) -> str:
            given = {"command": command, **({"path": path} if path else {}), **arguments}
            result = await tool.answered({"type": "tool_use", "id": "t1", "name": "memory", "input": given})
            assert (result["type"], result["tool_use_id"]) == ("tool_result", "t1")
            return f"{'!' if result.get('is_error') else ''}{result['content']}"

        yield one


async def test_a_file_is_made_read_changed_and_moved(do: Do, app: "App") -> None:
    left_out = "excluding hidden items and node_modules"
    empty = f"Here're the files and directories up to 2 levels deep in /memories, {left_out}:\n0\t/memories"
    assert await do("view", "/memories") == empty
    assert await do("create", file_text=f"{TEXT}\n") == f"File created successfully at: {PATH}"
    assert await do("create", file_text="x") == f"!Error: File {PATH} already exists"
    assert await do("create", "/memories/plans/export.md/deeper", file_text="x") == (
        "!Error: File /memories/plans/export.md/deeper already exists"
    )
    numbered = "     1\t# Export\n     2\t- first\n     3\t- second\n     4\t- first"
    assert await do("view") == f"Here's the content of {PATH} with line numbers:\n{numbered}"
    assert (await do("view", view_range=[2, 3])).endswith(":\n     2\t- first\n     3\t- second")
    assert (await do("view", view_range=[3, -1])).endswith(":\n     3\t- second\n     4\t- first")
    assert (await do("view", view_range=[9, 12])).startswith("!Error: Invalid `view_range` parameter: [9, 12].")
    edited = await do("str_replace", old_str="- second", new_str="- 2nd\n- half")
    assert edited.startswith("The memory file has been edited.\n     1\t# Export")
    assert "     3\t- 2nd\n     4\t- half\n" in edited
    assert await do("insert", insert_line=0, insert_text="---\n") == f"The file {PATH} has been edited."
    assert "     1\t---\n     2\t# Export" in await do("view")
    found = app.inspect.seen_of(["r000001"], app.caller())["r000001"]
    assert (found.kind, found.text.split("\n")[0]) == ("fact", PATH), "others find it as a fact"
    listing = (await do("view", "/memories")).split("\n")[1:]
    assert [line.split("\t")[1] for line in listing] == ["/memories", "/memories/plans", PATH]
    assert await do("create", "/memories/.hidden/x", file_text="x" * 2000)
    assert await do("create", "/memories/big", file_text="x" * 2000)
    assert "2.0K\t/memories/big" in await do("view", "/memories")
    assert "hidden/" not in await do("view", "/memories")
    renamed = await do("rename", None, old_path="/memories/plans", new_path="/memories/done")
    assert renamed == "Successfully renamed /memories/plans to /memories/done"
    assert await do("view") == f"!The path {PATH} does not exist. Please provide a valid path."
    assert "# Export" in await do("view", "/memories/done/export.md")
    assert await do("delete", "/memories/done") == "Successfully deleted /memories/done"
    assert (await do("view", "/memories/done/export.md")).startswith("!The path")


async def test_what_cannot_be_done_is_said_in_anthropics_words(do: Do) -> None:
    await do("create", file_text=TEXT)
    gone = "/memories/gone"
    assert await do("view", gone) == f"!The path {gone} does not exist. Please provide a valid path."
    missing = f"!Error: The path {gone} does not exist"
    assert await do("str_replace", gone, old_str="a", new_str="b") == f"{missing}. Please provide a valid path."
    assert await do("insert", gone, insert_line=0, insert_text="x") == missing
    assert await do("delete", gone) == missing
    assert await do("rename", None, old_path=gone, new_path="/memories/x") == missing
    taken = "!Error: The destination /memories/plans already exists"
    assert await do("rename", None, old_path=PATH, new_path="/memories/plans") == taken
    assert await do("str_replace", old_str="third", new_str="x") == (
        f"!No replacement was performed, old_str `third` did not appear verbatim in {PATH}."
    )
    assert await do("str_replace", old_str="- first", new_str="x") == (
        "!No replacement was performed. Multiple occurrences of old_str `- first` in lines: 2, 4. Please ensure it is"
        " unique"
    )
    assert await do("insert", insert_line=9, insert_text="x") == (
        "!Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 4]"
    )
    for path in ("/memories/../etc/passwd", "/etc", "memories/a", "/memories/a\nb"):
        assert (await do("view", path)).startswith("!Error: The path ")
    assert (await do("delete", "/memories")).startswith("!Error: /memories itself stays")
    assert (await do("undo")).startswith("!Error: The commands are view, create,")
    assert await do("insert", insert_text="x") == "!Error: The arguments do not fit `insert`."
    assert await do("create", "/memories/long", file_text="x" * 3_000_000) != ""


async def test_secrets_are_cut_out_and_that_is_said(do: Do) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert "(cut out: 1 secret)" in await do("create", file_text=f"key = {key}")
    assert key not in await do("view")


class Meanwhile:
    """A client beside which somebody changes the file, before its own change arrives."""

    def __init__(self, client: Client, app: "App") -> None:
        self._client, self._app = client, app

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        if name == "revise":
            self._app.revise(Revision(id=arguments["id"], text=f"{PATH}\n\ntheirs"), self._app.caller())
        return await self._client.call_tool(name, arguments)


async def test_what_somebody_else_changed_meanwhile_is_not_overwritten(do: Do, app: "App") -> None:
    await do("create", file_text=TEXT)
    async with Client(build_server(app)) as client:
        tool = MemoryTool(client=cast("Client", Meanwhile(client, app)))
        given = {"command": "insert", "path": PATH, "insert_line": 0, "insert_text": "mine"}
        result = await tool.answered({"id": "t", "input": given})
    assert result["is_error"]
    assert (await do("view")).endswith("theirs")

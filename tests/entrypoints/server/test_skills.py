"""The plugin's skill for every client, as the extension Skills (SEP-2640) has it."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import Request, RequestParams, Result, TextResourceContents
from pydantic import ConfigDict

from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.entrypoints.server.resources import SKILL_URI, SKILLS, GetSkillParams

if TYPE_CHECKING:
    from mcp_memory.app import App

SKILL = Path(__file__).parents[3] / "plugin" / "skills" / "memory" / "SKILL.md"


class Anything(Result):
    """A result with whatever fields it has."""

    model_config = ConfigDict(extra="allow")


async def ask(client: Client, method: str, params: RequestParams | None = None) -> dict[str, Any]:
    request: Request[Any, Any] = Request(method=method, params=params)
    return (await client.session.send_request(cast("Any", request), Anything)).model_dump(by_alias=True)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_skill_is_listed_found_and_read_as_it_lies_in_the_plugin(app: "App", mode: str) -> None:
    async with Client(build_server(app), mode=mode) as client:
        announced = client.server_capabilities.extensions
        assert mode == "legacy" or (announced and announced[SKILLS] == {}), "the older era's library passes none on"
        (listed,) = (await ask(client, "skills/list"))["skills"]
        assert (await ask(client, "skills/get", GetSkillParams(uri=SKILL_URI)))["skill"] == listed
        (read,) = (await client.read_resource(SKILL_URI)).contents
        assert isinstance(read, TextResourceContents)
        assert (read.text, read.mime_type) == (SKILL.read_text("utf-8"), "text/markdown")
        assert listed["uri"] == SKILL_URI
        digest = f"sha256:{sha256(read.text.encode()).hexdigest()}"
        assert listed["resources"] == [{"uri": SKILL_URI, "digest": digest}]
        head = read.text.split("---\n")[1].splitlines()
        assert [f"{name}: {value}" for name, value in listed["frontmatter"].items()] == head
        assert listed["frontmatter"]["name"] == SKILL_URI.split("/")[-2]
        with pytest.raises(MCPError, match=f"the only one is {SKILL_URI}") as refused:
            await ask(client, "skills/get", GetSkillParams(uri="skill://other/SKILL.md"))
        assert refused.value.error.code == -32602

"""What `recall` says where nothing, or not everything, is known."""

from typing import TYPE_CHECKING

import pytest
from mcp import Client
from mcp.types import TextContent

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.server.mcp_server import build_server

if TYPE_CHECKING:
    from mcp_memory.app import App

pytestmark = pytest.mark.anyio


async def told(app: "App", query: str) -> tuple[str, object]:
    """What an agent reads, and the unknown names among what programs get."""
    async with Client(build_server(app)) as client:
        result = await client.call_tool("recall", {"query": query})
    assert isinstance(result.content[0], TextContent)
    structured: dict[str, object] = result.structured_content or {}
    return result.content[0].text, structured.get("unknown")


async def test_recall_says_what_no_record_names(app: "App") -> None:
    """W3.1: one line, and what bears on the rest of the question below it."""
    menus = [NewRecord(text=f"Lunch menu of day {number}: soup and bread.") for number in range(30)]
    app.remember([*menus, NewRecord(text="Postgres keeps its nightly backups in the vault at Bergen.")], app.caller())
    assert await told(app, "Where does Redis keep its snapshots?") == ("Nothing here names Redis.", ["Redis"])
    assert await told(app, "How tall is the tower of the old church?") == ("Nothing stored bears on this query.", None)
    text, unknown = await told(app, "Where are the nightly Postgres backups for Kafka kept?")
    first, second = text.splitlines()[:2]
    assert (first, unknown) == ("Nothing here names Kafka.", ["Kafka"])
    assert "the vault at Bergen" in second


async def test_recall_says_how_two_things_are_tied(app: "App") -> None:
    """O4.2: one line above the records of the path."""
    texts = ("Acme Foods moved to ledger-sync.", "INC-7: ledger-sync dropped messages.")
    first, second = (each.id for each in app.remember([NewRecord(text=text) for text in texts], app.caller()))
    async with Client(build_server(app)) as client:
        result = await client.call_tool("recall", {"query": "How is Acme Foods tied to INC-7?"})
    assert isinstance(result.content[0], TextContent)
    line = f"Acme Foods → {first} → ledger-sync → {second} → INC-7"
    assert result.content[0].text.startswith(f"Tied: {line}\n- [")
    assert (result.structured_content or {})["tie"] == line

"""A client that starts servers elsewhere says which folder is open, and works in that project."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import ErrorData, ListRootsResult, Root

from mcp_memory.app import App, open_app
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.settings import load_settings

Roots = ListRootsResult | ErrorData


def open_here(tmp_path: Path, **settings: Any) -> App:
    chosen = {"data_dir": tmp_path / "data", "namespace": "default", "roots": True, **settings}
    return open_app(load_settings(**chosen), folder=tmp_path)


async def namespace_of(app: App, answer: Roots | None, calls: int = 1, mode: str = "legacy") -> tuple[str, int]:
    """Where the client works after so many calls, and how often it was asked for its folders."""
    asked = 0

    async def roots(context: Any) -> Roots:
        nonlocal asked
        asked += 1
        assert answer
        return answer

    server = build_server(app)
    async with Client(server, mode=mode, list_roots_callback=roots if answer else None) as client:
        for _ in range(calls):
            await client.call_tool("recall", {"query": "ports"})
    return app.own.membership.namespace, asked


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "the shop"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/team/shop.git\n', "utf-8")
    return folder


@pytest.mark.anyio
async def test_the_first_folder_that_is_there_decides_and_is_asked_for_once(tmp_path: Path, shop: Path) -> None:
    addresses = ("vscode-remote://host/x", "file://server/share", (tmp_path / "gone").as_uri(), shop.as_uri())
    answer = ListRootsResult(
        roots=[Root.model_validate({"uri": address}) for address in addresses if "file:" in address]
    )
    app = open_here(tmp_path)
    assert await namespace_of(app, answer, calls=2) == ("example.org/team/shop", 1)
    app.close()


NO_FOLDER: list[tuple[str, Callable[[], Roots | None], str]] = [
    ("says none", lambda: ListRootsResult(roots=[]), "legacy"),
    ("refuses", lambda: ErrorData(code=-32603, message="no"), "legacy"),
    ("has no roots", lambda: None, "legacy"),
    ("is of the newer era", lambda: ListRootsResult(roots=[]), "auto"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("why", "answer", "mode"), NO_FOLDER, ids=[case[0] for case in NO_FOLDER])
async def test_without_a_folder_the_settings_count(
    tmp_path: Path, why: str, answer: Callable[[], Roots | None], mode: str
) -> None:
    app = open_here(tmp_path)
    assert (await namespace_of(app, answer(), mode=mode))[0] == "default", why
    app.close()


@pytest.mark.anyio
async def test_no_client_is_asked_unless_its_entry_says_so(tmp_path: Path, shop: Path) -> None:
    answer = ListRootsResult(roots=[Root.model_validate({"uri": shop.as_uri()})])
    app = open_here(tmp_path, roots=False)
    assert await namespace_of(app, answer) == ("default", 0)
    app.close()

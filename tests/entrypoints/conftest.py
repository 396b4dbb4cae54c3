from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import open_app
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.ports.text import Embedder


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder: "Embedder") -> Iterator["App"]:
    """A real app over an empty memory."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    opened = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"), embedder=embedder)
    yield opened
    opened.close()

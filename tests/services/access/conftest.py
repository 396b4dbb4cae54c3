"""What tests of projects share: the one memory, as processes in several folders open it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.settings import load_settings
from tests.conftest import Clock


@pytest.fixture
def at(tmp_path: Path, clock: Clock, embedder: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], App]]:
    """Opens the one memory for a process that works in a folder."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    opened: list[App] = []

    def open_at(folder: Path) -> App:
        folder.mkdir(parents=True, exist_ok=True)
        opened.append(open_app(load_settings(data_dir=tmp_path / "data"), clock, embedder, folder=folder))
        return opened[-1]

    yield open_at
    for each in opened:
        each.close()

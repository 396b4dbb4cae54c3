"""Short ways to ask a real memory for something."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.services.memory.remember import Remembered


@pytest.fixture
def remember(app: App) -> Callable[..., Remembered]:
    """Remember one text: `remember("text", caller=…, kind="decision", …)`."""

    def remember_one(text: str, caller: Caller | None = None, **fields: Any) -> Remembered:
        return app.remember([NewRecord(text=text, **fields)], caller or app.caller())[0]

    return remember_one

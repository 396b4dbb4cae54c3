"""A server that maintains its memory while it serves."""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.conftest import ServerProcess

PATIENCE_SECONDS = 60.0
LONG_AGO = 1_500_000_000.0


def test_a_server_maintains_what_is_due_beside_its_calls_and_leaves_at_once(
    start_server: "Callable[..., ServerProcess]", tmp_path: Path
) -> None:
    """C8.2, C8.7: an old episode is archived without anybody having asked for it."""
    text = "It was a long day."
    with closing(open_app(load_settings(data_dir=tmp_path / "data", namespace="test"), lambda: LONG_AGO)) as then:
        then.remember([NewRecord(text=text, kind="episode")], then.caller())
    server = start_server(tmp_path / "data", {"MCP_MEMORY_MAINTAIN_MINUTES": "0.001"})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _read(server, "memory://status")["statuses"] != {"archived": 1}:  # Who opens the episode makes it new.
        assert time.monotonic() < deadline
    server.close_input()
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert "Traceback" not in server.log


def test_a_full_log_is_compacted_by_itself(start_server: "Callable[..., ServerProcess]", tmp_path: Path) -> None:
    """D1.1: what `remember` stored of a conversation is kept inside its window, without anybody calling compact."""
    server = start_server(tmp_path / "data", {"MCP_MEMORY_COMPACTION_WINDOW": "4000"})
    for number in range(12):
        lines = "\n".join(f"row {line} of table {number}" for line in range(60))
        call = {"session_id": "work", "tool": "query", "call_id": f"c{number}"}
        server.call(
            "remember",
            items=[
                {"kind": "message", "role": "user", "text": f"Read table {number}.", "session_id": "work"},
                {"kind": "tool_call", "text": f"table {number}", **call},
                {"kind": "tool_result", "text": lines, **call},
            ],
        )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (page := _session(server, "work"))["log"]["share"] > 0.9:
        assert time.monotonic() < deadline
    assert page["compactions"][0]["trigger"] == "forced"


def _session(server: "ServerProcess", name: str) -> dict[str, Any]:
    return _read(server, f"memory://session/{name}")


def _read(server: "ServerProcess", uri: str) -> dict[str, Any]:
    return json.loads(server.request("resources/read", {"uri": uri})["contents"][0]["text"])

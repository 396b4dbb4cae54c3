"""A server's socket for hooks, in its own process; tests/e2e has it between processes."""

import sys
from pathlib import Path

import pytest

from mcp_memory.entrypoints.hooks.answering import Answer, HookSocket
from mcp_memory.entrypoints.hooks.live_sockets import OUTPUT
from mcp_memory.entrypoints.server.private_sockets import FOLDER


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="no sockets that name their user")
def test_a_server_that_stops_takes_its_sockets_name_away_at_once(tmp_path: Path) -> None:
    opened = HookSocket(lambda asked: Answer(OUTPUT), tmp_path, {})
    opened.start()
    assert len(list((tmp_path / FOLDER).iterdir())) == 2
    opened.stop(0.0)
    assert list((tmp_path / FOLDER).iterdir()) == []

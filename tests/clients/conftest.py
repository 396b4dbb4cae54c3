"""What the tests with foreign clients share: the clients, folders that only they use, and a server to speak to."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.node_packages import NodePackages, Unavailable, install
from tests.clients.programs import environment, memory_in, running, say_aloud


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest) -> NodePackages:
    """The clients. Where they cannot be had, their tests are skipped, and a line on the terminal says so."""
    try:
        return install(request.config.cache.mkdir("clients"))
    except Unavailable as reason:
        say_aloud(request.config, f"NOT TESTED with foreign clients: {reason}")
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def http_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server answers over HTTP; the tests of this folder share its memory."""
    home = tmp_path_factory.mktemp("served")
    command = [sys.executable, "-m", "mcp_memory", "serve", "--http", "--port", "0"]
    with running(command, environment(home, **memory_in(home)), home) as server:
        yield _announced(server, home / "err.log")


def _announced(server: "subprocess.Popen[str]", log: Path) -> str:
    """The address that the server says it serves at, once it does."""
    while server.poll() is None:
        if found := re.search(r"^Serving MCP at (\S+)$", log.read_text("utf-8"), re.MULTILINE):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(log.read_text("utf-8"))

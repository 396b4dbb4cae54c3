"""How many connections there may be."""

import sys
from pathlib import Path

import psutil
import pytest

from mcp_memory.entrypoints.http.server import choose_limits
from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import load_settings

resource = pytest.importorskip("resource")


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))


def allow_files(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Let the limit be so many more files than are open."""
    limit = more if more == resource.RLIM_INFINITY else psutil.Process().num_fds() + more

    def own_limit(_of_what: int) -> tuple[int, int]:
        return limit, limit

    monkeypatch.setattr(resource, "getrlimit", own_limit)


@pytest.mark.parametrize(
    ("files", "connections", "calls"),
    [(10_000, 512, 40), (400, 272, 40), (76, 38, 12), (resource.RLIM_INFINITY, 512, 40)],
)
def test_connections_leave_the_store_its_files(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int, calls: int
) -> None:
    """X6.1."""
    allow_files(monkeypatch, files)
    limits = choose_limits(load_settings(http_calls=40))
    assert (limits.connections, limits.calls) == (connections, calls)
    assert (limits.from_this_machine, limits.from_elsewhere) == (connections, connections // 2)


def test_what_is_asked_for_counts_as_far_as_it_fits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """X6.1."""
    allow_files(monkeypatch, 400)
    limits = choose_limits(load_settings(http_connections=100, http_connections_per_address=7))
    assert (limits.connections, limits.from_this_machine, limits.from_elsewhere) == (100, 7, 7)
    assert caplog.text == ""
    assert choose_limits(load_settings(http_connections=1_000)).connections == 272
    assert "272 connections fit into the limit of open files" in caplog.text


def test_with_too_few_files_nobody_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """X6.1."""
    allow_files(monkeypatch, 6)
    with pytest.raises(InvalidRequest, match="raise its limit with `ulimit -n`"):
        choose_limits(load_settings())


def test_where_files_are_not_limited_the_usual_number_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """X6.1."""
    monkeypatch.setattr(sys, "platform", "win32")
    assert choose_limits(load_settings()).connections == 512

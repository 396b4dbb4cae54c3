"""A window's files, from the setting in its environment to what another client's recall finds."""

from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import ServerProcess
from tests.e2e.test_hooks_through_servers import eventually


def test_what_a_clients_file_says_is_found_by_another_client(
    tmp_path: Path, start_server: Callable[..., ServerProcess]
) -> None:
    (tmp_path / "CLAUDE.md").write_text("# Tests\n\nThe port of the test database is 5544.\n", "utf-8")
    start_server(tmp_path / "data", {"MCP_MEMORY_READ_FILES": "CLAUDE.md"}, folder=tmp_path)
    other = start_server(tmp_path / "data", folder=tmp_path)
    question = {"query": "the port of the test database"}
    eventually(lambda: other.call("recall", **question)["structuredContent"]["results"])
    found = other.call("recall", **question)["structuredContent"]["results"]
    assert [each["text"] for each in found] == ["CLAUDE.md, Tests: The port of the test database is 5544."]

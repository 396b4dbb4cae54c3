"""install, then uninstall, in files as people write them: all bytes as before, or nothing was written at all."""

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client, Places
from mcp_memory.entrypoints.clients.entries import Wanted, plan_install, plan_uninstall
from mcp_memory.errors import Conflict

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
WANTED = Wanted(start=("/opt/bin/mcp-memory",), variables={"MCP_MEMORY_AGENT": "critic"})
COMMENT = re.compile(r"c\d+c")
"""What each comment of a made file says, so that none is lost unseen."""

SPACES = st.lists(st.sampled_from([" ", "\n", "\t", "\r\n", "\n    "]), max_size=2).map("".join)
COMMENTS = st.integers(0, 9999).flatmap(lambda n: st.sampled_from([f"// c{n}c\n", f"/* c{n}c */", f"// c{n}c, {{\r\n"]))
SPACES_AND_COMMENTS = st.lists(SPACES | COMMENTS, max_size=2).map("".join)
TOML_PARTS = st.sampled_from(
    [
        'model = "o"  # c1c',
        "# c2c",
        "",
        "\t",
        "[mcp_servers]",
        "[mcp_servers.docs]",
        '[ "mcp_servers" . other ]  # c3c',
        "[mcp_servers.docs.env]",
        "[[profiles]]",
        "[[mcp_servers.list]]",
        "[mcp_servers.memory2]",
        'command = "x" # c4c',
        'args = [\n  "[mcp_servers.memory]", # c5c\n  [1, 2],\n]',
        'text = """\n[mcp_servers.memory]\ncommand = "no"\n"""',
        "raw = '''\n# no comment\n[mcp_servers.memory]'''",
        "docs2 = { command = 'x', env = { A = '#' } }",
        'mcp_servers.dotted.command = "x" # c6c',
        "mcp_servers = {}",
        'mcp_servers = { docs = { command = "x" } } # c7c',
        "since = 2026-11-20T12:00:00Z",
        "n = " + "1" * 5000,
        "a = ",
    ]
)


@st.composite
def json_objects(draw: st.DrawFn, space: st.SearchStrategy[str], names: st.SearchStrategy[str], depth: int = 0) -> str:
    """An object with anything between its signs; some with a comma behind the last member, some with a name twice."""
    plain = st.sampled_from(["1", "null", '"x // no comment"', "[]", "{}", "[1,\n 2]", "1" * 5000, "NaN", "'x'"])
    inner = plain if depth > 1 else plain | json_objects(space, st.sampled_from("abc"), depth + 1)
    members = [
        f'{draw(space)}"{draw(names)}"{draw(space)}:{draw(space)}{draw(inner)}{draw(space)}'
        for _ in range(draw(st.integers(0, 3)))
    ]
    comma = draw(st.sampled_from(["", "", "", ","])) if members else ""
    return "{" + draw(space) + ",".join(members) + comma + draw(space) + "}"


@st.composite
def json_files(draw: st.DrawFn) -> str:
    space = draw(st.sampled_from([SPACES, SPACES_AND_COMMENTS]))
    keys = st.sampled_from(["mcpServers", "servers", "context_servers", "mcpservers", "theme", "url"])
    return draw(space) + draw(json_objects(space, keys) | st.sampled_from(["", "[]", "null"])) + draw(space)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(st.lists(TOML_PARTS, max_size=6))
    return end.join(part.replace("\n", end) for part in lines) + draw(st.sampled_from(["", end]))


FILES = st.tuples(st.sampled_from(["", "\ufeff"]), json_files() | toml_files()).map("".join)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(text=FILES)
@example(text='{"mcpServers": { }}')
@example(text='{"mcpServers" /* c1c */ : {}}')
@example(text='{"mcpServers": {}, "mcpServers": {}}')
@example(text='{"servers": {"memory": {"command": "mcp-memory"}, "memory": {"command": "mcp-memory"}}}')
@example(text='model = """\n[mcp_servers.memory]\n"""')
@example(text="[mcp_servers]\n# c1c")
def test_what_is_installed_is_uninstalled_to_the_byte(client: Client, text: str) -> None:
    """S7.1: or it is refused before anything is written. Comments are kept all along."""
    with tempfile.TemporaryDirectory() as folder:
        places = Places(home=Path(folder), project=Path(folder), platform="linux", variables={})
        path = client.user_file(places)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = text.encode()
        path.write_bytes(before)
        try:
            change = plan_install(client, WANTED, places)
        except Conflict:
            assert [each.name for each in path.parent.iterdir() if each.is_file()] == [path.name]
            assert path.read_bytes() == before
            return
        had = '"memory"' in text  # Then it is replaced, and nobody says what was there.
        assert had or COMMENT.findall(change.text) == COMMENT.findall(text)
        kept = change.apply(NOW)
        plan_uninstall(client, "memory", places, project=False, force=True).apply(NOW)
        assert had or path.read_bytes() == before
        if kept is not None and not had:
            path.write_bytes(change.text.encode())
            for copy in path.parent.glob("*.bak-*"):
                copy.unlink()
            alone = plan_uninstall(client, "memory", places, project=False, force=False)
            assert COMMENT.findall(alone.text) == COMMENT.findall(text)

"""Hooks and instructions in a person's files: written beside what is there, and taken out again."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.bridge.hook import SECONDS
from mcp_memory.entrypoints.clients.automatic import plan_hooks
from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client
from mcp_memory.entrypoints.clients.entries import Change, Wanted
from mcp_memory.entrypoints.clients.files import read_file
from mcp_memory.entrypoints.hooks import client_events
from mcp_memory.entrypoints.owner import client_start

if TYPE_CHECKING:
    from tests.entrypoints.clients.conftest import Computer, Run

WITH_HOOKS = [client for client in CLIENTS if client.hooks]
SCOPES = pytest.mark.parametrize("of_project", [False, True], ids=["own", "project"])
OTHERS = {"type": "command", "command": "./audit.sh", "timeout": 9}
"""A hook that somebody else wrote."""


def named(value: object) -> str:
    return value.name if isinstance(value, Client) else str(value)


@SCOPES
@pytest.mark.parametrize("client", WITH_HOOKS, ids=named)
def test_hooks_are_written_beside_those_of_others_and_taken_out_again(
    run: "Run", computer: "Computer", client: Client, of_project: bool
) -> None:
    assert client.hooks
    path = client.own_file(client.hooks, computer(), project=of_project)
    path.parent.mkdir(parents=True, exist_ok=True)
    event = next(iter(client.hooks.events))
    theirs = {"hooks": [OTHERS]} if client.hooks.grouped else OTHERS
    before = json.dumps({"version": 1, "hooks": {event: [theirs], "theirs": []}}, indent=4) + "\n"
    path.write_text(before, "utf-8")
    arguments = (client.name, "--hooks", *["--project"] * of_project, "--command", "mcp-memory", "--agent", "a b")
    assert f"hook {client.hooks.events[event]} --client {client.name}" in run("install", *arguments, "--dry-run").out
    assert path.read_text("utf-8") == before
    assert run("install", *arguments).code == 0
    hooks = json.loads(path.read_text("utf-8"))["hooks"]
    assert hooks["theirs"] == []
    assert hooks[event][0] == theirs
    for name, ours in client.hooks.events.items():
        (written,) = hooks[name][-1].get("hooks", hooks[name][-1:])
        assert written["command"].startswith("MCP_MEMORY_AGENT='a b' ")
        assert written["command"].endswith(f" mcp-memory hook {ours} --client {client.name}")
        assert written["timeout"] / client.hooks.a_second >= SECONDS[ours] + 2
    again = path.read_text("utf-8")
    assert "Nothing to change: 'hooks'" in run("install", *arguments).out or client.name == "gemini-cli"
    assert path.read_text("utf-8") == again
    assert "loads its memory by itself" not in run("install", client.name, "--agent", "c", *arguments[2:3]).out
    assert run("uninstall", client.name, *["--project"] * of_project).code == 0
    left = json.loads(path.read_text("utf-8"))
    assert left == json.loads(before)


@pytest.mark.parametrize("client", WITH_HOOKS, ids=named)
def test_a_file_of_hooks_is_made_and_left_without_any(run: "Run", computer: "Computer", client: Client) -> None:
    assert client.hooks
    told = json.loads(run("install", client.name, "--hooks", "--json").out)
    path = client.own_file(client.hooks, computer(), project=False)
    assert {path} == {Path(each["path"]) for each in told.get("also", [told])}
    assert client.hooks.note in ("", told["next"][-1])
    assert set(json.loads(path.read_text("utf-8"))["hooks"]) == set(client.hooks.events)
    run("uninstall", client.name)
    assert json.loads(path.read_text("utf-8")) == json.loads(client.hooks.begin or "{}")


@pytest.mark.parametrize("client", WITH_HOOKS, ids=named)
def test_on_windows_a_hook_has_its_settings_as_options_which_the_command_takes(
    run: "Run", computer: "Computer", client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable stands before a command there; a key is in no command line of a process."""
    variables = {"MCP_MEMORY_AGENT": "a b", "MCP_MEMORY_DATA_DIR": "/data", "MCP_MEMORY_NAMESPACE": "shop"}
    variables |= {"MCP_MEMORY_URL": "http://localhost:1/mcp", "MCP_MEMORY_TOKEN": "secret"}
    wanted, places = (
        Wanted(start=("C:\\Program Files\\m.exe", "-m", "mcp_memory"), variables=variables),
        computer("windows"),
    )
    assert client.hooks
    found = read_file(client.own_file(client.hooks, places, project=False))
    beside = Change(client=client, found=found, name="memory", entry=None, text=found.text)
    asked: list[tuple[str, dict[str, object], str]] = []

    def run_hook(name: str, chosen: dict[str, object], client: str) -> None:
        asked.append((name, chosen, client))

    monkeypatch.setattr(client_start, "run_hook", run_hook)
    for hooks in json.loads(plan_hooks(client, wanted, places, beside).text)["hooks"].values():
        (written,) = hooks[-1].get("hooks", hooks[-1:])
        assert written["command"].startswith('"C:\\Program Files\\m.exe" -m mcp_memory hook ')
        assert run(*shlex.split(written["command"].partition(" mcp_memory ")[2])).code == 0
    chosen = {"data_dir": Path("/data"), "namespace": "shop", "agent": "a b", "url": "http://localhost:1/mcp"}
    assert asked == [(event, chosen, client.name) for event in client.hooks.events.values()]


def test_every_client_whose_hooks_are_written_is_answered() -> None:
    known = {each.name for each in client_events.CLIENTS}
    assert {client.name for client in WITH_HOOKS} | {client_events.CLAUDE_CODE} == known


def test_hooks_that_cannot_be_edited_are_left_alone(run: "Run", home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    for text in ('{"hooks": {"BeforeTool": [ // mine\n]}}', '{"hooks": {"BeforeTool": 1}}', '{"hooks": []}'):
        path.write_text(text, "utf-8")
        ran = run("install", "gemini-cli", "--hooks")
        assert (ran.code, path.read_text("utf-8")) == (1, text)
        assert f"{path} was left alone: " in ran.err
        assert "hook PreToolUse --client gemini-cli" in ran.err
    ran = run("install", "windsurf", "--hooks")
    assert ran.err.startswith("mcp-memory: Windsurf documents no hooks that can give it its memory; use --instructions")
    assert not (home / ".codeium").exists()
    ran = run("install", "claude-code", "--hooks")
    assert "gets its hooks by the plugin" in ran.err
    assert not (home / ".claude.json").exists()


@SCOPES
@pytest.mark.parametrize("client", [each for each in CLIENTS if each.instructions], ids=named)
def test_a_block_of_instructions_goes_in_and_out(
    run: "Run", computer: "Computer", client: Client, of_project: bool
) -> None:
    assert client.instructions
    scope = ["--project"] * (of_project and client.project is not None)
    path = client.own_file(client.instructions, computer(), project=of_project)
    for before in ("", "# Mine\n", "# Without an end"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(before, "utf-8")
        assert run("install", client.name, "--instructions", *scope).code == 0
        text = path.read_text("utf-8")
        block = text.partition("takes this out) -->\n")[2].partition("<!--")[0]
        assert ("`assemble_context`" in block, len(block.splitlines())) == (True, 3)  # As docs/clients.md says.
        assert text.startswith(before or client.instructions.begin)
        assert run("install", client.name, "--instructions", *scope, "--force").code == 0
        assert path.read_text("utf-8") == text
        assert run("uninstall", client.name, *scope).code == 0
        assert path.read_text("utf-8").strip() == before.strip()


def test_an_entry_of_the_project_is_named_where_there_is_none_of_ones_own(run: "Run", project: Path) -> None:
    assert run("install", "cursor", "--project", "--namespace", "shop").code == 0
    told = run("uninstall", "cursor")
    assert "Nothing to change" in told.out
    assert f"{project / '.cursor' / 'mcp.json'} has it, too: `mcp-memory uninstall cursor --project` takes" in told.err
    run("uninstall", "cursor", "--project")
    assert run("uninstall", "cursor").err == ""


def test_one_block_serves_all_clients_that_read_the_file(run: "Run", project: Path) -> None:
    for name in ("codex", "zed"):
        assert run("install", name, "--project", "--instructions").code == 0
    path = project / "AGENTS.md"
    assert path.read_text("utf-8").count("`assemble_context`") == 1
    run("uninstall", "zed", "--project")
    assert "for codex: begin" in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace("for codex: end", "gone"), "utf-8")
    assert "has no end; take it out by hand" in run("uninstall", "codex", "--project").err

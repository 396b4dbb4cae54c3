"""install and uninstall, as a person runs them who stands in a project."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mcp_memory
from mcp_memory.entrypoints.clients import entries
from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client
from mcp_memory.entrypoints.clients.entries import Wanted, plan_install, plan_uninstall

if TYPE_CHECKING:
    from tests.entrypoints.clients.conftest import Computer, Run

PROGRAM = ("/opt/bin/mcp-memory",)
TOLD = {"MCP_MEMORY_NAMESPACE": "default", "MCP_MEMORY_ROOTS": "true"}
"""Variables of an entry whose client says which folder is open; without one, its work is the one of all places."""


def load(client: Client, text: str) -> Any:
    return tomllib.loads(text) if client.name == "codex" else json.loads(text)


EVERY_FILE = [
    (client, of_project) for client in CLIENTS for of_project in (False, True) if client.project or not of_project
]


@pytest.mark.parametrize(("client", "of_project"), EVERY_FILE, ids=lambda value: getattr(value, "name", str(value)))
def test_every_client_gets_an_entry_in_its_own_form(client: Client, of_project: bool, computer: "Computer") -> None:
    """S7.1: and loses it again."""
    wanted = Wanted(start=PROGRAM, variables={"MCP_MEMORY_AGENT": "a"}, project=of_project)
    change = plan_install(client, wanted, computer())
    entry = load(client, change.text)[client.key]["memory"]
    assert entries.command_of(entry) == PROGRAM
    assert entry.get("args", []) == []
    assert entry["environment" if client.name == "opencode" else "env"] == {"MCP_MEMORY_AGENT": "a"}
    types = {"claude-code": "stdio", "vscode": "stdio", "opencode": "local"}
    assert entry.get("type") == types.get(client.name)
    assert entry.get("cwd") == ("${workspaceFolder}" if client.name == "vscode" and of_project else None)
    assert entry == change.entry
    change.found.path.parent.mkdir(parents=True, exist_ok=True)
    change.found.path.write_text(change.text, "utf-8")
    assert not plan_install(client, wanted, computer()).changes
    out = plan_uninstall(client, "memory", computer(), project=of_project, force=False)
    assert load(client, out.text) == {}


def test_the_file_is_merged_and_the_former_one_kept(run: "Run", home: Path) -> None:
    """S7.1: again, nothing changes; taken out, every byte is as before."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    before = '{\n\t"mcpServers": {"docs": {"url": "https://example.org", "n": 1.0}},\n\t"z": [],\n\t"a": "ü"\n}\n'
    path.write_text(before, "utf-8")
    ran = run("install", "cursor", "--agent", "critic")
    assert (ran.code, ran.err) == (0, "")
    first, kept, *rest = ran.out.splitlines()
    assert first == f"'memory' is in {path} (Cursor)."
    assert Path(kept.removeprefix("The former file is ").removesuffix(".")).read_text("utf-8") == before
    assert rest == [
        "Switch the server on in Cursor's settings, under MCP.",
        "With `mcp-memory install cursor --hooks` Cursor loads its memory by itself; --dry-run shows it first.",
    ]
    after = json.loads(path.read_text("utf-8"))
    assert list(after) == ["mcpServers", "z", "a"]
    env = after["mcpServers"]["memory"]["env"]
    assert env == {"MCP_MEMORY_AGENT": "critic", **TOLD}
    files = sorted(path.parent.iterdir())
    assert run("install", "cursor", "--agent", "critic").out.startswith("Nothing to change: 'memory' is up to date")
    assert sorted(path.parent.iterdir()) == files
    assert run("uninstall", "cursor").out.startswith(f"'memory' was removed from {path} (Cursor).")
    assert path.read_text("utf-8") == before
    run("install", "cursor")
    assert run("uninstall", "cursor").out.splitlines()[2:] == [
        "Restart Cursor: until then it may keep using the server."
    ]
    assert run("uninstall", "cursor").out.startswith("Nothing to change: 'memory' is not there")


def test_a_dry_run_shows_the_difference_and_writes_nothing(run: "Run", home: Path) -> None:
    """S7.1: into a file that is there, into none, and out of one."""
    path = home / ".codex" / "config.toml"
    assert "+[mcp_servers.memory]" in run("install", "codex", "--dry-run").out.splitlines()
    assert not path.parent.exists()
    path.parent.mkdir()
    path.write_text('model = "o" # mine\n', "utf-8")
    ran = run("install", "codex", "--dry-run", "--json")
    told = json.loads(ran.out)
    assert (told["changed"], told["backup"]) == (False, None)
    assert ' model = "o" # mine' in told["diff"].splitlines()
    assert [file.name for file in path.parent.iterdir()] == ["config.toml"]
    run("install", "codex")
    before = path.read_bytes()
    assert "-[mcp_servers.memory]" in run("uninstall", "codex", "--dry-run").out.splitlines()
    assert path.read_bytes() == before


def test_a_project_has_its_own_entry(run: "Run", project: Path, tmp_path: Path) -> None:
    """S7.1, S4.1: with its namespace, where the client starts servers elsewhere than in the project."""
    ran = run("install", "cursor", "--project", "--json")
    told = json.loads(ran.out)
    assert Path(told["path"]) == project / ".cursor" / "mcp.json"
    assert told["entry"]["env"] == {"MCP_MEMORY_NAMESPACE": "example.org/team/shop"}
    assert any("use --command mcp-memory" in step for step in told["next"])
    ran = run("install", "claude-code", "--project", "--command", "mcp-memory", "--json")
    told = json.loads(ran.out)
    assert json.loads((project / ".mcp.json").read_text("utf-8")) == {"mcpServers": {"memory": told["entry"]}}
    assert told["entry"] == {"type": "stdio", "command": "mcp-memory", "args": []}
    assert not any("use --command" in step for step in told["next"])
    assert run("uninstall", "claude-code", "--project").code == 0
    assert json.loads((project / ".mcp.json").read_text("utf-8")) == {}
    ran = run("install", "windsurf", "--project")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("mcp-memory: Windsurf has no file per project; leave --project out")


def test_servers_that_start_anywhere_share_one_memory_by_name(run: "Run", home: Path) -> None:
    """S7.1, X2.2: the folder that a client happens to start them in would give them one of its own."""
    path, url = home / ".cursor" / "mcp.json", "https://memory.example.org/mcp"

    def environment(*arguments: str) -> dict[str, str]:
        assert run("install", "cursor", *arguments).code == 0
        return json.loads(path.read_text("utf-8"))["mcpServers"]["memory"]["env"]

    assert environment("--env", "MCP_MEMORY_NAMESPACE=work") == {"MCP_MEMORY_NAMESPACE": "work"}
    assert environment() == {"MCP_MEMORY_NAMESPACE": "work"}
    path.unlink()
    assert environment("--url", url) == {"MCP_MEMORY_URL": url}
    assert environment() == {"MCP_MEMORY_URL": url}
    path.unlink()
    assert environment() == TOLD
    assert environment("--namespace", "work") == {"MCP_MEMORY_NAMESPACE": "work"}
    path.write_text(path.read_text("utf-8").replace('"work"', '"default"'), "utf-8")
    assert environment() == TOLD, "as an earlier version wrote it"
    assert "env" not in json.loads(run("install", "claude-code", "--json").out)["entry"]


NO_FOLDER = {"claude-desktop", "windsurf", "cline"}
"""Clients that tell no server which folder is open, and have no file of a project: docs/clients.md names them."""


@pytest.mark.parametrize(("client", "of_project"), EVERY_FILE, ids=lambda value: getattr(value, "name", str(value)))
def test_all_clients_of_a_project_meet_in_its_memory(run: "Run", client: Client, of_project: bool, home: Path) -> None:
    """The folder leads there where the client tells it; else the entry names it. Where neither can be, it is said."""
    where = ("--data-dir", str(home.parent / "data"), "install", client.name, *["--project"] * of_project)
    dry = json.loads(run(*where, "--dry-run", "--json").out)
    assert dry["diff"]
    ran = json.loads(run(*where, "--json").out)
    assert ran["entry"] == dry["entry"]
    entry = load(client, Path(ran["path"]).read_text("utf-8"))[client.key]["memory"]
    assert entry == ran["entry"]
    given = entries.variables_of(entry).items()
    chosen = {name: value for name, value in given if name != "MCP_MEMORY_DATA_DIR"}
    if client.starts_in_project or "cwd" in entry:
        assert chosen == {}, "the folder decides"
    elif of_project:
        assert chosen == {"MCP_MEMORY_NAMESPACE": "example.org/team/shop"}
    else:
        assert chosen == ({"MCP_MEMORY_NAMESPACE": "default"} if client.name in NO_FOLDER else TOLD)
    is_said = any("tells no server which folder is open" in step for step in ran["next"])
    assert is_said == (client.name in NO_FOLDER)


def test_a_projects_entry_names_no_memory_that_the_project_was_not_given(
    run: "Run", project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2.1: the folder that installs first has its name; another clone has it by command."""
    where = ["--data-dir", str(project.parent / "data")]
    dry = json.loads(run(*where, "install", "cursor", "--project", "--dry-run", "--json").out)
    assert dry["entry"]["env"]["MCP_MEMORY_NAMESPACE"] == "example.org/team/shop"
    assert not (project.parent / "data").exists()
    assert run(*where, "install", "cursor", "--project").code == 0
    copy = project.parent / "copy"
    shutil.copytree(project / ".git", copy / ".git")
    monkeypatch.chdir(copy)
    for command in (["install", "cursor", "--project"], ["install", "cursor", "--project", "--dry-run"]):
        ran = run(*where, *command)
        assert (ran.code, ran.out) == (1, "")
        assert "claims to be example.org/team/shop" in ran.err
        assert "`mcp-memory trust`" in ran.err
    assert not (copy / ".cursor").exists()
    assert run(*where, "trust").code == 0
    assert run(*where, "install", "cursor", "--project").code == 0


def test_options_become_variables_wherever_they_stand(run: "Run", home: Path) -> None:
    """S7.1: a folder by its full path; later ones are added to those that are there."""
    run("--agent", "a", "--data-dir", "here", "install", "cursor", "--namespace", "n", "--env", "X=1=2")
    path = home / ".cursor" / "mcp.json"
    env = json.loads(path.read_text("utf-8"))["mcpServers"]["memory"]["env"]
    assert env == {
        "MCP_MEMORY_NAMESPACE": "n",
        "MCP_MEMORY_AGENT": "a",
        "MCP_MEMORY_DATA_DIR": str(Path.cwd() / "here"),
        "X": "1=2",
    }
    run("install", "cursor", "--agent", "b")
    assert json.loads(path.read_text("utf-8"))["mcpServers"]["memory"]["env"] == {**env, "MCP_MEMORY_AGENT": "b"}


def test_a_server_elsewhere_is_named_without_a_token(run: "Run", home: Path) -> None:
    """S7.1, S4.3: a token is written only where --env says so."""
    told = json.loads(run("install", "cursor", "--project", "--url", "https://memory.example.org/mcp", "--json").out)
    assert told["entry"]["env"] == {"MCP_MEMORY_URL": "https://memory.example.org/mcp"}
    assert any("needs MCP_MEMORY_TOKEN" in step for step in told["next"])
    ran = run("install", "codex", "--url", "https://memory.example.org/mcp", "--env", "MCP_MEMORY_TOKEN=t")
    assert "token" not in ran.out.lower()
    assert 'MCP_MEMORY_TOKEN = "t"' in (home / ".codex" / "config.toml").read_text("utf-8")
    ran = run("install", "cursor", "--url", "memory.example.org")
    assert ran.code == 1
    assert ran.err.startswith("mcp-memory: --url: must be http://")
    assert "MCP_MEMORY_URL" not in ran.err


def test_a_variable_that_moves_a_client_is_followed(
    run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1: as the client does."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert run("install", "codex").code == 0
    assert "mcp_servers" in tomllib.loads((tmp_path / "codex" / "config.toml").read_text("utf-8"))


def test_no_variable_of_ours_is_copied_from_the_environment(
    run: "Run", home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1, S4.3: keys least of all."""
    monkeypatch.setenv("MCP_MEMORY_CHROMA_API_KEY", "planted-key")
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "planted")
    assert run("install", "cursor").code == 0
    assert "planted" not in (home / ".cursor" / "mcp.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "Name a client, as in `mcp-memory install cursor`"),
        (("emacs",), "No client 'emacs'; name one of claude-code,"),
        (("Curser",), "No client 'Curser'; did you mean cursor? If not, name one of claude-code,"),
        (("cursor", "--env", "X"), "--env 'X' is not KEY=VALUE"),
        (("cursor", "--env", "=1"), "--env '' is not KEY=VALUE"),
        (("cursor", "--name", "my memory"), "--name 'my memory' must be letters"),
        (("cursor", "--agent", "a/b"), "--agent: must not hold a slash"),
    ],
)
def test_a_wrong_call_says_what_to_do(run: "Run", home: Path, arguments: tuple[str, ...], error: str) -> None:
    """S7.1, S3.1: in one line, and nothing is written."""
    ran = run("install", *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"mcp-memory: {error}")
    assert len(ran.err.splitlines()) == 1
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("client", "file", "content", "snippet"),
    [
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {}, // mine\n}', '"mcpServers": {'),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "{", '"mcpServers": {'),
        ("gemini-cli", ".gemini/settings.json", "[]", '"mcpServers": {'),
        ("codex", ".codex/config.toml", "model = ", "[mcp_servers.memory]"),
        ("codex", ".codex/config.toml", 'mcp_servers = { a = { command = "x" } }', "[mcp_servers.memory]"),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_alone(
    run: "Run", home: Path, client: str, file: str, content: str, snippet: str
) -> None:
    """S7.1: it is named, with what to paste into it."""
    path = home / file
    path.parent.mkdir(parents=True)
    path.write_text(content, "utf-8")
    ran = run("install", client)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"mcp-memory: {path} was left alone: ")
    assert snippet in ran.err
    assert '"command": ' in ran.err or "command = " in ran.err
    leads = {"cursor": "ROOTS", "windsurf": '"MCP_MEMORY_NAMESPACE": "default"'}.get(client, "mcp_memory")
    assert leads in ran.err, "what is pasted leads to the same memory"
    if "mcp_servers" not in content:
        assert run("uninstall", client).err.startswith(f"mcp-memory: {path} was left alone: ")
    assert path.read_text("utf-8") == content
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_another_server_of_our_name_is_not_replaced_unasked(run: "Run", home: Path) -> None:
    """S7.1: nor taken out."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    text = '{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "server-memory"], "disabled": true}}}'
    path.write_text(text, "utf-8")
    for command in ("install", "uninstall"):
        ran = run(command, "cursor")
        assert (ran.code, ran.out) == (1, "")
        assert "Cursor has another server named 'memory'" in ran.err
        assert "choose a --name, or --force" in ran.err
        assert path.read_text("utf-8") == text
    assert run("install", "cursor", "--name", "memory-2").code == 0
    assert list(json.loads(path.read_text("utf-8"))["mcpServers"]) == ["memory", "memory-2"]
    assert run("install", "cursor", "--force").code == 0
    assert "disabled" not in json.loads(path.read_text("utf-8"))["mcpServers"]["memory"]
    path.write_text(text, "utf-8")
    assert run("uninstall", "cursor", "--force").code == 0
    assert json.loads(path.read_text("utf-8")) == {}


def test_the_list_says_where_we_are(run: "Run", home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: with what is wrong, as JSON too."""
    run("install", "cursor", "--command", str(home / "gone" / "mcp-memory"))
    run("install", "gemini-cli")
    run("install", "claude-code", "--project")
    (home / ".codex").mkdir()
    (home / ".cline" / "data" / "settings" / "cline_mcp_settings.json").mkdir(parents=True)
    (home / ".codeium" / "windsurf").mkdir(parents=True)
    (home / ".codeium" / "windsurf" / "mcp_config.json").write_text("{", "utf-8")
    found = {(each["client"], each["project"]): each for each in json.loads(run("install", "--list", "--json").out)}
    assert {client for client, _ in found} == {client.name for client in CLIENTS}
    assert [key for key in found if key[1]] == [("claude-code", True)]
    assert found["gemini-cli", False]["names"] == ["memory"]
    assert found["gemini-cli", False]["problem"] == ""
    assert not found["claude-code", False]["found"]
    assert found["codex", False]["found"]
    assert found["cursor", False]["problem"].endswith(
        "no longer exists. Run `mcp-memory install cursor --name memory`."
    )
    assert "mcp_config.json cannot be read: it is not JSON" in found["windsurf", False]["problem"]
    assert "cline_mcp_settings.json cannot be read: " in found["cline", False]["problem"]
    monkeypatch.setenv("COLUMNS", "40")  # A path stays in one piece, to be copied.
    lines = run("install", "--list").out.splitlines()
    states = {line.split("  ")[0]: line for line in lines}
    assert "installed as memory" in states["claude-code (project)"]
    assert "wrong, see below" in states["cursor"]
    assert "not installed" in states["codex"]
    assert "client not found" in states["zed"]
    assert str(project / ".mcp.json") in states["claude-code (project)"]


def test_the_command_written_starts_the_program(home: Path, tmp_path: Path) -> None:
    """S7.1: by processes of their own, the second without a PATH."""
    environment = {**os.environ, "HOME": str(home), "USERPROFILE": str(home)}
    environment["MCP_MEMORY_CONFIG"] = str(tmp_path / "none.toml")
    install = [sys.executable, "-m", "mcp_memory", "install", "cursor", "--json"]
    written = subprocess.run(install, capture_output=True, text=True, timeout=60, check=True, env=environment)
    entry = json.loads(written.stdout)["entry"]
    start = [entry["command"], *entry["args"], "--version"]
    assert Path(start[0]).is_absolute()
    environment["PATH"] = ""
    started = subprocess.run(start, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert started.stdout == f"mcp-memory {mcp_memory.__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="profiles are private by their own access lists")
def test_a_file_that_holds_a_token_is_its_owners_alone(run: "Run", home: Path) -> None:
    """S4.3, S7.1: the copy too, and from then on; another variable changes no mode."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text("{}", "utf-8")
    path.chmod(0o644)

    def modes() -> list[int]:
        return [file.stat().st_mode & 0o777 for file in sorted(path.parent.iterdir())]

    run("install", "cursor", "--env", "MCP_MEMORY_MAX_TOKENS=4000")
    assert modes() == [0o644, 0o644]
    for copy in path.parent.glob("*.bak-*"):
        copy.unlink()
    run("install", "cursor", "--env", "MCP_MEMORY_TOKEN=t")
    assert modes() == [0o600, 0o600]
    path.chmod(0o644)
    run("uninstall", "cursor")
    assert modes() == [0o600, 0o600, 0o600]
    run("install", "windsurf", "--env", "MCP_MEMORY_TOKEN=t")
    assert (home / ".codeium" / "windsurf" / "mcp_config.json").stat().st_mode & 0o777 == 0o600


def test_whoever_has_the_plugin_is_told_that_one_server_is_enough(run: "Run", home: Path) -> None:
    """S7.1: in the place of being told of the plugin; a list that cannot be read counts for nothing."""
    warning = "Claude Code now has the server twice"
    listed = home / ".claude" / "plugins" / "installed_plugins.json"
    listed.parent.mkdir(parents=True)
    for text in ("{", '{"version": 2, "plugins": {"other@market": []}}'):
        listed.write_text(text, "utf-8")
        assert warning not in run("install", "claude-code").out
        run("uninstall", "claude-code")
    listed.write_text('{"version": 2, "plugins": {"memory@mcp-memory": [{"scope": "user"}]}}', "utf-8")
    assert warning not in run("install", "cursor").out
    told = run("install", "claude-code", "--project").out
    assert warning in told
    assert "`mcp-memory uninstall claude-code --project`" in told
    assert "The plugin brings hooks" not in told

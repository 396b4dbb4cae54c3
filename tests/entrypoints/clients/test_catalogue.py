"""Where each client keeps its list of servers, on each platform."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client, client_named
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from tests.entrypoints.clients.conftest import Computer

SUPPORT = "Library/Application Support"
ROAMING = "AppData/Roaming"
OWN_FILES = {
    "claude-code": (".claude.json",) * 3,
    "claude-desktop": tuple(f"{folder}/Claude/claude_desktop_config.json" for folder in (".config", SUPPORT, ROAMING)),
    "cursor": (".cursor/mcp.json",) * 3,
    "vscode": tuple(f"{folder}/Code/User/mcp.json" for folder in (".config", SUPPORT, ROAMING)),
    "windsurf": (".codeium/windsurf/mcp_config.json",) * 3,
    "codex": (".codex/config.toml",) * 3,
    "gemini-cli": (".gemini/settings.json",) * 3,
    "zed": (".config/zed/settings.json", ".config/zed/settings.json", f"{ROAMING}/Zed/settings.json"),
    "cline": (".cline/data/settings/cline_mcp_settings.json",) * 3,
    "opencode": (".config/opencode/opencode.json",) * 3,
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
    "zed": ".zed/settings.json",
    "opencode": "opencode.json",
}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_client_has_a_file_per_platform(client: Client, computer: "Computer", home: Path) -> None:
    """S7.1: where nothing in the environment moves it."""
    for platform, expected in zip(("linux", "macos", "windows"), OWN_FILES[client.name], strict=True):
        assert client.user_file(computer(platform)) == home / expected


@pytest.mark.parametrize(
    ("name", "platform", "variable", "file"),
    [
        ("claude-code", "linux", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "macos", "CODEX_HOME", "config.toml"),
        ("claude-desktop", "linux", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("vscode", "linux", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
        ("zed", "linux", "XDG_CONFIG_HOME", "zed/settings.json"),
        ("zed", "windows", "APPDATA", "Zed/settings.json"),
        ("vscode", "windows", "APPDATA", "Code/User/mcp.json"),
        ("claude-desktop", "windows", "APPDATA", "Claude/claude_desktop_config.json"),
    ],
)
def test_a_variable_moves_it_where_the_client_follows_it(
    name: str, platform: str, variable: str, file: str, computer: "Computer", tmp_path: Path, home: Path
) -> None:
    """S7.1: as an absolute path; a relative one counts for nothing, as the standard says."""
    elsewhere = tmp_path / "elsewhere"
    client = client_named(name)
    assert client.user_file(computer(platform, **{variable: str(elsewhere)})) == elsewhere / file
    assert home in client.user_file(computer(platform, **{variable: "elsewhere"})).parents


def test_a_windows_path_is_absolute_wherever_this_runs(computer: "Computer") -> None:
    """S7.1."""
    assert str(client_named("vscode").user_file(computer("windows", APPDATA=r"D:\Roaming"))).startswith("D:\\Roaming")


def test_the_packaged_claude_desktop_has_a_folder_of_its_own(computer: "Computer", home: Path) -> None:
    """S7.1: whatever its publisher's id; the usual folder, which it does not see, is not written."""
    package = home / "AppData" / "Local" / "Packages" / "Claude_abc123" / "LocalCache" / "Roaming" / "Claude"
    package.mkdir(parents=True)
    (home / "AppData" / "Roaming" / "Claude").mkdir(parents=True)
    client = client_named("claude-desktop")
    assert client.user_file(computer("windows")) == package / "claude_desktop_config.json"
    moved = computer("windows", LOCALAPPDATA=str(home / "none"))
    assert client.user_file(moved) == home / "AppData" / "Roaming" / "Claude" / "claude_desktop_config.json"


def test_an_older_cline_keeps_its_file_with_vs_code(computer: "Computer", home: Path) -> None:
    """S7.1: until the newer folder is there."""
    client = client_named("cline")
    old = home / ".config" / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev" / "settings"
    old.mkdir(parents=True)
    assert client.user_file(computer()) == old / "cline_mcp_settings.json"
    new = home / ".cline" / "data" / "settings"
    new.mkdir(parents=True)
    assert client.user_file(computer()) == new / "cline_mcp_settings.json"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_project_has_a_file_of_its_own_where_the_client_reads_one(
    client: Client, computer: "Computer", project: Path
) -> None:
    """S7.1: where it does not, the error says what to do."""
    if client.name in PROJECT_FILES:
        assert client.project_file(computer()) == project / PROJECT_FILES[client.name]
    else:
        with pytest.raises(InvalidRequest, match="leave --project out"):
            client.project_file(computer())


def test_an_unknown_client_is_answered_with_the_known_ones() -> None:
    """S7.1."""
    with pytest.raises(NotFound, match=r"No client 'emacs'; name one of claude-code, .*, opencode\."):
        client_named("emacs")


def test_the_guide_has_a_row_for_every_client() -> None:
    """S7.1: with its files and the name under which servers stand."""
    guide = (Path(__file__).parents[3] / "docs" / "clients.md").read_text("utf-8")
    rows = [line for line in guide.splitlines() if re.match(r"\| `[a-z-]+` \| [A-Z]", line)]
    assert len(rows) == len(CLIENTS)
    for client, row in zip(CLIENTS, rows, strict=True):
        name, title, own, project, key = (cell.strip() for cell in row.strip("|").split("|"))
        assert (name, title, key) == (f"`{client.name}`", client.title, f"`{client.key}`")
        assert Path(OWN_FILES[client.name][0]).name in own
        assert project == (f"`{client.project}`" if client.project else "none")

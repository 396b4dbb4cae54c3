"""What is known of each client, as data: its files per platform, and how it names a server. Opens no file."""

import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Literal, TypeAlias

from mcp_memory.entrypoints.clients.json_text import JsonNotation
from mcp_memory.entrypoints.clients.notation import Notation
from mcp_memory.entrypoints.clients.toml_text import TomlNotation
from mcp_memory.errors import InvalidRequest, NotFound

Platform: TypeAlias = Literal["linux", "macos", "windows"]

JSON = JsonNotation()
JSON_WITH_COMMENTS = JsonNotation(comments=True)
TOML = TomlNotation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The computer as far as paths depend on it. `variables`: of its environment, those in `settings`."""

    home: Path
    project: Path
    platform: Platform
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One program. `user`: patterns of its own file, the one that is there first winning, per platform or for all."""

    name: str
    title: str
    user: Mapping[Platform, tuple[str, ...]] | tuple[str, ...]
    restart: str
    """What makes it read the file again."""
    project: str | None = None
    """The file inside a project, where it has one."""
    key: str = "mcpServers"
    """Where the servers stand in the file."""
    notation: Notation = JSON
    names_transport: bool = False
    """Whether an entry says that it is reached over stdio."""
    project_cwd: str | None = None
    """What stands for the project's folder, where servers would start elsewhere."""
    starts_in_project: bool = False
    """Whether servers of its own file start in the folder of the project at hand."""
    note: str = ""
    """What a person should know besides, in either file and in a project's."""
    project_note: str = ""
    plugins: str = ""
    """The file in which it notes the plugins that are installed, where there is one of ours."""

    def user_file(self, places: Places) -> Path:
        """The person's own file: of several the first whose folder is there, else the first."""
        patterns = self.user if isinstance(self.user, tuple) else self.user[places.platform]
        found = [path for pattern in patterns for path in _matches(pattern.format_map(_roots(places)))]
        return next((path for path in found if path.parent.is_dir()), found[0])

    def project_file(self, places: Places) -> Path:
        """Raises InvalidRequest where the client has no file per project."""
        if self.project is None:
            raise InvalidRequest(f"{self.title} has no file per project; leave --project out, and name a --namespace.")
        return places.project / self.project

    def plugins_file(self, places: Places) -> Path | None:
        """None where there is no plugin of ours for it."""
        return Path(self.plugins.format_map(_roots(places))) if self.plugins else None


CLIENTS: tuple[Client, ...] = (
    Client(
        name="claude-code",
        title="Claude Code",
        user=("{claude}/.claude.json",),
        project=".mcp.json",
        names_transport=True,
        starts_in_project=True,
        restart="Start a new session of Claude Code.",
        project_note="Claude Code asks before it starts a project's servers for the first time.",
        note="The plugin brings hooks as well, so that memory is there without being asked: docs/claude-code.md.",
        plugins="{claude_folder}/plugins/installed_plugins.json",
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        user={
            "linux": ("{config}/Claude/claude_desktop_config.json",),
            "macos": ("{config}/Claude/claude_desktop_config.json",),
            # The packaged app sees this folder in the place of the other, and no file but that in it.
            "windows": (
                "{local}/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
                "{config}/Claude/claude_desktop_config.json",
            ),
        },
        restart="Quit Claude Desktop (closing its window is not enough) and start it again.",
    ),
    Client(
        name="cursor",
        title="Cursor",
        user=("{home}/.cursor/mcp.json",),
        project=".cursor/mcp.json",
        restart="Switch the server on in Cursor's settings, under MCP.",
    ),
    Client(
        name="vscode",
        title="VS Code",
        user=("{config}/Code/User/mcp.json",),
        project=".vscode/mcp.json",
        key="servers",
        notation=JSON_WITH_COMMENTS,
        names_transport=True,
        project_cwd="${workspaceFolder}",
        restart="Start the server in VS Code: command palette, `MCP: List Servers`.",
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        user=("{home}/.codeium/windsurf/mcp_config.json",),
        restart="Refresh the servers in Windsurf's settings, under Cascade.",
    ),
    Client(
        name="codex",
        title="Codex",
        user=("{codex}/config.toml",),
        project=".codex/config.toml",
        key="mcp_servers",
        notation=TOML,
        starts_in_project=True,
        restart="Start a new session of Codex.",
        project_note="Codex reads a project's file only where it trusts the project.",
    ),
    Client(
        name="gemini-cli",
        title="Gemini CLI",
        user=("{home}/.gemini/settings.json",),
        project=".gemini/settings.json",
        notation=JSON_WITH_COMMENTS,
        starts_in_project=True,
        restart="Start Gemini CLI again.",
    ),
    Client(
        name="zed",
        title="Zed",
        user={
            "linux": ("{config}/zed/settings.json",),
            "macos": ("{home}/.config/zed/settings.json",),
            "windows": ("{config}/Zed/settings.json",),
        },
        project=".zed/settings.json",
        key="context_servers",
        notation=JSON_WITH_COMMENTS,
        restart="Nothing to restart: Zed reads its settings when they change.",
    ),
    Client(
        name="cline",
        title="Cline",
        user=(
            "{home}/.cline/data/settings/cline_mcp_settings.json",
            "{config}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        restart="Open Cline's list of MCP servers; it reads the file when it changes.",
    ),
)


def client_named(name: str) -> Client:
    """Raises NotFound."""
    for client in CLIENTS:
        if client.name == name:
            return client
    nearest = difflib.get_close_matches(name.lower(), [client.name for client in CLIENTS], 1)
    meant = f"did you mean {nearest[0]}? If not, " if nearest else ""
    raise NotFound(f"No client {name!r}; {meant}name one of {', '.join(client.name for client in CLIENTS)}.")


def places_here() -> Places:
    """This computer, and the folder that one stands in."""
    from mcp_memory.settings import client_variables

    platform: Platform = "windows" if sys.platform == "win32" else "macos" if sys.platform == "darwin" else "linux"
    return Places(home=Path.home(), project=Path.cwd(), platform=platform, variables=client_variables())


def _roots(places: Places) -> Mapping[str, Path]:
    """The folders that patterns begin with; a variable counts only as an absolute path."""

    def named(variable: str, default: Path) -> Path:
        folder = places.variables.get(variable, "")
        return Path(folder) if Path(folder).is_absolute() or PureWindowsPath(folder).is_absolute() else default

    home = places.home
    config: Mapping[Platform, Path] = {
        "linux": named("XDG_CONFIG_HOME", home / ".config"),
        "macos": home / "Library" / "Application Support",
        "windows": named("APPDATA", home / "AppData" / "Roaming"),
    }
    return {
        "home": home,
        "config": config[places.platform],
        "local": named("LOCALAPPDATA", home / "AppData" / "Local"),
        "claude": named("CLAUDE_CONFIG_DIR", home),
        "claude_folder": named("CLAUDE_CONFIG_DIR", home / ".claude"),
        "codex": named("CODEX_HOME", home / ".codex"),
    }


def _matches(pattern: str) -> Iterator[Path]:
    """The paths that a pattern stands for: itself, or where it holds a star, those that are there."""
    before, star, behind = pattern.partition("*")
    if not star:
        yield Path(pattern)
        return
    folder = Path(before).parent
    inside = behind.lstrip("/")
    yield from sorted(found / inside for found in folder.glob(Path(before).name + "*"))

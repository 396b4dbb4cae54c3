"""The clients, as data in catalogue.toml: the files of each per platform, and how it names a server."""

import difflib
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, Literal, TypeAlias

from mcp_memory.entrypoints.clients.json_text import JsonNotation
from mcp_memory.entrypoints.clients.toml_text import TomlNotation
from mcp_memory.errors import InvalidRequest, NotFound

Platform: TypeAlias = Literal["linux", "macos", "windows"]

Notation: TypeAlias = JsonNotation | TomlNotation
"""Reads a notation, and edits it: everything but the entry stays as it was, to the byte."""
JSON = JsonNotation()
_NOTATIONS: Mapping[str, Notation] = {
    "json": JSON,
    "json-with-comments": JsonNotation(comments=True),
    "toml": TomlNotation(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The computer as far as paths depend on it. `variables`: of its environment, those in `settings`."""

    home: Path
    project: Path
    platform: Platform
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFile:
    """The file in which a client lists the commands that it runs at events; docs/clients.md names the documents."""

    user: str
    project: str
    events: Mapping[str, str]
    """Its names of events, with ours."""
    grouped: bool = True
    """True where each event has groups of commands, as in Claude Code; False where it has commands."""
    a_second: int = 1
    """The number that is a second in its time limits."""
    begin: str = ""
    """The text of a file that has nothing else in it yet."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionsFile:
    """The file whose text a client gives to its model, of a project or a person's own; `begin` as in HookFile."""

    project: str
    user: str = ""
    begin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One program. `user`: patterns of its own file, the one that is there first winning, per platform or for all."""

    name: str
    title: str
    user: Mapping[Platform, tuple[str, ...]] | tuple[str, ...]
    restart: str
    """The step that makes it read the file again."""
    project: str | None = None
    """The file inside a project, where it has one."""
    key: str = "mcpServers"
    """The field of the file that holds the servers."""
    notation: Notation = JSON
    names_transport: bool = False
    """True where an entry says that it is reached over stdio."""
    lists_command: bool = False
    """True where an entry has command and arguments in one list, and `environment` for `env`."""
    project_cwd: str | None = None
    """The client's name for the project's folder, where servers would start elsewhere."""
    starts_in_project: bool = False
    """True where servers of its own file start in the folder of the project at hand."""
    tells_folder: bool = False
    """True where it says which folder is open, by the protocol's roots."""
    note: str = ""
    """A further remark for either file; `project_note` is for a project's."""
    project_note: str = ""
    plugins: str = ""
    """The file in which it notes the plugins that are installed, where there is one of ours."""
    hooks: HookFile | None = None
    instructions: InstructionsFile | None = None

    def user_file(self, places: Places) -> Path:
        """Return the person's own file: of several the first whose folder is there, else the first."""
        patterns = self.user if isinstance(self.user, tuple) else self.user[places.platform]
        found = [path for pattern in patterns for path in _matches(pattern.format_map(_roots(places)))]
        return next((path for path in found if path.parent.is_dir()), found[0])

    def project_file(self, places: Places) -> Path:
        """Raises InvalidRequest where the client has no file per project."""
        if self.project is None:
            raise InvalidRequest(f"{self.title} has no file per project; leave --project out, and name a --namespace.")
        return places.project / self.project

    def own_file(self, of: HookFile | InstructionsFile, places: Places, *, project: bool) -> Path:
        """Return the place of such a file: the person's own, or in the project, where there is no other."""
        return Path(of.user.format_map(_roots(places))) if of.user and not project else places.project / of.project

    @property
    def hook_notation(self) -> JsonNotation:
        """The notation of its file of hooks, which is JSON, and may be the configuration itself."""
        return self.notation if isinstance(self.notation, JsonNotation) else JSON

    def plugins_file(self, places: Places) -> Path | None:
        """None where there is no plugin of ours for it."""
        return Path(self.plugins.format_map(_roots(places))) if self.plugins else None


def _read_clients() -> Iterator[Client]:
    """Read the rows of the table; lists of paths are tuples, for each platform or for all."""
    table: dict[str, list[dict[str, Any]]] = tomllib.loads(
        Path(__file__).with_name("catalogue.toml").read_text("utf-8")
    )
    for row in table["clients"]:
        user: Mapping[Platform, list[str]] | list[str] = row["user"]
        paths = tuple(user) if isinstance(user, list) else {platform: tuple(each) for platform, each in user.items()}
        made: dict[str, Any] = {"user": paths, "notation": _NOTATIONS[row.get("notation", "json")]}
        for name, kind in (("hooks", HookFile), ("instructions", InstructionsFile)):
            if name in row:
                made[name] = kind(**row[name])
        yield Client(**{**row, **made})


CLIENTS: tuple[Client, ...] = tuple(_read_clients())


def client_named(name: str) -> Client:
    """Find a client. Raises NotFound, and names the nearest."""
    for client in CLIENTS:
        if client.name == name:
            return client
    nearest = difflib.get_close_matches(name.lower(), [client.name for client in CLIENTS], 1)
    meant = f"did you mean {nearest[0]}? If not, " if nearest else ""
    raise NotFound(f"No client {name!r}; {meant}name one of {', '.join(client.name for client in CLIENTS)}.")


def places_here() -> Places:
    """Return this computer's places, with the working directory as the project."""
    from mcp_memory.settings import client_variables

    platform: Platform = "windows" if sys.platform == "win32" else "macos" if sys.platform == "darwin" else "linux"
    return Places(home=Path.home(), project=Path.cwd(), platform=platform, variables=client_variables())


def _roots(places: Places) -> Mapping[str, Path]:
    """Return the folders that patterns begin with; a variable counts only as an absolute path."""

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
    """Yield the paths that match a pattern: itself, or with a star, those that exist."""
    before, star, behind = pattern.partition("*")
    if not star:
        yield Path(pattern)
        return
    folder = Path(before).parent
    inside = behind.lstrip("/")
    yield from sorted(found / inside for found in folder.glob(Path(before).name + "*"))

"""Finds the memory's folder before its settings are read, and what they are read from, for the memory's owner to read.

A hook or a window needs no more, and to read the settings takes ten times as long: nothing slow is imported here.
Beside `settings.py` this alone reads the environment.
"""

import os
import sys
from collections.abc import Mapping
from hashlib import blake2b

_OF_LIBRARIES = ("_API_KEY", "_BASE_URL", "_PROXY", "SSL_CERT_FILE")
"""Ends of variables that libraries of others read: OPENAI_API_KEY, HTTPS_PROXY."""
APP_NAME = "mcp-memory"
MEMORY_FILE = "memory.db"
"""File in the data directory."""
NOTES_FOLDER = "hooks"
"""Folder in the data directory for the notes that a client's hooks keep about its sessions."""
LIVE_FOLDER = "live"
"""Folder in the data directory for locks and sockets; it is there before the memory. Short, because the path of a
socket may have 103 bytes."""
FAILURES_FILE = "failures"
"""File beside these notes: for each hook that failed a line with the second and the hook's name, "1795486421 Stop"."""
PREFIX = "MCP_MEMORY_"
NAMES = ("namespace", "agent", "session")
"""Settings that name who works and where. A window keeps those that it was started with."""


def config_file() -> str:
    """Return the path of the TOML file: MCP_MEMORY_CONFIG, or config.toml in the platform's configuration directory."""
    return os.environ.get("MCP_MEMORY_CONFIG") or os.path.join(_user_folder("config"), "config.toml")


def default_data_dir() -> str:
    """Return the data directory where no setting names one."""
    return _user_folder("data")


def data_dir(chosen: Mapping[str, object]) -> str:
    """Return the data directory by the arguments `chosen`, the environment and the file; "" where it is no full path.

    The settings decide about it likewise, and refuse what is none.
    """
    path = os.path.expanduser(_given("data_dir", chosen) or default_data_dir())
    return path if os.path.isabs(path) else ""


def is_elsewhere(chosen: Mapping[str, object]) -> bool:
    """True where the memory is behind an address: by the arguments `chosen`, or the environment."""
    return bool(_given("url", chosen))


def named(chosen: Mapping[str, object]) -> dict[str, str]:
    """Return those of NAMES that the arguments `chosen`, the environment or the file give."""
    return {name: value for name in NAMES if (value := _given(name, chosen))}


def _given(name: str, chosen: Mapping[str, object]) -> str:
    """Return a setting as the arguments, the environment or the file give it, in this order; "" where none does."""
    if chosen.get(name) is not None:
        return str(chosen[name])
    variable = f"{PREFIX}{name.upper()}"  # The settings read it in any case.
    return next((value for key, value in os.environ.items() if value and key.upper() == variable), "") or _written(name)


def as_told(chosen: Mapping[str, object]) -> dict[str, object]:
    """Return what the settings of this process are read from, with the arguments `chosen`, for another to read them.

    `file` is the path of the TOML file; `given` are values by their names, those of NAMES as the file gives them now;
    `keys` is a digest of the variables that libraries of others read for themselves.
    """
    given = {
        name.upper().removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if value and name.upper().startswith(PREFIX)
    }
    given |= {name: str(value) for name, value in chosen.items() if value is not None}
    return {"file": os.path.abspath(config_file()), "given": named(chosen) | given, "keys": keys()}


def screen_variables() -> dict[str, str]:
    """Return those variables that say what a terminal's screen can show."""
    names = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    return {name: os.environ[name] for name in names if name in os.environ}


def keys() -> str:
    """Return a digest of this process's variables that libraries of others read, such as OPENAI_API_KEY."""
    read = sorted(pair for pair in os.environ.items() if pair[0].upper().endswith(_OF_LIBRARIES))
    return digest(repr(read).encode("utf-8", "surrogateescape"), 6)


def digest(content: bytes, size: int) -> str:
    """Return a digest of `size` bytes, in hexadecimal digits."""
    return blake2b(content, digest_size=size).hexdigest()


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _written(name: str) -> str:
    content = _content(config_file())
    if name.encode() not in content:
        return ""
    import tomllib

    try:
        return str(tomllib.loads(content.decode()).get(name, ""))
    except (ValueError, RecursionError):  # The settings will say so.
        return ""


def _user_folder(kind: str) -> str:
    """Return our folder for `config` or `data`: as platformdirs, whose import takes longer than asking a server."""
    if sys.platform == "linux":
        usual = {"config": "~/.config", "data": "~/.local/share"}[kind]
        base = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
        return os.path.join(base if os.path.isabs(base) else os.path.expanduser(usual), APP_NAME)
    import platformdirs

    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_data_dir
    return find(APP_NAME, appauthor=False)

"""Finds the memory's folder before its settings are read, and tells by a digest which processes have the same settings.

A hook that asks a running server needs no more, and to read the settings takes ten times as long: nothing slow is
imported here. Beside `settings.py` this alone reads the environment.
"""

import os
import sys
from collections.abc import Mapping
from hashlib import blake2b

from mcp_memory import __version__

APP_NAME = "mcp-memory"
NOTES_FOLDER = "hooks"
"""Folder in the data directory for the notes that a client's hooks keep about its sessions."""
FAILURES_FILE = "failures"
"""File beside these notes: for each hook that failed a line with the second and the hook's name, "1795486421 Stop"."""
PREFIX = "MCP_MEMORY_"
_PATHS_BEGIN = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that paths of ours begin with, where no setting names them."""
_OF_ONE_PROCESS = f"{PREFIX}LOG_LEVEL"


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
    named = chosen.get("data_dir") or os.environ.get(f"{PREFIX}DATA_DIR") or _written_data_dir() or default_data_dir()
    path = os.path.expanduser(str(named))
    return path if os.path.isabs(path) else ""


def fingerprint(chosen: Mapping[str, object]) -> str:
    """Return 12 hexadecimal digits: equal where this version would read equal settings, with the arguments `chosen`.

    Settings that are written in another way, or in another place, differ: two processes that could have worked together
    do not, which costs time alone.
    """
    given = {name.upper(): value for name, value in os.environ.items() if value and name.upper().startswith(PREFIX)}
    given |= {f"{PREFIX}{name.upper()}": str(value) for name, value in chosen.items() if value is not None}
    given.pop(_OF_ONE_PROCESS, None)
    told = (__version__, config_file(), *map(os.environ.get, _PATHS_BEGIN), *sorted(given.items()))
    return digest(repr(told).encode("utf-8", "surrogateescape") + b"\0" + _config(), 6)


def digest(content: bytes, size: int) -> str:
    """Return a digest of `size` bytes, in hexadecimal digits."""
    return blake2b(content, digest_size=size).hexdigest()


def _config() -> bytes:
    try:
        with open(config_file(), "rb") as file:
            return file.read()
    except OSError:
        return b""


def _written_data_dir() -> str:
    content = _config()
    if b"data_dir" not in content:
        return ""
    import tomllib

    try:
        return str(tomllib.loads(content.decode()).get("data_dir") or "")
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

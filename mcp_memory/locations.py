"""Finds the memory's folder before its settings are read, and tells by a digest which processes have the same settings.

A hook or a window that asks a running server needs no more, and to read the settings takes ten times as long: nothing
slow is imported here. Beside `settings.py` this alone reads the environment.
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
_INSTEAD = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TZ")
"""Variables that decide where no setting does: what paths of ours begin with, and the time zone."""
NAMES = ("namespace", "agent", "session")
"""Settings that name who works and where; they may differ between the windows that one server serves."""
_NO = ("false", "0", "no", "off", "f", "n")
_OF_ONE_PROCESS = f"{PREFIX}LOG_LEVEL"
_WITH_LIBRARIES = ("embedder", "summarizer", "semantic_store", "chroma")
"""Parts of the names of settings that bring in a library of others."""
_OF_LIBRARIES = ("_API_KEY", "_BASE_URL", "_PROXY", "SSL_CERT_FILE")
"""Ends of variables that such libraries read: OPENAI_API_KEY, HTTPS_PROXY."""


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


def shares_server(chosen: Mapping[str, object]) -> bool:
    """False where the arguments `chosen`, the environment or the file want a server for each window."""
    return _given("share_server", chosen).lower() not in _NO


def named(chosen: Mapping[str, object]) -> dict[str, str]:
    """Return those of NAMES that the arguments `chosen`, the environment or the file give."""
    return {name: value for name in NAMES if (value := _given(name, chosen))}


def _given(name: str, chosen: Mapping[str, object]) -> str:
    """Return a setting as the arguments, the environment or the file give it, in this order; "" where none does."""
    if chosen.get(name) is not None:
        return str(chosen[name])
    variable = f"{PREFIX}{name.upper()}"  # The settings read it in any case.
    return next((value for key, value in os.environ.items() if value and key.upper() == variable), "") or _written(name)


def lead_name(chosen: Mapping[str, object]) -> str:
    """Return a digest that is equal where windows may share a server, with the arguments `chosen`.

    Beside the fingerprint it holds the user's strategies, which a server reads once, and where another embedder or a
    model is in use what their libraries read for themselves, such as OPENAI_API_KEY: a window asks with its own key.
    """
    beside = os.path.join(os.path.dirname(config_file()), "strategies.toml")
    told = [fingerprint(chosen), _content(_given("strategies_file", chosen) or beside)]
    mentioned = " ".join((*chosen, *(name for name in os.environ if name.upper().startswith(PREFIX)))).lower()
    if any(part in mentioned or part.encode() in _content(config_file()) for part in _WITH_LIBRARIES):
        told += sorted(pair for pair in os.environ.items() if pair[0].upper().endswith(_OF_LIBRARIES))
    return digest(repr(told).encode("utf-8", "surrogateescape"), 6)


def fingerprint(chosen: Mapping[str, object]) -> str:
    """Return 12 hexadecimal digits: equal where this version would read equal settings but for NAMES.

    `chosen` are the arguments of the process.

    Settings that are written in another way, or in another place, differ: two processes that could have worked together
    do not, which costs time alone.
    """
    given = {name.upper(): value for name, value in os.environ.items() if value and name.upper().startswith(PREFIX)}
    given |= {f"{PREFIX}{name.upper()}": str(value) for name, value in chosen.items() if value is not None}
    for name in (_OF_ONE_PROCESS, *(f"{PREFIX}{name.upper()}" for name in NAMES)):
        given.pop(name, None)
    told = (__version__, config_file(), *map(os.environ.get, _INSTEAD), *sorted(given.items()))
    return digest(repr(told).encode("utf-8", "surrogateescape") + b"\0" + _content(config_file()), 6)


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

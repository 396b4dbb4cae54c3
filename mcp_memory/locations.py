"""Finds the memory's folder before its settings are read, and what they are read from, for the memory's owner to read.

A hook or a window needs no more, and to read the settings takes ten times as long: nothing slow is imported here.
Beside `settings.py` this alone reads the environment.
"""

import os
import sys
import time
from collections.abc import Iterable, Mapping
from hashlib import blake2b

_OF_LIBRARIES = ("_API_KEY", "_BASE_URL", "_PROXY", "SSL_CERT_FILE")
"""Ends of variables that libraries of others read: OPENAI_API_KEY, HTTPS_PROXY."""
_OF_CHAT_MODELS = frozenset(
    "OPENAI_API_KEY OPENAI_BASE_URL OPENAI_ORG_ID OPENAI_PROJECT_ID ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN"
    " ANTHROPIC_BASE_URL SSL_CERT_FILE SSL_CERT_DIR".split()
)
_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
"""Read in any case; in lower case first."""
_OF_PROCESS = frozenset(
    "OPENAI_ADMIN_KEY OPENAI_CUSTOM_HEADERS ANTHROPIC_CUSTOM_HEADERS ANTHROPIC_PROFILE ANTHROPIC_CONFIG_DIR"
    " ANTHROPIC_IDENTITY_TOKEN ANTHROPIC_IDENTITY_TOKEN_FILE ANTHROPIC_FEDERATION_RULE_ID ANTHROPIC_ORGANIZATION_ID"
    " ANTHROPIC_SERVICE_ACCOUNT_ID ANTHROPIC_WORKSPACE_ID ANTHROPIC_SCOPE".split()
)
"""Variables that the libraries of chat models read of their own process, whatever they are given."""
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


def named_by(chosen: Mapping[str, object]) -> str:
    """Return what names the data directory: an option, a variable or the TOML file; "" for the usual one."""
    if chosen.get("data_dir") is not None:
        return "--data-dir"
    if _given("data_dir", {}) == _written("data_dir"):
        return config_file() if _written("data_dir") else ""
    return f"{PREFIX}DATA_DIR"


def beside_usual(folder: str) -> str:
    """Say of a data directory that it is not the usual one, and whether that has a memory; "" for the usual one."""
    usual = default_data_dir()
    if os.path.abspath(folder) == os.path.abspath(usual):
        return ""
    has_memory = os.path.exists(os.path.join(usual, MEMORY_FILE))
    return f"not the usual folder {usual}, which has {'a' if has_memory else 'no'} memory"


def place_in_words(folder: str, chosen: Mapping[str, object]) -> str:
    """Say what names a data directory, and whether the usual one has a memory; "" for the usual one."""
    told = beside_usual(folder)
    return f"as {named_by(chosen)} names it; {told}" if told else ""


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


def working_folder() -> str:
    """Return this process's working directory; a path that no folder can have where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return "\0"


def as_told(chosen: Mapping[str, object]) -> dict[str, object]:
    """Return what the settings of this process are read from, with the arguments `chosen`, for another to read them.

    `file` is the path of the TOML file; `given` are values by their names, those of NAMES as the file gives them now;
    `zone` and `variables` are those of this process. `keys` and `fixed_keys` are digests of variables that libraries of
    others read for themselves: of all, and of those that no client of the memory can have for itself alone.
    """
    given = {
        name.upper().removeprefix(PREFIX).lower(): value
        for name, value in os.environ.items()
        if value and name.upper().startswith(PREFIX)
    }
    given |= {name: str(value) for name, value in chosen.items() if value is not None}
    read = {"zone": zone(), "variables": variables(), "keys": keys(), "fixed_keys": fixed_keys()}
    return {"file": os.path.abspath(config_file()), "given": named(chosen) | given, **read}


def git_variables() -> dict[str, str]:
    """Return the environment for `git` in a folder that is named: without what a hook of git's sets for its own.

    The user's own configuration stays.
    """
    kept = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in kept}


def screen_variables() -> dict[str, str]:
    """Return those variables that say what a terminal's screen can show."""
    names = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    return {name: os.environ[name] for name in names if name in os.environ}


def zone() -> list[object]:
    """Return the name of this process's time zone, as TZ or the machine gives it, and its seconds east of UTC now.

    The name may be none that anybody knows.
    """
    name = os.environ.get("TZ", os.path.realpath("/etc/localtime")).removeprefix(":")
    return [name.rpartition("zoneinfo/")[2], time.localtime().tm_gmtoff]  # "/usr/share/zoneinfo/Europe/Berlin"


def variables() -> dict[str, str]:
    """Return this process's variables that a chat model is asked with: keys, addresses, proxies and certificates.

    Secrets: they go over the memory's own socket alone.
    """
    given = sorted((name, value) for name, value in os.environ.items() if value)  # Of two cases the lower one wins.
    read = ((name.upper() if name.upper() in _PROXIES else name, value) for name, value in given)
    return {name: value for name, value in read if name in _OF_CHAT_MODELS | _PROXIES}


def keys() -> str:
    """Return a digest of this process's variables that libraries of others read, such as OPENAI_API_KEY."""
    return _digest_of(pair for pair in os.environ.items() if pair[0].upper().endswith(_OF_LIBRARIES))


def fixed_keys() -> str:
    """Return a digest of those that the libraries of chat models read whatever they are given."""
    return _digest_of(pair for pair in os.environ.items() if pair[0] in _OF_PROCESS)


def _digest_of(pairs: Iterable[tuple[str, str]]) -> str:
    return digest(repr(sorted(pairs)).encode("utf-8", "surrogateescape"), 6)


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

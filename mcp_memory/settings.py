"""Settings, and the only place that reads the environment: arguments, MCP_MEMORY_* variables, a TOML file, defaults."""

import configparser
import hashlib
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import Field, ValidationError
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from mcp_memory.errors import InvalidRequest

APP_NAME = "mcp-memory"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _check_name(value: str) -> str:
    if not value.strip() or len(value) > 200 or _CONTROL.search(value):
        raise ValueError("must be 1 to 200 characters without control characters")
    return value


def _check_agent(value: str) -> str:
    if "/" in value:
        raise ValueError("must not hold a slash, which separates the parts of a scope")
    return value


_Name = Annotated[str, AfterValidator(_check_name)]
_AgentName = Annotated[_Name, AfterValidator(_check_agent)]


def _split_commas(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Settings(BaseSettings):
    """What a person may choose. Each field is also a variable: `data_dir` is MCP_MEMORY_DATA_DIR."""

    model_config = SettingsConfigDict(env_prefix="MCP_MEMORY_", env_ignore_empty=True, extra="forbid", frozen=True)

    data_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_data_dir(APP_NAME, appauthor=False)))
    """Where the database lies; must be on a local file system."""
    namespace: _Name = Field(default_factory=lambda: project_namespace(Path.cwd()))
    """The project whose memory is used; by default the enclosing git repository."""
    inherit: Annotated[list[_Name], NoDecode, BeforeValidator(_split_commas)] = []
    """Further namespaces that are read, never written (comma-separated in the environment)."""
    agent: _AgentName = "default"
    """This agent's name: owner of private records and of a place in the task tree."""
    session: _Name | None = None
    """A name for the session; by default each process makes its own."""
    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base"
    """The public token encoding that budgets are counted in."""
    token_factor: Literal["auto"] | Annotated[float, Field(gt=0.1, le=10)] = "auto"
    """The client's tokens per counted token; `auto` goes by the client's name."""
    max_tokens: Annotated[int, Field(ge=64, le=1_000_000)] = 8000
    """Budget of a context where the call names none."""
    redact_secrets: bool = True
    """Replace keys, tokens and private keys before anything is stored."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments first, then the environment, then the file; a `.env` of the working directory is not ours."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=config_file())


def config_file() -> Path:
    """The TOML file: MCP_MEMORY_CONFIG, or config.toml in the platform's configuration directory."""
    named = os.environ.get("MCP_MEMORY_CONFIG")
    return Path(named) if named else Path(platformdirs.user_config_dir(APP_NAME, appauthor=False)) / "config.toml"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; `overrides` that are None count as not given.

    Raises:
        InvalidRequest: a value is refused; the message names the setting and why.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:1]) or "settings"
        why = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(
            f"Setting {name}: {why}. Change MCP_MEMORY_{name.upper()} or {config_file().name}."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{config_file()} is no TOML: {error}. Correct it and start again.") from error
    except OSError as error:
        raise InvalidRequest(f"{config_file()} cannot be read: {error.strerror}. Make it readable.") from error


def project_namespace(start: Path) -> str:
    """The namespace of the git repository around `start`, the same for all its clones and worktrees; else `default`.

    A repository with an `origin` is named after it (host/owner/name), another by its folder and a digest of its path.
    """
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            git_dir = _common_git_dir(folder / ".git")
            return _origin(git_dir / "config") or _folder_name(git_dir.parent)
    return "default"


def _common_git_dir(dot_git: Path) -> Path:
    """The repository's own directory; a worktree's `.git` is a file that points into it."""
    if dot_git.is_dir():
        return dot_git
    try:
        git_dir = dot_git.parent / dot_git.read_text("utf-8").removeprefix("gitdir:").strip()
        common = git_dir / "commondir"
        return (git_dir / common.read_text("utf-8").strip()).resolve() if common.exists() else git_dir.resolve()
    except (OSError, UnicodeDecodeError):
        return dot_git


def _origin(config: Path) -> str | None:
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(config.read_text("utf-8"))
        url = parser.get('remote "origin"', "url")
    except (OSError, UnicodeDecodeError, configparser.Error):
        return None
    match = re.fullmatch(r"(?:\w+://)?(?:[^@/]*@)?([^:/]+)(?::\d+)?[:/]+(.+?)(?:\.git)?/*", url or "")
    return f"{match[1]}/{match[2]}".lower() if match else None


def _folder_name(folder: Path) -> str:
    resolved = folder.resolve()
    return f"{resolved.name or 'root'}-{hashlib.blake2b(os.fsencode(resolved), digest_size=3).hexdigest()}"

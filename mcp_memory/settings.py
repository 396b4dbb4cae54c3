"""Defines the settings, read from arguments, MCP_MEMORY_* variables, a TOML file, defaults.

With `locations.py` it alone reads the environment.
"""

import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    Field,
    JsonValue,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from mcp_memory import locations
from mcp_memory.errors import InvalidRequest

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SENDABLE = re.compile(r"[\x20-\x7e]*")  # what an HTTP header can hold
_FROM_ENVIRONMENT_ONLY = frozenset(
    "chroma_headers chroma_api_key database_url migrate_url url token oauth_introspection_secret".split()
)
"""Settings that a file may not hold: files are copied, shown and committed."""
_SECRET = re.compile(r"key|token|secret|password|credential|header", re.IGNORECASE)  # e.g. "api_key", "authToken"

EmbedderName: TypeAlias = Literal[
    "minilm", "e5", "minilm+e5", "amazon_bedrock", "baseten", "chroma-cloud-qwen", "cloudflare_workers_ai", "cohere",
    "google_gemini", "google_generative_ai", "google_palm", "google_vertex", "huggingface", "huggingface_server",
    "instructor", "jina", "mistral", "morph", "nomic", "ollama", "onnx_mini_lm_l6_v2", "open_clip", "openai",
    "perplexity", "roboflow", "sentence_transformer", "text2vec", "together_ai", "voyageai",
]  # fmt: skip
"""Our own models, or one of Chroma's embedding functions: listed here, since asking Chroma takes a second."""
SignatureAlgorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA",
]  # fmt: skip
"""Signatures by a private key. With a shared secret a server that checks tokens could also make them."""
_OF_OURS = ("minilm", "e5", "minilm+e5")
_SEMANTIC_STORES = ("auto", "chroma", "exact", "cloud")
_SIZED_STORE = re.compile(r"\d{1,9}|pgvector(:\d{1,9})?", re.ASCII)  # e.g. "50000", "pgvector", "pgvector:50000"
_REPLACED = ("chroma", "chroma_least_vectors", "chroma_url")
"""Former settings: `semantic_store` says what they said."""


# half of a surrogate pair: Python's sign for a byte of the environment that is not UTF-8
_NO_UTF_8 = re.compile(r"[\ud800-\udfff]")


def _check_name(value: str) -> str:
    if _NO_UTF_8.search(value):
        raise ValueError("must be UTF-8, and holds a byte that is not; write it again in a terminal or a file of UTF-8")
    if not value.strip() or len(value) > 200 or _CONTROL.search(value):
        raise ValueError("must be 1 to 200 characters without control characters")
    return value


def _check_agent(value: str) -> str:
    if "/" in value:
        raise ValueError("must not hold a slash, which separates the parts of a scope")
    return value


def _check_full_path(value: Path) -> Path:
    """Refuse a path relative to the folder that the process starts in: a clone could bring its own database."""
    path = value.expanduser()
    if not path.is_absolute():
        raise ValueError("must be a full path")
    if path.is_file():
        raise ValueError(f"{path} is a file; name a folder")
    return path


_Name = Annotated[str, AfterValidator(_check_name)]
_AgentName = Annotated[_Name, AfterValidator(_check_agent)]


def _split_commas(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_patterns(patterns: list[str]) -> list[str]:
    """Refuse patterns that leave the project's folder, or would walk through all of a tree."""
    for pattern in patterns:
        below = pattern.removeprefix("~/")
        if PureWindowsPath(below).anchor or below.startswith("~") or "**" in below or {"..", ""} & {*below.split("/")}:
            raise ValueError(
                f"{pattern!r} must be relative to the project's folder or begin with ~/, without .. and **; write it as"
                " docs/*.md"
            )
    return patterns


def _check_semantic_store(value: object) -> str:
    """Return the value as text. Accept the names, a number of vectors, and a server's address without credentials."""
    text = str(value).strip()
    url = urlsplit(text)
    is_server = url.scheme in ("http", "https") and url.hostname and not url.username and not url.path.strip("/")
    if text not in _SEMANTIC_STORES and not _SIZED_STORE.fullmatch(text) and not is_server:
        raise ValueError(
            "must be auto, chroma, exact, cloud, the number of vectors from which Chroma answers, a Chroma server's"
            " http:// or https://, host and port (credentials go into MCP_MEMORY_CHROMA_HEADERS), or pgvector"
        )
    return text


def _check_endpoint(value: str) -> str:
    url = urlsplit(value)
    is_more = url.username or url.password or url.query or url.fragment or url.port == 0
    if url.scheme not in ("http", "https") or not url.hostname or is_more:
        raise ValueError("must be http:// or https://, host and path; keys come from the environment alone")
    return value


def _check_trusted(value: str) -> str:
    """Refuse an address that anybody on the way could answer for."""
    url = urlsplit(_check_endpoint(value))
    if url.scheme != "https" and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError("must begin with https://; http:// is for this machine alone")
    return value


_TrustedUrl = Annotated[str, AfterValidator(_check_trusted)]


def _check_sendable(value: SecretStr) -> SecretStr:
    """Refuse a value that no header can hold: an HTTP client would refuse it with a message that repeats it."""
    if not _SENDABLE.fullmatch(value.get_secret_value()):
        raise ValueError("must hold ASCII letters, digits and signs only; look for a line break at its end")
    return value


_Sendable = Annotated[SecretStr, AfterValidator(_check_sendable)]


def _read_json(value: object) -> object:
    """Decode JSON here: the error of pydantic-settings for invalid JSON names no remedy."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError as error:
        raise ValueError(f"must be a JSON object, and is no JSON: {error}") from error


def _check_no_secret(value: JsonValue) -> JsonValue:
    """Refuse names that suggest keys, at any depth: settings are shown, and an embedder's id holds its options."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if _SECRET.search(name) and name != "api_key_env_var":
                raise ValueError(f"keys come from the environment alone; take {name} out")
            _check_no_secret(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            _check_no_secret(inner)
    return value


def _check_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("must be a time zone, such as Europe/Berlin") from error
    return value


def system_zone() -> tzinfo:
    """Return the system's time zone; where it has no name that Python knows, its present distance from UTC."""
    if not time.timezone and not time.daylight:
        return UTC
    import tzlocal  # Takes 17 ms.

    try:
        return tzlocal.get_localzone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def _zone_of(told: Sequence[Any]) -> tzinfo | None:
    """Return the zone that `locations.zone` told in another process; None where it is this process's."""
    if list(told) == locations.zone():
        return None
    try:
        return ZoneInfo(str(told[0]))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return timezone(timedelta(seconds=float(told[1])))


def _strategies_beside(file: Path) -> Path | None:
    strategies = file.with_name("strategies.toml")
    return strategies if strategies.exists() else None


class Settings(BaseSettings):
    """The settings that you may choose. Each field is also a variable: `data_dir` is MCP_MEMORY_DATA_DIR.

    A field's docstring is its row in docs/settings.md (`python tools/settings_table.py`), where words behind
    "; by default " describe the default.
    """

    model_config = SettingsConfigDict(
        env_prefix="MCP_MEMORY_", env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    data_dir: Annotated[Path, AfterValidator(_check_full_path)] = Field(
        default_factory=lambda: Path(locations.default_data_dir())
    )
    """The folder where `memory.db` is stored, as a full path (`~` is home), on a local disk; by default the platform's
    user data directory."""
    database_url: SecretStr | None = None
    """A PostgreSQL database that holds the memory instead of `memory.db` (extra `postgres`, docs/postgres.md), as
    `postgresql://user:password@host/name`; environment only."""
    migrate_url: SecretStr | None = None
    """The same database for a role that may change its tables, reached without a pooler; by default as above;
    environment only."""
    upkeep_role: _Name | None = None
    """The role there that reads the memory as a whole; with it, each request reads its own scopes alone, by row-level
    security (docs/postgres.md); by default there are no such walls."""
    namespace: _Name | None = None
    """The project whose memory is used; by default that of the folder (docs/projects.md)."""
    roots: bool = False
    """Work in the project of the folder that the client says is open, where it says one, and else in `namespace`
    (docs/clients.md)."""
    inherit: Annotated[list[_Name], NoDecode, BeforeValidator(_split_commas)] = []
    """Further namespaces to read but never write, separated by commas in the environment."""
    agent: _AgentName = "default"
    """This agent's name: the owner of private records and of a current task."""
    session: _Name | None = None
    """A name for the session; it then has a current task of its own, whichever client window it is used from; by
    default one per window."""
    timezone: Annotated[str, AfterValidator(_check_zone)] | None = None
    """The time zone of the days that you read and ask for, as `Europe/Berlin`; by default the system's."""
    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base"
    """The tokenizer that counts; also `cl100k_base`."""
    token_factor: Literal["auto"] | Annotated[float, Field(gt=0.1, le=10)] = "auto"
    """The client's tokens per counted token; `auto` decides by the client's name."""
    max_tokens: Annotated[int, Field(ge=64, le=1_000_000)] = 8000
    """Budget of a context if the call names none."""
    read_files: Annotated[list[str], NoDecode, BeforeValidator(_split_commas), AfterValidator(_check_patterns)] = []
    """Memory files of clients that `recall` finds as well (docs/learning.md), as `CLAUDE.md,AGENTS.md`: patterns
    relative to the project's folder or from `~/`, separated by commas in the environment; by default none."""
    guidance_from_others: bool = True
    """Lets guardrails and preferences that other agents stored enter contexts and reminders."""
    strategies_file: Path | None = Field(default_factory=lambda: _strategies_beside(config_file()))
    """Your own strategies (docs/strategies.md); by default `strategies.toml` beside `config.toml`, if it is there."""
    compaction: str = "default"
    """The way session logs are compacted: `default`, `aggressive`, `conservative`; with `off` only by hand
    (docs/compaction.md)."""
    compaction_window: Annotated[int | None, Field(ge=1_000, le=100_000_000)] = None
    """The clients' context window in tokens, where the call names none; by default the preset's."""
    compaction_passes: Annotated[list[str], NoDecode, BeforeValidator(_split_commas)] = []
    """The passes, in their order, separated by commas in the environment; by default the preset's."""
    compaction_extensions: Annotated[list[Path], NoDecode, BeforeValidator(_split_commas)] = []
    """Python files that add passes, presets or watchers of compaction, by their whole paths (docs/compaction.md)."""
    compaction_idle_minutes: Annotated[float, Field(ge=0, le=10_080)] = 5.0
    """Minutes without a call after which a session's log is compacted, if it is at least 70 % full."""
    noted_days: Annotated[float, Field(gt=0, le=3_650)] = 14.0
    """Days after which what was extracted from a session is retired, unless somebody confirmed it."""
    expired_days: Annotated[float, Field(ge=0, le=36_500)] | None = None
    """Days after its `valid_until` until a record is retired (docs/validity.md); by default it stays, shown as past."""
    file_max_mb: Annotated[float, Field(ge=0, le=1_000)] = 10.0
    """The largest image or document of a conversation that is kept, in megabytes; 0 keeps none."""
    index_max_mb: Annotated[float, Field(ge=1, le=1_000_000)] = 1_024.0
    """Megabytes of indexes in memory, some 4.7 kB a record; beyond, namespaces that nobody has asked for the longest
    are dropped, and loaded again when they are asked for."""
    redact_secrets: bool = True
    """Removes keys, tokens and private keys before anything is stored."""
    embedder: EmbedderName = "minilm"
    """The built-in model, `e5` for many languages (extra `multilingual`), `minilm+e5`, or one of Chroma's embedding
    functions (docs/embedders.md); run `mcp-memory reindex` after a change."""
    embedder_model: Annotated[_Name | None, Field(validate_default=True)] = None
    """The model's name with that embedder; required by all but `minilm`, `e5` and `minilm+e5`."""
    embedder_url: str | None = None
    """The embedder's address; by default its function's."""
    embedder_options: Annotated[
        dict[str, JsonValue], NoDecode, BeforeValidator(_read_json), AfterValidator(_check_no_secret)
    ] = {}
    """Further arguments of the embedder's function (JSON in the environment); never a key."""
    embedder_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds that one request to an embedder may take, retries included."""
    embedder_batch: Annotated[int, Field(ge=1, le=2048)] = 32
    """The most windows of text in one request to an embedder."""
    embedder_window_characters: Annotated[int, Field(ge=100, le=100_000)] = 2000
    """Texts longer than this get several vectors; ignored by `minilm` and `e5`, which have their own."""
    summarizer: Literal["extractive", "openai", "anthropic"] = "extractive"
    """The summarizer, if not the agent itself: `extractive`, without a model, `openai` or `anthropic`
    (docs/summarizers.md)."""
    summarizer_model: Annotated[_Name | None, Field(validate_default=True)] = None
    """The model's name at that service; required by every summarizer but `extractive`."""
    summarizer_url: Annotated[str, AfterValidator(_check_endpoint)] | None = None
    """The service's address; by default its library's."""
    summarizer_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds that one request to the model may take; it is repeated at most twice."""
    summarizer_max_input_tokens: Annotated[int, Field(ge=4_000, le=2_000_000)] = 100_000
    """The most tokens in one request to the model; longer spans are summarised in parts."""
    semantic_store: Annotated[str, BeforeValidator(_check_semantic_store)] = "auto"
    """The store that searches by meaning (docs/semantic-store.md): `auto`, Chroma from 20,000 vectors of a scope; a
    number of your own; `chroma`, from the first record; `exact`, never; a Chroma server's address; `cloud`; or
    `pgvector`, which goes with `database_url`."""
    chroma_tenant: _Name | None = None
    """The tenant on a Chroma server, or in the cloud."""
    chroma_database: _Name | None = None
    """The database there, or in the cloud."""
    chroma_headers: Annotated[dict[str, _Sendable], NoDecode, BeforeValidator(_read_json)] = {}
    """Headers that are sent to the server with every request (JSON; environment only)."""
    chroma_api_key: _Sendable | None = None
    """The key for `cloud` (environment only)."""
    idle_minutes: Annotated[float, Field(ge=0, le=10_080)] = 10.0
    """Minutes that the process that owns the memory stays after its last client window or hook (docs/clients.md)."""
    url: Annotated[str, AfterValidator(_check_endpoint)] | None = None
    """An HTTP server, with its /mcp path, to forward everything to; environment only (docs/http.md)."""
    token: _Sendable | None = None
    """The token of this agent there; environment only."""
    http_connections: Annotated[int | None, Field(ge=4, le=100_000)] = None
    """Connections that `serve --http` holds at once (docs/http.md); by default 512, or as many as the limit of open
    files allows."""
    http_connections_per_address: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Connections from one address; by default half, but all for this machine, where a proxy may run."""
    http_head_seconds: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """Seconds that the head of a request may take to arrive."""
    http_transfer_seconds: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    """Seconds that its body may take to arrive, and that the client may take to read the answer."""
    http_idle_seconds: Annotated[int, Field(ge=1, le=3_600)] = 75
    """Seconds that an idle connection is kept open between requests."""
    http_calls: Annotated[int, Field(ge=1, le=40)] = 8
    """Calls that work at once in `serve --http`; the others wait for their turn."""
    http_waiting_calls: Annotated[int, Field(ge=0, le=100_000)] = 256
    """Calls that may wait in it; further ones are told that the server is busy."""
    oauth_issuer: _TrustedUrl | None = None
    """The OAuth server whose tokens `serve --http --oauth` takes, as its tokens write it in `iss` (docs/http.md)."""
    oauth_audience: _TrustedUrl | None = None
    """The address of this server as clients write it, with `/mcp`; a token must name it in `aud`."""
    oauth_algorithms: Annotated[
        list[SignatureAlgorithm], Field(min_length=1), NoDecode, BeforeValidator(_split_commas)
    ] = ["RS256", "PS256", "ES256", "ES384", "Ed25519"]
    """The signatures that are taken, separated by commas; any of RS, PS and ES with 256, 384 or 512, `Ed25519`,
    `EdDSA`; by default `RS256,PS256,ES256,ES384,Ed25519`."""
    oauth_person_claim: _Name = "sub"
    """The claim that names the person; take one that nobody may choose or change for themselves."""
    oauth_agent_claim: _Name | None = None
    """The claim that names the client, from which its agent's name is made; by default `azp`, else `client_id`."""
    oauth_grants_claim: _Name = "groups"
    """The claim that lists `mem:<namespace>:<right>`; dots lead into it (`realm_access.roles`), and a text is read as
    words (`scope`)."""
    oauth_introspection_url: _TrustedUrl | None = None
    """The endpoint that is asked about tokens of the issuer that are no JWT; by default they are refused."""
    oauth_introspection_client: _Name | None = None
    """The name that this server has at that endpoint."""
    oauth_introspection_secret: _Sendable | None = None
    """Its secret there; environment only."""
    maintain_minutes: Annotated[float, Field(ge=0, le=10_080)] = 30.0
    """Most minutes between two runs in which a server ages and judges records (docs/lifecycle.md); 0 leaves it to
    `mcp-memory maintain`."""
    hook_max_tokens: Annotated[int, Field(ge=0, le=20_000)] = 2_000
    """The block that a hook supplies when a session starts, at most; 0 for none (docs/claude-code.md)."""
    hook_prompt_max_tokens: Annotated[int, Field(ge=0, le=2_000)] = 600
    """Tokens that a hook adds to a prompt, at most; 0 for nothing."""
    hook_guardrails: bool = True
    """Lets guardrails deny a call of a tool, or warn beside it, before the client makes it."""
    hook_log: bool = True
    """Lets hooks keep the session's log: messages, tool calls, the client's summaries, checkpoints."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    """The level of messages on stderr: ids and counts, never remembered text."""
    log_format: Literal["text", "json"] = "text"
    """Their form: lines for people, or a JSON object a line (docs/monitoring.md)."""
    otel: bool = False
    """Sends traces and figures by OTLP to where the `OTEL_EXPORTER_OTLP_*` variables say; needs the extra `otel`
    (docs/monitoring.md)."""
    read_log_days: Annotated[float, Field(ge=0, le=3_650)] = 0.0
    """Days for which the memory keeps which request gave which records to whom; 0 for none (docs/monitoring.md)."""

    _zone: tzinfo | None = None
    _variables: Mapping[str, SecretStr] | None = None

    def of_client(
        self, mine: Mapping[str, Any], zone: tzinfo | None, variables: Mapping[str, str] | None
    ) -> "Settings":
        """Return these with a client's own; `zone` and `variables` are those of its process, None where of this one."""
        seat = self.model_copy(update=mine)
        seat._zone = zone  # noqa: SLF001
        seat._variables = None if variables is None else {name: SecretStr(each) for name, each in variables.items()}  # noqa: SLF001
        return seat

    def zone(self) -> tzinfo:
        """Return the time zone of the user's days."""
        return ZoneInfo(self.timezone) if self.timezone else self._zone or system_zone()

    def variables(self) -> Mapping[str, str] | None:
        """Return the variables that a chat model is asked with; None where they are those of this process."""
        given = self._variables
        return None if given is None else {name: value.get_secret_value() for name, value in given.items()}

    @field_validator("embedder_model")
    @classmethod
    def _check_model(cls, model: str | None, info: ValidationInfo) -> str | None:
        """Require a model's name: the functions' own default changes with Chroma, and with it the vectors."""
        embedder = info.data.get("embedder")
        if embedder in _OF_OURS and model is not None:
            raise ValueError(f"embedder {embedder} has no other model; set embedder too, or leave this out")
        if embedder not in (*_OF_OURS, None) and model is None:
            raise ValueError(f"embedder {embedder} needs the name of a model")
        return model

    @field_validator("semantic_store")
    @classmethod
    def _check_pgvector(cls, store: str, info: ValidationInfo) -> str:
        if store.startswith("pgvector") and info.data.get("database_url") is None:
            raise ValueError("pgvector needs a memory in PostgreSQL; set MCP_MEMORY_DATABASE_URL too")
        return store

    @field_validator("summarizer_model")
    @classmethod
    def _check_summarizer_model(cls, model: str | None, info: ValidationInfo) -> str | None:
        summarizer = info.data.get("summarizer")
        if summarizer == "extractive" and model is not None:
            raise ValueError("extractive asks no model; set summarizer too, or leave this out")
        if summarizer not in ("extractive", None) and model is None:
            raise ValueError(f"summarizer {summarizer} needs the name of a model")
        return model

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments first, then the environment, then the file; a `.env` of the working directory is ignored."""
        file = TomlConfigSettingsSource(settings_cls, toml_file=config_file())
        variables = {name.upper() for name, value in os.environ.items() if value}
        for name in _REPLACED:
            if name in file() or f"{locations.PREFIX}{name.upper()}" in variables:
                raise InvalidRequest(
                    f"Setting {name}: it is semantic_store now. Take it out and set MCP_MEMORY_SEMANTIC_STORE to auto,"
                    " chroma, exact, cloud, a number of vectors or a server's address."
                )
        if written := _FROM_ENVIRONMENT_ONLY & file().keys():
            name = min(written)
            raise InvalidRequest(f"{config_file()} holds {name}; take it out and set MCP_MEMORY_{name.upper()}.")
        return init_settings, env_settings, file


_ModelT = TypeVar("_ModelT", bound=BaseModel)


OF_SEAT: Final = frozenset(
    "namespace roots agent session inherit token_factor max_tokens hook_max_tokens hook_prompt_max_tokens"
    " hook_guardrails hook_log timezone strategies_file read_files".split()
)
"""Settings of a client of the memory; the others are the memory's, and equal for all its clients."""
_OF_PROCESS: Final = frozenset(
    "data_dir log_level log_format otel idle_minutes url token http_connections http_connections_per_address"
    " http_head_seconds http_transfer_seconds http_idle_seconds http_calls http_waiting_calls"
    " oauth_issuer oauth_audience oauth_algorithms oauth_person_claim oauth_agent_claim oauth_grants_claim"
    " oauth_introspection_url oauth_introspection_client oauth_introspection_secret".split()
)
"""Settings of the process that reads them alone."""


class _ClientSettings(Settings):
    """Settings by what another process told, whatever this one's environment says."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments alone."""
        return (init_settings,)


def of_memory(own: Settings) -> Settings:
    """Return these settings without those of a seat: a memory's owner works for others.

    What it does for nobody, as upkeep, is in its own time zone.
    """
    theirs = OF_SEAT - {"timezone", "strategies_file"}
    return own.model_copy(update={name: Settings.model_fields[name].default for name in theirs})


_AT_WORK: ContextVar[tuple[Settings, Callable[[], tzinfo]] | None] = ContextVar("at_work", default=None)
"""A client's settings, and its time zone, which is found once: many days are shown."""


def at_work() -> Settings | None:
    """Return the settings of the client for whom this thread works; None where that is the process itself."""
    work = _AT_WORK.get()
    return work[0] if work else None


def zone_at_work() -> tzinfo | None:
    """Return the time zone of that client; None likewise."""
    work = _AT_WORK.get()
    return work[1]() if work else None


@contextmanager
def working_for(client: Settings | None) -> Generator[None]:
    """Work for the client with these settings; copies of this context do so too."""
    token = _AT_WORK.set((client, cache(client.zone)) if client else None)
    try:
        yield
    finally:
        _AT_WORK.reset(token)


def settings_of_client(own: Settings, told: Mapping[str, Any]) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of a client of the process with `own`, and the variables that do not count there.

    `told` is what `locations.as_told` says in the client's process. What OF_SEAT lists is the client's own; all others
    are the memory's, which its owner has read before.

    Raises:
        InvalidRequest: a value is refused.
        KeyError, TypeError: it says nothing of the kind.
    """
    given = {name: value for name, value in told["given"].items() if name in Settings.model_fields}
    file = Path(str(told["file"]))
    theirs = _read(_ClientSettings, {"strategies_file": _strategies_beside(file), **_in_file(file), **given}, file)
    if theirs.redact_secrets and not own.redact_secrets:
        raise InvalidRequest(
            "This memory was opened with MCP_MEMORY_REDACT_SECRETS=false, and this client wants secrets removed. Run"
            " `mcp-memory stop`, then start the client again, with the same value for all."
        )
    if theirs.database_url != own.database_url:
        raise InvalidRequest(
            "This memory's process was started with another MCP_MEMORY_DATABASE_URL than this client's. Run"
            " `mcp-memory stop`, then start the client again, with the same value for all, or another"
            " MCP_MEMORY_DATA_DIR for each."
        )
    mine = {name: getattr(theirs, name) for name in OF_SEAT}
    if theirs.strategies_file:  # The client's path is relative to its own folder.
        mine["strategies_file"] = Path(str(told.get("folder", "")), theirs.strategies_file)
    others = Settings.model_fields.keys() - OF_SEAT - _OF_PROCESS
    differing = [f"MCP_MEMORY_{name.upper()}" for name in sorted(others) if getattr(theirs, name) != getattr(own, name)]
    asks_model = own.summarizer != "extractive"
    fixed = locations.fixed_keys()
    has_other_fixed = asks_model and told.get("fixed_keys", fixed) != fixed
    if has_other_fixed or (_asks_others(own) and told["keys"] != locations.keys()):
        differing.append("the keys in its environment")
    variables = told.get("variables")  # A window of an earlier build tells neither these nor its zone.
    if not asks_model or variables == locations.variables():
        variables = None
    return own.of_client(mine, _zone_of(told.get("zone") or locations.zone()), variables), tuple(differing)


def _asks_others(settings: Settings) -> bool:
    """True where the memory uses a library that reads keys and proxies from the environment by itself."""
    store = settings.semantic_store
    is_near = store in ("auto", "chroma", "exact") or _SIZED_STORE.fullmatch(store) is not None
    return settings.embedder not in _OF_OURS or not is_near


def _in_file(path: Path) -> dict[str, Any]:
    """Return what the TOML file says. Raises InvalidRequest."""
    try:
        return TomlConfigSettingsSource(Settings, toml_file=path)()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise InvalidRequest(f"{path} cannot be read as TOML; correct it and start again.") from error


def config_file() -> Path:
    """Return the path of the TOML file: MCP_MEMORY_CONFIG, or config.toml in the platform's configuration directory."""
    return Path(locations.config_file())


def client_variables() -> dict[str, str]:
    """Return those variables that say where other programs keep their configuration, as far as they are set."""
    names = ("APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "LOCALAPPDATA", "XDG_CONFIG_HOME")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; `overrides` that are None count as not given.

    Raises:
        InvalidRequest: a value is refused; the message names the setting and why.
    """
    return _read(Settings, {name: value for name, value in overrides.items() if value is not None})


def _unknown(name: str, file: Path) -> str:
    near = get_close_matches(name.lower()[:40], Settings.model_fields, 1)
    meant = f"call it {near[0]}, or take it out" if near else "take it out; docs/settings.md lists them"
    return f"There is an unknown setting {name[:40]} in {file}: {meant}."


def _read(kind: type[_ModelT], given: Mapping[str, Any], file: Path | None = None) -> _ModelT:
    """Read settings of that kind; `file` is the one that they stand in. Raises as `load_settings`."""
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:1]) or "settings"
        if first["type"] == "extra_forbidden":
            raise InvalidRequest(_unknown(name, file or config_file())) from error
        why = first["msg"].removeprefix("Value error, ")
        also = "" if name in _FROM_ENVIRONMENT_ONLY else f" or {config_file().name}"
        raise InvalidRequest(f"Setting {name}: {why}. Change MCP_MEMORY_{name.upper()}{also}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"{config_file()} is no TOML: {str(error)[:200]}. Correct it and start again.") from error
    except OSError as error:
        raise InvalidRequest(f"{config_file()} cannot be read: {error.strerror}. Make it readable.") from error

"""Settings: what wins over what, and what a person reads when a value is wrong."""

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mcp_memory import locations
from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import load_settings, of_memory, settings_of_client, system_zone
from tools import settings_table


def test_arguments_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('agent = "from-file"\nnamespace = "from-file"\nmax_tokens = 500\n')
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(file))
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "from-environment")
    monkeypatch.setenv("MCP_MEMORY_AGENT", "from-environment")
    settings = load_settings(agent="from-argument", data_dir=None)
    assert (settings.agent, settings.namespace, settings.max_tokens) == ("from-argument", "from-environment", 500)


def test_the_table_of_the_docs_is_made_from_the_settings() -> None:
    """O3.1: `python tools/settings_table.py` writes it anew from each field, its default and its docstring."""
    page = settings_table.PAGE.read_text("utf-8")
    assert settings_table.written(page) == page


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "")
    assert load_settings().namespace is None


def test_inherited_namespaces_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_INHERIT", "team, company ,")
    assert load_settings().inherit == ["team", "company"]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("MAX_TOKENS", "5", "greater than or equal to 64"),
        ("AGENT", "a/b", "slash"),
        ("NAMESPACE", "\x01", "control characters"),
        ("AGENT", "caf\udce9", "must be UTF-8, and holds a byte that is not"),
        ("ENCODING", "p50k_base", "o200k_base"),
    ],
)
def test_a_wrong_value_names_the_setting_and_why(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    """S3.1."""
    monkeypatch.setenv(f"MCP_MEMORY_{name}", value)
    with pytest.raises(InvalidRequest, match=f"MCP_MEMORY_{name}") as caught:
        load_settings()
    assert why in str(caught.value)


@pytest.mark.parametrize("content", [b"agent = ", b"\xff\xfe\x00", b"a = " + b"[" * 10_000])
def test_a_file_that_is_no_toml_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    """S3.1, X6.4: cut off, binary, nested beyond reason."""
    file = tmp_path / "config.toml"
    file.write_bytes(content)
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(file))
    with pytest.raises(InvalidRequest, match=r"config\.toml"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "says"), [("max_tokenz", "call it max_tokens, or"), ("xyz", "take it out; docs/settings.md lists")]
)
def test_an_unknown_setting_is_named_with_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, says: str
) -> None:
    """S3.1: no variable has that name."""
    file = tmp_path / "config.toml"
    file.write_text(f"{name} = 300\n", "utf-8")
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(file))
    with pytest.raises(InvalidRequest) as caught:
        load_settings()
    assert str(caught.value).startswith(f"There is an unknown setting {name} in {file}: {says}")


def test_strategies_are_looked_for_beside_the_settings_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A6.5: unless another file is named."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "config.toml"))
    assert load_settings().strategies_file is None
    file = tmp_path / "strategies.toml"
    file.touch()
    assert load_settings().strategies_file == file
    monkeypatch.setenv("MCP_MEMORY_STRATEGIES_FILE", str(tmp_path / "mine.toml"))
    assert load_settings().strategies_file == tmp_path / "mine.toml"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"summarizer": "nobody"}, "'extractive'.*'openai'.*'anthropic'"),
        ({"summarizer": "openai"}, "summarizer openai needs the name of a model.*MCP_MEMORY_SUMMARIZER_MODEL"),
        ({"summarizer_model": "some-model"}, "extractive asks no model"),
        ({"summarizer_url": "ftp://localhost"}, "must be http:// or https://"),
        ({"summarizer_url": "https://user:word@localhost/v1"}, "keys come from the environment alone"),
        ({"summarizer_url": "https://localhost/v1?key=word"}, "keys come from the environment alone"),
        ({"url": "https://localhost#word"}, "keys come from the environment alone"),
        ({"url": "http://localhost:99999"}, "Port out of range"),
        ({"summarizer_timeout_seconds": 0}, "greater than 0"),
        ({"summarizer_max_input_tokens": 10}, "greater than or equal to 4000"),
    ],
)
def test_wrong_settings_of_a_summarizer_are_told(
    chosen: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.1, S4.3: without what may be a key."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(InvalidRequest, match=said) as caught:
        load_settings(**chosen)
    assert "word" not in str(caught.value)


def test_a_model_for_summaries_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """D7.1: its address may have a path."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    assert load_settings().summarizer == "extractive"
    monkeypatch.setenv("MCP_MEMORY_SUMMARIZER", "openai")
    monkeypatch.setenv("MCP_MEMORY_SUMMARIZER_MODEL", "some-model")
    monkeypatch.setenv("MCP_MEMORY_SUMMARIZER_URL", "http://localhost:11434/v1")
    settings = load_settings()
    assert (settings.summarizer, settings.summarizer_model) == ("openai", "some-model")
    assert settings.summarizer_url == "http://localhost:11434/v1"
    assert settings.summarizer_timeout_seconds == 60


def test_a_server_to_pass_on_to_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S4.2, S4.3: with the token, which neither a file nor a message holds."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "config.toml"))
    assert (load_settings().url, load_settings().token) == (None, None)
    monkeypatch.setenv("MCP_MEMORY_URL", "https://memory.example.com/mcp")
    monkeypatch.setenv("MCP_MEMORY_TOKEN", "mcpm_word")
    settings = load_settings()
    assert settings.url == "https://memory.example.com/mcp"
    assert settings.token is not None
    assert settings.token.get_secret_value() == "mcpm_word"
    assert "word" not in repr(settings)
    monkeypatch.setenv("MCP_MEMORY_TOKEN", "mcpm_word\n\u2028")
    with pytest.raises(InvalidRequest, match="Setting token: must hold ASCII") as refused:
        load_settings()
    assert "word" not in str(refused.value)
    for name in ("url", "token"):
        (tmp_path / "config.toml").write_text(f'{name} = "http://localhost"', "utf-8")
        with pytest.raises(InvalidRequest, match=f"holds {name}; take it out and set MCP_MEMORY_{name.upper()}"):
            load_settings()


def test_a_time_zone_that_nobody_has_is_refused() -> None:
    """W6.1."""
    assert str(load_settings(timezone="Europe/Berlin").zone()) == "Europe/Berlin"
    with pytest.raises(InvalidRequest, match="must be a time zone, such as Europe/Berlin"):
        load_settings(timezone="Europe/Atlantis")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows takes its zone from the registry")
@pytest.mark.parametrize(
    ("zone", "hours"),
    [("UTC", 0), ("Etc/GMT-14", 14), ("XYZ-3", 3)],
    ids=["UTC", "a named zone", "a zone without a name"],
)
def test_days_are_those_of_the_systems_zone(monkeypatch: pytest.MonkeyPatch, zone: str, hours: int) -> None:
    """W6.1: where Python knows no zone by that name, its distance from UTC counts."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    monkeypatch.setattr("tzlocal.unix._cache_tz", None)
    try:
        assert datetime(2026, 11, 20, tzinfo=system_zone()).utcoffset() == timedelta(hours=hours)
    finally:
        monkeypatch.undo()
        time.tzset()


def told(tmp_path: Path, written: str = "", **given: str) -> dict[str, Any]:
    """What a client's process says of its settings."""
    (tmp_path / "theirs.toml").write_text(written, "utf-8")
    said = {**locations.as_told({}), "file": str(tmp_path / "theirs.toml"), "given": given}
    return {**said, "folder": str(tmp_path / "at")}


def test_a_client_has_names_and_budgets_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own arguments, variables and file, whatever the owner's environment says."""
    monkeypatch.setenv("MCP_MEMORY_AGENT", "the-owners")
    monkeypatch.setenv("MCP_MEMORY_MAX_TOKENS", "100")
    own = of_memory(load_settings(data_dir=tmp_path, redact_secrets=False))
    assert (own.agent, own.max_tokens, own.redact_secrets) == ("default", 8000, False)
    theirs = told(tmp_path, 'agent = "alice"\ninherit = ["red"]\nredact_secrets = false', max_tokens="700", config="x")
    settings, differing = settings_of_client(own, theirs)
    assert (settings.agent, settings.inherit, settings.max_tokens) == ("alice", ["red"], 700)
    assert (settings.redact_secrets, settings.data_dir, differing) == (False, tmp_path, ())


def test_a_client_is_told_which_of_its_settings_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = of_memory(load_settings(data_dir=tmp_path, expired_days=3))
    told_here = told(tmp_path, "redact_secrets = false", log_level="DEBUG")
    settings, differing = settings_of_client(own, told_here)
    assert settings.redact_secrets
    assert differing == ("MCP_MEMORY_EXPIRED_DAYS", "MCP_MEMORY_REDACT_SECRETS")
    other_keys = {**told(tmp_path), "keys": "others"}
    assert settings_of_client(of_memory(load_settings(data_dir=tmp_path)), other_keys)[1] == ()
    asking = of_memory(load_settings(data_dir=tmp_path, embedder="ollama", embedder_model="m"))
    theirs = {**told(tmp_path, embedder="ollama", embedder_model="m"), "keys": "others"}
    assert settings_of_client(asking, theirs)[1] == ("the keys in its environment",)


def test_a_client_has_days_and_strategies_of_its_own(tmp_path: Path) -> None:
    """By its settings, else by its process; its strategies are in its own folder, or beside its own file."""
    own = of_memory(load_settings(data_dir=tmp_path, timezone="Asia/Tokyo", strategies_file="/owner.toml"))
    here, elsewhere = told(tmp_path), {**told(tmp_path), "zone": ["Europe/Berlin", 3600]}
    assert (own.zone(), own.strategies_file) == (ZoneInfo("Asia/Tokyo"), Path("/owner.toml"))
    zones = [settings_of_client(own, each)[0].zone() for each in (here, elsewhere)]
    assert zones == [system_zone(), ZoneInfo("Europe/Berlin")]
    nowhere = {**told(tmp_path), "zone": ["XYZ-3", 10_800]}
    assert settings_of_client(own, nowhere)[0].zone() == timezone(timedelta(hours=3))
    named = {**told(tmp_path, timezone="America/Lima", strategies_file="mine.toml"), "zone": ["XYZ-3", 10_800]}
    settings, differing = settings_of_client(own, named)
    assert (settings.zone(), settings.strategies_file) == (ZoneInfo("America/Lima"), tmp_path / "at" / "mine.toml")
    assert differing == ()
    assert settings_of_client(own, here)[0].strategies_file is None
    (tmp_path / "strategies.toml").touch()
    assert settings_of_client(own, here)[0].strategies_file == tmp_path / "strategies.toml"


def test_a_client_has_the_keys_of_its_process_where_a_model_is_asked(tmp_path: Path) -> None:
    """S4.3: nothing shows them; those that it cannot have for itself are told."""
    model = {"summarizer": "openai", "summarizer_model": "m"}
    asking = of_memory(load_settings(data_dir=tmp_path, **model))
    mine, theirs = told(tmp_path, **model), {**told(tmp_path, **model), "variables": {"OPENAI_API_KEY": "sk-theirs"}}
    assert settings_of_client(asking, mine)[0].variables() is None
    settings, differing = settings_of_client(asking, {**theirs, "keys": "others"})
    assert (settings.variables(), differing) == ({"OPENAI_API_KEY": "sk-theirs"}, ())
    assert settings.model_copy(update={"namespace": "red"}).variables() == {"OPENAI_API_KEY": "sk-theirs"}
    assert "sk-theirs" not in f"{settings!r} {settings} {settings.model_dump()} {vars(settings)}"
    assert "sk-theirs" not in repr(settings.__pydantic_private__)
    assert settings_of_client(asking, {**mine, "fixed_keys": "others"})[1] == ("the keys in its environment",)
    assert settings_of_client(of_memory(load_settings(data_dir=tmp_path)), theirs)[0].variables() is None


@pytest.mark.parametrize(("written", "given"), [("agent = 7", {}), ("agent = [", {}), ("", {"max_tokens": "many"})])
def test_what_a_client_cannot_mean_is_refused(tmp_path: Path, written: str, given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=r"agent|TOML|max_tokens"):
        settings_of_client(of_memory(load_settings(data_dir=tmp_path)), told(tmp_path, written, **given))

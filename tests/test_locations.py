import os
import time
from pathlib import Path

import platformdirs
import pytest

from mcp_memory import locations
from mcp_memory.settings import load_settings


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without settings, and a home of its own."""
    for name in list(os.environ):
        if name.upper().startswith("MCP_MEMORY_") or name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"XDG_DATA_HOME": "/x/data", "XDG_CONFIG_HOME": "/x/config"},
        {"XDG_DATA_HOME": "", "XDG_CONFIG_HOME": "  "},
        {"XDG_DATA_HOME": "~/data"},
    ],
)
def test_usual_places_are_the_platforms(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert locations.default_data_dir() == platformdirs.user_data_dir("mcp-memory", appauthor=False)
    folder = platformdirs.user_config_dir("mcp-memory", appauthor=False)
    assert locations.config_file() == str(Path(folder, "config.toml"))


@pytest.mark.parametrize(
    ("variables", "written", "chosen"),
    [
        ({}, "", {}),
        ({"MCP_MEMORY_DATA_DIR": "/from/variable"}, 'data_dir = "/from/file"', {}),
        ({"MCP_MEMORY_DATA_DIR": "~/below"}, "", {}),
        ({"MCP_MEMORY_DATA_DIR": ""}, 'data_dir = "/from/file"', {}),
        ({}, 'data_dir = "~/from/file"', {"data_dir": None}),
        ({}, 'data_dir = "/from/file"', {"data_dir": Path("/from/argument")}),
        ({}, '# data_dir = "/of/a/comment"', {}),
    ],
)
def test_the_data_directory_is_the_one_that_the_settings_have(
    bare: Path, variables: dict[str, str], written: str, chosen: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    (bare / "config.toml").write_text(written, "utf-8")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert locations.data_dir(chosen) == str(load_settings(**chosen).data_dir)


@pytest.mark.parametrize("written", ["data_dir = [", 'data_dir = "here"', "data_dir = 7", "\udcff data_dir"])
def test_what_the_settings_refuse_is_no_directory(bare: Path, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    (bare / "config.toml").write_bytes(written.encode("utf-8", "surrogateescape"))
    assert locations.data_dir({}) in ("", locations.default_data_dir())


def test_what_settings_are_read_from_is_told_by_their_names(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    (bare / "config.toml").write_text('agent = "alice"\nmax_tokens = 700', "utf-8")
    monkeypatch.setenv("mcp_memory_inherit", "red,blue")
    monkeypatch.setenv("MCP_MEMORY_EMBEDDER", "")
    told = locations.as_told({"data_dir": Path("/here"), "namespace": None, "session": "monday"})
    assert told["file"] == str(bare / "config.toml")
    expected = {"agent": "alice", "inherit": "red,blue", "data_dir": "/here", "session": "monday"}
    assert told["given"] == {**expected, "config": str(bare / "config.toml")}


def test_keys_are_told_by_a_digest_alone_but_those_of_chat_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "mine")
    mine = locations.as_told({})
    monkeypatch.setenv("EDITOR", "vi")
    assert locations.as_told({}) == mine
    monkeypatch.setenv("COHERE_API_KEY", "yours")
    yours = locations.as_told({})
    assert yours["keys"] != mine["keys"]
    assert "yours" not in repr(yours)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: ours")
    headers = locations.as_told({})
    assert (headers["keys"], headers["variables"]) == (yours["keys"], yours["variables"])
    assert headers["fixed_keys"] != yours["fixed_keys"]


def test_what_a_chat_model_is_asked_with_is_told_by_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in locations.variables():
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    given = {"OPENAI_API_KEY": "k", "openai_org_id": "o", "HTTPS_PROXY": "a", "https_proxy": "b", "No_Proxy": "c"}
    for name, value in (given | {"ANTHROPIC_API_KEY": "", "ANTHROPIC_MODEL": "m"}).items():
        monkeypatch.setenv(name, value)
    assert locations.variables() == {"OPENAI_API_KEY": "k", "HTTPS_PROXY": "b", "NO_PROXY": "c"}


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows takes its zone from the registry")
@pytest.mark.parametrize(
    ("variable", "zone"),
    [
        ("Asia/Tokyo", ["Asia/Tokyo", 32_400]),
        (":Asia/Tokyo", ["Asia/Tokyo", 32_400]),
        ("/usr/share/zoneinfo/Etc/GMT-14", ["Etc/GMT-14", 50_400]),
        ("XYZ-3", ["XYZ-3", 10_800]),
        ("", ["", 0]),
    ],
)
def test_a_time_zone_is_told_by_its_name_and_its_distance(
    monkeypatch: pytest.MonkeyPatch, variable: str, zone: list[object]
) -> None:
    monkeypatch.setenv("TZ", variable)
    time.tzset()
    try:
        assert locations.zone() == zone
    finally:
        monkeypatch.undo()
        time.tzset()
    if "TZ" not in os.environ:
        assert locations.zone()[1] == time.localtime().tm_gmtoff


def test_names_are_read_from_arguments_variables_in_any_case_and_the_file(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    (bare / "config.toml").write_text('agent = "alice"\nnamespace = "red"', "utf-8")
    monkeypatch.setenv("mcp_memory_namespace", "blue")
    assert locations.named({"session": "monday", "namespace": None}) == {
        "agent": "alice", "namespace": "blue", "session": "monday",
    }  # fmt: skip

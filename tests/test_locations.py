import os
import sys
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


def test_settings_that_differ_have_other_fingerprints(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    seen = [locations.fingerprint({})]
    for change in (
        lambda: monkeypatch.setenv("mcp_memory_inherit", "shared"),
        lambda: (bare / "config.toml").write_text("hook_log = false", "utf-8"),
        lambda: (bare / "config.toml").write_text("hook_log = true ", "utf-8"),
        lambda: monkeypatch.setenv("HOME", "/elsewhere"),
        lambda: monkeypatch.setattr(locations, "__version__", "0.0.9"),
    ):
        change()
        seen.append(locations.fingerprint({}))
    seen.append(locations.fingerprint({"max_tokens": 500}))
    assert len(set(seen)) == len(seen)


def test_what_makes_no_difference_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_AGENT", "bob")
    usual = locations.fingerprint({})
    monkeypatch.setenv("MCP_MEMORY_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "")
    assert locations.fingerprint({"namespace": None}) == usual
    assert locations.fingerprint({"agent": "bob"}) == usual
    monkeypatch.delenv("MCP_MEMORY_AGENT")
    assert locations.fingerprint({"agent": "bob"}) == usual
    assert sys.platform != "linux" or len(usual) == 12


@pytest.mark.parametrize("way", ["argument", "variable", "file"])
def test_a_window_with_a_server_of_its_own_looks_for_no_other(
    bare: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    assert locations.shares_server({})
    if way == "variable":
        monkeypatch.setenv("MCP_MEMORY_SHARE_SERVER", "False")
    if way == "file":
        (bare / "config.toml").write_text("share_server = false", "utf-8")
    assert not locations.shares_server({"share_server": False} if way == "argument" else {})


def test_windows_share_by_the_same_strategies_and_where_it_matters_the_same_keys(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    usual = locations.lead_name({})
    assert usual == locations.lead_name({"agent": "bob"}) != locations.lead_name({"max_tokens": 500})
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    assert locations.lead_name({}) == usual  # Nobody reads it.
    monkeypatch.setenv("MCP_MEMORY_EMBEDDER", "openai")
    mine = locations.lead_name({})
    monkeypatch.setenv("OPENAI_API_KEY", "yours")
    assert locations.lead_name({}) != mine
    monkeypatch.delenv("MCP_MEMORY_EMBEDDER")
    (bare / "strategies.toml").write_text("", "utf-8")
    assert locations.lead_name({}) == usual
    (bare / "strategies.toml").write_text("[mine]", "utf-8")
    assert locations.lead_name({}) != usual


def test_names_are_read_from_arguments_variables_in_any_case_and_the_file(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    (bare / "config.toml").write_text('agent = "alice"\nnamespace = "red"', "utf-8")
    monkeypatch.setenv("mcp_memory_namespace", "blue")
    assert locations.named({"session": "monday", "namespace": None}) == {
        "agent": "alice", "namespace": "blue", "session": "monday",
    }  # fmt: skip

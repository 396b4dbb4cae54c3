import os
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


def test_keys_are_told_by_a_digest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    mine = locations.keys()
    monkeypatch.setenv("EDITOR", "vi")
    assert locations.keys() == mine
    monkeypatch.setenv("OPENAI_API_KEY", "yours")
    assert locations.keys() != mine
    assert "yours" not in repr(locations.as_told({}))


def test_names_are_read_from_arguments_variables_in_any_case_and_the_file(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(bare / "config.toml"))
    (bare / "config.toml").write_text('agent = "alice"\nnamespace = "red"', "utf-8")
    monkeypatch.setenv("mcp_memory_namespace", "blue")
    assert locations.named({"session": "monday", "namespace": None}) == {
        "agent": "alice", "namespace": "blue", "session": "monday",
    }  # fmt: skip

"""The bundle's manifest and the registry's entry say what the package says.

Packing the bundle with its publisher's tool: tests/clients.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import mcp_memory
from mcp_memory.app import App
from mcp_memory.domain.model.projects import DEFAULT_NAMESPACE
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.settings import Settings

ROOT = Path(__file__).parents[1]
MANIFEST: dict[str, Any] = json.loads((ROOT / "manifest.json").read_text("utf-8"))
SERVER: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))
PACKAGE: dict[str, Any] = SERVER["packages"][0]
PREFIX = "MCP_MEMORY_"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


async def test_the_bundle_names_the_tools_that_there_are(app: App) -> None:
    """S7.3: all of them, in their order, so that a person sees before installing what an agent may do."""
    assert [tool["name"] for tool in MANIFEST["tools"]] == [tool.name for tool in await build_server(app).list_tools()]
    assert all(tool["description"].endswith(".") for tool in MANIFEST["tools"])
    assert "tools_generated" not in MANIFEST


def test_every_field_of_the_bundle_is_a_setting_and_may_be_left_empty() -> None:
    """S7.3: with a default, since a client hands on the placeholder of a field that has none."""
    env: dict[str, str] = MANIFEST["server"]["mcp_config"]["env"]
    fields: dict[str, Any] = MANIFEST["user_config"]
    ours = {name: value for name, value in env.items() if name.startswith(PREFIX)}
    assert ours == {f"{PREFIX}{name.upper()}": f"${{user_config.{name}}}" for name in fields}
    assert set(fields) <= set(Settings.model_fields)
    assert all(not field["required"] and isinstance(field["default"], str) for field in fields.values())


def test_the_bundle_s_defaults_are_the_package_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.3, X2.2: but for the namespace, which no folder that a desktop client starts it in is to decide.

    An empty field counts as not set.
    """
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)
    for name in MANIFEST["user_config"]:
        monkeypatch.delenv(f"{PREFIX}{name.upper()}", raising=False)
    plain = Settings()
    for name, field in MANIFEST["user_config"].items():
        monkeypatch.setenv(f"{PREFIX}{name.upper()}", field["default"])
    assert Settings() == plain.model_copy(update={"namespace": DEFAULT_NAMESPACE})


def test_bundle_and_registry_entry_agree_with_the_package() -> None:
    """S7.3: on version, name and what it is for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {MANIFEST["version"], SERVER["version"], PACKAGE["version"]} == {mcp_memory.__version__}
    assert {MANIFEST["name"], PACKAGE["identifier"]} == {project["name"].removesuffix("-core")}
    assert MANIFEST["display_name"] == SERVER["title"]
    assert MANIFEST["description"] == SERVER["description"]
    assert MANIFEST["license"] == project["license"]
    assert MANIFEST["compatibility"]["runtimes"]["python"] == project["requires-python"]


def test_the_bundle_takes_what_is_listed_and_refuses_the_rest() -> None:
    """S7.3: neither tests nor benchmarks nor tools; with what `uv run` needs to make the environment."""
    refused, *taken = [
        line for line in (ROOT / ".mcpbignore").read_text("utf-8").splitlines() if line.startswith(("/", "!"))
    ]
    assert refused == "/*"
    assert {name.removeprefix("!/") for name in taken} == {
        *("manifest.json", "mcp_memory", "pyproject.toml", "uv.lock"),
        *("LICENSE", "README.md", "plugin"),  # Without these the package is not built.
    }
    assert all((ROOT / name.removeprefix("!/")).exists() for name in taken)


def test_the_registry_s_variables_are_settings() -> None:
    """S7.3: those that a person chooses on installing, as in the bundle; none of them is a secret."""
    variables: list[dict[str, Any]] = PACKAGE["environmentVariables"]
    assert {each["name"] for each in variables} == {f"{PREFIX}{name.upper()}" for name in MANIFEST["user_config"]}
    assert not any(each.get("isSecret") or each.get("isRequired") for each in variables)


def test_the_registry_s_entry_keeps_the_registry_s_rules() -> None:
    """S7.3: those of its schema of 2025-12-11 that concern a package from PyPI started over stdio."""
    assert SERVER["$schema"] == SCHEMA
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER["name"])
    assert 3 <= len(SERVER["name"]) <= 200
    assert 1 <= len(SERVER["description"]) <= 100
    assert 1 <= len(SERVER["title"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", SERVER["version"])
    assert (PACKAGE["registryType"], PACKAGE["transport"]) == ("pypi", {"type": "stdio"})
    known = {"name", "description", "placeholder", "default", "format", "isRequired", "isSecret", "choices", "value"}
    for variable in PACKAGE["environmentVariables"]:
        assert set(variable) <= known
        assert variable.get("format", "string") in ("string", "number", "boolean", "filepath")


def test_addresses_are_of_the_owner_whom_the_registry_names() -> None:
    """S7.3, U3.1: `io.github.OWNER/` may be used by that owner of GitHub alone; one repository, whoever links to it."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    home = "https://github.com/" + SERVER["name"].removeprefix("io.github.")
    assert {urls["Homepage"], SERVER["websiteUrl"], SERVER["repository"]["url"], MANIFEST["repository"]["url"]} == {
        home
    }
    assert all(each.startswith(home) for each in urls.values())
    paths = [each.partition("/blob/main/")[2] for each in urls.values()]
    assert all((ROOT / path).is_file() for path in paths if path)


def test_the_readme_claims_no_other_name_in_the_registry() -> None:
    """S7.3: the registry looks for the line in the package's description on PyPI, to know that both have one owner."""
    for page in (ROOT / "README.md", ROOT / "stack" / "README.md"):
        assert re.findall(r"mcp-name: (\S+)", page.read_text("utf-8")) == [SERVER["name"]]


@pytest.mark.parametrize(("version", "code"), [(None, 0), ("latest", 1)])
def test_a_checker_that_carries_the_registry_s_schemas_takes_the_entry(
    tmp_path: Path, version: str | None, code: int
) -> None:
    """S7.3: and refuses a wrong one; the registry's own checker is a Go program that no package index has."""
    if importlib.util.find_spec("skillsaw") is None:
        pytest.skip("NOT TESTED against the registry's schema: the Python package skillsaw is not installed")
    entry = {**SERVER, **({"version": version} if version else {})}
    (tmp_path / "server.json").write_text(json.dumps(entry), "utf-8")
    command = [sys.executable, "-m", "skillsaw", "lint", "--strict", "--type", "mcp-registry", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert ran.returncode == code, ran.stdout + ran.stderr

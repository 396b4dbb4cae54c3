"""The files around the code say what the code says."""

import json
import re
import tomllib
from pathlib import Path

import mcp_memory

ROOT = Path(__file__).parents[1]
CONTRACT_ROW = re.compile(r"\b([A-GL-PTUWX]\d{1,2}(?:\.\d{1,2})?|[RS]\d(?:\.\d)?)(?=[,:;) ])")
"""A1.3, R2, E7: the ids of what the project promises."""
ROWS = dict(zip("ABCDEFGLMNOPRSTUWX", (7, 11, 9, 12, 8, 10, 2, 4, 5, 6, 4, 4, 9, 8, 5, 4, 8, 6), strict=True))
"""The highest number of each letter."""


def test_the_bundle_has_the_version_of_the_package() -> None:
    """S7.3: one place to change it, and a test for the other."""
    manifest = json.loads((ROOT / "manifest.json").read_text("utf-8"))
    assert manifest["version"] == mcp_memory.__version__


def test_the_bundle_starts_what_the_package_installs() -> None:
    """S7.3: by the name of the command, from a file that is there."""
    manifest = json.loads((ROOT / "manifest.json").read_text("utf-8"))
    server = manifest["server"]
    assert (ROOT / server["entry_point"]).is_file()
    command = server["mcp_config"]["args"][-1]
    assert f'{command} = "mcp_memory.' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_the_readme_names_the_command_and_every_tool() -> None:
    """A7.1, U3.2: and can be read in a minute or two."""
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in ("mcp-memory", *("remember recall assemble_context push_task pop_task compact revise forget".split())):
        assert f"`{name}" in readme or f"{name} " in readme, name
    assert len(readme.split()) <= 900


INSTALLS = re.compile(
    r"(?:uvx|pipx run|uv tool run|uv add|--with|--from|[Ii]nstall|beside)\s+(?:-\S+\s+)*['\"]?(mcp[-_]memory[-_\w]*)"
)
"""`pip install -q 'mcp-memory-stack[openai]'`, `uvx mcp-memory-stack`, "Install mcp-memory-stack again.": the name."""


def test_no_line_installs_what_has_our_former_name() -> None:
    """U3.1: on the package index `mcp-memory` is somebody else's, and installing it would run their code."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("*.json"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugin").rglob("*.md")]
    texts += [*ROOT.glob("*.toml"), ROOT / "justfile", *(ROOT / "mcp_memory").rglob("*.py")]
    named = [(path.name, name) for path in texts for name in INSTALLS.findall(path.read_text("utf-8"))]
    assert len(named) > 5, "the pattern finds the lines that there are"
    assert [each for each in named if each[1] not in ("mcp-memory-stack", "mcp-memory-stack-core")] == []
    assert INSTALLS.findall("pip install 'mcp-memory[openai]'; uvx mcp-memory") == ["mcp-memory", "mcp-memory"]


def test_the_registry_and_the_index_know_it_by_a_name_of_its_own() -> None:
    """U3.1: and `uvx` of that name finds a command of that name."""
    server = json.loads((ROOT / "server.json").read_text("utf-8"))
    assert server["packages"][0]["identifier"] == "mcp-memory-stack"
    for folder, name in ((ROOT, "mcp-memory-stack-core"), (ROOT / "stack", "mcp-memory-stack")):
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        assert project["name"] == name
        assert project["scripts"].keys() == {"mcp-memory", name}
        assert set(project["scripts"].values()) == {"mcp_memory.__main__:main"}


def test_the_whole_distribution_is_core_and_chroma_and_says_the_same_of_itself() -> None:
    """U3.1: of one version, with every extra of core's, and no module of its own; a clone is the whole unasked."""
    core = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    stack = tomllib.loads((ROOT / "stack" / "pyproject.toml").read_text("utf-8"))
    described, extras = core["project"], core["project"]["optional-dependencies"]

    def of_core(extra: str) -> list[str]:
        return [f"mcp-memory-stack-core[{extra}]=={mcp_memory.__version__}"]

    own = dict(stack["project"])
    assert own.pop("version") == mcp_memory.__version__
    assert own.pop("dependencies") == of_core("chroma")
    assert own.pop("optional-dependencies") == {name: of_core(name) for name in extras if name != "chroma"}
    same = own.keys() - {"name", "readme", "scripts", "license-files"}
    assert {name: own[name] for name in same} == {name: described[name] for name in same}
    assert [each for each in described["dependencies"] if each.startswith("chromadb")] == []
    assert [re.split(r"\W", each)[0] for each in extras["chroma"]] == ["chromadb"]
    assert stack["tool"]["hatch"] == {"build": {"targets": {"wheel": {"bypass-selection": True}}}}
    assert set(core["tool"]["uv"]["default-groups"]) == {"chroma", "dev"}
    assert core["dependency-groups"]["chroma"] == ["mcp-memory-stack-core[chroma]"]


def test_every_test_says_what_it_proves() -> None:
    """A docstring that begins with a row of the contract names one that can exist."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for docstring in re.findall(r'^ +"""([^"]+)', path.read_text("utf-8"), re.MULTILINE):
            for row in CONTRACT_ROW.findall(docstring.split("; ")[0].split(": ")[0] + ":"):
                assert 1 <= int(re.findall(r"\d+", row)[0]) <= ROWS[row[0]], f"{path.name}: {row}"


def test_the_package_carries_the_licences_of_what_it_ships() -> None:
    """S7.3: beside each of the model and the vocabularies."""
    for folder in ("minilm", "vocabularies"):
        for name in ("LICENSE", "NOTICE", "SHA256SUMS"):
            assert (ROOT / "mcp_memory" / "encoders" / "data" / folder / name).is_file()

"""What is published passes the publishers' own validators."""

import shutil
import zipfile
from pathlib import Path

import pytest

from tests.clients.node_packages import NodePackages
from tests.clients.programs import environment, run

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MCPB = "@anthropic-ai/mcpb"
LARGE_BYTES = 1 << 20


def _copy(source: str, target: str) -> None:
    """Copy a file, or make an empty one in place of a large one: the packager packs a model for four seconds."""
    if Path(source).stat().st_size > LARGE_BYTES:
        Path(target).touch()
    else:
        shutil.copyfile(source, target)


def test_the_bundle_holds_what_the_server_runs_by_and_nothing_else(packages: NodePackages, tmp_path: Path) -> None:
    """S7.3: the packager checks the manifest before it packs, and leaves out tests, benchmarks and tools."""
    packed, source = tmp_path / "memory.mcpb", tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("node_modules", ".venv", ".git"), copy_function=_copy)
    for folder in ("node_modules", ".venv"):
        (source / folder).mkdir()
        (source / folder / "installed.py").touch()
    ran = run([*packages.command(MCPB, "mcpb"), "pack", str(source), str(packed)], environment(tmp_path), tmp_path)
    assert ran.code == 0, ran.out + ran.err
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
    parts = {name for name in names if not name.startswith(("mcp_memory/", "plugin/"))}
    assert parts == {"LICENSE", "README.md", "manifest.json", "pyproject.toml", "uv.lock"}
    folders = [*(ROOT / "mcp_memory").rglob("*"), *(ROOT / "plugin").rglob("*")]
    files = (path for path in folders if path.is_file() and path.parent.name != "__pycache__")
    assert set(names) - parts == {path.relative_to(ROOT).as_posix() for path in files}


@pytest.mark.parametrize("folder", [ROOT / "plugin", ROOT], ids=["plugin", "marketplace"])
def test_the_plugin_is_valid(packages: NodePackages, tmp_path: Path, folder: Path) -> None:
    """S7.2: and so is the list by which it is installed. Strictly: what Claude Code does not know is an error."""
    command = [str(packages.claude), "plugin", "validate", "--strict", str(folder)]
    ran = run(command, environment(tmp_path), tmp_path)
    assert ran.code == 0, ran.out + ran.err

"""What is published passes the publishers' own validators."""

import re
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.clients.node_packages import NodePackages
from tests.clients.programs import environment, run

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MCPB = "@anthropic-ai/mcpb"


def make_bundle(folder: Path) -> None:
    """Put together what the recipe `build` packs."""
    recipe = re.search(r"cp -r (.+) build/bundle/", (ROOT / "justfile").read_text("utf-8"))
    assert recipe
    folder.mkdir()
    for name in recipe[1].split():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)


def test_the_bundle_packs(packages: NodePackages, tmp_path: Path) -> None:
    """S7.3: the packager checks the manifest before it packs."""
    bundle = tmp_path / "bundle"
    make_bundle(bundle)
    packed = tmp_path / "memory.mcpb"
    ran = run([*packages.command(MCPB, "mcpb"), "pack", str(bundle), str(packed)], environment(tmp_path), tmp_path)
    assert ran.code == 0, ran.out + ran.err
    with zipfile.ZipFile(packed) as archive:
        assert {"manifest.json", "mcp_memory/__main__.py", "uv.lock"} <= set(archive.namelist())


@pytest.mark.parametrize("folder", [ROOT / "plugin", ROOT], ids=["plugin", "marketplace"])
def test_the_plugin_is_valid(packages: NodePackages, tmp_path: Path, folder: Path) -> None:
    """S7.2: and so is the list by which it is installed. Strictly: what Claude Code does not know is an error."""
    command = [str(packages.claude), "plugin", "validate", "--strict", str(folder)]
    ran = run(command, environment(tmp_path), tmp_path)
    assert ran.code == 0, ran.out + ran.err

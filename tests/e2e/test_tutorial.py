"""docs/tutorial.md can be followed: its commands run in an empty home, and print what it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
INSTALLING = "## 3. "
"""What comes before it installs the package, which the tests' own environment holds already."""
VARIES = re.compile(
    r"\b(?:\d{4}-)?\d\d-\d\d\b|\bprocess \d+|\bc[0-9a-f]{10}\b|\b[rt][0-9a-z]{6}\b|^0\.\d\d\b", re.MULTILINE
)
"""2026-11-27, 11-27, process 7846, cad2e223106, r00000k, 0.21: what another run has otherwise."""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the tutorial is for shells of Linux and macOS")
def test_every_command_of_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    """U3.2, S2.1: among them an agent whose server is killed, and the next one, which goes on."""
    steps = TUTORIAL.partition(INSTALLING)[2]
    commands: list[str] = re.findall(r"```sh\n(.*?)```", steps, re.DOTALL)
    shown = re.findall(r"```text\n(.*?)```", steps, re.DOTALL)
    programs = Path(sys.executable).parent
    stop = next(each for each in commands if "mcp-memory stop" in each)
    looked = commands.index(stop)  # What it deletes next is looked at first.
    commands[looked:looked] = ["ls ~/first-memory/data"]
    script = "\n".join(commands).replace('"$CLONE/.venv/bin/python"', f'"{sys.executable}"')
    environment = {"HOME": str(tmp_path), "CLONE": str(ROOT), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(shown) == 3
    for block in shown:
        assert VARIES.sub("…", block) in VARIES.sub("…", ran.stdout)
    assert "\nmemory.db\n" in ran.stdout
    assert [*tmp_path.rglob("memory.db"), *tmp_path.glob("first-memory")] == [], "a person's own memory is not touched"
    assert "The tide gauge is read every five minutes." in ran.stdout
    assert not (tmp_path / ".claude.json").exists(), "a dry run writes nothing"

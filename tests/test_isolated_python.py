"""What a child finds on its path, whatever the folder that its parent stands in holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.isolated_python import environment_for_child, isolated_command, trusted_path

REVEAL = """
import json, os, sys

def main():
    print(json.dumps({"path": sys.path, "json": json.__file__, "PYTHONPATH": os.environ.get("PYTHONPATH")}))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules that shadow Python's own, reached by relative entries; a trusted one lies beside it."""
    folder = tmp_path / "project"
    for place in (folder, folder / "lib"):
        place.mkdir()
        (place / "json.py").write_text("raise SystemExit('the wrong one')\n")
    (tmp_path / "trusted").mkdir()
    (tmp_path / "trusted" / "reveal.py").write_text(REVEAL)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("lib", "", "./lib/../lib")))
    monkeypatch.setattr(sys, "path", ["lib", "", "./lib/../lib", *sys.path, str(tmp_path / "trusted")])
    return folder


def test_a_relative_entry_is_not_trusted(project: Path, tmp_path: Path) -> None:
    """X1.1: it is below the working directory, by whichever name."""
    trusted = trusted_path()
    assert str(tmp_path / "trusted") in trusted
    assert not [entry for entry in trusted if not Path(entry).is_absolute() and Path(entry).exists()]
    assert not any(entry.startswith(str(project)) for entry in trusted)


@pytest.mark.parametrize("inherits", [True, False])
def test_a_relative_entry_of_pythonpath_never_reaches_a_child(project: Path, inherits: bool) -> None:
    """X1.1: neither with the variables of this process nor with those that are meant for children."""
    variables = dict(os.environ) if inherits else environment_for_child()
    ran = subprocess.run(
        isolated_command("reveal"), cwd=project, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert not {"", "lib", "./lib/../lib", str(project), str(project / "lib")} & set(found["path"])
    assert Path(found["json"]).is_relative_to(sys.base_prefix)
    assert found["PYTHONPATH"] == (os.environ["PYTHONPATH"] if inherits else None)

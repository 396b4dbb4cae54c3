"""Shell completion: the scripts, and what they ask."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run


def completed(run: "Run", *words: str) -> list[str]:
    ran = run("complete", "--", *words)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.split()


def test_commands_and_options_are_completed(run: "Run") -> None:
    """S7.1: what is hidden is not; behind an option comes its value, which no word is proposed for."""
    assert completed(run, "re") == ["reads", "restore", "restore-backup", "reindex", "review"]
    assert {"serve", "add", "export"} <= set(completed(run, ""))
    assert "complete" not in completed(run)
    assert completed(run, "imp") == ["import"]
    assert completed(run, "import", "--pr") == ["--project"]
    assert completed(run, "import", "memory.jsonl", "--j") == ["--json"]
    assert completed(run, "--namespace", "re") == []
    assert completed(run, "--namespace", "serve", "re") == ["reads", "restore", "restore-backup", "reindex", "review"]
    assert completed(run, "--namespace=x", "re") == ["reads", "restore", "restore-backup", "reindex", "review"]
    assert completed(run, "list", "--h") == ["--help"]
    assert completed(run, "list", '""') == []


def test_commands_of_commands_are_completed(run: "Run") -> None:
    """S7.1."""
    assert "revoke" in completed(run, "tokens", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_each_shell_has_a_script_that_it_accepts(run: "Run", shell: str, tmp_path: Path) -> None:
    """S7.1: where the shell is installed it reads it."""
    script = run("completion", shell).out
    assert "mcp-memory complete -- " in script
    program = shutil.which(shell)
    if program and shell != "powershell":
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([program, "-n", str(file)], check=True, capture_output=True)


def test_an_unknown_shell_is_one_line(run: "Run") -> None:
    """S7.1."""
    ran = run("completion", "tcsh")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "mcp-memory: There is no completion for 'tcsh'; choose one of bash, zsh, fish, powershell.\n"


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="needs bash")
def test_bash_completes_by_the_script(run: "Run", tmp_path: Path) -> None:
    """S7.1: as when a person presses the tab key."""
    program = tmp_path / "mcp-memory"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcp_memory "$@"\n')
    program.chmod(0o700)
    pressed = (
        f"{run('completion', 'bash').out}\n"
        "COMP_WORDS=(mcp-memory import memory.jsonl --pr); COMP_CWORD=3; _mcp_memory; echo ${COMPREPLY[@]}"
    )
    variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(["bash", "-c", pressed], env=variables, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["--project"]

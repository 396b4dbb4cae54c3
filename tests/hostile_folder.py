"""A folder as an attacker hands it over: everything in it that some program might run, or read as configuration."""

import importlib.metadata
import sys
from pathlib import Path

_PLANTED = "open({witness!r}, 'a').write({name!r} + chr(10))\nraise ImportError('planted')\n"


class HostileFolder:
    """Holds a module for each name that Python code here may import; each writes into a witness when it is run."""

    def __init__(self, root: Path) -> None:
        """Plant everything below `root`, and the witness beside it."""
        self.path = root / "clone"
        self._witness = root / "witness"
        self.path.mkdir(parents=True)
        for name in sorted(_importable()):
            self._plant(self.path / f"{name}.py", name)
        for name in ("numpy", "mcp_memory"):  # Packages come before modules.
            (self.path / name).mkdir()
            self._plant(self.path / name / "__init__.py", f"{name}/")
        self._write(
            ".env", "MIGRATIONS=none\nALLOW_RESET=true\nCHROMA_API_IMPL=json\nPYTHONPATH=.\nMCP_MEMORY_AGENT=evil\n"
        )
        self._write("pyvenv.cfg", f"home = {self.path}\ninclude-system-site-packages = true\n")
        self._write(".python-version", "./python\n")
        self._write("uv.toml", 'index-url = "http://127.0.0.1:9/simple"\n')
        self._write("config.toml", 'agent = "evil"\n')
        self._write("strategies.toml", "not TOML")
        for name in ("python", "python3", "git", "mcp-memory", "uvx"):
            self._executable(self.path / name)
        git = self.path / ".git"
        (git / "hooks").mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
        (git / "config").write_text(
            f'[core]\n\tfsmonitor = "{self.path / "git"}"\n\tsshCommand = "{self.path / "git"}"\n'
            f'[include]\n\tpath = ../config.toml\n[alias]\n\tstatus = "!{self.path / "git"}"\n',
            "utf-8",
        )
        for name in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
            self._executable(git / "hooks" / name)

    def take_witness(self) -> list[str]:
        """The names of what was run since this was last asked; there should be none."""
        ran = self._witness.read_text("utf-8").split() if self._witness.exists() else []
        self._witness.unlink(missing_ok=True)
        return ran

    def _plant(self, path: Path, name: str) -> None:
        path.write_text(_PLANTED.format(witness=str(self._witness), name=name), "utf-8")

    def _write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, "utf-8")

    def _executable(self, path: Path) -> None:
        path.write_text(f"#!/bin/sh\necho {path.name} >> '{self._witness}'\n", "utf-8")
        path.chmod(0o755)


def _importable() -> set[str]:
    """Every module of the standard library, of what is installed, and those that Python looks for by itself."""
    names = {*sys.stdlib_module_names, "sitecustomize", "usercustomize", "mcp_memory"}
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            name = file.parts[0].split(".")[0]
            if name.isidentifier():
                names.add(name)
    return names

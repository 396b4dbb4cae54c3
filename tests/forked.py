"""Processes that are forked from one which has everything imported: two seconds of a core less for each than a start.

They are processes like any other, with memory, files, signals and an end of their own. What the start itself does, as
the order of imports and the interpreter's options, is tested with processes that are really started.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from multiprocessing import forkserver, reduction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = (sys.executable, "-m", "mcp_memory")
_LIBRARIES = (
    "anyio._backends._asyncio",
    "chromadb.api.fastapi",
    "chromadb.api.rust",
    "dateparser.data.date_translation_data.en",
    "dateparser.date",
    "encodings.idna",
    "httpcore",
    "httpcore2",
    "markdown_it",
    "networkx",
    "numpy",
    "onnxruntime",
    "re2",
    "rich.logging",
    "tokenizers",
    "uvicorn",
    "uvicorn.protocols.http.auto",
    "uvloop",
)
_context: Any = multiprocessing.get_context("forkserver") if sys.platform != "win32" else None


def preload() -> None:
    """Import what servers, commands and index processes import, and load what their first calls need."""
    import mcp_memory
    from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
    from mcp_memory.entrypoints.server.arguments import Arguments
    from mcp_memory.entrypoints.server.strict_tool import schema_of
    from mcp_memory.shielded_chroma import import_chromadb
    from tests.shared_loading import share

    for module in pkgutil.walk_packages(mcp_memory.__path__, "mcp_memory."):
        import_module(module.name)
    import_chromadb()
    for library in _LIBRARIES:
        import_module(library)
    TiktokenCounter().load()
    for arguments in Arguments.__subclasses__():
        schema_of(arguments)
    share(setattr)
    with TemporaryDirectory() as folder:
        _use_a_memory(Path(folder))
    for thread in set(threading.enumerate()) - {threading.main_thread()}:
        thread.join()  # A process with threads must not be forked, and one that was told to end may not have ended yet.


def _use_a_memory(folder: Path) -> None:
    from mcp_memory.app import open_app
    from mcp_memory.domain.model.records import NewRecord
    from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
    from mcp_memory.services.context.assemble import ContextRequest
    from mcp_memory.services.retrieval.recall import RecallRequest
    from mcp_memory.settings import load_settings

    app = open_app(load_settings(data_dir=folder / "data"), time.time, MiniLMEmbedder())
    try:
        app.remember([NewRecord(text="The cache listens on port 6380, because 6379 was taken.")], app.caller())
        app.recall(RecallRequest(query="Which port has the cache?"), app.caller())
        app.assemble_context(ContextRequest(query="the cache's port"), app.caller())
    finally:
        app.close()


class _Stream:
    """A file descriptor, on its way to the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _detached, (reduction.DupFd(self._descriptor),)


def _detached(duplicate: Any) -> int:
    return duplicate.detach()


def _run(code: str, arguments: Sequence[str], streams: Sequence[Any], env: Mapping[str, str], cwd: str) -> None:
    """Become the program: what `python -c CODE` does, or `python -m mcp_memory` where there is no code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115 - for the process
        for number, (mode, errors) in enumerate((("r", "strict"), ("w", "strict"), ("w", "backslashreplace")))
    )
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.argv = ["-c" if code else "mcp_memory", *arguments]
    if code:
        exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
    else:
        from mcp_memory.__main__ import main

        main()


class ForkedProcess(subprocess.Popen[Any]):
    """`subprocess.Popen` of the program with these arguments, or of Python code. Where nothing forks, it is started."""

    def __init__(self, *arguments: str, code: str = "", **options: Any) -> None:
        self._code = code
        self._arguments = arguments
        self._process: Any = None
        start = (sys.executable, "-c", code) if code else PROGRAM
        super().__init__([*start, *arguments], **options)

    def _execute_child(self, *given: Any) -> None:
        if _context is None:
            start: Any = getattr(super(), "_execute_child")  # noqa: B009 - of `subprocess`, as all that begins with _
            return start(*given)
        cwd, env = given[5:7]
        to_child, from_parent, from_child, to_parent, errors, to_errors = given[10:16]
        wanted = (to_child, to_parent, to_errors)
        streams = [_Stream(number if given < 0 else given) for number, given in enumerate(wanted)]
        _start_server()
        self._process = _context.Process(
            target=_run,
            args=(
                self._code,
                self._arguments,
                streams,
                dict(os.environ if env is None else env),
                str(cwd or Path.cwd()),
            ),
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._child_created = True
        close: Any = getattr(self, "_close_pipe_fds")  # noqa: B009
        return close(to_child, from_parent, from_child, to_parent, errors, to_errors)

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._process is None:
            poll: Any = getattr(super(), "_internal_poll")  # noqa: B009
            return poll(*given, **named)
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._process is None:
            wait: Any = getattr(super(), "_wait")  # noqa: B009
            return wait(timeout=timeout)
        if self.returncode is None:
            self._process.join(timeout)
        code = self._internal_poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code


_starting = threading.Lock()
"""Else a thread that starts another process would keep, as the former ones, the variables that this one sets."""


def _start_server() -> None:
    """Start the process that the others are forked from, where it does not run yet."""
    with _starting, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setattr(forkserver._forkserver, "_preload_modules", ["tests.preloaded"])  # noqa: SLF001
        forkserver.ensure_running()


def run_forked(
    *arguments: str,
    code: str = "",
    input: Any = None,  # noqa: A002 - as `subprocess.run` calls it
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with output captured."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedProcess(*arguments, code=code, **streams, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    assert not (check and process.returncode), err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class _ToProcess(TextIOWrapper):
    """Lines for a process; a client that leaves may say something more when the process's input has ended."""

    def write(self, s: str, /) -> int:
        with suppress(OSError, ValueError):
            super().write(s)
        return len(s)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            super().flush()


@asynccontextmanager
async def forked_stdio(env: Mapping[str, str], **options: Any) -> AsyncGenerator[Any]:
    """A transport for the SDK's client, as `mcp.client.stdio.stdio_client` is, to a window that is forked."""
    import anyio
    from mcp.server.stdio import stdio_server  # It reads and writes such lines for a server, and for a client as well.

    with ForkedProcess(stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, **options) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heard, told = TextIOWrapper(process.stdout, "utf-8"), _ToProcess(process.stdin, "utf-8")
        async with stdio_server(anyio.wrap_file(heard), anyio.wrap_file(told)) as streams:
            try:
                yield streams
            finally:
                process.stdin.close()

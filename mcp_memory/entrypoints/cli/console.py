"""What every command shares: streams that fail on no character, JSON, progress, one-line errors. Knows no command."""

import io
import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import typer

from mcp_memory.entrypoints.plain_text import visible
from mcp_memory.errors import McpMemoryError

if TYPE_CHECKING:
    from rich.console import Console

    from mcp_memory.services.reindex import Progress

INTERRUPTED = 130
"""The exit code of whoever was interrupted at the keyboard."""
_BETWEEN_UPDATES_SECONDS = 0.05


def prepare_streams() -> None:
    """Let no character that a console cannot show end the program; into a file or pipe of Windows, write UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_codepage = sys.platform == "win32" and not stream.isatty()
            stream.reconfigure(encoding="utf-8" if is_codepage else None, errors="replace")


def screen(*, on_stderr: bool = False) -> "Console":
    """Where people read. Stored text is never taken for markup."""
    from rich.console import Console

    return Console(stderr=on_stderr, highlight=False, markup=False, emoji=False)


def print_json(value: object) -> None:
    """Machine-readable and indented; escaped where the stream is not Unicode, so that nothing is lost."""
    text = json.dumps(value, indent=2, ensure_ascii=not _is_unicode(sys.stdout))
    typer.echo(text.encode("utf-8", "replace").decode("utf-8"))


def complain(message: str) -> None:
    """One line for people on stderr."""
    typer.echo(f"mcp-memory: {visible(message)}", err=True)


@contextmanager
def errors_in_one_line() -> Generator[None]:
    """Turn what the caller can act on into a line on stderr and exit code 1."""
    try:
        yield
    except McpMemoryError as error:
        complain(str(error))
        raise typer.Exit(1) from error


@contextmanager
def interruptible(message: str) -> Generator[None]:
    """Turn an interrupt at the keyboard into a line on stderr and its exit code."""
    try:
        yield
    except KeyboardInterrupt:
        complain(message)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress_bar(doing: str) -> "Generator[Progress]":
    """A bar on stderr, which stays out of the way of JSON; it is told as often as one likes."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(on_stderr=True)) as bar:
        task = bar.add_task(doing, total=None)
        shown_at = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal shown_at
            if done >= total or time.monotonic() - shown_at > _BETWEEN_UPDATES_SECONDS:
                bar.update(task, completed=done, total=total)
                shown_at = time.monotonic()

        yield progress


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")

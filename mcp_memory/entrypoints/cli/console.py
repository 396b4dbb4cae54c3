"""What every command shares: streams that fail on no character, JSON, errors in one line. Knows no command."""

import io
import json
import sys
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import typer

from mcp_memory.errors import McpMemoryError

if TYPE_CHECKING:
    from rich.console import Console


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


def visible(text: str) -> str:
    """A stored text as a terminal may safely show it: no escape sequences, no lone surrogates."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")

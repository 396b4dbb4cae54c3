"""Input and output of all commands: streams that fail on no character, JSON, progress, one-line errors.

Knows no command. The streams are the process's, or those of a client whose command the process runs.
"""

import io
import json
import re
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from mcp_memory.domain.text.control_characters import visible
from mcp_memory.errors import InvalidRequest, McpMemoryError
from mcp_memory.locations import screen_variables
from mcp_memory.services.access.served_requests import gave_in

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from mcp_memory.services.memory.reindex import Progress

INTERRUPTED = 130
"""The exit code after an interrupt at the keyboard."""
_BETWEEN_UPDATES_SECONDS = 0.05
_PADDING = re.compile(r"(?<![ \t])[ \t]++(?=\n)")  # spaces before a line end
_FOR_PEOPLE: Mapping[str, str] = {
    "call `recall` to find ids": "`mcp-memory search` finds ids",
    "send it with reassert=true; otherwise leave it out": "`mcp-memory add --reassert` stores it",
    "`remember` stores it with reassert=true": "`mcp-memory add --reassert` stores it",
    "give text, outcome, feedback or another field beside id": (
        "name what to change: --text, --tag, --importance, --outcome, --feedback or another option of"
        " `mcp-memory edit -h`"
    ),
}
"""Next steps that messages name for agents, and the same for people who run a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The streams of a command."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environment: Mapping[str, str]
    """The variables that say what the screen can show."""
    check: Callable[[], None] = lambda: None
    """Raises KeyboardInterrupt once the user has interrupted the command."""


_CLIENT: ContextVar[Terminal | None] = ContextVar("terminal", default=None)


def terminal() -> Terminal:
    """Return the terminal of the command at work: a client's, or this process's own."""
    own = Terminal(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr, environment=screen_variables())
    return _CLIENT.get() or own


@contextmanager
def at(client: Terminal) -> Generator[None]:
    """Run a command at this terminal as long as the context lasts."""
    token = _CLIENT.set(client)
    try:
        yield
    finally:
        _CLIENT.reset(token)


def prepare_streams() -> None:
    """Replace characters that a console cannot show; write UTF-8 into a file or pipe on Windows."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_codepage = sys.platform == "win32" and not stream.isatty()
            stream.reconfigure(encoding="utf-8" if is_codepage else None, errors="replace")


def screen(*, on_stderr: bool = False) -> "Console":
    """Return the console for people. Stored text is never taken for markup; no line in a file ends in spaces."""
    from rich.console import Console

    here = terminal()
    stream = here.stderr if on_stderr else here.stdout
    file = stream if stream.isatty() else cast("TextIO", _Unpadded(stream))
    return Console(file=file, highlight=False, markup=False, emoji=False, _environ=here.environment)


class _Unpadded:
    """The part of a stream that Rich needs. Rich pads the lines of a table, and writes whole lines at a time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(_PADDING.sub("", text))


def print_json(value: object) -> None:
    """Print a value as indented JSON; escape it where the stream is not Unicode, so that nothing is lost."""
    text = json.dumps(value, indent=2, ensure_ascii=not _is_unicode(terminal().stdout))
    say(text.encode("utf-8", "replace").decode("utf-8"))


def say(line: str) -> None:
    """Print one line as it is."""
    typer.echo(line, file=terminal().stdout)


def output(as_json: bool, value: object, *parts: "RenderableType") -> None:
    """Print a value for programs, or the parts of a screen for people, one below the other."""
    from rich.text import Text

    gave_in(value)
    if as_json:
        print_json(value)
    else:
        screen().print(*parts, sep="\n", soft_wrap=all(isinstance(part, str | Text) for part in parts))


def complain(message: str) -> None:
    """Print one line for people on stderr."""
    typer.echo(f"mcp-memory: {visible(message)}", file=terminal().stderr)


def way_back(change: int) -> str:
    """Return the sentence that says how a change is taken back; "" for none that can be."""
    return f"`mcp-memory undo {change}` takes it back." if change else ""


def left_out_told(counts: Mapping[str, int]) -> str:
    """Return the sentence that counts what was left out, by reason: "Left out: prompts (2)."; "" for nothing."""
    told = "; ".join(f"{reason} ({count:,})" for reason, count in counts.items() if count)
    return f"Left out: {told}." if told else ""


def undoable(change: int) -> dict[str, int]:
    """Return the number of a change by its name in JSON; nothing where there is none."""
    return {"change": change} if change else {}


class OneLineErrors(TyperGroup):
    """Commands whose errors that the caller can act on are a line on stderr and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the command line names."""
        with one_line_errors():
            return super().invoke(ctx)


@contextmanager
def one_line_errors() -> Generator[None]:
    """Turn an error that the caller can act on into a line on stderr and exit code 1."""
    try:
        yield
    except McpMemoryError as error:
        message = str(error)
        for to_agents, to_people in _FOR_PEOPLE.items():
            message = message.replace(to_agents, to_people)
        complain(message)
        raise typer.Exit(1) from error


def is_asked() -> bool:
    """Return True where a person at a terminal can answer a question."""
    here = terminal()
    return here.stdin.isatty() and here.stderr.isatty()


def require_yes(question: str) -> None:
    """Ask a person at a terminal, and raise InvalidRequest for any answer but yes; a program is not asked."""
    here = terminal()
    if not is_asked():
        return
    typer.echo(f"{visible(question)} [y/N] ", file=here.stderr, nl=False)
    if here.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidRequest("Nothing was changed.")


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
    """Show a bar on a terminal's stderr, and nothing elsewhere; report progress as often as you like.

    It appears once there is something to do.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    here = terminal()
    bar = Progress(*columns, console=screen(on_stderr=True), disable=not here.stderr.isatty())
    task = bar.add_task(doing, total=None)
    shown_at: float | None = None

    def progress(done: int, total: int) -> None:
        nonlocal shown_at
        here.check()
        if shown_at is None and total:
            bar.start()
        elif done < total and time.monotonic() - (shown_at or 0.0) <= _BETWEEN_UPDATES_SECONDS:
            return
        if total:
            bar.update(task, completed=done, total=total)
            shown_at = time.monotonic()

    try:
        yield progress
    finally:
        if shown_at is not None:
            bar.stop()


def _is_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")

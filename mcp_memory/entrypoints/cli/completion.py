"""Commands for shell completion: print a shell's script, and answer its questions. They change no file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mcp_memory.errors import InvalidRequest

SCRIPTS = Path(__file__).with_name("completions")
"""One file for each shell, with its name as the suffix."""
SHELLS = ("bash", "zsh", "fish", "powershell")


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")],
) -> None:
    """Print a script by which your shell completes commands and options; add it to the file that it reads at its start.

    docs/command-line.md has the line for each shell.
    """
    if shell not in SHELLS:
        raise InvalidRequest(f"There is no completion for {shell!r}; choose one of {', '.join(SHELLS)}.")
    typer.echo((SCRIPTS / f"mcp-memory.{shell}").read_text("utf-8"), nl=False)


def complete(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORDS")] = None,
) -> None:
    """Print what the last of the words after the program's name may become, a line each."""
    *before, last = words or [""]
    last = last.strip('"')
    command, is_value = _reached(context.find_root().command, before)
    for name in () if is_value else _names(command, last):
        typer.echo(name)


def _reached(command: Any, words: Sequence[str]) -> tuple[Any, bool]:
    """Find the command that the words lead to, and whether the next word is the value of an option."""
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = "=" not in word and any(word in each.opts and not each.is_flag for each in _options(command))
        else:
            command = getattr(command, "commands", {}).get(word, command)
    return command, is_value


def _names(command: Any, begun: str) -> Iterator[str]:
    """Yield options where one is begun, else commands; nothing where files may be meant."""
    if begun.startswith("-"):
        names = [name for each in _options(command) for name in each.opts if name.startswith("--")] + ["--help"]
    else:
        names = [name for name, each in getattr(command, "commands", {}).items() if not each.hidden]
    return (name for name in names if name.startswith(begun))


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]

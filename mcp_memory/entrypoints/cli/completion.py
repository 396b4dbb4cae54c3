"""Completion: the script for each shell, and the command that the scripts ask. Starts no shell and changes no file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from mcp_memory.entrypoints.cli.console import errors_in_one_line
from mcp_memory.errors import InvalidRequest

SCRIPTS: Mapping[str, str] = {
    "bash": """\
_mcp_memory() {
    local IFS=$'\\n'
    COMPREPLY=($(mcp-memory complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _mcp_memory mcp-memory
""",
    "zsh": """\
#compdef mcp-memory
_mcp_memory() {
    local -a found
    found=("${(@f)$(mcp-memory complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _mcp_memory mcp-memory
""",
    "fish": """\
complete --command mcp-memory --arguments \
'(mcp-memory complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
""",
    "powershell": """\
Register-ArgumentCompleter -Native -CommandName mcp-memory -ScriptBlock {
    param($word, $line, $position)
    $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($word -eq '') { $words += '""' }
    mcp-memory complete -- @words 2>$null | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
    }
}
""",
}


@errors_in_one_line()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")],
) -> None:
    """Print what makes a shell complete commands and options; let it read that at its start."""
    if shell not in SCRIPTS:
        raise InvalidRequest(f"There is no completion for {shell!r}; there is for {', '.join(SCRIPTS)}.")
    typer.echo(SCRIPTS[shell], nl=False)


def complete(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORDS")] = None,
) -> None:
    """What the last of the words after the program's name may become, a line each."""
    *before, last = words or [""]
    last = last.strip('"')
    command, is_value = _reached(context.find_root().command, before)
    for name in () if is_value else _names(command, last):
        typer.echo(name)


def _reached(command: Any, words: Sequence[str]) -> tuple[Any, bool]:
    """The command that the words lead to, and whether the next word is the value of an option."""
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
    """Options where one is begun, else commands; nothing where files may be meant."""
    if begun.startswith("-"):
        names = [name for each in _options(command) for name in each.opts if name.startswith("--")] + ["--help"]
    else:
        names = [name for name, each in getattr(command, "commands", {}).items() if not each.hidden]
    return (name for name in names if name.startswith(begun))


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]

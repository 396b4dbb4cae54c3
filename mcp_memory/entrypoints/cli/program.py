"""The table of commands in the order of `--help`, and what the program does without one.

Each command is a function in `commands/`, or beside this one where it works on no memory of an owner's. Its module
keeps slow imports inside its functions.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from mcp_memory import __version__
from mcp_memory.entrypoints.cli.completion import complete, completion
from mcp_memory.entrypoints.cli.doctor import doctor
from mcp_memory.entrypoints.cli.install import install, uninstall
from mcp_memory.entrypoints.cli.measuring import compress, count
from mcp_memory.entrypoints.cli.page import ui
from mcp_memory.entrypoints.cli.restore import restore, restore_from
from mcp_memory.entrypoints.cli.serve import demo, hook, serve, stop
from mcp_memory.entrypoints.commands.access import tokens, trust
from mcp_memory.entrypoints.commands.console import OneLineErrors, prepare_streams
from mcp_memory.entrypoints.commands.corrections import edit, forget, pin, supersede
from mcp_memory.entrypoints.commands.learn import learn
from mcp_memory.entrypoints.commands.maintenance import backup, maintain, reindex
from mcp_memory.entrypoints.commands.options import with_options
from mcp_memory.entrypoints.commands.overviews import context, contexts, graph, reads, sessions
from mcp_memory.entrypoints.commands.projects import projects
from mcp_memory.entrypoints.commands.records import add, list_records, search, show, status, tasks
from mcp_memory.entrypoints.commands.review import review, undo
from mcp_memory.entrypoints.commands.transfer import export, import_memory

GROUPS: Mapping[str, Mapping[str, tuple[Callable[..., None] | typer.Typer, str]]] = {
    "See what is there": {
        "status": (status, "mcp-memory status"),
        "search": (search, "mcp-memory search 'why did we leave Postgres'"),
        "list": (list_records, "mcp-memory list --kind decision --since 'last week'"),
        "show": (show, "mcp-memory show r00001z"),
        "tasks": (tasks, "mcp-memory tasks"),
        "sessions": (sessions, "mcp-memory sessions"),
        "context": (context, "mcp-memory context 'move the exporter to another port' --why"),
        "contexts": (contexts, "mcp-memory contexts --limit 5"),
        "reads": (reads, "mcp-memory reads --record r00001z"),
        "graph": (graph, "mcp-memory graph 'billing service'"),
        "projects": (projects, "mcp-memory projects rename old new"),
        "ui": (ui, "mcp-memory ui"),
    },
    "Change it": {
        "learn": (learn, "mcp-memory learn --from proposals.jsonl"),
        "add": (add, "mcp-memory add 'Deploys go out on Tuesdays.' --kind decision"),
        "edit": (edit, "mcp-memory edit r00001z --text 'Deploys go out on Mondays.'"),
        "supersede": (supersede, "mcp-memory supersede r00001z r000020"),
        "pin": (pin, "mcp-memory pin r00001z"),
        "forget": (forget, "mcp-memory forget r00001z"),
        "restore": (restore, "mcp-memory restore r00001z"),
        "undo": (undo, "mcp-memory undo 42"),
        "review": (review, "mcp-memory review settle g00002a both-true"),
    },
    "Connect clients": {
        "install": (install, "mcp-memory install claude-code"),
        "uninstall": (uninstall, "mcp-memory uninstall cursor"),
        "trust": (trust, "mcp-memory trust"),
        "tokens": (tokens, "mcp-memory tokens add laptop --agent ann --namespace billing"),
        "serve": (serve, "mcp-memory serve --http"),
        "stop": (stop, "mcp-memory stop"),
    },
    "Keep it safe, move it": {
        "doctor": (doctor, "mcp-memory doctor"),
        "backup": (backup, "mcp-memory backup memory-backup.db"),
        "restore-backup": (restore_from, "mcp-memory restore-backup memory-backup.db"),
        "export": (export, "mcp-memory export memory.jsonl"),
        "import": (import_memory, "mcp-memory import memory.jsonl"),
        "maintain": (maintain, "mcp-memory maintain"),
        "reindex": (reindex, "mcp-memory reindex"),
    },
    "Try and measure": {
        "demo": (demo, "mcp-memory demo"),
        "count": (count, "mcp-memory count README.md"),
        "compress": (compress, "mcp-memory compress -n 500 items.json"),
        "completion": (completion, "mcp-memory completion bash"),
        "hook": (hook, "mcp-memory hook SessionStart < event.json"),
    },
}
"""Every command by what a person wants, each with an example; a test holds the examples against the options."""


class GroupedHelp(OneLineErrors):
    """Lists the commands in their groups, each with its first sentence as a whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups; a screen of any width shows each sentence to its end."""
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _sentence(self.commands[name])) for name in group])


def _sentence(command: Any) -> str:
    """Return the first sentence of a command's help: "List records, newest first."."""
    told: str = command.help or ""
    return " ".join(told.partition("\n\n")[0].split())


app = typer.Typer(
    name="mcp-memory",
    add_completion=False,
    cls=GroupedHelp,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help comes three times as fast
    pretty_exceptions_enable=False,  # they may show remembered text
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mcp-memory {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
@with_options("data_dir", "namespace", "agent", "url")
def main(
    _chosen: Mapping[str, Any],
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """A memory for agents over MCP. Without a command it serves over standard input and output."""
    del version  # told by its callback
    prepare_streams()
    if context.invoked_subcommand is None:
        serve(context)


for group in GROUPS.values():
    for name, (command, example) in group.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, epilog=f"Example: {example}")
        else:
            app.command(name, epilog=f"Example: {example}")(command)
app.command("complete", hidden=True)(complete)

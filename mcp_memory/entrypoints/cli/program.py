"""The table of commands in the order of `--help`, and what the program does without one.

Each command is a function in `commands/`, or beside this one where it works on no memory of an owner's. Its module
keeps slow imports inside its functions.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mcp_memory import __version__
from mcp_memory.entrypoints.cli.completion import complete, completion
from mcp_memory.entrypoints.cli.doctor import doctor
from mcp_memory.entrypoints.cli.install import install, uninstall
from mcp_memory.entrypoints.cli.measuring import compress, count
from mcp_memory.entrypoints.cli.page import ui
from mcp_memory.entrypoints.cli.restore import restore
from mcp_memory.entrypoints.cli.serve import demo, hook, serve, stop
from mcp_memory.entrypoints.commands.access import tokens, trust
from mcp_memory.entrypoints.commands.console import OneLineErrors, prepare_streams
from mcp_memory.entrypoints.commands.corrections import edit, forget, pin, supersede
from mcp_memory.entrypoints.commands.maintenance import backup, maintain, reindex
from mcp_memory.entrypoints.commands.options import with_options
from mcp_memory.entrypoints.commands.overviews import contexts, graph, reads, sessions
from mcp_memory.entrypoints.commands.projects import projects
from mcp_memory.entrypoints.commands.records import add, list_records, search, show, status, tasks
from mcp_memory.entrypoints.commands.review import review, undo
from mcp_memory.entrypoints.commands.transfer import export, import_memory

app = typer.Typer(
    name="mcp-memory",
    add_completion=False,
    cls=OneLineErrors,
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


for name, command in (
    ("serve", serve),
    ("stop", stop),
    ("ui", ui),
    ("demo", demo),
    ("status", status),
    ("search", search),
    ("show", show),
    ("list", list_records),
    ("tasks", tasks),
    ("sessions", sessions),
    ("contexts", contexts),
    ("reads", reads),
    ("graph", graph),
    ("add", add),
    ("edit", edit),
    ("supersede", supersede),
    ("pin", pin),
    ("forget", forget),
    ("restore", restore),
    ("undo", undo),
    ("trust", trust),
    ("install", install),
    ("uninstall", uninstall),
    ("doctor", doctor),
    ("reindex", reindex),
    ("maintain", maintain),
    ("backup", backup),
    ("export", export),
    ("import", import_memory),
    ("count", count),
    ("compress", compress),
    ("completion", completion),
    ("hook", hook),
):
    app.command(name)(command)
app.add_typer(projects)
app.add_typer(review)
app.add_typer(tokens)
app.command("complete", hidden=True)(complete)

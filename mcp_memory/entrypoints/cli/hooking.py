"""The command that a client's hooks run. The start-up goes by it where no option is given: see `__main__`."""

from dataclasses import asdict
from typing import Annotated

import typer

from mcp_memory.entrypoints.cli.options import Agent, Chosen, DataDir, Namespace


def hook(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The client's event: SessionStart, Stop, …")],
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
) -> None:
    """Answer one of Claude Code's hooks: what a plugin runs.

    Reads the hook's JSON and prints what the client takes. Ends in time and with exit code 0, whatever happens.
    """
    from mcp_memory.entrypoints.hooks.running import main

    before: Chosen = context.obj or Chosen()
    behind = {"data_dir": data_dir, "namespace": namespace, "agent": agent}
    main(name, {**asdict(before), **{option: value for option, value in behind.items() if value is not None}})

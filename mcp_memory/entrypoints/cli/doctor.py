"""The command that examines the memory: doctor."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.cli.console import errors_in_one_line, print_json, screen
from mcp_memory.entrypoints.cli.options import AsJson, DataDir, opened, settings_for
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from rich.text import Text

    from mcp_memory.ports import Finding
    from mcp_memory.settings import Settings

_STYLES: Mapping[str, str] = {"ok": "green", "wrong": "bold red", "mended": "yellow"}
_WIDTH = max(map(len, _STYLES))


@errors_in_one_line()
def doctor(
    context: typer.Context,
    mend: Annotated[
        bool, typer.Option("--mend", help="Put right what can be put right without losing anything.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong: folder, clients, database, words, vectors, links, indexes.

    For all projects; servers may keep running. Ends with 1 where something is wrong and was not mended.
    """
    findings: list[Finding] = []
    for finding in _examine(settings_for(context, data_dir, None, None), mend=mend):
        findings.append(finding)
        if not as_json:
            screen().print(_line(finding), soft_wrap=True)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)


def _examine(settings: "Settings", *, mend: bool) -> "Iterator[Finding]":
    """What surrounds the memory before the memory itself: opening it makes its files private."""
    from mcp_memory.entrypoints.cli.surroundings import examine_clients, examine_folder, examine_trust
    from mcp_memory.making import memory_exists
    from mcp_memory.ports import Finding

    yield from examine_folder(settings.data_dir, mend=mend)
    yield from examine_clients()
    if not memory_exists(settings):
        says = f"none at {settings.data_dir} yet; a server makes it, or `mcp-memory add`"
        yield Finding(part="database", state="ok", says=says)
        return
    try:
        with opened(settings, takes=False) as memory:
            yield from memory.examine(mend=mend)
            yield from examine_trust(memory.trust.folders())
    except StoreUnavailable as error:
        yield Finding(part="database", state="wrong", says=str(error))


def _line(finding: "Finding") -> "Text":
    from rich.text import Text

    remedy = f". {finding.remedy}" if finding.remedy else ""
    told = visible(" ".join(f"{finding.part}: {finding.says}{remedy}".split()))
    return Text.assemble((finding.state.ljust(_WIDTH), _STYLES[finding.state]), f" {told}")

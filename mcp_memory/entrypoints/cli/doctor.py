"""The command that examines the memory: doctor."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.entrypoints.cli.console import errors_in_one_line, print_json, screen, visible
from mcp_memory.entrypoints.cli.options import AsJson, DataDir, opened_existing, settings_for

if TYPE_CHECKING:
    from rich.text import Text

    from mcp_memory.ports import Finding

_STYLES: Mapping[str, str] = {"ok": "green", "wrong": "bold red", "mended": "yellow"}
_WIDTH = max(map(len, _STYLES))


@errors_in_one_line()
def doctor(
    context: typer.Context,
    mend: Annotated[bool, typer.Option("--mend", help="Drop or add what is derived, where it is wrong.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare indexes, words, vectors and links with what is stored.

    For all projects; servers may keep running. Ends with 1 where something is wrong and was not mended.
    """
    findings: list[Finding] = []
    with opened_existing(settings_for(context, data_dir, None, None)) as memory:
        for finding in memory.examine(mend=mend):
            findings.append(finding)
            if not as_json:
                screen().print(_line(finding), soft_wrap=True)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)


def _line(finding: "Finding") -> "Text":
    from rich.text import Text

    remedy = f". {finding.remedy}" if finding.remedy else ""
    told = visible(" ".join(f"{finding.part}: {finding.says}{remedy}".split()))
    return Text.assemble((finding.state.ljust(_WIDTH), _STYLES[finding.state]), f" {told}")

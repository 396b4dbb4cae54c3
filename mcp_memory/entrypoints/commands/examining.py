"""The part of `doctor` that needs the memory."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.commands.console import print_json, screen
from mcp_memory.entrypoints.commands.options import AsJson, opened, over_settings
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.indexes import Finding

if TYPE_CHECKING:
    from rich.text import Text

    from mcp_memory.domain.model.projects import TrustedFolder
    from mcp_memory.settings import Settings

_STATE_STYLES: Mapping[str, str] = {"ok": "green", "wrong": "bold red", "repaired": "yellow"}
_STATE_WIDTH = max(map(len, _STATE_STYLES))


@over_settings("data_dir", asks=True)
def examine_memory(settings: "Settings", surroundings: str, repair: bool = False, as_json: AsJson = False) -> None:
    """Show what was found around the memory, given as JSON, and then what is found in it."""
    around = (Finding(**each) for each in json.loads(surroundings))
    show(chain(around, _examine(settings, repair=repair)), as_json=as_json)


def show(found: Iterable[Finding], *, as_json: bool) -> None:
    """Show what was found. Raises typer.Exit with 1 where something is wrong and was not repaired."""
    findings: list[Finding] = []
    for finding in found:
        findings.append(finding)
        if not as_json:
            screen().print(_line(finding), soft_wrap=True)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)


def _examine(settings: "Settings", *, repair: bool) -> Iterator[Finding]:
    from mcp_memory.wiring import memory_exists

    if not memory_exists(settings):
        says = f"none at {settings.data_dir} yet; a server makes it, or `mcp-memory add`"
        yield Finding(part="database", state="ok", says=says)
        return
    try:
        with opened(settings, takes=False) as memory:
            yield from memory.examine(repair=repair)
            yield from examine_trust(memory.trust.folders())
    except StoreUnavailable as error:
        yield Finding(part="database", state="wrong", says=str(error))
    yield from examine_copies(settings)


def examine_copies(settings: "Settings") -> Iterator[Finding]:
    """Name the copies beside the memory, also where that cannot be opened; a damaged one may be what somebody saves."""
    from mcp_memory.wiring import copies_beside

    for copy in copies_beside(settings):
        size = f"{copy.path} ({copy.size / 1e6:.1f} MB)"
        if copy.schema is None:
            yield Finding(part="copies", state="ok", says=f"{size}, damaged, is kept as it is")
            continue
        says = f"{size} is the memory of schema {copy.schema} as it was before a migration or `restore-backup`"
        remedy = (
            f'Without servers, `mcp-memory restore-backup "{copy.path}"` goes back to it and keeps the present one'
            " beside it."
        )
        yield Finding(part="copies", state="ok", says=says, remedy=remedy)


def examine_trust(folders: "Sequence[TrustedFolder]") -> Iterator[Finding]:
    """Name the trusted folders that are gone: only a note, since a disk may be away, or a folder be made again."""
    from mcp_memory.projects import folder_exists

    if gone := [each.folder for each in folders if not folder_exists(Path(each.folder))]:
        names = ", ".join(gone[:3]) + (", …" if len(gone) > 3 else "")
        says = f"gone: {len(gone)} of {counted(len(folders), 'trusted folder')} ({names})"
        remedy = "`mcp-memory trust --revoke FOLDER` forgets one that does not come back."
        yield Finding(part="trust", state="ok", says=says, remedy=remedy)


def _line(finding: Finding) -> "Text":
    from rich.text import Text

    remedy = f". {finding.remedy}" if finding.remedy else ""
    told = visible(" ".join(f"{finding.part}: {finding.says}{remedy}".split()))
    return Text.assemble((finding.state.ljust(_STATE_WIDTH), _STATE_STYLES[finding.state]), f" {told}")

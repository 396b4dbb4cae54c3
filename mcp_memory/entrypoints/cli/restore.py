"""The commands that bring back forgotten records, and that go back to a backup of the whole memory."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcp_memory.bridge.door import take_over
from mcp_memory.domain.model.ids import RECORD, is_id
from mcp_memory.entrypoints.commands.console import output, require_yes
from mcp_memory.entrypoints.commands.corrections import restore_records
from mcp_memory.entrypoints.commands.options import AsJson, local_settings, with_options
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.settings import Settings


_IN_POSTGRES = (
    "This memory is in PostgreSQL, whose database is not replaced: `pg_restore` the backup into a new one, and name"
    " that in MCP_MEMORY_DATABASE_URL (docs/runbook.md)."
)


@with_options("data_dir", "namespace", "agent")
def restore(
    chosen: Mapping[str, Any],
    context: typer.Context,
    targets: Annotated[list[str], typer.Argument(metavar="ID…|FILE", help="Records that were retired.")],
    as_json: AsJson = False,
) -> None:
    """Bring back records that were forgotten.

    Given a backup's file, it does what `mcp-memory restore-backup` does, after a question at a terminal.
    """
    if all(is_id(each, RECORD) for each in targets):
        return restore_records(context, targets=targets, as_json=as_json, **chosen)
    if len(targets) > 1:
        raise InvalidRequest("Give the ids of records, or one backup's file.")
    file = Path(targets[0])
    if not file.exists():
        raise NotFound(
            f"{targets[0]!r} is neither a record's id, as r00001z, nor the file of a backup; `mcp-memory list"
            " --inactive` shows ids."
        )
    require_yes(f"Replace the whole memory by the backup {file}?")
    here = {name: chosen[name] for name in ("data_dir",) if name in chosen}
    return restore_from(context, file=file, as_json=as_json, **here)


@with_options("data_dir")
def restore_from(
    chosen: Mapping[str, Any],
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup, as `mcp-memory backup` makes it.")],
    as_json: AsJson = False,
) -> None:
    """Replace the whole memory by a backup; the former database is kept beside it.

    Clients go on with the memory that is restored.
    """
    settings = local_settings(chosen)
    if settings.database_url is not None:
        raise InvalidRequest(_IN_POSTGRES)
    if not file.exists():
        raise NotFound(f"No backup {file}; name the file that `mcp-memory backup` made.")
    door = take_over(str(settings.data_dir))
    try:
        return _restore(settings, file, as_json)
    finally:
        if door is not None:
            door.release()


def _restore(settings: "Settings", file: Path, as_json: bool) -> None:
    from mcp_memory.wiring import restore_backup

    kept = restore_backup(settings, file, f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
    former = f" The former database is {kept}." if kept else ""
    shown = {"restored": str(file), "kept": str(kept) if kept else None}
    output(as_json, shown, f"{file} is now the memory.{former}")

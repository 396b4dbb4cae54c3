"""Commands that keep the memory well: reindex, maintain, backup, restore."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from mcp_memory.entrypoints.cli.console import (
    errors_in_one_line,
    interruptible,
    print_json,
    progress_bar,
    screen,
)
from mcp_memory.entrypoints.cli.options import AsJson, DataDir, opened_existing, settings_for

_GO_ON = "Interrupted; what is done is kept. Run `mcp-memory {}` again to go on."
_COUNTED: Mapping[str, str] = {
    "summarized": "episodes summarized",
    "archived": "episodes archived",
    "extracted": "facts and decisions extracted from them",
    "judged": "procedures and censors judged anew",
    "compacted": "session logs compacted",
}


@errors_in_one_line()
def reindex(
    context: typer.Context,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Embed everything anew with this embedder.

    Needed after a change of embedder, for all projects at once. Servers may keep running; interrupted, it goes on where
    it stopped.
    """
    with opened_existing(settings_for(context, data_dir, None, None)) as memory:
        with interruptible(_GO_ON.format("reindex")), progress_bar("Embedding") as progress:
            waiting = memory.reindex.waiting()
            progress(0, waiting)
            done = memory.reindex(waiting, progress)
        embedder, refused = memory.records.embedder_id(), memory.reindex.refused()
    if as_json:
        print_json({"embedded": done, "refused": refused, "embedder": embedder})
    else:
        screen().print(f"{done} records embedded; the memory's embedder is {embedder}.")
        if refused:
            screen().print(f"Texts that it refused, to be found by their words alone: {refused}.")


@errors_in_one_line()
def maintain(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Move on what is due: old episodes, how-tos and constraints by how they did, session logs near their window.

    For all projects. Servers do it by themselves, a little at a time, and may keep running; interrupted, it goes on
    where it stopped.
    """
    settings = settings_for(context, data_dir, None, None)
    with opened_existing(settings) as memory, interruptible(_GO_ON.format("maintain")):
        with progress_bar("Maintaining") as progress:
            done = asdict(memory.maintain.due() if dry_run else memory.maintain(progress))
        done["compacted"] = memory.idle_compaction.due() if dry_run else _compact_all(memory.idle_compaction.step)
    if as_json:
        print_json(done)
    else:
        counts = ", ".join(f"{count} {_COUNTED[name]}" for name, count in done.items() if count)
        screen().print(f"{'Due' if dry_run else 'Done'}: {counts or 'nothing'}.", soft_wrap=True)


def _compact_all(step: Callable[[], bool]) -> int:
    """Compact one log after the other until none is due; how many."""
    done = 0
    while step():
        done += 1
    return done


@errors_in_one_line()
def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="DIR_OR_FILE", help="A folder, or a new file's name.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Copy the whole memory into a new file.

    All projects, consistent though servers are running. `mcp-memory restore` goes back to it.
    """
    file = backup_file(target, datetime.now(UTC))
    with opened_existing(settings_for(context, data_dir, None, None)) as memory:
        memory.records.backup(str(file))
    size = file.stat().st_size
    if as_json:
        print_json({"path": str(file), "bytes": size})
    else:
        screen().print(f"{file} ({size / 1e6:.1f} MB)", soft_wrap=True)


@errors_in_one_line()
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup's file.", exists=True, dir_okay=False)],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the memory.

    Stop the servers first. The former database is kept beside it.
    """
    from mcp_memory.wiring import restore_backup

    settings = settings_for(context, data_dir, None, None)
    kept = restore_backup(settings, file, f"{datetime.now(UTC):%Y%m%d-%H%M%S}")
    if as_json:
        print_json({"restored": str(file), "kept": str(kept) if kept else None})
    else:
        former = f" The former database is {kept}." if kept else ""
        screen().print(f"{file} is the memory now.{former}", soft_wrap=True)


def backup_file(target: Path, now: datetime) -> Path:
    """The file meant: the target, or one named after the time inside it where it is a folder or has no suffix."""
    is_file = bool(target.suffix) and not target.is_dir()
    return target if is_file else target / f"memory-{now:%Y-%m-%d-%H%M%S}.db"

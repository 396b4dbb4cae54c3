"""Commands that maintain the memory: reindex, maintain, backup."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.entrypoints.commands.console import complain, interruptible, output, progress_bar
from mcp_memory.entrypoints.commands.options import AsJson, over_memory
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from mcp_memory.app import App

_RUN_AGAIN = "Interrupted; what is done is kept. Run `mcp-memory {}` again to go on."
_MAINTAINED: Mapping[str, tuple[str, str]] = {
    "summarized": ("event", "summarized"),
    "archived": ("event", "archived"),
    "judged": ("record", "judged again"),
    "compacted": ("session log", "compacted"),
}


@over_memory(needs_same=True)
def reindex(memory: "App", as_json: AsJson = False) -> None:
    """Embed everything again with this embedder.

    Needed after a change of embedder, for all projects at once. Servers may keep running; interrupted, it continues
    where it stopped.
    """
    with interruptible(_RUN_AGAIN.format("reindex")), progress_bar("Embedding") as progress:
        waiting = memory.reindex.waiting()
        progress(0, waiting)
        done = memory.reindex(waiting, progress)
    embedder, refused = memory.reindex.stored_embedder(), memory.reindex.refused()
    lines = [f"{counted(done, 'record')} embedded; the memory's embedder is {embedder}."]
    if refused:
        lines.append(f"Texts that it refused, to be found by their words alone: {refused}.")
    output(as_json, {"embedded": done, "refused": refused, "embedder": embedder}, *lines)


def embed(memory: "App") -> int:
    """Compute the vectors that an export leaves out; if the embedder is unavailable, a server does so later."""
    waiting, done = memory.reindex.queued(), 0
    if not waiting:
        return 0
    try:
        with progress_bar("Embedding") as progress:
            while embedded := memory.reindex.catch_up():
                done += embedded
                progress(done, max(waiting, done))
    except StoreUnavailable as error:
        complain(f"Imported, but not embedded yet: {error}")
    return done


@over_memory()
def maintain(
    memory: "App",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what is due.")] = False,
    as_json: AsJson = False,
) -> None:
    """Summarize and archive old events, judge procedures and guardrails by their success, compact long session logs.

    For all projects. Servers do it by themselves, a little at a time, and may keep running; interrupted, it continues
    where it stopped.
    """
    with interruptible(_RUN_AGAIN.format("maintain")):
        with progress_bar("Maintaining") as progress:
            done = asdict(memory.maintain.due() if dry_run else memory.maintain(progress))
        # Logs are compacted one after the other, until none is due.
        step = memory.idle_compaction.step
        done["compacted"] = memory.idle_compaction.due() if dry_run else sum(1 for _ in iter(step, False))
    known = [(done[name], *words) for name, words in _MAINTAINED.items()]
    counts = ", ".join(f"{counted(number, noun)} {what}" for number, noun, what in known if number)
    output(as_json, done, f"{'Due' if dry_run else 'Done'}: {counts or 'nothing'}.")


@over_memory()
def backup(
    memory: "App",
    target: Annotated[Path, typer.Argument(metavar="DIR_OR_FILE", help="A folder, or a new file's name.")],
    as_json: AsJson = False,
) -> None:
    """Copy the whole memory into a new file.

    All projects, consistent though servers are running. `mcp-memory restore-backup` goes back to it; one in
    PostgreSQL is written by pg_dump, for pg_restore.
    """
    file = backup_file(target, datetime.now(UTC), "db" if memory.settings.database_url is None else "dump")
    memory.backup(file)
    size = file.stat().st_size
    output(as_json, {"path": str(file), "bytes": size}, f"{file} ({size / 1e6:.1f} MB)")


def backup_file(target: Path, now: datetime, suffix: str = "db") -> Path:
    """Return the target; for a folder or a name without suffix, a file in it named after the time."""
    is_file = bool(target.suffix) and not target.is_dir()
    return target if is_file else target / f"memory-{now:%Y-%m-%d-%H%M%S}.{suffix}"

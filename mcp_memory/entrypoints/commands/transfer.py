"""Commands that carry a memory elsewhere: export, import."""

import os
import secrets
import shlex
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from mcp_memory.bounded_files import MB, open_regular, too_large
from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.commands.ask_owner import STREAM
from mcp_memory.entrypoints.commands.console import (
    interruptible,
    left_out_told,
    output,
    print_json,
    progress_bar,
    screen,
    terminal,
    way_back,
)
from mcp_memory.entrypoints.commands.maintenance import embed
from mcp_memory.entrypoints.commands.markdown import MARKDOWN, export_markdown, import_markdown
from mcp_memory.entrypoints.commands.options import AsJson, opened, opened_existing, over_settings
from mcp_memory.errors import Conflict, InvalidRequest, StoreUnavailable
from mcp_memory.ports.reads import ALL_RECORDS
from mcp_memory.services.access.served_requests import gave

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.records import Json, NewRecord
    from mcp_memory.ports.transfer import Piece
    from mcp_memory.services.memory.remember import Remembered
    from mcp_memory.settings import Settings

_STREAM_NAME = "Standard input"
_IMPORTED = "imported"
_RUN_AGAIN_TO_GO_ON = "Run the same command again: what is here already is not stored twice."
_OUTCOMES: Mapping[str, tuple[str, str]] = {
    "restored": ("piece", "restored unchanged"),
    "stored": ("record", "stored"),
    "known": ("record", "known already"),
    "logged": ("record", "of a log left behind"),
    "hidden": ("record", "of an open branch left behind"),
    "tasks": ("task", "left behind"),
    "erased": ("record", "left out whose text was erased here"),
    "embedded": ("record", "embedded"),
}
"""Each outcome names what is counted, and what became of it."""
CHANGES_TOLD = 3
"""Most changes to name that take an import back; the page takes more of them back at once."""
PROJECTS_SHOWN = 5
"""Most projects to name of those that an import brought."""
MAX_STREAM_BYTES = 16 * 1024 * MB
IMPORT_BATCH = 200
"""Items of another server that are stored in one write."""


@over_settings("data_dir", asks=True)
def export(
    settings: "Settings",
    target: Annotated[
        Path | None, typer.Argument(metavar="FILE|-", help="A new file; - writes to standard output.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FOLDER", help="Instead: this project's shared records, a file each."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="NAME", help="Only this project; by default all, of Markdown this folder's."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the whole memory as JSON Lines, or a project's records as Markdown files.

    As it is at one moment, though servers are running. `mcp-memory import` reads it. With --markdown only what differs
    is written, and what was edited by hand stays: `mcp-memory export --markdown docs/memory`.
    """
    from mcp_memory.entrypoints.transfer.memory_file import write_memory
    from mcp_memory.wiring import files_beside

    if (target is None) == (markdown is None):
        raise InvalidRequest("Name a file, or a folder with --markdown; one of the two.")
    if markdown is not None:
        export_markdown(settings, markdown, namespace, as_json)
        return
    assert target is not None
    if as_json and target == STREAM:
        raise InvalidRequest("Standard output carries the memory itself; leave out --json, or name a file.")
    with (
        interruptible("Interrupted; no file was made."),
        opened_existing(settings) as memory,
        _new_file(target) as file,
        progress_bar("Exporting") as progress,
    ):
        memory.caller()  # It is noted who asks.
        gave([ALL_RECORDS])
        if namespace is not None:
            namespace = memory.projects.existing(namespace)
        written = write_memory(memory.moving.leave(namespace), file, progress)
        if target != STREAM:
            memory.attachments.copy_to(files_beside(target), namespace)
    if as_json:
        print_json({"path": str(target), "pieces": written, "bytes": target.stat().st_size})
    elif target != STREAM:
        screen().print(f"{target} ({counted(written, 'piece')})", soft_wrap=True)


@over_settings("data_dir", "namespace", "agent", asks=True)
def import_memory(
    settings: "Settings",
    named: list[str],
    source: Annotated[Path, typer.Argument(metavar="FILE|DIR|-", help="What to read; - reads standard input.")],
    server: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SERVER",
            help="Another memory server: reference, basic-memory or claude-mem; or markdown, a folder that"
            " `export --markdown` wrote.",
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="NAME", help="The project to import, where claude-mem has several."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of markdown: only show what would be stored and revised.")
    ] = False,
    retire_deleted: Annotated[
        bool, typer.Option("--retire-deleted", help="Of markdown: retire the records whose files were deleted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read an exported memory, or what another memory server keeps, or edited Markdown files.

    An exported one comes into an empty memory as it was; into another what it knows is added, once. What is another
    server's becomes part of the project. Of files, edits become revisions: `mcp-memory import --from markdown
    docs/memory --dry-run`.
    """
    if server is None and (project or {"namespace", "agent"} & set(named)):
        raise InvalidRequest("An exported memory keeps its projects and agents; name others only with --from.")
    if server != MARKDOWN and (dry_run or retire_deleted):
        raise InvalidRequest("--dry-run and --retire-deleted go with --from markdown.")
    if server == MARKDOWN and project:
        raise InvalidRequest(
            "--project goes with --from claude-mem; --namespace names the project that gets the records."
        )
    with interruptible(f"Interrupted. {_RUN_AGAIN_TO_GO_ON}"):
        if server == MARKDOWN:
            import_markdown(settings, source, as_json, dry_run=dry_run, retires=retire_deleted)
            return
        if server is None:
            outcome = _import_exported(source, settings)
        else:
            outcome = _import_foreign(source, server, project, settings)
    told = f"Imported: {_outcome_in_words(outcome)}{_places_in_words(outcome)} {_way_back_of(outcome)}"
    output(as_json, outcome, visible(told.rstrip()))


def _way_back_of(outcome: "Mapping[str, Json]") -> str:
    """Say how what came in is taken back: by its changes, of another server's; else on the page, which lists it."""
    changes = cast("list[int]", outcome.get("changes") or [])
    if 0 < len(changes) <= CHANGES_TOLD:
        return " ".join(way_back(each) for each in reversed(changes))
    is_more = changes or (outcome.get("stored") and "restored" not in outcome)
    return "`mcp-memory ui` lists it under New, where all of it is retired as one change." if is_more else ""


def _outcome_in_words(outcome: "Mapping[str, Json]") -> str:
    """Say what became of it: "1 record stored. Left out: files that are not Markdown (2)."."""
    left_out = left_out_told(cast("Mapping[str, int]", outcome.get("left_out") or {}))
    counts = [
        f"{counted(number, noun)} {what}"
        for name, (noun, what) in _OUTCOMES.items()
        if (number := cast("int", outcome.get(name) or 0))
    ]
    return " ".join(filter(None, [f"{', '.join(counts) or 'nothing'}.", left_out]))


def _places_in_words(outcome: "Mapping[str, Json]") -> str:
    """Say in which projects the records are, where an exported memory's are not all in that of this folder."""
    if into := outcome.get("into"):
        return f" The records are in the project {into}." if outcome["stored"] or outcome["known"] else ""
    here, known = cast("str", outcome.get("here", "")), cast("Mapping[str, int]", outcome.get("projects") or {})
    if not set(known) - {here}:
        return ""
    names = ", ".join(f"{name} ({count})" for name, count in list(known.items())[:PROJECTS_SHOWN])
    more = f" and {len(known) - PROJECTS_SHOWN} more" if len(known) > PROJECTS_SHOWN else ""
    first = shlex.quote(next(name for name in known if name != here))
    return (
        f" The records are in the projects they were in: {names}{more}. This folder's is {here}: `mcp-memory list"
        f" --namespace {first}` shows what is in another one{_joining(outcome, first, shlex.quote(here))}."
    )


def _joining(outcome: "Mapping[str, Json]", other: str, here: str) -> str:
    """Say how the folder gets to another project's records: by trust, which may end, where it says that it is that."""
    if outcome.get("claims"):
        return ", and `mcp-memory trust` lets this folder use the one that it says it is"
    return f", and `mcp-memory projects merge {other} {here}` brings them here, for good"


def _counted(pieces: "Iterable[Piece]", projects: Counter[str]) -> "Iterator[Piece]":
    """Pass the pieces on, and count the records of each project that a person would look for."""
    from mcp_memory.domain.model.records import LOG_KINDS
    from mcp_memory.ports.transfer import WholeRecord

    for piece in pieces:
        if isinstance(piece, WholeRecord) and piece.record.kind not in LOG_KINDS and piece.record.visibility != "user":
            projects[piece.record.namespace] += 1
        yield piece


def _import_exported(source: Path, settings: "Settings") -> "Mapping[str, Json]":
    """Import all of it or nothing; then embed it."""
    from mcp_memory.entrypoints.transfer.memory_file import MemoryFile
    from mcp_memory.wiring import files_beside

    projects = Counter[str]()
    with _lines(source) as lines:
        file = MemoryFile(lines, _STREAM_NAME if source == STREAM else str(source))
        with opened(settings) as memory:
            with progress_bar("Storing") as progress, file.located():
                merged = memory.moving.enter(_counted(file.pieces(progress), projects), lambda: memory.caller().agent)
            outcome: dict[str, Json] = {**asdict(merged)} if merged else {"restored": file.origin.pieces}
            if source != STREAM:
                memory.attachments.take_from(files_beside(source))
            places: dict[str, Json] = {"projects": dict(projects.most_common()), "here": memory.caller().namespace}
            folder = memory.own.membership
            if folder.is_refused and folder.project and folder.project.claim in projects:
                places["claims"] = folder.project.claim
            return {**outcome, "embedded": embed(memory), **places}


def _import_foreign(path: Path, server: str, project: str | None, settings: "Settings") -> "Mapping[str, Json]":
    """Import what another server keeps, batch by batch; then embed it."""
    from mcp_memory.entrypoints.transfer.importers import IMPORTERS, fitted

    if server not in IMPORTERS:
        raise InvalidRequest(f"There is no importer for {server!r}; choose one of {', '.join((*IMPORTERS, MARKDOWN))}.")
    # Read twice, first to count: what is no such server's raises before a memory is made.
    total = sum(1 for _ in IMPORTERS[server](path, project, Counter()))
    left_out, became, changes = Counter[str](), Counter[str](), list[int]()
    items = fitted(IMPORTERS[server](path, project, left_out), server, left_out)
    with opened(settings) as memory:
        with progress_bar("Storing") as progress:
            done = 0
            try:
                while batch := list(islice(items, IMPORT_BATCH)):
                    stored = _stored(memory, batch, left_out)
                    became.update(each.status for each in stored)
                    changes += dict.fromkeys(each.change for each in stored if each.status == "stored")
                    done += len(batch)
                    progress(done, max(total, done))
            except StoreUnavailable as error:
                raise StoreUnavailable(f"{error} {became.total()} are done. {_RUN_AGAIN_TO_GO_ON}") from error
        known = became["confirmed"] + became["superseded"]
        embedded, into = embed(memory), memory.caller().namespace
    became_known: dict[str, Json] = {"stored": became["stored"], "known": known, "embedded": embedded}
    return {**became_known, "left_out": dict(left_out), "into": into, "changes": [*changes]}


def _stored(memory: "App", batch: "list[NewRecord]", left_out: Counter[str]) -> "list[Remembered]":
    """Store a batch, and return each item's outcome. An item that cannot be stored does not block the others.

    Such an item is, for example, nothing but recalled context.
    """
    try:
        return memory.remember(batch, memory.caller(), advise=False, embed=False, undoable=_IMPORTED)
    except (InvalidRequest, Conflict) as error:
        if len(batch) == 1:
            is_erased = isinstance(error, Conflict)
            left_out["records whose text was erased here" if is_erased else "records that no memory takes"] += 1
            return []
        return [stored for item in batch for stored in _stored(memory, [item], left_out)]


@contextmanager
def _new_file(target: Path) -> Generator[BinaryIO]:
    """Yield a new private file, which appears under its name once it is complete. Raises InvalidRequest."""
    if target == STREAM:
        yield terminal().stdout.buffer
        return
    path = target
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # Another may export to the same name.
    if path.exists():
        raise InvalidRequest(f"{path} exists already; name a new file.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(
            os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb"
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            raise InvalidRequest(f"{path} was created meanwhile and was not overwritten; name a new file.")
        part.rename(path)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written ({error.strerror}); name another file.") from error
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def _lines(source: Path) -> Generator[BinaryIO]:
    """Open the source. Raises InvalidRequest."""
    if source == STREAM:
        with _kept_aside(terminal().stdin.buffer) as file:
            yield file
        return
    try:
        file = open_regular(source)
    except IsADirectoryError as error:
        message = f"{source} cannot be read as a file; say with --from whether it is markdown or basic-memory."
        raise InvalidRequest(message) from error
    except OSError as error:
        message = f"{source} cannot be read ({error.strerror}); name an exported memory, or pipe it in and name -."
        raise InvalidRequest(message) from error
    with file:
        yield file


@contextmanager
def _kept_aside(stream: BinaryIO) -> Generator[BinaryIO]:
    """Spool a stream to disk: importing blocks writers, and a remote stream may be slow.

    Raises InvalidRequest where it does not begin as a memory does, or holds more than the limit.
    """
    from mcp_memory.entrypoints.transfer.memory_file import MemoryFile

    first = stream.readline(MB)
    MemoryFile(BytesIO(first), _STREAM_NAME)  # Raises before the disk is filled with something else.
    with tempfile.TemporaryFile() as file:
        try:
            left = MAX_STREAM_BYTES - file.write(first)
            while part := stream.read(MB):
                left -= file.write(part)
                if left < 0:
                    raise too_large(MAX_STREAM_BYTES)
            file.seek(0)
        except OSError as error:
            raise InvalidRequest(f"Standard input cannot be kept ({error.strerror}); name a file instead.") from error
        yield cast("BinaryIO", file)

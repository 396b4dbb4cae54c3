"""export --markdown and import --from markdown: a project's records as files that people keep in git and edit."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.entrypoints.commands.console import interruptible, left_out_told, output, way_back
from mcp_memory.entrypoints.commands.maintenance import embed
from mcp_memory.entrypoints.commands.options import opened, opened_existing
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.access.served_requests import gave

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Json
    from mcp_memory.entrypoints.transfer.markdown_folder import MarkdownFolder
    from mcp_memory.services.memory.file_copies import Compared
    from mcp_memory.settings import Settings

MARKDOWN: Final = "markdown"
"""Names the folder's form behind `import --from`."""
SHOWN_CHARACTERS: Final = 100
"""Characters of a text in a line of the plan."""
PLAN_LINES: Final = 100


def export_markdown(settings: "Settings", path: Path, namespace: str | None, as_json: bool) -> None:
    """Bring a folder up to date with the shared records of the project, by default that of this folder."""
    from mcp_memory.entrypoints.transfer.markdown_folder import changes_of, read_folder, write_changes

    with interruptible("Interrupted; the same command writes the rest."), opened_existing(settings) as memory:
        caller = memory.caller()
        if namespace:
            caller = replace(caller, namespace=memory.projects.existing(namespace))
        folder = read_folder(path)
        comparison = memory.file_copies.compare(folder.copies, caller)
        gave([each.record_id for each in comparison.held])
        changes = changes_of(folder, comparison.held, comparison.compared)
        write_changes(folder, changes)
    counts: dict[str, Json] = {
        "written": len(changes.write),
        "removed": len(changes.remove),
        "unchanged": changes.unchanged,
        "deleted": changes.deleted,
        "edited": list(changes.edited),
        "too_large": list(changes.too_large),
    }
    lines = [f"{path}: {len(changes.write)} written, {len(changes.remove)} removed, {changes.unchanged} unchanged."]
    if changes.edited:
        lines.append(f"Edited by hand, and left so: {', '.join(changes.edited)}.")
    if changes.edited or changes.deleted:
        lines.append(f"`mcp-memory import --from markdown {shlex.quote(str(path))}` takes that in.")
    if changes.deleted:
        lines.append(f"Deleted by hand: {changes.deleted}; with --retire-deleted that command retires their records.")
    if changes.too_large:
        lines.append(f"Too large for a file: {', '.join(changes.too_large)}.")
    output(as_json, {"path": str(path), **counts}, *map(visible, lines))


def import_markdown(settings: "Settings", path: Path, as_json: bool, *, dry_run: bool, retires: bool) -> None:
    """Take in what people made of such a folder, or show it."""
    from mcp_memory.entrypoints.transfer.markdown_folder import read_folder

    folder = read_folder(path)
    if not folder.contents and not folder.manifest:
        raise InvalidRequest(f"{path} has no record's file; name the folder that `export --markdown` wrote.")
    with opened(settings, takes=not dry_run) as memory:
        caller = memory.caller()
        comparison = memory.file_copies.compare(folder.copies, caller)
        compared = comparison.compared
        news = memory.file_copies.news(compared, caller)
        deleted = [each.record_id for each in comparison.held if each.id in folder.deleted]
        answer = _plan(folder, compared, news, deleted if retires else [])
        lines = [*_lines(compared, news, deleted if retires else []), *_refusals(folder, compared)]
        if deleted and not retires:
            lines.append(f"Deleted were the files of {', '.join(deleted)}; --retire-deleted retires these records.")
        if folder.left_out:
            lines.append(left_out_told(folder.left_out))
        if dry_run:
            output(as_json, answer, *map(visible, lines or ["Nothing has changed."]))
            return
        taken = memory.file_copies.take(compared, deleted if retires else [], caller)
        answer |= {"embedded": embed(memory), "changes": list(taken.changes), "into": caller.namespace}
    counts = {"stored": taken.stored, "revised": taken.revised, "retired": taken.retired}
    done = [f"{len(ids)} {name}" for name, ids in counts.items() if ids]
    lines.append(f"Imported into {caller.namespace}: {', '.join(done) or 'nothing'}.")
    lines += [way_back(each) for each in reversed(taken.changes)]
    output(as_json, answer, *map(visible, lines))


def _plan(
    folder: "MarkdownFolder", compared: "Sequence[Compared]", news: "set[str]", deleted: Sequence[str]
) -> "dict[str, Json]":
    from mcp_memory.entrypoints.transfer.markdown_folder import told

    refused: dict[str, Json] = dict(told(folder, compared))
    return {
        "stored": [each.copy.name for each in compared if each.state == "new" and each.item.text in news],
        "revised": {each.copy.name: each.record_id for each in compared if each.revision},
        "retired": list(deleted),
        "refused": refused,
        "unchanged": sum(each.state in ("same", "older") for each in compared),
        "not_held": [each.copy.name for each in compared if each.state == "gone"],
        "left_out": dict(folder.left_out),
    }


def _lines(compared: "Sequence[Compared]", news: "set[str]", deleted: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for each in compared:
        text = one_line(each.item.text, SHOWN_CHARACTERS)
        if each.revision:
            fields = [name for name in ("text", "details") if getattr(each.revision, name) is not None]
            lines.append(f"revise {each.record_id} ({', '.join(fields) or 'fields'}): {text}  [{each.copy.name}]")
        elif each.state == "new" and each.item.text in news:
            lines.append(f"store: {text}  [{each.copy.name}]")
        elif each.state == "gone" and each.copy.is_edited:
            lines.append(f"{each.copy.name}: its record holds no more; delete the file.")
    lines += [f"retire {each}" for each in deleted]
    more = len(lines) - PLAN_LINES
    return [*lines[:PLAN_LINES], f"… and {more} more; --json names all."] if more > 0 else lines


def _refusals(folder: "MarkdownFolder", compared: "Sequence[Compared]") -> list[str]:
    from mcp_memory.entrypoints.transfer.markdown_folder import told

    return [f"{name}: {why}" for name, why in told(folder, compared).items()]

"""A folder of records' files: reads what lies in it, and writes what differs.

No link in it is followed. A file is recognised by the id in its front matter, wherever it lies and however it is named;
what is no record's file is never touched. `MANIFEST` lists the ids that were written, so that a file that is missing is
told from a record that is new.
"""

import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mcp_memory.bounded_files import MB, read_regular
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.transfer.importers.basic_memory import files_below
from mcp_memory.entrypoints.transfer.markdown_format import file_bytes, file_name, id_in, is_record_file, read_file
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.memory.file_copies import Compared, FileCopy, HeldCopy, is_copy_id

MAX_FILE_BYTES: Final = 8 * MB
MAX_MANIFEST_BYTES: Final = 64 * MB
MANIFEST: Final = ".mcp-memory-export"
_ABOUT: Final = "# The records that `mcp-memory export --markdown` wrote here. Keep this file with them.\n"


@dataclass(slots=True)
class MarkdownFolder:
    """Holds what was read in a folder. Paths are relative to it, with slashes."""

    root: Path
    copies: list[FileCopy] = field(default_factory=list[FileCopy])
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """By path, of every file that is a record's."""
    unreadable: dict[str, str] = field(default_factory=dict[str, str])
    """By path, what is wrong with a record's file."""
    ids: dict[str, str] = field(default_factory=dict[str, str])
    """The path of each id, also of an unreadable file."""
    manifest: frozenset[str] = frozenset()
    left_out: Counter[str] = field(default_factory=Counter[str])

    @property
    def deleted(self) -> frozenset[str]:
        """The ids whose files were written here and are gone."""
        return self.manifest - self.ids.keys()


@dataclass(slots=True)
class Changes:
    """Lists what an export does in a folder: contents to write by path, paths to remove, and what it leaves alone."""

    write: dict[str, bytes] = field(default_factory=dict[str, bytes])
    remove: list[str] = field(default_factory=list[str])
    edited: list[str] = field(default_factory=list[str])
    unchanged: int = 0
    deleted: int = 0
    too_large: list[str] = field(default_factory=list[str])
    ids: set[str] = field(default_factory=set[str])
    """The ids for the manifest."""


def read_folder(path: Path) -> MarkdownFolder:
    """Read the records' files in a folder, which need not exist. Raises InvalidRequest where it is no folder."""
    if path.exists() and not path.is_dir():
        raise InvalidRequest(f"{path} is no folder; name one for a file a record.")
    found = MarkdownFolder(root=path.resolve())
    if not path.is_dir():
        return found
    found.manifest = _manifest(found.root)
    for file in files_below(found.root, found.left_out):
        if file.suffix.lower() == ".md":
            _read(file, found)
    return found


def _manifest(root: Path) -> frozenset[str]:
    try:
        lines = read_regular(root / MANIFEST, MAX_MANIFEST_BYTES, follow_link=False).decode("utf-8", "replace")
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise InvalidRequest(f"{root / MANIFEST} cannot be read ({error.strerror}); move it away.") from error
    return frozenset(filter(is_copy_id, lines.split()))


def _read(file: Path, found: MarkdownFolder) -> None:
    name = file.relative_to(found.root).as_posix()
    try:
        content = read_regular(file, MAX_FILE_BYTES, follow_link=False)
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        found.left_out["files that cannot be read as text in UTF-8"] += 1
        return
    except OSError as error:
        found.left_out[f"files that cannot be read: {error.strerror}"] += 1
        return
    if not is_record_file(text):
        found.left_out["Markdown files without `kind` in front matter"] += 1
        return
    found.contents[name] = content
    copy_id = id_in(text)
    try:
        copy = read_file(name, text)
        copy_id = copy.id or copy_id
        if copy_id and copy_id in found.ids:
            raise InvalidRequest(f"{visible(found.ids[copy_id])} has the same id; take it out of the copy.")
    except InvalidRequest as error:
        found.unreadable[name] = str(error)
    else:
        found.copies.append(copy)
    if copy_id:
        found.ids.setdefault(copy_id, name)


def changes_of(folder: MarkdownFolder, held: Sequence[HeldCopy], compared: Sequence[Compared]) -> Changes:
    """Decide what an export does. Raises InvalidRequest where a file or link of somebody else's is in its way."""
    changes = Changes(edited=[*folder.unreadable])
    by_record = {each.record_id: each for each in reversed(compared) if each.record_id}
    damaged = {copy_id for copy_id, name in folder.ids.items() if name in folder.unreadable}
    for each in held:
        there = by_record.get(each.record_id)
        if each.id in damaged:
            changes.ids.add(each.id)
        elif there:
            _rewrite(folder, each, there, changes)
        elif each.id in folder.deleted:
            changes.deleted += 1
            changes.ids.add(each.id)
        elif content := file_bytes(each.id, each.item):
            name = file_name(each.id, each.item)
            _refuse_foreign(folder, name)
            changes.write[name] = content
            changes.ids.add(each.id)
        else:
            changes.too_large.append(each.record_id)
    for one in compared:
        if one.state == "gone":
            (changes.edited if one.copy.is_edited else changes.remove).append(one.copy.name)
    changes.ids |= folder.ids.keys() - {one.copy.id for one in compared if one.copy.name in changes.remove}
    return changes


def _rewrite(folder: MarkdownFolder, held: HeldCopy, there: Compared, changes: Changes) -> None:
    name, copy_id = there.copy.name, there.copy.id or held.id
    changes.ids.add(copy_id)
    if there.state not in ("same", "older"):
        changes.edited.append(name)
    elif not (content := file_bytes(copy_id, held.item)):
        changes.too_large.append(held.record_id)
    elif content == folder.contents[name].replace(b"\r\n", b"\n"):
        changes.unchanged += 1
    else:
        changes.write[name] = content


def _refuse_foreign(folder: MarkdownFolder, name: str) -> None:
    target = folder.root / name
    above = target.parent
    if os.path.lexists(target) or (os.path.lexists(above) and (above.is_symlink() or not above.is_dir())):
        there = target if os.path.lexists(target) else above
        raise InvalidRequest(f"{there} is there, and no file of a record; move it, or name another folder.")


def write_changes(folder: MarkdownFolder, changes: Changes) -> None:
    """Write what differs, each file as a whole, then the manifest. Raises InvalidRequest."""
    manifest = "".join(f"{copy_id}\n" for copy_id in sorted(changes.ids))
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        for name, content in changes.write.items():
            _put(folder.root / name, content)
        for name in changes.remove:
            (folder.root / name).unlink(missing_ok=True)
            with suppress(OSError):  # Others of its kind are still there.
                (folder.root / name).parent.rmdir()
        if changes.ids ^ folder.manifest:
            _put(folder.root / MANIFEST, (_ABOUT + manifest).encode())
    except OSError as error:
        raise InvalidRequest(f"{folder.root} cannot be written ({error.strerror}); name another folder.") from error


def _put(path: Path, content: bytes) -> None:
    """Replace a file, or make it; a link of its name is replaced, not followed."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def told(folder: MarkdownFolder, compared: Sequence[Compared]) -> Mapping[str, str]:
    """Return why each file was not taken, by path."""
    return {**folder.unreadable, **{each.copy.name: each.why for each in compared if each.why}}

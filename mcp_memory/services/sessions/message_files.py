"""Keeps the files of messages, opens them for those who may see the message, and drops what nothing refers to."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from mcp_memory.domain.model.message_files import Attachment, OpenedFiles, attachments_of
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import SessionLog
from mcp_memory.ports.files import FileStore
from mcp_memory.ports.records import RecordStore


class AttachmentSettings(Protocol):
    """Settings that the keeping of files reads."""

    file_max_mb: float


class Attachments:
    """Thread-safe. Files larger than `file_max_mb` are not kept; 0 keeps none."""

    def __init__(self, records: RecordStore, files: FileStore, settings: AttachmentSettings) -> None:
        self._records = records
        self._files = files
        self._max_bytes = round(settings.file_max_mb * 1_000_000)

    def bounded(self, files: Iterable[Attachment]) -> tuple[Attachment, ...]:
        """Return them, those that are too large without their content."""
        return tuple(each if each.size <= self._max_bytes else replace(each, content=b"") for each in files)

    def keep(self, files: Iterable[Attachment]) -> None:
        """Store what has content; call this inside the write that stores their record. Raises StoreUnavailable."""
        for each in files:
            if each.content:
                self._files.keep(each.digest, each.content)

    def of_log(self, log: SessionLog, caller: Caller) -> Mapping[str, OpenedFiles]:
        """Return the files of the entries that the log shows as they were, by entry."""
        shown = [each.id for each in log.entries if each.form == "original" and " sha256:" in each.text]
        return {each.id: self.opened(each) for each in self._records.get(shown, caller.scopes).values()}

    def opened(self, record: Record) -> OpenedFiles:
        """Return the files of a record that the caller may see, without those that are not kept."""
        found = ((each, self._files.read(each.digest)) for each in attachments_of(record.details))
        return [(each, content) for each, content in found if content is not None]

    def copy_to(self, target: FileStore, namespace: str | None = None) -> int:
        """Copy what the records name, or those of one namespace; return how many files. Raises StoreUnavailable."""
        return copy_files(self._files, target, self._records.kept_files(namespace))

    def take_from(self, source: FileStore) -> int:
        """Take in what records name and is not here; return how many files. Raises StoreUnavailable."""
        with self._records.write():
            return copy_files(source, self._files, self._records.kept_files().keys() - self._files.digests())

    def sweep(self) -> None:
        """Delete the files that no record names. Raises StoreUnavailable."""
        if self._files.digests():
            with self._records.write():  # Files are kept inside a write: none is on its way meanwhile.
                self._files.drop(self.unnamed())

    def unnamed(self) -> Collection[str]:
        """Return what is in the folder, and named by no record."""
        return self._files.digests() - self._records.kept_files().keys()

    def missing(self) -> Sequence[str]:
        """Return ids of records whose files should be there, and are not or no longer what they were."""
        named = self._records.kept_files()
        return sorted({named[digest] for digest in named if self._files.read(digest) is None})


def copy_files(source: FileStore, target: FileStore, digests: Iterable[str]) -> int:
    """Copy those that are in the source, and what their names say; return how many. Raises StoreUnavailable."""
    copied = 0
    for digest in digests:
        if (content := source.read(digest)) is not None:
            target.keep(digest, content)
            copied += 1
    return copied

"""The check-up: compares derived data with the truth, and the truth with itself; repairs derived data.

Findings are data. It knows neither files nor indexes, and embeds only missing vectors.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.indexes import Finding, IndexExaminer
from mcp_memory.ports.records import RecordStore
from mcp_memory.services.memory.reindex import Reindex
from mcp_memory.services.sessions.message_files import Attachments

TERMS_BATCH = 500
"""Records whose terms are written in one transaction: other processes wait for the write lock meanwhile."""
IDS_TOLD = 3
_REPAIR = "`mcp-memory doctor --repair` does it."
_RESTORING = "Go back to a sound backup with `mcp-memory restore-backup`."


class IntegrityCheck:
    """Examines the whole memory, of all namespaces. `embedder` is the id of the configured one."""

    def __init__(
        self,
        records: RecordStore,
        reindex: Reindex,
        embedder: str,
        indexes: Callable[[], IndexExaminer],
        attachments: Attachments,
    ) -> None:
        self._records = records
        self._reindex = reindex
        self._embedder = embedder
        self._indexes = indexes
        self._attachments = attachments

    def __call__(self, *, repair: bool) -> Iterator[Finding]:
        """Yield findings on each part as they are made. Without `repair` it changes nothing.

        With `repair` it adds missing terms and vectors, and drops wrong indexes and entities that no record mentions.
        Records and links stay unchanged. After a finding against the database it neither compares nor repairs anything.
        """
        database = list(_told("database", self._examine_database()))
        yield from database
        if any(finding.state == "wrong" for finding in database):
            return
        yield from _told("server", iter(self._records.examine_server()))
        yield from _told("database", self._examine_erased(repair=repair))
        yield from _told("keywords", self._examine_terms(repair=repair))
        yield from _told("vectors", self._examine_vectors(repair=repair))
        yield from _told("graph", self._examine_links(repair=repair))
        yield from _told("files", self._examine_files(repair=repair))
        if self._is_ours():
            yield from _told("index", self._indexes().examine(repair=repair))

    def _is_ours(self) -> bool:
        """Return True where the vectors are the configured embedder's; others are compared with nothing."""
        return self._records.embedder_id() in (None, self._embedder)

    def _examine_database(self) -> Iterator[Finding]:
        defects = self._records.defects()
        if not defects:
            says = f"sound, at change {self._records.revision()}, in {self._records.engine()}"
            yield Finding(part="database", state="ok", says=says)
        if remains := self._records.erased_remains():
            yield Finding(part="database", state="ok", says=remains)
        if counted := self._records.migrated():
            yield Finding(part="database", state="ok", says=f"since its last migration, {counted}")
        for defect in defects:
            yield Finding(part="database", state="wrong", says=defect, remedy=_RESTORING)

    def _examine_erased(self, *, repair: bool) -> Iterator[Finding]:
        if not self._records.is_purge_pending():
            return
        if repair:
            with suppress(StoreBusy):
                copies = self._records.purge()
                gone = f"; copies that held it were deleted: {', '.join(copies)}" if copies else ""
                says = f"what was erased was taken out of the files{gone}"
                yield Finding(part="database", state="repaired", says=says)
                return
        says = "what was erased is still in the files, as other processes keep them in use"
        remedy = f"A server takes it out when they pause; without one, {_REPAIR}"
        yield Finding(part="database", state="ok", says=says, remedy=remedy)

    def _examine_files(self, *, repair: bool) -> Iterator[Finding]:
        if missing := self._attachments.missing():
            says = f"missing or damaged, named by {_named(missing)}"
            yield Finding(part="files", state="wrong", says=says, remedy="Copy them from an older copy of the folder.")
        if not (unnamed := self._attachments.unnamed()):
            return
        if repair:
            self._attachments.sweep()
            yield Finding(part="files", state="repaired", says=f"named by no record, and deleted: {len(unnamed)}")
            return
        yield Finding(
            part="files",
            state="wrong",
            says=f"named by no record: {len(unnamed)}",
            remedy=f"Nothing needs them: {_REPAIR}",
        )

    def _examine_terms(self, *, repair: bool) -> Iterator[Finding]:
        stale = self._records.stale_terms()
        if not stale:
            yield Finding(part="keywords", state="ok", says="the words of every text are indexed")
        elif not repair:
            says = f"{counted(len(stale), 'record')} cannot be found by all their words"
            yield Finding(part="keywords", state="wrong", says=says, remedy=f"Their words must be written: {_REPAIR}")
        else:
            for start in range(0, len(stale), TERMS_BATCH):
                self._records.renew_terms(stale[start : start + TERMS_BATCH])
            yield Finding(
                part="keywords", state="repaired", says=f"the words of {counted(len(stale), 'record')} were written"
            )

    def _examine_vectors(self, *, repair: bool) -> Iterator[Finding]:
        if not self._is_ours():
            says = f"made by {self._records.embedder_id()}, but {self._embedder} is configured"
            remedy = "Run `mcp-memory reindex`, or set the embedder back."
            yield Finding(part="vectors", state="wrong", says=says, remedy=remedy)
            return
        waiting = self._reindex.waiting()
        if not waiting:
            yield self._whole()
        elif repair:
            yield self._embed()
        elif waiting > self._records.count_unembedded():
            yield _lost(waiting)
        else:
            says = f"{counted(waiting, 'record')} {'wait' if waiting > 1 else 'waits'} to be embedded"
            remedy = "A server embeds them, or `mcp-memory reindex`; meanwhile they are found by their words."
            yield Finding(part="vectors", state="ok", says=says, remedy=remedy)

    def _embed(self) -> Finding:
        """Embed the waiting records. Raises StoreUnavailable where the embedder is still unreachable."""
        embedded = 0
        while done := self._reindex.catch_up():
            embedded += done
        if left := self._reindex.waiting():
            return _lost(left)
        if not embedded:
            return self._whole()
        return Finding(
            part="vectors", state="repaired", says=f"{counted(embedded, 'record')} embedded{self._refusals()}"
        )

    def _whole(self) -> Finding:
        says = f"every record has its own, by {self._embedder}{self._refusals()}"
        return Finding(part="vectors", state="ok", says=says)

    def _refusals(self) -> str:
        """Describe records that no embedding can repair: they are sound, but words alone find them."""
        refused = self._reindex.refused()
        return f"; {counted(refused, 'record')} whose text it refuses can be found by words alone" if refused else ""

    def _examine_orphans(self, *, repair: bool) -> Iterator[Finding]:
        orphans = self._records.count_orphans()
        if orphans and not repair:
            remedy = f"Nothing needs them: {_REPAIR}"
            yield Finding(
                part="graph", state="wrong", says=f"entities that no record mentions: {orphans}", remedy=remedy
            )
        elif orphans:
            self._records.drop_orphans()
            yield Finding(
                part="graph", state="repaired", says=f"entities that no record mentioned were dropped: {orphans}"
            )

    def _examine_links(self, *, repair: bool) -> Iterator[Finding]:
        with self._records.snapshot():
            links = [change for change in self._records.changes(0) if not change.is_erased]
            tasks = {task.id: task for task in self._records.task_links(0)}
            mentions = sum(len(each["record_id"]) for each in self._records.index_rows("mentions", 0))
        parents = {task.id: task.parent_id for task in tasks.values() if task.parent_id}
        successors = {link.id: link.superseded_by for link in links if link.superseded_by}
        records = {link.id for link in links}
        homeless = [link.id for link in links if {link.task_id, link.branch_id} - tasks.keys() - {None}]
        strangers = [task for task, parent in parents.items() if tasks[task].scope != tasks[parent].scope]
        wrong = (
            ([one for one, other in successors.items() if other not in records], "replaced by what is not there"),
            (_endless(successors), "replaced in a circle"),
            (homeless, "part of a task that is not there"),
            (_endless(parents), "part of themselves"),
            (strangers, "part of another project's task"),
        )
        for ids, what in wrong:
            if ids:
                yield Finding(part="graph", state="wrong", says=f"{_named(ids)} {what}", remedy=_RESTORING)
        yield from self._examine_orphans(repair=repair)
        if not any(ids for ids, _ in wrong):
            linked = f"{counted(len(links), 'record')} ({counted(mentions, 'mention')})"
            says = f"the links of {linked} and {counted(len(tasks), 'task')} are unbroken"
            yield Finding(part="graph", state="ok", says=says)


def _told(part: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings, and any error that stopped the check."""
    try:
        yield from findings
    except StoreUnavailable as error:
        yield Finding(part=part, state="wrong", says=str(error))


def _lost(records: int) -> Finding:
    says = f"{counted(records, 'record')} {'have' if records > 1 else 'has'} none"
    remedy = "No server knows of them: run `mcp-memory reindex`."
    return Finding(part="vectors", state="wrong", says=says, remedy=remedy)


def _endless(above: Mapping[str, str]) -> list[str]:
    """Return ids whose chain upwards never ends."""
    ends: set[str] = set()
    endless: set[str] = set()
    for start in above:
        way: dict[str, None] = {}
        step = start
        while step in above and step not in way and step not in ends and step not in endless:
            way[step] = None
            step = above[step]
        (endless if step in way or step in endless else ends).update(way)
    return sorted(endless)


def _named(ids: Collection[str]) -> str:
    """Return the count and the first few ids."""
    first = ", ".join(sorted(ids)[:IDS_TOLD])
    return f"{len(ids)} ({first}{', …' if len(ids) > IDS_TOLD else ''})"

"""Fills the queue of reviews in the background: what contradicts or repeats, dependents of changes, used notes.

Also guidance whose files and versions the log shows to be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter

from mcp_memory.domain.memory.grounds import GUIDANCE, overtaken, pins, read
from mcp_memory.domain.model.lifecycle import NOTED
from mcp_memory.domain.model.records import LOG_KINDS, Json, Kind
from mcp_memory.domain.model.scopes import RecordFilter, by_partition
from mcp_memory.domain.sessions.shell_commands import paths_retired
from mcp_memory.domain.sessions.tool_lines import call_fields
from mcp_memory.domain.text.words import query_terms
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.changes import RecordChange, Snapshots
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import FilterIndex, KeywordStore, VectorStore
from mcp_memory.ports.reviews import ReviewStore
from mcp_memory.ports.text import Clock, Embedder
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.review.dependence import CANDIDATES
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.review.near_records import NEAREST, compared, near
from mcp_memory.services.review.reviews import Found, group_of
from mcp_memory.services.review.supersede import successors

LOOKED_AT = 50
"""Changes that one step looks at."""
LEAST_OPENED = 2
"""Times that a noted record was opened which may be worth keeping."""
WORTH_KEEPING = "It was only noted, but opened {} times. Is it worth keeping?"
IS_GONE = "{} names {}, which changed in {}. Is it still right?"
STILL_RIGHT = "{} changed. Is the rest still right?"
_NOTED_KINDS: Sequence[Kind] = ("fact", "decision", "episode")


class FillQueue:
    """Takes small steps, over all projects. Thread-safe; two processes share the work."""

    def __init__(
        self,
        records: RecordStore,
        reviews: ReviewStore,
        snapshots: Snapshots,
        vectors: VectorStore,
        keywords: KeywordStore,
        filters: FilterIndex,
        embedder: Embedder,
        clock: Clock,
    ) -> None:
        self._records = records
        self._keywords = keywords
        self._filters = filters
        self._reviews = reviews
        self._snapshots = snapshots
        self._vectors = vectors
        self._embedder = embedder
        self._clock = clock

    def step(self) -> bool:
        """Look at the next changes; return True where more may be left. Raises StoreUnavailable."""
        settled = self._records.settled()
        scopes = {each.scope for each in islice(self._records.changes(self._reviews.looked_at()), LOOKED_AT)}
        with self._snapshots.snapshot(scopes):
            embedder = self._records.embedder_id() or ""
            looked_at = self._reviews.looked_at()
            changes = list(islice(self._records.changes(looked_at, embedder), LOOKED_AT))
            changes = [each for each in changes if each.change <= settled]  # Lower numbers may follow the others.
            doubted = self._reviews.doubted(looked_at, changes[-1].change) if changes else ()
            try:
                by_scope = groupby(changes, lambda change: change.scope)
                found = [(scope, each) for scope, some in by_scope for each in self._compared(scope, some)]
            except EmbedderMismatch:  # Until a reindex, nothing can be compared.
                return False
            if len(changes) < LOOKED_AT:  # Else more follow at once, and this looks at every noted record.
                found += self._used()
            outdated = [(change.scope, each) for change in changes for each in self._outdated(change)]
        due = [
            *((scope, partial(_same, each)) for scope, each in found),
            *((scope, partial(_guidance, *each)) for scope, each in outdated),
            *((scope, partial(_dependents, ground, ids)) for scope, ground, ids in doubted),
        ]
        self._put(due)
        if changes:
            self._reviews.note_looked_at(changes[-1].change)
        return len(changes) == LOOKED_AT

    def _put(self, due: Iterable[tuple[str, Callable[[Transaction], Found]]]) -> None:
        """Let what was found in each scope wait, in one write for each partition."""
        for partition, some in by_partition(due, itemgetter(0)).items():
            now = self._clock()
            with self._records.write(partition=partition) as transaction:
                for _, found_in in some:
                    enqueue(*found_in(transaction), now, transaction)

    def _compared(self, scope: str, changes: Iterable[RecordChange]) -> Iterator[Found]:
        """Yield the groups of these changes of a scope with what is near them."""
        known = [(each.id, each.vectors[0]) for each in changes if _is_known(each) and each.vectors is not None]
        cosines = self._vectors.nearest([vector for _, vector in known], scope, NEAREST + 1) if known else ()
        for (record_id, _), nearest in zip(known, cosines, strict=True):
            others = dict(islice((each for each in nearest.items() if each[0] != record_id), NEAREST))
            found = [each for each in near(others, self._records, (scope,)) if each[0].status != NOTED]
            record = self._records.get([record_id], (scope,)).get(record_id) if found else None
            if record and (group := group_of(record_id, compared(record, scope, found, self._embedder).conflicts)):
                yield group

    def _outdated(self, change: RecordChange) -> Iterator[tuple[str, str, str]]:
        """Yield the guidance that names a file or version which a command did away with, that, and the command's id."""
        if change.kind not in ("tool_call", "event") or not change.is_live:
            return
        record = self._records.get([change.id], (change.scope,))[change.id]
        fields: Mapping[str, Json] = call_fields(record.text) or record.details
        command = fields.get("command")
        if not isinstance(command, str):
            return
        gone, pinned = paths_retired(command), pins(command)
        if not gone and not pinned:
            return
        where = RecordFilter(scopes=(change.scope,), kinds=GUIDANCE)
        words = query_terms(" ".join([*gone, *pinned]))
        alike = self._keywords.search(words, where.scopes, CANDIDATES, self._filters.passing(where), ())
        for guidance in self._records.get(list(alike), where.scopes).values():
            is_older = guidance.holds and guidance.updated_at < record.occurred_at
            if is_older and (thing := overtaken(read(guidance.text), gone, pinned)):
                yield guidance.id, thing, change.id

    def _used(self) -> list[tuple[str, Found]]:
        """Return the noted records that were opened repeatedly and that nobody has looked at, with their scopes."""
        noted = [r for kind in _NOTED_KINDS for r in self._records.to_maintain(kind, (NOTED,), self._clock())]
        used = [record for record in noted if record.counters.accessed >= LEAST_OPENED]
        known = self._reviews.reviewed([record.id for record in used], "noted")
        return [
            (r.scope, ("noted", (r.id,), WORTH_KEEPING.format(r.counters.accessed))) for r in used if r.id not in known
        ]


def _is_known(change: RecordChange) -> bool:
    return change.is_live and change.kind not in LOG_KINDS and not change.superseded_by and not change.noted_in


def _same(found: Found, _: Transaction) -> Found:
    return found


def _guidance(record_id: str, thing: str, done: str, transaction: Transaction) -> Found:
    """Let guidance stand on the command that did away with a thing it names."""
    transaction.depend(record_id, [done], found=True, changed=True)
    return "guidance", (record_id,), IS_GONE.format(record_id, thing, done)


def _dependents(ground_id: str, record_ids: Sequence[str], transaction: Transaction) -> Found:
    """Group the dependents of a changed ground, behind what holds in its place."""
    ground = transaction.get(ground_id)
    newer = successors(ground, transaction) if ground else []
    holding = [each for each in (ground_id, *newer) if (record := transaction.get(each)) and record.holds]
    return "dependents", tuple(dict.fromkeys([*holding[:1], *record_ids])), STILL_RIGHT.format(ground_id)

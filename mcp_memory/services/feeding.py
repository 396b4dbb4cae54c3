"""Feeding: what a client says of its conversation becomes the log of a session, each thing once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from mcp_memory.domain.records import NewRecord
from mcp_memory.domain.retelling import Line, new_places
from mcp_memory.domain.scopes import Caller
from mcp_memory.domain.session_log import role_of
from mcp_memory.domain.text import content_hash
from mcp_memory.ports import Clock, RecordStore, SessionLogStore
from mcp_memory.services.drafting import Draft, Drafting, record_of

BATCH = 100
"""Entries of one transaction: others wait for the write lock meanwhile."""
TOLD_AT_ONCE = 20_000
"""Entries of a long transcript that are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """How many entries were new, and how many the log held already; secrets cut out of the new ones."""

    stored: int = 0
    known: int = 0
    redacted: int = 0

    def __add__(self, other: Fed) -> Fed:
        return Fed(
            stored=self.stored + other.stored,
            known=self.known + other.known,
            redacted=self.redacted + other.redacted,
        )


class Feeding:
    """Stores messages, calls and results as they were said. Thread-safe.

    They are embedded later: a conversation comes in one piece, and is found by its words at once.
    """

    def __init__(
        self,
        records: RecordStore,
        logs: SessionLogStore,
        drafting: Drafting,
        clock: Clock,
        pause: Callable[[], None],
    ) -> None:
        """`pause` is called now and then, as feeding a long conversation takes a while."""
        self._records = records
        self._logs = logs
        self._drafting = drafting
        self._clock = clock
        self._pause = pause

    def __call__(self, told: Iterable[NewRecord], caller: Caller) -> Fed:
        """Add what is new of a conversation to the log of the caller's session, in its order.

        Interrupted, what was stored so far stays, and telling it again goes on there.

        Raises:
            InvalidRequest: an entry is empty.
            StoreUnavailable: the message names the remedy.
        """
        entries, fed = iter(told), Fed()
        while some := list(islice(entries, TOLD_AT_ONCE)):
            fed += self._feed(some, caller)
        return fed

    def _feed(self, told: Sequence[NewRecord], caller: Caller) -> Fed:
        drafts = [self._clean(item, caller) for item in told]
        new = [drafts[place] for place in self._new(drafts, caller)]
        for begin in range(0, len(new), BATCH):
            self._store(new[begin : begin + BATCH], caller)
        return Fed(stored=len(new), known=len(drafts) - len(new), redacted=sum(draft.redacted for draft in new))

    def _clean(self, item: NewRecord, caller: Caller) -> Draft:
        self._pause()
        return self._drafting.clean(item, caller)

    def _new(self, drafts: Sequence[Draft], caller: Caller) -> list[int]:
        said = [
            Line(content=(each.kind, each.role, each.content_hash, each.call_id), id=each.message_id)
            for each in self._logs.said(caller)
        ]
        live = [
            (entry.kind, entry.role, content_hash(entry.text), entry.call_id)
            for entry in self._logs.log(caller).entries
        ] if said else []  # fmt: skip
        return new_places([_line(draft.item) for draft in drafts], said, live)

    def _store(self, drafts: Sequence[Draft], caller: Caller) -> None:
        made = self._drafting.make([draft.item for draft in drafts], embedded=False)
        with self._records.write() as transaction:
            now = self._clock()
            for draft, one in zip(drafts, made, strict=True):
                record = record_of(draft, one.text, caller, now, transaction)
                transaction.insert(record, None, draft.item.entities, draft.item.relations)


def _line(item: NewRecord) -> Line:
    message_id = item.details.get("message_id")
    content = (item.kind, role_of(item.kind, item.role), content_hash(item.text), item.call_id)
    return Line(content=content, id=message_id if isinstance(message_id, str) else None)

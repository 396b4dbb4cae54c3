"""Learn: says which of many records are new, and stores them in one write that an undo takes back as a whole.

What the memory knows, or knew and gave up, is not proposed again: a second run over the same source has nothing new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.prepare_record import RecordDraft, RecordPreparer, unerased
from mcp_memory.services.memory.remember import Remember

LEARNED: Final = "learned"
"""The tag of all records that were learned."""
_REASON: Final = "learned"

LeftOut = Literal["known", "forgotten", "refused"]
"""A text may be known here, now or until it was corrected; forgotten here; or private, empty or erased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """New records as they would be stored, in their order, and how many others were left out for which reason."""

    drafts: tuple[RecordDraft, ...]
    left_out: Counter[LeftOut]

    @property
    def items(self) -> tuple[NewRecord, ...]:
        """The records, without secrets and private passages."""
        return tuple(draft.item for draft in self.drafts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The ids of the records that were stored, and the number of their write for an undo; 0 where there are none."""

    ids: tuple[str, ...]
    change: int


class Learn:
    """Thread-safe."""

    def __init__(self, records: RecordStore, drafting: RecordPreparer, remember: Remember) -> None:
        self._records = records
        self._drafting = drafting
        self._remember = remember

    def propose(self, items: Sequence[NewRecord], caller: Caller, *, again: bool = False) -> Proposal:
        """Return what of these is new, without secrets and private passages; with `again` also what was forgotten."""
        left_out = Counter[LeftOut]()
        drafts = [draft for item in items if (draft := self._cleaned(item, caller, left_out))]
        new: dict[str, RecordDraft] = {}
        with self._records.write(caller) as transaction:
            for draft in drafts:
                digest = content_hash(draft.item.text)
                reason = "known" if digest in new else _reason(draft, caller, transaction)
                if reason and not (again and reason == "forgotten"):
                    left_out[reason] += 1
                else:
                    # The undo of a forgotten text is nothing that it has to see first.
                    new[digest] = replace(draft, item=replace(draft.item, reassert=bool(reason)))
        return Proposal(drafts=tuple(new.values()), left_out=left_out)

    def __call__(self, items: Sequence[NewRecord], caller: Caller, *, again: bool = False) -> Learned:
        """Store what of these is new; see `propose` and `store`. At most 500 items."""
        return self.store(self.propose(items, caller, again=again), caller)

    def store(self, proposal: Proposal, caller: Caller) -> Learned:
        """Store what is proposed to this caller, all or none, and not embedded yet.

        Raises:
            Conflict: somebody forgot a record with one of these texts, since they were proposed.
            StoreUnavailable: nothing was stored; the message names the remedy.
        """
        if not proposal.drafts:
            return Learned(ids=(), change=0)
        outcomes = self._remember(proposal.drafts, caller, advise=False, embed=False, undoable=_REASON)
        stored = [one for one in outcomes if one.status == "stored"]
        return Learned(ids=tuple(one.id for one in stored), change=stored[0].change if stored else 0)

    def _cleaned(self, item: NewRecord, caller: Caller, left_out: Counter[LeftOut]) -> RecordDraft | None:
        try:
            draft = self._drafting.clean(item, caller)
        except InvalidRequest:
            draft = None
        if draft is None or not draft.item.text:
            left_out["refused"] += 1
            return None
        return draft


def _reason(draft: RecordDraft, caller: Caller, transaction: Transaction) -> LeftOut | None:
    """Say why a text is not proposed; None where it is new."""
    text, scopes = draft.item.text, dict.fromkeys((draft.scope, *caller.scopes))
    if unerased(draft, transaction.erased(scopes), caller) is not draft:
        return "refused"
    if known := transaction.find_text(draft.scope, content_hash(text)):
        return "forgotten" if known.status == "retired" else "known"
    if any(transaction.find_corrected(scope, normal_hash(text)) for scope in scopes):
        return "known"
    return None

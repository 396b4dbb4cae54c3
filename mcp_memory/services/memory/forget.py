"""Forget: retires (reversible), restores, or erases without a trace."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mcp_memory.domain.model.lifecycle import moved_to, restored
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.requests import ForgetMode
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import NotFound, StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.shown import ShownTexts
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.erase import Reach, Traces, erase, left_of, reach_of
from mcp_memory.services.memory.unseen_changes import refuse_unseen
from mcp_memory.services.tasks.branch_visibility import require_own


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Ids that were retired, erased or restored, and those that do not exist here.

    `extracted` are records erased together with those they were made from: extractions, summaries, checkpoints, and
    copies. `cut` are records and tasks that only quoted them, and lost the sentences; `left` still have a rare word of
    them, or words that many say. `purged` is True once the bytes are gone from the files too; until then other
    processes keep the files in use, and `Forget.finish` tries again. `copies` are the names of copies beside the
    memory, from before a migration or a restore, that were deleted since they held an erased record. `unmoved` are
    those of `done` that were so already. `change` numbers the write, for an undo; 0 where there is none.
    """

    done: tuple[str, ...]
    not_found: tuple[str, ...]
    extracted: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    purged: bool = True
    copies: tuple[str, ...] = ()
    unmoved: tuple[str, ...] = field(default=(), compare=False)
    change: int = field(default=0, compare=False)

    @property
    def copies_told(self) -> str:
        """A sentence on the deleted copies; empty without any."""
        names = ", ".join(self.copies)
        return f"Copies beside the memory that held it were deleted with it: {names}." if names else ""


class Forget:
    """Takes records out of memory. Thread-safe."""

    def __init__(
        self,
        records: RecordStore,
        erase_derived: Callable[[Collection[str]], None],
        shown_texts: ShownTexts,
        counter: TokenCounter,
        clock: Clock,
    ) -> None:
        self._records = records
        self._counter = counter
        self._shown_texts = shown_texts
        self._erase_derived = erase_derived
        self._clock = clock

    def __call__(
        self, record_ids: Sequence[str], mode: ForgetMode, caller: Caller, version: int | None = None
    ) -> Forgotten:
        """Retire, erase or restore, all in one atomic write. `version` is the newest that the caller saw of them.

        Erasing a record also erases what was made from it, `erase.py` says what, and takes quotations of it out of
        others; the entries that erased summaries replaced, if not erased, are live again in the session's log. Marks
        remain, by which the text is recognised when it comes again. It
        purges the text from the store's files, and the vectors from every index, as far as other processes allow;
        earlier backups keep both, unless they lie beside the store as copies that a migration or `restore` kept.

        Raises:
            Conflict: a record belongs to a namespace that is only read here, or somebody changed it since the caller
                saw it.
            StoreUnavailable: nothing was changed.
        """
        wanted = tuple(dict.fromkeys(record_ids))
        with self._records.write(caller, alone=mode == "erase") as transaction:
            transaction.ahead(transaction.open_branches, *(partial(transaction.get, each) for each in wanted))
            found = [record for i in wanted if (record := _own(i, caller, transaction))]
            refuse_unseen(
                [record for record in found if _is_due(record, mode)], version, caller, self._shown_texts, transaction
            )
            done = tuple(record.id for record in found)
            unmoved = tuple(record.id for record in found if not _is_due(record, mode))
            traces = Traces(made=(), cut=())
            if mode == "erase":
                traces = erase(found, caller, self._clock(), self._counter, transaction)
            else:
                for record in found:
                    self._move(record, mode, transaction)
            change = 0 if mode == "erase" else transaction.undoable
        is_erased = mode == "erase" and bool(found)
        copies = self._purge((*done, *traces.made)) if mode == "erase" else ()
        return Forgotten(
            done=done,
            not_found=tuple(i for i in wanted if i not in done),
            extracted=traces.made,
            cut=traces.cut,
            left=_few(left_of(found, self._records, caller), traces.left) if is_erased else (),
            purged=copies is not None,
            copies=tuple(copies or ()),
            unmoved=unmoved,
            change=change,
        )

    def reach(self, record_ids: Sequence[str], caller: Caller) -> Reach:
        """Return what would be erased with these records as things are; ids that do not exist here count for nothing.

        It changes nothing, and is read inside a write, since an erasure reads there what it takes along.

        Raises:
            Conflict: a record belongs to a namespace that is only read here.
            StoreUnavailable: nothing could be read.
        """
        with self._records.write(caller) as transaction:
            found = [record for i in dict.fromkeys(record_ids) if (record := _own(i, caller, transaction))]
            return reach_of(found, caller, self._clock(), self._counter, transaction)

    def withdraw(self, record_id: str, caller: Caller, *, erases: bool) -> bool:
        """Erase, or retire, what the caller's session has stored; return False where others have used it since.

        They have where somebody changed it or had it replace another record: it stays as it is.
        """
        with self._records.write(caller, alone=erases) as transaction:
            record = _own(record_id, caller, transaction)
            is_used = transaction.versions([record_id]) or transaction.replaced_by(record_id)
            if record is None or record.session_id != caller.session_id or is_used:
                return False
            if erases:  # Its agent takes back what it just stored, and may store it again.
                transaction.erase((record_id,))
            else:
                self._move(record, "retire", transaction)
        if erases:
            self._purge((record_id,))
        return True

    def finish(self) -> bool:
        """Purge text that an earlier erasure left in the files; return False where nothing is pending.

        Raises StoreUnavailable where other processes still keep the files in use: try again later.
        """
        if not self._records.is_purge_pending():
            return False
        self._erase_derived(())
        self._records.purge(patiently=False)
        return True

    def _purge(self, erased: Sequence[str]) -> Sequence[str] | None:
        """Leave erased text in no file, including what an earlier call or a killed process left.

        Return the copies that were deleted; None where other processes keep the files in use.
        """
        try:
            self._erase_derived(erased)
            return self._records.purge()
        except StoreUnavailable:  # The erasure itself succeeded: report no error.
            return None

    def _move(self, record: Record, mode: ForgetMode, transaction: Transaction) -> None:
        now = self._clock()
        if not _is_due(record, mode):
            return
        if mode == "retire":
            transaction.update(replace(moved_to(record, "retired"), updated_at=now))
        else:
            back = moved_to(record, "superseded") if record.superseded_by else restored(record)
            transaction.update(replace(back, updated_at=now))


def _is_due(record: Record, mode: ForgetMode) -> bool:
    """Return True where the record is not yet as the mode leaves it."""
    return mode == "erase" or (record.status != "retired" if mode == "retire" else not record.is_live)


def _few(rare: Sequence[str], common: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*rare, *common)))


def _own(record_id: str, caller: Caller, transaction: Transaction) -> Record | None:
    try:
        return require_own(record_id, caller, transaction)
    except NotFound:
        return None

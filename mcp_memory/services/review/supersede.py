"""Succession: replaces one record by another, with its permissions and limits, and says what was replaced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mcp_memory.domain.model.lifecycle import after_succession, refuse_hidden_successor, restored
from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.text.times import iso_day
from mcp_memory.errors import Conflict
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.tasks.branch_visibility import require_own


def supersede(old_ids: Sequence[str], newer: Record, caller: Caller, now: Instant, transaction: Transaction) -> None:
    """Replace the old records by the newer one.

    Raises:
        NotFound: an old record does not exist here.
        Conflict: it is only read here, some who see it would not see the newer one, or it replaced that one itself.
    """
    for old_id in old_ids:
        if old_id != newer.id:
            old = require_own(old_id, caller, transaction)
            refuse_hidden_successor(old, newer)
            if old_id in successors(newer, transaction):
                raise Conflict(f"Record {newer.id} is itself superseded by {old_id}; set its status back first.")
            transaction.update(after_succession(old, newer.id, now))


def reinstate(wrong_id: str, now: Instant, transaction: Transaction) -> None:
    """Revalidate the records that a disproved record had replaced, unless they were taken out of search separately."""
    for old in transaction.replaced_by(wrong_id):
        if old.status == "superseded":
            transaction.update(replace(restored(old), updated_at=now))


def earlier_values(shown: Iterable[Record], where: RecordFilter, records: RecordReader) -> Mapping[str, str]:
    """Say of each record that replaced another what that one said otherwise: "before r000017, 2026-11-03: 30 days"."""
    newer = {record.id: record for record in shown}
    replaced = records.predecessors(newer, where)
    if not replaced:
        return {}
    from mcp_memory.domain.text.micro_and_summary import earlier_value  # Slow to load, and few were replaced.

    said = {each: earlier_value(newer[each].text, old.text) for each, old in replaced.items()}
    return {
        each: f"before {replaced[each].id}, {iso_day(replaced[each].occurred_at)}: {value}"
        for each, value in said.items()
        if value
    }


def successors(record: Record, transaction: Transaction) -> list[str]:
    """Return the record's successor, its successor, and so on to the valid one."""
    chain: list[str] = []
    following = record.superseded_by
    while following and following not in chain:
        chain.append(following)
        newer = transaction.get(following)
        following = newer.superseded_by if newer else None
    return chain

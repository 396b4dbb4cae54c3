"""Keeps reports of assembled contexts, and counts contexts and their quality."""

import sqlite3

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.health import Assembled
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.stores.records.rows import report_from_json, report_to_json
from mcp_memory.stores.records.statements import statement

CONTEXTS_KEPT_SECONDS = 14 * 86_400


def keep(connection: sqlite3.Connection, report: ContextReport, caller: Caller, at: Instant, *, anew: bool) -> None:
    """See `RecordStore.keep_context`. Reports past their age limit are deleted."""
    row = {"namespace": caller.namespace, "agent": caller.agent, "id": report.id, "at": at}
    row |= {"report": report_to_json(report)}
    if anew:
        connection.execute(statement("put_context"), row)
    connection.execute(statement("add_assembly"), row)
    for name in ("prune_contexts", "prune_assemblies"):
        connection.execute(statement(name), (at - CONTEXTS_KEPT_SECONDS,))


def report_of(connection: sqlite3.Connection, context_id: str, caller: Caller) -> ContextReport | None:
    """See `RecordStore.context`."""
    row = connection.execute(statement("get_context"), (caller.namespace, caller.agent, context_id)).fetchone()
    return report_from_json(row["report"]) if row else None


def assembled(connection: sqlite3.Connection, caller: Caller, since: Instant) -> Assembled:
    """See `RecordStore.assembled`."""
    whose = {"namespace": caller.namespace, "agent": caller.agent, "since": since}
    figures = connection.execute(statement("assembly_figures"), whose).fetchone()
    return Assembled(
        **dict(figures),
        cold_build_ms=connection.execute(statement("median_cold_build"), whose).fetchone()[0],
        strategies=dict(connection.execute(statement("count_strategies"), whose).fetchall()),
        picked=dict(connection.execute(statement("count_picked"), whose).fetchall()),
    )

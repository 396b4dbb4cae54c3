"""Refuses writes inside their transaction: of a renamed project, beyond a quota, and of calls that are done.

A call is noted in the transaction of its first effect. It may write more than once: its later writes belong to it.
"""

import json
from collections.abc import Sequence
from typing import Final

from mcp_memory.domain.model.quotas import Quota
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller, RepeatableCall
from mcp_memory.errors import CallDone, InvalidRequest, StoreBusy
from mcp_memory.stores.records.database import Connection
from mcp_memory.stores.records.projects import holds_anything

CALLS_KEPT_SECONDS: Final = 86_400.0


def note_call(connection: Connection, call: RepeatableCall, made: Sequence[str], at: Instant) -> None:
    """Note a call with its first write, which made records and tasks of these ids.

    Raises:
        CallDone: it was done before.
        InvalidRequest: another request had its key.
    """
    if call.is_noted:
        return
    row = {"key": call.key, "digest": call.digest, "made": json.dumps(made), "at": at}
    if not connection.run("note_call", row).rowcount:
        refuse_done(connection, call)
    connection.run("forget_calls", (at - CALLS_KEPT_SECONDS,))


def refuse_done(connection: Connection, call: RepeatableCall) -> None:
    """Raise CallDone where a call was done before, and InvalidRequest where another request had its key."""
    row = connection.run("call_done", (call.key,)).fetchone()
    if row is None:
        return
    if row["digest"] != call.digest:
        raise InvalidRequest("Another request had this request's id; give each request of a session an id of its own.")
    raise CallDone(json.loads(row["made"]))


def refuse_beyond_quota(connection: Connection, grown: Sequence[tuple[str, int, int]]) -> None:
    """Raise QuotaReached where a partition that a write lets grow, by records and bytes, holds more than it may."""
    for partition, records, size in grown:
        if row := connection.run("quota_of", (partition,)).fetchone():
            holds = connection.run("size_of_partition", (partition,)).fetchone()
            Quota(**dict(row)).refuse_more(records, size, holds["records"] - records, holds["bytes"] - size)


def refuse_renamed(connection: Connection, caller: Caller | None) -> None:
    """Raise StoreBusy where the caller's namespace got another name since the caller was made: nobody would find it.

    A name that another folder's project took over is in use again once that holds something.
    """
    name = caller.namespace if caller else ""
    former = connection.run("former_namespace", (name,)).fetchone() if caller else None
    if (
        caller
        and former
        and former["at"] != caller.renamed_at
        and not (former["mark"] and holds_anything(connection, name))
    ):
        raise StoreBusy(f"The project {name!r} is called {former['namespace']!r} by now; call again.")

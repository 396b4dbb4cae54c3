"""Refuses writes inside their transaction: of a renamed project, beyond a quota, and of calls that are done.

A call is noted in the transaction of its first effect. It may write more than once: its later writes belong to it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mcp_memory.domain.model.quotas import Quota
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller, RepeatableCall, partition_of
from mcp_memory.errors import CallDone, InvalidRequest, StoreBusy
from mcp_memory.stores.records.database import Connection, Query, Write
from mcp_memory.stores.records.projects import holds_anything

CALLS_KEPT_SECONDS: Final = 86_400.0


class WriteChecks:
    """Checks a caller's write at its begin and at its end; upkeep, which is nobody's, passes."""

    def __init__(self, caller: Caller | None) -> None:
        self._caller = caller
        self._call = caller.call if caller and caller.call and not caller.call.is_noted else None
        self._partitions = {partition_of(caller.scope(each)) for each in ("shared", "user")} if caller else set[str]()
        self._quotas: Mapping[str, Quota] = {}

    def queries(self) -> Sequence[Query]:
        """Return what `before` asks."""
        if self._caller is None:
            return ()
        asked = [_former(self._caller), _quotas(self._partitions)]
        return [*asked, _done(self._call)] if self._call else asked

    def before(self, connection: Connection) -> None:
        """Check what holds to the end of the write. Raises StoreBusy, CallDone, InvalidRequest."""
        refuse_renamed(connection, self._caller)
        if self._caller:
            self._quotas = _limits(connection, self._partitions)
        if self._call:
            refuse_done(connection, self._call)

    def after(self, connection: Write, grown: Sequence[tuple[str, int, int]], made: Iterable[str], at: Instant) -> None:
        """Note the call with its first write, which made records and tasks of these ids.

        Raises QuotaReached where a partition that the write lets grow, by records and bytes, holds more than it may.
        """
        others = {partition for partition, _, _ in grown} - self._partitions
        quotas = {**self._quotas, **_limits(connection, others)} if self._caller and others else self._quotas
        for partition, records, size in grown:
            if quota := quotas.get(partition):
                holds = connection.run("size_of_partition", (partition,)).fetchone()
                quota.refuse_more(records, size, holds["records"] - records, holds["bytes"] - size)
        if self._call:
            row = {"key": self._call.key, "digest": self._call.digest, "made": json.dumps([*made]), "at": at}
            connection.defer("note_call", row)
            connection.defer("forget_calls", (at - CALLS_KEPT_SECONDS,))


def refuse_done(connection: Connection, call: RepeatableCall) -> None:
    """Raise CallDone where a call was done before, and InvalidRequest where another request had its key."""
    row = connection.run(*_done(call)).fetchone()
    if row is None:
        return
    if row["digest"] != call.digest:
        raise InvalidRequest("Another request had this request's id; give each request of a session an id of its own.")
    raise CallDone(json.loads(row["made"]))


def refuse_renamed(connection: Connection, caller: Caller | None) -> None:
    """Raise StoreBusy where the caller's namespace got another name since the caller was made: nobody would find it.

    A name that another folder's project took over is in use again once that holds something.
    """
    name = caller.namespace if caller else ""
    former = connection.run(*_former(caller)).fetchone() if caller else None
    if (
        caller
        and former
        and former["at"] != caller.renamed_at
        and not (former["mark"] and holds_anything(connection, name))
    ):
        raise StoreBusy(f"The project {name!r} is called {former['namespace']!r} by now; call again.")


def _former(caller: Caller) -> Query:
    return "former_namespace", (caller.namespace,)


def _done(call: RepeatableCall) -> Query:
    return "call_done", (call.key,)


def _quotas(partitions: Collection[str]) -> Query:
    return "quotas_of", (json.dumps(sorted(partitions)),)


def _limits(connection: Connection, partitions: Collection[str]) -> Mapping[str, Quota]:
    return {row["partition"]: Quota(**dict(row)) for row in connection.run(*_quotas(partitions))}

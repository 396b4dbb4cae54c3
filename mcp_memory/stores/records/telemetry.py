"""Keeps accesses and reports of contexts, and counts them: implements `Telemetry`."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.stores.records.database import NO_PARTITION, Database
from mcp_memory.stores.records.rows import report_from_json, report_to_json
from mcp_memory.stores.records.write_checks import refuse_renamed

if TYPE_CHECKING:
    from mcp_memory.domain.model.health_figures import Assembled, Tally

CONTEXT_PATIENCE_SECONDS = 2.0
"""Seconds to keep a report: it is worth a short wait, never a late context."""
LATEST_CONTEXTS = 1_000
"""Reports that are searched for a record's id, each of some kilobytes."""
CONTEXTS_KEPT_SECONDS = 14 * 86_400
_log = logging.getLogger(__name__)


class SqlTelemetry:
    """Implements `Telemetry` on the database of a record store; the port documents each method."""

    _database: Database

    def __init__(self) -> None:
        self._untold: dict[str, Instant] = {}
        self._untold_lock = threading.Lock()

    def touch(self, record_ids: Collection[str], at: Instant) -> None:
        """Try once without waiting; accesses that could not be noted now are noted with the next touch."""
        with self._untold_lock:
            self._untold.update(dict.fromkeys(record_ids, at))
            untold, self._untold = self._untold, {}
        by_time: dict[Instant, list[str]] = {}
        for record_id, instant in untold.items():
            by_time.setdefault(instant, []).append(record_id)

        def failed(error: StoreUnavailable) -> None:
            if isinstance(error, StoreBusy):
                with self._untold_lock:
                    self._untold = {**untold, **self._untold}
            else:
                _log.warning("could not note %d accesses: %s", len(untold), type(error).__name__)

        rows = [{"ids": json.dumps(ids), "at": at} for at, ids in by_time.items()]
        self._database.note("touch", rows, failed)

    def together(self) -> AbstractContextManager[None]:
        return self._database.together()

    def keep_context(self, report: ContextReport, caller: Caller, at: Instant, *, anew: bool = True) -> None:
        """Delete reports past their age limit too."""
        row = {"namespace": caller.namespace, "agent": caller.agent, "id": report.id, "at": at}
        # What was erased since the block was read must not come back with it.
        row |= {"report": report_to_json(replace(report, block=())), "with_block": report_to_json(report)}
        ids = sorted({each.id for each in report.components})
        row |= {"ids": json.dumps(ids), "revision": report.metadata.get("revision") or 0}
        try:
            with self._database.write(CONTEXT_PATIENCE_SECONDS, durable=False, partition=NO_PARTITION) as connection:
                refuse_renamed(connection, caller)
                for name in ("put_context", "add_assembly") if anew else ("add_assembly",):
                    connection.run(name, row)
                for name in ("prune_contexts", "prune_assemblies"):
                    connection.run(name, (at - CONTEXTS_KEPT_SECONDS,))
        except StoreUnavailable as error:
            _log.warning("could not keep context %s: %s", report.id, type(error).__name__)

    def context(self, context_id: str, caller: Caller, *, of_all: bool = False) -> ContextReport | None:
        whose = {"namespace": caller.namespace, "agent": caller.agent, "of_all": of_all}
        rows = self._database.rows("get_context", {**whose, "id": context_id})
        return report_from_json(rows[0]["report"]) if rows else None

    def contexts(
        self, caller: Caller, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> Sequence[tuple[Instant, ContextReport]]:
        at, context_id = before or (inf, "")
        whose = {"namespace": caller.namespace, "agent": caller.agent, "of_all": of_all}
        asked = {**whose, "at": at, "id": context_id, "limit": limit}
        rows = self._database.rows("list_contexts", asked)
        return [(row["created_at"], report_from_json(row["report"])) for row in rows]

    def contexts_naming(
        self, record_id: str, caller: Caller, limit: int, *, of_all: bool = False
    ) -> Sequence[tuple[Instant, ContextReport]]:
        whose = {"namespace": caller.namespace, "agent": caller.agent, "of_all": of_all}
        asked = {**whose, "naming": f'"id": "{record_id}"', "most": LATEST_CONTEXTS, "limit": limit}
        rows = self._database.rows("contexts_naming", asked)
        return [(row["created_at"], report_from_json(row["report"])) for row in rows]

    def assembled(self, caller: Caller, since: Instant, *, of_all: bool = False) -> Assembled:
        from mcp_memory.domain.model.health_figures import (
            Assembled,  # With `statistics`: for a look at the memory's health.
        )

        whose = {"namespace": caller.namespace, "agent": caller.agent, "of_all": of_all, "since": since}
        with self._database.read() as connection:
            figures, median, strategies, picked = (
                connection.run(name, whose).fetchall()
                for name in ("assembly_figures", "median_cold_build", "count_strategies", "count_picked")
            )
        return Assembled(
            **dict(figures[0]), cold_build_ms=median[0][0], strategies=dict(strategies), picked=dict(picked)
        )

    def stored_by_period(self, where: RecordFilter, since: Instant, seconds: float) -> Mapping[int, int]:
        rows = self._database.matching("stored_by_period", where, stored_since=since, seconds=seconds)
        return {row[0]: row[1] for row in rows}

    def gauges(self) -> Mapping[str, float]:
        return self._database.gauges()

    def tally(self, where: RecordFilter, since: Instant) -> Tally:
        from mcp_memory.domain.model.health_figures import Tally

        return Tally(**dict(self._database.matching("tally", where, stored_since=since)[0]))

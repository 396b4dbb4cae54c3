"""Leases as rows of the database that servers share: implements `Jobs` and `Leases`.

Each call is one statement in a transaction of its own. No lock is held by a connection, which a pooler may hand on.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from mcp_memory.stores.records.database_postgres import PostgresDatabase

JOB_SECONDS = 300.0
"""A step may ask a model. A server that is killed keeps the job for so long."""
_log = logging.getLogger(__name__)


class SqlLeases:
    """Implements `Jobs` and `Leases`; the ports document each method. One holder for each of these objects."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._holder = secrets.token_hex(8)
        self._known: set[str] = set()

    def once(self, name: str, rest_seconds: float, step: Callable[[], bool]) -> bool | None:
        job = f"job/{name}"
        if job not in self._known:
            self._run("add_job", job)
            self._known.add(job)
        if not self._run("take_job", job, seconds=JOB_SECONDS):
            return None if self._run("is_job_held", job) else False
        is_left = False
        try:
            is_left = step()
        finally:
            with suppress(StoreUnavailable):  # Then it rests until its lease is over.
                self._run("end_lease", job, seconds=0.0 if is_left else rest_seconds)
        return is_left

    def take(self, name: str, seconds: float) -> int | None:
        rows = self._run("take_lease", name, seconds=seconds)
        return rows[0]["applied"] if rows else None

    def renew(
        self, name: str, seconds: float, before: int, applied: int, reached: Mapping[str, int] | None = None
    ) -> bool:
        told = None if reached is None else json.dumps(dict(reached))
        return bool(self._run("renew_lease", name, seconds=seconds, before=before, applied=applied, reached=told))

    def end(self, name: str) -> None:
        self._run("end_lease", name, seconds=0.0)

    def doubt(self, name: str) -> None:
        _log.warning("The lease of %s was lost amid work.", name)
        self._run("doubt_lease", name)

    def held(self, name: str) -> tuple[int, Mapping[str, int]] | None:
        rows = self._run("held_lease", name)
        return (rows[0]["applied"], json.loads(rows[0]["reached"])) if rows else None

    def _run(self, statement: str, name: str, **given: float | str | None) -> list[Any]:
        parameters: Mapping[str, Any] = {"name": name, "holder": self._holder, **given}
        return self._database.alone(statement, parameters)

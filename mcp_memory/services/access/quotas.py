"""Quotas of projects and persons: sets them, and counts the calls to a project. Knows no protocol."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_memory.domain.model.quotas import NAMESPACE, Quota
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import partition_of, scope_key
from mcp_memory.errors import InvalidRequest, QuotaReached
from mcp_memory.ports.access import QuotaStore, Usage
from mcp_memory.ports.text import Clock

MINUTE_SECONDS = 60.0
KNOWN_SECONDS = 10.0
"""A change of a quota counts for calls after so long, in every server."""


class Quotas:
    """Manages quotas. Thread-safe. Calls are counted by this process alone."""

    def __init__(self, store: QuotaStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Mapping[str, int] = {}
        self._read_at: Instant | None = None
        self._called: dict[str, deque[Instant]] = {}

    def all(self) -> Sequence[tuple[Quota, Usage]]:
        """Return every quota by its partition's name, and what that holds. Raises StoreUnavailable."""
        return [(quota, self._store.used(quota.partition)) for quota in self._store.quotas()]

    def limit(self, name: str, given: Mapping[str, int], *, is_person: bool = False, drops: bool = False) -> None:
        """Set limits of a project or a person, by the names of a quota's fields; other limits stay, or are dropped.

        Raises as `put` does.
        """
        scope = scope_key("user", "", "", name) if is_person else scope_key("shared", name, "")
        none = Quota(partition=partition_of(scope))
        held = none if drops else {each.partition: each for each in self._store.quotas()}.get(none.partition, none)
        limits: Mapping[str, Any] = given
        self.put(replace(held, **limits))

    def put(self, quota: Quota) -> None:
        """Set a quota; one without limits is dropped. It destroys nothing that is stored already.

        Raises:
            InvalidRequest: a limit is negative, or one of calls is not a namespace's.
            StoreUnavailable: it cannot be stored.
        """
        if any(most is not None and most < 0 for most in (quota.records, quota.bytes, quota.calls)):
            raise InvalidRequest("A limit is 0 or more; leave it out for none.")
        if quota.calls is not None and not quota.partition.startswith(NAMESPACE):
            raise InvalidRequest("Calls are counted by project; leave the limit of calls out for a person.")
        self._store.put(quota)
        with self._lock:
            self._read_at = None

    def count_call(self, namespace: str) -> None:
        """Count a call to a namespace. Raises QuotaReached, with the seconds to wait, and StoreUnavailable."""
        now = self._clock()
        with self._lock:
            is_known = self._read_at is not None and 0 <= now - self._read_at < KNOWN_SECONDS
        known = self._known if is_known else self._read(now)
        most = known.get(f"{NAMESPACE}{namespace}")
        if most is None:
            return
        with self._lock:
            called = self._called.setdefault(namespace, deque())
            while called and called[0] <= now - MINUTE_SECONDS:
                called.popleft()
            if len(called) >= most:
                wait = called[0] + MINUTE_SECONDS - now if called else MINUTE_SECONDS
                raise QuotaReached(
                    f"The project {namespace!r} made {len(called):,} calls in a minute, of at most {most:,}; call again"
                    f" in {max(wait, 1):.0f} seconds, or ask the person who runs the memory"
                    " for more (`mcp-memory projects quota`)."
                )
            called.append(now)

    def _read(self, now: Instant) -> Mapping[str, int]:
        """Read the limits of calls; what was counted for a namespace without one is forgotten."""
        known = {each.partition: each.calls for each in self._store.quotas() if each.calls is not None}
        with self._lock:
            self._known, self._read_at = known, now
            self._called = {name: told for name, told in self._called.items() if f"{NAMESPACE}{name}" in known}
        return known

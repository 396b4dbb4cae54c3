"""An index on a Chroma server that several servers of a memory share: one writes it, by a lease; the others ask it."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_memory.ports.leases import Leases
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.index_folder import Stamp
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace, IndexStatus
from mcp_memory.stores.vectors.chroma.worker_client import Link

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector

LEASE_SECONDS = 60.0
"""Twice as long as a change may take: one that begins within the lease has ended, or was given up, before it ends."""


class IndexLease:
    """The lease of one index, for the life of a server. Thread-safe.

    Its number is the change up to which the index holds everything. It is negative amid a change, and 0 while nothing
    is certain: before the first filling, and while it is emptied.
    """

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._name = ""
        self._noted = 0
        self._renewed_at = 0.0
        self._lock = threading.Lock()
        self.is_ours = False
        self.is_doubtful = False
        """True where another holder was killed amid a change: keys that look right may answer wrongly then."""

    def take(self, place: IndexPlace) -> None:
        """Take the lease, unless another server has it."""
        self._name = f"chroma/{Stamp.of(place).server}"
        with self._lock:
            was_ours, noted = self.is_ours, self._leases.take(self._name, LEASE_SECONDS)
            self.is_ours = noted is not None
            self.is_doubtful = noted is not None and noted <= 0 and not was_ours
            self._noted, self._renewed_at = noted or 0, time.monotonic()

    def begin(self) -> None:
        """Prepare for a change. Raises IndexFailure where the lease is another's by now."""
        self.note(-abs(self._noted))

    def note(self, applied: int, reached: Mapping[str, int] | None = None) -> None:
        """Go on with the lease. Raises IndexFailure where it is another's, or somebody doubted what it holds.

        Who loses it amid changes may have been held up for so long that one came late: its holder compares all keys.
        """
        with self._lock:
            if not self._leases.renew(self._name, LEASE_SECONDS, before=self._noted, applied=applied, reached=reached):
                if self._noted <= 0:
                    self._leases.doubt(self._name)
                raise IndexFailure("Another server of this memory has the index by now.", keep=True)
            self._noted, self._renewed_at = applied, time.monotonic()

    def keep(self) -> None:
        """Go on with the lease in time. Raises as `note` does."""
        if time.monotonic() - self._renewed_at > LEASE_SECONDS / 3:
            self.note(self._noted)

    def end(self) -> None:
        """Let another server take the lease at once."""
        with self._lock:
            if self.is_ours:
                self.is_ours = False
                self._leases.end(self._name)

    def written(self) -> tuple[int, Mapping[str, int]] | None:
        """Return the revision to which its holder has brought the index, and what it holds of each scope.

        None where nobody holds it.
        """
        held = self._leases.held(self._name)
        return None if held is None else (abs(held[0]), held[1])

    def doubt(self) -> None:
        """Make its holder compare all keys."""
        self._leases.doubt(self._name)


class SharedIndex(IndexClient):
    """An opened index that this server writes while it has the lease, and otherwise asks alone."""

    def __init__(self, link: Link, lease: IndexLease) -> None:
        super().__init__(link)
        self._lease = lease
        self._is_doubtful = False

    def open(self, place: IndexPlace, *, fresh: bool, erased: int = 0) -> IndexStatus:
        self._lease.take(place)
        status = super().open(place, fresh=fresh, erased=erased)
        self._is_doubtful = self._lease.is_doubtful and place.mode == "http" and bool(self.names())
        return replace(status, is_doubtful=self._is_doubtful)

    def standing(self) -> IndexStatus:
        return replace(super().standing(), is_doubtful=self._is_doubtful)

    def put(self, name: str, vectors: Mapping[str, Vector]) -> None:
        self._lease.begin()
        super().put(name, vectors)

    def delete(self, name: str, keys: Collection[str]) -> None:
        self._lease.begin()
        super().delete(name, keys)

    def drop(self, names: Collection[str]) -> None:
        self._lease.begin()
        super().drop(names)

    def erase(self, record_ids: Collection[str]) -> None:
        """Delete also without the lease: nobody puts there again what was erased."""
        if self._lease.is_ours:
            self._lease.begin()
        super().erase(record_ids)

    def rest(self, applied: int, touched: Collection[str], reached: Mapping[str, int] | None = None) -> None:
        super().rest(applied, touched, reached)
        self._lease.note(applied, reached)

    def clear(self) -> None:
        self._lease.note(0)
        super().clear()
        self._is_doubtful = False

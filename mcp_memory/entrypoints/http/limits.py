"""Chooses the limits of the HTTP server by the settings and by how many files the process may open."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

import psutil

from mcp_memory.entrypoints.http.connections import Limits
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

USUAL_CONNECTIONS: Final = 512
LEAST_CONNECTIONS: Final = 4
KEPT_FREE: Final = 128
"""Descriptors that connections leave to the store, its index and the models; of few that are left, half."""
DESCRIPTORS_A_CALL: Final = 3
"""What a call may hold at once: a connection to the database is two files, its log among them."""
USUAL_THREADS: Final = 40


def choose_limits(settings: Settings) -> Limits:
    """Choose as many connections as were asked for, and no more than leave the store its files.

    Raises:
        InvalidRequest: the process may open too few files to serve anybody.
    """
    left = _descriptors_left()
    kept_free = min(KEPT_FREE, left // 2)
    wanted = settings.http_connections or USUAL_CONNECTIONS
    connections = min(wanted, left - kept_free)
    if connections < LEAST_CONNECTIONS:
        raise InvalidRequest("The process may open too few files to serve over HTTP; raise its limit with `ulimit -n`.")
    if settings.http_connections and connections < wanted:
        logger.warning("%d connections fit into the limit of open files; raise it with `ulimit -n`.", connections)
    from_one = settings.http_connections_per_address
    return Limits(
        connections=connections,
        from_this_machine=from_one or connections,
        from_elsewhere=from_one or max(connections // 2, 1),
        head_seconds=settings.http_head_seconds,
        transfer_seconds=settings.http_transfer_seconds,
        idle_seconds=settings.http_idle_seconds,
        threads=max(min(USUAL_THREADS, kept_free // DESCRIPTORS_A_CALL), 1),
    )


def _descriptors_left() -> int:
    """How many more files the process may open; more than are ever needed where there is no such limit."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - psutil.Process().num_fds()

"""How full the log of a session is, and what compaction did: what status and a session's page show."""

from __future__ import annotations

import re
from collections import Counter
from math import ceil

from mcp_memory.domain.compaction import Options
from mcp_memory.domain.health import USAGE_DAYS
from mcp_memory.domain.lifecycle import DAY_SECONDS
from mcp_memory.domain.pressure import pressure, warnings
from mcp_memory.domain.records import Instant, Json
from mcp_memory.domain.scopes import Caller
from mcp_memory.ports import PassTally, SessionLogStore

_NUMBER = re.compile(r"\d[\d,.]*")


def log_standing(logs: SessionLogStore, caller: Caller, options: Options, factor: float) -> dict[str, Json]:
    """The caller's log against its window, in the client's tokens, with what to do about it."""
    size = logs.size(caller)
    at = pressure(size.tokens, options)
    count = sum(one.undone_at is None for one in logs.compactions(caller))
    shown: dict[str, Json] = {
        "tokens": ceil(size.tokens * factor),
        "window": round(options.window * factor),
        "share": round(at.share, 3),
        "level": at.level,
        "entries": size.entries,
        "compactions": count,
    }
    said: list[Json] = list(warnings(at, options, count))
    return shown | ({"warnings": said} if said else {})


def pass_tallies(logs: SessionLogStore, caller: Caller, now: Instant, factor: float) -> dict[str, Json]:
    """What each pass did of late in all sessions of the caller's agent, by its name; tokens are the client's."""
    return {tally.name: _shown(tally, factor) for tally in logs.pass_runs(caller, now - USAGE_DAYS * DAY_SECONDS)}


def _shown(tally: PassTally, factor: float) -> Json:
    reasons = Counter[str]()
    for reason, count in tally.skipped.items():
        reasons[_NUMBER.sub("…", reason)] += count
    return {
        "ran": tally.ran,
        "failed": tally.failed,
        "not_needed": dict(reasons),
        "ms": round(tally.milliseconds),
        "saved": ceil(tally.saved * factor),
        "spent": tally.spent,
    }

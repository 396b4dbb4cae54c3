"""Fullness of a session's log, and the results of compaction, for status and a session's page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mcp_memory.domain.model.health_figures import USAGE_DAYS
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import CompactionOptions, PassName
from mcp_memory.domain.model.token_factor import CountedTokens, ModelFactor
from mcp_memory.domain.sessions.pressure import Level, Pressure, pressure, warnings
from mcp_memory.ports.session_logs import PassTally, SessionLogStore

_ANY_NUMBER = re.compile(r"\d[\d,.]*")  # e.g. "12,400": reasons that differ only in numbers count as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Fullness:
    """A log against its window, in tokens as counted, its number of compactions, and advice on both."""

    pressure: Pressure
    entries: int
    compactions: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStanding:
    """A log against its window, in the client's tokens; `share` is the part of the window that it fills."""

    tokens: int
    window: int
    share: float
    level: Level
    entries: int
    compactions: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTotals:
    """A pass: its runs and failures, how often it was not needed, by the reason, and its tokens, the client's."""

    ran: int
    failed: int
    not_needed: Mapping[str, int]
    ms: int
    saved: int
    spent: int


def fullness(logs: SessionLogStore, caller: Caller, options: CompactionOptions) -> Fullness:
    """Measure the caller's log now; undone compactions do not count."""
    size = logs.size(caller)
    at = pressure(size.tokens, options)
    count = sum(one.undone_at is None for one in logs.compactions(caller))
    return Fullness(pressure=at, entries=size.entries, compactions=count, warnings=warnings(at, options, count))


def log_standing(logs: SessionLogStore, caller: Caller, options: CompactionOptions, factor: ModelFactor) -> LogStanding:
    """Return the caller's log against its window, with advice."""
    now = fullness(logs, caller, options)
    return LogStanding(
        tokens=factor.client(CountedTokens(now.pressure.tokens)),
        window=factor.client(CountedTokens(options.window), round),
        share=round(now.pressure.share, 3),
        level=now.pressure.level,
        entries=now.entries,
        compactions=now.compactions,
        warnings=now.warnings,
    )


def pass_totals(
    logs: SessionLogStore, caller: Caller, now: Instant, factor: ModelFactor
) -> Mapping[PassName, PassTotals]:
    """Return each pass's recent totals in all sessions of the caller's agent, by name."""
    return {tally.name: _totals(tally, factor) for tally in logs.pass_runs(caller, now - USAGE_DAYS * DAY_SECONDS)}


def _totals(tally: PassTally, factor: ModelFactor) -> PassTotals:
    reasons = Counter[str]()
    for reason, count in tally.skipped.items():
        reasons[_ANY_NUMBER.sub("…", reason)] += count
    return PassTotals(
        ran=tally.ran,
        failed=tally.failed,
        not_needed=dict(reasons),
        ms=round(tally.milliseconds),
        saved=factor.client(CountedTokens(tally.saved)),
        spent=tally.spent,
    )

"""Runs one pass: plans and commits it, plans again on a conflict, and notes its result.

It does not know which passes run, in which order, or why: `compact.py` does.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import (
    CompactionOptions,
    Passes,
    PassName,
    PassPlan,
    SessionLog,
    applied,
    check,
)
from mcp_memory.domain.sessions.calls_in_text import with_outputs
from mcp_memory.errors import Conflict, McpMemoryError, StoreUnavailable
from mcp_memory.ports.session_logs import PassRun, SessionLogStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.sessions.commit_plan import Begun, PlanCommitter

if TYPE_CHECKING:
    from mcp_memory.services.sessions.summarize_span import Writer

ATTEMPTS = 3
"""Plans made for one pass, where other processes change the log meanwhile."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassStep:
    """An event of a pass, reported as it happens. Tokens are as counted, `total` those of the window."""

    event: Literal["start", "complete", "error"]
    name: PassName
    at: Instant
    number: int
    passes: int
    tokens: int
    total: int
    run: PassRun | None = None


Tell = Callable[[PassStep], None]


@dataclass(slots=True, kw_only=True)
class CompactionProgress:
    """The progress of a compaction. Each committed pass extends `begun` and `extracted`."""

    caller: Caller
    passes: Passes
    options: CompactionOptions
    log: SessionLog
    begun: Begun
    writer: Writer
    tell: Tell
    runs: list[PassRun] = field(default_factory=list[PassRun])
    extracted: list[str] = field(default_factory=list[str])
    made: set[str] = field(default_factory=set[str])
    is_forced: bool = False
    masked_enough: bool = False


class PassRunner:
    """Runs a pass of a compaction, and changes its progress. Thread-safe, if each progress belongs to one thread."""

    def __init__(self, logs: SessionLogStore, committing: PlanCommitter, clock: Clock) -> None:
        self._logs = logs
        self._committing = committing
        self._clock = clock

    def run(
        self, name: PassName, course: CompactionProgress, options: CompactionOptions, number: int, passes: int
    ) -> None:
        """Plan and commit the pass of that name, and note its result; a failed pass leaves the log unchanged.

        Raises StoreUnavailable where the log can be neither read nor written.
        """
        start = _start(name, course, options)
        step = PassStep(
            event="start", name=name, at=self._clock(), number=number, passes=passes, tokens=start.tokens,
            total=options.window,
        )  # fmt: skip
        course.tell(step)
        plan, error = PassPlan(reason=self._reason_against(start, course)), None
        if not plan.reason:
            try:
                plan = self._carry_out(name, course, options)
            except StoreUnavailable:
                raise
            except Exception as failure:  # noqa: BLE001 - whatever a pass does, the log and the others are not harmed
                error = str(failure) if isinstance(failure, McpMemoryError) else type(failure).__name__
                _log.warning("The pass %s failed: %s.", name, type(failure).__name__)
        run = _note(start, plan, course, error)
        if course.passes.kind_of(name) == "masking":
            target = options.tokens(options.target)
            course.masked_enough |= start.tokens > target >= course.log.tokens and not course.is_forced
        ended = "error" if error else "complete"
        course.tell(replace(step, event=ended, at=self._clock(), tokens=course.log.tokens, run=run))

    def put(self, name: PassName, course: CompactionProgress, planned: Callable[[], PassPlan]) -> None:
        """Commit a plan made elsewhere as the result of the pass with that name; any error passes through."""
        start = _start(name, course, course.options)
        plan = planned()
        self._commit(plan, name, course)
        _note(start, plan, course)

    def _reason_against(self, start: _Start, course: CompactionProgress) -> str:
        if course.masked_enough and course.passes.kind_of(start.name) in ("rewording", "summarising"):
            return "masking tool output alone brought the log to its target"
        if start.name in self._logs.fruitless(course.caller, start.revision):
            return "it did not make this very log shorter before"
        return ""

    def _carry_out(self, name: PassName, course: CompactionProgress, options: CompactionOptions) -> PassPlan:
        """Plan and commit; plan again where other processes changed the log meanwhile."""
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(Conflict):
                return self._attempt(name, course, options)
            course.log = with_outputs(self._logs.log(course.caller))
            course.begun = replace(course.begun, number=None)  # Only the latest compaction may go on.
        return self._attempt(name, course, options)

    def _attempt(self, name: PassName, course: CompactionProgress, options: CompactionOptions) -> PassPlan:
        plan = course.passes.by_name[name].plan(course.log, options)
        check(plan, course.log)
        if plan.replacements:
            self._commit(plan, name, course)
        return plan

    def _commit(self, plan: PassPlan, name: PassName, course: CompactionProgress) -> None:
        committed = self._committing(plan, name, course.log, course.begun)
        course.begun = committed.begun
        course.extracted += committed.extracted
        course.made |= {made.entry.id for made in plan.replacements}
        course.log = applied(course.log, plan.replacements)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The state before a pass: the log, and the tokens a model had used; `began_at` in seconds."""

    name: PassName
    revision: str
    tokens: int
    spent: int
    began_at: float


def _start(name: PassName, course: CompactionProgress, options: CompactionOptions) -> _Start:
    return _Start(
        name=name,
        revision=_revision(course.log, options),
        tokens=course.log.tokens,
        spent=course.writer.spent,
        began_at=time.perf_counter(),
    )


def _note(start: _Start, plan: PassPlan, course: CompactionProgress, error: str | None = None) -> PassRun:
    """Append the pass's result since its start to the course."""
    run = PassRun(
        name=start.name,
        revision=start.revision,
        ran=bool(plan.replacements),
        reason=plan.reason,
        tokens_before=start.tokens,
        tokens_after=course.log.tokens,
        replaced=len(plan.replacements),
        milliseconds=1_000 * (time.perf_counter() - start.began_at),
        spent=course.writer.spent - start.spent,
        error=error,
    )
    course.runs.append(run)
    return run


def _revision(log: SessionLog, options: CompactionOptions) -> str:
    """Identify the log and its options: with other options a pass may do more."""
    limits = (options.window, options.old_turns, options.threshold, options.least_output)
    return " ".join(map(str, (log.revision, *limits, round(options.target, 3), options.end_entries)))

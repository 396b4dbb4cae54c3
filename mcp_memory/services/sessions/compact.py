"""Compact: shortens a session's log, pass by pass, without losing any of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.requests import CompactRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import (
    PRESETS,
    USUAL,
    CompactionOptions,
    Entry,
    Passes,
    PassName,
    Preset,
    SessionLog,
    Span,
    Trigger,
)
from mcp_memory.domain.model.token_factor import EXACT, ClientTokens, ModelFactor
from mcp_memory.domain.sessions.calls_in_text import with_outputs
from mcp_memory.domain.sessions.pressure import CROWDED_ENTRIES, Pressure, adapted, aimed, makeup, pressure
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.session_logs import Compaction, PassRun, SessionLogStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.sessions.commit_plan import Begun, PlanCommitter
from mcp_memory.services.sessions.fullness import fullness
from mcp_memory.services.sessions.run_pass import CompactionProgress, PassRunner, Tell
from mcp_memory.services.tasks.branch_visibility import visible_to

if TYPE_CHECKING:
    from mcp_memory.services.sessions.summarize_span import Asked, SummingUp, Written

JUDGED_SUMMARIES, LEAST_JUDGED = 50, 3  # the newest summaries read; the fewest judgements that count
PassesOf = Callable[[Callable[[Span], str]], Passes]
"""Makes the passes from a function that writes a span's summary."""

LEAST_WINDOW = 1_000
_ENDS = (CROWDED_ENTRIES, CompactionOptions(window=LEAST_WINDOW).end_entries)
# e.g. "6000"
_NUMBER = re.compile(r"[0-9]{1,9}")
_SUMMARY: PassName = "threshold"
"""The pass that a summary of the caller's stands in for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of a compaction. Tokens are as counted; times `factor` they are the client's.

    `made` are the entries of `log` that replaced others since the last answered call, by this compaction or an
    automatic one; `extracted` ids of records made from the removed entries. `asked` is the span for the caller to
    summarise. `undone` is the number of the undone compaction; `redacted` and `cleaned` count the secrets and the
    control characters removed from a given summary. `meanwhile` are the automatic compactions since the last
    requested one.
    """

    session_id: str
    preset: Preset
    factor: float
    before: Pressure
    after: Pressure
    entries: int
    number: int | None = None
    compactions: int = 0
    runs: tuple[PassRun, ...] = ()
    log: SessionLog | None = None
    made: tuple[Entry, ...] = ()
    extracted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    adapted: str = ""
    written: Written | None = None
    asked: Asked | None = None
    undone: int | None = None
    redacted: int = 0
    cleaned: int = 0
    trigger: Trigger = "call"
    meanwhile: tuple[Compaction, ...] = ()


class _Then(NamedTuple):
    """Limits that decided which entries were preserved when a span was asked for: the second step uses them again.

    The span names it, "6000,41,3000,20,0", so that it outlives the process. Tokens are as counted.
    """

    window: int
    entries: int
    target_tokens: int
    end_entries: int
    fold_material: int

    @classmethod
    def now(cls, log: SessionLog, options: CompactionOptions) -> str:
        target = options.tokens(options.target)
        known = cls(options.window, len(log.entries), target, options.end_entries, int(options.fold_material))
        return ",".join(map(str, known))

    @classmethod
    def of(cls, span: str) -> _Then | None:
        """Read what a span names; None where it names nothing of the kind."""
        numbers = span.rpartition("/")[2].split(",")
        is_known = len(numbers) == len(cls._fields) and all(_NUMBER.fullmatch(each) for each in numbers)
        found = cls(*map(int, numbers)) if is_known else None
        # What nobody asked for here may be made up: it protects no less than a call with that window would.
        is_asked = found is not None and found.window >= LEAST_WINDOW and found.end_entries in _ENDS
        return found if is_asked else None

    def seen(self, log: SessionLog, options: CompactionOptions) -> tuple[SessionLog, CompactionOptions]:
        """Return the log without what was stored since, and the options with what was known."""
        target = (self.target_tokens + 0.5) / self.window
        options = replace(
            options, window=self.window, target=target, end_entries=self.end_entries,
            fold_material=bool(self.fold_material),
        )  # fmt: skip
        return SessionLog(log.entries[: self.entries]), options


class CompactSettings(Protocol):
    """Settings that compaction reads: a preset, the clients' window in tokens or None, and passes or none."""

    compaction: Preset
    compaction_window: int | None
    compaction_passes: list[PassName]


class Compact:
    """Compacts the log of its caller's session. Thread-safe, also with several processes.

    Each pass is committed by itself: after an interruption the log is sound, and the next call continues from there.
    """

    def __init__(
        self,
        records: MemoryReader,
        logs: SessionLogStore,
        committing: PlanCommitter,
        summing_up: SummingUp,
        passes_of: PassesOf,
        settings: CompactSettings,
        clock: Clock,
        presets: Mapping[Preset, CompactionOptions] = PRESETS,
        watch: Callable[[Compacted], None] = lambda done: None,
    ) -> None:
        """The service calls `watch` after each compaction and undo, in the thread that made it; `watch` raises nothing.

        Raises InvalidRequest where the settings name no known preset.
        """
        self._records = records
        self._logs = logs
        self._committing = committing
        self._runner = PassRunner(logs, committing, clock)
        self._summing_up = summing_up
        self._passes_of = passes_of
        self._preset = settings.compaction
        self._window = settings.compaction_window
        self._passes = tuple(settings.compaction_passes)
        self._clock = clock
        self._presets = presets
        self._watch = watch
        self._chosen(self._preset)

    def __call__(
        self, request: CompactRequest, caller: Caller, factor: ModelFactor = EXACT, tell: Tell = lambda step: None
    ) -> Compacted:
        """Shorten the log as far as its passes see a reason to, or undo the latest compaction.

        Raises:
            InvalidRequest: a given summary is not good enough, and why; or the request contradicts itself.
            Conflict: the log changed meanwhile, or there is nothing to undo.
            StoreUnavailable: the log can be neither read nor written; what was committed stays.
        """
        usual = self.options(request.preset, request.window, factor)
        then = _Then.of(request.span)
        if then and request.window is None and request.preset is None:
            usual = replace(usual, window=then.window)
        if request.undo:
            done = self._undo(request, caller, usual, factor)
        else:
            done = self._shorten(request, caller, usual, factor, tell)
        self._watch(done)
        return done

    def _shorten(
        self, request: CompactRequest, caller: Caller, usual: CompactionOptions, factor: ModelFactor, tell: Tell
    ) -> Compacted:
        with self._records.snapshot():  # Committing checks that the log is still this one.
            log, wanting, told = with_outputs(self._logs.log(caller)), self._wanting(caller), self._told(caller)
        begun = Begun(caller=caller, trigger=request.trigger, tokens_before=log.tokens)
        writer = self._summing_up.writer(request.summarizer, request.prompt, request.instructions, caller)
        passes = self._passes_of(writer.write)
        options, note = adapted(replace(usual, passes=passes.named(usual.passes)), makeup(log), wanting)
        options = aimed(options, log, is_forced=request.force)
        # A compaction on request always works: `off` only stops automatic ones.
        named = passes.named(request.passes or self._passes or options.passes or (USUAL,))
        course = CompactionProgress(
            caller=caller, passes=passes, options=replace(options, passes=named), log=log, begun=begun, writer=writer,
            tell=tell, is_forced=request.force,
        )  # fmt: skip
        asked = None
        if request.summary:
            self._put(course, request)
        else:
            asked = self._run_all(course, request)
        self._logs.keep_pass_runs(course.runs, caller, self._clock(), course.begun.number)
        with self._records.snapshot():
            done, made = self._compacted(request, caller, usual, factor, log.tokens), self._made(course, told)
        return replace(
            done,
            number=course.begun.number,
            runs=tuple(course.runs),
            log=course.log,
            made=made,
            extracted=tuple(course.extracted),
            adapted=note,
            written=writer.outcome(),
            asked=asked,
            trigger=request.trigger,
            meanwhile=tuple(one for one in self._standing(caller) if one.number > told and one.trigger != "call"),
        )

    def options(self, preset: Preset | None, window: int | None, factor: ModelFactor = EXACT) -> CompactionOptions:
        """Return the options of a compaction; converts a window in the client's tokens to tokens as counted."""
        chosen = self._chosen(preset or self._preset)
        given = window if window is not None else self._window if preset is None else None
        return replace(chosen, window=max(factor.counted(ClientTokens(given or chosen.window), round), 1))

    def _chosen(self, preset: Preset) -> CompactionOptions:
        if preset not in self._presets:
            raise InvalidRequest(f"There is no preset of that name; the presets are: {', '.join(self._presets)}.")
        return self._presets[preset]

    @property
    def is_automatic(self) -> bool:
        """Return False where compaction runs on request only."""
        return self._preset != "off"

    def _run_all(self, course: CompactionProgress, request: CompactRequest) -> Asked | None:
        """Run every pass in turn. A caller that summarises is asked before the ceiling drops preserved entries."""
        at = _summarises_at(course, request)
        passes, last = course.passes, course.passes.last.name
        names = [name for name in course.options.passes if name != last]
        if not passes.by_name.keys() >= set(names):
            known = ", ".join(name for name in passes.by_name if name != last)
            raise InvalidRequest(f"There is no pass of one of those names; the passes are: {known}.")
        if request.summarizer == "caller":  # Its summary comes first; then the others see what is left.
            names = [name for name in names if passes.kind_of(name) != "summarising"]
        for number, name in enumerate(names, start=1):
            options = replace(course.options, threshold=at) if name == _SUMMARY else course.options
            self._runner.run(name, course, options, number, len(names) + 1)
        asked = self._asked(course, request, at) if request.summarizer == "caller" else None
        if asked is None:
            self._runner.run(last, course, course.options, len(names) + 1, len(names) + 1)
        return asked

    def _asked(self, course: CompactionProgress, request: CompactRequest, at: float) -> Asked | None:
        """Return the span for the caller to summarise, named with the compaction that the summary will join."""
        if course.masked_enough:
            return None
        asked = self._summing_up.ask(course.log, course.options, at, request.prompt, request.instructions)
        then = _Then.now(course.log, course.options)
        return replace(asked, span=f"{asked.span}/{course.begun.number or ''}/{then}") if asked else None

    def _put(self, course: CompactionProgress, request: CompactRequest) -> None:
        """Replace the span by the caller's summary, in the compaction that asked for it."""
        span, number, *_ = [*request.span.split("/"), ""]
        latest = [one.number for one in self._standing(course.caller)][-1:]
        if [number] == [str(each) for each in latest]:
            course.begun = replace(course.begun, number=latest[0])
        then = _Then.of(request.span)
        log, options = then.seen(course.log, course.options) if then else (course.log, course.options)
        self._runner.put(
            _SUMMARY, course, lambda: self._summing_up.plan(log, options, span, request.summary, course.caller)
        )
        self._runner.run(course.passes.last.name, course, course.options, 2, 2)

    def _undo(
        self, request: CompactRequest, caller: Caller, options: CompactionOptions, factor: ModelFactor
    ) -> Compacted:
        if request.summary:
            raise InvalidRequest("Give either undo or summary, not both.")
        before = self._logs.size(caller).tokens
        undone = self._committing.undo(caller, request.number)
        return replace(self._compacted(request, caller, options, factor, before), undone=undone.number)

    def _compacted(
        self, request: CompactRequest, caller: Caller, options: CompactionOptions, factor: ModelFactor, before: int
    ) -> Compacted:
        """Describe the log as it is now, after any kind of request."""
        now = fullness(self._logs, caller, options)
        return Compacted(
            session_id=caller.session_id,
            preset=request.preset or self._preset,
            factor=factor.factor,
            before=pressure(before, options),
            after=now.pressure,
            entries=now.entries,
            compactions=now.compactions,
            warnings=now.warnings,
        )

    def _standing(self, caller: Caller) -> list[Compaction]:
        return [one for one in self._logs.compactions(caller) if one.undone_at is None]

    def _told(self, caller: Caller) -> int:
        """Return the number of the latest compaction that a caller requested and saw; 0 without one."""
        return max((one.number for one in self._logs.compactions(caller) if one.trigger == "call"), default=0)

    def _made(self, course: CompactionProgress, told: int) -> tuple[Entry, ...]:
        """Return the log's replacements since the compaction with that number."""
        since = {each.entry.id for each in self._logs.stand_ins(course.caller) if each.compaction > told}
        return tuple(entry for entry in course.log.entries if entry.id in course.made | since)

    def _wanting(self, caller: Caller) -> float | None:
        """Return the share of judged earlier summaries that did not help; None while too few were judged."""
        where = replace(visible_to(self._records, caller), kinds=frozenset({"summary"}), include_inactive=True)
        judged = [_judgement(record) for record in self._records.list(where, "created", JUDGED_SUMMARIES)]
        good, bad = sum(one[0] for one in judged), sum(one[1] for one in judged)
        return bad / (good + bad) if good + bad >= LEAST_JUDGED else None


def _summarises_at(course: CompactionProgress, request: CompactRequest) -> float:
    """Return the share of the window above which the oldest part is summarised.

    A log that began at its threshold shrinks well below it, so that it is not compacted again and again for little.
    """
    options = course.options
    if request.force:
        return 0.0
    if request.trigger == "idle":
        return options.target
    is_full = options.share(course.log.tokens) >= options.threshold
    return min(options.idle, options.threshold) if is_full else options.threshold


def _judgement(record: Record) -> tuple[int, int]:
    """Count the feedback that a summary helped, and the feedback that it did not."""
    counters = record.counters
    return counters.used, counters.ignored + counters.false_positives + (record.status == "inactive")

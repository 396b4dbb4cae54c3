"""The facade for entrypoints: the services of wiring.py, and what a process adds to calls of its one client."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import uuid
from collections import deque
from dataclasses import asdict, replace
from math import inf
from typing import TYPE_CHECKING

from mcp_memory.domain.model.projects import NOTICE, SHORT_NOTICE, Membership
from mcp_memory.domain.model.records import LOG_KINDS
from mcp_memory.domain.model.scopes import Caller, RecordFilter, RepeatableCall, partitions_of
from mcp_memory.errors import McpMemoryError, NotFound, StoreUnavailable
from mcp_memory.ports.changes import newest_of
from mcp_memory.ports.tracing import traced
from mcp_memory.ports.walls import beyond
from mcp_memory.projects import read_project
from mcp_memory.services.access.served_requests import asked_by, present_request
from mcp_memory.settings import at_work, working_for
from mcp_memory.wiring import Wiring, drop_former_files, made_once, model_factor, text_measure, token_counter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from mcp_memory.domain.model.projects import Project
    from mcp_memory.domain.model.records import NewRecord
    from mcp_memory.domain.model.requests import CompactRequest, ContextRequest, ForgetMode, RecallRequest
    from mcp_memory.domain.model.session_log import SessionLog
    from mcp_memory.domain.model.tasks import Stack, Task
    from mcp_memory.domain.model.token_factor import ModelFactor
    from mcp_memory.domain.retrieval.guardrails import ToolCall
    from mcp_memory.ports.retrieval import Facet
    from mcp_memory.ports.text import Clock, Embedder
    from mcp_memory.services.context.assemble import Context
    from mcp_memory.services.context.guard import Verdict
    from mcp_memory.services.context.remind import Reminder
    from mcp_memory.services.memory.erase import Reach
    from mcp_memory.services.memory.forget import Forgotten
    from mcp_memory.services.memory.remember import Remembered
    from mcp_memory.services.retrieval.recall import RecallAnswer
    from mcp_memory.services.sessions.compact import Compacted
    from mcp_memory.services.sessions.feed import Fed
    from mcp_memory.services.sessions.fullness import LogStanding
    from mcp_memory.services.sessions.idle_compaction import IdleCompaction
    from mcp_memory.services.sessions.run_pass import Tell
    from mcp_memory.services.status.overview import ClientHealth, ClientStatus
    from mcp_memory.settings import Settings

__all__ = ["App", "Seat", "open_app", "text_measure", "token_counter"]
_DIFFERING = (
    "Settings of this window differ from those with which this memory was opened, which count: {names}. To let them"
    " count, run `mcp-memory stop`; the memory opens again with the settings of the next window."
)
EMBEDDED_AT_ONCE = 8
"""Waiting records that are embedded together with the next `remember`; upkeep embeds the rest."""
LOOKS_APART_SECONDS = 60.0
"""Pause between two looks for what is due by its age: each looks at many records, and steps may follow each other."""
SESSIONS_NOTED = 256
"""Sessions whose clients' keys upkeep knows."""
TERMS_AT_ONCE = 500
"""Records whose words one step of upkeep looks at, where an earlier version derived them."""


class Seat:
    """A window's place in a memory: the names in its settings, the namespace of its folder, its session's label.

    Thread-safe. Its settings are the memory's but for `settings.OF_SEAT`.
    """

    def __init__(
        self,
        memory: Wiring,
        settings: Settings,
        folder: Path | None,
        *,
        session: str = "",
        takes: bool = True,
        differing: Sequence[str] = (),
        begun: int = sys.maxsize,
        client: str = "",
    ) -> None:
        self.settings = settings
        self.label = session or f"s{uuid.uuid4().hex[:12]}"
        """The name that its process has for itself, also with another owner of the memory."""
        self.differing = differing
        """The variables of its process that do not count, since the memory was opened with others."""
        self.session = settings.session or self.label
        self.begun = begun
        """The revision at which its session began: it saw no later change. A command has seen all that there is."""
        self.client = client
        """The name of its client, where a call does not say it."""
        self.awaits_folder = settings.roots
        """True until its client has been asked which folder is open."""
        self._memory = memory
        self._folder = folder
        self._takes = takes
        self._membership: Membership | None = None

    @property
    def membership(self) -> Membership:
        """The namespace of this window: the one the settings name, else the one its folder is trusted with.

        The first use decides it for the life of the window, because all its calls belong together; renamed meanwhile,
        it is used under its present name. Where the folder could not be recorded as the namespace's owner, the next use
        decides again.

        Raises:
            InvalidRequest: the working directory is gone.
            StoreUnavailable: the store cannot say which namespace the folder is trusted with.
        """
        with self._memory.making:  # No lock of its own: services made under this one may ask for the namespace.
            if self._membership is not None:
                self._membership = self._memory.trust.followed(self._membership)
                return self._membership
            decided = self._decide()
            if not self.awaits_folder and (decided.state != "free" or not self._takes):
                self._membership = decided
            return decided

    def take_folder(self, folder: Path | None) -> None:
        """Work from now on in the project of this folder, which the client says is open.

        Where it says none, the settings count. Of several answers the first one holds.
        """
        with self._memory.making:
            if self.awaits_folder and folder is not None:
                self._folder = folder
                self.settings = self.settings.model_copy(update={"namespace": None})
            self.awaits_folder = False

    @property
    def is_refused(self) -> bool:
        """True where its folder is refused the namespace that it claims. Raises as `membership` does."""
        if self.settings.namespace is not None:
            return False
        return self._memory.trust.membership(self.project(), takes=False).is_refused

    def project(self) -> Project:
        """Return what the window's folder claims to be. Raises InvalidRequest where the working directory is gone."""
        return read_project(self._folder)

    def _decide(self) -> Membership:
        if self.settings.namespace is not None:
            return Membership(namespace=self._memory.trust.present(self.settings.namespace), state="named")
        return self._memory.trust.membership(self.project(), takes=self._takes)


class App(Wiring):
    """All services over one store, for one process. Thread-safe; `open_app` makes one.

    Services that need nothing from the process are called directly: `app.tasks`, `app.revise`, `app.inspect`.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock = time.time,
        embedder: Embedder | None = None,
        *,
        folder: Path | None = None,
        takes: bool = True,
        session: str = "",
    ) -> None:
        super().__init__(settings, clock, embedder)
        self.own = Seat(self, settings, folder, session=session, takes=takes, begun=self.opened_at)
        self.seats: tuple[Seat, ...] = (self.own,)
        """The seats of the windows that this process serves."""
        self.arrived: deque[Seat] = deque()
        """The seats of windows whose files are to be read: a session begins in each."""
        self._look_again_at = -inf
        self._worked_on: dict[tuple[str, str, str], Settings] = {}
        """The settings of the clients that last worked on the logs of sessions, in memory while a client is here."""
        self._told: set[tuple[str, str, str]] = set()
        """The sessions that know about a former memory of their project."""
        self.stirred = threading.Event()
        """Set when there may be something for `keep_up` to do: a log has grown, or the embedder answers again."""

    def notice(self, seat: Seat | None = None) -> str:
        """Return what a client is told first: settings that do not count, a folder that was refused its claim; else "".

        `seat` is the client's, by default the process's own. Looking claims no namespace. Errors are not raised here:
        each call raises them.
        """
        seat = seat or self.own
        told = [_DIFFERING.format(names=", ".join(seat.differing))]
        with contextlib.suppress(McpMemoryError):
            told += [NOTICE] if seat.is_refused else []
        return "\n\n".join(told if seat.differing else told[1:])

    @contextlib.contextmanager
    def seated(self, seat: Seat) -> Generator[None]:
        """Serve this seat for as long as the context lasts."""
        self.take_seat(seat)
        try:
            yield
        finally:
            self.leave_seat(seat)

    def take_seat(self, seat: Seat) -> None:
        """Serve this seat until `leave_seat`."""
        with self.making:
            self.seats = (*self.seats, seat)

    def welcome(self, seat: Seat) -> None:
        """Let upkeep read the files that the seat's settings name, if any."""
        if seat.settings.read_files:
            self.arrived.append(seat)
            self.stirred.set()

    def leave_seat(self, seat: Seat) -> None:
        """Serve this seat no more."""
        with self.making:
            self.seats = tuple(each for each in self.seats if each is not seat)
            if not self.seats:
                self._worked_on.clear()

    def begun(self, caller: Caller) -> int:
        mine = (seat.begun for seat in self.seats if seat.session == caller.session_id)
        return next(mine, self.opened_at)

    def is_apart(self, caller: Caller) -> bool:
        """True where the caller works in its folder's own namespace because the claimed one was refused."""
        own_ones = (seat.membership for seat in self.seats)
        return any(each.is_refused and each.namespace == caller.namespace for each in own_ones)

    def is_served(self, namespace: str, agent: str) -> bool:
        """True where a window of this process works as that agent in that namespace."""
        return bool(self._seats_of(namespace, agent))

    def _seats_of(self, namespace: str, agent: str) -> Sequence[Seat]:
        with contextlib.suppress(McpMemoryError):  # A folder that decides about a namespace may be gone.
            names = (namespace, agent)
            return [seat for seat in self.seats if (seat.membership.namespace, seat.settings.agent) == names]
        return ()

    def _note_client(self, caller: Caller) -> None:
        """Let upkeep of the caller's session use the keys and the time zone of the client that works on it."""
        if client := at_work():
            self._worked_on.pop(_session_of(caller), None)
            self._worked_on[_session_of(caller)] = client
            for session in [*self._worked_on][:-SESSIONS_NOTED]:
                self._worked_on.pop(session, None)

    def _working_for(self, caller: Caller) -> contextlib.AbstractContextManager[None]:
        """Work for the client whose session it is; for nobody where none is known."""
        here = (each.settings for each in self._seats_of(*_session_of(caller)[:2]) if each.session == caller.session_id)
        return working_for(self._worked_on.get(_session_of(caller)) or next(here, None))

    def caller(self, session_id: str | None = None, client: str = "", seat: Seat | None = None) -> Caller:
        """The agent that asks from a seat, by default the process's own client's, in the session that the call names.

        Where it names none, the one of the settings or of the window counts. Raises as `Seat.membership` does.
        """
        if seat is None:
            seat = self.own
            seat.client = client or seat.client  # Upkeep counts as the process's own client does.
        settings = seat.settings
        membership = seat.membership
        mine = Caller(
            namespace=membership.namespace,
            agent=settings.agent,
            session_id=seat.session,
            named_session=settings.session is not None,
            inherited=tuple(map(self.trust.present, settings.inherit)),
            client=client or seat.client,
            knows=() if membership.is_refused else None,
            renamed_at=membership.renamed_at,
            max_tokens=settings.max_tokens,
            token_factor=0.0 if settings.token_factor == "auto" else settings.token_factor,
        )
        mine = mine.in_session(session_id)
        if (request := present_request()) and request.caller is None:  # A message's sender is noted where it is found.
            asked_by(mine)
        return mine

    def factor(self, caller: Caller) -> ModelFactor:
        """The client's tokens per counted token: from the settings, else by the client's name."""
        return model_factor(caller.token_factor or self.settings.token_factor, caller.client)

    def refuse_done(self, call: RepeatableCall) -> None:
        """Raise CallDone where a call of this id was done before."""
        self.records.refuse_done(call)

    def why_nothing(self, caller: Caller, as_of: str | None) -> str:
        """Return the line that says so where the caller's memory holds nothing, or held nothing then; else ""."""
        from mcp_memory.services.memory.emptiness import nothing_stored, nothing_stored_by

        nothing = nothing_stored(self.records, caller)
        return nothing or (nothing_stored_by(self.records, caller, self.searcher.moment(as_of)) if as_of else "")

    def remember(
        self,
        items: Sequence[NewRecord],
        caller: Caller,
        *,
        advise: bool = True,
        embed: bool = True,
        undoable: str = "",
    ) -> list[Remembered]:
        with self.call_priority.ahead(), traced("remember", items=len(items)):
            remembered = self._remember(items, caller, advise=advise, embed=embed, undoable=undoable)
        self.stirred.set()
        for session_id in {item.session_id for item in items if item.kind in LOG_KINDS}:
            self._note_client(caller.in_session(session_id))
            self.hold_ceiling(caller.in_session(session_id))
        if embed and not any(one.degraded for one in remembered):
            with contextlib.suppress(StoreUnavailable):  # Records that wait for vectors keep waiting.
                self.reindex.embed_few(caller.scopes, EMBEDDED_AT_ONCE)
        return remembered

    def recall(self, request: RecallRequest, caller: Caller) -> RecallAnswer:
        with self.call_priority.ahead(), traced("recall"):
            return self._recall(request, caller, self.factor(caller))

    def facets(self, request: RecallRequest, caller: Caller, *named: Facet) -> Mapping[Facet, Mapping[str, int]]:
        """Count the common values of these fields, by default of every facet, among what passes a request's filters."""
        with self.call_priority.ahead():
            return self._recall.facets(request, caller, named)

    def alike_goals(self, stack: Stack, caller: Caller) -> Sequence[Task]:
        """Return tasks elsewhere whose goals mean what the current one's does, the open ones first."""
        with self.call_priority.ahead(), self.follower.snapshot(caller.scopes):
            return self.alike_tasks(stack, caller) if stack.current else ()

    def one_revision(self, *readers: Caller) -> AbstractContextManager[int]:
        """Answer every read of these in this context of the newest revision, which it yields. Write nothing inside.

        Raises StoreUnavailable, at the end too: discard what you read.
        """
        return self.follower.snapshot([scope for reader in readers for scope in reader.scopes])

    def revision(self) -> int:
        """Return the number of the newest change, inside `one_revision` that one. Raises StoreUnavailable."""
        return self.records.revision()

    def progress(self) -> int:
        """Return a number that is another one after each change. Raises StoreUnavailable."""
        return self.records.progress()

    def newest_change(self, caller: Caller) -> int:
        """Return the number of the newest change of what the caller reads. Raises StoreUnavailable."""
        return newest_of(self.records.revisions(partitions_of(caller.scopes)))

    def standing(self, caller: Caller) -> object:
        """Return what is another value after each change of what the caller reads, and of what lies beside it.

        It moves with what other agents of the project keep to themselves. Raises StoreUnavailable.
        """
        return self.records.revisions(partitions_of(caller.scopes))

    def gauges(self) -> Mapping[str, float]:
        """Return figures for monitoring by their names, each at little cost. Raises StoreUnavailable."""
        told: dict[str, float] = {"records": self.records.count_all(), "unembedded_records": self.reindex.queued()}
        told |= {f"index_{name}": value for name, value in asdict(self.follower.figures()).items()}
        if "index" in vars(self):  # Before the first search there is none.
            told["semantic_index_pending_records"] = self.index.state().pending
        return {**told, **self.records.gauges()}

    def identity(self) -> str:
        """Return the permanent name of this memory. Ask for it outside of `one_revision`, where it may be empty."""
        return self.records.identity()

    def now(self) -> float:
        """Return the present time by the memory's clock."""
        return self._clock()

    def saw(self, record_ids: Iterable[str], version: int, caller: Caller) -> None:
        """Note that the caller was shown these records at that version: later changes by others then refuse a write."""
        self._shown.see(caller, record_ids, version)

    def former_memory(self, caller: Caller) -> str:
        """Return the sentence that names a former memory of the caller's project, once a session; else ""."""
        session = _session_of(caller)
        if session in self._told:
            return ""
        here = (seat.membership for seat in self.seats)
        mine = next((each for each in here if each.namespace == caller.namespace), None)
        told = self.projects.hint(mine, caller) if mine else ""
        if told:
            self._told.add(session)
        return told

    def assemble_context(self, request: ContextRequest, caller: Caller) -> Context:
        if self.is_apart(caller):
            request = replace(request, notice=NOTICE, short_notice=SHORT_NOTICE)
        elif told := self.former_memory(caller):
            request = replace(request, notice=told, short_notice=told)
        with self.call_priority.ahead(), traced("assemble_context"):
            return self._assemble(request, caller, self.factor(caller))

    def remind(self, prompt: str, known: Collection[str], max_tokens: int, caller: Caller) -> Reminder:
        """Return the records that a prompt calls for beyond the known ids, within `max_tokens` client tokens."""
        with self.call_priority.ahead(), traced("remind"):
            return self._remind(prompt, known, max_tokens, caller, self.factor(caller))

    def guard(self, call: ToolCall, caller: Caller) -> Verdict:
        """Return what the guardrails of the caller's memory say of a call of a tool."""
        with self.call_priority.ahead():
            return self._guard(call, caller)

    def checkpoint(self, caller: Caller) -> str | None:
        """Record the state of the caller's session; return the record's id, or None if there is nothing to say."""
        item = self.checkpoints.draft(caller)
        return self.remember([item], caller)[0].id if item else None

    def feed(self, told: Iterable[NewRecord], caller: Caller) -> Fed:
        """Add the new lines of a conversation to the log of the caller's session."""
        with traced("feed"):
            fed = self._feed(told, caller)
        self._note_client(caller)
        if fed.stored:
            self.stirred.set()
        return fed

    def hold_ceiling(self, caller: Caller) -> None:
        """Compact the log of the caller's session if it is above its ceiling. What was stored stays, whatever fails."""
        with contextlib.suppress(StoreUnavailable):
            self.idle_compaction.hold_ceiling(caller)

    def take_back(self, message_ids: Sequence[str], caller: Caller, standing: Sequence[str] = ()) -> int:
        """Mark what the user of the caller's session took back, by the client's ids; return the number of lines.

        `standing` are the ids of the other lines: none of them is marked any longer.
        """
        return self._feed.take_back(message_ids, caller, standing)

    def held(self, fed: Fed, caller: Caller) -> list[tuple[str, ...]]:
        """Return, for each line that was fed, the ids of the originals that it repeats or replaces."""
        return self._feed.held(fed, caller)

    def compact(self, request: CompactRequest, caller: Caller, tell: Tell = lambda step: None) -> Compacted:
        """Compact the caller's log; the texts of the request are cleaned first."""
        from mcp_memory.domain.memory.redaction import clean_text
        from mcp_memory.domain.text.control_characters import without_controls

        summary = clean_text(request.summary, self.redactor.redact, to_the_end=False)
        instructions, prompt = (without_controls(text)[0] for text in (request.instructions, request.prompt))
        unerased = self.records.erased(caller.scopes).without(summary.text)
        request = replace(request, summary=unerased, instructions=instructions, prompt=prompt)
        with traced("compact"):
            done = self._compact(request, caller, self.factor(caller), tell)
        return replace(done, redacted=summary.redacted, cleaned=summary.cleaned)

    def forget(
        self, record_ids: Sequence[str], mode: ForgetMode, caller: Caller, version: int | None = None
    ) -> Forgotten:
        with traced("forget", records=len(record_ids)):
            forgotten = self._forget(record_ids, mode, caller, version)
        if not forgotten.purged:
            self.stirred.set()
        return forgotten

    def erasure_reach(self, record_ids: Sequence[str], caller: Caller) -> Reach:
        """Return what would be erased with these records; see `Forget.reach`."""
        return self._forget.reach(record_ids, caller)

    def withdraw(self, record_id: str, caller: Caller, *, erases: bool) -> bool:
        withdrawn = self._forget.withdraw(record_id, caller, erases=erases)
        self.stirred.set()
        return withdrawn

    def refuse_damage(self, error: Exception) -> None:
        """Raise StoreUnavailable where the store's files are damaged, which then explains another error."""
        if defects := self.records.defects():
            raise StoreUnavailable(
                f"The memory is damaged and was left as it is ({defects[0]}); run `mcp-memory restore-backup`"
                " with the newest backup, which keeps the damaged file beside it."
            ) from error

    def status(self, caller: Caller, seat: Seat | None = None, *, of_all: bool = False) -> ClientStatus:
        """Counts, the state of the store, and how budgets are counted for this client; `of_all` is that of Overview.

        `seat` is the caller's, by default the process's own.
        """
        from mcp_memory.services.sessions.fullness import pass_totals
        from mcp_memory.services.status.overview import ClientStatus

        factor, membership = self.factor(caller), (seat or self.own).membership
        return ClientStatus(
            caller=caller,
            memory=self.inspect.status(caller, of_all=of_all),
            membership=membership,
            former=self.projects.hint(membership, caller),
            encoding=self.counter.name,
            factor=factor,
            index=self.index.state(caller.scopes),
            log=self.log_standing(caller),
            passes=pass_totals(self.logs, caller, self._clock(), factor),
        )

    def health(self, caller: Caller, *, of_all: bool = False) -> ClientHealth:
        """Return the part of the status that tells how well memory serves; `of_all` is that of Overview."""
        from mcp_memory.services.status.overview import ClientHealth

        return ClientHealth(memory=self.inspect.health(caller, of_all=of_all), index=self.index.state(caller.scopes))

    def live_log(self, session_id: str, caller: Caller) -> SessionLog:
        """Return the log of one of the caller's sessions as it stands. Raises NotFound where there is none."""
        log = self.logs.log(caller.in_session(session_id))
        if not log.entries:
            raise NotFound(f"No log of session {session_id!r} here; memory://status shows the present one.")
        return log

    def log_standing(self, caller: Caller) -> LogStanding:
        """Return the log of the caller's session against its window, in its client's tokens."""
        from mcp_memory.services.sessions.fullness import log_standing

        factor = self.factor(caller)
        return log_standing(self.logs, caller, self._compact.options(None, None, factor), factor)

    @made_once
    def idle_compaction(self) -> IdleCompaction:
        """Keeps logs inside their windows without being asked."""
        from mcp_memory.services.sessions.idle_compaction import IdleCompaction

        idle_seconds = 60 * self.settings.compaction_idle_minutes
        person_of = self.tokens.person_of
        return IdleCompaction(
            self._compact,
            self.logs,
            self._locks,
            self.is_served,
            idle_seconds,
            lambda: self.factor(self.caller()),
            self._clock,
            person_of,
            self._working_for,
        )

    @beyond()
    def keep_up(self, *, maintains: bool = True) -> bool:
        """Take one small step of background work; return False where none is due. Raises StoreUnavailable.

        With `maintains`, due records move on in their lifecycle, and what may need a review is queued. Logs are
        compacted, records without vectors are embedded, words that an earlier version derived are renewed, and erased
        records are purged from files that other processes kept in use.
        """
        self.windows.end_idle()
        self.reads.prune()
        steps: Mapping[str, tuple[float, Callable[[], bool]]] = {
            "maintain": (60 * self.settings.maintain_minutes, self._maintain_step),
            "compact": (0.0, self.idle_compaction.step),
            "embed": (0.0, self._embed_step),
            "purge": (0.0, self._forget.finish),
            "review": (0.0, self.fill_queue.step),
        }
        is_awaited = False
        for name, (rest_seconds, step) in steps.items():
            if maintains or name not in ("maintain", "review"):
                is_left = self._once(name, rest_seconds, step)
                if is_left:
                    return True
                is_awaited = is_awaited or is_left is None
        return is_awaited

    def _once(self, name: str, rest_seconds: float, step: Callable[[], bool]) -> bool | None:
        """Take a step of a job: the owner of a file at once, one of several servers where no other is at it."""
        leases = self.records.leases()
        return leases.once(name, rest_seconds, step) if leases else step()

    def _embed_step(self) -> bool:
        return self.reindex.catch_up() > 0 or self.records.catch_up_terms(TERMS_AT_ONCE)

    def _maintain_step(self) -> bool:
        if self._clock() < self._look_again_at:
            return False
        is_busy = self.maintain.step(patiently=False).records > 0
        if not is_busy:
            self._look_again_at = self._clock() + min(60 * self.settings.maintain_minutes, LOOKS_APART_SECONDS)
        return is_busy

    @beyond()
    def warm_lists(self) -> None:
        """Load what lists of records take, which is a small part of `warm`: neither models nor vocabularies."""
        _ = self._recall
        self.filters.passing(RecordFilter(scopes=self.caller().scopes))

    @beyond()
    def warm_search(self) -> None:
        """Load what a search takes: the model, the indexes, and vectors that a few records lack.

        No vocabulary: results whose bytes fit into the budget are not counted.
        """
        scopes, vector = self.caller().scopes, None
        with contextlib.suppress(StoreUnavailable):  # Every call reports it, with the remedy.
            vector = self._embedder.embed_query("warm")
        with self.follower.snapshot(scopes):  # As one request, which reads what is missing once.
            with contextlib.suppress(StoreUnavailable):
                if vector is not None:
                    self.index.search(vector, scopes, 1)
            self.keywords.search(["warm"], scopes, 1)
            self.filters.passing(RecordFilter(scopes=scopes))
            self.graph.mentioned("warm", scopes)
        _ = self._recall
        with contextlib.suppress(StoreUnavailable):
            self.reindex.catch_up()  # A batch: what hooks have stored since, which words alone would find.

    @beyond()
    def warm(self) -> None:
        """Load what is slow: what a search takes, detectors, dates, what storing and assembling take.

        No vocabulary: it takes 42 MB, and a server that is asked nothing, or searches alone, counts nothing. The first
        call that counts reads it, in 0.2 s.
        """
        from mcp_memory.domain.text.intent import pick_strategy

        self.warm_search()
        drop_former_files(self.settings)
        self.redactor.redact("warm")
        pick_strategy("warm")
        self.dates.read("3 May", self._clock())
        _ = self._remember, self._assemble, self._compact, self.revise, self.settle
        with contextlib.suppress(McpMemoryError):
            self.task_results.catch_up(self.caller())
        with contextlib.suppress(StoreUnavailable):
            while self._once("embed", 0.0, self._embed_step):  # After an import this takes long.
                pass
        with contextlib.suppress(StoreUnavailable):
            self.index.erase(())  # Erasures by a process that was killed before it could purge.
            self.records.purge()
        self.index.start()  # Last: its process, where one is needed, takes a second of one core to start.


def _session_of(caller: Caller) -> tuple[str, str, str]:
    return caller.namespace, caller.agent, caller.session_id


def open_app(
    settings: Settings,
    clock: Clock = time.time,
    embedder: Embedder | None = None,
    *,
    folder: Path | None = None,
    takes: bool = True,
    session: str = "",
) -> App:
    """Open the store; services are made on demand, and nothing slow is loaded yet.

    Where the settings name no namespace, that of `folder` is used, by default the working directory. A process that
    only reads passes `takes=False`, and claims no free namespace. `session` is the label of the process's session where
    the settings name none; by default it is made.

    Raises:
        StoreUnavailable: the data directory cannot be used; the message names the remedy.
    """
    return App(settings, clock, embedder, folder=folder, takes=takes, session=session)

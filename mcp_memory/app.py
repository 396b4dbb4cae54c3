"""The composition root: from settings to services. With making.py the only module that names a concrete store."""

import contextlib
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mcp_memory.domain.memory.redaction import clean_text
from mcp_memory.domain.model.projects import NOTICE, SHORT_NOTICE, Membership
from mcp_memory.domain.model.records import Instant, Json, NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.tokens import ModelFactor
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.encoders.token_factors import factor_for
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.errors import McpMemoryError, StoreUnavailable
from mcp_memory.language.dates_dateparser import DateParserReader
from mcp_memory.language.secrets_re2 import NoRedactor, SecretRedactor
from mcp_memory.making import (
    make_embedder,
    make_index_place,
    make_passes,
    make_stores,
    make_summarizers,
)
from mcp_memory.ports import (
    Clock,
    Embedder,
    FilterIndex,
    GraphStore,
    IndexExaminer,
    KeywordStore,
    TokenCounter,
    VectorIndex,
    VectorStore,
)
from mcp_memory.projects import read_project
from mcp_memory.retrieval.graph import GraphSource
from mcp_memory.retrieval.keyword import KeywordSource
from mcp_memory.retrieval.time_span import TimeSpanSource
from mcp_memory.retrieval.vector import VectorSource
from mcp_memory.services.context.assemble import AssembleContext, Context, ContextRequest
from mcp_memory.services.context.remind import Reminder, Reminding
from mcp_memory.services.memory.access_tokens import Tokens
from mcp_memory.services.memory.echo_filter import GivenOut
from mcp_memory.services.memory.extract import Extracting
from mcp_memory.services.memory.forget import Forget, Forgotten, Mode
from mcp_memory.services.memory.maintain import Maintain
from mcp_memory.services.memory.prepare_record import Drafting
from mcp_memory.services.memory.reindex import Reindex
from mcp_memory.services.memory.remember import Remember, Remembered
from mcp_memory.services.memory.revise import Revise, Revision
from mcp_memory.services.memory.task_stack import Tasks
from mcp_memory.services.memory.trust import Trust
from mcp_memory.services.memory.visibility import visible_to
from mcp_memory.services.retrieval.recall import Recall, RecallAnswer, RecallRequest
from mcp_memory.services.retrieval.search import Evidence, Querying
from mcp_memory.services.sessions.checkpoint import Checkpointing
from mcp_memory.services.sessions.commit_plan import Committing
from mcp_memory.services.sessions.compact import Compact, Compacted, CompactRequest
from mcp_memory.services.sessions.feed import Fed, Feeding
from mcp_memory.services.sessions.fullness import log_standing, pass_tallies
from mcp_memory.services.sessions.idle import IdleCompaction
from mcp_memory.services.sessions.priority import GivingWay
from mcp_memory.services.sessions.run_passes import Tell
from mcp_memory.services.status.integrity_check import Examining
from mcp_memory.services.status.overview import Inspecting, shown_membership
from mcp_memory.settings import Settings
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.graph.store import NetworkxGraphStore
from mcp_memory.stores.records.transaction import embedder_mismatch
from mcp_memory.strategies import overridden, read_strategies

SOURCE_THREADS = 4
EMBEDDED_AT_ONCE = 8
"""Records that waited for the embedder, and get their vectors with the next one; more than that is upkeep's."""


class App:
    """All services over one store, for one process. Thread-safe; `open_app` makes one."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock = time.time,
        embedder: Embedder | None = None,
        *,
        folder: Path | None = None,
        takes: bool = True,
    ) -> None:
        self.settings = settings
        self._folder = folder
        self._takes = takes
        self._joining = threading.Lock()
        self._membership: Membership | None = None
        self._clock = clock
        self._embedder = embedder or make_embedder(settings)
        self._counter = TiktokenCounter(settings.encoding)
        self._dates = DateParserReader()
        self._redactor = SecretRedactor() if settings.redact_secrets else NoRedactor()
        self._drafting = Drafting(self._embedder, self._counter, self._redactor)
        self._given_out = GivenOut()
        self._giving_way = GivingWay()
        self._client = ""
        self._session = settings.session or f"s{uuid.uuid4().hex[:12]}"
        self._making = threading.Lock()
        self._made: _Services | None = None
        self._pool: Executor = ThreadPoolExecutor(SOURCE_THREADS, thread_name_prefix="sources")
        self.records, self.logs, tokens, folders = make_stores(settings, self._embedder, clock)
        self.tokens = Tokens(tokens, clock)
        self.trust = Trust(folders, clock)
        self.tasks = Tasks(self.records, self._redactor, clock)
        self._follower = Follower(self.records)
        self.graph: GraphStore = NetworkxGraphStore(self._follower)
        self.inspect = Inspecting(self.records, self.logs, self.graph, clock)
        self.reindex = Reindex(self.records, self._embedder)
        self.examine = Examining(self.records, self.reindex, self._embedder.id, self.index_examiner)
        self.maintain = Maintain(self.records, self._embedder, self._counter, clock, self.tokens.person_of)
        self.stirred = threading.Event()
        """Set when there may be something for `keep_up` to do: a log has grown, or the embedder answers again."""
        self._feeding = Feeding(self.records, self.logs, self._drafting, clock, self._giving_way.pause)
        self.checkpoints = Checkpointing(self.records, self.logs, self._counter)
        self._forget = Forget(self.records, self._erase_derived, clock)
        self._revise = Revise(self.records, self._embedder, self._counter, self._redactor, clock)

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens as the store does."""
        return self._counter

    @property
    def membership(self) -> Membership:
        """The namespace of this process: what the settings name, else what its folder is trusted with.

        Decided at the first need, and for the life of the process, whose calls all belong together; not yet where it
        could not be written down that a namespace is this folder's now.

        Raises:
            InvalidRequest: the working directory is gone.
            StoreUnavailable: nobody knows whom the folder belongs to.
        """
        with self._joining:
            decided = self._membership or self._decide()
            if decided.state != "free" or not self._takes:
                self._membership = decided
            return decided

    def _decide(self) -> Membership:
        if self.settings.namespace is not None:
            return Membership(namespace=self.settings.namespace, state="named")
        return self.trust.membership(read_project(self._folder), takes=self._takes)

    def caller(self, session_id: str | None = None, client: str = "") -> Caller:
        """Who asks through this process, in the session named by the call, the settings, or the process itself.

        Raises as `membership` does.
        """
        settings = self.settings
        self._client = client = client or self._client  # One process serves one client; upkeep counts as it does.
        mine = Caller(
            namespace=self.membership.namespace,
            agent=settings.agent,
            session_id=self._session,
            named_session=settings.session is not None,
            inherited=tuple(settings.inherit),
            client=client,
        )
        return mine.in_session(session_id)

    def remember(self, items: Sequence[NewRecord], caller: Caller, *, advise: bool = True) -> list[Remembered]:
        with self._giving_way.ahead():
            remembered = self._services.remember(items, caller, advise=advise)
        self.stirred.set()
        if not any(one.degraded for one in remembered):
            with contextlib.suppress(StoreUnavailable):  # What waits for its vectors goes on waiting.
                self.reindex.catch_up(EMBEDDED_AT_ONCE)
        return remembered

    def recall(self, request: RecallRequest, caller: Caller) -> RecallAnswer:
        with self._giving_way.ahead():
            return self._services.recall(request, caller, self.factor(caller))

    def gather_evidence(self, query: str, caller: Caller, limit: int) -> Evidence:
        """What recall weighs to rank records for a query, for whoever measures how it does."""
        return self._services.querying.gather(query, visible_to(self.records, caller), limit)

    def assemble_context(self, request: ContextRequest, caller: Caller) -> Context:
        if self.is_apart(caller):
            request = replace(request, notice=NOTICE, short_notice=SHORT_NOTICE)
        with self._giving_way.ahead():
            return self._services.assemble_context(request, caller, self.factor(caller))

    def add_event(self, context_id: str, record_id: str, caller: Caller) -> Context:
        return self._services.assemble_context.add_event(context_id, record_id, caller, self.factor(caller))

    def remind(self, prompt: str, known: Collection[str], max_tokens: int, caller: Caller) -> Reminder:
        """What a prompt calls for beside the known ids, in at most so many of the client's tokens."""
        return self._services.remind(prompt, known, max_tokens, caller, self.factor(caller))

    def checkpoint(self, caller: Caller) -> str | None:
        """Write down where the caller's session stands; the record's id, None where there is nothing to say."""
        item = self.checkpoints.draft(caller)
        return self.remember([item], caller)[0].id if item else None

    def feed(self, told: Iterable[NewRecord], caller: Caller) -> Fed:
        """Add what is new of a conversation to the log of the caller's session."""
        fed = self._feeding(told, caller)
        if fed.stored:
            self.stirred.set()
        return fed

    def compact(self, request: CompactRequest, caller: Caller, tell: Tell = lambda step: None) -> Compacted:
        summary = clean_text(request.summary, self._redactor.redact)
        instructions, prompt = (without_controls(text)[0] for text in (request.instructions, request.prompt))
        request = replace(request, summary=summary.text, instructions=instructions, prompt=prompt)
        done = self._compact(request, caller, self.factor(caller), tell)
        return replace(done, redacted=summary.redacted, cleaned=summary.cleaned)

    def keep_up(self, *, maintains: bool = True) -> bool:
        """One small step of what is due without being asked; False where nothing is. Raises StoreUnavailable.

        Where it `maintains`, old records are moved on; logs are compacted, what waits for its vectors is embedded, and
        what was erased goes from the files, where others kept them in use.
        """
        is_busy = maintains and self.maintain.step(patiently=False).records > 0
        is_busy = is_busy or self.idle_compaction.step()
        return is_busy or self.reindex.catch_up() > 0 or self._forget.finish()

    def revise(self, revision: Revision, caller: Caller) -> Record:
        return self._revise(revision, caller)

    def forget(self, record_ids: Sequence[str], mode: Mode, caller: Caller) -> Forgotten:
        forgotten = self._forget(record_ids, mode, caller)
        if not forgotten.purged:
            self.stirred.set()
        return forgotten

    @property
    def notice(self) -> str:
        """What a client is told first where the folder was not given the namespace that it claims; else "".

        Looking takes nothing, and no fault is told here: each call tells it.
        """
        with contextlib.suppress(McpMemoryError):
            if self.settings.namespace is None:
                looked_at = self.trust.membership(read_project(self._folder), takes=False)
                return NOTICE if looked_at.is_refused else ""
        return ""

    def is_apart(self, caller: Caller) -> bool:
        """True where the caller works in the own namespace of a folder that claims another, which it was not given."""
        membership = self.membership
        return membership.is_refused and caller.namespace == membership.namespace

    def status(self, caller: Caller) -> dict[str, Json]:
        """Counts, the state of the store, and how budgets are counted for this client."""
        factor = self.factor(caller)
        tokens: dict[str, Json] = {
            "encoding": self._counter.name,
            "family": factor.family,
            "factor": factor.factor,
            "known_error": factor.known_error,
        }
        state = self.index.state()  # Its figures are of everybody's records.
        index: dict[str, Json] = {"mode": state.mode, "state": state.state, "reason": state.reason}
        options = self._compact.options(None, None, factor)
        log = log_standing(self.logs, caller, options, factor.factor)
        log["passes"] = pass_tallies(self.logs, caller, self._clock(), factor.factor)
        folder = shown_membership(self.membership)
        return self.inspect.status(caller) | {"folder": folder, "tokens": tokens, "index": index, "session_log": log}

    def describe(self, record_id: str, caller: Caller) -> dict[str, Json]:
        return self.inspect.record(record_id, caller)

    def session_log(self, session_id: str, caller: Caller) -> dict[str, Json]:
        factor = self.factor(caller)
        standing = log_standing(
            self.logs, caller.in_session(session_id), self._compact.options(None, None, factor), factor.factor
        )
        return self.inspect.session_log(session_id, caller) | {"log": standing}

    def context_report(self, context_id: str, caller: Caller) -> dict[str, Json]:
        return self.inspect.context(context_id, caller)

    def factor(self, caller: Caller) -> ModelFactor:
        """How the client's tokens relate to those counted: from the settings, else by the client's name."""
        chosen = self.settings.token_factor
        if chosen != "auto":
            return ModelFactor(family="configured", factor=chosen, known_error=None, source="MCP_MEMORY_TOKEN_FACTOR")
        return factor_for(caller.client)

    def parse_instant(self, text: str) -> Instant:
        """An ISO time, a date or a phrase as an instant. Raises InvalidRequest."""
        return self._services.querying.instant(text)

    def parse_span(self, since: str | None, until: str | None) -> tuple[Instant | None, Instant | None]:
        """Where the span of `since` begins and that of `until` ends, each as `parse_instant`. Raises InvalidRequest."""
        return self._services.querying.between(since, until)

    def warm(self) -> None:
        """Load everything slow, so that the first call need not: model, vocabulary, detectors, dates, indexes."""
        self._counter.load()
        with contextlib.suppress(StoreUnavailable):  # Every call says so, with the remedy.
            vector = self._embedder.embed_query("warm")
            self._services.vectors.search(vector, self.caller().scopes, 1)
            while self.reindex.catch_up():
                pass
        self._services.keywords.search(["warm"], self.caller().scopes, 1)
        self._services.filters.passing(RecordFilter(scopes=self.caller().scopes))
        self.graph.mentioned("warm", self.caller().scopes)
        self._redactor.redact("warm")
        pick_strategy("warm")
        self._dates.read("yesterday", self._clock())
        with contextlib.suppress(StoreUnavailable):
            self.index.erase(())  # What was erased by a process that was killed before it could purge.
            self.records.purge()
        self.index.start()  # Last: its process takes a second of a core to start.

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._made is not None:
            self._made.index.close()
        self.records.close()

    def index_examiner(self) -> IndexExaminer:
        """Looks at what is kept of indexes, by whichever process; starts none."""
        from mcp_memory.stores.vectors.chroma.integrity import ChromaExaminer
        from mcp_memory.stores.vectors.exact import ExactVectorStore

        exact = ExactVectorStore(Follower(self.records), self._embedder.id, embedder_mismatch)
        place = make_index_place(self.settings, self._embedder.id)
        return ChromaExaminer(self.records, exact, place, least_vectors=self.settings.chroma_least_vectors)

    def _erase_derived(self, record_ids: Collection[str]) -> None:
        """Made with the services, which are made late."""
        self.index.erase(record_ids)
        self._services.assemble_context.forget()

    @property
    def index(self) -> VectorIndex:
        """The index behind search by meaning; `warm` starts it."""
        return self._services.index

    @property
    def _services(self) -> "_Services":
        """The services that search vectors: made at the first call, since they import numpy."""
        with self._making:
            if self._made is None:
                self._made = self._make_services()
            return self._made

    def _make_services(self) -> "_Services":
        # These import numpy: after the handshake.
        from mcp_memory.stores.filters import BitmapFilterIndex
        from mcp_memory.stores.keywords.index import InformationKeywordStore
        from mcp_memory.stores.vectors.chroma import ChromaVectorStore
        from mcp_memory.stores.vectors.exact import ExactVectorStore

        records, counter, clock = self.records, self._counter, self._clock
        follower = self._follower
        exact = ExactVectorStore(follower, self._embedder.id, embedder_mismatch)
        place = make_index_place(self.settings, self._embedder.id)
        vectors = ChromaVectorStore(exact, place, records.identity, least_vectors=self.settings.chroma_least_vectors)
        keywords = InformationKeywordStore(follower)
        filters = BitmapFilterIndex(follower)
        sources = (
            KeywordSource(records, filters, keywords),
            VectorSource(records, filters, vectors),
            TimeSpanSource(filters),
            GraphSource(records, filters, self.graph, keywords),
        )
        querying = Querying(
            records, vectors, keywords, filters, self._embedder, self._dates, sources, self._pool, clock
        )
        return _Services(
            vectors=vectors,
            index=vectors,
            keywords=keywords,
            filters=filters,
            querying=querying,
            remember=Remember(records, follower, vectors, self._drafting, counter, self._given_out, clock),
            recall=Recall(records, follower, self.logs, querying, counter, self._given_out, clock),
            remind=Reminding(
                records, follower, querying, counter, clock, takes_guidance=self.settings.guidance_from_others
            ),
            assemble_context=AssembleContext(
                records,
                follower,
                vectors,
                querying,
                self.graph,
                filters,
                counter,
                self._given_out,
                clock,
                read_strategies(self.settings.strategies_file),
                overridden,
                self.settings.max_tokens,
                takes_guidance=self.settings.guidance_from_others,
            ),
        )

    def _count_patiently(self, text: str) -> int:
        """Tokens of a text, for long work: this is what all of it does again and again."""
        self._giving_way.pause()
        return self._counter.count(text)

    @cached_property
    def idle_compaction(self) -> IdleCompaction:
        """What keeps logs inside their windows without being asked."""
        idle_seconds = 60 * self.settings.compaction_idle_minutes
        own, person_of = self.caller(), self.tokens.person_of
        return IdleCompaction(
            self._compact, self.logs, own, idle_seconds, lambda: self.factor(self.caller()), self._clock, person_of
        )

    @cached_property
    def _compact(self) -> Compact:
        # Made at the first need: passes and summarizers take a tenth of the time to the handshake.
        from mcp_memory.services.sessions.summarize_span import SummingUp

        settings, counter = self.settings, self._counter
        extracting = Extracting(self.records, self._embedder, counter, self._giving_way.pause, self.tokens.person_of)
        summarizers = make_summarizers(settings, self._embedder, counter)
        return Compact(
            self.records,
            self.logs,
            Committing(self.records, self.logs, self._drafting, extracting, self._clock),
            SummingUp(self.records, summarizers, counter),
            lambda write: make_passes(self._count_patiently, self._giving_way.pause, write),
            settings.compaction,
            settings.compaction_window,
            settings.compaction_passes,
            self._clock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Services:
    vectors: VectorStore
    index: VectorIndex
    keywords: KeywordStore
    filters: FilterIndex
    querying: Querying
    remember: Remember
    recall: Recall
    remind: Reminding
    assemble_context: AssembleContext


def open_app(
    settings: Settings,
    clock: Clock = time.time,
    embedder: Embedder | None = None,
    *,
    folder: Path | None = None,
    takes: bool = True,
) -> App:
    """Open the store and make the services; nothing slow is loaded yet.

    Where the settings name no namespace it is that of `folder`, by default the working directory. A process that only
    looks does not `take` one that is free.

    Raises:
        StoreUnavailable: the data directory cannot be used; the message names the remedy.
    """
    return App(settings, clock, embedder, folder=folder, takes=takes)


def token_counter(encoding: str) -> TokenCounter:
    """Counts tokens of a public encoding, for whoever checks a budget without opening a store."""
    return TiktokenCounter(encoding)

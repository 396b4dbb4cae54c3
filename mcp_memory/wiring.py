"""The composition root: from settings to stores to services. Only this module and extensions.py name concrete classes.

Only the record store is made, and its modules imported, before it is needed: a client waits for the handshake.
"""

from __future__ import annotations

import shutil
import sys
import threading
from functools import cache, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from mcp_memory import extensions
from mcp_memory.domain.text.times import use_zone, zone
from mcp_memory.errors import StoreUnavailable
from mcp_memory.locations import NOTES_FOLDER
from mcp_memory.services.access.served_requests import RequestsServed
from mcp_memory.services.sessions.call_priority import CallPriority
from mcp_memory.settings import Settings, at_work, zone_at_work
from mcp_memory.stores.records import FILE_NAME, Copy, SqliteRecordStore, SqlRecordStore, copies, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from mcp_memory.domain.context.items import Measure
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.domain.model.token_factor import ModelFactor
    from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
    from mcp_memory.ports.access import ProcessLocks
    from mcp_memory.ports.files import FileStore
    from mcp_memory.ports.indexes import IndexExaminer
    from mcp_memory.ports.retrieval import FilterIndex, GraphStore, KeywordStore
    from mcp_memory.ports.text import Clock, DateReader, Embedder, Redactor
    from mcp_memory.services.access.access_tokens import AccessTokens
    from mcp_memory.services.access.client_windows import ClientWindows
    from mcp_memory.services.access.folder_trust import Trust
    from mcp_memory.services.access.projects import Projects
    from mcp_memory.services.access.quotas import Quotas
    from mcp_memory.services.access.read_log import ReadLog
    from mcp_memory.services.context.assemble import AssembleContext
    from mcp_memory.services.context.choose_strategy import StrategyChooser
    from mcp_memory.services.context.exclusions import Exclusions
    from mcp_memory.services.context.guard import Guard
    from mcp_memory.services.context.remind import Remind
    from mcp_memory.services.memory.extract import Extractor
    from mcp_memory.services.memory.file_copies import FileCopies
    from mcp_memory.services.memory.follow_files import FollowFiles
    from mcp_memory.services.memory.forget import Forget
    from mcp_memory.services.memory.learn import Learn
    from mcp_memory.services.memory.maintain import Maintain
    from mcp_memory.services.memory.merge import Moving
    from mcp_memory.services.memory.prepare_record import RecordPreparer
    from mcp_memory.services.memory.reindex import Reindex
    from mcp_memory.services.memory.remember import Remember
    from mcp_memory.services.memory.revise import Revise
    from mcp_memory.services.memory.task_results import TaskResults
    from mcp_memory.services.retrieval.alike_tasks import AlikeTasks
    from mcp_memory.services.retrieval.recall import Recall
    from mcp_memory.services.retrieval.search import Searcher
    from mcp_memory.services.review.corrected_values import Corrections
    from mcp_memory.services.review.fill_queue import FillQueue
    from mcp_memory.services.review.near_records import NearRecords
    from mcp_memory.services.review.reviews import Reviews
    from mcp_memory.services.review.settle import Settle
    from mcp_memory.services.review.undo import Undo
    from mcp_memory.services.sessions.carried_session import CarriedSession
    from mcp_memory.services.sessions.checkpoint import CheckpointWriter
    from mcp_memory.services.sessions.compact import Compact, Compacted
    from mcp_memory.services.sessions.feed import LogFeeder
    from mcp_memory.services.sessions.message_files import Attachments
    from mcp_memory.services.sessions.session_account import SessionAccounts
    from mcp_memory.services.status.context_account import ContextAccounts
    from mcp_memory.services.status.integrity_check import IntegrityCheck
    from mcp_memory.services.status.overview import Overview
    from mcp_memory.services.tasks.task_stack import TaskStack
    from mcp_memory.services.tasks.waiting_tasks import WaitingTasks
    from mcp_memory.stores.follower import Follower
    from mcp_memory.stores.own_shown import OwnShown
    from mcp_memory.stores.records.shown import SqlShown
    from mcp_memory.stores.vectors.chroma.location import IndexPlace
    from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore
    from mcp_memory.stores.vectors.exact import ExactVectorStore
    from mcp_memory.stores.vectors.pgvector import PgvectorStore

SOURCE_THREADS = 4
INDEX_FOLDER, WINDOWS_FOLDER, FILES_FOLDER = "chroma", "windows", "files"
FORMER_FOLDER, FORMER_INDEX_FOLDER = "arrays", "index"
"""The folders in which earlier builds kept files of their indexes, which hold what was stored."""
Made = TypeVar("Made")


class made_once(Generic[Made]):  # noqa: N801 - reads as the decorator that it is, as `property` does
    """An attribute that is made on first use; several threads that ask at once get the same object."""

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, wiring: None, owner: object = None) -> made_once[Made]: ...
    @overload
    def __get__(self, wiring: Wiring, owner: object = None) -> Made: ...
    def __get__(self, wiring: Wiring | None, owner: object = None) -> made_once[Made] | Made:
        """Make the attribute and store it in the instance, where Python finds it from then on."""
        if wiring is None:
            return self
        with wiring.making:
            made = vars(wiring)
            if self._name not in made:
                made[self._name] = self._make(wiring)
            return made[self._name]


class Wiring:
    """Stores and services over one database, for one process. Thread-safe."""

    def __init__(self, settings: Settings, clock: Clock, embedder: Embedder | None = None) -> None:
        """Open the database: a server whose memory cannot be opened does not start. Raises StoreUnavailable."""
        self.settings = settings
        own_zone = cache(settings.zone)  # It takes 17 ms.
        use_zone(lambda: zone_at_work() or own_zone())
        self.making = threading.RLock()
        """Held while an attribute is made."""
        self.call_priority = CallPriority()
        self._clock = clock
        self._embedder = embedder or extensions.embedder(settings)
        self._end_traces = extensions.traces(settings)
        self._end_figures: Callable[[], object] = lambda: None
        self.records = record_store(settings, self._embedder.id, clock)
        self.logs = self.records.session_logs()
        self.opened_at = self.records.revision()
        """The revision at which this process opened the memory."""

    def begun(self, caller: Caller) -> int:
        """Return the revision at which the caller's session began, as far as this process knows."""
        return self.opened_at

    @made_once
    def counter(self) -> TiktokenCounter:
        """Counts tokens as the store does."""
        return token_counter(self.settings.encoding)

    @made_once
    def dates(self) -> DateReader:
        """Reads phrases about time, e.g. "last week"."""
        from mcp_memory.language.dates_dateparser import DateParserReader

        return DateParserReader(zone)

    @made_once
    def redactor(self) -> Redactor:
        """Takes secrets out of texts."""
        from mcp_memory.language.secrets_re2 import NoRedactor, SecretRedactor

        return SecretRedactor() if self.settings.redact_secrets else NoRedactor()

    @made_once
    def follower(self) -> Follower:
        """Holds every request, and every index in memory, at one revision."""
        return self._new_follower()

    @made_once
    def graph(self) -> GraphStore:
        """Entities, relations and links, in memory."""
        from mcp_memory.stores.graph.store import LinkGraphStore

        return LinkGraphStore(self.follower)

    @made_once
    def keywords(self) -> KeywordStore:
        """The keyword index, in memory."""
        from mcp_memory.stores.keywords.store import InformationKeywordStore

        return InformationKeywordStore(self.follower)

    @made_once
    def filters(self) -> FilterIndex:
        """The index that resolves filters, in memory."""
        from mcp_memory.stores.filter_index import BitmapFilterIndex

        return BitmapFilterIndex(self.follower)

    @made_once
    def index(self) -> ChromaVectorStore | PgvectorStore:
        """Vector search, and the index behind it, which `warm` starts."""
        if (store := self._by_pgvector(self.follower)) is not None:
            return store
        from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore

        leases = self.records.leases()
        return ChromaVectorStore(self._exact(self.follower), self._place(), self.records.identity, leases=leases)

    def index_examiner(self) -> IndexExaminer:
        """Checks the stored index; starts none."""
        follower = self._new_follower()  # Its own: it looks at the index, holds no request.
        if (store := self._by_pgvector(follower)) is not None:
            return store
        from mcp_memory.stores.vectors.chroma.integrity import ChromaExaminer

        return ChromaExaminer(self.records, self._exact(follower), self._place())

    @made_once
    def tokens(self) -> AccessTokens:
        """Access tokens."""
        from mcp_memory.services.access.access_tokens import AccessTokens

        return AccessTokens(self.records.tokens(), self._clock, self.trust.present)

    @made_once
    def reads(self) -> ReadLog:
        """The log of reads."""
        from mcp_memory.services.access.read_log import ReadLog

        def seen(ids: Sequence[str], caller: Caller) -> Collection[str]:
            return self.inspect.seen_of(ids, caller).keys()

        return ReadLog(self.records.reads(), seen, self._clock, self.settings.read_log_days)

    @made_once
    def serving(self) -> RequestsServed:
        """Serves requests, each with its id, its line in the log, and its entry in the log of reads."""
        return RequestsServed(self.reads.note if self.settings.read_log_days else None)

    @made_once
    def trust(self) -> Trust:
        """Trusted folders."""
        from mcp_memory.services.access.folder_trust import Trust

        return Trust(self.records.folders(), self.records.projects(), self._clock)

    @made_once
    def quotas(self) -> Quotas:
        """Quotas of projects and persons."""
        from mcp_memory.services.access.quotas import Quotas

        return Quotas(self.records.quotas(), self._clock)

    @made_once
    def projects(self) -> Projects:
        """Projects by their names."""
        from mcp_memory.projects import look_at
        from mcp_memory.services.access.projects import Projects

        return Projects(self.records, self.records.projects(), look_at, self._clock)

    @made_once
    def tasks(self) -> TaskStack:
        """The task tree."""
        from mcp_memory.services.tasks.task_stack import TaskStack

        return TaskStack(
            records=self.records,
            redactor=self.redactor,
            clock=self._clock,
            keep_results=self.task_results,
            elsewhere=self.windows.elsewhere,
        )

    @made_once
    def waiting_tasks(self) -> WaitingTasks:
        """Tasks that a person lets wait."""
        from mcp_memory.services.tasks.waiting_tasks import WaitingTasks

        return WaitingTasks(self.records, self._clock, self.windows.elsewhere)

    @made_once
    def alike_tasks(self) -> AlikeTasks:
        """Finds tasks whose goals mean the same."""
        from mcp_memory.services.retrieval.alike_tasks import AlikeTasks

        return AlikeTasks(self.records, self.searcher, self._embedder)

    @made_once
    def windows(self) -> ClientWindows:
        """The windows that this process serves, each at a place of its own in the task tree."""
        from mcp_memory.services.access.client_windows import ClientWindows

        return ClientWindows(self.records, self._locks, self._clock, self.trust.present)

    @made_once
    def _locks(self) -> ProcessLocks:
        """Locks between the processes of this memory."""
        from mcp_memory.stores.process_locks import FileProcessLocks

        return FileProcessLocks(self.settings.data_dir / WINDOWS_FOLDER)

    @made_once
    def task_results(self) -> TaskResults:
        """Keeps what tasks came to as records."""
        from mcp_memory.services.memory.task_results import TaskResults

        return TaskResults(self.records, self._drafting, self._clock, self.reindex.catch_up)

    @made_once
    def reindex(self) -> Reindex:
        """Embeds what was stored without vectors."""
        from mcp_memory.services.memory.reindex import Reindex

        return Reindex(self.records, self._embedder)

    @made_once
    def maintain(self) -> Maintain:
        """Moves records on that are due by their lifecycle."""
        from mcp_memory.services.memory.maintain import Maintain

        return Maintain(self.records, self._clock, self.settings)

    @made_once
    def revise(self) -> Revise:
        """Changes a record."""
        from mcp_memory.services.memory.revise import Revise

        return Revise(
            records=self.records,
            embedder=self._embedder,
            counter=self.counter,
            redactor=self.redactor,
            shown_texts=self._shown,
            clock=self._clock,
            near=self.near,
            reviews=self.reviews,
        )

    @made_once
    def moving(self) -> Moving:
        """Takes memory out, and another one's in."""
        from mcp_memory.services.memory.merge import Moving

        return Moving(self.records, self._clock, self.trust.present_unless_used)

    @made_once
    def reviews(self) -> Reviews:
        """The queue of groups to review."""
        from mcp_memory.services.review.reviews import Reviews

        return Reviews(self.records, self.records.reviews(), self._clock)

    @made_once
    def fill_queue(self) -> FillQueue:
        """Fills the queue of groups to review."""
        from mcp_memory.services.review.fill_queue import FillQueue

        return FillQueue(
            records=self.records,
            reviews=self.records.reviews(),
            snapshots=self.follower,
            vectors=self.index,
            keywords=self.keywords,
            filters=self.filters,
            embedder=self._embedder,
            clock=self._clock,
        )

    @made_once
    def settle(self) -> Settle:
        """Settles a group of the queue."""
        from mcp_memory.services.review.settle import Settle

        return Settle(
            records=self.records,
            embedder=self._embedder,
            counter=self.counter,
            redactor=self.redactor,
            clock=self._clock,
        )

    @made_once
    def undo(self) -> Undo:
        """Takes a write back."""
        from mcp_memory.services.review.undo import Undo

        return Undo(self.records, self.reviews, self._embedder)

    @made_once
    def exclusions(self) -> Exclusions:
        """Exclusions: records that contexts give no more."""
        from mcp_memory.services.context.exclusions import Exclusions

        return Exclusions(self.records, self._clock)

    @made_once
    def inspect(self) -> Overview:
        """Shows what is stored."""
        from mcp_memory.services.status.overview import Overview

        return Overview(self.records, self.graph, self.reviews, self._clock)

    @made_once
    def accounts(self) -> ContextAccounts:
        """Shows contexts that were given, line by line."""
        from mcp_memory.services.status.context_account import ContextAccounts

        return ContextAccounts(self.records, self.counter)

    @made_once
    def session_accounts(self) -> SessionAccounts:
        """Shows sessions: the log, its compactions, and what they state."""
        from mcp_memory.services.sessions.session_account import SessionAccounts

        return SessionAccounts(self.records, self.logs, self.counter)

    @made_once
    def examine(self) -> IntegrityCheck:
        """Compares all derived data with the truth."""
        from mcp_memory.services.status.integrity_check import IntegrityCheck

        return IntegrityCheck(
            records=self.records,
            reindex=self.reindex,
            embedder=self._embedder.id,
            indexes=self.index_examiner,
            attachments=self.attachments,
        )

    @made_once
    def checkpoints(self) -> CheckpointWriter:
        """Drafts a record of a session's current state."""
        from mcp_memory.services.sessions.checkpoint import CheckpointWriter

        return CheckpointWriter(self.records, self.logs, self.counter)

    @made_once
    def carried_session(self) -> CarriedSession:
        """Says what a session holds when its client has compacted it."""
        from mcp_memory.services.sessions.carried_session import CarriedSession

        return CarriedSession(self.logs, self.counter)

    @made_once
    def searcher(self) -> Searcher:
        """Ranks records for a query."""
        from concurrent.futures import ThreadPoolExecutor

        from mcp_memory.services.retrieval.search import Searcher

        records, vectors, keywords, filters = self.records, self.index, self.keywords, self.filters
        pool = self.pool = ThreadPoolExecutor(SOURCE_THREADS, thread_name_prefix="sources")
        sources = extensions.sources(records, filters, keywords, vectors, self.graph)
        return Searcher(
            records=records,
            vectors=vectors,
            keywords=keywords,
            filters=filters,
            graph=self.graph,
            embedder=self._embedder,
            dates=self.dates,
            sources=sources,
            pool=pool,
            clock=self._clock,
            corrections=self._corrections,
        )

    @made_once
    def _corrections(self) -> Corrections:
        from mcp_memory.services.review.corrected_values import Corrections

        return Corrections(self.records, self.records.reviews(), self.index, self._embedder)

    @made_once
    def _shown(self) -> OwnShown | SqlShown:
        """Keeps what clients were shown: in the database, where servers share one."""
        from mcp_memory.stores.own_shown import OwnShown

        return self.records.shown() or OwnShown(self.begun)

    @made_once
    def _drafting(self) -> RecordPreparer:
        from mcp_memory.services.memory.prepare_record import RecordPreparer

        return RecordPreparer(self._embedder, self.counter, self.redactor)

    @made_once
    def _remember(self) -> Remember:
        from mcp_memory.services.memory.remember import Remember
        from mcp_memory.services.review.dependence import GroundFinder

        return Remember(
            records=self.records,
            snapshots=self.follower,
            near=self.near,
            drafting=self._drafting,
            counter=self.counter,
            shown_texts=self._shown,
            grounds=GroundFinder(self.records, self.keywords, self.filters),
            clock=self._clock,
            reviews=self.reviews,
        )

    @made_once
    def learn(self) -> Learn:
        """Proposes and stores what a history tells."""
        from mcp_memory.services.memory.learn import Learn

        return Learn(self.records, self._drafting, self._remember)

    @made_once
    def file_copies(self) -> FileCopies:
        """Compares files that people keep with a project's records."""
        from mcp_memory.services.memory.file_copies import FileCopies

        return FileCopies(self.records, self._drafting, self.learn, self.revise, self._forget)

    @made_once
    def follow_files(self) -> FollowFiles:
        """Lets records say what clients' memory files say."""
        from mcp_memory.services.memory.follow_files import FollowFiles

        return FollowFiles(self.records, self._drafting, self._remember, self._shown, self._clock)

    @made_once
    def near(self) -> NearRecords:
        """Finds what a record contradicts or repeats."""
        from mcp_memory.services.review.near_records import NearRecords

        return NearRecords(
            records=self.records,
            snapshots=self.follower,
            vectors=self.index,
            keywords=self.keywords,
            filters=self.filters,
            embedder=self._embedder,
            corrections=self._corrections,
        )

    @made_once
    def _forget(self) -> Forget:
        from mcp_memory.services.memory.forget import Forget

        return Forget(
            records=self.records,
            erase_derived=self._erase_derived,
            shown_texts=self._shown,
            counter=self.counter,
            clock=self._clock,
        )

    @made_once
    def _recall(self) -> Recall:
        from mcp_memory.services.retrieval.recall import Recall

        return Recall(
            records=self.records,
            snapshots=self.follower,
            logs=self.logs,
            searcher=self.searcher,
            filters=self.filters,
            counter=self.counter,
            shown_texts=self._shown,
            clock=self._clock,
        )

    @made_once
    def _remind(self) -> Remind:
        from mcp_memory.services.context.remind import Remind

        return Remind(
            records=self.records,
            snapshots=self.follower,
            searcher=self.searcher,
            reindex=self.reindex,
            counter=self.counter,
            clock=self._clock,
            settings=self.settings,
        )

    @made_once
    def _guard(self) -> Guard:
        from mcp_memory.services.context.guard import Guard

        return Guard(self.records, self.follower, self._clock, self.settings)

    @made_once
    def _assemble(self) -> AssembleContext:
        from mcp_memory.services.context.assemble import AssembleContext

        return AssembleContext(
            records=self.records,
            snapshots=self.follower,
            vectors=self.index,
            searcher=self.searcher,
            graph=self.graph,
            filters=self.filters,
            counter=self.counter,
            shown_texts=self._shown,
            shown_contexts=self._shown,
            clock=self._clock,
            chooser=lambda: chooser_of((at_work() or self.settings).strategies_file),
            elsewhere=self.windows.elsewhere,
            settings=self.settings,
        )

    @made_once
    def _feed(self) -> LogFeeder:
        from mcp_memory.services.sessions.feed import LogFeeder

        return LogFeeder(
            records=self.records,
            logs=self.logs,
            drafting=self._drafting,
            attachments=self.attachments,
            clock=self._clock,
            pause=self.call_priority.pause,
        )

    @made_once
    def attachments(self) -> Attachments:
        """The images and documents of conversations."""
        from mcp_memory.services.sessions.message_files import Attachments

        return Attachments(
            self.records, self.records.files() or files_in(self.settings.data_dir / FILES_FOLDER), self.settings
        )

    @made_once
    def extracting(self) -> Extractor:
        """The service that makes records of what sessions taught."""
        from mcp_memory.services.memory.extract import Extractor

        return Extractor(
            records=self.records,
            counter=self.counter,
            clock=self._clock,
            pause=self.call_priority.pause,
            person_of=self.tokens.person_of,
        )

    @made_once
    def _compact(self) -> Compact:
        from mcp_memory.domain.model.session_log import PRESETS
        from mcp_memory.services.sessions.commit_plan import PlanCommitter
        from mcp_memory.services.sessions.compact import Compact
        from mcp_memory.services.sessions.summarize_span import SummingUp

        settings, counter, pause = self.settings, self.counter, self.call_priority.pause
        summarizers = extensions.summarizers(settings, counter)
        others = extensions.added(settings.compaction_extensions)

        def count_patiently(text: str) -> int:
            """Count a text's tokens for long work, pausing first: all long work counts again and again."""
            pause()
            return counter.count(text)

        def watch(done: Compacted) -> None:
            for each in others:
                each.tell(done)

        return Compact(
            records=self.records,
            logs=self.logs,
            committing=PlanCommitter(
                records=self.records,
                logs=self.logs,
                drafting=self._drafting,
                extracting=self.extracting,
                clock=self._clock,
            ),
            summing_up=SummingUp(self.records, summarizers, counter),
            passes_of=lambda write: extensions.passes(count_patiently, pause, write, others),
            settings=settings,
            clock=self._clock,
            presets=dict(chain(PRESETS.items(), *(each.presets.items() for each in others))),
            watch=watch,
        )

    def backup(self, file: Path) -> None:
        """Copy the whole memory into a new file, and its images and documents beside that. Raises StoreUnavailable."""
        self.records.backup(str(file))
        if self.records.files() is None:  # Else they are in what was copied.
            self.attachments.copy_to(files_beside(file))

    def close(self) -> None:
        """Close the database, and the index where there is one."""
        made = vars(self)
        if "pool" in made:
            self.pool.shutdown(wait=False, cancel_futures=True)
        if "index" in made:
            self.index.close()
        if "windows" in made:
            self.windows.close()
        if "reads" in made:
            self.reads.close()
        self._end_figures()
        self.records.close()
        self._end_traces()

    def send_figures(self, collect: Callable[[], Iterable[Any]]) -> None:
        """Send the families of Prometheus' registry by OTLP until the memory is closed, if the settings say so."""
        self._end_figures = extensions.figures(self.settings, collect)

    def _erase_derived(self, record_ids: Collection[str]) -> None:
        drop_former_files(self.settings)
        self.index.erase(record_ids)
        self._assemble.forget()
        self.attachments.sweep()

    def _new_follower(self) -> Follower:
        from mcp_memory.stores.follower import Follower

        return Follower(self.records, int(self.settings.index_max_mb * (1 << 20)))

    def _exact(self, follower: Follower) -> ExactVectorStore:
        from mcp_memory.stores.records.transaction import embedder_mismatch
        from mcp_memory.stores.vectors.exact import ExactVectorStore

        return ExactVectorStore(follower, self._embedder.id, embedder_mismatch)

    def _by_pgvector(self, follower: Follower) -> PgvectorStore | None:
        """Return vector search with pgvector's help, where the settings and the database have it."""
        place, candidates = self._place(), self.records.pushed_vectors()
        if place.mode != "pgvector" or candidates is None:
            return None
        from mcp_memory.stores.records.transaction import embedder_mismatch
        from mcp_memory.stores.vectors.pgvector import PgvectorStore

        return PgvectorStore(follower, self._embedder.id, embedder_mismatch, candidates, place)

    def _place(self) -> IndexPlace:
        """Return the place that the settings name for the vector index."""
        from mcp_memory.shielded_chroma import is_installed
        from mcp_memory.stores.vectors.chroma.location import IndexPlace

        settings, key = self.settings, self.settings.chroma_api_key
        return IndexPlace.named(
            settings.semantic_store,
            root=str(settings.data_dir.absolute() / INDEX_FOLDER),  # The index process has another working directory.
            embedder=self._embedder.id,
            lacks_chroma=not is_installed(),
            tenant=settings.chroma_tenant,
            database=settings.chroma_database,
            headers={name: value.get_secret_value() for name, value in settings.chroma_headers.items()},
            api_key=key.get_secret_value() if key else "",
        )


def chooser_of(file: Path | None) -> StrategyChooser:
    """Return what chooses among the built-in strategies and those of the file as it is now. Raises InvalidRequest."""
    try:
        changed_at = file.stat().st_mtime_ns if file else 0
    except OSError:  # To read it says why.
        changed_at = 0
    return _chooser(file, changed_at)


@lru_cache(maxsize=16)
def _chooser(file: Path | None, _changed_at: int) -> StrategyChooser:
    from mcp_memory.services.context.choose_strategy import StrategyChooser
    from mcp_memory.strategies import overridden, read_strategies

    return StrategyChooser(read_strategies(file), overridden)


@cache  # It reads its vocabulary once.
def token_counter(encoding: str) -> TiktokenCounter:
    """Return a counter of tokens of a public encoding; needs no store."""
    from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

    return TiktokenCounter(encoding)


def model_factor(chosen: float | Literal["auto"], client: str) -> ModelFactor:
    """Return a client's tokens per counted token: as the settings say, `auto` by the client's or model's name."""
    from mcp_memory.domain.model.token_factor import ModelFactor
    from mcp_memory.encoders.token_factors import factor_for

    if chosen != "auto":
        return ModelFactor(family="configured", factor=chosen, known_error=None, source="MCP_MEMORY_TOKEN_FACTOR")
    return factor_for(client)


def text_measure(encoding: str, factor: float | Literal["auto"] = "auto", client: str = "") -> Measure:
    """Return what counts and cuts texts in a client's tokens, as assembly does; needs no store."""
    from mcp_memory.domain.context.items import Measure

    counter = token_counter(encoding)
    return Measure(count_raw=counter.count, truncate_raw=counter.truncate, factor=model_factor(factor, client))


def record_store(settings: Settings, embedder: str, clock: Clock) -> SqlRecordStore:
    """Open the truth where the settings say that it is. Raises StoreUnavailable with the remedy."""
    if settings.database_url is None:
        return SqliteRecordStore(settings.data_dir, embedder, clock)
    try:
        from mcp_memory.stores.records.store_postgres import PostgresRecordStore
    except ImportError as error:
        raise StoreUnavailable(
            "MCP_MEMORY_DATABASE_URL needs the extra `postgres`; install `mcp-memory-stack[postgres]`."
        ) from error
    migrate_url = settings.migrate_url.get_secret_value() if settings.migrate_url else ""
    address = settings.database_url.get_secret_value()
    return PostgresRecordStore(address, embedder, clock, migrate_url, settings.upkeep_role or "")


def memory_exists(settings: Settings) -> bool:
    """True where the settings name a database, or the data directory holds a memory already."""
    return settings.database_url is not None or (settings.data_dir / FILE_NAME).exists()


def copies_beside(settings: Settings) -> Sequence[Copy]:
    """Return what migrations and `restore` kept beside the memory."""
    return copies(settings.data_dir / FILE_NAME)


def drop_former_files(settings: Settings) -> None:
    """Delete what an earlier version derived: nobody erases from it any more."""
    from mcp_memory.stores.vectors.chroma.index_folder import drop_former_indexes

    shutil.rmtree(settings.data_dir / FORMER_FOLDER, ignore_errors=True)
    drop_former_indexes(settings.data_dir / FORMER_INDEX_FOLDER)


def files_in(folder: Path) -> FileStore:
    """Return the files of a folder, named by their digests."""
    from mcp_memory.stores.kept_files import FileFolder

    return FileFolder(folder)


def files_beside(file: Path) -> FileStore:
    """Return the images and documents of a backup or an export, in a folder beside it: "memory.db.files"."""
    return files_in(file.with_name(f"{file.name}.files"))


def restore_backup(settings: Settings, backup: Path, stamp: str) -> Path | None:
    """Replace the memory with a backup; return the path where the former database is kept.

    Raises:
        InvalidRequest: the file is no sound backup.
        StoreUnavailable: the data directory may not be written.
    """
    from mcp_memory.services.sessions.message_files import copy_files

    kept = restore(settings.data_dir, backup, stamp)
    files = files_beside(backup)
    copy_files(files, files_in(settings.data_dir / FILES_FOLDER), files.digests())
    # An index records erasures by change numbers, which belonged to the former history.
    from mcp_memory.stores.vectors.chroma.index_folder import IndexFolder

    IndexFolder(settings.data_dir / INDEX_FOLDER).erase(sys.maxsize, 0)
    drop_former_files(settings)
    # So do the offsets up to which hooks logged a session's transcript.
    shutil.rmtree(settings.data_dir / NOTES_FOLDER, ignore_errors=True)
    return kept

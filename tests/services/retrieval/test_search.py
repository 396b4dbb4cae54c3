"""Ranking for a query: who is asked beside whom, and what happens when a source gives way."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, get_ident

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.fusion import SourceTraits
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable
from mcp_memory.language.dates_dateparser import DateParserReader
from mcp_memory.ports.retrieval import FilterIndex, KeywordStore, Rarity, Source, VectorStore
from mcp_memory.retrieval.keyword import KeywordSource
from mcp_memory.retrieval.vector import VectorSource
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.retrieval.search import Ranking, Searcher
from mcp_memory.services.review.corrected_values import Corrections
from mcp_memory.services.tasks.branch_visibility import visible_to
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.stores.filter_index import BitmapFilterIndex
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.keywords.store import InformationKeywordStore
from mcp_memory.stores.records.transaction import embedder_mismatch
from mcp_memory.stores.vectors.exact import ExactVectorStore


class GivesWay:
    """A source that finds nothing, and is gone when it is asked again."""

    name = "vector"
    traits = SourceTraits()

    def waits(self, where: RecordFilter) -> bool:
        return False

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        return {}

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        raise StoreUnavailable("The index is gone.")


class MeetsTheOthers:
    """A source that answers only once all of them have been asked. It notes the thread that asks it."""

    traits = SourceTraits()

    def __init__(self, name: str, all_asked: Barrier, *, waits: bool) -> None:
        self.name = name
        self._all_asked = all_asked
        self._waits = waits
        self.asked_in = 0

    def waits(self, where: RecordFilter) -> bool:
        return self._waits

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        self.asked_in = get_ident()
        self._all_asked.wait(timeout=30)
        return {}

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        return {}


class GoneOutside(MeetsTheOthers):
    """A source that waits for something that is gone."""

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        super().search(query, where, limit)
        raise StoreUnavailable("The worker is gone.")


class Weightless(InformationKeywordStore):
    """A keyword store that finds, and then cannot tell how rare anything is."""

    def rarity(self, terms: Sequence[str], scopes: Sequence[str]) -> Rarity:
        raise StoreUnavailable("The disk is gone.")


Sources = Callable[[KeywordStore, VectorStore, FilterIndex], Sequence[Source]]


def ranked(app: App, embedder: MiniLMEmbedder, keywords: KeywordStore, sources: Sources) -> Ranking:
    """What comes of asking for "port" by these sources."""
    vectors = ExactVectorStore(Follower(app.records), embedder.id, embedder_mismatch)
    filters = BitmapFilterIndex(Follower(app.records))
    asked = sources(keywords, vectors, filters)
    with ThreadPoolExecutor(2) as pool:
        searcher = Searcher(
            app.records,
            vectors,
            keywords,
            filters,
            app.graph,
            embedder,
            DateParserReader(),
            asked,
            pool,
            lambda: 0.0,
            Corrections(app.records, app.records.reviews(), vectors, embedder),
        )
        return searcher.rank(searcher.read("port"), RecordFilter(scopes=app.caller().scopes))


def test_sources_that_wait_are_asked_beside_the_others(app: App, embedder: MiniLMEmbedder) -> None:
    """B3.1: nobody waits for the sum of them; asked one after the other, these would never answer."""
    all_asked = Barrier(3)
    made = [MeetsTheOthers(name, all_asked, waits=name != "keyword") for name in ("vector", "keyword", "graph")]

    def meeting(_: KeywordStore, __: VectorStore, ___: FilterIndex) -> Sequence[Source]:
        return made

    ranking = ranked(app, embedder, InformationKeywordStore(Follower(app.records)), meeting)
    assert (ranking.hits, list(ranking.found)) == ((), ["vector", "keyword", "graph"])
    assert made[1].asked_in == get_ident() not in {made[0].asked_in, made[2].asked_in}


def test_sources_that_only_compute_are_asked_in_the_callers_thread(app: App, embedder: MiniLMEmbedder) -> None:
    """B3.1: they share one interpreter, so threads would only take turns, and cost CPU."""
    made = [MeetsTheOthers(name, Barrier(1), waits=False) for name in ("vector", "keyword")]

    def computing(_: KeywordStore, __: VectorStore, ___: FilterIndex) -> Sequence[Source]:
        return made

    ranked(app, embedder, InformationKeywordStore(Follower(app.records)), computing)
    assert [each.asked_in for each in made] == [get_ident()] * 2


def test_a_source_that_waits_in_vain_is_named_and_the_others_answer(
    app: App, embedder: MiniLMEmbedder, remember: Callable[..., Remembered]
) -> None:
    """R5: `degraded`, never a failed call."""
    record = remember("The port is 5432.")

    def one_is_gone(keywords: KeywordStore, _: VectorStore, filters: FilterIndex) -> Sequence[Source]:
        return GoneOutside("vector", Barrier(1), waits=True), KeywordSource(app.records, filters, keywords)

    ranking = ranked(app, embedder, InformationKeywordStore(Follower(app.records)), one_is_gone)
    assert [hit.id for hit in ranking.hits] == [record.id]
    assert ranking.degraded == ("vector: The worker is gone.",)


def test_what_cannot_be_weighed_is_found_all_the_same(
    app: App, embedder: MiniLMEmbedder, remember: Callable[..., Remembered]
) -> None:
    """R5, S2.2: and the answer says so."""
    record = remember("The port is 5432.")

    def both(keywords: KeywordStore, vectors: VectorStore, filters: FilterIndex) -> Sequence[Source]:
        return KeywordSource(app.records, filters, keywords), VectorSource(app.records, filters, vectors)

    ranking = ranked(app, embedder, Weightless(Follower(app.records)), both)
    assert [hit.id for hit in ranking.hits] == [record.id]
    assert ranking.degraded == ("weighing: The disk is gone.",)


def test_a_source_that_gives_way_half_way_is_named_and_the_others_answer(
    app: App, embedder: MiniLMEmbedder, remember: Callable[..., Remembered]
) -> None:
    """R5: `degraded`, never a failed call."""
    record = remember("The port is 5432.")

    def one_gives_way(keywords: KeywordStore, _: VectorStore, filters: FilterIndex) -> Sequence[Source]:
        return KeywordSource(app.records, filters, keywords), GivesWay()

    ranking = ranked(app, embedder, InformationKeywordStore(Follower(app.records)), one_gives_way)
    assert [hit.id for hit in ranking.hits] == [record.id]
    assert ranking.degraded == ("vector: The index is gone.",)


def test_what_somebody_says_of_themselves_ranks_before_what_others_say(
    app: App, remember: Callable[..., Remembered]
) -> None:
    """R5: a signal, never a filter."""
    told = "pottery is what calms me down after long days at work, and I go there every week."
    ids = {
        speaker: remember(f"{filler} {told}", kind="message", speaker=speaker).id
        for speaker, filler in (("Caroline", "Honestly,"), ("Melanie", "Frankly,"))
    }
    for asked, other in (("Caroline", "Melanie"), ("Melanie", "Caroline")):
        read = app.searcher.read(f"What does pottery do for {asked}?")
        hits = app.searcher.rank(read, visible_to(app.records, app.caller())).hits
        assert [hit.id for hit in hits] == [ids[asked], ids[other]]
        assert [hit.parts.get("speaker", 0.0) < 0 for hit in hits] == [False, True]


QUESTION = "What does the person who directed the Kranich documentary film collect?"
FILM = "The Kranich documentary film was directed by Adriana Trigiani, a person who likes cranes."
DIRECTOR = "Adriana Trigiani keeps old maps in a barn."


def asked_once_more(app: App, text: str) -> list[str]:
    read = app.searcher.read(text)
    ranking = app.searcher.rank(read, visible_to(app.records, app.caller()))
    return [hit.id for hit in ranking.hits if hit.parts.get("hop")]


def test_what_the_first_result_names_is_asked_once_more(app: App, remember: Callable[..., Remembered]) -> None:
    """R5: the film names its director, whom the question does not."""
    for number in range(12):
        remember(f"A documentary film about harbour {number} collects dust.")
    remember(FILM)
    director = remember(DIRECTOR)
    assert asked_once_more(app, QUESTION) == [director.id]


def test_what_a_task_or_an_uncertain_result_names_is_not_asked(app: App, remember: Callable[..., Remembered]) -> None:
    """R5: a chain hangs on its first link."""
    remember(FILM)
    remember(DIRECTOR)
    assert asked_once_more(app, "What do people collect?") == []
    app.tasks.push(PushRequest(goal=QUESTION), app.caller())
    read = app.searcher.read(QUESTION)
    where = visible_to(app.records, app.caller())
    work = app.searcher.open_work(read, where, app.caller())
    hits = app.searcher.rank(read, where, work=work).hits
    assert hits[0].id.startswith("t")
    assert not any(hit.parts.get("hop") for hit in hits)


def test_what_recall_weighs_can_be_looked_at(app: App, remember: Callable[..., Remembered]) -> None:
    """R5: by whoever measures it: each source's scores of every candidate, and what each is."""
    record = remember("The port is 5432.", kind="decision")
    evidence = app.searcher.gather("port", visible_to(app.records, app.caller()), 10)
    assert evidence.kinds == {record.id: "decision"}
    assert evidence.rankings["keyword"].keys() == evidence.rankings["vector"].keys() == {record.id}
    assert evidence.background.information > 0


def test_a_task_that_most_records_belong_to_lifts_none_of_them(app: App) -> None:
    """T2.1: what belongs to the path comes first among near equals, and a task may last for months."""
    caller = app.caller()
    early = [NewRecord(text=f"The lamp of pier {n} is green.") for n in range(6)]
    app.remember([*early, NewRecord(text="The export of invoices starts at half past two.")], caller)
    app.tasks.push(PushRequest(goal="Rework the export"), caller)
    late = [NewRecord(text=f"The export writes a file {n} for each customer.") for n in range(9)]
    app.remember([*late, NewRecord(text="The invoices name the customer.")], caller, advise=False)
    found = app.recall(RecallRequest(query="When does the export of invoices start?"), caller)
    assert "half past two" in str(found.results[0]["text"])
    app.remember([NewRecord(text=f"The crane of dock {n} is out of use.") for n in range(3)], caller, advise=False)
    [first, *_] = app.recall(RecallRequest(query="out of use"), caller).results
    assert "crane" in str(first["text"])

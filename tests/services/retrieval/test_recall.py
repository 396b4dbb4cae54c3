"""Recalling: by word and meaning, by id, by time, inside a budget, without losing anything between pages."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallAnswer, RecallRequest
from mcp_memory.services.tasks.branch_visibility import visible_to
from mcp_memory.services.tasks.task_stack import PushRequest
from tests.embedders import HashingEmbedder

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
DAY = 86_400.0
COUNTER = TiktokenCounter()
LONG = "\n".join(f'line {n}: "tab\t" \\ 数据库 🙂' for n in range(300))


def recall(app: App, query: str = "", **fields: Any) -> RecallAnswer:
    return app.recall(RecallRequest(query=query, **fields), app.caller())


def texts(answer: RecallAnswer) -> list[str]:
    return [str(result["text"]) for result in answer.results]


def sent(result: object) -> int:
    return COUNTER.count(json.dumps(result, ensure_ascii=False, separators=(",", ":")))


def store_menus(app: App) -> None:
    """What most of a memory is about, so that little of it bears on a question about something else."""
    menus = [NewRecord(text=f"Lunch menu of day {number}: soup and bread.") for number in range(30)]
    app.remember(menus, app.caller(), advise=False)


def test_a_record_is_found_by_its_words_and_by_its_meaning(app: App, remember: RememberOne) -> None:
    """R1, R5: best first, each with id, kind, date, score and summary."""
    remember("Lunch is at one.")
    fact = remember(
        "Customer data lives in PostgreSQL.", tags=("db",), kind="decision", outcome="success", confidence=0.9
    )
    for query in ("postgresql", "where do we keep the clients' information?"):
        assert recall(app, query).results[0]["id"] == fact.id
    first = dict(recall(app, "postgresql").results[0])
    assert 0.5 < float(str(first.pop("score"))) < 1
    assert first.pop("version") == number_of(fact.id)
    assert first == {
        "id": fact.id,
        "kind": "decision",
        "text": "Customer data lives in PostgreSQL. → success (90 % sure)",
        "occurred_at": "2026-11-20T12:00:00Z",
        "outcome": "success",
        "confidence": 0.9,
        "tags": ["db"],
    }


def test_what_has_nothing_to_do_with_the_query_is_not_answered(app: App, remember: RememberOne) -> None:
    """R5: a short list beats a padded one."""
    remember("Lunch is at one.")
    assert recall(app, "xylophone").results == ()


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "query", ["", " ", "port", "the of and", "?!", "🙂", "last week", "9999-12-31", 'a"b OR NEAR(', "x" * 9_000]
)
def test_an_empty_store_answers_every_query(app: App, query: str) -> None:
    """S3.1: with nothing, and without an error."""
    assert recall(app, query) == RecallAnswer()


def test_a_store_of_superseded_records_alone_still_answers(app: App, remember: RememberOne) -> None:
    """R8, C8.1: searchable, with the successor named, also where that was forgotten or erased."""
    old = remember("The port is 5432.")
    new = remember("The port is 6543.", supersedes=(old.id,))
    app.forget([new.id], "retire", app.caller())
    result = recall(app, "port").results[0]
    assert (result["id"], result["status"], result["superseded_by"]) == (old.id, "superseded", new.id)
    app.forget([new.id], "erase", app.caller())
    assert "superseded_by" not in recall(app, "port").results[0]


def test_no_supposed_contradiction_reorders(app: App, remember: RememberOne) -> None:
    """W5.4, N1.2: a queue of reviews moves nothing."""
    asked = remember("Customer Nordwind pays by invoice within 30 days.")
    remember("Customer Nordwind pays by invoice within 20 days.")
    assert [group.review.kind for group in app.reviews.waiting(app.caller())] == ["contradictions"]
    assert recall(app, "How does Nordwind pay within 30 days?").results[0]["id"] == asked.id


def test_a_successor_that_its_agent_took_back_is_shown_to_nobody_else(app: App, remember: RememberOne) -> None:
    """C8.1, S5.1: the chain of corrections leads out of the reader's scopes."""
    old = remember("The gateway listens on port 8080.")
    new = remember("The gateway listens on port 9090.", supersedes=(old.id,))
    app.revise(Revision(id=new.id, visibility="private"), app.caller())
    other = replace(app.caller(), agent="somebody else")
    found = app.recall(RecallRequest(query="which port does the gateway listen on"), other).results
    assert [each["id"] for each in found] == [old.id]


def test_a_superseded_record_ranks_below_its_successor_however_well_it_matches(app: App, remember: RememberOne) -> None:
    """R8: also down a chain, and where the search alone would not have found the new value."""
    first = remember("The staging database is called penguin.")
    second = remember("It was renamed to walrus.", supersedes=(first.id,))
    third = remember("Name since June: narwhal.", supersedes=(second.id,))
    [found] = recall(app, "staging database penguin").results
    assert (found["id"], found["earlier"]) == (third.id, "before r000003, 2026-11-20: It was renamed to walrus.")
    everything = recall(app, "staging database penguin", include_inactive=True).results
    assert [everything[0]["id"], first.id in [each["id"] for each in everything]] == [third.id, True]
    assert recall(app, "staging database penguin", explain=True).results[0]["signals"]


def test_without_query_and_ids_the_newest_are_listed(app: App, remember: RememberOne, clock: "Clock") -> None:
    """R5: page by page, none twice, none missing; what is planned ahead comes first."""
    for n in range(7):
        remember(f"Event {n}.", occurred_at=clock.now + (3 - n) * DAY)
    everything = [f"Event {n}." for n in range(7)]
    assert texts(recall(app)) == everything
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = recall(app, limit=3, offset=offset)
        assert answer.truncated == (answer.next_offset is not None)
        seen += texts(answer)
        offset = answer.next_offset
    assert seen == everything


def test_a_list_goes_on_at_its_position_whatever_was_stored_meanwhile(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """U1.1: page by page, none twice, none missing, also of what was stored at one time; an erased one ends nothing."""
    for n in range(7):
        remember(f"Event {n}.", occurred_at=clock.now - n // 3 * DAY)
    everything = [f"Event {n}." for n in (2, 1, 0, 5, 4, 3, 6)]
    seen: list[str] = []
    before: str | None = ""
    while before is not None:
        answer = recall(app, limit=2, before=before)
        assert answer.truncated == (answer.next_before is not None)
        seen += texts(answer)
        app.forget([str(answer.results[-1]["id"])], "erase", app.caller())
        remember(f"Stored after {len(seen)}.")
        before = answer.next_before
    assert seen == everything
    short = recall(app, limit=5, before="", max_tokens=80)
    assert (len(short.results), short.next_before is not None) == (1, True)
    with pytest.raises(InvalidRequest, match="is no position"):
        recall(app, before="yesterday~r000001")


def test_facets_narrow_and_are_counted(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock"
) -> None:
    """U1.1: by the agent that wrote the present text, and by status; a retired one is there for who asks for it."""
    mine = remember("The port is 5432.", tags=("ops", "db"), session_id="s-1")
    gone = remember("The port was 5431.", tags=("ops",), session_id="s-1")
    bob = open_memory(agent="bob")
    bob.remember([NewRecord(text="The port of Redis is 6379.", kind="decision", tags=("ops",))], bob.caller())
    app.forget([gone.id], "retire", app.caller())
    assert texts(recall(app, before="", authors=("bob",))) == ["The port of Redis is 6379."]
    assert texts(recall(app, "port", authors=("bob",))) == ["The port of Redis is 6379."]
    assert texts(recall(app, before="", statuses=("retired",))) == ["The port was 5431. (retired)"]
    assert texts(recall(app, "which port", statuses=("new",))) == ["The port is 5432."]
    assert app.facets(RecallRequest(), app.caller()) == {
        "kind": {"decision": 1, "fact": 1},
        "status": {"new": 1, "recorded": 1},
        "author": {"bob": 1, "default": 1},
        "session_id": {"s-1": 1, bob.caller().session_id: 1},
        "event_type": {},
        "tag": {"ops": 2, "db": 1},
    }
    assert app.facets(RecallRequest(tags=("db",)), app.caller(), "author") == {"author": {"default": 1}}
    bob.revise(Revision(id=mine.id, text="The port is 5433."), bob.caller())
    assert texts(recall(app, before="", authors=("default",))) == []


def test_a_search_goes_on_where_the_last_page_ended(app: App) -> None:
    """R5: until nothing is left; beyond the end there is nothing."""
    app.remember([NewRecord(text=f"Service {n} listens on port {n}.") for n in range(7)], app.caller())
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = recall(app, "which port", limit=3, offset=offset)
        seen += texts(answer)
        offset = answer.next_offset
    assert len(seen) == len(set(seen)) == 7
    beyond = recall(app, "which port", offset=99)
    assert (beyond.results, beyond.truncated, beyond.next_offset) == ((), False, None)


@pytest.mark.uncounted
def test_a_search_ends_where_the_rest_of_many_records_does_not_bear_on_it(app: App) -> None:
    """R5: the last page promises no further one, though each source found as much as it was asked for."""
    others = [NewRecord(text=f"The service of hall {n} was painted in {1900 + n}.") for n in range(80)]
    app.remember([NewRecord(text="The mail service listens on port 2525."), *others], app.caller())
    answer = recall(app, "On which port does the mail service listen?")
    assert texts(answer)[0] == "The mail service listens on port 2525."
    assert (answer.truncated, answer.next_offset) == (False, None)


@pytest.mark.uncounted
def test_filters_hold_for_search_and_list(app: App, remember: RememberOne, clock: "Clock") -> None:
    """R5, B1.4: kind, tag, time, task, session, entity."""
    outside = remember("The port was 4321.", kind="decision", session_id="old talk", occurred_at=clock.now - 9 * DAY)
    task = app.tasks.push(PushRequest(goal="Sort the seeds"), app.caller()).path[0]
    inside = remember("The port is 5432.", tags=("net", "db"), entities=(Entity(name="Postgres", type="database"),))
    app.forget([remember("The port is nonsense.").id], "retire", app.caller())
    filters: list[tuple[dict[str, Any], str]] = [
        ({"kinds": ("fact",)}, inside.id),
        ({"kinds": ("decision", "episode")}, outside.id),
        ({"tags": ("db",)}, inside.id),
        ({"since": "yesterday"}, inside.id),
        ({"until": "last week"}, outside.id),
        ({"entities": ("POSTGRES",)}, inside.id),
        ({"session_id": "old talk"}, outside.id),
    ]
    for query in ("", "port"):
        for fields, wanted in filters:
            assert [result["id"] for result in recall(app, query, **fields).results] == [wanted], fields
        assert len(recall(app, query).results) == 2
        assert [result["id"] for result in recall(app, query, task_id=task.id).results] == [inside.id]
        assert len(recall(app, query, include_inactive=True).results) == 3
        assert recall(app, query, kinds=("fact",), tags=("other",)).results == ()


def test_a_time_in_the_query_narrows_or_boosts(app: App, remember: RememberOne, clock: "Clock") -> None:
    """R6: alone it narrows, as does a time that is over beside a subject; another lifts what happened then."""
    remember("We upgraded the database to version 15.", kind="episode", occurred_at=clock.now - 8 * DAY)
    remember("We upgraded the database to version 16.", kind="episode", occurred_at=clock.now - 200 * DAY)
    for n in range(9):
        remember(f"Team {n} met about its budget and holidays.", occurred_at=clock.now - 400 * DAY)
    assert texts(recall(app, "what did we do last week?")) == ["We upgraded the database to version 15."]
    assert texts(recall(app, "database upgrade last week")) == ["We upgraded the database to version 15."]
    answer = recall(app, "database upgrade in May 2026", explain=True)
    assert texts(answer)[0].endswith("16.")
    assert len(answer.results) >= 2
    signals = answer.results[0]["signals"]
    assert isinstance(signals, Mapping)
    assert "time" in signals


@pytest.mark.parametrize("fields", [{"since": "nonsense"}, {"until": "2026-13-45"}])
def test_a_time_that_cannot_be_read_is_refused(app: App, fields: dict[str, str]) -> None:
    """S3.1: with what can be."""
    with pytest.raises(InvalidRequest, match="is not a time; use ISO 8601"):
        recall(app, **fields)


def test_the_end_of_time_can_be_named(app: App, remember: RememberOne) -> None:
    """R6: a sentinel date is a date."""
    remember("The port is 5432.")
    assert len(recall(app, until="9999-12-31").results) == 1
    assert recall(app, since="9999").results == ()
    assert len(recall(app, "port until 9999-12-31").results) == 1


def test_ids_open_records_in_the_order_asked_for(app: App, remember: RememberOne) -> None:
    """T5.1: whatever their status; unknown ones are named."""
    first, second = remember("One."), remember("Two.")
    app.forget([first.id], "retire", app.caller())
    answer = recall(app, ids=(second.id, "r00zzzz", first.id))
    assert texts(answer) == ["Two.", "One. (retired)"]
    assert answer.not_found == ("r00zzzz",)
    assert recall(app, ids=("r00zzzz",)) == RecallAnswer(not_found=("r00zzzz",))
    with pytest.raises(InvalidRequest, match="either query or ids"):
        recall(app, "one", ids=(first.id,))


def test_detail_chooses_how_much_of_a_text_is_shown(app: App, remember: RememberOne) -> None:
    """C2.3: micro, summary, full; details of a kind with the full text."""
    text = " ".join(f"Sentence {n} of the story." for n in range(60))
    record = remember(text, kind="procedure", details={"name": "story"}, speaker="Ada", pinned=True)
    micro, summary, full = (
        dict(recall(app, ids=(record.id,), detail=d).results[0]) for d in ("micro", "summary", "full")
    )
    assert micro["text"] == "Sentence 0 of the story. Sentence 1 of the story. Sentence 2 of…"
    assert COUNTER.count(str(summary["text"])) <= 100
    assert (full["text"], full["details"]) == (text, {"name": "story"})
    assert (full["speaker"], full["pinned"]) == ("Ada", True)
    assert "details" not in summary


@given(max_tokens=st.integers(100, 900))
@settings(max_examples=8)
def test_the_pages_of_a_long_text_are_the_text(app: App, max_tokens: int) -> None:
    """C2.3: escapes, emoji and scripts without spaces are cut nowhere; each page moves on and keeps to its budget."""
    record = app.remember([NewRecord(text=LONG)], app.caller())[0]
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = recall(app, ids=(record.id,), detail="full", offset=offset, max_tokens=max_tokens)
        pages += texts(answer)
        assert pages[-1]
        assert sent(answer.results[0]) <= max_tokens
        assert answer.truncated == (answer.next_offset is not None)
        offset = answer.next_offset
    assert "".join(pages) == LONG
    assert texts(recall(app, ids=(record.id,), detail="full", offset=10**6)) == [""]


def test_a_page_of_nothing_but_what_json_escapes_moves_on(app: App, remember: RememberOne) -> None:
    """C2.3: the reader is never sent to the same offset for ever."""
    text = "a" + '"\\' * 200 + "z"
    record = remember(text)
    seen, offset = "", 0
    for _ in range(len(text)):
        answer = recall(app, ids=(record.id,), detail="full", offset=offset, max_tokens=100)
        seen += texts(answer)[0]
        if answer.next_offset is None:
            break
        assert answer.next_offset > offset
        offset = answer.next_offset
    assert seen == text


@pytest.mark.uncounted
@pytest.mark.parametrize("factor", [1.0, 1.53])
def test_results_keep_to_the_budget_and_one_that_is_too_long_is_cut(
    open_memory: Callable[..., App], factor: float
) -> None:
    """A3.1: in the client's tokens, by search, list and ids; something is always shown."""
    app = open_memory(token_factor=factor)
    items = [NewRecord(text=f"Port {n}: " + "the service listens there, " * (n % 9 * 6)) for n in range(20)]
    ids = tuple(each.id for each in app.remember(items, app.caller()))
    every: list[dict[str, Any]] = [
        {"query": "service port"},
        {"limit": 50},
        {"ids": ids},
        {"ids": ids, "detail": "full"},
    ]
    for max_tokens in (100, 200, 700, 2_000):
        for fields in every:
            answer = recall(app, max_tokens=max_tokens, **fields)
            assert answer.results
            assert sum(sent(result) for result in answer.results) * factor <= max_tokens
            assert answer.truncated == (len(answer.results) < 20) or "query" in fields


def test_the_account_of_a_context_can_be_paged_through(app: App) -> None:
    """B1.3: every candidate once, first what was shown, then what was left out and why."""
    app.remember([NewRecord(text=f"Service {n} listens on port {n}.") for n in range(30)], app.caller())
    report = app.assemble_context(ContextRequest(max_tokens=200), app.caller()).report
    fates: list[Mapping[str, object]] = []
    offset: int | None = 0
    while offset is not None:
        answer = recall(app, ids=(report.id,), offset=offset, limit=4)
        fates += answer.results
        offset = answer.next_offset
    assert [fate["id"] for fate in fates] == [c.id for c in report.components] + [o.id for o in report.omitted]
    assert {str(fate["omitted"]) for fate in fates if "omitted" in fate} == {"no room in the budget"}
    assert recall(app, ids=("c0000000000",)).not_found == ("c0000000000",)


def test_opening_counts_as_access_and_looking_at_an_account_does_not_hide_it(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """A1.1: what was recalled last is the most recent; the revision stays (B11.2)."""
    record = remember("The port is 5432.")
    before = app.records.revision()
    clock.advance(hours=2)
    recall(app, "port")
    after = app.records.get([record.id], app.caller().scopes)[record.id]
    assert (after.accessed_at, after.counters.accessed) == (clock.now, 1)
    clock.advance(days=-3)
    recall(app, "port")
    after = app.records.get([record.id], app.caller().scopes)[record.id]
    assert (after.accessed_at, after.counters.accessed) == (clock.now + 3 * DAY, 2)
    assert app.records.revision() == before


def test_a_source_that_fails_is_named_and_the_others_answer(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5, S2.2: degraded says which and why; where none can answer, so does the error."""

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("The index is away; call again.")

    remember("The port is 5432.")
    monkeypatch.setattr("mcp_memory.retrieval.vector.VectorSource.search", away)
    answer = recall(app, "port")
    assert (texts(answer), answer.degraded) == (["The port is 5432."], ("vector: The index is away; call again.",))
    report = app.assemble_context(ContextRequest(query="port"), app.caller()).report
    assert report.metadata["degraded"] == ["vector: The index is away; call again."]
    for source in ("keyword.KeywordSource", "time_span.TimeSpanSource", "graph.GraphSource"):
        monkeypatch.setattr(f"mcp_memory.retrieval.{source}.search", away)
    with pytest.raises(StoreUnavailable, match="away; call again"):
        recall(app, "port")


def test_without_the_model_words_still_find(app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5, S2.2: the embedder is named as degraded."""

    def broken(*_: object) -> None:
        raise StoreUnavailable("The model cannot run; reinstall mcp-memory-stack.")

    remember("The port is 5432.")
    monkeypatch.setattr("mcp_memory.encoders.embed_minilm.MiniLMEmbedder.embed_query", broken)
    answer = recall(app, "port")
    assert texts(answer) == ["The port is 5432."]
    assert answer.degraded == ("vector: The model cannot run; reinstall mcp-memory-stack.",)


def test_in_a_dialogue_the_neighbours_of_a_match_gain(app: App) -> None:
    """R5, W8.1: the answer stands beside the question and ranks before it; an assistant's words count less."""
    turns = [
        ("Ada", "user", "Which colour should the dashboard have?"),
        ("Bot", "assistant", "I would paint the panels teal."),
        ("Ada", "user", "Fine, and lunch is at one."),
    ]
    app.remember([NewRecord(text=t, kind="message", speaker=s, role=r) for s, r, t in turns], app.caller())
    results = recall(app, "dashboard colour", explain=True).results
    assert results[0]["speaker"] == "Bot"
    signals = {str(result["text"]): result["signals"] for result in results}
    teal = signals["I would paint the panels teal."]
    assert isinstance(teal, Mapping)
    assert {"neighbours", "assistant"} <= teal.keys()


@pytest.mark.parametrize(
    ("fact", "asked"),
    [
        (
            "The staging API listens on 7443.",
            ["Which port does the staging API use?", "What port is the staging API on?"],
        ),
        ("Die Staging-API hört auf Port 7443.", ["Welchen Port nutzt die Staging-API?", "Auf welchem Port läuft sie?"]),
        ("预发布接口监听 7443 端口。", ["预发布接口用哪个端口？", "预发布接口的端口是多少？"]),
    ],
)
def test_an_answer_stands_before_what_was_asked_in_earlier_sessions(
    app: App, remember: RememberOne, fact: str, asked: list[str]
) -> None:
    """W8.1: however often, and each text once."""
    answer = remember(fact)
    for number in range(6):
        for question in asked:
            remember(question, kind="message", role="user", caller=app.caller(f"s{number}"))
            remember("I will look that up.", kind="message", role="assistant", caller=app.caller(f"s{number}"))
    for query in (asked[0], asked[0].rstrip("?？")):
        shown = texts(recall(app, query))
        assert (shown[0], len(shown)) == (fact, len(set(shown)))
    assert recall(app, asked[0], kinds=frozenset({"message"})).results[0]["text"] == asked[0]
    assert recall(app, asked[0]).results[0]["id"] == answer.id


def test_a_question_alone_is_no_answer_to_itself(app: App, remember: RememberOne) -> None:
    """W8.1: what was only asked is not known; a line that tells it is."""
    remember("What does the Kafka cluster cost a month?", kind="message", role="user")
    remember("Lunch is at noon.")
    assert recall(app, "What does the Kafka cluster cost a month?").results == ()
    told = remember("The Kafka cluster costs 800 euros a month.", kind="message", role="user")
    assert recall(app, "What does the Kafka cluster cost a month?").results[0]["id"] == told.id


@pytest.mark.uncounted
def test_stored_records_are_found_however_many_lines_are_nearer(app: App, remember: RememberOne) -> None:
    """W8.1: all places of a search taken by the log leave ten for what was stored."""
    fact = remember("It listens on 7443 there.")
    said = [NewRecord(text=f"Which port does staging use, round {n}?", kind="message") for n in range(70)]
    app.remember(said, app.caller())
    where = visible_to(app.records, app.caller())
    assert fact.id in app.searcher.gather("Which port does staging use?", where).kinds
    only_log = replace(where, kinds=frozenset({"message"}))
    assert fact.id not in app.searcher.gather("Which port does staging use?", only_log).kinds


@pytest.mark.parametrize("detail", ["summary", "full"])
@pytest.mark.parametrize("max_tokens", [100, 200, 2_000])
def test_a_result_stays_in_the_budget_whatever_else_the_record_carries(
    app: App, remember: RememberOne, max_tokens: int, detail: str
) -> None:
    """TOOLS, C2.3: many tags and long details give way before the text does."""
    record = remember(
        "The port is 5432. " * 200, tags=tuple(f"tag-number-{i}" for i in range(50)), details={"why": "word " * 5_000}
    )
    for answer in (
        recall(app, "port", max_tokens=max_tokens, detail=detail),
        recall(app, ids=(record.id,), max_tokens=max_tokens, detail=detail),
    ):
        shape = {"results": list(answer.results), "truncated": answer.truncated, "degraded": list(answer.degraded)}
        assert sent({**shape, "next_offset": answer.next_offset}) <= max_tokens
        assert answer.results[0]["id"] == record.id
        assert answer.results[0]["text"]


def test_reading_the_account_of_a_context_opens_no_record(app: App, remember: RememberOne, clock: "Clock") -> None:
    """A1.1: the order of last access stays."""
    first, second = remember("The first."), remember("The second.")
    context = app.assemble_context(ContextRequest(strategy="recent"), app.caller())
    clock.advance(seconds=60)
    recall(app, ids=(first.id,))
    clock.advance(seconds=60)
    assert {str(r["id"]) for r in recall(app, ids=(context.report.id,)).results} == {first.id, second.id}
    again = app.assemble_context(ContextRequest(strategy="recent"), app.caller())
    assert [c.id for c in again.report.components] == [first.id, second.id]


def test_a_correction_does_not_turn_up_where_neither_it_nor_the_old_value_is_meant(
    app: App, remember: RememberOne
) -> None:
    """A1.6, R8: it is no better an answer than what it replaced."""
    old = remember("The deploy password is in vault A.")
    remember("Credentials for releases are kept in vault B.", supersedes=(old.id,))
    remember("Fold the egg whites into the batter.")
    assert "Credentials" not in " ".join(texts(recall(app, "banana bread recipe with eggs")))


def test_an_agent_opens_what_it_stored_in_a_branch_of_a_session_it_named(app: App) -> None:
    """T4.3, T5.1: by its words in that session, by its id anywhere; others do not see it."""
    mine = app.caller("a")
    app.tasks.push(PushRequest(goal="try", branch=True), mine)
    record = app.remember([NewRecord(text="zebra crossing")], mine)[0]
    assert app.recall(RecallRequest(query="zebra"), mine).results[0]["id"] == record.id
    assert app.recall(RecallRequest(ids=(record.id,)), app.caller()).results[0]["id"] == record.id
    assert app.recall(RecallRequest(query="zebra"), app.caller("b")).results == ()


@pytest.mark.uncounted
def test_paging_reaches_every_match(app: App) -> None:
    """R5: beyond the candidates of the first page."""
    app.remember([NewRecord(text=f"note {n}", kind="message") for n in range(300)], app.caller())
    seen: set[str] = set()
    offset: int | None = 0
    while offset is not None:
        answer = recall(app, "note", limit=100, offset=offset, max_tokens=100_000)
        seen |= {str(result["id"]) for result in answer.results}
        offset = answer.next_offset
    assert len(seen) == 300


def test_nothing_lies_between_an_end_and_a_later_beginning(app: App) -> None:
    """S3.1: said at once instead of an empty answer."""
    with pytest.raises(InvalidRequest, match="since is not before until"):
        recall(app, "x", since="2026-05-01", until="2026-01-01")


@pytest.mark.parametrize(
    ("query", "months"),
    [
        ("what did we do before March 2026?", {1}),
        ("what did we do since March 2026?", {3, 7}),
        ("what happened in March 2026?", {3}),
        ("what did we do until July 2026?", {1, 3}),
    ],
)
def test_a_question_about_nothing_but_a_time_is_answered_from_that_side_of_it(
    app: App, query: str, months: set[int]
) -> None:
    """R6: before, since, in and until."""
    items = [NewRecord(text=f"Month {m}.", occurred_at=app.searcher.instant(f"2026-{m:02}-10")) for m in (1, 3, 7)]
    app.remember(items, app.caller())
    assert set(texts(recall(app, query))) == {f"Month {month}." for month in months}


@pytest.mark.uncounted
def test_a_record_two_relations_away_is_found(app: App, remember: RememberOne) -> None:
    """R7, R5: sharing neither words nor meaning with the query; what is one relation nearer ranks higher."""
    remember("Maintained by.", relations=(Relation(source="Heimdall", type="is part of", target="Bifrost"),))
    remember("Depends on.", relations=(Relation(source="Bifrost", type="runs on", target="Yggdrasil"),))
    near = remember("Renewal is due in March.", entities=(Entity(name="Bifrost"),))
    far = remember("Invoices go to the Oslo office.", entities=(Entity(name="Yggdrasil"),))
    for number in range(40):
        remember(f"Lunch menu of day {number}: soup and bread.")
    results = recall(app, "Heimdall", explain=True).results
    signals = {str(result["id"]): cast("Mapping[str, float]", result["signals"]) for result in results}
    graph = {record_id: parts["graph"] for record_id, parts in signals.items() if "graph" in parts}
    assert graph[near.id] > graph[far.id] > 0


@pytest.mark.uncounted
def test_a_score_says_how_well_a_record_matches_not_only_that_it_is_the_best(app: App, remember: RememberOne) -> None:
    """R5: the best of what does not fit stays low; an exact hit is high."""
    store_menus(app)
    remember("The signing key of the mobile app expires in June.")
    hit = recall(app, "when does the mobile app's signing key expire?").results[0]["score"]
    stray = [float(str(r["score"])) for r in recall(app, "orbital mechanics of Neptune's moons").results]
    assert float(str(hit)) > 0.7
    assert all(score < 0.5 for score in stray)


@pytest.mark.uncounted
def test_a_score_says_less_where_another_record_matches_as_well(app: App, remember: RememberOne) -> None:
    """F4.1: of two signing keys, a question that names neither can mean either; a later page says the same of it."""
    store_menus(app)
    remember("The signing key of the mobile app expires in June.")
    alone = recall(app, "when does the app's signing key expire?").results[0]["score"]
    remember("The signing key of the desktop app expires in May.")
    first, second, *_ = recall(app, "when does the app's signing key expire?").results
    assert float(str(alone)) > 0.8 > 0.6 > float(str(first["score"])) >= float(str(second["score"]))
    [page] = recall(app, "when does the app's signing key expire?", limit=1, offset=1).results
    assert page["score"] == second["score"]


@pytest.mark.uncounted
def test_a_rare_word_of_a_very_long_record_is_found(open_memory: Callable[..., App]) -> None:
    """E7: a file of thousands of lines, read once, is found by a name that only it holds."""
    app = open_memory(embedder=HashingEmbedder())
    words = "split join currency account ledger total invoice export cursor batch".split()
    short = [NewRecord(text=f"We fixed the {words[n % 10]} of {words[n % 7]} {n}: it was slow.") for n in range(300)]
    lines = [f"def {words[line % 6]}_{words[line % 5]}_{line}(): return {line}" for line in range(6_000)]
    items = [NewRecord(text="\n".join(lines), kind="tool_result", tool="read_file"), *short]
    file = app.remember(items, app.caller(), advise=False)[0]
    found = app.recall(RecallRequest(query="split_split_4770"), app.caller())
    assert file.id in [result["id"] for result in found.results]


@pytest.mark.uncounted
def test_a_correction_says_the_earlier_value_in_its_own_line(
    app: App, remember: RememberOne, clock: "Clock", open_memory: Callable[..., App]
) -> None:
    """F7.2: in brackets, from when the new one holds; the replaced record is no result of its own, on no page."""
    old = remember("Retention is 30 days.")
    new = remember("Retention is 90 days.", supersedes=(old.id,), occurred_at=clock.now - 17 * DAY)
    remember("Retention is reviewed each spring.")
    bob = open_memory(agent="bob")
    for memory in (app, bob):
        results = recall(memory, "What is the retention?").results
        assert results[0]["earlier"] == f"before {old.id}, 2026-11-20: 30 days"
        assert [each["id"] == new.id for each in results] == [True, False]
    pages = [recall(app, "What is the retention?", limit=1, offset=n) for n in range(3)]
    assert [[each["id"] == new.id for each in page.results] for page in pages] == [[True], [False], []]
    assert "earlier" not in recall(app, "What is the retention?").results[1]


def test_an_earlier_value_that_only_its_author_may_see_is_told_to_nobody_else(
    app: App, remember: RememberOne, open_memory: Callable[..., App]
) -> None:
    """F7.2, S4.1."""
    old = remember("The budget is 4,000 euros.", visibility="private")
    remember("The budget is 5,000 euros.", supersedes=(old.id,), visibility="user")
    bob = open_memory(agent="bob")
    assert recall(app, "What is the budget?").results[0]["earlier"] == f"before {old.id}, 2026-11-20: 4,000 euros"
    assert "earlier" not in recall(bob, "What is the budget?").results[0]


@pytest.mark.uncounted
def test_what_the_line_of_an_event_shows_is_found(app: App, remember: RememberOne) -> None:
    """F6.2: its command, its path, the end of its output, and any other detail."""
    ran = remember(
        "Ran the checks.", kind="event",
        details={"command": "make lighthouse", "stdout": "gibberish\n" * 500 + "\n.\n.\n17 walruses passed"},
    )  # fmt: skip
    wrote = remember("Edited a file.", kind="event", details={"type": "write", "path": "src/pelican.py"})
    moved = remember("Deployed.", kind="event", details={"service": "heron", "hosts": ["egret"], "port": 80})
    for word, event in {"lighthouse": ran, "walruses": ran, "pelican": wrote, "heron": moved, "egret": moved}.items():
        assert recall(app, word).results[0]["id"] == event.id


def test_a_record_is_found_by_the_questions_it_answers(app: App, remember: RememberOne) -> None:
    """F6: they are no part of its text, nor of its line; the same text brings others later."""
    remember("Ines keeps the keys.")
    fact = remember(
        "The unit is in the cabinet behind the stairs.",
        details={"asked_as": ["Where do I reset the router when the wifi is down?"]},
    )
    found = recall(app, "reset the wifi router").results[0]
    assert (found["id"], found["text"]) == (fact.id, "The unit is in the cabinet behind the stairs.")
    assert "details" not in found
    event = remember("Moved.", kind="event", details={"asked_as": ["Who moved the piano?"]})
    block = app.assemble_context(ContextRequest(query="who moved the piano", max_tokens=500), app.caller()).text
    assert event.id in block
    assert "Who moved" not in block
    again = remember(
        "The unit is in the cabinet behind the stairs.", details={"asked_as": ["Where is the internet box?"]}
    )
    assert again.status == "confirmed"
    assert recall(app, "internet box").results[0]["id"] == fact.id
    assert app.records.stale_terms() == []
    app.forget([fact.id], "erase", app.caller())
    assert fact.id not in [each["id"] for each in recall(app, "internet box").results]
    for wrong in ([], ["?", "??", "???", "????"], ["x" * 201], "y" * 201):
        with pytest.raises(InvalidRequest, match="asked_as"):
            remember("Anything.", details={"asked_as": wrong})


@pytest.mark.uncounted
def test_what_no_record_names_is_named_and_the_rest_of_the_question_answered(app: App, remember: RememberOne) -> None:
    """W3.1: a name in another form is there; a store with nothing in it names nothing."""
    assert recall(app, "Where does Redis keep its snapshots?").unknown == ()
    store_menus(app)
    kept = remember("Postgres keeps its nightly backups in the vault at Bergen.")
    unknown = recall(app, "Where does Redis keep its snapshots?")
    assert (unknown.results, unknown.unknown) == ((), ("Redis",))
    near = recall(app, "Where are the nightly Postgres backups for Kafka kept?")
    assert (near.results[0]["id"], near.unknown) == (kept.id, ("Kafka",))
    assert recall(app, "Where does PostgreSQL keep its nightly backups?").unknown == ()


@pytest.mark.uncounted
def test_an_unknown_name_is_read_from_what_is_visible_now(app: App, remember: RememberOne) -> None:
    """W3.1: what is retired may have named it; a look at retired records or back in time says nothing of names."""
    store_menus(app)
    gone = remember("Redis keeps its snapshots on the second disk.")
    assert recall(app, "Where does Redis keep its snapshots?").unknown == ()
    app.forget([gone.id], "retire", app.caller())
    assert recall(app, "Where does Redis keep its snapshots?").unknown == ("Redis",)
    assert recall(app, "Where does Redis keep its snapshots?", include_inactive=True).unknown == ()


def test_a_question_in_german_is_answered_by_its_words(app: App) -> None:
    """W3.1: any two German texts have high cosines by the built-in embedder."""
    said = (
        "Der Mietvertrag für das Lager in Kiel läuft bis Ende März.",
        "Die Heizung im Büro wird jeden Herbst von Firma Lorenz gewartet.",
        "Die Rechnungen gehen immer am ersten Montag des Monats raus.",
        "Der Schlüssel für den Keller hängt neben der Garderobe.",
        "Für den Versand nach Österreich gilt die teurere Pauschale.",
        "Das Passwort für das Gästenetz wechselt alle drei Wochen.",
    )
    app.remember([NewRecord(text=text) for text in said], app.caller())
    assert texts(recall(app, "Bis wann läuft der Mietvertrag für das Lager?"))[0] == said[0]
    assert texts(recall(app, "Wer wartet die Heizung im Büro?"))[0] == said[1]
    assert recall(app, "Welche Blutgruppe hat meine Tante?").results == ()
    assert recall(app, "Wie heißt die Lehrerin der Kinder?").results == ()

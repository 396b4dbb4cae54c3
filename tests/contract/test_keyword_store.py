"""The contract of `KeywordStore`, over every implementation, against its formula in plain Python.

Over PostgreSQL long histories take long (`pytest.mark.rounds`).
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import expm1, inf, log, log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import OUT_OF_SEARCH, Record, Status
from mcp_memory.domain.retrieval.fusion import PRIOR_RECORDS
from mcp_memory.domain.text.words import MAX_QUERY_TERMS, index_terms, query_terms, stems
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import KeywordStore, Rarity
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.keywords import postings
from mcp_memory.stores.keywords import store as keyword_store
from mcp_memory.stores.keywords.store import MOST_RELATIVE, READ_ON, InformationKeywordStore
from tests.contract.conftest import NewMemory
from tests.reloaded import ReloadingFollower

Make = Callable[[RecordStore], KeywordStore]
Add = Callable[..., Record]
Open = Callable[..., RecordStore]
EMBEDDER = "contract-embedder"
HERE, PRIVATE, THERE = SCOPES = ("shared/here", "private/ann/here", "shared/there")
STATUS_AFTER: dict[str, Status] = {"retire": "retired", "restore": "new"}
VECTOR = np.full((1, 8), 8**-0.5, np.float32)

STORES: dict[str, Make] = {
    "information": lambda records: InformationKeywordStore(Follower(records)),
    "reloaded": lambda records: InformationKeywordStore(ReloadingFollower(records)),
}


@pytest.fixture(scope="module", params=sorted(STORES))
def make(request: pytest.FixtureRequest) -> Make:
    return STORES[request.param]


@pytest.fixture(autouse=True)
def cleared_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of former texts is cleared away, and new ones join the others, after a few."""
    monkeypatch.setattr(postings, "_LEAST_GONE", 8)
    monkeypatch.setattr(postings, "_LEAST_TAIL", 64)


@pytest.fixture
def keywords(make: Make, store: RecordStore) -> KeywordStore:
    return make(store)


def found(keywords: KeywordStore, query: str) -> list[str]:
    return list(keywords.search(query_terms(query), [HERE], 10))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("We were running the migrations", "run migration"),
        ("call parse_config first", "parse config"),
        ("call parseConfigFile first", "config"),
        ("call parseConfigFile first", "parseConfigFile"),
        ("edit src/app/main.py now", "main.py"),
        ("edit C:\\Users\\bo\\notes.txt", "notes"),
        ("我们决定使用数据库迁移工具", "数据库"),
        ("東京タワーは高いです", "タワー"),
        ("ประเทศไทยอยู่ในเอเชีย", "ไทย"),
        ("the café déjà vu", "cafe deja"),
        ("the cafe", "café"),
        ("Tie\u0302\u0301ng Vie\u0323\u0302t", "Tiếng Việt"),
        ("Tiếng Việt", "tieng viet"),
        ("старый за\u0301мок", "замок"),
        ("Die Straße", "STRASSE"),
        ("Порты закрыты", "порт"),
        ("Legend: 🟢 means shipped, 🔴 means blocked", "🔴"),
        ("✅ tests pass", "✅"),
        ("المدارس في المدينة", "مدينة"),
        ("Die Häuser stehen am Hafen und sind leer", "Haus"),
        ("Los puertos de la ciudad están en el norte", "puerto"),
        ('say "hello" AND NOT (NEAR)', '"hello" AND NOT'),
        ("ERR_CONNECTION_REFUSED at :8080", "8080"),
    ],
)
def test_words_are_found_in_the_forms_people_write_them(
    keywords: KeywordStore, add: Add, text: str, query: str
) -> None:
    """R1, R5: stems, identifiers, paths, scripts without spaces, accents."""
    record = add(text)
    add("something else entirely")
    assert found(keywords, query) == [record.id]


def test_the_better_match_comes_first(keywords: KeywordStore, add: Add) -> None:
    """R5: scores above 0 and at most what the words tell in all; a word says less in a text long enough to have it."""
    for _ in range(5):
        add("sqlite is mentioned here among many other words of no consequence whatever")
    best = add("sqlite alone")
    scores = keywords.search(["sqlite"], [HERE], 10)
    assert next(iter(scores)) == best.id
    assert len(scores) == 6
    assert min(scores.values()) > 0
    assert max(scores.values()) <= keywords.rarity(["sqlite"], [HERE]).information
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 6, 100])
def test_of_equal_scores_the_newest_records_come_first(
    keywords: KeywordStore, store: RecordStore, add: Add, limit: int
) -> None:
    """B11.2: also at the limit, whichever record was changed last."""
    records = [add("one port", kind="message") for _ in range(5)]
    best = add("port")
    for text in ("another text", "one port"):
        with store.write() as transaction:
            transaction.update(replace(records[1], text=text), VECTOR)
        assert (records[1].id in found(keywords, "port")) == (text == "one port")
    wanted = [best.id, *(record.id for record in reversed(records))]
    assert list(keywords.search(["port"], [HERE], limit)) == wanted[:limit]


def test_what_shares_no_word_is_not_found(keywords: KeywordStore, add: Add) -> None:
    """R5: no word, no scope, no record, no hit; records without a word are no trouble."""
    assert keywords.search(["port"], [HERE], 10) == {}
    record = add("The port is 5432.")
    add("…!? _ ")
    add("The quay is closed.")
    assert keywords.search([], [HERE], 10) == {}
    assert keywords.search(["harbour"], [HERE], 10) == {}
    assert keywords.search(["port"], [], 10) == {}
    assert keywords.search(["port"], [THERE], 10) == {}
    assert keywords.scores(["port"], [HERE], []) == {}
    assert keywords.rarity([], [THERE]) == Rarity(records=0, information=0)
    assert keywords.neighbours([record.id, "r-unknown"], [HERE]) == {}
    once = keywords.search(["port"], [HERE], 10)
    assert list(once) == [record.id]
    assert keywords.search(["port"], [HERE, HERE], 10) == once


def test_forms_of_one_word_count_once(keywords: KeywordStore, add: Add) -> None:
    """R5: in the scores and in what all of them would tell."""
    add("We were running late.")
    add("Nothing to see.")
    once = keywords.search(["run", "late"], [HERE], 10)
    assert keywords.search(["run", "running", "late", "runs", "Late"], [HERE], 10) == once
    several, one = (keywords.rarity(words, [HERE]) for words in (["run", "running", "late", "runs"], ["run", "late"]))
    assert (several.information, several.holders) == (one.information, one.holders)
    assert several.nats["running"] == several.nats["runs"] == one.nats["run"]


def test_texts_in_several_languages_are_found_by_one_word(keywords: KeywordStore, add: Add) -> None:
    """R5: each by its own language's rules; forms that a language joins count once there."""
    german = add("Die Häfen von Hamburg sind groß, und das ist so.")
    english = add("Hafen is a word for ports.")
    assert set(found(keywords, "Hafen")) == {german.id, english.id}
    once, twice = (keywords.scores(words, [HERE], [german.id]) for words in (["hafen"], ["hafen", "häfen"]))
    assert once == twice


def test_a_text_that_says_a_word_in_two_ways_has_it_once(keywords: KeywordStore, add: Add) -> None:
    """R5: a query's words of one stem may be two stems in another language."""
    text = add("O evento das universidades é para a universal, e o universo.")
    query = ["university", "universal", "universe"]
    assert list(keywords.search(query, [HERE], 10)) == [text.id]
    assert keywords.rarity(query, [HERE]).nats["universal"] > 0


def test_a_rare_word_tells_more_than_a_common_one(keywords: KeywordStore, add: Add) -> None:
    """R5: and an unknown one most, never less than nothing; retired records do not count."""
    for text in ("port", "port", "port quay"):
        add(text)
    add("quay", status="retired")
    told = {word: keywords.rarity([word], [HERE]) for word in ("port", "quay", "zebra")}
    nats = {word: -log((count + 0.5) / (PRIOR_RECORDS + 4)) for word, count in (("port", 3), ("quay", 1), ("zebra", 0))}
    assert told == {
        word: Rarity(records=3, information=told_by, nats={word: told_by}, absent=frozenset({word} & {"zebra"}))
        for word, told_by in nats.items()
    }
    assert 0 < told["port"].information < told["quay"].information < told["zebra"].information


def test_other_scopes_matter_only_where_they_are_asked_for(make: Make, open_store: Open, add: Add) -> None:
    """S4.1: what another project stores changes no score here; scopes read together are counted together."""
    store = open_store()
    mine = [add(text) for text in ("the port is open", "the quay is closed")]
    keywords = make(store)
    terms = ["port", "quay"]
    before = (keywords.search(terms, [HERE], 10), keywords.rarity(terms, [HERE]))
    other = add("port port port", scope=THERE)
    assert (keywords.search(terms, [HERE], 10), keywords.rarity(terms, [HERE])) == before
    port, quay = (keywords.rarity([term], [HERE, THERE]).information for term in terms)
    assert port < quay
    assert keywords.search(terms, [HERE, THERE], 10).keys() == {other.id, *(record.id for record in mine)}


def test_only_and_exclude_choose_among_records(keywords: KeywordStore, add: Add) -> None:
    """S4.1: named ones whatever their status; excluded ones never; neither widens the scope."""
    live, retired = add("port one"), add("port two", status="retired")
    foreign = add("port three", scope=THERE)
    everyone = [live.id, retired.id, foreign.id, "r-unknown", live.id]
    assert set(keywords.search(["port"], [HERE], 10)) == {live.id}
    assert set(keywords.search(["port"], [HERE], 10, only=RecordSet.of(everyone))) == {live.id, retired.id}
    assert set(keywords.search(["port"], [HERE], 10, only=RecordSet.of(everyone), exclude=[live.id])) == {retired.id}
    assert keywords.search(["port"], [HERE], 10, only=RecordSet.of([])) == {}
    assert keywords.search(["port"], [HERE], 10, exclude=[live.id, "r-unknown"]) == {}
    assert keywords.scores(["port"], [HERE], everyone) == keywords.search(
        ["port"], [HERE], 10, only=RecordSet.of(everyone)
    )


def test_what_holds_a_name_has_all_its_words(keywords: KeywordStore, store: RecordStore, add: Add) -> None:
    """R7: of too many the shortest, of equally long ones the newest."""
    long = add("ntp brae " + "steers the gauges of every quay by the clock of one lighthouse " * 3)
    old, new, half = add("ntp brae"), add("brae of ntp"), add("ntp")
    add("ntp brae", scope=THERE)
    everyone = RecordSet.of([long.id, old.id, new.id, half.id])
    assert set(keywords.holding(["ntp", "brae"], [HERE], 3, everyone)) == {long.id, old.id, new.id}
    assert keywords.holding(["ntp", "brae"], [HERE], 2, everyone) == [new.id, old.id]
    assert keywords.holding(["ntp", "brae"], [HERE, PRIVATE], 2, RecordSet.of([long.id, half.id])) == [long.id]
    assert (
        keywords.holding(["ntp", "elsewhere"], [HERE], 3, everyone) == keywords.holding([], [HERE], 3, everyone) == []
    )
    with store.write() as transaction:
        transaction.erase([old.id])
    assert keywords.holding(["ntp", "brae"], [HERE], 1, everyone) == [new.id]


def test_words_are_kept_for_a_while_and_answered_alike(
    keywords: KeywordStore, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: as far as there is room."""
    monkeypatch.setattr(keyword_store, "MOST_SAID", 1)
    made = add("The harbour lamp is red.")
    asked = [keywords.search([*words], [HERE], 10) for words in (("harbour", "lamp"), ("red",), ("harbour", "lamp"))]
    assert asked[0] == asked[2]
    assert [[*each] for each in asked] == [[made.id]] * 3


def test_a_long_query_of_many_words_is_answered_by_the_formula(keywords: KeywordStore, add: Add) -> None:
    """R5: a pasted log is a query too."""
    rng = random.Random(2)
    vocabulary = [f"word{n}x" for n in range(100)]
    stored: Stored = {}
    for _ in range(30):
        record = add(" ".join(rng.choices(vocabulary, k=60)))
        stored[record.id] = (HERE, "new", record.text, False)
    terms = query_terms(" ".join(vocabulary))
    assert len(terms) == MAX_QUERY_TERMS
    assert_exactly(keywords.search(terms, SCOPES, 20), oracle(stored, terms, SCOPES, None, ()), 20)


def test_a_word_repeated_beyond_measure_counts_as_often_as_can_be_kept(keywords: KeywordStore, add: Add) -> None:
    """R5: a text of one word a thousand times is found, and nothing overflows."""
    often, once = add("port " * 1000), add("port of call")
    assert set(keywords.search(["port"], [HERE], 10)) == {often.id, once.id}


def test_readers_at_work_while_others_write_always_see_whole_records(make: Make, open_store: Open, add: Add) -> None:
    """S1.1: several threads on one keyword store, another process's writes in between."""
    store, other = open_store(), open_store()
    keywords = make(store)
    add("port zero", to=other)
    failures: list[Mapping[str, float]] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            answer = keywords.search(["port", "quay"], [HERE], 500)
            if not answer or list(answer.values()) != sorted(answer.values(), reverse=True):
                failures.append(answer)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(40):
            add(f"port {number} quay", to=other)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert failures == []
    assert len(keywords.search(["port"], [HERE], 500)) == 41


def test_a_turn_is_read_on_into_what_is_said_beside_it(keywords: KeywordStore, add: Add) -> None:
    """R5: a question and its answer share a word that only one of them says; in one session, and only in dialogue."""
    question = add("Where did you buy the kayak?", speaker="Ann", session_id="s1")
    answer = add("In Lisbon, last spring.", speaker="Bo", session_id="s1")
    add("Nice.", speaker="Ann", session_id="s1")
    add("The weather is fine.", speaker="Ann", session_id="s2")
    add("Lunch was late.", session_id="s1")
    scores = keywords.search(["kayak"], [HERE], 10)
    assert list(scores) == [question.id, answer.id]
    assert scores[answer.id] == pytest.approx(READ_ON * scores[question.id])
    both = keywords.search(["kayak", "lisbon"], [HERE], 10)
    assert both[answer.id] > scores[question.id]


def test_what_is_excluded_is_not_read_on_into_either(keywords: KeywordStore, add: Add) -> None:
    """B1.4, T4.3: whether a hidden turn holds a word cannot be told from the turn beside it."""
    greeting = add("Good morning to you.", speaker="Ann")
    hidden = add("The xylophone is broken.", speaker="Bo")
    assert set(keywords.search(["xylophone"], [HERE], 10)) == {greeting.id, hidden.id}
    assert keywords.search(["xylophone"], [HERE], 10, exclude=[hidden.id]) == {}
    assert keywords.search(["xylophone"], [HERE], 10, only=RecordSet.of([greeting.id]), exclude=[hidden.id]) == {}
    assert keywords.scores(["xylophone"], [HERE], [greeting.id], exclude=[hidden.id]) == {}
    assert set(keywords.scores(["xylophone"], [HERE], [greeting.id])) == {greeting.id}


def test_turns_close_ranks_when_one_between_them_goes(keywords: KeywordStore, store: RecordStore, add: Add) -> None:
    """R9: what is retired or erased is no longer read on into; what is said differently now, is."""
    first, second, third = (add(text, speaker="Ann") for text in ("alpha", "beta", "gamma"))
    assert keywords.neighbours([first.id, second.id, third.id], [HERE]) == {
        first.id: [second.id],
        second.id: [first.id, third.id],
        third.id: [second.id],
    }
    assert keywords.neighbours([first.id], [HERE]) == {first.id: []}, "the one beside it is not asked about"
    with store.write() as transaction:
        transaction.update(replace(second, text="delta"), VECTOR)
    assert set(keywords.search(["delta"], [HERE], 10)) == {first.id, second.id, third.id}
    assert set(keywords.search(["beta"], [HERE], 10)) == set()
    with store.write() as transaction:
        transaction.update(replace(second, text="delta", status="retired"))
    assert keywords.search(["delta"], [HERE], 10) == {}
    assert keywords.neighbours([first.id], [HERE]) == {}
    with store.write() as transaction:
        transaction.erase([second.id])
    assert keywords.neighbours([first.id, third.id], [HERE]) == {first.id: [third.id], third.id: [first.id]}
    assert set(keywords.search(["gamma"], [HERE], 10)) == {first.id, third.id}


Stored = dict[str, tuple[str, Status, str, bool]]
"""For each record its scope, status, text, and whether it is a turn of the one session."""


def oracle(
    stored: Stored,
    terms: Sequence[str],
    scopes: Collection[str],
    only: Collection[str] | None,
    exclude: Collection[str],
) -> dict[str, float]:
    """The information of the words in common as the formula reads, record by record; best and newest first."""
    here = {
        i: (status, Counter(index_terms(text))) for i, (scope, status, text, _) in stored.items() if scope in scopes
    }
    live = [counts for status, counts in here.values() if status not in OUT_OF_SEARCH]
    mean = sum(counts.total() for counts in live) / max(len(live), 1) or 1.0
    having = {stem: sum(stem in counts for counts in live) for stem in stems(terms)}
    chances = {stem: (count + 0.5) / (len(live) + PRIOR_RECORDS + 1) for stem, count in having.items()}
    beside = turns_beside(stored)
    whole, *parts = stems(["parseConfig", "parse", "config"])
    is_compound = "parseconfig, parse, config" in ", ".join(terms)

    def own(record_id: str, stem: str) -> float:
        counts = here[record_id][1]
        is_said = is_compound and stem in parts and counts[whole]
        return (
            -log(-expm1(min(max(counts.total() / mean, 1.0), MOST_RELATIVE) * log1p(-chances[stem])))
            if counts[stem] and not is_said
            else 0.0
        )

    scores: dict[str, float] = {}
    for record_id, (status, _) in here.items():
        near = [turn for turn in beside.get(record_id, ()) if turn not in exclude]
        told = [max(own(record_id, s), *(READ_ON * own(turn, s) for turn in near), 0.0) for s in chances]
        wanted = record_id in only if only is not None else status not in OUT_OF_SEARCH
        if sum(told) > 0 and wanted and record_id not in exclude:
            scores[record_id] = sum(told)
    return dict(sorted(scores.items(), key=lambda hit: (hit[1], hit[0]), reverse=True))


def test_a_compound_word_counts_once_where_the_whole_stands(keywords: KeywordStore, add: Add) -> None:
    """R5: "SQLite" is one word of the question, not three; its parts count where they stand alone."""
    whole, parts, lite = add("SQLite is quick"), add("a lite sq layout"), add("a lite layout")
    found = keywords.search(query_terms("SQLite"), [HERE], 10)
    assert found[whole.id] == keywords.search(["sqlite"], [HERE], 10)[whole.id]
    assert found[parts.id] > found[lite.id] > 0
    assert keywords.rarity(query_terms("SQLite"), [HERE]).information == keywords.rarity(["sqlite"], [HERE]).information


def turns_beside(stored: Stored) -> dict[str, list[str]]:
    """For each turn the live ones directly before and after it in its scope; those that are alone are not named."""
    beside: dict[str, list[str]] = {}
    for scope in SCOPES:
        turns = [record_id for record_id in sorted(stored) if stored[record_id][0] == scope and stored[record_id][3]]
        for before, after in pairwise(turns):
            beside.setdefault(before, []).append(after)
            beside.setdefault(after, []).insert(0, before)
    live = {record_id for record_id, (_, status, _, _) in stored.items() if status not in OUT_OF_SEARCH}
    kept = {turn: [each for each in near if each in live] for turn, near in beside.items()}
    return {turn: near for turn, near in kept.items() if near}


def assert_exactly(answer: Mapping[str, float], wanted: Mapping[str, float], limit: int) -> None:
    """The same records with the same scores; in the same order where the scores differ by more than rounding."""
    assert len(answer) == min(len(wanted), limit)
    assert list(answer.values()) == pytest.approx(list(wanted.values())[:limit], rel=1e-12)
    assert [wanted.get(record_id, inf) for record_id in answer] == pytest.approx(list(answer.values()), rel=1e-12)


WORDS = ["port", "ports", "quay", "parseConfig", "config", "déjà", "deja", "数据库", "据", "running", "the", "…"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
Step = tuple[str, int, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "update", "erase", "retire", "restore", "move", "search"]),
        st.integers(0, 1000),
        texts,
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=50,
)
QUERIES = st.lists(st.sampled_from([*WORDS, "absent"]), max_size=5).map(" ".join).map(query_terms)


def apply(store: RecordStore, stored: Stored, step: Step) -> None:
    """Take one step in the truth and in the model of it."""
    kind, seed, text, scope = step
    with store.write() as transaction:
        if kind == "insert" or not stored:
            role = "user" if seed % 2 else None
            record = replace(BLANK, id=transaction.next_id("r"), scope=SCOPES[scope], text=text, role=role)
            transaction.insert(record, VECTOR, (), ())
            stored[record.id] = (record.scope, "new", text, role is not None)
            return
        record_id = sorted(stored)[seed % len(stored)]
        record = transaction.get(record_id)
        assert record is not None
        old_scope, status, old_text, turn = stored[record_id]
        if kind == "erase":
            transaction.erase([record_id])
            del stored[record_id]
        elif kind == "update":
            stored[record_id] = (old_scope, status, text, turn)
            transaction.update(replace(record, text=text), VECTOR)
        else:
            status = STATUS_AFTER.get(kind, status)
            moved = SCOPES[scope] if kind == "move" else old_scope
            stored[record_id] = (moved, status, old_text, turn)
            transaction.update(replace(record, status=status, scope=moved))


@settings(max_examples=24)
@given(steps=STEPS, limit=st.integers(1, 12), terms=QUERIES, data=st.data())
def test_search_follows_the_formula_after_any_history(
    make: Make, new_memory: NewMemory, steps: Sequence[Step], limit: int, terms: Sequence[str], data: st.DataObject
) -> None:
    """S1.2, S2.2, S4.1: whatever was done by whomever; and a store opened only now answers alike, to the bit."""
    with new_memory() as open_it:
        truth, other = open_it(), open_it()
        keywords = make(truth)
        stored: Stored = {}
        for step in steps:
            if step[0] == "search":
                assert_exactly(keywords.search(terms, SCOPES, limit), oracle(stored, terms, SCOPES, None, ()), limit)
            else:
                apply(other, stored, step)
        known = sorted(stored)
        scopes = data.draw(st.lists(st.sampled_from(SCOPES), unique=True))
        only = data.draw(st.none() | st.lists(st.sampled_from([*known, "r-unknown"])))
        exclude = data.draw(st.lists(st.sampled_from([*known, "r-unknown"]), max_size=3))
        for each in (keywords, make(other)):
            answer = each.search(terms, scopes, limit, None if only is None else RecordSet.of(only), exclude)
            assert_exactly(answer, oracle(stored, terms, scopes, only, exclude), limit)
            told = sorted(each.scores(terms, scopes, known).items(), key=lambda hit: hit[::-1], reverse=True)
            assert_exactly(dict(told), oracle(stored, terms, scopes, known, ()), len(known))
        assert keywords.rarity(terms, scopes) == make(other).rarity(terms, scopes)
        assert keywords.neighbours(known, SCOPES) == make(other).neighbours(known, SCOPES) == turns_beside(stored)


def test_a_long_history_of_changes_leaves_every_record_as_it_is_now(make: Make, open_store: Open) -> None:
    """S1.2: far more changes than records, among live and retired ones, over several scopes."""
    store = open_store()
    keywords = make(store)
    rng = random.Random(4)
    stored: Stored = {}
    for turn in range(200):
        kind = "insert" if turn < 30 else rng.choice(["update"] * 6 + ["retire", "restore", "move", "erase", "insert"])
        text = " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))
        apply(store, stored, (kind, rng.randrange(1000), text, rng.randrange(3)))
        if turn % 20 == 0:
            terms = query_terms(" ".join(rng.sample(WORDS, 4)))
            assert_exactly(keywords.search(terms, SCOPES, 10), oracle(stored, terms, SCOPES, None, ()), 10)


def test_texts_changed_many_times_leave_nothing_of_what_they_said(make: Make, open_store: Open) -> None:
    """S1.2: also once what is kept of former texts outweighs the present ones and is cleared away."""
    store = open_store()
    keywords = make(store)
    rng = random.Random(6)
    stored: Stored = {}
    for _ in range(40):
        apply(store, stored, ("insert", 0, "port", 0))
    for number in range(12):
        with store.write() as transaction:
            for record_id in rng.sample(sorted(stored), 30):
                text = " ".join(rng.choices(WORDS, k=rng.randint(1, 30)))
                stored[record_id] = (HERE, "new", text, False)
                transaction.update(replace(BLANK, id=record_id, text=text), VECTOR)
        terms = query_terms(WORDS[number])
        assert_exactly(keywords.search(terms, [HERE], 100), oracle(stored, terms, [HERE], None, ()), 100)
    apply(store, stored, ("retire", 7, "", 0))
    assert_exactly(keywords.search(["port"], [HERE], 100), oracle(stored, ["port"], [HERE], None, ()), 100)


def test_many_records_at_once_and_few_afterwards_are_found_alike(make: Make, open_store: Open) -> None:
    """S1.2: a store that was loaded whole, and one that followed from the start, hold the same."""
    store = open_store()
    follower = make(store)
    rng = random.Random(5)
    vocabulary = [f"w{number}" for number in range(300)]
    stored: Stored = {}
    for size in (700, 1, 700, 1, 1):
        with store.write() as transaction:
            for _ in range(size):
                text = " ".join(rng.choices(vocabulary, k=10))
                record = replace(BLANK, id=transaction.next_id("r"), text=text)
                transaction.insert(record, VECTOR, (), ())
                stored[record.id] = (HERE, "new", text, False)
        terms = rng.sample(vocabulary, 6)
        wanted = oracle(stored, terms, SCOPES, None, ())
        for keywords in (follower, make(store)):
            assert_exactly(keywords.search(terms, SCOPES, 50), wanted, 50)


BLANK = Record(
    id="", scope=HERE, namespace="here", visibility="shared", agent="ann", session_id="s1", task_id=None,
    branch_id=None, kind="fact", text="text", summary="text", micro="text", text_tokens=1, summary_tokens=1,
    micro_tokens=1, importance=1.0, confidence=None, status="new", outcome=None, pinned=False, tags=(), details={},
    speaker=None, role=None, tool=None, call_id=None, superseded_by=None, created_at=100.0, updated_at=100.0,
    accessed_at=100.0, occurred_at=100.0,
)  # fmt: skip

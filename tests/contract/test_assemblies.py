"""The contract of `RecordStore`: what it tells of contexts that were given, and of records in numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.health_figures import Assembled, Tally
from mcp_memory.domain.model.records import Counters, Json, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.ports.records import RecordStore

Add = Callable[..., Record]
DAY = 86_400.0
HERE = RecordFilter(scopes=("shared/here",), include_inactive=True)
ANN = Caller(namespace="here", agent="ann", session_id="s1")
OTHERS = (replace(ANN, agent="bob"), replace(ANN, namespace="there"))


def give(
    store: RecordStore,
    at: float = 0.0,
    caller: Caller = ANN,
    *,
    context_id: str = "c1",
    strategy: str = "auto",
    **said: Json,
) -> None:
    """Keep the account of a context with this metadata."""
    report = ContextReport(
        id=context_id, token_count=1, truncated=False, strategy=strategy, components=(), omitted=(), metadata=said
    )
    store.keep_context(report, caller, at)


def test_what_was_assembled_is_counted_for_its_agent_alone(store: RecordStore) -> None:
    """C9.1, A7.2, S4.1: means over what is told, the median of what was built anew; nobody else's."""
    give(store, 1.0, picked="coding", relevance=0.5, utilisation=0.25, cached=False, assembly_ms=10.0)
    give(store, 2.0, picked="question", relevance=None, utilisation=0.5, cached=True, assembly_ms=1.0)
    give(store, 3.0, strategy="recent", relevance=0.75, cached=False, assembly_ms=40.0, follow_up="rebuilt")
    for other in OTHERS:
        give(store, 3.0, other, strategy="secret", picked="secret", relevance=0.0, cached=False, follow_up="rebuilt")
    assert store.assembled(ANN, 0.0) == Assembled(
        contexts=3,
        strategies={"auto": 2, "recent": 1},
        picked={"coding": 1, "question": 1},
        relevance=0.625,
        utilisation=0.375,
        follow_ups=1,
        rebuilt=1,
        cold_build_ms=25.0,
    )
    assert store.assembled(ANN, 2.5).strategies == {"recent": 1}


def test_a_context_given_again_counts_again(store: RecordStore) -> None:
    """C9.1: its account is the latest alone, but a rebuild that stood unchanged for two turns is one of three."""
    give(store, 1.0, follow_up="rebuilt", cached=False, assembly_ms=30.0)
    give(store, 2.0, follow_up="unchanged", cached=True, assembly_ms=1.0)
    give(store, 3.0, follow_up="unchanged", cached=False, assembly_ms=20.0)
    give(store, 4.0, context_id="c2", cached=False, assembly_ms=90.0)
    given = store.assembled(ANN, 0.0)
    assert (given.contexts, given.follow_ups, given.rebuilt, given.cold_build_ms) == (4, 3, 1, 30.0)
    kept = store.context("c1", ANN)
    assert kept is not None
    assert kept.metadata["follow_up"] == "unchanged"


def test_contexts_of_all_agents_of_a_namespace_are_totalled_where_asked(store: RecordStore) -> None:
    """U1.1: never those of another namespace."""
    give(store, 1.0, utilisation=0.2, cached=False, assembly_ms=10.0, picked="recent")
    for other in OTHERS:
        give(store, 1.0, other, utilisation=0.8, cached=False, assembly_ms=30.0, strategy="recent", picked="important")
    assert store.assembled(ANN, 0.0).contexts == 1
    given = store.assembled(ANN, 0.0, of_all=True)
    assert (given.contexts, given.utilisation, given.cold_build_ms) == (2, 0.5, 20.0)
    assert (given.strategies, given.picked) == ({"auto": 1, "recent": 1}, {"important": 1, "recent": 1})


def test_what_was_assembled_is_forgotten_with_its_accounts(store: RecordStore) -> None:
    """B1.3: after two weeks."""
    assert store.assembled(ANN, 0.0) == Assembled(
        contexts=0, strategies={}, picked={}, relevance=None, utilisation=None, follow_ups=0, rebuilt=0,
        cold_build_ms=None,
    )  # fmt: skip
    give(store, 0.0)
    give(store, 1.0, OTHERS[0])
    give(store, 14 * DAY + 0.5, context_id="c2")
    assert store.assembled(ANN, -1.0).contexts == 1
    assert store.assembled(OTHERS[0], -1.0).contexts == 1


def test_records_are_tallied_within_the_filter(store: RecordStore, add: Add) -> None:
    """C9.1, S4.1: those stored lately, facts that were met again, and what feedback says."""
    assert store.tally(HERE, 0.0) == Tally(stored=0, facts=0, older_facts=0, confirmed_facts=0, used=0, ignored=0)
    add("old", counters=Counters(confirmed=2, used=3))
    add("new", created_at=500.0, counters=Counters(ignored=1))
    add("decided", kind="decision", created_at=501.0, status="retired", counters=Counters(confirmed=1, used=1))
    add("elsewhere", scope="private/bob/here", created_at=501.0, counters=Counters(confirmed=1, used=9, ignored=9))
    add("hidden", branch_id="t9", created_at=501.0, counters=Counters(confirmed=1, used=9, ignored=9))
    where = replace(HERE, hidden_branches=frozenset({"t9"}))
    assert store.tally(where, 500.0) == Tally(stored=2, facts=2, older_facts=1, confirmed_facts=1, used=4, ignored=1)
    assert store.tally(replace(where, include_inactive=False), 501.0).used == 3


def test_what_was_stored_is_counted_by_weeks(store: RecordStore, add: Add) -> None:
    """U1.1: what is retired counts too, and what another scope holds does not."""
    for at, more in ((0.0, {}), (7 * DAY, {"status": "retired"}), (13.9 * DAY, {}), (21 * DAY, {})):
        add(f"Stored at {at}.", created_at=at, **more)
    add("Elsewhere.", created_at=7 * DAY, scope="shared/there", namespace="there")
    assert store.stored_by_period(HERE, 7 * DAY, 7 * DAY) == {0: 2, 2: 1}
    assert store.stored_by_period(HERE, 22 * DAY, 7 * DAY) == {}

"""What holds of every context, whatever the store, the request and the client: budget, account, bytes, secrecy."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, cast, get_args

import pytest
import toktok
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.domain.model.records import KINDS, Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.strategy import Layout, Signal
from mcp_memory.errors import BudgetTooSmall
from mcp_memory.services.context.assemble import Context, ContextRequest
from mcp_memory.services.context.fit_to_budget import Order
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.strategies import read_strategies
from tests.services.context.conftest import Copied
from tests.services.tasks.moves import pop, push

independent_counts = cast("Callable[[list[str], str], list[int]]", toktok.batch_count)
MARK = re.compile(r"zq[a-z]+zq")
UNKNOWN = re.compile(r"- nothing here names [^\n]*")
"""It repeats the question's own words, and nothing of the memory."""
QUERIES = [
    "",
    "how is billing deployed?",
    "which port has the mail service?",
    "fix the red build",
    "Ada Lovelace",
    "last week",
    "What of Zqexcludedzq, Zquntaggedzq, Zqearlyzq, Zqbranchzq, Zqprivatezq, Zqoldzq and Zqisolatedzq?",
]
SHARED = "The billing service and the mail service have a port, a host, a red build and Ada Lovelace. "


def marked(mark: str, weight: float = 1.0, **fields: Any) -> NewRecord:
    """A record that every query likes, with a mark in its text, its details, a name and a relation of its own."""
    entity, kind = f"Zq{mark}zq", fields.pop("kind", "fact")
    return NewRecord(
        text=f"{SHARED} zq{mark}zq", kind=kind, importance=10,
        entities=(Entity(name=entity, properties={"is": f"zq{mark}zq"}),),
        relations=(Relation(source="Ada Lovelace", type="knows", target=entity, weight=weight),), **fields,
    )  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """Two processes on one store, and what the first one's agent may not be shown, by what hides it."""

    apps: tuple[App, App]
    caller: Caller
    never: frozenset[str]
    by_request: Mapping[str, frozenset[str]]
    excluded: str
    task_id: str


def plant(app: App, bob: App, there: App) -> Planted:
    """Marked texts everywhere: other scopes, hidden branches, what has ended, what a request may filter out."""
    bob.remember([marked("private", visibility="private")], bob.caller())
    there.remember([marked("elsewhere"), marked("pinnedelsewhere", pinned=True)], there.caller())
    push(bob, "bob's experiment", branch=True)
    bob.remember(
        [marked("branch"), marked("branchcensor", kind="censor"), marked("branchpin", pinned=True)], bob.caller()
    )
    me = app.caller()
    gone = app.remember([marked("retired"), marked("wrong"), marked("erased"), marked("old")], me)
    app.forget([gone[0].id], "retire", me)
    app.revise(Revision(id=gone[1].id, feedback="wrong"), me)
    app.forget([gone[2].id], "erase", me)
    app.remember([NewRecord(text=SHARED + "This is newer.", supersedes=(gone[3].id,))], me)
    push(app, "renew the billing service")
    push(app, "find the cause of the red build")
    app.remember([marked("isolated", kind="episode"), marked("isolatedwords", kind="message")], me)
    pop(app, "numpy 3 broke it")
    kinds = [marked(f"kind{kind.replace('_', '')}", 0.5, kind=kind, tags=("net",)) for kind in KINDS]
    app.remember(kinds, me)
    app.remember([marked("untagged", kind="decision"), marked("early", tags=("net",), occurred_at=1_600_000_000.0)], me)
    excluded = app.remember([marked("excluded", tags=("net",), pinned=True)], me)[0].id
    inherited = app.remember([marked("inherited", tags=("net",))], me)[0].id
    push(app, "deploy the mail service", inherit=(inherited,), plan=("announce it", "watch it"))
    texts = [
        NewRecord(
            text=("Deploys of billing", "The mail port", "A red build")[n % 3] + f" {n}: it was seen. " * (1 + n % 9),
            kind=KINDS[n % len(KINDS)], importance=float(n % 11), pinned=n % 17 == 0, confidence=(None, 0.7)[n % 2],
            outcome=(None, "success", "failure", "pending")[n % 4], session_id=f"s{n % 4}",
            details={"action": "block", "trigger": "deploy"} if KINDS[n % len(KINDS)] == "censor" else {},
        )
        for n in range(60)
    ]  # fmt: skip
    app.remember(texts, me)
    return Planted(
        apps=(app, app),
        caller=me,
        never=frozenset(
            f"zq{mark}zq"
            for mark in (
                "private", "elsewhere", "pinnedelsewhere", "branch", "branchcensor", "branchpin", "retired", "wrong",
                "erased", "isolated", "isolatedwords",
            )
        ),
        by_request={
            "tags": frozenset({"zquntaggedzq"}),
            "since": frozenset({"zqearlyzq"}),
            "exclude": frozenset({"zqexcludedzq"}),
            "kinds": frozenset(f"zqkind{kind.replace('_', '')}zq" for kind in KINDS if kind not in ("fact", "episode")),
        },
        excluded=excluded,
        task_id=app.tasks.stack(me).path[0].id,
    )  # fmt: skip


@pytest.fixture
def planted(open_memory: Callable[..., App], copied: Copied) -> Planted:
    def fill() -> Planted:
        apps = open_memory(session="window"), open_memory(agent="bob"), open_memory(namespace="there")
        planted = plant(*apps)
        for each in apps:
            each.close()
        return planted

    planted = copied("planted", fill)
    apps = open_memory(session="window", token_factor=1.0), open_memory(token_factor=1.53)
    return replace(planted, apps=apps)


@pytest.mark.uncounted
def test_marks_that_nothing_hides_are_shown(planted: Planted) -> None:
    """B1.4: so that it means something where the others are not; names, properties and relations have them too."""
    app, caller = planted.apps[0], planted.caller
    texts = [
        app.assemble_context(ContextRequest(query=query, strategy=strategy, max_tokens=60_000), caller).text.lower()
        for query in ("", "Ada Lovelace and the port of the billing service", "Zqkindfactzq")
        for strategy in ("important", "coding", "clustered")
    ]
    seen = {mark for text in texts for mark in MARK.findall(text)}
    assert {f"zqkind{kind.replace('_', '')}zq" for kind in KINDS} <= seen
    assert {"zquntaggedzq", "zqearlyzq", "zqexcludedzq", "zqinheritedzq"} <= seen
    assert not planted.never & seen
    assert any("**thing**: zqkindfactzq (is: zqkindfactzq)" in text for text in texts)
    assert any("--[knows]--> zqkindfactzq" in text for text in texts)


@pytest.mark.uncounted
@pytest.mark.parametrize("strategy", ["coding", "research", "auto"])
@pytest.mark.parametrize("session", [None, "in no task"])
def test_the_graph_shows_nothing_that_is_hidden_or_left_out(
    planted: Planted, strategy: str, session: str | None
) -> None:
    """B1.4, S4.1: neither as a thing, nor as a relation, nor what is said of it; asked for by name or not."""
    app = planted.apps[0]
    caller = app.caller(session)
    never = planted.never if session is None else planted.never - {"zqisolatedzq", "zqisolatedwordszq"}
    for query in ("Ada Lovelace", "Zqbranchzq, Zqexcludedzq, Zquntaggedzq and Ada Lovelace", "billing"):
        wanted = ContextRequest(query=query, strategy=strategy, max_tokens=20_000)
        shown = app.assemble_context(wanted, caller).text.lower()
        assert ("## relationships" in shown) == ("Ada" in query)
        assert not never & marks_in(shown)
        without = replace(wanted, exclude=(planted.excluded,))
        assert "zqexcludedzq" not in marks_in(app.assemble_context(without, caller).text)
        tagged = replace(wanted, tags=("net",))
        assert "zquntaggedzq" not in marks_in(app.assemble_context(tagged, caller).text)


def marks_in(block: str) -> set[str]:
    """The marks of records that a block shows."""
    return set(MARK.findall(UNKNOWN.sub("", block.lower())))


SIGNALS: tuple[Signal, ...] = get_args(Signal)
OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "weights": st.dictionaries(st.sampled_from(SIGNALS), st.floats(0.1, 5), min_size=1),
        "layout": st.sampled_from(get_args(Layout)),
        "limits": st.dictionaries(st.sampled_from(KINDS), st.integers(0, 5)),
        "least": st.dictionaries(st.sampled_from(KINDS), st.integers(0, 5)),
        "depth": st.integers(0, 3),
        "failures": st.booleans(),
        "flexible_tokens": st.integers(200, 9_000),
        "shares": st.sampled_from(
            [{"facts": 0.5, "decisions": 0.5}, {"recent": 0.9}, {"entities": 0.5, "relations": 0.5}, {"semantic": 1.0}]
        ),
    },
)
REQUESTS = st.fixed_dictionaries(
    {
        "query": st.sampled_from(QUERIES),
        "max_tokens": st.one_of(st.none(), st.integers(100, 500), st.integers(100, 3_000), st.integers(100, 20_000)),
        "strategy": st.sampled_from([None, *read_strategies(None)]),
        "order": st.sampled_from(get_args(Order)),
        "explain": st.booleans(),
        "compress": st.booleans(),
    },
    optional={
        "overrides": OVERRIDES,
        "tags": st.just(("net",)),
        "since": st.just("2026-11-01"),
        "exclude": st.just(True),
        "kinds": st.just(("fact", "episode")),
        "additional_context": st.sampled_from(["Look at src/app.py.", "🙂" * 300]),
        "task_id": st.just(True),
    },
)


def asked(drawn: Mapping[str, Any], planted: Planted) -> ContextRequest:
    """The request, with ids in the place of those that are only known once there is a store."""
    known: dict[str, Any] = {"exclude": (planted.excluded,), "task_id": planted.task_id}
    return ContextRequest(**{name: known.get(name, value) if value is True else value for name, value in drawn.items()})


def built(app: App, wanted: ContextRequest, caller: Caller) -> tuple[Context, int]:
    """The context and its budget, the least that works where the one that is asked for is too small."""
    try:
        return app.assemble_context(wanted, caller), wanted.max_tokens or 8_000
    except BudgetTooSmall as refused:
        return app.assemble_context(replace(wanted, max_tokens=refused.least), caller), refused.least


@given(drawn=REQUESTS, which=st.integers(0, 1))
@settings(max_examples=30)
def test_no_context_overruns_its_budget_or_shows_what_is_hidden(
    planted: Planted, drawn: Mapping[str, Any], which: int
) -> None:
    """A3.1, B1.3, B1.4, S4.1, T2.2: counted independently; marked texts are nowhere, not even by name or relation."""
    app, wanted = planted.apps[which], asked(drawn, planted)
    context, budget = built(app, wanted, planted.caller)
    counted = ceil(independent_counts([context.text], "o200k_base")[0] * (1.0, 1.53)[which])
    assert counted == context.report.token_count <= budget
    # Seen from the root the finished subtask is isolated as it is from its sibling.
    hidden = planted.never.union(*(marks for name, marks in planted.by_request.items() if name in drawn))
    assert not hidden & marks_in(context.text)
    fates = [c.id for c in context.report.components] + [o.id for o in context.report.omitted]
    assert len(fates) == len(set(fates))
    assert all(omission.reason for omission in context.report.omitted)
    reasons = {omission.reason for omission in context.report.omitted}
    cut = {
        "no room in the budget",
        "no room in its part of the budget",
        "pinned, but no room in the budget",
        "more tasks in memory://tasks",
        *(f"no {kind}s under this strategy" for kind in KINDS),
    }
    assert context.report.truncated == bool(reasons & cut)


@given(drawn=REQUESTS)
@settings(max_examples=20)
def test_every_candidate_is_placed_or_has_a_reason(planted: Planted, drawn: Mapping[str, Any]) -> None:
    """B1.3: all that a recall with the same words and filters finds, as far as the task lets it in."""
    wanted = replace(asked(drawn, planted), overrides={**drawn.get("overrides", {}), "weights": {"relevance": 1.0}})
    app = planted.apps[0]
    report = built(app, wanted, planted.caller)[0].report
    fates = {c.id for c in report.components} | {o.id for o in report.omitted}
    goal = app.tasks.stack(planted.caller).path[-1 if wanted.task_id is None else 0].goal
    same = RecallRequest(
        query=wanted.query or goal, kinds=wanted.kinds, tags=wanted.tags, since=wanted.since, limit=30, max_tokens=8_000
    )
    found = {str(result["id"]) for result in app.recall(same, planted.caller).results}
    there = app.records.get(found, planted.caller.scopes)
    isolated = app.tasks.stack(planted.caller).isolated
    let_in = {i for i in there if there[i].task_id not in isolated or there[i].kind not in ("episode", "message")}
    assert let_in - set(wanted.exclude) <= fates


@given(drawn=REQUESTS, which=st.integers(0, 1), news=st.integers(0, 3))
@settings(max_examples=20)
def test_what_a_follow_up_adds_fits_beside_what_is_shown(
    planted: Planted, drawn: Mapping[str, Any], which: int, news: int
) -> None:
    """C7.1, A3.1, B1.4: both together stay inside the budget, and what is added shows nothing hidden either."""
    app, wanted = planted.apps[which], asked(drawn, planted)
    first, budget = built(app, wanted, planted.caller)
    first_tokens = first.report.token_count
    revision = app.records.revision()
    app.remember(
        [NewRecord(text=f"News {revision}.{n} of billing and the red build.", tags=("net",)) for n in range(news)]
        or [NewRecord(text=f"Something else happened, number {revision}.")],
        planted.caller,
    )
    follow_up = replace(wanted, previous=first.report.id, max_tokens=max(budget, 200) if wanted.max_tokens else None)
    second = app.assemble_context(follow_up, planted.caller)
    counted = ceil(independent_counts([second.text], "o200k_base")[0] * (1.0, 1.53)[which])
    assert counted == second.report.token_count
    most = follow_up.max_tokens or 8_000
    assert counted <= most - (first_tokens if second.report.metadata.get("follow_up") == "added" else 0)
    hidden = planted.never.union(*(marks for name, marks in planted.by_request.items() if name in drawn))
    assert not hidden & marks_in(second.text)


STORES = st.lists(
    st.builds(
        NewRecord,
        text=st.text("abc de\n#-[]<>🙂数0123.", min_size=1, max_size=80).filter(lambda text: bool(text.strip())),
        kind=st.sampled_from(KINDS),
        importance=st.floats(0, 10),
        pinned=st.booleans(),
        outcome=st.sampled_from([None, "success", "failure"]),
        session_id=st.sampled_from([None, "s1", "s2"]),
        occurred_at=st.sampled_from([None, 1_795_000_000.0, 1_700_000_000.0]),
    ),
    max_size=12,
)


@given(
    items=STORES, drawn=REQUESTS, factor=st.sampled_from([1.0, 1.13, 1.53]), goal=st.sampled_from(["", "ab", "数" * 90])
)
@settings(max_examples=15)
def test_a_fresh_process_builds_the_same_bytes_from_any_store(
    open_memory: Callable[..., App], items: list[NewRecord], drawn: Mapping[str, Any], factor: float, goal: str
) -> None:
    """B11.2, A3.1: at the same revision, inside the budget, whoever opened records in between."""
    first = open_memory(None, token_factor=factor)
    folder = first.settings.data_dir.name
    second = open_memory(folder, token_factor=factor)
    try:
        caller = first.caller("mine")
        stored = first.remember(items, caller) if items else []
        if goal:
            push(first, goal, caller)
        given_ids = [name for name in ("exclude", "task_id") if name in drawn]  # Those of another store.
        plain: dict[str, Any] = {name: value for name, value in drawn.items() if name not in given_ids}
        wanted = ContextRequest(**plain)
        context, budget = built(first, wanted, caller)
        assert (
            ceil(independent_counts([context.text], "o200k_base")[0] * factor) == context.report.token_count <= budget
        )
        weighs_access = "access" in cast("dict[str, float]", wanted.overrides.get("weights", {}))
        if wanted.strategy != "recent" and not weighs_access:  # Those rank by who opened what.
            first.recall(
                RecallRequest(ids=tuple({one.id for one in stored[:3]}) or ("c0",)), caller
            ) if stored else None
        again, _ = built(second, wanted, caller)
        assert again.report.metadata["cached"] is False
        assert (again.text, again.report.id) == (context.text, context.report.id)
        assert (again.report.components, again.report.omitted) == (context.report.components, context.report.omitted)
    finally:
        first.close()
        second.close()

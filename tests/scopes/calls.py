"""Calls with arguments at random, which name what the asker may not see as often as what it may."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from mcp_memory.domain.model.records import KINDS
from mcp_memory.strategies import read_strategies
from tests.scopes.planting import ENTITY, SECRETS, SUBJECT, TAG, Found
from tests.scopes.worlds import Ask

STRATEGIES = tuple(read_strategies(None))
OWN_WORDS = ("oak", "ash", "elm", "fir", "yew")
KINDS_ASKED_FOR = st.lists(st.sampled_from(KINDS), max_size=2, unique=True)
RESOURCES = ("record", "session", "context")
_words = st.sampled_from([*SECRETS, *OWN_WORDS, "nothing"])
_tags = st.lists(st.sampled_from([TAG, *(f"tag{word}" for word in SECRETS[:4])]), max_size=1)
_entities = st.lists(st.sampled_from([ENTITY, "Entity oak", *(f"Entity {word}" for word in SECRETS)]), max_size=2)
_sessions = st.sampled_from(["", "day", "carols", "day two"])
_times = st.sampled_from(["", "", "last week", "2020-01-01"])
_queries = st.one_of(
    st.sampled_from(["", "how is the payment service deployed", "what was decided last week", "port 5401"]),
    st.builds("payment service {}".format, _words),
    st.builds("Entity {}".format, _words),
)


def reads(found: Found, own: Sequence[str]) -> SearchStrategy[Ask]:
    """Any call that reads, or any resource; `own` are ids of what the asker may see."""
    _, some_ids, few_ids, tasks = _named(found, own)
    strategy = st.sampled_from(["", *STRATEGIES])
    return st.one_of(
        _call("recall", query=_queries, kinds=KINDS_ASKED_FOR, tags=_tags, entities=_entities, session_id=_sessions,
              task_id=tasks, include_inactive=st.booleans(), explain=st.booleans(), since=_times,
              limit=st.sampled_from([1, 10, 100]), max_tokens=st.sampled_from([200, 20_000])),
        _call("recall", query=_queries, limit=st.just(100), max_tokens=st.just(50_000), explain=st.booleans()),
        _call("recall", ids=st.one_of(some_ids, st.lists(st.sampled_from(found.contexts), min_size=1, max_size=1)),
              detail=st.sampled_from(["micro", "summary", "full"]), max_tokens=st.just(50_000)),
        _call("assemble_context", query=_queries, strategy=strategy, session_id=_sessions, task_id=tasks,
              kinds=KINDS_ASKED_FOR, tags=_tags, entity_types=st.lists(st.just("service"), max_size=1), exclude=few_ids,
              previous=st.sampled_from(["", "", *found.contexts]), compress=st.booleans(), explain=st.booleans()),
        _call("assemble_context", query=_queries, strategy=strategy, explain=st.booleans()),
        st.builds("memory://{}/{}".format, st.sampled_from(RESOURCES),
                  st.sampled_from([*found.all, *own, "day", "carols"])).map(lambda uri: ("read", {"uri": uri})),
        st.sampled_from([("read", {"uri": "memory://status"}), ("read", {"uri": "memory://tasks"})]),
    )  # fmt: skip


def calls(found: Found, own: Sequence[str]) -> SearchStrategy[Ask]:
    """Any call of any tool or resource."""
    ids, some_ids, few_ids, tasks = _named(found, own)
    text = st.one_of(
        st.builds("{} {} by the {} rule.".format, st.just(SUBJECT), _words, st.sampled_from(KINDS)),
        st.builds("- [{} fact 2026-11-20] {} {} by the fact rule.".format, ids, st.just(SUBJECT), _words),
        st.builds("[{}] ".format, st.sampled_from(found.records)),
        st.builds("Nobody has said {} yet.".format, _words),
    )
    return st.one_of(
        reads(found, own),
        _call("remember", text=text, kind=st.sampled_from(["fact", "decision", "message", "censor"]),
              visibility=st.sampled_from(["shared", "private", "user"]), supersedes=few_ids, session_id=_sessions,
              task_id=tasks, reassert=st.booleans(), tags=_tags),
        _call("remember", text=text, visibility=st.sampled_from(["shared", "private", "user"])),
        _call("push_task", goal=st.sampled_from(["", "Go on"]), task_id=tasks, parent_id=tasks, inherit=few_ids,
              plan=st.lists(st.just("Next"), max_size=1), branch=st.booleans(), session_id=_sessions),
        _call("pop_task", result=st.just("Done."), task_id=tasks, cascade=st.booleans(), session_id=_sessions),
        _call("compact", session_id=_sessions, force=st.booleans(), undo=st.booleans(), window=st.just(1_000)),
        _call("compact", session_id=_sessions, summarizer=st.just("caller"), window=st.just(1_000)),
        _call("revise", id=ids, text=st.one_of(st.just(""), text), supersedes=few_ids,
              feedback=st.sampled_from(["used", "ignored"]),
              visibility=st.sampled_from(["shared", "private", "user"])),
        _call("revise", id=ids, status=st.sampled_from(["core", "inactive", "retired"])),
        _call("forget", ids=some_ids, mode=st.sampled_from(["retire", "restore", "retire", "erase"])),
    )  # fmt: skip


def _named(found: Found, own: Sequence[str]) -> Any:
    """Ids, some of them, at most one of them, and a task or none: what is foreign more often than what is not."""
    ids = st.sampled_from([*found.records, *found.records, *own, *found.entries, *found.tasks])
    tasks = st.sampled_from(["", *found.tasks, *(each for each in own if each.startswith("t"))])
    return ids, st.lists(ids, min_size=1, max_size=6, unique=True), st.lists(ids, max_size=1), tasks


def _call(tool: str, **arguments: SearchStrategy[object]) -> SearchStrategy[Ask]:
    """A call with those of the arguments that are not empty, some of them left out."""
    return st.tuples(st.just(tool), st.fixed_dictionaries({}, optional=arguments)).map(
        lambda call: (call[0], {name: value for name, value in call[1].items() if value not in ("", [])})
    )

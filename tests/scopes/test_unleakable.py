"""What another scope holds changes no answer: not a word, an id, a count, an order or an error.

Every answer is compared with that of a memory which differs in nothing but what the asker may not see.

Behind walls it is asked again, which takes long (`pytest.mark.long`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mcp_memory.domain.model.records import Visibility
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from tests.scopes.calls import OWN_WORDS, STRATEGIES, calls
from tests.scopes.planting import BOB, LIBRARIAN, SECRETS, Found, Place, items_of, places_beside
from tests.scopes.worlds import LOCAL, Ask, Asker, Pair, World, asking, told
from tests.services.sessions.conversations import session

SESSIONS = ("day", "carols")
OpenPair = Callable[..., AbstractContextManager[Pair]]
FOREIGN_ROWS = (
    "SELECT * FROM records WHERE scope NOT IN {scopes} ORDER BY id",
    "SELECT v.* FROM vectors AS v JOIN records AS r ON r.row = v.row WHERE scope NOT IN {scopes} ORDER BY 1, 2",
    "SELECT * FROM tasks WHERE namespace <> 'here' ORDER BY id",
    "SELECT * FROM places WHERE namespace <> 'here' OR agent <> 'ann' ORDER BY 1, 2, 3",
    "SELECT * FROM replacements WHERE namespace <> 'here' OR agent <> 'ann' ORDER BY row",
    "SELECT * FROM compactions WHERE namespace <> 'here' OR agent <> 'ann' ORDER BY 1, 2, 3, 4",
    "SELECT * FROM contexts WHERE namespace <> 'here' OR agent <> 'ann' ORDER BY 1, 2, 3",
)


def foreign_rows(world: World) -> list[list[tuple[object, ...]]]:
    return [world.rows(sql.format(scopes=world.me.scopes)) for sql in FOREIGN_ROWS]


def own_ids(world: World) -> list[str]:
    """What the asker may see, some of it only read."""
    found = world.rows(f"SELECT id FROM records WHERE scope IN {world.me.scopes} AND text LIKE '%payment%' ORDER BY id")
    tasks = world.rows("SELECT id FROM tasks WHERE namespace = 'here' ORDER BY id")
    return [str(row[0]) for row in (*found, *tasks)]


class Askers:
    """The same asker at both memories."""

    def __init__(self, pair: Pair, full: Asker, bare: Asker) -> None:
        self.pair = pair
        self._full = full
        self._bare = bare
        self._said = ""

    @property
    def stride(self) -> int:
        """Of what is asked alike again and again, a third is asked behind walls: there statements differ, not logic."""
        return 3 if self.pair.full.who.has_walls else 1

    def ask(self, *asks: Ask) -> str:
        """The answers, which are the same in both, and hold no foreign word that the asker has not said itself."""
        return "\n".join([self._one(ask) for ask in asks])

    def _one(self, ask: Ask) -> str:
        answer = self._full.ask(ask)
        assert answer == self._bare.ask(ask), ask
        assert self.pair.full.number() == self.pair.bare.number(), ask
        self._said += json.dumps(ask)
        assert [word for word in SECRETS if word in answer and word not in self._said] == [], ask
        return answer


def at(pair: Pair, stack: ExitStack) -> Askers:
    return Askers(pair, *(stack.enter_context(asking(world)) for world in pair))


@pytest.fixture
def askers(pair: Pair) -> Iterator[Askers]:
    with ExitStack() as stack:
        yield at(pair, stack)


def widest() -> Iterator[Ask]:
    """What reads the most at once."""
    yield "read", {"uri": "memory://status"}
    yield "read", {"uri": "memory://tasks"}
    yield "recall", {"limit": 100, "max_tokens": 100_000, "include_inactive": True, "detail": "full"}
    yield "assemble_context", {"query": "deploy the payment service", "explain": True}


def everything(ids: Sequence[str], strategies: Iterable[str], words: Sequence[str] = SECRETS[::6]) -> Iterator[Ask]:
    """Every way to read, asked for what is foreign by its words and by its ids; and once by an id of another sort."""
    tasks, contexts = ([*ids[:1], *(each for each in ids if each.startswith(sort))] for sort in "tc")
    yield from widest()
    for word in (*words, OWN_WORDS[0]):
        query = f"what needs {word} to deploy the payment service"
        yield "recall", {"query": query, "limit": 100, "max_tokens": 100_000, "explain": True}
        yield "recall", {"entities": [f"Entity {word}"], "limit": 100, "include_inactive": True}
        yield "recall", {"tags": [f"tag{word}"], "query": word, "include_inactive": True}
        yield "assemble_context", {"query": query, "explain": True, "max_tokens": 700}
    for each in ids:
        yield "read", {"uri": f"memory://record/{each}"}
        yield "recall", {"ids": [each], "detail": "full"}
    for each in tasks:
        yield "recall", {"task_id": each, "limit": 100}
        yield "assemble_context", {"task_id": each}
    for each in contexts:
        yield "read", {"uri": f"memory://context/{each}"}
        yield "assemble_context", {"query": "deploy", "previous": each}
    for each in (*SESSIONS, *ids[:1]):
        yield "read", {"uri": f"memory://session/{each}"}
        yield "recall", {"session_id": each, "limit": 100, "include_inactive": True}
    yield "recall", {"ids": list(ids)[:400], "max_tokens": 100_000}
    for strategy in strategies:
        yield "assemble_context", {"query": "deploy the payment service", "strategy": strategy, "explain": True}


def changes_to(some_id: str) -> Iterator[Ask]:
    """Every way to change, tried on what is foreign."""
    yield "revise", {"id": some_id, "text": "Taken over.", "importance": 1}
    yield "revise", {"id": some_id, "visibility": "shared"}
    yield "revise", {"id": some_id, "feedback": "ignored"}
    yield "remember", {"text": f"Newer than {some_id}.", "supersedes": [some_id]}
    yield "remember", {"text": f"Told in {some_id}.", "task_id": some_id}
    yield "remember", {"text": f"[{some_id} fact 2026-11-20]"}
    yield from (("forget", {"ids": [some_id], "mode": each}) for each in ("retire", "restore", "erase"))
    yield "push_task", {"task_id": some_id}
    yield "push_task", {"goal": "Below it", "parent_id": some_id}
    yield "push_task", {"goal": "With it", "inherit": [some_id]}
    yield "pop_task", {"result": "Ended.", "task_id": some_id, "cascade": True}


def test_no_tool_or_resource_tells_what_another_scope_holds(askers: Askers, found: Found) -> None:
    """S4.1: what cannot be seen is as if it were not there, by word, by id, by tag, by entity, by session."""
    stride = askers.stride
    some = [
        *found.one_a_place[::stride],
        *found.tasks[:: 14 * stride],
        *found.contexts[:: 6 * stride],
        *found.entries[:: 8 * stride],
    ]
    answer = askers.ask(
        *everything(some, STRATEGIES[::stride], SECRETS[:: 3 * stride]), ("recall", {"ids": found.one_a_place})
    )
    for word in OWN_WORDS:
        assert f"with {word} by" in answer
    assert "Left out: " in answer


def test_no_tool_changes_what_another_scope_holds(askers: Askers, found: Found) -> None:
    """S4.1: nor tells that it is there by refusing in other words than for what is nowhere."""
    before = foreign_rows(askers.pair.full)
    for some_id in (
        *found.one_a_place[:: askers.stride],
        *found.tasks[:: 12 * askers.stride],
        found.contexts[0],
        found.entries[0],
    ):
        askers.ask(*changes_to(some_id))
    askers.ask(*(("compact", {"session_id": each, "undo": True}) for each in ("carols", "day", "day")))
    assert foreign_rows(askers.pair.full) == before


@settings(max_examples=2)
@given(data=st.data())
def test_no_call_tells_apart_whether_anything_foreign_is_there(
    open_pair: OpenPair, found: Found, data: st.DataObject
) -> None:
    """S4.1: any calls, no two alike, while others go on with their work; and nothing of theirs is changed."""
    with ExitStack() as stack:
        pair = stack.enter_context(open_pair())
        askers = at(pair, stack)
        before = foreign_rows(pair.full)
        drawn = data.draw(st.lists(calls(found, own_ids(pair.full)), min_size=20, max_size=30, unique_by=str))
        for number, ask in enumerate(drawn):
            if number % 6 == 5:
                assert foreign_rows(pair.full) == before
                place = data.draw(st.sampled_from(places_beside(pair.full.who)))
                pair.elsewhere(lambda world, place=place, number=number: go_on(world, place, number))
                pair.later(31)
                before = foreign_rows(pair.full)
            askers.ask(ask)
        askers.ask(*widest())
        assert foreign_rows(pair.full) == before


def test_how_much_of_others_waits_for_its_vectors_is_not_told(askers: Askers) -> None:
    """S4.1, R5: `degraded` counts what the asker would find, were it embedded."""
    pair = askers.pair

    def talk(world: World, caller: Caller, word: str) -> None:
        told = [replace(each, text=f"{each.text} {word}", visibility="private") for each in session(3)]
        world.app.feed(told, caller)

    asks: list[Ask] = [("recall", {"query": "which port"}), ("assemble_context", {"query": "which port"})]
    for place in places_beside(pair.full.who):
        pair.elsewhere(lambda world, place=place: talk(world, place.caller, place.word))
    assert "not embedded yet" not in askers.ask(*asks)
    pair.in_both(lambda world: talk(world, world.me, "mine"))
    pair.later(31)
    assert "15 records are not embedded yet" in askers.ask(*asks)


def go_on(world: World, place: Place, number: int) -> None:
    """What somebody does whom the asker does not see, in the same process."""
    app, caller = world.app, place.caller
    (told, *_) = app.remember(items_of(f"{place.word} {number}", place.visibility, ("fact", "decision")), caller)
    app.revise(Revision(id=told.id, feedback="used"), caller)
    if place.has_tasks:
        app.tasks.push(PushRequest(goal=f"Go on with {place.word}"), caller)
    app.recall(RecallRequest(query=f"payment service {place.word}"), caller)
    app.assemble_context(ContextRequest(query="deploy the payment service"), caller)


def test_who_stored_it_sees_it(pair: Pair) -> None:
    """S4.1: what the other tests do not find is there."""
    app = pair.full.app
    for place in places_beside(pair.full.who):
        query = RecallRequest(query=f"payment service {place.word}", max_tokens=20_000, limit=100)
        assert f"{place.word} by the" in str(app.recall(query, place.caller).results)
        assert place.word in app.assemble_context(ContextRequest(query=query.query), place.caller).text
        stored = app.session_accounts.stored(place.caller.session_id, place.caller)
        assert any(place.word in each.text for each in stored.records)


def pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """What the command line shows."""
    yield ("status",)
    yield ("undo",)
    yield "list", "--limit", "1000", "--inactive"
    yield "list", "--session", "carols", "--tag", "deploy", "--kind", "message"
    yield from (("search", f"payment service {word}", "--limit", "1000", "--inactive") for word in SECRETS[::4])
    yield from (("show", each) for each in ids)


def _of_here(page: Sequence[str], out: str) -> str:
    """What a page says, without the counts of all agents' blocks and records, which who has the file may know."""
    if page != ("status",):
        return out
    shown = json.loads(out)
    del shown["contexts"], shown["health"], shown["private_to_others"]
    return json.dumps(shown)


def test_no_page_of_the_command_line_tells_what_another_scope_holds(
    pair: Pair, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.1: but for what the status says of all projects together, and all agents' blocks, to whom the file belongs."""
    if pair.full.who is not LOCAL:
        pytest.skip("a token is for HTTP")
    monkeypatch.setenv("MCP_MEMORY_INHERIT", "library")
    monkeypatch.setenv("MCP_MEMORY_SESSION", "day")
    monkeypatch.setenv("MCP_MEMORY_SEMANTIC_STORE", "exact")
    where = ("--namespace", "here", "--agent", "ann", "--json", "--data-dir")
    ids = [
        found.records[0],
        found.records[-1],
        found.tasks[0],
        found.entries[0],
        own_ids(pair.full)[0],
    ]
    shown = ""
    for page in pages(ids):
        ran = [CliRunner().invoke(command_line, [*page, *where, str(world.folder)]) for world in pair]
        full, bare = (told([each.exit_code, _of_here(page, each.stdout), each.stderr]) for each in ran)
        assert full == bare, page
        assert [word for word in SECRETS if word in full and word not in str(page)] == [], page
        shown += full
    assert all(f"with {word} by" in shown for word in OWN_WORDS)


def test_an_inherited_project_is_read_and_never_written(askers: Askers, open_pair: OpenPair) -> None:
    """S4.1: only where it is configured, only what is shared there, and by no tool changed."""
    world = askers.pair.full
    (fact,) = world.rows("SELECT id FROM records WHERE text LIKE '%fir by the fact%'")[0]
    assert "fir by the fact" in askers.ask(
        ("recall", {"query": "which fir"}), ("read", {"uri": f"memory://record/{fact}"})
    )
    kept = (
        "SELECT id, text, status, importance, pinned, superseded_by, change, used, scope, namespace FROM records"
        " WHERE scope = 'shared/library' ORDER BY id",
        "SELECT t.* FROM record_tags AS t JOIN records AS r ON r.row = t.row WHERE r.scope = 'shared/library'",
        "SELECT * FROM tasks WHERE namespace = 'library' ORDER BY id",
    )
    before = [world.rows(sql) for sql in kept]
    assert "only read here" in askers.ask(*changes_to(str(fact)))
    askers.ask(("remember", {"text": "The payment service is deployed with fir by the fact rule.", "importance": 9}))
    assert [world.rows(sql) for sql in kept] == before
    with ExitStack() as stack:
        alone = at(stack.enter_context(open_pair(inherit=[])), stack)
        for query in ("which fir deploys the payment service", ""):
            assert "fir by the" not in alone.ask(("recall", {"query": query, "limit": 100, "max_tokens": 100_000}))
            assert "fir by the" not in alone.ask(("assemble_context", {"query": query}))
        assert "fir by the" not in alone.ask(("read", {"uri": f"memory://record/{fact}"}))


def test_what_is_private_is_seen_by_others_once_it_is_shared(pair: Pair) -> None:
    """S4.1: promotion moves the record with its vectors, words and entities; and back."""
    app, me = pair.full.app, pair.full.me
    colleague = Caller(namespace="here", agent="dora", session_id="doras", person=me.person)
    (told,) = app.remember(items_of("jackal", "private", ("fact",)), me)
    seen = [
        RecallRequest(query="jackal"),
        RecallRequest(query="which tool deploys the payment service", limit=100, max_tokens=50_000),
        RecallRequest(entities=("Entity jackal",)),
        RecallRequest(tags=("tagjackal",)),
        RecallRequest(ids=(told.id,)),
    ]
    moves: tuple[tuple[Visibility, bool], ...] = (
        ("private", False),
        ("shared", True),
        ("private", False),
        ("user", True),
    )
    for visibility, is_seen in moves:
        app.revise(Revision(id=told.id, visibility=visibility), me)
        for request in seen:
            assert (told.id in str(app.recall(request, colleague).results)) is is_seen, (visibility, request)
            assert told.id in str(app.recall(request, me).results)
    assert told.id in str(app.recall(seen[0], replace(LIBRARIAN, person=me.person)).results)
    assert told.id not in str(app.recall(seen[0], replace(LIBRARIAN, person="max")).results)


def test_a_branch_of_a_colleague_shows_nothing_while_it_is_open(pair: Pair) -> None:
    """S4.1, T4.3: no word, id or count of what is stored in it, also for the person; ranks may weigh its words.

    Whoever may enter the branch may read it: that is no secret, but nobody else's business yet.
    """
    ids: list[str] = []

    def experiment(world: World) -> None:
        texts = [*items_of("narwhal", "shared"), *items_of("narwhal", "user", ("fact", "identity"))]
        ids.extend(each.id for each in world.app.remember(texts, BOB))
        corrected = "The payment service is deployed with narwhal now."
        world.app.revise(Revision(id=ids[0], text=corrected), BOB)

    with ExitStack() as stack:
        askers = at(pair, stack)
        asker = stack.enter_context(asking(pair.full))
        pair.elsewhere(experiment)
        askers.ask(("read", {"uri": "memory://status"}), ("read", {"uri": "memory://tasks"}))
        kept = "SELECT * FROM records WHERE branch_id IS NOT NULL ORDER BY id"
        hidden = pair.full.rows(kept)
        assert len(hidden) > len(ids)
        few = ids[:: 5 * askers.stride]
        for ask in (*everything(few, STRATEGIES[::3]), *(ask for each in few for ask in changes_to(each))):
            answer, asked = asker.ask(ask), json.dumps(ask)
            assert "narwhal" not in answer, ask
            assert [each for each in ids if each in answer and each not in asked] == [], ask
        assert pair.full.rows(kept) == hidden

"""What another scope holds changes no page either: not a word, an id, a count or an order.

Behind walls it is asked again, which takes long (`pytest.mark.long`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.entrypoints.page.sign_in import Visitor
from mcp_memory.entrypoints.page.site import SCREENS
from mcp_memory.entrypoints.page.visits import Screen, visit_of
from mcp_memory.entrypoints.server.identity import RequestSender, visited_by
from mcp_memory.errors import McpMemoryError
from tests.scopes.planting import ENTITY, SECRETS, SUBJECT, TAG, Found
from tests.scopes.test_unleakable import OpenPair, foreign_rows, own_ids
from tests.scopes.worlds import Pair, World

OWNER = RequestSender(grant=None, namespace="here", session="day")
_OF_THE_FILE = re.compile(r'/[\w/.-]*(?:full|bare)[\w/.-]*|[\d.,]+ (?:k|M|G)?i?B\b|"accessed": ?\d+')
"""Paths and sizes of the file: "/tmp/x/full/memory.db", "1.2 MB". And how often a record was opened, which is no secret
to those who share it: in an export `"accessed": 2`."""
_PART = re.compile(r"\{(\w+)(?::path)?\}")  # "{id}", "{id:path}"


def answer(world: World, screen: Screen, parts: Mapping[str, str], said: Mapping[str, Sequence[str]]) -> str:
    """What the person reads; a refusal by its kind and words. The fields are those of the address and of the form."""
    sender = world.who.visitor or OWNER
    visitor = Visitor(sender=sender, session_id="the cookie", is_owner=False)
    path = re.sub(_PART, lambda name: parts[name[1]], screen.path)
    with visited_by(sender):
        fields = {"query": said, "form": said, "parts": parts}
        visit = visit_of(world.app, visitor, path=path, nav=SCREENS, attention=world.attention, **fields)
        if not visit.may(screen.takes):
            return "refused by its right"
        try:
            shown = screen.answer(visit)
        except McpMemoryError as error:
            return f"{type(error).__name__}: {error}"
    return f"{shown.status_code} {shown.headers.get('location', '')} " + _OF_THE_FILE.sub(
        "", bytes(shown.body).decode()
    )


def ask(pair: Pair, screen: Screen, parts: Mapping[str, str], **said: Sequence[str]) -> str:
    """The answer, which is the same in both memories and holds no foreign word that was not in the question."""
    full, bare = (answer(world, screen, parts, said) for world in pair)
    assert full == bare, (screen.path, parts, said)
    assert pair.full.number() == pair.bare.number(), (screen.path, parts, said)
    assert [word for word in SECRETS if word in full and word not in str(said)] == [], (screen.path, parts, said)
    return full


def parts_of(screen: Screen, some_ids: Sequence[str]) -> Iterator[dict[str, str]]:
    names = re.findall(_PART, screen.path)
    yield from (dict.fromkeys(names, each) for each in (some_ids if names else [""]))


def test_no_screen_shows_what_another_scope_holds(pair: Pair, found: Found) -> None:
    """S4.1, U1: asked for by id, by word, by tag, by session."""
    stride = 4 if pair.full.who.has_walls else 1  # Without the filter more is asked: test_second_wall.
    some = [
        *found.tasks[:: 16 * stride],
        *found.contexts[:: 6 * stride],
        found.entries[0],
        *own_ids(pair.full)[: 1 if stride > 1 else 2],
    ]
    turns = stride if stride > 1 else 2
    seen = ""
    for number, screen in enumerate(SCREENS):
        if not screen.changes:
            # Each screen is asked for every second place, and each place by every second screen.
            for parts in parts_of(screen, [*found.one_a_place[number % turns :: turns], *some]):
                seen += ask(pair, screen, parts)
    for word in (*SECRETS[::8], "oak"):
        for said in ({"q": [f"payment service {word}"]}, {"tag": [f"tag{word}"]}, {"session_id": [word]}):
            seen += ask(pair, SCREENS[0], {}, **said)
    [tied] = [screen for screen in SCREENS if screen.path == "/topics"]
    for thing in (ENTITY, SECRETS[0], found.one_a_place[0]):
        seen += ask(pair, tied, {}, **{"from": [own_ids(pair.full)[0]], "to": [thing]})
    assert SUBJECT in seen, "what is the asker's own is shown"
    counts = re.findall(r'</svg>Review(?: <span class="count">(\d+)</span>)?</a>', seen)
    assert {*counts} == {"1"}, "its own group alone"
    assert "contradiction?" in seen
    assert "duplicate?" not in seen


def test_no_session_of_another_scope_is_shown(pair: Pair, found: Found) -> None:
    """S4.1, U1: neither its log, nor its compactions, nor what a block covers; sessions of others have its name."""
    own = [each.entry.id for each in pair.full.app.logs.stand_ins(pair.full.me)]
    blocks = [*found.entries[::4], *own]
    asked: dict[str, list[dict[str, str]]] = {
        "/sessions": [{}],
        "/session/{id:path}": [{"id": "day"}, {"id": "carols"}],
        "/stated/{id:path}": [{"id": "day"}, {"id": "carols"}],
        "/compaction/{number}/{id:path}": [{"id": name, "number": n} for name in ("day", "carols") for n in "012"],
        "/block/{id}": [{"id": each} for each in blocks],
    }
    seen = {
        path: [ask(pair, screen, parts, of=["carol"]) for parts in asked[path]]
        for path, screen in {each.path: each for each in SCREENS}.items()
        if path in asked
    }
    assert "200 " in seen["/session/{id:path}"][0]
    assert own
    assert all(answer.startswith("200 ") for answer in seen["/block/{id}"][-len(own) :])
    assert all(answer.startswith("NotFound") for answer in seen["/block/{id}"][: -len(own)])
    assert all(answer.startswith("NotFound") for answer in seen["/compaction/{number}/{id:path}"][3:])


def test_no_form_changes_what_another_scope_holds(pair: Pair, found: Found) -> None:
    """S4.1, U1: nor tells that it is there by refusing in other words than for what is nowhere."""
    before = foreign_rows(pair.full)
    some = [*found.one_a_place[::3], found.tasks[0], found.contexts[0]]
    for screen in SCREENS:
        for parts in parts_of(screen, some) if screen.changes else ():
            for some_id in [parts["id"]] if "id" in parts else some[:4]:
                said = {name: [some_id] for name in ("ids", "id", "typed", "keep", "holds", "by", "task_id", "record")}
                said["do"] = ["wrong"]
                said["task"] = [next(iter(found.tasks))]
                numbers = {name: ["999999"] for name in ("version", "seen", "change")}
                numbers |= {"session": ["carols"], "number": ["1"]}
                ask(pair, screen, parts, text=["Taken over."], way=["unrelated"], back=["/"], **said, **numbers)
    assert foreign_rows(pair.full) == before


@settings(max_examples=2)
@given(data=st.data())
def test_no_address_tells_apart_whether_anything_foreign_is_there(
    open_pair: OpenPair, found: Found, data: st.DataObject
) -> None:
    """S4.1, U1: any fields together."""
    ids = st.sampled_from([*found.records, *found.contexts, *found.tasks])
    words = st.sampled_from([*SECRETS, "oak", "deploy", TAG, ENTITY, ""])
    fields = st.fixed_dictionaries(
        {},
        optional={
            "q": words,
            "tag": words,
            "author": st.sampled_from(["ann", "bob", "librarian"]),
            "session_id": st.sampled_from(["day", "carols"]),
            "of": st.sampled_from(["carol", "bob"]),
            "kind": st.sampled_from(["fact", "message", "result"]),
            "status": st.sampled_from(["new", "retired", "noted"]),
            "since": st.just("2020-01-01"),
            "all": st.just("1"),
            "pinned": st.just("yes"),
            "do": st.sampled_from(["retire", "restore", "pin", "promote"]),
            "ids": ids,
            "before": st.just("1795176000.0~r00000z"),
        },
    )
    with open_pair() as pair:
        shown = [screen for screen in SCREENS if not screen.changes or screen.path in ("/bulk", "/export")]
        asked = st.tuples(st.sampled_from(shown), fields, ids)
        for screen, drawn, some_id in data.draw(st.lists(asked, min_size=12, max_size=12, unique_by=str)):
            said = {name: [value] for name, value in drawn.items()}
            for parts in parts_of(screen, [some_id]):
                ask(pair, screen, parts, **said, seen=["999999"])

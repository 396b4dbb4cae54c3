"""The list of memories says what it leaves out, and what came in by an import is found, and taken back, as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.projects import own_namespace
from mcp_memory.domain.model.records import Details, NewRecord
from mcp_memory.domain.model.requests import PushRequest, Revision
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.domain.text.times import iso_exact
from mcp_memory.entrypoints.page import new
from mcp_memory.entrypoints.page.bulk import ask, make
from mcp_memory.entrypoints.page.command_palette import show_found, show_projects
from mcp_memory.entrypoints.page.edit import edit
from mcp_memory.entrypoints.page.memories import show_memories
from mcp_memory.entrypoints.page.new import READ_AT_ONCE, show_new
from mcp_memory.entrypoints.page.record import show_record
from mcp_memory.entrypoints.page.rendering import WordDiff
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.memory.merge import Merger
from tests.entrypoints.page.conftest import asked, memory_of, words_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    opened = memory_of(tmp_path / "data")
    yield opened
    opened.close()


def test_an_empty_list_says_that_messages_of_sessions_are_left_out(memory: App) -> None:
    """U1.1: only where there would be some, and nothing asks for them."""
    left_out = "Messages of sessions are not listed here. Choose a kind or a session to see them."
    assert left_out not in words_of(asked(memory, show_memories))
    memory.remember([NewRecord(text="Is the oven hot?", kind="message", role="user", tags=("oven",))], memory.caller())
    for query in ({}, {"tag": "oven"}, {"author": "ann"}):
        words = words_of(asked(memory, show_memories, query=query))
        assert left_out in words
        assert ("Nothing found." in words) == bool(query)
        assert "Nothing is stored here yet." not in words
    assert "Is the oven hot?" in words_of(asked(memory, show_memories, query={"tag": "oven", "kind": "message"}))
    for query in ({"tag": "stove"}, {"tag": "stove", "kind": "fact"}, {"pinned": "yes"}):
        words = words_of(asked(memory, show_memories, query=query))
        assert left_out not in words
        assert "Nothing found. Try other words" in words


def test_a_record_in_a_list_has_a_headline_and_its_reason_below(memory: App) -> None:
    """U1.1: a heading, a procedure's name, a task's goal, or the first sentence; what is searched for is marked."""
    details: Details = {"trigger": "delete, kiln", "reason": "<b>it cracked</b>", "action": "warn"}
    items = [
        NewRecord(text="Never open the kiln hot. Wait a day.", kind="censor", details=details),
        NewRecord(text="We fire at night.", kind="decision", details={"reasons": ["`power` is cheap"]}, confidence=0.8),
        NewRecord(text="1. Dry it.\n2. Fire it.", kind="procedure", details={"name": "Make a cup"}),
        NewRecord(text="# The kiln\n\nIt is **old**." + " And so on." * 200),
    ]
    memory.remember(items, memory.caller(), advise=False)
    memory.tasks.push(PushRequest(goal="Mend the kiln", success_criteria="it is hot"), memory.caller())
    page = asked(memory, show_memories)
    for told in (
        "<b>Never open the kiln hot.</b> Wait a day.</a>",
        '<p class="why">when delete, kiln · because &lt;b&gt;it cracked&lt;/b&gt;</p>',
        '<b>We fire at night.</b> (80 % sure)</a>\n<p class="why">because <code>power</code> is cheap</p>',
        "<b>Make a cup</b> Dry it. Fire it.</a>",
        "<b>The kiln</b> It is <strong>old</strong>. And so on.",
    ):
        assert told in page, told
    found = asked(memory, show_memories, query={"q": "kiln"})
    assert "<b>The <mark>kiln</mark></b>" in found
    assert "<b>Mend the <mark>kiln</mark></b> (done when: it is hot)</a>" in found
    assert "when delete, <mark>kiln</mark>" in found
    assert max(map(len, words_of(found).split("And so on."))) < 2_000


def test_an_import_is_a_source_of_its_own_and_is_retired_as_one(memory: App, tmp_path: Path) -> None:
    """U1.1, S7.1: whatever its records' dates; by whom and when, once it was seen too; other records stay."""
    month_ago = memory.now() - 30 * 86_400
    other = memory_of(tmp_path / "other", "cara", clock=lambda: month_ago)
    for n in range(20):
        other.remember([NewRecord(text=f"Customer {n} pays in {n} days.")], other.caller())
    mine = memory.remember([NewRecord(text="Customers pay late.")], memory.caller())[0].id
    merger = Merger(memory.records, memory.now, "ann")
    merger([piece for piece in other.records.transfer().leave() if not isinstance(piece, Origin)])
    other.close()
    claims = {"imported_at": iso_exact(memory.now()), "imported_by": "nobody"}
    memory.remember([NewRecord(text="It says that it was imported.", details=claims)], memory.caller())
    page = asked(memory, show_new)
    assert "Imported by ann 20 records, " in words_of(page)
    assert "nobody" not in words_of(page)
    [link] = [each for each in re.findall(r'href="/ui/new\?([^"]+)"', page) if "Imported" in each]
    alone = asked(memory, show_new, query=dict(parse_qsl(unescape(link))))
    ids = re.findall(r'name="ids" value="(r\w+)"', alone)
    assert len(ids) == len(set(ids)) == 20
    assert "Customers pay late." not in alone
    assert 'action="/ui/seen"' not in alone
    [seen] = re.findall(r'name="seen" value="(\d+)"', alone)
    form = {"ids": ids, "seen": seen, "do": "retire"}
    assert "20" in words_of(asked(memory, ask, form=form))
    asked(memory, make, form=form)
    found = memory.records.get([*ids, mine], memory.caller().scopes)
    assert {each: record.status for each, record in found.items()} == {**dict.fromkeys(ids, "retired"), mine: "new"}


def test_all_changes_that_are_new_are_compared_in_a_bounded_number_of_steps(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1.1: one page lists sixty changed texts at most; what they do not suffice for is shown as replaced whole."""
    bob = replace(memory.caller(), agent="bob").in_session("b")
    for name in ("kiln", "clay"):
        [stored] = memory.remember([NewRecord(text=f"The {name} is hot.")], bob)
        memory.revise(Revision(id=stored.id, text=f"Our {name} was hot."), bob)
    assert asked(memory, show_new).count("<ins>Our</ins>") == 2
    monkeypatch.setattr(new, "WordDiff", partial(WordDiff, 36))  # For one: five parts each, and the place before them.
    page = asked(memory, show_new)
    assert page.count("<ins>Our</ins>") == page.count("<ins>Our kiln was</ins>") == 1


def test_what_is_new_is_told_day_by_day_with_its_number(memory: App) -> None:
    """U1.1: the latest day first, and in it each source; one source alone is one list, which is changed as a whole."""
    now = memory.now()
    earlier = memory_of(memory.settings.data_dir, "bob", clock=lambda: now - 86_400)
    texts = ["The kiln was lit.", "The clay is wet."]
    earlier.remember([NewRecord(text=text, session_id="b") for text in texts], earlier.caller())
    earlier.close()
    memory.remember([NewRecord(text="The kiln is cold.", session_id="a")], memory.caller())
    memory.remember([NewRecord(text="The clay is dry.", session_id="b")], replace(memory.caller(), agent="bob"))
    since = f"{now - 5 * 86_400:.3f}"
    words = words_of(asked(memory, show_new, query={"since": since}))
    heads = re.findall(r"Today 2 records|Yesterday 2 records|(?:ann|bob) \d records? · Only these", words)
    assert [each.partition(" ")[0] for each in heads] == ["Today", "bob", "ann", "Yesterday", "bob"]
    alone = asked(memory, show_new, query={"since": since, "source": "bob"})
    assert alone.count('name="ids"') == 3
    assert "Today" not in words_of(alone)
    assert alone.count("Change all of these…") == 1


def test_what_an_import_dates_ahead_hides_nothing_that_comes_later(memory: App, tmp_path: Path) -> None:
    """U1.1: it is seen when it came, not at its date."""
    other = memory_of(tmp_path / "other", "cara", clock=lambda: 4_000_000_000.0)
    other.remember([NewRecord(text="The comet returns.")], other.caller())
    Merger(memory.records, memory.now, "ann")(
        [piece for piece in other.records.transfer().leave() if not isinstance(piece, Origin)]
    )
    other.close()
    page = asked(memory, show_new)
    assert "Imported by ann 1 record, " in words_of(page)
    [newest] = re.findall(r'name="newest" value="([\d.]+)"', page)
    assert float(newest) <= memory.now()


def test_the_records_of_a_source_are_found_among_many(memory: App) -> None:
    """U1.1: read a part at a time, until those that were seen."""
    memory.remember([NewRecord(text="Ada likes coffee.", session_id="import-reference")], memory.caller())
    for start in range(0, READ_AT_ONCE + 50, 50):
        memory.remember(
            [NewRecord(text=f"Cup {n} is full.") for n in range(start, start + 50)], memory.caller(), advise=False
        )
    query = {"source": "Imported from reference by ann", "since": "1"}
    assert "Ada likes coffee." in asked(memory, show_new, query=query)
    query["since"] = f"{memory.now() + 60:.3f}"
    assert "Ada likes coffee." not in asked(memory, show_new, query=query)


def test_what_was_another_servers_is_a_source_too(memory: App) -> None:
    imported = NewRecord(text="Babbage likes tea.", session_id="import-reference", occurred_at=1_000_000_000.0)
    memory.remember([imported, NewRecord(text="Ada likes coffee.")], memory.caller())
    assert "Imported from reference by ann 1 record" in words_of(asked(memory, show_new))


def test_projects_have_the_names_of_their_folders_and_what_the_owner_may_know_of_them(memory: App) -> None:
    """U1.1: the suffix that tells two of one name apart stands last; who has a token is told names alone."""
    harbour = own_namespace("/srv/harbour")
    memory.remember([NewRecord(text="The gate opens at six.")], replace(memory.caller(), namespace=harbour))
    page = asked(memory, show_projects)
    assert re.search(rf"harbour 1 record last change just now {harbour}", words_of(page))
    grant = Grant(agent="bob", person="bob", namespaces=(harbour, "toys"), right="read")
    page = words_of(asked(memory, show_projects, grant=grant))
    assert f"harbour you look at it now {harbour}" in page
    assert " record" not in page


def test_what_was_superseded_is_listed_where_it_is_asked_for(memory: App) -> None:
    """C8.1: the list shows what took its place; a search still finds it."""
    [old] = memory.remember([NewRecord(text="The quay has three cranes.", tags=("quay",))], memory.caller())
    new = NewRecord(text="The quay has four cranes.", tags=("quay",), supersedes=(old.id,))
    memory.remember([new], memory.caller())
    listed = words_of(asked(memory, show_memories, query={"tag": "quay"}))
    assert "1 match" in listed
    assert "+1 superseded" in listed
    assert "three cranes" not in listed
    assert "three cranes" in words_of(asked(memory, show_memories, query={"tag": "quay", "status": "superseded"}))
    found = asked(memory, show_memories, query={"q": "cranes of the quay"})
    assert f"(before {old.id}, " in words_of(found)


def test_what_the_owner_wrote_here_is_by_you(memory: App) -> None:
    """U1.1: and who edited another's text, stands beside its author."""
    bob = memory_of(memory.settings.data_dir, "bob")
    [theirs] = bob.remember([NewRecord(text="The oven takes an hour.")], bob.caller())
    bob.close()
    mine = memory.remember([NewRecord(text="The bell rings at six.")], replace(memory.caller(), client="page"))[0].id
    version = str(memory.inspect.visible(theirs.id, memory.caller()).version)
    asked(memory, edit, parts={"id": theirs.id}, form={"version": version, "text": "The oven takes two hours."})
    assert "by you" in words_of(asked(memory, show_record, parts={"id": mine}))
    edited = words_of(asked(memory, show_record, parts={"id": theirs.id}))
    assert "by bob, edited by you" in edited
    assert "by you (page)" not in edited
    listed = words_of(asked(memory, show_memories))
    assert re.search(rf"bob .{{1,20}} {theirs.id}", listed)  # It keeps its first author.
    new = words_of(asked(memory, show_new))
    assert "The oven takes two hours." in new
    assert "The bell rings at six." not in new
    reader = Grant(agent="ann", person="ann", namespaces=(memory.caller().namespace,), right="read")
    page = words_of(asked(memory, show_record, grant=reader, parts={"id": theirs.id}))
    assert "by bob, edited by ann" in page


def test_the_palette_is_told_the_first_five_of_a_search(memory: App) -> None:
    """U1.1: no more, and nothing for a letter or two, which begin a command."""
    items = [NewRecord(text=f"The gauge number {number} stands at pier {number * 7}.") for number in range(9)]
    memory.remember(items, memory.caller(), advise=False)
    page = asked(memory, show_found, query={"q": "gauge"})
    assert page.count("<li>") == page.count('href="/ui/record/') == 5
    with pytest.raises(InvalidRequest, match="Write more"):
        asked(memory, show_found, query={"q": "ga"})

"""Erasing takes along what was made from a record and quotations of it, and keeps its text from coming back."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Entity, Kind, NewRecord, Record, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.services.memory.erase import MOST_LASTING, MOST_LEFT, MOST_QUOTING
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.feed import TAKEN_BACK
from mcp_memory.services.tasks.task_stack import PushRequest

RememberOne = Callable[..., Remembered]
SAID = "The user lives at 12 Plum Lane in Oakham, and only the courier knows."


def message(text: str, message_id: str = "", role: str = "user") -> NewRecord:
    """A line with a client's id: a number, or one that is unique everywhere and is named here."""
    known = message_id if message_id.isdigit() else unique(message_id)
    details = {"message_id": known} if message_id else {}
    return NewRecord(kind="message", role=role, text=text, details=details)


def unique(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, name))


def texts(app: App) -> list[str]:
    where = RecordFilter(scopes=app.caller().scopes, include_inactive=True)
    return [record.text for record in app.records.list(where, "created", 100)]


def record(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def test_quotations_go_from_records_versions_details_and_tasks(app: App, remember: RememberOne) -> None:
    """G2.1: a text that only quotes it keeps the rest; one that says nothing else goes."""
    me = app.caller()
    fact = remember(SAID)
    quoting = remember(
        f"Ship it on Friday. He told us: {SAID} Ask first.", details={"reasons": [SAID]}, kind="decision"
    )
    former = remember(f"The courier rings twice. {SAID}")
    app.revise(Revision(id=former.id, text="The courier rings once."), me)
    copy = app.remember([message(SAID)], me)[0]
    task = app.tasks.push(PushRequest(goal=f"Send the parcel. {SAID}"), me).path[-1]
    forgotten = app.forget([fact.id], "erase", me)
    assert (forgotten.done, forgotten.extracted) == ((fact.id,), (copy.id,))
    assert set(forgotten.cut) == {quoting.id, task.id}
    assert record(app, quoting.id).text == "Ship it on Friday. [erased] Ask first."
    assert record(app, quoting.id).details == {"reasons": ["[erased]"]}
    assert app.records.tasks(me.namespace)[-1].goal == "Send the parcel. [erased]"
    assert "Plum" not in str(app.records.versions([former.id]))
    assert not [text for text in texts(app) if "Plum" in text]


@pytest.mark.uncounted
@pytest.mark.parametrize(("kind", "most"), [("fact", MOST_LASTING), ("message", MOST_QUOTING)])
def test_words_that_many_records_have_are_no_quotation(app: App, remember: RememberOne, kind: Kind, most: int) -> None:
    """A phrase of all of them, as a header of files; the erased record goes, and what is rare in it is named."""
    phrase = "Every note of this kind begins with the very same words"
    others = [remember(f"{phrase}: number {each}.", kind=kind).id for each in range(most + 1)]
    one = remember(f"{phrase}: quokkaville.")
    kept = remember("Nobody goes to quokkaville.")
    forgotten = app.forget([one.id], "erase", app.caller())
    assert (forgotten.cut, forgotten.extracted, forgotten.left) == ((), (), (kept.id, *others[:MOST_LEFT]))
    assert len(app.records.get(others, app.caller().scopes)) == len(others)
    assert remember(f"{phrase}: number 99.").status == "stored"


@pytest.mark.uncounted
def test_the_accounts_of_a_session_go_with_what_was_said_before_them(app: App) -> None:
    """G2.1: nobody can tell which words of a summary reworded it. A summary that is erased takes no message along."""
    me = app.caller("work")
    app.feed([message("Never print the vault word.", "m1"), message("Go on.", "m2")], me)
    summary = NewRecord(kind="summary", text="The user said: Never print the vault word.", tags=("client-summary",))
    account = app.remember([summary], me)[0].id
    app.checkpoint(me)
    said = [each.id for each in app.logs.said(me)]
    assert app.forget([account], "erase", me).cut == ()
    again = app.remember([summary], me)[0].id
    reach = app.erasure_reach(said[:1], me)
    gone = app.forget(said[:1], "erase", me)
    assert (reach.made, reach.same) == (gone.extracted, frozenset())
    assert again in reach.made
    assert [each.id for each in app.logs.said(me)] == said[1:]
    assert app.checkpoints.latest(me) is None


def test_an_erased_message_comes_back_from_no_transcript_fork_or_summary(app: App) -> None:
    """G2.1: under its id, however short; by its words in a summary and in another message."""
    me, fork = app.caller("work"), app.caller("fork")
    app.feed([message("Yes.", "m1"), message(SAID, "m2"), message("Yes.", "m3")], me)
    ids = [each.id for each in app.logs.said(me)]
    app.forget(ids[:2], "erase", me)
    told = [message("Yes.", "m1"), message(SAID, "m2"), message("Yes.", "m3"), message(f"Go on. {SAID}", "m4")]
    assert app.feed(told, me).stored == 1
    assert app.feed(told, fork).stored == 0
    assert app.feed([message("Yes.")], app.caller("third")).stored == 1
    assert [entry.text for entry in app.logs.log(fork).entries] == ["Yes.", "Go on. [erased]"]
    stored = app.remember([NewRecord(kind="summary", text=f"{SAID} He went on.")], me)[0]
    assert record(app, stored.id).text == "[erased] He went on."
    with pytest.raises(Conflict, match="erased here"):
        app.remember([NewRecord(kind="summary", text=SAID)], me)


def test_a_client_that_counts_its_messages_in_each_session_loses_none(app: App) -> None:
    """G2.1: its ids are no names of their own; a text without words is known by its characters."""
    one, two = app.caller("one"), app.caller("two")
    counted = {"message_id": "1"}
    app.feed([replace(message("Never tell it."), details=counted), message("\N{THUMBS UP SIGN}")], one)
    app.forget([each.id for each in app.logs.said(one)], "erase", one)
    assert app.feed([replace(message("Build the gate."), details=counted)], two).stored == 1
    assert app.feed([message("\N{WHITE HEAVY CHECK MARK}"), message("\N{THUMBS UP SIGN}")], one).stored == 1


def test_a_short_line_that_is_said_after_the_erasing_is_said_anew(app: App) -> None:
    """G2.1: a copy under another id is known by its time or has none; a quotation is long enough to be no accident."""
    me, fork = app.caller("work"), app.caller("fork")
    short, before, after = "The spare vault code is 4711.", app.now() - 60, app.now() + 60
    line = replace(message(short, "m1"), occurred_at=before)
    app.feed([line], me)
    app.forget([each.id for each in app.logs.said(me)], "erase", me)
    copies = [replace(line, details={}), message(short), message(short, "m1")]
    assert [app.feed([each], where).stored for where in (me, fork) for each in copies] == [0] * 6
    anew = [replace(message(short, f"n{each}"), occurred_at=after) for each in range(2)]
    assert [app.feed([each], where).stored for where, each in zip((me, fork), anew, strict=True)] == [1, 1]
    app.forget([app.logs.said(me)[0].id], "erase", me)
    long = replace(message(SAID, "m3"), occurred_at=before)
    app.feed([long], me)
    app.forget([each.id for each in app.logs.said(me)], "erase", me)
    assert app.feed([replace(message(SAID, "m4"), occurred_at=after)], fork).stored == 0


def test_what_many_sessions_say_on_their_own_stays_theirs(app: App) -> None:
    """G2.1: neither their words nor their accounts go, what is said later comes whole, and some of them are named."""
    phrase = "Please commit this and push it."
    callers = [app.caller(f"s{each}") for each in range(MOST_LASTING + 2)]
    for each in callers:
        app.feed([message(phrase), message(f"Session {each.session_id} ends.")], each)
        app.remember(
            [NewRecord(kind="summary", text=f"It is about {each.session_id}.", tags=("client-summary",))], each
        )
    forgotten = app.forget([app.logs.said(callers[0])[0].id], "erase", callers[0])
    assert len(forgotten.extracted) == 1
    assert len(forgotten.left) == MOST_LASTING + 1
    assert texts(app).count(phrase) == MOST_LASTING + 1
    later = f"{phrase} Then never deploy."
    app.feed([message(later)], app.caller("later"))
    assert later in texts(app)


def test_the_accounts_of_a_session_that_says_the_same_stay(app: App) -> None:
    """G2.1: its line goes, its account is made of more; a short line is cut from nothing that is said later."""
    one, two = app.caller("one"), app.caller("two")
    for each in (one, two):
        app.feed([message("Please commit this and push it.")], each)
        app.remember(
            [NewRecord(kind="summary", text=f"It is about {each.session_id}.", tags=("client-summary",))], each
        )
    app.forget([app.logs.said(one)[0].id], "erase", one)
    assert texts(app) == ["It is about two."]
    app.feed([message("Please commit this and push it, then rest.")], two)
    assert "Please commit this and push it, then rest." in texts(app)


def test_exact_copies_of_what_was_stored_go_however_often_it_is_quoted(app: App, remember: RememberOne) -> None:
    """G2.1: what quotes it is too much to be an accident, and is named."""
    fact = remember(SAID)
    notes = [remember(f"Note {each}: {SAID} Filed.").id for each in range(MOST_LASTING + 1)]
    app.feed([message(SAID)], app.caller("work"))
    revision, reach = app.revision(), app.erasure_reach([fact.id, "r00zzzz"], app.caller())
    assert app.revision() == revision
    forgotten = app.forget([fact.id], "erase", app.caller())
    assert reach.same == set(forgotten.extracted)
    assert SAID not in texts(app)
    assert forgotten.left == tuple(notes)


def test_another_agent_s_private_accounts_stay(app: App) -> None:
    """G2.1: they are not this caller's to erase, nor to hear of."""
    ann, bob = replace(app.caller("one"), agent="ann"), replace(app.caller("two"), agent="bob")
    for each in (ann, bob):
        app.feed([message(SAID, "m1")], each)
    summary = NewRecord(kind="summary", text="It is about a parcel.", tags=("client-summary",), visibility="private")
    account = app.remember([summary], bob)[0].id
    forgotten = app.forget([app.logs.said(ann)[0].id], "erase", ann)
    assert account not in forgotten.extracted
    assert account in app.records.get([account], bob.scopes)


def test_quotations_with_letters_that_fold_are_found(app: App, remember: RememberOne) -> None:
    """G2.1: "ß" is "ss" once case does not count."""
    told = "Der Schluessel liegt neben dem alten Rathausgrossmarktstraßentor im Kasten"
    fact, note = remember(told), remember(f"Merken bitte: {told}. Danke.")
    app.forget([fact.id], "erase", app.caller())
    assert record(app, note.id).text == "[erased] Danke."


def test_tags_names_and_goals_do_not_bring_it_back(app: App, remember: RememberOne) -> None:
    """G2.1: a record is refused, a log's line and a task lose it."""
    fact = remember(SAID)
    app.forget([fact.id], "erase", app.caller())
    at_home = Entity(name="Home", properties={"note": [SAID]})
    to_home = Relation(source="The user", type="is said to know that", target=SAID)
    for named in (
        {"tags": (SAID,)},
        {"entities": (Entity(name=SAID),)},
        {"entities": (at_home,)},
        {"relations": (to_home,)},
    ):
        with pytest.raises(Conflict, match="erased here"):
            remember("A fine day.", **named)
    goal = app.tasks.push(PushRequest(goal=f"Send it. {SAID}", plan=(SAID,)), app.caller()).path[-1].goal
    assert goal == "Send it. [erased]"


def test_what_others_state_in_these_words_goes(app: App, remember: RememberOne) -> None:
    """G2.1: their tags, entities, properties with the other names in them, and relations; the rest of it stays."""
    fact = remember(SAID)
    told = {"note": SAID, "aliases": [SAID, "The user's"], "size": "small"}
    properties = remember("It is small.", entities=(Entity(name="Home", properties=told),)).id
    type_ = remember("It is far.", relations=(Relation(source="Home", type=SAID, target="Office"),)).id
    ends = remember("It is old.", relations=(Relation(source="Home", type="is at", target=SAID),)).id
    tagged = remember("It is dear.", tags=(SAID, "home")).id
    plain = remember("It is low.", entities=(Entity(name="Home", properties={"size": "small"}),)).id
    erased = app.forget([fact.id], "erase", app.caller())
    assert set(erased.cut) == {properties, type_, ends, tagged}
    assert record(app, tagged).tags == ("home",)
    shown = [
        show_account(app.inspect.record(each, app.caller()), app.caller()) for each in (properties, type_, ends, plain)
    ]
    assert "Plum" not in str(shown)
    assert str(shown).count("'size': 'small'") == 2
    assert app.recall(RecallRequest(entities=("Home",)), app.caller()).results
    assert not app.recall(RecallRequest(entities=(SAID,)), app.caller()).results


def test_an_agent_that_insists_may_store_it_again(app: App, remember: RememberOne) -> None:
    """G2.1: it is told first; then nothing is kept from it any more."""
    fact, other = remember(SAID), remember("The parcel is blue.")
    app.forget([fact.id], "erase", app.caller())
    for text in (SAID, f"Note: {SAID}"):
        with pytest.raises(Conflict, match="reassert=true"):
            remember(text)
    with pytest.raises(Conflict, match="reassert=true"):
        app.revise(Revision(id=other.id, text=SAID), app.caller())
    assert remember("It is said otherwise.", reassert=True).status == "stored"
    assert remember(SAID, reassert=True).status == "stored"
    assert remember(f"Note: {SAID}").status == "stored"


def test_what_is_erased_while_a_conversation_is_fed_is_not_stored(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2.1: an entry was prepared before, and is stored after."""
    me = app.caller("work")
    fact = app.remember([NewRecord(text=SAID)], me)[0]
    drafting: Any = app._drafting  # noqa: SLF001
    make = drafting.make

    def erase_meanwhile(_: object, *given: object, **named: object) -> object:
        monkeypatch.undo()
        app.forget([fact.id], "erase", me)
        return make(*given, **named)

    monkeypatch.setattr("mcp_memory.services.memory.prepare_record.RecordPreparer.make", erase_meanwhile)
    assert app.feed([message(SAID, "m1"), message(f"{SAID} Go on.", "m2"), message("Done.", "m3")], me).stored == 2
    assert [entry.text for entry in app.logs.log(me).entries] == ["[erased] Go on.", "Done."]


def test_a_line_that_sessions_have_in_common_is_stored_once(app: App) -> None:
    """P2.1: whichever file comes first, also while both grow; each log has all of its own, and is compacted alone."""
    first, fork = app.caller("first"), app.caller("fork")
    told = [message(f"Step {each} of the work is done now.", f"m{each}") for each in range(6)]
    app.feed(told[:2], first)
    assert app.feed([*told[:4], message("Another way.", "f1")], fork).stored == 3
    assert app.feed(told, first).stored == 2
    assert app.feed([*told[:4], message("Another way.", "f1"), message("More.", "f2")], fork).stored == 1
    assert sorted(texts(app)) == sorted([*(each.text for each in told), "Another way.", "More."])
    assert [entry.text for entry in app.logs.log(first).entries] == [each.text for each in told]
    whole = [*(each.text for each in told[:4]), "Another way.", "More."]
    assert [entry.text for entry in app.logs.log(fork).entries] == whole
    assert app.logs.size(fork).entries == 6
    assert app.feed([message("Step 0 of the work was changed.", "m0")], app.caller("other")).stored == 1


def test_what_the_user_took_back_is_marked_and_in_no_log(app: App) -> None:
    """P2.1: it ranks last, and is found; where another session goes on with it, it holds."""
    me, fork = app.caller("work"), app.caller("fork")
    told = [message("Which store?", "m1"), message("Use MySQL for orders.", "m2"), message("Use Postgres.", "m3")]
    app.feed(told, me)
    assert app.take_back([], me) == 0
    assert app.take_back([unique("m2")], me) == 1
    assert app.take_back([unique("m2")], me) == 0
    assert [entry.text for entry in app.logs.log(me).entries] == ["Which store?", "Use Postgres."]
    (taken,) = app.recall(RecallRequest(query="MySQL", tags=(TAKEN_BACK,)), me).results
    assert taken["status"] == "superseded"
    app.feed([*told, message("Go on with it.", "f1")], fork)
    app.feed([message("Use SQLite.", "m5")], me)
    app.feed([message("Use SQLite.", "m5")], fork)
    assert app.take_back([unique("m5")], me) == 0
    assert "Use SQLite." in [entry.text for entry in app.logs.log(fork).entries]


def test_what_one_session_took_back_holds_again_where_a_fork_goes_on_with_it(app: App) -> None:
    """P2.1: it was in the fork's log, beside a superseded record; the fork's own mark supersedes it again."""
    me, fork = app.caller("work"), app.caller("fork")
    told = [message(text, f"m{number}") for number, text in enumerate(("Which?", "Use MySQL.", "Go on."))]
    app.feed(told, me)
    ids = [each.id for each in app.logs.said(me)]
    assert app.take_back([unique("m1"), unique("m2")], me) == 2
    assert app.feed(told[:2], fork).known == 2
    assert [entry.id for entry in app.logs.log(fork).entries] == ids[:2]
    assert [record(app, each).status for each in ids] == ["active", "active", "superseded"]
    assert [record(app, each).tags for each in ids] == [(), (), (TAKEN_BACK,)]
    assert [entry.id for entry in app.logs.log(me).entries] == ids[:1]
    assert app.take_back([unique("m1")], fork) == 1
    assert record(app, ids[1]).status == "superseded"


def test_what_the_user_goes_back_to_is_in_the_log_again(app: App) -> None:
    """P2.1: and valid again with what was read out of it, unless something else ended it since."""
    me = app.caller("work")
    said = ("Use MySQL.", "Done.", "Use Oracle.", "Use SQLite.")
    app.feed([message(text, f"m{number}") for number, text in enumerate(said)], me)
    ids = [each.id for each in app.logs.said(me)]
    line = record(app, ids[0])
    with app.records.write(me) as transaction:
        fact = transaction.next_id(RECORD)
        read_out = replace(line, id=fact, kind="fact", text="Orders are in MySQL.", details={"source": line.id})
        transaction.insert(replace(read_out, status="new", role=None), None, (), ())
    branch = [unique(f"m{number}") for number in range(3)]
    assert app.take_back(branch, me) == 3
    assert [record(app, each).status for each in (*ids, fact)] == ["superseded"] * 3 + ["active", "superseded"]
    app.forget([ids[1]], "retire", me)
    app.revise(Revision(id=ids[2], tags=(TAKEN_BACK,)), me)
    newer = app.remember([NewRecord(text="Oracle costs too much.", supersedes=(ids[2],))], me)[0]
    assert (newer.status, app.take_back([unique("m3")], me, branch)) == ("stored", 1)
    assert [entry.text for entry in app.logs.log(me).entries] == [*said[:3]]
    found = [record(app, each) for each in (*ids, fact)]
    assert [each.status for each in found] == ["active", "retired", "superseded", "superseded", "new"]
    assert [each.tags for each in found] == [(), (), (), (TAKEN_BACK,), ()]


@pytest.mark.uncounted
@pytest.mark.parametrize("take", [True, False])
def test_many_lines_are_taken_back_in_steps_that_grow_with_their_number(app: App, take: bool) -> None:
    steps: list[list[None]] = []
    for count in (100, 400):
        me = app.caller(f"work {count}")
        app.feed([message(f"Line {each} of {count}.", f"{count}.{each}") for each in range(count)], me)
        named = [unique(f"{count}.{each}") for each in range(count)]
        steps.append([])
        with app.records.write(me) as transaction:
            database: Any = transaction
            database._db.set_progress_handler(partial(steps[-1].append, None), 10)  # noqa: SLF001
            lines = transaction.lines_named(named, me)
            changed = transaction.take_back(lines, me) if take else transaction.stand_again(lines, me)
            assert len(changed) == (count if take else 0)
            database._db.set_progress_handler(None, 0)  # noqa: SLF001
    assert len(steps[1]) < 6 * len(steps[0])


def test_private_passages_are_stored_nowhere(app: App, remember: RememberOne) -> None:
    """P3.3: of facts, their details, and conversations."""
    me = app.caller("work")
    stored = remember(
        "Use OAuth. <private>Quillfeather sued me.", details={"reasons": ["<private>a</private> b"]}, kind="decision"
    )
    assert (record(app, stored.id).text, record(app, stored.id).details) == (
        "Use OAuth. [private]",
        {"reasons": ["[private] b"]},
    )
    with pytest.raises(InvalidRequest, match="private as a whole"):
        remember("<private>Quillfeather</private>")
    app.feed([message("<private>Quillfeather"), replace(message("So <private> it is."), role="assistant")], me)
    assert [entry.text for entry in app.logs.log(me).entries] == ["[private]", "So <private> it is."]


def test_what_one_call_names_twice_is_kept_once(app: App, remember: RememberOne) -> None:
    """By the first spelling, in every list."""
    ground = remember("The palette has three colours.")
    one = remember(
        "The palette is blue.", tags=("ui", "ui", "UI"), depends_on=(ground.id, ground.id),
        details={"asked_as": ["Which palette?", "which palette?", "Which palette?", "Which colour?"]},
    )  # fmt: skip
    assert record(app, one.id).tags == ("ui",)
    assert record(app, one.id).details["asked_as"] == ["Which palette?", "Which colour?"]
    app.revise(Revision(id=one.id, tags=("UX", "ux")), app.caller())
    assert record(app, one.id).tags == ("UX",)


def test_a_text_that_is_made_of_erased_ones_alone_goes_with_them(app: App, remember: RememberOne) -> None:
    one, two = "The safe of the harbour office opens with 4711.", "The spare key hangs behind the green door there."
    ids = [remember(one).id, remember(two).id]
    both = remember(f"{two} {one}").id
    assert both in app.forget(ids, "erase", app.caller()).extracted
    assert not [each for each in texts(app) if "4711" in each or "green door" in each]


def test_a_line_that_holds_no_more_stays_as_it_is_where_it_is_taken_back(app: App) -> None:
    me = app.caller("work")
    app.feed([message("Use MySQL for orders.", "m1")], me)
    [line] = app.logs.said(me)
    app.forget([line.id], "retire", me)
    assert app.take_back([unique("m1")], me) == 1
    assert record(app, line.id).status == "retired"
    assert app.take_back([], me, [unique("m1")]) == 0
    assert (record(app, line.id).status, len(app.logs.log(me).entries)) == ("retired", 1)

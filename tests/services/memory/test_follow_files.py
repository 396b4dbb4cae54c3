"""Follow files: records say what a client's memory files say, and are found where somebody asks."""

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.services.memory.follow_files import FROM_FILE, FileSection
from mcp_memory.services.memory.revise import Revision

HERE, THERE, FILE = "/home/ann/app", "/home/ann/second-clone", "CLAUDE.md"
SUITE, TABS, DEPLOY = "Run the test suite with make check.", "Indent by tabs.", "We deploy on Mondays, by hand."


def follow(app: App, *texts: str, folder: str = HERE, heading: str = "Rules") -> None:
    app.follow_files(folder, {FILE: [FileSection(heading=heading, text=text) for text in texts]}, app.caller())


def told(app: App) -> dict[str, Record]:
    """The records of files, whatever became of them, by their texts without the place."""
    where = RecordFilter(scopes=app.caller().scopes, all_tags=frozenset({FROM_FILE}), include_inactive=True)
    return {each.text.partition(": ")[2]: each for each in app.records.list(where, "created", 100)}


def holding(app: App) -> set[str]:
    return {text for text, record in told(app).items() if record.holds}


def test_records_follow_their_file_and_an_unchanged_one_writes_nothing(app: App) -> None:
    follow(app, SUITE, TABS, DEPLOY)
    assert {each.text for each in told(app).values()} == {f"{FILE}, Rules: {text}" for text in (SUITE, TABS, DEPLOY)}
    assert told(app)[TABS].details == {"path": FILE, "heading": "Rules", "folder": HERE}
    before = app.progress()
    follow(app, SUITE, TABS, DEPLOY)
    assert app.progress() == before
    follow(app, SUITE, "Indent by four tabs.")
    now = told(app)
    assert (now[TABS].status, now[TABS].superseded_by) == ("superseded", now["Indent by four tabs."].id)
    assert (now[DEPLOY].status, now[DEPLOY].superseded_by) == ("retired", None)
    follow(app, SUITE, TABS, DEPLOY)
    assert holding(app) == {SUITE, TABS, DEPLOY}
    assert told(app)["Indent by four tabs."].superseded_by == now[TABS].id
    app.follow_files(HERE, dict.fromkeys(app.follow_files.paths(HERE, app.caller()), ()), app.caller())
    assert not holding(app)
    assert app.follow_files.paths(HERE, app.caller()) == frozenset()


def test_they_are_found_by_who_asks_and_given_to_nobody_unasked(app: App) -> None:
    """The client has the file in its window already."""
    follow(app, SUITE)
    app.remember([NewRecord(text="The test suite needs a database.")], app.caller())
    app.reindex.catch_up()
    question = "How do I run the test suite?"
    found = app.recall(RecallRequest(query=question), app.caller()).results
    assert f"{FILE}, Rules: {SUITE}" in [each["text"] for each in found]
    assert SUITE in app.assemble_context(ContextRequest(query=question), app.caller()).text
    start = app.assemble_context(ContextRequest(occasion="start"), app.caller()).text
    reminder = app.remind(question, (), 600, app.caller()).text
    assert [("needs a database" in each, SUITE in each) for each in (start, reminder)] == [(True, False)] * 2
    assert SUITE in app.assemble_context(ContextRequest(tags=(FROM_FILE,)), app.caller()).text


def test_what_somebody_corrected_forgot_or_erased_does_not_come_back(app: App) -> None:
    follow(app, SUITE, TABS, DEPLOY, "The key lies below the mat.")
    ids = {text: record.id for text, record in told(app).items()}
    bob = app.caller("bobs")
    app.revise(Revision(id=ids[TABS], text=f"{FILE}, Rules: Indent by spaces."), bob)
    app.forget([ids[DEPLOY]], "retire", bob)
    app.forget([ids["The key lies below the mat."]], "erase", bob)
    follow(app, SUITE, TABS, DEPLOY, "The key lies below the mat.")
    assert holding(app) == {SUITE, "Indent by spaces."}
    follow(app, SUITE)
    assert holding(app) == {SUITE, "Indent by spaces."}


def test_a_section_replaces_a_record_that_somebody_marked(app: App) -> None:
    follow(app, TABS)
    app.revise(Revision(id=told(app)[TABS].id, importance=5.0), app.caller("bobs"))
    follow(app, "Indent by two tabs.")
    assert holding(app) == {"Indent by two tabs."}


def test_two_clones_that_differ_both_stand(app: App) -> None:
    follow(app, SUITE, TABS)
    follow(app, SUITE, "Indent by two tabs.", folder=THERE)
    assert holding(app) == {SUITE, TABS, "Indent by two tabs."}
    follow(app, SUITE, folder=THERE)
    assert holding(app) == {SUITE, TABS}


@pytest.mark.parametrize("heading", ["", "Rules: of style"])
def test_only_what_resembles_a_section_below_its_heading_replaces_it(app: App, heading: str) -> None:
    follow(app, TABS, DEPLOY, heading=heading)
    follow(app, "Indent by two tabs.", SUITE, heading=heading)
    former = {record.superseded_by for record in told(app).values() if not record.holds}
    [newer] = [record for text, record in told(app).items() if text.endswith("Indent by two tabs.")]
    assert former == {newer.id, None}
    assert newer.text == (f"{FILE}, {heading}: Indent by two tabs." if heading else f"{FILE}: Indent by two tabs.")

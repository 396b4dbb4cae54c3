"""status, search, list, tasks and show over a real memory."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord, Relation
from mcp_memory.domain.text.times import iso
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from mcp_memory.settings import Settings, load_settings
from tests.services.sessions.conversations import fed

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run


@pytest.fixture
def memory(open_memory: Callable[..., App]) -> App:
    return open_memory()


def remember(memory: App, *items: NewRecord) -> list[str]:
    return [each.id for each in memory.remember(items, memory.caller())]


def test_status_counts_and_says_where_the_work_stands(run: "Run", memory: App) -> None:
    """S7.1."""
    remember(memory, NewRecord(text="The cat is called Schrödinger"), NewRecord(text="Ship on Friday", kind="decision"))
    memory.tasks.push(PushRequest(goal="Feed the cat", plan=("Buy food", "Open the tin")), memory.caller())
    shown = run("status", "--json").json
    assert shown["records"] == {"fact": 1, "decision": 1}
    assert [goal["goal"] for goal in shown["path"]] == ["Feed the cat"]
    assert [task["goal"] for task in shown["task_tree"][0]["subtasks"]] == ["Buy food", "Open the tin"]
    assert shown["store"]["path"].endswith("memory.db")
    screen = run("status").out
    assert "Feed the cat" in screen
    assert f"[planned] {shown['task_tree'][0]['subtasks'][1]['id']} Open the tin" in screen


def test_status_shows_figures_beside_their_targets(run: "Run", memory: App) -> None:
    """C9.1, A7.2, S7.1: what is inside and what is not, and which strategies were used."""
    screen = run("status").out
    assert "none in 14 days" in screen
    assert "not known yet" in screen
    [used, ignored] = remember(memory, NewRecord(text="The cat sleeps"), NewRecord(text="Invoices are due"))
    for times in (1, 9):
        for _ in range(times):
            memory.revise(Revision(id=used, feedback="used"), memory.caller())
            memory.revise(Revision(id=ignored, feedback="ignored"), memory.caller())
        if times == 1:
            memory.assemble_context(ContextRequest(strategy="recent"), memory.caller())
            screen = run("status").out
            assert "Used share 0.5 > 0.4 of too few cases yet" in " ".join(screen.split())
            assert "Nothing needs your attention. There is too little use yet" in " ".join(screen.split())
    screen = run("status").out
    lines = [" ".join(line.split()) for line in screen.splitlines()]
    assert "Contexts given 1 in 14 days: 1 recent" in lines
    assert "Used share 0.5 > 0.4 inside" in lines
    assert any(line.startswith("Fact confirmation rate not known yet") for line in lines)
    assert "Growth 7 days 2" in lines
    memory.assemble_context(ContextRequest(query="Why does the test fail?"), memory.caller())
    shown = run("status", "--json").json
    assert shown["health"]["used_share"] == {"value": 0.5, "target": "> 0.4", "verdict": "inside"}
    assert shown["contexts"]["strategies"] == {"auto": 1, "recent": 1}
    [picked] = shown["contexts"]["picked"]
    assert f"1 auto, 1 recent; auto picked 1 {picked}" in run("status").out


def test_list_says_which_procedures_failed(run: "Run", memory: App) -> None:
    """C8.3: flagged."""
    [record_id] = remember(memory, NewRecord(text="Restart it", kind="procedure"))
    assert "ineffective" not in run("list").out
    for _ in range(5):
        memory.revise(Revision(id=record_id, feedback="failed"), memory.caller())
    assert "ineffective" in run("list").out


@pytest.mark.parametrize("command", [["status"], ["list"], ["search", "x"], ["show", "r000001"]])
def test_looking_where_there_is_no_memory_makes_none(run: "Run", settings: Settings, command: list[str]) -> None:
    """S7.1: a mistyped directory is named, not filled."""
    ran = run(*command)
    assert (ran.code, ran.out) == (1, "")
    assert "No memory at" in ran.err
    assert not settings.data_dir.exists()


@pytest.mark.usefixtures("memory")
def test_status_of_an_empty_memory_says_so(run: "Run") -> None:
    """S7.1."""
    assert run("status", "--json").json["records"] == {}
    assert "none yet" in run("status").out


def test_search_finds_by_meaning_and_prints_what_agents_get(run: "Run", memory: App) -> None:
    """S7.1."""
    [cat, _] = remember(memory, NewRecord(text="The cat sleeps on the sofa"), NewRecord(text="Invoices are due in May"))
    answer = run("search", "kitten napping on the couch", "--json").json
    assert answer["results"][0]["id"] == cat
    assert answer["degraded"] == []
    assert cat in run("search", "sofa").out


def test_search_narrows_by_kind_tag_and_time(run: "Run", memory: App) -> None:
    """S7.1."""
    ids = remember(
        memory,
        NewRecord(text="Release on Friday", kind="decision", tags=("plan",)),
        NewRecord(text="Release notes are in docs", tags=("plan",)),
        NewRecord(text="The release of May went well", kind="decision", occurred_at=0.0),
    )
    found = run("search", "release", "--kind", "decision", "--tag", "plan", "--json").json["results"]
    assert [each["id"] for each in found] == ids[:1]
    for command in (("search", "release"), ("list",)):
        found = run(*command, "--tag", "-plan", "--json").json["results"]
        assert [each["id"] for each in found] == ids[2:]
    found = run("search", "release", "--until", "1971-01-01", "--json").json["results"]
    assert [each["id"] for each in found] == ids[2:]


def test_search_looks_back(run: "Run", memory: App) -> None:
    """N4.1, S7.1: what was believed at a time, in the words of then."""
    [record] = remember(memory, NewRecord(text="The queue is Redis."))
    memory.revise(Revision(id=record, text="The queue is Postgres."), memory.caller())
    assert run("search", "queue", "--as-of", "today", "--json").json["results"][0]["text"] == "The queue is Postgres."
    assert run("search", "queue", "--as-of", "1971-01-01").out == "Nothing found.\n"


def test_search_pages_on(run: "Run", memory: App) -> None:
    """S7.1."""
    ids = remember(memory, *(NewRecord(text=f"Apple number {number}") for number in range(3)))
    first = run("search", "apple", "--limit", "2", "--json").json
    rest = run("search", "apple", "--limit", "2", "--offset", str(first["next_offset"]), "--json").json
    assert first["truncated"]
    assert not rest["truncated"]
    assert sorted(each["id"] for each in first["results"] + rest["results"]) == ids
    assert "--offset 2" in run("search", "apple", "--limit", "2").out


def test_search_says_when_there_is_nothing(run: "Run", memory: App) -> None:
    """S7.1."""
    assert run("search", "anything").out == "Nothing found.\n"
    assert run("search", "anything", "--json").json["results"] == []


def test_list_shows_the_newest_first_and_does_not_count_as_opening(run: "Run", memory: App) -> None:
    """S7.1."""
    first, second = remember(memory, NewRecord(text="first"), NewRecord(text="second"))
    before = memory.records.get([first], memory.caller().scopes)[first].counters
    assert [each["id"] for each in run("list", "--json").json["results"]] == [second, first]
    assert memory.records.get([first], memory.caller().scopes)[first].counters == before


def test_list_narrows_by_session_and_pages_on(run: "Run", memory: App) -> None:
    """S7.1."""
    items = [NewRecord(text=f"turn {number}", kind="message", session_id="talk") for number in range(3)]
    ids = remember(memory, NewRecord(text="elsewhere"), *items)[1:]
    page = run("list", "--session", "talk", "--limit", "2", "--json").json
    assert [each["id"] for each in page["results"]] == [ids[2], ids[1]]
    rest = run("list", "--session", "talk", "--offset", str(page["next_offset"]), "--json").json
    assert [each["id"] for each in rest["results"]] == [ids[0]]
    assert rest["next_offset"] is None


def test_list_narrows_by_time(run: "Run", memory: App) -> None:
    """S7.1: the last day included; as search does."""
    days = {day: memory.searcher.instant(day) for day in ("2026-01-10", "2026-01-20", "2026-01-30")}
    remember(memory, *(NewRecord(text=f"On {day}.", occurred_at=at) for day, at in days.items()))
    found = run("list", "--since", "2026-01-15", "--until", "2026-01-30", "--json").json["results"]
    assert [each["text"] for each in found] == ["On 2026-01-30.", "On 2026-01-20."]
    assert "is not a time" in run("list", "--since", "whenever").err


def test_list_leaves_out_what_was_said_in_sessions_until_asked(run: "Run", memory: App) -> None:
    """S7.1: else the newest records would be a log's alone."""
    kinds = ("fact", "message", "tool_call", "tool_result", "event")
    items = [NewRecord(text=f"a {kind}", kind=kind, session_id="talk") for kind in kinds]
    ids = remember(memory, *items)
    assert [each["id"] for each in run("list", "--json").json["results"]] == ids[:1]
    assert [each["id"] for each in run("list", "--kind", "event", "--json").json["results"]] == ids[-1:]
    assert len(run("list", "--session", "talk", "--json").json["results"]) == len(ids)


def test_people_read_and_type_their_own_words_for_kinds_and_programs_get_the_stored_ones(
    run: "Run", memory: App
) -> None:
    """U3.1, C8.4: guardrail, preference, event; `--kind censor` finds the same as `--kind guardrail`."""
    for word, text in (
        ("guardrail", "Never push on Fridays."),
        ("profile", "Ann reads diffs."),
        ("event", "It rained."),
    ):
        assert run("add", text, "--kind", word).code == 0
    listed = run("list").out
    assert [word for word in ("guardrail", "preference", "event") if f" {word} 2" in listed] == [
        *("guardrail", "preference", "event")
    ]
    assert [each["kind"] for each in run("list", "--json").json["results"]] == ["episode", "identity", "censor"]
    assert run("list", "--kind", "guardrail").out == run("list", "--kind", "censor").out
    assert (
        "the kinds are fact, decision, procedure, event, guardrail, preference" in run("list", "--kind", "rumour").err
    )


def test_show_opens_what_stands_in_a_log(run: "Run", memory: App) -> None:
    """S7.1: with the ids of what it stands for."""
    caller = memory.caller("work")
    log = fed(memory, caller, 30)
    memory.compact(CompactRequest(force=True, window=log.tokens), caller)
    entry = memory.logs.stand_ins(caller)[0].entry
    shown = run("show", entry.id, "--json").json
    assert (shown["text"], tuple(shown["covers"])) == (entry.text, entry.covers)
    assert entry.covers[0] in run("show", entry.id).out
    assert run("show", entry.covers[0]).code == 0


def test_what_agents_are_told_is_said_in_commands(run: "Run", memory: App) -> None:
    """S3.1: whoever types a command calls no tool."""
    assert run("show", memory.caller().session_id).err.endswith("`mcp-memory search` finds ids.\n")
    assert run("add", "x", "--importance", "11").err.endswith("10.0.\n")


def test_list_shows_what_was_retired_only_when_asked(run: "Run", memory: App) -> None:
    """S7.1."""
    [kept, retired] = remember(memory, NewRecord(text="kept"), NewRecord(text="retired"))
    memory.forget([retired], "retire", memory.caller())
    assert [each["id"] for each in run("list", "--json").json["results"]] == [kept]
    assert retired in run("list", "--inactive").out
    assert "retired" in run("list", "--inactive").out


def test_list_keeps_an_open_branch_out_of_the_trunk(run: "Run", memory: App) -> None:
    """T4.3: neither is it listed."""
    agent = memory.caller("elsewhere")
    memory.tasks.push(PushRequest(goal="Try it", branch=True), agent)
    [hidden] = [each.id for each in memory.remember([NewRecord(text="only a try")], agent)]
    assert hidden not in run("list", "--agent", "another").out
    memory.tasks.pop(PopRequest(result="it works"), agent)
    assert hidden in run("list", "--agent", "another").out


def test_show_gives_a_record_with_its_earlier_texts(run: "Run", memory: App) -> None:
    """S7.1."""
    [record_id] = remember(memory, NewRecord(text="The door code is on paper", tags=("house",), speaker="Ada"))
    memory.revise(Revision(id=record_id, text="The door code is in the safe"), memory.caller())
    shown = run("show", record_id, "--json").json
    assert shown["text"] == "The door code is in the safe"
    assert [old["text"] for old in shown["earlier"]] == ["The door code is on paper"]
    screen = run("show", record_id).out
    assert "in the safe" in screen
    assert "on paper" in screen
    assert "house" in screen


def test_show_gives_a_task_and_a_context(run: "Run", memory: App) -> None:
    """S7.1, B1.3: every candidate's fate is kept with the context."""
    remember(memory, NewRecord(text="Feeding times are 7 and 18 o'clock"), NewRecord(text="Tax forms are blue"))
    asked = PushRequest(goal="Feed the cat", success_criteria="It purrs", plan=("Buy food",))
    task = memory.tasks.push(asked, memory.caller()).current
    assert task is not None
    context = memory.assemble_context(ContextRequest(query="When is feeding time?"), memory.caller())
    assert run("show", task.id, "--json").json["success_criteria"] == "It purrs"
    assert "It purrs" in run("show", task.id).out
    assert run("show", task.id, "--json").json["created_at"] == iso(task.created_at)
    account = run("show", context.report.id, "--json").json
    assert {each["id"] for each in account["components"]} >= {task.id}
    block = run("show", context.report.id).out
    assert "Feed the cat" in block
    assert "Feeding times are 7 and 18 o'clock" in block
    assert "Buy food" in run("show", task.id).out


def test_the_owner_sees_the_blocks_of_all_agents(run: "Run", memory: App) -> None:
    """U2.1: in the list, one by one, and in the counts."""
    remember(memory, NewRecord(text="Feeding times are 7 and 18 o'clock"))
    ann = replace(memory.caller(), agent="ann")
    context = memory.assemble_context(ContextRequest(query="When is feeding time?"), ann)
    [listed] = run("contexts", "--json").json
    assert (listed["id"], listed["agent"]) == (context.report.id, "ann")
    assert "Feeding times are 7" in run("show", context.report.id).out
    assert run("status", "--json").json["contexts"]["given"] == 1


def test_nothing_found_names_the_projects_that_have_something(run: "Run", memory: App) -> None:
    """U2.1: another folder, a second clone, an import on a new machine."""
    assert run("list").out.strip() == "Nothing found."
    remember(memory, NewRecord(text="Feeding times are 7 and 18 o'clock"))
    for command in (["list"], ["search", "feeding"]):
        told = run(*command, "--namespace", "elsewhere").out
        assert "elsewhere has no records. Other projects have: test. Name one with --namespace." in " ".join(
            told.split()
        )
    assert run("list", "--kind", "decision").out.strip() == "Nothing found."


@pytest.mark.parametrize("unknown", ["r99", "t99", "c99", "x99", "nonsense"])
def test_an_unknown_id_is_one_line_that_names_the_next_move(run: "Run", memory: App, unknown: str) -> None:
    """S7.1, S3.1."""
    ran = run("show", unknown, "--json")
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("mcp-memory: No ")


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["search", "  "], "QUERY is empty"),
        (["search", "x", "--kind", "wisdom"], "the kinds are fact"),
        (["list", "--kind", "wisdom"], "the kinds are fact"),
        (["search", "x", "--since", "the day the music died"], "is not a time"),
        (["status", "--namespace", ""], "--namespace: must be 1 to 200 characters"),
    ],
)
def test_a_wrong_argument_is_one_line_on_stderr(run: "Run", arguments: list[str], says: str) -> None:
    """S7.1, S3.1."""
    ran = run(*arguments)
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert says in ran.err


def test_options_choose_the_memory_before_and_behind_the_command(
    run: "Run", memory: App, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """S7.1, S4.1."""
    elsewhere = str(tmp_path_factory.mktemp("elsewhere"))
    open_app(load_settings(data_dir=elsewhere)).close()
    [shared, private] = remember(memory, NewRecord(text="for all"), NewRecord(text="for one", visibility="private"))
    assert run("list", "--data-dir", elsewhere, "--json").json["results"] == []
    assert run("--data-dir", elsewhere, "list", "--json").json["results"] == []
    assert run("list", "--namespace", "other", "--json").json["results"] == []
    assert run("--namespace", "other", "status", "--namespace", "test", "--json").json["namespace"] == "test"
    seen = [each["id"] for each in run("list", "--agent", "another", "--json").json["results"]]
    assert seen == [shared]
    assert private in run("list").out


def test_lists_and_searches_name_the_agents_of_others(run: "Run", memory: App) -> None:
    """X5.1: of one's own they name none."""
    [record_id] = remember(memory, NewRecord(text="The port is 5432."))
    for screen in (run("list", "--agent", "ann").out, run("search", "port", "--agent", "ann").out):
        assert re.search(rf"{record_id} fact [0-9-]+ by default\n", screen)
    assert " by " not in run("list").out


def test_a_stored_escape_sequence_does_not_reach_the_terminal(run: "Run", memory: App) -> None:
    """S7.1: an older version kept it."""
    [record_id] = remember(memory, NewRecord(text="before"))
    raw = "before \x1b[2J\x1b]0;owned\x07 after [red]not markup[/red]"
    with memory.records.write() as transaction:
        record = transaction.get(record_id)
        assert record is not None
        transaction.update(replace(record, text=raw, summary=raw, micro=raw))
    for screen in (run("list").out, run("show", record_id).out, run("search", "before").out):
        assert "\x1b" not in screen
        assert "\x07" not in screen
        assert "[red]not markup[/red]" in screen


def test_tasks_shows_the_tree_and_where_the_work_stands(run: "Run", memory: App) -> None:
    """S7.1: as JSON with the path; before there is one it says so."""
    assert run("tasks").out.splitlines()[0] == "No task yet."
    memory.tasks.push(PushRequest(goal="Feed the cat", plan=("Buy food",)), memory.caller())
    shown = run("tasks", "--json").json
    assert [goal["goal"] for goal in shown["path"]] == ["Feed the cat"]
    assert shown["current"] == shown["tasks"][0]["id"]
    assert [task["goal"] for task in shown["tasks"][0]["subtasks"]] == ["Buy food"]
    screen = run("tasks").out
    assert f"[planned] {shown['tasks'][0]['subtasks'][0]['id']} Buy food" in screen
    assert "Current task: Feed the cat." in screen


def test_graph_shows_connections_and_paths(run: "Run", memory: App) -> None:
    """O4.2: of one thing, and between two."""
    first, second = remember(
        memory, NewRecord(text="Acme Foods uses `tide_api`."), NewRecord(text="INC-7 hit `tide_api`.")
    )
    remember(memory, NewRecord(text="Keep the outage apart.", depends_on=(second,)))
    told = run("graph", "acme foods", "inc-7")
    assert f"Acme Foods → {first} → tide_api → {second} → INC-7" in told.out
    assert run("graph", "acme foods", "inc-7", "--json").json["records"][0]["id"] == first
    told = run("graph", "inc-7")
    assert "What depends on it" in told.out
    assert "Keep the outage apart." in told.out
    told = run("graph", second)
    assert "(through tide_api)" in told.out
    remember(memory, NewRecord(text="It is so.", relations=(Relation(source="INC-7", type="cost", target="a day"),)))
    assert "INC-7 cost a day" in run("graph", "inc-7").out
    assert run("graph", "nobody").code == 1


@pytest.mark.parametrize("query", ["B\udcfcro", "\ud83d Büro"])
def test_a_byte_of_another_encoding_is_a_replacement_character(run: "Run", memory: App, query: str) -> None:
    """P3.2: the system hands on what is no UTF-8 as half of a surrogate pair."""
    remember(memory, NewRecord(text="Das Büro ist offen."))
    assert run("search", query, "--tag", "a\udcfc").out == "Nothing found.\n"
    assert run("add", f"Im {query} ist Licht.", "--json").json["status"] == "stored"
    assert "Im B\ufffdro ist Licht." in run("list").out or "Im \ufffd Büro" in run("list").out


def test_reads_shows_which_command_gave_which_record(
    run: "Run", memory: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S7.1, S4.3: of a record, of an agent, and all as JSON Lines; also that no log is kept."""
    assert run("reads").out == "No log of reads is kept; see MCP_MEMORY_READ_LOG_DAYS.\n"
    monkeypatch.setenv("MCP_MEMORY_READ_LOG_DAYS", "7")
    first, second = remember(memory, NewRecord(text="Tea is at four."), NewRecord(text="Coffee is at nine."))
    assert run("reads").out == "No request gave anything.\n"
    run("show", first)
    run("list")
    run("export", str(tmp_path / "all.jsonl"))
    export, listed, shown = run("reads", "--json").json
    assert (shown["way"], shown["records"], shown["agent"]) == ("command show", [first], "default")
    assert (listed["way"], {*listed["records"]}) == ("command list", {first, second})
    assert (export["way"], export["records"]) == ("command export", ["*"])
    assert [each["way"] for each in run("reads", "--record", second, "--limit", "2", "--json").json] == [
        "command export", "command list",
    ]  # fmt: skip
    assert run("reads", "--of", "nobody", "--json").json == []
    assert re.search(rf"command show +{first}\n", run("reads").out)
    lines = [json.loads(line) for line in run("reads", "--lines").out.splitlines()]
    assert lines == [shown, listed, export]
    assert run("reads", "--lines", "--until", "2020-01-01").out == ""
    assert "leave out --record" in run("reads", "--lines", "--record", first).err
    assert "choose among --lines" in run("reads", "--since", "2020-01-01").err

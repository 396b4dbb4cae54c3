import subprocess
import sys
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.hooks.client_events import CLAUDE_CODE
from mcp_memory.entrypoints.hooks.events import MOST_OUTPUT_CHARACTERS
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from tests.entrypoints.hooks.conftest import RunHook, Transcript

ContextOf = Callable[[str], str]


@pytest.fixture
def worked(memory: App) -> App:
    """A memory in the middle of some work."""
    me = memory.caller()
    memory.remember(
        [
            NewRecord(text="Exports are CSV in UTF-8.", kind="decision"),
            NewRecord(
                text="Never export from the primary.",
                kind="censor",
                details={"action": "block", "trigger": "export", "reason": "it locks the invoices"},
            ),
        ],
        me,
    )
    memory.tasks.push(PushRequest(goal="Let customers export invoices"), me)
    memory.tasks.push(PushRequest(goal="Agree on the columns"), me)
    memory.tasks.pop(PopRequest(result="nine columns"), me)
    memory.tasks.push(PushRequest(goal="Build the file in memory"), me)
    memory.tasks.pop(PopRequest(result="2 GB of it", status="failed"), me)
    memory.tasks.push(PushRequest(goal="Stream the rows"), me)
    memory.tasks.push(PushRequest(plan=("Try it with 50,000 invoices",)), me)
    return memory


def test_a_session_begins_with_what_the_memory_holds(worked: App, run_hook: "RunHook", context_of: ContextOf) -> None:
    """S7.2."""
    text = context_of(run_hook("SessionStart", source="startup"))
    assert "Exports are CSV in UTF-8." in text
    assert '<memory-context id="c' in text
    factor = worked.factor(worked.caller(client="claude-code")).factor
    assert ceil(worked.counter.count(text) * factor) <= 2_000


@pytest.mark.parametrize("source", ["startup", "resume", "compact", "clear", "fork", "something new"])
def test_whatever_starts_it_the_block_says_where_the_work_stands(
    worked: App, run_hook: "RunHook", context_of: ContextOf, source: str
) -> None:
    """S7.2: the goal path, what is done, what is next, dead ends, and what not to do."""
    text = context_of(run_hook("SessionStart", source=source))
    for line in (
        "]: Let customers export invoices",
        ": Stream the rows",
        ": Agree on the columns → nine columns",
        ": Try it with 50,000 invoices",
        "dead end (failed)",
        "2 GB of it",
        "**BLOCK:** when export",
    ):
        assert line in text, (line, text)


def test_the_second_day_begins_where_the_first_ended(
    memory: App, run_hook: "RunHook", transcript: "Transcript", context_of: ContextOf
) -> None:
    """F9.1: of a day of a real client's log, the words and the work; its own and the client's calls never."""
    transcript.say("user", "Import the shards, and note what you decide.")
    for n in range(12):
        text = f"Shard {n} is imported in one transaction, because a half one cannot be told apart."
        transcript.call(
            f"a{n}", "ToolSearch", {"query": "select:mcp__plugin_mcp-memory_mcp-memory__remember"}, "1 tool"
        )
        transcript.call(f"b{n}", "mcp__plugin_mcp-memory_mcp-memory__remember", {"text": text}, f'{{"id": "r{n:06}"}}')
        transcript.call(f"c{n}", "mcp__plugin_mcp-memory_mcp-memory__recall", {"query": "shards"}, text)
        transcript.call(f"d{n}", "Bash", {"command": f"make shard-{n}"}, "done")
        memory.remember([NewRecord(text=text, kind="decision")], memory.caller())
    transcript.say("assistant", "Three of them are in. Next time: continue with shard 4.")
    transcript.say("user", "<command-name>/exit</command-name>\n<command-args></command-args>")
    run_hook("Stop")
    text = context_of(run_hook("SessionStart", source="startup", session_id="the second day"))
    exchange = text.partition("## Last Exchange\n")[2].partition("\n## ")[0].splitlines()
    assert [line.partition("] ")[2] for line in exchange[:2]] == [
        "user: Import the shards, and note what you decide.",
        "assistant: Three of them are in. Next time: continue with shard 4.",
    ]
    for word in ("ToolSearch", "mcp__", "/exit"):
        assert word not in text
    assert "make shard-11" in text
    assert all(text.count(f"Shard {n} is imported in one") == 1 for n in range(12))


def test_after_a_compaction_it_names_what_is_kept_of_the_session(
    worked: App, run_hook: "RunHook", transcript: "Transcript", context_of: ContextOf
) -> None:
    """S7.2."""
    transcript.say("user", "Write the rows to exports/writer.py, with port 5433 for the replica.")
    run_hook("PreCompact", trigger="auto")
    run_hook("PostCompact", trigger="auto", compact_summary="<summary>The writer streams rows.</summary>")
    text = context_of(run_hook("SessionStart", source="compact"))
    assert "The conversation was compacted just now." in text
    assert 'session_id="0a1b2c3d-0000-4000-8000-000000000001"' in text
    assert "Its summaries: r0" in text
    assert "exports/writer.py" in text
    assert "port 5433" in text
    begun = context_of(run_hook("SessionStart", source="startup", session_id="another"))
    assert "kept word for word" not in begun


def test_without_a_log_a_compaction_leaves_nothing_to_name(
    worked: App, run_hook: "RunHook", context_of: ContextOf
) -> None:
    text = context_of(run_hook("SessionStart", source="compact"))
    assert "kept word for word" not in text
    assert "Its summaries" not in text


def test_what_a_compaction_of_the_log_put_together_is_named_too(
    memory: App, run_hook: "RunHook", transcript: "Transcript", context_of: ContextOf
) -> None:
    for number in range(40):
        transcript.say("user", f"Question {number}: which port does service {number} listen on, and why that one?")
        transcript.say("assistant", f"Service {number} listens on port {5_000 + number}. " + "It was free. " * 40)
    run_hook("Stop")
    caller = memory.caller("0a1b2c3d-0000-4000-8000-000000000001", CLAUDE_CODE)
    memory.compact(CompactRequest(window=4_000, force=True, summarizer="extractive"), caller)
    summaries = [each.entry.id for each in memory.logs.stand_ins(caller) if each.entry.form == "summary"]
    assert summaries
    assert f"Its summaries: {', '.join(summaries)}" in context_of(run_hook("SessionStart", source="compact"))


def test_nothing_is_said_and_made_where_there_is_no_memory(tmp_path: Path, run_hook: "RunHook") -> None:
    assert run_hook("SessionStart", source="startup") == ""
    assert run_hook("UserPromptSubmit", prompt="What do we know of exports?") == ""
    assert not (tmp_path / "data").exists()


def test_nothing_is_said_where_the_memory_is_empty(memory: App, run_hook: "RunHook") -> None:
    assert run_hook("SessionStart", source="startup") == ""
    assert run_hook("SessionStart", source="compact") == ""


def test_a_budget_of_zero_gives_nothing(worked: App, run_hook: "RunHook") -> None:
    assert run_hook("SessionStart", {"hook_max_tokens": 0}, source="startup") == ""
    assert run_hook("UserPromptSubmit", {"hook_prompt_max_tokens": 0}, prompt="Exports in CSV?") == ""


def test_a_smaller_budget_holds_as_well(worked: App, run_hook: "RunHook", context_of: ContextOf) -> None:
    text = context_of(run_hook("SessionStart", {"hook_max_tokens": 500}, source="startup"))
    factor = worked.factor(worked.caller(client="claude-code")).factor
    assert ceil(worked.counter.count(text) * factor) <= 500


def test_the_block_is_no_longer_than_the_client_shows(memory: App, run_hook: "RunHook", context_of: ContextOf) -> None:
    facts = [NewRecord(text=f"Fact number {n} says something that takes a whole line of a block.") for n in range(120)]
    memory.remember(facts, memory.caller(), advise=False)
    text = context_of(run_hook("SessionStart", {"hook_max_tokens": 20_000}, source="startup"))
    assert MOST_OUTPUT_CHARACTERS * 0.8 < len(text) <= MOST_OUTPUT_CHARACTERS


def test_the_session_belongs_to_the_project_it_began_in(
    tmp_path: Path, run_hook: "RunHook", transcript: "Transcript", monkeypatch: pytest.MonkeyPatch
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project, elsewhere):
        (folder / ".git").mkdir(parents=True)
    mine = {"namespace": None}
    transcript.say("user", "Begin here.")
    run_hook("Stop", mine, cwd=str(project))
    transcript.say("user", "Go on there.")
    run_hook("Stop", mine, cwd=str(elsewhere))
    app = open_app(load_settings(data_dir=tmp_path / "data"), folder=project)
    said = app.logs.said(app.caller("0a1b2c3d-0000-4000-8000-000000000001"))
    app.close()
    assert len(said) == 2


def test_a_session_that_the_settings_name_is_the_servers_too(
    memory: App, run_hook: "RunHook", transcript: "Transcript"
) -> None:
    transcript.say("user", "Which port?")
    run_hook("Stop", {"session": "monday"})
    assert len(memory.logs.said(memory.caller("monday"))) == 1


def test_a_start_loads_neither_model_nor_index_nor_protocol(worked: App, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from mcp_memory.entrypoints.hooks.answering import run\n"
        'payload = b\'{"session_id": "s", "source": "startup"}\'\n'
        f"text = run('SessionStart', payload, {{'data_dir': {str(tmp_path / 'data')!r}, 'namespace': 'test'}})\n"
        "slow = {'chromadb', 'onnxruntime', 'mcp', 'typer', 'rich', 'tokenizers'}\n"
        "assert 'Exports are CSV' in text, text\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_folder_that_was_not_given_its_projects_memory_says_so(
    tmp_path: Path, run_hook: "RunHook", context_of: ContextOf
) -> None:
    """X2.1: also where its own memory is empty, and above what it adds to prompts."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        (folder / ".git").mkdir(parents=True)
        (folder / ".git" / "config").write_text(
            '[remote "origin"]\n\turl = https://example.org/team/shop.git\n', "utf-8"
        )
    mine = {"namespace": None}
    assert run_hook("SessionStart", mine, cwd=str(first), source="startup") == ""
    for folder, whose in ((first, "project's"), (second, "folder's own")):
        app = open_app(load_settings(data_dir=tmp_path / "data"), folder=folder)
        if folder is second:
            text = context_of(run_hook("SessionStart", mine, cwd=str(second), source="startup", session_id="new"))
            assert "`mcp-memory trust`" in text
        app.remember([NewRecord(text="The staging database listens on port 6543.")], app.caller())
        app.close()
        asked = {"prompt": "On which port does the staging database listen?", "session_id": f"in {folder.name}"}
        assert f"From this {whose} memory" in context_of(run_hook("UserPromptSubmit", mine, cwd=str(folder), **asked))


RULES = (
    "Please answer in German from here on. Keep it under five lines.",
    "Use port 7443, not 8080, for the gateway. And commit messages in English, always.",
    "Alle Beträge sind in Cent, überall. Keine neuen Abhängigkeiten.",
    "Appelle-moi Jo. On utilise pnpm ici, pas npm, et les dates sont en ISO 8601.",
    "不要动 legacy 目录。提交前先跑 make check。",
    "The customer's name is spelled Kjærgaard. Stick to Python 3.11 syntax.",
    "Logs go to stderr; the branch is release/9. Nie auf main pushen!",
)


@pytest.mark.parametrize("compactions", [1, 2])
def test_after_a_compaction_every_rule_of_the_user_stands_in_the_block(
    memory: App, run_hook: "RunHook", transcript: "Transcript", context_of: ContextOf, compactions: int
) -> None:
    """P1.3: fifteen rules in seven short messages, in four languages, among dozens of calls."""
    transcript.say("user", "Let's rebuild the exporter.")
    for number, rule in enumerate(RULES):
        for n in range(12):
            command = {"command": f"pytest tests/test_m{n}.py -q"}
            transcript.call(f"c{number}-{n}", "Bash", command, "fixtures and timing 0.01s\n" * 9 + f"{n} passed")
            transcript.say("assistant", f"Module m{n} passes with {n} tests.")
        transcript.say("user", rule)
    text = ""
    for _ in range(compactions):
        run_hook("PreCompact", trigger="auto")
        run_hook("PostCompact", trigger="auto", compact_summary="<summary>The work goes on.</summary>")
        text = context_of(run_hook("SessionStart", source="compact"))
    assert [rule for rule in RULES if rule not in text] == []
    assert "Recent Activity" not in text
    assert text.count("pytest tests") < 4
    factor = memory.factor(memory.caller(client="claude-code")).factor
    assert ceil(memory.counter.count(text) * factor) <= 2_000


def test_after_a_compaction_choices_and_reports_of_sub_agents_stand_in_the_block(
    memory: App, run_hook: "RunHook", transcript: "Transcript", context_of: ContextOf
) -> None:
    """P1.3, D9.3: with their reasons; of this log no more, and nothing twice."""
    transcript.say("user", "Find out why the nightly export is slow.")
    transcript.call("t1", "Task", {"description": "review backend"}, "Root cause: N+1 query at writer.py:214.")
    transcript.say("assistant", "We decided to use Postgres because MySQL lacks row level security.")
    transcript.say("user", "Fine.")
    for n in range(400):
        transcript.call(f"c{n}", "Bash", {"command": f"make part-{n}"}, "done")
    run_hook("PreCompact", trigger="auto")
    run_hook("PostCompact", trigger="auto", compact_summary="<summary>We looked at it.</summary>")
    text = context_of(run_hook("SessionStart", source="compact"))
    assert text.count("review backend: Root cause: N+1 query at writer.py:214.") == 1
    assert text.count("We decided to use Postgres because MySQL lacks row level security.") == 1
    assert "We looked at it." not in text


def test_the_words_of_a_session_never_pass_the_budget_of_its_block(
    worked: App, run_hook: "RunHook", transcript: "Transcript", context_of: ContextOf
) -> None:
    """P1.3: and the path of goals stays, whatever the user said."""
    for n in range(150):
        transcript.say("user", f"Never touch the table sailings_{n}, since the harbour {n} still reads it every hour.")
    run_hook("PreCompact", trigger="auto")
    for most in (400, 2_000):
        text = context_of(run_hook("SessionStart", {"hook_max_tokens": most}, source="compact"))
        factor = worked.factor(worked.caller(client="claude-code")).factor
        assert ceil(worked.counter.count(text) * factor) <= most
        assert ": Stream the rows" in text
        assert "sailings_149" in text

"""A worked day: planned, failed on a branch, done in part, killed; the next day one call says how to go on."""

import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import toktok

from tools import worked_day
from tools.worked_day_story import (
    ANNOUNCE,
    ASKED,
    BUTTON,
    CENSOR,
    CRITERIA,
    DAY,
    DEAD_END,
    DECISION,
    FILE,
    FILE_ARTIFACT,
    FILE_RESULT,
    FORMAT,
    FORMAT_ARTIFACT,
    FORMAT_RESULT,
    FORMULAS,
    IN_MEMORY,
    LOAD,
    NEXT_MORNING,
    PROCEDURE,
    ROOT,
    UNRELATED,
    WRITE,
)

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

Lines = dict[str, list[str]]
independent_counts = cast("Callable[[list[str], str], list[int]]", toktok.batch_count)

FINISHED_SCENES = DAY[1:4]
"""In these, steps were entered and left again."""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the day's memory lies."""
    return tmp_path_factory.mktemp("worked-day") / "data"


@pytest.fixture(scope="module")
def played(memory: Path, start_server: "Callable[[Path], ServerProcess]") -> worked_day.Played:
    """The day and the next, each on a process of its own; the first one was killed."""
    servers: list[ServerProcess] = []

    def start() -> "ServerProcess":
        servers.append(start_server(memory))
        return servers[-1]

    played = worked_day.play(start)
    first, second = (server.process for server in servers)
    assert first.pid != second.pid
    if sys.platform != "win32":
        assert first.returncode == -signal.SIGKILL
    return played


@pytest.fixture
def later(
    memory: Path, played: worked_day.Played, start_server: "Callable[[Path], ServerProcess]"
) -> Iterator["ServerProcess"]:
    """One more server over the same memory."""
    server = start_server(memory)
    yield server
    server.stop()


def sections(block: str) -> Lines:
    """The lines of each section, by its title."""
    found: Lines = {}
    title = ""
    for line in block.splitlines()[1:-1]:
        if line.startswith("## "):
            title = line.removeprefix("## ").split(":")[0]
        else:
            found.setdefault(title, []).append(line)
    return found


def labels(block: str) -> list[tuple[str, str]]:
    """What the lines of the task say, by label and goal."""
    lines = sections(block)["Task"]
    found = [re.fullmatch(r"- (.+?) \[t\w+\]: (.+?)(?: → .*| \(done when: .*)?", line) for line in lines]
    assert all(found), lines
    return [(match[1], match[2]) for match in found if match]


def log_texts() -> list[str]:
    """The messages and the tools' output of the finished steps, as they were stored."""
    calls = [call for scene in FINISHED_SCENES for call in scene.calls]
    return [call.arguments["text"] for call in calls if call.arguments.get("kind") in ("message", "tool_result")]


def recall(server: "ServerProcess", query: str) -> list[dict[str, Any]]:
    return server.call("recall", query=query, detail="full")["structuredContent"]["results"]


def test_with_nothing_but_a_budget_a_new_process_learns_where_it_stands(played: worked_day.Played) -> None:
    """T2.1, T3.1, S2.1: the root goal, when it is reached, and the path to the step that the kill interrupted."""
    told = labels(played.resumed)
    assert told[:3] == [("goal", ROOT), ("within", WRITE), ("now", FORMULAS)]
    assert f"(done when: {CRITERIA})" in sections(played.resumed)["Task"][0]


def test_finished_steps_are_there_with_their_results_and_artifacts(played: worked_day.Played) -> None:
    """T2.1, T4.2."""
    told = labels(played.resumed)
    assert {goal for label, goal in told if label == "done"} == {FORMAT, FILE}
    for result, artifact in ((FORMAT_RESULT, FORMAT_ARTIFACT), (FILE_RESULT, FILE_ARTIFACT)):
        [line] = [line for line in played.resumed.splitlines() if result in line]
        assert line.endswith(f"[artifacts: {artifact}]")


def test_what_failed_is_a_dead_end_with_its_reason_and_no_fact(played: worked_day.Played) -> None:
    """T1.3, T4.3."""
    assert ("dead end (failed)", IN_MEMORY) in labels(played.resumed)
    [line] = [line for line in played.resumed.splitlines() if DEAD_END in line]
    assert line in sections(played.resumed)["Task"]
    assert not any("pandas" in line for line in sections(played.resumed)["Known Information"])


def test_the_next_steps_follow_what_is_done(played: worked_day.Played, later: "ServerProcess") -> None:
    """T1.1, C1.5."""
    assert labels(played.resumed)[-3:] == [("next", LOAD), ("next", BUTTON), ("next", ANNOUNCE)]
    popped = later.call("pop_task", result="Quoted.")["structuredContent"]
    assert [task["goal"] for task in popped["planned"]] == [LOAD, BUTTON, ANNOUNCE]


def test_the_log_of_finished_steps_is_left_out_and_recall_finds_it(
    played: worked_day.Played, later: "ServerProcess"
) -> None:
    """T2.2, T5.1."""
    assert len(log_texts()) == 6
    for text in log_texts():
        assert not any(line in block for line in text.splitlines() for block in (played.resumed, played.asked))
        assert text in [result["text"] for result in recall(later, text)]


def test_the_decision_the_procedure_and_the_censor_that_matter_now_are_there(played: worked_day.Played) -> None:
    """T2.2, C6.1: also what was decided and learnt in steps that are finished."""
    told = sections(played.resumed)
    assert any(DECISION in line for line in told["Relevant Past Decisions"])
    assert any(PROCEDURE in line for line in told["Procedure"])
    assert any(re.search(rf"\*\*BLOCK:\*\* .*{re.escape(CENSOR)}", line) for line in told["Active Constraints"])
    assert any("Ines" in line for line in told["Identity"])
    assert UNRELATED not in played.resumed


def test_asked_what_comes_next_it_says_the_same_of_the_task(played: worked_day.Played) -> None:
    """T2.1."""
    for section in ("Identity", "Active Constraints", "Task"):
        assert sections(played.asked)[section] == sections(played.resumed)[section]
    assert "next is escape() in writer.py" in played.asked


def test_both_blocks_keep_their_budget_by_an_independent_count(played: worked_day.Played) -> None:
    """A3.1."""
    for block, request in ((played.resumed, NEXT_MORNING), (played.asked, ASKED)):
        assert independent_counts([block], "o200k_base")[0] <= request["max_tokens"]


def test_the_pages_print_what_comes_out(played: worked_day.Played) -> None:
    """T2.1: `python -m tools.worked_day` writes them anew."""
    assert worked_day.PAGE.read_text("utf-8") == worked_day.page(played)
    readme = worked_day.README.read_text("utf-8")
    assert readme == worked_day.readme(readme, played)


def test_the_excerpt_on_the_front_page_is_lines_of_the_real_block(played: worked_day.Played) -> None:
    """T2.1, U3.2: whole lines, in the order of the block, as it stands on the page of the day."""
    readme = worked_day.README.read_text("utf-8")
    shown = (
        readme.partition(f"{worked_day.BEGIN}\n~~~~text\n")[2].partition(f"\n~~~~\n{worked_day.END}")[0].splitlines()
    )
    block = iter(worked_day.printed(played.resumed, played.day).splitlines())
    assert 10 <= len(shown) <= 14
    assert all(line in block for line in shown), "each line is looked for behind the one before"
    said = " ".join(" ".join(shown).split())
    assert all(text in said for text in (CENSOR, FORMULAS, DEAD_END, FILE_RESULT, LOAD))

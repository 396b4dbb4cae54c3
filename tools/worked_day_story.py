"""The worked day, as data: what an agent does on a feature, call by call, until it is killed in the middle of a step.

Knows neither how it is played nor how it is shown (worked_day).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DEVELOPER, AGENT = "Ines", "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool. `at` is when it happened that day, in UTC; `enters`, the goal of a planned task to enter."""

    tool: str
    arguments: Mapping[str, Any]
    at: str = ""
    enters: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A part of the day: what happens, in words, and the calls in which it does."""

    title: str
    words: str
    calls: Sequence[Call] = field(default_factory=tuple[Call, ...])


def _push(**arguments: Any) -> Call:
    return Call(tool="push_task", arguments=arguments)


def _enter(goal: str) -> Call:
    return Call(tool="push_task", arguments={}, enters=goal)


def _pop(result: str, **arguments: Any) -> Call:
    return Call(tool="pop_task", arguments={"result": result, **arguments})


def _remember(at: str, kind: str, text: str, **arguments: Any) -> Call:
    return Call(tool="remember", arguments={"kind": kind, "text": text, **arguments}, at=at)


def _said(at: str, speaker: str, text: str) -> Call:
    role = "user" if speaker == DEVELOPER else "assistant"
    return _remember(at, "message", text, speaker=speaker, role=role)


def _printed(at: str, tool: str, text: str) -> Call:
    return _remember(at, "tool_result", text, tool=tool)


ROOT = "Let customers export their invoices as CSV"
CRITERIA = "Excel opens the file without asking anything, also that of our largest customer"
FORMAT, WRITE = "Agree on columns and format", "Write the export"
BUTTON, ANNOUNCE = "Put a button on the invoices page", "Announce it in the release notes"
FILE, FORMULAS, LOAD = (
    "Stream the rows to a file",
    "Keep exported cells from running as formulas in a spreadsheet",
    "Try it with 50,000 invoices",
)
IN_MEMORY = "Build the whole file in memory with pandas"

FORMAT_RESULT = "Nine columns, agreed with support; amounts as decimals with a comma, dates as YYYY-MM-DD."
FORMAT_ARTIFACT = "docs/export-format.md"
DEAD_END = "Killed at 31,000 of 50,000 rows: 2.1 GB, and the job's container has 512 MB. Smaller dtypes saved 8 %."
FILE_RESULT = "ExportWriter streams from a server-side cursor: 50,000 rows in 19 s, 64 MB at most."
FILE_ARTIFACT = "shop/exports/writer.py"

MEMORY_LOG = "rows 31000/50000 rss 2114 MB\nKilled (exit code 137)"
CURSOR_LOG = "tests/exports/test_writer.py ....... 7 passed in 21.40s\npeak memory 64.2 MB"
CURSOR_MESSAGE = (
    "The cursor died after 30 seconds; the pool closes what it thinks is idle. I give it its own connection."
)
DECISION = "Exported files are CSV in UTF-8 with a byte order mark, separated by semicolons."
PROCEDURE = (
    "`make open-export FILE=...` opens an exported file in a spreadsheet without a screen and lists the cells it ran."
)
CENSOR = "Never run an export against the primary database: in March one locked the invoices table for 11 minutes."
LEARNT = "A server-side cursor needs a connection of its own: the pool closes connections that are idle for 30 seconds."
UNRELATED = "The parcel service collects at 15:30 on weekdays."

DAY: Sequence[Scene] = (
    Scene(
        title="09:00, the feature",
        words="The agent is asked for a feature. It pushes the goal with its plan, and notes who it works with, what "
        "must not be done, and what it learns of the ground.",
        calls=(
            _push(goal=ROOT, success_criteria=CRITERIA, plan=[FORMAT, WRITE, BUTTON, ANNOUNCE]),
            _said("09:02", DEVELOPER, "Customers keep asking support for their invoices in Excel. Let's build it."),
            _remember(
                "09:04",
                "identity",
                "Ines maintains the shop; she wants a failing test before the code, and short answers.",
                importance=8,
            ),
            _remember(
                "09:06",
                "censor",
                CENSOR,
                importance=9,
                details={
                    "trigger": "export, report, bulk read",
                    "reason": "in March one locked the invoices table for 11 minutes",
                    "action": "block",
                },
            ),
            _remember("09:07", "fact", "Exports read from the replica, whose address is in REPLICA_URL.", importance=5),
            _remember("09:09", "fact", "Our largest customer has 48,112 invoices; most have fewer than 400."),
            _remember("09:10", "fact", UNRELATED),
        ),
    ),
    Scene(
        title="09:20, the first step",
        words="It enters the first planned step, talks it through, keeps the decision with its reasons, and leaves "
        "with a result and an artifact.",
        calls=(
            _enter(FORMAT),
            _said("09:24", AGENT, "CSV or XLSX? XLSX needs a library and cannot be streamed."),
            _said("09:31", DEVELOPER, "CSV then. But Excel must open it by double click, umlauts included."),
            _remember(
                "09:33",
                "decision",
                DECISION,
                importance=7,
                confidence=0.9,
                tags=["export"],
                details={
                    "reasons": ["Excel opens it by double click", "it can be streamed"],
                    "alternatives": ["XLSX", "commas"],
                },
            ),
            _pop(FORMAT_RESULT, artifacts=[FORMAT_ARTIFACT]),
        ),
    ),
    Scene(
        title="10:00, the third level, on a branch",
        words="The second step is larger: it gets a plan of its own. The simplest idea is tried first, on a branch, so "
        "that what is stored there stays out of the trunk. It fails, and says why.",
        calls=(
            _enter(WRITE),
            _push(plan=[FILE, FORMULAS, LOAD]),
            _push(goal=IN_MEMORY, branch=True),
            _printed("10:41", "bash", MEMORY_LOG),
            _said("10:44", AGENT, "Out of memory. I try smaller dtypes before I give it up."),
            _pop(DEAD_END, status="failed"),
        ),
    ),
    Scene(
        title="11:00, the step that works",
        words="Back above the branch, it enters the planned step. What it learns about cursors is a fact, a how-to "
        "that worked is a procedure: both stay, when the messages and the tool's output have served.",
        calls=(
            _enter(FILE),
            _said("11:12", AGENT, CURSOR_MESSAGE),
            _remember("11:20", "fact", LEARNT, importance=5),
            _remember(
                "11:35",
                "procedure",
                PROCEDURE,
                importance=6,
                details={"name": "Open an export as a customer would", "description": "Without a screen, also in CI"},
            ),
            _printed("11:52", "pytest", CURSOR_LOG),
            _pop(FILE_RESULT, artifacts=[FILE_ARTIFACT]),
        ),
    ),
    Scene(
        title="13:30, in the middle of the third level",
        words="The next step is begun: a failing test is written. Then the machine goes down: `kill -9`.",
        calls=(
            _enter(FORMULAS),
            _remember(
                "13:36",
                "decision",
                "Cells that begin with = + - or @ get an apostrophe in front, except amounts.",
                importance=6,
                confidence=0.7,
                tags=["export"],
                details={"reasons": ["a customer's name could be a formula that runs on another machine"]},
            ),
            _printed("13:48", "pytest", "FAILED tests/exports/test_formulas.py::test_a_formula - assert '=HYPERLINK('"),
            _said("13:50", AGENT, "The failing test is there; next is escape() in writer.py, amounts excepted."),
        ),
    ),
)

NEXT_MORNING: Mapping[str, Any] = {"max_tokens": 1000}
ASKED: Mapping[str, Any] = {"query": "what next?", "max_tokens": 1000}

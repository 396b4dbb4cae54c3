"""Plays the worked day (worked_day_story) on real servers, and writes docs/worked-day.md and the excerpt in README.md.

    python -m tools.worked_day

tests/e2e/test_worked_day.py plays the same day and compares both pages with what comes out.
"""

import json
import re
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from tools.worked_day_story import ASKED, DAY, NEXT_MORNING, Call, Scene

ROOT = Path(__file__).resolve().parent.parent
PAGE, README = ROOT / "docs" / "worked-day.md", ROOT / "README.md"
BEGIN, END = "<!-- the worked day: begin -->", "<!-- the worked day: end -->"
PRINTED_DAY, PRINTED_TIME, PRINTED_ID = "2026-03-03", "10:42", "c0123456789"
"""What stands on the pages for the day on which it was played, and for the block's id, which depends on it."""
EXCERPT = (
    "## Active Constraints", "- [r00000m ", "## Task", "- now ", "- dead end ", "- done [t00001w]", "- next [t00001y]",
    "## Last Exchange", "- [r00003q ",
)  # fmt: skip
"""The beginnings of the lines of the block that README.md shows."""
COLUMNS = 118
HOURS_AGO = 30
"""The day's last message, before 14:00, is then more than 16 hours old, whatever time it is."""
INTRODUCTION = """# A worked day

An agent plans a feature, pushes three levels of tasks, fails on a branch, leaves steps with their results, is killed in
the middle of one, and comes back the next day. Everything below comes from real server processes: `python -m
tools.worked_day` plays the day and writes this page, `tests/e2e/test_worked_day.py` plays it with every run of the
tests. What is remembered is given a time of the day before (`occurred_at`, left out here); that day is printed as
{day}. Long lines are wrapped.
"""
KILLED = """## The next day

The process is gone, and with it all that the agent had in mind. A new process starts on the same memory, knows
nothing, and asks with nothing but a budget:
"""
READING = """\
Nothing had to be saved before the kill, and nothing but the memory tells the new process its current task. The block
begins with what always holds: who it works with, and what it must not do. Then the task: the goal and when it is
reached, where the agent stands now, the dead end with its reason, what finished steps came to, what is next. The
messages and the tools' output of the finished steps are not in it: their results represent them. `recall` still finds
them.

Asked for what comes next, it answers with the same task and the same constraints:
"""


class Server(Protocol):
    """A server process that has shaken hands; `stop` kills it, as a power cut would."""

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call as it was sent, but for the time, and the ids in its answer, by what they are."""

    tool: str
    arguments: Mapping[str, Any]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The calls of each scene, and the two blocks of the next day."""

    calls: Mapping[str, list[Made]]
    resumed: str
    asked: str
    day: str


def play(start: Callable[[], Server]) -> Played:
    """Play the day on one process, kill it, and ask another over the same memory, which is left to the caller."""
    day = (datetime.now(UTC) - timedelta(hours=HOURS_AGO)).date().isoformat()
    ids: dict[str, str] = {}
    server = start()
    try:
        calls = {scene.title: [_make(call, server, ids, day) for call in scene.calls] for scene in DAY}
    finally:
        server.stop()
    server = start()
    try:
        resumed, asked = (_text(_call(server, "assemble_context", each)) for each in (NEXT_MORNING, ASKED))
    finally:
        server.stop()
    return Played(calls=calls, resumed=resumed, asked=asked, day=day)


def page(played: Played) -> str:
    """docs/worked-day.md."""
    parts = [INTRODUCTION.format(day=PRINTED_DAY), *(_scene(scene, played.calls[scene.title]) for scene in DAY), KILLED]
    parts += [_fenced(_shown("assemble_context", NEXT_MORNING)), _fenced(printed(played.resumed, played.day)), READING]
    parts += [_fenced(_shown("assemble_context", ASKED)), _fenced(printed(played.asked, played.day))]
    return "\n".join(parts)


def readme(text: str, played: Played) -> str:
    """README.md with some lines of the block of the next day between its two marks."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    lines = "\n".join(line for line in played.resumed.splitlines() if line.startswith(EXCERPT))
    return f"{before}{BEGIN}\n{_fenced(printed(lines, played.day))}{END}{after}"


def printed(block: str, day: str) -> str:
    """The block as the pages show it: always of the same day, long lines wrapped."""
    same = re.sub(r'(?<=<memory-context id=")c\w+', PRINTED_ID, block).replace(day, PRINTED_DAY)
    same = re.sub(rf"(- \[\w+ (?:\w+ )?){day[5:]}", rf"\g<1>{PRINTED_DAY[5:]}", same)
    same = re.sub(r"(- \[\w+ (?:\w+ )?)\d\d:\d\d", rf"\g<1>{PRINTED_TIME}", same)
    return "\n".join(_wrapped(line) for line in same.splitlines())


def _make(call: Call, server: Server, ids: dict[str, str], day: str) -> Made:
    arguments = {**call.arguments, **({"task_id": ids[call.enters]} if call.enters else {})}
    when = {"occurred_at": f"{day}T{call.at}:00Z"} if call.at else {}
    content: dict[str, Any] = _call(server, call.tool, {**arguments, **when})["structuredContent"]
    ids |= {task["goal"]: task["id"] for task in content.get("planned", ())}
    return Made(tool=call.tool, arguments=arguments, answer=_answer(content))


def _call(server: Server, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    result = server.request("tools/call", {"name": tool, "arguments": arguments})
    assert not result.get("isError"), f"{tool} was refused: {_text(result)}"
    return result


def _answer(content: Mapping[str, Any]) -> str:
    """What of an answer the page shows: the record's id, or where the agent stands then and what is planned."""
    if "records" in content:
        return content["records"][0]["id"]
    path: str = " > ".join(task["id"] for task in content["path"])
    planned: str = ", ".join(task["id"] for task in content["planned"])
    return f"now in {path}" + (f"; planned: {planned}" if planned else "")


def _scene(scene: Scene, calls: list[Made]) -> str:
    shown = "\n".join(f"{_shown(call.tool, call.arguments)}\n  → {call.answer}" for call in calls)
    return f"## {scene.title}\n\n{textwrap.fill(scene.words, COLUMNS)}\n\n{_fenced(shown)}"


def _shown(tool: str, arguments: Mapping[str, Any]) -> str:
    given = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return _wrapped(f"{tool}({', '.join(given)})")


def _wrapped(line: str) -> str:
    return "\n".join(
        textwrap.wrap(line, COLUMNS, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    )


def _fenced(text: str) -> str:
    return f"~~~~text\n{text}\n~~~~\n"


def _text(result: Mapping[str, Any]) -> str:
    return "".join(str(content["text"]) for content in result["content"])


def main() -> None:
    """Play the day and write both pages."""
    from tests.e2e.conftest import ServerProcess

    with tempfile.TemporaryDirectory() as folder:
        played = play(lambda: ServerProcess(Path(folder) / "data"))
    PAGE.write_text(page(played), "utf-8")
    README.write_text(readme(README.read_text("utf-8"), played), "utf-8")


if __name__ == "__main__":
    main()

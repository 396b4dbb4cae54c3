"""docs/compaction.md says what compaction does."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from mcp import Client
from pydantic import JsonValue

from mcp_memory import extensions
from mcp_memory.app import App
from mcp_memory.compaction import condense_dialogue, goal_batch
from mcp_memory.domain.model import session_log as compaction
from mcp_memory.domain.model.session_log import LABELS, PRESETS, CompactionOptions
from mcp_memory.domain.sessions import pressure
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.entrypoints.server.wire import CompactArguments
from mcp_memory.services.sessions.idle_compaction import LOOK_BACK_DAYS
from mcp_memory.settings import Settings
from tests.e2e.conversations import edits, flat, long_file

PAGE = (Path(__file__).parents[2] / "docs" / "compaction.md").read_text("utf-8")
EXAMPLES: list[dict[str, JsonValue]] = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
CALLS = [each for each in EXAMPLES if "call" in each]
ANSWERS = [each for each in EXAMPLES if "call" not in each]
DEFAULT = PRESETS["default"]
PASSES = extensions.passes(len, lambda: None, lambda span: "")


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table behind a heading, without its title."""
    section = PAGE.partition(f"{heading}\n")[2]
    table = re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in row.strip("|").split(" |")] for row in table]


def keys(value: JsonValue) -> Iterator[str]:
    """The names of all fields, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def test_the_presets_are_those_of_the_code() -> None:
    """E3.1."""
    told = {name: tuple(cells) for name, *cells in rows("### Presets")}
    assert told == {
        name: (f"{one.window:,}", f"{one.old_turns}", percent(one.threshold), ", ".join(one.passes) or "none")
        for name, one in PRESETS.items()
    }


def test_every_pass_has_a_row_with_the_mark_of_what_it_makes() -> None:
    """E1.1, E2.3, D5.1: in the order in which they run."""
    told = {name: reads_like for name, *_, reads_like in rows("## Passes")}
    assert tuple(told) == (*(one.name for one in PASSES.usual), PASSES.last.name)
    marks = [
        LABELS["mask"],
        LABELS["tools"],
        LABELS["dialogue"],
        LABELS["summary"],
        LABELS["batch"],
        LABELS["external"],
    ]
    assert all(reads_like.startswith(f"[{mark}") for reads_like, mark in zip(told.values(), marks, strict=True))


def test_the_tool_lists_the_usual_passes() -> None:
    """O3.1: the schema loads no pass, so this holds the two together."""
    described = CompactArguments.model_fields["passes"].description
    assert described == ", ".join(one.name for one in PASSES.usual)


def test_the_levels_are_those_of_the_default_preset() -> None:
    """D1.1."""
    told = {name: begins for name, begins, _ in rows("## Levels")}
    assert tuple(told) == get_args(pressure.Level)
    shares = (0.0, DEFAULT.notice, DEFAULT.idle, DEFAULT.threshold, DEFAULT.ceiling)
    assert [begins.removeprefix("above ") for begins in told.values()] == [percent(share) for share in shares]


@pytest.mark.parametrize(
    "said",
    [
        f"the last {compaction.PRESERVED_ENTRIES} entries or the last {percent(compaction.PRESERVED_SHARE)} of the",
        f"user messages of more than {compaction.INSTRUCTION_TOKENS} tokens",
        f"to the target, {percent(DEFAULT.target)}",
        f"a tool output of {DEFAULT.least_output} tokens or more",
        f"outputs of {DEFAULT.least_output // 2} tokens go too",
        f"{DEFAULT.old_turns} or more turns back",
        f"{percent(pressure.MUCH_IS_SUMMARY)} or more is blocks and summaries",
        f"{percent(pressure.SUMMARY_SHARE)} of the window, {pressure.LEAST_SUMMARY:,} tokens at least and"
        f" {pressure.MOST_SUMMARY:,} at most",
        f"{condense_dialogue.FEWEST} or more neighbouring messages without tools",
        f"at most {condense_dialogue.MOST} messages",
        f"longer than {condense_dialogue.LONG_MESSAGE} tokens",
        f"comes down to about {percent(condense_dialogue.LEFT)}",
        f"take {percent(CompactionOptions(window=1).ledger_share)} more",
    ],
)
def test_the_numbers_are_those_of_the_code(said: str) -> None:
    """D1.1, D2.1, E8.2."""
    assert said in PAGE.replace("\n", " ")


def test_numbers_written_out_are_those_of_the_code() -> None:
    """D1.1, E2.3, E8.2."""
    assert (goal_batch.FEWEST, goal_batch.MOST, pressure.DOMINATES, pressure.FOUND_WANTING) == (3, 6, 0.5, 0.5)
    assert (LOOK_BACK_DAYS, pressure.LONGER) == (2, 1.5)
    for said in ("three to six finished turns", "half of the log or more", "for two days", "half as long again"):
        assert said in PAGE


def test_the_settings_are_those_of_the_code() -> None:
    """D1.2: each with its default."""
    told = {name: default for name, _, default in rows("## Automatic compaction")}
    fields = {name: field for name, field in Settings.model_fields.items() if name.startswith("compaction")}
    defaults = {name: str(field.default or "the preset's").removesuffix(".0") for name, field in fields.items()}
    assert told == defaults | {"compaction_extensions": "none", "noted_days": "14", "file_max_mb": "10"}


def test_the_page_speaks_of_every_argument() -> None:
    """D7.1."""
    assert {name for name in CompactArguments.model_fields if not re.search(rf"\b{name}\b", PAGE)} == set()


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_the_calls_of_the_page_can_be_made(number: int) -> None:
    """D7.1, D3.2."""
    CompactArguments.model_validate({name: value for name, value in CALLS[number].items() if name != "call"})


async def test_the_answers_of_the_page_have_the_fields_of_real_ones(open_memory: Callable[..., App]) -> None:
    """D1.3, D3.1, E1.1: what a conversation that is told, a span to be summarised and an undoing are answered."""
    told = [*long_file(400), *flat(edits(20))]
    calls = ({"messages": told}, {"summarizer": "caller", "force": True, "window": 4_000}, {"undo": True})
    known: set[str] = set()
    async with Client(build_server(open_memory(compaction_window=8_000))) as client:
        for call in calls:
            answer = await client.call_tool("compact", {"session_id": "exports", **call})
            assert not answer.is_error
            known.update(keys(answer.structured_content))
    assert {name for answer in ANSWERS for name in keys(answer)} <= known

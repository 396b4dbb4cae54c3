"""Long sessions as clients live them: fed and compacted over a server's standard streams, then asked about."""

import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.conversations import (
    ATTEMPTS,
    ERRORS,
    IN_THE_MIDST,
    PLANTED,
    attempts,
    crowded,
    edits,
    flat,
    large,
    long_file,
    said,
    text_of,
    used,
)
from tests.e2e.session_client import Answer, Client, answered

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

CEILING = 0.9
BY_HAND = {"MCP_MEMORY_COMPACTION_WINDOW": "10000000"}
"""No log is near the end of its window unless the call gives a smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A long session, what each of its compactions was answered, and what its log says in the end."""

    client: Client
    answers: Sequence[Answer]
    text: str


def passes_that_ran(answer: Answer) -> list[str]:
    return [each["name"] for each in answer["passes"] if each["ran"]]


def send(server: "ServerProcess", tool: str, arguments: dict[str, Any], progress: str = "") -> int:
    meta = {"_meta": {"progressToken": progress}} if progress else {}
    return server.send_request("tools/call", {"name": tool, "arguments": arguments, **meta})


def heard(server: "ServerProcess", until: Callable[[Answer], bool]) -> Iterator[Answer]:
    """What the server says, up to and with the first for which `until` holds."""
    while line := server.lines.next():
        message = json.loads(line)
        yield message
        if until(message):
            return
    raise AssertionError(server.log)


def answers_to(server: "ServerProcess", *numbers: int) -> dict[int, Answer]:
    """The answers to these requests, in the order in which they came."""
    found: dict[int, Answer] = {}

    def is_last(message: Answer) -> bool:
        if message.get("id") in numbers:
            found[message["id"]] = answered(message["result"])
        return len(found) == len(numbers)

    list(heard(server, is_last))
    return found


@pytest.fixture(scope="module")
def memory(
    tmp_path_factory: pytest.TempPathFactory, start_server: "Callable[..., ServerProcess]"
) -> "Iterator[ServerProcess]":
    """One server for all of these sessions."""
    started = start_server(tmp_path_factory.mktemp("long-sessions") / "data", BY_HAND)
    yield started
    started.stop()
    assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def edited(memory: "ServerProcess") -> Edited:
    """A hundred turns of edits, told and compacted fifteen at a time in a window that holds a quarter of them."""
    client, turns = Client(memory, "edits"), edits(105)
    answers = [client.compact(flat(turns[begin : begin + 15])) for begin in range(0, len(turns), 15)]
    return Edited(client=client, answers=answers, text=client.text())


def test_a_hundred_turns_of_edits_stay_below_the_ceiling(edited: Edited) -> None:
    """E7, E6.1, D1.1, E2.2, D4.2."""
    assert all(answer["log"]["share"] <= CEILING for answer in edited.answers)
    ran = [passes_that_ran(answer) for answer in edited.answers]
    assert {"mask", "tool_calls", "threshold"} <= set(itertools.chain.from_iterable(ran))
    assert all(names[0] == "mask" for names in ran if names)


@pytest.mark.parametrize("question", PLANTED)
def test_a_hundred_turns_later_the_log_still_says_what_matters(edited: Edited, question: str) -> None:
    """E7, E4.1, D6.1: who, what file, which value, which decision, and what comes next."""
    assert PLANTED[question] in edited.text


def test_a_file_of_five_thousand_lines_is_put_away_alone_and_read_again(memory: "ServerProcess") -> None:
    """E7, D5.1, D5.2, T5.1: the mask is enough, so nothing is summarised; what stands in the file is found."""
    client = Client(memory, "long file", 30_000)
    read = long_file(5_200)
    answer = client.compact([*read, *flat(edits(8))])
    assert passes_that_ran(answer) == ["mask"]
    [mask] = answer["replacements"]
    original = mask["first"]
    head, first_line, *_ = mask["text"].split("\n")
    for part in (original, "tool=read_file", "billing/generated.py", "lines=5,200"):
        assert part in head
    text = text_of(read[2])
    assert first_line.endswith(text.split("\n")[0])
    found = client.recall(query="How long is the grace period of a permit?", session_id=client.session_id)
    assert original in [each["id"] for each in found["results"]]
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = answered(memory.call("recall", ids=[original], detail="full", offset=offset, max_tokens=10_000))
        pages.append(page["results"][0]["text"])
        offset = page.get("next_offset")
    assert len(pages) > 2
    assert "".join(pages) == text
    assert IN_THE_MIDST in text


def test_attempts_at_the_same_thing_are_told_once_with_every_error(memory: "ServerProcess") -> None:
    """E7, E4.1, E2.1."""
    client = Client(memory, "attempts")
    answer = client.compact([*attempts(), *flat(edits(15))], passes=["tool_calls"])
    [block] = [each for each in answer["replacements"] if each["compacted_count"] == 2 * ATTEMPTS]
    assert block["text"].startswith("[SUMMARIZED] ")
    for part in ("pytest tests/test_totals.py", "22 times", "ailed 21 times", *ERRORS, "33 passed", block["id"]):
        assert part in block["text"]
    assert client.text().count("pytest tests/test_totals.py") == 1


def test_a_second_compaction_merges_into_the_first_ones_summary_and_warns(memory: "ServerProcess") -> None:
    """E7, D6.2, D1.2, D3.1, E8.1."""
    client = Client(memory, "twice", 4_000)
    turns = edits(32)
    first = client.compact(flat(turns[:16]), force=True)
    [anchor] = client.summaries()
    second = client.compact(flat(turns[16:]), force=True)
    [merged] = client.summaries()
    assert not any("has been compacted" in each for each in first.get("warnings", []))
    assert any("2 times" in each for each in second["warnings"])
    assert merged["level"] > anchor["level"]
    assert merged["first"] == anchor["first"]
    assert merged["compacted_count"] > anchor["compacted_count"]
    assert merged["text"].startswith(f"[CONTEXT SUMMARY {merged['id']}]")
    assert merged["role"] == "user"
    assert merged["original_token_count"] > merged["summary_token_count"]
    told = client.text()
    assert {question for question, text in PLANTED.items() if text not in told} == set()
    assert len(client.covered(anchor["id"])) == anchor["compacted_count"]


@pytest.mark.parametrize(
    ("window", "first", "last"), [(5_000, "mask", "mask"), (3_000, "mask", "threshold"), (1_500, "mask", "ceiling")]
)
def test_near_the_end_of_the_window_outputs_give_way_first_and_the_last_message_never(
    memory: "ServerProcess", window: int, first: str, last: str
) -> None:
    """E7, D1.1, T5.1: all of it is what is preserved otherwise; at 95 %, 160 % and 320 % of the window."""
    client = Client(memory, f"crowded {window}", window)
    answer = client.compact(crowded())
    assert answer["log"]["share"] <= CEILING
    ran = passes_that_ran(answer)
    assert (ran[0], ran[-1]) == (first, last)
    assert all(each["first"] in each["text"] for each in answer["replacements"] if each["compacted_count"] == 1)
    assert client.log()[-1] == client.told[-1]


def test_what_was_compacted_is_found_by_words_and_by_every_id(memory: "ServerProcess") -> None:
    """E7, D3.2, T5.1."""
    client = Client(memory, "found again", 4_000)
    client.compact(flat(edits(16)), force=True)
    [summary] = client.summaries()
    covers = client.covered(summary["id"])
    in_small_pages = client.pages(ids=[summary["id"]], detail="full", limit=7)
    assert [each["id"] for each in in_small_pages] == covers
    texts = [text_of(message) for message in client.told]
    assert [each["text"] for each in in_small_pages] == texts[: len(covers)]
    found = client.recall(query="Who reviews whatever touches the totals?", session_id=client.session_id)["results"]
    [original] = [each for each in found if each["id"] in covers and PLANTED["who"] in each["text"]]
    [opened] = client.recall(ids=[original["id"]], detail="full")["results"]
    assert opened["text"] in texts


def test_undo_gives_the_log_back_to_the_byte(memory: "ServerProcess") -> None:
    """E7, D3.2: compaction by compaction, with what was said since."""
    client = Client(memory, "undone", 4_000)
    turns = edits(16)
    for begin in (0, 8):
        client.compact(flat(turns[begin : begin + 8]), force=True)
    assert client.log() != client.told
    assert [client.compact(undo=True)["undone"] for _ in range(2)] == [2, 1]
    assert client.log() == client.told
    assert "undo" in client.refused(undo=True)


def test_the_compacted_conversation_is_known_when_it_is_told_again(memory: "ServerProcess") -> None:
    """E2.4, D3.1: with the replacements in their places, and something new at its end."""
    client = Client(memory, "told again", 4_000)
    client.compact(flat(edits(16)), force=True)
    log = client.log()
    assert len(log) < len(client.told)
    new = [said("user", "Now the invoices of June."), *used("june", "bash", {"command": "make june"}, "june is made")]
    fed = client.compact([*log, *new])["fed"]
    assert (fed["stored"], fed["known"]) == (len(new), len(log))
    client.told = client.told[: -len(log) - len(new)] + new
    assert client.log()[-len(new) :] == new


def test_other_calls_are_answered_while_a_large_log_is_compacted(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """E7: both were sent after it, and are answered before it."""
    server = start_server(tmp_path / "data", BY_HAND)
    server.call("remember", text="With this, all that is slow has been loaded.")
    client = Client(server, "large", 20_000)
    client.told = large(20, seed=7)
    compaction = send(server, "compact", client.arguments(client.told))
    others = [
        send(server, "remember", {"text": "The office is closed on Friday."}),
        send(server, "recall", {"query": "what has been loaded"}),
    ]
    answers = answers_to(server, compaction, *others)
    server.stop()
    assert list(answers)[-1] == compaction
    assert answers[others[1]]["results"]
    assert answers[compaction]["fed"]["stored"] == len(client.told)
    assert answers[compaction]["log"]["share"] <= CEILING


def test_two_sessions_are_compacted_at_once(memory: "ServerProcess") -> None:
    """E2.4: each has what was said in it, and nothing of the other's."""
    clients = [Client(memory, f"at once {seed}", 6_000) for seed in (8, 9)]
    numbers: list[int] = []
    for seed, client in enumerate(clients, start=8):
        client.told = large(6, seed)
        numbers.append(send(memory, "compact", client.arguments(client.told)))
    answers = answers_to(memory, *numbers)
    for client, number in zip(clients, numbers, strict=True):
        assert answers[number]["session_id"] == client.session_id
        assert len(client.log()) == answers[number]["log"]["entries"]


def test_the_calling_agent_summarises_in_two_steps(memory: "ServerProcess") -> None:
    """D7.1, D3.1: what is missing or invented is named; the user's words are kept whatever it writes."""
    client = Client(memory, "caller", 4_000)
    rule = said("user", "Never touch the billing cluster.")
    asked = client.compact([rule, *flat(edits(16))], summarizer="caller", force=True)["summarize"]
    assert "## Decisions" in asked["prompt"]
    assert text_of(client.told[0]) in asked["text"]
    refused = client.refused(summary="## Goal\n- totals\n## Key facts\n- see src/invented.py", span=asked["span"])
    assert '"Decisions" is missing' in refused
    assert "src/invented.py" in refused
    good = (
        "## Goal\n- The totals are right\n## Key facts\n- retry_limit = 7\n## Current state\n- all edited\n"
        "## Next steps\n- none\n## Decisions\n- amounts are kept in cents\n## Dead ends\n- none"
    )
    assert "leaves out" in client.refused(summary=good, span=asked["span"])
    answer = client.compact(summary=good, span=asked["span"])
    [summary] = client.summaries()
    assert summary["id"] in {each["id"] for each in answer["replacements"]}
    for part in ("The totals are right", f"> {text_of(client.told[0])}", PLANTED["who"]):
        assert part in summary["text"]
    client.log()
    assert "span" in client.refused(summary=good, span=asked["span"])


def test_progress_is_told_where_it_is_asked_for(memory: "ServerProcess") -> None:
    """E5.1: start and end of every pass, with the tokens, the time, and how many passes of all are done."""
    client = Client(memory, "progress", 4_000)
    client.told = flat(edits(16))
    number = send(memory, "compact", client.arguments(client.told, force=True), progress="asked")
    *told, answer = heard(memory, lambda message: message.get("id") == number)
    passes = answer["result"]["structuredContent"]["passes"]
    steps = [each["params"] for each in told if each.get("method") == "notifications/progress"]
    assert [each["progressToken"] for each in steps] == ["asked"] * 2 * len(passes)
    assert [each["progress"] for each in steps] == sorted(each["progress"] for each in steps)
    assert steps[-1]["progress"] == steps[-1]["total"] == len(passes)
    for each, start, end in zip(passes, steps[::2], steps[1::2], strict=True):
        assert start["message"].startswith(f"{each['name']}: start, ")
        ended = f"{each['name']}: complete, " if each["ran"] else f"{each['name']}: not needed, {each['reason']}"
        assert end["message"].startswith(ended)
    quiet = send(memory, "compact", client.arguments())
    assert [each["id"] for each in heard(memory, lambda message: message.get("id") == quiet)] == [quiet]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
def test_a_compaction_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """E7, E2.4, D3.2: killed before its first pass was committed, and again after; nothing is lost or covered twice."""
    told = large(4, seed=5)
    for reached in ("mask: start", "mask: complete"):
        server = start_server(tmp_path / "data", BY_HAND)
        client = Client(server, "killed", 4_000)
        send(server, "compact", client.arguments(told), progress="until then")
        list(heard(server, lambda message, reached=reached: reached in message.get("params", {}).get("message", "")))
        server.owner.kill()
        server.stop()
    server = start_server(tmp_path / "data", BY_HAND)
    client = Client(server, "killed", 4_000)
    answer = client.compact(told)
    log = client.log()
    server.stop()
    assert answer["fed"] == {"stored": 0, "known": len(told), "redacted": 0}
    assert answer["log"]["share"] <= CEILING
    assert len(log) == answer["log"]["entries"]

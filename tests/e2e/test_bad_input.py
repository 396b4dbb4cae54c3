"""S3.1: what a caller gets wrong is answered, shortly and with the next move, and the next call is served."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, start_server: "Callable[[Path], ServerProcess]"
) -> Iterator["ServerProcess"]:
    started = start_server(tmp_path_factory.mktemp("shared") / "data")
    yield started
    started.stop()


@pytest.fixture
def server(shared: "ServerProcess") -> Iterator["ServerProcess"]:
    """The server that all tests here share; each leaves it able to answer."""
    yield shared
    assert shared.call("recall", query="anything").get("isError", False) is False


def refusal(result: dict[str, Any], max_chars: int = 300) -> str:
    assert result["isError"] is True
    [content] = result["content"]
    text: str = content["text"]
    assert len(text) <= max_chars
    return text


def test_an_empty_text(server: "ServerProcess") -> None:
    assert refusal(server.call("remember", text="")).startswith("Give either `text`")
    assert refusal(server.call("remember", text=" \n ")).startswith("text is empty; say what")
    assert refusal(server.call("remember", details={"command": "ls"})).startswith("Give either `text`")
    assert refusal(server.call("remember", items=[{"kind": "fact"}])).startswith("items[0]: text is empty; say what")


def test_an_event_without_a_text(server: "ServerProcess") -> None:
    """C2.0: by itself, and among items."""
    event = {"kind": "event", "details": {"type": "error", "message": "boom"}}
    for asked in (event, {"items": [event, event]}):
        records = server.call("remember", **asked)["structuredContent"]["records"]
        assert {one["status"] for one in records} == {"stored"}
    assert refusal(server.call("remember", items=[{"text": "x"}], text="y", **event)).startswith("Give either `text`")


def test_a_text_of_five_megabytes(server: "ServerProcess") -> None:
    said = refusal(server.call("remember", text="word " * 1_000_000))
    assert said.startswith("`text` is too long: at most 1000000 characters; split it up.")


def test_control_characters_are_taken_out_and_counted(server: "ServerProcess") -> None:
    """D8.2: nobody chooses what a terminal writes."""
    stored = server.call("remember", text="\x1b[31mFAILED\x1b[0m at a\0b")["structuredContent"]["records"][0]
    assert stored["cleaned"] == 3
    opened = server.call("recall", ids=[stored["id"]], detail="full")["structuredContent"]
    assert opened["results"][0]["text"] == "FAILED at ab"


def test_a_control_character_in_a_name_is_refused(server: "ServerProcess") -> None:
    """D8.2: cleaned, it would be another name."""
    said = refusal(server.call("remember", text="x", tags=["ok", "\x1b[0m"]))
    assert said.startswith("`tags[1]` must hold no control character.")


@pytest.mark.parametrize("half", [r"\ud800", r"\uDFFF", r"\ud83dx\ude00"])
def test_half_of_a_surrogate_pair_as_an_escape(server: "ServerProcess", half: str) -> None:
    """P3.2: the rest of the text is kept, with U+FFFD for what is no character."""
    stored = server.call_raw("remember", f'{{"text":"a{half}b"}}')["structuredContent"]["records"][0]
    opened = server.call("recall", ids=[stored["id"]], detail="full")["structuredContent"]
    assert opened["results"][0]["text"] in ("a\ufffdb", "a\ufffdx\ufffdb")
    assert refusal(server.call_raw("recall", f'{{"{half}":1}}')).startswith("There is no field of that name.")


def test_a_whole_surrogate_pair_as_an_escape_is_no_mistake(server: "ServerProcess") -> None:
    stored = server.call_raw("remember", r'{"text":"a whole \ud83d\ude00 and a literal \\ud800"}')
    record_id = stored["structuredContent"]["records"][0]["id"]
    opened = server.call("recall", ids=[record_id], detail="full")["structuredContent"]
    assert opened["results"][0]["text"] == "a whole 😀 and a literal \\ud800"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("remember", {"text": 5}, "`text` must be a string."),
        ("remember", {"text": "x", "tags": 1}, "`tags` must be a list."),
        ("remember", {"items": 5}, "`items` must be a list."),
        ("recall", {"query": ["x"]}, "`query` must be a string."),
        ("recall", {"limit": "ten"}, "`limit` must be a whole number."),
        ("assemble_context", {"strategy": 7}, "`strategy` must be a name or an object."),
        ("push_task", {"goal": {}}, "`goal` must be a string."),
        ("pop_task", {}, "`result` is required."),
        ("revise", {"id": "r1", "pinned": "yes"}, "`pinned` must be true or false."),
        ("forget", {"ids": []}, "`ids` must not be empty."),
    ],
)
def test_a_wrong_type(server: "ServerProcess", tool: str, arguments: dict[str, Any], says: str) -> None:
    assert refusal(server.call(tool, **arguments)).startswith(says)


@pytest.mark.parametrize(("limit", "says"), [(-1, "at least 1"), (0, "at least 1"), (10**12, "at most 100")])
def test_a_negative_or_huge_limit(server: "ServerProcess", limit: int, says: str) -> None:
    assert refusal(server.call("recall", query="x", limit=limit)).startswith(f"`limit` must be {says}.")


def test_a_limit_of_five_thousand_digits(server: "ServerProcess") -> None:
    said = refusal(server.call_raw("recall", f'{{"limit":{"9" * 5000}}}'))
    assert said.startswith("`limit` is nested too deep, or holds a number of too many digits.")


def test_unknown_ids(server: "ServerProcess") -> None:
    assert "recall" in refusal(server.call("revise", id="r0none", importance=2))
    assert refusal(server.call("push_task", task_id="t0none"))
    assert refusal(server.call("assemble_context", task_id="t0none"))
    forgotten = server.call("forget", ids=["r0none"])["structuredContent"]
    assert forgotten == {"retired": [], "not_found": ["r0none"]}
    opened = server.call("recall", ids=["r0none"])["structuredContent"]
    assert (opened["results"], opened["not_found"]) == ([], ["r0none"])


def test_a_thousand_tags(server: "ServerProcess") -> None:
    said = refusal(server.call("remember", text="x", tags=[f"tag{i}" for i in range(1000)]))
    assert said.startswith("`tags` has too many items: at most 50;")


def test_an_unknown_kind(server: "ServerProcess") -> None:
    said = refusal(server.call("remember", text="x", kind="rumour"))
    assert said.startswith("`kind` must be one of 'fact', 'decision', 'procedure', ")
    assert said.endswith(", not 'rumour'.")


def test_an_unknown_strategy(server: "ServerProcess") -> None:
    """A1.4."""
    said = refusal(server.call("assemble_context", query="x", strategy="telepathic"), max_chars=600)
    assert "balanced" in said


def test_an_unknown_field(server: "ServerProcess") -> None:
    said = refusal(server.call("recall", query="x", depth=3))
    assert said.startswith("There is no field `depth`. Known: query, ids, limit, ")


def test_an_unknown_tool(server: "ServerProcess") -> None:
    assert refusal(server.call("memorize", text="x")).startswith("Unknown tool. The tools are: remember, ")


def test_a_date_that_is_none(server: "ServerProcess") -> None:
    assert refusal(server.call("recall", query="x", since="the day of the lobster"))
    assert refusal(server.call("remember", text="x", occurred_at="the day of the lobster"))


@pytest.mark.parametrize(
    "line", [b"hello\n", b"{\n", b"[1,2]\n", b'{"jsonrpc":"2.0"}\n', b"\n\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"]
)
def test_a_line_that_is_no_message(server: "ServerProcess", line: bytes) -> None:
    server.send(line)
    assert server.call("forget", ids=["r0none"])["structuredContent"]["not_found"] == ["r0none"]


def test_a_message_that_is_no_line_to_log(server: "ServerProcess") -> None:
    server.send(b"my password is hunter2\n")
    server.request("ping", {})
    assert "Dropped a line of 23 bytes that is not a JSON-RPC message." in server.log
    assert "hunter2" not in server.log


@pytest.mark.parametrize("depth", [100, 300, 100_000])
def test_deep_nesting(server: "ServerProcess", depth: int) -> None:
    details = '{"a":' * depth + "1" + "}" * depth
    said = refusal(server.call_raw("remember", f'{{"text":"x","details":{details}}}'))
    assert "nested too deep" in said


def test_a_hundred_mistakes_at_once(server: "ServerProcess") -> None:
    arguments = {f"field_{i}": "secret" for i in range(100)} | {"text": ["secret"], "tags": [1] * 100}
    said = refusal(server.call("remember", **arguments))
    assert "secret" not in said


def test_texts_that_look_like_json_are_texts(server: "ServerProcess") -> None:
    for text in ('{"a": 1}', "null", "[1, 2]"):
        record_id = server.call("remember", text=text)["structuredContent"]["records"][0]["id"]
        opened = server.call("recall", ids=[record_id], detail="full")["structuredContent"]
        assert opened["results"][0]["text"] == text


# Puts the name of a folder that is no text into the answer of a tool and into a resource.
_NAMES_A_FOLDER = r"""
from mcp_memory.app import App
from mcp_memory.entrypoints.server import status_answers
name = "gar\udce7on"
App.former_memory = lambda *_: name
status_answers.show_status = lambda *_: {name: name}
from mcp_memory.__main__ import main
main()
"""


def test_an_answer_that_names_half_of_a_surrogate_pair_is_sent(
    tmp_path: Path, start_server: "Callable[..., ServerProcess]"
) -> None:
    """P3.2, X3.1: the library never sends one that does, and its client would wait for ever."""
    server = start_server(tmp_path / "data", code=_NAMES_A_FOLDER)
    assert "gar\ufffdon" in str(server.call("recall", query="tide"))
    [shown] = server.request("resources/read", {"uri": "memory://status"})["contents"]
    assert shown["text"] == '{"gar\ufffdon":"gar\ufffdon"}'

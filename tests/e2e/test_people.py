"""Two agents, and two windows of one agent, in processes of their own: what one changed is named to the other. N5.1."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ServerProcess

Start = Callable[..., ServerProcess]


def data_of(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("isError"), result
    return result["structuredContent"]


def refusal(result: dict[str, Any]) -> str:
    assert result["isError"], result
    return result["content"][0]["text"]


def remember(server: ServerProcess, text: str) -> str:
    return data_of(server.call("remember", text=text))["records"][0]["id"]


@pytest.fixture
def start(tmp_path: Path, start_server: Start) -> Start:
    """Starts a process of an agent over the test's memory."""

    def start_as(agent: str) -> ServerProcess:
        return start_server(tmp_path / "data", {"MCP_MEMORY_AGENT": agent})

    return start_as


@pytest.mark.parametrize("other", ["bob", "ann"])
def test_what_another_window_changed_is_named_before_it_is_overwritten(start: Start, other: str) -> None:
    """N5.1: the same call goes on after that; a program passes the version it saw."""
    ann, another = start("ann"), start(other)
    port = remember(ann, "The port is 80.")
    shown = data_of(another.call("recall", ids=[port]))["results"][0]
    data_of(another.call("revise", id=port, text="The port is 81.", version=shown["version"]))
    who = "bob" if other == "bob" else "another session of yours"
    for tool, arguments in (("revise", {"id": port, "text": "The port is 82."}), ("forget", {"ids": [port]})):
        said = refusal(ann.call(tool, **arguments, version=shown["version"]))
        assert f"was changed by {who} at" in said
        assert '"The port is 81."' in said
    assert data_of(ann.call("revise", id=port, text="The port is 82."))["text"] == "The port is 82."
    assert f"was changed by {'ann' if other == 'bob' else who} at" in refusal(another.call("forget", ids=[port]))
    assert data_of(another.call("forget", ids=[port]))["retired"] == [port]


def test_of_two_changes_at_once_one_is_refused(start: Start) -> None:
    """N5.1: whoever is second is told of the first."""
    windows = {"ann": start("ann"), "bob": start("bob")}
    for number in range(5):
        record_id = remember(windows["ann"], f"The count of {number} is 0.")
        for window in windows.values():
            window.call("recall", ids=[record_id])

        def change(name: str, record_id: str = record_id, number: int = number) -> dict[str, Any]:
            return windows[name].call("revise", id=record_id, text=f"The count of {number} is {name}'s.")

        with ThreadPoolExecutor() as pool:
            won, lost = sorted(pool.map(change, windows), key=lambda answer: bool(answer.get("isError")))
        assert data_of(won)["text"] in refusal(lost)


def test_authors_are_told_and_nobody_hides_what_is_anothers(start: Start) -> None:
    """N5.1, N5.2."""
    ann, bob = start("ann"), start("bob")
    port = remember(ann, "The port of the server is 80.")
    said = refusal(bob.call("revise", id=port, visibility="private"))
    assert "stored by 'ann'; only that agent, or an administrator, may hide it" in said
    data_of(bob.call("revise", id=port, text="The port of the server is 81."))
    assert f"- [{port} fact " in ann.call("recall", query="server port")["content"][0]["text"]
    assert " by bob] The port of the server is 81." in ann.call("recall", query="server port")["content"][0]["text"]
    assert " by bob] The port" in ann.call("assemble_context", query="server port")["content"][0]["text"]
    assert " by " not in bob.call("recall", query="server port")["content"][0]["text"]
    shown = json.loads(ann.request("resources/read", {"uri": f"memory://record/{port}"})["contents"][0]["text"])
    history = [(each["by"], each["client"], each["rewritten"]) for each in shown["history"]]
    assert history == [("ann", "end-to-end test", False), ("bob", "end-to-end test", True)]
    assert [(each["by"], each["text"]) for each in shown["earlier"]] == [("ann", "The port of the server is 80.")]

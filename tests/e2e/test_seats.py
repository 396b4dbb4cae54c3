"""What the environment of a window's process says counts for that window alone (L1.2, S4.3)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.bridge import private_sockets
from tests.e2e.conversations import edits, flat, said
from tests.e2e.hook_session import Session
from tests.e2e.session_client import Client
from tests.forked import run_forked
from tests.http_service import serving

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

Start = Callable[..., "ServerProcess"]
ANN, BOB = "sk-ann-9f2c41d07be", "sk-bob-51e8a3c6d20"
AT_LATE_EVENING = "2026-11-20T22:30:00Z"


@dataclass
class Model:
    """A service that speaks OpenAI's API: the key and the texts of each request."""

    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def respond(self, path: str, key: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        self.asked.append((key, str(body["messages"])))
        return 500, key.encode()  # A service may repeat it.


@pytest.fixture
def start(start_server: Start, tmp_path: Path) -> Start:
    """Starts a window of one memory, with further variables."""

    def start_one(**variables: str) -> "ServerProcess":
        return start_server(tmp_path / "data", {"OPENAI_API_KEY": "", "NO_PROXY": "*", **variables}, folder=tmp_path)

    return start_one


@pytest.fixture
def model() -> Iterator[tuple[Model, Mapping[str, str]]]:
    """The service, and what the settings say of it."""
    with serving(service := Model()) as url:
        yield (
            service,
            {
                "MCP_MEMORY_SUMMARIZER": "openai",
                "MCP_MEMORY_SUMMARIZER_MODEL": "some-model",
                "MCP_MEMORY_SUMMARIZER_URL": f"{url}/v1",
            },
        )


def shown(server: "ServerProcess", uri: str) -> str:
    return server.request("resources/read", {"uri": uri})["contents"][0]["text"]


def text_of(answer: Mapping[str, Any]) -> str:
    assert not answer.get("isError"), answer
    return answer["content"][0]["text"]


def test_each_window_asks_the_model_with_its_own_key_and_nothing_holds_one(
    start: Start, model: tuple[Model, Mapping[str, str]], tmp_path: Path
) -> None:
    service, settings = model
    ann = start(OPENAI_API_KEY=ANN, MCP_MEMORY_AGENT="ann", **settings)
    bob = start(OPENAI_API_KEY=BOB, MCP_MEMORY_AGENT="bob", **settings)
    eve = start(MCP_MEMORY_AGENT="eve", **settings)
    answers: list[str] = []
    for name, window in (("ann", ann), ("bob", bob), ("eve", eve), ("ann", ann)):
        client = Client(window, f"session of {name}", 1_000)
        told = [said("user", f"I am {name} from billing."), *flat(edits(6))]
        answers.append(str(client.compact(told, force=True, summarizer="model", passes=["threshold"])))
    assert {(key, name) for key, text in service.asked for name in ("ann", "bob", "eve") if f"I am {name}" in text} == {
        (f"Bearer {ANN}", "ann"),
        (f"Bearer {BOB}", "bob"),
    }
    assert "finds no key; set OPENAI_API_KEY in the client's environment" in answers[2]
    seen = [each for window in (ann, bob, eve) for each in (str(window.hello), shown(window, "memory://status"))]
    assert not any("differ" in each for each in seen)
    files = [each.read_bytes().decode("latin-1") for each in (tmp_path / "data").rglob("*") if each.is_file()]
    for each in (*answers, *seen, *files, ann.log, bob.log, eve.log):
        assert ANN not in each
        assert BOB not in each


def test_days_are_those_of_each_windows_own_zone(start: Start) -> None:
    utc, tokyo, lima = start(TZ="UTC"), start(TZ="Asia/Tokyo"), start(MCP_MEMORY_TIMEZONE="America/Lima")
    utc.call("remember", kind="event", text="The lamp was serviced.", occurred_at=AT_LATE_EVENING)
    for window, day in ((utc, "2026-11-20"), (tokyo, "2026-11-21"), (lima, "2026-11-20"), (utc, "2026-11-20")):
        assert day[5:] in text_of(window.call("assemble_context", query="the lamp's service"))
        assert "lamp" in text_of(window.call("recall", query="lamp", since=day, until=day))
    assert "lamp" not in text_of(tokyo.call("recall", query="lamp", until="2026-11-20"))


def test_a_hook_and_a_command_have_the_days_of_their_own_processes(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    window = start(TZ="UTC")
    window.call("remember", kind="event", text="The lamp was serviced.", occurred_at=AT_LATE_EVENING)
    for zone, day, is_found in (("Asia/Tokyo", "11-21", False), ("UTC", "11-20", True)):
        there = {**environment, "TZ": zone}
        assert (
            f" {day}] The lamp"
            in Session(tmp_path, there).hook("SessionStart", source="startup", session_id=day).context
        )
        found = run_forked("search", "lamp", "--until", "2026-11-20", env=there, cwd=tmp_path, timeout=60)
        assert (b"The lamp" in found.stdout) == is_found, found


def test_strategies_beside_a_windows_own_configuration_are_its_own(start: Start, tmp_path: Path) -> None:
    """Also as they are changed later."""
    usual, own = start(), start(MCP_MEMORY_CONFIG=str(tmp_path / "mine" / "config.toml"))
    refused = own.call("assemble_context", strategy="newest")
    assert "Unknown strategy 'newest'" in refused["content"][0]["text"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "strategies.toml").write_text('[newest]\nlike = "recent"\n', "utf-8")
    own = start(MCP_MEMORY_CONFIG=str(tmp_path / "mine" / "config.toml"))
    own.call("remember", text="The lamp is serviced in March.")
    assert "lamp" in text_of(own.call("assemble_context", strategy="newest"))
    assert "Unknown strategy 'newest'" in usual.call("assemble_context", strategy="newest")["content"][0]["text"]
    (tmp_path / "mine" / "strategies.toml").write_text('[latest]\nlike = "recent"\n', "utf-8")
    assert "lamp" in text_of(own.call("assemble_context", strategy="latest"))

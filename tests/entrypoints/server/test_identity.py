"""Whoever sent a message is asked for by one function, also in the threads that work on it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller, Grant
from mcp_memory.entrypoints.server.identity import (
    RequestSender,
    asking,
    is_local,
    require,
    require_local,
    told,
    visited_by,
)
from mcp_memory.errors import InvalidRequest, StoreBusy, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_memory.app import App

GRANT = Grant(agent="ann", person="eve", namespaces=("shop",), right="read")


def test_in_a_local_process_its_own_agent_asks_and_may_do_all(app: "App") -> None:
    assert asking(app, "client", "talk") == app.caller("talk", "client")
    assert is_local()
    require("admin")
    require_local("")


def test_with_a_token_its_agent_asks_in_the_session_of_the_message(app: "App") -> None:
    """S4.2."""
    with visited_by(RequestSender(grant=GRANT, namespace="shop", session="h1", client="c")):
        assert asking(app) == Caller(
            namespace="shop", agent="ann", session_id="h1", client="c", person="eve", inherited=(), knows=("shop",)
        )
        assert asking(app, "named", "talk").session_id == "talk"
        assert asking(app, "named", "talk").named_session
        with pytest.raises(InvalidRequest, match="the right 'write'"):
            require("write")
        with pytest.raises(InvalidRequest, match="reads no files; send it"):
            require_local("send it.")
    assert is_local()
    assert asking(app).agent == "default"


def test_who_comes_with_a_token_is_told_of_no_file_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """S4.3: whoever runs it finds it in the log."""
    lost, busy = StoreUnavailable("/srv/data/memory.db may not be written."), StoreBusy("Call again.")
    assert told(lost) == str(lost)
    with visited_by(RequestSender(grant=None)):
        assert told(lost) == str(lost)
    assert not caplog.messages
    with visited_by(RequestSender(grant=GRANT, namespace="shop")):
        assert told(lost).startswith("The memory is not available at present; the server's log says why")
        assert (told(busy), told(InvalidRequest("No."))) == ("Call again.", "No.")
    assert caplog.messages == [str(lost)]


def test_without_a_token_the_processs_own_agent_asks_in_any_namespace(app: "App") -> None:
    """S4.2: who listens to this machine alone lets it do what a local process could, but for files."""
    own = app.caller()
    with visited_by(RequestSender(grant=None)):
        mine = Caller(
            namespace="test", agent="default", session_id=own.session_id, client="c", knows=None, max_tokens=8000
        )
        assert asking(app, "c") == mine
        require("admin")
        assert not is_local()
    with visited_by(RequestSender(grant=None, namespace="pier", session="h2")):
        assert (asking(app).namespace, asking(app).session_id) == ("pier", "h2")
        assert asking(app, "", "talk").named_session


def test_whoever_names_a_former_project_asks_in_the_present_one(open_memory: "Callable[..., App]") -> None:
    """P4.1: inherited ones, too."""
    app = open_memory(namespace="shop", inherit=["base"])
    for name in ("shop", "base"):
        app.remember([NewRecord(text="The port is 5432.")], replace(app.caller(), namespace=name))
        app.projects.rename(name, f"{name} now")
    grant = replace(GRANT, namespaces=("shop now", "base now"))
    for each in (None, grant):
        with visited_by(RequestSender(grant=each, namespace="shop now", session="h1")):
            assert (asking(app).namespace, asking(app).inherited) == ("shop now", ("base now",))
    with visited_by(RequestSender(grant=None, namespace="shop", session="h1")):
        assert asking(app).namespace == "shop now"

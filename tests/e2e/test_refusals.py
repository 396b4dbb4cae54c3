"""X3.2: every request over standard input is answered or refused, and no answer repeats much of it."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "end-to-end test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LONG = "x" * 400_000
INVALID, UNREADABLE = -32600, -32700


class Era:
    """A server, and how a client of one era of the protocol asks it."""

    def __init__(self, server: "ServerProcess", meta: Mapping[str, Any]) -> None:
        self.server = server
        self._meta = meta

    def line(self, some_id: int | str, method: str, params: Mapping[str, Any]) -> bytes:
        own = {"_meta": self._meta} if self._meta else {}
        return json.dumps({"jsonrpc": "2.0", "id": some_id, "method": method, "params": {**params, **own}}).encode()

    def answers(self, line: bytes, owed: int = 1) -> list[dict[str, Any]]:
        """What comes back for a line, of which so many are owed: a further one would stand before the next answer.

        A refusal may come after the answer to what was asked behind it.
        """
        mark = "end of the line"
        self.server.send(line + b"\n" + self.line(mark, "tools/list", {}) + b"\n")
        found = [json.loads(self.server.lines.next()) for _ in range(owed + 1)]
        assert [each.get("id") for each in found].count(mark) == 1
        return [each for each in found if each.get("id") != mark]


@pytest.fixture(scope="module", params=["handshake", "modern"])
def era(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    start_server: "Callable[..., ServerProcess]",
) -> Iterator[Era]:
    is_modern = request.param == "modern"
    started = start_server(tmp_path_factory.mktemp("era") / "data", handshake=not is_modern)
    served = Era(started, META if is_modern else {})
    yield served
    assert served.answers(b" ", owed=0) == []
    started.stop()


@pytest.mark.parametrize(
    ("line", "some_id", "code"),
    [
        (b'{"jsonrpc":"2.0","id":11,"method":"ping","params":[]}', 11, INVALID),
        (b'{"jsonrpc":"2.0","id":12,"method":"ping","params":"p"}', 12, INVALID),
        (b'{"jsonrpc":"2.0","id":13,"method":7}', 13, INVALID),
        (b'{"jsonrpc":"1.0","id":14,"method":"ping"}', 14, INVALID),
        (b'{"id":"fifteen","method":"ping"}', "fifteen", INVALID),
        (b'{"jsonrpc":"2.0","id":16,"method":"pi\x01ng"}', 16, UNREADABLE),
        (b'{"jsonrpc":"2.0","id":17,"method":"ping"} and more', 17, UNREADABLE),
        (b'{"jsonrpc":"2.0","id":18,"method":"ping"}{"jsonrpc":"2.0","id":19,"method":"ping"}', 18, UNREADABLE),
        (b"[]", None, INVALID),
        (b'[{"jsonrpc":"2.0","id":20,"method":"ping"}]', None, INVALID),
        (b"{}", None, INVALID),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, INVALID),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, INVALID),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, INVALID),
        (b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5_000), None, INVALID),
        (b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % (b"x" * 400_000), None, INVALID),
        (b"hello", None, UNREADABLE),
        (b"\xff\xfe", None, UNREADABLE),
        (b"[" * 100_000, None, UNREADABLE),
    ],
)
def test_what_is_no_request_is_refused_once(era: Era, line: bytes, some_id: int | str | None, code: int) -> None:
    """X3.2."""
    [answer] = era.answers(line)
    assert (answer["id"], answer["error"]["code"]) == (some_id, code)
    assert "x" * 201 not in json.dumps(answer)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"note","params":7}',
        b'{"jsonrpc":"2.0","method":"note"}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":99,"result":7}',
        b" ",
    ],
)
def test_what_is_owed_no_answer_gets_none(era: Era, line: bytes) -> None:
    """X3.2: malformed notifications, and responses to what was never asked."""
    assert era.answers(line, owed=0) == []
    assert era.answers(b" ", owed=0) == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (LONG, {}),
        ("tools/call", {"name": LONG, "arguments": {}}),
        ("tools/call", {"name": "recall", "arguments": {LONG: 1}}),
        ("tools/call", {"name": "recall", "arguments": LONG}),
        ("tools/call", {"name": "recall", "arguments": {"query": "x", "kinds": [LONG], "since": LONG}}),
        ("tools/call", {"name": "recall", "arguments": {"ids": [LONG]}}),
        ("tools/call", {"name": "assemble_context", "arguments": {"query": "x", "strategy": LONG}}),
        ("tools/call", {"name": "assemble_context", "arguments": {"query": "x", "strategy": {"weights": {LONG: 1}}}}),
        ("tools/call", {"name": "compact", "arguments": {"messages": [{"role": LONG, "content": LONG}]}}),
        ("tools/call", {"name": "recall", "arguments": {"query": "x"}, "requestState": LONG}),
        ("resources/read", {"uri": LONG}),
        ("resources/read", {"uri": f"memory://record/{LONG}"}),
        ("resources/read", {"uri": f"memory://session/{LONG[:1000]}"}),
        ("resources/subscribe", {"uri": LONG}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [LONG]}}),
        ("prompts/get", {"name": LONG}),
        ("logging/setLevel", {"level": LONG}),
        ("initialize", {"protocolVersion": LONG}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": LONG}, "argument": {"name": LONG, "value": ""}}),
    ],
)
def test_an_error_repeats_at_most_two_hundred_characters(era: Era, method: str, params: Mapping[str, Any]) -> None:
    """X3.2."""
    [answer] = era.answers(era.line(31, method, params))
    assert answer["id"] == 31
    assert "error" in answer or answer["result"]["isError"]
    assert json.dumps(answer).count("x") <= 250  # of our own words a few


def test_a_long_cursor_and_a_long_name_are_no_error_and_not_repeated(era: Era) -> None:
    """X3.2."""
    [answer] = era.answers(era.line(32, "resources/templates/list", {"cursor": LONG}))
    assert "xxx" not in json.dumps(answer)
    assert "xxx" not in era.server.log


READABLE = st.one_of(
    st.integers(-(2**70), 2**70), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
).filter(lambda some_id: not isinstance(some_id, str) or not {"\ufffd", "\ufffe", "\uffff"} & set(some_id))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
REST = st.dictionaries(st.sampled_from(["jsonrpc", "method", "params"]), JSON, max_size=3)
BEHIND = st.sampled_from([b"", b"", b" ", b"x", b"}", b"{}", b'{"id":1}', b'"', b"\x01"])


@settings(max_examples=30)
@given(some_id=READABLE, rest=REST, behind=BEHIND)
def test_any_object_with_an_id_gets_one_answer_with_it(
    era: Era, some_id: int | str, rest: Mapping[str, Any], behind: bytes
) -> None:
    """X3.2."""
    [answer] = era.answers(json.dumps({**rest, "id": some_id}).encode() + behind)
    assert answer["id"] == some_id
    assert answer["error"]["code"] in (INVALID, UNREADABLE, -32601, -32602)


@settings(max_examples=30)
@given(line=st.binary(max_size=60).filter(lambda line: b"\n" not in line and line.strip() and b"{" not in line))
def test_any_garbage_gets_one_error_of_nobody(era: Era, line: bytes) -> None:
    """X3.2."""
    answers = era.answers(line)
    text = line.decode("utf-8", "replace").removeprefix("\ufeff").strip()
    assert [(each["id"], each["error"]["code"] in (INVALID, UNREADABLE)) for each in answers] == [(None, True)], text


@pytest.mark.parametrize("era", ["modern"], indirect=True)
def test_a_line_that_is_too_long_is_refused_by_its_id(era: Era) -> None:
    """X3.2: also where the id comes last."""
    start, size = b'{"method":"ping","params":{"text":"', 65 * 2**20
    [answer] = era.answers(start + b"x" * size + b'"},"jsonrpc":"2.0","id":41}')
    assert (answer["id"], answer["error"]["code"]) == (41, INVALID)
    assert "64 MiB" in answer["error"]["message"]

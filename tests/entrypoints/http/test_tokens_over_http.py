"""One server for a team: who may come in, as whom, and what stays whose."""

import gc
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent, TextResourceContents

from mcp_memory import __version__
from tests.entrypoints.http.conftest import (
    ERAS,
    HttpServer,
    command_line,
    connected,
    found,
    headers_of,
    make_token,
    open_session,
    post,
    revoke_token,
    text_of,
    web,
)
from tests.entrypoints.page.conftest import person, words_of

RECALL = {"name": "recall", "arguments": {"query": "anything"}}


@dataclass(frozen=True)
class Team:
    """A server and the secrets of those it knows."""

    server: HttpServer
    ann: str
    bob: str
    reader: str
    chief: str

    @property
    def url(self) -> str:
        return self.server.url


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> Iterator[Team]:
    data_dir = tmp_path_factory.mktemp("team") / "data"
    ann = make_token(data_dir, "ann", "shop", "base")
    bob = make_token(data_dir, "bob", person="robert")
    reader = make_token(data_dir, "reader", right="read")
    chief = make_token(data_dir, "chief", "secret", right="admin")
    yield Team(start_http(data_dir, read_log_days=7, log_format="json"), ann=ann, bob=bob, reader=reader, chief=chief)
    gc.collect()


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


async def test_the_prompt_learn_tells_a_client_elsewhere_to_store_by_the_tool(team: Team) -> None:
    """S4.2: the command would write into a memory of the client's own machine. A reader is refused at once."""
    async with connected(team.url, team.ann) as client:
        (message,) = (await client.get_prompt("learn", {"number": "7"})).messages
        assert isinstance(message.content, TextContent)
        assert "without a number: 7." in message.content.text
        assert message.content.text.endswith("which a server holds: store them with `remember`.")
    async with connected(team.url, team.reader) as client:
        with pytest.raises(MCPError, match="right"):
            await client.get_prompt("learn")


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_with_a_token_is_served_in_both_eras(team: Team, era: str) -> None:
    """S4.2, S6.2."""
    async with connected(team.url, team.ann, era) as client:
        assert client.instructions
        assert client.server_info is not None
        assert client.server_info.version == __version__
        assert len((await client.list_tools()).tools) == 8
        await client.call_tool("remember", {"text": f"Dampers are checked in the {era} era.", "visibility": "private"})
        assert f"Dampers are checked in the {era} era." in await found(client, "Dampers")
        context = await client.call_tool("assemble_context", {"query": "dampers"})
        assert f"the {era} era" in text_of(context)
        status = (await client.read_resource("memory://status")).contents[0]
        assert isinstance(status, TextResourceContents)
        shown = json.loads(status.text)
        assert (shown["namespace"], shown["agent"]) == ("shop", "ann")
        assert shown["store"].keys() == {"schema", "revision", "embedder"}  # nothing of the server's files
        assert "folder" not in shown  # nor of where it was started
        assert shown["session"].startswith("h" if era == "legacy" else "t")


@pytest.mark.parametrize("era", ERAS)
async def test_two_tokens_at_once_see_only_what_is_theirs(team: Team, era: str) -> None:
    """S4.1, S4.2: neither the other's private records, nor its person's, nor namespaces it does not hold."""
    async with (
        connected(team.url, team.ann, era) as ann,
        connected(team.url, team.bob, era) as bob,
        connected(team.url, team.chief, era) as chief,
    ):
        async with anyio.create_task_group() as group:
            for name, client in (("ann", ann), ("bob", bob), ("chief", chief)):
                for visibility in ("private", "user", "shared"):
                    item = {"text": f"{era} owl {name} {visibility}", "visibility": visibility}
                    group.start_soon(client.call_tool, "remember", item)
        seen: dict[str, list[str]] = {}

        async def look(name: str, client: Client) -> None:
            seen[name] = await found(client, f"{era} owl")

        async with anyio.create_task_group() as group:
            for name, client in (("ann", ann), ("bob", bob), ("chief", chief)) * 3:
                group.start_soon(look, name, client)
    shared = [f"{era} owl {name} shared" for name in ("ann", "bob")]
    for name in ("ann", "bob"):
        assert seen[name] == sorted([f"{era} owl {name} private", f"{era} owl {name} user", *shared])
    assert seen["chief"] == [f"{era} owl chief {visibility}" for visibility in ("private", "shared", "user")]


def test_a_project_is_called_as_often_as_its_quota_says(team: Team) -> None:
    """M3.3: a call beyond it is told so, with the time to wait; other projects go on."""
    quiet = make_token(team.server.data_dir, "quiet", "quiet")
    told = command_line(team.server.data_dir, "projects", "quota", "quiet", "--calls", "1", "--records", "5")
    assert told.stdout.strip() == "namespace/quiet: 0 of 5 records, 1 call a minute"
    assert post(team.url, "tools/call", RECALL, headers_of(quiet)).status_code != 429
    refused = post(team.url, "tools/call", RECALL, headers_of(quiet))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "5"
    assert "made 1 calls in a minute, of at most 1; call again in" in refused.text
    assert post(team.url, "tools/call", RECALL, headers_of(team.ann)).status_code != 429


async def test_a_persons_records_follow_through_namespaces(team: Team) -> None:
    """S4.1, S4.2: of the inherited namespaces a token reads those that it holds."""
    async with connected(team.url, team.ann, namespace="base") as client:
        await client.call_tool("remember", {"text": "A heron at the base.", "visibility": "shared"})
        await client.call_tool("remember", {"text": "A heron of my own.", "visibility": "user"})
    async with connected(team.url, team.chief) as client:
        await client.call_tool("remember", {"text": "A heron that is secret.", "visibility": "shared"})
    async with connected(team.url, team.ann) as client:
        assert await found(client, "heron") == ["A heron at the base.", "A heron of my own."]
    async with connected(team.url, team.bob) as client:
        assert await found(client, "heron") == []
    told = post(team.url, "tools/call", RECALL, headers_of(team.bob, "base"))
    assert (told.status_code, told.json()["error"]["message"]) == (
        403,
        "Your token does not hold that namespace; it holds shop.",
    )


async def test_a_client_goes_on_in_its_project_though_that_was_renamed(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """P4.1, S4.2: within its session, and by the name that it sends."""
    ann, bob = make_token(tmp_path / "data", "ann", "shop"), make_token(tmp_path / "data", "bob", "base")
    server = start_http(tmp_path / "data")
    async with connected(server.url, ann, "legacy", namespace="shop") as client:
        await client.call_tool("remember", {"text": "A heron in the shop."})
        assert command_line(tmp_path / "data", "projects", "rename", "shop", "store").returncode == 0
        await client.call_tool("remember", {"text": "A heron in the store."})
        assert await found(client, "heron") == ["A heron in the shop.", "A heron in the store."]
    assert post(server.url, "tools/call", RECALL, headers_of(bob, "shop")).status_code == 403
    refused = command_line(tmp_path / "data", "tokens", "add", "eve", "--agent", "eve", "--namespace", "shop")
    assert (refused.returncode, "is called 'store' now; name that" in refused.stderr) == (1, True)


def test_nobody_else_can_use_a_session(team: Team) -> None:
    """S4.2: to another token, and to none, it does not exist; and it cannot be ended by them."""
    session = open_session(team.url, team.ann)
    for stranger in (team.bob, team.chief):
        answer = post(team.url, "tools/call", RECALL, headers_of(stranger) | {"mcp-session-id": session})
        assert answer.status_code == 404
        ended = web.delete(team.url, headers=headers_of(stranger) | {"mcp-session-id": session})
        assert ended.status_code == 404
    assert post(team.url, "tools/call", RECALL, {"mcp-session-id": session}).status_code == 401
    answer = post(team.url, "tools/call", RECALL, headers_of(team.ann) | {"mcp-session-id": session})
    assert answer.status_code == 200


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_token_has_no_right_to_names_the_right(team: Team, era: str) -> None:
    """S4.2."""
    async with connected(team.url, team.reader, era) as reader, connected(team.url, team.ann, era) as ann:
        assert "takes the right 'write'; your token has 'read'" in await refusal(reader, "remember", text="A stork.")
        for tool, arguments in (
            ("push_task", {"goal": "Fly"}), ("pop_task", {}), ("compact", {}), ("revise", {"id": "r1", "pinned": True}),
            ("forget", {"ids": ["r1"]}),
        ):  # fmt: skip
            assert "the right 'write'" in await refusal(reader, tool, **arguments)
        assert not (await reader.call_tool("recall", {"query": "stork"})).is_error
        assert not (await reader.call_tool("assemble_context", {})).is_error
        assert "takes the right 'admin'" in await refusal(ann, "forget", ids=["r1"], mode="erase")
        assert not (await ann.call_tool("forget", {"ids": ["r1"]})).is_error


@pytest.mark.parametrize("era", ERAS)
async def test_a_revoked_token_ends_also_in_an_open_session(team: Team, era: str) -> None:
    """S4.2: from the next request on."""
    secret = make_token(team.server.data_dir, f"guest-{era}")
    async with connected(team.url, secret, era) as client:
        assert not (await client.call_tool("recall", {"query": "anything"})).is_error
        revoke_token(team.server.data_dir, f"guest-{era}")
        with pytest.raises(MCPError, match="is unknown, was revoked or has expired"):
            await client.call_tool("recall", {"query": "anything"})


@pytest.mark.parametrize("era", ERAS)
async def test_files_of_the_server_are_not_read_for_a_client(team: Team, era: str, tmp_path: Path) -> None:
    """S4.2."""
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text('{"role": "user", "content": "hello"}\n', "utf-8")
    async with connected(team.url, team.chief, era) as client:
        told = await refusal(client, "compact", transcript=str(transcript))
        assert told == "Over HTTP the server reads no files; send what the transcript says as messages instead."
        fed = await client.call_tool("compact", {"messages": [{"role": "user", "content": "hello"}]})
        assert not fed.is_error, text_of(fed)


def test_without_a_token_nobody_comes_in(team: Team) -> None:
    """S4.2: not by an old secret, another scheme, or half a secret."""
    for headers in ({}, {"authorization": "Basic YTpi"}, headers_of(team.ann[:-1]), headers_of("x")):
        answer = web.post(team.url, json={}, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["message"]
        assert web.get(team.server.address("/metrics"), headers={}).status_code == 401


@pytest.mark.parametrize("name", ["authorization", "mcp-memory-namespace", "mcp-session-id", "mcp-memory-call"])
def test_nobody_comes_as_two(team: Team, name: str) -> None:
    """S4.2: of two tokens, namespaces or sessions a proxy might have checked the one, and the server take the other."""
    own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    twice = {"authorization": (team.reader, team.chief)}.get(name, ("shop", "shop"))
    pairs = [*own.items(), *headers_of(team.ann).items()] if name != "authorization" else [*own.items()]
    pairs += [(name, f"Bearer {each}" if name == "authorization" else each) for each in twice]
    answer = web.post(team.url, json={}, headers=pairs)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == f"The header {name} came more than once; send it once."


def test_a_call_with_a_number_is_done_once_for_each_token(team: Team) -> None:
    """S4.2: as a process that attaches sends it again, when its answer was lost."""
    told = {"name": "remember", "arguments": {"text": "The quay is closed."}}

    def remember(token: str, call: str, params: Mapping[str, object] = told) -> httpx2.Response:
        headers = {"mcp-session-id": open_session(team.url, token), "mcp-memory-call": call, **headers_of(token)}
        return post(team.url, "tools/call", params, headers)

    assert "done_before" not in remember(team.ann, "s1/7").text
    assert "done_before" in remember(team.ann, "s1/7").text
    assert "done_before" not in remember(team.ann, "s1/8").text
    assert "done_before" not in remember(team.bob, "s1/7").text
    other = {"name": "remember", "arguments": {"text": "The quay is open."}}
    assert "Another request had" in remember(team.ann, "s1/7", other).text
    for strange in ("s1 7", "s" * 101):
        assert remember(team.ann, strange).status_code == 400


def test_strange_hosts_and_pages_are_turned_away(team: Team) -> None:
    """S4.2: a name that was made to lead here, and a page of another origin."""
    own = headers_of(team.ann)
    for path in ("/mcp", "/metrics"):
        told = web.post(team.server.address(path), json={}, headers=own | {"host": "evil.example"})
        assert (told.status_code, "--allowed-host" in told.text) == (421, True)
        told = web.post(team.server.address(path), json={}, headers=own | {"origin": "https://evil.example"})
        assert (told.status_code, "--allowed-host" in told.text) == (403, True)
    web.post(team.url, json={}, headers=own | {"host": "evil\x1b[31m.example"})
    assert "\x1b" not in team.server.log  # A terminal would do what it says.
    good = own | {"origin": f"http://localhost:{team.server.port}"}
    assert web.post(team.url, json={}, headers=good).status_code not in (403, 421)


def test_a_body_is_limited_declared_or_not(team: Team) -> None:
    """S4.2, S3.1."""
    piece = b" " * 65_536
    for content in (piece * 65, (piece for _ in range(80))):
        headers = headers_of(team.ann) | {"content-type": "application/json", "accept": "application/json"}
        answer = web.post(team.url, content=content, headers=headers)
        assert answer.status_code == 413
        assert answer.json()["error"]["message"].startswith("The request is larger than 4 MiB;")
    assert web.get(team.server.address("/healthz")).status_code == 200


async def test_figures_are_for_the_admin_and_hold_no_text(team: Team) -> None:
    """S4.2, S4.3."""
    page = team.server.address("/metrics")
    assert "takes the right 'admin'" in web.get(page, headers=headers_of(team.ann)).text
    async with connected(team.url, team.ann) as client:
        await client.call_tool("remember", {"text": "Pelicans carry fish."})
        await client.call_tool("assemble_context", {"query": "pelicans"})
        await client.call_tool("pelican", {})
        await client.call_tool("recall", {"limit": -1})
    answer = web.get(page, headers=headers_of(team.chief))
    assert answer.status_code == 200
    figures = answer.text
    assert 'mcp_memory_calls_total{outcome="ok",tool="remember"}' in figures
    assert 'mcp_memory_calls_total{outcome="error",tool="other"}' in figures
    assert 'mcp_memory_calls_total{outcome="error",tool="recall"}' in figures
    assert 'mcp_memory_call_seconds_bucket{le="0.25",tool="remember"}' in figures
    numbers = dict(line.rsplit(" ", 1) for line in figures.splitlines() if not line.startswith("#"))
    assert float(numbers["mcp_memory_records"]) >= 1
    assert float(numbers["mcp_memory_context_tokens_total"]) > 0
    assert float(numbers["mcp_memory_index_loads"]) > 0
    assert "mcp_memory_semantic_index_pending_records" in numbers
    assert "mcp_memory_standbys" not in numbers  # A file has none.
    assert "elican" not in figures
    assert "ann" not in figures


async def test_every_way_in_is_noted_with_who_was_given_what(team: Team) -> None:
    """M4.3, S4.3: tool, resource, hook, page and command, by the token's name; in the log by the same request."""
    async with connected(team.url, team.bob) as bob, connected(team.url, team.ann) as ann:
        stored = await bob.call_tool("remember", {"text": "Cranes dance at the weir of Melk."})
        assert stored.structured_content
        record_id: str = stored.structured_content["records"][0]["id"]
        await ann.call_tool("recall", {"query": "Where do cranes dance?"})
        await ann.read_resource(f"memory://record/{record_id}")
    asked = {"hook": "UserPromptSubmit", "payload": {"session_id": "s", "prompt": "At which weir do cranes dance?"}}
    web.post(f"{team.url}/hook", json={**asked, "max_tokens": [2000, 600]}, headers=headers_of(team.reader))
    browser = person(team.server, team.ann)
    browser.get(f"/record/{record_id}")
    command_line(team.server.data_dir, "show", record_id, "--namespace", "shop")
    await anyio.sleep(1.5)
    lines = command_line(team.server.data_dir, "reads", "--lines").stdout.splitlines()
    entries = [entry for entry in map(json.loads, lines) if record_id in entry["records"]]
    assert [(each["way"], each["agent"], each["token"]) for each in entries] == [
        ("tool recall", "ann", "ann"),
        ("resource record", "ann", "ann"),
        ("hook UserPromptSubmit", "reader", "reader"),
        ("page /", "ann", "ann"),
        ("page /record/{id}", "ann", "ann"),
        ("command show", entries[-1]["agent"], ""),
    ]
    assert {each["namespace"] for each in entries} == {"shop"}
    logged = [json.loads(line) for line in team.server.log.splitlines() if line.startswith("{")]
    [line] = [each for each in logged if each.get("request") == entries[0]["request"] and "outcome" in each]
    assert (line["way"], line["agent"], line["token"]) == ("tool recall", "ann", "ann")
    assert line["records"] == len(entries[0]["records"])
    assert line["milliseconds"] > 0
    assert "Who was given it" in words_of(browser.get(f"/record/{record_id}"))
    assert "by the tool recall" in words_of(browser.get(f"/reads?record={record_id}"))
    assert "reader" not in words_of(browser.page)  # It does not administer.
    own = person(team.server, team.bob)
    assert "Nothing was given." in words_of(own.get(f"/reads?record={record_id}&of=ann"))


def test_the_log_holds_no_secret_and_no_text(team: Team) -> None:
    """S4.3: also not of what was turned away."""
    web.post(f"{team.url}?token={team.ann}", json={"text": "A cormorant."}, headers=headers_of("mcpm_cormorant"))
    for secret in (team.ann, team.bob, team.reader, team.chief, "cormorant", "owl ann", "elican"):
        assert secret not in team.server.log
    assert "DEBUG" in team.server.log


def test_health_is_told_to_anybody(team: Team) -> None:
    answer = web.get(team.server.address("/healthz"), headers={"host": "10.1.2.3:8765"})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})

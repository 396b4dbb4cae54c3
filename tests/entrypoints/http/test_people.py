"""Two people at one server: what one changed is named to the other, and nobody hides what is another's. N5."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import TextResourceContents

from tests.ear import Ear
from tests.entrypoints.http.conftest import ERAS, PATIENCE_SECONDS, HttpServer, connected, make_token, text_of


@dataclass(frozen=True)
class People:
    """A server, and the secrets of two people and an administrator."""

    url: str
    ann: str
    bob: str
    chief: str


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> People:
    data_dir = tmp_path_factory.mktemp("people") / "data"
    ann, bob = (make_token(data_dir, name, person=name) for name in ("ann", "bob"))
    chief = make_token(data_dir, "chief", person="chief", right="admin")
    return People(start_http(data_dir).url, ann=ann, bob=bob, chief=chief)


async def data_of(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


async def remember(client: Client, text: str) -> str:
    return (await data_of(client, "remember", text=text))["records"][0]["id"]


@pytest.mark.parametrize("era", ERAS)
async def test_what_another_person_changed_is_named_first(people: People, era: str) -> None:
    """N5.1: text, author, time and next move; the same call then goes on."""
    async with connected(people.url, people.ann, era) as ann, connected(people.url, people.bob, era) as bob:
        port = await remember(ann, f"The port in era {era} is 80.")
        seen = (await data_of(bob, "recall", ids=[port]))["results"][0]["version"]
        await data_of(bob, "revise", id=port, text=f"The port in era {era} is 81.", version=seen)
        said = await refusal(ann, "revise", id=port, text=f"The port in era {era} is 82.")
        assert f"Record {port} was changed by bob at" in said
        assert f'"The port in era {era} is 81.". Nothing was done; if you still want it, repeat the call.' in said
        assert "by bob]" in text_of(await ann.call_tool("recall", {"ids": [port]}))
        await data_of(ann, "revise", id=port, text=f"The port in era {era} is 82.")
        assert "was changed by ann at" in await refusal(bob, "forget", ids=[port])
        assert (await data_of(bob, "forget", ids=[port]))["retired"] == [port]
        resource = (await ann.read_resource(f"memory://record/{port}")).contents[0]
        assert isinstance(resource, TextResourceContents)
        assert [each["by"] for each in json.loads(resource.text)["history"]] == ["ann", "bob", "ann", "bob"]


async def test_another_window_of_the_same_person_is_another(people: People) -> None:
    """N5.1: in the era with sessions each has its own."""
    async with connected(people.url, people.ann, "legacy") as one, connected(people.url, people.ann, "legacy") as other:
        port = await remember(one, "The port of the windows is 80.")
        await data_of(other, "revise", id=port, text="The port of the windows is 81.")
        said = await refusal(one, "revise", id=port, text="The port of the windows is 82.")
        assert "was changed by another session of yours at" in said


@pytest.mark.parametrize("era", ERAS)
async def test_of_two_changes_at_once_one_is_refused(people: People, era: str) -> None:
    """N5.1: whoever is second is told of the first."""
    async with connected(people.url, people.ann, era) as ann, connected(people.url, people.bob, era) as bob:
        record_id = await remember(ann, f"The count in era {era} is 0.")
        answers: list[Any] = []

        async def change(client: Client, name: str) -> None:
            arguments = {"id": record_id, "text": f"The count in era {era} is {name}'s."}
            answers.append(await client.call_tool("revise", arguments))

        async with anyio.create_task_group() as group:
            group.start_soon(change, ann, "ann")
            group.start_soon(change, bob, "bob")
        assert sorted(bool(answer.is_error) for answer in answers) == [False, True]


async def test_only_its_owner_or_an_administrator_hides_a_shared_record(people: People) -> None:
    """N5.2."""
    async with connected(people.url, people.ann) as ann, connected(people.url, people.bob) as bob:
        port = await remember(ann, "The port that is hidden is 80.")
        for visibility in ("private", "user"):
            said = await refusal(bob, "revise", id=port, visibility=visibility)
            assert "stored by 'ann'; only that agent, or an administrator, may hide it" in said
        async with connected(people.url, people.chief) as chief:
            assert (await data_of(chief, "revise", id=port, visibility="private"))["visibility"] == "private"
        assert "No record" in await refusal(bob, "revise", id=port, pinned=True)
        assert (await data_of(ann, "recall", ids=[port]))["results"][0]["id"] == port


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_client_is_told_of_changes_that_it_may_read(people: People, era: str) -> None:
    """N6.1: of another's private record nobody hears."""
    ear = Ear()
    async with connected(people.url, people.ann) as ann:
        private, shared = [await remember(ann, f"{word} in era {era}.") for word in ("A secret", "News")]
        await data_of(ann, "revise", id=private, visibility="private")
        async with (
            connected(people.url, people.bob, era, message_handler=ear.take) as bob,
            ear.listening(bob, era, f"memory://record/{private}", f"memory://record/{shared}") as heard,
        ):
            await data_of(ann, "revise", id=private, text=f"Another secret in era {era}.")
            await data_of(ann, "revise", id=shared, text=f"Better news in era {era}.")
            with anyio.fail_after(PATIENCE_SECONDS):
                assert await heard() == f"memory://record/{shared}"

"""A chat model is asked with the variables of the client whose work it is, whatever this process's own say (S4.3)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_memory.errors import SummaryFailed
from mcp_memory.summarizers.chat_models import ChatMessage, ChatModel
from tests.summarizers.conftest import KEY, Api, ModelService

OpenModel = Callable[..., ChatModel]
SAID = [ChatMessage(role="user", text="What did we do?")]
THEIRS = {"OPENAI_API_KEY": "sk-theirs-1234567890", "ANTHROPIC_API_KEY": "sk-theirs-1234567890"}


def ask(model: ChatModel) -> str:
    return model.answer("Summarise.", SAID, 100).text


def failure(model: ChatModel) -> str:
    with pytest.raises(SummaryFailed) as failed:
        ask(model)
    return str(failed.value)


def given(variables: Mapping[str, str] | None) -> dict[str, object]:
    return {"variables": lambda: variables}


def test_each_is_asked_for_with_its_own_key(service: ModelService, open_model: OpenModel) -> None:
    service.answers = ["Ours."]
    assert ask(open_model(**given(THEIRS))) == ask(open_model(**given(None))) == "Ours."
    assert service.keys == {f"Bearer {KEY}", "Bearer sk-theirs-1234567890"}


def test_who_has_no_key_does_not_use_anothers(service: ModelService, open_model: OpenModel, api: Api) -> None:
    said = failure(open_model(**given({"OPENAI_ORG_ID": "ours"})))
    assert said == f"finds no key; set {api.upper()}_API_KEY in the client's environment"
    assert not service.asked


def test_the_address_is_the_clients_where_no_setting_names_one(
    service: ModelService, open_model: OpenModel, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answers = ["Theirs."]
    monkeypatch.setenv(f"{api.upper()}_BASE_URL", "http://127.0.0.1:9")
    address = f"{service.url}/v1" if api == "openai" else service.url
    assert ask(open_model(url=None, **given(THEIRS | {f"{api.upper()}_BASE_URL": address}))) == "Theirs."


@pytest.mark.parametrize("api", ["anthropic"], indirect=True)
def test_a_token_is_used_where_there_is_no_key(service: ModelService, open_model: OpenModel) -> None:
    service.answers = ["Ours."]
    token = {"ANTHROPIC_AUTH_TOKEN": "a-token"}
    assert ask(open_model(**given(token))) == ask(open_model(**given(THEIRS | token))) == "Ours."
    assert service.keys == {"Bearer a-token", "Bearer sk-theirs-1234567890"}


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("host", "proxies", "is_by_proxy"),
    [
        ("localhost:9", {"HTTP_PROXY": "{proxy}"}, True),
        ("localhost:9", {"ALL_PROXY": "{address}", "NO_PROXY": "host, al.localhost,"}, True),
        ("localhost:9", {"HTTPS_PROXY": "{proxy}"}, False),
        ("localhost:9", {"HTTP_PROXY": "{proxy}", "NO_PROXY": "else.example, LocalHost"}, False),
        ("localhost:9", {"HTTP_PROXY": "{proxy}", "NO_PROXY": "localhost:9"}, False),
        ("localhost:9", {"HTTP_PROXY": "{proxy}", "NO_PROXY": "*"}, False),
        ("model.localhost:9", {"HTTP_PROXY": "{proxy}", "NO_PROXY": ".localhost"}, False),
    ],
)
def test_the_way_is_the_clients_own(
    host: str, proxies: Mapping[str, str], is_by_proxy: bool, service: ModelService, open_model: OpenModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The proxy is the service itself, which is asked for another host, where nobody listens."""
    service.answers = ["By the proxy."]
    monkeypatch.setenv("HTTP_PROXY", service.url)
    monkeypatch.setenv("NO_PROXY", "")
    address = service.url.removeprefix("http://")
    mine = {name: value.format(proxy=service.url, address=address) for name, value in proxies.items()}
    model = open_model(url=f"http://{host}/v1", **given(THEIRS | mine))
    if is_by_proxy:
        assert ask(model) == "By the proxy."
        assert service.asked[0].path.startswith(f"http://{host}/v1/")
    else:
        assert "could not be used (APIConnectionError)" in failure(model)
        assert not service.asked


@pytest.mark.parametrize(
    "wrong",
    [
        {"HTTP_PROXY": "http://me:sk-secret@proxy.example:port"},
        {"HTTP_PROXY": "gopher://me:sk-secret@proxy.example"},
        {"SSL_CERT_FILE": "/nowhere/sk-secret.pem"},
    ],
)
def test_what_cannot_be_used_is_told_without_its_words(
    wrong: dict[str, str], service: ModelService, open_model: OpenModel
) -> None:
    said = failure(open_model(**given(THEIRS | wrong)))
    assert said == "cannot use the proxy or the certificates of the client's environment"
    assert not service.asked


def test_certificates_are_the_clients(service: ModelService, open_model: OpenModel, tmp_path: Path) -> None:
    service.answers = ["Ours."]
    assert ask(open_model(**given(THEIRS | {"SSL_CERT_DIR": str(tmp_path)}))) == "Ours."


@pytest.mark.parametrize("api", ["openai"], indirect=True)
def test_the_organization_is_the_clients(
    service: ModelService, open_model: OpenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str | None] = []
    send = httpx2.Client.send

    def look(client: httpx2.Client, request: httpx2.Request, **options: Any) -> httpx2.Response:
        sent.append(request.headers.get("OpenAI-Organization"))
        return send(client, request, **options)

    service.answers = ["Ours."]
    monkeypatch.setenv("OPENAI_ORG_ID", "org-owner")
    monkeypatch.setattr(httpx2.Client, "send", look)
    ask(open_model(**given(THEIRS)))
    ask(open_model(**given(THEIRS | {"OPENAI_ORG_ID": "org-theirs"})))
    assert sent == [None, "org-theirs"]

"""Asks language models for summaries: the protocol of a model, and two services, each by its client library.

Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others speak OpenAI's chat API too, gateways Anthropic's messages
API. Each library reads its key from the environment by itself, unless it works for a client with another one. It is
imported at the first request. Errors give the HTTP status or the kind of failure, never the service's words, which may
repeat the key or the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast
from urllib.parse import urlsplit

from mcp_memory.errors import SummaryFailed

if TYPE_CHECKING:
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam

ATTEMPTS = 3
"""Attempts in all: the client libraries retry twice, after pauses of their own, where a retry may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a conversation with a model."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The text that a model wrote, and the tokens spent, in and out, as the service counts them."""

    text: str
    spent: int


class ChatModel(Protocol):
    """One model of one service. Thread-safe."""

    @property
    def name(self) -> str:
        """The service's name, as in the settings."""
        ...

    def answer(self, instructions: str, messages: Sequence[ChatMessage], max_tokens: int) -> ModelAnswer:
        """Return the model's next message, of at most `max_tokens` of its own.

        Raises SummaryFailed where there is none, or it broke off; its message is a clause: "timed out after 60 s".
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModel:
    """A model by its name at the service. `url` is None where its library knows the address.

    `variables` returns those that count for the work at hand, as OPENAI_API_KEY and HTTPS_PROXY; None where they are
    this process's own.
    """

    name: str
    url: str | None
    timeout_seconds: float
    variables: Callable[[], Mapping[str, str] | None] = lambda: None


class OpenAIModel:
    """Asks one model of an OpenAI-compatible endpoint. Thread-safe: each answer has a connection of its own."""

    name = "openai"

    def __init__(self, chosen: ChosenModel) -> None:
        self._chosen = chosen

    def answer(self, instructions: str, messages: Sequence[ChatMessage], max_tokens: int) -> ModelAnswer:
        """See `ChatModel`."""
        chosen = self._chosen
        sent = [ChatMessage(role="system", text=instructions), *messages]
        with _failures_told("openai", "OpenAIError", chosen, "OPENAI_API_KEY"):
            import openai

            with openai.OpenAI(
                timeout=chosen.timeout_seconds, max_retries=ATTEMPTS - 1, **_for_openai(chosen)
            ) as client:
                completion = client.chat.completions.create(
                    model=chosen.name,
                    messages=cast("list[ChatCompletionMessageParam]", [_as_sent(each) for each in sent]),
                    max_completion_tokens=max_tokens,
                )
            choice = completion.choices[0]
            spent = completion.usage.total_tokens if completion.usage else 0
            return _whole(choice.message.content or "", spent, is_cut=choice.finish_reason == "length")


class AnthropicModel:
    """Asks one model of Anthropic's, or behind a gateway. Thread-safe: each answer has a connection of its own."""

    name = "anthropic"

    def __init__(self, chosen: ChosenModel) -> None:
        self._chosen = chosen

    def answer(self, instructions: str, messages: Sequence[ChatMessage], max_tokens: int) -> ModelAnswer:
        """See `ChatModel`."""
        chosen = self._chosen
        with _failures_told("anthropic", "AnthropicError", chosen, "ANTHROPIC_API_KEY"):
            import anthropic

            with anthropic.Anthropic(
                timeout=chosen.timeout_seconds, max_retries=ATTEMPTS - 1, **_for_anthropic(chosen)
            ) as client:
                message = client.messages.create(
                    model=chosen.name,
                    system=instructions,
                    messages=cast("list[MessageParam]", [_as_sent(each) for each in messages]),
                    max_tokens=max_tokens,
                )
            text = "".join(block.text for block in message.content if block.type == "text")
            spent = message.usage.input_tokens + message.usage.output_tokens
            return _whole(text, spent, is_cut=message.stop_reason == "max_tokens")


def _for_openai(chosen: ChosenModel) -> dict[str, Any]:
    """Return arguments in place of the environment. Raises SummaryFailed."""
    given = chosen.variables()
    if given is None:
        return {"base_url": chosen.url}
    from openai import Omit

    url = chosen.url or given.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    names = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return {
        "base_url": url,
        "api_key": _key(given, "OPENAI_API_KEY"),
        "default_headers": {header: given.get(name) or Omit() for header, name in names.items()},
        "http_client": _http_client(url, given),
    }


def _for_anthropic(chosen: ChosenModel) -> dict[str, Any]:
    """Return arguments in place of the environment. Raises SummaryFailed."""
    given = chosen.variables()
    if given is None:
        return {"base_url": chosen.url}
    url = chosen.url or given.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    has_token_alone = "ANTHROPIC_AUTH_TOKEN" in given and "ANTHROPIC_API_KEY" not in given
    name, variable = ("auth_token", "ANTHROPIC_AUTH_TOKEN") if has_token_alone else ("api_key", "ANTHROPIC_API_KEY")
    return {"base_url": url, name: _key(given, variable), "http_client": _http_client(url, given)}


def _key(given: Mapping[str, str], name: str) -> str:
    if name not in given:
        raise SummaryFailed(f"finds no key; set {name} in the client's environment")
    return given[name]


def _http_client(url: str, given: Mapping[str, str]) -> Any:
    """Return a client that goes by these variables alone. Raises SummaryFailed."""
    import ssl

    import httpx2

    file, folder = given.get("SSL_CERT_FILE"), given.get("SSL_CERT_DIR")
    try:
        proxy = _proxy(url, given)
        verify = ssl.create_default_context(cafile=file, capath=None if file else folder) if file or folder else True
        return httpx2.Client(proxy=proxy, verify=verify, trust_env=False, follow_redirects=True)
    except (httpx2.InvalidURL, ValueError, OSError, ImportError):  # Their words may repeat a proxy's password.
        raise SummaryFailed("cannot use the proxy or the certificates of the client's environment") from None


def _proxy(url: str, given: Mapping[str, str]) -> str | None:
    """Return the proxy on the way to that address; NO_PROXY has names of hosts, and of domains above them, or "*"."""
    at = urlsplit(url)
    host = at.hostname or ""
    for name in (each.strip().lower() for each in given.get("NO_PROXY", "").split(",")):
        if name and (name in ("*", host, at.netloc) or host.endswith(f".{name.removeprefix('.')}")):
            return None
    proxy = given.get(f"{at.scheme.upper()}_PROXY") or given.get("ALL_PROXY")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _as_sent(message: ChatMessage) -> dict[str, str]:
    return {"role": message.role, "content": message.text}


def _whole(text: str, spent: int, *, is_cut: bool) -> ModelAnswer:
    if is_cut:
        raise SummaryFailed("broke off before the summary was complete")
    return ModelAnswer(text=text, spent=spent)


@contextmanager
def _failures_told(package: str, failure: str, chosen: ChosenModel, key_variable: str) -> Generator[None]:
    """Turn any error of the library into SummaryFailed; `failure` is the base class of its own errors."""
    try:
        library: Any = import_module(package)
    except ImportError:
        raise SummaryFailed(f"needs the package {package}; install mcp-memory-stack[{package}]") from None
    logging.getLogger(package).setLevel(logging.INFO)  # At DEBUG it logs the requests: the memory's texts.
    try:
        yield
    except library.APITimeoutError:
        raise SummaryFailed(f"timed out after {chosen.timeout_seconds:g} s, {ATTEMPTS} times") from None
    except library.APIStatusError as error:
        raise _refused(error.status_code, key_variable) from None  # pyrefly: ignore[unknown-argument-type, unknown-attribute-access] - the library's own error
    except (getattr(library, failure), ValueError, TypeError, AttributeError, LookupError) as error:
        # The last four mean an answer of another shape, which the library returns unchanged, or a missing key.
        raise SummaryFailed(
            f"could not be used ({type(error).__name__}); check that it runs, summarizer_url and {key_variable}"
        ) from None


def _refused(status: int, key_variable: str) -> SummaryFailed:
    """Return the error for an HTTP status of 400 or more, with the reader's next move."""
    if status in (401, 403):
        return SummaryFailed(f"refused the key (HTTP {status}); set the right one in {key_variable}")
    if status == 404:
        return SummaryFailed("knows no such model or address (HTTP 404); check summarizer_model and summarizer_url")
    if status in (400, 413, 422):
        return SummaryFailed(f"refused the request (HTTP {status}); lower summarizer_max_input_tokens")
    return SummaryFailed(f"answered HTTP {status}")

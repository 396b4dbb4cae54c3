"""The summarizers, and a service on loopback that speaks the wire formats of OpenAI and of Anthropic."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.summarizers.chat_models import AnthropicModel, ChatModel, ChosenModel, OpenAIModel
from mcp_memory.summarizers.extractive import ExtractiveSummarizer
from mcp_memory.summarizers.model import ModelSummarizer
from tests.http_service import serving

KEY = "sk-this-key-is-for-tests-1234567890"
Api = Literal["openai", "anthropic"]
Reply = tuple[int, bytes]
"""Status and body."""


@dataclass
class Asked:
    """One request as it came: the path, and what the body holds whichever API it is of."""

    path: str
    body: dict[str, Any]
    instructions: str
    messages: list[tuple[str, str]]


@dataclass
class ModelService:
    """What was asked, and what is to be answered: those of `answers` in turn, the last of them again and again."""

    answers: list[str | Reply | None] = field(default_factory=list[str | Reply | None])
    """A text is what the model writes; None is silence until the test has ended."""
    asked: list[Asked] = field(default_factory=list[Asked])
    keys: set[str] = field(default_factory=set[str])
    url: str = ""
    broke_off: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def respond(self, path: str, key: str, body: Mapping[str, Any]) -> Reply:
        self.keys.add(key)
        messages = [(each["role"], each["content"]) for each in body["messages"]]
        system = body.get("system") or messages.pop(0)[1]
        self.asked.append(Asked(path, dict(body), system, messages))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            self.ended.wait(30)
            return 500, b"{}"
        return self._written(path, answer) if isinstance(answer, str) else answer

    def _written(self, path: str, text: str) -> Reply:
        if path.endswith("/messages"):
            body: object = {
                "id": "m1", "type": "message", "role": "assistant", "model": "some-model",
                "content": [{"type": "text", "text": text}], "stop_sequence": None,
                "stop_reason": "max_tokens" if self.broke_off else "end_turn",
                "usage": {"input_tokens": 900, "output_tokens": 100},
            }  # fmt: skip
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "finish_reason": "length" if self.broke_off else "stop", "message": message}
            usage = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
            body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "some-model", "choices": [choice],
                    "usage": usage}  # fmt: skip
        return 200, json.dumps(body).encode()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelService]:
    """A service; its clients find a key in the environment, no proxy, and no configuration of the person's own."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    service = ModelService()
    with serving(service) as service.url:
        yield service
        service.ended.set()


@pytest.fixture(scope="session")
def counter() -> TiktokenCounter:
    return TiktokenCounter("o200k_base")


@pytest.fixture
def extractive(embedder: MiniLMEmbedder, counter: TiktokenCounter) -> ExtractiveSummarizer:
    return ExtractiveSummarizer(counter)


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest) -> Api:
    return request.param


@pytest.fixture
def open_model(service: ModelService, api: Api) -> Callable[..., ChatModel]:
    """The model behind the service: `open_model(timeout_seconds=…)`."""

    def open_one(timeout_seconds: float = 20.0, **chosen: Any) -> ChatModel:
        url = f"{service.url}/v1" if api == "openai" else service.url
        model = OpenAIModel if api == "openai" else AnthropicModel
        usual: dict[str, Any] = {"name": "some-model", "url": url, "timeout_seconds": timeout_seconds}
        return model(ChosenModel(**(usual | chosen)))

    return open_one


@pytest.fixture
def open_summarizer(
    open_model: Callable[..., ChatModel], extractive: ExtractiveSummarizer, counter: TiktokenCounter
) -> Callable[..., ModelSummarizer]:
    """A summarizer by that model: `open_summarizer(timeout_seconds=…, max_input_tokens=…)`."""

    def open_one(timeout_seconds: float = 20.0, max_input_tokens: int = 100_000) -> ModelSummarizer:
        return ModelSummarizer(open_model(timeout_seconds), extractive, counter, max_input_tokens=max_input_tokens)

    return open_one

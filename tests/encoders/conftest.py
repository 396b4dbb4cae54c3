"""An embedding service on loopback, which speaks the wire formats of OpenAI and of Ollama and fails when told to."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.http_service import serving

KEY = "sk-this-key-is-for-tests-1234567890"

Answer = Callable[[list[str]], tuple[int, object]]
"""From the texts of a request to the status and the body of what is answered."""


def hashed(text: str, dimensions: int = 16) -> list[float]:
    """A vector of no particular length: each word falls into one dimension."""
    counts = [0.01] * dimensions
    for word in text.lower().split():
        counts[hashlib.blake2b(word.encode()).digest()[0] % dimensions] += 3.0
    return counts


def with_vectors(texts: list[str], vector: Callable[[str], list[float]] = hashed) -> tuple[int, object]:
    """A body that clients of both formats can read."""
    vectors = [vector(text) for text in texts]
    rows = [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(vectors)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return 200, {"object": "list", "data": rows, "model": "m", "usage": usage, "embeddings": vectors}


def refusing(status: int) -> Answer:
    """Refuse as services do that repeat the key they were given."""
    message = f"Incorrect API key provided: {KEY}"
    return lambda _texts: (status, {"error": {"message": message, "type": "t", "code": "c", "param": None}})


@dataclass
class EmbeddingService:
    """What was asked, and what is to be answered: those of `next_answers` first, then always `answer`."""

    requests: list[tuple[str, str, list[str]]] = field(default_factory=list[tuple[str, str, list[str]]])
    """Path, model and texts of each request."""
    keys: set[str] = field(default_factory=set[str])
    next_answers: list[Answer] = field(default_factory=list[Answer])
    answer: Answer = with_vectors
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def stay_silent(self, texts: list[str]) -> tuple[int, object]:
        """Answer nothing until the test has ended."""
        self.ended.wait(30)
        return with_vectors(texts)

    def respond(self, path: str, key: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        texts = body["input"]
        self.requests.append((path, body["model"], texts))
        self.keys.add(key)
        answer = self.next_answers.pop(0) if self.next_answers else self.answer
        status, answered = answer(texts)
        return status, json.dumps(answered).encode()


@pytest.fixture(autouse=True)
def loaded_once() -> None:
    """Each embedder loads its own model: these tests are about loading too."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingService]:
    """A service that answers with 16 dimensions; its clients find a key in the environment, and no proxy."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    service = EmbeddingService()
    with serving(service) as service.url:
        yield service
        service.ended.set()
        for each in threading.enumerate():
            if each.name == "embedder":  # Left behind by a request that was given up, with a socket to close.
                each.join(10)

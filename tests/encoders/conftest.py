"""An embedding service on loopback, which speaks the wire formats of OpenAI and of Ollama and fails when told to."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

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

    def respond(self, path: str, key: str, model: str, texts: list[str]) -> tuple[int, object]:
        self.requests.append((path, model, texts))
        self.keys.add(key)
        answer = self.next_answers.pop(0) if self.next_answers else self.answer
        return answer(texts)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: EmbeddingService


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Authorization", "")
        status, answer = self.server.service.respond(self.path, key, body["model"], body["input"])
        data = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # Whoever asked has given up.
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingService]:
    """A service that answers with 16 dimensions; its clients find a key in the environment, and no proxy."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    service = EmbeddingService()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.service = service
        service.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield service
        service.ended.set()
        for each in threading.enumerate():
            if each.name == "embedder":  # Left behind by a request that was given up, with a socket to close.
                each.join(10)
        server.shutdown()
        thread.join()

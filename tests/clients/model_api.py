"""A stand-in for the API of the model behind Claude Code: answers as it was told to, and keeps all that it is asked.

Knows the Messages API as far as Claude Code uses it. Thinks nothing.
"""

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call that the model asks its client for."""

    name: str
    arguments: Json


Reply: TypeAlias = ToolUse | str


@dataclass(slots=True, kw_only=True)
class Model:
    """Answers a prompt with the replies it was given for it: each tool use when the one before has been answered."""

    replies: Mapping[str, Sequence[Reply]] = field(default_factory=dict[str, Sequence[Reply]])
    """By words of the prompt."""
    words: str = "So be it."
    """The reply where none is left."""
    requests: list[Json] = field(default_factory=list[Json])
    """What it was asked so far, oldest first."""

    def answer(self, request: Json) -> Reply:
        self.requests.append(request)
        replies, used = self._replies(request["messages"])
        return replies[used] if used < len(replies) else self.words

    def _replies(self, messages: Sequence[Json]) -> tuple[Sequence[Reply], int]:
        """The replies to the newest prompt that it has any for, and how many tools were used since."""
        used = 0
        for message in reversed(messages):
            used += sum(part["type"] == "tool_use" for part in parts(message))
            for prompt, replies in self.replies.items():
                if message["role"] == "user" and prompt in _words(message):
                    return replies, used
        return (), used

    def was_told(self, number: int) -> str:
        """Every word of a request that it reads as text; -1 is the latest."""
        return "\n".join(map(_words, self.requests[number]["messages"]))


def parts(message: Json) -> list[Json]:
    """The parts of a message, whichever way it was written."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _words(message: Json) -> str:
    """Every word of a message that the model reads as text."""
    return "\n".join(str(part.get("text", "")) for part in parts(message))


def _events(answer: Reply, model: str, number: int) -> list[Json]:
    """The answer as the API streams it."""
    usage = {"input_tokens": 100, "output_tokens": 10}
    message: Json = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    block: Json
    if isinstance(answer, str):
        block, reason = Json(type="text", text=""), "end_turn"
        delta = {"type": "text_delta", "text": answer}
    else:
        block, reason = Json(type="tool_use", id=f"toolu_{number}", name=answer.name, input={}), "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
    return [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: Model


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self._send("text/plain", b"")

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        model = self.server.model
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "count_tokens" in self.path:
            self._send("application/json", b'{"input_tokens":100}')
            return
        events = _events(model.answer(request), request["model"], len(model.requests))
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._send("text/event-stream", "".join(lines).encode())

    def _send(self, content_type: str, data: bytes) -> None:
        try:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # Whoever asked has given up.
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@contextmanager
def serving(model: Model) -> Generator[str]:
    """The address under which the model answers, for as long as the block lasts."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.model = model
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

"""Clients of servers that share one memory: they store at any of them, and ask another at once for what was stored."""

from __future__ import annotations

import http.client
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load import NEWER, HttpClient
from benchmarks.replica_servers import PATIENCE_SECONDS

SHOWN = 10
IN_OTHER_WORDS = "in other words"


@dataclass
class Seen:
    """What clients were told."""

    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    """The id by the word that only this text holds."""
    rounds: int = 0
    sought: Counter[str] = field(default_factory=Counter[str])
    """Texts that another server was asked for, by how they were asked."""
    not_found: list[str] = field(default_factory=list[str])
    kept_back: int = 0
    """Sentences that the server which stored them does not name for the question either."""
    repeated: Counter[str] = field(default_factory=Counter[str])
    """Calls that were sent again, by what was told or went wrong."""
    done_before: int = 0
    seconds: list[float] = field(default_factory=list[float])
    """Of each write, all its repetitions included."""
    failed: list[str] = field(default_factory=list[str])
    times: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """When the request was sent that was answered, and when its answer was there, by the word."""
    unconfirmed: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """From when on a standby may lack what was acknowledged, until the primary was killed."""
    is_over: threading.Event = field(default_factory=threading.Event)
    is_settled: threading.Event = field(default_factory=threading.Event)
    """Set once no client waits for an answer any more."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def may_be_lost(self, word: str) -> bool:
        """Return True where the primary may have answered for it what the standby had not confirmed."""
        sent, answered = self.times[word]
        return any(sent < killed and answered > since for since, killed in self.unconfirmed)


class Caller:
    """A client that calls any of the servers. One thread at a time."""

    def __init__(self, urls: Sequence[str], secret: str, seen: Seen, seed: int) -> None:
        self._urls = urls
        self._secret = secret
        self._seen = seen
        self._rng = random.Random(seed)
        self._open: dict[str, HttpClient] = {}
        self._sent = 0.0

    def call(self, key: str, tool: str, besides: str = "", **arguments: object) -> tuple[dict[str, Any], str]:
        """Return the answer and who gave it; a call without one is repeated elsewhere. Raises RuntimeError at last."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._sent = time.monotonic()
            url = self._rng.choice([each for each in self._urls if each != besides] or self._urls)
            try:
                client = self._open.get(url) or self._open.setdefault(url, HttpClient(url, self._secret, NEWER))
                return client.call_once(key, tool, **arguments), url
            except (RuntimeError, OSError, http.client.HTTPException) as error:
                if (gone := self._open.pop(url, None)) is not None:
                    gone.close()
                with self._seen.lock:
                    self._seen.repeated[str(error) if isinstance(error, RuntimeError) else "no answer"] += 1
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{tool}: no server answered") from error
            time.sleep(0.02)

    def store(self, key: str, texts: Mapping[str, str]) -> str:
        """Store the texts by their words in one call; return the server that acknowledged it."""
        began = time.monotonic()
        answer, url = self.call(key, "remember", items=[{"text": text} for text in texts.values()])
        ids = answer.get("made") or [record["id"] for record in answer["records"]]
        with self._seen.lock:
            self._seen.seconds.append(time.monotonic() - began)
            self._seen.done_before += "made" in answer
            self._seen.times.update(dict.fromkeys(texts, (self._sent, time.monotonic())))
            self._seen.acknowledged.update(zip(texts, ids, strict=True))
        return url

    def seek(self, query: str, word: str, besides: str, how: str) -> None:
        """Ask another server for what was stored; where that does not name it, the one that stored it."""
        answer, _ = self.call("", "recall", besides, query=query, limit=SHOWN, detail="micro")
        wanted = self._seen.acknowledged[word]
        is_found = _names(answer, wanted)
        is_kept_back = not is_found and how == IN_OTHER_WORDS and not self._is_named_by(besides, query, wanted)
        with self._seen.lock:
            self._seen.sought[how] += 1
            self._seen.kept_back += is_kept_back
            if not is_found and not is_kept_back:
                self._seen.not_found.append(f"{how} ({answer.get('degraded') or 'nothing degraded'}): {word}")

    def _is_named_by(self, url: str, query: str, wanted: str) -> bool:
        elsewhere = [each for each in self._urls if each != url]
        alone = Caller([url], self._secret, self._seen, 0) if elsewhere else self
        answer, _ = alone.call("", "recall", query=query, limit=SHOWN, detail="micro")
        return _names(answer, wanted)

    def close(self) -> None:
        for client in self._open.values():
            client.close()


def _names(answer: Mapping[str, Any], record_id: str) -> bool:
    return any(result["id"] == record_id for result in answer["results"])


def work(caller: Caller, name: str, texts: Iterator[str], in_a_call: int, seen: Seen) -> None:
    """Store and seek until it is over, or there are no more texts."""
    with closing(caller):
        for turn in itertools.count():
            if seen.is_over.is_set():
                return
            with seen.lock:
                sentences = {f"{name}x{turn}x{n}": text for n, text in enumerate(itertools.islice(texts, in_a_call))}
            if not sentences:
                return
            first = next(iter(sentences))
            try:
                url = caller.store(first, {word: f"Note {word}: {text}" for word, text in sentences.items()})
                for word in sentences:
                    caller.seek(word, word, url, "by word")
                caller.seek(sentences[first], first, url, "by its sentence")
            except RuntimeError as error:
                with seen.lock:
                    seen.failed.append(str(error))

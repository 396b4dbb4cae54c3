"""Asks a service within a deadline, retries where that may help, and pauses calls for a while after a failure.

An error is reported by its HTTP status or its type, never by its text, which may repeat the key or the input. Knows
neither the client library nor the question.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from mcp_memory.errors import StoreUnavailable, TextRefused

PAUSES_SECONDS = (0.25, 1.0)
"""Pauses before the second and the third attempt."""
REST_SECONDS = 15.0
"""Seconds after a failure during which calls fail at once: a dead service must not cost each its whole deadline."""
_WORTH_REPEATING = frozenset({408, 409, 425, 429})
_REFUSALS_OF_THE_INPUT = frozenset({400, 413, 422})

_Answer = TypeVar("_Answer")
MonotonicClock = Callable[[], float]


class RemoteCalls:
    """Calls of one service, which `name` and `key_variable` describe in errors. Thread-safe."""

    def __init__(self, name: str, timeout_seconds: float, clock: MonotonicClock = time.monotonic) -> None:
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._rest = (float("-inf"), "")
        self.key_variable = "its environment variable"

    def ask(self, call: Callable[[], _Answer]) -> _Answer:
        """Return the call's answer, after at most `timeout_seconds` and three attempts.

        A call that does not end is left in a daemon thread, which does not keep the process alive.

        Raises:
            TextRefused: the service answers, but rejects the input.
            StoreUnavailable: the service failed, refused, or did so a moment ago; the message names the remedy.
        """
        until, failure = self._rest
        if self._clock() < until:
            raise StoreUnavailable(failure)
        deadline = self._clock() + self._timeout_seconds
        pauses = iter(PAUSES_SECONDS)
        while True:
            answer = _begun(call)
            error = self._error_of(answer, deadline)
            if error is None:
                return answer.result()
            pause = next(pauses, None)
            if pause is None or not _may_help(error) or self._clock() + pause >= deadline:
                raise self._failed(error)
            time.sleep(pause)

    def _error_of(self, answer: Future[_Answer], deadline: float) -> BaseException | None:
        try:
            return answer.exception(max(deadline - self._clock(), 0.0))
        except TimeoutError:
            raise self._gave_up(
                f"did not answer within {self._timeout_seconds:g} s."
                " Check that it runs, or raise embedder_timeout_seconds."
            ) from None

    def _failed(self, error: BaseException) -> StoreUnavailable:
        status = _http_status(error)
        if status in _REFUSALS_OF_THE_INPUT:  # It says nothing about the next text.
            return TextRefused(f"Embedder {self._name} {self._reason(status, error)}")
        return self._gave_up(self._reason(status, error))

    def _gave_up(self, reason: str) -> StoreUnavailable:
        message = f"Embedder {self._name} {reason}"
        self._rest = (self._clock() + REST_SECONDS, message)
        return StoreUnavailable(message)

    def _reason(self, status: int | None, error: BaseException) -> str:
        if status is None:
            return f"could not be used ({type(error).__name__}). Check that it runs, and embedder_url."
        if status in (401, 403):
            return f"refused the key (HTTP {status}). Set the right one in {self.key_variable}."
        if status == 404:
            return "knows no such model or address (HTTP 404). Check embedder_model and embedder_url."
        if status in _REFUSALS_OF_THE_INPUT:
            return (
                f"refused the text (HTTP {status})."
                " Check embedder_model and embedder_options, or lower embedder_window_characters."
            )
        return f"answered HTTP {status}. Try again in a minute."


def _begun(call: Callable[[], _Answer]) -> Future[_Answer]:
    """Run the call in a daemon thread: the process would wait for a pool's threads when it ends."""
    answer: Future[_Answer] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:  # noqa: BLE001 - two dozen clients with errors of their own; all reach the caller
            answer.set_exception(error)

    threading.Thread(target=run, name="embedder", daemon=True).start()
    return answer


def _may_help(error: BaseException) -> bool:
    status = _http_status(error)
    return status is None or status >= 500 or status in _WORTH_REPEATING


def _http_status(error: BaseException | None) -> int | None:
    """Return the status that the error, or one behind it, carries in either of the two customary places."""
    while error is not None:
        for place in (error, getattr(error, "response", None)):
            status = getattr(place, "status_code", None)
            if isinstance(status, int) and status >= 400:
                return status
        error = error.__cause__ or error.__context__
    return None

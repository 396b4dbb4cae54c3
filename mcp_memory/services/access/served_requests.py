"""The requests that are being served: each has an id, a span, a line in the log, and an entry in the log of reads.

A request is known to all that works for it, in copies of its context as well. Nothing here holds a text or a query.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from mcp_memory.domain.model.ids import RECORD, is_id
from mcp_memory.ports.reads import ALL_RECORDS
from mcp_memory.ports.tracing import traced

if TYPE_CHECKING:
    from mcp_memory.domain.model.scopes import Caller

logger = logging.getLogger(__name__)

ID_BYTES: Final = 8
_TEXTS: Final = frozenset({"text", "summary", "micro"})
"""Fields of an answer that hold a record's words; with an id alone nothing of the record is given."""


@dataclass(slots=True, kw_only=True)
class ServedRequest:
    """A request: its way in as `ReadEntry` has it, who sent it as far as that is known, and the records it was given.

    `outcome` is "ok", "error" where the answer says what went wrong, or "failed" where there was none.
    """

    way: str
    agent: str = ""
    token: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(ID_BYTES))
    caller: Caller | None = None
    given: dict[str, None] = field(default_factory=dict[str, None])
    outcome: str = "ok"


_present: ContextVar[ServedRequest | None] = ContextVar("served_request", default=None)


def present_request() -> ServedRequest | None:
    """Return the request for which this context works; None where it works for none, as upkeep does."""
    return _present.get()


def asked_by(caller: Caller) -> None:
    """Note who sends the present request."""
    if request := _present.get():
        request.caller, request.agent = caller, caller.agent


def gave(ids: Iterable[str]) -> None:
    """Note that the present request is given these records, or ALL_RECORDS; ids of other things are passed over."""
    if request := _present.get():
        request.given.update(dict.fromkeys(filter(_is_of_record, ids)))


def _is_of_record(some_id: str) -> bool:
    return some_id == ALL_RECORDS or is_id(some_id, RECORD)


def gave_in(answer: object) -> None:
    """Note the records whose words stand in an answer made of mappings and sequences: `{"id": …, "text": …}`."""
    if _present.get():
        gave(_ids_in(answer))


def _ids_in(answer: object) -> Iterator[str]:
    if isinstance(answer, Mapping):
        named = cast("Mapping[str, object]", answer)
        if isinstance(found := named.get("id"), str) and not _TEXTS.isdisjoint(named):
            yield found
        # What a record's details say is a caller's own: an id there gives nothing.
        parts: Iterable[object] = (value for name, value in named.items() if name != "details")
    elif isinstance(answer, (list, tuple)):
        parts = cast("Iterable[object]", answer)
    else:
        return
    for part in parts:
        yield from _ids_in(part)


class RequestsServed:
    """Serves requests, one for each call. Thread-safe."""

    def __init__(self, note: Callable[[ServedRequest], object] | None) -> None:
        """`note` takes what has been answered, for the log of reads; None where the memory keeps none."""
        self._note = note

    @contextmanager
    def __call__(
        self, way: str, *, agent: str = "", token: str = "", parent: Mapping[str, str] | None = None
    ) -> Generator[ServedRequest]:
        """Serve a request as long as the context lasts. `parent` is that of `Tracer`."""
        request, started = ServedRequest(way=way, agent=agent, token=token), time.perf_counter()
        token_of_context = _present.set(request)
        try:
            with traced(way, parent=parent, request=request.id) as span:
                try:
                    yield request
                except BaseException:
                    request.outcome = "failed"
                    raise
                finally:
                    span.tell(records=len(request.given), outcome=request.outcome)
            if self._note:
                self._note(request)
        finally:
            if logger.isEnabledFor(logging.INFO):
                _log(request, time.perf_counter() - started)
            _present.reset(token_of_context)


def _log(request: ServedRequest, seconds: float) -> None:
    """Write the line of a request that has ended: who, by which way, how long, how many records."""
    figures = {"milliseconds": round(seconds * 1000, 1), "records": len(request.given), "outcome": request.outcome}
    logger.info(
        "%s for %s: %s in %.1f ms, %d records [%s]",
        request.way, request.agent or "nobody", request.outcome, seconds * 1000, len(request.given), request.id,
        extra={"figures": figures},
    )  # fmt: skip

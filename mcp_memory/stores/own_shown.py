"""The owner of a memory keeps in its own what its clients were shown: implements both ports of `shown`."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping

from mcp_memory.domain.memory.echoes import strip_recalled
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.words import normal_hash
from mcp_memory.ports.shown import ShownContext

KEPT = 20_000
"""Texts remembered, the latest; each takes about 200 bytes."""
CONTEXTS_KEPT = 256
UNREAD = 200
"""Answers kept undigested between two writes: reads stay fast, and a process that never writes keeps the latest."""

_Key = tuple[str, str, str]
_OfSession = tuple[str, str, str, str]


class OwnShown:
    """Implements `ShownTexts` and `ShownContexts`; what it knows ends with the process."""

    def __init__(self, begun: Callable[[Caller], int] = lambda _: 0) -> None:
        """`begun` returns the revision at which a caller's session began; it counts for records never shown to it."""
        self._begun = begun
        self._seen: OrderedDict[_OfSession, int] = OrderedDict()
        self._ids: OrderedDict[_Key, str] = OrderedDict()
        self._unread: deque[tuple[Caller, tuple[tuple[str, str], ...]]] = deque(maxlen=UNREAD)
        self._contexts: OrderedDict[_OfSession, ShownContext] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, shown: ShownContext, caller: Caller) -> None:
        key = _session_key(caller, shown.report.id)
        with self._lock:
            self._contexts[key] = shown
            self._contexts.move_to_end(key)
            while len(self._contexts) > CONTEXTS_KEPT:
                self._contexts.popitem(last=False)

    def shown(self, context_id: str, caller: Caller) -> ShownContext | None:
        with self._lock:
            return self._contexts.get(_session_key(caller, context_id))

    def forget(self) -> None:
        with self._lock:
            self._contexts.clear()

    def note(self, caller: Caller, texts: Iterable[tuple[str, str]], revision: int) -> None:
        """Keep the texts; the next `find` digests them."""
        texts = tuple(texts)
        self.see(caller, [record_id for record_id, _ in texts], revision)
        with self._lock:
            self._unread.append((caller, texts))

    def see(self, caller: Caller, record_ids: Iterable[str], revision: int) -> None:
        with self._lock:
            for record_id in record_ids:
                key = _session_key(caller, record_id)
                self._seen[key] = max(revision, self._seen.pop(key, 0))
            while len(self._seen) > KEPT:
                self._seen.popitem(last=False)

    def seen(self, caller: Caller, record_ids: Collection[str]) -> Mapping[str, int]:
        with self._lock:
            known = {each: self._seen.get(_session_key(caller, each)) for each in record_ids}
        return {record_id: revision for record_id, revision in known.items() if revision is not None}

    def begun(self, caller: Caller) -> int:
        return self._begun(caller)

    def find(self, caller: Caller, texts: Collection[str]) -> Mapping[str, str]:
        with self._lock:
            while self._unread:
                self._digest(*self._unread.popleft())
            found = {text: self._ids.get(_text_key(caller, text)) for text in texts}
        return {text: record_id for text, record_id in found.items() if record_id}

    def _digest(self, caller: Caller, texts: Iterable[tuple[str, str]]) -> None:
        for record_id, text in texts:
            key = _text_key(caller, strip_recalled(text)[0])
            self._ids[key] = record_id
            self._ids.move_to_end(key)
        while len(self._ids) > KEPT:
            self._ids.popitem(last=False)


def _text_key(caller: Caller, text: str) -> _Key:
    return (caller.namespace, caller.agent, normal_hash(text))


def _session_key(caller: Caller, named: str) -> _OfSession:
    return (caller.namespace, caller.agent, caller.session_id, named)

"""Echo filter: remembers the texts that this process gave its agent, because storing one again confirms nothing."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable

from mcp_memory.domain.memory.echoes import strip_recalled
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.words import normal_hash

KEPT = 20_000
"""Texts remembered, the latest; each takes about 200 bytes."""

UNREAD = 200
"""Answers kept undigested between two writes: reads stay fast, and a process that never writes keeps the latest."""

_Key = tuple[str, str, str]


class EchoFilter:
    """A bounded memory of texts by their digest, which ends with the process. Thread-safe.

    It belongs to the agent, not the session: a text read in one session and stored in another is an echo too.
    """

    def __init__(self) -> None:
        self._ids: OrderedDict[_Key, str] = OrderedDict()
        self._unread: deque[tuple[Caller, tuple[tuple[str, str], ...]]] = deque(maxlen=UNREAD)
        self._lock = threading.Lock()

    def note(self, caller: Caller, texts: Iterable[tuple[str, str]]) -> None:
        """Remember (record id, text as shown), with or without its label. The next `find` digests it."""
        with self._lock:
            self._unread.append((caller, tuple(texts)))

    def find(self, caller: Caller, text: str) -> str | None:
        """Return the id of the record that was shown with this text; None without one."""
        with self._lock:
            while self._unread:
                self._digest(*self._unread.popleft())
            return self._ids.get(self._key(caller, text))

    def _digest(self, caller: Caller, texts: Iterable[tuple[str, str]]) -> None:
        for record_id, text in texts:
            key = self._key(caller, strip_recalled(text)[0])
            self._ids[key] = record_id
            self._ids.move_to_end(key)
        while len(self._ids) > KEPT:
            self._ids.popitem(last=False)

    def _key(self, caller: Caller, text: str) -> _Key:
        return (caller.namespace, caller.agent, normal_hash(text))

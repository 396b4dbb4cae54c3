"""Echo filter: remembers what this process showed its agent. Storing that again confirms nothing."""

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
_Seen = tuple[str, str, str, str]


class EchoFilter:
    """A bounded memory of texts by their digest, and of records by their revision. It ends with the process.

    Texts belong to the agent: one read in one session and stored in another is an echo too. What was seen belongs to
    the session, of which another window of the agent knows nothing. Thread-safe.
    """

    def __init__(self, begun: int = 0) -> None:
        """`begun` is the revision at which the process began; it counts for records that it never showed."""
        self.begun = begun
        self._seen: OrderedDict[_Seen, int] = OrderedDict()
        self._ids: OrderedDict[_Key, str] = OrderedDict()
        self._unread: deque[tuple[Caller, tuple[tuple[str, str], ...]]] = deque(maxlen=UNREAD)
        self._lock = threading.Lock()

    def note(self, caller: Caller, texts: Iterable[tuple[str, str]], revision: int) -> None:
        """Remember (record id, text as shown), with or without its label, as of a revision.

        The next `find` digests the texts.
        """
        texts = tuple(texts)
        self.see(caller, [record_id for record_id, _ in texts], revision)
        with self._lock:
            self._unread.append((caller, texts))

    def see(self, caller: Caller, record_ids: Iterable[str], revision: int) -> None:
        """Remember that the caller's session knows these records as of a revision."""
        with self._lock:
            for record_id in record_ids:
                key = _seen_key(caller, record_id)
                self._seen[key] = max(revision, self._seen.pop(key, 0))
            while len(self._seen) > KEPT:
                self._seen.popitem(last=False)

    def seen(self, caller: Caller, record_id: str) -> int | None:
        """Return the latest revision at which the caller's session was shown the record; None where it is not known."""
        with self._lock:
            return self._seen.get(_seen_key(caller, record_id))

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


def _seen_key(caller: Caller, record_id: str) -> _Seen:
    return (caller.namespace, caller.agent, caller.session_id, record_id)

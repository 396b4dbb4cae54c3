"""Which records this process handed to which session: stored again there, they are an echo and confirm nothing."""

import threading
from collections import OrderedDict
from collections.abc import Iterable

from mcp_memory.domain.scopes import Caller

REMEMBERED_PER_SESSION = 5_000
SESSIONS = 64


class GivenOut:
    """A bounded memory of ids, forgotten with the process. Thread-safe."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, caller: Caller, record_ids: Iterable[str]) -> None:
        with self._lock:
            ids = self._ids.setdefault(caller.session_id, OrderedDict())
            self._ids.move_to_end(caller.session_id)
            ids.update(dict.fromkeys(record_ids))
            while len(ids) > REMEMBERED_PER_SESSION:
                ids.popitem(last=False)
            while len(self._ids) > SESSIONS:
                self._ids.popitem(last=False)

    def holds(self, caller: Caller, record_id: str) -> bool:
        with self._lock:
            return record_id in self._ids.get(caller.session_id, ())

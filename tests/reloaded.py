"""A follower whose indexes begin anew again and again."""

from __future__ import annotations

from typing import Any

from mcp_memory.stores.follower import Follower


class ReloadingFollower(Follower):
    """Before the second request, the fourth, the eighth and so on, every partition is evicted.

    So its answers are those of arrays that were loaded, with much or little that changed since.
    """

    def __init__(self, records: Any) -> None:
        super().__init__(records)
        self._asked = 0

    def _enter(self, partitions: Any) -> Any:
        self._asked += 1
        if self._asked.bit_count() == 1:
            self.forget()
        return super()._enter(partitions)

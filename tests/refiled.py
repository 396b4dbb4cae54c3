"""A follower whose indexes go through files again and again."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from mcp_memory.stores.follower import Follower
from mcp_memory.stores.index_files import IndexFiles

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A folder without a disk, where there is one: what is flushed a thousand times need not reach it."""


class RefiledFollower(Follower):
    """Before the second request, the fourth, the eighth and so on, indexes are written to files and mapped from there.

    So its answers are those of mapped arrays with much or little that changed since.
    """

    def __init__(self, records: Any) -> None:
        folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(records, IndexFiles(folder, dict, lambda: 0))
        self._asked = 0

    def _enter(self) -> Any:
        with self._turn:
            self._asked += 1
            if self._files and not self._requests and self._asked.bit_count() == 1:
                for index, embedder in self._filed.items():
                    self._files.save(index.name, self._applied[index], index.packed(), embedder)
                    self._outside.add(index)
        return super()._enter()

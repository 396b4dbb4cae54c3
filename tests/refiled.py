"""A follower whose indexes are written to files and mapped again before every request that finds them unused."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from mcp_memory.stores.follower import Follower
from mcp_memory.stores.index_files import IndexFiles
from mcp_memory.stores.records import SqliteRecordStore


class RefiledFollower(Follower):
    """Each answer of its indexes is one of mapped arrays with what changed since."""

    def __init__(self, records: Any) -> None:
        assert isinstance(records, SqliteRecordStore)
        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        records.identity()  # Not made inside a snapshot.
        super().__init__(records, IndexFiles(folder, records.stamp, records.newest_erasure))

    def _enter(self) -> Any:
        with self._turn:
            if self._files and not self._requests:
                for index, embedder in self._filed.items():
                    self._files.save(index.name, self._applied[index], index.packed(), embedder)
                    self._outside.add(index)
        return super()._enter()

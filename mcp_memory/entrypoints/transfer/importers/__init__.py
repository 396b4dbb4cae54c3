"""Importers of what other memory servers keep: one server per file. What has no place here is counted.

Nothing is ever written to what is read, and no link leads out of it. Each item names its importer as its session, so
that a second run finds every text known and confirms none. To add one: a module with a function of this shape that
bounds what it reads (`bounded_files`), and a line below.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.transfer.importers.basic_memory import read_basic_memory
from mcp_memory.entrypoints.transfer.importers.claude_mem import read_claude_mem
from mcp_memory.entrypoints.transfer.importers.fitting import SHORTENED, fitted
from mcp_memory.entrypoints.transfer.importers.reference import read_reference

Importer = Callable[[Path, str | None, Counter[str]], Iterator[NewRecord]]
"""Called with the file or folder, the one project in it that is meant, and what to count things in that are left out.

Raises InvalidRequest where it is not what that server keeps; the message says what to name instead.
"""

IMPORTERS: Mapping[str, Importer] = {
    "reference": read_reference,
    "basic-memory": read_basic_memory,
    "claude-mem": read_claude_mem,
}

__all__ = ["IMPORTERS", "SHORTENED", "Importer", "fitted"]

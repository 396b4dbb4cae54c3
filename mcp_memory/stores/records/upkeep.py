"""Keeps what is derived of the records' texts current, in any database: the part of `StoreUpkeep` without files."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from mcp_memory.domain.model.scopes import by_partition, partition_of
from mcp_memory.domain.text.words import packed_terms
from mcp_memory.ports.indexes import Finding
from mcp_memory.stores.records.database import NO_PARTITION, Database, Row, meta
from mcp_memory.stores.records.erasures import UNPURGED
from mcp_memory.stores.records.rows import record_from_row
from mcp_memory.stores.records.sql_files import MIGRATED
from mcp_memory.stores.records.transaction import advance

TERMS, TERMS_VERSION = "terms", "3"
"""Name in `meta` of the rule that derived the terms, and of the last row looked at while some are left ("2 to 500").
The second rule finds what the line of an event shows, the third knows the languages of words."""


class SqlUpkeep(ABC):
    """Implements a part of `StoreUpkeep`; the port documents each method."""

    _database: Database

    @abstractmethod
    def purge(self, *, patiently: bool = True) -> Sequence[str]: ...

    @abstractmethod
    def backup(self, target: str) -> None: ...

    @abstractmethod
    def defects(self) -> Sequence[str]: ...

    @abstractmethod
    def engine(self) -> str: ...

    @abstractmethod
    def erased_remains(self) -> str: ...

    def examine_server(self) -> Sequence[Finding]:
        return ()

    def is_purge_pending(self) -> bool:
        return self._noted(UNPURGED) is not None

    def migrated(self) -> str:
        return self._noted(MIGRATED) or ""

    def stale_terms(self) -> Sequence[str]:
        with self._database.read() as connection:
            return _stale(connection.run("terms_after", {"after": 0, "limit": sys.maxsize}))

    def catch_up_terms(self, limit: int) -> bool:
        version, _, after = (self._noted(TERMS) or "").partition(" to ")
        if version == TERMS_VERSION and not after:
            return False
        begin = int(after) if version == TERMS_VERSION else 0
        with self._database.read() as connection:
            rows = connection.run("terms_after", {"after": begin, "limit": limit}).fetchall()
        if stale := _stale(rows):
            self.renew_terms(stale)
        is_left = len(rows) == limit
        with self._database.write(partition=NO_PARTITION) as connection:
            noted = f"{TERMS_VERSION} to {rows[-1]['row']}" if is_left else TERMS_VERSION
            connection.run("put_meta", (TERMS, noted))
        return is_left

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        for partition, ids in self._by_partition(record_ids).items():
            with self._database.write(partition=partition) as connection:
                rows = connection.run("records_of", (json.dumps(ids),)).fetchall()
                here = [each for each in map(record_from_row, rows) if connection.holds(partition_of(each.scope))]
                for record in here:
                    connection.run("put_terms", {"id": record.id, "terms": packed_terms(record.indexed_text)})
                advance(connection, [record.id for record in here])

    def _by_partition(self, record_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the records by their partitions, in the order given; those that were erased are left out."""
        rows = self._database.rows("scopes_of", {"ids": json.dumps(record_ids)})
        return {name: [row["id"] for row in some] for name, some in by_partition(rows, itemgetter("scope")).items()}

    def count_orphans(self) -> int:
        return self._database.rows("count_orphans")[0][0]

    def drop_orphans(self) -> None:
        with self._database.write() as connection:
            connection.run("drop_orphans")

    def _noted(self, name: str) -> str | None:
        with self._database.read() as connection:
            return meta(connection, name)


def _stale(rows: Iterable[Row]) -> list[str]:
    """Return ids of the records whose terms are not those of their text."""
    texts = ((terms, record_from_row(columns)) for _, terms, *columns in rows)
    return [record.id for terms, record in texts if terms != packed_terms(record.indexed_text)]

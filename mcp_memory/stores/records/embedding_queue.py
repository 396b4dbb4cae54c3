"""Gives records their vectors after they were stored: implements `EmbeddingQueue`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.records.database import Connection, Database, Row, Write, meta
from mcp_memory.stores.records.rows import record_from_row
from mcp_memory.stores.records.transaction import advance, refuse_other_dimensions

MadeVectors = Mapping[tuple[str, int], "Vectors | None"]
"""Vectors by the id of their record and the change that it had; None where its text has none."""


class SqlEmbeddingQueue:
    """Implements `EmbeddingQueue` on the database of a record store; the port documents each method."""

    _database: Database
    _embedder: str

    def embedder_id(self) -> str | None:
        rows = self._database.rows("get_meta", ("embedder",))
        return rows[0]["value"] if rows else None

    def unembedded(self, embedder: str, limit: int, after: str = "") -> Sequence[tuple[str, int, str]]:
        asked = {"embedder": embedder, "limit": limit, "after": after}
        rows = self._database.rows("unembedded", asked)
        return _texts(rows)

    def awaiting_vectors(self, limit: int, among: Collection[str] | None = None) -> Sequence[tuple[str, int, str]]:
        if among is None:
            return _texts(self._database.rows("awaiting_vectors", (limit,)))
        asked = {"ids": json.dumps([*among]), "limit": limit}
        return _texts(self._database.rows("awaiting_vectors_among", asked))

    def awaiting_vectors_in(self, scopes: Collection[str], limit: int) -> Sequence[tuple[str, int, str]]:
        asked = {"scopes": json.dumps([*scopes]), "limit": limit}
        return _texts(self._database.rows("awaiting_vectors_in", asked))

    def count_unembedded(self, where: RecordFilter | None = None) -> int:
        if where is None:
            return self._database.rows("count_awaiting")[0][0]
        asked = {"scopes": json.dumps(where.scopes), "hidden": json.dumps(sorted(where.hidden_branches))}
        return self._database.rows("count_awaiting_in", asked)[0][0]

    def add_vectors(self, embedder: str, vectors: MadeVectors) -> None:
        for partition, some in self._parted(vectors).items():
            with self._database.write(partition=partition) as connection:
                _add_all(connection, embedder, some)

    def _parted(self, vectors: MadeVectors) -> Mapping[str | None, MadeVectors]:
        """Return what one write each adds, by its partition; None for all of them."""
        return {None: vectors}

    def count_refused(self, embedder: str) -> int:
        return self._database.rows("count_refused", (embedder,))[0][0]

    def forget_refusals(self, embedder: str) -> None:
        with self._database.write() as connection:
            connection.run("await_refused", {"embedder": embedder})
            connection.run("forget_refusals", (embedder,))

    def adopt_embedder(self, embedder: str) -> bool:
        with self._database.write() as connection:
            if _lacks(connection, embedder):
                return False
            change = connection.next_change()
            connection.run("put_meta", ("embedder", embedder))
            connection.run("none_awaits_vectors")
            connection.run("drop_other_vectors", (embedder,))
            connection.run("touch_all_changes", (change,))
            connection.run("touch_all_partitions", {"newest": change, "last_write": connection.mark})
            return True


def _texts(rows: Sequence[Row]) -> Sequence[tuple[str, int, str]]:
    return [(row["id"], row["change"], record_from_row(tuple(row)[1:]).searchable_text) for row in rows]


def _lacks(connection: Connection, embedder: str) -> bool:
    return connection.run("lacking", (embedder,)).fetchone() is not None


def _add_all(connection: Write, embedder: str, vectors: MadeVectors) -> None:
    done = [key for key, rows in vectors.items() if _add(connection, embedder, key, rows)]
    known = meta(connection, "embedder")
    if known not in (None, embedder):
        return  # Of the next embedder: nothing is told before it is adopted.
    connection.run_each("have_vectors", [(record_id,) for record_id, _ in done])
    if added := [key[0] for key in done if vectors[key] is not None]:
        if known is None:  # Refusals alone do not set the store's embedder.
            connection.run("put_meta", ("embedder", embedder))
        advance(connection, added)


def _add(connection: Connection, embedder: str, key: tuple[str, int], rows: Vectors | None) -> bool:
    """Add one record's vectors, or that there can be none; return False where the record has changed or is gone."""
    columns = {"embedder": embedder, "windows": 0, "vector": b"", "id": key[0], "change": key[1]}
    if rows is not None:
        refuse_other_dimensions(connection, embedder, rows)
        columns |= {"windows": len(rows), "vector": rows.tobytes()}
    return connection.run("put_vectors_if_unchanged", columns).rowcount > 0

"""Groups of records to review: writes and reads them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter

from mcp_memory.domain.model.reviews import Review, ReviewKind
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.stores.records.database import NO_PARTITION, Connection, Database, Row, meta

_LOOKED_AT = "reviewed"
"""Name in `meta` of the newest change that upkeep has looked at."""


class SqlReviews:
    """Implements `ReviewStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(
        self, where: RecordFilter, task_id: str | None = None, session: str | None = None, record_id: str | None = None
    ) -> Sequence[Review]:
        with self._database.snapshot():
            rows = self._database.matching(
                "waiting_reviews", where, by_task=task_id, by_session=session, with_record=record_id
            )
            return self._read(rows)

    def settled(self, where: RecordFilter, limit: int) -> Sequence[Review]:
        with self._database.snapshot():
            return self._read(self._database.matching("settled_reviews", where, limit=limit))

    def reviewed(self, record_ids: Collection[str], kind: ReviewKind) -> frozenset[str]:
        asked = {"ids": json.dumps(list(record_ids)), "kind": kind}
        return frozenset(row[0] for row in self._database.rows("reviewed", asked))

    def contradicting(self, record_ids: Collection[str]) -> Sequence[tuple[str, str]]:
        if not record_ids:
            return []
        rows = self._database.rows("contradicting", (json.dumps(list(record_ids)),))
        return [(one, other) for one, other in rows]

    def doubted(self, since: int, until: int) -> Sequence[tuple[str, str, Sequence[str]]]:
        rows = self._database.rows("newly_doubted", {"since": since, "until": until})
        groups = groupby(rows, key=itemgetter(0, 1))
        return [(scope, ground, [row[2] for row in some]) for (ground, scope), some in groups]

    def looked_at(self) -> int:
        with self._database.read() as connection:
            return int(meta(connection, _LOOKED_AT) or 0)

    def note_looked_at(self, change: int) -> None:
        with self._database.write(durable=False, partition=NO_PARTITION) as connection:
            connection.run("put_meta", (_LOOKED_AT, str(change)))

    def _read(self, rows: Sequence[Row]) -> Sequence[Review]:
        with self._database.read() as connection:
            return [read_review(connection, row) for row in rows]


def get_review(connection: Connection, review_id: str) -> Review | None:
    row = connection.run("get_review", (review_id,)).fetchone()
    return read_review(connection, row) if row else None


def read_review(connection: Connection, row: Row) -> Review:
    """Return the group of a row of `reviews`, with its records."""
    members = connection.run("review_records", (row["id"],)).fetchall()
    columns = {name: row[name] for name in row.keys()}  # noqa: SIM118 - iterating a row gives its values
    record_ids = tuple(record_id for record_id, _ in members)
    return Review(**columns, record_ids=record_ids, hashes=tuple(digest for _, digest in members))


def put_review(connection: Connection, review: Review) -> None:
    columns = asdict(review)
    pairs = list(zip(columns.pop("record_ids"), columns.pop("hashes"), strict=True))
    connection.run("put_review", columns)
    connection.run("put_review_records", {"id": review.id, "pairs": json.dumps(pairs)})

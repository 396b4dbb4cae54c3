"""Erasures in the database: writes the digests of erased text, finds and rewrites quotations of it.

Implements `ErasureWriter` on the connection of a transaction.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from mcp_memory.domain.memory.erased_text import (
    ErasedMarks,
    Words,
    fields_without,
    finding,
    lasting_pieces,
    marks_of,
    quoting,
    texts_of,
    whole_digests,
)
from mcp_memory.domain.model.graph import aliases_of
from mcp_memory.domain.model.records import Details, Instant, Record, map_strings
from mcp_memory.domain.model.scopes import scope_key
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.text.words import entity_key
from mcp_memory.stores.records.database import Connection, meta
from mcp_memory.stores.records.replacements import SqlLogWriter
from mcp_memory.stores.records.rows import record_from_row, task_from_row, task_to_columns

ERASURE_KEY = "erasure_key"
"""Name in `meta` of the random key of all digests."""
UNPURGED = "unpurged"
"""Name in `meta` of the newest change that erased something whose bytes may still be in the file."""
REWRITTEN_ROWS = "rewritten_rows"
"""Name in `meta` of the records and tasks, a JSON list, that quoted what was erased, until the bytes are gone."""
MOST_LOOKED_FOR = 12
"""Words that SQLite looks for; of more pieces every record is read."""


class SqlErasures(SqlLogWriter):
    """Implements `ErasureWriter` on a connection whose transaction has begun."""

    def erased(self, scopes: Iterable[str]) -> ErasedMarks:
        return erased_marks(self._db, scopes)

    def note_erased(self, records: Iterable[Record], common: Collection[Words], at: Instant) -> None:
        key = self._erasure_key()
        for record in records:
            pieces = lasting_pieces(record) - frozenset(common)
            for width, digest in [*marks_of(pieces, key), *((0, each) for each in whole_digests(record, key, common))]:
                self._defer("add_erased", {"scope": record.scope, "width": width, "digest": digest, "at": at})

    def allow_again(self, digests: Iterable[tuple[int, bytes]], scopes: Iterable[str]) -> None:
        where = json.dumps([*scopes])
        for width, digest in digests:
            self._run("drop_erased", {"width": width, "digest": digest, "scopes": where})

    def accounts_of(self, record_ids: Collection[str], tags: Collection[str], scopes: Iterable[str]) -> Sequence[str]:
        asked = {"ids": json.dumps([*record_ids]), "tags": json.dumps([*tags]), "scopes": json.dumps([*scopes])}
        return [row["id"] for row in self._run("accounts_of", asked)]

    def quoting(self, pieces: Collection[Words], scopes: Iterable[str]) -> Sequence[Record]:
        asked = {"scopes": json.dumps([*scopes]), "words": _looked_for(pieces)}
        records = (record_from_row(row) for row in self._run("maybe_quoting", asked)) if pieces else ()
        held_in = finding(pieces)
        return [record for record in records if any(map(held_in, (*texts_of(record), *record.tags)))]

    def quoting_tasks(self, pieces: Collection[Words], namespace: str) -> Sequence[Task]:
        tasks = (task_from_row(row) for row in self._run("list_tasks", (namespace,))) if pieces else ()
        held_in = finding(pieces)
        return [task for task in tasks if any(held_in(text) for text in _said_of(task))]

    def strip_quotations(self, pieces: Collection[Words], scopes: Iterable[str], namespace: str) -> Sequence[str]:
        if not pieces:
            return ()
        cut = quoting(pieces)
        asked = {"scopes": json.dumps([*scopes]), "words": _looked_for(pieces)}
        versions = [(row["record_id"], json.loads(row["before"])) for row in self._run("maybe_quoting_versions", asked)]
        stripped = dict.fromkeys(record_id for record_id, before in versions if map_strings(before, cut) != before)
        for record_id in stripped:
            self._run("strip_versions", (record_id,))
        rows = self._run("maybe_quoting_replacements", {**asked, "namespace": namespace}).fetchall()
        saying = json.dumps([row["row"] for row in rows if cut(row["text"]) != row["text"]])
        covered = [row["record_id"] for row in self._run("covers", (saying,))]
        stating = self._strip_statements(lambda text: cut(text) != text, asked)
        if stripped or covered or stating:
            self._note_rewritten(*stripped, *covered, *stating)
        self._run("drop_replacements", (saying,))
        return stating

    def _strip_statements(self, is_quoting: Callable[[str], bool], asked: Mapping[str, str]) -> Sequence[str]:
        """Remove entities, properties and relations that quote; return the ids of the records that stated them."""
        stating: dict[str, None] = {}
        for row in self._run("maybe_quoting_relations", asked).fetchall():
            if is_quoting(row["type"]):
                self._run("drop_relations_of_type", (row["record_id"], row["type"]))
                stating[row["record_id"]] = None
        for row in self._run("maybe_quoting_mentions", asked).fetchall():
            told: Details = json.loads(row["properties"])
            kept = fields_without(told, is_quoting)
            if is_quoting(row["name"]) or is_quoting(row["type"]):
                self._run("drop_entity", {"old": row["entity"]})
            elif kept != told:
                self._put_properties(row["entity"], row["record_id"], kept)
            else:
                continue
            stating[row["record_id"]] = None
        for record_id in stating:
            self._run("touch_change", (self._next_change(), record_id))  # The graph's index reads it again.
        self._tally.note_touched(self._db, [*stating])
        return [*stating]

    def _put_properties(self, entity: int, record_id: str, properties: Details) -> None:
        said = json.dumps(dict(properties), ensure_ascii=False)
        self._run("put_properties", {"entity": entity, "record_id": record_id, "properties": said})
        self._run("drop_aliases", {"entity": entity, "record_id": record_id})
        for alias in aliases_of(properties):
            self._run("add_alias", (entity, record_id, entity_key(alias)))

    def rewrite_task(self, task: Task) -> None:
        self._put_task("update_task", task)
        self._note_rewritten(task.id)

    def _put_task(self, statement: str, task: Task) -> None:
        change = self._next_change()
        self._defer(statement, task_to_columns(task, change))
        self._tally.note(scope_key("shared", task.namespace, ""), change)

    def _note_rewritten(self, *ids: str) -> None:
        """Note records and tasks whose words went, until the file and the copies beside it have them no more."""
        noted = json.loads(meta(self._db, REWRITTEN_ROWS) or "[]")
        self._run("put_meta", (REWRITTEN_ROWS, json.dumps([*noted, *ids])))
        self._run("put_meta", (UNPURGED, str(self._next_change())))

    def _erasure_key(self) -> bytes:
        self._run("add_meta", (ERASURE_KEY, secrets.token_hex(32)))
        return bytes.fromhex(meta(self._db, ERASURE_KEY) or "")


def erased_marks(connection: Connection, scopes: Iterable[str]) -> ErasedMarks:
    """Return the digests of what was erased in these scopes; without any, what is false."""
    digests: dict[int, dict[bytes, Instant]] = {}
    for width, digest, at in connection.run("erased_marks", (json.dumps([*scopes]),)):
        digests.setdefault(width, {})[digest] = at  # The latest of several scopes comes last.
    if not digests:
        return ErasedMarks()
    key = bytes.fromhex(meta(connection, ERASURE_KEY) or "")
    return ErasedMarks(key=key, digests=digests)


def _looked_for(pieces: Collection[Words]) -> str:
    """Return the words, as a JSON list, of which every quotation in ASCII has one: the longest of each piece."""
    # SQLite knows the two cases of ASCII letters alone, and no "ß": it yields every text that has other characters.
    longest = {max((word for word in piece if word.isascii()), key=len, default="") for piece in pieces}
    return json.dumps([""] if len(longest) > MOST_LOOKED_FOR or "" in longest else sorted(longest))


def _said_of(task: Task) -> Iterator[str]:
    yield from (task.goal, task.result or "", task.success_criteria or "", *task.artifacts)

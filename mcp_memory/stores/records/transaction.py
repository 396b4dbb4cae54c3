"""One atomic write to the truth: every method takes its change numbers from the one sequence."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from mcp_memory.domain.memory.erased_text import ErasedMarks, Words
from mcp_memory.domain.model.contexts import Exclusion
from mcp_memory.domain.model.graph import aliases_of
from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.records import Details, Entity, Instant, Record, Relation, Visibility
from mcp_memory.domain.model.reviews import Review
from mcp_memory.domain.model.scopes import Caller, partition_of, scope_key
from mcp_memory.domain.model.tasks import DEAD_ENDS, Task, TaskChange
from mcp_memory.domain.model.versions import Version, replaced_values
from mcp_memory.domain.text.words import entity_key, normal_hash, packed_terms
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.text import Clock, Vectors
from mcp_memory.ports.transaction import TaskExtent
from mcp_memory.ports.walls import beyond
from mcp_memory.stores.records.database import Connection, Row, Write, meta
from mcp_memory.stores.records.erasures import UNPURGED, SqlErasures
from mcp_memory.stores.records.partitions import PartitionTally
from mcp_memory.stores.records.reviews import get_review, put_review, read_review
from mcp_memory.stores.records.rows import (
    record_from_row,
    record_to_columns,
    task_change_from_row,
    task_from_row,
    version_from_row,
    version_to_columns,
)


class SqlTransaction(SqlErasures):
    """Implements `Transaction` on a connection whose transaction has begun; call `finish` before it commits."""

    def __init__(
        self, connection: Write, embedder: str, clock: Clock, by: Caller | None = None, reason: str = ""
    ) -> None:
        super().__init__(connection)
        self._embedder = embedder
        self._clock = clock
        self._namespace = by.namespace if by else None
        self._person = by.scope("user") if by else None
        self._by = {"agent": by.agent, "client": by.client, "session_id": by.session_id} if by else {}
        self._reason = reason
        self._marks: dict[tuple[str, ...], ErasedMarks] = {}
        self._met: set[tuple[str, str, str]] = set()
        self._dimensions = 0
        """The write reads or does these once, as they hold to its end: five texts ask for them five times."""
        self.made: dict[str, None] = {}
        """The ids of what this write makes, in their order."""

    @property
    def number(self) -> int:
        return self._db.first_change

    @property
    def undoable(self) -> int:
        return self.number if self.written(self.number) else 0

    @property
    def grown(self) -> Sequence[tuple[str, int, int]]:
        """The partitions that hold more by this write, and how many records and bytes."""
        return self._tally.grown

    def finish(self) -> None:
        """Note what changed in its partitions, once for all changes of this transaction."""
        if not self._change:
            return
        if self._namespace is not None:  # Reviews, places and exclusions are the caller's namespace's.
            self._tally.note(scope_key("shared", self._namespace, ""), self._change)
        self._tally.put(self._db)

    def ahead(self, *reads: Callable[[], object], afresh: bool = False) -> None:
        if afresh:
            self._db.forget_ahead()
        if not self._dimensions:  # What is stored first asks for them.
            reads += (partial(meta, self._db, "embedder"), partial(_dimensions, self._db, self._embedder))
        self._db.read_ahead(reads)

    def next_id(self, prefix: str) -> str:
        made = make_id(prefix, self._next_change())
        self.made[made] = None
        return made

    def let_undo_retire(self) -> None:
        for record_id in [each for each in self.made if each.startswith(RECORD)]:
            if made := self.get(record_id):
                before: Details = {"status": "retired", "updated_at": made.updated_at}
                # Of no session, as it takes back nothing that somebody said: nobody has to see it first.
                self._add_version(record_id, self._next_change(), before, session_id="")

    def erased(self, scopes: Iterable[str]) -> ErasedMarks:
        asked = tuple(scopes)
        if asked not in self._marks:
            self._marks[asked] = super().erased(asked)
        return self._marks[asked]

    def note_erased(self, records: Iterable[Record], common: Collection[Words], at: Instant) -> None:
        self._marks.clear()
        super().note_erased(records, common, at)

    def allow_again(self, digests: Iterable[tuple[int, bytes]], scopes: Iterable[str]) -> None:
        self._marks.clear()
        scopes = [*scopes]
        self._hold(scopes)
        super().allow_again(digests, scopes)

    def get(self, record_id: str) -> Record | None:
        return self._record("get_record", (record_id,))

    def find_text(self, scope: str, digest: str) -> Record | None:
        self._hold([scope])
        return self._record("find_text", {"scope": scope, "digest": digest})

    def find_noted(self, scope: str, digest: str) -> Record | None:
        self._hold([scope])
        return self._record("find_noted", {"scope": scope, "digest": digest})

    def find_corrected(self, scope: str, digest: str) -> Record | None:
        row = self._run("find_corrected", {"scope": scope, "digest": digest}).fetchone()
        return self.get(row["id"]) if row else None

    def find_alike(self, scope: str, digest: str) -> Sequence[str]:
        return [row["id"] for row in self._run("find_alike", {"scope": scope, "digest": digest})]

    def replaced_by(self, record_id: str) -> Sequence[Record]:
        return self._records("replaced_by", (record_id,))

    def versions(self, record_ids: Collection[str]) -> Mapping[str, Sequence[Version]]:
        return versions_of(self._db, record_ids)

    def written(self, write: int) -> Mapping[str, Sequence[Version]]:
        return versions_of_write(self._db, write)

    def mark_undone(self, write: int) -> None:
        self._run("mark_undone", {"write": write, "by": self.number})
        self._hold_grounds([None])  # Of whatever it changed.
        for name in ("take_in_ground", "take_back_ground", "take_back_vouching"):
            self._run(name, (write,))
        for name in ("take_back_exclusion", "take_back_inclusion"):
            if self._run(name, (write,)).rowcount:
                self._next_change()

    def exclude(self, exclusion: Exclusion) -> bool:
        self._next_change()
        return self._run("exclude", {**asdict(exclusion), "write": self.number}).rowcount > 0

    def include(self, exclusion: Exclusion) -> bool:
        self._next_change()
        return self._run("include", {**asdict(exclusion), "write": self.number}).rowcount > 0

    def excluded_in(self, write: int) -> Sequence[str]:
        return [row["record_id"] for row in self._run("exclusions_of_write", {"write": write})]

    def branches_that_say(self, scope: str, digest: str) -> Collection[str | None]:
        return {row["branch_id"] for row in self._run("branches_that_say", {"scope": scope, "digest": digest})}

    def reach(self, record_ids: Collection[str]) -> Collection[tuple[Visibility, str | None]]:
        return {(row["visibility"], row["branch_id"]) for row in self._run("reach", (json.dumps(list(record_ids)),))}

    def extracted_from(self, record_ids: Sequence[str]) -> Sequence[str]:
        extracted = [row["id"] for row in self._run("extracted_from", {"ids": json.dumps(record_ids)})]
        return [*extracted, *self._summaries_of(record_ids)]

    def insert(
        self,
        record: Record,
        vectors: Vectors | None,
        entities: Iterable[Entity],
        relations: Iterable[Relation],
        *,
        in_session: bool = True,
    ) -> None:
        self._hold([record.scope])
        change = self._next_change()
        self._tally.note_insert(record, change)
        if vectors is not None:
            self._check_embedder(vectors)
        with self._db.adding():
            self._add(record, change, vectors, in_session=in_session)
            entities = tuple(entities)
            self._add_found(record, entities, self._link(record, entities, relations))

    def _add(self, record: Record, change: int, vectors: Vectors | None, *, in_session: bool) -> None:
        self._defer("insert_record", record_to_columns(record, change))
        of_new = {"id": record.id}
        if record.tags:
            self._defer("add_tags", {**of_new, "tags": json.dumps(record.tags)})
        self._defer("add_terms", {**of_new, "terms": packed_terms(record.indexed_text)})
        if vectors is None:
            self._defer("add_awaiting", of_new)
        else:
            self._defer("add_vectors", {**of_new, **self._of_embedder(vectors)})
        if in_session and (met := (record.namespace, record.session_id, record.agent)) not in self._met:
            self._met.add(met)
            at = {"namespace": record.namespace, "id": record.session_id, "agent": record.agent}
            self._defer("meet_session", {**at, "at": self._clock()})

    def update(
        self, record: Record, vectors: Vectors | None = None, found: Iterable[Entity] = (), *, reason: str = ""
    ) -> Record:
        old = self._at_present(record)
        self._hold([record.scope])
        change = self._next_change()
        if old:
            record = self._with_version(old, record, change, reason)
            self._tally.note_update(self._db, old, record, change)
        if vectors is not None:
            self._defer("put_terms", {"id": record.id, "terms": packed_terms(record.indexed_text)})
            self._put_vectors(record.id, vectors)
            self._find_anew(record, found)
        self._put(record, change)
        self._take_mentions_along(record)
        self._note_ground(record.id, change)
        return record

    def rewrite(self, record: Record, found: Iterable[Entity]) -> None:
        self._defer("strip_versions", (record.id,))
        self._defer("drop_reviews_of", (json.dumps([record.id]),))
        change = self._next_change()
        if old := self._at_present(record):
            self._tally.note_update(self._db, old, record, change)
        self._put(record, change)
        self.index_anew(record)
        self._find_anew(record, found)
        self._note_rewritten(record.id)

    def _put(self, record: Record, change: int) -> None:
        self._defer("update_record", record_to_columns(record, change))
        self._defer("drop_tags", (record.id,))
        self._defer("put_tags", (record.id,))

    def index_anew(self, record: Record) -> None:
        self._defer("put_terms", {"id": record.id, "terms": packed_terms(record.indexed_text)})
        self._defer("delete_vectors", (record.id,))
        self._put_vectors(record.id, None)

    def mention(self, record: Record, entities: Iterable[Entity], relations: Iterable[Relation]) -> bool:
        before = self._mentioned([record.id])
        entities, relations = self._unsaid(record, entities, relations)
        self._link(record, entities, relations)
        return len(self._mentioned([record.id])) > len(before)

    def confirm(self, record: Record, session_id: str) -> bool:
        return self._run("confirm", (record.id, session_id)).rowcount > 0

    def depend(self, record_id: str, ground_ids: Iterable[str], *, found: bool = False, changed: bool = False) -> None:
        for ground_id in ground_ids:
            self._depend(record_id, ground_id, found=found, changed=changed)

    def grounds(self, record_id: str) -> Mapping[str, bool]:
        rows = self._run("grounds_of", (record_id,))
        return {row["ground_id"]: bool(row["found"]) for row in rows if not row["dropped"]}

    def drop_ground(self, record_id: str, ground_id: str) -> None:
        self._grounds_to_change(record_id)
        self._next_change()
        self._defer("drop_ground", {"record_id": record_id, "ground_id": ground_id, "write": self.number})

    def vouch(self, record_id: str) -> None:
        if not (grounds := self._grounds_to_change(record_id)):
            return
        self._next_change()
        self._defer("vouch", {"id": record_id, "write": self.number})
        # Rows come by step, so the last one of a chain stays.
        newer = {row["start"]: row["id"] for row in self._run("successors", (json.dumps([*grounds]),))}
        for ground_id, successor in newer.items():
            if successor not in grounds:
                self._depend(record_id, successor, found=grounds[ground_id], vouched_before=0)

    def erase(self, record_ids: Sequence[str]) -> None:
        if not record_ids:
            return
        mentioned = self._mentioned(record_ids)
        self._run("strip_extracted_versions", {"ids": json.dumps(record_ids)})
        self._drop_saying(record_ids)
        self._defer("drop_reviews_of", (json.dumps(list(record_ids)),))
        for record_id in record_ids:
            change = self._next_change()
            self._defer("add_tombstone", {"id": record_id, "change": change})
            unlinked = {"id": record_id, "change": self._next_change()}
            for row in self._run("unlink_successor", unlinked).fetchall():
                self._tally.note(row["scope"], self._change)
            for row in self._run("delete_record", (record_id,)).fetchall():
                self._tally.note(row["scope"], change, -1, -row["size"])
            self._defer("note_erased_ground", {"id": record_id, "change": change, "at": self._clock()})
        self._defer("drop_unmentioned_entities", (json.dumps(mentioned),))
        self._defer("forget_blocks", ())  # Any may quote what goes, and no account says which.
        self._run("put_meta", (UNPURGED, str(self._change)))

    def get_review(self, review_id: str) -> Review | None:
        found = get_review(self._db, review_id)
        return get_review(self._db, review_id) if found and self._hold_records(found.record_ids) else found

    def reviews_of(self, record_ids: Collection[str]) -> Sequence[Review]:
        return self._reviews("reviews_of", (json.dumps(list(record_ids)),))

    def reviews_of_write(self, change: int) -> Sequence[Review]:
        return self._reviews("reviews_of_write", {"change": change})

    def put_review(self, review: Review) -> None:
        change = self._next_change()
        put_review(self._db, review)
        # Who reads the group's records reads it as well, but for those of another project that it inherits.
        for row in self._run("scopes_of", {"ids": json.dumps(review.record_ids)}).fetchall():
            if self._db.holds(partition_of(row["scope"])):
                self._tally.note(row["scope"], change)

    def drop_review(self, review_id: str) -> None:
        self._next_change()
        self._run("drop_review", (review_id,))

    def add_task(self, task: Task) -> None:
        self._put_task("add_task", task)

    def update_task(self, task: Task) -> None:
        self._put_task("update_task", task)
        if task.status in DEAD_ENDS:
            for row in self._run("grounds_in_task", {"id": task.id}).fetchall():
                self._note_ground(row["ground_id"], self._change)

    def set_place(self, caller: Caller, task_id: str | None) -> None:
        self._next_change()
        place = _place(caller)
        if task_id is None:
            self._defer("delete_place", place)
        else:
            self._defer("put_place", (*place, task_id))

    def concerned(self, task_id: str, caller: Caller) -> frozenset[str]:
        return frozenset(row["agent"] for row in self._run("concerned", (*_place(caller), task_id)))

    def add_task_change(self, change: TaskChange) -> None:
        self._defer("add_task_change", {**asdict(change), "change": self._next_change()})

    def note_move(self, caller: Caller) -> None:
        self._defer("put_move", (*_place(caller), self._next_change(), self._clock()))

    def tasks_near(self, namespace: str, task_ids: Collection[str], extent: TaskExtent = "above") -> Sequence[Task]:
        asked = {"namespace": namespace, "ids": json.dumps(sorted(task_ids))}
        is_any = bool(task_ids) or extent == "open"
        return [task_from_row(row) for row in self._run(f"tasks_{extent}", asked)] if is_any else []

    def tree_at(self, caller: Caller) -> Sequence[Task]:
        asked = {"namespace": caller.namespace, "agent": caller.agent, "place": caller.place}
        return [task_from_row(row) for row in self._run("tree_at", asked)]

    def open_branches(self) -> frozenset[str]:
        return frozenset(row["id"] for row in self._run("open_branches", ()))

    def places(self, caller: Caller) -> Mapping[str, str]:
        rows = self._run("list_places", (caller.namespace, caller.agent))
        return {row["session_id"]: row["task_id"] for row in rows}

    def last_moves(self, caller: Caller) -> Mapping[str, Instant]:
        return {row["session_id"]: row["at"] for row in self._run("last_moves", (caller.namespace, caller.agent))}

    def news(self, caller: Caller) -> Sequence[TaskChange]:
        return [task_change_from_row(row) for row in self._run("task_news", _place(caller))]

    def _at_present(self, record: Record) -> Record | None:
        with beyond():  # What holds again, as its successor goes, may be another agent's.
            return self.get(record.id)

    def _with_version(self, old: Record, record: Record, change: int, reason: str) -> Record:
        """Note what the change replaces, unless nobody ever read it: the record is of this same write."""
        if record.id in self.made:
            return record
        before = dict(replaced_values(old, record))
        if before:
            if "text" in before:
                before["normal_hash"] = normal_hash(old.text)
            self._add_version(record.id, change, before, reason=reason or self._reason)
            record = replace(record, changed=change)
        if old.scope != record.scope:
            self._defer("strip_versions", (record.id,))
            self._run("part_line", {"id": record.id})
        return record

    def _add_version(self, record_id: str, change: int, before: Details, **told: str) -> None:
        by = {**self._by, "reason": self._reason, **told}
        version = Version(**by, change=change, write=self.number, at=self._clock(), before=before, undone=0)
        self._defer("add_version", version_to_columns(record_id, version))

    def _depend(
        self, record_id: str, ground_id: str, *, found: bool, changed: bool = False, vouched_before: int | None = None
    ) -> None:
        link = {"record_id": record_id, "ground_id": ground_id, "found": found, "vouched_before": vouched_before}
        link |= {"write": self.number, "change": self._next_change()}
        if (now := self._ground(ground_id)) and self._hold_grounds([now["scope"]]):
            now = self._ground(ground_id)
        if now:
            # One that no longer holds when it is named is to be checked at once; not one that failed, which is known.
            seen = "" if now["is_over"] or changed else now["state"]
            self._defer("add_ground", {**link, "seen": seen, "state": now["state"], "at": now["at"]})

    def _note_ground(self, ground_id: str, change: int) -> None:
        """Tell the records that stand on this record or task that it changed, if they would care."""
        if scopes := [row["scope"] for row in self._run("scopes_standing_on", (ground_id,))]:
            self._hold_grounds(scopes)
            state = self._ground(ground_id)["state"]
            self._defer("note_ground", {"id": ground_id, "state": state, "change": change, "at": self._clock()})

    def _ground(self, ground_id: str) -> Any:
        return self._run("ground_state", {"id": ground_id}).fetchone()

    def _grounds_to_change(self, record_id: str) -> Mapping[str, bool]:
        """Return the grounds of a record, once nobody else can change their states."""
        rows = self._run("grounds_of", (record_id,)).fetchall()
        self._hold_grounds(row["scope"] for row in rows)
        return {row["ground_id"]: bool(row["found"]) for row in rows if not row["dropped"]}

    def _hold_grounds(self, scopes: Iterable[str | None]) -> bool:
        """Let no other write change grounds between partitions, where one of these scopes is in one that is not held.

        Such a row is changed by two: the write of the dependent record, and that of the ground. None is an unknown
        scope. Returns True where what was read of it may have changed.
        """
        partitions = {scope and partition_of(scope) for scope in scopes}

        def are_held() -> bool:
            return all(name is not None and self._db.holds(name) for name in partitions)

        if are_held():
            return False
        is_new = self._person is not None and self._db.hold(partition_of(self._person))
        return (not are_held() and self._db.hold_grounds()) or is_new

    def _put_vectors(self, record_id: str, vectors: Vectors | None) -> None:
        """Store the vectors, or note that they are missing; refuse to mix two embedders in one store."""
        if vectors is None:
            self._defer("await_vectors", (record_id,))
            return
        self._check_embedder(vectors)
        self._defer("delete_vectors", (record_id,))
        self._defer("have_vectors", (record_id,))
        self._defer("put_vectors", {"id": record_id, **self._of_embedder(vectors)})

    def _of_embedder(self, vectors: Vectors) -> Mapping[str, object]:
        return {"embedder": self._embedder, "windows": len(vectors), "vector": vectors.tobytes()}

    def _check_embedder(self, vectors: Vectors) -> None:
        """Let these be the first vectors of the store, or like those that it has. Raises EmbedderMismatch."""
        if vectors.shape[1] == self._dimensions:
            return
        known = meta(self._db, "embedder")
        if known is not None and known != self._embedder:
            raise EmbedderMismatch(embedder_mismatch(known, self._embedder))
        refuse_other_dimensions(self._db, self._embedder, vectors)
        if known is None:
            self._defer("put_meta", ("embedder", self._embedder))
        self._dimensions = vectors.shape[1]

    def _mention(self, record: Record, entity: Entity) -> None:
        named = {"scope": record.scope, "name_key": entity_key(entity.name), "type": entity.type}
        self._defer("put_entity", {**named, "change": self._next_change(), "name": entity.name})
        properties = json.dumps(dict(entity.properties), ensure_ascii=False)
        mentioned = {**named, "record_id": record.id}
        self._defer("add_mention", {**mentioned, "properties": properties, "found": entity.found})
        for alias in aliases_of(entity.properties):
            self._defer("mention_alias", {**mentioned, "alias": entity_key(alias)})

    def _add_found(self, record: Record, entities: Iterable[Entity], given: Collection[str]) -> None:
        for entity in entities:
            if entity.found and entity_key(entity.name) not in given:
                self._mention(record, entity)

    def _find_anew(self, record: Record, found: Iterable[Entity]) -> None:
        """Replace the entities found in the old text by those in the new; given entities stay."""
        before = self._mentioned([record.id])
        self._defer("drop_found", (record.id,))
        given = {entity_key(row["name"]) for row in self._run("entities_of", (record.id,))}
        self._add_found(record, found, given)
        self._defer("drop_unmentioned_entities", (json.dumps(before),))

    def _link(self, record: Record, entities: Iterable[Entity], relations: Iterable[Relation]) -> Collection[str]:
        """Add what a caller gave to a record; return the keys of its entities."""
        types = dict[str, str | None]()
        for entity in entities:
            if not entity.found:
                self._mention(record, entity)
                types[entity_key(entity.name)] = entity.type
        for relation in relations:
            self._relate(record, relation, types)
        return types

    def _unsaid(
        self, record: Record, entities: Iterable[Entity], relations: Iterable[Relation]
    ) -> tuple[Sequence[Entity], Sequence[Relation]]:
        """Return those that the record does not say yet; saying the others again would be a change without news."""
        rows = self._run("entities_of", (record.id,)).fetchall()
        said = {
            (entity_key(row["name"]), row["type"]): json.loads(row["properties"]) for row in rows if not row["found"]
        }
        rows = self._run("relations_of", (record.id,)).fetchall()
        related = {(*map(entity_key, (row["source"], row["target"])), row["type"], row["weight"]) for row in rows}
        return (
            [each for each in entities if not _is_said(each, said.get((entity_key(each.name), each.type)))],
            [
                each
                for each in relations
                if (*map(entity_key, (each.source, each.target)), each.type, each.weight) not in related
            ],
        )

    def _mentioned(self, record_ids: Sequence[str]) -> list[int]:
        return [row["entity"] for row in self._run("mentioned", (json.dumps(record_ids),))]

    def _take_mentions_along(self, record: Record) -> None:
        """Move the record's mentions to its new scope, and drop the entities that no record mentions any more."""
        left = self._run("mentions_elsewhere", {"record_id": record.id, "scope": record.scope}).fetchall()
        for row in left:
            there = {"scope": record.scope, "name": row["name"], "name_key": row["name_key"], "type": row["type"]}
            new: int = self._run("put_entity", {**there, "change": self._next_change()}).fetchone()["id"]
            for name in ("move_mention", "move_source", "move_target"):
                self._run(name, {"old": row["id"], "new": new, "record_id": record.id})
        self._defer("drop_unmentioned_entities", (json.dumps([row["id"] for row in left]),))

    def _relate(self, record: Record, relation: Relation, types: dict[str, str | None]) -> None:
        """Add a relation; an end is an entity given with it, of its type, or a known one of any, or a new one."""
        ends = {"source": entity_key(relation.source), "target": entity_key(relation.target)}
        for name, key in zip((relation.source, relation.target), ends.values(), strict=True):
            if key not in types:
                types[key] = None
                named = {"scope": record.scope, "name_key": key}
                made = {"change": self._next_change(), "name": name, "type": Entity(name=name).type}
                self._defer("put_end", {**named, **made})
                self._defer("mention_end", {**named, "record_id": record.id})
        of_ends = {f"{end}_type": types[key] for end, key in ends.items()}
        row = {"scope": record.scope, "record_id": record.id, "change": self._next_change()}
        self._defer("put_relation", {**row, **ends, **of_ends, "type": relation.type, "weight": relation.weight})

    def _record(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> Record | None:
        return next(iter(self._records(name, parameters)), None)

    def _records(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> list[Record]:
        """Read records that the write may change: as they are once no other write can change them."""
        found = [record_from_row(row) for row in self._run(name, parameters).fetchall()]
        if self._hold([record.scope for record in found]):
            found = [record_from_row(row) for row in self._run(name, parameters).fetchall()]
        return found

    def _reviews(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> list[Review]:
        found = [read_review(self._db, row) for row in self._run(name, parameters).fetchall()]
        if self._hold_records([each for review in found for each in review.record_ids]):
            found = [read_review(self._db, row) for row in self._run(name, parameters).fetchall()]
        return found

    def _hold_records(self, record_ids: Sequence[str]) -> bool:
        if self._person is None or not record_ids:
            return False
        return self._hold([row["scope"] for row in self._run("scopes_of", {"ids": json.dumps(record_ids)}).fetchall()])

    def _hold(self, scopes: Collection[str]) -> bool:
        """Hold the person's partition too, where one of the scopes is theirs: other namespaces may write it.

        Returns True where it was not held before: whatever was read of it may have changed.
        """
        return self._person is not None and self._person in scopes and self._db.hold(partition_of(self._person))


def _is_said(entity: Entity, properties: Mapping[str, object] | None) -> bool:
    told: dict[str, object] = json.loads(json.dumps(dict(entity.properties)))  # As stored: a tuple is a list.
    return properties is not None and {**properties, **told} == properties


def _place(caller: Caller) -> tuple[str, str, str]:
    return caller.namespace, caller.agent, caller.place


def versions_of(connection: Connection, record_ids: Collection[str]) -> Mapping[str, Sequence[Version]]:
    """Return the changes of each of these records, oldest first; records that never changed are left out."""
    return versions_by_record(connection.run("versions", (json.dumps(list(record_ids)),)))


def versions_of_write(connection: Connection, write: int) -> Mapping[str, Sequence[Version]]:
    """Return the changes of one write, by record, oldest first."""
    return versions_by_record(connection.run("written", (write,)))


def versions_by_record(rows: Iterable[Row]) -> Mapping[str, Sequence[Version]]:
    found: dict[str, list[Version]] = {}
    for row in rows:
        found.setdefault(row["record_id"], []).append(version_from_row(row))
    return found


def advance(connection: Write, record_ids: Sequence[str]) -> None:
    """Give each of the records the next change number, so that every index reads it again."""
    connection.run_each("touch_change", [(connection.next_change(), record_id) for record_id in record_ids])
    tally = PartitionTally()
    tally.note_touched(connection, record_ids)
    tally.put(connection)


def refuse_other_dimensions(connection: Connection, embedder: str, vectors: Vectors) -> None:
    """Raise EmbedderMismatch where the embedder's earlier vectors are longer or shorter than these."""
    stored = _dimensions(connection, embedder)
    if stored not in (None, vectors.shape[1]):
        raise EmbedderMismatch(
            f"{embedder} made vectors of {stored} dimensions before, and now of {vectors.shape[1]};"
            " name the new model in embedder_model, then run `mcp-memory reindex`."
        )


def _dimensions(connection: Connection, embedder: str) -> int | None:
    row = connection.run("stored_dimensions", (embedder,)).fetchone()
    return row and row[0]


def embedder_mismatch(stored: str, configured: str) -> str:
    return (
        f"This store's vectors were made by {stored}, but {configured} is configured;"
        " run `mcp-memory reindex` to embed everything again, or set the embedder back."
    )

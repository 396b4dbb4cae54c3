"""Compares a record with those near it: which it contradicts, and which say the same. It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import islice

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import NewRecord, Record, Relation, may_both_hold
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.retrieval.queries import LEAST_KNOWN, Vector
from mcp_memory.domain.text.claims import claims_of
from mcp_memory.domain.text.conflicts import (
    ALIKE_COSINE,
    LEAST_CERTAINTY,
    OUTDATED_CERTAINTY,
    OUTDATED_COSINE,
    RELATION_CERTAINTY,
    has_one_target,
    is_outdated,
    judge_texts,
)
from mcp_memory.domain.text.words import entity_key
from mcp_memory.ports.changes import Snapshots
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import FilterIndex, VectorStore
from mcp_memory.ports.text import Embedder
from mcp_memory.services.review.corrections import COMPARED_KINDS, Corrections
from mcp_memory.services.review.reviews import Advice, ConflictingRecord
from mcp_memory.services.tasks.branch_visibility import visible_to

NEAREST, LEAST_COSINE = 5, 0.45
"""Records to compare with: 98 of 100 contradictions are among them, and comparing them is cheap."""
REACHED = 10
"""Records among which restatements of a contradicted one, and corrections of what is restated, are looked for."""
LEAST_REACHED = 0.3
"""Least cosine of a restatement and the corrected words: "hosted on Fly.io" and "runs on Hetzner" have 0.44."""
MOST_CONFLICTS, MOST_SIMILAR = 3, 5
MOST_RELATIONS = 20
FIRM_CERTAINTY = 0.85
"""Least certainty of a contradiction whose restatements are looked for too."""
STILL_SAYS = "it may still say what was corrected"


class NearRecords:
    """Finds what a record contradicts or repeats, among what its caller may change. Without a model; thread-safe."""

    def __init__(
        self,
        records: MemoryReader,
        snapshots: Snapshots,
        vectors: VectorStore,
        filters: FilterIndex,
        embedder: Embedder,
        corrections: Corrections,
    ) -> None:
        self._records = records
        self._snapshots = snapshots
        self._vectors = vectors
        self._filters = filters
        self._embedder = embedder
        self._corrections = corrections

    def conflicts(self, record: Record, corrected: Sequence[str], caller: Caller) -> tuple[ConflictingRecord, ...]:
        """Return at most three records that this one contradicts, the most certain first. It embeds its text.

        `corrected` are the texts that it takes the place of. Raises StoreUnavailable where the search fails or no
        embedder answers.
        """
        if not record.holds:
            return ()
        vector = self._embedder.embed(record.searchable_text)[0]
        with self._snapshots.snapshot():
            relations = self._records.links(record.id)[1]
            return self(record, record.scope, vector, caller, (record.id,), relations, corrected).conflicts

    def __call__(
        self,
        said: NewRecord | Record,
        scope: str,
        vector: Vector,
        caller: Caller,
        exclude: Collection[str],
        relations: Sequence[Relation] = (),
        corrected: Sequence[str] = (),
    ) -> Advice:
        """Compare a record with the nearest ones outside `exclude`; `relations` are those that its caller gave.

        What says the same is looked for in its own scope; what still says what the record corrects, in all that its
        caller may change. Raises StoreUnavailable where the search fails.
        """
        scopes = (caller.scope("shared"), caller.scope("private"), caller.scope("user"))
        visible = replace(visible_to(self._records, caller), scopes=scopes, exclude=frozenset(exclude))
        passing = self._filters.passing(replace(visible, kinds=COMPARED_KINDS | {said.kind}))
        cosines = self._vectors.search(vector, scopes, REACHED, only=passing)
        nearest = dict(islice(cosines.items(), NEAREST))
        advice = compared(said, scope, near(nearest, self._records, scopes), self._embedder)
        if said.kind not in COMPARED_KINDS:
            return advice
        reached = [record for record, _ in near(cosines, self._records, scopes, LEAST_REACHED)]
        told = {each.id: each for each in self._corrections.restated(said.text, vector, reached, visible)}
        told |= {each.id: each for each in self._outdated(corrected, said.text, passing, scopes)}
        firm = {each.id: each.text for each in advice.conflicts if each.certainty >= FIRM_CERTAINTY}
        restated = self._restated(firm, said.text, [*cosines] if firm else (), scopes)
        for each in (*advice.conflicts, *self._by_relations(relations, visible), *restated):
            told.setdefault(each.id, each)
        best = nlargest(MOST_CONFLICTS, told.values(), key=lambda each: each.certainty)
        return Advice(conflicts=tuple(best), similar=tuple(each for each in advice.similar if each not in told))

    def _outdated(
        self, corrected: Sequence[str], text: str, passing: RecordSet, scopes: Sequence[str]
    ) -> Iterator[ConflictingRecord]:
        """Yield the records that still say, in other words, what a text corrects."""
        for old in corrected:
            cosines = self._vectors.search(self._embedder.embed(old)[0], scopes, NEAREST, only=passing)
            for record, cosine in near(cosines, self._records, scopes, OUTDATED_COSINE):
                is_compared = record.kind in COMPARED_KINDS
                if is_compared and is_outdated(claims_of(record.text), claims_of(old), claims_of(text), cosine):
                    yield _conflicting(record, STILL_SAYS, OUTDATED_CERTAINTY)

    def _restated(
        self, old: Mapping[str, str], text: str, among: Sequence[str], scopes: Sequence[str]
    ) -> Iterator[ConflictingRecord]:
        """Yield those of the records that say again what a text contradicts, as far as a rule can tell."""
        # The stored vectors are compared: embedding the old texts again would double what storing costs.
        pairs = self._vectors.alike(scopes, among, OUTDATED_COSINE) if among else ()
        beside = [
            (one, other, cosine) if one in old else (other, one, cosine)
            for one, other, cosine in pairs
            if (one in old) != (other in old)
        ]
        found = near({other: cosine for _, other, cosine in beside}, self._records, scopes, OUTDATED_COSINE)
        records = {record.id: record for record, _ in found if record.kind in COMPARED_KINDS}
        told = [(records[other], old[one], cosine) for one, other, cosine in beside if other in records]
        for record, contradicted, cosine in told:
            claims = claims_of(record.text), claims_of(contradicted), claims_of(text)
            if is_outdated(*claims, cosine, is_guessed=True):
                yield _conflicting(record, STILL_SAYS, LEAST_CERTAINTY)

    def _by_relations(self, relations: Sequence[Relation], where: RecordFilter) -> Iterator[ConflictingRecord]:
        """Yield the records that give a source another target of a relation that has but one."""
        single = {(entity_key(each.source), each.type): each.target for each in relations if has_one_target(each.type)}
        stated = self._records.statements({source for source, _ in single}, where, MOST_RELATIONS) if single else ()
        for each in stated:
            target = single.get((entity_key(each.relation.source), each.relation.type))
            if target and entity_key(target) != entity_key(each.relation.target):
                for record in self._records.get([each.record_id], where.scopes).values():
                    why = f"{each.relation.source} {each.relation.type} {each.relation.target} there, {target} here"
                    yield _conflicting(record, why, RELATION_CERTAINTY)


def near(
    cosines: Mapping[str, float], records: MemoryReader, scopes: Collection[str], least: float = LEAST_COSINE
) -> list[tuple[Record, float]]:
    """Return the records that hold and are near enough to be compared, with their cosines, in the given order."""
    enough = {record_id: cosine for record_id, cosine in cosines.items() if cosine >= least}
    found = records.get(enough, scopes) if enough else dict[str, Record]()
    return [(found[each], cosine) for each, cosine in enough.items() if each in found and found[each].holds]


def compared(
    said: NewRecord | Record, scope: str, others: Sequence[tuple[Record, float]], embedder: Embedder
) -> Advice:
    """Compare a record with others, given with their cosines: what it contradicts, and what of its scope repeats it.

    What is true at different times alone does not contradict. Where the embedder's model knows few of the words, no
    cosine tells what repeats it: words do. Raises StoreUnavailable where the model cannot run.
    """
    conflicts: list[ConflictingRecord] = []
    similar: list[str] = []
    most = 1.0 if not others or embedder.share_known(said.text) >= LEAST_KNOWN else ALIKE_COSINE
    for record, near_as in others:
        cosine = min(near_as, most)
        judged = judge_texts(record.text, said.text, cosine)
        found = judged.contradiction if may_both_hold(said, record) else None
        if found and found.certainty >= LEAST_CERTAINTY and {said.kind, record.kind} <= COMPARED_KINDS:
            conflicts.append(_conflicting(record, found.why, found.certainty))
        elif judged.is_same and record.scope == scope:
            similar.append(record.id)
    best = nlargest(MOST_CONFLICTS, conflicts, key=lambda each: each.certainty)
    return Advice(conflicts=tuple(best), similar=tuple(similar[:MOST_SIMILAR]))


def _conflicting(record: Record, why: str, certainty: float) -> ConflictingRecord:
    return ConflictingRecord(id=record.id, text=record.text, why=why, certainty=certainty)

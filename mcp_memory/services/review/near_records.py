"""Compares a record with those near it: which it contradicts, which say the same, which its agent should judge.

It changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import chain, islice

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.records import LASTING_KINDS, NewRecord, Record, Relation, may_both_hold
from mcp_memory.domain.model.scopes import NO_SESSION, Caller, RecordFilter
from mcp_memory.domain.retrieval.issue_threads import MOST_HOLDERS
from mcp_memory.domain.retrieval.queries import LEAST_KNOWN, Vector
from mcp_memory.domain.text.conflicts import (
    ALIKE_COSINE,
    OUTDATED_CERTAINTY,
    RELATION_CERTAINTY,
    SUBJECT_COSINE,
    Contradiction,
    changes_named,
    contradiction,
    has_one_target,
    is_near,
    is_same,
    names_gone,
    otherwise,
    references,
    says_again,
    says_dropped,
)
from mcp_memory.domain.text.words import entity_key, has_name, query_terms
from mcp_memory.ports.changes import Snapshots
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import FilterIndex, KeywordStore, VectorStore
from mcp_memory.ports.text import Embedder
from mcp_memory.services.review.corrected_values import AGAIN_CERTAINTY, COMPARED_KINDS, Corrections
from mcp_memory.services.review.reviews import Advice, ConflictingRecord
from mcp_memory.services.tasks.branch_visibility import visible_to

NEAREST, LEAST_COSINE = 5, 0.45
"""Records to compare word by word."""
REACHED = 10
"""Records among which restatements of a corrected one, and those to judge, are looked for."""
LEAST_REACHED = 0.3
"""Least cosine of a restatement and the corrected words: "hosted on Fly.io" and "runs on Hetzner" have 0.44."""
HOLDERS = 20
"""Records that are looked through for a name or a title which a text says to be gone, or refers to."""
MOST_NAMED = 10
"""Names and titles that a text says to be gone, and those that it refers to: each costs a search."""
MOST_CONFLICTS, MOST_SIMILAR, MOST_NEAR = 2, 5, 2
MOST_RELATIONS = 20
STILL_SAYS = "it may still say what was corrected"
_Nearby = Sequence[tuple[Record, float]]


class NearRecords:
    """Finds what a record contradicts or repeats, among what its caller may change. Without a model; thread-safe."""

    def __init__(
        self,
        records: MemoryReader,
        snapshots: Snapshots,
        vectors: VectorStore,
        keywords: KeywordStore,
        filters: FilterIndex,
        embedder: Embedder,
        corrections: Corrections,
    ) -> None:
        self._records = records
        self._snapshots = snapshots
        self._vectors = vectors
        self._keywords = keywords
        self._filters = filters
        self._embedder = embedder
        self._corrections = corrections

    def conflicts(self, record: Record, corrected: Sequence[str], caller: Caller) -> tuple[ConflictingRecord, ...]:
        """Return at most two records that this one contradicts, the most certain first. It embeds its text.

        `corrected` are the texts that it takes the place of. Raises StoreUnavailable where the search fails or no
        embedder answers.
        """
        if not record.holds:
            return ()
        vector = self._embedder.embed(record.searchable_text)[0]
        with self._snapshots.snapshot((record.scope, *caller.scopes)):
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

        What says the same is looked for in its own scope; all else, in what its caller may change. Raises
        StoreUnavailable where the search fails.
        """
        scopes = caller.own_scopes
        # What is only noted contradicts nothing: nobody has vouched for it.
        visible = replace(
            visible_to(self._records, caller), scopes=scopes, exclude=frozenset(exclude), noted_in=NO_SESSION
        )
        passing = self._filters.passing(replace(visible, kinds=LASTING_KINDS))
        cosines = self._vectors.search(vector, scopes, REACHED, only=passing)
        reached = near(cosines, self._records, scopes, LEAST_REACHED)
        advice = compared(said, scope, [each for each in reached[:NEAREST] if each[1] >= LEAST_COSINE], self._embedder)
        told = {each.id: each for each in self._gone(said, vector, passing, scopes)}
        if said.kind in COMPARED_KINDS:
            among = [record for record, _ in reached]
            told |= {each.id: each for each in self._corrections.restated(said.text, vector, among, visible)}
            told |= {each.id: each for each in self._outdated(corrected, said.text, passing, scopes)}
            told |= {each.id: each for each in self._by_relations(relations, visible)}
        told = {each.id: each for each in advice.conflicts} | told
        best = nlargest(MOST_CONFLICTS, told.values(), key=lambda each: each.certainty)
        similar = tuple(each for each in advice.similar if each not in told)
        in_meaning = (record for record, cosine in reached if is_near(record.text, said.text, cosine))
        to_judge = {each.id: each for each in [*self._of_one_subject(said, vector, passing, scopes), *in_meaning]}
        others = (each for each in to_judge.values() if each.id not in told and each.id not in similar)
        return Advice(conflicts=tuple(best), similar=similar, near=tuple(islice(others, MOST_NEAR)))

    def _of_one_subject(
        self, said: NewRecord | Record, vector: Vector, passing: RecordSet, scopes: Sequence[str]
    ) -> Sequence[Record]:
        """Return the records that refer to an issue or a title as a text does, the nearest in meaning first.

        What many refer to is a topic.
        """
        found: dict[str, Record] = {}
        for named in islice(references(said.text), MOST_NAMED):
            ids = self._keywords.search(query_terms(named), scopes, HOLDERS, passing)
            held = [each for each in self._records.get(ids, scopes).values() if each.holds]
            held = [each for each in held if has_name(each.text, named)]
            found |= {each.id: each for each in held} if len(held) <= MOST_HOLDERS else {}
        cosines = self._vectors.similarities(vector, scopes, [*found]) if found else dict[str, float]()
        near_first = sorted(cosines, key=lambda each: -cosines[each])
        return [found[each] for each in near_first if cosines[each] >= SUBJECT_COSINE]

    def _gone(
        self, said: NewRecord | Record, vector: Vector, passing: RecordSet, scopes: Sequence[str]
    ) -> Iterator[ConflictingRecord]:
        """Yield what a text is the first to say is gone, by its name or title, however far its meaning."""
        changes = changes_named(said.text)
        ids = {
            each: None
            for named in islice(chain(*changes), MOST_NAMED)
            for each in self._keywords.search(query_terms(named), scopes, HOLDERS, passing)
        }
        if not ids:
            return
        cosines = self._vectors.similarities(vector, scopes, [*ids])
        records = self._records.get([*ids], scopes)
        held = [records[each] for each in ids if each in records and records[each].holds]
        known_gone = {name for record in held for name in names_gone(record.text)}
        for record in held:
            found = contradiction(record.text, changes, cosines.get(record.id, 0.0), known_gone)
            if found and may_both_hold(said, record):
                yield _conflicting(record, found.why, found.certainty + cosines.get(record.id, 0.0) / 100)

    def _outdated(
        self, corrected: Sequence[str], text: str, passing: RecordSet, scopes: Sequence[str]
    ) -> Iterator[ConflictingRecord]:
        """Yield the records that still say, in other words, what a text corrects."""
        for old in corrected:
            cosines = self._vectors.search(self._embedder.embed(old)[0], scopes, NEAREST, only=passing)
            for record, cosine in near(cosines, self._records, scopes):
                if record.kind in COMPARED_KINDS and says_dropped(record.text, old, text):
                    is_sure = says_again(record.text, old, cosine)
                    yield _conflicting(record, STILL_SAYS, OUTDATED_CERTAINTY if is_sure else AGAIN_CERTAINTY)

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


def compared(said: NewRecord | Record, scope: str, others: _Nearby, embedder: Embedder) -> Advice:
    """Compare a record with others, given with their cosines: what it contradicts, and what of its scope repeats it.

    What is true at different times alone does not contradict, nor does an episode, which tells what happened once.
    Where the embedder's model knows few of the words, no cosine tells what repeats it: words do. Raises
    StoreUnavailable where the model cannot run.
    """
    conflicts: list[ConflictingRecord] = []
    similar: list[str] = []
    most = 1.0 if not others or embedder.share_known(said.text) >= LEAST_KNOWN else ALIKE_COSINE
    for record, near_as in others:
        found: Contradiction | None = None
        if {said.kind, record.kind} <= COMPARED_KINDS and may_both_hold(said, record):
            found = otherwise(record.text, said.text)
        if found:
            conflicts.append(_conflicting(record, found.why, found.certainty))
        elif record.scope == scope and is_same(record.text, said.text, min(near_as, most)):
            similar.append(record.id)
    best = nlargest(MOST_CONFLICTS, conflicts, key=lambda each: each.certainty)
    return Advice(conflicts=tuple(best), similar=tuple(similar[:MOST_SIMILAR]))


def _conflicting(record: Record, why: str, certainty: float) -> ConflictingRecord:
    return ConflictingRecord(id=record.id, text=record.text, why=why, certainty=certainty)

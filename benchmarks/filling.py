"""Fills a store quickly, for measurements of large ones: real terms, entities and token counts, vectors mostly made.

Embedding a text takes longer than all the rest of storing it. So some texts are embedded, and the others get a vector
near that of one of these on the same topic. Questions are to be embedded really.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.lifecycle import first_status
from mcp_memory.domain.model.records import NewRecord, Record, searchable_text
from mcp_memory.domain.model.scopes import Caller, scope_key
from mcp_memory.domain.text.entity_extraction import found_entities
from mcp_memory.domain.text.micro_and_summary import measured
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Embedder, TokenCounter

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

BATCH = 500
NEARNESS = 0.8
"""The cosine of a made vector to the real one it was made from."""


def vectors_for(items: Sequence[NewRecord], embedder: Embedder, real: int, seed: int) -> Vectors:
    """One unit vector an item, those of the first `real` by the embedder: [items, dimensions]."""
    source = np.random.default_rng(seed)
    embedded = [embedder.embed(searchable_text(i.text, i.speaker, i.details))[0] for i in items[:real]]
    by_topic: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items[:real]):
        by_topic[_topic(item)].append(place)
    made = source.standard_normal((max(len(items) - real, 0), embedder.dimensions)).astype(np.float32)
    made *= np.sqrt(1 - NEARNESS**2) / np.linalg.norm(made, axis=1, keepdims=True)
    for place, item in enumerate(items[real:]):
        near = by_topic.get(_topic(item)) or range(real)
        made[place] += NEARNESS * embedded[near[source.integers(len(near))]]
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return np.concatenate([np.stack(embedded), made])


def fill(
    records: RecordStore, items: Sequence[NewRecord], vectors: Vectors, caller: Caller, counter: TokenCounter
) -> list[str]:
    """Write the items with one vector each; their ids, in order."""
    ids: list[str] = []
    for start in range(0, len(items), BATCH):
        with records.write() as transaction:
            for item, vector in zip(items[start : start + BATCH], vectors[start : start + BATCH], strict=True):
                record = _record(transaction.next_id(RECORD), item, caller, counter)
                found = found_entities(item.text, item.speaker, item.details, item.entities)
                transaction.insert(record, vector[None, :], found, ())
                ids.append(record.id)
    return ids


def fill_with_vectors(records: RecordStore, vectors: Vectors, caller: Caller, counter: TokenCounter) -> None:
    """Write a record for each vector, all of them of one short text and without its terms."""
    blank = _record("", NewRecord(text="Blank."), caller, counter)
    for start in range(0, len(vectors), BATCH):
        with records.write() as transaction:
            for vector in vectors[start : start + BATCH]:
                transaction.insert(replace(blank, id=transaction.next_id(RECORD)), vector[None, :], (), ())


def _topic(item: NewRecord) -> str:
    return item.tags[0] if item.tags else ""


def _record(record_id: str, item: NewRecord, caller: Caller, counter: TokenCounter) -> Record:
    text = measured(item.text, counter.count, counter.truncate, kind=item.kind, outcome=item.outcome)
    at = item.occurred_at or 0.0
    return Record(
        id=record_id, scope=scope_key(item.visibility, caller.namespace, caller.agent), namespace=caller.namespace,
        visibility=item.visibility, agent=caller.agent, session_id=item.session_id or caller.session_id, task_id=None,
        branch_id=None, kind=item.kind, text=item.text, summary=text.summary, micro=text.micro,
        text_tokens=text.text_tokens, summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=item.importance, confidence=item.confidence, status=first_status(item.kind), outcome=item.outcome,
        pinned=item.pinned,
        tags=item.tags, details=item.details, speaker=item.speaker, role=item.role, tool=None, call_id=None,
        superseded_by=None, created_at=at, updated_at=at, accessed_at=at, occurred_at=at,
    )  # fmt: skip

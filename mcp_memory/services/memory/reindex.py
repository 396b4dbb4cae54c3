"""Reindex: embeds every record again with the configured embedder, while others continue to read and write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from mcp_memory.errors import StoreUnavailable, TextRefused
from mcp_memory.ports.records import EmbeddingQueue
from mcp_memory.ports.text import Embedder
from mcp_memory.services.review.embedding import embedded_each

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

REINDEXED_AT_ONCE = 32  # texts of one request to the embedder
EVERYTHING = 2**31  # more than any store holds
HARMLESS = "memory"
"""A text that an embedder refuses only if it refuses everything."""

Progress = Callable[[int, int], None]
"""Called with the number of records done and the number known so far."""


class Reindex:
    """Changes a store's embedder. Until the last record is done, the old vectors answer and nothing is mixed.

    A text that the embedder refuses for good is noted: its record has no vectors and is found by its words alone. It is
    tried again by a full reindex, or once the text or the embedder changes.
    """

    def __init__(self, records: EmbeddingQueue, embedder: Embedder) -> None:
        self._records = records
        self._embedder = embedder
        self._after = ""
        """The newest record of the latest batch; records before it have vectors, or come last."""

    def waiting(self) -> int:
        """Count the records without this embedder's vectors now, in all namespaces."""
        return len(self._records.unembedded(self._embedder.id, EVERYTHING))

    def queued(self) -> int:
        """Count the records that wait for the vectors of the store's embedder, in all namespaces."""
        return self._records.count_unembedded()

    def stored_embedder(self) -> str | None:
        """Return the id of the embedder whose vectors the store holds; None before the first vector."""
        return self._records.embedder_id()

    def refused(self) -> int:
        """Count the records without vectors because this embedder refuses their texts, in all namespaces."""
        return self._records.count_refused(self._embedder.id)

    def __call__(self, total: int, progress: Progress) -> int:
        """Embed all records without this embedder's vectors, then adopt it. Interrupted, it continues there next time.

        Records that others store meanwhile with the old embedder are embedded in further rounds, until none is left at
        the moment of adoption. Returns the number of embedded records. Raises StoreUnavailable where the embedder is
        unreachable, or refuses everything.
        """
        self._records.forget_refusals(self._embedder.id)
        self._after = ""
        done = 0
        while not self._records.adopt_embedder(self._embedder.id):
            while embedded := self._embed_batch():
                done += embedded
                progress(done, max(total, done))
        return done

    def catch_up(self) -> int:
        """Embed up to a batch of records stored while the embedder was unreachable; return their number.

        Raises StoreUnavailable where the embedder is still unreachable; the records wait for the next call.
        """
        embedded = 0
        while not embedded and self._is_ours() and (batch := self._records.awaiting_vectors(REINDEXED_AT_ONCE)):
            embedded = self._embed(batch)  # What it refuses waits no longer.
        return embedded

    def embed_few(self, scopes: Collection[str], most: int) -> int:
        """Embed what waits in these scopes, unless more than `most` do; return their number. Raises as `catch_up` does.

        What waits in others does not count: nobody's search depends on how much of theirs waits.
        """
        batch = self._records.awaiting_vectors_in(scopes, most + 1)
        return self._embed(batch) if 0 < len(batch) <= most and self._is_ours() else 0

    def embed(self, record_ids: Collection[str]) -> int:
        """Embed those of the records that wait, and return their number. Raises as `catch_up` does."""
        if not record_ids or not self._is_ours():
            return 0
        batch = self._records.awaiting_vectors(len(record_ids), among=record_ids)
        return self._embed(batch) if batch else 0

    def _is_ours(self) -> bool:
        return self._records.embedder_id() in (self._embedder.id, None)

    def _embed_batch(self) -> int:
        """Embed the oldest records possible, by a look through all; return 0 where only refused ones are left."""
        embedded = 0
        while not embedded and (batch := self._next()):
            embedded = self._embed(batch)
            self._after = batch[-1][0]
        return embedded

    def _next(self) -> Sequence[tuple[str, int, str]]:
        """Return the records after the latest batch, then those before it, for example a changed record."""
        waiting = self._records.unembedded(self._embedder.id, REINDEXED_AT_ONCE, self._after)
        if not waiting and self._after:
            self._after = ""
            waiting = self._records.unembedded(self._embedder.id, REINDEXED_AT_ONCE)
        return waiting

    def _embed(self, batch: Sequence[tuple[str, int, str]]) -> int:
        outcomes = embedded_each(self._embedder, [text for _, _, text in batch])
        made: dict[tuple[str, int], Vectors | None] = {}
        for (record_id, change, _), outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, TextRefused):
                made[record_id, change] = None
            elif isinstance(outcome, StoreUnavailable):
                raise outcome
            else:
                made[record_id, change] = outcome
        embedded = sum(vectors is not None for vectors in made.values())
        if not embedded:
            self._embedder.embed(HARMLESS)  # Raises where the fault is not with the texts.
        self._records.add_vectors(self._embedder.id, made)
        return embedded

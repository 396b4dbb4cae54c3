"""Reindex: embed every record anew with the configured embedder, while others go on reading and writing."""

from collections.abc import Callable

from mcp_memory.ports import Embedder, RecordStore

BATCH = 32
EVERYTHING = 2**31

Progress = Callable[[int, int], None]
"""Called with the number of records done and the number known so far."""


class Reindex:
    """Changes a store's embedder. Until the last record is done, the old vectors answer and nothing is mixed."""

    def __init__(self, records: RecordStore, embedder: Embedder) -> None:
        self._records = records
        self._embedder = embedder

    def waiting(self) -> int:
        """How many records lack this embedder's vectors at present, in all namespaces."""
        return len(self._records.unembedded(self._embedder.id, EVERYTHING))

    def __call__(self, total: int, progress: Progress) -> int:
        """Embed what lacks this embedder's vectors, then adopt it. Interrupted, it goes on where it stopped.

        Records stored meanwhile by others with the old embedder are embedded in further rounds, until none is left at
        the moment of adoption. Returns how many records were embedded.
        """
        done = 0
        while not self._records.adopt_embedder(self._embedder.id):
            while embedded := self._embed_batch():
                done += embedded
                progress(done, max(total, done))
        return done

    def catch_up(self) -> int:
        """Embed up to a batch of what was stored while the embedder could not be asked; returns how many records.

        Raises StoreUnavailable where it still cannot be asked; the records wait for the next call.
        """
        is_ours = self._records.embedder_id() in (self._embedder.id, None)
        return self._embed_batch() if is_ours and self._records.count_unembedded() else 0

    def _embed_batch(self) -> int:
        batch = self._records.unembedded(self._embedder.id, BATCH)
        if batch:
            vectors = self._embedder.embed_many([text for _, _, text in batch])
            keys = [(record_id, change) for record_id, change, _ in batch]
            self._records.add_vectors(self._embedder.id, dict(zip(keys, vectors, strict=True)))
        return len(batch)

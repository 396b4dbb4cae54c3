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
            while batch := self._records.unembedded(self._embedder.id, BATCH):
                vectors = {(record_id, change): self._embedder.embed(text) for record_id, change, text in batch}
                self._records.add_vectors(self._embedder.id, vectors)
                done += len(vectors)
                progress(done, max(total, done))
        return done

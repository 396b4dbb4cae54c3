"""Whether the only record that holds a rare word or identifier comes first, among very many that look like it.

    python -m benchmarks.look_alikes [--sizes 10000,100000]

The texts differ in one word, so their vectors are nearly one: a few are embedded, and the others get vectors around
them. Prints, for sixty identifiers and sixty plain words, how often their record is first, and its worst place.
"""

import argparse
import random
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.filling import fill, vectors_for
from mcp_memory.app import open_app, token_counter
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings

EMBEDDED = 500
ASKED = 60
LIMIT = 100
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
STATES = ("in transit", "delivered", "on hold", "returned", "lost")


def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="10000", help="records, comma-separated")
    table = Table("records", "asked by", "first", "worst place")
    embedder = MiniLMEmbedder()
    for size in (int(text) for text in parser.parse_args().sizes.split(",")):
        words = names(size, seed=size)
        items = [
            NewRecord(text=f"Parcel {word} of the harbour depot is {STATES[at % len(STATES)]}.")
            for at, word in enumerate(words)
        ]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            settings = load_settings(data_dir=Path(folder), namespace="benchmark", semantic_store="exact")
            with closing(open_app(settings, embedder=embedder)) as app:
                vectors = vectors_for(items, embedder, EMBEDDED, seed=1)
                ids = fill(app.records, items, vectors, app.caller(), token_counter("o200k_base"))
                for kind, parity in (("identifier", 0), ("word", 1)):
                    places: list[int] = []
                    for at in random.Random(2).sample(range(parity, size, 2), ASKED):
                        request = RecallRequest(
                            query=f"Where is parcel {words[at]} now?", limit=LIMIT, max_tokens=9_000
                        )
                        found = [str(each["id"]) for each in app.recall(request, app.caller()).results]
                        places.append(found.index(ids[at]) + 1 if ids[at] in found else LIMIT + 1)
                    table.add_row(f"{size:,}", kind, f"{places.count(1)} of {ASKED}", str(max(places)))
    Console(width=100).print(table)


def names(count: int, seed: int) -> Sequence[str]:
    """Identifiers ("ZX-48213") and made words ("dorumika") in turns, no two alike."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        if len(made) % 2:
            made["".join(source.choice(CONSONANTS) + source.choice(VOWELS) for _ in range(4))] = None
        else:
            made[f"{''.join(source.choices('ABCDEFGHKLMNPRSTUVXZ', k=2))}-{source.randrange(10_000, 100_000)}"] = None
    return list(made)


if __name__ == "__main__":
    main()

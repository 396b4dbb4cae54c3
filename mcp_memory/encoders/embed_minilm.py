"""The built-in embedder: all-MiniLM-L6-v2 from the package's own files, on one CPU thread.

Importing this module is cheap; numpy, onnxruntime and tokenizers are imported when the model is first used. It does not
know what a record is, nor where vectors are kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from mcp_memory.domain.text.query_names import is_english
from mcp_memory.encoders import chunking
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.text import Vectors

MODEL_FOLDER = Path(__file__).parent / "data" / "minilm"

MODEL_DIGEST = "1a1b6714"  # the first digits of model.onnx's SHA-256: other weights make incomparable vectors
DIMENSIONS = 384
WINDOW = 254  # word pieces; with [CLS] and [SEP] around them, the model's 256 positions
OVERLAP = 32  # word pieces: a thought cut by one window's edge is whole in the next one
MAX_WINDOWS = 64  # one to two seconds of one core
MAX_CHARACTERS = 200_000  # texts up to this length are tokenized as a whole; about 0.2 s
EXCERPT = MAX_CHARACTERS // MAX_WINDOWS

CLS, SEP = 101, 102
UNKNOWN = "[UNK]"
FOREIGN_SHARE = 0.5
"""Weight of meaning in Spanish, say: with it the first result is right for 1 to 3 in 100 questions more than with 1."""


@dataclass(frozen=True, slots=True)
class _Model:
    session: Session
    tokenizer: Tokenizer

    def pieces(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def vector(self, pieces: list[int]) -> Vector:
        """Embed one window by itself: batched with others, rounding would let them change its vector."""
        import numpy as np

        ids = np.array([[CLS, *pieces, SEP]], np.int64)
        (embedding,) = self.session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        return embedding[0]


class MiniLMEmbedder:
    """Turns text into unit vectors of 384 dimensions; thread-safe.

    A text of more than 254 word pieces becomes several windows of equal size that overlap by 32 pieces, at most 64 of
    them: beyond 14,240 pieces they overlap less, beyond 16,256 they leave even gaps, but always reach from the text's
    beginning to its end. Beyond 200,000 characters the windows are taken from 64 evenly spread excerpts, and only those
    are tokenized. So no text takes more than one or two seconds. A text without any word has the empty text's vector.
    """

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._loading = threading.Lock()

    @property
    def id(self) -> str:
        """Names the model, its weights and the windowing; vectors of different ids are never compared."""
        return f"all-MiniLM-L6-v2/int8-{MODEL_DIGEST}/{WINDOW}-{OVERLAP}-{MAX_WINDOWS}"

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        return DIMENSIONS

    def load(self) -> None:
        """Load the model now (about 0.2 s) instead of at the first text; call it once, from any thread."""
        self._loaded()

    def embed(self, text: str) -> Vectors:
        """Return one unit vector per window of the text, in its order: [windows, dimensions], at least one row.

        Raises StoreUnavailable where the model cannot be loaded.
        """
        import numpy as np

        model = self._loaded()
        return np.stack([model.vector(pieces) for pieces in _windows(model, text)])

    def embed_many(self, texts: Sequence[str]) -> list[Vectors]:
        """Embed each text as `embed` does, one by one: a batch would cost the CPU the same."""
        return [self.embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """Return one unit vector for the whole text: [dimensions]; several windows give their mean at unit length."""
        import numpy as np

        mean = self.embed(text).mean(0)
        return mean / np.linalg.norm(mean)

    def share_known(self, text: str) -> float:
        """Return the share of the text's words that mean anything to the model, in [0, 1].

        Of languages in Latin script other than English it knows the letters, and half of the meaning at most.
        """
        return self.share_spelled(text) * (1.0 if is_english(text) else FOREIGN_SHARE)

    def share_spelled(self, text: str) -> float:
        """Return the share of the text's word pieces that are longer than a letter: 1 where the text has no letters.

        The vocabulary spells words of other scripts letter by letter, and has no meaning for the letters.
        """
        if text.isascii():
            return 1.0
        pieces = self._loaded().tokenizer.encode(text[:MAX_CHARACTERS], add_special_tokens=False).tokens
        bare = [piece.removeprefix("##") for piece in pieces]
        words = [piece for piece in bare if piece == UNKNOWN or piece.isalpha()]
        return sum(len(word) > 1 and word != UNKNOWN for word in words) / len(words) if words else 1.0

    def _loaded(self) -> _Model:
        if self._model is None:
            with self._loading:
                if self._model is None:
                    self._model = _load()
        return self._model


def _load() -> _Model:
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str((MODEL_FOLDER / "tokenizer.json").read_text("utf-8"))
        for name in ("graph.onnx", "model.onnx"):
            (MODEL_FOLDER / name).stat()  # onnxruntime raises a bare Exception for a missing file
        # The graph maps its weights from the model's file: processes share those pages, and none copies the word table.
        session = open_session(str(MODEL_FOLDER / "graph.onnx"))
    except (ImportError, OSError) as error:
        raise StoreUnavailable(
            f"The text encoder cannot be loaded ({error}); install mcp-memory-stack again."
        ) from error
    tokenizer.no_truncation()
    # A text that mentions "[SEP]" means those five characters, not the mark between two texts.
    tokenizer.encode_special_tokens = True
    return _Model(session, tokenizer)


def _windows(model: _Model, text: str) -> list[list[int]]:
    # The tokenizer refuses lone surrogates, which JSON can smuggle into a str.
    text = text.encode("utf-8", "replace").decode("utf-8").strip()
    if len(text) > MAX_CHARACTERS:
        return [model.pieces(excerpt)[:WINDOW] for excerpt in _excerpts(text)]
    pieces = model.pieces(text)
    return [pieces[start:end] for start, end in window_bounds(len(pieces))]


def window_bounds(pieces: int) -> list[tuple[int, int]]:
    """Return start and end of each window of a text with `pieces` word pieces: equal in size, evenly spread."""
    return chunking.window_bounds(pieces, window=WINDOW, overlap=OVERLAP, most=MAX_WINDOWS)


def _excerpts(text: str) -> list[str]:
    return [_from_word(text[start : start + EXCERPT]) for start in chunking.spread(len(text) - EXCERPT, MAX_WINDOWS)]


def _from_word(excerpt: str) -> str:
    """Drop the rest of a word cut at the start, if the next word begins within 32 characters."""
    space = excerpt.find(" ", 0, 32)
    return excerpt[space + 1 :]


ERROR = 3  # onnxruntime's severity: no warnings about graphics cards on stderr


class Session(Protocol):
    """A loaded model; safe to run from several threads at once."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, NDArray[np.int64]]
    ) -> Sequence[NDArray[np.float32]]:
        """Compute the named outputs; None computes all of them."""
        ...


class _Options(Protocol):
    log_severity_level: int
    intra_op_num_threads: int
    inter_op_num_threads: int
    enable_cpu_mem_arena: bool


class _Runtime(Protocol):
    def disable_telemetry_events(self) -> None: ...
    def set_default_logger_severity(self, severity: int) -> None: ...
    def SessionOptions(self) -> _Options: ...
    def InferenceSession(self, model: str | bytes, options: _Options, *, providers: Sequence[str]) -> Session: ...


def open_session(model: str | bytes) -> Session:
    """Load a model from its path or its bytes; imports onnxruntime, which takes 0.2 s the first time.

    One thread, because texts are short: several would spin while they wait for each other, and slow a busy machine
    down several times over. With one there is no pool. Without an arena of its own, the memory of a long text is given
    back: 13 MB, at no cost in time that could be measured.
    """
    # onnxruntime's packages may report usage; the variable is read on import, and a value already set wins.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # noqa: TID251 - written for the library, not read
    runtime = cast("_Runtime", import_module("onnxruntime"))
    runtime.disable_telemetry_events()
    runtime.set_default_logger_severity(ERROR)
    options = runtime.SessionOptions()
    options.log_severity_level = ERROR
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

"""Makes what the settings choose: stores, encoders, passes and summarizers. With app.py the only one to name them."""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_memory.encoders.chroma_functions import ChosenFunction
from mcp_memory.encoders.embed_chroma import ChromaEmbedder
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.ports.access import FolderStore, TokenStore
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.session_logs import SessionLogStore
from mcp_memory.ports.text import Clock, Embedder, Summarizer, TokenCounter
from mcp_memory.settings import NOTES_FOLDER, Settings
from mcp_memory.stores.records import FILE_NAME, SqliteRecordStore, restore

if TYPE_CHECKING:
    from mcp_memory.domain.model.compaction import Count, Pass, PassName, Pause, Span
    from mcp_memory.stores.vectors.chroma import Place
    from mcp_memory.summarizers.chat import ChatModel

INDEX_FOLDER = "index"


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name; nothing is loaded or asked yet."""
    if settings.embedder_model is None:
        return MiniLMEmbedder()
    function = ChosenFunction(
        name=settings.embedder,
        model=settings.embedder_model,
        url=settings.embedder_url,
        options=settings.embedder_options,
    )
    return ChromaEmbedder(
        function,
        timeout_seconds=settings.embedder_timeout_seconds,
        batch=settings.embedder_batch,
        window_characters=settings.embedder_window_characters,
    )


def make_stores(
    settings: Settings, embedder: Embedder, clock: Clock
) -> tuple[RecordStore, SessionLogStore, TokenStore, FolderStore]:
    """The records, the logs that they make up, the tokens and the trusted folders, in one file."""
    records = SqliteRecordStore(settings.data_dir, embedder.id, clock)
    return records, records.session_logs(), records.tokens(), records.folders()


def make_summarizers(settings: Settings, embedder: Embedder, counter: TokenCounter) -> Mapping[str, Summarizer]:
    """Who may summarise: the extractive one, and a model where the settings name one."""
    # These import numpy, or a client library: after the handshake.
    from mcp_memory.summarizers.extractive import ExtractiveSummarizer
    from mcp_memory.summarizers.model import ModelSummarizer

    extractive = ExtractiveSummarizer(embedder, counter)
    model = _chat_model(settings)
    if model is None:
        return {"extractive": extractive}
    largest = settings.summarizer_max_input_tokens
    return {
        "extractive": extractive,
        "model": ModelSummarizer(model, extractive, counter, max_input_tokens=largest),
    }


def _chat_model(settings: Settings) -> "ChatModel | None":
    """The model that the settings name; nothing is asked yet."""
    from mcp_memory.summarizers.anthropic_model import AnthropicModel
    from mcp_memory.summarizers.chat import ChosenModel
    from mcp_memory.summarizers.openai_model import OpenAIModel

    if settings.summarizer == "extractive" or settings.summarizer_model is None:
        return None
    chosen = ChosenModel(
        name=settings.summarizer_model,
        url=settings.summarizer_url,
        timeout_seconds=settings.summarizer_timeout_seconds,
    )
    return OpenAIModel(chosen) if settings.summarizer == "openai" else AnthropicModel(chosen)


def make_passes(count: "Count", pause: "Pause", write: "Callable[[Span], str]") -> "Mapping[PassName, Pass]":
    """Every pass by its name; `write` is whoever summarises."""
    from mcp_memory.compaction.ceiling import Ceiling
    from mcp_memory.compaction.goal_batch import GoalBatch
    from mcp_memory.compaction.mask_tool_output import MaskToolOutput
    from mcp_memory.compaction.threshold import Threshold
    from mcp_memory.compaction.tool_calls import ToolCalls

    passes: tuple[Pass, ...] = (
        MaskToolOutput(count), ToolCalls(count), Threshold(count, write), GoalBatch(count, pause), Ceiling(count),
    )  # fmt: skip
    return {one.name: one for one in passes}


def make_index_place(settings: Settings, embedder: str) -> "Place":
    """Where the settings want the index behind search by meaning."""
    from mcp_memory.stores.vectors.chroma import Place

    key = settings.chroma_api_key
    return Place(
        mode=settings.chroma,
        root=str(settings.data_dir.absolute() / INDEX_FOLDER),  # Its process works elsewhere.
        embedder=embedder,
        url=settings.chroma_url,
        tenant=settings.chroma_tenant,
        database=settings.chroma_database,
        headers={name: value.get_secret_value() for name, value in settings.chroma_headers.items()},
        api_key=key.get_secret_value() if key else "",
    )


def memory_exists(settings: Settings) -> bool:
    """True where the data directory holds a memory already."""
    return (settings.data_dir / FILE_NAME).exists()


def restore_backup(settings: Settings, backup: Path, stamp: str) -> Path | None:
    """Put a backup in the place of the memory; returns where the former database is kept.

    Raises:
        InvalidRequest: the file is no sound backup.
        StoreUnavailable: the data directory may not be written.
    """
    kept = restore(settings.data_dir, backup, stamp)
    # What an index says of erasures counts by changes of the former history.
    from mcp_memory.stores.vectors.chroma.index_folder import IndexFolder

    IndexFolder(settings.data_dir / INDEX_FOLDER).erase(sys.maxsize, 0)
    # So does what hooks noted of how far a session's transcript is logged.
    shutil.rmtree(settings.data_dir / NOTES_FOLDER, ignore_errors=True)
    return kept

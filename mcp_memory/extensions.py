"""Holds every extension point that settings or services choose from: a function each, whose last lines are its table.

To add an implementation, write its module and add its row here. Importing this module loads none of them. The
entrypoints have registries of their own, which docs/architecture.md names: tools, importers, clients, hooks,
commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_memory.domain.model.session_log import Count, Pass, PassName, Pause, Span
    from mcp_memory.ports.records import RecordStore
    from mcp_memory.ports.retrieval import FilterIndex, GraphStore, KeywordStore, Source, VectorStore
    from mcp_memory.ports.text import Embedder, Summarizer, TokenCounter
    from mcp_memory.settings import Settings


def embedder(settings: Settings) -> Embedder:
    """Return the embedder that the settings name; nothing is loaded or asked yet."""
    if settings.embedder_model is None:
        from mcp_memory.encoders.embed_minilm import MiniLMEmbedder

        return MiniLMEmbedder()
    from mcp_memory.encoders.chroma_functions import ChosenFunction
    from mcp_memory.encoders.embed_chroma import ChromaEmbedder

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


def sources(
    records: RecordStore, filters: FilterIndex, keywords: KeywordStore, vectors: VectorStore, graph: GraphStore
) -> Sequence[Source]:
    """Return every way to find candidates for a query."""
    from mcp_memory.retrieval.graph import GraphSource
    from mcp_memory.retrieval.keyword import KeywordSource
    from mcp_memory.retrieval.time_span import TimeSpanSource
    from mcp_memory.retrieval.vector import VectorSource

    return (
        KeywordSource(records, filters, keywords),
        VectorSource(records, filters, vectors),
        TimeSpanSource(filters),
        GraphSource(records, filters, graph, keywords),
    )


def passes(count: Count, pause: Pause, write: Callable[[Span], str]) -> Mapping[PassName, Pass]:
    """Return every pass that shortens a log, by its name; `write` summarises a span."""
    from mcp_memory.compaction.ceiling import Ceiling
    from mcp_memory.compaction.goal_batch import GoalBatch
    from mcp_memory.compaction.mask_tool_output import MaskToolOutput
    from mcp_memory.compaction.retell_tool_calls import ToolCalls
    from mcp_memory.compaction.threshold import Threshold

    rows: tuple[Pass, ...] = (
        MaskToolOutput(count),
        ToolCalls(count),
        Threshold(count, write),
        GoalBatch(count, pause),
        Ceiling(count),
    )
    return {one.name: one for one in rows}


def summarizers(settings: Settings, encoder: Embedder, counter: TokenCounter) -> Mapping[str, Summarizer]:
    """Return every available summarizer: the extractive one, and a model where the settings name one."""
    from mcp_memory.summarizers.chat_models import AnthropicModel, ChosenModel, OpenAIModel
    from mcp_memory.summarizers.extractive import ExtractiveSummarizer
    from mcp_memory.summarizers.model import ModelSummarizer

    extractive = ExtractiveSummarizer(encoder, counter)
    services = {"openai": OpenAIModel, "anthropic": AnthropicModel}
    if settings.summarizer == "extractive" or settings.summarizer_model is None:
        return {"extractive": extractive}
    chosen = ChosenModel(
        name=settings.summarizer_model,
        url=settings.summarizer_url,
        timeout_seconds=settings.summarizer_timeout_seconds,
    )
    model = services[settings.summarizer](chosen)
    largest = settings.summarizer_max_input_tokens
    return {
        "extractive": extractive,
        "model": ModelSummarizer(model, extractive, counter, max_input_tokens=largest),
    }

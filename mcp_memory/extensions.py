"""Holds every extension point that settings or services choose from: a function each, whose last lines are its table.

To add an implementation, write its module and add its row here. Importing this module loads none of them. The
entrypoints have registries of their own, which docs/architecture.md names: tools, importers, clients, hooks,
commands. Passes, presets and watchers of compaction can be added from outside too: docs/compaction.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mcp_memory.domain.model.session_log import (
        CompactionOptions,
        CompactionPass,
        Count,
        Passes,
        Pause,
        Preset,
        Span,
    )
    from mcp_memory.ports.records import RecordStore
    from mcp_memory.ports.retrieval import FilterIndex, GraphStore, KeywordStore, Source, VectorStore
    from mcp_memory.ports.text import Embedder, Summarizer, TokenCounter
    from mcp_memory.services.sessions.compact import Compacted
    from mcp_memory.settings import Settings

ENTRY_POINTS = "mcp_memory.extensions"
"""The group of entry points whose modules are loaded, besides the files that the settings name."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionExtension:
    """Holds what a module from outside adds to compaction; each of the three may be missing.

    `passes` makes passes from a function that counts a text's tokens. `presets` are options by name. `watch` is called
    after each compaction and undo, in the thread that made it.
    """

    passes: Callable[[Count], Iterable[CompactionPass]] = lambda count: ()
    presets: Mapping[Preset, CompactionOptions] = field(default_factory=dict["Preset", "CompactionOptions"])
    watch: Callable[[Compacted], object] = lambda done: None

    def tell(self, done: Compacted) -> None:
        """Call `watch`; an error in it is logged, and harms nobody."""
        try:
            self.watch(done)
        except Exception as error:  # noqa: BLE001 - whatever a watcher does, the compaction is committed
            _log.warning("A watcher of compactions failed: %s.", type(error).__name__)


def added(files: Sequence[Path]) -> Sequence[CompactionExtension]:
    """Return the extensions of installed packages and of these files; one that fails to load is logged and left out."""
    from importlib.metadata import entry_points

    found: list[CompactionExtension] = []
    loaders = [(each.name, each.load) for each in entry_points(group=ENTRY_POINTS)]
    for name, load in [*loaders, *((file.name, lambda file=file: _module(file)) for file in files)]:
        try:
            module = load()
            given = {each: getattr(module, each) for each in CompactionExtension.__slots__ if hasattr(module, each)}
            found.append(CompactionExtension(**given))
        except Exception as error:  # noqa: BLE001 - code from outside
            _log.warning("The extension %s was not loaded: %s: %s", name, type(error).__name__, error)
    return found


def _module(file: Path) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"mcp_memory_extension_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError("It is not a Python file.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def embedder(settings: Settings) -> Embedder:
    """Return the embedder that the settings name; nothing is loaded or asked yet."""
    if settings.embedder_model is None:
        from mcp_memory.encoders.embed_e5 import E5Embedder
        from mcp_memory.encoders.embed_minilm import MiniLMEmbedder

        if settings.embedder == "minilm":
            return MiniLMEmbedder()
        return E5Embedder(beside=None if settings.embedder == "e5" else MiniLMEmbedder())
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


def traces(settings: Settings) -> Callable[[], object]:
    """Send traces where the settings say so; return what ends that. Raises InvalidRequest without the extra."""
    if not settings.otel:
        return lambda: None
    try:
        from mcp_memory.tracing_otlp import send_spans
    except ImportError as error:
        raise InvalidRequest("MCP_MEMORY_OTEL needs the extra `otel`; install `mcp-memory-stack[otel]`.") from error
    return send_spans()


def figures(settings: Settings, collect: Callable[[], Iterable[Any]]) -> Callable[[], object]:
    """Send the figures of Prometheus' registry where the settings say so, as `traces` does; return what ends that."""
    if not settings.otel:
        return lambda: None
    from mcp_memory.metrics_otlp import send_metrics

    return send_metrics(collect)


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


def passes(
    count: Count, pause: Pause, write: Callable[[Span], str], others: Sequence[CompactionExtension] = ()
) -> Passes:
    """Return every pass that shortens a log; `write` summarises a span. `others` may replace ours."""
    from mcp_memory.compaction.ceiling import Ceiling
    from mcp_memory.compaction.condense_dialogue import CondenseDialogue
    from mcp_memory.compaction.goal_batch import GoalBatch
    from mcp_memory.compaction.mask_tool_output import MaskToolOutput
    from mcp_memory.compaction.retell_tool_calls import RetellToolCalls
    from mcp_memory.compaction.threshold import Threshold
    from mcp_memory.domain.model.session_log import Passes

    usual = (  # In the order in which they run.
        MaskToolOutput(count),
        RetellToolCalls(count),
        CondenseDialogue(count, pause),
        Threshold(count, write),
        GoalBatch(count, pause),
    )
    outside = tuple(one for each in others for one in each.passes(count))
    return Passes(usual=usual, last=Ceiling(count), outside=outside)


def summarizers(settings: Settings, counter: TokenCounter) -> Mapping[str, Summarizer]:
    """Return every available summarizer: the extractive one, and a model where the settings name one."""
    from mcp_memory.settings import at_work
    from mcp_memory.summarizers.chat_models import AnthropicModel, ChosenModel, OpenAIModel
    from mcp_memory.summarizers.extractive import ExtractiveSummarizer
    from mcp_memory.summarizers.model import ModelSummarizer

    extractive = ExtractiveSummarizer(counter)
    services = {"openai": OpenAIModel, "anthropic": AnthropicModel}
    if settings.summarizer == "extractive" or settings.summarizer_model is None:
        return {"extractive": extractive}
    chosen = ChosenModel(
        name=settings.summarizer_model,
        url=settings.summarizer_url,
        timeout_seconds=settings.summarizer_timeout_seconds,
        variables=lambda: client.variables() if (client := at_work()) else None,
    )
    model = services[settings.summarizer](chosen)
    largest = settings.summarizer_max_input_tokens
    return {
        "extractive": extractive,
        "model": ModelSummarizer(model, extractive, counter, max_input_tokens=largest),
    }

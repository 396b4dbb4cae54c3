"""Traces and figures as a collector receives them: ids and counts, and no word of what was said."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest
from mcp import Client
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mcp_memory import extensions
from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.http.monitoring import BUCKET_SECONDS, Metrics
from mcp_memory.entrypoints.server.mcp_server import TOOLS, build_server
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.tracing import traced

pytestmark = pytest.mark.anyio

TRACE, CLIENTS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TEXT = "The quarry's detonator stands behind the blue shed."
QUERY = "Where is the detonator of the quarry?"


class Collector(ThreadingHTTPServer):
    """A collector of OpenTelemetry on loopback, which keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.figures: list[bytes] = []
        self.has_figures = threading.Event()

    def spans(self) -> dict[str, list[Any]]:
        """The spans by their names."""
        found: dict[str, list[Any]] = {}
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    found.setdefault(span.name, []).append(span)
        return found


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        kept = self.server.figures if self.path == "/v1/metrics" else self.server.bodies
        kept.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.figures:
            self.server.has_figures.set()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def told(span: Any) -> dict[str, object]:
    """What a span says."""
    return {each.key: each.value.int_value or each.value.string_value for each in span.attributes}


async def test_a_recall_is_a_tree_from_its_tool_to_the_statements_without_a_word(
    open_memory: Callable[..., App], collector: Collector
) -> None:
    """M4.3, S4.3: recall → source → SQL, below the client's own span; ids and counts only."""
    memory = open_memory(otel=True, namespace="pit", agent="ann")
    memory.remember([NewRecord(text=TEXT, tags=("explosives",))], memory.caller())
    async with Client(build_server(memory)) as client:
        meta: Any = {"traceparent": f"00-{TRACE}-{CLIENTS_SPAN}-01"}
        await client.call_tool("recall", {"query": QUERY}, meta=meta)
        await client.call_tool("recall", {"ids": ["rnothing"], "detail": "of the shed"})
        await client.call_tool("the shed", {})
    with pytest.raises(ValueError, match="shed"), traced("sum up", said="the blue shed", file="f1"):
        raise ValueError("behind the shed")
    memory.close()
    spans = collector.spans()
    [tool] = [span for span in spans["tool recall"] if span.trace_id.hex() == TRACE]
    assert (tool.parent_span_id.hex(), told(tool)["mcp_memory.records"]) == (CLIENTS_SPAN, 1)
    assert (tool.kind, told(tool)["mcp_memory.outcome"]) == (tool.SPAN_KIND_SERVER, "ok")
    mine = {name: [each for each in group if each.trace_id == tool.trace_id] for name, group in spans.items()}
    by_id = {span.span_id: span for group in mine.values() for span in group}

    def path(span: Any) -> list[str]:
        return [*(path(by_id[span.parent_span_id]) if span.parent_span_id in by_id else []), span.name]

    [service] = mine["recall"]
    assert path(service) == ["tool recall", "recall"]
    assert {name for name in mine if name.startswith("source ")} >= {"source keyword", "source vector"}
    assert [path(span) for span in mine["source keyword"]] == [["tool recall", "recall", "source keyword"]]
    assert told(mine["source keyword"][0])["mcp_memory.found"] == 1
    assert ["tool recall", "recall", "sql get_records"] in [path(span) for span in mine["sql get_records"]]
    assert all(path(span)[0] == "tool recall" for group in mine.values() for span in group)
    assert told(spans["tool other"][0])["mcp_memory.outcome"] == "error"
    [failed] = spans["sum up"]
    assert (told(failed), failed.status.message) == ({"mcp_memory.file": "f1"}, "ValueError")
    sent = b"".join(collector.bodies).lower()
    for word in ("detonator", "quarry", "shed", "explosives", "where is"):
        assert word.encode() not in sent
    assert b"mcp-memory" in sent


async def test_the_figures_that_prometheus_reads_are_sent_under_the_same_names(
    open_memory: Callable[..., App], collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M4.3: of one registry, at intervals and at the end."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    memory = open_memory(otel=True, namespace="pit", agent="ann")
    metrics = Metrics(memory, TOOLS)
    memory.send_figures(metrics.collect)
    async with Client(build_server(memory, middleware=(metrics,))) as client:
        await client.call_tool("remember", {"items": [{"text": TEXT}]})
        await client.call_tool("recall", {"query": QUERY})
    page = metrics.page().decode()
    await anyio.to_thread.run_sync(collector.has_figures.wait, 30)
    memory.close()
    assert len(collector.figures) > 1
    (resource,) = ExportMetricsServiceRequest.FromString(collector.figures[-1]).resource_metrics
    found = {each.name: each for each in resource.scope_metrics[0].metrics}
    named = {line.split()[2].removesuffix("_total") for line in page.splitlines() if line.startswith("# TYPE")}
    assert found.keys() == {name for name in named if not name.endswith("_created")}
    assert found["mcp_memory_records"].gauge.data_points[0].as_double == 1
    calls, took = found["mcp_memory_calls"].sum, found["mcp_memory_call_seconds"].histogram
    assert calls.is_monotonic
    assert {each["tool"]: count for each, count in map(counted, calls.data_points)} == {"remember": 1, "recall": 1}
    assert 0 < calls.data_points[0].start_time_unix_nano < calls.data_points[0].time_unix_nano
    (recall,) = (each for each in took.data_points if "recall" in told(each).values())
    assert (recall.count, sum(recall.bucket_counts)) == (1, 1)
    assert len(recall.bucket_counts) == len(recall.explicit_bounds) + 1 == len(BUCKET_SECONDS) + 1
    assert b"quarry" not in b"".join(collector.figures).lower()


def counted(point: Any) -> tuple[dict[str, str], float]:
    """The labels of what was counted, and how often."""
    return {each.key: each.value.string_value for each in point.attributes}, point.as_double


def test_a_memory_that_is_not_traced_loads_no_exporter_and_says_what_it_lacks(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1: nothing of it without its setting."""
    import sys

    for name in [name for name in sys.modules if name.startswith("mcp_memory.tracing_otlp")]:
        monkeypatch.delitem(sys.modules, name)
    memory = open_memory()
    assert "mcp_memory.tracing_otlp" not in sys.modules
    monkeypatch.setitem(sys.modules, "mcp_memory.tracing_otlp", None)
    with pytest.raises(InvalidRequest, match=r"install `mcp-memory-stack\[otel\]`"):
        extensions.traces(memory.settings.model_copy(update={"otel": True}))

"""Sends the figures of `/metrics` by OTLP over HTTP as well, with the libraries of the extra `otel`.

They are read of Prometheus' registry, so that both say the same under the same names. Address, headers and the time
between two sendings (`OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds) come from the standard variables.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.environment_variables import OTEL_METRIC_EXPORT_INTERVAL
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from mcp_memory import __version__
from mcp_memory.errors import McpMemoryError
from mcp_memory.tracing_otlp import NAME, SENT_WITHIN_SECONDS, resource

if TYPE_CHECKING:
    from prometheus_client import Metric as Family
    from prometheus_client.samples import Sample

EVERY_MILLISECONDS: Final = 60_000.0
"""OpenTelemetry's default."""
_Key = tuple[tuple[str, str], ...]
_NANOSECONDS: Final = 1e9
_UNKNOWN: Final[Any] = None
"""The least and the greatest value, which Prometheus does not keep: the message lacks them."""
_log = logging.getLogger(__name__)


def send_metrics(collect: Callable[[], Iterable[Family]]) -> Callable[[], None]:
    """Send what is collected from now on; return what sends the last figures and ends that."""
    exporter, of, is_over = OTLPMetricExporter(), resource(), threading.Event()
    told = os.environ.get(OTEL_METRIC_EXPORT_INTERVAL)  # noqa: TID251 - a variable of OpenTelemetry's
    seconds = float(told or EVERY_MILLISECONDS) / 1_000
    scope = InstrumentationScope(NAME, __version__)

    def send() -> None:
        try:
            metrics = [*_metrics(collect(), time.time_ns())]
        except McpMemoryError as error:  # The next time says it again.
            _log.info("could not send figures: %s", type(error).__name__)
            return
        found = ScopeMetrics(scope=scope, metrics=metrics, schema_url="")
        of_all = MetricsData([ResourceMetrics(resource=of, scope_metrics=[found], schema_url="")])
        exporter.export(of_all)

    def send_all() -> None:
        while not is_over.wait(seconds):
            send()
        send()
        exporter.shutdown()

    sending = threading.Thread(target=send_all, name="figures", daemon=True)
    sending.start()

    def end() -> None:
        is_over.set()
        sending.join(SENT_WITHIN_SECONDS)

    return end


def _metrics(families: Iterable[Family], now: int) -> Iterator[Metric]:
    for family in families:
        counted = [each for each in family.samples if not each.name.endswith("_created")]
        begun = {
            _key(each.labels): int(each.value * _NANOSECONDS)
            for each in family.samples
            if each.name.endswith("_created")
        }
        data: Sum | Gauge | Histogram
        if family.type == "histogram":
            data = Histogram([*_histograms(counted, begun, now)], AggregationTemporality.CUMULATIVE)
        else:
            points = [
                NumberDataPoint(each.labels, begun.get(_key(each.labels), 0), now, each.value) for each in counted
            ]
            is_sum = family.type == "counter"
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if is_sum else Gauge(points)
        yield Metric(family.name, family.documentation, family.unit, data)


def _histograms(samples: Iterable[Sample], begun: Mapping[_Key, int], now: int) -> Iterator[HistogramDataPoint]:
    """Make a point of the samples of one thing: Prometheus counts in each bucket what is in those below it, too."""
    for key, some in groupby(samples, lambda each: _key(each.labels)):
        group = [*some]
        sums = {each.name.rpartition("_")[2]: each.value for each in group if "le" not in each.labels}
        upto = [(float(each.labels["le"]), int(each.value)) for each in group if "le" in each.labels]
        counts = [count - before for (_, count), before in zip(upto, [0, *(count for _, count in upto)], strict=False)]
        yield HistogramDataPoint(
            dict(key), begun[key], now, int(sums["count"]), sums["sum"], counts, [bound for bound, _ in upto[:-1]],
            min=_UNKNOWN, max=_UNKNOWN,
        )  # fmt: skip


def _key(labels: Mapping[str, str]) -> _Key:
    """Name one thing that is counted: its labels but the bound of a bucket."""
    return tuple(sorted((name, value) for name, value in labels.items() if name != "le"))

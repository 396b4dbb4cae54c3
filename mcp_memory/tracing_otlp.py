"""Sends spans by OTLP over HTTP: implements `Tracer`, with the libraries of the extra `otel`.

The tracer is no global one of OpenTelemetry's: what libraries would say of a message, such as an error's words, may
hold remembered text, and goes nowhere. Address, headers, sampling and the service's name come from the standard
`OTEL_*` variables, which OpenTelemetry reads by itself.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcp_memory import __version__
from mcp_memory.ports.tracing import Told, use_tracer

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtlpSpan
    from opentelemetry.trace import Tracer as OtlpTracer

SENT_WITHIN_SECONDS: Final = 2.0
"""Time at the end for what was not sent yet; a collector that is away holds up no process."""
NAME: Final = "mcp-memory"
_UNNAMED: Final = "unknown_service"
"""OpenTelemetry gives this name to a service that no variable names."""
_ID = re.compile(r"[!-~]{1,100}")
"""An id, e.g. "0f3c9a2b7d341e55"; a text has blanks."""


class SentSpan:
    """A span that is sent once it has ended: implements `WorkSpan`."""

    def __init__(self, span: OtlpSpan) -> None:
        self._span = span

    def tell(self, **told: int | str) -> None:
        self._span.set_attributes(_attributes(told))


class SpanSender:
    """Implements `Tracer`: sends what ended in batches, from a thread of its own."""

    def __init__(self, tracer: OtlpTracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def __call__(self, name: str, parent: Mapping[str, str] | None, told: Told) -> Generator[SentSpan]:
        is_first = bool(parent) or not get_current_span().get_span_context().is_valid
        with self._tracer.start_as_current_span(
            name,
            context=self._propagator.extract(parent) if parent else None,
            kind=SpanKind.SERVER if is_first else SpanKind.INTERNAL,
            attributes=_attributes(told),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield SentSpan(span)
            except BaseException as error:
                span.set_status(StatusCode.ERROR, type(error).__name__)
                raise


def send_spans() -> Callable[[], None]:
    """Send the spans of this process from now on; return what sends the last ones and ends that."""
    provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use_tracer(SpanSender(provider.get_tracer(NAME, __version__)))

    def end() -> None:
        use_tracer(None)
        last = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(SENT_WITHIN_SECONDS)

    return end


@cache
def resource() -> Resource:
    """Return who sends, once for spans and figures: by the variables, else by the name of this program."""
    created = Resource.create()
    named = str(created.attributes.get(SERVICE_NAME, _UNNAMED))
    own = {SERVICE_VERSION: __version__, SERVICE_NAME: NAME if named.startswith(_UNNAMED) else named}
    return created.merge(Resource(own))


def _attributes(told: Told) -> dict[str, int | str]:
    """Return what a span says by OpenTelemetry's form of names; a text that is no id is left out."""
    return {
        f"mcp_memory.{name}": value for name, value in told.items() if isinstance(value, int) or _ID.fullmatch(value)
    }

"""Exports traces by OTLP/HTTP; needs the packages of the extra `otel`.

OpenTelemetry's environment variables say where to, and how many of the traces. Ended spans wait in a queue of
limited length, from which a thread sends them: a collector that hangs delays nothing, and spans are dropped.
"""

from __future__ import annotations

import asyncio

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as RecordedSpan
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bot.process.threads import in_thread
from bot.telemetry.tracing import Attributes, Span, Stage, Stages, Tracing

CLOSE_SECONDS = 3.0
SERVICE = "sdjax-bot"
PREFIX = "sdjax."  # of the attributes
_TRACEPARENT = TraceContextTextMapPropagator()


class OtlpTracing(Tracing):
    """Exports spans as the process `name` of this role and version; raises ValueError for wrong variables.

    What `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say has priority.
    """

    def __init__(self, *, name: str, role: str, version: str) -> None:
        own = {"service.name": SERVICE, "service.version": version, "service.instance.id": name}
        resource = Resource.create({**own, f"{PREFIX}role": role}).merge(OTELResourceDetector().detect())
        # At the exit of the process the provider would wait half a minute for its collector.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(SERVICE, version)

    def begin(self, name: str, stages: Stages) -> Span:
        """Return the first span of a new trace; it begins when `stages` began."""
        return _FirstSpan(self, self._start(name, Context(), stages, SpanKind.SERVER))

    def record(
        self,
        name: str,
        *,
        parent: str | None,
        work: Stage | Stages,
        attributes: Attributes,
        failed: bool = False,
    ) -> None:
        """Record a span, and the stages of its work; a span with stages is that of a process that works."""
        if parent is not None:
            kind = SpanKind.CONSUMER if isinstance(work, Stages) else SpanKind.INTERNAL
            span = self._start(name, _TRACEPARENT.extract({"traceparent": parent}, Context()), work, kind)
            self.end(span, work, attributes, failed=failed)

    def end(
        self, span: RecordedSpan, work: Stage | Stages, attributes: Attributes, *, failed: bool = False
    ) -> None:
        """Record the stages of a span, then the span."""
        inside = set_span_in_context(span, Context())
        for stage in work.all if isinstance(work, Stages) else ():
            self._start(stage.name, inside, stage).end(_nanoseconds(stage.ended))
        span.set_attributes({f"{PREFIX}{name}": value for name, value in attributes.items()})
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(_nanoseconds(work.ended))

    async def close(self) -> None:
        """Export what is left, for a few seconds at most; do not wait longer for a collector that hangs."""
        ending = in_thread(self._provider.shutdown, "traces")
        await asyncio.wait({ending}, timeout=CLOSE_SECONDS)

    def _start(
        self, name: str, inside: Context, work: Stage | Stages, kind: SpanKind = SpanKind.INTERNAL
    ) -> RecordedSpan:
        return self._tracer.start_span(name, inside, kind, start_time=_nanoseconds(work.began))


class _FirstSpan(Span):
    def __init__(self, tracing: OtlpTracing, span: RecordedSpan) -> None:
        carrier: dict[str, str] = {}
        _TRACEPARENT.inject(carrier, set_span_in_context(span, Context()))
        self.traceparent = carrier.get("traceparent")
        self._tracing, self._span = tracing, span

    def end(self, stages: Stages, attributes: Attributes) -> None:
        self._tracing.end(self._span, stages, attributes)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)

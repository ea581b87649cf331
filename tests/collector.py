"""A collector of traces: an OTLP/HTTP server on 127.0.0.1, as OpenTelemetry's protocol has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue


@dataclass(frozen=True, kw_only=True)
class CollectedSpan:
    """A span; `process` is the instance that sent it. `began` and `ended` are in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    began: int
    ended: int
    process: str
    attributes: dict[str, str | int]
    failed: bool


@dataclass(kw_only=True)
class Collector:
    """What has been received: the bodies as they came, and their spans."""

    address: str
    bodies: list[bytes] = field(default_factory=list)
    spans: list[CollectedSpan] = field(default_factory=list)

    def traces(self) -> dict[str, list[CollectedSpan]]:
        """The spans of each trace, in the order of their beginnings."""
        found: dict[str, list[CollectedSpan]] = {}
        for span in sorted(self.spans, key=lambda span: (span.began, -span.ended)):
            found.setdefault(span.trace, []).append(span)
        return found

    def take(self, body: bytes) -> None:
        """Keep the body of a request, and add its spans."""
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = str(_values(resource.resource.attributes)["service.instance.id"])
            for scope in resource.scope_spans:
                self.spans += [
                    CollectedSpan(
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        began=span.start_time_unix_nano,
                        ended=span.end_time_unix_nano,
                        process=process,
                        attributes=_values(span.attributes),
                        failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    )
                    for span in scope.spans
                ]


def _values(attributes: list[KeyValue]) -> dict[str, str | int]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Serve a collector until the block ends."""

    async def export(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        collector.take(await request.read())
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", export)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        collector = Collector(address=f"http://{host}:{port}")
        yield collector
    finally:
        await runner.cleanup()

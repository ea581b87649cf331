"""Traces of jobs, from the command to the delivery. What is here records nothing: `bot.otlp` exports.

    command ──► queue ──► paint ──► deliver          one trace a job
    a front     ├──────────────┘    a front
                a worker, for each image

The command's span has the `traceparent` that the job's row keeps. The others are its children.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bot.stages import Stages

Attributes = Mapping[str, str | int | float | bool]
"""What a span says of its work. Never words of people, names or tokens."""


class Span:
    """A span that has begun; this one is not recorded.

    `traceparent` names the span as W3C Trace Context does; None: it is not recorded.
    """

    traceparent: str | None = None

    def end(self, stages: Stages, attributes: Attributes) -> None:
        """Record the span with these stages. A span that is not ended is not recorded."""


class Tracing:
    """Records spans; this one does not, and costs nothing. No method waits for anything."""

    def begin(self, name: str, stages: Stages) -> Span:
        """Return the first span of a trace, which begins with these stages."""
        del name, stages
        return Span()

    def record(
        self,
        name: str,
        *,
        parent: str | None,
        began: float,
        ended: float,
        attributes: Attributes,
        failed: bool = False,
    ) -> None:
        """Record a span without stages, from and until these seconds since the epoch.

        `parent` is the `traceparent` of the job. Nothing is recorded for a job without a trace.
        """

    def record_stages(
        self,
        name: str,
        *,
        parent: str | None,
        stages: Stages,
        attributes: Attributes,
        failed: bool = False,
    ) -> None:
        """Record a span and each of its stages, as `record` does."""

    async def close(self) -> None:
        """Export what is left, for a few seconds at most."""


NO_TRACING: Final = Tracing()


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the id of the trace that a `traceparent` belongs to."""
    return None if traceparent is None else traceparent.split("-")[1]

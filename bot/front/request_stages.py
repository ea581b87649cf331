"""The stages and the trace of a request, from its acknowledgement to the answer that shows its job."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from bot.front.counting import name_of
from bot.front.services import Interaction, services_of
from bot.jobs import Job, Origin
from bot.stages import Stages
from bot.tracing import Span

log = logging.getLogger(__name__)

MEASURED = "measured"  # the key in an interaction's extras


@dataclass
class Measured:
    """The stages of a request, and its span once its job is stored."""

    stages: Stages = field(default_factory=Stages)
    span: Span = field(default_factory=Span)


def enter(interaction: Interaction, stage: str) -> None:
    """Let the request of the interaction enter this stage."""
    _measured(interaction).stages.enter(stage)


def traced(interaction: Interaction, origin: Origin) -> Origin:
    """Return the origin of a job that is stored now, with a trace where traces are on."""
    measured = _measured(interaction)
    measured.stages.enter("enqueue")
    measured.span = services_of(interaction).tracing.begin(name_of(interaction), measured.stages)
    return replace(origin, traceparent=measured.span.traceparent)


def answered_with(interaction: Interaction, job: Job) -> None:
    """Log and record that the answer shows the job. The interaction's next job has stages of its own."""
    measured = _measured(interaction)
    del interaction.extras[MEASURED]
    if job.origin.traceparent != measured.span.traceparent:
        return  # another front has stored it, or this one before
    measured.stages.end()
    durations, lane = measured.stages.durations, str(job.recipe.lane)
    log.info(
        "accepted, after %.2f s",
        durations["total"],
        extra={"lane": lane, "durations": durations},
    )
    measured.span.end(
        measured.stages,
        {
            "job": job.id,
            "lane": lane,
            "model": job.recipe.model,
            "steps": job.recipe.steps,
            "images": len(job.images),
            "front": services_of(interaction).front,
        },
    )


def _measured(interaction: Interaction) -> Measured:
    found: Measured = interaction.extras.setdefault(MEASURED, Measured())
    return found

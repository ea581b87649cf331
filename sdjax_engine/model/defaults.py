"""The default offer of a checkpoint: its own size and sampler, the reference's steps and guidance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sdjax_engine.families import pipelines
from sdjax_engine.model.prepare import suited_samplers
from sdjax_engine.request import Offer, Sampler
from sdjax_engine.samplers import default_sampler, pipeline_config
from sdjax_engine.weights.describe import describe

FEW_STEPS = 8  # the most of distilled checkpoints, whose first timestep must be the schedule's last
ENDING_AT_LAST = (Sampler.LCM, Sampler.TCD)  # these begin there with every spacing


def default_offer(
    source: str,
    *,
    model: str | None = None,
    revision: str | None = None,
    variant: str | None = None,
    vae: str | None = None,
    timestep_spacing: str | None = None,
    sampler: Sampler | None = None,
    num_inference_steps: int | None = None,
    report: Callable[[str], None] | None = None,
) -> Offer:
    """Return the offer of the checkpoint called `source` (see `weights.load_checkpoint`).

    Only the checkpoint's configurations are read or downloaded. The offer's name is `model`, or the
    checkpoint's short name; its sampler is `sampler`, or the checkpoint's; its samplers are those that suit
    the checkpoint in so many steps. `report` is told if a few steps may need another spacing of timesteps.
    Raises UnreadableCheckpoint.
    """
    described = describe(
        source, revision=revision, variant=variant, vae=vae, timestep_spacing=timestep_spacing, report=report
    )
    family = pipelines()[described.pipeline]
    schedule = pipeline_config(described.scheduler_config, family.corrections(described.pipeline))
    usual_steps, guidance = family.defaults(described.pipeline, described.index, described.scheduler_config)
    steps = num_inference_steps or usual_steps
    sampler = sampler or default_sampler(schedule)
    spacing = described.scheduler_config.get("timestep_spacing")
    guessed = not described.has_schedule and spacing != "trailing" and sampler not in ENDING_AT_LAST
    if report is not None and steps <= FEW_STEPS and guessed and timestep_spacing is None:
        report(
            f"{source} has no schedule of its own: if it is a Turbo, Lightning or Hyper, set "
            'timestep_spacing = "trailing".'
        )
    return Offer(
        model=model or Path(described.name).name,
        sizes=(described.native_size,),
        num_inference_steps=steps,
        guidance_scale=guidance,
        sampler=sampler,
        samplers=tuple(suited_samplers(steps, schedule)),
        most_skipped=described.most_skipped,
        usual_layer=described.usual_layer,
    )

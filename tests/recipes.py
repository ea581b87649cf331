"""Jobs for all tests: recipes, origins and states."""

from dataclasses import replace
from typing import Any

from bot.config import ModelConfig
from bot.domain.jobs import ImageRecord, Job, Notes, Origin, Recipe, State, state_of_job
from sdjax_engine.request import Sampler

RECIPE = Recipe(
    prompt="a red circle on a white background",
    seed=7,
    num_inference_steps=20,
    guidance_scale=5.0,
    sampler=Sampler.DDIM,
    width=128,
    height=128,
    model="demo",
)
MODEL = ModelConfig(sizes=("128x128",), num_inference_steps=20, guidance_scale=2.2)
"""A model that offers the recipe's size, whatever the bundled checkpoint paints."""
OFFER = MODEL.offer
ORIGIN = Origin(
    interaction_id=1,
    interaction_token="a-token",
    token_expires_at=1_000_900.0,
    application_id=5,
    user_id=11,
    guild_id=21,
    channel_id=31,
    locale="en-US",
    private=False,
)


def recipe(**values: Any) -> Recipe:
    return replace(RECIPE, **values)


def origin(interaction_id: int, **values: Any) -> Origin:
    return replace(ORIGIN, interaction_id=interaction_id, **values)


def job_of(
    *states: State,
    job_id: str = "abc",
    recipe: Recipe = RECIPE,
    origin: Origin = ORIGIN,
    step: int = 0,
    failure: str = "painting_failed",
    trouble: str | None = None,
    notes: Notes | None = None,
) -> Job:
    """A job whose images are in these states; those that run have made `step` steps, in this trouble."""
    images = tuple(
        ImageRecord(
            id=index,
            job_id=job_id,
            index=index,
            seed=recipe.seed + index,
            state=state,
            step=step if state is State.RUNNING else 0,
            artifact=f"aa/{index}.png" if state is State.DONE else None,
            failure=failure if state is State.FAILED else None,
            trouble=trouble if state is State.RUNNING else None,
            furthest=step if state is State.RUNNING else 0,
            notes=notes if notes and state is State.DONE else Notes(),
        )
        for index, state in enumerate(states)
    )
    return Job(
        id=job_id,
        recipe=replace(recipe, variants=len(images)),
        origin=origin,
        state=state_of_job([image.state for image in images]),
        created_at=0.0,
        started_at=None,
        finished_at=None,
        message_id=None,
        images=images,
    )

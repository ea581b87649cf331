"""Start pictures: stored with their job, passed to workers, deleted with the last job that needs them."""

from __future__ import annotations

import sqlalchemy as sa
from recipes import RECIPE, origin, recipe
from stores import TTL

from bot.domain.jobs import GIVEN, REFERENCES, Recipe
from bot.store import Store
from bot.store.tables.queue import jobs
from sdjax_engine.request import ControlType, Lora

PICTURE, MASK, CONTROL, SHOWN = "aa/picture.png", "bb/mask.png", "cc/control.png", "dd/shown.png"
REFERRED = "ee/first.png", "ff/second.png"
STARTED = recipe(
    init_image=PICTURE,
    mask_image=MASK,
    strength=0.5,
    loras=(Lora(name="ink"), Lora(name="fog", weight=0.4)),
    control_image=CONTROL,
    controlnet="canny",
    control_type=ControlType.LINES,
    control_strength=0.7,
    image_prompt=SHOWN,
    image_prompt_strength=0.4,
    reference=REFERRED[0],
    reference_2=REFERRED[1],
)


async def painted(store: Store, recipe: Recipe, *, interaction: int, artifact: str) -> str:
    """The id of a finished job."""
    job = await store.jobs.enqueue(recipe, origin(interaction))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    await store.leases.complete(claim, artifact=artifact, seconds=2.0)
    return job.id


async def test_the_recipe_comes_back_as_it_was_given(store: Store) -> None:
    job = await store.jobs.enqueue(STARTED, origin(1))
    assert job.recipe == (await store.jobs.get(job.id)).recipe == STARTED


async def test_a_claim_has_the_start_picture_and_the_steps_that_are_left(store: Store) -> None:
    await store.jobs.enqueue(STARTED, origin(1))
    (claim,) = await store.leases.claim("worker", limit=1, ttl=TTL)
    assert (claim.given, claim.steps) == (STARTED.given, 10)
    files = {"init_image": PICTURE, "mask_image": MASK, "control_image": CONTROL, "image_prompt": SHOWN}
    files |= dict(zip(REFERENCES, REFERRED, strict=True))
    assert claim.given == files
    asked = claim.request
    assert (asked.controlnet, asked.control_type, asked.control_strength) == ("canny", "lines", 0.7)
    assert asked.image_prompt_strength == 0.4
    assert asked.lane.references == 2
    assert (claim.request.strength, claim.request.loras) == (0.5, STARTED.loras)
    job = await store.leases.complete(claim, artifact="cc/done.png", seconds=2.0)
    assert job.images[0].step == 10


async def test_half_the_steps_move_the_queue_half_as_far(store: Store) -> None:
    whole = await store.jobs.enqueue(RECIPE, origin(1, user_id=1))
    half = recipe(init_image=PICTURE, strength=0.5)
    first = await store.jobs.enqueue(half, origin(2, user_id=2))
    second = await store.jobs.enqueue(half, origin(3, user_id=2))
    last = await store.jobs.enqueue(half, origin(4, user_id=2))
    order = [job.id for job in await store.jobs.active()]
    assert order == [first.id, whole.id, second.id, last.id]


async def test_a_recipe_of_an_earlier_version_starts_from_noise(store: Store) -> None:
    job = await store.jobs.enqueue(RECIPE, origin(1))
    known = ("strength", "loras", "controlnet", "control_type", "control_strength")
    known += ("image_prompt_strength", *GIVEN)
    async with store.shared.database.write() as connection:
        stored = await connection.scalar(sa.select(jobs.c.recipe))
        earlier = {name: value for name, value in stored.items() if name not in known}
        await connection.execute(sa.update(jobs).values(recipe=earlier))
    assert (await store.jobs.get(job.id)).recipe == RECIPE


async def test_the_start_picture_is_deleted_with_its_result(store: Store) -> None:
    job_id = await painted(store, STARTED, interaction=1, artifact="cc/done.png")
    assert set(await store.deliveries.delete_result(job_id, user_id=None)) == {
        *(PICTURE, MASK, CONTROL, SHOWN, *REFERRED),
        "cc/done.png",
    }
    assert await store.deliveries.delete_result(job_id, user_id=None) == []


async def test_a_picture_that_another_job_starts_from_is_kept_after_its_job(store: Store) -> None:
    first = await painted(store, RECIPE, interaction=1, artifact=PICTURE)
    varied = await painted(store, recipe(init_image=PICTURE), interaction=2, artifact="cc/done.png")
    assert await store.deliveries.delete_result(first, user_id=None) == []
    assert set(await store.deliveries.delete_result(varied, user_id=None)) == {PICTURE, "cc/done.png"}


async def test_a_picture_that_another_job_shows_is_kept_after_the_job_that_starts_from_it(
    store: Store,
) -> None:
    first = await painted(store, RECIPE, interaction=1, artifact=PICTURE)
    varied = await painted(store, recipe(init_image=PICTURE), interaction=2, artifact="cc/done.png")
    assert await store.deliveries.delete_result(varied, user_id=None) == ["cc/done.png"]
    assert await store.deliveries.delete_result(first, user_id=None) == [PICTURE]

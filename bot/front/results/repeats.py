"""Jobs that come from a result: the same again, variations, an enlargement, one picture, a publication."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.delivery.content import PICK, SINGLE, VARY
from bot.domain.errors import NotYours, UnknownJob, UserMistake
from bot.domain.jobs import Descent, Job, Origin, Recipe
from bot.front.answers.controls import Button, Menu
from bot.front.answers.permissions import may_be_seen
from bot.front.recipes.options import find_offer, random_seed
from bot.front.recipes.variations import enlarged, varied, varied_near
from bot.front.requests.intake import (
    accept,
    announce,
    check_offered,
    copy,
    enqueue,
    enqueue_again,
    parent_of,
    repeatable,
)
from bot.front.services.request import Request

# Any person who sees a picture may press these buttons; the new job and its message are theirs.


async def paint_again(request: Request, job_id: str) -> None:
    """Queue a job of the same recipe with the next seeds, shown in a new message as private as the first."""
    origin, earlier = await _accepted(request, job_id, Descent.REPEAT)
    check_offered(request, earlier.recipe)
    await announce(request, await enqueue_again(request, earlier, origin))


async def vary(request: Request, job_id: str, index: int) -> None:
    """Queue a job that starts from a picture of another job, with a new seed, as private as that job."""
    await _paint(
        request, job_id, index, Descent.VARIATION, lambda job: varied(job, index, seed=random_seed())
    )


async def vary_near(request: Request, job_id: str, index: int) -> None:
    """Queue a job of the same words and seed whose initial noise is a little changed."""
    await _paint(
        request, job_id, index, Descent.VARIATION, lambda job: varied_near(job, index, seed=random_seed())
    )


async def enlarge(request: Request, job_id: str, index: int) -> None:
    """Queue a job of the same words and seed in the next larger size, shown as private as the first."""
    offers = request.services.offers
    await _paint(
        request,
        job_id,
        index,
        Descent.ENLARGEMENT,
        lambda job: enlarged(job, index, find_offer(job.recipe.model, offers)),
    )


async def show_single(request: Request, job_id: str, index: int) -> None:
    """Store a job that shows the picture alone, as private as the grid; the outbox delivers it."""
    parent = parent_of(request, job_id, Descent.SINGLE, index)
    private = request.is_pressed_privately or await request.wants_private()
    origin = await accept(request, private=private, parent=parent, paints=False)
    await copy(request, await repeatable(request, job_id), origin, index=index)


async def pick(request: Request, values: Sequence[str], job_id: str, kind: str) -> None:
    """Do with a picture of a large grid what the menu is for; raises UnknownJob for a value of no picture."""
    if not values[0].isdecimal():
        raise UnknownJob(job=job_id)
    await (show_single if kind == SINGLE else vary)(request, job_id, int(values[0]))


async def _paint(
    request: Request, job_id: str, index: int, descent: Descent, recipe_from: Callable[[Job], Recipe]
) -> None:
    origin, earlier = await _accepted(request, job_id, descent, index)
    recipe = recipe_from(earlier)
    check_offered(request, recipe)
    await announce(request, await enqueue(request, recipe, origin))


async def _accepted(
    request: Request, job_id: str, descent: Descent, index: int | None = None
) -> tuple[Origin, Job]:
    parent = parent_of(request, job_id, descent, index)
    origin = await accept(request, private=request.is_pressed_privately, parent=parent)
    return origin, await repeatable(request, job_id)


async def publish(request: Request, job_id: str) -> None:
    """Store a public copy of the result; the outbox delivers it to the channel of the press.

    Raises NotYours for another person's job, and UserMistake `publish_restricted` for pictures of an
    age-restricted channel anywhere else.
    """
    parent = parent_of(request, job_id, Descent.PUBLICATION)
    origin = await accept(request, private=False, parent=parent, paints=False)
    job = await request.services.store.jobs.get(job_id)
    if job.origin.user_id != request.person.id:
        raise NotYours(job=job_id)
    if not may_be_seen(request, job):
        raise UserMistake("publish_restricted")
    await copy(request, job, origin)


_PICTURE = r":(?P<job_id>[0-9a-z]+):(?P<index>[0-9])"
CONTROLS = (
    Button(template=r"again:(?P<job_id>[0-9a-z]+)", act=paint_again),
    Button(template=f"vary{_PICTURE}", act=vary),
    Button(template=f"enlarge{_PICTURE}", act=enlarge),
    Button(template=f"single{_PICTURE}", act=show_single),
    Menu(template=rf"{PICK}:(?P<job_id>[0-9a-z]+):(?P<kind>{SINGLE}|{VARY})", act=pick),
    Button(template=r"publish:(?P<job_id>[0-9a-z]+)", act=publish),
)

"""The menu of further actions under a result: near pictures, another start picture, favourites, facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bot.delivery.content import FROM, MORE, NEAR, STAR
from bot.domain.errors import UnknownJob
from bot.domain.jobs import Job, Recipe
from bot.front.answers.answers import acknowledge, add_page, page
from bot.front.answers.controls import Menu
from bot.front.answers.permissions import may_repeat
from bot.front.recipes.options import number_text
from bot.front.results.favourites import change_favourite
from bot.front.results.remix import open_remix_from
from bot.front.results.repeats import vary_near
from bot.front.services.request import Request
from bot.texts.catalogue import Texts
from sdjax_engine.images import parameters_text

MAX_PARAMETERS = 3500  # characters of one page; the rest is for the lines around them


async def choose(request: Request, values: Sequence[str], job_id: str) -> None:
    """Do what was chosen."""
    action, _, index = values[0].partition(":")
    if action == NEAR and index.isdecimal():
        await vary_near(request, job_id, int(index))
    elif action == FROM:
        await open_remix_from(request, job_id)
    elif action == STAR:
        await change_favourite(request, job_id)
    else:
        await show_info(request, job_id)


async def show_info(request: Request, job_id: str) -> None:
    """Show to the person alone how the pictures were made; raises UnknownJob where they may not be seen."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    job = await services.store.jobs.get(job_id)
    if job.deleted_at is not None or not may_repeat(request, job, privately=True):
        raise UnknownJob(job=job_id)
    first, *others = parameters_of(job)
    text = info(job, first, request.texts, now=services.clock())
    await request.edit(view=page(text))
    for part in others:
        await add_page(request, part)


def parameters_of(job: Job) -> list[str]:
    """Return the recipe of a job's first picture in the form that other tools read, in parts for pages."""
    started = job.recipe.init_image is not None
    int8 = job.images[0].notes.int8
    text = parameters_text(job.recipe.request(0), from_picture=started, int8=int8)
    left = text.replace("```", "\u02cb\u02cb\u02cb")
    parts = []
    while len(left) > MAX_PARAMETERS:
        end = left.rfind("\n", 0, MAX_PARAMETERS) + 1 or MAX_PARAMETERS
        parts.append(left[:end].rstrip("\n"))
        left = left[end:]
    return [*parts, left]


def info(job: Job, parameters: str, texts: Texts, *, now: float) -> str:
    """Return a page: how a job's pictures were made, and its times."""
    again = texts.gettext("These settings paint the picture again, here or in other tools:")
    if job.recipe.variants > 1:
        again = texts.gettext("These settings paint the first picture again, here or in other tools:")
    lines = [
        *beside_settings(job.recipe, texts),
        again,
        f"```\n{parameters}\n```",
        texts.gettext("Result {id}, asked for {age}.", id=job.id, age=texts.age(now - job.created_at)),
    ]
    if job.started_at is not None and job.finished_at is not None:
        waited, painted = job.started_at - job.created_at, job.finished_at - job.started_at
        times = {"waited": texts.duration(waited), "painted": texts.duration(painted)}
        lines.append(texts.gettext("It waited {waited} and was painted in {painted}.", **times))
    return "\n".join(lines)


def beside_settings(recipe: Recipe, texts: Texts) -> Iterator[str]:
    """Yield what the settings do not say, without which they paint another picture."""
    strength = number_text(recipe.strength)
    if recipe.mask_image is not None:
        yield texts.gettext(
            "It started from a picture and a mask, at strength {strength}: give both too.", strength=strength
        )
    elif recipe.init_image is not None:
        yield texts.gettext(
            "It started from a picture, at strength {strength}: give that picture too.", strength=strength
        )
    if recipe.control_image is not None:
        yield texts.gettext("It kept the composition of a picture: give that picture too.")
    if recipe.image_prompt is not None:
        yield texts.gettext("A picture was part of its prompt: give that picture too.")
    if recipe.references:
        yield texts.gettext("It was made with reference pictures: give those pictures too.")
    if (count := len(recipe.variations)) > 1:
        yield texts.gettext(
            "It was varied {count} times, which these settings cannot say: they paint a picture like it.",
            count=count,
        )


CONTROLS = (Menu(template=rf"{MORE}:(?P<job_id>[0-9a-z]+)", act=choose),)

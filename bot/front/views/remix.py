"""The button that opens a form with a result's words and settings; submitting it queues a job."""

from __future__ import annotations

from dataclasses import replace

from bot.domain.jobs import Descent
from bot.front.answers.controls import Button
from bot.front.answers.forms import Form
from bot.front.requests.intake import (
    accept,
    announce,
    enqueue,
    parent_of,
    pressed_privately,
    repeatable,
)
from bot.front.requests.recipe_form import ALONE, open_remix, recipe_of
from bot.front.services.services import Interaction


async def remix(
    interaction: Interaction,
    job_id: str,
    target: str | None,
    *,
    prompt: str,
    negative_prompt: str = "",
    settings: str = "",
    size: str = "",
    sampler: str = "",
) -> None:
    """Queue a job of the words and settings in the form.

    `target` is the message that shows the earlier result, or `alone` where only the person sees that message;
    an older version of the bot left it out.
    """
    parent = parent_of(interaction, job_id, Descent.REMIX)
    if target and target != ALONE:
        parent = replace(parent, channel_id=interaction.channel_id, message_id=int(target))
    privately = target == ALONE or (not target and pressed_privately(interaction))
    origin = await accept(interaction, private=privately, parent=parent)
    # A form is accepted even if its result has been deleted since it was opened.
    earlier = await repeatable(interaction, job_id, privately=privately, deleted=True)
    recipe = await recipe_of(
        interaction,
        prompt=prompt,
        negative_prompt=negative_prompt,
        settings=settings,
        size=size,
        sampler=sampler,
        earlier=earlier.recipe,
    )
    job = await enqueue(interaction, recipe, origin)
    await announce(interaction, job)


class RemixButton(Button, template=r"remix:(?P<job_id>[0-9a-z]+)"):
    """For any person who sees the pictures; the new job and its message are theirs."""

    act = staticmethod(open_remix)


REMIX_FORM = Form(template=rf"remix:(?P<job_id>[0-9a-z]+)(?::(?P<target>[0-9]{{1,20}}|{ALONE}))?", act=remix)

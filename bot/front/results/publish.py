"""The button that shows a private result to the whole channel."""

from __future__ import annotations

from bot.domain.errors import NotYours, UserMistake
from bot.domain.jobs import Descent
from bot.front.answers.controls import Button
from bot.front.answers.permissions import may_be_seen
from bot.front.requests.intake import accept, copy, parent_of
from bot.front.services.request import Request


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


CONTROLS = (Button(template=r"publish:(?P<job_id>[0-9a-z]+)", act=publish),)

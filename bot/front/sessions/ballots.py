"""The ballots of a vote that is under way: edited when the vote's end or their pictures change."""

from __future__ import annotations

from bot.delivery.content import MessageContent
from bot.front.services import Services
from bot.front.sessions.couriers import Courier
from bot.front.sessions.pages import mark_of
from bot.front.sessions.posts import draw, sheet_of
from bot.store.session_rows import GroupSession, Phase


async def renew_ballots(
    services: Services, courier: Courier, session: GroupSession, shown: dict[int, MessageContent]
) -> None:
    """Edit each ballot that would differ from its content in `shown`, by the id of its post.

    A ballot that is not in `shown` is edited once. Raises as `send_post`.
    """
    if session.phase is not Phase.VOTING:
        shown.clear()
        return
    for post in await services.store.showing.ballots(session):
        content, entries = await sheet_of(services, session, post)
        if content == shown.get(post.id):
            continue
        files = await draw(services, content, entries, post)
        await courier.edit_posted(session, content, mark=mark_of(post), files=files)
        shown[post.id] = content

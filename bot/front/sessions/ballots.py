"""The ballots of a vote that is under way: edited when the vote's end or their pictures change."""

from __future__ import annotations

from bot.delivery.content import MessageContent
from bot.front.services.request import Services
from bot.front.sessions.couriers import Courier
from bot.front.sessions.pages import mark_of
from bot.front.sessions.posts import draw, pictures_of
from bot.store.rows.sessions import GroupSession, Phase


async def renew_ballots(
    services: Services, courier: Courier, session: GroupSession, shown: dict[int, MessageContent]
) -> None:
    """Edit each ballot that would differ from its content in `shown`, by the id of its post.

    A ballot that is not in `shown` is edited once. Raises Refused, DeliveryDelayed and StoreUnavailable.
    """
    if session.phase is Phase.VOTING:
        # After the end of the vote, a ballot that has lost its buttons must not get them back.
        session = await services.store.sessions.get(session.id)
    if session.phase is not Phase.VOTING:
        shown.clear()
        return
    posts = await services.store.posts.ballots(session)
    if not posts:
        return
    pictures = await pictures_of(services, session, posts[0])
    for post in posts:
        content = pictures.sheet(session, post)
        if content != shown.get(post.id):
            files = await draw(services, content, pictures, post)
            await courier.edit_posted(session, content, mark=mark_of(post), files=files)
            shown[post.id] = content

"""The session of a channel, as requests for pictures and votes need it."""

from __future__ import annotations

from bot.domain.errors import UserMistake
from bot.domain.jobs import Recipe
from bot.front.services.patience import patiently
from bot.front.services.services import Interaction, role_ids, sender_of, services_of
from bot.sessions.theming import themed
from bot.store.rows.sessions import GroupSession, Phase, round_over


async def session_here(interaction: Interaction) -> GroupSession | None:
    """Return the open session of the interaction's channel; None without one."""
    if interaction.guild_id is None or interaction.channel_id is None:
        return None
    read = services_of(interaction).store.sessions.here
    return await patiently(read, interaction.channel_id)


async def joined(interaction: Interaction, recipe: Recipe) -> tuple[str | None, Recipe]:
    """Return the id of the channel's session, and the recipe with the session's words.

    Raises UserMistake where the person may not take part, the round is over, or the recipe does not suit the
    session. The store checks the round again, with the person's quota, when it stores the job.
    """
    session = await session_here(interaction)
    if session is None:
        return None, recipe
    check_takes_part(interaction, session)
    if session.phase is not Phase.PAINTING:
        raise round_over(session.phase)
    services, sender = services_of(interaction), sender_of(interaction)
    return session.id, await services.judging.run(sender, lambda _check: themed(recipe, session.plan))


def check_takes_part(interaction: Interaction, session: GroupSession) -> None:
    """Raise UserMistake `session_role` where the person lacks the role of the session."""
    role_id = session.plan.role_id
    if role_id is None or role_id in role_ids(interaction.user):
        return
    role = interaction.guild.get_role(role_id) if interaction.guild else None
    raise UserMistake("session_role", role=role.name if role else role_id)

"""The right to open and lead group sessions, decided at each command."""

from __future__ import annotations

from bot.domain.errors import UserMistake
from bot.front.answers.permissions import acting
from bot.front.requests.session_here import session_here
from bot.front.requests.standing import check_blocked
from bot.front.services.services import Interaction, services_of
from bot.store.rows.audit import By
from bot.store.rows.sessions import GroupSession
from bot.texts.catalogue import Texts


def host(interaction: Interaction) -> By:
    """Return the person who opens a session; raises UserMistake `moderate_no_server` or `session_right`."""
    _check_server(interaction)
    rights, services = interaction.permissions, services_of(interaction)
    if not (getattr(rights, services.host_permission) or rights.manage_messages):
        named = permission_name(services.host_permission, services.texts(interaction))
        raise UserMistake("session_right", permission=named)
    return acting(interaction)


def permission_name(permission: str, texts: Texts) -> str:
    """Return the name that Discord shows for a permission of hosts; see `SessionsConfig`."""
    names = {
        "manage_events": texts.gettext("Manage Events"),
        "manage_messages": texts.gettext("Manage Messages"),
        "manage_threads": texts.gettext("Manage Threads"),
        "create_events": texts.gettext("Create Events"),
    }
    return names[permission]


async def led(interaction: Interaction) -> tuple[GroupSession, By]:
    """Return the session of the channel, and its leader: the host, or any moderator.

    Raises UserMistake `moderate_no_server`, `session_none` or `session_host`, and for a blocked person.
    """
    session = await the_session(interaction)
    await check_blocked(interaction)
    if interaction.user.id != session.host_id and not interaction.permissions.manage_messages:
        raise UserMistake("session_host")
    return session, acting(interaction)


async def taken(interaction: Interaction) -> tuple[GroupSession, By]:
    """Return the session of the channel, and the moderator who becomes its host.

    Raises UserMistake `moderate_no_server`, `session_none` or `session_moderator`.
    """
    session = await the_session(interaction)
    if not interaction.permissions.manage_messages:
        raise UserMistake("session_moderator")
    return session, acting(interaction)


async def the_session(interaction: Interaction) -> GroupSession:
    """Return the session of the channel; raises UserMistake `moderate_no_server` or `session_none`."""
    _check_server(interaction)
    session = await session_here(interaction)
    if session is None:
        raise UserMistake("session_none")
    return session


def _check_server(interaction: Interaction) -> None:
    if interaction.guild_id is None or not interaction.is_guild_integration():
        raise UserMistake("moderate_no_server")

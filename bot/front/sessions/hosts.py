"""The right to open and lead group sessions, decided at each command."""

from __future__ import annotations

from bot.domain.errors import UserMistake
from bot.front.answers.permissions import acting
from bot.front.requests.intake import session_here
from bot.front.services.request import Request
from bot.store.rows.audit import By
from bot.store.rows.sessions import GroupSession
from bot.texts.catalogue import Texts


def host(request: Request) -> By:
    """Return the person who opens a session; raises UserMistake `moderate_no_server` or `session_right`."""
    _check_server(request)
    rights, services = request.interaction.permissions, request.services
    if not (getattr(rights, services.host_permission) or rights.manage_messages):
        named = permission_name(services.host_permission, request.texts)
        raise UserMistake("session_right", permission=named)
    return acting(request)


def permission_name(permission: str, texts: Texts) -> str:
    """Return the name that Discord shows for a permission of hosts; see `SessionsConfig`."""
    names = {
        "manage_events": texts.gettext("Manage Events"),
        "manage_messages": texts.gettext("Manage Messages"),
        "manage_threads": texts.gettext("Manage Threads"),
        "create_events": texts.gettext("Create Events"),
    }
    return names[permission]


async def led(request: Request) -> tuple[GroupSession, By]:
    """Return the session of the channel, and its leader: the host, or any moderator.

    Raises UserMistake `moderate_no_server`, `session_none` or `session_host`, and for a blocked person.
    """
    session = await the_session(request)
    (await request.standing()).check_blocked()
    if request.person.id != session.host_id and not request.interaction.permissions.manage_messages:
        raise UserMistake("session_host")
    return session, acting(request)


async def taken(request: Request) -> tuple[GroupSession, By]:
    """Return the session of the channel, and the moderator who becomes its host.

    Raises UserMistake `moderate_no_server`, `session_none` or `session_moderator`.
    """
    session = await the_session(request)
    if not request.interaction.permissions.manage_messages:
        raise UserMistake("session_moderator")
    return session, acting(request)


async def the_session(request: Request) -> GroupSession:
    """Return the session of the channel; raises UserMistake `moderate_no_server` or `session_none`."""
    _check_server(request)
    session = await session_here(request)
    if session is None:
        raise UserMistake("session_none")
    return session


def _check_server(request: Request) -> None:
    if request.server_id is None:
        raise UserMistake("moderate_no_server")

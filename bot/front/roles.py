"""The roles of a person, as the interaction has them."""

from __future__ import annotations

import discord


def role_ids(person: discord.User | discord.Member) -> tuple[int, ...]:
    """Return the ids of a person's roles, with that of all members; none in a direct message.

    `Member.roles` has only the roles of servers that the gateway has sent: after a start some are missing.
    """
    if not isinstance(person, discord.Member):
        return ()
    return (person.guild.id, *person._roles)

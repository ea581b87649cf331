"""REST operations about the bot, its application and the server."""

from __future__ import annotations

import math

from bot.sandbox.core import SESSION_STARTS, Core
from bot.sandbox.objects import (
    application_object,
    channel_object,
    guild_channel_objects,
    guild_object,
    member_object,
    own_guild_object,
    own_user_object,
    role_object,
    user_object,
)
from bot.sandbox.rejections import FormErrors, missing_access, unknown
from bot.sandbox.rest import Call, Operation, Reply
from bot.sandbox.state import Member, number_of

RESET_MS = 24 * 60 * 60 * 1000


class About:
    """Answers the bot's requests about itself, its application and the server."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._world = core.world

    def operations(self) -> list[Operation]:
        """Return the operations of this part."""
        guild = "/guilds/{guild_id}"
        return [
            Operation(method="GET", route="/users/@me", handler=self._me, of_members=True),
            Operation(
                method="GET",
                route="/users/@me/guilds",
                handler=self._guilds,
                query={"limit": "int 1 200", "after": "id"},
            ),
            Operation(method="GET", route="/users/{user_id}", handler=self._user),
            Operation(method="GET", route="/applications/@me", handler=self._application),
            Operation(method="GET", route="/oauth2/applications/@me", handler=self._application),
            Operation(method="GET", route="/gateway", handler=self._gateway, authorised=False),
            Operation(method="GET", route="/gateway/bot", handler=self._gateway_bot),
            Operation(method="GET", route=guild, handler=self._guild, query={"with_counts": "bool"}),
            Operation(method="GET", route=f"{guild}/channels", handler=self._channels),
            Operation(method="GET", route=f"{guild}/roles", handler=self._roles),
            Operation(method="GET", route=f"{guild}/members/{{user_id}}", handler=self._member),
            Operation(
                method="POST",
                route="/users/@me/channels",
                handler=self._open_direct,
                fields=frozenset({"recipient_id"}),
            ),
        ]

    def _me(self, call: Call) -> Reply:
        user_id = self._world.bot_id if call.user_id is None else call.user_id
        return Reply(body=own_user_object(self._world.user(user_id)))

    def _guilds(self, call: Call) -> Reply:
        after = number_of(call.query.get("after", "0"))
        seen = not self._core.kicked and self._world.guild_id > after
        return Reply(body=[own_guild_object(self._world)] if seen else [])

    def _user(self, call: Call) -> Reply:
        return Reply(body=user_object(self._find(call.params["user_id"]).user))

    def _application(self, _call: Call) -> Reply:
        return Reply(body=application_object(self._world, self._core.logins.redirect_uris))

    def _gateway_url(self) -> str:
        return f"{self._world.address.replace('http', 'ws', 1)}/gateway"

    def _gateway(self, _call: Call) -> Reply:
        return Reply(body={"url": self._gateway_url()})

    def _gateway_bot(self, _call: Call) -> Reply:
        core = self._core
        wait = math.ceil(1000 * max(0.0, core.no_start_until - core.clock()))
        limit = {
            "total": SESSION_STARTS,
            "remaining": core.session_starts_left,
            "reset_after": wait or (RESET_MS if core.session_starts else 0),
            "max_concurrency": 1,
        }
        shards = core.shards
        return Reply(body={"url": self._gateway_url(), "shards": shards, "session_start_limit": limit})

    def _check_guild(self, call: Call) -> None:
        if call.params["guild_id"] != str(self._world.guild_id):
            raise unknown("Guild", 10004)

    def _guild(self, call: Call) -> Reply:
        self._check_guild(call)
        seen = guild_object(self._world)
        if call.asks("with_counts"):
            seen |= {"approximate_member_count": len(self._world.members), "approximate_presence_count": 1}
        return Reply(body=seen)

    def _channels(self, call: Call) -> Reply:
        self._check_guild(call)
        return Reply(body=guild_channel_objects(self._world))

    def _roles(self, call: Call) -> Reply:
        self._check_guild(call)
        return Reply(body=[role_object(role) for role in self._world.roles.values()])

    def _find(self, user_id: str) -> Member:
        member = self._world.members.get(number_of(user_id))
        if member is None:
            raise unknown("Member", 10007, violation=False)
        return member

    def _member(self, call: Call) -> Reply:
        self._check_guild(call)
        return Reply(body=member_object(self._world, self._find(call.params["user_id"])))

    def _open_direct(self, call: Call) -> Reply:
        recipient = number_of(call.json.get("recipient_id"))
        if recipient not in self._world.members:
            errors = FormErrors()
            errors.add(("recipient_id",), "RECIPIENT_INVALID", "Invalid Recipient(s)")
            errors.check()
        if recipient == self._world.bot_id:
            raise missing_access()
        return Reply(body=channel_object(self._world, self._world.direct_channel(recipient)))

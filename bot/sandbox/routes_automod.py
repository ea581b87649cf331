"""REST operations about AutoMod."""

from __future__ import annotations

from bot.sandbox.automod import may_read_rules
from bot.sandbox.core import Core
from bot.sandbox.rejections import missing_permissions, unknown
from bot.sandbox.rest import Call, Operation, Reply


class AutomodRoutes:
    """Answers what the bot asks about AutoMod."""

    def __init__(self, core: Core) -> None:
        self._world = core.world

    def operations(self) -> list[Operation]:
        """Return the operations of this part."""
        route = "/guilds/{guild_id}/auto-moderation/rules"
        return [Operation(method="GET", route=route, handler=self._rules)]

    def _rules(self, call: Call) -> Reply:
        world = self._world
        if call.params["guild_id"] != str(world.guild_id) or world.kicked:
            raise unknown("Guild", 10004)
        if not may_read_rules(world):
            raise missing_permissions()
        return Reply(body=[*world.automod_rules.values()])

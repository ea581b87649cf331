"""[sessions]: group sessions."""

from __future__ import annotations

from typing import Literal

from bot.config.section import Section


class SessionsConfig(Section):
    """Which permission of Discord makes a member a host of group sessions; moderators may host too."""

    host_permission: Literal["manage_events", "manage_messages", "manage_threads", "create_events"] = (
        "manage_events"
    )

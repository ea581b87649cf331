"""[pictures], [limits] and [sessions]: uploads, how often people may ask, and who hosts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bot.config.section import Section


class PicturesConfig(Section):
    """The limits of an upload, and of the processes that decode uploads."""

    max_bytes: Annotated[int, Field(ge=1024)] = 20 * 1024 * 1024
    max_pixels: Annotated[int, Field(ge=64 * 64, le=89_000_000)] = 25_000_000
    waiting_files: Annotated[int, Field(ge=1, le=1000)] = 24
    decode_memory_mib: Annotated[int, Field(ge=128, le=65536)] = 512
    decode_seconds: Annotated[int, Field(ge=1, le=600)] = 3


class LimitsConfig(Section):
    """How often a person and a server may ask within a minute; 0 means without a limit."""

    requests_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 30
    server_requests_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 300
    files_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 6
    server_files_per_minute: Annotated[int, Field(ge=0, le=100_000)] = 30


class SessionsConfig(Section):
    """Which permission of Discord makes a member a host of group sessions; moderators may host too."""

    host_permission: Literal["manage_events", "manage_messages", "manage_threads", "create_events"] = (
        "manage_events"
    )

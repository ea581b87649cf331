"""[discord]: the connection to Discord."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from bot.config.mistakes import InvalidValue
from bot.config.section import Section, Snowflake, check_api_url, check_gateway_url, repeated
from bot.config.text_files import discord_token, read_discord_token_file
from bot.domain.errors import ConfigurationError

MAX_SHARDS = 100_000


def _check_guild_ids(values: tuple[int, ...]) -> tuple[int, ...]:
    mistakes = [f"{value} is not a server id" for value in values if not 0 < value < 2**63]
    mistakes += [f"{value} is named twice" for value in repeated(values)]
    if mistakes:
        raise InvalidValue(*mistakes)
    return values


class DiscordConfig(Section):
    """How the bot connects to Discord, and the languages of its answers."""

    token_file: str = ""
    api_url: Annotated[str, AfterValidator(check_api_url)] = "https://discord.com/api/v10"
    gateway_url: Annotated[str, AfterValidator(check_gateway_url)] = "wss://gateway.discord.gg/"
    shard_count: Annotated[int, Field(ge=0, le=MAX_SHARDS)] = 0
    shard_ids: tuple[int, ...] = ()
    guild_ids: Annotated[tuple[int, ...], AfterValidator(_check_guild_ids)] = ()
    user_install: bool = False
    language: Literal["", "en", "ko", "zh", "ar"] = ""
    languages: dict[Snowflake, Literal["en", "ko", "zh", "ar"]] = Field(default_factory=dict)

    @field_validator("shard_ids")
    @classmethod
    def _within_the_count(cls, values: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        count = info.data.get("shard_count", 0)
        if values and not count:
            raise InvalidValue("which of how many? Say shard_count as well")
        mistakes = [
            f"{value} is none of the {count} shards, whose numbers begin at 0"
            for value in values
            if not 0 <= value < count
        ]
        mistakes += [f"{value} is named twice" for value in repeated(values)]
        if mistakes:
            raise InvalidValue(*mistakes)
        return values

    @field_validator("user_install")
    @classmethod
    def _needs_commands_everywhere(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("guild_ids"):
            raise InvalidValue(
                "people can take only commands of all servers with them: leave guild_ids empty"
            )
        return value

    def read_token(self, environ: Mapping[str, str] | None = None) -> str:
        """Return the bot's token from `token_file`, else from `DISCORD_TOKEN`; raises ConfigurationError."""
        if self.token_file:
            return read_discord_token_file(self.token_file, key="discord.token_file")
        token = (os.environ if environ is None else environ).get("DISCORD_TOKEN", "").strip()
        if not token:
            raise ConfigurationError(
                "There is no token: set DISCORD_TOKEN, or name a file in discord.token_file."
            )
        return discord_token(token, "What DISCORD_TOKEN holds")

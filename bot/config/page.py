"""[page]: where the operators' page is served, and who may log in there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from yarl import URL

from bot.config.mistakes import InvalidValue
from bot.config.section import Listener, Snowflake, check_http, is_loopback
from bot.config.text_files import read_token_file


class PageConfig(Listener):
    """Where the page is served: nowhere for port 0, on the loopback for an empty host.

    `address` is what browsers call it, where a proxy with TLS stands in front of it. `operators` and
    `readers` are ids of persons in Discord. `discord_url` is what browsers call Discord.
    """

    address: Annotated[str, Field(validate_default=True)] = ""
    operators: tuple[Snowflake, ...] = ()
    readers: tuple[Snowflake, ...] = ()
    client_secret_file: str = ""
    discord_url: Annotated[str, AfterValidator(check_http)] = "https://discord.com"

    @field_validator("address")
    @classmethod
    def _encrypted_beyond_the_loopback(cls, value: str, info: ValidationInfo) -> str:
        url = URL(check_http(value))
        if value and (url.scheme != "https" or url != url.origin()):
            raise InvalidValue("this is not an address of the form https://host, without a path")
        if info.data.get("port") and not value and not is_loopback(info.data.get("host", "")):
            raise InvalidValue(
                "others than this machine reach page.host, so a proxy must encrypt the page: write the "
                "address under which browsers reach it, such as https://bot.example.org"
            )
        return str(url.origin()) if value else ""

    @property
    def url(self) -> str:
        """What browsers call the page, without a slash at the end."""
        host = self.host or "127.0.0.1"
        return self.address or f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def read_client_secret(self, environ: Mapping[str, str] | None = None) -> str | None:
        """Return the secret of the bot's application from `client_secret_file`, else from the environment.

        The variable is DISCORD_CLIENT_SECRET. None without a secret: nobody logs in with Discord. Raises
        ConfigurationError.
        """
        if self.client_secret_file:
            return read_token_file(self.client_secret_file, key="page.client_secret_file")
        given = os.environ if environ is None else environ
        return given.get("DISCORD_CLIENT_SECRET", "").strip() or None

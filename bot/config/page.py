"""[page]: where the operators' page is served."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator
from yarl import URL

from bot.config.mistakes import InvalidValue
from bot.config.section import Section, check_http, is_loopback


class PageConfig(Section):
    """Where the page is served: nowhere for port 0, on the loopback for an empty host.

    `address` is what browsers call it, where a proxy with TLS stands in front of it.
    """

    host: str = ""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    address: Annotated[str, Field(validate_default=True)] = ""

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

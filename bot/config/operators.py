"""[web], [log], [traces] and [usage]: what operators see, and what the devices' time costs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from bot.config.mistakes import InvalidValue
from bot.config.section import Listener, Section, is_loopback
from bot.config.text_files import read_token_file


class WebConfig(Listener):
    """Where metrics and health are served."""

    token_file: Annotated[str, Field(validate_default=True)] = ""

    @field_validator("token_file")
    @classmethod
    def _needed_beyond_the_loopback(cls, value: str, info: ValidationInfo) -> str:
        host = info.data.get("host", "")
        if info.data.get("port") and not value and not is_loopback(host):
            raise InvalidValue(
                "others than this machine reach web.host, so metrics and health need a token: write a long "
                "random word into a file, and its name here"
            )
        return value

    def read_token(self) -> str | None:
        """Return the token that a request must carry, None without one; raises ConfigurationError."""
        return read_token_file(self.token_file, key="web.token_file") if self.token_file else None


class LogConfig(Section):
    """The level and the format of the log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class TracesConfig(Section):
    """Whether traces of jobs are exported; OpenTelemetry's environment variables say where to."""

    export: bool = False


Price = Annotated[float, Field(ge=0, le=1_000_000)]


class UsageConfig(Section):
    """What an hour of one device costs, and of one of a class of accelerators; 0 where it is unknown."""

    price_per_device_hour: Price = 0.0
    prices: dict[Annotated[str, Field(min_length=1, max_length=64)], Price] = Field(default_factory=dict)
    currency: Annotated[str, Field(max_length=8)] = ""

    @property
    def has_prices(self) -> bool:
        """Whether any price is known."""
        return any([self.price_per_device_hour, *self.prices.values()])

    def price(self, accelerator: str) -> float:
        """Return the price of an hour of one device of this class; 0 where it is unknown."""
        return self.prices.get(accelerator, self.price_per_device_hour)

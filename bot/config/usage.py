"""[usage]: what the devices' time costs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bot.config.section import Section

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

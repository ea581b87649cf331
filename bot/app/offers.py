"""Completes a front's configuration with the defaults of checkpoints, which only workers read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn

from bot.config import Config
from bot.errors import DiscordUnavailable, StoreUnavailable
from bot.store.offers import Offers
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
FOLLOW_SECONDS = 5.0


async def wait_for_defaults(config: Config, offers: Offers) -> Config:
    """Return the configuration with the defaults that workers have published for its unset keys.

    Waits for the first worker that has them. Also adds the samplers that suit each checkpoint, without
    waiting for them.
    """
    warned = False
    while True:
        try:
            known = await offers.published([model.name for model in config.models])
        except StoreUnavailable as error:
            log.error("the offers of workers cannot be read: %s", error)
            known = {}
        missing = [model.name for model in config.models if model.unset and model.name not in known]
        if not missing:
            break
        if not warned:
            names = ", ".join(missing)
            log.warning(
                "waiting for a worker to publish what %s offers: the configuration does not set it", names
            )
            warned = True
        await asyncio.sleep(POLL_SECONDS)
    return with_offers(config, known)


class Following:
    """Follows what workers publish of the models of `config`, and calls `change` with other offers.

    `current` are the offers at the start. A change that raises DiscordUnavailable is retried.
    """

    def __init__(
        self,
        config: Config,
        published: Offers,
        current: tuple[Offer, ...],
        change: Callable[[tuple[Offer, ...]], Awaitable[None]],
    ) -> None:
        self._config = config
        self._published = published
        self._current: tuple[Offer, ...] | None = current
        self._change = change
        self._looking = asyncio.Lock()

    async def run(self, *, poll_seconds: float = FOLLOW_SECONDS) -> NoReturn:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(poll_seconds)
            async with self._looking:
                await self._look()

    async def reconfigure(self, config: Config) -> None:
        """Follow another configuration, and call `change` at once, with the same offers too."""
        async with self._looking:  # a look under way would take its own offers for those of this one
            self._config, self._current = config, None
            await self._look()

    async def _look(self) -> None:
        try:
            known = await self._published.published([model.name for model in self._config.models])
        except StoreUnavailable as error:
            log.error("the offers of workers cannot be read: %s", error)
            return
        found = self._complete(known)
        if not found or found == self._current:
            return
        try:
            await self._change(found)
        except DiscordUnavailable as error:
            log.warning("registering the commands is retried: %s", error)
        else:
            self._current = found

    def _complete(self, known: Mapping[str, Offer]) -> tuple[Offer, ...]:
        """Return the offers that need nothing of a checkpoint which no worker has read yet."""
        complete = with_offers(self._config, known).models
        missing = [model.name for model in complete if model.unset and model.name not in known]
        if missing and self._current is None:
            log.warning(
                "%s is offered once a worker has published its sizes and defaults", ", ".join(missing)
            )
        return tuple(model.offer for model in complete if model.name not in missing)


def with_offers(config: Config, known: Mapping[str, Offer]) -> Config:
    """Return the configuration with the defaults and samplers of the published offers, by model."""
    models = (
        model.with_defaults(known[model.name]) if model.name in known else model for model in config.models
    )
    return config.model_copy(update={"models": tuple(models)})

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


async def follow_offers(
    config: Config,
    offers: Offers,
    current: tuple[Offer, ...],
    change: Callable[[tuple[Offer, ...]], Awaitable[None]],
    *,
    poll_seconds: float = FOLLOW_SECONDS,
) -> NoReturn:
    """Call `change` whenever workers publish other offers than `current`, until cancelled.

    `config` is the argument of `wait_for_defaults`. A change that raises DiscordUnavailable is retried.
    """
    names = [model.name for model in config.models]
    while True:
        await asyncio.sleep(poll_seconds)
        try:
            known = await offers.published(names)
        except StoreUnavailable as error:
            log.error("the offers of workers cannot be read: %s", error)
            continue
        found = tuple(model.offer for model in with_offers(config, known).models)
        if found == current:
            continue
        try:
            await change(found)
        except DiscordUnavailable as error:
            log.warning("registering the commands is retried: %s", error)
        else:
            current = found


def with_offers(config: Config, known: Mapping[str, Offer]) -> Config:
    """Return the configuration with the defaults and samplers of the published offers, by model."""
    models = (
        model.with_defaults(known[model.name]) if model.name in known else model for model in config.models
    )
    return config.model_copy(update={"models": tuple(models)})

"""What a front offers where the configuration leaves it to the checkpoints, which only workers read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn

from bot.config import Config
from bot.errors import DiscordUnavailable, StoreUnavailable
from bot.store import Store
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
FOLLOW_SECONDS = 5.0


async def learn(config: Config, store: Store) -> Config:
    """The configuration with each model's own defaults, as a worker has read them from its checkpoint.

    Waits for the first worker that has them, unless the file says them all. What is known of the samplers
    that suit a checkpoint is taken too, and not waited for.
    """
    told = False
    while True:
        try:
            known = await store.offers.published([model.name for model in config.models])
        except StoreUnavailable as error:
            log.error("what workers offer cannot be read: %s", error)
            known = {}
        missing = [model.name for model in config.models if model.unset and model.name not in known]
        if not missing:
            break
        if not told:
            names = ", ".join(missing)
            log.warning(
                "waiting for a worker to say what %s offers, which the configuration leaves out", names
            )
            told = True
        await asyncio.sleep(POLL_SECONDS)
    return _settled(config, known)


async def follow(
    config: Config,
    store: Store,
    offers: tuple[Offer, ...],
    change: Callable[[tuple[Offer, ...]], Awaitable[None]],
    *,
    poll_seconds: float = FOLLOW_SECONDS,
) -> NoReturn:
    """Call `change` whenever workers publish other offers than `offers`; for ever.

    `config` is the one that `learn` was given. A change that ends in DiscordUnavailable is repeated.
    """
    names = [model.name for model in config.models]
    while True:
        await asyncio.sleep(poll_seconds)
        try:
            known = await store.offers.published(names)
        except StoreUnavailable as error:
            log.error("what workers offer cannot be read: %s", error)
            continue
        found = tuple(model.offer for model in _settled(config, known).models)
        if found == offers:
            continue
        try:
            await change(found)
        except DiscordUnavailable as error:
            log.warning("the commands are registered later: %s", error)
        else:
            offers = found


def _settled(config: Config, known: Mapping[str, Offer]) -> Config:
    models = (
        model.with_defaults(known[model.name]) if model.name in known else model for model in config.models
    )
    return config.model_copy(update={"models": tuple(models)})

"""Completes a front's configuration with the defaults of checkpoints, which only workers read."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn

from bot.config import Config
from bot.domain.errors import ConfigurationError, DiscordUnavailable, StoreUnavailable
from bot.store.queue.offers import Offers
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
FOLLOW_SECONDS = 5.0
AWAIT_SECONDS = 60.0
ASK_AGAIN_SECONDS = AWAIT_SECONDS / 4
ASK_FOR_SECONDS = 3600.0
LATER = "%s is offered once a worker has published its sizes and defaults"


class Asking:
    """Asks for a worker that publishes what models offer, so that a scaler starts one where none is.

    It gives up after `longest` seconds: else a model that no worker can read keeps an idle worker for ever.
    """

    def __init__(
        self, offers: Offers, *, longest: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._offers = offers
        self._longest = longest
        self._clock = clock
        self._since: float | None = None
        self._again_at = -math.inf

    async def ask(self, models: Sequence[str]) -> None:
        """Ask for these models for a while; call it regularly. Raises StoreUnavailable."""
        now = self._clock()
        if not models or now < self._again_at:
            return
        if self._since is None:
            self._since = now
        if now - self._since > self._longest:
            log.error("no worker has published %s: look at the workers' logs", ", ".join(models))
            self._again_at = math.inf
            return
        await self._offers.await_published(models, ttl=AWAIT_SECONDS)
        self._again_at = now + ASK_AGAIN_SECONDS


async def wait_for_defaults(config: Config, offers: Offers) -> Config:
    """Return the configuration with the defaults that workers have published for its unset keys.

    Waits for the first worker that completes a model. Models that are not complete yet are left out:
    `Following` adds them. Also adds the samplers that suit each checkpoint, without waiting for them.
    """
    asking, warned = Asking(offers), False
    while True:
        known: dict[str, Offer] | None = None
        try:
            known = await offers.published([model.name for model in config.models])
            await asking.ask(_missing(config, known))
        except StoreUnavailable as error:
            log.error("the offers of workers cannot be read: %s", error)
        missing = _missing(config, known or {})
        if not missing or (known is not None and len(missing) < len(config.models)):
            break
        if not warned:
            log.warning(
                "waiting for a worker to publish what %s offers: the configuration does not set it",
                ", ".join(missing),
            )
            warned = True
        await asyncio.sleep(POLL_SECONDS)
    if missing:
        log.warning(LATER, ", ".join(missing))
    complete = with_offers(config, known or {})
    models = tuple(model for model in complete.models if model.name not in missing)
    return complete.model_copy(update={"models": models})


class Following:
    """Follows what workers publish of the models of `config`, and calls `change` when the offers differ.

    A change that raises DiscordUnavailable is retried after the time that the error tells; one that raises
    ConfigurationError is not retried. Other offers are tried at once.
    """

    def __init__(
        self,
        config: Config,
        published: Offers,
        change: Callable[[tuple[Offer, ...]], Awaitable[None]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._published = published
        self._current: tuple[Offer, ...] | None = None
        self._change = change
        self._clock = clock
        self._again_at = math.inf  # when the current offers are tried again: never once they are registered
        self._asking = Asking(published, longest=ASK_FOR_SECONDS)
        self._looking = asyncio.Lock()
        self._known: dict[str, Offer] = {}  # by model: kept where a newer worker's cannot be read

    async def begin(self, offers: tuple[Offer, ...]) -> None:
        """Call `change` with the offers at the start; raises ConfigurationError."""
        await self._take(offers)

    async def run(self, *, poll_seconds: float = FOLLOW_SECONDS) -> NoReturn:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(poll_seconds)
            async with self._looking:
                await self._look()

    async def reconfigure(self, config: Config) -> None:
        """Follow another configuration, and call `change` at once, even where the offers are the same."""
        async with self._looking:  # a poll under way would store its offers as those of the new configuration
            self._config, self._current = config, None
            self._asking = Asking(self._published, longest=ASK_FOR_SECONDS)
            await self._look()

    async def _look(self) -> None:
        try:
            self._known |= await self._published.published([model.name for model in self._config.models])
        except StoreUnavailable as error:
            log.error("the offers of workers cannot be read: %s", error)
            return
        try:
            await self._take(self._complete(self._known))
        except ConfigurationError as error:
            log.error("%s", error)
        try:
            await self._asking.ask(_missing(self._config, self._known))
        except StoreUnavailable as error:
            log.error("no worker can be asked for: %s", error)

    async def _take(self, found: tuple[Offer, ...]) -> None:
        if not found or (found == self._current and self._clock() < self._again_at):
            return
        self._current, self._again_at = found, math.inf
        try:
            await self._change(found)
        except DiscordUnavailable as error:
            log.warning("registering the commands is retried: %s", error)
            self._again_at = self._clock() + error.retry_after
        except ConfigurationError:
            raise
        except Exception:
            self._current = None  # the next look tries it again
            raise

    def _complete(self, known: Mapping[str, Offer]) -> tuple[Offer, ...]:
        """Return the offers whose defaults are all known: a worker may have to read the checkpoint first."""
        missing = _missing(self._config, known)
        if missing and self._current is None:
            log.warning(LATER, ", ".join(missing))
        complete = with_offers(self._config, known).models
        return tuple(model.offer for model in complete if model.name not in missing)


def _missing(config: Config, known: Mapping[str, Offer]) -> list[str]:
    """Return the models with unset keys that no worker has published."""
    return [model.name for model in config.models if model.unset and model.name not in known]


def with_offers(config: Config, known: Mapping[str, Offer]) -> Config:
    """Return the configuration with the defaults and samplers of the published offers, by model."""
    models = (
        model.with_defaults(known[model.name]) if model.name in known else model for model in config.models
    )
    return config.model_copy(update={"models": tuple(models)})

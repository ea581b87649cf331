"""Reads the configuration again at SIGHUP, and applies the keys that can change while the process runs.

A configuration with a mistake, or a model that cannot be read, changes nothing: every mistake is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from bot.config import Config
from bot.config.changes import Changes, changes
from bot.domain.errors import BotError
from bot.process.threads import in_thread
from bot.telemetry.log import set_up
from sdjax_engine.errors import EngineError

log = logging.getLogger(__name__)

Load = Callable[[], Config]
"""Reads the configuration and checks the files that it names; raises ConfigurationError."""
Take = Callable[[], Awaitable[None]]
"""Takes a configuration into use."""
Prepare = Callable[[Config], Awaitable[Take]]
"""Does every step for another configuration that may fail, and changes nothing; returns the last step."""


class Reloading:
    """Reloads the configuration of a process that began with `running`, which `load` has read."""

    def __init__(self, running: Config, load: Load, prepare: Prepare) -> None:
        self._running = running
        self._load = load
        self._prepare = prepare

    async def run(self, wanted: asyncio.Event) -> NoReturn:
        """Reload each time that `wanted` is set, until cancelled."""
        while True:
            await wanted.wait()
            wanted.clear()
            await self.reload()

    async def reload(self) -> None:
        """Reload once; an error is logged, and the process goes on as it was."""
        try:
            found, take = await self._prepared()
        except (BotError, EngineError) as error:
            for line in Config.say_again(str(error)).splitlines():
                log.error("%s", line)
            log.error("the configuration stays as it was")
            return
        except Exception:
            log.exception("the configuration stays as it was: unexpected error")
            return
        if self._running.log != found.config.log:
            set_up(found.config.log.level, found.config.log.format)
        try:
            await take()
        except Exception:
            log.exception("not all of the configuration could be taken: read it again, or restart")
            return
        self._running = found.config
        _tell(found)

    async def _prepared(self) -> tuple[Changes, Take]:
        """Read the configuration, and make the process ready for it."""
        found = changes(self._running, await in_thread(self._load, "configuration"))
        return found, await self._prepare(found.config)


def _tell(found: Changes) -> None:
    log.info("the configuration was read again; changed: %s", ", ".join(found.alive) or "nothing")
    if found.at_start:
        log.warning("these keys need a restart, and stay as they were: %s", ", ".join(found.at_start))
    if found.of_commands:
        log.info("these keys are for sdjax-bot fleet and usage: %s", ", ".join(found.of_commands))

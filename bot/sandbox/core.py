"""The parts of a sandbox that need no socket."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from bot.sandbox.callbacks import Callbacks
from bot.sandbox.commands import Commands
from bot.sandbox.community import BOT_TOKEN, found
from bot.sandbox.exchange import Observer, nobody
from bot.sandbox.faults import Faults
from bot.sandbox.interactions import Interactions
from bot.sandbox.log import Log
from bot.sandbox.logins import CLIENT_SECRET, Logins
from bot.sandbox.posting import Posting
from bot.sandbox.rates import Rates
from bot.sandbox.rules import Limits

SESSION_STARTS = 1000  # a day; a sandbox does not run longer


class Core:
    """The state, rules and injected faults of one sandbox."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        observer: Observer | None = None,
        limits: Limits | None = None,
        shards: int = 1,
        token: str = BOT_TOKEN,
        client_secret: str = CLIENT_SECRET,
    ) -> None:
        self.clock = clock
        self.token = token
        self.observer = observer or nobody
        self.log = Log()
        self.limits = limits or Limits()
        self.invalid_requests = 0
        self.shards = shards
        self.session_starts = 0
        self.no_start_until = 0.0
        self.faults = Faults()
        self.rates = Rates(clock)
        self.world = found(clock)
        self.logins = Logins(self.world, self.log, clock, client_secret)
        self.posting = Posting(self.world, self.log)
        self.commands = Commands(self.world, self.log)
        self.forbidden: set[int] = set()
        self.bot_present_since: Callable[[float], bool] = lambda _at: False
        self.interactions = Interactions(self.world, self.log, self._is_excused, self.limits)
        self.callbacks = Callbacks(self.world, self.interactions, self.posting, self.log)

    @property
    def kicked(self) -> bool:
        """Whether the bot was removed from the server."""
        return self.world.kicked

    @kicked.setter
    def kicked(self, kicked: bool) -> None:
        self.world.kicked = kicked

    @property
    def session_starts_left(self) -> int:
        """How many sessions the bot may still start at the gateway."""
        return 0 if self.clock() < self.no_start_until else max(0, SESSION_STARTS - self.session_starts)

    def is_good_token(self, token: str) -> bool:
        """Whether `token` is the bot's."""
        return secrets.compare_digest(token.encode(), self.token.encode())

    def _is_excused(self, created_at: float) -> bool:
        return self.faults.slow_ms > 0 or not self.bot_present_since(created_at)

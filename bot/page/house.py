"""What the page looks at: the store, the pictures, the health of this process, prices, and a clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.files.artifacts import Artifacts
from bot.membership.processes import Processes
from bot.moderation.policy import Said
from bot.page.discord_api import DiscordApi
from bot.page.members import Members
from bot.store import Store
from bot.web.server import Check

Notes = Callable[[], Awaitable[list[str]]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A key of the configuration, its value without secrets, and who says it: see `settings_of`."""

    key: str
    value: str
    source: str


@dataclass(frozen=True, kw_only=True)
class House:
    """Everything that a view may read. `checks` and `settings` are those of the process that serves the page.

    `operator_says` are the operator's policy and bounds. Without `discord` nobody logs in with Discord;
    `members` knows the people of its servers.
    """

    store: Store
    artifacts: Artifacts
    config: PageConfig
    usage: UsageConfig
    notes: Notes
    checks: Mapping[str, Check] = field(default_factory=dict)
    settings: Sequence[Setting] = ()
    operator_says: Sequence[Said] = ()
    discord: DiscordApi | None = None
    members: Members | None = None

    @property
    def processes(self) -> Processes:
        """The living processes."""
        return Processes(self.store.shared)

    @property
    def now(self) -> float:
        """The time of the queue, in seconds since the epoch."""
        return self.store.clock()

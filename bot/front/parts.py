"""What every command and button works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import discord

from bot.artifacts import Artifacts
from bot.front.attachments import Attachments
from bot.front.pace import Pace, Sender
from bot.front.underway import Underway
from bot.jobs import Caps, Job
from bot.metrics import FrontMetrics
from bot.store import Store
from bot.texts import Texts
from bot.threads import Threads
from sdjax_engine.request import Offer

Interaction = discord.Interaction[Any]
"""An interaction with whichever client."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of the bot that the front calls.

    `front` is this process's name. `announce` shows a new job in the answer to its interaction. `weights` are
    those of roles, by their ids: who has several has the largest, who has none 1. `was_unclear` tells of an
    interaction, by its id, whether an attempt to answer it first had an unknown outcome. `languages` are
    those of persons and servers, by their ids; `language` is that of all others, empty for each person's own
    as Discord knows it. `fitting` lets one grid at a time be made: nine
    pictures take hundreds of megabytes.
    """

    front: str
    store: Store
    artifacts: Artifacts
    attachments: Attachments
    pace: Pace
    announce: Callable[[Job], Awaitable[None]]
    offers: tuple[Offer, ...]
    caps: Caps
    clock: Callable[[], float]
    metrics: FrontMetrics
    was_unclear: Callable[[int], bool]
    language: str = ""
    languages: Mapping[int, str] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    underway: Underway = field(default_factory=Underway)
    fitting: Threads = field(default_factory=lambda: Threads("pictures", most=1))

    def weight(self, interaction: Interaction) -> float:
        """How much this person is painted for while others wait, beside 1 for everybody."""
        roles = getattr(interaction.user, "roles", ())  # in direct messages nobody has any
        return max((self.weights[role.id] for role in roles if role.id in self.weights), default=1.0)

    def locale(self, interaction: Interaction) -> str:
        """The locale that this person is answered in."""
        for known in (interaction.user.id, interaction.guild_id):
            if known is not None and known in self.languages:
                return self.languages[known]
        return self.language or str(interaction.locale)

    def texts(self, interaction: Interaction) -> Texts:
        """The sentences for this person."""
        return Texts.for_locale(self.locale(interaction))


def sender_of(interaction: Interaction) -> Sender:
    """Whose interaction it is, and where."""
    return Sender(user_id=interaction.user.id, guild_id=interaction.guild_id)


class _Serving(Protocol):
    parts: Parts


def parts_of(interaction: Interaction) -> Parts:
    """The parts of the client that received `interaction`."""
    return cast("_Serving", interaction.client).parts

"""The menus of a large grid: one of its pictures is shown alone, or others like it are painted."""

from __future__ import annotations

from collections.abc import Sequence

from bot.delivery.buttons import PICK, SINGLE, VARY
from bot.domain.errors import UnknownJob
from bot.front.answers.controls import Menu
from bot.front.services.services import Interaction
from bot.front.views.single import show_single
from bot.front.views.vary import vary

ACTS = {SINGLE: show_single, VARY: vary}


async def pick(interaction: Interaction, values: Sequence[str], job_id: str, kind: str) -> None:
    """Do with the chosen picture what the menu is for; raises UnknownJob for a value of no picture."""
    if not values[0].isdecimal():
        raise UnknownJob(job=job_id)
    await ACTS[kind](interaction, job_id, int(values[0]))


class PickMenu(Menu, template=rf"{PICK}:(?P<job_id>[0-9a-z]+):(?P<kind>{SINGLE}|{VARY})"):
    """Any person who sees a grid may choose; the new message is theirs."""

    act = staticmethod(pick)

"""`/limits`: what is left of a person's quotas in a channel, and what they may ask for there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from discord.app_commands import locale_str

from bot.delivery.quota_lines import quota_line
from bot.domain.quotas import Left
from bot.front.answers.answers import acknowledge, page, page_lines
from bot.front.gateway.command_tree import Command, make_command
from bot.front.moderators.policy import counted, key_line
from bot.front.recipes.options import size_name
from bot.front.services.request import Request
from bot.front.services.standing import Standing
from bot.moderation.limits import COOL_DOWN, allows, offers_within
from bot.moderation.standing import refusal
from bot.texts.catalogue import Moment, Texts
from bot.texts.mistakes import MISTAKES
from sdjax_engine.request import Offer

SHOWN_SIZES = 12
MODELS = "models"  # a key of a policy
ALLOWED = ("steps", "variants", "loras", "start_pictures", "private", "cool_down")
"""The keys of a policy that the page shows where they are set."""


def limits_command() -> Command:
    """The command."""
    return make_command(
        name="limits",
        description=locale_str("What you may ask for here, and how much of it is left."),
        run=show_limits,
    )


async def show_limits(request: Request) -> None:
    """Show the person alone what they may ask for in this channel."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    standing = await request.standing()
    charges = services.store.charges
    left = await charges.left(request.person.id, standing.quotas)
    waits = {quota.key: await charges.free_at(request.person.id, quota) for quota in standing.quotas}
    lines = limit_lines(standing, left, waits, services.offers, request.texts)
    await request.edit(view=page(page_lines(list(lines), request.texts)))


def limit_lines(
    standing: Standing,
    left: list[Left],
    waits: Mapping[str, float | None],
    offers: tuple[Offer, ...],
    texts: Texts,
) -> Iterator[str]:
    """Yield the lines: whether the person may paint, what is left, and what they may choose.

    `waits` says when a quota has room again, by its key: None where it has room.
    """
    policy = standing.policy
    heading = texts.gettext("Your limits here")
    yield f"### {heading}"
    if (block := standing.block) is not None:
        yield texts.mistake(refusal(block))
        return
    if policy.paint is False:
        yield texts.gettext(MISTAKES["policy_paint"])
        return
    quotas = counted(left)
    for each in quotas:
        said = [quota_line(each.quota.key, each.left, each.quota.limit, texts)]
        if (at := waits.get(each.quota.key)) is not None:
            said.append(texts.gettext(MISTAKES["quota_next"], at=Moment(at)))
        yield texts.line(" ".join(said), mark="- ")
    if not quotas:
        yield texts.line(texts.gettext("There is no quota for you here."), mark="- ")
    if (at := waits.get(COOL_DOWN)) is not None:
        yield texts.line(texts.gettext("Your next request is possible {at}.", at=Moment(at)), mark="- ")
    for key in ALLOWED:
        if (value := getattr(policy, key)) is not None:
            yield key_line(key, value, texts)
    allowed = [offer for offer in offers_within(offers, policy) if allows(policy.models, offer.model)]
    sizes = dict.fromkeys(chain.from_iterable(offer.sizes for offer in allowed))
    yield key_line(MODELS, [offer.model for offer in allowed], texts)
    named = ", ".join(size_name(size) for size in list(sizes)[:SHOWN_SIZES])
    yield texts.line(texts.gettext("Sizes: {sizes}", sizes=named), mark="- ")

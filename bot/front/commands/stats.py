"""`/stats`: how much was painted for the person and in their server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from discord.app_commands import locale_str

from bot.front.answers.answers import acknowledge, page
from bot.front.gateway.command_tree import Command, make_command
from bot.front.services.request import Request
from bot.store.queue.statistics import Painted
from bot.texts.catalogue import Texts
from bot.texts.markup import shown

DAY = 86_400.0
DAYS = (1, 7, 30)  # the periods


def stats_command() -> Command:
    """The command."""
    return make_command(
        name="stats",
        description=locale_str("How much was painted for you and in this server."),
        run=show_stats,
    )


async def show_stats(request: Request) -> None:
    """Show the numbers of the person, and of the server where there is one, to that person alone."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    painted, now = services.store.statistics.painted, services.clock()
    me, here = request.person.id, request.guild_id
    since = [now - days * DAY for days in DAYS]
    mine = await painted(since=since, user_id=me)
    ours = await painted(since=since, guild_id=here) if here else []
    favourites = len(await services.store.favourites.of(me))
    text = stats_text(mine, ours, favourites=favourites, texts=request.texts)
    await request.edit(view=page(text))


def stats_text(mine: Sequence[Painted], ours: Sequence[Painted], *, favourites: int, texts: Texts) -> str:
    """Return the page: for each of `DAYS` what was painted for the person, and in their server if given."""
    lines = [_heading(texts.gettext("Painted for you"))]
    lines += [texts.line(_line(days, one, texts), mark="- ") for days, one in zip(DAYS, mine, strict=True)]
    lines += _about_me(mine[-1], favourites, texts)
    if ours:
        lines.append(_heading(texts.gettext("Painted in this server")))
        lines += [
            texts.line(_line(days, one, texts, people=True), mark="- ")
            for days, one in zip(DAYS, ours, strict=True)
        ]
        lines += _times(ours, texts)
    return "\n".join(lines)


def _heading(words: str) -> str:
    return f"### {words}"


def _line(days: int, painted: Painted, texts: Texts, *, people: bool = False) -> str:
    period = (
        texts.gettext("the last 24 hours")
        if days == 1
        else texts.ngettext("the last {count} day", "the last {count} days", days)
    )
    parts = [
        texts.ngettext("{count} picture", "{count} pictures", painted.pictures),
        texts.ngettext("{count} request", "{count} requests", painted.requests),
    ]
    if people:
        parts.append(texts.ngettext("{count} person", "{count} people", painted.people))
    return texts.joined([period, *parts])


def _about_me(month: Painted, favourites: int, texts: Texts) -> Iterator[str]:
    parts = []
    if model := _usual(month.models):
        parts.append(texts.gettext("mostly with {model}", model=shown(model, 80)))
    if favourites:
        parts.append(texts.ngettext("{count} favourite", "{count} favourites", favourites))
    if parts:
        yield texts.line(texts.joined(parts), mark="-# ")


def _usual(models: Mapping[str, int]) -> str:
    """Return the model of most pictures; empty if one model painted all."""
    return max(models, key=lambda name: models[name]) if len(models) > 1 else ""


def _times(ours: Sequence[Painted], texts: Texts) -> Iterator[str]:
    """Yield the mean times of the shortest period in which anything was painted."""
    for painted in ours:
        if painted.waited is not None and painted.painted is not None:
            times = {"waited": painted.waited, "painted": painted.painted}
            spoken = {name: texts.duration(seconds) for name, seconds in times.items()}
            said = texts.gettext(
                "On average a request waited {waited} and was painted in {painted}.", **spoken
            )
            yield texts.line(said, mark="-# ")
            return

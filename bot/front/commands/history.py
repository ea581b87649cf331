"""`/history`: a person's jobs, newest first, a page at a time; `/show`: one of them by its short id."""

from __future__ import annotations

import asyncio
import functools
import io
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import discord
from discord import app_commands
from discord.app_commands import Range, locale_str

from bot.delivery.content import ButtonContent, Choice, MenuContent, MessageContent, PictureContent, Tone
from bot.delivery.discord_requests import layout
from bot.delivery.lineage import message_address
from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import Job, Showing, State
from bot.front.answers.answers import acknowledge, acknowledge_press
from bot.front.answers.controls import Button, Menu
from bot.front.answers.pages import NEWER, OLDER, turned
from bot.front.commands.queue import MAX_NAME, request_facts, request_name, request_words, standing
from bot.front.gateway.command_tree import Command, Option, make_command
from bot.front.recipes.options import MAX_CHOICES, clean
from bot.front.results.contact_sheet import contact_sheet
from bot.front.results.shown_again import can_be_shown, may_be_pictured, show_again, tile_of
from bot.front.services.request import Request, Services
from bot.store.queue.jobs import Jobs
from bot.texts.catalogue import Texts
from bot.texts.markup import shown, tidy

log = logging.getLogger(__name__)

MAX_SEARCH = 32  # characters; they are part of the ids of buttons, which have at most 100
SHOWN_PROMPT = 80
SHOW = "history_show"  # the menu of results to show again
SHEET = "history.jpg"
SUGGESTED_FROM = 50  # of the person's newest requests


@dataclass(frozen=True)
class Look:
    """The filter of jobs: prompts with the words of `search`; `starred`: the person's favourites only."""

    search: str = ""
    starred: bool = False


EVERYTHING = Look()


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some jobs of one person, newest first, and whether there are others on either side of them.

    `look` is the filter of the page.
    """

    jobs: tuple[Job, ...]
    older: bool
    newer: bool
    look: Look = EVERYTHING


def history_command() -> Command:
    """The command."""
    search = Option(
        name="search",
        description=locale_str("Words to find in your prompts. Default: everything."),
        kind=Range[str, 1, MAX_SEARCH],
    )
    favourites = Option(
        name="favourites", description=locale_str("Only what you marked with a star."), kind=bool
    )
    return make_command(
        name="history",
        description=locale_str("See what you asked for before, with links to it."),
        run=show_history,
        options=[search, favourites],
    )


async def show_history(request: Request, *, search: str = "", favourites: bool = False) -> None:
    """Show the newest page, of the requests whose prompts have the words of `search`, or of favourites."""
    request.services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    look = Look(tidy(clean(search)), starred=favourites)
    await show_page(request, await page_of(request.services.store.jobs, request.person.id, look))


async def show_page(request: Request, page: Page) -> None:
    """Show a page in the answer, with a contact sheet of its pictures."""
    services = request.services
    openly = (job if may_be_pictured(request, job) else None for job in page.jobs)
    files = await asyncio.gather(*(_tile(services, job) for job in openly))
    sheets = []
    if any(files):
        sheets = [
            discord.File(
                io.BytesIO(await services.fitting.run(contact_sheet, files, services.signing)), SHEET
            )
        ]
    view = history_view(page, request.texts, now=services.clock(), sheet=bool(sheets))
    await request.edit(view=view, attachments=sheets)


async def _tile(services: Services, job: Job | None) -> bytes | None:
    """Return the file of the first picture of a job that is shown openly, if there is one."""
    if job is None:
        return None
    names = (image.artifact for image in job.images if image.showing is Showing.SHOW)
    return await tile_of(services, next(filter(None, names), None))


async def page_of(jobs: Jobs, user_id: int, look: Look = EVERYTHING, way: str = "", key: int = 0) -> Page:
    """Return the page of the person's newest jobs or favourites, or the page beside the interaction `key`."""
    found = await turned(functools.partial(jobs.history, user_id, **asdict(look)), way, key)
    return Page(jobs=found.rows, older=found.older, newer=found.newer, look=look)


def history_view(page: Page, texts: Texts, *, now: float, sheet: bool = False) -> discord.ui.LayoutView:
    """Return the page as a message, with buttons for other pages and a menu of results to show again.

    With `sheet`, the attachment `SHEET` is shown below the lines.
    """
    text = "\n".join([f"### {_heading(page.look, texts)}", *history_lines(page, texts)])
    row = tuple(_buttons(page, texts))
    menu = _shown_again(page, now=now, texts=texts)
    said = texts.gettext("The first picture of each request on this page, with the number of its line.")
    alt = texts.joined([texts.gettext("AI-generated"), said])
    return layout(
        MessageContent(
            heading=text,
            pictures=(PictureContent(artifacts=(), stem=SHEET, alt=alt),) if sheet else (),
            menus=(menu,) if menu else (),
            rows=(row,) if row else (),
            tone=Tone.WAITING,
        ),
        file_names=[SHEET] if sheet else [],
    )


def _heading(look: Look, texts: Texts) -> str:
    search = shown(look.search, MAX_SEARCH)
    if look.starred:
        return (
            texts.gettext("Your favourites with “{search}”", search=search)
            if search
            else texts.gettext("Your favourites")
        )
    if search:
        return texts.gettext("Your requests with “{search}”", search=search)
    return texts.gettext("Your requests")


def _shown_again(page: Page, *, now: float, texts: Texts) -> MenuContent | None:
    """Return a menu of the page's jobs that have pictures: private answers vanish when the app restarts."""
    choices = tuple(
        Choice(
            label=f"{number}. {request_words(job, texts, secret=False)}"[:MAX_NAME],
            value=job.id,
            description=request_facts(job, now=now, texts=texts, named=False),
        )
        for number, job in enumerate(page.jobs, start=1)
        if can_be_shown(job)
    )
    placeholder = texts.gettext("Show one again, with its buttons")
    return MenuContent(custom_id=SHOW, placeholder=placeholder, choices=choices) if choices else None


def history_lines(page: Page, texts: Texts) -> list[str]:
    """Return a numbered line for each job: time, words, number of pictures, outcome, link."""
    if not page.jobs and page.look.search:
        return [texts.gettext("None of your requests has these words: search for fewer or other words.")]
    if not page.jobs and page.look.starred:
        return [
            texts.gettext(
                "You have no favourites yet: choose ★ Favourite under a result, or react to it with ⭐."
            )
        ]
    if not page.jobs:
        return [texts.gettext("You have no requests yet.")]
    return [
        texts.line(texts.joined(_parts(job, texts)), mark=f"{number}. ")
        for number, job in enumerate(page.jobs, start=1)
    ]


def _parts(job: Job, texts: Texts) -> Iterator[str]:
    yield f"<t:{int(job.created_at)}:R>"
    if job.recipe.prompt:
        yield shown(job.recipe.prompt, SHOWN_PROMPT)
    yield texts.ngettext("{count} picture", "{count} pictures", len(job.images))
    yield _outcome(job, texts)
    if address := message_address(job):
        word = texts.gettext("message")
        yield f"[{word}]({address})"


def _outcome(job: Job, texts: Texts) -> str:
    if job.deleted_at is not None:
        return texts.gettext("deleted")
    if not job.state.final:
        return standing(job, None, texts)
    counts = Counter(image.state for image in job.images)
    if len(counts) > 1:
        return ", ".join(_counted(counts, texts))
    if job.state is State.DONE:
        return _shown_as(job, texts)
    return texts.gettext("not painted") if job.state is State.FAILED else texts.gettext("cancelled")


def _shown_as(job: Job, texts: Texts) -> str:
    """Return whether a painted job is shown, held for review, or withheld."""
    kinds = {image.showing for image in job.images}
    if kinds & {Showing.SHOW, Showing.SPOILER}:
        return texts.gettext("painted")
    return texts.gettext("held for review") if Showing.HOLD in kinds else texts.gettext("withheld")


def _counted(counts: Counter[State], texts: Texts) -> Iterator[str]:
    """Return how many pictures of a job have each outcome."""
    if done := counts[State.DONE]:
        yield texts.gettext("painted: {count}", count=done)
    if failed := counts[State.FAILED]:
        yield texts.gettext("not painted: {count}", count=failed)
    if cancelled := counts[State.CANCELLED]:
        yield texts.gettext("cancelled: {count}", count=cancelled)


def _buttons(page: Page, texts: Texts) -> Iterator[ButtonContent]:
    search = f":{page.look.search}" if page.look.search else ""
    star = "*" if page.look.starred else ""
    if page.newer and page.jobs:
        key = page.jobs[0].origin.interaction_id
        yield ButtonContent(label=texts.gettext("Newer"), custom_id=f"history:{NEWER}{star}:{key}{search}")
    if page.older and page.jobs:
        key = page.jobs[-1].origin.interaction_id
        yield ButtonContent(label=texts.gettext("Older"), custom_id=f"history:{OLDER}{star}:{key}{search}")


async def turn_page(request: Request, way: str, star: str, key: int, search: str) -> None:
    """Show the page beside the interaction `key`, `way` being older or newer.

    `star` is a star for favourites, or empty; `search` has a colon before its words, or is empty.
    """
    request.services.pace.admit(request.sender)
    await acknowledge_press(request)
    look = Look(search.removeprefix(":"), starred=bool(star))
    await show_page(request, await page_of(request.services.store.jobs, request.person.id, look, way, key))


async def show_chosen(request: Request, job_ids: Sequence[str]) -> None:
    """Show the chosen job."""
    await show_again(request, job_ids[0])


CONTROLS = (
    Button(
        template=r"history:(?P<way>older|newer)(?P<star>\*?):(?P<key>[0-9]{1,19})(?P<search>|:.+)",
        act=turn_page,
    ),
    Menu(template=SHOW, act=show_chosen),
)


def show_command() -> Command:
    """The command."""
    job = Option(
        name="job",
        description=locale_str("The result's short id: see Info or the file name."),
        kind=Range[str, 1, 100],
        required=True,
        autocomplete=suggest_results,
    )
    return make_command(
        name="show",
        description=locale_str("Show a result again with its buttons, to you alone."),
        run=show,
        options=[job],
    )


async def show(request: Request, *, job: str) -> None:
    """Show the result of this id, as typed."""
    await show_again(request, job.strip().lower())


async def suggest_results(request: Request, typed: str) -> list[app_commands.Choice[str]]:
    """Suggest the person's own newest results whose words or ids have what was typed."""
    texts, now = request.texts, request.services.clock()
    try:
        jobs = await request.services.store.jobs.history(request.person.id, limit=SUGGESTED_FROM)
    except StoreUnavailable:
        return []
    wanted = typed.strip().casefold()
    found = [
        app_commands.Choice(name=request_name(job, now=now, texts=texts, named=False), value=job.id)
        for job in jobs
        if can_be_shown(job) and (wanted in job.recipe.prompt.casefold() or job.id.startswith(wanted))
    ]
    return found[:MAX_CHOICES]

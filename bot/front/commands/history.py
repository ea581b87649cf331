"""`/history`: a person's jobs, newest first, a page at a time, to that person alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import discord
from discord.app_commands import locale_str

from bot.delivery.buttons import ButtonContent, Choice, MenuContent
from bot.delivery.layout import layout
from bot.delivery.lineage import message_address
from bot.delivery.render import MessageContent, Tone
from bot.front.command_tree import Command, make_command
from bot.front.commands.naming import request_facts, request_words
from bot.front.commands.queue import standing
from bot.front.first_answers import acknowledge
from bot.front.services import Interaction, services_of
from bot.jobs import Job, Showing, State
from bot.store.jobs import Jobs
from bot.texts import Texts, shown

PAGE_JOBS = 10
SHOWN_PROMPT = 80
OLDER, NEWER = "older", "newer"
SHOW = "history_show"  # the menu of private pictures


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some jobs of one person, newest first, and whether there are others on either side of them."""

    jobs: tuple[Job, ...]
    older: bool
    newer: bool


def history_command() -> Command:
    """The command."""
    return make_command(
        name="history",
        description=locale_str("See what you asked for before, with links to it."),
        run=show_history,
    )


async def show_history(interaction: Interaction) -> None:
    """Show the newest page."""
    await acknowledge(interaction, private=True)
    services = services_of(interaction)
    found = await newest_page(services.store.jobs, interaction.user.id)
    view = history_view(found, services.texts(interaction), now=services.clock())
    await interaction.edit_original_response(view=view)


async def newest_page(jobs: Jobs, user_id: int) -> Page:
    """Return the page of the person's newest jobs."""
    found = await jobs.history(user_id, limit=PAGE_JOBS + 1)
    return Page(jobs=tuple(found[:PAGE_JOBS]), older=len(found) > PAGE_JOBS, newer=False)


async def page_beside(jobs: Jobs, user_id: int, *, way: str, key: int) -> Page:
    """Return the page older or newer than the interaction `key`; the newest where there is no full one."""
    if way == OLDER:
        found = await jobs.history(user_id, older_than=key, limit=PAGE_JOBS + 1)
        if found:
            return Page(jobs=tuple(found[:PAGE_JOBS]), older=len(found) > PAGE_JOBS, newer=True)
    else:
        found = await jobs.history(user_id, newer_than=key, limit=PAGE_JOBS + 1)
        if len(found) > PAGE_JOBS:
            return Page(jobs=tuple(found[-PAGE_JOBS:]), older=True, newer=True)
    return await newest_page(jobs, user_id)


def history_view(page: Page, texts: Texts, *, now: float) -> discord.ui.LayoutView:
    """Return the page as a message, with buttons for other pages and a menu of private pictures."""
    heading = texts.gettext("What you asked for")
    text = "\n".join([f"### {heading}", *history_lines(page, texts)])
    row = tuple(_buttons(page, texts))
    menu = _private_pictures(page, now=now, texts=texts)
    return layout(
        MessageContent(
            heading=text, menus=(menu,) if menu else (), rows=(row,) if row else (), tone=Tone.WAITING
        )
    )


def can_be_shown(job: Job) -> bool:
    """Return whether a private job has pictures that its owner can see again."""
    return job.origin.private and job.state is State.DONE and job.deleted_at is None and job.work.done > 0


def _private_pictures(page: Page, *, now: float, texts: Texts) -> MenuContent | None:
    """Return the jobs of the page without a link: private answers are gone after Discord restarts."""
    choices = tuple(
        Choice(
            label=request_words(job, texts, secret=False),
            value=job.id,
            description=request_facts(job, now=now, texts=texts, named=False),
        )
        for job in page.jobs
        if can_be_shown(job)
    )
    placeholder = texts.gettext("Show a private picture again")
    return MenuContent(custom_id=SHOW, placeholder=placeholder, choices=choices) if choices else None


def history_lines(page: Page, texts: Texts) -> list[str]:
    """Return a line for each job: time, words, number of pictures, outcome, link."""
    if not page.jobs:
        return [texts.gettext("You have asked for nothing yet.")]
    return [texts.line(texts.joined(_parts(job, texts)), mark="- ") for job in page.jobs]


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
        return texts.gettext("painted") if _is_shown(job) else texts.gettext("withheld")
    return texts.gettext("not painted") if job.state is State.FAILED else texts.gettext("cancelled")


def _is_shown(job: Job) -> bool:
    """Return whether a finished job has a picture that the safety checker did not withhold."""
    return any(image.showing is not Showing.WITHHOLD for image in job.images)


def _counted(counts: Counter[State], texts: Texts) -> Iterator[str]:
    """Return how many pictures of a job have each outcome."""
    if done := counts[State.DONE]:
        yield texts.gettext("painted: {count}", count=done)
    if failed := counts[State.FAILED]:
        yield texts.gettext("not painted: {count}", count=failed)
    if cancelled := counts[State.CANCELLED]:
        yield texts.gettext("cancelled: {count}", count=cancelled)


def _buttons(page: Page, texts: Texts) -> Iterator[ButtonContent]:
    if page.newer and page.jobs:
        key = page.jobs[0].origin.interaction_id
        yield ButtonContent(label=texts.gettext("Newer"), custom_id=f"history:{NEWER}:{key}")
    if page.older and page.jobs:
        key = page.jobs[-1].origin.interaction_id
        yield ButtonContent(label=texts.gettext("Older"), custom_id=f"history:{OLDER}:{key}")

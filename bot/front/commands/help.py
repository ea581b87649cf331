"""`/help`: what the bot does, its commands, its models' offers; for moderators, the first steps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import discord
from discord import app_commands
from discord.app_commands import locale_str

from bot.delivery.content import ButtonContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.delivery.review_outbox import everybody_sees
from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import MAX_VARIANTS
from bot.front.answers.answers import FORM_READ_SECONDS, MAX_PAGE, page, page_lines, say
from bot.front.answers.controls import Button
from bot.front.answers.permissions import server_rights
from bot.front.commands.imagine import control_types_of, imagine_options, samplers_of
from bot.front.commands.made_by_ai import made_by_ai_menu
from bot.front.commands.paint_from import change_menu, composition_menu, like_menu, paint_from_menu
from bot.front.commands.style import style_group
from bot.front.commands.use_recipe import use_recipe_menu
from bot.front.commands.wildcard import wildcard_group
from bot.front.gateway.command_tree import Command, Group, Option, make_command
from bot.front.moderators.audit import audit_command
from bot.front.moderators.known import known_group
from bot.front.moderators.moderate import moderate_group
from bot.front.moderators.policy import policy_group
from bot.front.moderators.report import report_menu
from bot.front.moderators.review import review_group
from bot.front.moderators.rules import rules_group
from bot.front.moderators.whose import NAME, whose_command
from bot.front.recipes.options import size_name
from bot.front.services.request import Request
from bot.front.sessions.session import session_group
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.request import MAX_PROMPT_CHARACTERS, SAMPLER_NAMES, Offer

MODERATORS, MODELS = "moderators", "models"
FOR_MODERATORS = f"help:{MODERATORS}"
SHOWN_LICENCE = 80  # characters
SHOWN_EMBEDDINGS = 200
NAMED_MODELS = 10  # that are named where the offers of all models do not fit
EXAMPLES = (
    "a red heart left of a blue star",
    "a large yellow moon above a small pink heart on a purple background",
    "a small pink flower above a large purple moon",
)
"""Example prompts in English, the language that all models were trained on."""
DONE, OPEN = "✅", "▫️"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a person may ask for, and for how many days things are kept; 0 is no limit."""

    requests: int  # a minute
    waiting: int | None  # pictures
    files: int  # a minute
    picture_days: float
    job_days: float


Commands = Sequence[Command | Group]


def help_command(others: Commands) -> Command:
    """The command; it lists those of `others` that Discord shows to the person."""
    topic = Option(
        name="topic",
        description=locale_str("Which help to show. Default: the general help."),
        kind=str,
        choices=[
            (locale_str("For moderators", words=True), MODERATORS),
            (locale_str("The models and their licences", words=True), MODELS),
        ],
    )
    return make_command(
        name="help",
        description=locale_str("What this bot does and how to use it."),
        run=partial(show_help, others),
        options=[topic],
    )


async def show_help(others: Commands, request: Request, topic: str = "") -> None:
    """Show the person alone the whole help, the part for moderators, or the models."""
    services = request.services
    # Commands and options have the names that the person's Discord shows, in any language of the answer.
    names = request.names
    if topic == MODERATORS:
        await show_moderators_help(request)
        return
    if topic == MODELS:
        await say(request, view=page(models_text(services.offers, request.texts)))
        return
    limits = Limits(
        requests=services.limits.requests_per_minute,
        waiting=services.caps.waiting_per_user,
        files=services.limits.files_per_minute,
        picture_days=services.retention.picture_days,
        job_days=services.retention.job_days,
    )
    shown = commands_for(request.interaction.permissions, others)
    texts = request.texts
    text = help_text(services.offers, limits, shown, texts=texts, names=names)
    if not is_moderator(request):
        await say(request, view=page(text))
        return
    button = ButtonContent(label=texts.gettext("For moderators"), custom_id=FOR_MODERATORS)
    await say(request, view=layout(MessageContent(heading=text, rows=((button,),), tone=Tone.WAITING)))


def commands_for(permissions: discord.Permissions, commands: Commands) -> Commands:
    """Return the commands that Discord shows to these permissions by default."""
    return [
        command
        for command in commands
        if command.default_permissions is None
        or permissions.administrator
        or command.default_permissions.is_subset(permissions)
    ]


def help_text(
    offers: Sequence[Offer], limits: Limits, commands: Commands, *, texts: Texts, names: Texts
) -> str:
    """Return the help in Markdown; `names` are the texts with the command names that the person sees.

    `commands` are named after /imagine.

    Return the first version that fits: the whole help, without the models' licences, without the commands'
    descriptions, without both, or without the models' sizes and defaults as well. It says which command
    shows what was left out about the models.
    """
    models = list(_about_models(offers, texts, names))
    described = list(_command_lines(commands, texts, names))
    named = [", ".join(f"**/{names.pgettext('name', command.name)}**" for command in commands)]
    forms = [*((lines, described) for lines in models[:-1]), *((lines, named) for lines in models)]
    whole = (_help_with(*form, offers, limits, texts=texts, names=names) for form in forms)
    return min(whole, key=lambda text: len(text) > MAX_PAGE)


def _about_models(offers: Sequence[Offer], texts: Texts, names: Texts) -> Iterator[list[str]]:
    """Yield versions of the lines about the models, each shorter than the one before."""
    yield _model_lines(offers, texts)
    command, topic = names.pgettext("name", "help"), names.pgettext("name", "topic")
    shown_by = texts.isolated(f"`/{command} {topic}:{_licences(names)}`")
    if any(offer.licence for offer in offers):
        lines = [texts.line(model_line(offer, texts), mark="- ") for offer in offers]
        yield [*lines, texts.line(texts.gettext("Licences of the models: {command}.", command=shown_by))]
    called = ", ".join(f"**{_called(offer)}**" for offer in offers[:NAMED_MODELS])
    if rest := len(offers[NAMED_MODELS:]):
        called += ", " + texts.ngettext("and {count} more", "and {count} more", rest)
    yield [called, texts.line(texts.gettext("What each model offers: {command}.", command=shown_by))]


def _called(offer: Offer) -> str:
    return offer.model.replace("_", "\\_")


def models_text(offers: Sequence[Offer], texts: Texts) -> str:
    """Return the models, their sizes, defaults and licences in Markdown."""
    return page_lines([_heading(_licences(texts)), *_model_lines(offers, texts)], texts)


def _help_with(
    models: Sequence[str],
    commands: Sequence[str],
    offers: Sequence[Offer],
    limits: Limits,
    *,
    texts: Texts,
    names: Texts,
) -> str:
    """Return the help with these lines about the models and the commands."""
    samplers = ", ".join(SAMPLER_NAMES[sampler] for sampler in samplers_of(offers))
    return "\n".join(
        [
            _heading(texts.gettext("What this bot does")),
            texts.gettext(
                "Type **{imagine}** and say what the picture should show. Your place in the queue, "
                "the progress and the picture appear in one message.",
                imagine="/" + names.pgettext("name", "imagine"),
            ),
            texts.gettext("Try one of these:"),
            *_examples(texts, names),
            _heading(texts.gettext("Options")),
            *_options(offers, texts, names),
            texts.gettext(
                "A prompt may have {characters} characters, and one request up to {variants} pictures.",
                characters=MAX_PROMPT_CHARACTERS,
                variants=MAX_VARIANTS,
            ),
            texts.gettext(
                "In a prompt `(word)` counts for more, `[word]` for less and `(word:1.3)` 1.3 times; "
                "`\\(` is only a bracket."
            ),
            texts.gettext(
                "{alternatives} asks for a picture of each, and {list} takes words from a server's list.",
                alternatives="`{red, blue}`",
                list="`__list__`",
            ),
            _heading(texts.gettext("What the models offer")),
            *models,
            texts.gettext("Samplers: {samplers}.", samplers=samplers),
            _heading(texts.gettext("Limits, and how long things are kept")),
            *(texts.line(sentence, mark="- ") for sentence in _limits(limits, texts)),
            _heading(texts.gettext("Other commands")),
            *commands,
            *_after_words(offers, texts, names),
        ]
    )


def model_line(offer: Offer, texts: Texts) -> str:
    """Return the line of a model: its sizes and its defaults."""
    return texts.gettext(
        "**{model}**: {sizes}; {steps} steps, at most {limit}; guidance {guidance}; {sampler}.",
        model=_called(offer),
        sizes=", ".join(map(size_name, offer.sizes)),
        steps=offer.num_inference_steps,
        limit=offer.max_steps,
        guidance=f"{offer.guidance_scale:g}",
        sampler=SAMPLER_NAMES[offer.sampler],
    )


def _model_lines(offers: Sequence[Offer], texts: Texts) -> list[str]:
    """Return the lines of the models with the words of their embeddings and their licences."""
    return [
        texts.line(" ".join([model_line(offer, texts), *_about_files(offer, texts)]), mark="- ")
        for offer in offers
    ]


def _about_files(offer: Offer, texts: Texts) -> Iterator[str]:
    if offer.embeddings:
        words = shown(", ".join(offer.embeddings), SHOWN_EMBEDDINGS)
        yield texts.gettext("Embeddings, as words of a prompt: {words}.", words=texts.isolated(words))
    if offer.int8:
        yield texts.gettext("Its weights are rounded to 8 bits.")
    if offer.licence:
        name = shown(offer.licence, SHOWN_LICENCE)
        linked = f"[{name}](<{offer.licence_link}>)" if offer.licence_link else name
        yield texts.gettext("Licence: {licence}.", licence=linked)


def _licences(texts: Texts) -> str:
    return texts.gettext("The models and their licences")


def _heading(words: str) -> str:
    return f"### {words}"


def _examples(texts: Texts, names: Texts) -> Iterator[str]:
    """Yield commands that can be sent as they are, with the names that the person's Discord shows."""
    command, prompt = names.pgettext("name", "imagine"), names.pgettext("name", "prompt")
    for words in EXAMPLES:
        yield texts.line(texts.isolated(f"`/{command} {prompt}:{words}`"), mark="- ")


def _options(offers: Sequence[Offer], texts: Texts, names: Texts) -> Iterator[str]:
    for option in imagine_options(offers):
        name = names.pgettext("name", option.name)
        described = texts.gettext(option.description.message)
        yield texts.line(f"{texts.isolated(f'`{name}`')} {described}", mark="- ")


def _limits(limits: Limits, texts: Texts) -> Iterator[str]:
    if limits.requests:
        yield texts.ngettext("{count} request a minute", "{count} requests a minute", limits.requests)
    if limits.files:
        yield texts.ngettext(
            "{count} picture to start from a minute", "{count} pictures to start from a minute", limits.files
        )
    if limits.waiting:
        yield texts.ngettext(
            "{count} of your pictures may wait", "{count} of your pictures may wait", limits.waiting
        )
    if limits.picture_days:
        days = math.floor(limits.picture_days)
        yield texts.ngettext(
            "Files are deleted after {count} day without use, and painted again when you ask for them",
            "Files are deleted after {count} days without use, and painted again when you ask for them",
            days,
        )
    if limits.job_days:
        days = math.floor(limits.job_days)
        yield texts.ngettext(
            "Requests are deleted after {count} day, but not favourites",
            "Requests are deleted after {count} days, but not favourites",
            days,
        )


def _command_lines(commands: Commands, texts: Texts, names: Texts) -> Iterator[str]:
    for command in commands:
        name = names.pgettext("name", command.name)
        described = texts.gettext(command.description)
        yield texts.line(f"{texts.isolated(f'**/{name}**')} {described}", mark="- ")


def _after_words(offers: Sequence[Offer], texts: Texts, names: Texts) -> list[str]:
    composition = texts.gettext(
        "**{composition}** in the same menu keeps the composition of a picture.",
        composition=names.pgettext("name", composition_menu().name),
    )
    like = texts.gettext(
        "**{like}** in the same menu makes a picture part of the prompt.",
        like=names.pgettext("name", like_menu().name),
    )
    change = texts.gettext(
        "**{change}** in the same menu changes a picture as your words say.",
        change=names.pgettext("name", change_menu().name),
    )
    return [
        texts.gettext(
            "In the menu of any message, under **Apps**: **{recipe}** opens a form with the settings of "
            "its picture, and **{picture}** starts from its picture.",
            recipe=names.pgettext("name", use_recipe_menu().name),
            picture=names.pgettext("name", paint_from_menu().name),
        ),
        *([composition] if control_types_of(offers) else []),
        *([like] if any(offer.image_prompts for offer in offers) else []),
        *([change] if any(offer.references for offer in offers) else []),
        texts.gettext(
            "**{made_by_ai}** in the same menu says which marks of AI a picture has. The marks say that the "
            "bot's pictures are AI-generated: people who use the bot may not remove the marks.",
            made_by_ai=names.pgettext("name", made_by_ai_menu().name),
        ),
        texts.gettext(
            "**{report}** in the same menu tells moderators about a picture that should not be here.",
            report=names.pgettext("name", report_menu().name),
        ),
        texts.gettext(
            "Under a picture, **{again}** paints the same with the next seed and **{delete}** removes it. "
            "While you wait, **{cancel}** stops it.",
            again=texts.gettext("Again"),
            delete=texts.gettext("Delete"),
            cancel=texts.gettext("Cancel"),
        ),
        texts.gettext(
            "**{vary}** paints others like it, and **{enlarge}** paints it larger where its model can.",
            vary=texts.gettext("Vary"),
            enlarge=texts.gettext("Enlarge"),
        ),
        texts.gettext(
            "The picture's file holds its seed and settings: "
            "the same seed and settings paint the same picture."
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Which of a moderator's first steps are done in a server: the private channel, its use, and a rule."""

    private: bool = False
    channel: bool = False
    rules: bool = False


def is_moderator(request: Request) -> bool:
    """Return whether the person moderates the server of an interaction."""
    return request.interaction.is_guild_integration() and server_rights(request.person).manage_messages


async def show_moderators_help(request: Request) -> None:
    """Show the page to the person alone; to moderators with the steps that are done in the server."""
    steps, names = Steps(), request.names
    with suppress(StoreUnavailable, TimeoutError):  # the page is of use without what is done
        async with asyncio.timeout(FORM_READ_SECONDS):
            if is_moderator(request):
                steps = await _steps(request)
    await say(request, view=page(moderators_help(request.texts, names, steps)))


async def _steps(request: Request) -> Steps:
    guild, store = request.interaction.guild, request.services.store
    if guild is None:
        return Steps()
    chosen = (await store.reviews.settings(guild.id)).channel_id
    channel = guild.get_channel_or_thread(chosen) if chosen is not None else None
    return Steps(
        private=channel is not None and not everybody_sees(channel),
        channel=chosen is not None,
        rules=bool(await store.prompt_rules.of(guild.id)),
    )


def moderators_help(texts: Texts, names: Texts, steps: Steps) -> str:
    """Return the page in Markdown; `names` are the texts with the command names that the person sees."""
    heading, first = texts.gettext("For moderators"), texts.gettext("First steps")
    return "\n".join(
        [
            f"### {first}",
            *_first_steps(texts, names, steps),
            f"### {heading}",
            texts.gettext("These commands need Discord's permission **Manage Messages** in the server."),
            *_commands(texts, names),
            # Discord offers it to members with the permission of hosts: see `session_group`.
            texts.gettext(
                "If Discord does not offer you **{session}**, an administrator gives it to your role in the "
                "server's settings, under Integrations.",
                session="/" + names.pgettext("name", "session"),
            ),
            texts.gettext(
                "In the menu of a message, **{menu}** shows which member asked for its pictures.",
                menu=names.pgettext("name", NAME),
            ),
            texts.gettext(
                "You can use **{cancel}** and **{delete}** on every request in the server. All of this is "
                "logged with your name.",
                cancel=texts.gettext("Cancel"),
                delete=texts.gettext("Delete"),
            ),
            texts.gettext(
                "Blocked members see the end and the reason of the block, and are charged nothing. During "
                "a pause, requests are accepted and wait; people who wait see your text in their messages."
            ),
            texts.gettext(
                "What is held for review, reported or appealed appears with buttons in the channel you "
                "choose. The first decision counts, and the person who made the request sees the outcome."
            ),
        ]
    )


def _first_steps(texts: Texts, names: Texts, steps: Steps) -> Iterator[str]:
    review, add = (
        "/" + " ".join(names.pgettext("name", part) for part in path)
        for path in (("review", "channel"), ("rules", "add"))
    )
    said = (
        (steps.private, texts.gettext("Make a private channel, which only moderators and this bot see.")),
        (
            steps.channel,
            texts.gettext(
                "Type **{command}** in it: reports, appeals and what waits appear there.",
                command=review,
            ),
        ),
        (
            steps.rules,
            texts.gettext("Type **{command}**, and enter words that no prompt may have.", command=add),
        ),
    )
    for number, (done, sentence) in enumerate(said, start=1):
        yield texts.line(f"{DONE if done else OPEN} {sentence}", mark=f"{number}. ")


def _commands(texts: Texts, names: Texts) -> Iterator[str]:
    groups = (
        moderate_group(),
        policy_group(),
        rules_group(),
        review_group(),
        known_group(),
        style_group(),
        wildcard_group(),
        session_group(),
    )
    for group in groups:
        for command in group.commands:
            if isinstance(command, app_commands.Command):
                yield _line((group.name, command.name), command.description, texts, names)
    for alone in (whose_command(), audit_command()):
        yield _line((alone.name,), alone.description, texts, names)


def _line(path: tuple[str, ...], description: str, texts: Texts, names: Texts) -> str:
    name = " ".join(names.pgettext("name", part) for part in path)
    return texts.line(f"{texts.isolated(f'**/{name}**')} {texts.gettext(description)}", mark="- ")


CONTROLS = (Button(template=FOR_MODERATORS, act=show_moderators_help),)

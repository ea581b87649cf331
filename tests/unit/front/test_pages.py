"""What /queue, /cancel and /help say, and how errors are told: plain functions, no Discord."""

from __future__ import annotations

import re
from dataclasses import replace

import discord
import pytest
from recipes import OFFER, job_of, origin, recipe

from bot.config import MAX_MODELS
from bot.delivery.discord_requests import layout
from bot.domain.errors import UserMistake
from bot.domain.jobs import Job, Position, State
from bot.front.answers.answers import MAX_PAGE, page_lines, sentence_for
from bot.front.commands.cancel import choosing
from bot.front.commands.help import Limits, commands_for, help_text, models_text
from bot.front.commands.imagine import imagine_options
from bot.front.commands.queue import Listing, batch_lines, queue_lines, request_facts, request_name
from bot.front.features import commands, menus, other_commands
from bot.store.queue.batches import Batch, Seated
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import ControlType

COMMANDS = other_commands()
LIMITS = Limits(requests=30, waiting=60, files=6, picture_days=30, job_days=365)

ENGLISH = Texts.for_locale("en-US")
KOREAN = Texts.for_locale("ko")
ME, OTHER = 1, 2


def job(
    name: str, *, user: int = ME, step: int | None = None, private: bool = False, variants: int = 1
) -> Job:
    """A job that waits, or is being painted at `step`; its prompt is its name in bold and a mention."""
    return job_of(
        *[State.WAITING if step is None else State.RUNNING] * variants,
        job_id=name,
        recipe=recipe(prompt=f"*{name}* <@3>"),
        origin=origin(1, user_id=user, private=private),
        step=step or 0,
    )


def listing(*jobs: Job) -> Listing:
    """These jobs, being all that there are."""
    return Listing(jobs=list(enumerate(jobs, start=1)), total=len(jobs))


def test_the_queue_lists_jobs_in_fair_order_with_honest_times() -> None:
    lines = queue_lines(
        listing(job("a", user=OTHER, step=7), job("b"), job("c", user=OTHER, variants=4), job("d")),
        {
            "a": Position(place=0, ahead=0, seconds=0.0, end=3.0),
            "b": Position(place=1, ahead=0, seconds=12.2, end=14.0),
            "c": Position(place=2, ahead=1, seconds=None, seats=1),
            "d": Position(place=0, ahead=0, seconds=None, paused="a moment"),
        },
        viewer=ME,
        seen={"a", "b", "c", "d"},
        texts=ENGLISH,
    )
    assert [re.sub(r" · .*? · ", " · … · ", line, count=1) for line in lines] == [
        "1\\. <@2> · … · 1 picture · painting, step 7 of 20 · done in about 3 s",
        "2\\. **you** · … · 1 picture · starts in about 12 s, done in about 14 s",
        "3\\. <@2> · … · 4 pictures · waiting",
        "4\\. **you** · … · 1 picture · paused",
    ]


def test_prompts_in_the_queue_mean_nothing_to_discord() -> None:
    line = queue_lines(listing(job("bold", user=OTHER)), {}, viewer=ME, seen={"bold"}, texts=ENGLISH)[0]
    assert "\\*bold\\*" in line
    assert "\\<@3>" in line


def test_a_long_queue_is_cut_and_the_rest_counted() -> None:
    shown = Listing(jobs=[(1, job("first", user=OTHER)), (26, job("mine"))], total=30)
    lines = queue_lines(shown, {}, viewer=ME, seen=(), texts=ENGLISH)
    assert lines[1].startswith("26\\. **you**")
    assert len(lines) == 2
    page = page_lines(lines, ENGLISH, further=28, below=["below"]).splitlines()
    assert page[2:] == ["and 28 more", "below"]
    page = page_lines(["x" * 3000, "y" * 3000], ENGLISH, further=28, below=["below"]).splitlines()
    assert page[1:] == ["and 29 more", "below"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_help_names_every_option_model_and_command(language: str) -> None:
    texts = Texts.for_locale(language)
    control = {"controlnets": ("net",), "control_types": ((ControlType.EDGES, "net"),)}
    offers = [OFFER, replace(OFFER, model="second", image_prompts=True, references=2, **control)]
    text = help_text(offers, LIMITS, COMMANDS, texts=texts, names=texts)
    for option in imagine_options(offers):
        assert f"`{texts.pgettext('name', option.name)}`" in text
    for_all = [menu.name for menu in menus(offers) if menu.default_permissions is None]
    for command in ("imagine", "queue", "history", "cancel", *for_all):
        assert texts.pgettext("name", command) in text
    assert "second" in text
    assert "128x128 (1:1)" in text
    assert "DPM++ 2M Karras" in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("count", range(1, MAX_MODELS + 1, 6))
def test_the_help_of_models_with_all_options_fits_and_keeps_their_sizes_where_it_can(
    language: str, count: int
) -> None:
    texts = Texts.for_locale(language)
    sizes = tuple((side, side + 64) for side in range(512, 1088, 64))
    full = replace(OFFER, sizes=(*OFFER.sizes, *sizes), loras=("ink", "fog"), licence="OpenRAIL")
    full = replace(full, embeddings=tuple(f"bad_words_{number}" for number in range(40)))
    offers = [replace(full, model=f"model-{number}") for number in range(count)]
    text = help_text(offers, LIMITS, COMMANDS, texts=texts, names=texts)
    assert len(text) <= MAX_PAGE
    assert "model-0" in text
    assert count > 1 or "512x576" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_help_has_the_licence_of_each_model_or_the_command_that_shows_it(language: str) -> None:
    texts = Texts.for_locale(language)
    link = "https://example.org/licence"
    free, bound = OFFER, replace(OFFER, model="bound", licence="CreativeML_Open [RAIL]", licence_link=link)
    said = f"[CreativeML\\_Open \\[RAIL\\]](<{link}>)"
    text = help_text([free, bound], LIMITS, COMMANDS, texts=texts, names=texts)
    assert text.count(said) == models_text([free, bound], texts).count(said) == 1
    many = [replace(bound, model=f"bound-{number}") for number in range(MAX_MODELS)]
    assert said not in help_text(many, LIMITS, COMMANDS, texts=texts, names=texts)
    assert f":{texts.gettext('The models and their licences')}`" in help_text(
        many, LIMITS, COMMANDS, texts=texts, names=texts
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_help_has_the_words_of_a_models_embeddings(language: str) -> None:
    texts = Texts.for_locale(language)
    offer = replace(OFFER, embeddings=("cat", "bad_hands"))
    for text in (help_text([offer], LIMITS, COMMANDS, texts=texts, names=texts), models_text([offer], texts)):
        assert "cat, bad\\_hands" in text


def test_the_page_of_models_says_how_many_have_no_room() -> None:
    link = f"https://example.org/{'x' * 400}"
    many = [
        replace(OFFER, model=f"model-{number}", licence="Open", licence_link=link) for number in range(25)
    ]
    lines = models_text(many, ENGLISH).split("\n")
    shown = sum(link in line for line in lines)
    assert 0 < shown < 25
    assert lines[-1] == f"and {25 - shown} more"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_request_offered_for_choice_fits_a_choice(language: str) -> None:
    texts = Texts.for_locale(language)
    long = job_of(*[State.RUNNING] * 9, recipe=recipe(prompt="x" * 2000), origin=RAVIS, step=3)
    assert len(request_name(long, now=5e6, texts=texts, named=True)) <= 100
    assert len(request_facts(long, now=5e6, texts=texts, named=True)) <= 100
    layout(choosing([long], [long], now=5e6, texts=texts)).to_components()


RAVIS = origin(1, user_id=OTHER, user_name="Ravi")


def test_an_asker_whose_name_is_not_known_is_a_number() -> None:
    assert request_facts(job("x", user=OTHER), now=9.0, texts=ENGLISH, named=True).startswith("2 · ")


def test_how_many_requests_there_are_is_followed_by_them() -> None:
    content = choosing([job(f"a{number}") for number in range(30)], [], now=9.0, texts=ENGLISH)
    assert content.heading == "You have 30 requests: choose what to cancel.\nA menu lists the first 25."
    (menu,) = content.menus
    assert (len(menu.choices), menu.most) == (25, 25)
    assert [button.label for button in content.buttons] == ["Cancel all of mine"]


def test_a_persons_mistake_is_told_in_their_language_with_nothing_for_discord_to_read() -> None:
    error = InvalidRequest("model", value="*bold* @everyone", choices="demo")
    told = sentence_for(error, KOREAN)
    assert "모델은 없습니다" in told
    assert "\\*bold\\*" in told
    assert "@everyone" not in told


def test_a_refusal_is_short_whatever_was_typed() -> None:
    assert len(sentence_for(UserMistake("size_or_aspect", value="*" * 5000, choices="x"), ENGLISH)) < 2000


def test_the_help_says_the_limits_and_how_long_things_are_kept() -> None:
    lines = help_text([OFFER], LIMITS, COMMANDS, texts=ENGLISH, names=ENGLISH).splitlines()
    start = lines.index("### Limits, and how long things are kept")
    assert lines[start + 1 : start + 6] == [
        "- 30 requests a minute",
        "- 6 pictures to start from a minute",
        "- 60 of your pictures may wait",
        "- Files are deleted after 30 days without use, and painted again when you ask for them",
        "- Requests are deleted after 365 days, but not favourites",
    ]


def test_what_has_no_limit_is_not_in_the_help() -> None:
    unlimited = Limits(requests=0, waiting=None, files=0, picture_days=0, job_days=0)
    lines = help_text([OFFER], unlimited, COMMANDS, texts=ENGLISH, names=ENGLISH).splitlines()
    start = lines.index("### Limits, and how long things are kept")
    assert lines[start + 1] == "### Other commands"


def test_the_batch_says_whose_images_have_the_seats() -> None:
    whose = ((ME, 5), (ME, 5), (OTHER, 5), (9, 6))
    seated = [Seated(user_id=user, guild_id=guild, left=8) for user, guild in whose]
    batches = [
        Batch(lane="demo:128x128:guided", seats=6, images=tuple(seated), seconds=0.0),
        Batch(lane="a:b:512x768:unguided", seats=1, images=tuple(seated[3:]), seconds=4.2),
        Batch(lane="demo:64x64:guided", seats=32, images=tuple(seated[:1]), seconds=None),
        Batch(lane="demo:64x64:unguided:2 references", seats=1, images=(), seconds=None),
    ]
    assert batch_lines(batches, viewer=ME, guild_id=5, texts=ENGLISH) == [
        "**On the devices now**",
        f"- demo 128×128 · ■■■■□□ 4 of 6 seats · **you** 2 · <@{OTHER}> 1 · others 1",
        "- a:b 512×768 · ■ 1 of 1 seats · others 1 · a seat is free in about 4 s",
        "- demo 64×64 · 1 of 32 seats · **you** 1",
        "- demo 64×64 · □ 0 of 1 seats",
    ]
    assert batch_lines([], viewer=ME, guild_id=5, texts=ENGLISH) == []
    direct = batch_lines(batches[:1], viewer=ME, guild_id=None, texts=ENGLISH)
    assert direct[1].endswith("**you** 2 · others 2")


@pytest.mark.parametrize(
    ("permissions", "moderates", "hosts"),
    [
        (discord.Permissions.none(), False, False),
        (discord.Permissions(manage_messages=True), True, False),
        (discord.Permissions(manage_events=True), False, True),
        (discord.Permissions(administrator=True), True, True),
    ],
)
def test_the_help_names_the_commands_that_discord_shows_to_the_person(
    permissions: discord.Permissions, moderates: bool, hosts: bool
) -> None:
    text = help_text([OFFER], LIMITS, commands_for(permissions, COMMANDS), texts=ENGLISH, names=ENGLISH)
    moderators = {"moderate", "rules", "review", "audit", "policy", "whose", "known"}
    for command in commands([OFFER]):
        offered = moderates if command.name in moderators else hosts if command.name == "session" else True
        assert (f"**/{command.name}**" in text) == offered or command.name == "help"


def test_the_help_names_the_command_of_hosts_by_the_permission_of_the_configuration() -> None:
    creates = discord.Permissions(create_events=True)
    shown = commands_for(creates, other_commands("create_events"))
    assert "session" in [command.name for command in shown]
    assert "session" not in [command.name for command in commands_for(creates, COMMANDS)]

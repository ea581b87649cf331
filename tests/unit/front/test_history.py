"""The pages of /history: the parts of a line, and the targets of the buttons."""

import re
from dataclasses import replace

import pytest
from recipes import job_of, origin, recipe

from bot.domain.jobs import Job, Showing, State
from bot.front.answers.pages import PAGE_ROWS
from bot.front.commands.history import (
    CONTROLS,
    MAX_SEARCH,
    Look,
    Page,
    history_lines,
    history_view,
    message_address,
)
from bot.texts.catalogue import LANGUAGES, Texts

ENGLISH = Texts.for_locale("en-US")


def done(number: int = 1, **values: object) -> Job:
    made = job_of(
        State.DONE, recipe=recipe(prompt="*a boat* <@3>"), origin=origin(number, channel_id=6, guild_id=5)
    )
    return replace(made, message_id=7, **values)


def lines_of(*jobs: Job) -> list[str]:
    return history_lines(Page(jobs=jobs, older=False, newer=False), ENGLISH)


def test_a_line_has_time_words_count_outcome_and_link() -> None:
    (line,) = lines_of(done(created_at=1000.5))
    assert line == (
        "1. <t:1000:R> · \\*a boat\\* \\<@3> · 1 picture · painted · [message](https://discord.com/channels/5/6/7)"
    )


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (job_of(State.FAILED), "not painted"),
        (job_of(State.CANCELLED), "cancelled"),
        (job_of(State.WAITING), "waiting"),
        (job_of(State.RUNNING, step=3), "painting, step 3 of 20"),
        (done(deleted_at=5.0), "deleted"),
        (job_of(State.DONE, State.CANCELLED, State.CANCELLED), "3 pictures · painted: 1, cancelled: 2"),
        (
            job_of(State.FAILED, State.DONE, State.CANCELLED),
            "3 pictures · painted: 1, not painted: 1, cancelled: 1",
        ),
    ],
)
def test_a_line_has_the_outcome_of_its_job(job: Job, said: str) -> None:
    assert said in lines_of(job)[0]


def test_only_a_visible_message_is_linked() -> None:
    private = done()
    private = replace(private, origin=replace(private.origin, private=True))
    direct = done()
    direct = replace(direct, origin=replace(direct.origin, guild_id=None))
    assert [
        message_address(job) for job in (private, done(deleted_at=1.0), replace(done(), message_id=None))
    ] == [
        None,
        None,
        None,
    ]
    assert message_address(direct) == "https://discord.com/channels/@me/6/7"


def test_existing_results_can_be_shown_again_by_the_number_of_their_line() -> None:
    private = replace(done(), origin=origin(2, private=True))
    jobs = (job_of(State.FAILED), private, replace(private, deleted_at=1.0), done())
    found = Page(jobs=jobs, older=False, newer=False)
    (container,) = history_view(found, ENGLISH, now=60.0).to_components()
    (menu,) = container["components"][1]["components"]
    assert menu["placeholder"] == "Show one again, with its buttons"
    choices = [(choice["label"], choice["description"]) for choice in menu["options"]]
    facts = "1 picture · 1 minute ago"
    assert choices == [("2. *a boat* <@3>", facts), ("4. *a boat* <@3>", facts)]


def test_a_result_that_came_as_a_direct_message_is_linked_there() -> None:
    private = done(message_channel_id=8)
    private = replace(private, origin=replace(private.origin, private=True))
    for job in (private, done(message_channel_id=8)):
        assert message_address(job) == "https://discord.com/channels/@me/8/7"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_whole_page_of_long_prompts_fits_a_message(language: str) -> None:
    ids = {"guild_id": 2**63 - 1, "channel_id": 2**63 - 1}
    long = job_of(State.DONE, recipe=recipe(prompt="*" * 500), origin=origin(2**63 - 1, **ids))
    page = Page(jobs=(replace(long, message_id=2**63 - 1),) * PAGE_ROWS, older=True, newer=True)
    (container,) = history_view(page, Texts.for_locale(language), now=1e9).to_components()
    text, _menu, row = container["components"]
    assert len(text["content"]) <= 4000
    assert [button["custom_id"] for button in row["components"]] == [
        f"history:newer:{2**63 - 1}",
        f"history:older:{2**63 - 1}",
    ]


@pytest.mark.parametrize(
    ("showings", "word"),
    [
        ((Showing.WITHHOLD,), "withheld"),
        ((Showing.WITHHOLD, Showing.WITHHOLD), "withheld"),
        ((Showing.WITHHOLD, Showing.SHOW), "painted"),
    ],
)
def test_a_job_without_visible_pictures_is_not_called_painted(
    showings: tuple[Showing, ...], word: str
) -> None:
    job = job_of(*(State.DONE for _ in showings))
    images = (replace(image, showing=showing) for image, showing in zip(job.images, showings, strict=True))
    (line,) = lines_of(replace(job, images=tuple(images)))
    assert word in line


def test_the_buttons_carry_the_longest_search() -> None:
    search = "\N{ROBOT FACE}" * (MAX_SEARCH - 4) + " a:b"
    one = replace(done(), origin=origin(2**63 - 1))
    page = Page(jobs=(one,), older=True, newer=True, look=Look(search, starred=True))
    (container,) = history_view(page, ENGLISH, now=60.0).to_components()
    for button in container["components"][-1]["components"]:
        assert len(button["custom_id"].encode("utf-16-le")) // 2 <= 100
        match = re.fullmatch(CONTROLS[0].template, button["custom_id"])
        assert match is not None
        assert (match["star"], match["search"]) == ("*", f":{search}")


@pytest.mark.parametrize("search", ["*a*", "a\nb", "@everyone", "```", "\u202e", "[x](y)"])
def test_any_search_is_repeated_without_its_markup(search: str) -> None:
    page = Page(jobs=(), older=False, newer=False, look=Look(search))
    (container,) = history_view(page, ENGLISH, now=60.0).to_components()
    heading, answer = container["components"][0]["content"].split("\n")
    assert search not in heading
    assert answer == "None of your requests has these words: search for fewer or other words."

"""What a job's message says in each state."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from recipes import ORIGIN, RECIPE, job_of, recipe

from bot.config import Config
from bot.delivery.content import MAX_ALT, MessageContent, Tone
from bot.delivery.discord_requests import layout, parts_of
from bot.delivery.pictures import PictureFile
from bot.delivery.render import MAX_TEXT, TROUBLES, render
from bot.delivery.result import FAILURES, seeds_text
from bot.domain.jobs import Descent, Job, Notes, Parent, Position, Showing, State
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.request import PromptFacts, Trouble

ENGLISH = Texts.for_locale("en-US")


def labels(content: MessageContent) -> list[str]:
    return [button.custom_id for button in content.buttons]


def test_a_waiting_job_says_its_place_when_it_starts_and_when_it_is_done() -> None:
    content = render(job_of(State.WAITING), Position(place=3, ahead=2, seconds=12.2, end=31.0), ENGLISH)
    assert content.status == "Queued, 3rd. Starts in about 12 s, done in about 30 s."
    assert [(button.custom_id, button.dangerous) for button in content.buttons] == [("cancel:abc", True)]
    assert (content.pictures, content.tone) == ((), Tone.WAITING)


def test_a_start_and_an_end_that_read_the_same_are_one_time() -> None:
    soon = Position(place=1, ahead=0, seconds=0.2, end=0.9)
    assert render(job_of(State.WAITING), soon, ENGLISH).status == "Queued, 1st. Done in about 1 s."


def test_a_waiting_job_promises_no_time_that_is_not_known() -> None:
    assert (
        render(job_of(State.WAITING), Position(place=1, ahead=0, seconds=None, seats=1), ENGLISH).status
        == "Queued, 1st."
    )
    assert render(job_of(State.WAITING), None, ENGLISH).status == "Queued."


def test_a_job_that_no_worker_paints_is_said_to_be_kept() -> None:
    content = render(job_of(State.WAITING), Position(place=1, ahead=0, seconds=None, seats=0), ENGLISH)
    assert content.status == "Queued, 1st. Nothing paints this at the moment. The request is kept."


def test_a_pause_is_said_with_its_word_while_no_picture_of_the_job_is_painted() -> None:
    silent, told = (Position(place=0, ahead=0, seconds=None, paused=word) for word in ("", "tea, *now*"))
    assert render(job_of(State.WAITING), silent, ENGLISH).status == "Painting is paused here."
    half = render(job_of(State.DONE, State.WAITING), told, ENGLISH)
    assert half.status == "Painting is paused here: tea, \\*now\\*"
    assert labels(half) == ["cancel:abc"]
    assert render(job_of(State.RUNNING, State.WAITING), told, ENGLISH).status.startswith("Painting: step")


def test_who_has_much_waiting_is_told_that_it_comes_later() -> None:
    slowed = replace(job_of(State.WAITING), slowed=True)
    content = render(slowed, Position(place=3, ahead=2, seconds=None, seats=1), ENGLISH)
    later = "You have many pictures waiting, so these come later."
    assert content.status == f"Queued, 3rd. {later}"
    assert render(replace(job_of(State.RUNNING), slowed=True), None, ENGLISH).status.startswith("Painting")


def test_a_job_being_painted_says_its_step_and_how_many_pictures_are_done() -> None:
    one = render(job_of(State.RUNNING, step=7), None, ENGLISH)
    assert one.status == "Painting: step 7 of 20.\n-# ████░░░░░░░░ · 35 %"
    some = render(job_of(State.DONE, State.RUNNING, State.RUNNING, State.WAITING, step=8), None, ENGLISH)
    assert some.status.startswith("Painting: step 36 of 80, 1 of 4 pictures finished.\n")
    assert labels(some) == ["cancel:abc"]


def test_a_job_being_painted_says_when_it_is_done() -> None:
    soon = Position(place=0, ahead=0, seconds=0.0, end=8.4)
    said = render(job_of(State.RUNNING, step=7), soon, ENGLISH).status
    assert said.startswith("Painting: step 7 of 20. Done in about 8 s.\n")


@pytest.mark.parametrize(
    ("locale", "batch"),
    [
        ("en-US", "painted together with 2 other pictures"),
        ("ko", "다른 그림 2장과 함께 그리는 중"),
        ("zh-CN", "与另外 2 张图片一起绘制"),
    ],
)
def test_a_job_being_painted_says_how_many_other_pictures_are_painted_together_with_its_own(
    locale: str, batch: str
) -> None:
    texts = Texts.for_locale(locale)
    shared = Position(place=0, ahead=0, seconds=0.0, end=8.4, seats=4, taken=3)
    assert render(job_of(State.RUNNING, step=7), shared, texts).status.endswith(f" · 35 % · {batch}")
    alone = replace(shared, taken=1)
    assert render(job_of(State.RUNNING, step=7), alone, texts).status.endswith(" · 35 %")


def test_a_job_that_a_worker_holds_and_has_not_begun_says_when_it_starts() -> None:
    held = Position(place=0, ahead=0, seconds=4.0, end=8.0)
    said = render(job_of(State.RUNNING, State.WAITING), held, ENGLISH).status
    assert said == "Next to be painted. Starts in about 4 s, done in about 8 s."
    starts = [
        render(job_of(State.RUNNING), replace(held, seconds=seconds), ENGLISH).status.partition(".")[0]
        for seconds in (1.0, 0.4)
    ]
    assert starts == ["Next to be painted", "Painting: step 0 of 20"]


@pytest.mark.parametrize("trouble", Trouble)
def test_what_begins_anew_says_why_once_and_a_cause_of_a_later_version_is_left_out(trouble: Trouble) -> None:
    states = (State.RUNNING, State.RUNNING, State.DONE)
    said = render(job_of(*states, step=2, trouble=trouble), None, ENGLISH).status
    assert said.startswith(f"{TROUBLES[trouble]} Painting: step 24 of 60, 1 of 3 pictures finished.\n")
    unknown = render(job_of(State.RUNNING, trouble="melted"), None, ENGLISH).status
    assert unknown.startswith("Painting: step 0 of 20.\n")


def test_a_finished_picture_comes_with_its_seed_and_settings_under_a_name_of_its_job() -> None:
    content = render(job_of(State.DONE, recipe=recipe(negative_prompt="a *moon*")), None, ENGLISH)
    assert content.status == ""
    assert content.footer == (
        "-# AI-generated · seed 7 · 128×128 · 20 steps · guidance 5 · DDIM · demo\n-# without: a \\*moon\\*"
    )
    assert len(content.pictures) == 1
    assert (content.pictures[0].stem, content.pictures[0].artifacts) == ("abc", ("aa/0.png",))
    assert content.pictures[0].alt == f"AI-generated · {RECIPE.prompt}, seed 7"
    assert labels(content) == ["again:abc", "remix:abc", "vary:abc:0", "files:abc", "delete:abc"]


def test_several_pictures_become_one_grid_in_the_order_of_their_seeds() -> None:
    content = render(job_of(*[State.DONE] * 4), None, ENGLISH)
    assert len(content.pictures) == 1
    assert content.pictures[0].stem == "abc-grid"
    assert content.pictures[0].artifacts == ("aa/0.png", "aa/1.png", "aa/2.png", "aa/3.png")
    assert content.pictures[0].alt == f"AI-generated · {RECIPE.prompt}, pictures 1 to 4 of 4, seeds 7–10"
    assert "seeds 7–10" in content.footer
    assert content.footer.endswith("\n-# U1–U4 show one picture alone, V1–V4 paint others like it.")


def test_a_seed_that_all_pictures_of_a_grid_share_is_named_once() -> None:
    job = job_of(*[State.DONE] * 4)
    job = replace(job, images=tuple(replace(image, seed=7) for image in job.images))
    assert (
        render(job, None, ENGLISH).pictures[0].alt
        == f"AI-generated · {RECIPE.prompt}, pictures 1 to 4 of 4, seed 7"
    )


PARENT = Parent(job_id="xyz", descent=Descent.SINGLE, index=1, channel_id=31, message_id=99)


@pytest.mark.parametrize(
    ("parent", "said"),
    [
        (PARENT, "demo · picture 2 of [this grid](https://discord.com/channels/21/31/99)"),
        (replace(PARENT, message_id=None), "demo · picture 2 of a grid"),
        (
            replace(PARENT, descent=Descent.VARIATION),
            "demo · made from [this message](https://discord.com/channels/21/31/99)",
        ),
        (replace(PARENT, descent=Descent.REPEAT, message_id=None), "demo"),
        (None, "demo"),
    ],
)
def test_a_picture_links_the_message_that_it_came_from(parent: Parent | None, said: str) -> None:
    job = job_of(State.DONE, origin=replace(ORIGIN, parent=parent))
    assert render(job, None, ENGLISH).footer.endswith(f" · {said}")


def test_a_partly_failed_job_shows_what_there_is_and_says_what_failed() -> None:
    content = render(job_of(State.DONE, State.FAILED, State.DONE, failure="not_kept"), None, ENGLISH)
    assert len(content.pictures) == 1
    assert content.pictures[0].artifacts == ("aa/0.png", "aa/2.png")
    assert content.status == f"1 of 3 pictures failed. {FAILURES['not_kept']}"
    assert "seeds 7, 9" in content.footer


FITS = PromptFacts(tokens=9, limit=225)


def test_tokens_are_spoken_of_only_where_something_was_cut() -> None:
    notes = Notes(prompt=FITS, negative_prompt=PromptFacts(tokens=1, limit=225))
    content = render(job_of(State.DONE, recipe=recipe(negative_prompt="moon"), notes=notes), None, ENGLISH)
    assert content.status == ""
    assert "token" not in content.text


def test_what_was_left_out_of_a_prompt_is_said_once_and_means_nothing_to_discord() -> None:
    notes = Notes(prompt=PromptFacts(tokens=229, limit=225, cut="(a *moon*:1.2)"), negative_prompt=FITS)
    content = render(job_of(State.DONE, State.FAILED, State.DONE, notes=notes), None, ENGLISH)
    assert content.status.endswith(
        " Only the first 225 tokens of the prompt were used. Left out: “(a \\*moon\\*:1.2)”"
    )


def test_what_was_left_out_of_a_negative_prompt_is_said_too() -> None:
    notes = Notes(prompt=FITS, negative_prompt=PromptFacts(tokens=80, limit=75, cut="x" * 300))
    content = render(job_of(State.DONE, notes=notes), None, ENGLISH)
    assert content.status == (
        f"Only the first 75 tokens of the negative prompt were used. Left out: “{'x' * 199}…”"
    )


def test_words_that_the_model_does_not_know_are_said_below_its_pictures_with_a_link() -> None:
    notes = Notes(prompt=PromptFacts(tokens=9, limit=225, unknown=("*bi*cycle", "자전거")))
    job = job_of(State.DONE, notes=notes)
    said = "-# The model demo does not know *\\*bi\\*cycle*, *자전거*."
    assert render(job, None, ENGLISH).footer.splitlines()[-1] == said
    linked = replace(Config().models[0].offer, licence="Open", licence_link="https://example.org/")
    last = render(job, None, ENGLISH, offers=[linked]).footer.splitlines()[-1]
    assert last == f"{said} [What it knows](<https://example.org/>)"
    assert "bi" not in render(job_of(State.FAILED, notes=notes), None, ENGLISH).text


def test_no_pictures_no_word_of_their_prompts() -> None:
    notes = Notes(prompt=PromptFacts(tokens=229, limit=225, cut="a moon"))
    assert render(job_of(State.CANCELLED, notes=notes), None, ENGLISH).status.startswith("Cancelled.")
    assert "moon" not in render(job_of(State.FAILED, notes=notes), None, ENGLISH).text


def test_a_cancelled_job_says_so() -> None:
    assert render(job_of(State.CANCELLED), None, ENGLISH).status.startswith("Cancelled.")
    partly = render(job_of(State.DONE, State.CANCELLED), None, ENGLISH)
    assert len(partly.pictures) == 1
    assert partly.status == "1 of 2 pictures were cancelled."


def judged(*showings: Showing) -> Job:
    """A job whose pictures are done and have these showings."""
    job = job_of(*[State.DONE] * len(showings))
    images = (
        replace(image, showing=showing, artifact=None if showing is Showing.WITHHOLD else image.artifact)
        for image, showing in zip(job.images, showings, strict=True)
    )
    return replace(job, images=tuple(images))


def test_a_withheld_picture_is_told_and_the_others_are_shown() -> None:
    content = render(judged(Showing.SHOW, Showing.WITHHOLD, Showing.SHOW), None, ENGLISH)
    assert [picture.artifacts for picture in content.pictures] == [("aa/0.png", "aa/2.png")]
    assert "1 picture is not shown: the safety checker found it unfit for this channel." in content.status
    assert "Press Again" in content.status


def test_where_all_is_withheld_there_is_a_sentence_and_a_way_to_ask_again() -> None:
    content = render(judged(Showing.WITHHOLD, Showing.WITHHOLD), None, ENGLISH)
    assert content.pictures == ()
    assert content.status.startswith("2 pictures are not shown")
    assert [button.custom_id for button in content.buttons] == ["again:abc", "remix:abc", "delete:abc"]


def test_a_flagged_picture_is_covered_alone_and_its_buttons_follow_the_order_of_what_is_shown() -> None:
    content = render(judged(Showing.SPOILER, Showing.SHOW, Showing.SHOW), None, ENGLISH)
    view = layout(content, file_names=["abc-grid.png", "SPOILER_abc.png"])
    galleries = [part for part in view.to_components()[0]["components"] if part["type"] == 12]
    assert [gallery["items"][0]["spoiler"] for gallery in galleries] == [False, True]
    assert [picture.artifacts for picture in content.pictures] == [("aa/1.png", "aa/2.png"), ("aa/0.png",)]
    assert [picture.stem for picture in content.pictures] == ["abc-grid", "SPOILER_abc"]
    files = parts_of(content, [PictureFile(data=b"", suffix=".png")] * 2)["attachments"]
    assert [file.to_dict(0).get("is_spoiler") for file in files] == [None, True]
    assert [button.custom_id for button in content.buttons[:3]] == [
        "single:abc:1",
        "single:abc:2",
        "single:abc:0",
    ]
    assert [picture.first for picture in content.pictures] == [1, 3]


@pytest.mark.parametrize(
    "prompt",
    [
        "@everyone **look**",
        "<@123> <#5> <t:0>",
        "# big\n> quote",
        "[click](https://example.org)",
        "`code` ||spoiler||",
        "\\<@123> \\\\<@123> \\",
    ],
)
def test_a_prompt_means_nothing_to_discord(prompt: str) -> None:
    heading = render(job_of(State.WAITING, recipe=recipe(prompt=prompt)), None, ENGLISH).heading
    assert "\n" not in heading
    assert "@everyone" not in heading
    inside = heading.removeprefix("**").removesuffix("**")
    unescaped = re.sub(r"\\.", "", inside)  # a backslash escapes the next character, also a backslash
    assert not set(unescaped) & set("\\*`|<[")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("letter", ["a", "*", "한", "ب"])
def test_no_message_outgrows_what_discord_takes(language: str, letter: str) -> None:
    wordy = recipe(prompt=letter * 2000, negative_prompt=letter * 2000, model="m" * 60)
    facts = PromptFacts(tokens=2000, limit=225, cut=letter * 1775)
    notes = Notes(prompt=facts, negative_prompt=facts)
    images = [State.DONE] * 4 + [State.FAILED] * 4 + [State.CANCELLED]
    content = render(job_of(*images, recipe=wordy, notes=notes), None, Texts.for_locale(language))
    assert len(content.text) <= MAX_TEXT
    assert len(content.pictures) == 1
    assert len(content.pictures[0].alt) <= MAX_ALT
    view = layout(content, file_names=["abc-grid.png"])
    assert view.content_length() <= MAX_TEXT
    assert view.total_children_count <= 40


@pytest.mark.parametrize(
    ("seeds", "text"),
    [([7], "7"), ([7, 8], "7, 8"), ([7, 8, 9], "7–9"), ([2**32 - 1, 0, 1], f"{2**32 - 1}, 0, 1")],
)
def test_seeds_read_as_a_range_only_where_they_follow_each_other(seeds: list[int], text: str) -> None:
    assert seeds_text(seeds) == text


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "AI-generated"),
        ("ko", "AI 생성"),
        ("zh", "AI 生成"),
        ("ar", "مولَّدة بالذكاء الاصطناعي"),
    ],
)
def test_a_result_says_that_it_is_ai_generated_unless_the_operator_switched_it_off(
    language: str, said: str
) -> None:
    texts = Texts.for_locale(language)
    labelled, unlabelled = (
        render(job_of(State.DONE), None, texts, label=label).footer for label in (True, False)
    )
    assert said in labelled.partition(" · ")[0]
    assert said not in unlabelled


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("letter", ["a", "한", "ب"])
def test_a_long_prompt_leaves_tile_and_seed_in_the_alternative_text(language: str, letter: str) -> None:
    wordy = recipe(prompt=letter * 2000)
    job = job_of(State.DONE, State.DONE, State.DONE, recipe=wordy)
    images = (*job.images[:2], replace(job.images[2], showing=Showing.SPOILER))
    content = render(replace(job, images=images), None, Texts.for_locale(language))
    grid, covered = (picture.alt for picture in content.pictures)
    for alt, numbers in ((grid, ("1", "2", "3", "7", "8")), (covered, ("3", "3", "9"))):
        assert MAX_ALT - 2 <= len(alt) <= MAX_ALT
        beside = alt.replace(letter, "")
        assert sorted(re.findall(r"\d+", beside)) == sorted(numbers)


def test_a_picture_beside_others_says_which_it_is() -> None:
    job = job_of(State.DONE, State.DONE)
    covered = replace(job, images=(job.images[0], replace(job.images[1], showing=Showing.SPOILER)))
    assert [picture.alt for picture in render(covered, None, ENGLISH).pictures] == [
        f"AI-generated · {RECIPE.prompt}, picture 1 of 2, seed 7",
        f"AI-generated · {RECIPE.prompt}, picture 2 of 2, seed 8",
    ]


def test_a_job_that_has_begun_is_not_said_to_be_next_while_another_picture_of_it_waits() -> None:
    later = Position(place=1, ahead=0, seconds=4.0, end=8.0)
    said = render(job_of(State.DONE, State.RUNNING), later, ENGLISH).status
    assert said.startswith("Painting: step 20 of 40, 1 of 2 pictures finished. Done in about 8 s.\n")


def test_after_the_last_step_all_is_done_and_a_picture_beside_it_is_told() -> None:
    shared = Position(place=0, ahead=0, seconds=0.0, end=1.0, seats=2, taken=2)
    said = render(job_of(State.RUNNING, step=20), shared, ENGLISH).status
    assert said.splitlines()[1] == "-# ████████████ · 100 % · painted together with 1 other picture"

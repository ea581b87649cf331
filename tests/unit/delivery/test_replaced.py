"""Messages with a sentence, previews or a notice in place of their usual content or before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipes import RECIPE, job_of

from bot.delivery.content import MessageContent, PictureContent, Tone
from bot.delivery.render import not_taken, render, with_notice, with_preview, without_picture
from bot.domain.jobs import State
from bot.texts.catalogue import Texts

ENGLISH = Texts.for_locale("en-US")


def labels(content: MessageContent) -> list[str]:
    return [button.custom_id for button in content.buttons]


def test_a_picture_whose_file_is_gone_leaves_its_settings_and_a_sentence() -> None:
    whole = render(job_of(State.DONE), None, ENGLISH)
    gone = without_picture(whole, ENGLISH)
    assert (gone.heading, gone.footer) == (whole.heading, whole.footer)
    assert gone.status == "The picture's file is gone. Press Again to paint it again."
    assert (gone.pictures, gone.tone) == ((), Tone.FAILED)
    assert "again:abc" in labels(gone)


def test_a_message_that_discord_refuses_is_one_sentence_with_buttons() -> None:
    refused = not_taken(render(job_of(State.DONE), None, ENGLISH), ENGLISH)
    assert refused.text == "Discord did not take this picture. Press Again, or tell the bot's owner."
    assert (refused.pictures, refused.tone) == ((), Tone.FAILED)
    assert "again:abc" in labels(refused)


@pytest.mark.parametrize(
    ("states", "alt"),
    [
        ((State.RUNNING,), f"AI-generated · Preview of {RECIPE.prompt}"),
        ((State.DONE, State.RUNNING), f"AI-generated · Preview of 2 pictures: {RECIPE.prompt}"),
    ],
)
def test_previews_are_one_picture_whose_text_says_how_many_there_are(
    states: tuple[State, ...], alt: str
) -> None:
    job = job_of(*states)
    plain = render(job, None, ENGLISH)
    preview = PictureContent(artifacts=(), stem="preview", alt=alt)
    assert with_preview(plain, job, ENGLISH) == replace(plain, pictures=(preview,))


def test_a_notice_stands_before_everything_else_which_stays() -> None:
    content = render(job_of(State.DONE), None, ENGLISH)
    assert with_notice(content, "Moved here.") == replace(content, heading=f"Moved here.\n{content.heading}")

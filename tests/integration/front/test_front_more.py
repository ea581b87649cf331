"""The menu More: pictures near one of the result's own, and its facts."""

from __future__ import annotations

import io
from typing import Any

import PIL.Image
from front_tools import ephemeral, finished, queued, refusal, text_of
from results import shows_result
from serving import Served

from bot.front.recipes.variations import NEAR_STRENGTH
from bot.sandbox.client import Member
from bot.sandbox.component_rules import walk


def options(message: dict[str, Any]) -> list[str]:
    return [option["label"] for _, part in walk(message["components"]) for option in part.get("options", [])]


async def test_a_picture_is_varied_a_little_eight_times(served: Served, ravi: Member) -> None:
    job, message = await finished(served, ravi, "boats", variants=2, seed=5)
    assert options(message) == [
        "Vary 1 a little",
        "Vary 2 a little",
        "Remix from a picture",
        "★ Favourite",
        "Info",
    ]
    for times in range(1, 9):
        answer = await ravi.message_of(await ravi.press(message, "More", values=[message_value(message, 1)]))
        (near,) = await served.store.jobs.active()
        assert near.origin.parent is not None
        assert near.origin.parent.job_id == job.id
        recipe = near.recipe
        assert (recipe.seed, recipe.variants, recipe.init_image) == (6, 2, None)
        assert [variation.strength for variation in recipe.variations] == [NEAR_STRENGTH] * times
        job = await served.paint(near.id)
        message = await ravi.wait_for_message(
            lambda found, wanted=answer["id"]: found["id"] == wanted and shows_result(found)
        )
        assert "varied by seed" in text_of(message)
    told = await refusal(ravi, await ravi.press(message, "More", values=[message_value(message, 1)]))
    assert told == "9 variations of one seed are too many: 8 are possible."


def message_value(message: dict[str, Any], index: int) -> str:
    """The value of the choice at an index of the menu."""
    values = [
        option["value"] for _, part in walk(message["components"]) for option in part.get("options", [])
    ]
    return str(values[index])


async def test_the_info_of_a_picture_that_started_from_another_says_what_its_settings_lack(
    served: Served, ravi: Member
) -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), "red").save(file, "PNG")
    start = ("start.png", file.getvalue())
    _job, message = await finished(served, ravi, "a boat", image=start, strength=0.3, seed=5)
    text = text_of(await ravi.message_of(await ravi.press(message, "More", values=["info"])))
    assert "It started from a picture, at strength 0.3: give that picture too." in text
    assert "Denoising strength: 0.3" in text
    settings = text.split("```")[1].strip()
    await queued(ravi, "-", recipe=settings)
    told = await ravi.wait_for_message(lambda found: "What differs here" in text_of(found))
    assert "It started from another picture: send that too, with the option image." in text_of(told)


async def test_info_is_for_the_person_alone_and_can_be_copied_to_other_tools(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a ``` boat", seed=5, negative_prompt="fog")
    answer = await omar.message_of(await omar.press(message, "More", values=["info"]))
    assert ephemeral(answer)
    text = text_of(answer)
    assert "a \u02cb\u02cb\u02cb boat\nNegative prompt: fog\nSteps: " in text
    assert "Seed: 5" in text
    assert f"{job.id}" in text
    assert text.count("```") == 2


async def test_a_menu_is_ready_for_the_same_choice_again(served: Served, ravi: Member) -> None:
    _job, message = await finished(served, ravi, "boats", variants=5)
    for menu, value in (("More", "info"), ("Paint others like one", "3")):
        await ravi.message_of(await ravi.press(message, menu, values=[value]))
        edited = await ravi.wait_for_message(
            lambda found, before=message: (
                found["id"] == before["id"] and found["edited_timestamp"] != before["edited_timestamp"]
            )
        )
        assert edited | {"edited_timestamp": message["edited_timestamp"]} == message  # nothing else changed
        message = edited


async def test_the_menus_of_a_large_grid_show_one_picture_alone_and_paint_others_like_one(
    served: Served, ravi: Member
) -> None:
    job, message = await finished(served, ravi, "boats", variants=5, seed=5)
    alone = await ravi.message_of(
        await ravi.press(message, "Show one picture alone", values=["2"]),
        shows_result,
    )
    assert "seed 7" in text_of(alone)
    await ravi.message_of(await ravi.press(message, "Paint others like one", values=["2"]))
    (like,) = await served.store.jobs.active()
    assert like.origin.parent is not None
    assert (like.origin.parent.job_id, like.origin.parent.index) == (job.id, 2)

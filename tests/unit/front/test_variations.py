"""The recipes behind the buttons under a picture."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipes import OFFER, RECIPE, job_of, recipe

from bot.delivery.content import ROW
from bot.delivery.discord_requests import layout
from bot.delivery.render import render, without_picture
from bot.domain.errors import UserMistake
from bot.domain.jobs import MAX_VARIANTS, Job, Recipe, Showing, State
from bot.front.recipes.variations import NEAR_STRENGTH, enlarged, varied, varied_near
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.request import Lora, Offer, Variation

ENGLISH = Texts.for_locale("en")
LARGER = replace(OFFER, sizes=((128, 128), (256, 256), (512, 512)))


def ids(*states: State, recipe: Recipe = RECIPE, offers: tuple[Offer, ...] = (OFFER,)) -> list[list[str]]:
    content = render(job_of(*states, recipe=recipe), None, ENGLISH, offers=offers)
    return [[button.custom_id for button in row] for row in content.rows]


def test_a_picture_alone_has_its_buttons_in_one_row_and_delete_apart() -> None:
    assert ids(State.DONE) == [["again:abc", "remix:abc", "vary:abc:0", "files:abc"], ["delete:abc"]]
    larger = ["again:abc", "remix:abc", "vary:abc:0", "enlarge:abc:0", "files:abc"]
    assert ids(State.DONE, offers=(LARGER,)) == [larger, ["delete:abc"]]


def test_each_picture_of_a_grid_has_buttons_by_its_place_that_name_it_by_its_index() -> None:
    job = job_of(State.DONE, State.FAILED, State.DONE)
    rows = render(job, None, ENGLISH, offers=(LARGER,)).rows
    assert [[(button.label, button.custom_id) for button in row] for row in rows[:2]] == [
        [("U1", "single:abc:0"), ("U2", "single:abc:2")],
        [("V1", "vary:abc:0"), ("V2", "vary:abc:2")],
    ]
    assert [[button.label for button in row] for row in rows[2:]] == [["Again", "Remix", "Files"], ["Delete"]]


@pytest.mark.parametrize("count", range(5, MAX_VARIANTS + 1))
def test_a_large_grid_has_two_menus_of_its_pictures_instead_of_buttons(count: int) -> None:
    content = render(job_of(State.FAILED, *[State.DONE] * count), None, ENGLISH)
    assert [[button.label for button in row] for row in content.rows] == [
        ["Again", "Remix", "Files"],
        ["Delete"],
    ]
    assert [menu.custom_id for menu in content.menus] == ["pick:abc:single", "pick:abc:vary"]
    for menu in content.menus:
        labelled = [(choice.label, choice.value) for choice in menu.choices]
        assert labelled == [(f"Picture {number}", str(number)) for number in range(1, count + 1)]
    assert "U1" not in content.text


def test_without_pictures_there_are_no_buttons_to_vary() -> None:
    assert (
        ids(State.FAILED)
        == ids(State.CANCELLED, State.FAILED)
        == [["again:abc", "remix:abc"], ["delete:abc"]]
    )
    gone = without_picture(render(job_of(*[State.DONE] * 5), None, ENGLISH), ENGLISH)
    assert not gone.menus
    assert [button.custom_id for button in gone.buttons] == ["again:abc", "remix:abc", "delete:abc"]


def test_a_picture_can_be_enlarged_only_where_its_model_paints_larger_ones_of_its_shape() -> None:
    assert "enlarge:abc:0" not in ids(State.DONE, recipe=recipe(width=512, height=512), offers=(LARGER,))[0]
    assert "enlarge:abc:0" not in ids(State.DONE, offers=(OFFER, replace(LARGER, model="other")))[0]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("count", range(1, MAX_VARIANTS + 1))
def test_the_buttons_keep_discords_limits(language: str, count: int) -> None:
    content = render(job_of(*[State.DONE] * count), None, Texts.for_locale(language), offers=(LARGER,))
    assert len(content.rows) + len(content.menus) <= 4
    assert all(1 <= len(row) <= ROW for row in content.rows)
    assert len({button.custom_id for button in content.buttons}) == len(content.buttons) <= 2 * count + 4
    assert all(len(button.label) <= 80 for button in content.buttons)
    assert layout(content, file_names=["abc.png"]).total_children_count <= 40


MASKED = recipe(
    init_image="aa/sent.png",
    mask_image="bb/mask.png",
    strength=0.9,
    loras=(Lora(name="ink"),),
    control_image="cc/sent.png",
    controlnet="canny",
)


def test_variations_start_from_the_picture_and_keep_the_rest() -> None:
    job = job_of(State.DONE, State.DONE, recipe=MASKED)
    assert varied(job, 1, seed=99) == replace(
        MASKED, variants=2, init_image="aa/1.png", mask_image=None, strength=0.5, seed=99
    )


def test_variations_of_a_picture_near_another_begin_from_it_alone() -> None:
    near = replace(RECIPE, variations=(Variation(seed=3, strength=0.2),))
    assert varied(job_of(State.DONE, recipe=near), 0, seed=99).variations == ()


def test_pictures_near_another_keep_its_seed_and_every_earlier_variation() -> None:
    earlier = Variation(seed=3, strength=0.2)
    job = job_of(State.DONE, State.DONE, recipe=replace(RECIPE, variations=(earlier,)))
    near = varied_near(job, 1, seed=99)
    assert near == replace(
        job.recipe.from_image(1),
        variations=(*job.recipe.from_image(1).variations, Variation(seed=99, strength=NEAR_STRENGTH)),
    )
    assert len(near.variations) == 2
    with pytest.raises(UserMistake, match="no_picture"):
        varied_near(job_of(State.FAILED), 0, seed=1)


def test_an_enlargement_starts_from_the_picture_with_its_own_seed_in_the_next_size() -> None:
    job = job_of(State.DONE, State.DONE, recipe=MASKED)
    assert enlarged(job, 1, LARGER) == replace(
        MASKED,
        variants=1,
        init_image="aa/1.png",
        mask_image=None,
        strength=0.4,
        seed=MASKED.seed + 1,
        width=256,
        height=256,
    )
    wide = job_of(State.DONE, recipe=recipe(width=192, height=128))
    bigger = enlarged(wide, 0, replace(OFFER, sizes=((192, 128), (384, 256))))
    assert (bigger.width, bigger.height) == (384, 256)


def test_missing_pictures_and_sizes_are_reported() -> None:
    job = job_of(State.DONE, State.FAILED)
    for index in (1, 7):
        with pytest.raises(UserMistake, match="no_picture"):
            varied(job, index, seed=1)
    with pytest.raises(UserMistake) as refused:
        enlarged(job, 0, OFFER)
    assert ENGLISH.mistake(refused.value) == f"{OFFER.model} paints no larger picture of this shape."


def with_the_first_held(job: Job) -> Job:
    first, *others = job.images
    held = replace(first, artifact=None, showing=Showing.HOLD, held="aa/0.png")
    return replace(job, images=(held, *others))


def test_only_the_picture_that_is_held_is_said_to_be_held() -> None:
    job = with_the_first_held(job_of(State.DONE, State.FAILED))
    for index, problem in ((0, "picture_held"), (1, "no_picture")):
        with pytest.raises(UserMistake) as refused:
            varied(job, index, seed=1)
        assert refused.value.message_id == problem

"""Values that forms refer to by a key: pictures and recipes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipes import job_of
from stores import Clock

from bot.config import Config
from bot.domain.errors import UserMistake
from bot.domain.jobs import Showing, State
from bot.front.recipes.options import Asked, parse
from bot.front.recipes.settings_line import options_line, settings_in
from bot.front.services.kept_values import KeptValues
from bot.front.uploads.messages import (
    Kind,
    MessageFile,
    file_name,
    pictures_among,
    pictures_of_job,
    read_file,
    read_texts,
    recipe_settings,
    telling,
)
from bot.generation_data import NoGenerationData, fit
from bot.texts.catalogue import LANGUAGES, Texts

OFFER = replace(Config().models[0].offer, loras=("ink", "fog, thick"))
ENGLISH = Texts.for_locale("en")
ME, OTHER = 1, 2


def test_an_offered_value_is_found_by_its_person_until_it_expires_or_is_evicted() -> None:
    clock = Clock()
    offered: KeptValues[str] = KeptValues(clock=clock, most=2, seconds=10)
    first, second = offered.keep("first", user_id=ME), offered.keep("second", user_id=ME)
    assert offered.find(first, user_id=ME) == "first"
    for key, person in ((first, OTHER), ("0" * 16, ME)):
        with pytest.raises(UserMistake) as caught:
            offered.find(key, user_id=person)
        assert caught.value.message_id == "form_forgotten"
    offered.keep("third", user_id=ME)
    with pytest.raises(UserMistake):
        offered.find(first, user_id=ME)
    clock.now += 11.0
    with pytest.raises(UserMistake):
        offered.find(second, user_id=ME)


def test_a_person_with_many_forms_pushes_out_their_own_alone() -> None:
    offered: KeptValues[int] = KeptValues(clock=Clock(), most=50)
    kept = offered.keep(0, user_id=OTHER)
    mine = [offered.keep(number, user_id=ME) for number in range(500)]
    assert offered.find(kept, user_id=OTHER) == 0
    assert offered.find(mine[-49], user_id=ME) == 451
    with pytest.raises(UserMistake):
        offered.find(mine[-50], user_id=ME)


def test_what_is_kept_again_under_a_key_replaces_the_earlier_and_takes_no_other_place() -> None:
    offered: KeptValues[int] = KeptValues(clock=Clock(), most=2, forgotten="words_forgotten")
    other = offered.keep(0, user_id=ME)
    for number in range(5):
        assert offered.keep(number, user_id=ME, key="form") == "form"
    assert (offered.find("form", user_id=ME), offered.find(other, user_id=ME)) == (4, 0)
    assert offered.get("form", user_id=OTHER) is None
    with pytest.raises(UserMistake) as caught:
        offered.find("form", user_id=OTHER)
    assert caught.value.message_id == "words_forgotten"


def test_many_people_with_a_form_each_push_out_the_oldest_of_them() -> None:
    offered: KeptValues[int] = KeptValues(clock=Clock(), most=50)
    keys = [offered.keep(person, user_id=person) for person in range(60)]
    with pytest.raises(UserMistake):
        offered.find(keys[9], user_id=9)
    assert [offered.find(keys[person], user_id=person) for person in range(10, 60)] == [*range(10, 60)]


def test_withheld_and_unfinished_pictures_are_not_offered() -> None:
    job = job_of(State.DONE, State.FAILED, State.DONE, State.DONE)
    images = [
        replace(image, artifact=None if image.state is State.FAILED else f"{image.index}.png")
        for image in job.images
    ]
    images[3] = replace(images[3], showing=Showing.WITHHOLD)
    found = pictures_of_job(replace(job, images=tuple(images)), ENGLISH)
    assert [(each.name, each.index) for each in found] == [
        ("Picture 1 (row 1, column 1)", 0),
        ("Picture 3 (row 1, column 2)", 2),
    ]


def test_as_many_reachable_pictures_are_offered_as_a_menu_takes() -> None:
    files = [
        MessageFile(name=f"{number}.png", kind=Kind.PICTURE, addresses=(f"a{number}",))
        for number in range(40)
    ]
    files[0] = MessageFile(name="notes.txt", kind=Kind.TEXT, addresses=("a",))
    found = pictures_among(files, lambda given: next((each for each in given if each != "a1"), None), ENGLISH)
    assert len(found) == 25
    assert (found[0].name, found[0].address) == ("2.png", "a2")


def test_the_name_of_a_file_is_plain_short_text() -> None:
    assert file_name("a\u202e\nb.png") == "a b.png"
    assert len(file_name("x" * 500)) == 100
    nameless = MessageFile(name="\u200b", kind=Kind.PICTURE, addresses=("a",))
    assert pictures_among([nameless], lambda given: next(iter(given)), ENGLISH)[0].name == "Picture 1"


def test_the_first_text_with_data_counts_and_ordinary_text_is_no_mistake() -> None:
    found = read_texts(["hello", "{talk", "a boat\nSteps: 9, Sampler: Euler", "a kite\nSteps: 8, Seed: 1"])
    assert found is not None
    assert found.prompt == "a boat"
    assert read_texts(["hello", "{talk", ""]) is None
    with pytest.raises(NoGenerationData) as caught:
        read_texts(["hello", '{"version": 99, "request": {}}'])
    assert caught.value.message_id == "generation_data_version"


def test_a_text_file_is_read_in_any_encoding_up_to_a_length() -> None:
    assert read_file(Kind.TEXT, "\ufeffa boat\nSteps: 9, Seed: 1".encode()).seed == 1
    assert read_file(Kind.TEXT, b"\xff\xfe boat\nSteps: 9, Seed: 1").seed == 1
    with pytest.raises(NoGenerationData) as caught:
        read_file(Kind.TEXT, b"x" * 65_537)
    assert caught.value.message_id == "generation_data_long"


def test_the_most_specific_error_is_raised() -> None:
    none, gone = UserMistake("recipe_none"), UserMistake("picture_gone", what="x")
    assert telling([NoGenerationData(), gone], otherwise=none) is gone
    assert telling([NoGenerationData("generation_data_no_file")], otherwise=none) is none


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_line_of_a_form_reads_back_as_the_same_request(language: str) -> None:
    names = Texts.for_locale(language)
    text = (
        "a boat <lora:ink:0.8125> Negative prompt: fog Steps: 33, Sampler: Euler a, "
        "CFG scale: 6.0123456789, Seed: 4294967295, Size: 128x128, Model: demo, Clip skip: 2"
    )
    data = read_texts([text])
    assert data is not None
    offers = [replace(OFFER, most_skipped=3)]
    options = fit(data, offers).options
    read, _ = settings_in(options_line(recipe_settings(options, offers), names), names)
    words = {name: options[name] for name in ("prompt", "negative_prompt")}
    recipe = parse(Asked(**words, **read), offers)
    assert recipe == parse(Asked(**options), offers)
    assert recipe.clip_skip == 1


def test_the_line_names_the_model_whose_defaults_it_shows() -> None:
    other = replace(OFFER, model="other", sizes=((256, 256),), num_inference_steps=8, guidance_scale=1.0)
    line = options_line(recipe_settings({"model": "other"}, [OFFER, other]), ENGLISH)
    assert line == "size 256x256, variants 1, steps 8, guidance 1, sampler DDIM, model other"

"""From typed options to a recipe or to one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import recipe

from bot.domain.errors import SeveralMistakes, UserMistake
from bot.domain.jobs import MAX_VARIANTS, Recipe
from bot.front.answers.answers import sentence_for
from bot.front.recipes.options import (
    MAX_CHOICE,
    MAX_CHOICES,
    MAX_ECHO,
    Asked,
    aspect_name,
    clean,
    echo,
    find_size,
    lora_choices,
    may_expand,
    parse,
    parse_by_any,
    parse_loras,
    random_seed,
    size_choices,
    with_given,
)
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MAX_SEED, ControlType, Lora, Offer, Sampler

SMALL = Offer(
    model="small",
    sizes=((128, 128), (192, 128), (128, 192)),
    num_inference_steps=20,
    guidance_scale=5.0,
    sampler=Sampler.DDIM,
    max_steps=60,
    most_skipped=3,
)
LARGE = replace(
    SMALL,
    loras=("Ink", "paper_cut-2"),
    model="Large-XL",
    most_skipped=0,
    sizes=((1024, 1024), (1216, 832)),
    sampler=Sampler.EULER,
)
OFFERS = (SMALL, LARGE)


def recipe_of(**asked: object) -> Recipe:
    return parse(Asked(**{"prompt": "a red circle", **asked}), OFFERS, new_seed=lambda: 7)  # type: ignore[arg-type]


def problem_of(**asked: object) -> str:
    with pytest.raises((InvalidRequest, UserMistake)) as caught:
        recipe_of(**asked)
    error = caught.value
    return error.problem if isinstance(error, InvalidRequest) else error.message_id


@pytest.mark.parametrize("prompt", ["", " ", "\n", "\u200b", "\u2060 \ufeff", "\u3000", "\u202e"])
def test_a_prompt_without_visible_characters_is_empty(prompt: str) -> None:
    assert problem_of(prompt=prompt) == "empty_prompt"
    assert recipe_of(negative_prompt=prompt).negative_prompt == ""


@pytest.mark.parametrize("prompt", ["(((((", "...", "[]", "-- ?!", "( :", "、。"])
def test_a_prompt_of_punctuation_alone_asks_for_words(prompt: str) -> None:
    assert problem_of(prompt=prompt) == "wordless_prompt"


@pytest.mark.parametrize("prompt", ["7", "🦊", "é", "e\u0301", "$", "빨", "(((red"])
def test_a_letter_a_digit_or_a_symbol_is_enough(prompt: str) -> None:
    assert recipe_of(prompt=prompt).prompt == prompt


def test_omitted_options_are_the_models_defaults() -> None:
    assert recipe_of() == recipe(prompt="a red circle", model="small")
    assert recipe_of(model="large-xl").sampler is Sampler.EULER


def test_every_typed_option_is_in_the_recipe() -> None:
    assert recipe_of(
        negative_prompt="blue",
        variants=4,
        size="192x128",
        seed=0,
        steps=3,
        guidance=0,
        sampler="pndm",
        model="small",
        style="noir",
    ) == Recipe(
        prompt="a red circle",
        negative_prompt="blue",
        seed=0,
        variants=4,
        num_inference_steps=3,
        guidance_scale=0.0,
        sampler=Sampler.PNDM,
        width=192,
        height=128,
        model="small",
        style="noir",
    )


def test_clip_skip_counts_from_one_and_is_else_the_models() -> None:
    assert [recipe_of(clip_skip=count).clip_skip for count in (1, 2, 4)] == [0, 1, 3]
    own = [replace(LARGE, clip_skip=1)]  # before its checkpoint is read
    assert [parse(Asked(prompt="a boat", clip_skip=count), own).clip_skip for count in (None, 1)] == [1, 0]


def test_the_largest_values_are_accepted() -> None:
    assert recipe_of(seed=-1).seed == 7  # as A1111 writes a random one
    largest = recipe_of(variants=MAX_VARIANTS, seed=MAX_SEED)
    assert (largest.variants, largest.seed) == (MAX_VARIANTS, MAX_SEED)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"prompt": ""}, "empty_prompt"),
        ({"prompt": " \n\t\x00 "}, "empty_prompt"),
        ({"prompt": "x" * 2001}, "long_prompt"),
        ({"negative_prompt": "x" * 2001}, "long_prompt"),
        ({"variants": 0}, "variants"),
        ({"variants": 10}, "variants"),
        ({"seed": -2}, "seed"),
        ({"seed": MAX_SEED + 1}, "seed"),
        ({"steps": 0}, "steps"),
        ({"steps": 61}, "steps"),
        ({"guidance": -0.1}, "guidance"),
        ({"guidance": float("nan")}, "guidance"),
        ({"guidance": float("inf")}, "guidance"),
        ({"clip_skip": 0}, "clip_skip"),
        ({"clip_skip": 5}, "clip_skip"),
        ({"model": "Large-XL", "clip_skip": 2}, "no_clip_skip"),
        ({"sampler": "eular"}, "sampler"),
        ({"model": "medium"}, "model"),
        ({"mask": True}, "mask_alone"),
        ({"strength": 0.5}, "strength_alone"),
        ({"image": True, "strength": -0.1}, "strength"),
        ({"image": True, "strength": float("nan")}, "strength"),
        ({"lora": "ink"}, "no_loras"),
        ({"model": "Large-XL", "lora": "rust"}, "lora"),
        ({"model": "Large-XL", "lora": "ink:much"}, "lora_weight"),
        ({"model": "Large-XL", "lora": "ink:9"}, "lora_weight"),
        ({"model": "Large-XL", "lora": "ink:nan"}, "lora_weight"),
        ({"size": "130x130"}, "size"),
        ({"size": "16:9"}, "size"),
        ({"size": "1024x1024"}, "size"),
        ({"size": "huge"}, "size_or_aspect"),
        ({"size": ""}, "size_or_aspect"),
        ({"size": "0x0"}, "size_or_aspect"),
        ({"size": "-128x128"}, "size_or_aspect"),
        ({"size": "99999x1"}, "size"),
        ({"size": "100000x1"}, "size_or_aspect"),
        ({"size": "9" * 99 + "x1"}, "size_or_aspect"),
        ({"size": "١٢٨x١٢٨"}, "size_or_aspect"),
    ],
)
def test_invalid_options_are_refused_by_name(asked: dict[str, object], problem: str) -> None:
    assert problem_of(**asked) == problem


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"seed": -3}, f"-3 is not a seed: choose a whole number between 0 and {MAX_SEED}."),
        ({"variants": 0}, f"0 variants are not possible: choose between 1 and {MAX_VARIANTS}."),
        (
            {"clip_skip": 5},
            "A clip skip of 5 is not possible with small: "
            "choose between 1, which leaves out no layer, and 4.",
        ),
        ({"model": "medium"}, "There is no model called “medium”: choose from small, Large-XL."),
        (
            {"model": "Large-XL", "lora": "ink:much"},
            "A LoRA weight of much is not possible: choose between -4 and 4.",
        ),
        (
            {"size": "130x130"},
            "small does not paint 130x130: choose from 128x128 (1:1), 192x128 (3:2), 128x192 (2:3).",
        ),
        (
            {"size": "huge"},
            "“huge” is neither a size, width x height, nor a shape such as 3:2: "
            "choose from 128x128 (1:1), 192x128 (3:2), 128x192 (2:3).",
        ),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_possible(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises((InvalidRequest, UserMistake)) as caught:
        recipe_of(**asked)
    assert Texts.for_locale("en").mistake(caught.value) == sentence


@pytest.mark.parametrize(
    ("typed", "size"),
    [
        ("128x128", (128, 128)),
        (" 192 X 128 ", (192, 128)),
        ("192×128", (192, 128)),
        ("192 * 128", (192, 128)),
        ("1:1", (128, 128)),
        ("3:2", (192, 128)),
        ("2 : 3", (128, 192)),
        ("6/4", (192, 128)),
    ],
)
def test_a_size_or_a_shape_finds_an_offered_size(typed: str, size: tuple[int, int]) -> None:
    assert find_size(typed, SMALL) == size


def test_a_shape_finds_the_size_of_its_usual_name() -> None:
    assert find_size("3:2", LARGE) == (1216, 832)
    assert aspect_name((1216, 832)) == "3:2"
    assert aspect_name((832, 1216)) == "2:3"
    assert aspect_name((640, 64)) == "10:1"


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("", ["128x128", "192x128", "128x192"]),
        ("3:", ["192x128"]),
        ("192X", ["192x128"]),
        ("×192", ["128x192"]),
        ("192 * 128", ["192x128"]),
        ("192*", ["192x128"]),
        ("3 / 2", ["192x128"]),
        ("192x128 (3:2)", ["192x128"]),
        ("nothing like it", []),
    ],
)
def test_sizes_are_suggested_by_what_is_typed(typed: str, values: list[str]) -> None:
    assert [value for _, value in size_choices(typed, SMALL)] == values


def test_no_more_is_suggested_than_discord_shows() -> None:
    many = replace(SMALL, sizes=tuple((64 + 8 * step, 64) for step in range(40)))
    assert len(size_choices("", many)) == MAX_CHOICES


def test_every_suggestion_is_accepted() -> None:
    for offer in OFFERS:
        assert [find_size(value, offer) for _, value in size_choices("", offer)] == list(offer.sizes)


def test_text_that_databases_refuse_is_repaired() -> None:
    assert clean("a\x00b\ud800c\r\nd") == "a b?c \nd"


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_any_text_is_a_recipe_or_a_mistake_and_can_be_stored(prompt: str, negative: str) -> None:
    try:
        recipe = recipe_of(prompt=prompt, negative_prompt=negative)
    except InvalidRequest as error:
        if error.problem != "wordless_prompt":
            assert not clean(prompt) or max(len(clean(prompt)), len(clean(negative))) > 2000
        else:
            assert not any(map(str.isalnum, prompt))
    else:
        assert recipe.prompt.encode()
        assert "\x00" not in recipe.prompt + recipe.negative_prompt


@given(
    asked=st.builds(
        Asked,
        prompt=st.text(max_size=50),
        negative_prompt=st.none() | st.text(max_size=50),
        variants=st.none() | st.integers(),
        size=st.none() | st.sampled_from(["128x128", "3:2", "1:0", "x", ":"]) | st.text(max_size=20),
        seed=st.none() | st.integers(),
        steps=st.none() | st.integers(),
        guidance=st.none() | st.floats() | st.integers(),
        sampler=st.none() | st.sampled_from(list(Sampler)) | st.text(max_size=500),
        model=st.none() | st.sampled_from(["small", "Large-XL"]) | st.text(max_size=500),
    )
)
def test_any_options_give_an_offered_recipe_or_a_refusal_in_every_language(asked: Asked) -> None:
    try:
        recipe = parse(asked, OFFERS)
    except (InvalidRequest, UserMistake) as error:
        sentences = {Texts.for_locale(language).mistake(error) for language in LANGUAGES}
        assert len(sentences) == len(LANGUAGES)
        assert all(0 < len(sentence) < 1000 for sentence in sentences)
    else:
        offer = next(offer for offer in OFFERS if offer.model == recipe.model)
        for index in range(recipe.variants):
            offer.check(recipe.request(index))
        assert 1 <= recipe.variants <= MAX_VARIANTS
        assert asked.seed in (None, recipe.seed)


def test_random_seeds_are_seeds_and_differ() -> None:
    seeds = {random_seed() for _ in range(50)}
    assert len(seeds) > 45
    assert all(0 <= seed <= MAX_SEED for seed in seeds)


def test_the_largest_seed_may_be_drawn_and_none_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbelow", lambda end: end - 1)
    assert random_seed() == MAX_SEED


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("{red, blue} boat", True),
        ("a __colour__ boat", True),
        (r"a \{boat", True),
        ("a red_boat (old)", False),
    ],
)
def test_only_a_prompt_with_the_signs_of_alternatives_or_lists_may_become_others(
    prompt: str, expected: bool
) -> None:
    assert may_expand(prompt) is expected


def test_a_wrong_value_is_quoted_on_one_short_line() -> None:
    assert echo("a\n b\t c") == "a b c"
    assert len(echo("x" * 5000)) == 60
    assert echo("x" * MAX_ECHO) == "x" * MAX_ECHO


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ()),
        (" , ,", ()),
        ("ink", (Lora(name="Ink"),)),
        ("ink: , INK:", (Lora(name="Ink"),)),
        ("INK : 0.8", (Lora(name="Ink", weight=0.8),)),
        ("ink:-1, paper_cut-2", (Lora(name="Ink", weight=-1.0), Lora(name="paper_cut-2"))),
        ("ink:0.5,ink:0.7", (Lora(name="Ink", weight=0.7),)),
        ("rust", (Lora(name="rust"),)),
    ],
)
def test_loras_are_read_with_their_weights(typed: str, found: tuple[Lora, ...]) -> None:
    assert parse_loras(typed, LARGE) == found


def test_the_last_of_several_loras_is_suggested() -> None:
    assert lora_choices("", LARGE) == [("Ink", "Ink"), ("paper_cut-2", "paper_cut-2")]
    assert lora_choices("ink:0.8, CUT", LARGE) == [("ink:0.8, paper_cut-2",) * 2]
    assert lora_choices("ink, fog:0.5, CUT", LARGE) == [("ink, fog:0.5, paper_cut-2",) * 2]
    assert lora_choices("x" * 200 + ",", LARGE) == []


def test_a_suggestion_may_be_as_long_as_discord_takes() -> None:
    before = "x" * (MAX_CHOICE - len(", Ink"))
    assert lora_choices(f"{before}, ink", LARGE) == [(f"{before}, Ink",) * 2]
    assert lora_choices(f"x{before}, ink", LARGE) == []


def started(asked: Asked, *, mask: str | None = None, size: tuple[int, int] = (900, 600)) -> Recipe:
    names = {"init_image": "aa/picture.png"} | ({} if mask is None else {"mask_image": mask})
    return with_given(parse(asked, OFFERS), asked, SMALL, names=names, sizes={"init_image": size})


def test_a_start_picture_sets_the_shape_unless_a_size_is_given() -> None:
    recipe = started(Asked(prompt="a boat", image=True))
    assert (recipe.init_image, recipe.mask_image) == ("aa/picture.png", None)
    assert (recipe.width, recipe.height) == (192, 128)
    tall = started(Asked(prompt="a boat", image=True), size=(600, 900))
    assert (tall.width, tall.height) == (128, 192)
    square = started(Asked(prompt="a boat", image=True, size="1:1"))
    assert (square.width, square.height) == (128, 128)


def test_the_strength_is_given_or_follows_from_the_mask() -> None:
    asked = Asked(prompt="a boat", image=True)
    assert started(asked).strength == 0.75
    assert started(asked, mask="bb/mask.png").strength == 1.0
    assert started(asked, mask="bb/mask.png").mask_image == "bb/mask.png"
    assert started(replace(asked, strength=0.2), mask="bb/mask.png").strength == 0.2
    assert started(replace(asked, strength=0.0)).strength == 0.0


ENGLISH = Texts.for_locale("en")
CONTROLLED = replace(
    SMALL,
    controlnets=("canny", "union"),
    control_types=((ControlType.EDGES, "canny"), (ControlType.POSE, "union"), (ControlType.TILE, "union")),
)


def test_a_control_picture_is_for_the_network_of_its_type() -> None:
    asked = Asked(prompt="a boat", control=True, control_type="canny", control_strength=0.6)
    recipe = parse(asked, [CONTROLLED])
    assert (recipe.controlnet, recipe.control_type, recipe.control_strength) == ("canny", "edges", 0.6)
    assert parse(replace(asked, control_type=" Pose"), [CONTROLLED]).controlnet == "union"
    one = replace(CONTROLLED, control_types=((ControlType.TILE, "union"),))
    alone = parse(replace(asked, control_type=None, control_strength=None), [one])  # its only type
    assert (alone.controlnet, alone.control_type, alone.control_strength) == ("union", "tile", 1.0)
    picked = parse_by_any(asked, [replace(SMALL, model="plain"), CONTROLLED])  # the model that takes it
    assert picked.model == CONTROLLED.model


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"control_type": "edges"}, "send its picture too"),
        ({"control_strength": 0.5}, "send its picture too"),
        ({"control": True}, "choose a control type from edges, pose, tile."),
        ({"control": True, "control_type": "depth"}, "of the type depth: choose from edges, pose, tile."),
        ({"control": True, "control_type": "smell"}, "of the type smell: choose from edges, pose, tile."),
        ({"control": True, "control_type": "pose", "control_strength": 2.5}, "A control strength of 2.5"),
    ],
)
def test_what_is_wrong_with_a_control_picture_is_one_sentence(typed: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidRequest, UserMistake)) as wrong:
        parse(Asked(prompt="a boat", **typed), [CONTROLLED])
    assert not isinstance(wrong.value, SeveralMistakes)
    assert said in sentence_for(wrong.value, ENGLISH)
    with pytest.raises(InvalidRequest, match="has no ControlNets: leave the control picture out"):
        parse(Asked(prompt="a boat", control=True, control_type="edges"), [SMALL])


def test_without_a_model_the_first_that_takes_the_given_pictures_paints() -> None:
    plain, adapted = replace(SMALL, model="plain"), replace(SMALL, model="adapted", image_prompts=True)
    depth = replace(
        CONTROLLED, model="depth", controlnets=("depth",), control_types=((ControlType.DEPTH, "depth"),)
    )
    offers = [plain, CONTROLLED, adapted, depth]
    of_edges = Asked(prompt="a boat", control=True, control_type="edges")
    assert parse(of_edges, offers).model == CONTROLLED.model
    assert parse(replace(of_edges, control_type="depth"), offers).model == "depth"
    assert parse(Asked(prompt="a boat", image_prompt=True), offers).model == "adapted"
    editing = replace(SMALL, model="editing", references=1)
    assert parse(Asked(prompt="a boat", references=1), [*offers, editing]).model == "editing"
    assert parse(Asked(prompt="a boat"), offers).model == "plain"
    with pytest.raises(UserMistake, match=r"control_type_missing.*edges, pose, tile"):
        parse(replace(of_edges, control_type=None), offers)
    with pytest.raises(InvalidRequest, match="plain has no ControlNets"):
        parse(replace(of_edges, model="plain"), offers)


def test_the_mistakes_of_control_and_of_others_are_said_together() -> None:
    with pytest.raises(SeveralMistakes) as wrong:
        parse(Asked(prompt="a boat", steps=999, control=True), [CONTROLLED])
    said = [sentence_for(each, ENGLISH) for each in wrong.value.mistakes]
    assert len(said) == 2
    assert "999 steps" in said[0]
    assert "choose a control type" in said[1]


@pytest.mark.parametrize("given", [{"control": True, "control_type": "edges"}, {"references": 1}])
def test_a_second_pass_is_no_mistake_before_a_given_picture_has_decided_the_size(
    given: dict[str, Any],
) -> None:
    takes = replace(CONTROLLED, sizes=((128, 128), (192, 128), (384, 256)), references=1)
    asked = Asked(prompt="a boat", hires="384x256", steps=999, **given)
    with pytest.raises(InvalidRequest, match="999 steps"):  # and nothing else
        parse(asked, [takes])


def test_an_image_prompt_is_for_models_that_take_one_and_leaves_the_size() -> None:
    takes = replace(SMALL, model="takes", image_prompts=True)
    asked = Asked(prompt="a boat", image_prompt=True)
    recipe = parse_by_any(asked, [SMALL, takes])
    assert (recipe.model, recipe.image_prompt_strength) == ("takes", 0.6)
    made = with_given(
        recipe, asked, takes, names={"image_prompt": "dd/d.png"}, sizes={"image_prompt": (900, 600)}
    )
    assert (made.image_prompt, made.width, made.height) == ("dd/d.png", recipe.width, recipe.height)
    with pytest.raises(InvalidRequest, match="takes no picture as a prompt"):
        parse(asked, [SMALL])
    with pytest.raises(InvalidRequest, match="strength of the image prompt"):
        parse(replace(asked, image_prompt_strength=1.5), [takes])
    with pytest.raises(UserMistake) as alone:
        parse(Asked(prompt="a boat", image_prompt_strength=0.5), [takes])
    assert "send it too" in sentence_for(alone.value, ENGLISH)


def test_references_are_for_models_that_take_so_many_and_decide_the_shape() -> None:
    one, two = (replace(SMALL, model=str(number), references=number) for number in (1, 2))
    asked = Asked(prompt="a boat", references=2)
    recipe = parse_by_any(asked, [SMALL, one, two])
    assert recipe.model == "2"
    names, sizes = {"reference": "dd/d.png", "reference_2": "ee/e.png"}, {"reference": (900, 600)}
    made = with_given(recipe, asked, two, names=names, sizes=sizes | {"reference_2": (10, 90)})
    assert (made.given, made.width > made.height) == (names, True)
    assert made.request(0).lane.references == 2
    with pytest.raises(InvalidRequest, match="takes no reference pictures"):
        parse(asked, [SMALL])
    with pytest.raises(InvalidRequest, match="2 reference pictures are not possible with 1"):
        parse(asked, [one])


def test_a_control_picture_alone_decides_the_shape_and_a_start_picture_comes_first() -> None:
    asked = Asked(prompt="a boat", control=True, control_type="edges")
    names, sizes = {"control_image": "cc/c.png"}, {"control_image": (900, 600)}
    recipe = with_given(parse(asked, [CONTROLLED]), asked, CONTROLLED, names=names, sizes=sizes)
    assert (recipe.control_image, recipe.init_image, recipe.strength) == ("cc/c.png", None, 1.0)
    assert (recipe.width, recipe.height) == (192, 128)
    both = replace(asked, image=True)
    names, sizes = names | {"init_image": "aa/a.png"}, sizes | {"init_image": (600, 900)}
    recipe = with_given(parse(both, [CONTROLLED]), both, CONTROLLED, names=names, sizes=sizes)
    assert (recipe.given, recipe.strength) == (names, 0.75)
    assert (recipe.width, recipe.height) == (128, 192)


def test_a_sampler_that_does_not_suit_the_model_is_refused_before_anything_is_queued() -> None:
    narrow = replace(SMALL, samplers=(Sampler.EULER, Sampler.DPMPP_2M))
    with pytest.raises(InvalidRequest, match=r"“DDIM” does not suit .* choose from Euler, DPM\+\+ 2M\."):
        parse(Asked(prompt="a cat", sampler="ddim"), [narrow])
    assert parse(Asked(prompt="a cat", sampler="euler"), [narrow]).sampler is Sampler.EULER


def test_a_recipe_has_the_guidance_interval_of_its_model() -> None:
    offers = (replace(SMALL, guidance_interval=(0.0, 0.6)), LARGE)
    asked = Asked(prompt="a red circle")
    for model, interval in (("small", (0.0, 0.6)), ("Large-XL", (0.0, 1.0))):
        recipe = parse(replace(asked, model=model), offers)
        assert recipe.guidance_interval == recipe.request(0).guidance_interval == interval


@pytest.mark.parametrize(
    ("prompt", "lora", "left", "weights"),
    [
        ("a red circle <lora:ink:0.8>", None, "a red circle", {"Ink": 0.8}),
        ("<lora:Ink>, a red circle", None, "a red circle", {"Ink": 1.0}),
        ("a <lora:x/ink.safetensors:0.4:0.9> circle", None, "a circle", {"Ink": 0.4}),
        ("a circle, <lora:ink:1>, red", "ink:0.2", "a circle, red", {"Ink": 1.0}),
        (
            "red <lora:ink:1> <lyco:paper_cut-2:-0.5><lora:ink:2>",
            None,
            "red",
            {"Ink": 2.0, "paper_cut-2": -0.5},
        ),
        ("red <lora:nothing:1>", None, "red <lora:nothing:1>", {}),
        (
            "red <lora:nothing:1> <lora:ink:1>",
            "paper_cut-2",
            "red <lora:nothing:1>",
            {"paper_cut-2": 1.0, "Ink": 1.0},
        ),
        ("red <hypernet:ink:1>", None, "red <hypernet:ink:1>", {}),
    ],
)
def test_the_tag_of_an_offered_lora_is_the_option_and_another_is_text(
    prompt: str, lora: str | None, left: str, weights: dict[str, float]
) -> None:
    found = recipe_of(prompt=prompt, lora=lora, model="large-xl")
    assert found.prompt == left
    assert {each.name: each.weight for each in found.loras} == weights


@pytest.mark.parametrize("weight", ["strong", "99", "nan"])
def test_a_tag_with_a_weight_that_is_not_possible_is_refused(weight: str) -> None:
    assert problem_of(prompt=f"red <lora:ink:{weight}>", model="large-xl") == "lora_weight"


def test_a_prompt_of_nothing_but_a_tag_is_empty() -> None:
    assert problem_of(prompt="<lora:ink:1>", model="large-xl") == "empty_prompt"


def test_every_wrong_option_is_named_once_and_those_of_an_unknown_model_are_not() -> None:
    wrong: dict[str, Any] = {"size": "9x9", "steps": 9999, "sampler": "none", "seed": -5, "variants": 2}
    with pytest.raises(SeveralMistakes) as caught:
        recipe_of(**wrong)
    named = [getattr(each, "problem", "") for each in caught.value.mistakes]
    assert named == ["size", "steps", "sampler", "seed"]
    with pytest.raises(InvalidRequest) as unknown:
        recipe_of(model="no such model", size="9x9")
    assert unknown.value.problem == "model"

"""The demo's scenes: their names and captions in four languages, and the checker of their pictures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from sdjax_engine.demo.captions import caption, english_plural
from sdjax_engine.demo.checker import check
from sdjax_engine.demo.drawing import LARGER, SIZES, STYLES, Size, Sprites, draw, ground
from sdjax_engine.demo.objects import LANGUAGES, OBJECTS, Language
from sdjax_engine.demo.scenes import Scene, Thing, sample_scene

CAT, ROCKET = Thing(name="cat"), Thing(name="rocket", size="large")
BLUE_CAT = Thing(name="cat", colour="blue")
STAR, RING = Thing(name="star", colour="yellow"), Thing(name="ring", colour="green", size="small")


@pytest.fixture(scope="module")
def sprites(tmp_path_factory: pytest.TempPathFactory) -> Sprites:
    """A picture for every object that no other object has: five triangles on a disc."""
    folder: Path = tmp_path_factory.mktemp("sprites")
    rng = np.random.default_rng(0)
    for each in OBJECTS.values():
        picture = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
        pen = ImageDraw.Draw(picture)
        pen.ellipse((0, 0, 63, 63), fill=(*rng.integers(0, 255, 3).tolist(), 255))
        for _ in range(5):
            pen.polygon(rng.integers(8, 56, 6).tolist(), fill=(*rng.integers(0, 255, 3).tolist(), 255))
        picture.save(folder / each.file, lossless=True, method=0)
    return Sprites(folder)


def painted(scene: Scene, sprites: Sprites, size: Size = SIZES[0], seed: int = 5) -> np.ndarray:
    return np.asarray(draw(scene, sprites, np.random.default_rng(seed), size=size))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_object_has_names_in_every_language_and_no_name_means_two(language: Language) -> None:
    assert len(OBJECTS) >= 300
    names = Counter(name for each in OBJECTS.values() for name in each.names[language])
    assert "" not in names
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_two_scenes_never_have_the_same_caption(language: Language) -> None:
    rng = np.random.default_rng(1)
    scenes = {sample_scene(rng) for _ in range(4000)}
    said = Counter(caption(scene, language) for scene in scenes)
    assert [text for text, count in said.items() if count > 1] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_chosen_by_chance_never_say_another_picture(language: Language) -> None:
    rng = np.random.default_rng(4)
    shown: dict[str, tuple[object, ...]] = {}
    for _ in range(4000):
        scene = sample_scene(rng)
        picture = (scene.placed, scene.ground, scene.style)
        assert shown.setdefault(caption(scene, language, rng), picture) == picture


def test_captions_read_as_people_write() -> None:
    scene = Scene(things=(CAT, ROCKET), relation="left of", ground="night", style="pixel art")
    assert [caption(scene, language) for language in LANGUAGES] == [
        "a cat left of a large rocket at night, pixel art",
        "큰 로켓 왼쪽에 고양이, 밤, 픽셀 아트",
        "一只猫在一个大大的火箭的左边，夜晚，像素画",
        "قطة على يسار صاروخ كبير في الليل، فن البكسل",
    ]


@pytest.mark.parametrize(
    ("name", "plural"),
    [("fox", "foxes"), ("wolf", "wolves"), ("cherry", "cherries"), ("monkey", "monkeys"), ("socks", "socks"),
     ("statue of liberty", "statues of liberty"), ("christmas tree", "christmas trees"), ("fish", "fish"),
     ("loaf of bread", "loaves of bread"), ("cup with straw", "cups with straw"),
     ("table tennis", "table tennis"), ("bow and arrow", "bows and arrows"), ("die", "dice"),
     ("luggage", "luggage")],
)  # fmt: skip
def test_more_than_one_thing_is_named_in_the_plural(name: str, plural: str) -> None:
    assert english_plural(name) == plural


@pytest.mark.parametrize(
    ("name", "said"),
    [("umbrella", "an umbrella"), ("unicorn", "a unicorn"), ("hourglass", "an hourglass"),
     ("horse", "a horse"),
     ("elephant", "an elephant"), ("ufo", "a ufo"), ("glasses", "glasses"), ("cheese", "cheese")],
)  # fmt: skip
def test_one_thing_has_the_article_of_its_sound(name: str, said: str) -> None:
    assert caption(Scene(things=(Thing(name=name),), says_ground=False)) == said


def test_two_scenes_of_one_picture_are_held_out_together() -> None:
    rng = np.random.default_rng(3)
    pairs = []
    while len(pairs) < 100:
        scene = sample_scene(rng, held_out=len(pairs) % 2 == 0)
        if scene.relation == "left of":
            turned = replace(scene, things=scene.things[::-1], relation="right of", says_ground=True)
            pairs.append((scene.held_out, turned.held_out))
    assert [here for here, there in pairs if here != there] == []


def test_a_held_out_scene_is_never_trained_on() -> None:
    rng = np.random.default_rng(2)
    trained = {sample_scene(rng, shapes_only=True) for _ in range(3000)}
    held_out = {sample_scene(rng, held_out=True, shapes_only=True) for _ in range(300)}
    assert held_out
    assert not trained & held_out


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [*SIZES, LARGER])
def test_a_drawn_picture_is_right_in_every_style_and_shape(style: str, size: Size, sprites: Sprites) -> None:
    for scene in (
        Scene(things=(CAT, STAR, ROCKET), relation="between", ground="cyan", style=style),
        Scene(things=(RING, Thing(name="cat", count=2)), relation="above", ground="meadow", style=style),
        Scene(things=(BLUE_CAT, CAT), relation="below", ground="pink", style=style),
    ):
        assert check(painted(scene, sprites, size), scene, sprites).all_right, scene


@pytest.mark.parametrize("name", ["meadow", "beach", "night", "sunset", "underwater", "snow"])
def test_a_longer_picture_has_the_square_one_in_its_middle(name: str, sprites: Sprites) -> None:
    scene = Scene(things=(CAT, STAR), relation="above", ground=name)
    square, wide, tall = (np.asarray(draw(scene, sprites, size=size)) for size in SIZES)
    assert (wide[:, 40:200] == square).all()
    assert (tall[40:200] == square).all()
    assert (ground(name, SIZES[0])[10, 10] == ground(name, SIZES[1])[10, 50]).all()


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (Scene(things=(CAT, STAR), relation="right of", ground="cyan"), "things"),
        (Scene(things=(CAT, STAR), relation="above", ground="cyan"), "things"),
        (Scene(things=(ROCKET, STAR), relation="left of", ground="cyan"), "things"),
        (Scene(things=(CAT, Thing(name="star", colour="red")), relation="left of", ground="cyan"), "things"),
        (Scene(things=(CAT,), ground="cyan"), "things"),
        (Scene(things=(BLUE_CAT, STAR), relation="left of", ground="cyan"), "things"),
        (Scene(things=(CAT, STAR), relation="left of", ground="sunset"), "ground"),
        (Scene(things=(CAT, STAR), relation="left of", ground="cyan", style="black and white"), "style"),
    ],
    ids=[
        "sides",
        "relation",
        "object",
        "colour",
        "a thing is missing",
        "an object's colour",
        "ground",
        "style",
    ],
)
def test_a_picture_of_another_scene_is_not_right(other: Scene, part: str, sprites: Sprites) -> None:
    scene = Scene(things=(CAT, STAR), relation="left of", ground="cyan")
    found = getattr(check(painted(other, sprites), scene, sprites), part)
    assert not (all(found) if part == "things" else found)


def test_pixel_art_is_not_right_without_blocks(sprites: Sprites) -> None:
    scene = Scene(things=(CAT,), ground="meadow", style="pixel art")
    plain = Scene(things=(CAT,), ground="meadow")
    assert not check(painted(plain, sprites), scene, sprites).style

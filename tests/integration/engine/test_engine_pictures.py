"""Pictures that start from pictures share lanes with others; the checkpoint's own checker scores all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import make_tiny_checkpoint
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
from engines import FROM_PICTURE, MASK, PART, PLAIN, SMALLEST, START, TINY, file_of, fingerprint, like
from PIL import Image as Pictures
from transformers import CLIPImageProcessor

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.images import encode_png, read_recipe
from sdjax_engine.model.pictures import fitted
from sdjax_engine.request import Image, Request, Sampler

DEADLINE = 120.0
MIXED = (
    PLAIN,
    FROM_PICTURE,
    PART,
    like(FROM_PICTURE, sampler=Sampler.PNDM, seed=3),
    like(PART, sampler=Sampler.DPMPP_2M, strength=1.0),
    like(PLAIN, sampler=Sampler.EULER_ANCESTRAL, seed=8),
)


def paint(engine: Engine, *requests: Request) -> list[Image]:
    futures = [engine.submit(request) for request in requests]
    return [future.result(DEADLINE) for future in futures]


def test_company_changes_no_picture_with_or_without_a_start_picture(engine: Engine) -> None:
    together = [fingerprint(image) for image in paint(engine, *MIXED)]
    alone = [fingerprint(image) for request in reversed(MIXED) for image in paint(engine, request)]
    assert together == alone[::-1]
    assert len(set(together)) == len(MIXED)


def test_a_smaller_strength_stays_nearer_to_the_start_picture(engine: Engine) -> None:
    strengths = (0.2, 0.5, 0.8)
    images = paint(engine, *(like(FROM_PICTURE, strength=strength) for strength in strengths))
    distances = [np.abs(image.pixels.astype(float) - images[0].pixels).mean() for image in images]
    assert distances == sorted(distances)


def test_the_part_that_a_mask_keeps_is_unchanged(engine: Engine) -> None:
    kept, painted = paint(engine, like(PART, seed=1), like(PART, seed=2))
    difference = np.abs(kept.pixels.astype(float) - painted.pixels)
    assert difference[:, 10:].mean() < 0.2 * difference[:, :6].mean()


def test_a_picture_of_another_shape_is_cut_to_the_middle(engine: Engine) -> None:
    wide = np.zeros((16, 32, 3))
    wide[:, 8:24] = START
    cut, exact = paint(engine, like(FROM_PICTURE, init_image=file_of(wide)), FROM_PICTURE)
    assert fingerprint(cut) == fingerprint(exact)


NO_FILES = (
    b"GIF89a and nothing more",
    b"",
    "a picture.png",
    np.zeros((16, 16, 3)),
    np.zeros((4, 4), np.uint8).T,
)


@pytest.mark.parametrize("given", NO_FILES, ids=["bytes", "nothing", "text", "pixels", "turned pixels"])
@pytest.mark.parametrize("name", ["init_image", "mask_image"])
def test_what_is_no_file_of_a_picture_is_refused(engine: Engine, name: str, given: Any) -> None:
    with pytest.raises(InvalidRequest, match="not a picture"):
        engine.submit(like(PART, **{name: given}))


def test_a_mask_without_white_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="The mask has nothing white"):
        engine.submit(like(PART, mask_image=file_of(np.minimum(MASK, 127))))


def test_a_mask_that_repaints_no_latent_pixel_is_refused(engine: Engine) -> None:
    thin = np.zeros_like(MASK)
    thin[:, 1] = 255
    request = like(PART, mask_image=file_of(thin))
    for start in (None, fitted(request)):
        with pytest.raises(InvalidRequest, match="cut off or too thin"):
            engine.submit(request, start=start)


def test_a_mask_alone_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="send that picture too"):
        engine.submit(like(mask_image=file_of(MASK)))


def test_an_image_has_notes_about_its_prompt(engine: Engine) -> None:
    [image] = paint(engine, like(prompt="a red circle " * 100, negative_prompt="blue"))
    assert image.prompt is not None
    assert image.negative_prompt is not None
    assert image.prompt.tokens > image.prompt.limit == 3 * 75
    assert image.prompt.cut.endswith("circle")
    assert image.negative_prompt.cut == ""


def test_the_recipe_names_the_pictures_it_needs_and_takes_them_back(engine: Engine) -> None:
    [image] = paint(engine, PART)
    file = encode_png(image.pixels, image.request)
    assert PART.init_image is not None
    assert PART.init_image not in file
    pictures = [picture for picture in (PART.init_image, PART.mask_image) if picture]
    assert read_recipe(io.BytesIO(file), pictures=pictures) == PART
    with pytest.raises(Exception, match="painted from another one"):
        read_recipe(io.BytesIO(file))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "judged"
    return make_tiny_checkpoint(folder, **SMALLEST, safety_checker={})


def test_the_safety_checker_scores_each_picture_as_the_reference_does(judged: Path) -> None:
    spec = ModelSpec(offer=TINY, source=str(judged))
    config = EngineConfig(models=(spec,), lanes=(PLAIN.lane,), start_pictures=False)
    with Engine.open(config, report=lambda _line: None) as engine:
        images = paint(engine, PLAIN, like(seed=8))
        with pytest.raises(InvalidRequest, match="from a picture is not set up here"):
            engine.submit(FROM_PICTURE)  # never painted from noise instead
    checker = StableDiffusionSafetyChecker.from_pretrained(judged / "safety_checker")
    shown = CLIPImageProcessor()([Pictures.fromarray(image.pixels) for image in images], return_tensors="pt")
    with torch.no_grad():
        embeds = checker.visual_projection(checker.vision_model(shown.pixel_values)[1])
        cosines = torch.nn.functional.cosine_similarity(embeds[:, None], checker.concept_embeds[None], dim=-1)
        scores = (cosines - checker.concept_embeds_weights).numpy()
        blackened = np.stack([image.pixels / 255.0 for image in images])
        _, flagged = checker(clip_input=shown.pixel_values, images=blackened)
    for image, expected, flag in zip(images, scores, flagged, strict=True):
        assert image.safety is not None
        ours = np.array(image.safety.concepts)
        assert min(np.abs(ours - expected - adjustment).max() for adjustment in (0.0, 0.01)) < 2e-3
        assert image.safety.flagged == flag


def test_a_checkpoint_without_a_checker_scores_nothing(engine: Engine) -> None:
    [image] = paint(engine, PLAIN)
    assert image.safety is None

"""The guide's other classes and schedulers: arguments, errors, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffusers
import jax
import numpy as np
import PIL.Image
import pytest
from checkpoints import FAMILIES, make_tiny_checkpoint, make_tiny_controlnet
from compilations import application
from engines import SMALLEST

from sdjax_engine import (
    FlaxControlNetModel,
    FlaxDDIMScheduler,
    FlaxDPMSolverMultistepScheduler,
    FlaxPNDMScheduler,
    FlaxStableDiffusionControlNetPipeline,
    FlaxStableDiffusionImg2ImgPipeline,
    FlaxStableDiffusionInpaintPipeline,
    FlaxStableDiffusionPipeline,
    FlaxStableDiffusionXLPipeline,
    UnreadableCheckpoint,
    make_image_grid,
)
from sdjax_engine.guide import pictures
from sdjax_engine.guide.painting import guidance_of
from sdjax_engine.guide.stable_diffusion import strength_of
from sdjax_engine.samplers.tables import Column

KEY = 3


@pytest.fixture(scope="module")
def text_to_image(checkpoint: Path) -> tuple[FlaxStableDiffusionPipeline, Any]:
    return FlaxStableDiffusionPipeline.from_pretrained(checkpoint)


def key() -> jax.Array:
    return jax.random.PRNGKey(KEY)


def test_given_latents_replace_the_keys_noise(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any],
) -> None:
    pipeline, params = text_to_image
    ids = pipeline.prepare_inputs(["a red circle", "a blue star"])
    drawn = jax.random.normal(key(), (2, 4, 8, 8))
    by_key = pipeline(ids, params, key(), num_inference_steps=3, height=16, width=16)[0]
    by_noise = pipeline(ids, params, jax.random.PRNGKey(9), num_inference_steps=3, latents=drawn)[0]
    np.testing.assert_allclose(by_noise, by_key, atol=1e-6)
    with pytest.raises(ValueError, match="Unexpected latents shape"):
        pipeline(ids, params, key(), num_inference_steps=3, latents=drawn[:1])


def test_every_prompt_can_have_its_own_guidance_and_negative_prompt(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any],
) -> None:
    pipeline, params = text_to_image
    ids = pipeline.prepare_inputs(["a red circle", "a red circle"])
    negative = pipeline.prepare_inputs(["a blue star", ""])
    noise = np.tile(np.asarray(jax.random.normal(key(), (1, 4, 8, 8))), (2, 1, 1, 1))

    def paint(guidance: Any, **more: Any) -> Any:
        images, unfit = pipeline(
            ids,
            params,
            key(),
            num_inference_steps=3,
            guidance_scale=guidance,
            latents=noise,
            return_dict=False,
            **more,
        )
        assert unfit is False
        return images

    scaled = paint(np.array([2.0, 7.5]))
    np.testing.assert_array_equal(scaled[1], paint(7.5)[1])
    assert np.abs(scaled[0] - scaled[1]).max() > 1e-3
    negated = paint(7.5, neg_prompt_ids=negative)
    np.testing.assert_array_equal(negated[1], scaled[1])
    assert np.abs(negated[0] - negated[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("given", "lead", "expected"),
    [
        (2, (3,), [2, 2, 2]),
        ([1, 2, 3], (3,), [1, 2, 3]),
        ([1, 2], (2, 2), [[1, 1], [2, 2]]),
        ([[1], [2]], (2, 2), [[1, 1], [2, 2]]),
        ([[1, 2], [3, 4]], (2, 2), [[1, 2], [3, 4]]),
    ],
)
def test_a_guidance_is_one_number_or_one_for_each_device_or_prompt(
    given: Any, lead: tuple[int, ...], expected: Any
) -> None:
    np.testing.assert_array_equal(guidance_of(given, lead), np.array(expected, np.float32))


def test_invalid_arguments_are_refused_before_anything_is_compiled(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any],
) -> None:
    pipeline, params = text_to_image
    ids = pipeline.prepare_inputs("a red circle")
    with pytest.raises(ValueError, match="has to be of type"):
        pipeline.prepare_inputs(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="divisible by 2 but are 15 and 16"):
        pipeline(ids, params, key(), height=15, width=16)
    with pytest.raises(ValueError, match="`replicate` the parameters"):
        pipeline(ids[None], params, key()[None], jit=True)
    with pytest.raises(ValueError, match="there are"):
        pipeline(np.tile(ids, (99, 1, 1)), params, key(), jit=True)


def test_a_checkpoint_of_another_kind_is_refused_by_name(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"1 text encoders, and FlaxStableDiffusionXLPipeline"):
        FlaxStableDiffusionXLPipeline.from_pretrained(checkpoint)
    with pytest.raises(UnreadableCheckpoint, match="needs a UNet of 9 input channels, and this one has 4"):
        FlaxStableDiffusionInpaintPipeline.from_pretrained(checkpoint)
    with pytest.raises(UnreadableCheckpoint, match="no dtype 'float16'"):
        FlaxStableDiffusionPipeline.from_pretrained(checkpoint, dtype=np.float16)
    lcm = make_tiny_checkpoint(tmp_path, **FAMILIES["LCM"])
    with pytest.raises(UnreadableCheckpoint, match="gives its UNet no guidance scale"):
        FlaxStableDiffusionPipeline.from_pretrained(lcm)


def test_another_scheduler_replaces_the_checkpoints_without_a_new_program(
    checkpoint: Path,
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solver, state = FlaxDPMSolverMultistepScheduler.from_pretrained(checkpoint, subfolder="scheduler")
    chosen, _ = FlaxStableDiffusionPipeline.from_pretrained(checkpoint, scheduler=solver)
    assert chosen.scheduler is solver
    pipeline, params = text_to_image
    ids = pipeline.prepare_inputs(["a red circle", "a blue star"])
    own = pipeline(ids, params, key(), num_inference_steps=4).images
    programs = pipeline._alone._cache_size()
    assert isinstance(pipeline.scheduler, FlaxPNDMScheduler)
    monkeypatch.setattr(pipeline, "scheduler", solver)
    solved = pipeline(ids, {**params, "scheduler": state}, key(), num_inference_steps=4).images
    assert np.abs(solved - own).max() > 1e-3
    assert pipeline._alone._cache_size() == programs


def test_pndm_makes_as_many_evaluations_as_steps_as_the_removed_pipelines_did() -> None:
    scheduler = FlaxPNDMScheduler(skip_prk_steps=True, steps_offset=1)
    told = scheduler.table(4).rows[:, Column.TIMESTEP]
    np.testing.assert_array_equal(told, [751, 501, 501, 251])
    assert scheduler.table(1).evaluations == 1
    assert scheduler.table(10, strength=0.5).evaluations == 5


def test_a_scheduler_reads_the_keys_of_the_removed_one_and_refuses_unsupported_values() -> None:
    trailing = FlaxDDIMScheduler(timestep_spacing="trailing", steps_offset=1, clip_sample=False)
    np.testing.assert_array_equal(trailing.table(4).rows[:, Column.TIMESTEP], [751, 501, 251, 1])
    with pytest.raises(UnreadableCheckpoint, match="clip_sample"):
        FlaxDDIMScheduler(clip_sample=True).table(4)
    with pytest.raises(UnreadableCheckpoint, match="algorithm_type is 'dpmsolver'"):
        FlaxDPMSolverMultistepScheduler(algorithm_type="dpmsolver").table(4)


def drawn(colour: str, size: tuple[int, int] = (40, 35)) -> PIL.Image.Image:
    return PIL.Image.new("RGB", size, colour)


@pytest.mark.parametrize("steps", [1, 7, 49, 50, 100])
def test_steps_left_out_and_strength_say_the_same(
    steps: int, text_to_image: tuple[FlaxStableDiffusionPipeline, Any]
) -> None:
    pipeline = FlaxStableDiffusionImg2ImgPipeline(**text_to_image[0].components)
    for left_out in range(steps):
        assert pipeline.get_timestep_start(steps, strength_of(left_out, steps)) == left_out


def test_sdxl_uses_two_encodings_and_returns_latents_on_request(tmp_path: Path) -> None:
    unet = SMALLEST["unet"] | {"attention_head_dim": 4, "transformer_layers_per_block": 1}
    kind = FAMILIES["SDXL"]["pipeline"]
    folder = make_tiny_checkpoint(tmp_path / "xl", pipeline=kind, unet=unet, vae=SMALLEST["vae"])
    pipeline, params = FlaxStableDiffusionXLPipeline.from_pretrained(folder)
    assert {"text_encoder", "text_encoder_2"} < params.keys()
    ids = pipeline.prepare_inputs(["a red circle", "a blue star"])
    assert (ids.shape, ids.dtype) == ((2, 2, 77), np.int32)
    assert pipeline(ids, params, key(), num_inference_steps=3).images.shape == (2, 16, 16, 3)

    def latents(**more: Any) -> Any:
        told = {"num_inference_steps": 3, "neg_prompt_ids": ids, "output_type": "latent"}
        (made,) = pipeline(ids, params, key(), **told, return_dict=False, **more)
        return made

    made = latents()
    assert made.shape == (2, 4, 8, 8)
    # The negative prompts equal the prompts, so the guidance scale changes nothing.
    np.testing.assert_allclose(made, latents(guidance_scale=3.0), atol=1e-4)
    # Latents are no pictures, so a safety checker that finds everything unfit does not see them.
    strict = make_tiny_checkpoint(tmp_path / "strict", safety_checker={"threshold": -1.0}, **SMALLEST)
    other, others = FlaxStableDiffusionPipeline.from_pretrained(strict)
    parts = {name: other.components[name] for name in ("safety_checker", "feature_extractor")}
    pipeline = FlaxStableDiffusionXLPipeline(**{**pipeline.components, **parts})
    params = {**others, **params}
    np.testing.assert_array_equal(latents(), made)


def test_the_safety_checker_blackens_what_it_finds_unless_it_is_left_out(tmp_path: Path) -> None:
    strict = make_tiny_checkpoint(tmp_path / "strict", safety_checker={"threshold": -1.0}, **SMALLEST)
    pipeline, params = FlaxStableDiffusionPipeline.from_pretrained(strict)
    ids = pipeline.prepare_inputs(["a red circle", "a blue star"])
    found = pipeline(ids, params, key(), num_inference_steps=2)
    assert found.nsfw_content_detected == [True, True]
    assert not found.images.any()
    without, fewer = FlaxStableDiffusionPipeline.from_pretrained(strict, safety_checker=None)
    assert without.safety_checker is None
    assert "safety_checker" not in fewer


def test_arrays_become_pictures_one_or_many_in_colour_or_grey() -> None:
    assert [each.mode for each in pictures.to_pil(np.ones((2, 4, 4, 3)))] == ["RGB", "RGB"]
    (grey,) = pictures.to_pil(np.full((4, 4, 1), 0.5))
    assert (grey.mode, grey.getpixel((0, 0))) == ("L", 128)
    with pytest.raises(ValueError, match="`image` has to be a picture"):
        pictures.from_pil("a picture")  # type: ignore[arg-type]


def test_a_grid_that_is_not_full_is_refused() -> None:
    with pytest.raises(ValueError, match="3 pictures do not fill a grid of 2 × 2"):
        make_image_grid([PIL.Image.new("RGB", (4, 4))] * 3, 2, 2)


def test_settings_of_the_process_change_no_picture(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any],
) -> None:
    pipeline, params = text_to_image
    ids, drawn_from = pipeline.prepare_inputs(["a red circle"]), key()

    def paint() -> Any:
        again = FlaxStableDiffusionPipeline(**pipeline.components)  # traces anew
        return again(ids, params, drawn_from, num_inference_steps=2, height=16, width=16)[0]

    expected = paint()
    with application(jax_default_prng_impl="rbg", jax_threefry_partitionable=False):
        np.testing.assert_array_equal(paint(), expected)


def test_a_smaller_strength_keeps_more_of_the_start_picture(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any],
) -> None:
    other, params = text_to_image
    pipeline = FlaxStableDiffusionImg2ImgPipeline(**other.components)
    ids, image = pipeline.prepare_inputs(["a red circle"], drawn("navy"))
    assert image.shape == (1, 3, 32, 32)
    painted = {
        strength: pipeline(ids, image, params, key(), strength=strength, num_inference_steps=20).images
        for strength in (0.05, 0.5, 1.0)
    }
    distances = [np.abs(painted[strength] - painted[0.05]).mean() for strength in (0.5, 1.0)]
    assert painted[1.0].shape == (1, 32, 32, 3)
    assert 0 < distances[0] < distances[1]
    with pytest.raises(ValueError, match=r"The pictures are \(32, 32\)"):
        pipeline(ids, image, params, key(), height=64, width=64)


def test_inpainting_leaves_the_masked_part_out_of_what_the_network_sees(tmp_path: Path) -> None:
    form = FAMILIES["SD 1 inpainting"]
    small = {**SMALLEST, "unet": {**SMALLEST["unet"], **form["unet"]}}
    folder = make_tiny_checkpoint(tmp_path / "inpaint", pipeline=form["pipeline"], **small)
    pipeline, params = FlaxStableDiffusionInpaintPipeline.from_pretrained(folder)
    mask = PIL.Image.new("L", (40, 35), 0)
    mask.paste(255, (0, 0, 40, 17))
    ids, seen, masks = pipeline.prepare_inputs("a red circle", drawn("navy"), mask)
    assert seen.shape == (1, 3, 32, 32)
    assert masks.shape == (1, 1, 32, 32)
    assert not seen[:, :, :15].any()
    assert set(np.unique(masks)) == {0, 1}

    def paint(masks: Any, seen: Any) -> Any:
        return pipeline(ids, masks, seen, params, key(), num_inference_steps=4).images

    first = paint(masks, seen)
    assert first.shape == (1, 32, 32, 3)
    assert np.abs(first - paint(masks, -seen)).max() > 1e-3
    assert np.abs(first - paint(1 - masks, seen)).max() > 1e-3


@pytest.fixture(scope="module")
def control(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[FlaxStableDiffusionControlNetPipeline, Any]:
    folder = make_tiny_controlnet(tmp_path_factory.mktemp("net") / "controlnet", unet=SMALLEST["unet"])
    network, of_network = FlaxControlNetModel.from_pretrained(folder.parent, subfolder="controlnet")
    pipeline, params = text_to_image
    made = FlaxStableDiffusionControlNetPipeline(**pipeline.components, controlnet=network)
    return made, params | {"controlnet": of_network}


def test_a_control_picture_is_resized_to_multiples_of_64_and_others_are_refused(
    control: tuple[FlaxStableDiffusionControlNetPipeline, Any],
) -> None:
    pipeline, params = control
    ids = pipeline.prepare_text_inputs("a red circle")
    image = pipeline.prepare_image_inputs(drawn("white", (130, 70)).convert("RGBA"))
    assert image.shape == (1, 3, 64, 128)
    assert (image.min(), image.max()) == (1.0, 1.0)
    with pytest.raises(ValueError, match="divisible by 64 but are 64 and 100"):
        pipeline(ids, image[..., :100], params, key())
    assert pipeline(ids, image, params, key(), num_inference_steps=2).images.shape == (1, 64, 128, 3)


def test_networks_that_are_called_by_hand_do_what_the_controlnet_pipeline_does(
    control: tuple[FlaxStableDiffusionControlNetPipeline, Any],
) -> None:
    pipeline, params = control
    net, unet = {"params": params["controlnet"]}, {"params": params["unet"]}
    x, t = np.random.default_rng(1).standard_normal((1, 4, 32, 32)).astype(np.float32), 500
    texts = pipeline.text_encoder(pipeline.prepare_text_inputs("a red circle"), params["text_encoder"])[0]
    image = pipeline.prepare_image_inputs(drawn("navy", (64, 64)))
    plain = pipeline.unet.apply(unet, x, t, texts).sample

    def controlled(scale: float) -> Any:
        made = pipeline.controlnet.apply(net, x, t, texts, image, scale)
        skips, middle = made.to_tuple()
        assert skips[0].shape == (1, 32, 32, 32)
        return pipeline.unet.apply(unet, x, t, texts, None, skips, middle).sample

    np.testing.assert_allclose(controlled(0.0), plain, atol=1e-6)
    assert np.abs(controlled(1.0) - plain).max() > 1e-3
    with pytest.raises(ValueError, match="those of the skips and that of the mid block"):
        pipeline.unet.apply(unet, x, t, texts, None, ())


def test_a_controlnet_of_another_kind_of_model_or_none_is_refused_by_name(
    text_to_image: tuple[FlaxStableDiffusionPipeline, Any], tmp_path: Path
) -> None:
    other = make_tiny_controlnet(tmp_path, unet={"cross_attention_dim": 48})
    network, _ = FlaxControlNetModel.from_pretrained(other)
    parts = text_to_image[0].components
    with pytest.raises(UnreadableCheckpoint, match=r"another kind of model: .*block_out_channels.*cross_att"):
        FlaxStableDiffusionControlNetPipeline(**parts, controlnet=network)
    with pytest.raises(ValueError, match="needs a `controlnet`"):
        FlaxStableDiffusionControlNetPipeline(**parts)


def test_a_saved_controlnet_is_read_here_and_by_the_torch_class(
    control: tuple[FlaxStableDiffusionControlNetPipeline, Any], tmp_path: Path
) -> None:
    pipeline, params = control
    pipeline.save_pretrained(tmp_path, params)
    again, params_again = FlaxStableDiffusionControlNetPipeline.from_pretrained(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, params_again, params)
    assert again.controlnet.config == pipeline.controlnet.config
    plain, _ = FlaxStableDiffusionPipeline.from_pretrained(tmp_path)
    assert "controlnet" not in plain.components
    theirs = diffusers.ControlNetModel.from_pretrained(tmp_path / "controlnet", low_cpu_mem_usage=False)
    np.testing.assert_array_equal(
        theirs.controlnet_mid_block.weight.detach().numpy()[:, :, 0, 0].T,
        params["controlnet"]["controlnet_mid_block"]["kernel"],
    )

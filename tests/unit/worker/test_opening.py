"""Unset keys of a configuration have the defaults of the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints import FAMILIES, make_tiny_checkpoint

from bot.config import Config, EngineSection, ModelConfig
from bot.worker.opening import engine_config, read_defaults
from sdjax_engine.config import Dtype, EngineConfig, ModelSpec
from sdjax_engine.request import Sampler


def with_defaults(model: ModelConfig) -> ModelConfig:
    (result,) = read_defaults(Config(models=(model,)), lambda _line: None).models
    return result


def test_the_demo_has_its_own_defaults() -> None:
    demo = with_defaults(ModelConfig())
    assert demo.model_dump() == ModelConfig().model_dump()


def test_the_samplers_that_suit_a_checkpoint_are_read_whatever_the_file_says() -> None:
    samplers = with_defaults(ModelConfig()).offer.samplers
    assert Sampler.DDIM in samplers
    assert Sampler.FLOW_EULER not in samplers


def test_an_unset_key_has_the_checkpoints_default(tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "turbo", **FAMILIES["SD Turbo"])
    model = with_defaults(ModelConfig(name="turbo", checkpoint=str(folder)))
    assert (model.sizes, model.sampler) == (("64x64",), Sampler.EULER)
    assert (model.num_inference_steps, model.guidance_scale) == (50, 7.5)
    assert model.offer.model == "turbo"


def test_a_key_in_the_file_is_kept(tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "sdxl", **FAMILIES["SDXL"])
    said = ModelConfig(checkpoint=str(folder), sizes=("128x64",), sampler=Sampler.DDIM, max_steps=20)
    model = with_defaults(said)
    assert (model.sizes, model.sampler) == (("128x64",), Sampler.DDIM)
    assert (model.num_inference_steps, model.guidance_scale) == (20, 5.0)


def test_the_default_configuration_gives_the_default_engine_with_previews() -> None:
    model = ModelConfig()
    plain = EngineConfig(
        models=(ModelSpec(offer=model.offer, source="demo"),),
        cache_dir=Path("var/cache"),
        preview_seconds=3.0,
    )
    assert engine_config(Config()) == plain


def test_a_classifier_comes_with_the_labels_that_have_levels() -> None:
    named = {"picture_classifier": "owner/judge", "picture_levels": {"nice": "none", "gore": "extreme"}}
    [spec] = engine_config(Config.parse({"models": [named]})).models
    assert (spec.picture_classifier, spec.picture_labels) == ("owner/judge", {"nice", "gore"})


@pytest.mark.parametrize(("on_cpu", "dtype"), [(True, Dtype.FLOAT32), (False, Dtype.BFLOAT16)])
def test_the_default_number_format_depends_on_the_device(*, on_cpu: bool, dtype: Dtype) -> None:
    nobody_says = engine_config(Config.parse({})).dtype
    assert nobody_says.settled(on_cpu=on_cpu) is dtype
    assert Dtype.FLOAT32.settled(on_cpu=on_cpu) is Dtype.FLOAT32


@pytest.mark.parametrize(
    ("said", "on_cpu", "fitted"),
    [("auto", True, False), ("auto", False, True), (True, True, True), (False, False, False)],
)
def test_programs_fit_their_runs_on_accelerators_unless_the_file_says_otherwise(
    said: object, *, on_cpu: bool, fitted: bool
) -> None:
    config = engine_config(Config.parse({"engine": {"fitted_programs": said}}))
    assert config.settled(on_cpu=on_cpu).fitted_programs is fitted


@pytest.mark.parametrize(("named", "wanted"), [("", None), ("madebyollin/taesd", "madebyollin/taesd")])
def test_the_decoder_of_previews_reaches_the_engine_where_one_is_named(
    named: str, wanted: str | None
) -> None:
    [spec] = engine_config(Config.parse({"models": [{"preview_decoder": named}]})).models
    assert spec.preview_decoder == wanted


def test_every_key_of_the_engine_reaches_it() -> None:
    keys = {
        "dtype": "bfloat16",
        "seats_per_device": 3,
        "fitted_programs": True,
        "cpu_devices": 2,
        "device_memory_gib": 1.5,
        "preview_seconds": 1.5,
        "stuck_seconds": 60.0,
        "cache_dir": "",
        "cache_group": True,
    }
    of_the_worker = {"accelerator", "cache_wait"}
    assert keys.keys() | of_the_worker == EngineSection.model_fields.keys()
    opened = engine_config(Config.parse({"engine": keys}))
    assert (opened.dtype, opened.seats_per_device, opened.cpu_devices) == (Dtype.BFLOAT16, 3, 2)
    assert (opened.device_memory, opened.cache_dir) == (3 * 2**29, None)
    assert (opened.cache_group, opened.fitted_programs) == (True, True)
    assert (opened.stuck_after, opened.preview_seconds) == (60.0, 1.5)

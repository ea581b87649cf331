"""The arguments and methods of the guide's classes, beside those of the last release that had them."""

from __future__ import annotations

import ast
import inspect
import json
import os
from pathlib import Path
from typing import Any

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from checkpoints import FAMILIES, make_tiny_checkpoint

import sdjax_engine
from sdjax_engine import FlaxDDIMScheduler, FlaxStableDiffusionPipeline, FlaxStableDiffusionXLPipeline
from sdjax_engine.weights.hub import through

REMOVED: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("removed_signatures.json").read_text(encoding="utf-8")
)
STEPPING = {"set_timesteps", "step", "scale_model_input", "add_noise", "get_velocity", "has_state"}
STEPPING |= {"convert_model_output", "step_prk", "step_plms", "dpm_solver_first_order_update"}
STEPPING |= {f"multistep_dpm_solver_{order}_order_update" for order in ("second", "third")}
TRAINING = {"to_bf16", "to_fp16", "to_fp32", "init_weights", "setup"}
LEFT_OUT = (
    STEPPING | TRAINING | {"compatibles", "register_modules", "progress_bar", "set_progress_bar_config"}
)
"""What docs/internals/guide.md says is not here."""

Loaded = tuple[FlaxStableDiffusionPipeline, Any]


@pytest.fixture(scope="module")
def loaded(checkpoint: Path) -> Loaded:
    return FlaxStableDiffusionPipeline.from_pretrained(checkpoint)


def arguments_of(signature: str) -> dict[str, Any]:
    """The parameters of a removed method with their defaults; `inspect.Parameter.empty` without one."""
    parsed = ast.parse(
        f"def f({', '.join(sorted(signature.split(', '), key=lambda each: '=' in each))}): ..."
    ).body[0]
    assert isinstance(parsed, ast.FunctionDef)
    names = [each.arg for each in parsed.args.args]
    empty: Any = inspect.Parameter.empty
    defaults = [eval(ast.unparse(each), {"jnp": jnp}) for each in parsed.args.defaults]
    return dict(zip(names, [empty] * (len(names) - len(defaults)) + defaults, strict=True))


@pytest.mark.parametrize(
    ("kind", "method"),
    [(kind, method) for kind, methods in REMOVED.items() for method in methods if method not in LEFT_OUT],
)
def test_a_method_takes_what_the_removed_one_took(kind: str, method: str) -> None:
    wanted = arguments_of(REMOVED[kind][method])
    here = getattr(getattr(sdjax_engine, kind), method)
    if isinstance(here, property):
        return
    parameters = dict(inspect.signature(here).parameters)
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    assert takes_any or wanted.keys() <= parameters.keys()
    by_place = [name for name in parameters if name in wanted]
    if method not in ("__init__", "from_pretrained"):  # there only by name
        assert by_place == [name for name in wanted if name in parameters]
    differ = {
        name: (default, parameters[name].default)
        for name, default in wanted.items()
        if name in parameters
        and default is not inspect.Parameter.empty
        and parameters[name].default != default
    }
    differ.pop("from_pt", None)  # every checkpoint is read in the torch classes' form
    assert differ == {}


def test_what_the_removed_class_ignored_with_a_warning_is_ignored_with_a_warning(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, _params = FlaxStableDiffusionPipeline.from_pretrained(checkpoint, torch_dtype=torch.float16)
    assert pipeline.dtype == jnp.float32
    assert "ignores torch_dtype" in caplog.text


def test_components_that_are_given_take_the_place_of_the_checkpoints(
    checkpoint: Path, loaded: Loaded
) -> None:
    scheduler = FlaxDDIMScheduler()
    pipeline, _params = FlaxStableDiffusionPipeline.from_pretrained(
        checkpoint, scheduler=scheduler, vae=loaded[0].vae
    )
    assert pipeline.scheduler is scheduler
    assert pipeline.vae is loaded[0].vae


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of schedulers there
@pytest.mark.parametrize("family", ["SD 1", "SD 2", "SDXL"])
def test_a_saved_pipeline_is_read_here_and_by_the_torch_classes(family: str, tmp_path: Path) -> None:
    source = make_tiny_checkpoint(tmp_path / "source", **FAMILIES[family])
    kind = FlaxStableDiffusionXLPipeline if family == "SDXL" else FlaxStableDiffusionPipeline
    pipeline, params = kind.from_pretrained(source)
    pipeline.save_pretrained(tmp_path / "saved", params)
    again, params_again = kind.from_pretrained(tmp_path / "saved")
    jax.tree.map(np.testing.assert_array_equal, params_again, params)
    texts = ["a red circle, 빨간 별", ""]
    np.testing.assert_array_equal(again.prepare_inputs(texts), pipeline.prepare_inputs(texts))
    before, after = (
        getattr(diffusers, kind.__name__.removeprefix("Flax")).from_pretrained(folder)
        for folder in (source, tmp_path / "saved")
    )
    assert type(after.scheduler) is type(before.scheduler)
    for name in ("unet", "vae", *pipeline.text_encoder_names):
        expected, got = (getattr(each, name).state_dict() for each in (before, after))
        assert expected.keys() == got.keys()
        for key, tensor in expected.items():
            torch.testing.assert_close(got[key].reshape(tensor.shape), tensor, rtol=0, atol=0)
    drawn = {"num_inference_steps": 2, "height": 16, "width": 16, "output_type": "pt"}
    pictures = [
        each(texts[0], generator=torch.Generator().manual_seed(3), **drawn).images for each in (before, after)
    ]
    torch.testing.assert_close(*pictures, rtol=0, atol=1e-5)


def test_networks_are_applied_as_the_removed_ones_were(checkpoint: Path, loaded: Loaded) -> None:
    pipeline, params = loaded
    reference = diffusers.StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    draw = np.random.default_rng(3).standard_normal
    latents, ids = draw((2, 4, 8, 8)).astype(np.float32), pipeline.prepare_inputs(["a red circle", ""])
    hidden = pipeline.text_encoder(ids, params=params["text_encoder"])[0]
    steps = jnp.array([500, 20])
    unet = pipeline.unet.apply({"params": params["unet"]}, latents, steps, encoder_hidden_states=hidden)
    decoded = pipeline.vae.apply({"params": params["vae"]}, latents, method=pipeline.vae.decode)
    encoded = pipeline.vae.apply({"params": params["vae"]}, decoded.sample, method=pipeline.vae.encode)
    with torch.no_grad():
        tensor = torch.from_numpy(latents)
        theirs = reference.text_encoder(torch.from_numpy(ids))[0]
        evaluated = reference.unet(tensor, torch.tensor([500, 20]), theirs).sample
        picture = reference.vae.decode(tensor).sample
        distribution = reference.vae.encode(torch.from_numpy(np.array(decoded.sample))).latent_dist
    close = {"rtol": 0.0, "atol": 1e-4}
    np.testing.assert_allclose(hidden, theirs, **close)
    np.testing.assert_allclose(decoded.sample, picture, **close)
    np.testing.assert_allclose(encoded.latent_dist.mean.transpose(0, 3, 1, 2), distribution.mean, **close)
    # The removed UNet approximates GELU.
    np.testing.assert_allclose(unet.sample, evaluated, rtol=0, atol=1e-2 * float(evaluated.abs().max()))
    assert unet[0] is unet.sample
    assert pipeline.unet.config.sample_size == reference.unet.config.sample_size
    with pytest.raises(AttributeError, match="there is no setting 'no_such_key'"):
        pipeline.unet.config.no_such_key  # noqa: B018


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "max_length", "truncation": True, "return_tensors": "np"},
        {"padding": "max_length", "max_length": 9, "truncation": True, "return_tensors": "np"},
        {"padding": True},
        {},
    ],
    ids=str,
)
def test_a_tokenizer_is_called_as_that_of_transformers(
    checkpoint: Path, loaded: Loaded, options: dict[str, Any]
) -> None:
    reference = transformers.CLIPTokenizer.from_pretrained(checkpoint / "tokenizer")
    texts = ["a red circle", "", "star " * 90]
    ours, theirs = loaded[0].tokenizer(texts, **options), reference(texts, **options)
    for name in ("input_ids", "attention_mask"):
        np.testing.assert_equal(ours[name], theirs[name])
    assert loaded[0].tokenizer("a star").input_ids == reference("a star").input_ids
    assert loaded[0].tokenizer.model_max_length == reference.model_max_length


def test_a_scheduler_is_saved_and_read_again_with_other_settings(loaded: Loaded, tmp_path: Path) -> None:
    loaded[0].scheduler.save_pretrained(tmp_path)
    scheduler, unused, state = FlaxDDIMScheduler.from_pretrained(
        tmp_path, return_unused_kwargs=True, num_train_timesteps=500, unknown=1
    )
    assert (scheduler.config.num_train_timesteps, unused, state) == (500, {"unknown": 1}, {})
    assert scheduler.config.beta_start == loaded[0].scheduler.config.beta_start


def test_proxies_are_those_of_the_process_while_files_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://usual:1")
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    with through({"https": "http://named:2", "http": "http://named:3"}):
        assert (os.environ["HTTPS_PROXY"], os.environ["HTTP_PROXY"]) == ("http://named:2", "http://named:3")
    assert os.environ["HTTPS_PROXY"] == "http://usual:1"
    assert "HTTP_PROXY" not in os.environ

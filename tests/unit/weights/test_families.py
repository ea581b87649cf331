"""Folders of every family: networks, dtypes, and components that do not match."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from checkpoints import FAMILIES, configure, make_tiny_checkpoint
from engines import TINY
from safetensors.numpy import load_file, save_file
from test_cache import same

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.prompts import TokenizedText
from sdjax_engine.weights import Component, describe, load_checkpoint

UNET_CONFIG, VAE_CONFIG = "unet/config.json", "vae/config.json"
SECOND_FILE = "text_encoder_2/model.safetensors"


@pytest.fixture(scope="module")
def xl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("xl"), **FAMILIES["SDXL"])


@pytest.fixture
def xl_copy(xl: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(xl, tmp_path / "xl"))


def dtypes(component: Component) -> set[str]:
    return {str(leaf.dtype) for leaf in jax.tree.leaves(component.parameters)}


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "SDXL"])
def test_checkpoint_of_every_family_loads(family: str, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path, **FAMILIES[family])

    checkpoint, described = load_checkpoint(str(folder)), describe(str(folder))

    assert checkpoint.pipeline == json.loads((folder / "model_index.json").read_text())["_class_name"]
    assert ("text_encoder_2" in checkpoint.components) == family.startswith("SDXL")
    assert "safety_checker" not in checkpoint.components
    assert described.pipeline == checkpoint.pipeline
    assert described.native_size == checkpoint.native_size == (64, 64)
    assert described.scheduler_config == checkpoint.scheduler_config
    assert described.most_skipped == checkpoint.family.networks(checkpoint, TINY).texts.most_skipped


def test_negative_prompt_is_not_zeroed_where_the_checkpoint_says_so(xl_copy: Path) -> None:
    configure("model_index.json", force_zeros_for_empty_prompt=False)(xl_copy)

    checkpoint = load_checkpoint(str(xl_copy))
    text, _ = checkpoint.family.networks(checkpoint, TINY).texts.read("", negative=True, clip_skip=0)
    assert isinstance(text, TokenizedText)
    assert not text.silent


@pytest.mark.parametrize("force_upcast", [True, False])
def test_autoencoder_of_sdxl_is_in_bfloat16_whose_range_is_that_of_float32(
    force_upcast: bool, xl_copy: Path
) -> None:
    configure(VAE_CONFIG, force_upcast=force_upcast)(xl_copy)

    checkpoint = load_checkpoint(str(xl_copy), dtype="bfloat16")

    assert dtypes(checkpoint.components["vae"]) == {"bfloat16"}
    assert dtypes(checkpoint.components["unet"]) == {"bfloat16"}


def test_second_encoder_loads_without_the_prefix_of_its_tensors(xl: Path, xl_copy: Path) -> None:
    tensors = load_file(xl_copy / SECOND_FILE)
    save_file({name.removeprefix("text_model."): x for name, x in tensors.items()}, xl_copy / SECOND_FILE)

    one, other = (load_checkpoint(str(each)).components["text_encoder_2"] for each in (xl, xl_copy))

    pairs = zip(jax.tree.leaves(one.parameters), jax.tree.leaves(other.parameters), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_names_of_the_removed_flax_classes_are_understood(original: Path, folder: Path) -> None:
    index = json.loads((folder / "model_index.json").read_text())
    index["_class_name"] = "FlaxStableDiffusionPipeline"
    for name in ("unet", "vae", "text_encoder"):
        index[name][-1] = f"Flax{index[name][-1]}"
    (folder / "model_index.json").write_text(json.dumps(index))

    checkpoint = load_checkpoint(str(folder))

    assert checkpoint.pipeline == "StableDiffusionPipeline"
    assert same(checkpoint, load_checkpoint(str(original)))


def test_safety_checker_is_read_only_when_asked_for(tmp_path: Path) -> None:
    folder = str(make_tiny_checkpoint(tmp_path, safety_checker={}))

    without, with_it = load_checkpoint(folder), load_checkpoint(folder, safety_checker=True)

    assert "safety_checker" not in without.components
    assert without.preprocessor_config == {}
    assert len(jax.tree.leaves(with_it.components["safety_checker"].parameters)) > 20
    assert with_it.preprocessor_config["image_mean"] == pytest.approx([0.48145466, 0.4578275, 0.40821073])


def test_safety_checker_asked_for_where_there_is_none_is_none(original: Path) -> None:
    assert "safety_checker" not in load_checkpoint(str(original), safety_checker=True).components


MISFITS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "refiner": (
        configure("model_index.json", requires_aesthetics_score=True),
        ("requires_aesthetics_score",),
    ),
    "no first encoder": (configure("model_index.json", text_encoder=[None, None]), ("text_encoder",)),
    "no second tokenizer": (configure("model_index.json", tokenizer_2=[None, None]), ("tokenizer_2",)),
    "another network": (
        configure("model_index.json", motion_adapter=["diffusers", "MotionAdapter"]),
        ("motion_adapter", "MotionAdapter"),
    ),
    "other widths": (configure(UNET_CONFIG, cross_attention_dim=32), ("cross_attention_dim",)),
    "other sizes": (
        configure(UNET_CONFIG, addition_time_embed_dim=4),
        ("projection_class_embeddings_input_dim", "projection_dim"),
    ),
    "no sizes": (configure(UNET_CONFIG, addition_embed_type=None), ("has no addition_embed_type",)),
    "odd input": (configure(UNET_CONFIG, in_channels=8), ("in_channels", "mask")),
}


@pytest.mark.parametrize(("breaking", "words"), MISFITS.values(), ids=MISFITS)
def test_parts_of_sdxl_that_do_not_belong_together_are_refused(
    breaking: Callable[[Path], object], words: tuple[str, ...], xl_copy: Path
) -> None:
    breaking(xl_copy)

    with pytest.raises(UnreadableCheckpoint) as caught:
        load_checkpoint(str(xl_copy))

    sentence = str(caught.value)
    assert "\n" not in sentence
    assert all(word in sentence for word in words), sentence


def test_unet_of_sdxl_in_another_pipeline_is_refused(xl: Path, folder: Path) -> None:
    for name in ("unet", "vae"):
        shutil.rmtree(folder / name)
        shutil.copytree(xl / name, folder / name)

    with pytest.raises(UnreadableCheckpoint, match="addition_embed_type text_time"):
        load_checkpoint(str(folder))


def test_embeddings_whose_names_a_prompt_cannot_tell_apart_are_refused(xl_copy: Path) -> None:
    checkpoint = replace(load_checkpoint(str(xl_copy)), embeddings={"1": range(1), "１": range(1, 2)})
    with pytest.raises(UnreadableCheckpoint, match="cannot tell apart"):
        checkpoint.family.networks(checkpoint, TINY)

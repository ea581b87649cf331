"""IP-Adapters are read strictly: a file that does not fit is refused in one sentence that says why."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import UNET, make_tiny_image_prompt
from safetensors.numpy import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.image_prompt_config import in_order
from sdjax_engine.weights.image_prompt import encoder_config, load_image_prompt, read_image_prompt
from sdjax_engine.weights.tensors import Stored

Tensors = dict[str, npt.NDArray[Any]]
Change = Callable[[Tensors], Tensors]
SHAPES = {
    f"{half}.0.attentions.0.transformer_blocks.0.attn2.to_k.kernel": (32, width)
    for half, width in (("down_blocks", 32), ("up_blocks", 32))
} | {"mid_block.attentions.0.transformer_blocks.0.attn2.to_k.kernel": (32, 64)}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "Plus"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_image_prompt(tmp_path_factory.mktemp("whole"), unet=UNET, plus=request.param)


def shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The parameters of a UNet that the adapter suits: down, up, middle."""
    rows = [each.shape for name, each in sorted(load_file(file).items()) if "to_k_ip" in name]
    places = ["down_blocks.0.attentions.0", "up_blocks.1.attentions.0", "up_blocks.1.attentions.1"]
    found = dict(zip([*places, "mid_block.attentions.0"], rows, strict=True))
    return {
        f"{place}.transformer_blocks.0.attn2.to_k.kernel": (context, width)
        for place, (width, context) in found.items()
    } | {"down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_k.kernel": (32, 32)}


def changed(whole: Path, folder: Path, change: Change) -> Path:
    shutil.copytree(whole.parent / "image_encoder", folder / "image_encoder")
    tensors = change(load_file(whole))
    save_file({name: np.ascontiguousarray(each) for name, each in tensors.items()}, folder / whole.name)
    return folder / whole.name


def load(file: Path, unet: Mapping[str, tuple[int, ...]], encoder: Path | None = None) -> None:
    parts = read_image_prompt(str(file), None if encoder is None else str(encoder), unet)
    load_image_prompt(parts, "adapter", put=np.asarray)  # type: ignore[arg-type]


def refusal(file: Path, unet: Mapping[str, tuple[int, ...]], encoder: Path | None = None) -> str:
    with pytest.raises(UnreadableCheckpoint) as caught:
        load(file, unet, encoder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_cross_attentions_are_counted_down_up_and_then_the_middle() -> None:
    places = [key.removesuffix(".to_k.kernel") for key in SHAPES]
    assert in_order(reversed(places)) == places


def test_both_spellings_of_an_adapter_are_the_same_networks(whole: Path, tmp_path: Path) -> None:
    unet, again = shapes(whole), read_image_prompt(str(whole), None, shapes(whole))
    today = {f"image_proj.{name}": each for name, each in again["projection"].stored.items()}

    def rename(tensors: Tensors) -> Tensors:
        read = load_image_prompt(again, "first", put=np.asarray)["projection"]  # type: ignore[arg-type]
        arrays = {key: np.asarray(each) for key, each in read.parameters.items()}
        kept = {name: each for name, each in tensors.items() if name.startswith("ip_adapter.")}
        wanted = again["projection"].wanted
        for name in today:
            parameter = wanted[name.removeprefix("image_proj.")]
            array = arrays[parameter.key]
            kept[name] = array.T if parameter.leaf == "kernel" else array
        return kept

    other = changed(whole, tmp_path, rename)
    first, second = (
        load_image_prompt(read_image_prompt(str(file), None, unet), "one", put=np.asarray)  # type: ignore[arg-type]
        for file in (whole, other)
    )
    for name, component in first.items():
        assert second[name].config == component.config
        for key, array in component.parameters.items():
            np.testing.assert_array_equal(second[name].parameters[key], array)


def without(name: str) -> Change:
    return lambda tensors: {each: array for each, array in tensors.items() if each != name}


def only(*names: str) -> Change:
    return lambda _: {name: np.zeros((2, 2), np.float32) for name in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (only("image_proj.proj.0.weight", "image_proj.norm.weight"), "it is an IP-Adapter for faces"),
        (only("image_proj.perceiver_resampler.latents"), "it is an IP-Adapter for faces"),
        (only("ip_adapter.0.to_q_lora.down.weight"), "it is an IP-Adapter for faces"),
        (only("image_proj.proj.0.weight", "image_proj.proj.3.weight"), "it is an IP-Adapter Full"),
        (only("lora_unet_mid_block_attentions_0.lora_down.weight"), "it is a LoRA"),
        (only("conv_in.weight"), "it is no IP-Adapter"),
        (without("ip_adapter.1.to_v_ip.weight"), r"1 missing: ip_adapter\.1\.to_v_ip\.weight"),
        (without("ip_adapter.3.to_k_ip.weight"), "is an IP-Adapter for another model: it has 3"),
        (lambda tensors: tensors | {"image_proj.more.weight": np.ones(3, np.float32)}, "1 left over"),
    ],
)
def test_a_file_that_is_no_whole_adapter_is_refused(
    change: Change, message: str, whole: Path, tmp_path: Path
) -> None:
    assert re.search(message, refusal(changed(whole, tmp_path, change), shapes(whole)))


def test_an_adapter_for_another_kind_of_model_is_refused_by_both_names(tmp_path: Path) -> None:
    file = make_tiny_image_prompt(tmp_path, unet=UNET | {"cross_attention_dim": 768})
    of_xl = {key: (2048, width) for key, (_, width) in shapes(file).items()}
    assert refusal(file, of_xl).endswith(
        "is an IP-Adapter for Stable Diffusion 1, and this model is one for SDXL: name another file."
    )
    z_image = {"layers.0.attention.to_k.kernel": (32, 32)}
    assert refusal(file, z_image) == "A model of this kind takes no image prompts: leave image_prompt out."


def test_an_encoder_that_an_adapter_was_not_made_for_is_refused_with_both_widths(
    whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(whole.parent / "image_encoder", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 64, "projection_dim": 24}))
    assert "needs another image encoder than" in refusal(whole, shapes(whole), folder)


def test_a_missing_encoder_or_file_is_named(whole: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(whole, tmp_path))
    assert "put the folder image_encoder beside it" in refusal(alone, shapes(whole))
    assert "There is no IP-Adapter file" in refusal(tmp_path / "none.safetensors", shapes(whole))


def test_a_pickle_is_refused_by_what_it_is(whole: Path, tmp_path: Path) -> None:
    file = tmp_path / "ip-adapter_sd15.bin"
    file.write_bytes(pickle.dumps({"image_proj": {}}))
    assert "is a pickle" in refusal(file, shapes(whole))


def test_a_projection_for_another_kind_of_model_than_the_attentions_is_refused(
    whole: Path, tmp_path: Path
) -> None:
    wide = make_tiny_image_prompt(
        tmp_path / "wide",
        unet=UNET | {"cross_attention_dim": 64},
        plus="latents" in str(load_file(whole).keys()),
    )
    theirs = {name: each for name, each in load_file(wide).items() if name.startswith("image_proj.")}

    def kept(tensors: Tensors) -> Tensors:
        return {name: each for name, each in tensors.items() if name.startswith("ip_adapter.")} | theirs

    message = "its projection makes tokens of the width 64, and its cross-attentions read 32"
    assert message in refusal(changed(whole, tmp_path, kept), shapes(whole))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"layers.0.0.to_kv.weight": np.ones((257, 24), np.float32)}, "cannot be divided among 2 layers"),
        ({"layers.0.attn.to_k.weight": np.ones((128, 24), np.float32)}, "two tensors are"),
        ({"latents": np.ones((1, 5, 0), np.float32)}, "lacks what tells the shape of its projection"),
        (
            {f"layers.{10**9}.0.norm1.weight": np.ones(24, np.float32)},
            "depth=1000000001 is not supported: 256 at most",
        ),
    ],
)
def test_sizes_that_no_network_has_are_refused_before_anything_is_built(
    more: Tensors, message: str, tmp_path: Path
) -> None:
    file = make_tiny_image_prompt(tmp_path / "whole", unet=UNET, plus=True)
    added = {f"image_proj.{name}": each for name, each in more.items()}
    assert message in refusal(changed(file, tmp_path, lambda tensors: tensors | added), shapes(file))


def test_a_single_file_of_a_published_encoder_tells_its_form_and_another_needs_its_folder(
    whole: Path,
) -> None:
    prefix = "vision_model.encoder.layers."
    published = {
        "vision_model.embeddings.patch_embedding.weight": (1280, 3, 14, 14),
        "vision_model.embeddings.position_embedding.weight": (257, 1280),
        f"{prefix}0.mlp.fc1.weight": (5120, 1280),
        f"{prefix}31.mlp.fc1.weight": (5120, 1280),
        "visual_projection.weight": (1024, 1280),
    }
    stored = {
        name: Stored(file=whole, shape=shape, dtype="F16", offset=0, size=0)
        for name, shape in published.items()
    }
    assert encoder_config(stored) == {
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "image_size": 224,
        "patch_size": 14,
        "hidden_act": "gelu",
        "projection_dim": 1024,
    }
    tiny = whole.parent / "image_encoder" / "model.safetensors"
    assert "which needs its folder with config.json" in refusal(whole, shapes(whole), tiny)

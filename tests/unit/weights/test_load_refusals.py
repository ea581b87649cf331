"""The checkpoints that `load_checkpoint` refuses, each in one sentence with the fault."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from checkpoints import configure, use_old_tokenizer_files
from safetensors.numpy import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights import load_checkpoint

UNET_FILE = "unet/diffusion_pytorch_model.safetensors"
VAE_FILE = "vae/diffusion_pytorch_model.safetensors"


def refusal(source: Path | str, **options: Any) -> str:
    with pytest.raises(UnreadableCheckpoint) as caught:
        load_checkpoint(str(source), **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def truncate(folder: Path) -> None:
    content = (folder / UNET_FILE).read_bytes()
    (folder / UNET_FILE).write_bytes(content[: len(content) // 2])


def empty(folder: Path) -> None:
    (folder / UNET_FILE).write_bytes(b"")


def leave_a_pointer(folder: Path) -> None:
    (folder / UNET_FILE).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def leave_only_a_pickle(folder: Path) -> None:
    (folder / UNET_FILE).rename(folder / "unet" / "diffusion_pytorch_model.bin")


def leave_only_flax(folder: Path) -> None:
    (folder / UNET_FILE).rename(folder / "unet" / "diffusion_flax_model.msgpack")


def add_tokens(text: str) -> Callable[[Path], object]:
    """Leave an old tokenizer folder with these added tokens."""

    def change(folder: Path) -> None:
        place = folder / "tokenizer"
        use_old_tokenizer_files(place)
        settings = json.loads((place / "tokenizer_config.json").read_text())
        settings.pop("added_tokens_decoder", None)
        (place / "tokenizer_config.json").write_text(json.dumps(settings))
        (place / "added_tokens.json").write_text(text)

    return change


def add_tokens_to_one_file(folder: Path) -> None:
    file = folder / "tokenizer" / "tokenizer.json"
    content = json.loads(file.read_text())
    [one, *_] = content["added_tokens"]
    content["added_tokens"] += [{**one, "content": f"<{each}>"} for each in range(20_000)]
    file.write_text(json.dumps(content))


def remove(path: str) -> Callable[[Path], None]:
    return lambda folder: (folder / path).unlink()


def remove_folder(path: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / path)


def write(path: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_text(text)


def leave_half_the_shards(folder: Path) -> None:
    index = {"weight_map": {"a": "diffusion_pytorch_model-00002-of-00002.safetensors"}}
    (folder / UNET_FILE).unlink()
    (folder / "unet" / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))


UNET_CONFIG, VAE_CONFIG, TEXT_CONFIG = (f"{part}/config.json" for part in ("unet", "vae", "text_encoder"))
BROKEN: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "truncated": (truncate, (UNET_FILE, "not a whole safetensors file")),
    "empty": (empty, (UNET_FILE, "not a whole safetensors file")),
    "git pointer": (leave_a_pointer, (UNET_FILE, "not a whole safetensors file")),
    "pickle only": (leave_only_a_pickle, ("diffusion_pytorch_model.bin", "pickle", "safetensors")),
    "Flax only": (
        leave_only_flax,
        ("Flax's own format (diffusion_flax_model.msgpack)", "diffusers 0.39", "from_flax=True"),
    ),
    "added tokens without places": (add_tokens('{"<a>": 999999}'), ("no place for the added token '<a>'",)),
    "too many added tokens": (
        add_tokens(json.dumps({f"<{each}>": each for each in range(20_000)})),
        ("more than 10000 added tokens",),
    ),
    "too many added tokens in one file": (
        add_tokens_to_one_file,
        ("tokenizer.json has more than 10000 added tokens",),
    ),
    "broken added tokens": (add_tokens('{"<a>": "many"}'), ("added tokens", "cannot be read")),
    "no weights": (remove(VAE_FILE), ("vae", "holds no diffusion_pytorch_model.safetensors")),
    "missing shard": (leave_half_the_shards, ("lacks the shards", "00002-of-00002")),
    "no index": (remove("model_index.json"), ("not a checkpoint in diffusers layout",)),
    "no part": (remove_folder("vae"), ("vae/config.json is missing",)),
    "no scheduler": (remove_folder("scheduler"), ("scheduler_config.json is missing",)),
    "no tokenizer": (remove("tokenizer/tokenizer.json"), ("tokenizer", "vocab.json with merges.txt")),
    "broken tokenizer": (write("tokenizer/tokenizer.json", "{}"), ("tokenizer.json", "by its model")),
    "unknown padding": (
        configure("tokenizer/tokenizer_config.json", pad_token="<pad>"),
        ("tokenizer", "lacks the token '<pad>'"),
    ),
    "broken JSON": (write(UNET_CONFIG, "{"), (UNET_CONFIG, "cannot be read")),
    "a list for an object": (write(VAE_CONFIG, "[]"), (VAE_CONFIG, "JSON object")),
    "other pipeline": (
        configure("model_index.json", _class_name="StableCascadeCombinedPipeline"),
        ("StableCascadeCombinedPipeline",),
    ),
    "other part": (
        configure("model_index.json", unet=["diffusers", "UNet3DConditionModel"]),
        ("UNet3DConditionModel",),
    ),
    "unknown block": (
        configure(UNET_CONFIG, down_block_types=["AttnDownBlock2D", "DownBlock2D"]),
        ("down_block_types", "AttnDownBlock2D"),
    ),
    "feature we lack": (
        configure(UNET_CONFIG, addition_embed_type="image", class_embed_type="timestep"),
        ("addition_embed_type='image'", "class_embed_type='timestep'"),
    ),
    "feature of tomorrow": (configure(UNET_CONFIG, a_new_trick=True), ("a_new_trick=True",)),
    "unknown activation": (configure(TEXT_CONFIG, hidden_act="swoosh"), ("swoosh",)),
    "shifted latents": (configure(VAE_CONFIG, shift_factor=0.1), ("shift_factor=0.1",)),
    "uneven lists": (configure(UNET_CONFIG, layers_per_block=[1, 1, 1]), ("layers_per_block",)),
    "impossible groups": (configure(UNET_CONFIG, norm_num_groups=7), ("7 groups",)),
    "impossible heads": (configure(UNET_CONFIG, attention_head_dim=5), ("5 heads",)),
    "nonsense values": (configure(UNET_CONFIG, block_out_channels="many"), (UNET_CONFIG,)),
    "a negative width": (configure(UNET_CONFIG, time_embedding_dim=-8), (UNET_CONFIG, "has the shape")),
    "a number of channels that is no integer": (
        configure(UNET_CONFIG, out_channels=4.0),
        (UNET_CONFIG, "has the shape", "integer"),
    ),
    "other text width": (configure(UNET_CONFIG, cross_attention_dim=48), ("cross_attention_dim",)),
    "other latents": (configure(VAE_CONFIG, latent_channels=8), ("latent_channels",)),
}


@pytest.mark.parametrize(("breaking", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_checkpoint_is_refused_by_name(
    breaking: Callable[[Path], object], words: tuple[str, ...], folder: Path
) -> None:
    breaking(folder)

    sentence = refusal(folder)

    assert all(word in sentence for word in words), sentence


def test_every_tensor_that_does_not_fit_is_listed_at_once(folder: Path) -> None:
    unet, vae = load_file(folder / UNET_FILE), load_file(folder / VAE_FILE)
    del unet["conv_in.bias"]
    unet["lora.down.weight"] = np.zeros((2, 2), np.float32)
    unet["conv_out.weight"] = unet["conv_out.weight"][:3]
    vae["quant_conv.bias"] = vae["quant_conv.bias"].astype(np.int32)
    save_file(unet, folder / UNET_FILE)
    save_file(vae, folder / VAE_FILE)

    sentence = refusal(folder)

    for clause in (
        "1 missing: conv_in.bias",
        "1 left over: lora.down.weight",
        "1 of the wrong shape: conv_out.weight (3, 32, 3, 3) for (4, 32, 3, 3)",
        "in vae, 1 of a dtype that is not supported: quant_conv.bias (I32)",
    ):
        assert clause in sentence


def test_long_lists_of_tensors_are_shortened(folder: Path) -> None:
    tensors = load_file(folder / UNET_FILE)
    kept = {name: tensor for name, tensor in tensors.items() if name.startswith("conv_")}
    save_file(kept, folder / UNET_FILE)

    sentence = refusal(folder)

    assert f"{len(tensors) - len(kept)} missing: " in sentence
    assert f"and {len(tensors) - len(kept) - 10} more" in sentence


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in refusal(tmp_path / "nowhere")


def test_unknown_dtype_is_refused_with_the_choices(original: Path) -> None:
    assert "float32, bfloat16" in refusal(original, dtype="int8")


def test_hub_id_without_a_network_or_a_cached_copy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)

    assert "someone/absent" in refusal("someone/absent")

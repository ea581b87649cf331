"""Configurations meant to exhaust the reading process: each is refused before anything is built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import configure

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import MOST_BYTES, MOST_LEVELS, read_json
from sdjax_engine.models.config import settle_safety_checker_config
from sdjax_engine.models.pixels import settle_preprocessing
from sdjax_engine.samplers import default_sampler
from sdjax_engine.weights import describe, load_checkpoint, networks
from sdjax_engine.weights.lora import read_adapter_settings

MILLION = 10**6
LONGEST_SENTENCE = 600
UNET, VAE, TEXT, INDEX = "unet/config.json", "vae/config.json", "text_encoder/config.json", "model_index.json"
SCHEDULE = "scheduler/scheduler_config.json"
DEEP = "[" * MILLION + "]" * MILLION
BARELY_DEEP = {"a_new_trick": json.loads("[" * 200 + "]" * 200)}


def written(path: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / path).write_text(text)


BOMBS: dict[str, tuple[Callable[[Path], object], str]] = {
    "text layers": (configure(TEXT, num_hidden_layers=MILLION), "num_hidden_layers=1000000"),
    "endless text layers": (configure(TEXT, num_hidden_layers=1e999), "num_hidden_layers=inf"),
    "residual layers": (configure(UNET, layers_per_block=MILLION), "layers_per_block=1000000"),
    "transformers": (
        configure(UNET, transformer_layers_per_block=[1, MILLION]),
        "transformer_layers_per_block=(1, 1000000)",
    ),
    "layers in all": (
        configure(UNET, layers_per_block=100, transformer_layers_per_block=100),
        "layers in all",
    ),
    "blocks": (configure(UNET, block_out_channels=[32] * MILLION), "1000000 blocks"),
    "autoencoder's layers": (configure(VAE, layers_per_block=MILLION), "layers_per_block=1000000"),
    "autoencoder's blocks": (configure(VAE, block_out_channels=[32] * MILLION), "1000000 blocks"),
    "endless width": (configure(VAE, block_out_channels=[1e999]), "block_out_channels=(inf,)"),
    "wide numbers": (configure(UNET, cross_attention_dim=10**30), "cross_attention_dim=1000"),
    "side": (configure(UNET, sample_size=10**9), "sample_size is 1000000000"),
    "endless side": (configure(UNET, sample_size=1e999), "sample_size=inf"),
    "long value": (configure(UNET, a_new_trick="x" * MILLION), "a_new_trick='xxx"),
    "long name of a pipeline": (configure(INDEX, _class_name="x" * MILLION), "is a xxx"),
    "nested beyond recursion": (written(UNET, f'{{"a": {DEEP}}}'), f"{UNET} is JSON nested"),
    "nested index": (written(INDEX, DEEP), f"{INDEX} is JSON nested"),
    "nested schedule": (written(SCHEDULE, DEEP), f"{SCHEDULE} is JSON nested"),
    "nested tokenizer": (
        written("tokenizer/tokenizer_config.json", DEEP),
        "tokenizer_config.json is JSON nested",
    ),
    "nested within recursion": (configure(UNET, **BARELY_DEEP), f"more than {MOST_LEVELS} levels"),
}


@pytest.mark.parametrize(("lay", "words"), BOMBS.values(), ids=BOMBS)
def test_bomb_is_refused_in_a_short_sentence_before_a_network_is_built(
    lay: Callable[[Path], object], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(folder)
    monkeypatch.setattr(networks, "layout", refuse_building)

    with pytest.raises(UnreadableCheckpoint) as caught:
        load_checkpoint(str(folder))

    sentence = str(caught.value)
    assert words in sentence
    assert "\n" not in sentence
    assert len(sentence) < LONGEST_SENTENCE


def refuse_building(*_: object) -> None:
    raise AssertionError("a network was built")


def test_bomb_is_refused_when_the_checkpoint_is_only_described(folder: Path) -> None:
    configure(UNET, layers_per_block=MILLION)(folder)

    with pytest.raises(UnreadableCheckpoint, match="layers_per_block=1000000"):
        describe(str(folder))


def test_safety_checker_of_a_million_layers_is_refused() -> None:
    with pytest.raises(UnreadableCheckpoint, match="num_hidden_layers=1000000"):
        settle_safety_checker_config({"vision_config": {"num_hidden_layers": MILLION}})


@pytest.mark.parametrize("config", [{"size": MILLION}, {"crop_size": {}}, {"rescale_factor": "x"}])
def test_preprocessing_beyond_reason_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match="CLIPImageProcessor"):
        settle_preprocessing(config)


@pytest.mark.parametrize("listed", [7, [[]], "x"])
def test_list_of_default_keys_that_is_none_changes_nothing(listed: object) -> None:
    plain = {"_class_name": "DDIMScheduler"}

    assert default_sampler(plain | {"_use_default_values": listed}) == default_sampler(plain)


def test_long_json_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as opened:
        opened.truncate(MOST_BYTES + 1)

    with pytest.raises(UnreadableCheckpoint, match=r"config\.json has more than 16\.0 MiB of JSON\."):
        read_json(file)


def test_too_deeply_nested_lora_settings_are_ignored() -> None:
    assert read_adapter_settings(DEEP) == {}

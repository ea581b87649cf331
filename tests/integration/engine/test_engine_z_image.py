"""Z-Image in the engine: prompts of any length, start pictures and LoRAs share batches; nothing compiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from compilations import counted_compilations
from engines import file_of, fingerprint, like
from safetensors.torch import save_file
from z_image_files import TRANSFORMER, make_tiny_z_image

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import DevicesFailed
from sdjax_engine.model.defaults import default_offer
from sdjax_engine.request import Lora, Offer, Request, Sampler

DEADLINE = 180
SIZES = ((32, 48), (32, 32))
PLAIN = like(
    prompt=" a red (circle:1.3)\n on  white",
    num_inference_steps=3,
    guidance_scale=2.5,
    sampler=Sampler.FLOW_EULER,
    width=32,
    height=48,
)
ROWS, COLUMNS = 48, 32
START = file_of(torch.arange(ROWS * COLUMNS * 3).reshape(ROWS, COLUMNS, 3).remainder(251).numpy())
MASK = file_of((torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % COLUMNS < 9).numpy() * 255)
VARIED = (
    PLAIN,
    like(PLAIN, prompt="a", negative_prompt="a star " * 60, seed=3),
    like(PLAIN, prompt="별 " * 300, num_inference_steps=5, guidance_scale=6.0),
    like(PLAIN, guidance_scale=0.0),
    like(PLAIN, height=32, prompt="a blue star", guidance_scale=0.0),
    like(PLAIN, height=32, seed=9),
    like(PLAIN, init_image=START, strength=0.6),
    like(PLAIN, init_image=START, mask_image=MASK, strength=0.9),
    like(PLAIN, loras=(Lora(name="split"),)),
    like(PLAIN, loras=(Lora(name="fused", weight=-0.5),), seed=4),
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in shards, as those of true size are."""
    folder = make_tiny_z_image(tmp_path_factory.mktemp("checkpoint") / "z", max_shard_size="100KB")
    assert len(list((folder / "transformer").glob("*.safetensors"))) > 1
    return folder


@pytest.fixture(scope="module")
def loras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same LoRA for queries, keys and values, in one tensor and in three."""
    folder, width = tmp_path_factory.mktemp("loras"), TRANSFORMER["dim"]
    generator = torch.Generator().manual_seed(1)
    down, up = (torch.randn(shape, generator=generator) for shape in ((2, width), (3 * width, 2)))
    save_file(
        {
            "lora_unet_layers_1_attention_qkv.lora_down.weight": down,
            "lora_unet_layers_1_attention_qkv.lora_up.weight": up,
            "lora_unet_layers_1_attention_qkv.alpha": torch.tensor(1.0),
        },
        folder / "fused.safetensors",
    )
    split = {}
    for index, name in enumerate(("to_q", "to_k", "to_v")):
        layer = f"transformer.layers.1.attention.{name}"
        split[f"{layer}.lora_A.weight"] = down.clone()
        split[f"{layer}.lora_B.weight"] = up.chunk(3)[index].clone()
        split[f"{layer}.alpha"] = torch.tensor(1.0)
    save_file(split, folder / "split.safetensors")
    return {name: folder / f"{name}.safetensors" for name in ("fused", "split")}


@pytest.fixture(scope="module")
def config(
    checkpoint: Path, loras: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> EngineConfig:
    offer = Offer(
        model=PLAIN.model,
        sizes=SIZES,
        num_inference_steps=8,
        guidance_scale=0.0,
        sampler=Sampler.FLOW_EULER,
        loras=tuple(loras),
    )
    return EngineConfig(
        models=(ModelSpec(offer=offer, source=str(checkpoint), loras=loras),),
        cpu_devices=2,
        seats_per_device=2,
        lanes=tuple(dict.fromkeys(request.lane for request in VARIED)),
        cache_dir=tmp_path_factory.mktemp("cache"),
    )


@pytest.fixture(scope="module")
def engine(config: EngineConfig) -> Iterator[Engine]:
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        yield engine


def painted(engine: Engine, requests: tuple[Request, ...]) -> list[str]:
    futures = [engine.submit(request) for request in requests]
    return [fingerprint(future.result(DEADLINE)) for future in futures]


def test_requests_of_every_kind_are_painted_alike_alone_and_together_and_nothing_compiles(
    engine: Engine,
) -> None:
    with counted_compilations() as made:
        together = painted(engine, VARIED)
        alone = [painted(engine, (request,))[0] for request in VARIED]
    assert made == []
    assert together == alone
    assert len(set(together)) == len(VARIED)


def test_the_language_model_and_the_transformer_take_turns_where_memory_is_short(
    engine: Engine, config: EngineConfig
) -> None:
    expected, parameters = painted(engine, VARIED), engine._models[PLAIN.model]._parameters
    enough = engine.memory_in_use - parameters.size + parameters.at_once
    told: list[str] = []
    with Engine.open(replace(config, device_memory=enough), report=told.append) as narrow:
        narrow.wait_until_ready()
        line = (
            "on the devices: the denoiser of tiny; in the host's memory until used: the autoencoder of tiny"
        )
        assert any(line in each for each in told), told
        with counted_compilations() as made:
            assert painted(narrow, VARIED) == expected
            assert [painted(narrow, (request,))[0] for request in VARIED] == expected
        assert made == []
        assert narrow.memory_in_use <= enough


def test_a_device_without_memory_for_the_largest_part_is_told_by_how_much(
    engine: Engine, config: EngineConfig
) -> None:
    parameters = engine._models[PLAIN.model]._parameters
    memory = parameters.at_once - 2**17
    with pytest.raises(
        DevicesFailed, match=r"take \S+ MiB, \S+ MiB of them at once, and .* 0\.1 MiB too little"
    ):
        Engine.open(replace(config, device_memory=memory), report=lambda _line: None)


def test_a_lora_in_one_tensor_for_queries_keys_and_values_is_that_in_three(engine: Engine) -> None:
    fused, split, without = painted(
        engine, (*(like(PLAIN, loras=(Lora(name=name),)) for name in ("fused", "split")), PLAIN)
    )
    assert fused == split != without


@pytest.mark.parametrize(("shift", "steps", "guidance"), [(3.0, 8, 0.0), (6.0, 50, 5.0)])
def test_turbo_is_offered_in_few_steps_without_guidance(
    shift: float, steps: int, guidance: float, tmp_path: Path
) -> None:
    offer = default_offer(str(make_tiny_z_image(tmp_path / "z", scheduler={"shift": shift})))
    assert (offer.num_inference_steps, offer.guidance_scale) == (steps, guidance)
    assert (offer.sampler, offer.samplers) == (Sampler.FLOW_EULER, (Sampler.FLOW_EULER,))

"""FLUX.2 klein in the engine: all kinds of requests share batches; nothing compiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from compilations import counted_compilations
from engines import file_of, fingerprint, like
from flux2_klein_files import make_tiny_flux2_klein
from safetensors.torch import save_file

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
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
    like(PLAIN, prompt="a", seed=3),
    like(PLAIN, prompt="별 " * 300, num_inference_steps=5, guidance_scale=6.0),
    like(PLAIN, guidance_scale=1.0),
    like(PLAIN, height=32, prompt="a blue star", guidance_scale=1.0),
    like(PLAIN, height=32, seed=9),
    like(PLAIN, init_image=START, strength=0.6),
    like(PLAIN, init_image=START, mask_image=MASK, strength=0.9),
    like(PLAIN, references=(START,)),
    like(PLAIN, references=(MASK, START), loras=(Lora(name="split"),)),
    like(PLAIN, references=(START, MASK), guidance_scale=1.0, seed=8),
    like(PLAIN, references=(START,), init_image=START, mask_image=MASK, strength=0.9),
    like(PLAIN, loras=(Lora(name="split"),)),
    like(PLAIN, loras=(Lora(name="fused", weight=-0.5),), seed=4),
)


@pytest.fixture(scope="module")
def loras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same LoRA for queries, keys and values of a prompt, in one tensor and in three."""
    folder, width = tmp_path_factory.mktemp("loras"), 48
    generator = torch.Generator().manual_seed(1)
    down, up = (torch.randn(shape, generator=generator) for shape in ((2, width), (3 * width, 2)))
    fused = "diffusion_model.double_blocks.1.txt_attn.qkv"
    tensors = {f"{fused}.lora_A.weight": down, f"{fused}.lora_B.weight": up}
    save_file(tensors, folder / "fused.safetensors")
    split = {}
    for third, name in zip(up.chunk(3), ("add_q_proj", "add_k_proj", "add_v_proj"), strict=True):
        layer = f"transformer.transformer_blocks.1.attn.{name}"
        split |= {f"{layer}.lora_A.weight": down.clone(), f"{layer}.lora_B.weight": third.clone()}
    save_file(split, folder / "split.safetensors")
    return {name: folder / f"{name}.safetensors" for name in ("fused", "split")}


@pytest.fixture(scope="module")
def engine(loras: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with the base checkpoint, in shards."""
    folder = make_tiny_flux2_klein(
        tmp_path_factory.mktemp("checkpoint") / "klein", distilled=False, max_shard_size="200KB"
    )
    assert len(list((folder / "transformer").glob("*.safetensors"))) > 1
    offer = Offer(
        model=PLAIN.model,
        sizes=SIZES,
        num_inference_steps=8,
        guidance_scale=4.0,
        sampler=Sampler.FLOW_EULER,
        loras=tuple(loras),
        references=2,
    )
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=str(folder), loras=loras),),
        cpu_devices=2,
        seats_per_device=2,
        lanes=tuple(dict.fromkeys(request.lane for request in VARIED)),
    )
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


def test_a_lora_in_one_tensor_for_queries_keys_and_values_is_that_in_three(engine: Engine) -> None:
    fused, split, without = painted(
        engine, (*(like(PLAIN, loras=(Lora(name=name),)) for name in ("fused", "split")), PLAIN)
    )
    assert fused == split != without


@pytest.mark.parametrize(("distilled", "steps", "guidance"), [(True, 4, 1.0), (False, 50, 4.0)])
def test_a_distilled_checkpoint_is_offered_in_few_steps_without_guidance(
    distilled: bool, steps: int, guidance: float, tmp_path: Path
) -> None:
    offer = default_offer(str(make_tiny_flux2_klein(tmp_path / "klein", distilled=distilled)))
    assert (offer.num_inference_steps, offer.guidance_scale) == (steps, guidance)
    assert (offer.sampler, offer.samplers) == (Sampler.FLOW_EULER, (Sampler.FLOW_EULER,))

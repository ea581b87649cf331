"""SD 3.5 in the engine, with T5 and without: all kinds of requests share batches; nothing compiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import configure
from compilations import counted_compilations
from engines import file_of, fingerprint, like
from safetensors.torch import save_file
from sd3_files import make_tiny_sd3

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families import pipelines
from sdjax_engine.model.defaults import default_offer
from sdjax_engine.request import Lora, Offer, Progress, Request, Sampler
from sdjax_engine.weights import load_checkpoint

DEADLINE = 180
SIZES = ((32, 48), (32, 32))
PLAIN = like(
    prompt=" a red (circle:1.3)\n on  white",
    num_inference_steps=3,
    guidance_scale=4.5,
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
    like(PLAIN, guidance_scale=1.0),
    like(PLAIN, clip_skip=1),
    like(PLAIN, height=32, prompt="a blue star", guidance_scale=1.0),
    like(PLAIN, height=32, seed=9),
    like(PLAIN, init_image=START, strength=0.6),
    like(PLAIN, init_image=START, mask_image=MASK, strength=0.9),
    like(PLAIN, loras=(Lora(name="split"),)),
    like(PLAIN, loras=(Lora(name="fused", weight=-0.5), Lora(name="of CLIP")), seed=4),
)


@pytest.fixture(scope="module")
def loras(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same LoRA for queries, keys and values in one tensor and in three, and one of both encoders."""
    folder, width = tmp_path_factory.mktemp("loras"), 36
    generator = torch.Generator().manual_seed(1)
    down, up = (torch.randn(shape, generator=generator) for shape in ((2, width), (3 * width, 2)))
    fused = "lora_unet_joint_blocks_1_x_block_attn2_qkv"
    tensors = {f"{fused}.lora_down.weight": down, f"{fused}.lora_up.weight": up}
    save_file(tensors | {f"{fused}.alpha": torch.tensor(2.0)}, folder / "fused.safetensors")
    split = {}
    for third, name in zip(up.chunk(3), ("to_q", "to_k", "to_v"), strict=True):
        layer = f"transformer.transformer_blocks.1.attn2.{name}"
        split |= {f"{layer}.lora_A.weight": down.clone(), f"{layer}.lora_B.weight": third.clone()}
    save_file(split, folder / "split.safetensors")
    of_clip = {}
    for component, size in (("text_encoder", 32), ("text_encoder_2", 48)):
        layer = f"{component}.text_model.encoder.layers.0.self_attn.q_proj"
        of_clip[f"{layer}.lora_A.weight"] = torch.randn((2, size), generator=generator)
        of_clip[f"{layer}.lora_B.weight"] = torch.randn((size, 2), generator=generator)
    save_file(of_clip, folder / "of CLIP.safetensors")
    return {name: folder / f"{name}.safetensors" for name in ("fused", "split", "of CLIP")}


@pytest.fixture(scope="module", params=[True, False], ids=["with T5", "without T5"])
def engine(
    request: pytest.FixtureRequest, loras: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine with a checkpoint in shards, as those of true size are."""
    folder = make_tiny_sd3(
        tmp_path_factory.mktemp("checkpoint") / "sd3", with_t5=request.param, max_shard_size="200KB"
    )
    assert len(list((folder / "transformer").glob("*.safetensors"))) > 1
    offer = Offer(
        model=PLAIN.model,
        sizes=SIZES,
        num_inference_steps=8,
        guidance_scale=4.5,
        sampler=Sampler.FLOW_EULER,
        loras=tuple(loras),
        most_skipped=1,
        usual_layer=2,
    )
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=str(folder), loras=loras),),
        cpu_devices=2,
        seats_per_device=2,
        lanes=tuple(dict.fromkeys(request.lane for request in VARIED)),
        preview_seconds=1e-6,
        preview_share=1e6,
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
    fused, split, of_clip, without = painted(
        engine, (*(like(PLAIN, loras=(Lora(name=name),)) for name in ("fused", "split", "of CLIP")), PLAIN)
    )
    assert fused == split
    assert len({split, of_clip, without}) == 3


def test_previews_come_while_a_picture_is_painted_and_do_not_change_it(engine: Engine) -> None:
    told: list[Progress] = []
    asked = like(PLAIN, num_inference_steps=12)
    image = engine.submit(asked, on_progress=told.append, previews=True).result(DEADLINE)
    shapes = {each.preview.shape for each in told if each.preview is not None}
    assert shapes == {(PLAIN.height // 8, PLAIN.width // 8, 3)}
    assert [fingerprint(image)] == painted(engine, (asked,))


@pytest.mark.parametrize("with_t5", [True, False])
def test_a_checkpoint_is_offered_as_the_references_calls_are(with_t5: bool, tmp_path: Path) -> None:
    offer = default_offer(str(make_tiny_sd3(tmp_path / "sd3", with_t5=with_t5)))
    assert (offer.num_inference_steps, offer.guidance_scale, offer.sizes) == (28, 7.0, ((1024, 1024),))
    assert (offer.sampler, offer.samplers) == (Sampler.FLOW_EULER, (Sampler.FLOW_EULER,))
    assert (offer.most_skipped, offer.usual_layer) == (1, 2)


@pytest.mark.parametrize(
    ("file", "values", "sentence"),
    [
        ("model_index.json", {"text_encoder_3": [None, None]}, "only one of text_encoder_3 and tokenizer_3"),
        ("model_index.json", {"tokenizer_3": [None, None]}, "only one of text_encoder_3 and tokenizer_3"),
        ("model_index.json", {"text_encoder_3": 7}, "not supported: text_encoder_3 7"),
        ("model_index.json", {"text_encoder_2": [None, None]}, "not supported: text_encoder_2"),
        ("vae/config.json", {"shift_factor": None}, "no shift_factor"),
        ("transformer/config.json", {"pooled_projection_dim": 71}, "pooled_projection_dim is not the"),
        ("transformer/config.json", {"joint_attention_dim": 79}, "is less than the hidden_size of both"),
        ("transformer/config.json", {"joint_attention_dim": 90}, "joint_attention_dim is not the d_model"),
        ("text_encoder_3/config.json", {"vocab_size": 20}, "more words than its text encoder"),
        ("tokenizer/tokenizer_config.json", {"model_max_length": 60}, "prompts of other lengths"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    file: str, values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    folder = make_tiny_sd3(tmp_path / "sd3")
    configure(file, **values)(folder)
    with pytest.raises(UnreadableCheckpoint, match=sentence):
        load_checkpoint(str(folder))


def test_sizes_beyond_the_table_of_positions_are_refused(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(str(make_tiny_sd3(tmp_path / "sd3")))
    offer = Offer(
        model="tiny",
        sizes=((160, 144),),
        num_inference_steps=8,
        guidance_scale=4.5,
        sampler=Sampler.FLOW_EULER,
    )
    family = pipelines()[checkpoint.pipeline]
    with pytest.raises(
        UnreadableCheckpoint, match="in 160x144: its transformer makes pictures of 144 pixels a side"
    ):
        family.networks(checkpoint, offer)

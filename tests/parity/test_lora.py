"""LoRA against the reference's `load_lora_weights` and `set_adapters` (diffusers with peft).

Ours are computed in one batch: every file is in the same bank, and each case has a seat. Differences are the
largest of any value, relative to the reference's largest. Run with `-s` to see the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_checkpoint
from diffusers import StableDiffusionPipeline
from lora_files import (
    attention_layers,
    every_layer,
    linear_layers,
    random_factors,
    write_diffusers,
    write_kohya,
    write_old_processors,
    write_peft,
)

from sdjax_engine.model.loras import LoraBank
from sdjax_engine.request import Lora
from sdjax_engine.weights import Checkpoint, Component, Parameters, load_checkpoint

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute"),
]

TOLERANCE = 1e-4
CASES: dict[str, dict[str, float]] = {
    "kohya": {"kohya": 1.0},
    "locon": {"locon": 0.8},
    "half precision": {"float16": 1.0},
    "diffusers": {"diffusers": 1.0},
    "old processors": {"old": 1.0},
    "peft": {"peft": 1.0},
    "negative": {"locon": -0.6},
    "several": {"kohya": 0.5, "locon": -0.7, "diffusers": 1.2, "old": 0.3, "peft": -1.0},
}
Outputs = dict[str, npt.NDArray[np.float32]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def pipeline(folder: Path) -> StableDiffusionPipeline:
    return StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)


@pytest.fixture(scope="module")
def files(pipeline: StableDiffusionPipeline, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A LoRA of each format, of different ranks, for different layers."""
    folder = tmp_path_factory.mktemp("loras")
    linear = random_factors(pipeline, linear_layers, rank=6, seed=1)
    every = random_factors(pipeline, every_layer, rank=4, seed=2)
    attention = random_factors(pipeline, attention_layers, rank=3, seed=3)
    return {
        "kohya": write_kohya(folder / "kohya.safetensors", linear),
        "locon": write_kohya(folder / "locon.safetensors", every, alpha=2.0),
        "float16": write_kohya(folder / "float16.safetensors", attention, alpha=1.0, dtype=torch.float16),
        "diffusers": write_diffusers(folder / "diffusers.safetensors", linear),
        "old": write_old_processors(folder / "old.safetensors", attention),
        "peft": write_peft(folder / "peft", pipeline, seed=4),
    }


def inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "sample": torch.randn(1, 4, 8, 6, generator=generator),
        "timestep": torch.tensor([321.0]),
        "context": torch.randn(1, 77, 32, generator=generator),
        "input_ids": torch.randint(0, 300, (1, 77), generator=generator),
    }


@pytest.fixture(scope="module")
def ours(folder: Path, files: dict[str, Path]) -> dict[str, Outputs]:
    checkpoint = load_checkpoint(str(folder))
    bank = LoraBank.load(files, checkpoint)
    return compute(checkpoint, bank)


def compute(checkpoint: Checkpoint, bank: LoraBank) -> dict[str, Outputs]:
    seats = [
        bank.seat_rows([Lora(name=name, weight=weight) for name, weight in loras.items()])
        for loras in CASES.values()
    ]
    rows, scales = (jnp.stack([jnp.asarray(each) for each in column]) for column in zip(*seats, strict=True))

    def run(component: Component, name: str, *arguments: torch.Tensor) -> npt.NDArray[np.float32]:
        each = [jnp.asarray(np.repeat(argument.numpy(), len(seats), axis=0)) for argument in arguments]

        def forward(parameters: Parameters, *arrays: jax.Array) -> jax.Array:
            network = component.blueprint.adapted(parameters, bank.banks[name], rows, scales)
            made = network(*arrays)
            result: jax.Array = made if name == "unet" else made.hidden
            return result

        return np.asarray(jax.jit(forward)(component.parameters, *each))

    given = inputs()
    sample = given["sample"].permute(0, 2, 3, 1)
    unet = run(checkpoint.components["unet"], "unet", sample, given["timestep"], given["context"])
    text = run(checkpoint.components["text_encoder"], "text_encoder", given["input_ids"].to(torch.int32))
    return {case: {"unet": unet[seat], "text_encoder": text[seat]} for seat, case in enumerate(CASES)}


def theirs(
    pipeline: StableDiffusionPipeline, files: Mapping[str, Path], loras: Mapping[str, float]
) -> Outputs:
    for name in loras:
        pipeline.load_lora_weights(files[name], adapter_name=name)
    if loras:
        pipeline.set_adapters(list(loras), list(loras.values()))
    given = inputs()
    try:
        with torch.no_grad():
            noise = pipeline.unet(given["sample"], given["timestep"], given["context"]).sample
            hidden = pipeline.text_encoder(given["input_ids"])[0]
    finally:
        pipeline.unload_lora_weights()
    return {"unet": noise[0].permute(1, 2, 0).numpy(), "text_encoder": hidden[0].numpy()}


def difference(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


@pytest.mark.parametrize("case", CASES)
def test_the_networks_with_loras_are_the_references(
    case: str,
    ours: dict[str, Outputs],
    pipeline: StableDiffusionPipeline,
    files: dict[str, Path],
) -> None:
    without, reference = theirs(pipeline, files, {}), theirs(pipeline, files, CASES[case])
    for network, expected in reference.items():
        found = difference(ours[case][network], expected)
        print(f"\n{case}, {network}: {found:.1e} (without it {difference(without[network], expected):.1e})")
        assert found <= TOLERANCE
        assert difference(without[network], expected) > 0.1

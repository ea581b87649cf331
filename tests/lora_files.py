"""LoRA files for the tests: seeded random factors for a reference pipeline's layers, in every spelling.

factors = random_factors(pipeline, attention_layers, rank=4, seed=1)
write_kohya(file, factors, alpha=2.0)     # lora_unet_….lora_down.weight
write_diffusers(file, factors)            # unet.….lora.down.weight
write_old_processors(file, factors)       # unet.….attn1.processor.to_q_lora.down.weight
write_peft(folder, pipeline, seed=1)      # unet.….lora_A.weight, by peft and diffusers themselves
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import StableDiffusionPipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file

Layer = tuple[str, str]
Factors = Mapping[Layer, tuple[torch.Tensor, torch.Tensor]]
COMPONENTS = ("unet", "text_encoder", "text_encoder_2")
KOHYA = {
    "unet": "lora_unet_",
    "text_encoder": "lora_te_text_model_",
    "text_encoder_2": "lora_te2_text_model_",
}
TWO_ENCODERS = KOHYA | {"text_encoder": "lora_te1_text_model_"}
# The original code's names of the parts of the tests' small SDXL, and of the layers of its residual blocks.
ORIGINAL = {
    "conv_in": "input_blocks.0.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "down_blocks.0.resnets.0": "input_blocks.1.0",
    "down_blocks.0.downsamplers.0.conv": "input_blocks.2.0.op",
    "down_blocks.1.resnets.0": "input_blocks.3.0",
    "down_blocks.1.attentions.0": "input_blocks.3.1",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
    "up_blocks.0.resnets.0": "output_blocks.0.0",
    "up_blocks.0.attentions.0": "output_blocks.0.1",
    "up_blocks.0.resnets.1": "output_blocks.1.0",
    "up_blocks.0.attentions.1": "output_blocks.1.1",
    "up_blocks.0.upsamplers.0.conv": "output_blocks.1.2.conv",
    "up_blocks.1.resnets.0": "output_blocks.2.0",
    "up_blocks.1.resnets.1": "output_blocks.3.0",
    "conv_out": "out.2",
}
ORIGINAL_INSIDE = {
    "conv1": "in_layers.2",
    "conv2": "out_layers.3",
    "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}
ATTENTION = ("to_q", "to_k", "to_v", "to_out.0", "q_proj", "k_proj", "v_proj", "out_proj")


def attention_layers(path: str, _module: torch.nn.Module) -> bool:
    """Return whether most LoRAs change this layer."""
    return path.endswith(ATTENTION)


def linear_layers(path: str, module: torch.nn.Module) -> bool:
    """Return whether kohya's scripts change this layer: attention, feed-forward and their projections."""
    return isinstance(module, torch.nn.Linear) and ("attn" in path or "ff" in path or "mlp" in path)


def every_layer(path: str, _module: torch.nn.Module) -> bool:
    """Return whether LoCon changes this layer: every linear map and convolution."""
    return path != "text_projection"


def random_factors(
    pipeline: Any, chosen: Callable[[str, torch.nn.Module], bool], *, rank: int, seed: int
) -> dict[Layer, tuple[torch.Tensor, torch.Tensor]]:
    """Return (down, up) in the reference's layout for the chosen layers of the UNet and the text encoders.

    Their product is about as large as the weights, so that a missing LoRA is noticed.
    """
    generator = torch.Generator().manual_seed(seed)
    factors = {}
    for component in COMPONENTS:
        network = getattr(pipeline, component, None)
        for path, module in network.named_modules() if network is not None else ():
            if isinstance(module, torch.nn.Linear | torch.nn.Conv2d) and chosen(path, module):
                shape = module.weight.shape
                down = torch.randn(rank, *shape[1:], generator=generator) * shape[1:].numel() ** -0.5
                up = torch.randn(shape[0], rank, *[1] * (len(shape) - 2), generator=generator)
                factors[component, path.removeprefix("text_model.")] = (down, 0.5 * up * rank**-0.5)
    return factors


def write_kohya(
    file: Path,
    factors: Factors,
    *,
    alpha: float | None = None,
    original: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """Write the spelling of kohya's scripts; `original`: with the original code's names of SDXL's blocks."""
    prefixes = TWO_ENCODERS if any(component == "text_encoder_2" for component, _ in factors) else KOHYA
    tensors: dict[str, torch.Tensor] = {}
    for layer, (down, up) in factors.items():
        path = original_path(layer[1]) if original and layer[0] == "unet" else layer[1]
        called = prefixes[layer[0]] + path.replace(".", "_")
        tensors |= {f"{called}.lora_down.weight": down.to(dtype), f"{called}.lora_up.weight": up.to(dtype)}
        if alpha is not None:
            tensors[f"{called}.alpha"] = torch.tensor(alpha, dtype=dtype)
    return write(file, tensors)


def original_path(path: str) -> str:
    """Return what the original code calls this layer of the small SDXL."""
    part = next(part for part in ORIGINAL if f"{path}.".startswith(f"{part}."))
    inside = path.removeprefix(part).removeprefix(".")
    return f"{ORIGINAL[part]}.{ORIGINAL_INSIDE.get(inside, inside)}".removesuffix(".")


def write_diffusers(file: Path, factors: Factors) -> Path:
    """Write diffusers' spelling from before peft."""
    tensors = {}
    for (component, path), (down, up) in factors.items():
        middle = "lora" if component == "unet" else "lora_linear_layer"
        around = "" if component == "unet" else "text_model."
        tensors[f"{component}.{around}{path}.{middle}.down.weight"] = down
        tensors[f"{component}.{around}{path}.{middle}.up.weight"] = up
    return write(file, tensors)


def write_old_processors(file: Path, factors: Factors) -> Path:
    """Write diffusers' first spelling, in which attention processors held the factors."""
    tensors = {}
    for (component, path), (down, up) in factors.items():
        module, _, leaf = path.removesuffix(".0").rpartition(".")
        old = leaf if component == "unet" else f"to_{leaf.removesuffix('_proj')}"
        around = f"{module}.processor" if component == "unet" else f"text_model.{module}"
        tensors[f"{component}.{around}.{old}_lora.down.weight"] = down
        tensors[f"{component}.{around}.{old}_lora.up.weight"] = up
    return write(file, tensors)


def write_peft(folder: Path, pipeline: Any, *, seed: int, **settings: Any) -> Path:
    """Let peft make adapters for attention and convolutions, and diffusers save them with their settings.

    One kind of layer in each network has a rank and an alpha of its own.
    """
    generator = torch.Generator().manual_seed(seed)
    layers: dict[str, Any] = {}
    for component in (each for each in COMPONENTS if hasattr(pipeline, each)):
        modules = ["to_v", "to_q", "to_out.0", "conv1"] if component == "unet" else ["fc1", "q_proj"]
        own = {"rank_pattern": {modules[0]: 2}, "alpha_pattern": {modules[0]: 3}}
        values = {"r": 4, "lora_alpha": 2, "init_lora_weights": False} | own | settings
        config = LoraConfig(**values, target_modules=modules)
        network = getattr(pipeline, component)
        network.add_adapter(config, "fresh")
        for name, parameter in sorted(network.named_parameters()):
            if "lora_" in name:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.data.copy_(noise * parameter[0].numel() ** -0.5)
        layers[f"{component}_lora_layers"] = get_peft_model_state_dict(network, adapter_name="fresh")
        layers[f"{component}_lora_adapter_metadata"] = plain(config)
        network.delete_adapters("fresh") if component == "unet" else network.delete_adapter("fresh")
    pipeline.save_lora_weights(folder, **layers)
    return folder


def plain(config: Any) -> dict[str, Any]:
    """Return peft's settings as JSON can hold them."""
    settings = config.to_dict().items()
    return {key: sorted(value) if isinstance(value, set) else value for key, value in settings}


def write(file: Path, tensors: Mapping[str, torch.Tensor]) -> Path:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    return file


def write_three(checkpoint: Path, folder: Path) -> dict[str, Path]:
    """Files of three LoRAs for an SD 1.x: of rank 3, of rank 2, and one of rank 2 for the texts alone."""
    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    attention = random_factors(pipeline, attention_layers, rank=3, seed=1)
    linear = random_factors(pipeline, linear_layers, rank=2, seed=2)
    texts = {layer: factors for layer, factors in linear.items() if layer[0] == "text_encoder"}
    return {
        "one": write_kohya(folder / "one.safetensors", attention, alpha=2.0),
        "two": write_diffusers(folder / "two.safetensors", linear),
        "texts": write_kohya(folder / "texts.safetensors", texts),
    }

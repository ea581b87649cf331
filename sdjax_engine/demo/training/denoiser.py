"""Trains the demo checkpoint's UNet, and goes on teaching its text encoder, on latents of drawn scenes.

v-prediction on a linear noise schedule that ends at almost pure noise, so that plain backgrounds
come out in their exact colour; captions are left out for a tenth of the pictures so that guidance
has an unconditional half. Rates follow whichever runs out first, steps or minutes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTokenizer

from sdjax_engine.demo.scenes import vary_caption
from sdjax_engine.demo.training.latents import LatentScenes
from sdjax_engine.demo.training.schedule import Average, OneCycle
from sdjax_engine.demo.training.text import WIDTH, token_ids

EMPTY_CAPTIONS = 0.1
BATCH = 64
UNET_RATE, TEXT_RATE = 8e-4, 1e-4


def build_scheduler() -> DDIMScheduler:
    """The noise schedule the checkpoint is trained and sampled with."""
    return DDIMScheduler(
        beta_schedule="linear",
        beta_start=1e-4,
        beta_end=0.02,
        prediction_type="v_prediction",
        timestep_spacing="trailing",
        clip_sample=False,
        set_alpha_to_one=True,
    )


def build_unet() -> UNet2DConditionModel:
    """The untrained denoiser: 16×16 latents, 64 and 128 channels, attention at 8×8 only."""
    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(64, 128),
        layers_per_block=1,
        attention_head_dim=4,
        norm_num_groups=16,
        cross_attention_dim=WIDTH,
    )


class Painter(nn.Module):
    """Text encoder and UNet as one module, so that one optimiser and one average serve both."""

    def __init__(self, encoder: CLIPTextModel, unet: UNet2DConditionModel) -> None:
        super().__init__()
        self.encoder, self.unet = encoder, unet

    def forward(self, noisy: Tensor, timesteps: Tensor, ids: Tensor) -> Tensor:
        return self.unet(noisy, timesteps, self.encoder(input_ids=ids).last_hidden_state).sample


def train(
    painter: Painter,
    tokenizer: CLIPTokenizer,
    data: LatentScenes,
    *,
    steps: int,
    minutes: float,
    on_average: Callable[[Painter], None],
    seed: int = 3,
    average_every: int = 500,
) -> None:
    """Train in place; `on_average` gets the averaged painter every so often and at the end."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    groups = [
        {"params": list(painter.unet.parameters()), "lr": UNET_RATE},
        {"params": list(painter.encoder.parameters()), "lr": TEXT_RATE},
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.99), weight_decay=1e-3)
    schedule, average = OneCycle(optimiser), Average(painter, decay=0.998)
    alphas = build_scheduler().alphas_cumprod
    start, running = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        elapsed = time.monotonic() - start
        progress = max(step / steps, elapsed / 60 / minutes)
        schedule.set(progress)
        loss = v_loss(painter, tokenizer, data, alphas, rng)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(painter.parameters(), 1.0)
        optimiser.step()
        average.update(painter.parameters())
        running += (loss.item() - running) / min(step, 100)
        if step % 50 == 0:
            told = {"step": step, "loss": round(running, 5), "s/step": round(elapsed / step, 3)}
            print(json.dumps(told), flush=True)
        if step % average_every == 0:
            on_average(average.module)
        if progress >= 1:
            break
    on_average(average.module)


def v_loss(
    painter: Painter,
    tokenizer: CLIPTokenizer,
    data: LatentScenes,
    alphas: Tensor,
    rng: np.random.Generator,
) -> Tensor:
    """Mean squared error of the velocity on one batch, timesteps stratified over the schedule."""
    scenes, x_0 = data.sample(BATCH, rng)
    captions = ["" if rng.random() < EMPTY_CAPTIONS else vary_caption(scene, rng) for scene in scenes]
    timesteps = torch.from_numpy(
        ((np.arange(BATCH) + rng.random(BATCH)) / BATCH * len(alphas)).astype(np.int64)
    )
    alpha = alphas[timesteps].sqrt().view(-1, 1, 1, 1)
    sigma = (1 - alphas[timesteps]).sqrt().view(-1, 1, 1, 1)
    eps = torch.randn_like(x_0)
    with torch.autocast("cpu", torch.bfloat16):
        v = painter(alpha * x_0 + sigma * eps, timesteps, token_ids(tokenizer, captions))
    return (v.float() - (alpha * eps - sigma * x_0)).square().mean()

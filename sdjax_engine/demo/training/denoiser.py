"""Trains the demo checkpoint's UNet on latents of drawn scenes, with a fixed text encoder.

The UNet learns v-prediction on a linear noise schedule that ends at almost pure noise, so that plain
backgrounds get their exact colour. A tenth of the pictures has an empty caption, for classifier-free
guidance. The learning rates follow the steps or the minutes, whichever end first.
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
BATCH = 32
RATE = 8e-4
MIDDLE, MIDDLE_PART = (50, 650), 0.75
"""Three quarters of the timesteps are drawn from the range that decides shapes, the others from all."""


def build_scheduler() -> DDIMScheduler:
    """Return the noise schedule of the checkpoint's training and sampling."""
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
    """Return the untrained UNet: 16×16 latents, 64 and 128 channels, attention at 8×8 only."""
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


class CaptionEncodings:
    """Encodes captions with the trained text encoder, and caches the encodings."""

    def __init__(self, encoder: CLIPTextModel, tokenizer: CLIPTokenizer) -> None:
        self._encoder, self._tokenizer = encoder.eval(), tokenizer
        self._read: dict[str, Tensor] = {}

    @torch.no_grad()
    def encode(self, captions: list[str]) -> Tensor:
        """Return encodings as the pipeline computes them: float32 `(n, 77, width)`."""
        new = list(dict.fromkeys(caption for caption in captions if caption not in self._read))
        if new:
            encodings = self._encoder(input_ids=token_ids(self._tokenizer, new)).last_hidden_state
            self._read.update(zip(new, encodings.half(), strict=True))
        return torch.stack([self._read[caption] for caption in captions]).float()


def train(
    unet: UNet2DConditionModel,
    reader: CaptionEncodings,
    data: LatentScenes,
    *,
    steps: int,
    minutes: float,
    on_average: Callable[[UNet2DConditionModel], None],
    seed: int = 3,
    average_every: int = 500,
) -> None:
    """Train in place; `on_average` gets the averaged network at intervals and at the end."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(unet.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=1e-3)
    schedule, average = OneCycle(optimiser), Average(unet, decay=0.998)
    alphas = build_scheduler().alphas_cumprod
    start, running = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        elapsed = time.monotonic() - start
        progress = max(step / steps, elapsed / 60 / minutes)
        schedule.set(progress)
        loss = v_loss(unet, reader, data, alphas, rng)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimiser.step()
        average.update(unet.parameters())
        running += (loss.item() - running) / min(step, 100)
        if step % 100 == 0:
            line = {"step": step, "loss": round(running, 5), "s/step": round(elapsed / step, 3)}
            print(json.dumps(line), flush=True)
        if step % average_every == 0:
            on_average(average.module)
        if progress >= 1:
            break
    on_average(average.module)


def v_loss(
    unet: UNet2DConditionModel,
    reader: CaptionEncodings,
    data: LatentScenes,
    alphas: Tensor,
    rng: np.random.Generator,
) -> Tensor:
    """Return the weighted mean squared error of the velocity on one batch."""
    scenes, x_0, weights = data.sample(BATCH, rng)
    captions = ["" if rng.random() < EMPTY_CAPTIONS else vary_caption(scene, rng) for scene in scenes]
    timesteps = torch.from_numpy(
        np.where(
            rng.random(BATCH) < MIDDLE_PART,
            rng.integers(*MIDDLE, size=BATCH),
            rng.integers(len(alphas), size=BATCH),
        )
    )
    alpha = alphas[timesteps].sqrt().view(-1, 1, 1, 1)
    sigma = (1 - alphas[timesteps]).sqrt().view(-1, 1, 1, 1)
    eps = torch.randn_like(x_0)
    encodings = reader.encode(captions)
    with torch.autocast("cpu", torch.bfloat16):
        v = unet(alpha * x_0 + sigma * eps, timesteps, encodings).sample
    return (weights * (v.float() - (alpha * eps - sigma * x_0)).square()).mean()

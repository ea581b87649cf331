"""Trains the demo checkpoint's UNet on latents of drawn scenes.

The UNet learns v-prediction on a linear noise schedule that ends at almost pure noise, so that plain grounds
get their exact colour. A tenth of the pictures has an empty caption, for classifier-free guidance. Every
scene is drawn and encoded when it is needed, and learnt from at two noise levels with two captions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextModel

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.drawing import LARGER, SIZES, Size, Sprites, draw
from sdjax_engine.demo.objects import Language
from sdjax_engine.demo.scenes import Scene, sample_scene
from sdjax_engine.demo.training import routes
from sdjax_engine.demo.training.autoencoder import in_unit, tensor_of
from sdjax_engine.demo.training.layout import Reader
from sdjax_engine.demo.training.loop import Course, Workshop, taught
from sdjax_engine.demo.training.text import WIDTH, any_language, token_ids
from sdjax_engine.prompts import Tokenizer

COURSE = Course(name="denoiser", part=0.15, pictures=20_000, batch=16, rate=8e-4, decay=0.998, muon=True)
EMPTY_CAPTIONS = 0.1
MIDDLE, MIDDLE_PART = (250, 1000), 0.75
"""Three quarters of the timesteps are drawn from the range in which the words decide, the others from all."""
THINGS_PART = 0.7
FACTOR = 8
SIZE_PARTS = (0.6, 0.18, 0.18, 0.04)
Batch = tuple[Tensor, Tensor, Tensor]


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
    """Return the untrained UNet: 20×20, 10×10 and 5×5; on the way up, every size looks at the tokens."""
    torch.manual_seed(3)
    return UNet2DConditionModel(
        sample_size=20,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D",) * 3,
        only_cross_attention=(True, False, False),
        block_out_channels=(64, 112, 160),
        layers_per_block=1,
        attention_head_dim=(16, 4, 5),
        norm_num_groups=16,
        cross_attention_dim=WIDTH,
    )


def emphasis(scene: Scene, size: Size) -> npt.NDArray[np.float32]:
    """Return weights of the squared error of each latent pixel, mean 1: most for the things, however small.

    The optimum at a place does not depend on its weight; the weights make small things learn sooner.
    """
    width, height = size
    x, y = (np.arange(side // FACTOR)[np.newaxis] * FACTOR + FACTOR / 2 for side in size)
    things = np.zeros((height // FACTOR, width // FACTOR), bool)
    for placed in scene.placed:
        across, down = placed.middle(size)
        things |= np.hypot(x - across, y.T - down) < (1.15 * placed.radius + 0.04) * min(size)
    part = things.mean()
    if part > THINGS_PART:
        return np.ones_like(things, np.float32)
    return np.where(things, THINGS_PART / part, (1 - THINGS_PART) / (1 - part)).astype(np.float32)


class Painter(nn.Module):
    """A text encoder and a UNet."""

    def __init__(self, encoder: CLIPTextModel, unet: UNet2DConditionModel) -> None:
        super().__init__()
        self.encoder, self.unet = encoder, unet

    def forward(self, noised: Tensor, timesteps: Tensor, ids: Tensor) -> Tensor:
        """Return the velocity of noised latents."""
        return self.unet(noised, timesteps, self.encoder(input_ids=ids).last_hidden_state).sample


class Teacher:
    """Makes batches for a painter, and its loss: the weighted mean squared error of the velocity."""

    def __init__(
        self,
        vae: AutoencoderKL,
        tokenizer: Tokenizer,
        sprites: Sprites,
        workshop: Workshop,
        *,
        finish: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]] | None = None,
        sample: Callable[[np.random.Generator], Scene] = sample_scene,
        sizes: Sequence[Size] = (*SIZES, LARGER),
        language: Callable[[np.random.Generator], Language] = any_language,
    ) -> None:
        self._vae, self._tokenizer = vae, tokenizer
        self._sprites, self._workshop, self._finish = sprites, workshop, finish
        self._sample, self._sizes, self._language = sample, sizes, language
        self._alphas = build_scheduler().alphas_cumprod.to(workshop.device)

    def make(self, rng: np.random.Generator, count: int) -> Batch:
        """Return pictures, weights of their latent pixels, and the ids of two captions of each."""
        parts = np.array(SIZE_PARTS[: len(self._sizes)])
        size = self._sizes[int(rng.choice(len(parts), p=parts / parts.sum()))]
        count = count // 2 if size == LARGER else count
        scenes = [self._sample(rng) for _ in range(count // 2)]
        drawn = [draw(scene, self._sprites, size=size, finish=self._finish) for scene in scenes]
        captions = [
            "" if rng.random() < EMPTY_CAPTIONS else caption(scene, self._language(rng), rng)
            for scene in [*scenes, *scenes]
        ]
        weights = torch.from_numpy(np.stack([emphasis(scene, size) for scene in scenes]))
        return tensor_of(drawn), weights, token_ids(self._tokenizer, captions)

    def loss(self, painter: Painter, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of one batch."""
        pixels, *others = batch
        weights, ids = (part.to(self._workshop.device, non_blocking=True) for part in others)
        with torch.no_grad(), self._workshop.autocast():
            mean = self._vae.encode(in_unit(pixels, self._workshop)).latent_dist.mean
        x_0 = (mean.float() * self._vae.config.scaling_factor).repeat(2, 1, 1, 1)
        timesteps = self._timesteps(len(x_0))
        alpha = self._alphas[timesteps].sqrt().view(-1, 1, 1, 1)
        sigma = (1 - self._alphas[timesteps]).sqrt().view(-1, 1, 1, 1)
        eps = torch.randn_like(x_0)
        noised = (alpha * x_0 + sigma * eps).to(memory_format=torch.channels_last)
        with self._workshop.autocast():
            v = painter(noised, timesteps, ids)
        error = (v.float() - (alpha * eps - sigma * x_0)).square()
        return (weights.repeat(2, 1, 1)[:, None] * error).mean(), {"error": error.detach().mean()}

    def _timesteps(self, count: int) -> Tensor:
        anywhere = torch.rand(count) >= MIDDLE_PART
        spread = (torch.randperm(count) + torch.rand(count)) / count
        first, last = MIDDLE
        chosen = torch.where(anywhere, spread * len(self._alphas), first + spread * (last - first))
        return chosen.long().to(self._workshop.device)


def trained(
    reader: Reader,
    teacher: Teacher,
    workshop: Workshop,
    *,
    on_look: Callable[[Painter, int], None],
) -> Painter:
    """Return the trained networks; `on_look` gets their averages at intervals and at the end.

    While the UNet learns where to look, it is given what it should see. The text encoder stays as it is.
    """
    unet = build_unet()
    routes.hand_contents(unet, reader)
    painter = Painter(reader.encoder.requires_grad_(False), unet)
    painter = _told(painter, teacher, routes.COURSE, workshop, given=True)
    return _told(painter, teacher, COURSE, workshop, given=False, on_look=on_look)


def _told(
    painter: Painter,
    teacher: Teacher,
    course: Course,
    workshop: Workshop,
    *,
    given: bool,
    on_look: Callable[[Painter, int], None] | None = None,
) -> Painter:
    """Return a painter that learnt pictures and where to look."""
    loss = routes.Routes(painter.unet, given=given).added_to(teacher.loss)
    painter.unet.to(memory_format=torch.channels_last)
    learnt = taught(painter, course, workshop, make=teacher.make, loss=loss, on_look=on_look)
    plain = build_unet()
    plain.load_state_dict(learnt.unet.state_dict())
    return Painter(learnt.encoder, plain).to(workshop.device).eval()

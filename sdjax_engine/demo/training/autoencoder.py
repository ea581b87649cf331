"""The demo checkpoint's `AutoencoderKL`: 160×160×3 to 20×20×4 and back.

The autoencoder begins as means of 8×8 pixels (`autoencoder_start`). Its loss is the L1 error of the details,
which the means do not have, a quarter of that of the means, the L1 error of the picture's differences
(edges), and a tiny KL term. With the plain L1 error, every step moves all colours to and fro, and details
come late.

No picture is drawn twice. Most batches are crops of a quarter of the area around things: the fully
convolutional network learns as well from them, for a quarter of the time.
"""

from __future__ import annotations

import numpy as np
import torch
from diffusers import AutoencoderKL
from PIL import Image
from torch import Tensor, nn

from sdjax_engine.demo.drawing import SIDE, Sprites, draw
from sdjax_engine.demo.scenes import Scene, sample_scene
from sdjax_engine.demo.training.autoencoder_start import start_as_means
from sdjax_engine.demo.training.loop import Course, Workshop, taught

COURSE = Course(
    name="autoencoder", part=0.15, pictures=31_000, batch=16, rate=4e-4, decay=0.995, weight_decay=1e-4
)
KL_WEIGHT, EDGE_WEIGHT, MEANS_WEIGHT = 1e-4, 0.5, 0.25
FACTOR = 8
CROP = SIDE // 2
WHOLE_PART = 0.15
WHOLE_SHARE = 4
"""A batch of whole pictures has this part of the pictures of a batch of crops, for about the same time."""


def build() -> AutoencoderKL:
    """Return the untrained autoencoder, of a million and a half parameters."""
    torch.manual_seed(0)
    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(16, 32, 64, 96),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=1,  # with more groups, the colour of an even ground is normalised away sooner
        mid_block_add_attention=False,
        sample_size=SIDE,
    )
    start_as_means(model)
    return model


def tensor_of(pictures: list[Image.Image]) -> Tensor:
    """Return pictures of one size as uint8 `(n, height, width, 3)`."""
    return torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures]))


def in_unit(pixels: Tensor, workshop: Workshop) -> Tensor:
    """Return uint8 pictures as float32 `(n, 3, height, width)` in [-1, 1] on the device, channels last."""
    return pixels.to(workshop.device, non_blocking=True).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def crop_around_a_thing(picture: Image.Image, scene: Scene, rng: np.random.Generator) -> Image.Image:
    """Return a crop whose middle is near the middle of one of the things."""
    placed = scene.placed[int(rng.integers(len(scene.placed)))]
    middle = (np.array(placed.place) + rng.normal(0, 0.12, 2)) * SIDE
    left, top = np.clip(np.round(middle - CROP / 2), 0, SIDE - CROP).astype(int).tolist()
    return picture.crop((left, top, left + CROP, top + CROP))


def loss_of(model: AutoencoderKL, x: Tensor, workshop: Workshop) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the training loss of one batch, and its plain L1 error."""
    x = in_unit(x, workshop)
    with workshop.autocast():
        posterior = model.encode(x).latent_dist
        y = model.decode(posterior.sample()).sample
    y, mean, logvar = y.float(), posterior.mean.float(), posterior.logvar.float()
    error = y - x
    of_means = nn.functional.avg_pool2d(error, FACTOR)
    details = error - nn.functional.interpolate(of_means, scale_factor=FACTOR, mode="bilinear")
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    kl = 0.5 * (mean.square() + logvar.exp() - 1.0 - logvar).mean()
    value = details.abs().mean() + MEANS_WEIGHT * of_means.abs().mean()
    value = value + EDGE_WEIGHT * edges + KL_WEIGHT * kl
    return value, {"l1": error.detach().abs().mean(), "edges": edges.detach()}


def trained(sprites: Sprites, workshop: Workshop) -> AutoencoderKL:
    """Return the autoencoder, with `scaling_factor` set to 1 / the latents' standard deviation."""

    def make(rng: np.random.Generator, count: int) -> Tensor:
        whole = rng.random() < WHOLE_PART
        scenes = [sample_scene(rng) for _ in range(count // WHOLE_SHARE if whole else count)]
        drawn = [draw(scene, sprites, rng) for scene in scenes]
        if whole:
            return tensor_of(drawn)
        pairs = zip(drawn, scenes, strict=True)
        return tensor_of([crop_around_a_thing(picture, scene, rng) for picture, scene in pairs])

    model = taught(build(), COURSE, workshop, make=make, loss=lambda model, x: loss_of(model, x, workshop))
    rng = np.random.default_rng(1)
    with torch.no_grad():
        drawn = tensor_of([draw(sample_scene(rng), sprites, rng) for _ in range(128)])
        spread = torch.cat(
            [model.encode(in_unit(each, workshop)).latent_dist.mean for each in drawn.split(16)]
        )
    model.register_to_config(scaling_factor=round(1.0 / spread.std().item(), 5))
    return model

"""Trains the demo checkpoint from random weights and writes it in the diffusers layout.

    python -m sdjax_engine.demo.training OUT --minutes 75

Parts that are already in OUT (`vae`, `text_encoder_schooled`, `scenes.pt`) are read and not made again.
Every few hundred steps the averaged weights are written to OUT as a complete checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTokenizer

from sdjax_engine.demo.training import autoencoder, denoiser, text
from sdjax_engine.demo.training.latents import LatentScenes, encode_scenes


def trained_autoencoder(out: Path, *, steps: int) -> AutoencoderKL:
    if not (out / "vae").exists():
        autoencoder.train(steps=steps, batch=32, rate=1.5e-3, seed=0).save_pretrained(out / "vae")
    return AutoencoderKL.from_pretrained(out / "vae").eval().requires_grad_(False)


def schooled_encoder(out: Path, *, steps: int) -> tuple[CLIPTextModel, CLIPTokenizer]:
    tokenizer = text.write_tokenizer(out / "tokenizer")
    folder = out / "text_encoder_schooled"
    if not folder.exists():
        encoder = text.build_encoder(tokenizer)
        text.school(encoder, tokenizer, steps=steps)
        encoder.save_pretrained(folder)
    return CLIPTextModel.from_pretrained(folder), tokenizer


def latent_scenes(out: Path, vae: AutoencoderKL, *, count: int) -> LatentScenes:
    file = out / "scenes.pt"
    if not file.exists():
        encode_scenes(vae, count=count).save(file)
    return LatentScenes.load(file)


def starting_unet(out: Path, *, resume: bool) -> UNet2DConditionModel:
    torch.manual_seed(3)
    if resume:
        return UNet2DConditionModel.from_pretrained(out / "checkpoint" / "unet").train()
    return denoiser.build_unet()


def main() -> None:
    """Train every part in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--autoencoder-steps", type=int, default=2500)
    parser.add_argument("--school-steps", type=int, default=1000)
    parser.add_argument("--scenes", type=int, default=24_000)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--minutes", type=float, default=75.0, help="longest time for the denoiser")
    parser.add_argument("--resume", action="store_true", help="go on from the UNet in OUT/checkpoint")
    options = parser.parse_args()
    out: Path = options.out
    vae = trained_autoencoder(out, steps=options.autoencoder_steps)
    encoder, tokenizer = schooled_encoder(out, steps=options.school_steps)
    data = latent_scenes(out, vae, count=options.scenes)
    unet = starting_unet(out, resume=options.resume)
    print(f"{sum(p.numel() for p in unet.parameters()):,} parameters in the UNet", flush=True)

    def write_checkpoint(averaged: UNet2DConditionModel) -> None:
        pipeline = StableDiffusionPipeline(
            vae=vae,
            text_encoder=encoder,
            tokenizer=tokenizer,
            unet=averaged,
            scheduler=denoiser.build_scheduler(),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        pipeline.save_pretrained(out / "checkpoint")

    reader = denoiser.CaptionEncodings(encoder, tokenizer)
    denoiser.train(
        unet, reader, data, steps=options.steps, minutes=options.minutes, on_average=write_checkpoint
    )


if __name__ == "__main__":
    main()

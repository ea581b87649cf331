"""Trains the demo checkpoint from nothing and writes it in diffusers layout.

    python -m sdjax_engine.demo.training OUT --minutes 75

Parts that OUT already holds (`vae`, `tokenizer`, `text_encoder_schooled`) are read, not trained
again. Every few hundred steps the averaged weights are written to OUT as a whole checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline
from transformers import CLIPTextModel, CLIPTokenizer

from sdjax_engine.demo.training import autoencoder, denoiser, text
from sdjax_engine.demo.training.latents import encode_scenes


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


def write_checkpoint(
    out: Path, painter: denoiser.Painter, vae: AutoencoderKL, tokenizer: CLIPTokenizer
) -> None:
    """Write the whole checkpoint to `out / "checkpoint"`, weights in bfloat16."""
    pipeline = StableDiffusionPipeline(
        vae=vae,
        text_encoder=painter.encoder,
        tokenizer=tokenizer,
        unet=painter.unet,
        scheduler=denoiser.build_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(out / "checkpoint")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--autoencoder-steps", type=int, default=2500)
    parser.add_argument("--school-steps", type=int, default=1600)
    parser.add_argument("--scenes", type=int, default=40_000)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--minutes", type=float, default=75.0, help="longest time for the denoiser")
    options = parser.parse_args()
    vae = trained_autoencoder(options.out, steps=options.autoencoder_steps)
    encoder, tokenizer = schooled_encoder(options.out, steps=options.school_steps)
    data = encode_scenes(vae, count=options.scenes)
    torch.manual_seed(3)
    painter = denoiser.Painter(encoder.train(), denoiser.build_unet())
    print(f"{sum(p.numel() for p in painter.unet.parameters()):,} parameters in the UNet", flush=True)
    denoiser.train(
        painter,
        tokenizer,
        data,
        steps=options.steps,
        minutes=options.minutes,
        on_average=lambda averaged: write_checkpoint(options.out, averaged, vae, tokenizer),
    )


if __name__ == "__main__":
    main()

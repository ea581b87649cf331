"""Trains the demo checkpoint from random weights and writes it in the diffusers layout.

    python -m sdjax_engine.demo.training [--state FOLDER] [--minutes M] [--threads N]

The stages follow each other: the autoencoder, the text encoder, what its last tokens say of the places of a
picture, where the denoiser looks for that, the denoiser, the LoRA, the picture classifier. A stopped training
goes on where its state was kept last, minutes earlier at most. With --minutes, each stage ends after its
part of the time, however many pictures it has had. With an accelerator that torch knows, batches are larger.
The pictures of the objects are fetched with npm.

FOLDER/checkpoint has the denoiser's running average from its first minutes on, FOLDER/samples what it paints,
and FOLDER/log.jsonl the figures.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline
from transformers import CLIPTokenizer

from sdjax_engine.demo.drawing import Sprites
from sdjax_engine.demo.training import autoencoder, classifier, denoiser, layout, lora, text
from sdjax_engine.demo.training.loop import Workshop
from sdjax_engine.demo.training.samples import write_samples
from sdjax_engine.demo.training.sprites import fetch_sprites

FOLDER = Path(".demo-training")


def workshop_in(folder: Path, minutes: float | None = None, threads: int = 1) -> Workshop:
    """Return the workshop on an accelerator, or on one thread of a CPU that others use too, or on more."""
    folder.mkdir(parents=True, exist_ok=True)
    if torch.accelerator.is_available():
        drawers = max((os.cpu_count() or 2) - 1, 1)
        device = torch.accelerator.current_accelerator()
        torch.set_float32_matmul_precision("high")
        return Workshop(folder=folder, device=device, drawers=drawers, minutes=minutes)
    torch.set_num_threads(threads)
    torch.backends.cuda.enable_flash_sdp(False)  # of a CPU's attention too, whose backward pass is slow
    return Workshop(folder=folder, device=torch.device("cpu"), minutes=minutes)


def main() -> None:
    """Train every part in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, help="the time for all stages together")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU")
    options = parser.parse_args()
    workshop = workshop_in(options.state, options.minutes, options.threads)
    sprites = Sprites(fetch_sprites(workshop.folder / "sprites"))
    vae = autoencoder.trained(sprites, workshop)
    tokenizer = text.write_tokenizer(workshop.folder / "tokenizer")
    encoder = text.schooled(tokenizer, workshop)
    reader = layout.taught_places(encoder, vae, tokenizer, sprites, workshop)
    teacher = denoiser.Teacher(vae, tokenizer, sprites, workshop)

    def write_checkpoint(painter: denoiser.Painter, step: int) -> None:
        pipeline = StableDiffusionPipeline(
            vae=vae,
            text_encoder=painter.encoder,
            tokenizer=CLIPTokenizer.from_pretrained(workshop.folder / "tokenizer"),
            unet=painter.unet,
            scheduler=denoiser.build_scheduler(),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        pipeline.save_pretrained(workshop.folder / "checkpoint")
        write_samples(pipeline, workshop.folder / "samples", step)

    painter = denoiser.trained(reader, teacher, workshop, on_look=write_checkpoint)
    in_gold = denoiser.Teacher(vae, tokenizer, sprites, workshop, finish=lora.gold)
    lora.write_lora(painter, in_gold, workshop, workshop.folder / "lora")
    classifier.write_classifier(sprites, workshop, workshop.folder / "classifier")


if __name__ == "__main__":
    main()
